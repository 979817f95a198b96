"""The specification of a sweep: a TOML file.

Also constraints of a sweep: "ram <= 32K", "ms <= 20".
"""

import itertools
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from pathlib import Path
from typing import Any

from cortado.base.chips import find_chip
from cortado.base.errors import CortadoError
from cortado.base.target import CortexM, from_target_string
from cortado.options import Options

# ---- constraints -----------------------------------------------------------------------------------------

_BINARY, _DECIMAL = {"": 1, "K": 1024, "M": 1024**2}, {"": 1, "K": 1000, "M": 1000**2}
_UNITS: Mapping[str, Mapping[str, int]] = {"ram": _BINARY, "flash": _BINARY, "cycles": _DECIMAL, "ms": {"": 1}}
_FORM = re.compile(r"\s*(\w+)\s*<=\s*(\d+(?:\.\d+)?)\s*([KM]?)\s*")
EXPECTED = f"one of {', '.join(_UNITS)}, <= and a number, as in 'ram <= 32K' or 'ms <= 20'"


@dataclass(frozen=True)
class Constraint:
    """A figure of a row, and its maximum."""

    figure: str
    most: float
    text: str


def parsed_constraint(text: str) -> Constraint | None:
    """Parses a constraint; None if the text is none."""
    found = _FORM.fullmatch(text)
    if found is None or found[1] not in _UNITS or found[3] not in _UNITS[found[1]]:
        return None
    return Constraint(found[1], float(found[2]) * _UNITS[found[1]][found[3]], text.strip())


# ---- spec ------------------------------------------------------------------------------------------------

DEFAULT_SECONDS = 120.0
DEFAULT_SCORE_SECONDS = 600.0
KEYS = (
    *("models", "candidates", "chips", "targets", "options", "seconds", "figures"),
    *("score", "score_seconds", "constraints"),
)
# The options that a spec may vary; the others concern data, artifacts or the chip.
VARIED = ("optimize", "io", "linear", "input_rows")


class Figures(Enum):
    """The sources of cycles."""

    ESTIMATE = "estimate"  # the table of costs
    BOARD = "board"  # a run on the emulated board


@dataclass(frozen=True)
class SweepTarget:
    """The chip or target of a row."""

    chip: str | None = None
    target: str | None = None

    @property
    def label(self) -> str:
        return str(self.chip or self.target)


@dataclass(frozen=True)
class Spec:
    """A sweep's space: every model and candidate, on every place, with every choice of options."""

    folder: Path  # of the file: names in it are relative to it
    models: tuple[str, ...]
    candidates: str | None
    places: tuple[SweepTarget, ...]
    choices: tuple[Mapping[str, Any], ...]
    seconds: float
    figures: Figures
    score: str | None = None  # the function that trains and judges a candidate
    score_seconds: float = DEFAULT_SCORE_SECONDS
    constraints: tuple[Constraint, ...] = ()


def read_spec(path: Path) -> Spec:
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CortadoError(f"can't read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CortadoError(f"{path} is not TOML: {error}") from error
    unknown = [name for name in data if name not in KEYS]
    if unknown:
        raise CortadoError(f"{path}: '{unknown[0]}' is not a key of a sweep; expected {', '.join(KEYS)}")
    models = tuple(_texts(path, data, "models"))
    candidates = data.get("candidates")
    if not models and candidates is None:
        raise CortadoError(
            f'{path} names no models: give models = ["ds_cnn", "net.py:build"], or candidates = "net.py:function"'
        )
    places = tuple(_places(path, data))
    return Spec(
        folder=path.parent.resolve(),
        models=models,
        candidates=_function(path, data, "candidates"),
        places=places,
        choices=tuple(_choices(path, data.get("options", {}))),
        seconds=_seconds(path, data, "seconds", DEFAULT_SECONDS),
        figures=_figures(path, data),
        score=_score(path, data),
        score_seconds=_seconds(path, data, "score_seconds", DEFAULT_SCORE_SECONDS),
        constraints=tuple(_constraints(path, data, places)),
    )


def _function(path: Path, data: Mapping[str, Any], name: str) -> str | None:
    """Parses file.py:function."""
    found = data.get(name)
    if found is not None and (not isinstance(found, str) or ".py:" not in found):
        raise CortadoError(f'{path}: {name} = {found!r}, expected a function as in "net.py:{name}"')
    return found


def _score(path: Path, data: Mapping[str, Any]) -> str | None:
    if "score" in data and "candidates" not in data:
        raise CortadoError(f'{path}: score is for candidates; give candidates = "net.py:function" too')
    return _function(path, data, "score")


def _constraints(path: Path, data: Mapping[str, Any], places: Sequence[SweepTarget]) -> Iterator[Constraint]:
    for text in _texts(path, data, "constraints"):
        found = parsed_constraint(text)
        if found is None:
            raise CortadoError(f"{path}: constraints: '{text}', expected {EXPECTED}")
        if found.figure == "ms" and any(place.chip is None for place in places):
            raise CortadoError(
                f"{path}: constraints: '{text}' is for chips, because a target has no clock; use cycles instead"
            )
        yield found


def _texts(path: Path, data: Mapping[str, Any], name: str) -> list[str]:
    found = data.get(name, [])
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise CortadoError(f"{path}: {name} = {found!r}, expected a list of texts")
    return list(dict.fromkeys(found))


def _places(path: Path, data: Mapping[str, Any]) -> Iterator[SweepTarget]:
    chips, targets = _texts(path, data, "chips"), _texts(path, data, "targets")
    if not chips and not targets:
        raise CortadoError(f'{path} names no chips: give chips = ["stm32l4r5"] or targets = ["cortex-m4"]')
    for chip in chips:
        yield SweepTarget(chip=find_chip(chip).name)
    for target in targets:
        if from_target_string(target).cpu is CortexM.ANY:
            raise CortadoError(f"{path}: cycles are those of one core; name it, as in cortex-m4, instead of {target}")
        yield SweepTarget(target=target)


def _choices(path: Path, given: Any) -> Iterator[Mapping[str, Any]]:
    """Yields all combinations of the options' values; a single value counts as a list of one."""
    if not isinstance(given, dict):
        raise CortadoError(f"{path}: options = {given!r}, expected a table, as in [options]")
    known = {field.name for field in fields(Options)}
    for name in given:
        if name not in VARIED:
            why = "is not an option of a sweep" if name in known else "is not an option"
            raise CortadoError(f"{path}: '{name}' {why}; expected {', '.join(VARIED)}")
    lists: list[Sequence[Any]] = [value if isinstance(value, list) else [value] for value in given.values()]
    for values in itertools.product(*lists):
        choice = dict(zip(given, values, strict=True))
        Options(**choice)  # raises for an invalid value
        yield choice


def _seconds(path: Path, data: Mapping[str, Any], name: str, default: float) -> float:
    found = data.get(name, default)
    if isinstance(found, bool) or not isinstance(found, int | float) or found <= 0:
        raise CortadoError(f"{path}: {name} = {found!r}, expected the time limit of a candidate, as in 60")
    return float(found)


def _figures(path: Path, data: Mapping[str, Any]) -> Figures:
    found = data.get("figures", Figures.ESTIMATE.value)
    known = [one.value for one in Figures]
    if found not in known:
        raise CortadoError(f"{path}: figures = {found!r}, expected one of {', '.join(known)}")
    return Figures(found)
