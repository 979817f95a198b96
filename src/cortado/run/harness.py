"""A model's samples run through the harness, on a board or on this machine.

The harness is C that connects a bundle to the files it is fed; a classifier's decision becomes an additional output.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cortado.base.errors import CortadoError
from cortado.base.names import c_identifier
from cortado.emit.c.text import entry_of
from cortado.run import sandbox
from cortado.run.board import Board
from cortado.run.bundle_info import IO, LINE_MEMBERS, BundleInfo, arena_symbol, line_source, untyped
from cortado.run.elf import load_image
from cortado.run.qemu import BoardResult, read_records, run_elf
from cortado.run.sandbox import Limit, Limits, TooMuch
from cortado.run.watch import Watch

if TYPE_CHECKING:
    from cortado.plan.program import Program

# ---- harness ---------------------------------------------------------------------------------------------

HOST_TIMEOUT = 600.0
HOST_FILE_BYTES = 4 << 30  # of a program's output: a trace of all layers for many samples


def _samples(inputs: bytes, count: int, sequence: int) -> bytes:
    """Encodes the harness's input: the arguments, then the samples."""
    return count.to_bytes(4, "little") + sequence.to_bytes(4, "little") + inputs


def run_harness(
    elf: Path,
    board: Board,
    inputs: bytes,
    count: int,
    *,
    sequence: int = 0,
    timeout: float | None = None,
    instructions: int | None = None,
    plugin: Watch | None = None,
    arguments: Sequence[str] = (),
) -> BoardResult:
    """Runs the model in an ELF file of `build_firmware` on `count` samples, in one boot of the board.

    A model with state is reset before the first sample and, if `sequence` is not 0, after every `sequence` samples.
    """
    given = _samples(inputs, count, sequence)
    return run_elf(elf, board, given, timeout, plugin, instructions=instructions, arguments=arguments)


def samples_per_boot(elf: Path, board: Board, input_bytes: int, output_bytes: int) -> int:
    """Returns how many samples of these sizes fit in one boot of `run_harness`."""
    said = output_bytes + output_bytes // 32 + 64  # including the headers of their records
    room = board.input_room(load_image(elf)) - 1024  # reserves the count before them and the last records after them
    return max(room, 0) // (input_bytes + said)


def run_host(
    program: Path,
    inputs: bytes,
    count: int,
    *,
    sequence: int = 0,
    timeout: float = HOST_TIMEOUT,
    by: Sequence[Path] = (),
) -> BoardResult:
    """Runs the model in a program of `build_host` on `count` samples on this machine; `by` is an interpreter for it, if
    any."""
    start = time.monotonic()
    given = _samples(inputs, count, sequence)
    try:
        done = sandbox.run(
            [*by, program.resolve()],
            Limits(seconds=timeout, file_bytes=HOST_FILE_BYTES),
            doing=program.name,
            given=given,
        )
    except TooMuch as error:
        if error.limit is not Limit.SECONDS:
            raise
        raise CortadoError(f"{program.name} did not finish within {timeout:g} s on this machine") from None
    if done.code != 0:
        output = read_records(done.stdout, whole=False).text + done.errors
        raise CortadoError(f"{program.name} ended with exit code {done.code} on this machine:\n{output}")
    said = read_records(done.stdout, whole=True)
    return BoardResult(said, time.monotonic() - start)


# ---- decided ---------------------------------------------------------------------------------------------

DECISION_OUTPUT = "decision"


def output_source(name: str) -> str:
    """Returns the harness's C function that returns an output; a bundle with a decision has an additional one."""
    return f"""#ifdef {name.upper()}_NO_DECISION
static const void *output(const void *a, int i)
{{
    static int32_t decision;
    if (i < {name.upper()}_OUTPUTS) {{
        return {name}_output(a, i);
    }}
    decision = {name}_decision((void *)a);
    return &decision;
}}
#else
static const void *output(const void *a, int i) {{ return {name}_output(a, i); }}
#endif
"""


# ---- harness source --------------------------------------------------------------------------------------


def push_source(name: str) -> str:
    """Defines PUSH, which takes the row at MODEL_row; on this machine the samples of a signal are passed from
    elsewhere."""
    upper = name.upper()
    return f"""#ifdef {upper}_PUSH_SAMPLES
static int push(void *a)
{{
#if defined(__arm__)
    return {name}_push(a, NULL);
#else
    {upper}_INPUT0_TYPE samples[{upper}_PUSH_SAMPLES];
    memcpy(samples, {name}_row(a), sizeof samples);
    memset({name}_row(a), 0x5A, sizeof samples);
    return {name}_push(a, samples);
#endif
}}
#define PUSH push
#else
#define PUSH {untyped("int ", f"{name}_push")}
#endif
"""


def harness_source(info: BundleInfo) -> str:
    """Returns the glue between a bundle and the harness."""
    name = info.name
    arena = "&regions" if info.regions else "&arena"

    reset = untyped("void ", f"{name}_reset")

    def sizes(group: Sequence[IO]) -> str:
        return ", ".join(str(tensor.bytes) for tensor in group)

    if info.line_bytes:
        accessor = line_source(name, info.line_bytes, rows=info.row_bytes > 0)
        run = f"{LINE_MEMBERS}, {info.line_bytes}"
    elif info.row_bytes:
        accessor = push_source(name)
        run = f"NULL, output, NULL, {reset}, {untyped('int8_t *', f'{name}_row')}, PUSH, {info.row_bytes}"
    else:
        accessor = f"static void *input(void *a, int i) {{ return {name}_input(a, i); }}\n"
        run = f"input, output, {untyped('int ', f'{name}_run')}, {reset if info.state else 'NULL'}, NULL, NULL, 0"
    return f"""#include "harness.h"
#include "{name}.h"

{_harness_arena(info)}static const size_t input_bytes[] = {{{sizes(info.inputs)}}};
static const size_t output_bytes[] = {{{sizes(info.outputs)}}};
{accessor}{output_source(name)}
const cortado_harness_model_t cortado_harness_model = {{
    "{name}", {arena}, {len(info.inputs)}, {len(info.outputs)}, input_bytes, output_bytes,
    {run},
}};

#ifdef CORTADO_ENABLE_RUNTIME_CHECKS
#include "cortado_run.h"
#include "port.h"

void cortado_check_failed(const char *step, const char *what, const char *buffer)
{{
    const char *const words[] = {{"check failed: ", step, " ", what, " ", buffer, "\\n"}};
    for (unsigned i = 0; i < sizeof words / sizeof words[0]; i++) {{
        cortado_port_print(words[i]);
    }}
    cortado_port_exit(1);
}}
#endif

#ifdef CORTADO_TRACE
#include "cortado_run.h"
#include "port.h"

void cortado_traced(const void *row, uint32_t bytes)
{{
    cortado_port_send(CORTADO_RECORD_TRACE, row, bytes);
}}
#endif
"""


def _harness_arena(info: BundleInfo) -> str:
    """Declares the arena: in one piece, or the first region in the usual RAM and the others in the large one, as boards
    have two memories."""
    upper = info.name.upper()
    if not info.regions:
        return f"static {info.name}_arena_t arena;\n"
    pieces = [
        f"static uint8_t {arena_symbol(name)}[{upper}_ARENA_{name.upper()}_BYTES]\n"
        f"    __attribute__((aligned({upper}_ARENA_ALIGN))){' BIG' if number else ''};\n"
        for number, name in enumerate(info.regions)
    ]
    members = ", ".join(f"(void *){arena_symbol(name)}" for name in info.regions)
    return f"""#ifdef __arm__
#define BIG __attribute__((section(".bigram")))
#else
#define BIG
#endif
{"".join(pieces)}static {info.name}_arena_t regions = {{{members}}};
"""


# ---- methods -----------------------------------------------------------------------------------------------


def script_source(info: BundleInfo, programs: Sequence["Program"], room: int, back: int) -> str:
    """Returns the glue for a model with several methods.

    A sample is the number of a method followed by its inputs, `room` bytes; the answer is its outputs, `back` bytes.
    """
    name = info.name
    cases = "\n".join(_method_case(number, program) for number, program in enumerate(programs))
    reset = untyped("void ", f"{name}_reset") if any(program.state for program in programs) else "NULL"
    return f"""#include "harness.h"
#include "{name}.h"

static {name}_arena_t arena;
static uint8_t call[{room + 1}], answer[{max(back, 1)}];
static const size_t input_bytes[] = {{sizeof call}};
static const size_t output_bytes[] = {{sizeof answer}};
static void *input(void *a, int i) {{ (void)a, (void)i; return call; }}
static const void *output(const void *a, int i) {{ (void)a, (void)i; return answer; }}

static int run(void *a)
{{
    const uint8_t *from = call + 1;
    uint8_t *to = answer;
    int error = 9;
    memset(answer, 0, sizeof answer);
    switch (call[0]) {{
{cases}
    default: break;
    }}
    (void)from, (void)to;
    return error;
}}

const cortado_harness_model_t cortado_harness_model = {{
    "{name}", &arena, 1, 1, input_bytes, output_bytes,
    input, output, run, {reset}, NULL, NULL, 0,
}};
"""


def _method_case(number: int, program: "Program") -> str:
    name = c_identifier(program.name)
    inputs = [
        f"        memcpy({name}_input(a, {i}), from, {tensor.bytes}u);\n        from += {tensor.bytes}u;\n"
        for i, tensor in enumerate(program.inputs)
    ]
    outputs = [
        f"        memcpy(to, {name}_output(a, {i}), {tensor.bytes}u);\n        to += {tensor.bytes}u;\n"
        for i, tensor in enumerate(program.outputs)
    ]
    return f"""    case {number}:
{"".join(inputs)}        error = {entry_of(program)}(a);
{"".join(outputs)}        break;"""
