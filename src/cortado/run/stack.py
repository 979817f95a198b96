"""How much stack a linked program needs, from its instructions: what every function takes, and who calls whom.

It is a bound: a function's frame is all that any path through it pushes, and a call through a pointer is one of
whatever it may be. `run` on a board measures what a run takes; the tests hold the bound to that.
"""

import re
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from elftools.elf.elffile import ELFFile

from cortado.base.target import CortexM
from cortado.run.disassembly import disassemble
from cortado.timing.instructions import Instruction, Kind

_NUMBER = re.compile(r"#(-?\d+)")
_MOST = 1 << 20  # bytes: no frame is as large


def stack_bytes(
    elf: Path, cpu: CortexM, entries: Collection[str], steps: Collection[str], watchers: Collection[str] = ()
) -> int | None:
    """The most that a call of one of these functions takes. `steps` are the functions that the loop over rows calls by
    pointers; `watchers` those that it calls in their place, and that call them. None where a function takes a number
    of bytes that is not to be seen."""
    functions: dict[str, list[Instruction]] = {}
    code = _apart(disassemble(elf, cpu), elf)
    for instruction in code.values():
        functions.setdefault(instruction.function, []).append(instruction)
    words = _Words(elf)
    frames = {name: _frame(body, words) for name, body in functions.items()}
    graph = _Calls(code, functions, steps, watchers)
    depths = _Depths({name: size for name, size in frames.items() if size is not None}, graph.callees)
    try:
        return max(depths.of(entry) for entry in entries if entry in functions)
    except KeyError:
        return None


def _apart(code: Mapping[int, Instruction], elf: Path) -> dict[int, Instruction]:
    """Static functions of one name, each under a name of its own: all but the first have their address in it."""
    with elf.open("rb") as file:
        symbols = ELFFile(file).get_section_by_name(".symtab").iter_symbols()
        heads = sorted({one["st_value"] & ~1 for one in symbols if one["st_info"]["type"] == "STT_FUNC"})
    first: dict[str, int] = {}
    found = {}
    for address in sorted(code):
        one, place = code[address], bisect_right(heads, address)
        head = heads[place - 1] if place else 0
        own = first.setdefault(one.function, head) == head
        found[address] = one if own else replace(one, function=f"{one.function}@{head:x}")
    return found


class _Words:
    """Constants beside the code."""

    def __init__(self, elf: Path) -> None:
        with elf.open("rb") as file:
            section = ELFFile(file).get_section_by_name(".text")
            self.start, self.data = section["sh_addr"], section.data()

    def at(self, address: int) -> int:
        start = address - self.start
        return int.from_bytes(self.data[start : start + 4], "little", signed=True)


def _frame(body: Sequence[Instruction], words: _Words) -> int | None:
    """What a function may have on the stack while it calls another."""
    total, known = 0, dict[str, int]()
    for one in body:
        if one.kind is Kind.LOAD and one.from_code and (found := _NUMBER.search(one.operands)):
            known[one.operands.split(",")[0]] = words.at((one.address + 4 & ~3) + int(found[1]))
        taken = _taken(one, known)
        if taken is None or taken > _MOST:
            return None
        total += taken
    return total


def _taken(one: Instruction, known: Mapping[str, int]) -> int | None:
    """The bytes by which an instruction moves the stack pointer down; None if that can't be told."""
    if one.name in ("push", "stmdb", "vpush", "vstmdb") and "sp" in one.base:
        return one.count * (8 if re.search(r"{\s*d", one.operands) else 4)
    if one.kind in (Kind.STORE, Kind.STORE_PAIR) and one.updates_base and "sp" in one.base:
        found = _NUMBER.search(one.operands)
        return max(-int(found[1]), 0) if found else None
    if not re.match(r"sp\b", one.operands):
        return 0
    if one.name in ("sub", "subw"):
        found = _NUMBER.search(one.operands)
        return int(found[1]) if found else known.get(one.operands.split(",")[-1].strip())
    if one.name == "add" and "#" not in one.operands:
        moved = known.get(one.operands.split(",")[-1].strip())
        return None if moved is None else max(-moved, 0)
    return 0


class _Calls:
    """Who calls whom."""

    def __init__(
        self,
        code: Mapping[int, Instruction],
        functions: Mapping[str, Sequence[Instruction]],
        steps: Collection[str],
        watchers: Collection[str],
    ) -> None:
        direct: dict[str, set[str]] = {}
        for name, body in functions.items():
            targets = [code[one.target] for one in body if one.target is not None and one.target in code]
            direct[name] = {target.function for target in targets if target.function != name}
        called = {name for names in direct.values() for name in names}
        kernels = _reached(direct, steps)
        unknown = {name for name in functions if name not in called and name not in steps} & _kernel_names(functions)
        unknown -= set(watchers)
        called_in_turn = {*steps, *watchers} & set(functions)
        self.callees: dict[str, set[str]] = {}
        for name, body in functions.items():
            by_pointer = unknown if name in kernels else called_in_turn - ({name} if name in watchers else set())
            self.callees[name] = direct[name] | (by_pointer if _calls_by_pointer(body) else set())


def _kernel_names(functions: Collection[str]) -> set[str]:
    return {name for name in functions if name.startswith("cortado_")}


def _calls_by_pointer(body: Sequence[Instruction]) -> bool:
    """Whether a function jumps to what a register holds, unless that came from the stack: so do functions return that
    were given a part of their arguments there, and had them pushed."""
    popped: set[str] = set()
    for one in body:
        if one.kind is Kind.JUMP and one.name in ("blx", "bx") and one.operands.strip() not in {"lr", *popped}:
            return True
        popped = popped | one.writes if one.name == "pop" else popped - one.writes
    return False


def _reached(direct: Mapping[str, Collection[str]], start: Collection[str]) -> set[str]:
    found: set[str] = set()
    left = [name for name in start if name in direct]
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += direct[name]
    return found


class _Depths:
    def __init__(self, frames: Mapping[str, int], callees: Mapping[str, Collection[str]]) -> None:
        self.frames, self.callees = frames, callees
        self.known: dict[str, int] = {}
        self.open: set[str] = set()

    def of(self, name: str) -> int:
        """Raises KeyError for a function whose frame is not known."""
        if name in self.open:  # a pointer is never to one's own caller
            return 0
        if name not in self.known:
            self.open.add(name)
            self.known[name] = self.frames[name] + max((self.of(one) for one in self.callees[name]), default=0)
            self.open.discard(name)
        return self.known[name]
