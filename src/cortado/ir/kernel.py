"""A kernel as data: its C call, its descriptor, and the row rules by which it runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from cortado.base.element import Element
from cortado.base.errors import CortadoError
from cortado.ir.c_call import CCall
from cortado.ir.c_sources import sources_of
from cortado.ir.work import Work


@dataclass(frozen=True)
class Array:
    """A constant array of a descriptor, in the order the kernel reads it."""

    data: np.ndarray[Any, np.dtype[Any]]
    align: int = 4
    packed: tuple[int, ...] | None = None  # of a packed stream: the shape of its weights


@dataclass(frozen=True)
class NestedDescriptor:
    """A descriptor that another one points to."""

    struct: str
    fields: Mapping[str, "Field"]


Field = int | float | Array | tuple[int, ...] | tuple[NestedDescriptor, ...] | None


@dataclass(frozen=True)
class Kernel:
    """One C kernel chosen for one call: its descriptor and the C call that computes one row."""

    call: CCall
    struct: str | None = None
    fields: Mapping[str, Field] = field(default_factory=dict)
    scratch: int = 0
    scratch_check: CCall | None = None  # computes the scratch size in C, for the checks build
    lean: "Kernel | None" = None  # the same layer with less scratch and more instructions
    tile: int = 1  # pixels that a pixelwise kernel computes at once; fewer take as long
    work: Work | None = None  # how often its loops run, without those of `called`; None: unknown
    called: tuple["Called", ...] = ()

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The files of kernels/src that the kernel needs."""
        functions = [*self.call.functions, *(self.scratch_check.functions if self.scratch_check else ())]
        called = [source for one in self.called for source in one.kernel.sources]
        return tuple(sorted({*sources_of(functions), *called}))

    def typed(self, rows: Sequence[Element], out: Element) -> "Kernel":
        """Returns the same kernel with the rows of its call cast to the C types of these elements."""
        lean = None if self.lean is None else self.lean.typed(rows, out)
        return replace(self, call=self.call.typed(rows, out), lean=lean)

    def __post_init__(self) -> None:
        if self.scratch and (self.scratch_check is None or self.struct is None):
            raise CortadoError(
                f"{self.call.function}: a kernel with scratch has a descriptor and a function that works out its size"
            )


@dataclass(frozen=True)
class Called:
    """A kernel that another one calls or alternates with: its share of the calls and of the outputs."""

    kernel: Kernel
    calls: float
    outputs: float


@dataclass(frozen=True)
class RowRule:
    """Output row y needs the input rows (y // repeat) * stride - pad + k * dilation for k in 0 .. taps-1.

    Stride 0: every output row reads the whole operand (one pixel of channel factors).
    """

    taps: int = 1
    stride: int = 1
    pad: int = 0
    dilation: int = 1
    repeat: int = 1  # a power of two

    @property
    def span(self) -> int:
        """The number of rows from the first tap to the last."""
        return (self.taps - 1) * self.dilation + 1

    def first(self, y: int) -> int:
        """Returns the input row under the first tap; negative above the image."""
        return y // self.repeat * self.stride - self.pad


@dataclass(frozen=True)
class Rows:
    """How a call runs row by row: one rule for each tensor input."""

    inputs: tuple[RowRule, ...]
    pixelwise: bool = False  # it runs over any span of `n` pixels
    elementwise: bool = False  # n counts elements, not pixels; the output can start where an input does, or before it
    accumulates: int = 0  # > 0: called once for each of this many input rows (y is the row), all into one output row


ONE_ROW = RowRule()


@dataclass(frozen=True)
class Running:
    """How a call runs on an endless stream of rows; the `pad` of a rule is negative if leading rows are skipped."""

    rows: Rows
    kernel: Kernel
