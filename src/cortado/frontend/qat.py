"""Quantization-aware training: the graph as it is deployed, with fake quantization where int8 will round.

The rewriting and the annotations are those of post-training quantization; batch norms are folded into their layers
before training, with the statistics they have. What is trained is what runs on the device.
"""

import copy
import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e import FakeQuantize, MovingAverageMinMaxObserver, MovingAveragePerChannelMinMaxObserver
from torchao.quantization.pt2e.fake_quantize import FakeQuantizeBase, FixedQParamsFakeQuantize
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_qat_pt2e
from torchao.quantization.pt2e.quantizer import QuantizationSpec

from cortado.base.errors import CortadoError
from cortado.frontend.quantizer import SCALE_OF_ZEROS, SMALLEST_SCALE, WEIGHT_MAX, CortexMQuantizer, Scheme, fixed_spec
from cortado.ir.facts import TRAINED
from cortado.ir.graph import bind, describe, is_call, shape
from cortado.ir.op import Match, Role, find
from cortado.ops._float import constant_data, is_constant

Tensor = torch.Tensor
aten = torch.ops.aten

AVERAGING = 0.05
"""The weight of the newest batch in the range of an activation."""


class MovingRange(MovingAverageMinMaxObserver):
    """The range of an activation over the last batches; one that is always zero has a scale all the same."""

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        scale, zero_point = super().calculate_qparams()
        zeros = (self.min_val == 0) & (self.max_val == 0)
        return torch.where(zeros, torch.full_like(scale, SCALE_OF_ZEROS), scale), zero_point


class PerChannelFakeQuantize(FakeQuantize):
    """Weights: their scales follow them at every step, in evaluation too."""


ACTIVATION = QuantizationSpec(
    dtype=torch.int8,
    observer_or_fake_quant_ctr=FakeQuantize.with_args(
        observer=MovingRange, averaging_constant=AVERAGING, eps=SMALLEST_SCALE
    ),
    quant_min=-128,
    quant_max=127,
    qscheme=torch.per_tensor_affine,
)


@functools.cache
def weight_spec(axis: int) -> QuantizationSpec:
    return QuantizationSpec(
        dtype=torch.int8,
        observer_or_fake_quant_ctr=PerChannelFakeQuantize.with_args(
            observer=MovingAveragePerChannelMinMaxObserver, averaging_constant=1.0, eps=SMALLEST_SCALE
        ),
        quant_min=-WEIGHT_MAX,
        quant_max=WEIGHT_MAX,
        qscheme=torch.per_channel_symmetric,
        ch_axis=axis,
    )


# ---- the graph -----------------------------------------------------------------------------------------------


def as_deployed(module: GraphModule) -> None:
    """Batch norms with their running statistics, dropouts gone; remembers which calls have parameters."""
    drop_counters(module)
    for node in list(module.graph.nodes):
        modes = {name: False for name in ("train", "training") if name in bind(node).values}
        if modes:
            node.args, node.kwargs = tuple({**bind(node).values, **modes}.values()), {}
        if any(is_constant(one) and _is_parameter(module, one) for one in node.all_input_nodes):
            TRAINED.note(node, True)


def drop_counters(module: GraphModule) -> None:
    """A batch norm exported in training mode counts its batches; inference has no use for the count."""
    for node in list(module.graph.nodes):
        counts = is_call(node, aten.add_.Tensor) and not node.users
        if counts and str(node.all_input_nodes[0].target).endswith("num_batches_tracked"):
            module.graph.erase_node(node)
    module.recompile()


def _is_parameter(module: GraphModule, node: Node) -> bool:
    return isinstance(_attribute(module, node), torch.nn.Parameter)


def _attribute(module: GraphModule, node: Node) -> Any:
    owner, _, name = str(node.target).rpartition(".")
    return getattr(module.get_submodule(owner), name)


def make_trainable(module: GraphModule) -> None:
    """What is trained, in batches of any size."""
    _make_parameters(module)
    inputs = [shape(node) for node in module.graph.nodes if node.op == "placeholder"]
    if inputs and inputs[0]:
        _free_batch(module, inputs[0][0])
    module.recompile()


def _make_parameters(module: GraphModule) -> None:
    """Weights and biases that were rewritten become parameters again; tables of Cortado's own stay as they are."""
    for node in [node for node in module.graph.nodes if node.op == "call_function" and TRAINED.known(node)]:
        match = find(node)
        for name, role in match.quantization.inputs.items() if isinstance(match, Match) else ():
            operand = bind(node)[name]
            if role is not Role.ACTIVATION and is_constant(operand) and not _is_parameter(module, operand):
                owner, _, attribute = str(operand.target).rpartition(".")
                holder, data = module.get_submodule(owner), constant_data(operand)
                delattr(holder, attribute)
                holder.register_parameter(attribute, torch.nn.Parameter(data.clone()))


def _free_batch(module: GraphModule, batch: int) -> None:
    """Reshapes that keep the batch keep any batch: training has more samples in one than the device."""
    for node in module.graph.nodes:
        if is_call(node, aten.reshape.default, aten.view.default):
            sizes = list(shape(node))
            source = shape(node.all_input_nodes[0])
            if sizes and source and sizes[0] == source[0] == batch:
                node.args = (node.args[0], [-1, *sizes[1:]])


TRAINING = Scheme(ACTIVATION, weight_spec, fixed_spec, None, as_deployed, make_trainable)


# ---- the module that users train -----------------------------------------------------------------------------


class QatModel(torch.nn.Module):
    """A model to be trained with int8's rounding in it; `cortado.compile` takes it as it is.

    In training mode the ranges of activations follow the data; in evaluation mode they stay, and the outputs are what
    the compiled model will give, but for single roundings.
    """

    def __init__(self, graph: GraphModule, example_inputs: Sequence[Tensor]) -> None:
        super().__init__()
        self.graph = graph
        self.shapes = [tuple(value.shape) for value in example_inputs]
        self.train()

    def train(self, mode: bool = True) -> "QatModel":
        self.training = mode
        for module in self.graph.modules():
            if isinstance(module, FakeQuantize) and not isinstance(module, PerChannelFakeQuantize):
                module.enable_observer(mode)
        return self

    def forward(self, *inputs: Tensor) -> Any:
        try:
            return self.graph(*inputs)
        except RuntimeError as error:
            found = [tuple(value.shape) for value in inputs if isinstance(value, Tensor)]
            if found == self.shapes:
                raise
            raise CortadoError(
                f"the model was prepared for inputs of shapes {self.shapes}, found {found}, and can't be run with "
                "those; another batch size is possible where the model treats its samples alike: give prepare_qat the "
                "batch that you train with"
            ) from error


def prepare_graph(module: GraphModule, example_inputs: Sequence[Tensor]) -> QatModel:
    """A captured model with fake quantization."""
    prepared: GraphModule = prepare_qat_pt2e(module, CortexMQuantizer(is_qat=True))
    return QatModel(prepared, example_inputs)


def is_qat(model: Any) -> bool:
    """Whether a model was prepared for training, here or by prepare_qat_pt2e."""
    graph = model.graph if isinstance(model, QatModel) else model
    return isinstance(graph, GraphModule) and any(isinstance(one, FakeQuantizeBase) for one in graph.modules())


def convert(model: Any) -> GraphModule:
    """The trained model with quantize and dequantize calls, its scales those of the training; the model stays."""
    graph: GraphModule = copy.deepcopy(model.graph if isinstance(model, QatModel) else model)
    for node in [node for node in graph.graph.nodes if node.op == "call_module"]:
        quantizer, source = graph.get_submodule(str(node.target)), node.all_input_nodes[:1]
        if isinstance(quantizer, PerChannelFakeQuantize) and source and is_constant(source[0]):
            quantizer(constant_data(source[0]))  # the last step of the optimizer came after the last forward
        elif isinstance(quantizer, FakeQuantize) and not isinstance(quantizer, FixedQParamsFakeQuantize):
            _check_seen(quantizer, source[0])
    converted: GraphModule = convert_pt2e(graph)
    return converted


def _check_seen(quantizer: FakeQuantize, source: Node) -> None:
    observer = quantizer.activation_post_process
    if bool(torch.as_tensor(observer.min_val > observer.max_val).any()):
        raise CortadoError(
            f"{describe(source)}: this tensor has seen no values, expected a model that was trained: run some batches "
            "through it in training mode, model.train(), and train it"
        )
