"""The road from nn.Module to a quantized ExportedProgram: export, prepare, calibrate, convert."""

import contextlib
import io
import logging
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, OutputKind, TensorArgument
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.nn.utils.rnn import PackedSequence
from torch.utils import _pytree as pytree
from torchao.quantization.pt2e import DerivedObserverOrFakeQuantize
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from cortado.base.data import PACKAGE
from cortado.base.errors import CortadoError
from cortado.base.findings import Finding
from cortado.frontend.attribute_names import counted_on
from cortado.frontend.bias import Means, correct_biases, give_biases, samples_to_correct
from cortado.frontend.calibration import settle
from cortado.frontend.canonical import canonicalize
from cortado.frontend.captured import (
    as_it_is,
    check_graph,
    check_model,
    check_values,
    rename_state,
    user_lines,
)
from cortado.frontend.eager import Eager, RightKernels
from cortado.frontend.incoming import as_module, check_calls, check_modules, evaluating, evaluation, single_inputs
from cortado.frontend.masks import hide_masked
from cortado.frontend.numbers import drop_nones
from cortado.frontend.observers import SETTLED, SMALLEST_SCALE, RangeObserver, make_room_for_bias
from cortado.frontend.qat import QatModel, prepare_graph
from cortado.frontend.quantized import is_dequantize, is_quantized, qparams_of
from cortado.frontend.quantizer import CortexMQuantizer
from cortado.frontend.scales import take
from cortado.frontend.sharing import share
from cortado.frontend.state import StateBuffer, Stream, as_codes, holders, keep_needed, lift_state, tie_state
from cortado.frontend.training import as_deployed
from cortado.frontend.writes import written
from cortado.ir.facts import STATE
from cortado.ir.graph import describe, lift, output_node
from cortado.ir.late_code import late_code
from cortado.ops._float import constant_data
from cortado.options import DEFAULTS, CalibrationMethod, Options

Tensor = torch.Tensor
Inputs = tuple[Tensor, ...]
AS_IT_CAME = Options(calibration_method=CalibrationMethod.MINMAX, bias_correction=False)
CHECKED = 8  # calibration inputs whose float outputs are kept, to be compared with the integers


@dataclass(frozen=True)
class FloatRun:
    """A calibration input and what the float model makes of it."""

    inputs: Inputs
    outputs: tuple[Tensor, ...]


@dataclass(frozen=True)
class Captured:
    """A model as torch.export sees it, beside the model as it is."""

    module: GraphModule
    eager: Eager
    state: tuple[StateBuffer, ...] = ()  # buffers that forward changes: the last inputs and outputs of the graph
    nones: tuple[int, ...] = ()  # where among the outputs the model returns None


@dataclass(frozen=True)
class Quantized:
    """A model after PT2E conversion, in float with quantize/dequantize pairs. It doesn't depend on the target."""

    converted: GraphModule
    example_inputs: Inputs
    checked: tuple["FloatRun", ...] = ()  # the first calibration inputs
    findings: tuple[Finding, ...] = ()  # of the calibration data
    nones: tuple[int, ...] = ()  # where among the outputs the model returns None
    how: Options = DEFAULTS  # what was chosen for calibration counts, whatever a target is compiled with

    def program(self) -> ExportedProgram:
        """A fresh ExportedProgram over the same weights, to be lowered in place."""
        state = [STATE.must(node).initial for node in holders(self.converted.graph)]
        return lift(_copy(self.converted), (*self.example_inputs, *state))


def check_example(example_inputs: Sequence[Tensor]) -> Inputs:
    """Example inputs as a tuple of tensors that hold something."""
    inputs = (example_inputs,) if isinstance(example_inputs, Tensor) else tuple(example_inputs)
    for position, value in enumerate(inputs):
        if not isinstance(value, Tensor):
            raise CortadoError(f"example input {position} must be a tensor, found {type(value).__name__}")
        check_values(f"example input {position}", value)
        if value.numel() == 0:
            raise CortadoError(f"example input {position} has shape {list(value.shape)}, which holds no values")
        if _is_other_float(value):
            raise CortadoError(
                f"example input {position} is {_name(value.dtype)}, expected float32; give x.float(), and a model "
                "in float32 (model.float())"
            )
    return _plain(inputs)


def _is_other_float(value: Tensor) -> bool:
    return (value.is_floating_point() or value.is_complex()) and value.dtype != torch.float32


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _plain(inputs: Sequence[Tensor]) -> Inputs:
    """The same values in the plain order of memory: channels_last is how a tensor lies, no part of the model."""
    return tuple(value.detach().clone(memory_format=torch.contiguous_format) for value in inputs)


def capture(model: torch.nn.Module | ExportedProgram, example_inputs: Sequence[Tensor]) -> Captured:
    """torch.export of a model, as a GraphModule that PT2E can prepare."""
    given = as_module(model)
    check_model(given)
    inputs = check_example(example_inputs)
    model = evaluating(given)
    check_modules(model)
    try:
        with _quiet(), evaluation(model), user_lines(), as_it_is(model):
            program = torch.export.export(model, inputs, strict=False)
    except Exception as error:
        _check_state(model)
        raise CortadoError(f"torch.export can't capture this model: {_failure(error, model)}") from error
    _check_outputs(program)
    rename_state(program)
    module = program.module(check_guards=False)
    nones = drop_nones(module)
    check_graph(module)
    check_calls(module)
    _drop_unused(module)
    _check_state(module)
    state = lift_state(module, inputs)
    eager = Eager(model, lasting=bool(state), transposes=_transposes(module))
    return Captured(module, eager, state, nones)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without what torch tells a failure besides: a dump of its graph, tracebacks of what is raised anyway."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    said = io.StringIO()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(said):
            # LSTM and GRU gather their weights anew; torch tells the user to mend that, who can't.
            warnings.filterwarnings("ignore", message=r"The tensor attributes? .*_flat_weights")
            yield
        sys.stderr.write(said.getvalue())
    finally:
        logging.disable(before)


def _failure(error: Exception, model: torch.nn.Module) -> str:
    """What the model's own forward raised, in which module and at which of its lines."""
    where = _module(error, model) + _user_line(error)
    if isinstance(error, GuardOnDataDependentSymNode):
        return (
            f"what it does depends on the values of a tensor{where}, and a compiled model does the same for every "
            "input; write it with torch.where, or move the decision out of the model"
        )
    if _packs(error):
        return (
            f"it packs sequences{where}, whose lengths are values, and a compiled model has fixed shapes; give the "
            "layer the padded tensor itself, and take of its outputs those that count"
        )
    if "fake tensor in the exported program constant" in str(error):
        return (
            "a tensor is changed behind torch's back (x.data, or an attribute that is no buffer), so what it becomes "
            "is not seen; make it a buffer (register_buffer) and write into that itself, as in self.h.copy_(value)"
        )
    return f"{type(error).__name__}: {first_line(error)}{where}"


def _packs(error: Exception) -> bool:
    """Whether a packed sequence was in the hands of what failed."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return any(isinstance(value, PackedSequence) for frame in frames for value in frame.f_locals.values())


def _module(error: Exception, model: torch.nn.Module) -> str:
    """The innermost module whose method was running."""
    names = {id(module): name for name, module in model.named_modules() if name}
    owners = [frame.f_locals.get("self") for frame, _ in traceback.walk_tb(error.__traceback__)]
    found = [names[id(owner)] for owner in owners if id(owner) in names]
    return f" in module '{found[-1]}'" if found else ""


_PYTHON = tuple(Path(str(module.__file__)).parent for module in (contextlib, logging))


def _user_line(error: Exception) -> str:
    """The innermost line that is neither torch's nor Cortado's nor Python's own."""
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
    """Parameters and buffers that nothing reads may be anything, on any device."""
    for node in [node for node in module.graph.nodes if node.op == "get_attr" and not node.users]:
        module.graph.erase_node(node)
    read = {str(node.target) for node in module.graph.nodes if node.op == "get_attr"}
    for name in [name for name, _ in _state(module) if name not in read]:
        owner, _, attribute = name.rpartition(".")
        delattr(module.get_submodule(owner), attribute)
    module.recompile()


def _check_state(model: torch.nn.Module) -> None:
    """Parameters and buffers must be finite float32 numbers, or integers."""
    for name, value in _state(model):
        what = _what(name, value)
        check_values(what, value)
        if _is_other_float(value):
            raise CortadoError(
                f"{what} is {_name(value.dtype)}, expected float32; convert the model with model.float(), and its "
                "inputs with x.float()"
            )
        if value.is_floating_point() and bool(value.detach().isnan().any()):
            raise CortadoError(f"{what} holds NaN, expected finite numbers; check the checkpoint")


def _infinite(module: GraphModule) -> str | None:
    """A parameter or buffer that holds infinity."""
    for name, value in _state(module):
        if value.is_floating_point() and bool(value.detach().isinf().any()):
            return _what(name, value)
    return None


def _check_finite(module: GraphModule, infinite: str | None) -> None:
    """Once the graph is canonical, a mask is part of the softmax behind it; nothing else may hold infinity."""
    for node in module.graph.nodes if infinite is not None else ():
        data = constant_data(node) if node.op == "get_attr" and node.users else torch.zeros(())
        if data.is_floating_point() and bool(data.isinf().any()):
            raise CortadoError(
                f"{infinite} holds infinity, expected finite numbers; check the checkpoint. It is read by "
                f"{describe(next(iter(node.users)))}; in a mask that is added to scores, -inf may stand where a "
                "softmax reads the sum"
            )


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


def check_batches(batches: Tensor | Iterable[Tensor | Sequence[Tensor]], example_inputs: Inputs) -> list[Inputs]:
    """Calibration inputs as tuples, one for each run of the model; in a tensor may lie several."""
    if isinstance(batches, Tensor):
        batches = [batches]
    if isinstance(batches, str) or not isinstance(batches, Iterable):
        found = repr(batches) if isinstance(batches, str) else f"a {type(batches).__name__}"
        raise CortadoError(
            "calibration must be a sequence of inputs, each a tuple of tensors, as in [(x,), (y,)], or one tensor with "
            f"the inputs along its first dimension; found {found}"
        )
    checked = [
        _plain(inputs)
        for number, batch in enumerate(batches)
        for inputs in _checked_batch(f"calibration batch {number}", batch, example_inputs)
    ]
    if not checked:
        raise CortadoError(
            "no calibration data: quantization needs a few typical inputs to choose its scales; "
            "give `calibration=` (or --calibration) some batches"
        )
    return checked


def _checked_batch(where: str, batch: Tensor | Sequence[Tensor], example_inputs: Inputs) -> list[Inputs]:
    values = tuple(batch) if isinstance(batch, tuple | list) else (batch,)
    if len(values) != len(example_inputs):
        raise CortadoError(
            f"{where} has {len(values)} tensors, expected {len(example_inputs)} (one for each input of the model)"
        )
    for value in values:
        if not isinstance(value, Tensor):
            raise CortadoError(
                f"{where} must be a tuple of tensors, found {type(value).__name__} (torch.from_numpy makes a tensor of "
                "a NumPy array)"
            )
    values = tuple(_in_float32(value, like) for value, like in zip(values, example_inputs, strict=True))
    try:
        inputs = single_inputs(values, example_inputs)
    except CortadoError as error:
        raise CortadoError(f"{where}: {error}") from error
    for value, example in zip(inputs[0], example_inputs, strict=True):
        _check_tensor(where, value, example)
    if not all(bool(torch.isfinite(value).all()) for value in values if value.is_floating_point()):
        raise CortadoError(f"{where} holds NaN or infinity; calibration data must be finite")
    return inputs


def _in_float32(value: Tensor, example: Tensor) -> Tensor:
    """float64 is what NumPy makes unless it is told otherwise."""
    wide = (value.dtype, example.dtype) == (torch.float64, torch.float32)
    return value.to(torch.float32) if wide else value


def _check_tensor(where: str, value: Tensor, example: Tensor) -> None:
    if tuple(value.shape) != tuple(example.shape):
        raise CortadoError(f"{where} has shape {list(value.shape)}, expected {list(example.shape)}")
    if value.dtype != example.dtype:
        raise CortadoError(f"{where} has dtype {value.dtype}, expected {example.dtype}")


def quantize(
    captured: Captured,
    example_inputs: Sequence[Tensor],
    batches: Sequence[Inputs],
    how: Options = DEFAULTS,
    counted: Callable[[int], None] = lambda done: None,
) -> Quantized:
    """Prepare, calibrate and convert with CortexMQuantizer; on all data the graph must compute what the model does.
    `counted` is told how many batches are done."""
    module, checked = captured.module, []
    writes = [describe(node) for node in module.graph.nodes if written(node)]
    infinite = _infinite(module)
    with captured.eager.blamed("the example inputs", example_inputs):
        state = _canonical(captured, example_inputs)
    _check_finite(module, infinite)
    stream = Stream(state, how.sequence)
    if how.sequence is not None and not state:
        raise CortadoError(NO_STATE)
    layers = give_biases(module) if how.bias_correction else {}
    fed: list[Inputs] = []  # what each step reads, state included
    with torch.no_grad(), _right_kernels(module), late_code(), counted_on():
        if not any(_same(example_inputs, batch) for batch in batches):
            with captured.eager.blamed("the example inputs", example_inputs):
                found = pytree.tree_leaves(module(*stream.inputs(0, example_inputs)))
            captured.eager.check("the example inputs", example_inputs, stream.outputs(found), writes)
        prepared = _prepare(module)
        float_model = Means(prepared, layers)
        for number, batch in enumerate(batches):
            if stream.begins(number):
                captured.eager.reset()
            fed.append(stream.inputs(number, batch))
            with captured.eager.blamed(f"calibration batch {number}", batch):
                found = pytree.tree_leaves(float_model.run_sample(number, fed[-1]))
            outputs = stream.outputs(found)
            captured.eager.check(f"calibration batch {number}", batch, outputs, writes)
            if number < CHECKED:
                checked.append(FloatRun(batch, tuple(outputs)))
            counted(number + 1)
        share(prepared, how.calibration_method)
        tie_state(prepared)
        settled = settle(prepared, how.calibration_method, len(batches))
        for node in prepared.graph.nodes:
            if node.op == "call_module":
                _check_observer(prepared, node)
        converted = convert_pt2e(prepared, fold_quantize=False)
        if how.bias_correction:
            usual = [number for number in range(len(batches)) if number not in settled.odd]
            chosen = usual[: samples_to_correct(module.graph, layers)]
            correct_biases(converted, float_model, {number: fed[number] for number in chosen})
        as_codes(converted)
    return Quantized(
        converted=converted,
        example_inputs=tuple(example_inputs),
        checked=tuple(checked),
        findings=settled.findings,
        nones=captured.nones,
        how=how,
    )


NO_STATE = (
    "a length of sequences was given (--sequence), and the model has no state: no buffer that forward changes lasts "
    "from call to call; leave it out"
)


def _canonical(captured: Captured, example_inputs: Sequence[Tensor]) -> tuple[StateBuffer, ...]:
    """Brings the captured graph into the form that is known, and tells what of its state is needed."""
    initial = [one.initial for one in captured.state]
    canonicalize(captured.module, (*example_inputs, *initial))
    return keep_needed(captured.module, captured.state)


def _no_state(captured: Captured, what: str) -> None:
    if captured.state:
        names = ", ".join(f"'{one.name}'" for one in captured.state)
        raise CortadoError(
            f"{captured.state[0].where} changes {names}, which would have to last until the next call; {what} can't "
            "have state so far: give the float model, which Cortado quantizes itself, or pass it in as an input and "
            "return it as an output"
        )


def keep(
    captured: Captured, example_inputs: Sequence[Tensor], batches: Sequence[Inputs], sequence: int | None = None
) -> Quantized:
    """A model that came quantized, with its own scales; it must compute what the model does on the data there is."""
    module = take(captured.module, (*example_inputs, *(one.initial for one in captured.state)))
    state = keep_needed(module, captured.state)
    stream = Stream(state, sequence)
    returned = pytree.tree_leaves(output_node(module.graph).args)
    steps = [qparams_of(node).scale if is_dequantize(node) else None for node in returned[: len(returned) - len(state)]]
    checked = []
    with torch.no_grad(), _right_kernels(module):
        for number, batch in enumerate(batches or [tuple(example_inputs)]):
            where = f"calibration batch {number}" if batches else "the example inputs"
            if stream.begins(number):
                captured.eager.reset()
            found = stream.outputs(pytree.tree_leaves(module(*stream.inputs(number, batch))))
            outputs = captured.eager.check_codes(where, batch, found, steps)
            if number < CHECKED:
                checked.append(FloatRun(batch, tuple(outputs)))
        as_codes(module)
    return Quantized(
        converted=module,
        example_inputs=tuple(example_inputs),
        checked=tuple(checked),
        nones=captured.nones,
        how=AS_IT_CAME,
    )


def train(captured: Captured, example_inputs: Sequence[Tensor]) -> QatModel:
    """The model with fake quantization in it, to be trained."""
    _no_state(captured, "a model that is trained with quantization")
    module = captured.module
    writes = [describe(node) for node in module.graph.nodes if written(node)]
    as_deployed(module)
    infinite = _infinite(module)
    canonicalize(module, example_inputs)
    _check_finite(module, infinite)
    with torch.no_grad(), _right_kernels(module):
        captured.eager.check("the example inputs", example_inputs, module(*example_inputs), writes)
    return prepare_graph(module, example_inputs)


def _same(first: Sequence[Tensor], second: Sequence[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def _right_kernels(module: GraphModule) -> contextlib.AbstractContextManager[Any]:
    """As the model itself is run."""
    return RightKernels() if _transposes(module) else contextlib.nullcontext()


def _transposes(module: GraphModule) -> bool:
    """Whether there may be transposed convolutions in a model."""
    calls = {str(node.target) for node in module.graph.nodes if node.op == "call_function"}
    return any("conv_transpose" in call or call == "aten.convolution.default" for call in calls)


def _check_observer(prepared: GraphModule, node: Node) -> None:
    """Single values that are not finite saturate; a tensor without any other has no range at all."""
    observer, source = prepared.get_submodule(str(node.target)), node.all_input_nodes[0]
    if isinstance(observer, DerivedObserverOrFakeQuantize):
        make_room_for_bias(constant_data(source), *observer.obs_or_fqs)
    if not isinstance(observer, RangeObserver) or observer.leader is not None:
        return
    if not observer.saw_finite:
        raise CortadoError(
            f"{describe(source)}: calibration gave NaN or infinity only, expected numbers to choose a scale for; "
            "check the calibration data, and the weights before this call"
        )
    if 0.0 < observer.largest < SMALLEST_SCALE * 256:
        raise CortadoError(
            f"{describe(source)}: no value of this tensor is above {observer.largest:g} on the calibration data, and "
            f"the smallest step of an int8 tensor is {SMALLEST_SCALE:g}; scale the model so that its values are larger"
        )


def _prepare(module: GraphModule) -> GraphModule:
    prepared: GraphModule = prepare_pt2e(module, CortexMQuantizer(scheme=SETTLED))
    hide_masked(prepared)
    return prepared


class FloatModel:
    """A model in float: the user's own module, and its graph just before quantization."""

    def __init__(self, model: torch.nn.Module | ExportedProgram, example_inputs: Sequence[Tensor]) -> None:
        self._model, self._example_inputs = evaluating(as_module(model)), example_inputs
        self._eager = Eager(self._model)

    def outputs(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """What the module itself gives for one sample, after all since the last `reset`."""
        return self._eager(inputs)

    def reset(self) -> None:
        """State as it is before the first call."""
        self._eager.reset()

    @cached_property
    def _graph(self) -> GraphModule:
        captured = capture(self._model, self._example_inputs)
        if is_quantized(captured.module):
            return take(captured.module, (*self._example_inputs, *(one.initial for one in captured.state)))
        _canonical(captured, self._example_inputs)
        return _prepare(captured.module)  # the observers in it only look

    def twins(self, inputs: Sequence[Tensor]) -> dict[str, Tensor]:
        """Every node's value by name, for one sample: nodes are the twins of the lowered graph's calls. State has its
        initial values."""
        interpreter = torch.fx.Interpreter(self._graph, garbage_collect_values=False)
        state = [STATE.must(node).initial for node in holders(self._graph.graph)]
        with torch.no_grad(), _right_kernels(self._graph):
            interpreter.run(*inputs, *state)
        return {node.name: value for node, value in interpreter.env.items() if isinstance(value, Tensor)}


def _copy(module: GraphModule) -> GraphModule:
    """Another graph over the same weights: lifting rewrites the graph it is given."""
    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(module.graph, val_map={}))
    return GraphModule(module, graph)
