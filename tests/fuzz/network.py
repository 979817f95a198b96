"""The nn.Module that a recipe stands for, and recipes with layers left out."""

import warnings
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from fuzz.blocks import BLOCKS
from fuzz.recipe import Call, Layer, Recipe, Shape, Tensor


class Builder:
    """Makes the modules of a network in order; their weights depend on the recipe's seed and the layer's number."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.modules: list[nn.Module] = []

    def build(self, layer: Layer, shape: Shape) -> nn.Module:
        if layer.shared is not None:
            return self.modules[layer.shared]
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(1000 * self.seed + len(self.modules))  # of the CPU alone
            made = BLOCKS[layer.block].make(shape, **layer.options)
        module = made if isinstance(made, nn.Module) else Call(made)
        return module.eval()

    def add(self, module: nn.Module) -> None:
        self.modules.append(module)


class Network(nn.Module):
    """A recipe as a model."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        self.recipe = recipe
        builder = Builder(recipe.seed)
        values: list[Tensor] = [torch.zeros(shape) for shape in recipe.inputs]
        with torch.no_grad():
            for layer in recipe.layers:
                module = builder.build(layer, tuple(values[layer.sources[0]].shape))
                builder.add(module)
                values += results_of(module(*(values[source] for source in layer.sources)))
        self.layers = nn.ModuleList(builder.modules)
        self.eval()

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        values = list(inputs)
        for layer, module in zip(self.recipe.layers, self.layers, strict=True):
            values += results_of(module(*(values[source] for source in layer.sources)))
        return tuple(values[output] for output in self.recipe.outputs)


def results_of(result: Any) -> list[Tensor]:
    return list(result) if isinstance(result, tuple | list) else [result]


def eager(network: nn.Module, inputs: Sequence[Tensor]) -> list[Tensor]:
    """What torch computes: on copies, since a network may write into its inputs; copied, since outputs may be one
    memory."""
    with torch.no_grad(), plain_kernels():
        return [value.clone() for value in network(*(value.clone() for value in inputs))]


@contextmanager
def plain_kernels() -> Iterator[None]:
    """Without oneDNN, whose transposed convolution is wrong where no tap reaches an output pixel."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the switch itself warns of settings that nobody made
        with torch.backends.mkldnn.flags(enabled=False):
            yield


# ---- leaving out ---------------------------------------------------------------------------------------------------


def first_values(recipe: Recipe) -> list[int]:
    """The number of every layer's first result."""
    numbers, number = [], len(recipe.inputs)
    for layer in recipe.layers:
        numbers.append(number)
        number += layer.results
    return numbers


def writes(layer: Layer) -> bool:
    return BLOCKS[layer.block].writes


def needed_layers(recipe: Recipe) -> set[int]:
    """The layers that an output depends on, and those whose modules such layers share. A write counts where its source
    does: others may see the memory."""
    needed = set(recipe.outputs)
    kept: set[int] = set()
    numbers = first_values(recipe)
    for position in reversed(range(len(recipe.layers))):
        layer, first = recipe.layers[position], numbers[position]
        made = range(first, first + layer.results)
        if position in kept or needed.intersection(made) or (writes(layer) and layer.sources[0] in needed):
            kept.update([position] if layer.shared is None else [position, layer.shared])
            needed.update(layer.sources)
    return kept


def pruned(recipe: Recipe) -> Recipe:
    """Without the inputs and layers that no output needs."""
    kept = needed_layers(recipe)
    numbers = first_values(recipe)
    layers = [
        Numbered(layer, range(numbers[position], numbers[position] + layer.results), position)
        for position, layer in enumerate(recipe.layers)
        if position in kept
    ]
    return assembled(dict(enumerate(recipe.inputs)), layers, recipe.outputs, recipe.seed)


@dataclass(frozen=True)
class Numbered:
    """A layer whose sources and results have any numbers, and the position that others know it by."""

    layer: Layer
    results: Sequence[int]
    position: int


def assembled(inputs: Mapping[int, Shape], layers: Sequence[Numbered], outputs: Sequence[int], seed: int) -> Recipe:
    """A recipe of layers with any numbers, without the inputs that nobody reads."""
    read = {source for item in layers for source in item.layer.sources} | set(outputs)
    inputs = {number: shape for number, shape in inputs.items() if number in read}
    value = {old: new for new, old in enumerate([*inputs, *(number for item in layers for number in item.results)])}
    place = {item.position: new for new, item in enumerate(layers)}
    made = [
        replace(
            item.layer,
            sources=tuple(value[source] for source in item.layer.sources),
            shared=place.get(item.layer.shared) if item.layer.shared is not None else None,
        )
        for item in layers
    ]
    return Recipe(tuple(inputs.values()), tuple(made), tuple(value[output] for output in outputs), seed)


def without_layers(recipe: Recipe, positions: Container[int]) -> Recipe | None:
    """Their results are inputs instead; None if no layer is left, or no output."""
    left = pruned(cut(recipe, positions, value_shapes(recipe)))
    made = range(len(left.inputs), len(left.inputs) + sum(layer.results for layer in left.layers))
    outputs = tuple(output for output in left.outputs if output in made)
    return replace(left, outputs=outputs) if outputs else None


def cut(recipe: Recipe, positions: Container[int], shapes: Sequence[Shape]) -> Recipe:
    gone = [item for item in numbered(recipe) if item.position in positions]
    inputs = dict(enumerate(recipe.inputs)) | {number: shapes[number] for item in gone for number in item.results}
    left = [item for item in numbered(recipe) if item.position not in positions]
    return assembled(inputs, left, recipe.outputs, recipe.seed)


def numbered(recipe: Recipe) -> list[Numbered]:
    numbers = first_values(recipe)
    return [
        Numbered(layer, range(numbers[position], numbers[position] + layer.results), position)
        for position, layer in enumerate(recipe.layers)
    ]


def value_shapes(recipe: Recipe) -> list[Shape]:
    values = [torch.zeros(shape) for shape in recipe.inputs]
    with torch.no_grad():
        for layer, module in zip(recipe.layers, Network(recipe).layers, strict=True):
            values += results_of(module(*(values[source] for source in layer.sources)))
    return [tuple(value.shape) for value in values]
