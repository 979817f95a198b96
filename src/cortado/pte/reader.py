"""Reads a .pte without torch: the file, its segments and constants, and its methods."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from cortado.base.errors import CortadoError
from cortado.pte.flatbuffer import FlatBuffer, FlatTable, Width
from cortado.pte.info import ConstantStorage, ConstantUse, DataSegment, PteConstant, PteInfo, Storage, TensorInfo
from cortado.pte.method import MethodPlan, read_plan

_IDENTIFIER = b"ET12"
_BUNDLE_IDENTIFIER = b"BP08"
_EXTENDED_MAGIC = b"eh00"


def read_pte(data: bytes, name: str = "the file") -> PteInfo:
    """Reads the .pte in `data`; error messages call it `name`."""
    file = FlatBuffer(data, name)
    segment_base = _read_header(file)
    program = FlatTable(file, file.target(0), "Program")
    storage = _read_storage(program, segment_base)
    plans = [read_plan(plan, storage) for plan in program.tables("execution_plan", "ExecutionPlan")]
    names = [plan.method.name for plan in plans]
    if not names:
        file.fail("it has no methods", program.at)
    if len(set(names)) < len(names):
        file.fail(f"two of its methods have the same name, {Counter(names).most_common(1)[0][0]!r}", program.at)
    return PteInfo(
        size=len(data),
        program_size=file.size,
        version=program.number("version", Width.U32),
        methods=tuple(plan.method for plan in plans),
        constants=_join_uses(storage, plans),
        segments=storage.segments,
        metadata=next((plan.metadata for plan in plans if plan.metadata is not None), None),
    )


def read_pte_file(path: Path) -> PteInfo:
    """Reads the .pte at `path`."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CortadoError(f"can't read {path}: {error.strerror}; give the path of a .pte file") from error
    return read_pte(data, str(path))


def _read_header(file: FlatBuffer) -> int:
    """Limits `file` to the FlatBuffer; returns where the segments start, or 0 without an extended header."""
    data = file.data
    if len(data) < 8:
        file.fail(f"it has {len(data)} bytes, and the header alone needs 8", len(data))
    if data[4:8] == _BUNDLE_IDENTIFIER:
        file.fail("it is a bundled program (.bpte); give the .pte it was made from", 4)
    if data[4:8] != _IDENTIFIER:
        file.fail(f"found the identifier {data[4:8]!r}, expected {_IDENTIFIER!r}", 4)
    if data[8:12] != _EXTENDED_MAGIC:
        return 0
    length = file.number(12, Width.U32)
    if length < 24:
        file.fail(f"the extended header is {length} bytes long, expected at least 24", 12)
    program_size, base = file.number(16, Width.U64), file.number(24, Width.U64)
    segment_size = file.number(32, Width.U64) if length >= 32 else 0
    if program_size > len(data):
        file.fail(f"the program is {program_size} bytes long and the file {len(data)}: it is cut off", 16)
    if base + segment_size > len(data):
        file.fail(f"the data ends at byte {base + segment_size} of a file of {len(data)}: it is cut off", 24)
    file.limit(program_size)
    return base


def _read_storage(program: FlatTable, base: int) -> Storage:
    segments = tuple(_read_segments(program, base))
    states = program.tables("mutable_data_segments", "SubsegmentOffsets")
    blobs = program.tables("backend_delegate_data", "BackendDelegateInlineData")
    return Storage(
        segments=segments,
        constants=_read_constants(program, segments),
        initial_states=tuple(_read_rooms(table, segments) for table in states),
        delegate_blobs=tuple(ConstantStorage(*table.byte_range("data")) for table in blobs),
    )


def _read_segments(program: FlatTable, base: int) -> Iterator[DataSegment]:
    available = len(program.file.data) - base
    for table in program.tables("segments", "DataSegment"):
        offset, size = table.number("offset", Width.U64), table.number("size", Width.U64)
        if base == 0 and size > 0:
            table.file.fail("it has a data segment, but no header says where the data starts", table.at)
        if offset + size > available:
            table.file.fail(f"a data segment ends {offset + size - available} bytes after the file's end", table.at)
        yield DataSegment(base + offset, size)


def _read_constants(program: FlatTable, segments: tuple[DataSegment, ...]) -> tuple[ConstantStorage, ...]:
    table = program.table("constant_segment", "SubsegmentOffsets")
    rooms = _read_rooms(table, segments) if table is not None else ()
    if rooms:
        return rooms
    # Files from before 2024-09 have each constant in the FlatBuffer itself.
    buffers = program.tables("constant_buffer", "Buffer")
    return tuple(ConstantStorage(buffer.reference("storage") or 0, buffer.byte_count("storage")) for buffer in buffers)


def _read_rooms(table: FlatTable, segments: tuple[DataSegment, ...]) -> tuple[ConstantStorage, ...]:
    """Returns each tensor's range, from its offset to the next one's; the last extends to the end of the segment."""
    offsets = table.numbers("offsets", Width.U64)
    if not offsets:
        return ()
    segment = segments[table.index("segment_index", len(segments), "segment", Width.U32)]
    ends = (*offsets[1:], segment.size)
    for i, (start, end) in enumerate(zip(offsets, ends, strict=True)):
        if start > end:
            table.file.fail(f"constant {i} starts at byte {start} of its segment and ends at {end}", table.at)
    return tuple(ConstantStorage(segment.offset + start, end - start) for start, end in zip(offsets, ends, strict=True))


def _join_uses(storage: Storage, plans: list[MethodPlan]) -> tuple[PteConstant, ...]:
    """Returns the constants with their readers, and with the type of a tensor that uses them. Number 0 is never a
    constant."""
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
        PteConstant(
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
