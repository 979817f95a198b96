"""An image in the harness: the same samples on the same boards as for a bundle."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from cortado.base.arrays import ArrayType
from cortado.base.target import BUNDLE_FLAGS, Machine
from cortado.run.board import build_firmware, build_host, find_board
from cortado.run.bundle_info import IO, BundleInfo
from cortado.run.runner import WARNINGS, RunResult, board_flags, run_bundle, write_files


def glue_source(info: BundleInfo, arena_bytes: int, ram_bytes: int) -> str:
    """Returns the glue that opens and runs the image as the harness's model."""

    def sizes(group: Sequence[IO]) -> str:
        return ", ".join(str(tensor.bytes) for tensor in group)

    calls = "NULL, output, NULL, reset, row, push" if info.row_bytes else "input, output, run, RESET, NULL, NULL"
    return f"""#include "cortado_image.h"
#include "harness.h"
#include "port.h"

extern const uint8_t model_image[];
extern const uint32_t model_image_bytes;
static uint8_t arena[{arena_bytes}] __attribute__((aligned(CORTADO_IMAGE_ALIGN)));
static uint64_t ram[{-(-ram_bytes // 8)}];
static cortado_model_t model;
static const size_t input_bytes[] = {{{sizes(info.inputs)}}};
static const size_t output_bytes[] = {{{sizes(info.outputs)}}};

static cortado_model_t *opened(void)
{{
    if (model.image == NULL) {{
        model.ram = ram;
        model.ram_bytes = sizeof ram;
        const int error = (int)cortado_image_open(model_image, model_image_bytes, &model);
        if (error != 0) {{
            const char text[] = {{'i', 'm', 'a', 'g', 'e', ' ', (char)('0' + error), '\\n', 0}};
            cortado_port_print(text);
            cortado_port_print(model.missing == NULL ? "" : model.missing);
            cortado_port_exit(1);
        }}
    }}
    return &model;
}}

#define MAYBE __attribute__((unused)) static
MAYBE void *input(void *a, int i) {{ return cortado_image_input(opened(), a, i); }}
static const void *output(const void *a, int i) {{ return cortado_image_output(opened(), a, i); }}
MAYBE int run(void *a) {{ return cortado_image_run(opened(), a); }}
MAYBE void reset(void *a) {{ cortado_image_reset(opened(), a); }}
MAYBE int8_t *row(void *a) {{ return cortado_image_row(opened(), a); }}
MAYBE int push(void *a) {{ return cortado_image_push(opened(), a); }}

#define RESET {"reset" if info.state else "NULL"}
const cortado_harness_model_t cortado_harness_model = {{
    "{info.name}", arena, {len(info.inputs)}, {len(info.outputs)}, input_bytes, output_bytes,
    {calls}, {info.row_bytes},
}};
"""


def _array_source(image: bytes) -> str:
    return f"""#include <stdint.h>

extern const uint8_t model_image[];
extern const uint32_t model_image_bytes;
const uint32_t model_image_bytes = {len(image)};
const uint8_t model_image[] __attribute__((aligned(16), section(".cortado.weights"))) = {{
{",".join(map(str, image))}
}};
"""


def run_image(
    files: Mapping[str, str],
    image: bytes,
    info: BundleInfo,
    ram: tuple[int, int],
    samples: Sequence[Sequence[ArrayType]],
    on: str | None = None,
    *,
    sequence: int | None = None,
) -> RunResult:
    """Runs an image and the files that open it, as `run_bundle` runs a bundle; `ram` has the bytes of the arena and of
    the tables."""
    with tempfile.TemporaryDirectory(prefix="cortado-") as temporary:
        folder = Path(temporary)
        write_files(
            folder, {**files, "model_image.c": _array_source(image), "harness_model.c": glue_source(info, *ram)}
        )

        def build(board: Machine | None) -> Path:
            kernels = "kernels/src/*.c" if board is None else "kernels/src/*.[cS]"
            sources = sorted([*folder.glob("*.c"), *folder.glob("loader/*.c"), *folder.glob(kernels)])
            includes = [folder / "kernels" / "include", folder / "kernels" / "src"]
            if board is None:
                return build_host(sources, includes, [*WARNINGS, *BUNDLE_FLAGS], info.name)
            flags = [*board_flags(info.target, board), *WARNINGS, *BUNDLE_FLAGS]
            return build_firmware(find_board(board), sources, includes, flags, info.name)

        return run_bundle(folder, info, samples, on, sequence=sequence, built=build)
