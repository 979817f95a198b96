"""The structures of cortado_image.h, as Python packs them."""

import struct
from typing import NamedTuple

MAGIC, FORMAT = b"CTDO", 1
ELEMENTS = ("int8", "int16", "int32", "uint8", "bool", "float32")
HEADER = struct.Struct("<4sHBBIIHBBIIIIIIIHHIIIIIHHHHIHHHHHHHH")
TENSOR = struct.Struct("<IIfiIIBBxx")
TENSOR_NAME, TENSOR_SHAPE = 16, 20  # where they stand in it
STATE = struct.Struct("<IIII")
STATE_FROM = 8
STAGE = struct.Struct("<HHBx")
CRC_AT = 12  # where it stands; it is that of what comes behind
COUNTER_BYTES = 16  # cortado_state_t
HANDLE_BYTES = {4: 44, 8: 88}  # of the delegate, by those of a pointer (kernels/executorch/delegate.cpp)


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
    arena_bytes: int
    state_bytes: int
    ram_bytes: int
    name: int
    target: int
    tensor: int
    state: int
    resets: int
    moves: int
    thunk: int
    call: int
    stage: int
    port: int
    step: int
    thunks: int
    stages: int
    ports: int
    steps: int
    tables_bytes: int
    longest: int
    widest: int
    feeding: int
    window: int
    hop: int
    first: int
    warm_up: int
    reserved: int = 0

    def pack(self) -> Data:
        return HEADER.pack(*self)

    @staticmethod
    def unpack(data: Data) -> "ImageHead":
        return ImageHead(*HEADER.unpack_from(data))
