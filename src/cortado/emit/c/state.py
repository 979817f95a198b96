"""State in C: MODEL_reset, which gives it its initial values, and the copies at the end of a run."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cortado.base.names import c_identifier, identifier_part, plain
from cortado.emit.c.arena import arena_parameter, local, place, wrong_arena
from cortado.emit.c.data import Arrays, Reader
from cortado.emit.c.decision import decision_in_c, decision_top
from cortado.emit.c.tables import at
from cortado.emit.c.text import LONGEST_TITLE, comment
from cortado.plan.planned import GUARD_BYTES, Planned, moved
from cortado.plan.program import MARK_BYTES, STATE_MARK, StateTensor


@dataclass(frozen=True)
class StateInC:
    """The pieces of MODEL.c that are about state; all are empty where there is none."""

    include: str = ""
    functions: str = ""
    check: str = ""  # the lines of MODEL_run that refuse state without a reset
    keep: str = ""  # the line of MODEL_run


def state_in_c(planned: Planned, arrays: Arrays) -> StateInC:
    """`arrays` collects the initial values; where they are all the same, there is no need of an array."""
    if not planned.program.state:
        return StateInC()
    name = c_identifier(planned.program.name)
    resets = [_reset(planned, kept, arrays) for kept in planned.program.state]
    moves = [_keep(planned, kept) for kept in moved(planned)]
    keep = f"""/* When all steps are done, and nobody reads the last values any more, the new ones take their place. */
static void keep_state({"uint8_t *base" if not planned.regions else arena_parameter(planned)})
{{
{_lines(moves)}
}}

"""
    return StateInC(
        include="\n#include <string.h>\n",
        functions=f"""/* ---- state: what lasts from run to run ---- */

/* What {name}_reset leaves behind. */
static uint32_t *reset_mark({arena_parameter(planned)})
{{
    return (uint32_t *)(void *)({place(planned, STATE_MARK, "uint8_t")});
}}

void {name}_reset({arena_parameter(planned)})
{{
{"" if planned.regions else "    uint8_t *base = (uint8_t *)arena;" + chr(10)}    if ({wrong_arena(planned)}) {{
        return;
    }}
    *reset_mark(arena) = {name.upper()}_BUILD;
{_lines(resets)}
{decision_in_c(planned).reset}}}

{keep if moves else ""}""",
        check=f"    if (*reset_mark(arena) != {name.upper()}_BUILD) {{\n        return 2;\n    }}\n",
        keep=f"    keep_state({'arena' if planned.regions else '(uint8_t *)arena'});\n" if moves else "",
    )


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


def _keep(planned: Planned, kept: StateTensor) -> str:
    to, source = _at(planned, kept.tensor.buffer), _at(planned, kept.source)
    return f"cortado_copy({to}, {source}, {kept.initial.data.nbytes}u);"


def _at(planned: Planned, buffer: str) -> str:
    return place(planned, buffer, "uint8_t") if planned.regions else f"base + {at(planned, buffer)}"


def state_facts(planned: Planned) -> str:
    """The macros of MODEL.h."""
    if not planned.program.state:
        return ""
    upper = c_identifier(planned.program.name).upper()
    about = comment(
        f"State: the first {upper}_STATE_BYTES bytes of {state_place(planned)} last from run to run; the rest may be "
        f"used for anything between two runs. {_listed(planned)}"
    )
    return f"""{about}
#ifdef CORTADO_ENABLE_RUNTIME_CHECKS
#define {upper}_STATE_BYTES {_top(planned, GUARD_BYTES)}
#else
#define {upper}_STATE_BYTES {_top(planned, 0)}
#endif

"""


def _top(planned: Planned, guard: int) -> int:
    tops = [local(planned, one.tensor.buffer, guard) + one.initial.data.nbytes for one in planned.program.state]
    return max(*tops, local(planned, STATE_MARK, guard) + MARK_BYTES, decision_top(planned, guard))


def state_place(planned: Planned) -> str:
    """Returns where state lies, in words: all of it in one region."""
    if not planned.regions:
        return "the arena"
    return f"the arena's piece {planned.region_of(planned.program.state[0].tensor.buffer).name}"


def _listed(planned: Planned) -> str:
    """In words: every buffer, its place and what its codes mean."""
    return " ".join(f"{plain(one.name)[:LONGEST_TITLE]}: {_described(planned, one)}." for one in planned.program.state)


def _described(planned: Planned, kept: StateTensor) -> str:
    tensor, first = kept.tensor, local(planned, kept.tensor.buffer)
    scale = (
        "" if tensor.qparams is None else f", scale {tensor.qparams.scale:.9g}, zero point {tensor.qparams.zero_point}"
    )
    return f"{tensor.dtype} {list(tensor.shape)}, bytes {first} to {first + kept.initial.data.nbytes - 1}{scale}"


def state_functions(planned: Planned) -> str:
    """The declarations of MODEL.h."""
    if not planned.program.state:
        return ""
    name = c_identifier(planned.program.name)
    about = comment(
        f"Gives state its initial values: call it before the first {name}_run, and wherever a new sequence begins. "
        f"It does nothing if the arena is NULL or not aligned to {name.upper()}_ARENA_ALIGN bytes."
    )
    return f"{about}\nvoid {name}_reset({arena_parameter(planned)});\n\n"
