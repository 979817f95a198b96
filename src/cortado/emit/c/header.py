"""MODEL.h: sizes, shapes, scales, and the functions of the bundle."""

import textwrap
from collections.abc import Iterable

from cortado import __version__
from cortado.base.element import USUAL, Element
from cortado.base.names import c_identifier, plain
from cortado.emit.c.arena import arena_facts, arena_function, arena_parameter, arena_structure, default_arena_type
from cortado.emit.c.data import float_text
from cortado.emit.c.decision import decision_facts, decision_functions, surprise_function
from cortado.emit.c.identity import INFO_TYPES, identity_facts, info_declaration
from cortado.emit.c.library import KernelSet, one_set_of_kernels, version_number
from cortado.emit.c.ranges import ranges_declaration
from cortado.emit.c.rows import head_of_bytes, rows_facts, rows_functions
from cortado.emit.c.state import state_facts, state_functions
from cortado.emit.c.text import LONGEST_TITLE, WIDTH, comment, entry_of
from cortado.plan.planned import Planned
from cortado.plan.program import Program, Tensor

STACK_MARGIN = 320  # bytes that gcc may take more at other optimization levels: the maximum over operators and cores
NHWC = (0, 2, 3, 1)  # the dimensions of an image [N, C, H, W], channels last


def pointer_type(tensors: Iterable[Tensor]) -> str:
    """Returns the tensors' common pointer type; void * if they differ or, by convention, if all are float."""
    kinds = {tensor.element.c_type for tensor in tensors}
    return "void *" if len(kinds) != 1 or kinds == {"float"} else f"{kinds.pop()} *"


def _tensor_macros(tag: str, tensor: Tensor) -> str:
    shape, layout = tensor.shape or (1,), tensor.layout or (0,)  # C has no empty arrays: a scalar is an array of 1
    lines = [
        comment(f"{tensor_name(tensor)}: {tensor.dtype}, {order(tensor)}"),
        f"#define {tag}_TYPE {tensor.element.c_type}",
        f"#define {tag}_BYTES {tensor.bytes}",
        f"#define {tag}_SHAPE {{{', '.join(map(str, shape))}}}",
        f"#define {tag}_LAYOUT {{{', '.join(map(str, layout))}}}",
    ]
    if tensor.qparams is not None:
        lines.append(f"#define {tag}_SCALE {float_text(tensor.qparams.scale)}")
        lines.append(f"#define {tag}_ZERO_POINT ({tensor.qparams.zero_point})")
    return "\n".join(lines)


def coded_elements(program: Program) -> tuple[Element, ...]:
    """Returns the elements of the quantized inputs and outputs; int8 if none is quantized."""
    found = {tensor.element for tensor in (*program.inputs, *program.outputs) if tensor.qparams is not None}
    return tuple(sorted(found, key=lambda one: one.bits)) or (USUAL,)


def _meaning(program: Program) -> str:
    codes = " or ".join(one.name for one in coded_elements(program))
    return comment(
        f"SHAPE is in memory order; LAYOUT lists the model's dimensions in that order. An {codes} value q stands for "
        "the real number SCALE * (q - ZERO_POINT)."
    )


def scalar_suffix(element: Element) -> str:
    """Returns the suffix of MODEL_quantize and MODEL_dequantize for an element: empty for int8, else as in _s16."""
    return "" if element == USUAL else f"_s{element.bits}"


def tensor_name(tensor: Tensor) -> str:
    """Returns the printable name of an input or output."""
    return plain(tensor.name)[:LONGEST_TITLE]


def order(tensor: Tensor) -> str:
    """Describes the order of a tensor's values in words."""
    model = [tensor.shape[tensor.layout.index(dim)] for dim in range(len(tensor.shape))]
    if tensor.layout == tuple(range(len(tensor.layout))):
        return f"{model} as in the model"
    named = "NHWC" if tensor.layout == NHWC else f"its dimensions {', '.join(map(str, tensor.layout))}"
    return f"{model} in the model, here {named}: {list(tensor.shape)}"


def _owner_header(program: Program) -> str:
    """Includes the header with arena and state, for a further method."""
    return f'#include "{c_identifier(program.owner)}.h"\n\n' if program.method_of else ""


def header_text(
    planned: Planned,
    kernels: KernelSet,
    version: str | None,
    weights: str = "",
    more: str = "",
    methods: Iterable[str] = (),
) -> str:
    """Returns MODEL.h: sizes, shapes, scales and the bundle's functions, with the declarations `more` at the end.

    `weights` are the macros for sections of constants; `methods`, the headers of further methods.
    """
    upper = c_identifier(planned.program.name).upper()
    return f"""{banner(planned.program, "its sizes, inputs, outputs and functions")}
#ifndef {upper}_H
#define {upper}_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__has_include)
#if __has_include("cortado_settings.h") /* for build systems that can't set flags */
#include "cortado_settings.h"
#endif
#endif

{_owner_header(planned.program)}{one_set_of_kernels(kernels)}
#ifdef __cplusplus
extern "C" {{
#endif

{_facts(planned, upper, version, weights)}
{state_functions(planned)}{_functions(planned)}{more}
#ifdef __cplusplus
}}
#endif
{"".join(f'{chr(10)}#include "{name}.h"' for name in methods)}
#endif /* {upper}_H */
"""


def _facts(planned: Planned, upper: str, version: str | None, weights: str) -> str:
    """Defines the macros for version, target, arena, and every input and output."""
    program = planned.program
    tensors = "\n\n".join(
        _tensor_macros(f"{upper}_{kind}{number}", tensor)
        for kind, group in (("INPUT", program.inputs), ("OUTPUT", program.outputs))
        for number, tensor in enumerate(group)
    )
    return f"""/* The version of Cortado that wrote this; as a number, 10000 * major + 100 * minor + patch. */
#define {upper}_VERSION "{__version__}"
#define {upper}_VERSION_NUMBER {version_number(__version__)}
#define {upper}_TARGET "{program.target.target_string}"

{identity_facts(program, version)}
{"" if program.method_of else arena_facts(planned)}
{stack_fact(program, None)}
{weights}#define {upper}_INPUTS {len(program.inputs)}
#define {upper}_OUTPUTS {len(program.outputs)}

{"" if program.method_of else arena_structure(planned)}
{rows_facts(planned)}{state_facts(planned)}{decision_facts(planned)}{_meaning(program)}

{tensors}

{INFO_TYPES}"""


def stack_fact(program: Program, stack_bytes: int | None) -> str:
    """Defines the macro for the stack; None if the code has not been compiled."""
    upper = c_identifier(program.name).upper()
    if stack_bytes is None:
        return f"/* {upper}_STACK_BYTES is not known: this was written without arm-none-eabi-gcc. */"
    about = comment(
        "The most stack that a call takes, without interrupts and runtime checks, as compiled by arm-none-eabi-gcc "
        f"with the flags of CMakeLists.txt. -Os and -O3 take at most {upper}_STACK_MARGIN_BYTES more."
    )
    return f"{about}\n#define {upper}_STACK_BYTES {stack_bytes}\n#define {upper}_STACK_MARGIN_BYTES {STACK_MARGIN}"


def _run_functions(planned: Planned) -> str:
    program, arena = planned.program, arena_parameter(planned)
    name = c_identifier(program.name)
    owner, entry = c_identifier(program.owner), entry_of(program)
    aligned = f"aligned to {owner.upper()}_ARENA_ALIGN bytes"
    piece = "a piece of the arena" if planned.regions else "the arena"
    unset = f"; or 2, if the arena was never given to {owner}_reset" if program.state else ""
    run = comment(
        f"Runs the network once and overwrites its inputs. Returns 0; or 1, without doing anything, if {piece} is NULL "
        f"or not {aligned}{unset}."
    )
    before = comment(f"Returns where to write input i, before {entry}. NULL if there is no such input, or no arena.")
    return f"""{before}
{pointer_type(program.inputs)}{name}_input({arena}, int i);

{run}
int {entry}({arena});
"""


def _functions(planned: Planned) -> str:
    program, arena, read = planned.program, arena_parameter(planned), arena_parameter(planned, "const ")
    name = c_identifier(program.name)
    pushed = program.pushed is not None
    work = entry_of(program)
    after = comment(f"Returns output i, after {work}. NULL if there is no such output, or no arena.")
    called = comment(
        f"You define this: {work} calls it before each kernel call, with the number of the step, and with "
        f"{name.upper()}_STEPS at the end. Read a cycle counter there."
    )
    convert = (
        f"void {name}_quantize_row({arena}, const float *values); /* to where {name}_row points */"
        if pushed
        else f"void {name}_quantize_input({arena}, int i, const float *values);"
    )
    codes = coded_elements(program)
    only = "" if all(one.affine for one in codes) else " For int8 tensors only."
    of_bytes = comment(
        "The same for bytes from a camera, without a copy of the picture in real numbers: byte b of channel c stands "
        "for b * gain[c] + offset[c]. Channels are last. The bytes may be where the codes go." + only
    )
    decided = decision_functions(planned) + surprise_function(planned)
    convert += f"\n{of_bytes}\n{head_of_bytes(planned)};"
    return f"""{info_declaration(program)}
{"" if program.method_of else arena_function(planned)}{rows_functions(program) if pushed else _run_functions(planned)}
{after}
const {pointer_type(program.outputs)}{name}_output({read}, int i);

{decided}{"" if program.method_of else _default_arena(planned)}{_about_conversions(codes)}
{convert}
void {name}_dequantize_output({read}, int i, float *values);

{_scalars(name, codes)}
#ifdef CORTADO_PROFILE
{called}
#define {name.upper()}_STEPS {len(program.steps)}u
void {name}_profile(uint32_t step);
extern const char *const {name}_step_names[{name.upper()}_STEPS];
#endif

{ranges_declaration(planned)}"""


def _default_arena(planned: Planned) -> str:
    return f"""/* A static arena of the right size and alignment. Linked only if used. */
{default_arena_type(planned)}{c_identifier(planned.program.name)}_default_arena(void);

"""


def _about_conversions(codes: Iterable[Element]) -> str:
    names = [one.name for one in codes]
    lines = textwrap.wrap(
        f"/* Real numbers in, real numbers out, for {' and '.join(names)} tensors. They convert numbers only: values "
        f"keep the order of dimensions given above. Without an arena, or for an i that is not an {' or '.join(names)} "
        "tensor, they do nothing. Linked only if used. */",
        WIDTH,
        subsequent_indent=" * ",
    )
    return "\n".join(lines)


def _scalars(name: str, codes: Iterable[Element]) -> str:
    """Defines scalar conversions, bit-exact with the functions above: two per element."""
    return "\n".join(_scalar(name, element) for element in codes)


def _scalar(name: str, element: Element) -> str:
    tail = scalar_suffix(element)
    of = f"its {element.name} tensor" if tail else "its tensor"
    beyond = f"{2 * (element.steps + 1)}.0f"  # any larger value saturates, whatever the zero point
    code = element.c_type
    return f"""/* One number, by the SCALE and ZERO_POINT of {of}, with the same bits as above. */
static inline {code} {name}_quantize{tail}(float value, float scale, int32_t zero_point)
{{
    float v = value * (1.0f / scale);
    v = v > -{beyond} ? (v < {beyond} ? v : {beyond}) : (v <= -{beyond} ? -{beyond} : 0.0f);
    v += 12582912.0f; /* rounds to nearest, ties to even */
    int32_t code;
    (void)memcpy(&code, &v, sizeof code);
    code += zero_point - 0x4B400000;
    return ({code})(code < {element.low} ? {element.low} : code > {element.high} ? {element.high} : code);
}}

static inline float {name}_dequantize{tail}({code} code, float scale, int32_t zero_point)
{{
    return (float)(code - zero_point) * scale;
}}
"""


def banner(program: Program, what: str) -> str:
    """Returns the comment at the top of a file."""
    made = f"{plain(program.name)} for {program.target.target_string}, written by Cortado {__version__}"
    lines = textwrap.wrap(f"{made}: {what}.", WIDTH - len(" * "))
    return "\n * ".join(["/* SPDX-License-Identifier: Apache-2.0\n *", *lines]) + "\n */"
