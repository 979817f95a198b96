"""Names and texts that users (or a folder from elsewhere) give, as they may stand in C, CMake, Markdown, HTML and on a
terminal. Whatever is written into one of these goes through here."""

import hashlib
import html
import re
from collections.abc import Sequence
from typing import Any

from cortado.base.errors import CortadoError

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
    """A name for files, folders and C symbols; anything that could mean more than a name is refused."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_ .+-]*", name) or len(name) > LONGEST_NAME:
        raise CortadoError(
            f"'{name}' can't be a model's name; expected at most {LONGEST_NAME} of a-z, A-Z, 0-9, space and _ . + -, "
            "beginning with a letter or digit"
        )
    return name


def operator_base(operator: str) -> str:
    """An operator's name without its namespace, as people read it: quantized_add of cortex_m::quantized_add."""
    return operator.rpartition("::")[2]


def c_identifier(name: str) -> str:
    """A model's name as a C identifier; it is the prefix of every symbol and file."""
    cleaned = re.sub(r"[^A-Za-z0-9_]", "_", name)
    if not re.match(r"[A-Za-z]", cleaned) or cleaned in _RESERVED:
        cleaned = f"model_{cleaned}"
    return cleaned


def identifier_part(text: str) -> str:
    """Any text inside a C identifier, behind a prefix of ours: letters, digits and underscores, perhaps none of them.

    Of a long one its end, which tells the modules of a network apart.
    """
    return re.sub(r"[^A-Za-z0-9]+", "_", text)[-LONGEST_PART:].strip("_")


def is_node_name(name: object) -> bool:
    """Whether this can be the name of a node of a graph."""
    return isinstance(name, str) and re.fullmatch(NODE_NAME, name) is not None


def plain(text: str) -> str:
    """Any text inside a C comment, a C string or a Markdown table: nothing that could end it or mean more there.

    No quotes, backslashes, slashes, stars (comments), question marks (trigraphs), percent signs (formats), dollar
    signs, bars, backquotes, line breaks or anything outside ASCII: an underscore stands for each.
    """
    return _NOT_PLAIN.sub("_", text)[:LONGEST_TEXT]


def c_string(text: str) -> str:
    """The text as a C string."""
    return f'"{plain(text)}"'


def html_text(text: object) -> str:
    """Any text inside HTML."""
    return html.escape(printable(str(text)))


def printable(text: str) -> str:
    """Text of anybody's for a terminal: control characters, which could rewrite the screen, become question marks."""
    return "".join(c if c.isprintable() or c in "\n\t" else "?" for c in text)


def printable_data(value: Any) -> Any:
    """JSON data with every text in it printable."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [printable_data(item) for item in value]
    if isinstance(value, dict):
        return {printable(key): printable_data(item) for key, item in value.items()}
    return value


# ---- models by what they compute -----------------------------------------------------------------------------------

ID_DIGITS = 16


def joined_id(ids: Sequence[str]) -> str:
    """Returns the joined id of several models in one package; of one its own."""
    return ids[0] if len(ids) == 1 else hashlib.sha256(" ".join(ids).encode()).hexdigest()[:ID_DIGITS]


def version_of(model_id: str) -> str:
    """Three numbers that change with the model, for those who give it no version of their own."""
    return f"0.{int(model_id[:4], 16)}.{int(model_id[4:8], 16)}"
