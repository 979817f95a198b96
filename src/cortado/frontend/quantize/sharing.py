"""Shared scales of tensors that meet in a join: a concatenation, a minimum, a maximum.

A join reads its operands in the parameters of its output, so an operand with others is rescaled by a table. That costs
a pass over the operand; one scale for all costs the operand's other readers some of its codes. The rule:

1. An operand that only joins read gets the parameters of the finest of them: nothing could use more. If there is only
one, values beyond the range of its output saturate, as they would after it.

2. An operand with other readers, including the layer itself that computes it, shares its scale with the join if that
makes no step more than `LOSS` times larger, and otherwise keeps its own.

In the same way a sigmoid or a tanh has its default range if that makes its steps at most `LOSS` times larger.

Where a tensor changes its element, one side takes the other's steps, so that no rescaling is needed.

1. int8 codes that are read as int16: the int16 codes have 128 steps to one of the int8 codes, so they are exactly the
same numbers.

2. int16 codes that are read only as int8, from a call that rounds its result once, whatever its steps: the call gets
the steps of the int8 codes. They are clamped to a byte where they are stored as one; nothing is rounded twice.

Elsewhere, as where an int16 tensor is read in both elements, codes are rescaled (`ops/elementwise/requantize.py`).
"""

from dataclasses import dataclass, field

from torch.fx import GraphModule, Node
from torchao.quantization.pt2e.observer import FixedQParamsObserver, ObserverBase

from cortado.base.element import Element, element_of
from cortado.frontend.quantize.observers import EdgeObserver, RangeObserver
from cortado.frontend.quantize.ranges import choose_range
from cortado.ir.graph import module_path
from cortado.ir.matching import patterns_of
from cortado.ops.elementwise.requantize import WIDER
from cortado.options import CalibrationMethod

# ---- sharing ---------------------------------------------------------------------------------------------

LOSS = 1.12  # 1 dB
LEAST = 2.0**-8  # the least ratio of an output's range to an operand's: kernels' factors are limited


@dataclass(frozen=True)
class _Range:
    low: float
    high: float

    @property
    def span(self) -> float:
        return self.high - self.low

    def covers(self, other: "_Range") -> bool:
        return self.low <= other.low and self.high >= other.high

    def joined(self, other: "_Range") -> "_Range":
        return _Range(min(self.low, other.low), max(self.high, other.high))


@dataclass(eq=False)
class _Tensor:
    """The tensors of one observer: their range, and their readers."""

    observer: ObserverBase
    range: _Range
    joins: list["_Tensor"] = field(default_factory=list)  # the outputs of the joins that read it
    read: bool = False  # by other calls
    leader: "_Tensor | None" = None  # the tensor whose parameters it has
    smallest: float = 0.0  # the smallest range among tensors that share its parameters

    def __post_init__(self) -> None:
        self.smallest = self.range.span

    @property
    def root(self) -> "_Tensor":
        found = self
        while found.leader is not None:
            found = found.leader
        return found

    @property
    def fixed(self) -> bool:
        return isinstance(self.observer, FixedQParamsObserver)

    @property
    def element(self) -> Element:
        return self.observer.element if isinstance(self.observer, RangeObserver) else element_of(self.observer.dtype)


def share(prepared: GraphModule, method: CalibrationMethod) -> None:
    """Makes observers that have seen all data follow one another by the rule, or take their default range."""
    observers = observers_of(prepared)
    for observer in set(observers.values()):
        if isinstance(observer, RangeObserver):
            _take_usual(observer)
    tensors = _tensors(observers, method)
    for tensor in reversed(tensors):  # tensors after this one are decided before it
        _follow_joins(tensor)
    for tensor in tensors:
        for join in tensor.joins:
            _merge(join.root, tensor.root)
    for tensor in tensors:
        if isinstance(tensor.observer, RangeObserver) and tensor.root is not tensor:
            tensor.observer.follow(tensor.root.observer)


def _take_usual(observer: RangeObserver) -> None:
    """Gives a sigmoid all of [0, 1), beyond what calibration has seen, unless that makes its steps larger."""
    low, high = observer.usual or (0.0, 0.0)
    if observer.usual is not None and LOSS * _seen(observer).span > high - low:
        observer.set_range(low, high)
        observer.seen.clear()


# ---- who reads what --------------------------------------------------------------------------------------------------


def observers_of(prepared: GraphModule) -> dict[Node, ObserverBase]:
    """Returns the observers of activations, by the nodes that call them."""
    calls = {
        node: prepared.get_submodule(str(node.target)) for node in prepared.graph.nodes if node.op == "call_module"
    }
    kinds = (RangeObserver, FixedQParamsObserver)
    return {node: observer for node, observer in calls.items() if isinstance(observer, kinds)}


def _tensors(observers: dict[Node, ObserverBase], method: CalibrationMethod) -> list[_Tensor]:
    """Returns all tensors that meet at joins, in the order of the graph; an edge observer has the parameters of its
    join's output."""
    met: dict[ObserverBase, None] = {}
    for entrance, observer in observers.items():
        if isinstance(observer, EdgeObserver):
            output = _output(entrance, observers)
            observer.follow(output)
            operand = observers.get(entrance.all_input_nodes[0])
            met.update({one: None for one in (operand, output) if one is not None})
    order = [observer for observer in dict.fromkeys(observers.values()) if observer in met]
    found = {observer: _Tensor(observer, _range(observer, method)) for observer in order}
    for call, observer in observers.items():
        if observer in found:
            _note_readers(call, found, observers)
    return list(found.values())


def _output(entrance: Node, observers: dict[Node, ObserverBase]) -> ObserverBase:
    """Returns the observer of the output of the join that an edge observer leads to."""
    join = next(iter(entrance.users))
    return next(observers[user] for user in join.users if user in observers)


def _note_readers(call: Node, found: dict[ObserverBase, _Tensor], observers: dict[Node, ObserverBase]) -> None:
    """Notes the readers of a tensor. Data movement is not a reader: its output has the same observer. A layer can read
    its own output. A join in another element reads codes of that element, whatever parameters the tensor has."""
    tensor = found[observers[call]]
    tensor.read |= any(pattern.reads_itself for pattern in patterns_of(call.all_input_nodes[0].target))
    for user in call.users:
        if isinstance(observers.get(user), EdgeObserver):
            join = found[_output(user, observers)]
            tensor.joins += [join] if join.element == tensor.element else []
            tensor.read |= join.element != tensor.element
        elif not any(observers.get(behind) is tensor.observer for behind in user.users):
            tensor.read = True


def _range(observer: ObserverBase, method: CalibrationMethod) -> _Range:
    """Returns the range that a tensor has by itself."""
    if isinstance(observer, FixedQParamsObserver):
        codes = element_of(observer.dtype).codes
        low, high = ((code - float(observer.zero_point)) * float(observer.scale) for code in codes)
        return _Range(low, high)
    assert isinstance(observer, RangeObserver)
    if not observer.seen:
        return _seen(observer)
    usual, _ = observer.usual_samples(method)
    return _Range(*choose_range(usual, method, observer.element))


def _seen(observer: RangeObserver) -> _Range:
    """Returns the range of all values seen, including zero."""
    if not observer.saw_finite:
        return _Range(0.0, 0.0)
    return _Range(min(0.0, float(observer.min_val)), max(0.0, float(observer.max_val)))


# ---- the rule --------------------------------------------------------------------------------------------------------


def _follow_joins(tensor: _Tensor) -> None:
    if tensor.read or tensor.fixed or not tensor.joins:
        return
    roots = list(dict.fromkeys(join.root for join in tensor.joins))
    fitting = [root for root in roots if root.range.covers(tensor.range)]
    if len(roots) == 1 and roots[0].range.span >= LEAST * tensor.range.span:
        fitting = roots
    if fitting:
        tensor.leader = min(fitting, key=lambda root: root.range.span)


def _merge(first: _Tensor, second: _Tensor) -> None:
    """Gives both tensors one range, if it is nearly that of each."""
    leader, other = (second, first) if second.fixed else (first, second)
    if leader is other or other.fixed:
        return
    both = leader.range.joined(other.range)
    needed = [size for size in (leader.smallest, other.smallest) if size > 0.0]  # zeros are exact in any scale
    if (leader.fixed and both != leader.range) or both.span > LOSS * min(needed, default=both.span):
        return
    other.leader, leader.range, leader.smallest = leader, both, min(needed, default=0.0)
    _tell(leader.observer, other.observer)


def _tell(leader: ObserverBase, other: ObserverBase) -> None:
    if isinstance(leader, RangeObserver) and isinstance(other, RangeObserver) and leader.seen:
        leader.seen.extend(other.seen)


# ---- borders ---------------------------------------------------------------------------------------------

Observers = dict[Node, ObserverBase]


def meet(prepared: GraphModule) -> None:
    """Gives one side of each change of element the steps of the other. Runs after `share`: tensors that follow another,
    or are followed, keep their steps."""
    observers = observers_of(prepared)
    leaders = [one.leader for one in observers.values() if isinstance(one, RangeObserver)]
    for node, observer in observers.items():
        source = observers.get(node.all_input_nodes[0])
        if source is None:
            continue
        before, behind = element_of(source.dtype), element_of(observer.dtype)
        if before.bits == behind.bits or not (before.coded and behind.coded):
            continue
        changed = _free(observer if before.bits < behind.bits else source)
        if changed is None or any(changed is leader for leader in leaders):
            continue
        if changed is observer and _covers(source, changed):
            changed.follow(source, 1.0 / WIDER)
        elif changed is source and _serves(changed, observer, observers):
            changed.follow(observer)


def _free(observer: ObserverBase) -> RangeObserver | None:
    """Returns the observer of a tensor whose steps are free; None for others."""
    if not isinstance(observer, RangeObserver) or isinstance(observer, EdgeObserver):
        return None
    settled = observer.leader is not None or observer.usual is not None
    return None if settled else observer


def _covers(source: ObserverBase, reader: RangeObserver) -> bool:
    """Whether a tensor's range covers everything seen where it is read, which is more if other tensors are observed
    there too."""
    if isinstance(source, RangeObserver):
        return source.covers(reader)
    scale, zero_point = (float(value) for value in source.calculate_qparams())
    element = element_of(source.dtype)
    low, high = ((code - zero_point) * scale for code in (element.low, element.high + 1))  # the next one saturates
    return low <= float(reader.min_val) and float(reader.max_val) <= high


def _serves(source: RangeObserver, reader: ObserverBase, observers: Observers) -> bool:
    """Whether all tensors with this observer come from calls that round once, or from data movement, and are read only
    as `reader`, or by data movement."""
    places = [node for node, observer in observers.items() if observer is source]
    for node in places:
        maker = node.all_input_nodes[0]
        if not (_rounds_once(maker) or _is_moved(maker, source, observers)):
            return False
        if not all(observers.get(user) is reader or _is_moved(user, source, observers) for user in node.users):
            return False
    return True


def _rounds_once(node: Node) -> bool:
    """Whether a node is a call that rounds once, or the clamp that such a call carries."""
    patterns = patterns_of(node.target)
    if any(pattern.rounds_once for pattern in patterns):
        return True
    operands = node.all_input_nodes
    return len(operands) == 1 and any(one.rounds_once and one.fuses_clamp for one in patterns_of(operands[0].target))


def _is_moved(node: Node, source: RangeObserver, observers: Observers) -> bool:
    """Whether a call only moves or selects codes, and its operand and results have this observer."""
    if not any(pattern.moves or pattern.monotone for pattern in patterns_of(node.target)):
        return False  # an input, a constant or a call that computes
    around = (observers.get(node.all_input_nodes[0]), *(observers.get(user) for user in node.users))
    return all(one is source for one in around)


# ---- methods of one model --------------------------------------------------------------------------------


class SharedRanges:
    """The ranges of tensors that methods of one model have in common: inputs of the same name, and outputs of the same
    layers.

    Each method is calibrated by itself, and its ranges are noted; once they are joined, each method gets those that all
    of them need, so that the same layers have the same constants.
    """

    def __init__(self) -> None:
        self._noted: list[dict[tuple[str, ...], tuple[float, float]]] = []
        self._joined: dict[tuple[str, ...], tuple[float, float]] = {}

    def join(self) -> bool:
        """Joins the ranges that methods have in common; returns whether any differ."""
        keys = [key for noted in self._noted for key in noted]
        for key in dict.fromkeys(one for one in keys if keys.count(one) > 1):
            ends = [noted[key] for noted in self._noted if key in noted]
            self._joined[key] = min(low for low, _ in ends), max(high for _, high in ends)
        return any(
            self._joined[key] != ends for noted in self._noted for key, ends in noted.items() if key in self._joined
        )

    def meet(self, prepared: GraphModule) -> None:
        """Notes the ranges of a method or, once they are joined, gives its tensors those that all methods need."""
        found = _observed_by_key(prepared)
        if not self._joined:
            self._noted.append({key: (float(one.min_val), float(one.max_val)) for key, one in found.items()})
            return
        for key, observer in found.items():
            if key in self._joined:
                observer.set_ends(*self._joined[key])


def _observed_by_key(prepared: GraphModule) -> dict[tuple[str, ...], RangeObserver]:
    """Returns the observers that choose their own range, by a key from the user's names for what they observe."""
    found: dict[tuple[str, ...], RangeObserver] = {}
    times: dict[tuple[str, ...], int] = {}
    for node in prepared.graph.nodes:
        observer = prepared.get_submodule(str(node.target)) if node.op == "call_module" else None
        source = node.args[0] if node.args else None
        if type(observer) is not RangeObserver or observer.leader is not None or not isinstance(source, Node):
            continue
        path = module_path(source)
        if source.op != "placeholder" and path is None:
            continue
        call = ("input", source.name) if path is None else (path, str(source.target))
        times[call] = times.get(call, 0) + 1
        found[(*call, str(times[call]), observer.element.name)] = observer
    return found
