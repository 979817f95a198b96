"""The program that a compile asks for: with its way of feeding inputs, and a decision on its first output.

An input that comes row by row is a step without a kernel, whose rows the row loop never makes: the caller provides the
next row, and the first stage computes what it can from it. To the scheduler, the table of allowed stores and the C
tables it is a step that becomes ready when nothing else is: then the next row is requested.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from cortado.base.camera import Camera
from cortado.base.decision import Decision
from cortado.base.errors import CortadoError
from cortado.base.target import Core, CortexMTargetConfig
from cortado.ir.op import registry
from cortado.options import Border, Options
from cortado.plan.cameras import with_camera
from cortado.plan.decision import ClassScores, DecisionRule, check_names, rule_of
from cortado.plan.lowered import LoweredGraph
from cortado.plan.program import (
    MARK_BYTES,
    PUSHED_ROWS,
    ArenaBuffer,
    Program,
    Stage,
    Step,
    Tensor,
    Walk,
    build_program,
    place_of,
)
from cortado.plan.stream import samples_of, streamed

# ---- pushed ----------------------------------------------------------------------------------------------

OPERATOR = "cortado::input_row"
NO_LINES: Mapping[str, str] = MappingProxyType({})
_ROWS_BYTES = 4 + MARK_BYTES  # of the row count, after the mark of a reset


@dataclass(frozen=True)
class Feeding:
    """How a program gets its input: whole, row by row, or as a stream of rows (`stream`: the dimension that is
    time)."""

    rows: bool = False
    stream: int | None = None
    camera: Camera | None = None  # the camera whose lines form the input

    @staticmethod
    def of(options: Options) -> "Feeding":
        """Returns the feeding that the user's options ask for."""
        return Feeding(rows=options.input_rows, stream=options.stream, camera=options.camera)

    @property
    def option(self) -> str:
        return "--input-rows" if self.stream is None else "--stream"


WHOLE_INPUT = Feeding()


def program_of(
    name: str,
    graph: LoweredGraph,
    target: CortexMTargetConfig,
    border: Border,
    feeding: Feeding = WHOLE_INPUT,
    *,
    cores: tuple[Core, ...] | None = None,
    lines: Mapping[str, str] = NO_LINES,
) -> Program:
    """Builds the program of a graph with this feeding; the graph of a stream was lowered as one. `lines`: of the user's
    file, by call, for messages."""
    if feeding.stream is not None:
        program = build_program(name, graph, target, border, cores, running=True, by_rows=True)
        return streamed(with_pushed_input(program, feeding.option), feeding.stream, lines)
    program = build_program(name, graph, target, border, cores, by_rows=feeding.rows)
    fed = with_pushed_input(program, feeding.option) if feeding.rows else program
    return fed if feeding.camera is None else with_camera(fed, feeding.camera)


def with_pushed_input(program: Program, option: str = "--input-rows") -> Program:
    """Makes the input of a program its first step; refuses an input without rows, with the reason."""
    try:
        tensor = _only(program)
        rows, row_bytes = _rows(program, tensor)
        samples = samples_of(tensor, rows)
        if tensor.element.floating and _is_quantized(program, tensor):
            raise CortadoError(
                f"input '{tensor.name}' holds {tensor.dtype} values, which are quantized all at once; expected --io "
                "int8: the bundle's quantize_row converts one row"
            )
        if not tensor.element.computed:
            raise CortadoError(
                f"input '{tensor.name}' holds {tensor.dtype} values, and no kernel reads them row by row"
            )
    except CortadoError as error:
        raise CortadoError(f"{error}. Compile without {option}") from error
    step = Step(
        name=tensor.node,
        operator=OPERATOR,
        module="",
        inputs=(),
        output=tensor.buffer,
        images=1,
        rows=rows,
        row_bytes=row_bytes,
        n=row_bytes // tensor.element.bytes,
        kernels={},
        kind=Walk.PUSHED,
        element=tensor.element,
        samples=samples,
    )
    buffers = {**program.buffers, PUSHED_ROWS: ArenaBuffer(PUSHED_ROWS, _ROWS_BYTES)}
    return replace(program, buffers=buffers, stages=(Stage((step,)), *program.stages))


def _only(program: Program) -> Tensor:
    if program.state:
        names = ", ".join(f"'{kept.name}'" for kept in program.state)
        raise CortadoError(f"{program.name} has state ({names}), so its inputs must come whole")
    if len(program.inputs) != 1:
        names = ", ".join(f"'{tensor.name}'" for tensor in program.inputs)
        raise CortadoError(
            f"{program.name} has {len(program.inputs)} inputs ({names}), but rows can be pushed into only one"
        )
    tensor = program.inputs[0]
    if any(output.buffer == tensor.buffer for output in program.outputs):
        raise CortadoError(f"input '{tensor.name}' is also an output, which is stored whole")
    return tensor


def _is_quantized(program: Program, tensor: Tensor) -> bool:
    """Whether a step quantizes an input (--io float)."""
    readers = [step for step in program.steps if any(port.source == tensor.buffer for port in step.inputs)]
    return any(registry().operators[step.operator].quantizes for step in readers)


def _rows(program: Program, tensor: Tensor) -> tuple[int, int]:
    """Returns the number of rows and the bytes of one, as the readers of the input see them."""
    found = [(step, port) for step in program.steps for port in step.inputs if port.source == tensor.buffer]
    if not found:
        raise CortadoError(f"nothing reads input '{tensor.name}': there are no rows to push")
    rows, row_bytes = found[0][1].height, found[0][1].row_bytes
    for step, port in found:
        if step.images != 1:
            raise CortadoError(f"input '{tensor.name}' holds {step.images} images, but rows can be pushed for only one")
        other = (port.height, port.row_bytes) != (rows, row_bytes)
        if step.kind is Walk.WHOLE or port.rule.stride == 0 or other or rows == 1:
            raise CortadoError(
                f"input '{tensor.name}' can't come row by row: {place_of(step)} reads all {math.prod(tensor.shape)} "
                "values at once. Rows can come from images [1, C, H, W] whose first layers read windows of them, or "
                "from a signal whose first layer is a spectrum without padding (center=False) and whose length is a "
                "multiple of the hop"
            )
    return rows, row_bytes


# ---- decided ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """The request of a compile: a model by name, for a target, with options and the names of its classes."""

    name: str
    target: CortexMTargetConfig
    options: Options
    labels: tuple[str, ...] | None = None

    def undecided(self, graph: LoweredGraph, lines: Mapping[str, str] = NO_LINES) -> Program:
        """Builds the program without its decision. `lines`: of the user's file, by call, for messages."""
        return program_of(self.name, graph, self.target, self.options.io, Feeding.of(self.options), lines=lines)

    def decided(self, program: Program) -> Program:
        watched = replace(program, watched=self.options.watch is not None)
        return decided(watched, self.options.decide, self.labels)

    def stand_in(self, graph: LoweredGraph) -> Program:
        """Builds the program with a decision of the right size, while scales are placeholders or about to change."""
        return sketched(self.undecided(graph), self.options.decide, self.labels)


def decided(program: Program, decision: Decision | None, names: Sequence[str] | None) -> Program:
    """Adds the user's decision to a program. `names`: of the classes, if the model has any."""
    if decision is None:
        return program
    check_decision(program, decision, names)
    return replace(program, decision=rule_of(decision, _scores(program), names))


def sketched(program: Program, decision: Decision | None, names: Sequence[str] | None) -> Program:
    """Adds a decision of the right size with arbitrary thresholds, for scales that are not those of real data."""
    if decision is None:
        return program
    check_decision(program, decision, names)
    classes = _scores(program).classes
    return replace(program, decision=DecisionRule(decision.smooth, (0,) * classes, (0,) * classes))


def check_decision(program: Program, decision: Decision | None, names: Sequence[str] | None) -> None:
    """Refuses a decision that is wrong whatever the scales."""
    if decision is None:
        return
    if program.stream is None and not program.state:
        raise CortadoError(
            f"--decide is for scores that come one after the other, but {program.name} has neither a stream nor state; "
            "expected --stream DIM, or a model with state"
        )
    check_names(decision, _scores(program).classes, names)


def _scores(program: Program) -> ClassScores:
    tensor = program.outputs[0]
    scale, zero_point = (None, None) if tensor.qparams is None else (tensor.qparams.scale, tensor.qparams.zero_point)
    return ClassScores(tensor.name, tensor.shape, tensor.element, scale, zero_point)
