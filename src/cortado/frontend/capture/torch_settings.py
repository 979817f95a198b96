"""Settings of Python and torch while Cortado works, one thread of it at a time."""

import gc
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch

from cortado.ir.patched import alone

OBJECTS = 50_000  # made since the last collection before the next one; Python's own is 700, and a graph has more


@contextmanager
def _plain_torch() -> Iterator[None]:
    """Undoes a default device and autocast where there are such; entering either mode changes what layers do."""
    with ExitStack() as stack:
        if torch.get_default_device() != torch.device("cpu"):
            stack.enter_context(torch.device("cpu"))
        if torch.is_autocast_enabled("cpu"):
            stack.enter_context(torch.autocast("cpu", enabled=False))
        yield


@contextmanager
def one_thread() -> Iterator[None]:
    """Runs torch on one thread, as it is when nobody has changed it: new tensors are float32 on the CPU, and nothing is
    cast automatically. Networks for microcontrollers have small layers: threads would wait for one another most of
    the time."""
    with alone(), _plain_torch():
        threads, default = torch.get_num_threads(), torch.get_default_dtype()
        torch.set_num_threads(1)
        torch.set_default_dtype(torch.float32)
        try:
            yield
        finally:
            torch.set_num_threads(threads)
            torch.set_default_dtype(default)


_frozen: list[bool] = []  # once it is known


def _frozen_before() -> bool:
    """Whether the caller has left out what there was. The answer yes takes as long as there are objects: it is kept."""
    if not _frozen and gc.get_freeze_count() > 0:
        _frozen.append(True)
    return bool(_frozen)


@contextmanager
def few_collections() -> Iterator[None]:
    """Meanwhile the garbage collector runs seldom: torch is a million objects, and each of its long walks would look at
    them all. What there is already is left out, unless the caller has done that; cycles that are made meanwhile are
    found, in larger portions."""
    with alone():
        before, ours = gc.get_threshold(), not _frozen_before()
        if ours:
            gc.freeze()
        gc.set_threshold(max(before[0], OBJECTS) if before[0] else 0, *before[1:])
        try:
            yield
        finally:
            gc.set_threshold(*before)
            if ours:
                gc.unfreeze()
