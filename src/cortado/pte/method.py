"""One method of a .pte: its values, calls and scratch.

Also the argument names of the operators that a .pte calls, and what the runtime allocates while it loads the method.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

from cortado.pte.flatbuffer import USE_COST, FlatTable, Width
from cortado.pte.info import (
    METADATA_METHOD,
    ConstantStorage,
    ConstantUse,
    DataSegment,
    Delegate,
    Dynamism,
    InstructionKind,
    Loading,
    Metadata,
    Method,
    MethodPort,
    MethodValue,
    OperatorUse,
    PlannedAddress,
    ScalarType,
    Scratch,
    Storage,
    TensorInfo,
    ValueKind,
    read_metadata,
)

# ---- arguments -------------------------------------------------------------------------------------------

# The names of each cortex_m operator's arguments, in order. A kernel call lists them, then `out`, then the value it
# returns (`out` again). The names tell which constants are weights and which tensors are scratch.
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


# ---- method ----------------------------------------------------------------------------------------------

_MAX_RANK = 16


@dataclass(frozen=True)
class MethodCall:
    """An instruction: what it calls, and on which values."""

    kind: InstructionKind
    name: str
    args: tuple[int, ...]

    def argument(self, position: int) -> str:
        """Returns the argument's name if the operator is known and the number of arguments matches, else its index."""
        names = OPERATOR_ARGUMENTS.get(self.name, ())
        if len(self.args) == len(names) + 2:
            return (*names, "out", "out")[position]
        return f"#{position}"


@dataclass(frozen=True)
class MethodPlan:
    """A method, with the facts that the whole program needs about it."""

    method: Method
    uses: tuple[tuple[TensorInfo, ConstantUse], ...]
    metadata: Metadata | None


def read_plan(plan: FlatTable, storage: Storage) -> MethodPlan:
    name = plan.string("name")
    arena = plan.numbers("non_const_buffer_sizes", Width.I64)
    if any(size < 0 for size in arena):
        plan.file.fail(f"it asks for {min(arena)} bytes of memory", plan.at)
    values = _read_values(plan, storage, arena)
    inputs, outputs = _read_indices(plan, "inputs", len(values)), _read_indices(plan, "outputs", len(values))
    delegates = tuple(_read_delegate(table, storage) for table in plan.tables("delegates", "BackendDelegate"))
    chains, specs = _read_chains(plan, len(values), delegates), [len(delegate.settings) for delegate in delegates]
    calls = [call for chain in chains for call in chain]
    loaded = [[LoadedCall(call.kind, call.args) for call in chain] for chain in chains]
    kernels = tuple(call.name for call in calls if call.kind is InstructionKind.KERNEL)
    method = Method(
        name=name,
        inputs=tuple(MethodPort(values[i].kind, values[i].tensor) for i in inputs),
        outputs=tuple(MethodPort(values[i].kind, values[i].tensor) for i in outputs),
        operators=tuple(OperatorUse(operator, count) for operator, count in Counter(kernels).items()),
        calls=kernels,
        arena=arena,
        instructions=len(calls),
        delegates=delegates,
        scratch=tuple(_scratch(calls, values)),
        loading=loading(values, len(inputs), loaded, specs, Pointer.CORE),
        host_loading=loading(values, len(inputs), loaded, specs, Pointer.HOST),
        state=tuple(_state(values)),
    )
    uses = list(_constant_uses(plan, name, calls, values))
    for i in outputs:
        uses += [(tensor, ConstantUse(name, len(calls), "", "output")) for tensor in _tensors(plan, values, i)]
    is_ours = name == METADATA_METHOD
    return MethodPlan(method, tuple(uses), read_metadata(plan, [values[i] for i in outputs]) if is_ours else None)


def _state(values: tuple[MethodValue, ...]) -> Iterator[TensorInfo]:
    """Yields the tensors that persist from call to call, once per place: a write's result aliases its target."""
    places = set()
    for one in values:
        if one.tensor is not None and one.tensor.initial is not None and one.tensor.placement not in places:
            places.add(one.tensor.placement)
            yield one.tensor


def _read_indices(table: FlatTable, field: str, count: int) -> tuple[int, ...]:
    indices = table.numbers(field, Width.I32)
    for index in indices:
        table.check_index(index, count, "value")
    return indices


def _read_values(plan: FlatTable, storage: Storage, arena: tuple[int, ...]) -> tuple[MethodValue, ...]:
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


def _read_value(table: FlatTable, reader: "_TensorReader") -> MethodValue:
    kind = table.code("val_type", ValueKind)
    if kind is ValueKind.TENSOR:
        return MethodValue(kind, tensor=reader.read(table.required("val", "Tensor")))
    if kind is ValueKind.STRING:
        return MethodValue(kind, text=table.required("val", "String").string("string_val"))
    if kind in (ValueKind.TENSOR_LIST, ValueKind.OPTIONAL_TENSOR_LIST):
        return MethodValue(kind, items=table.required("val", "TensorList").numbers("items", Width.I32))
    if kind is ValueKind.INT_LIST:
        return MethodValue(kind, count=len(table.required("val", "IntList").numbers("items", Width.I64)))
    return MethodValue(kind)


@dataclass(frozen=True)
class _TensorReader:
    """A reader of value number `value` as a tensor, which checks the place of its data."""

    value: int
    storage: Storage
    arena: tuple[int, ...]

    def read(self, table: FlatTable) -> TensorInfo:
        dtype = table.code("scalar_type", ScalarType)
        shape, dim_order = table.numbers("sizes", Width.I32), table.numbers("dim_order", Width.U8)
        if len(shape) > _MAX_RANK or any(size < 0 for size in shape):
            table.file.fail(f"the tensor in value {self.value} has {len(shape)} sizes, {list(shape[:4])}...", table.at)
        if dim_order and sorted(dim_order) != list(range(len(shape))):
            table.file.fail(f"the tensor in value {self.value} has an impossible order of dimensions", table.at)
        nbytes = math.prod(shape) * dtype.itemsize
        placement = self._placement(table, nbytes)
        external = self._external(table)
        data = None if external is not None else self._data(table, nbytes, placement)
        return TensorInfo(
            value=self.value,
            dtype=dtype,
            shape=shape,
            dim_order=dim_order,
            dynamism=table.code("shape_dynamism", Dynamism),
            nbytes=nbytes,
            constant=data if placement is None else None,
            placement=placement,
            external=external,
            initial=None if placement is None else data,
        )

    def _placement(self, table: FlatTable, nbytes: int) -> PlannedAddress | None:
        details = table.table("allocation_info", "AllocationDetails")
        if details is None:
            return None
        memory = details.index("memory_id", len(self.arena), "memory", Width.U32)
        low, high = details.number("memory_offset_low", Width.U32), details.number("memory_offset_high", Width.U32)
        offset = high << 32 | low
        if offset + nbytes > self.arena[memory]:
            end, size = offset + nbytes, self.arena[memory]
            table.file.fail(
                f"the tensor in value {self.value} ends at byte {end} of memory {memory} of {size}", table.at
            )
        return PlannedAddress(memory, offset)

    def _data(self, table: FlatTable, nbytes: int, placement: PlannedAddress | None) -> int | None:
        """Returns the number of a constant, or of a planned tensor's initial values; None without either."""
        if table.number("data_buffer_idx", Width.U32) == 0:
            return None
        rooms = self.storage.constants
        if placement is not None:
            extra = table.table("extra_tensor_info", "ExtraTensorInfo")
            which = extra.number("mutable_data_segments_idx", Width.U64) if extra is not None else 0
            table.check_index(which, len(self.storage.initial_states), "mutable data segment")
            rooms = self.storage.initial_states[which]
        index = table.index("data_buffer_idx", len(rooms), "constant", Width.U32)
        if nbytes > rooms[index].size:
            table.file.fail(f"value {self.value} needs {nbytes} bytes of data and has {rooms[index].size}", table.at)
        return index

    def _external(self, table: FlatTable) -> str | None:
        extra = table.table("extra_tensor_info", "ExtraTensorInfo")
        if extra is None or extra.number("location", Width.U8) == 0:
            return None
        return extra.string("fully_qualified_name")


def _read_delegate(table: FlatTable, storage: Storage) -> Delegate:
    data = table.required("processed", "BackendDelegateDataReference")
    if data.number("location", Width.U8) == 0:
        blobs = storage.delegate_blobs
        blob: ConstantStorage | DataSegment = blobs[data.index("index", len(blobs), "delegate data", Width.U32)]
    else:
        segments = storage.segments
        blob = segments[data.index("index", len(segments), "segment", Width.U32)]
    settings = tuple(spec.string("key") for spec in table.tables("compile_specs", "CompileSpec"))
    return Delegate(table.string("id"), blob.size, blob.offset, settings)


def _read_chains(plan: FlatTable, value_count: int, delegates: tuple[Delegate, ...]) -> list[list[MethodCall]]:
    operators = [_operator_name(table) for table in plan.tables("operators", "Operator")]
    return [
        [_read_call(table, value_count, operators, delegates) for table in chain.tables("instructions", "Instruction")]
        for chain in plan.tables("chains", "Chain")
    ]


def _operator_name(table: FlatTable) -> str:
    name, overload = table.string("name"), table.string("overload")
    return f"{name}.{overload}" if overload else name


def _read_call(table: FlatTable, values: int, operators: list[str], delegates: tuple[Delegate, ...]) -> MethodCall:
    kind = table.code("instr_args_type", InstructionKind)
    if kind is InstructionKind.KERNEL:
        call = table.required("instr_args", "KernelCall")
        name = operators[call.index("op_index", len(operators), "operator")]
        return MethodCall(kind, name, _read_indices(call, "args", values))
    if kind is InstructionKind.DELEGATE:
        call = table.required("instr_args", "DelegateCall")
        name = delegates[call.index("delegate_index", len(delegates), "delegate")].name
        return MethodCall(kind, name, _read_indices(call, "args", values))
    if kind is InstructionKind.MOVE:
        call = table.required("instr_args", "MoveCall")
        return MethodCall(
            kind, "move", (call.index("move_from", values, "value"), call.index("move_to", values, "value"))
        )
    if kind is InstructionKind.JUMP_FALSE:
        call = table.required("instr_args", "JumpFalseCall")
        return MethodCall(kind, "jump", (call.index("cond_value_index", values, "value"),))
    call = table.required("instr_args", "FreeCall")
    return MethodCall(kind, "free", (call.index("value_index", values, "value"),))


def _scratch(calls: list[MethodCall], values: tuple[MethodValue, ...]) -> Iterator[Scratch]:
    for number, call in enumerate(calls):
        for position, value in enumerate(call.args):
            tensor = values[value].tensor
            argument = call.argument(position)
            if argument.endswith("scratch") and tensor is not None:
                yield Scratch(number, call.name, argument, tensor.nbytes, tensor.placement)


def _constant_uses(
    plan: FlatTable, method: str, calls: list[MethodCall], values: tuple[MethodValue, ...]
) -> Iterator[tuple[TensorInfo, ConstantUse]]:
    for number, call in enumerate(calls):
        for position, value in enumerate(call.args):
            for tensor in _tensors(plan, values, value):
                yield tensor, ConstantUse(method, number, call.name, call.argument(position))


def _tensors(plan: FlatTable, values: tuple[MethodValue, ...], index: int) -> Iterator[TensorInfo]:
    """Yields the constant tensors that a value is or lists."""
    items = values[index].items
    plan.file.spend(4 * len(items), plan.at)
    for item in (index, *items):
        tensor = values[item].tensor if item >= 0 else None
        if tensor is not None and tensor.constant is not None:
            plan.file.spend(USE_COST, plan.at)
            yield tensor


# ---- allocations while loading ---------------------------------------------------------------------------------------


_EVALUE, _EVALUE_ALIGNMENT = 16, 8
_BUFFER = 24  # of a FreeableBuffer, the part that does not depend on pointers
_MOST_DIMS = 16  # kTensorDimensionLimit


class Pointer(IntEnum):
    """The size of a pointer in bytes."""

    CORE = 4  # on every Cortex-M
    HOST = 8


@dataclass(frozen=True)
class LoadedCall:
    """An instruction: its kind, and the values among its arguments."""

    kind: InstructionKind
    args: tuple[int, ...]


@dataclass
class _Taken:
    """The bytes allocated so far."""

    pointer: int
    bytes: int = 0

    def take(self, count: int, size: int, alignment: int) -> None:
        self.bytes += -self.bytes % alignment + count * size

    def pointers(self, count: int) -> None:
        """Allocates `count` pointers, or a structure of them."""
        self.take(count, self.pointer, self.pointer)


def loading(
    values: Sequence[MethodValue],
    inputs: int,
    chains: Sequence[Sequence[LoadedCall]],
    specs: Sequence[int],
    pointer: Pointer,
) -> Loading:
    """Computes the allocations with a temp allocator for the widest call, and without any.

    `specs` are the numbers of settings of each delegate; the allocations of its backend are not included.
    """
    calls = [call for chain in chains for call in chain if call.kind is InstructionKind.KERNEL]
    widest = max((len(call.args) for call in calls), default=0)
    return Loading(
        method_bytes=_method_bytes(values, inputs, chains, specs, pointer, alone=False),
        temp_bytes=widest * (3 * pointer + _MOST_DIMS),
        alone_bytes=_method_bytes(values, inputs, chains, specs, pointer, alone=True),
    )


def _method_bytes(
    values: Sequence[MethodValue],
    inputs: int,
    chains: Sequence[Sequence[LoadedCall]],
    specs: Sequence[int],
    pointer: Pointer,
    alone: bool,
) -> int:
    taken = _Taken(pointer)
    taken.take(len(values), _EVALUE, _EVALUE_ALIGNMENT)
    taken.take(inputs, 1, 1)  # flags that tell which of them are set
    for value in values:
        _take_value(taken, value)
    if specs:
        taken.take(len(specs), _BUFFER + 4 * pointer, 8)  # its blob, and pointers to backend and handle
        for count in specs:
            taken.pointers(3 * count)
    taken.pointers(4 * len(chains))
    for chain in chains:
        taken.pointers(len(chain))  # kernels
        taken.pointers(2 * len(chain))  # lists of arguments
        for call in chain:
            _take_call(taken, call, values, alone)
    return taken.bytes


def _take_value(taken: _Taken, value: MethodValue) -> None:
    match value.kind:
        case ValueKind.TENSOR if value.tensor is not None:
            _take_tensor(taken, value.tensor)
        case ValueKind.INT_LIST:
            taken.pointers(value.count)
            taken.take(value.count, 8, 8)
            taken.pointers(3)
        case ValueKind.TENSOR_LIST | ValueKind.OPTIONAL_TENSOR_LIST:
            taken.pointers(len(value.items) * (1 if value.kind is ValueKind.TENSOR_LIST else 2))
            taken.pointers(len(value.items))
            taken.pointers(3)
        case ValueKind.BOOL_LIST | ValueKind.DOUBLE_LIST | ValueKind.STRING:
            taken.pointers(2)


def _take_tensor(taken: _Taken, tensor: TensorInfo) -> None:
    """Allocates strides and the tensor itself; a dynamic shape is copied out of the file."""
    rank = len(tensor.shape)
    if tensor.dynamism is not Dynamism.STATIC:
        taken.take(rank, 4, 4)
        taken.take(rank, 1, 1)
    taken.take(rank, 4, 4)
    taken.pointers(8)


def _take_call(taken: _Taken, call: LoadedCall, values: Sequence[MethodValue], alone: bool) -> None:
    """Allocates a call's arguments and, without a temp allocator, the dtypes and dimension orders used to look up its
    kernel."""
    if call.kind not in (InstructionKind.KERNEL, InstructionKind.DELEGATE):
        return
    taken.pointers(len(call.args))
    if alone and call.kind is InstructionKind.KERNEL:
        taken.pointers(3 * len(call.args))
        for argument in call.args:
            tensor = values[argument].tensor
            if tensor is not None:
                taken.take(len(tensor.shape), 1, 1)
