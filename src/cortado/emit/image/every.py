"""All calls of kernels that images make, for each kind of core: what firmware takes to run any image.

The list is a file, every.txt, which a test writes from the samples of all operators (`make golden`): one line for a
call, with the cores that have it and its descriptor.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from cortado.base.target import Core
from cortado.emit.image.thunks import Thunk
from cortado.ir.c_sources import functions_in, sources_of

LIST = Path(__file__).with_name("every.txt")


@dataclass(frozen=True)
class ListedThunk:
    """A call, and the cores on which operators choose it."""

    thunk: Thunk
    cores: tuple[Core, ...]

    @property
    def sources(self) -> tuple[str, ...]:
        """The files of kernels/src that it needs."""
        return sources_of(functions_in(self.thunk.call))

    @property
    def line(self) -> str:
        cores = ",".join(core.name.lower() for core in self.cores)
        return f"{cores} | {self.thunk.struct or '-'} | {self.thunk.call}"

    @staticmethod
    def parse(line: str) -> "ListedThunk":
        cores, struct, call = line.split(" | ")
        thunk = Thunk(None if struct == "-" else struct, call)
        return ListedThunk(thunk, tuple(Core[name.upper()] for name in cores.split(",")))


@cache
def every_thunk() -> dict[int, ListedThunk]:
    """By their numbers."""
    lines = LIST.read_text().splitlines() if LIST.is_file() else []
    return {one.thunk.id: one for one in map(ListedThunk.parse, lines)}


def list_text(found: Iterable[ListedThunk]) -> str:
    return "".join(f"{line}\n" for line in sorted(one.line for one in found))
