"""Convolutions over images of height 1 in the .pte: CMSIS-NN has an MVE kernel for them that is right for some only.

It makes one row of outputs: those that reach over the left end, those that reach over none, and as many over the right
end as over the left. The windows at an end lie in scratch, filled up from that end and beginning a stride apart. So the
last window must end with the padding, and the first output on the right must lack one input. It copies whole windows:
it reads past an input that is shorter, and without padding past any input if the stride is more than 1.
"""

from collections.abc import Mapping
from typing import Any

from torch.fx import Node

from cortado.base.target import CortexMTargetConfig, Isa
from cortado.ir.graph import shape
from cortado.ir.op import Call, Operator, PteWriter, shaped_call
from cortado.ops import pad
from cortado.ops.reshape import VIEW


def is_wrong_on_mve(call: Call, depth: int) -> bool:
    """Whether that kernel takes a convolution and is wrong or reads past its input; `depth`: channels of a group."""
    (_, height, width, channels), (_, kernel_h, kernel, _) = call.shape("input"), call.shape("weight")
    stride, (above, beside), dilation = call["stride"][1], call["padding"], list(call["dilation"])
    pointwise = kernel_h == kernel == 1 and above == beside == 0 and dilation == [1, 1]
    signal = height == kernel_h == dilation[1] == 1 and channels == depth and stride * channels % 4 == 0
    if pointwise or not signal:
        return False
    ends = stride == 1 if beside == 0 else (beside - 1) % stride == 0
    return above > 0 or (width + 2 * beside - kernel) % stride > 0 or not ends or width < kernel


def in_pte(
    operator: Operator, arguments: Mapping[str, Any], depth: int, add: PteWriter, target: CortexMTargetConfig
) -> Node:
    """A convolution as it is; where that kernel would be wrong, in a form that it does not take."""
    if Isa.MVE not in target.isas or not is_wrong_on_mve(shaped_call(operator, arguments), depth):
        return add(operator, **arguments)
    if arguments["padding"][0] > 0:
        return add(operator, **_on_padded_rows(arguments, add, target))
    return _turned(add(operator, **_upright(arguments, add)), add)


def _on_padded_rows(arguments: Mapping[str, Any], add: PteWriter, target: CortexMTargetConfig) -> dict[str, Any]:
    """The rows of padding above and below the image written out: it is higher than 1 then."""
    above, beside = arguments["padding"]
    rows = [0, above, 0, 0]
    border = {"pre_pad": rows, "post_pad": rows, "pad_value": -arguments["input_offset"]}
    padded = pad.in_pte({"input": arguments["input"], **border}, add, target)
    return {**arguments, "input": padded, "padding": [0, beside]}


def _upright(arguments: Mapping[str, Any], add: PteWriter) -> dict[str, Any]:
    """The length on the height: the same bytes under other sizes."""
    numbers = {name: list(reversed(arguments[name])) for name in ("stride", "padding", "dilation")}
    tensors = {name: _turned(arguments[name], add) for name in ("input", "weight")}
    return {**arguments, **numbers, **tensors}


def _turned(node: Node, add: PteWriter) -> Node:
    first, height, width, last = shape(node)
    return add(VIEW, self=node, size=[first, width, height, last])
