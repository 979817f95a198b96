"""Input values half-way between two codes, which ExecuTorch's quantize for MVE rounds once: scales that leave none,
warnings where they stay, and a runtime of this machine that gives what the core would."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.ao.quantization.fx._decomposed
from torch import nn

from cortado.api import Model, Options, prepare
from cortado.base.arrays import ArrayType
from cortado.base.errors import CortadoError
from cortado.base.findings import FindingKind
from cortado.ops.io.quantize import QUANTIZE

pytestmark = pytest.mark.filterwarnings("ignore::cortado.base.errors.CortadoWarning")

Tensor = torch.Tensor
MINMAX = Options(calibration_method="minmax")  # type: ignore[arg-type]
PIXELS = torch.arange(256.0)
SCALE, ZERO_POINT = 2 / 255, -1  # of images from -1 to 1


def images(pixels: Tensor, count: int, seed: int) -> list[tuple[Tensor]]:
    """Each with every value of a pixel, in an order of its own."""
    generator = torch.Generator().manual_seed(seed)
    return [(pixels[torch.randperm(256, generator=generator)].reshape(1, 1, 16, 16),) for _ in range(count)]


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(1, 4, 3), nn.Conv2d(4, 2, 3)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.last(torch.relu(self.first(x)))
        return y


class Border(nn.Module):
    """Quantized before it came: nothing but the step to int8 and back, in a scale that was chosen elsewhere."""

    def forward(self, x: Tensor) -> Tensor:
        q = torch.ops.quantized_decomposed
        codes = q.quantize_per_tensor(x, SCALE, ZERO_POINT, -128, 127, torch.int8)
        y: Tensor = q.dequantize_per_tensor(codes, SCALE, ZERO_POINT, -128, 127, torch.int8)
        return y


def seeded(kind: type[nn.Module]) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(3)
        return kind().eval()


def input_scale(model: Model) -> tuple[float, int]:
    pte = model.compile("cortex-m55").pte_graph
    assert pte is not None
    (call,) = [call for call in pte.calls if call.operator == QUANTIZE.name]
    return float(call.arguments["scale"]), int(call.arguments["zero_point"])


def unfused(values: ArrayType, scale: float, zero_point: int) -> ArrayType:
    """As all kernels but one do: the product is a float, and that is rounded."""
    product = values * (np.float32(1) / np.float32(scale))
    return np.clip(np.round(product).astype(np.int64) + zero_point, -128, 127).astype(np.int8)


def fused(values: ArrayType, scale: float, zero_point: int) -> ArrayType:
    """As a vector of MVE: the exact product, a float64, is rounded once."""
    product = values.astype(np.float64) * np.float64(np.float32(1) / np.float32(scale))
    return np.clip(np.round(product).astype(np.int64) + zero_point, -128, 127).astype(np.int8)


SPELLINGS = {
    "k / 127.5 - 1": PIXELS / 127.5 - 1,
    "k / 255 * 2 - 1": PIXELS / 255 * 2 - 1,
    "(k / 255 - 0.5) / 0.5": (PIXELS / 255 - 0.5) / 0.5,
}


@pytest.mark.cases(1)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_images_get_a_scale_without_ties(spelling: str) -> None:
    pixels = SPELLINGS[spelling]
    values = pixels.numpy()
    differ = (unfused(values, SCALE, ZERO_POINT) != fused(values, SCALE, ZERO_POINT)).sum()
    assert differ >= 30  # what a scale of (high - low) / 255 would do
    data = images(pixels, 32, seed=1)
    model = prepare(seeded(Network), data[0], data, options=MINMAX)
    scale, zero_point = input_scale(model)
    assert SCALE < scale <= SCALE * 1.017
    assert np.array_equal(unfused(values, scale, zero_point), fused(values, scale, zero_point))
    assert model.quantized.tied == ()


@pytest.mark.cases(1)
@pytest.mark.host
@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m55", "cortex-m"])
def test_images_have_the_same_bits_on_every_core(target: str) -> None:
    data = images(SPELLINGS["k / 127.5 - 1"], 32, seed=1)
    compiled = prepare(seeded(Network), data[0], data, options=MINMAX).compile(target)
    assert FindingKind.TIED_INPUT not in {finding.kind for finding in compiled.report.warnings}
    fresh = torch.cat([image for (image,) in images(SPELLINGS["k / 127.5 - 1"], 8, seed=2)])
    assert compiled.run(fresh, on="executorch").bit_exact


def test_values_from_a_continuum_keep_the_scale_of_their_range() -> None:
    generator = torch.Generator().manual_seed(5)
    data = [(torch.rand(1, 1, 16, 16, generator=generator) * 3 - 1,) for _ in range(40)]
    scale, _ = input_scale(prepare(seeded(Network), data[0], data, options=MINMAX))
    low, high = min(float(x.min()) for (x,) in data), max(float(x.max()) for (x,) in data)
    assert scale == float(torch.tensor(high - low) / 255)


@pytest.mark.parametrize(("target", "warned"), [("cortex-m4", False), ("cortex-m55", True), ("cortex-m", True)])
def test_ties_that_stay_are_told_where_a_core_may_have_mve(target: str, warned: bool) -> None:
    data = images(SPELLINGS["k / 127.5 - 1"], 32, seed=1)
    model = prepare(seeded(Border), data[0], data)
    (tied,) = model.quantized.tied
    assert (tied.position, tied.values) == (0, 256)
    assert 30 < tied.ties < 128
    findings = [one for one in model.compile(target).report.warnings if one.kind is FindingKind.TIED_INPUT]
    assert bool(findings) == warned
    if warned:
        assert f"{tied.ties} of 256 different values of input 0" in findings[0].text
        with pytest.raises(CortadoError, match="half-way between two codes"):
            model.compile(target, replace(MINMAX, strict=True))


@pytest.mark.host
def test_the_runtime_here_gives_what_a_core_with_mve_would() -> None:
    """Blocks of 16 values as a vector does, the rest one by one; beyond 16 bits a code wraps. Not so on an M4."""
    values = torch.cat([SPELLINGS["k / 127.5 - 1"], torch.tensor([300.0, -300.0] + 14 * [0.0])])
    values = torch.cat([values, SPELLINGS["k / 127.5 - 1"][:15]])  # less than a block
    model = prepare(seeded(Border), [values], [])
    blocks = values[:-15].numpy()
    plain = unfused(values.numpy(), SCALE, ZERO_POINT)
    expected = plain.copy()
    expected[: len(blocks)] = fused(blocks, SCALE, ZERO_POINT)
    wrapped = np.round(blocks[256:258] / SCALE).astype(np.int64).astype(np.int16) + ZERO_POINT
    assert (np.abs(blocks[256:258] / SCALE) > 32768).all()
    expected[256:258] = np.clip(wrapped, -128, 127)
    assert (expected != plain).sum() > 30
    for target, wanted in (("cortex-m55", expected), ("cortex-m4", plain), ("cortex-m", plain)):
        checked = model.compile(target).run(values, on="executorch")
        found = np.round(checked.outputs[0] / np.float32(SCALE)).astype(np.int64) + ZERO_POINT
        assert np.array_equal(found, wanted), target
        assert checked.bit_exact == (wanted is plain)
