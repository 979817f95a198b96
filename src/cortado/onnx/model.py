"""An ONNX graph as a torch module: what depends on no input is computed once, every other node is a module."""

import inspect
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from cortado.base.errors import CortadoError
from cortado.onnx.catalog import registered
from cortado.onnx.files import Input, OnnxFile, Raw, read, undefined
from cortado.onnx.node import Built, Node, OnnxValue, Quantizing

Tensor = torch.Tensor
Shapes = Mapping[str, Sequence[int]]
_NOT_A_NAME = re.compile(r"\W")


class OnnxStep(nn.Module):
    """One node: a module, with the constants among its operands."""

    def __init__(self, module: nn.Module, operands: Sequence[str | Tensor], outputs: Sequence[str]) -> None:
        super().__init__()
        self.module, self.outputs = module, tuple(outputs)
        self.sources = [one if isinstance(one, str) else None for one in operands]
        for number, one in enumerate(operands):
            if not isinstance(one, str):
                self.register_buffer(f"constant{number}", one)

    def forward(self, *given: Tensor) -> Any:
        left = iter(given)
        operands = [
            getattr(self, f"constant{number}") if source is None else next(left)
            for number, source in enumerate(self.sources)
        ]
        return self.module.forward(*operands)  # not a call: the step has the node's name, its module none

    def run(self, values: dict[str, Tensor]) -> None:
        """Adds its outputs to the values by name."""
        found = self(*(values[source] for source in self.sources if source is not None))
        results = found if isinstance(found, tuple) else (found,)
        values.update((name, result) for name, result in zip(self.outputs, results, strict=False) if name)


class OnnxModel(nn.Module):
    """A file as a module: its inputs, in the order of the file, are forward's arguments."""

    example_inputs: tuple[Tensor, ...]

    def __init__(self, file: OnnxFile, shapes: Shapes) -> None:
        super().__init__()
        self.example_inputs = tuple(_example(one, sizes) for one, sizes in _static(file, shapes))
        self.steps: list[str] = []
        self.known: dict[str, Tensor] = dict(file.constants)
        values = {one.name: value for one, value in zip(file.inputs, self.example_inputs, strict=True)}
        reads = _uses(file)
        for raw in file.nodes:
            self._add(file, raw, values, reads)
        self.inputs, self.outputs = tuple(one.name for one in file.inputs), file.outputs
        fixed = {name: self.known[name] for name in file.outputs if name in self.known}
        if len(fixed) == len(file.outputs):
            raise CortadoError(f"{file.path}: its outputs are constants, expected something computed from its inputs")
        self.fixed = fixed
        del self.known

    def _add(self, file: OnnxFile, raw: Raw, values: dict[str, Tensor], reads: Mapping[str, int]) -> None:
        outputs = [name if reads.get(name) else "" for name in raw.outputs]
        if raw.kind == "Constant":
            self.known[raw.outputs[0]] = _constant(file, raw)
            return
        if not any(outputs):
            return
        node = _node(file, raw, values, self.known, outputs)
        built = _built(node)
        operands = [raw.inputs[position] for position in built.operands]
        given: list[str | Tensor] = [self.known.get(name, name) for name in operands]
        step = OnnxStep(built.module, given, outputs).eval()
        constant = all(isinstance(one, Tensor) for one in given) and not isinstance(built.module, Quantizing)
        try:
            with torch.no_grad():
                step.run(self.known if constant else values)
        except (RuntimeError, ValueError, IndexError, TypeError) as error:
            shown = [list(value.shape) if value else None for value in node.inputs]
            text = " ".join(str(error).split())[:200]
            raise CortadoError(f"{node.where}: inputs of shapes {shown} do not fit it ({text})") from error
        if not constant:
            self._place(raw.name, step)

    def _place(self, name: str, step: OnnxStep) -> None:
        """As a module whose path is the node's name: /features/conv1/Conv is features.conv1.Conv."""
        *folders, last = [_NOT_A_NAME.sub("_", part) for part in re.split(r"[/.:]", name) if part] or ["node"]
        place: nn.Module = self
        for folder in folders:
            inner = place._modules.get(f"_{folder}" if hasattr(nn.Module, folder) else folder)
            if isinstance(inner, OnnxStep) or inner is None:
                folder = _free(place, folder)
                inner = nn.Module()
                place.add_module(folder, inner)
            place = inner
        place.add_module(_free(place, last), step)
        self.steps.append(next(path for path, module in self.named_modules() if module is step))

    def forward(self, *given: Tensor) -> Any:
        values = dict(zip(self.inputs, given, strict=True))
        for path in self.steps:
            self.get_submodule(path).run(values)  # type: ignore[operator]
        found = tuple(values[name] if name in values else self.fixed[name] for name in self.outputs)
        return found[0] if len(found) == 1 else found


def _plain(name: str) -> str:
    """The name of an input as Python's, and so the compiled model's, is spelled."""
    found = _NOT_A_NAME.sub("_", name) or "input"
    return found if found.isidentifier() else f"_{found}"


def _free(place: nn.Module, name: str) -> str:
    """A name that nothing in a module has."""
    found, number = name if name and not name[0].isdigit() else f"_{name}", 0
    while hasattr(place, found):
        number += 1
        found = f"{name}_{number}"
    return found


def load_onnx(path: str | Path, shapes: Shapes | None = None) -> OnnxModel:
    """The model of a file. `shapes` gives the sizes of inputs that the file leaves open."""
    file = read(Path(path))
    missing = next(undefined(file), None)
    if missing is not None:
        raise CortadoError(f"{file.path}: '{missing}' is read and nothing defines it; export the model again")
    names = [_plain(one.name) for one in file.inputs]
    model = OnnxModel(file, shapes or {})
    return _with_names(model, names) if len(set(names)) == len(names) else model


def input_names(path: Path) -> list[str]:
    """In the file's own spelling and order."""
    return [one.name for one in read(path).inputs]


def _with_names(model: OnnxModel, names: Sequence[str]) -> OnnxModel:
    """The same with the file's names as the names of forward's arguments."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(name, kind) for name in ("self", *names)]

    def forward(self: OnnxModel, *given: Tensor, **named: Tensor) -> Any:
        bound = signature.bind(self, *given, **named)
        return OnnxModel.forward(self, *list(bound.arguments.values())[1:])

    signature = inspect.Signature(parameters)
    forward.__signature__ = signature  # type: ignore[attr-defined]
    model.__class__ = type("OnnxModel", (OnnxModel,), {"forward": forward})
    return model


# ---- nodes ---------------------------------------------------------------------------------------------------------


def _uses(file: OnnxFile) -> dict[str, int]:
    """How often every value is read, by nodes and by the model's outputs."""
    found: dict[str, int] = {}
    for name in (*(name for node in file.nodes for name in node.inputs), *file.outputs):
        found[name] = found.get(name, 0) + 1
    return found


def _constant(file: OnnxFile, raw: Raw) -> Tensor:
    for name, value in raw.attributes.items():
        if isinstance(value, Tensor):
            return value
        if name in ("value_float", "value_floats"):
            return torch.tensor(value, dtype=torch.float32)
        if name in ("value_int", "value_ints"):
            return torch.tensor(value, dtype=torch.int64)
    found = sorted(raw.attributes)
    raise CortadoError(f"node '{raw.name}' (Constant) of {file.path.name} holds {found}, expected numbers")


def _node(
    file: OnnxFile, raw: Raw, values: Mapping[str, Tensor], known: Mapping[str, Tensor], outputs: list[str]
) -> Node:
    def value(name: str) -> OnnxValue | None:
        if not name:
            return None
        found = known[name] if name in known else values[name]
        return OnnxValue(tuple(found.shape), found.dtype, known.get(name))

    read_outputs = max(number + 1 for number, name in enumerate(outputs) if name)
    return Node(
        kind=raw.kind,
        name=raw.name,
        file=file.path.name,
        opset=file.opset,
        attributes=raw.attributes,
        inputs=tuple(value(name) for name in raw.inputs),
        outputs=read_outputs,
    )


def _built(node: Node) -> Built:
    found = registered().get(node.kind)
    if found is None:
        raise CortadoError(
            f"{node.where}: {node.kind} is not among the {len(registered())} operators of ONNX that are read "
            "(docs/onnx.md); express it in these, or write the model in PyTorch"
        )
    return found.build(node)


# ---- inputs --------------------------------------------------------------------------------------------------------


def _static(file: OnnxFile, shapes: Shapes) -> list[tuple[Input, tuple[int, ...]]]:
    """Every input with its sizes as numbers; a first dimension that is open is 1."""
    given = {_plain(name): sizes for name, sizes in shapes.items()}
    unknown = [name for name in shapes if _plain(name) not in {_plain(one.name) for one in file.inputs}]
    if unknown:
        raise CortadoError(
            f"{file.path} has no input '{unknown[0]}'; its inputs are {', '.join(one.name for one in file.inputs)}"
        )
    return [(one, _sizes(file, one, given.get(_plain(one.name)))) for one in file.inputs]


def _sizes(file: OnnxFile, one: Input, given: Sequence[int] | None) -> tuple[int, ...]:
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
        raise CortadoError(f"{file.path}: input '{one.name}' has the shape [{shown}], which {list(given)} does not fit")
    return tuple(given)


def _example(one: Input, sizes: tuple[int, ...]) -> Tensor:
    """Real numbers by chance, always the same; zeros for integers, which may be positions."""
    if one.dtype.is_floating_point:
        return torch.rand(sizes, generator=torch.Generator().manual_seed(0)) * 2 - 1
    return torch.zeros(sizes, dtype=one.dtype)
