"""The layers for the report: shape, work, constants and scales of every kernel."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from cortado.artifact.report import DType, LayerReport, LongestCallReport, WeightScalesReport
from cortado.ir.kernel import Array, Field, NestedDescriptor
from cortado.plan.jobs import calls_of
from cortado.plan.kernel_costs import estimated_cycles
from cortado.plan.lowered import LoweredCall, LoweredGraph, Ref, Value
from cortado.plan.planned import Planned
from cortado.plan.program import Step

_FIXED_POINT_BITS = 31  # a factor is multiplier * 2^(shift - 31)


def layer_reports(planned: Planned, graph: LoweredGraph) -> tuple[LayerReport, ...]:
    pairs = zip(planned.program.steps, estimated_cycles(planned), calls_of(planned), strict=True)
    return tuple(_layer(step, graph, cycles, calls) for step, cycles, calls in pairs)


def longest_call(layers: Sequence[LayerReport]) -> LongestCallReport | None:
    """None where the cycles of a layer are not known: it could be that one."""
    if not layers or any(layer.estimated_cycles is None for layer in layers):
        return None
    spent = {layer.name: (layer.estimated_cycles or 0) // max(layer.calls, 1) for layer in layers}
    name = max(spent, key=lambda one: spent[one])
    return LongestCallReport(layer=name, cycles=spent[name])


def _layer(step: Step, graph: LoweredGraph, cycles: float | None, calls: int) -> LayerReport:
    value, call = graph.values.get(step.name), graph.by_name.get(step.name)
    codes = None if value is None else value.qparams
    return LayerReport(
        name=step.name,
        operator=step.operator,
        module=step.module,
        macs=step.macs,
        shape=() if value is None else value.shape,
        element=DType(step.element.name),
        weights_bytes=_weights_bytes(step),
        estimated=cycles is not None,
        estimated_cycles=None if cycles is None else round(cycles),
        calls=calls,
        scale=None if codes is None else codes.scale,
        zero_point=None if codes is None else codes.zero_point,
        weight_scales=None if call is None or value is None else _weight_scales(call, value, graph),
    )


def _weights_bytes(step: Step) -> int:
    """On the core whose kernel has most."""
    operands = sum(port.source.data.nbytes for port in step.inputs if isinstance(port.source, Array))
    most = max((sum(_arrays(kernel.fields)) for kernel in step.kernels.values()), default=0)
    return operands + most


def _arrays(fields: Mapping[str, Field]) -> Iterator[int]:
    """Bytes of every array that a descriptor points to."""
    for field in fields.values():
        if isinstance(field, Array):
            yield field.data.nbytes
        elif isinstance(field, tuple):
            for item in field:
                if isinstance(item, NestedDescriptor):
                    yield from _arrays(item.fields)


def _weight_scales(call: LoweredCall, value: Value, graph: LoweredGraph) -> WeightScalesReport | None:
    """A weighted layer's factors are the scales of its weights, times its input's over its output's."""
    multipliers, shifts = (
        _numbers(call.arguments.get(f"requantize_{name}"), graph) for name in ("multipliers", "shifts")
    )
    weight, given = call.arguments.get("weight", call.arguments.get("weights")), call.arguments.get("input")
    if multipliers is None or shifts is None or not isinstance(weight, Ref) or not isinstance(given, Ref):
        return None
    read = graph.values[given.name].qparams if given.name in graph.values else None
    if weight.name not in graph.constants or read is None or value.qparams is None:
        return None
    factors = np.ldexp(multipliers, shifts.astype(np.int64) - _FIXED_POINT_BITS)
    scales = factors * (value.qparams.scale / read.scale)
    scales = scales[scales > 0]  # a channel whose weights are all zero has none
    if not scales.size:
        return None
    return WeightScalesReport(channels=len(factors), least=float(scales.min()), largest=float(scales.max()))


def _numbers(argument: object, graph: LoweredGraph) -> "np.ndarray[tuple[int], np.dtype[np.float64]] | None":
    """A constant, or a list of numbers."""
    if isinstance(argument, Ref):
        constant = graph.constants.get(argument.name)
        return None if constant is None else constant.numpy().astype(np.float64).reshape(-1)
    return np.array(argument, np.float64) if isinstance(argument, list) else None
