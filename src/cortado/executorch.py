"""Cortado as a backend of ExecuTorch, used as every other is:

    from cortado.executorch import CortadoPartitioner, CortexMQuantizer

    prepared = prepare_pt2e(torch.export.export(model, example).module(), CortexMQuantizer())
    ...
    exported = torch.export.export(convert_pt2e(prepared), example)
    edge = to_edge_transform_and_lower(exported, partitioner=[CortadoPartitioner("cortex-m55")])

What Cortado computes becomes calls of its delegate, float at their borders and int8 inside; what it does not stays
outside, for other partitioners or the runtime's own kernels, and `CortadoPartitioner.outside` says why.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch.exir.backend.utils import tag_constant_data, tag_mutated_buffer
from executorch.exir.dialects.edge._ops import EdgeOpOverload
from torch.export import ExportedProgram
from torch.fx import Node
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from cortado.api import compile as compile_model
from cortado.base.target import Core, from_target_string
from cortado.emit.image.writer import ModelImage, check_one_core, emit_image
from cortado.frontend.quantizer import CortexMQuantizer
from cortado.ir.facts import DELEGATED, VALUE
from cortado.ir.op import registry
from cortado.options import Artifacts, Border, Options
from cortado.plan.pushed import Feeding, program_of
from cortado.plan.schedule import schedule

HOST = "host"
"""The kernels of this machine: for a file that runs here."""
_PLANNED_FOR = "cortex-m55"  # what a file for this machine is lowered for
_TARGET = "target"
_OPTIONS = Options(artifacts=Artifacts.C, io=Border.FLOAT, image=True)


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
    def __init__(self, outside: dict[str, str]) -> None:
        self.outside = outside

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: Node) -> bool:
        if node.op != "call_function":
            return False
        if _known(_aten(node)) or "getitem" in str(node.target):
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

    def ops_to_not_decompose(
        self, program: ExportedProgram
    ) -> tuple[list[torch._ops.OpOverload], Callable[[Node], bool] | None]:
        called = dict.fromkeys(node.target for node in program.graph.nodes if node.op == "call_function")
        kept = [one for one in called if isinstance(one, torch._ops.OpOverload) and one.namespace == "aten"]
        return [one for one in kept if _known(one)], lambda node: _known(_aten(node))

    def partition(self, program: ExportedProgram) -> PartitionResult:
        self.outside = {}
        supported = _Supported(self.outside)
        finder = CapabilityBasedPartitioner(program.graph_module, supported, allows_single_node_partition=True)
        specs = {}
        for part in finder.propose_partitions():
            tag = f"cortado_{part.id}"
            for node in part.nodes:
                DELEGATED.note(node, tag)
            specs[tag] = DelegationSpec(CortadoBackend.__name__, [CompileSpec(_TARGET, self.target.encode())])
        tag_constant_data(program)
        tag_mutated_buffer(program)
        return PartitionResult(tagged_exported_program=program, partition_tags=specs)


class CortadoBackend(BackendDetails):
    """A partition as an image: what the delegate of that name runs (kernels/executorch/delegate.cpp)."""

    @staticmethod
    def preprocess(program: ExportedProgram, specs: list[CompileSpec]) -> PreprocessResult:
        target = next(spec.value.decode() for spec in specs if spec.key == _TARGET)
        return PreprocessResult(processed_bytes=image_of(program, target).data)


def image_of(program: ExportedProgram, target: str) -> ModelImage:
    """A partition of an edge program, compiled."""
    inputs = [
        VALUE.must(node)
        for node in program.graph.nodes
        if node.op == "placeholder" and node.name in program.graph_signature.user_inputs
    ]
    example = tuple(torch.zeros(value.shape, dtype=value.dtype) for value in inputs)
    config = _PLANNED_FOR if target == HOST else target
    compiled = compile_model(_in_aten(program), example, config, name="partition", options=_OPTIONS)
    if target != HOST:
        assert compiled.image is not None
        return compiled.image
    assert compiled.graph is not None
    cores = (Core.PORTABLE,)
    return emit_image(
        schedule(program_of("partition", compiled.graph, compiled.target, Border.FLOAT, Feeding(), cores=cores))
    )


def _in_aten(program: ExportedProgram) -> ExportedProgram:
    """The same program in aten's operators."""
    for node in program.graph.nodes:
        if node.op == "call_function" and isinstance(node.target, EdgeOpOverload):
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
    """Copies that name an order of dimensions are copies."""
    aten, name = torch.ops.aten, str(_aten(node))
    if name == "dim_order_ops._clone_dim_order.default":
        node.target, node.kwargs = aten.clone.default, {}
    elif name == "dim_order_ops._to_dim_order_copy.default":
        kept = {key: value for key, value in node.kwargs.items() if key == "dtype"}
        node.target, node.kwargs = aten._to_copy.default, kept
    else:
        node.target = _aten(node)


__all__ = ["HOST", "CortadoBackend", "CortadoPartitioner", "CortexMQuantizer", "image_of"]
