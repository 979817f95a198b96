"""Passes over a graph, from export to lowered: what a pass is, the levels of a graph, and how a pass is run.

The graph is verified before and after each pass by the rules of its levels, and can be written as text after it.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from cortado.base.errors import CortadoError
from cortado.base.numerics import ChannelQParams, QParams
from cortado.ir.facts import QPARAMS, VALUE
from cortado.ir.graph import describe, output_node, sync_outputs

PassSubject = ExportedProgram | GraphModule
"""A quantized or lowered graph with its signature and constants, or a float graph, whose GraphModule has its own
constants."""


class Level(IntEnum):
    """Levels of a graph, in the order in which it reaches them."""

    FLOAT_RAW = 0  # aten as torch.export gives it: blocks in graphs of their own, writes into shared memory
    FLOAT_PLAIN = 1  # one graph; what reads memory that was written reads the written value
    FLOAT_CANONICAL = 2  # one spelling of each thing, all out of place; conversions stand where domains meet
    QUANTIZED = 3  # aten with q/dq or qparams in meta
    LOWERED = 4  # calls of operators, views and constants only


@dataclass(frozen=True)
class GraphRule:
    """An invariant of the graphs of some levels, and a function that finds the nodes that break it."""

    levels: tuple[Level, ...]
    statement: str
    broken_by: Callable[[Any], Iterator[str]]


class GraphPass(ABC):
    """One rewrite of the graph; the class docstring is its contract."""

    name: ClassVar[str]
    level_before: ClassVar[Level]
    level_after: ClassVar[Level]
    rules: ClassVar[Sequence[GraphRule]]  # of the levels

    @classmethod
    def applies(cls, context: Any) -> bool:
        """Whether the pass is needed in this context; if not, it is skipped."""
        return True

    @abstractmethod
    def run(self, module: GraphModule) -> bool:
        """Rewrites the graph in place; True if anything changed."""


def module_of(program: PassSubject) -> GraphModule:
    return program.graph_module if isinstance(program, ExportedProgram) else program


def calls_of(program: PassSubject) -> Iterator[Node]:
    return (node for node in module_of(program).graph.nodes if node.op == "call_function")


def verify(program: PassSubject, rules: Sequence[GraphRule], level: Level, where: str) -> None:
    """Raises on the first broken rule, which is a bug in a pass rather than a mistake of the user."""
    for rule in rules:
        if level in rule.levels:
            for culprit in rule.broken_by(program):
                raise CortadoError(f"{where}: broken rule at level {level.name}: {rule.statement}: {culprit}")


def run_pass(
    program: PassSubject, one: GraphPass, number: int, intermediates: Path | None, verified: Level | None = None
) -> Level:
    """Runs a pass, verifies the program before and after it, and writes the graph to NUMBER-NAME.txt. Returns the level
    whose rules hold then; `verified` is what this returned for the pass before, if nothing has changed since."""
    if verified is not one.level_before:
        verify(program, one.rules, one.level_before, f"before {one.name}")
    module = module_of(program)
    if one.run(module):
        if isinstance(program, ExportedProgram):
            sync_outputs(program)
        module.graph.lint()
        module.recompile()
    verify(program, one.rules, one.level_after, f"after {one.name}")
    if intermediates is not None:
        intermediates.mkdir(parents=True, exist_ok=True)
        text = f"# after {one.name}: {inspect.getdoc(type(one))}\n{print_graph(program)}"
        (intermediates / f"{number:02d}-{one.name}.txt").write_text(text)
    return one.level_after


def print_graph(program: PassSubject) -> str:
    """Prints the graph as text: a line for each node with its shape, dtype and quantization."""
    lines = []
    for node in module_of(program).graph.nodes:
        value, qparams = VALUE.of(node), QPARAMS.of(node)
        kind = ""
        if isinstance(value, torch.Tensor):
            kind = f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
        quant = ""
        if isinstance(qparams, QParams):
            quant = f" scale={qparams.scale:.9g} zp={qparams.zero_point}"
        elif isinstance(qparams, ChannelQParams):
            quant = f" scales={len(qparams.scales)} axis={qparams.axis}"
        arguments = ", ".join([*map(str, node.args), *(f"{k}={v}" for k, v in node.kwargs.items())])
        lines.append(f"{node.name}: {kind}{quant} = {node.op} {node.target}({arguments})")
    return "\n".join(lines) + "\n"


# ---- rules of every level --------------------------------------------------------------------------------------------


def _undefined(program: PassSubject) -> Iterator[str]:
    seen: set[Node] = set()
    for node in module_of(program).graph.nodes:
        if any(parent not in seen for parent in node.all_input_nodes):
            yield describe(node)
        seen.add(node)


def _no_output(program: PassSubject) -> Iterator[str]:
    if not output_node(module_of(program).graph).all_input_nodes:
        yield "the graph returns nothing"


COMMON = (
    GraphRule(tuple(Level), "every operand is defined before it is used", _undefined),
    GraphRule(tuple(Level), "the graph returns a tensor", _no_output),
)
