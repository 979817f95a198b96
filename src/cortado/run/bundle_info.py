"""The facts that running a bundle requires: its tensors, and what its kernel calls may write.

Also the glue between a bundle and the harness that feeds it; with a camera, lines of the sensor replace rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cortado.base.errors import CortadoError
from cortado.base.target import ALIGNED_ONLY, CortexMTargetConfig
from cortado.plan.windows import StreamWindows
from cortado.run.elf import Image
from cortado.run.watch import AllowedWrites, StoreReport, StoreTable, Watch

# ---- glue ------------------------------------------------------------------------------------------------

LINE_MEMBERS = "NULL, output, NULL, begin, next_line, take"


def arena_symbol(region: str) -> str:
    """Names the harness's array for one region of the arena."""
    return f"arena_{region}"


def untyped(result: str, function: str) -> str:
    """Casts a function to one of void *: a wrapper would add to the stack use that is measured."""
    return f"({result}(*)(void *))(void (*)(void)){function}"


def line_source(name: str, line_bytes: int, *, rows: bool) -> str:
    """Returns glue that presents a line as the harness's row and MODEL_take_line as its push; a network that takes its
    input whole runs after the last line."""
    run = "" if rows else f"    return seen == 1 ? ({name}_run(a) == 0 ? 1 : -1) : seen;\n"
    return f"""#include "{name}_camera.h"

static uint8_t line[{line_bytes}];
static void begin(void *a) {{ (void){name}_begin_picture(a); }}
static int8_t *next_line(void *a) {{ (void)a; return (int8_t *)line; }}
static int take(void *a)
{{
    const int seen = {name}_take_line(a, line);
{run or "    return seen;" + chr(10)}}}
"""


# ---- bundle info -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class IO:
    """An input or output as the bundle sees it."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def bytes(self) -> int:
        return int(np.prod(self.shape)) * np.dtype(self.dtype).itemsize


def rows_port(tensor: IO, row_bytes: int, windows: StreamWindows) -> IO:
    """Describes a stream's input in one run: the rows of a window that its output reads."""
    return IO(tensor.name, (windows.first, row_bytes // np.dtype(tensor.dtype).itemsize), tensor.dtype)


@dataclass(frozen=True)
class BundleInfo:
    """The facts that running a bundle requires."""

    name: str  # the prefix of its symbols
    target: CortexMTargetConfig
    inputs: tuple[IO, ...]
    outputs: tuple[IO, ...]
    row_bytes: int = 0  # of the input, if it comes row by row
    state: bool = False  # its samples are steps of sequences
    results: int = 1  # outputs that a stream returns for the rows of one sample
    regions: tuple[str, ...] = ()  # the memories of its arena, the fastest first; empty if it is in one piece
    aligned_only: bool = False  # one of them is device memory
    decides: bool = False  # it has MODEL_decision
    line_bytes: int = 0  # of a camera's lines, if it is fed those
    foreign: bool = False  # its C comes from elsewhere, and the user does not trust it

    @property
    def flags(self) -> tuple[str, ...]:
        """Returns the compiler flags in addition to those of all bundles."""
        return ALIGNED_ONLY if self.aligned_only else ()

    @property
    def entries(self) -> tuple[str, ...]:
        """Names the functions that firmware calls, without the converters of inputs and outputs."""
        verbs = ("push", "row", "reset", "output") if self.row_bytes else ("run", "input", "output")
        more = (*(("reset",) if self.state else ()), *(("decision",) if self.decides else ()))
        more += ("begin_picture", "take_line") if self.line_bytes else ()
        return tuple(f"{self.name}_{verb}" for verb in (*verbs, *more))


@dataclass(frozen=True)
class StepName:
    """A step of the bundle: its node in the lowered graph, its operator, and the names of its results if there are
    several."""

    name: str
    operator: str
    results: Sequence[str] = ()
    window: Sequence[int] | None = None  # in a stream: its rows [0] to [1] are the window tensor's from [2] on

    @property
    def outputs(self) -> tuple[str, ...]:
        """Returns the values it computes; the first ranges of a call belong to them."""
        return tuple(self.results) or (self.name,)


@dataclass(frozen=True)
class ArenaPiece:
    """A piece of an arena in several memories, as a range of its offsets."""

    name: str
    start: int
    bytes: int


@dataclass(frozen=True)
class StoreRules:
    """The allowed stores of every kernel call of a run, and the functions of the bundle that make the calls."""

    steps: tuple[StepName, ...]
    functions: tuple[str, ...]  # of MODEL.c; in a bundle for any core, one core's build leaves some out
    calls: tuple[AllowedWrites, ...]
    regions: tuple["ArenaPiece", ...] = ()  # of an arena in several memories
    always: tuple[tuple[int, int], ...] = ()  # ranges that a camera's front end may write between any two calls

    @staticmethod
    def from_json(table: Mapping[str, Any]) -> "StoreRules":
        """Parses the table that plan/checks.py writes."""
        return StoreRules(
            steps=tuple(StepName(**step) for step in table["steps"]),
            functions=tuple(table["functions"]),
            calls=tuple(
                AllowedWrites(step, tuple(zip(edges[::2], edges[1::2], strict=True))) for step, *edges in table["calls"]
            ),
            regions=tuple(ArenaPiece(*piece) for piece in table.get("regions", ())),
            always=tuple((low, high) for low, high in table.get("camera", ())),
        )

    def _table(self, image: Image) -> StoreTable:
        """Returns the table of allowed stores; for an arena in several memories, in absolute addresses."""
        if not self.regions:
            return StoreTable(base="arena", calls=self.calls, always=self.always)
        moves = [(one, image.require(arena_symbol(one.name)).address - one.start) for one in self.regions if one.bytes]

        def moved(low: int, high: int) -> tuple[int, int]:
            for one, by in moves:
                if one.start <= low and high <= one.start + one.bytes:
                    return low + by, high + by
            raise CortadoError(
                f"bytes {low} to {high} of the arena are in none of its memories; compile the model again"
            )

        calls = [AllowedWrites(call.step, tuple(moved(*one) for one in call.ranges)) for call in self.calls]
        return StoreTable(base=0, calls=tuple(calls))

    def watch(self, image: Image, *, count: bool, stores: bool, timed: bool) -> Watch:
        """Returns a watch on the functions that make kernel calls, so that the release build needs no markers."""
        made = tuple(name for name in self.functions if image.find(name) is not None)
        return Watch(
            count=count,
            stores=self._table(image) if stores else None,
            steps=made,
            order=tuple(call.step for call in self.calls) if timed else None,
        )

    def check(self, report: StoreReport) -> None:
        report.check([f"{step.name} ({step.operator})" for step in self.steps])
