"""Parser parts that all commands share: a command, the words of an enum, numbers as users write them, --sequence."""

import argparse
import math
from collections.abc import Callable
from enum import Enum
from typing import Any


def names(kind: type[Enum]) -> tuple[str, ...]:
    """Returns what a user writes for each member of an option's enum."""
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
