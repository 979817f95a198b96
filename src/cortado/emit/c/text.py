"""C text that fits the page: names, comments and lists of at most 120 columns."""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

from cortado.base.names import c_identifier, identifier_part, plain
from cortado.base.target import Core

if TYPE_CHECKING:
    from cortado.plan.planned import Planned
    from cortado.plan.program import Program, Step

WIDTH = 120
LONGEST_TITLE = 80


@dataclass(frozen=True)
class OfPlan:
    """A file that is written for a planned program: the names by which it speaks of it."""

    planned: "Planned"

    @property
    def program(self) -> "Program":
        return self.planned.program

    @property
    def name(self) -> str:
        return c_identifier(self.program.name)

    @property
    def upper(self) -> str:
        return self.name.upper()


def operation(step: "Step") -> str:
    """Returns what a step computes, without what ExecuTorch's names say of every operator: conv2d."""
    return step.operator.rpartition("::")[2].removeprefix("quantized_").removesuffix("_nhwc")


def label(step: "Step") -> str:
    """Returns what a step is called in comments: the module it comes from, or what it computes."""
    return plain(step.module or operation(step))[:LONGEST_TITLE]


def title(step: "Step") -> str:
    """The module first, as in `features.0: conv2d`."""
    return plain(f"{step.module}: {operation(step)}" if step.module else operation(step))[:LONGEST_TITLE]


class Names:
    """C names, each given once: the second features_0 is features_0_2."""

    def __init__(self) -> None:
        self.taken: set[str] = set()

    def new(self, wanted: str) -> str:
        name, number = wanted, 1
        while name in self.taken:
            number += 1
            name = f"{wanted}_{number}"
        self.taken.add(name)
        return name

    def of_step(self, step: "Step") -> str:
        return self.new(identifier_part(step.module) or identifier_part(operation(step)) or "step")


def comment(text: str, indent: int = 0) -> str:
    """A comment on as many lines as it takes."""
    lines = textwrap.wrap(text, WIDTH - indent - len("/*  */"))
    return "/* " + f"\n{' ' * indent} * ".join(lines) + " */"


def titled(text: str, rows: Iterable[str]) -> str:
    """Rows of a table under a comment."""
    return "\n".join([f"    {comment(text, indent=4)}", *rows])


def listed(items: Iterable[str], indent: int) -> str:
    """Items with commas between them, as many to a line as fit; the first line is indented already."""
    lines: list[str] = []
    for item in items:
        if lines and indent + len(lines[-1]) + len(f", {item})}},") <= WIDTH:  # and what may close the list
            lines[-1] += f", {item}"
        else:
            lines.append(item)
    return f",\n{' ' * indent}".join(lines)


def designated(values: Mapping[str, object]) -> list[str]:
    """The initializers of a structure's members."""
    return [f".{name} = {value}" for name, value in values.items()]


@dataclass
class Piece:
    """A piece of C that only some cores compile."""

    text: str
    cores: set[Core] = field(default_factory=set)


def guarded(pieces: Iterable[Piece], every: frozenset[Core]) -> str:
    """Returns what all cores of the bundle compile, then between #if and #endif what only some of them do."""

    def order(piece: Piece) -> tuple[bool, list[Core]]:
        return not piece.cores >= every, sorted(piece.cores)

    parts = []
    for (partly, cores), group in groupby(sorted(pieces, key=order), key=order):
        text = "\n".join(piece.text for piece in group)
        parts.append(f"#if {_test(cores)}\n{text.rstrip()}\n#endif\n" if partly else text)
    return "\n".join(parts)


def core_macro(core: Core) -> str:
    return f"CORTADO_CORE_{core.name}"


def _test(cores: Sequence[Core]) -> str:
    return " || ".join(f"CORTADO_CORE == {core_macro(core)}" for core in cores)


def bad_arena(model: str) -> str:
    """The C condition of an arena that no function of a model can work in; the model as its macros begin."""
    return f"arena == NULL || (uintptr_t)arena % {model}_ARENA_ALIGN != 0"
