"""Convolutions, linear layers, matrix products and batch normalization: each lowered to what PT2E's graph computes."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

import cortado
import single
from cortado.base.errors import CortadoError
from cortado.base.target import Isa
from cortado.ir.op import Call
from cortado.ops._transposed import Axis, Taps, group_count, zero_taps
from cortado.ops.transpose_conv2d import TRANSPOSE_CONV2D
from cortado.options import LinearWeights
from cortado.plan.lowered import reference_outputs
from cortado.run.executorch_host import run_pte
from single import Function, assert_close, lower, randomize

CONV2D = "cortex_m::quantized_conv2d_nhwc"
DEPTHWISE = "cortex_m::quantized_depthwise_conv2d_nhwc"
TRANSPOSED = "cortex_m::quantized_transpose_conv2d_nhwc"
LAYOUT = ("transpose", "pad")


def kernels(found: single.Single) -> list[str]:
    """The operators that compute something."""
    return [name for name in found.operators if name not in LAYOUT]


# ---- convolutions --------------------------------------------------------------------------------------------


@st.composite
def convolutions(draw: Any, transposed: bool = False) -> tuple[nn.Module, tuple[int, ...]]:
    """A convolution with any of its options, and the shape of an input that fits."""
    groups = draw(st.sampled_from([1, 1, 2, 3]))
    in_c, out_c = (groups * draw(st.integers(1, 5)) for _ in range(2))
    kernel = [draw(st.integers(1, 4)) for _ in range(2)]
    dilation = [draw(st.sampled_from([1, 1, 2])) for _ in range(2)]
    stride = [draw(st.integers(1, 3)) for _ in range(2)]
    padding = [draw(st.integers(0, k)) for k in kernel]
    options: dict[str, Any] = {"groups": groups, "bias": draw(st.booleans()), "dilation": dilation}
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    if transposed:
        extra = [draw(st.integers(0, max(s, d) - 1)) for s, d in zip(stride, dilation, strict=True)]
        least = [-(-(2 * p - r - e + 1) // s) + 1 for p, r, e, s in zip(padding, reach, extra, stride, strict=True)]
        model: nn.Module = nn.ConvTranspose2d(in_c, out_c, kernel, stride, padding, extra, **options)  # type: ignore[arg-type]
    else:
        least = [r - 2 * p for r, p in zip(reach, padding, strict=True)]
        model = nn.Conv2d(in_c, out_c, kernel, stride, padding, **options)  # type: ignore[arg-type]
    sizes = [draw(st.integers(max(1, small), max(1, small) + 5)) for small in least]
    randomize(model, draw(st.integers(0, 2**16)))
    activation = draw(st.sampled_from([None, nn.ReLU(), nn.ReLU6(), nn.Hardtanh(-0.5, 1.0)]))
    layers = [model] if activation is None else [model, activation]
    return Function(lambda self, x: self.layers(x), layers=nn.Sequential(*layers)), (
        draw(st.integers(1, 2)),
        in_c,
        *sizes,
    )


@settings(single.QUIET, max_examples=16)
@given(case=convolutions())
def test_conv2d(case: tuple[nn.Module, tuple[int, ...]]) -> None:
    model, shape = case
    found = lower(model, [shape])
    assert_close(found)
    assert len(kernels(found)) == 1


@settings(single.QUIET, max_examples=16)
@given(case=convolutions(transposed=True))
def test_conv_transpose2d(case: tuple[nn.Module, tuple[int, ...]]) -> None:
    model, shape = case
    found = lower(model, [shape])
    assert_close(found)
    assert len(kernels(found)) == 1


@pytest.mark.slow
@settings(single.QUIET, max_examples=200)
@given(case=st.one_of(convolutions(), convolutions(transposed=True)))
def test_convolutions_long(case: tuple[nn.Module, tuple[int, ...]]) -> None:
    model, shape = case
    assert_close(lower(model, [shape]))


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("multiplier", [1, 3])
@pytest.mark.parametrize("bias", [True, False])
def test_depthwise_is_grouped_for_several_images(batch: int, multiplier: int, bias: bool) -> None:
    model = nn.Conv2d(4, 4 * multiplier, 3, padding=1, groups=4, bias=bias)
    found = lower(model, [(batch, 4, 6, 7)])
    assert_close(found)
    assert len(found.calls(DEPTHWISE if batch == 1 else CONV2D)) == 1


def test_one_input_channel_is_an_ordinary_convolution() -> None:
    found = lower(nn.Conv2d(1, 6, 3, groups=1), [(2, 1, 6, 7)])
    assert_close(found)
    assert kernels(found) == ["quantized_conv2d_nhwc"]


def test_a_grouped_convolution_has_a_bias() -> None:
    """CMSIS-NN steps through the bias group by group, even if there is none."""
    found = lower(nn.Conv2d(4, 6, 3, groups=2, bias=False), [(1, 4, 6, 7)])
    (call,) = found.calls(CONV2D)
    bias = found.graph.constants[call.arguments["bias"].name]
    assert torch.equal(bias, torch.zeros(6, dtype=torch.int32))


PADDINGS: dict[str, tuple[nn.Module, list[str], list[int]]] = {
    "same, odd": (nn.Conv2d(3, 4, (3, 5), padding="same"), [], [1, 2]),
    "same, dilated": (nn.Conv2d(3, 4, 2, padding="same", dilation=2), [], [1, 1]),
    "valid": (nn.Conv2d(3, 4, 3, padding="valid"), [], [0, 0]),
    "zeros in front": (nn.Sequential(nn.ZeroPad2d((1, 1, 2, 2)), nn.Conv2d(3, 4, 5, padding=1)), [], [3, 2]),
    "uneven zeros": (nn.Sequential(nn.ZeroPad2d((0, 1, 0, 1)), nn.Conv2d(3, 4, 3, stride=2)), ["pad"], [0, 0]),
    "uneven meets even": (nn.Sequential(nn.ZeroPad2d((0, 1, 0, 1)), nn.Conv2d(3, 4, 4, padding=1)), ["pad"], [1, 1]),
    "wider than the kernel": (nn.Conv2d(3, 4, 1, padding=1), ["pad"], [0, 0]),
    "ones in front": (nn.Sequential(nn.ConstantPad2d(1, 1.0), nn.Conv2d(3, 4, 3)), ["pad"], [0, 0]),
}


@pytest.mark.parametrize("kind", PADDINGS)
def test_padding(kind: str) -> None:
    model, pads, padding = PADDINGS[kind]
    found = lower(Function(lambda self, x: self.model(x), model=model), [(1, 3, 8, 9)])
    assert_close(found)
    assert [name for name in found.operators if name == "pad"] == pads
    assert found.calls(CONV2D)[0].arguments["padding"] == padding


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel:UserWarning")
def test_same_padding_of_an_even_kernel_is_uneven() -> None:
    found = lower(nn.Conv2d(3, 4, (2, 4), padding="same"), [(1, 3, 8, 9)])
    assert_close(found)
    (pad,) = found.calls("cortex_m::pad")
    assert found.calls(CONV2D)[0].arguments["padding"] == [0, 1]
    assert sum(pad.arguments["pre_pad"]) == 0
    assert sum(pad.arguments["post_pad"]) == 2


SIGNALS: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "conv1d": (nn.Conv1d(3, 5, 4, stride=2, padding=1), (1, 3, 20)),
    "dilated": (nn.Conv1d(4, 6, 3, dilation=3, padding=3, groups=2), (2, 4, 20)),
    "same": (nn.Conv1d(3, 5, 5, padding="same"), (1, 3, 20)),
    "unbatched": (nn.Conv1d(3, 5, 3), (3, 20)),
    "transposed": (nn.ConvTranspose1d(3, 5, 4, stride=2, padding=1), (1, 3, 9)),
    "transposed, grouped": (nn.ConvTranspose1d(4, 6, 3, stride=3, output_padding=2, groups=2), (2, 4, 9)),
    "conv2d unbatched": (nn.Conv2d(3, 5, 3), (3, 8, 9)),
    "transposed unbatched": (nn.ConvTranspose2d(3, 5, 3, stride=2), (3, 8, 9)),
}


@pytest.mark.parametrize("kind", SIGNALS)
@pytest.mark.parametrize("with_relu", [False, True])
def test_signals_are_images_of_height_one(kind: str, with_relu: bool) -> None:
    layer, shape = SIGNALS[kind]
    model = Function(lambda self, x: torch.relu_(self.layer(x)) if with_relu else self.layer(x), layer=layer)
    found = lower(model, [shape])
    assert_close(found)
    assert len(kernels(found)) == 1  # the relu is in the kernel


def test_two_signals_in_a_row_need_no_layout_change_between_them() -> None:
    layers = nn.Sequential(nn.Conv1d(3, 5, 3), nn.ReLU(), nn.Conv1d(5, 4, 3))
    found = lower(Function(lambda self, x: self.layers(x), layers=layers), [(1, 3, 20)])
    first, second = (found.graph.calls.index(call) for call in found.calls(CONV2D))
    assert not any(call.operator == "cortex_m::transpose" for call in found.graph.calls[first:second])


def test_decomposed_convolutions() -> None:
    """aten.convolution, as a decomposed exported program has it."""

    def convolution(self: Any, x: torch.Tensor) -> torch.Tensor:
        y = torch.ops.aten.convolution.default(x, self.a, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
        return torch.ops.aten.convolution.default(y, self.b, None, [2, 2], [0, 0], [1, 1], True, [1, 1], 1)

    rng = torch.Generator().manual_seed(0)
    parts = {"a": torch.randn(4, 3, 3, 3, generator=rng), "b": torch.randn(4, 2, 3, 3, generator=rng)}
    found = lower(Function(convolution, **parts), [(1, 3, 6, 6)])
    assert kernels(found) == ["quantized_conv2d_nhwc", "quantized_transpose_conv2d_nhwc"]


# ---- transposed convolutions ---------------------------------------------------------------------------------


def test_transposed_reference_is_the_float64_sum() -> None:
    """Every legal shape: accumulators of conv_transpose2d in float64, rescaled by one."""

    @settings(single.QUIET, max_examples=150)
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
        axes = [Axis(*numbers) for numbers in zip(kernel, stride, pad, extra, strict=True)]
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
    assert zero_taps(Axis(2, 2, 0, 0), Axis(2, 2, 0, 0), (1, 8, 8, 8)) == plain
    assert zero_taps(Axis(3, 2, 1, 1), Axis(3, 2, 1, 1), (1, 8, 8, 32)) == plain
    assert zero_taps(Axis(4, 2, 1, 0), Axis(4, 2, 1, 0), (1, 8, 8, 8)) == [(1, 0), (0, 0)]


def test_several_images_over_reversed_weights_are_for_the_c_bundle() -> None:
    found = lower(nn.ConvTranspose2d(17, 3, 3, stride=2), [(2, 17, 4, 4)])
    assert_close(found)
    assert kernels(found) == ["transpose_conv2d_nhwc"]


def test_zeros_of_dilation_and_groups_never_reach_the_bundle() -> None:
    model = nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, dilation=2, groups=2)
    found = lower(model, [(1, 4, 5, 6)])
    (call,) = found.calls(TRANSPOSED)
    constants = {
        name: found.graph.constants.get(getattr(value, "name", ""), value) for name, value in call.arguments.items()
    }
    constants["input"] = (1, 5, 6, 4)
    shaped = Call(TRANSPOSE_CONV2D, constants, ())
    assert TRANSPOSE_CONV2D.kernel is not None
    kernel = TRANSPOSE_CONV2D.kernel(Call(TRANSPOSE_CONV2D, constants, TRANSPOSE_CONV2D.shape(shaped)), Isa.SCALAR)
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


# ---- linear layers and matrix products -----------------------------------------------------------------------


@pytest.mark.parametrize("leading", [(), (3,), (2, 3), (1, 2, 3), (1, 2, 1, 3)])
@pytest.mark.parametrize("bias", [True, False])
def test_linear_of_any_rank(leading: tuple[int, ...], bias: bool) -> None:
    found = lower(nn.Linear(7, 5, bias=bias), [(*leading, 7)])
    assert_close(found)
    assert kernels(found) == ["quantized_conv2d_nhwc"]


PRODUCTS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]], str]] = {
    "matrix and constant": (lambda self, x: x @ self.w[0], [(3, 7)], "quantized_conv2d_nhwc"),
    "batch and constant": (lambda self, x: x @ self.w[0], [(2, 3, 7)], "quantized_conv2d_nhwc"),
    "constant vector": (lambda self, x: x @ self.w[0, :, 0], [(2, 3, 7)], "quantized_conv2d_nhwc"),
    "constant for each entry": (lambda self, x: x @ self.w, [(2, 3, 7)], "quantized_batch_matmul"),
    "constant on the left": (lambda self, x: self.w[0].t() @ x, [(7, 3)], "quantized_batch_matmul"),
    "bmm": (lambda self, x, y: torch.bmm(x, y), [(2, 3, 7), (2, 7, 4)], "quantized_batch_matmul"),
    "bmm of one": (lambda self, x, y: torch.bmm(x, y), [(1, 3, 7), (1, 7, 4)], "quantized_batch_matmul"),
    "mm": (lambda self, x, y: torch.mm(x, y), [(3, 7), (7, 4)], "quantized_batch_matmul"),
    "attention": (lambda self, x, y: x @ y.transpose(-1, -2), [(1, 2, 3, 7), (1, 2, 4, 7)], "quantized_batch_matmul"),
    "rank 4": (lambda self, x, y: x @ y, [(2, 2, 3, 7), (2, 2, 7, 4)], "quantized_batch_matmul"),
    "one right side": (lambda self, x, y: x @ y, [(2, 2, 3, 7), (7, 4)], "quantized_batch_matmul"),
    "one left side": (lambda self, x, y: x @ y, [(3, 7), (2, 7, 4)], "quantized_batch_matmul"),
    "both broadcast": (lambda self, x, y: x @ y, [(2, 1, 3, 7), (1, 3, 7, 4)], "quantized_batch_matmul"),
    "vector on the right": (lambda self, x, y: x @ y, [(3, 7), (7,)], "quantized_batch_matmul"),
    "vector on the left": (lambda self, x, y: x @ y, [(7,), (7, 4)], "quantized_batch_matmul"),
    "two vectors": (lambda self, x, y: x @ y, [(7,), (7,)], "quantized_batch_matmul"),
    "computed weights": (lambda self, x, y: functional.linear(x, y), [(3, 7), (4, 7)], "quantized_batch_matmul"),
    "addmm": (lambda self, x: torch.addmm(self.b, x, self.w[0]), [(3, 7)], "quantized_conv2d_nhwc"),
}


@pytest.mark.parametrize("kind", PRODUCTS)
def test_matrix_products(kind: str) -> None:
    function, shapes, operator = PRODUCTS[kind]
    rng = torch.Generator().manual_seed(1)
    parts = {"w": torch.randn(2, 7, 4, generator=rng), "b": torch.randn(4, generator=rng)}
    found = lower(Function(function, **parts), shapes)
    assert_close(found)
    assert operator in kernels(found)
    assert len([name for name in kernels(found) if name not in ("repeat", "expand")]) == 1


def test_attention_needs_no_transpose() -> None:
    """The kernel wants its right side transposed, which is what it already is."""
    found = lower(Function(lambda self, x, y: x @ y.transpose(-1, -2)), [(1, 2, 3, 7), (1, 2, 4, 7)])
    assert found.operators == ["quantized_batch_matmul"]


# ---- batch normalization -------------------------------------------------------------------------------------

NORMALIZED: dict[str, tuple[nn.Module, tuple[int, ...], str]] = {
    "images": (nn.BatchNorm2d(5), (1, 5, 4, 6), "quantized_depthwise_conv2d_nhwc"),
    "several images": (nn.BatchNorm2d(5), (2, 5, 4, 6), "quantized_conv2d_nhwc"),
    "signals": (nn.BatchNorm1d(5), (1, 5, 9), "quantized_depthwise_conv2d_nhwc"),
    "rows": (nn.BatchNorm1d(5), (4, 5), "quantized_depthwise_conv2d_nhwc"),
    "volumes": (nn.BatchNorm3d(5), (1, 5, 2, 3, 4), "quantized_depthwise_conv2d_nhwc"),
    "no factors": (nn.BatchNorm2d(5, affine=False), (1, 5, 4, 6), "quantized_depthwise_conv2d_nhwc"),
    "one channel": (nn.BatchNorm2d(1), (1, 1, 4, 6), "quantized_conv2d_nhwc"),
    "behind conv2d": (nn.Sequential(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5)), (1, 3, 6, 6), "quantized_conv2d_nhwc"),
    "behind conv1d": (nn.Sequential(nn.Conv1d(3, 5, 3), nn.BatchNorm1d(5)), (1, 3, 9), "quantized_conv2d_nhwc"),
    "behind linear": (nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5)), (4, 3), "quantized_conv2d_nhwc"),
    "behind conv_transpose2d": (
        nn.Sequential(nn.ConvTranspose2d(3, 5, 3, stride=2), nn.BatchNorm2d(5)),
        (1, 3, 5, 5),
        "quantized_transpose_conv2d_nhwc",
    ),
}


@pytest.mark.parametrize("kind", NORMALIZED)
def test_batch_normalization_is_one_convolution(kind: str) -> None:
    layers, shape, operator = NORMALIZED[kind]
    randomize(layers, 3)
    model = Function(lambda self, x: self.layers(x), layers=layers)
    found = lower(model, [shape])
    assert_close(found)
    assert kernels(found) == [operator]
    for batch in found.batches:  # and it is the normalization: close to the float model, too
        wanted, have = model(*batch).detach(), found.quantized.converted(*batch).detach()
        noise = float((wanted - have).pow(2).mean() / wanted.pow(2).mean())
        assert noise < 1e-3


RESHAPED: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "as many channels with other values in them": (
        Function(
            lambda self, x: self.norm(self.layer(x).reshape(3, 4, 2)), layer=nn.Conv1d(3, 4, 3), norm=nn.BatchNorm1d(4)
        ),
        (2, 3, 5),
    ),
    "a number": (
        Function(lambda self, x: self.norm(x.mean((0, 1, 2), keepdim=True)), norm=nn.BatchNorm1d(1)),
        (1, 33, 2),
    ),
}


@pytest.mark.parametrize("kind", RESHAPED)
def test_batch_normalization_behind_a_reshape(kind: str) -> None:
    model, shape = RESHAPED[kind]
    randomize(model, 3)
    found = lower(model, [shape])
    for batch in found.batches:
        wanted, have = model(*batch).detach(), found.quantized.converted(*batch).detach()
        assert float((wanted - have).pow(2).mean() / wanted.pow(2).mean()) < 1e-3


# ---- sums that don't fit -------------------------------------------------------------------------------------


def test_a_sum_beyond_32_bits_is_refused() -> None:
    model = nn.Linear(140_000, 2, bias=False)
    nn.init.ones_(model.weight)
    with pytest.raises(CortadoError, match=r"sum of output channel 0 may reach \d+, expected at most 2147483647"):
        lower(model, [(1, 140_000)], batches=1)


def test_a_sum_that_overflows_in_its_rescaling_is_refused() -> None:
    """Nearly cancelling outputs ask for a large factor."""
    model = nn.Linear(2, 1, bias=False)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[5000.0, 5000.001]]))
    x = torch.tensor([[1.0, -1.0]])
    with pytest.raises(CortadoError, match="fits 32 bits when it is rescaled"):
        single.lower_on(model, [(x,)])


def test_a_product_beyond_32_bits_is_refused() -> None:
    with pytest.raises(CortadoError, match="fits 32 bits"):
        lower(Function(lambda self, x, y: x @ y), [(1, 140_000), (140_000, 1)], batches=1)


# ---- one scale for all weights of a linear layer -------------------------------------------------------------


def test_per_tensor_linear_carries_what_the_target_reads() -> None:
    """MVE reads kernel_sum, the others bias; a target that stands for all carries both, and all mean the same."""
    model = nn.Linear(9, 5)
    with torch.no_grad():
        model.weight[:, 0] = 1.0  # the largest of each row: all rows get one scale, so nothing is rounded again
        model.weight[:, 1:].clamp_(-0.9, 0.9)
    carried, results = {}, []
    batches = [(torch.randn(2, 3, 9),) for _ in range(4)]
    for target in ("cortex-m55", "cortex-m4", "cortex-m0", "cortex-m"):
        found = single.lower_on(model, batches, target, LinearWeights.PER_TENSOR)
        assert_close(found)
        (call,) = found.calls("cortex_m::quantized_linear")
        carried[target] = (call.arguments["bias"] is not None, call.arguments["kernel_sum"] is not None)
        results.append(reference_outputs(found.graph, found.batches[0])[0])
    bias, sums = (True, False), (False, True)
    assert carried == {"cortex-m55": sums, "cortex-m4": bias, "cortex-m0": bias, "cortex-m": (True, True)}
    assert all(torch.equal(result, results[0]) for result in results)


def test_per_tensor_linear_rescales_channels() -> None:
    """Rows of different sizes share the largest scale: less exact than per channel, but the same layer."""
    model = nn.Linear(9, 5)
    with torch.no_grad():
        model.weight *= torch.tensor([1.0, 0.9, 0.8, 0.7, 0.6])[:, None]
    batches = [(torch.randn(3, 9),) for _ in range(4)]
    assert 0.0 < single.lower_on(model, batches, linear=LinearWeights.PER_TENSOR).worst() < 4.0


# ---- whole networks ------------------------------------------------------------------------------------------


class Everything(nn.Module):
    """Every way of lowering in this file and test_pools.py that a .pte can hold."""

    def __init__(self) -> None:
        super().__init__()
        self.grouped = nn.Conv2d(4, 6, 3, padding=1, groups=2, bias=False)
        self.depthwise = nn.Conv2d(6, 12, 3, padding=2, dilation=2, groups=6)
        self.norm = nn.BatchNorm2d(12)
        self.up = nn.ConvTranspose2d(12, 20, 4, stride=2, padding=1, groups=2)
        self.up_again = nn.ConvTranspose2d(20, 3, 3, stride=2, padding=1, output_padding=1)
        self.signal = nn.Conv1d(12, 8, 5, stride=2, padding=2)
        self.signal_up = nn.ConvTranspose1d(8, 4, 1, stride=3)
        self.heads = nn.Linear(8, 8)
        randomize(self, 5)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = torch.relu(self.grouped(x))
        x = self.norm(functional.max_pool2d(functional.relu6(self.depthwise(x)), 3, 2, ceil_mode=True))
        image = self.up_again(torch.relu(self.up(x)))
        signal = torch.relu(self.signal(functional.avg_pool2d(x, 3, 1, 1).flatten(2)))
        rows = self.heads(signal.transpose(1, 2))
        attention = rows @ rows.transpose(1, 2) @ rows
        return (
            functional.adaptive_avg_pool2d(image, (5, 7)),
            self.signal_up(signal),
            attention.mean(1),
            image.amax((2, 3)),
            x.sum(1),
            functional.avg_pool2d(image, 4, 3, 1, ceil_mode=True),
        )


@pytest.mark.host
@pytest.mark.parametrize("target", ["cortex-m0plus", "cortex-m"])
def test_bundle_and_pte_equal_the_reference(target: str, tmp_path: Path) -> None:
    rng = torch.Generator().manual_seed(0)
    samples = [(torch.randn(1, 4, 11, 10, generator=rng),) for _ in range(3)]
    compiled = cortado.compile(Everything(), samples[0], target, calibration=samples, name="everything")
    checked = compiled.save(tmp_path / "everything").run(
        [[value.numpy() for value in sample] for sample in samples], "host"
    )
    assert checked.bit_exact
    assert compiled.pte is not None
    found = run_pte(compiled.pte.data, [[value.numpy() for value in sample] for sample in samples])
    for sample, outputs in zip(samples, found, strict=True):
        wanted = reference_outputs(compiled.graph, sample)
        for got, want in zip(outputs, wanted, strict=True):
            np.testing.assert_array_equal(got, want.numpy())
