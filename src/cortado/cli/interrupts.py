"""Ctrl-C: at once while there is nothing to tidy up, as KeyboardInterrupt while there is.

This is the first that a command runs, so it imports next to nothing: torch and numpy can't be stopped while they load,
and a KeyboardInterrupt in them comes out as whatever they make of it.
"""

import os
import signal

INTERRUPTED = 130  # as shells say it
_came: list[int] = []


def came() -> bool:
    """Whether Ctrl-C was pressed: what failed since then failed for it."""
    return bool(_came)


def end_at_once() -> None:
    """From now on Ctrl-C ends this process without another word; nothing is there that it would leave behind."""
    _handle(_end)


def _end(number: int, frame: object) -> None:
    os.write(2, b"cortado: interrupted\n")
    os._exit(INTERRUPTED)


def _raise(number: int, frame: object) -> None:
    _came.append(number)
    raise KeyboardInterrupt


def _handle(how: object) -> None:
    """A process that ignores it, as a shell's background jobs do, goes on ignoring it."""
    if signal.getsignal(signal.SIGINT) in (signal.default_int_handler, _end, _raise):
        signal.signal(signal.SIGINT, how)  # type: ignore[arg-type]


class Raised:
    """Inside, Ctrl-C is a KeyboardInterrupt; in a process whose Ctrl-C is not ours, whatever it was."""

    def __enter__(self) -> None:
        if signal.getsignal(signal.SIGINT) is _end:
            _handle(_raise)

    def __exit__(self, *error: object) -> None:
        if signal.getsignal(signal.SIGINT) is _raise:
            _handle(_end)


class AtOnce:
    """Inside `Raised`: for imports, before there is anything to tidy up."""

    def __enter__(self) -> None:
        self._ours = signal.getsignal(signal.SIGINT) is _raise
        if self._ours:
            _handle(_end)

    def __exit__(self, *error: object) -> None:
        if self._ours:
            _handle(_raise)
