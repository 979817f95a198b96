"""The contents of a .pte, as plain data.

Also where the data of a .pte's values are stored.
It includes Cortado's own text: target, and quantization of inputs and outputs.
"""

import json
import re
from collections import Counter
from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import Any

from cortado.base.errors import CortadoError
from cortado.pte.flatbuffer import FlatTable

# ---- info ------------------------------------------------------------------------------------------------


class ScalarType(IntEnum):
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
        """Returns the bytes of one element."""
        return _ITEM_SIZES.get(self, 1)


_ITEM_SIZES = {
    **dict.fromkeys(
        (ScalarType.INT16, ScalarType.FLOAT16, ScalarType.BFLOAT16, ScalarType.BITS16, ScalarType.UINT16), 2
    ),
    **dict.fromkeys(
        (ScalarType.INT32, ScalarType.FLOAT32, ScalarType.QINT32, ScalarType.UINT32, ScalarType.COMPLEX32), 4
    ),
    **dict.fromkeys((ScalarType.INT64, ScalarType.FLOAT64, ScalarType.UINT64, ScalarType.COMPLEX64), 8),
    ScalarType.COMPLEX128: 16,
}


class Dynamism(IntEnum):
    """Whether a tensor's shape is fixed, has an upper bound, or is unknown."""

    STATIC = 0
    BOUNDED = 1
    UNBOUNDED = 2


class ValueKind(IntEnum):
    """Kinds of a method's values, by their codes in the file."""

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
    """Kinds of instructions, by their codes in the file."""

    KERNEL = 1
    DELEGATE = 2
    MOVE = 3
    JUMP_FALSE = 4
    FREE = 5


@dataclass(frozen=True)
class PlannedAddress:
    """The address of a planned tensor: a memory, and an offset in it."""

    memory: int
    offset: int


@dataclass(frozen=True)
class TensorInfo:
    """A tensor among a method's values: constant, planned (`placement`), or allocated by the caller.

    A planned one with `initial` values (their number in the file) persists from call to call.
    """

    value: int
    dtype: ScalarType
    shape: tuple[int, ...]
    dim_order: tuple[int, ...]
    dynamism: Dynamism
    nbytes: int
    constant: int | None = None
    placement: PlannedAddress | None = None
    external: str | None = None
    initial: int | None = None


@dataclass(frozen=True)
class MethodPort:
    """An input or output of a method; `tensor` is None for a number, a string or a list."""

    kind: ValueKind
    tensor: TensorInfo | None


@dataclass(frozen=True)
class OperatorUse:
    """An operator (`namespace::name.overload`), and how often the method calls it."""

    name: str
    count: int


@dataclass(frozen=True)
class Scratch:
    """A memory-planned buffer that a single kernel call uses internally."""

    instruction: int
    operator: str
    argument: str
    nbytes: int
    placement: PlannedAddress | None


@dataclass(frozen=True)
class Delegate:
    """A part of the method that a backend runs: its name, and its blob's size and place in the file."""

    name: str
    nbytes: int
    offset: int
    settings: tuple[str, ...]  # the names of the settings passed to the backend


@dataclass(frozen=True)
class Loading:
    """Bytes that the runtime allocates while it loads a method: `method_bytes` of the method allocator if the temp
    allocator has `temp_bytes`, or `alone_bytes` without a temp allocator."""

    method_bytes: int
    temp_bytes: int
    alone_bytes: int


@dataclass(frozen=True)
class Method:
    """An entry point. `calls` are its kernel calls in order, `operators` the same with counts, in order of first use.

    `arena` has the bytes that the runtime must provide for each memory id; id 0 represents constants and is unused.
    """

    name: str
    inputs: tuple[MethodPort, ...]
    outputs: tuple[MethodPort, ...]
    operators: tuple[OperatorUse, ...]
    calls: tuple[str, ...]
    arena: tuple[int, ...]
    instructions: int
    delegates: tuple[Delegate, ...]
    scratch: tuple[Scratch, ...]
    loading: Loading  # on a Cortex-M, without the allocations of a delegate's backend
    host_loading: Loading  # with 64-bit pointers
    state: tuple[TensorInfo, ...] = ()

    @property
    def state_bytes(self) -> int:
        """Returns the planned bytes that persist from call to call."""
        return sum(tensor.nbytes for tensor in self.state)

    @property
    def arena_bytes(self) -> int:
        """Returns the planned RAM over all memories."""
        return sum(self.arena[1:])

    @property
    def scratch_bytes(self) -> int:
        """Returns the most scratch that one kernel call needs: calls run one after another and share their memory."""
        per_call: Counter[int] = Counter()
        for buffer in self.scratch:
            per_call[buffer.instruction] += buffer.nbytes
        return max(per_call.values(), default=0)


@dataclass(frozen=True)
class ConstantUse:
    """A reader of a constant: an operator and one of its arguments ("output" for a method's own output)."""

    method: str
    instruction: int
    operator: str
    argument: str


@dataclass(frozen=True)
class PteConstant:
    """A constant tensor. `stored` is its size in the file, including padding; one without `uses` is dead weight."""

    index: int
    offset: int
    stored: int
    nbytes: int
    dtype: ScalarType | None
    shape: tuple[int, ...]
    uses: tuple[ConstantUse, ...]


@dataclass(frozen=True)
class DataSegment:
    """A piece of data after the program; `offset` counts from the start of the file."""

    offset: int
    size: int


@dataclass(frozen=True)
class IoQParams:
    """The quantization of an int8 input or output: real = (q - zero_point) * scale."""

    scale: float
    zero_point: int


@dataclass(frozen=True)
class Metadata:
    """Cortado's metadata in the file; an input or output that is not quantized is None."""

    target: str
    version: str
    layout: str
    inputs: tuple[IoQParams | None, ...]
    outputs: tuple[IoQParams | None, ...]
    text: str


@dataclass(frozen=True)
class PteInfo:
    """Everything `cortado inspect` reports about a file; `metadata` is None if Cortado did not write it."""

    size: int
    program_size: int
    version: int
    methods: tuple[Method, ...]
    constants: tuple[PteConstant, ...]
    segments: tuple[DataSegment, ...]
    metadata: Metadata | None

    @property
    def constant_bytes(self) -> int:
        """Returns the size of all constants in the file, including padding."""
        return sum(constant.stored for constant in self.constants)

    def method(self, name: str) -> Method | None:
        """Returns the method of that name, or None."""
        return next((method for method in self.methods if method.name == name), None)


# ---- storage ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ConstantStorage:
    """A constant's place in the file."""

    offset: int
    size: int


@dataclass(frozen=True)
class Storage:
    """The storage that the program's methods refer to by index."""

    segments: tuple[DataSegment, ...]
    constants: tuple[ConstantStorage, ...]
    initial_states: tuple[tuple[ConstantStorage, ...], ...]
    delegate_blobs: tuple[ConstantStorage, ...]


@dataclass(frozen=True)
class MethodValue:
    """One of a method's values, reduced to what matters here: a tensor, a text, or a list of other values."""

    kind: ValueKind
    tensor: TensorInfo | None = None
    text: str | None = None
    items: tuple[int, ...] = ()
    count: int = 0  # for a list of integers


# ---- Cortado's own text -----------------------------------------------------------------------------

METADATA_METHOD = "cortado"
"""The constant method that returns Cortado's JSON text."""


_ANY_TARGET = "cortex-m"


def metadata_text(
    target: str,
    version: str,
    layout: str,
    inputs: tuple[IoQParams | None, ...],
    outputs: tuple[IoQParams | None, ...],
) -> str:
    """Returns the JSON text for the constant method METADATA_METHOD; `read_pte` parses it back."""
    facts = {
        "target": target,
        "version": version,
        "layout": layout,
        "inputs": [None if qparams is None else asdict(qparams) for qparams in inputs],
        "outputs": [None if qparams is None else asdict(qparams) for qparams in outputs],
    }
    return json.dumps(facts, separators=(",", ":"))


def read_metadata(plan: FlatTable, outputs: list[MethodValue]) -> Metadata:
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
    """Refuses a file that was planned for a target other than `target` (a target string)."""
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
