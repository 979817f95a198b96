"""The arguments of compile, run, profile, validate, evaluate and compare."""

import argparse
from pathlib import Path
from typing import Any, TypeAlias

from cortado.base.option import Group
from cortado.cli.compare import compare_command
from cortado.cli.compile import compile_command
from cortado.cli.evaluate import evaluate_command
from cortado.cli.events import stream_arguments
from cortado.cli.parsing import (
    add,
    count,
    method_argument,
    number,
    option_arguments,
    part,
    probe_arguments,
    sequence_argument,
    shape_argument,
)
from cortado.cli.profile import profile_command
from cortado.cli.run import run_command
from cortado.cli.validate import validate_command


def run_arguments(commands: Any) -> None:
    parser = add(commands, "run", "run a compiled model and check it against the integer reference", run_command)
    parser.add_argument(
        "folder", type=Path, metavar="DIR", help="the output folder of `cortado compile`, or the .pte in it"
    )
    parser.add_argument(
        "--target", "-t", metavar="TARGET", help="run as on this core; the model must be compiled for it"
    )
    parser.add_argument(
        "--on",
        metavar="PLACE",
        help="host, wasm (WebAssembly), executorch (runs the .pte), an emulated board (default: the target's), or "
        "gdb:HOST:PORT, a chip behind a debug probe's GDB server (docs/hardware.md; plain gdb means "
        "localhost:3333)",
    )
    probe_arguments(parser)
    parser.add_argument(
        "--input",
        type=Path,
        metavar="X.npy",
        help="an input as float32 or int8, or several concatenated along the first dimension; .npz with one array per "
        "input of a model with several (default: a calibration input)",
    )
    parser.add_argument(
        "--recording",
        metavar="WORD",
        help="for ds_cnn: one of its bundled recordings (`yes`, `stop`), or your own mono .wav file at 16 kHz; its "
        "features become the input",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="Y.npy",
        help="write the outputs here as float32, concatenated if there are several inputs; .npz for several outputs",
    )
    sequence_argument(parser, "the input")
    _saturation_argument(parser)
    _chip_argument(parser)
    _timeout_argument(parser, "give up")
    parser.add_argument(
        "--max-instructions",
        type=int,
        metavar="N",
        help="give up on a sample on an emulated board after this many instructions (default: 20,000,000,000)",
    )
    _trust_argument(parser)


def _timeout_argument(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument(
        "--timeout",
        type=number,
        metavar="SECONDS",
        help=f"{what} after this wall-clock time (default: never on an emulated board; per sample two "
        "minutes on host and ten on executorch; with --on gdb one minute, five to load, one without an answer)",
    )


def _further_place_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--on",
        metavar="PLACE",
        help="also run on a chip behind a debug probe, all samples in one session (gdb:HOST:PORT; docs/hardware.md), "
        "or as WebAssembly (wasm)",
    )
    parser.add_argument("--chip", metavar="CHIP", help="with --on gdb: the chip (default: the one given to `compile`)")
    probe_arguments(parser)
    _timeout_argument(parser, "give up on a place")
    _trust_argument(parser)


def _saturation_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--saturation",
        action="store_true",
        help="count the values of each tensor at either end of its integer range, using the reference (at most 256 "
        "samples)",
    )


def profile_arguments(commands: Any) -> None:
    text = "show instructions and cycles of a compiled model by layer, and what they are spent on"
    parser = add(commands, "profile", text, profile_command)
    parser.add_argument("folder", type=Path, metavar="DIR", help="the output folder of `cortado compile`")
    parser.add_argument(
        "--target", "-t", metavar="TARGET", help="profile as on this core; the model must be compiled for it"
    )
    parser.add_argument(
        "--on",
        metavar="BOARD",
        help="an emulated board (default: the target's), or gdb:HOST:PORT for cycles measured on a chip behind a "
        "debug probe next to the model's (docs/hardware.md)",
    )
    _chip_argument(parser)
    probe_arguments(parser)
    parser.add_argument(
        "--contribute",
        type=Path,
        metavar="FILE",
        help="with --on gdb: write what a maintainer needs to check the core's cycle model: chip, memory and cycles "
        "per step, but no weights or names",
    )
    parser.add_argument(
        "--timeout",
        type=number,
        metavar="SECONDS",
        help="with --on gdb: give up on loading or a run after this time (default: 300 and 60 seconds, and 60 without "
        "an answer)",
    )
    parser.add_argument(
        "--input", type=Path, metavar="X.npy", help="an input, as for `run`; only the first of several is used"
    )
    parser.add_argument("--csv", action="store_true", help="print CSV, one line per layer")
    _save_argument(parser)
    _trust_argument(parser)


def _save_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--save", action="store_true", help="also write the figures into the folder's report.json and report.html"
    )


def _chip_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--chip",
        metavar="CHIP",
        help="a chip or board listed by `cortado chips`: show cycles as milliseconds at its clock (default: the one "
        "given to `compile`)",
    )


def _trust_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--trust",
        action="store_true",
        help="run the folder's code on this machine even though another installation compiled it (see SECURITY.md)",
    )
    method_argument(parser)


def validate_arguments(commands: Any) -> None:
    text = "compare the float model, the integer reference, C on this machine, boards and ExecuTorch on your data"
    parser = add(commands, "validate", text, validate_command)
    parser.add_argument("folder", type=Path, metavar="DIR", help="the output folder of `cortado compile`")
    parser.add_argument(
        "--target",
        "-t",
        metavar="TARGET",
        help="the core whose board to run on; several separated by commas (default: the model's target; for a model "
        "for any core, one of each kind)",
    )
    parser.add_argument(
        "--inputs",
        type=Path,
        metavar="DATA.npz",
        help="samples concatenated along the first dimension, as float32 or int8: .npy, or .npz with one array per "
        "input (default: one calibration input)",
    )
    _labels_argument(parser)
    sequence_argument(parser, "the data")
    parser.add_argument(
        "--per-layer",
        "--per_layer",
        action="store_true",
        help="also compare every layer: report the first that differs, and how far each is from the float model",
    )
    _save_argument(parser)
    _float_model_argument(parser)
    _threshold_arguments(parser)
    _further_place_arguments(parser)


def _float_model_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model",
        metavar="MODEL",
        help="the float model, given as for `cortado compile` (default: the network of the zoo that was compiled)",
    )


def evaluate_arguments(commands: Any) -> None:
    parser = add(commands, "evaluate", "score a compiled model and its float model on a dataset", evaluate_command)
    parser.add_argument("folder", type=Path, metavar="DIR", help="the output folder of `cortado compile`")
    parser.add_argument(
        "--data",
        type=Path,
        metavar="X.npz",
        help="samples concatenated along the first dimension, as float32 or int8: .npy, or .npz with one array per "
        "input (default: the test set of a trained network of the zoo)",
    )
    _labels_argument(parser)
    _float_model_argument(parser)
    parser.add_argument(
        "--reconstruction",
        action="store_true",
        help="the model reconstructs its input: a sample's score is the reconstruction error, and labels are 0 for "
        "normal samples, 1 for others",
    )
    _saturation_argument(parser)
    sequence_argument(parser, "the data")
    parser.add_argument("--limit", type=count, metavar="N", help="use only the first N samples")
    parser.add_argument(
        "--top-k", type=count, metavar="K", help="also report how often the right class is among the best K"
    )
    parser.add_argument(
        "--strange",
        type=Path,
        metavar="FILE",
        help="for a model with --watch: samples of another kind, as for --data; report how well the surprise "
        "separates them",
    )
    parser.add_argument(
        "--board-samples",
        type=count,
        metavar="N",
        default=0,
        help="also run N samples on the target's emulated board and require the same bits",
    )
    parser.add_argument("--target", "-t", metavar="TARGET", help="the core whose board to run on")
    _save_argument(parser)
    _threshold_arguments(parser)
    stream_arguments(parser)
    _further_place_arguments(parser)


def compare_arguments(commands: Any) -> None:
    text = "compare two or more compiles side by side: RAM, flash, time, options and layers that differ"
    parser = add(commands, "compare", text, compare_command)
    parser.add_argument(
        "models",
        nargs="+",
        type=Path,
        metavar="DIR",
        help="the output of `cortado compile`: a folder, a folder with one for each of several targets, or a "
        "report.json",
    )
    parser.add_argument("--html", type=Path, metavar="FILE", help="also write the comparison as an HTML page")


def _labels_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--labels",
        type=Path,
        metavar="Y.npy",
        help="the correct class of each sample: .npy, .npz, or .txt with one per line; 0 or 1 for a model with a "
        "single score. Without labels, outputs are only compared with the float model's",
    )


def _threshold_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--min-accuracy", type=part, metavar="PART", help="exit with code 1 if the accuracy is lower, as in 0.9 or 90%%"
    )
    parser.add_argument(
        "--max-drop",
        type=part,
        metavar="PART",
        help="exit with code 1 if the float model is better by more, as in 0.01 or 1%%",
    )
    parser.add_argument(
        "--min-sqnr",
        type=number,
        metavar="DB",
        help="exit with code 1 if any output's signal-to-noise ratio against float is lower",
    )


# ---- compile ---------------------------------------------------------------------------------------------------------


Arguments: TypeAlias = argparse._ArgumentGroup


def compile_arguments(commands: Any) -> None:
    """Adds the command, with its arguments in groups, the most common first."""
    parser = add(commands, "compile", "compile a model for a target", compile_command)
    _model_arguments(parser.add_argument_group("what to compile"))
    own = {Group.TARGET: _target_argument, Group.CALIBRATION: _calibration_arguments, Group.WRITTEN: _folder_arguments}
    for group in Group:
        arguments = parser.add_argument_group(group.value)
        if group in own:
            own[group](arguments)
        option_arguments(arguments, group)


def _model_arguments(parser: Arguments) -> None:
    parser.add_argument(
        "model",
        nargs="*",
        metavar="MODEL",
        help="a network of the zoo, file.py, file.py:function, package.module:function, exported.pt2 or model.onnx; "
        "several with --together",
    )
    parser.add_argument("-m", "--model-name", "--model_name", metavar="MODEL", help="the same, as an option")
    parser.add_argument("--name", metavar="NAME", help="the model's name in files and C symbols")
    parser.add_argument(
        "--labels",
        metavar="NAMES",
        help="the names of a classifier's classes, in order: a .txt file with one per line, or names separated by "
        "commas (default for the zoo's networks: their own)",
    )
    shape_argument(parser)
    parser.add_argument(
        "--together",
        type=Path,
        metavar="DIR",
        help="write all models as one C program that holds the kernels once, with an arena per model, or one arena "
        "for all models without state (--shared-arena; docs/firmware.md). NAME=MODEL names a model; "
        "--calibration takes one data set per model, separated by commas",
    )
    parser.add_argument(
        "--shared-arena",
        action="store_true",
        help="with --together: share one arena, as large as the largest; running a model then overwrites the inputs "
        "and outputs of the others (default: an arena per model)",
    )


def _target_argument(parser: Arguments) -> None:
    parser.add_argument(
        "-t",
        "--target",
        metavar="TARGET",
        help="a core, several separated by commas, or cortex-m (the default): one artifact that runs on all of them",
    )


def _calibration_arguments(parser: Arguments) -> None:
    parser.add_argument(
        "--calibration",
        "--calibration-data",
        "--calibration_data",
        metavar="DATA",
        help="representative inputs: a .npy, .npz or .pt file, a folder of these, file.py:function, or 'random'",
    )
    parser.add_argument("-q", "--quantize", action="store_true", help="accepted for compatibility; always on")


def _folder_arguments(parser: Arguments) -> None:
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="the folder to write (default: build/NAME)")
    parser.add_argument("-i", "--intermediates", type=Path, metavar="DIR", help="write the graph after each pass here")
