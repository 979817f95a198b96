"""Sums of a spectrum that are read only by functions that compress their range.

A cube root of bands, `10 * log10(bands / bands.max())`: int8 codes of such sums resolve only the largest, codes of
their logarithms all alike. The sums become exp(logarithms), and the exponential and what follows it become a table of
the logarithms. The largest of the sums is the exponential of the largest logarithm.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch.fx import Node

from cortado.ir.graph import add_call, bind, is_call, shape
from cortado.ops.elementwise.pointwise import is_pointwise, operands
from cortado.ops.float_graph import parts_of
from cortado.ops.probing import Followed, attempt

aten = torch.ops.aten

_DECADES = [10.0**power for power in range(-8, 9)]
MOST_OF_IT = 0.85  # of a function's range, within one decade; a square root has 0.68, a linear function 0.9
_MORE_THAN_A_ROOT = 0.6
_LOGARITHMS: dict[Any, Any] = {
    aten.log.default: torch.log,
    aten.log10.default: torch.log10,
    aten.log2.default: torch.log2,
}
_QUIET, _UNSEEN, _SMALLEST = 1e-5, 1e-4, 1e-14  # relative to the largest sum, or to the function
_LARGEST = (aten.amax.default, aten.max.default, aten.max.dim)


def compressed(sums: Node, largest: float, *, root: bool) -> float | None:
    """Returns the smallest sum whose logarithm is needed, if all functions of single sums, or of the largest of them,
    compress; None otherwise. `largest`: the largest sum for a signal of amplitude 1. `root`: whether the sums' square
    root would do without logarithms, so that functions have to compress more than it does."""
    followed = _followed(sums)
    _part_quotients(sums, followed)
    followed = _followed(sums)
    ends = [node for node in followed if any(not _follows(user, node) for user in node.users)]
    functions = [_Function(Followed(sums, tuple(sorted(followed[1:])), ()), end) for end in ends]
    if not all(one.end is not sums and one.compresses() for one in functions):
        return None
    if root and any(one.loudest_decade(largest) > _MORE_THAN_A_ROOT for one in functions):
        return None
    return min(one.floor(largest) for one in functions)


def _followed(sums: Node) -> list[Node]:
    """Returns sums and the calls that are functions of each, or of the largest of them."""
    found = [sums]
    for node in found:
        found += [user for user in node.users if _follows(user, node) and user not in found]
    return found


def _part_quotients(sums: Node, followed: Sequence[Node]) -> None:
    """Writes the logarithm of a quotient of two functions of sums as a difference of logarithms: the quotient's codes
    would resolve only the largest."""
    region = Followed(sums, tuple(sorted(followed[1:])), ())
    for quotient in [user for node in followed for user in node.users if is_call(user, aten.div.Tensor)]:
        operands_of = [one for one in quotient.args if isinstance(one, Node) and one in followed]
        clamps = [user for user in quotient.users if _least(user) > 0.0]
        logarithms = [user for one in (quotient, *clamps) for user in one.users if is_call(user, *_LOGARITHMS)]
        alone = len(quotient.users) == 1 and len(logarithms) == sum(len(one.users) for one in clamps or [quotient])
        if len(operands_of) != 2 or not alone or any(_Function(region, one).least() < 0.0 for one in operands_of):
            continue
        for call in logarithms:
            with call.graph.inserting_before(call):
                call.replace_all_uses_with(_difference(call, operands_of, clamps))
            call.graph.erase_node(call)
        for call in (*clamps, quotient):
            call.graph.erase_node(call)


def _difference(logarithm: Node, parts: Sequence[Node], clamps: Sequence[Node]) -> Node:
    target: Any = logarithm.target
    above, below = (add_call(logarithm, target, part) for part in parts)
    found = add_call(logarithm, aten.sub.Tensor, above, below)
    for clamp in clamps:
        bound = _LOGARITHMS[target](torch.tensor(_least(clamp), dtype=torch.float64))
        found = add_call(logarithm, aten.clamp.default, found, float(bound))
    return found


def _least(node: Node) -> float:
    """Returns the number that a call keeps values above; 0 if it does something else."""
    if not is_call(node, aten.clamp.default, aten.clamp_min.default):
        return 0.0
    bound = bind(node)
    least = bound.get("min")
    return float(least) if isinstance(least, int | float) and bound.get("max") is None else 0.0


@dataclass(frozen=True)
class _Function:
    """The result of a call as a function of sums that are all the same number."""

    region: Followed
    end: Node

    def at(self, number: float) -> float | None:
        found = attempt(self.region.to(self.end), torch.full(shape(self.region.start), number, dtype=torch.float64))
        return None if found is None or not found.numel() else float(found.flatten()[0])

    def least(self) -> float:
        """Returns the smallest value of all magnitudes; minus infinity if one has none."""
        found = [self.at(number) for number in (0.0, *_DECADES)]
        return min((-math.inf if one is None else one for one in found), default=-math.inf)

    def compresses(self) -> bool:
        if self.end.target == aten.max.dim:
            return False
        values = [self.at(number) for number in _DECADES]
        found = [value for value in values if value is not None]
        steps = [after - before for before, after in pairwise(found)]
        rises = len(found) == len(_DECADES) and all(step >= 0 for step in steps)
        return rises and 0 < max(steps) <= MOST_OF_IT * (found[-1] - found[0])

    def loudest_decade(self, largest: float) -> float:
        """Returns the part of the range below the largest sum that its highest decade takes."""
        found = [value for value in (self.at(part * largest) for part in (1e-6, 0.1, 1.0)) if value is not None]
        return (found[2] - found[1]) / (found[2] - found[0]) if len(found) == 3 and found[2] > found[0] else 1.0

    def floor(self, largest: float) -> float:
        """Returns a sum so small that its function value can't be told from that of 0, relative to that of a quiet
        signal."""
        silent, quiet = self.at(0.0), self.at(_QUIET * largest)
        if silent is None or quiet is None:
            return _SMALLEST * largest
        for part in (10.0**-power for power in range(6, 36)):
            found = self.at(part * largest)
            if found is None or found - silent <= _UNSEEN * (quiet - silent):
                return part * largest
        return _SMALLEST * largest


def _follows(user: Node, node: Node) -> bool:
    """Whether a call is a function of each number, or takes the largest and only its value is read."""
    if is_call(user, aten.max.dim):
        return not parts_of(user, 1)
    if node.target == aten.max.dim:
        return True
    return is_call(user, *_LARGEST) or (is_pointwise(user) and operands(user) == [node])


def written_in_logarithms(sums: Node, logarithms: Node) -> Node:
    """Returns the exponential of logarithms, which replaces the sums; a maximum of the sums is taken of the logarithms
    instead, before the calls that lead to it."""
    for node, chain in list(_largest_of(sums, [])):
        found = _largest(node, logarithms)
        for call in [None, *chain]:
            found = add_call(node, aten.exp.default, found) if call is None else _again(call, found)
        given = parts_of(node, 0) if is_call(node, aten.max.dim) else [node]
        for one in given:
            one.replace_all_uses_with(found)
    return add_call(logarithms, aten.exp.default, logarithms)


def _largest_of(node: Node, chain: Sequence[Node]) -> list[tuple[Node, Sequence[Node]]]:
    """Finds the calls that take the largest value of a chain of functions of a node."""
    found: list[tuple[Node, Sequence[Node]]] = []
    for user in node.users:
        if is_call(user, *_LARGEST):
            found.append((user, chain))
        elif _follows(user, node):
            found += _largest_of(user, [*chain, user])
    return found


def _largest(node: Node, source: Node) -> Node:
    bound = bind(node)
    dims = bound.get("dim", [])
    given = [dims] if isinstance(dims, int) else list(dims)
    return add_call(node, aten.amax.default, source, given, bool(bound.get("keepdim", False)))


def _again(call: Node, source: Node) -> Node:
    """Adds the same call on another tensor."""
    (operand,) = operands(call)
    args = [source if one is operand else one for one in call.args]
    return add_call(call, call.target, *args, **call.kwargs)
