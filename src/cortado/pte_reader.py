"""Reads ExecuTorch .pte files with nothing but the standard library: operators, memory, constants, target.

The file is a FlatBuffer (ExecuTorch 1.5.1's `Program`, identifier ET12) with an extended header and data segments
behind it. Nothing in it is trusted: every read is checked against the file's size, every index against what it
indexes, and the total work is bounded by the file's size. Whatever is wrong becomes one CortadoError.
"""

import json
import math
import re
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, is_dataclass
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from cortado.errors import CortadoError

METADATA_METHOD = "cortado"
"""The constant method that returns Cortado's JSON text."""

_ANY_TARGET = "cortex-m"

# What each cortex_m operator's arguments are called, in order. A kernel call lists them, then `out`, then the value
# it returns (`out` again). The names say which constants are weights and which tensors are scratch.
_CONV = "input weight bias stride padding dilation"
_REQUANT = "input_offset output_offset requantize_multipliers requantize_shifts activation_min activation_max"
_CONV2D = f"{_CONV} {_REQUANT} scratch"
_DEPTHWISE = f"{_CONV} depth_multiplier {_REQUANT} scratch"
_TRANSPOSED = f"input weight bias stride padding output_padding dilation {_REQUANT} scratch output_scratch"
_AVG_POOL = "input kernel_size stride padding ceil_mode zero_point multiplier shift scratch"
_MAX_POOL = (
    "input kernel_size stride padding dilation ceil_mode input_zero_point output_zero_point"
    " activation_min activation_max"
)
_QUANTIZE = "input scale zero_point quant_min quant_max dtype"
OPERATOR_ARGUMENTS: dict[str, tuple[str, ...]] = {
    f"cortex_m::{name}.out": tuple(arguments.split())
    for name, arguments in {
        "quantize_per_tensor": _QUANTIZE,
        "dequantize_per_tensor": _QUANTIZE,
        "quantized_add": "self self_zero_point self_multiplier self_shift other other_zero_point other_multiplier"
        " other_shift output_zero_point output_multiplier output_shift activation_min activation_max",
        "quantized_mul": "self self_zero_point other other_zero_point output_zero_point output_multiplier output_shift",
        "quantized_div": "self self_zero_point other other_zero_point output_zero_point output_scale",
        "quantized_activation": "input lut",
        "minimum": "self other",
        "maximum": "self other",
        "quantized_linear": "input weights bias kernel_sum input_offset filter_offset output_offset"
        " requantize_multipliers requantize_shifts activation_max activation_min",
        "softmax": "input dim input_zero_point output_zero_point input_multiplier input_shift diff_min",
        "transpose": "input perm",
        "pad": "input pre_pad post_pad pad_value",
        "quantized_conv2d": _CONV2D,
        "quantized_conv2d_nhwc": _CONV2D,
        "quantized_depthwise_conv2d": _DEPTHWISE,
        "quantized_depthwise_conv2d_nhwc": _DEPTHWISE,
        "quantized_transpose_conv2d": _TRANSPOSED,
        "quantized_transpose_conv2d_nhwc": _TRANSPOSED,
        "quantized_avg_pool2d": _AVG_POOL,
        "quantized_avg_pool2d_nhwc": _AVG_POOL,
        "quantized_max_pool2d": _MAX_POOL,
        "quantized_max_pool2d_nhwc": _MAX_POOL,
        "quantized_batch_matmul": "lhs lhs_zero_point rhs_transposed rhs_zero_point output_zero_point"
        " output_multiplier output_shift scratch",
    }.items()
}


# ---- What a file says ------------------------------------------------------------------------------------------------


class DType(IntEnum):
    """ExecuTorch's scalar types, by their codes in the file."""

    UINT8 = 0
    INT8 = 1
    INT16 = 2
    INT32 = 3
    INT64 = 4
    FLOAT16 = 5
    FLOAT32 = 6
    FLOAT64 = 7
    COMPLEX32 = 8
    COMPLEX64 = 9
    COMPLEX128 = 10
    BOOL = 11
    QINT8 = 12
    QUINT8 = 13
    QINT32 = 14
    BFLOAT16 = 15
    QUINT4X2 = 16
    QUINT2X4 = 17
    BITS16 = 22
    FLOAT8E5M2 = 23
    FLOAT8E4M3FN = 24
    FLOAT8E5M2FNUZ = 25
    FLOAT8E4M3FNUZ = 26
    UINT16 = 27
    UINT32 = 28
    UINT64 = 29

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return _ITEM_SIZES.get(self, 1)


_ITEM_SIZES = {
    **dict.fromkeys((DType.INT16, DType.FLOAT16, DType.BFLOAT16, DType.BITS16, DType.UINT16), 2),
    **dict.fromkeys((DType.INT32, DType.FLOAT32, DType.QINT32, DType.UINT32, DType.COMPLEX32), 4),
    **dict.fromkeys((DType.INT64, DType.FLOAT64, DType.UINT64, DType.COMPLEX64), 8),
    DType.COMPLEX128: 16,
}


class Dynamism(IntEnum):
    """Whether a tensor's shape is what the file says, at most that, or unknown."""

    STATIC = 0
    BOUNDED = 1
    UNBOUNDED = 2


class ValueKind(IntEnum):
    """What a method's value is, by its code in the file."""

    ABSENT = 0
    NULL = 1
    INT = 2
    BOOL = 3
    DOUBLE = 4
    TENSOR = 5
    STRING = 6
    INT_LIST = 7
    DOUBLE_LIST = 8
    BOOL_LIST = 9
    TENSOR_LIST = 10
    OPTIONAL_TENSOR_LIST = 11


class InstructionKind(IntEnum):
    """What an instruction does, by its code in the file."""

    KERNEL = 1
    DELEGATE = 2
    MOVE = 3
    JUMP_FALSE = 4
    FREE = 5


@dataclass(frozen=True)
class Placement:
    """Where a planned tensor lies: which memory, and at which byte of it."""

    memory: int
    offset: int


@dataclass(frozen=True)
class TensorInfo:
    """A tensor among a method's values: constant, planned (`placement`), or given its memory by the caller."""

    value: int
    dtype: DType
    shape: tuple[int, ...]
    dim_order: tuple[int, ...]
    dynamism: Dynamism
    nbytes: int
    constant: int | None = None
    placement: Placement | None = None
    external: str | None = None


@dataclass(frozen=True)
class Port:
    """An input or output of a method; `tensor` is None when it is a number, a string or a list."""

    kind: ValueKind
    tensor: TensorInfo | None


@dataclass(frozen=True)
class OperatorUse:
    """An operator (`namespace::name.overload`) and how often the method calls it."""

    name: str
    count: int


@dataclass(frozen=True)
class Scratch:
    """A memory-planned buffer that one kernel call uses for itself."""

    instruction: int
    operator: str
    argument: str
    nbytes: int
    placement: Placement | None


@dataclass(frozen=True)
class Delegate:
    """A part of the method that another backend runs, and the size of its blob."""

    name: str
    nbytes: int


@dataclass(frozen=True)
class Method:
    """One entry point. `calls` are its kernel calls in order, `operators` the same counted, in order of first use.

    `arena` is the bytes the runtime has to provide for each memory id; id 0 stands for constants and is never used.
    """

    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    operators: tuple[OperatorUse, ...]
    calls: tuple[str, ...]
    arena: tuple[int, ...]
    instructions: int
    delegates: tuple[Delegate, ...]
    scratch: tuple[Scratch, ...]

    @property
    def arena_bytes(self) -> int:
        """Planned RAM over all memories."""
        return sum(self.arena[1:])

    @property
    def scratch_bytes(self) -> int:
        """The largest scratch one kernel call needs: calls run one after another and share their memory."""
        per_call: Counter[int] = Counter()
        for buffer in self.scratch:
            per_call[buffer.instruction] += buffer.nbytes
        return max(per_call.values(), default=0)


@dataclass(frozen=True)
class ConstantUse:
    """Who reads a constant: which argument of which operator ("output" for a method's own output)."""

    method: str
    instruction: int
    operator: str
    argument: str


@dataclass(frozen=True)
class Constant:
    """A constant tensor. `stored` is its room in the file, padding included; without `uses` it is dead weight."""

    index: int
    offset: int
    stored: int
    nbytes: int
    dtype: DType | None
    shape: tuple[int, ...]
    uses: tuple[ConstantUse, ...]


@dataclass(frozen=True)
class Segment:
    """A piece of data behind the program; `offset` counts from the start of the file."""

    offset: int
    size: int


@dataclass(frozen=True)
class IoQParams:
    """How an int8 input or output stands for real numbers: real = (q - zero_point) * scale."""

    scale: float
    zero_point: int


@dataclass(frozen=True)
class Metadata:
    """What Cortado wrote into the file; None among inputs or outputs is one that is not quantized."""

    target: str
    version: str
    layout: str
    inputs: tuple[IoQParams | None, ...]
    outputs: tuple[IoQParams | None, ...]
    text: str


@dataclass(frozen=True)
class PteInfo:
    """Everything `cortado inspect` says about a file; `metadata` is None when Cortado did not write it."""

    size: int
    program_size: int
    version: int
    methods: tuple[Method, ...]
    constants: tuple[Constant, ...]
    segments: tuple[Segment, ...]
    metadata: Metadata | None

    @property
    def constant_bytes(self) -> int:
        """Room of all constants in the file, padding included."""
        return sum(constant.stored for constant in self.constants)

    def method(self, name: str) -> Method | None:
        """The method of that name."""
        return next((method for method in self.methods if method.name == name), None)


# ---- FlatBuffers, bounds-checked -------------------------------------------------------------------------------------


class _Width(Enum):
    """A number in the file: its struct code and bytes."""

    U8 = ("B", 1)
    I32 = ("i", 4)
    U32 = ("I", 4)
    I64 = ("q", 8)
    U64 = ("Q", 8)


def _slots(names: str) -> dict[str, int]:
    return {name: slot for slot, name in enumerate(names.split())}


SCHEMA: dict[str, dict[str, int]] = {
    "Program": _slots(
        "version execution_plan constant_buffer backend_delegate_data segments constant_segment"
        " mutable_data_segments named_data"
    ),
    "ExecutionPlan": _slots(
        "name container_meta_type values inputs outputs chains operators delegates non_const_buffer_sizes"
        " non_const_buffer_device"
    ),
    "Tensor": _slots(
        "scalar_type storage_offset sizes dim_order requires_grad data_buffer_idx allocation_info layout"
        " shape_dynamism extra_tensor_info"
    ),
    "AllocationDetails": _slots("memory_id memory_offset_low memory_offset_high"),
    "ExtraTensorInfo": _slots("mutable_data_segments_idx fully_qualified_name location device_type device_index"),
    "EValue": _slots("val_type val"),
    "String": _slots("string_val"),
    "TensorList": _slots("items"),
    "OptionalTensorList": _slots("items"),
    "Operator": _slots("name overload"),
    "Chain": _slots("inputs outputs instructions stacktrace"),
    "Instruction": _slots("instr_args_type instr_args"),
    "KernelCall": _slots("op_index args"),
    "DelegateCall": _slots("delegate_index args"),
    "MoveCall": _slots("move_from move_to"),
    "JumpFalseCall": _slots("cond_value_index destination_instruction"),
    "FreeCall": _slots("value_index"),
    "BackendDelegate": _slots("id processed compile_specs"),
    "BackendDelegateDataReference": _slots("location index"),
    "BackendDelegateInlineData": _slots("data"),
    "Buffer": _slots("storage"),
    "DataSegment": _slots("offset size"),
    "SubsegmentOffsets": _slots("segment_index offsets"),
}
"""The tables of the file and the slot of each field, in the order of ExecuTorch 1.5.1's program.fbs."""

_TABLE_COST = 16
_USE_COST = 32
_MAX_MESSAGE = 300
_BUDGET_FACTOR = 4


_Code = TypeVar("_Code", bound=IntEnum)


class _File:
    """The bytes, how many of them are the FlatBuffer, and how much may still be read.

    Tables may be shared in a FlatBuffer, so a small damaged file can describe a huge tree. In an honest one nothing
    is described twice, so the bytes visited stay below a small multiple of the program's size: that is the budget.
    """

    def __init__(self, data: bytes, name: str) -> None:
        self.data = data
        self.name = name
        self.size = len(data)
        self.budget = _BUDGET_FACTOR * len(data)

    def fail(self, what: str, at: int) -> NoReturn:
        # Names in the file may be as long as the file.
        shown = what if len(what) <= _MAX_MESSAGE else f"{what[:_MAX_MESSAGE]}..."
        raise CortadoError(f"{self.name} is not a readable .pte: {shown} (at byte {at})")

    def limit(self, size: int) -> None:
        """From here on only the first `size` bytes may be read."""
        self.size = size
        self.budget = _BUDGET_FACTOR * size

    def spend(self, cost: int, at: int) -> None:
        self.budget -= cost
        if self.budget < 0:
            self.fail("its tables refer to each other so often that they describe far more than the file holds", at)

    def number(self, at: int, width: _Width) -> int:
        code, size = width.value
        if at % size:
            self.fail(f"a {size}-byte number is not aligned", at)
        if at < 0 or at + size > self.size:
            self.fail(f"a {size}-byte number lies outside the program's {self.size} bytes", at)
        return int(struct.unpack_from(f"<{code}", self.data, at)[0])

    def target(self, at: int) -> int:
        """Where the offset stored at `at` leads."""
        offset = self.number(at, _Width.U32)
        if offset == 0 or at + offset >= self.size:
            self.fail(f"an offset of {offset} leads outside the program's {self.size} bytes", at)
        return at + offset

    def vector(self, at: int, width: int) -> tuple[int, int]:
        """The first element's position and the length of the vector at `at`."""
        length = self.number(at, _Width.U32)
        start = at + 4
        if length > (self.size - start) // width:
            self.fail(f"a vector of {length} elements does not fit the program's {self.size} bytes", at)
        if length and start % width:
            self.fail(f"a vector of {width}-byte elements is not aligned", at)
        self.spend(4 + length * width, at)
        return start, length


class _Table:
    """A FlatBuffers table: fields by name."""

    __slots__ = ("at", "fields", "file", "kind", "slots", "vtable", "width")

    def __init__(self, file: _File, at: int, kind: str) -> None:
        self.file, self.at, self.kind = file, at, kind
        self.fields = SCHEMA[kind]
        file.spend(_TABLE_COST, at)
        self.vtable = at - file.number(at, _Width.I32)
        if self.vtable < 0 or self.vtable + 4 > file.size or self.vtable % 2:
            file.fail(f"a {kind} table's layout lies outside the program's {file.size} bytes", at)
        length, self.width = struct.unpack_from("<HH", file.data, self.vtable)
        if length < 4 or length % 2 or self.vtable + length > file.size:
            file.fail(f"a {kind} table's layout has an impossible size of {length}", self.vtable)
        if self.width < 4 or at + self.width > file.size:
            file.fail(f"a {kind} table of {self.width} bytes does not fit the program's {file.size} bytes", at)
        self.slots = (length - 4) // 2

    def position(self, field: str, size: int) -> int | None:
        """Where the field is stored, or None if it has its default value."""
        slot = self.fields[field]
        if slot >= self.slots:
            return None
        (offset,) = struct.unpack_from("<H", self.file.data, self.vtable + 4 + 2 * slot)
        if offset == 0:
            return None
        if offset < 4 or offset + size > self.width:
            self.file.fail(f"{self.kind}.{field} lies outside its table", self.at)
        return int(self.at + offset)

    def number(self, field: str, width: _Width, default: int = 0) -> int:
        at = self.position(field, width.value[1])
        return default if at is None else self.file.number(at, width)

    def code(self, field: str, kind: type[_Code]) -> _Code:
        code = self.number(field, _Width.U8)
        try:
            return kind(code)
        except ValueError:
            self.file.fail(f"{self.kind}.{field} has the unknown value {code}", self.at)

    def reference(self, field: str) -> int | None:
        at = self.position(field, 4)
        return None if at is None else self.file.target(at)

    def table(self, field: str, kind: str) -> "_Table | None":
        at = self.reference(field)
        return None if at is None else _Table(self.file, at, kind)

    def required(self, field: str, kind: str) -> "_Table":
        found = self.table(field, kind)
        return found if found is not None else self.file.fail(f"{self.kind}.{field} is missing", self.at)

    def tables(self, field: str, kind: str) -> Iterator["_Table"]:
        at = self.reference(field)
        if at is None:
            return
        start, length = self.file.vector(at, 4)
        for position in range(start, start + 4 * length, 4):
            yield _Table(self.file, self.file.target(position), kind)

    def numbers(self, field: str, width: _Width) -> tuple[int, ...]:
        at = self.reference(field)
        if at is None:
            return ()
        code, size = width.value
        start, length = self.file.vector(at, size)
        numbers: tuple[int, ...] = struct.unpack_from(f"<{length}{code}", self.file.data, start)
        return numbers

    def byte_count(self, field: str) -> int:
        at = self.reference(field)
        return 0 if at is None else self.file.vector(at, 1)[1]

    def string(self, field: str) -> str:
        at = self.reference(field)
        if at is None:
            return ""
        start, length = self.file.vector(at, 1)
        try:
            return self.file.data[start : start + length].decode("utf-8")
        except UnicodeDecodeError as error:
            self.file.fail(f"{self.kind}.{field} is not UTF-8 text", start + error.start)

    def index(self, field: str, count: int, what: str, width: _Width = _Width.I32) -> int:
        return self.check_index(self.number(field, width), count, what)

    def check_index(self, index: int, count: int, what: str) -> int:
        if not 0 <= index < count:
            self.file.fail(f"{self.kind} refers to {what} {index}, and there are {count}", self.at)
        return index


# ---- The program -----------------------------------------------------------------------------------------------------

_IDENTIFIER = b"ET12"
_BUNDLE_IDENTIFIER = b"BP08"
_EXTENDED_MAGIC = b"eh00"
_MAX_RANK = 16


@dataclass(frozen=True)
class _Room:
    """A constant's place in the file."""

    offset: int
    size: int


@dataclass(frozen=True)
class _Storage:
    """What the program's methods refer to by index."""

    segments: tuple[Segment, ...]
    constants: tuple[_Room, ...]
    initial_states: tuple[tuple[_Room, ...], ...]
    delegate_blobs: tuple[int, ...]


@dataclass(frozen=True)
class _Value:
    """One of a method's values, as far as it matters here: a tensor, a text or a list of other values."""

    kind: ValueKind
    tensor: TensorInfo | None = None
    text: str | None = None
    items: tuple[int, ...] = ()


@dataclass(frozen=True)
class _Call:
    """One instruction: whom it calls, on which values."""

    kind: InstructionKind
    name: str
    args: tuple[int, ...]

    def argument(self, position: int) -> str:
        """The argument's name where the operator is known and called with as many as it has."""
        names = OPERATOR_ARGUMENTS.get(self.name, ())
        if len(self.args) == len(names) + 2:
            return (*names, "out", "out")[position]
        return f"#{position}"


@dataclass(frozen=True)
class _Plan:
    """A method with what the whole program needs to know of it."""

    method: Method
    uses: tuple[tuple[TensorInfo, ConstantUse], ...]
    metadata: Metadata | None


def read_pte(data: bytes, name: str = "the file") -> PteInfo:
    """What the .pte in `data` says; `name` is what error messages call it."""
    file = _File(data, name)
    segment_base = _read_header(file)
    program = _Table(file, file.target(0), "Program")
    storage = _read_storage(program, segment_base)
    plans = [_read_plan(plan, storage) for plan in program.tables("execution_plan", "ExecutionPlan")]
    names = [plan.method.name for plan in plans]
    if not names:
        file.fail("it has no methods", program.at)
    if len(set(names)) < len(names):
        file.fail(f"two of its methods have the same name, {Counter(names).most_common(1)[0][0]!r}", program.at)
    return PteInfo(
        size=len(data),
        program_size=file.size,
        version=program.number("version", _Width.U32),
        methods=tuple(plan.method for plan in plans),
        constants=_join_uses(storage, plans),
        segments=storage.segments,
        metadata=next((plan.metadata for plan in plans if plan.metadata is not None), None),
    )


def read_pte_file(path: Path) -> PteInfo:
    """What the .pte at `path` says."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CortadoError(f"can't read {path}: {error.strerror}; give the path of a .pte file") from error
    return read_pte(data, str(path))


def _read_header(file: _File) -> int:
    """Limit `file` to the FlatBuffer; where the segments start, or 0 without an extended header."""
    data = file.data
    if len(data) < 8:
        file.fail(f"it has {len(data)} bytes, and the header alone needs 8", len(data))
    if data[4:8] == _BUNDLE_IDENTIFIER:
        file.fail("it is a bundled program (.bpte); give the .pte it was made from", 4)
    if data[4:8] != _IDENTIFIER:
        file.fail(f"found the identifier {data[4:8]!r}, expected {_IDENTIFIER!r}", 4)
    if data[8:12] != _EXTENDED_MAGIC:
        return 0
    length = file.number(12, _Width.U32)
    if length < 24:
        file.fail(f"the extended header is {length} bytes long, expected at least 24", 12)
    program_size, base = file.number(16, _Width.U64), file.number(24, _Width.U64)
    segment_size = file.number(32, _Width.U64) if length >= 32 else 0
    if program_size > len(data):
        file.fail(f"the program is {program_size} bytes long and the file {len(data)}: it is cut off", 16)
    if base + segment_size > len(data):
        file.fail(f"the data ends at byte {base + segment_size} of a file of {len(data)}: it is cut off", 24)
    file.limit(program_size)
    return base


def _read_storage(program: _Table, base: int) -> _Storage:
    segments = tuple(_read_segments(program, base))
    states = program.tables("mutable_data_segments", "SubsegmentOffsets")
    blobs = program.tables("backend_delegate_data", "BackendDelegateInlineData")
    return _Storage(
        segments=segments,
        constants=_read_constants(program, segments),
        initial_states=tuple(_read_rooms(table, segments) for table in states),
        delegate_blobs=tuple(table.byte_count("data") for table in blobs),
    )


def _read_segments(program: _Table, base: int) -> Iterator[Segment]:
    available = len(program.file.data) - base
    for table in program.tables("segments", "DataSegment"):
        offset, size = table.number("offset", _Width.U64), table.number("size", _Width.U64)
        if base == 0 and size > 0:
            table.file.fail("it has a data segment, but no header says where the data starts", table.at)
        if offset + size > available:
            table.file.fail(f"a data segment ends {offset + size - available} bytes behind the file's end", table.at)
        yield Segment(base + offset, size)


def _read_constants(program: _Table, segments: tuple[Segment, ...]) -> tuple[_Room, ...]:
    table = program.table("constant_segment", "SubsegmentOffsets")
    rooms = _read_rooms(table, segments) if table is not None else ()
    if rooms:
        return rooms
    # Files from before 2024-09 hold each constant in the FlatBuffer itself.
    buffers = program.tables("constant_buffer", "Buffer")
    return tuple(_Room(buffer.reference("storage") or 0, buffer.byte_count("storage")) for buffer in buffers)


def _read_rooms(table: _Table, segments: tuple[Segment, ...]) -> tuple[_Room, ...]:
    """Each tensor reaches from its offset to the next one's, the last to the end of the segment."""
    offsets = table.numbers("offsets", _Width.U64)
    if not offsets:
        return ()
    segment = segments[table.index("segment_index", len(segments), "segment", _Width.U32)]
    ends = (*offsets[1:], segment.size)
    for i, (start, end) in enumerate(zip(offsets, ends, strict=True)):
        if start > end:
            table.file.fail(f"constant {i} starts at byte {start} of its segment and ends at {end}", table.at)
    return tuple(_Room(segment.offset + start, end - start) for start, end in zip(offsets, ends, strict=True))


def _join_uses(storage: _Storage, plans: list[_Plan]) -> tuple[Constant, ...]:
    """The constants, each with the tensors that show its type and with its readers. Number 0 is never a constant."""
    tensors: dict[int, TensorInfo] = {}
    uses: dict[int, list[ConstantUse]] = {}
    for plan in plans:
        for tensor, use in plan.uses:
            if tensor.constant is not None:
                uses.setdefault(tensor.constant, []).append(use)
                known = tensors.get(tensor.constant)
                if known is None or known.nbytes < tensor.nbytes:
                    tensors[tensor.constant] = tensor
    return tuple(
        Constant(
            index=index,
            offset=room.offset,
            stored=room.size,
            nbytes=tensors[index].nbytes if index in tensors else room.size,
            dtype=tensors[index].dtype if index in tensors else None,
            shape=tensors[index].shape if index in tensors else (),
            uses=tuple(uses.get(index, ())),
        )
        for index, room in enumerate(storage.constants)
        if index > 0
    )


# ---- One method ------------------------------------------------------------------------------------------------------


def _read_plan(plan: _Table, storage: _Storage) -> _Plan:
    name = plan.string("name")
    arena = plan.numbers("non_const_buffer_sizes", _Width.I64)
    if any(size < 0 for size in arena):
        plan.file.fail(f"it asks for {min(arena)} bytes of memory", plan.at)
    values = _read_values(plan, storage, arena)
    inputs, outputs = _read_indices(plan, "inputs", len(values)), _read_indices(plan, "outputs", len(values))
    delegates = tuple(_read_delegate(table, storage) for table in plan.tables("delegates", "BackendDelegate"))
    calls = _read_calls(plan, len(values), delegates)
    kernels = tuple(call.name for call in calls if call.kind is InstructionKind.KERNEL)
    method = Method(
        name=name,
        inputs=tuple(Port(values[i].kind, values[i].tensor) for i in inputs),
        outputs=tuple(Port(values[i].kind, values[i].tensor) for i in outputs),
        operators=tuple(OperatorUse(operator, count) for operator, count in Counter(kernels).items()),
        calls=kernels,
        arena=arena,
        instructions=len(calls),
        delegates=delegates,
        scratch=tuple(_scratch(calls, values)),
    )
    uses = list(_constant_uses(plan, name, calls, values))
    for i in outputs:
        uses += [(tensor, ConstantUse(name, len(calls), "", "output")) for tensor in _tensors(plan, values, i)]
    is_ours = name == METADATA_METHOD
    return _Plan(method, tuple(uses), _read_metadata(plan, [values[i] for i in outputs]) if is_ours else None)


def _read_indices(table: _Table, field: str, count: int) -> tuple[int, ...]:
    indices = table.numbers(field, _Width.I32)
    for index in indices:
        table.check_index(index, count, "value")
    return indices


def _read_values(plan: _Table, storage: _Storage, arena: tuple[int, ...]) -> tuple[_Value, ...]:
    values = []
    for index, table in enumerate(plan.tables("values", "EValue")):
        values.append(_read_value(table, _TensorReader(index, storage, arena)))
    count = len(values)
    for value in values:
        optional = value.kind is ValueKind.OPTIONAL_TENSOR_LIST
        for item in value.items:
            if item != -1 or not optional:
                plan.check_index(item, count, "value")
    return tuple(values)


def _read_value(table: _Table, reader: "_TensorReader") -> _Value:
    kind = table.code("val_type", ValueKind)
    if kind is ValueKind.TENSOR:
        return _Value(kind, tensor=reader.read(table.required("val", "Tensor")))
    if kind is ValueKind.STRING:
        return _Value(kind, text=table.required("val", "String").string("string_val"))
    if kind in (ValueKind.TENSOR_LIST, ValueKind.OPTIONAL_TENSOR_LIST):
        return _Value(kind, items=table.required("val", "TensorList").numbers("items", _Width.I32))
    return _Value(kind)


@dataclass(frozen=True)
class _TensorReader:
    """Reads value number `value` as a tensor and checks where its data is said to be."""

    value: int
    storage: _Storage
    arena: tuple[int, ...]

    def read(self, table: _Table) -> TensorInfo:
        dtype = table.code("scalar_type", DType)
        shape, dim_order = table.numbers("sizes", _Width.I32), table.numbers("dim_order", _Width.U8)
        if len(shape) > _MAX_RANK or any(size < 0 for size in shape):
            table.file.fail(f"the tensor in value {self.value} has {len(shape)} sizes, {list(shape[:4])}...", table.at)
        if dim_order and sorted(dim_order) != list(range(len(shape))):
            table.file.fail(f"the tensor in value {self.value} has an impossible order of dimensions", table.at)
        nbytes = math.prod(shape) * dtype.itemsize
        placement = self._placement(table, nbytes)
        external = self._external(table)
        return TensorInfo(
            value=self.value,
            dtype=dtype,
            shape=shape,
            dim_order=dim_order,
            dynamism=table.code("shape_dynamism", Dynamism),
            nbytes=nbytes,
            constant=None if external is not None else self._constant(table, nbytes, placement),
            placement=placement,
            external=external,
        )

    def _placement(self, table: _Table, nbytes: int) -> Placement | None:
        details = table.table("allocation_info", "AllocationDetails")
        if details is None:
            return None
        memory = details.index("memory_id", len(self.arena), "memory", _Width.U32)
        low, high = details.number("memory_offset_low", _Width.U32), details.number("memory_offset_high", _Width.U32)
        offset = high << 32 | low
        if offset + nbytes > self.arena[memory]:
            end, size = offset + nbytes, self.arena[memory]
            table.file.fail(
                f"the tensor in value {self.value} ends at byte {end} of memory {memory} of {size}", table.at
            )
        return Placement(memory, offset)

    def _constant(self, table: _Table, nbytes: int, placement: Placement | None) -> int | None:
        """The constant's number; None for the caller's and for planned tensors, even with an initial state."""
        if table.number("data_buffer_idx", _Width.U32) == 0:
            return None
        rooms = self.storage.constants
        if placement is not None:
            extra = table.table("extra_tensor_info", "ExtraTensorInfo")
            which = extra.number("mutable_data_segments_idx", _Width.U64) if extra is not None else 0
            table.check_index(which, len(self.storage.initial_states), "mutable data segment")
            rooms = self.storage.initial_states[which]
        index = table.index("data_buffer_idx", len(rooms), "constant", _Width.U32)
        if nbytes > rooms[index].size:
            table.file.fail(f"value {self.value} needs {nbytes} bytes of data and has {rooms[index].size}", table.at)
        return index if placement is None else None

    def _external(self, table: _Table) -> str | None:
        extra = table.table("extra_tensor_info", "ExtraTensorInfo")
        if extra is None or extra.number("location", _Width.U8) == 0:
            return None
        return extra.string("fully_qualified_name")


def _read_delegate(table: _Table, storage: _Storage) -> Delegate:
    data = table.required("processed", "BackendDelegateDataReference")
    if data.number("location", _Width.U8) == 0:
        blobs = storage.delegate_blobs
        nbytes = blobs[data.index("index", len(blobs), "delegate data", _Width.U32)]
    else:
        segments = storage.segments
        nbytes = segments[data.index("index", len(segments), "segment", _Width.U32)].size
    return Delegate(table.string("id"), nbytes)


def _read_calls(plan: _Table, value_count: int, delegates: tuple[Delegate, ...]) -> list[_Call]:
    operators = [_operator_name(table) for table in plan.tables("operators", "Operator")]
    calls: list[_Call] = []
    for chain in plan.tables("chains", "Chain"):
        for table in chain.tables("instructions", "Instruction"):
            calls.append(_read_call(table, value_count, operators, delegates))
    return calls


def _operator_name(table: _Table) -> str:
    name, overload = table.string("name"), table.string("overload")
    return f"{name}.{overload}" if overload else name


def _read_call(table: _Table, values: int, operators: list[str], delegates: tuple[Delegate, ...]) -> _Call:
    kind = table.code("instr_args_type", InstructionKind)
    if kind is InstructionKind.KERNEL:
        call = table.required("instr_args", "KernelCall")
        name = operators[call.index("op_index", len(operators), "operator")]
        return _Call(kind, name, _read_indices(call, "args", values))
    if kind is InstructionKind.DELEGATE:
        call = table.required("instr_args", "DelegateCall")
        name = delegates[call.index("delegate_index", len(delegates), "delegate")].name
        return _Call(kind, name, _read_indices(call, "args", values))
    if kind is InstructionKind.MOVE:
        call = table.required("instr_args", "MoveCall")
        return _Call(kind, "move", (call.index("move_from", values, "value"), call.index("move_to", values, "value")))
    if kind is InstructionKind.JUMP_FALSE:
        call = table.required("instr_args", "JumpFalseCall")
        return _Call(kind, "jump", (call.index("cond_value_index", values, "value"),))
    call = table.required("instr_args", "FreeCall")
    return _Call(kind, "free", (call.index("value_index", values, "value"),))


def _scratch(calls: list[_Call], values: tuple[_Value, ...]) -> Iterator[Scratch]:
    for number, call in enumerate(calls):
        for position, value in enumerate(call.args):
            tensor = values[value].tensor
            argument = call.argument(position)
            if argument.endswith("scratch") and tensor is not None:
                yield Scratch(number, call.name, argument, tensor.nbytes, tensor.placement)


def _constant_uses(
    plan: _Table, method: str, calls: list[_Call], values: tuple[_Value, ...]
) -> Iterator[tuple[TensorInfo, ConstantUse]]:
    for number, call in enumerate(calls):
        for position, value in enumerate(call.args):
            for tensor in _tensors(plan, values, value):
                yield tensor, ConstantUse(method, number, call.name, call.argument(position))


def _tensors(plan: _Table, values: tuple[_Value, ...], index: int) -> Iterator[TensorInfo]:
    """The constant tensors that a value is or lists."""
    items = values[index].items
    plan.file.spend(4 * len(items), plan.at)
    for item in (index, *items):
        tensor = values[item].tensor if item >= 0 else None
        if tensor is not None and tensor.constant is not None:
            plan.file.spend(_USE_COST, plan.at)
            yield tensor


# ---- Cortado's own text in the file ----------------------------------------------------------------------------------


def metadata_text(
    target: str,
    version: str,
    layout: str,
    inputs: tuple[IoQParams | None, ...],
    outputs: tuple[IoQParams | None, ...],
) -> str:
    """The JSON text for the constant method METADATA_METHOD; `read_pte` gives the same values back."""
    facts = {
        "target": target,
        "version": version,
        "layout": layout,
        "inputs": [None if qparams is None else asdict(qparams) for qparams in inputs],
        "outputs": [None if qparams is None else asdict(qparams) for qparams in outputs],
    }
    return json.dumps(facts, separators=(",", ":"))


def _read_metadata(plan: _Table, outputs: list[_Value]) -> Metadata:
    if len(outputs) != 1 or outputs[0].text is None:
        plan.file.fail(f"the method {METADATA_METHOD!r} does not return one text", plan.at)
    text = outputs[0].text
    try:
        return _parse_metadata(json.loads(text, object_pairs_hook=_unique_keys), text)
    except (ValueError, RecursionError) as error:
        plan.file.fail(f"the text of the method {METADATA_METHOD!r} is not what Cortado writes: {error}", plan.at)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # Firmware reads the first of two equal keys and json the last: they must not disagree about the target.
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key appears twice")
    return dict(pairs)


def _parse_metadata(facts: Any, text: str) -> Metadata:
    if not isinstance(facts, dict):
        raise ValueError("it is not a JSON object")
    target = facts.get("target")
    if not isinstance(target, str) or not re.fullmatch(r"[!#-\[\]-~]+", target):
        raise ValueError(f"its target is {target!r}")
    if '"target"' not in text or f'"{target}"' not in text:
        raise ValueError("its target is written with escapes, which the firmware's reader does not know")
    strings = {key: facts.get(key, "") for key in ("version", "layout")}
    if not all(isinstance(value, str) for value in strings.values()):
        raise ValueError("its version and layout have to be strings")
    inputs, outputs = _parse_qparams(facts.get("inputs", [])), _parse_qparams(facts.get("outputs", []))
    return Metadata(target, strings["version"], strings["layout"], inputs, outputs, text)


def _parse_qparams(items: Any) -> tuple[IoQParams | None, ...]:
    if not isinstance(items, list):
        raise ValueError("its inputs and outputs have to be lists")
    return tuple(None if item is None else _parse_one_qparams(item) for item in items)


def _parse_one_qparams(item: Any) -> IoQParams:
    if not isinstance(item, dict):
        raise ValueError("an input's or output's quantization is not an object")
    scale, zero_point = item.get("scale"), item.get("zero_point")
    if not isinstance(scale, int | float) or isinstance(scale, bool) or not 0 < scale < 2.0**128:
        raise ValueError("a scale is not a positive number")
    if not isinstance(zero_point, int) or isinstance(zero_point, bool) or not -(2**31) <= zero_point < 2**31:
        raise ValueError("a zero point is not an int32")
    return IoQParams(float(scale), zero_point)


def require_target(info: PteInfo, target: str, name: str) -> None:
    """Refuse a file that was planned for another target than `target` (a target string)."""
    if info.metadata is None:
        raise CortadoError(
            f"{name} does not say which target it was compiled for, expected {target}: Cortado did not write it. "
            f"Compile the model with `cortado compile MODEL --target {target}`."
        )
    found = info.metadata.target
    if found not in (target, _ANY_TARGET):
        raise CortadoError(
            f"{name} was compiled for {found}, expected {target}. Compile it again with `--target {target}`, "
            f"or with `--target {_ANY_TARGET}` for a file that runs on every Cortex-M."
        )


# ---- For people and for programs -------------------------------------------------------------------------------------

_LABEL = 13


def format_info(info: PteInfo) -> str:
    """The text that `cortado inspect` prints."""
    lines = _file_lines(info)
    for method in info.methods:
        if method.name != METADATA_METHOD:
            lines += ["", *_method_lines(method, info.metadata if method.instructions else None)]
    return "\n".join([*lines, "", *_constant_lines(info)]) + "\n"


def info_as_json(info: PteInfo) -> dict[str, Any]:
    """The same facts, and each constant, use and scratch buffer, as plain dicts and lists for `json.dumps`."""
    facts: dict[str, Any] = _jsonable(info)
    facts["constant_bytes"] = info.constant_bytes
    for method, plain in zip(info.methods, facts["methods"], strict=True):
        plain["arena_bytes"], plain["scratch_bytes"] = method.arena_bytes, method.scratch_bytes
    return facts


def _jsonable(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.name.lower()
    if is_dataclass(value):
        return {field.name: _jsonable(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        return [_jsonable(item) for item in value]
    return value


def _line(label: str, text: str, indent: str = "") -> str:
    return f"{indent}{label:<{_LABEL - len(indent)}}{text}"


def _plain(text: str) -> str:
    """The text without anything that a terminal would take for a command."""
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _file_lines(info: PteInfo) -> list[str]:
    metadata = info.metadata
    if metadata is None:
        lines = [_line("target", "not recorded: Cortado did not write this file")]
    else:
        writer = _plain(f"Cortado {metadata.version}".strip())
        lines = [_line("target", metadata.target), _line("written by", writer)]
        lines += [_line("layout", _plain(metadata.layout))] if metadata.layout else []
    operators = {use.name for method in info.methods for use in method.operators}
    if any(name.startswith("cortex_m::") and "_nhwc." in name for name in operators):
        lines.append(_line("runtime", "ExecuTorch 1.5.1 or newer with the cortex_m operators (for the _nhwc ones)"))
    elif any(name.startswith("cortex_m::") for name in operators):
        lines.append(_line("runtime", "ExecuTorch with the cortex_m operators"))
    data = sum(segment.size for segment in info.segments)
    lines.append(_line("file", f"{info.size:,} bytes: program {info.program_size:,}, data {data:,}"))
    return lines


def _method_lines(method: Method, metadata: Metadata | None) -> list[str]:
    lines = [f"method {_plain(method.name)}: {_plural(method.instructions, 'instruction')}"]
    lines += _port_lines("input", method.inputs, metadata.inputs if metadata else ())
    lines += _port_lines("output", method.outputs, metadata.outputs if metadata else ())
    arena = f"{method.arena_bytes:,} bytes"
    if len(method.arena) > 2:
        arena += " in memories of " + ", ".join(f"{size:,}" for size in method.arena[1:])
    lines.append(_line("arena", arena, "  "))
    if method.scratch:
        count = _plural(len(method.scratch), "buffer")
        lines.append(_line("scratch", f"{method.scratch_bytes:,} bytes at most ({count}), inside the arena", "  "))
    for delegate in method.delegates:
        lines.append(_line("delegate", f"{_plain(delegate.name)}: {delegate.nbytes:,} bytes", "  "))
    width = max((len(f"{use.count:,}") for use in method.operators), default=0)
    for i, use in enumerate(method.operators):
        lines.append(_line("" if i else "operators", f"{use.count:>{width},}  {_plain(use.name)}", "  "))
    return lines


def _port_lines(label: str, ports: tuple[Port, ...], qparams: tuple[IoQParams | None, ...]) -> list[str]:
    rows = []
    for i, port in enumerate(ports):
        known = qparams[i] if i < len(qparams) else None
        rows.append((*_port_cells(port), f"scale {known.scale:.9g}, zero point {known.zero_point}" if known else ""))
    kinds, shapes, sizes = (max((len(row[i]) for row in rows), default=0) for i in range(3))
    return [
        _line(f"{label} {i}", f"{kind:<{kinds}}  {shape:<{shapes}}  {size:>{sizes}}  {text}".rstrip(), "  ")
        for i, (kind, shape, size, text) in enumerate(rows)
    ]


def _port_cells(port: Port) -> tuple[str, str, str]:
    if port.tensor is None:
        return port.kind.name.lower(), "", ""
    bound = {Dynamism.STATIC: "", Dynamism.BOUNDED: " at most", Dynamism.UNBOUNDED: " unbounded"}[port.tensor.dynamism]
    return port.tensor.dtype.name.lower(), f"{list(port.tensor.shape)}{bound}", f"{port.tensor.nbytes:,} bytes"


def _constant_lines(info: PteInfo) -> list[str]:
    """The constants, summed by what they are to the operators that read them."""
    count, total = len(info.constants), sum(constant.nbytes for constant in info.constants)
    padding = info.constant_bytes - total
    lines = [f"constants: {total:,} bytes in {_plural(count, 'tensor')}, and {padding:,} bytes of padding"]
    roles: dict[str, list[int]] = {}
    for constant in info.constants:
        roles.setdefault(_role(constant), []).append(constant.nbytes)
    rows = sorted(((sum(sizes), len(sizes), role) for role, sizes in roles.items()), key=lambda row: (-row[0], row[2]))
    width = max((len(f"{size:,}") for size, _, _ in rows), default=0)
    return lines + [f"  {size:>{width},} bytes  {_plain(role)} ({_plural(n, 'tensor')})" for size, n, role in rows]


def _role(constant: Constant) -> str:
    """What the constant's first reader calls it."""
    if not constant.uses:
        return "unused"
    use = constant.uses[0]
    return f"argument {use.argument} of {use.operator}" if use.argument.startswith("#") else use.argument
