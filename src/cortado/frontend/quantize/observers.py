"""How tensors are observed: what PT2E's specifications for activations, weights and biases are made of."""

import functools
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch.fx import Graph, GraphModule, Node
from torchao.quantization.pt2e import MinMaxObserver, PerChannelMinMaxObserver
from torchao.quantization.pt2e.observer import ObserverBase
from torchao.quantization.pt2e.quantizer import (
    DerivedQuantizationSpec,
    FixedQParamsQuantizationSpec,
    QuantizationSpec,
    QuantizationSpecBase,
)

from cortado.base.element import INT8, INT32, Element, element_of
from cortado.base.numerics import QParams
from cortado.frontend.quantize.ranges import Seen, left_out
from cortado.options import CalibrationMethod

# The product of two scales, that of a bias, is still a normal float32.
SMALLEST_SCALE = 2.0**-60
WEIGHT_MAX = INT8.high
BIAS_BITS = 29  # of a bias in steps of its scale: it shares 32 bits with the sum of the products
# Beside codes of 8 bits: with 700 products it still fits the 24 bits that the fastest kernels have for a sum.
_SMALL_BIAS_BITS = 21
# Of a tensor that was zero in all of calibration. Any would do, but with the smallest one other layers overflow.
SCALE_OF_ZEROS = 2.0**-7

TensorSpec: TypeAlias = QuantizationSpecBase


@dataclass(frozen=True)
class Observed:
    """Statistics of an observer after all data, before a range is chosen."""

    seen: tuple[Seen, ...]
    low: float
    high: float
    needed: tuple[float, float]


@dataclass(frozen=True)
class KnownRange:
    """How far a tensor can reach, whatever was seen; and how many times as far as they did the inputs can."""

    low: float
    high: float
    louder: float

    def within(self, low: float, high: float) -> tuple[float, float]:
        """The ends of a range with room, as if inputs had been as loud as they can be; none beyond what is known."""
        return max(self.low, low * self.louder), min(self.high, high * self.louder)


class RangeObserver(MinMaxObserver):
    """The smallest and largest finite value seen, and what each sample had of them.

    log(0) or 1 / 0 in a calibration input must not make a scale infinite: such values saturate, as they do later.
    """

    def __init__(self, *args: Any, usual: tuple[float, float] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.usual = usual  # the ends of the range that this tensor has unless it fills a small part of it only
        self.sample, self.place = 0, ""  # the calibration sample that is being run, and the tensor
        self.seen: list[Seen] = []
        self.hidden: dict[str, torch.Tensor] = {}  # by tensor: which of its values nobody reads
        self.without: frozenset[int] = frozenset()  # samples that are held back when the range is chosen
        self.known: KnownRange | None = None  # of codes that have bits to spare
        self.whole = True  # no value but integers was seen
        self.exact = False  # each of them has a code of its own
        self.needed = (0.0, 0.0)  # values that any range has, whatever is usual: the first that state has
        self._leader: list[ObserverBase] = []  # in a list: it is no part of this module
        self._part = 1.0

    def forward(self, x_orig: torch.Tensor) -> torch.Tensor:
        x = x_orig.detach()
        if self.place in self.hidden:
            x = x[~self.hidden[self.place]]
        if x.numel() == 0:
            return x_orig
        low, high = _ends(x)
        if not (math.isfinite(low) and math.isfinite(high)):
            x = x[torch.isfinite(x)]
            if x.numel() == 0:
                return x_orig
            low, high = _ends(x)
        self.set_ends(min(low, float(self.min_val)), max(high, float(self.max_val)))
        self.whole = self.whole and low.is_integer() and bool((x == x.round()).all())
        self.seen.append(Seen.of(self.sample, self.place, x, low, high))
        return x_orig

    def usual_samples(self, method: CalibrationMethod) -> tuple[list[Seen], dict[int, float]]:
        """The values that a range is chosen from, and the samples that are left out as outliers."""
        odd = left_out(self.seen, method, self.element)
        usual = [one for one in self.seen if one.sample not in odd]
        return [one for one in usual if one.sample not in self.without] or usual, odd

    def set_range(self, low: float, high: float) -> None:
        """Sets the range that calibration makes of all that was seen."""
        self.set_ends(min(low, self.needed[0]), max(high, self.needed[1]))

    def set_ends(self, low: float, high: float) -> None:
        self.min_val.fill_(low)
        self.max_val.fill_(high)

    def observed(self) -> Observed:
        return Observed(tuple(self.seen), float(self.min_val), float(self.max_val), self.needed)

    def recall(self, observed: Observed, without: Collection[int] = ()) -> None:
        """Restores the statistics; the range is to be chosen `without` some samples."""
        kept = [one for one in observed.seen if one.sample not in without] or observed.seen
        self.seen, self.needed, self.exact, self._leader = list(observed.seen), observed.needed, False, []
        self.without = frozenset(without)
        lows, highs = [one.low for one in kept], [one.high for one in kept]
        self.set_ends(min(lows, default=observed.low), max(highs, default=observed.high))

    @property
    def element(self) -> Element:
        return element_of(self.dtype)

    def keep_integers(self) -> None:
        """Steps that are a power of two, at most 1, so that every integer of the range is a code exactly."""
        low, high = math.floor(min(float(self.min_val), 0.0)), math.ceil(max(float(self.max_val), 0.0))
        if not (self.whole and 0 < high - low <= self.quant_max - self.quant_min):
            return
        steps = 2.0 ** math.floor(math.log2((self.quant_max - self.quant_min) / (high - low)))
        self.set_range(float(low), low + (self.quant_max - self.quant_min) / steps)
        self.exact = True

    def need(self, values: tuple[float, float]) -> None:
        self.needed = min(values[0], self.needed[0]), max(values[1], self.needed[1])

    def follow(self, leader: ObserverBase, part: float = 1.0) -> None:
        """From now on the parameters of another tensor; what was seen here only says how many codes are used. Of one of
        another element, such a part of its steps."""
        self._leader, self._part = [leader], part

    @property
    def leader(self) -> ObserverBase | None:
        return self._leader[0] if self._leader else None

    def covers(self, other: "RangeObserver") -> bool:
        """Whether it saw all that another one did."""
        return bool(self.min_val <= other.min_val and self.max_val >= other.max_val)

    @property
    def saw_finite(self) -> bool:
        return bool(self.min_val <= self.max_val)

    @property
    def largest(self) -> float:
        """The largest magnitude seen."""
        return max(abs(float(self.min_val)), abs(float(self.max_val)))

    def calculate_qparams(self) -> tuple[torch.Tensor, torch.Tensor]:
        if self.leader is not None:
            scale, zero_point = self.leader.calculate_qparams()
            return self._part * scale, zero_point if self.element.affine else torch.zeros_like(zero_point)
        scale, zero_point = super().calculate_qparams()
        if not bool(torch.isfinite(scale).all()):  # of ends that are further apart than float32 can tell
            low, high = float(self.min_val), float(self.max_val)
            step = (high - low) / (self.quant_max - self.quant_min)
            return torch.full_like(scale, step), torch.full_like(zero_point, self.quant_min - round(low / step))
        zeros = (self.min_val == 0) & (self.max_val == 0)
        return torch.where(zeros, torch.full_like(scale, SCALE_OF_ZEROS), scale), zero_point


def _ends(x: torch.Tensor) -> tuple[float, float]:
    """The smallest value and the largest, in numbers of Python: several small tensors would take longer."""
    low, high = torch.aminmax(x)
    return float(low), float(high)


class EdgeObserver(RangeObserver):
    """Observer of a tensor that enters a join, which has the parameters of the join's output: an operand that others
    read too, or one of a fixed range, may have few codes there only."""


def scheme_of(element: Element) -> torch.qscheme:
    return torch.per_tensor_affine if element.affine else torch.per_tensor_symmetric


def _observed(
    element: Element, observer: type[RangeObserver], usual: tuple[float, float] | None = None
) -> QuantizationSpec:
    return QuantizationSpec(
        dtype=element.torch_dtype,
        observer_or_fake_quant_ctr=observer.with_args(eps=SMALLEST_SCALE, usual=usual),
        quant_min=element.low,
        quant_max=element.high,
        qscheme=scheme_of(element),
    )


@functools.cache
def activation_spec(element: Element) -> QuantizationSpec:
    return _observed(element, RangeObserver)


@functools.cache
def entrance_spec(element: Element) -> QuantizationSpec:
    return _observed(element, EdgeObserver)


@functools.cache
def usual_spec(qparams: QParams) -> QuantizationSpec:
    return _observed(qparams.element, RangeObserver, qparams.range)


@functools.cache
def weight_spec(axis: int, element: Element) -> QuantizationSpec:
    """Returns the specification of weights: symmetric; packed ones are a byte each until the layer is packed."""
    return QuantizationSpec(
        dtype=element.torch_dtype,
        observer_or_fake_quant_ctr=PerChannelMinMaxObserver.with_args(eps=SMALLEST_SCALE),
        quant_min=-element.high,
        quant_max=element.high,
        qscheme=torch.per_channel_symmetric,
        ch_axis=axis,
    )


def _bias_qparams(observers: list[ObserverBase]) -> tuple[torch.Tensor, torch.Tensor]:
    input_scale, _ = observers[0].calculate_qparams()
    weight_scale, _ = observers[1].calculate_qparams()
    scale = (input_scale * weight_scale).to(torch.float32)
    return scale, torch.zeros_like(scale, dtype=torch.int32)


def make_room_for_bias(bias: torch.Tensor, activation: ObserverBase, weight: ObserverBase) -> None:
    """Weights of so small a scale that the bias would not fit get a larger one: beside that bias the codes that they
    lose can't be seen."""
    input_scale, _ = activation.calculate_qparams()
    bits = _SMALL_BIAS_BITS if element_of(activation.dtype) is INT8 else BIAS_BITS
    least = bias.detach().abs().to(torch.float64) / (float(input_scale) * 2**bits)
    largest: Any = weight.max_val
    weight.max_val = torch.maximum(largest, (least * WEIGHT_MAX).to(largest.dtype))


def bias_spec(user: Node, activation: Node, weight: Node) -> DerivedQuantizationSpec:
    return DerivedQuantizationSpec(
        derived_from=[(activation, user), (weight, user)],
        derive_qparams_fn=_bias_qparams,
        dtype=INT32.torch_dtype,
        quant_min=INT32.low,
        quant_max=INT32.high,
        qscheme=torch.per_channel_symmetric,
        ch_axis=0,
    )


@functools.cache
def fixed_spec(qparams: QParams) -> FixedQParamsQuantizationSpec:
    return FixedQParamsQuantizationSpec(
        dtype=qparams.element.torch_dtype,
        scale=qparams.scale,
        zero_point=qparams.zero_point,
        quant_min=qparams.element.low,
        quant_max=qparams.element.high,
        qscheme=scheme_of(qparams.element),
    )


@dataclass(frozen=True)
class Scheme:
    """How activations are observed, and weights with their output channels along an axis; what a graph goes through
    before it is rewritten, and after."""

    activation: Callable[[Element], QuantizationSpec]
    weight: Callable[[int, Element], QuantizationSpec]  # by the axis of its output channels and its element
    usual: Callable[[QParams], TensorSpec]  # of a tensor that usually has these parameters
    # Of an operand where it enters a join; None: observed with the join's output.
    entrance: Callable[[Element], QuantizationSpec] | None
    weights: Element  # of layers that have kernels for it; others have more bits
    before: Callable[[GraphModule], None] = lambda module: None
    after: Callable[[GraphModule], None] = lambda module: None
    # Once it is rewritten: whether calls had to be spelled in others, for the elements that they are to have.
    respell: Callable[[GraphModule], bool] = lambda module: False
    # The elements that real numbers are to have, by what makes them; int8 where nothing is said.
    elements: Callable[[Graph], Mapping[Node, Element]] = lambda graph: {}
    floats: Callable[[Graph], Collection[Node]] = lambda graph: ()  # calls that are not quantized, on purpose


ALONE = Scheme(activation_spec, weight_spec, fixed_spec, None, INT8)
"""For PT2E as users call it."""
SETTLED = Scheme(activation_spec, weight_spec, usual_spec, entrance_spec, INT8)
"""For Cortado's own calibration, which settles what tensors share (`sharing`) once all data was seen."""
