"""Parser parts that all commands share: a command, the words of an enum, numbers as users write them, --sequence.

The Options of a compile, from its arguments.
"""

import argparse
import math
from collections.abc import Callable
from dataclasses import fields
from enum import Enum
from typing import Any

from cortado.base.errors import CortadoError
from cortado.options import Options

# ---- parsing ---------------------------------------------------------------------------------------------


def names(kind: type[Enum]) -> tuple[str, ...]:
    """The spelling of each member of an option's enum."""
    return tuple(member.value for member in kind)


def add(
    commands: Any, name: str, text: str, command: Callable[[argparse.Namespace], None], json: bool = True
) -> argparse.ArgumentParser:
    about = text[0].upper() + text[1:] + "."
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=about, allow_abbrev=False)
    parser.set_defaults(command=command)
    if json:
        parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def count(text: str) -> int:
    if not text.isdecimal() or len(text) > 9 or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of at least 1")
    return int(text)


def part(text: str) -> float:
    """A part of 1, or percent."""
    value = number(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not between 0 and 1; with a % sign it may be up to 100%")
    return value


def number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is no number")
    return value


def sequence_argument(parser: argparse._ActionsContainer, data: str) -> None:
    parser.add_argument(
        "--sequence",
        type=count,
        metavar="N",
        help=f"of a model with state (docs/state.md): {data} holds the steps of sequences of N steps each, behind each "
        "other along the first dimension, and state starts anew after every N of them (default: all are one sequence)",
    )


# ---- options ---------------------------------------------------------------------------------------------


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
    """The shapes that --shape gives, by the names of inputs."""
    found: dict[str, tuple[int, ...]] = {}
    for text in arguments.shape:
        name, equals, sizes = text.rpartition("=")
        parts = sizes.replace("x", ",").split(",")
        if not equals or not name or not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
            raise CortadoError(f"--shape {text}: expected the name of an input and its sizes, as in image=1,3,96,96")
        found[name] = tuple(int(part) for part in parts)
    return found
