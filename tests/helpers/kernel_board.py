"""Runs the kernel calls of a test on an emulated board, every load and store watched."""

import functools
import re
import struct
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cortado.base.system import DEVICE, KERNEL_FOLDERS
from cortado.base.target import BUNDLE_FLAGS, CortexM, CortexMTargetConfig, Isa, from_target_string
from cortado.run import toolchain
from cortado.run.board import INPUT_HEADER, build_firmware, find_board
from cortado.run.elf import load_image
from cortado.run.qemu import run_elf
from helpers.kernels import HEADER, WARNINGS, Calls, Ref, kernel_sources

SERVER = Path(__file__).parent / "kernel_server.c"
READ_WATCH = Path(__file__).parent / "read_watch.c"

SMALL_CORES = (CortexM.M0, CortexM.M0PLUS, CortexM.M23)
GUARD = 16  # bytes between two buffers that no kernel may touch
FILL = 0xC3
ARGUMENTS = 7  # of a call, beside one float
CALL_BYTES = 4 * (ARGUMENTS + 3)


@dataclass(frozen=True)
class Firmware:
    """The server built for one target: where its memory image lies and which kernels it has."""

    elf: Path
    symbols: dict[str, int]
    table: tuple[str, ...]
    hard_float: bool


def kernel_symbols(target: CortexMTargetConfig) -> tuple[str, ...]:
    """Every function of the public header that a core with this instruction set has."""
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.S)
    names = re.findall(r"^(?:void|int32_t) (cortado_\w+)\(", text, flags=re.M)
    missing = {Isa.SCALAR: ("__dsp", "__mve"), Isa.DSP: ("__scalar", "__mve"), Isa.MVE: ("__scalar",)}[target.isas[0]]
    if target.cpu in SMALL_CORES:
        missing += ("add_s8__scalar",)
    else:  # layers of 16-bit codes have kernels for small cores, which others don't build
        missing += tuple(f"{layer}_s16__scalar" for layer in ("conv1x1", "conv2d", "linear", "depthwise"))
    return tuple(name for name in names if not any(part in name for part in missing))


@functools.cache
def firmware(target: CortexMTargetConfig, clang: bool) -> Firmware:
    """The server for one target, cached by content."""
    table = kernel_symbols(target)
    machine = target.compiler_flags()
    flags = [*machine, *WARNINGS, *BUNDLE_FLAGS]  # as bundles are built
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel_table.c"
        declarations = "".join(f"extern void {name}(void);\n" for name in table)
        entries = "".join(f"    {name},\n" for name in table)
        source.write_text(f"{declarations}void (*const kernel_table[])(void) = {{\n{entries}}};\n")
        elf = build_firmware(
            find_board(target.machine), [*kernel_sources(assembly=True), SERVER, source], KERNEL_FOLDERS, flags,
            "kernel-server", harness=False, compiler=toolchain.arm_clang() if clang else None,
            machine_flags=machine)  # fmt: skip
    symbols = {symbol.name: symbol.address for symbol in load_image(elf).symbols}
    return Firmware(elf, symbols, table, "-mfloat-abi=hard" in machine)


@dataclass
class _Image:
    """The memory image for one run: where each buffer lies and what the file holds."""

    base: int
    places: list[int]
    data: bytearray


def _base(server: Firmware) -> int:
    """Where the image lies: where the emulator puts the input."""
    return server.symbols["cortado_input"] + INPUT_HEADER


def _lay_out(calls: Calls, server: Firmware) -> _Image:
    base = _base(server)
    sizes = [len(block.layout(4, lambda ref: 0)) for block in calls.blocks]
    at, places = 8 + CALL_BYTES * len(calls.calls), []
    for number, (block, size) in enumerate(zip(calls.blocks, sizes, strict=True)):
        at += GUARD
        # Words are aligned; plain bytes deliberately lie at any address.
        at += -at % 4 if block.values or block.words else (number - at) % 4
        places.append(at)
        at += size
    image = _Image(base, places, bytearray([FILL]) * (at + GUARD))
    for block, place in zip(calls.blocks, places, strict=True):
        data = block.layout(4, lambda ref: base + places[ref.block] + ref.offset)
        image.data[place : place + len(data)] = data
    words = [len(image.data), len(calls.calls)]
    for symbol, args in calls.calls:
        floats = [_argument(arg, image) for arg in args if isinstance(arg, float) and server.hard_float]
        others = [_argument(arg, image) for arg in args if not (isinstance(arg, float) and server.hard_float)]
        words += [server.table.index(symbol), *others, *[0] * (ARGUMENTS - len(others)), *(floats or [0]), 0]
    image.data[: 4 * len(words)] = b"".join(word.to_bytes(4, "little") for word in words)
    return image


def _argument(arg: Any, image: _Image) -> int:
    if isinstance(arg, Ref):
        return image.base + image.places[arg.block] + arg.offset
    if isinstance(arg, float):
        return int.from_bytes(struct.pack("<f", arg), "little")
    return 0 if arg is None else int(arg) & 0xFFFFFFFF


def _server_ranges(server: Firmware, calls: Calls, image: _Image) -> Iterator[tuple[int, int]]:
    """What may be read: the calls themselves, and each buffer."""
    yield _base(server), _base(server) + 8 + CALL_BYTES * len(calls.calls)
    for block, place in zip(calls.blocks, image.places, strict=True):
        size = len(block.layout(4, lambda ref: 0))
        if size:
            yield image.base + place, image.base + place + size


def run_watched(calls: Calls, target: str, clang: bool = False) -> None:
    """Runs the calls on a board under a plugin that looks at every load, and fails if one is outside the buffers."""
    config = from_target_string(target)
    server = firmware(config, clang)
    image = _lay_out(calls, server)
    ranges = list(_server_ranges(server, calls, image))
    head = [server.symbols["cortado_marker_begin"], server.symbols["cortado_marker_end"], image.base,
            image.base + len(image.data), len(ranges)]  # fmt: skip
    plugin = toolchain.compile_shared([READ_WATCH], [DEVICE / "plugin"], ["-O2", "-Wall"], "read-watch")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        words = [*head, *(word for pair in ranges for word in pair)]
        (folder / "config").write_bytes(b"".join(word.to_bytes(8, "little") for word in words))
        option = f"{plugin},config={folder / 'config'}"
        board = find_board(config.machine)
        result = run_elf(server.elf, board, bytes(image.data), 600.0, arguments=["-plugin", option])
    _read_back(calls, image, result.said.outputs)
    found = re.search(r"^loads (\d+) stray (\d+)$", result.errors, flags=re.M)
    assert found is not None, "the plugin wrote no report"
    assert int(found[1]) > 0, "the plugin saw no load at all"
    assert int(found[2]) == 0, f"a kernel read outside its buffers: {result.errors}"


def _read_back(calls: Calls, image: _Image, result: bytes) -> None:
    """Gives each buffer its bytes, and checks that nothing between the buffers was written."""
    previous = 8 + CALL_BYTES * len(calls.calls)
    ends = range(8 + CALL_BYTES, previous + 1, CALL_BYTES)
    calls.results = [int.from_bytes(result[end - 4 : end], "little", signed=True) for end in ends]
    for block, place in zip(calls.blocks, image.places, strict=True):
        assert result[previous:place] == image.data[previous:place], "a kernel wrote between two buffers"
        previous = place + len(block.layout(4, lambda ref: 0))
        block.result = result[place:previous]
    assert result[previous:] == image.data[previous:], "a kernel wrote past the last buffer"
