"""MODEL_selftest.c: an input, each layer's expected result, and the function that compares them on the device itself.

A layer's output may never be whole in memory, so it is compared by the CRC-32 of the rows as the kernels leave them,
one after the other. Outputs are compared byte for byte, also after a run that nothing observes.

With several methods it calls each once, in the order of calibration, with the state that the calls before left.
"""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cortado.base.arrays import ArrayType
from cortado.base.names import c_identifier, c_string
from cortado.emit.c.arena import arena_parameter, region_table, wrong_arena, wrong_function
from cortado.emit.c.data import numbers_text
from cortado.emit.c.header import banner
from cortado.emit.c.identity import BUILD, same_build
from cortado.emit.c.tables import at
from cortado.emit.c.text import OfPlan, comment, entry_of, title
from cortado.plan.planned import Planned
from cortado.plan.program import Program, Step, Walk

SELFTEST_SOURCE = "cortado_selftest.c"
_WRONG_OUTPUTS = "every layer is right but the outputs of a run are not"


@dataclass(frozen=True)
class TestedCall:
    """A method call that a self-test makes: the reference's values, by their names in the lowered graph."""

    planned: Planned
    values: Mapping[str, ArrayType]
    left: Mapping[str, str]  # for each state buffer, the name of the value it holds afterwards
    method: str


def selftest_declaration(planned: Planned, calls: Sequence[TestedCall] = ()) -> str:
    """Declares MODEL_selftest in MODEL.h; `calls` are those of a model with several methods."""
    program, work = planned.program, "Runs the network on a test input"
    layers = sum(len(one.program.steps) for one in ([call.planned for call in calls] or [planned]))
    if calls:
        work = f"Calls {', '.join(call.method for call in calls)}, one after the other, on test inputs"
    name = c_identifier(program.name)
    upper = name.upper()
    about = comment(
        f"{work} and compares. Returns 0 if every bit is as expected; the number of the first layer whose result "
        f"differs, 1 to {upper}_LAYERS, whose name is {name}_selftest_names[number - 1]; {upper}_LAYERS + 1 if "
        f"{_WRONG_OUTPUTS}; -1 if the arena is NULL or not aligned. It uses the arena, and must not run twice at the "
        f"same time. In {name}_selftest.c; linked only if used."
    )
    return f"""
{about}
#define {upper}_LAYERS {layers}
{selftest_stack_fact(program, None)}
int {name}_selftest({arena_parameter(planned)});
extern const char *const {name}_selftest_names[{upper}_LAYERS + 1];
"""


def selftest_stack_fact(program: Program, stack_bytes: int | None) -> str:
    """Defines the macro of MODEL.h; None if the code has not been compiled."""
    macro = f"{c_identifier(program.name).upper()}_SELFTEST_STACK_BYTES"
    if stack_bytes is None:
        return f"/* {macro} is not known: this was written without arm-none-eabi-gcc. */"
    return f"#define {macro} {stack_bytes} /* like STACK_BYTES, for a call of the self-test */"


def network_symbol(program: Program) -> str:
    """Defines the symbol in MODEL.c that exposes the network's tables to observers of the steps."""
    return f"""
/* For the self-test. */
extern const cortado_network_t {c_identifier(program.name)}__network;
const cortado_network_t {c_identifier(program.name)}__network = {{
    &program, stages, sizeof stages / sizeof stages[0]
}};
"""


def selftest_files(planned: Planned, values: Mapping[str, ArrayType], build: str) -> dict[str, str]:
    """Returns MODEL_selftest.c.

    `values` are the reference's for one input, by their names in the lowered graph; `build` is the bundle's.
    """
    name = c_identifier(planned.program.name)
    return {f"{name}_selftest.c": _Selftest(planned, values).text().replace(BUILD, build)}


def methods_selftest_files(calls: Sequence[TestedCall], build: str) -> dict[str, str]:
    """Returns a file per method; the model's own has the script of all `calls`, in their order."""
    found = {}
    for call in calls:
        part = _MethodSelftest(call.planned, call.values, calls)
        found[f"{part.name}_selftest.c"] = part.text().replace(BUILD, build)
    return found


@dataclass(frozen=True)
class _Digest:
    """The CRC-32 of rows `first` to `end` - 1 of each image, as a step's calls leave them in memory."""

    crc: int
    first: int
    end: int


def digests(planned: Planned, values: Mapping[str, ArrayType]) -> list[_Digest]:
    """Returns the expected digest of every step's output."""
    return [
        _digest(planned, step, rows, values)
        for stage, run in zip(planned.program.stages, planned.runs, strict=True)
        for step, rows in zip(stage.steps, run.rows, strict=True)
    ]


def _digest(planned: Planned, step: Step, rows: int, values: Mapping[str, ArrayType]) -> _Digest:
    if step.kind is Walk.PUSHED:
        return _Digest(0, 0, 0)
    data = np.ascontiguousarray(values[step.name]).tobytes()
    if planned.program.stream is not None:
        own = planned.program.stream.rows_of(step, rows)
        held = data[own.at * step.row_bytes :][: (own.stop - own.start) * step.row_bytes]
        return _Digest(zlib.crc32(held), own.start, own.stop)
    size = step.image_bytes
    images = [data[start : start + size] for start in range(0, size * step.images, size)]
    if step.kind is Walk.ACCUMULATE:  # its only row is valid once the last input row has been added
        return _Digest(zlib.crc32(b"".join(images)), rows - 1, rows)
    return _Digest(zlib.crc32(b"".join(image[: rows * step.row_bytes] for image in images)), 0, rows)


def _bytes_text(value: ArrayType) -> str:
    return numbers_text(np.frombuffer(np.ascontiguousarray(value).tobytes(), dtype=np.uint8))


@dataclass(frozen=True)
class _Selftest(OfPlan):
    values: Mapping[str, ArrayType]

    def text(self) -> str:
        return f"""{self._body()}
{self._names_text([(self.program, "")])}
int {self.name}_selftest({arena_parameter(self.planned)})
{{
    if ({wrong_arena(self.planned)}) {{
        return -1;
    }}
    const int layer = first_wrong_layer(arena);
    if (layer != 0) {{
        return layer;
    }}
{self._run()}    return outputs_wrong(arena) ? {self.upper}_LAYERS + 1 : 0;
}}
"""

    def _names_text(self, methods: Sequence[tuple[Program, str]]) -> str:
        names = [f"{before}{step.name} ({title(step)})" for program, before in methods for step in program.steps]
        lines = "\n".join(f"    {c_string(name)}," for name in (*names, _WRONG_OUTPUTS))
        return f"const char *const {self.owner}_selftest_names[{self.owner.upper()}_LAYERS + 1] = {{\n{lines}\n}};\n"

    def _body(self) -> str:
        longest = max((len(stage.steps) for stage in self.program.stages), default=1)
        widest = max((sum(port.rule.taps for port in step.ports) for step in self.program.steps), default=1)
        stream = self.program.stream is not None
        return f"""{banner(self.program, "an input, the expected results of all layers, and a function that compares")}
#include "{self.name}.h"

#include <string.h>

#include "cortado_selftest.h"
{'#include "cortado_stream.h"' + chr(10) if stream else ""}#include "{self.owner}_data.h"

{same_build(self.name)}{self._regions()}
extern const cortado_network_t {self.name}__network;

{self._arrays()}
/* For each layer: the CRC-32 of its output rows, and the first and last of them that are checked. */
static const cortado_digest_t expected[] = {{
{self._digests()}
}};

/* Checks every layer. */
static int first_wrong_layer({arena_parameter(self.planned)})
{{
    static {"cortado_stream_state_t" if stream else "cortado_state_t"} state[{longest}]; /* of the longest stage */
    static const int8_t *rows[{max(widest, 1)}]; /* of the widest step */
    static cortado_step_t steps[{longest}];
    static cortado_watched_t watched[{longest}];
    static cortado_selftest_t test = {{.steps = steps, .watched = watched}};
    const cortado_network_t *network = &{self.name}__network;
{region_table(self.planned)}{self._given()}    for (uint32_t i = 0; i < network->stage_count; i++) {{
        cortado_selftest_watch(&test, network, i, expected);
{self._run_stage()}
        const int wrong = cortado_selftest_differs(&test, &network->stages[i], expected);
        if (wrong != 0) {{
            return wrong;
        }}
    }}
    return 0;
}}

{self._outputs_wrong()}"""

    def _regions(self) -> str:
        """Emits the check of an arena in several memories, as MODEL.c has it."""
        if not self.planned.regions:
            return ""
        return f"""
#ifdef CORTADO_ENABLE_RUNTIME_CHECKS
#define AT(release, checked) checked
#else
#define AT(release, checked) release
#endif

{wrong_function(self.planned)}"""

    # ---- data -------------------------------------------------------------------------------------------------------

    def _arrays(self) -> str:
        stream = self.program.stream
        inputs = [self.values[tensor.node] for tensor in self.program.inputs]
        groups = {
            "input": inputs if stream is None else [stream.read(one) for one in inputs],
            "output": [self.values[tensor.node] for tensor in self.program.outputs],
        }
        return "\n".join(
            f"static const uint8_t {kind}{number}[] CORTADO_WEIGHTS = {{\n{_bytes_text(value)}\n}};\n"
            for kind, group in groups.items()
            for number, value in enumerate(group)
        )

    def _digests(self) -> str:
        rows = digests(self.planned, self.values) or [_Digest(0, 0, 0)]
        return "\n".join(f"    {{{one.crc:#010x}u, {one.first}u, {one.end}u}}," for one in rows)

    # ---- code -------------------------------------------------------------------------------------------------------

    def _fill(self, indent: str) -> str:
        lines = [
            f"cortado_copy({self.name}_input(arena, {i}), input{i}, sizeof input{i});" for i in range(self._inputs)
        ]
        if self._begins and self.program.state:
            lines.insert(0, f"{self.name}_reset(arena);")
        return "".join(f"{indent}{line}\n" for line in lines)

    @property
    def _begins(self) -> bool:
        """Returns whether state is reset before the input."""
        return True

    @property
    def _inputs(self) -> int:
        return len(self.program.inputs)

    def _given(self) -> str:
        """Returns the C statements that run before the first stage."""
        if self.program.pushed is not None:
            return ""
        return self._fill("    ")

    def _run_stage(self) -> str:
        loop, arena = "cortado_run_stage", "arena->bytes"
        if self.planned.regions:
            loop, arena = "cortado_run_stage_regions", "regions"
        whole = f"        {loop}(&test.program, &test.stage, i, {arena}, state, rows);"
        if self.program.pushed is None:
            return whole
        if self.program.stream is not None:
            return self._pushed("cortado_reset_stream", "cortado_push_stream", ", arena->bytes, state", "        ")
        first = self._pushed("cortado_reset_stage", "cortado_push_row", ", 0, arena->bytes, state", "            ")
        return f"""        if (i == 0) {{
{first}
        }} else {{
    {whole}
        }}"""

    def _pushed(self, reset: str, push: str, arguments: str, indent: str) -> str:
        """Returns the C that runs the stage to which rows are pushed."""
        return "\n".join(
            indent + line
            for line in (
                f"{reset}(&test.program, &test.stage{arguments});",
                f"for (uint32_t r = 0; r < sizeof input0 / {self.upper}_ROW_BYTES; r++) {{",
                f"    cortado_copy(arena->bytes + steps[0].out_offset + state[0].out_slot * {self.upper}_ROW_BYTES,",
                f"                 input0 + r * {self.upper}_ROW_BYTES, {self.upper}_ROW_BYTES);",
                f"    (void){push}(&test.program, &test.stage{arguments}, rows);",
                "}",
            )
        )

    def _outputs_wrong(self) -> str:
        tests = [
            f"memcmp({self.name}_output(arena, {i}), output{i}, sizeof output{i}) != 0"
            for i in range(len(self.program.outputs))
        ]
        body = f"    return {f'{chr(10)}        || '.join(tests)};" if tests else "    (void)arena;\n    return 0;"
        arena = arena_parameter(self.planned, "const ")
        return f"static int outputs_wrong({arena})\n{{\n{body}\n}}\n"

    def _run(self) -> str:
        """Runs the network once more, the way firmware does."""
        name, upper = self.name, self.upper
        if self.program.pushed is None:
            return self._fill("    ") + f"    (void){entry_of(self.program)}(arena);\n"
        rows = f"sizeof input0 / {upper}_ROW_BYTES"
        return f"""    {name}_reset(arena);
    for (uint32_t r = 0; r < {rows}; r++) {{
        cortado_copy({name}_row(arena), input0 + r * {upper}_ROW_BYTES, {upper}_ROW_BYTES);
        (void){name}_push(arena{", NULL" if self.program.pushed.samples else ""});
    }}
"""


@dataclass(frozen=True)
class _MethodSelftest(_Selftest):
    """A method's part of the self-test; that of the model's own method includes the script."""

    calls: Sequence[TestedCall]

    def text(self) -> str:
        arena = arena_parameter(self.planned)
        heads = [f"int {self.name}__selftest_{what}({arena})" for what in ("layers", "run")]
        own = f"""{self._body()}
/* For {self.owner}_selftest. */
{heads[0]};
{heads[1]};
{heads[0]}
{{
    return first_wrong_layer(arena);
}}

{heads[1]}
{{
{self._run()}    return outputs_wrong(arena);
}}
"""
        return own if self.program.method_of else f"{own}\n{self._script()}"

    @property
    def _begins(self) -> bool:
        return False

    def _script(self) -> str:
        arena, reset = arena_parameter(self.planned), f"{self.name}_reset(arena);" if self.program.state else ""
        names = [c_identifier(call.planned.program.name) for call in self.calls]
        others = "".join(
            f"int {name}__selftest_{what}({arena});\n"
            for name in names
            if name != self.name
            for what in ("layers", "run")
        )
        return f"""{others}{self._names_text([(call.planned.program, f"{call.method}: ") for call in self.calls])}
{self._switch("run", "Returns whether the outputs of a call differ from the expected ones.", [0] * len(names))}
{self._switch("layers", "Returns the first layer of a call that differs, counted over all; 0: none.", self._firsts())}
{self._state_wrong()}
int {self.name}_selftest({arena})
{{
    if ({wrong_arena(self.planned)}) {{
        return -1;
    }}
    for (int i = 0; i < {len(names)}; i++) {{
        {reset}
        for (int before = 0; before < i; before++) {{
            (void)call_run(arena, before);
        }}
        const int layer = call_layers(arena, i);
        if (layer != 0) {{
            return layer;
        }}
    }}
    {reset}
    for (int i = 0; i < {len(names)}; i++) {{
        if (call_run(arena, i)) {{
            return {self.upper}_LAYERS + 1;
        }}
    }}
    return state_wrong(arena) ? {self.upper}_LAYERS + 1 : 0;
}}
"""

    def _firsts(self) -> list[int]:
        """Returns how many layers precede each call."""
        counts = [len(call.planned.program.steps) for call in self.calls]
        return [sum(counts[:number]) for number in range(len(counts))]

    def _switch(self, what: str, about: str, firsts: Sequence[int]) -> str:
        cases = "\n".join(
            f"    case {number}: found = {c_identifier(call.planned.program.name)}__selftest_{what}(arena); "
            f"first = {first}; break;"
            for number, (call, first) in enumerate(zip(self.calls, firsts, strict=True))
        )
        return f"""{comment(about)}
static int call_{what}({arena_parameter(self.planned)}, int number)
{{
    int found = 0, first = 0;
    switch (number) {{
{cases}
    default: break;
    }}
    return found == 0 ? 0 : first + found;
}}
"""

    def _state_wrong(self) -> str:
        """Compares the state after the last call, buffer by buffer."""
        head = f"static int state_wrong({arena_parameter(self.planned, 'const ')})"
        kept, last = self.program.state, self.calls[-1]
        if not kept:
            return f"{head}\n{{\n    (void)arena;\n    return 0;\n}}\n"
        crc, lines = 0, []
        for one in kept:
            data = np.ascontiguousarray(last.values[last.left[one.name]]).astype(one.initial.data.dtype).tobytes()
            crc = zlib.crc32(data, crc)
            where = f"arena->bytes + {at(self.planned, one.tensor.buffer)}"
            lines.append(f"    crc = cortado_selftest_crc32(crc, {where}, {len(data)}u);")
        text = "\n".join(lines)
        return f"""#ifdef CORTADO_ENABLE_RUNTIME_CHECKS
#define AT(release, checked) checked
#else
#define AT(release, checked) release
#endif

{head}
{{
    uint32_t crc = 0;
{text}
    return crc != {crc:#010x}u;
}}
"""
