"""Quantization-aware training: the deployed graph, with fake quantization where int8 will round.

Rewriting and annotations are those of post-training quantization; `training` has the differences.
"""

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e import FakeQuantize
from torchao.quantization.pt2e.fake_quantize import FakeQuantizeBase, FixedQParamsFakeQuantize
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_qat_pt2e

from cortado.base.element import INT4, INT8
from cortado.base.errors import CortadoError
from cortado.frontend.precision.elements import scheme_for
from cortado.frontend.quantize.quantizer import CortexMQuantizer
from cortado.frontend.quantize.training import TRAINING, PerChannelFakeQuantize
from cortado.ir.graph import describe
from cortado.ops.float_graph import constant_data, is_constant
from cortado.options import DEFAULTS, Options, Weights

Tensor = torch.Tensor


class QatModel(torch.nn.Module):
    """A model for training with int8's rounding in it, to be passed to `cortado.compile` afterwards.

    In training mode the ranges of activations follow the data; in evaluation mode they are fixed, and the outputs are
    those of the compiled model, up to single roundings.
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
                f"the model was prepared for inputs of shapes {self.shapes}, found {found}, which it can't run with; "
                "the batch size can differ only if the model treats each sample by itself: give prepare_qat a batch "
                "of the size that you train with"
            ) from error


def prepare_graph(module: GraphModule, example_inputs: Sequence[Tensor], how: Options = DEFAULTS) -> QatModel:
    """Returns a captured model with fake quantization of activations and weights in the elements asked for."""
    settled = scheme_for(how)
    weights = INT4 if how.weights is Weights.INT4 else INT8
    scheme = replace(TRAINING, elements=settled.elements, respell=settled.respell, weights=weights)
    prepared: GraphModule = prepare_qat_pt2e(module, CortexMQuantizer(is_qat=True, scheme=scheme))
    return QatModel(prepared, example_inputs)


def is_qat(model: Any) -> bool:
    """Whether a model was prepared for training, here or by prepare_qat_pt2e."""
    graph = model.graph if isinstance(model, QatModel) else model
    return isinstance(graph, GraphModule) and any(isinstance(one, FakeQuantizeBase) for one in graph.modules())


def convert(model: Any) -> GraphModule:
    """Converts a copy of the trained model to quantize and dequantize calls, with the scales of the training."""
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
            f"{describe(source)}: no values were observed for this tensor, expected a trained model: run some batches "
            "through it in training mode (model.train()), and train it"
        )
