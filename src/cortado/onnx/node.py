"""A node of an ONNX graph as its builder sees it, and the registry of builders.

A builder turns one node into a torch module: it knows the shapes of all inputs, and the values of constant ones.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import torch

from cortado.base.errors import CortadoError

Tensor = torch.Tensor
ML = "ai.onnx.ml"
_SHOWN = 40


@dataclass(frozen=True)
class OnnxValue:
    """An input of a node: its shape and dtype, and its data if it is constant."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    data: Tensor | None = None

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def is_real(self) -> bool:
        return self.dtype.is_floating_point


@dataclass(frozen=True)
class Node:
    """A node: its operator, attributes and inputs, and its location."""

    kind: str
    name: str
    file: str
    opset: int
    attributes: Mapping[str, Any]
    inputs: tuple[OnnxValue | None, ...]
    outputs: int
    """Counted up to the last one that is read."""
    declared_outputs: int
    domain: str = ""

    @property
    def where(self) -> str:
        return f"node '{self.name[:_SHOWN]}' ({self.kind}) of {self.file}"

    def refuse(self, found: str, expected: str) -> NoReturn:
        raise CortadoError(f"{self.where}: {found}, expected {expected}")

    # ---- attributes

    def number(self, name: str, default: float) -> float:
        return float(self._attribute(name, default))

    def numbers(self, name: str, default: Sequence[float] | None = None) -> list[float]:
        return [float(one) for one in self._attribute(name, default)]

    def integer(self, name: str, default: int | None = None) -> int:
        return int(self._attribute(name, default))

    def integers(self, name: str, default: Sequence[int] | None = None) -> list[int]:
        return [int(one) for one in self._attribute(name, default)]

    def text(self, name: str, default: str) -> str:
        return _decoded(self._attribute(name, default))

    def texts(self, name: str) -> list[str]:
        return [_decoded(one) for one in self.attributes.get(name, ())]

    def flag(self, name: str, default: bool = False) -> bool:
        return bool(self.integer(name, int(default)))

    def _attribute(self, name: str, default: Any) -> Any:
        """Returns an attribute whose type `rules.check` has verified."""
        found = self.attributes.get(name, default)
        if found is None:
            self.refuse(f"it has no attribute '{name}'", "one")
        return found

    # ---- inputs

    def has(self, position: int) -> bool:
        return position < len(self.inputs) and self.inputs[position] is not None

    def value(self, position: int = 0) -> OnnxValue:
        if not self.has(position):
            self.refuse(f"input {position} is missing", "a tensor")
        found = self.inputs[position]
        assert found is not None
        return found

    def shape(self, position: int = 0) -> tuple[int, ...]:
        return self.value(position).shape

    def rank(self, position: int = 0) -> int:
        return self.value(position).rank

    def constant(self, position: int) -> Tensor:
        """Returns the data of an input that must be constant."""
        data = self.value(position).data
        if data is None:
            self.refuse(f"input {position} is computed from the model's inputs", "a constant")
        return data

    def constants(self, position: int) -> list[int]:
        """Returns the data of a constant input as integers."""
        return [int(one) for one in self.constant(position).reshape(-1).tolist()]

    def scalar(self, position: int) -> float:
        data = self.constant(position)
        if data.numel() != 1:
            self.refuse(f"input {position} holds {data.numel()} numbers", "one")
        if math.isnan(data.item()):
            self.refuse(f"input {position} is not a number (NaN)", "a number")
        return float(data.item())

    def either(self, attribute: str, position: int, default: Sequence[int] | None = None) -> list[int] | None:
        """Returns integers that are an attribute in old opsets and an input in newer ones."""
        if attribute in self.attributes:
            return self.integers(attribute)
        if self.has(position):
            return self.constants(position)
        return None if default is None else list(default)

    def axis(self, number: int, rank: int | None = None) -> int:
        """Returns a dimension counted from the front."""
        size = self.rank() if rank is None else rank
        if not -size <= number < size:
            self.refuse(f"axis {number} of a tensor of rank {size}", f"one from {-size} to {size - 1}")
        return number % size

    def axes(self, numbers: Sequence[int], rank: int | None = None) -> list[int]:
        return [self.axis(one, rank) for one in numbers]


def _decoded(text: str | bytes) -> str:
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else text


class FunctionModule(torch.nn.Module):
    """A module that calls a function of tensors."""

    def __init__(self, call: Callable[..., Any]) -> None:
        super().__init__()
        self.call = call

    def forward(self, *given: Tensor) -> Any:
        return self.call(*given)


class Quantizing(FunctionModule):
    """A call that quantizes or dequantizes. It is never folded, even for constants, because it carries their scale."""


@dataclass(frozen=True)
class Built:
    """A module, and the inputs of the node that it reads at run time; the others are built in."""

    module: torch.nn.Module
    operands: tuple[int, ...]


def of(call: Callable[..., Any], *operands: int) -> Built:
    """Builds a function of these inputs of the node; by default, of the first."""
    module = call if isinstance(call, torch.nn.Module) else FunctionModule(call)
    return Built(module, operands or (0,))


def always(value: Tensor) -> Built:
    """Builds a constant."""
    return Built(FunctionModule(lambda: value), ())


Builder = Callable[[Node], Built]


@dataclass(frozen=True)
class Registered:
    """The builder of an operator, and what `rules.check` requires of its nodes.

    `limits` is what a user reads in docs/onnx.md. `least` holds the smallest integers of attributes, `among` the texts
    that an attribute may hold, `infinite` the attributes that may hold infinities.
    """

    build: Builder
    limits: str = ""
    domains: tuple[str, ...] = ("",)
    least: Mapping[str, int] = field(default_factory=dict)
    among: Mapping[str, Sequence[str]] = field(default_factory=dict)
    infinite: Sequence[str] = ()


REGISTRY: dict[str, Registered] = {}  # filled by the modules of builders: see rules.registered


def onnx_operator(*kinds: str, **declared: Any) -> Callable[[Builder], Builder]:
    """Registers the builder of these ONNX operators, with the fields of `Registered`."""

    def register(build: Builder) -> Builder:
        for kind in kinds:
            if kind in REGISTRY:
                raise AssertionError(f"two builders of {kind}")
            REGISTRY[kind] = Registered(build, **declared)
        return build

    return register
