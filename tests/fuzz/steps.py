"""What random networks of integers are made of: each step takes earlier values and numbers, and gives a tensor."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import torch
from torch.nn import functional

Tensor = torch.Tensor
Values = list[Tensor]
NARROW = (torch.int8, torch.int16, torch.uint8)
TABLE = torch.tensor([7, -300, 70000, 0, 5, 12, -1, 9])
IN_FLOAT = (
    *("scaled", "as float", "float sum", "float sides", "mean", "through float", "beside a fraction"),
    *("quotients moved", "quotients apart", "quotients rounded"),
    *("divided beside", "padded mean", "mean of means", "root beside"),
)
TRUTHS = torch.tensor([True, False, False, True, True])


@dataclass(frozen=True)
class Step:
    """One call: which, of which values, with which numbers."""

    name: str
    sources: tuple[int, ...]
    options: dict[str, Any] = field(default_factory=dict)

    def run(self, values: Values) -> Tensor:
        made: Tensor = CALLS[self.name](*(values[number] for number in self.sources), **self.options)
        return made


# ---- the calls -----------------------------------------------------------------------------------------------------


def _position(x: Tensor, i: Tensor) -> Tensor:
    """A single position, which may count from the end."""
    return i.reshape(-1)[:1].long() % (2 * x.shape[-1]) - x.shape[-1]


def _list(x: Tensor, i: Tensor) -> Tensor:
    return i.reshape(-1).long() % x.shape[-1]


def _gathered(x: Tensor, i: Tensor) -> Tensor:
    index = _list(x, i).reshape((1,) * (x.dim() - 1) + (-1,)).expand(*x.shape[:-1], i.numel())
    return x.gather(-1, index)


def _taken_along(x: Tensor, i: Tensor) -> Tensor:
    """Positions of one row, for all of them."""
    return torch.take_along_dim(x, _list(x, i).reshape((1,) * (x.dim() - 1) + (-1,)), -1)


def _written(x: Tensor, i: Tensor) -> Tensor:
    y = x.clone()
    y[..., _position(x, i)] = 1
    return y


def _first_written(x: Tensor, number: int) -> Tensor:
    y = x.clone()
    y[..., 0] = number
    return y


def _collapsed(x: Tensor) -> Tensor:
    before = torch.cat([torch.zeros_like(x[..., :1]), x[..., :-1]], -1)
    return torch.where(x != before, x, torch.zeros_like(x))


def _quotients_moved(a: Tensor, b: Tensor) -> Tensor:
    quotients = a.clamp(-99, 99) / (b.long().clamp(-9, 9) ** 2 + 1)
    return quotients == quotients.roll(1, -1)


def _quotients_apart(a: Tensor, b: Tensor) -> Tensor:
    quotients = a.clamp(-99, 99) / (b.long().clamp(-9, 9) ** 2 + 1)
    first, *others = quotients.chunk(2, -1)
    return torch.cat([*others, first], -1) * 3 > 0.5


def _quotients_rounded(a: Tensor, b: Tensor) -> Tensor:
    quotients = a.clamp(-99, 99) / (b.long().clamp(-9, 9) ** 2 + 1)
    return quotients.round().long() - quotients.floor().long() * 4 + quotients.long() * 16


CALLS: dict[str, Callable[..., Tensor]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "minimum": torch.minimum,
    "maximum": torch.maximum,
    "floor_divide": lambda a, b: a // (b.long() ** 2 + 1),
    "remainder": lambda a, b: a % (b.long() ** 2 + 1),
    "add number": lambda a, number: a + number,
    "rsub number": lambda a, number: number - a,
    "mul number": lambda a, number: a * number,
    "divide by number": lambda a, number: a // number,
    "truncate": lambda a, number: torch.div(a, number, rounding_mode="trunc"),
    "remainder of number": lambda a, number: a % number,
    "fmod": lambda a, number: a.fmod(number),
    "clamp": lambda a, low, high: a.clamp(low, high),
    "clamp one side": lambda a, low: a.clamp(min=low),
    "neg": lambda a: -a,
    "abs": lambda a: a.abs(),
    "square": lambda a: a**2,
    "sign": lambda a: a.sign(),
    "less": lambda a, b: a < b,
    "equal": lambda a, b: a == b,
    "greater": lambda a, number: a > number,
    "not equal": lambda a, number: a != number,
    "beside a fraction": lambda a, number: a >= number + 0.5,
    "scaled": lambda a, number: a.float() / 7 + 0.25 <= number / 3,
    "as float": lambda a, number: (a.float() * 2 - 1) == number,
    "float sum": lambda a, number: a.float().sum(-1) > number,
    "float sides": lambda a, b: (a.float() + 1) >= b.float(),
    "mean": lambda a, number: a.float().mean(-1, keepdim=True) < number / 2,
    "quotients moved": _quotients_moved,
    "quotients apart": _quotients_apart,
    "quotients rounded": _quotients_rounded,
    "divided beside": lambda a, b: a.clamp(-99, 99) / -2.5 >= b.clamp(-40, 40),
    "padded mean": lambda a, number: functional.pad(a.float(), (1, 1)).mean(-1) <= number / 3,
    "mean of means": lambda a, number: a.float().mean(-1, keepdim=True).transpose(0, -1).mean(0) > number / 4,
    "root beside": lambda a, b: a.clamp(0, 99).float().sqrt() == b.clamp(-1, 9),
    "and": lambda a, b: (a != 0) & (b > 0),
    "or": lambda a, b: a.bool() | b.bool(),
    "xor": lambda a, b: torch.logical_xor(a, b),
    "not": lambda a: ~(a > 0),
    "any": lambda a, dim: a.any(dim),
    "all": lambda a, dim: (a > -5).all(dim),
    "sum": lambda a, dim: a.sum(dim),
    "sum of all": lambda a: a.sum(),
    "count": lambda a, dim: (a > 0).sum(dim, keepdim=True),
    "count nonzero": lambda a, dim: torch.count_nonzero(a, dim),
    "cumsum": lambda a, dim: a.cumsum(dim),
    "amax": lambda a, dim: a.amax(dim),
    "min": lambda a, dim: a.min(dim)[0],
    "convert": lambda a, kind: a.to(kind),
    "through float": lambda a: a.float().long() + 1,
    "where": lambda c, a, b: torch.where(c > 0, a, b),
    "where number": lambda a, number: torch.where(a > number, a, number),
    "masked_fill": lambda a, c: a.masked_fill(c > 0, 3),
    "flip": lambda a, dim: a.flip(dim),
    "roll": lambda a, dim: a.roll(1, dim),
    "transpose": lambda a: a.transpose(0, -1),
    "slice": lambda a: a[..., ::2],
    "select": lambda a, dim: a.select(dim, -1),
    "cat": lambda a, b: torch.cat([a, b], -1),
    "stack": lambda a, b: torch.stack([a, b], 1),
    "expand": lambda a: a.unsqueeze(0).expand(2, *a.shape),
    "repeat": lambda a: a.repeat(*(1,) * (a.dim() - 1), 2),
    "flatten": lambda a: a.flatten(),
    "pad": lambda a, number: functional.pad(a, (1, 2), value=number),
    "constant positions": lambda a: a[..., [0, -1, 0]],
    "gather": _gathered,
    "take_along_dim": _taken_along,
    "take": lambda x, i: torch.take(x, i.long() % x.numel()),
    "index_select": lambda x, i: x.index_select(-1, _list(x, i)),
    "brackets": lambda x, i: x[..., _position(x, i)],
    "table": lambda i: TABLE[i.long() % len(TABLE)],
    "truth table": lambda i: TRUTHS[i.long() % len(TRUTHS)],
    "write at": _written,
    "write first": _first_written,
    "collapse": _collapsed,
    "one hot": lambda i: functional.one_hot(i.long() % 5, 5),
    "arange": lambda a: torch.arange(a.shape[-1]) >= a,
}


# ---- drawing -------------------------------------------------------------------------------------------------------


def _fitting(values: Values, name: str, truth: bool) -> list[int]:
    """Values that a step takes: integers alone where truth values have no such call, small ones where float32 is to
    hold what is computed of them."""
    most = 2**16 if name in IN_FLOAT else 2**31
    found = [n for n, value in enumerate(values) if value.dim() and (truth or value.dtype != torch.bool)]
    return [n for n in found if int(values[n].to(torch.int64).abs().max()) < most]


def _one(name: str, truth: bool = True, **options: Any) -> Callable[[Random, Values], Step | None]:
    """A step on one value."""

    def draw(rng: Random, values: Values) -> Step | None:
        fitting = _fitting(values, name, truth)
        if not fitting:
            return None
        source = rng.choice(fitting)
        drawn = {key: option(rng, values[source]) for key, option in options.items()}
        return Step(name, (source,), drawn)

    return draw


def _several(name: str, count: int = 2, truth: bool = True, alike: bool = False) -> Callable[[Random, Values], Any]:
    """A step on values of shapes that go together; `alike`: of equal shapes and types."""

    def draw(rng: Random, values: Values) -> Step | None:
        fitting = _fitting(values, name, truth)
        chosen = [rng.choice(fitting) for _ in range(count)] if fitting else []
        given = [values[number] for number in chosen]
        same = all(one.shape == given[0].shape and one.dtype == given[0].dtype for one in given)
        return Step(name, tuple(chosen)) if given and (same or not alike) else None

    return draw


def _number(rng: Random, value: Tensor) -> int:
    return rng.choice((-7, -2, -1, 0, 1, 2, 3, 5, 19))


def _factor(rng: Random, value: Tensor) -> int:
    return rng.choice((-3, -2, -1, 2, 3, 5, 100))


def _dim(rng: Random, value: Tensor) -> int:
    return rng.randrange(-value.dim(), value.dim())


def _kind(rng: Random, value: Tensor) -> torch.dtype:
    return rng.choice((torch.int64, torch.int32, torch.bool, *NARROW))


_NUMBERS = (
    "add number|rsub number|greater|not equal|beside a fraction|scaled|as float|float sum|mean|padded mean|"
    "mean of means|where number"
)
_FACTORS = "mul number|divide by number|truncate|remainder of number|fmod"
_DIMS = "any|all|sum|count|count nonzero|cumsum|flip|roll|select"
_DIMS_OF_INTEGERS = "amax|min"
_PLAIN = "not|sum of all|through float|transpose|slice|expand|repeat|flatten|constant positions|one hot|arange"
_INTEGERS = "neg|abs|square|sign|table|truth table|collapse"
_PAIRS = "less|equal|float sides|and|or|xor|masked_fill|gather|take_along_dim|take|index_select|brackets"
_PAIRS_OF_INTEGERS = (
    "quotients moved|quotients apart|quotients rounded|divided beside|root beside|add|sub|mul|minimum|maximum|"
    "floor_divide|remainder|write at"
)

STEPS: dict[str, Callable[[Random, Values], Step | None]] = {
    **{name: _one(name, truth=False, number=_number) for name in _NUMBERS.split("|")},
    **{name: _one(name, truth=False, number=_factor) for name in _FACTORS.split("|")},
    **{name: _one(name, dim=_dim) for name in _DIMS.split("|")},
    **{name: _one(name, truth=False, dim=_dim) for name in _DIMS_OF_INTEGERS.split("|")},
    **{name: _one(name) for name in _PLAIN.split("|")},
    **{name: _one(name, truth=False) for name in _INTEGERS.split("|")},
    **{name: _several(name) for name in _PAIRS.split("|")},
    **{name: _several(name, truth=False) for name in _PAIRS_OF_INTEGERS.split("|")},
    **{name: _several(name, alike=True) for name in ("cat", "stack")},
    "where": _several("where", count=3, truth=False),
    "convert": _one("convert", kind=_kind),
    "clamp": _one("clamp", truth=False, low=lambda rng, value: -2, high=lambda rng, value: rng.choice((3, 9))),
    "clamp one side": _one("clamp one side", truth=False, low=_number),
    "pad": _one("pad", truth=False, number=_number),
    "write first": _one("write first", truth=False, number=_number),
}
