"""The structures of cortado_image.h, as Python packs them."""

import struct
from typing import NamedTuple

from cortado.base.errors import CortadoError
from cortado.base.target import CortexMTargetConfig

MAGIC, FORMAT = b"CTDO", 1
ELEMENTS = ("int8", "int16", "int32", "uint8", "bool", "float32")
HEADER = struct.Struct("<4sHBBIIHBB8HBB9H8I")
HEADER_STRIDE = 96  # bytes between the headers of methods: an image is aligned to 16
TENSOR = struct.Struct("<IIfIIhBB")
TENSOR_NAME, TENSOR_SHAPE = 12, 16  # the offsets of these fields in TENSOR
STATE = struct.Struct("<IIII")
STATE_FROM = 8
STAGE = struct.Struct("<HHBx")
LAST_WORD = 0xFFFF  # the largest word offset of a table that a header can hold
CRC_AT = 12  # its offset; it covers all bytes after itself
COUNTER_BYTES = 16  # cortado_state_t
HANDLE_BYTES = {4: 48, 8: 96}  # of the delegate, by pointer size (kernels/executorch/delegate.cpp)

_IN_WORDS = ("tensor", "state", "thunk", "call", "stage")


Data = bytes


class ImageHead(NamedTuple):
    """cortado_image_t."""

    magic: bytes
    format: int
    pointer_bytes: int
    core: int
    bytes: int
    crc: int
    kernels: int
    inputs: int
    outputs: int
    resets: int
    moves: int
    thunks: int
    stages: int
    ports: int
    steps: int
    longest: int
    widest: int
    feeding: int
    methods: int
    window: int
    hop: int
    first: int
    warm_up: int
    tensor: int
    state: int
    thunk: int
    call: int
    stage: int
    arena_bytes: int
    state_bytes: int
    ram_bytes: int
    name: int
    target: int
    port: int
    step: int
    tables_bytes: int

    def pack(self) -> Data:
        """Packs the header, in which the places of tables are counted in words."""
        return HEADER.pack(*self._replace(**{name: getattr(self, name) // 4 for name in _IN_WORDS}))

    @staticmethod
    def unpack(data: Data) -> "ImageHead":
        stored = ImageHead(*HEADER.unpack_from(data))
        return stored._replace(**{name: getattr(stored, name) * 4 for name in _IN_WORDS})


def check_one_core(target: CortexMTargetConfig, image: bool) -> None:
    """Refuses a target with several cores before any work is done for an image."""
    if image and len(target.cores) != 1:
        raise CortadoError(
            f"an image is for one kind of core, and {target.target_string} stands for several; name one, as in "
            "--target cortex-m55"
        )
