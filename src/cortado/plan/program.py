"""The lowered graph as kernels and buffers: the input of the C bundle, the memory plan and the report."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property

from cortado.base.camera import Camera
from cortado.base.element import Element, element_of
from cortado.base.errors import CortadoError
from cortado.base.names import operator_base
from cortado.base.numerics import QParams
from cortado.base.target import Core, CortexMTargetConfig
from cortado.ir.frames import of_one_frame
from cortado.ir.kernel import ONE_ROW, Array, Kernel, RowRule, Rows
from cortado.ir.op import Call, registry
from cortado.ops.io.quantize import QUANTIZE
from cortado.ops.move.reshape import TRANSPOSE
from cortado.options import Border
from cortado.plan.decision import DecisionRule
from cortado.plan.lowered import Ends, LoweredCall, LoweredGraph, State, chosen_ends, ends_of, model_id
from cortado.plan.windows import StreamWindows, WindowRows

PUSHED_ROWS = "input.rows"  # a buffer: the number of rows received of an input that comes row by row
STATE_MARK = "state.mark"  # a buffer: the mark that MODEL_reset leaves with the state
MARK_BYTES = 4
CAMERA_PLACE = "camera.place"  # a buffer: the position in a camera's picture, live from its first line
CAMERA_LINE = "camera.line"  # a buffer: the line that a camera's front end keeps for the next


class Walk(Enum):
    """How a kernel traverses its output."""

    ROWS = "one row from the rows of its window"
    PIXELS = "any span of pixels"
    ELEMENTS = "any span of elements, in place if need be"
    ACCUMULATE = "one input row after the other into one output row"
    WHOLE = "the whole tensor at once"
    PUSHED = "no kernel: the caller provides one row after the other"
    RUNNING = "one row after the other, and after each the result of the last rows"


@dataclass(frozen=True)
class ArenaBuffer:
    """A tensor in the arena: whole, or a ring of `rows` of its rows if `rows` is not 0."""

    name: str
    size: int  # of the whole tensor
    rows: int = 0


@dataclass(frozen=True)
class Port:
    """One tensor operand of a step: where its rows lie and which of them an output row needs."""

    source: str | Array  # a buffer's name, or a constant in flash
    height: int  # rows of one image
    row_bytes: int
    element: Element
    rule: RowRule = ONE_ROW

    @property
    def image_bytes(self) -> int:
        return self.height * self.row_bytes

    def collapsed(self, images: int) -> "Port":
        """Returns the port of the whole tensor as one row; an operand that every row reads whole is unchanged."""
        if self.rule.stride == 0:
            return self
        return replace(self, height=1, row_bytes=images * self.image_bytes, rule=ONE_ROW)


@dataclass(frozen=True)
class Step:
    """One kernel over one tensor: `images` times `rows` output rows of `row_bytes`, `n` pixels or elements each.

    An accumulating step is called once per INPUT row and completes its only output row with the last.
    """

    name: str
    operator: str
    module: str
    inputs: tuple[Port, ...]
    output: str
    images: int
    rows: int
    row_bytes: int
    n: int
    kernels: Mapping[Core, Kernel]
    kind: Walk
    element: Element  # of its output
    macs: int = 0
    extra_results: tuple[Port, ...] = ()  # secondary outputs, row by row like the first; the step then runs alone
    group: int = 1  # rows of `n` pixels that one call makes; the last call makes the rest
    samples: int = 0  # samples of a signal in each row of a pushed input; 0: rows are those of an image

    @cached_property
    def scratch(self) -> int:
        return max((kernel.scratch for kernel in self.kernels.values()), default=0)

    def lean(self) -> "Step":
        """Returns the step with its lean kernels, which need less scratch, if it has them."""
        return replace(self, kernels={core: kernel.lean or kernel for core, kernel in self.kernels.items()})

    @property
    def outputs(self) -> tuple[str, ...]:
        """The buffers that the step writes."""
        return (self.output, *(str(port.source) for port in self.extra_results))

    def row_bytes_of(self, output: str) -> int:
        """Returns the bytes of a row of one of its outputs."""
        return next((port.row_bytes for port in self.extra_results if port.source == output), self.row_bytes)

    @property
    def ports(self) -> tuple[Port, ...]:
        """The tensors to whose rows its kernel gets pointers, in order: all but the first output."""
        return (*self.inputs, *self.extra_results)

    @property
    def one_row(self) -> bool:
        """Whether it reads many rows of an image and gives one."""
        return self.kind in (Walk.ACCUMULATE, Walk.RUNNING)

    @property
    def image_bytes(self) -> int:
        return self.row_bytes if self.one_row else self.rows * self.row_bytes

    def grouped(self, rows: int) -> "Step":
        """Returns the step with `rows` rows per call, if its kernel takes any span of pixels."""
        return replace(self, group=rows) if self.kind is Walk.PIXELS else self

    def collapsed(self) -> "Step":
        """Returns a pixelwise step over all its rows at once: one call instead of one per row."""
        if self.kind not in (Walk.PIXELS, Walk.ELEMENTS):
            return self
        return replace(
            self,
            inputs=tuple(port.collapsed(self.images) for port in self.inputs),
            extra_results=tuple(port.collapsed(self.images) for port in self.extra_results),
            images=1,
            rows=1,
            row_bytes=self.images * self.rows * self.row_bytes,
            n=self.images * self.rows * self.n,
        )


def place_of(step: Step) -> str:
    """Names a step, for messages."""
    return f"{step.module or step.name} ({operator_base(step.operator)})"


@dataclass(frozen=True)
class Stage:
    """Steps that run together, row by row."""

    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Tensor:
    """An input or output of the program; `node` is its value in the lowered graph."""

    name: str
    node: str
    buffer: str
    shape: tuple[int, ...]
    element: Element
    qparams: QParams | None
    layout: tuple[int, ...]  # the model's dimensions in memory order: (0, 2, 3, 1) is NHWC

    @property
    def dtype(self) -> str:
        """NumPy's name of the element."""
        return self.element.name

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * self.element.bytes


@dataclass(frozen=True)
class StateTensor:
    """A tensor that persists from run to run; its next value is what `source` holds after a run."""

    name: str  # that of the model's buffer
    tensor: Tensor
    source: str  # a buffer
    initial: Array


@dataclass(frozen=True)
class Stream(StreamWindows):
    """An endless stream of rows: after every hop of rows, the output for the next window."""

    warm_up: int  # rows that the last step makes before the first output
    offsets: Mapping[str, int]  # by step: its row r is row r + offset of the window's tensor

    def rows_of(self, step: Step, made: int) -> WindowRows:
        """Returns which of a step's `made` rows since a reset are rows of the first window's tensor."""
        offset = self.offsets[step.name]
        start, stop = max(-offset, 0), min(made, step.image_bytes // step.row_bytes - offset)
        return WindowRows(start, max(stop, start), start + offset)


@dataclass(frozen=True)
class Program:
    """A whole network: buffers, stages in order, inputs and outputs, and state."""

    name: str
    target: CortexMTargetConfig
    cores: tuple[Core, ...]  # the cores of its kernels: the target's, or PORTABLE to run on this machine
    buffers: Mapping[str, ArenaBuffer]
    stages: tuple[Stage, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    state: tuple[StateTensor, ...] = ()  # in an order in which no source is overwritten before it is read
    stream: Stream | None = None
    identity: str = ""  # a hash of what it computes: see plan/lowered.py
    ends: Mapping[str, Ends] = field(default_factory=dict)  # of the ranges of buffers, including inputs
    decision: DecisionRule | None = None  # on the first output, over time
    watched: bool = False  # its last output measures how unlike the calibration data the input is
    camera: Camera | None = None  # the camera that provides its input
    method_of: str = ""  # the model of which it is an additional method, sharing arena and state

    @property
    def owner(self) -> str:
        """The model after which the arena and the constants are named."""
        return self.method_of or self.name

    @property
    def entering(self) -> tuple[str, ...]:
        """The buffers that are live before the first step; an input that comes row by row is not among them."""
        inputs = self.inputs if self.pushed is None else ()
        return (*(tensor.buffer for tensor in inputs), *(kept.tensor.buffer for kept in self.state))

    @property
    def leaving(self) -> tuple[str, ...]:
        """The buffers that are live after the last step."""
        kept = [name for one in self.state for name in (one.tensor.buffer, one.source)]
        return (*(tensor.buffer for tensor in self.outputs), *kept)

    @property
    def steps(self) -> tuple[Step, ...]:
        return tuple(step for stage in self.stages for step in stage.steps)

    @property
    def decision_bytes(self) -> int:
        """The bytes of a decision's state."""
        return 0 if self.decision is None else self.decision.bytes(self.outputs[0].element)

    @property
    def pushed(self) -> Step | None:
        """The step of an input that comes row by row, which is the first; None without one."""
        first = self.steps[:1]
        return first[0] if first and first[0].kind is Walk.PUSHED else None


# ---- from the lowered graph ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class CodedBorders:
    """The inputs and outputs, by position, that are codes although the border is float; images keep their layout."""

    inputs: frozenset[int] = frozenset()
    outputs: frozenset[int] = frozenset()


NO_CODES = CodedBorders()


def build_program(
    name: str,
    graph: LoweredGraph,
    target: CortexMTargetConfig,
    border: Border = Border.INT8,
    cores: tuple[Core, ...] | None = None,
    *,
    running: bool = False,
    codes: CodedBorders = NO_CODES,
    by_rows: bool = False,
) -> Program:
    """Builds a program with one stage per kernel. `running`: with kernels for an endless stream, for operators that
    have them; `by_rows`: the input comes row by row, in the layout of its readers, whatever its element."""
    return _Builder(name, graph, target, border, cores or target.cores, running, codes, by_rows).build()


class _Builder:
    def __init__(
        self,
        name: str,
        graph: LoweredGraph,
        target: CortexMTargetConfig,
        border: Border,
        cores: tuple[Core, ...],
        running: bool,
        codes: CodedBorders,
        by_rows: bool,
    ) -> None:
        self.name, self.graph, self.target, self.border, self.cores = name, graph, target, border, cores
        self.running, self.by_rows = running, by_rows
        self.codes = codes
        self.coded = {graph.inputs[i] for i in codes.inputs}
        self.coded |= {name for name in graph.outputs if _only_codes(name, graph.outputs, codes)}
        self.buffers: dict[str, ArenaBuffer] = {}
        self.place: dict[str, str | Array] = {}  # the buffer or constant of each value
        self.stages: list[Stage] = []

    def build(self) -> Program:
        inputs = [self._input(name) for name in self.graph.inputs]
        for state in self.graph.state:
            self.place[state.name] = self._buffer(state.name)
        for call in self.graph.calls:
            if call.name not in self.place:
                self._add(call)
        results = [self._output(name, position) for position, name in enumerate(self.graph.outputs)]
        return Program(
            name=self.name,
            target=self.target,
            cores=self.cores,
            buffers=self.buffers,
            stages=tuple(self.stages),
            inputs=tuple(inputs),
            outputs=tuple(results),
            state=_in_order([self._kept(state) for state in self.graph.state]),
            identity=model_id(self.graph),
            ends=self._ends(inputs),
        )

    def _ends(self, inputs: Sequence[Tensor]) -> dict[str, Ends]:
        chosen = chosen_ends(self.graph)
        entering = {tensor.buffer: ends_of(tensor.qparams) for tensor in inputs}
        known = {name: chosen.get(name) for name in self.buffers} | entering
        return {name: ends for name, ends in known.items() if ends is not None}

    def _kept(self, state: State) -> StateTensor:
        source = self.place.get(state.source)
        if not isinstance(source, str):
            raise CortadoError(
                f"the buffer '{state.buffer}' is the same after every call, expected one that depends on an input or "
                "its own previous value; write it as a constant"
            )
        value = self.graph.values[state.name]
        tensor = self._tensor(state.buffer, state.name, tuple(range(len(value.shape))))
        return StateTensor(state.buffer, tensor, source, Array(state.initial.numpy()))

    def _input(self, name: str) -> Tensor:
        """Adds an input. With an int8 border the program starts after the quantize, and after a transpose that follows
        it. Integer inputs have no quantize, nor have rows of float32."""
        chain: list[LoweredCall] = []
        last = name
        while last not in self.graph.leaving and (self.border is Border.INT8 or (name in self.coded and not chain)):
            users = self.graph.users.get(last, [])
            coded = not self.graph.values[name].element.floating or (self.by_rows and _moved(users))
            wanted = TRANSPOSE if chain or coded else QUANTIZE
            if len(users) != 1 or users[0].operator != wanted.name:
                break
            chain.append(users[0])
            last = users[0].name
            if users[0].operator == TRANSPOSE.name:
                break
        place = self._buffer(last)
        for skipped in (name, *(call.name for call in chain)):
            self.place[skipped] = place
        return self._coded(chain, self._tensor(name, last, _permutation(len(self.graph.values[name].shape), chain)))

    def _output(self, name: str, position: int) -> Tensor:
        """Adds an output. With an int8 border the program ends before the dequantize, and before a transpose that
        precedes it."""
        chain: list[LoweredCall] = []
        first = name
        if name in self.graph.constants:
            raise CortadoError(f"output {position} does not depend on any input; there is nothing to compile for it")
        while first in self.graph.by_name and (first not in self.place or self._is_coded(first, position, chain)):
            chain.insert(0, self.graph.by_name[first])
            first = chain[0].refs("input")[0]
        perm = _permutation(len(self.graph.values[name].shape), chain)
        found = self._tensor(f"output{position}", first, tuple(perm.index(dim) for dim in range(len(perm))))
        return self._coded(chain, found)

    @staticmethod
    def _coded(chain: Sequence[LoweredCall], tensor: Tensor) -> Tensor:
        """Gives a tensor the scale and zero point of the quantize or dequantize that the program leaves out. The calls
        inside can read the same codes with others, where adding a constant is only a change of zero point."""
        for call in chain:
            operator = registry().operators[call.operator]
            if (operator.quantizes or operator.dequantizes) and tensor.qparams is not None:
                scale, zero_point = call.arguments["scale"], call.arguments["zero_point"]
                assert isinstance(scale, float)
                assert isinstance(zero_point, int)
                return replace(tensor, qparams=QParams(scale, zero_point, tensor.element))
        return tensor

    def _is_coded(self, name: str, position: int, chain: Sequence[LoweredCall]) -> bool:
        """Whether an output is the operand of a dequantize whose result is another output."""
        coded = position in self.codes.outputs and not chain
        return coded and _dequantizes(self.graph.by_name[name])

    def _tensor(self, name: str, value_name: str, layout: tuple[int, ...]) -> Tensor:
        place = self.place.get(value_name)
        if not isinstance(place, str):
            raise CortadoError(f"'{name}' is a constant; there is nothing to compile for it")
        value = self.graph.values[value_name]
        return Tensor(name, value_name, place, value.shape, value.element, value.qparams, layout)

    def _buffer(self, name: str) -> str:
        self.buffers[name] = ArenaBuffer(name, self.graph.values[name].bytes)
        return name

    def _add(self, call: LoweredCall) -> None:
        bound = self.graph.bound(call)
        operator = bound.operator
        if operator.view:
            self.place[call.name] = self._source(call.refs(operator.tensors[0])[0])
            return
        if (self.border is Border.INT8 or call.name in self.coded) and self._leaves(call):
            return
        if operator.kernel is None:
            raise CortadoError(f"{call.module or call.name}: the C bundle has no kernel for {operator.name}")
        for result in call.read:
            self.place[result] = self._buffer(result)
        self.stages.append(Stage((self._step(call, bound),)))

    def _leaves(self, call: LoweredCall) -> bool:
        """Whether a call is left out: a dequantize before a graph output, or a transpose before only such
        dequantizes."""
        users = self.graph.users.get(call.name, [])
        if _dequantizes(call):
            return not users and not self._overwritten(call)
        if call.operator != TRANSPOSE.name or not users or call.name in self.graph.leaving:
            return False
        return all(_dequantizes(user) and self._leaves(user) for user in users)

    def _overwritten(self, call: LoweredCall) -> bool:
        """Whether an output would be in a state's buffer, which holds the next value after the run."""
        name = call.name
        while name in self.graph.by_name and name not in self.place:
            name = self.graph.by_name[name].refs("input")[0]
        return self.place[name] in {state.name for state in self.graph.state}

    def _source(self, name: str) -> str | Array:
        return self.place[name] if name in self.place else Array(self.graph.constants[name].numpy())

    def _step(self, call: LoweredCall, bound: Call) -> Step:
        if call.frames:
            return self._frame_step(call, bound)
        kernel_of = bound.operator.kernel
        assert kernel_of is not None
        operands = call.refs(*bound.operator.tensors)
        rows, kernels = bound.operator.rows(bound), {core: kernel_of(bound, core) for core in self.cores}
        found = {core: bound.operator.running(bound, core) for core in self.cores if self.running}
        running = {core: one for core, one in found.items() if one is not None}
        if running:
            rows = next(iter(running.values())).rows
            kernels = {core: one.kernel for core, one in running.items()}
        kind = _walk(rows, running=bool(running))
        value = self.graph.values[call.name]
        images, height, row_bytes = _geometry(value.shape, value.element, kind is not Walk.WHOLE)
        rules = rows.inputs if rows is not None else tuple(None for _ in operands)
        ports = tuple(self._port(operand, rule) for operand, rule in zip(operands, rules, strict=True))
        extra_results = tuple(self._port(name, None if kind is Walk.WHOLE else ONE_ROW) for name in call.read[1:])
        elements = _row_elements((*ports, *extra_results))
        return Step(
            name=call.name,
            operator=bound.operator.name,
            module=call.module,
            inputs=ports,
            output=str(self.place[call.name]),
            images=images,
            rows=rows.accumulates if rows is not None and rows.accumulates else height,
            row_bytes=row_bytes,
            n=_span(value.shape, kind),
            kernels={core: kernel.typed(elements, value.element) for core, kernel in kernels.items()},
            kind=kind,
            macs=bound.operator.macs(bound),
            element=value.element,
            extra_results=extra_results,
        )

    def _frame_step(self, call: LoweredCall, bound: Call) -> Step:
        """Builds the step of a call that runs once for each frame: a row is a frame, whatever its shape."""
        one, kernel_of, value = of_one_frame(bound, call.frames), bound.operator.kernel, self.graph.values[call.name]
        assert one is not None
        assert kernel_of is not None
        rows = bound.operator.rows(one)
        kind = Walk.ROWS if rows is None else _walk(rows, running=False)
        ports = tuple(self._frame_port(name, call.frames) for name in call.refs(*bound.operator.tensors))
        elements = _row_elements(ports)
        return Step(
            name=call.name,
            operator=bound.operator.name,
            module=call.module,
            inputs=ports,
            output=str(self.place[call.name]),
            images=1,
            rows=call.frames,
            row_bytes=value.bytes // call.frames,
            n=_span(one.out_shape, Walk.WHOLE if rows is None else kind),
            kernels={core: kernel_of(one, core).typed(elements, value.element) for core in self.cores},
            kind=kind,
            macs=bound.operator.macs(bound),
            element=value.element,
        )

    def _frame_port(self, name: str, frames: int) -> Port:
        """Returns the port of a tensor of frames, or of a constant that every frame reads whole."""
        whole = self._port(name, None)
        if name not in self.graph.values:
            return replace(whole, rule=RowRule(stride=0))
        return replace(whole, height=frames, row_bytes=whole.row_bytes // frames)

    def _port(self, name: str, rule: RowRule | None) -> Port:
        if name in self.graph.values:
            sizes, element = self.graph.values[name].shape, self.graph.values[name].element
        else:
            sizes, element = tuple(self.graph.constants[name].shape), element_of(self.graph.constants[name].dtype)
        by_row = rule is not None and rule.stride != 0
        _, height, row_bytes = _geometry(sizes, element, by_row)
        return Port(self._source(name), height, row_bytes, element, rule or ONE_ROW)


def _only_codes(name: str, outputs: Sequence[str], codes: CodedBorders) -> bool:
    return all(i in codes.outputs for i, other in enumerate(outputs) if other == name)


def _row_elements(ports: tuple[Port, ...]) -> list[Element]:
    """Returns the element of each row pointer that a kernel gets."""
    return [port.element for port in ports for _ in range(port.rule.taps)]


def _in_order(state: list[StateTensor]) -> tuple[StateTensor, ...]:
    """Orders the copies of state: a buffer that is the source of another copy is overwritten after that copy."""
    left, ordered = list(state), []
    while left:
        free = [one for one in left if all(one.tensor.buffer != other.source or one is other for other in left)]
        if not free:
            names = ", ".join(f"'{one.name}'" for one in left)
            raise CortadoError(
                f"the buffers {names} exchange their values, expected an order in which each can be written; keep them "
                "in one buffer and rotate it (torch.roll)"
            )
        ordered += free
        left = [one for one in left if one not in free]
    return tuple(ordered)


def _walk(rows: Rows | None, *, running: bool) -> Walk:
    if rows is None:
        return Walk.WHOLE
    if rows.accumulates:
        return Walk.RUNNING if running else Walk.ACCUMULATE
    if rows.elementwise:
        return Walk.ELEMENTS
    return Walk.PIXELS if rows.pixelwise else Walk.ROWS


def _moved(users: Sequence[LoweredCall]) -> bool:
    return len(users) == 1 and users[0].operator == TRANSPOSE.name


def _dequantizes(call: LoweredCall) -> bool:
    return registry().operators[call.operator].dequantizes


def _permutation(rank: int, chain: list[LoweredCall]) -> tuple[int, ...]:
    """Returns the order of dimensions after the transposes of a chain of calls."""
    order = tuple(range(rank))
    for call in chain:
        if call.operator == TRANSPOSE.name:
            order = tuple(order[dim] for dim in call.arguments["perm"])
    return order


def _geometry(sizes: tuple[int, ...], element: Element, by_row: bool) -> tuple[int, int, int]:
    """Returns (images, rows, bytes of a row): NHWC row by row, anything else as one row."""
    if by_row and len(sizes) == 4:
        n, h, w, c = sizes
        return n, h, w * c * element.bytes
    return 1, 1, math.prod(sizes) * element.bytes


def _span(sizes: tuple[int, ...], kind: Walk) -> int:
    """Returns the count `n` of one row: elements, or pixels over the channels of the last dimension."""
    row = sizes[2:] if len(sizes) == 4 else sizes
    if kind is Walk.WHOLE:
        return math.prod(sizes)
    return math.prod(row) if kind is Walk.ELEMENTS else math.prod(row[:-1])
