"""Whether calibration ever makes it worse: the default beside min-max without correction, output by output.

python benchmarks/calibration.py [--kinds zoo,user,random] [--random 60] [--values 600] [--page]

The integer reference on data that calibration has not seen, in decibels beside the float model: the zoo, the networks
of tests/networks/test_user_networks.py, and random ones (benchmarks/architectures.py). Ends with 1 if an output of the
default keeps less than min-max does, by more than 0.5 dB. --page writes the figures to calibration.json.
"""

import argparse
import json
import math
import sys
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import import_module

import torch

from _common import FOLDER, progress, table
from architectures import draw

sys.path += [str(FOLDER.parent / "tests"), str(FOLDER.parent / "tests" / "networks")]


from cortado.api import Model, lowered, prepare
from cortado.artifact.build_report import calibrated_report
from cortado.artifact.summary import chosen_ranges
from cortado.base.errors import CortadoError
from cortado.base.target import ANY
from cortado.frontend.noise import decibels
from cortado.models import zoo
from cortado.options import DEFAULTS, CalibrationMethod, Options
from cortado.plan.lowered import lowered_graph, reference_outputs

Tensor = torch.Tensor
Inputs = tuple[Tensor, ...]
NETWORKS, network = (getattr(import_module("test_user_networks"), name) for name in ("NETWORKS", "network"))
RESULTS = FOLDER / "calibration.json"
WAYS = {
    "min-max": Options(calibration_method=CalibrationMethod.MINMAX, bias_correction=False),
    "default": DEFAULTS,
}
BORNE = 0.5  # dB that the default may keep less than min-max
CALIBRATION = 64  # inputs of networks that have none of their own
FRESH = 64  # samples at least, of a network that is not large
LARGE = 20_000_000  # values times samples that the reference computes of one network, at most
MOST = 640  # samples that are drawn


@dataclass(frozen=True)
class Case:
    """A network, data to calibrate with, and other data."""

    name: str
    kind: str
    module: torch.nn.Module
    calibration: list[Inputs]
    fresh: list[Inputs]


@dataclass(frozen=True)
class Row:
    """One output: what each way keeps of it, in dB, and what the default chose."""

    name: str
    kind: str
    output: int
    kept: dict[str, float]
    chosen: str

    @property
    def gain(self) -> float:
        return self.kept["default"] - self.kept["min-max"]


def zoo_cases(samples: int) -> Iterator[Case]:
    for name in zoo.names():
        one = zoo.get(name)
        drawn = one.test_set()[0][:samples].split(1) if one.trained else [x for (x,) in one.calibration(samples, 1)]
        yield Case(name, "zoo", one.build(), one.own_calibration(), [(x,) for x in drawn])


def user_cases(samples: int) -> Iterator[Case]:
    for name in NETWORKS:
        module, inputs = network(name, CALIBRATION + samples)
        yield Case(name, "user", module, inputs[:CALIBRATION], inputs[CALIBRATION:])


def random_cases(count: int, samples: int) -> Iterator[Case]:
    for seed in range(count):
        drawn = draw(seed)
        rng = torch.Generator().manual_seed(seed)
        inputs = [
            tuple(torch.rand(x.shape, generator=rng) * 2 - 1 for x in drawn.example)
            for _ in range(CALIBRATION + samples)
        ]
        yield Case(f"random {seed}", "random", drawn.module, inputs[:CALIBRATION], inputs[CALIBRATION:])


def outputs_of(module: torch.nn.Module, inputs: Inputs) -> list[Tensor]:
    with torch.no_grad():
        found = module(*inputs)
    return [found] if isinstance(found, Tensor) else list(found)


def kept(case: Case, model: Model, values: int) -> list[float]:
    """The decibels of each output, over so many values of each, as a bounded time allows."""
    graph = lowered_graph(lowered(model.quantized, ANY, DEFAULTS))
    size = sum(math.prod(value.shape) for value in graph.values.values())
    needed = max(values // math.prod(graph.values[name].shape) for name in graph.outputs)
    fresh = case.fresh[: max(16, min(LARGE // size, max(needed, FRESH)))]
    pairs = [zip(outputs_of(case.module, one), reference_outputs(graph, one), strict=True) for one in fresh]
    return [decibels(output) for output in zip(*pairs, strict=True)]


def measure(case: Case, values: int) -> list[Row]:
    found: dict[str, list[float]] = {}
    chosen = ""
    for way, options in WAYS.items():
        model = prepare(case.module, case.calibration[0], case.calibration, "net", options=options)
        found[way] = kept(case, model, values)
        if options is DEFAULTS:
            assert model.quantized.choice is not None
            chosen = chosen_ranges(calibrated_report(model.quantized.choice))
    return [
        Row(case.name, case.kind, place, {way: round(kept[place], 2) for way, kept in found.items()}, chosen)
        for place in range(len(found["default"]))
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", default="zoo,user,random")
    parser.add_argument("--random", type=int, default=60)
    parser.add_argument("--values", type=int, default=600, help="of each output, that are compared at least")
    parser.add_argument("--page", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    cases = {
        "zoo": zoo_cases(MOST),
        "user": user_cases(MOST),
        "random": random_cases(arguments.random, MOST),
    }
    rows: list[Row] = []
    for kind in arguments.kinds.split(","):
        for case in cases[kind]:
            try:
                rows += measure(case, arguments.values)
            except CortadoError as error:
                progress(f"{case.name}: refused ({str(error).splitlines()[0]})")
                continue
            progress(f"{rows[-1].name}: {rows[-1].kept}, {rows[-1].chosen}")
    shown = [(row.name, row.output, *row.kept.values(), row.gain, row.chosen) for row in rows]
    print(table(("network", "output", *WAYS, "gain", "chosen"), shown))
    worst = min(rows, key=lambda row: row.gain)
    gains = [row.gain for row in rows]
    print(f"{len(rows)} outputs: the default has {sum(gains) / len(gains):+.2f} dB beside min-max on average, ", end="")
    print(f"{worst.gain:+.2f} dB at the worst ({worst.name})")
    if arguments.page:
        RESULTS.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    return int(worst.gain < -BORNE)


if __name__ == "__main__":
    raise SystemExit(main())
