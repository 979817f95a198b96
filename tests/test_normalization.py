"""Normalization by the data's own statistics, and attention: in integers, close to the float model, bit-exact in C."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from cortado import api
from cortado.errors import CortadoError
from cortado.lowered import reference_outputs
from cortado.target import from_target_string

Tensor = torch.Tensor
M4 = from_target_string("cortex-m4")


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.MultiheadAttention(16, 4, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.heads(x, x, x, need_weights=False)[0]
        return y


class Masked(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)


MODELS: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "layer norm": (nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16)), (1, 5, 16)),
    "layer norm over two dimensions": (nn.LayerNorm([3, 4]), (2, 3, 4)),
    "layer norm without weights": (nn.LayerNorm(8, elementwise_affine=False), (4, 8)),
    "group norm": (nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.ReLU()), (1, 3, 8, 8)),
    "instance norm": (nn.Sequential(nn.Conv2d(3, 8, 3), nn.InstanceNorm2d(8, affine=True)), (1, 3, 8, 8)),
    "attention": (Attention(), (1, 6, 16)),
    "transformer layer": (nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), (1, 6, 16)),
}


def model_of(name: str) -> tuple[nn.Module, list[tuple[Tensor]]]:
    """Weights and biases that do something, and inputs."""
    torch.manual_seed(0)
    model, shape = MODELS[name]
    for module in model.modules():
        if isinstance(module, nn.LayerNorm | nn.GroupNorm | nn.InstanceNorm2d) and module.weight is not None:
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.uniform_(module.bias, -0.5, 0.5)
    return model.eval(), [(torch.randn(shape),) for _ in range(8)]


@pytest.mark.host
@pytest.mark.parametrize("name", MODELS)
def test_in_integers_and_close(name: str, tmp_path: Path) -> None:
    model, batches = model_of(name)
    compiled = api.prepare(model, batches[0], batches, name="model").compile(M4)
    assert compiled.report()["float_operators"] == []
    assert compiled.graph is not None
    found = torch.cat([reference_outputs(compiled.graph, batch)[0].flatten() for batch in batches])
    wanted = torch.cat([model(*batch).detach().flatten() for batch in batches])
    noise = (found - wanted).square().sum()
    assert 10 * np.log10(float(wanted.square().sum() / noise)) > 28
    samples = [[batch[0].numpy()] for batch in batches]
    artifact = compiled.save(tmp_path / "model")
    assert artifact.run(samples, "host").bit_exact
    assert artifact.run(samples[:1], "executorch").bit_exact


@pytest.mark.qemu
@pytest.mark.parametrize("target", ["cortex-m0plus", "cortex-m55"])
def test_a_transformer_layer_on_boards(target: str, tmp_path: Path) -> None:
    model, batches = model_of("transformer layer")
    compiled = api.prepare(model, batches[0], batches, name="model").compile(from_target_string(target))
    samples = [[batch[0].numpy()] for batch in batches[:2]]
    assert compiled.save(tmp_path / "model").run(samples, check_stores=True).bit_exact


def test_a_causal_mask_is_refused() -> None:
    x = torch.randn(1, 4, 8)
    with pytest.raises(CortadoError, match="scaled_dot_product_attention"):
        api.prepare(Masked(), (x,), [(x,)], name="masked").compile(M4)
