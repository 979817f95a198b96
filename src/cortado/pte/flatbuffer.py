"""FlatBuffers, bounds-checked: tables with fields by name."""

import struct
from collections.abc import Iterator
from enum import Enum, IntEnum
from typing import NoReturn, TypeVar

from cortado.base.errors import CortadoError


class Width(Enum):
    """A number in the file: its struct code and size in bytes."""

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
    "IntList": _slots("items"),
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
    "CompileSpec": _slots("key value"),
    "BackendDelegateDataReference": _slots("location index"),
    "BackendDelegateInlineData": _slots("data"),
    "Buffer": _slots("storage"),
    "DataSegment": _slots("offset size"),
    "SubsegmentOffsets": _slots("segment_index offsets"),
}
"""The tables of the file and the slot of each field, in the order of ExecuTorch 1.5.1's program.fbs."""


_TABLE_COST = 16
USE_COST = 32
_MAX_MESSAGE = 300
_BUDGET_FACTOR = 4
Code = TypeVar("Code", bound=IntEnum)


class FlatBuffer:
    """The bytes, how many of them belong to the FlatBuffer, and a budget for reading.

    Tables can be shared in a FlatBuffer, so a small damaged file can describe a huge tree. A well-formed one describes
    nothing twice, so the bytes visited stay below a small multiple of the program's size: that is the budget.
    """

    def __init__(self, data: bytes, name: str) -> None:
        self.data = data
        self.name = name
        self.size = len(data)
        self.budget = _BUDGET_FACTOR * len(data)

    def fail(self, what: str, at: int) -> NoReturn:
        # Names in the file can be as long as the file.
        shown = what if len(what) <= _MAX_MESSAGE else f"{what[:_MAX_MESSAGE]}..."
        raise CortadoError(f"{self.name} is not a readable .pte: {shown} (at byte {at})")

    def limit(self, size: int) -> None:
        """Restricts reading to the first `size` bytes from now on."""
        self.size = size
        self.budget = _BUDGET_FACTOR * size

    def spend(self, cost: int, at: int) -> None:
        self.budget -= cost
        if self.budget < 0:
            self.fail("its tables refer to each other so often that they describe far more than the file holds", at)

    def number(self, at: int, width: Width) -> int:
        code, size = width.value
        if at % size:
            self.fail(f"a {size}-byte number is not aligned", at)
        if at < 0 or at + size > self.size:
            self.fail(f"a {size}-byte number lies outside the program's {self.size} bytes", at)
        return int(struct.unpack_from(f"<{code}", self.data, at)[0])

    def target(self, at: int) -> int:
        """Returns the position that the offset stored at `at` points to."""
        offset = self.number(at, Width.U32)
        if offset == 0 or at + offset >= self.size:
            self.fail(f"an offset of {offset} leads outside the program's {self.size} bytes", at)
        return at + offset

    def vector(self, at: int, width: int) -> tuple[int, int]:
        """Returns the first element's position and the length of the vector at `at`."""
        length = self.number(at, Width.U32)
        start = at + 4
        if length > (self.size - start) // width:
            self.fail(f"a vector of {length} elements does not fit the program's {self.size} bytes", at)
        if length and start % width:
            self.fail(f"a vector of {width}-byte elements is not aligned", at)
        self.spend(4 + length * width, at)
        return start, length


class FlatTable:
    """A FlatBuffers table: fields by name."""

    __slots__ = ("at", "fields", "file", "kind", "slots", "vtable", "width")

    def __init__(self, file: FlatBuffer, at: int, kind: str) -> None:
        self.file, self.at, self.kind = file, at, kind
        self.fields = SCHEMA[kind]
        file.spend(_TABLE_COST, at)
        self.vtable = at - file.number(at, Width.I32)
        if self.vtable < 0 or self.vtable + 4 > file.size or self.vtable % 2:
            file.fail(f"a {kind} table's layout lies outside the program's {file.size} bytes", at)
        length, self.width = struct.unpack_from("<HH", file.data, self.vtable)
        if length < 4 or length % 2 or self.vtable + length > file.size:
            file.fail(f"a {kind} table's layout has an impossible size of {length}", self.vtable)
        if self.width < 4 or at + self.width > file.size:
            file.fail(f"a {kind} table of {self.width} bytes does not fit the program's {file.size} bytes", at)
        self.slots = (length - 4) // 2

    def position(self, field: str, size: int) -> int | None:
        """Returns the field's position, or None if it has its default value."""
        slot = self.fields[field]
        if slot >= self.slots:
            return None
        (offset,) = struct.unpack_from("<H", self.file.data, self.vtable + 4 + 2 * slot)
        if offset == 0:
            return None
        if offset < 4 or offset + size > self.width:
            self.file.fail(f"{self.kind}.{field} lies outside its table", self.at)
        return int(self.at + offset)

    def number(self, field: str, width: Width, default: int = 0) -> int:
        at = self.position(field, width.value[1])
        return default if at is None else self.file.number(at, width)

    def code(self, field: str, kind: type[Code]) -> Code:
        code = self.number(field, Width.U8)
        try:
            return kind(code)
        except ValueError:
            self.file.fail(f"{self.kind}.{field} has the unknown value {code}", self.at)

    def reference(self, field: str) -> int | None:
        at = self.position(field, 4)
        return None if at is None else self.file.target(at)

    def table(self, field: str, kind: str) -> "FlatTable | None":
        at = self.reference(field)
        return None if at is None else FlatTable(self.file, at, kind)

    def required(self, field: str, kind: str) -> "FlatTable":
        found = self.table(field, kind)
        return found if found is not None else self.file.fail(f"{self.kind}.{field} is missing", self.at)

    def tables(self, field: str, kind: str) -> Iterator["FlatTable"]:
        at = self.reference(field)
        if at is None:
            return
        start, length = self.file.vector(at, 4)
        for position in range(start, start + 4 * length, 4):
            yield FlatTable(self.file, self.file.target(position), kind)

    def numbers(self, field: str, width: Width) -> tuple[int, ...]:
        at = self.reference(field)
        if at is None:
            return ()
        code, size = width.value
        start, length = self.file.vector(at, size)
        numbers: tuple[int, ...] = struct.unpack_from(f"<{length}{code}", self.file.data, start)
        return numbers

    def byte_range(self, field: str) -> tuple[int, int]:
        """Returns the position and number of the field's bytes."""
        at = self.reference(field)
        return (0, 0) if at is None else self.file.vector(at, 1)

    def byte_count(self, field: str) -> int:
        return self.byte_range(field)[1]

    def string(self, field: str) -> str:
        at = self.reference(field)
        if at is None:
            return ""
        start, length = self.file.vector(at, 1)
        try:
            return self.file.data[start : start + length].decode("utf-8")
        except UnicodeDecodeError as error:
            self.file.fail(f"{self.kind}.{field} is not UTF-8 text", start + error.start)

    def index(self, field: str, count: int, what: str, width: Width = Width.I32) -> int:
        return self.check_index(self.number(field, width), count, what)

    def check_index(self, index: int, count: int, what: str) -> int:
        if not 0 <= index < count:
            self.file.fail(f"{self.kind} refers to {what} {index}, and there are {count}", self.at)
        return index
