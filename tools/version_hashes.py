"""Prints the hash of the C of a few small networks; run by tools/versions.py with several versions of torch."""

import hashlib
import tempfile
import warnings
from pathlib import Path

import torch
from torch import Tensor, nn

import cortado


class Attention(nn.Module):
    """Self-attention with a residual and a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)
        self.norm = nn.LayerNorm(16)

    def forward(self, x: Tensor) -> Tensor:
        seen, _ = self.attention(x, x, x, need_weights=False)
        normed: Tensor = self.norm(x + seen)
        return normed


class Recurrent(nn.Module):
    """A GRU, its last step classified."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(8, 12, batch_first=True)
        self.head = nn.Linear(12, 3)

    def forward(self, x: Tensor) -> Tensor:
        steps, _ = self.gru(x)
        scores: Tensor = self.head(steps[:, -1]).softmax(-1)
        return scores


class Counter(nn.Module):
    """A mean that decays, in a buffer."""

    mean: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(1, 6))

    def forward(self, x: Tensor) -> Tensor:
        self.mean.mul_(0.9).add_(0.1 * x)
        return self.mean.relu()


def c_hash(model: nn.Module, shape: tuple[int, ...]) -> str:
    """The hash of all C files of a model that is compiled for a Cortex-M4."""
    drawn = torch.Generator().manual_seed(1)
    calibration = [(torch.randn(shape, generator=drawn),) for _ in range(32)]
    options = cortado.Options(artifacts="c")
    compiled = cortado.compile(
        model.eval(), calibration[0], calibration=calibration, target="cortex-m4", options=options
    )
    found = hashlib.sha256()
    with tempfile.TemporaryDirectory() as folder:
        compiled.save(Path(folder) / "model")
        for path in sorted(Path(folder).rglob("*.[ch]")):
            found.update(path.read_bytes())
    return found.hexdigest()[:16]


def main() -> None:
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    convolution = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 4))
    networks: list[tuple[str, nn.Module, tuple[int, ...]]] = [
        ("convolution", convolution, (1, 3, 8, 8)),
        ("attention", Attention(), (1, 10, 16)),
        ("recurrent", Recurrent(), (1, 9, 8)),
        ("state", Counter(), (1, 6)),
    ]
    for name, model, shape in networks:
        print(name, c_hash(model, shape))


if __name__ == "__main__":
    main()
