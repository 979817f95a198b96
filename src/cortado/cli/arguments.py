"""The arguments of run, profile, validate, evaluate and compare."""

import argparse
from pathlib import Path
from typing import Any

from cortado.cli.compare import compare_command
from cortado.cli.evaluate import evaluate_command
from cortado.cli.events import stream_arguments
from cortado.cli.parsing import add, count, number, part, sequence_argument
from cortado.cli.places import probe_arguments
from cortado.cli.profile import profile_command
from cortado.cli.run import run_command
from cortado.cli.validate import validate_command


def run_arguments(commands: Any) -> None:
    parser = add(commands, "run", "run a compiled model and check it against its reference", run_command)
    parser.add_argument("folder", type=Path, metavar="DIR", help="what `cortado compile` wrote, or the .pte in it")
    parser.add_argument(
        "--target", "-t", metavar="TARGET", help="run as on this core; the model must have been compiled for it"
    )
    parser.add_argument(
        "--on",
        metavar="PLACE",
        help="host, wasm (WebAssembly), executorch (the .pte), an emulated board (default: the target's), or "
        "gdb:HOST:PORT: a chip behind a debug probe's GDB server (docs/hardware.md; gdb alone: localhost:3333)",
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
    sequence_argument(parser, "the input")
    _saturation_argument(parser)
    _chip_argument(parser)
    _timeout_argument(parser, "give up")
    parser.add_argument(
        "--max-instructions",
        type=int,
        metavar="N",
        help="give up a sample on an emulated board after this number of instructions (default: 20,000,000,000)",
    )
    _trust_argument(parser)


def _timeout_argument(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument(
        "--timeout",
        type=number,
        metavar="SECONDS",
        help=f"{what} after this time, however busy this machine is (default: on an emulated board never, on host two "
        "minutes for each sample, on executorch ten, with --on gdb one, five to load, and one of silence)",
    )


def _further_place_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--on",
        metavar="PLACE",
        help="gdb:HOST:PORT: also on a chip behind a debug probe, all samples in one session (docs/hardware.md); "
        "wasm: also as WebAssembly",
    )
    parser.add_argument("--chip", metavar="CHIP", help="with --on gdb: the chip (default: that of `compile`)")
    probe_arguments(parser)
    _timeout_argument(parser, "give up a place")
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
    parser.add_argument(
        "--timeout",
        type=number,
        metavar="SECONDS",
        help="with --on gdb: give up loading, or a run, after this time (default: 300 and 60, and 60 of silence)",
    )
    parser.add_argument("--input", type=Path, metavar="X.npy", help="an input, as for `run`; of several the first")
    parser.add_argument("--csv", action="store_true", help="print CSV, a line for each layer")
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
        help="a chip or board of `cortado chips`: cycles as milliseconds at its clock (default: that of `compile`)",
    )


def _trust_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--trust",
        action="store_true",
        help="execute what the folder holds on this machine though another installation compiled it (see SECURITY.md)",
    )
    method_argument(parser)


def method_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--method",
        metavar="NAME",
        help="of a model with several methods (docs/methods.md): the one that is meant, by itself",
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
    sequence_argument(parser, "the data")
    parser.add_argument(
        "--per-layer",
        "--per_layer",
        action="store_true",
        help="also compare every layer: the first that differs, and how far each is from the float model",
    )
    _save_argument(parser)
    _float_model_argument(parser)
    _threshold_arguments(parser)
    _further_place_arguments(parser)


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
    sequence_argument(parser, "the data")
    parser.add_argument("--limit", type=count, metavar="N", help="only the first N samples")
    parser.add_argument("--top-k", type=count, metavar="K", help="also how often the right class is among the best K")
    parser.add_argument(
        "--strange",
        type=Path,
        metavar="FILE",
        help="of a model with --watch: samples of another kind, as --data; how well its surprise tells them apart",
    )
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
    _further_place_arguments(parser)


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
