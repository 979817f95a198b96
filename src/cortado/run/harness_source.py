"""The C between a bundle and the harness that feeds it files."""

from collections.abc import Sequence

from cortado.run.bundle_info import IO, BundleInfo
from cortado.run.decided import output_source
from cortado.run.glue import LINE_MEMBERS, arena_symbol, line_source, untyped


def push_source(name: str) -> str:
    """PUSH, which takes the row at MODEL_row; on this machine samples come from elsewhere, not from there."""
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
    """The glue between a bundle and the harness that feeds it files."""
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
    """In one piece, or the first region in the usual RAM and the others in the large one: boards have two memories."""
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
