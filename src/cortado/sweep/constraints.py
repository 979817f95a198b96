"""Constraints of a sweep: "ram <= 32K", "ms <= 20"."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

_BINARY, _DECIMAL = {"": 1, "K": 1024, "M": 1024**2}, {"": 1, "K": 1000, "M": 1000**2}
_UNITS: Mapping[str, Mapping[str, int]] = {"ram": _BINARY, "flash": _BINARY, "cycles": _DECIMAL, "ms": {"": 1}}
_FORM = re.compile(r"\s*(\w+)\s*<=\s*(\d+(?:\.\d+)?)\s*([KM]?)\s*")
EXPECTED = f"one of {', '.join(_UNITS)}, <= and a number, as in 'ram <= 32K' or 'ms <= 20'"


@dataclass(frozen=True)
class Constraint:
    """A figure of a row, and the most that it may be."""

    figure: str
    most: float
    text: str


def parsed_constraint(text: str) -> Constraint | None:
    """None where it is none."""
    found = _FORM.fullmatch(text)
    if found is None or found[1] not in _UNITS or found[3] not in _UNITS[found[1]]:
        return None
    return Constraint(found[1], float(found[2]) * _UNITS[found[1]][found[3]], text.strip())
