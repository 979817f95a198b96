"""cortado run."""

import argparse
import io
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cortado.base.errors import CortadoError, WrongResult
from cortado.cli.compile import pte_size
from cortado.cli.parsing import place_of, silicon_json, silicon_lines
from cortado.cli.scores import saturation_json, saturation_lines, saturation_of
from cortado.cli.tables import cycles_json, cycles_text, milliseconds_json

if TYPE_CHECKING:
    from cortado.artifact.checked import Checked, Samples
    from cortado.artifact.opened import Artifact
    from cortado.artifact.report import FlashReport, MemoryReport, Report
    from cortado.base.arrays import ArrayType
    from cortado.base.target import CortexMTargetConfig
    from cortado.models.zoo import Network
    from cortado.profile import Timing
    from cortado.run.toolchain import Tool

MOST_SHOWN = 20  # samples with a line of their own


def run_command(arguments: argparse.Namespace) -> None:
    from cortado.artifact.manifest import REPORT
    from cortado.run.runner import EXECUTORCH

    is_pte = arguments.folder.suffix == ".pte" and arguments.folder.is_file()
    if is_pte and not (arguments.folder.absolute().parent / REPORT).is_file():
        _run_lone_pte(arguments)
        return
    artifact = opened(arguments, arguments.folder.absolute().parent if is_pte else None)
    with artifact.guarded():
        _run_artifact(arguments, artifact, EXECUTORCH if is_pte and arguments.on is None else place_of(arguments))


def _run_artifact(arguments: argparse.Namespace, artifact: "Artifact", on: str | None) -> None:
    from cortado.profile import clock_of, time_of
    from cortado.run.doctor import require
    from cortado.run.runner import EXECUTORCH, RunLimits, choose_board

    if on != EXECUTORCH:
        artifact.check_bundle()
    board = choose_board(artifact.info.target, on)
    if board is None:
        artifact.check_trust()
    clock = clock_of(artifact, arguments.chip) if board is not None else None
    if arguments.output is not None:
        _check_output(artifact, arguments.output)
    samples = _samples(arguments, artifact, on)
    require(_tools(on, emulated=board is not None))
    limits = RunLimits(seconds=arguments.timeout, instructions=arguments.max_instructions)
    checked = artifact.run(samples, on, timed=board is not None, sequence=arguments.sequence, limits=limits)
    work = checked.result.work
    timing = None if work is None else time_of(work, artifact.info.target, on, clock)
    names = [tensor.name for tensor in artifact.report.outputs]
    values = dict(zip(names, checked.outputs, strict=True))
    if arguments.output is not None:
        _write_outputs(arguments.output, values)
    recording, saturated = arguments.recording, saturation_of(arguments, artifact, samples)
    if arguments.json:
        found = _run_json(artifact, checked, timing, values, recording)
        print(json.dumps({**found, **saturation_json(saturated)}))
    else:
        print("\n".join([_run_text(artifact, checked, timing, values, recording), *saturation_lines(saturated)]))
    if checked.compared and not checked.right:
        raise WrongResult(f"the output on {checked.result.on} differs from the reference")


def _tools(on: str | None, *, emulated: bool) -> tuple["Tool", ...]:
    from cortado.run.runner import EXECUTORCH, WASM
    from cortado.run.silicon.place import is_probe
    from cortado.run.toolchain import WASM_TOOLS, Tool

    if is_probe(on):
        return (Tool.ARM_GCC, Tool.GDB)
    if on == WASM:
        return WASM_TOOLS
    tools = (Tool.ARM_GCC, Tool.QEMU, Tool.CC) if emulated else (Tool.CC,)
    return (*tools, Tool.CXX) if on == EXECUTORCH else tools


def _example(artifact: "Artifact", on: str | None) -> list["ArrayType"]:
    """Returns the model's example or, with a camera on a place that takes lines, a sample picture."""
    from cortado.artifact.feeding import example_picture
    from cortado.run.silicon.place import is_probe

    return (None if is_probe(on) else example_picture(artifact.report)) or artifact.example()


def _samples(arguments: argparse.Namespace, artifact: "Artifact", on: str | None) -> "Samples":
    if arguments.recording is None:
        return [_example(artifact, on)] if arguments.input is None else artifact.read_samples(arguments.input)
    if arguments.input is not None:
        raise CortadoError("an input and a recording were given; give only one of --input and --recording")
    network = zoo_network(artifact.report)
    if network is None:
        raise CortadoError(f"{artifact.report.model} is not a zoo network that takes sound; give --input")
    return [[value.numpy() for value in network.hear(arguments.recording)]]


def zoo_network(report: "Report") -> "Network | None":
    """Returns the network of the zoo that was compiled, if it was one and still exists."""
    from cortado.models import zoo

    return zoo.get(report.zoo) if report.zoo in zoo.names() else None


def opened(arguments: argparse.Namespace, folder: Path | None = None) -> "Artifact":
    """Opens the model that a command names, for the core of --target; by default the one in its folder argument."""
    from cortado.artifact.opened import Artifact
    from cortado.base.target import from_target_string

    targets = [] if arguments.target is None else [from_target_string(arguments.target)]
    folder = folder_of(arguments.folder, targets, arguments.method) if folder is None else folder
    artifact = Artifact.open(folder, trust=arguments.trust)
    return artifact.for_target(targets[0]) if targets else artifact


def folder_of(folder: Path, targets: list["CortexMTargetConfig"], method: str | None = None) -> Path:
    """Returns the model's folder: among several targets, that of the only one asked for; among several methods, that of
    the one named."""
    from cortado.artifact.folder import METHODS, compiled_inside

    known = sorted(path.name for path in (folder / METHODS).glob("*") if path.is_dir())
    if method is not None or known:
        if method not in known:
            found = f"--method {method}" if method is not None else f"{folder} without --method"
            has = f"expected one of {', '.join(known)}" if known else f"{folder} has no methods"
            raise CortadoError(f"{found}: {has}")
        return folder / METHODS / method
    inside = {path.name: path for path in compiled_inside(folder)}
    return inside.get(targets[0].target_string, folder) if len(targets) == 1 else folder


def _run_lone_pte(arguments: argparse.Namespace) -> None:
    """Runs a .pte that has no folder: its expected outputs are unknown, so it is run but not checked."""
    from cortado.artifact.manifest import digest, is_remembered
    from cortado.base.arrays import read_arrays
    from cortado.base.target import from_target_string
    from cortado.pte.info import require_target
    from cortado.pte.reader import read_pte_file
    from cortado.run.doctor import require
    from cortado.run.executorch_host import FLOAT_TEMP_BYTES, TIMEOUT_SECONDS, run_pte
    from cortado.run.runner import EXECUTORCH, RunLimits
    from cortado.run.toolchain import Tool

    info = read_pte_file(arguments.folder)
    if arguments.target is not None:
        require_target(info, from_target_string(arguments.target).target_string, str(arguments.folder))
    if arguments.on not in (None, EXECUTORCH):
        raise CortadoError(f"{arguments.folder} is a .pte: it runs on executorch, not on {arguments.on}")
    if arguments.sequence is not None:
        raise CortadoError(
            f"{arguments.folder} is a .pte by itself: give it one sequence at a time, without --sequence"
        )
    if arguments.input is None:
        raise CortadoError(
            f"there is no report.json beside {arguments.folder}, so no example input: give one with --input"
        )
    if not arguments.trust and not is_remembered(digest(arguments.folder.read_bytes())):
        raise CortadoError(
            f"{arguments.folder} was not compiled by this installation, and the ExecuTorch runtime that would run it "
            "on this machine is not safe against hostile files. `cortado inspect` shows what it holds; if you trust "
            "its maker, add --trust"
        )
    require((Tool.CC, Tool.CXX))
    sample = list(read_arrays(arguments.input).values())
    seconds = RunLimits(seconds=arguments.timeout).seconds or TIMEOUT_SECONDS
    outputs = run_pte(arguments.folder, [sample], temp_bytes=FLOAT_TEMP_BYTES, timeout=seconds)[0]
    values = {f"output{position}": value for position, value in enumerate(outputs)}
    if arguments.output is not None:
        _write_outputs(arguments.output, values)
    target = None if info.metadata is None else info.metadata.target
    if arguments.json:
        lists = {name: value.tolist() for name, value in values.items()}
        record = {"board": EXECUTORCH, "target": target, "bit_exact": None, "instructions": None, "outputs": lists}
        print(json.dumps(record))
        return
    lines = [f"{arguments.folder.name} on {EXECUTORCH}"]
    for name, value in values.items():
        lines += _scores(f"output {name}: " if len(values) > 1 else "", value, None)
    print("\n".join([*lines, "not checked: there is no reference beside the file"]))


def _check_output(artifact: "Artifact", path: Path) -> None:
    count = len(artifact.report.outputs)
    if path.suffix not in (".npy", ".npz"):
        raise CortadoError(f"can't write {path}: expected a .npy file, or .npz for several outputs")
    if path.suffix == ".npy" and count != 1:
        raise CortadoError(f"can't write {path}: the model has {count} outputs; write them to a .npz file")
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise CortadoError(f"can't write {path}: expected a file name in a folder that exists")


def _write_outputs(path: Path, values: dict[str, Any]) -> None:
    import numpy as np

    from cortado.artifact.folder import write_file

    stream = io.BytesIO()
    if path.suffix == ".npy":
        np.save(stream, next(iter(values.values())), allow_pickle=False)
    else:
        np.savez(stream, allow_pickle=False, **values)
    write_file(path, stream.getvalue())


def _run_json(
    artifact: "Artifact", checked: "Checked", timing: "Timing | None", values: dict[str, Any], recording: str | None
) -> dict[str, Any]:
    return {
        "board": checked.result.on,
        "target": artifact.report.target,
        "samples": len(checked.result.samples),
        "bit_exact": checked.bit_exact if checked.compared else None,
        "instructions": checked.result.instructions,
        "cycles": None if timing is None else cycles_json(timing.total.cycles),
        "milliseconds": None if timing is None else milliseconds_json(timing),
        "measured": silicon_json(checked.result.silicon),
        "stack_bytes": checked.result.stack_bytes,
        "recording": recording,
        "outputs": {name: value.tolist() for name, value in values.items()},
    }


def _run_text(
    artifact: "Artifact", checked: "Checked", timing: "Timing | None", values: dict[str, Any], recording: str | None
) -> str:
    from cortado.run.runner import EXECUTORCH

    result, report = checked.result, artifact.report
    lines = [f"{report.model} for {report.target} on {result.on}"]
    count = len(result.samples)
    for name, value in values.items():
        prefix = f"output {name}: " if len(values) > 1 else ""
        show = partial(_each, count) if count > 1 else _scores
        lines += show(prefix, value, report.labels)
    lines += _meaning(report, recording)
    lines.append(_verdict(checked))
    if result.on == EXECUTORCH and report.pte is not None:
        lines.append(f".pte {pte_size(report.pte)}")
    elif report.memory is not None and report.flash is not None:
        lines.append(_sizes_text(report.memory, report.flash, result.stack_bytes))
    if result.instructions is not None:
        per_mac = f", {result.instructions / report.macs:.2f} per multiply-accumulate" if report.macs else ""
        first = " for the first sample" if count > 1 else ""
        lines.append(f"{result.instructions:,} instructions{first}{per_mac} (exact)")
    if result.silicon is not None:
        lines += silicon_lines(result.silicon)
    if result.pushes:
        lines.append(_pushes_text(report, result.pushes))
    if timing is not None:
        lines += cycles_text(timing)
    return "\n".join(lines)


def _pushes_text(report: "Report", pushes: Sequence[int]) -> str:
    """Describes the cost of a row, for an input that comes row by row."""
    text = f"row by row: at most {max(pushes):,} instructions in one push"
    if report.stream is None:
        return text
    return f"{text}, {sum(pushes[-report.stream.hop_rows :]):,} for one output of the stream"


def _meaning(report: "Report", recording: str | None) -> list[str]:
    """Explains the result of a network of the zoo."""
    lines = [] if recording is None else [_spoken(recording)]
    network = zoo_network(report)
    if network is not None:
        figures = network.accuracy()
        lines.append(
            "(random weights: the result means nothing)"
            if figures is None
            else f"{network.name} on its {figures.samples} test samples: {figures.beside(report.arithmetic)}"
        )
    return lines


def _spoken(recording: str) -> str:
    """Says what was spoken in a recording, if known."""
    own = Path(recording).suffix == ".wav"
    return f"recording: {recording}" if own else f"spoken: {recording} (a recording that comes with Cortado)"


def _sizes_text(memory: "MemoryReport", flash: "FlashReport", stack_bytes: int | None) -> str:
    stack = f" + {stack_bytes:,} of stack" if stack_bytes is not None else ""
    total = flash.weights_bytes + (flash.code_bytes or 0)
    without = "" if flash.code_bytes is not None else " without code"
    return f"RAM {memory.arena_bytes:,} bytes{stack}, flash {total:,} bytes{without}"


def _verdict(checked: "Checked") -> str:
    count = len(checked.result.samples)
    if not checked.compared:
        return "not compared with the reference, which needs torch (pip install 'cortado[compile]')"
    if checked.bit_exact:
        return "bit-exact with the reference" + (f", all {count} samples" if count > 1 else "")
    if checked.tolerance == 0:
        some = f" in {count - checked.exact_samples} of {count} samples" if count > 1 else ""
        return f"NOT bit-exact with the reference{some}"
    word = "as close to the reference as float operators are" if checked.right else "NOT close to the reference"
    found, most = (f"{100 * part:.2g}%" for part in (checked.difference, checked.tolerance))
    return f"{word}: within {found} of the largest output (expected {most})"


def _each(count: int, prefix: str, value: Any, labels: Sequence[str] | None) -> list[str]:
    """Describes each of the first samples in a line: its best class, or its range."""
    shown = value.reshape(count, -1, *value.shape[1:])[:MOST_SHOWN]
    lines = [_scores(prefix, sample, labels) for sample in shown]
    best = [f" {line[1].split()[0]}" if len(line) > 1 else "" for line in lines]
    more = [f"and {count - MOST_SHOWN} more; --output writes them all"] if count > MOST_SHOWN else []
    each = enumerate(zip(lines, best, strict=True))
    return [*(f"sample {number}: {line[0]}{score}" for number, (line, score) in each), *more]


def _scores(prefix: str, value: Any, labels: Sequence[str] | None) -> list[str]:
    """Describes an output: the five best classes of a classifier, a few integers or truth values themselves, or else
    its range."""
    flat = value.reshape(-1).astype("float64")
    if value.dtype.kind != "f" and flat.size <= 16:
        return [f"{prefix or 'output '}{value.tolist()}"]
    if value.ndim != 2 or value.shape[0] != 1 or flat.size < 2:
        return [f"{prefix or 'output '}{list(value.shape)}, {flat.min():.4g} .. {flat.max():.4g}"]
    named = labels if labels is not None and len(labels) == flat.size else [f"class {i}" for i in range(flat.size)]
    best = sorted(range(flat.size), key=lambda i: -flat[i])[:5]
    return [f"{prefix}top-1: {named[best[0]]}", *(f"  {flat[i]:9.4f}  {named[i]}" for i in best)]
