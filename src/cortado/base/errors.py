"""Errors for the user. Each says what was found, what was expected, where, and what to do."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


class CortadoError(Exception):
    """A mistake of the user or a missing tool: the CLI prints one message and exits 2."""


class CortadoWarning(UserWarning):
    """Something that works but that the user should look at; also in the report, under `warnings`."""


class MissingTool(CortadoError):
    """A program that this command needs is not installed; the message has the command that installs it."""


class TellsWhatIsMissing(MissingTool):
    """The same error from a command that has already printed what is installed and what is missing."""


class Unfinished(CortadoError):
    """A result that is printed incompletely: the place where it was computed is gone."""


# The end of the reason why there is no .pte, where --allow-float would not help either.
NO_FLOAT_KERNEL = "ExecuTorch has no kernel for it in float either"


class Refused(CortadoError):
    """A refusal because of a model's calls and shapes: no other data would help. Raised before a model is calibrated.
    `nodes` are the calls, if known."""

    def __init__(self, text: str, nodes: Sequence[Any] = ()) -> None:
        super().__init__(text)
        self.nodes = tuple(nodes)


class TooLarge(Refused):
    """Numbers that the tables of a C bundle can't hold."""


class NotInteger(Refused):
    """Calls that no integer operator takes, or no float32 one: `reasons` has a line for each of `nodes`."""

    def __init__(self, nodes: Sequence[Any], reasons: Sequence[str], hint: str = "", *, floating: bool = False) -> None:
        title = f"can't run in {'float32' if floating else 'integer arithmetic'}:"
        super().__init__("\n  ".join([title, *reasons]) + hint, nodes)
        self.reasons, self.floating = tuple(reasons), floating


class WrongResult(CortadoError):
    """A result whose bits differ from the reference or that misses a threshold: the CLI exits 1."""


@dataclass(frozen=True)
class Reject:
    """The reason why an operator can't take a node, as a sentence for the user."""

    reason: str
