"""Known ranges: how far 16-bit tensors computed from samples of at most 16 bits can reach.

Without such knowledge a range is four times what calibration saw (for inputs see `ranges.room_of_input`). For samples
it is known: integers reach as far as their type, and real numbers that are all multiples of 1/32768 from -1 to 1 are
divided samples. For other real numbers the user can promise it (--range), and if a spectrum reads them and they nearly
fill -1 to 1, they are sound, whose full scale is 1. Results of calls are bounded by interval arithmetic: by the rules
for integers (`DomainRule.bounds`), which also hold for real numbers, and for linear functions of one tensor by their
ends.
"""

from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from cortado.base.element import INT16
from cortado.base.numerics import Tensor
from cortado.frontend.capture.inputs import Inputs
from cortado.frontend.quantize.observer_replay import observed
from cortado.frontend.quantize.observers import KnownRange, RangeObserver
from cortado.frontend.quantize.ranges import INPUT_ROOM
from cortado.frontend.rewrite.domains import rule_of
from cortado.frontend.rewrite.state import holders
from cortado.ir.analysis import Analysis
from cortado.ir.domain import Interval, interval_of
from cortado.ir.facts import PROMISED, VALUE, FactKey
from cortado.ir.graph import bind, computed_call
from cortado.ir.matching import MATCH, Match, patterns_of
from cortado.ir.roles import SharedWith
from cortado.ops.elementwise.pointwise import is_pointwise, is_table
from cortado.ops.float_graph import constant_data, is_constant
from cortado.ops.signal.codes import is_spectrum

FULL = INT16.steps / 2  # of 16-bit codes: for a range with this end, a step is 1 and each sample is a code
STRAIGHT = 1e-6  # the deviation from a line, as a share of a function's range
POINTS = 65  # at which that is tested
SAMPLE_BITS = 15  # of samples that were divided to be within -1 to 1
COARSE = 12  # numbers of so few bits are not taken for samples: halves and quarters can be anything


def know_ranges(prepared: GraphModule, batches: Sequence[Inputs]) -> None:
    """Tells 16-bit observers how far their tensors can reach. `batches` tell how loud calibration was: quiet samples
    must not lead to a range that loud ones saturate."""
    given = [node for node in prepared.graph.nodes if node.op == "placeholder"]
    inputs = given[: len(given) - len(holders(prepared.graph))]
    known = _KnownInputs(dict(zip(inputs, zip(*batches, strict=True), strict=True)), _heard(prepared.graph))
    reached: dict[RangeObserver, list[Interval | None]] = {}
    for node in prepared.graph.nodes:
        if node.op == "call_module" and not VALUE.known(node):
            VALUE.take(node, node.all_input_nodes[0])  # an observer's: rules look at the shapes of operands
    for _, observer, origin in observed(prepared):
        if observer.element.symmetric:
            reached.setdefault(observer, []).append(None if _is_kept(origin) else known.interval(origin))
    known.forget(prepared.graph.nodes)
    for observer, intervals in reached.items():
        found = [one for one in intervals if one is not None]
        if len(found) == len(intervals):
            low, high = min(one.low for one in found), max(one.high for one in found)
            observer.known = KnownRange(min(0.0, low), max(0.0, high), known.louder)


def _is_kept(tensor: Node) -> bool:
    """Whether a layer with state of its own reads a tensor, which then has the usual headroom of 16-bit codes."""
    readers = [user for reader in tensor.users for user in (reader, *reader.users)]
    return any(pattern.keeps_bits for reader in readers for pattern in patterns_of(reader.target))


class _KnownInputs(Analysis[Any]):
    """Bounds of tensors from those of inputs; implements the part of `ir.domain.Making` that rules of bounds need."""

    key = FactKey[Any]("cortado_reached")

    def __init__(self, inputs: dict[Node, Sequence[Tensor]], heard: Collection[Node]) -> None:
        """Initializes the bounds of inputs; spectra are computed from those in `heard`."""
        self.louder = 1.0  # how many times as far as seen the inputs can reach
        for node, values in inputs.items():
            known = _promised(node) or _of_input(values) or (_of_sound(values) if node in heard else None)
            self.key.note(node, known)
            if known is not None:
                seen = max(float(one.abs().max()) for one in (value.double() for value in values))
                self.louder = max(self.louder, known.high / seen if seen > 0 else 1.0)

    def interval(self, value: Any) -> Any:
        """Returns the bounds of a tensor or a number; None if unknown."""
        if isinstance(value, Node):
            return self.of(value)
        return _between(value, value) if isinstance(value, int | float) else None

    def transfer(self, node: Node) -> Any:
        if is_constant(node):
            data = constant_data(node)
            return _between(float(data.min()), float(data.max())) if data.numel() else None
        if node.op == "call_module":
            return self.interval(node.all_input_nodes[0])
        if node.op != "call_function" or not isinstance(VALUE.of(node), Tensor):
            return None
        if len(node.all_input_nodes) == 1 and (is_pointwise(node) or is_table(node)):
            return self._of_function(node)
        bound, match = bind(node), MATCH.of(node)
        if isinstance(match, Match) and isinstance(match.quantization.output, SharedWith):
            return self.interval(bound[match.quantization.output.argument])
        if not isinstance(bound.get("alpha", 1), int):  # integer rules support no other factor
            return None
        return rule_of(node).bounds(self, bound)  # type: ignore[arg-type]

    def _of_function(self, node: Node) -> Any:
        """Returns the bounds of a function of one tensor that is linear between the ends of its operand."""
        (source,) = node.all_input_nodes
        read = self.interval(source)
        if read is None:
            return None
        points = torch.linspace(read.low, read.high, POINTS, dtype=torch.float64).float()
        values = computed_call(node, lambda one: points).double()
        line = torch.linspace(float(values[0]), float(values[-1]), POINTS, dtype=torch.float64)
        if not bool(((values - line).abs() <= STRAIGHT * line.abs().max()).all()):
            return None
        ends = float(values[0]), float(values[-1])
        return _between(min(ends), max(ends))


def _between(low: float, high: float) -> Interval:
    """Returns an interval of real numbers: sums and products of its ends work as for integers."""
    return Interval(low, high)  # type: ignore[arg-type]


FULL_SCALE = _between(-FULL / 2**SAMPLE_BITS, FULL / 2**SAMPLE_BITS)  # from -1 to 1


def _promised(node: Node) -> Any:
    """Returns the bounds of an input given by the user (--range), made symmetric: for -1 to 1 a step is 1/32768, so
    that divided 16-bit samples are codes."""
    ends = PROMISED.of(node)
    if ends is None:
        return None
    full = max(abs(end) for end in ends) * FULL / 2**SAMPLE_BITS
    return _between(-full, full)


def _of_input(values: Sequence[Tensor]) -> Any:
    """Returns the bounds of an input: those of its dtype, or of divided samples."""
    if not values[0].is_floating_point():
        held = interval_of(values[0].dtype)
        wide = held is not None and held.high == INT16.high
        return _between(-FULL, FULL) if wide else held
    scaled = [value.double() * 2**SAMPLE_BITS for value in values]
    samples = all(bool((one == one.round()).all() and (one.abs() <= 2**SAMPLE_BITS).all()) for one in scaled)
    fine = any(bool((value * 2**COARSE != (value * 2**COARSE).round()).any()) for value in values)
    return FULL_SCALE if samples and fine else None


def _of_sound(values: Sequence[Tensor]) -> Any:
    """Returns the bounds of sound in real numbers, if the usual headroom of an input would exceed its full scale."""
    loudest = max(float(one.abs().max()) for one in values)
    return FULL_SCALE if loudest <= FULL_SCALE.high < INPUT_ROOM * loudest else None


def _heard(graph: Graph) -> set[Node]:
    """Returns everything that spectra are computed from."""
    found = set[Node]()
    for node in reversed(graph.nodes):
        if is_spectrum(node) or node in found:
            found.update(node.all_input_nodes)
    return found
