"""Allocations of ExecuTorch's runtime while it loads a method: values, lists of arguments, kernels.

The runtime asks for one piece after the other and gives none back: their sum, with the gaps that alignment leaves, is
the least size of a method allocator. Piece by piece as ExecuTorch 1.5.1 asks for them; sizes are those of its types in
C++, which depend on nothing but the size of a pointer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from cortado.pte.info import Dynamism, InstructionKind, Loading, MethodValue, TensorInfo, ValueKind

_EVALUE, _EVALUE_ALIGNMENT = 16, 8
_BUFFER = 24  # of a FreeableBuffer, what has no pointers' size
_MOST_DIMS = 16  # kTensorDimensionLimit


class Pointer(IntEnum):
    """Bytes of one."""

    CORE = 4  # on every Cortex-M
    HOST = 8


@dataclass(frozen=True)
class LoadedCall:
    """One instruction: what it is, and the values among its arguments."""

    kind: InstructionKind
    args: tuple[int, ...]


@dataclass
class _Taken:
    """Bytes of an allocator that were given away."""

    pointer: int
    bytes: int = 0

    def take(self, count: int, size: int, alignment: int) -> None:
        self.bytes += -self.bytes % alignment + count * size

    def pointers(self, count: int) -> None:
        """`count` pointers, or a structure of them."""
        self.take(count, self.pointer, self.pointer)


def loading(
    values: Sequence[MethodValue],
    inputs: int,
    chains: Sequence[Sequence[LoadedCall]],
    specs: Sequence[int],
    pointer: Pointer,
) -> Loading:
    """With a temp allocator that has room for the widest call, and without any. `specs`: the settings of each delegate;
    what its backend takes comes on top."""
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
    taken.take(inputs, 1, 1)  # which of them are set
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
    """Strides and the tensor itself; a shape that may change is copied out of the file."""
    rank = len(tensor.shape)
    if tensor.dynamism is not Dynamism.STATIC:
        taken.take(rank, 4, 4)
        taken.take(rank, 1, 1)
    taken.take(rank, 4, 4)
    taken.pointers(8)


def _take_call(taken: _Taken, call: LoadedCall, values: Sequence[MethodValue], alone: bool) -> None:
    """Its arguments; and what its kernel is found by, types and orders of dimensions, if there is no other place."""
    if call.kind not in (InstructionKind.KERNEL, InstructionKind.DELEGATE):
        return
    taken.pointers(len(call.args))
    if alone and call.kind is InstructionKind.KERNEL:
        taken.pointers(3 * len(call.args))
        for argument in call.args:
            tensor = values[argument].tensor
            if tensor is not None:
                taken.take(len(tensor.shape), 1, 1)
