"""The families of networks that a campaign draws, and how a chunk of each is checked."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory

from cortado.base.errors import CortadoError
from cortado.compiled import Compiled
from cortado.run.runner import HOST
from fuzz import masks
from fuzz.elements import Elements, check_values, element_case
from fuzz.integers import IntegerCase, Integers, check_exact, draw_integers, is_constant
from fuzz.oracles import Choices, Data, Found, Kind, ModuleCase, check_board, host_case
from fuzz.outcome import Outcome, Pending, Places, check_host, check_seeds, kernels, recording, spying
from fuzz.sequences import Stateful, Windowed, check_state, check_stream, target_of

STATE_STEPS = 50
BOARD_EVERY = 5  # of the sequences, one runs on a board too


class Family(StrEnum):
    NETWORKS = "networks"
    INTEGERS = "integers"
    ELEMENTS = "elements"
    MASKS = "masks"
    STATE = "state"
    STREAMS = "streams"


def check_chunk(family: Family, seeds: Sequence[int], places: Callable[[int], Places], checked: bool) -> list[Outcome]:
    """What came of the networks of these seeds. With `checked`, the C code checks itself too."""
    if family is Family.NETWORKS:
        return check_seeds(seeds, places, checked)
    found = [_CHECKS[family](seed) for seed in seeds]
    check_host([item for item in found if isinstance(item, Pending)], checked)
    outcomes = [item.outcome if isinstance(item, Pending) else item for item in found]
    for outcome in outcomes:
        outcome.family = family
    return outcomes


def _integers(seed: int) -> Outcome | Pending:
    """Just what torch gives, on inputs that were not seen before; the same bits in C."""
    recipe = draw_integers(seed)
    steps = [step.name for step in recipe.steps]
    inputs = [str(kind).removeprefix("torch.") + " input" for kind, _ in recipe.inputs]
    outcome = Outcome(seed, layers=len(steps), drawn=[*steps, *inputs])
    if not recipe.outputs:
        outcome.refused = "nothing was drawn that is an output"
        return outcome
    with recording(outcome):
        case = _captured(recipe, seed)
        outcome.note(case.graph)
        wrong = check_exact(case)
        if wrong:
            raise Found(Kind.EXACT, wrong)
        if is_constant(case):
            outcome.refused = "an output depends on no input"
            return outcome
        host, expected = host_case(case)
        outcome.kernels = kernels(host.files)
        return Pending(outcome, host, expected)
    return outcome


def _captured(recipe: Integers, seed: int) -> IntegerCase:
    """Nothing in these networks is written under two names: a graph that computes something else is a bug."""
    try:
        return IntegerCase(recipe, Choices.draw(seed), f"i{seed}")
    except CortadoError as error:
        if "does not compute what the model does" in str(error):
            raise Found(Kind.EXACT, str(error)) from None
        raise


def _elements(seed: int) -> Outcome | Pending:
    """The bits of the reference in C, and values close to torch's; every fifth runs on a board too."""
    outcome = Outcome(seed, drawn=Elements(seed).drawn)
    with recording(outcome):
        with spying(outcome):
            case = element_case(seed, f"e{seed}")
        outcome.note(case.graph)
        outcome.target, outcome.layers = case.choices.target, len(outcome.drawn)
        outcome.decibels = round(check_values(case), 1)
        host, expected = host_case(case)
        outcome.kernels = kernels(host.files)
        if seed % BOARD_EVERY == 0:
            made = check_board(case)
            outcome.board = case.choices.board
            outcome.kernels = sorted({*outcome.kernels, *kernels(made.bundle.files)})
        return Pending(outcome, host, expected)
    return outcome


def _masks(seed: int) -> Outcome | Pending:
    """Nothing on hidden places, the rest no further off than without a mask, and the same bits in C."""
    case = masks.draw_case(seed)
    spelling = case.spelling
    drawn = [f"hidden by: {spelling.origin}", f"moved: {spelling.movement}", f"read by: {spelling.reader}"]
    kind = "a computed mask" if case.computed else "a constant mask"
    outcome = Outcome(seed, drawn=[*drawn, *(f"computed: {name}" for name in spelling.after), kind])
    with recording(outcome):
        found = masks.check(seed)
        if found is not None:
            raise Found(Kind.MASK, found)
        made = ModuleCase(case.model, Data(case.batches, case.fresh), Choices.draw(seed), f"m{seed}")
        outcome.note(made.graph)
        host, expected = host_case(made)
        outcome.kernels = kernels(host.files)
        return Pending(outcome, host, expected)
    return outcome


def _state(seed: int) -> Outcome:
    outcome = Outcome(seed, target=target_of(seed), drawn=Stateful(seed).kinds)
    with recording(outcome), TemporaryDirectory(prefix="cortado-fuzz-") as folder:
        _met(outcome, check_state(seed, Path(folder) / "host", HOST, STATE_STEPS))
        outcome.host = True
        if seed % BOARD_EVERY == 0:
            _met(outcome, check_state(seed, Path(folder) / "board", None, STATE_STEPS))
            outcome.board = outcome.target
    return outcome


def _streams(seed: int) -> Outcome:
    outcome = Outcome(seed, target=target_of(seed), drawn=[f"ends in: {Windowed(seed).end}"])
    with recording(outcome), TemporaryDirectory(prefix="cortado-fuzz-") as folder:
        _met(outcome, check_stream(seed, Path(folder) / "host", board=False))
        outcome.host = True
        if seed % BOARD_EVERY == 0:
            _met(outcome, check_stream(seed, Path(folder) / "board", board=True))
            outcome.board = outcome.target
    return outcome


def _met(outcome: Outcome, compiled: Compiled) -> None:
    """The operators and kernels of a compiled network."""
    assert compiled.graph is not None
    assert compiled.bundle is not None
    outcome.note(compiled.graph)
    outcome.kernels = sorted({*outcome.kernels, *kernels(compiled.bundle.files)})


_CHECKS: dict[Family, Callable[[int], Outcome | Pending]] = {
    Family.INTEGERS: _integers,
    Family.ELEMENTS: _elements,
    Family.MASKS: _masks,
    Family.STATE: _state,
    Family.STREAMS: _streams,
}
