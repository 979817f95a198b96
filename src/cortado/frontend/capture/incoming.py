"""Models and inputs as users provide them: modules in evaluation mode, exported programs, several inputs in one tensor;
models quantized by anything but PT2E are refused."""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import MethodType
from typing import Any

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from cortado.base.errors import CortadoError
from cortado.frontend.quantize.prequantized import is_quantized
from cortado.frontend.quantize.qat import convert, is_qat
from cortado.frontend.quantize.training import drop_counters
from cortado.ir.graph import bind, describe
from cortado.onnx.node import Quantizing

# The packages of quantized modules and tensors, and the namespaces of their operators. Stubs and quantizable modules
# are not included: they compute in float.
_PACKAGES = (
    "torch.ao.nn.quantized.",
    "torch.ao.nn.intrinsic.quantized.",
    "torch.ao.nn.sparse.quantized.",
    "torch.ao.quantization.fake_quantize",
    "torch.ao.quantization.observer",
    "torchao.",
)
_NAMESPACES = ("quantized", "torchao", "_quantized")
_ADVICE = (
    "Cortado takes quantized models from PT2E only (prepare_pt2e, calibrate, convert_pt2e); give one of these, or the "
    "float model, which Cortado quantizes itself with the calibration data"
)


def single_inputs(values: Sequence[torch.Tensor], example: Sequence[torch.Tensor]) -> list[tuple[torch.Tensor, ...]]:
    """Splits tensors, one for each input of the model, into runs along the first dimension."""
    groups = [_split(value, like) for value, like in zip(values, example, strict=True)]
    counts = sorted({len(group) for group in groups})
    if len(counts) > 1:
        raise CortadoError(
            f"the model's inputs have different numbers of samples, found {counts}, expected the same number for each"
        )
    return list(zip(*groups, strict=True))


def _split(value: torch.Tensor, example: torch.Tensor) -> Sequence[torch.Tensor]:
    """Splits a tensor into inputs of the example's shape. For [1, 3, 32, 32], both [100, 3, 32, 32] and
    [100, 1, 3, 32, 32] hold 100; a tensor of any other shape stays whole."""
    if value.shape[1:] == example.shape and value.dim() == example.dim() + 1:
        return value.unbind() or (value,)
    same = value.dim() == example.dim() > 0 and value.shape[1:] == example.shape[1:]
    count = value.shape[0] // example.shape[0] if same and example.shape[0] else 0
    return value.chunk(count) if count > 1 and value.shape[0] == count * example.shape[0] else (value,)


@contextmanager
def evaluation(model: torch.nn.Module) -> Iterator[None]:
    """Puts a model in evaluation mode inside the block, and restores the mode of each of its modules afterwards."""
    before = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, training in before.items():
            module.training = training


def as_module(model: Any) -> Any:
    """Returns the module of an exported program, or of a trained QAT model, converted; anything else unchanged."""
    if is_qat(model):
        return convert(model)
    return model.module(check_guards=False) if isinstance(model, ExportedProgram) else model


def comes_quantized(model: Any) -> bool:
    """Whether a model has graphs that quantize, so that it needs no calibration."""
    if is_qat(model):
        return True
    modules = as_module(model).modules() if isinstance(model, ExportedProgram | torch.nn.Module) else ()
    return any(_quantizes_itself(module) for module in modules)


def _quantizes_itself(module: torch.nn.Module) -> bool:
    return isinstance(module, Quantizing) or (isinstance(module, GraphModule) and is_quantized(module))


def evaluating(model: torch.nn.Module) -> torch.nn.Module:
    """Returns a model that can be switched to evaluation mode: a copy with that ability, for an exported program's
    module."""
    if not isinstance(model, GraphModule) or _can_switch(model):
        return model
    taught: GraphModule = copy.deepcopy(model)
    if any(_trains(node) for node in taught.graph.nodes):
        from torchao.quantization.pt2e import allow_exported_model_train_eval

        allow_exported_model_train_eval(taught)
    else:  # PT2E would search for such calls, which takes longer than everything else
        for method in (torch.nn.Module.train, torch.nn.Module.eval):
            setattr(taught, method.__name__, MethodType(method, taught))
    taught.training = False
    drop_counters(taught)
    taught.eval()
    return taught


def _trains(node: Node) -> bool:
    """Whether a call behaves as in training: it has an argument that says so."""
    is_call = isinstance(node.target, OpOverload)
    return is_call and any(bind(node).get(name) is True for name in ("train", "training"))


def _can_switch(model: GraphModule) -> bool:
    try:
        with evaluation(model):
            return True
    except NotImplementedError:
        return False


# ---- quantized models --------------------------------------------------------------------------------------------


def check_modules(model: torch.nn.Module) -> None:
    """Refuses quantized modules before torch.export, which fails on their packed weights."""
    for name, module in model.named_modules():
        where = f"module '{name}'" if name else "the model"
        if _is_of_quantization(module):
            kind = f"{type(module).__module__}.{type(module).__qualname__}"
            raise CortadoError(f"{where} is a {kind}, part of a quantized model; {_ADVICE}")
        for attribute, value in _tensors(module):
            if value.is_quantized or _is_of_quantization(value):
                found = str(value.dtype) if value.is_quantized else type(value).__qualname__
                raise CortadoError(f"'{attribute}' of {where} is quantized ({found}); {_ADVICE}")


def _is_of_quantization(value: object) -> bool:
    if isinstance(value, torch.ao.nn.quantized.FloatFunctional):
        return False  # a module that computes in float and can be quantized
    return any(base.__module__.startswith(_PACKAGES) for base in type(value).__mro__)


def _tensors(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    yield from module.named_parameters(recurse=False)
    yield from module.named_buffers(recurse=False)


def check_calls(module: GraphModule) -> None:
    """Refuses calls that quantize or dequantize, as torchao and fake quantization write them."""
    for node in module.graph.nodes:
        if _quantizes(node.target):
            raise CortadoError(f"{describe(node)} is part of a quantized model; {_ADVICE}")


def _quantizes(target: Any) -> bool:
    if not isinstance(target, OpOverload):
        return False
    return target.namespace in _NAMESPACES or (target.namespace == "aten" and "quantize" in target._schema.name)
