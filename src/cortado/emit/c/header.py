"""MODEL.h: sizes, shapes, scales, and the functions of the bundle."""

from collections.abc import Iterable

import numpy as np

from cortado import __version__
from cortado.base.names import c_identifier, plain
from cortado.emit.c.data import float_text
from cortado.plan.planned import Planned
from cortado.plan.program import Program, Tensor
from cortado.plan.segments import ALIGNMENT

NHWC = (0, 2, 3, 1)  # the dimensions of an image [N, C, H, W], channels last


def pointer_type(tensors: Iterable[Tensor]) -> str:
    """int8_t * where all tensors are int8, void * otherwise."""
    kinds = {tensor.dtype for tensor in tensors}
    return "int8_t *" if kinds == {"int8"} else "void *"


def _tensor_macros(prefix: str, number: int, tensor: Tensor) -> str:
    tag = f"{prefix}{number}"
    size = int(np.prod(tensor.shape)) * np.dtype(tensor.dtype).itemsize
    shape, layout = tensor.shape or (1,), tensor.layout or (0,)  # {} initialises no C array: a number is an array of 1
    lines = [
        f"/* {tag}: {plain(tensor.name)}, {tensor.dtype}, {order(tensor)} */",
        f"#define {tag}_BYTES {size}",
        f"#define {tag}_SHAPE {{{', '.join(map(str, shape))}}}",
        f"#define {tag}_LAYOUT {{{', '.join(map(str, layout))}}} /* the model's dimensions in this order */",
    ]
    if tensor.qparams is not None:
        lines.append(f"#define {tag}_SCALE {float_text(tensor.qparams.scale)}")
        lines.append(f"#define {tag}_ZERO_POINT ({tensor.qparams.zero_point})")
    return "\n".join(lines)


def order(tensor: Tensor) -> str:
    """In words, in which order the values of a tensor lie."""
    model = [tensor.shape[tensor.layout.index(dim)] for dim in range(len(tensor.shape))]
    if tensor.layout == tuple(range(len(tensor.layout))):
        return f"{model} as in the model"
    named = "NHWC" if tensor.layout == NHWC else f"its dimensions {', '.join(map(str, tensor.layout))}"
    return f"{model} in the model, here {named}: {list(tensor.shape)}"


def header_text(planned: Planned) -> str:
    """MODEL.h: sizes, shapes, scales, and the functions of the bundle."""
    program = planned.program
    name = c_identifier(program.name)
    upper = name.upper()
    tensors = "\n".join(
        _tensor_macros(f"{upper}_{kind}", number, tensor)
        for kind, group in (("INPUT", program.inputs), ("OUTPUT", program.outputs))
        for number, tensor in enumerate(group)
    )
    return f"""{banner(program)}
#ifndef {upper}_H
#define {upper}_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

#define {upper}_TARGET "{program.target.target_string}"
#ifdef CORTADO_ENABLE_RUNTIME_CHECKS
#define {upper}_ARENA_BYTES {max(planned.checked.peak, 1)}
#else
#define {upper}_ARENA_BYTES {max(planned.plan.peak, 1)}
#endif
#define {upper}_ARENA_ALIGN {ALIGNMENT}
#define {upper}_INPUTS {len(program.inputs)}
#define {upper}_OUTPUTS {len(program.outputs)}

{tensors}

/* Where input i is written to, before {name}_run. NULL if there is no such input, or no arena. */
{pointer_type(program.inputs)}{name}_input(void *arena, int i);

/* Runs the network once. It destroys its inputs. Returns 0; or 1, having done nothing, if the arena is NULL or not
 * aligned to {upper}_ARENA_ALIGN bytes. */
int {name}_run(void *arena);

/* Where output i lies, after {name}_run. NULL if there is no such output, or no arena. */
const {pointer_type(program.outputs)}{name}_output(const void *arena, int i);

/* An arena of the right size and alignment, for those who don't bring their own. Linked only if used. */
void *{name}_default_arena(void);

/* Real numbers in, real numbers out, for int8 tensors. They convert numbers and not the order of dimensions: values lie
 * in the same order before and after, the one said above. Without an arena, or for an i that is no int8 tensor, they do
 * nothing. Linked only if used. */
void {name}_quantize_input(void *arena, int i, const float *values);
void {name}_dequantize_output(const void *arena, int i, float *values);

#ifdef __cplusplus
}}
#endif

#endif /* {upper}_H */
"""


def banner(program: Program) -> str:
    return f"/* {plain(program.name)} for {program.target.target_string}, written by Cortado {__version__}. */"
