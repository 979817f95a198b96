"""The user's model and calibration data: a zoo name, file.py, file.py:function, package.module:attr, exported.pt2."""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch

from cortado import zoo
from cortado.errors import CortadoError

Tensor = torch.Tensor
Inputs = tuple[Tensor, ...]

RANDOM = "random"
CALIBRATION_COUNT = 8


@dataclass(frozen=True)
class Source:
    """A model, its example inputs, and calibration data of its own where it has some."""

    name: str
    model: torch.nn.Module
    example_inputs: Inputs
    calibration: Callable[[int], list[Inputs]] | None = None
    labels: tuple[str, ...] | None = None


def load_model(spec: str) -> Source:
    """The model a user names on the command line."""
    path_text, _, function = spec.partition(":")
    path = Path(path_text)
    if path.suffix == ".py":
        return _from_file(path, function or None)
    if path.suffix in (".pt2", ".pt", ".pth"):
        return _from_exported(path)
    if function:
        return _from_package(path_text, function)
    network = zoo.get(spec)
    return Source(
        network.name, network.build(), network.example_inputs(), lambda count: network.calibration(count), network.labels
    )


# ---- Python files and packages --------------------------------------------------------------------------------


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise CortadoError(f"there is no file {path}")
    name = f"cortado_user_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise CortadoError(f"{path} can't be imported as a Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise CortadoError(f"importing {path} failed: {type(error).__name__}: {error}") from error
    finally:
        sys.path.pop(0)
    return module


def _from_file(path: Path, function: str | None) -> Source:
    module = _import_file(path)
    if function is not None:
        return _from_pair(path.stem, _call(module, function, str(path)), f"{path}:{function}")
    if not hasattr(module, "ModelUnderTest") or not hasattr(module, "ModelInputs"):
        raise CortadoError(
            f"{path} defines no ModelUnderTest and ModelInputs; define both, or name a function that returns "
            f"(model, example_inputs): {path}:FUNCTION"
        )
    return _from_pair(path.stem, (module.ModelUnderTest, module.ModelInputs), str(path))


def _from_package(module_name: str, attribute: str) -> Source:
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise CortadoError(f"can't import '{module_name}': {error}") from error
    return _from_pair(attribute, _call(module, attribute, module_name), f"{module_name}:{attribute}")


def _call(module: ModuleType, name: str, where: str) -> Any:
    value = getattr(module, name, None)
    if value is None:
        raise CortadoError(f"{where} defines no '{name}'")
    if isinstance(value, torch.nn.Module) or not callable(value):
        return value
    try:
        return value()
    except Exception as error:
        raise CortadoError(f"{where}:{name}() failed: {type(error).__name__}: {error}") from error


def _from_pair(name: str, value: Any, where: str) -> Source:
    """(model, example_inputs), as both roads give it."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise CortadoError(f"{where} must give (model, example_inputs), found {type(value).__name__}")
    model, inputs = value
    if isinstance(model, type) and issubclass(model, torch.nn.Module):
        model = model()
    if not isinstance(model, torch.nn.Module):
        raise CortadoError(f"{where}: the model must be a torch.nn.Module, found {type(model).__name__}")
    tensors = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    if not tensors or not all(isinstance(item, Tensor) for item in tensors):
        raise CortadoError(f"{where}: the example inputs must be a tuple of tensors")
    return Source(name, model.eval(), tensors)


def _from_exported(path: Path) -> Source:
    """A .pt2 file. Loading one can run code of whoever wrote it: say so."""
    if not path.is_file():
        raise CortadoError(f"there is no file {path}")
    if path.suffix != ".pt2":
        raise CortadoError(
            f"{path} is a checkpoint, which holds weights and no model; write a file.py whose function loads it "
            "(torch.load(..., weights_only=True)) and returns (model, example_inputs)"
        )
    print(f"warning: {path} is loaded with torch.export.load; only open files you trust", file=sys.stderr)
    try:
        program = torch.export.load(path)
    except Exception as error:
        raise CortadoError(f"{path} is not a readable exported program: {error}") from error
    if program.example_inputs is None:
        raise CortadoError(f"{path} holds no example inputs; export the model again with torch.export.export")
    args, kwargs = program.example_inputs
    if kwargs:
        raise CortadoError(f"{path} takes keyword arguments {sorted(kwargs)}; export it with positional ones only")
    return Source(path.stem, program.module(check_guards=False), tuple(args))


# ---- calibration ------------------------------------------------------------------------------------------------


def load_calibration(spec: str | None, source: Source, count: int = CALIBRATION_COUNT) -> list[Inputs]:
    """Calibration batches: of the model itself (zoo), random, from files, a folder, or file.py:function."""
    if spec == RANDOM:
        return _random(source.example_inputs, count)
    if spec is not None:
        return _from_spec(spec, len(source.example_inputs))
    if source.calibration is not None:
        return source.calibration(count)
    raise CortadoError(
        "no calibration data: quantization needs a few typical inputs to choose its scales. Give --calibration "
        "FILE.npy, FILE.npz, FILE.pt, a folder of them, or file.py:function; or --calibration random for a study of "
        "size and speed (the results will be meaningless)"
    )


def _random(example: Inputs, count: int) -> list[Inputs]:
    rng = torch.Generator().manual_seed(0)
    return [tuple(torch.rand(x.shape, generator=rng) * 2 - 1 for x in example) for _ in range(count)]


def _from_spec(spec: str, inputs: int) -> list[Inputs]:
    path_text, _, function = spec.partition(":")
    path = Path(path_text)
    if path.suffix == ".py":
        batches = _call(_import_file(path), function or "calibration", str(path))
        return [(batch,) if isinstance(batch, Tensor) else tuple(batch) for batch in batches]
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix in (".npy", ".npz", ".pt"))
        if not files:
            raise CortadoError(f"{path} holds no .npy, .npz or .pt files")
        return [batch for file in files for batch in _from_data_file(file, inputs)]
    return _from_data_file(path, inputs)


def _from_data_file(path: Path, inputs: int) -> list[Inputs]:
    """One file: .npy is one batch of the only input; .npz and .pt hold one array per input, in order."""
    if not path.is_file():
        raise CortadoError(f"there is no calibration file {path}")
    arrays = read_arrays(path)
    if len(arrays) != inputs:
        raise CortadoError(f"{path} holds {len(arrays)} arrays, expected {inputs} (one for each input of the model)")
    return [tuple(torch.from_numpy(array) for array in arrays)]


def read_arrays(path: Path) -> list[np.ndarray[Any, np.dtype[Any]]]:
    """The arrays of a .npy, .npz or .pt file; pickles are refused."""
    try:
        if path.suffix == ".npy":
            return [np.load(path, allow_pickle=False)]
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as file:
                return [file[name] for name in file.files]
        if path.suffix == ".pt":
            return _tensors(torch.load(path, weights_only=True), path)
    except CortadoError:
        raise
    except Exception as error:
        raise CortadoError(f"{path} can't be read: {str(error).splitlines()[0]}") from error
    raise CortadoError(f"{path}: expected a .npy, .npz or .pt file")


def _tensors(value: Any, path: Path) -> list[np.ndarray[Any, np.dtype[Any]]]:
    items: Sequence[Any] = [value] if isinstance(value, Tensor) else list(value) if isinstance(value, list | tuple) else []
    if not items or not all(isinstance(item, Tensor) for item in items):
        raise CortadoError(f"{path} must hold a tensor or a list of tensors")
    return [item.detach().numpy() for item in items]
