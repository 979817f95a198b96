"""Names: of models, as users give them, and as C identifiers."""

import re

from cortado.errors import CortadoError

LONGEST_NAME = 100
# Headers and sources of the bundle and of C, which a model's own files must not replace.
_C_HEADERS = (
    "assert ctype errno float limits locale math setjmp signal stdarg stdbool stddef stdint stdio stdlib string time"
)
_OWN = "cortado cortado_run cortado_math harness harness_model port markers"
_RESERVED = frozenset(f"{_C_HEADERS} {_OWN}".split())


def check_name(name: str) -> str:
    """A name for files, folders and C symbols; anything that could mean more than a name is refused."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_ .+-]*", name) or len(name) > LONGEST_NAME:
        raise CortadoError(
            f"'{name}' can't be a model's name; expected at most {LONGEST_NAME} of a-z, A-Z, 0-9, space and _ . + -, "
            "beginning with a letter or digit"
        )
    return name


def c_identifier(name: str) -> str:
    """A model's name as a C identifier; it is the prefix of every symbol and file."""
    cleaned = re.sub(r"[^A-Za-z0-9_]", "_", name)
    if not re.match(r"[A-Za-z]", cleaned) or cleaned in _RESERVED:
        cleaned = f"model_{cleaned}"
    return cleaned


def printable(text: str) -> str:
    """Text of anybody's for a terminal: control characters, which could rewrite the screen, become question marks."""
    return "".join(c if c.isprintable() or c in "\n\t" else "?" for c in text)
