"""The example in a bundle's README: a function around the model, derived from the declarations in its headers alone.

It can therefore call nothing that the headers do not declare, and calls what must be called first. Packages use the
same description of the interface.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cortado.emit.c.text import listed


@dataclass(frozen=True)
class Interface:
    """The interface declared by MODEL.h and MODEL_camera.h."""

    name: str
    functions: Mapping[str, str]  # by verb, as in MODEL_push: the type of the second parameter, if there is one
    macros: Mapping[str, str]  # by name, without the model's prefix
    row_type: str  # the type MODEL_row points to; empty without it
    split: bool  # whether the arena lies in several memories

    @classmethod
    def of(cls, files: Mapping[str, str], name: str) -> "Interface":
        """Parses the interface of one of a bundle's models from its headers."""
        text = files[f"{name}.h"] + files.get(f"{name}_camera.h", "")
        arena = rf"\((?:const )?{name}_arena_t \*arena(?:, ([^)]*))?\);"
        declared = re.findall(rf"^[\w *]*?\b{name}_(\w+){arena}", text, re.M)
        row = re.search(rf"^(\w+) \*{name}_row\(", text, re.M)
        return cls(
            name=name,
            functions={verb: more.rpartition(" ")[0] for verb, more in declared},
            macros=dict(re.findall(rf"^#define {name.upper()}_(\w+) (.*)$", text, re.M)),
            row_type="" if row is None else row[1],
            split=f"\nconst {name}_arena_t *{name}_default_arena(void);" in text,
        )

    @property
    def work(self) -> str:
        """Names the function that firmware calls for a new output."""
        return next(verb for verb in ("take_line", "push", "run") if verb in self.functions)

    @property
    def endless(self) -> bool:
        """Returns whether outputs keep coming after a reset, as in a stream."""
        return "HOP_ROWS" in self.macros

    @property
    def starts(self) -> bool:
        """Returns whether the caller marks the start of a sequence; the example resets before each input of rows by
        itself."""
        return "reset" in self.functions and (self.endless or "run" in self.functions)

    def types(self, kind: str) -> list[str]:
        """Returns the C types of the inputs or outputs."""
        return [self.macros[f"{kind}{number}_TYPE"] for number in range(int(self.macros[f"{kind}S"]))]

    @property
    def scores(self) -> bool:
        """Returns whether the only output looks like one real score for each of several classes."""
        real = "OUTPUT0_SCALE" in self.macros or self.macros["OUTPUT0_TYPE"] == "float"
        sizes = self.macros["OUTPUT0_SHAPE"].strip("{}").split(", ")
        return real and self.macros["OUTPUTS"] == "1" and len(sizes) == 2 and sizes[0] == "1" != sizes[1]

    def call(self, verb: str, *arguments: str) -> str:
        return f"{self.name}_{verb}({', '.join((self.arena, *arguments))})"

    @property
    def arena(self) -> str:
        """Returns the arena as the example passes it to functions."""
        return "arena" if self.split else "&arena"


@dataclass(frozen=True)
class _Function:
    """A function of the example."""

    head: str  # its return type and name
    parameters: Sequence[str]
    body: Sequence[str]

    def text(self, own: Sequence[str]) -> str:
        lines = "\n".join(f"    {line}" for line in (*own, *self.body))
        return f"{self.head}({listed(self.parameters, indent=len(self.head) + 1) or 'void'})\n{{\n{lines}\n}}\n"


def example_text(interface: Interface, methods: Sequence[Interface] = ()) -> str:
    """Returns C that compiles and runs as it is, with one more function for each further method."""
    name, start = interface.name, ""
    own = [f"const {name}_arena_t *arena = {name}_default_arena();"] if interface.split else []
    if interface.starts:
        when = (
            "Call this once, and again to forget earlier rows"
            if interface.endless
            else "Call this before the first step of each sequence"
        )
        start = f"/* {when}. */\n" + _Function("void start", [], [f"{interface.call('reset')};"]).text(own) + "\n"
    given, fed = _fed(interface)
    head, results, taken = _results(interface)
    about = _about(interface, head)
    camera = f'#include "{name}_camera.h"\n' if "take_line" in interface.functions else ""
    static = "" if interface.split else f"static {name}_arena_t arena;\n\n"
    work = _Function(head, [*given, *results], [*fed, *taken]).text(own)
    further = "".join(_method_text(one, name) for one in methods)
    return f"""#include <stdint.h>
#include <string.h>

#include "{name}.h"
{camera}
{static}{start}{about}{work}{further}"""


def _method_text(method: Interface, model: str) -> str:
    """Returns a function around a further method of a model; MODEL.h includes its header."""
    given, fill = _inputs(method)
    results, copies = _outputs(method)
    called = _unless(f"{method.name}({method.arena}) != 0")
    head = f"int call{method.name.removeprefix(model)}"
    return "\n" + _Function(head, [*given, *results], [*fill, *called, *copies, "return 0;"]).text([])


def _about(interface: Interface, head: str) -> str:
    wrong = "below 0 without start()" if interface.starts else "below 0 if something is wrong"
    if interface.endless:
        return f"/* Returns 1 with a new output, 0 if there is none yet, {wrong}. */\n"
    found = "the best class" if head == "int classify" else "0"
    return f"/* Returns {found}; or -1, {'without start()' if interface.starts else 'if something is wrong'}. */\n"


def _fed(interface: Interface) -> tuple[list[str], list[str]]:
    """Returns the example's parameters for the inputs, and the lines that run the model on them."""
    if "take_line" in interface.functions:
        return _pictures(interface)
    if "push" in interface.functions:
        return _endless(interface) if interface.endless else _rows(interface)
    parameters, fill = _inputs(interface)
    return parameters, [*fill, *_unless(f"{interface.call('run')} != 0")]


def _inputs(interface: Interface) -> tuple[list[str], list[str]]:
    """Returns the parameters for whole inputs, and the lines that copy them into the arena."""
    types, upper = interface.types("INPUT"), interface.name.upper()
    return [f"const {kind} *input{number}" for number, kind in enumerate(types)], [
        f"memcpy({interface.call('input', str(number))}, input{number}, {upper}_INPUT{number}_BYTES);"
        for number in range(len(types))
    ]


def _outputs(interface: Interface) -> tuple[list[str], list[str]]:
    """Returns the parameters for the outputs, and the lines that copy the outputs there."""
    types, upper = interface.types("OUTPUT"), interface.name.upper()
    return [f"{kind} *output{number}" for number, kind in enumerate(types)], [
        f"memcpy(output{number}, {interface.call('output', str(number))}, {upper}_OUTPUT{number}_BYTES);"
        for number in range(len(types))
    ]


def _unless(wrong: str) -> list[str]:
    return [f"if ({wrong}) {{", "    return -1;", "}"]


def _pictures(interface: Interface) -> tuple[list[str], list[str]]:
    """Returns the parameter and the lines for pictures that come line by line from a camera's sensor."""
    run = [] if "run" not in interface.functions else _unless(f"{interface.call('run')} != 0")
    lines = [
        "int status;",
        *_unless(f"{interface.call('begin_picture')} != 0"),
        "do {",
        f"    status = {interface.call('take_line', 'next_line()')};",
        "} while (status == 0);",
        *_unless("status != 1"),
        *run,
    ]
    return ["const uint8_t *(*next_line)(void)"], lines


def _rows(interface: Interface) -> tuple[list[str], list[str]]:
    """Returns the parameter and the lines for one input that comes row by row."""
    kind, written = interface.row_type, ["NULL"] if interface.functions["push"] else []
    lines = [
        "int status;",
        f"{interface.call('reset')};",
        "do {",
        f"    {kind} *const row = {interface.call('row')};",
        *(f"    {line}" for line in _unless("row == NULL")),
        "    read_row(row);",
        f"    status = {interface.call('push', *written)};",
        "} while (status == 0);",
        *_unless("status != 1"),
    ]
    return [f"void (*read_row)({kind} *row)"], lines


def _endless(interface: Interface) -> tuple[list[str], list[str]]:
    """Returns the parameter and the lines for the next row of a stream, or its next samples."""
    kind = interface.row_type
    check = ["if (status != 1) {", "    return status;", "}"]
    if interface.functions["push"]:
        return [f"const {kind} *samples"], [f"const int status = {interface.call('push', 'samples')};", *check]
    lines = [
        f"{kind} *const next = {interface.call('row')};",
        *_unless("next == NULL"),
        f"memcpy(next, row, {interface.name.upper()}_ROW_BYTES);",
        f"const int status = {interface.call('push')};",
        *check,
    ]
    return [f"const {kind} *row"], lines


def _results(interface: Interface) -> tuple[str, list[str], list[str]]:
    """Returns the head of the example's function, its parameters for results, and the lines that write them."""
    done = "return 1;" if interface.endless else "return 0;"
    if "decision" in interface.functions:
        return "int decide", ["int *decided"], [f"*decided = {interface.call('decision')};", done]
    if interface.scores:
        best = _best_class(interface)
        if interface.endless:
            return "int classify", ["int *best_class"], [*best, "*best_class = best;", done]
        return "int classify", [], [*best, "return best;"]
    results, copies = _outputs(interface)
    return "int infer", results, [*copies, done]


def _best_class(interface: Interface) -> list[str]:
    kind, upper = interface.types("OUTPUT")[0], interface.name.upper()
    return [
        f"const {kind} *scores = {interface.call('output', '0')};",
        "int best = 0;",
        f"for (int i = 1; i < (int)({upper}_OUTPUT0_BYTES / sizeof *scores); i++) {{",
        "    if (scores[i] > scores[best]) { best = i; }",
        "}",
    ]
