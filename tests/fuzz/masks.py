"""Masks by random composition: where they come from, what is computed of them, how they are moved, what reads them.

Beside the blocks of random networks they are a family of their own in `make fuzz`: models of one
such spelling, their mask constant or an input, on fresh data beside torch. What is hidden must be 0 where torch has 0,
and the rest not be further off than without a mask.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

import torch
from torch import nn
from torch.nn import functional

from cortado.base.errors import CortadoError
from fuzz.recipe import Block, Options, Shape, Tensor
from helpers.single import lower_on

LOWEST = torch.finfo(torch.float32).min
ENOUGH_DECIBELS = 25.0
WORSE = 5.0  # decibels below those without a mask: fewer values are left, so that single ones weigh more


def _written(scores: Tensor, hidden: Tensor, fill: float) -> Tensor:
    result = scores.clone()
    result[hidden.expand(scores.shape)] = fill
    return result


def _slice_written(scores: Tensor, fill: float) -> Tensor:
    result = scores.clone()
    result[..., 1:2] = fill
    return result


def _beside(hides: Callable[[Tensor, float], Tensor]) -> Callable[[Tensor, Tensor, float], Tensor]:
    """A place that is always hidden, beside those of a mask."""
    return lambda s, m, fill: hides(s, fill).masked_fill(m, fill)


def _by_formula(x: Tensor) -> Tensor:
    parts = torch.exp(x - x.amax(-1, keepdim=True))
    return parts / parts.sum(-1, keepdim=True)


FINITE: dict[str, Callable[[Tensor, Tensor, float], Tensor]] = {
    "product added": lambda s, m, fill: s + m.float() * fill,
    "product taken away": lambda s, m, fill: s - m.float() * -fill,
    "truth times number": lambda s, m, fill: s + m * fill,
    "opposite": lambda s, m, fill: (1.0 - (~m).float()) * fill + s,
    "integers": lambda s, m, fill: s + (1 - (~m).long()) * fill,
}
ANY: dict[str, Callable[[Tensor, Tensor, float], Tensor]] = {
    "filled": lambda s, m, fill: s.masked_fill(m, fill),
    "chosen": lambda s, m, fill: torch.where(m, fill, s),
    "kept": lambda s, m, fill: torch.where(~m, s, torch.tensor(fill)),
    "zeros filled": lambda s, m, fill: s + torch.zeros(m.shape).masked_fill(m, fill),
    "numbers chosen": lambda s, m, fill: torch.where(m, fill, 0.0) + s,
    "logarithm": lambda s, m, fill: s + (~m).float().log(),
    "written": _written,
    "tensor chosen": lambda s, m, fill: torch.where(m, s.new_full(s.shape, fill), s),
    "overwritten zeros chosen": lambda s, m, fill: torch.where(m, torch.zeros_like(s).fill_(fill), s),
    "smaller of two numbers": lambda s, m, fill: torch.minimum(s, torch.where(m, fill, math.inf)),
    "scattered": lambda s, m, fill: s.masked_scatter(m.expand(s.shape), torch.full_like(s, fill)),
}
PLACES: dict[str, Callable[[Tensor, float], Tensor]] = {  # of the last dimension: one that is hidden wherever it is
    "slice written": _slice_written,
    "selected column": lambda s, fill: s.select_scatter(s.new_full(s.shape[:-1], fill), -1, 1),
    "sliced columns": lambda s, fill: s.slice_scatter(torch.full_like(s[..., 1:2], fill), -1, 1, 2),
    "indexed column": lambda s, fill: s.index_fill(-1, torch.tensor([1]), fill),
    "copied column": lambda s, fill: s.index_copy(-1, torch.tensor([1]), s.new_full((*s.shape[:-1], 1), fill)),
    "column at the end": lambda s, fill: torch.cat([s[..., :-1], s.new_full((*s.shape[:-1], 1), fill)], -1),
    "padded": lambda s, fill: functional.pad(s[..., :-1], (0, 1), value=fill),
}
ORIGINS = {**FINITE, **ANY, **{name: _beside(one) for name, one in PLACES.items()}}
STEPS: dict[str, Callable[[Tensor], Tensor]] = {
    "scaled": lambda x: x * 0.6,
    "divided": lambda x: x / 1.7,
    "tensor of one number": lambda x: torch.full((x.shape[-1],), 0.8) * x,
    "by head": lambda x: x * torch.tensor([0.5, 1.5])[: x.shape[0], None, None],
    "biased": lambda x: x + torch.linspace(-1, 1, x.shape[-1]),
    "bounded": lambda x: x.clamp(min=LOWEST),
    "no larger": lambda x: torch.minimum(x, torch.tensor(9.0)),
    "no smaller": lambda x: torch.maximum(x, torch.tensor(LOWEST)),
    "bounded at a billion": lambda x: torch.maximum(x, torch.tensor(-1e9)),
    "smaller of two": lambda x: torch.minimum(x, x.flip(1) + 0.25),
    "copied": lambda x: x.clone().contiguous(),
    "without the largest": lambda x: x - x.amax(-1, keepdim=True),
}
MOVEMENTS: dict[str, Callable[[Tensor, Callable[[Tensor], Tensor]], Tensor]] = {
    "none": lambda x, read: read(x),
    "flat": lambda x, read: read(x.reshape(-1, x.shape[-1])).reshape(*x.shape[:-1], -1),
    "swapped": lambda x, read: read(x.transpose(0, 1)).transpose(0, 1),
    "wrapped": lambda x, read: read(x[None]).squeeze(0),
    "flipped": lambda x, read: read(x.flip(1)).flip(1),
    "halves": lambda x, read: torch.cat([read(part) for part in x.split([1, x.shape[1] - 1], 1)], 1),
    "joined": lambda x, read: read(torch.cat([x, x * 0.5], 1))[:, : x.shape[1]],
    "stacked": lambda x, read: read(torch.stack([x, x])).select(0, 1),
    "spread": lambda x, read: read(x[None].expand(2, *x.shape))[0],
    "rolled": lambda x, read: read(x.roll(1, 1)).roll(-1, 1),
    "picked": lambda x, read: read(x.index_select(1, torch.arange(x.shape[1]).flip(0))).flip(1),
}
READERS: dict[str, Callable[[Tensor], Tensor]] = {
    "softmax": lambda x: x.softmax(-1),
    "by formula": _by_formula,
    "logarithm": lambda x: x.log_softmax(-1).exp(),
    "sigmoid": lambda x: x.sigmoid(),
    "exp": lambda x: (x * 0.3).exp(),
    "relu": lambda x: x.relu(),
    "largest": lambda x: x.amax(-1, keepdim=True),
    "best": lambda x: x.topk(1, -1).values,
    "sum of exponentials": lambda x: x.logsumexp(-1, keepdim=True),
}
_OVER_ROWS = (
    "largest",
    "best",
    "sum of exponentials",
)  # a row of which nothing is left has no result, of little a wide one
_SOFTMAX = ("softmax", "by formula")
_NOT_FOR = {"without the largest": ("sigmoid", "exp", "relu", "logarithm", "largest", "best", "sum of exponentials")}


@dataclass(frozen=True)
class Spelling:
    """One way to write a masked reading of scores [heads, rows, places]."""

    origin: str
    fill: float
    before: tuple[str, ...]
    after: tuple[str, ...]
    movement: str
    reader: str
    causal: float | None = None  # a second mask, of what is ahead, and what it adds

    def __call__(self, scores: Tensor, hidden: Tensor) -> Tensor:
        x = scores
        for name in self.before:
            x = STEPS[name](x)
        x = ORIGINS[self.origin](x, hidden, self.fill)
        if self.causal is not None:
            ahead = torch.ones(x.shape[-2:], dtype=torch.bool).triu(1)
            x = x + torch.zeros(x.shape[-2:]).masked_fill(ahead, self.causal)
        for name in self.after:
            x = STEPS[name](x)
        return MOVEMENTS[self.movement](x, READERS[self.reader])


def draw_spelling(rng: Random) -> Spelling:
    reader = rng.choice([*READERS, "softmax", "softmax", "by formula"])
    fill = rng.choice(
        (-math.inf, -math.inf, -1e9, LOWEST, -1e4) if reader in ("softmax", "by formula") else (-1e9, LOWEST)
    )
    steps = [name for name in STEPS if reader not in _NOT_FOR.get(name, ()) and (name != "by head" or fill != LOWEST)]
    left_out = {*(FINITE if math.isinf(fill) else ()), *(PLACES if reader in _OVER_ROWS else ())}
    origin = rng.choice([name for name in ORIGINS if name not in left_out])
    if origin == "logarithm":
        fill = -math.inf
    return Spelling(
        origin=origin,
        fill=fill,
        before=tuple(rng.sample(["scaled", "divided", "biased"], rng.choice((0, 0, 1)))),
        after=tuple(rng.sample(steps, rng.choice((0, 0, 1, 1, 2)))),
        movement=rng.choice(list(MOVEMENTS)),
        reader=reader,
        causal=rng.choice((None, None, fill)) if reader in _SOFTMAX else None,
    )


# ---- as a block of random networks ---------------------------------------------------------------------------------


def _fits(shape: Shape) -> bool:
    return len(shape) == 3 and shape[0] <= 2 and min(shape[1:]) >= 2 and math.prod(shape) <= 1024


def _options(rng: Random, shape: Shape) -> Options:
    return {"spelling": rng.randrange(10**6)}


def _made(shape: Shape, /, spelling: int) -> Callable[[Tensor], Tensor]:
    """The mask is constant: whether a computed one hides a place must not hang on a code more or less."""
    drawn = draw_spelling(Random(spelling))
    hidden = torch.rand(1, 1, shape[-1], generator=torch.Generator().manual_seed(spelling)) < 0.4
    hidden[..., 0] = False
    return lambda x: drawn(x, hidden)


MASKS: dict[str, Block] = {"masked_scores": Block(_fits, _options, _made, weight=2.0)}


# ---- a campaign of their own ---------------------------------------------------------------------------------------


class Masked(nn.Module):
    """Attention weights of one spelling; the mask is an input, or is constant."""

    def __init__(self, spelling: Spelling, hidden: Tensor | None) -> None:
        super().__init__()
        self.spelling, self.hidden = spelling, hidden

    def forward(self, scores: Tensor, *given: Tensor) -> Tensor:
        return self.spelling(scores, self.hidden if self.hidden is not None else given[0])


@dataclass(frozen=True)
class Case:
    """A seed's model, and the data it is calibrated and judged on."""

    spelling: Spelling
    computed: bool
    model: Masked
    batches: tuple[tuple[Tensor, ...], ...]
    fresh: tuple[tuple[Tensor, ...], ...]


def draw_case(seed: int) -> Case:
    rng, data = Random(seed), torch.Generator().manual_seed(seed)
    spelling, computed = draw_spelling(rng), rng.random() < 0.6
    heads, rows, places = rng.choice((1, 2)), rng.choice((5, 7)), rng.choice((6, 9))
    whole = spelling.reader not in _OVER_ROWS and not math.isinf(spelling.fill) and rng.random() < 0.5
    sizes = rng.choice([(1, 1, places), (rows, places), (1, rows, places), (heads, rows, places)])

    def mask() -> Tensor:
        hidden = torch.rand(sizes, generator=data) < 0.45
        hidden[..., 0] = False
        if whole and sizes[-2] > 1:
            hidden[..., rng.randrange(rows), :] = True
        return hidden

    constant = None if computed else mask()

    def batch(size: float) -> tuple[Tensor, ...]:
        scores = size * torch.randn(heads, rows, places, generator=data)
        return (scores, mask()) if computed else (scores,)

    model = Masked(spelling, constant).eval()
    return Case(spelling, computed, model, tuple(batch(2.0) for _ in range(8)), tuple(batch(1.3) for _ in range(4)))


def check(seed: int) -> str | None:
    """What is wrong with a seed's model; None if nothing is."""
    case = draw_case(seed)
    try:
        leak, decibels = measured(case.model, case.batches, case.fresh)
    except CortadoError as error:
        return None if _may_refuse(str(error)) else f"refused: {error}"
    except Exception as error:
        return f"crash: {type(error).__name__}: {str(error)[:300]}"
    if leak > 0:
        return f"hidden places have {leak:.4f}"
    if decibels >= ENOUGH_DECIBELS:
        return None
    nowhere = Masked(case.spelling, torch.zeros(1, 1, 1, dtype=torch.bool)).eval()
    _, without = measured(nowhere, *([batch[:1] for batch in batches] for batches in (case.batches, case.fresh)))
    return f"{decibels:.1f} dB, {without:.1f} dB without a mask" if decibels < without - WORSE else None


def measured(
    model: Masked, batches: Sequence[tuple[Tensor, ...]], fresh: Sequence[tuple[Tensor, ...]]
) -> tuple[float, float]:
    """The largest value where torch has 0, and the signal to noise ratio of the rest in decibels: of what lies within
    the range that calibration saw, as everything beyond is its end."""
    found = lower_on(model, list(batches))
    with torch.no_grad():
        seen, wanted = (torch.cat([model(*batch).float() for batch in some]) for some in (batches, fresh))
    got = torch.cat([found.outputs(*batch)[0].float() for batch in fresh])
    known = seen[seen.isfinite() & (seen.abs() < 1e6)]
    finite = (wanted == 0) | ((wanted >= known.min()) & (wanted <= known.max()))
    gone = finite & (wanted == 0)
    noise = float((wanted - got)[finite].double().square().mean())
    signal = float(wanted[finite].double().square().mean())
    leak = float(got[gone].abs().max()) if bool(gone.any()) else 0.0
    return leak, 10 * math.log10(signal / noise) if noise else math.inf


def _may_refuse(text: str) -> bool:
    """Whether it is about rows that masks hide entirely, of which nothing can be said."""
    return any(
        one in text
        for one in ("fully masked row", "may hide a whole row", "that they hide entirely", "hides all of row")
    )
