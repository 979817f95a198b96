"""One arena over several memories: the assignment of buffers to memories, the most used to the fastest."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from cortado.memory.planner import lower_bound, plan
from cortado.memory.problem import ALIGN, Buffer, Effort, Plan, Problem


@dataclass(frozen=True, slots=True)
class Room:
    """A memory by name, and its bytes available to buffers. `device`: unaligned accesses fault there."""

    name: str
    bytes: int
    device: bool = False


@dataclass(frozen=True, slots=True)
class Spread:
    """The buffers of each room, in the rooms' order; `missing` are those that did not fit."""

    parts: tuple[tuple[Buffer, ...], ...]
    missing: tuple[Buffer, ...] = ()


_HALVES = 6


def aligned(offset: int) -> int:
    return offset + -offset % ALIGN


def part_of(problem: Problem, buffers: Iterable[Buffer]) -> Problem:
    """Returns the problem restricted to some of its buffers: overlays between different rooms are dropped."""
    chosen = {buffer.name for buffer in buffers}
    overlays = [overlay for overlay in problem.overlays if overlay.out in chosen and overlay.inp in chosen]
    return Problem(tuple(buffer for buffer in problem.buffers if buffer.name in chosen), tuple(overlays))


def spread(problem: Problem, rooms: Sequence[Room], heat: Mapping[str, float]) -> Spread:
    """Assigns buffers to rooms, the fastest first. `heat`: how often a byte of a buffer is used.

    The hottest go to the first room as long as they fit, and so on. If that leaves no room for a large one, the largest
    are placed before all others, in the slowest room that takes them: 1, 2, 4 of them and so on. Persistent buffers
    stay together.
    """
    best = _quick(problem, rooms, heat)
    return _settled(problem, rooms, best) if best.missing else best


def _quick(problem: Problem, rooms: Sequence[Room], heat: Mapping[str, float]) -> Spread:
    """Returns the first of these assignments that has room for all, or the one that leaves out least, by quick
    plans."""
    items = _items(problem)
    largest = sorted(items, key=lambda item: -_bytes(item))
    best: Spread | None = None
    for pinned in _attempts(len(items)):
        found = _attempt(problem, rooms, heat, largest[:pinned], items)
        if best is None or _bytes(found.missing) < _bytes(best.missing):
            best = found
        if not best.missing:
            break
    assert best is not None
    return best


def _settled(problem: Problem, rooms: Sequence[Room], found: Spread) -> Spread:
    """Adds the missing buffers to a room after all, if a full plan finds a place for them."""
    for number, (room, part) in enumerate(zip(rooms, found.parts, strict=True)):
        more = (*part, *found.missing)
        if plan(part_of(problem, more)).peak <= room.bytes:
            return Spread((*found.parts[:number], more, *found.parts[number + 1 :]))
    return found


def shortage(problem: Problem, rooms: Sequence[Room], heat: Mapping[str, float], found: Spread) -> tuple[Room, int]:
    """Returns the room that has to grow least to take what is missing, and by how many bytes: with them, everything
    fits."""
    wanted = [
        (plan(part_of(problem, (*part, *found.missing))).peak - room.bytes, number)
        for number, (room, part) in enumerate(zip(rooms, found.parts, strict=True))
    ]
    least, grown = min(wanted)
    for number, _ in enumerate(rooms):
        enough = _enough(problem, rooms, heat, number, least)
        if enough < least:
            least, grown = enough, number
    return rooms[grown], least


def _enough(problem: Problem, rooms: Sequence[Room], heat: Mapping[str, float], number: int, most: int) -> int:
    """Returns how many more bytes of one room are enough, up to `most`, by a few steps of bisection."""
    low, high = 0, most
    for _ in range(_HALVES):
        middle = (low + high) // 2 // ALIGN * ALIGN
        if middle <= low:
            break
        larger = [replace(room, bytes=room.bytes + middle * (at == number)) for at, room in enumerate(rooms)]
        low, high = (middle, high) if _quick(problem, larger, heat).missing else (low, middle)
    return high


def in_rooms(problem: Problem, parts: Sequence[Sequence[Buffer]], effort: Effort = Effort.FULL) -> list[Plan]:
    """Plans each room by itself; as in the fit of `spread`, the quick plan is used if it is lower."""
    plans = []
    for part in parts:
        own = part_of(problem, part)
        quick = plan(own, effort=Effort.QUICK)
        full = plan(own, effort=effort)
        plans.append(full if full.peak <= quick.peak else replace(quick, spent=full.spent))
    return plans


_Item = tuple[Buffer, ...]


def _items(problem: Problem) -> list[_Item]:
    """Returns groups of buffers that are placed together: all persistent ones, and each other buffer by itself."""
    lasting = tuple(buffer for buffer in problem.buffers if buffer.persists)
    return [*([lasting] if lasting else []), *((buffer,) for buffer in problem.buffers if not buffer.persists)]


def _attempts(count: int) -> list[int]:
    powers = [0]
    while powers[-1] < count:
        powers.append(min(max(2 * powers[-1], 1), count))
    return powers


def _bytes(item: Iterable[Buffer]) -> int:
    return sum(buffer.size for buffer in item)


def _attempt(
    problem: Problem, rooms: Sequence[Room], heat: Mapping[str, float], pinned: Sequence[_Item], items: Sequence[_Item]
) -> Spread:
    parts: list[list[Buffer]] = [[] for _ in rooms]
    for item in pinned:
        fitting = (
            number for number in reversed(range(len(rooms))) if _fits(problem, rooms[number], parts[number], item)
        )
        number = next(fitting, None)
        if number is not None:
            parts[number] += item
    placed = {buffer.name for part in parts for buffer in part}

    def hotness(item: _Item) -> float:
        return sum(heat[buffer.name] * buffer.size for buffer in item) / max(_bytes(item), 1)

    left = sorted((item for item in items if item[0].name not in placed), key=hotness, reverse=True)
    for room, part in zip(rooms, parts, strict=True):
        left = _fill(problem, room, part, left)
    return Spread(tuple(tuple(part) for part in parts), tuple(buffer for item in left for buffer in item))


def _fill(problem: Problem, room: Room, part: list[Buffer], items: Sequence[_Item]) -> list[_Item]:
    """Adds to a room what fits, in order, and returns the rest: all at once if possible, otherwise by bisection."""
    if not items:
        return []
    everything = [buffer for item in items for buffer in item]
    if _fits(problem, room, part, everything):
        part += everything
        return []
    if len(items) == 1:
        return list(items)
    half = len(items) // 2
    rest = _fill(problem, room, part, items[:half])
    return rest + _fill(problem, room, part, items[half:])


def _fits(problem: Problem, room: Room, part: Sequence[Buffer], more: Iterable[Buffer]) -> bool:
    buffers = [*part, *more]
    if sum(aligned(buffer.size) for buffer in buffers) <= room.bytes:
        return True
    own = part_of(problem, buffers)
    return lower_bound(own) <= room.bytes and plan(own, effort=Effort.QUICK).peak <= room.bytes
