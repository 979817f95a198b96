"""time-windows: a linear layer over all rows of a tensor, flattened, is a convolution with one window."""

import math
from typing import Any, ClassVar

from torch.fx import GraphModule, Node

from cortado.ir.facts import QPARAMS
from cortado.ir.graph import add_constant, constant_value, remove_unused_constants, shape
from cortado.ir.op import operator_of
from cortado.ir.passes import Level
from cortado.ops.conv.conv2d import CONV2D
from cortado.passes.base import ContextPass, PassContext
from cortado.passes.orders import is_a, operands


class TimeWindows(ContextPass):
    """Lets a convolution that reads one pixel, all values of an image with several rows, read that image, in a
    stream."""

    name: ClassVar[str] = "time-windows"
    level_before: ClassVar[Level] = Level.LOWERED
    level_after: ClassVar[Level] = Level.LOWERED

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
        module.graph.eliminate_dead_code()
        remove_unused_constants(self.program)
        return bool(windows)

    def _rows_behind(self, node: Node) -> Node | None:
        """The image with several rows whose values, all in one row, are the only pixel that a convolution reads."""
        if not is_a(node, CONV2D) or constant_value(self.program, node.kwargs["weight"]) is None:
            return None
        pixel = source = operands(node)[0]
        if shape(pixel)[:3] != (1, 1, 1):
            return None
        while source.op == "call_function" and (operator := operator_of(source.target)) is not None and operator.view:
            source = operands(source)[0]
        sizes = shape(source)
        is_image = len(sizes) == 4 and sizes[0] == 1 < sizes[1]
        return source if is_image and math.prod(sizes) == math.prod(shape(pixel)) else None
