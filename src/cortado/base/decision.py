"""When a classifier's scores over time become a decision, in the user's terms: smooth=8,threshold=0.7,holdoff=30."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isfinite

from cortado.base.errors import CortadoError

MOST_SMOOTHED = 4096  # outputs: sums of 16-bit codes stay within 32 bits
MOST_HELD = 65_535  # outputs
FORM = "smooth=8,threshold=0.7,holdoff=30,ignore=silence:unknown,threshold.yes=0.8"
_NUMBER = re.compile(r"[0-9]{1,9}")
_KEYS = ("smooth", "threshold", "holdoff", "ignore")
_OF_A_CLASS = ("threshold", "holdoff")


@dataclass(frozen=True)
class Decision:
    """The rule for a decision: a class is decided for when its score, averaged over the last `smooth` outputs, is the
    highest of all and reaches its threshold; then it can't be decided for again during `holdoff` outputs. Thresholds
    are in the units of the model's output: probabilities, after a softmax. Classes in `ignore` can have the highest
    score, but are never decided for. Classes are named by their labels or their numbers."""

    threshold: float
    smooth: int = 1
    holdoff: int = 0
    ignore: tuple[str, ...] = ()
    thresholds: tuple[tuple[str, float], ...] = ()  # of single classes
    holdoffs: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        _check_count("smooth", self.smooth, 1, MOST_SMOOTHED)
        names = self.ignore.split(":") if isinstance(self.ignore, str) else self.ignore
        object.__setattr__(self, "ignore", tuple(str(name) for name in names))
        object.__setattr__(self, "thresholds", _pairs(self.thresholds))
        object.__setattr__(self, "holdoffs", _pairs(self.holdoffs))
        for name, threshold in (("", self.threshold), *self.thresholds):
            _check_number(_key("threshold", name), threshold)
        for name, holdoff in (("", self.holdoff), *self.holdoffs):
            _check_count(_key("holdoff", name), holdoff, 0, MOST_HELD)

    def __str__(self) -> str:
        """Returns the text of the command line."""
        parts = [f"smooth={self.smooth}", f"threshold={self.threshold}", f"holdoff={self.holdoff}"]
        parts += [f"ignore={':'.join(self.ignore)}"] if self.ignore else []
        parts += [f"threshold.{name}={value}" for name, value in self.thresholds]
        parts += [f"holdoff.{name}={value}" for name, value in self.holdoffs]
        return ",".join(parts)


def decision_of(given: object) -> Decision | None:
    """Reads a decision from a text of the form FORM; None stays None."""
    if given is None or isinstance(given, Decision):
        return given
    if not isinstance(given, str):
        raise CortadoError(f"decide={given!r} is not a decision; expected a text such as '{FORM}', or None")
    whole: dict[str, str] = {}
    of_classes: dict[str, dict[str, str]] = {key: {} for key in _OF_A_CLASS}
    for part in given.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        key, dot, class_name = name.partition(".")
        places = of_classes.get(key) if dot else whole
        at = class_name if dot else key
        if not equals or not value or key not in _KEYS or places is None or not at:
            raise CortadoError(f"--decide: found '{part.strip()}', expected parts as in {FORM}")
        if at in places:
            raise CortadoError(f"--decide: {name} is given twice, expected once")
        places[at] = value
    if "threshold" not in whole:
        raise CortadoError(
            f"--decide {given}: there is no threshold, expected the smallest score for a decision, as in {FORM}"
        )
    return Decision(
        threshold=_number("threshold", whole["threshold"]),
        smooth=_count("smooth", whole.get("smooth", "1")),
        holdoff=_count("holdoff", whole.get("holdoff", "0")),
        ignore=tuple(whole["ignore"].split(":")) if "ignore" in whole else (),
        thresholds=tuple((at, _number(_key("threshold", at), text)) for at, text in of_classes["threshold"].items()),
        holdoffs=tuple((at, _count(_key("holdoff", at), text)) for at, text in of_classes["holdoff"].items()),
    )


def _key(key: str, class_name: str) -> str:
    return f"{key}.{class_name}" if class_name else key


def _number(key: str, text: str) -> float:
    try:
        return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise CortadoError(f"--decide: {key}={text} is not a number; expected a score, as in {key}=0.7") from None


def _count(key: str, text: str) -> int:
    if _NUMBER.fullmatch(text.removeprefix("-")) is None:
        raise CortadoError(f"--decide: {key}={text} is not a number of outputs; expected an integer, as in {key}=8")
    return int(text)


def _check_number(key: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise CortadoError(f"--decide: {key}={value!r} is not a score; expected a number, as in {key}=0.7")


def _check_count(key: str, value: object, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise CortadoError(f"--decide: {key}={value!r}; expected a number of outputs from {least} to {most:,}")


def _pairs(given: object) -> tuple[tuple[str, object], ...]:
    items = given.items() if isinstance(given, Mapping) else given
    if not isinstance(items, Iterable):
        raise CortadoError(f"found {given!r} for single classes; expected values by class, as in {{'yes': 0.8}}")
    return tuple((str(name), value) for name, value in items)
