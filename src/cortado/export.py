"""The road from nn.Module to a quantized ExportedProgram: export, prepare, calibrate, convert."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule
from torch.utils import _pytree as pytree
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from cortado.canonical import canonicalize
from cortado.errors import CortadoError
from cortado.graph import lift
from cortado.quantizer import CortexMQuantizer

Tensor = torch.Tensor
Inputs = tuple[Tensor, ...]


@dataclass(frozen=True)
class Quantized:
    """A model after PT2E conversion, in float with quantize/dequantize pairs. It doesn't depend on the target."""

    converted: GraphModule
    example_inputs: Inputs

    def program(self) -> ExportedProgram:
        """A fresh ExportedProgram over the same weights, to be lowered in place."""
        return lift(_copy(self.converted), self.example_inputs)


def check_example(example_inputs: Sequence[Tensor]) -> Inputs:
    """Example inputs as a tuple of tensors that hold something."""
    inputs = (example_inputs,) if isinstance(example_inputs, Tensor) else tuple(example_inputs)
    for position, value in enumerate(inputs):
        if not isinstance(value, Tensor):
            raise CortadoError(f"example input {position} must be a tensor, found {type(value).__name__}")
        if value.numel() == 0:
            raise CortadoError(f"example input {position} has shape {list(value.shape)}, which holds no values")
    return _plain(inputs)


def _plain(inputs: Sequence[Tensor]) -> Inputs:
    """The same values in the plain order of memory: channels_last is how a tensor lies, no part of the model."""
    return tuple(value.detach().clone(memory_format=torch.contiguous_format) for value in inputs)


def capture(model: torch.nn.Module, example_inputs: Sequence[Tensor]) -> GraphModule:
    """torch.export of a model, as a GraphModule that PT2E can prepare."""
    if not isinstance(model, torch.nn.Module):
        raise CortadoError(f"expected a torch.nn.Module, found {type(model).__name__}")
    inputs = check_example(example_inputs)
    was_training = model.training
    model.eval()
    try:
        with warnings.catch_warnings():
            # LSTM and GRU gather their weights anew; torch tells the user to mend that, who can't.
            warnings.filterwarnings("ignore", message=r"The tensor attributes? .*_flat_weights")
            program = torch.export.export(model, inputs, strict=False)
    except Exception as error:
        raise CortadoError(f"torch.export can't capture this model: {first_line(error)}") from error
    finally:
        model.train(was_training)
    return program.module(check_guards=False)


def first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def check_batches(batches: Iterable[Sequence[Tensor]], example_inputs: Sequence[Tensor]) -> list[Inputs]:
    """Calibration batches as tuples, each checked against the example inputs."""
    checked: list[Inputs] = []
    for number, batch in enumerate(batches):
        values = (batch,) if isinstance(batch, Tensor) else tuple(batch)
        if len(values) != len(example_inputs):
            raise CortadoError(
                f"calibration batch {number} has {len(values)} tensors, expected {len(example_inputs)} "
                "(one for each input of the model)"
            )
        for value, example in zip(values, example_inputs, strict=True):
            _check_tensor(f"calibration batch {number}", value, example)
        checked.append(_plain(values))
    if not checked:
        raise CortadoError(
            "no calibration data: quantization needs a few typical inputs to choose its scales; "
            "give `calibration=` (or --calibration) some batches"
        )
    return checked


def _check_tensor(where: str, value: Tensor, example: Tensor) -> None:
    if tuple(value.shape) != tuple(example.shape):
        raise CortadoError(f"{where} has shape {list(value.shape)}, expected {list(example.shape)}")
    if value.dtype != example.dtype:
        raise CortadoError(f"{where} has dtype {value.dtype}, expected {example.dtype}")
    if value.is_floating_point() and not bool(torch.isfinite(value).all()):
        raise CortadoError(f"{where} holds NaN or infinity; calibration data must be finite")


def quantize(module: GraphModule, example_inputs: Sequence[Tensor], batches: Sequence[Inputs]) -> Quantized:
    """Prepare, calibrate and convert with CortexMQuantizer."""
    prepared = _prepare(module)
    with torch.no_grad():
        for batch in batches:
            prepared(*batch)
    converted = convert_pt2e(prepared, fold_quantize=False)
    return Quantized(converted=converted, example_inputs=tuple(example_inputs))


def _prepare(module: GraphModule) -> GraphModule:
    prepared: GraphModule = prepare_pt2e(canonicalize(module), CortexMQuantizer())
    return prepared


class FloatGraph:
    """A model in float, just before quantization: its nodes are the twins of the lowered graph's calls."""

    def __init__(self, model: torch.nn.Module, example_inputs: Sequence[Tensor]) -> None:
        self.module = _prepare(capture(model, example_inputs))  # the observers in it only look

    def values(self, inputs: Sequence[Tensor]) -> tuple[dict[str, Tensor], list[Tensor]]:
        """(every node's value by name, the outputs) for one sample."""
        interpreter = torch.fx.Interpreter(self.module, garbage_collect_values=False)
        with torch.no_grad():
            result = interpreter.run(*inputs)
        values = {node.name: value for node, value in interpreter.env.items() if isinstance(value, Tensor)}
        return values, [value for value in pytree.tree_leaves(result) if isinstance(value, Tensor)]


def _copy(module: GraphModule) -> GraphModule:
    """Another graph over the same weights: lifting rewrites the graph it is given."""
    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(module.graph, val_map={}))
    return GraphModule(module, graph)
