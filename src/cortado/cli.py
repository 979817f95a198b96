"""The command line. Thin: every command is a few calls; torch is imported only by commands that need it."""

import argparse
import json
import logging
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cortado import __version__
from cortado.errors import CortadoError, WrongResult

EXIT_WRONG_RESULT, EXIT_USER = 1, 2


def main(argv: Sequence[str] | None = None) -> int:
    # torch logs deprecations of its own libraries that a user can do nothing about.
    logging.getLogger("torch.utils._pytree").setLevel(logging.ERROR)
    parser = _parser()
    arguments = parser.parse_args(argv)
    if not hasattr(arguments, "command"):
        parser.print_help()
        return EXIT_USER
    try:
        return int(arguments.command(arguments))
    except WrongResult as error:
        print(f"cortado: {error}", file=sys.stderr)
        return EXIT_WRONG_RESULT
    except CortadoError as error:
        print(f"cortado: {error}", file=sys.stderr)
        return EXIT_USER
    except KeyboardInterrupt:
        print("cortado: interrupted", file=sys.stderr)
        return EXIT_USER


# ---- arguments ----------------------------------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="cortado", description="Compiles PyTorch models ahead of time for Arm Cortex-M microcontrollers."
    )
    parser.add_argument("--version", action="version", version=f"cortado {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    _compile_arguments(commands)
    _run_arguments(commands)
    targets = _add(commands, "targets", "the cores Cortado compiles for", _targets)
    targets.add_argument("--json", action="store_true", help="as JSON")
    networks = _add(commands, "zoo", "the networks that come with Cortado", _zoo)
    networks.add_argument("--json", action="store_true", help="as JSON")
    doctor = _add(commands, "doctor", "what is installed, what is missing, and how to install it", _doctor)
    doctor.add_argument("--json", action="store_true", help="as JSON")
    inspect = _add(commands, "inspect", "what a .pte file holds", _inspect)
    inspect.add_argument("file", type=Path, metavar="FILE.pte")
    inspect.add_argument("--target", "-t", help="fail unless the file is for this target")
    inspect.add_argument("--json", action="store_true", help="as JSON")
    plan = _add(commands, "plan", "place buffers of a memory-planning problem (CSV)", _plan)
    plan.add_argument("file", type=Path, metavar="PROBLEM.csv")
    plan.add_argument("--output", "-o", type=Path, help="write the plan as CSV here (default: standard output)")
    return parser


def _add(
    commands: Any, name: str, text: str, command: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    parser.set_defaults(command=command)
    return parser


def _compile_arguments(commands: Any) -> None:
    parser = _add(commands, "compile", "compile a model for a target", _compile)
    parser.add_argument(
        "model",
        nargs="?",
        metavar="MODEL",
        help="a zoo name, file.py, file.py:function, package.module:function or exported.pt2",
    )
    parser.add_argument("-m", "--model-name", "--model_name", metavar="MODEL", help="the same, as an option")
    parser.add_argument("-t", "--target", default="cortex-m", help="a core, several with commas, or cortex-m (any)")
    parser.add_argument("-o", "--output", type=Path, help="the folder to write (default: build/MODEL)")
    parser.add_argument(
        "--calibration", "--calibration-data", "--calibration_data", metavar="DATA", help="file, folder, file.py:function"
    )
    parser.add_argument("-q", "--quantize", action="store_true", help="accepted for compatibility: always on")
    parser.add_argument("-i", "--intermediates", type=Path, metavar="DIR", help="write the graph after each pass here")
    parser.add_argument("--name", help="the model's name in files and symbols")
    parser.add_argument("--json", action="store_true", help="print report.json")


def _run_arguments(commands: Any) -> None:
    parser = _add(commands, "run", "run a compiled model and check it against its reference", _run)
    parser.add_argument("folder", type=Path, metavar="DIR", help="what `cortado compile` wrote")
    parser.add_argument("--on", help="host, or an emulated board (default: the target's)")
    parser.add_argument("--input", type=Path, metavar="X.npy", help="one input, or .npz with one array per input")
    parser.add_argument("--output", type=Path, metavar="Y.npy", help="write the output here (.npz for several)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


# ---- compile -------------------------------------------------------------------------------------------------------


class _Progress:
    """A status line on a terminal, plain lines otherwise; always on standard error."""

    def __init__(self) -> None:
        self.start = time.monotonic()
        self.status: Any = None
        if sys.stderr.isatty():
            from rich.console import Console

            self.status = Console(stderr=True).status("starting")
            self.status.start()

    def __call__(self, phase: str) -> None:
        if self.status is not None:
            self.status.update(f"{phase} ...")
        else:
            print(f"[{time.monotonic() - self.start:6.1f} s] {phase}", file=sys.stderr)

    def stop(self) -> None:
        if self.status is not None:
            self.status.stop()


def _compile(arguments: argparse.Namespace) -> int:
    from cortado.target import from_target_string

    spec = arguments.model or arguments.model_name
    if spec is None:
        raise CortadoError("no model: name one, as in `cortado compile ds_cnn` (see `cortado zoo`)")
    targets = [from_target_string(text) for text in arguments.target.split(",")]
    progress = _Progress()
    try:
        progress("load")
        reports = _compile_all(arguments, spec, targets, progress)
    finally:
        progress.stop()
    if arguments.json:
        print(json.dumps(reports[0] if len(reports) == 1 else reports, indent=2))
    else:
        for report in reports:
            print(_summary(report))
    return 0


def _compile_all(arguments: argparse.Namespace, spec: str, targets: list[Any], progress: _Progress) -> list[Any]:
    from cortado.api import prepare
    from cortado.models import load_calibration, load_model

    source = load_model(spec)
    name = arguments.name or source.name
    batches = load_calibration(arguments.calibration, source)
    model = prepare(
        source.model, source.example_inputs, batches, name=name, labels=source.labels, progress=progress
    )
    reports = []
    for target in targets:
        folder = arguments.output or Path("build") / name
        if len(targets) > 1:
            folder = folder / target.target_string
        compiled = model.compile(target, intermediates=arguments.intermediates)
        progress("write")
        artifact = compiled.save(folder)
        reports.append({**artifact.report, "folder": str(folder)})
    return reports


def _summary(report: dict[str, Any]) -> str:
    memory, flash, pte = report["memory"], report["flash"], report["pte"]
    optimal = "proven minimal" if memory["optimal"] else f"lower bound {memory['lower_bound_bytes']:,}"
    code = "unknown (no arm-none-eabi-gcc)" if flash["code_bytes"] is None else f"{flash['code_bytes']:,} bytes"
    rows = [
        ("model", f"{report['model']} for {report['target']}, {report['macs']:,} multiply-accumulates"),
        ("RAM", f"{memory['arena_bytes']:,} bytes of arena, inputs and outputs included ({optimal})"),
        ("flash", f"{flash['weights_bytes']:,} bytes of constants + {code} of code"),
    ]
    if pte is not None:
        rows.append((".pte", f"{pte['bytes']:,} bytes, arena {pte['arena_bytes']:,} bytes"))
    operators = ", ".join(f"{count} {name.split('::')[1]}" for name, count in report["operators"].items())
    rows.append(("operators", operators))
    rows.append(("written to", report["folder"]))
    return "\n".join(f"{label:>11}  {text}" for label, text in rows)


# ---- run -----------------------------------------------------------------------------------------------------------


def _run(arguments: argparse.Namespace) -> int:
    from cortado.artifact import Artifact

    artifact = Artifact.open(arguments.folder)
    inputs = _read_inputs(artifact, arguments.input)
    checked = artifact.run([inputs], arguments.on)
    outputs = checked.result.samples[0]
    if arguments.output is not None:
        _write_outputs(artifact, arguments.output, outputs)
    if arguments.json:
        print(json.dumps(_run_json(artifact, checked, outputs)))
    else:
        print(_run_text(artifact, checked, outputs))
    if not checked.bit_exact:
        raise WrongResult(f"the output on {checked.result.on} differs from the reference")
    return 0


def _read_inputs(artifact: Any, path: Path | None) -> list[Any]:
    import numpy as np

    if path is None:
        return list(artifact.example())
    if not path.is_file():
        raise CortadoError(f"there is no input file {path}")
    if path.suffix not in (".npy", ".npz"):
        raise CortadoError(f"{path}: expected a .npy file, or .npz for several inputs")
    try:
        loaded = np.load(path, allow_pickle=False)
        arrays = [loaded] if path.suffix == ".npy" else [loaded[name] for name in loaded.files]
    except (ValueError, OSError, EOFError) as error:
        raise CortadoError(f"{path} is not a readable {path.suffix} file: {error}") from error
    expected = len(artifact.report["inputs"])
    if len(arrays) != expected:
        raise CortadoError(f"{path} holds {len(arrays)} arrays, the model has {expected} inputs")
    for position, array in enumerate(arrays):
        artifact.check_input(position, array, str(path))
    return arrays


def _dequantized(artifact: Any, outputs: list[Any]) -> list[Any]:
    import numpy as np

    values = []
    for tensor, codes in zip(artifact.report["outputs"], outputs, strict=True):
        real = codes if tensor["scale"] is None else (codes.astype(np.float32) - tensor["zero_point"]) * tensor["scale"]
        values.append(real.astype(np.float32))
    return values


def _write_outputs(artifact: Any, path: Path, outputs: list[Any]) -> None:
    import numpy as np

    values = _dequantized(artifact, outputs)
    if path.suffix == ".npy" and len(values) != 1:
        raise CortadoError(f"the model has {len(values)} outputs; write them to a .npz file, not {path}")
    if path.suffix not in (".npy", ".npz"):
        raise CortadoError(f"can't write {path}: expected a .npy file, or .npz for several outputs")
    try:
        if path.suffix == ".npy":
            np.save(path, values[0], allow_pickle=False)
        else:
            names = [tensor["name"] for tensor in artifact.report["outputs"]]
            np.savez(path, allow_pickle=False, **dict(zip(names, values, strict=True)))
    except OSError as error:
        raise CortadoError(f"can't write {path}: {error.strerror}") from error


def _run_json(artifact: Any, checked: Any, outputs: list[Any]) -> dict[str, Any]:
    values = _dequantized(artifact, outputs)
    names = [tensor["name"] for tensor in artifact.report["outputs"]]
    return {
        "board": checked.result.on,
        "target": artifact.report["target"],
        "bit_exact": checked.bit_exact,
        "instructions": checked.result.instructions,
        "stack_bytes": checked.result.stack_bytes,
        "outputs": {name: value.tolist() for name, value in zip(names, values, strict=True)},
    }


def _run_text(artifact: Any, checked: Any, outputs: list[Any]) -> str:
    result, report = checked.result, artifact.report
    lines = [f"{report['model']} for {report['target']} on {result.on}"]
    for tensor, value in zip(report["outputs"], _dequantized(artifact, outputs), strict=True):
        lines += _scores(tensor["name"], value, report["labels"])
    lines.append("bit-exact with the reference" if checked.bit_exact else "NOT bit-exact with the reference")
    stack = f" + {result.stack_bytes:,} of stack" if result.stack_bytes is not None else ""
    flash = report["flash"]["weights_bytes"] + (report["flash"]["code_bytes"] or 0)
    lines.append(f"RAM {report['memory']['arena_bytes']:,} bytes{stack}, flash {flash:,} bytes")
    if result.instructions is not None:
        per_mac = f", {result.instructions / report['macs']:.2f} per multiply-accumulate" if report["macs"] else ""
        lines.append(f"{result.instructions:,} instructions{per_mac} (exact; instructions are not cycles)")
    return "\n".join(lines)


def _scores(name: str, value: Any, labels: list[str] | None) -> list[str]:
    """The five best classes of a classifier, the range of anything else."""
    flat = value.reshape(-1)
    if value.ndim != 2 or value.shape[0] != 1 or flat.size < 2:
        return [f"output {name} {list(value.shape)}: {flat.min():.4g} .. {flat.max():.4g}"]
    best = sorted(range(flat.size), key=lambda i: -flat[i])[:5]
    names = [labels[i] if labels else f"class {i}" for i in best]
    return [f"top-1: {names[0]}", *(f"  {flat[i]:9.4f}  {label}" for i, label in zip(best, names, strict=True))]


# ---- small commands ---------------------------------------------------------------------------------------------------


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(str(row[i])) for row in [header, *rows]) for i in range(len(header))]
    return "\n".join("  ".join(str(cell).ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in [header, *rows])


def _targets(arguments: argparse.Namespace) -> int:
    from cortado.target import table

    rows = table()
    if arguments.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        cells = [(row.target, row.isa, ", ".join(row.supported), row.board, row.flags) for row in rows]
        print(_table(("TARGET", "ISA", "CAN HAVE", "EMULATED BOARD", "COMPILER FLAGS"), cells))
    return 0


def _zoo(arguments: argparse.Namespace) -> int:
    from cortado import zoo

    rows = [zoo.get(name).describe() for name in zoo.names()]
    if arguments.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        cells = [
            (row.name, f"{row.parameters:,}", f"{row.macs:,}", " ".join(str(list(s)) for s in row.input_shapes), row.summary)
            for row in rows
        ]
        print(_table(("NETWORK", "PARAMETERS", "MACS", "INPUT", "WHAT IT IS"), cells))
    return 0


def _doctor(arguments: argparse.Namespace) -> int:
    from cortado.doctor import check

    items = check()
    missing = [item for item in items if not item.found and not item.optional]
    if arguments.json:
        print(json.dumps([asdict(item) for item in items], indent=2))
    else:
        cells = [
            (item.name, item.version or ("not needed" if item.optional else "MISSING"), item.needed_for, item.fix)
            for item in items
        ]
        print(_table(("TOOL", "FOUND", "NEEDED FOR", "IF MISSING"), cells))
    return EXIT_USER if missing else 0


def _inspect(arguments: argparse.Namespace) -> int:
    from cortado.pte_reader import format_info, info_as_json, read_pte_file, require_target
    from cortado.target import from_target_string

    info = read_pte_file(arguments.file)
    if arguments.target is not None:
        require_target(info, from_target_string(arguments.target).target_string, str(arguments.file))
    print(json.dumps(info_as_json(info), indent=2) if arguments.json else format_info(info))
    return 0


def _plan(arguments: argparse.Namespace) -> int:
    from cortado import memory

    try:
        text = arguments.file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise CortadoError(f"can't read {arguments.file}: {error}") from error
    problem = memory.read_csv(text)
    plan = memory.plan(problem)
    memory.validate(problem, plan)
    result = memory.write_csv(problem, plan)
    proven = "proven minimal" if plan.optimal else f"lower bound {plan.lower_bound:,}"
    print(f"peak {plan.peak:,} bytes ({proven}), {len(problem.buffers)} buffers", file=sys.stderr)
    if arguments.output is None:
        print(result, end="")
        return 0
    try:
        arguments.output.write_text(result)
    except OSError as error:
        raise CortadoError(f"can't write {arguments.output}: {error.strerror}") from error
    return 0


if __name__ == "__main__":
    sys.exit(main())
