"""Reads an image of anybody: what it says of itself, every place checked."""

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cortado.base.errors import CortadoError
from cortado.base.names import plain
from cortado.base.target import Core
from cortado.emit.image.layout import CRC_AT, ELEMENTS, FORMAT, HANDLE_BYTES, HEADER, MAGIC, TENSOR, ImageHead

_LONGEST_TEXT = 200


@dataclass(frozen=True)
class ImageTensor:
    """An input or output."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    layout: tuple[int, ...]
    offset: int
    bytes: int
    scale: float | None
    zero_point: int


@dataclass(frozen=True)
class ImageKernel:
    """A call that the firmware must have."""

    name: str
    id: int


@dataclass(frozen=True)
class ImageInfo:
    """Contents of an image, as plain data."""

    name: str
    target: str
    core: Core
    head: ImageHead
    inputs: tuple[ImageTensor, ...]
    outputs: tuple[ImageTensor, ...]
    kernels: tuple[ImageKernel, ...]

    def arena_in(self, settings: Sequence[str]) -> str:
        """Returns whose memory the delegate has its arena in, by the names of a call's settings."""
        if "arena" in settings:
            return "planned memory"
        return "method allocator" if self.head.state_bytes or self.head.feeding else "temp allocator"

    @property
    def delegate_bytes(self) -> int:
        """Returns what the delegate takes of a method allocator whose memory begins at a multiple of 8."""
        return HANDLE_BYTES[self.head.pointer_bytes] + 4 + self.head.ram_bytes

    @property
    def version(self) -> str:
        return f"{self.head.kernels // 100}.{self.head.kernels % 100}"


def is_image(data: bytes) -> bool:
    return data[:4] == MAGIC


def read_image(data: bytes, source: str) -> ImageInfo:
    """`source` names it in messages."""
    head = _head(data, source)
    try:
        tensors = [_tensor(data, head.tensor + TENSOR.size * i) for i in range(head.inputs + head.outputs)]
        kernels = [_kernel(data, head.thunk + 8 * i) for i in range(head.thunks)]
        return ImageInfo(
            name=_text(data, head.name),
            target=_text(data, head.target),
            core=Core(head.core),
            head=head,
            inputs=tuple(tensors[: head.inputs]),
            outputs=tuple(tensors[head.inputs :]),
            kernels=tuple(kernels),
        )
    except (struct.error, IndexError, ValueError) as error:
        raise CortadoError(f"{source} is an image whose tables leave it ({error}); compile it again") from None


def _head(data: bytes, source: str) -> ImageHead:
    if not is_image(data) or len(data) < HEADER.size:
        raise CortadoError(f"{source} is no image; expected a MODEL.cortado that `cortado compile --image` wrote")
    head = ImageHead.unpack(data)
    if head.format != FORMAT:
        raise CortadoError(f"{source} is an image of format {head.format}, and this Cortado reads {FORMAT}")
    if head.bytes > len(data):
        raise CortadoError(f"{source} is cut off: it has {len(data):,} of {head.bytes:,} bytes")
    if zlib.crc32(data[CRC_AT + 4 : head.bytes]) != head.crc:
        raise CortadoError(f"{source} is damaged: its CRC is not that of its bytes; take it from its maker again")
    return head


def _text(data: bytes, at: int) -> str:
    end = data.index(b"\0", at)
    return plain(data[at : min(end, at + _LONGEST_TEXT)].decode(errors="replace"))


def _tensor(data: bytes, at: int) -> ImageTensor:
    offset, size, scale, name, shape, zero, element, rank = TENSOR.unpack_from(data, at)
    numbers = struct.unpack_from(f"<{rank}I{rank}B", data, shape)
    return ImageTensor(
        name=_text(data, name),
        dtype=ELEMENTS[element],
        shape=numbers[:rank],
        layout=numbers[rank:],
        offset=offset,
        bytes=size,
        scale=scale or None,
        zero_point=zero,
    )


def _kernel(data: bytes, at: int) -> ImageKernel:
    number, name = struct.unpack_from("<II", data, at)
    return ImageKernel(_text(data, name), number)


def read_image_file(path: Path) -> ImageInfo:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CortadoError(f"can't read {path}: {error.strerror}; expected a MODEL.cortado") from error
    return read_image(data, str(path))
