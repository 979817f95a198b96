"""A program with a decision behind its first output."""

from collections.abc import Sequence
from dataclasses import replace

from cortado.base.decision import Decision
from cortado.base.errors import CortadoError
from cortado.plan.decision import ClassScores, DecisionRule, check_names, rule_of
from cortado.plan.program import Program


def decided(program: Program, decision: Decision | None, names: Sequence[str] | None) -> Program:
    """`names`: of the classes, where the model has some."""
    if decision is None:
        return program
    check_decision(program, decision, names)
    return replace(program, decision=rule_of(decision, _scores(program), names))


def sketched(program: Program, decision: Decision | None, names: Sequence[str] | None) -> Program:
    """The same where scales stand in for those of real data: a decision of that size, whatever its thresholds."""
    if decision is None:
        return program
    check_decision(program, decision, names)
    classes = _scores(program).classes
    return replace(program, decision=DecisionRule(decision.smooth, (0,) * classes, (0,) * classes))


def check_decision(program: Program, decision: Decision | None, names: Sequence[str] | None) -> None:
    """Refuses what no scales can make right."""
    if decision is None:
        return
    if program.stream is None and not program.state:
        raise CortadoError(
            f"--decide is for scores that come one after the other, and {program.name} has neither a stream nor state; "
            "expected --stream DIM, or a model with state"
        )
    check_names(decision, _scores(program).classes, names)


def _scores(program: Program) -> ClassScores:
    tensor = program.outputs[0]
    scale, zero_point = (None, None) if tensor.qparams is None else (tensor.qparams.scale, tensor.qparams.zero_point)
    return ClassScores(tensor.name, tensor.shape, tensor.element, scale, zero_point)
