"""Which of 40 small networks have a .pte of ExecuTorch's operators, and which of these in a form of its own.

python benchmarks/pte_coverage.py [--json]
"""

import argparse
import json
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

import cortado

F = nn.functional
TARGET = "cortex-m55"


class Around(nn.Module):
    """A function of tensors with the layers that it reads."""

    def __init__(self, function: Callable[..., Any], **layers: nn.Module) -> None:
        super().__init__()
        self.function = function
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, *x: Tensor) -> Any:
        return self.function(self, *x)


class Kept(nn.Module):
    """A buffer that each call changes, in front of a linear layer."""

    def __init__(self, change: Callable[[Tensor, Tensor], Tensor], size: int, start: float = 0.0) -> None:
        super().__init__()
        self.change, self.head = change, nn.Linear(size, 3)
        self.register_buffer("kept", torch.full((1, size), start))
        self.kept: Tensor

    def forward(self, x: Tensor) -> Tensor:
        self.kept.copy_(self.change(self.kept, x))
        found: Tensor = self.head(self.kept)
        return found


def _seq(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(*layers)


def _attention(s: Any, x: Tensor) -> Tensor:
    q, k, v = s.qkv(x).chunk(3, -1)
    return s.out(F.scaled_dot_product_attention(q, k, v)) + x


def _excited(s: Any, x: Tensor) -> Tensor:
    y = s.conv(x)
    return y * torch.sigmoid(s.up(torch.relu(s.down(y.mean((2, 3)))))).reshape(1, -1, 1, 1)


def _causal(s: Any, x: Tensor) -> Tensor:
    q, k, v = s.qkv(x).chunk(3, -1)
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


ROW, TIME, IMAGE = (1, 8), (1, 12, 8), (1, 4, 10, 10)
NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear": (lambda: _seq(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)), ROW),
    "linear, GELU": (lambda: _seq(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)), ROW),
    "linear, softmax": (lambda: _seq(nn.Linear(8, 6), nn.Softmax(-1)), ROW),
    "linear, log_softmax": (lambda: _seq(nn.Linear(8, 6), nn.LogSoftmax(-1)), ROW),
    "gated linear": (lambda: _seq(nn.Linear(8, 16), nn.GLU(), nn.Linear(8, 4)), ROW),
    "residual linear": (lambda: Around(lambda s, x: x + torch.tanh(s.a(x)), a=nn.Linear(8, 8)), ROW),
    "conv": (lambda: _seq(nn.Conv2d(4, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 4)), IMAGE),
    "conv, batch norm": (lambda: _seq(nn.Conv2d(4, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.SiLU()), IMAGE),
    "depthwise": (lambda: _seq(nn.Conv2d(4, 4, 3, 1, 1, groups=4), nn.ReLU6(), nn.Conv2d(4, 8, 1)), IMAGE),
    "grouped": (lambda: _seq(nn.Conv2d(4, 8, 3, 1, 1, groups=2), nn.Hardswish()), IMAGE),
    "dilated": (lambda: _seq(nn.Conv2d(4, 8, 3, dilation=2), nn.ReLU()), IMAGE),
    "average pool": (lambda: _seq(nn.Conv2d(4, 8, 3), nn.AvgPool2d(3, 2, 1), nn.AdaptiveAvgPool2d(1)), IMAGE),
    "transposed conv": (lambda: _seq(nn.Conv2d(4, 8, 3, 2, 1), nn.ConvTranspose2d(8, 4, 4, 2, 1)), IMAGE),
    "conv, nearest": (lambda: _seq(nn.Conv2d(4, 4, 3), nn.Upsample(scale_factor=2), nn.Conv2d(4, 2, 3)), IMAGE),
    "conv, bilinear": (lambda: _seq(nn.Conv2d(4, 4, 3), nn.Upsample(scale_factor=2, mode="bilinear")), IMAGE),
    "pixel shuffle": (lambda: _seq(nn.Conv2d(4, 8, 3, 1, 1), nn.PixelShuffle(2)), IMAGE),
    "squeeze and excite": (
        lambda: Around(_excited, conv=nn.Conv2d(4, 8, 3), down=nn.Linear(8, 4), up=nn.Linear(4, 8)),
        IMAGE,
    ),
    "conv1d": (lambda: _seq(nn.Conv1d(12, 8, 3, padding=1), nn.ReLU(), nn.Conv1d(8, 4, 3)), TIME),
    "layer norm": (lambda: _seq(nn.Linear(8, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 3)), ROW),
    "layer norm of rows": (lambda: _seq(nn.LayerNorm(8), nn.Linear(8, 8), nn.GELU()), TIME),
    "RMS norm": (lambda: _seq(nn.Linear(8, 16), nn.RMSNorm(16), nn.Linear(16, 3)), ROW),
    "group norm": (lambda: _seq(nn.Conv2d(4, 8, 3), nn.GroupNorm(2, 8), nn.ReLU()), IMAGE),
    "group norm of one": (lambda: _seq(nn.Conv2d(4, 8, 3), nn.GroupNorm(1, 8), nn.Conv2d(8, 4, 1)), IMAGE),
    "instance norm": (lambda: _seq(nn.Conv2d(4, 8, 3), nn.InstanceNorm2d(8, affine=True), nn.ReLU()), IMAGE),
    "instance norm of rows": (lambda: _seq(nn.Conv1d(12, 4, 3), nn.InstanceNorm1d(4, affine=True)), TIME),
    "normalized": (lambda: Around(lambda s, x: F.normalize(s.a(x), dim=-1), a=nn.Linear(8, 8)), ROW),
    "attention": (lambda: Around(_attention, qkv=nn.Linear(8, 24), out=nn.Linear(8, 8)), TIME),
    "attention, layer norm": (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), TIME),
    "causal attention": (lambda: Around(_causal, qkv=nn.Linear(8, 24)), TIME),
    "moving average": (lambda: Kept(lambda old, x: 0.75 * old + 0.25 * x, 8), ROW),
    "moving maximum": (lambda: Kept(lambda old, x: torch.maximum(0.9 * old, x), 8), ROW),
    "running sum, bounded": (lambda: Kept(lambda old, x: (old + x).clamp(-4, 4), 8), ROW),
    "last input": (lambda: Kept(lambda old, x: torch.tanh(x) - 0.1 * old, 8), ROW),
    "leaky, at one": (lambda: Kept(lambda old, x: 0.5 * old + 0.5 * torch.relu(x) + 0.1, 8, 1.0), ROW),
    "gated state": (lambda: Kept(lambda old, x: torch.sigmoid(x) * old + (1 - torch.sigmoid(x)) * x, 8), ROW),
    "ring": (lambda: Kept(lambda old, x: torch.cat([old[:, 2:], x[:, :2]], 1), 8), ROW),
    "LSTM": (lambda: Around(lambda s, x: s.cell(x)[0], cell=nn.LSTM(8, 6, batch_first=True)), TIME),
    "GRU": (lambda: Around(lambda s, x: s.cell(x)[0], cell=nn.GRU(8, 6, batch_first=True)), TIME),
    "LSTM cell": (lambda: Around(lambda s, x: s.cell(x)[0], cell=nn.LSTMCell(8, 6)), ROW),
    "top three": (lambda: Around(lambda s, x: torch.topk(s.a(x), 3).values, a=nn.Linear(8, 8)), ROW),
}


def measure(name: str) -> dict[str, Any]:
    torch.manual_seed(0)
    make, shape = NETWORKS[name]
    data = [(torch.randn(shape),) for _ in range(32)]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            report = cortado.compile(make().eval(), data[0], TARGET, data, name="network").report
    except cortado.CortadoError as error:
        return {"network": name, "c": False, "pte": False, "form": False, "why": str(error)}
    form = report.pte_form is not None
    return {
        "network": name,
        "c": True,
        "pte": report.pte is not None,
        "form": form,
        "why": "; ".join(report.pte_missing),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    rows = [measure(name) for name in NETWORKS]
    if asked.json:
        print(json.dumps(rows, indent=1))
        return
    for row in rows:
        kind = (
            "as the C bundle has it" if row["pte"] and not row["form"] else "a form of its own" if row["pte"] else "-"
        )
        print(f"{row['network']:24} {kind:24} {row['why'][:120]}")
    found = [row for row in rows if row["pte"]]
    print(
        f"{len(rows)} networks, {sum(row['c'] for row in rows)} in C, {len(found)} as .pte, of these "
        f"{sum(row['form'] for row in found)} in a form of their own"
    )


if __name__ == "__main__":
    main()
