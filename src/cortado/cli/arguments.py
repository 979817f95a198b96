"""The arguments of compile, run, profile, validate and evaluate."""

import argparse
from pathlib import Path
from typing import Any

from cortado.cli.cameras import camera_arguments
from cortado.cli.compare import compare_command
from cortado.cli.compile import compile_command
from cortado.cli.evaluate import evaluate_command
from cortado.cli.events import decide_argument, stream_arguments
from cortado.cli.options import shape_argument
from cortado.cli.parsing import add, count, names, number, part
from cortado.cli.places import probe_arguments
from cortado.cli.precision import precision_arguments
from cortado.cli.profile import profile_command
from cortado.cli.run import run_command
from cortado.cli.validate import validate_command
from cortado.options import (
    Artifacts,
    Border,
    CalibrationMethod,
    InputLayout,
    LinearWeights,
    Optimize,
    PteKind,
    StreamPadding,
)


def compile_arguments(commands: Any) -> None:
    parser = add(commands, "compile", "compile a model for a target", compile_command)
    parser.add_argument(
        "model",
        nargs="*",
        metavar="MODEL",
        help="a name of the zoo, file.py, file.py:function, package.module:function, exported.pt2 or model.onnx; "
        "several with --together",
    )
    parser.add_argument("-m", "--model-name", "--model_name", metavar="MODEL", help="the same, as an option")
    parser.add_argument(
        "-t",
        "--target",
        metavar="TARGET",
        help="a core, several with commas between them, or cortex-m (the default): one artifact that is right on all",
    )
    parser.add_argument(
        "--chip",
        metavar="CHIP",
        help="a chip or board of `cortado chips`: sets the target and the budgets, and the summary says how much of it "
        "the model takes, in memory and in time",
    )
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="the folder to write (default: build/NAME)")
    parser.add_argument(
        "--calibration",
        "--calibration-data",
        "--calibration_data",
        metavar="DATA",
        help="typical inputs: a .npy, .npz or .pt file, a folder of them, file.py:function, or 'random'",
    )
    shape_argument(parser)
    parser.add_argument("-q", "--quantize", action="store_true", help="accepted for compatibility: it is always on")
    parser.add_argument("-i", "--intermediates", type=Path, metavar="DIR", help="write the graph after each pass here")
    parser.add_argument("--name", metavar="NAME", help="the model's name in files and C symbols")
    parser.add_argument(
        "--together",
        type=Path,
        metavar="DIR",
        help="write the C of all models as one program: the kernels once, and one arena, the largest, for those of "
        "which nothing lasts between two calls (docs/firmware.md). NAME=MODEL names a model; --calibration may name "
        "data for each, with commas between them",
    )
    parser.add_argument(
        "--shared-arena",
        action="store_true",
        help="with --together: one arena for all models, the largest; a run of one destroys inputs and outputs of the "
        "others (default: an arena for each)",
    )
    parser.add_argument(
        "--labels",
        metavar="NAMES",
        help="names of a classifier's classes, in their order: a .txt file with one in each line, or the names with "
        "commas between them (default: those of the zoo's networks)",
    )
    _option_arguments(parser)


def _option_arguments(parser: argparse.ArgumentParser) -> None:
    """What becomes the Options of a compile."""
    _schedule_arguments(parser)
    precision_arguments(parser)
    _calibration_arguments(parser)
    _artifact_arguments(parser)
    _flow_arguments(parser)
    camera_arguments(parser)
    _budget_arguments(parser)


def _schedule_arguments(parser: argparse.ArgumentParser) -> None:
    """What is computed in which order, on which numbers."""
    parser.add_argument(
        "--optimize",
        choices=names(Optimize),
        default="balanced",
        help="ram: the lowest peak; time: layer by layer; balanced (the default): the lowest peak that costs at most "
        "10%% more instructions",
    )
    parser.add_argument(
        "--io",
        choices=names(Border),
        default="int8",
        help="what the C bundle's inputs and outputs hold (default: int8)",
    )
    parser.add_argument(
        "--input-layout",
        "--input_layout",
        choices=names(InputLayout),
        default="model",
        help="order of the .pte's inputs, and with --io float of the C bundle's: as in the model (default), or nhwc: "
        "images channels last, as a camera gives them. With --io int8 the C bundle's README says its order",
    )
    parser.add_argument(
        "--linear",
        choices=names(LinearWeights),
        default="per-channel",
        help="scales of linear layers' weights (default: per-channel). In the .pte per-channel layers are 1x1 "
        "convolutions: 2.3 times the instructions of per-tensor on a Cortex-M4",
    )


def _calibration_arguments(parser: argparse.ArgumentParser) -> None:
    """How ranges are chosen, and what is an error."""
    parser.add_argument(
        "--calibration-method",
        choices=names(CalibrationMethod),
        default="auto",
        help="the range of a tensor's codes: the least squared error on the calibration data (mse), all but one value "
        "in ten thousand (percentile), all values (minmax), or whichever of these serves the outputs best on "
        "calibration samples that are held back (auto, the default). mse and percentile leave out samples that are "
        "unlike all others, and tell of them",
    )
    parser.add_argument(
        "--bias-correction",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="let biases make up for what int8 does to the mean of a layer's outputs on the calibration data (the "
        "default; with --calibration-method auto where that helps the outputs)",
    )
    _sequence_argument(parser, "the calibration data")
    parser.add_argument(
        "--strict",
        action="store_true",
        help="take warnings (of the calibration data, and of outputs that lose too much in int8) for errors: nothing "
        "is written",
    )


def _artifact_arguments(parser: argparse.ArgumentParser) -> None:
    """What is written."""
    parser.add_argument(
        "--artifacts",
        choices=names(Artifacts),
        default="both",
        help="what to write: the C bundle, the .pte, or both (the default). For C alone ExecuTorch's packages are not "
        "needed, and nothing waits for their import",
    )
    parser.add_argument(
        "--pte",
        choices=names(PteKind),
        default="operators",
        help="what the .pte calls: ExecuTorch's cortex_m operators (the default), or Cortado's delegate, with the "
        "whole network, its arena and its kernels in it (docs/executorch.md)",
    )
    parser.add_argument(
        "--bundleio", action="store_true", help="also write NAME.bpte: the .pte with inputs and outputs"
    )
    parser.add_argument("--etrecord", action="store_true", help="also write NAME.etrecord, for ExecuTorch's Inspector")
    parser.add_argument(
        "--image",
        action="store_true",
        help="also write NAME.cortado: the model as data, which firmware opens and runs without being built again, and "
        "loader/, what it opens it with (docs/images.md)",
    )
    parser.add_argument(
        "--selftest",
        action="store_true",
        help="also write NAME_selftest.c: an input, what every layer must make of it, and MODEL_selftest, which "
        "returns 0 or the first layer that differs, on the device itself (docs/firmware.md)",
    )
    parser.add_argument(
        "--package",
        metavar="SYSTEM",
        default=(),
        help="also write the bundle as a package, with an example that runs the self-test: zephyr, arduino, "
        "cmsis-pack, platformio, pico or cmake, several with commas between them (docs/packages.md)",
    )
    parser.add_argument(
        "--model-version",
        metavar="1.4.0",
        help="the model's version: that of its packages and of MODEL_info (default: one that changes with the model)",
    )
    parser.add_argument(
        "--allow-float",
        "--allow_float",
        action="store_true",
        help="keep what a .pte can't hold in integers as ExecuTorch's float kernels there, and list it",
    )
    parser.add_argument(
        "--keep-float",
        action="append",
        default=[],
        metavar="REGEX",
        help="modules whose names match stay in float in the .pte on purpose, as in 'head.*'; may be repeated. There "
        "is no C bundle then",
    )


def _flow_arguments(parser: argparse.ArgumentParser) -> None:
    """In which form the C bundle takes its input, and gives what it decides."""
    parser.add_argument(
        "--input-rows",
        "--input_rows",
        action="store_true",
        help="the C bundle takes its input row by row, as a camera gives it, and holds only a few rows: MODEL_reset, "
        "MODEL_row and MODEL_push instead of MODEL_input and MODEL_run (docs/streaming.md)",
    )
    parser.add_argument(
        "--stream",
        type=int,
        metavar="DIM",
        help="a stream of rows: dimension DIM of the model's input is time, and the C bundle gives after each new row "
        "(or hop) the output for the window that ends there, computing only what is new (docs/streaming.md)",
    )
    parser.add_argument(
        "--stream-padding",
        choices=names(StreamPadding),
        default="keep",
        help="of layers that pad in time, for --stream: keep them (the default), which is an error where the output "
        "depends on the padding; or drop it: compile the same network without, over a longer window",
    )
    decide_argument(parser)


def _budget_arguments(parser: argparse.ArgumentParser) -> None:
    """What it may take of a chip."""
    parser.add_argument(
        "--ram-budget",
        metavar="BYTES",
        help="fail if the arena is larger; 256K and 1M are understood (default: with --chip what the chip has)",
    )
    parser.add_argument("--flash-budget", metavar="BYTES", help="fail if constants and code are larger")
    parser.add_argument(
        "--memory",
        metavar="NAME=BYTES,...",
        default=(),
        help="plan the C bundle's arena over several memories, the fastest first, as in dtcm=64K,sram=256K: what is "
        "used most goes to the first; BYTES:device is device memory, where unaligned accesses fault; or auto: those of "
        "the --chip (docs/memory-planning.md)",
    )
    parser.add_argument(
        "--place",
        action="append",
        default=[],
        metavar="REGEX=SECTION",
        help="put the C bundle's constants of layers whose module's name matches into a section, as in "
        "'features.1[0-9].*=external': .cortado.external for the linker; may be repeated, and the first that matches "
        "counts",
    )


def run_arguments(commands: Any) -> None:
    parser = add(commands, "run", "run a compiled model and check it against its reference", run_command)
    parser.add_argument("folder", type=Path, metavar="DIR", help="what `cortado compile` wrote, or the .pte in it")
    parser.add_argument(
        "--target", "-t", metavar="TARGET", help="run as on this core; the model must have been compiled for it"
    )
    parser.add_argument(
        "--on",
        metavar="PLACE",
        help="host, executorch (the .pte), an emulated board (default: the target's), or gdb:HOST:PORT: a chip behind "
        "a debug probe's GDB server (docs/hardware.md; gdb alone: localhost:3333)",
    )
    probe_arguments(parser)
    parser.add_argument(
        "--input",
        type=Path,
        metavar="X.npy",
        help="an input, float32 or int8, or several behind each other along the first dimension; .npz with one array "
        "for each of several inputs (default: a calibration input)",
    )
    parser.add_argument(
        "--recording",
        metavar="WORD",
        help="of ds_cnn: a word that comes with it as a recording (`yes`, `stop`), or a .wav file of your own with one "
        "channel at 16 kHz; its features are the input",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="Y.npy",
        help="write the output here as float32, of several inputs behind each other; .npz for several outputs",
    )
    _sequence_argument(parser, "the input")
    _saturation_argument(parser)
    _chip_argument(parser)
    parser.add_argument(
        "--timeout",
        type=number,
        metavar="SECONDS",
        help="give up after this time, however busy this machine is (default: on a board never, on host two "
        "minutes for each sample, on executorch ten)",
    )
    parser.add_argument(
        "--max-instructions",
        type=int,
        metavar="N",
        help="give up a sample on an emulated board after this number of instructions (default: 20,000,000,000)",
    )
    _trust_argument(parser)


def _saturation_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--saturation",
        action="store_true",
        help="count the values of each tensor that are at an end of its int8 range, by the reference (at most 256 "
        "samples)",
    )


def profile_arguments(commands: Any) -> None:
    text = "instructions and cycles of a compiled model, layer by layer, and what they are spent on"
    parser = add(commands, "profile", text, profile_command)
    parser.add_argument("folder", type=Path, metavar="DIR", help="what `cortado compile` wrote")
    parser.add_argument(
        "--target", "-t", metavar="TARGET", help="as on this core; the model must have been compiled for it"
    )
    parser.add_argument(
        "--on",
        metavar="BOARD",
        help="an emulated board (default: the target's), or gdb:HOST:PORT: cycles measured on a chip behind a debug "
        "probe, beside the model's (docs/hardware.md)",
    )
    _chip_argument(parser)
    probe_arguments(parser)
    parser.add_argument(
        "--contribute",
        type=Path,
        metavar="FILE",
        help="with --on gdb: write what a maintainer needs to check the core's model of cycles: chip, memory, cycles "
        "by step; no weights and no names",
    )
    parser.add_argument("--timeout", type=number, metavar="SECONDS", help="with --on gdb: of a run (default: 60)")
    parser.add_argument("--input", type=Path, metavar="X.npy", help="an input, as for `run`; of several the first")
    parser.add_argument("--csv", action="store_true", help="print CSV, a line for each layer")
    _save_argument(parser)


def _save_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--save", action="store_true", help="also write the figures into the folder's report.json and report.html"
    )


def _chip_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--chip",
        metavar="CHIP",
        help="a chip or board of `cortado chips`: cycles as milliseconds at its clock (default: that of `compile`)",
    )


def _sequence_argument(parser: argparse.ArgumentParser, data: str) -> None:
    parser.add_argument(
        "--sequence",
        type=count,
        metavar="N",
        help=f"of a model with state (docs/state.md): {data} holds the steps of sequences of N steps each, behind each "
        "other along the first dimension, and state starts anew after every N of them (default: all are one sequence)",
    )


def _trust_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--trust",
        action="store_true",
        help="execute what the folder holds on this machine though another installation compiled it (see SECURITY.md)",
    )


def validate_arguments(commands: Any) -> None:
    text = "compare float model, integer reference, C on this machine, boards and ExecuTorch on your data"
    parser = add(commands, "validate", text, validate_command)
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
    _labels_argument(parser)
    _sequence_argument(parser, "the data")
    parser.add_argument(
        "--per-layer",
        "--per_layer",
        action="store_true",
        help="also compare every layer: the first that differs, and how far each is from the float model",
    )
    _save_argument(parser)
    _float_model_argument(parser)
    _threshold_arguments(parser)
    parser.add_argument(
        "--on",
        metavar="PLACE",
        help="gdb:HOST:PORT: also on a chip behind a debug probe, all samples in one session (docs/hardware.md)",
    )
    parser.add_argument("--chip", metavar="CHIP", help="with --on gdb: the chip (default: that of `compile`)")
    probe_arguments(parser)
    _trust_argument(parser)


def _float_model_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model",
        metavar="MODEL",
        help="the float model, named as for `cortado compile` (default: the network of the zoo that was compiled)",
    )


def evaluate_arguments(commands: Any) -> None:
    parser = add(commands, "evaluate", "score a compiled model on a dataset, beside its float model", evaluate_command)
    parser.add_argument("folder", type=Path, metavar="DIR", help="what `cortado compile` wrote")
    parser.add_argument(
        "--data",
        type=Path,
        metavar="X.npz",
        help="samples behind each other along the first dimension, float32 or int8; .npz with one array for each of "
        "several inputs, or .npy (default: the test set that comes with a trained network of the zoo)",
    )
    _labels_argument(parser)
    _float_model_argument(parser)
    parser.add_argument(
        "--reconstruction",
        action="store_true",
        help="the model rebuilds its input: a sample's score is how far the output is from it, and labels are 0 for "
        "normal samples, 1 for others",
    )
    _saturation_argument(parser)
    _sequence_argument(parser, "the data")
    parser.add_argument("--limit", type=count, metavar="N", help="only the first N samples")
    parser.add_argument("--top-k", type=count, metavar="K", help="also how often the right class is among the best K")
    parser.add_argument(
        "--board-samples",
        type=count,
        metavar="N",
        default=0,
        help="also run N of the samples on the target's emulated board, which must give the same bits",
    )
    parser.add_argument("--target", "-t", metavar="TARGET", help="the core whose board to run on")
    _save_argument(parser)
    _threshold_arguments(parser)
    stream_arguments(parser)
    parser.add_argument(
        "--on",
        metavar="PLACE",
        help="gdb:HOST:PORT: also on a chip behind a debug probe, all samples in one session (docs/hardware.md)",
    )
    parser.add_argument("--chip", metavar="CHIP", help="with --on gdb: the chip (default: that of `compile`)")
    probe_arguments(parser)
    _trust_argument(parser)


def compare_arguments(commands: Any) -> None:
    text = "two or more compiles side by side: RAM, flash, time, options and layers that differ"
    parser = add(commands, "compare", text, compare_command)
    parser.add_argument(
        "models",
        nargs="+",
        type=Path,
        metavar="DIR",
        help="what `cortado compile` wrote: a folder, one with a folder for each of several targets, or a report.json",
    )
    parser.add_argument("--html", type=Path, metavar="FILE", help="also write the comparison as a page")


def _labels_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--labels",
        type=Path,
        metavar="Y.npy",
        help="the right class of each sample: .npy, .npz, or .txt with one in each line; 0 or 1 for a model that gives "
        "one score. Without labels the outputs are only compared with the float model's",
    )


def _threshold_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--min-accuracy", type=part, metavar="PART", help="exit code 1 if the accuracy is lower; 0.9 or 90%%"
    )
    parser.add_argument(
        "--max-drop", type=part, metavar="PART", help="exit code 1 if float is better by more; 0.01 or 1%%"
    )
    parser.add_argument(
        "--min-sqnr", type=number, metavar="DB", help="exit code 1 if an output has fewer decibels against float"
    )
