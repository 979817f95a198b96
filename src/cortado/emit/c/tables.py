"""The tables of MODEL.c that cortado_run.c walks: operands, steps, stages, and the checks build's guarded buffers."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass

from cortado.base.names import c_string
from cortado.emit.c.layers import Layers, PortRow, StepInC, fits, shared_ports
from cortado.emit.c.text import LONGEST_TITLE, designated, label, listed, title, titled
from cortado.ir.kernel import ONE_ROW
from cortado.plan.planned import GUARD_BYTES, Planned
from cortado.plan.program import Port, Stage, Step, Walk
from cortado.plan.segments import scratch_name

NEVER_YET = (1 << 15) - 1  # more rows than a step ever makes before its end
# The codes of a port's producer that is no step of its stage.
PRODUCERS = {"CORTADO_COMPLETE": 0xFF, "CORTADO_WRITTEN": 0xFE, "CORTADO_CONSTANT": 0xFD}
PlaceOf = Callable[[str], object]
Makers = Mapping[str, tuple[int, Step]]  # by buffer: the step of the stage that makes it, and its position


@dataclass(frozen=True)
class Tables:
    """The rows of each table as text. A network of views alone has one empty row in each of the first three."""

    ports: str
    steps: str
    stages: str
    guarded: str


def at(planned: Planned, buffer: str) -> str:
    """Returns a buffer's offsets in the release build and in the checks build."""
    return f"AT({planned.plan.offsets[buffer]}u, {planned.checked.offsets[buffer] + GUARD_BYTES}u)"


def build_tables(planned: Planned, layers: Layers) -> Tables:
    """Builds the tables; `layers` collects the descriptors and functions that their rows name."""
    in_c = [layers.add(step) for step in planned.program.steps]
    ports = shared_ports(_ports(planned, in_c))
    steps: list[str] = []
    stages: list[str] = []
    for number, stage in enumerate(planned.program.stages):
        stages.append(_stage(stage, len(steps)))
        for position, step in enumerate(stage.steps):
            rows, this = planned.rows_needed(number, position), len(steps)
            steps.append(titled(title(step), [_step(planned, step, in_c[this], rows, ports.firsts[this])]))
    return Tables(
        ports=ports.text or _row({"row_bytes": 0}),
        steps="\n".join(steps) or _row({"rows": 0}),
        stages="\n".join(stages) or _row({"images": 0}),
        guarded=_guarded(planned),
    )


def _row(values: Mapping[str, object]) -> str:
    return f"    {{{listed(designated(values), indent=5)}}},"


def step_numbers(planned: Planned, step: Step, rows: int, port: object, place: PlaceOf) -> dict[str, object]:
    """Returns the members of a step after its kernel, in order; `place` maps a buffer to its offset."""
    accumulates = step.kind is Walk.ACCUMULATE
    return {
        "out_offset": place(step.output),
        "out_row_bytes": step.row_bytes,
        "scratch_offset": place(scratch_name(step)) if step.scratch else 0,
        "n": step.n,
        "rows": 0 if planned.program.stream else fits(rows, 16, step.name),
        "out_ring": 1 if accumulates else fits(planned.ring_rows(step.output, step.rows), 16, step.name),
        "port": port,
        "ports": len(step.ports),
        "group": step.group,
    }


def _step(planned: Planned, step: Step, in_c: StepInC, rows: int, port: str) -> str:
    kernel = {"call": in_c.call, "layer": in_c.layer}
    numbers = step_numbers(planned, step, rows, port, lambda buffer: at(planned, buffer))
    checked = {"name": c_string(title(step)), "scratch_bytes": in_c.scratch_bytes, "scratch_need": in_c.scratch_need}
    lines = [
        f"{listed(designated(kernel), indent=5)},",
        listed(designated(numbers), indent=5),
        f"CHECKED({listed(designated(checked), indent=13)})",
    ]
    return "    {" + "\n     ".join(lines) + "},"


def _ports(planned: Planned, in_c: Iterable[StepInC]) -> list[tuple[str, list[PortRow]]]:
    """Returns the operands of each step, with its label."""
    found = []
    in_order = iter(in_c)
    for stage in planned.program.stages:
        makers = makers_of(stage)
        for step in stage.steps:
            pairs = zip(step.ports, next(in_order).constants, strict=True)
            found.append((label(step), [_port(planned, port, constant, step, makers) for port, constant in pairs]))
    return found


def makers_of(stage: Stage) -> Makers:
    return {name: (position, step) for position, step in enumerate(stage.steps) for name in step.outputs}


def port_numbers(planned: Planned, port: Port, step: Step, makers: Makers) -> dict[str, object]:
    """Returns the members of a port after the address of its rows, in order; its producer as C names it."""
    rule = port.rule
    written = port in step.extra_results
    maker = makers.get(port.source) if isinstance(port.source, str) and not written else None
    if isinstance(port.source, str):
        ring = planned.ring_rows(port.source, port.height)
        producer = "CORTADO_COMPLETE" if maker is None else str(maker[0])
        producer = "CORTADO_WRITTEN" if written else producer
    else:
        ring, producer = port.height, "CORTADO_CONSTANT"
    endless = planned.program.stream is not None
    within = step.rows <= port.height  # it needs no row below the image, as padding does
    alone = maker is not None and rule == ONE_ROW and within and not endless
    return {
        "row_bytes": port.row_bytes,
        "height": 0 if endless else fits(port.height, 16, "a row count"),
        "ring": fits(ring, 16, "a row count"),
        "lead": _lead(port, step, None if maker is None else maker[1]),
        "taps": fits(rule.taps, 8, "a window"),
        "stride": fits(rule.stride, 8, "a window"),
        "dilation": 0 if alone else fits(rule.dilation, 8, "a window"),
        "pad": 0 if endless else fits(rule.pad, 8, "a window"),
        "repeat": rule.repeat.bit_length() - 1,
        "producer": producer,
    }


def _port(planned: Planned, port: Port, constant: str | None, step: Step, makers: Makers) -> PortRow:
    if isinstance(port.source, str):
        place: dict[str, object] = {"at.offset": at(planned, port.source)}
        release: Hashable = planned.plan.offsets[port.source]
    else:
        place, release = {"at.constant": constant}, constant
    numbers = port_numbers(planned, port, step, makers)
    return PortRow(text=_row({**place, **numbers}), release=(release, *numbers.values()))


def _lead(port: Port, step: Step, maker: Step | None) -> int:
    """Returns how many rows the producer must be ahead of an output row; if the producer accumulates, a number it never
    reaches before its end."""
    if maker is not None and maker.kind is Walk.ACCUMULATE:
        fits(maker.rows, 15, f"{maker.name}: a row count")
        return NEVER_YET
    lead = fits(port.rule.span + step.group - 1, 15, "a window") - port.rule.pad
    if maker is not None:  # the most rows waited for, plus the two reserved numbers for all and for never
        fits(max(step.rows // port.rule.repeat * port.rule.stride + lead, 0) + 2, 16, f"{step.name}: a row count")
    return lead


def _stage(stage: Stage, first: int) -> str:
    names = [label(step) for step in stage.steps]
    text = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}, row by row together"
    return titled(text, [_row({"first": first, "images": stage.steps[0].images, "steps": len(stage.steps)})])


def _guarded(planned: Planned) -> str:
    """Tabulates the guarded buffers of the checks build."""
    rows = [
        _row(
            {
                "name": c_string(buffer.name[:LONGEST_TITLE]),
                "offset": planned.checked.offsets[buffer.name] + GUARD_BYTES,
                "size": buffer.size,
                "first": buffer.start[0],
                "last": buffer.end[0] - (buffer.end[1] == 0),
            }
        )
        for buffer in planned.problem.buffers
    ]
    return "\n".join(rows)
