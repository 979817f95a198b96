"""cortado profile."""

import argparse
import csv
import io
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cortado.base.errors import CortadoError, WrongResult
from cortado.base.names import operator_base
from cortado.cli.parsing import place_of, silicon_json, silicon_lines
from cortado.cli.run import opened
from cortado.cli.tables import cycles_json, cycles_text, in_columns, milliseconds_json

if TYPE_CHECKING:
    from cortado.artifact.opened import Artifact
    from cortado.profile import LayerTime, Profile
    from cortado.timing.work import MeasuredWork, Spent

BAR = 24  # characters of the longest bar
BEFORE = "(before the first layer)"
CSV_COLUMNS = (
    "layer",
    "operator",
    "module",
    "macs",
    "instructions",
    "cycles_low",
    "cycles_typical",
    "cycles_high",
    "percent",
)


def profile_command(arguments: argparse.Namespace) -> None:
    if arguments.json and arguments.csv:
        raise CortadoError("--json and --csv: give only one of them")
    artifact = opened(arguments)
    with artifact.guarded():
        _profile_artifact(arguments, artifact)


def _profile_artifact(arguments: argparse.Namespace, artifact: "Artifact") -> None:
    from cortado.artifact.folder import write_file
    from cortado.artifact.pages import save_figures
    from cortado.profile import clock_of, contribution, profile, profile_report
    from cortado.run.doctor import require
    from cortado.run.runner import RunLimits, choose_board
    from cortado.run.silicon.place import is_probe
    from cortado.run.toolchain import Tool

    artifact.check_bundle()
    on = place_of(arguments)
    clock = clock_of(artifact, arguments.chip)
    if arguments.contribute is not None and not is_probe(on):
        raise CortadoError("--contribute writes what a chip's own counter measured: add --on gdb")
    if choose_board(artifact.info.target, on) is None and not is_probe(on):
        raise CortadoError(
            f"a profile needs an emulated board, and {arguments.on} is not one; `cortado targets` lists them"
        )
    samples = [artifact.example()] if arguments.input is None else artifact.read_samples(arguments.input)
    require((Tool.ARM_GCC, Tool.QEMU, Tool.CC))
    found = profile(artifact, samples, on, clock, RunLimits(seconds=arguments.timeout))
    if arguments.json:
        print(json.dumps(_as_json(artifact, found), indent=2))
    else:
        print(_as_csv(found) if arguments.csv else "\n".join(_as_text(artifact, found)))
    if not found.bit_exact:
        raise WrongResult(f"the output on {found.board} differs from the reference")
    if arguments.contribute is not None:
        write_file(arguments.contribute, (json.dumps(contribution(artifact, found), indent=2) + "\n").encode())
    if arguments.save:
        save_figures(artifact, lambda report: replace(report, profile=profile_report(found)))


# ---- JSON and CSV ---------------------------------------------------------------------------------------------------


def _as_json(artifact: "Artifact", found: "Profile") -> dict[str, Any]:
    from cortado.timing.cycles import NOTE

    timing, report = found.timing, artifact.report
    return {
        "model": report.model,
        "target": report.target,
        "board": found.board,
        "core": timing.cpu.value,
        "bit_exact": found.bit_exact,
        "macs": report.macs,
        **_spent_json(timing.total),
        "grade": timing.model.grade.value,
        "sources": list(timing.model.sources),
        "note": NOTE,
        "chip": None if timing.clock is None else timing.clock.chip,
        "clock_hz": None if timing.clock is None else timing.clock.hertz,
        "milliseconds": milliseconds_json(timing),
        "parts": _parts_json(timing.work),
        "before": _spent_json(found.before),
        "measured": silicon_json(found.silicon),
        "layers": [_layer_json(number, layer, found) for number, layer in enumerate(found.layers)],
    }


def _spent_json(spent: "Spent") -> dict[str, Any]:
    return {"instructions": spent.instructions, "cycles": cycles_json(spent.cycles)}


def _parts_json(work: "MeasuredWork") -> dict[str, Any]:
    from cortado.timing.work import Part

    return {part.value: _spent_json(work.part(part)) for part in Part}


def _layer_json(number: int, layer: "LayerTime", found: "Profile") -> dict[str, Any]:
    return {
        "name": layer.report.name,
        "operator": layer.report.operator,
        "module": layer.report.module,
        "macs": layer.report.macs,
        **_spent_json(layer.spent),
        "measured_cycles": found.measured(number),
        "cycles_per_mac": _per_mac(layer),
        "percent": round(_percent(layer.spent, found), 3),
        "parts": _parts_json(layer.work),
    }


def _per_mac(layer: "LayerTime") -> float | None:
    return round(layer.spent.cycles.typical / layer.report.macs, 4) if layer.report.macs else None


def _percent(spent: "Spent", found: "Profile") -> float:
    return 100 * spent.cycles.typical / max(found.timing.total.cycles.typical, 1)


def _as_csv(found: "Profile") -> str:
    """Returns a line per layer; the first is for what precedes them."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(CSV_COLUMNS)
    rows.writerow([BEFORE, "", "", 0, *_spent_csv(found.before, found)])
    for layer in found.layers:
        report = layer.report
        rows.writerow([report.name, report.operator, report.module, report.macs, *_spent_csv(layer.spent, found)])
    return text.getvalue().rstrip("\n")


def _spent_csv(spent: "Spent", found: "Profile") -> list[Any]:
    cycles = cycles_json(spent.cycles)
    return [spent.instructions, cycles["low"], cycles["typical"], cycles["high"], f"{_percent(spent, found):.3f}"]


# ---- text -----------------------------------------------------------------------------------------------------------


def _as_text(artifact: "Artifact", found: "Profile") -> list[str]:
    from cortado.timing.cycles import NOTE

    timing, report = found.timing, artifact.report
    verdict = "bit-exact with the reference" if found.bit_exact else "NOT bit-exact with the reference"
    per_mac = f", {timing.total.cycles.typical / report.macs:.2f} cycles per multiply-accumulate" if report.macs else ""
    lines = [f"{report.model} for {report.target} on {found.board}, {verdict}"]
    lines.append(f"{timing.total.instructions:,} instructions (exact){per_mac}")
    lines += cycles_text(timing)
    if found.silicon is not None:
        lines += silicon_lines(found.silicon)
    lines += ["", *_layer_lines(found), "", *_part_lines(found), "", NOTE]
    return [*lines, *(f"  {source}" for source in timing.model.sources)]


def _layer_lines(found: "Profile") -> list[str]:
    rows = [("LAYER", "OPERATOR", *_measured("MEASURED", found), "INSTRUCTIONS", "CYCLES", "PER MAC", "SHARE", "")]
    most = max((layer.spent.cycles.typical for layer in found.layers), default=0)
    for number, layer in enumerate(found.layers):
        per_mac = _per_mac(layer)
        name = layer.report.module or layer.report.name
        operator = operator_base(layer.report.operator)
        product = "-" if per_mac is None else f"{per_mac:.2f}"
        chip = _measured(f"{found.measured(number) or 0:,}", found)
        rows.append((name, operator, *chip, *_figures(layer.spent, found, most, product)))
    rows.append((BEFORE, "", *_measured("-", found), *_figures(found.before, found, most, "-")))
    return in_columns([_aligned(row, rows) for row in rows])


def _measured(text: str, found: "Profile") -> tuple[str, ...]:
    """Returns a cell of the column for a chip's counts; empty without any."""
    return (text,) if found.silicon is not None and found.silicon.steps else ()


def _part_lines(found: "Profile") -> list[str]:
    from cortado.timing.work import Part

    rows = [("WHERE IT GOES", "", "INSTRUCTIONS", "CYCLES", "", "SHARE", "")]
    most = max(found.part(part).cycles.typical for part in Part)
    rows += [(part.value, "", *_figures(found.part(part), found, most, "")) for part in Part]
    return in_columns([_aligned(row, rows) for row in rows])


def _figures(spent: "Spent", found: "Profile", most: float, product: str) -> tuple[str, str, str, str, str]:
    length = round(BAR * spent.cycles.typical / most) if most else 0
    cycles = f"{spent.cycles.typical:,.0f}"
    return f"{spent.instructions:,}", cycles, product, f"{_percent(spent, found):.1f}%", "#" * length


def _aligned(row: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Aligns numbers right, from the third column to the last but one."""
    widths = [max(len(one[column]) for one in rows) for column in range(len(row))]
    last = len(row) - 1
    return [cell.rjust(widths[at]) if 2 <= at < last else cell for at, cell in enumerate(row)]
