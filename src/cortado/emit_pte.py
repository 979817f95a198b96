"""The lowered graph as an ExecuTorch program: edge operators, scratch of its final size, planned, serialized.

The ExportedProgram is built directly in the edge dialect, with ExecuTorch's verifier on. Scratch buffers become
`memory.alloc` nodes here, after the last retracing, with the size CMSIS-NN asks for on the target's instruction set.
"""

import json
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature
from torch.fx import Node

from cortado.graph import fake_mode_of, output_node
from cortado.lowered import call_of
from cortado.memory import Buffer, Problem, plan, validate
from cortado.op import Operator, operator_of, overload
from cortado.passes.lower import shaped_call
from cortado.target import CortexMTargetConfig

METADATA_METHOD = "cortado"


@dataclass(frozen=True)
class Pte:
    """A serialized ExecuTorch program and what is known of it."""

    data: bytes
    arena_bytes: int
    scratch_bytes: int
    portable_operators: tuple[str, ...]
    metadata: dict[str, Any]


def scratch_sizes(node: Node, program: ExportedProgram, target: CortexMTargetConfig) -> tuple[int, ...]:
    """Bytes for each scratch argument: the maximum over the instruction sets the target stands for."""
    call = call_of(node, program)
    sizes = [call.operator.pte_scratch(call, backend) for backend in target.backends]
    return tuple(max(column) for column in zip(*sizes, strict=True))


def emit_pte(program: ExportedProgram, target: CortexMTargetConfig, metadata: dict[str, Any]) -> Pte:
    """Serializes a lowered program. `metadata` is stored in the file as one JSON string."""
    from executorch.exir import EdgeCompileConfig, EdgeProgramManager, ExecutorchBackendConfig
    from executorch.exir.passes import MemoryPlanningPass

    edge, scratch = to_edge(program, target)
    text = json.dumps(metadata, sort_keys=True)
    manager = EdgeProgramManager(
        {"forward": edge},
        constant_methods={METADATA_METHOD: text},
        compile_config=EdgeCompileConfig(_check_ir_validity=True),
    )
    executorch = manager.to_executorch(
        ExecutorchBackendConfig(
            memory_planning_pass=MemoryPlanningPass(memory_planning_algo=plan_specs),
            extract_delegate_segments=False,
        )
    )
    plan = executorch.executorch_program.execution_plan[0]
    operators = {f"{op.name}.{op.overload}" if op.overload else op.name for op in plan.operators}
    portable = tuple(sorted(name for name in operators if not name.startswith("cortex_m::")))
    return Pte(
        data=bytes(executorch.buffer),
        arena_bytes=sum(plan.non_const_buffer_sizes),
        scratch_bytes=scratch,
        portable_operators=portable,
        metadata=metadata,
    )


# ---- edge dialect --------------------------------------------------------------------------------------------


def to_edge(program: ExportedProgram, target: CortexMTargetConfig) -> tuple[ExportedProgram, int]:
    """A copy of the lowered program in the edge dialect, scratch allocations included; and the bytes of scratch."""
    builder = _EdgeBuilder(program, target)
    for node in program.graph_module.graph.nodes:
        builder.copy(node)
    return _edge_program(program, builder.module), builder.scratch_bytes


class _EdgeBuilder:
    """Copies a lowered graph node by node into edge operators."""

    def __init__(self, program: ExportedProgram, target: CortexMTargetConfig) -> None:
        from executorch.exir.dialects._ops import ops as exir_ops

        self.edge = exir_ops.edge
        self.program, self.target = program, target
        self.mode = fake_mode_of(program.graph_module.graph)
        self.module = torch.fx.GraphModule(torch.nn.Module(), torch.fx.Graph())
        self.new: dict[Node, Node] = {}
        self.scratch_bytes = 0

    def copy(self, node: Node) -> None:
        operator = operator_of(node.target) if node.op == "call_function" else None
        if operator is None:
            self.new[node] = self.module.graph.node_copy(node, lambda n: self.new[n])
            return
        kwargs = {name: torch.fx.node.map_arg(value, lambda n: self.new[n]) for name, value in node.kwargs.items()}
        if operator.pte is not None:
            self.new[node] = operator.pte(kwargs, partial(self._add_part, node))
            return
        if operator.scratch_names:
            sizes = scratch_sizes(node, self.program, self.target)
            kwargs |= {name: self._alloc(size) for name, size in zip(operator.scratch_names, sizes, strict=True)}
            self.scratch_bytes += sum(sizes)
        self.new[node] = self._call(operator, kwargs, node.meta)

    def _add_part(self, like: Node, operator: Operator, **arguments: Any) -> Node:
        """One call of those that stand for a call of the lowered graph."""
        assert self.mode is not None
        call = shaped_call(operator, arguments)
        with self.mode:
            value = torch.empty(operator.shape(call), dtype=like.meta["val"].dtype)
        return self._call(operator, arguments, {**like.meta, "val": value})

    def _call(self, operator: Operator, kwargs: dict[str, Any], meta: dict[str, Any]) -> Node:
        overload(operator)  # registers it: an operator that only the .pte holds was in no graph so far
        packet = getattr(getattr(self.edge, operator.namespace), operator.base)
        args = tuple(kwargs[name] for name in operator.argument_names)
        node = self.module.graph.call_function(getattr(packet, operator.overload_name), args)
        node.meta = dict(meta)
        return node

    def _alloc(self, size: int) -> Node:
        """A scratch buffer of its final size. ExecuTorch plans no empty allocation, so 0 bytes stays 0 elements."""
        from executorch.exir.passes import make_alloc_node

        assert self.mode is not None
        with self.mode:
            value = torch.empty((size,), dtype=torch.uint8)
        alloc: Node = make_alloc_node(self.module, value, None)
        return alloc


def _edge_program(program: ExportedProgram, module: torch.fx.GraphModule) -> ExportedProgram:
    from executorch.exir.verification.verifier import EXIREdgeDialectVerifier

    signature = ExportGraphSignature(
        input_specs=list(program.graph_signature.input_specs), output_specs=list(program.graph_signature.output_specs)
    )
    returned = output_node(module.graph).args[0]
    for spec, node in zip(signature.output_specs, returned, strict=True):  # type: ignore[arg-type]
        spec.arg = type(spec.arg)(name=node.name)  # type: ignore[union-attr, call-arg]
    for number, node in enumerate(module.graph.nodes, start=1):
        node.meta["debug_handle"] = number
    return ExportedProgram(
        root=module,
        graph=module.graph,
        graph_signature=signature,
        state_dict=dict(program.state_dict),
        range_constraints={},
        module_call_graph=program.module_call_graph,
        example_inputs=program.example_inputs,
        constants=dict(program.constants),
        verifiers=[EXIREdgeDialectVerifier(class_only=True)],
    )


# ---- memory planning -----------------------------------------------------------------------------------------


def plan_specs(alignment: int, specs: Any, module: Any, signature: Any, extra_padding: int) -> list[int]:
    """Our planner behind exir's interface: sets each spec's place and returns the sizes of [constants, arena]."""
    ordered = list(specs)
    buffers = [
        Buffer(
            name=str(number),
            size=spec.allocated_memory + extra_padding,
            start=(spec.lifetime[0], 0),
            end=(spec.lifetime[1] + 1, 0),
            align=alignment,
        )
        for number, spec in enumerate(ordered)
    ]
    problem = Problem(tuple(buffers))
    result = plan(problem)
    validate(problem, result)
    for number, spec in enumerate(ordered):
        spec.mem_id, spec.mem_obj_id, spec.mem_offset = 1, number, result.offsets[str(number)]
    return [0, result.peak]
