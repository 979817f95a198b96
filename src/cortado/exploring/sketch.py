"""A network planned up to its C bundle from an example alone: no calibration data, no .pte, nothing written.

Plan, weights and cycles depend only on the shapes; the scales are placeholders for those of real data.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch.export import ExportedProgram

from cortado.api import Given, Model, as_read, prepare
from cortado.artifact.narrowed import WeightsRequest, narrow_weights
from cortado.base.errors import CortadoError
from cortado.base.names import c_identifier
from cortado.base.target import CortexMTargetConfig
from cortado.emit.c.bundle import Bundle, emit_c
from cortado.frontend.capture.watched import WIDE, watched_without_data
from cortado.frontend.precision.judgement import FloatRun
from cortado.options import DEFAULTS, CalibrationMethod, Options
from cortado.plan import checks
from cortado.plan.lowered import LoweredGraph, lowered_graph, run_reference
from cortado.plan.planned import Planned
from cortado.plan.pricing import lowered
from cortado.plan.program import Program
from cortado.plan.request import Asked
from cortado.plan.schedule import schedule
from cortado.run import measure, runner
from cortado.run.bundle_info import IO, BundleInfo, StoreRules, rows_port
from cortado.run.runner import Flown
from cortado.timing.work import MeasuredWork

NAME = "estimated"


@dataclass(frozen=True)
class Sketch:
    """The planned C bundle of a network, made without calibration data."""

    graph: LoweredGraph
    planned: Planned
    example: tuple[torch.Tensor, ...]

    @cached_property
    def bundle(self) -> Bundle:
        return emit_c(self.planned)

    @cached_property
    def values(self) -> Mapping[str, torch.Tensor]:
        """Returns every value of the reference on the example."""
        return run_reference(self.graph, self.example)

    @property
    def info(self) -> BundleInfo:
        return info_of(self.planned.program)

    @property
    def code_bytes(self) -> int | None:
        """Returns the size of the code; None without a compiler."""
        return measure.code_bytes(self.bundle, self.info)


def info_of(program: Program) -> BundleInfo:
    """Returns the facts that a program calling a bundle needs."""
    row_bytes = 0 if program.pushed is None else program.pushed.row_bytes
    inputs, outputs = (
        tuple(IO(tensor.name, tensor.shape, tensor.dtype) for tensor in tensors)
        for tensors in (program.inputs, program.outputs)
    )
    if program.stream is not None:
        inputs = (rows_port(inputs[0], row_bytes, program.stream),)
    return BundleInfo(c_identifier(program.name), program.target, inputs, outputs, row_bytes, bool(program.state))


def prepared(
    model: torch.nn.Module | ExportedProgram, example_inputs: Sequence[Given], options: Options = DEFAULTS
) -> Model:
    """Quantizes a model with its example inputs alone."""
    quick = replace(options, calibration_method=CalibrationMethod.MINMAX, bias_correction=False)
    if options.watch is not None:
        model = watched_without_data(model, tuple(example_inputs), options.watch)
        quick = replace(quick, watch=None, int16=(*quick.int16, WIDE))
    return prepare(model, example_inputs, [tuple(example_inputs)], NAME, options=quick)


def sketch(model: Model, target: CortexMTargetConfig, options: Options = DEFAULTS) -> Sketch:
    """Plans a model for one target."""
    asked = Asked(model.name, target, options, model.labels)
    lower = lowered(model.quantized, target, options, stream=options.stream is not None)
    example = as_read(model.quantized.example_inputs, options)
    if options.narrows_weights:
        narrow_weights(lower, WeightsRequest(asked, [FloatRun(example, ())], correct=False))
    graph = lowered_graph(lower)
    return Sketch(graph, schedule(asked.stand_in(graph), options.optimize), example)


def board_work(found: Sketch) -> MeasuredWork:
    """Returns the cycles of one inference of the example on the emulated board."""
    return board_flow(found).work(found.planned.program.target.cpu)


def board_flow(found: Sketch) -> Flown:
    """Returns the control flow of one inference of the example on the emulated board, checking its result against the
    reference."""
    program, bundle = found.planned.program, found.bundle
    rules = StoreRules.from_json(checks.as_json(found.planned, bundle.calls))
    feed = [found.values[tensor.node].numpy() for tensor in program.inputs]
    if program.stream is not None:
        feed = [program.stream.read(feed[0])]
    with TemporaryDirectory(prefix="cortado-") as folder:
        runner.write_files(Path(folder), bundle.files)
        done = runner.run_bundle(Path(folder), found.info, [feed], timed=rules)
    for tensor, value in zip(program.outputs, done.samples[0], strict=True):
        if value.tobytes() != found.values[tensor.node].contiguous().numpy().tobytes():
            raise CortadoError(f"{tensor.name} on {done.on} differs from the reference; please report this model")
    assert done.flown is not None
    return done.flown
