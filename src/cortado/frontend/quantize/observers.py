"""Observers of tensors: the basis of PT2E's specifications for activations, weights and biases."""

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

# The product of two such scales, a bias's scale, is still a normal float32.
SMALLEST_SCALE = 2.0**-60
WEIGHT_MAX = INT8.high
BIAS_BITS = 29  # of a bias in steps of its scale: its sum with the products must fit 32 bits
# For 8-bit codes: with 700 products it still fits the 24 bits that the fastest kernels have for a sum.
_SMALL_BIAS_BITS = 21
# For a tensor that was always zero in calibration. Any scale would do, but with the smallest one other layers overflow.
SCALE_OF_ZEROS = 2.0**-7

TensorSpec: TypeAlias = QuantizationSpecBase


@dataclass(frozen=True)
class Observed:
    """The statistics of an observer after all data, before a range is chosen."""

    seen: tuple[Seen, ...]
    low: float
    high: float
    needed: tuple[float, float]


@dataclass(frozen=True)
class KnownRange:
    """How far a tensor can reach, and how many times as far as seen the inputs can reach (`louder`)."""

    low: float
    high: float
    louder: float

    def within(self, low: float, high: float) -> tuple[float, float]:
        """Returns a range with headroom, scaled as if inputs had been as loud as they can be, but within the known
        one."""
        return max(self.low, low * self.louder), min(self.high, high * self.louder)


class RangeObserver(MinMaxObserver):
    """An observer of the smallest and largest finite value, with statistics of each sample.

    log(0) or 1 / 0 in a calibration input must not make a scale infinite: such values saturate, as they do on the
    device.
    """

    def __init__(self, *args: Any, usual: tuple[float, float] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.usual = usual  # the default range of this tensor, unless it fills only a small part of it
        self.sample, self.place = 0, ""  # the current calibration sample and tensor
        self.seen: list[Seen] = []
        self.hidden: dict[str, torch.Tensor] = {}  # by tensor: a mask of values that nothing reads
        self.without: frozenset[int] = frozenset()  # samples that are held out when the range is chosen
        self.known: KnownRange | None = None  # the known range, for codes with bits to spare
        self.whole = True  # only integers were seen
        self.exact = False  # each of these integers has a code of its own
        self.needed = (0.0, 0.0)  # values that the range must include: initial values of state
        self._leader: list[ObserverBase] = []  # in a list, so that it is no submodule
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
        """Returns the statistics from which a range is chosen, and the samples that are left out as outliers."""
        odd = left_out(self.seen, method, self.element)
        usual = [one for one in self.seen if one.sample not in odd]
        return [one for one in usual if one.sample not in self.without] or usual, odd

    def set_range(self, low: float, high: float) -> None:
        """Sets the range chosen from all statistics."""
        self.set_ends(min(low, self.needed[0]), max(high, self.needed[1]))

    def set_ends(self, low: float, high: float) -> None:
        self.min_val.fill_(low)
        self.max_val.fill_(high)

    def observed(self) -> Observed:
        return Observed(tuple(self.seen), float(self.min_val), float(self.max_val), self.needed)

    def recall(self, observed: Observed, without: Collection[int] = ()) -> None:
        """Restores the statistics, to choose a range `without` some samples."""
        kept = [one for one in observed.seen if one.sample not in without] or observed.seen
        self.seen, self.needed, self.exact, self._leader = list(observed.seen), observed.needed, False, []
        self.without = frozenset(without)
        lows, highs = [one.low for one in kept], [one.high for one in kept]
        self.set_ends(min(lows, default=observed.low), max(highs, default=observed.high))

    @property
    def element(self) -> Element:
        return element_of(self.dtype)

    def keep_integers(self) -> None:
        """Makes the step a power of two, at most 1, so that every integer of the range is exactly a code."""
        low, high = math.floor(min(float(self.min_val), 0.0)), math.ceil(max(float(self.max_val), 0.0))
        if not (self.whole and 0 < high - low <= self.quant_max - self.quant_min):
            return
        steps = 2.0 ** math.floor(math.log2((self.quant_max - self.quant_min) / (high - low)))
        self.set_range(float(low), low + (self.quant_max - self.quant_min) / steps)
        self.exact = True

    def need(self, values: tuple[float, float]) -> None:
        self.needed = min(values[0], self.needed[0]), max(values[1], self.needed[1])

    def follow(self, leader: ObserverBase, part: float = 1.0) -> None:
        """Takes over the parameters of another tensor; the statistics here only tell how many codes are used. `part`:
        the ratio of steps, if the leader has another element."""
        self._leader, self._part = [leader], part

    @property
    def leader(self) -> ObserverBase | None:
        return self._leader[0] if self._leader else None

    def covers(self, other: "RangeObserver") -> bool:
        """Whether its range includes that of another observer."""
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
        if not bool(torch.isfinite(scale).all()):  # the ends are further apart than float32 can represent
            low, high = float(self.min_val), float(self.max_val)
            step = (high - low) / (self.quant_max - self.quant_min)
            return torch.full_like(scale, step), torch.full_like(zero_point, self.quant_min - round(low / step))
        zeros = (self.min_val == 0) & (self.max_val == 0)
        return torch.where(zeros, torch.full_like(scale, SCALE_OF_ZEROS), scale), zero_point


def _ends(x: torch.Tensor) -> tuple[float, float]:
    """Returns the smallest and the largest value as Python numbers: several small tensors would be slower."""
    low, high = torch.aminmax(x)
    return float(low), float(high)


class EdgeObserver(RangeObserver):
    """The observer of a tensor where it enters a join, with the parameters of the join's output: an operand with other
    readers, or one of a fixed range, can use few codes there."""


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
    """Returns the specification of weights: symmetric; packed weights take a byte each until the layer is packed."""
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
    """Enlarges weight scales that are too small for the bias to fit: next to such a bias the lost precision of the
    weights is invisible."""
    input_scale, _ = activation.calculate_qparams()
    bits = _SMALL_BIAS_BITS if element_of(activation.dtype).affine else BIAS_BITS
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
    """The observation of activations and weights (by the axis of output channels), and hooks before and after a graph
    is rewritten."""

    activation: Callable[[Element], QuantizationSpec]
    weight: Callable[[int, Element], QuantizationSpec]  # by the axis of its output channels and its element
    usual: Callable[[QParams], TensorSpec]  # for a tensor with default parameters
    # For an operand where it enters a join; None: observed with the join's output.
    entrance: Callable[[Element], QuantizationSpec] | None
    weights: Element  # for layers that have kernels for it; others have more bits
    before: Callable[[GraphModule], None] = lambda module: None
    after: Callable[[GraphModule], None] = lambda module: None
    # After rewriting: rewrites calls for the elements that they are to have; returns whether there were any.
    respell: Callable[[GraphModule], bool] = lambda module: False
    # The elements of real numbers, by the nodes that compute them; int8 for others.
    elements: Callable[[Graph], Mapping[Node, Element]] = lambda graph: {}
    floats: Callable[[Graph], Collection[Node]] = lambda graph: ()  # calls that are deliberately not quantized


ALONE = Scheme(activation_spec, weight_spec, fixed_spec, None, INT8)
"""The scheme for PT2E as users call it."""
SETTLED = Scheme(activation_spec, weight_spec, usual_spec, entrance_spec, INT8)
"""The scheme for Cortado's own calibration, which decides what tensors share (`sharing`) once all data was seen."""
