"""The stack that a linked program needs, derived from its instructions: the frame of every function, and the call
graph.

The instructions are disassembled from the firmware. The result is an upper bound: a function's frame is all that any
path through it pushes, and a call through a pointer can reach every function that the pointer may hold. `run` on a
board measures the stack that a run uses; tests check that the bound holds.
"""

import re
import struct
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from elftools.elf.elffile import ELFFile

from cortado.base.errors import CortadoError
from cortado.base.target import CortexM
from cortado.run import sandbox, toolchain
from cortado.run.toolchain import Tool
from cortado.timing.instructions import Instruction, Kind, parse

# ---- disassembly -----------------------------------------------------------------------------------------

# Without the architecture, objdump decodes vector instructions as coprocessor instructions.
_ARCHITECTURE = {cpu: "armv8.1-m.main" for cpu in (CortexM.M52, CortexM.M55, CortexM.M85)}


def disassemble(elf: Path, cpu: CortexM) -> dict[int, Instruction]:
    """Disassembles a firmware for this core: every instruction, by address."""
    return _disassemble(elf, elf.stat().st_mtime_ns, _ARCHITECTURE.get(cpu))


@lru_cache(maxsize=4)
def _disassemble(elf: Path, mtime_ns: int, architecture: str | None) -> dict[int, Instruction]:
    gcc = toolchain.require(Tool.ARM_GCC)
    objdump = gcc.with_name(gcc.name.removesuffix("gcc") + "objdump")
    machine = [] if architecture is None else ["-m", architecture]
    command: list[str | Path] = [objdump, "-d", *machine, elf]
    done = sandbox.run(command, sandbox.COMPILER, doing=f"reading the instructions of {elf.name}")
    if done.code != 0:
        raise CortadoError(f"{objdump.name} can't read {elf.name}: {done.errors.strip()}")
    return parse(done.stdout.decode(errors="replace"))


# ---- stack -----------------------------------------------------------------------------------------------

_NUMBER = re.compile(r"#(-?\d+)")
_MOST = 1 << 20  # bytes: no frame is that large


def stack_bytes(
    elf: Path, cpu: CortexM, entries: Collection[str], steps: Collection[str], watchers: Collection[str] = ()
) -> int | None:
    """Returns the most stack that a call of one of the entries takes; None if some function's frame size is unknown.

    `steps` are the functions that the row loop calls through pointers; `watchers`, those that it calls in their place
    and that call them.
    """
    found = stacks(elf, cpu, entries, steps, watchers).values()
    known = [size for size in found if size is not None]
    return max(known) if len(known) == len(found) else None


def stacks(
    elf: Path, cpu: CortexM, entries: Collection[str], steps: Collection[str], watchers: Collection[str] = ()
) -> dict[str, int | None]:
    """Returns the same bound for each entry that is in the program."""
    functions: dict[str, list[Instruction]] = {}
    code = _apart(disassemble(elf, cpu), elf)
    for instruction in code.values():
        functions.setdefault(instruction.function, []).append(instruction)
    words = _Words(elf)
    frames = {name: size for name, body in functions.items() if (size := _frame(body, words)) is not None}
    calls = _Calls(code, functions, words)
    known = {step: _depth(frames, calls.of_step(step), step, {}) for step in steps if step in functions}
    loop = calls.of_loop(steps, watchers)
    return {entry: _depth(frames, loop, entry, known) for entry in entries if entry in functions}


_SYMBOL = struct.Struct("<4xI4xB3x")  # an ELF symbol: value, and type with binding
_FUNCTION = 2  # STT_FUNC


def _apart(code: Mapping[int, Instruction], elf: Path) -> dict[int, Instruction]:
    """Renames static functions of the same name: all but the first get their address as a suffix."""
    with elf.open("rb") as file:
        symbols = _SYMBOL.iter_unpack(ELFFile(file).get_section_by_name(".symtab").data())
    heads = sorted({value & ~1 for value, info in symbols if info & 0xF == _FUNCTION})
    first: dict[str, int] = {}
    found = {}
    for address in sorted(code):
        one, place = code[address], bisect_right(heads, address)
        head = heads[place - 1] if place else 0
        own = first.setdefault(one.function, head) == head
        found[address] = one if own else one._replace(function=f"{one.function}@{head:x}")
    return found


class _Words:
    """The constants in the code section (literal pools)."""

    def __init__(self, elf: Path) -> None:
        with elf.open("rb") as file:
            section = ELFFile(file).get_section_by_name(".text")
            self.start, self.data = section["sh_addr"], section.data()

    def at(self, address: int) -> int:
        start = address - self.start
        return int.from_bytes(self.data[start : start + 4], "little", signed=True)


def _loaded(one: Instruction, words: _Words) -> int | None:
    """Returns the constant that an instruction loads from a literal pool; None for any other instruction."""
    found = _NUMBER.search(one.operands) if one.kind is Kind.LOAD and one.from_code else None
    return None if found is None else words.at((one.address + 4 & ~3) + int(found[1]))


def _frame(body: Sequence[Instruction], words: _Words) -> int | None:
    """Returns the most stack that a function itself can hold while it calls another."""
    total, known = 0, dict[str, int]()
    for one in body:
        if (constant := _loaded(one, words)) is not None:
            known[one.operands.split(",")[0]] = constant
        taken = _taken(one, known)
        if taken is None or taken > _MOST:
            return None
        total += taken
    return total


def _taken(one: Instruction, known: Mapping[str, int]) -> int | None:
    """Returns the bytes by which an instruction lowers the stack pointer; None if unknown."""
    if one.name in ("push", "stmdb", "vpush", "vstmdb") and "sp" in one.base:
        return one.listed * (8 if re.search(r"{\s*d", one.operands) else 4)
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
    """The call graph. A kernel that calls through a pointer gets it from the call it is part of: a function whose
    address occurs in that call's code."""

    def __init__(
        self, code: Mapping[int, Instruction], functions: Mapping[str, Sequence[Instruction]], words: _Words
    ) -> None:
        heads = {min(one.address for one in body): name for name, body in functions.items()}
        self._direct: dict[str, set[str]] = {}
        self._named: dict[str, set[str]] = {}
        for name, body in functions.items():
            targets = [code[one.target] for one in body if one.target is not None and one.target in code]
            self._direct[name] = {target.function for target in targets if target.function != name}
            self._named[name] = {heads[one & ~1] for one in _addresses(body, words) if one & ~1 in heads} - {name}
        self._by_pointer = {name for name, body in functions.items() if _calls_by_pointer(body)}

    def of_step(self, step: str) -> dict[str, set[str]]:
        """Returns the call graph inside a kernel call."""
        reached = self._reached(step)
        given = {one for name in reached for one in self._named[name]}
        return {name: self._direct[name] | (given if name in self._by_pointer else set()) for name in reached}

    def of_loop(self, steps: Collection[str], watchers: Collection[str]) -> dict[str, set[str]]:
        """Returns the call graph of everything else: the row loop calls steps and watchers, and a watcher calls
        steps."""
        in_turn = {*steps, *watchers} & set(self._direct)
        found = {}
        for name, direct in self._direct.items():
            by_pointer = in_turn - ({name} if name in watchers else set()) | self._named[name]
            found[name] = direct | (by_pointer if name in self._by_pointer else set())
        return found

    def _reached(self, step: str) -> set[str]:
        """Returns the functions that a call of a step can reach."""
        found, left = set[str](), [step]
        while left:
            name = left.pop()
            if name not in found:
                found.add(name)
                left += self._direct[name] | self._named[name]
        return found


def _addresses(body: Sequence[Instruction], words: _Words) -> Iterator[int]:
    """Yields the constants in a function's code: loaded ones, and those built from two halves."""
    low: dict[str, int] = {}
    for one in body:
        if (constant := _loaded(one, words)) is not None:
            yield constant & 0xFFFFFFFF
        half = _NUMBER.search(one.operands) if one.name in ("movw", "movt") else None
        register = one.operands.split(",")[0]
        if half is not None and one.name == "movw":
            low[register] = int(half[1])
        elif half is not None and register in low:
            yield int(half[1]) << 16 | low[register]


def _calls_by_pointer(body: Sequence[Instruction]) -> bool:
    """Returns whether a function branches to a register whose value was not popped from the stack: popping is how
    functions return that had arguments pushed."""
    popped: set[str] = set()
    for one in body:
        if one.kind is Kind.JUMP and one.name in ("blx", "bx") and one.operands.strip() not in {"lr", *popped}:
            return True
        popped = popped | one.writes if one.name == "pop" else popped - one.writes
    return False


def _depth(
    frames: Mapping[str, int],
    callees: Mapping[str, Collection[str]],
    start: str,
    known: Mapping[str, int | None],
) -> int | None:
    """Returns the stack of a function including its callees; None if one of them is unknown."""
    found: dict[str, int | None] = dict(known)
    opened: set[str] = set()

    def of(name: str) -> int | None:
        if name in opened:  # a pointer never holds its own caller
            return 0
        if name not in found:
            opened.add(name)
            below = [of(one) for one in callees[name]]
            opened.discard(name)
            sizes = [size for size in (*below, frames.get(name)) if size is not None]
            complete = len(sizes) == len(below) + 1
            found[name] = frames[name] + max(sizes[:-1], default=0) if complete else None
        return found[name]

    return of(start)
