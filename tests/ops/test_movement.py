"""Data movement: every spelling is lowered to what PT2E's graph computes, exactly, and so are its C and its .pte."""

import math
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

from cortado.api import prepare
from cortado.base.errors import CortadoError
from cortado.base.target import ANY, from_target_string
from cortado.emit.pte.program import emit_pte
from cortado.frontend.capture.export import capture
from cortado.frontend.quantize.convert import quantize
from cortado.passes import CortexMPassManager
from cortado.plan.lowered import lowered_graph, reference_outputs
from cortado.run import executorch_host
from helpers import single
from helpers.single import Function, assert_close, lower

Tensor = torch.Tensor
IMAGE = (2, 4, 6, 8)


def _no_grad(self: Any, x: Tensor) -> Tensor:
    with torch.no_grad():
        y = x[:, :2]
        with torch.enable_grad():
            y = y.flip(1)
    return y


def _in_place(self: Any, x: Tensor) -> Tensor:
    y = x.clone()
    y.relu_()
    z = y.flip(1)
    z.unsqueeze_(0)
    z *= 2.0
    return z


# What a model may say, and the calls it becomes.
SPELLINGS: dict[str, tuple[Callable[[Any, Tensor], Any], list[str]]] = {
    "chunk": (lambda self, x: x.chunk(2, 1)[1], ["slice_copy"]),
    "split": (lambda self, x: x.split(3, 2), ["slice_copy"] * 2),
    "split_with_sizes": (lambda self, x: x.split([1, 3], 1)[1], ["slice_copy"]),
    "tensor_split": (lambda self, x: torch.tensor_split(x, 3, 3)[1], ["slice_copy"]),
    "unbind": (lambda self, x: x.unbind(1)[2], ["slice_copy"]),
    "narrow": (lambda self, x: x.narrow(1, -3, 2), ["slice_copy"]),
    "select": (lambda self, x: x[:, -1], ["slice_copy"]),
    "slices": (lambda self, x: x[:, ::2, 1:, -3:], ["slice_copy"] * 3),
    "everything": (lambda self, x: torch.ops.aten.slice.Tensor(x, 1, 0, 4), []),
    "pad": (lambda self, x: functional.pad(x, (1, 2)), ["pad"]),
    "pad_value": (lambda self, x: functional.pad(x, (1, 2, 0, 3), value=2.5), ["pad"]),
    "pad_cut": (lambda self, x: functional.pad(x, (-1, 2, 3, -2)), ["slice_copy"] * 2 + ["pad"]),
    "pad_nothing": (lambda self, x: functional.pad(x, (0, 0, 0, 0)), []),
    "pad_rank_5": (lambda self, x: functional.pad(x[None], (1, 1, 0, 0, 2, 1, 0, 0, 1, 0)), ["pad"] * 3),
    "reflect": (lambda self, x: functional.pad(x, (1, 2, 3, 1), mode="reflect"), ["index_select"] * 2),
    "replicate": (lambda self, x: functional.pad(x, (1, 2, 3, 1), mode="replicate"), ["index_select"] * 2),
    "circular": (lambda self, x: functional.pad(x, (1, 2, 3, 1), mode="circular"), ["index_select"] * 2),
    "upsample": (
        lambda self, x: functional.interpolate(x, scale_factor=(2, 3)),
        ["transpose", "upsample_nearest_nhwc", "transpose"],
    ),
    "upsample_exact": (
        lambda self, x: functional.interpolate(x, scale_factor=2, mode="nearest-exact"),
        ["transpose", "upsample_nearest_nhwc", "transpose"],
    ),
    "upsample_signal": (
        lambda self, x: functional.interpolate(x[:, :, 0], scale_factor=3),
        ["slice_copy", "transpose", "upsample_nearest_nhwc", "transpose"],
    ),
    "upsample_volume": (lambda self, x: functional.interpolate(x[None], scale_factor=2), ["index_select"] * 3),
    "upsample_size": (lambda self, x: functional.interpolate(x, size=(7, 9)), ["index_select"] * 2),
    "upsample_fraction": (lambda self, x: functional.interpolate(x, scale_factor=1.5), ["index_select"] * 2),
    "downsample": (lambda self, x: functional.interpolate(x, scale_factor=0.5), ["index_select"] * 2),
    "flip": (lambda self, x: x.flip(1, -1), ["index_select"] * 2),
    "flip_left_right": (lambda self, x: torch.fliplr(x), ["index_select"]),
    "roll": (lambda self, x: x.roll((1, -2), (2, 3)), ["index_select"] * 2),
    "roll_flat": (lambda self, x: x.roll(5), ["index_select"]),
    "brackets": (lambda self, x: x[:, [3, -2, 0]], ["index_select"]),
    "index_select": (lambda self, x: x.index_select(2, torch.tensor([0, 2, 2])), ["index_select"]),
    "pixel_shuffle": (lambda self, x: functional.pixel_shuffle(x, 2), ["transpose"]),
    "pixel_unshuffle": (lambda self, x: functional.pixel_unshuffle(x, 2), ["transpose"]),
    "channel_shuffle": (lambda self, x: functional.channel_shuffle(x, 2), ["transpose"]),
    "stack": (lambda self, x: torch.stack([x[:, :2], x[:, 2:]], -1), ["slice_copy"] * 2 + ["cat"]),
    "hstack": (lambda self, x: torch.hstack([x, x]), ["cat"]),
    "vstack": (lambda self, x: torch.vstack([x.reshape(-1), x.reshape(-1)]), ["cat"]),
    "dstack": (lambda self, x: torch.dstack([x[0, 0], x[0, 1]]), ["slice_copy"] * 3 + ["cat"]),
    "column_stack": (lambda self, x: torch.column_stack([x.reshape(-1), x.reshape(-1)]), ["cat"]),
    "cat": (lambda self, x: torch.cat([x, x[:, :2]], 1), ["slice_copy", "cat"]),
    "cat_of_six": (lambda self, x: torch.cat([x, x, x[:, :1], x, x, x], -3), ["slice_copy"] + ["cat"] * 3),
    "cat_of_nothing": (lambda self, x: torch.cat([x[:, :0], x], 1), []),
    "expand": (lambda self, x: x[:, :1].expand(-1, 3, -1, -1), ["slice_copy", "repeat"]),
    "expand_new": (lambda self, x: x.expand(3, *IMAGE), ["repeat"]),
    "expand_as": (lambda self, x: x[:, :1].expand_as(x), ["slice_copy", "repeat"]),
    "expand_nothing": (lambda self, x: x.expand(IMAGE), []),
    "repeat": (lambda self, x: x.repeat(2, 1, 3, 1), ["repeat"]),
    "repeat_all": (lambda self, x: x.repeat(2, 2, 3, 2), ["repeat"] * 4),
    "tile": (lambda self, x: x.tile(2), ["repeat"]),
    "repeat_interleave": (lambda self, x: x.repeat_interleave(2, dim=1), ["repeat"]),
    "repeat_interleave_flat": (lambda self, x: x.repeat_interleave(3), ["repeat"]),
    "permute": (lambda self, x: x.permute(3, 0, 2, 1), ["transpose"]),
    "permute_rank_5": (lambda self, x: x.reshape(2, 2, 2, 6, 8).permute(4, 2, 0, 3, 1), ["transpose"]),
    "permute_rank_6": (lambda self, x: x.reshape(2, 2, 2, 6, 2, 4).permute(0, 3, 4, 1, 2, 5), ["transpose"]),
    "transpose": (lambda self, x: x.transpose(1, -1), ["transpose"]),
    "movedim": (lambda self, x: x.movedim(1, -1), ["transpose"]),
    "movedims": (lambda self, x: x.movedim((0, 1), (2, 3)), ["transpose"]),
    "swapaxes": (lambda self, x: x.swapaxes(1, 2), ["transpose"]),
    "matrix_transpose": (lambda self, x: x.mT, ["transpose"]),
    "t": (lambda self, x: x.flatten(1).t(), ["transpose"]),
    "views": (lambda self, x: x.unflatten(1, (2, 2)).flatten(2).unsqueeze(0).squeeze(0).view(-1), []),
    "copies": (
        lambda self, x: functional.dropout(x.clone().to(torch.float32).contiguous(), 0.5, False).flatten(),
        [],
    ),
    "no_grad": (_no_grad, ["slice_copy", "index_select"]),
    "in_place": (_in_place, ["quantized_activation", "index_select"]),  # twice the scale, the same codes
    "same_output_twice": (lambda self, x: (y := x.flip(1), y), ["index_select"]),
}


@pytest.mark.cases(2)
@pytest.mark.parametrize("stack", [torch.hstack, torch.vstack, torch.dstack, torch.column_stack, torch.stack])
def test_numbers_are_stacked(stack: Callable[[list[Tensor]], Tensor]) -> None:
    """Tensors of no dimensions become rows, columns or depths of one."""
    found = lower(Function(lambda self, x: stack([x.amax(), x.amin()])), [IMAGE])
    assert found.worst() == 0.0
    assert found.operators[-1] == "cat"


@pytest.mark.parametrize("name", SPELLINGS)
def test_spelling(name: str) -> None:
    function, operators = SPELLINGS[name]
    found = lower(Function(function), [IMAGE])
    assert found.worst() == 0.0
    assert found.operators == operators
    assert_near_the_model(found, Function(function))


def assert_near_the_model(found: single.Single, model: nn.Module) -> None:
    """No further from the float model than rounding to codes (twice): nothing was lost before quantization."""
    for batch in found.batches:
        wanted = single.tensors(model(*(x.clone() for x in batch)))
        for got, want, scale in zip(reference_outputs(found.graph, batch), wanted, found.scales, strict=True):
            assert got.shape == want.shape
            assert float((got - want).abs().max()) < 2.0 * scale


# ---- any shape and parameters ------------------------------------------------------------------------------------

SIZES = st.lists(st.integers(1, 6), min_size=1, max_size=5)


def assert_exact(function: Callable[[Tensor], Any], sizes: tuple[int, ...]) -> single.Single:
    model = Function(lambda self, x: function(x))
    found = lower(model, [sizes], batches=1)
    assert found.worst() == 0.0
    assert_near_the_model(found, model)
    return found


@settings(max_examples=12)
@given(data=st.data())
def test_pad(data: Any) -> None:
    sizes = tuple(data.draw(SIZES))
    dims = data.draw(st.integers(1, len(sizes)))
    widths = []
    for size in sizes[::-1][:dims]:
        before = data.draw(st.integers(-((size - 1) // 2), 3))
        widths += [before, data.draw(st.integers(-((size - 1) // 2), 3))]
    value = data.draw(st.sampled_from([0.0, -3.5, 1e-3]))
    assert_exact(lambda x: functional.pad(x, widths, value=value), sizes)


@settings(max_examples=10)
@given(data=st.data(), mode=st.sampled_from(["reflect", "replicate", "circular"]))
def test_border(data: Any, mode: str) -> None:
    spatial = data.draw(st.integers(1, 3))
    sizes = tuple(data.draw(st.lists(st.integers(2, 6), min_size=spatial + 2, max_size=spatial + 2)))
    widths = [data.draw(st.integers(0, size - 1)) for size in sizes[: -spatial - 1 : -1] for _ in range(2)]
    assert_exact(lambda x: functional.pad(x, widths, mode=mode), sizes)


@settings(max_examples=12)
@given(data=st.data())
def test_slice(data: Any) -> None:
    sizes = tuple(data.draw(SIZES))
    dim = data.draw(st.integers(-len(sizes), len(sizes) - 1))
    start = data.draw(st.integers(-sizes[dim], sizes[dim] - 1))
    step = data.draw(st.integers(1, 3))
    assert_exact(lambda x: torch.ops.aten.slice.Tensor(x, dim, start, 2**63 - 1, step), sizes)


@settings(max_examples=20)
@given(data=st.data())
def test_interpolate_between(data: Any) -> None:
    """A rounding of its own, so a step beside PT2E at most."""
    spatial = data.draw(st.integers(1, 2))
    sizes = tuple(data.draw(st.lists(st.integers(1, 6), min_size=spatial + 2, max_size=spatial + 2)))
    how: dict[str, Any] = {"mode": ("linear", "bilinear")[spatial - 1], "align_corners": data.draw(st.booleans())}
    if data.draw(st.booleans()):
        how["size"] = [data.draw(st.integers(1, 12)) for _ in range(spatial)]
    else:
        how["scale_factor"] = [data.draw(st.sampled_from([1.0, 2.0, 4.0, 3.0, 1.5])) for _ in range(spatial)]
    model = Function(lambda self, x: functional.interpolate(x, **how))
    found = lower(model, [sizes], batches=1)
    assert found.operators.count("upsample_bilinear_nhwc") == 1
    assert found.worst() <= 1.01
    assert_near_the_model(found, model)


@settings(max_examples=10)
@given(data=st.data())
def test_interpolate(data: Any) -> None:
    spatial = data.draw(st.integers(1, 3))
    sizes = tuple(data.draw(st.lists(st.integers(1, 6), min_size=spatial + 2, max_size=spatial + 2)))
    mode = data.draw(st.sampled_from(["nearest", "nearest-exact"]))
    if data.draw(st.booleans()):
        size = [data.draw(st.integers(1, 12)) for _ in range(spatial)]
        assert_exact(lambda x: functional.interpolate(x, size=size, mode=mode), sizes)
    else:
        factors = [data.draw(st.sampled_from([1.0, 2.0, 3.0, 1.5, 2.3])) for _ in range(spatial)]
        assert_exact(lambda x: functional.interpolate(x, scale_factor=factors, mode=mode), sizes)


@settings(max_examples=10)
@given(data=st.data())
def test_cat_and_stack(data: Any) -> None:
    """Parts of one tensor, so of one scale, along any dimension."""
    sizes = tuple(data.draw(SIZES))
    dim = data.draw(st.integers(-len(sizes), len(sizes) - 1))
    parts = data.draw(st.lists(st.integers(1, sizes[dim]), min_size=1, max_size=7))
    join = torch.stack if data.draw(st.booleans()) and len(set(parts)) == 1 else torch.cat
    assert_exact(lambda x: join([x.narrow(dim, 0, length) for length in parts], dim), sizes)


@settings(max_examples=10)
@given(data=st.data())
def test_repeat(data: Any) -> None:
    sizes = tuple(data.draw(SIZES))
    counts = data.draw(st.lists(st.integers(1, 3), min_size=len(sizes), max_size=6))
    assert_exact(lambda x: x.repeat(counts), sizes)


@settings(max_examples=10)
@given(data=st.data())
def test_permute(data: Any) -> None:
    sizes = tuple(data.draw(st.lists(st.integers(1, 4), min_size=2, max_size=6)))
    order = data.draw(st.permutations(list(range(len(sizes)))))
    assert_exact(lambda x: x.permute(order), sizes)


# ---- scales ------------------------------------------------------------------------------------------------------


def test_functions_of_one_tensor_are_looked_up_by_the_concatenation() -> None:
    """Each is made in the scale of the output, on the way there."""
    found = lower(Function(lambda self, x: torch.cat([torch.sigmoid(x), 3 * x], 1)), [IMAGE])
    assert_close(found)
    assert found.kernels == ["cat_rescaled"]


def test_cat_of_small_and_large_values_has_one_scale() -> None:
    found = lower(Function(lambda self, x: torch.cat([0.01 * x, 10 * x.relu()], 1)), [IMAGE])
    assert_close(found)
    assert found.kernels == ["cat_rescaled"]


# ---- refused -----------------------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[Callable[[Any, Tensor], Any], str]] = {
    "pad_infinity": (lambda self, x: functional.pad(x, (1, 1), value=-math.inf), "pads with -inf"),
    "random_dropout": (lambda self, x: functional.dropout(x, 0.5, True), "dropout"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_the_reason(name: str) -> None:
    function, reason = REFUSED[name]
    with pytest.raises(CortadoError, match=reason):
        lower(Function(function), [IMAGE])


def _many(self: Any, x: Tensor) -> tuple[Tensor, ...]:
    """Movements of every kind, those of the C kernels' special cases among them."""
    y = functional.pad(x[:, :, 1:, ::2], (1, 0, 2, 1), value=0.5)
    z = functional.interpolate(functional.pad(y, (1, 1, 1, 1), mode="reflect"), scale_factor=2)
    a, b = y.chunk(2, 1)
    return (
        torch.cat([z, z.flip(3), z.roll(1, 1)], 1),
        functional.pixel_shuffle(y, 2).repeat(2, 1, 1, 3),
        torch.stack([a, b, a, b, a], 2).permute(4, 0, 3, 2, 1),
        functional.interpolate(b, size=(7, 5)).transpose(1, 2),
        a.repeat_interleave(2, dim=3)[:, [1, 0, 1]],
    )


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("target", "on"),
    [
        pytest.param("cortex-m4", "host", marks=pytest.mark.host),
        pytest.param("cortex-m0plus", None, marks=pytest.mark.qemu),
        pytest.param("cortex-m55", None, marks=pytest.mark.qemu),
    ],
)
def test_the_c_bundle_is_exact(target: str, on: str | None, tmp_path: Path) -> None:
    rng = torch.Generator().manual_seed(1)
    batches = [(torch.randn(IMAGE, generator=rng),) for _ in range(2)]
    model = prepare(Function(_many), batches[0], batches, name="many")
    artifact = model.compile(from_target_string(target)).save(tmp_path / "many")
    checked = artifact.run([[x.numpy() for x in batch] for batch in batches], on, check_stores=True)
    assert checked.bit_exact


@pytest.mark.host
def test_the_pte_is_exact() -> None:
    """On ExecuTorch's own runtime, with its portable kernels, which only move int8."""
    rng = torch.Generator().manual_seed(2)
    batches = [(torch.randn(IMAGE, generator=rng),) for _ in range(2)]
    quantized = quantize(capture(Function(_many), batches[0]), batches[0], batches)
    program = quantized.program()
    CortexMPassManager(program).transform()
    graph, pte = lowered_graph(program), emit_pte(program, ANY, {})
    found = executorch_host.run_pte(pte.data, [[x.numpy() for x in batch] for batch in batches])
    for batch, got in zip(batches, found, strict=True):
        for want, value in zip(reference_outputs(graph, batch), got, strict=True):
            assert np.array_equal(value, want.numpy())
    moves = {"cat.out", "index_select.out", "repeat.out", "slice_copy.Tensor_out"}
    assert set(pte.portable_operators) - {"aten::permute_copy.out"} == {f"aten::{name}" for name in moves}
