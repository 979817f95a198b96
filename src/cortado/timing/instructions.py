"""Instructions as a disassembler prints them: their kind, and the registers they read and write."""

import re
from collections.abc import Mapping
from enum import Enum, auto
from functools import cache, lru_cache
from typing import NamedTuple


class Kind(Enum):
    """Kinds of instructions with the same timing."""

    ALU = auto()
    SHIFT = auto()  # shifts, bit fields, saturation, shifted operands
    LIGHT = auto()  # moves, extensions, additions of an immediate: some cores can pair them with another one
    MULTIPLY = auto()
    ACCUMULATE = auto()
    LONG_MULTIPLY = auto()
    LONG_ACCUMULATE = auto()
    DIVIDE = auto()
    LOAD = auto()
    STORE = auto()
    LOAD_PAIR = auto()
    STORE_PAIR = auto()
    LOAD_MANY = auto()
    STORE_MANY = auto()
    BRANCH = auto()  # conditional or not, to a fixed address
    CALL = auto()
    JUMP = auto()  # to an address in a register
    TABLE_JUMP = auto()
    LOOP_START = auto()
    LOOP_END = auto()
    IT = auto()
    NOTHING = auto()
    BARRIER = auto()
    FLOAT = auto()
    FLOAT_ACCUMULATE = auto()
    FLOAT_DIVIDE = auto()
    FLOAT_LOAD = auto()
    FLOAT_STORE = auto()
    VECTOR_LOAD = auto()
    VECTOR_STORE = auto()
    VECTOR_MULTIPLY = auto()
    VECTOR_INTEGER = auto()
    VECTOR_MOVE = auto()  # between vectors and core registers
    VECTOR_CONTROL = auto()  # predicates


VECTORS = frozenset(kind for kind in Kind if kind.name.startswith("VECTOR"))


class Instruction(NamedTuple):
    """One instruction. `base` are the address registers, `target` is the destination of a branch. (A tuple for speed: a
    firmware has tens of thousands.)"""

    name: str  # the mnemonic without width and type suffixes
    operands: str
    kind: Kind
    writes: frozenset[str]
    reads: frozenset[str]
    base: frozenset[str] = frozenset()
    listed: int = 0  # words in its register list
    register_offset: bool = False
    updates_base: bool = False
    target: int | None = None
    address: int = 0
    size: int = 0
    function: str = ""

    @property
    def from_code(self) -> bool:
        """Whether it loads a constant from a literal pool."""
        return "pc" in self.base

    @property
    def writes_pc(self) -> bool:
        return "pc" in self.writes


_CONDITION = "(?:eq|ne|cs|hs|cc|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le)"
# The kind is the first that matches the beginning of the mnemonic, without type suffixes.
_KINDS: tuple[tuple[str, Kind], ...] = (
    (rf"b{_CONDITION}?$|cbn?z$", Kind.BRANCH),
    (r"bl$", Kind.CALL),
    (r"bx|blx", Kind.JUMP),
    (r"tb[bh]", Kind.TABLE_JUMP),
    (r"(dls|wls)", Kind.LOOP_START),
    (r"(le|letp|lctp)$", Kind.LOOP_END),
    (r"it[te]{0,3}$", Kind.IT),
    (r"nop", Kind.NOTHING),
    (r"dsb|dmb|isb", Kind.BARRIER),
    (r"ldrd", Kind.LOAD_PAIR),
    (r"strd", Kind.STORE_PAIR),
    (r"ldr", Kind.LOAD),
    (r"str", Kind.STORE),
    (r"ldm|pop|vpop|vldm", Kind.LOAD_MANY),
    (r"stm|push|vpush|vstm", Kind.STORE_MANY),
    (r"[su]mlal|smlsld|umaal", Kind.LONG_ACCUMULATE),
    (r"[su]mull", Kind.LONG_MULTIPLY),
    (r"mla|mls|smla|smmla|smls|smmls", Kind.ACCUMULATE),
    (r"mul|smul|smmul|smua|smus", Kind.MULTIPLY),
    (r"[su]div", Kind.DIVIDE),
    (r"(lsl|lsr|asr|ror|rrx|bf[ci]|[su]bfx|[su]sat|pkh|rbit|rev|clz|[su]xta|[su]xtb16)", Kind.SHIFT),
    (r"(mov|[su]xt[bh])", Kind.LIGHT),
)
_VECTOR_KINDS: tuple[tuple[str, Kind], ...] = (
    (r"vld", Kind.VECTOR_LOAD),
    (r"vst", Kind.VECTOR_STORE),
    (r"vctp|vpst|vpnot|vmsr|vmrs", Kind.VECTOR_CONTROL),
    (r"vr?ml|vq?r?d?mul|vrmulh|vmulh|vqr?dml|vfm|vaddl?v|vcmp|vpt|vcmul|vcmla", Kind.VECTOR_MULTIPLY),
    (r"vmov", Kind.VECTOR_MOVE),
)
_FLOAT_KINDS: tuple[tuple[str, Kind], ...] = (
    (r"vldr", Kind.FLOAT_LOAD),
    (r"vstr", Kind.FLOAT_STORE),
    (r"vfn?m|vn?ml", Kind.FLOAT_ACCUMULATE),
    (r"vdiv|vsqrt", Kind.FLOAT_DIVIDE),
)
_REGISTER = re.compile(r"\b(r\d+|sp|lr|pc|ip|fp|sl|sb|[qds]\d+)\b")
_ALIASES = {"ip": "r12", "fp": "r11", "sl": "r10", "sb": "r9"}
_FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")
# Instructions that write only flags, and those whose first two operands are results.
_COMPARES = re.compile(r"cmp|cmn|tst|teq|vcmp|vpt|vctp")
_TWO_RESULTS = re.compile(r"[su]mull|[su]mlal|umaal|ldrd|lsll|lsrl|asrl|vmlaldav|vmlalv|vrmlal|vaddlv")
_READ_THEIR_RESULT = re.compile(
    r"[su]mlal|umaal|movt|bfi|bfc|vml[as]|vfma|vfms|vqr?dml|vq?r?shru?nt|vq?movu?nt"
    r"|vn?ml[as]|vfn?m[as]"
)
# Reductions across a vector: they accumulate if the name has an "a" before the predicate's letter.
_ACROSS = re.compile(r"v(r?ml[as]l?d?a?|addl?|max|min|maxa|mina)v")
_ADDS_UP = re.compile(r"vax?[te]?$")


@lru_cache(maxsize=1 << 15)
def registers(text: str) -> tuple[str, ...]:
    """Returns the registers in a text; halves and quarters of a vector register count as the whole."""
    return tuple(_register(name) for name in _REGISTER.findall(text))


def _register(name: str) -> str:
    if name[0] in "ds" and name[1:].isdecimal():
        return f"q{int(name[1:]) // (2 if name[0] == 'd' else 4)}"
    return _ALIASES.get(name, name)


_PLACE = Instruction._fields.index("address")  # the first of the fields that tell where an instruction stands


def parse(text: str) -> dict[int, Instruction]:
    """Parses the output of `objdump -d`, by address; data between the functions is skipped."""
    found: dict[int, Instruction] = {}
    function = ""
    for line in text.splitlines():
        place, _, rest = line.partition(":\t")
        if not rest:
            head = _FUNCTION.match(line)
            function = function if head is None else head[1]
            continue
        code, _, said = rest.partition("\t")
        if said and not said.startswith("."):
            address = int(place, 16)
            size = len(code.replace(" ", "")) // 2
            found[address] = Instruction._make((*_read(said)[:_PLACE], address, size, function))
    return found


@lru_cache(maxsize=1 << 15)  # a few thousand distinct ones make up all firmware
def _read(text: str) -> Instruction:
    """Parses an instruction, without its address."""
    mnemonic, *rest = text.split(maxsplit=1)
    operands = re.split(r"\s*[;@]", "".join(rest))[0].strip()
    name = mnemonic.split(".")[0]
    kind = _kind(name, operands)
    if kind in (Kind.BRANCH, Kind.CALL, Kind.LOOP_END):
        target = re.search(r"\b([0-9a-f]+) <", operands)
        reads = frozenset(registers(operands.split("<")[0]))
        place = int(target[1], 16) if target else None
        return Instruction(name, operands, kind, frozenset(), reads, target=place)
    if "[" in operands:
        return _memory(name, operands, kind)
    if "{" in operands:
        return _many(name, operands, kind)
    return Instruction(name, operands, kind, *_results(name, operands))


@cache
def _named(name: str, table: tuple[tuple[str, Kind], ...]) -> Kind | None:
    """Returns the kind of a mnemonic in a table: a few hundred make up all firmware."""
    return next((kind for pattern, kind in table if re.match(pattern, name)), None)


def _kind(name: str, operands: str) -> Kind:
    if name.startswith("v") and not name.startswith(("vpush", "vpop", "vldm", "vstm")):
        vector = re.search(r"\bq\d", operands) or name.startswith(("vctp", "vpst", "vpt", "vpnot"))
        core = re.search(r"\b(r\d|ip|lr|fp|sl|sb)", operands)
        if not vector and name == "vmov" and core:
            return Kind.VECTOR_MOVE if re.match(r"[qd]\d", operands) else Kind.FLOAT
        table, other = (_VECTOR_KINDS, Kind.VECTOR_INTEGER) if vector else (_FLOAT_KINDS, Kind.FLOAT)
        found = _named(name, table) or other
        return Kind.VECTOR_INTEGER if found is Kind.VECTOR_MOVE and not core else found
    kind = _named(name, _KINDS) or Kind.ALU
    if kind is Kind.ALU and re.search(r",\s*(lsl|lsr|asr|ror|rrx)\b", operands):
        return Kind.SHIFT
    if kind is Kind.ALU and re.match(r"(add|sub)s?$", name) and "#" in operands:
        return Kind.LIGHT
    jumps = kind in (Kind.ALU, Kind.LIGHT, Kind.SHIFT) and operands.startswith("pc,")
    return Kind.JUMP if jumps else kind


def _results(name: str, operands: str) -> tuple[frozenset[str], frozenset[str]]:
    parts = [registers(part) for part in operands.split(",")]
    if _COMPARES.match(name) or not parts or name.startswith(("b", "cb", "tb")):
        return frozenset(), frozenset(registers(operands))
    results = 2 if _TWO_RESULTS.match(name) else 1
    writes = frozenset(register for part in parts[:results] for register in part)
    reads = frozenset(register for part in parts[results:] for register in part)
    return writes, reads | writes if _reads_its_result(name, len(parts)) else reads


def _reads_its_result(name: str, operands: int) -> bool:
    if _ACROSS.match(name):
        return _ADDS_UP.search(name) is not None
    in_place = operands == 2 and not re.match(r"v|mov|mvn|[su]xt|rev|rbit|clz|neg|dls|wls", name)
    return in_place or _READ_THEIR_RESULT.match(name) is not None


def _memory(name: str, operands: str, kind: Kind) -> Instruction:
    data, _, place = operands.partition("[")
    inner, _, after = place.partition("]")
    base = frozenset(registers(inner))
    values = frozenset(registers(data))
    updates = "!" in after or after.startswith(",")
    is_load = name.startswith(("ldr", "vld", "tb"))
    updated = frozenset(registers(inner.split(",")[0])) if updates else frozenset()
    return Instruction(
        name,
        operands,
        kind,
        writes=(values if is_load else frozenset()) | updated,
        reads=base | frozenset(registers(after)) | (frozenset() if is_load else values),
        base=base,
        register_offset=re.search(r",\s*(r\d+|ip|lr|fp|sl|sb)\b", inner) is not None,
        updates_base=updates,
    )


def _many(name: str, operands: str, kind: Kind) -> Instruction:
    head, _, rest = operands.partition("{")
    listed = rest.rstrip("}^")
    names: list[str] = []
    for part in listed.split(","):
        ends = re.findall(r"[rsd]\d+", part) if "-" in part else []
        if len(ends) == 2:
            names += [f"{ends[0][0]}{n}" for n in range(int(ends[0][1:]), int(ends[1][1:]) + 1)]
        else:
            names.append(part.strip())
    values = frozenset(_register(name) for name in names)
    base = frozenset(registers(head)) or frozenset({"sp"})
    is_load = kind is Kind.LOAD_MANY
    updates = "!" in head or not head
    return Instruction(
        name,
        operands,
        kind,
        writes=(values if is_load else frozenset()) | (base if updates else frozenset()),
        reads=base | (frozenset() if is_load else values),
        base=base,
        listed=sum(2 if one.startswith("d") else 1 for one in names),
        updates_base=updates,
    )


def by_function(code: Mapping[int, Instruction]) -> dict[str, list[Instruction]]:
    """Groups instructions by function, in the order of their addresses; two functions with the same name count as
    one."""
    functions: dict[str, list[Instruction]] = {}
    for address in sorted(code):
        functions.setdefault(code[address].function, []).append(code[address])
    return functions
