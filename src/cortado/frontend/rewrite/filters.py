"""Filters with feedback, as models write them: a loop over samples, with what it remembers in buffers or in the window.

How a filter is written doesn't matter: the calls between a signal and what comes of it are run in float64 on chosen
signals and states. If the result is that of a linear filter that is the same at all times, its poles and zeros follow,
and one call takes the place of all. Its state is then 32 bits wide, in place of the buffers that the model had.
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

_SHORTEST = 16  # samples of a window whose filter can be told from them alone
_MOST_CUTS = 24  # ends that are tried
_MOST_BEFORE = 6  # calls in front of the signal that may be part of the filter
_FORGETS = 16.0  # up to this noise gain a loop of one sample a call is served by codes of 16 bits
_FLOAT32 = 2.0**-21  # what the sums of a section lose in float32, beside the largest
_OUTSIDE = 1.0 + 1e-6  # the magnitude of a pole that is surely outside of the unit circle


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
    """The state that a graph has once its filters are calls; by what part of the largest output the model itself, which
    computes in float32, may be away from them."""

    state: tuple[StateBuffer, ...]
    drift: float


def take_filters(module: GraphModule, state: Sequence[StateBuffer]) -> TakenFilters:
    """One call in place of each filter with feedback that the graph has. Rewrites a canonical graph in place."""
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
    """Whether a signal is looked at sample by sample."""
    if not _is_signal(node) or not shape(node):
        return False
    longest = max(shape(node))
    parts = [made for user in node.users if isinstance(made := VALUE.of(user), torch.Tensor)]
    samples = [made for made in parts if made.numel() * longest == VALUE.must(node).numel()]
    return len(samples) >= max(longest, _SHORTEST)


# ---- between which nodes -------------------------------------------------------------------------------------


def _of_loop(graph: Graph, calls: Sequence[Node]) -> Recurrence | None:
    """From the latest signal that hangs on no state, as all delays belong to the filter; or else on none of the loop,
    as what comes before it may be none."""
    ends, loop = becomes(graph), set(calls)
    own = {one for one in ends if any(user in loop for user in one.users)}
    for states in (set(ends), own):
        found = _behind_all(graph, calls, states, ends)
        if found is not None:
            return found
    return None


def _behind_all(graph: Graph, calls: Sequence[Node], states: set[Node], ends: dict[Node, Node]) -> Recurrence | None:
    """From the latest signal through which all that a loop reads comes, but for these states."""
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
    """All that these are computed from, later calls of the model included, up to a signal; None where there is another
    input."""
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
    """The last end behind a signal at which a filter of it stands; then the earliest signal of which that holds."""
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
    """The same from an earlier signal."""
    if _needed([between.end, *between.results], signal, becomes(graph)) is None:
        return None
    return _recognized(Between(signal, between.end, between.states, between.results))


def _between(graph: Graph, signal: Node, calls: Sequence[Node]) -> list[Between]:
    """The ends that all which comes later reads alone, the last first."""
    ends = becomes(graph)
    needed = _needed(calls, signal, ends)
    if needed is None:
        return []
    states = tuple(one for one in ends if one in needed)
    if not all(dtype(one) == torch.float32 and not STATE.must(one).initial.any() for one in states):
        return []
    inside, moving = set(needed), set[Node](states) if calls else {signal}
    returned = user_outputs(graph)
    returned += [end for one, end in ends.items() if one not in states]  # read by others, all of them
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
    """How many read it that are not known to be inside."""
    return sum(user.op != "output" and user not in inside for user in node.users) + (node in returned)


# ---- which filter --------------------------------------------------------------------------------------------


def _recognized(between: Between) -> Recurrence | None:
    matrix, unstable = matrix_of(between), None
    for layout in layouts(shape(between.signal), shape(between.end)) if matrix is not None else ():
        if not between.states and layout.samples < _SHORTEST:
            continue
        assert matrix is not None
        try:
            found = _sections(block_of(matrix, between, layout))
        except Unstable as error:  # of this layout: it may be another
            unstable = error
            continue
        if found is not None and _remembers(between, layout, found) and runs_like(between, layout, found):
            quick = layout.samples == 1 and noise_gain(found) < _FORGETS
            recursive = any(a1 or a2 for *_, a1, a2 in found)
            return Recurrence(between, layout, found) if recursive and not quick else None
    if unstable is not None and unstable.size > _OUTSIDE:
        raise Refused(
            f"{describe(between.end)} is a filter with a pole of magnitude {unstable.size:.4g}, expected less than 1: "
            "what comes out grows without bound; check its coefficients, and that its cutoff is below half of the "
            "sample rate"
        )
    return None


def _remembers(between: Between, layout: TimeLayout, found: Sequence[Section]) -> bool:
    """A filter has no more poles than its states have numbers: means over blocks look like one of many."""
    poles = sum(2 if a2 else int(a1 != 0.0) for *_, a1, a2 in found)
    numbers = sum(VALUE.must(one).numel() for one in between.states) // layout.channels
    return not between.states or poles <= numbers


def _sections(block: SampleBlock) -> tuple[Section, ...] | None:
    impulse, responses = block.impulse(), block.responses()
    if not np.isfinite(impulse).all() or not np.isfinite(responses).all():
        return None
    return sections_of(impulse, responses)


# ---- one call instead ----------------------------------------------------------------------------------------


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
    """Integer samples as they come are codes already."""
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
    """A new input for the words of the filter."""
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
