"""Where each buffer lies in the arena: Problem -> Plan, with a proven lower bound.

A buffer has a size, an alignment and a lifetime; two buffers that live at the same time may not share a byte, except
that an overlay lets an output lie over its input as long as it starts `lead` bytes before it. `plan` looks for the
offsets with the lowest peak, `lower_bound` says what no plan can beat, `validate` checks a plan without knowing how it
was found. docs/memory-planning.md explains the rules, the CSV format and why the search is exact.
"""

import csv
import enum
import graphlib
import io
import itertools
import operator
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cortado.errors import CortadoError

Time = tuple[int, int]
"""A point on the two-level clock: (stage, position of the step inside it), compared in that order."""


# ---------------------------------------------------------------------------------------------------------------------
# Problem and plan

_ALIGN = 16
"""What buffers are aligned to unless they say otherwise: the widest load or store of any Cortex-M."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """`size` bytes that hold data in the half-open interval [start, end) and begin at a multiple of `align`."""

    name: str
    size: int
    start: Time
    end: Time
    align: int = _ALIGN


@dataclass(frozen=True, slots=True)
class Overlay:
    """`out` and `inp` may share bytes while both live if offset(out) + lead <= offset(inp).

    `lead` is the number of bytes by which writing `out` may run ahead of the last read of `inp`: 0 means exactly in
    place (or lower), a negative lead that much of `inp` is dead before the first byte of `out` is written.
    """

    out: str
    inp: str
    lead: int


@dataclass(frozen=True, slots=True)
class Problem:
    """What has to be placed. Checked on construction."""

    buffers: tuple[Buffer, ...]
    overlays: tuple[Overlay, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "buffers", tuple(self.buffers))
        object.__setattr__(self, "overlays", tuple(self.overlays))
        names: set[str] = set()
        for buffer in self.buffers:
            if fault := _fault(buffer):
                raise CortadoError(fault[1])
            if buffer.name in names:
                raise CortadoError(f"two buffers are called '{buffer.name}': give each buffer its own name")
            names.add(buffer.name)
        pairs: set[tuple[str, str]] = set()
        for overlay in self.overlays:
            _check_overlay(overlay, names)
            if (overlay.out, overlay.inp) in pairs:
                raise CortadoError(
                    f"'{overlay.out}' is laid over '{overlay.inp}' twice: keep the overlay with the lower lead"
                )
            pairs.add((overlay.out, overlay.inp))


def _fault(buffer: Buffer) -> tuple[str, str] | None:
    """What makes a buffer impossible to plan: the field and a message."""
    if not buffer.name or buffer.name != buffer.name.strip():
        return "name", f"found a buffer called '{buffer.name}': expected a name without space around it"
    if buffer.size < 0:
        return "size", f"buffer '{buffer.name}' has size {buffer.size}: expected 0 or more bytes"
    if not buffer.start < buffer.end:
        lifetime = f"from {buffer.start} to {buffer.end}"
        return "end", f"buffer '{buffer.name}' lives {lifetime}: expected an end, which is exclusive, after the start"
    if buffer.align < 1 or buffer.align & (buffer.align - 1):
        return "align", f"buffer '{buffer.name}' has alignment {buffer.align}: expected a power of two"
    return None


def _check_overlay(overlay: Overlay, names: set[str]) -> None:
    """Refuse an overlay of something unknown, or of a buffer over itself."""
    for name in (overlay.out, overlay.inp):
        if name not in names:
            raise CortadoError(
                f"the overlay of '{overlay.out}' over '{overlay.inp}' names '{name}', which is no buffer of the problem"
            )
    if overlay.out == overlay.inp:
        raise CortadoError(f"'{overlay.out}' is laid over itself: an overlay needs two different buffers")


@dataclass(frozen=True, slots=True)
class Spent:
    """The work of a search, and what it may do at most; `exhausted`: it ended there, and better may exist.

    Work is counted in what a search looks at, never in seconds: the same problem ends the same way on every machine.
    """

    work: int
    bound: int
    exhausted: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """An offset for every buffer. `lower_bound` is proven: no plan of the problem has a lower peak."""

    offsets: Mapping[str, int]
    peak: int
    lower_bound: int
    optimal: bool
    spent: Spent = Spent(0, 0, exhausted=False)

    @property
    def gap(self) -> int:
        """Bytes between the peak and what is proven to be needed; 0 exactly when the plan is proven optimal."""
        return self.peak - self.lower_bound


class Effort(enum.Enum):
    """How hard `plan` tries."""

    QUICK = enum.auto()
    """A few orders and a short walk, a millisecond or so: for a search that plans hundreds of times."""
    FULL = enum.auto()
    """Restarts, then the exact search, until the plan is proven optimal or the work is used up."""


# ---------------------------------------------------------------------------------------------------------------------
# The two questions


def lower_bound(problem: Problem) -> int:
    """Bytes that every plan of this problem needs. Proven, not always reachable."""
    return max((_bound(_Model(part, problem.overlays)) for part in _time_parts(problem.buffers)), default=0)


def plan(problem: Problem, seconds: float = 2.0, effort: Effort = Effort.FULL) -> Plan:
    """Place every buffer, with a peak as low as the effort finds. The same problem always gives the same plan.

    `seconds` is turned into a fixed amount of work, so that a slow or busy machine finds the same plan as a fast one.
    """
    models = [_Model(part, problem.overlays) for part in _time_parts(problem.buffers)]
    bounds = [_bound(model, effort is Effort.FULL) for model in models]
    proven = goal = max(bounds, default=0)
    offsets = {buffer.name: 0 for buffer in problem.buffers}
    budget = _Budget(_QUICK_WORK)
    if effort is Effort.FULL:
        budget = _Budget(int(seconds * _WORK_PER_SECOND))
    # The hardest stretch goes first: the others then only have to stay below its peak.
    for _, model in sorted(zip(bounds, models, strict=True), key=lambda pair: -pair[0]):
        found = _solve(model, goal, budget, effort)
        proven = max(proven, found.proven)
        goal = max(goal, found.placement.peak)
        offsets.update(zip(model.names, (at * model.unit for at in found.placement.at), strict=True))
    peak = max((offsets[b.name] + b.size for b in problem.buffers if b.size), default=0)
    return Plan(offsets, peak, proven, peak == proven, Spent(budget.spent, budget.total, exhausted=peak != proven))


def _time_parts(buffers: Iterable[Buffer]) -> list[list[Buffer]]:
    """Groups of buffers that share no moment with another group, each in order of birth; empty buffers are left out."""
    parts: list[list[Buffer]] = []
    end: Time | None = None
    for buffer in sorted((b for b in buffers if b.size), key=lambda b: (b.start, b.end)):
        if end is None or buffer.start >= end:
            parts.append([])
            end = buffer.end
        parts[-1].append(buffer)
        end = max(end, buffer.end)
    return parts


# ---------------------------------------------------------------------------------------------------------------------
# The solver's view of a problem

_MOST_ORDERED = 6
"""Groups of overlaid buffers up to this size have all their orders tried for the lower bound."""
_MOST_STACKED = 14
"""Live sets of mixed alignments up to this size have all their orders tried for the lower bound."""
_NO_LIMIT = 1 << 62
"""More than any number of bytes or units."""


def _ceil_div(value: int, divisor: int) -> int:
    """value / divisor, rounded up."""
    return -(-value // divisor)


class _Model:
    """One stretch of time in which something is always live, counted in units of its smallest alignment.

    Every rule between two buffers that live together has one form, a pair of distances: `near[k]` holds (i, up, down)
    when i has to lie at least `up` above k, or else k at least `down` above i (measured between their offsets).
    The distance upwards from a buffer is its size, or the lead if the other one is an input it may lie over.
    """

    def __init__(self, buffers: Sequence[Buffer], overlays: Iterable[Overlay]) -> None:
        self.buffers = buffers
        self.overlays = overlays
        self.names = [b.name for b in buffers]
        self.unit = min(b.align for b in buffers)
        self.bytes = [b.size for b in buffers]
        self.size = [_ceil_div(b.size, self.unit) for b in buffers]
        self.step = [b.align // self.unit for b in buffers]
        self.near: list[list[tuple[int, int, int]]] = [[] for _ in buffers]
        self.cliques: list[list[int]] = []
        """The largest sets of buffers that live at one moment."""
        self.shares: dict[int, list[int]] = {}
        """For a buffer with overlays: the buffers it may share bytes with."""
        self._spans: dict[int, int] = {}
        self._leads = {(o.out, o.inp): _ceil_div(o.lead, self.unit) for o in overlays}
        self._sweep()
        self.toll = max(1, sum(map(len, self.near)) // (_USUAL_PAIRS * len(self.near)))
        """The work that looking at one buffer, and so at those it lives together with, counts as."""
        self.shift = self._find_shift()
        self.rank = self._find_rank()
        """Sorted by (offset + shift, rank), the buffers of any plan lie at their distances above all those before.
        Both empty if that can't be had; it takes overlays that run in a circle, or leads no real loop has."""
        self.parts = [self._divide(clique) for clique in self.cliques]

    def _sweep(self) -> None:
        """Walk through time; meet every pair that lives together and every largest live set."""
        live: list[int] = []
        for k, buffer in enumerate(self.buffers):
            still = [i for i in live if self.buffers[i].end > buffer.start]
            if len(still) < len(live):
                self.cliques.append(live)
            for i in still:
                self._meet(i, k)
            live = [*still, k]
        self.cliques.append(live)

    def _meet(self, i: int, k: int) -> None:
        """Write down the rule between two buffers that live together."""
        up, down = self.size[i], self.size[k]
        if self._leads:
            name_i, name_k = self.names[i], self.names[k]
            up = min(up, self._leads.get((name_i, name_k), up))
            down = min(down, self._leads.get((name_k, name_i), down))
            if up < self.size[i] or down < self.size[k]:
                self.shares.setdefault(i, []).append(k)
                self.shares.setdefault(k, []).append(i)
        if up + down > 1:  # else no difference of offsets is forbidden
            self.near[i].append((k, up, down))
            self.near[k].append((i, down, up))

    def _find_shift(self) -> list[int]:
        """Numbers c such that, of two buffers at their distance, the one with the lower offset + c is the lower one.

        With c = 0 that holds unless a lead is negative. It asks for c[k] - c[i] <= up for every rule: shortest paths.
        Nothing, if there are no such numbers.
        """
        shift = [0] * len(self.size)
        for _ in range(len(shift) + 1):
            settled = True
            for k, rules in enumerate(self.near):
                least = min([shift[i] + up for i, up, _ in rules], default=0)
                if least < shift[k]:
                    shift[k], settled = least, False
            if settled:
                return shift
        return []

    def _find_rank(self) -> list[int]:
        """A rank that tells which of two buffers is the lower one at equal offset + shift; nothing if none does."""
        if not self.shift:
            return []
        if not self.shares:
            return list(range(len(self.size)))
        before: dict[int, list[int]] = {}
        for k, rules in enumerate(self.near):
            before[k] = [i for i, _, down in rules if down + self.shift[k] == self.shift[i]]
        try:
            ordered = list(graphlib.TopologicalSorter(before).static_order())
        except graphlib.CycleError:
            return []
        return sorted(range(len(ordered)), key=ordered.__getitem__)

    def _divide(self, clique: list[int]) -> tuple[list[int], list[int]]:
        """Split a live set into buffers that share with none and groups (bit sets) connected by overlays.

        Groups share no byte with each other, so what each of them covers adds up. A group too large to try all its
        orders loses its most connected buffers, which can only lower the bound.
        """
        alone = [k for k in clique if k not in self.shares]
        groups: list[int] = []
        left = {k for k in clique if k in self.shares}
        most = _MOST_ORDERED if self.rank else 1
        while left:
            group = self._connected(min(left), left)
            if len(group) > most:
                left.remove(max(group, key=lambda k: (len(left.intersection(self.shares[k])), -self.size[k], k)))
                continue
            left.difference_update(group)
            if len(group) == 1:
                alone += group
            else:
                groups.append(sum(1 << k for k in group))
        return alone, groups

    def _connected(self, first: int, among: set[int]) -> list[int]:
        """The buffers that overlays connect with the first."""
        found = [first]
        for k in found:
            found += [i for i in self.shares[k] if i in among and i not in found]
        return found

    def peak(self, at: Sequence[int]) -> int:
        """The highest byte in use, plus one."""
        return max(p * self.unit + size for p, size in zip(at, self.bytes, strict=True))

    def span(self, members: int) -> int:
        """The fewest units that the buffers of a bit set cover when all of them live at once."""
        known = self._spans.get(members)
        if known is None:
            known = self._spans[members] = self._least_span([k for k in range(len(self.size)) if members >> k & 1])
        return known

    def _least_span(self, members: list[int]) -> int:
        """Try the members in every order, each as low as those before it allow."""
        distance = {(k, i): up for k in members for i, up, _ in self.near[k]}
        best = sum(self.size[k] for k in members)

        def stack(low: dict[int, int], top: int) -> None:
            nonlocal best
            if top < best and not low:
                best = top
            if top >= best:
                return
            for k, at in low.items():
                rest = {i: max(v, at + distance.get((k, i), -at)) for i, v in low.items() if i != k}
                stack(rest, max(top, at + self.size[k]))

        stack(dict.fromkeys(members, 0), 0)
        return best


def _bound(model: _Model, thorough: bool = True) -> int:
    """The most that any moment needs; mixed alignments cost a moment's thought each, unless told not to be thorough."""
    best = max(_moment_bounds(model))
    if thorough and any(step > 1 for step in model.step):
        # Coarse alignments round more, so they are also looked at alone.
        for align in sorted({b.align for b in model.buffers})[1:]:
            coarse = [b for b in model.buffers if b.align >= align]
            best = max(best, *_moment_bounds(_Model(coarse, model.overlays)))
        best = _stacked_bound(model, best)
    return best


def _moment_bounds(model: _Model) -> list[int]:
    """For each moment: the units its buffers cover, less the largest rest of a unit that the topmost may leave."""
    unit, size = model.unit, model.size
    bounds: list[int] = []
    for alone, groups in model.parts:
        covered = sum([size[k] for k in alone])
        members = alone
        if groups:
            covered += sum(model.span(group) for group in groups)
            members = alone + [k for group in groups for k in range(group.bit_length()) if group >> k & 1]
        slack = max([size[k] * unit - model.bytes[k] for k in members])
        bounds.append(covered * unit - slack)
    return bounds


def _stacked_bound(model: _Model, best: int) -> int:
    """Raise a bound by what the buffers without overlays of each moment need at least, in any order."""
    for alone, _ in model.parts:
        blocks = [(model.bytes[k], model.step[k] * model.unit) for k in alone]
        # Padding as much as can be bounds what an order can cost: most moments can't raise the bound.
        if len(blocks) <= _MOST_STACKED and sum(size + align - 1 for size, align in blocks) > best:
            best = max(best, _least_stack(blocks))
    return best


def _least_stack(blocks: list[tuple[int, int]]) -> int:
    """The least height of a stack of (size, align) blocks: the lowest top of each subset, from those one smaller."""
    tops = [_NO_LIMIT] * (1 << len(blocks))
    tops[0] = 0
    for done, top in enumerate(tops):
        for k, (size, align) in enumerate(blocks):
            if not done >> k & 1:
                with_k = done | 1 << k
                tops[with_k] = min(tops[with_k], _ceil_div(top, align) * align + size)
    return tops[-1]


# ---------------------------------------------------------------------------------------------------------------------
# How much work a plan may cost

_WORK_PER_SECOND = 150_000
"""Chosen so that a slow machine does a second's work in about a second; work is counted in buffers looked at."""
_USUAL_PAIRS = 40
"""Buffers that live together with one buffer; where it is more, each buffer looked at counts as so much more work."""
_QUICK_WORK = 1_500
"""Work of a quick plan after its first few orders: about a millisecond."""


class _OutOfWorkError(Exception):
    """The work is used up."""


class _Budget:
    """Work left to do. Counted in steps, not in time, so that results don't depend on the machine."""

    def __init__(self, work: int) -> None:
        self.total = work
        self._left = work
        self._reserve = 0

    @property
    def spent(self) -> int:
        """The work done, at most the total: what would have exceeded it was not done."""
        return self.total - max(0, self._left)

    def allow(self, work: int) -> None:
        """Let the next phase spend at most this much."""
        self._reserve = max(0, self._left - work)

    def spend(self, work: int) -> None:
        """Count work done; raises when the phase has no more."""
        self._left -= work
        if self._left < self._reserve:
            raise _OutOfWorkError


# ---------------------------------------------------------------------------------------------------------------------
# Placing in a given order


@dataclass(frozen=True, slots=True)
class _Placement:
    """Offsets in units, and the peak in bytes."""

    at: list[int]
    peak: int


_Fit = Callable[[list[tuple[int, int]], int], int]


def _first_fit(forbidden: list[tuple[int, int]], step: int) -> int:
    """The lowest multiple of step strictly inside none of the open intervals, which come sorted."""
    at = 0
    for low, high in forbidden:
        if at <= low:
            break
        if at < high:
            at = high if step == 1 else _ceil_div(high, step) * step
    return at


def _best_fit(forbidden: list[tuple[int, int]], step: int) -> int:
    """The place that leaves the least room between two open intervals; above all of them if there is none."""
    at, best, least = 0, -1, 0
    for low, high in forbidden:
        if at <= low and (best < 0 or low - at < least):
            best, least = at, low - at
        if at < high:
            at = high if step == 1 else _ceil_div(high, step) * step
    return at if best < 0 else best


def _place(model: _Model, order: Iterable[int], limit: int, fit: _Fit = _first_fit) -> _Placement | None:
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
    return _Placement(at, peak)


def _orders(model: _Model) -> Iterator[list[int]]:
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


def _outputs_first(model: _Model, order: Iterable[int]) -> list[int]:
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


# ---------------------------------------------------------------------------------------------------------------------
# Orders, restarts, exact search


@dataclass(frozen=True, slots=True)
class _Found:
    """The best placement of a model, and what is proven beyond its lower bound (0 if nothing)."""

    placement: _Placement
    proven: int


_ROUNDS = (0.02, 0.15, 0.83)
"""Share of the work that each round of restarts and search gets: easy problems end early, hard ones try twice more."""
_RESTARTS_SHARE = 0.25
"""Share of a round that goes into restarts; the search has the rest."""


def _solve(model: _Model, goal: int, budget: _Budget, effort: Effort) -> _Found:
    """Look for a placement with a peak of at most the goal, which the whole problem needs anyway."""
    starts: list[tuple[list[int], _Placement]] = []
    for order in _orders(model):
        placement = _place(model, order, _NO_LIMIT, _best_fit)
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
"""Moves after which a walk starts anew from another order."""


def _restarts(
    model: _Model,
    starts: list[tuple[list[int], _Placement]],
    best: _Placement,
    goal: int,
    budget: _Budget,
    rng: random.Random,
) -> _Placement:
    """Walk through orders by moving single buffers, mostly one at the peak to an earlier turn; keep the best."""
    try:
        for step in itertools.count():
            if best.peak <= goal:
                break
            if step % _WALK == 0:
                order, current = starts[step // _WALK % len(starts)]
            trial = _move_one(model, order, current, rng)
            budget.spend(2 * len(order) * model.toll)
            placement = _place(model, trial, current.peak)
            if placement is not None:
                order, current = trial, placement
                best = min(best, current, key=lambda p: p.peak)
    except _OutOfWorkError:
        pass
    return best


def _move_one(model: _Model, order: list[int], current: _Placement, rng: random.Random) -> list[int]:
    """A copy of the order with one buffer moved."""
    trial = order.copy()
    if rng.random() < 0.7:
        tops = [k for k, at in enumerate(current.at) if at * model.unit + model.bytes[k] == current.peak]
        turn = trial.index(rng.choice(tops))
        trial.insert(rng.randrange(turn + 1), trial.pop(turn))
    else:
        trial.insert(rng.randrange(len(trial)), trial.pop(rng.randrange(len(trial))))
    return trial


def _exact(model: _Model, best: _Placement, goal: int, budget: _Budget) -> tuple[_Placement, bool]:
    """Lower the peak until it reaches the goal, the work is used up, or nothing lower exists (only then True)."""
    try:
        while best.peak > goal:
            at = _Search(model, best.peak - 1, budget).run()
            if at is None:
                return best, True
            best = _Placement(at, model.peak(at))
    except _OutOfWorkError:
        pass
    return best, False


_DEEPEST = 120
"""Buffers in one connected piece above which the search, which goes as deep as there are buffers, is not tried."""


class _Search:
    """Do all buffers fit below a cap? Exact: finds a placement, or there is none.

    It looks for the placement with the lowest sum of offsets. There, each buffer lies at 0 or at its distance above a
    buffer that comes before it by (offset + shift, rank), and none can move down alone. So it is enough to choose
    which buffer comes next in that order and to put it as low as those before it allow; whatever could still
    move down, whatever the choices to come, ends a branch.
    """

    def __init__(self, model: _Model, cap: int, budget: _Budget) -> None:
        if not model.rank:
            raise _OutOfWorkError  # without such an order a search that finds nothing would prove nothing
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
        """For each buffer: the moments it counts for alone, and those where it counts as part of a group."""
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
        """The offsets, or None if nothing fits. Raises when the work is used up."""
        core, easy = self._peel()
        parts = self._split(core)
        if any(len(part) > _DEEPEST for part in parts):
            raise _OutOfWorkError
        if not all(self._fits(part, [0] * len(self.at), -_NO_LIMIT, -1) for part in parts):
            return None
        for k in reversed(easy):
            forbidden = [(self.at[i] - up, self.at[i] + down) for i, up, down in self.model.near[k] if self.at[i] >= 0]
            self.at[k] = _first_fit(sorted(forbidden), self.model.step[k])
        return self.at

    def _peel(self) -> tuple[list[int], list[int]]:
        """Take out buffers that find a place wherever the others lie, again and again: (the core, those taken out)."""
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
        """Pieces of a group, sorted by birth, that share no moment: each can be placed without the others."""
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
        """Place a group above what is placed. `low` holds the lowest offsets that leaves; by (offset + shift, rank)
        none of them may come before (floor, last), the last one placed."""
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
        """The lowest offsets that the order leaves; None if one is too high."""
        least = low.copy()
        for k in group:
            at = floor - self.shift[k]
            if at > low[k]:
                step = self.model.step[k]
                least[k] = at if step == 1 else _ceil_div(at, step) * step
            if least[k] > self.high[k]:
                return None
        return least

    def _room(self, group: list[int], least: list[int]) -> bool:
        """Whether, at every moment, what lies above any height can still fit between it and the cap."""
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
        """Fix every buffer that is in nobody's way at its lowest offset; the rest, or None if one should lie lower.

        What is fixed raises `low` of others, though never above `least`: they can't move down to where it lies.
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
        """Whether k at its lowest offset could keep one of those left from its own."""
        at = low[k]
        for i, up, _ in self.model.near[k]:  # noqa: SIM110, the search spends its time here and any() takes twice as long
            if least[i] < at + up and i in left:
                return True
        return False

    def _raise(self, k: int, low: list[int]) -> None:
        """Lift the lowest offsets of all others to their distance above k, as if they came later."""
        at = low[k]
        for i, up, _ in self.model.near[k]:
            if at + up > low[i]:
                step = self.model.step[i]
                low[i] = at + up if step == 1 else _ceil_div(at + up, step) * step

    def _branch(self, group: list[int], low: list[int], floor: int, last: int) -> bool:
        """Try each buffer that can come next."""
        keys = [(low[k] + self.shift[k], self.rank[k]) for k in group]
        members, state = tuple(group), tuple([low[k] for k in group])
        free = min(keys) > (floor, last)
        if free:
            floor, last = min(keys)[0], -1  # what came before doesn't matter any more
        hopeless = self.hopeless.setdefault(members, [])
        least = state if free else tuple([max(low[k], floor - self.shift[k]) for k in group])
        if any(all(map(operator.ge, least, bad)) for bad in hopeless):
            return False
        failed = self.failed.get((members, state))
        if failed is not None and failed <= (floor, last):
            return False
        # A buffer that fits below all others as a whole comes before them.
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
        """Put k at its lowest offset and the rest of the group above it."""
        self.at[k] = low[k]
        rest = [i for i in group if i != k]
        raised = low.copy()
        self._raise(k, raised)
        return all(self._fits(piece, raised, floor, self.rank[k]) for piece in self._split(rest))


# ---------------------------------------------------------------------------------------------------------------------
# Checking a plan, by the rules alone


def validate(problem: Problem, plan: Plan) -> None:
    """Refuse a plan that breaks a rule; the message names the buffers. Deliberately simple, knows no solver."""
    named = {buffer.name for buffer in problem.buffers}
    if set(plan.offsets) != named:
        odd = sorted(named.symmetric_difference(plan.offsets))[0]
        where = "has no offset in the plan" if odd in named else "has an offset but is no buffer of the problem"
        raise CortadoError(f"buffer '{odd}' {where}: plan and problem must name the same buffers")
    for buffer in problem.buffers:
        offset = plan.offsets[buffer.name]
        if offset < 0 or offset % buffer.align:
            raise CortadoError(
                f"buffer '{buffer.name}' lies at offset {offset}: expected a multiple of {buffer.align}, 0 or more"
            )
    top = max((plan.offsets[b.name] + b.size for b in problem.buffers if b.size), default=0)
    if plan.peak != top:
        raise CortadoError(f"the plan says its peak is {plan.peak} bytes, but its buffers end at {top}")
    if plan.lower_bound > plan.peak or plan.optimal != (plan.lower_bound == plan.peak):
        raise CortadoError(
            f"the plan says peak {plan.peak}, lower bound {plan.lower_bound}, optimal {plan.optimal}: these contradict"
        )
    for number, one in enumerate(problem.buffers):
        for other in problem.buffers[number + 1 :]:
            _validate_pair(problem, plan, one, other)


def _validate_pair(problem: Problem, plan: Plan, one: Buffer, other: Buffer) -> None:
    """Two buffers may not share a byte while both live, unless an overlay allows it."""
    a, b = plan.offsets[one.name], plan.offsets[other.name]
    apart_in_time = one.end <= other.start or other.end <= one.start
    apart_in_memory = a + one.size <= b or b + other.size <= a or one.size == 0 or other.size == 0
    if apart_in_time or apart_in_memory:
        return
    reason = "and no overlay allows that"
    for overlay in problem.overlays:
        if {overlay.out, overlay.inp} == {one.name, other.name}:
            if plan.offsets[overlay.out] + overlay.lead <= plan.offsets[overlay.inp]:
                return
            reason = (
                f"but '{overlay.out}' must start at least {overlay.lead} bytes before '{overlay.inp}' to lie over it"
            )
    raise CortadoError(
        f"buffers '{one.name}' at {a}..{a + one.size} and '{other.name}' at {b}..{b + other.size} share bytes "
        f"while both live, from {max(one.start, other.start)} to {min(one.end, other.end)}, {reason}"
    )


# ---------------------------------------------------------------------------------------------------------------------
# What a plan looks like over time


@dataclass(frozen=True, slots=True)
class Moment:
    """A stretch of time [start, end) in which the same buffers live."""

    start: Time
    end: Time
    live: tuple[str, ...]
    used: int
    """Bytes that hold data: shared ones count once, holes don't count."""
    top: int
    """Bytes of the arena from 0 to the highest live byte, holes included."""


def timeline(problem: Problem, plan: Plan) -> tuple[Moment, ...]:
    """The moments of a plan from the first birth to the last death, without gaps."""
    times = sorted({t for buffer in problem.buffers for t in (buffer.start, buffer.end)})
    return tuple(_moment(problem, plan, start, end) for start, end in itertools.pairwise(times))


def _moment(problem: Problem, plan: Plan, start: Time, end: Time) -> Moment:
    """What lives between two times with no birth or death in between."""
    live = [b for b in problem.buffers if b.start <= start < b.end]
    used = top = 0
    for low, high in sorted((plan.offsets[b.name], plan.offsets[b.name] + b.size) for b in live):
        used += max(0, high - max(low, top))
        top = max(top, high)
    return Moment(start, end, tuple(b.name for b in live), used, top)


def peak_buffers(problem: Problem, plan: Plan) -> tuple[Buffer, ...]:
    """The buffers live when the arena is used to its peak, lowest first; of several such moments the fullest."""
    moments = timeline(problem, plan)
    if not moments:
        return ()
    fullest = max(moments, key=lambda moment: (moment.top, moment.used))
    live = [b for b in problem.buffers if b.name in set(fullest.live)]
    return tuple(sorted(live, key=lambda b: (plan.offsets[b.name], b.name)))


# ---------------------------------------------------------------------------------------------------------------------
# CSV in and out

_STAGED = ("id", "lower_stage", "lower_pos", "upper_stage", "upper_pos", "size")
_PLAIN = ("id", "lower", "upper", "size")
_OPTIONAL = ("align", "alignment", "overlay_of", "lead", "offset")
_PLAIN_ALIGN = 1
"""Files with lifetimes on a one-level clock come from elsewhere, where buffers without an alignment have none."""


def write_csv(problem: Problem, plan: Plan | None = None) -> str:
    """The problem, with the offsets of a plan if there is one, as CSV text that `read_csv` reads back."""
    columns = [*_STAGED, "align"]
    if problem.overlays:
        columns += ["overlay_of", "lead"]
    if plan is not None:
        columns.append("offset")
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    for buffer in problem.buffers:
        times = zip(_STAGED[1:5], (*buffer.start, *buffer.end), strict=True)
        row: dict[str, str | int] = {"id": buffer.name, **dict(times), "size": buffer.size, "align": buffer.align}
        if plan is not None:
            row["offset"] = plan.offsets[buffer.name]
        for overlay in problem.overlays:
            if overlay.out == buffer.name:
                writer.writerow({**row, "overlay_of": overlay.inp, "lead": overlay.lead})
                row = {"id": buffer.name}  # further overlays get rows of their own, with nothing else in them
        if len(row) > 1:
            writer.writerow(row)
    return text.getvalue()


@dataclass(frozen=True, slots=True)
class _Row:
    """One line of a CSV file, by column."""

    line: int
    cells: Mapping[str, str]

    def error(self, column: str, message: str) -> CortadoError:
        """The error to raise about a cell."""
        return CortadoError(f"line {self.line}, column '{column}': {message}")

    def text(self, column: str) -> str:
        """A cell; empty if there is no such column."""
        return self.cells.get(column, "").strip()

    def integer(self, column: str) -> int:
        """A cell that must hold a whole number."""
        text = self.text(column)
        try:
            return int(text)
        except ValueError:
            raise self.error(column, f"found '{text}', expected a whole number") from None


def read_csv(text: str) -> Problem:
    """A problem from CSV text, as `write_csv` writes it or with the four columns id,lower,upper,size."""
    buffers: list[Buffer] = []
    overlays: list[tuple[_Row, Overlay]] = []
    lines: dict[str, int] = {}
    for row in _rows(text):
        extra = row.text("overlay_of") and not row.text("size")
        if not extra:
            buffer = _read_buffer(row)
            if buffer.name in lines:
                raise row.error("id", f"'{buffer.name}' is already the buffer of line {lines[buffer.name]}")
            lines[buffer.name] = row.line
            buffers.append(buffer)
        if row.text("overlay_of"):
            overlays.append((row, Overlay(row.text("id"), row.text("overlay_of"), row.integer("lead"))))
        elif row.text("lead"):
            raise row.error("overlay_of", "found nothing, but column 'lead' is filled: name the buffer to lie over")
    pairs: set[tuple[str, str]] = set()
    for row, overlay in overlays:
        _check_read_overlay(row, overlay, lines)
        if (overlay.out, overlay.inp) in pairs:
            raise row.error("overlay_of", f"'{overlay.out}' is laid over '{overlay.inp}' twice: keep the lower lead")
        pairs.add((overlay.out, overlay.inp))
    return Problem(tuple(buffers), tuple(overlay for _, overlay in overlays))


def _rows(text: str) -> Iterator[_Row]:
    """The lines of a CSV file as rows, after a look at its header."""
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
    try:
        header = [cell.strip() for cell in next(reader, [])]
        _check_header(header)
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(header):
                found = f"found {len(cells)} cells, expected the {len(header)} of the header"
                raise CortadoError(f"line {reader.line_num}: {found}")
            yield _Row(reader.line_num, dict(zip(header, cells, strict=True)))
    except csv.Error as error:
        raise CortadoError(f"line {reader.line_num}: this is not CSV: {error}") from None


def _check_header(header: list[str]) -> None:
    """Refuse missing, doubled and unknown columns."""
    needed = _PLAIN if "lower" in header else _STAGED
    for column in needed:
        if column not in header:
            raise CortadoError(f"line 1: column '{column}' is missing: expected {','.join(needed)}")
    for number, column in enumerate(header):
        if column not in needed + _OPTIONAL:
            known = ",".join(needed + _OPTIONAL)
            raise CortadoError(f"line 1, column {number + 1}: found '{column}', expected one of {known}")
        if column in header[:number]:
            raise CortadoError(f"line 1, column {number + 1}: '{column}' is there twice")
    if ("lead" in header) != ("overlay_of" in header):
        raise CortadoError("line 1: columns 'overlay_of' and 'lead' only make sense together: add the other one")


def _read_buffer(row: _Row) -> Buffer:
    """The buffer of a row."""
    plain = "lower" in row.cells
    align_column = "alignment" if "alignment" in row.cells else "align"
    if plain:
        start, end = (row.integer("lower"), 0), (row.integer("upper"), 0)
    else:
        start = row.integer("lower_stage"), row.integer("lower_pos")
        end = row.integer("upper_stage"), row.integer("upper_pos")
    align = _PLAIN_ALIGN if plain else _ALIGN
    if row.text(align_column):
        align = row.integer(align_column)
    buffer = Buffer(row.text("id"), row.integer("size"), start, end, align)
    if fault := _fault(buffer):
        column = {"name": "id", "end": "upper" if plain else "upper_stage", "align": align_column}
        raise row.error(column.get(fault[0], fault[0]), fault[1])
    return buffer


def _check_read_overlay(row: _Row, overlay: Overlay, names: Mapping[str, int]) -> None:
    """Refuse an overlay that names no buffer of the file."""
    for column, name in (("id", overlay.out), ("overlay_of", overlay.inp)):
        if name not in names:
            raise row.error(column, f"'{name}' is no buffer of this file")
    if overlay.out == overlay.inp:
        raise row.error("overlay_of", f"'{overlay.out}' is laid over itself: an overlay needs two different buffers")
