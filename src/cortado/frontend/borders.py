"""Where a tensor changes its element, one side takes the other's steps, so that nothing is scaled there.

1. int8 codes that are read as int16: the int16 codes have 128 steps to one of the int8 codes, so they are the same
   numbers exactly.
2. int16 codes that are read as int8 alone, of a call that rounds its result once, whatever steps that is to have: the
   call gives it the steps of the int8 codes. They are limited to a byte where they are stored as one; nothing is
   rounded twice.

Elsewhere, as where an int16 tensor is read in both elements, codes are scaled (`ops/requantize.py`).
"""

from torch.fx import GraphModule, Node
from torchao.quantization.pt2e.observer import ObserverBase

from cortado.base.element import INT8, INT16, element_of
from cortado.frontend.observers import EdgeObserver, RangeObserver
from cortado.frontend.sharing import observers_of
from cortado.ir.matching import patterns_of
from cortado.ops.requantize import WIDER

Observers = dict[Node, ObserverBase]


def meet(prepared: GraphModule) -> None:
    """Gives one side of each change of element the steps of the other. Runs after `share`: what follows another tensor,
    or is followed, keeps its steps."""
    observers = observers_of(prepared)
    leaders = [one.leader for one in observers.values() if isinstance(one, RangeObserver)]
    for node, observer in observers.items():
        source = observers.get(node.all_input_nodes[0])
        elements = None if source is None else (element_of(source.dtype), element_of(observer.dtype))
        if source is None or elements not in ((INT8, INT16), (INT16, INT8)):
            continue
        changed = _free(observer if elements == (INT8, INT16) else source)
        if changed is None or any(changed is leader for leader in leaders):
            continue
        if changed is observer and _covers(source, changed):
            changed.follow(source, 1.0 / WIDER)
        elif changed is source and _serves(changed, observer, observers):
            changed.follow(observer)


def _free(observer: ObserverBase) -> RangeObserver | None:
    """The observer of a tensor that may have any steps."""
    if not isinstance(observer, RangeObserver) or isinstance(observer, EdgeObserver):
        return None
    settled = observer.leader is not None or observer.usual is not None
    return None if settled else observer


def _covers(source: ObserverBase, reader: RangeObserver) -> bool:
    """Whether a tensor holds all that was seen where it is read: more is there where other tensors are observed too."""
    if isinstance(source, RangeObserver):
        return source.covers(reader)
    scale, zero_point = (float(value) for value in source.calculate_qparams())
    low, high = ((code - zero_point) * scale for code in (INT8.low, INT8.high + 1))  # the next one is what saturates
    return low <= float(reader.min_val) and float(reader.max_val) <= high


def _serves(source: RangeObserver, reader: ObserverBase, observers: Observers) -> bool:
    """Whether all that have this observer are made by calls that round once, or by movement, and read as `reader`
    alone, or by movement."""
    places = [node for node, observer in observers.items() if observer is source]
    for node in places:
        maker = node.all_input_nodes[0]
        if not (_rounds_once(maker) or _is_moved(maker, source, observers)):
            return False
        if not all(observers.get(user) is reader or _is_moved(user, source, observers) for user in node.users):
            return False
    return True


def _rounds_once(node: Node) -> bool:
    """A call, or the clamp behind one that carries it."""
    patterns = patterns_of(node.target)
    if any(pattern.rounds_once for pattern in patterns):
        return True
    operands = node.all_input_nodes
    return len(operands) == 1 and any(one.rounds_once and one.fuses_clamp for one in patterns_of(operands[0].target))


def _is_moved(node: Node, source: RangeObserver, observers: Observers) -> bool:
    """Whether a call only moves codes, or chooses among them, and those it reads and gives have this observer."""
    if not any(pattern.moves or pattern.monotone for pattern in patterns_of(node.target)):
        return False  # an input, a constant or a call that computes
    around = (observers.get(node.all_input_nodes[0]), *(observers.get(user) for user in node.users))
    return all(one is source for one in around)
