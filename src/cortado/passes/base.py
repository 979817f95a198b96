"""The base classes of all passes, their context, and the rules of graphs verified before and after every pass."""

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram
from torch.fx import Node

from cortado.base.target import CortexMTargetConfig
from cortado.ir.facts import VALUE, dtype, qparams
from cortado.ir.graph import constant_names, describe, part_index, taken_from
from cortado.ir.op import operator_of, result_elements
from cortado.ir.passes import COMMON, GraphPass, GraphRule, Level, calls_of
from cortado.ir.portable import stays_in_float
from cortado.options import InputLayout, LinearWeights


def _unsigned_placeholders(program: ExportedProgram) -> Iterator[str]:
    named = [spec.arg.name for spec in program.graph_signature.input_specs]
    found = [node.name for node in program.graph_module.graph.nodes if node.op == "placeholder"]
    if named != found:
        yield f"signature {named[:4]}..., graph {found[:4]}..."


def _missing_data(program: ExportedProgram) -> Iterator[str]:
    for name, target in constant_names(program).items():
        if target not in program.state_dict and target not in program.constants:
            yield name


def _integer_calls(program: ExportedProgram) -> Iterator[Node]:
    return (node for node in calls_of(program) if not stays_in_float(node) and taken_from(node) is None)


def _wrong_parts(program: ExportedProgram) -> Iterator[str]:
    for node in calls_of(program):
        source = taken_from(node)
        if source is not None and not stays_in_float(node):
            operator = operator_of(source.target)
            parts = len(operator.results) if operator is not None and operator.extra_results else 0
            if part_index(node) not in range(parts):
                yield describe(node)


def _read_whole(program: ExportedProgram) -> Iterator[str]:
    for node in calls_of(program):
        operator = operator_of(node.target)
        if operator is not None and operator.extra_results and any(taken_from(user) is not node for user in node.users):
            yield describe(node)


def _without_value(program: ExportedProgram) -> Iterator[str]:
    for node in _integer_calls(program):
        operator, value = operator_of(node.target), VALUE.of(node)
        several = operator is not None and bool(operator.extra_results)
        given = value if several and isinstance(value, tuple) else (value,)
        if not all(isinstance(one, FakeTensor) for one in given):
            yield describe(node)


def _unknown_calls(program: ExportedProgram) -> Iterator[str]:
    return (describe(node) for node in _integer_calls(program) if operator_of(node.target) is None)


def _positional(program: ExportedProgram) -> Iterator[str]:
    return (describe(node) for node in _integer_calls(program) if node.args)


def _wrong_arguments(program: ExportedProgram) -> Iterator[str]:
    for node in calls_of(program):
        operator = operator_of(node.target)
        if operator is not None and isinstance(node.target, OpOverload):
            expected = {one.name for one in node.target._schema.arguments} - set(operator.scratch)
            if set(node.kwargs) != expected:
                yield f"{describe(node)}: found {sorted(node.kwargs)}, expected {sorted(expected)}"


def _wrong_dtype(program: ExportedProgram) -> Iterator[str]:
    for node in calls_of(program):
        operator, value = operator_of(node.target), VALUE.of(node)
        if operator is None or value is None:
            continue
        found = [one.dtype for one in (value if isinstance(value, tuple) else (value,))]
        expected = [element.torch_dtype for element in result_elements(operator, node.kwargs)]
        if found != expected:
            yield f"{describe(node)}: {_listed(found)}, expected {_listed(expected)}"


def _listed(dtypes: Sequence[torch.dtype]) -> str:
    return ", ".join(map(str, dtypes))


def _other_codes(program: ExportedProgram) -> Iterator[str]:
    for node in _integer_calls(program):
        known = qparams(node)
        if known is not None and known.element.torch_dtype != dtype(node):
            yield f"{describe(node)}: {dtype(node)}, with the scale of {known.element.name} codes"


EVERY = (Level.QUANTIZED, Level.LOWERED)
LOWERED = (Level.LOWERED,)

RULES = (
    *COMMON,
    GraphRule(EVERY, "the signature names the placeholders in their order", _unsigned_placeholders),
    GraphRule(EVERY, "every constant has data", _missing_data),
    GraphRule(LOWERED, "every call has a value of known shape", _without_value),
    GraphRule(LOWERED, "every call is an operator of the registry, or was left in float", _unknown_calls),
    GraphRule(LOWERED, "a call that takes one of several results takes one that exists", _wrong_parts),
    GraphRule(LOWERED, "several results are read one by one", _read_whole),
    GraphRule(LOWERED, "arguments are passed by name", _positional),
    GraphRule(LOWERED, "every call has exactly the arguments of its schema", _wrong_arguments),
    GraphRule(LOWERED, "every call gives the dtype of its operator", _wrong_dtype),
    GraphRule(LOWERED, "codes have the element type that their scale is for", _other_codes),
)


@dataclass(frozen=True)
class PassContext:
    """The context of a pass apart from the graph: the program, the target, and the user's choices."""

    exported_program: ExportedProgram
    target_config: CortexMTargetConfig
    linear: LinearWeights = LinearWeights.PER_CHANNEL
    allow_float: bool = False
    input_layout: InputLayout = InputLayout.MODEL
    codes_in_floats: bool = False  # weights of float32 layers are int8
    stream: bool = False  # the C bundle is for an endless stream of rows


class CortexMPass(GraphPass):
    """One rewrite of a quantized or lowered graph."""

    rules = RULES

    @classmethod
    def made(cls, context: PassContext) -> Self:
        """Builds the instance that the manager runs.

        Passes that are written for ExecuTorch declare `exported_program` or `target_config` in their __init__.
        """
        given = {"exported_program": context.exported_program, "target_config": context.target_config}
        declared = inspect.signature(cls).parameters
        return cls(**{name: value for name, value in given.items() if name in declared})


class ContextPass(CortexMPass):
    """A pass constructed from its context, as all passes of the pipeline are."""

    def __init__(self, context: PassContext) -> None:
        self.context = context
        self.program = context.exported_program

    @classmethod
    def made(cls, context: PassContext) -> Self:
        return cls(context)


class LoweredPass(ContextPass):
    """A pass from one lowered graph to another."""

    level_before: ClassVar[Level] = Level.LOWERED
    level_after: ClassVar[Level] = Level.LOWERED
