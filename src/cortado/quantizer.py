"""CortexMQuantizer: annotates a float graph for int8 PT2E quantization, driven by the operator registry."""

import functools
from typing import Any, TypeAlias

import torch
from torch.fx import GraphModule, Node
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

from cortado.canonical import canonicalize
from cortado.graph import Bound, bind, sole_user
from cortado.numerics import QParams
from cortado.op import Match, Pattern, Quantization, Role, SharedWith, find
from cortado.pointwise import hoist_clamps, is_clamp, merge_pieces, sources

ANNOTATION = "quantization_annotation"

# A channel of near-zero weights must not get a scale so small that its int32 bias overflows.
SMALLEST_WEIGHT_SCALE = 2.0**-20
SMALLEST_ACTIVATION_SCALE = 2.0**-20

Spec: TypeAlias = QuantizationSpecBase


class RangeObserver(MinMaxObserver):
    """The smallest and largest finite value seen.

    log(0) or 1 / 0 in a calibration input must not make a scale infinite: such values saturate, as they do later.
    """

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
        return x_orig


ACTIVATION = QuantizationSpec(
    dtype=torch.int8,
    observer_or_fake_quant_ctr=RangeObserver.with_args(eps=SMALLEST_ACTIVATION_SCALE),
    quant_min=-128,
    quant_max=127,
    qscheme=torch.per_tensor_affine,
)


@functools.cache
def weight_spec(axis: int) -> QuantizationSpec:
    """Weights stay within +-127: two int8 products then fit an int16."""
    return QuantizationSpec(
        dtype=torch.int8,
        observer_or_fake_quant_ctr=PerChannelMinMaxObserver.with_args(eps=SMALLEST_WEIGHT_SCALE),
        quant_min=-127,
        quant_max=127,
        qscheme=torch.per_channel_symmetric,
        ch_axis=axis,
    )


def _bias_qparams(observers: list[ObserverBase]) -> tuple[torch.Tensor, torch.Tensor]:
    input_scale, _ = observers[0].calculate_qparams()
    weight_scale, _ = observers[1].calculate_qparams()
    scale = (input_scale * weight_scale).to(torch.float32)
    return scale, torch.zeros_like(scale, dtype=torch.int32)


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
        quant_min=-128,
        quant_max=127,
        qscheme=torch.per_tensor_affine,
    )


class CortexMQuantizer(Quantizer):
    """int8 activations (per tensor, affine), int8 weights (per channel, symmetric), int32 biases."""

    def transform_for_annotation(self, model: GraphModule) -> GraphModule:
        canonicalize(model)
        hoist_clamps(model, lambda node: isinstance(match := _match(node), Match) and match.pattern.fuses_clamp)
        merge_pieces(model, cut=_fused_clamps(model))
        return model

    def annotate(self, model: GraphModule) -> GraphModule:
        annotator = _Annotator()
        for node in model.graph.nodes:
            match = _match(node) if ANNOTATION not in node.meta else None
            if isinstance(match, Match):
                annotator.annotate(node, match)
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


class _Annotator:
    """Annotates nodes in order and knows of each the specification its output ends up with.

    An operand is asked for in the very parameters it has, so nothing is rescaled by accident: a specification is
    either ACTIVATION (observed) or fixed, and PT2E gives equal ones of one tensor the same observer.
    """

    def __init__(self) -> None:
        self.specs: dict[Node, Spec] = {}

    def annotate(self, node: Node, match: Match) -> None:
        last = fused_clamp(node, match.pattern) or node
        output = match.quantization.output
        if isinstance(output, SharedWith):
            inputs, spec, self.specs[last] = self._shared(node, match.quantization)
        else:
            inputs = self._inputs(node, match.quantization)
            spec = self.specs[last] = fixed_spec(output) if isinstance(output, QParams) else ACTIVATION
        if last is not node:
            node.meta[ANNOTATION] = QuantizationAnnotation(inputs, None, _annotated=True)
            inputs = {}
        last.meta[ANNOTATION] = QuantizationAnnotation(inputs, spec, _annotated=True)

    def _operand(self, operand: Node) -> Spec:
        return self.specs.get(operand, ACTIVATION)

    def _inputs(self, node: Node, quantization: Quantization) -> dict[Node, Spec]:
        bound = bind(node)
        return {
            operand: self._spec(role, bound, quantization, operand)
            for name, role in quantization.inputs.items()
            for operand in bound.nodes(name)
        }

    def _spec(self, role: Role, bound: Bound, quantization: Quantization, operand: Node) -> Spec:
        if role is Role.ACTIVATION:
            return self._operand(operand)
        if role is Role.WEIGHT:
            return weight_spec(quantization.weight_axis)
        activation, weight = (_first(bound, quantization, role) for role in (Role.ACTIVATION, Role.WEIGHT))
        return bias_spec(bound.node, activation, weight)

    def _shared(self, node: Node, quantization: Quantization) -> tuple[dict[Node, Spec], Spec, Spec]:
        """All operands and the output have the parameters of one operand, the leader: (inputs, output, leader's own).

        An operand with fixed parameters leads only where all are alike; elsewhere it is rescaled.
        """
        bound = bind(node)
        operands = list(dict.fromkeys(operand for name in quantization.inputs for operand in bound.nodes(name)))
        wanted = [self._operand(operand) for operand in operands]
        alike = all(spec is wanted[0] for spec in wanted)
        leader = operands[0] if alike else next((o for o in operands if self._operand(o) is ACTIVATION), operands[0])
        spec = wanted[0] if alike else ACTIVATION
        shared = SharedQuantizationSpec((leader, node))
        inputs: dict[Node, Spec] = {leader: spec}  # first: PT2E makes observers in this order
        inputs.update({operand: shared for operand in operands if operand is not leader})
        return inputs, shared, spec


def _first(bound: Bound, quantization: Quantization, role: Role) -> Any:
    return next(bound[name] for name, other in quantization.inputs.items() if other is role)
