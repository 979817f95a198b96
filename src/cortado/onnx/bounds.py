"""Bounds on what an untrusted file makes this machine compute: shapes are inferred before memory is allocated.

`Bounded` intercepts every call of torch while a file is read, whichever node or builder makes it. It first infers the
shapes of the results on meta tensors, and refuses those that are too large. Only results that depend on no input of the
model are then computed.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from cortado.base.errors import CortadoError

Tensor = torch.Tensor
MOST_ELEMENTS = 1 << 26
"""Elements of one tensor: more do not fit any microcontroller."""
MOST_CONSTANT_BYTES = 1 << 29
"""Bytes of all constants together: those in the file, and those that its nodes compute."""


class ConstantBudget:
    """The bytes that constants may still take; `where` names what requests them, for messages."""

    def __init__(self, where: str) -> None:
        self.where, self.left = where, MOST_CONSTANT_BYTES

    def check(self, sizes: Sequence[int]) -> None:
        """Refuses a tensor that is too large."""
        if any(size < 0 for size in sizes) or math.prod(sizes) > MOST_ELEMENTS:
            raise CortadoError(
                f"{self.where}: it asks for a tensor of shape {list(sizes)}, expected at most {MOST_ELEMENTS:,} "
                "elements"
            )

    def take(self, sizes: Sequence[int], dtype: torch.dtype) -> None:
        """Refuses a constant that is too large, or that exceeds the total for all constants."""
        self.check(sizes)
        self.left -= math.prod(sizes) * dtype.itemsize
        if self.left < 0:
            raise CortadoError(
                f"{self.where}: with its tensor of shape {list(sizes)} the constants of the file, given and computed, "
                f"take more than {MOST_CONSTANT_BYTES:,} bytes, expected less; export a smaller model"
            )


def without_data(value: Tensor) -> Tensor:
    """Returns a meta tensor with the same shape, strides and dtype."""
    if value.is_meta:
        return value
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")


class Bounded(TorchDispatchMode):
    """A mode in which no call of torch allocates a tensor that exceeds the budget.

    A call with a meta operand returns meta results; every other call is computed.
    """

    def __init__(self, budget: ConstantBudget) -> None:
        super().__init__()
        self.budget = budget
        self._found: dict[Any, Any] = {}  # meta results, by call and operands: inferring them is slow

    def __torch_dispatch__(self, call: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named: Mapping[str, Any] = kwargs or {}
        if not _makes_tensors(call):
            return call(*args, **named)
        found = self._shapes(call, args, named)
        if any(one.is_meta for one in _tensors((args, tuple(named.values())))):
            for one in _tensors(found):
                self.budget.check(one.shape)
            return found
        for one in _tensors(found):
            self.budget.take(one.shape, one.dtype)
        return call(*args, **named)

    def _shapes(self, call: Any, args: Any, named: Mapping[str, Any]) -> Any:
        key: Any = (call, _key(args), _key(tuple(named.items())))
        try:
            if key in self._found:
                return self._found[key]
        except TypeError:  # an operand that can't be hashed
            key = None
        inner, inner_named = tree_map_only(Tensor, without_data, (args, dict(named)))
        if _takes_device(call):
            inner_named["device"] = "meta"
        found = call(*inner, **inner_named)
        if key is not None:
            self._found[key] = found
        return found


@cache
def _makes_tensors(call: Any) -> bool:
    """Returns whether a call allocates tensors: views and in-place writes don't, nor do calls that return numbers."""
    returns = call._schema.returns
    return all(one.alias_info is None for one in returns) and any("Tensor" in str(one.type) for one in returns)


@cache
def _takes_device(call: Any) -> bool:
    return any(one.name == "device" for one in call._schema.arguments)


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for one in value:
            yield from _tensors(one)


def _key(value: Any) -> Any:
    """Returns the properties of an operand that determine the shapes of results."""
    if isinstance(value, Tensor):
        return (value.shape, value.stride(), value.dtype)
    if isinstance(value, tuple | list):
        return tuple(map(_key, value))
    return (type(value), value)
