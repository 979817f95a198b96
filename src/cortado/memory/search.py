"""The search for a plan that meets its lower bound: greedy orders, restarts, and an exact search that can prove there
is none.

A plan is built by placing buffers one after the other, in some order, each at its first or best fit.
"""

import itertools
import operator
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from cortado.memory.bounds import NO_LIMIT, BoundModel, ceil_div
from cortado.memory.problem import Effort, Time

# The work of a plan
WORK_PER_SECOND = 150_000
"""Work is counted in buffers visited; this many take a slow machine about a second."""


QUICK_WORK = 1_500
"""Work of a quick plan after its first few orders: about a millisecond."""


class _OutOfWorkError(Exception):
    """The work is used up."""


class Budget:
    """The work left. Counted in steps, not in time, so that results don't depend on the machine."""

    def __init__(self, work: int) -> None:
        self.total = work
        self._left = work
        self._reserve = 0

    @property
    def spent(self) -> int:
        """The work done, at most the total: work that would have exceeded it was not done."""
        return self.total - max(0, self._left)

    def allow(self, work: int) -> None:
        """Lets the next phase spend at most this much."""
        self._reserve = max(0, self._left - work)

    def spend(self, work: int) -> None:
        """Counts work done; raises if the phase has none left."""
        self._left -= work
        if self._left < self._reserve:
            raise _OutOfWorkError


# Placing in a given order
@dataclass(frozen=True, slots=True)
class Placement:
    """Offsets in units, and the peak in bytes."""

    at: list[int]
    peak: int


_Fit = Callable[[list[tuple[int, int]], int], int]


def first_fit(forbidden: list[tuple[int, int]], step: int) -> int:
    """Returns the lowest multiple of step that is inside none of the open intervals, which are sorted."""
    at = 0
    for low, high in forbidden:
        if at <= low:
            break
        if at < high:
            at = high if step == 1 else ceil_div(high, step) * step
    return at


def best_fit(forbidden: list[tuple[int, int]], step: int) -> int:
    """Returns the offset in the gap between two open intervals that leaves the least space; above all of them if there
    is no gap."""
    at, best, least = 0, -1, 0
    for low, high in forbidden:
        if at <= low and (best < 0 or low - at < least):
            best, least = at, low - at
        if at < high:
            at = high if step == 1 else ceil_div(high, step) * step
    return at if best < 0 else best


def place_in_order(model: BoundModel, order: Iterable[int], limit: int, fit: _Fit = first_fit) -> Placement | None:
    """Places the buffers one by one where they fit; None as soon as the peak exceeds the limit."""
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
    """Yields orders that tend to pack well, the best first."""
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
    """Returns the same order, except that an input comes after the outputs laid over it: they need the space below
    it."""
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


# Orders, restarts, exact search
@dataclass(frozen=True, slots=True)
class _Found:
    """The best placement of a model, and what is proven beyond its lower bound (0 if nothing)."""

    placement: Placement
    proven: int


_ROUNDS = (0.02, 0.15, 0.83)
"""The share of the work for each round of restarts and search: easy problems end early, hard ones get two more
rounds."""


_RESTARTS_SHARE = 0.25
"""The share of a round for restarts; the exact search has the rest."""


def solve(model: BoundModel, goal: int, budget: Budget, effort: Effort) -> _Found:
    """Searches a placement with a peak of at most the goal, which the whole problem needs anyway."""
    starts: list[tuple[list[int], Placement]] = []
    for order in placing_orders(model):
        placement = place_in_order(model, order, NO_LIMIT, best_fit)
        assert placement is not None
        if placement.peak <= goal:
            return _Found(placement, 0)
        starts.append((order, placement))
    starts.sort(key=lambda start: start[1].peak)
    best = starts[0][1]
    if effort is Effort.QUICK:
        return _Found(_restarts(model, starts, best, goal, budget, random.Random(0)), 0)
    for number, share in enumerate(_ROUNDS):
        work = int(budget.total * share)
        budget.allow(int(work * _RESTARTS_SHARE))
        best = _restarts(model, starts, best, goal, budget, random.Random(number))
        budget.allow(work)
        best, exhausted = _exact(model, best, goal, budget)
        if exhausted:
            return _Found(best, best.peak)
        if best.peak <= goal:
            break
    return _Found(best, 0)


_WALK = 200
"""Moves after which a walk restarts from another order."""


def _restarts(
    model: BoundModel,
    starts: list[tuple[list[int], Placement]],
    best: Placement,
    goal: int,
    budget: Budget,
    rng: random.Random,
) -> Placement:
    """Walks randomly through orders, moving single buffers, mostly one at the peak to an earlier position; returns the
    best."""
    try:
        for step in itertools.count():
            if best.peak <= goal:
                break
            if step % _WALK == 0:
                order, current = starts[step // _WALK % len(starts)]
            trial = _move_one(model, order, current, rng)
            budget.spend(2 * len(order) * model.toll)
            placement = place_in_order(model, trial, current.peak)
            if placement is not None:
                order, current = trial, placement
                best = min(best, current, key=lambda p: p.peak)
    except _OutOfWorkError:
        pass
    return best


def _move_one(model: BoundModel, order: list[int], current: Placement, rng: random.Random) -> list[int]:
    """Returns a copy of the order with one buffer moved."""
    trial = order.copy()
    if rng.random() < 0.7:
        tops = [k for k, at in enumerate(current.at) if at * model.unit + model.bytes[k] == current.peak]
        turn = trial.index(rng.choice(tops))
        trial.insert(rng.randrange(turn + 1), trial.pop(turn))
    else:
        trial.insert(rng.randrange(len(trial)), trial.pop(rng.randrange(len(trial))))
    return trial


def _exact(model: BoundModel, best: Placement, goal: int, budget: Budget) -> tuple[Placement, bool]:
    """Lowers the peak until it reaches the goal, the work is used up, or nothing lower exists (only then True)."""
    try:
        while best.peak > goal:
            at = Descent(model, best.peak - 1, budget).run()
            if at is None:
                return best, True
            best = Placement(at, model.peak(at))
    except _OutOfWorkError:
        pass
    return best, False


_DEEPEST = 120
"""The search recurses once for each buffer: it is not tried on connected parts with more buffers than this."""


class Descent:
    """An exact search for a placement below a cap: it finds one, or none exists.

    It looks for the placement with the lowest sum of offsets. In that placement each buffer is at 0 or at its distance
    above an earlier buffer by (offset + shift, rank), and none can move down by itself. So it suffices to choose the
    next buffer in that order and to place it as low as the earlier ones allow; a branch is pruned when some buffer
    could still move down whatever the remaining choices are.
    """

    def __init__(self, model: BoundModel, cap: int, budget: Budget) -> None:
        if not model.rank:
            raise _OutOfWorkError  # without such an order, a search that finds nothing proves nothing
        self.model, self.budget, self.shift, self.rank = model, budget, model.shift, model.rank
        steps = zip(model.bytes, model.step, strict=True)
        self.high = [(cap - size) // model.unit // step * step for size, step in steps]
        self.tops = [high + size for high, size in zip(self.high, model.size, strict=True)]
        self.at = [-1] * len(model.size)
        self.reach = [
            max([1, *(up + self.shift[i] - self.shift[k] for i, up, _ in rules)]) for k, rules in enumerate(model.near)
        ]
        self.failed: dict[tuple[tuple[int, ...], tuple[int, ...]], tuple[int, int]] = {}
        self.hopeless: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
        self._index_moments()

    def _index_moments(self) -> None:
        """Indexes for each buffer the moments in which it counts alone, and those in which it counts as part of a
        group."""
        self.alone: list[list[tuple[int, int]]] = [[] for _ in self.at]
        self.joint: list[list[tuple[int, int]]] = [[] for _ in self.at]
        self.groups = 0
        for moment, (alone, groups) in enumerate(self.model.parts):
            for k in alone:
                self.alone[k].append((moment, self.model.size[k]))
            for group in groups:
                for k in range(group.bit_length()):
                    if group >> k & 1:
                        self.joint[k].append((moment, self.groups))
                self.groups += 1

    def run(self) -> list[int] | None:
        """Returns the offsets, or None if nothing fits. Raises when the work is used up."""
        core, easy = self._peel()
        parts = self._split(core)
        if any(len(part) > _DEEPEST for part in parts):
            raise _OutOfWorkError
        if not all(self._fits(part, [0] * len(self.at), -NO_LIMIT, -1) for part in parts):
            return None
        for k in reversed(easy):
            forbidden = [(self.at[i] - up, self.at[i] + down) for i, up, down in self.model.near[k] if self.at[i] >= 0]
            self.at[k] = first_fit(sorted(forbidden), self.model.step[k])
        return self.at

    def _peel(self) -> tuple[list[int], list[int]]:
        """Repeatedly removes buffers that find a place wherever the others are: (the core, those removed)."""
        near, step = self.model.near, self.model.step
        spare = [high // s + 1 for high, s in zip(self.high, step, strict=True)]
        for k, rules in enumerate(near):
            spare[k] -= sum((up + down - 2) // step[k] + 1 for _, up, down in rules)
        easy = [k for k, places in enumerate(spare) if places > 0]
        taken = set(easy)
        for k in easy:
            for i, up, down in near[k]:
                spare[i] += (up + down - 2) // step[i] + 1
                if spare[i] > 0 and i not in taken:
                    taken.add(i)
                    easy.append(i)
        return [k for k in range(len(near)) if k not in taken], easy

    def _split(self, group: list[int]) -> list[list[int]]:
        """Splits a group, sorted by birth, into parts that are never live together: each can be placed without the
        others."""
        buffers = self.model.buffers
        pieces: list[list[int]] = []
        end: Time | None = None
        for k in group:
            buffer = buffers[k]
            if end is None or buffer.start >= end:
                pieces.append([k])
                end = buffer.end
            else:
                pieces[-1].append(k)
                end = max(end, buffer.end)
        return pieces

    def _fits(self, group: list[int], low: list[int], floor: int, last: int) -> bool:
        """Places a group above what is placed. `low` holds the lowest offsets that are left; by (offset + shift, rank)
        none of them can come before (floor, last), the last buffer placed."""
        self.budget.spend(len(group) * self.model.toll)
        least = self._least(group, low, floor)
        if least is None or not self._room(group, least):
            return False
        low = low.copy()
        rest = self._settle(group, low, least)
        if rest is None:
            return False
        return all(self._branch(piece, low, floor, last) for piece in self._split(rest))

    def _least(self, group: list[int], low: list[int], floor: int) -> list[int] | None:
        """Returns the lowest offsets that the order leaves; None if one is too high."""
        least = low.copy()
        for k in group:
            at = floor - self.shift[k]
            if at > low[k]:
                step = self.model.step[k]
                least[k] = at if step == 1 else ceil_div(at, step) * step
            if least[k] > self.high[k]:
                return None
        return least

    def _room(self, group: list[int], least: list[int]) -> bool:
        """Whether, at every moment and above every height, the buffers there can still fit below the cap."""
        load = [0] * len(self.model.parts)
        top = load.copy()
        joined = [0] * self.groups
        span = self.model.span
        for k in sorted(group, key=least.__getitem__, reverse=True):
            at, mine = least[k], self.tops[k]
            for moment, size in self.alone[k]:
                load[moment] += size
                if mine > top[moment]:
                    top[moment] = mine
                if at + load[moment] > top[moment]:
                    return False
            for moment, number in self.joint[k]:
                before = joined[number]
                joined[number] = before | 1 << k
                load[moment] += span(joined[number]) - span(before)
                top[moment] = max(mine, top[moment])
                if at + load[moment] > top[moment]:
                    return False
        return True

    def _settle(self, group: list[int], low: list[int], least: list[int]) -> list[int] | None:
        """Fixes at its lowest offset every buffer that can't be in the way of others; returns the rest, or None if one
        should be lower.

        Fixing one raises `low` of others, though never above `least`: they can't move down to where it is.
        """
        left = set(group)
        settled = -1
        while settled:
            settled = 0
            for k in group:
                if k not in left or self._is_in_the_way(k, left, low, least):
                    continue
                if low[k] < least[k]:
                    return None
                self.at[k] = low[k]
                self._raise(k, low)
                left.remove(k)
                settled += 1
        return [k for k in group if k in left]

    def _is_in_the_way(self, k: int, left: set[int], low: list[int], least: list[int]) -> bool:
        """Whether k at its lowest offset could keep one of the remaining buffers from its own."""
        at = low[k]
        for i, up, _ in self.model.near[k]:  # noqa: SIM110, the search spends its time here and any() takes twice as long
            if least[i] < at + up and i in left:
                return True
        return False

    def _raise(self, k: int, low: list[int]) -> None:
        """Raises the lowest offsets of all others to their distance above k, as if they came later."""
        at = low[k]
        for i, up, _ in self.model.near[k]:
            if at + up > low[i]:
                step = self.model.step[i]
                low[i] = at + up if step == 1 else ceil_div(at + up, step) * step

    def _branch(self, group: list[int], low: list[int], floor: int, last: int) -> bool:
        """Tries each buffer that can come next."""
        keys = [(low[k] + self.shift[k], self.rank[k]) for k in group]
        members, state = tuple(group), tuple([low[k] for k in group])
        free = min(keys) > (floor, last)
        if free:
            floor, last = min(keys)[0], -1  # the earlier buffers don't matter any more
        hopeless = self.hopeless.setdefault(members, [])
        least = state if free else tuple([max(low[k], floor - self.shift[k]) for k in group])
        if any(all(map(operator.ge, least, bad)) for bad in hopeless):
            return False
        failed = self.failed.get((members, state))
        if failed is not None and failed <= (floor, last):
            return False
        # A buffer that fits entirely below all others comes before them.
        ceiling = min([key[0] + self.reach[k] for key, k in zip(keys, group, strict=True)])
        choices = [(key[0], -self.model.size[k], k) for key, k in zip(keys, group, strict=True) if key > (floor, last)]
        for key, _, k in sorted(choices):
            if key >= ceiling:
                break
            if self._fits_above(k, group, low, key):
                return True
        if free:
            hopeless[:] = [bad for bad in hopeless if not all(map(operator.ge, bad, state))][-15:] + [state]
        else:
            self.failed[members, state] = floor, last
        return False

    def _fits_above(self, k: int, group: list[int], low: list[int], floor: int) -> bool:
        """Puts k at its lowest offset and the rest of the group above it."""
        self.at[k] = low[k]
        rest = [i for i in group if i != k]
        raised = low.copy()
        self._raise(k, raised)
        return all(self._fits(piece, raised, floor, self.rank[k]) for piece in self._split(rest))
