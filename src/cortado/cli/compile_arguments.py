"""The arguments of compile: what is compiled of which data, and the options (`cortado.options`) by their groups."""

import argparse
from pathlib import Path
from typing import Any, TypeAlias

from cortado.base.option import Group
from cortado.cli.compile import compile_command
from cortado.cli.parsing import add, option_arguments, shape_argument

Arguments: TypeAlias = argparse._ArgumentGroup


def compile_arguments(commands: Any) -> None:
    """Adds the command, its arguments in groups: the everyday ones first."""
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
        help="a name of the zoo, file.py, file.py:function, package.module:function, exported.pt2 or model.onnx; "
        "several with --together",
    )
    parser.add_argument("-m", "--model-name", "--model_name", metavar="MODEL", help="the same, as an option")
    parser.add_argument("--name", metavar="NAME", help="the model's name in files and C symbols")
    parser.add_argument(
        "--labels",
        metavar="NAMES",
        help="names of a classifier's classes, in their order: a .txt file with one in each line, or the names with "
        "commas between them (default: those of the zoo's networks)",
    )
    shape_argument(parser)
    parser.add_argument(
        "--together",
        type=Path,
        metavar="DIR",
        help="write the C of all models as one program: the kernels once, and an arena for each model, or one for "
        "those that keep nothing between two calls (--shared-arena; docs/firmware.md). NAME=MODEL names a model; "
        "--calibration may name data for each, with commas between them",
    )
    parser.add_argument(
        "--shared-arena",
        action="store_true",
        help="with --together: one arena for all models, the largest; a run of one destroys inputs and outputs of the "
        "others (default: an arena for each)",
    )


def _target_argument(parser: Arguments) -> None:
    parser.add_argument(
        "-t",
        "--target",
        metavar="TARGET",
        help="a core, several with commas between them, or cortex-m (the default): one artifact that is right on all",
    )


def _calibration_arguments(parser: Arguments) -> None:
    parser.add_argument(
        "--calibration",
        "--calibration-data",
        "--calibration_data",
        metavar="DATA",
        help="typical inputs: a .npy, .npz or .pt file, a folder of them, file.py:function, or 'random'",
    )
    parser.add_argument("-q", "--quantize", action="store_true", help="accepted for compatibility: it is always on")


def _folder_arguments(parser: Arguments) -> None:
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="the folder to write (default: build/NAME)")
    parser.add_argument("-i", "--intermediates", type=Path, metavar="DIR", help="write the graph after each pass here")
