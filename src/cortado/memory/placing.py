"""Placing buffers one after the other, in some order, each where it first or best fits."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from cortado.memory.bounds import BoundModel, ceil_div


# Placing in a given order
@dataclass(frozen=True, slots=True)
class Placement:
    """Offsets in units, and the peak in bytes."""

    at: list[int]
    peak: int


_Fit = Callable[[list[tuple[int, int]], int], int]


def first_fit(forbidden: list[tuple[int, int]], step: int) -> int:
    """The lowest multiple of step strictly inside none of the open intervals, which come sorted."""
    at = 0
    for low, high in forbidden:
        if at <= low:
            break
        if at < high:
            at = high if step == 1 else ceil_div(high, step) * step
    return at


def best_fit(forbidden: list[tuple[int, int]], step: int) -> int:
    """The place that leaves the least room between two open intervals; above all of them if there is none."""
    at, best, least = 0, -1, 0
    for low, high in forbidden:
        if at <= low and (best < 0 or low - at < least):
            best, least = at, low - at
        if at < high:
            at = high if step == 1 else ceil_div(high, step) * step
    return at if best < 0 else best


def place_in_order(model: BoundModel, order: Iterable[int], limit: int, fit: _Fit = first_fit) -> Placement | None:
    """Place the buffers one by one where they fit; None as soon as the peak passes the limit."""
    at = [-1] * len(model.size)
    peak = 0
    for k in order:
        forbidden = [(at[i] - up, at[i] + down) for i, up, down in model.near[k] if at[i] >= 0]
        forbidden.sort()
        here = at[k] = fit(forbidden, model.step[k])
        top = here * model.unit + model.bytes[k]
        if top > peak:
            if top > limit:
                return None
            peak = top
    return Placement(at, peak)


def placing_orders(model: BoundModel) -> Iterator[list[int]]:
    """Orders that tend to pack well, the best first."""
    size, every = model.size, range(len(model.size))
    crowd = [0] * len(size)
    for clique in model.cliques:
        load = sum([size[k] for k in clique])
        for k in clique:
            crowd[k] = max(crowd[k], load)
    area = [size[k] * len(model.near[k]) for k in every]
    for key in (
        [(-size[k], -area[k]) for k in every],
        [(-crowd[k], -size[k]) for k in every],
        [(-area[k], -size[k]) for k in every],
        [(-len(model.near[k]), -size[k]) for k in every],
        [(-crowd[k], -area[k]) for k in every],
    ):
        order = sorted(every, key=key.__getitem__)
        if model.shares:
            yield _outputs_first(model, order)
        yield order


def _outputs_first(model: BoundModel, order: Iterable[int]) -> list[int]:
    """The same order, but an input waits for the outputs laid over it: they need the room below it."""
    result: list[int] = []
    seen: set[int] = set()
    for first in order:
        stack = [] if first in seen else [first]
        seen.add(first)
        while stack:
            above = model.near[stack[-1]]
            output = next((i for i, _, down in above if down < model.size[i] and i not in seen), None)
            if output is None:
                result.append(stack.pop())
            else:
                seen.add(output)
                stack.append(output)
    return result
