"""Buffers that forward changes: in a graph they are inputs after the user's, and their new values outputs after the
user's. They start with the buffers' values, are observed together with their new values, and become int8 codes with one
scale on both sides."""

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Interpreter, Node
from torch.multiprocessing.reductions import StorageWeakRef
from torchao.quantization.pt2e.observer import FixedQParamsObserver, ObserverBase

from cortado.base.element import INT32, element_of
from cortado.base.errors import CortadoError
from cortado.base.numerics import QParams
from cortado.frontend.quantize.observers import RangeObserver
from cortado.frontend.quantize.prequantized import QUANTIZE, is_dequantize, is_quantize, qparams_of
from cortado.frontend.rewrite.canonical import inline_contexts
from cortado.frontend.rewrite.domains import DOMAINS, domain_of
from cortado.frontend.rewrite.integer_compare import Integers
from cortado.frontend.rewrite.writes import written
from cortado.ir.domain import DOMAIN, Domain, DomainKind, Interval, interval_of
from cortado.ir.facts import QPARAMS, STATE, TORCH_FN, VALUE, Lasting, dtype, holds_integers, wanted_element
from cortado.ir.graph import add_call, describe, fake_mode_of, output_node, shape
from cortado.ops.meaning import CallKind, means

aten = torch.ops.aten
Tensor = torch.Tensor


@dataclass(frozen=True)
class StateBuffer:
    """A buffer of the model, its value before the first call, and the call that changes it."""

    name: str
    initial: Tensor
    where: str


# ---- from buffers to inputs and outputs --------------------------------------------------------------------------


class _Finder(Interpreter):
    """Runs a graph on copies of its buffers and notes which of them are written, and by which call."""

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.copies: dict[str, Tensor] = {}
        self.owners: dict[StorageWeakRef, str] = {}
        self.writers: dict[str, Node] = {}

    def run_node(self, n: Node) -> Any:
        for source in written(n):
            owner = self.owners.get(StorageWeakRef(self.env[source].untyped_storage()))
            if owner is not None:
                self.writers[owner] = n  # the last one
        return None if _assigns(n) else super().run_node(n)

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        value = super().get_attr(target, args, kwargs)
        if not isinstance(value, Tensor):
            return value
        if target not in self.copies:
            self.copies[target] = value.detach().clone()
            self.owners[StorageWeakRef(self.copies[target].untyped_storage())] = target
        return self.copies[target]


def lift_state(module: GraphModule, inputs: Sequence[Tensor]) -> tuple[StateBuffer, ...]:
    """Turns the buffers that a graph writes into inputs, and their final values into outputs."""
    inline_contexts(module)
    graph = module.graph
    if not any(written(node) for node in graph.nodes):
        return ()
    finder = _Finder(module)
    with torch.no_grad():
        finder.run(*(value.clone() for value in inputs))
    state = tuple(_buffer(module, name, finder.writers[name]) for name in finder.copies if name in finder.writers)
    if state:
        _lift(module, state)
    return tuple(replace(one, initial=_kept(one.initial)) for one in state)


def _buffer(module: GraphModule, name: str, writer: Node) -> StateBuffer:
    value = operator.attrgetter(name)(module)
    if isinstance(value, torch.nn.Parameter):
        raise CortadoError(
            f"{describe(writer)} changes the parameter '{name}', expected parameters to stay constant; make it a "
            "buffer (register_buffer) if it is to persist from call to call"
        )
    others = [
        str(node.target)
        for node in module.graph.nodes
        if node.op == "get_attr"
        and str(node.target) != name
        and _shares(operator.attrgetter(str(node.target))(module), value)
    ]
    if others:
        raise CortadoError(
            f"{describe(writer)} changes '{name}', which shares its memory with '{others[0]}', expected a buffer of "
            "its own; register a copy (x.clone())"
        )
    return StateBuffer(name, value.detach().clone(), describe(writer))


def _shares(first: Any, second: Tensor) -> bool:
    return isinstance(first, Tensor) and first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()


def _lift(module: GraphModule, state: Sequence[StateBuffer]) -> None:
    graph = module.graph
    last = [node for node in graph.nodes if node.op == "placeholder"][-1:]
    mode = fake_mode_of(graph)
    assert mode is not None
    new: list[Node] = []
    for one in state:
        readers = [node for node in graph.nodes if node.op == "get_attr" and node.target == one.name]
        with graph.inserting_after(last[0]) if last else graph.inserting_before(next(iter(graph.nodes))):
            holder = graph.placeholder(f"state_{one.name.replace('.', '_')}")
        VALUE.note(holder, mode.from_tensor(_kept(one.initial), static_shapes=True))
        STATE.note(holder, Lasting(one.name, _kept(one.initial)))
        value = _as_declared(holder, one.initial.dtype)
        for reader in readers:
            reader.replace_all_uses_with(value)
            graph.erase_node(reader)
        last = [value]
        new.append(value)
    new = [_assigned(value) or value for value in new]  # the last written value; all writes become plain calls later
    new = [_as_kept(value, output_node(graph)) for value in new]
    output_node(graph).args = (tuple([*returned_nodes(graph), *new]),)
    graph.set_codegen(torch.fx.graph.CodeGen())
    module._forward_pre_hooks.clear()  # torch.export's hooks, which know only the user's inputs
    module.recompile()


_NARROW = (torch.uint8, torch.int8, torch.int16)  # kept in 32 bits, like all integers in calculations


def _kept(value: Tensor) -> Tensor:
    return value.to(torch.int32) if value.dtype in _NARROW else value


def _as_declared(holder: Node, kind: torch.dtype) -> Node:
    """Converts state to the dtype that the model declares, whose interval it never leaves."""
    if kind not in _NARROW:
        return holder
    DOMAIN.note(holder, Domain(DomainKind.INTEGER, interval_of(kind)))
    with holder.graph.inserting_after(holder):
        return add_call(holder, torch.ops.aten.to.dtype, holder, kind)


def _as_kept(value: Node, output: Node) -> Node:
    if dtype(value) not in _NARROW:
        return value
    with output.graph.inserting_before(output):
        return add_call(output, torch.ops.aten.to.dtype, value, torch.int32)


def _assigned(holder: Node) -> Node | None:
    """Returns the value that `self.buffer = value` assigns. torch.export writes it as a copy into the buffer at the
    very end, where other names of the old value still keep that."""
    for node in reversed(holder.graph.nodes):
        if _assigns(node) and node.args[0] is holder:
            value = node.args[1]
            assert isinstance(value, Node)
            holder.graph.erase_node(node)
            return value
    return None


def _assigns(node: Node) -> bool:
    """Whether a copy is an assignment written by torch.export, or by `captured.as_it_is` in its stead. The signature
    doesn't tell; but such a copy is attributed to the function that computed the value, or to the operator itself,
    whereas a user's copy is attributed to `copy_`; and nothing reads its result, whereas an assignment to `x[...]` is
    read as x."""
    source = node.args[1] if means(node, CallKind.OVERWRITE) else None
    made_by = TORCH_FN.of(node)
    own = isinstance(source, Node) and (made_by == TORCH_FN.of(source) or "OpOverload" in str(made_by))
    return own and not node.users


def returned_nodes(graph: Graph) -> list[Any]:
    returned: Any = output_node(graph).args[0]
    return list(returned) if isinstance(returned, list | tuple) else [returned]


def holders(graph: Graph) -> list[Node]:
    """Returns the inputs that hold state, in order; their new values are the last outputs, in the same order."""
    return [node for node in graph.nodes if node.op == "placeholder" and STATE.known(node)]


def results(graph: Graph) -> list[Node]:
    count = len(holders(graph))
    return returned_nodes(graph)[-count:] if count else []


def becomes(graph: Graph) -> dict[Node, Node]:
    """Maps each input that holds state to the node with its next value."""
    return dict(zip(holders(graph), results(graph), strict=True))


def user_outputs(graph: Graph) -> list[Any]:
    """Returns the model's outputs without the new values of its state."""
    found = returned_nodes(graph)
    return found[: len(found) - len(holders(graph))]


def keep_needed(module: GraphModule, state: Sequence[StateBuffer]) -> tuple[StateBuffer, ...]:
    """Drops state that no output depends on (counters of calls), and refuses state that can't be kept. Requires plain
    writes."""
    if not state:
        return ()
    graph, pairs = module.graph, list(zip(holders(module.graph), results(module.graph), strict=True))
    returned = returned_nodes(graph)[: -len(pairs)]
    seen = _sources(returned)
    needed: list[tuple[Node, Node]] = []
    while True:
        more = [pair for pair in pairs if pair not in needed and pair[0] in seen]
        if not more:
            break
        needed += more
        seen |= _sources([result for _, result in more])
    kept = [(one, *pair) for one, pair in zip(state, pairs, strict=True) if pair in needed]
    output_node(graph).args = (tuple([*returned, *(result for _, _, result in kept)]),)
    graph.eliminate_dead_code()
    for holder, _ in pairs:
        if (holder not in [one[1] for one in kept]) and not holder.users:
            graph.erase_node(holder)
    module.recompile()
    for one, holder, result in kept:
        _check(one, holder, result)
    return tuple(replace(one, initial=STATE.must(holder).initial) for one, holder, _ in kept)


def _sources(nodes: Sequence[Any]) -> set[Node]:
    """Returns these nodes and everything that they are computed from."""
    found: set[Node] = set()
    left = [node for node in nodes if isinstance(node, Node)]
    while left:
        node = left.pop()
        if node not in found:
            found.add(node)
            left += node.all_input_nodes
    return found


_KINDS = (torch.float32, torch.int32, torch.int64, torch.bool)


def _check(one: StateBuffer, holder: Node, result: Node) -> None:
    kind = str(one.initial.dtype).removeprefix("torch.")
    if one.initial.dtype not in _KINDS:
        raise CortadoError(
            f"{one.where} changes the buffer '{one.name}', which holds {kind} values and would have to persist until "
            "the next call, expected float32 (kept as codes), or int8 to int64, uint8 or bool (kept as they are); "
            "register it as torch.int32"
        )
    if one.initial.dtype == torch.int64 and int(one.initial.abs().max()) > INT32.high:
        raise CortadoError(
            f"the buffer '{one.name}' starts with {int(one.initial.abs().max())}, expected integers of 32 bits, as "
            "which state is kept; register a smaller value"
        )
    if shape(result) != shape(holder) or _sort(dtype(result)) != _sort(dtype(holder)):
        raise CortadoError(
            f"{one.where} gives the buffer '{one.name}' the shape {list(shape(result))}, expected it to keep "
            f"{list(shape(holder))}; cut it to a fixed length, as in torch.cat([old[:, 1:], new], 1)"
        )


def _sort(kind: torch.dtype) -> str:
    """Returns the kind of storage of a state value."""
    return "codes" if kind.is_floating_point else "truth" if kind == torch.bool else "numbers"


# ---- step by step --------------------------------------------------------------------------------------------------


class StateSequence:
    """The values of state in a sequence: the initial values at its beginning, then the last results."""

    def __init__(self, state: Sequence[StateBuffer], sequence: int | None) -> None:
        self.state, self.sequence = tuple(state), sequence
        self.initial = tuple(one.initial for one in state)
        self.values = self.initial

    def begins(self, number: int) -> bool:
        return number % self.sequence == 0 if self.sequence else number == 0

    def inputs(self, number: int, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Returns the inputs of a step, by its number, followed by the state."""
        if self.begins(number):
            self.values = self.initial
        return (*inputs, *self.values)

    def outputs(self, found: Sequence[Tensor]) -> list[Tensor]:
        """Returns the user's outputs and keeps the others as state for the next step."""
        count = len(found) - len(self.initial)
        self.values = tuple(found[count:])
        return list(found[:count])


# ---- one scale on both sides -----------------------------------------------------------------------------------


def tie_state(prepared: GraphModule) -> None:
    """Gives a buffer the quantization parameters of its new value, once all data was seen; its initial value counts
    too.

    If those are fixed and do not cover the initial value, the buffer keeps its own, and its new values are rescaled.
    """
    for holder, result in zip(holders(prepared.graph), results(prepared.graph), strict=True):
        if holds_integers(holder) or wanted_element(holder).floating:
            continue
        first, last = _observer(prepared, next(iter(holder.users), None)), _observer(prepared, result)
        assert isinstance(first, RangeObserver)  # as the quantizer sets it
        root = first if last is None or first in _chain(last) else _chain(last)[-1]
        if root is not first and (_is_open(root) or _covers(root, first)):
            first.follow(root)
        leader = _chain(first)[-1]
        if isinstance(leader, RangeObserver) and _is_open(leader):
            low, high = torch.aminmax(STATE.must(holder).initial)
            leader.need((float(low), float(high)))
            leader.seen.extend(first.seen if leader is not first else ())


def _is_open(observer: ObserverBase) -> bool:
    """Whether its range is not chosen yet."""
    return isinstance(observer, RangeObserver) and bool(observer.seen)


def _observer(prepared: GraphModule, node: Node | None) -> ObserverBase | None:
    found = prepared.get_submodule(str(node.target)) if node is not None and node.op == "call_module" else None
    return found if isinstance(found, ObserverBase) else None


def _chain(observer: ObserverBase) -> list[ObserverBase]:
    """Returns an observer, the one it follows, and so on."""
    found = [observer]
    while isinstance(found[-1], RangeObserver) and found[-1].leader is not None:
        found.append(found[-1].leader)
    return found


def _covers(root: ObserverBase, other: RangeObserver) -> bool:
    if isinstance(root, FixedQParamsObserver):
        codes = element_of(root.dtype).codes
        low, high = ((code - float(root.zero_point)) * float(root.scale) for code in codes)
    elif isinstance(root, RangeObserver):
        low, high = float(root.min_val), float(root.max_val)
    else:
        return False
    return low <= float(other.min_val) and float(other.max_val) <= high


def as_codes(converted: GraphModule) -> None:
    """Makes state inputs and outputs codes with the buffer's own parameters; integers are unchanged."""
    graph = converted.graph
    taken = [_taken(holder) for holder in holders(graph)]
    if not taken:
        return
    output, returned = output_node(graph), returned_nodes(graph)[: -len(taken)]
    pairs = zip(results(graph), taken, strict=True)
    returned += [_give_codes(result, qparams, output) for result, qparams in pairs]
    output_node(graph).args = (tuple(returned),)
    graph.eliminate_dead_code()
    converted.recompile()


def _taken(holder: Node) -> QParams | None:
    """Returns the quantization of a buffer; None for 32-bit counters and positions, for truth values and for
    float32."""
    lasting = STATE.must(holder)
    if wanted_element(holder).floating and dtype(holder).is_floating_point:
        return None
    if not holds_integers(holder):
        return _take_codes(holder)
    if lasting.initial.dtype != torch.bool:
        STATE.note(holder, replace(lasting, initial=lasting.initial.to(torch.int32)))
    return None


def _take_codes(holder: Node) -> QParams:
    quantizes = [user for user in holder.users if is_quantize(user)]
    assert len(quantizes) == len(holder.users) > 0  # the quantizer observes all state
    qparams, lasting = qparams_of(quantizes[0]), STATE.must(holder)
    kind = qparams.element
    codes = QUANTIZE(lasting.initial, qparams.scale, qparams.zero_point, *kind.codes, kind.torch_dtype)
    for quantize in quantizes:
        quantize.replace_all_uses_with(holder)
        holder.graph.erase_node(quantize)
    STATE.note(holder, replace(lasting, initial=codes))
    QPARAMS.note(holder, qparams)
    value = VALUE.must(holder)
    with value.fake_mode:
        VALUE.note(holder, torch.empty(value.shape, dtype=kind.torch_dtype))
    return qparams


def _give_codes(result: Node, qparams: QParams | None, output: Node) -> Node:
    if qparams is None:
        return result
    if is_dequantize(result) and qparams_of(result) == qparams:
        return result.all_input_nodes[0]
    with output.graph.inserting_before(output):
        kind = qparams.element
        arguments = (result, qparams.scale, qparams.zero_point, *kind.codes, kind.torch_dtype)
        return output.graph.call_function(QUANTIZE, arguments)


# ---- integers ------------------------------------------------------------------------------------------------------


def count_in_integers(module: GraphModule) -> None:
    """Keeps state as integers if it only ever holds integers in float32: it starts with integers, and only integers are
    assigned to it. If the assigned integers have an interval, so has the state."""
    holders = [node for node in module.graph.nodes if node.op == "placeholder" and STATE.known(node)]
    returned: Any = output_node(module.graph).args[0]
    pairs = dict(zip(holders, returned[-len(holders) :], strict=True)) if holders else {}
    found = {one: new for one, new in pairs.items() if _counts(one)}
    given = [one for one in module.graph.nodes if one.op == "placeholder" and DOMAIN.known(one)]
    while found:
        _suppose(module.graph, given, dict.fromkeys(found))
        kept = {one: new for one, new in found.items() if domain_of(new).kind is not DomainKind.REAL}
        if len(kept) == len(found):
            break
        found = kept
    bounds = {one: _with_initial(one, domain_of(new).interval) for one, new in found.items()}
    _suppose(module.graph, given, bounds)
    floats = [one for one in found if dtype(one).is_floating_point]
    for one in floats:
        _read_integers(one)
    for one in floats:
        _return_integers(output_node(module.graph), len(returned) - len(holders) + holders.index(one))


def _counts(holder: Node) -> bool:
    """Whether state can hold only integers; only dtypes of 32 bits or more, as smaller ones have an interval anyway."""
    if DOMAIN.known(holder) or dtype(holder) not in (torch.float32, torch.int32, torch.int64):
        return False
    initial = STATE.must(holder).initial
    return bool(initial.isfinite().all()) and torch.equal(initial, initial.round())


def _suppose(graph: Graph, given: Sequence[Node], bounds: Mapping[Node, Interval | None]) -> None:
    """Infers all domains again from the given ones, assuming that these nodes hold integers."""
    DOMAINS.forget(node for node in graph.nodes if node not in given)
    for node, known in bounds.items():
        DOMAIN.note(node, Domain(DomainKind.INTEGER, known))
    DOMAINS.infer(graph)


def _with_initial(holder: Node, found: Interval | None) -> Interval | None:
    initial = STATE.must(holder).initial
    return None if found is None else found.hull(Interval(int(initial.min()), int(initial.max())))


def _read_integers(holder: Node) -> None:
    """Makes state an int32 input, converted to float32 for its readers."""
    lasting, value = STATE.must(holder), VALUE.must(holder)
    STATE.note(holder, replace(lasting, initial=lasting.initial.to(torch.int32)))
    with value.fake_mode:
        VALUE.note(holder, torch.empty(value.shape, dtype=torch.int32))
    readers = list(holder.users)
    with holder.graph.inserting_after(holder):
        real = add_call(holder, aten.to.dtype, holder, torch.float32)
    for reader in readers:
        reader.replace_input_with(holder, real)


def _return_integers(output: Node, place: int) -> None:
    """Makes an output int32; readers of the same value as float32 read it converted from these integers."""
    returned: Any = output.args[0]
    last: Node = returned[place]
    readers = list(last.users)
    with last.graph.inserting_before(last.next):
        integers = Integers(last).of(last)
        made = add_call(last, aten.to.dtype, integers, torch.int32)
        known = add_call(last, aten.to.dtype, integers, torch.float32)
    for reader in [one for one in readers if one is not output]:
        reader.replace_input_with(last, known)
    given = [known if one is last else one for one in returned]
    output.args = (tuple(made if at == place else one for at, one in enumerate(given)),)
