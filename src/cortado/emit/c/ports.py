"""Rows of the ports' table that several steps share: most of their operands lie where that of an earlier step lay."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from cortado.emit.c.layers import fits
from cortado.emit.c.text import titled

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class PortRow:
    """An operand. With guards around buffers it lies elsewhere, so fewer are the same in a build that checks."""

    text: str  # of both builds
    release: Hashable  # what a release build sees of it


@dataclass(frozen=True)
class Ports:
    text: str
    firsts: tuple[str, ...]  # of each step, the number of its first row


class RowTable(Generic[Key]):
    """Rows by what tells them apart. What is there already, in the same order, is not written again."""

    def __init__(self, keys: Iterable[Key] = ()) -> None:
        self.keys: list[Key] = []
        self._starts: dict[Key, list[int]] = defaultdict(list)
        self._append(keys)

    def place(self, keys: Sequence[Key]) -> int:
        """Returns where they begin; those that are new come last. Of none, at the start."""
        for start in self._starts[keys[0]] if keys else (0,):
            if self.keys[start : start + len(keys)] == keys:
                return start
        self._append(keys)
        return len(self.keys) - len(keys)

    def _append(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self._starts[key].append(len(self.keys))
            self.keys.append(key)


def shared_ports(steps: Sequence[tuple[str, Sequence[PortRow]]]) -> Ports:
    """Returns the ports that steps share, with their labels. A build that checks has the rows of the release build, and
    behind them its own."""
    release = RowTable[Hashable]()
    texts: list[str] = []
    firsts: list[int] = []
    for _, rows in steps:
        firsts.append(release.place([row.release for row in rows]))
        if firsts[-1] == len(texts):
            texts += [row.text for row in rows]
    both = RowTable(texts)
    checked = [both.place([row.text for row in rows]) for _, rows in steps]
    fits(len(both.keys), 16, "the table of operands")
    labels: dict[int, dict[str, None]] = defaultdict(dict)  # of the steps whose ports begin with a row, each once
    for (label, rows), *starts in zip(steps, firsts, checked, strict=True):
        for start in starts if rows else ():
            labels[start][label] = None
    lines = [titled("; ".join(labels[i]), [text]) if i in labels else text for i, text in enumerate(both.keys)]
    return Ports(
        text=_of_both_builds(lines[: len(texts)], lines[len(texts) :]),
        firsts=tuple(f"AT({a}, {b})" if a != b else str(a) for a, b in zip(firsts, checked, strict=True)),
    )


def _of_both_builds(release: Sequence[str], checked: Sequence[str]) -> str:
    if not checked:
        return "\n".join(release)
    return "\n".join([*release, "#ifdef CORTADO_ENABLE_RUNTIME_CHECKS", *checked, "#endif"])
