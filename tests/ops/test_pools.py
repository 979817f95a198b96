"""Pools and reductions: every spelling lowered to what PT2E's graph computes, to one step; maxima exactly."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from cortado.base.target import from_target_string
from cortado.ir.kernel import Array
from cortado.ops.pool.avg_pool2d import pooled_size
from cortado.ops.pool.forms import adaptive_windows, even_windows
from cortado.ops.pool.reductions import windows
from cortado.plan.program import build_program
from helpers import single
from helpers.single import Function, assert_close, decibels, lower, lower_on

MAX_POOL = "cortex_m::quantized_max_pool2d_nhwc"
LAYOUT = ("transpose", "pad")


def kernels(found: single.Single) -> list[str]:
    return [name for name in found.operators if name not in LAYOUT]


@st.composite
def pools(draw: Any) -> tuple[dict[str, Any], tuple[int, ...]]:
    """A window with any of its options, and the shape of an input that fits."""
    kernel = [draw(st.integers(1, 4)) for _ in range(2)]
    padding = [draw(st.integers(0, k // 2)) for k in kernel]
    options = {
        "kernel_size": kernel,
        "stride": [draw(st.integers(1, 3)) for _ in range(2)],
        "padding": padding,
        "ceil_mode": draw(st.booleans()),
    }
    sizes = [draw(st.integers(k, k + 6)) for k in kernel]
    return options, (draw(st.integers(1, 2)), draw(st.integers(1, 5)), *sizes)


@settings(max_examples=20)
@given(case=pools(), counts_padding=st.booleans(), divisor=st.sampled_from([None, None, 3, -7]))
def test_avg_pool2d(case: tuple[dict[str, Any], tuple[int, ...]], counts_padding: bool, divisor: int | None) -> None:
    options, shape = case
    options = {**options, "count_include_pad": counts_padding, "divisor_override": divisor}
    found = lower(Function(lambda self, x: functional.avg_pool2d(x, **options)), [shape])
    assert_close(found)
    assert len(kernels(found)) == 1


@settings(max_examples=12)
@given(case=pools(), dilation=st.sampled_from([1, 1, 2]))
def test_max_pool2d(case: tuple[dict[str, Any], tuple[int, ...]], dilation: int) -> None:
    options, (n, channels, *sizes) = case
    shape = (n, channels, *(size + 4 * (dilation - 1) for size in sizes))
    found = lower(Function(lambda self, x: functional.max_pool2d(x, dilation=dilation, **options)), [shape])
    assert found.worst() == 0.0
    (name,) = kernels(found)
    if dilation == 2:
        assert name == "dilated_max_pool2d_nhwc"


@pytest.mark.slow
@settings(max_examples=150)
@given(case=pools(), counts_padding=st.booleans(), divisor=st.sampled_from([None, None, 3]))
def test_avg_pool2d_long(
    case: tuple[dict[str, Any], tuple[int, ...]], counts_padding: bool, divisor: int | None
) -> None:
    options, shape = case
    options = {**options, "count_include_pad": counts_padding, "divisor_override": divisor}
    assert_close(lower(Function(lambda self, x: functional.avg_pool2d(x, **options)), [shape]))


def test_only_windows_past_the_padding_ask_for_more_than_executorch_has() -> None:
    """ceil_mode that changes nothing is no ceil_mode."""
    same = lower(Function(lambda self, x: functional.max_pool2d(x, 2, ceil_mode=True)), [(1, 3, 8, 8)])
    assert not same.calls(MAX_POOL)[0].arguments["ceil_mode"]
    more = lower(Function(lambda self, x: functional.max_pool2d(x, 2, ceil_mode=True)), [(1, 3, 9, 8)])
    assert [call.operator for call in more.graph.calls if "pool" in call.operator] == ["cortado::max_pool2d_nhwc"]


FORMS: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "avg_pool1d": (lambda self, x: functional.avg_pool1d(x, 3, 2, 1), (2, 4, 11)),
    "avg_pool1d, padding not counted": (
        lambda self, x: functional.avg_pool1d(x, 3, 2, 1, count_include_pad=False),
        (1, 4, 11),
    ),
    "avg_pool1d unbatched": (lambda self, x: functional.avg_pool1d(x, 3, 2), (4, 11)),
    "avg_pool2d unbatched": (lambda self, x: functional.avg_pool2d(x, 3, 2), (4, 8, 9)),
    "max_pool1d": (lambda self, x: functional.max_pool1d(x, 3, 2, 1), (2, 4, 11)),
    "max_pool1d, dilated": (lambda self, x: functional.max_pool1d(x, 3, 2, 1, dilation=2), (1, 4, 11)),
    "max_pool2d unbatched": (lambda self, x: functional.max_pool2d(x, 3, 2), (4, 8, 9)),
    "max_pool2d with indices": (
        lambda self, x: functional.max_pool2d(x, 3, 2, return_indices=True)[0],
        (1, 4, 8, 9),
    ),
    "adaptive, whole": (lambda self, x: functional.adaptive_avg_pool2d(x, 1), (2, 4, 8, 9)),
    "adaptive, even": (lambda self, x: functional.adaptive_avg_pool2d(x, (4, 3)), (1, 4, 8, 9)),
    "adaptive, overlapping but even": (lambda self, x: functional.adaptive_avg_pool2d(x, (4, 9)), (1, 4, 5, 9)),
    "adaptive, uneven": (lambda self, x: functional.adaptive_avg_pool2d(x, (3, 5)), (2, 4, 8, 9)),
    "adaptive 1d": (lambda self, x: functional.adaptive_avg_pool1d(x, 4), (1, 4, 8)),
    "adaptive 1d, uneven": (lambda self, x: functional.adaptive_avg_pool1d(x, 3), (1, 4, 8)),
    "adaptive maximum": (lambda self, x: functional.adaptive_max_pool2d(x, (4, 3)), (1, 4, 8, 9)),
    "adaptive maximum 1d": (lambda self, x: functional.adaptive_max_pool1d(x, 4), (1, 4, 8)),
}


@pytest.mark.parametrize("kind", FORMS)
def test_forms_of_pools(kind: str) -> None:
    function, shape = FORMS[kind]
    found = lower(Function(function), [shape])
    assert_close(found)
    assert len(kernels(found)) == 1


@pytest.mark.parametrize(("counts", "sizes"), [((3, 5), (8, 9)), ((4, 4), (3, 5)), ((1, 4), (6, 6))])
def test_an_adaptive_maximum_over_uneven_windows(counts: tuple[int, int], sizes: tuple[int, int]) -> None:
    found = lower(Function(lambda self, x: functional.adaptive_max_pool2d(x, counts)), [(1, 4, *sizes)])
    assert_close(found)


def test_windows_of_adaptive_pools_are_pytorchs() -> None:
    for size in range(1, 14):
        for count in range(1, size + 1):
            x = torch.arange(float(size)).reshape(1, size)
            wanted = functional.adaptive_avg_pool1d(x, count)[0]
            spans = adaptive_windows(size, count)
            assert torch.allclose(torch.stack([x[0, a:b].mean() for a, b in spans]), wanted)
            even = even_windows(size, count)
            if even is not None:
                kernel, stride = even
                assert [(i * stride, i * stride + kernel) for i in range(count)] == spans


def test_size_of_pools_is_pytorchs() -> None:
    for size in range(1, 12):
        for kernel in range(1, 5):
            for stride in range(1, 5):
                for pad in range(kernel // 2 + 1):
                    for ceil in (False, True):
                        if size + 2 * pad >= kernel:
                            wanted = functional.max_pool1d(torch.zeros(1, size), kernel, stride, pad, 1, ceil)
                            assert pooled_size(size, kernel, stride, pad, ceil) == wanted.shape[1]


# ---- the mean over a whole image -----------------------------------------------------------------------------


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("sizes", "operator"),
    [
        ((1, 12, 8, 8), "global_mean_nhwc"),
        ((1, 7, 1, 9), "global_mean_nhwc"),
        ((1, 6, 16, 16), "global_mean_nhwc"),
        ((1, 6, 16, 17), "global_mean_nhwc"),  # with fewer weights in the .pte
        ((1, 2, 64, 65), "quantized_avg_pool2d_nhwc"),  # too many
        ((2, 12, 8, 8), "quantized_avg_pool2d_nhwc"),
    ],
)
def test_a_mean_has_a_scale_of_its_own(sizes: tuple[int, ...], operator: str) -> None:
    """Means spread much less than pixels: in the pixels' scale only few of their codes would be left."""
    model = Function(lambda self, x: x.mean((2, 3)))
    found = lower(model, [sizes])
    assert found.kernels == [operator]
    assert found.worst() <= 1.01
    kept = min(decibels(model(*batch), found.outputs(*batch)[0]) for batch in found.batches)
    assert (kept > 34.0) == (operator == "global_mean_nhwc"), kept


SUMS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], tuple[int, ...]]] = {
    "over images": (lambda x: x.sum((2, 3)), (1, 64, 32, 32)),
    "along a dimension": (lambda x: x.sum(1), (1, 9, 7)),
    "over a divisor": (lambda x: functional.avg_pool2d(x, (4, 6), divisor_override=5), (1, 5, 6, 6)),
}


@pytest.mark.parametrize("kind", SUMS)
def test_a_sum_is_a_mean_with_another_factor(kind: str) -> None:
    """It stores no weights, and is as near to PT2E's graph; the kernel's work is the same."""
    function, sizes = SUMS[kind]
    found = lower(Function(lambda self, x: function(x)), [sizes], target="cortex-m4")
    assert found.kernels == ["global_mean_nhwc"]
    assert found.worst() <= 1.01
    program = build_program("sum", found.graph, from_target_string("cortex-m4"))
    (step,) = [step for step in program.steps if step.operator == "cortado::global_mean_nhwc"]
    assert not any(isinstance(field, Array) for kernel in step.kernels.values() for field in kernel.fields.values())
    assert all(isinstance(port.source, str) for port in step.inputs)


def test_sums_that_the_kernel_of_means_does_not_take_are_convolutions() -> None:
    """Several images, several windows, a negative divisor, more pixels than there may be."""
    for function, sizes in (
        (lambda x: x.sum((2, 3)), (2, 5, 6, 6)),
        (lambda x: x.sum(3), (1, 5, 6, 6)),
        (lambda x: functional.avg_pool2d(x, 6, divisor_override=-3), (1, 5, 6, 6)),
        (lambda x: x.sum((2, 3)), (1, 2, 64, 65)),
    ):
        found = lower(Function(lambda self, x, function=function: function(x)), [sizes])
        assert "global_mean_nhwc" not in found.kernels
        assert_close(found)


@pytest.mark.parametrize(
    ("kernel", "stride", "pad", "own_scale"),
    [(2, 2, 0, True), (3, 1, 0, True), (4, 4, 0, True), (5, 5, 0, False), (3, 1, 1, False)],
)
def test_averages_over_small_windows_have_a_scale_of_their_own(
    kernel: int, stride: int, pad: int, own_scale: bool
) -> None:
    """As a convolution with equal weights; where the divisor varies, or the weights would be many, as a pool."""
    model = Function(lambda self, x: functional.avg_pool2d(x, kernel, stride, pad, count_include_pad=False))
    found = lower(model, [(1, 8, 16, 16)])
    assert found.worst() <= 1.01
    assert found.kernels == [f"quantized_{'depthwise_conv2d' if own_scale else 'avg_pool2d'}_nhwc"]
    kept = min(decibels(model(*batch), found.outputs(*batch)[0]) for batch in found.batches)
    assert (kept > 34.0) == own_scale, kept


def test_a_mean_of_nothing_but_noise_saturates() -> None:
    """Calibrated on means of almost zero: every other one is the smallest or the largest code, and no sum overflows."""
    batches = [(torch.linspace(-1, 1, 15).reshape(1, 1, 3, 5).repeat(1, 4, 1, 1),)]
    model = Function(lambda self, x: x.mean((2, 3)))
    found = lower_on(model, batches)
    (call,) = found.calls("cortado::global_mean_nhwc")
    assert call.arguments["requantize_shift"] == 10
    (highest,), (lowest,) = (found.outputs(sign * torch.ones(1, 4, 3, 5)) for sign in (1, -1))
    assert torch.allclose(highest - lowest, torch.full((1, 4), 255 * found.scales[0]))


# ---- reductions ----------------------------------------------------------------------------------------------

REDUCTIONS: dict[str, Callable[..., torch.Tensor]] = {
    "mean": lambda x, dims, keep: x.mean(dims, keepdim=keep),
    "sum": lambda x, dims, keep: x.sum(dims, keepdim=keep),
    "amax": lambda x, dims, keep: x.amax(dims, keepdim=keep),
    "amin": lambda x, dims, keep: x.amin(dims, keepdim=keep),
}


@st.composite
def reductions(draw: Any) -> tuple[tuple[int, ...], tuple[int, ...], bool]:
    rank = draw(st.integers(1, 5))
    shape = tuple(draw(st.integers(1, 5)) for _ in range(rank))
    dims = draw(st.sets(st.integers(0, rank - 1), min_size=1))
    return shape, tuple(draw(st.permutations(sorted(dims)))), draw(st.booleans())


@pytest.mark.cases(1)
@pytest.mark.parametrize("kind", REDUCTIONS)
def test_reductions_over_any_dimensions(kind: str) -> None:
    reduce = REDUCTIONS[kind]

    @settings(max_examples=10)
    @given(case=reductions())
    def check(case: tuple[tuple[int, ...], tuple[int, ...], bool]) -> None:
        shape, dims, keep = case
        found = lower(Function(lambda self, x: reduce(x, dims, keep)), [shape])
        assert_close(found)
        assert kind in ("sum", "mean", "amin") or found.worst() == 0.0

    check()


WHOLE: dict[str, Callable[..., Any]] = {
    "mean": lambda self, x: x.mean(),
    "sum": lambda self, x: x.sum(),
    "max": lambda self, x: x.max(),
    "min": lambda self, x: x.min(),
    "max over a dimension": lambda self, x: x.max(dim=2)[0],
    "max over a dimension, kept": lambda self, x: torch.max(x, dim=1, keepdim=True).values,
    "min over a dimension": lambda self, x: x.min(dim=-1)[0],
}


@pytest.mark.cases(2)
@pytest.mark.parametrize("kind", WHOLE)
def test_reductions_by_other_names(kind: str) -> None:
    assert_close(lower(Function(WHOLE[kind]), [(2, 5, 4, 6)]))


def test_reductions_between_convolutions_change_no_layout() -> None:
    """NHWC images stay as they are; so do the rows of a transformer."""
    for dims in ((2, 3), (3,), (1,), (1, 2, 3)):
        layers = torch.nn.Conv2d(3, 5, 3)
        model = Function(lambda self, x, dims=dims: self.layers(x).mean(dims), layers=layers)
        found = lower(model, [(1, 3, 7, 8)])
        behind = found.operators[found.operators.index("quantized_conv2d_nhwc") + 1 :]
        assert behind.count("transpose") <= (1 if dims == (3,) else 0), (dims, behind)
    rows = lower(Function(lambda self, x: x.mean(1)), [(2, 6, 5)])
    assert rows.operators == ["quantized_depthwise_conv2d_nhwc"]


def test_windows_cover_every_element_once() -> None:
    """The view of a reduction, checked on numbers."""
    for shape in ((4,), (2, 3), (2, 3, 4), (2, 3, 4, 5), (1, 3, 1, 5), (2, 1, 3, 2, 2)):
        x = torch.arange(float(torch.Size(shape).numel())).reshape(shape)
        for mask in range(1, 2 ** len(shape)):
            dims = frozenset(dim for dim in range(len(shape)) if mask >> dim & 1)
            view = windows(shape, dims)
            images = x.permute(view.order).reshape(view.nhwc).permute(0, 3, 1, 2)
            pooled = functional.avg_pool2d(images, view.kernel, view.kernel).permute(0, 2, 3, 1)
            found = pooled.reshape([shape[dim] for dim in view.kept])
            order = sorted(range(len(view.kept)), key=lambda place, kept=view.kept: kept[place])  # type: ignore[misc]
            assert torch.allclose(found.permute(order), x.mean(tuple(dims)))
