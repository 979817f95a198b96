"""nn.LSTMCell, nn.GRUCell, nn.RNNCell: a layer of one step; cells in a loop over a sequence become one layer."""

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from cortado.ir.graph import Bound, add_call, bind, is_call, shape
from cortado.ir.op import Rewrite
from cortado.ops.float_graph import add_permute, add_view, parts_of, replace_result
from cortado.ops.recurrent.forms import CELL_PARAMETERS, add_layer, erase_call, is_zero

aten = torch.ops.aten

CELLS = (aten.lstm_cell.default, aten.gru_cell.default, aten.rnn_tanh_cell.default, aten.rnn_relu_cell.default)


@dataclass(frozen=True)
class _Place:
    """The position of a value in a sequence: `index` along its dimension `dim`."""

    sequence: Node
    dim: int
    index: int


@dataclass(frozen=True)
class _Loop:
    """Cells, each reading the state of the one before it, and the positions of a sequence that they read in turn."""

    cells: list[Node]
    places: list[_Place]

    @property
    def reverse(self) -> bool:
        return bool(self.places) and self.places[0].index > self.places[-1].index

    @property
    def first(self) -> int:
        return min(place.index for place in self.places)


def cell_to_layer(bound: Bound) -> None:
    """Rewrites the cells of a loop as one layer, any other cell as a layer of one step, and replaces all results that
    are read."""
    node, loop, states = bound.node, _loop(bound.node), _states(bound)
    batch, units = shape(states[0]) if len(shape(states[0])) == 2 else (1, *shape(states[0]))
    source = _steps(loop) if loop.places else add_view(node, bound["input"], (batch, 1, shape(bound["input"])[-1]))
    start = [state if is_zero(state) else add_view(node, state, (batch, units)) for state in states]
    layer = add_layer(node, source, [bound[name] for name in CELL_PARAMETERS], start, loop.reverse)
    hidden = _replace_all(loop, 0, layer.output, shape(states[0]))
    if layer.cells is not None:
        _replace_all(loop, 1, layer.cells, shape(states[0]))
    _join_again(node, hidden, layer.output)
    for cell in loop.cells:
        erase_call(cell)


def _states(bound: Bound) -> list[Node]:
    return list(bound["hx"]) if isinstance(bound["hx"], list | tuple) else [bound["hx"]]


# ---- loops ---------------------------------------------------------------------------------------------------


def _loop(cell: Node) -> _Loop:
    """Returns the loop that starts with a cell; without positions if it is the only cell."""
    cells, places = [cell], [_place(bind(cell)["input"])]
    while (following := _following(cells[-1])) is not None:
        place = _place(bind(following)["input"])
        if not _goes_on(places, place):
            break
        cells.append(following)
        places.append(place)
    known = [place for place in places if place is not None]
    return _Loop(cells, known if len(cells) > 1 else [])


def _following(cell: Node) -> Node | None:
    """Returns the one cell with the same parameters that reads this one's state."""
    several = cell.target == aten.lstm_cell.default
    hidden = parts_of(cell, 0) if several else [cell]
    found = [
        user
        for part in hidden
        for user in part.users
        if user.target == cell.target and _parameters(user) == _parameters(cell) and _takes(user, cell, part)
    ]
    return found[0] if len(found) == 1 else None


def _takes(user: Node, cell: Node, hidden: Node) -> bool:
    states = _states(bind(user))
    return states[0] is hidden and (len(states) == 1 or states[1] in parts_of(cell, 1))


def _parameters(cell: Node) -> list[Any]:
    bound = bind(cell)
    found = [bound[name] for name in CELL_PARAMETERS]
    return [node.target if isinstance(node, Node) and node.op == "get_attr" else node for node in found]


def _goes_on(places: Sequence[_Place | None], place: _Place | None) -> bool:
    """Whether a position directly precedes or follows the last one, in the direction of the loop."""
    last = places[-1]
    if place is None or last is None or (place.sequence, place.dim) != (last.sequence, last.dim):
        return False
    move, before = place.index - last.index, places[-2] if len(places) > 1 else None
    return move in (1, -1) and (before is None or move == last.index - before.index)


def _place(node: Node) -> _Place | None:
    node = _whole(node)
    if is_call(node, operator.getitem) and is_call(node.all_input_nodes[0], aten.unbind.int):
        bound = bind(node.all_input_nodes[0])
        index: Any = node.args[1]
    elif is_call(node, aten.select.int):
        bound = bind(node)
        index = bound["index"]
    else:
        return None
    sequence = _whole(bound["self"])
    sizes, dim = shape(sequence), int(bound["dim"]) % len(shape(sequence))
    return _Place(sequence, dim, int(index) % sizes[dim]) if len(sizes) in (2, 3) else None


def _whole(node: Node) -> Node:
    """Returns the tensor that slices read that leave nothing out, as in x[:, t, :]."""
    while is_call(node, aten.slice.Tensor) and shape(node) == shape(node.all_input_nodes[0]):
        node = node.all_input_nodes[0]
    return node


# ---- as one layer --------------------------------------------------------------------------------------------


def _steps(loop: _Loop) -> Node:
    """Returns the input of a loop, as [batch, steps, channels]."""
    like, place = loop.cells[0], loop.places[0]
    sequence, dim, count = place.sequence, place.dim, len(loop.cells)
    if count < shape(sequence)[dim]:
        sequence = add_call(like, aten.slice.Tensor, sequence, dim, loop.first, loop.first + count)
    others = [axis for axis in range(len(shape(sequence))) if axis != dim]
    ordered = add_permute(like, sequence, (*others[:-1], dim, others[-1]))
    return ordered if others[1:] else add_view(like, ordered, (1, *shape(ordered)))


def _replace_all(loop: _Loop, position: int, result: Node, sizes: tuple[int, ...]) -> list[Node]:
    """Replaces a result of every cell by the layer's at that step; returns the new results in the order of the
    sequence."""
    found: dict[int, Node] = {}
    for number, cell in enumerate(loop.cells):
        step = loop.places[number].index - loop.first if loop.places else 0
        new = add_call(cell, aten.select.int, result, 1, step) if loop.places else result
        found[step] = add_view(cell, new, sizes)
        if cell.target == aten.lstm_cell.default:
            replace_result(cell, position, found[step])
        else:
            cell.replace_all_uses_with(found[step])
    return [found[step] for step in sorted(found)]


def _join_again(like: Node, hidden: Sequence[Node], output: Node) -> None:
    """Replaces a stack of the states of all steps by the layer's output."""
    for user in [user for user in hidden[0].users if len(hidden) > 1]:
        if is_call(user, aten.stack.default) and list(bind(user)["tensors"]) == list(hidden):
            rank = len(shape(hidden[0]))
            dim = int(bind(user)["dim"]) % (rank + 1)
            order = [axis for axis in range(rank + 1) if axis != rank - 1]
            order.insert(dim, rank - 1)  # the steps, which precede the units
            steps = output if rank == 2 else add_view(like, output, shape(output)[1:])
            user.replace_all_uses_with(add_permute(like, steps, order))
            user.graph.erase_node(user)


CELL_REWRITE = Rewrite(aten=CELLS, rewrite=cell_to_layer, any_element=True)
