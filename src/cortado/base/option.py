"""The declaration of an option: its place and text in `cortado compile --help`, how its values are read, and its
uses."""

from collections.abc import Callable
from dataclasses import Field, dataclass, field
from enum import Enum
from typing import Any

from cortado.base.camera import PictureSize, numbers_of, size_of
from cortado.base.chips import Chip, find_chip
from cortado.base.errors import CortadoError
from cortado.base.names import check_version, flag, member
from cortado.base.regions import parse_bytes

# ---- declarations -----------------------------------------------------------------------------------------


class Group(Enum):
    """Groups of `cortado compile --help`, the everyday ones first."""

    TARGET = "target"
    CALIBRATION = "calibration"
    PRECISION = "precision"
    FLOW = "inputs and outputs"
    CAMERA = "camera"
    MEMORY = "memory"
    WRITTEN = "what to write"


@dataclass(frozen=True)
class Option:
    """The declaration of an option, apart from its name, type and default."""

    group: Group
    help: str
    metavar: str | None = None
    spellings: tuple[str, ...] = ()  # alternative flags on the command line
    choices: type[Enum] | None = None  # for an option without a default; else the default's type
    shown: tuple[str, ...] = ()  # the choices of the command line, if not all
    text: Callable[[str], object] = str  # reads an argument of the command line
    read: Callable[[str, Any], object] | None = None  # reads a value of the option or its text, given the option's name
    repeated: bool = False
    calibrates: bool = False  # affects quantization, whatever the target
    artifact: Enum | None = None  # the only artifact that it applies to
    undelegated: str | None = None  # why a .pte with a single delegate call can't have it


def option(default: Any, group: Group, help: str, **more: Any) -> Any:
    """Declares a field of Options; `more` as for Option."""
    return field(default=default, metadata={"option": Option(group, help, **more)})


def declared(one: Field[Any]) -> Option:
    """Returns the declaration of a field."""
    found: Option = one.metadata["option"]
    return found


def kind_of(one: Field[Any]) -> type[Enum] | None:
    """Returns the enum of an option that is a choice; None for others."""
    return type(one.default) if isinstance(one.default, Enum) else declared(one).choices


def read_option(one: Field[Any], value: Any) -> object:
    """Reads the value of an option, from itself or its text."""
    kind, how = kind_of(one), declared(one)
    if value is None and one.default is None:
        return None
    if kind is not None:
        return member(one.name, value, kind)
    if isinstance(one.default, bool) and not isinstance(value, bool):
        raise CortadoError(f"{one.name}={value!r}: expected True or False")
    return value if how.read is None else how.read(one.name, value)


# ---- how values are read ---------------------------------------------------------------------------------

WEIGHT_GROUP = 32
SEQUENCE_HELP = (
    "for a model with state (docs/state.md): {} holds sequences of N steps each, concatenated along the first "
    "dimension, and state is reset after every N steps (default: all steps are one sequence)"
)


def dimension(name: str, value: object) -> object:
    if not isinstance(value, int):
        raise CortadoError(f"{name}={value!r} is not a dimension; expected an int, or None for no stream")
    return value


def steps(name: str, value: object) -> object:
    if not isinstance(value, int) or value < 1:
        raise CortadoError(f"{name}={value!r} is not a number of steps; expected 1 or more, or None")
    return value


def byte_count(name: str, value: object) -> object:
    if not isinstance(value, int | str):
        raise CortadoError(
            f"{name}={value!r} is not a number of bytes; expected an int, a text such as '256K', or None"
        )
    return parse_bytes(value) if isinstance(value, str) else value


def chip_named(name: str, value: object) -> Chip:
    found = find_chip(value) if isinstance(value, str) else value
    if not isinstance(found, Chip):
        raise CortadoError(f"{name}={value!r} is not a chip; expected a name such as 'stm32l4r5' (`cortado chips`)")
    return found


def weight_group(name: str, value: object) -> object:
    if value != WEIGHT_GROUP:
        raise CortadoError(
            f"{name}={value!r} (--weight-group): expected {WEIGHT_GROUP}, or None for one factor in each output channel"
        )
    return value


def file_name(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise CortadoError(f"{name}={value!r} does not name a file; expected the path of an .npz file as a text")
    return value


def version(name: str, value: object) -> object:
    check_version(value)
    return value


def bar(kind: str, most: int) -> Callable[[str, Any], object]:
    """Returns a reader for the threshold of --precision auto: a number from 0 to `most`."""

    def read(name: str, value: Any) -> object:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise CortadoError(f"{name}={value!r} is not a number; expected {kind} from 0 to {most}, or None")
        if not 0 <= value <= most:
            raise CortadoError(f"{flag(name)} {value:g}: expected {kind} from 0 to {most}")
        return value

    return read


def picture_size(name: str, value: object) -> PictureSize:
    return size_of(value, flag(name))


def pixel_numbers(name: str, value: object) -> tuple[float, ...]:
    return () if value in (None, (), []) else numbers_of(value, flag(name))
