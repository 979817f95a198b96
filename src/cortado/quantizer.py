"""CortexMQuantizer: annotates a float graph for int8 PT2E quantization, driven by the operator registry."""

import functools
from collections.abc import Mapping
from typing import Any

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
from cortado.graph import bind, sole_user
from cortado.numerics import QParams
from cortado.op import Match, Pattern, Quantization, Role, SharedWith, find
from cortado.pointwise import is_clamp

ANNOTATION = "quantization_annotation"

# A channel of near-zero weights must not get a scale so small that its int32 bias overflows.
SMALLEST_WEIGHT_SCALE = 2.0**-20
SMALLEST_ACTIVATION_SCALE = 2.0**-20

ACTIVATION = QuantizationSpec(
    dtype=torch.int8,
    observer_or_fake_quant_ctr=MinMaxObserver.with_args(eps=SMALLEST_ACTIVATION_SCALE),
    quant_min=-128,
    quant_max=127,
    qscheme=torch.per_tensor_affine,
)


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
def _fixed(qparams: QParams) -> FixedQParamsQuantizationSpec:
    return FixedQParamsQuantizationSpec(
        dtype=torch.int8,
        scale=qparams.scale,
        zero_point=qparams.zero_point,
        quant_min=-128,
        quant_max=127,
        qscheme=torch.per_tensor_affine,
    )


class CortexMQuantizer(Quantizer):  # type: ignore[misc]
    """int8 activations (per tensor, affine), int8 weights (per channel, symmetric), int32 biases."""

    def transform_for_annotation(self, model: GraphModule) -> GraphModule:
        return canonicalize(model)

    def annotate(self, model: GraphModule) -> GraphModule:
        for node in model.graph.nodes:
            match = find(node) if node.op == "call_function" else None
            if isinstance(match, Match):
                self._annotate_node(node, match)
        return model

    def validate(self, model: GraphModule) -> None:
        """Nothing to check here: what can't be lowered is reported by the lowering, with its reason."""

    def _annotate_node(self, node: Node, match: Match) -> None:
        last = fused_clamp(node, match.pattern) or node
        inputs = _input_specs(node, match.quantization)
        output = _output_spec(node, match.quantization)
        if last is node:
            node.meta[ANNOTATION] = QuantizationAnnotation(inputs, output, _annotated=True)
        else:
            node.meta[ANNOTATION] = QuantizationAnnotation(inputs, None, _annotated=True)
            last.meta[ANNOTATION] = QuantizationAnnotation({}, output, _annotated=True)


def fused_clamp(node: Node, pattern: Pattern) -> Node | None:
    """The relu or clamp behind a node, if the kernel can carry it as its activation bounds."""
    user = sole_user(node)
    return user if pattern.fuses_clamp and user is not None and is_clamp(user) is not None else None


def _input_specs(node: Node, quantization: Quantization) -> dict[Node, QuantizationSpecBase | None]:
    bound = bind(node)
    by_role: Mapping[str, Role] = quantization.inputs
    activation = next(bound[name] for name, role in by_role.items() if role is Role.ACTIVATION)
    specs: dict[Node, QuantizationSpecBase | None] = {}
    for name, role in by_role.items():
        for operand in bound.nodes(name):
            specs[operand] = _spec(role, node, quantization, activation, bound.values)
    return specs


def _spec(
    role: Role, node: Node, quantization: Quantization, activation: Node, values: Mapping[str, Any]
) -> QuantizationSpecBase:
    if role is Role.ACTIVATION:
        return ACTIVATION
    if role is Role.WEIGHT:
        return weight_spec(quantization.weight_axis)
    weight = next(values[name] for name, other in quantization.inputs.items() if other is Role.WEIGHT)
    return bias_spec(node, activation, weight)


def _output_spec(node: Node, quantization: Quantization) -> QuantizationSpecBase:
    output = quantization.output
    if isinstance(output, SharedWith):
        return SharedQuantizationSpec((bind(node).nodes(output.argument)[0], node))
    return _fixed(output) if isinstance(output, QParams) else ACTIVATION
