"""Operator calls as whole programs: many independent calls in one graph, compiled and run together."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import zip_longest
from operator import getitem
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, GraphModule, Node

from cortado.base.element import element_of
from cortado.base.target import Core, CortexMTargetConfig
from cortado.emit.c.bundle import Bundle, emit_c
from cortado.ir.graph import lift, part_index
from cortado.ir.op import Call, Operator, registry, result_elements
from cortado.ir.schemas import overload
from cortado.memory import planner
from cortado.memory.problem import Effort, Plan, Problem, SearchEffort
from cortado.options import Border, Optimize
from cortado.plan import branches
from cortado.plan.lowered import LoweredGraph, lowered_graph
from cortado.plan.planned import Planned
from cortado.plan.program import Program, build_program
from cortado.plan.schedule import schedule
from cortado.plan.segments import Known
from cortado.run import runner
from cortado.run.bundle_info import IO, BundleInfo
from helpers.operator_cases import cases_of

Arguments = Mapping[str, Any]
Case = tuple[Operator, Arguments]


def lowered_program(cases: Sequence[Case]) -> tuple[torch.export.ExportedProgram, list[torch.Tensor]]:
    """A lowered program that makes every call once on its own inputs; and those inputs."""
    mode = FakeTensorMode()
    graph, root = Graph(), torch.nn.Module()
    inputs: list[torch.Tensor] = []
    arguments = [_placeholders(graph, mode, case, inputs) for case in cases]
    results = [
        _call(graph, root, mode, case, given, number)
        for number, (case, given) in enumerate(zip(cases, arguments, strict=True))
    ]
    graph.output(tuple(part for parts in results for part in parts))
    return lift(GraphModule(root, graph), inputs), inputs


def _is_activation(operator: Operator, name: str, value: Any) -> bool:
    tensors = value if isinstance(value, list | tuple) else [value]
    return name in operator.tensors and all(isinstance(item, torch.Tensor) for item in tensors)


def _placeholders(graph: Graph, mode: FakeTensorMode, case: Case, inputs: list[torch.Tensor]) -> dict[str, Any]:
    operator, arguments = case

    def holder(value: torch.Tensor) -> Node:
        node = graph.placeholder(f"x{len(inputs)}")
        node.meta["val"] = mode.from_tensor(value, static_shapes=True)
        inputs.append(value)
        return node

    given: dict[str, Any] = {}
    for name, value in arguments.items():
        if _is_activation(operator, name, value):
            given[name] = [holder(item) for item in value] if isinstance(value, list | tuple) else holder(value)
    return given


def _call(
    graph: Graph, root: torch.nn.Module, mode: FakeTensorMode, case: Case, given: dict[str, Any], number: int
) -> list[Node]:
    """Its results, of several those that this call is read of."""
    operator, arguments = case
    kwargs: dict[str, Any] = {}
    for name, value in arguments.items():
        if name in given:
            kwargs[name] = given[name]
        elif isinstance(value, torch.Tensor):
            root.register_buffer(f"c{number}_{name}", value)
            kwargs[name] = graph.get_attr(f"c{number}_{name}")
        else:
            kwargs[name] = value
    node = graph.call_function(overload(operator, arguments), (), kwargs)
    sizes, kinds = operator.sizes(shaped(operator, arguments)), result_elements(operator, arguments)
    with mode:
        made = tuple(torch.empty(size, dtype=kind.torch_dtype) for size, kind in zip(sizes, kinds, strict=True))
    node.meta["val"] = made if operator.extra_results else made[0]
    if not operator.extra_results:
        return [node]
    parts = [graph.call_function(getitem, (node, position)) for position in read_of(operator, number)]
    for part in parts:
        part.meta["val"] = made[part_index(part)]
    return parts


def read_of(operator: Operator, number: int) -> list[int]:
    """Which of an operator's results are read of a call: of one call after the other every choice."""
    count = len(operator.results)
    chosen = number % (2**count - 1) + 1
    return [position for position in range(count) if chosen >> position & 1]


def shapes_of(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [shapes_of(item) for item in value]
    return tuple(value.shape) if isinstance(value, torch.Tensor) else value


def shaped(operator: Operator, arguments: Arguments) -> Call:
    """A call that knows the shapes of its tensors only."""
    shapes = {name: shapes_of(value) for name, value in arguments.items()}
    return Call(operator, shapes, (), result_elements(operator, arguments)[0], {})


def references(cases: Sequence[Case]) -> list[torch.Tensor]:
    """What every call gives; of several results, the bytes of those that are read."""
    return [
        torch.from_numpy(_joined([results_of(operator, arguments)[i].numpy() for i in read_of(operator, number)]))
        for number, (operator, arguments) in enumerate(cases)
    ]


def results_of(operator: Operator, arguments: Arguments) -> tuple[torch.Tensor, ...]:
    made = operator.reference(**arguments)
    return made if operator.extra_results else (made,)


def call_of(operator: Operator, arguments: Arguments) -> Call:
    """A call of constants, whose tensors have the elements that they have in a graph; all of its results are read."""
    return _call_of(operator, arguments, results_of(operator, arguments))


def _call_of(operator: Operator, arguments: Arguments, results: Sequence[torch.Tensor]) -> Call:
    elements = {}
    for name, value in arguments.items():
        first = value[0] if isinstance(value, list | tuple) and value else value
        if name in operator.tensors and isinstance(first, torch.Tensor):
            elements[name] = element_of(first.dtype)
    sizes = tuple(results[0].shape)
    return Call(operator, arguments, sizes, result_elements(operator, arguments)[0], elements)


def _joined(results: Sequence[np.ndarray]) -> np.ndarray:
    joined = np.frombuffer(b"".join(result.tobytes() for result in results), dtype=np.uint8)
    return results[0] if len(results) == 1 else joined.copy()


@contextmanager
def quick_plans() -> Iterator[None]:
    """Plans that are right and take more memory than they need to: for tests that are not about memory."""
    with patch.object(Known, "plan", lambda known, problem, effort=Effort.QUICK: planner.plan(problem, effort=effort)):
        yield


@contextmanager
def _one_after_the_other() -> Iterator[None]:
    """Calls that have nothing to do with one another: any order is as good, and of all buffers, which are inputs and
    outputs of the program, none can share its bytes."""

    def orders(program: Program) -> branches.CandidateOrders:
        return branches.CandidateOrders((program,), SearchEffort(0, 0, False))

    with (
        patch.object(branches, "orders", orders),
        patch.object(Known, "plan", lambda known, problem, effort=Effort.QUICK: _behind_each_other(problem)),
    ):
        yield


def _behind_each_other(problem: Problem) -> Plan:
    """As what persists lies: nothing shares, and nothing is searched."""
    return planner.plan(Problem(tuple(replace(one, persists=True) for one in problem.buffers)))


@dataclass(frozen=True)
class Bundled:
    """Calls as one program: its files, what they are fed and what they give."""

    files: dict[str, str]
    info: BundleInfo
    inputs: list[np.ndarray]
    counts: list[int]  # of results that are read, by call
    bundle: Bundle

    def run(self, on: str, folder: Path, flags: Sequence[str] = ()) -> list[np.ndarray]:
        runner.write_files(folder, self.files)
        found = iter(runner.run_bundle(folder, self.info, [self.inputs], on, flags=flags).samples[0])
        return [_joined([next(found) for _ in range(count)]) for count in self.counts]


@dataclass(frozen=True, eq=False)
class Together:
    """Calls in one graph, to be built for any target."""

    cases: Sequence[Case]

    @cached_property
    def lowered(self) -> tuple[LoweredGraph, list[torch.Tensor]]:
        """And the inputs."""
        program, inputs = lowered_program(self.cases)
        return lowered_graph(program), inputs


def bundled(together: Together, target: CortexMTargetConfig, cores: tuple[Core, ...] | None = None) -> Bundled:
    graph, inputs = together.lowered
    with _one_after_the_other():
        whole = build_program("cases", graph, target, Border.FLOAT, cores)
        planned: Planned = schedule(whole, Optimize.TIME)  # no call reads another's rows
    tensors = planned.program
    info = BundleInfo(
        "cases",
        target,
        tuple(IO(t.name, t.shape, t.dtype) for t in tensors.inputs),
        tuple(IO(t.name, t.shape, t.dtype) for t in tensors.outputs),
    )
    counts = [len(read_of(operator, number)) for number, (operator, _) in enumerate(together.cases)]
    bundle = emit_c(planned)
    return Bundled(dict(bundle.files), info, [value.numpy() for value in inputs], counts, bundle)


def run_cases(
    cases: Sequence[Case], target: CortexMTargetConfig, on: str, folder: Path, flags: Sequence[str] = ()
) -> list[np.ndarray]:
    """Every call's output, computed by the C bundle on this machine or on a board."""
    return bundled(Together(cases), target, (Core.PORTABLE,) if on == runner.HOST else None).run(on, folder, flags)


BATCHES, BATCH, TELLING = 3, 28, 6  # of samples; and how many are at least taken of them all


def drawn(operator: Operator, count: int) -> list[dict[str, Any]]:
    """So many of an operator's samples as they come, always the same, none of them of hypothesis's simplest; and a few
    of all (`_telling`)."""
    found = [one for batch in _batches(operator.name)[:0:-1] for one in batch]
    assert count <= len(found)
    return [*found[:count], *_telling(operator.name)]


@cache
def _telling(name: str) -> list[dict[str, Any]]:
    """Of each kind in turn and one at least: those whose results differ most from place to place, where a small fault
    shows."""
    operator, kinds = registry().operators[name], dict[object, list[dict[str, Any]]]()
    found = [(one, results_of(operator, one)) for batch in _batches(name) for one in batch]
    for one, results in sorted(found, key=lambda pair: _distinct(pair[1]), reverse=True):
        kinds.setdefault(_kind(operator, one, results), []).append(one)
    telling = [one for turn in zip_longest(*kinds.values()) for one in turn if one is not None]
    return telling[: max(TELLING, len(kinds))]


@cache
def _batches(name: str) -> list[list[dict[str, Any]]]:
    operator = registry().operators[name]
    found: list[list[dict[str, Any]]] = []

    @settings(max_examples=BATCHES)
    @given(batch=st.lists(cases_of(operator), min_size=BATCH, max_size=BATCH))
    def take(batch: list[dict[str, Any]]) -> None:
        found.append(batch)

    take()
    return found


def _distinct(results: Sequence[torch.Tensor]) -> int:
    """How many values the first one has."""
    return len(results[0].unique())


def _kind(operator: Operator, arguments: dict[str, Any], results: Sequence[torch.Tensor]) -> tuple[object, ...]:
    """The kernels that a call runs on, core by core."""
    assert operator.kernel is not None
    call = _call_of(operator, arguments, results)
    kernels = [operator.kernel(call, core) for core in Core]
    return tuple((kernel.call.function, kernel.sources) for kernel in kernels)
