"""The functions of a bundle whose input comes row by row: reset, row, push."""

from cortado.base.names import c_identifier
from cortado.emit.c.data import qparams_text
from cortado.emit.c.tables import at
from cortado.emit.c.text import comment
from cortado.plan.planned import Planned
from cortado.plan.program import PUSHED_ROWS, Program, Step
from cortado.plan.segments import COUNTER_BYTES, counters_name


def pushed_step(program: Program) -> Step:
    """The step that stands for the input."""
    step = program.pushed
    assert step is not None
    return step


def rows_text(planned: Planned) -> str:
    """What MODEL_run is to other bundles."""
    program = planned.program
    name, step = c_identifier(program.name), pushed_step(program)
    upper = name.upper()
    widest = max(sum(port.rule.taps for port in step.inputs) for step in program.steps)
    longest = max(len(stage.steps) for stage in program.stages)
    return f"""/* ---- the network, row by row ---- */

#define PUSHED {len(program.stages[0].steps)} /* steps of the first stage, which takes the rows */

typedef char counters_fit[sizeof(cortado_state_t) <= {COUNTER_BYTES} ? 1 : -1]; /* as planned */

/* How many rows came. */
static uint32_t *count(void *arena)
{{
    return (uint32_t *)(void *)((uint8_t *)arena + {at(planned, PUSHED_ROWS)});
}}

/* Where the steps of the first stage stand, between two rows. */
static cortado_state_t *counters(void *arena)
{{
    return (cortado_state_t *)(void *)((uint8_t *)arena + {at(planned, counters_name(step))});
}}

static int wrong(const void *arena)
{{
    return arena == NULL || (uintptr_t)arena % {upper}_ARENA_ALIGN != 0;
}}

void {name}_reset(void *arena)
{{
    if (!wrong(arena)) {{
        *count(arena) = 0;
        cortado_reset_stage(&program, stages, 0, (uint8_t *)arena, counters(arena));
    }}
}}

int8_t *{name}_row(void *arena)
{{
    if (wrong(arena) || *count(arena) >= {upper}_ROWS) {{
        return NULL;
    }}
    return (int8_t *)arena + {at(planned, step.output)} + counters(arena)->out_slot * {upper}_ROW_BYTES;
}}

int {name}_push(void *arena)
{{
    cortado_state_t state[{longest}]; /* of the longest stage */
    const int8_t *rows[{widest}]; /* of the widest step */
    if (wrong(arena) || *count(arena) >= {upper}_ROWS) {{
        return -1;
    }}
    const uint32_t come = ++*count(arena);
    memcpy(state, counters(arena), PUSHED * sizeof state[0]);
    cortado_push_row(&program, stages, 0, (uint8_t *)arena, state, rows);
    if (come < {upper}_ROWS) {{
        memcpy(counters(arena), state, PUSHED * sizeof state[0]);
        return 0;
    }}
    for (unsigned i = 1; i < sizeof stages / sizeof stages[0]; i++) {{
        cortado_run_stage(&program, &stages[i], i, (uint8_t *)arena, state, rows);
    }}
#ifdef CORTADO_PROFILE
    {name}_profile({upper}_STEPS);
#endif
    return 1;
}}
"""


def quantize_row_text(planned: Planned) -> str:
    program = planned.program
    name, qparams = c_identifier(program.name), program.inputs[0].qparams
    body = "(void)values;"
    if qparams is not None:
        body = f"cortado_quantize_f32_s8(values, row, {name.upper()}_ROW_BYTES, {qparams_text(qparams)});"
    return f"""void {name}_quantize_row(void *arena, const float *values)
{{
    int8_t *row = {name}_row(arena);
    if (row != NULL) {{
        {body}
    }}
}}
"""


def rows_facts(planned: Planned) -> str:
    """The macros of MODEL.h; none for an input that comes whole."""
    step = planned.program.pushed
    if step is None:
        return ""
    upper = c_identifier(planned.program.name).upper()
    ring = planned.program.buffers[step.output].rows
    return f"""/* The input comes row by row; {ring} of its rows are held in memory. */
#define {upper}_ROWS {step.rows}
#define {upper}_ROW_BYTES {step.row_bytes}

"""


def rows_functions(program: Program) -> str:
    """The declarations of MODEL.h."""
    name = c_identifier(program.name)
    upper = name.upper()
    aligned = f"aligned to {upper}_ARENA_ALIGN bytes"
    reset = comment(
        "Before the first row of each input: forgets rows and outputs. It does nothing if the arena is NULL or not "
        f"{aligned}."
    )
    row = comment(
        f"Where the next row is written to: {upper}_ROW_BYTES values, in the order of the input said above. NULL if "
        f"all {upper}_ROWS rows came since {name}_reset, or without an arena. Ask again for each row: it is not the "
        "same place."
    )
    push = comment(
        f"Takes the row that was written there, and makes of it what can be made. Returns 0; after the last row 1: the "
        f"outputs are there, until {name}_reset; or -1, having done nothing, if all rows came before, or the arena is "
        f"NULL or not {aligned}."
    )
    return f"""{reset}
void {name}_reset(void *arena);

{row}
int8_t *{name}_row(void *arena);

{push}
int {name}_push(void *arena);
"""
