"""The device of this example on an emulated board, and what talks to it over its serial port.

python device.py firmware.elf first.cortado next.cortado
"""

import json
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO

BLOCK = 256  # what a packet may hold
TRIES = 5


class Refused(Exception):
    """What the firmware says of an update that it does not take."""


class Device:
    """QEMU's mps3-an547 with the firmware: its serial port here, its reset line behind a socket."""

    def __init__(self, firmware: Path) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="cortado-")
        control = f"{self._folder.name}/control"
        command = ["qemu-system-arm", "-M", "mps3-an547", "-kernel", str(firmware), "-display", "none"]
        command += ["-monitor", "none", "-serial", "stdio", "-qmp", f"unix:{control},server=on,wait=off"]
        self._board = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._board.stdin is not None
        assert self._board.stdout is not None
        self._to: IO[bytes] = self._board.stdin
        self._from: IO[bytes] = self._board.stdout
        self.pictures = 0  # that the model has read, as its state says
        self._expect_start()
        self._control = socket.socket(socket.AF_UNIX)
        self._control.connect(control)
        self._order("qmp_capabilities")

    def __enter__(self) -> "Device":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._board.kill()
        self._board.wait()
        self._to.close()
        self._from.close()
        self._control.close()
        self._folder.cleanup()

    def _order(self, what: str) -> None:
        self._control.sendall(json.dumps({"execute": what}).encode() + b"\n")
        answer = b""
        while b'"return"' not in answer:
            answer += self._control.recv(4096)

    def _expect_start(self) -> None:
        while self._read(1) != b">":
            pass

    def _read(self, count: int) -> bytes:
        found = self._from.read(count)
        if len(found) != count:
            raise EOFError("the board has ended")
        return found

    def reset(self) -> None:
        """Power is cut and comes back: RAM is lost, flash is not."""
        self._order("system_reset")
        self._expect_start()

    def send(self, data: bytes) -> None:
        """Bytes as they are."""
        self._to.write(data)
        self._to.flush()

    def answer(self) -> bytes | None:
        """What is said to a packet; None: it was not complete."""
        kind, length = self._read(1), self._read(1)[0]
        text = self._read(length)
        if kind == b"!":
            raise Refused(text.decode())
        return None if kind == b"?" else text

    def ask(self, kind: str, data: bytes = b"") -> bytes:
        for _ in range(TRIES):
            self.send(packet(kind, data))
            found = self.answer()
            if found is not None:
                return found
        raise TimeoutError(f"no packet of {TRIES} came through")

    def version(self) -> int:
        return int.from_bytes(self.ask("V"), "little")

    def run(self, codes: bytes) -> bytes:
        """The codes of the scores."""
        found = self.ask("R", codes)
        self.pictures = int.from_bytes(found[-4:], "little")
        return found[:-4]

    def save(self) -> None:
        self.ask("S")

    def begin(self, image: bytes, version: int) -> None:
        self.ask("B", struct.pack("<II", len(image), version))

    def update(self, image: bytes, version: int) -> str:
        """Returns what became of the state."""
        self.begin(image, version)
        for block in blocks(image):
            self.ask("D", block)
        return self.ask("E").decode()


def packet(kind: str, data: bytes) -> bytes:
    return kind.encode() + struct.pack("<H", len(data)) + data


def blocks(image: bytes) -> Iterator[bytes]:
    return (image[at : at + BLOCK] for at in range(0, len(image), BLOCK))


def main(firmware: str, first: str, following: str) -> None:
    codes = bytes(range(64))
    with Device(Path(firmware)) as device:
        for version, path in ((1, first), (2, following)):
            image = Path(path).read_bytes()
            begun = time.monotonic()
            state = device.update(image, version)
            print(f"{path}: {len(image)} bytes in {time.monotonic() - begun:.1f} s, {state}")
            scores = list(struct.unpack("10b", device.run(codes)))
            print(f"version {device.version()} gives {scores} for picture {device.pictures}")
        device.save()
        device.reset()
        device.run(codes)
        print(f"after a reset: version {device.version()}, picture {device.pictures}")


if __name__ == "__main__":
    main(*sys.argv[1:])
