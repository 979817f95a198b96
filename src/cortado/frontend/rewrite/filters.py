"""Filters with feedback, as models write them: a loop over samples, with its memory in buffers or in the window.

How a filter is written doesn't matter: the calls between a signal and a result are run in float64 on chosen signals and
states. If they are a linear time-invariant filter, its poles and zeros are identified, and one call replaces them all.
Its state then has 32 bits and replaces the model's buffers.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.fx import Graph, GraphModule, Node

from cortado.base.errors import Refused
from cortado.frontend.precision.elements import loops_of
from cortado.frontend.rewrite.filter_probes import SampleBlock, TimeLayout, block_of, layouts, matrix_of, runs_like
from cortado.frontend.rewrite.state import StateBuffer, becomes, user_outputs
from cortado.ir.facts import STATE, VALUE, Lasting, dtype
from cortado.ir.graph import add_call, describe, fake_mode_of, output_node, shape
from cortado.ops.float_graph import add_permute, add_view, is_constant
from cortado.ops.meaning import CallKind, means
from cortado.ops.signal.filter import FILTER_OF, FILTER_STATE, WORDS
from cortado.ops.signal.input_codes import KINDS, SAMPLES_OF
from cortado.ops.signal.sections import Section, Unstable, noise_gain, sections_of

aten = torch.ops.aten

_SHORTEST = 16  # samples of a window that suffice to identify a filter
_MOST_CUTS = 24  # ends that are tried
_MOST_BEFORE = 6  # calls before the signal that can be part of the filter
_FORGETS = 16.0  # up to this noise gain, 16-bit codes suffice for a loop of one sample per call
_FLOAT32 = 2.0**-21  # the rounding error of a section's sums in float32, relative to the largest
_OUTSIDE = 1.0 + 1e-6  # the magnitude of a pole that is certainly outside the unit circle


@dataclass(frozen=True)
class Between:
    """The calls between a signal and an end, which also read and change some states."""

    signal: Node
    end: Node
    states: tuple[Node, ...]
    results: tuple[Node, ...]


@dataclass(frozen=True)
class Recurrence:
    between: Between
    layout: TimeLayout
    sections: tuple[Section, ...]


@dataclass(frozen=True)
class TakenFilters:
    """The state of a graph after its filters became calls, and the error of the float32 model itself, relative to its
    largest output."""

    state: tuple[StateBuffer, ...]
    drift: float


def take_filters(module: GraphModule, state: Sequence[StateBuffer]) -> TakenFilters:
    """Replaces each filter with feedback by one call, in a canonical graph, in place."""
    graph, kept, drift = module.graph, tuple(state), 0.0
    tried: set[Node] = set()
    while True:
        loops = [loop for loop in loops_of(graph) if not tried.issuperset(loop.states)] if kept else []
        if not loops:
            break
        tried.update(loops[0].states)
        found = None if loops[0].only_moves else _of_loop(graph, loops[0].calls)
        if found is not None:
            kept, drift = _replace(found, kept), drift + _drift(found)
    for node in [node for node in graph.nodes if _is_taken_apart(node)]:
        found = None if node._erased else _searched(graph, node, ())
        if found is not None:
            kept, drift = _replace(found, kept), drift + _drift(found)
    module.recompile()
    return TakenFilters(kept, drift)


def _drift(found: Recurrence) -> float:
    return min(_FLOAT32 * noise_gain(found.sections), 0.1)


def _is_taken_apart(node: Node) -> bool:
    """Whether a signal is read sample by sample."""
    if not _is_signal(node) or not shape(node):
        return False
    longest = max(shape(node))
    parts = [made for user in node.users if isinstance(made := VALUE.of(user), torch.Tensor)]
    samples = [made for made in parts if made.numel() * longest == VALUE.must(node).numel()]
    return len(samples) >= max(longest, _SHORTEST)


# ---- the search for ends -------------------------------------------------------------------------------------


def _of_loop(graph: Graph, calls: Sequence[Node]) -> Recurrence | None:
    """Finds the filter of a loop: from the latest signal that depends on no state, as all delays belong to the filter;
    otherwise on no state of the loop, as earlier parts may not be a filter."""
    ends, loop = becomes(graph), set(calls)
    own = {one for one in ends if any(user in loop for user in one.users)}
    for states in (set(ends), own):
        found = _behind_all(graph, calls, states, ends)
        if found is not None:
            return found
    return None


def _behind_all(graph: Graph, calls: Sequence[Node], states: set[Node], ends: dict[Node, Node]) -> Recurrence | None:
    """Finds a filter from the latest signal through which everything that a loop reads passes, except for these
    states."""
    ahead = {*states, *calls}
    for node in graph.nodes:
        if any(one in ahead for one in node.all_input_nodes):
            ahead.add(node)
    candidates = [node for node in reversed(graph.nodes) if node not in ahead and _is_signal(node)]
    signal = next((one for one in candidates if _needed(calls, one, ends) is not None), None)
    return None if signal is None else _searched(graph, signal, calls)


def _is_signal(node: Node) -> bool:
    value = VALUE.of(node)
    real = isinstance(value, torch.Tensor) and value.dtype == torch.float32
    return real and not is_constant(node) and not STATE.known(node) and node.op in ("placeholder", "call_function")


def _needed(targets: Sequence[Node], signal: Node, ends: dict[Node, Node]) -> set[Node] | None:
    """Returns everything that these nodes depend on, across calls of the model, up to a signal; None if that includes
    another input."""
    found, left = set[Node](), list(targets)
    while left:
        node = left.pop()
        if node in found or node is signal or is_constant(node):
            continue
        found.add(node)
        if node.op == "placeholder" and node not in ends:
            return None
        left += [ends[node]] if node.op == "placeholder" else node.all_input_nodes
    return found


def _searched(graph: Graph, signal: Node, calls: Sequence[Node]) -> Recurrence | None:
    """Returns the filter with the last end after a signal; then moves the signal back as long as a filter is found."""
    found = next((one for between in _between(graph, signal, calls) if (one := _recognized(between)) is not None), None)
    node = signal
    for _ in range(_MOST_BEFORE if found is not None else 0):
        reads = [one for one in node.all_input_nodes if not is_constant(one)]
        if len(reads) != 1 or not _is_signal(reads[0]):
            break
        node = reads[0]
        found = (_reaching(graph, found.between, node) if found is not None else None) or found
    return found


def _reaching(graph: Graph, between: Between, signal: Node) -> Recurrence | None:
    """Recognizes the same filter from an earlier signal."""
    if _needed([between.end, *between.results], signal, becomes(graph)) is None:
        return None
    return _recognized(Between(signal, between.end, between.states, between.results))


def _between(graph: Graph, signal: Node, calls: Sequence[Node]) -> list[Between]:
    """Returns the candidates: ends through which all later nodes read the calls, the last first."""
    ends = becomes(graph)
    needed = _needed(calls, signal, ends)
    if needed is None:
        return []
    states = tuple(one for one in ends if one in needed)
    if not all(dtype(one) == torch.float32 and not STATE.must(one).initial.any() for one in states):
        return []
    inside, moving = set(needed), set[Node](states) if calls else {signal}
    returned = user_outputs(graph)
    returned += [end for one, end in ends.items() if one not in states]  # all of these have other readers
    pending = {one: _readers(one, needed, returned) for one in (*states, *needed)}
    cuts: list[Node] = []
    for node in graph.nodes:
        reads = [one for one in node.all_input_nodes if not is_constant(one)]
        if node.op == "call_function" and any(one in moving for one in reads):
            whole = all(one in inside or one is signal for one in reads)
            if not whole:
                continue
            inside.add(node)
            moving.add(node)
            pending.setdefault(node, _readers(node, needed, returned))
            for one in reads if node not in needed else ():
                if one in pending:
                    pending[one] -= 1
            if all(not count for one, count in pending.items() if one is not node) and needed <= {*inside, *states}:
                cuts.append(node)
    return [Between(signal, end, states, tuple(ends[one] for one in states)) for end in reversed(cuts[-_MOST_CUTS:])]


def _readers(node: Node, inside: set[Node], returned: Sequence[Node]) -> int:
    """Counts the readers that are not known to be inside."""
    return sum(user.op != "output" and user not in inside for user in node.users) + (node in returned)


# ---- recognition ----------------------------------------------------------------------------------------------


def _recognized(between: Between) -> Recurrence | None:
    matrix, unstable = matrix_of(between), None
    for layout in layouts(shape(between.signal), shape(between.end)) if matrix is not None else ():
        if not between.states and layout.samples < _SHORTEST:
            continue
        assert matrix is not None
        try:
            found = _sections(block_of(matrix, between, layout))
        except Unstable as error:  # unstable in this layout; others are possible
            unstable = error
            continue
        if found is not None and _remembers(between, layout, found) and runs_like(between, layout, found):
            quick = layout.samples == 1 and noise_gain(found) < _FORGETS
            recursive = any(a1 or a2 for *_, a1, a2 in found)
            return Recurrence(between, layout, found) if recursive and not quick else None
    if unstable is not None and unstable.size > _OUTSIDE:
        raise Refused(
            f"{describe(between.end)} is a filter with a pole of magnitude {unstable.size:.4g}, expected less than 1: "
            "its output grows without bound; check its coefficients, and that its cutoff is below half of the sample "
            "rate"
        )
    return None


def _remembers(between: Between, layout: TimeLayout, found: Sequence[Section]) -> bool:
    """Whether a filter has at most as many poles as its states have numbers: means over blocks look like one with
    many."""
    poles = sum(2 if a2 else int(a1 != 0.0) for *_, a1, a2 in found)
    numbers = sum(VALUE.must(one).numel() for one in between.states) // layout.channels
    return not between.states or poles <= numbers


def _sections(block: SampleBlock) -> tuple[Section, ...] | None:
    impulse, responses = block.impulse(), block.responses()
    if not np.isfinite(impulse).all() or not np.isfinite(responses).all():
        return None
    return sections_of(impulse, responses)


# ---- replacement ---------------------------------------------------------------------------------------------


def _replace(found: Recurrence, state: Sequence[StateBuffer]) -> tuple[StateBuffer, ...]:
    between, layout = found.between, found.layout
    graph, end = between.end.graph, between.end
    ends = becomes(graph)
    kept = [one for one in ends if one not in between.states]
    numbers = [number for section in found.sections for number in section]
    own = user_outputs(graph)
    before, buffers = _holder(found), [one for one in state if one.name in [STATE.must(k).buffer for k in kept]]
    with graph.inserting_before(end):
        signal = _signal(end, between.signal)
        order = [*(dim for dim in range(len(shape(signal))) if dim != layout.time), layout.time]
        rows = add_view(end, add_permute(end, signal, order), (layout.channels, layout.samples))
        after = None if before is None else add_call(end, FILTER_STATE, rows, before, numbers)
        made = add_call(end, FILTER_OF, rows, before, after, numbers)
        made = _arranged(end, made, layout)
    output = output_node(graph)
    new = () if before is None else (after,)
    output.args = ((*own, *(ends[one] for one in kept), *new),)
    end.replace_all_uses_with(made)
    graph.eliminate_dead_code()
    for one in between.states:
        graph.erase_node(one)
    return tuple(buffers) if before is None else (*buffers, _buffer(before, state))


def _signal(like: Node, signal: Node) -> Node:
    """Returns the signal as the filter reads it: raw integer samples are codes already."""
    reads = signal.all_input_nodes
    raw = means(signal, CallKind.CONVERT) and reads[0].op == "placeholder" and dtype(reads[0]) in KINDS
    return add_call(like, SAMPLES_OF, reads[0], 0) if raw else signal


def _arranged(like: Node, made: Node, layout: TimeLayout) -> Node:
    if layout.last_only:
        last = add_call(like, aten.slice.Tensor, made, 1, layout.samples - 1, layout.samples)
        return add_view(like, last, shape(like))
    sizes = list(shape(like))
    rest = [dim for dim in range(len(sizes)) if dim != layout.out_time]
    moved = add_view(like, made, [*(sizes[dim] for dim in rest), layout.samples])
    place = {dim: at for at, dim in enumerate([*rest, layout.out_time])}
    return add_permute(like, moved, [place[dim] for dim in range(len(sizes))])


def _holder(found: Recurrence) -> Node | None:
    """Adds an input for the filter's state words; None without state."""
    if not found.between.states:
        return None
    last = [node for node in found.between.end.graph.nodes if node.op == "placeholder"][-1]
    graph, mode = last.graph, fake_mode_of(last.graph)
    assert mode is not None
    initial = torch.zeros(found.layout.channels, len(found.sections), WORDS, dtype=torch.int32)
    with graph.inserting_after(last):
        holder = graph.placeholder(f"{found.between.states[0].name}_words")
    VALUE.note(holder, mode.from_tensor(initial, static_shapes=True))
    STATE.note(holder, Lasting(STATE.must(found.between.states[0]).buffer, initial))
    return holder


def _buffer(holder: Node, state: Sequence[StateBuffer]) -> StateBuffer:
    lasting = STATE.must(holder)
    old = next(one for one in state if one.name == lasting.buffer)
    return StateBuffer(lasting.buffer, lasting.initial, old.where)
