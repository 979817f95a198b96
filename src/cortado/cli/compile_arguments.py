"""The arguments of compile: the model, the calibration data, and the options (`cortado.options`) by group."""

import argparse
from pathlib import Path
from typing import Any, TypeAlias

from cortado.base.option import Group
from cortado.cli.compile import compile_command
from cortado.cli.parsing import add, option_arguments, shape_argument

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
