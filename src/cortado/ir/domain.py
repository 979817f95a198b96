"""Value domains of nodes: real numbers, integers within proven bounds, or truth values.

A domain is inferred once for each node, from its operands' domains, by the `DomainRule` that stands with the operator.
The type alone doesn't tell it: `mask.float().sum(1)` is float32 and holds integers, `mask.long()` is int64 and
holds truth values.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

import torch
from torch._ops import OpOverload
from torch.fx import Node

from cortado.base.element import INT32
from cortado.ir.facts import FactKey
from cortado.ir.graph import Bound

EXACT_IN_FLOAT = 2**24  # every integer up to it, and of either sign, is a float32


# ---- what is known of a value --------------------------------------------------------------------------------


class DomainKind(Enum):
    REAL = "real numbers"
    INTEGER = "integers"
    TRUTH = "truth values, as booleans or as 0 and 1"


@dataclass(frozen=True)
class Interval:
    """Integers from `low` to `high`, both included."""

    low: int
    high: int

    def within(self, other: "Interval") -> bool:
        return other.low <= self.low and self.high <= other.high

    def meets(self, other: "Interval") -> bool:
        return self.low <= other.high and other.low <= self.high

    def hull(self, other: "Interval") -> "Interval":
        return Interval(min(self.low, other.low), max(self.high, other.high))

    def plus(self, other: "Interval") -> "Interval":
        return Interval(self.low + other.low, self.high + other.high)

    def negative(self) -> "Interval":
        return Interval(-self.high, -self.low)

    def times(self, other: "Interval") -> "Interval":
        ends = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        return Interval(min(ends), max(ends))

    def __str__(self) -> str:
        return f"{self.low} to {self.high}"


@dataclass(frozen=True)
class Domain:
    """The kind of a node's values, and for integers their interval where it is known. None for inputs of 32 or 64 bits
    and what is computed from them: they can hold anything that 32 bits hold."""

    kind: DomainKind
    interval: Interval | None = None


REALS = Domain(DomainKind.REAL)
TRUTHS = Domain(DomainKind.TRUTH, Interval(0, 1))
DOMAIN: FactKey[Domain] = FactKey("cortado_domain")

WORDS = Interval(INT32.low, INT32.high)
_LEAVES_OPEN = (torch.int32, torch.int64)


def interval_of(kind: torch.dtype) -> Interval | None:
    """Returns the range of an integer type; None for types that give no useful bound."""
    if kind in _LEAVES_OPEN or kind.is_floating_point or kind.is_complex:
        return None
    return Interval(0, 1) if kind == torch.bool else Interval(torch.iinfo(kind).min, torch.iinfo(kind).max)


# ---- the rules -----------------------------------------------------------------------------------------------


class Making(Protocol):
    """The operands of a call in the forms that domain rules ask for; None if an operand has no such form."""

    def interval(self, value: Any) -> Interval | None: ...
    def holds_truth(self, value: Any) -> bool: ...
    def real(self, value: Any) -> Node | None: ...
    def truth(self, value: Any) -> Node | None: ...
    def word(self, value: Any) -> Node | None: ...
    def again(self, bound: Bound, form: "OperandForm") -> Node | None: ...


OperandForm = Callable[[Any], Node | None]
Make = Callable[[Making, Bound], Node | None]
Bounds = Callable[[Making, Bound], Interval | None]


@dataclass(frozen=True)
class DomainRule:
    """Transfer rule of an aten call on integers and truth values, and how to compute its result.

    `words` computes its integers with 32-bit operators, `truth` its truth values as 0 and 1, `real` its real numbers.
    `bounds` is the interval of its integers before any overflow; None if unknown. Without `real`, real numbers come
    from the same call on operands converted to real numbers, except for the operands named in `integers`.
    """

    aten: tuple[OpOverload, ...]
    bounds: Bounds = lambda making, bound: None
    words: Make | None = None
    truth: Make | None = None
    real: Make | None = None
    wraps: bool = False  # its result can overflow its type
    closed: bool | Callable[[Bound], bool] = False  # integers in, integers out, even if they are stored as float32
    keeps_truth: bool = False  # truth values in, truth values out
    integers: tuple[str, ...] = ()


def hull(intervals: Sequence[Interval | None]) -> Interval | None:
    """Returns the smallest interval that contains all of these; None if one of them is unknown."""
    found: Interval | None = None
    for one in intervals:
        if one is None:
            return None
        found = one if found is None else found.hull(one)
    return found


def overloads(*packets: Any) -> tuple[OpOverload, ...]:
    """Returns every functional overload of these operators that returns one tensor."""
    found = [getattr(packet, name) for packet in packets for name in packet.overloads()]
    return tuple(target for target in found if _gives_one_tensor(target))


def _gives_one_tensor(target: OpOverload) -> bool:
    schema = target._schema
    written = any(argument.alias_info is not None and argument.alias_info.is_write for argument in schema.arguments)
    return not written and [str(item.type) for item in schema.returns] == ["Tensor"]
