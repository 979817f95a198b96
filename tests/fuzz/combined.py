"""The combinations of a campaign, on several processes: a line of a journal for each, and which pairs were met."""

import os
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import groupby, islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from fuzz.combinations import AXES, Build, Combination, Door, Form, Pair, Product, Way, every_pair
from fuzz.doors import Found, check
from fuzz.journal import read_lines, write_lines

Line = dict[str, Any]
Group = list[Combination]
OUTCOMES = ("right", "refused", "left_out", "wrong")
_BUILDS_PER_PROCESS = 40  # torch keeps what it has traced


def run(combinations: Sequence[Combination], path: Path, jobs: int) -> list[Line]:
    """Those that the journal does not have yet; returns all lines. Combinations of one build share it."""
    done = {line["name"] for line in read_lines(path)}
    left = [one for one in combinations if str(one) not in done]
    groups = [list(group) for _, group in groupby(left, key=lambda one: one.build)]
    os.environ["OMP_NUM_THREADS"] = "1"  # before the processes import torch
    while groups:
        with ProcessPoolExecutor(jobs, get_context("spawn"), max_tasks_per_child=_BUILDS_PER_PROCESS) as pool:
            try:
                for group, lines in _each(pool, groups, jobs + 1):
                    write_lines(path, lines)
                    show(line for line in lines if line["outcome"] == "wrong")
                    groups.remove(group)
            except BrokenProcessPool:  # the one that stands first is taken to be what ended the process
                write_lines(path, [_line(Found(one, wrong="the process was ended by the system")) for one in groups[0]])
                del groups[0]
    return list(read_lines(path))


def _each(pool: Executor, groups: Sequence[Group], most: int) -> Iterator[tuple[Group, list[Line]]]:
    """Groups as they are done, with `most` of them given to the pool: it makes a process in place of one that has done
    enough when it is given work."""
    left, pending = iter(list(groups)), dict[Future[list[Line]], Group]()
    while True:
        for group in islice(left, most - len(pending)):
            pending[pool.submit(work, group)] = group
        if not pending:
            return
        for future in wait(pending, return_when=FIRST_COMPLETED).done:
            yield pending.pop(future), future.result()


def show(lines: Iterable[Line]) -> None:
    for line in lines:
        print(f"WRONG {line['name']}\n{line['what']}", flush=True)


def work(group: Sequence[Combination]) -> list[Line]:
    warnings.simplefilter("ignore")
    return [_line(found) for found in check(group[0].build, [one.door for one in group])]


def _line(found: Found) -> Line:
    build, what = found.combination.build, found.wrong or found.refused or found.left_out
    values: Mapping[str, Any] = {
        "form": build.form,
        "way": build.way,
        "product": build.product,
        "seed": build.seed,
        "door": found.combination.door,
    }
    return {"name": str(found.combination), **values, "outcome": found.outcome, "what": what}


def combination(line: Line) -> Combination:
    build = Build(Form(line["form"]), Way(line["way"]), Product(line["product"]), line["seed"])
    return Combination(build, Door(line["door"]))


# ---- in numbers ----------------------------------------------------------------------------------------------------


def _pairs(lines: Iterable[Line]) -> Iterator[Pair]:
    for line in lines:
        yield from combination(line).pairs


def totals(lines: Sequence[Line]) -> dict[str, Any]:
    """Counts of the outcomes, of every value, and of every pair: how often it was drawn, and was right."""
    drawn, right = Counter(_pairs(lines)), Counter(_pairs(line for line in lines if line["outcome"] == "right"))
    values = {
        value: [sum(line[axis] == value and line["outcome"] == outcome for line in lines) for outcome in OUTCOMES]
        for axis, kind in zip(("form", "way", "product", "door"), AXES, strict=True)
        for value in kind
    }
    return {
        "combinations": len(lines),
        "outcomes": {outcome: sum(line["outcome"] == outcome for line in lines) for outcome in OUTCOMES},
        "values": values,
        "pairs": {" x ".join(pair): [drawn[pair], right[pair]] for pair in every_pair()},
    }


@dataclass(frozen=True)
class Coverage:
    """Pairs over several campaigns: how many there are, how often the rarest was drawn, how many three times or more,
    how many were right at least once; those that never were."""

    pairs: int
    rarest: int
    three_times: int
    right: int
    never: tuple[str, ...]

    @staticmethod
    def of(campaigns: Sequence[Mapping[str, Any]]) -> "Coverage":
        names = [" x ".join(pair) for pair in every_pair()]
        counts = [[sum(one["pairs"].get(name, (0, 0))[at] for one in campaigns) for at in (0, 1)] for name in names]
        return Coverage(
            pairs=len(names),
            rarest=min(drawn for drawn, _ in counts),
            three_times=sum(drawn >= 3 for drawn, _ in counts),
            right=sum(right > 0 for _, right in counts),
            never=tuple(name for name, (_, right) in zip(names, counts, strict=True) if not right),
        )

    def __str__(self) -> str:
        return (
            f"{self.three_times:,} of {self.pairs:,} pairs of values were drawn three times or more, the rarest "
            f"{self.rarest} times; {self.right:,} were right at least once"
        )
