"""Whether calibration ever makes it worse: the default beside min-max without correction, output by output.

python benchmarks/calibration.py [--kinds zoo,user,random] [--random 60] [--values 600] [--into calibration.json]

The integer reference on data that calibration has not seen, in decibels beside the float model: the zoo, the networks
of tests/networks/test_user_networks.py, and random ones (benchmarks/architectures.py). Beside them least squares with
all biases corrected, the default before ways were compared. Ends with 1 if an output of the default keeps less
than min-max does, by more than 0.5 dB. --into keeps what is done: started again, it goes on with what is missing.
benchmarks/accuracy.py --page shows the figures of benchmarks/calibration.json.
"""

import argparse
import json
import math
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path

import torch

from _common import FOLDER, progress, table
from architectures import draw

sys.path += [str(FOLDER.parent / "tests"), str(FOLDER.parent / "tests" / "networks")]


from cortado.api import Model, prepare
from cortado.artifact.build_report import calibrated_report
from cortado.artifact.summary import chosen_ranges
from cortado.base.errors import CortadoError
from cortado.base.target import ANY
from cortado.frontend.precision.judgement import decibels
from cortado.models import zoo
from cortado.ops.io.quantize import DEQUANTIZE
from cortado.options import DEFAULTS, CalibrationMethod, Options
from cortado.plan.lowered import LoweredGraph, ends_of, lowered_graph, run_reference
from cortado.plan.pricing import lowered

Tensor = torch.Tensor
Inputs = tuple[Tensor, ...]
NETWORKS, network = (getattr(import_module("test_user_networks"), name) for name in ("NETWORKS", "network"))
WAYS = {
    "min-max": Options(calibration_method=CalibrationMethod.MINMAX, bias_correction=False),
    "before": Options(calibration_method=CalibrationMethod.MSE),
    "default": DEFAULTS,
}
BORNE = 0.5  # dB that the default may keep less than min-max
CALIBRATION = 64  # inputs of networks that have none of their own
FRESH = 48  # samples at least, of a network that is not large
LARGE = 8_000_000  # values times samples that the reference computes of one network, at most
FEWEST = 6  # samples, of any network
MOST = 300  # samples that are drawn


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
    saturated: dict[str, float]  # the part of the output's values that are at an end of its range, in percent
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


def kept(case: Case, model: Model, values: int) -> list[tuple[float, float]]:
    """Of each output the decibels, and the percentage at an end of its range; over as many values as time allows."""
    graph = lowered_graph(lowered(model.quantized, ANY, DEFAULTS))
    size = sum(math.prod(value.shape) for value in graph.values.values())
    needed = max(values // math.prod(graph.values[name].shape) for name in graph.outputs)
    fresh = case.fresh[: max(FEWEST, min(LARGE // size, max(needed, FRESH)))]
    runs = [run_reference(graph, one) for one in fresh]
    wanted = [outputs_of(case.module, one) for one in fresh]
    return [
        (
            decibels([(own[place], run[name]) for own, run in zip(wanted, runs, strict=True)]),
            _at_ends(graph, name, runs),
        )
        for place, name in enumerate(graph.outputs)
    ]


def _at_ends(graph: LoweredGraph, name: str, runs: Sequence[Mapping[str, Tensor]]) -> float:
    call = graph.by_name.get(name)
    codes = call.refs("input")[0] if call is not None and call.operator == DEQUANTIZE.name else name
    ends = ends_of(graph.values[codes].qparams)
    if ends is None:
        return 0.0
    return 100 * sum(ends.count(run[codes]) for run in runs) / sum(run[codes].numel() for run in runs)


def measure(case: Case, values: int) -> list[Row]:
    found: dict[str, list[tuple[float, float]]] = {}
    chosen = ""
    for way, options in WAYS.items():
        model = prepare(case.module, case.calibration[0], case.calibration, "net", options=options)
        found[way] = kept(case, model, values)
        if options is DEFAULTS:
            choice = calibrated_report(model.quantized.choice)
            assert choice is not None
            chosen = chosen_ranges(choice)
    return [
        Row(
            case.name,
            case.kind,
            place,
            {way: round(of_way[place][0], 2) for way, of_way in found.items()},
            {way: round(of_way[place][1], 4) for way, of_way in found.items()},
            chosen,
        )
        for place in range(len(found["default"]))
    ]


def known(into: Path | None) -> list[Row]:
    """What was measured before."""
    return [Row(**row) for row in json.loads(into.read_text())] if into is not None and into.is_file() else []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", default="zoo,user,random")
    parser.add_argument("--random", type=int, default=60)
    parser.add_argument("--values", type=int, default=600, help="of each output, that are compared at least")
    parser.add_argument("--into", type=Path, metavar="FILE.json", help="where rows are kept")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    cases = {
        "zoo": zoo_cases(MOST),
        "user": user_cases(MOST),
        "random": random_cases(arguments.random, MOST),
    }
    rows = known(arguments.into)
    done = {row.name for row in rows}
    for kind in arguments.kinds.split(","):
        for case in cases[kind]:
            if case.name in done:
                continue
            try:
                rows += measure(case, arguments.values)
            except CortadoError as error:
                progress(f"{case.name}: refused ({str(error).splitlines()[0]})")
                continue
            progress(f"{rows[-1].name}: {rows[-1].kept}, {rows[-1].chosen}")
            if arguments.into is not None:
                arguments.into.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    shown = [(row.name, row.output, *row.kept.values(), row.gain, row.chosen) for row in rows]
    print(table(("network", "output", *WAYS, "gain", "chosen"), shown))
    worst = min(rows, key=lambda row: row.gain)
    gains = [row.gain for row in rows]
    print(f"{len(rows)} outputs: the default has {sum(gains) / len(gains):+.2f} dB beside min-max on average, ", end="")
    print(f"{worst.gain:+.2f} dB at the worst ({worst.name})")
    return int(worst.gain < -BORNE)


if __name__ == "__main__":
    raise SystemExit(main())
