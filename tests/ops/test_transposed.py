"""Transposed convolutions: the exact sum, and what Arm's kernel makes of it."""

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from cortado.base.element import INT8
from cortado.base.target import Core, from_target_string
from cortado.exploring import Sketch, board_flow, estimate_of, prepared, sketch
from cortado.ir.op import Call
from cortado.ops.conv.transpose_conv2d import TRANSPOSE_CONV2D
from cortado.ops.conv.transposed_taps import Taps, TransposedAxis, group_count, zero_taps
from helpers.cores import THREE, each_core
from helpers.single import TRANSPOSED, assert_close, lower


def test_transposed_reference_is_the_float64_sum() -> None:
    """Every legal shape: accumulators of conv_transpose2d in float64, rescaled by one."""

    @settings(max_examples=150)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        stride, dilation = ([data.draw(st.integers(1, 4)) for _ in range(2)] for _ in range(2))
        kernel = [data.draw(st.integers(1, 5)) for _ in range(2)]
        extra = [data.draw(st.integers(0, max(s, d) - 1)) for s, d in zip(stride, dilation, strict=True)]
        padding = [data.draw(st.integers(0, d * (k - 1))) for k, d in zip(kernel, dilation, strict=True)]
        sizes = [data.draw(st.integers(1 + p, 5 + p)) for p in padding]
        rng = torch.Generator().manual_seed(data.draw(st.integers(0, 2**16)))
        x = torch.randint(-8, 9, (2, *sizes, 3), generator=rng, dtype=torch.int64)
        weight = torch.randint(-1, 2, (4, *kernel, 3), generator=rng, dtype=torch.int64)
        wanted = torch.conv_transpose2d(
            x.permute(0, 3, 1, 2).double(),
            weight.permute(3, 0, 1, 2).double(),
            None,
            stride,
            padding,
            extra,
            1,
            dilation,
        )
        found = TRANSPOSE_CONV2D.reference(
            input=x.to(torch.int8),
            weight=weight.to(torch.int8),
            bias=None,
            stride=stride,
            padding=padding,
            output_padding=extra,
            dilation=dilation,
            input_offset=0,
            output_offset=0,
            requantize_multipliers=torch.full((4,), 2**30, dtype=torch.int32),
            requantize_shifts=torch.ones(4, dtype=torch.int32),
            activation_min=-128,
            activation_max=127,
        )
        assert torch.equal(found.permute(0, 3, 1, 2).double(), wanted.clamp(-128, 127))

    check()


Matrix = np.ndarray[Any, np.dtype[np.float64]]


def rolling_buffer(x: Matrix, w: Matrix, stride: list[int], pad: list[int], out: tuple[int, ...], late: bool) -> Any:
    """What CMSIS-NN computes for one channel with its rolling buffer of rows; None where it leaves its buffers.

    Releases up to 7.0 (`late`) write no rows at all while the input is still in the padding.
    """
    height, width = x.shape
    (kh, kw), (sh, sw), (ph, pw) = w.shape, stride, pad
    columns, rows = (width - 1) * sw + max(kw, sw), max(kh, sh)
    if ((width - 1) * sw + max(kw, sh)) < columns or pw + out[1] > columns:
        return None
    buffer, place, written = np.zeros((rows, columns)), 0, []

    def write() -> None:
        nonlocal place
        written.append(buffer[place, pw : pw + out[1]].copy())
        buffer[place] = 0
        place = (place + 1) % rows

    for j in range(height):
        above, below = max(0, ph - j * sh), max(0, j * sh + kh - (ph + out[0]) - 1)
        for k in range(kh - above - below):
            for i in range(width):
                buffer[(place + k) % rows, i * sw : i * sw + kw] += x[j, i] * w[above + k]
        whole = sh if above == 0 else 0
        for _ in range(whole if late else max(0, (j + 1) * sh - ph) - max(0, j * sh - ph)):
            write()
    for y in range(kh - sh):
        if ph <= height * sh + y < ph + out[0]:
            write()
        else:
            place = (place + 1) % rows
    return np.array(written) if len(written) == out[0] else None


def exact(x: Matrix, w: Matrix, stride: list[int], pad: list[int], out: tuple[int, ...]) -> Matrix:
    every = np.zeros(
        [p + size + (n + k) * s for p, size, n, k, s in zip(pad, out, x.shape, w.shape, stride, strict=True)]
    )
    for (i, j), value in np.ndenumerate(x):
        every[i * stride[0] : i * stride[0] + w.shape[0], j * stride[1] : j * stride[1] + w.shape[1]] += value * w
    return every[pad[0] : pad[0] + out[0], pad[1] : pad[1] + out[1]]


def test_zero_taps_make_the_rolling_buffer_right() -> None:
    rng = random.Random(0)
    wrong = repaired = refused = 0
    for _ in range(1500):
        sizes, kernel = ([rng.randint(1, most) for _ in range(2)] for most in (5, 6))
        stride = [rng.randint(1, 4) for _ in range(2)]
        pad, extra = [rng.randint(0, k) for k in kernel], [rng.randint(0, s) for s in stride]
        axes = [TransposedAxis(*numbers) for numbers in zip(kernel, stride, pad, extra, strict=True)]
        out = tuple((n - 1) * a.stride - 2 * a.pad + a.kernel + a.extra for n, a in zip(sizes, axes, strict=True))
        if min(out) < 1:
            continue
        x, w = (np.array(rng.choices(range(1, 9), k=a * b), float).reshape(a, b) for a, b in (sizes, kernel))
        wanted = exact(x, w, stride, pad, out)
        taps = zero_taps(axes[0], axes[1], (1, *sizes, 1))
        if taps is None:
            refused += 1
            continue
        pads = [axis.with_zeros(*zeros).pad for axis, zeros in zip(axes, taps, strict=True)]
        assert min(axis.with_zeros(*zeros).extra for axis, zeros in zip(axes, taps, strict=True)) >= 0
        for late in (False, True):
            plain = rolling_buffer(x, w, stride, pad, out, late)
            wrong += plain is None or not np.array_equal(plain, wanted)
            found = rolling_buffer(x, np.pad(w, taps), stride, pads, out, late)
            assert found is not None, (sizes, axes, taps)
            np.testing.assert_array_equal(found, wanted)
            repaired += 1
    assert wrong > repaired // 2
    assert refused < repaired // 20


def test_common_shapes_need_no_zero_taps() -> None:
    plain = [(0, 0), (0, 0)]
    assert zero_taps(TransposedAxis(2, 2, 0, 0), TransposedAxis(2, 2, 0, 0), (1, 8, 8, 8)) == plain
    assert zero_taps(TransposedAxis(3, 2, 1, 1), TransposedAxis(3, 2, 1, 1), (1, 8, 8, 32)) == plain
    assert zero_taps(TransposedAxis(4, 2, 1, 0), TransposedAxis(4, 2, 1, 0), (1, 8, 8, 8)) == [(1, 0), (0, 0)]


def test_several_images_over_reversed_weights_are_for_the_c_bundle() -> None:
    found = lower(nn.ConvTranspose2d(17, 3, 3, stride=2), [(2, 17, 4, 4)])
    assert_close(found)
    assert found.kernels == ["transpose_conv2d_nhwc"]


def test_zeros_of_dilation_and_groups_never_reach_the_bundle() -> None:
    model = nn.ConvTranspose2d(4, 6, 3, stride=3, padding=1, dilation=2, groups=2)  # a stride without phases
    found = lower(model, [(1, 4, 5, 6)])
    (call,) = found.calls(TRANSPOSED)
    constants = {
        name: found.graph.constants.get(getattr(value, "name", ""), value) for name, value in call.arguments.items()
    }
    constants["input"] = (1, 5, 6, 4)
    shaped = Call(TRANSPOSE_CONV2D, constants, (), INT8, {})
    assert TRANSPOSE_CONV2D.kernel is not None
    kernel = TRANSPOSE_CONV2D.kernel(replace(shaped, out_shape=TRANSPOSE_CONV2D.shape(shaped)), Core.SMALL)
    fields = kernel.fields
    assert (fields["kernel_h"], fields["kernel_w"], fields["groups"]) == (3, 3, 2)
    assert (fields["dilation_h"], fields["dilation_w"], fields["pad_top"], fields["pad_left"]) == (2, 2, 1, 1)
    assert fields["weights"].data.size == model.weight.numel()  # type: ignore[union-attr]


def test_taps_and_groups_of_weights() -> None:
    assert Taps.of(np.array([False, False, True, False, True])) == Taps(2, 2, 2)
    assert Taps.of(np.array([False, False])) == Taps(0, 1, 1)
    assert Taps.of(np.array([True, True, False])) == Taps(0, 1, 2)
    weights = np.zeros((4, 1, 1, 6), np.int8)
    weights[:2, ..., :3] = 1
    weights[2:, ..., 3:] = 1
    assert group_count(weights) == 2
    weights[0, ..., 5] = 1
    assert group_count(weights) == 1


# ---- groups ----------------------------------------------------------------------------------------------------------

GROUPED = [
    (nn.ConvTranspose2d(4, 4, 4, 2, 1, groups=2), (9, 8)),  # few channels: with zeros between the groups
    (nn.ConvTranspose2d(32, 24, 3, 2, 1, 1, groups=2), (4, 5)),
    (nn.ConvTranspose2d(6, 6, 3, 2, 1, groups=6), (5, 7)),  # depthwise, and no whole pixels in a row
    (nn.ConvTranspose2d(6, 12, 2, 2, groups=6, bias=False), (3, 4)),  # two output channels for each
    (nn.ConvTranspose2d(24, 24, 3, (1, 3), 1, (0, 1), groups=3), (5, 4)),
    (nn.ConvTranspose2d(16, 16, 5, 4, 2, 3, groups=2), (3, 3)),
    (nn.ConvTranspose2d(16, 16, 2, (2, 4), groups=2), (3, 3)),  # columns that no tap reaches
    (nn.ConvTranspose2d(20, 20, 3, 2, dilation=2, groups=2), (4, 4)),
]


class Grouped(nn.Module):
    """All of these layers side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layer for layer, _ in GROUPED)

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(layer(x) for layer, x in zip(self.layers, inputs, strict=True))


def _grouped(target: str) -> Sketch:
    rng = torch.Generator().manual_seed(4)
    example = tuple(torch.rand(1, layer.in_channels, *sizes, generator=rng) * 2 - 1 for layer, sizes in GROUPED)
    return sketch(prepared(Grouped().eval(), example), from_target_string(target))


@pytest.mark.qemu
@pytest.mark.parametrize("target", each_core(*THREE, here="cortex-m55"))
def test_groups_give_the_same_bits_on_boards(target: str) -> None:
    """`board_flow` holds every output to the reference's; none of these layers takes the kernel for whole tensors."""
    found = _grouped(target)
    steps = [step for step in found.planned.program.steps if step.operator.endswith("transpose_conv2d_nhwc")]
    called = [kernel.call.function for step in steps for kernel in step.kernels.values()]
    assert len(called) == len(GROUPED)
    assert not any("transpose_conv2d" in name for name in called)
    assert sum("columns" in name for name in called) >= len(GROUPED) - 2
    board_flow(found)


@pytest.mark.parametrize("target", each_core("cortex-m0plus", "cortex-m3", "cortex-m4", "cortex-m55", here="cortex-m4"))
def test_groups_are_not_slower_than_one(target: str) -> None:
    """By the table of costs; with 32 channels two of them take little more than half of the time."""
    core = from_target_string(target)
    for channels, share in ((4, 1.02), (8, 1.02), (32, 0.9)):
        cycles = []
        for groups in (1, 2):
            layer = nn.ConvTranspose2d(channels, channels, 4, 2, 1, groups=groups)
            found = sketch(prepared(layer, (torch.rand(1, channels, 6, 6),)), core)
            cycles.append(estimate_of(found, None))
        assert all(one.estimated for one in cycles)
        assert cycles[1].cycles <= share * cycles[0].cycles, (channels, [one.cycles for one in cycles])
