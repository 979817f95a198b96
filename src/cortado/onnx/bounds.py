"""Bounds on what a file of anybody makes this machine compute: shapes are known before there is memory for tensors.

`Bounded` sees every call of torch while a file is read, whichever node or builder makes it. It works out the shapes of
the results first, on tensors without data, and refuses those that are too large. Only what depends on no input of the
model is then computed.
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
"""Elements of one tensor: more fits no microcontroller."""
MOST_CONSTANT_BYTES = 1 << 29
"""Bytes of all constants together: those of the file, and those that its nodes compute."""


class ConstantBudget:
    """Bytes that constants may still take; `where` is what they are taken for."""

    def __init__(self, where: str) -> None:
        self.where, self.left = where, MOST_CONSTANT_BYTES

    def check(self, sizes: Sequence[int]) -> None:
        """A tensor that somebody asks for may not be too large."""
        if any(size < 0 for size in sizes) or math.prod(sizes) > MOST_ELEMENTS:
            raise CortadoError(
                f"{self.where}: it asks for a tensor of shape {list(sizes)}, expected at most {MOST_ELEMENTS:,} "
                "elements"
            )

    def take(self, sizes: Sequence[int], dtype: torch.dtype) -> None:
        """A constant: it may not be too large, and neither may all of them together."""
        self.check(sizes)
        self.left -= math.prod(sizes) * dtype.itemsize
        if self.left < 0:
            raise CortadoError(
                f"{self.where}: with its tensor of shape {list(sizes)} the constants of the file, given and computed, "
                f"take more than {MOST_CONSTANT_BYTES:,} bytes, expected less; export a smaller model"
            )


def without_data(value: Tensor) -> Tensor:
    """A tensor of the same shape and type that takes no memory."""
    if value.is_meta:
        return value
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")


class Bounded(TorchDispatchMode):
    """Meanwhile no call of torch makes a tensor that the budget has no room for.

    A call with an operand that has no data gives results without data; every other is computed.
    """

    def __init__(self, budget: ConstantBudget) -> None:
        super().__init__()
        self.budget = budget
        self._found: dict[Any, Any] = {}  # results without data, by call and operands: working them out is slow

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
        except TypeError:  # an operand that can't be compared
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
    """Whether a call makes new tensors: views and writes take no memory, and a number is none."""
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
    """An operand as it counts for the shapes of results."""
    if isinstance(value, Tensor):
        return (value.shape, value.stride(), value.dtype)
    if isinstance(value, tuple | list):
        return tuple(map(_key, value))
    return (type(value), value)
