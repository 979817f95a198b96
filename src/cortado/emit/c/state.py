"""State in C: MODEL_reset, which sets its initial values, and the copies at the end of a run."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cortado.base.names import c_identifier, identifier_part, plain
from cortado.base.system import KERNELS
from cortado.emit.c.arena import arena_parameter, local, place, wrong_arena
from cortado.emit.c.data import Arrays, Reader
from cortado.emit.c.decision import decision_in_c, decision_top
from cortado.emit.c.tables import at
from cortado.emit.c.text import LONGEST_TITLE, comment
from cortado.plan.decision import DECISION
from cortado.plan.planned import GUARD_BYTES, Planned, identity_words, moved, saved_state, state_layout
from cortado.plan.program import MARK_BYTES, STATE_MARK, StateTensor

SAVED_HEAD_BYTES = 24  # CORTADO_SAVED_HEAD_BYTES


@dataclass(frozen=True)
class StateInC:
    """The pieces of MODEL.c that implement state; all are empty without any."""

    include: str = ""
    functions: str = ""
    saving: str = ""  # MODEL_state_bytes, MODEL_save, MODEL_load, MODEL_adopt
    check: str = ""  # the lines of MODEL_run that refuse to run before a reset
    keep: str = ""  # the line of MODEL_run that copies the new state


def state_in_c(planned: Planned, arrays: Arrays) -> StateInC:
    """Emits the C for state; `arrays` collects initial values, except those whose bytes are all equal."""
    if not planned.program.state:
        return StateInC()
    name = c_identifier(planned.program.owner)
    moves = [_keep(planned, kept) for kept in moved(planned)]
    keep = f"""/* When all steps are done and the previous values are no longer read, the new ones replace them. */
static void keep_state({"uint8_t *base" if not planned.regions else arena_parameter(planned)})
{{
{_lines(moves)}
}}

"""
    return StateInC(
        include='\n#include <string.h>\n\n#include "cortado_saved.h"\n',
        functions=f"""/* ---- state: what persists from run to run ---- */

/* The mark that {name}_reset leaves. */
static uint32_t *reset_mark({arena_parameter(planned)})
{{
    return (uint32_t *)(void *)({place(planned, STATE_MARK, "uint8_t")});
}}

{"" if planned.program.method_of else _reset_function(planned, arrays)}{keep if moves else ""}""",
        saving="" if planned.program.method_of else _saving(planned),
        check=f"    if (*reset_mark(arena) != {name.upper()}_BUILD) {{\n        return 2;\n    }}\n",
        keep=f"    keep_state({'arena' if planned.regions else '(uint8_t *)arena'});\n" if moves else "",
    )


def _reset_function(planned: Planned, arrays: Arrays) -> str:
    name = c_identifier(planned.program.name)
    resets = [_reset(planned, kept, arrays) for kept in planned.program.state]
    return f"""void {name}_reset({arena_parameter(planned)})
{{
{"" if planned.regions else "    uint8_t *base = (uint8_t *)arena;" + chr(10)}    if ({wrong_arena(planned)}) {{
        return;
    }}
    *reset_mark(arena) = {name.upper()}_BUILD;
{_lines(resets)}
{decision_in_c(planned).reset}}}

"""


def _lines(calls: Sequence[str]) -> str:
    return "\n".join(f"    {call}" for call in calls)


def _reset(planned: Planned, kept: StateTensor, arrays: Arrays) -> str:
    data = kept.initial.data
    to, what = _at(planned, kept.tensor.buffer), comment(plain(kept.name)[:LONGEST_TITLE])
    same = np.unique(np.frombuffer(data.tobytes(), dtype=np.uint8))
    if len(same) == 1:
        return f"memset({to}, {int(same[0])}, {data.nbytes}u); {what}"
    reader = Reader(step=kept.tensor.node, label=plain(kept.name), field="initial values", kernel=RESET)
    initial = replace(kept.initial, data=data.astype(np.int8)) if data.dtype == np.bool_ else kept.initial
    array = arrays.add(initial, f"{identifier_part(kept.name) or 'state'}_initial", reader, arrays.every)
    return f"cortado_copy({to}, {array}, {data.nbytes}u); {what}"


RESET = "the reset of state"
SAVING_SOURCE = "cortado_saved.c"


def _pieces(planned: Planned) -> list[tuple[str, str, int]]:
    """Returns name, buffer and bytes of everything that is saved, in order."""
    kept = [(one.name, one.tensor.buffer, one.initial.data.nbytes) for one in saved_state(planned.program)]
    decided = [] if planned.program.decision is None else [("decision", DECISION, planned.program.decision_bytes)]
    return [*kept, *decided]


def saved_bytes(planned: Planned) -> int:
    """Returns the bytes of a saved state."""
    return SAVED_HEAD_BYTES + sum(size for _, _, size in _pieces(planned))


def _saving(planned: Planned) -> str:
    program = planned.program
    name, upper, arena = c_identifier(program.name), c_identifier(program.name).upper(), arena_parameter(planned)
    pieces = "\n".join(
        f"    AT({local(planned, buffer)}u, {local(planned, buffer, GUARD_BYTES)}u), {size}u, "
        f"{comment(plain(title)[:LONGEST_TITLE])}"
        for title, buffer, size in _pieces(planned)
    )
    ids = ", ".join(f"0x{word:08x}u" for word in identity_words(program))
    memory = "arena" if not planned.regions else f"arena->{planned.region_of(program.state[0].tensor.buffer).name}"
    takes = f"{arena}, const void *in, size_t bytes"
    return f"""/* ---- saving state ---- */

/* The offset and size of each piece. */
static const uint32_t saved_pieces[] = {{
{pieces}
}};
static const cortado_saved_t saved = {{
    saved_pieces, {len(_pieces(planned))}u, 2u, 0x{state_layout(program):08x}u, {{{ids}}}
}};

uint32_t {name}_state_bytes(void)
{{
    return {upper}_SAVED_BYTES;
}}

uint32_t {name}_save({arena}, void *out)
{{
    if ({wrong_arena(planned)} || out == NULL || *reset_mark(arena) != {upper}_BUILD) {{
        return 0;
    }}
    return cortado_save(&saved, (const uint8_t *){memory}, out);
}}

static cortado_load_t load({takes}, int any_model)
{{
    if ({wrong_arena(planned)}) {{
        return CORTADO_LOAD_ARENA;
    }}
    const cortado_load_t found = cortado_load(&saved, (uint8_t *){memory}, in, bytes, any_model);
    if (found == CORTADO_LOAD_FINE) {{
        *reset_mark(arena) = {upper}_BUILD;
    }}
    return found;
}}

cortado_load_t {name}_load({takes})
{{
    return load(arena, in, bytes, 0);
}}

cortado_load_t {name}_adopt({takes})
{{
    return load(arena, in, bytes, 1);
}}

"""


def _keep(planned: Planned, kept: StateTensor) -> str:
    to, source = _at(planned, kept.tensor.buffer), _at(planned, kept.source)
    return f"cortado_copy({to}, {source}, {kept.initial.data.nbytes}u);"


def _at(planned: Planned, buffer: str) -> str:
    return place(planned, buffer, "uint8_t") if planned.regions else f"base + {at(planned, buffer)}"


def state_facts(planned: Planned) -> str:
    """Defines the macros of MODEL.h for state."""
    if not planned.program.state or planned.program.method_of:
        return ""
    name = c_identifier(planned.program.name)
    upper = name.upper()
    about = comment(
        f"State: the first {upper}_STATE_BYTES bytes of {state_place(planned)} persist from run to run; the rest may "
        f"be used for anything between two runs. {_listed(planned)}"
    )
    return f"""{about}
#ifdef CORTADO_ENABLE_RUNTIME_CHECKS
#define {upper}_STATE_BYTES {_top(planned, GUARD_BYTES)}
#else
#define {upper}_STATE_BYTES {_top(planned, 0)}
#endif
#define {upper}_SAVED_BYTES {saved_bytes(planned)} /* written by {name}_save */

{_load_results()}
"""


def _load_results() -> str:
    """Copies the result type from cortado_saved.h, for programs that include MODEL.h alone."""
    text = (KERNELS / "include" / "cortado_saved.h").read_text()
    return text[text.index("#ifndef CORTADO_LOAD\n") : text.index("#define CORTADO_SAVED_HEAD_BYTES")]


def _top(planned: Planned, guard: int) -> int:
    tops = [local(planned, one.tensor.buffer, guard) + one.initial.data.nbytes for one in planned.program.state]
    return max(*tops, local(planned, STATE_MARK, guard) + MARK_BYTES, decision_top(planned, guard))


def state_place(planned: Planned) -> str:
    """Names the memory that holds state, which is always one region."""
    if not planned.regions:
        return "the arena"
    return f"the arena's piece {planned.region_of(planned.program.state[0].tensor.buffer).name}"


def _listed(planned: Planned) -> str:
    """Describes every state buffer in words: its place and the meaning of its codes."""
    return " ".join(f"{plain(one.name)[:LONGEST_TITLE]}: {_described(planned, one)}." for one in planned.program.state)


def _described(planned: Planned, kept: StateTensor) -> str:
    tensor, first = kept.tensor, local(planned, kept.tensor.buffer)
    scale = (
        "" if tensor.qparams is None else f", scale {tensor.qparams.scale:.9g}, zero point {tensor.qparams.zero_point}"
    )
    return f"{tensor.dtype} {list(tensor.shape)}, bytes {first} to {first + kept.initial.data.nbytes - 1}{scale}"


def state_functions(planned: Planned) -> str:
    """Declares the functions of MODEL.h for state."""
    if not planned.program.state or planned.program.method_of:
        return ""
    name = c_identifier(planned.program.name)
    about = comment(
        f"Gives state its initial values: call it before the first {name}_run, and wherever a new sequence begins. "
        f"It does nothing if the arena is NULL or not aligned to {name.upper()}_ARENA_ALIGN bytes."
    )
    arena, upper = arena_parameter(planned), name.upper()
    save = comment(
        f"Writes the state to `out`, {upper}_SAVED_BYTES bytes at any address, between two runs. Returns that number, "
        f"or 0, without writing anything, if the arena is NULL or not aligned or was never given to {name}_reset."
    )
    load = comment(
        f"Restores the state that {name}_save wrote, instead of {name}_reset. State of another model, incomplete or "
        f"damaged bytes are refused and leave the arena unchanged. {name}_adopt also accepts state of an earlier "
        "version of the model if the names, types, shapes and scales of its state are the same. The CRC detects "
        "damage, not forgery. All four are linked only if used."
    )
    return f"""{about}
void {name}_reset({arena});

{save}
uint32_t {name}_save({arena}, void *out);
uint32_t {name}_state_bytes(void); /* {upper}_SAVED_BYTES */

{load}
cortado_load_t {name}_load({arena}, const void *in, size_t bytes);
cortado_load_t {name}_adopt({arena}, const void *in, size_t bytes);

"""
