"""What --precision auto expects of new data beside what new data keep, on networks and data that are drawn.

Data have heavy tails, levels that differ by 30 dB, or are sorted by classes; of 32 to 64 samples ranges are taken, and
four times as many new ones are judged. Which tensors are int16 is drawn too: the estimate is what is looked at.

With --above, the search itself chooses, for a bar so many dB above what int8 keeps of the calibration data.

python benchmarks/new_data.py [--networks 36] [--first 93000] [--above 6] [--json]
"""

import argparse
import random
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from _common import collected, print_records
from cortado.api import Model, prepare
from cortado.frontend.precision.judgement import FloatRun, decibels
from cortado.frontend.precision.search import Attempts, Bar, Mixed, Noise, Tensors
from cortado.frontend.quantize.convert import MixedWork
from cortado.options import Artifacts, CalibrationMethod, Options, Precision
from cortado.plan.pricing import references

TARGET = "cortex-m4"
NETWORKS = ("mlp", "conv", "conv1d", "gru", "res", "join", "sq")
DATA = ("normal", "heavy", "sorted", "heavy", "levels")
CLASSES = 8
Samples = list[tuple[Tensor]]


@dataclass(frozen=True)
class Row:
    """Decibels of the output that keeps least."""

    seed: int
    network: str
    data: str
    samples: int
    method: str
    calibration: float
    expected: float
    new: float
    bar: float = 0.0
    told: bool = False  # that new data miss the bar


class Drawn(nn.Module):
    """A network of a kind, with drawn sizes, functions and weights."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        rng = random.Random(seed)
        torch.manual_seed(seed)
        self.kind = NETWORKS[seed % len(NETWORKS)]
        self.function = rng.choice([torch.relu, torch.tanh, nn.functional.gelu, torch.relu])
        width, self.outputs = rng.choice([16, 24, 32]), rng.choice([3, 5, 10])
        self.end = rng.choice(["none", "softmax", "sigmoid", "none"])
        self.shape = self._build(rng, width)
        with torch.no_grad():
            for weights in self.parameters():
                if weights.dim() > 1:
                    weights.mul_(rng.uniform(1, 2))

    def _build(self, rng: random.Random, width: int) -> tuple[int, ...]:
        """Makes the layers and returns the sizes of an input."""
        if self.kind in ("conv", "res"):
            depth = rng.choice([1, 2, 3])
            self.layers = nn.ModuleList(nn.Conv2d(8 if layer else 2, 8, 3, padding=1) for layer in range(depth))
            self.last = nn.Linear(8, self.outputs)
            return 1, 2, 10, 10
        if self.kind == "conv1d":
            self.layers = nn.ModuleList(nn.Conv1d(8 if layer else 3, 8, 5, padding=2) for layer in range(2))
            self.last = nn.Linear(8, self.outputs)
            return 1, 3, 40
        if self.kind == "gru":
            self.cells, self.last = nn.GRU(6, width, batch_first=True), nn.Linear(width, self.outputs)
            return 1, 8, 6
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(rng.choice([1, 2, 3])))
        self.last, self.beside = nn.Linear(width, self.outputs), nn.Linear(width, 2)
        return 1, width

    def forward(self, x: Tensor) -> Tensor:
        hidden = self._hidden(x)
        scores = self.last(hidden)
        scores = torch.softmax(scores, 1) if self.end == "softmax" else scores
        scores = torch.sigmoid(scores) if self.end == "sigmoid" else scores
        return torch.cat([scores, 3 * self.beside(hidden)], 1) if self.kind == "join" else scores

    def _hidden(self, x: Tensor) -> Tensor:
        if self.kind == "gru":
            return self.cells(x)[0][:, -1]
        for number, layer in enumerate(self.layers):
            made = self.function(layer(x))
            x = x + made if self.kind == "res" and number else made
        if self.kind == "sq":
            return x * x
        if x.dim() == 4:
            return x.amax((2, 3)) if self.outputs == 5 else x.mean((2, 3))
        return x.mean(2) if x.dim() == 3 else x

    @property
    def parts(self) -> list[slice]:
        return [slice(self.outputs), slice(self.outputs, None)] if self.kind == "join" else [slice(None)]


class DrawnChoice:
    """Some tensors in int16, in place of a search."""

    rng = random.Random()

    def __init__(self, tensors: Tensors, noise: Noise, attempts: Attempts, bar: Bar) -> None:
        self._tensors, self._attempts = tensors, attempts

    def choose(self) -> Mixed:
        every, drawn = self._tensors.open.values(), self.rng.random()
        chosen = frozenset[str]()
        if drawn >= 0.4:
            chosen = chosen.union(*(calls for calls in every if drawn < 0.6 or self.rng.random() < 0.5))
        return Mixed(chosen, (), "", f"{self._attempts.confirm(chosen)} dB", "", (0, 0))


def samples(seed: int, shape: tuple[int, ...], count: int, kind: str) -> Samples:
    """The classes of a network's data are the same for all its seeds, which differ by thousands."""
    rng, fixed = torch.Generator().manual_seed(seed), torch.Generator().manual_seed(seed % 1000)
    centers = torch.randn(CLASSES, *shape, generator=fixed)
    loud, found = torch.rand(CLASSES, generator=fixed) * 3 + 0.2, Samples()
    for number in range(count):
        one = torch.randn(shape, generator=rng)
        if kind == "heavy":  # Student's t of three degrees of freedom, at levels of their own
            squares = [torch.randn(shape, generator=rng) for _ in range(4)]
            one = squares[0] / sum(part.square() for part in squares[1:]).div(3).sqrt()  # type: ignore[union-attr]
            one = one * float(torch.exp(torch.randn(1, generator=rng) * 0.7))
        elif kind == "levels":
            one = one * 10 ** float(torch.rand(1, generator=rng) * 1.5 - 1)
        elif kind == "sorted":
            place = number * CLASSES // count
            one = loud[place] * (centers[place] + 0.5 * one)
        found.append((one,))
    return found


def measured(seed: int, above: float | None) -> Row:
    rng, model, kind = random.Random(seed * 7 + 1), Drawn(seed).eval(), DATA[seed % len(DATA)]
    count = rng.choice([32, 48, 64])
    data = samples(seed, model.shape, count, kind)
    new = samples(seed + 10**9, model.shape, 4 * count, kind)
    method = rng.choice([*[CalibrationMethod.AUTO] * 3, CalibrationMethod.MINMAX, CalibrationMethod.MSE])
    DrawnChoice.rng = random.Random(seed)
    int8, bar = Options(artifacts=Artifacts.C, calibration_method=method), 0.0
    if above is not None:
        bar = round(kept(prepare(model, data[0], data, "drawn", options=int8, target=TARGET), model, data) + above, 1)
    made = prepare(
        model, data[0], data, "drawn", options=replace(int8, precision=Precision.AUTO, min_sqnr=bar), target=TARGET
    )
    mixed = made.quantized.mixed
    assert mixed is not None
    calibration, expected = (float(str(one).split()[0]) for one in (mixed.reached, mixed.new))
    found, told = round(kept(made, model, new), 1), bool(mixed.findings)
    return Row(seed, model.kind, kind, count, method.value, round(calibration, 1), expected, found, bar, told)


def kept(made: Model, model: Drawn, data: Samples) -> float:
    """Decibels of the output, or part of it, that keeps least."""
    graph = made.compile(TARGET, Options(artifacts=Artifacts.C)).graph
    assert graph is not None
    found = list(references(graph, [FloatRun(one, (), number) for number, one in enumerate(data)]))
    with torch.no_grad():
        pairs = [(model(*one), values[graph.outputs[0]]) for one, values in zip(data, found, strict=True)]
    return min(decibels([(a[:, part], b[:, part]) for a, b in pairs]) for part in model.parts)


def rows(first: int, count: int, above: float | None) -> Iterator[Row]:
    for seed in range(first, first + count):
        yield measured(seed, above)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", type=int, default=36)
    parser.add_argument("--first", type=int, default=93_000)
    parser.add_argument("--above", type=float, metavar="DB")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    if arguments.above is None:
        MixedWork.search = DrawnChoice  # type: ignore[assignment]
    found = collected(rows(arguments.first, arguments.networks, arguments.above))
    print_records(found, arguments.json)
    less = sum(row.new < row.calibration for row in found)
    over = [row for row in found if row.new < row.expected]
    if not arguments.json:
        print(f"{less} of {len(found)} keep less of new data than of calibration data, {len(over)} less than expected")
        missed = [row for row in found if row.new < row.bar]
        print(f"{len(missed)} keep less of new data than the bar, {sum(row.told for row in missed)} with a warning")


if __name__ == "__main__":
    main()
