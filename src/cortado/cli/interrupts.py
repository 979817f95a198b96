"""Ctrl-C: ends the process at once while there is nothing to clean up, and raises KeyboardInterrupt while there is.

This is the first module that a command runs, so it imports almost nothing: torch and numpy can't be interrupted while
they load, and turn a KeyboardInterrupt into unrelated errors.
"""

import os
import signal

INTERRUPTED = 130  # the convention of shells
_came: list[int] = []


def came() -> bool:
    """Returns whether Ctrl-C was pressed: it explains any later failure."""
    return bool(_came)


def end_at_once() -> None:
    """Makes Ctrl-C end this process immediately from now on; there is nothing to clean up."""
    _handle(_end)


def _end(number: int, frame: object) -> None:
    os.write(2, b"cortado: interrupted\n")
    os._exit(INTERRUPTED)


def _raise(number: int, frame: object) -> None:
    _came.append(number)
    raise KeyboardInterrupt


def _handle(how: object) -> None:
    """Installs a handler, unless the process ignores Ctrl-C, as a shell's background jobs do."""
    if signal.getsignal(signal.SIGINT) in (signal.default_int_handler, _end, _raise):
        signal.signal(signal.SIGINT, how)  # type: ignore[arg-type]


class Raised:
    """A context in which Ctrl-C raises KeyboardInterrupt, unless the process has its own handler."""

    def __enter__(self) -> None:
        if signal.getsignal(signal.SIGINT) is _end:
            _handle(_raise)

    def __exit__(self, *error: object) -> None:
        if signal.getsignal(signal.SIGINT) is _raise:
            _handle(_end)


class AtOnce:
    """A context inside `Raised` in which Ctrl-C ends the process: for imports, before there is anything to clean up."""

    def __enter__(self) -> None:
        self._ours = signal.getsignal(signal.SIGINT) is _raise
        if self._ours:
            _handle(_end)

    def __exit__(self, *error: object) -> None:
        if self._ours:
            _handle(_raise)
