"""From nn.Module to a graph: torch.export, and checks that the result can be compiled."""

import contextlib
import io
import logging
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, OutputKind, TensorArgument
from torch.fx import GraphModule
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.nn.utils.rnn import PackedSequence

from cortado.base.errors import CortadoError
from cortado.base.system import PACKAGE
from cortado.frontend.capture.eager import Eager
from cortado.frontend.capture.incoming import as_module, check_calls, check_modules, evaluating, evaluation
from cortado.frontend.capture.inputs import check_example, dtype_name, is_other_float
from cortado.frontend.capture.numbers import drop_nones, keep_positions
from cortado.frontend.capture.validation import as_it_is, check_graph, check_model, check_values, rename_state
from cortado.frontend.rewrite.state import StateBuffer, lift_state
from cortado.ir.patched import alone, late_code
from cortado.ops.float_graph import note_trained
from cortado.ops.meaning import is_open

Tensor = torch.Tensor


@dataclass(frozen=True)
class Captured:
    """A model as captured by torch.export, together with the eager model."""

    module: GraphModule
    eager: Eager
    state: tuple[StateBuffer, ...] = ()  # buffers that forward changes: the last inputs and outputs of the graph
    nones: tuple[int, ...] = ()  # positions of the outputs for which the model returns None


def capture(model: torch.nn.Module | ExportedProgram, example_inputs: Sequence[Tensor]) -> Captured:
    """Captures a model with torch.export, as a GraphModule that PT2E can prepare."""
    given = as_module(model)  # outside late_code: its generated code names the arguments
    check_model(given)
    inputs = check_example(example_inputs)
    evaluated = evaluating(given)
    check_modules(evaluated)
    with late_code():
        return _captured(evaluated, inputs)


def _captured(model: torch.nn.Module, inputs: tuple[Tensor, ...]) -> Captured:
    try:
        with alone(), _quiet(), evaluation(model), as_it_is(model):
            program = torch.export.export(model, inputs, strict=False)
    except Exception as error:
        _check_state(model)
        raise CortadoError(f"torch.export can't capture this model: {_failure(error, model)}") from error
    _check_outputs(program)
    rename_state(program)
    module = program.module(check_guards=False)
    nones = drop_nones(module)
    keep_positions(module)
    check_graph(module)
    check_calls(module)
    _drop_unused(module)
    note_trained(module)
    _check_state(module)
    state = lift_state(module, inputs)
    eager = Eager(model, lasting=bool(state), leaves_open=leaves_open(module))
    return Captured(module, eager, state, nones)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppresses what torch prints about a failure in addition to raising: a dump of its graph, tracebacks."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    said = io.StringIO()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(said):
            # LSTM and GRU reassign their flattened weights; torch asks the user to fix that, who can't.
            warnings.filterwarnings("ignore", message=r"The tensor attributes? .*_flat_weights")
            yield
        sys.stderr.write(said.getvalue())
    finally:
        logging.disable(before)


def _failure(error: Exception, model: torch.nn.Module) -> str:
    """Describes the error of the model's own forward, with its module and source line."""
    where = _module(error, model) + _user_line(error)
    if isinstance(error, GuardOnDataDependentSymNode):
        return (
            f"it branches on the values of a tensor{where}, but a compiled model does the same for every input; use "
            "torch.where, or move the decision out of the model"
        )
    if _packs(error):
        return (
            f"it packs sequences{where}, whose lengths depend on values, but a compiled model has fixed shapes; give "
            "the layer the padded tensor itself, and select its valid outputs afterwards"
        )
    if "fake tensor in the exported program constant" in str(error):
        return (
            "a tensor is changed without torch seeing it (through x.data, or an attribute that is not a buffer); make "
            "it a buffer (register_buffer) and write to that directly, as in self.h.copy_(value)"
        )
    return f"{type(error).__name__}: {first_line(error)}{where}"


def _packs(error: Exception) -> bool:
    """Whether a failing frame handled a packed sequence."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return any(isinstance(value, PackedSequence) for frame in frames for value in frame.f_locals.values())


def _module(error: Exception, model: torch.nn.Module) -> str:
    """Names the innermost module whose method was running."""
    names = {id(module): name for name, module in model.named_modules() if name}
    owners = [frame.f_locals.get("self") for frame, _ in traceback.walk_tb(error.__traceback__)]
    found = [names[id(owner)] for owner in owners if id(owner) in names]
    return f" in module '{found[-1]}'" if found else ""


_PYTHON = tuple(Path(str(module.__file__)).parent for module in (contextlib, logging))


def _user_line(error: Exception) -> str:
    """Returns the innermost line that is not torch's, Cortado's or Python's own."""
    libraries = (f"{Path(str(torch.__file__)).parent}/", f"{PACKAGE}/")
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).is_file()
        and not frame.filename.startswith(libraries)
        and Path(frame.filename).parent not in _PYTHON
    ]
    return f" at {frames[-1].filename}:{frames[-1].lineno} ({frames[-1].line})" if frames else ""


def first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def _state(model: torch.nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from model.named_parameters(remove_duplicate=False)
    yield from model.named_buffers(remove_duplicate=False)


def _what(name: str, value: Tensor) -> str:
    return f"{'parameter' if isinstance(value, torch.nn.Parameter) else 'buffer'} '{name}'"


def _drop_unused(module: GraphModule) -> None:
    """Removes parameters and buffers that nothing reads: they can have any dtype, on any device."""
    for node in [node for node in module.graph.nodes if node.op == "get_attr" and not node.users]:
        module.graph.erase_node(node)
    read = {str(node.target) for node in module.graph.nodes if node.op == "get_attr"}
    for name in [name for name, _ in _state(module) if name not in read]:
        owner, _, attribute = name.rpartition(".")
        delattr(module.get_submodule(owner), attribute)
    module.recompile()


def _check_state(model: torch.nn.Module) -> None:
    """Checks that parameters and buffers are finite float32 numbers, or integers."""
    for name, value in _state(model):
        what = _what(name, value)
        check_values(what, value)
        if is_other_float(value):
            raise CortadoError(
                f"{what} is {dtype_name(value.dtype)}, expected float32; convert the model with model.float(), and its "
                "inputs with x.float()"
            )
        if value.is_floating_point() and bool(value.detach().isnan().any()):
            raise CortadoError(f"{what} holds NaN, expected finite numbers; check the checkpoint")


def infinite_constant(module: GraphModule) -> str | None:
    """Names a parameter or buffer that holds infinity; None if there is none."""
    for name, value in _state(module):
        if value.is_floating_point() and bool(value.detach().isinf().any()):
            return _what(name, value)
    return None


def _check_outputs(program: ExportedProgram) -> None:
    specs = program.graph_signature.output_specs
    results: list[Any] = [spec.arg for spec in specs if spec.kind is OutputKind.USER_OUTPUT]
    if all(_is_none(result) for result in results):
        raise CortadoError("the model returns nothing, expected a tensor or several")
    for position, result in enumerate(results):
        if not isinstance(result, TensorArgument) and not _is_none(result):
            found = repr(result.value) if hasattr(result, "value") else f"the number {result.name}"
            raise CortadoError(
                f"the model's outputs must be tensors: output {position} is {found}; return tensors only"
            )


def _is_none(result: Any) -> bool:
    return isinstance(result, ConstantArgument) and result.value is None


def leaves_open(module: GraphModule) -> bool:
    """Whether a model has calls that torch can compute in several ways: transposed convolutions, topk."""
    return any(is_open(node.target) for node in module.graph.nodes if node.op == "call_function")
