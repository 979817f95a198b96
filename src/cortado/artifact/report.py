"""report.json: what was lowered, RAM, flash, cost. Its keys are a contract: later versions add, never rename."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cortado import __version__
from cortado.base.target import CortexMTargetConfig
from cortado.emit.c.bundle import Bundle
from cortado.emit.pte.program import Pte
from cortado.ir.op import registry
from cortado.ir.portable import FloatOperator
from cortado.memory.timeline import peak_buffers, timeline
from cortado.options import Optimize, Options
from cortado.plan.lowered import LoweredGraph, Value
from cortado.plan.planned import Alternative, Planned
from cortado.plan.program import Tensor


@dataclass(frozen=True)
class InC:
    """A model as a C bundle: its plan, its files, and what is known of their sizes."""

    planned: Planned
    bundle: Bundle
    code_bytes: int | None
    single_targets: Mapping[str, int] | None
    alternatives: Mapping[Optimize, Alternative]


def build_report(
    *,
    name: str,
    target: CortexMTargetConfig,
    graph: LoweredGraph,
    c: InC | None,
    pte: Pte | None,
    seconds: Mapping[str, float],
    labels: Sequence[str] | None,
    options: Options,
    pte_missing: Sequence[str],
    bundle_missing: Sequence[str],
    float_operators: Sequence[FloatOperator],
    warnings: Sequence[str],
) -> dict[str, Any]:
    """`graph` is what both artifacts were made of; that of the .pte where there is no C bundle."""
    return {
        "cortado_version": __version__,
        "model": name,
        "target": target.target_string,
        "operators": _operators(graph),
        "float_operators": [{**asdict(item), "kernels": list(item.kernels)} for item in float_operators],
        "portable_operators": [] if pte is None else list(pte.portable_operators),
        "options": {
            "optimize": options.optimize.value,
            "io": options.border.value,
            "linear": options.linear.value,
            "input_layout": options.input_layout.value,
            "allow_float": options.allow_float,
        },
        **(_without_bundle(graph) if c is None else _with_bundle(c)),
        "bundle_missing": list(bundle_missing),
        "pte": None if pte is None else {"bytes": len(pte.data), "arena_bytes": pte.arena_bytes},
        "pte_missing": list(pte_missing),
        "pte_limits": [] if pte is None else list(pte.limits),
        "notes": [],
        "warnings": list(warnings),
        "labels": None if labels is None else list(labels),
        "compile_seconds": {phase: round(value, 3) for phase, value in seconds.items()},
    }


def _operators(graph: LoweredGraph) -> dict[str, int]:
    """How often each operator is called; views cost nothing, and float calls have a list of their own."""
    known = registry().operators
    called = [call.operator for call in graph.calls if call.operator in known]
    return dict(sorted(Counter(name for name in called if not known[name].view).items()))


def _with_bundle(c: InC) -> dict[str, Any]:
    planned, program, plan = c.planned, c.planned.program, c.planned.plan
    return {
        "memory": {
            "arena_bytes": plan.peak,
            "scratch_bytes": sum(step.scratch for step in program.steps),
            "lower_bound_bytes": plan.lower_bound,
            "optimal": plan.optimal,
            "search": {name: asdict(spent) for name, spent in planned.spent.items()},
            "peak_buffers": [{"name": b.name, "bytes": b.size} for b in peak_buffers(planned.problem, plan)],
            "alternatives": {
                optimize.value: {"arena_bytes": other.arena_bytes, "row_calls": other.row_calls}
                for optimize, other in c.alternatives.items()
            },
            "single_targets": None if c.single_targets is None else dict(c.single_targets),
            "timeline": _timeline(planned),
        },
        "schedule": {
            "stages": [[step.name for step in stage.steps] for stage in program.stages],
            "row_calls": planned.row_calls,
        },
        "flash": {"weights_bytes": c.bundle.weights_bytes, "code_bytes": c.code_bytes},
        "macs": sum(step.macs for step in program.steps),
        "layers": [
            {"name": step.name, "operator": step.operator, "module": step.module, "macs": step.macs}
            for step in program.steps
        ],
        "inputs": [_tensor(tensor) for tensor in program.inputs],
        "outputs": [_tensor(tensor) for tensor in program.outputs],
    }


def _without_bundle(graph: LoweredGraph) -> dict[str, Any]:
    """The same keys where there is only a .pte: its inputs and outputs are the model's own."""
    outputs = [(f"output{position}", node) for position, node in enumerate(graph.outputs)]
    return {
        **dict.fromkeys(("memory", "schedule", "flash", "macs")),
        "layers": [],
        "inputs": [_port(name, name, graph.values[name]) for name in graph.inputs],
        "outputs": [_port(name, node, graph.values[node]) for name, node in outputs],
    }


def _port(name: str, node: str, value: Value) -> dict[str, Any]:
    layout = tuple(range(len(value.shape)))
    return _tensor(Tensor(name, node, node, value.shape, str(value.dtype).removeprefix("torch."), None, layout))


def _timeline(planned: Planned) -> list[dict[str, Any]]:
    """RAM over time: for each moment of the schedule, the bytes that live then."""
    moments = timeline(planned.problem, planned.plan)
    return [{"stage": moment.start[0], "position": moment.start[1], "bytes": moment.used} for moment in moments]


def _tensor(tensor: Tensor) -> dict[str, Any]:
    return {
        "name": tensor.name,
        "node": tensor.node,
        "shape": list(tensor.shape),
        "model_shape": [tensor.shape[tensor.layout.index(dim)] for dim in range(len(tensor.shape))],
        "layout": list(tensor.layout),
        "dtype": tensor.dtype,
        "scale": None if tensor.qparams is None else tensor.qparams.scale,
        "zero_point": None if tensor.qparams is None else tensor.qparams.zero_point,
    }
