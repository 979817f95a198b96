"""How often the loops of a kernel run: declared by the operator with its C call, and the basis of cycle estimates.

A term is a product of quantities: "calls", "spans*length". For a quantity x, x/4 is the number of groups of four,
rounded up; x%4 is the size of the incomplete group; x~4 is x if it is no multiple of four, otherwise 0.
"""

import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cortado.base.errors import CortadoError

if TYPE_CHECKING:
    import torch

Quantities = Mapping[str, float]

_PART = re.compile(r"(\w+)([/%~])(\d+)")


@dataclass(frozen=True)
class Calls:
    """The calls of one kernel in one run of a plan."""

    calls: float
    span: int  # pixels or elements of a call; the last call of an image can have fewer
    spans: float  # summed over all calls
    outputs: float  # bytes written
    macs: float
    read_bytes: float  # of all input rows of all calls
    outside: float  # rows of windows that lie above or below the image
    edges: float  # calls that have such rows
    cut: float  # outputs that are the lowest code: some kernels exit early on them
    marked: float = 1.0  # the share of values in an operand that take more work

    @property
    def quantities(self) -> Quantities:
        return {**vars(self), "uncut": max(self.outputs - self.cut, 0)}

    def share(self, calls: float, outputs: float) -> "Calls":
        """Scales the calls and the outputs by their shares."""
        counted = {name: getattr(self, name) * calls for name in ("calls", "spans", "read_bytes", "outside", "edges")}
        made = {name: getattr(self, name) * outputs for name in ("outputs", "macs", "cut")}
        return replace(self, **counted, **made)

    def in_spans(self, size: int) -> tuple[float, float]:
        """Returns the number of full groups of `size` pixels or elements, and of calls that end with an incomplete
        one."""
        whole, rest = divmod(self.spans, max(self.span, 1))
        return whole * (self.span // size) + rest // size, whole * (self.span % size > 0) + (rest % size > 0)


def _none(calls: Calls) -> Quantities:
    return {}


@dataclass(frozen=True)
class Marks:
    """The values of an operand that take more work: those outside of an interval, by default those that are not 0."""

    operand: int
    low: float = 0.0
    high: float = 0.0
    usual: float = 1.0  # the share of them if values are unknown

    def share(self, values: "torch.Tensor") -> float:
        return float((~((values >= self.low) & (values <= self.high))).float().mean())


@dataclass(frozen=True)
class Work:
    """How often each loop of a kernel runs: terms, and the quantities they use in addition to those of its calls."""

    terms: tuple[str, ...]
    quantities: Callable[[Calls], Quantities] = _none
    lowest: int | None = None  # the code on which the kernel can exit early
    marks: Marks | None = None  # values that select the work

    def counts(self, calls: Calls, only: Collection[str] | None = None) -> dict[str, float]:
        """Returns how often each term, or each of `only` these, is executed."""
        known = {**calls.quantities, **self.quantities(calls)}
        return {term: product(term, known) for term in self.terms if only is None or term in only}


def loops(terms: str, lowest: int | None = None, **sizes: float) -> Work:
    """Returns the work of a kernel whose loops follow from its calls and a few sizes."""
    return Work(tuple(terms.split()), lambda calls: sizes, lowest)


def nested(loops: Mapping[str, str]) -> tuple[str, ...]:
    """Returns terms from a nesting: {"calls": "rank"} gives calls and calls*rank."""
    return tuple(
        term for outer, inner in loops.items() for term in (outer, *(f"{outer}*{one}" for one in inner.split()))
    )


def product(term: str, known: Quantities) -> float:
    return math.prod(_quantity(name, known, term) for name in term.split("*"))


def _quantity(name: str, known: Quantities, term: str) -> float:
    if name in known:
        return known[name]
    part = _PART.fullmatch(name)
    if part is None or part[1] not in known:
        raise CortadoError(
            f"a kernel's work has the term '{term}', and nothing is known of '{name}'; known are "
            + ", ".join(sorted(known))
        )
    value, size = known[part[1]], int(part[3])
    if part[2] == "/":
        return math.ceil(value / size)
    return value % size if part[2] == "%" else value if value % size else 0.0
