"""CortexMQuantizer: annotates a float graph for int8 PT2E quantization, driven by the operator registry."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch
from torch.fx import Graph, GraphModule, Node
from torchao.quantization.pt2e import MinMaxObserver, PerChannelMinMaxObserver
from torchao.quantization.pt2e.observer import ObserverBase
from torchao.quantization.pt2e.quantizer import (
    DerivedQuantizationSpec,
    FixedQParamsQuantizationSpec,
    QuantizationAnnotation,
    QuantizationSpec,
    QuantizationSpecBase,
    Quantizer,
    SharedQuantizationSpec,
)

from cortado.base.numerics import QParams
from cortado.frontend.canonical import canonicalize
from cortado.frontend.ranges import Seen
from cortado.ir.facts import Fact
from cortado.ir.graph import Bound, bind, sole_user
from cortado.ir.op import Joined, Match, ObservedWith, Pattern, Quantization, Role, SharedWith, Usually, find
from cortado.ops.pointwise import hoist_clamps, is_clamp, merge_pieces, sources

ANNOTATION: Fact[QuantizationAnnotation] = Fact("quantization_annotation")

# The product of two scales, that of a bias, is still a normal float32.
SMALLEST_SCALE = 2.0**-60
WEIGHT_MAX = 127
BIAS_BITS = 29  # of a bias in steps of its scale: it shares 32 bits with the sum of the products
# Of a tensor that was zero in all of calibration. Any would do, but with the smallest one other layers overflow.
SCALE_OF_ZEROS = 2.0**-7
CODES = (-128, 127)

Spec: TypeAlias = QuantizationSpecBase


class RangeObserver(MinMaxObserver):
    """The smallest and largest finite value seen, and what each sample had of them.

    log(0) or 1 / 0 in a calibration input must not make a scale infinite: such values saturate, as they do later.
    """

    def __init__(self, *args: Any, usual: tuple[float, float] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.usual = usual  # the ends of the range that this tensor has unless it fills a small part of it only
        self.sample, self.place = 0, ""  # the calibration sample that is being run, and the tensor
        self.seen: list[Seen] = []
        self._leader: list[ObserverBase] = []  # in a list: it is no part of this module

    def forward(self, x_orig: torch.Tensor) -> torch.Tensor:
        x = x_orig.detach()
        if x.numel() == 0:
            return x_orig
        low, high = torch.aminmax(x)
        if not (torch.isfinite(low) and torch.isfinite(high)):
            x = x[torch.isfinite(x)]
            if x.numel() == 0:
                return x_orig
            low, high = torch.aminmax(x)
        self.min_val.copy_(torch.minimum(low.to(self.min_val.dtype), self.min_val))
        self.max_val.copy_(torch.maximum(high.to(self.max_val.dtype), self.max_val))
        self.seen.append(Seen.of(self.sample, self.place, x, float(low), float(high)))
        return x_orig

    def set_range(self, low: float, high: float) -> None:
        """What calibration makes of all that was seen."""
        self.min_val.fill_(low)
        self.max_val.fill_(high)

    def follow(self, leader: ObserverBase) -> None:
        """From now on the parameters of another tensor; what was seen here says nothing any more."""
        self._leader = [leader]
        self.seen.clear()

    @property
    def leader(self) -> ObserverBase | None:
        return self._leader[0] if self._leader else None

    @property
    def saw_finite(self) -> bool:
        return bool(self.min_val <= self.max_val)

    @property
    def largest(self) -> float:
        """The largest magnitude seen."""
        return max(abs(float(self.min_val)), abs(float(self.max_val)))

    def calculate_qparams(self) -> tuple[torch.Tensor, torch.Tensor]:
        if self.leader is not None:
            followed: tuple[torch.Tensor, torch.Tensor] = self.leader.calculate_qparams()
            return followed
        scale, zero_point = super().calculate_qparams()
        zeros = (self.min_val == 0) & (self.max_val == 0)
        return torch.where(zeros, torch.full_like(scale, SCALE_OF_ZEROS), scale), zero_point


class EdgeObserver(RangeObserver):
    """Where a tensor enters a join. It looks at nothing: the parameters are those of the join's output."""

    def forward(self, x_orig: torch.Tensor) -> torch.Tensor:
        return x_orig


def _activation_spec(observer: type[RangeObserver], usual: tuple[float, float] | None = None) -> QuantizationSpec:
    return QuantizationSpec(
        dtype=torch.int8,
        observer_or_fake_quant_ctr=observer.with_args(eps=SMALLEST_SCALE, usual=usual),
        quant_min=CODES[0],
        quant_max=CODES[1],
        qscheme=torch.per_tensor_affine,
    )


ACTIVATION = _activation_spec(RangeObserver)
EDGE = _activation_spec(EdgeObserver)


@functools.cache
def usual_spec(qparams: QParams) -> QuantizationSpec:
    low, high = ((code - qparams.zero_point) * qparams.scale for code in CODES)
    return _activation_spec(RangeObserver, (low, high))


@functools.cache
def weight_spec(axis: int) -> QuantizationSpec:
    """Weights stay within +-127: two int8 products then fit an int16."""
    return QuantizationSpec(
        dtype=torch.int8,
        observer_or_fake_quant_ctr=PerChannelMinMaxObserver.with_args(eps=SMALLEST_SCALE),
        quant_min=-WEIGHT_MAX,
        quant_max=WEIGHT_MAX,
        qscheme=torch.per_channel_symmetric,
        ch_axis=axis,
    )


def _bias_qparams(observers: list[ObserverBase]) -> tuple[torch.Tensor, torch.Tensor]:
    input_scale, _ = observers[0].calculate_qparams()
    weight_scale, _ = observers[1].calculate_qparams()
    scale = (input_scale * weight_scale).to(torch.float32)
    return scale, torch.zeros_like(scale, dtype=torch.int32)


def make_room_for_bias(bias: torch.Tensor, activation: ObserverBase, weight: ObserverBase) -> None:
    """Weights of so small a scale that the bias would not fit 32 bits get a larger one: beside that bias the codes that
    they lose can't be seen."""
    input_scale, _ = activation.calculate_qparams()
    least = bias.detach().abs().to(torch.float64) / (float(input_scale) * 2**BIAS_BITS)
    largest: Any = weight.max_val
    weight.max_val = torch.maximum(largest, (least * WEIGHT_MAX).to(largest.dtype))


def bias_spec(user: Node, activation: Node, weight: Node) -> DerivedQuantizationSpec:
    return DerivedQuantizationSpec(
        derived_from=[(activation, user), (weight, user)],
        derive_qparams_fn=_bias_qparams,
        dtype=torch.int32,
        quant_min=-(2**31),
        quant_max=2**31 - 1,
        qscheme=torch.per_channel_symmetric,
        ch_axis=0,
    )


@functools.cache
def fixed_spec(qparams: QParams) -> FixedQParamsQuantizationSpec:
    return FixedQParamsQuantizationSpec(
        dtype=torch.int8,
        scale=qparams.scale,
        zero_point=qparams.zero_point,
        quant_min=CODES[0],
        quant_max=CODES[1],
        qscheme=torch.per_tensor_affine,
    )


@dataclass(frozen=True)
class Scheme:
    """How activations are observed, and weights with their output channels along an axis; what a graph goes through
    before it is rewritten, and after."""

    activation: QuantizationSpec
    weight: Callable[[int], QuantizationSpec]
    usual: Callable[[QParams], Spec]  # of a tensor that usually has these parameters
    entrance: QuantizationSpec | None  # of an operand where it enters a join; None: observed with the join's output
    before: Callable[[GraphModule], None] = lambda module: None
    after: Callable[[GraphModule], None] = lambda module: None


ALONE = Scheme(ACTIVATION, weight_spec, fixed_spec, None)
"""For PT2E as users call it."""
SETTLED = Scheme(ACTIVATION, weight_spec, usual_spec, EDGE)
"""For Cortado's own calibration, which settles what tensors share (`sharing`) once all data was seen."""


def _training() -> Scheme:
    from cortado.frontend.qat import TRAINING  # which is made of what stands here

    return TRAINING


class CortexMQuantizer(Quantizer):
    """int8 activations (per tensor, affine), int8 weights (per channel, symmetric), int32 biases.

    For prepare_pt2e, and with `is_qat=True` for prepare_qat_pt2e.
    """

    def __init__(self, is_qat: bool = False, scheme: Scheme = ALONE) -> None:
        super().__init__()
        self.scheme = _training() if is_qat else scheme

    def transform_for_annotation(self, model: GraphModule) -> GraphModule:
        self.scheme.before(model)
        canonicalize(model)
        hoist_clamps(model, lambda node: (match := _match(node)) is not None and match.pattern.fuses_clamp)
        merge_pieces(model, cut=_fused_clamps(model))
        self.scheme.after(model)
        return model

    def annotate(self, model: GraphModule) -> GraphModule:
        annotator = _Annotator(self.scheme)
        for node in model.graph.nodes:
            match = _match(node) if node not in annotator.inputs else None
            if match is not None:
                annotator.add(node, match)
        annotator.write(model.graph)
        return model

    def validate(self, model: GraphModule) -> None:
        """Nothing to check here: what can't be lowered is reported by the lowering, with its reason."""


def _match(node: Node) -> Match | None:
    match = find(node) if node.op == "call_function" else None
    return match if isinstance(match, Match) else None


def fused_clamp(node: Node, pattern: Pattern) -> Node | None:
    """The relu or clamp behind a node, if the kernel can carry it as its activation bounds."""
    user = sole_user(node)
    return user if pattern.fuses_clamp and user is not None and is_clamp(user) is not None else None


def _fused_clamps(model: GraphModule) -> set[Node]:
    """The clamps that kernels carry: they belong to no pointwise piece. (A kernel inside a piece is none.)"""
    pieces = sources(model.graph)
    kernels = [clamp.all_input_nodes[0] for clamp in model.graph.nodes if is_clamp(clamp) is not None]
    matches = [(kernel, _match(kernel)) for kernel in kernels if kernel not in pieces]
    clamps = [fused_clamp(kernel, match.pattern) for kernel, match in matches if match is not None]
    return {clamp for clamp in clamps if clamp is not None}


Place: TypeAlias = Node | tuple[Node, Node]  # a node's output, or the edge from an operand to its user


@dataclass(frozen=True, eq=False)
class _Group:
    """Places that hold one tensor, or tensors of the same parameters: observed together, or fixed."""

    spec: Spec | None = None  # None: that of any activation
    qparams: QParams | None = None  # that are fixed, or usual

    @property
    def fixed(self) -> bool:
        return isinstance(self.spec, FixedQParamsQuantizationSpec)


class _Annotator:
    """Collects which places have the same quantization parameters, then says so to PT2E.

    The first place of a group carries the specification and the others point to it. PT2E's own search for places that
    hold the same tensor is off: it does not end for some graphs in which shared parameters meet.
    """

    def __init__(self, scheme: Scheme) -> None:
        self.scheme = scheme
        self.groups: dict[Place, _Group] = {}
        self.sources: dict[Node, _Group] = {}  # of tensors that no annotated node makes: inputs, constants
        self.inputs: dict[Node, dict[Node, Spec | None]] = {}  # None: the place's group decides
        self.outputs: set[Node] = set()

    def add(self, node: Node, match: Match) -> None:
        """A node whose operands are already known."""
        last = fused_clamp(node, match.pattern) or node
        bound, quantization = bind(node), match.quantization
        self.inputs[node] = {}
        self.inputs.setdefault(last, {})
        for name, role in quantization.inputs.items():
            for operand in bound.nodes(name):
                self.inputs[node][operand] = self._constant_spec(role, bound, quantization)
        self.groups[last] = self._output(bound, quantization)
        self.outputs.add(last)

    def _constant_spec(self, role: Role, bound: Bound, quantization: Quantization) -> Spec | None:
        if role is Role.WEIGHT:
            return self.scheme.weight(quantization.weight_axis)
        if role is Role.BIAS:
            activation, weight = (_first(bound, quantization, role) for role in (Role.ACTIVATION, Role.WEIGHT))
            return bias_spec(bound.node, activation, weight)
        return None

    def _output(self, bound: Bound, quantization: Quantization) -> _Group:
        """The group of a node's output, once its operands have theirs."""
        node, output = bound.node, quantization.output
        operands = [operand for operand, spec in self.inputs[node].items() if spec is None]
        if isinstance(output, Joined):
            return self._joined(node, operands)
        for operand in operands:
            self.groups[operand, node] = self._group_of(operand)
        if isinstance(output, SharedWith):
            return self._group_of(bound[output.argument])
        if isinstance(output, ObservedWith):
            known = [self._group_of(operand) for operand in bound.nodes(output.argument)[:1]]
            return known[0] if known and known[0].qparams is None else _Group()
        if isinstance(output, Usually):
            return _Group(self.scheme.usual(output.qparams), output.qparams)
        return _Group(fixed_spec(output), output) if isinstance(output, QParams) else _Group()

    def _joined(self, node: Node, operands: list[Node]) -> _Group:
        """Every operand keeps its group and enters in the output's parameters, unless all have the same fixed ones."""
        groups = [self._group_of(operand) for operand in operands]
        alike = all(group.qparams == groups[0].qparams for group in groups)
        output = next((group for group in groups if group.fixed), groups[0]) if alike else _Group()
        if len(groups) == 1 or (alike and all(group.fixed for group in groups)):
            for operand, group in zip(operands, groups, strict=True):
                self.groups[operand, node] = group
            return output
        output = replace(output)
        entrance = output if self.scheme.entrance is None else _Group(self.scheme.entrance)
        for operand in operands:
            self._observe_input(operand)
            self.groups[operand, node] = entrance
        return output

    def _observe_input(self, operand: Node) -> None:
        """An input of the model is quantized once, whatever parameters a join wants it in."""
        if operand.op == "placeholder" and operand not in self.outputs:
            self.groups[operand] = self._group_of(operand)
            self.inputs[operand] = {}
            self.outputs.add(operand)

    def _group_of(self, operand: Node) -> _Group:
        return self.groups[operand] if operand in self.groups else self.sources.setdefault(operand, _Group())

    def write(self, graph: Graph) -> None:
        """The annotations; the first place of a group in PT2E's order (node by node, inputs, output) is its root."""
        roots: dict[int, Place] = {}
        for node in [node for node in graph.nodes if node in self.inputs]:
            inputs = {
                operand: self._spec((operand, node), roots) if spec is None else spec
                for operand, spec in self.inputs[node].items()
            }
            output = self._spec(node, roots) if node in self.outputs else None
            annotation = QuantizationAnnotation(inputs, output, allow_implicit_sharing=False, _annotated=True)
            ANNOTATION.note(node, annotation)

    def _spec(self, place: Place, roots: dict[int, Place]) -> Spec:
        group = self.groups[place]
        root = roots.setdefault(id(group), place)
        if root is not place:
            return SharedQuantizationSpec(root)
        return self.scheme.activation if group.spec is None else group.spec


def _first(bound: Bound, quantization: Quantization, role: Role) -> Any:
    return next(bound[name] for name, other in quantization.inputs.items() if other is role)
