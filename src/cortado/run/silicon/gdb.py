"""GDB as a child process with its machine interface: for any debug probe with a GDB server, and for the emulator's."""

import math
import queue
import re
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from cortado.base.errors import CortadoError
from cortado.run.toolchain import Tool, require

ANSWER_SECONDS = 20.0  # for requests that a server answers at once
_LOST = re.compile(r"Remote connection closed|Remote communication error|=thread-group-exited|Connection reset")
_MESSAGE = re.compile(r'msg="((?:[^"\\]|\\.)*)"')
_CONTENTS = re.compile(r'contents="([0-9a-f]*)"')
_VALUE = re.compile(r'value="((?:[^"\\]|\\.)*)"')


class ProbeLost(CortadoError):
    """The server, or the probe behind it, is gone or does not answer."""


class GdbRefused(CortadoError):
    """GDB or the server answered with an error."""


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: {"n": "\n", "t": "\t"}.get(found[1], found[1]), text)


class Gdb:
    """A debugger connected to one server. Every wait ends after `most` seconds, if given."""

    def __init__(self, most: float | None = None) -> None:
        self.most = math.inf if most is None else most
        command = [str(require(Tool.GDB)), "--nx", "--quiet", "--interpreter=mi3"]
        self.child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            errors="replace",
            start_new_session=True,  # Ctrl-C must only reach this process; GDB exits when its input closes
        )
        self.lines: queue.Queue[str | None] = queue.Queue()
        self.number = 0
        self.stops: list[str] = []
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        for setting in ("mi-async on", "confirm off", "pagination off", "remotetimeout 2", "tcp connect-timeout 5"):
            self.command(f"-gdb-set {setting}")
        self.command("-gdb-set mem inaccessible-by-default off")

    def __enter__(self) -> "Gdb":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.child.kill()
        self.child.wait()
        self.reader.join(5.0)  # it ends with the child's output
        for pipe in (self.child.stdin, self.child.stdout):
            if pipe is not None:
                with suppress(OSError):  # unsent commands
                    pipe.close()

    def _read(self) -> None:
        assert self.child.stdout is not None
        for line in self.child.stdout:
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def _line(self, until: float, doing: str) -> str:
        try:
            line = self.lines.get(timeout=max(until - time.monotonic(), 0.001))
        except queue.Empty:
            raise ProbeLost(f"the GDB server did not answer in time ({doing}; --timeout says how long)") from None
        if line is None or _LOST.search(line):
            raise ProbeLost(f"the connection to the GDB server was lost ({doing})")
        if line.startswith("*stopped"):
            self.stops.append(line)
        return line

    def command(self, text: str, seconds: float = ANSWER_SECONDS, doing: str = "", silence: float | None = None) -> str:
        """Sends a command and returns GDB's answer with everything it printed meanwhile. It can take `seconds`, and be
        silent for `silence`."""
        self.number += 1
        token, what = str(self.number), doing or text.split(" ")[0].lstrip("-")
        assert self.child.stdin is not None
        try:
            self.child.stdin.write(f"{token}{text}\n")
            self.child.stdin.flush()
        except OSError:
            raise ProbeLost(f"GDB ended ({what})") from None
        said, until = [], time.monotonic() + min(seconds, self.most)
        while True:
            line = self._line(until if silence is None else min(until, time.monotonic() + silence), what)
            said.append(line)
            if line.startswith(f"{token}^error"):
                found = _MESSAGE.search(line)
                raise GdbRefused(_unquoted(found[1]) if found else line)
            if line.startswith(f"{token}^"):
                return "\n".join(said)

    def console(self, text: str, seconds: float = ANSWER_SECONDS, doing: str = "") -> str:
        """Runs a console command, as a user would type it."""
        quoted = text.replace("\\", "\\\\").replace('"', '\\"')
        return self.command(f'-interpreter-exec console "{quoted}"', seconds, doing or text)

    # ---- the chip ---------------------------------------------------------------------------------------------------

    def connect(self, host: str, port: int) -> None:
        try:
            self.command(f"-target-select extended-remote {host}:{port}", 15.0, "connecting")
        except GdbRefused as error:
            raise ProbeLost(
                f"no GDB server answers at {host}:{port} ({error}); start the probe's (docs/hardware.md), or name "
                "another with --on gdb:HOST:PORT"
            ) from None
        self.command("-gdb-set remotetimeout 20")  # erasing a sector takes time
        self.stops.clear()

    def open(self, elf: Path) -> None:
        quoted = str(elf).replace("\\", "\\\\").replace('"', '\\"')
        self.command(f'-file-exec-and-symbols "{quoted}"')

    def read(self, address: int, count: int) -> bytes:
        answer = self.command(f"-data-read-memory-bytes {address:#x} {count}", doing=f"reading {address:#010x}")
        data = bytes.fromhex("".join(_CONTENTS.findall(answer)))
        if len(data) != count:
            raise ProbeLost(f"{len(data)} bytes were read at {address:#010x}, expected {count}")
        return data

    def word(self, address: int) -> int:
        return int.from_bytes(self.read(address, 4), "little")

    def write(self, address: int, data: bytes) -> None:
        if data:
            doing = f"writing {address:#010x}"
            self.command(f"-data-write-memory-bytes {address:#x} {data.hex()}", 5 * ANSWER_SECONDS, doing)

    def register(self, name: str) -> int | None:
        """Returns the value of a register; None if there is no such register."""
        try:
            found = _VALUE.search(self.command(f'-data-evaluate-expression "(unsigned int)${name}"'))
        except GdbRefused:
            return None
        number = re.match(r"\d+", found[1]) if found else None
        return int(number[0]) if number else None

    def resume(self) -> None:
        self.stops.clear()
        self.command("-exec-continue", doing="continuing")

    def stopped(self, seconds: float) -> bool:
        """Waits for the chip to stop; returns False if it does not."""
        until = time.monotonic() + seconds
        while not self.stops:
            try:
                self._line(until, "waiting for the chip")
            except ProbeLost:
                if time.monotonic() < until:
                    raise
                return False
        return True

    def interrupt(self) -> bool:
        """Halts the chip, and returns whether that was possible."""
        try:
            self.command("-exec-interrupt --all")
            return self.stopped(ANSWER_SECONDS)
        except CortadoError:
            return False
