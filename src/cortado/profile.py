"""A compiled model's time, layer by layer: instructions, which are exact, and cycles, which are modelled."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from cortado import __version__
from cortado.artifact.opened import Artifact
from cortado.artifact.report import CyclesReport, LayerProfileReport, LayerReport, MeasuredReport, ProfileReport
from cortado.base.arrays import ArrayType
from cortado.base.chips import find_chip
from cortado.base.errors import CortadoError
from cortado.base.target import CortexM, CortexMTargetConfig
from cortado.run import toolchain
from cortado.run.runner import NO_LIMITS, RunLimits, choose_board, core_of
from cortado.run.silicon.place import Silicon, is_probe
from cortado.timing.cycles import BEFORE, CoreTiming, Cycles
from cortado.timing.models import MODELS
from cortado.timing.work import MeasuredWork, Part, Spent


@dataclass(frozen=True)
class ChipClock:
    """The clock of a chip."""

    chip: str
    hertz: int


@dataclass(frozen=True)
class Timing:
    """The time of one inference on a core, and the core's clock, if a chip was named."""

    cpu: CortexM
    work: MeasuredWork
    clock: ChipClock | None = None

    @property
    def model(self) -> CoreTiming:
        return MODELS[self.cpu]

    @property
    def total(self) -> Spent:
        return self.work.total

    @property
    def milliseconds(self) -> Cycles | None:
        """The cycles as time; None without a clock."""
        if self.clock is None:
            return None
        cycles, per = self.total.cycles, self.clock.hertz / 1000
        return Cycles(cycles.low / per, cycles.typical / per, cycles.high / per)


@dataclass(frozen=True)
class LayerTime:
    """A kernel of the network, and its cost, including the row loop's work for it."""

    report: LayerReport
    spent: Spent
    work: MeasuredWork  # of this layer alone


@dataclass(frozen=True)
class Profile:
    """One inference, layer by layer. `before` is the work before the first kernel."""

    board: str
    bit_exact: bool
    timing: Timing
    before: Spent
    layers: tuple[LayerTime, ...]
    silicon: Silicon | None = None  # the counts of a chip on a debug probe
    place: str | None = None  # the place of that chip

    def measured(self, number: int) -> int | None:
        """Returns the cycles that the chip took for a layer; None without a measurement."""
        known = self.silicon is not None and number < len(self.silicon.steps)
        return self.silicon.steps[number].cycles if known and self.silicon is not None else None

    def part(self, part: Part) -> Spent:
        return self.timing.work.part(part)


def clock_of(artifact: Artifact, name: str | None) -> ChipClock | None:
    """Returns the clock of the chip named now, or else of the chip for which the model was compiled. A chip with
    another core is refused."""
    compiled = artifact.report.chip
    if name is None:
        return None if compiled is None else ChipClock(compiled.name, compiled.clock_hz)
    chip, target = find_chip(name), artifact.info.target
    if target.cpu is CortexM.ANY:
        raise CortadoError(f"{artifact.folder} was compiled for any core; name one with --target {chip.cpu.value}")
    chip.require(target)
    return ChipClock(chip.name, chip.megahertz * 1_000_000)


def time_of(work: MeasuredWork, target: CortexMTargetConfig, on: str | None, clock: ChipClock | None) -> Timing:
    """Returns the time of a run on an emulated board, in cycles of its core."""
    board = choose_board(target, on)
    assert board is not None
    return Timing(core_of(target, board), work, clock)


def profile(
    artifact: Artifact,
    samples: Sequence[Sequence[ArrayType]],
    on: str | None = None,
    clock: ChipClock | None = None,
    limits: RunLimits = NO_LIMITS,
) -> Profile:
    """Runs the first sample on an emulated board, compared with the reference; also on a chip on a debug probe, if `on`
    names one."""
    if not is_probe(on):
        return _emulated(artifact, samples, on, clock)
    chip = artifact.run(samples[:1], on, timed=True, limits=limits)
    found = _emulated(artifact, samples, None, clock)
    exact = chip.bit_exact and found.bit_exact
    return replace(found, bit_exact=exact, silicon=chip.result.silicon, place=chip.result.on)


def _emulated(
    artifact: Artifact, samples: Sequence[Sequence[ArrayType]], on: str | None, clock: ChipClock | None
) -> Profile:
    rules = artifact.store_rules()
    checked = artifact.run(samples[:1], on, timed=True)
    work = checked.result.work
    if work is None:
        raise CortadoError(f"a profile needs an emulated board, and {checked.result.on} is not one")
    names = [step.name for step in rules.steps]
    reports = artifact.report.layers
    if names != [layer.name for layer in reports]:
        raise CortadoError(f"{artifact.folder} holds two lists of layers that differ; compile the model again")
    layers = tuple(
        LayerTime(layer, work.step(number), MeasuredWork({number: work.steps.get(number, {})}))
        for number, layer in enumerate(reports)
    )
    timing = time_of(work, artifact.info.target, on, clock)
    return Profile(checked.result.on, checked.bit_exact, timing, work.step(BEFORE), layers)


def profile_report(found: Profile) -> ProfileReport:
    """Builds the entry of a profile in report.json."""
    timing = found.timing
    return ProfileReport(
        board=found.board,
        core=timing.cpu.value,
        grade=timing.model.grade.value,
        instructions=timing.total.instructions,
        cycles=_rounded(timing.total.cycles),
        chip=None if timing.clock is None else timing.clock.chip,
        clock_hz=None if timing.clock is None else timing.clock.hertz,
        layers=tuple(
            LayerProfileReport(
                name=layer.report.name, instructions=layer.spent.instructions, cycles=_rounded(layer.spent.cycles)
            )
            for layer in found.layers
        ),
        measured=_measured(found),
    )


def _measured(found: Profile) -> MeasuredReport | None:
    chip = found.silicon
    if chip is None or chip.first is None:
        return None
    return MeasuredReport(
        place=found.place or "",
        core=chip.core,
        counter=chip.counter.value,
        conditions=chip.words,
        clock_hz=chip.clock_hz,
        first_cycles=chip.first,
        later_cycles=chip.later,
        layer_cycles=tuple(step.cycles for step in chip.steps),
    )


def contribution(artifact: Artifact, found: Profile) -> dict[str, Any]:
    """Returns data for checking a timing model: the chip, its memory and cycles by step; no weights, no names."""
    chip = found.silicon
    assert chip is not None
    return {
        "cortado_version": __version__,
        "target": artifact.report.target,
        "core": chip.core,
        "cpuid": f"{chip.cpuid:#010x}",
        "chip": None if found.timing.clock is None else found.timing.clock.chip,
        "counter": chip.counter.value,
        "clock_hz": chip.clock_hz,
        "caches": list(chip.caches),
        "memory": chip.memory,
        "compiler": toolchain.version(toolchain.require(toolchain.Tool.ARM_GCC)),
        "first_cycles": chip.first,
        "later_cycles": list(chip.later),
        "modelled_cycles": vars(_rounded(found.timing.total.cycles)),
        "instructions": found.timing.total.instructions,
        "steps": [
            {
                "operator": layer.report.operator,
                "macs": layer.report.macs,
                "instructions": layer.spent.instructions,
                "modelled_cycles": vars(_rounded(layer.spent.cycles)),
                "measured_cycles": found.measured(number),
            }
            for number, layer in enumerate(found.layers)
        ],
    }


def _rounded(cycles: Cycles) -> CyclesReport:
    return CyclesReport(low=round(cycles.low), typical=round(cycles.typical), high=round(cycles.high))
