"""A problem prepared for the search, and lower bounds of the peak of any plan."""

import graphlib
from collections.abc import Iterable, Sequence

from cortado.memory.problem import Buffer, Overlay

USUAL_PAIRS = 40
"""The usual number of buffers live together with one buffer; where it is higher, the work per buffer counts as that
much more."""


# The solver's view of a problem
_MOST_ORDERED = 6
"""Groups of overlaid buffers up to this size are bounded by trying all their orders."""


_MOST_STACKED = 14
"""Live sets of mixed alignments up to this size are bounded by trying all their orders."""


NO_LIMIT = 1 << 62
"""More than any number of bytes or units."""


def ceil_div(value: int, divisor: int) -> int:
    """Returns value / divisor, rounded up."""
    return -(-value // divisor)


class BoundModel:
    """One stretch of time in which something is always live, in units of its smallest alignment.

    Every rule between two buffers that are live together has the same form, a pair of distances: `near[k]` holds (i,
    up, down) if i has to be at least `up` above k, or else k at least `down` above i (between their offsets). The
    distance upwards from a buffer is its size, or the lead if the other one is an input that it can overlay.
    """

    def __init__(self, buffers: Sequence[Buffer], overlays: Iterable[Overlay]) -> None:
        self.buffers = buffers
        self.overlays = overlays
        self.names = [b.name for b in buffers]
        self.unit = min(b.align for b in buffers)
        self.bytes = [b.size for b in buffers]
        self.size = [ceil_div(b.size, self.unit) for b in buffers]
        self.step = [b.align // self.unit for b in buffers]
        self.near: list[list[tuple[int, int, int]]] = [[] for _ in buffers]
        self.cliques: list[list[int]] = []
        """The maximal sets of buffers that are live at one moment."""
        self.shares: dict[int, list[int]] = {}
        """Maps each buffer with overlays to the buffers it can share bytes with."""
        self._spans: dict[int, int] = {}
        self._leads = {(o.out, o.inp): ceil_div(o.lead, self.unit) for o in overlays}
        self._sweep()
        self.toll = max(1, sum(map(len, self.near)) // (USUAL_PAIRS * len(self.near)))
        """The work counted for visiting one buffer, and with it those that are live together with it."""
        self.shift = self._find_shift()
        self.rank = self._find_rank()
        """Sorted by (offset + shift, rank), each buffer of any plan is at its distance above all earlier ones. Both are
        empty if no such numbers exist, which takes cyclic overlays or leads that no real loop has."""
        self.parts = [self._divide(clique) for clique in self.cliques]

    def _sweep(self) -> None:
        """Sweeps through time; visits every pair that is live together and every maximal live set."""
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
        """Records the rule between two buffers that are live together."""
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
        """Returns numbers c such that, of two buffers at their distance, the one with the lower offset + c is the lower
        one.

        With c = 0 that holds unless a lead is negative. It requires c[k] - c[i] <= up for every rule: shortest paths.
        Empty if there are no such numbers.
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
        """Returns a rank that tells which of two buffers is lower at equal offset + shift; empty if there is none."""
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
        """Splits a live set into buffers without overlays and groups (bit sets) connected by overlays.

        Groups share no byte with each other, so the bytes that they cover add up. A group too large to try all its
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
        """Returns the buffers connected with the first by overlays."""
        found = [first]
        for k in found:
            found += [i for i in self.shares[k] if i in among and i not in found]
        return found

    def peak(self, at: Sequence[int]) -> int:
        """Returns the highest byte in use, plus one."""
        return max(p * self.unit + size for p, size in zip(at, self.bytes, strict=True))

    def span(self, members: int) -> int:
        """Returns the fewest units that the buffers of a bit set cover when all of them are live at once."""
        known = self._spans.get(members)
        if known is None:
            known = self._spans[members] = self._least_span([k for k in range(len(self.size)) if members >> k & 1])
        return known

    def _least_span(self, members: list[int]) -> int:
        """Tries the members in every order, each as low as the earlier ones allow."""
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


def bound_of(model: BoundModel, thorough: bool = True) -> int:
    """Returns the most that any moment needs; with mixed alignments, `thorough` also tries stacking orders for each
    moment."""
    best = max(_moment_bounds(model))
    if thorough and any(step > 1 for step in model.step):
        # Coarse alignments round more, so they are also looked at alone.
        for align in sorted({b.align for b in model.buffers})[1:]:
            coarse = [b for b in model.buffers if b.align >= align]
            best = max(best, *_moment_bounds(BoundModel(coarse, model.overlays)))
        best = _stacked_bound(model, best)
    return best


def _moment_bounds(model: BoundModel) -> list[int]:
    """Returns for each moment the units that its buffers cover, less the largest padding that the topmost can leave."""
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


def _stacked_bound(model: BoundModel, best: int) -> int:
    """Raises a bound to what the buffers without overlays of some moment need at least, in any order."""
    for alone, _ in model.parts:
        blocks = [(model.bytes[k], model.step[k] * model.unit) for k in alone]
        # The sum with maximal padding is an upper bound for any order: most moments can't raise the bound.
        if len(blocks) <= _MOST_STACKED and sum(size + align - 1 for size, align in blocks) > best:
            best = max(best, _least_stack(blocks))
    return best


def _least_stack(blocks: list[tuple[int, int]]) -> int:
    """Returns the least height of a stack of (size, align) blocks: the lowest top of each subset, from those one
    smaller."""
    tops = [NO_LIMIT] * (1 << len(blocks))
    tops[0] = 0
    for done, top in enumerate(tops):
        for k, (size, align) in enumerate(blocks):
            if not done >> k & 1:
                with_k = done | 1 << k
                tops[with_k] = min(tops[with_k], ceil_div(top, align) * align + size)
    return tops[-1]
