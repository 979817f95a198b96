"""The elements of tensors: which have 16 bits (all real ones with --activations int16, those of modules given by
--int16, those of feedback, and signals that lead to filters and spectra), and which modules are not quantized
(--keep-float).

A state that is computed from itself accumulates its errors, and on new data it goes further than calibration saw. So it
is int16, with the tensors of its loop, and those that lead to or from it as far as they are small compared with it. A
state that only delays (a ring of samples, a cache of keys) is moved and selected from, which changes no code: it stays
int8. So does a loop with a call that has no int16 kernel, as converting back and forth in each iteration gains nothing,
and one through a recurrent layer, which keeps 16 bits between steps itself.
"""

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch.fx import Graph, GraphModule, Node

from cortado.base.element import FLOAT32, USUAL, WIDE, Element
from cortado.base.errors import CortadoError
from cortado.frontend.quantize.observers import SETTLED, Scheme
from cortado.frontend.rewrite.domains import has_integer_dtype
from cortado.frontend.rewrite.filter_probes import gives_signals
from cortado.frontend.rewrite.state import becomes, holders, results, user_outputs
from cortado.ir.facts import VALUE, FactKey, is_float32, note_element, wanted_element
from cortado.ir.graph import bind, computed_call, describe, module_path, shape, sole_user
from cortado.ir.matching import Match, decide, patterns_of, takes
from cortado.ir.op import Pattern, SignalReader
from cortado.ir.roles import Joined, Plain, SharedWith
from cortado.ops.elementwise.pointwise import is_pointwise, is_table
from cortado.ops.probing import attempt
from cortado.options import Activations, Options

EXPANDED = 0.95  # the share of a function's range in the last decade; 0.9 for a linear one
LARGER = 4  # the largest size of int16 tensors around a loop, in multiples of its largest
MAY_BE_WIDE: FactKey[bool] = FactKey("cortado_may_be_wide")  # of an int8 call: it could take int16 codes
WHY: FactKey[str] = FactKey("cortado_why")  # of state: why its codes have 8 or 16 bits
Elements = Mapping[Node, Element]


def scheme_for(how: Options, measured: Collection[str] = ()) -> Scheme:
    """Returns the scheme of Cortado's own calibration. `measured` are calls that need 16 bits by measurement
    (`mixed`)."""
    feedback = _nothing if how.state is Activations.INT8 else _of_feedback

    def elements(graph: Graph) -> Elements:
        if how.activations is Activations.INT16:
            return _all(graph)
        given = _of_signals(graph) | _of_samples(graph) | feedback(graph) | _chosen(graph, how.int16)
        _note_open(graph, given)
        return given | dict.fromkeys((node for node in graph.nodes if node.name in measured), WIDE)

    return replace(
        SETTLED,
        floats=lambda graph: _kept(graph, how.keep_float),
        elements=elements,
        respell=lambda module: _spell_wide(module, elements),
    )


def _note_open(graph: Graph, given: Elements) -> None:
    """Notes the calls that measurement can choose, or a warning recommend: those with int16 kernels as they are."""
    for node in graph.nodes:
        if node.op == "call_function" and node not in given and patterns_of(node.target) and takes(node, WIDE):
            MAY_BE_WIDE.note(node, value=True)


def _spell_wide(module: GraphModule, elements: Callable[[Graph], Elements]) -> bool:
    """Rewrites calls that should have 16 bits but take only int8 as calls that take both; returns whether there were
    any."""
    narrow, spelled = [node for node in module.graph.nodes if _spelled_wide(node)], False
    wanted = elements(module.graph) if narrow else {}
    for node in [node for node in narrow if wanted.get(node, USUAL).symmetric]:
        with module.graph.inserting_before(node):
            found = next(
                (one.int16_decomposition(bind(node)) for one in _spelled_wide(node) if one.int16_decomposition), None
            )
        if found is not None:
            node.replace_all_uses_with(found)
            module.graph.erase_node(node)
            spelled = True
    return spelled


def _spelled_wide(node: Node) -> list[Pattern]:
    """Returns the patterns that can rewrite a call for int16, if none takes it directly."""
    known = [pattern for pattern in patterns_of(node.target) if pattern.int16_decomposition is not None]
    return [] if not known or takes(node, WIDE) else known


def _nothing(graph: Graph) -> dict[Node, Element]:
    return {}


def _chosen(graph: Graph, expressions: Sequence[str]) -> dict[Node, Element]:
    """Selects tensors whose names, or whose modules' names, match one of these expressions (--int16)."""
    return dict.fromkeys((node for text in expressions for node in _matching(graph, "--int16", text)), WIDE)


def note_floats(graph: Graph, expressions: Sequence[str]) -> None:
    """Notes which calls stay in float32 (--float32), before the graph is rewritten, and the state that only they read.
    An input given by name stays in float32, with everything computed from it."""
    for text in expressions:
        found = _matching(graph, "--float32", text)
        paths = {module_path(node) for node in found}
        for node in _reached([one for one in found if one.op == "placeholder"], _followers):
            note_element(node, FLOAT32)
        for node in graph.nodes:  # truth values and integers too
            if module_path(node) in paths - {None} or re.fullmatch(text, node.name):
                note_element(node, FLOAT32)
    if expressions:
        _note_conversions(graph)
        _note_state(graph, "--float32")


def note_calls(graph: Graph, names: Collection[str]) -> None:
    """Notes which calls are float32 because no integer operator takes them, and the state that only they read."""
    for node in graph.nodes:
        if node.name in names:
            note_element(node, FLOAT32)
    if names:
        _note_conversions(graph)
        _note_state(graph, "--allow-float")


def _note_conversions(graph: Graph) -> None:
    """Notes the calls that lead from integers, such as samples, to calls in float32 and nowhere else: codes between
    them would lose what the float32 calls are to keep."""
    exact: set[Node] = set()
    for node in graph.nodes:
        computed, read = node.op == "call_function" and is_float32(node), node.all_input_nodes
        if computed and all(one in exact or has_integer_dtype(one) or one.op == "get_attr" for one in read):
            exact.add(node)
    for node in reversed(graph.nodes):
        if node in exact and node.users and all(wanted_element(user).floating for user in node.users):
            note_element(node, FLOAT32)


def _note_state(graph: Graph, option: str) -> None:
    for holder in holders(graph):
        if holder.users and all(wanted_element(user).floating for user in holder.users):
            note_element(holder, FLOAT32)
            WHY.note(holder, f"read only in float32 ({option})")


def _followers(node: Node) -> list[Node]:
    """Returns the calls that read a node; none for integers, where real numbers end."""
    value = VALUE.of(node)
    integers = isinstance(value, torch.Tensor) and not value.is_floating_point() and value.dtype != torch.bool
    return [] if integers else [user for user in node.users if user.op == "call_function"]


def _kept(graph: Graph, expressions: Sequence[str]) -> list[Node]:
    """Returns the calls of modules whose names match one of these expressions (--keep-float)."""
    found = [node for text in expressions for node in _matching(graph, "--keep-float", text)]
    return [node for node in found if node.op == "call_function"]


def _matching(graph: Graph, option: str, text: str) -> list[Node]:
    """Returns tensors by the whole name of their module, or by their own name in the report."""

    def matches(node: Node) -> bool:
        return any(re.fullmatch(text, name) for name in (module_path(node) or "", node.name))

    mine = [node for node in graph.nodes if is_float32(node) and matches(node)]
    if not mine:
        raise CortadoError(
            f"{option} '{text}' matches neither a module that computes real numbers nor a tensor; expected a regular "
            "expression for a whole name, as in 'encoder.*'"
        )
    return mine


def _all(graph: Graph) -> Elements:
    for holder in holders(graph):
        WHY.note(holder, "all real tensors are int16 (--activations int16)")
    return dict.fromkeys(graph.nodes, WIDE)


def _of_signals(graph: Graph) -> dict[Node, Element]:
    """Selects filters, and everything that leads to a filter or a spectrum: these read 16-bit samples, and an 8-bit
    call before them would remove what the quiet bands consist of."""
    readers = {node: how for node in graph.nodes if (how := _signal_reader(node)) is not None}
    found: dict[Node, Element] = {node: WIDE for node, how in readers.items() if how.filters}
    for node, how in readers.items():
        state = None if how.state is None else bind(node)[how.state]
        if state is not None:
            WHY.note(state, "the state of a filter, in words of 32 bits")

    def fits(node: Node) -> bool:
        return is_float32(node) and _may_be_wide(node)

    signals = [bind(node)[how.signal] for node, how in readers.items()]
    expanded = [one for node in readers if node not in found for one in _expanded(node)]
    return found | dict.fromkeys(
        [*expanded, *_reached(list(filter(fits, signals)), lambda one: filter(fits, one.all_input_nodes))], WIDE
    )


def _signal_reader(node: Node) -> SignalReader | None:
    """Returns what a call reads of a signal; None if it reads none."""
    return next((one.reader for one in patterns_of(node.target) if one.reader is not None), None)


def _is_filter(node: Node) -> bool:
    reader = _signal_reader(node)
    return reader is not None and reader.filters


def _expanded(bands: Node) -> list[Node]:
    """Returns bands of a spectrum and a function of them that expands their range (a power above 1): with 8 bits the
    quiet half would be lost."""
    way = [bands]
    reader = sole_user(bands)
    while reader is not None and _keeps_codes(reader) and len(reader.all_input_nodes) == 1:
        way.append(reader)
        reader = sole_user(reader)
    function = reader is not None and (is_pointwise(reader) or is_table(reader))
    if reader is None or not function or len(reader.all_input_nodes) != 1 or not _expands(reader):
        return []
    found = [*way, reader]
    return found if all(map(_may_be_wide, found)) else []


def _expands(function: Node) -> bool:
    """Whether nearly all of a function's range is in the last of several decades."""
    decades = torch.logspace(-4, 4, 9, dtype=torch.float64)
    values = attempt(lambda value: computed_call(function, lambda _: value), decades)
    if values is None or values.shape != decades.shape:
        return False
    steps = values.diff()
    return bool((steps >= 0).all()) and float(steps[-1]) > EXPANDED * float(values[-1] - values[0]) > 0


def _of_samples(graph: Graph) -> dict[Node, Element]:
    """Selects everything from 16-bit samples, or a filter, to an output that is a signal again: a filter without
    feedback, decimation, a mean, a peak. Its quiet parts would not survive 8 bits."""
    heads = {node for node in graph.nodes if _is_filter(node) or _reads_samples(node)}
    following = becomes(graph)

    def earlier(node: Node) -> Iterable[Node]:
        return () if node in heads else [following[node]] if node in following else node.all_input_nodes

    found: dict[Node, Element] = {}
    for end in user_outputs(graph) if heads else ():
        reached = _reached([end], earlier)
        given = [node for node in graph.nodes if node in reached and (node in heads or node in following)]
        ends = [end, *(following[node] for node in given if node in following)]
        real = [node for node in reached if is_float32(node)]
        if not heads.isdisjoint(reached) and all(map(_may_be_wide, real)) and gives_signals(given, ends):
            found |= dict.fromkeys(real, WIDE)
    return found


def _reads_samples(node: Node) -> bool:
    """Whether a node converts 16-bit integers to real numbers."""
    sources = [VALUE.of(one) for one in node.all_input_nodes] if is_float32(node) else []
    return any(isinstance(one, torch.Tensor) and one.dtype in (torch.int16, torch.uint16) for one in sources)


def _may_be_wide(node: Node) -> bool:
    return _is_data(node) or _keeps_codes(node) or not _stays_narrow(node)


# ---- feedback ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FeedbackLoop:
    """States that are computed from one another, and the calls between them."""

    states: tuple[Node, ...]
    calls: tuple[Node, ...]

    @property
    def only_moves(self) -> bool:
        return all(_keeps_codes(call) for call in self.calls)

    @property
    def narrow(self) -> Node | None:
        """A call of real numbers without an int16 kernel, or that needs none here; None if there is none."""
        return next((call for call in self.calls if is_float32(call) and _stays_narrow(call)), None)


def loops_of(graph: Graph) -> list[FeedbackLoop]:
    """Returns the feedback loops; each state that is computed from itself is in one of them."""
    states, ends = holders(graph), results(graph)
    behind = {state: _reached([state], lambda node: node.users) for state in states}
    before = {
        state: _reached([end], lambda node: node.all_input_nodes) for state, end in zip(states, ends, strict=True)
    }
    reached = {state: {other for other in states if state in before[other]} for state in states}
    for _ in states:  # also through other states
        reached = {state: seen.union(*(reached[one] for one in seen)) for state, seen in reached.items()}
    found, left = [], [state for state in states if state in reached[state]]
    while left:
        together = [state for state in left if state in reached[left[0]] and left[0] in reached[state]]
        left = [state for state in left if state not in together]
        after, ahead = ({node for state in together for node in side[state]} for side in (behind, before))
        inside = after & ahead
        calls = tuple(node for node in graph.nodes if node in inside and node.op == "call_function")
        found.append(FeedbackLoop(tuple(together), calls))
    return found


def _reached(start: Sequence[Node], step: Callable[[Node], Iterable[Node]]) -> set[Node]:
    found, left = set[Node](), list(start)
    while left:
        node = left.pop()
        if node not in found:
            found.add(node)
            left += step(node)
    return found


def _keeps_codes(call: Node) -> bool:
    """Whether a call moves or selects codes; real numbers can't come from values without a scale."""
    match = decide(call)
    return isinstance(match, Match) and isinstance(match.quantization.output, SharedWith | Joined | Plain)


def _keeps_bits(call: Node) -> bool:
    return any(pattern.keeps_bits for pattern in patterns_of(call.target))


def _stays_narrow(call: Node) -> bool:
    return _keeps_bits(call) or not _takes_wide(call)


def _takes_wide(call: Node) -> bool:
    return bool(_spelled_wide(call)) or takes(call, WIDE)


def _of_feedback(graph: Graph) -> dict[Node, Element]:
    wide: dict[Node, Element] = {}
    for loop in loops_of(graph):
        narrow = loop.narrow
        wider = not loop.only_moves and narrow is None and all(is_float32(state) for state in loop.states)
        why = "computed from itself" if wider else _reason(narrow)
        for state in loop.states:
            if not loop.only_moves:
                WHY.note(state, why)
        wide |= dict.fromkeys(_around(loop), WIDE) if wider else {}
    for state in holders(graph):
        if not WHY.known(state):
            WHY.note(state, "only moved and chosen from")
    return wide


def _reason(narrow: Node | None) -> str:
    if narrow is None:
        return "computed from integers and truth values"
    what = "a layer that has 16 bits from step to step" if _keeps_bits(narrow) else "a call that takes int8 codes only"
    return f"computed from itself by {what}: {describe(narrow)}"


def _around(loop: FeedbackLoop) -> list[Node]:
    """Returns the tensors of a loop, and those connected with it as far as all are small compared with the loop's own
    and have int16 kernels."""
    inside = [node for node in (*loop.states, *loop.calls) if is_float32(node)]
    most = LARGER * max(_size(node) for node in inside)

    def fits(node: Node) -> bool:
        return (
            node.op != "output"
            and is_float32(node)
            and _size(node) <= most
            and (_is_data(node) or not _stays_narrow(node))
        )

    before = _reached(inside, lambda node: filter(fits, node.all_input_nodes))
    behind = _reached(inside, lambda node: filter(fits, node.users))
    return list(before | behind | _reached(list(behind), lambda node: filter(fits, node.all_input_nodes)))


def _is_data(node: Node) -> bool:
    return node.op in ("placeholder", "get_attr")


def _size(node: Node) -> int:
    return math.prod(shape(node))
