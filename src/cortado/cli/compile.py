"""cortado compile."""

import argparse
import contextlib
import gc
import importlib
import json
import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cortado.base.errors import NO_FLOAT_KERNEL, CortadoError, CortadoWarning
from cortado.base.progress import IMPORT, IMPORT_EXECUTORCH, Clock, cpu_seconds, rounded
from cortado.cli.compare import several_text, write_index
from cortado.cli.compile_together import methods_command, together_command
from cortado.cli.interrupts import AtOnce
from cortado.cli.parsing import class_names, options_of, shapes_of
from cortado.cli.tables import ProgressBar, camera_text, cycles_text
from cortado.options import Artifacts, Options

if TYPE_CHECKING:
    from cortado.api import Compiled
    from cortado.artifact.report import (
        ChipReport,
        FlashReport,
        FloatOperatorReport,
        InputRowsReport,
        IslandReport,
        MemoryReport,
        PteReport,
        Report,
        StreamReport,
    )
    from cortado.base.target import CortexMTargetConfig
    from cortado.models.sources import Source


def compile_command(arguments: argparse.Namespace) -> None:
    specs = _model_specs(arguments)
    targets = _targets(arguments)
    if arguments.together is not None:
        together_command(arguments, specs, targets)
        return
    spec = _one_model(arguments, specs)
    if methods_command(arguments, spec, targets):
        return
    progress = ProgressBar(_steps(arguments, targets))
    try:
        # A user's own file may print: standard output is reserved for the result.
        with contextlib.redirect_stdout(sys.stderr):
            done = _compile_all(arguments, spec, targets, progress)
            times = {folder: _time(folder, report, progress) for folder, report in done if not arguments.json}
    finally:
        progress.stop()
    reports = [report for _, report in done]
    for text in dict.fromkeys(f"{report.model}: {finding.text}" for report in reports for finding in report.warnings):
        print(f"warning: {text}", file=sys.stderr)
    if arguments.json:
        data = [report.to_json() for report in reports]
        print(json.dumps(data[0] if len(data) == 1 else data, indent=2))
    else:
        print(_summary(*done[0], times[done[0][0]]) if len(done) == 1 else _several(done, times))


def _several(done: list[tuple[Path, "Report"]], times: dict[Path, str | None]) -> str:
    facts: dict[Path, list[tuple[str, str]]] = {}
    for folder, report in done:
        missing = [("no C bundle", reason) for reason in report.bundle_missing]
        time = times[folder]
        facts[folder] = [*missing, *_facts(report), *([] if time is None else [("time", time)])]
    return several_text(done, facts)


def _steps(arguments: argparse.Namespace, targets: Sequence["CortexMTargetConfig"]) -> list[str]:
    """Returns the phases of this compile, in order."""
    in_c = ["plan", "plan alternatives", "emit C", "measure code"]
    in_pte = [IMPORT_EXECUTORCH, "emit pte"]
    left_out = {"c": in_pte, "pte": in_c}.get(arguments.artifacts, [])
    each = [name for name in ("lower", *in_c, *in_pte, "check") if name not in left_out]
    timed = [] if arguments.chip is None else ["time"]
    return [IMPORT, "load", "export", "quantize", *each * len(targets), "write", *timed]


def _targets(arguments: argparse.Namespace) -> list["CortexMTargetConfig"]:
    """Returns the targets that --target names; without it the chip's core, or any core."""
    from cortado.base.chips import find_chip
    from cortado.base.target import ANY, from_target_string

    chip = None if arguments.chip is None else find_chip(arguments.chip)
    if arguments.target is None:
        return [ANY if chip is None else chip.target]
    targets = list(dict.fromkeys(from_target_string(text) for text in arguments.target.split(",")))
    for target in targets:
        if chip is not None:
            chip.require(target)
    return targets


def _model_specs(arguments: argparse.Namespace) -> list[str]:
    given = [str(spec) for spec in (*arguments.model, arguments.model_name) if spec is not None]
    if not given:
        raise CortadoError("no model: name one, as in `cortado compile ds_cnn` (see `cortado zoo`)")
    return given if arguments.together is not None else list(dict.fromkeys(given))


def _one_model(arguments: argparse.Namespace, specs: list[str]) -> str:
    if len(specs) > 1:
        raise CortadoError(
            f"{'two' if len(specs) == 2 else len(specs)} models, {' and '.join(specs)}: name one, or combine them into "
            "one program with --together DIR"
        )
    if arguments.shared_arena:
        raise CortadoError("--shared-arena is for models that are compiled with --together DIR; leave it out")
    return specs[0]


def _compile_all(
    arguments: argparse.Namespace, spec: str, targets: list["CortexMTargetConfig"], progress: ProgressBar
) -> list[tuple[Path, "Report"]]:
    """Compiles for every target before writing any folder, so that a target that fails leaves nothing behind."""
    options = options_of(arguments)
    clock = Clock(progress=progress)
    _import_compiler(clock)
    from cortado.artifact.folder import locked
    from cortado.base.names import check_name
    from cortado.models.sources import load_model

    if arguments.name is not None:
        check_name(arguments.name)
    if arguments.output is not None:
        _check_places(_folders(arguments.output, targets), arguments.intermediates)
    with clock.phase("load"):
        source = load_model(spec, shapes_of(arguments))
    name = arguments.name or source.name
    folders = _folders(arguments.output or Path("build") / name, targets)
    _check_places(folders, arguments.intermediates)
    with contextlib.ExitStack() as stack:
        for folder in folders:
            stack.enter_context(locked(folder))
        return _compile_source(arguments, spec, name, source, folders, options, targets, clock)


def _import_compiler(clock: Clock) -> None:
    """Imports the compiler. In a process of its own, all modules live until the end, so they are exempted from garbage
    collection now and later, which saves a fifth of the time."""
    own = "torch" not in sys.modules
    before = 0.0 if own else cpu_seconds()
    clock.progress(IMPORT)
    if own:
        gc.disable()
    with AtOnce():
        importlib.import_module("cortado.api")
    if own:
        gc.freeze()
        gc.enable()
    clock.add(IMPORT, cpu_seconds() - before)


def _compile_source(
    arguments: argparse.Namespace,
    spec: str,
    name: str,
    source: "Source",
    folders: list[Path],
    options: Options,
    targets: list["CortexMTargetConfig"],
    clock: Clock,
) -> list[tuple[Path, "Report"]]:
    from cortado.api import prepare
    from cortado.artifact.report import CalibrationReport
    from cortado.models import zoo
    from cortado.models.sources import load_calibration

    with clock.phase("load"):
        batches = load_calibration(arguments.calibration, source, needed=options.has_codes)
    data = arguments.calibration or "the model's own"
    calibration = CalibrationReport(data=data, batches=len(batches)) if batches else None  # None: it came quantized
    network = spec if spec in zoo.names() else None
    model = prepare(
        source.model,
        source.example_inputs,
        batches,
        name=name,
        labels=source.labels if arguments.labels is None else class_names(arguments.labels),
        progress=clock.progress,
        options=options,
        target=targets[0],
        intermediates=arguments.intermediates,
    )
    compiled: list[Compiled] = []
    for target in targets:
        place = arguments.intermediates
        graphs = place / target.target_string if place is not None and len(targets) > 1 else place
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CortadoWarning)  # they are in the report, and printed at the end
            result = model.compile(target, options, graphs)
        seconds = {**rounded(clock.seconds), **result.report.compile_seconds}
        report = replace(result.report, calibration=calibration, zoo=network, compile_seconds=seconds)
        compiled.append(replace(result, report=report))
    clock.progress("write")
    done = [(folder, item.save(folder).report) for folder, item in zip(folders, compiled, strict=True)]
    if len(done) > 1:
        write_index(done)
    return done


def _folders(output: Path, targets: list["CortexMTargetConfig"]) -> list[Path]:
    return [output] if len(targets) == 1 else [output / target.target_string for target in targets]


def _check_places(folders: list[Path], intermediates: Path | None) -> None:
    """Detects unwritable destinations before the work instead of after it."""
    from cortado.artifact.folder import check_folder, check_writable
    from cortado.artifact.manifest import REPORT
    from cortado.artifact.pages import check_index

    for folder in folders:
        check_folder(folder)
    if len(folders) > 1 and (folders[0].parent / REPORT).exists():
        raise CortadoError(f"can't write several targets into {folders[0].parent}: it holds one compiled model")
    if len(folders) > 1:
        check_index(folders[0].parent)
    if intermediates is None:
        return
    check_writable(intermediates)
    for folder in folders:
        if intermediates.resolve().is_relative_to(folder.resolve()):
            raise CortadoError(f"can't write the graphs to {intermediates}: that is inside the output folder {folder}")


def _time(folder: Path, report: "Report", progress: ProgressBar) -> str | None:
    """Measures an inference's time on the chip by a run on the emulated board; None without a chip."""
    from cortado.artifact.opened import Artifact
    from cortado.profile import clock_of, time_of
    from cortado.run.toolchain import Tool, find

    if report.chip is None or report.bundle_missing:
        return None
    missing = [tool.value.command for tool in (Tool.ARM_GCC, Tool.QEMU, Tool.CC) if find(tool) is None]
    if missing:
        return f"unknown without {', '.join(missing)}"
    progress("time")
    artifact = Artifact.open(folder)
    try:
        work = artifact.run([artifact.example()], timed=True).result.work
    except CortadoError as error:  # the compile has succeeded, whatever goes wrong on the board
        return f"unknown: {str(error).splitlines()[0]}"
    if work is None:
        return "unknown"
    return "; ".join(cycles_text(time_of(work, artifact.info.target, None, clock_of(artifact, None)))[::-1])


def float_would_help(report: "Report") -> bool:
    """Returns whether --allow-float would write the missing .pte."""
    from cortado.lowering import without_executorch

    refused = report.options.allow_float or any(NO_FLOAT_KERNEL in reason for reason in report.pte_missing)
    return not refused and without_executorch() is None


def _summary(folder: Path, report: "Report", time: str | None) -> str:
    from cortado.artifact.summary import chosen_ranges, precision_text

    rows = _bundle_rows(report)
    if time is not None:
        rows.append(("time", time))
    if report.image is not None:
        rows.append(("image", f"{report.image.bytes:,} bytes, and {report.image.ram_bytes:,} of RAM for its tables"))
    if report.pte is not None:
        rows.append((".pte", pte_size(report.pte)))
        rows += _form_rows(report)
    if report.calibrated is not None:
        rows.append(("ranges", chosen_ranges(report.calibrated)))
    if report.precision is not None:
        rows.append(("precision", precision_text(report.precision)))
    rows += _facts(report)
    operators = ", ".join(f"{count} {name.split('::')[1]}" for name, count in report.operators.items())
    rows.append(("operators", operators))
    rows.append(("written to", str(folder)))
    return "\n".join(f"{label:>11}  {text}" for label, text in rows)


def _form_rows(report: "Report") -> list[tuple[str, str]]:
    """Returns the accuracy of a .pte whose network differs from the C bundle's."""
    if report.pte_form is None:
        return []
    both = zip(report.pte_form.pte_sqnr_db, report.pte_form.c_sqnr_db, strict=True)
    kept = [f"{here:.1f} dB ({there:.1f} in C)" for here, there in both if here is not None and there is not None]
    told = f", outputs keep {', '.join(kept)}" if kept else ""
    return [("", f"in ExecuTorch's int8 operators: 8-bit state, norms in pieces{told}")]


def _facts(report: "Report") -> list[tuple[str, str]]:
    """Returns the facts that are no figures."""
    rows = [("no .pte", reason) for reason in report.pte_missing]
    tried = report.options.artifacts is Artifacts.BOTH
    if report.pte_missing and tried and float_would_help(report):
        rows.append(("", "--allow-float writes the .pte with ExecuTorch's float kernels for this"))
    rows += [("in float32", island_text(item)) for item in report.islands]
    rows += [("in float", _float_text(item)) for item in report.float_operators]
    if report.calibration is not None and report.calibration.data == "random":
        rows.append(("warning", "calibrated with random data: sizes and speed are real, results are meaningless"))
    return rows


def _bundle_rows(report: "Report") -> list[tuple[str, str]]:
    memory, flash = report.memory, report.flash
    title = f"{report.model} for {report.target}"
    if memory is None or flash is None:
        return [("model", title), *(("no C bundle", reason) for reason in report.bundle_missing)]
    least = f"no plan of these stages can need less than {memory.lower_bound_bytes:,}"
    optimal = "no plan of these stages needs less" if memory.optimal else least
    rows = [
        ("model", f"{title} in {report.arithmetic}, {report.macs:,} multiply-accumulates"),
        ("RAM", f"{memory.arena_bytes:,} bytes of arena, inputs and outputs included ({optimal})"),
        ("flash", f"{flash.weights_bytes:,} bytes of constants + {_code(report.target, flash.code_bytes)}"),
    ]
    rows[2:2] = [("", f"{one.name}: {_part(one.bytes, one.size_bytes)} bytes") for one in memory.regions]
    rows += [("", f"{one.bytes:,} bytes of the constants in section .cortado.{one.name}") for one in flash.sections]
    if report.state:
        size, names = sum(one.bytes for one in report.state), ", ".join(one.name for one in report.state)
        rows.insert(2, ("state", f"{size:,} bytes of the arena persist from call to call: {names}"))
    if report.decision is not None:
        rows.insert(2, ("decision", f"{report.decision.spec}; {report.decision.bytes:,} bytes of the arena"))
    if report.input_rows is not None:
        rows.insert(2, ("input", _rows_text(report.input_rows, report.stream)))
    if report.camera is not None:
        rows.insert(2, ("camera", camera_text(report.camera)))
    return rows if report.chip is None else [*rows, ("chip", _chip(report.chip, memory, flash))]


def _rows_text(rows: "InputRowsReport", stream: "StreamReport | None") -> str:
    """Describes how an input arrives row by row."""
    held = f"rows of {rows.row_bytes:,} bytes, {rows.ring_rows} of them stored"
    if stream is None:
        return f"{rows.rows} {held}"
    late = f", delayed by {stream.delay_rows} rows because padding was dropped" if stream.delay_rows else ""
    return (
        f"{held}, without end: {stream.windows.in_words}{late}; {stream.state_bytes:,} bytes of the arena persist from "
        "row to row"
    )


def _chip(chip: "ChipReport", memory: "MemoryReport", flash: "FlashReport") -> str:
    """Says whether the model fits the chip, and which share of the chip it takes."""
    needed = flash.weights_bytes - sum(one.bytes for one in flash.sections) + (flash.code_bytes or 0)
    fits = (memory.regions or memory.arena_bytes <= chip.ram_bytes) and (
        chip.flash_bytes is None or needed <= chip.flash_bytes
    )
    outside = "flash is off-chip"
    share = outside if chip.flash_bytes is None else f"{_part(needed, chip.flash_bytes)} bytes of flash"
    ram = f"{_part(memory.arena_bytes, chip.ram_bytes)} bytes of RAM in one piece"
    ram = "RAM as above" if memory.regions else ram
    return f"{chip.name}: {'fits' if fits else 'does NOT fit'}; {ram}, {share}"


def _part(needed: int, there: int) -> str:
    return f"{100 * needed / there:.1f}% of {there:,}"


def pte_size(pte: "PteReport") -> str:
    return f"{pte.bytes:,} bytes, arena {pte.arena_bytes:,} bytes"


def island_text(item: "IslandReport") -> str:
    module = f" in module '{item.module}'" if item.module else ""
    source = f" at {item.source}" if item.source else ""
    cycles = "" if item.estimated_cycles is None else f", about {item.estimated_cycles:,} cycles"
    return f"{item.operator}{module}{source}{cycles}: {item.reason}"


def _float_text(item: "FloatOperatorReport") -> str:
    module = f" in module '{item.module}'" if item.module else ""
    source = f" at {item.source}" if item.source else ""
    return f"{item.operator}{module}{source}, in the .pte: {item.reason}"


def _code(target: str, size: int | None) -> str:
    if size is None:
        return "code (unknown without arm-none-eabi-gcc)"
    return f"{'at most ' if target == 'cortex-m' else ''}{size:,} bytes of code"
