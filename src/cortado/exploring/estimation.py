"""cortado.estimate: RAM, flash and cycles of a network that need not be trained, without calibration, .pte or board."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch.export import ExportedProgram

from cortado.api import Given
from cortado.artifact.summary import html_table
from cortado.base.chips import Chip, find_chip
from cortado.base.errors import CortadoError
from cortado.base.target import CortexM, CortexMTargetConfig, from_target_string
from cortado.exploring.sketch import Sketch, prepared, sketch
from cortado.options import DEFAULTS, Options
from cortado.plan.kernel_costs import known_costs, loop_cycles
from cortado.plan.planned import Planned, estimated_cycles, loop_of

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
