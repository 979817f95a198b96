"""The command line. Thin: every command is a few calls; torch is imported only by commands that need it."""

import argparse
import contextlib
import io
import json
import logging
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cortado import __version__
from cortado.errors import CortadoError, CortadoWarning, WrongResult

if TYPE_CHECKING:
    from cortado.api import Compiled, Options
    from cortado.artifact import Artifact, Checked
    from cortado.export import FloatModel
    from cortado.models import Source
    from cortado.target import CortexMTargetConfig
    from cortado.validate import Layer, Place, Validation


# What cortado.options knows as enums; written out here because that module imports torch.
OPTIMIZE = ("ram", "balanced", "time")
IO = ("int8", "float")
LINEAR = ("per-channel", "per-tensor")
LAYOUTS = ("model", "nhwc")


MISTAKE = "this is a mistake in Cortado, not yours; please report it with the lines above"


class Exit(IntEnum):
    """What the shell sees; a contract."""

    FINE = 0
    WRONG_RESULT = 1
    USER = 2
    INTERNAL = 70  # a mistake in Cortado itself: neither the user's nor a result
    INTERRUPTED = 130  # by Ctrl-C, as shells say it


def main(argv: Sequence[str] | None = None) -> int:
    # torch logs deprecations of its own libraries that a user can do nothing about.
    logging.getLogger("torch.utils._pytree").setLevel(logging.ERROR)
    parser = make_parser()
    arguments = parser.parse_args(argv)
    if not hasattr(arguments, "command"):
        parser.print_help(sys.stderr)
        return Exit.USER
    try:
        arguments.command(arguments)
        sys.stdout.flush()
        return Exit.FINE
    except BrokenPipeError:
        # The reader went away (`cortado targets | head -1`): the interpreter's last flush must not complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.FINE
    except KeyboardInterrupt:
        return _fail("interrupted", Exit.INTERRUPTED)
    except WrongResult as error:
        return _fail(str(error), Exit.WRONG_RESULT)
    except CortadoError as error:
        return _fail(str(error), Exit.USER)
    except ModuleNotFoundError as error:
        return _missing_module(error)
    except Exception:
        traceback.print_exc()
        return _fail(MISTAKE, Exit.INTERNAL)


def _missing_module(error: ModuleNotFoundError) -> int:
    """A package that this command needs and others don't; anything else is a mistake of ours."""
    from cortado.doctor import PACKAGES

    package = next((package for package in PACKAGES if package.name == (error.name or "").split(".")[0]), None)
    if package is None:
        traceback.print_exc()
        return _fail(MISTAKE, Exit.INTERNAL)
    install = f"pip install {package.name}=={package.pinned}"
    return _fail(f"{package.name} is not installed (needed for {package.needed_for}): {install}", Exit.USER)


def _fail(message: str, code: Exit) -> int:
    print(f"cortado: {message}", file=sys.stderr)
    return code


# ---- arguments ----------------------------------------------------------------------------------------------------


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="cortado",
        description="Compiles PyTorch models ahead of time for Arm Cortex-M microcontrollers.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"cortado {__version__}", help="print the version")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    _compile_arguments(commands)
    _run_arguments(commands)
    _validate_arguments(commands)
    _add(commands, "targets", "the cores Cortado compiles for", _targets)
    _add(commands, "zoo", "the networks that come with Cortado", _zoo)
    ops = _add(commands, "ops", "the operators of the lowered graph and where each can run", _ops)
    ops.add_argument("--markdown", action="store_true", help="print docs/operators.md")
    _add(commands, "doctor", "what is installed, what is missing, and how to install it", _doctor)
    inspect = _add(commands, "inspect", "what a .pte file holds", _inspect)
    inspect.add_argument("file", type=Path, metavar="FILE.pte", help="an ExecuTorch program")
    inspect.add_argument("--target", "-t", metavar="TARGET", help="fail unless the file is for this target")
    plan = _add(commands, "plan", "place the buffers of a memory-planning problem", _plan, json=False)
    plan.add_argument(
        "file",
        type=Path,
        metavar="PROBLEM.csv",
        help="buffers with sizes and lifetimes: the columns id,lower,upper,size or "
        "id,lower_stage,lower_pos,upper_stage,upper_pos,size, and where needed align, overlay_of and lead",
    )
    plan.add_argument(
        "--output", "-o", type=Path, metavar="PLAN.csv", help="write the plan here (default: standard output)"
    )
    return parser


def _add(
    commands: Any, name: str, text: str, command: Callable[[argparse.Namespace], None], json: bool = True
) -> argparse.ArgumentParser:
    about = text[0].upper() + text[1:] + "."
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=about, allow_abbrev=False)
    parser.set_defaults(command=command)
    if json:
        parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _compile_arguments(commands: Any) -> None:
    parser = _add(commands, "compile", "compile a model for a target", _compile)
    parser.add_argument(
        "model",
        nargs="?",
        metavar="MODEL",
        help="a name of the zoo, file.py, file.py:function, package.module:function or exported.pt2",
    )
    parser.add_argument("-m", "--model-name", "--model_name", metavar="MODEL", help="the same, as an option")
    parser.add_argument(
        "-t",
        "--target",
        metavar="TARGET",
        default="cortex-m",
        help="a core, several with commas between them, or cortex-m (the default): one artifact that is right on all",
    )
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="the folder to write (default: build/NAME)")
    parser.add_argument(
        "--calibration",
        "--calibration-data",
        "--calibration_data",
        metavar="DATA",
        help="typical inputs: a .npy, .npz or .pt file, a folder of them, file.py:function, or 'random'",
    )
    parser.add_argument("-q", "--quantize", action="store_true", help="accepted for compatibility: it is always on")
    parser.add_argument("-i", "--intermediates", type=Path, metavar="DIR", help="write the graph after each pass here")
    parser.add_argument("--name", metavar="NAME", help="the model's name in files and C symbols")
    _option_arguments(parser)


def _option_arguments(parser: argparse.ArgumentParser) -> None:
    """What becomes the Options of a compile."""
    parser.add_argument(
        "--optimize",
        choices=OPTIMIZE,
        default="balanced",
        help="ram: the lowest peak; time: layer by layer; balanced (the default): the lowest peak that costs at most "
        "10%% more instructions",
    )
    parser.add_argument(
        "--io", choices=IO, default="int8", help="what the C bundle's inputs and outputs hold (default: int8)"
    )
    parser.add_argument(
        "--input-layout",
        "--input_layout",
        choices=LAYOUTS,
        default="model",
        help="order of the .pte's inputs, and with --io float of the C bundle's: as in the model (default), or nhwc: "
        "images channels last, as a camera gives them. With --io int8 the C bundle's README says its order",
    )
    parser.add_argument(
        "--linear",
        choices=LINEAR,
        default="per-channel",
        help="scales of linear layers' weights (default: per-channel). In the .pte per-channel layers are 1x1 "
        "convolutions: 2.3 times the instructions of per-tensor on a Cortex-M4",
    )
    parser.add_argument(
        "--bundleio", action="store_true", help="also write NAME.bpte: the .pte with inputs and outputs"
    )
    parser.add_argument("--etrecord", action="store_true", help="also write NAME.etrecord, for ExecuTorch's Inspector")
    parser.add_argument(
        "--allow-float",
        "--allow_float",
        action="store_true",
        help="keep what a .pte can't hold in integers as ExecuTorch's float kernels there, and list it",
    )
    parser.add_argument("--ram-budget", metavar="BYTES", help="fail if the arena is larger; 256K and 1M are understood")
    parser.add_argument("--flash-budget", metavar="BYTES", help="fail if constants and code are larger")


def _run_arguments(commands: Any) -> None:
    parser = _add(commands, "run", "run a compiled model and check it against its reference", _run)
    parser.add_argument("folder", type=Path, metavar="DIR", help="what `cortado compile` wrote, or the .pte in it")
    parser.add_argument(
        "--target", "-t", metavar="TARGET", help="run as on this core; the model must have been compiled for it"
    )
    parser.add_argument(
        "--on", metavar="PLACE", help="host, executorch (the .pte), or an emulated board (default: the target's)"
    )
    parser.add_argument(
        "--input",
        type=Path,
        metavar="X.npy",
        help="an input, float32 or int8, or several behind each other along the first dimension; .npz with one array "
        "for each of several inputs (default: a calibration input)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="Y.npy",
        help="write the output here as float32, of several inputs behind each other; .npz for several outputs",
    )
    _trust_argument(parser)


def _trust_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--trust",
        action="store_true",
        help="execute what the folder holds on this machine though another installation compiled it (see SECURITY.md)",
    )


def _validate_arguments(commands: Any) -> None:
    text = "compare float model, integer reference, C on this machine, boards and ExecuTorch on your data"
    parser = _add(commands, "validate", text, _validate)
    parser.add_argument("folder", type=Path, metavar="DIR", help="what `cortado compile` wrote")
    parser.add_argument(
        "--target",
        "-t",
        metavar="TARGET",
        help="the core whose board to run on, several with commas between them (default: the model's own target; of a "
        "model for any core, one of each kind)",
    )
    parser.add_argument(
        "--inputs",
        type=Path,
        metavar="DATA.npz",
        help="samples behind each other along the first dimension, float32 or int8; .npz with one array for each of "
        "several inputs, or .npy (default: one calibration input)",
    )
    parser.add_argument(
        "--per-layer",
        "--per_layer",
        action="store_true",
        help="also compare every layer: the first that differs, and how far each is from the float model",
    )
    parser.add_argument(
        "--model",
        metavar="MODEL",
        help="the float model, named as for `cortado compile` (default: the network of the zoo that was compiled)",
    )
    _trust_argument(parser)


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


def _compile(arguments: argparse.Namespace) -> None:
    from cortado.target import from_target_string

    spec = _model_spec(arguments)
    targets = list(dict.fromkeys(from_target_string(text) for text in arguments.target.split(",")))
    progress = _Progress()
    try:
        # A user's own file may print: standard output is for our result alone.
        with contextlib.redirect_stdout(sys.stderr):
            done = _compile_all(arguments, spec, targets, progress)
    finally:
        progress.stop()
    reports = [report for _, report in done]
    for text in dict.fromkeys(f"{report['model']}: {line}" for report in reports for line in report["warnings"]):
        print(f"warning: {text}", file=sys.stderr)
    if arguments.json:
        print(json.dumps(reports[0] if len(reports) == 1 else reports, indent=2))
    else:
        print("\n\n".join(_summary(folder, report) for folder, report in done))


def _model_spec(arguments: argparse.Namespace) -> str:
    given = [spec for spec in (arguments.model, arguments.model_name) if spec is not None]
    if not given:
        raise CortadoError("no model: name one, as in `cortado compile ds_cnn` (see `cortado zoo`)")
    if len(set(given)) > 1:
        raise CortadoError(f"two models, {given[0]} and {given[1]}: name one")
    return str(given[0])


def _compile_all(
    arguments: argparse.Namespace, spec: str, targets: list["CortexMTargetConfig"], progress: _Progress
) -> list[tuple[Path, dict[str, Any]]]:
    """Compiles for every target, then writes every folder: a target that fails leaves none behind."""
    progress("load")
    from cortado.folder import locked
    from cortado.models import load_model
    from cortado.names import check_name

    options = _options(arguments)
    if arguments.name is not None:
        check_name(arguments.name)
    if arguments.output is not None:
        _check_places(_folders(arguments.output, targets), arguments.intermediates)
    source = load_model(spec)
    name = arguments.name or source.name
    folders = _folders(arguments.output or Path("build") / name, targets)
    _check_places(folders, arguments.intermediates)
    with contextlib.ExitStack() as stack:
        for folder in folders:
            stack.enter_context(locked(folder))
        return _compile_source(arguments, spec, name, source, folders, options, targets, progress)


def _compile_source(
    arguments: argparse.Namespace,
    spec: str,
    name: str,
    source: "Source",
    folders: list[Path],
    options: "Options",
    targets: list["CortexMTargetConfig"],
    progress: _Progress,
) -> list[tuple[Path, dict[str, Any]]]:
    from cortado import zoo
    from cortado.api import prepare
    from cortado.models import load_calibration

    batches = load_calibration(arguments.calibration, source)
    facts = {
        "calibration": {"data": arguments.calibration or "the model's own", "batches": len(batches)},
        "zoo": spec if spec in zoo.names() else None,
    }
    model = prepare(source.model, source.example_inputs, batches, name=name, labels=source.labels, progress=progress)
    compiled: list[Compiled] = []
    for target in targets:
        place = arguments.intermediates
        graphs = place / target.target_string if place is not None and len(targets) > 1 else place
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CortadoWarning)  # they are in the report, and told at the end
            result = model.compile(target, options, graphs)
        compiled.append(replace(result, data={**result.data, **facts}))
    progress("write")
    return [(folder, dict(item.save(folder).report)) for folder, item in zip(folders, compiled, strict=True)]


def _options(arguments: argparse.Namespace) -> "Options":
    from cortado.op import LinearWeights
    from cortado.options import InputLayout, Options, parse_bytes
    from cortado.program import Border
    from cortado.schedule import Optimize

    ram, flash = arguments.ram_budget, arguments.flash_budget
    return Options(
        optimize=Optimize(arguments.optimize),
        border=Border(arguments.io),
        input_layout=InputLayout(arguments.input_layout),
        linear=LinearWeights(arguments.linear),
        bundleio=arguments.bundleio,
        etrecord=arguments.etrecord,
        allow_float=arguments.allow_float,
        ram_budget=None if ram is None else parse_bytes(ram),
        flash_budget=None if flash is None else parse_bytes(flash),
    )


def _folders(output: Path, targets: list["CortexMTargetConfig"]) -> list[Path]:
    return [output] if len(targets) == 1 else [output / target.target_string for target in targets]


def _check_places(folders: list[Path], intermediates: Path | None) -> None:
    """Places that can't be written are found out before the work, not after it."""
    from cortado.folder import check_folder, check_writable
    from cortado.manifest import REPORT

    for folder in folders:
        check_folder(folder)
    if len(folders) > 1 and (folders[0].parent / REPORT).exists():
        raise CortadoError(f"can't write several targets into {folders[0].parent}: it holds one compiled model")
    if intermediates is None:
        return
    check_writable(intermediates)
    for folder in folders:
        if intermediates.resolve().is_relative_to(folder.resolve()):
            raise CortadoError(f"can't write the graphs to {intermediates}: that is inside the output folder {folder}")


def _summary(folder: Path, report: dict[str, Any]) -> str:
    pte = report["pte"]
    rows = _bundle_rows(report)
    if pte is not None:
        rows.append((".pte", _pte_size(pte)))
    rows += [("no .pte", reason) for reason in report["pte_missing"]]
    if report["pte_missing"]:
        rows.append(("", "--allow-float writes the .pte with ExecuTorch's float kernels for this"))
    rows += [("in float", _float_text(item)) for item in report["float_operators"]]
    operators = ", ".join(f"{count} {name.split('::')[1]}" for name, count in report["operators"].items())
    rows.append(("operators", operators))
    if report["calibration"]["data"] == "random":
        rows.append(("warning", "calibrated with random data: sizes and speed are real, results are meaningless"))
    rows.append(("written to", str(folder)))
    return "\n".join(f"{label:>11}  {text}" for label, text in rows)


def _bundle_rows(report: dict[str, Any]) -> list[tuple[str, str]]:
    memory, flash = report["memory"], report["flash"]
    title = f"{report['model']} for {report['target']}"
    if memory is None:
        return [("model", title), *(("no C bundle", reason) for reason in report["bundle_missing"])]
    least = f"no plan of these stages can need less than {memory['lower_bound_bytes']:,}"
    optimal = "no plan of these stages needs less" if memory["optimal"] else least
    return [
        ("model", f"{title}, {report['macs']:,} multiply-accumulates"),
        ("RAM", f"{memory['arena_bytes']:,} bytes of arena, inputs and outputs included ({optimal})"),
        ("flash", f"{flash['weights_bytes']:,} bytes of constants + {_code(report)}"),
    ]


def _pte_size(pte: dict[str, Any]) -> str:
    return f"{pte['bytes']:,} bytes, arena {pte['arena_bytes']:,} bytes"


def _float_text(item: dict[str, Any]) -> str:
    module = f" in module '{item['module']}'" if item["module"] else ""
    source = f" at {item['source']}" if item["source"] else ""
    return f"{item['operator']}{module}{source}, in the .pte: {item['reason']}"


def _code(report: dict[str, Any]) -> str:
    size = report["flash"]["code_bytes"]
    if size is None:
        return "code (unknown without arm-none-eabi-gcc)"
    return f"{'at most ' if report['target'] == 'cortex-m' else ''}{size:,} bytes of code"


# ---- run -----------------------------------------------------------------------------------------------------------


def _run(arguments: argparse.Namespace) -> None:
    from cortado.artifact import Artifact
    from cortado.manifest import REPORT
    from cortado.runner import EXECUTORCH
    from cortado.target import from_target_string

    is_pte = arguments.folder.suffix == ".pte" and arguments.folder.is_file()
    if is_pte and not (arguments.folder.absolute().parent / REPORT).is_file():
        _run_lone_pte(arguments)
        return
    targets = [] if arguments.target is None else [from_target_string(arguments.target)]
    folder = arguments.folder.absolute().parent if is_pte else _folder_of(arguments.folder, targets)
    artifact = Artifact.open(folder, trust=arguments.trust)
    for target in targets:
        artifact = artifact.for_target(target)
    with artifact.guarded():
        _run_artifact(arguments, artifact, EXECUTORCH if is_pte and arguments.on is None else arguments.on)


def _run_artifact(arguments: argparse.Namespace, artifact: "Artifact", on: str | None) -> None:
    from cortado.doctor import require
    from cortado.runner import EXECUTORCH, choose_board
    from cortado.toolchain import Tool

    if on != EXECUTORCH:
        artifact.check_bundle()
    board = choose_board(artifact.info.target, on)
    if board is None:
        artifact.check_trust()
    if arguments.output is not None:
        _check_output(artifact, arguments.output)
    samples = [artifact.example()] if arguments.input is None else artifact.read_samples(arguments.input)
    tools = (Tool.ARM_GCC, Tool.QEMU, Tool.CC) if board is not None else (Tool.CC,)
    require((*tools, Tool.CXX) if on == EXECUTORCH else tools)
    checked = artifact.run(samples, on)
    values = artifact.real_outputs(checked)
    if arguments.output is not None:
        _write_outputs(arguments.output, values)
    print(json.dumps(_run_json(artifact, checked, values)) if arguments.json else _run_text(artifact, checked, values))
    if not checked.right:
        raise WrongResult(f"the output on {checked.result.on} differs from the reference")


def _folder_of(folder: Path, targets: list["CortexMTargetConfig"]) -> Path:
    """Of a folder with one compiled model for each of several targets, that of the only target asked for."""
    from cortado.folder import compiled_inside

    inside = {path.name: path for path in compiled_inside(folder)}
    return inside.get(targets[0].target_string, folder) if len(targets) == 1 else folder


def _run_lone_pte(arguments: argparse.Namespace) -> None:
    """A .pte by itself: nothing beside it says what it must give, so it is run and not checked."""
    from cortado.artifact import read_arrays
    from cortado.doctor import require
    from cortado.executorch_host import FLOAT_TEMP_BYTES, run_pte
    from cortado.manifest import digest, is_remembered
    from cortado.pte_reader import read_pte_file, require_target
    from cortado.runner import EXECUTORCH
    from cortado.target import from_target_string
    from cortado.toolchain import Tool

    info = read_pte_file(arguments.folder)
    if arguments.target is not None:
        require_target(info, from_target_string(arguments.target).target_string, str(arguments.folder))
    if arguments.on not in (None, EXECUTORCH):
        raise CortadoError(f"{arguments.folder} is a .pte: it runs on executorch, not on {arguments.on}")
    if arguments.input is None:
        raise CortadoError(
            f"there is no report.json beside {arguments.folder}, so no example input: give one with --input"
        )
    if not arguments.trust and not is_remembered(digest(arguments.folder.read_bytes())):
        raise CortadoError(
            f"{arguments.folder} was not compiled by this installation, and the ExecuTorch runtime that would run it "
            "on this machine was not written for hostile files. `cortado inspect` shows what it holds; if you trust "
            "its maker, say so with --trust"
        )
    require((Tool.CC, Tool.CXX))
    sample = list(read_arrays(arguments.input).values())
    outputs = run_pte(arguments.folder, [sample], temp_bytes=FLOAT_TEMP_BYTES)[0]
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
    print("\n".join([*lines, "not checked: the folder of the file holds no reference"]))


def _check_output(artifact: "Artifact", path: Path) -> None:
    count = len(artifact.report["outputs"])
    if path.suffix not in (".npy", ".npz"):
        raise CortadoError(f"can't write {path}: expected a .npy file, or .npz for several outputs")
    if path.suffix == ".npy" and count != 1:
        raise CortadoError(f"can't write {path}: the model has {count} outputs; write them to a .npz file")
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise CortadoError(f"can't write {path}: expected a file name in a folder that exists")


def _write_outputs(path: Path, values: dict[str, Any]) -> None:
    import numpy as np

    from cortado.folder import write_file

    stream = io.BytesIO()
    if path.suffix == ".npy":
        np.save(stream, next(iter(values.values())), allow_pickle=False)
    else:
        np.savez(stream, allow_pickle=False, **values)
    write_file(path, stream.getvalue())


def _run_json(artifact: "Artifact", checked: "Checked", values: dict[str, Any]) -> dict[str, Any]:
    return {
        "board": checked.result.on,
        "target": artifact.report["target"],
        "samples": len(checked.expected),
        "bit_exact": checked.bit_exact,
        "instructions": checked.result.instructions,
        "stack_bytes": checked.result.stack_bytes,
        "outputs": {name: value.tolist() for name, value in values.items()},
    }


def _run_text(artifact: "Artifact", checked: "Checked", values: dict[str, Any]) -> str:
    from cortado.runner import EXECUTORCH

    result, report = checked.result, artifact.report
    lines = [f"{report['model']} for {report['target']} on {result.on}"]
    count = len(checked.expected)
    for name, value in values.items():
        prefix = f"output {name}: " if len(values) > 1 else ""
        show = partial(_each, count) if count > 1 else _scores
        lines += show(prefix, value, report["labels"])
    lines.append(_verdict(checked))
    if result.on == EXECUTORCH:
        return "\n".join([*lines, f".pte {_pte_size(report['pte'])}"])
    stack = f" + {result.stack_bytes:,} of stack" if result.stack_bytes is not None else ""
    code = report["flash"]["code_bytes"]
    flash = report["flash"]["weights_bytes"] + (code or 0)
    without = "" if code is not None else " without code"
    lines.append(f"RAM {report['memory']['arena_bytes']:,} bytes{stack}, flash {flash:,} bytes{without}")
    if result.instructions is not None:
        per_mac = f", {result.instructions / report['macs']:.2f} per multiply-accumulate" if report["macs"] else ""
        first = " for the first sample" if count > 1 else ""
        lines.append(f"{result.instructions:,} instructions{first}{per_mac} (exact; instructions are not cycles)")
    return "\n".join(lines)


def _verdict(checked: "Checked") -> str:
    count = len(checked.expected)
    if checked.bit_exact:
        return "bit-exact with the reference" + (f", all {count} samples" if count > 1 else "")
    if checked.tolerance == 0:
        some = f" in {count - checked.exact_samples} of {count} samples" if count > 1 else ""
        return f"NOT bit-exact with the reference{some}"
    word = "as close to the reference as float operators are" if checked.right else "NOT close to the reference"
    found, most = (f"{100 * part:.2g}%" for part in (checked.difference, checked.tolerance))
    return f"{word}: within {found} of the largest output (expected {most})"


def _each(count: int, prefix: str, value: Any, labels: list[str] | None) -> list[str]:
    """One line for each of several samples: its best class, or its range."""
    lines = [_scores(prefix, sample, labels) for sample in value.reshape(count, -1, *value.shape[1:])]
    best = [f" {line[1].split()[0]}" if len(line) > 1 else "" for line in lines]
    return [f"sample {number}: {line[0]}{score}" for number, (line, score) in enumerate(zip(lines, best, strict=True))]


def _scores(prefix: str, value: Any, labels: list[str] | None) -> list[str]:
    """The five best classes of a classifier, the range of anything else."""
    flat = value.reshape(-1).astype("float64")  # booleans can't be sorted by their negatives
    if value.ndim != 2 or value.shape[0] != 1 or flat.size < 2:
        return [f"{prefix or 'output '}{list(value.shape)}, {flat.min():.4g} .. {flat.max():.4g}"]
    named = labels if labels is not None and len(labels) == flat.size else [f"class {i}" for i in range(flat.size)]
    best = sorted(range(flat.size), key=lambda i: -flat[i])[:5]
    return [f"{prefix}top-1: {named[best[0]]}", *(f"  {flat[i]:9.4f}  {named[i]}" for i in best)]


# ---- validate ------------------------------------------------------------------------------------------------------


def _validate(arguments: argparse.Namespace) -> None:
    from cortado.artifact import Artifact
    from cortado.target import from_target_string

    targets = [] if arguments.target is None else [from_target_string(text) for text in arguments.target.split(",")]
    artifact = Artifact.open(_folder_of(arguments.folder, targets), trust=arguments.trust)
    for target in targets:
        artifact.for_target(target)
    artifact.check_trust()
    with artifact.guarded():
        _validate_artifact(arguments, artifact, targets)


def _validate_artifact(
    arguments: argparse.Namespace, artifact: "Artifact", targets: list["CortexMTargetConfig"]
) -> None:
    from cortado.doctor import require
    from cortado.toolchain import Tool

    samples = [artifact.example()] if arguments.inputs is None else artifact.read_samples(arguments.inputs)
    tools = (Tool.ARM_GCC, Tool.QEMU, Tool.CC)
    require(tools if artifact.report["pte"] is None else (*tools, Tool.CXX))
    spec = arguments.model or artifact.report.get("zoo")
    progress = _Progress()
    try:
        # A user's own file may print: standard output is for our result alone.
        with contextlib.redirect_stdout(sys.stderr):
            progress("load")
            from cortado.validate import validate

            floats = None if spec is None else _float_model(artifact, spec)
            found = validate(
                artifact, samples, targets=targets, floats=floats, per_layer=arguments.per_layer, progress=progress
            )
    finally:
        progress.stop()
    if arguments.json:
        print(json.dumps(_validation_json(artifact, found, spec), indent=2))
    else:
        _print_validation(artifact, found, spec)
    problems = found.problems()
    if problems:
        raise WrongResult("\ncortado: ".join(problems))


def _float_model(artifact: "Artifact", spec: str) -> "FloatModel":
    from cortado.models import load_model
    from cortado.validate import float_model

    source = load_model(spec)
    return float_model(artifact, source.model, source.example_inputs)


def _validation_json(artifact: "Artifact", found: "Validation", spec: str | None) -> dict[str, Any]:
    """SQNR in decibels; "exact" where there is no noise at all."""

    def sqnr(value: float | None) -> float | str | None:
        return "exact" if value == float("inf") else value

    places = []
    for place in found.places:
        fidelity = place.fidelity
        places.append(
            {
                "place": place.name,
                "what": place.what,
                "exact_samples": place.exact,
                "close": place.close,
                "sqnr": None if fidelity is None else sqnr(fidelity.sqnr),
                "same_top1": None if fidelity is None else fidelity.same_top1,
                "instructions": place.instructions,
                "fault": place.fault,
            }
        )
    return {
        "model": artifact.report["model"],
        "target": artifact.report["target"],
        "float_model": spec,
        "samples": found.samples,
        "bit_exact": not found.problems(),
        "places": places,
        "layers": [{**asdict(layer), "sqnr": sqnr(layer.sqnr)} for layer in found.layers],
    }


def _print_validation(artifact: "Artifact", found: "Validation", spec: str | None) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # Into a file or a pipe nothing is wrapped or cut.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 250)

    def show(title: str, header: Sequence[str], rows: Sequence[Sequence[Text]]) -> None:
        table = Table(*header, title=title, title_justify="left", box=None, pad_edge=False)
        for row in rows:
            table.add_row(*row)
        console.print(table)

    report = artifact.report
    if found.layers:
        names = list(found.layers[0].differing)
        header = ("LAYER", "OPERATOR", "MODULE", "SQNR", *(name.upper() for name in names))
        rows = [_layer_cells(layer, names, "" if spec is None else "no twin") for layer in found.layers]
        show("values of each layer that are not the reference's", header, rows)
        print()
    title = f"{report['model']} for {report['target']}, {found.samples} sample{'s' if found.samples > 1 else ''}"
    given = "not given: name it with --model" if spec is None else spec
    rows = [[Text("float model"), Text(given)], *(_place_cells(place, found.samples) for place in found.places)]
    show(title, ("PLACE", "WHAT", "BIT-EXACT", "SQNR TO FLOAT", "SAME TOP-1", "INSTRUCTIONS"), rows)


def _layer_cells(layer: "Layer", places: Sequence[str], no_sqnr: str) -> list[Any]:
    from rich.text import Text

    def verdict(count: int) -> Text:
        return Text(f"{count:,} differ", style="red") if count else Text("equal", style="green")

    operator = layer.operator.split("::")[1]
    texts = (layer.name, operator, layer.module, _decibels(layer.sqnr, no_sqnr))
    return [*map(Text, texts), *(verdict(layer.differing[place]) for place in places)]


def _place_cells(place: "Place", samples: int) -> list[Any]:
    from rich.text import Text

    if place.fault is not None:
        exact = Text("fault", style="red")
    elif place.exact is None:
        exact = Text("the measure")
    else:
        good = place.close or place.exact == samples
        exact = Text(
            "close, in float" if place.close else f"{place.exact} of {samples}", style="green" if good else "red"
        )
    fidelity = place.fidelity
    top1 = None if fidelity is None else fidelity.same_top1
    return [
        Text(place.name),
        Text(place.what),
        exact,
        Text("" if fidelity is None else _decibels(fidelity.sqnr, "")),
        Text("" if top1 is None else f"{top1} of {samples}"),
        Text("" if place.instructions is None else f"{place.instructions:,}"),
    ]


def _decibels(value: float | None, missing: str) -> str:
    if value is None:
        return missing
    return "exact" if value == float("inf") else f"{value:.1f} dB"


# ---- small commands ------------------------------------------------------------------------------------------------


def _print_rows(
    as_json: bool, records: Sequence[Any], header: Sequence[str], cells: Callable[[Any], Sequence[str]]
) -> None:
    """Records as a JSON list, or as a table for people."""
    if as_json:
        print(json.dumps([asdict(record) for record in records], indent=2))
        return
    rows = [header, *(cells(record) for record in records)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(header))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _targets(arguments: argparse.Namespace) -> None:
    from cortado.target import table

    header = ("TARGET", "ISA", "CAN HAVE", "EMULATED BOARD", "COMPILER FLAGS")
    _print_rows(
        arguments.json,
        table(),
        header,
        lambda row: (row.target, row.isa, ", ".join(row.supported), row.board, row.flags),
    )


def _zoo(arguments: argparse.Namespace) -> None:
    from cortado import zoo

    _print_rows(
        arguments.json,
        [zoo.get(name).describe() for name in zoo.names()],
        ("NETWORK", "PARAMETERS", "MACS", "INPUT", "WHAT IT IS"),
        lambda row: (
            row.name,
            f"{row.parameters:,}",
            f"{row.macs:,}",
            " ".join(str(list(shape)) for shape in row.input_shapes),
            row.summary,
        ),
    )


def _ops(arguments: argparse.Namespace) -> None:
    from cortado.catalog import as_markdown, entries

    if arguments.markdown:
        print(as_markdown(), end="")
        return
    _print_rows(
        arguments.json,
        entries(),
        ("OPERATOR", ".PTE", "C", "WHAT IT COMPUTES", "CONSTRAINTS"),
        lambda row: (row.operator, "yes" if row.pte else "no", "yes" if row.c else "no", row.summary, row.constraints),
    )


def _doctor(arguments: argparse.Namespace) -> None:
    from cortado.doctor import Item, check
    from cortado.errors import MissingTool

    def state(item: Item) -> str:
        if item.found:
            return str(item.version)
        word = "not installed, optional" if item.optional else "MISSING"
        return word if item.version is None else f"{item.version}: WRONG VERSION"

    items = check()
    header = ("TOOL", "NEEDED FOR", "FOUND")
    _print_rows(arguments.json, items, header, lambda item: (item.name, item.needed_for, state(item)))
    fixes = [item.fix for item in items if not item.found and not item.optional]
    if fixes:
        raise MissingTool("something is missing. Install it with:\n  " + "\n  ".join(dict.fromkeys(fixes)))


def _inspect(arguments: argparse.Namespace) -> None:
    from cortado.pte_reader import format_info, info_as_json, read_pte_file, require_target
    from cortado.target import from_target_string

    info = read_pte_file(arguments.file)
    if arguments.target is not None:
        require_target(info, from_target_string(arguments.target).target_string, str(arguments.file))
    print(json.dumps(info_as_json(info), indent=2) if arguments.json else format_info(info))


def _plan(arguments: argparse.Namespace) -> None:
    from cortado import memory
    from cortado.folder import write_file

    try:
        text = arguments.file.read_text()
    except OSError as error:
        raise CortadoError(f"can't read {arguments.file}: {error.strerror}; expected a CSV file") from error
    except UnicodeDecodeError as error:
        raise CortadoError(f"{arguments.file} is not text; expected a CSV file") from error
    try:
        problem = memory.read_csv(text)
    except CortadoError as error:
        raise CortadoError(f"{arguments.file}: {error}") from error
    plan = memory.plan(problem)
    memory.validate(problem, plan)
    result = memory.write_csv(problem, plan)
    proven = "proven minimal" if plan.optimal else f"lower bound {plan.lower_bound:,}"
    print(f"peak {plan.peak:,} bytes ({proven}), {len(problem.buffers)} buffers", file=sys.stderr)
    if arguments.output is None:
        print(result, end="")
    else:
        write_file(arguments.output, result.encode())


if __name__ == "__main__":
    sys.exit(main())
