"""Memory problems by the thousand: random ones, tiny ones for brute force, and those of cascades."""

import itertools
import random
from pathlib import Path

from cortado.memory import planner
from cortado.memory.problem import Buffer, Overlay, Problem

MEMORY = Path(planner.__file__).parent


def random_buffers(rng: random.Random, count: int, aligns: tuple[int, ...]) -> list[Buffer]:
    """Buffers with lifetimes drawn uniformly, long ones included, and sizes of several kinds."""
    horizon = rng.choice([count + 1, 2 * count + 1, 10, 100])
    buffers = []
    for number in range(count):
        start, end = sorted(rng.sample(range(horizon + 1), 2))
        size = rng.choice([rng.randint(1, 1000), 16 * rng.randint(1, 64), 16 * rng.randint(1, 10)])
        buffers.append(Buffer(f"b{number}", size, divmod(start, 3), divmod(end, 3), rng.choice(aligns)))
    return buffers


def random_overlays(rng: random.Random, buffers: list[Buffer], count: int, any_lead: bool) -> list[Overlay]:
    """Overlays between any two buffers. Unless any lead will do, it is one that a loop over the input can have:
    the output never runs past the input's end, so the lead is at least the difference of their sizes."""
    overlays = {}
    for out, inp in (rng.sample(buffers, 2) for _ in range(count) if len(buffers) > 1):
        longer = out.size - inp.size
        lead = rng.choice([max(0, longer), longer, longer + rng.randint(0, 64), max(0, longer) + rng.randint(0, 200)])
        if any_lead:
            lead = rng.randint(-inp.size, out.size)
        overlays[out.name, inp.name] = Overlay(out.name, inp.name, lead)
    return list(overlays.values())


def random_problem(seed: int) -> Problem:
    """One in five with more than 20 buffers, one in ten with mixed alignments, four in ten with overlays."""
    rng = random.Random(seed)
    count = rng.randint(1, 20) if rng.random() < 0.8 else rng.randint(21, 60)
    buffers = random_buffers(rng, count, (16,) if rng.random() < 0.9 else (1, 4, 16, 32))
    overlays = []
    if rng.random() < 0.4:
        overlays = random_overlays(rng, buffers, rng.randint(1, 1 + count // 2), any_lead=rng.random() < 0.1)
    return Problem(tuple(buffers), tuple(overlays))


def tiny_problem(seed: int) -> Problem:
    """Small enough for brute force; leads of every kind, circles of overlays and empty buffers included."""
    rng = random.Random(seed)
    count, most = rng.randint(1, 5), rng.choice([3, 5, 8])
    aligns = rng.choice([(1,), (2,), (4,), (1, 2, 4)])
    buffers = []
    for number in range(count):
        start, end = sorted(rng.sample(range(7), 2))
        size = rng.randint(0 if rng.random() < 0.1 else 1, most)
        buffers.append(Buffer(f"b{number}", size, divmod(start, 2), divmod(end, 2), rng.choice(aligns)))
    overlays = random_overlays(rng, buffers, rng.randint(0, 6), any_lead=rng.random() < 0.5)
    return Problem(tuple(buffers), tuple(overlays))


def cascade_problem(seed: int, stages: int) -> Problem:
    """What a convolutional network gives: tensors from stage to stage, rings inside, rows and scratch at single steps,
    outputs laid over inputs, and now and then an input that waits for a residual add."""
    rng = random.Random(seed)
    buffers: list[Buffer] = []
    overlays: list[Overlay] = []
    side, channels = rng.choice([8, 16, 32, 48, 96]), rng.choice([3, 8, 16])
    name, born = "input", 0
    for stage in range(stages):
        size, row = side * side * channels, side * channels
        waits = rng.random() < 0.2
        dies = stage + 1 + (rng.randint(1, 3) if waits else 0)
        buffers.append(Buffer(name, size, (born, 0), (dies, 0)))
        steps = rng.randint(1, 5)
        for step in range(steps):
            buffers.append(Buffer(f"ring{stage}.{step}", rng.randint(1, 24) * row, (stage, 0), (stage + 1, 0)))
            buffers.append(Buffer(f"scratch{stage}.{step}", rng.randint(1, 3000), (stage, step), (stage, step + 1)))
            if rng.random() < 0.3:
                buffers.append(Buffer(f"row{stage}.{step}", 2 * row, (stage, step), (stage, step + 2)))
        side = side if rng.random() < 0.65 else max(1, side // 2)
        channels = rng.choice([channels, channels, min(256, 2 * channels)])
        if not waits:
            lead = max(side * side * channels - size, -size // 2) + rng.randint(1, 3) * row
            overlays.append(Overlay(f"tensor{stage}", name, lead))
        name, born = f"tensor{stage}", stage
    buffers.append(Buffer(name, side * side * channels, (born, 0), (stages + 1, 0)))
    return Problem(tuple(buffers), tuple(overlays))


def live_together(*sizes: int, align: int = 16) -> tuple[Buffer, ...]:
    """Buffers a, b, c, ... of these sizes that all live in stage 0."""
    return tuple(Buffer("abcdefgh"[k], size, (0, 0), (1, 0), align) for k, size in enumerate(sizes))


def may_lie(problem: Problem, a: Buffer, at_a: int, b: Buffer, at_b: int) -> bool:
    """The rule of the planner, said with sets of bytes and of moments."""
    times = sorted({t for buffer in problem.buffers for t in (buffer.start, buffer.end)})
    moments_a = {t for t in times if a.start <= t < a.end}
    moments_b = {t for t in times if b.start <= t < b.end}
    if not moments_a & moments_b or not set(range(at_a, at_a + a.size)) & set(range(at_b, at_b + b.size)):
        return True
    at = {a.name: at_a, b.name: at_b}
    pairs = [o for o in problem.overlays if {o.out, o.inp} == {a.name, b.name}]
    return any(at[o.out] + o.lead <= at[o.inp] for o in pairs)


def least_peak(problem: Problem) -> int:
    """The lowest peak there is, by trying all offsets below one cap after the other."""
    buffers = problem.buffers
    far = sum(b.size + b.align for b in buffers)
    clashes = [
        [{d for d in range(-far, far + 1) if not may_lie(problem, one, far, other, far + d)} for other in buffers]
        for one in buffers
    ]

    def fits_below(cap: int, placed: list[int]) -> bool:
        if len(placed) == len(buffers):
            return True
        mine = clashes[len(placed)]
        for at in range(0, cap - buffers[len(placed)].size + 1, buffers[len(placed)].align):
            if not any(there - at in mine[k] for k, there in enumerate(placed)) and fits_below(cap, [*placed, at]):
                return True
        return False

    return next(cap for cap in itertools.count(max(b.size for b in buffers)) if fits_below(cap, []))


# Every moment needs at most 9 bytes, but no plan does with fewer than 10.
NEEDS_SEARCH = Problem(
    (
        Buffer("a", 5, (0, 0), (4, 0), 1),
        Buffer("b", 2, (0, 0), (6, 0), 1),
        Buffer("c", 4, (6, 0), (8, 0), 1),
        Buffer("d", 1, (4, 0), (8, 0), 1),
        Buffer("e", 3, (4, 0), (6, 0), 1),
        Buffer("f", 4, (7, 0), (8, 0), 1),
        Buffer("g", 2, (3, 0), (5, 0), 1),
        Buffer("h", 3, (5, 0), (7, 0), 1),
    )
)
PAIR = Problem(live_together(32, 32))
