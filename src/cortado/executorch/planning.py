"""Memory of a program with Cortado's parts: their arenas are planned like its tensors, and hold the tensors at their
borders if that costs less."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from executorch.exir import ExecutorchBackendConfig
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.delegate import executorch_call_delegate
from executorch.exir.lowered_backend_module import LoweredBackendModule
from executorch.exir.passes import MemoryPlanningPass, make_alloc_node
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.pass_base import PassBase, PassResult

from cortado.emit.image.reader import ImageInfo, ImageTensor, read_image
from cortado.emit.pte.delegate import BACKEND, PLANNED_ARENA, DelegatePort, planned_specs, shapes_alone
from cortado.emit.pte.values import ALIGNMENT
from cortado.ir.facts import SPEC, VALUE
from cortado.memory.planner import plan
from cortado.memory.problem import Buffer, Plan, Problem
from cortado.memory.validate import validate


def executorch_config(**settings: Any) -> ExecutorchBackendConfig:
    """Returns a configuration for `to_executorch` that plans delegates' arenas like any tensor, so that they need no
    temp allocator. `settings` are ExecutorchBackendConfig's own."""
    planning = MemoryPlanningPass(memory_planning_algo=plan_with_arenas, alignment=ALIGNMENT)
    usual = {"extract_delegate_segments": False, "segment_alignment": ALIGNMENT, "memory_planning_pass": planning}
    passes = [*settings.pop("passes", []), PlanArenas()]
    return ExecutorchBackendConfig(**{**usual, **settings}, passes=passes)


# ---- an arena is an argument ---------------------------------------------------------------------------------------


class PlanArenas(PassBase):
    """A pass that gives each call of CortadoBackend its arena as first argument. A part with state keeps its own:
    planned memory does not persist from call to call."""

    def call(self, module: GraphModule) -> PassResult:
        for node in [node for node in module.graph.nodes if node.target is executorch_call_delegate]:
            lowered = _lowered(node)
            image = None if lowered.backend_id != BACKEND else _image(lowered)
            if image is not None and image.head.state_bytes == 0 and not planned_specs(lowered.compile_specs):
                _give_arena(module, node, lowered, image.head.arena_bytes)
        module.recompile()
        return PassResult(module, modified=True)


def _lowered(node: Node) -> LoweredBackendModule:
    attribute: Any = node.args[0]
    found: LoweredBackendModule = getattr(node.graph.owning_module, attribute.target)
    return found


def _image(lowered: LoweredBackendModule) -> ImageInfo:
    return read_image(bytes(lowered.processed_bytes), "the delegate's blob")


def _give_arena(module: GraphModule, node: Node, lowered: LoweredBackendModule, arena_bytes: int) -> None:
    results = list(VALUE.must(node))
    if not all(one.is_contiguous() for one in results):
        return  # ExecuTorch would assume the default dimension order
    values = [VALUE.must(one) for one in node.args[1:] if isinstance(one, Node)]
    mode = next((value.fake_mode for value in values), None) or FakeTensorMode()
    attribute, *given = node.args
    arena = DelegatePort((max(arena_bytes, 1),), torch.uint8, channels_last=False, offset=0)
    original = shapes_alone([arena.fake(mode), *values], results)
    planned = LoweredBackendModule(
        original,
        lowered.backend_id,
        lowered.processed_bytes,
        [*lowered.compile_specs, CompileSpec(*PLANNED_ARENA)],
        lowered.named_data_store_output,
    )
    planned.meta = dict(lowered.meta)
    setattr(module, str(attribute.target), planned)  # type: ignore[union-attr]
    with module.graph.inserting_before(node):
        node.args = (attribute, make_alloc_node(module, arena.fake(mode), None), *given)


# ---- where everything lies -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Inside:
    """A tensor that can alias the place in an arena where the delegate reads or writes it."""

    spec: Any
    arena: Any
    offset: int


def plan_with_arenas(alignment: int, specs: Any, module: Any, signature: Any, extra_padding: int) -> list[int]:
    """Sets each tensor's place. Tensors at a border are moved into the arena one by one, if that does not increase the
    peak."""
    ordered = list(specs)
    taken: dict[int, _Inside] = {}
    best = _planned(ordered, taken, alignment, extra_padding)
    for one in _candidates(module, {id(spec) for spec in ordered}):
        tried = {**taken, id(one.spec): one}
        found = _planned(ordered, tried, alignment, extra_padding)
        if found.peak <= best.peak:
            taken, best = tried, found
    for number, spec in enumerate(ordered):
        inside = taken.get(id(spec))
        name = str(ordered.index(inside.arena)) if inside is not None else str(number)
        spec.mem_id, spec.mem_obj_id = 1, number
        spec.mem_offset = best.offsets[name] + (0 if inside is None else inside.offset)
    return [0, best.peak]


def _planned(specs: Sequence[Any], inside: Mapping[int, _Inside], alignment: int, padding: int) -> Plan:
    """Plans with some tensors inside arenas, whose lifetimes then cover theirs."""
    buffers = []
    for number, spec in enumerate(specs):
        if id(spec) not in inside:
            among = [spec, *(one.spec for one in inside.values() if one.arena is spec)]
            first, last = min(one.lifetime[0] for one in among), max(one.lifetime[1] for one in among)
            size = spec.allocated_memory + padding
            buffers.append(Buffer(name=str(number), size=size, start=(first, 0), end=(last + 1, 0), align=alignment))
    problem = Problem(tuple(buffers))
    found = plan(problem)
    validate(problem, found)
    return found


def _candidates(module: GraphModule, planned: set[int]) -> list[_Inside]:
    """Returns the tensors that a delegate could read or write in its arena, except those read later: the delegate
    overwrites them."""
    found: dict[int, _Inside] = {}
    for node in module.graph.nodes:
        if node.target is not executorch_call_delegate or not planned_specs(_lowered(node).compile_specs):
            continue
        image = _image(_lowered(node))
        _, arena, *given = node.args
        memory = SPEC.must(arena)
        last = memory.lifetime[1]
        for one, tensor in zip(given, image.inputs, strict=True):
            spec = SPEC.must(one)
            if spec.lifetime[1] <= last and given.count(one) == 1 and _same(spec, tensor):
                found.setdefault(id(spec), _Inside(spec, memory, tensor.offset))
        for spec, tensor in zip(SPEC.must(node), image.outputs, strict=True):
            if _same(spec, tensor):
                found.setdefault(id(spec), _Inside(spec, memory, tensor.offset))
    return [one for one in found.values() if id(one.spec) in planned]


def _same(spec: Any, tensor: ImageTensor) -> bool:
    return str(spec.dtype) == f"torch.{tensor.dtype}" and bool(spec.nbytes() == tensor.bytes)
