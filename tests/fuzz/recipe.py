"""A random network as plain data, and the nn.Module that the data stand for.

A recipe's repr is Python: `Network(recipe)` is the network again, weights included. Values are numbered: first the
inputs, then the results of the layers in order. Every layer may read any earlier value, so branches cross and values
are used again. A layer may also write into a value, or give a view of one: then the same memory has several names, and
what the network computes is what torch computes when it runs it, no more and no less.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import torch
from torch import nn

Tensor = torch.Tensor
Shape = tuple[int, ...]
Options = Mapping[str, Any]


@dataclass(frozen=True)
class Layer:
    """One building block on earlier values; with `shared`, the very module that an earlier layer calls."""

    block: str
    sources: tuple[int, ...]
    options: Options = field(default_factory=dict)
    results: int = 1
    shared: int | None = None


@dataclass(frozen=True)
class Recipe:
    inputs: tuple[Shape, ...]
    layers: tuple[Layer, ...]
    outputs: tuple[int, ...]
    seed: int  # of the weights and of the data

    def batches(self, count: int, scale: float = 1.0, seed: int = 0) -> list[tuple[Tensor, ...]]:
        """Normally distributed inputs."""
        rng = torch.Generator().manual_seed(1000 * self.seed + seed)
        return [tuple(scale * torch.randn(shape, generator=rng) for shape in self.inputs) for _ in range(count)]


@dataclass(frozen=True)
class Block:
    """A building block: which values one takes, how its options are drawn, what it is."""

    fits: Callable[..., bool]  # of the shapes of its sources
    draw: Callable[[Random, Shape], Options]  # the options, for the first source's shape
    make: Callable[..., Callable[..., Any]]  # that shape and the options -> a module or a function
    sources: int = 1
    writes: bool = False  # into its first source
    weight: float = 1.0  # how often it is drawn
    wild: bool = False  # Cortado may refuse it


class Call(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *values: Tensor) -> Any:
        return self.function(*values)
