"""How masks move with the elements of a tensor, found by running the call on probes."""

import math
import operator
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node
from torch.fx.node import map_arg

from cortado.frontend.rewrite.mask_fact import hides, is_float, numbers_among
from cortado.frontend.rewrite.mask_places import Places, as_node, broadcast, compact, ranked, viewed
from cortado.ir.facts import VALUE
from cortado.ir.graph import add_call, computed_call, shape
from cortado.ir.matching import patterns_of
from cortado.ops.float_graph import add_constant, add_permute, constant_data, is_constant

Tensor = torch.Tensor

_MOST_MOVED = 1 << 24  # elements whose indices float32 holds exactly
_FAR = -(2.0**90)  # the factor of the second probe: a function with a limit gives other results


@dataclass(frozen=True)
class Movement:
    """A call whose result elements are elements of its operands, whatever their values, or constants of its own."""

    node: Node
    operands: tuple[Node, ...]
    sources: tuple[Tensor, ...]  # for each result: the index of the source element, from 1 on, over all operands
    own: tuple[Tensor, ...]  # for each result: the call's own number where the source is 0
    several: bool  # whether it gives a list of results


def movement(node: Node) -> Movement | None:
    """Finds the source of each element by probing, and checks it with other values; None if the call doesn't only
    move."""
    target: Any = node.target
    if not isinstance(target, OpOverload) or target.namespace != "aten" or not node.all_input_nodes:
        return None
    operands = tuple(one for one in node.all_input_nodes if not is_constant(one) or is_float(one))
    count = sum(math.prod(shape(one)) for one in operands if isinstance(VALUE.of(one), Tensor))
    if not all(is_float(one) for one in operands) or not 0 < count < _MOST_MOVED:
        return None

    def run(numbers: Tensor) -> list[Tensor] | None:
        parts = numbers.split([math.prod(shape(one)) for one in operands])
        given = {one: part.reshape(shape(one)) for one, part in zip(operands, parts, strict=True)}
        with torch.no_grad():
            result = computed_call(node, lambda one: given[one] if one in given else constant_data(one))
        results = list(result) if isinstance(result, list | tuple) else [result]
        return results if all(isinstance(one, Tensor) and one.dtype == torch.float32 for one in results) else None

    first = run(torch.arange(1, count + 1, dtype=torch.float32))
    others = (torch.randperm(count, generator=torch.Generator().manual_seed(0)) + 0.5 - count // 2) * _FAR
    second = None if first is None else run(others)
    if first is None or second is None:
        return None
    own = [torch.where(a == b, a, 0.0) for a, b in zip(first, second, strict=True)]
    moved = [torch.where(a == b, 0.0, a) for a, b in zip(first, second, strict=True)]
    if not all(bool(((one >= 0) & (one <= count) & (one == one.floor())).all()) for one in moved):
        return None
    known = torch.cat([torch.zeros(1), others])
    sources = tuple(one.long() for one in moved)
    if not all(torch.equal(known[a] + c, b) for a, b, c in zip(sources, second, own, strict=True)):
        return None
    return Movement(node, operands, sources, tuple(own), isinstance(VALUE.of(node), list | tuple))


def _again(move: Movement, operands: dict[Node, Node]) -> Node:
    """Repeats a movement on other tensors, with fills for infinity replaced by 0."""
    target: Any = move.node.target
    given = numbers_among(move.node, lambda number: 0.0 if hides(number) else number)
    args, kwargs = map_arg(given, lambda one: operands.get(one, one))
    return add_call(move.node, target, *args, **kwargs)


def moved_visible(move: Movement, visible: dict[Node, Node | None]) -> Node:
    """Repeats a movement on the visible values of the operands."""
    return _again(
        move,
        {
            one: found if found is not None else add_constant(move.node, "zeros", torch.zeros(shape(one)))
            for one, found in visible.items()
        },
    )


def moved_places(move: Movement, operand: Node, places: Places) -> tuple[Places, ...]:
    """Returns the places after the movement, given places of one operand."""
    if places.constant is not None:
        return tuple(compact(Places(one)) for one in _carried(move, {operand: places.constant}, False))
    node, small = move.node, _moved_small(move, operand, ranked(move.node, places, len(shape(operand))))
    if small is not None:
        return small
    nowhere = {one: torch.zeros(shape(one), dtype=torch.bool) for one in move.operands if one is not operand}
    given = {one: add_constant(node, "nowhere", data) for one, data in nowhere.items()}
    result = _again(move, {**given, operand: as_node(node, broadcast(node, places, shape(operand)))})
    if not move.several:
        return (Places(result),)
    return tuple(Places(add_call(node, operator.getitem, result, place)) for place in range(len(move.sources)))


def _carried(move: Movement, values: dict[Node, Tensor], default: int) -> list[Tensor]:
    """Returns values, given for the elements of some operands, at the elements of the results; the default
    elsewhere."""
    kind = next(iter(values.values())).dtype
    flat = [
        values.get(one, torch.full((1,), default, dtype=kind)).expand(shape(one)).reshape(-1) for one in move.operands
    ]
    known = torch.cat([torch.full((1,), default, dtype=kind), *flat])
    return [known[source] for source in move.sources]


def _moved_small(move: Movement, operand: Node, places: Places) -> tuple[Places, ...] | None:
    """Moves a computed mask without expanding it, if the movement takes each of its elements, in an order of its
    dimensions."""
    like, kept = move.node, [size for size in places.sizes if size > 1]
    count = math.prod(kept)
    numbers = torch.arange(1, count + 1)
    results = []
    for found in _carried(move, {operand: numbers.reshape(places.sizes)}, 0):
        small = compact(Places(found)).data
        assert isinstance(small, Tensor)
        orders = permutations(range(len(kept))) if small.numel() == count else ()
        same = (one for one in orders if torch.equal(numbers.reshape(kept).permute(one).flatten(), small.flatten()))
        order = next(same, None)
        if order is None:
            return None
        if list(order) != sorted(order):
            turned = add_permute(like, as_node(like, viewed(like, places, kept)), order)
            results.append(viewed(like, Places(turned), small.shape))
        else:
            results.append(viewed(like, places, small.shape))
    return tuple(results)


class Unmoved:
    """For tensors of moved elements, the tensor that they come from, and their places in it; -1: unused."""

    def __init__(self) -> None:
        self._known: dict[Node, tuple[Node, Tensor]] = {}

    def _of(self, node: Node) -> tuple[Node, Tensor]:
        if node not in self._known:
            move = movement(node) if any(pattern.moves for pattern in patterns_of(node.target)) else None
            found = None if move is None or move.several else self._before(move, torch.tensor(False))
            self._known[node] = found or (node, torch.arange(math.prod(shape(node))).reshape(shape(node)))
        return self._known[node]

    def _before(self, move: Movement, gone: Tensor) -> tuple[Node, Tensor] | None:
        known = {one: self._of(one) for one in move.operands}
        roots = list({root: None for root, _ in known.values()})
        (places,) = _carried(move, {one: index for one, (_, index) in known.items()}, -1)
        (owners,) = _carried(move, {one: torch.tensor(roots.index(root)) for one, (root, _) in known.items()}, -1)
        if bool(((owners < 0) & ~gone).any()):  # it has numbers of its own
            return None
        places = torch.where(gone, -1, places)
        read = owners[places >= 0].unique().tolist()
        return (roots[read[0]], places) if len(read) == 1 else None

    def same(self, move: Movement, gone: Tensor) -> Node | None:
        """Returns the tensor that equals the result in all places except those that are gone."""
        found = self._before(move, gone)
        if found is None:
            return None
        root, places = self._known[move.node] = found
        if shape(root) != shape(move.node):
            return None
        here = torch.arange(places.numel()).reshape(places.shape)
        return root if bool(((places == here) | (places < 0)).all()) else None
