"""The user's model and calibration data: a zoo name, file.py, file.py:function, package.module:attr, .pt2, .onnx.

Also samples with labels, as named by --labelled.
"""

import difflib
import importlib
import importlib.util
import inspect
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import numpy as np
import torch

from cortado.base.arrays import in_order, read_arrays
from cortado.base.errors import CortadoError
from cortado.base.names import LONGEST_NAME, check_name
from cortado.frontend.capture.incoming import as_module, comes_quantized, evaluating, single_inputs
from cortado.frontend.capture.inputs import Inputs, check_batches, ending
from cortado.frontend.capture.numbers import with_numbers
from cortado.frontend.precision.targets import Labelled
from cortado.ir.patched import loaded_quietly
from cortado.models import zoo

# ---- sources ---------------------------------------------------------------------------------------------

Tensor = torch.Tensor

RANDOM = "random"
CALIBRATION_COUNT = 32
CALIBRATION_SUFFIXES = (".npy", ".npz", ".pt")
KINDS = (
    "a name of the zoo (see `cortado zoo`), file.py, file.py:function, package.module:function, exported.pt2 or "
    "model.onnx"
)


@dataclass(frozen=True)
class Source:
    """A model, its example inputs, and its own calibration data if it has any."""

    name: str
    model: torch.nn.Module
    example_inputs: Inputs
    calibration: Callable[[], list[Inputs]] | None = None
    labels: tuple[str, ...] | None = None


def load_model(spec: str, shapes: Mapping[str, Sequence[int]] | None = None) -> Source:
    """Loads the model that a user names on the command line. `shapes` are the sizes that an ONNX file leaves open."""
    place, function = _split(spec)
    path = Path(place)
    if path.suffix == ".py":
        return _from_file(path, function)
    if function is not None:
        return _from_package(place, function)
    if path.suffix == ".onnx":
        from cortado.onnx.model import load_onnx  # builders for all operators: only for such files

        model = load_onnx(path, shapes)
        return Source(_name_of(path.stem), model.eval(), model.example_inputs)
    if shapes:
        raise CortadoError(
            f"--shape is for .onnx files, whose inputs can have open dimensions, and '{spec}' is not one; leave it out"
        )
    if path.suffix in (".pt2", ".pt", ".pth"):
        return _from_exported(path)
    if spec not in zoo.names() and (os.sep in spec or path.exists()):
        raise CortadoError(f"'{spec}' is not a model that Cortado can compile; expected {KINDS}")
    network = zoo.get(spec)
    return Source(network.name, network.build(), network.example_inputs(), network.own_calibration, network.labels)


def _split(spec: str) -> tuple[str, str | None]:
    """Splits 'file.py:function' into ('file.py', 'function'); a colon inside a path belongs to the path."""
    place, colon, function = spec.rpartition(":")
    named = colon and (place.endswith(".py") or function.isidentifier())
    return (place, function) if named else (spec, None)


def load_function(spec: str) -> Any:
    """Calls the function of file.py:function."""
    place, function = _named_function(spec)
    return _call(_import_file(Path(place)), function, place)


def find_function(spec: str) -> Callable[..., Any]:
    """Returns the function of file.py:function."""
    place, name = _named_function(spec)
    found = getattr(_import_file(Path(place)), name, None)
    if not callable(found):
        raise CortadoError(f"{place} defines no function '{name}'")
    return cast(Callable[..., Any], found)


def _named_function(spec: str) -> tuple[str, str]:
    place, function = _split(spec)
    if function is None:
        raise CortadoError(f"'{spec}' does not name a function; expected file.py:function")
    return place, function


def source_of(name: str, builder: Callable[[], Any], where: str) -> Source:
    """Builds the model with a user's function; its exceptions propagate."""
    return _from_pair(name, builder(), where)


# ---- names --------------------------------------------------------------------------------------------------------


def _name_of(stem: str) -> str:
    """Turns a file's name into a model's name."""
    cleaned = re.sub(r"[^A-Za-z0-9_ .+-]", "_", stem).lstrip("_ .+-")
    return check_name(cleaned[:LONGEST_NAME] or "model")


# ---- Python files and packages --------------------------------------------------------------------------------


@contextmanager
def _user_code(doing: str) -> Iterator[None]:
    """Turns an exception in the user's own code into one sentence, with the line that raised it."""
    try:
        yield
    except CortadoError:
        raise
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        last = frames[-1] if len(frames) > 1 else None
        where = f" at {last.filename}:{last.lineno}" if last is not None and "importlib" not in last.filename else ""
        text = " ".join(str(error).split())
        raise CortadoError(f"{doing} failed: {type(error).__name__}: {text}{where}") from error


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Puts `folder` first on the import path, since a user's file may import its neighbours. Afterwards it is moved to
    the end, where it shadows nothing: functions of that file may still import them later."""
    entry = str(folder.resolve())
    sys.path.insert(0, entry)
    try:
        yield
    finally:
        sys.path.remove(entry)
        if entry not in sys.path:
            sys.path.append(entry)


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise CortadoError(f"there is no file {path}")
    name = f"cortado_user_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise CortadoError(f"{path} can't be imported as a Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with _importable(path.parent), _user_code(f"importing {path}"):
        spec.loader.exec_module(module)
    return module


def _from_file(path: Path, function: str | None) -> Source:
    module = _import_file(path)
    if function is not None:
        name = _name_of(f"{path.stem}_{function}")  # a file may hold several models
        return _from_pair(name, _call(module, function, str(path)), f"{path}:{function}")
    missing = [name for name in ("ModelUnderTest", "ModelInputs") if not hasattr(module, name)]
    if missing:
        raise CortadoError(
            f"{path} defines no {' and no '.join(missing)}; define ModelUnderTest and ModelInputs, or name a function "
            f"that returns (model, example_inputs): {path}:FUNCTION"
        )
    return _from_pair(_name_of(path.stem), (module.ModelUnderTest, module.ModelInputs), str(path))


@dataclass(frozen=True)
class MethodsSource:
    """A model with several methods, as defined by a file."""

    name: str
    model: torch.nn.Module
    methods: Mapping[str, Sequence[torch.Tensor]]
    calls: Sequence[tuple[Any, ...]]


def load_methods(spec: str) -> MethodsSource | None:
    """Loads the model of a file that defines ModelMethods; None for any other file."""
    path = Path(spec)
    module = _import_file(path)
    if not hasattr(module, "ModelMethods"):
        return None
    missing = [name for name in ("ModelUnderTest", "ModelCalls") if not hasattr(module, name)]
    if missing or not isinstance(module.ModelMethods, dict):
        found = f"defines no {' and no '.join(missing)}" if missing else "has ModelMethods that is not a dictionary"
        raise CortadoError(
            f"{path} {found}; expected ModelUnderTest, ModelMethods = {{'forward': (x,), 'learn': (x, label)}} and "
            "ModelCalls = [('learn', x, label), ('forward', x), ...] to calibrate with"
        )
    return MethodsSource(_name_of(path.stem), module.ModelUnderTest, module.ModelMethods, list(module.ModelCalls))


def _from_package(module_name: str, attribute: str) -> Source:
    if not all(part.isidentifier() for part in module_name.split(".")):
        raise CortadoError(f"'{module_name}:{attribute}' does not name a model; expected {KINDS}")
    with _importable(Path()), _user_code(f"importing '{module_name}'"):
        module = importlib.import_module(module_name)
    name = f"{module_name.rpartition('.')[2]}_{attribute}"
    return _from_pair(name, _call(module, attribute, module_name), f"{module_name}:{attribute}")


def _call(module: ModuleType, name: str, where: str) -> Any:
    value = getattr(module, name, None)
    if value is None:
        raise CortadoError(f"{where} defines no '{name}'")
    if isinstance(value, torch.nn.Module) or not callable(value):
        return value
    _check_takes_nothing(value, f"{where}:{name}")
    with _user_code(f"{where}:{name}()"):
        return value()


def _check_takes_nothing(function: Callable[..., Any], where: str) -> None:
    try:
        signature = inspect.signature(function)
    except ValueError:  # a built-in function
        return
    try:
        signature.bind()
    except TypeError as error:
        raise CortadoError(
            f"{where} must take no arguments, found {signature} ({error}); give them default values, or write a "
            "function without arguments that calls it"
        ) from error


def _from_pair(name: str, value: Any, where: str) -> Source:
    """Returns the source of a pair (model, example_inputs), wherever it comes from."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise CortadoError(f"{where} must return (model, example_inputs), found {type(value).__name__}")
    model, inputs = value
    model = as_module(model)
    if isinstance(model, type) and issubclass(model, torch.nn.Module):
        with _user_code(f"{where}: {model.__name__}()"):
            model = model()
    if not isinstance(model, torch.nn.Module):
        raise CortadoError(f"{where}: the model must be a torch.nn.Module, found {type(model).__name__}")
    model, inputs = with_numbers(model, inputs)
    tensors = tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)
    if not tensors or not all(isinstance(item, Tensor) for item in tensors):
        found = ", ".join(type(item).__name__ for item in tensors) or "nothing"
        raise CortadoError(f"{where}: the example inputs must be a tuple of tensors, found {found}")
    model = evaluating(model)
    model.eval()
    return Source(name, model, tensors)


# ---- exported programs --------------------------------------------------------------------------------------------


def _from_exported(path: Path) -> Source:
    """Loads a .pt2 file, warning that this can run its author's code."""
    if not path.is_file():
        raise CortadoError(f"there is no file {path}")
    if path.suffix != ".pt2":
        raise CortadoError(
            f"{path} is a checkpoint, which holds weights but no model; write a file.py whose function loads it "
            "(torch.load(..., weights_only=True)) and returns (model, example_inputs)"
        )
    print(f"warning: {path} is loaded with torch.export.load; only open files you trust", file=sys.stderr)
    try:
        with loaded_quietly():
            program = torch.export.load(path)
    except Exception as error:
        lines = str(error).splitlines() or [type(error).__name__]
        raise CortadoError(f"{path} is not a readable exported program: {lines[0]}") from error
    if program.example_inputs is None:
        raise CortadoError(f"{path} holds no example inputs; export the model again with torch.export.export")
    args, kwargs = program.example_inputs
    if kwargs:
        raise CortadoError(f"{path} takes keyword arguments {sorted(kwargs)}; export it with positional ones only")
    return _from_pair(_name_of(path.stem), (program, args), str(path))


# ---- calibration ------------------------------------------------------------------------------------------------


def load_calibration(
    spec: str | None, source: Source, count: int = CALIBRATION_COUNT, *, needed: bool = True
) -> list[Inputs]:
    """Returns calibration batches: the model's own (zoo), random, or from files, a folder, or file.py:function. A model
    that is quantized already, or in float32, needs none."""
    if spec == RANDOM:
        return _random(source.example_inputs, count)
    if spec is not None:
        return _from_spec(spec, source)
    if source.calibration is not None:
        return source.calibration()
    if not needed or comes_quantized(source.model):
        return []
    raise CortadoError(
        "no calibration data: quantization needs a few typical inputs to choose its scales. Give --calibration "
        "FILE.npy, FILE.npz, FILE.pt, a folder of them, or file.py:function; or --calibration random for a study of "
        "size and speed (the results will be meaningless)"
    )


def _random(example: Inputs, count: int) -> list[Inputs]:
    """Draws uniformly from [-1, 1); integer inputs stay as in the example, since they may be indices."""
    rng = torch.Generator().manual_seed(0)

    def draw(x: Tensor) -> Tensor:
        return torch.rand(x.shape, generator=rng, dtype=x.dtype) * 2 - 1 if x.is_floating_point() else x

    return [tuple(draw(x) for x in example) for _ in range(count)]


def _from_spec(spec: str, source: Source) -> list[Inputs]:
    place, function = _split(spec)
    path = Path(place)
    if path.suffix == ".py":
        return _from_function(path, function or "calibration")
    path = Path(spec)
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix in CALIBRATION_SUFFIXES)
        if not files:
            raise CortadoError(f"{path} holds no {', '.join(CALIBRATION_SUFFIXES)} files")
        return [batch for file in files for batch in _from_data_file(file, source)]
    _check_data_file(path)
    return _from_data_file(path, source)


def _check_data_file(path: Path) -> None:
    if not path.is_file():
        near = difflib.get_close_matches(str(path), [RANDOM])
        raise CortadoError(f"there is no file {path}" + (f". Did you mean '{RANDOM}'?" if near else ""))
    if path.suffix not in CALIBRATION_SUFFIXES:
        raise CortadoError(
            f"{path} is not calibration data; expected a {', '.join(CALIBRATION_SUFFIXES)} file, a folder of them, "
            f"file.py:function, or '{RANDOM}'"
        )


def _from_function(path: Path, function: str) -> list[Inputs]:
    """Calls a user's function: an iterable of tensors, or of tuples of tensors."""
    where = f"{path}:{function}()"
    batches = _call(_import_file(path), function, str(path))
    if isinstance(batches, Tensor) or not isinstance(batches, Iterable):
        raise CortadoError(
            f"{where} must return a list of inputs, each a tuple of tensors; found {type(batches).__name__}"
        )
    with _user_code(where):
        found = [batch if isinstance(batch, tuple | list) else (batch,) for batch in ending(batches)]
    for number, batch in enumerate(found):
        for item in batch:
            if not isinstance(item, Tensor):
                raise CortadoError(
                    f"{where} must return a list of inputs, each a tensor or a tuple of tensors; item {number} is or "
                    f"holds a {type(item).__name__}"
                )
    return [tuple(batch) for batch in found]


def _from_data_file(path: Path, source: Source) -> list[Inputs]:
    """Reads inputs from a file with an array per input; each has one input, or several along the first dimension."""
    example = source.example_inputs
    arrays = _read_tensors(path, _input_names(source))
    if len(arrays) != len(example):
        raise CortadoError(
            f"{path} holds {len(arrays)} arrays, expected {len(example)} (one for each input of the model)"
        )
    try:
        return single_inputs(arrays, example)
    except CortadoError as error:
        raise CortadoError(f"{path}: {error}") from error


def _input_names(source: Source) -> list[str]:
    """Returns the names of forward's parameters, which the compiled model's inputs share."""
    parameters = inspect.signature(source.model.forward).parameters.values()
    names = [one.name for one in parameters if one.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    count = len(source.example_inputs)
    return names[:count] if len(names) >= count else [f"input {position}" for position in range(count)]


def _read_tensors(path: Path, names: Sequence[str]) -> list[Tensor]:
    """Returns the tensors of a .npy, .npz or .pt file, in the order of the inputs; pickles are refused."""
    if path.suffix != ".pt":
        return [_to_tensor(array, path) for array in in_order(read_arrays(path), names, path)]
    try:
        value = torch.load(path, weights_only=True)
    except Exception as error:  # a damaged file raises whatever pickle, zipfile and torch do
        raise CortadoError(
            f"{path} is not a readable .pt file of tensors, as torch.save([x, y], path) writes it; files with other "
            "objects are not opened"
        ) from error
    items: Sequence[Any] = value if isinstance(value, list | tuple) else [value]
    if not items or not all(isinstance(item, Tensor) for item in items):
        raise CortadoError(f"{path} must hold a tensor or a list of tensors, found {type(value).__name__}")
    return [item.detach() for item in items]


def _to_tensor(array: np.ndarray[Any, np.dtype[Any]], path: Path) -> Tensor:
    if array.dtype.kind not in "fiub":
        raise CortadoError(f"{path} holds an array of {array.dtype}; expected numbers")
    return torch.from_numpy(np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("=")))


# ---- labelled --------------------------------------------------------------------------------------------

LABELS = "labels"


def read_labelled(path: Path, example_inputs: Inputs) -> Labelled:
    """Reads an .npz file: the model's inputs in order, samples along the first dimension, and `labels`."""
    arrays = read_arrays(path) if path.suffix == ".npz" or not path.is_file() else {}
    if LABELS not in arrays:
        found = ", ".join(arrays) or "none"
        raise CortadoError(
            f"--labelled {path}: found {found}, expected an .npz file with the model's inputs and an array '{LABELS}' "
            "with the class number of each sample"
        )
    labels = arrays.pop(LABELS)
    if labels.dtype.kind not in "iu" or labels.ndim != 1 or not len(labels):
        raise CortadoError(
            f"--labelled {path}: '{LABELS}' holds {labels.dtype} values of shape {list(labels.shape)}; expected one "
            "integer for each sample"
        )
    if any(array.dtype.kind not in "fiub" for array in arrays.values()):
        raise CortadoError(f"--labelled {path}: expected numbers in the arrays {', '.join(arrays)}")
    if len(arrays) != len(example_inputs):
        raise CortadoError(
            f"--labelled {path} holds {len(arrays)} arrays beside '{LABELS}', expected {len(example_inputs)}: one for "
            "each input of the model"
        )
    tensors = [torch.from_numpy(np.ascontiguousarray(array)) for array in arrays.values()]
    try:
        samples = check_batches(single_inputs(tensors, example_inputs), example_inputs)
    except CortadoError as error:
        raise CortadoError(f"--labelled {path}: {error}") from error
    if len(samples) != len(labels):
        raise CortadoError(
            f"--labelled {path}: {len(samples)} samples and {len(labels)} labels, expected one label for each sample"
        )
    return Labelled(samples, [int(label) for label in labels])
