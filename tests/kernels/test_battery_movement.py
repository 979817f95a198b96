"""The battery for data movement, the float border and scratch; that stray loads and stores are seen."""

import numpy as np
import pytest

from cortado.base.target import Core
from cortado.ops.conv import packing
from helpers import kernel_reference as ref
from helpers.kernel_board import run_watched
from helpers.kernels import Calls, Ref
from helpers.machines import MACHINES, ZEROS, Array, Draw, Machine, check, in_turn, machines, mve, with_vectors

# ---- Data movement and the float border -----------------------------------------------------------------------------


@pytest.mark.parametrize("machine", MACHINES)
def test_data_movement(machine: Machine) -> None:
    draw, calls, outputs = Draw(13), Calls(), []
    for case in (copy2d_case, pad_case, upsample_case):
        for number in range(12):
            out, expected = case(draw, calls)
            outputs.append((out, np.ascontiguousarray(expected), f"{case.__name__} {number}"))
    names = ("copy2d", "pad_s8", "upsample_nearest_rows_s8")
    check(machine, calls, outputs, *(f"cortado_{name}" for name in names))


@pytest.mark.parametrize("machine", MACHINES)
def test_strided_reads_and_resizing(machine: Machine) -> None:
    draw, calls, outputs = Draw(46), Calls(), []
    for suffix in with_vectors(machine):
        for case in (transpose_case, bilinear_case, bilinear_rows_case):
            for number in range(24):
                out, expected = case(draw, calls, suffix)
                outputs.append((out, np.ascontiguousarray(expected), f"{case.__name__}{suffix} {number}"))
        for sizes in ((40, 2), (2, 40), (40, 17), (19, 18), (9, 9363), (9363, 9)):  # near, far and any
            out, expected = transposed(draw.bytes(*sizes), [1, 0], calls, suffix, False)
            outputs.append((out, np.ascontiguousarray(expected), f"transpose{suffix} of {sizes}"))
    names = ("transpose_s8", "upsample_bilinear_all_s8", "upsample_bilinear_s8")
    check(machine, calls, outputs, *(f"cortado_{name}" for name in names), *mve(machine, *names))


def copy2d_case(draw: Draw, calls: Calls) -> tuple[Ref, Array]:
    height, width, before, after = draw.one(1, 2, 5), draw.one(1, 3, 16), draw.one(0, 2), draw.one(0, 3)
    x = draw.bytes(height, before + width + after)
    out = calls.space(height * width)
    calls.call("cortado_copy2d", calls.array(x) + before, x.shape[1], out, width, width, height)
    return out, x[:, before : before + width]


def transpose_case(draw: Draw, calls: Calls, suffix: str) -> tuple[Ref, Array]:
    rank = draw.one(1, 2, 3, 4, 5, 6)
    most = (1, 2, 3, 4) if rank > 3 else (1, 2, 4, 9, 20)
    x = draw.bytes(*(draw.one(*most) for _ in range(rank)))
    return transposed(x, [int(axis) for axis in draw.rng.permutation(rank)], calls, suffix, bool(draw.one(0, 1)))


def transposed(x: Array, order: list[int], calls: Calls, suffix: str, flipped: bool) -> tuple[Ref, Array]:
    """By one call, which reads backwards along the first dimension of the result if that is flipped."""
    moved = x.transpose(order)
    offset = 0
    if flipped:
        moved = np.flip(moved, 0)
        offset = -(moved.shape[0] - 1) * moved.strides[0]
    layer = calls.struct("cortado_transpose_t", rank=x.ndim, shape=moved.shape, stride=moved.strides, offset=offset)
    out = calls.space(x.size)
    calls.call(f"cortado_transpose_s8{suffix}", layer, calls.array(x), out)
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


def bilinear(draw: Draw, calls: Calls, shift: int, places: list[Array]) -> tuple[Array, Ref, Array]:
    """An image, the descriptor that resizes it, and the result; `places` in steps of 1/2048."""
    images, (height, width) = draw.one(1, 2) if shift < 0 else 1, [int(p[-1] >> 11) + 1 for p in places]
    x = draw.bytes(images, height, width, draw.one(1, 3, 4, 6, 16))
    sums = x.astype(np.int64)
    for axis, place in enumerate(places, start=1):
        first, weight = place >> 11, (place & 2047).reshape(-1, *[1] * (3 - axis))
        second = np.minimum(first + 1, x.shape[axis] - 1)
        sums = sums.take(first, axis) * (2048 - weight) + sums.take(second, axis) * weight
    rows, columns = (calls.array(place) for place in places)
    layer = calls.struct(
        "cortado_bilinear_t", images=images, in_h=height, in_w=width, channels=x.shape[3], out_h=len(places[0]),
        out_w=len(places[1]), shift_h=max(shift, 0), rows=rows, columns=columns)  # fmt: skip
    return x, layer, ((sums + (1 << 21)) >> 22).astype(np.int8)


def bilinear_case(draw: Draw, calls: Calls, suffix: str) -> tuple[Ref, Array]:
    ends = [draw.one(0, 1, 4) << 11 for _ in range(2)]
    between = [draw.rng.integers(0, end + 1, draw.one(1, 2, 9)) for end in ends]
    places = [np.array([*np.sort(inner), end], np.int32) for inner, end in zip(between, ends, strict=True)]
    x, layer, expected = bilinear(draw, calls, -1, places)
    out = calls.space(expected.size)
    calls.call(f"cortado_upsample_bilinear_all_s8{suffix}", layer, calls.array(x), out)
    return out, expected


def bilinear_rows_case(draw: Draw, calls: Calls, suffix: str) -> tuple[Ref, Array]:
    """By a power of two, without aligned corners: what PyTorch makes of a scale factor."""
    height, factor = draw.one(1, 2, 5), draw.one(1, 2, 4)
    rows = np.clip((np.arange(height * factor) * 2048 + 1024) // factor - 1024, 0, (height - 1) << 11)
    columns = np.array([0, 700, 2048, 4096], np.int32)
    x, layer, expected = bilinear(draw, calls, factor.bit_length() - 1, [rows.astype(np.int32), columns])
    image, row = calls.array(x), x.shape[2] * x.shape[3]
    out = calls.space(expected.size)
    for y in range(height * factor):
        beside = range(y // factor - 1, y // factor + 2)
        taps = [image + place * row if 0 <= place < height else None for place in beside]
        at = out + y * expected.shape[2] * expected.shape[3]
        calls.call(f"cortado_upsample_bilinear_s8{suffix}", layer, calls.pointers(taps), at, y)
    return out, expected


@pytest.mark.parametrize("machine", MACHINES)
def test_float_border(machine: Machine) -> None:
    draw, calls, outputs = Draw(14), Calls(), []
    special = np.array([0, -0.0, 1e30, -1e30, np.inf, -np.inf, np.nan, 0.5, 1.5, 2.5, -0.5, -1.5, 1e-40], np.float32)
    for _ in range(15):
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
    check(machine, calls, outputs, "cortado_quantize_f32_s8", "cortado_dequantize_s8_f32")


@pytest.mark.parametrize("machine", MACHINES)
def test_division(machine: Machine) -> None:
    draw, calls, outputs = Draw(45), Calls(), []
    for number in range(30):
        for suffix in with_vectors(machine):
            outputs.append((*div_case(draw, calls, f"cortado_div_s8{suffix}"), f"{number}{suffix}"))
    for suffix in with_vectors(machine):
        outputs.append((*every_quotient(calls, f"cortado_div_s8{suffix}"), f"every quotient{suffix}"))
    check(machine, calls, outputs, "cortado_div_s8", *mve(machine, "div_s8"))


def every_quotient(calls: Calls, kernel: str) -> tuple[Ref, Array]:
    """All differences of one sign divided by all of the other, zeros among them."""
    a, b = (one.ravel().astype(np.int8) for one in np.meshgrid(np.arange(-128, 128), np.arange(-128, 128)))
    layer = calls.struct("cortado_div_t", a_zero=-128, b_zero=127, out_zero=0, factor=127.5, act_min=-128, act_max=127)
    out = calls.space(a.size)
    calls.call(kernel, layer, calls.array(a), calls.array(b), out, a.size)
    quotient = ref.divide_f32(a.astype(np.int64) + 128, b.astype(np.int64) - 127, 127.5)
    return out, np.clip(quotient, -128, 127).astype(np.int8)


def div_case(draw: Draw, calls: Calls, kernel: str) -> tuple[Ref, Array]:
    zeros, clamp = [draw.one(*ZEROS) for _ in range(3)], draw.clamp()
    factor = float(np.float32(draw.rng.choice([1.0, 0.5, 37.25, 1e-3, 1e9])))
    count = draw.one(1, 3, 4, 39, 40)
    a, b = draw.bytes(count), draw.bytes(count)
    quotient = ref.divide_f32(a.astype(np.int64) - zeros[0], b.astype(np.int64) - zeros[1], factor)
    layer = calls.struct("cortado_div_t", a_zero=zeros[0], b_zero=zeros[1], out_zero=zeros[2], factor=factor,
                         act_min=clamp[0], act_max=clamp[1])  # fmt: skip
    left, right, out = in_turn(calls, a, b, draw.one(0, 1, 2, 3, 4))
    calls.call(kernel, layer, left, right, out, count)
    return out, np.clip(quotient + zeros[2], *clamp).astype(np.int8)


# ---- Scratch --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("machine", machines(lambda machine: machine.name in ("m0", "m4", "m55")))
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
            (
                f"cortado_conv1x1_s8{block}_scratch",
                (flat, out_w),
                packing.scratch_conv1x1_tile(depth, out_w, machine.core),
            ),
            (f"cortado_depthwise_s8{block}_scratch", (deep,), packing.scratch_depthwise(*kernel, machine.core)),
        ]
        if machine.core is Core.DSP:
            wanted += [(symbol.replace("_s8", "_lanes_s8"), layer, size) for symbol, layer, size in wanted[-3:-1]]
            cols, deep_as = draw.one(4, 5, 18, 70), draw.one(1, 4, 15, 16, 64, 130, 511)
            product = calls.struct("cortado_batch_matmul_t", **MATRICES, cols=cols, depth=deep_as)
            least = packing.scratch_batch_matmul_lanes(cols, deep_as)
            wanted.append(("cortado_batch_matmul_lanes_s8__dsp_scratch", (product,), least))
        if "__mve" in machine.suffixes:
            wanted += [
                ("cortado_conv2d_s8__mve_scratch", (conv,), packing.scratch_conv2d_mve(size, out_w)),
                ("cortado_depthwise_s8__mve_scratch", (deep,), packing.scratch_depthwise_mve(*kernel)),
                ("cortado_depthwise_few_s8__mve_scratch", (deep,), packing.scratch_depthwise_mve(*kernel)),
                ("cortado_depthwise_several_s8__mve_scratch", (conv,), packing.scratch_depthwise_mve(*kernel)),
                (
                    "cortado_depthwise_words_s8__mve_scratch",
                    (conv,),
                    packing.scratch_depthwise_words_mve(kernel[1], (9, out_w), (1, 0, 1), depth * groups),
                ),
            ]
    for symbol, args, _ in wanted:
        calls.call(symbol, *args)
    machine.run(calls)
    assert calls.results == [size for _, _, size in wanted]


MATRICES = {name: 0 for name in ("lhs_zero", "rhs_zero", "out_zero", "multiplier", "act_min", "act_max")}
MATRICES |= {"batches": 1, "rows": 8, "shift": -1}
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
