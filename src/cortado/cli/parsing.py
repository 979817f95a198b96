"""Parser parts shared by all commands: a command, the choices of an enum, numbers as users write them, --sequence; the
places where a command runs a model (--on, a chip behind a debug probe).

Also the Options of a compile, from its arguments.
"""

import argparse
from typing import TYPE_CHECKING, Any

from cortado.base.errors import CortadoError

if TYPE_CHECKING:
    from cortado.run.silicon.place import Silicon

from collections.abc import Callable
from dataclasses import Field, fields
from pathlib import Path
from typing import TypeVar

from cortado.base import names as base_names
from cortado.base.option import SEQUENCE_HELP, Group, declared, kind_of
from cortado.options import Options

Value = TypeVar("Value")

# ---- parsing ---------------------------------------------------------------------------------------------


def add(
    commands: Any, name: str, text: str, command: Callable[[argparse.Namespace], None], json: bool = True
) -> argparse.ArgumentParser:
    about = text[0].upper() + text[1:] + "."
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=about, allow_abbrev=False)
    parser.set_defaults(command=command)
    if json:
        parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def typed(read: Callable[[str], Value]) -> Callable[[str], Value]:
    """Wraps a parser of texts for argparse, which then names the argument in its error message."""

    def read_argument(text: str) -> Value:
        try:
            return read(text)
        except CortadoError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read_argument


count, number, part = typed(base_names.count), typed(base_names.number), typed(base_names.part)


def sequence_argument(parser: argparse._ActionsContainer, data: str) -> None:
    parser.add_argument("--sequence", type=count, metavar="N", help=SEQUENCE_HELP.format(data))


# ---- options ---------------------------------------------------------------------------------------------


def option_arguments(parser: argparse._ArgumentGroup, group: Group) -> None:
    """Adds the arguments of one group of options."""
    for one in fields(Options):
        if declared(one).group is group:
            _option_argument(parser, one)


def _option_argument(parser: argparse._ArgumentGroup, one: Field[Any]) -> None:
    how, kind = declared(one), kind_of(one)
    more: dict[str, Any] = {"dest": one.name, "help": how.help, "default": getattr(one.default, "value", one.default)}
    if isinstance(one.default, bool):
        more["action"] = argparse.BooleanOptionalAction if one.default else "store_true"
    elif kind is not None:
        more["choices"] = how.shown or tuple(member.value for member in kind)
    else:
        more |= {"metavar": how.metavar, "type": typed(how.text)}
    if how.repeated:
        more |= {"action": "append", "default": []}
    parser.add_argument(base_names.flag(one.name), *how.spellings, **more)


def options_of(arguments: argparse.Namespace) -> Options:
    """Builds the Options: every option of the command line is a field with the same name and values."""
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
    """Parses the shapes that --shape gives, by input name."""
    found: dict[str, tuple[int, ...]] = {}
    for text in arguments.shape:
        name, equals, sizes = text.rpartition("=")
        parts = sizes.replace("x", ",").split(",")
        if not equals or not name or not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
            raise CortadoError(f"--shape {text}: expected the name of an input and its shape, as in image=1,3,96,96")
        found[name] = tuple(int(part) for part in parts)
    return found


def has_methods(spec: str) -> bool:
    """Returns whether a file may define ModelMethods: it mentions the name."""
    path = Path(spec)
    return path.suffix == ".py" and path.is_file() and b"ModelMethods" in path.read_bytes()


def class_names(given: str) -> tuple[str, ...]:
    """Reads the names of classes: from a file, one per line, or separated by commas."""
    if given.endswith(".txt"):
        try:
            lines = Path(given).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise CortadoError(f"can't read the labels in {given}: {error}; expected a name in each line") from error
    else:
        lines = given.split(",")
    names = tuple(line.strip() for line in lines)
    while names and not names[-1]:
        names = names[:-1]
    if not names or not all(names):
        raise CortadoError(f"--labels {given}: found an empty name, expected a name for every class")
    return names


# ---- places where a model runs ---------------------------------------------------------------------------------------


def probe_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--flash", metavar="ORIGIN:SIZE", help="with --on gdb: the chip's flash, as in 0x08000000:1M")
    parser.add_argument("--ram", metavar="ORIGIN:SIZE", help="with --on gdb: its RAM, as in 0x20000000:128K")
    parser.add_argument(
        "--load",
        choices=("flash", "ram"),
        help="with --on gdb: where to load the firmware: flash (the default; overwrites it), or RAM only",
    )


def place_of(arguments: argparse.Namespace) -> str | None:
    """Returns --on including the chip's settings; raises for settings without --on gdb."""
    from cortado.run.silicon.place import is_probe, probe_place, probe_text

    settings = {name: getattr(arguments, name) for name in ("flash", "ram", "load")}
    given = [f"--{name}" for name, value in settings.items() if value is not None]
    on: str | None = arguments.on
    if on is None or not is_probe(on):
        if given:
            raise CortadoError(f"{given[0]} is for a chip behind a debug probe: add --on gdb, or leave it out")
        return on
    text = probe_text(on, {"chip": arguments.chip, **settings})
    if arguments.chip is not None or arguments.ram is not None:
        probe_place(text)  # reports mistakes before anything is built
    return text


def further_place(arguments: argparse.Namespace) -> str | None:
    """Returns --on if it names an additional place: a chip, or WebAssembly; raises for any other."""
    from cortado.run.runner import WASM
    from cortado.run.silicon.place import is_probe

    text = place_of(arguments)
    if text not in (None, WASM) and not is_probe(text):
        raise CortadoError(f"--on {text}: expected wasm or gdb:HOST:PORT; this machine and the boards are used anyway")
    return text


def silicon_lines(found: "Silicon") -> list[str]:
    """Describes the chip's counts, for people."""
    if found.first is None:
        return [f"no cycles: {found.core} has no running cycle counter"]
    later = "" if not found.later else f", {min(found.later):,} in later runs"
    time = ""
    if found.clock_hz is not None and found.warm is not None:
        time = f", {1000 * found.warm / found.clock_hz:.4g} ms"
    return [f"{found.first:,} cycles measured in the first run{later}{time} ({found.core})", found.words]


def silicon_json(found: "Silicon | None") -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "core": found.core,
        "cpuid": f"{found.cpuid:#010x}",
        "counter": found.counter.value,
        "clock_hz": found.clock_hz,
        "caches": list(found.caches),
        "memory": found.memory,
        "first_cycles": found.first,
        "later_cycles": list(found.later),
        "words": found.words,
    }


def method_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--method",
        metavar="NAME",
        help="the method to use, for a model with several (docs/methods.md)",
    )
