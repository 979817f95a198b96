"""A network for endless sequences: the same layers without padding in time, over a longer window.

It is the user's own module with changed attributes, so it can be run, calibrated and compared as usual. Its output is
what the padded network would give in the middle of a longer sequence.
"""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cortado.base.errors import CortadoError
from cortado.ops.float_graph import pair

_PADDING = (nn.Conv2d, nn.MaxPool2d, nn.AvgPool2d)
_LONGEST = 8  # the longest window that is tried, in multiples of the original


@dataclass(frozen=True)
class Unpadded:
    """The network, the rows of its window, and its delay in rows, which the padding at the end used to hide."""

    model: nn.Module
    rows: int
    delay: int


@dataclass(frozen=True)
class _Seen:
    """A call of a layer: the rows that it gave, and the input rows for each of them."""

    rows: int
    hop: int


def without_padding(model: object, example: Sequence[Tensor], dim: int) -> Unpadded:
    """Returns the model without padding in time, which is dimension `dim` of its only input [1, C, H, W]."""
    if not isinstance(model, nn.Module):
        raise CortadoError(f"padding can only be dropped from the layers of an nn.Module, found {type(model).__name__}")
    if len(example) != 1 or example[0].dim() != 4 or dim not in (2, 3):
        shapes = [list(value.shape) for value in example]
        raise CortadoError(
            f"padding can only be dropped for one input [1, C, H, W] with time in dimension 2, found {shapes}"
        )
    padded, changed = copy.deepcopy(model).eval(), copy.deepcopy(model).eval()
    ends: dict[nn.Module, int] = {}
    for layer in changed.modules():
        if isinstance(layer, _PADDING):
            ends[layer] = _drop(layer, dim - 2)
    before = _called(padded, example[0], dim)
    if not before or not any(ends.values()):
        raise CortadoError(
            "no nn.Conv2d, nn.MaxPool2d or nn.AvgPool2d of the model pads in time; compile it without "
            "--stream-padding drop"
        )
    wanted = before[-1][1].rows
    why = ""
    for rows in range(example[0].shape[dim], _LONGEST * example[0].shape[dim]):
        try:
            after = _called(changed, _window(example[0], dim, rows), dim)
        except RuntimeError as error:  # the window is too short, or branches no longer fit
            why = f" ({' '.join(str(error).split())})"
        else:
            if after and after[-1][1].rows == wanted:
                return Unpadded(changed, rows, sum(ends.get(layer, 0) * seen.hop for layer, seen in after))
    raise CortadoError(
        f"without padding in time, no window gives the {wanted} rows that the model reduces to one{why}. Where two "
        "branches meet, crop the longer one in the model, as in x[:, :, 1:-1], and remove the padding from its layers "
        "yourself"
    )


def _drop(layer: nn.Module, axis: int) -> int:
    """Removes the padding of one axis; returns its width."""
    assert isinstance(layer, _PADDING)
    if isinstance(layer.padding, str):
        if layer.padding == "valid":
            return 0
        kernel, dilation = pair(layer.kernel_size), pair(layer.dilation)
        sides = [d * (k - 1) // 2 for k, d in zip(kernel, dilation, strict=True)]
    else:
        sides = list(pair(layer.padding))
    width, sides[axis] = sides[axis], 0
    layer.padding = tuple(sides)
    return width


def _window(example: Tensor, dim: int, rows: int) -> Tensor:
    shape = list(example.shape)
    shape[dim] = rows
    return torch.zeros(shape)


def _called(model: nn.Module, window: Tensor, dim: int) -> list[tuple[nn.Module, _Seen]]:
    """Returns the layers with windows in the order of their calls, as long as there is more than one row."""
    seen: list[tuple[nn.Module, _Seen]] = []
    hop = 1

    def note(layer: nn.Module, given: tuple[Tensor, ...], out: Tensor) -> None:
        nonlocal hop
        if out.dim() == 4 and given[0].shape[dim] > 1:
            seen.append((layer, _Seen(out.shape[dim], hop)))
            hop *= pair(layer.stride)[dim - 2] if isinstance(layer, _PADDING) else 1

    hooks = [layer.register_forward_hook(note) for layer in model.modules() if isinstance(layer, _PADDING)]
    try:
        with torch.no_grad():
            model(window)
    finally:
        for hook in hooks:
            hook.remove()
    return seen


def longer_windows(batches: Sequence[Sequence[Tensor]], dim: int, rows: int) -> Iterator[tuple[Tensor, ...]]:
    """Yields windows of `rows` rows, concatenated from the given ones."""
    values = [batch[0] for batch in batches]
    for number in range(len(values)):
        parts = [values[(number + again) % len(values)] for again in range(-(-rows // values[0].shape[dim]))]
        yield (torch.cat(parts, dim).narrow(dim, 0, rows).contiguous(),)
