"""Features that meet: pairs and triples of what a model is, what it computes in, what is made of it, and who asks it.

A combination is a form of model, an element or a way in, a product and a door. All pairs are drawn equally often; sizes
follow from a seed.
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random


class Form(StrEnum):
    """What a model takes and gives."""

    PLAIN = "plain"
    STATE = "state"
    ROW_STREAM = "stream of rows"
    SAMPLE_STREAM = "stream of samples"
    ROWS = "rows in"
    CAMERA = "camera"
    DECISION = "decision"
    SEVERAL = "several outputs"
    IDS = "ids in"
    TRUTH = "truth out"
    METHODS = "methods"
    WATCHED = "watched"


class Way(StrEnum):
    """What it computes in, or in which form it comes."""

    INT8 = "int8"
    INT16 = "int16"
    MIXED = "mixed"
    INT4 = "int4"
    PREQUANTIZED = "prequantized"
    ONNX = "ONNX"
    PT2 = ".pt2"
    FLOAT32 = "float32"
    ISLANDS = "--float32"
    ALLOWED = "--allow-float"


class Product(StrEnum):
    """What is made of it."""

    C = "C"
    IMAGE = "image"
    CLASSIC = "classic .pte"
    DELEGATE = "delegate"
    TOGETHER = "together"
    MEMORY = "--memory"
    ARDUINO = "arduino"
    CMAKE = "cmake"
    CMSIS_PACK = "cmsis-pack"
    PICO = "pico"
    PLATFORMIO = "platformio"
    ZEPHYR = "zephyr"
    WEB = "web"


class Door(StrEnum):
    """Who is asked for a figure or a verdict."""

    HOST = "run host"
    WASM = "run wasm"
    BOARD = "board"
    PROBE = "probe"
    PROFILE = "profile"
    VALIDATE = "validate"
    EVALUATE = "evaluate"
    SELFTEST = "self-test"
    SATURATION = "saturation"
    ESTIMATE = "estimate"
    PAGE = "report page"
    EXAMPLE = "README example"
    SAVED = "saved state"


PACKAGES = (
    Product.ARDUINO,
    Product.CMAKE,
    Product.CMSIS_PACK,
    Product.PICO,
    Product.PLATFORMIO,
    Product.WEB,
    Product.ZEPHYR,
)
AXES: tuple[type[StrEnum], ...] = (Form, Way, Product, Door)
Pair = tuple[StrEnum, StrEnum]


@dataclass(frozen=True)
class Build:
    """A model that was compiled; the doors of several combinations share it."""

    form: Form
    way: Way
    product: Product
    seed: int

    def __str__(self) -> str:
        return f"{self.form}, {self.way}, {self.product}, seed {self.seed}"


@dataclass(frozen=True)
class Combination:
    build: Build
    door: Door

    def __str__(self) -> str:
        return f"{self.build}: {self.door}"

    @property
    def values(self) -> tuple[StrEnum, ...]:
        return self.build.form, self.build.way, self.build.product, self.door

    @property
    def pairs(self) -> Iterator[Pair]:
        return itertools.combinations(self.values, 2)


def drawn(count: int, seed: int, doors: int = 4) -> list[Combination]:
    """Combinations whose pairs come about equally often, each build asked by `doors` doors: the least seen of a few
    random ones is taken each time."""
    rng, seen = Random(seed), Counter[Pair]()
    found: list[Combination] = []
    while len(found) < count:
        builds = [
            Build(rng.choice(list(Form)), rng.choice(list(Way)), rng.choice(list(Product)), rng.randrange(1 << 30))
            for _ in range(24)
        ]
        best = min(builds, key=lambda one: sum(seen[pair] for pair in Combination(one, Door.HOST).pairs))
        left = list(Door)
        rng.shuffle(left)
        left.sort(key=lambda door: sum(seen[pair] for pair in Combination(best, door).pairs))
        for door in left[: min(doors, count - len(found))]:
            found.append(Combination(best, door))
            seen.update(found[-1].pairs)
    return found


def every_pair() -> list[Pair]:
    return [
        (first, second)
        for one, other in itertools.combinations(AXES, 2)
        for first, second in itertools.product(one, other)
    ]


def least_seen(combinations: Sequence[Combination]) -> tuple[int, Pair]:
    """The pair of values that came least often, and how often."""
    seen = Counter(pair for one in combinations for pair in one.pairs)
    rarest = min(every_pair(), key=lambda pair: seen[pair])
    return seen[rarest], rarest
