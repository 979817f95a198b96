"""Names and texts from users (or untrusted folders), escaped for C, CMake, Markdown, HTML and terminals. Everything
that is written into one of these passes through here.

Also texts of the command line for a user's choices, and their values.
"""

import hashlib
import html
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from cortado.base.camera import Crop, PictureSize
from cortado.base.chips import Chip
from cortado.base.decision import Decision
from cortado.base.errors import CortadoError
from cortado.base.regions import Region, WeightPlacement

# ---- names -----------------------------------------------------------------------------------------------

LONGEST_NAME = 100
# Headers and sources of the bundle and of C, which a model's own files must not replace.
_C_HEADERS = (
    "assert ctype errno float limits locale math setjmp signal stdarg stdbool stddef stdint stdio stdlib string time"
)
_OWN = "cortado cortado_run cortado_regions cortado_math harness harness_model port markers"
_CMAKE_TARGETS = "all clean edit_cache help install package rebuild_cache"
_RESERVED = frozenset(f"{_C_HEADERS} {_OWN} {_CMAKE_TARGETS}".split())
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9 _.,:+()<>=\[\]-]")
LONGEST_TEXT = 200
NODE_NAME = "[A-Za-z_][A-Za-z0-9_]*"
LONGEST_PART = 40


def check_name(name: str) -> str:
    """Checks a name for files, folders and C symbols; anything that could mean more than a name is refused."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_ .+-]*", name) or len(name) > LONGEST_NAME:
        raise CortadoError(
            f"'{name}' can't be a model's name; expected at most {LONGEST_NAME} of a-z, A-Z, 0-9, space and _ . + "
            "-, beginning with a letter or digit"
        )
    return name


def operator_base(operator: str) -> str:
    """Returns an operator's name without its namespace, for people: quantized_add from cortex_m::quantized_add."""
    return operator.rpartition("::")[2]


def c_identifier(name: str) -> str:
    """Converts a model's name to a C identifier, the prefix of all its symbols and files."""
    cleaned = re.sub(r"[^A-Za-z0-9_]", "_", name)
    if not re.match(r"[A-Za-z]", cleaned) or cleaned in _RESERVED:
        cleaned = f"model_{cleaned}"
    return cleaned


def identifier_part(text: str) -> str:
    """Converts any text to a part of a C identifier, after a prefix of ours: letters, digits and underscores, or
    nothing.

    A long text keeps its end, which distinguishes the modules of a network.
    """
    return re.sub(r"[^A-Za-z0-9]+", "_", text)[-LONGEST_PART:].strip("_")


def is_node_name(name: object) -> bool:
    """Whether this can be the name of a graph node."""
    return isinstance(name, str) and re.fullmatch(NODE_NAME, name) is not None


def plain(text: str) -> str:
    """Makes any text safe in a C comment, a C string or a Markdown table: nothing can end it or have a meaning there.

    Quotes, backslashes, slashes, stars (comments), question marks (trigraphs), percent signs (formats), dollar signs,
    bars, backquotes, line breaks and anything outside ASCII become underscores.
    """
    return _NOT_PLAIN.sub("_", text)[:LONGEST_TEXT]


def c_string(text: str) -> str:
    """Returns the text as a C string literal."""
    return f'"{plain(text)}"'


def html_text(text: object) -> str:
    """Escapes any text for HTML."""
    return html.escape(printable(str(text)))


def printable(text: str) -> str:
    """Makes untrusted text safe for a terminal: control characters, which could rewrite the screen, become question
    marks."""
    return "".join(c if c.isprintable() or c in "\n\t" else "?" for c in text)


def printable_data(value: Any) -> Any:
    """Makes every text in JSON data printable."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [printable_data(item) for item in value]
    if isinstance(value, dict):
        return {printable(key): printable_data(item) for key, item in value.items()}
    return value


def is_of_floats(name: str) -> bool:
    """Whether an operator computes in float32, by its name; operators on integers and codes don't."""
    return name.startswith("cortado::float_")


# ---- models by what they compute -----------------------------------------------------------------------------------

ID_DIGITS = 16


def joined_id(ids: Sequence[str]) -> str:
    """Returns the id of a package of several models; for one model, its own id."""
    return ids[0] if len(ids) == 1 else hashlib.sha256(" ".join(ids).encode()).hexdigest()[:ID_DIGITS]


def version_of(model_id: str) -> str:
    """Returns a version of three numbers derived from the model, for users who don't give one."""
    return f"0.{int(model_id[:4], 16)}.{int(model_id[4:8], 16)}"


# ---- texts -----------------------------------------------------------------------------------------------

_NUMBER = "(0|[1-9][0-9]{0,3}|[1-5][0-9]{4})"
_VERSION = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}")


def flag(name: str) -> str:
    """Returns the command-line flag of a field."""
    return f"--{name.replace('_', '-')}"


def count(text: str) -> int:
    """Reads an integer of at least 1."""
    if not text.isdecimal() or len(text) > 9 or int(text) < 1:
        raise CortadoError(f"{text!r} is not a number of at least 1")
    return int(text)


def number(text: str) -> float:
    """Reads a finite number."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise CortadoError(f"{text!r} is not a number")
    return value


def part(text: str) -> float:
    """Reads a fraction from 0 to 1, or a percentage."""
    value = number(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    if not 0 <= value <= 1:
        raise CortadoError(f"{text!r} is not between 0 and 1; with a % sign it may be up to 100%")
    return value


def member(name: str, value: object, kind: type[Enum]) -> Enum:
    """Reads a member of an enum, from itself or its text."""
    if isinstance(value, kind):
        return value
    known = {str(member.value): member for member in kind}
    if isinstance(value, str) and value in known:
        return known[value]
    texts = ", ".join(repr(text) for text in known)
    raise CortadoError(f"{name}={value!r}: expected one of {texts}, or {kind.__module__}.{kind.__name__}")


def expressions(name: str, value: object) -> tuple[str, ...]:
    """Reads regular expressions for modules: one text, or several."""
    texts = (value,) if isinstance(value, str) else value
    if not isinstance(texts, Iterable):
        raise CortadoError(f"{name}={value!r} names no module; expected texts such as 'encoder.*'")
    found = tuple(str(text) for text in texts)
    for text in found:
        try:
            re.compile(text)
        except re.error as error:
            raise CortadoError(
                f"'{text}' is not a regular expression ({error}); expected one that matches names of modules, as in "
                "'encoder.*'"
            ) from None
    return found


@dataclass(frozen=True)
class InputRange:
    """The range of an input that the user promises: from `low` to `high`, both included."""

    name: str
    low: int | float
    high: int | float

    def __str__(self) -> str:
        return f"{self.name}={self.low}..{self.high}"


_NUMBER = r"-?\d+(?:\.\d+)?(?:e-?\d+)?"
_RANGE = re.compile(rf"(?P<name>.+)=(?P<low>{_NUMBER})\.\.(?P<high>{_NUMBER})")


def ranges_of(given: object) -> tuple[InputRange, ...]:
    """Reads ranges of inputs from 'NAME=LOW..HIGH', or a sequence of such texts."""
    texts = (given,) if isinstance(given, str | InputRange) else given
    if not isinstance(texts, Sequence):
        raise CortadoError(f"range={given!r}: expected texts such as 'ids=0..100000'")
    found = tuple(one if isinstance(one, InputRange) else _range(one) for one in texts)
    twice = next((one.name for place, one in enumerate(found) if one.name in [two.name for two in found[:place]]), None)
    if twice is not None:
        raise CortadoError(f"--range gives the interval of '{twice}' twice; expected one for each input")
    return found


def _range(text: object) -> InputRange:
    found = _RANGE.fullmatch(text.strip()) if isinstance(text, str) else None
    if found is None or float(found["low"]) > float(found["high"]):
        raise CortadoError(
            f"--range {text}: expected an input and its interval NAME=LOW..HIGH, as in ids=0..100000 or sound=-1..1"
        )
    return InputRange(found["name"].strip(), _end(found["low"]), _end(found["high"]))


def _end(text: str) -> int | float:
    return int(text) if re.fullmatch(r"-?\d+", text) else float(text)


def check_version(value: object) -> None:
    """Checks that a version is three numbers, as every package manager accepts."""
    if value is not None and (not isinstance(value, str) or _VERSION.fullmatch(value) is None):
        raise CortadoError(
            f"model_version={value!r} (--model-version) is not a version; expected three numbers below 60,000, each "
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
    if isinstance(value, PictureSize | Crop | InputRange):
        return str(value)
    return value.name if isinstance(value, Chip) else value
