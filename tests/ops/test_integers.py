"""Ids, positions, truth values and inputs of 8 bits: the integer reference beside the model itself."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cortado.api import prepare
from cortado.base.errors import CortadoError
from cortado.base.target import from_target_string
from cortado.frontend.capture.export import capture
from cortado.frontend.capture.inputs import Inputs
from cortado.frontend.quantize.convert import quantize
from cortado.ops.io.uint8_input import byte_qparams, byte_values
from cortado.passes import CortexMPassManager
from cortado.plan.lowered import LoweredGraph, lowered_graph, reference_outputs
from cortado.run.runner import RUNTIME_CHECKS
from helpers.single import EVERY_VALUE, Function, decibels, tensors

TABLE = torch.randn(20, 6, generator=torch.Generator().manual_seed(0))
COUNT = 12  # batches
IDS, HOT = ["widen", "embedding"], ["embedding", "quantized_mul"]


def graph_of(model: nn.Module, batches: Sequence[Inputs]) -> LoweredGraph:
    quantized = quantize(capture(model.eval(), batches[0]), batches[0], list(batches), EVERY_VALUE)
    program = quantized.program()
    CortexMPassManager(program, target_config=from_target_string("cortex-m4")).transform()
    return lowered_graph(program)


def operators(graph: LoweredGraph) -> list[str]:
    names = [call.operator.split("::")[1] for call in graph.calls]
    return [name for name in names if name not in ("quantize_per_tensor", "dequantize_per_tensor", "view_copy")]


def reals(rng: torch.Generator, *sizes: int) -> Tensor:
    """Whole steps of an int8 tensor, with both ends of the range: quantization changes nothing."""
    values = torch.randint(-127, 128, sizes, generator=rng)
    values.view(-1)[:2] = torch.tensor([-127, 127])
    return values / 64


def codes(rng: torch.Generator, *sizes: int) -> Tensor:
    """All of int8's codes are steps of a power of two."""
    values = torch.randint(-128, 128, sizes, generator=rng)
    values.view(-1)[:2] = torch.tensor([-128, 127])
    return values / 64


def distinct(rng: torch.Generator, *sizes: int) -> Tensor:
    """Of equal numbers torch's topk takes any."""
    count = torch.Size(sizes).numel()
    return (torch.randperm(255, generator=rng)[:count] - 127).reshape(sizes) / 64


def ids(rng: torch.Generator, *sizes: int) -> Tensor:
    return torch.randint(0, 20, sizes, generator=rng)


def small(kind: torch.dtype) -> "Draw":
    """Ids of 8 or 16 bits."""
    return lambda rng, *sizes: ids(rng, *sizes).to(kind)


def writes(self: nn.Module, x: Tensor, m: Tensor) -> Tensor:
    x = 2 * x
    x[m] = 0.5
    return x


def writes_some(self: nn.Module, x: Tensor) -> Tensor:
    x = x.clone()
    x[:, torch.tensor([True, False, False, True, False, False])] = 0.5
    return x


def truth(rng: torch.Generator, *sizes: int) -> Tensor:
    return torch.rand(sizes, generator=rng) > 0.5


Draw = Callable[..., Tensor]
EXACT: dict[str, tuple[Callable[..., Any], tuple[tuple[Draw, tuple[int, ...]], ...]]] = {
    "argmax": (lambda self, x: x.argmax(1), ((reals, (3, 9)),)),
    "argmax of all": (lambda self, x: (x.argmax(), x.argmin()), ((reals, (2, 3, 4)),)),
    "argmax of channels": (lambda self, x: x.argmax(1, keepdim=True), ((reals, (2, 5, 3, 4)),)),
    "positions": (lambda self, x: x.max(2)[1], ((reals, (2, 5, 7)),)),
    "smallest": (lambda self, x: x.min(1, keepdim=True)[1], ((reals, (2, 5, 7)),)),
    "topk": (lambda self, x: x.topk(3)[1], ((distinct, (2, 9)),)),
    "topk of the smallest": (lambda self, x: x.topk(4, largest=False)[1], ((distinct, (9,)),)),
    "argsort": (lambda self, x: torch.argsort(x, dim=-1, descending=True, stable=True), ((reals, (2, 60)),)),
    "comparisons": (
        lambda self, x, y: (x < y, x <= y, x > y, x >= y, x == y, x != y),
        ((reals, (2, 30)), (reals, (2, 30))),
    ),
    "comparisons with numbers": (
        lambda self, x: (x < 0.5, x >= -0.25, x == 0.0, F.logsigmoid(x) > -1.0),
        ((reals, (2, 30)),),
    ),
    "comparisons of ids": (
        lambda self, i, j: (i < j, i != 0, i == j, i >= 3, (i > j).long()),
        ((ids, (2, 9)), (ids, (2, 9))),
    ),
    "logic": (
        lambda self, x, m: (
            (x > 0) & m,
            (x > 0) | m,
            ~m,
            m ^ (x < 0.3),
            torch.logical_not(m),
            (x > 1).any(1),
            m.all(0),
        ),
        ((reals, (2, 9)), (truth, (2, 9))),
    ),
    "choices between truth values": (
        lambda self, x, m: (
            torch.where(m, x > 0.507, x > -0.507),
            torch.where(x > 0, m[:1], True),
            (x > 0).masked_fill(m, False),
        ),
        ((reals, (2, 9)), (truth, (2, 9))),
    ),
    "broadcast": (lambda self, x, y: x > y, ((reals, (1, 3, 4, 5)), (reals, (1, 1, 4, 1)))),
    "integers of several bytes": (
        lambda self, x: (
            (x * 64 * 300).round().long(),
            (x * 64e6).round().int(),
            (x * 8 + 0.01).short().long(),
        ),
        ((codes, (2, 30)),),
    ),
    "integers of bytes": (lambda self, x: (x.float() * 0.3).long(), ((small(torch.uint8), (2, 30)),)),
    "moved": (lambda self, x: (x > 0).int().transpose(0, 1), ((reals, (2, 9)),)),
    "sums in float beyond 32 bits": (
        lambda self, x: ((x * x).float().mean(1) > 3.5, (x * x).float().sum(1) < -1, (x * x).float().cumsum(1) < 2.0),
        ((lambda rng, *sizes: torch.randint(30_000, 40_000, sizes, generator=rng), (2, 9)),),
    ),
}


@pytest.mark.parametrize("name", sorted(EXACT))
def test_what_is_whole_is_what_the_model_gives(name: str) -> None:
    function, draws = EXACT[name]
    rng = torch.Generator().manual_seed(4)
    model = Function(function)
    batches = [tuple(draw(rng, *sizes) for draw, sizes in draws) for _ in range(3)]
    graph = graph_of(model, batches)
    for batch in batches:
        for found, wanted in zip(reference_outputs(graph, batch), tensors(model(*batch)), strict=True):
            assert found.dtype == (torch.int32 if wanted.dtype == torch.int64 else wanted.dtype)
            assert torch.equal(found, wanted.to(found.dtype))


BOTH: dict[str, tuple[Callable[..., Any], tuple[int, ...], str]] = {
    "topk": (lambda self, x: x.topk(3), (2, 9), "topk"),
    "topk of channels": (lambda self, x: x.topk(2, 1, largest=False), (1, 5, 3, 4), "topk"),
    "sort": (lambda self, x: x.sort(1, descending=True), (2, 9), "topk"),
    "values of a sort alone": (lambda self, x: x.sort(1).values, (2, 9), "topk"),
    "max": (lambda self, x: x.max(2), (1, 5, 7), "argmax"),
    "min of channels": (lambda self, x: x.min(1, keepdim=True), (1, 5, 3, 4), "argmax"),
}


@pytest.mark.cases(2)
@pytest.mark.parametrize("name", BOTH)
def test_values_and_positions_are_of_one_call(name: str) -> None:
    function, sizes, operator = BOTH[name]
    rng = torch.Generator().manual_seed(4)
    model = Function(lambda self, x: tuple(tensors(function(self, x))))
    batches = [(distinct(rng, *sizes),) for _ in range(3)]
    graph = graph_of(model, batches)
    names = {call.operator for call in graph.calls} & {"cortado::topk", "cortado::argmax", "cortado::pick"}
    assert names == {f"cortado::{operator}"}
    assert not any("max_pool" in call.operator for call in graph.calls)
    for batch in batches:
        for found, wanted in zip(reference_outputs(graph, batch), tensors(model(*batch)), strict=True):
            if wanted.is_floating_point():
                assert torch.allclose(found, wanted, atol=0.01 * float(batch[0].abs().max()))
            else:
                assert torch.equal(found, wanted.to(found.dtype))


def test_ties_are_the_first() -> None:
    """Numbers less than half a step apart have one code."""
    model = Function(lambda self, x: (x.argmax(1), x.argmin(1), x.topk(3)[1], x == x.amax(1, keepdim=True)))
    span = torch.tensor([[-1.0, 1.0, 0.3, 0.4]])
    graph = graph_of(model, [(span,)])
    best, worst, three, largest = reference_outputs(graph, (torch.tensor([[0.3, 0.8, 0.801, 0.299]]),))
    assert best.tolist() == [1]
    assert worst.tolist() == [0]
    assert three.tolist() == [[1, 2, 0]]
    assert largest.tolist() == [[False, True, True, False]]


CLOSE: dict[str, tuple[Callable[..., Any], tuple[tuple[Draw, tuple[int, ...]], ...], list[str]]] = {
    "embedding": (lambda self, i: F.embedding(i, TABLE), ((ids, (2, 3, 4)),), ["embedding"]),
    "mean": (lambda self, i: F.embedding_bag(i, TABLE), ((ids, (3, 5)),), ["embedding_bag"]),
    "sum": (lambda self, i: F.embedding_bag(i, TABLE, mode="sum"), ((ids, (3, 5)),), ["embedding_bag"]),
    "ids of 8 bits": (lambda self, i: F.embedding(i.long(), TABLE), ((small(torch.uint8), (3, 5)),), IDS),
    "ids of 16 bits": (lambda self, i: F.embedding(i.int(), TABLE), ((small(torch.int16), (3, 5)),), IDS),
    "bags of 8 bits": (
        lambda self, i: F.embedding_bag(i.long(), TABLE),
        ((small(torch.int8), (3, 5)),),
        ["widen", "embedding_bag"],
    ),
    "bags of several sizes": (
        lambda self, i: F.embedding_bag(i, TABLE, torch.tensor([0, 2, 7])),
        ((ids, (9,)),),
        ["slice_copy", "embedding_bag", "cat"],
    ),
    "an empty bag": (
        lambda self, i: F.embedding_bag(i, TABLE, torch.tensor([0, 4, 4, 9]), mode="sum", include_last_offset=True),
        ((ids, (9,)),),
        ["slice_copy", "embedding_bag", "cat"],
    ),
    "rows of a table": (lambda self, i: TABLE.index_select(0, i), ((ids, (6,)),), ["embedding"]),
    "rows in brackets": (
        lambda self, i: TABLE.reshape(20, 2, 3)[i - 20],
        ((ids, (2, 6)),),
        ["calculate_int", "embedding"],
    ),
    "one hot": (lambda self, i, x: F.one_hot(i, 20).float() * x, ((ids, (3,)), (reals, (3, 20))), HOT),
    "gathered": (
        lambda self, x, y: y.gather(1, x.argmax(1, keepdim=True)),
        ((reals, (4, 3, 5)), (reals, (4, 3, 5))),
        ["argmax", "pick", "transpose"],
    ),
    "taken along": (
        lambda self, x, y: torch.take_along_dim(y, x.argmax(1, keepdim=True), 1),
        ((reals, (4, 3, 5)), (reals, (4, 3, 5))),
        ["argmax", "pick", "transpose"],
    ),
    "written where a mask holds": (writes, ((reals, (2, 9, 3)), (truth, (2, 9))), ["repeat", "where"]),
    "written where a constant mask holds": (writes_some, ((reals, (4, 6)),), ["quantized_mul", "quantized_add"]),
    "where": (
        lambda self, x, y: torch.where(x > y, x, 2 * y),
        ((reals, (2, 9)), (reals, (2, 9))),
        ["compare", "quantized_activation", "quantized_activation", "where"],
    ),
    "a number": (
        lambda self, x, m: torch.where(m, -1.5, x) + x.masked_fill(m, 0.5),
        ((reals, (2, 9)), (truth, (2, 9))),
        ["raw_bytes", "where", "quantized_add"],
    ),
    "masked": (lambda self, x, i: x * (i != 3), ((reals, (2, 9)), (ids, (2, 9))), ["compare", "quantized_mul"]),
    "converted": (lambda self, i: i.float() * 0.1, ((ids, (2, 9)),), ["quantize_int"]),
}


@pytest.mark.parametrize("name", sorted(CLOSE))
def test_what_is_real_is_close(name: str) -> None:
    function, draws, kernels = CLOSE[name]
    rng = torch.Generator().manual_seed(4)
    model = Function(function)
    batches = [tuple(draw(rng, *sizes) for draw, sizes in draws) for _ in range(COUNT)]
    graph = graph_of(model, batches)
    assert set(kernels) <= set(operators(graph)) <= {*kernels, "quantized_activation", "raw_bytes"}
    pairs = [(model(*batch), reference_outputs(graph, batch)[0]) for batch in batches]
    assert decibels(torch.cat([wanted for wanted, _ in pairs]), torch.cat([found for _, found in pairs])) > 38


def test_padding_is_left_out_and_nothing_but_padding_is_zero() -> None:
    model = Function(lambda self, i: F.embedding_bag(i, TABLE, padding_idx=3))
    batch = torch.tensor([[3, 3, 3], [3, 5, 3], [5, 5, 5], [1, 2, 3]])
    graph = graph_of(model, [(batch,)])
    found = reference_outputs(graph, (batch,))[0]
    assert found[0].abs().max() == 0
    assert torch.equal(found[1], found[2])
    assert decibels(model(batch), found) > 38


# ---- inputs of 8 bits ----------------------------------------------------------------------------------------------

STRAIGHT = {
    "as it is": (torch.uint8, lambda self, x: x.float(), ["raw_bytes", "from_uint8"]),
    "unit interval": (torch.uint8, lambda self, x: x.to(torch.float32) / 255, ["raw_bytes", "from_uint8"]),
    "centered": (torch.uint8, lambda self, x: (x.float() - 128) / 64, ["raw_bytes", "from_uint8"]),
    "promoted": (torch.uint8, lambda self, x: x * 0.5, ["raw_bytes", "from_uint8"]),
    "signed": (torch.int8, lambda self, x: x.float() * 0.01, ["raw_bytes"]),
    "turned over": (torch.uint8, lambda self, x: 255 - x.float(), ["raw_bytes", "quantized_activation"]),
    "truth": (torch.bool, lambda self, x: x.float(), ["raw_bytes", "quantized_activation"]),
}


def all_bytes(kind: torch.dtype) -> Tensor:
    return byte_values(kind).reshape(2, 128)


@pytest.mark.cases(2)
@pytest.mark.parametrize("name", sorted(STRAIGHT))
def test_a_straight_line_through_bytes_is_exact(name: str) -> None:
    """For all 256, though calibration saw few of them."""
    kind, function, kernels = STRAIGHT[name]
    model, x = Function(function), all_bytes(kind)
    graph = graph_of(model, [(torch.full_like(x, 3),)])
    assert operators(graph) == kernels
    found = reference_outputs(graph, (x,))[0]
    assert torch.allclose(found, model(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "function",
    [lambda self, x: (x.float() / 255 - 0.485) / 0.229, lambda self, x: x.float().sqrt(), lambda self, x: x // 2 * 0.1],
)
def test_other_functions_of_bytes_are_tables_of_all_they_can_be(function: Callable[..., Tensor]) -> None:
    model, x = Function(function), all_bytes(torch.uint8)
    found = reference_outputs(graph_of(model, [(torch.full_like(x, 3),)]), (x,))[0]
    wanted = model(x)
    assert float((found - wanted).abs().max()) <= 0.51 * float(wanted.max() - min(wanted.min(), torch.tensor(0))) / 255


def test_the_scale_of_bytes_is_that_of_what_they_mean() -> None:
    values = byte_values(torch.uint8).float()
    assert byte_qparams(values, torch.uint8).zero_point == -128
    assert byte_qparams((values - 128) / 64, torch.uint8).zero_point == 0
    assert byte_qparams((values - 128) / 64, torch.uint8).scale == pytest.approx(1 / 64)
    assert byte_qparams(torch.zeros(256), torch.uint8).scale == 1.0


def test_an_image_of_uint8_lies_as_the_camera_gives_it() -> None:
    """The flip and the change of layout meet: pixels come in with their channels together."""
    rng = torch.Generator().manual_seed(0)
    batches = [(torch.randint(0, 256, (1, 3, 9, 9), generator=rng, dtype=torch.uint8),) for _ in range(3)]
    compiled = prepare(
        Function(lambda self, x: self.conv(x.float() / 255), conv=nn.Conv2d(3, 4, 3)), batches[0], batches, name="net"
    ).compile("cortex-m4")
    (image,) = compiled.report.inputs
    assert (image.dtype, image.shape, image.layout) == ("uint8", (1, 9, 9, 3), (0, 2, 3, 1))
    assert "kernels/src/transpose_s8.c" not in compiled.bundle.files  # type: ignore[union-attr]


# ---- numbers that are not in a table, or in no int32 ---------------------------------------------------------------


@pytest.mark.host
def test_ids_outside_of_a_table_read_nothing_else(tmp_path: Path) -> None:
    model = Function(lambda self, i: F.embedding(i, TABLE))
    inside, outside = torch.tensor([[0, 19, 7]]), torch.tensor([[-5, 2**31 - 1, 7]])
    artifact = prepare(model, (inside,), [(inside,)], name="net").compile("cortex-m4").save(tmp_path / "net")
    assert artifact.run([[inside.numpy()]], "host", flags=[RUNTIME_CHECKS]).bit_exact
    sanitized = artifact.run([[outside.numpy()], [inside.numpy()]], "host", flags=["-fsanitize=address,undefined"])
    assert sanitized.bit_exact
    assert np.array_equal(sanitized.values[0][0], sanitized.values[1][0])
    with pytest.raises(CortadoError, match="an embedding got an id that is not in its table"):
        artifact.run([[outside.numpy()]], "host", flags=[RUNTIME_CHECKS])
    with pytest.raises(CortadoError, match="holds numbers from 0 to 2147483648, expected int32 values"):
        artifact.run([[np.array([[0, 1, 2**31]])]], "host")


def test_calibration_with_ids_outside_of_a_table_is_the_users_mistake() -> None:
    model = Function(lambda self, i: F.embedding(i, TABLE))
    with pytest.raises(CortadoError, match="the model itself fails on calibration batch 1: IndexError: index out of"):
        prepare(model, (torch.tensor([1]),), [(torch.tensor([1]),), (torch.tensor([20]),)])


# ---- numbers and None ----------------------------------------------------------------------------------------------


class WithNumbers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.layer = nn.Linear(4, 3)

    def forward(self, x: Tensor, times: int, negative: bool, y: Tensor, plus: float = 0.0) -> Any:
        z = self.layer(x) * times + plus
        return None, (-z if negative else z), None, (x + y).relu()


@pytest.mark.host
def test_numbers_among_the_inputs_are_constants_and_none_comes_back() -> None:
    rng = torch.Generator().manual_seed(2)
    batches = [(torch.randn(1, 4, generator=rng), 3, True, torch.randn(1, 4, generator=rng), 0.5) for _ in range(33)]
    model = WithNumbers().eval()
    compiled = prepare(model, batches[0], batches, name="net").compile("cortex-m4")
    assert [tensor.name for tensor in compiled.report.inputs] == ["x", "y"]
    x, *_, y, _ = batches[1]
    checked = compiled.run(x, y, on="host")
    assert checked.bit_exact
    nothing, first, none, second = checked.outputs
    assert nothing is none is None
    with torch.no_grad():
        wanted = model(*batches[1])
    assert decibels(wanted[1], torch.from_numpy(first)) > 30
    assert decibels(wanted[3], torch.from_numpy(second)) > 30
    with pytest.raises(CortadoError, match="calibration batch 0 has 4 as input 1, expected 3: a number among"):
        prepare(model, batches[0], [(x, 4, True, y, 0.5)])


class Structured(nn.Module):
    """As an LSTM takes its states, and as others take a dictionary and what may be left out."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.lstm = nn.LSTM(4, 3, batch_first=True)

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor], more: dict[str, Tensor], mask: Tensor | None) -> Any:
        assert mask is None
        y, (h, c) = self.lstm(x * more["gain"], state)
        return y + more["bias"], (h, c)


@pytest.mark.host
@pytest.mark.filterwarnings("ignore::cortado.base.errors.CortadoWarning")  # few samples
def test_tensors_within_tuples_and_dictionaries_are_inputs_one_by_one() -> None:
    rng = torch.Generator().manual_seed(2)

    def batch() -> tuple[Any, ...]:
        x, h, c, gain, bias = (torch.randn(1, n, w, generator=rng) for n, w in ((5, 4), (1, 3), (1, 3), (5, 4), (1, 3)))
        return x, (h / 4, c / 4), {"bias": bias, "gain": gain}, None

    batches, model = [batch() for _ in range(8)], Structured().eval()
    compiled = prepare(model, batches[0], batches, name="net").compile("cortex-m4")
    assert [tensor.name for tensor in compiled.report.inputs] == ["x", "state_0", "state_1", "more_0", "more_1"]
    x, state, more, _ = batches[0]
    checked = compiled.run(x, *state, more["bias"], more["gain"], on="host")
    assert checked.bit_exact
    with torch.no_grad():
        y, (h, c) = model(*batches[0])
    for wanted, found in zip((y, h, c), checked.outputs, strict=True):
        assert decibels(wanted, torch.from_numpy(found)) > 25
    with pytest.raises(CortadoError, match="calibration batch 0 has 1 as input 5, expected None"):
        prepare(model, batches[0], [(x, state, more, 1)])


# ---- narrow integers in float ----------------------------------------------------------------------------------------

IN_FLOAT: dict[str, Callable[[Tensor], Tensor]] = {
    "one more": lambda x: (x.float() + 1) >= x.float(),
    "one less": lambda x: x.float() - 1 < x.float(),
    "products": lambda x: (x.float() + 2) * 3 > x.float() * 2,
    "a sum": lambda x: (x.float() * 2).sum(1, keepdim=True) > x.float(),
    "back": lambda x: (x.float() * 3).to(torch.int32),
    "the opposite": lambda x: (-x.float()).to(torch.int32),
}


@pytest.mark.cases(5)
@pytest.mark.parametrize("kind", [torch.int8, torch.uint8, torch.int16])
@pytest.mark.parametrize("name", IN_FLOAT)
def test_what_is_computed_of_narrow_integers_in_float_does_not_wrap_around(name: str, kind: torch.dtype) -> None:
    """Calibration has seen small numbers; the ends of the type come later."""
    function, limits = IN_FLOAT[name], torch.iinfo(kind)
    batches = [(torch.arange(n, n + 6, dtype=kind)[None],) for n in range(3)]
    graph = graph_of(Function(lambda self, x: function(x)), batches)
    ends = torch.tensor([[limits.min, limits.min + 1, 0, 1, limits.max - 1, limits.max]]).to(kind)
    assert torch.equal(reference_outputs(graph, (ends,))[0].to(torch.int64), function(ends).to(torch.int64))


# ---- scores --------------------------------------------------------------------------------------------------------


@pytest.mark.host
def test_a_class_that_the_model_picks_itself_is_scored() -> None:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Embedding(20, 8), nn.Flatten(), nn.Linear(40, 4))
    picks = Function(lambda self, i: self.body(i).argmax(1), body=model).eval()
    samples = torch.randint(0, 20, (60, 5), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        labels = picks(samples)
    compiled = prepare(picks, (samples[:1],), samples[:40], name="net").compile("cortex-m4")
    found = compiled.evaluate(samples, labels, model=picks)
    assert found.problems() == []
    assert found.accuracy is not None
    assert found.accuracy == found.same_best
    assert found.accuracy >= 0.9
    assert found.float_accuracy == 1.0
    assert found.sqnr_db is None  # a position has no signal


TYPES = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)


@pytest.mark.parametrize("join", [torch.cat, torch.stack, torch.hstack], ids=lambda join: join.__name__)
def test_integers_of_two_types_are_joined_as_torch_promotes_them(join: Callable[..., Tensor]) -> None:
    rng = torch.Generator().manual_seed(1)

    def drawn(kind: torch.dtype) -> Tensor:
        least, most = (0, 2) if kind == torch.bool else (0, 200) if kind == torch.uint8 else (-100, 100)
        return torch.randint(least, most, (2, 3), generator=rng).to(kind)

    for one in TYPES:
        others = [kind for kind in TYPES if kind != one]
        model = Function(lambda model, *values: [join([values[0], other]) for other in values[1:]])
        batches = [tuple(drawn(kind) for kind in (one, *others)) for _ in range(2)]
        for found, want in zip(
            reference_outputs(graph_of(model, batches), batches[1]), model(*batches[1]), strict=True
        ):
            assert torch.equal(found.to(torch.int64), want.to(torch.int64))
