"""The choice of the stages: the cheapest partition of the steps under a memory limit, and the lowest limit that can be
met."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cortado.options import Optimize
from cortado.plan.program import Walk
from cortado.plan.segments import Segment, Segments, Tally

BALANCED_EXTRA = 1 / 8  # the share of extra cycles over layer by layer that `balanced` allows


@dataclass(frozen=True, slots=True)
class _Choice:
    """A partition of the steps up to some step: total cycles, highest peak, last stage."""

    cycles: int = 0
    peak: int = 0
    segment: Segment | None = None
    before: "_Choice | None" = None

    def then(self, segment: Segment) -> "_Choice":
        return _Choice(self.cycles + segment.cycles, max(self.peak, segment.peak), segment, self)

    @property
    def stages(self) -> tuple[Segment, ...]:
        found: list[Segment] = []
        choice: _Choice | None = self
        while choice is not None and choice.segment is not None:
            found.append(choice.segment)
            choice = choice.before
        return tuple(reversed(found))


def _cheapest(search: Segments, limit: int, tally: Tally) -> _Choice | None:
    """Returns the cheapest stages with a peak of at most `limit` each; None if there are none.

    A stage of several steps only adds calls, so it is tried only where some step alone exceeds the limit.
    """
    over = -1  # the last step that exceeds the limit alone, or can't be a stage of its own
    best: list[_Choice | None] = [_Choice()]
    for last in range(len(search.steps)):
        before, alone = best[last], search.alone(last)
        over = last if last <= search.first_stage > 0 or alone.peak > limit else over
        chosen = before.then(alone) if before is not None and over != last else None
        if search.crossing[last + 1] <= limit:
            for start, segment in _longer(search, limit, best, over, last, tally):
                # A more expensive stage is not even planned.
                cost = start.cycles + segment.cycles
                if (chosen is None or cost < chosen.cycles) and tally.fits(segment, limit):
                    chosen = start.then(segment)
        best.append(chosen)
    return best[-1]


def _longer(
    search: Segments, limit: int, best: Sequence[_Choice | None], over: int, last: int, tally: Tally
) -> Iterator[tuple[_Choice, Segment]]:
    """Yields the stages of several steps that end with `last`, each with the best choice before it."""
    rings = 0
    for first in range(last - 1, -1, -1):
        rings += search.ring_bytes[first]
        if not search.possible(first, last) or rings + search.crossing[last + 1] > limit:
            return
        before = best[first]
        small = rings + search.crossing[first] <= limit  # rings coexist with every whole tensor of the stage
        if small and before is not None and first <= over and search.saves(first, last):
            yield from ((before, segment) for segment in search.segments(first, last, tally))


def choose(search: Segments, optimize: Optimize, tally: Tally) -> tuple[Segment, ...]:
    """Chooses the stages of a schedule."""
    layers = _Choice()
    if search.first_stage > 0:
        layers = layers.then(search.segment(0, search.first_stage))
    for index in range(search.first_stage + (search.first_stage > 0), len(search.steps)):
        layers = layers.then(search.alone(index))
    if optimize is Optimize.TIME:
        return layers.stages
    budget = layers.cycles * (1 + BALANCED_EXTRA)
    best, low = layers, max(search.crossing[0], search.crossing[-1])
    step = low // 16 + 64
    while low < best.peak:  # no limit below `low` can be met; that of `best` can
        # Starts from the low end: a tight limit prunes most stages early.
        limit = min(low + step, (low + best.peak - 1) // 2)
        found = _cheapest(search, limit, tally)
        if found is None or (optimize is Optimize.BALANCED and found.cycles > budget):
            low = limit + 1
            step *= 2
        else:
            best = found
    return _take_in_delays(search, best.stages, tally) if optimize is Optimize.RAM else best.stages


def _take_in_delays(search: Segments, stages: tuple[Segment, ...], tally: Tally) -> tuple[Segment, ...]:
    """Moves the delay of a residual branch into a ring inside its stage, instead of a whole tensor around it, where
    that doesn't raise the peak."""
    limit = max((segment.peak for segment in stages), default=0)
    for index, step in enumerate(search.steps):
        sources = [search.uses.made.get(port.source, -1) for port in step.inputs if isinstance(port.source, str)]
        if step.kind is Walk.ELEMENTS and len(sources) > 1 and min(sources) >= 0:
            covering = [segment for segment in stages if segment.last >= min(sources) and segment.first <= index]
            first, last = covering[0].first, covering[-1].last
            if len(covering) > 1 and search.possible(first, last) and tally.fits(search.segment(first, last), limit):
                before = tuple(segment for segment in stages if segment.last < first)
                after = tuple(segment for segment in stages if segment.first > last)
                stages = (*before, search.segment(first, last), *after)
    return stages
