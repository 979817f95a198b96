"""Convolutions of every kind: against PT2E's graph, batch normalization folded, sums that don't fit, both artifacts."""

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
from cortado.base.errors import CortadoError
from cortado.plan.lowered import reference_outputs
from cortado.run.executorch_host import run_pte
from helpers import single
from helpers.cores import each_core
from helpers.single import CONV2D, DEPTHWISE, Function, assert_close, lower, randomize

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


@settings(max_examples=16)
@given(case=convolutions())
def test_conv2d(case: tuple[nn.Module, tuple[int, ...]]) -> None:
    model, shape = case
    found = lower(model, [shape])
    assert_close(found)
    assert len(found.kernels) == 1


@settings(max_examples=16)
@given(case=convolutions(transposed=True))
def test_conv_transpose2d(case: tuple[nn.Module, tuple[int, ...]]) -> None:
    model, shape = case
    found = lower(model, [shape])
    assert_close(found)
    assert len(found.kernels) == 1


@pytest.mark.slow
@settings(max_examples=200)
@given(case=st.one_of(convolutions(), convolutions(transposed=True)))
def test_convolutions_long(case: tuple[nn.Module, tuple[int, ...]]) -> None:
    model, shape = case
    assert_close(lower(model, [shape]))


@pytest.mark.cases(2)
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
    assert found.kernels == ["quantized_conv2d_nhwc"]


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


@pytest.mark.cases(4)
@pytest.mark.parametrize("kind", SIGNALS)
@pytest.mark.parametrize("with_relu", [False, True])
def test_signals_are_images_of_height_one(kind: str, with_relu: bool) -> None:
    layer, shape = SIGNALS[kind]
    model = Function(lambda self, x: torch.relu_(self.layer(x)) if with_relu else self.layer(x), layer=layer)
    found = lower(model, [shape])
    assert_close(found)
    assert len(found.kernels) == 1  # the relu is in the kernel


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
    assert found.kernels == ["quantized_conv2d_nhwc", "quantized_transpose_conv2d_nhwc"]


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
    assert found.kernels == [operator]
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
    with pytest.raises(CortadoError, match="fits 32 bits when rescaled"):
        single.lower_on(model, [(x,)])


def test_a_product_beyond_32_bits_is_refused() -> None:
    with pytest.raises(CortadoError, match="fits 32 bits"):
        lower(Function(lambda self, x, y: x @ y), [(1, 140_000), (140_000, 1)], batches=1)


@pytest.mark.cases(1)
@pytest.mark.qemu
@pytest.mark.parametrize(("depth", "kernel"), [(64, "conv1x1_lanes_s8__dsp"), (1100, "conv1x1_s8__dsp")])
def test_sums_beyond_24_bits_have_a_kernel_of_their_own(depth: int, kernel: str, tmp_path: Path) -> None:
    """Weights that are all the largest: 1100 of them times 127 * 128 don't fit 24 bits, and the inputs get there."""
    model = nn.Conv2d(depth, 5, 1)
    nn.init.constant_(model.weight, 0.5)
    rng = torch.Generator().manual_seed(0)
    samples = [
        (torch.ones(1, depth, 1, 3),),
        (-torch.ones(1, depth, 1, 3),),
        (torch.randn(1, depth, 1, 3, generator=rng),),
    ]
    compiled = cortado.compile(model, samples[0], "cortex-m4", calibration=samples, name="deep")
    assert compiled.planned is not None
    kernels = [k for stage in compiled.planned.program.stages for step in stage.steps for k in step.kernels.values()]
    assert f"cortado_{kernel}" in {k.call.function for k in kernels}
    inputs = [[value.numpy() for value in sample] for sample in samples]
    assert compiled.save(tmp_path / "deep").run(inputs).bit_exact


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
@pytest.mark.parametrize("target", each_core("cortex-m0plus", "cortex-m", here="cortex-m"))
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
