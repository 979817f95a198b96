"""Rules of quantized and lowered graphs, verified before and after every pass."""

from collections.abc import Iterator, Sequence

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram
from torch.fx import Node

from cortado.ir.facts import VALUE, dtype, qparams
from cortado.ir.graph import constant_names, describe, part_index, taken_from
from cortado.ir.op import operator_of, result_elements
from cortado.ir.passes import COMMON, GraphRule, Level, calls_of
from cortado.ir.portable import stays_in_float


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
