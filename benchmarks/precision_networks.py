"""Whole networks in int8, in int16, in what --precision auto chooses and with int4 weights: what each keeps and takes.

    python benchmarks/precision_networks.py [--networks ds_cnn,kws_gru] [--target cortex-m4] [--samples 200] [--json]

Networks of the zoo are scored on the samples that ship with them; the two with state that a user wrote are calibrated
on one sequence of 64 steps and scored on ten fresh ones of 200 steps. Cycles are those of the table of costs; constants
and code are flash. --markdown prints the table of docs/precision.md.
"""

import argparse
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from _common import collected, print_records, score_of
from cortado import api
from cortado.base.errors import CortadoError
from cortado.compiled import Compiled
from cortado.models import zoo
from cortado.options import Options

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from helpers.feedback import FEEDBACK

BAR = 35.0  # dB
SEQUENCE, STEPS, SEQUENCES = 64, 200, 10
KINDS: Mapping[str, dict[str, Any]] = {
    "int8": {"state": "int8"},
    "int8, state int16": {},
    "int16": {"activations": "int16"},
    f"auto, {BAR:g} dB": {"precision": "auto", "min_sqnr": BAR},
    "int4 weights": {"weights": "int4", "weight_group": 32, "state": "int8"},
}


STATEFUL = ("echo_state", "selective_scan")
NETWORKS = ("ds_cnn", "resnet8", "deep_autoencoder", "kws_gru", *STATEFUL)


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


def of_zoo(name: str, kind: str, target: str, samples: int) -> Row:
    network = zoo.get(name)
    module, (inputs, labels) = network.build(), network.test_set()
    compiled = api.compile(
        module,
        network.example_inputs(),
        target,
        network.own_calibration(),
        name=name,
        options=Options(artifacts="c", **KINDS[kind]),  # type: ignore[arg-type]
    )
    found = compiled.evaluate(inputs[:samples], labels[:samples], model=module, reconstruction=network.rebuilds)
    return row_of(name, kind, compiled, score_of(found), found.sqnr_db)


def of_state(name: str, kind: str, target: str) -> Row:
    network = FEEDBACK[name]
    module, steps = network.model(), network.sequence(SEQUENCE, seed=1)
    options = Options(artifacts="c", **KINDS[kind])  # type: ignore[arg-type]
    compiled = api.compile(module, (steps[:1],), target, [(one[None],) for one in steps], name=name, options=options)
    fresh = torch.cat([network.sequence(STEPS, seed=100 + number) for number in range(SEQUENCES)])
    found = compiled.evaluate(fresh.numpy(), model=module, sequence=STEPS)
    return row_of(name, kind, compiled, None, found.sqnr_db)


def rows(name: str, target: str, samples: int) -> Iterator[Row]:
    for kind in KINDS:
        if kind == "int8, state int16" and name not in STATEFUL:
            continue
        try:
            yield of_state(name, kind, target) if name in STATEFUL else of_zoo(name, kind, target, samples)
        except CortadoError as error:
            yield Row(
                name, kind, why=re.split(r"[:;.] ", f"{error}: ")[1] if "out of reach" in str(error) else str(error)
            )


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
        lines.append(f"| {name} | {row.kind} | {'' if row.score is None else f'{row.score:.3f}'} | {kept} | "
                     + " | ".join(figures) + " |")  # fmt: skip
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--target", default="cortex-m4")
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--markdown", action="store_true")
    arguments = parser.parse_args()
    names = arguments.networks.split(",")
    found = collected(row for name in names for row in rows(name, arguments.target, arguments.samples))
    if arguments.markdown:
        print(markdown(found))
    else:
        print_records(found, arguments.json)


if __name__ == "__main__":
    main()
