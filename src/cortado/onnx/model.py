"""An ONNX graph as a torch module: a submodule for each node that depends on an input."""

import inspect
import keyword
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from cortado.base.errors import CortadoError
from cortado.onnx.files import Input, OnnxFile, read
from cortado.onnx.reader import GraphReader, OnnxStep

Tensor = torch.Tensor
Shapes = Mapping[str, Sequence[int]]
_NOT_A_NAME = re.compile(r"\W")
_DEEPEST, _LONGEST = 30, 100  # nesting levels in a node's path, and characters of each


class OnnxModel(nn.Module):
    """A file as a module: its inputs, in the file's order, are forward's arguments."""

    example_inputs: tuple[Tensor, ...]

    def __init__(self, file: OnnxFile, shapes: Shapes) -> None:
        super().__init__()
        self.example_inputs = tuple(_example(one, sizes) for one, sizes in _static(file, shapes))
        self.inputs, self.outputs = tuple(one.name for one in file.graph.inputs), file.graph.outputs
        reader = GraphReader(file, dict(zip(self.inputs, self.example_inputs, strict=True)))
        self.fixed = {name: reader.known[name] for name in self.outputs if name in reader.known}
        if len(self.fixed) == len(self.outputs):
            raise CortadoError(f"{file.path}: its outputs are constants, expected something computed from its inputs")
        self.steps = _Places(self).put(reader.steps)
        self.unread = _unread(reader.steps, self.outputs)

    def forward(self, *given: Tensor) -> Any:
        values = dict(zip(self.inputs, given, strict=True))
        for path, unread in zip(self.steps, self.unread, strict=True):
            self.get_submodule(path).run(values)  # type: ignore[operator]
            for name in unread:
                values.pop(name, None)
        found = tuple(values[name] if name in values else self.fixed[name] for name in self.outputs)
        return found[0] if len(found) == 1 else found


def _unread(steps: Sequence[tuple[str, OnnxStep]], outputs: Sequence[str]) -> list[list[str]]:
    """Returns the values without a later reader for each step: their memory can be freed."""
    seen, found = set(outputs), []
    for _, step in reversed(steps):
        names = {name for name in (*step.sources, *step.outputs) if name and name not in seen}
        seen |= names
        found.append(sorted(names))
    return found[::-1]


class _Places:
    """Steps as modules whose paths derive from the names of their nodes: /features/conv1/Conv is
    features.conv1.Conv."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.taken: dict[tuple[int, str], int] = {}  # how many modules in a module requested a name

    def put(self, steps: Sequence[tuple[str, OnnxStep]]) -> list[str]:
        return [self._put(name, step) for name, step in steps]

    def _put(self, name: str, step: OnnxStep) -> str:
        parts = [_NOT_A_NAME.sub("_", part)[:_LONGEST] for part in re.split(r"[/.:]", name) if part] or ["node"]
        *folders, last = (*parts[:_DEEPEST], parts[-1]) if len(parts) > _DEEPEST else parts
        place, path = self.model, []
        for folder in folders:
            inner = place._modules.get(_spelled(folder))
            if isinstance(inner, OnnxStep) or inner is None:
                folder, inner = self._free(place, folder), nn.Module()
                place.add_module(folder, inner)
            place = inner
            path.append(_spelled(folder))
        last = self._free(place, last)
        place.add_module(last, step)
        return ".".join((*path, last))

    def _free(self, place: nn.Module, name: str) -> str:
        """Returns a name that is unused in a module."""
        found = _spelled(name)
        while hasattr(place, found):
            number = self.taken[id(place), name] = self.taken.get((id(place), name), 0) + 1
            found = f"{_spelled(name)}_{number}"
        return found


def _spelled(name: str) -> str:
    """Returns a name as an attribute's that no module has by default."""
    return f"_{name}" if name[0].isdigit() or hasattr(nn.Module, name) else name


def _plain(name: str) -> str:
    """Returns the name of an input as a Python identifier, which the compiled model uses."""
    found = _NOT_A_NAME.sub("_", name) or "input"
    found = found if found.isidentifier() else f"_{found}"
    return f"{found}_" if keyword.iskeyword(found) or found == "self" else found


def load_onnx(path: str | Path, shapes: Shapes | None = None) -> OnnxModel:
    """Loads the model in a file. `shapes` gives the sizes of inputs that the file leaves open."""
    file = read(Path(path))
    names = [_plain(one.name) for one in file.graph.inputs]
    model = OnnxModel(file, shapes or {})
    return _with_names(model, names) if len(set(names)) == len(names) else model


def input_names(path: Path) -> list[str]:
    """Returns the names of the inputs as spelled in the file, in its order."""
    return [one.name for one in read(path).graph.inputs]


def _with_names(model: OnnxModel, names: Sequence[str]) -> OnnxModel:
    """Returns the model with the file's input names as the names of forward's arguments."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(name, kind) for name in ("self", *names)]

    def forward(self: OnnxModel, *given: Tensor, **named: Tensor) -> Any:
        bound = signature.bind(self, *given, **named)
        return OnnxModel.forward(self, *list(bound.arguments.values())[1:])

    signature = inspect.Signature(parameters)
    forward.__signature__ = signature  # type: ignore[attr-defined]
    model.__class__ = type("OnnxModel", (OnnxModel,), {"forward": forward})
    return model


# ---- inputs --------------------------------------------------------------------------------------------------------


def _static(file: OnnxFile, shapes: Shapes) -> list[tuple[Input, tuple[int, ...]]]:
    """Returns every input with concrete sizes; an open first dimension becomes 1."""
    given = {_plain(name): sizes for name, sizes in shapes.items()}
    unknown = [name for name in shapes if _plain(name) not in {_plain(one.name) for one in file.graph.inputs}]
    if unknown:
        names = ", ".join(one.name for one in file.graph.inputs)
        raise CortadoError(f"{file.path} has no input '{unknown[0]}'; its inputs are {names}")
    return [(one, _sizes(file, one, given.get(_plain(one.name)))) for one in file.graph.inputs]


def _sizes(file: OnnxFile, one: Input, given: Sequence[int] | None) -> tuple[int, ...]:
    sizes = _given_sizes(file, one, given)
    file.budget.where = f"{file.path}: input '{one.name}'"
    file.budget.check(sizes)
    return sizes


def _given_sizes(file: OnnxFile, one: Input, given: Sequence[int] | None) -> tuple[int, ...]:
    shown = ",".join("?" if size is None else str(size) for size in one.sizes)
    if given is None:
        sizes = tuple(1 if number == 0 and not isinstance(size, int) else size for number, size in enumerate(one.sizes))
        if any(not isinstance(size, int) for size in sizes):
            raise CortadoError(
                f"{file.path}: input '{one.name}' has the shape [{shown}], expected numbers; give them with "
                f"--shape {one.name}=1,... (in Python: shapes={{'{one.name}': (1, ...)}})"
            )
        return tuple(int(size) for size in sizes if isinstance(size, int))
    fits = len(given) == len(one.sizes) and all(
        not isinstance(size, int) or size == new for size, new in zip(one.sizes, given, strict=False)
    )
    if (one.sizes and not fits) or any(size < 1 for size in given):
        raise CortadoError(f"{file.path}: input '{one.name}' has the shape [{shown}], but {list(given)} was given")
    return tuple(given)


def _example(one: Input, sizes: tuple[int, ...]) -> Tensor:
    """Returns random real numbers, the same every time; zeros for integers, which may be indices."""
    if one.dtype.is_floating_point:
        return torch.rand(sizes, generator=torch.Generator().manual_seed(0)) * 2 - 1
    return torch.zeros(sizes, dtype=one.dtype)
