"""Several methods as one image, called in order: on this machine and on boards."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from cortado.base.target import BUNDLE_FLAGS, Machine
from cortado.emit.image.files import loader_files
from cortado.emit.image.writer import ModelImage, emit_image_of
from cortado.methods import CompiledMethods, ScriptCall
from cortado.plan.planned import Planned
from cortado.run.board import build_firmware, build_host, find_board
from cortado.run.bundle_info import IO, BundleInfo
from cortado.run.runner import WARNINGS, board_flags, run_bundle, write_files


def _source(names: list[str], arena: int, ram: int, room: int, back: int) -> str:
    """A sample is the number of a method and its inputs; the answer its outputs."""
    listed = ", ".join(f'"{name}"' for name in names)
    return f"""#include "cortado_image.h"
#include "harness.h"
#include "port.h"

extern const uint8_t model_image[];
extern const uint32_t model_image_bytes;
static uint8_t arena[{arena}] __attribute__((aligned(CORTADO_IMAGE_ALIGN)));
static uint64_t ram[{len(names)}][{-(-ram // 8)}];
static uint8_t call[{room + 1}], answer[{back}];
static const size_t input_bytes[] = {{sizeof call}};
static const size_t output_bytes[] = {{sizeof answer}};
static const char *const names[] = {{{listed}}};

static cortado_model_t *method(int number)
{{
    static cortado_model_t models[{len(names)}];
    if (models[0].image == NULL) {{
        for (int i = 0; i < {len(names)}; i++) {{
            models[i].ram = ram[i];
            models[i].ram_bytes = sizeof ram[i];
            const void *image = i == 0 ? model_image : (const void *)cortado_image_method(&models[0], names[i]);
            const size_t bytes = i == 0 ? model_image_bytes : ((const cortado_image_t *)image)->bytes;
            if (image == NULL || cortado_image_open(image, bytes, &models[i]) != CORTADO_IMAGE_FINE) {{
                cortado_port_exit(1);
            }}
        }}
    }}
    return &models[number];
}}

static void *input(void *a, int i) {{ (void)a, (void)i; return call; }}
static const void *output(const void *a, int i) {{ (void)a, (void)i; return answer; }}
static void reset(void *a) {{ cortado_image_reset(method(0), a); }}

static int run(void *a)
{{
    const cortado_model_t *chosen = method(call[0]);
    const uint8_t *from = call + 1;
    uint8_t *to = answer;
    memset(answer, 0, sizeof answer);
    for (int i = 0; i < chosen->image->inputs; i++) {{
        const uint32_t bytes = cortado_image_input_tensor(chosen, i)->bytes;
        memcpy(cortado_image_input(chosen, a, i), from, bytes);
        from += bytes;
    }}
    const int error = cortado_image_run(chosen, a);
    for (int i = 0; i < chosen->image->outputs; i++) {{
        const uint32_t bytes = cortado_image_output_tensor(chosen, i)->bytes;
        memcpy(to, cortado_image_output(chosen, a, i), bytes);
        to += bytes;
    }}
    return error;
}}

const cortado_harness_model_t cortado_harness_model = {{
    "taught", arena, 1, 1, input_bytes, output_bytes, input, output, run, reset, NULL, NULL, 0,
}};
"""


def check_calls(
    compiled: CompiledMethods, planned: Mapping[str, Planned], calls: Sequence[ScriptCall], on: str | None
) -> None:
    """An image of the methods gives the reference's bits."""
    image, names = emit_image_of(planned), list(planned)
    given, expected = compiled.reference(calls)
    room, back = (
        max(sum(tensor.bytes for tensor in getattr(one.program, group)) for one in planned.values())
        for group in ("inputs", "outputs")
    )
    samples = [
        [np.frombuffer(_bytes(names.index(name), inputs).ljust(room + 1, b"\0"), dtype=np.uint8)]
        for (name, *_), inputs in zip(calls, given, strict=True)
    ]
    ports = (IO("call", (room + 1,), "uint8"),), (IO("answer", (back,), "uint8"),)
    info = BundleInfo(compiled.name, compiled.target, *ports, state=True)
    arena = planned[names[0]].plan.peak
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        source = _source(names, arena, image.ram_bytes, room, back)
        write_files(folder, {**files_of(image), "model_image.c": _array(image.data), "harness_model.c": source})

        def build(board: Machine | None) -> Path:
            kinds = "c" if board is None else "[cS]"
            sources = [*folder.glob("*.c"), *folder.glob("loader/*.c"), *folder.glob(f"kernels/src/*.{kinds}")]
            includes = [folder / "kernels" / "include", folder / "kernels" / "src"]
            if board is None:
                return build_host(sorted(sources), includes, [*WARNINGS, *BUNDLE_FLAGS], "taught")
            flags = [*board_flags(compiled.target, board), *WARNINGS, *BUNDLE_FLAGS]
            return build_firmware(find_board(board), sorted(sources), includes, flags, "taught")

        result = run_bundle(folder, info, samples, on, built=build)
    for outputs, found in zip(expected, result.samples, strict=True):
        assert found[0].tobytes() == _bytes(None, outputs).ljust(back, b"\0")


def _bytes(number: int | None, values: list[np.ndarray]) -> bytes:
    return bytes([] if number is None else [number]) + b"".join(one.tobytes() for one in values)


def files_of(image: ModelImage) -> dict[str, str]:
    return loader_files(image.thunks, image.sources)


def _array(image: bytes) -> str:
    return f"""#include <stdint.h>
extern const uint8_t model_image[];
extern const uint32_t model_image_bytes;
const uint32_t model_image_bytes = {len(image)};
const uint8_t model_image[] __attribute__((aligned(16))) = {{{",".join(map(str, image))}}};
"""
