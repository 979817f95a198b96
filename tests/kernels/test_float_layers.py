"""Convolutions and linear layers in float32 that make several outputs at once: each a sum in its order, bit for bit."""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cortado.base import float32
from cortado.ops.conv import floats
from helpers.kernel_board import run_watched
from helpers.kernels import Calls, Ref

pytestmark = pytest.mark.qemu
Numbers = NDArray[np.float32]
INFINITY = float("inf")
# Loops for lists of words, for pairs of words, for vectors; without a float unit; built by clang.
BOARDS = [
    pytest.param("cortex-m4", "dsp", False, id="m4"),
    pytest.param("cortex-m7", "dsp", False, id="m7"),
    pytest.param("cortex-m55", "mve", False, id="m55"),
    pytest.param("cortex-m33", "dsp", False, id="m33", marks=pytest.mark.slow),
    pytest.param("cortex-m85", "mve", False, id="m85", marks=pytest.mark.slow),
    pytest.param("cortex-m4+nofp", "dsp", False, id="m4-nofp", marks=pytest.mark.slow),
    pytest.param("cortex-m55+nofp", "mve", False, id="m55-nofp", marks=pytest.mark.slow),
    pytest.param("cortex-m4", "dsp", True, id="m4-clang", marks=pytest.mark.slow),
    pytest.param("cortex-m55", "mve", True, id="m55-clang", marks=pytest.mark.slow),
]


@dataclass(frozen=True)
class Layer:
    """A row of outputs: its window, sizes and bounds."""

    in_c: int
    out_c: int
    kernel: tuple[int, int]
    in_w: int
    stride: int = 1
    pad: int = 0
    dilation: int = 1
    bounds: tuple[float, float] = (-INFINITY, INFINITY)

    @property
    def out_w(self) -> int:
        return (self.in_w + 2 * self.pad - self.dilation * (self.kernel[1] - 1) - 1) // self.stride + 1


LAYERS = (
    *(Layer(in_c, out_c, (1, 1), pixels)
      for in_c, out_c, pixels in itertools.product((1, 2, 7), (1, 8, 9, 16, 23), (1, 4))),
    Layer(33, 20, (1, 1), 3, bounds=(0.0, INFINITY)),
    Layer(3, 9, (3, 3), 6, pad=1),
    Layer(4, 16, (3, 3), 7, stride=2, pad=1, bounds=(-1.0, 6.0)),
    Layer(2, 24, (2, 5), 9, pad=2, dilation=2),
    Layer(5, 17, (1, 3), 4),
)  # fmt: skip


def numbers(rng: np.random.Generator, *shape: int) -> Numbers:
    """Numbers of any size, a few of them denormal or so small that products are."""
    size = np.where(rng.random(shape) < 0.05, -128.0, rng.uniform(-3, 3, shape))
    return (rng.standard_normal(shape) * np.exp2(size) * np.where(rng.random(shape) < 0.01, 2.0**-12, 1)).astype(
        np.float32
    )


@dataclass(frozen=True)
class Constants:
    """What a layer knows: weights, biases and, where weights are codes, what a code of each channel stands for."""

    weights: Numbers
    bias: Numbers
    scale: Numbers | None

    @property
    def stream(self) -> NDArray[Any]:
        if self.scale is None:
            return floats.pack_blocks(self.weights, self.bias)
        return floats.pack_codes(self.weights.astype(np.int8), self.bias, self.scale)


def constants(layer: Layer, rng: np.random.Generator, codes: bool) -> Constants:
    sizes, bias = (layer.out_c, *layer.kernel, layer.in_c), numbers(rng, layer.out_c)
    if codes:
        return Constants(rng.integers(-128, 128, sizes).astype(np.float32), bias, numbers(rng, layer.out_c))
    return Constants(numbers(rng, *sizes), bias, None)


def expected(layer: Layer, rows: Numbers, known: Constants, missing: int) -> Numbers:
    """Each output by itself: the bias, then one product after the other of the taps in the image. Of codes: one product
    after the other, times the scale, plus the bias."""
    start = known.bias if known.scale is None else np.zeros_like(known.bias)
    sums = np.empty((layer.out_w, layer.out_c), np.float32)
    for x in range(layer.out_w):
        taps = [
            (ky, kx, x * layer.stride - layer.pad + kx * layer.dilation)
            for ky, kx in itertools.product(*map(range, layer.kernel))
        ]
        inside = [(ky, kx, at) for ky, kx, at in taps if ky != missing and 0 <= at < layer.in_w]
        seen = np.concatenate([rows[ky, at] for ky, _, at in inside]) if inside else np.zeros(0, np.float32)
        used = (
            np.concatenate([known.weights[:, ky, kx] for ky, kx, _ in inside], axis=1)
            if inside
            else np.zeros((layer.out_c, 0))
        )
        sums[x] = float32.dot(seen, used.astype(np.float32), start=start)
    if known.scale is not None:
        with np.errstate(all="ignore"):
            sums = sums * known.scale + known.bias
    low, high = (np.float32(bound) for bound in layer.bounds)
    sums = np.where(sums < low, low, sums)
    return float32.canonical(np.where(sums > high, high, sums))


def add(calls: Calls, layer: Layer, rng: np.random.Generator, isa: str, codes: bool) -> tuple[Ref, Numbers]:
    """A call of the layer's kernel, where its output will be and what it has to be."""
    rows = numbers(rng, layer.kernel[0], layer.in_w, layer.in_c)
    known, kind = constants(layer, rng, codes), f"{'codes_' if codes else ''}f32__{isa}"
    if rng.random() < 0.3:
        rows[0, 0, 0] = rng.choice(np.array([np.inf, -np.inf, np.nan, 3e38], np.float32))
    low, high = layer.bounds
    descriptor = calls.struct(
        "cortado_layer_f32_packed_t", in_w=layer.in_w, in_c=layer.in_c, out_w=layer.out_w, out_c=layer.out_c,
        kernel_h=layer.kernel[0], kernel_w=layer.kernel[1], stride_w=layer.stride, pad_left=layer.pad,
        dilation_w=layer.dilation, act_min=low, act_max=high, weights=calls.array(known.stream, words=True),
    )  # fmt: skip
    out = calls.space(4 * layer.out_w * layer.out_c, words=True)
    if layer.kernel == (1, 1):
        calls.call(f"cortado_conv1x1_{kind}", descriptor, calls.array(rows), out, layer.out_w)
        return out, expected(layer, rows, known, missing=-1)
    missing = 0 if layer.kernel[0] > 1 else -1  # above the image
    given = calls.pointers([None if ky == missing else calls.array(row) for ky, row in enumerate(rows)])
    scratch = calls.space(8 * known.weights[0].size, words=True)
    calls.call(f"cortado_conv2d_{kind}", descriptor, given, out, scratch)
    return out, expected(layer, rows, known, missing)


@pytest.mark.parametrize(("target", "isa", "clang"), BOARDS)
def test_outputs_are_sums_in_ascending_order_and_nothing_else_is_read(target: str, isa: str, clang: bool) -> None:
    rng, calls = np.random.default_rng(7), Calls()
    work = [(layer, codes, *add(calls, layer, rng, isa, codes)) for codes in (False, True) for layer in LAYERS]
    run_watched(calls, target, clang)
    for layer, codes, out, wanted in work:
        found = calls.read(out, np.uint32, wanted.shape)
        assert np.array_equal(found, wanted.view(np.uint32)), (layer, codes)


@pytest.mark.parametrize(
    ("weights", "bias", "bounds", "groups"),
    [(np.inf, 0.0, (-1.0, 1.0), 1), (np.nan, 0.0, (-1.0, 1.0), 1), (1.0, -0.0, (-1.0, 1.0), 1),
     (1.0, 0.0, (1e-40, 1.0), 1), (1.0, 0.0, (0.0, INFINITY), 2)],
)  # fmt: skip
def test_layers_whose_bits_would_differ_stay_with_the_portable_kernel(
    weights: float, bias: float, bounds: tuple[float, float], groups: int
) -> None:
    fields = {"groups": groups, "act_min": bounds[0], "act_max": bounds[1]}
    ones = np.ones((2, 1, 1, 3), np.float32)
    assert floats.fits(ones, np.ones(2, np.float32), {"groups": 1, "act_min": 0.0, "act_max": INFINITY})
    assert not floats.fits(ones * np.float32(weights), np.full(2, bias, np.float32), fields)
    assert floats.fits_codes(fields) == (bounds == (-1.0, 1.0))  # of codes only the bounds and groups count
