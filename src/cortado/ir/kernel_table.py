"""The kernels of an operator as a table: the first row that takes a call makes it.

A row names a C function, the elements that it reads, the cores that have it and the calls that fit; and how it is
called: arguments, descriptor, scratch, work. Behind the rows of some cores stands one of every core that takes the same
calls. Which calls firmware for any network makes (`every`), the elements that an operator takes (`elements`) and the
rows that the table of costs must have are read from here.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from cortado.base.element import INT8, INT16, Element
from cortado.base.errors import CortadoError
from cortado.base.target import Core
from cortado.ir.c_call import Argument, CCall, Number, Operand, Row
from cortado.ir.kernel import Called, Field, Kernel, Rows
from cortado.ir.op import Call, Kernels
from cortado.ir.work import Work

EVERY_CORE = (Core.PORTABLE, Core.SMALL, Core.LONG, Core.DSP, Core.MVE)

# Arguments that many kernels have: one operand, or two, and how many elements or pixels.
SPAN: tuple[Argument, ...] = (Operand.LAYER, Row(0), Operand.OUT, Operand.N)
PAIR: tuple[Argument, ...] = (Operand.LAYER, Row(0), Row(1), Operand.OUT, Operand.N)
WINDOW: tuple[Argument, ...] = (Operand.LAYER, Operand.ROWS, Operand.OUT)  # and the rows under a window

_MOST_ROWS = 5  # operands and results of one call
_BYTE = INT8  # stands for values of any element, which kernels are given as bytes


@dataclass(frozen=True)
class KernelRow:
    """A C function, and which calls it takes."""

    symbol: str  # behind cortado_
    reads: Element | tuple[Element | None, ...] | None  # elements of the operands, the last of all behind; None: any
    makes: Element | None = None  # of the first result that is read; None: that of the first operand
    cores: tuple[Core, ...] = EVERY_CORE
    fits: Callable[[Call], bool] | None = None
    arguments: tuple[Argument, ...] = SPAN
    struct: str | None = None
    fields: Callable[[Call], Mapping[str, Field]] | None = None
    numbers: Callable[[Call], tuple[int, ...]] | None = None  # for each Number among the arguments
    scratch: Callable[[Call], int] | None = None
    scratch_check: str | None = None  # the function that gives it again; None: the kernel's name and `_scratch`
    work: Work | Callable[[Call], Work] | None = None
    called: Callable[[Call], tuple[Called, ...]] | None = None
    weights: Element | None = None  # of constant weights, where kernels for several elements of them are in the table

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
        """The kernel of a call."""
        scratch = 0 if self.scratch is None else self.scratch(call)
        numbers = () if self.numbers is None else self.numbers(call)
        given = tuple(numbers[one.index] if isinstance(one, Number) else one for one in self.arguments)
        check = self.scratch_check or f"{self.symbol}_scratch"
        return Kernel(
            call=CCall(f"cortado_{self.symbol}", given),
            struct=self.struct,
            fields={} if self.fields is None else self.fields(call),
            scratch=scratch,
            scratch_check=CCall(f"cortado_{check}", (Operand.LAYER,)) if scratch else None,
            work=self.work(call) if callable(self.work) else self.work,
            called=() if self.called is None else self.called(call),
        )

    def bare(self) -> Kernel:
        """The row's function and descriptor, with rows in their C types; nothing of a call."""
        known = [one or _BYTE for one in self.elements]
        rows = [known[min(index, len(known) - 1)] for index in range(_MOST_ROWS)]
        return Kernel(call=CCall(f"cortado_{self.symbol}", self.arguments), struct=self.struct).typed(
            rows, self.makes or known[0]
        )


@dataclass(frozen=True)
class KernelTable:
    """The kernels of an operator in the order in which they are asked; `streams`: those for endless rows alone."""

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
        """The kernel of a call on endless rows."""
        return next((row.made(call) for row in self.streams if row.takes(call, core)), None)

    def every(self) -> Iterator[tuple[Core, Kernel]]:
        """All functions that calls may be made with, and the cores that have them."""
        for core, rows in product(EVERY_CORE, (self.rows, self.streams)):
            taken = set[object]()  # what rows before take whole
            for row in rows:
                kind = (row.elements, row.makes)
                if core in row.cores and not taken & {(kind, None), (kind, row.fits)}:
                    taken.add((kind, row.fits))
                    yield core, row.bare()

    def meeting(self, weights: Element) -> frozenset[str]:
        """The elements of activations that meet such weights, by name."""
        known = [row.makes or row.elements[0] for row in self.rows if row.weights == weights]
        return frozenset(one.name for one in known if one is not None)

    @property
    def elements(self) -> frozenset[Element | None]:
        """The elements of the first operand; None: any."""
        return frozenset(row.elements[0] for row in self.rows)


@dataclass(frozen=True)
class Several:
    """Several tables; which of them makes a call, and what it gets of it, a function says."""

    choose: Callable[[Call, Core], Kernel]
    tables: tuple[Kernels, ...]

    def __call__(self, call: Call, core: Core) -> Kernel:
        return self.choose(call, core)

    def every(self) -> Iterator[tuple[Core, Kernel]]:
        """All functions that calls may be made with, and the cores that have them."""
        return (found for table in self.tables for found in table.every())

    def meeting(self, weights: Element) -> frozenset[str]:
        """The elements of activations that meet such weights, by name."""
        return frozenset[str]().union(*(table.meeting(weights) for table in self.tables))


@dataclass(frozen=True)
class All:
    """A test that all of several make; those of the same tests are the same one."""

    tests: tuple[Callable[[Call], bool], ...]

    def __call__(self, call: Call) -> bool:
        return all(test(call) for test in self.tests)


def only(symbol: str, reads: Element | tuple[Element | None, ...] | None, *rest: Any, **more: Any) -> KernelTable:
    """A table of one row."""
    return KernelTable((KernelRow(symbol, reads, *rest, **more),))


def by_element(name: str, **row: Any) -> KernelTable:
    """The same row for int8 and int16."""
    return KernelTable(tuple(KernelRow(f"{name}_s{kind.bits}", kind, **row) for kind in (INT8, INT16)))


def of_size(row: KernelRow, symbol: str) -> KernelRow:
    """A row for values of several bytes, how many of which is its last argument."""
    given = (*row.arguments, Number(0))
    return replace(row, symbol=symbol, fits=None, arguments=given, numbers=lambda call: (call.element.bytes,))


def runs_by_row(row: KernelRow, rules: Callable[[Call], Rows | None]) -> tuple[KernelRow, KernelRow]:
    """A row whose last argument says how often: pixel by pixel in any span, or as often as its number says."""

    def pixelwise(call: Call) -> bool:
        rule = rules(call)
        return rule is not None and rule.pixelwise

    return replace(row, fits=pixelwise, numbers=None), replace(row, arguments=(*row.arguments[:-1], Number(0)))
