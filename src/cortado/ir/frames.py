"""Calls on frames: a tensor of frames is equal parts of memory, one for each, and a call takes them one by one."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cortado.ir.kernel import Rows
from cortado.ir.op import Call

Sizes = tuple[int, ...]


def frame_shape(sizes: Sequence[int], frames: int) -> Sizes | None:
    """Returns the shape of one frame's part of a tensor; None if its memory is not one part after the other."""
    first = next((dim for dim, size in enumerate(sizes) if size > 1), None)
    if first is None or sizes[first] % frames:
        return None
    return (*sizes[:first], sizes[first] // frames, *sizes[first + 1 :])


def of_one_frame(call: Call, frames: int) -> Call | None:
    """Returns a call on one frame: each tensor is that frame's part, constants are whole; None if there is none."""
    given = {name: _part(value, frames) for name, value in call.arguments.items()}
    out = frame_shape(call.out_shape, frames)
    if out is None or any(value is None and call.arguments[name] is not None for name, value in given.items()):
        return None
    return replace(call, arguments=given, out_shape=out)


def _part(value: Any, frames: int) -> Any:
    """Returns a frame's part of the shapes in an argument, which are tuples; lists of numbers stay as they are."""
    if isinstance(value, tuple):
        return frame_shape(value, frames)
    if isinstance(value, list):
        parts = [_part(one, frames) for one in value]
        return None if None in parts else parts
    return value


def is_one_call(call: Call) -> bool:
    """Whether a kernel computes a call at once, without a loop over the rows of an image."""
    rows: Rows | None = call.operator.rows(call)
    if rows is None or rows.pixelwise or rows.elementwise:
        return True
    one_row = len(call.out_shape) != 4 or call.out_shape[1] == 1
    return one_row and not rows.accumulates and all(rule.taps == 1 for rule in rows.inputs)
