"""Saved state, and power cuts between steps."""

from pathlib import Path

import numpy as np

from cortado.base.target import BUNDLE_FLAGS, Machine
from cortado.emit.c.bundle import emit_c
from cortado.emit.c.state import SAVED_HEAD_BYTES
from cortado.plan.planned import Planned
from cortado.run.board import build_firmware, build_host, find_board
from cortado.run.bundle_info import untyped
from cortado.run.harness import harness_source
from cortado.run.runner import WARNINGS, board_flags, bundle_includes, bundle_sources, run_bundle, write_files
from helpers.images import Imaged
from helpers.sanitizers import SANITIZERS

# Between two steps power is cut: all but the saved bytes and the inputs of the next step is lost.
POWER_CUT = """
#include <string.h>

static int run_after_a_cut(void *a)
{{
    static uint8_t bytes[{upper}_SAVED_BYTES + 1], inputs[{input_bytes}];
    size_t at = 0;
    for (int i = 0; i < {count}; i++) {{
        memcpy(inputs + at, {name}_input(a, i), input_bytes[i]);
        at += input_bytes[i];
    }}
    if ({name}_save(a, bytes + 1) != {name}_state_bytes()) {{
        return 10;
    }}
    memset(a, 0xA5, {upper}_ARENA_BYTES);
    if ({name}_run(a) != 2 || {name}_save(a, inputs) != 0) {{ /* no state yet */
        return 11;
    }}
    memset(a, 0xA5, {upper}_ARENA_BYTES);
    if ({name}_load(a, bytes + 1, sizeof bytes - 1) != CORTADO_LOAD_FINE) {{
        return 12;
    }}
    for (int i = {count} - 1; i >= 0; i--) {{
        at -= input_bytes[i];
        memcpy({name}_input(a, i), inputs + at, input_bytes[i]);
    }}
    return {name}_run(a);
}}
"""


def run_with_cuts(
    folder: Path, planned: Planned, samples: list[list[np.ndarray]], on: str | None, *flags: str
) -> list[list[np.ndarray]]:
    info = Imaged(planned).info
    name = info.name
    write_files(folder, emit_c(planned).files)
    size = sum(tensor.bytes for tensor in info.inputs)
    cut = POWER_CUT.format(
        name=name, upper=name.upper(), count=len(info.inputs), input_bytes=max(size, SAVED_HEAD_BYTES)
    )
    text = harness_source(info)
    assert untyped("int ", f"{name}_run") in text
    text = text.replace(untyped("int ", f"{name}_run"), "run_after_a_cut")
    (folder / "harness_model.c").write_text(
        text.replace("\nconst cortado_harness_model_t", f"{cut}\nconst cortado_harness_model_t")
    )

    def build(board: Machine | None) -> Path:
        sources = bundle_sources(folder, "c" if board is None else "cS")
        if board is None:
            return build_host(sources, bundle_includes(folder), [*WARNINGS, *BUNDLE_FLAGS, *SANITIZERS, *flags], name)
        wanted = [*board_flags(info.target, board), *WARNINGS, *BUNDLE_FLAGS, *flags]
        return build_firmware(find_board(board), sources, bundle_includes(folder), wanted, name)

    return run_bundle(folder, info, samples, on, built=build).samples


def same(found: list[list[np.ndarray]], expected: list[list[np.ndarray]]) -> bool:
    pairs = [(a, b) for x, y in zip(found, expected, strict=True) for a, b in zip(x, y, strict=True)]
    return all(np.array_equal(a.reshape(b.shape), b) for a, b in pairs)
