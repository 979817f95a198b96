"""Networks by the thousand, on all cores; what fails is made small and written as a program of its own."""

import os
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from fuzz.draw import draw_recipe
from fuzz.families import Family, check_chunk
from fuzz.journal import Journal, totals
from fuzz.oracles import Choices, Kind
from fuzz.outcome import Outcome, Places
from fuzz.shrink import shrink, write_repro

TOGETHER = 8  # networks that share one program on this machine
MOST_SHRUNK = 12
_CHUNKS_PER_PROCESS = 25  # torch keeps what it has traced
Chunk = tuple[Family, list[int]]


@dataclass(frozen=True)
class Wanted:
    """How much: networks of each family, of the general ones so many on boards and as a .pte; from a first seed on."""

    first: int
    networks: Mapping[Family, int]
    boards: int
    ptes: int
    jobs: int

    def places(self, seed: int) -> Places:
        return Places(board=seed % 8 == 0, pte=seed % 3 == 0, interrupts=seed % 24 == 0)

    def enough(self, family: Family, lines: Sequence[dict[str, Any]]) -> bool:
        own = [line for line in lines if line["family"] == family]
        if family is not Family.NETWORKS:
            return len(own) >= self.networks[family]
        host, pte = (sum(line[kind] for line in own) for kind in ("host", "pte"))
        boards = sum(bool(line["board"]) for line in own)
        return host >= self.networks[family] and pte >= self.ptes and boards >= self.boards

    def chunks(self, journal: Journal) -> Iterator[Chunk]:
        """The families in turns, so that a campaign that was stopped has some of each."""
        seeds = {family: self.first for family in Family}
        left = list(Family)
        while left:
            left = [family for family in left if not self.enough(family, journal.lines)]
            for family in left:
                numbers = range(seeds[family], seeds[family] + TOGETHER)
                seeds[family] += TOGETHER
                chunk = [number for number in numbers if (family, number) not in journal.seeds]
                if chunk:
                    yield family, chunk


def work(wanted: Wanted, family: Family, seeds: list[int]) -> list[dict[str, Any]]:
    """What a worker does with a chunk."""
    warnings.simplefilter("ignore")  # torch has much to say about views and paddings
    checked = seeds[0] // TOGETHER % 2 == 1
    return [outcome.as_json() for outcome in check_chunk(family, seeds, wanted.places, checked)]


def run(wanted: Wanted, journal: Journal) -> dict[str, Any]:
    """Goes on until enough is done; returns the totals."""
    chunks = wanted.chunks(journal)
    start, before = time.monotonic(), len(journal.lines)
    pending: dict[Future[list[dict[str, Any]]], Chunk] = {}
    more = True
    while pending or more:
        pool = _pool(wanted)
        try:
            while pending or more:
                while more and len(pending) < wanted.jobs + 1:
                    chunk = next(chunks, None)
                    more = chunk is not None
                    if chunk is not None:
                        pending[pool.submit(work, wanted, *chunk)] = chunk
                if not pending:
                    break
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


def _died(chunks: list[Chunk]) -> list[dict[str, Any]]:
    """A worker that the system ended took its chunk with it."""
    what = "the process that compiled it, or a neighbour in its chunk, was ended by the system"
    return [
        Outcome(seed, family, kind=Kind.CRASH.name, what=what).as_json() for family, seeds in chunks for seed in seeds
    ]


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
    """One file for each kind of failure and message of the general networks, made small; a few at most."""
    warnings.simplefilter("ignore")
    distinct = {(bug["kind"], bug["what"][:60]): bug["seed"] for bug in bugs if bug["family"] == Family.NETWORKS}
    paths = []
    for (kind, _), seed in list(distinct.items())[:MOST_SHRUNK]:
        choices = Choices.draw(seed)
        recipe, outcome = shrink(draw_recipe(seed), choices, Kind[kind])
        if outcome.kind:
            paths.append(write_repro(folder, recipe, choices, outcome, seed))
    return paths
