"""From what the observers saw on calibration data to the ranges they keep; samples that are unlike all others are left
out, and told of."""

from collections import defaultdict
from dataclasses import dataclass

from torch.fx import GraphModule, Node

from cortado.frontend.quantizer import RangeObserver
from cortado.frontend.ranges import ODD, choose_range, odd_samples
from cortado.ir.graph import describe
from cortado.options import CalibrationMethod

ENOUGH = 32
"""Samples below which ranges are a matter of luck."""


@dataclass(frozen=True)
class Settled:
    """What calibration has to tell."""

    odd: frozenset[int]  # samples that some tensor's range leaves out
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class _Odd:
    """A tensor in which a sample is unlike the others."""

    tensor: Node
    times: float


def settle(prepared: GraphModule, method: CalibrationMethod) -> Settled:
    """Gives every observer its range."""
    found: dict[int, list[_Odd]] = defaultdict(list)
    for observer, tensor in _observers(prepared).items():
        if not observer.seen:
            continue
        odd = {} if method is CalibrationMethod.MINMAX else odd_samples(observer.seen)
        for sample, times in odd.items():
            found[sample].append(_Odd(tensor, times))
        observer.set_range(*choose_range([one for one in observer.seen if one.sample not in odd], method))
        observer.seen.clear()
    return Settled(frozenset(found), tuple(_warning(sample, tensors) for sample, tensors in sorted(found.items())))


def _observers(prepared: GraphModule) -> dict[RangeObserver, Node]:
    """Each with the first tensor it observes."""
    found: dict[RangeObserver, Node] = {}
    for node in prepared.graph.nodes:
        observer = prepared.get_submodule(str(node.target)) if node.op == "call_module" else None
        if isinstance(observer, RangeObserver):
            found.setdefault(observer, node.all_input_nodes[0])
    return found


def _warning(sample: int, tensors: list[_Odd]) -> str:
    worst = max(tensors, key=lambda odd: odd.times)
    others = f" and {len(tensors) - 1} other tensors" if len(tensors) > 1 else ""
    return (
        f"calibration sample {sample} is left out of the range of {describe(worst.tensor)}{others}: its values reach "
        f"{worst.times:.1f} times what nine of ten samples stay within (more than {ODD:g} times is taken for a "
        "mistake); check that sample, or keep all values with --calibration-method minmax"
    )
