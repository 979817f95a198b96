"""The battery for pools and for kernels element by element, on this machine and on every kind of emulated core."""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from cortado.base.target import Core
from cortado.ops.conv import packing
from cortado.ops.softmax import softmax
from helpers import kernel_reference as ref
from helpers.kernel_layers import Window, pool2d
from helpers.kernels import Calls, run_host
from helpers.machines import MACHINES, ZEROS, Array, Draw, Machine, Pair, check, in_turn, mve

# ---- Pooling --------------------------------------------------------------------------------------------------------


def pool_case(draw: Draw, dilated: bool) -> tuple[Array, Window, tuple[int, int]]:
    kernel = draw.one(1, 2, 3, 7), draw.one(1, 2, 3, 7)
    dilation = (draw.one(1, 2), draw.one(1, 2)) if dilated else (1, 1)
    window = Window(
        kernel, (draw.one(1, 2), draw.one(1, 2, 3)), (kernel[0] // 2, draw.one(0, kernel[1] // 2)), dilation
    )
    size = [(kernel[i] - 1) * dilation[i] + draw.one(1, 2, 5) for i in range(2)]
    return draw.bytes(draw.one(1, 2), *size, draw.one(1, 3, 4, 5, 15, 16, 17, 35)), window, draw.clamp()


@pytest.mark.cases(2)
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
            means = ref.divide(total, np.array(2 * pixels)).astype(np.int8)
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
        means = ref.divide(sums, np.array(count)).astype(np.int8)
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
        if number == 59:  # half of a product is a tie below zero, which decides how the sum is rounded
            zeros, factors, final, clamp = [0, 0, 0], ((1079110585, -1), half), (1 << 30, -17), (-128, 127)
            a, b = np.full(n, -100, np.int8), np.full(n, 100, np.int8)
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
            calls.call("cortado_mul_s8__mve", layer, left, right, out, n)
            outputs.append((out, expected, f"mul__mve case {number}"))
    check(machine, calls, outputs, "cortado_mul_s8", *mve(machine, "mul_s8"))


@pytest.mark.parametrize("machine", MACHINES)
def test_mul_by_channel(machine: Machine) -> None:
    draw, calls, outputs = Draw(18), Calls(), []
    for number in range(40):
        channels, pixels = draw.one(1, 3, 4, 5, 7, 8, 9, 15, 16, 24, 40), draw.one(1, 2, 3, 7)
        zeros, clamp = [draw.one(*ZEROS) for _ in range(3)], draw.clamp()
        factor = int(draw.multipliers(1)[0]), draw.one(-31, -12, -9, -8, -7, -6, -1, 0, 2, 14, 15, -20, -2)
        a, b = draw.bytes(pixels, channels), draw.bytes(channels)
        product = (a.astype(np.int64) - zeros[0]) * (b.astype(np.int64) - zeros[1])
        layer = calls.struct(
            "cortado_mul_t", a_zero=zeros[0], b_zero=zeros[1], out_zero=zeros[2], out_multiplier=factor[0],
            out_shift=factor[1], act_min=clamp[0], act_max=clamp[1])  # fmt: skip
        expected = ref.finish(product, *factor, zeros[2], *clamp)
        takes_vector = "__mve" in machine.suffixes and packing.fits_mul_mve(factor[1])
        for suffix in ("", "__mve") if takes_vector else ("",):
            left, _, out = in_turn(calls, a.ravel(), a.ravel(), (0, 1, 3)[number % 3])
            calls.call(f"cortado_mul_channel_s8{suffix}", layer, left, calls.array(b), out, a.size, channels)
            outputs.append((out, expected, f"mul_channel{suffix} case {number}"))
        if machine.core is Core.DSP and packing.fits_mul_dsp(factor[1]):
            left, _, out = in_turn(calls, a.ravel(), a.ravel(), (0, 1, 3)[number % 3])
            layer = calls.struct(
                "cortado_mul_t", a_zero=zeros[0], b_zero=zeros[1], out_zero=zeros[2], out_multiplier=factor[0],
                out_shift=factor[1], act_min=-128, act_max=127)  # fmt: skip
            calls.call("cortado_mul_channel_s8__dsp", layer, left, calls.array(b), out, a.size, channels)
            outputs.append((out, ref.finish(product, *factor, zeros[2], -128, 127), f"mul_channel__dsp {number}"))
    fast = ["cortado_mul_channel_s8__dsp"] if machine.core is Core.DSP else []
    check(machine, calls, outputs, "cortado_mul_channel_s8", *fast, *mve(machine, "mul_channel_s8"))


@pytest.mark.parametrize("machine", MACHINES)
def test_channels_of_an_output_a_little_before_its_input(machine: Machine) -> None:
    """Channel by channel over all pixels, the output of one would overwrite the input of another."""
    draw, calls, outputs = Draw(44), Calls(), []
    for channels in (9, 24, 40):
        a, b = draw.bytes(7, channels), draw.bytes(channels)
        fields = dict(a_zero=1, b_zero=-2, out_zero=3, act_min=-128, act_max=127)
        add = calls.struct(
            "cortado_add_t", a_multiplier=1 << 30, a_shift=0, b_multiplier=1 << 30, b_shift=0, out_multiplier=1 << 30,
            out_shift=-18, **fields)  # fmt: skip
        mul = calls.struct("cortado_mul_t", out_multiplier=1 << 30, out_shift=-6, **fields)
        x, y = a.astype(np.int64) - 1, b.astype(np.int64) + 2
        sums = ref.requant(x << 20, 1 << 30, 0) + ref.requant(y << 20, 1 << 30, 0)
        for name, layer, exact, shift in (("add", add, sums, -18), ("mul", mul, x * y, -6)):
            for suffix in ("", "__mve") if "__mve" in machine.suffixes else ("",):
                left, _, out = in_turn(calls, a.ravel(), a.ravel(), 3)
                calls.call(f"cortado_{name}_channel_s8{suffix}", layer, left, calls.array(b), out, a.size, channels)
                expected = ref.finish(exact, 1 << 30, shift, 3, -128, 127)
                outputs.append((out, expected, f"{name}{suffix} of {channels} channels"))
    check(machine, calls, outputs)


@pytest.mark.parametrize("machine", MACHINES)
def test_one_value_for_each_channel(machine: Machine) -> None:
    draw, calls, outputs = Draw(14), Calls(), []
    for number in range(45):
        pixels, channels = draw.one(1, 2, 3, 7, 16, 17), draw.one(1, 3, 4, 5, 16, 17, 33)
        zeros, clamp = [draw.one(*ZEROS) for _ in range(3)], draw.clamp()
        a, b = draw.bytes(pixels * channels), draw.bytes(channels)
        centred = [a.astype(np.int64) - zeros[0], np.tile(b.astype(np.int64) - zeros[1], pixels)]
        bounds = dict(a_zero=zeros[0], b_zero=zeros[1], out_zero=zeros[2], act_min=clamp[0], act_max=clamp[1])
        sides = [(1 << 30, 0), (int(draw.multipliers(1)[0]), draw.one(-9, -3, -1))][:: draw.one(1, -1)]
        final = int(draw.multipliers(1)[0]), draw.one(-19, -18, -17, 0)
        sums = [ref.requant(side << 20, *factor) for side, factor in zip(centred, sides, strict=True)]
        add = calls.struct(
            "cortado_add_t", a_multiplier=sides[0][0], a_shift=sides[0][1], b_multiplier=sides[1][0],
            b_shift=sides[1][1], out_multiplier=final[0], out_shift=final[1], **bounds)  # fmt: skip
        factor = int(draw.multipliers(1)[0]), draw.one(-9, -8, -7)
        mul = calls.struct("cortado_mul_t", out_multiplier=factor[0], out_shift=factor[1], **bounds)
        for name, layer, accumulated, scale in (
            ("add_channel", add, sums[0] + sums[1], final), ("mul_channel", mul, centred[0] * centred[1], factor)
        ):  # fmt: skip
            for suffix in ("", "__mve") if "__mve" in machine.suffixes else ("",):
                left, _, out = in_turn(calls, a, a, (0, 1, 3)[number % 3])
                calls.call(f"cortado_{name}_s8{suffix}", layer, left, calls.array(b), out, len(a), channels)
                outputs.append((out, ref.finish(accumulated, *scale, zeros[2], *clamp), f"{name}{suffix} {number}"))
    vectors = mve(machine, "add_channel_s8", "mul_channel_s8")
    check(machine, calls, outputs, "cortado_add_channel_s8", "cortado_mul_channel_s8", *vectors)


@pytest.mark.parametrize("machine", MACHINES)
def test_table_minimum_maximum(machine: Machine) -> None:
    draw, calls, outputs = Draw(11), Calls(), []
    table = draw.rng.integers(-128, 128, 256, np.int8)
    sides = {"minimum": np.minimum, "maximum": np.maximum}
    suffixes = [suffix for suffix in machine.suffixes if suffix in ("__dsp", "__mve")]
    for number, n in enumerate((*LENGTHS, 256, 300)):
        a, b = draw.rng.integers(-128, 128, (2, n), np.int8)
        if n == 256:
            a = np.arange(-128, 128, dtype=np.int8)
        for suffix in ("", *(s for s in machine.suffixes if s == "__mve")):
            left, _, out = in_turn(calls, a, b, (0, 1, 3)[number % 3])
            calls.call(f"cortado_table_s8{suffix}", calls.array(table), left, out, n)
            outputs.append((out, table[a.astype(np.int64) + 128], f"table{suffix} of {n}"))
        for (name, function), suffix in itertools.product(sides.items(), ("", *suffixes)):
            left, right, out = in_turn(calls, a, b, number % PLACES)
            calls.call(f"cortado_{name}_s8{suffix}", left, right, out, n)
            outputs.append((out, function(a, b), f"{name}{suffix} of {n}"))
    called = [f"cortado_{name}_s8{suffix}" for name in sides for suffix in suffixes]
    check(machine, calls, outputs, "cortado_table_s8", *mve(machine, "table_s8"), *called)


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
