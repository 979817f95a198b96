"""Kernel calls and descriptors of a bundle's steps, per core, within the limits of the tables' small fields.

Steps share rows of the port table: most operands have the same place as one of an earlier step.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np

from cortado.base.errors import CortadoError, TooLarge
from cortado.base.target import Core
from cortado.emit.c.data import Arrays, Reader, float_text, int_text
from cortado.emit.c.text import Names, Piece, call_function, comment, label, listed, need_function, title, titled
from cortado.ir.c_call import CCall
from cortado.ir.kernel import Array, Field, Kernel, NestedDescriptor
from cortado.plan.program import Port, Program, Step

# ---- limits ----------------------------------------------------------------------------------------------

MOST_TAPS = (1 << 8) - 1  # rows of a window, its stride, dilation and padding
MOST_ROWS = (1 << 16) - 1
MOST_SHORT = (1 << 15) - 1
# Values chosen by a model's author that descriptors hold in 16 bits.
SHORT_FIELDS = frozenset({"depth_multiplier", "kernel_h", "kernel_w", "stride_w", "pad_left", "dilation_w"})


def check_limits(program: Program, lines: Mapping[str, str]) -> None:
    """Refuses a step that the tables can't hold, naming the step and its source line."""
    for step in program.steps:
        line = lines.get(step.name)
        where = f"{step.name} ({step.operator})" + (f" at {line}" if line else "")
        for what, found, most in _numbers(step, program.stream is not None):
            if found > most:
                raise TooLarge(
                    f"{where}: {what} of {found} is too large for the tables of a C bundle, expected at most {most}; "
                    "split the layer in two, or compile only a .pte (--artifacts pte)"
                )


def _numbers(step: Step, endless: bool) -> list[tuple[str, int, int]]:
    """Returns (what it is, its value, the largest that fits) for every number of a step."""
    found = [number for port in step.inputs for number in _window(port, endless)]
    if not endless:
        found.append(("a number of rows", step.rows, MOST_ROWS))
    for kernel in step.kernels.values():
        fields = {name: value for name, value in kernel.fields.items() if name in SHORT_FIELDS}
        found += [(f"a {name}", value, MOST_SHORT) for name, value in fields.items() if isinstance(value, int)]
    return found


def _window(port: Port, endless: bool) -> list[tuple[str, int, int]]:
    rule = port.rule
    found = [
        ("a window's height", rule.taps, MOST_TAPS),
        ("a window's vertical stride", rule.stride, MOST_TAPS),
        ("a window's vertical dilation", rule.dilation, MOST_TAPS),
    ]
    if not endless:
        found += [("a window's padding above", rule.pad, MOST_TAPS), ("a number of rows", port.height, MOST_ROWS)]
    return found


# ---- layers ----------------------------------------------------------------------------------------------

NO_SECTIONS: Mapping[str, str] = {}


@dataclass(frozen=True)
class StepInC:
    """The C expressions of a step; one that differs between cores is a macro, defined for each."""

    call: str
    layer: str
    scratch_bytes: str
    scratch_need: str
    constants: tuple[str | None, ...]  # per operand, its constant array; None if it is in the arena


@dataclass(frozen=True)
class _Owner:
    """The step whose constants are being emitted: its name in C, its kernel, and its cores."""

    step: Step
    name: str
    kernel: str
    cores: Collection[Core]

    def reader(self, field: str) -> Reader:
        return Reader(step=self.step.name, label=label(self.step), field=field, kernel=self.kernel)


class StaticFunctions:
    """Static functions of MODEL.c, one for each pair of descriptor and call."""

    def __init__(self, write: Callable[[str, str | None, CCall], str]) -> None:
        self.write = write
        self.names = Names()
        self.pieces: dict[str, Piece] = {}
        self._known: dict[tuple[str | None, CCall], str] = {}

    def add(self, wanted: str, struct: str | None, call: CCall, core: Core) -> str:
        key = (struct, call)
        if key not in self._known:
            name = self.names.new(wanted)
            self._known[key] = name
            self.pieces[name] = Piece(self.write(name, struct, call))
        self.pieces[self._known[key]].cores.add(core)
        return self._known[key]


class Layers:
    """Collects the descriptors, constants, functions and kernel sources of a bundle, step by step."""

    def __init__(
        self,
        prefix: str,
        cores: frozenset[Core],
        sections: Mapping[str, str] = NO_SECTIONS,
        arrays: Arrays | None = None,
    ) -> None:
        """Starts with the constants' `sections`, by the names of their steps, and with `arrays` shared with other
        models."""
        self.cores, self.sections = cores, sections
        self.names = Names()
        self.arrays = arrays or Arrays(prefix, cores)
        self.calls = StaticFunctions(call_function)
        self.needs = StaticFunctions(need_function)
        self.descriptors: list[Piece] = []
        self.macros: list[Piece] = []  # for expressions that differ between cores
        self.sources: set[str] = set()

    def add(self, step: Step) -> StepInC:
        if not step.kernels:  # its rows are pushed
            return StepInC(call="NULL", layer="NULL", scratch_bytes="0", scratch_need="NULL", constants=())
        name = self.names.of_step(step)
        layers: dict[Core, str] = {}
        for kernel, cores in _distinct(step.kernels):
            layers |= dict.fromkeys(cores, self._descriptor(_Owner(step, name, kernel.call.function, cores), kernel))
        kernels = step.kernels.items()
        self.sources |= {source for kernel in step.kernels.values() for source in kernel.sources}
        return StepInC(
            call=self._by_core(f"CALL_{name}", {core: self._call(kernel, core) for core, kernel in kernels}),
            layer=self._by_core(f"LAYER_{name}", layers),
            scratch_bytes=self._by_core(f"SCRATCH_{name}", {core: str(kernel.scratch) for core, kernel in kernels}),
            scratch_need=self._by_core(f"NEED_{name}", {core: self._need(kernel, core) for core, kernel in kernels}),
            constants=self._operands(_Owner(step, name, next(iter(step.kernels.values())).call.function, self.cores)),
        )

    def _call(self, kernel: Kernel, core: Core) -> str:
        return self.calls.add(f"call_{_symbol(kernel)}", kernel.struct, kernel.call, core)

    def _need(self, kernel: Kernel, core: Core) -> str:
        if not kernel.scratch or kernel.scratch_check is None:
            return "NULL"
        return self.needs.add(f"need_{_symbol(kernel)}", kernel.struct, kernel.scratch_check, core)

    def _operands(self, owner: _Owner) -> tuple[str | None, ...]:
        sources = [port.source for port in owner.step.ports]
        return tuple(self._array(owner, "operand", at) if isinstance(at, Array) else None for at in sources)

    def _by_core(self, macro: str, texts: Mapping[Core, str]) -> str:
        """Returns the text if all cores agree on it, else a macro that each core defines as its own."""
        if len(set(texts.values())) == 1:
            return next(iter(texts.values()))
        for text in dict.fromkeys(texts.values()):
            cores = {core for core in texts if texts[core] == text}
            self.macros.append(Piece(f"#define {macro} {text}", cores))
        return macro

    def _descriptor(self, owner: _Owner, kernel: Kernel) -> str:
        """Emits a step's descriptor; every core uses the same name, since a build has one of them."""
        if kernel.struct is None:
            return "NULL"
        return self._constant(owner, NestedDescriptor(kernel.struct, kernel.fields), comment(title(owner.step)) + "\n")

    def _constant(self, owner: _Owner, layer: NestedDescriptor, head: str = "") -> str:
        """Emits a descriptor, after those it points to."""
        texts = {key: self._field(owner, key, value) for key, value in layer.fields.items()}
        fields = ",\n".join(f"    .{key} = {text}" for key, text in texts.items())
        text = f"{head}static const {layer.struct} layer_{owner.name} = {{\n{fields},\n}};\n"
        self.descriptors.append(Piece(text, set(owner.cores)))
        return f"&layer_{owner.name}"

    def _field(self, owner: _Owner, key: str, value: Field) -> str:
        if value is None:
            return "NULL"
        if isinstance(value, Array):
            return self._array(owner, key, value)
        if isinstance(value, tuple):
            items = [
                self._constant(replace(owner, name=f"{owner.name}__{key}{number}"), item)
                if isinstance(item, NestedDescriptor)
                else str(item)
                for number, item in enumerate(value)
            ]
            return "{" + listed(items, indent=len(f"    .{key} = {{")) + "}"
        if key in SHORT_FIELDS:
            fits(int(value), 15, key)
        return float_text(value) if isinstance(value, float) else int_text(int(value))

    def _array(self, owner: _Owner, key: str, array: Array) -> str:
        return self.arrays.add(array, f"{owner.name}_{key}", owner.reader(key), owner.cores, self._section(owner))

    def _section(self, owner: _Owner) -> str:
        return self.sections.get(owner.step.name, "")


def fits(value: int, bits: int, what: str) -> int:
    """Returns a number of the tables if it fits its field, which has few bits to save memory."""
    if not 0 <= value < 1 << bits:
        raise CortadoError(f"{what} needs {value}, and the C bundle's tables hold at most {(1 << bits) - 1}")
    return value


def _symbol(kernel: Kernel) -> str:
    return kernel.call.function.removeprefix("cortado_")


def _distinct(kernels: Mapping[Core, Kernel]) -> list[tuple[Kernel, list[Core]]]:
    """Groups the cores of a step by kernel: each distinct kernel with the cores that use it."""
    found: list[tuple[Kernel, list[Core]]] = []
    for core, kernel in kernels.items():
        same = next((cores for other, cores in found if _same(other, kernel)), None)
        if same is None:
            found.append((kernel, [core]))
        else:
            same.append(core)
    return found


def _same(a: Kernel, b: Kernel) -> bool:
    return a is b or (
        (a.call, a.sources, a.struct) == (b.call, b.sources, b.struct) and _same_fields(a.fields, b.fields)
    )


def _same_fields(a: Mapping[str, Field], b: Mapping[str, Field]) -> bool:
    return all(_same_field(a[key], b[key]) for key in a)


def _same_field(a: Field, b: Field) -> bool:
    if isinstance(a, Array) and isinstance(b, Array):
        return a.data.dtype == b.data.dtype and np.array_equal(a.data, b.data)
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        pairs = list(zip(a, b, strict=True))
        return all(
            _same_fields(x.fields, y.fields)
            if isinstance(x, NestedDescriptor) and isinstance(y, NestedDescriptor)
            else x == y
            for x, y in pairs
        )
    return a == b


# ---- ports -----------------------------------------------------------------------------------------------

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class PortRow:
    """An operand's row. Guards move buffers, so fewer rows are equal in the checks build than in the release build."""

    text: str  # for both builds
    release: Hashable  # the key that a release build compares


@dataclass(frozen=True)
class Ports:
    text: str
    firsts: tuple[str, ...]  # per step, the number of its first row


class RowTable(Generic[Key]):
    """Deduplicated rows, each identified by a key: a run of rows that exists already, in the same order, is reused."""

    def __init__(self, keys: Iterable[Key] = ()) -> None:
        self.keys: list[Key] = []
        self._starts: dict[Key, list[int]] = defaultdict(list)
        self._append(keys)

    def place(self, keys: Sequence[Key]) -> int:
        """Returns where the run of rows starts, appending it if it is new; 0 for an empty run."""
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
    """Builds the shared port table, with labels. The checks build has the release build's rows, then its own."""
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
    labels: dict[int, dict[str, None]] = defaultdict(dict)  # the steps whose ports begin at a row, each once
    for (name, rows), *starts in zip(steps, firsts, checked, strict=True):
        for start in starts if rows else ():
            labels[start][name] = None
    lines = [titled("; ".join(labels[i]), [text]) if i in labels else text for i, text in enumerate(both.keys)]
    return Ports(
        text=_of_both_builds(lines[: len(texts)], lines[len(texts) :]),
        firsts=tuple(f"AT({a}, {b})" if a != b else str(a) for a, b in zip(firsts, checked, strict=True)),
    )


def _of_both_builds(release: Sequence[str], checked: Sequence[str]) -> str:
    if not checked:
        return "\n".join(release)
    return "\n".join([*release, "#ifdef CORTADO_ENABLE_RUNTIME_CHECKS", *checked, "#endif"])
