"""time-windows: makes a linear layer over all rows of a tensor, flattened, a convolution with one window, and a float32
mean over all rows a pool with one; a pool with one window over all rows moves by one row.

last-steps: makes a recurrent layer of which only the last step is read compute only that output.
"""

import math
from typing import Any, ClassVar

from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule, Node

from cortado.ir.facts import FRAMES, QPARAMS, TWIN
from cortado.ir.graph import (
    add_constant,
    constant_value,
    fake_mode_of,
    part_index,
    remove_unused_constants,
    shape,
    sole_user,
)
from cortado.ir.op import Operator, operator_of
from cortado.ops.conv.conv2d import CONV2D
from cortado.ops.conv.float32 import FLOAT_CONV2D
from cortado.ops.move.reshape import VIEW
from cortado.ops.move.slice import SLICE
from cortado.ops.pool.avg_pool2d import pooled_size
from cortado.ops.pool.float32 import FLOAT_POOL2D, FLOAT_REDUCE, one_window
from cortado.ops.recurrent import layer as recurrent
from cortado.passes.base import LoweredPass, PassContext
from cortado.passes.lower import add_operator_call, add_part, add_view
from cortado.passes.orders import behind_views, is_a, operands


class TimeWindows(LoweredPass):
    """Makes two kinds of calls in a stream read an image of several rows: a convolution whose one pixel holds all
    values of the image, and a mean, sum or maximum in float32 over all its rows. The only window of a pool over all
    rows moves by one row."""

    name: ClassVar[str] = "time-windows"

    @classmethod
    def applies(cls, context: PassContext) -> bool:
        return context.stream

    def run(self, module: GraphModule) -> bool:
        found = [(node, self._rows_behind(node)) for node in module.graph.nodes]
        windows = [(node, source) for node, source in found if source is not None]
        for node, source in windows:
            weight: Any = node.kwargs["weight"]
            data = constant_value(self.program, weight)
            assert data is not None
            window = add_constant(self.program, f"{node.name}_window", data.reshape(len(data), *shape(source)[1:]))
            QPARAMS.take(window, weight)
            node.kwargs = {**node.kwargs, "input": source, "weight": window}
        pools = [node for node in module.graph.nodes if self._pooled(node) or _slid(node)]
        module.graph.eliminate_dead_code()
        remove_unused_constants(self.program)
        return bool(windows or pools)

    def _pooled(self, node: Node) -> bool:
        """Replaces a reduction over all rows, and all columns or none, by a pool with one window; False if it is
        none."""
        if not is_a(node, FLOAT_REDUCE) or node.kwargs["running"]:
            return False
        how: Any = node.kwargs["how"]
        source, mode = behind_views(operands(node)[0]), fake_mode_of(node.graph)
        sizes, (outer, length, inner) = shape(source), shape(operands(node)[0])
        assert mode is not None
        frames = FRAMES.of(source)
        if frames is not None:
            sizes = (1, frames, 1, math.prod(sizes) // frames)
        if len(sizes) != 4 or outer != 1 or sizes[0] != 1 or sizes[1] == 1:
            return False
        rows, width, channels = sizes[1:]
        columns = {(rows * width, channels): width, (rows, width * channels): 1}.get((length, inner))
        if columns is None:
            return False
        window = one_window([sizes[1], columns], how)
        if window is None:
            return False
        with node.graph.inserting_before(node):
            image = add_view(node, mode, source, sizes)
            pool = add_operator_call(node, mode, FLOAT_POOL2D, {"input": image, **window})
            node.replace_all_uses_with(add_view(node, mode, pool, shape(node)))
        return True

    def _rows_behind(self, node: Node) -> Node | None:
        """Returns the image of several rows whose values, flattened, are the only pixel that a convolution reads; None
        if it reads another operand."""
        if not (is_a(node, CONV2D) or is_a(node, FLOAT_CONV2D)):
            return None
        if constant_value(self.program, node.kwargs["weight"]) is None:
            return None
        pixel = operands(node)[0]
        if shape(pixel)[:3] != (1, 1, 1):
            return None
        source = behind_views(pixel)
        sizes = shape(source)
        is_image = len(sizes) == 4 and sizes[0] == 1 < sizes[1]
        return source if is_image and math.prod(sizes) == math.prod(shape(pixel)) else None


def _slid(node: Node) -> bool:
    """Moves the only window of a pool over all rows by one row: a stride that a window alone never takes."""
    if operator_of(node.target) is None or "kernel_size" not in node.kwargs:
        return False
    given: Any = node.kwargs
    (taps, _), (stride, beside), dilation = given["kernel_size"], given["stride"], given.get("dilation", [1, 1])
    rows = shape(operands(node)[0])[1]
    windows = pooled_size(rows, taps, 1, given["padding"][0], bool(given["ceil_mode"]), dilation[0])
    if stride == 1 or rows == 1 or windows != 1:
        return False
    node.kwargs = {**given, "stride": [1, beside]}
    return True


# ---- last steps --------------------------------------------------------------------------------------------------


class LastSteps(LoweredPass):
    """Keeps all states but the last in scratch, in two alternating rows, instead of a tensor of all steps."""

    name: ClassVar[str] = "last-steps"

    def run(self, module: GraphModule) -> bool:
        mode = fake_mode_of(module.graph)
        assert mode is not None
        known = [(node, operator_of(node.target)) for node in module.graph.nodes]
        changed = [_shorten(node, one, mode) for node, one in known if one is not None and one.last_steps]
        module.graph.eliminate_dead_code()
        return any(changed)


def _shorten(layer: Node, operator: Operator, mode: FakeTensorMode) -> bool:
    """Replaces a layer by one that gives only the last steps that are read; False if there is nothing to leave out."""
    given = {part: part_index(part) for part in layer.users} if operator.extra_results else {layer: 0}
    found = {part: _last_read(layer, part) for part in given}
    reads = {part: read for part, read in found.items() if read is not None}
    if not reads:
        return False
    flags: dict[str, Any] = {operator.last_steps[given[part]]: True for part in reads}
    first = next(node for node in layer.graph.nodes if node in reads.values())
    with layer.graph.inserting_before(first if len(reads) == len(given) else layer):
        short = add_operator_call(layer, mode, operator, {**layer.kwargs, **flags})
        for part, result in given.items():
            new = add_part(part, short, operator.results[result]) if operator.extra_results else short
            read = reads.get(part)
            if read is None:
                part.replace_all_uses_with(new)
                continue
            TWIN.take(new, read)
            read.replace_all_uses_with(add_view(read, mode, new, shape(read)))
    return True


def _last_read(layer: Node, part: Node) -> Node | None:
    """Returns the only reader of a layer's result, if it is a slice of the step that is computed last."""
    batch, steps = shape(part)[:2]
    user, dim = sole_user(part), 1
    if user is not None and batch == 1 and operator_of(user.target) is VIEW:
        sizes = shape(user)
        dim = next((axis for axis, size in enumerate(sizes) if size > 1), 0)
        user = sole_user(user) if sizes[dim] == steps else None
    if user is None or operator_of(user.target) is not SLICE:
        return None
    arguments: Any = user.kwargs
    taken = slice(arguments["start"], arguments["end"])
    return user if arguments["dim"] == dim and taken == recurrent.final(layer.kwargs, steps) else None
