"""The Options of a compile, from its arguments."""

import argparse
from dataclasses import fields

from cortado.base.errors import CortadoError
from cortado.options import Options


def options_of(arguments: argparse.Namespace) -> Options:
    """An option of the command line is a field of Options, of the same name and with the same texts."""
    return Options(**{one.name: getattr(arguments, one.name) for one in fields(Options)})


def shape_argument(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=SIZES",
        help="of an .onnx file whose input NAME has open sizes: all its sizes, as in image=1,3,96,96; may be repeated "
        "(an open first dimension is 1)",
    )


def shapes_of(arguments: argparse.Namespace) -> dict[str, tuple[int, ...]]:
    """Returns what --shape says, by the names of inputs."""
    found: dict[str, tuple[int, ...]] = {}
    for text in arguments.shape:
        name, equals, sizes = text.rpartition("=")
        parts = sizes.replace("x", ",").split(",")
        if not equals or not name or not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
            raise CortadoError(f"--shape {text}: expected the name of an input and its sizes, as in image=1,3,96,96")
        found[name] = tuple(int(part) for part in parts)
    return found
