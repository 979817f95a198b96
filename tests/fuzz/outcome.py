"""One network through every oracle, and what came of it: a line of the journal."""

import re
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any
from unittest import mock

import torch

from cortado import api
from cortado.base.errors import CortadoError
from cortado.frontend.capture import export
from cortado.plan.lowered import LoweredGraph
from fuzz.draw import draw_recipe
from fuzz.host import HostCase, HostFailure, build_host
from fuzz.network import without_layers
from fuzz.oracles import (
    Bundled,
    Case,
    Choices,
    Found,
    Kind,
    check_accuracy,
    check_board,
    check_disturbed,
    check_pte,
    host_case,
)
from fuzz.recipe import Recipe

MOST_CUTS = 3  # rounds in which layers that no .pte has are left out
MOST_SECONDS = 120  # of this process, for one network


@dataclass(frozen=True)
class Places:
    """Where a network runs beside this machine."""

    board: bool = False
    pte: bool = False
    interrupts: bool = False


@dataclass
class Outcome:
    """What came of a network. `kind` is a Kind's name if there is a bug; `refused` the reason if it wasn't compiled."""

    seed: int
    family: str = "networks"
    kind: str = ""
    what: str = ""
    refused: str = ""
    layers: int = 0
    calls: int = 0
    decibels: float = 0.0
    host: bool = False
    pte: bool = False
    board: str = ""
    interrupts: bool = False
    target: str = ""
    drawn: list[str] = field(default_factory=list)  # what it is made of, in the generator's own words
    aten: list[str] = field(default_factory=list)
    operators: list[str] = field(default_factory=list)
    kernels: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def note(self, graph: LoweredGraph) -> None:
        self.calls = len(graph.calls)
        self.operators = sorted({call.operator for call in graph.calls})

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        start = time.process_time()
        yield
        self.seconds[name] = round(self.seconds.get(name, 0.0) + time.process_time() - start, 3)


@dataclass
class Pending:
    """A network that only has to run on this machine still."""

    outcome: Outcome
    case: HostCase
    expected: bytes


def check_seeds(seeds: Sequence[int], places: Callable[[int], Places], checked: bool = False) -> list[Outcome]:
    """Draws and checks the networks of these seeds; those that compile share one program on this machine."""
    found = [_check_seed(seed, places(seed)) for seed in seeds]
    check_host([item for item in found if isinstance(item, Pending)], checked)
    return [item.outcome if isinstance(item, Pending) else item for item in found]


def _check_seed(seed: int, places: Places) -> "Outcome | Pending":
    undrawn = Outcome(seed)
    with recording(undrawn):
        return check_alone(draw_recipe(seed), Choices.draw(seed), places)
    return undrawn


def check_recipe(recipe: Recipe, choices: Choices, places: Places, checked: bool = False) -> Outcome:
    found = check_alone(recipe, choices, places)
    if isinstance(found, Outcome):
        return found
    check_host([found], checked)
    return found.outcome


# ---- all but this machine's C --------------------------------------------------------------------------------------


def check_alone(recipe: Recipe, choices: Choices, places: Places) -> Outcome | Pending:
    """Everything but the C bundle on this machine."""
    drawn = sorted({layer.block for layer in recipe.layers})
    outcome = Outcome(recipe.seed, layers=len(recipe.layers), target=choices.target, drawn=drawn)
    with recording(outcome):
        return _check(recipe, choices, places, outcome)
    return outcome


def _check(recipe: Recipe, choices: Choices, places: Places, outcome: Outcome) -> Pending:
    with outcome.phase("prepare and lower"), spying(outcome):
        case = Case(recipe, choices, f"n{recipe.seed}")
    outcome.note(case.graph)
    with outcome.phase("accuracy"):
        outcome.decibels = round(check_accuracy(case), 1)
    with outcome.phase("plan and emit C"):
        host, expected = host_case(case)
    outcome.kernels = kernels(host.files)
    if places.pte:
        with outcome.phase(".pte"):
            _check_pte(case, outcome)
    if places.board:
        with outcome.phase("board"):
            made: Bundled = check_board(case)
        outcome.board = choices.board
        outcome.kernels = sorted({*outcome.kernels, *kernels(made.bundle.files)})
    if places.interrupts:
        with outcome.phase("interrupts"):
            check_disturbed(case)
        outcome.interrupts = True
    return Pending(outcome, host, expected)


def _check_pte(case: Case, outcome: Outcome) -> None:
    """Of the network, or of what is left of it without the layers that no .pte has."""
    for _ in range(MOST_CUTS):
        if case.has_pte:
            outcome.operators = sorted({*outcome.operators, *check_pte(case)})
            outcome.pte = True
            return
        left = without_layers(case.recipe, case.layers_in_c_alone)
        if left is None:
            return
        case = Case(left, case.choices, case.name)


def kernels(files: Any) -> list[str]:
    return sorted(Path(name).name for name in files if name.startswith("kernels/src/") and name[-2:] in (".c", ".S"))


@contextmanager
def recording(outcome: Outcome) -> Iterator[None]:
    """Puts what goes wrong into the outcome."""
    try:
        with _limited(MOST_SECONDS):
            yield
    except Found as found:
        outcome.kind, outcome.what = found.kind.name, str(found)
    except CortadoError as error:
        text = str(error)
        outcome.refused = "" if "broken rule" in text else reason(text)
        outcome.kind, outcome.what = (Kind.CRASH.name, text) if "broken rule" in text else ("", text)
    except Exception as error:  # whatever it is, it is no message for a user
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(last.filename).name}:{last.lineno}"
        outcome.kind = Kind.CRASH.name
        outcome.what = f"{type(error).__name__} at {place}: {str(error)[:500]}"


@contextmanager
def _limited(seconds: int) -> Iterator[None]:
    """So many seconds of this process's own time: a busy machine is no failure."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Found(Kind.SLOW, f"not finished after {seconds} CPU seconds")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@contextmanager
def spying(outcome: Outcome) -> Iterator[None]:
    """Notes which operators the captured graph holds, before anything is rewritten."""
    capture = export.capture  # which api calls by this name

    def spy(*args: Any, **kwargs: Any) -> Any:
        captured = capture(*args, **kwargs)
        calls = [node.target for node in captured.module.graph.nodes if node.op == "call_function"]
        outcome.aten = sorted({str(target) for target in calls if isinstance(target, torch._ops.OpOverload)})
        return captured

    with mock.patch.object(api, "capture", spy):
        yield


def reason(text: str) -> str:
    """A refusal without the names and numbers of this one network: same reasons count together."""
    lines = text.split("\n")
    line = lines[1] if text.startswith("can't run in ") and len(lines) > 1 else lines[0]
    line = re.sub(r" in module '[^']*'| at \S+:\d+ \(.*?\)(?=:? [a-z])", "", line)
    line = re.sub(r"'[^']*'", "'...'", re.sub(r"-?\d+(\.\d+)?(e-?\d+)?", "N", line))
    return line.strip()[:160]


# ---- this machine --------------------------------------------------------------------------------------------------


def check_host(pending: Sequence[Pending], checked: bool) -> None:
    """All in one program; if that does not build, each in its own, to find out which."""
    if not pending:
        return
    start = time.monotonic()
    with TemporaryDirectory(prefix="cortado-fuzz-") as folder:
        try:
            program = build_host([item.case for item in pending], Path(folder), checked)
        except HostFailure as failure:
            if len(pending) == 1:
                pending[0].outcome.kind, pending[0].outcome.what = Kind.HOST.name, str(failure)
                return
            for item in pending:
                check_host([item], checked)
            return
        for item in pending:
            outcome = item.outcome
            try:
                got = program.run(item.case)
                outcome.host = got == item.expected
                outcome.what = "" if outcome.host else "the C bundle on this machine gives other bits"
            except HostFailure as failure:
                outcome.what = str(failure)
            outcome.kind = "" if outcome.host else Kind.HOST.name
            outcome.seconds["this machine (by the clock)"] = round((time.monotonic() - start) / len(pending), 3)
