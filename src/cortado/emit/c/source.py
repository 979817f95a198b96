"""MODEL.c: kernel calls, descriptors, the tables that cortado_run.c walks, and the functions of MODEL.h."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from cortado.base.element import INT8, Element
from cortado.base.names import c_string
from cortado.base.numerics import QParams
from cortado.base.target import Core, CortexM
from cortado.emit.c.arena import (
    aligned_guard,
    arena_function_text,
    arena_parameter,
    default_arena,
    default_arena_type,
    place,
    region_table,
    wrong_arena,
    wrong_function,
)
from cortado.emit.c.data import qparams_text
from cortado.emit.c.decision import DecisionInC
from cortado.emit.c.header import banner, pointer_type
from cortado.emit.c.identity import info_text, same_build
from cortado.emit.c.layers import Layers
from cortado.emit.c.library import SHARED_ARENA, KernelSet, kernels_check, more_headers
from cortado.emit.c.ranges import counted_inputs, ranges_text
from cortado.emit.c.rows import head_of_bytes, quantize_row_text, rows_text
from cortado.emit.c.selftest import network_symbol
from cortado.emit.c.state import StateInC
from cortado.emit.c.tables import Tables, at
from cortado.emit.c.text import OfPlan, entry_of, guarded, listed
from cortado.plan.program import Program, Tensor

# Sources of the float helpers, linked only if used.
_FLOAT_SOURCES = frozenset({"quantize_f32_s8.c", "quantize_u8_s8.c", "dequantize_s8_f32.c"})


def float_sources(program: Program) -> frozenset[str]:
    """Returns the kernels behind the functions that convert real numbers."""
    coded = [tensor.element.bits for tensor in (*program.inputs, *program.outputs) if tensor.qparams is not None]
    return _FLOAT_SOURCES.union(*({f"quantize_f32_s{bits}.c", f"dequantize_s{bits}_f32.c"} for bits in coded))


@dataclass(frozen=True)
class ModelSource(OfPlan):
    """MODEL.c of a planned program."""

    layers: Layers
    tables: Tables
    state: StateInC
    decision: DecisionInC
    kernels: KernelSet
    selftest: bool

    def text(self) -> str:
        parts = [self._head(), self._kernels(), self._tables(), self._network(), self._float_helpers()]
        return "\n".join(parts)

    def _head(self) -> str:
        kernels = [kernel for step in self.program.steps for kernel in step.kernels.values()]
        called = (name for kernel in kernels for name in kernel.call.functions)
        return f"""{banner(self.program, "the network as tables, and the functions that run them")}
#include "{self.name}.h"
{"" if self.program.pushed is None else chr(10) + "#include <string.h>" + chr(10)}{self.state.include}
{self.decision.include}#include "{"cortado_run.h" if self.program.stream is None else "cortado_stream.h"}"
{more_headers(called)}{'#include "cortado_selftest.h"' + chr(10) if self.selftest else ""}#include "{self.owner}_data.h"

{same_build(self.name)}
{_isa_guard(self.program)}{aligned_guard(self.planned)}
{kernels_check(self.kernels)}
/* AT: an offset in the arena, in the release plan and in the plan with guards around every buffer. */
#ifdef CORTADO_ENABLE_RUNTIME_CHECKS
#define AT(release, checked) checked
#define CHECKED(...) , __VA_ARGS__
#else
#define AT(release, checked) release
#define CHECKED(...)
#endif
#ifdef CORTADO_PROFILE
#define PROFILED(...) , __VA_ARGS__
#else
#define PROFILED(...)
#endif
#ifdef CORTADO_CHECK_RANGES
#define RANGED(...) , __VA_ARGS__
#else
#define RANGED(...)
#endif
"""

    def _kernels(self) -> str:
        every = self.layers.cores
        needs = guarded(self.layers.needs.pieces.values(), every)
        checked = f"#ifdef CORTADO_ENABLE_RUNTIME_CHECKS\n{needs}#endif\n\n" if needs else ""
        return f"""/* ---- kernels: the steps call them through these functions, all of one type ---- */

{guarded(self.layers.calls.pieces.values(), every)}
{checked}/* ---- layers: the parameters of the kernels ---- */

{guarded(self.layers.descriptors, every)}{self._macros()}"""

    def _macros(self) -> str:
        if not self.layers.macros:
            return ""
        text = guarded(self.layers.macros, self.layers.cores)
        return f"\n/* The kernels that each kind of core calls, and the scratch they need. */\n{text}"

    def _tables(self) -> str:
        return f"""/* ---- tables: cortado_run.h documents their members ---- */

/* The operands of the steps: where the rows of each are, and which of them an output row reads. */
static const cortado_port_t ports[] = {{
{self.tables.ports}
}};

/* Each step runs a kernel over one tensor: its layer, where its output rows go and how many there are. */
static const cortado_step_t steps[] = {{
{self.tables.steps}
}};

/* Steps that run interleaved, row by row. */
static const cortado_stage_t stages[] = {{
{self.tables.stages}
}};

#ifdef CORTADO_ENABLE_RUNTIME_CHECKS
/* The buffers in the arena, for checking the guards around them. */
static const cortado_guarded_t guarded[] = {{
{self.tables.guarded}
}};
#endif

#ifdef CORTADO_PROFILE
const char *const {self.name}_step_names[{self.upper}_STEPS] = {{
{self._step_names()}
}};
#endif

{ranges_text(self.planned)}
static const cortado_program_t program = {{
    steps, ports CHECKED(guarded, sizeof guarded / sizeof guarded[0]) PROFILED({self.name}_profile)
    RANGED(first_range, ranges, {self.name}_saturated)
}};
{network_symbol(self.program) if self.selftest else ""}"""

    def _step_names(self) -> str:
        return "\n".join(f"    {c_string(step.name)}," for step in self.program.steps)

    def _network(self) -> str:
        if self.program.pushed is not None:
            return "\n".join((self.decision.table + rows_text(self.planned, self.decision), self._results()))
        widest = max((sum(port.rule.taps for port in step.ports) for step in self.program.steps), default=1)
        longest = max((len(stage.steps) for stage in self.program.stages), default=1)
        regions = bool(self.planned.regions)
        loop = "cortado_run_stage_regions" if regions else "cortado_run_stage"
        take = f"    {self.decision.take}" if self.decision.take else ""
        before = "".join((self.state.check, region_table(self.planned), counted_inputs(self.planned)))
        return f"""{self.decision.table}/* ---- the network ---- */

{wrong_function(self.planned)}{self.state.functions}{self._accessor("input", self.program.inputs, const="")}
int {entry_of(self.program)}({arena_parameter(self.planned)})
{{
    cortado_state_t state[{longest}]; /* of the longest stage */
    const int8_t *rows[{widest}]; /* of the widest step */
    if ({wrong_arena(self.planned)}) {{
        return 1;
    }}
{before}    for (unsigned i = 0; i < sizeof stages / sizeof stages[0]; i++) {{
        {loop}(&program, &stages[i], i, {"regions" if regions else "(uint8_t *)arena"}, state, rows);
    }}
{self.state.keep}{take}#ifdef CORTADO_PROFILE
    {self.name}_profile({self.upper}_STEPS);
#endif
    return 0;
}}

{self._results()}"""

    def _results(self) -> str:
        return f"""{self._accessor("output", self.program.outputs, const="const ")}
{self.state.saving}{self.decision.function}{self._arena()}
{info_text(self.planned)}"""

    def _arena(self) -> str:
        """Defines the functions that return an arena; a further method uses its model's."""
        return "" if self.program.method_of else arena_function_text(self.planned) + self._default_arena()

    def _default_arena(self) -> str:
        if self.kernels.shares_arena(self.program):
            return f"""void *{SHARED_ARENA}(void); /* of cortado_together.h */

{default_arena_type(self.planned)}{self.name}_default_arena(void)
{{
    return ({default_arena_type(self.planned)}){SHARED_ARENA}();
}}
"""
        return default_arena(self.planned)

    def _accessor(self, verb: str, tensors: Sequence[Tensor], const: str) -> str:
        """Defines MODEL_input or MODEL_output through a table of offsets into the arena."""
        if not tensors:
            return self._no_accessor(verb, const)
        if self.planned.regions:
            return self._places(verb, tensors, const)
        head = "    static const uint32_t offsets[] = {"
        offsets = listed((at(self.planned, tensor.buffer) for tensor in tensors), indent=len(head))
        pointer = pointer_type(tensors)
        return f"""{const}{pointer}{self.name}_{verb}({arena_parameter(self.planned, const)}, int i)
{{
{head}{offsets}}};
    if (arena == NULL || (unsigned)i >= {self.upper}_{verb.upper()}S) {{
        return NULL;
    }}
    return ({const}{pointer})({const}void *)(({const}uint8_t *)arena + offsets[i]);
}}
"""

    def _no_accessor(self, verb: str, const: str) -> str:
        return f"""{const}void *{self.name}_{verb}({arena_parameter(self.planned, const)}, int i)
{{
    (void)arena, (void)i;
    return NULL;
}}
"""

    def _places(self, verb: str, tensors: Sequence[Tensor], const: str) -> str:
        """Defines the same accessor for an arena in regions, through a table of pointers."""
        pointer = pointer_type(tensors)
        places = ",\n        ".join(place(self.planned, tensor.buffer, "uint8_t") for tensor in tensors)
        return f"""{const}{pointer}{self.name}_{verb}({arena_parameter(self.planned)}, int i)
{{
    if (wrong(arena) || (unsigned)i >= {self.upper}_{verb.upper()}S) {{
        return NULL;
    }}
    uint8_t *const places[] = {{
        {places},
    }};
    return ({const}{pointer})({const}void *)places[i];
}}
"""

    def _float_helpers(self) -> str:
        read = arena_parameter(self.planned, "const ")
        return "\n".join(
            (
                quantize_row_text(self.planned) if self.program.pushed is not None else self._quantize_input(),
                self._float_helper(
                    f"void {self.name}_dequantize_output({read}, int i, float *values)",
                    self.program.outputs,
                    "const ",
                    lambda bits, at, size, q: f"cortado_dequantize_s{bits}_f32({at}, values, {size}, {q});",
                ),
            )
        )

    def _quantize_input(self) -> str:
        """Defines the functions that quantize an input from real numbers or bytes."""
        return "\n".join(
            (
                self._float_helper(
                    f"void {self.name}_quantize_input({arena_parameter(self.planned)}, int i, const float *values)",
                    self.program.inputs,
                    "",
                    lambda bits, at, size, q: f"cortado_quantize_f32_s{bits}(values, {at}, {size}, {q});",
                ),
                self._float_helper(
                    head_of_bytes(self.planned),
                    self.program.inputs,
                    "",
                    lambda bits, at, size, q: (
                        f"cortado_quantize_u8_s8(values, {at}, {size},\n"
                        f"                               channels, gain, offset, {q});"
                    ),
                    unused=("channels", "gain", "offset"),
                    only=INT8,
                ),
            )
        )

    def _float_helper(
        self,
        head: str,
        tensors: Sequence[Tensor],
        const: str,
        call: Callable[[int, str, int, str], str],
        unused: Sequence[str] = (),
        only: Element | None = None,
    ) -> str:
        """Defines a function that converts one quantized tensor, chosen by number; it does nothing for any other
        tensor, or for one whose element is not `only`."""
        good = "!wrong(arena)" if self.planned.regions else "arena != NULL"
        cases = [
            f"    if ({good} && i == {number}) {{\n        {self._on_codes(tensor, qparams, const, call)}\n    }}"
            for number, (tensor, qparams) in enumerate((tensor, tensor.qparams) for tensor in tensors)
            if qparams is not None and only in (None, tensor.element)
        ]
        nothing = "\n".join(f"    (void){name};" for name in ("arena", "i", "values", *unused))
        body = "\n".join(cases) or nothing
        return f"{head}\n{{\n{body}\n}}\n"

    def _on_codes(self, tensor: Tensor, qparams: QParams, const: str, call: Callable[[int, str, int, str], str]) -> str:
        at = place(self.planned, tensor.buffer, f"{const}{INT8.c_type}")
        if tensor.element.bytes > 1:
            at = f"({const}{tensor.element.c_type} *)({const}void *)({at})"
        return call(tensor.element.bits, at, _count(tensor), qparams_text(qparams))


def _count(tensor: Tensor) -> int:
    return int(np.prod(tensor.shape))


def _isa_guard(program: Program) -> str:
    """Emits an #error for an instruction set that the plan and the packed weights don't cover."""
    tests = {Core.DSP: "defined(__ARM_FEATURE_DSP)", Core.MVE: "defined(__ARM_FEATURE_MVE)"}
    if program.cores == (Core.PORTABLE,):
        return ""
    wanted = ["defined(__arm__)", *(tests[core] for core in program.cores if core in tests and len(program.cores) == 1)]
    small = "(defined(__ARM_ARCH_6M__) || defined(__ARM_ARCH_8M_BASE__))"
    if program.cores == (Core.SMALL,):
        wanted.append(small)
    if program.cores == (Core.LONG,):
        wanted.append(f"!{small}")
    target = program.target.target_string
    planned = f"this bundle was planned for {target}"
    advice = f"{planned}; compile it for that core, or run cortado for this one"
    if program.cores == (Core.MVE,):
        advice = f"{planned}: compile it for that core's vector instructions (not -mfloat-abi=soft)"
    if program.cores == (Core.DSP,) and program.target.cpu in (CortexM.M33, CortexM.M35P):
        advice = (
            f"{planned} with the DSP extension: for a core without it run cortado with --target "
            f"{program.target.cpu.value}+nodsp, for one with it compile with -march=armv8-m.main+dsp"
        )
    if program.target.cpu is CortexM.ANY:
        advice = "compile it for a Cortex-M core; `cortado run --on host` runs it on this machine"
    return f"""#if !({" && ".join(wanted)})
#error "{advice}"
#endif
"""
