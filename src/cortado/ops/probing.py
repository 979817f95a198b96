"""Probing: finds out what calls of a graph compute by running them, however they are written.

A region is the calls that depend only on one node and constants. They are run in float64 on chosen values of that node;
the results show where each dimension went, which matrix formed the sums, which curve was applied.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from cortado.base.numerics import Tensor
from cortado.ir.facts import VALUE
from cortado.ir.graph import computed_call
from cortado.ops.float_graph import constant_data, is_constant

# ---- probing ---------------------------------------------------------------------------------------------

Function = Callable[[Tensor], Tensor]

MOST_CALLS = 80  # in a region
CLOSE = 3e-4  # tolerance: float32 inside a region rounds


@dataclass(frozen=True)
class Followed:
    """The calls that depend on `start` alone, in order, and the cuts: calls whose result is all that later code
    reads."""

    start: Node
    calls: tuple[Node, ...]
    cuts: tuple[Node, ...]

    def to(self, end: Node) -> Function:
        """Evaluates `end` as a function of `start`."""
        needed = self._needed(end)

        def run(value: Tensor) -> Tensor:
            values: dict[Node, Any] = {self.start: value}
            for call in needed:
                values[call] = computed_call(call, lambda one: _value(one, values))
            found: Tensor = values[end]
            return found

        return run

    def _needed(self, end: Node) -> list[Node]:
        found = {end}
        for call in reversed(self.calls):
            if call in found:
                found.update(call.all_input_nodes)
        return [call for call in self.calls if call in found]


def _value(node: Node, values: dict[Node, Any]) -> Any:
    if node not in values:
        data = constant_data(node)
        values[node] = data.to(torch.float64) if data.is_floating_point() else data
    return values[node]


def region_behind(start: Node) -> Followed:
    inside, calls, cuts = {start}, list[Node](), list[Node]()
    node = start.next
    while node.op != "root" and len(calls) < MOST_CALLS:
        reads = [one for one in node.all_input_nodes if not is_constant(one)]
        if any(one in inside for one in reads):
            if node.op != "call_function" or not inside.issuperset(reads):
                break
            inside.add(node)
            calls.append(node)
            single = isinstance(VALUE.of(node), Tensor)  # a call with several results can't be a cut
            if single and all(inside.issuperset(one.users) for one in inside if one is not node):
                cuts.append(node)
        node = node.next
    return Followed(start, tuple(calls), tuple(cuts))


def chain_to(end: Node) -> list[Node]:
    """Returns `end` and the chain of calls before it that each read one tensor, back to an input or to a call that
    reads several."""
    found = [end]
    while found[-1].op == "call_function":
        reads = [one for one in found[-1].all_input_nodes if not is_constant(one)]
        if len(reads) != 1 or not isinstance(VALUE.of(reads[0]), Tensor):
            break
        found.append(reads[0])
    return found


def along(chain: Sequence[Node], start: Node) -> Function:
    """Returns the first node of a chain as a function of another node of the chain."""
    calls = tuple(reversed(chain[: chain.index(start)]))
    return Followed(start, calls, ()).to(chain[0])


def attempt(function: Function, value: Tensor) -> Tensor | None:
    """Returns the result of the calls on a value; None if they can't be run on it, or don't give finite real
    numbers."""
    try:
        found = function(value)
    except Exception:  # whatever torch raises: the calls don't match
        return None
    usable = isinstance(found, Tensor) and not found.is_complex()
    return found.to(torch.float64) if usable and bool(torch.isfinite(found).all()) else None


def close(a: Tensor, b: Tensor, least: float = 0.0) -> bool:
    """Compares element by element, relative to the larger magnitude of the two, or to `least` if that is larger."""
    size = torch.maximum(a.abs(), b.abs()).clamp(min=max(least, 1e-300))
    return a.shape == b.shape and bool(((a - b).abs() <= CLOSE * size).all())


# ---- where dimensions go -------------------------------------------------------------------------------------


def moved_axes(function: Function, value: Tensor, dims: Sequence[int]) -> list[int | None] | None:
    """Returns, for each of these dimensions of a value, the dimension of the result with the same index; None for one
    of size 1.

    Returns None instead of a list if a dimension goes to several, or is mixed with others.
    """
    base = attempt(function, value)
    found: list[int | None] = []
    for dim in dims:
        axis = None if base is None or value.shape[dim] == 1 else _moved(function, value, dim, base)
        if base is None or (axis is None and value.shape[dim] > 1):
            return None
        found.append(axis)
    axes = [axis for axis in found if axis is not None]
    return found if len(set(axes)) == len(axes) else None


def _moved(function: Function, value: Tensor, dim: int, base: Tensor) -> int | None:
    """Finds the dimension of the result that a dimension becomes, by changing the values at its last index."""
    last = value.shape[dim] - 1
    other = value.clone()
    other.select(dim, last).mul_(3.0)
    result = attempt(function, other)
    if result is None or result.shape != base.shape:
        return None
    changed = result != base
    for axis, size in enumerate(base.shape):
        others = [one for one in range(base.dim()) if one != axis]
        where = changed.any(dim=others) if others else changed
        if size == last + 1 and bool(where[last]) and int(where.sum()) == 1:
            return axis
    return None


def arranged(result: Tensor, axes: Sequence[int | None]) -> Tensor | None:
    """Permutes a result so that these dimensions come first, in this order, with the remaining one last."""
    kept = [axis for axis in axes if axis is not None]
    rest = [axis for axis in range(result.dim()) if axis not in kept]
    if sum(result.shape[axis] > 1 for axis in rest) > 1:
        return None
    sizes = [1 if axis is None else result.shape[axis] for axis in axes]
    return result.permute(*kept, *rest).reshape(*sizes, math.prod(result.shape[axis] for axis in rest))
