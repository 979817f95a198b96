"""Which tensors have one scale where they meet: at a concatenation, a minimum, a maximum.

A join reads its operands in the parameters of its output, so an operand in others is rescaled by a table. That costs a
pass over the operand; one scale for all costs the operand's other readers some of its codes. The rule:

1. An operand that only joins read is made in the parameters of the finest of them: nobody could see more of it. Where
   there is only one, values beyond the range of its output saturate, as they would behind it.
2. An operand that others read too, or the layer itself that makes it, shares its scale with the join where that makes
   no step more than `LOSS` times larger, and keeps its own otherwise.

In the same way a sigmoid or a tanh has its usual range where that makes its steps at most `LOSS` times larger.
"""

from dataclasses import dataclass, field

from torch.fx import GraphModule, Node
from torchao.quantization.pt2e.observer import FixedQParamsObserver, ObserverBase

from cortado.base.element import Element, element_of
from cortado.frontend.observers import EdgeObserver, RangeObserver
from cortado.frontend.ranges import choose_range
from cortado.ir.matching import patterns_of
from cortado.options import CalibrationMethod

LOSS = 1.12  # 1 dB
LEAST = 2.0**-8  # of an operand's range that an output may have: kernels' factors have their limits


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
    """Tensors of one observer: their range, and who reads them."""

    observer: ObserverBase
    range: _Range
    joins: list["_Tensor"] = field(default_factory=list)  # the outputs of those that read it
    read: bool = False  # by something else
    leader: "_Tensor | None" = None  # whose parameters it has
    smallest: float = 0.0  # range among those that share their parameters with this one

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
    """Observers that have seen all data follow one another, as the rule has it, or take their usual range."""
    observers = observers_of(prepared)
    for observer in set(observers.values()):
        if isinstance(observer, RangeObserver):
            _take_usual(observer)
    tensors = _tensors(observers, method)
    for tensor in reversed(tensors):  # what is behind a tensor has been decided before it
        _follow_joins(tensor)
    for tensor in tensors:
        for join in tensor.joins:
            _merge(join.root, tensor.root)
    for tensor in tensors:
        if isinstance(tensor.observer, RangeObserver) and tensor.root is not tensor:
            tensor.observer.follow(tensor.root.observer)


def _take_usual(observer: RangeObserver) -> None:
    """A sigmoid has all of [0, 1), what calibration has not seen of it too, unless that makes its steps larger."""
    low, high = observer.usual or (0.0, 0.0)
    if observer.usual is not None and LOSS * _seen(observer).span > high - low:
        observer.set_range(low, high)
        observer.seen.clear()


# ---- who reads what --------------------------------------------------------------------------------------------------


def observers_of(prepared: GraphModule) -> dict[Node, ObserverBase]:
    """The observers of activations, by the nodes that call them."""
    calls = {
        node: prepared.get_submodule(str(node.target)) for node in prepared.graph.nodes if node.op == "call_module"
    }
    kinds = (RangeObserver, FixedQParamsObserver)
    return {node: observer for node, observer in calls.items() if isinstance(observer, kinds)}


def _tensors(observers: dict[Node, ObserverBase], method: CalibrationMethod) -> list[_Tensor]:
    """All that meets at joins, in the order of the graph; an entrance has the parameters of its join's output."""
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
    """The observer behind the join that is behind an entrance."""
    join = next(iter(entrance.users))
    return next(observers[user] for user in join.users if user in observers)


def _note_readers(call: Node, found: dict[ObserverBase, _Tensor], observers: dict[Node, ObserverBase]) -> None:
    """Data movement is no reader: its output has the same observer. A layer may read its own output. A join in another
    element reads codes of that, whatever parameters the tensor has."""
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
    """The range that a tensor has by itself."""
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
    """All values; zero is always among them."""
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
    """One range for both, if it is nearly that of each."""
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
