"""Which steps run together, and where their buffers lie: from a Program to a Program with its memory plan."""

from dataclasses import dataclass

from cortado import memory
from cortado.memory import Plan, Problem
from cortado.program import Program, Step

ALIGNMENT = 16


@dataclass(frozen=True)
class Planned:
    """A program, its memory problem and the plan that solves it."""

    program: Program
    problem: Problem
    plan: Plan

    def ring_rows(self, buffer: str, height: int) -> int:
        """The rows of a tensor that are held in memory: all of them unless it is a ring."""
        rows = self.program.buffers[buffer].rows
        return rows if rows > 1 and rows < height else height

    def rows_needed(self, step: Step) -> int:
        return step.rows


def schedule(program: Program) -> Planned:
    """Layer by layer."""
    problem = memory_problem(program)
    plan = memory.plan(problem)
    memory.validate(problem, plan)
    return Planned(program, problem, plan)


def memory_problem(program: Program) -> Problem:
    """Every buffer with its lifetime; scratch lives only at its step."""
    first: dict[str, int] = {tensor.buffer: 0 for tensor in program.inputs}
    last: dict[str, int] = dict(first)
    buffers = []
    for number, stage in enumerate(program.stages):
        for position, step in enumerate(stage.steps):
            for port in step.inputs:
                if isinstance(port.source, str):
                    last[port.source] = number
            first.setdefault(step.output, number)
            last[step.output] = number
            if step.scratch:
                time = (number, position)
                name = f"{step.name}.scratch"
                buffers.append(memory.Buffer(name, step.scratch, time, (number, position + 1), ALIGNMENT))
    for tensor in program.outputs:
        last[tensor.buffer] = max(len(program.stages) - 1, 0)
    for name, buffer in program.buffers.items():
        if name in first:
            buffers.append(memory.Buffer(name, buffer.size, (first[name], 0), (last[name] + 1, 0), ALIGNMENT))
    return Problem(tuple(buffers))
