"""The memory order of every tensor's dimensions, chosen so that few bytes have to be transposed.

A convolution works in one order. An addition, a table, a slice or a concatenation works in any, as long as its operands
agree; a transpose only renames dimensions; a reshape propagates an order if it splits or merges dimensions that are
adjacent in memory. Where a tensor's order differs from its reader's, it is transposed.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from cortado.ir.facts import USER_INPUT, VALUE
from cortado.ir.graph import constant_names, shape
from cortado.ir.op import Operator, dequantizes, operator_of, quantizes
from cortado.ops.move.reshape import TRANSPOSE, VIEW

Order = tuple[int, ...]  # a tensor's dimensions, outermost in memory first

TRANSPOSE_OVERHEAD = 64  # bytes that one more transpose must save
BORDER_WEIGHT = 0.5  # next to an input or output a transpose is free in the C bundle: the caller sees the other order


def is_a(node: Any, operator: Operator) -> bool:
    return isinstance(node, Node) and node.op == "call_function" and operator_of(node.target) is operator


def plain(node: Node) -> Order:
    """Returns the identity order of a tensor's dimensions."""
    return tuple(range(len(sizes_of(node))))


def sizes_of(node: Node) -> tuple[int, ...]:
    """Returns the shape of a node; () for a float call with several results."""
    return shape(node) if isinstance(VALUE.of(node), torch.Tensor) else ()


def inverse(order: Order) -> Order:
    return tuple(order.index(dim) for dim in range(len(order)))


def operands(node: Node) -> list[Node]:
    """Returns the tensors a call works on, without its weights and tables."""
    operator = operator_of(node.target)
    assert operator is not None
    found: list[Node] = []
    for name in operator.tensors:
        value: Any = node.kwargs[name]
        found.extend(value if isinstance(value, list | tuple) else [value])
    return found


def behind_views(node: Node) -> Node:
    """Returns the value whose bytes a view, or a view of a view, shares."""
    while node.op == "call_function" and (operator := operator_of(node.target)) is not None and operator.view:
        node = operands(node)[0]
    return node


# ---- the relation of a node's order and its operands' --------------------------------------------------------


@dataclass(frozen=True)
class Link:
    """An operand, with the maps from the node's order to its order (`up`) and back (`down`). None: the node can't have
    that order."""

    operand: Node
    up: Callable[[Order], Order | None]
    down: Callable[[Order], Order | None]


def links_of(node: Node) -> list[Link] | None:
    """Returns a link for each operand; None for a node that works in one order only."""
    operator = operator_of(node.target) if node.op == "call_function" else None
    if operator is TRANSPOSE:
        perm: Any = node.kwargs["perm"]
        back = inverse(tuple(perm))
        return [Link(operands(node)[0], lambda o: tuple(perm[d] for d in o), lambda o: tuple(back[d] for d in o))]
    if operator is VIEW:
        return None if feeds_linear(node) else [_view_link(node)]
    if operator is None or operator.relayout is None or _broadcasts(node) or _enters(node) or _leaves(node):
        return None
    relayout = operator.relayout
    if relayout(node.kwargs, plain(node)) is None:
        return None

    def up(order: Order) -> Order | None:
        return None if relayout(node.kwargs, inverse(order)) is None else order

    return [Link(operand, up, lambda order: order) for operand in operands(node)]


def _enters(node: Node) -> bool:
    """Whether a call quantizes an input of the model: callers of the C bundle give its codes."""
    return quantizes(node) and any(USER_INPUT.known(source) for source in node.all_input_nodes)


def _leaves(node: Node) -> bool:
    """Whether a call dequantizes an output of the model: callers of the C bundle get its codes."""
    return dequantizes(node) and any(user.op == "output" for user in node.users)


def _broadcasts(node: Node) -> bool:
    """Whether operands, other than those of a list, have different shapes: the kernel then relies on the position of
    their dimensions."""
    named = [value for value in node.kwargs.values() if isinstance(value, Node)]
    return len({shape(operand) for operand in operands(node) if operand in named}) > 1


# ---- reshapes ------------------------------------------------------------------------------------------------

Dims = tuple[int, ...]


def view_groups(before: Dims, after: Dims) -> list[tuple[Dims, Dims]]:
    """Returns the adjacent dimensions of a reshape's input and those of its output that hold the same elements.

    The groups are minimal and in order. Dimensions of size 1 belong to none.
    """
    old = [dim for dim, size in enumerate(before) if size != 1]
    new = [dim for dim, size in enumerate(after) if size != 1]
    groups = []
    while old:
        left, right = [old.pop(0)], [new.pop(0)]
        a, b = before[left[0]], after[right[0]]
        while a != b:
            if a < b:
                left.append(old.pop(0))
                a *= before[left[-1]]
            else:
                right.append(new.pop(0))
                b *= after[right[-1]]
        groups.append((tuple(left), tuple(right)))
    return groups


def carry(order: Order, groups: Iterable[tuple[Dims, Dims]], sizes: Dims) -> Order | None:
    """Maps an order of the left sides to one of the right sides; None if it separates a group.

    `sizes` are the right tensor's. Its dimensions of size 1 are in no group; each goes after its left neighbour.
    """
    starts = {left[0]: (left, right) for left, right in groups}
    grouped = {dim for left, _ in starts.values() for dim in left}
    rest = tuple(dim for dim in order if dim in grouped)
    result: list[int] = []
    while rest:
        left, right = starts.get(rest[0], ((), ()))
        if not left or rest[: len(left)] != left:
            return None
        result += right
        rest = rest[len(left) :]
    for dim in [dim for dim, size in enumerate(sizes) if size == 1]:
        result.insert(result.index(dim - 1) + 1 if dim else 0, dim)
    return tuple(result)


def _view_link(node: Node) -> Link:
    source = operands(node)[0]
    before, after = shape(source), shape(node)
    groups = view_groups(before, after)
    flipped = [(right, left) for left, right in groups]
    channels = channels_split(node)

    def up(order: Order) -> Order | None:
        if channels and others_stay(order, channels, after):
            return plain(source)  # the linear layer computes its channels in that order
        return carry(order, flipped, before)

    return Link(source, up, lambda order: carry(order, groups, after))


def linear_constants(node: Node) -> tuple[str, ...]:
    """Returns the constants of a linear layer, weights first; () for other calls.

    A 1x1 convolution over all channels is linear: channels can be in any order if its constants are in the same one.
    """
    operator = operator_of(node.target) if node.op == "call_function" else None
    names = operator.channel_constants if operator is not None else ()
    weights = node.kwargs[names[0]] if names else None
    if not isinstance(weights, Node) or weights.op != "placeholder":
        return ()
    _, *window, channels = shape(weights)
    return names if all(size == 1 for size in window) and channels == shape(operands(node)[0])[-1] else ()


def feeds_linear(node: Node) -> bool:
    """Whether a node is a reshape read only by linear layers: it can merge dimensions into their channels in any
    order."""
    users = list(node.users)
    return is_a(node, VIEW) and bool(users) and all(linear_constants(user) for user in users)


def channels_merged(node: Node) -> Dims:
    """Returns the dimensions that a reshape before linear layers merges into their channels."""
    source = operands(node)[0]
    groups = view_groups(shape(source), shape(node)) if feeds_linear(node) else []
    return groups[-1][0] if groups and groups[-1][1] == (len(shape(node)) - 1,) else ()


def channels_split(node: Node) -> Dims:
    """Returns the dimensions into which a reshape, the only reader of a linear layer, splits its channels."""
    source = operands(node)[0]
    groups = view_groups(shape(source), shape(node)) if linear_constants(source) else []
    alone = len(source.users) == 1
    return groups[-1][1] if groups and alone and groups[-1][0] == (len(shape(source)) - 1,) else ()


def others_stay(order: Order, dims: Dims, sizes: Dims) -> bool:
    """Whether all other dimensions are in their places, and these come last, in any order."""
    seen = [dim for dim in order if sizes[dim] != 1]
    return seen[: len(seen) - len(dims)] == sorted(set(seen) - set(dims))


# ---- the choice ----------------------------------------------------------------------------------------------


class Orders:
    """The order of every node of a lowered graph."""

    def __init__(self, program: ExportedProgram) -> None:
        self.constants = set(constant_names(program))
        nodes = [node for node in program.graph_module.graph.nodes if node.op != "output"]
        self.of: dict[Node, Order] = {node: plain(node) for node in nodes}
        found = {node: links_of(node) for node in nodes}
        self.links = {node: links for node, links in found.items() if links is not None}
        self._plain = dict(self.of)
        self._visible = {node: [size != 1 for size in sizes_of(node)] for node in nodes}
        self.trials = 0  # nodes whose cost was tried with another order
        # Orders that don't help a region, by its nodes, until something changes: not to be tried again from each of
        # them.
        self._useless: dict[Node, set[Order]] = {}

    def choose(self) -> None:
        """Chooses an order for every node: first by its operands, then by improvement. Never worse than the graph as
        written."""
        written = self._cost_around(self.links)
        for node in self.links:
            self.of[node] = min(self._candidates(node, []), key=lambda order: self._operand_bytes(node, order))
        self._improve_all()
        if self._cost_around(self.links) > written:
            self.of = dict(self._plain)
            self._improve_all()

    def _improve_all(self) -> None:
        """Changes single nodes, and whole regions of one order, while that helps."""
        improving = True
        while improving:
            improving = False
            for node in self.links:
                improving |= self._improve([node])
                if self._untried(node):
                    improving |= self._improve(self._region(node))

    def needs(self, node: Node) -> list[tuple[Node, Order]]:
        """Returns every operand except constants other than a kernel's tensors, with the order in which the node reads
        it."""
        if node in self.links:
            return [(link.operand, _known(link.up(self.of[node]))) for link in self.links[node]]
        if is_a(node, VIEW):
            return [(operands(node)[0], self._flattened_order(node))]
        return [(one, self._plain[one]) for one in node.all_input_nodes if one.name not in self.constants]

    def _flattened_order(self, node: Node) -> Order:
        """Returns the order that a linear layer reads through a reshape: the present one, if its weights can be
        permuted to it."""
        source = operands(node)[0]
        order = self.of[source]
        return order if others_stay(order, channels_merged(node), shape(source)) else self._plain[source]

    # ---- cost

    def seen(self, node: Node, order: Order) -> Order:
        """Returns the part of an order that matters in memory: without dimensions of size 1."""
        visible = self._visible[node]
        return tuple(dim for dim in order if visible[dim])

    def cost(self, node: Node) -> float:
        """Returns the bytes that are transposed because readers want this node in another order."""
        if node.name in self.constants:
            return 0.0
        readers: dict[Order, list[Node]] = {}
        for user in node.users:
            for operand, order in self.needs(user):
                if operand is node:
                    readers.setdefault(self.seen(node, order), []).append(user)
        total = 0.0
        for order, users in readers.items():
            if order != self.seen(node, self.of[node]):
                entry = _enters(node) or USER_INPUT.known(node)
                border = (entry and len(readers) == 1) or all(_leaves(user) for user in users)
                total += TRANSPOSE_OVERHEAD + _bytes(node) * (BORDER_WEIGHT if border else 1.0)
        return total

    def _operand_bytes(self, node: Node, order: Order) -> float:
        total = 0
        for link in self.links[node]:
            source = link.operand
            fits = self.seen(source, _known(link.up(order))) == self.seen(source, self.of[source])
            total += 0 if fits or source.name in self.constants else _bytes(source)
        return total

    # ---- moves

    def _candidates(self, node: Node, users: Iterable[Node]) -> list[Order]:
        """Returns orders in which the node takes an operand as it is, or gives a user what it needs."""
        links = self.links[node]
        orders = [link.down(self.of[link.operand]) for link in links if link.operand.name not in self.constants]
        orders += [order for user in users for operand, order in self.needs(user) if operand is node]
        tried = dict.fromkeys(order for order in (*orders, self._plain[node]) if order is not None)
        return [order for order in tried if self._possible(node, order)]

    def _possible(self, node: Node, order: Order) -> bool:
        return all(link.up(order) is not None for link in self.links[node])

    def _region(self, start: Node) -> list[Node]:
        """Returns the free nodes around one that no transpose separates from it; each after a neighbour of it."""
        region, waiting = {start: None}, [start]
        while waiting:
            node = waiting.pop()
            for other in self._neighbours(node):
                if other not in region:
                    region[other] = None
                    waiting.append(other)
        return list(region)

    def _neighbours(self, node: Node) -> list[Node]:
        above = [(node, link.operand) for link in self.links[node]]
        below = [(user, node) for user in node.users]
        found = []
        for reader, source in (*above, *below):
            other = source if reader is node else reader
            agree = any(
                operand is source and self.seen(source, order) == self.seen(source, self.of[source])
                for operand, order in self.needs(reader)
            )
            if other in self.links and agree:
                found.append(other)
        return found

    def _untried(self, node: Node) -> bool:
        """Whether the region of a node could have an order that was not tried from another of its nodes."""
        useless = self._useless.get(node, set())
        return any(o != self.of[node] and o not in useless for o in self._candidates(node, node.users))

    def _improve(self, region: list[Node]) -> bool:
        """Gives a region (its first node, and the others with it) a better order; False if there is none."""
        first, changed = region[0], False
        for order in self._candidates(first, first.users):
            if order == self.of[first]:
                continue
            self.trials += len(region)
            before = {node: self.of[node] for node in region}
            cost = self._cost_around(region)
            everywhere = self._carry(region, order) == len(region)
            if self._cost_around(region) < cost:
                changed = True
                self._useless.clear()
            else:
                if everywhere and len(region) > 1 and self._fits_together(region):
                    for node in region:
                        self._useless.setdefault(node, set()).add(self.of[node])
                self.of.update(before)
        return changed

    def _fits_together(self, region: list[Node]) -> bool:
        """Whether every link inside the region maps the orders of its two nodes to each other.

        Then it does not matter from which node the order was propagated.
        """
        inside = set(region)
        return all(
            link.down(self.of[link.operand]) == self.of[node] and link.up(self.of[node]) == self.of[link.operand]
            for node in region
            for link in self.links[node]
            if link.operand in inside
        )

    def _carry(self, region: list[Node], order: Order) -> int:
        """Propagates an order from the first node along the links as far as possible; returns how many nodes it
        reached."""
        self.of[region[0]] = order
        done = {region[0]}
        for node in region[1:]:
            above = [link.down(self.of[link.operand]) for link in self.links[node] if link.operand in done]
            users = [user for user in node.users if user in done]
            below = [link.up(self.of[user]) for user in users for link in self.links[user] if link.operand is node]
            fitting = [o for o in (*above, *below) if o is not None and self._possible(node, o)]
            if fitting:
                self.of[node] = fitting[0]
                done.add(node)
        return len(done)

    def _cost_around(self, nodes: Iterable[Node]) -> float:
        touched = dict.fromkeys(other for node in nodes for other in (node, *operands(node)))
        return sum(self.cost(node) for node in touched)


def _known(order: Order | None) -> Order:
    assert order is not None
    return order


def _bytes(node: Node) -> int:
    value = VALUE.must(node)
    return int(value.numel()) * int(value.dtype.itemsize)
