"""Networks by the thousand, on all cores; what fails is made small and written as a program of its own."""

import os
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from fuzz.draw import draw_recipe
from fuzz.journal import Journal, totals
from fuzz.oracles import Choices, Kind
from fuzz.outcome import Outcome, Places, check_seeds
from fuzz.shrink import shrink, write_repro

TOGETHER = 8  # networks that share one program on this machine
MOST_SHRUNK = 12
_CHUNKS_PER_PROCESS = 25  # torch keeps what it has traced


@dataclass(frozen=True)
class Wanted:
    """How much: networks on this machine, on boards and as a .pte, from a first seed on."""

    first: int
    networks: int
    boards: int
    ptes: int
    jobs: int

    def places(self, seed: int) -> Places:
        return Places(board=seed % 8 == 0, pte=seed % 3 != 0, interrupts=seed % 24 == 0)

    def enough(self, lines: Sequence[dict[str, Any]]) -> bool:
        host, pte = (sum(line[kind] for line in lines) for kind in ("host", "pte"))
        return host >= self.networks and pte >= self.ptes and sum(bool(line["board"]) for line in lines) >= self.boards

    def chunks(self, done: set[int]) -> Iterator[list[int]]:
        seed = self.first
        while True:
            chunk = [number for number in range(seed, seed + TOGETHER) if number not in done]
            seed += TOGETHER
            if chunk:
                yield chunk


def work(wanted: Wanted, seeds: list[int]) -> list[dict[str, Any]]:
    """What a worker does with a chunk."""
    warnings.simplefilter("ignore")  # torch has much to say about views and paddings
    checked = seeds[0] // TOGETHER % 2 == 1
    return [outcome.as_json() for outcome in check_seeds(seeds, wanted.places, checked)]


def run(wanted: Wanted, journal: Journal) -> dict[str, Any]:
    """Goes on until enough is done; returns the totals."""
    chunks = wanted.chunks(journal.seeds)
    start, before = time.monotonic(), len(journal.lines)
    pending: dict[Future[list[dict[str, Any]]], list[int]] = {}
    while pending or not wanted.enough(journal.lines):
        pool = _pool(wanted)
        try:
            while pending or not wanted.enough(journal.lines):
                while len(pending) < wanted.jobs + 1 and not wanted.enough(journal.lines):
                    chunk = next(chunks)
                    pending[pool.submit(work, wanted, chunk)] = chunk
                done, _ = wait(pending, return_when=FIRST_COMPLETED)
                for future in done:
                    journal.add(future.result())
                    del pending[future]
                _show(journal, start, before)
        except BrokenProcessPool:
            journal.add(_died(list(pending.values())))
            pending.clear()
        finally:
            pool.shutdown(cancel_futures=True)
    return totals(journal.lines)


def _pool(wanted: Wanted) -> ProcessPoolExecutor:
    os.environ["OMP_NUM_THREADS"] = "1"  # before the workers import torch
    return ProcessPoolExecutor(wanted.jobs, mp_context=get_context("spawn"), max_tasks_per_child=_CHUNKS_PER_PROCESS)


def _died(chunks: list[list[int]]) -> list[dict[str, Any]]:
    """A worker that the system ended took its chunk with it."""
    what = "the process that compiled it, or a neighbour in its chunk, was ended by the system"
    return [Outcome(seed, kind=Kind.CRASH.name, what=what).as_json() for chunk in chunks for seed in chunk]


def _show(journal: Journal, start: float, before: int) -> None:
    lines = journal.lines
    bugs = sum(bool(line["kind"]) for line in lines)
    minutes = (time.monotonic() - start) / 60
    rate = (len(lines) - before) / minutes if minutes else 0.0
    print(
        f"{len(lines)} networks: {sum(line['host'] for line in lines)} on this machine, "
        f"{sum(bool(line['board']) for line in lines)} on boards, {sum(line['pte'] for line in lines)} .pte, "
        f"{sum(bool(line['refused']) for line in lines)} refused, {bugs} bugs; {rate:.0f} a minute",
        flush=True,
    )


def write_repros(bugs: Sequence[dict[str, Any]], folder: Path) -> list[Path]:
    """One file for each kind of failure and message, made small; a few at most."""
    warnings.simplefilter("ignore")
    distinct = {(bug["kind"], bug["what"][:60]): bug["seed"] for bug in bugs}
    paths = []
    for (kind, _), seed in list(distinct.items())[:MOST_SHRUNK]:
        choices = Choices.draw(seed)
        recipe, outcome = shrink(draw_recipe(seed), choices, Kind[kind])
        if outcome.kind:
            paths.append(write_repro(folder, recipe, choices, outcome, seed))
    return paths
