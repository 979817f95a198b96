"""What a bundle is fed, found without torch: the same bytes as the reference's, whatever the inputs are."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import cortado
from cortado.artifact.feeding import fed
from cortado.base.arrays import ArrayType


class Pair(nn.Module):
    """A picture and a row of numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, image: Tensor, bias: Tensor) -> Tensor:
        return torch.cat([self.conv(image).mean((2, 3)), torch.relu(bias)], 1)


class Words(nn.Module):
    """Integers."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(20, 8), nn.Linear(8, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.table(tokens).mean(1))


def pairs(count: int) -> list[tuple[Tensor, ...]]:
    return [(torch.randn(1, 3, 8, 8), torch.randn(1, 5)) for _ in range(count)]


@pytest.mark.cases(1)
@pytest.mark.parametrize("io", ["int8", "float"])
@pytest.mark.parametrize("kind", [Pair, Words])
def test_it_is_what_the_reference_says(kind: type[nn.Module], io: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    data = pairs(4) if kind is Pair else [(torch.randint(20, (1, 6)),) for _ in range(4)]
    options = cortado.Options(artifacts="c", io=io)
    compiled = cortado.compile(kind().eval(), data[0], target="cortex-m4", calibration=data, options=options)
    artifact = compiled.save(tmp_path / "model")
    for sample in data:
        given = [value.numpy() for value in sample]
        _same(artifact.feed(given), [fed(*pair) for pair in zip(artifact.report.inputs, given, strict=True)])


def _same(wanted: list[ArrayType], found: list[ArrayType]) -> None:
    for a, b in zip(wanted, found, strict=True):
        assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())


def test_halves_go_to_the_even_code_and_everything_to_some_code(tmp_path: Path) -> None:
    """Values between two codes, far outside, and codes themselves."""
    torch.manual_seed(0)
    data = [(torch.randn(1, 512),) for _ in range(4)]
    compiled = cortado.compile(nn.Linear(512, 2).eval(), data[0], target="cortex-m4", calibration=data)
    artifact = compiled.save(tmp_path / "model")
    (tensor,) = artifact.report.inputs
    assert tensor.scale is not None
    halves = (np.arange(512) - 256).astype(np.float32)[None] / 2 * np.float32(tensor.scale)
    codes = np.resize(np.arange(-128, 128), (1, 512)).astype(np.int8)
    for value in (halves, halves * np.float32(1e6), np.full((1, 512), 3e38, np.float32), codes):
        _same(artifact.feed([value]), [fed(tensor, value)])
