"""The functions of a bundle whose input comes row by row: reset, row and push."""

from dataclasses import dataclass

from cortado.base.names import c_identifier
from cortado.emit.c.arena import arena_parameter
from cortado.emit.c.data import qparams_text
from cortado.emit.c.decision import DecisionInC
from cortado.emit.c.tables import at
from cortado.emit.c.text import OfPlan, bad_arena, comment, listed
from cortado.plan.planned import Planned
from cortado.plan.program import PUSHED_ROWS, Program, Step, Stream
from cortado.plan.segments import COUNTER_BYTES, counters_name
from cortado.plan.windows import StreamWindows


def pushed_step(program: Program) -> Step:
    """Returns the step that represents the input."""
    step = program.pushed
    assert step is not None
    return step


def row_type(program: Program) -> str:
    """Returns the C type of a row's values."""
    return pushed_step(program).element.c_type


def samples_parameter(program: Program) -> str:
    """Returns the second parameter of MODEL_push, for a signal; empty for rows."""
    return f", const {row_type(program)} *samples" if pushed_step(program).samples else ""


def rows_text(planned: Planned, decision: DecisionInC) -> str:
    """Returns the functions that take the place of MODEL_run."""
    return _Rows(planned, decision).text()


@dataclass(frozen=True)
class _Rows(OfPlan):
    decision: DecisionInC

    @property
    def arena(self) -> str:
        return arena_parameter(self.planned)

    @property
    def state(self) -> str:
        """Returns the C type of a step's counters."""
        return "cortado_state_t" if self.program.stream is None else "cortado_stream_state_t"

    def text(self) -> str:
        rows = "rows" if self.program.stream is None else "a stream of rows"
        return f"""/* ---- the network, {rows} ---- */

#define PUSHED {len(self.program.stages[0].steps)} /* steps of the first stage, which takes the rows */

typedef char counters_fit[sizeof({self.state}) <= {COUNTER_BYTES} ? 1 : -1]; /* as planned */

/* The progress of the steps of the first stage, between two rows. */
static {self.state} *counters(void *arena)
{{
    return ({self.state} *)(void *)((uint8_t *)arena + {at(self.planned, counters_name(pushed_step(self.program)))});
}}

{self._noted()}
/* Returns 0; -1 if it is not an arena, -2 if it was never reset. */
static int wrong(void *arena)
{{
    if ({bad_arena(self.upper)}) {{
        return -1;
    }}
    return *reset_mark(arena) == {self.upper}_BUILD ? 0 : -2;
}}

{self._once() if self.program.stream is None else self._endless(self.program.stream)}"""

    def _arrays(self) -> str:
        widest = max(sum(port.rule.taps for port in step.ports) for step in self.program.steps)
        longest = max(len(stage.steps) for stage in self.program.stages)
        return f"""    {self.state} state[{longest}]; /* of the longest stage */
    const int8_t *rows[{widest}]; /* of the widest step */"""

    def _place(self) -> str:
        """Returns the C expression for the address of the next row."""
        offset = at(self.planned, pushed_step(self.program).output)
        place = f"(int8_t *)arena + {offset} + counters(arena)->out_slot * {self.upper}_ROW_BYTES"
        return place if row_type(self.program) == "int8_t" else f"({row_type(self.program)} *)(void *)({place})"

    def _taken(self) -> str:
        """Returns the C that copies samples from outside the arena to the next row of a signal."""
        if not pushed_step(self.program).samples:
            return ""
        kind, place = row_type(self.program), self._place()
        return f"""    {kind} *const row = {place};
    if (samples != NULL && samples != row) {{
        memcpy(row, samples, {self.upper}_ROW_BYTES);
    }}
"""

    def _noted(self) -> str:
        """Defines the accessor of the word where MODEL_reset leaves its mark, next to the counter of rows."""
        if self.program.stream is None:
            return f"""/* The mark that {self.name}_reset leaves; then the number of rows that have come. */
static uint32_t *reset_mark(void *arena)
{{
    return (uint32_t *)(void *)((uint8_t *)arena + {at(self.planned, PUSHED_ROWS)});
}}
"""
        return f"""/* The mark that {self.name}_reset leaves, after the counters. */
typedef char mark_fits[sizeof({self.state}) + sizeof(uint32_t) <= {COUNTER_BYTES} ? 1 : -1];
static uint32_t *reset_mark(void *arena)
{{
    return (uint32_t *)(void *)((uint8_t *)counters(arena) + PUSHED * {COUNTER_BYTES}u - sizeof(uint32_t));
}}
"""

    def _done(self) -> str:
        return f"""#ifdef CORTADO_PROFILE
    {self.name}_profile({self.upper}_STEPS);
#endif"""

    def _once(self) -> str:
        name, upper = self.name, self.upper
        return f"""static uint32_t *count(void *arena)
{{
    return reset_mark(arena) + 1;
}}

void {name}_reset({self.arena})
{{
    if ({bad_arena(upper)}) {{
        return;
    }}
    *reset_mark(arena) = {upper}_BUILD;
    *count(arena) = 0;
    cortado_reset_stage(&program, stages, 0, (uint8_t *)arena, counters(arena));
}}

{row_type(self.program)} *{name}_row({self.arena})
{{
    if (wrong(arena) != 0 || *count(arena) >= {upper}_ROWS) {{
        return NULL;
    }}
    return {self._place()};
}}

int {name}_push({self.arena}{samples_parameter(self.program)})
{{
{self._arrays()}
    const int problem = wrong(arena);
    if (problem != 0 || *count(arena) >= {upper}_ROWS) {{
        return problem != 0 ? problem : -1;
    }}
{self._taken()}    const uint32_t come = ++*count(arena);
    memcpy(state, counters(arena), PUSHED * sizeof state[0]);
    cortado_push_row(&program, stages, 0, (uint8_t *)arena, state, rows);
    if (come < {upper}_ROWS) {{
        memcpy(counters(arena), state, PUSHED * sizeof state[0]);
        return 0;
    }}
    for (unsigned i = 1; i < sizeof stages / sizeof stages[0]; i++) {{
        cortado_run_stage(&program, &stages[i], i, (uint8_t *)arena, state, rows);
    }}
{self._done()}
    return 1;
}}
"""

    def _endless(self, stream: Stream) -> str:
        name, upper = self.name, self.upper
        valid = f"state[PUSHED - 1].made > {stream.warm_up}u" if stream.warm_up else "1"
        return f"""void {name}_reset({self.arena})
{{
    if ({bad_arena(upper)}) {{
        return;
    }}
    cortado_reset_stream(&program, stages, (uint8_t *)arena, counters(arena));
{self.decision.reset}    *reset_mark(arena) = {upper}_BUILD;
}}

{row_type(self.program)} *{name}_row({self.arena})
{{
    return wrong(arena) != 0 ? NULL : {self._place()};
}}

int {name}_push({self.arena}{samples_parameter(self.program)})
{{
{self._arrays()}
    const int problem = wrong(arena);
    if (problem != 0) {{
        return problem;
    }}
{self._taken()}    memcpy(state, counters(arena), sizeof state);
    const int made = cortado_push_stream(&program, stages, (uint8_t *)arena, state, rows);
    memcpy(counters(arena), state, sizeof state);
    *reset_mark(arena) = {upper}_BUILD; /* it shares bytes with buffers that live during a push */
{self._done()}
{self._made(valid)}
}}
"""

    def _made(self, valid: str) -> str:
        """Ends MODEL_push: returns whether there is a new output, after deciding on it."""
        if not self.decision.take:
            return f"    return made && {valid};"
        return f"""    if (!(made && {valid})) {{
        return 0;
    }}
    {self.decision.take}    return 1;"""


def head_of_bytes(planned: Planned) -> str:
    """Returns the head of the function that quantizes bytes: a row's, or an input's."""
    pushed = planned.program.pushed is not None
    head = f"void {c_identifier(planned.program.name)}_quantize_{'row' if pushed else 'input'}_u8("
    values = ("const uint8_t *values", "int channels", "const float *gain", "const float *offset")
    return head + listed((arena_parameter(planned), *(() if pushed else ("int i",)), *values), indent=len(head)) + ")"


def quantize_row_text(planned: Planned) -> str:
    program = planned.program
    name, qparams = c_identifier(program.name), program.inputs[0].qparams
    body, bytes_body = "(void)values;", "(void)values, (void)channels, (void)gain, (void)offset;"
    step, kind = pushed_step(program), row_type(program)
    if qparams is not None:
        body = f"cortado_quantize_f32_s{step.element.bits}(values, row, {step.n}, {qparams_text(qparams)});"
    if step.element.floating:
        body = f"memcpy(row, values, {name.upper()}_ROW_BYTES);"
    if qparams is not None and kind == "int8_t":
        q = qparams_text(qparams)
        bytes_body = f"cortado_quantize_u8_s8(values, row, {name.upper()}_ROW_BYTES, channels, gain, offset, {q});"
    return f"""void {name}_quantize_row({arena_parameter(planned)}, const float *values)
{{
    {kind} *row = {name}_row(arena);
    if (row != NULL) {{
        {body}
    }}
}}

{head_of_bytes(planned)}
{{
    {kind} *row = {name}_row(arena);
    if (row != NULL) {{
        {bytes_body}
    }}
}}
"""


def rows_facts(planned: Planned) -> str:
    """Defines the macros of MODEL.h; empty for an input that comes whole."""
    step, stream = planned.program.pushed, planned.program.stream
    if step is None:
        return ""
    upper = c_identifier(planned.program.name).upper()
    ring = planned.program.buffers[step.output].rows
    count = f"#define {upper}_ROWS {step.rows}"
    if stream is not None:
        count = (
            f"#define {upper}_WINDOW_ROWS {stream.window} /* of an output's window */\n"
            f"#define {upper}_HOP_ROWS {stream.hop} /* between outputs */\n"
            f"#define {upper}_FIRST_ROWS {stream.first} /* before the first output: a window's, as far as it is read */"
        )
    what = "a row" if stream is None else "a hop"
    samples = f"#define {upper}_PUSH_SAMPLES {step.samples} /* of {what} */\n" if step.samples else ""
    return f"""/* The input comes row by row; {ring} of its rows are stored. */
{count}
#define {upper}_ROW_BYTES {step.row_bytes}
{samples}
"""


def rows_functions(program: Program) -> str:
    """Declares the functions in MODEL.h."""
    name = c_identifier(program.name)
    arena = f"{name}_arena_t *arena"
    texts = list(_texts(name) if program.stream is None else _stream_texts(name, program.stream))
    if pushed_step(program).samples:
        texts[1] = texts[1].replace("_ROW_BYTES bytes", "_PUSH_SAMPLES samples")
        texts[2] = _of_samples(name) + texts[2].removeprefix("Takes the row that was written there, and computes")
    reset, row, push = (comment(text) for text in texts)
    return f"""{reset}
void {name}_reset({arena});

{row}
{row_type(program)} *{name}_row({arena});

{push}
int {name}_push({arena}{samples_parameter(program)});
"""


def _of_samples(name: str) -> str:
    """Returns the start of MODEL_push's comment for rows of a signal."""
    return (
        f"Takes the next {name.upper()}_PUSH_SAMPLES samples, the next row, from any address, such as a buffer that a "
        f"DMA has filled; or NULL, for samples that were written to {name}_row. It computes"
    )


def _texts(name: str) -> tuple[str, str, str]:
    """Returns the comments of reset, row and push."""
    upper = name.upper()
    aligned = f"aligned to {upper}_ARENA_ALIGN bytes"
    return (
        f"Starts an input: call it before each first row. It does nothing if the arena is NULL or not {aligned}.",
        f"Returns where to write the next row: {upper}_ROW_BYTES bytes, in the order of the input given above. NULL if "
        f"all {upper}_ROWS rows have come since {name}_reset, without {name}_reset, or without an arena. Call it for "
        "each row: the address changes.",
        "Takes the row that was written there, and computes what it can. Returns 0; 1 after the last row: the outputs "
        f"are ready, until {name}_reset; -1, without doing anything, if all rows have come, or the arena is NULL or "
        f"not {aligned}; or -2, if the arena was never given to {name}_reset.",
    )


def _stream_texts(name: str, windows: StreamWindows) -> tuple[str, str, str]:
    upper = name.upper()
    aligned = f"aligned to {upper}_ARENA_ALIGN bytes"
    return (
        "Starts the stream: call it once before the first row, and to forget all earlier rows. It does nothing if the "
        f"arena is NULL or not {aligned}.",
        f"Returns where to write the next row: {upper}_ROW_BYTES bytes, in the order of the input given above. NULL "
        f"without an arena, or without {name}_reset. Call it for each row: the address changes.",
        "Takes the row that was written there, and computes what it can. Returns 1 if there is a new output: "
        f"{windows.in_header(upper)}. 0 if there is none; -1, without doing anything, if the arena is NULL or not "
        f"{aligned}; or -2, if the arena was never given to {name}_reset. Rows may come for ever; between rows, all "
        "state is in the arena.",
    )
