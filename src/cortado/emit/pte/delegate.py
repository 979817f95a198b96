"""A .pte whose graph is one call of a delegate, CortadoBackend, with the image of the whole network as its blob.

The arena is an argument of the call, planned ahead of time, and inputs and outputs alias the places in it that the
network's own plan gives them: the method needs as much planned memory as the C bundle's arena, and nothing is copied.
"""

import json
import operator
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram
from torch.export.exported_program import ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.fx import Graph, GraphModule, Node
from torch.utils import _pytree as pytree

from cortado import __version__
from cortado.emit.image.writer import ModelImage
from cortado.emit.pte.edge import METHOD, edge_manager
from cortado.emit.pte.program import Pte
from cortado.emit.pte.values import serialize
from cortado.ir.facts import DEBUG_HANDLE, SPEC, VALUE
from cortado.ir.patched import not_serialized
from cortado.plan.planned import Planned
from cortado.plan.program import Program
from cortado.plan.program import Tensor as Border
from cortado.pte.info import METADATA_METHOD, IoQParams, metadata_text

BACKEND = "CortadoBackend"
NHWC = (0, 2, 3, 1)
PLANNED_ARENA = ("arena", b"planned")  # marks a call whose first argument is the arena


@dataclass(frozen=True)
class DelegatePort:
    """A tensor of the call: its shape, its element, whether its memory format is channels-last, its place."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    channels_last: bool
    offset: int | None  # in the arena; None if it lies outside

    def fake(self, mode: FakeTensorMode) -> torch.Tensor:
        form = torch.channels_last if self.channels_last else torch.contiguous_format
        return mode.from_tensor(torch.empty(self.shape, dtype=self.dtype).to(memory_format=form), static_shapes=True)


def emit_delegate(planned: Planned, image: ModelImage, metadata: Mapping[str, Any]) -> Pte:
    """Emits the .pte of a planned program and its image."""
    return emit_delegates({METHOD: (planned, image)}, metadata)


def emit_delegates(methods: Mapping[str, tuple[Planned, ModelImage]], metadata: Mapping[str, Any]) -> Pte:
    """Emits the .pte of several planned programs, each a method with an arena of its own."""
    calls = {name: _Call.of(planned, image) for name, (planned, image) in methods.items()}
    facts = {**metadata, **_facts({name: planned.program for name, (planned, _) in methods.items()})}
    finished = _to_executorch(calls, json.dumps(facts, separators=(",", ":")))
    plans = [one for one in finished.executorch_program.execution_plan if one.name in calls]
    tables = max(image.ram_bytes for _, image in methods.values())
    return Pte(
        data=serialize(finished.executorch_program, finished._emitter_output.mutable_data),
        arena_bytes=max(sum(one.non_const_buffer_sizes) for one in plans),
        scratch_bytes=0,
        portable_operators=(),
        metadata=facts,
        limits=(
            f"it runs where {BACKEND} is linked (kernels/executorch/delegate.cpp); of the method allocator it "
            f"takes {tables:,} bytes for its tables and 48 for itself",
        ),
        is_delegate=True,
    )


@dataclass(frozen=True)
class _Call:
    """A method: one call of the delegate."""

    edge: ExportedProgram
    inputs: Sequence[DelegatePort]
    outputs: Sequence[DelegatePort]
    arena_bytes: int

    @staticmethod
    def of(planned: Planned, image: ModelImage) -> "_Call":
        inputs, outputs = _ports(planned)
        edge = _program(inputs, outputs, planned.plan.peak, delegate_blob(image, planned.program))
        return _Call(edge, inputs, outputs, max(planned.plan.peak, 1))

    def place(self, alignment: int, specs: Any, module: GraphModule, signature: Any, extra_padding: int) -> list[int]:
        """Plans the memory for ExecuTorch: the arena first with inputs and outputs in it, then everything outside."""
        from executorch.exir.delegate import executorch_call_delegate

        places: dict[int, int | None] = {}
        for node in module.graph.nodes:
            if node.op == "placeholder":
                places[id(SPEC.must(node))] = self.inputs[len(places)].offset
        for node in module.graph.nodes:
            if node.target is executorch_call_delegate:
                for spec, one in zip(SPEC.must(node), self.outputs, strict=True):
                    places[id(spec)] = one.offset
        end = self.arena_bytes
        for number, spec in enumerate(specs):
            offset = places.get(id(spec), 0)
            if offset is None:
                offset = end + -end % 16
                end = offset + spec.allocated_memory
            spec.mem_id, spec.mem_obj_id, spec.mem_offset = 1, number, offset
        return [0, end]


def _ports(planned: Planned) -> tuple[list[DelegatePort], list[DelegatePort]]:
    """Returns the call's inputs and outputs. An input that comes row by row is passed as one row, and a further output
    says whether the outputs are new."""
    program, offsets = planned.program, planned.plan.offsets
    outputs = [_port(tensor, offsets[tensor.buffer]) for tensor in program.outputs]
    pushed = program.pushed
    if pushed is None:
        return [_port(tensor, offsets[tensor.buffer]) for tensor in program.inputs], outputs
    row = DelegatePort((pushed.n,), pushed.element.torch_dtype, channels_last=False, offset=None)
    return [row], [*outputs, DelegatePort((1,), torch.int32, channels_last=False, offset=None)]


def _port(tensor: Border, offset: int) -> DelegatePort:
    shape, dtype = tuple(tensor.shape), tensor.element.torch_dtype
    if tensor.layout != NHWC:
        return DelegatePort(shape, dtype, channels_last=False, offset=offset)
    n, h, w, c = shape
    return DelegatePort((n, c, h, w), dtype, channels_last=True, offset=offset)


def delegate_blob(image: ModelImage, program: Program, orders: Sequence[Sequence[int]] = ()) -> bytes:
    """Returns the image, followed by strings: the memory orders of dimensions that inputs and outputs were compiled
    with, in case others may come, and a name per step, for a profiler's events."""
    strings = (",".join("".join(map(str, order)) for order in orders), *layer_names(program))
    return image.data + b"".join(text.encode() + b"\0" for text in strings)


def layer_names(program: Program) -> tuple[str, ...]:
    """Names each step by its module, followed by the step's name where the module has several."""
    modules = Counter(step.module for step in program.steps)
    return tuple(
        step.module if step.module and modules[step.module] == 1 else f"{step.module} {step.name}".strip()
        for step in program.steps
    )


def _facts(programs: Mapping[str, Program]) -> dict[str, Any]:
    """Returns the metadata of a file: its first method, and the others under `methods`."""

    def qparams(tensors: Sequence[Border]) -> tuple[IoQParams | None, ...]:
        return tuple(None if t.qparams is None else IoQParams(t.qparams.scale, t.qparams.zero_point) for t in tensors)

    def of(program: Program) -> dict[str, Any]:
        text = metadata_text(
            target=program.target.target_string,
            version=__version__,
            layout="as in the model, images with their channels last in memory",
            inputs=qparams(program.inputs),
            outputs=qparams(program.outputs),
        )
        found: dict[str, Any] = json.loads(text)
        return found

    first, *others = programs
    more = {name: {key: of(programs[name])[key] for key in ("inputs", "outputs")} for name in others}
    return {**of(programs[first]), **({"methods": more} if more else {})}


# ---- the program -------------------------------------------------------------------------------------------------


def _program(
    inputs: Sequence[DelegatePort], outputs: Sequence[DelegatePort], peak: int, data: bytes
) -> ExportedProgram:
    """Builds the graph: placeholders, the arena, one call, its results."""
    from executorch.exir.backend.compile_spec_schema import CompileSpec
    from executorch.exir.delegate import executorch_call_delegate
    from executorch.exir.lowered_backend_module import LoweredBackendModule
    from executorch.exir.passes import make_alloc_node

    mode = FakeTensorMode()
    module = GraphModule(torch.nn.Module(), Graph())
    graph = module.graph
    nodes = [_placeholder(graph, f"input{i}", one.fake(mode)) for i, one in enumerate(inputs)]
    arena = DelegatePort((max(peak, 1),), torch.uint8, channels_last=False, offset=0)
    original = shapes_alone([one.fake(mode) for one in (arena, *inputs)], [one.fake(mode) for one in outputs])
    lowered = LoweredBackendModule(original, BACKEND, data, [CompileSpec(*PLANNED_ARENA)])
    module.add_module("lowered_module_0", lowered)
    attribute = graph.get_attr("lowered_module_0")
    given = make_alloc_node(module, arena.fake(mode), None)
    call = graph.call_function(executorch_call_delegate, (attribute, given, *nodes))
    values = [one.fake(mode) for one in outputs]
    VALUE.note(call, values)
    results = []
    for i, value in enumerate(values):
        node = graph.call_function(operator.getitem, (call, i))
        VALUE.note(node, value)
        results.append(node)
    graph.output(tuple(results))
    module.recompile()
    return _exported(module, nodes, results)


def _placeholder(graph: Graph, name: str, value: torch.Tensor) -> Node:
    node = graph.placeholder(name)
    VALUE.note(node, value)
    return node


def planned_specs(specs: Sequence[Any]) -> bool:
    """Returns whether a call's settings declare the arena as its first argument."""
    return any((spec.key, spec.value) == PLANNED_ARENA for spec in specs)


def shapes_alone(inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> ExportedProgram:
    """Returns a program with the same signature, which ExecuTorch runs on fake tensors to infer the result shapes."""
    from executorch.exir.dialects._ops import ops as exir_ops

    full = exir_ops.edge.aten.full.default
    module = GraphModule(torch.nn.Module(), Graph())
    nodes = [_placeholder(module.graph, f"input{i}", one) for i, one in enumerate(inputs)]
    results = []
    for number, one in enumerate(outputs, start=1):
        node = module.graph.call_function(full, (list(one.shape), 0), {"dtype": one.dtype})
        VALUE.note(node, one)
        DEBUG_HANDLE.note(node, number)
        results.append(node)
    module.graph.output(tuple(results))
    return _exported(module, nodes, results)


def _exported(module: GraphModule, nodes: Sequence[Node], results: Sequence[Node]) -> ExportedProgram:
    from executorch.exir.verification.verifier import EXIREdgeDialectVerifier

    signature = ModuleCallSignature(
        inputs=[],
        outputs=[],
        in_spec=pytree.tree_structure(((0,) * len(nodes), {})),
        out_spec=pytree.tree_structure((0,) * len(results)),
    )
    return ExportedProgram(
        root=module,
        graph=module.graph,
        graph_signature=ExportGraphSignature(
            [InputSpec(InputKind.USER_INPUT, TensorArgument(node.name), None) for node in nodes],
            [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(node.name), None) for node in results],
        ),
        state_dict={},
        range_constraints={},
        module_call_graph=[ModuleCallEntry("", signature)],
        example_inputs=None,
        constants={},
        verifiers=[EXIREdgeDialectVerifier(class_only=True)],
    )


# ---- its memory --------------------------------------------------------------------------------------------------


def _to_executorch(calls: Mapping[str, _Call], text: str) -> Any:
    from executorch.exir import ExecutorchBackendConfig
    from executorch.exir.passes import MemoryPlanningPass

    manager = edge_manager({name: call.edge for name, call in calls.items()}, {METADATA_METHOD: text})
    plans = {name: MemoryPlanningPass(memory_planning_algo=call.place, alignment=1) for name, call in calls.items()}
    with warnings.catch_warnings(), not_serialized():
        warnings.simplefilter("ignore")
        return manager.to_executorch(
            ExecutorchBackendConfig(memory_planning_pass=plans, extract_delegate_segments=False, segment_alignment=16)
        )
