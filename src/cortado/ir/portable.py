"""Calls that stay in float: what they become in ExecuTorch's portable kernels, if it has them, and their reference."""

import operator
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import Node
from torch.utils import _pytree as pytree

from cortado.base.errors import NO_FLOAT_KERNEL, CortadoError, Reject
from cortado.ir.facts import VALUE, FactKey
from cortado.ir.functions import NAMESPACE as OWN_NAMESPACE
from cortado.ir.functions import in_aten
from cortado.ir.graph import bind, module_path, source_line
from cortado.ir.matching import patterns_of
from cortado.ir.patched import operators_found_once

Tensor = torch.Tensor

GETITEM = "getitem"
NAMESPACE = "aten"


@dataclass(frozen=True)
class FloatCall:
    """A call of aten that stays in float: why, and the edge program that stands for it in a .pte.

    The program's inputs are the tensors among the call's arguments, in their order.
    """

    reason: str
    edge: ExportedProgram = field(repr=False)
    kernels: tuple[str, ...]

    @property
    def reads(self) -> tuple[bool, ...]:
        """Which of these tensors its result depends on."""
        return tuple(bool(node.users) for node in self.edge.graph.nodes if node.op == "placeholder")


FLOAT: FactKey[FloatCall] = FactKey("cortado_float")  # of a node of the lowered graph that stays in float


def arguments_of(node: Node) -> dict[str, Any]:
    """The arguments that a call was given, by name; a getitem takes `source` and `index`."""
    if node.target is operator.getitem:
        names = ["source", "index"]
    else:
        assert isinstance(node.target, OpOverload)
        names = [argument.name for argument in node.target._schema.arguments]
    return {**dict(zip(names, node.args, strict=False)), **node.kwargs}


def operands(arguments: Mapping[str, Any]) -> list[Node]:
    """The tensors among named arguments, lists taken apart; one that is there twice comes twice."""
    return [leaf for leaf in pytree.tree_leaves(dict(arguments)) if isinstance(leaf, Node)]


def is_function(target: Any) -> bool:
    """Whether a call of the float graph can be said in aten: one of its own, or one of Cortado's made of these."""
    return isinstance(target, OpOverload) and (target.namespace == NAMESPACE or in_aten(target) is not None)


def float_call(target: Any, arguments: Mapping[str, Any], reason: str) -> FloatCall | Reject:
    """A call in ExecuTorch's own words, or why there is none."""
    if not is_function(target):
        return Reject(f"{reason}, and {NO_FLOAT_KERNEL}")
    strange = [type(leaf).__name__ for leaf in pytree.tree_leaves(dict(arguments)) if not isinstance(leaf, _PLAIN)]
    if strange:
        return Reject(f"{reason}, and in float its argument of type {strange[0]} can't be kept")
    try:
        edge = _edge_program(target, arguments)
        used = tuple(dict.fromkeys(_out_variant(node) for node in calls(edge)))
    except Exception as error:  # export and the edge dialect raise whatever they meet
        return Reject(f"{reason}, and ExecuTorch can't take it in float either ({_first_line(error)})")
    missing = [name for name in used if name not in kernels()]
    if missing:
        return Reject(f"{reason}, and ExecuTorch has no portable kernel for {', '.join(missing)}")
    return FloatCall(reason, edge, used)


_PLAIN = (Node, int, float, bool, str, torch.dtype, type(None))


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def written(target: OpOverload) -> Callable[..., Any]:
    """A call in words that ExecuTorch may know, arguments by name."""
    written = [pattern.in_float for pattern in patterns_of(target) if pattern.in_float is not None]
    return next(iter(written), in_aten(target) or target)


class _Single(torch.nn.Module):
    """A module that is one call."""

    def __init__(self, target: OpOverload, arguments: Mapping[str, Any]) -> None:
        super().__init__()
        self.written, self.arguments = written(target), dict(arguments)

    def forward(self, *tensors: Tensor) -> Any:
        given = iter(tensors)
        return self.written(**pytree.tree_map_only(Node, lambda node: next(given), self.arguments))


def _edge_program(target: OpOverload, arguments: Mapping[str, Any]) -> ExportedProgram:
    """One call by itself, on ExecuTorch's own road to the edge dialect."""
    from executorch.exir import EdgeCompileConfig, to_edge

    values = [VALUE.must(node) for node in operands(arguments)]
    tensors = tuple(torch.zeros(tuple(int(size) for size in value.shape), dtype=value.dtype) for value in values)
    with warnings.catch_warnings(), operators_found_once():
        warnings.simplefilter("ignore")  # of torch to itself
        exported = torch.export.export(_Single(target, arguments), tensors, strict=False)
        edge = to_edge(exported, compile_config=EdgeCompileConfig(_check_ir_validity=False)).exported_program()
    assert isinstance(edge, ExportedProgram)
    _make_numbers(edge)
    specs = edge.graph_signature
    if any(spec.kind is not OutputKind.USER_OUTPUT for spec in specs.output_specs):
        raise CortadoError("it changes its arguments")
    if not all(_is_static(node) for node in edge.graph.nodes if node.op != "output"):
        raise CortadoError("the shape of its result depends on the data")
    return edge


def _make_numbers(edge: ExportedProgram) -> None:
    """ExecuTorch makes a constant tensor of a number that meets a tensor, or a call that has no kernel; here a kernel
    makes it, and the call's tensors are the program's only inputs."""
    placeholders = {node.name: node for node in edge.graph.nodes if node.op == "placeholder"}
    specs = edge.graph_signature.input_specs
    for spec in [spec for spec in specs if spec.kind is not InputKind.USER_INPUT]:
        data = edge.constants.get(str(spec.target), edge.state_dict.get(str(spec.target)))
        if not isinstance(data, Tensor) or data.numel() != 1:
            raise CortadoError("it needs constants of its own")
        _fill(placeholders[spec.arg.name], data.item())
        specs.remove(spec)
    for node in [node for node in edge.graph.nodes if node.target is torch.ops.aten.scalar_tensor.default]:
        _fill(node, bind(node)["s"])


def _fill(node: Node, number: float) -> None:
    """A tensor of one number as a kernel makes it."""
    from executorch.exir.dialects._ops import ops as exir_ops

    value = VALUE.must(node)
    first = next(other for other in node.graph.nodes if other.op != "placeholder")
    with node.graph.inserting_before(first):
        full = exir_ops.edge.aten.full.default
        new = node.graph.call_function(full, (list(value.shape), number), {"dtype": value.dtype})
    VALUE.take(new, node)
    node.replace_all_uses_with(new)
    node.graph.erase_node(node)


def _is_static(node: Node) -> bool:
    values = pytree.tree_leaves(VALUE.of(node))
    return all(isinstance(value, Tensor) and all(isinstance(n, int) for n in value.shape) for value in values)


def calls(edge: ExportedProgram) -> Iterator[Node]:
    """The kernels that an edge program calls."""
    return (n for n in edge.graph.nodes if n.op == "call_function" and n.target is not operator.getitem)


def _out_variant(node: Node) -> str:
    """The name under which the runtime looks for the kernel of an edge operator."""
    target: Any = node.target
    try:
        return str(target.to_out_variant().name())
    except RuntimeError:  # there is none
        return str(target._op.name())


@cache
def kernels() -> frozenset[str]:
    """The operators of ExecuTorch's portable library, as the installed package lists them."""
    spec = find_spec("executorch")
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    for folder in folders:
        path = Path(folder) / "kernels" / "portable" / "functions.yaml"
        if path.is_file():
            found = re.findall(r"^- (?:op|func): ([\w:.]+)", path.read_text(), re.MULTILINE)
            return frozenset(name if "::" in name else f"{NAMESPACE}::{name}" for name in found)
    raise CortadoError("ExecuTorch's list of portable kernels is missing; install it: pip install executorch==1.5.1")


def stays_in_float(node: Node) -> bool:
    """A float call of the lowered graph, or one of several results of such a call."""
    source = node.args[0] if node.target is operator.getitem else None
    return FLOAT.known(node) or (isinstance(source, Node) and FLOAT.known(source))


# ---- what is told of them --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FloatOperator:
    """One line of the report: a node that stays in float."""

    node: str
    operator: str
    module: str | None
    source: str | None
    reason: str
    kernels: tuple[str, ...]


def float_operators(program: ExportedProgram) -> list[FloatOperator]:
    """The calls of a lowered program that stayed in float."""
    return [
        FloatOperator(
            node=node.name,
            operator=str(node.target),
            module=module_path(node),
            source=source_line(node),
            reason=kept.reason,
            kernels=kept.kernels,
        )
        for node in program.graph_module.graph.nodes
        if (kept := FLOAT.of(node)) is not None
    ]


# ---- the reference ---------------------------------------------------------------------------------------------


def call_name(node: Node) -> str:
    """The name of a float call in a lowered graph: as `aten::cumsum.default`, which no operator of ours is called."""
    if node.target is operator.getitem:
        return GETITEM
    assert isinstance(node.target, OpOverload)
    return f"{node.target.namespace}::{node.target.__name__}"


def is_float_call(name: str) -> bool:
    return name == GETITEM or "." in name


def run_float(name: str, arguments: Mapping[str, Any]) -> Any:
    """The result of a float call by torch's own float32 kernels on this machine."""
    if name == GETITEM:
        return arguments["source"][arguments["index"]]
    found = re.fullmatch(rf"({NAMESPACE}|{OWN_NAMESPACE})::(\w+)\.(\w+)", name)
    packet = getattr(getattr(torch.ops, found.group(1)), found.group(2), None) if found is not None else None
    target = getattr(packet, found.group(3), None) if found is not None else None
    if not isinstance(target, OpOverload) or not _is_function_of_tensors(target):
        raise CortadoError(f"torch has no function {name} of tensors; compile the model again")
    with torch.no_grad():
        return (written(target) if target.namespace == OWN_NAMESPACE else target)(**arguments)


def _is_function_of_tensors(target: OpOverload) -> bool:
    """The name may come from anybody's file: nothing that reads files or changes its arguments."""
    given = [str(argument.type) for argument in target._schema.arguments]
    return any("Tensor" in kind for kind in given) and not target._schema.is_mutable
