"""The decision of a classifier in report.json."""

from collections.abc import Iterator
from typing import Annotated

from cortado.base.codec import Within, json_class, key
from cortado.base.decision import MOST_HELD, MOST_SMOOTHED
from cortado.base.errors import CortadoError
from cortado.plan.decision import ClassScores, DecisionRule

Outputs = Annotated[int, Within(f"a number of outputs from 1 to {MOST_SMOOTHED}", 1, MOST_SMOOTHED)]
Held = Annotated[int, Within(f"a number of outputs from 0 to {MOST_HELD}", 0, MOST_HELD)]
Sum = Annotated[int, Within("an integer of 32 bits", -(2**31), 2**31 - 2)]


@json_class
class DecisionReport:
    """When scores over time become a decision; classes in their order."""

    spec: str = key("what --decide said")
    smooth: Outputs = key("outputs whose scores are averaged")
    thresholds: tuple[Sum | None, ...] = key("the least sum of a class's codes; null: it is never decided for")
    holdoffs: tuple[Held, ...] = key("outputs that a class rests after a decision for it")
    bytes: int = key("of the arena, what is kept from output to output")

    def rule(self, names: tuple[str, ...] | None) -> DecisionRule:
        known = names if names is not None and len(names) == len(self.thresholds) else ()
        return DecisionRule(self.smooth, self.thresholds, self.holdoffs, known)

    def contradictions(self, scores: ClassScores, lasts: bool) -> Iterator[str]:
        """Returns what is impossible for such an output. `lasts`: something does from output to output."""
        try:
            classes = scores.classes
        except CortadoError:
            classes = 0
        if not lasts or len(self.thresholds) != classes or len(self.holdoffs) != classes:
            yield f"a decision by '{scores.name}', which can't be decided by"
