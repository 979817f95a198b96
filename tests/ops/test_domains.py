"""Integers, counts and truth values stay what they are: the integer reference beside the model itself, exactly."""

import math
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from cortado.api import prepare
from cortado.base.errors import CortadoError
from cortado.base.findings import FindingKind
from cortado.base.target import from_target_string
from cortado.frontend.capture.eager import RightKernels
from cortado.frontend.capture.export import capture
from cortado.frontend.quantize.convert import quantize
from cortado.frontend.rewrite.domains import domain_of
from cortado.frontend.rewrite.pipeline import canonicalize
from cortado.ir.domain import DomainKind, Interval
from cortado.ir.graph import output_node
from cortado.passes import CortexMPassManager
from cortado.plan.lowered import LoweredGraph, lowered_graph, reference_outputs
from helpers.single import EVERY_VALUE, Function, rejected, tensors

Draw = Callable[..., Tensor]
Model = Callable[..., Any]
where = torch.where


def truth(rng: torch.Generator, *sizes: int) -> Tensor:
    return torch.rand(sizes, generator=rng) > 0.5


def ids(rng: torch.Generator, *sizes: int) -> Tensor:
    return torch.randint(0, 20, sizes, generator=rng)


def few(rng: torch.Generator, *sizes: int) -> Tensor:
    return torch.randint(0, 10, sizes, generator=rng)


def every(kind: torch.dtype) -> Draw:
    """All numbers of a type."""
    low, high = torch.iinfo(kind).min, torch.iinfo(kind).max
    return lambda rng, *sizes: torch.randint(low, high + 1, sizes, generator=rng).to(kind)


def distinct(rng: torch.Generator, *sizes: int) -> Tensor:
    count = torch.Size(sizes).numel()
    return (torch.randperm(255, generator=rng)[:count] - 127).reshape(sizes) / 64


def reals(rng: torch.Generator, *sizes: int) -> Tensor:
    """Whole steps of an int8 tensor, with both ends of the range: quantization changes nothing."""
    values = torch.randint(-127, 128, sizes, generator=rng)
    values.view(-1)[:2] = torch.tensor([-127, 127])
    return values / 64


def whole(rng: torch.Generator, *sizes: int) -> Tensor:
    return torch.randint(-4, 10, sizes, generator=rng).float()


def collapsed(self: Any, x: Tensor) -> Tensor:
    """Greedy decoding of a CTC network: a class that is not the one before, and not the blank."""
    best = x.argmax(-1)
    before = torch.cat([torch.zeros_like(best[:, :1]), best[:, :-1]], 1)
    return where((best != before) & (best != 0), best, -1)


def written(self: Any, x: Tensor) -> Tensor:
    y = x.argmax(1).clone()
    y[:, 0] = 0
    return y


TABLE = torch.tensor([True, False, True, True, False, False, True, True, False])
i8, i16, u8, i32 = (every(kind) for kind in (torch.int8, torch.int16, torch.uint8, torch.int32))
COUNTS: dict[str, tuple[Model, tuple[tuple[Draw, tuple[int, ...]], ...]]] = {
    "counts": (lambda self, m: (m.sum(1) == 3, m.sum(1) > 5, m.sum(), m.sum(1)), ((truth, (6, 10)),)),
    "lengths": (lambda self, m: torch.arange(10) >= m.sum(1, keepdim=True), ((truth, (6, 10)),)),
    "counts of comparisons": (
        lambda self, x, y: ((x > y).sum(1), torch.count_nonzero(x > 0, 1), (x > 0).sum(1) > (x < 0).sum(1)),
        ((reals, (4, 9)), (reals, (4, 9))),
    ),
    "counts as float": (
        lambda self, m: (m.sum(1).float() == 3, m.float().sum(1) == 3, m.float().mean(1) >= 0.5),
        ((truth, (6, 10)),),
    ),
    "means of integers": (
        lambda self, m, i: (
            m.float().mean(1) > i.float().mean(1) / 4,
            m.float().mean(1) == m[:, :5].float().mean(1),
            F.avg_pool2d(m.float()[None, None], 3, 2, 1) >= 1 / 3,
            F.avg_pool2d(m.float()[None, None], 5) == 0.48,
            F.adaptive_avg_pool1d(m.float(), 7) >= 0.5,
            F.adaptive_avg_pool1d(m.float(), 3).mean(1) >= 0.5,
            F.avg_pool1d(i.float(), 2) <= i[:, :2].float(),
            i / 3 > i.roll(1, 1) / 2,
        ),
        ((truth, (6, 10)), (ids, (6, 4))),
    ),
    "functions of an integer": (
        lambda self, i: (i.float() / 10 >= 0.5, (i / 4).floor() >= 2, i >= 2.5, i == 2.5, where(i / 10 < 0.7, i, 0)),
        ((ids, (6, 5)),),
    ),
    "running sums": (lambda self, m, i: (m.cumsum(1), i.cumsum(0)), ((truth, (6, 5)), (ids, (6, 5)))),
    "reductions": (
        lambda self, i: (i.sum((0, 2)), i.amax(1), i.max(), i.amin((0, 2)), i.max(1)[0]),
        ((ids, (6, 5, 4)),),
    ),
    "clamped truth": (
        lambda self, x: (
            (x > 0).long().clamp(min=2),
            where(x > 0.5, (x > 0).long().clamp(min=2), 0),
            (x > 0).long().clamp(min=2).sum(1),
        ),
        ((reals, (4, 9)),),
    ),
    "int8": (lambda self, a, b: (a + b, a * b, -a, a.abs()), ((i8, (4, 9)), (i8, (4, 9)))),
    "uint8": (lambda self, a, b: (a + b, a - b, a * 3, a // -3, a > -7), ((u8, (4, 9)), (u8, (4, 9)))),
    "int16": (
        lambda self, a, b: (a + b, a * b, (a * 3).int(), a + b > 0, where(a > b, a + b, b)),
        ((i16, (4, 9)), (i16, (4, 9))),
    ),
    "int32": (lambda self, a, b: (a + b, a * b, a - b, a // 7), ((i32, (4, 9)), (i32, (4, 9)))),
    "narrowed": (lambda self, a: (a.to(torch.int8), a.to(torch.uint8), a.short()), ((i32, (4, 9)),)),
    "written": (written, ((distinct, (3, 9, 8)),)),
    "collapsed": (collapsed, ((distinct, (1, 6, 9)),)),
    "tables": (
        lambda self, x: (
            TABLE.index_select(0, x.argmax(1)),
            torch.arange(9)[x.argmax(1)] * 7000,
            (torch.arange(18).reshape(9, 2) * 1000)[x.argmax(1) - 9],
        ),
        ((distinct, (5, 9)),),
    ),
    "gathered ids": (
        lambda self, x, i: (i.gather(1, x.topk(3)[1]), i.index_select(1, x[0].argsort()), i[0][x[1].topk(2)[1]]),
        ((distinct, (5, 9)), (ids, (5, 9))),
    ),
    "taken ids": (
        lambda self, x, i: (
            torch.take_along_dim(i, x.argsort(1), 1),
            torch.take_along_dim(i, x[:1].topk(3)[1], -1),
            torch.take_along_dim(i[0], x[1:2].argmax(1)),
            torch.take(i, x.argmax(1) + 9),
        ),
        ((distinct, (5, 9)), (ids, (5, 9))),
    ),
    "moved": (
        lambda self, i: (i.flip(1), i.roll(2, 1), i.repeat(1, 2), i.T, i[:, ::2], torch.stack([i, i + 1], 1)),
        ((ids, (4, 9)),),
    ),
    "moved further": (
        lambda self, i: (
            i.unfold(1, 3, 2),
            i.repeat_interleave(2, 1),
            torch.nn.functional.pad(i, (1, 2), value=-1),
            i.tril(),
        ),
        ((ids, (4, 4)),),
    ),
    "divided": (
        lambda self, i: (torch.div(i - 10, 3, rounding_mode="trunc"), (i - 10).fmod(3), (i - 10).sign(), i**2),
        ((ids, (4, 9)),),
    ),
    "divided towards zero": (
        lambda self, i, d: (
            *(torch.div(i - 10, by, rounding_mode="trunc") for by in (-3, d + 1, d - 10, 2 * d - 19)),
            *(torch.fmod(i - 10, by) for by in (-3, d + 1, 2 * d - 19)),
            torch.div(77, 2 * d - 19, rounding_mode="trunc"),
            TABLE[torch.div(i.clamp(0, 9) - 10, 30, rounding_mode="trunc") + 3],
            (i - 10).to(torch.int8).fmod(200),
        ),
        ((ids, (4, 9)), (few, (4, 9))),
    ),
    "best quotients": (
        lambda self, i, d: (
            (i / (d + 1)).amax(1) >= 3,
            (i / d).amax((0, 1), keepdim=True) > 7,
            (i / (d + 1)).min(1)[0] < 0.25,
            (i / (d + 1)).max() <= 9.5,
            (i / (d + 1)).expand(10, 4, 7).reshape(4, 70).max(1)[0] < 4.5,  # too long to be sorted
            (i.float() / (d + 1)).argmax(1, keepdim=True),
            (i / (d + 1)).min(0)[1],
            (i / (d + 1)).sort(stable=True, dim=1)[1],
        ),
        ((ids, (4, 7)), (few, (4, 7))),
    ),
    "orders with ties": (
        lambda self, i: (
            *(one[1] for one in (i.sort(1), i.sort(1, descending=True), i.topk(5, 1), i.topk(4, 0, largest=False))),
            i.argsort(1),
            i.argsort(1, descending=True).argsort(1),
        ),
        ((few, (4, 40)),),
    ),
    "sums of halves": (
        lambda self, i, d: (
            i.float() / 2 + d * 0.25 - 1.5 > 3,
            (i * 0.5 - d) == 1.5,
            1.25 - i * 0.75 < d - 4,
            i / 2 + 3e38 < math.inf,
        ),
        ((ids, (4, 9)), (few, (4, 9))),
    ),
    "among computed integers": (
        lambda self, i, d: (
            torch.isin(i, d),
            torch.isin(i, d[0], invert=True),
            torch.searchsorted(i.sort(1)[0], d),
            torch.searchsorted(i[0].sort()[0], d, right=True),
        ),
        ((ids, (4, 9)), (few, (4, 9))),
    ),
    "integers in float": (lambda self, x: (x == 3, x >= 4, x != -2, (x * 2 + 1) == 7), ((whole, (4, 30)),)),
    "constant masks": (lambda self, i: where(TABLE, i, 3), ((ids, (4, 9)),)),
    "bytes that choose": (lambda self, a, i: where(a > 100, i, 0), ((u8, (4, 9)), (ids, (4, 9)))),
}


def graph_of(model: torch.nn.Module, batches: Sequence[tuple[Tensor, ...]]) -> LoweredGraph:
    quantized = quantize(capture(model.eval(), batches[0]), batches[0], list(batches), EVERY_VALUE)
    program = quantized.program()
    CortexMPassManager(program, target_config=from_target_string("cortex-m4")).transform()
    return lowered_graph(program)


def drawn(name: str, count: int) -> tuple[Function, list[tuple[Tensor, ...]]]:
    function, draws = COUNTS[name]
    rng = torch.Generator().manual_seed(4)
    return Function(function), [tuple(draw(rng, *sizes) for draw, sizes in draws) for _ in range(count)]


@pytest.mark.parametrize("name", COUNTS)
def test_integers_are_those_of_the_model_on_fresh_data(name: str) -> None:
    model, batches = drawn(name, 12)
    graph = graph_of(model, batches[:3])
    for batch in batches:
        with RightKernels():  # where torch leaves the order of equal numbers open
            given = tensors(model(*batch))
        for found, wanted in zip(reference_outputs(graph, batch), given, strict=True):
            assert not wanted.is_floating_point()
            assert torch.equal(found.to(torch.int64), wanted.to(torch.int64))


@pytest.mark.cases(1)
@pytest.mark.parametrize("target", ["host", pytest.param("cortex-m0plus", marks=pytest.mark.qemu),
                                    pytest.param("cortex-m4", marks=pytest.mark.qemu),
                                    pytest.param("cortex-m55", marks=pytest.mark.qemu)])  # fmt: skip
@pytest.mark.host
def test_counts_and_narrow_types_in_c(target: str, tmp_path: Path) -> None:
    """Reductions, wrapping, picked words: the same bits."""

    def network(self: Any, m: Tensor, a: Tensor, i: Tensor, x: Tensor) -> Any:
        counts = m.sum(1)
        return counts, counts.cumsum(0) > 4, i.amax(1), i.amin(0), a * 3 + a, i.gather(1, x.topk(3)[1]), m.cumsum(1)

    rng = torch.Generator().manual_seed(4)
    sizes = (4, 9)
    batches = [tuple(draw(rng, *sizes) for draw in (truth, i16, ids, distinct)) for _ in range(3)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few samples
        compiled = prepare(Function(network), batches[0], batches, name="net", options=EVERY_VALUE).compile(
            "cortex-m4" if target == "host" else target
        )
    samples = [[value.numpy() for value in batch] for batch in batches]
    on = "host" if target == "host" else None
    checked = compiled.save(tmp_path / "net").run(samples, on, check_stores=on is None)
    assert checked.bit_exact
    for batch, values in zip(batches, checked.values, strict=True):
        for found, wanted in zip(values, network(None, *batch), strict=True):
            assert torch.equal(torch.tensor(found).to(torch.int64), wanted.to(torch.int64))


# ---- real numbers beside integers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [
        lambda self, x, y: x[0][y.topk(3)[1]],
        lambda self, x, y: x.index_select(1, y.argsort()),
        lambda self, x, y: x[:, y.argmax(0, keepdim=True) - 9],
        lambda self, x, y: where(TABLE, x, 0.0),
        lambda self, x, y: where(~TABLE, 1.5, x),
        lambda self, x, y: where(TABLE[None].expand(4, 9), x, torch.zeros(4, 9)),
        lambda self, x, y: where(TABLE, x, -x),
        lambda self, x, y: x * ((x > 0).sum(1, keepdim=True) / 9),
    ],
)
def test_real_numbers_at_computed_positions_and_behind_constant_masks(function: Model) -> None:
    rng = torch.Generator().manual_seed(4)
    batches = [(distinct(rng, 4, 9), distinct(rng, 9)) for _ in range(8)]
    model = Function(function)
    graph = graph_of(model, batches)
    for batch in batches:
        assert float((reference_outputs(graph, batch)[0] - model(*batch)).abs().max()) < 0.05


def test_a_sort_that_leaves_ties_open_is_compiled() -> None:
    """torch may give equal numbers in any order then: the first comes first."""
    model, x = Function(lambda self, x: x.argsort(1)), torch.tensor([[1.0, 0.0] * 20])
    (found,) = reference_outputs(graph_of(model, [(x,)]), (x,))
    assert found.tolist() == [[*range(1, 40, 2), *range(0, 40, 2)]]


# ---- domains ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda self, i, m, b: m.sum(1), Interval(0, 9)),
        (lambda self, i, m, b: m.long() * 3 - 1, Interval(-1, 2)),
        (lambda self, i, m, b: b.long() + 1, Interval(1, 256)),
        (lambda self, i, m, b: i % 7, Interval(0, 6)),
        (lambda self, i, m, b: i.clamp(2, 5), Interval(2, 5)),
        (lambda self, i, m, b: i + 1, None),
        (lambda self, i, m, b: torch.cat([b.int(), m.int() - 4], 1), Interval(-4, 255)),
    ],
)
def test_intervals_are_proved(function: Model, wanted: Interval | None) -> None:
    inputs = (torch.ones(4, 9, dtype=torch.int64), torch.ones(4, 9) > 0, torch.ones(4, 9, dtype=torch.uint8))
    module = capture(Function(function), inputs).module
    (node,) = output_node(module.graph).all_input_nodes
    assert domain_of(node).kind is DomainKind.INTEGER
    assert domain_of(node).interval == wanted
    canonicalize(module, inputs)


def test_integers_that_can_leave_32_bits_are_refused_with_their_interval() -> None:
    message = rejected(Function(lambda self, a: a.long() * 100_000_000), torch.zeros(2, 3, dtype=torch.uint8))
    assert "aten.mul" in message
    assert "can give integers from 0 to 25500000000, expected integers of 32 bits" in message
    assert "test_domains.py:" in message


@pytest.mark.filterwarnings("ignore::cortado.base.errors.CortadoWarning")
def test_truth_values_that_disagree_are_a_finding() -> None:
    """Numbers that lie closer together than a step of int8 are one code."""
    model = Function(lambda self, x: (x > 0.501, x.sum(1)))
    batches = [(torch.tensor([[0.5, 0.502, 100.0, -100.0]]),)] * 3
    compiled = prepare(model, batches[0], batches, name="net").compile("cortex-m4")
    (finding,) = [one for one in compiled.report.warnings if one.kind is FindingKind.LOW_AGREEMENT]
    assert finding.found == 0.5
    assert "output 0" in finding.text
    with pytest.raises(CortadoError, match=r"in 50\.0% of its false values \(false 6 times in float"):
        prepare(model, batches[0], batches, name="net").compile("cortex-m4", options=_strict())


def _strict() -> Any:
    from cortado.options import Options

    return Options(strict=True)
