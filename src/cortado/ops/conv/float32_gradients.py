"""Gradients of convolutions and pools in float32, and convolutions with computed weights, in terms of supported
calls."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node
from torch.nn import functional as F

from cortado.base.numerics import Tensor
from cortado.ir.graph import Bound, shape
from cortado.ir.op import Decomposition
from cortado.ops.conv.forms import computed_convolution, convolution
from cortado.ops.float_graph import decomposed, height_one, is_constant, pair

aten = torch.ops.aten


def _apart(x: Tensor, dim: int, step: int) -> Tensor:
    """Inserts step - 1 zeros after each value along a dimension."""
    if step == 1:
        return x
    sizes = list(x.shape)
    zeros = torch.zeros([*sizes[: dim + 1], step - 1, *sizes[dim + 1 :]])
    return torch.cat([x.unsqueeze(dim + 1), zeros], dim + 1).reshape(*sizes[:dim], -1, *sizes[dim + 1 :])


def _placed(x: Tensor, dim: int, begin: int, step: int, size: int) -> Tensor:
    """Places values at begin, begin + step ... among `size` zeros, along one of the last dimensions."""
    wide = _apart(x, dim, step)
    wide = wide.narrow(dim, 0, min(wide.shape[dim], size - begin))
    pads = [0, 0] * (x.dim() - 1 - dim) + [begin, size - begin - wide.shape[dim]]
    return F.pad(wide, pads)


def convolution_backward(
    grad_output: Tensor,
    input: Tensor,
    weight: Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    groups: int,
    **_: Any,
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Sums the gradients tap by tap: the gradient of one tap is a matrix product."""
    if transposed or weight.dim() != 4:
        return NotImplemented
    n, c, high, wide = input.shape
    out_c, each, kernel_h, kernel_w = weight.shape
    rows, columns = grad_output.shape[2:]
    grads = grad_output.reshape(n, groups, out_c // groups, rows * columns)
    (up, left), (step_h, step_w), (apart_h, apart_w) = pair(padding), pair(stride), pair(dilation)
    padded = F.pad(input, (left, left, up, up))
    size_h, size_w = high + 2 * up, wide + 2 * left
    of_input: Tensor | None = None
    of_weight = []
    for y in range(0, kernel_h * apart_h, apart_h):
        for x in range(0, kernel_w * apart_w, apart_w):
            seen = padded[:, :, y : y + (rows - 1) * step_h + 1 : step_h, x : x + (columns - 1) * step_w + 1 : step_w]
            taps = seen.reshape(n, groups, each, rows * columns)
            of_weight.append(torch.matmul(grads, taps.transpose(-1, -2)).sum(0))
            tap = weight[:, :, y // apart_h, x // apart_w].reshape(1, groups, out_c // groups, each)
            back = torch.matmul(tap.transpose(-1, -2).expand(n, -1, -1, -1), grads).reshape(n, c, rows, columns)
            back = _placed(_placed(back, 2, y, step_h, size_h), 3, x, step_w, size_w)
            of_input = back if of_input is None else of_input + back
    assert of_input is not None
    found = torch.stack(of_weight, -1).reshape(out_c, each, kernel_h, kernel_w)
    cut = of_input[:, :, up : up + high, left : left + wide]
    return cut, found, grad_output.sum((0, 2, 3))


# ---- means ---------------------------------------------------------------------------------------------------


def _shares(windows: Sequence[tuple[int, int]], size: int, counts: Sequence[float]) -> Tensor:
    """Returns a matrix [windows, size] with the weight that each position has in the mean of each window."""
    rows = []
    for (begin, end), count in zip(windows, counts, strict=True):
        rows.append([1.0 / count if begin <= at < end else 0.0 for at in range(size)])
    return torch.tensor(rows)


def adaptive_mean_backward(grad_output: Tensor, self: Tensor) -> Tensor:
    shares = []
    for size, count in zip(self.shape[-2:], grad_output.shape[-2:], strict=True):
        windows = [(at * size // count, -(-(at + 1) * size // count)) for at in range(count)]
        shares.append(_shares(windows, size, [end - begin for begin, end in windows]))
    return torch.matmul(torch.matmul(shares[0].T, grad_output), shares[1])


def mean_backward(
    grad_output: Tensor,
    self: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    count_include_pad: bool,
    divisor_override: int | None,
    **_: Any,
) -> Tensor:
    shares = []
    sides = (self.shape[-2:], grad_output.shape[-2:], pair(kernel_size), pair(stride or kernel_size), pair(padding))
    for size, count, kernel, step, pad in zip(*sides, strict=True):
        begins = [at * step - pad for at in range(count)]
        ends = [min(begin + kernel, size + pad) for begin in begins]
        windows = [(max(begin, 0), min(end, size)) for begin, end in zip(begins, ends, strict=True)]
        whole = [end - begin for begin, end in (zip(begins, ends, strict=True) if count_include_pad else windows)]
        shares.append(_shares(windows, size, [1.0] * count if divisor_override else whole))
    found = torch.matmul(torch.matmul(shares[0].T, grad_output), shares[1])
    return found / float(divisor_override) if divisor_override else found


def largest_backward(grad_output: Tensor, self: Tensor, indices: Tensor, **_: Any) -> Tensor:
    """Passes each gradient to the position that held the maximum."""
    *lead, high, wide = self.shape
    places = indices.reshape(-1, 1, indices.shape[-2] * indices.shape[-1])
    chosen = (places == torch.arange(high * wide).reshape(1, -1, 1)).to(torch.float32)
    return (chosen * grad_output.reshape(places.shape)).sum(2).reshape(*lead, high, wide)


# ---- computed weights ------------------------------------------------------------------------------------------


def computed_signal(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any, groups: int
) -> Tensor:
    """Treats a signal as an image of height 1."""
    places = height_one(stride, 1), height_one(padding, 0), height_one(dilation, 1)
    return computed_convolution(input.unsqueeze(-2), weight.unsqueeze(2), bias, *places, groups).squeeze(-2)


def computed_transposed(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """Writes a transposed convolution out: zeros between the pixels and around them, then a convolution with flipped
    weights."""
    steps, pads, rest, gaps = (pair(one) for one in (stride, padding, output_padding, dilation))
    (in_c, made, *kernel), borders = weight.shape, []
    for axis in (1, 0):  # the last dimension first
        before = gaps[axis] * (kernel[axis] - 1) - pads[axis]
        borders += [before, before + rest[axis] - (steps[axis] - 1)]
    wide = F.pad(_apart(_apart(input, 2, steps[0]), 3, steps[1]), borders)
    turned = weight.flip(2, 3).reshape(groups, in_c // groups, made, *kernel).transpose(1, 2)
    filters = turned.reshape(groups * made, in_c // groups, *kernel)
    return computed_convolution(wide, filters, bias, 1, 0, gaps, groups)


def computed_transposed_signal(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """Treats a signal as an image of height 1."""
    places = height_one(stride, 1), height_one(padding, 0), height_one(output_padding, 0)
    image, taps = input.unsqueeze(-2), weight.unsqueeze(2)
    return computed_transposed(image, taps, bias, *places, groups, height_one(dilation, 1)).squeeze(-2)


def computed_named(weight: Tensor, transposed: bool, output_padding: Sequence[int], **rest: Any) -> Tensor:
    """Writes a convolution of images out, if its weights or bias are not constant."""
    if weight.dim() != 4:
        return NotImplemented
    if transposed:
        return computed_transposed(weight=weight, output_padding=output_padding, **rest)
    return computed_convolution(weight=weight, **rest)


def _computed(bound: Bound) -> bool:
    """Whether the weights or the bias of a batched convolution are not constant."""
    given = [bound[name] for name in ("weight", "bias") if isinstance(bound.get(name), Node)]
    batched = len(shape(bound["input"])) == len(shape(bound["weight"]))
    return batched and not isinstance(bound["padding"], str) and not all(map(is_constant, given))


def _form(target: OpOverload, function: Callable[..., Tensor]) -> Decomposition:
    return Decomposition(aten=(target,), function=function, takes=_computed, floating=True)


COMPUTED_CONV1D = _form(aten.conv1d.default, computed_signal)
COMPUTED_CONV2D = _form(aten.conv2d.default, convolution)
COMPUTED_CONVOLUTION = _form(aten.convolution.default, computed_named)
COMPUTED_TRANSPOSED1D = _form(aten.conv_transpose1d.default, computed_transposed_signal)
COMPUTED_TRANSPOSED2D = _form(aten.conv_transpose2d.input, computed_transposed)

FORMS = decomposed(
    {
        aten.convolution_backward.default: convolution_backward,
        aten._adaptive_avg_pool2d_backward.default: adaptive_mean_backward,
        aten.avg_pool2d_backward.default: mean_backward,
        aten.max_pool2d_with_indices_backward.default: largest_backward,
    }
)
