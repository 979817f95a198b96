"""Draws networks. A network is run while it is drawn, so that every layer is known to work on what it gets and to
leave something behind: not too big, finite, and not all the same."""

import math
from dataclasses import dataclass, field, replace
from random import Random

import torch
from torch import nn

from fuzz.blocks import BLOCKS, IN_C_ALONE
from fuzz.choices import MOST_ELEMENTS, MOST_RANK, SIZES, one_of
from fuzz.network import Builder, pruned, results_of
from fuzz.recipe import Block, Layer, Recipe, Shape, Tensor

FEWEST, MOST = 20, 60  # layers that stay when those are gone that no output needs
NAMES = list(BLOCKS)
WILD = [block.weight for block in BLOCKS.values()]
TAME = [0.0 if block.wild else block.weight for block in BLOCKS.values()]
PLAIN = [0.0 if name in IN_C_ALONE else weight for name, weight in zip(NAMES, TAME, strict=True)]
_ATTEMPTS = 400  # layers that are tried for one network


def draw_recipe(seed: int, fewest: int = FEWEST, most: int = MOST) -> Recipe:
    """The network of a seed. Three of four are tame: they write only where nobody else sees it. Of those, two of three
    are plain: most of what they do has a place in a .pte."""
    rng = Random(seed)
    wanted = round(rng.triangular(fewest, most + 10, fewest))  # some of the layers will be needed by no output
    return Drawing(rng, seed, wild=rng.random() < 0.25, plain=rng.random() < 0.67).draw(fewest, wanted)


@dataclass
class Drawing:
    """A network that grows."""

    rng: Random
    seed: int
    wild: bool  # writes go anywhere, into views and inputs too
    plain: bool  # nothing that no .pte has, unless it is wild
    inputs: list[Shape] = field(default_factory=list)
    values: list[Tensor] = field(default_factory=list)
    layers: list[Layer] = field(default_factory=list)
    unread: set[int] = field(default_factory=set)

    def draw(self, fewest: int, wanted: int) -> Recipe:
        """Grows until so many layers are there, and then until the fewest of them are needed."""
        builder = Builder(self.seed)
        data = torch.Generator().manual_seed(self.seed)
        for _ in range(one_of(self.rng, 1, 1, 2, 3)):
            self.inputs.append(draw_input(self.rng))
            self.values.append(torch.randn(self.inputs[-1], generator=data))
        self.unread = set(range(len(self.inputs)))
        recipe = Recipe((), (), (), self.seed)
        with torch.no_grad():
            for _ in range(_ATTEMPTS):
                grown = self._grow(builder)
                if grown and len(self.layers) >= wanted:
                    recipe = pruned(Recipe(tuple(self.inputs), tuple(self.layers), self._outputs(), self.seed))
                    if len(recipe.layers) >= fewest:
                        break
        return recipe

    def _outputs(self) -> tuple[int, ...]:
        """What nobody has read, the last first; sometimes an inner value, an input, or one value twice."""
        ends = sorted(self.unread, reverse=True)[: self.rng.randint(1, 5)] or [len(self.values) - 1]
        if self.rng.random() < 0.25:
            ends.append(self.rng.randrange(len(self.inputs), len(self.values)) if self.layers else 0)
        if self.rng.random() < 0.08:
            ends.append(self.rng.randrange(len(self.inputs)))
        if self.rng.random() < 0.04:
            ends.append(ends[0])
        return tuple(ends)

    # ---- one layer -------------------------------------------------------------------------------------------------

    def _grow(self, builder: Builder) -> bool:
        """Whether what was drawn is a layer more."""
        drawn = self._shared() if self.layers and self.rng.random() < 0.05 else self._fresh()
        if drawn is None:
            return False
        sources = [self.values[source] for source in drawn.sources]
        memory = sources[0].untyped_storage()
        before = memory.clone() if BLOCKS[drawn.block].writes else None
        try:
            module = builder.build(drawn, tuple(sources[0].shape))
            made = results_of(module(*sources))
        except (RuntimeError, ValueError, IndexError):  # torch refuses it: then it is no network
            made = []
        if made and all(map(sound, made)):
            self._add(builder, module, drawn, made)
            return True
        if before is not None:
            memory.copy_(before)
        return False

    def _add(self, builder: Builder, module: nn.Module, drawn: Layer, made: list[Tensor]) -> None:
        builder.add(module)
        first = len(self.values)
        self.values += made
        self.layers.append(Layer(drawn.block, drawn.sources, drawn.options, len(made), drawn.shared))
        self.unread = self.unread.difference(drawn.sources).union(range(first, len(self.values)))

    def _fresh(self) -> Layer | None:
        (name,) = self.rng.choices(NAMES, WILD if self.wild else PLAIN if self.plain else TAME)
        sources = self._sources(BLOCKS[name])
        if sources is None:
            return None
        return Layer(name, sources, BLOCKS[name].draw(self.rng, tuple(self.values[sources[0]].shape)))

    def _shared(self) -> Layer | None:
        """An earlier layer's module, on another value of the same shape."""
        position = self.rng.randrange(len(self.layers))
        earlier = self.layers[position]
        shape = self.values[earlier.sources[0]].shape
        others = [n for n, value in enumerate(self.values) if value.shape == shape and n != earlier.sources[0]]
        if not others or len(earlier.sources) > 1 or BLOCKS[earlier.block].writes or earlier.shared is not None:
            return None
        return Layer(earlier.block, (self.rng.choice(others),), earlier.options, shared=position)

    def _sources(self, block: Block) -> tuple[int, ...] | None:
        """Values that a block takes; most often what nobody has read, so that networks grow deep."""
        numbers = self._likely()
        shapes = {number: tuple(self.values[number].shape) for number in numbers}
        firsts = [n for n in numbers if not block.writes or self._may_write(n)]
        if block.sources == 1:
            return next(((n,) for n in firsts if block.fits(shapes[n])), None)
        pairs = ((a, b) for a in firsts for b in numbers if a != b and block.fits(shapes[a], shapes[b]))
        return next(pairs, None)

    def _likely(self) -> list[int]:
        """All values in a random order, unread and late ones mostly first."""
        last = len(self.values)

        def rank(number: int) -> float:
            eager = 8.0 if number in self.unread else 1.0
            return self.rng.random() ** (1 / (eager * (1 + number / last)))

        return sorted(range(last), key=rank, reverse=True)

    def _may_write(self, number: int) -> bool:
        """Tame networks write only into memory that has one name, and never into an input."""
        value = self.values[number]
        if self.wild:
            return True
        shared = [other for other in self.values if same_memory(other, value)]
        whole = all(o.shape == value.shape and o.stride() == value.stride() for o in shared)
        is_input = any(same_memory(self.values[n], value) for n in range(len(self.inputs)))
        return whole and not is_input and value.numel() == value.untyped_storage().nbytes() // value.element_size()


def same_memory(a: Tensor, b: Tensor) -> bool:
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def sound(value: Tensor) -> bool:
    """Neither too big, nor flat, nor out of the range in which layers do something."""
    if not (0 < value.numel() <= MOST_ELEMENTS and 0 <= value.dim() <= MOST_RANK and value.dtype == torch.float32):
        return False
    largest = value.abs().max().item()
    return math.isfinite(largest) and 0.02 < largest < 100 and (value.numel() == 1 or value.std().item() > 0.005)


def draw_input(rng: Random) -> Shape:
    """Mostly images; everything from vectors to five dimensions too."""
    dims, batch = one_of(rng, 4, 4, 4, 4, 4, 3, 3, 2, 1, 5), one_of(rng, 1, 1, 1, 1, 1, 2, 3)
    shape = (batch, *(rng.choice(SIZES) for _ in range(dims - 1)))
    if dims == 1:
        return (rng.choice(SIZES[:-2]),)
    while math.prod(shape) > MOST_ELEMENTS // 2:
        shape = (*shape[:2], *((size + 1) // 2 for size in shape[2:]))
    return shape


# ---- one of each ---------------------------------------------------------------------------------------------------

SHAPES: tuple[Shape, ...] = ((1, 4, 6, 8), (2, 4, 6), (4, 6), (6,), (1, 2, 3, 4, 2), (1, 4, 4, 4), (2, 4, 4))


MANY = {
    "upsample": 40,
    "upsample_linear": 16,
    "parts": 20,
    "reflect": 24,
    "dropout": 6,
    "alias": 8,
    "batch_norm": 5,
    "layer_norm": 5,
}


def draw_all(seed: int) -> Recipe:
    """A network with every tame block, each on inputs of its own, all of them outputs."""
    rng = Random(seed)
    inputs: list[Shape] = []
    layers: list[Layer] = []
    for name, block in BLOCKS.items():
        for shapes in [] if block.wild or block.writes else _fitting(block, rng)[: MANY.get(name, 1)]:
            sources = tuple(range(len(inputs), len(inputs) + block.sources))
            layer = Layer(name, sources, block.draw(rng, shapes[0]))
            results = _results(layer, shapes, seed)
            if results:
                inputs += shapes
                layers.append(replace(layer, results=results))
    shift = len(inputs)
    return Recipe(
        tuple(inputs), tuple(layers), tuple(range(shift, shift + sum(layer.results for layer in layers))), seed
    )


def _fitting(block: Block, rng: Random) -> list[tuple[Shape, ...]]:
    """Shapes that a block takes, in a random order, several times each."""
    found = [(shape,) * block.sources for shape in SHAPES if block.fits(*(shape,) * block.sources)] * 20
    return rng.sample(found, k=len(found))


def _results(layer: Layer, shapes: tuple[Shape, ...], seed: int) -> int:
    """How many; none if torch refuses it."""
    try:
        with torch.no_grad():
            return len(results_of(Builder(seed).build(layer, shapes[0])(*(torch.randn(shape) for shape in shapes))))
    except (RuntimeError, ValueError, IndexError):
        return 0
