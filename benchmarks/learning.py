"""Measures learning on the device beside what it is to reach: steps of gradients, taught words, and surprise.

    python benchmarks/learning.py [--only gradients|examples|watch] [--on host] [--episodes 2]
        [--targets cortex-m4,...] [--features 64] [--classes 12] [--calibration 400]
        [--microamps 100] [--volts 3.0]

gradients: one linear layer; a step is forward, cross entropy, backward, clip, momentum and decay of one example.
examples: examples/teach on the emulated board, or with `--on host` in the same bits on this machine.
watch: ds_cnn with `--watch pool`, calibrated with keywords; keywords of unheard voices beside other sounds
(watched_sounds.npz, which training/watched_sounds.py made).

Energy is cycles * microamps per megahertz * volts: those of your chip's data sheet while it runs from flash.
The exit code is 1 where something misses its bar.
"""

import argparse
import json
import logging
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

import cortado
from _common import FOLDER, table
from cortado import Options
from cortado.artifact.folder import METHODS
from cortado.artifact.opened import Artifact
from cortado.frontend.capture.watched import SURPRISE
from cortado.learning import SGD, trainable
from cortado.methods import CompiledMethods, compile_methods
from cortado.models import zoo
from cortado.profile import profile
from cortado.scoring.metrics import auc

sys.path.insert(0, str(FOLDER.parent / "examples" / "teach"))
import teach

logging.disable(logging.ERROR)
EXAMPLES = 32
PARTS = ("gradients", "examples", "watch")


@dataclass(frozen=True)
class Bar:
    """A figure beside what it is to reach: at least, or at most where `most`."""

    name: str
    value: float
    bar: float
    most: bool = False

    @property
    def holds(self) -> bool:
        return self.value <= self.bar if self.most else self.value >= self.bar

    @property
    def row(self) -> tuple[str, str, str, str]:
        sign = "<=" if self.most else ">="
        return self.name, _number(self.value), f"{sign} {_number(self.bar)}", "yes" if self.holds else "NO"


@dataclass(frozen=True)
class Supply:
    """What a chip draws while it computes."""

    microamps: float  # for each megahertz
    volts: float

    def microjoules(self, cycles: float) -> str:
        return f"{cycles * self.microamps * self.volts / 1e6:,.3g}"


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.3f}"


# ---- by gradients --------------------------------------------------------------------------------------------------


def compiled_head(features: int, classes: int, target: str) -> CompiledMethods:
    """A linear head alone, which learns from its features."""
    torch.manual_seed(0)
    inputs, hot = torch.randn(EXAMPLES, features), torch.eye(classes)
    optimizer = SGD(lr=0.05, momentum=0.9, weight_decay=1e-3, clip=1.0)
    head = nn.Sequential(nn.Linear(features, classes))
    taught = trainable(head, "0.*", optimizer=optimizer, examples=(inputs[:1],), target=hot[:1])
    targets = [hot[at % classes][None] for at in range(EXAMPLES)]
    calls = taught.calls([(one[None],) for one in inputs], targets)
    return compile_methods(taught, taught.methods(), target, calls, name="head")


@dataclass(frozen=True)
class Step:
    """A step of the optimizer on a core."""

    target: str
    cycles: int  # by the model that `cortado profile` has
    beside: int  # bytes of the arena beside parameters and momentum
    bit_exact: bool


def step_of(features: int, classes: int, target: str) -> Step:
    compiled = compiled_head(features, classes, target)
    planned = compiled.planned["learn"]
    kept = sum(state.tensor.bytes for state in planned.program.state)
    with tempfile.TemporaryDirectory() as folder:
        compiled.save(Path(folder) / "head")
        artifact = Artifact.open(Path(folder) / "head" / METHODS / "learn")
        found = profile(artifact, [artifact.example()])
    cycles = round(found.timing.total.cycles.typical)
    return Step(target, cycles, planned.plan.peak - kept, found.bit_exact)


def gradients(arguments: argparse.Namespace, supply: Supply) -> Iterator[Bar]:
    steps = [step_of(arguments.features, arguments.classes, target) for target in arguments.targets.split(",")]
    header = ("step of a head", "cycles", "microjoules", "bytes beside state", "bit-exact")
    rows = [(one.target, one.cycles, supply.microjoules(one.cycles), one.beside, str(one.bit_exact)) for one in steps]
    print(table(header, rows))
    for one in steps:
        if one.target == "cortex-m4":
            yield Bar("cycles of a step, Cortex-M4", one.cycles, 20_000, most=True)
            yield Bar("bytes of RAM beside parameters and momentum", one.beside, 2048, most=True)


# ---- by examples ---------------------------------------------------------------------------------------------------


def examples(arguments: argparse.Namespace, supply: Supply) -> Iterator[Bar]:
    with tempfile.TemporaryDirectory() as folder:
        voices = ("several", "one")
        several, one = (teach.measure(f"{folder}/{who}", who, arguments.on, arguments.episodes) for who in voices)
        facts = json.loads((Path(folder) / "one" / "together.json").read_text())
    rows = [(name, f"{several[name]:.3f}", f"{one[name]:.3f}") for name in teach.FIGURES]
    print(table(("taught by", "several voices", "one voice"), rows))
    cycles = {name: method["cycles"] for name, method in facts["methods"].items()}
    print(f"\n{facts['arena_bytes']:,} bytes of RAM, of which {sum(facts['state'].values()):,} state")
    print(table(("call", "cycles", "microjoules"), [(k, v, supply.microjoules(v)) for k, v in cycles.items()]))
    for who, found in (("several voices", several), ("one voice", one)):
        near, computer, heard, offline, _, now, before = (found[name] for name in teach.FIGURES)
        yield Bar(f"closed set beside offline, {who}", near / computer, 0.95)
        yield Bar(f"open set beside offline, {who}", heard / offline, 0.85)
        yield Bar(f"old words beside before, {who}", now / before, 1.0)


# ---- surprise ------------------------------------------------------------------------------------------------------


def watch(arguments: argparse.Namespace, supply: Supply) -> Iterator[Bar]:
    with np.load(FOLDER / "watched_sounds.npz", allow_pickle=False) as stored:
        x, group = stored["codes"].astype(np.float32) * stored["scale"], stored["group"]
    network = zoo.get("ds_cnn").build()
    calibration = torch.from_numpy(x[group == "calibration"][: arguments.calibration])
    options = Options(watch="pool", artifacts="c")
    compiled = cortado.compile(network, (calibration[:1],), "cortex-m4", calibration, "watched", options)
    fresh = group != "calibration"
    surprise = compiled.run(x[fresh], on="host").outputs[-1].reshape(-1)
    found = {str(name): surprise[group[fresh] == name] for name in np.unique(group[fresh])}
    known = found.pop("keywords")
    rows = []
    for name, other in found.items():
        labels = np.arange(len(known) + len(other)) >= len(known)
        score = auc(np.concatenate([known, other]), labels.astype(int))
        rows.append((name, f"{score:.3f}", f"{(other > 1).mean():.3f}"))
    print(table(("surprise", "AUC", "above the limit"), [*rows, ("keywords", "", f"{(known > 1).mean():.3f}")]))
    with tempfile.TemporaryDirectory() as folder:
        artifact = compiled.save(folder)
        timed = profile(artifact, [artifact.example()])
    whole = timed.timing.total.cycles.typical
    own = sum(one.spent.cycles.typical for one in timed.layers if (one.report.module or "").startswith(SURPRISE))
    print(f"{own:,.0f} of {whole:,.0f} cycles, {supply.microjoules(own)} of {supply.microjoules(whole)} microjoules")
    for name, reached, _ in rows:
        yield Bar(f"AUC of {name} against keywords of unheard voices", float(reached), 0.9)
    yield Bar("share of the cycles of ds_cnn", own / (whole - own), 0.02, most=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--on", choices=("board", "host"), default="board")
    parser.add_argument("--episodes", type=int, default=teach.EPISODES)
    parser.add_argument("--targets", default="cortex-m4,cortex-m7,cortex-m33,cortex-m55")
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--classes", type=int, default=12)
    parser.add_argument("--calibration", type=int, default=400, help="keywords that --watch is calibrated with")
    parser.add_argument("--microamps", type=float, default=100.0, help="for each megahertz")
    parser.add_argument("--volts", type=float, default=3.0)
    arguments = parser.parse_args()
    supply = Supply(arguments.microamps, arguments.volts)
    bars: list[Bar] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for part, measured in zip(PARTS, (gradients, examples, watch), strict=True):
            if arguments.only in (None, part):
                bars += list(measured(arguments, supply))
                print()
    print(table(("figure", "found", "bar", "holds"), [one.row for one in bars]))
    raise SystemExit(0 if all(one.holds for one in bars) else 1)


if __name__ == "__main__":
    main()
