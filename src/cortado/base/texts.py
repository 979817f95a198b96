"""Texts of the command line for a user's choices, and the values they stand for."""

import re
from collections.abc import Iterable
from enum import Enum

from cortado.base.camera import Crop, PictureSize
from cortado.base.chips import Chip
from cortado.base.decision import Decision
from cortado.base.errors import CortadoError
from cortado.base.regions import Region, WeightPlacement

_NUMBER = "(0|[1-9][0-9]{0,3}|[1-5][0-9]{4})"
_VERSION = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}")


def flag(name: str) -> str:
    """A field as the command line has it."""
    return f"--{name.replace('_', '-')}"


def member(name: str, value: object, kind: type[Enum]) -> Enum:
    """One of an enum, given as itself or as its text."""
    if isinstance(value, kind):
        return value
    known = {str(member.value): member for member in kind}
    if isinstance(value, str) and value in known:
        return known[value]
    texts = ", ".join(repr(text) for text in known)
    raise CortadoError(f"{name}={value!r}: expected one of {texts}, or {kind.__module__}.{kind.__name__}")


def expressions(name: str, value: object) -> tuple[str, ...]:
    """Regular expressions of modules: one text, or several."""
    texts = (value,) if isinstance(value, str) else value
    if not isinstance(texts, Iterable):
        raise CortadoError(f"{name}={value!r} names no module; expected texts such as 'encoder.*'")
    found = tuple(str(text) for text in texts)
    for text in found:
        try:
            re.compile(text)
        except re.error as error:
            raise CortadoError(
                f"'{text}' is no regular expression ({error}); expected one that matches names of modules, as in "
                "'encoder.*'"
            ) from None
    return found


def check_version(value: object) -> None:
    """Three numbers: what every package manager takes."""
    if value is not None and (not isinstance(value, str) or _VERSION.fullmatch(value) is None):
        raise CortadoError(
            f"model_version={value!r} (--model-version) is no version; expected three numbers below 60,000, each "
            "without a leading zero, such as 1.4.0"
        )


def text_of(value: object) -> object:
    """Returns the text of the command line for a value."""
    if isinstance(value, tuple):
        return ",".join(str(text_of(one)) for one in value)
    if isinstance(value, Decision):
        return str(value)
    if isinstance(value, Region):
        return f"{value.name}={value.bytes}"
    if isinstance(value, WeightPlacement):
        return f"{value.pattern}={value.section}"
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, PictureSize | Crop):
        return str(value)
    return value.name if isinstance(value, Chip) else value
