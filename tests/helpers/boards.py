"""A model of a few statements as firmware for every emulated board."""

from pathlib import Path
from typing import Any

from cortado.base.target import Machine
from cortado.run.board import Board, build_firmware, find_board

STRICT = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-ffunction-sections", "-fdata-sections"]
M0 = ["-mcpu=cortex-m0", "-mthumb"]
M3 = ["-mcpu=cortex-m3", "-mthumb"]
M4 = ["-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"]
M33 = ["-mcpu=cortex-m33", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv5-sp-d16"]
M55 = ["-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard"]
CORES = {
    "microbit-m0": (Machine.MICROBIT, M0),
    "an385-m0plus": (Machine.MPS2_AN385, ["-mcpu=cortex-m0plus", "-mthumb"]),
    "an385-m3": (Machine.MPS2_AN385, M3),
    "an386-m4": (Machine.MPS2_AN386, M4),
    "an500-m7": (Machine.MPS2_AN500, ["-mcpu=cortex-m7", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv5-d16"]),
    "an505-m23": (Machine.MPS2_AN505, ["-mcpu=cortex-m23", "-mthumb"]),
    "an505-m33": (Machine.MPS2_AN505, M33),
    "an547-m55": (Machine.MPS3_AN547, M55),
    "an547-m85": (Machine.MPS3_AN547, ["-march=armv8.1-m.main+mve.fp+fp.dp", "-mthumb", "-mfloat-abi=hard"]),
}
# One core per machine.
ONE_EACH = ["microbit-m0", "an385-m3", "an386-m4", "an500-m7", "an505-m33", "an547-m55"]
# A model of 16 bytes in, 16 bytes out at arena + 32. Tests put their own statements into run().
MODEL = """
#include "harness.h"
#include "markers.h"
#include <stdint.h>
#include <string.h>
%(top)s
int8_t model_arena[64] __attribute__((aligned(16)));
static const size_t sizes[1] = {16};
static void *input(void *arena, int i) { (void)i; return arena; }
static const void *output(const void *arena, int i) { (void)i; return (const int8_t *)arena + 32; }
static int run(void *arena) {
    int8_t *in = arena;
    int8_t *out = in + 32;
    %(body)s
}
const cortado_harness_model_t cortado_harness_model = {
    "adder", model_arena, 1, 1, sizes, sizes, input, output, run, NULL, NULL, NULL, 0,
};
"""
ADD_ONE = "for (int i = 0; i < 16; ++i) { out[i] = (int8_t)(in[i] + 1); } return 0;"
INPUTS = bytes(range(0, 96, 2))  # three samples
EXPECTED = bytes(value + 1 for value in INPUTS)


def write(folder: Path, text: str, name: str = "model.c") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def model(folder: Path, body: str = ADD_ONE, top: str = "") -> Path:
    return write(folder, MODEL % {"body": body, "top": top})


def firmware(
    folder: Path, core: str = "an386-m4", body: str = ADD_ONE, top: str = "", **options: Any
) -> tuple[Board, Path]:
    """The board and a firmware image of the model for it."""
    machine, flags = CORES[core]
    board = find_board(machine)
    return board, build_firmware(board, [model(folder, body, top)], [], [*flags, *STRICT], "adder", **options)


HIDE = """
static uintptr_t hide(uintptr_t value) { __asm__ volatile("" : "+r"(value)); return value; }
"""
STORE_AT = "(void)in; (void)out; *(volatile uint32_t *)hide((uintptr_t)%s) = 1; return 0;"
