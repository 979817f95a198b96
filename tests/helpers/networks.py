"""The zoo's networks, prepared, lowered and planned once per worker."""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cortado.api import Model, prepare
from cortado.base.regions import WeightPlacement
from cortado.base.target import CortexM, from_target_string
from cortado.emit.c.bundle import emit_c
from cortado.memory.validate import validate
from cortado.models import zoo
from cortado.options import Border, Optimize
from cortado.passes import CortexMPassManager
from cortado.plan import checks
from cortado.plan.lowered import LoweredGraph, lowered_graph, run_reference
from cortado.plan.planned import Planned
from cortado.plan.request import Feeding, program_of
from cortado.plan.schedule import schedule
from cortado.run import runner
from cortado.run.bundle_info import IO, BundleInfo, StoreRules
from helpers.paths import ROOT

BASELINES = json.loads((ROOT / "benchmarks" / "baselines.json").read_text())
MOST_PTE_BYTES = {
    "ds_cnn": 41_500,
    "mobilenet_v1_025": 269_000,
    "resnet8": 95_000,
    "deep_autoencoder": 294_000,
    "mobilenet_v2": 3_720_000,
    "mobilenet_v3_small": 2_722_000,
}
LARGE = ("mobilenet_v2", "mobilenet_v3_small", "unet_small")
TARGETS = tuple(cpu.value for cpu in CortexM)


def networks(names: Sequence[str], slow: Sequence[str] = LARGE) -> list[Any]:
    """Parameters: those of one network on one worker, which prepares it once."""
    return [
        pytest.param(
            name, marks=[pytest.mark.xdist_group(f"network {name}"), *([pytest.mark.slow] if name in slow else [])]
        )
        for name in names
    ]


@cache
def prepared(name: str) -> Model:
    network = zoo.get(name)
    return prepare(network.build(), network.example_inputs(), network.calibration(8), name=name)


def unseen(name: str, count: int) -> list[tuple[torch.Tensor, ...]]:
    """Typical inputs that calibration has not seen: of the test set, or drawn with another seed."""
    network = zoo.get(name)
    if not network.trained:
        return network.calibration(count, seed=99)
    return [(sample,) for sample in network.test_set()[0][:count].split(1)]


def lowered(name: str, target: str) -> torch.export.ExportedProgram:
    return lower(prepared(name), target)


def lower(model: Model, target: str) -> torch.export.ExportedProgram:
    program = model.quantized.program()
    CortexMPassManager(program, target_config=from_target_string(target)).transform()
    return program


@cache
def graph_of(name: str, target: str = "cortex-m55") -> LoweredGraph:
    return lowered_graph(lowered(name, target))


def planned(name: str, target: str, optimize: Optimize, *, input_rows: bool = False) -> Planned:
    """Layers, stages and a memory plan that the independent validator accepts."""
    config = from_target_string(target)
    program = program_of(name, graph_of(name, target), config, Border.INT8, Feeding(rows=input_rows))
    found = schedule(program, optimize)
    validate(found.problem, found.plan)
    return found


SECONDS_PER_INPUT = 300  # MobileNetV2 on an emulated M0+ of a busy machine


def run_bundle(
    folder: Path,
    found: Planned,
    inputs: int,
    on: str | None = None,
    flags: Sequence[str] = (),
    places: Sequence[WeightPlacement] = (),
) -> runner.RunResult:
    """A network's bundle on inputs that calibration has not seen: outputs equal the reference, and on a board no
    kernel call writes where it may not."""
    name, program = found.program.name, found.program
    bundle = emit_c(found, places)
    runner.write_files(folder, bundle.files)
    inputs_in_c, outputs_in_c = (
        tuple(IO(tensor.name, tensor.shape, tensor.dtype) for tensor in group)
        for group in (program.inputs, program.outputs)
    )
    row_bytes = 0 if program.pushed is None else program.pushed.row_bytes
    values = [run_reference(graph_of(name), list(sample)) for sample in unseen(name, inputs)]
    feeds = [[value[tensor.node].numpy() for tensor in program.inputs] for value in values]
    stores = StoreRules.from_json(checks.as_json(found, bundle.calls))
    regions = tuple(region.name for region in found.regions)
    info = BundleInfo(name, program.target, inputs_in_c, outputs_in_c, row_bytes, regions=regions)
    result = runner.run_bundle(
        folder,
        info,
        feeds,
        on,
        count=False,
        flags=flags,
        stores=stores,
        limits=runner.RunLimits(SECONDS_PER_INPUT * inputs),
    )
    for value, outputs in zip(values, result.samples, strict=True):
        for tensor, output in zip(program.outputs, outputs, strict=True):
            np.testing.assert_array_equal(output, value[tensor.node].numpy())
    return result
