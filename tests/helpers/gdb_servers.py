"""GDB servers for tests: an emulator's own on any of its boards, and one in front of it that misbehaves."""

import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from cortado.run.toolchain import Tool, require


@dataclass(frozen=True)
class Chip:
    """A board that the emulator has, and its memories as they are said on the command line."""

    machine: str
    target: str
    flash: str
    ram: str


CHIPS = (
    Chip("microbit", "cortex-m0", "0x00000000:256K", "0x20000000:16K"),
    Chip("stm32vldiscovery", "cortex-m3", "0x08000000:128K", "0x20000000:8K"),
    Chip("lm3s6965evb", "cortex-m3", "0x00000000:256K", "0x20000000:64K"),
    Chip("mps2-an385", "cortex-m3", "0x00000000:4M", "0x20000000:4M"),
    Chip("netduinoplus2", "cortex-m4", "0x08000000:1M", "0x20000000:128K"),
    Chip("mps2-an386", "cortex-m4", "0x00000000:4M", "0x20000000:4M"),
    Chip("mps2-an500", "cortex-m7", "0x00000000:4M", "0x20000000:4M"),
    Chip("mps2-an505", "cortex-m33", "0x10000000:4M", "0x38000000:4M"),
    Chip("mps3-an547", "cortex-m55", "0x11000000:2M", "0x31000000:1M"),
)


def free_port() -> int:
    with socket.create_server(("localhost", 0)) as server:
        port: int = server.getsockname()[1]
        return port


@contextmanager
def emulated(machine: str) -> Iterator[int]:
    """The port of a board's server; the board is halted."""
    port = free_port()
    command = [str(require(Tool.QEMU)), "-M", machine, "-display", "none", "-serial", "none", "-monitor", "none"]
    child = subprocess.Popen([*command, "-S", "-gdb", f"tcp:localhost:{port}"], stderr=subprocess.DEVNULL)
    try:
        _wait(port)
        yield port
    finally:
        child.kill()
        child.wait()


def _wait(port: int) -> None:
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("localhost", port)) == 0:
                break
        time.sleep(0.05)
    time.sleep(0.2)  # the emulator takes one connection at a time, and has to see that this one ended


@contextmanager
def between(
    port: int, *, drop_after: int | None = None, silent_at: bytes | None = None, delay: float = 0.0
) -> Iterator[int]:
    """A server in front of another: it hangs up after so many bytes of answers, falls silent when it is asked this, or
    keeps each answer back for a while."""
    with socket.create_server(("localhost", 0)) as server:
        passing = Passing(drop_after, delay)
        threading.Thread(target=_serve, args=(server, port, passing, silent_at), daemon=True).start()
        yield server.getsockname()[1]
        passing.over.set()
        passing.silent.clear()


@dataclass(frozen=True)
class Passing:
    """How answers are passed on."""

    drop_after: int | None = None
    delay: float = 0.0
    silent: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)


def _serve(server: socket.socket, port: int, passing: Passing, silent_at: bytes | None) -> None:
    with suppress(OSError):
        client, _ = server.accept()
        behind = socket.create_connection(("localhost", port))
        for one in (client, behind):  # packets are small, and each waits for the one before
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        asked = Passing(silent=passing.silent)
        threading.Thread(target=_pass_on, args=(client, behind, asked, silent_at), daemon=True).start()
        _pass_on(behind, client, passing)


def _pass_on(source: socket.socket, sink: socket.socket, passing: Passing, silent_at: bytes | None = None) -> None:
    passed = 0
    with suppress(OSError):
        while data := source.recv(65536):
            time.sleep(passing.delay)
            if silent_at is not None and silent_at in data:
                passing.silent.set()
            if passing.silent.is_set():
                passing.over.wait()
                break
            sink.sendall(data)
            passed += len(data)
            if passing.drop_after is not None and passed > passing.drop_after:
                break
    for one in (source, sink):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
            one.close()


@contextmanager
def silent_server() -> Iterator[int]:
    """It takes connections, and says nothing."""
    with socket.create_server(("localhost", 0)) as server:
        kept: list[socket.socket] = []

        def take() -> None:
            with suppress(OSError):
                while True:
                    kept.append(server.accept()[0])

        threading.Thread(target=take, daemon=True).start()
        yield server.getsockname()[1]
        for one in kept:
            one.close()
