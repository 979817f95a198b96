"""Settings of Python and torch while Cortado works, one thread of it at a time."""

import gc
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch

from cortado.ir.patched import alone

OBJECTS = 50_000  # new objects that trigger a collection; Python's default is 700, and a graph has more


@contextmanager
def _plain_torch() -> Iterator[None]:
    """Undoes a default device and autocast if they are set; entering either mode changes what layers do."""
    with ExitStack() as stack:
        if torch.get_default_device() != torch.device("cpu"):
            stack.enter_context(torch.device("cpu"))
        if torch.is_autocast_enabled("cpu"):
            stack.enter_context(torch.autocast("cpu", enabled=False))
        yield


@contextmanager
def one_thread() -> Iterator[None]:
    """Runs torch on one thread, with its default settings: new tensors are float32 on the CPU, and nothing is cast
    automatically. The layers of networks for microcontrollers are small: threads would wait for each other most of the
    time."""
    with alone(), _plain_torch():
        threads, default = torch.get_num_threads(), torch.get_default_dtype()
        torch.set_num_threads(1)
        torch.set_default_dtype(torch.float32)
        try:
            yield
        finally:
            torch.set_num_threads(threads)
            torch.set_default_dtype(default)


_frozen: list[bool] = []  # [True] once it is known


def _frozen_before() -> bool:
    """Whether the caller has frozen existing objects (gc.freeze). Asking takes time in proportion to their number, so a
    positive answer is kept."""
    if not _frozen and gc.get_freeze_count() > 0:
        _frozen.append(True)
    return bool(_frozen)


@contextmanager
def few_collections() -> Iterator[None]:
    """Makes the garbage collector run less often inside the block: torch has a million objects, which every full
    collection would visit. Existing objects are frozen, unless the caller has done so; new cycles are still collected,
    in larger batches."""
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
