"""The kernels of an operator as a table: the first row that takes a call provides its kernel.

A row names a C function, the elements that it reads, the cores that have it and the calls that it accepts, and how it
is called: arguments, descriptor, scratch, work. Rows for some cores are followed by a row for every core that accepts
the same calls. The functions that firmware for arbitrary networks needs (`every`), the elements that an operator takes
(`elements`) and the rows that the cost table must have all derive from the table.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from cortado.base.element import CODES, INT8, Element
from cortado.base.errors import CortadoError
from cortado.base.target import Core
from cortado.ir.c_call import Argument, CCall, Number, Operand, Row
from cortado.ir.c_structs import descriptor
from cortado.ir.kernel import Called, Field, Kernel, Rows
from cortado.ir.op import Call, Kernels
from cortado.ir.work import Work

EVERY_CORE = (Core.PORTABLE, Core.SMALL, Core.LONG, Core.DSP, Core.MVE)

# Arguments that many kernels have: one operand or two, and the number of elements or pixels.
SPAN: tuple[Argument, ...] = (Operand.LAYER, Row(0), Operand.OUT, Operand.N)
PAIR: tuple[Argument, ...] = (Operand.LAYER, Row(0), Row(1), Operand.OUT, Operand.N)
WINDOW: tuple[Argument, ...] = (Operand.LAYER, Operand.ROWS, Operand.OUT)  # pointers to the rows under a window

_MOST_ROWS = 5  # operands and results of one call
_BYTE = INT8  # for values of any element, which kernels are passed as bytes


@dataclass(frozen=True)
class KernelRow:
    """A C function and the calls that it takes."""

    symbol: str  # the name without its prefix cortado_
    reads: Element | tuple[Element | None, ...] | None  # of the operands, the last for all that follow; None: any
    makes: Element | None = None  # of the first result that is read; None: that of the first operand
    cores: tuple[Core, ...] = EVERY_CORE
    fits: Callable[[Call], bool] | None = None
    arguments: tuple[Argument, ...] = SPAN
    struct: str | None = None
    fields: Callable[[Call], Mapping[str, Field]] | None = None  # members that are no parameters of the call
    numbers: Callable[[Call], tuple[int, ...]] | None = None  # for each Number among the arguments
    scratch: Callable[[Call], int] | None = None
    scratch_check: str | None = None  # the C function that computes it; None: the kernel's name and `_scratch`
    work: Work | Callable[[Call], Work] | None = None
    called: Callable[[Call], tuple[Called, ...]] | None = None
    lean: "KernelRow | None" = None  # takes the same calls with less scratch and more instructions
    weights: Element | None = None  # of constant weights, if the table has kernels for several

    @property
    def elements(self) -> tuple[Element | None, ...]:
        return self.reads if isinstance(self.reads, tuple) else (self.reads,)

    def takes(self, call: Call, core: Core) -> bool:
        if core not in self.cores or (self.makes is not None and self.makes.name != call.element.name):
            return False
        pairs = zip(self.elements, call.operand_elements, strict=False)
        alike = all(mine is None or mine.name == given.name for mine, given in pairs)
        return alike and (self.fits is None or self.fits(call))

    def made(self, call: Call) -> Kernel:
        """Returns the kernel of a call."""
        scratch = 0 if self.scratch is None else self.scratch(call)
        numbers = () if self.numbers is None else self.numbers(call)
        given = tuple(numbers[one.index] if isinstance(one, Number) else one for one in self.arguments)
        own = {} if self.fields is None else self.fields(call)
        check = self.scratch_check or f"{self.symbol}_scratch"
        return Kernel(
            call=CCall(f"cortado_{self.symbol}", given),
            struct=self.struct,
            fields={} if self.struct is None else descriptor(self.struct, call, own),
            scratch=scratch,
            scratch_check=CCall(f"cortado_{check}", (Operand.LAYER,)) if scratch else None,
            work=self.work(call) if callable(self.work) else self.work,
            called=() if self.called is None else self.called(call),
            lean=None if self.lean is None else self.lean.made(call),
        )

    def bare(self) -> Kernel:
        """Returns the row's function and descriptor, with rows in their C types; nothing specific to a call."""
        known = [one or _BYTE for one in self.elements]
        rows = [known[min(index, len(known) - 1)] for index in range(_MOST_ROWS)]
        return Kernel(call=CCall(f"cortado_{self.symbol}", self.arguments), struct=self.struct).typed(
            rows, self.makes or known[0]
        )


@dataclass(frozen=True)
class KernelTable:
    """The kernels of an operator in order of preference; `streams` are those for endless streams only."""

    rows: tuple[KernelRow, ...]
    streams: tuple[KernelRow, ...] = ()

    def __call__(self, call: Call, core: Core) -> Kernel:
        return self.first(call, core).made(call)

    def first(self, call: Call, core: Core) -> KernelRow:
        found = next((row for row in self.rows if row.takes(call, core)), None)
        if found is None:
            given = ", ".join(one.name for one in call.operand_elements)
            raise CortadoError(f"{call.operator.name} has no kernel for {given} that gives {call.element.name}")
        return found

    def running(self, call: Call, core: Core) -> Kernel | None:
        """Returns the kernel of a call on an endless stream."""
        return next((row.made(call) for row in self.streams if row.takes(call, core)), None)

    def every(self) -> Iterator[tuple[Core, Kernel]]:
        """Yields all functions that calls can use, with the cores that have them."""
        for core, rows in product(EVERY_CORE, (self.rows, self.streams)):
            taken = set[object]()  # what earlier rows accept completely
            for row in rows:
                kind = (row.elements, row.makes)
                if core in row.cores and not taken & {(kind, None), (kind, row.fits)}:
                    taken.add((kind, row.fits))
                    yield core, row.bare()

    def meeting(self, weights: Element) -> frozenset[str]:
        """Returns the names of the activation elements that can be combined with these weights."""
        known = [row.makes or row.elements[0] for row in self.rows if row.weights == weights]
        return frozenset(one.name for one in known if one is not None)

    @property
    def elements(self) -> frozenset[Element | None]:
        """The elements of the first operand; None means any."""
        return frozenset(row.elements[0] for row in self.rows)


@dataclass(frozen=True)
class Several:
    """Several tables, and a function that chooses among them and builds the kernel of a call."""

    choose: Callable[[Call, Core], Kernel]
    tables: tuple[Kernels, ...]

    def __call__(self, call: Call, core: Core) -> Kernel:
        return self.choose(call, core)

    def every(self) -> Iterator[tuple[Core, Kernel]]:
        """Yields all functions that calls can use, with the cores that have them."""
        return (found for table in self.tables for found in table.every())

    def meeting(self, weights: Element) -> frozenset[str]:
        """Returns the names of the activation elements that can be combined with these weights."""
        return frozenset[str]().union(*(table.meeting(weights) for table in self.tables))


@dataclass(frozen=True)
class All:
    """The conjunction of several predicates. Two with the same predicates are equal."""

    tests: tuple[Callable[[Call], bool], ...]

    def __call__(self, call: Call) -> bool:
        return all(test(call) for test in self.tests)


def only(symbol: str, reads: Element | tuple[Element | None, ...] | None, *rest: Any, **more: Any) -> KernelTable:
    """Returns a table of one row."""
    return KernelTable((KernelRow(symbol, reads, *rest, **more),))


def by_element(name: str, **row: Any) -> KernelTable:
    """Returns a table with the same row for int8 and int16."""
    return KernelTable(tuple(KernelRow(f"{name}_s{kind.bits}", kind, **row) for kind in CODES))


def of_size(row: KernelRow, symbol: str) -> KernelRow:
    """Returns a row for values of several bytes; the last argument is the number of bytes of a value."""
    given = (*row.arguments, Number(0))
    return replace(row, symbol=symbol, fits=None, arguments=given, numbers=lambda call: (call.element.bytes,))


def runs_by_row(row: KernelRow, rules: Callable[[Call], Rows | None]) -> tuple[KernelRow, KernelRow]:
    """Splits a row whose last argument is a count: pixelwise over any span, or with a fixed count."""

    def pixelwise(call: Call) -> bool:
        rule = rules(call)
        return rule is not None and rule.pixelwise

    return replace(row, fits=pixelwise, numbers=None), replace(row, arguments=(*row.arguments[:-1], Number(0)))
