"""MODEL.cortado: the contents of MODEL.c and MODEL_data.c, as bytes that cortado_image.c opens.

The tables are those of cortado_run.h, packed as the core's compiler lays them out. A pointer is stored as an offset
from the image's first byte, and a step's function as the number of its call, counted from 1. Tables that contain
pointers are contiguous, since the loader copies them to RAM.

Several methods have a header each, one after the other, and an image begins at each header: its offsets count from
there, it ends where the file ends, and it includes the constants of all.
"""

import struct
import zlib
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass

from cortado import __version__
from cortado.base.errors import CortadoError
from cortado.base.target import Core
from cortado.emit.c.layers import RowTable
from cortado.emit.c.library import version_number
from cortado.emit.c.tables import PRODUCERS, makers_of, port_numbers, step_numbers
from cortado.emit.image.layout import (
    COUNTER_BYTES,
    CRC_AT,
    ELEMENTS,
    FORMAT,
    HEADER,
    HEADER_STRIDE,
    LAST_WORD,
    MAGIC,
    STAGE,
    STATE,
    STATE_FROM,
    TENSOR,
    TENSOR_NAME,
    TENSOR_SHAPE,
    ImageHead,
)
from cortado.emit.image.structs import Descriptors, ImageConstants, ImagePiece, joined, lay_out, point
from cortado.emit.image.thunks import Thunk, thunk_of
from cortado.ir.kernel import Array, Kernel
from cortado.plan.planned import Planned, identity_words, moved, saved_state, state_layout
from cortado.plan.program import Port, StateTensor, Step, Tensor

_CONSTANT = PRODUCERS["CORTADO_CONSTANT"]


@dataclass(frozen=True)
class ModelImage:
    """An image's bytes, and facts about its contents."""

    data: bytes
    ram_bytes: int
    content_bytes: int  # tables and constants, which a bundle has too
    thunks: tuple[Thunk, ...]
    sources: tuple[str, ...]  # the kernels in use, as files of kernels/src

    def __repr__(self) -> str:
        return f"<ModelImage of {len(self.data):,} bytes, {len(self.thunks)} kernels>"


def emit_image(planned: Planned) -> ModelImage:
    """Emits the image of a planned program for one kind of core."""
    return emit_image_of({"forward": planned})


def emit_image_of(methods: Mapping[str, Planned]) -> ModelImage:
    """Emits the image of methods that share an arena, by name: the first is the model's own and carries its name."""
    if any(planned.regions for planned in methods.values()):
        raise CortadoError(
            "an image runs in an arena in one piece, and this one lies in several memories; leave --memory out"
        )
    constants, texts = ImageConstants(), ImageConstants()
    names = [next(iter(methods.values())).program.name, *[*methods][1:]]
    writers = [_Writer(*one, constants, texts) for one in zip(names, methods.values(), strict=True)]
    parts = [writer.parts() for writer in writers]
    last = ImagePiece(bytearray(1), 1)  # terminates a text
    every = [
        *(piece for one in parts for piece in one.facts),
        *texts.pieces,
        *(piece for one in parts for piece in (*one.copied, one.end)),
        *(piece for one in parts for piece in one.constants),
        *constants.pieces,
        last,
    ]
    first = HEADER_STRIDE * (len(writers) - 1) + HEADER.size
    size = lay_out(every, first)
    heads = []
    for number, (writer, one) in enumerate(zip(writers, parts, strict=True)):
        at = HEADER_STRIDE * number
        point((*one.facts, *one.copied), at)
        writer.seal(one)
        heads.append(writer.head(one, at, size, len(writers) - 1 - number))
    data = bytearray(first) + joined(every, first)
    for number, head in reversed([*enumerate(heads)]):
        at = HEADER_STRIDE * number
        data[at : at + HEADER.size] = head.pack()
        struct.pack_into("<I", data, at + CRC_AT, zlib.crc32(data[at + CRC_AT + 4 :]))
    content = [piece for one in parts for piece in (*one.steps, *one.ports, one.stages, *one.layers)]
    kernels = [kernel for writer in writers for kernel in writer.kernels]
    return ModelImage(
        data=bytes(data),
        ram_bytes=sum(head.ram_bytes for head in heads),
        content_bytes=sum(len(piece.data) for piece in (*content, *constants.pieces)),
        thunks=tuple({thunk.id: thunk for writer in writers for thunk in writer.thunks}.values()),
        sources=tuple(sorted({source for kernel in kernels for source in kernel.sources})),
    )


@dataclass(frozen=True)
class _Parts:
    """The pieces of an image, in order and by kind."""

    facts: list[ImagePiece]
    copied: list[ImagePiece]  # to RAM; the first marks where they begin
    end: ImagePiece  # marks where these end
    constants: list[ImagePiece]  # descriptors without pointers
    layers: list[ImagePiece]  # all descriptors
    tensors: list[ImagePiece]
    states: list[ImagePiece]
    thunks: list[ImagePiece]
    calls: list[ImagePiece]
    stages: ImagePiece
    ports: list[ImagePiece]  # after an empty piece that marks their place
    steps: list[ImagePiece]
    first_ports: list[int]  # per step
    name: ImagePiece
    target: ImagePiece


class _Writer:
    """The pieces of one method; `constants` and `texts` are shared by all."""

    def __init__(self, name: str, planned: Planned, constants: ImageConstants, texts: ImageConstants) -> None:
        self.name, self.planned, self.program = name, planned, planned.program
        self.core = planned.program.cores[0]
        self.pointer = 8 if self.core is Core.PORTABLE else 4
        word = "Q" if self.pointer == 8 else "I"
        self._step_form = struct.Struct(f"<2{word}3IiHHHBB")
        self._port_form = struct.Struct(f"<{word}IHHh6B")
        self.thunks: dict[Thunk, int] = {}
        self.constants, self.texts = constants, texts
        self.descriptors = Descriptors(self.pointer, constants)

    # ---- tables ------------------------------------------------------------------------------------------------------

    def _text(self, text: str) -> ImagePiece:
        return self.texts.add(text.encode() + b"\0", 1)

    def _tensor(self, tensor: Tensor) -> ImagePiece:
        q, rank = tensor.qparams, len(tensor.shape)
        if rank > 8:
            raise CortadoError(f"'{tensor.name}' has {rank} dimensions, and an image describes at most 8")
        offset, element = self.planned.plan.offsets[tensor.buffer], ELEMENTS.index(tensor.element.name)
        scale, zero = (0.0, 0) if q is None else (q.scale, q.zero_point)
        shape = self.texts.add(struct.pack(f"<{rank}I{rank}B", *tensor.shape, *tensor.layout), 4)
        data = TENSOR.pack(offset, tensor.bytes, scale, 0, 0, zero, element, rank)
        return ImagePiece(bytearray(data), 4, [(TENSOR_NAME, self._text(tensor.name)), (TENSOR_SHAPE, shape)])

    def _resets(self) -> list[ImagePiece]:
        return [self._reset(kept) for kept in saved_state(self.program)]

    def _reset(self, kept: StateTensor) -> ImagePiece:
        data = kept.initial.data.tobytes()
        offset = self.planned.plan.offsets[kept.tensor.buffer]
        if len(set(data)) == 1:
            return ImagePiece(bytearray(STATE.pack(offset, len(data), 0, data[0])))
        points = [(STATE_FROM, self.constants.add(data, kept.initial.align))]
        return ImagePiece(bytearray(STATE.pack(offset, len(data), 0, 0)), 4, points)

    def _moves(self) -> list[ImagePiece]:
        offsets = self.planned.plan.offsets
        rows = [
            (offsets[one.tensor.buffer], one.initial.data.nbytes, offsets[one.source]) for one in moved(self.planned)
        ]
        return [ImagePiece(bytearray(STATE.pack(*row, 0))) for row in rows]

    def _saved(self) -> list[ImagePiece]:
        """Returns the row that identifies saved state; empty without state."""
        if not self.program.state:
            return []
        return [ImagePiece(bytearray(STATE.pack(*identity_words(self.program), state_layout(self.program), 0)))]

    def _stages(self) -> ImagePiece:
        data, first = b"", 0
        for stage in self.program.stages:
            data += STAGE.pack(first, stage.steps[0].images, len(stage.steps))
            first += len(stage.steps)
        return ImagePiece(bytearray(data))

    def _ports(self) -> tuple[list[ImagePiece], list[int]]:
        """Returns the rows of the table, and each step's first row: existing rows are reused."""
        table = RowTable[Hashable]()
        pieces: list[ImagePiece] = []
        firsts = []
        for stage in self.program.stages:
            makers = makers_of(stage)
            for step in stage.steps:
                rows = [self._port(port, port_numbers(self.planned, port, step, makers)) for port in step.ports]
                firsts.append(table.place([(bytes(row.data), *(id(to) for _, to in row.points)) for row in rows]))
                if firsts[-1] == len(pieces):
                    pieces += rows
        return pieces, firsts

    def _port(self, port: Port, numbers: dict[str, object]) -> ImagePiece:
        producer = str(numbers["producer"])
        values = [value for name, value in numbers.items() if name != "producer"]
        offset = self.planned.plan.offsets[port.source] if isinstance(port.source, str) else 0
        number = PRODUCERS.get(producer)
        data = self._port_form.pack(offset, *values, int(producer) if number is None else number)
        points = [(0, self.descriptors.array(port.source))] if isinstance(port.source, Array) else []
        return ImagePiece(bytearray(data), self.pointer, points)

    def _step(self, step: Step, rows: int, port: int) -> ImagePiece:
        numbers = step_numbers(self.planned, step, rows, port, self.planned.plan.offsets.__getitem__)
        head, points = 0, []
        if step.kernels:
            thunk, given = thunk_of(step.kernels[self.core])
            head = self.thunks.setdefault(thunk, len(self.thunks) + 1)
            layer = self.descriptors.add(step.kernels[self.core], given)
            points = [] if layer is None else [(self.pointer, layer)]
        data = self._step_form.pack(head, 0, *numbers.values())
        return ImagePiece(bytearray(data), self.pointer, points)

    def _steps(self, firsts: Iterable[int]) -> list[ImagePiece]:
        rows = [
            self.planned.rows_needed(number, position)
            for number, stage in enumerate(self.program.stages)
            for position, _ in enumerate(stage.steps)
        ]
        return [self._step(*one) for one in zip(self.program.steps, rows, firsts, strict=True)]

    # ---- the whole ---------------------------------------------------------------------------------------------------

    @property
    def kernels(self) -> list[Kernel]:
        return [step.kernels[self.core] for step in self.program.steps if step.kernels]

    def seal(self, parts: "_Parts") -> None:
        """Writes the checksum of every call, once all places are known."""
        for call, step, first, record in zip(
            parts.calls, parts.steps, parts.first_ports, self.program.steps, strict=True
        ):
            ports = parts.ports[1:][first : first + len(record.ports)]
            call.data[4:] = struct.pack("<I", self._seal(step, ports, call))

    def parts(self) -> "_Parts":
        """Returns all pieces in order. Ports that point to no constant are read in place and not copied."""
        ports, firsts = self._ports()
        steps = self._steps(firsts)
        layers = self.descriptors.pieces
        tensors = [self._tensor(tensor) for tensor in (*self.program.inputs, *self.program.outputs)]
        states, stages = [*self._resets(), *self._moves(), *self._saved()], self._stages()
        thunks = [
            ImagePiece(bytearray(struct.pack("<II", one.id, 0)), 4, [(4, self._text(one.name))]) for one in self.thunks
        ]
        calls = [ImagePiece(bytearray(struct.pack("<II", step.scratch, 0))) for step in self.program.steps]
        name, target = self._text(self.name), self._text(self.program.target.target_string)
        table, copied = ImagePiece(bytearray(), self.pointer), ImagePiece(bytearray(), self.pointer)
        fixed = not any(port.points for port in ports)
        rows = [table, *ports]
        return _Parts(
            facts=[*tensors, *states, *thunks, *calls, stages, *(rows if fixed else ())],
            copied=[copied, *steps, *(() if fixed else rows), *(one for one in layers if one.points)],
            end=ImagePiece(bytearray(), 4),
            constants=[one for one in layers if not one.points],
            layers=layers,
            tensors=tensors,
            states=states,
            thunks=thunks,
            calls=calls,
            stages=stages,
            ports=rows,
            steps=steps,
            first_ports=firsts,
            name=name,
            target=target,
        )

    def head(self, parts: "_Parts", at: int, size: int, methods: int) -> ImageHead:
        """Returns the header `at` an offset in a file of `size` bytes, followed by those of `methods` more methods."""
        longest = max((len(stage.steps) for stage in self.program.stages), default=1)
        widest = max((sum(port.rule.taps for port in step.ports) for step in self.program.steps), default=1)
        tables_bytes = parts.end.place - parts.copied[0].place
        feeding, window, hop, first, warm_up = self._feeding()
        if (parts.stages.place - at) // 4 > LAST_WORD:
            raise CortadoError(
                f"{self.program.name} has {len(parts.steps):,} steps, more than the tables of an image describe; "
                "compile it without --image"
            )
        return ImageHead(
            magic=MAGIC,
            format=FORMAT,
            pointer_bytes=self.pointer,
            core=int(self.core),
            bytes=size - at,
            crc=0,
            kernels=version_number(__version__) // 100,
            inputs=len(self.program.inputs),
            outputs=len(self.program.outputs),
            resets=len(self.program.state),
            moves=len(moved(self.planned)),
            thunks=len(parts.thunks),
            stages=len(self.program.stages),
            ports=len(parts.ports) - 1,
            steps=len(parts.steps),
            longest=longest,
            widest=widest,
            feeding=feeding,
            methods=methods,
            window=window,
            hop=hop,
            first=first,
            warm_up=warm_up,
            tensor=_first(parts.tensors, at),
            state=_first(parts.states, at),
            thunk=_first(parts.thunks, at),
            call=_first(parts.calls, at),
            stage=parts.stages.place - at,
            arena_bytes=max(self.planned.plan.peak, 1),
            state_bytes=self._state_bytes(),
            ram_bytes=_whole(tables_bytes) + longest * COUNTER_BYTES + widest * self.pointer,
            name=parts.name.place - at,
            target=parts.target.place - at,
            port=parts.ports[0].place - at,
            step=parts.copied[0].place - at,
            tables_bytes=tables_bytes,
        )

    def _state_bytes(self) -> int:
        offsets = self.planned.plan.offsets
        return max((offsets[one.tensor.buffer] + one.initial.data.nbytes for one in self.program.state), default=0)

    def _feeding(self) -> tuple[int, ...]:
        """Returns how inputs arrive and, for a stream, its row counts."""
        stream = self.program.stream
        if stream is not None:
            return 2, stream.window, stream.hop, stream.first, stream.warm_up
        return 0 if self.program.pushed is None else 1, 0, 0, 0, 0

    def _seal(self, step: ImagePiece, ports: list[ImagePiece], call: ImagePiece) -> int:
        """Computes a checksum of everything that the step's kernel depends on, except where the plan has placed its
        rows."""
        low = 15 if self.program.stream is None else -1  # in a stream, no other step may write what a kernel keeps
        high = low & ~15
        thunk, layer, out, row, scratch, n, rows, ring, _, count, group = self._step_form.unpack(step.data)
        known = list(self.thunks)[thunk - 1].id if thunk else 0
        data = struct.pack("<I", known) + call.data[:4]
        numbers = (out & low, row, scratch & low, n, rows, ring & high, 0, count, group)
        data += self._step_form.pack(0, layer, *numbers)
        for port in ports:
            place, row, height, ring, _, *rule, producer = self._port_form.unpack(port.data)
            place &= -1 if producer == _CONSTANT else low
            producer = producer if producer >= _CONSTANT else 0
            data += self._port_form.pack(place, row, height, ring & high, 0, *rule, producer)
        return zlib.crc32(data)


def _whole(size: int) -> int:
    return size + -size % 8


def _first(pieces: list[ImagePiece], at: int) -> int:
    return pieces[0].place - at if pieces else HEADER.size
