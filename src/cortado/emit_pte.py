"""The lowered graph as an ExecuTorch program: edge operators, scratch of its final size, planned, serialized.

The ExportedProgram is built directly in the edge dialect, with ExecuTorch's verifier on. Scratch buffers become
`memory.alloc` nodes here, after the last retracing, with the size CMSIS-NN asks for on the target's instruction set.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature
from torch.fx import Node

from cortado.graph import fake_mode_of, output_node
from cortado.lowered import call_of
from cortado.memory import Buffer, Problem, plan, validate
from cortado.op import operator_of
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
    from executorch.exir.dialects._ops import ops as exir_ops
    from executorch.exir.passes import make_alloc_node

    graph = torch.fx.Graph()
    new: dict[Node, Node] = {}
    module = torch.fx.GraphModule(torch.nn.Module(), graph)
    total = 0
    for node in program.graph_module.graph.nodes:
        operator = operator_of(node.target) if node.op == "call_function" else None
        if operator is None:
            new[node] = graph.node_copy(node, lambda n: new[n])
            continue
        packet = getattr(getattr(exir_ops.edge, operator.namespace), operator.base)
        kwargs = {name: _mapped(value, new) for name, value in node.kwargs.items()}
        if operator.scratch_names:
            sizes = scratch_sizes(node, program, target)
            for name, size in zip(operator.scratch_names, sizes, strict=True):
                kwargs[name] = _alloc(make_alloc_node, module, size, node)
            total += sum(sizes)
        args = tuple(kwargs.pop(name) for name in operator.argument_names)
        copied = graph.call_function(packet.default, args, kwargs)
        copied.meta = dict(node.meta)
        new[node] = copied
    return _edge_program(program, module), total


def _mapped(value: Any, new: dict[Node, Node]) -> Any:
    return torch.fx.node.map_arg(value, lambda n: new[n])


def _alloc(make: Callable[..., Node], module: torch.fx.GraphModule, size: int, user: Node) -> Node:
    """A scratch buffer of its final size. ExecuTorch has no empty allocation to plan, so 0 bytes stays 0 elements."""
    mode = fake_mode_of(user.graph)
    assert mode is not None
    with mode:
        value = torch.empty((size,), dtype=torch.uint8)
    return make(module, value, None)


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
