"""The glue between a bundle and what feeds it; with a camera in front, lines of the sensor take the place of rows."""

LINE_MEMBERS = "NULL, output, NULL, begin, next_line, take"


def arena_symbol(region: str) -> str:
    """The harness's array for a piece of the arena."""
    return f"arena_{region}"


def untyped(result: str, function: str) -> str:
    """The function as one of void *: a call of its own around it would take stack that is measured."""
    return f"({result}(*)(void *))(void (*)(void)){function}"


def line_source(name: str, line_bytes: int, *, rows: bool) -> str:
    """A line as the harness's row, and MODEL_take_line as its push; behind the last line, a network that takes its
    input whole runs."""
    run = "" if rows else f"    return seen == 1 ? ({name}_run(a) == 0 ? 1 : -1) : seen;\n"
    return f"""#include "{name}_camera.h"

static uint8_t line[{line_bytes}];
static void begin(void *a) {{ (void){name}_begin_picture(a); }}
static int8_t *next_line(void *a) {{ (void)a; return (int8_t *)line; }}
static int take(void *a)
{{
    const int seen = {name}_take_line(a, line);
{run or "    return seen;" + chr(10)}}}
"""
