"""Graph changes for quantization-aware training: fake quantization instead of observers, and trainable parameters.

Batch norms are folded into their layers before training, with the statistics they have: the trained graph is the one
that runs on the device.
"""

import functools

import torch
from torch.fx import GraphModule
from torchao.quantization.pt2e import FakeQuantize, MovingAverageMinMaxObserver, MovingAveragePerChannelMinMaxObserver
from torchao.quantization.pt2e.quantizer import QuantizationSpec

from cortado.base.element import INT8, Element
from cortado.frontend.quantize.observers import SCALE_OF_ZEROS, SMALLEST_SCALE, Scheme, fixed_spec, scheme_of
from cortado.ir.facts import TRAINED
from cortado.ir.graph import bind, shape
from cortado.ir.matching import Match, find
from cortado.ir.roles import Activation
from cortado.ops.float_graph import constant_data, is_constant, is_parameter, note_trained
from cortado.ops.meaning import CallKind, means

Tensor = torch.Tensor
aten = torch.ops.aten

AVERAGING = 0.05
"""The weight of the newest batch in the range of an activation."""


class MovingRange(MovingAverageMinMaxObserver):
    """The moving range of an activation over the last batches; one that is always zero has a scale all the same."""

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        scale, zero_point = super().calculate_qparams()
        zeros = (self.min_val == 0) & (self.max_val == 0)
        return torch.where(zeros, torch.full_like(scale, SCALE_OF_ZEROS), scale), zero_point


class PerChannelFakeQuantize(FakeQuantize):
    """Fake quantization of weights, whose scales follow them at every step, even in evaluation mode."""


@functools.cache
def activation_spec(element: Element) -> QuantizationSpec:
    return QuantizationSpec(
        dtype=element.torch_dtype,
        observer_or_fake_quant_ctr=FakeQuantize.with_args(
            observer=MovingRange, averaging_constant=AVERAGING, eps=SMALLEST_SCALE
        ),
        quant_min=element.low,
        quant_max=element.high,
        qscheme=scheme_of(element),
    )


@functools.cache
def weight_spec(axis: int, element: Element) -> QuantizationSpec:
    return QuantizationSpec(
        dtype=element.torch_dtype,
        observer_or_fake_quant_ctr=PerChannelFakeQuantize.with_args(
            observer=MovingAveragePerChannelMinMaxObserver, averaging_constant=1.0, eps=SMALLEST_SCALE
        ),
        quant_min=-element.high,
        quant_max=element.high,
        qscheme=torch.per_channel_symmetric,
        ch_axis=axis,
    )


# ---- the graph -----------------------------------------------------------------------------------------------


def as_deployed(module: GraphModule) -> None:
    """Gives batch norms their running statistics, removes dropouts, and notes which calls have parameters."""
    drop_counters(module)
    for node in list(module.graph.nodes):
        modes = {name: False for name in ("train", "training") if name in bind(node).values}
        if modes:
            node.args, node.kwargs = tuple({**bind(node).values, **modes}.values()), {}
    note_trained(module)


def drop_counters(module: GraphModule) -> None:
    """Removes the counters of batches in batch norms exported in training mode, which inference does not need."""
    for node in list(module.graph.nodes):
        counts = means(node, CallKind.SUM) and not node.users
        if counts and str(node.all_input_nodes[0].target).endswith("num_batches_tracked"):
            module.graph.erase_node(node)
    module.recompile()


def make_trainable(module: GraphModule) -> None:
    """Makes trained constants parameters, and lets the module take batches of any size."""
    _make_parameters(module)
    inputs = [shape(node) for node in module.graph.nodes if node.op == "placeholder"]
    if inputs and inputs[0]:
        _free_batch(module, inputs[0][0])
    module.recompile()


def _make_parameters(module: GraphModule) -> None:
    """Makes rewritten weights and biases parameters again; tables of Cortado's own stay constant."""
    for node in [node for node in module.graph.nodes if node.op == "call_function" and TRAINED.known(node)]:
        match = find(node)
        for name, role in match.quantization.inputs.items() if isinstance(match, Match) else ():
            operand = bind(node)[name]
            if not isinstance(role, Activation) and is_constant(operand) and not is_parameter(operand):
                owner, _, attribute = str(operand.target).rpartition(".")
                holder, data = module.get_submodule(owner), constant_data(operand)
                delattr(holder, attribute)
                holder.register_parameter(attribute, torch.nn.Parameter(data.clone()))


def _free_batch(module: GraphModule, batch: int) -> None:
    """Makes reshapes that keep the batch accept any batch: training has more samples in one than the device."""
    for node in module.graph.nodes:
        if means(node, CallKind.VIEW):
            sizes = list(shape(node))
            source = shape(node.all_input_nodes[0])
            if sizes and source and sizes[0] == source[0] == batch:
                node.args = (node.args[0], [-1, *sizes[1:]])


TRAINING = Scheme(activation_spec, weight_spec, fixed_spec, None, INT8, as_deployed, make_trainable)
