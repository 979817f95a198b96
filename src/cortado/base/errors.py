"""The errors a user reads. Each says what was found, what was expected, where, and what to do."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


class CortadoError(Exception):
    """The user's mistake or a missing tool: the CLI prints one message and exits 2."""


class CortadoWarning(UserWarning):
    """Something that works but that the user should look at; also in the report, under `warnings`."""


class MissingTool(CortadoError):
    """A program this command needs is not installed; the message holds the command that installs it."""


class TellsWhatIsMissing(MissingTool):
    """The same of a command that has printed what is there and what is not."""


class Unfinished(CortadoError):
    """A result that was printed as far as it goes: the place where it was made is gone."""


# Ends the reason why there is no .pte where --allow-float would not make one either.
NO_FLOAT_KERNEL = "ExecuTorch has no kernel for it in float either"


class Refused(CortadoError):
    """Said of a model's calls and shapes: no other data would help. It is found before a model is calibrated. `nodes`
    are the calls, where they are known."""

    def __init__(self, text: str, nodes: Sequence[Any] = ()) -> None:
        super().__init__(text)
        self.nodes = tuple(nodes)


class TooLarge(Refused):
    """Numbers that the tables of a C bundle can't hold."""


class NotInteger(Refused):
    """Calls that no integer operator takes, or none of float32: `reasons` has a line for each of `nodes`."""

    def __init__(self, nodes: Sequence[Any], reasons: Sequence[str], hint: str = "", *, floating: bool = False) -> None:
        title = f"can't run in {'float32' if floating else 'integer arithmetic'}:"
        super().__init__("\n  ".join([title, *reasons]) + hint, nodes)
        self.reasons, self.floating = tuple(reasons), floating


class WrongResult(CortadoError):
    """Something ran, but its bits differ from the reference or it misses a threshold: the CLI exits 1."""


@dataclass(frozen=True)
class Reject:
    """Why an operator can't take a node: a sentence for the user."""

    reason: str
