"""Headroom: how far new data will exceed what calibration has seen, estimated by leaving samples out.

Among exchangeable samples, the next one exceeds the largest of n in one of n + 1 cases, by about as much as the largest
exceeds the second. A class that saturates stays the largest; a coordinate, a level or a state that saturates is wrong
by the whole excess. So tensors that regress (outputs, state, and everything between them and the last layers) get a
wider range where its coarser steps cost less than the expected saturation.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch.fx import GraphModule, Node

from cortado.frontend.quantize.observers import RangeObserver
from cortado.frontend.quantize.ranges import Seen
from cortado.frontend.rewrite.state import returned_nodes
from cortado.ir.matching import Match, find
from cortado.ir.roles import Bias

ENOUGH = 8  # samples that allow leaving one out
FACTORS = np.array([1.0, 1.05, 1.1, 1.2, 1.3, 1.5])  # of a range, that are tried
EXPECTED = 10.0  # times the noise of rounding: more saturation is reported


@dataclass(frozen=True)
class LastingRange:
    """A range for new data: the widening factor, and the saturation that remains relative to rounding."""

    factor: float
    beyond: float  # by which part of the seen range a new sample can exceed it
    often: float  # the share of new samples that do
    ratio: float  # the noise of saturation relative to that of rounding
    sample: int  # the sample that reaches furthest


def regressing(prepared: GraphModule) -> frozenset[RangeObserver]:
    """Returns the observers of outputs and state, and of everything between them and the last layers with weights."""
    found: set[RangeObserver] = set()
    ahead = [node for node in returned_nodes(prepared.graph) if isinstance(node, Node)]
    known = set(ahead)
    while ahead:
        node = ahead.pop()
        observer = prepared.get_submodule(str(node.target)) if node.op == "call_module" else None
        if isinstance(observer, RangeObserver):
            found.add(observer)
        if not _is_layer(node):
            behind = [read for read in node.all_input_nodes if read not in known and read.op != "get_attr"]
            known.update(behind)
            ahead += behind
    return frozenset(found)


def _is_layer(node: Node) -> bool:
    match = find(node) if node.op == "call_function" else None
    return isinstance(match, Match) and Bias() in match.quantization.inputs.values()


def lasting(seen: Sequence[Seen], low: float, high: float, steps: int) -> LastingRange | None:
    """Returns the widening with the least expected noise for a range from `low` to `high`; None if too few samples were
    seen."""
    samples = {one.sample for one in seen}
    if len(samples) < ENOUGH or high <= low:
        return None
    above = _excess(seen, high, len(samples))
    below = _excess([_mirrored(one) for one in seen], -low, len(samples))
    rounding = ((high - low) / steps * FACTORS) ** 2 / 12
    best = int((rounding + above.noise + below.noise).argmin())
    return LastingRange(
        factor=float(FACTORS[best]),
        beyond=max(above.beyond, below.beyond),
        often=((above.beyond > 0) + (below.beyond > 0)) / (len(samples) + 1),
        ratio=float((above.noise[best] + below.noise[best]) / rounding[best]),
        sample=max(above, below, key=lambda one: one.noise[best]).sample,
    )


@dataclass(frozen=True)
class _Excess:
    noise: np.ndarray[tuple[int, ...], np.dtype[np.float64]]  # mean square beyond the end, for each factor
    beyond: float
    sample: int


def _excess(seen: Sequence[Seen], end: float, samples: int) -> _Excess:
    """Returns the excess of the sample that reaches furthest, beyond the end that the range would have without it."""
    reached: dict[int, float] = {}
    for one in seen:
        reached[one.sample] = max(reached.get(one.sample, 0.0), one.high)
    first, second = sorted(reached, key=lambda sample: -reached[sample])[:2]
    if end <= 0.0 or reached[second] <= 0.0:
        return _Excess(np.zeros(len(FACTORS)), 0.0, first)
    without = end * reached[second] / reached[first]
    mine = [one for one in seen if one.sample == first]
    values, counts = np.concatenate([one.centers for one in mine]), np.concatenate([one.counts for one in mine])
    over = np.maximum(values[None] - FACTORS[:, None] * without, 0.0)
    noise = (over**2 * counts).sum(1) / counts.sum() / samples
    return _Excess(noise, reached[first] / reached[second] - 1, first)


def _mirrored(one: Seen) -> Seen:
    return Seen(one.sample, one.place, -one.high, -one.low, one.counts[::-1])
