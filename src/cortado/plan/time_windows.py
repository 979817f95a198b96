"""A linear layer over all rows of a tensor, flattened, is a convolution with one window: it then reads rows."""

import math
from dataclasses import replace

from cortado.ir.op import registry
from cortado.ops.conv2d import CONV2D
from cortado.plan.lowered import LoweredCall, LoweredGraph, Ref


def linear_as_window(graph: LoweredGraph) -> LoweredGraph:
    """The same graph with such convolutions; all values are as before."""
    constants, calls = dict(graph.constants), []
    for call in graph.calls:
        source = _rows_behind(graph, call)
        if source is not None:
            _, height, width, channels = graph.values[source].shape
            weight = graph.constants[call.refs("weight")[0]]
            name = f"{call.name}_window"
            constants[name] = weight.reshape(weight.shape[0], height, width, channels)
            call = replace(call, arguments={**call.arguments, "input": Ref(source), "weight": Ref(name)})
        calls.append(call)
    return replace(graph, constants=constants, calls=tuple(calls))


def _rows_behind(graph: LoweredGraph, call: LoweredCall) -> str | None:
    """The image with several rows whose values, all in one row, are the only pixel that a convolution reads."""
    if call.operator != CONV2D.name or call.refs("weight")[0] not in graph.constants:
        return None
    source = call.refs("input")[0]
    if graph.values[source].shape[:3] != (1, 1, 1):
        return None
    while source in graph.by_name and registry().operators[graph.by_name[source].operator].view:
        view = graph.by_name[source]
        source = view.refs(registry().operators[view.operator].tensors[0])[0]
    shape = graph.values[source].shape if source in graph.values else ()
    is_image = len(shape) == 4 and shape[0] == 1 < shape[1]
    return source if is_image and math.prod(shape) == math.prod(graph.values[call.refs("input")[0]].shape) else None
