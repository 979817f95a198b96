"""Networks measured step by step: what kernels and row loop have to do, beside the cycles that a profile gives them."""

import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

import operator_samples
from architectures import draw
from cortado.base.target import CortexMTargetConfig, from_target_string
from cortado.exploring import Sketch, board_flow, prepared, sketch
from cortado.models import zoo
from cortado.options import Activations, Artifacts, Optimize, Options, Weights
from cortado.plan.planned import jobs_of, loop_of
from cortado.run.board import build_firmware, find_board
from cortado.run.elf import load_image
from cortado.run.harness import run_harness
from cortado.run.runner import Flown
from cortado.run.stack import disassemble
from cortado.run.watch import Watch, skipped_ranges
from cortado.timing.work import MeasuredWork, Part
from single_layers import (
    draw_biased,
    draw_cells,
    draw_floats,
    draw_layers,
    draw_matrices,
    draw_means,
    draw_multiplied,
    draw_ordinary,
    draw_products,
    draw_rare,
    draw_sounds,
    draw_transposed,
    draw_wide,
    draw_windows,
)

Inputs = tuple[torch.Tensor, ...]
TESTS = Path(__file__).parent.parent / "tests"
DRAWN = {
    **{"a": draw, "b": draw_biased, "d": draw_products, "l": draw_layers, "r": draw_rare, "w": draw_wide},
    **{"x": draw_layers, "y": draw_wide, "z": draw_layers, "q": draw_wide},
    **{"c": draw_floats, "u": draw_floats, "i": draw_windows, "j": draw_windows, "k": draw_cells, "m": draw_ordinary},
    **{"S": draw_means, "T": draw_means, "M": draw_multiplied, "P": draw_matrices, "D": draw_transposed},
    "A": draw_sounds,
    "I": draw_windows,
}
# Of 16-bit codes, with 4-bit weights, of float32, streams.
OPTIONS: dict[str, dict[str, Any]] = {
    **{kind: {"activations": Activations.INT16, "artifacts": Artifacts.C} for kind in "xyj"},
    **{kind: {"weights": Weights.INT4, "artifacts": Artifacts.C} for kind in "zqi"},
    "I": {"weights": Weights.INT4, "weight_group": 32, "artifacts": Artifacts.C},
    "c": {"activations": Activations.FLOAT32, "weights": Weights.FLOAT32, "artifacts": Artifacts.C},
    **{kind: {"activations": Activations.FLOAT32, "artifacts": Artifacts.C} for kind in "um"},
    "S": {"stream": 2, "artifacts": Artifacts.C},
    "T": {"stream": 2, "activations": Activations.INT16, "artifacts": Artifacts.C},
}


# Of a network of the zoo, behind its name: ds_cnn:float32.
ZOO_OPTIONS = {"float32": OPTIONS["c"], "float32-int8": OPTIONS["u"]}


def options_of(name: str) -> dict[str, Any]:
    """What a network is compiled with beside the defaults."""
    _, colon, kind = name.partition(":")
    if colon:
        return ZOO_OPTIONS[kind]
    return OPTIONS.get(name[0], {}) if name[1:].isdecimal() else {}


def build(name: str) -> tuple[torch.nn.Module, Inputs]:
    """A network by name: of the zoo, an architecture (a12), layers (l12, d12, w12, b12, r12, x12, y12, z12), the
    campaign's (f12)."""
    name = name.partition(":")[0]
    if name in zoo.names():
        network = zoo.get(name)
        return network.build(), network.example_inputs()
    seed = int(name[1:])
    if name[0] in DRAWN:
        drawn = DRAWN[name[0]](seed)
        return drawn.module, drawn.example
    if str(TESTS) not in sys.path:
        sys.path.insert(0, str(TESTS))
    from fuzz.draw import draw_recipe
    from fuzz.network import Network

    recipe = draw_recipe(seed)
    return Network(recipe), recipe.batches(1)[0]


def measure(name: str, targets: Sequence[str], optimize: Optimize = Optimize.BALANCED) -> Iterator[dict[str, Any]]:
    """For each target: jobs with their cycles, the row loop with its own, the sum of all."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        draw = sketcher(name, optimize)
        for alike in same_code([from_target_string(target) for target in targets]):
            found = draw(alike[0])
            flown = board_flow(found)
            for target in alike:
                line = {"network": name, "target": target.target_string, "optimize": optimize.value}
                yield {**line, **_measured(found, flown.work(target.cpu))}


def sketcher(name: str, optimize: Optimize) -> Callable[[CortexMTargetConfig], Sketch]:
    """A network for one target after the other; o12 is calls of every operator, v12 and e12 of some of them."""
    if name[0] in operator_samples.FAMILIES and name[1:].isdecimal():
        cases = operator_samples.draw_calls(int(name[1:]), operator_samples.FAMILIES[name[0]])
        return lambda target: operator_samples.sketch_of(cases, target)
    options = Options(optimize=optimize, **options_of(name))
    model = prepared(*build(name), options)
    return lambda target: sketch(model, target, options)


def same_code(targets: Iterable[CortexMTargetConfig]) -> list[list[CortexMTargetConfig]]:
    """Those that have the same kernels and compiler flags: one run tells the time of each of them."""
    found: dict[Any, list[CortexMTargetConfig]] = defaultdict(list)
    for target in targets:
        found[target.cores, target.compiler_flags()].append(target)
    return list(found.values())


def _measured(found: Sketch, work: MeasuredWork) -> dict[str, Any]:
    jobs = jobs_of(found.planned, max(found.planned.program.cores), found.values)
    loop = _cycles(work, Part.ROWS)
    operators = [step.operator for step in found.planned.program.steps]
    steps = [
        {
            **asdict(job),
            "operator": operators[number],
            "cycles": work.step(number).cycles.typical - _cycles(work, Part.ROWS, number),
        }
        for number, job in enumerate(jobs)
        if job is not None
    ]
    total = work.total.cycles.typical
    rest = total - loop - sum(step["cycles"] for step in steps)
    return {"jobs": steps, "loop": asdict(loop_of(found.planned)), "loop_cycles": loop, "rest": rest, "cycles": total}


def _cycles(work: MeasuredWork, part: Part, step: int | None = None) -> float:
    numbers = work.steps if step is None else [step]
    return sum(work.steps[n][part].cycles.typical for n in numbers if n in work.steps and part in work.steps[n])


def calls_work(
    target: CortexMTargetConfig, sources: Sequence[Path], folders: Sequence[Path], flags: Sequence[str], count: int
) -> MeasuredWork:
    """What each of `count` calls takes in a program of its own for the board's harness, which marks them as steps."""
    board = find_board(target.machine)
    elf = build_firmware(board, sources, folders, [*target.compiler_flags(), *flags], "calls")
    done = run_harness(elf, board, b"", 1, plugin=Watch(count=True, order=tuple(range(count))))
    assert done.flow is not None
    return Flown(done.flow, disassemble(elf, target.cpu), skipped_ranges(load_image(elf))).work(target.cpu)
