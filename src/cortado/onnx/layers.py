"""Layers with weights: convolutions, matrix products, normalizations, embeddings, GRU, LSTM and RNN; also softmax."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from cortado.onnx.node import Built, Node, of, onnx_operator

Tensor = torch.Tensor
PadPairs = list[tuple[int, int]]
AUTO_PADS = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")
WINDOWS: Any = {  # for the attributes of a convolution or a pool
    "least": {
        "group": 1,
        "kernel_shape": 1,
        "strides": 1,
        "dilations": 1,
        "pads": 0,
        "output_padding": 0,
        "output_shape": 1,
    },
    "among": {"auto_pad": AUTO_PADS},
}


# ---- windows: what convolutions and pools share -------------------------------------------------------------------


def window(node: Node, kernel: Sequence[int]) -> tuple[list[int], list[int], PadPairs]:
    """Returns strides, dilations, and the padding before and after each dimension."""
    count = len(kernel)
    strides = node.integers("strides", [1] * count)
    dilations = node.integers("dilations", [1] * count)
    if len(strides) != count or len(dilations) != count:
        node.refuse(f"strides {strides} and dilations {dilations}", f"{count} numbers each")
    return strides, dilations, _pads(node, kernel, strides, dilations)


def _pads(node: Node, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> PadPairs:
    kind, count = node.text("auto_pad", "NOTSET"), len(kernel)
    if kind == "NOTSET":
        found = node.integers("pads", [0] * (2 * count))
        if len(found) != 2 * count:
            node.refuse(f"pads {found}", f"{2 * count} numbers")
        return list(zip(found[:count], found[count:], strict=True))
    if kind == "VALID":
        return [(0, 0)] * count
    pads: PadPairs = []
    for size, width, stride, dilation in zip(node.shape()[2:], kernel, strides, dilations, strict=True):
        total = max((-(-size // stride) - 1) * stride + (width - 1) * dilation + 1 - size, 0)
        less, more = total // 2, total - total // 2
        pads.append((less, more) if kind == "SAME_UPPER" else (more, less))
    return pads


def symmetric(pads: PadPairs) -> list[int] | None:
    """Returns one number per dimension if the padding before and after it are equal, else None."""
    return [before for before, _ in pads] if all(before == behind for before, behind in pads) else None


def padding(pads: PadPairs, value: float = 0.0) -> Callable[[Tensor], Tensor]:
    """Returns the padding as a separate call."""
    flat = [number for pair in reversed(pads) for number in pair]
    return lambda x: F.pad(x, flat, value=value)


class Padded(nn.Module):
    """A layer preceded by padding that it does not support itself."""

    def __init__(self, pads: PadPairs, layer: nn.Module, value: float = 0.0) -> None:
        super().__init__()
        self.pad, self.layer = padding(pads, value), layer

    def forward(self, x: Tensor) -> Any:
        return self.layer.forward(self.pad(x))


# ---- convolutions --------------------------------------------------------------------------------------------------

_CONVOLUTIONS: Any = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
_TRANSPOSED: Any = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}


def _spatial(node: Node) -> int:
    count = node.rank() - 2
    if count not in _CONVOLUTIONS or node.rank(1) != node.rank():
        node.refuse(f"an input of shape {list(node.shape())}, weights of {list(node.shape(1))}", "1 to 3 dimensions")
    return count


@onnx_operator("Conv", **WINDOWS)
def conv(node: Node) -> Built:
    count, sizes = _spatial(node), node.shape(1)
    strides, dilations, pads = window(node, sizes[2:])
    groups, even = node.integer("group", 1), symmetric(pads)
    if node.shape()[1] != sizes[1] * groups or sizes[0] % groups:
        node.refuse(f"weights of {list(sizes)} in {groups} groups", f"weights for {node.shape()[1]} channels")
    if node.value(1).data is None:
        return _computed_convolution(node, strides, dilations, pads, groups)
    layer = _CONVOLUTIONS[count](
        sizes[1] * groups, sizes[0], sizes[2:], strides, even or 0, dilations, groups, bias=node.has(2), device="meta"
    )
    _fill(node, layer)
    return of(layer if even is not None else Padded(pads, layer))


def _computed_convolution(node: Node, strides: Any, dilations: Any, pads: PadPairs, groups: int) -> Built:
    """Builds a convolution whose weights are dequantized (QDQ), or computed."""
    call: Any = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[_spatial(node)]
    even, pad = symmetric(pads), padding(pads)

    def run(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        return call(x if even is not None else pad(x), weight, bias, strides, even or 0, dilations, groups)

    return of(run, 0, 1, *([2] if node.has(2) else []))


def _fill(node: Node, layer: nn.Module) -> None:
    """Sets the weights and bias of a layer that was created without data."""
    layer.weight = nn.Parameter(node.constant(1).to(torch.float32))
    if node.has(2):
        layer.bias = nn.Parameter(node.constant(2).to(torch.float32).reshape(-1))


@onnx_operator("ConvTranspose", **WINDOWS)
def conv_transpose(node: Node) -> Built:
    count, sizes = _spatial(node), node.shape(1)
    strides, dilations, pads = window(node, sizes[2:])
    groups, extra = node.integer("group", 1), node.integers("output_padding", [0] * count)
    wanted = _output_sizes(node, strides, dilations)
    if wanted is not None:
        pads = _pads_for(node, wanted, strides, dilations, extra)
    # Torch pads both sides equally: any excess on one side is cropped from the output. Negative padding extends the
    # output.
    extra = [more - min(behind, 0) for more, (_, behind) in zip(extra, pads, strict=True)]
    if any(more >= max(pair) for more, *pair in zip(extra, strides, dilations, strict=True)):
        node.refuse(f"an output that is longer by {extra} than its windows reach", "less than a stride or a dilation")
    cuts = [(before, max(behind, 0)) for before, behind in pads]
    even = [min(pair) for pair in cuts]
    less = [(before - both, behind - both) for (before, behind), both in zip(cuts, even, strict=True)]
    if node.value(1).data is None:
        layer: nn.Module = _Transposed(strides, even, extra, groups, dilations)
        return of(_Cut(layer, less), 0, 1, *([2] if node.has(2) else []))
    layer = _TRANSPOSED[count](
        sizes[0],
        sizes[1] * groups,
        sizes[2:],
        strides,
        even,
        extra,
        groups,
        bias=node.has(2),
        dilation=dilations,
        device="meta",
    )
    _fill(node, layer)
    return of(_Cut(layer, less) if any(map(any, less)) else layer)


class _Transposed(nn.Module):
    """A transposed convolution whose weights are dequantized (QDQ), or computed."""

    def __init__(self, *options: Any) -> None:
        super().__init__()
        self.options = options  # strides, padding, output padding, groups, dilations

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        call: Any = {3: F.conv_transpose1d, 4: F.conv_transpose2d, 5: F.conv_transpose3d}[x.dim()]
        found: Tensor = call(x, weight, bias, *self.options)
        return found


class _Cut(nn.Module):
    """A layer whose output is cropped at both ends of each spatial dimension."""

    def __init__(self, layer: nn.Module, less: PadPairs) -> None:
        super().__init__()
        self.layer = layer
        self.places = (slice(None), slice(None), *(slice(before, -behind or None) for before, behind in less))

    def forward(self, *given: Tensor) -> Tensor:
        return self.layer.forward(*given)[self.places]


def _output_sizes(node: Node, strides: Sequence[int], dilations: Sequence[int]) -> list[int] | None:
    """Returns the output's sizes if the node gives them instead of padding, else None."""
    if "output_shape" in node.attributes:
        return node.integers("output_shape")[-len(strides) :]
    if node.text("auto_pad", "NOTSET").startswith("SAME"):
        reaches = [(width - 1) * dilation + 1 for width, dilation in zip(node.shape(1)[2:], dilations, strict=True)]
        if any(reach < stride for reach, stride in zip(reaches, strides, strict=True)):
            node.refuse(
                f"auto_pad of windows that reach {reaches} at strides {list(strides)}",
                "windows that reach a stride, or an output_shape: ONNX's text and onnxruntime give different sizes",
            )
        return [size * stride for size, stride in zip(node.shape()[2:], strides, strict=True)]
    return None


def _pads_for(
    node: Node, wanted: Sequence[int], strides: Sequence[int], dilations: Sequence[int], extra: Sequence[int]
) -> PadPairs:
    upper, pads = node.text("auto_pad", "NOTSET") == "SAME_UPPER", []
    windows = zip(node.shape()[2:], node.shape(1)[2:], strides, dilations, extra, wanted, strict=True)
    for size, width, stride, dilation, more, new in windows:
        total = stride * (size - 1) + more + (width - 1) * dilation + 1 - new
        less, rest = max(total, 0) // 2, total - max(total, 0) // 2  # any deficit is added at the end
        pads.append((less, rest) if upper or total < 0 else (rest, less))
    return pads


# ---- matrix products -----------------------------------------------------------------------------------------------


def linear(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    """Builds a layer from a weight of shape [outputs, inputs]."""
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
    layer.weight = nn.Parameter(weight.to(torch.float32).contiguous())
    if bias is not None:
        layer.bias = nn.Parameter(bias.to(torch.float32).expand(weight.shape[0]).contiguous())
    return layer


@onnx_operator("Gemm")
def gemm(node: Node) -> Built:
    alpha, beta = node.number("alpha", 1.0), node.number("beta", 1.0)
    left, right = node.flag("transA"), node.flag("transB")
    if node.rank() != 2 or node.rank(1) != 2:
        node.refuse(f"matrices of shapes {list(node.shape())} and {list(node.shape(1))}", "two of rank 2")
    weight, bias = node.value(1).data, node.value(2).data if node.has(2) else None
    plain_bias = not node.has(2) or (bias is not None and bias.reshape(-1).shape[0] in (1, bias.shape[-1:].numel()))
    if weight is not None and plain_bias and not left:
        matrix = alpha * (weight if right else weight.T)
        return of(linear(matrix, None if bias is None else beta * bias.reshape(-1)))

    if not left and alpha == beta == 1.0:
        return of(lambda x, y, z=None: F.linear(x, y if right else y.T, z), 0, 1, *([2] if node.has(2) else []))

    def call(x: Tensor, y: Tensor, z: Tensor | None = None) -> Tensor:
        product = (x.T if left else x) @ (y.T if right else y)
        product = product if alpha == 1.0 else alpha * product
        return product if z is None else product + (z if beta == 1.0 else beta * z)

    return of(call, 0, 1, *([2] if node.has(2) else []))


@onnx_operator("MatMul")
def matmul(node: Node) -> Built:
    weight = node.value(1).data
    if weight is not None and weight.dim() == 2 and node.rank() > 1:
        return of(linear(weight.T, None))
    return of(torch.matmul, 0, 1)


@onnx_operator("Einsum")
def einsum(node: Node) -> Built:
    equation = node.text("equation", "")
    return of(lambda *given: torch.einsum(equation, *given), *range(len(node.inputs)))


# ---- normalizations ------------------------------------------------------------------------------------------------


@onnx_operator("BatchNormalization", limits="as in evaluation")
def batch_norm(node: Node) -> Built:
    if node.flag("training_mode") or node.outputs > 1:
        node.refuse(
            "batch statistics in training mode", "statistics of evaluation mode; export the model after model.eval()"
        )
    scale, bias, mean, variance = (node.constant(position).to(torch.float32) for position in range(1, 5))
    eps = node.number("epsilon", 1e-5)
    kinds: Any = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}
    if node.rank() not in kinds:
        node.refuse(f"an input of rank {node.rank()}", "one of rank 2 to 5")
    layer = kinds[node.rank()](scale.numel(), eps=eps)
    layer.weight.data, layer.bias.data = scale, bias
    layer.running_mean, layer.running_var = mean, variance
    return of(layer.eval())


@onnx_operator("InstanceNormalization")
def instance_norm(node: Node) -> Built:
    eps = node.number("epsilon", 1e-5)
    return of(lambda x, scale, bias: F.instance_norm(x, weight=scale, bias=bias, eps=eps), 0, 1, 2)


@onnx_operator("LayerNormalization", "RMSNormalization", limits="the mean and the deviation must be unused")
def layer_norm(node: Node) -> Built:
    if node.outputs > 1:
        node.refuse("its mean or deviation is used", "only the normalized values")
    sizes = node.shape()[node.axis(node.integer("axis", -1)) :]
    eps = node.number("epsilon", 1e-5)
    bias = node.has(2)
    if node.kind == "RMSNormalization":
        return of(lambda x, scale: F.rms_norm(x, sizes, scale.expand(sizes), eps), 0, 1)

    def call(x: Tensor, scale: Tensor, shift: Tensor | None = None) -> Tensor:
        return F.layer_norm(x, sizes, scale.expand(sizes), None if shift is None else shift.expand(sizes), eps)

    return of(call, 0, 1, *([2] if bias else []))


@onnx_operator("GroupNormalization", least={"num_groups": 1})
def group_norm(node: Node) -> Built:
    groups, eps, channels = node.integer("num_groups"), node.number("epsilon", 1e-5), node.shape()[1]
    each = channels // max(node.shape(1)[0], 1)  # opset 18 has a scale for each group, 21 one for each channel

    def call(x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
        return F.group_norm(x, groups, scale.repeat_interleave(each), bias.repeat_interleave(each), eps)

    return of(call, 0, 1, 2) if each > 1 else of(lambda x, s, b: F.group_norm(x, groups, s, b, eps), 0, 1, 2)


@onnx_operator("LRN", least={"size": 1})
def local_response_norm(node: Node) -> Built:
    size, alpha = node.integer("size"), node.number("alpha", 1e-4)
    return of(nn.LocalResponseNorm(size, alpha, node.number("beta", 0.75), node.number("bias", 1.0)))


@onnx_operator("LpNormalization")
def lp_norm(node: Node) -> Built:
    axis, power = node.axis(node.integer("axis", -1)), node.integer("p", 2)
    if power not in (1, 2):
        node.refuse(f"p of {power}", "1 or 2")
    return of(lambda x: F.normalize(x, float(power), axis))


# ---- softmax -------------------------------------------------------------------------------------------------------


@onnx_operator("Softmax", "LogSoftmax")
def softmax(node: Node) -> Built:
    call: Any = F.softmax if node.kind == "Softmax" else F.log_softmax
    if node.opset >= 13:
        axis = node.axis(node.integer("axis", -1))
        return of(lambda x: call(x, axis))
    axis, sizes = node.axis(node.integer("axis", 1)), node.shape()
    if axis == len(sizes) - 1 or all(size == 1 for size in sizes[axis + 1 :]):
        return of(lambda x: call(x, axis))
    return of(lambda x: call(x.flatten(axis), axis).reshape(sizes))  # before opset 13: over all that follow


# ---- recurrent layers ------------------------------------------------------------------------------------------------


# The index in ONNX's gate order of each of torch's gates: z r h -> r z n; i o f c -> i f g o.
_GATES: Mapping[str, Sequence[int]] = {"GRU": (1, 0, 2), "LSTM": (0, 2, 3, 1), "RNN": (0,)}
_ACTIVATIONS: Mapping[str, list[str]] = {"GRU": ["sigmoid", "tanh"], "LSTM": ["sigmoid", "tanh", "tanh"]}
_LAYERS: Any = {"GRU": nn.GRU, "LSTM": nn.LSTM, "RNN": nn.RNN}


class Recurrent(nn.Module):
    """A torch layer with ONNX's order of inputs and outputs."""

    def __init__(self, layer: nn.Module, kind: str, given: Sequence[int], *, reverse: bool, batch_first: bool) -> None:
        super().__init__()
        self.layer, self.kind, self.given, self.reverse, self.batch_first = layer, kind, given, reverse, batch_first

    def forward(self, x: Tensor, *states: Tensor) -> tuple[Tensor, ...]:
        x = x.transpose(0, 1) if self.batch_first else x
        given = [state.transpose(0, 1) if self.batch_first else state for state in states]
        y, last = self._run(x.flip(0) if self.reverse else x, given)
        y = y.flip(0) if self.reverse else y
        directions = 2 if self.layer.bidirectional else 1
        sizes = (y.shape[0], y.shape[1], directions, y.shape[2] // directions)
        y = y.reshape(sizes).permute(*((1, 0, 2, 3) if self.batch_first else (0, 2, 1, 3)))
        return (y, *(one.transpose(0, 1) if self.batch_first else one for one in last))

    def _run(self, x: Tensor, states: Sequence[Tensor]) -> tuple[Tensor, tuple[Tensor, ...]]:
        if self.kind != "LSTM":
            y, h = self.layer.forward(x, *states)
            return y, (h,)
        if len(states) == 1:  # the other one is zero
            zeros = torch.zeros_like(states[0])
            states = (states[0], zeros) if self.given == (5,) else (zeros, states[0])
        y, last = self.layer.forward(x, tuple(states)) if states else self.layer.forward(x)
        return y, tuple(last)


@onnx_operator(
    "GRU",
    "LSTM",
    "RNN",
    limits="constant weights, default activations, no clip, no peepholes, all sequences of full length; GRU with "
    "linear_before_reset=1, as PyTorch and Keras have it",
    least={"hidden_size": 1},
    among={"direction": ("forward", "reverse", "bidirectional")},
)
def recurrent(node: Node) -> Built:
    _check(node)
    units, direction = node.integer("hidden_size"), node.text("direction", "forward")
    activation = node.texts("activations")
    options = {"nonlinearity": activation[0].lower()} if node.kind == "RNN" and activation else {}
    both = direction == "bidirectional"
    biased = node.has(3)
    rows = len(_GATES[node.kind]) * units
    for position, sizes in ((1, (rows, node.shape()[-1])), (2, (rows, units)), *([(3, (2 * rows,))] if biased else [])):
        if node.shape(position) != (1 + both, *sizes):
            node.refuse(f"input {position} of shape {list(node.shape(position))}", f"{[1 + both, *sizes]}")
    layer = _LAYERS[node.kind](node.shape(1)[2], units, bidirectional=both, bias=biased, device="meta", **options)
    for number in range(2 if both else 1):
        _fill_direction(node, layer, number, units)
    given = _states(node)
    module = Recurrent(layer, node.kind, given, reverse=direction == "reverse", batch_first=node.flag("layout"))
    return Built(module, (0, *given))


def _states(node: Node) -> tuple[int, ...]:
    """Returns the positions of initial states that are not zero."""
    given = [(position, node.value(position).data) for position in (5, 6) if node.has(position)]
    return tuple(position for position, data in given if data is None or bool(data.any()))


def _fill_direction(node: Node, layer: nn.Module, direction: int, units: int) -> None:
    end = "_l0" + ("_reverse" if direction else "")
    order = [gate * units + unit for gate in _GATES[node.kind] for unit in range(units)]
    found = {"weight_ih": node.constant(1)[direction], "weight_hh": node.constant(2)[direction]}
    if node.has(3):
        found["bias_ih"], found["bias_hh"] = node.constant(3)[direction].reshape(2, -1)
    for name, value in found.items():
        setattr(layer, f"{name}{end}", nn.Parameter(value[order].to(torch.float32)))


def _check(node: Node) -> None:
    if node.rank() != 3:
        node.refuse(f"an input of shape {list(node.shape())}", "one of rank 3")
    names = [one.lower() for one in node.texts("activations")]
    default = _ACTIVATIONS.get(node.kind)
    plain = (
        all(names[at : at + len(default)] == default for at in range(0, len(names), len(default)))
        if default
        else (len(set(names)) <= 1 and set(names) <= {"tanh", "relu"})
    )
    if not plain:
        node.refuse(f"activations {names}", "the default ones")
    if node.attributes.get("clip") or node.has(7) or node.flag("input_forget"):
        node.refuse("a clip, peepholes or a coupled forget gate", "no clip, peepholes or coupled forget gate")
    if node.kind == "GRU" and not node.flag("linear_before_reset"):
        node.refuse(
            "linear_before_reset=0, which multiplies the state by the reset gate before the matrix",
            "linear_before_reset=1, as PyTorch exports it and Keras with reset_after=True",
        )
    if node.has(4):
        steps = node.shape()[1 if node.flag("layout") else 0]
        lengths = node.value(4).data
        if lengths is None or not bool((lengths == steps).all()):
            node.refuse("sequences of different lengths", f"all of {steps} steps")
