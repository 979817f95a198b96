"""README.md of a bundle, for the firmware engineer."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cortado.base.names import plain
from cortado.base.target import BUNDLE_FLAGS, Compiler, CortexM, CortexMTargetConfig
from cortado.emit.c.arena import region_macro
from cortado.emit.c.example import Interface, example_text
from cortado.emit.c.header import coded_elements, order, scalar_suffix, tensor_name
from cortado.emit.c.rows import pushed_step
from cortado.emit.c.state import state_place
from cortado.emit.c.text import WIDTH, OfPlan
from cortado.plan.planned import Planned
from cortado.plan.program import Program, Stream, Tensor


def _core_flags(target: CortexMTargetConfig) -> str:
    if target.cpu is CortexM.ANY:
        return "such as `-mcpu=cortex-m4 -mthumb`"
    return f"`{' '.join(target.compiler_flags(Compiler.GCC))}`"


def stack_row(stack_bytes: int | None) -> str:
    return f"| stack of a call | {'not known: compiled without a compiler' if stack_bytes is None else stack_bytes} |"


def _paragraph(text: str) -> str:
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)


@dataclass(frozen=True)
class _Readme(OfPlan):
    interface: Interface
    constants: int  # in bytes
    sections: Mapping[str, int]  # bytes of constants in each named section
    methods: Sequence[tuple[Planned, Interface]] = ()  # further ones

    def text(self) -> str:
        return f"""# {plain(self.program.name)} for {self.program.target.target_string}

| memory | bytes |
|---|---|
| arena (RAM), inputs and outputs included | {self.planned.plan.peak} |
{self._regions()}| constants (flash) | {self.constants} |
{self._sections()}{stack_row(None)}

```c
{example_text(self.interface, [one for _, one in self.methods])}```

{self._building()}

{self._placing()}{self._running()}

## Inputs and outputs

{self._tensor_table()}

{self._further()}## How it runs

{self._tables()}

## License

{self._license()}
"""

    def _regions(self) -> str:
        return "".join(f"| of it, in {one.name} | {one.bytes} |\n" for one in self.planned.regions)

    def _sections(self) -> str:
        return "".join(f"| of them, in section .cortado.{name} | {size} |\n" for name, size in self.sections.items())

    def _placing(self) -> str:
        """Describes an arena in several memories, and constants in several sections."""
        texts = []
        if self.planned.regions:
            members = ", ".join(
                f"`{one.name}` (`{region_macro(self.planned, one)}` bytes)" for one in self.planned.regions
            )
            texts.append(
                f"The arena is split over several memories, the fastest first: {members}. A `{self.name}_arena_t` "
                f"holds a pointer to a piece of each. `{self.name}_default_arena` has static ones, in the sections "
                f"`.bss.cortado_NAME`, which a linker script places (`*(.bss.cortado_{self.planned.regions[0].name})` "
                "before `*(.bss*)`); define `CORTADO_ARENA_NAME` to replace that attribute. They need not be cleared."
            )
        if self.sections:
            texts.append(
                "The constants of some layers are in sections of their own, `.cortado.NAME`, which a linker script "
                "places; define `CORTADO_WEIGHTS_NAME` to replace that attribute. They must be readable when "
                f"`{self.name}_run` is called."
            )
        return "".join(f"{_paragraph(text)}\n\n" for text in texts)

    def _building(self) -> str:
        name, flags = self.name, _core_flags(self.program.target)
        cmake = f"With CMake: `add_subdirectory({name})`, then `target_link_libraries(firmware {name}::{name})`."
        return f"""{_paragraph(cmake)}
Without: compile every `.c` and `.S` file of this folder and of `kernels/src` with
`-I. -Ikernels/include {" ".join(BUNDLE_FLAGS)}`;
or put the files of `kernels/` beside those of this folder; then `-I.` is enough.
Both kinds of files need the core's flags, {flags};
with CMake the `.S` files get them from `CMAKE_ASM_FLAGS`."""

    def _decision(self) -> str:
        rule = self.program.decision
        if rule is None:
            return ""
        outputs = f"{rule.smooth} outputs" if rule.smooth > 1 else "output"
        return "\n\n" + _paragraph(
            f"`{self.name}_decision(arena)` returns the class that the scores decide for: the class with the highest "
            f"mean over the last {outputs}, if that is at least its threshold and the class is not held off after its "
            f"last decision; `{self.upper}_NO_DECISION` otherwise. Call it after every new output: a decision is "
            "returned once."
        )

    def _running(self) -> str:
        name = self.name
        if self.program.pushed is not None:
            return self._running_rows() + self._camera()
        return (
            self._state()
            + _paragraph(
                f"`{name}_run` allocates nothing, needs only memcpy, memset and memmove of the C library, and "
                "overwrites its inputs. It returns 0; or 1, without doing anything, if the arena is NULL or not "
                f"aligned to `{self.upper}_ARENA_ALIGN` bytes. `{name}_input` and `{name}_output` return NULL for a "
                "tensor that does not exist."
            )
            + self._decision()
            + "\n\n"
            + self._firmware()
            + self._camera()
        )

    def _camera(self) -> str:
        """Describes the camera whose lines become the input."""
        name, upper, camera = self.name, self.upper, self.program.camera
        if camera is None:
            return ""
        last = "the outputs are ready" if self.program.pushed is not None else f"the input is ready for `{name}_run`"
        text = _paragraph(
            f"A camera feeds the input: {camera}. Call `{name}_begin_picture(arena)` before each picture, then "
            f"`{name}_take_line(arena, line)` with each of its `{upper}_CAMERA_HEIGHT` lines of "
            f"`{upper}_CAMERA_LINE_BYTES` bytes. It returns 0, and 1 with the last line that is used: {last}. Both are "
            f"declared in `{name}_camera.h`, which documents their other return values."
        )
        return f"\n\n{text}"

    def _firmware(self) -> str:
        """Returns the section that every bundle has, explained in docs/firmware.md."""
        upper = self.upper
        return _paragraph(
            "A call uses only its arena, the stack and constants: the model may run in any number of threads and "
            "interrupt handlers at the same time, each with an arena of its own; an arena serves one of them at a "
            f"time. `{upper}_STACK_BYTES` is the most stack that a call takes, without interrupts, as compiled by "
            f"arm-none-eabi-gcc; `{upper}_VERSION_NUMBER` and `{upper}_TARGET` are the version of Cortado that wrote "
            f"it and the core it is for. `{self.name}_info` identifies the model on the device: its name, its id "
            f"(`{upper}_ID`: {self.program.identity}), its version, shapes and scales. Define `CORTADO_WEIGHTS` and "
            "`CORTADO_ARENA` as attributes to put the constants and the default arena into sections of your own."
        )

    def _running_stream(self, stream: Stream) -> str:
        name, upper, samples = self.name, self.upper, pushed_step(self.program).samples
        come = (
            f"The input is an endless stream of rows of `{upper}_ROW_BYTES` bytes: call `{name}_reset` once, then, for "
            f"each row, `{name}_row` returns where to write it and `{name}_push` takes it."
        )
        if samples:
            come = (
                f"The input is an endless stream of samples, a row of `{upper}_PUSH_SAMPLES` ({samples}) of them at a "
                f"time: call `{name}_reset` once, then `{name}_push` with each row: from the buffer that a DMA has "
                f"filled, or NULL if the samples were written to where `{name}_row` points."
            )
        return _paragraph(
            f"{come} It returns 1 when there is a new output: first after {stream.first} rows, then after every "
            f"{stream.hop}; 0 when there is none, -1 if the arena is NULL or not aligned to `{upper}_ARENA_ALIGN` "
            f"bytes, and -2 if it was never reset. An output is the output for {stream.which}, with the same bits as "
            "for it alone. Everything kept from row to row is in the arena: a second arena is a second stream. "
            "Nothing is allocated, and only memcpy, memset and memmove of the C library are needed."
        )

    def _running_rows(self) -> str:
        name, upper, step = self.name, self.upper, pushed_step(self.program)
        if self.program.stream is not None:
            return self._running_stream(self.program.stream) + self._decision()
        ring = self.program.buffers[step.output].rows
        return _paragraph(
            f"The input comes row by row, `{upper}_ROWS` ({step.rows}) times `{upper}_ROW_BYTES` ({step.row_bytes}) "
            f"bytes, and is never stored whole: the arena holds {ring} of its rows. `{name}_row` returns where to "
            f"write the next row, `{name}_push` takes it: it returns 0, or 1 after the last row, -1 if no row was "
            f"expected or the arena is NULL or not aligned to `{upper}_ARENA_ALIGN` bytes, and -2 without a reset. "
            f"`{name}_reset` starts the next input. The last `{name}_push` takes the longest: it runs the layers that "
            "need all rows. Nothing is allocated, and only memcpy, memset and memmove of the C library are needed."
        )

    def _state(self) -> str:
        if not self.program.state:
            return ""
        buffers = ", ".join(f"`{plain(one.name)}`" for one in self.program.state)
        text = _paragraph(
            f"This network has state ({buffers}) in the first `{self.upper}_STATE_BYTES` bytes of "
            f"{state_place(self.planned)}, which must persist from run to run. Call `{self.name}_reset(arena)` before "
            f"the first `{self.name}_run`, which returns 2 without it, and wherever a new sequence begins. "
            f"`{self.name}_save` writes the state as `{self.upper}_SAVED_BYTES` bytes, for flash; `{self.name}_load` "
            "restores it and refuses data that is incomplete or from another model."
        )
        return f"{text}\n\n"

    def _tables(self) -> str:
        work = "run" if self.program.pushed is None else "push"
        return _paragraph(
            f"`{self.name}.c` holds the network as constant tables: steps, each a kernel with its layer and its "
            "operands, in stages whose steps run interleaved, row by row. `kernels/src/cortado_run.c` is the loop "
            "that executes them, in the same order on every run; it handles rows and rings, and is the same for every "
            "network. With `-DCORTADO_ENABLE_RUNTIME_CHECKS`, every buffer has guard bytes around it, which are "
            "checked after every kernel call; the arena is then larger, and a failed check calls "
            "`cortado_check_failed`, whose weak default loops forever. With `-DCORTADO_TRACE`, every kernel call "
            "passes its output row to `cortado_traced`, which you define (`kernels/include/cortado_run.h`). With "
            f"`-DCORTADO_CHECK_RANGES`, values at the ends of their ranges are counted (`{self.name}_saturated`). With "
            f"`-DCORTADO_PROFILE`, `{self.name}_{work}` calls a function that you define before every kernel call "
            f"(`{self.name}.h`), to measure its steps with a cycle counter. Each costs nothing when it is off."
        )

    def _further(self) -> str:
        """Describes the inputs and outputs of further methods."""
        if not self.methods:
            return ""
        text = _paragraph(
            f"Further methods share the arena and the state of `{self.name}_run` and have the same return values; each "
            "has its macros and functions in its own header. A call of one overwrites the inputs and outputs of all."
        )
        tables = [f"`{interface.name}`:\n\n{_table(planned.program)}" for planned, interface in self.methods]
        return "## Methods\n\n" + "\n\n".join([text, *tables]) + "\n\n"

    def _license(self) -> str:
        return _paragraph(
            "The code, both the kernels and the files generated for this network, is under the Apache License 2.0 "
            f"([LICENSE](LICENSE)). The numbers in `{self.name}_data.c` belong to the model: Cortado claims no rights "
            "to them."
        )

    def _tensor_table(self) -> str:
        """Tabulates type, order and meaning of every input and output, as in the header's macros."""
        tensors, text = _tagged(self.program), _table(self.program)
        coded = [tag for tag, tensor in tensors if tensor.qparams is not None]
        if not coded:
            return text
        tag, given = f"{self.upper}_{coded[0]}", "input" if self.program.pushed is None else "row"
        elements = coded_elements(self.program)
        named = [f"`{self.name}_{verb}quantize{scalar_suffix(one)}`" for one in elements for verb in ("", "de")]
        kinds = " or ".join(one.name for one in elements)
        camera = f", for a camera's bytes `{self.name}_quantize_{given}_u8`," if elements[0].affine else ""
        meaning = _paragraph(
            f"An {kinds} value q stands for the real number `{tag}_SCALE * (q - {tag}_ZERO_POINT)`, and likewise for "
            f"the others. {' and '.join(named)} convert one number; `{self.name}_quantize_{given}`{camera} and "
            f"`{self.name}_dequantize_output` convert whole {'tensors' if given == 'input' else 'rows and tensors'} of "
            f"type {kinds}. They convert numbers only: values keep the order of dimensions that the table gives."
        )
        return f"{text}\n\n{meaning}"


def _tagged(program: Program) -> list[tuple[str, Tensor]]:
    """Returns inputs and outputs with the names that their macros use."""
    groups = (("INPUT", program.inputs), ("OUTPUT", program.outputs))
    return [(f"{kind}{i}", tensor) for kind, group in groups for i, tensor in enumerate(group)]


def _table(program: Program) -> str:
    rows = [f"| {tag} | {tensor_name(one)} | {one.dtype} | {order(one)} |" for tag, one in _tagged(program)]
    return "| | name | type | shape and order |\n|---|---|---|---|\n" + "\n".join(rows)


def readme_text(
    planned: Planned,
    interface: Interface,
    constants: int,
    sections: Mapping[str, int],
    methods: Sequence[tuple[Planned, Interface]] = (),
) -> str:
    """Returns a bundle's README.md: memory, an example that compiles, the order of the data."""
    return _Readme(planned, interface, constants, sections, methods).text()
