"""A classifier's decision in C: MODEL_decision, and what MODEL_reset, MODEL_run and MODEL_push do for it.

Also MODEL_surprise, from which firmware can judge whether to trust an output at all.
"""

from dataclasses import dataclass

from cortado.base.element import Element
from cortado.base.names import c_identifier, c_string, plain
from cortado.emit.c.arena import arena_parameter, local, place, wrong_arena
from cortado.emit.c.text import LONGEST_TITLE, comment, listed
from cortado.ir.c_sources import sources_of
from cortado.plan.decision import DECISION, NO_DECISION, DecisionRule
from cortado.plan.planned import Planned


@dataclass(frozen=True)
class DecisionInC:
    """The pieces of MODEL.c that implement a decision; all are empty without one."""

    include: str = ""
    table: str = ""  # before all functions
    reset: str = ""  # the line of MODEL_reset
    take: str = ""  # the statement that takes a new output, in MODEL_run and MODEL_push
    function: str = ""  # MODEL_decision


def decision_sources(planned: Planned) -> tuple[str, ...]:
    """Returns the kernel library's source files that decide."""
    program = planned.program
    return () if program.decision is None else sources_of([_function_for(program.outputs[0].element)])


def _function_for(scores: Element) -> str:
    return "cortado_decide_f32" if scores.floating else "cortado_decide"


def decision_in_c(planned: Planned) -> DecisionInC:
    rule = planned.program.decision
    if rule is None:
        return DecisionInC()
    output = planned.program.outputs[0]
    kept, scores = place(planned, DECISION, "uint8_t"), place(planned, output.buffer, "uint8_t")
    return DecisionInC(
        include='#include "cortado_decide.h"\n',
        table=_table(rule, output.element),
        reset=f"    cortado_reset_decision(&decision, {kept});\n",
        take=f"{_function_for(output.element)}(&decision, {kept}, {scores});\n",
        function=_function(planned, kept),
    )


def _table(rule: DecisionRule, scores: Element) -> str:
    sums = listed(("INT32_MAX" if one is None else str(one) for one in rule.least(scores)), indent=4)
    which = f"last {rule.smooth} scores{', in bits of float32' if scores.floating else ''}"
    held = listed(map(str, rule.holdoffs), indent=4)
    return f"""/* ---- the decision ---- */

/* For each class: the smallest sum of its {which} for a decision, and its hold-off in outputs. */
static const int32_t decision_thresholds[] = {{
    {sums}
}};
static const uint16_t decision_holdoffs[] = {{
    {held}
}};
static const cortado_decision_t decision = {{
    decision_thresholds, decision_holdoffs, {rule.classes}u, {rule.smooth}u, {scores.bytes}u
}};

"""


def _function(planned: Planned, kept: str) -> str:
    name = c_identifier(planned.program.name)
    unset = f"{wrong_arena(planned)} || *reset_mark(arena) != {name.upper()}_BUILD"
    wrong = unset if planned.program.stream is None else "wrong(arena) != 0"
    return f"""int {name}_decision({arena_parameter(planned)})
{{
    if ({wrong}) {{
        return {name.upper()}_NO_DECISION;
    }}
    return cortado_decided(&decision, {kept});
}}

"""


def decision_facts(planned: Planned) -> str:
    """Defines the macros of MODEL.h: the number of classes and their names."""
    rule = planned.program.decision
    if rule is None:
        return ""
    name = c_identifier(planned.program.name)
    upper = name.upper()
    head = f"#define {upper}_CLASS_NAMES {{"
    texts = listed((c_string(plain(one)[:LONGEST_TITLE]) for one in rule.names), indent=len(head))
    names = head + texts.replace("\n", " \\\n") + "}\n" if texts else ""
    return f"""/* The values that {name}_decision returns: a class, or none. */
#define {upper}_CLASSES {rule.classes}
{names}#define {upper}_NO_DECISION ({NO_DECISION})

"""


def decision_functions(planned: Planned) -> str:
    """Declares MODEL_decision in MODEL.h."""
    rule = planned.program.decision
    if rule is None:
        return ""
    name = c_identifier(planned.program.name)
    work = f"{name}_{'run' if planned.program.stream is None else 'push'}"
    about = comment(
        f"Returns the class decided for after {work} made a new output, or {name.upper()}_NO_DECISION: the class with "
        f"the largest mean score over the last {rule.smooth} outputs, if that is at least its threshold and the class "
        "is not held off after its last decision. A decision is returned once; one that was not asked for is kept "
        f"until it is, or until the next. There is none without an arena, or without {name}_reset."
    )
    return f"{about}\nint {name}_decision({arena_parameter(planned)});\n\n"


def decision_top(planned: Planned, guard: int) -> int:
    """Returns the end of the decision's buffer in the memory that holds state; 0 without a decision."""
    if planned.program.decision is None:
        return 0
    return local(planned, DECISION, guard) + planned.program.decision_bytes


def surprise_function(planned: Planned) -> str:
    """Defines MODEL_surprise in MODEL.h: the code of the last output, whose real value has the limit 1."""
    program = planned.program
    if not program.watched:
        return ""
    output, name = program.outputs[-1], c_identifier(program.name)
    assert output.qparams is not None
    kind, last = output.element.c_type, len(program.outputs) - 1
    limit, zero = round(1.0 / output.qparams.scale), output.qparams.zero_point
    about = comment(
        f"Returns how much the {'input of the last run' if program.stream is None else 'window of the last output'} "
        "differs from the calibration data, from 0; above "
        f"{name.upper()}_SURPRISE_LIMIT it differs more than all but one in a hundred calibration inputs. -1 without "
        "an arena."
    )
    return f"""{about}
#define {name.upper()}_SURPRISE_LIMIT {limit}
static inline int32_t {name}_surprise({arena_parameter(planned, "const ")})
{{
    const {kind} *code = (const {kind} *){name}_output(arena, {last});
    return code == NULL ? -1 : (int32_t)*code - ({zero});
}}

"""
