"""One task of a sweep, in the process that runs the user's code: the candidate is built, and its row read from the
cache or computed."""

import json
import math
import os
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

from cortado.base.chips import find_chip
from cortado.base.errors import CortadoError
from cortado.base.target import from_target_string
from cortado.exploring import Estimate, board_work, chosen_target, estimate_of, prepared, sketch
from cortado.models.sources import Source, find_function, load_function, load_model, source_of
from cortado.options import Options
from cortado.sweep.content import content_key, score_key
from cortado.sweep.rows import CandidateScore, ScoreTask, Status, SweepRow, Task, ended, options_text
from cortado.sweep.spec import Figures

_Builder = Callable[[], Any]


def warm_up() -> None:
    """Triggers late imports, so that they do not count towards a candidate's time."""
    layer = torch.nn.Linear(2, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sketch(prepared(layer, (torch.ones(1, 2),)), from_target_string("cortex-m4"))


def names_of(candidates: str, folder: str) -> list[str]:
    """Returns the names of a function's candidates."""
    with _inside(folder):
        return list(_builders(candidates, folder))


def row_of(task: Task) -> SweepRow:
    """Returns a task's row; an exception in the user's code becomes its reason."""
    try:
        with _inside(task.folder), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _row(task)
    except CortadoError as error:
        return ended(task, Status.REFUSED, str(error))
    except Exception as error:
        return ended(task, Status.FAILED, _raised(error))


def _raised(error: Exception) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {' '.join(str(error).split())} at {last.filename}:{last.lineno}"


def _row(task: Task) -> SweepRow:
    source = _source(task)
    key = content_key(task, source)
    known = None if task.cache is None or not key else Path(task.cache) / f"{key}.json"
    found = None if known is None else _remembered(known)
    if found is not None:
        named = ended(task, Status.FINE, "")
        return replace(found, model=named.model, place=named.place, options=named.options, cached=True)
    return _worked_out(task, source, key)


def _remembered(path: Path) -> SweepRow | None:
    """Reads a cached row; None for an unreadable one, which is computed again and overwritten."""
    try:
        return SweepRow.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _worked_out(task: Task, source: Source, key: str) -> SweepRow:
    chip = None if task.place.chip is None else find_chip(task.place.chip)
    options = Options(**task.options)
    target = chosen_target(chip, task.place.target)
    try:
        drawn = sketch(prepared(source.model, source.example_inputs, options), target, options)
        found = estimate_of(drawn, chip)
        if Figures(task.figures) is Figures.BOARD:
            found = found.with_cycles(round(board_work(drawn).total.cycles.typical), chip)
    except CortadoError as error:
        return replace(ended(task, Status.REFUSED, str(error)), key=key)
    return _figures(task, found, key)


def _figures(task: Task, found: Estimate, key: str) -> SweepRow:
    return SweepRow(
        model=task.model,
        place=task.place.label,
        options=options_text(task.options),
        status=Status.FINE,
        target=found.target,
        macs=found.macs,
        ram_bytes=found.ram_bytes,
        weights_bytes=found.weights_bytes,
        code_bytes=found.code_bytes,
        flash_bytes=found.flash_bytes,
        cycles=found.cycles,
        milliseconds=found.milliseconds,
        fits=found.fits,
        key=key,
    )


# ---- scores ---


def score_of(task: ScoreTask) -> CandidateScore:
    """Scores a freshly built candidate; an exception in the user's code becomes the reason for having no score."""
    try:
        with _inside(task.folder), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _score(task)
    except CortadoError as error:
        return CandidateScore(None, Status.REFUSED, str(error))
    except Exception as error:
        return CandidateScore(None, Status.FAILED, _raised(error))


def _score(task: ScoreTask) -> CandidateScore:
    source = _candidate(task.candidates, task.folder, task.model)
    function = find_function(task.score)
    key = score_key(task, source, function)
    known = None if task.cache is None or not key else Path(task.cache) / f"{key}.json"
    found = None if known is None else _known_score(known)
    if found is not None:
        return replace(found, cached=True)
    given = function(source.model)
    try:
        value = float(given)
    except (TypeError, ValueError):
        raise CortadoError(f"{task.score} gives {given!r}, expected one number, higher for a better model") from None
    if not math.isfinite(value):
        raise CortadoError(f"{task.score} gives {value}, expected a finite number, higher for a better model")
    return CandidateScore(value, key=key)


def _known_score(path: Path) -> CandidateScore | None:
    try:
        return CandidateScore.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        return None


# ---- candidates ----------------------------------------------------------------------------------------------------


@contextmanager
def _inside(folder: str) -> Iterator[None]:
    """Changes to the spec's folder, which file names are relative to."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _source(task: Task) -> Source:
    if task.candidates is None:
        torch.manual_seed(0)
        return load_model(task.model)
    return _candidate(task.candidates, task.folder, task.model)


def _candidate(candidates: str, folder: str, name: str) -> Source:
    torch.manual_seed(0)  # makes random weights reproducible
    builder = _builders(candidates, folder).get(name)
    if builder is None:
        raise CortadoError(f"{candidates} no longer returns '{name}', expected the same candidates in each call")
    return source_of("candidate", builder, f"{candidates}: {name}")


@cache
def _builders(candidates: str, folder: str) -> Mapping[str, _Builder]:
    """Returns a function's candidates: (name, function) pairs, or a dictionary of them; each function returns (model,
    example_inputs)."""
    given = load_function(candidates)
    pairs: Iterable[Any] = given.items() if isinstance(given, Mapping) else given
    found: dict[str, _Builder] = {}
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[0], str) or not callable(pair[1]):
            raise CortadoError(
                f"{candidates} gives {pair!r}, expected pairs of a name and a function that returns "
                "(model, example_inputs)"
            )
        if pair[0] in found:
            raise CortadoError(f"{candidates} gives two candidates named '{pair[0]}', expected a name for each")
        found[pair[0]] = pair[1]
    return found
