"""A compiled part of an ExecuTorch program: its calls, inputs and outputs; and the backend for such parts.

The partitioner tries parts out and the backend compiles the ones chosen; both use this module, so whatever compiled in
a trial also compiles later.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import getitem
from typing import Any

import torch
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.dialects.edge._ops import EdgeOpOverload
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Graph, GraphModule, Node
from torch.utils import _pytree as pytree

from cortado.api import prepare
from cortado.base.element import INT32, Element
from cortado.base.errors import CortadoError, NotInteger
from cortado.base.target import Core, from_target_string
from cortado.emit.c.layers import check_limits
from cortado.emit.image.writer import emit_image
from cortado.emit.pte.delegate import delegate_blob, layer_names
from cortado.frontend.quantize.prequantized import FLOAT_INSTEAD
from cortado.ir.facts import DEBUG_HANDLE, VALUE
from cortado.ir.graph import is_symbolic, module_path, symbolic_sizes
from cortado.ops.meaning import CallKind, target_means
from cortado.options import Artifacts, Border, Options
from cortado.plan.lowered import lowered_graph
from cortado.plan.planned import Planned
from cortado.plan.pricing import lowered
from cortado.plan.program import CodedBorders, Program, Tensor, build_program
from cortado.plan.schedule import schedule

HOST = "host"
"""The kernels of this machine: for a file that runs here."""
_PLANNED_FOR = "cortex-m55"  # the core that a file for this machine is lowered for
_CONSTANTS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
_OPTIONS = Options(artifacts=Artifacts.C, io=Border.FLOAT)
_QUANTIZED = "quantized_decomposed"
_DEQUANTIZE = torch.ops.quantized_decomposed.dequantize_per_tensor.default
_QUANTIZE = torch.ops.quantized_decomposed.quantize_per_tensor.default
_WIDE = torch.int64

MOST_DIGITS = 9  # dimensions, each written as one digit

NOT_QUANTIZED = (
    "it is not quantized, expected quantize and dequantize calls around it; quantize it with prepare_pt2e first "
    "(CortexMQuantizer)"
)


def aten_of(node: Node) -> Any:
    """Returns the aten operator of a call; edge operators wrap theirs."""
    return node.target._op if isinstance(node.target, EdgeOpOverload) else node.target


def is_border(node: Node) -> bool:
    """Returns whether a call quantizes or dequantizes."""
    return getattr(aten_of(node), "namespace", "") == _QUANTIZED


def parameters_of(node: Node) -> list[Node]:
    """Returns the tensors with a call's scale and zero point; for a call that chooses these, its inputs."""
    target = aten_of(node)
    if "choose_qparams" in str(target):
        return node.all_input_nodes
    given = {**dict(zip((one.name for one in target._schema.arguments), node.args, strict=False)), **node.kwargs}
    return [value for name, value in given.items() if name != "input" and isinstance(value, Node)]


def constants_of(program: ExportedProgram) -> dict[Node, torch.Tensor]:
    """Returns the values of a program's constants. ExecuTorch partitions a copy with fake tensors, which know the real
    ones."""
    changed = set(program.graph_signature.buffers_to_mutate.values())
    holders = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    found = {}
    for spec in program.graph_signature.input_specs:
        if spec.kind in _CONSTANTS and spec.target is not None and spec.target not in changed:
            data = program.state_dict.get(spec.target, program.constants.get(spec.target))
            if isinstance(data, torch.Tensor):
                found[holders[spec.arg.name]] = _real(data).detach()
    return found


def _real(data: torch.Tensor) -> torch.Tensor:
    """Returns the tensor that a fake one was made from; ones if unknown."""
    mode = getattr(data, "fake_mode", None)
    if mode is None:
        return data
    known = mode.fake_tensor_converter.meta_converter
    for real, number in known.describer.lookup_tensor.items():
        if known.tensor_memo.get(number) is data:
            return real
    return torch.ones(data.shape, dtype=data.dtype)


@dataclass(frozen=True)
class Partition:
    """A subset of a graph's calls, in order. `inputs` and `outputs` are the nodes at its border, in the order of the
    delegate's arguments."""

    calls: tuple[Node, ...]
    constants: Mapping[Node, torch.Tensor]
    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]

    @staticmethod
    def of(nodes: Sequence[Node], program: ExportedProgram, constants: Mapping[Node, torch.Tensor]) -> "Partition":
        """Builds a part from some calls of a program."""
        chosen = set(nodes)
        calls = tuple(node for node in program.graph.nodes if node in chosen)
        read = dict.fromkeys(one for node in calls for one in node.all_input_nodes if one not in chosen)
        return Partition(
            calls=calls,
            constants={node: constants[node] for node in read if node in constants},
            inputs=tuple(node for node in read if node not in constants),
            outputs=tuple(node for node in calls if any(user not in chosen for user in node.users)),
        )

    @staticmethod
    def whole(program: ExportedProgram) -> "Partition":
        """Builds a part from a whole program, as ExecuTorch passes it to a backend."""
        constants = constants_of(program)
        returned = next(node for node in program.graph.nodes if node.op == "output").args[0]
        return Partition(
            calls=tuple(node for node in program.graph.nodes if node.op == "call_function"),
            constants=constants,
            inputs=tuple(node for node in program.graph.nodes if node.op == "placeholder" and node not in constants),
            outputs=tuple(returned),
        )

    def refusal(self, target: str) -> str | None:
        """Explains why the part does not compile, in terms of an ExecuTorch program; None if it does."""
        try:
            self.program(target)
        except NotInteger as error:
            return _for_quantizers("; ".join(error.reasons))
        except CortadoError as error:
            return _for_quantizers(str(error))
        except Exception as error:  # torch and its libraries can raise anything
            first = next(iter(str(error).strip().splitlines()), "")
            return f"Cortado can't compile it: {type(error).__name__}: {first}"
        return None

    def planned(self, target: str) -> Planned:
        return schedule(self.program(target))

    @property
    def orders(self) -> list[tuple[int, ...]]:
        """Returns the memory order of dimensions of each tensor at the border, as ExecuTorch reports it during
        partitioning. It may decide otherwise when it plans memory: then the delegate permutes what it gets."""
        found = [_Edge(node, self).order for node in (*self.inputs, *self.outputs)]
        return found if max(map(len, found), default=0) <= MOST_DIGITS else []

    def program(self, target: str) -> Program:
        """Returns the part as kernels for the target, within the limits of the tables."""
        self._check()
        ports, gives = [_Edge(node, self) for node in self.inputs], [_Edge(node, self) for node in self.outputs]
        module = _module(self, ports, gives)
        example = tuple(torch.zeros(port.shape, dtype=port.given) for port in ports)
        config = from_target_string(_PLANNED_FOR if target == HOST else target)
        cores = (Core.PORTABLE,) if target == HOST else config.cores
        graph = lowered_graph(lowered(prepare(module, example, name="partition").quantized, config, _OPTIONS))
        codes = CodedBorders(
            inputs=frozenset(i for i, port in enumerate(ports) if port.codes is not None),
            outputs=frozenset(i for i, port in enumerate(gives) if port.codes is not None),
        )
        program = build_program("partition", graph, config, Border.FLOAT, cores, codes=codes)
        check_limits(program, {})
        _check_ports(ports, program.inputs)
        _check_ports(gives, program.outputs)
        return program

    def _check(self) -> None:
        """Checks what can be decided without compiling."""
        if not any(is_border(node) for node in self.calls):
            raise CortadoError(NOT_QUANTIZED)
        for node in self.outputs:
            if any(user.target is getitem for user in node.users) or not isinstance(VALUE.of(node), torch.Tensor):
                raise CortadoError(f"one of the several results of {aten_of(node)} is used outside of the partition")


def dynamic_size(node: Node) -> str | None:
    """Returns the first size among a call's operands and results that is unknown at compile time."""
    for one in (node, *node.all_input_nodes):
        for value in pytree.tree_leaves(VALUE.of(one)):
            found = [value] if is_symbolic(value) else symbolic_sizes(value)
            if found:
                return str(found[0])
    return None


def _for_quantizers(text: str) -> str:
    """Removes advice from a reason that only applies to float models."""
    return text.replace(FLOAT_INSTEAD, "")


# ---- the backend -------------------------------------------------------------------------------------------------

TARGET = "target"  # a key of the compile specs: the core


class CortadoBackend(BackendDetails):
    """The backend that turns a partition into an image, which the delegate of that name runs
    (kernels/executorch/delegate.cpp). For ExecuTorch's Inspector, the names of its steps are mapped to the calls of the
    module they come from."""

    @staticmethod
    def preprocess(program: ExportedProgram, specs: list[CompileSpec]) -> PreprocessResult:
        target = next(spec.value.decode() for spec in specs if spec.key == TARGET)
        handles: dict[str, set[int]] = {}
        for node in program.graph.nodes:
            known = DEBUG_HANDLE.of(node)
            if node.op == "call_function" and known is not None:
                handles.setdefault(module_path(node) or "", set()).add(known)
        part = Partition.whole(program)
        planned = part.planned(target)
        named = zip(layer_names(planned.program), planned.program.steps, strict=True)
        return PreprocessResult(
            processed_bytes=delegate_blob(emit_image(planned), planned.program, part.orders),
            debug_handle_map={name: _handles(handles, step.module) for name, step in named},
        )


def _handles(handles: Mapping[str, set[int]], module: str) -> tuple[int, ...]:
    """Returns the handles of the calls that a step may represent: those of its module, or all if it has none."""
    return tuple(sorted(handles.get(module) or set().union(*handles.values())))


# ---- the border --------------------------------------------------------------------------------------------------


class _Edge:
    """A tensor at the border of a part: its memory order, and its representation in the compiled part."""

    def __init__(self, node: Node, part: Partition) -> None:
        value = VALUE.of(node)
        if not isinstance(value, torch.Tensor):
            raise CortadoError(
                f"{node.name} at its border is not a tensor, expected one; compute it inside of the model"
            )
        self.node, self.name, self.dtype = node, node.name, value.dtype
        self.order = tuple(value.dim_order()) if value.dim() else ()
        self.shape = tuple(int(value.shape[dim]) for dim in self.order)  # in memory order
        self.codes = _codes(node, part)
        self.given = torch.float32 if self.codes is not None else self.dtype

    @property
    def back(self) -> tuple[int, ...]:
        """The permutation from memory order to the order of dimensions."""
        return tuple(self.order.index(dim) for dim in range(len(self.order)))

    @property
    def moved(self) -> bool:
        return self.order != tuple(range(len(self.order)))


def _codes(node: Node, part: Partition) -> dict[str, Any] | None:
    """Returns the parameters of a tensor that is quantized on one side of the border and dequantized on the other."""
    if node in part.calls:
        return _parameters(node) if target_means(aten_of(node), CallKind.QUANTIZE) else None
    users = [user for user in node.users if user in part.calls]
    found = [_parameters(user) if target_means(aten_of(user), CallKind.DEQUANTIZE) else None for user in users]
    return found[0] if found and all(one == found[0] for one in found) else None


def _parameters(node: Node) -> dict[str, Any] | None:
    target = aten_of(node)
    names = [argument.name for argument in target._schema.arguments]
    given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    wanted = {name: given[name] for name in ("scale", "zero_point", "quant_min", "quant_max", "dtype")}
    return None if any(isinstance(value, Node) for value in wanted.values()) else wanted


def _check_ports(edges: Sequence[_Edge], found: Sequence[Tensor]) -> None:
    """Refuses a tensor that the delegate can't copy or convert to where the compiled part reads or writes it."""
    if len(edges) != len(found):
        raise CortadoError(f"it has {len(found)} tensors at its border when compiled, expected {len(edges)}")
    for edge, tensor in zip(edges, found, strict=True):
        plain = tensor.layout == tuple(range(len(tensor.layout)))
        if not plain or tuple(tensor.shape) != edge.shape or not _converts(edge.dtype, tensor.element):
            raise CortadoError(
                f"'{edge.name}' at its border is {_named(edge.dtype)} {list(edge.shape)} and {tensor.dtype} "
                f"{list(tensor.shape)} compiled, which the delegate can't convert"
            )


def _converts(dtype: torch.dtype, element: Element) -> bool:
    named = _named(dtype)
    return named == element.name or (dtype is _WIDE and not element.floating and element.bits <= INT32.bits)


def _named(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


# ---- as a module of its own --------------------------------------------------------------------------------------


def _module(part: Partition, inputs: Sequence[_Edge], outputs: Sequence[_Edge]) -> GraphModule:
    """Builds the part as a module of aten operators with its own constants.

    Tensors enter and leave in memory order; quantized ones as real numbers, with a quantize or dequantize that
    compilation removes.
    """
    root, graph = torch.nn.Module(), Graph()
    made = {edge.node: _entering(graph, edge) for edge in inputs}
    for node, data in part.constants.items():
        root.register_buffer(node.name, data)
        made[node] = graph.get_attr(node.name)
    for node in part.calls:
        made[node] = graph.node_copy(node, made.__getitem__)
        spell(made[node])
    graph.output(tuple(_leaving(graph, made[edge.node], edge) for edge in outputs))
    return GraphModule(root, graph)


def _entering(graph: Graph, edge: _Edge) -> Node:
    node = graph.placeholder(edge.name)
    if edge.moved:
        node = graph.call_function(torch.ops.aten.permute.default, (node, list(edge.back)))
    return node if edge.codes is None else graph.call_function(_QUANTIZE, (node,), edge.codes)


def _leaving(graph: Graph, node: Node, edge: _Edge) -> Node:
    if edge.codes is not None:
        node = graph.call_function(_DEQUANTIZE, (node,), edge.codes)
    if not edge.moved:
        return node
    moved = graph.call_function(torch.ops.aten.permute.default, (node, list(edge.order)))
    return graph.call_function(torch.ops.aten.clone.default, (moved,), {"memory_format": torch.contiguous_format})


def spell(node: Node) -> None:
    """Replaces an edge operator by aten's; copies that specify a dimension order become plain copies."""
    aten, name = torch.ops.aten, str(aten_of(node))
    if name == "dim_order_ops._clone_dim_order.default":
        node.target, node.kwargs = aten.clone.default, {}
    elif name == "dim_order_ops._to_dim_order_copy.default":
        kept = {key: value for key, value in node.kwargs.items() if key == "dtype"}
        node.target, node.kwargs = aten._to_copy.default, kept
    else:
        node.target = aten_of(node)
