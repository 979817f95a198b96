"""Cortado as a backend of ExecuTorch, used as every other is:

    from cortado.executorch import CortadoPartitioner, CortexMQuantizer

    prepared = prepare_pt2e(torch.export.export(model, example).module(), CortexMQuantizer())
    ...
    exported = torch.export.export(convert_pt2e(prepared), example)
    edge = to_edge_transform_and_lower(exported, partitioner=[CortadoPartitioner("cortex-m55")])

What Cortado computes becomes calls of its delegate, float at their borders and int8 inside; what it does not stays
outside, for other partitioners or the runtime's own kernels, and `CortadoPartitioner.outside` says why.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import getitem
from typing import Any

import torch
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch.exir.backend.utils import tag_constant_data, tag_mutated_buffer
from executorch.exir.dialects.edge._ops import EdgeOpOverload
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Graph, GraphModule, Node
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from cortado.api import prepare
from cortado.base.errors import CortadoError, NotInteger
from cortado.base.target import Core, from_target_string
from cortado.emit.image.writer import check_one_core, emit_image
from cortado.frontend.quantize.quantizer import CortexMQuantizer
from cortado.ir.facts import DEBUG_HANDLE, DELEGATED, VALUE
from cortado.ir.graph import module_path
from cortado.ir.op import registry
from cortado.options import Artifacts, Border, Options
from cortado.plan.limits import check_limits
from cortado.plan.lowered import lowered_graph
from cortado.plan.planned import Planned
from cortado.plan.pricing import lowered
from cortado.plan.program import Program
from cortado.plan.pushed import Feeding, program_of
from cortado.plan.schedule import schedule

HOST = "host"
"""The kernels of this machine: for a file that runs here."""
_PLANNED_FOR = "cortex-m55"  # what a file for this machine is lowered for
_TARGET = "target"
_CONSTANTS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
_OPTIONS = Options(artifacts=Artifacts.C, io=Border.FLOAT)


def _aten(node: Node) -> Any:
    """The operator of a call as aten has it; edge operators hold theirs."""
    return node.target._op if isinstance(node.target, EdgeOpOverload) else node.target


def _known(operator: Any) -> bool:
    """Whether an operator of Cortado's, or one of its rewrites, takes calls of it; or it only names or moves values."""
    found = registry()
    space = getattr(operator, "namespace", "")
    return (
        operator in found.patterns or operator in found.rewrites or space in ("quantized_decomposed", "dim_order_ops")
    )


class _Supported(OperatorSupportBase):
    """Calls that an operator of Cortado's may take, but for those that are known to be refused."""

    def __init__(self, outside: dict[str, str]) -> None:
        self.outside = outside

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: Node) -> bool:
        if node.op != "call_function" or node.name in self.outside:
            return False
        if _known(_aten(node)) or node.target is getitem:
            return True
        self.outside[node.name] = f"no operator of Cortado's computes {_aten(node)}"
        return False


class CortadoPartitioner(Partitioner):
    """Takes what Cortado computes on a core. `target`: a core, or HOST for this machine."""

    def __init__(self, target: str) -> None:
        super().__init__()
        if target != HOST:
            check_one_core(from_target_string(target), image=True)
        self.target = target
        self.outside: dict[str, str] = {}
        """After partitioning: the nodes that stay outside, each with the reason."""
        self._values: dict[str, torch.Tensor] = {}  # of constants: ExecuTorch asks for partitions of fake tensors

    def ops_to_not_decompose(
        self, program: ExportedProgram
    ) -> tuple[list[torch._ops.OpOverload], Callable[[Node], bool] | None]:
        """What is refused may be decomposed: the runtime's kernels, or other partitioners, know what it consists of."""
        called = dict.fromkeys(node.target for node in program.graph.nodes if node.op == "call_function")
        kept = [one for one in called if isinstance(one, torch._ops.OpOverload) and one.namespace == "aten"]

        self._values |= {**program.constants, **program.state_dict}

        @cache
        def refused() -> dict[str, str]:
            return _Trial(program, self.target, self._values).partitions()[1]

        def is_taken(node: Node) -> bool:
            return node.name not in self.outside and _known(_aten(node)) and node.name not in refused()

        return [one for one in kept if _known(one)], is_taken

    def partition(self, program: ExportedProgram) -> PartitionResult:
        found, self.outside = _Trial(program, self.target, self._values).partitions()
        specs = {}
        for number, part in enumerate(found):
            tag = f"cortado_{number}"
            for node in part:
                DELEGATED.note(node, tag)
            specs[tag] = DelegationSpec(CortadoBackend.__name__, [CompileSpec(_TARGET, self.target.encode())])
        tag_constant_data(program)
        tag_mutated_buffer(program)
        return PartitionResult(tagged_exported_program=program, partition_tags=specs)


# ---- what is refused ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Trial:
    """Which parts of a program compile is found out by lowering them."""

    program: ExportedProgram
    target: str
    values: Mapping[str, torch.Tensor]

    def partitions(self) -> tuple[list[list[Node]], dict[str, str]]:
        """The parts that compile, and why the other calls don't."""
        outside: dict[str, str] = {}
        tried: dict[tuple[str, ...], str | None] = {}
        while True:
            supported = _Supported(outside)
            finder = CapabilityBasedPartitioner(self.program.graph_module, supported, allows_single_node_partition=True)
            parts = [list(part.nodes) for part in finder.propose_partitions()]
            known = len(outside)
            for part in parts:
                key = tuple(sorted(node.name for node in part))
                if key not in tried:
                    tried[key] = self._refusal(part)
                    outside |= {} if tried[key] is None else self._refused(part, str(tried[key]))
            if len(outside) == known:
                return parts, outside

    def _refused(self, part: Sequence[Node], reason: str) -> dict[str, str]:
        """The calls of a part that are refused by themselves; all, where it is only together that they are."""
        found: dict[str, str] = {}
        for calls in _between_borders(part):
            why = self._refusal(_with_borders(calls, part))
            found |= {} if why is None else {node.name: why for node in calls}
        return found or {node.name: reason for node in part}

    def _refusal(self, part: Sequence[Node]) -> str | None:
        """Why these calls don't compile; None if they do."""
        try:
            _program_of(*self._module(part), self.target)
        except NotInteger as error:
            return "; ".join(error.reasons)
        except CortadoError as error:
            return str(error)
        return None

    def _module(self, part: Sequence[Node]) -> tuple[GraphModule, tuple[torch.Tensor, ...]]:
        """Some calls as a module of their own, in aten's operators: constants are its own, all else that they read are
        its inputs."""
        chosen = set(part)
        calls = [node for node in self.program.graph.nodes if node in chosen]
        read = dict.fromkeys(one for node in calls for one in node.all_input_nodes if one not in chosen)
        root, graph = torch.nn.Module(), Graph()
        constants = {node: self._constant(node) for node in read}
        made = {node: graph.placeholder(node.name) for node in read if constants[node] is None}
        for node, data in constants.items():
            if data is not None:
                root.register_buffer(node.name, data)
                made[node] = graph.get_attr(node.name)
        for node in calls:
            made[node] = graph.node_copy(node, made.__getitem__)
            _spell(made[node])
        graph.output(tuple(made[node] for node in calls if any(user not in chosen for user in node.users)))
        values = [VALUE.must(node) for node in read if constants[node] is None]
        return GraphModule(root, graph), tuple(torch.zeros(value.shape, dtype=value.dtype) for value in values)

    def _constant(self, node: Node) -> torch.Tensor | None:
        """The values of a constant; where nobody has told them, ones."""
        for spec in self.program.graph_signature.input_specs:
            if spec.arg.name == node.name and spec.kind in _CONSTANTS and spec.target is not None:
                value = VALUE.must(node)
                known = self.values.get(spec.target)
                return torch.ones(value.shape, dtype=value.dtype) if known is None else known.detach()
        return None


def _is_border(node: Node) -> bool:
    """Whether a call quantizes or dequantizes."""
    return getattr(_aten(node), "namespace", "") == "quantized_decomposed"


def _between_borders(part: Sequence[Node]) -> list[list[Node]]:
    """The calls of a part, those together between which nothing is quantized: a layer and its relu."""
    groups: dict[Node, list[Node]] = {}
    for node in part:
        if not _is_border(node):
            near = [groups[one] for one in (*node.all_input_nodes, *node.users) if one in groups]
            together = [node, *dict.fromkeys(one for group in near for one in group)]
            groups |= dict.fromkeys(together, together)
    return list({id(group): group for group in groups.values()}.values())


def _with_borders(calls: Sequence[Node], part: Sequence[Node]) -> list[Node]:
    """Calls with what quantizes their operands and their results."""
    reads = [one for node in calls for one in node.all_input_nodes if _is_border(one)]
    gives = [one for node in calls for one in node.users if _is_border(one)]
    reads += [one for node in reads for one in node.all_input_nodes if _is_border(one)]
    gives += [one for node in gives for one in node.users if _is_border(one)]
    wanted = {*calls, *reads, *gives}
    return [node for node in part if node in wanted]


class CortadoBackend(BackendDetails):
    """A partition as an image: what the delegate of that name runs (kernels/executorch/delegate.cpp). For ExecuTorch's
    Inspector its steps, from 1, are mapped to the calls of the module they come from."""

    @staticmethod
    def preprocess(program: ExportedProgram, specs: list[CompileSpec]) -> PreprocessResult:
        target = next(spec.value.decode() for spec in specs if spec.key == _TARGET)
        handles: dict[str, set[int]] = {}
        for node in program.graph.nodes:
            known = DEBUG_HANDLE.of(node)
            if node.op == "call_function" and known is not None:
                handles.setdefault(module_path(node) or "", set()).add(known)
        planned = planned_of(program, target)
        steps = {number: _handles(handles, step.module) for number, step in enumerate(planned.program.steps, start=1)}
        return PreprocessResult(processed_bytes=emit_image(planned).data, debug_handle_map=steps)


def _handles(handles: Mapping[str, set[int]], module: str) -> tuple[int, ...]:
    """Of the calls that a step may stand for: those of its module, or all where it has none."""
    return tuple(sorted(handles.get(module) or set().union(*handles.values())))


def planned_of(program: ExportedProgram, target: str) -> Planned:
    """A partition of an edge program, compiled."""
    inputs = [
        VALUE.must(node)
        for node in program.graph.nodes
        if node.op == "placeholder" and node.name in program.graph_signature.user_inputs
    ]
    example = tuple(torch.zeros(value.shape, dtype=value.dtype) for value in inputs)
    return schedule(_program_of(_in_aten(program), example, target))


def _program_of(model: torch.nn.Module | ExportedProgram, example: Sequence[torch.Tensor], target: str) -> Program:
    """A quantized model as kernels of the target, which tables can hold."""
    config = from_target_string(_PLANNED_FOR if target == HOST else target)
    cores = (Core.PORTABLE,) if target == HOST else config.cores
    graph = lowered_graph(lowered(prepare(model, example, name="partition").quantized, config, _OPTIONS))
    program = program_of("partition", graph, config, Border.FLOAT, Feeding(), cores=cores)
    check_limits(program, {})
    return program


def _in_aten(program: ExportedProgram) -> ExportedProgram:
    """The same program in aten's operators."""
    for node in program.graph.nodes:
        if node.op == "call_function":
            _spell(node)
    program.graph_module.recompile()
    return ExportedProgram(
        root=program.graph_module,
        graph=program.graph,
        graph_signature=program.graph_signature,
        state_dict=program.state_dict,
        range_constraints=program.range_constraints,
        module_call_graph=program.module_call_graph,
        constants=program.constants,
    )


def _spell(node: Node) -> None:
    """A call of an edge operator as that of aten's; copies that name an order of dimensions are copies."""
    aten, name = torch.ops.aten, str(_aten(node))
    if name == "dim_order_ops._clone_dim_order.default":
        node.target, node.kwargs = aten.clone.default, {}
    elif name == "dim_order_ops._to_dim_order_copy.default":
        kept = {key: value for key, value in node.kwargs.items() if key == "dtype"}
        node.target, node.kwargs = aten._to_copy.default, kept
    else:
        node.target = _aten(node)


__all__ = ["HOST", "CortadoBackend", "CortadoPartitioner", "CortexMQuantizer"]
