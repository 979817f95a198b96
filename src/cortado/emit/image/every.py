"""All calls of kernels that images make, for each kind of core: what firmware takes to run any image.

The list is a file, every.txt, which a test writes from the samples of all operators (`make golden`): one line for a
call, with the cores that have it, its descriptor, and the sources of its kernel.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from cortado.base.target import Core
from cortado.emit.image.thunks import Thunk

LIST = Path(__file__).with_name("every.txt")


@dataclass(frozen=True)
class ListedThunk:
    """A call, the cores on which operators choose it, and the files of kernels/src that it needs."""

    thunk: Thunk
    cores: tuple[Core, ...]
    sources: tuple[str, ...]

    @property
    def line(self) -> str:
        cores = ",".join(core.name.lower() for core in self.cores)
        return f"{cores} | {self.thunk.struct or '-'} | {self.thunk.call} | {' '.join(self.sources)}"

    @staticmethod
    def parse(line: str) -> "ListedThunk":
        cores, struct, call, sources = line.split(" | ")
        thunk = Thunk(None if struct == "-" else struct, call)
        return ListedThunk(thunk, tuple(Core[name.upper()] for name in cores.split(",")), tuple(sources.split()))


@cache
def every_thunk() -> dict[int, ListedThunk]:
    """By their numbers."""
    lines = LIST.read_text().splitlines() if LIST.is_file() else []
    return {one.thunk.id: one for one in map(ListedThunk.parse, lines)}


def list_text(found: Iterable[ListedThunk]) -> str:
    return "".join(f"{line}\n" for line in sorted(one.line for one in found))
