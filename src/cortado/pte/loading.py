"""The allocations of ExecuTorch's runtime while it loads a method: values, argument lists, kernels.

The runtime never frees any of them, so their sum, including gaps for alignment, is the minimum size of a method
allocator. They are listed one by one as in ExecuTorch 1.5.1, with the sizes of its C++ types, which depend only on the
size of a pointer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from cortado.pte.info import Dynamism, InstructionKind, Loading, MethodValue, TensorInfo, ValueKind

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
