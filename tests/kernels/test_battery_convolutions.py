"""The battery for convolutions and matrix products, on this machine and on every kind of emulated core."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from cortado.base.target import Core
from cortado.ops.conv import packing
from helpers import kernel_reference as ref
from helpers.kernel_layers import FOLDED, PORTABLE, Requant, Variant, Window, conv1x1, conv2d, depthwise
from helpers.kernels import Calls, Ref
from helpers.machines import (
    MACHINES,
    ZEROS,
    Array,
    Draw,
    Machine,
    Pair,
    check,
    finished,
    machines,
    mve,
    right_shifts_only,
)


def conv1x1_variants(
    machine: Machine, x: Array, weights: Array, bias: Array, shift: Array
) -> Iterator[tuple[str, Variant]]:
    """Every kernel that takes this layer: (kernel, variant)."""
    yield "cortado_conv1x1_s8", PORTABLE
    yield "cortado_conv1x1_s8", FOLDED
    core, suffix = machine.core, machine.block_suffix()
    if packing.fits_conv_tile(weights, bias, shift, core):
        scratch = packing.scratch_conv1x1_tile(weights.shape[1], len(x), core)
        yield "cortado_conv1x1_s8", Variant(suffix, partial(packing.pack_conv_tile, core=core), scratch)
    if core is Core.DSP and packing.fits_conv_lanes(weights, bias, shift):
        scratch = packing.scratch_conv1x1_tile(weights.shape[1], len(x), core)
        yield "cortado_conv1x1_lanes_s8", Variant("__dsp", packing.pack_conv_lanes, scratch)
    if core is Core.DSP and packing.fits_linear_lanes(weights, bias, shift):
        yield "cortado_linear_lanes_s8", Variant("__dsp", packing.pack_linear_lanes)
    if packing.fits_linear_group(weights, bias, shift):
        yield "cortado_linear_s8", Variant(suffix, partial(packing.pack_linear_group, core=core))
    if "__mve" in machine.suffixes and packing.fits_conv_tile_mve(shift):
        yield "cortado_conv1x1_s8", Variant("__mve", packing.pack_conv_tile_mve)
    if "__mve" in machine.suffixes and packing.fits_conv_shallow_mve(weights, shift):
        yield "cortado_conv1x1_shallow_s8", Variant("__mve", packing.pack_conv_shallow_mve)


def folded(bias: Array | None, weights: Array, zero: int, axes: tuple[int, ...]) -> Array:
    return (0 if bias is None else bias) - zero * weights.sum(axis=axes, dtype=np.int64)


@pytest.mark.cases(1)
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
    check(
        machine, calls, outputs, "cortado_conv1x1_s8", *names, *lanes(machine, "conv1x1"), *mve(machine, "conv1x1_s8")
    )


def lanes(machine: Machine, operator: str) -> list[str]:
    return [f"cortado_{operator}_lanes_s8__dsp"] if machine.core is Core.DSP else []


# The largest sums of 24 bits: 512 products of 127 and 128, and a bias that fills the rest.
DEEP, FULL = 512, (1 << 23) - 1


@pytest.mark.parametrize("machine", machines(lambda machine: machine.core is Core.DSP))
def test_sums_at_the_end_of_their_lanes(machine: Machine) -> None:
    """Both ends of 24 bits, in every channel of a four beside channels of either sign; beyond them, other kernels."""
    calls, outputs = Calls(), []
    signs = np.array([[1 if number >> bit & 1 else -1 for bit in range(4)] for number in range(16)]).reshape(-1)
    weights = (np.ones((1, DEEP)) * signs[:, None] * 127).astype(np.int8)
    rest = FULL - DEEP * 127 * 128
    requant = Requant(np.full(len(signs), 0x7FFFFFFF), np.full(len(signs), -17), 0)
    for more, pattern in itertools.product((0, 1), (-128, 127)):
        bias = signs * (rest + more) * (-1 if pattern < 0 else 1)
        x = np.full((3, DEEP), pattern, np.int8)
        sums = x.astype(np.int64) @ weights.astype(np.int64).T + bias
        assert pattern > 0 or np.all(np.abs(sums) == FULL + more)
        found = {kernel for kernel, _ in conv1x1_variants(machine, x, weights, bias, requant.shift)}
        assert ("cortado_conv1x1_lanes_s8" in found) == (more == 0)
        for kernel, variant in conv1x1_variants(machine, x, weights, bias, requant.shift):
            out, _ = conv1x1(calls, x, weights, bias, 0, requant, variant, kernel)
            outputs.append((out, finished(sums, requant), f"{kernel}{variant.suffix} {more} {pattern}"))
    check(machine, calls, outputs, *lanes(machine, "conv1x1"), *lanes(machine, "linear"), "cortado_conv1x1_s8__dsp")


@pytest.mark.parametrize("machine", machines(lambda machine: machine.core is Core.DSP))
def test_deep_linear_layers(machine: Machine) -> None:
    """Around the runs after which sums are taken out of their lanes, with the largest products of either sign."""
    draw, calls, outputs = Draw(18), Calls(), []
    for depth in (508, 511, 512, 513, 515, 516, 517, 1023, 1024, 1027, 2051):
        weights = draw.rng.choice(np.array([-127, 127], np.int8), (6, 1)) * np.ones((6, depth), np.int8)
        x, bias = np.full((1, depth), -128, np.int8), draw.rng.integers(-(1 << 20), 1 << 20, 6, np.int32)
        sums = x.astype(np.int64) @ weights.astype(np.int64).T + bias
        requant = right_shifts_only(draw.requant(sums))
        for kernel, variant in conv1x1_variants(machine, x, weights, bias, requant.shift):
            out, _ = conv1x1(calls, x, weights, bias, 0, requant, variant, kernel)
            outputs.append((out, finished(sums, requant), f"{kernel}{variant.suffix} of {depth}"))
    check(machine, calls, outputs, *lanes(machine, "linear"), "cortado_linear_s8__dsp")


@pytest.mark.parametrize("machine", machines(lambda machine: "__mve" in machine.suffixes))
def test_vectors_of_every_depth(machine: Machine) -> None:
    """Depths around one vector, two and more, of one pixel, pairs and an odd last one, with the largest products; the
    lowest output is that of zero or another."""
    draw, calls, outputs = Draw(43), Calls(), []
    for depth, channels in itertools.product((1, 2, 7, 8, 15, 16, 17, 24, 31, 32, 33, 48, 49, 80), (4, 5, 8, 11, 12)):
        pixels, zero = draw.one(1, 2, 3, 4, 5), draw.one(*ZEROS)
        x, weights, bias = draw.bytes(pixels, depth), draw.weights(channels, depth), draw.bias(channels)
        weights[0], x[0] = -128, -128
        sums = (x.astype(np.int64) - zero) @ weights.astype(np.int64).T + (0 if bias is None else bias)
        requant = right_shifts_only(draw.requant(sums))
        requant = replace(requant, act_min=requant.out_zero) if draw.rng.random() < 0.5 else requant
        requant = replace(requant, act_max=max(requant.act_min, requant.act_max))
        for kernel, variant in conv1x1_variants(machine, x, weights, folded(bias, weights, zero, (1,)), requant.shift):
            if variant.suffix == "__mve":
                out, _ = conv1x1(calls, x, weights, bias, zero, requant, variant, kernel)
                outputs.append((out, finished(sums, requant), f"{kernel} {pixels}x{depth}x{channels}"))
    check(machine, calls, outputs, *mve(machine, "conv1x1_s8", "conv1x1_shallow_s8"))


def test_which_layers_have_two_channels_in_a_halfword() -> None:
    """None with a weight of -128, a factor of a half or more, or a sum beyond 24 bits."""
    weights, bias, shift = np.full((4, 64), 127, np.int8), np.zeros(4, np.int32), np.full(4, -1, np.int32)
    assert packing.fits_conv_lanes(weights, bias, shift)
    assert not packing.fits_conv_lanes(np.full((4, 64), -128, np.int8), bias, shift)
    assert not packing.fits_conv_lanes(weights, bias, np.array([-1, -1, 0, -1], np.int32))
    assert not packing.fits_conv_lanes(weights, np.array([0, 0, 0, -(1 << 23)], np.int32), shift)


@pytest.mark.cases(1)
@pytest.mark.parametrize("machine", MACHINES)
def test_weights_of_minus_128(machine: Machine) -> None:
    """The largest products there are, in both pixels of a word and beside the least: no lane may run over."""
    draw, calls, outputs = Draw(19), Calls(), []
    for depth, pixels in itertools.product((1, 4, 7, 16, 24), (1, 2, 3, 4)):
        x, weights = draw.rng.choice(np.array([-128, 127], np.int8), (2, pixels, depth)), draw.weights(5, depth)
        weights[:] = np.where(draw.rng.random(weights.shape) < 0.8, -128, weights)
        weights[0], x[0, 0] = -128, -128
        for values in (*x, np.full_like(x[0], -128), np.full_like(x[0], 127)):
            sums = values.astype(np.int64) @ weights.astype(np.int64).T
            requant, start = right_shifts_only(draw.requant(sums)), np.zeros(5, np.int32)
            for kernel, variant in conv1x1_variants(machine, values, weights, start, requant.shift):
                out, _ = conv1x1(calls, values, weights, None, 0, requant, variant, kernel)
                outputs.append((out, finished(sums, requant), f"{kernel}{variant.suffix} {pixels}x{depth}"))
    taken = () if machine.core is Core.SMALL else (f"cortado_conv1x1_s8{machine.block_suffix()}",)
    check(machine, calls, outputs, "cortado_conv1x1_s8", *taken)


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


@pytest.mark.cases(1)
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
        start = folded(bias, weights, zero, (1, 2, 3))
        for kernel, variant in conv2d_variants(machine, weights, start, requant, sums, groups):
            out, shape = conv2d(calls, x, weights, bias, zero, window, requant, variant, groups, kernel)
            assert shape == sums.shape
            outputs.append((out, finished(sums, requant), f"{kernel}{variant.suffix} case {number}"))
    names = [f"cortado_conv2d_s8{suffix}" for suffix in machine.suffixes]
    check(machine, calls, outputs, "cortado_conv2d_s8", *names, *lanes(machine, "conv2d"))


# Rows of 1 to 15 bytes: of few bytes, of whole words, of words and a rest; three rows of nine have code of their own.
FEW = [((3, 3), 3), ((3, 3), 3), ((9, 3), 1), ((3, 9), 1), ((3, 1), 9), ((3, 3), 1), ((2, 2), 1), ((3, 1), 1),
       ((10, 4), 1), ((2, 5), 1), ((2, 5), 3), ((2, 3), 2), ((3, 7), 1), ((1, 3), 3)]  # fmt: skip


@pytest.mark.parametrize("machine", machines(lambda machine: machine.core is Core.DSP))
def test_windows_of_few_channels(machine: Machine) -> None:
    """Windows inside the image, over each of its edges and over both, with an odd last pixel and without."""
    draw, calls, outputs = Draw(31), Calls(), []
    for (kernel, depth), stride, extra in itertools.product(FEW, (1, 2), (0, 3, 6)):
        window = Window(kernel, (1, stride), (draw.one(0, 1), draw.one(0, 1, 1)))
        x, zero = draw.bytes(1, kernel[0] + 1, kernel[1] + extra, depth), draw.one(*ZEROS)
        weights, bias = draw.weights(draw.one(3, 4), *kernel, depth), None
        taps = ref.windows(x, window.kernel, window.stride, window.padding, window.dilation, zero)
        sums = ref.conv2d_sums(taps, weights, bias, zero, 1)
        requant = right_shifts_only(draw.requant(sums))
        start = folded(bias, weights, zero, (1, 2, 3))
        for name, variant in conv2d_variants(machine, weights, start, requant, sums, 1):
            if variant.suffix == "__dsp" and not variant.lean:
                out, _ = conv2d(calls, x, weights, bias, zero, window, requant, variant, 1, name)
                outputs.append((out, finished(sums, requant), f"{name} {kernel} x {depth} stride {stride} + {extra}"))
    check(machine, calls, outputs, "cortado_conv2d_s8__dsp", *lanes(machine, "conv2d"))


def conv2d_variants(machine: Machine, weights: Array, bias: Array, requant: Requant, sums: Array,
                    groups: int) -> Iterator[tuple[str, Variant]]:  # fmt: skip
    """Every kernel that takes this layer: (kernel, variant)."""
    core, depth, out_w, name = machine.core, weights[0].size, sums.shape[2], "cortado_conv2d_s8"
    yield name, PORTABLE
    yield name, FOLDED
    for lean in (False, True) if packing.fits_conv_tile(weights, bias, requant.shift, core) else ():
        scratch = packing.scratch_conv2d_tile(depth // weights.shape[3], weights.shape[3], out_w, core, lean)
        pack = partial(packing.pack_conv_tile, core=core, groups=groups)
        yield name, Variant(machine.block_suffix(), pack, scratch, lean=lean)
    if core is Core.DSP and packing.fits_conv_lanes(weights, bias, requant.shift):
        scratch = packing.scratch_conv2d_tile(depth // weights.shape[3], weights.shape[3], out_w, core)
        yield "cortado_conv2d_lanes_s8", Variant("__dsp", partial(packing.pack_conv_lanes, groups=groups), scratch)
    if "__mve" in machine.suffixes and packing.fits_conv_tile_mve(requant.shift):
        scratch = packing.scratch_conv2d_mve(depth, out_w)
        yield name, Variant("__mve", partial(packing.pack_conv_tile_mve, groups=groups), scratch)


@pytest.mark.cases(1)
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


@pytest.mark.parametrize("machine", machines(lambda machine: machine.core is Core.DSP))
def test_depthwise_by_long_multiplies(machine: Machine) -> None:
    """Every width of a window and of a row up to two tiles, every padding up to half the window, several outputs of a
    channel, rows outside of the image, and the largest products of either sign."""
    draw, calls, outputs = Draw(41), Calls(), []
    for wide, stride, width in itertools.product((3, 4, 5, 6, 7, 8, 9), (1, 2), (1, 2, 4, 5, 7, 12)):
        pad, multiplier = draw.one(*range(wide // 2 + 1)), draw.one(1, 1, 2, 3)
        high = draw.one(1, 2, 3) if wide > 7 else draw.one(1, 3, 5, 7)
        if width + 2 * pad < wide or packing.long_words(wide, stride) > 5:
            continue
        window = Window((high, wide), (draw.one(1, 2), stride), (draw.one(0, high // 2), pad))
        channels, zero = draw.one(4, 5, 6, 8), draw.one(*ZEROS)
        x, bias = draw.bytes(1, high, width, channels), draw.bias(channels * multiplier)
        weights = draw.weights(high, wide, channels * multiplier)
        taps = ref.windows(x, window.kernel, window.stride, window.padding, window.dilation, zero)
        sums = ref.depthwise_sums(taps, weights, bias, zero)
        requant = right_shifts_only(draw.requant(sums))
        geometry = (width, sums.shape[2]), (stride, pad, 1)
        start = folded(bias, weights, zero, (0, 1))
        assert packing.fits_depthwise_long(weights, start, requant.shift, channels, *geometry)
        pack = partial(packing.pack_depthwise_long, in_c=channels, stride=stride)
        variant = Variant("__dsp", pack, packing.scratch_depthwise_long((high, wide), *geometry))
        out, _ = depthwise(calls, x, weights, bias, zero, window, requant, variant, "cortado_depthwise_long_s8")
        outputs.append((out, finished(sums, requant), f"{window} {width} wide, {channels} channels, {multiplier} each"))
    check(machine, calls, outputs, "cortado_depthwise_long_s8__dsp")


def test_sums_that_leave_a_lane_have_another_kernel() -> None:
    """Sums of 20 bits and a sign: 64 products of -128 and 128 are the first that don't fit."""
    weights, bias = np.full((8, 8, 4), 127, np.int8), np.zeros(4, np.int32)
    shift, geometry = np.full(4, -8, np.int32), ((14, 14), (1, 3, 1))
    assert packing.fits_depthwise_long(weights, bias, shift, 4, *geometry)
    weights[...] = -128
    assert not packing.fits_depthwise_long(weights, bias, shift, 4, *geometry)
    assert not packing.fits_depthwise_long(weights[:7], bias, shift * 0, 4, *geometry)
    assert not packing.fits_depthwise_long(weights[:7], bias, shift, 4, (14, 14), (1, 3, 2))


def test_vectors_of_a_depthwise_layer_add_two_products_in_a_halfword() -> None:
    """Two of -128 and -128 don't fit one, and no output is shifted to the left; the block for 3x3 shifts each right."""
    weights, shift = np.full((3, 3, 16), -127, np.int8), np.full(16, -1, np.int32)
    assert packing.fits_depthwise_mve(weights, 0 * shift)
    assert packing.fits_depthwise3x3_mve(weights, shift)
    assert not packing.fits_depthwise3x3_mve(weights, 0 * shift)
    assert not packing.fits_depthwise_mve(weights, np.where(np.arange(16) == 5, 1, shift))
    weights[2, 1, 7] = -128
    assert not packing.fits_depthwise_mve(weights, shift)


@pytest.mark.parametrize("machine", machines(lambda machine: "__mve" in machine.suffixes))
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


@pytest.mark.parametrize("machine", machines(lambda machine: "__mve" in machine.suffixes))
def test_depthwise_with_several_outputs_of_a_channel(machine: Machine) -> None:
    """Every number of channels below a vector's and some above, up to 17 outputs of each, rows outside of the image,
    and runs of one pixel and of several."""
    draw, calls, outputs = Draw(18), Calls(), []
    for channels, width in itertools.product((*range(1, 18), 24, 32, 40), (1, 4, 18)):
        multiplier = draw.one(2, 2, 3, 4, 17) if channels < 16 else draw.one(2, 3)
        kernel = (draw.one(1, 2, 3), draw.one(1, 3, 4))
        window = Window(kernel, (1, draw.one(1, 1, 2)), (1, draw.one(0, 1)), (1, draw.one(1, 1, 2)))
        x, zero = draw.bytes(1, kernel[0], (kernel[1] - 1) * window.dilation[1] + width, channels), draw.one(*ZEROS)
        weights, bias = draw.weights(*kernel, channels * multiplier), draw.bias(channels * multiplier)
        taps = ref.windows(x, window.kernel, window.stride, window.padding, window.dilation, zero)
        sums = ref.depthwise_sums(taps, weights, bias, zero)
        requant = right_shifts_only(draw.requant(sums))
        pack = partial(packing.pack_depthwise_several_mve, in_c=channels)
        variant = Variant("__mve", pack, packing.scratch_depthwise_mve(*kernel))
        out, _ = depthwise(calls, x, weights, bias, zero, window, requant, variant, "cortado_depthwise_several_s8")
        outputs.append((out, finished(sums, requant), f"{channels} channels, {multiplier} each, {width} wide"))
    check(machine, calls, outputs, "cortado_depthwise_several_s8__mve")


@pytest.mark.parametrize("machine", machines(lambda machine: "__mve" in machine.suffixes))
def test_depthwise_by_words(machine: Machine) -> None:
    """Every number of channels up to a vector's and some above, up to 5 outputs of each, windows up to 4 x 4, every
    stride, padding and dilation, rows and columns outside of the image, and rows of one run and of several."""
    draw, calls, outputs = Draw(19), Calls(), []
    for channels, width in itertools.product((*range(1, 18), 24, 33), (1, 4, 23, 75)):
        multiplier, kernel = draw.one(1, 1, 2, 2, 3, 4, 5), (draw.one(1, 2, 3, 3, 4), draw.one(1, 2, 3, 3, 4))
        slide = (1, draw.one(1, 1, 2, 3)), (draw.one(0, 1), draw.one(0, 1, 2)), (1, draw.one(1, 1, 2, 4))
        window = Window(kernel, *slide)
        x, zero = draw.bytes(1, kernel[0], (kernel[1] - 1) * window.dilation[1] + width, channels), draw.one(*ZEROS)
        weights, bias = draw.weights(*kernel, channels * multiplier), draw.bias(channels * multiplier)
        weights.reshape(-1)[:2] = -128
        taps = ref.windows(x, kernel, *slide, zero)
        sums = ref.depthwise_sums(taps, weights, bias, zero)
        drawn = draw.requant(sums)
        requant = replace(drawn, shift=np.minimum(drawn.shift, -1))
        across = (x.shape[2], sums.shape[2]), (window.stride[1], window.padding[1], window.dilation[1])
        scratch = packing.scratch_depthwise_words_mve(kernel[1], *across, channels)
        variant = Variant("__mve", partial(packing.pack_depthwise_words_mve, in_c=channels), scratch)
        out, _ = depthwise(calls, x, weights, bias, zero, window, requant, variant, "cortado_depthwise_words_s8")
        outputs.append(
            (out, finished(sums, requant), f"{channels} channels, {multiplier} each, {window}, {width} wide")
        )
    check(machine, calls, outputs, "cortado_depthwise_words_s8__mve")


def test_windows_that_do_not_fit_a_vector_have_another_kernel() -> None:
    def fits(high: int, wide: int, in_c: int, each: int, dilation: int = 1, shift: int = -1) -> bool:
        weights, shifts = np.full((high, wide, in_c * each), -128, np.int8), np.full(in_c * each, shift, np.int32)
        return packing.fits_depthwise_words_mve(weights, shifts, in_c, dilation)

    assert [fits(3, 3, 8, 1), fits(4, 4, 32, 2, 4), fits(2, 3, 1, 3)] == [True, True, True]
    assert [fits(5, 3, 8, 1), fits(3, 5, 8, 1), fits(1, 4, 8, 1)] == [False, False, False]
    assert [fits(3, 3, 32, 1), fits(3, 3, 8, 1, 5), fits(3, 3, 8, 1, 1, 0)] == [False, False, False]


def test_outputs_further_apart_than_a_byte_says_have_another_kernel() -> None:
    weights, shift = np.full((3, 3, 36), 127, np.int8), np.full(36, -8, np.int32)
    assert [packing.fits_depthwise_several_mve(weights, shift, channels) for channels in (36, 18, 3, 2)] == [
        *(False, True, True, False)
    ]
    weights[0, 0, 0] = -128
    assert not packing.fits_depthwise_several_mve(weights, shift, 18)


@pytest.mark.parametrize("machine", machines(lambda machine: "__scalar" not in machine.suffixes))
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
    core, (high, wide) = machine.core, weights.shape[:2]
    yield "cortado_depthwise_s8", PORTABLE
    yield "cortado_depthwise_s8", FOLDED
    in_c = weights.shape[2] // multiplier
    if core is Core.DSP and packing.fits_depthwise_long(weights, bias, requant.shift, in_c, *geometry):
        pack = partial(packing.pack_depthwise_long, in_c=in_c, stride=geometry[1][0])
        scratch = packing.scratch_depthwise_long((high, wide), *geometry)
        yield "cortado_depthwise_long_s8", Variant("__dsp", pack, scratch)
    if "__mve" in machine.suffixes and packing.fits_depthwise_words_mve(weights, requant.shift, in_c, geometry[1][2]):
        scratch = packing.scratch_depthwise_words_mve(wide, *geometry, in_c)
        yield (
            "cortado_depthwise_words_s8",
            Variant("__mve", partial(packing.pack_depthwise_words_mve, in_c=in_c), scratch),
        )
    if multiplier != 1:
        if "__mve" in machine.suffixes and packing.fits_depthwise_several_mve(weights, requant.shift, in_c):
            pack = partial(packing.pack_depthwise_several_mve, in_c=in_c)
            yield "cortado_depthwise_several_s8", Variant("__mve", pack, packing.scratch_depthwise_mve(high, wide))
        return
    if packing.fits_depthwise(weights, bias, requant.shift, core):
        # On a 64-bit host a pointer is twice as long.
        scratch = packing.scratch_depthwise(high, wide, core) * (1 if machine.target else 2)
        yield (
            "cortado_depthwise_s8",
            Variant(machine.block_suffix(), partial(packing.pack_depthwise, core=core), scratch),
        )
    clamp = requant.act_min, requant.act_max
    if machine.core is Core.DSP and packing.fits_depthwise3x3_dsp(weights, bias, requant.shift, clamp, *geometry):
        pack = partial(packing.pack_depthwise3x3_dsp, offset=requant.out_zero)
        yield "cortado_depthwise3x3_s8", Variant("__dsp", pack)
    if "__mve" in machine.suffixes and packing.fits_depthwise_mve(weights, requant.shift):
        name = "cortado_depthwise_s8" if weights.shape[2] >= 16 else "cortado_depthwise_few_s8"
        yield name, Variant("__mve", packing.pack_depthwise_mve, packing.scratch_depthwise_mve(high, wide))
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


MATMUL, LANES = "cortado_batch_matmul_s8", "cortado_batch_matmul_lanes_s8__dsp"


@pytest.mark.parametrize("machine", MACHINES)
def test_batch_matmul(machine: Machine) -> None:
    draw, calls, outputs = Draw(6), Calls(), []
    for number in range(36):
        batches, rows, cols = draw.one(1, 3), draw.one(1, 2, 3, 8, 9, 11), draw.one(1, 2, 3, 4, 5, 7, 8, 18, 35)
        depth = draw.one(1, 3, 4, 8, 15, 16, 17, 20, 40, 66)
        if number in (0, 1):  # the largest sums of products that fit 24 bits
            rows, cols, depth = 8, 6, 511
        lhs, rhs = draw.bytes(batches, rows, depth), draw.bytes(batches, cols, depth)
        if number == 0:
            lhs[:, ::3], rhs[:, :4], rhs[:, 4] = -128, -128, 127
        zeros = draw.one(*ZEROS), draw.one(*ZEROS)
        sums = (lhs.astype(np.int64) - zeros[0]) @ (rhs.astype(np.int64) - zeros[1]).transpose(0, 2, 1)
        drawn = draw.requant(sums.reshape(-1, 1))
        plain = replace(right_shifts_only(drawn), act_min=-128, act_max=127)
        for kernel, requant in matmul_variants(machine, (rows, cols, depth), drawn, plain):
            layer = calls.struct(
                "cortado_batch_matmul_t", batches=batches, rows=rows, cols=cols, depth=depth, lhs_zero=zeros[0],
                rhs_zero=zeros[1], out_zero=requant.out_zero, multiplier=requant.multiplier[0], shift=requant.shift[0],
                act_min=requant.act_min, act_max=requant.act_max)  # fmt: skip
            out = calls.space(sums.size)
            size = packing.scratch_batch_matmul_lanes(cols, depth) if kernel == LANES else 4 * cols
            scratch = None if kernel == MATMUL else calls.space(size, words=True)
            calls.call(kernel, layer, calls.array(lhs), calls.array(rhs), out, scratch)
            outputs.append((out, finished(sums, requant), f"{kernel} case {number}: {rows} x {depth} x {cols}"))
    fast = [f"{MATMUL}{suffix}" for suffix in machine.suffixes if suffix != "__scalar"]
    check(machine, calls, outputs, MATMUL, *fast, *([LANES] if machine.core is Core.DSP else []))


def matmul_variants(
    machine: Machine, sizes: tuple[int, int, int], drawn: Requant, plain: Requant
) -> Iterator[tuple[str, Requant]]:
    """Every kernel that takes a product, and factors that it takes."""
    yield MATMUL, drawn
    for suffix, core in (("__dsp", Core.DSP), ("__mve", Core.MVE)):
        if suffix in machine.suffixes and packing.fits_batch_matmul(*sizes, int(plain.shift[0]), core):
            yield f"{MATMUL}{suffix}", plain
    if machine.core is Core.DSP and packing.fits_batch_matmul_lanes(*sizes, int(plain.shift[0])):
        yield LANES, plain
