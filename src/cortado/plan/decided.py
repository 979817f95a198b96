"""The program that a compile asks for: fed as is wanted, with a decision behind its first output."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cortado.base.decision import Decision
from cortado.base.errors import CortadoError
from cortado.base.target import CortexMTargetConfig
from cortado.options import Options
from cortado.plan.decision import ClassScores, DecisionRule, check_names, rule_of
from cortado.plan.lowered import LoweredGraph
from cortado.plan.program import Program
from cortado.plan.pushed import NO_LINES, Feeding, program_of


@dataclass(frozen=True)
class Asked:
    """Request of a compile: a model by its name, for a target, with options and the names of its classes."""

    name: str
    target: CortexMTargetConfig
    options: Options
    labels: tuple[str, ...] | None = None

    def undecided(self, graph: LoweredGraph, lines: Mapping[str, str] = NO_LINES) -> Program:
        """The program without its decision. `lines`: of the user's file, by call, for messages."""
        return program_of(self.name, graph, self.target, self.options.io, Feeding.of(self.options), lines=lines)

    def decided(self, program: Program) -> Program:
        return decided(program, self.options.decide, self.labels)

    def stand_in(self, graph: LoweredGraph) -> Program:
        """The same where scales stand in for those of real data, or are about to change."""
        return sketched(self.undecided(graph), self.options.decide, self.labels)


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
