"""Each pass of the float graph on its own: the graph before and after as golden files, both run; rules broken once."""

import inspect
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.fx import GraphModule

from cortado import api
from cortado.base.element import FLOAT32, USUAL, Element
from cortado.base.errors import CortadoError
from cortado.frontend.capture.export import capture
from cortado.frontend.rewrite import pipeline
from cortado.frontend.rewrite.domains import DOMAINS
from cortado.frontend.rewrite.pipeline import FLOAT_PIPELINE, FloatContext, FloatPass, run_float
from cortado.ir import passes
from cortado.ir.passes import Level, print_graph, run_pass
from cortado.passes import PIPELINE
from helpers.golden import Golden
from helpers.paths import GOLDEN
from helpers.single import tensors
from models.tiny import dyadic

FOLDER = GOLDEN / "float"
ROW = (1, 4)
Forward = Callable[..., Any]


class Function(nn.Module):
    """A function as a model, given its buffers."""

    def __init__(self, function: Forward, **buffers: Tensor) -> None:
        super().__init__()
        self.function = function
        for name, value in buffers.items():
            self.register_buffer(name, value.clone())

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(self, *inputs)


@dataclass(frozen=True)
class Case:
    """A model and the pass it is for; weights and inputs are exact in float32."""

    of: type[FloatPass]
    forward: Forward
    shapes: tuple[tuple[int, ...], ...]
    parts: dict[str, Tensor]
    element: Element = USUAL

    @property
    def path(self) -> Path:
        return FOLDER / f"{FLOAT_PIPELINE.index(self.of) + 1:02d}-{self.of.name}.txt"

    def context(self) -> FloatContext:
        inputs = tuple(dyadic(*shape, unit=2.0 ** -(3 + number)) for number, shape in enumerate(self.shapes))
        model = Function(self.forward, **self.parts).eval()
        if self.of is pipeline.InlineContexts:  # capture has inlined them where it looked for state
            return FloatContext(torch.export.export(model, inputs).module(), USUAL, inputs)
        captured = capture(model, inputs)
        given = (*inputs, *(one.initial for one in captured.state))
        return FloatContext(captured.module, self.element, given, state=tuple(captured.state), filters=True)


CASES: list[Case] = []


def case(
    of: type[FloatPass], *shapes: tuple[int, ...], element: Element = USUAL, **parts: Tensor
) -> Callable[[Forward], Forward]:
    def note(forward: Forward) -> Forward:
        CASES.append(Case(of, forward, shapes, parts, element))
        return forward

    return note


@case(pipeline.InlineContexts, ROW)
def a_block_without_gradients(m: Any, x: Tensor) -> Tensor:
    """What is computed under no_grad is part of the graph."""
    with torch.no_grad():
        doubled = x * 2
    return doubled + x


@case(pipeline.PlainWrites, ROW)
def a_slice_is_written(m: Any, x: Tensor) -> Tensor:
    """A view of what was written sees the new values, whoever took it first."""
    y = x.clone()
    last = y[:, 2:]
    y[:, 3] = x[:, 0]
    return last + x[:, :2]


@case(pipeline.ScalarDimensions, ROW)
def a_scalar_along_a_dimension(m: Any, x: Tensor) -> Tensor:
    """torch takes a tensor without dimensions for a row of one value."""
    return x.sum().softmax(0)


@case(pipeline.Simplify, ROW, hidden=torch.tensor([[True, False, False, True]]))
def copies_before_a_mask(m: Any, x: Tensor) -> Tensor:
    """A copy and a conversion to the type that is there hide no mask."""
    return x.clone().masked_fill((~m.hidden).contiguous(), -1e9).to(torch.float32).softmax(1)


@case(pipeline.WriteOutMasks, (1, 1, 3, 2), (1, 1, 3, 2))
def causal_attention(m: Any, x: Tensor, y: Tensor) -> Tensor:
    """Attention that looks back only: products, a choice and a softmax."""
    return nn.functional.scaled_dot_product_attention(x, y, y, is_causal=True)


@case(pipeline.Masks, ROW, hidden=torch.tensor([[True, False, False, True]]))
def a_number_for_infinity(m: Any, x: Tensor) -> Tensor:
    """The softmax leaves masked places out, and -1e9 is gone."""
    return (x + torch.where(m.hidden, 0.0, -1e9)).softmax(1)


@case(pipeline.Fold, ROW, c=torch.tensor([1.0, 2.0, 0.5, 4.0]))
def a_product_of_constants(m: Any, x: Tensor) -> Tensor:
    """What depends on no input is computed once."""
    return x + (m.c * 2).sqrt()


@case(pipeline.ComplexPairs, ROW, ROW, element=FLOAT32)
def a_product_of_complex_numbers(m: Any, x: Tensor, y: Tensor) -> Tensor:
    """Real and imaginary parts are tensors of their own."""
    return (torch.complex(x, y) * torch.complex(y, x)[:, :1]).imag


@case(pipeline.Signs, ROW)
def zero_crossings(m: Any, x: Tensor) -> Tensor:
    """The sign of a product of neighbours is that of both, told before anything is rounded."""
    return (x[:, 1:] * x[:, :3] < 0).float()


@case(pipeline.Decompose, ROW, ROW)
def a_call_that_no_operator_knows(m: Any, x: Tensor, y: Tensor) -> Tensor:
    """torch says what it is in smaller calls."""
    return torch.logaddexp(x, y)


@case(pipeline.ExactCompare, ROW)
def a_count_is_compared(m: Any, x: Tensor) -> Tensor:
    """A sum of truth values is an integer, whatever its type."""
    return ((x > 0).float().sum(1) >= 2).float()


@case(pipeline.Respell, ROW, ROW)
def other_spellings(m: Any, x: Tensor, y: Tensor) -> Tensor:
    """A difference with a factor, and a square, in the calls that operators take."""
    return torch.rsub(x, y, alpha=2) + torch.square(x)


@case(pipeline.Domains, ROW)
def a_count_as_a_factor(m: Any, x: Tensor) -> Tensor:
    """An integer is made real where a real operand is expected."""
    return x * (x > 0.25).sum(1, keepdim=True)


@case(pipeline.NeededState, ROW, calls=torch.zeros(1), last=torch.zeros(1, 4))
def a_counter_of_calls(m: Any, x: Tensor) -> Tensor:
    """A buffer that no output depends on is dropped; the other stays."""
    m.calls.add_(1)
    y = x - m.last
    m.last.copy_(x)
    return y


@case(pipeline.Filters, ROW, past=torch.zeros(1, 1))
def a_mean_that_forgets(m: Any, x: Tensor) -> Tensor:
    """A loop over samples is a recursive filter, and its buffer the filter's."""
    y, found = m.past, []
    for sample in range(4):
        y = 0.75 * y + 0.25 * x[:, sample : sample + 1]
        found.append(y)
    m.past.copy_(y)
    return torch.cat(found, 1)


def before(chosen: Case) -> FloatContext:
    """The graph in front of a pass."""
    context = chosen.context()
    for number, one in enumerate(FLOAT_PIPELINE[: FLOAT_PIPELINE.index(chosen.of)], start=1):
        if one.applies(context):
            run_pass(context.module, one(context), number, None)
    return context


def values(context: FloatContext, count: int) -> Sequence[Tensor]:
    """The outputs of a graph, without what becomes of its state."""
    context.module.recompile()
    with torch.no_grad():
        return tensors(context.module(*(context.inputs or ())[: len(placeholders(context.module))]))[:count]


def placeholders(module: GraphModule) -> list[str]:
    return [node.name for node in module.graph.nodes if node.op == "placeholder"]


@pytest.mark.parametrize("chosen", CASES, ids=lambda chosen: chosen.of.name)
def test_a_float_pass_on_its_own(chosen: Case, golden: Golden) -> None:
    """The same values before and after, and the graphs that are on file."""
    context = before(chosen)
    assert chosen.of.applies(context)
    first, wanted = print_graph(context.module), values(context, 1)
    run_pass(context.module, chosen.of(context), 1, None)
    second = print_graph(context.module)
    assert first != second
    about = inspect.cleandoc(chosen.forward.__doc__ or "")
    golden(chosen.path, f"{chosen.of.name}: {about}\n\n# before\n{first}\n# after\n{second}")
    if chosen.of not in (pipeline.NeededState, pipeline.Filters):  # which take inputs away
        torch.testing.assert_close(values(context, 1), wanted)


def test_every_float_pass_has_a_case_and_every_file_a_pass() -> None:
    assert [chosen.of for chosen in CASES] == list(FLOAT_PIPELINE)
    assert sorted(FOLDER.iterdir()) == sorted(chosen.path for chosen in CASES)


def test_levels_meet_from_export_to_lowered() -> None:
    passes = (*FLOAT_PIPELINE, *PIPELINE)
    assert all(cls.name and inspect.getdoc(cls) != inspect.getdoc(cls.__base__) for cls in passes)
    assert len({cls.name for cls in passes}) == len(passes)
    assert passes[0].level_before is Level.FLOAT_RAW
    assert passes[-1].level_after is Level.LOWERED
    for one, following in itertools.pairwise(FLOAT_PIPELINE):
        assert one.level_after is following.level_before, following
    assert FLOAT_PIPELINE[-1].level_after < PIPELINE[0].level_before


# ---- rules ---------------------------------------------------------------------------------------------------------


def write_in_place(module: GraphModule) -> None:
    node = next(node for node in module.graph.nodes if node.target is torch.ops.aten.add.Tensor)
    node.target = torch.ops.aten.add_.Tensor


def forget_a_value(module: GraphModule) -> None:
    del next(node for node in module.graph.nodes if node.op == "call_function").meta["val"]


def return_nothing(module: GraphModule) -> None:
    next(node for node in module.graph.nodes if node.op == "output").args = ((),)


def read_too_early(module: GraphModule) -> None:
    first, second = [node for node in module.graph.nodes if node.op == "call_function"][:2]
    second.append(first)


RULES = [
    (write_in_place, "no call writes in place that could return a new tensor"),
    (forget_a_value, "every call has a value of known shape"),
    (return_nothing, "the graph returns a tensor"),
    (read_too_early, "every operand is defined before it is used"),
]


class Changing(FloatPass):
    """A pass that makes a mistake."""

    name = "changing"
    level_before = level_after = Level.FLOAT_CANONICAL
    change: Callable[[GraphModule], None]

    def run(self, module: GraphModule) -> bool:
        type(self).change(module)
        return False


@pytest.mark.parametrize(("change", "rule"), RULES, ids=[change.__name__ for change, _ in RULES])
def test_a_broken_float_pass_is_caught(
    change: Callable[[GraphModule], None], rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Changing, "change", staticmethod(change), raising=False)
    context = CASES[0].context()
    run_float(context)
    with pytest.raises(CortadoError, match=f"after changing: broken rule at level FLOAT_CANONICAL: {rule}"):
        run_pass(context.module, Changing(context), 1, None)


def test_a_block_that_is_left_is_caught() -> None:
    context = CASES[0].context()
    with pytest.raises(CortadoError, match=r"before scalar-dimensions: .*FLOAT_PLAIN: no call contains a graph"):
        run_pass(context.module, pipeline.ScalarDimensions(context), 1, None)


def test_a_rewrite_that_leaves_no_fact_true_is_caught() -> None:
    """Integers from 3 to 6 are inferred, then they are from 21 to 51."""
    module = capture(
        Function(lambda self, x: (x.clamp(2, 5) + 1).float()), (torch.ones(1, 4, dtype=torch.int64),)
    ).module
    context = FloatContext(module, USUAL)
    DOMAINS.infer(module.graph)

    def widen(module: GraphModule) -> None:
        clamp = next(node for node in module.graph.nodes if node.target is torch.ops.aten.clamp.default)
        clamp.args = (clamp.args[0], 20, 50)

    class Widening(Changing):
        level_before = level_after = Level.FLOAT_PLAIN
        change = staticmethod(widen)

    with pytest.raises(CortadoError, match=r"FLOAT_PLAIN: no domain contradicts those of the call's operands: .*clamp"):
        run_pass(module, Widening(context), 1, None)


def test_what_one_pass_leaves_is_verified_once_and_written_as_code_when_it_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    context, verified, verify = CASES[0].context(), list[str](), passes.verify

    def noted(program: Any, rules: Any, level: Level, where: str) -> None:
        verified.append(where)
        verify(program, rules, level, where)

    monkeypatch.setattr(passes, "verify", noted)
    run_float(context)
    first, *others = verified
    assert first == f"before {FLOAT_PIPELINE[0].name}"
    assert len(others) == len(set(others)) > 5
    assert all(where.startswith("after ") for where in others)
    assert "_code" not in vars(context.module)
    assert "def forward" in context.module.code


# ---- intermediates -------------------------------------------------------------------------------------------------


def test_the_float_graph_after_each_pass_is_among_the_intermediates(tmp_path: Path) -> None:
    """Of passes that apply; each file begins with what the pass promises."""
    inputs = (dyadic(1, 4, unit=2.0**-4),)
    api.prepare(Function(a_count_is_compared).eval(), inputs, [inputs], intermediates=tmp_path)
    left_out: set[type[FloatPass]] = {pipeline.Simplify, pipeline.WriteOutMasks, pipeline.Masks, pipeline.ComplexPairs}
    passes = dict(_numbered(left_out))
    assert sorted(path.name for path in (tmp_path / "float").iterdir()) == list(passes)
    for name, cls in passes.items():
        text = (tmp_path / "float" / name).read_text()
        assert text.startswith(f"# after {cls.name}: {inspect.getdoc(cls)}\n")


def _numbered(left_out: set[type[FloatPass]]) -> Iterator[tuple[str, type[FloatPass]]]:
    for number, cls in enumerate(FLOAT_PIPELINE, start=1):
        if cls not in left_out:
            yield f"{number:02d}-{cls.name}.txt", cls
