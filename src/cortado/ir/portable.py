"""Calls that stay in float: their form in ExecuTorch's portable kernels, if there is one, and their reference."""

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
from cortado.ir.graph import bind, module_path, source_line
from cortado.ir.matching import patterns_of
from cortado.ir.patched import operators_found_once
from cortado.ir.schemas import NAMESPACE as OWN_NAMESPACE
from cortado.ir.schemas import in_aten

Tensor = torch.Tensor

GETITEM = "getitem"
NAMESPACE = "aten"


@dataclass(frozen=True)
class FloatCall:
    """A call of aten that stays in float: the reason, and the edge program that represents it in a .pte.

    The program's inputs are the tensors among the call's arguments, in their order.
    """

    reason: str
    edge: ExportedProgram = field(repr=False)
    kernels: tuple[str, ...]

    @property
    def reads(self) -> tuple[bool, ...]:
        """Whether the result depends on each of the program's inputs."""
        return tuple(bool(node.users) for node in self.edge.graph.nodes if node.op == "placeholder")


FLOAT: FactKey[FloatCall] = FactKey("cortado_float")  # of a node of the lowered graph that stays in float


def arguments_of(node: Node) -> dict[str, Any]:
    """Returns the arguments that a call was given, by name; a getitem has `source` and `index`."""
    if node.target is operator.getitem:
        names = ["source", "index"]
    else:
        assert isinstance(node.target, OpOverload)
        names = [argument.name for argument in node.target._schema.arguments]
    return {**dict(zip(names, node.args, strict=False)), **node.kwargs}


def operands(arguments: Mapping[str, Any]) -> list[Node]:
    """Returns the tensors among named arguments, lists flattened; one that occurs twice is listed twice."""
    return [leaf for leaf in pytree.tree_leaves(dict(arguments)) if isinstance(leaf, Node)]


def is_function(target: Any) -> bool:
    """Whether a call of the float graph can be expressed in aten: an aten call, or one of Cortado's composed of
    them."""
    return isinstance(target, OpOverload) and (target.namespace == NAMESPACE or in_aten(target) is not None)


def float_call(target: Any, arguments: Mapping[str, Any], reason: str) -> FloatCall | Reject:
    """Builds the float call of a target, or returns why ExecuTorch can't compute it."""
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
    """Returns a function that computes a call in operators that ExecuTorch may know, arguments by name."""
    written = [pattern.in_float for pattern in patterns_of(target) if pattern.in_float is not None]
    return next(iter(written), in_aten(target) or target)


class _Single(torch.nn.Module):
    """A module that makes one call."""

    def __init__(self, target: OpOverload, arguments: Mapping[str, Any]) -> None:
        super().__init__()
        self.written, self.arguments = written(target), dict(arguments)

    def forward(self, *tensors: Tensor) -> Any:
        given = iter(tensors)
        return self.written(**pytree.tree_map_only(Node, lambda node: next(given), self.arguments))


def _edge_program(target: OpOverload, arguments: Mapping[str, Any]) -> ExportedProgram:
    """Exports one call by itself, through ExecuTorch's own conversion to the edge dialect."""
    from executorch.exir import EdgeCompileConfig, to_edge

    values = [VALUE.must(node) for node in operands(arguments)]
    tensors = tuple(torch.zeros(tuple(int(size) for size in value.shape), dtype=value.dtype) for value in values)
    with warnings.catch_warnings(), operators_found_once():
        warnings.simplefilter("ignore")  # torch warns about its own internals
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
    """Replaces constants of one number by a kernel that fills them. ExecuTorch makes a constant tensor, or a call
    without a kernel, of a number that is combined with a tensor; without them the call's tensors are the program's only
    inputs."""
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
    """Replaces a node by a call that fills a tensor with a number."""
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
    """Yields the kernel calls of an edge program."""
    return (n for n in edge.graph.nodes if n.op == "call_function" and n.target is not operator.getitem)


def _out_variant(node: Node) -> str:
    """Returns the name under which the runtime looks up the kernel of an edge operator."""
    target: Any = node.target
    try:
        return str(target.to_out_variant().name())
    except RuntimeError:  # there is none
        return str(target._op.name())


@cache
def kernels() -> frozenset[str]:
    """Returns the operators of ExecuTorch's portable library, as listed by the installed package."""
    spec = find_spec("executorch")
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    for folder in folders:
        path = Path(folder) / "kernels" / "portable" / "functions.yaml"
        if path.is_file():
            found = re.findall(r"^- (?:op|func): ([\w:.]+)", path.read_text(), re.MULTILINE)
            return frozenset(name if "::" in name else f"{NAMESPACE}::{name}" for name in found)
    raise CortadoError("ExecuTorch's list of portable kernels is missing; install it: pip install executorch==1.5.1")


def stays_in_float(node: Node) -> bool:
    """Whether a node is a float call of the lowered graph, or takes one of the results of such a call."""
    source = node.args[0] if node.target is operator.getitem else None
    return FLOAT.known(node) or (isinstance(source, Node) and FLOAT.known(source))


# ---- the report ------------------------------------------------------------------------------------------------


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
    """Lists the calls of a lowered program that stayed in float."""
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
    """Returns the name of a float call in a lowered graph, such as `aten::cumsum.default`; no operator of ours has such
    a name."""
    if node.target is operator.getitem:
        return GETITEM
    assert isinstance(node.target, OpOverload)
    return f"{node.target.namespace}::{node.target.__name__}"


def is_float_call(name: str) -> bool:
    return name == GETITEM or "." in name


def run_float(name: str, arguments: Mapping[str, Any]) -> Any:
    """Computes a float call with torch's own float32 kernels on this machine."""
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
    """Whether a target is safe to run: a function of tensors that changes none of them. The name can come from an
    untrusted file, so functions that read files are excluded."""
    given = [str(argument.type) for argument in target._schema.arguments]
    return any("Tensor" in kind for kind in given) and not target._schema.is_mutable
