"""Whole networks in int8, int16, float32, in what --precision auto chooses and with int4 weights: what each keeps and
takes.

    python benchmarks/precision_networks.py [--networks ds_cnn,kws_gru] [--target cortex-m4] [--samples 200]
        [--kinds 'int8;float32'] [--json]

Networks of the zoo are scored on the samples that ship with them; the two with state that a user wrote are calibrated
on one sequence of 64 steps and scored on ten fresh ones of 200 steps. The bar of `auto` lies half way from what int8
keeps of these samples to what int16 keeps. Cycles are those of the table of costs; constants and code are flash.
docs/precision.md shows what --json has printed into precision_networks.json beside this file (`make golden`).
"""

import argparse
import re
import sys
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from _common import collected, print_records, score_of
from cortado import api
from cortado.base.errors import CortadoError
from cortado.compiled import Compiled
from cortado.models import zoo
from cortado.options import Artifacts, Options

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from helpers.feedback import FEEDBACK

HALF_WAY = "auto, half way"
SEQUENCE, STEPS, SEQUENCES = 64, 200, 10
KINDS: Mapping[str, dict[str, Any]] = {
    "int8": {"state": "int8"},
    "int8, state int16": {},
    "int16": {"activations": "int16"},
    HALF_WAY: {"precision": "auto"},
    "float32": {"activations": "float32", "weights": "float32"},
    "float32, int8 weights": {"activations": "float32"},
    "int4 weights": {"weights": "int4", "weight_group": 32, "state": "int8"},
}


STATEFUL = ("echo_state", "selective_scan")
TRAINED = ("ds_cnn", "kws_stream", "kws_gru", "resnet8", "deep_autoencoder", "ecg_conv1d", "imu_lstm", "mobilenet_tiny")
NETWORKS = (*TRAINED, *STATEFUL)


@dataclass(frozen=True)
class Row:
    """A network with one kind of elements; `why` says what is missing."""

    network: str
    kind: str
    score: float | None = None
    sqnr_db: float | None = None
    ram: int | None = None
    flash: int | None = None
    cycles: int | None = None
    why: str = ""
    bar: float | None = None  # dB
    seconds: float | None = None  # of the compile's own CPU time


def row_of(network: str, kind: str, compiled: Compiled, score: float | None, sqnr_db: float | None) -> Row:
    report = compiled.report
    assert report.memory is not None
    assert report.flash is not None
    cycles = [layer.estimated_cycles for layer in report.layers]
    return Row(
        network,
        kind,
        score,
        sqnr_db,
        report.memory.arena_bytes,
        report.flash.weights_bytes + (report.flash.code_bytes or 0),
        None if None in cycles else sum(one for one in cycles if one is not None),
    )


def of_zoo(name: str, kind: str, given: Mapping[str, Any], target: str, samples: int) -> Row:
    network = zoo.get(name)
    module, (inputs, labels) = network.build(), network.test_set()
    started = time.process_time()
    compiled = api.compile(
        module,
        network.example_inputs(),
        target,
        network.own_calibration(),
        name=name,
        options=Options(artifacts=Artifacts.C, **given),
    )
    seconds = time.process_time() - started
    found = compiled.evaluate(inputs[:samples], labels[:samples], model=module, reconstruction=network.rebuilds)
    row = row_of(name, kind, compiled, score_of(found), found.sqnr_db)
    return replace(row, bar=given.get("min_sqnr"), seconds=round(seconds, 1))


def of_state(name: str, kind: str, given: Mapping[str, Any], target: str) -> Row:
    network = FEEDBACK[name]
    module, steps = network.model(), network.sequence(SEQUENCE, seed=1)
    options = Options(artifacts=Artifacts.C, **given)
    started = time.process_time()
    compiled = api.compile(module, (steps[:1],), target, [(one[None],) for one in steps], name=name, options=options)
    seconds = time.process_time() - started
    fresh = torch.cat([network.sequence(STEPS, seed=100 + number) for number in range(SEQUENCES)])
    found = compiled.evaluate(fresh.numpy(), model=module, sequence=STEPS)
    row = row_of(name, kind, compiled, None, found.sqnr_db)
    return replace(row, bar=given.get("min_sqnr"), seconds=round(seconds, 1))


def rows(name: str, target: str, samples: int, kinds: Collection[str]) -> Iterator[Row]:
    kept: list[float] = []
    for kind in kinds:
        if kind == "int8, state int16" and name not in STATEFUL:
            continue
        given = dict(KINDS[kind])
        if kind == HALF_WAY:
            given["min_sqnr"] = round((min(kept) + max(kept)) / 2, 1)
        try:
            row = (
                of_state(name, kind, given, target) if name in STATEFUL else of_zoo(name, kind, given, target, samples)
            )
        except CortadoError as error:
            row = Row(name, kind, why=_short(str(error)), bar=given.get("min_sqnr"))
        kept += [] if row.sqnr_db is None or kind.startswith("float32") else [row.sqnr_db]
        yield row


def _short(error: str) -> str:
    """Of a bar that is out of reach, what was reached."""
    reached = re.search(r"out of reach: (.*?) with all", error)
    return error if reached is None else f"out of reach: {reached[1]}"


def markdown(found: list[Row]) -> str:
    lines = ["| network | | score | signal to noise | RAM | flash | cycles |", "|---|---|---|---|---|---|---|"]
    for number, row in enumerate(found):
        name = row.network if number == 0 or found[number - 1].network != row.network else ""
        figures = [f"{one:,}" if one is not None else "-" for one in (row.ram, row.flash, row.cycles)]
        kept = row.why or ("-" if row.sqnr_db is None else f"{row.sqnr_db:.1f} dB")
        kind = row.kind if row.bar is None else f"{row.kind}: {row.bar:g} dB"
        lines.append(f"| {name} | {kind} | {'' if row.score is None else f'{row.score:.3f}'} | {kept} | "
                     + " | ".join(figures) + " |")  # fmt: skip
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--target", default="cortex-m4")
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument(
        "--kinds", default=";".join(KINDS), help="separated by ';'; auto needs int8 and int16 before it"
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--markdown", action="store_true")
    arguments = parser.parse_args()
    names = arguments.networks.split(",")
    kinds = arguments.kinds.split(";")
    found = collected(row for name in names for row in rows(name, arguments.target, arguments.samples, kinds))
    if arguments.markdown:
        print(markdown(found))
    else:
        print_records(found, arguments.json)


if __name__ == "__main__":
    main()
