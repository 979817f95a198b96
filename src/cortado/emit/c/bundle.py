"""The program as a C bundle: schedule, data, the kernels it needs and no others, a CMake target, a README."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from cortado.base.data import KERNELS
from cortado.base.errors import CortadoError
from cortado.base.names import c_identifier, c_string, plain
from cortado.base.target import BUNDLE_FLAGS, Core, CortexM
from cortado.emit.c.calls import call_function, need_function
from cortado.emit.c.data import Arrays, Constant, Piece, float_text, guarded_by_cores, int_text
from cortado.emit.c.header import banner, header_text, pointer_type
from cortado.emit.c.readme import readme_text
from cortado.ir.c_call import CCall
from cortado.ir.op import Array, Field, Kernel, Layer
from cortado.memory.problem import Plan
from cortado.plan.planned import GUARD_BYTES, Planned
from cortado.plan.program import Port, Program, Step, Tensor, Walk
from cortado.plan.segments import ALIGNMENT, scratch_name

# What descriptors hold in 16 bits and a model's author chooses.
_SHORT_FIELDS = frozenset({"depth_multiplier", "kernel_h", "kernel_w", "stride_w", "pad_left", "dilation_w"})


@dataclass(frozen=True)
class Bundle:
    """The files of a bundle by relative path, and what is in them."""

    files: Mapping[str, str]
    calls: tuple[str, ...]  # the functions of MODEL.c that call kernels
    constants: tuple[Constant, ...]  # the arrays of MODEL_data.c
    weights_bytes: int  # what one core's build holds of them; of several, the most


def emit_c(planned: Planned) -> Bundle:
    """All files of the bundle."""
    return _Emitter(planned).emit()


class _Emitter:
    def __init__(self, planned: Planned) -> None:
        self.program: Program = planned.program
        self.plan: Plan = planned.plan
        self.planned = planned
        self.name = c_identifier(self.program.name)
        self.upper = self.name.upper()
        self.cores = frozenset(self.program.cores)
        self.arrays = Arrays(self.name, self.cores)
        self.functions: dict[tuple[str | None, CCall], Piece] = {}  # by descriptor and call
        self.calls: list[str] = []  # those of them that call kernels
        self.layers: list[Piece] = []
        self.sources: set[str] = {"cortado_run.c"}

    def emit(self) -> Bundle:
        schedule = self._schedule()  # first: it collects the arrays and kernels the other files need
        files = {
            f"{self.name}.h": header_text(self.planned),
            f"{self.name}.c": schedule,
            f"{self.name}_data.h": self.arrays.header(),
            f"{self.name}_data.c": self.arrays.source(),
            "CMakeLists.txt": self._cmake(),
            "README.md": readme_text(self.planned, self.arrays.total_bytes),
            **self._kernel_files(),
        }
        return Bundle(
            files=files,
            calls=tuple(self.calls),
            constants=self.arrays.constants,
            weights_bytes=self.arrays.total_bytes,
        )

    # ---- MODEL.c ---------------------------------------------------------------------------------------------

    def _schedule(self) -> str:
        steps, ports, stages = self._tables()
        widest = max((sum(port.rule.taps for port in step.inputs) for step in self.program.steps), default=1)
        longest = max((len(stage.steps) for stage in self.program.stages), default=1)
        return f"""{banner(self.program)}
#include "{self.name}.h"

#include "cortado_run.h"
#include "{self.name}_data.h"

{_isa_guard(self.program)}
/* AT: an offset in the arena, of the release plan and of the plan with guards around every buffer. */
#ifdef CORTADO_ENABLE_RUNTIME_CHECKS
#define AT(release, checked) checked
#define CHECKED(...) , __VA_ARGS__
#else
#define AT(release, checked) release
#define CHECKED(...)
#endif

/* ---- kernels and layers ---- */

{self._pieces([*self.functions.values(), *self.layers])}
/* ---- steps ---- */

static const cortado_port_t ports[] = {{
{ports},
}};

static const cortado_step_t steps[] = {{
{steps},
}};

static const cortado_stage_t stages[] = {{
{stages},
}};

{self._guards()}
static const cortado_program_t program = {{steps, ports CHECKED(guarded, sizeof guarded / sizeof guarded[0])}};

/* ---- the network ---- */

{self._accessor("input", self.program.inputs, const="")}
int {self.name}_run(void *arena)
{{
    cortado_state_t state[{longest}];
    const int8_t *rows[{widest}];
    if (arena == NULL || (uintptr_t)arena % {self.upper}_ARENA_ALIGN != 0) {{
        return 1;
    }}
    for (unsigned i = 0; i < sizeof stages / sizeof stages[0]; i++) {{
        cortado_run_stage(&program, &stages[i], i, (uint8_t *)arena, state, rows);
    }}
    return 0;
}}

{self._accessor("output", self.program.outputs, const="const ")}
void *{self.name}_default_arena(void)
{{
    static union {{
        uint8_t bytes[{self.upper}_ARENA_BYTES];
        uint64_t align;
    }} arena __attribute__((aligned({ALIGNMENT}))) CORTADO_ARENA;
    return &arena;
}}

{self._float_helpers()}"""

    def _accessor(self, verb: str, tensors: tuple[Tensor, ...], const: str) -> str:
        """MODEL_input and MODEL_output: an offset table into the arena."""
        offsets = ", ".join(self._at(tensor.buffer) for tensor in tensors)
        pointer = pointer_type(tensors)
        return f"""{const}{pointer}{self.name}_{verb}({const}void *arena, int i)
{{
    static const uint32_t offsets[] = {{{offsets}}};
    if (arena == NULL || (unsigned)i >= {self.upper}_{verb.upper()}S) {{
        return NULL;
    }}
    return ({const}{pointer}) (({const}uint8_t *)arena + offsets[i]);
}}
"""

    def _float_helpers(self) -> str:
        self.sources |= {"quantize_f32_s8.c", "dequantize_s8_f32.c"}
        return "".join(
            (
                self._float_helper(
                    "quantize_input",
                    "void *arena, int i, const float *values",
                    self.program.inputs,
                    "cortado_quantize_f32_s8(values, ({0}) at, {1}, {2}, {3})",
                    "uint8_t *at = (uint8_t *)arena",
                ),
                self._float_helper(
                    "dequantize_output",
                    "const void *arena, int i, float *values",
                    self.program.outputs,
                    "cortado_dequantize_s8_f32((const {0}) at, values, {1}, {2}, {3})",
                    "const uint8_t *at = (const uint8_t *)arena",
                ),
            )
        )

    def _float_helper(self, verb: str, parameters: str, tensors: tuple[Tensor, ...], call: str, at: str) -> str:
        cases = []
        for number, tensor in enumerate(tensors):
            if tensor.qparams is None:
                continue
            size = int(np.prod(tensor.shape))
            scale = float_text(tensor.qparams.scale)
            text = call.format("int8_t *", size, scale, tensor.qparams.zero_point)
            offset = self._at(tensor.buffer)
            cases.append(
                f"    if (arena != NULL && i == {number}) {{\n        {at} + {offset};\n        {text};\n    }}"
            )
        if not cases:
            cases = ["    (void)arena;\n    (void)i;\n    (void)values;"]
        return f"void {self.name}_{verb}({parameters})\n{{\n" + "\n".join(cases) + "\n}\n\n"

    def _tables(self) -> tuple[str, str, str]:
        """The rows of the step, port and stage tables. A network of views only has one empty stage."""
        steps: list[str] = []
        ports: list[str] = []
        stages: list[str] = []
        for number, stage in enumerate(self.program.stages):
            producers = {step.output: position for position, step in enumerate(stage.steps)}
            first = len(steps)
            for position, step in enumerate(stage.steps):
                layer, call = self._layer(f"{number}_{position}", step)
                numbers = self._step_numbers(number, position, step, len(ports))
                title = plain(f"{step.name} {step.module}".rstrip())
                checked = self._checked_fields(f"{number}_{position}", step)
                steps.append(f"    /* {title} */ {{{call}, {layer}, {numbers} CHECKED({checked})}}")
                ports += [f"    {self._port(port, step.group, producers)}" for port in step.inputs]
            stages.append(f"    {{{first}, {stage.steps[0].images}, {len(stage.steps)}}}")
        empty = not stages
        return (
            "    {NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0 CHECKED(NULL, 0, NULL)}" if empty else ",\n".join(steps),
            "    {{.offset = 0}, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}" if empty else ",\n".join(ports),
            "    {0, 0, 0}" if empty else ",\n".join(stages),
        )

    def _at(self, buffer: str) -> str:
        """A buffer's offset in both builds."""
        return f"AT({self.plan.offsets[buffer]}u, {self.planned.checked.offsets[buffer] + GUARD_BYTES}u)"

    def _guards(self) -> str:
        """The buffers of the checks build."""
        rows = []
        for buffer in self.planned.problem.buffers:
            at = self.planned.checked.offsets[buffer.name] + GUARD_BYTES
            last = buffer.end[0] - (buffer.end[1] == 0)
            rows.append(f"    {{{c_string(buffer.name)}, {at}, {buffer.size}, {buffer.start[0]}, {last}}}")
        table = ",\n".join(rows)
        declaration = f"static const cortado_guarded_t guarded[] = {{\n{table},\n}};"
        return f"#ifdef CORTADO_ENABLE_RUNTIME_CHECKS\n{declaration}\n#endif\n"

    def _checked_fields(self, tag: str, step: Step) -> str:
        """Name, planned scratch and the function that works out the kernel's need again."""
        label = c_string(f"{step.name} ({step.operator})")
        texts = {core: f"{kernel.scratch}, {self._need(kernel, core)}" for core, kernel in step.kernels.items()}
        return f"{label}, {self._by_core(f'NEED{tag}', texts)}"

    def _need(self, kernel: Kernel, core: Core) -> str:
        """The function that works out a kernel's scratch from its layer."""
        if not kernel.scratch or kernel.scratch_check is None:
            return "NULL"
        key = (kernel.struct, kernel.scratch_check)
        if key not in self.functions:
            name = f"need_{len(self.functions)}"
            text = need_function(name, kernel, kernel.scratch_check)
            self.functions[key] = Piece(name, f"#ifdef CORTADO_ENABLE_RUNTIME_CHECKS\n{text}\n#endif\n")
        self.functions[key].cores.add(core)
        return self.functions[key].name

    def _by_core(self, name: str, texts: Mapping[Core, str]) -> str:
        """One text where all cores agree, else a macro that stands for each core's."""
        if len(set(texts.values())) == 1:
            return next(iter(texts.values()))
        for text in dict.fromkeys(texts.values()):
            cores = {core for core in texts if texts[core] == text}
            self.layers.append(Piece(name, f"#define {name} {text}\n", cores))
        return name

    def _pieces(self, pieces: Iterable["Piece"]) -> str:
        return "\n".join(guarded_by_cores(piece.text, piece.cores, self.cores) for piece in pieces)

    def _step_numbers(self, stage: int, position: int, step: Step, port: int) -> str:
        accumulates = step.kind is Walk.ACCUMULATE
        numbers: list[int | str] = [
            self._at(step.output),
            step.row_bytes,
            self._at(scratch_name(step)) if step.scratch else 0,
            step.n,
            _fits(self.planned.rows_needed(stage, position), 16, step.name),
            1 if accumulates else _fits(self.planned.ring_rows(step.output, step.rows), 16, step.name),
            _fits(port, 16, "the program"),
            len(step.inputs),
            0 if accumulates else step.group,
        ]
        return ", ".join(map(str, numbers))

    def _port(self, port: Port, group: int, producers: Mapping[str, int]) -> str:
        rule = port.rule
        if isinstance(port.source, Array):
            at = f".constant = {self.arrays.add(port.source, 'operand', self.cores)}"
            ring, producer = port.height, "CORTADO_CONSTANT"
        else:
            at = f".offset = {self._at(port.source)}"
            ring = self.planned.ring_rows(port.source, port.height)
            producer = str(producers.get(port.source, "CORTADO_COMPLETE"))
        numbers = [port.row_bytes, *(_fits(value, 16, "a row count") for value in (port.height, ring))]
        numbers.append(_fits(rule.span + group - 1, 15, "a window") - rule.pad)
        numbers += [_fits(value, 8, "a window") for value in (rule.taps, rule.stride, rule.dilation, rule.pad)]
        numbers.append(rule.repeat.bit_length() - 1)
        return f"{{{{{at}}}, {', '.join(map(str, numbers))}, {producer}}}"

    def _layer(self, tag: str, step: Step) -> tuple[str, str]:
        """The C expressions of a step's descriptor and of the function that calls its kernel, for every core."""
        groups: list[tuple[Kernel, set[Core]]] = []
        for core, kernel in step.kernels.items():
            same = next((cores for other, cores in groups if _same(other, kernel)), None)
            if same is None:
                groups.append((kernel, {core}))
            else:
                same.add(core)
        layers: dict[Core, str] = {}
        calls: dict[Core, str] = {}
        for number, (kernel, cores) in enumerate(groups):
            layer = self._descriptor(tag if len(groups) == 1 else f"{tag}_{number}", kernel, cores)
            layers.update(dict.fromkeys(cores, layer))
            calls.update(dict.fromkeys(cores, self._call(kernel, cores)))
        return self._by_core(f"LAYER{tag}", layers), self._by_core(f"CALL{tag}", calls)

    def _descriptor(self, tag: str, kernel: Kernel, cores: set[Core]) -> str:
        return "NULL" if kernel.struct is None else self._constant(tag, Layer(kernel.struct, kernel.fields), cores)

    def _constant(self, tag: str, layer: Layer, cores: set[Core]) -> str:
        """A descriptor, after those it points to."""
        texts = {key: self._field(tag, key, value, cores) for key, value in layer.fields.items()}
        fields = ",\n".join(f"    .{key} = {text}" for key, text in texts.items())
        text = f"static const {layer.struct} layer{tag} = {{\n{fields},\n}};\n"
        self.layers.append(Piece(tag, text, cores))
        return f"&layer{tag}"

    def _field(self, tag: str, key: str, value: Field, cores: set[Core]) -> str:
        if value is None:
            return "NULL"
        if isinstance(value, Array):
            return self.arrays.add(value, key, cores)
        if isinstance(value, tuple):
            items = [
                self._constant(f"{tag}_{key}{number}", item, cores) if isinstance(item, Layer) else str(item)
                for number, item in enumerate(value)
            ]
            return "{" + ", ".join(items) + "}"
        if key in _SHORT_FIELDS:
            _fits(int(value), 15, key)
        return float_text(value) if isinstance(value, float) else int_text(int(value))

    def _call(self, kernel: Kernel, cores: Iterable[Core]) -> str:
        """The function that makes this kernel call; one function per distinct text."""
        self.sources |= set(kernel.sources)
        key = (kernel.struct, kernel.call)
        if key not in self.functions:
            name = f"call_{kernel.call.function.removeprefix('cortado_')}"
            taken = sum(piece.name.startswith(name) for piece in self.functions.values())
            name += f"_{taken}" if taken else ""
            self.functions[key] = Piece(name, call_function(name, kernel))
            self.calls.append(name)
        self.functions[key].cores.update(cores)
        return self.functions[key].name

    # ---- the rest --------------------------------------------------------------------------------------------

    def _kernel_files(self) -> dict[str, str]:
        """The sources in use and every header they include."""
        files = {f"kernels/src/{name}": (KERNELS / "src" / name).read_text() for name in sorted(self.sources)}
        for header in sorted((KERNELS / "include").glob("*.h")):
            files[f"kernels/include/{header.name}"] = header.read_text()
        for header in sorted((KERNELS / "src").glob("*.h")):
            files[f"kernels/src/{header.name}"] = header.read_text()
        return files

    def _cmake(self) -> str:
        sources = "\n  ".join(
            [f"{self.name}.c", f"{self.name}_data.c", *(f"kernels/src/{s}" for s in sorted(self.sources))]
        )
        return f"""# add_subdirectory() this folder and link {self.name}::{self.name}.
cmake_minimum_required(VERSION 3.16)
project({self.name} LANGUAGES C ASM)

add_library({self.name} STATIC
  {sources}
)
add_library({self.name}::{self.name} ALIAS {self.name})
target_include_directories({self.name} PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}} PRIVATE kernels/include kernels/src)
target_compile_options({self.name} PRIVATE -std=c99 {" ".join(BUNDLE_FLAGS)})
"""


def _fits(value: int, bits: int, what: str) -> int:
    """A number of the tables, which have small fields to be small."""
    if not 0 <= value < 1 << bits:
        raise CortadoError(f"{what} needs {value}, and the C bundle's tables hold at most {(1 << bits) - 1}")
    return value


def _same(a: Kernel, b: Kernel) -> bool:
    return a is b or (
        (a.call, a.sources, a.struct) == (b.call, b.sources, b.struct) and _same_fields(a.fields, b.fields)
    )


def _same_fields(a: Mapping[str, Field], b: Mapping[str, Field]) -> bool:
    return all(_same_field(a[key], b[key]) for key in a)


def _same_field(a: Field, b: Field) -> bool:
    if isinstance(a, Array) and isinstance(b, Array):
        return a.data.dtype == b.data.dtype and np.array_equal(a.data, b.data)
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        pairs = list(zip(a, b, strict=True))
        return all(
            _same_fields(x.fields, y.fields) if isinstance(x, Layer) and isinstance(y, Layer) else x == y
            for x, y in pairs
        )
    return a == b


def _isa_guard(program: Program) -> str:
    """Refuses to compile for an instruction set that the plan and the packed weights don't cover."""
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
    advice = f"this bundle was planned for {target}; compile it for that core, or run cortado for this one"
    if program.target.cpu is CortexM.ANY:
        advice = "compile it for a Cortex-M core; `cortado run --on host` runs it on this machine"
    return f"""#if !({" && ".join(wanted)})
#error "{advice}"
#endif
"""
