"""One battery for every kernel and variant, on this machine and on every kind of emulated core.

Sizes equal to, below, above and a multiple of each kernel's tile; in place where that is allowed; extreme zero points,
factors, clamps and values; each output compared with an independent exact reference (kernel_reference.py). On boards,
every byte between two buffers has to stay as it was, and no load may touch it.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from cortado.ops import packing, softmax
from cortado.ops.packing import Core
from helpers import kernel_reference as ref
from helpers.kernel_board import run_watched
from helpers.kernel_layers import FOLDED, PORTABLE, Requant, Variant, Window, conv1x1, conv2d, depthwise, pool2d
from helpers.kernels import Calls, Ref, run_host

Array = np.ndarray
Output = tuple[Ref, Array, str]
ZEROS = (-128, -1, 0, 127)
CLAMPS = ((-128, 127), (-128, 127), (-100, 90), (-128, 0), (5, 5))


@dataclass(frozen=True)
class Machine:
    """Where the battery runs. `suffixes` are the variants its core has beside the portable kernels."""

    name: str
    core: Core
    suffixes: tuple[str, ...]
    target: str | None = None
    clang: bool = False

    def run(self, calls: Calls) -> None:
        if self.target is None:
            run_host(calls, small_core=self.core is Core.SMALL)
        else:
            run_watched(calls, self.target, self.clang)

    def block_suffix(self) -> str:
        """The suffix of the kernels without vector instructions."""
        return self.suffixes[0]


HOSTS = [Machine("host", Core.LONG, ("__scalar",)), Machine("host-small", Core.SMALL, ("__scalar",))]
BOARDS = [
    Machine("m0", Core.SMALL, ("__scalar",), "cortex-m0"),
    Machine("m3", Core.LONG, ("__scalar",), "cortex-m3"),
    Machine("m4", Core.DSP, ("__dsp",), "cortex-m4"),
    Machine("m55", Core.DSP, ("__dsp", "__mve"), "cortex-m55"),
]
MORE_BOARDS = [
    Machine("m23", Core.SMALL, ("__scalar",), "cortex-m23"),
    Machine("m7", Core.DSP, ("__dsp",), "cortex-m7"),
    Machine("m33", Core.DSP, ("__dsp",), "cortex-m33"),
    Machine("m33-nodsp", Core.LONG, ("__scalar",), "cortex-m33+nodsp"),
    Machine("m85", Core.DSP, ("__dsp", "__mve"), "cortex-m85"),
    Machine("m0-clang", Core.SMALL, ("__scalar",), "cortex-m0", clang=True),
    Machine("m3-clang", Core.LONG, ("__scalar",), "cortex-m3", clang=True),
    Machine("m4-clang", Core.DSP, ("__dsp",), "cortex-m4", clang=True),
    Machine("m55-clang", Core.DSP, ("__dsp", "__mve"), "cortex-m55", clang=True),
]
MACHINES = [
    *(pytest.param(machine, id=machine.name, marks=pytest.mark.host) for machine in HOSTS),
    *(pytest.param(machine, id=machine.name, marks=pytest.mark.qemu) for machine in BOARDS),
    *(pytest.param(machine, id=machine.name, marks=[pytest.mark.qemu, pytest.mark.slow]) for machine in MORE_BOARDS),
]


class Draw:
    """Random parameters, the same on every machine."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def one(self, *choices: int) -> int:
        return int(choices[self.rng.integers(len(choices))])

    def bytes(self, *shape: int) -> Array:
        """Mostly random values, sometimes nothing but extremes."""
        if self.rng.random() < 0.25:
            return self.rng.choice(np.array([-128, 127], np.int8), shape)
        return self.rng.integers(-128, 128, shape, np.int8)

    def weights(self, *shape: int) -> Array:
        """Without -128, which the quantizer never makes."""
        if self.rng.random() < 0.25:
            return self.rng.choice(np.array([-127, 127], np.int8), shape)
        return self.rng.integers(-127, 128, shape, np.int8)

    def bias(self, channels: int) -> Array | None:
        size = self.one(0, 1000, 1_000_000)
        return None if size == 0 else self.rng.integers(-size, size, channels, np.int32)

    def multipliers(self, n: int) -> Array:
        """Of all sizes between 1/2 and 1, and both ends."""
        drawn = self.rng.integers(1 << 30, 1 << 31, n, np.int64)
        ends = self.rng.choice(np.array([1 << 30, (1 << 31) - 1, 0x7FFF8000, 0x40008000]), n)
        return np.where(self.rng.random(n) < 0.3, ends, drawn).astype(np.int32)

    def requant(self, sums: Array) -> Requant:
        """Factors that spread the sums (channels last) over the output's range; now and then none or far too small."""
        channels = sums.shape[-1]
        spread = np.maximum(np.abs(sums).reshape(-1, channels).max(0), 1)
        shift = 6 - np.ceil(np.log2(spread)).astype(np.int64) + self.rng.integers(-2, 3, channels)
        odd = self.rng.random(channels)
        shift = np.where(odd < 0.05, -31, np.where(odd < 0.1, 0, shift))
        shift = np.minimum(shift, 29 - np.ceil(np.log2(spread + 1)).astype(np.int64))
        return Requant(self.multipliers(channels), shift.astype(np.int32), self.one(*ZEROS), *self.clamp())

    def clamp(self) -> tuple[int, int]:
        return CLAMPS[self.rng.integers(len(CLAMPS))]


def right_shifts_only(requant: Requant) -> Requant:
    return Requant(
        requant.multiplier, np.minimum(requant.shift, -1), requant.out_zero, requant.act_min, requant.act_max
    )


def check(machine: Machine, calls: Calls, outputs: list[Output], *kernels: str) -> None:
    """Runs everything at once. Every kernel named has to have been called."""
    called = {symbol for symbol, _ in calls.calls}
    assert not set(kernels) - called, f"never called: {sorted(set(kernels) - called)}"
    machine.run(calls)
    for ref_, expected, what in outputs:
        np.testing.assert_array_equal(calls.read(ref_, expected.dtype, expected.shape), expected, err_msg=what)


def finished(sums: Array, requant: Requant) -> Array:
    return ref.finish(sums, requant.multiplier, requant.shift, requant.out_zero, requant.act_min, requant.act_max)


# ---- Convolution ----------------------------------------------------------------------------------------------------


def conv1x1_variants(
    machine: Machine, x: Array, weights: Array, bias: Array, shift: Array
) -> Iterator[tuple[str, Variant]]:
    """Every kernel that takes this layer: (kernel, variant)."""
    yield "cortado_conv1x1_s8", PORTABLE
    yield "cortado_conv1x1_s8", FOLDED
    core, suffix = machine.core, machine.block_suffix()
    if packing.fits_conv_tile(weights, bias, shift, core):
        scratch = packing.scratch_conv1x1_tile(weights.shape[1], len(x))
        yield "cortado_conv1x1_s8", Variant(suffix, lambda *c: packing.pack_conv_tile(*c, core), scratch)
    if packing.fits_linear_group(weights, bias, shift, core):
        yield "cortado_linear_s8", Variant(suffix, lambda *c: packing.pack_linear_group(*c, core))
    if "__mve" in machine.suffixes and packing.fits_conv_tile_mve(shift):
        yield "cortado_conv1x1_s8", Variant("__mve", packing.pack_conv_tile_mve)


def folded(bias: Array | None, weights: Array, zero: int, axes: tuple[int, ...]) -> Array:
    return (0 if bias is None else bias) - zero * weights.sum(axis=axes, dtype=np.int64)


@pytest.mark.parametrize("machine", MACHINES)
def test_conv1x1_and_linear(machine: Machine) -> None:
    draw, calls, outputs = Draw(1), Calls(), []
    for _ in range(40):
        depth = draw.one(1, 2, 3, 4, 5, 8, 12, 15, 16, 17, 31, 32, 33, 48, 252, 253, 256, 505)
        channels, pixels = draw.one(1, 2, 3, 4, 5, 6, 8, 9), draw.one(1, 1, 2, 3, 4, 5, 8, 9)
        x, weights, bias, zero = (
            draw.bytes(pixels, depth),
            draw.weights(channels, depth),
            draw.bias(channels),
            draw.one(*ZEROS),
        )
        sums = (x.astype(np.int64) - zero) @ weights.astype(np.int64).T + (0 if bias is None else bias)
        requant = draw.requant(sums)
        start = folded(bias, weights, zero, (1,))
        for kernel, variant in conv1x1_variants(machine, x, weights, start, requant.shift):
            out, _ = conv1x1(calls, x, weights, bias, zero, requant, variant, kernel)
            outputs.append((out, finished(sums, requant), f"{kernel}{variant.suffix} {pixels}x{depth}x{channels}"))
    names = [f"cortado_{kernel}{machine.block_suffix()}" for kernel in ("conv1x1_s8", "linear_s8")]
    check(machine, calls, outputs, "cortado_conv1x1_s8", *names, *mve(machine, "conv1x1_s8"))


def mve(machine: Machine, *kernels: str) -> list[str]:
    return [f"cortado_{kernel}__mve" for kernel in kernels if "__mve" in machine.suffixes]


@pytest.mark.parametrize("machine", MACHINES)
def test_rounding_of_every_factor(machine: Machine) -> None:
    """Weights of zero: the bias is the sum, so any sum meets any factor. Variants as far as their limit of 2^30."""
    draw, calls, outputs = Draw(2), Calls(), []
    n = 3000
    for limit in (1 << 12, 1 << 20, (1 << 30) - 1, (1 << 31) - 1):
        sums = np.concatenate([draw.rng.integers(-limit, limit, n - 4), [limit, -limit, 0, -1]])
        room = 30 - np.ceil(np.log2(np.abs(sums) + 1)).astype(np.int64)
        shift = np.minimum(draw.rng.integers(-31, 20, n), np.maximum(room, 0)).astype(np.int32)
        requant = Requant(draw.multipliers(n), shift, 0)
        x, weights = np.array([[1]], np.int8), np.zeros((n, 1), np.int8)
        for kernel, variant in conv1x1_variants(machine, x, weights, sums, shift):
            out, _ = conv1x1(calls, x, weights, sums.astype(np.int32), 0, requant, variant, kernel)
            outputs.append((out, finished(sums[None], requant), f"{kernel}{variant.suffix} up to {limit}"))
    check(machine, calls, outputs)


@pytest.mark.parametrize("machine", MACHINES)
def test_conv2d(machine: Machine) -> None:
    draw, calls, outputs = Draw(3), Calls(), []
    for number in range(30):
        groups = draw.one(1, 1, 1, 2, 3)
        depth, per_group = draw.one(1, 2, 3, 4, 5, 16, 17), draw.one(1, 2, 3, 4, 5)
        window = Window((draw.one(1, 2, 3, 5), draw.one(1, 2, 3, 4)), (draw.one(1, 2), draw.one(1, 2, 3)),
                        (draw.one(0, 1, 2), draw.one(0, 1, 2)), (draw.one(1, 1, 2), draw.one(1, 1, 2)))  # fmt: skip
        size = [(window.kernel[i] - 1) * window.dilation[i] + draw.one(1, 2, 3, 5, 6, 7) for i in range(2)]
        x, zero = draw.bytes(draw.one(1, 1, 2), *size, depth * groups), draw.one(*ZEROS)
        weights, bias = draw.weights(per_group * groups, *window.kernel, depth), draw.bias(per_group * groups)
        taps = ref.windows(x, window.kernel, window.stride, window.padding, window.dilation, zero)
        sums = ref.conv2d_sums(taps, weights, bias, zero, groups)
        requant = draw.requant(sums)
        for variant in conv2d_variants(machine, weights, folded(bias, weights, zero, (1, 2, 3)), requant, sums, groups):
            out, shape = conv2d(calls, x, weights, bias, zero, window, requant, variant, groups)
            assert shape == sums.shape
            outputs.append((out, finished(sums, requant), f"conv2d{variant.suffix} case {number}"))
    check(machine, calls, outputs, "cortado_conv2d_s8", *(f"cortado_conv2d_s8{s}" for s in machine.suffixes))


def conv2d_variants(machine: Machine, weights: Array, bias: Array, requant: Requant, sums: Array,
                    groups: int) -> Iterator[Variant]:  # fmt: skip
    core, depth, out_w = machine.core, weights[0].size, sums.shape[2]
    yield PORTABLE
    yield FOLDED
    if packing.fits_conv_tile(weights, bias, requant.shift, core):
        for lean in (False, True):
            scratch = packing.scratch_conv2d_tile(depth // weights.shape[3], weights.shape[3], out_w, core, lean)
            yield Variant(
                machine.block_suffix(), lambda *c: packing.pack_conv_tile(*c, core, groups), scratch, lean=lean
            )
    if "__mve" in machine.suffixes and packing.fits_conv_tile_mve(requant.shift):
        yield Variant(
            "__mve", lambda *c: packing.pack_conv_tile_mve(*c, groups), packing.scratch_conv2d_mve(depth, out_w)
        )


@pytest.mark.parametrize("machine", MACHINES)
def test_depthwise(machine: Machine) -> None:
    draw, calls, outputs = Draw(4), Calls(), []
    for number in range(70):
        multiplier = draw.one(1, 1, 1, 1, 2, 3)
        kernel = (3, 3) if draw.rng.random() < 0.5 else (draw.one(1, 2, 3, 5), draw.one(1, 2, 3, 5))
        window = Window(kernel, (draw.one(1, 2), draw.one(1, 1, 2, 3)), (draw.one(0, 1, 2), draw.one(0, 1, 2)),
                        (draw.one(1, 1, 2), draw.one(1, 1, 2)))  # fmt: skip
        size = [(kernel[i] - 1) * window.dilation[i] + draw.one(1, 2, 4, 7) for i in range(2)]
        channels = draw.one(1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 24, 31, 32, 33, 40)
        x, zero = draw.bytes(draw.one(1, 1, 2), *size, channels), draw.one(*ZEROS)
        weights, bias = draw.weights(*kernel, channels * multiplier), draw.bias(channels * multiplier)
        taps = ref.windows(x, kernel, window.stride, window.padding, window.dilation, zero)
        sums = ref.depthwise_sums(taps, weights, bias, zero)
        requant = draw.requant(sums)
        if draw.rng.random() < 0.7:
            requant = right_shifts_only(requant)
        start = folded(bias, weights, zero, (0, 1))
        geometry = (size[1], sums.shape[2]), (window.stride[1], window.padding[1], window.dilation[1])
        for name, variant in depthwise_variants(machine, weights, start, requant, multiplier, geometry):
            out, _ = depthwise(calls, x, weights, bias, zero, window, requant, variant, name)
            outputs.append((out, finished(sums, requant), f"{name}{variant.suffix} case {number}"))
    names = [f"cortado_depthwise_s8{suffix}" for suffix in machine.suffixes]
    check(machine, calls, outputs, "cortado_depthwise_s8", *names, *mve(machine, "depthwise3x3_s8", "depthwise_few_s8"))


@pytest.mark.parametrize("machine", [m for m in MACHINES if "__mve" in m.values[0].suffixes])
def test_depthwise_of_few_channels(machine: Machine) -> None:
    """Every number of channels below a vector's, in rows of one vector of pixels and of several."""
    draw, calls, outputs = Draw(17), Calls(), []
    for channels, width in itertools.product(range(1, 16), (1, 3, 8, 18)):
        kernel = (draw.one(1, 2, 3), draw.one(1, 3, 4))
        window = Window(kernel, (1, draw.one(1, 1, 1, 2)), (1, draw.one(0, 1)), (1, draw.one(1, 1, 2)))
        x, zero = draw.bytes(1, kernel[0], (kernel[1] - 1) * window.dilation[1] + width, channels), draw.one(*ZEROS)
        weights, bias = draw.weights(*kernel, channels), draw.bias(channels)
        taps = ref.windows(x, kernel, window.stride, window.padding, window.dilation, zero)
        sums = ref.depthwise_sums(taps, weights, bias, zero)
        requant = right_shifts_only(draw.requant(sums))
        variant = Variant("__mve", packing.pack_depthwise_mve, packing.scratch_depthwise_mve(*kernel))
        out, _ = depthwise(calls, x, weights, bias, zero, window, requant, variant, "cortado_depthwise_few_s8")
        outputs.append((out, finished(sums, requant), f"{channels} channels, {width} wide, {window}"))
    check(machine, calls, outputs)


@pytest.mark.parametrize("machine", [m for m in MACHINES if "__scalar" not in m.values[0].suffixes])
def test_depthwise3x3(machine: Machine) -> None:
    """Every stride, padding and width that the kernels for 3x3 treat apart, rows above and below the image included."""
    draw, calls, outputs = Draw(16), Calls(), []
    for stride, pad, width in itertools.product((1, 2), (0, 1), range(2, 9)):
        if width + 2 * pad < 3:
            continue
        window = Window((3, 3), (draw.one(1, 2), stride), (1, pad))
        channels, zero = draw.one(4, 5, 16, 17, 33), draw.one(*ZEROS)
        x, weights, bias = draw.bytes(1, 3, width, channels), draw.weights(3, 3, channels), draw.bias(channels)
        taps = ref.windows(x, window.kernel, window.stride, window.padding, window.dilation, zero)
        sums = ref.depthwise_sums(taps, weights, bias, zero)
        drawn = right_shifts_only(draw.requant(sums))
        requant = Requant(drawn.multiplier, drawn.shift, drawn.out_zero)
        start, geometry = folded(bias, weights, zero, (0, 1)), ((width, sums.shape[2]), (stride, pad, 1))
        for name, variant in depthwise_variants(machine, weights, start, requant, 1, geometry):
            out, _ = depthwise(calls, x, weights, bias, zero, window, requant, variant, name)
            outputs.append(
                (out, finished(sums, requant), f"{name}{variant.suffix} stride {stride} pad {pad} width {width}")
            )
    called = [symbol for symbol, _ in calls.calls]
    assert called.count("cortado_depthwise3x3_s8__dsp") > 50
    check(machine, calls, outputs, *mve(machine, "depthwise3x3_s8"))


def depthwise_variants(
    machine: Machine,
    weights: Array,
    bias: Array,
    requant: Requant,
    multiplier: int,
    geometry: tuple[tuple[int, int], tuple[int, int, int]],
) -> Iterator[tuple[str, Variant]]:
    core, kernel = machine.core, weights.shape[:2]
    yield "cortado_depthwise_s8", PORTABLE
    yield "cortado_depthwise_s8", FOLDED
    if multiplier != 1:
        return
    if packing.fits_depthwise(weights, bias, requant.shift, core):
        # On a 64-bit host a pointer is twice as long.
        scratch = packing.scratch_depthwise(*kernel, core) * (1 if machine.target else 2)
        yield (
            "cortado_depthwise_s8",
            Variant(machine.block_suffix(), lambda *c: packing.pack_depthwise(*c, core), scratch),
        )
    clamp = requant.act_min, requant.act_max
    if machine.core is Core.DSP and packing.fits_depthwise3x3_dsp(weights, bias, requant.shift, clamp, *geometry):
        yield "cortado_depthwise3x3_s8", Variant("__dsp", packing.pack_depthwise3x3_dsp)
    if "__mve" in machine.suffixes and packing.fits_depthwise_mve(weights, requant.shift):
        name = "cortado_depthwise_s8" if weights.shape[2] >= 16 else "cortado_depthwise_few_s8"
        yield name, Variant("__mve", packing.pack_depthwise_mve, packing.scratch_depthwise_mve(*kernel))
    if "__mve" in machine.suffixes and packing.fits_depthwise3x3_mve(weights, requant.shift):
        yield "cortado_depthwise3x3_s8", Variant("__mve", packing.pack_depthwise_mve)


@pytest.mark.parametrize("machine", MACHINES)
def test_transpose_conv2d(machine: Machine) -> None:
    draw, calls, outputs = Draw(5), Calls(), []
    for number in range(25):
        groups, depth, per_group = draw.one(1, 1, 2), draw.one(1, 3, 8), draw.one(1, 2, 3)
        kernel, stride = (draw.one(1, 2, 3), draw.one(1, 2, 3, 4)), (draw.one(1, 2, 3), draw.one(1, 2, 3))
        dilation = (draw.one(1, 2), draw.one(1, 2, 3))
        reach = [(kernel[i] - 1) * dilation[i] for i in range(2)]
        padding = (draw.one(0, reach[0] // 2), draw.one(0, reach[1] // 2))
        extra = (draw.one(0, max(stride[0], dilation[0]) - 1), draw.one(0, max(stride[1], dilation[1]) - 1))
        x, zero = draw.bytes(1, draw.one(1, 2, 4), draw.one(1, 3, 5), depth * groups), draw.one(*ZEROS)
        weights, bias = draw.weights(per_group * groups, *kernel, depth), draw.bias(per_group * groups)
        sums = ref.transpose_conv2d_sums(x, weights, bias, zero, stride, padding, dilation, extra, groups)
        requant = draw.requant(sums)
        out = transpose_conv2d(calls, x, weights, bias, zero, (stride, padding, dilation), requant, groups, sums.shape)
        outputs.append((out, finished(sums, requant), f"case {number}"))
    check(machine, calls, outputs, "cortado_transpose_conv2d_s8")


Pair = tuple[int, int]


def transpose_conv2d(calls: Calls, x: Array, weights: Array, bias: Array | None, zero: int,
                     slide: tuple[Pair, Pair, Pair], requant: Requant, groups: int,
                     shape: tuple[int, ...]) -> Ref:  # fmt: skip
    """A call per output row, with the input row that each row of taps reads."""
    (stride, padding, dilation), (_, height, width, channels) = slide, x.shape
    layer = calls.struct(
        "cortado_transpose_conv2d_t", in_w=width, in_c=channels, out_w=shape[2], out_c=shape[3],
        kernel_h=weights.shape[1], kernel_w=weights.shape[2], stride_w=stride[1], pad_left=padding[1],
        dilation_w=dilation[1], groups=groups, in_offset=-zero, out_offset=requant.out_zero, act_min=requant.act_min,
        act_max=requant.act_max, weights=calls.array(weights),
        bias=None if bias is None else calls.array(bias.astype(np.int32)), multiplier=calls.array(requant.multiplier),
        shift=calls.array(requant.shift))  # fmt: skip
    image, out = calls.array(x), calls.space(int(np.prod(shape)))
    for y in range(shape[1]):
        at = [y + padding[0] - ky * dilation[0] for ky in range(weights.shape[1])]
        read = [a // stride[0] if a % stride[0] == 0 and 0 <= a // stride[0] < height else None for a in at]
        rows = calls.pointers([None if row is None else image + row * width * channels for row in read])
        calls.call("cortado_transpose_conv2d_s8", layer, rows, out + y * shape[2] * shape[3], None)
    return out


@pytest.mark.parametrize("machine", MACHINES)
def test_batch_matmul(machine: Machine) -> None:
    draw, calls, outputs = Draw(6), Calls(), []
    for number in range(15):
        batches, rows, cols, depth = draw.one(1, 3), draw.one(1, 2, 7, 8, 9), draw.one(1, 2, 5), draw.one(1, 4, 17, 40)
        lhs, rhs = draw.bytes(batches, rows, depth), draw.bytes(batches, cols, depth)
        zeros = draw.one(*ZEROS), draw.one(*ZEROS)
        sums = (lhs.astype(np.int64) - zeros[0]) @ (rhs.astype(np.int64) - zeros[1]).transpose(0, 2, 1)
        requant = draw.requant(sums.reshape(-1, 1))
        layer = calls.struct(
            "cortado_batch_matmul_t", batches=batches, rows=rows, cols=cols, depth=depth, lhs_zero=zeros[0],
            rhs_zero=zeros[1], out_zero=requant.out_zero, multiplier=requant.multiplier[0], shift=requant.shift[0],
            act_min=requant.act_min, act_max=requant.act_max)  # fmt: skip
        out = calls.space(sums.size)
        calls.call("cortado_batch_matmul_s8", layer, calls.array(lhs), calls.array(rhs), out, None)
        outputs.append((out, finished(sums, requant), f"case {number}"))
    check(machine, calls, outputs, "cortado_batch_matmul_s8")


# ---- Pooling --------------------------------------------------------------------------------------------------------


def pool_case(draw: Draw, dilated: bool) -> tuple[Array, Window, tuple[int, int]]:
    kernel = draw.one(1, 2, 3, 7), draw.one(1, 2, 3, 7)
    dilation = (draw.one(1, 2), draw.one(1, 2)) if dilated else (1, 1)
    window = Window(
        kernel, (draw.one(1, 2), draw.one(1, 2, 3)), (kernel[0] // 2, draw.one(0, kernel[1] // 2)), dilation
    )
    size = [(kernel[i] - 1) * dilation[i] + draw.one(1, 2, 5) for i in range(2)]
    return draw.bytes(draw.one(1, 2), *size, draw.one(1, 3, 4, 5, 15, 16, 17, 35)), window, draw.clamp()


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("kind", ["avg", "max"])
def test_pool2d(machine: Machine, kind: str) -> None:
    draw, calls, outputs = Draw(7), Calls(), []
    for number in range(34):
        x, window, clamp = pool_case(draw, dilated=kind == "max")
        if number >= 30:  # around the most pixels that sums of 16 bits hold, and that a short division is exact for
            side = (16, 17, 18, 19)[number - 30]
            x, window = draw.bytes(1, side + 1, side + 2, 5), Window((side, side + 1))
        slide = window.kernel, window.stride, window.padding, window.dilation
        inside = ref.windows(np.ones_like(x), *slide, 0).sum((3, 4))
        if kind == "avg":
            values = ref.divide(ref.windows(x, *slide, 0).sum((3, 4)), inside)
        else:
            values = ref.windows(x, *slide, -128).max((3, 4))
        expected = np.clip(values, *clamp).astype(np.int8)
        fits = kind == "max" or packing.fits_avg_pool2d(*window.kernel)
        variants = [
            s for s in ("__dsp", "__mve") if fits and s in machine.suffixes and (s == "__mve" or x.shape[3] >= 4)
        ]
        for suffix in ("", *variants):
            out, _ = pool2d(calls, x, window, *clamp, f"cortado_{kind}_pool2d_s8{suffix}")
            outputs.append((out, expected, f"{kind}{suffix} case {number}"))
    names = [f"cortado_{kind}_pool2d_s8{s}" for s in machine.suffixes if s != "__scalar"]
    check(machine, calls, outputs, f"cortado_{kind}_pool2d_s8", *names)


@pytest.mark.parametrize("machine", MACHINES)
def test_sum_rows(machine: Machine) -> None:
    """Several rows into one sum, then the mean; more pixels than a sum of 16 bits holds."""
    draw, calls, outputs = Draw(8), Calls(), []
    for pixels, channels in [(1, 1), (5, 3), (4, 16), (49, 17), (256, 8), (257, 20), (600, 5)]:
        for suffix in ("", *(s for s in machine.suffixes if s != "__scalar")):
            x = np.full((2, pixels, channels), -128, np.int8) if pixels == 256 else draw.bytes(2, pixels, channels)
            acc, out = calls.array(np.zeros(channels, np.int32)), calls.space(channels)
            for row in x:
                calls.call(f"cortado_sum_rows_s8{suffix}", acc, calls.array(row), pixels, channels)
            calls.call("cortado_means_s8", acc, out, channels, 2 * pixels)
            total = x.sum((0, 1), dtype=np.int64)
            means = ref.divide(total, np.int64(2 * pixels)).astype(np.int8)
            outputs += [(acc, total.astype(np.int32), f"sums of {pixels}{suffix}"), (out, means, f"means of {pixels}")]
    check(machine, calls, outputs, *(f"cortado_sum_rows_s8{s}" for s in machine.suffixes if s != "__scalar"))


@pytest.mark.parametrize("machine", MACHINES)
def test_means(machine: Machine) -> None:
    """Every sum where the rounded mean changes, and its neighbours: the mean is monotone, so these are all sums."""
    calls, outputs = Calls(), []
    for count in (1, 2, 3, 4, 7, 16, 49, 64, 125, 255, 256, 359, 360, 361, 784, 3136, 4093, 5769, 5770, 5771, 65536):
        steps = (np.arange(-128, 128, dtype=np.int64) * 2 - 1) * count // 2
        sums = np.unique(np.concatenate([steps - 1, steps, steps + 1, [-128 * count, 127 * count]]))
        sums = sums[(sums >= -128 * count) & (sums <= 127 * count)]
        means = ref.divide(sums, np.int64(count)).astype(np.int8)
        for suffix in ("", "__mve") if "__mve" in machine.suffixes and packing.fits_means_mve(count) else ("",):
            out = calls.space(len(sums))
            calls.call(f"cortado_means_s8{suffix}", calls.array(sums.astype(np.int32)), out, len(sums), count)
            outputs.append((out, means, f"means{suffix} of {count}"))
    check(machine, calls, outputs, *mve(machine, "means_s8"))


def test_division_by_inverse_is_exact() -> None:
    """The quotients of the kernels that multiply by 2^bits / count, for every count and every rounded mean."""
    for bits, last in ((24, 360), (32, 5770)):
        count = np.arange(2, last + 1, dtype=np.uint64)[:, None]
        inverse = np.uint64((1 << bits) - 1) // count + np.uint64(1)
        quotient = np.arange(129, dtype=np.uint64)[None]
        for size in (quotient * count, (quotient + np.uint64(1)) * count - np.uint64(1)):
            np.testing.assert_array_equal(size * inverse >> np.uint64(bits), np.broadcast_to(quotient, size.shape))
    assert packing.fits_means_mve(5770)
    assert not packing.fits_means_mve(5771)


# ---- Elementwise ----------------------------------------------------------------------------------------------------

LENGTHS = (1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 64, 65)


PLACES = 5


def in_turn(calls: Calls, a: Array, b: Array, where: int) -> tuple[Ref, Ref, Ref]:
    """Operands and output: apart, over a, over b, a little before a, a little before b."""
    lead = np.zeros(16, np.int8)
    fronts = [calls.array(np.concatenate([lead, values])) for values in (a, b)]
    left, right = (front + len(lead) for front in fronts)
    return left, right, (calls.space(len(a)), left, right, *fronts)[where]


@pytest.mark.parametrize("machine", MACHINES)
def test_add(machine: Machine) -> None:
    draw, calls, outputs = Draw(9), Calls(), []
    for number in range(60):
        n, zeros = draw.one(*LENGTHS), [draw.one(*ZEROS) for _ in range(3)]
        half, other = (1 << 30, 0), (int(draw.multipliers(1)[0]), draw.one(-9, -3, -1, 0))
        if other[1] == 0:
            other = half
        factors = (half, other) if draw.rng.random() < 0.5 else (other, half)
        if number % 7 == 0:  # no operator makes these, but the portable kernel takes them
            factors = (other, other)
        final = (int(draw.multipliers(1)[0]), draw.one(-22, -19, -18, -17, 1 if number % 10 == 0 else -18))
        a, b, clamp = draw.bytes(n), draw.bytes(n), draw.clamp()
        parts = [
            ref.requant((v.astype(np.int64) - z) << 20, *f) for v, z, f in zip((a, b), zeros, factors, strict=False)
        ]
        expected = ref.finish(parts[0] + parts[1], *final, zeros[2], *clamp)
        layer = calls.struct(
            "cortado_add_t", a_zero=zeros[0], a_multiplier=factors[0][0], a_shift=factors[0][1], b_zero=zeros[1],
            b_multiplier=factors[1][0], b_shift=factors[1][1], out_zero=zeros[2], out_multiplier=final[0],
            out_shift=final[1], act_min=clamp[0], act_max=clamp[1])  # fmt: skip
        for suffix in add_suffixes(machine, factors, final, clamp):
            left, right, out = in_turn(calls, a, b, number % PLACES)
            calls.call(f"cortado_add_s8{suffix}", layer, left, right, out, n)
            outputs.append((out, expected, f"add{suffix} case {number}"))
    suffixes = () if machine.core is Core.SMALL else machine.suffixes
    check(machine, calls, outputs, "cortado_add_s8", *(f"cortado_add_s8{s}" for s in suffixes))


def add_suffixes(machine: Machine, factors: tuple[Pair, Pair], final: Pair, clamp: Pair) -> Iterator[str]:
    yield ""
    if machine.core is not Core.SMALL and packing.fits_add(*factors, final, clamp):
        yield machine.block_suffix()
    if "__mve" in machine.suffixes and packing.fits_add_mve(*factors, final):
        yield "__mve"


@pytest.mark.parametrize("machine", MACHINES)
def test_mul(machine: Machine) -> None:
    draw, calls, outputs = Draw(10), Calls(), []
    for number in range(60):
        n, zeros, clamp = draw.one(*LENGTHS), [draw.one(*ZEROS) for _ in range(3)], draw.clamp()
        factor = int(draw.multipliers(1)[0]), draw.one(-31, -12, -9, -8, -7, -6, -1, 0, 2, 14, 15)
        a, b = draw.bytes(n), draw.bytes(n)
        product = (a.astype(np.int64) - zeros[0]) * (b.astype(np.int64) - zeros[1])
        layer = calls.struct(
            "cortado_mul_t", a_zero=zeros[0], b_zero=zeros[1], out_zero=zeros[2], out_multiplier=factor[0],
            out_shift=factor[1], act_min=clamp[0], act_max=clamp[1])  # fmt: skip
        expected = ref.finish(product, *factor, zeros[2], *clamp)
        left, right, out = in_turn(calls, a, b, number % PLACES)
        calls.call("cortado_mul_s8", layer, left, right, out, n)
        outputs.append((out, expected, f"mul case {number}"))
        if "__mve" in machine.suffixes and packing.fits_mul_mve(factor[1]):
            left, right, out = in_turn(calls, a, b, number % PLACES)
            calls.call("cortado_mul_channel_s8__mve", layer, left, right, out, n, n)
            outputs.append((out, expected, f"mul__mve case {number}"))
    check(machine, calls, outputs, "cortado_mul_s8", *mve(machine, "mul_channel_s8"))


@pytest.mark.parametrize("machine", MACHINES)
def test_mul_by_channel(machine: Machine) -> None:
    draw, calls, outputs = Draw(18), Calls(), []
    for number in range(40):
        channels, pixels = draw.one(1, 3, 4, 5, 7, 8, 9, 15, 16, 24), draw.one(1, 2, 3, 7)
        zeros, clamp = [draw.one(*ZEROS) for _ in range(3)], draw.clamp()
        factor = int(draw.multipliers(1)[0]), draw.one(-31, -12, -9, -8, -7, -6, -1, 0, 2, 14, 15)
        a, b = draw.bytes(pixels, channels), draw.bytes(channels)
        product = (a.astype(np.int64) - zeros[0]) * (b.astype(np.int64) - zeros[1])
        layer = calls.struct(
            "cortado_mul_t", a_zero=zeros[0], b_zero=zeros[1], out_zero=zeros[2], out_multiplier=factor[0],
            out_shift=factor[1], act_min=clamp[0], act_max=clamp[1])  # fmt: skip
        takes_vector = "__mve" in machine.suffixes and packing.fits_mul_mve(factor[1])
        for suffix in ("", "__mve") if takes_vector else ("",):
            left, _, out = in_turn(calls, a.ravel(), a.ravel(), (0, 1, 3)[number % 3])
            calls.call(f"cortado_mul_channel_s8{suffix}", layer, left, calls.array(b), out, a.size, channels)
            outputs.append((out, ref.finish(product, *factor, zeros[2], *clamp), f"mul_channel{suffix} case {number}"))
    check(machine, calls, outputs, "cortado_mul_channel_s8", *mve(machine, "mul_channel_s8"))


@pytest.mark.parametrize("machine", MACHINES)
def test_one_value_for_each_channel(machine: Machine) -> None:
    draw, calls, outputs = Draw(14), Calls(), []
    for number in range(45):
        pixels, channels = draw.one(1, 2, 3, 7, 16, 17), draw.one(1, 3, 4, 5, 16, 17, 33)
        zeros, clamp = [draw.one(*ZEROS) for _ in range(3)], draw.clamp()
        a, b = draw.bytes(pixels * channels), draw.bytes(channels)
        centred = [a.astype(np.int64) - zeros[0], np.tile(b.astype(np.int64) - zeros[1], pixels)]
        bounds = dict(a_zero=zeros[0], b_zero=zeros[1], out_zero=zeros[2], act_min=clamp[0], act_max=clamp[1])
        sides = [(1 << 30, 0), (int(draw.multipliers(1)[0]), draw.one(-9, -3, -1))]
        final = int(draw.multipliers(1)[0]), draw.one(-19, -18, -17)
        sums = [ref.requant(side << 20, *factor) for side, factor in zip(centred, sides, strict=True)]
        add = calls.struct(
            "cortado_add_t", a_multiplier=sides[0][0], a_shift=sides[0][1], b_multiplier=sides[1][0],
            b_shift=sides[1][1], out_multiplier=final[0], out_shift=final[1], **bounds)  # fmt: skip
        factor = int(draw.multipliers(1)[0]), draw.one(-9, -8, -7)
        mul = calls.struct("cortado_mul_t", out_multiplier=factor[0], out_shift=factor[1], **bounds)
        for name, layer, accumulated, scale in (
            ("add_channel", add, sums[0] + sums[1], final), ("mul_channel", mul, centred[0] * centred[1], factor)
        ):  # fmt: skip
            left, _, out = in_turn(calls, a, a, (0, 1, 3)[number % 3])
            calls.call(f"cortado_{name}_s8", layer, left, calls.array(b), out, len(a), channels)
            outputs.append((out, ref.finish(accumulated, *scale, zeros[2], *clamp), f"{name} case {number}"))
    check(machine, calls, outputs, "cortado_add_channel_s8", "cortado_mul_channel_s8")


@pytest.mark.parametrize("machine", MACHINES)
def test_table_minimum_maximum(machine: Machine) -> None:
    draw, calls, outputs = Draw(11), Calls(), []
    table = draw.rng.integers(-128, 128, 256, np.int8)
    for number, n in enumerate((*LENGTHS, 256, 300)):
        a, b = draw.rng.integers(-128, 128, (2, n), np.int8)
        if n == 256:
            a = np.arange(-128, 128, dtype=np.int8)
        for suffix in ("", *(s for s in machine.suffixes if s == "__mve")):
            left, _, out = in_turn(calls, a, b, (0, 1, 3)[number % 3])
            calls.call(f"cortado_table_s8{suffix}", calls.array(table), left, out, n)
            outputs.append((out, table[a.astype(np.int64) + 128], f"table{suffix} of {n}"))
        for name, function in (("minimum", np.minimum), ("maximum", np.maximum)):
            left, right, out = in_turn(calls, a, b, number % PLACES)
            calls.call(f"cortado_{name}_s8", left, right, out, n)
            outputs.append((out, function(a, b), f"{name} of {n}"))
    check(machine, calls, outputs, "cortado_table_s8", *mve(machine, "table_s8"))


@pytest.mark.parametrize("machine", MACHINES)
def test_softmax_by_table(machine: Machine) -> None:
    """The variants that read exponentials from a table give the bits of the kernel that computes them."""
    draw, computed, tabled, places = Draw(12), Calls(), Calls(), []
    for number in range(25):
        rows, n = draw.one(1, 3), draw.one(1, 2, 3, 4, 5, 10, 16, 17, 257)
        shift = draw.one(20, 22, 24, 26)
        factor = {"in_multiplier": int(draw.multipliers(1)[0]), "in_shift": shift, "diff_min": -(31 << 26 >> shift)}
        x = draw.bytes(rows, n)
        layer = computed.struct("cortado_softmax_t", **factor, exp_table=None)
        expected = computed.space(rows * n)
        computed.call("cortado_softmax_s8", layer, computed.array(x), expected, rows, n)
        known = softmax.exponentials(factor["in_multiplier"], shift, factor["diff_min"]).tolist()
        table = np.array([*known, 0][:256], np.int32)
        for suffix in ("", *(s for s in machine.suffixes if s == "__mve")):
            layer = tabled.struct("cortado_softmax_t", **factor, exp_table=tabled.array(table))
            source = tabled.array(x)
            out = source if number % 2 else tabled.space(rows * n)
            tabled.call(f"cortado_softmax_table_s8{suffix}", layer, source, out, rows, n)
            places.append((out, expected, (rows, n), f"softmax_table{suffix} case {number}"))
    run_host(computed)
    outputs = [(out, computed.read(expected, np.int8, shape), what) for out, expected, shape, what in places]
    check(machine, tabled, outputs, "cortado_softmax_table_s8", *mve(machine, "softmax_table_s8"))


# ---- Data movement and the float border -----------------------------------------------------------------------------


@pytest.mark.parametrize("machine", MACHINES)
def test_data_movement(machine: Machine) -> None:
    draw, calls, outputs = Draw(13), Calls(), []
    for case in (copy2d_case, transpose_case, pad_case, upsample_case):
        for number in range(12):
            out, expected = case(draw, calls)
            outputs.append((out, np.ascontiguousarray(expected), f"{case.__name__} {number}"))
    names = ("copy2d", "transpose_s8", "pad_s8", "upsample_nearest_rows_s8")
    check(machine, calls, outputs, *(f"cortado_{name}" for name in names))


def copy2d_case(draw: Draw, calls: Calls) -> tuple[Ref, Array]:
    height, width, before, after = draw.one(1, 2, 5), draw.one(1, 3, 16), draw.one(0, 2), draw.one(0, 3)
    x = draw.bytes(height, before + width + after)
    out = calls.space(height * width)
    calls.call("cortado_copy2d", calls.array(x) + before, x.shape[1], out, width, width, height)
    return out, x[:, before : before + width]


def transpose_case(draw: Draw, calls: Calls) -> tuple[Ref, Array]:
    rank = draw.one(1, 2, 3, 4, 5, 6)
    x = draw.bytes(*(draw.one(1, 2, 3, 4) for _ in range(rank)))
    order = draw.rng.permutation(rank)
    moved = x.transpose(order)
    offset = 0
    if draw.one(0, 1):  # a flip reads backwards
        moved = np.flip(moved, 0)
        offset = -(moved.shape[0] - 1) * moved.strides[0]
    layer = calls.struct("cortado_transpose_t", rank=rank, shape=moved.shape, stride=moved.strides, offset=offset)
    out = calls.space(x.size)
    calls.call("cortado_transpose_s8", layer, calls.array(x), out)
    return out, moved


def pad_case(draw: Draw, calls: Calls) -> tuple[Ref, Array]:
    rank, value = draw.one(1, 2, 3, 4, 5, 6), draw.one(*ZEROS)
    x = draw.bytes(*(draw.one(1, 2, 3) for _ in range(rank)))
    widths = [(draw.one(0, 1, 2), draw.one(0, 1, 3)) for _ in range(rank)]
    padded = np.pad(x, widths, constant_values=value)
    layer = calls.struct("cortado_pad_t", rank=rank, shape=x.shape, before=[w[0] for w in widths],
                         after=[w[1] for w in widths], value=value)  # fmt: skip
    out = calls.space(padded.size)
    calls.call("cortado_pad_s8", layer, calls.array(x), out)
    return out, padded


def upsample_case(draw: Draw, calls: Calls) -> tuple[Ref, Array]:
    rows, width, channels, factors = (
        draw.one(1, 3),
        draw.one(1, 2, 5),
        draw.one(1, 3, 16),
        (draw.one(1, 2), draw.one(1, 2, 3)),
    )
    x = draw.bytes(rows, width, channels)
    layer = calls.struct("cortado_upsample_t", in_w=width, channels=channels, factor_h=factors[0], factor_w=factors[1])
    out = calls.space(x.size * factors[0] * factors[1])
    calls.call("cortado_upsample_nearest_rows_s8", layer, calls.array(x), out, rows)
    return out, np.repeat(np.repeat(x, factors[0], 0), factors[1], 1)


@pytest.mark.parametrize("machine", MACHINES)
def test_float_border(machine: Machine) -> None:
    draw, calls, outputs = Draw(14), Calls(), []
    special = np.array([0, -0.0, 1e30, -1e30, np.inf, -np.inf, np.nan, 0.5, 1.5, 2.5, -0.5, -1.5, 1e-40], np.float32)
    for number in range(15):
        scale, zero = float(np.float32(draw.rng.choice([1.0, 0.5, 1e-3, 0.0373, 1e4, 1e-30]))), draw.one(*ZEROS)
        x = np.concatenate([special, (draw.rng.standard_normal(50) * 60 * scale).astype(np.float32)])
        out = calls.space(len(x))
        calls.call("cortado_quantize_f32_s8", calls.array(x), out, len(x), scale, zero)
        outputs.append((out, ref.quantize(x, scale, zero), f"quantize by {scale}"))
        q = draw.bytes(33)
        out = calls.space(4 * 33, words=True)
        calls.call("cortado_dequantize_s8_f32", calls.array(q), out, 33, scale, zero)
        values = (q.astype(np.float32) - np.float32(zero)) * np.float32(scale)
        outputs.append((out, values, f"dequantize by {scale}"))
        outputs.append((*div_case(draw, calls), f"div case {number}"))
    check(machine, calls, outputs, "cortado_quantize_f32_s8", "cortado_dequantize_s8_f32", "cortado_div_s8")


def div_case(draw: Draw, calls: Calls) -> tuple[Ref, Array]:
    zeros, clamp = [draw.one(*ZEROS) for _ in range(3)], draw.clamp()
    factor = float(np.float32(draw.rng.choice([1.0, 0.5, 37.25, 1e-3, 1e9])))
    a, b = draw.bytes(40), draw.bytes(40)
    quotient = ref.divide_f32(a.astype(np.int64) - zeros[0], b.astype(np.int64) - zeros[1], factor)
    layer = calls.struct("cortado_div_t", a_zero=zeros[0], b_zero=zeros[1], out_zero=zeros[2], factor=factor,
                         act_min=clamp[0], act_max=clamp[1])  # fmt: skip
    left, right, out = in_turn(calls, a, b, draw.one(0, 1, 2))
    calls.call("cortado_div_s8", layer, left, right, out, 40)
    return out, np.clip(quotient + zeros[2], *clamp).astype(np.int8)


# ---- Scratch --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("machine", [m for m in MACHINES if m.id in ("m0", "m4", "m55")])
def test_scratch_is_the_same_in_c(machine: Machine) -> None:
    """The sizes the compiler plans with are those the descriptors give on the core itself."""
    draw, calls, wanted = Draw(15), Calls(), []
    block = machine.block_suffix()
    for _ in range(40):
        kernel, depth, out_w = (
            (draw.one(1, 2, 3, 5), draw.one(1, 3, 4)),
            draw.one(1, 3, 4, 5, 16),
            draw.one(1, 2, 3, 4, 9),
        )
        size, groups = kernel[0] * kernel[1] * depth, draw.one(1, 2)
        common = {"kernel_h": kernel[0], "kernel_w": kernel[1], "in_w": 9, "out_w": out_w, "stride_w": 1,
                  "pad_left": 0, "dilation_w": 1, "zero": None, **NO_CONSTANTS}  # fmt: skip
        lean = draw.one(0, 1)
        conv = calls.struct("cortado_conv2d_packed_t", **common, in_c=depth * groups, out_c=4, groups=groups, lean=lean)
        flat = calls.struct("cortado_conv1x1_packed_t", in_c=depth, out_c=4, **NO_CONSTANTS)
        deep = calls.struct("cortado_depthwise_packed_t", **common, in_c=4)
        wanted += [
            (
                f"cortado_conv2d_s8{block}_scratch",
                (conv,),
                packing.scratch_conv2d_tile(size // depth, depth, out_w, machine.core, bool(lean)),
            ),
            (f"cortado_conv1x1_s8{block}_scratch", (flat, out_w), packing.scratch_conv1x1_tile(depth, out_w)),
            (f"cortado_depthwise_s8{block}_scratch", (deep,), packing.scratch_depthwise(*kernel, machine.core)),
        ]
        if "__mve" in machine.suffixes:
            wanted += [
                ("cortado_conv2d_s8__mve_scratch", (conv,), packing.scratch_conv2d_mve(size, out_w)),
                ("cortado_depthwise_s8__mve_scratch", (deep,), packing.scratch_depthwise_mve(*kernel)),
                ("cortado_depthwise_few_s8__mve_scratch", (deep,), packing.scratch_depthwise_mve(*kernel)),
            ]
    for symbol, args, _ in wanted:
        calls.call(symbol, *args)
    machine.run(calls)
    assert calls.results == [size for _, _, size in wanted]


NO_CONSTANTS = {"out_offset": 0, "act_min": -128, "act_max": 127, "weights": None}


@pytest.mark.qemu
@pytest.mark.parametrize(("target", "suffix"), [("cortex-m4", ""), ("cortex-m55", "__mve")])
def test_a_load_past_a_buffer_is_seen(target: str, suffix: str) -> None:
    """The battery's own eyes: one element too many, also by a vector."""
    calls = Calls()
    calls.call(f"cortado_table_s8{suffix}", calls.array(np.zeros(256, np.int8)), calls.array(np.zeros(20, np.int8)),
               calls.space(21), 21)  # fmt: skip
    with pytest.raises(AssertionError, match="read outside its buffers"):
        run_watched(calls, target)


@pytest.mark.qemu
@pytest.mark.parametrize(("target", "suffix"), [("cortex-m4", ""), ("cortex-m55", "__mve")])
def test_a_store_past_a_buffer_is_seen(target: str, suffix: str) -> None:
    calls = Calls()
    calls.call(f"cortado_table_s8{suffix}", calls.array(np.zeros(256, np.int8)), calls.array(np.zeros(21, np.int8)),
               calls.space(20), 21)  # fmt: skip
    with pytest.raises(AssertionError, match="wrote"):
        run_watched(calls, target)
