"""cortado.estimate: RAM, flash and cycles of a network that need not be trained, without calibration, .pte or board.

The network is planned up to its C bundle from an example alone, and nothing is written. Plan, weights and cycles depend
only on the shapes; the scales are placeholders for those of real data.
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
from cortado.artifact.summary import html_table
from cortado.base.chips import Chip, find_chip
from cortado.base.errors import CortadoError
from cortado.base.names import c_identifier
from cortado.base.target import CortexM, CortexMTargetConfig, from_target_string
from cortado.emit.c.bundle import Bundle, emit_c
from cortado.frontend.capture.watched import WIDE, watched_without_data
from cortado.frontend.precision.judgement import FloatRun
from cortado.options import DEFAULTS, CalibrationMethod, Options
from cortado.plan import checks
from cortado.plan.kernel_costs import known_costs, loop_cycles
from cortado.plan.lowered import LoweredGraph, lowered_graph, run_reference
from cortado.plan.planned import Planned, estimated_cycles, loop_of
from cortado.plan.pricing import lowered
from cortado.plan.program import Program
from cortado.plan.request import Asked
from cortado.plan.schedule import schedule
from cortado.run import measure, runner
from cortado.run.bundle_info import IO, BundleInfo, StoreRules, rows_port
from cortado.run.runner import Flown
from cortado.timing.work import MeasuredWork

# ---- the plan of an example -------------------------------------------------------------------------

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


HEAVIEST = 5  # layers that a notebook shows


@dataclass(frozen=True)
class LayerEstimate:
    """A kernel of the network, without the row loop's work for it."""

    name: str
    operator: str
    module: str
    macs: int
    cycles: int
    estimated: bool = True  # False: the table of costs has no row for it, and 0 cycles are counted


@dataclass(frozen=True)
class Estimate:
    """Estimated cost of one inference on a core, and on a chip if one was named."""

    target: str
    ram_bytes: int  # the arena
    weights_bytes: int
    code_bytes: int | None  # None without a compiler for the target
    macs: int
    cycles: int  # the typical figure of `cortado profile`, estimated
    chip: str | None = None
    milliseconds: float | None = None
    fits: bool | None = None  # into the memories of the chip
    layers: tuple[LayerEstimate, ...] = ()
    estimated: bool = True  # False: the cycles are without some layers

    @property
    def flash_bytes(self) -> int | None:
        return None if self.code_bytes is None else self.weights_bytes + self.code_bytes

    def __repr__(self) -> str:
        facts = ", ".join(f"{value} {what}" for what, value in self._facts())
        return f"<Estimate for {self.chip or self.target}: {facts}>"

    def _repr_html_(self) -> str:
        """The HTML that a notebook shows."""
        heaviest = sorted(self.layers, key=lambda layer: -layer.cycles)[:HEAVIEST]
        rows = [*self._facts(), *((layer.module or layer.name, f"{layer.cycles:,} cycles") for layer in heaviest)]
        return html_table(f"estimate for {self.chip or self.target}", rows)

    def _facts(self) -> list[tuple[str, str]]:
        flash = f"{self.weights_bytes:,} bytes" if self.flash_bytes is None else f"{self.flash_bytes:,} bytes"
        found = [("RAM", f"{self.ram_bytes:,} bytes"), ("weights" if self.flash_bytes is None else "flash", flash)]
        found.append(("cycles", f"{self.cycles:,}"))
        return found if self.milliseconds is None else [*found, ("ms", f"{self.milliseconds:.3g}")]

    def with_cycles(self, cycles: int, chip: Chip | None) -> "Estimate":
        """The same with cycles that were found otherwise."""
        return replace(self, cycles=cycles, milliseconds=_milliseconds(cycles, chip), estimated=True)


def estimate(
    model: torch.nn.Module | ExportedProgram,
    example_inputs: Sequence[Given],
    chip: str | Chip | None = None,
    target: str | CortexMTargetConfig | None = None,
    options: Options = DEFAULTS,
) -> Estimate:
    """Estimates RAM and flash as `compile` would report them, and cycles as `cortado profile` would, without compiling
    or running: for architecture search. The weights may be random; the example inputs are the only data."""
    found = find_chip(chip) if isinstance(chip, str) else chip or options.chip
    config = chosen_target(found, target)
    return estimate_of(sketch(prepared(model, example_inputs, options), config, options), found)


def chosen_target(chip: Chip | None, target: str | CortexMTargetConfig | None) -> CortexMTargetConfig:
    """Returns a single core with known cycles: the chip's, or the one named."""
    if target is None:
        if chip is None:
            raise CortadoError("no chip and no target: name one, as in chip='stm32l4r5' or target='cortex-m4'")
        return chip.target
    config = from_target_string(target) if isinstance(target, str) else target
    if chip is not None:
        chip.require(config)
    if config.cpu is CortexM.ANY:
        raise CortadoError("cycles are those of one core; name it, as in cortex-m4, instead of cortex-m")
    if config.target_string != config.cpu.value:
        raise CortadoError(
            f"there is no cost table for {config.target_string}, only for {config.cpu.value} with all its "
            "instructions; compile the model and profile it (`cortado profile`)"
        )
    return config


def estimate_of(found: Sketch, chip: Chip | None) -> Estimate:
    return planned_estimate(found.planned, found.values, found.bundle.weights_bytes, found.code_bytes, chip)


def planned_estimate(
    planned: Planned,
    values: Mapping[str, torch.Tensor],
    weights_bytes: int,
    code_bytes: int | None,
    chip: Chip | None,
) -> Estimate:
    """Returns the estimate of a planned program; `values` are the reference's, if known."""
    program = planned.program
    spent = estimated_cycles(planned, values)
    row_loop = loop_cycles(known_costs()[program.target.cpu], loop_of(planned))
    cycles = round(sum(one for one in spent if one is not None) + row_loop)
    return Estimate(
        target=program.target.target_string,
        ram_bytes=planned.plan.peak,
        weights_bytes=weights_bytes,
        code_bytes=code_bytes,
        macs=sum(step.macs for step in program.steps),
        cycles=cycles,
        chip=None if chip is None else chip.name,
        milliseconds=_milliseconds(cycles, chip),
        fits=None if chip is None else _fits(chip, planned.plan.peak, weights_bytes + (code_bytes or 0)),
        layers=tuple(
            LayerEstimate(step.name, step.operator, step.module, step.macs, round(one or 0), estimated=one is not None)
            for step, one in zip(program.steps, spent, strict=True)
        ),
        estimated=None not in spent,
    )


def _milliseconds(cycles: int, chip: Chip | None) -> float | None:
    return None if chip is None else cycles / (chip.megahertz * 1000)


def _fits(chip: Chip, ram: int, flash: int) -> bool:
    return ram <= chip.ram_bytes and (chip.flash_bytes is None or flash <= chip.flash_bytes)
