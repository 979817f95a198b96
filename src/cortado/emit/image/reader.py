"""Reads an image from any source, with every offset checked.

Also describes an image in words, and as JSON.
"""

import struct
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from cortado.base.errors import CortadoError
from cortado.base.names import plain
from cortado.base.target import Core
from cortado.emit.image.layout import (
    CRC_AT,
    ELEMENTS,
    FORMAT,
    HANDLE_BYTES,
    HEADER,
    HEADER_STRIDE,
    MAGIC,
    TENSOR,
    ImageHead,
)

# ---- reader ----------------------------------------------------------------------------------------------

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
    """A kernel call that the firmware must have."""

    name: str
    id: int


@dataclass(frozen=True)
class ImageInfo:
    """The contents of an image, as plain data."""

    name: str
    target: str
    core: Core
    head: ImageHead
    inputs: tuple[ImageTensor, ...]
    outputs: tuple[ImageTensor, ...]
    kernels: tuple[ImageKernel, ...]
    methods: tuple["ImageInfo", ...] = ()  # further ones, each with its own kernels

    def arena_in(self, settings: Sequence[str]) -> str:
        """Names the allocator that provides the delegate's arena, by the names of a call's settings."""
        if "arena" in settings:
            return "planned memory"
        return "method allocator" if self.head.state_bytes or self.head.feeding else "temp allocator"

    @property
    def delegate_bytes(self) -> int:
        """Returns the bytes the delegate takes from the method allocator, if its memory is aligned to 8."""
        return HANDLE_BYTES[self.head.pointer_bytes] + self.head.ram_bytes

    @property
    def version(self) -> str:
        return f"{self.head.kernels // 100}.{self.head.kernels % 100}"


def is_image(data: bytes) -> bool:
    return data[:4] == MAGIC


def read_image(data: bytes, source: str) -> ImageInfo:
    """Parses an image; `source` names it in messages."""
    first = _read(data, source)
    places = [HEADER_STRIDE * (number + 1) for number in range(first.head.methods)]
    return replace(first, methods=tuple(_read(data[at:], f"a method of {source}") for at in places))


def _read(data: bytes, source: str) -> ImageInfo:
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
        raise CortadoError(f"{source} is not an image; expected a MODEL.cortado that `cortado compile --image` wrote")
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


# ---- text ------------------------------------------------------------------------------------------------

_FEEDING = ("whole", "row by row", "an endless stream of rows")


def image_as_json(info: ImageInfo) -> dict[str, Any]:
    head = info.head
    return {
        "name": info.name,
        "target": info.target,
        "core": info.core.name.lower(),
        "format": head.format,
        "kernels_version": info.version,
        "bytes": head.bytes,
        "arena_bytes": head.arena_bytes,
        "ram_bytes": head.ram_bytes,
        "state_bytes": head.state_bytes,
        "input_comes": _FEEDING[head.feeding] if head.feeding < len(_FEEDING) else "unknown",
        "stages": head.stages,
        "steps": head.steps,
        "inputs": [asdict(tensor) for tensor in info.inputs],
        "outputs": [asdict(tensor) for tensor in info.outputs],
        "kernels": [{"kernel": kernel.name, "number": f"{kernel.id:08x}"} for kernel in info.kernels],
        **({"methods": [image_as_json(one) for one in info.methods]} if info.methods else {}),
    }


def image_text(info: ImageInfo) -> str:
    head, data = info.head, image_as_json(info)
    rows = [
        ("image", f"{info.name} for {info.target}, format {head.format}, kernels of Cortado {info.version}"),
        ("size", f"{head.bytes:,} bytes; {head.ram_bytes:,} bytes of RAM for its tables"),
        ("arena", f"{head.arena_bytes:,} bytes" + (f", {head.state_bytes:,} of state" if head.state_bytes else "")),
        ("runs", f"{head.steps} steps in {head.stages} stages; inputs come {data['input_comes']}"),
        *((f"input {i}", _text_tensor(one)) for i, one in enumerate(info.inputs)),
        *((f"output {i}", _text_tensor(one)) for i, one in enumerate(info.outputs)),
        *(("kernel", f"{kernel.name} ({kernel.id:08x})") for kernel in info.kernels),
    ]
    text = "\n".join(f"{label:>9}  {text}" for label, text in rows)
    return "\n\n".join((text, *map(image_text, info.methods)))


def _text_tensor(tensor: ImageTensor) -> str:
    scale = "" if tensor.scale is None else f", scale {tensor.scale:.9g}, zero point {tensor.zero_point}"
    return f"{tensor.name}: {tensor.dtype} {list(tensor.shape)}, {tensor.bytes:,} bytes at {tensor.offset:,}{scale}"
