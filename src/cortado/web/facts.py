"""The facts for a page and a JavaScript module: the model's tensors, its inputs, and its cost on each core."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np
import torch

from cortado.artifact.feeding import bundle_info, example_picture, real_values, seen
from cortado.artifact.opened import Artifact, planned_again
from cortado.artifact.report import Report, TensorReport
from cortado.base.arrays import ArrayType
from cortado.base.chips import table
from cortado.base.element import element_of
from cortado.base.target import Core, CortexMTargetConfig
from cortado.plan.kernel_costs import CoreCosts, known_costs, loop_cycles
from cortado.plan.lowered import LoweredGraph, run_reference
from cortado.plan.planned import Planned, estimated_cycles, loop_of
from cortado.run.bundle_info import BundleInfo

SOUND_RATE = 16_000  # samples per second, unless a recording states another; a page has a field for it
MOTION_RATE = 50  # rows a second
MOST_CHANNELS = 12  # the most values per row for which each gets a slider
LEAST_SIDE = 8  # the smallest image that is worth a camera


class PageKind(Enum):
    """The kinds of pages, by the model's input."""

    SOUND = "sound"  # a stream of samples
    MOTION = "motion"  # a stream of a few channels
    IMAGE = "image"
    NUMBERS = "numbers"  # anything else


@dataclass(frozen=True)
class PageSound:
    """Sound that a page can play to its model: 16-bit samples."""

    name: str
    rate: int
    samples: ArrayType


@dataclass(frozen=True)
class Example:
    """Inputs of the bundle, and the outputs it must give back."""

    inputs: tuple[ArrayType, ...]
    outputs: tuple[ArrayType, ...]


@dataclass(frozen=True)
class Shown:
    """A compiled model as a page shows it."""

    report: Report
    graph: LoweredGraph
    info: BundleInfo  # with its input as fed by the page
    example: Example
    recordings: tuple[PageSound, ...] = ()

    @staticmethod
    def of(report: Report, graph: LoweredGraph, example: Example, recordings: Sequence[PageSound] = ()) -> "Shown":
        """Prepares a model for a page. With a camera it is fed the lines of a picture, and has an example of its
        own."""
        info = replace(bundle_info(report, foreign=False), regions=())
        picture = example_picture(report)
        if picture is None:
            return Shown(report, graph, info, example, tuple(recordings))
        looked = seen(report, [picture], None)
        assert looked.lines is not None
        given = real_values(report.inputs[0], np.asarray(looked.samples[0][0]))
        values = run_reference(graph, [torch.from_numpy(np.ascontiguousarray(given))])
        expected = tuple(values[one.node].numpy() for one in report.outputs)
        return Shown(report, graph, looked.info(report, info), Example(tuple(looked.lines[0]), expected))

    @staticmethod
    def opened(artifact: Artifact, recordings: Sequence[PageSound] = ()) -> "Shown":
        """Prepares the model in a folder."""
        artifact.check_bundle()
        feeds, expected = artifact.recorded()
        return Shown.of(artifact.report, artifact.graph, Example(tuple(feeds), tuple(expected)), recordings)

    @cached_property
    def portable(self) -> Planned:
        """The plan with portable kernels."""
        return planned_again(self.report, self.graph, self.info.target, (Core.PORTABLE,))

    @property
    def kind(self) -> PageKind:
        report = self.report
        given = report.inputs[0]
        if report.stream is not None and report.input_rows is not None:
            if math.prod(given.model_shape) == max(given.model_shape):
                return PageKind.SOUND
            values = report.input_rows.row_bytes // element_of(given.dtype.value).bytes
            return PageKind.MOTION if values <= MOST_CHANNELS else PageKind.NUMBERS
        return PageKind.IMAGE if len(report.inputs) == 1 and _image(given) is not None else PageKind.NUMBERS


def _image(tensor: TensorReport) -> dict[str, int] | None:
    """Returns channels and size of an input that holds one picture; None for any other."""
    shape = tensor.model_shape
    if len(shape) != 4 or shape[0] != 1 or shape[1] not in (1, 3) or min(shape[2:]) < LEAST_SIDE:
        return None
    return {"channels": shape[1], "height": shape[2], "width": shape[3]}


def module_facts(shown: Shown) -> dict[str, Any]:
    """Returns the facts that MODEL.js needs to run the model."""
    report, info, example = shown.report, shown.info, shown.example
    return {
        "name": report.model,
        "prefix": report.prefix,
        "id": report.id,
        "version": report.model_version,
        "labels": None if report.labels is None else list(report.labels),
        "inputs": [_tensor(one, values) for one, values in zip(report.inputs, _network_inputs(shown), strict=True)],
        "outputs": [_tensor(one, values) for one, values in zip(report.outputs, example.outputs, strict=True)],
        "rowBytes": info.row_bytes,
        "time": None if report.stream is None else report.stream.dim,
        "lineBytes": info.line_bytes,
        "decides": report.decision is not None,
        "bands": bands_of(report),
    }


def _network_inputs(shown: Shown) -> Sequence[ArrayType | None]:
    """Returns the example's inputs, unless it is a camera's picture."""
    return [None] if shown.info.line_bytes else list(shown.example.inputs)


def bands_of(report: Report) -> dict[str, Any] | None:
    """Returns the spectrum that a stream's page draws: the first one, whose frames are rows."""
    found = report.spectrograms[:1] if report.stream is not None else ()
    return {"count": found[0].bands, "dtype": "int8", "layer": found[0].layer} if found else None


def _tensor(tensor: TensorReport, values: ArrayType | None) -> dict[str, Any]:
    return {
        "name": tensor.name,
        "shape": list(tensor.shape),
        "modelShape": list(tensor.model_shape),
        "layout": list(tensor.layout),
        "dtype": tensor.dtype.value,
        "scale": tensor.scale,
        "zeroPoint": tensor.zero_point,
        "range": _range(tensor, values),
    }


def _range(tensor: TensorReport, values: ArrayType | None) -> list[float]:
    """Returns the real range of a quantized tensor; for any other, the example's, extended to -1 and 1."""
    if tensor.scale is not None and tensor.zero_point is not None:
        low, high = element_of(tensor.dtype.value).codes
        return [tensor.scale * (low - tensor.zero_point), tensor.scale * (high - tensor.zero_point)]
    known = np.array([0]) if values is None else values.astype(np.float64)
    return [min(-1.0, float(known.min())), max(1.0, float(known.max()))]


def page_facts(shown: Shown) -> dict[str, Any]:
    """Returns the same facts, plus those that only a page shows."""
    report, camera, stream = shown.report, shown.report.camera, shown.report.stream
    rate = shown.recordings[0].rate if shown.recordings else SOUND_RATE
    flash = report.flash
    costs = core_costs(report, shown.graph)
    return {
        **module_facts(shown),
        "kind": shown.kind.value,
        "about": f"{len(report.layers)} kernels, compiled ahead of time for {report.target}, here as WebAssembly.",
        "target": report.target,
        "chip": None if report.chip is None else report.chip.name,
        "rate": rate if shown.kind is PageKind.SOUND else MOTION_RATE,
        "state": bool(report.state),
        "layers": len(report.layers),
        "stream": None if stream is None else {"hopRows": stream.hop_rows},
        "image": _image(report.inputs[0]),
        "camera": None
        if camera is None
        else {
            "format": camera.format.value,
            "width": camera.camera.size.width,
            "height": camera.camera.size.height,
            "crop": {
                "x": camera.camera.crop.x,
                "y": camera.camera.crop.y,
                "width": camera.camera.crop.size.width,
                "height": camera.camera.crop.size.height,
            },
        },
        "recordings": [{"name": one.name, "rate": one.rate} for one in shown.recordings],
        "flash": 0 if flash is None else flash.weights_bytes + (flash.code_bytes or 0),
        "costs": costs,
        "chips": chips_for(costs),
    }


def chips_for(costs: Collection[str]) -> list[dict[str, Any]]:
    """Returns the chips with these cores."""
    return [
        {
            "name": row.chip,
            "cpu": row.target,
            "megahertz": row.clock_hz // 1_000_000,
            "ram": row.ram_bytes,
            "flash": row.flash_bytes,
        }
        for row in table()
        if row.target in costs
    ]


def core_costs(report: Report, graph: LoweredGraph) -> Mapping[str, dict[str, int]]:
    """Returns RAM and estimated cycles on each core with a cost table: per output of a stream, else per inference."""
    part = 1.0 if report.stream is None else report.stream.hop_rows / report.stream.window_rows
    found = {}
    for cpu, costs in known_costs().items():
        planned = planned_again(report, graph, CortexMTargetConfig(cpu))
        cycles, missing = cycles_of(planned, costs)
        found[cpu.value] = {"ram": planned.plan.peak, "cycles": round(part * cycles), "missing": missing}
    return found


def cycles_of(planned: Planned, costs: CoreCosts) -> tuple[float, int]:
    """Returns the estimated cycles, and the number of kernels without a cost."""
    spent = estimated_cycles(planned)
    cycles = sum(one for one in spent if one is not None) + loop_cycles(costs, loop_of(planned))
    return cycles, sum(one is None for one in spent)
