"""State that outlives power: saved, forgotten and loaded between any two steps, on this machine and on boards."""

import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import cortado
from cortado.api import Compiled
from cortado.base.target import BUNDLE_FLAGS, Core, from_target_string
from cortado.emit.c.bundle import emit_c
from cortado.emit.c.state import saved_bytes
from cortado.options import Artifacts, Options
from cortado.plan.lowered import LoweredGraph, after, run_reference
from cortado.plan.planned import Planned, state_layout
from cortado.plan.program import build_program
from cortado.plan.schedule import schedule
from cortado.run import toolchain
from cortado.run.runner import (
    HOST,
    RUNTIME_CHECKS,
    WARNINGS,
    bundle_includes,
    write_files,
)
from helpers.images import Imaged
from helpers.sanitizers import SANITIZERS
from helpers.saved import run_with_cuts, same

pytestmark = [pytest.mark.host, pytest.mark.xdist_group("saved state")]
STEPS = 12


# Every saved state that is to be refused; the exit code is the number of the first one that was not, or that changed
# the arena.
REFUSALS = """
#include <string.h>

{head}
#include "cortado_crc.h"

static uint8_t saved[SAVED_BYTES], other[SAVED_BYTES + 64], before[ARENA_BYTES];

static int refused(const void *in, size_t bytes, cortado_load_t why, int adopts)
{{
    memcpy(before, ARENA, ARENA_BYTES);
    const cortado_load_t found = adopts ? ADOPT(in, bytes) : LOAD(in, bytes);
    return found == why && memcmp(before, ARENA, ARENA_BYTES) == 0;
}}

static void change(size_t at, uint8_t bits, int repaired)
{{
    memcpy(other, saved, sizeof saved);
    other[at] ^= bits;
    const uint32_t crc = cortado_crc32(0, other + 12, SAVED_BYTES - 12);
    if (repaired) {{
        memcpy(other + 8, &crc, 4);
    }}
}}

int main(void)
{{
    START;
    memset(saved, 0xEE, sizeof saved);
    if (SAVE(saved) != SAVED_BYTES) {{ return 1; }}
    memset(ARENA, 0xA5, ARENA_BYTES); /* memory after a power cut: no state is there */
    if (!refused(NULL, SAVED_BYTES, CORTADO_LOAD_NOT_ONE, 0)) {{ return 2; }}
    for (size_t n = 0; n < SAVED_BYTES; n++) {{
        if (!refused(saved, n, n < 24 ? CORTADO_LOAD_NOT_ONE : CORTADO_LOAD_CUT_OFF, 1)) {{ return 3; }}
    }}
    for (size_t at = 0; at < SAVED_BYTES; at++) {{
        for (int bit = 0; bit < 8; bit++) {{
            change(at, (uint8_t)(1u << bit), 0);
            memcpy(before, ARENA, ARENA_BYTES);
            if (ADOPT(other, sizeof other) == CORTADO_LOAD_FINE) {{ return 4; }}
            if (memcmp(before, ARENA, ARENA_BYTES) != 0) {{ return 5; }}
        }}
    }}
    change(12, 1, 1);
    if (!refused(other, sizeof other, CORTADO_LOAD_MODEL, 0)) {{ return 6; }}
    if (ADOPT(other, sizeof other) != CORTADO_LOAD_FINE) {{ return 7; }}
    change(20, 1, 1);
    if (!refused(other, sizeof other, CORTADO_LOAD_LAYOUT, 0)) {{ return 8; }}
    if (!refused(other, sizeof other, CORTADO_LOAD_LAYOUT, 1)) {{ return 9; }}
    if (LOAD(saved, sizeof saved) != CORTADO_LOAD_FINE || SAVE(other) != SAVED_BYTES) {{ return 10; }}
    return memcmp(saved, other, sizeof saved) == 0 ? 0 : 11;
}}
"""
OF_BUNDLE = """#include "habits.h"

#define SAVED_BYTES HABITS_SAVED_BYTES
#define ARENA_BYTES HABITS_ARENA_BYTES
static habits_arena_t memory;
#define ARENA (&memory)
#define START habits_reset(ARENA); if (habits_run(ARENA) != 0) return 99
#define SAVE(out) habits_save(ARENA, out)
#define LOAD(in, bytes) habits_load(ARENA, in, bytes)
#define ADOPT(in, bytes) habits_adopt(ARENA, in, bytes)
"""
OF_IMAGE = """#include "cortado_image.h"

#define SAVED_BYTES {saved_bytes}
#define ARENA_BYTES {arena_bytes}
static const uint8_t image[] __attribute__((aligned(16))) = {{{image}}};
static uint8_t memory[ARENA_BYTES] __attribute__((aligned(16)));
static uint64_t ram[{ram_bytes} / 8 + 1];
static cortado_model_t model = {{.ram = ram, .ram_bytes = sizeof ram}};
#define ARENA memory
#define START \\
    if (cortado_image_open(image, sizeof image, &model) != CORTADO_IMAGE_FINE) return 98; \\
    cortado_image_reset(&model, ARENA); \\
    if (cortado_image_state_bytes(&model) != SAVED_BYTES || cortado_image_run(&model, ARENA) != 0) return 99
#define SAVE(out) cortado_image_save(&model, ARENA, out)
#define LOAD(in, bytes) cortado_image_load(&model, ARENA, in, bytes)
#define ADOPT(in, bytes) cortado_image_adopt(&model, ARENA, in, bytes)
"""


class Habits(nn.Module):
    """Counts the classes that it saw, and how often it ran: integers, a truth value, and a filter in int16."""

    counts: torch.Tensor
    runs: torch.Tensor
    mean: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 4)
        self.register_buffer("counts", torch.zeros(1, 4, dtype=torch.int32))
        self.register_buffer("runs", torch.full((1,), 7, dtype=torch.int64))
        self.register_buffer("mean", torch.zeros(1, 4))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        scores = self.layer(x)
        self.counts = self.counts + (x[:, :4] > 0.0).to(torch.int32)
        self.runs = self.runs + 1
        self.mean = 0.9 * self.mean + 0.1 * scores
        return self.mean * 2.0, self.counts, self.runs


def _habits(target: str, seed: int = 1, **more: object) -> Compiled:
    torch.manual_seed(seed)
    x = torch.randn(40, 6)
    options = Options(artifacts="c", image=True, **more)  # type: ignore[arg-type]
    return cortado.compile(Habits().eval(), (x[:1],), target, x, name="habits", options=options)


def _portable(graph: LoweredGraph, name: str) -> Planned:
    return schedule(build_program(name, graph, from_target_string("cortex-m4"), cores=(Core.PORTABLE,)))


def _steps(
    planned: Planned, graph: LoweredGraph, seed: int = 5
) -> tuple[list[list[np.ndarray]], list[list[np.ndarray]]]:
    """Codes of inputs, and what an uninterrupted run of the reference makes of them."""
    rng = np.random.default_rng(seed)
    samples, expected, state = [], [], None
    for _ in range(STEPS):
        x = torch.from_numpy(rng.standard_normal(graph.values[graph.inputs[0]].shape).astype(np.float32))
        values = run_reference(graph, [x], state)
        state = after(graph, values)
        program = planned.program
        samples.append([values[one.node].numpy() for one in program.inputs])
        expected.append([values[one.node].numpy() for one in program.outputs])
    return samples, expected


@pytest.mark.parametrize("flags", [(), (RUNTIME_CHECKS,)], ids=["release", "checks"])
def test_steps_with_a_power_cut_before_each_give_what_they_give_without(flags: tuple[str, ...], tmp_path: Path) -> None:
    graph = _habits("cortex-m4").graph
    assert graph is not None
    planned = _portable(graph, "habits")
    samples, expected = _steps(planned, graph)
    assert not np.array_equal(expected[0][1], expected[-1][1])  # state matters
    assert same(run_with_cuts(tmp_path, planned, samples, HOST, *flags), expected)


@pytest.mark.qemu
@pytest.mark.cases(1)
@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m0plus", "cortex-m55"])
def test_boards_go_on_with_the_saved_state_bit_for_bit(target: str, tmp_path: Path) -> None:
    compiled = _habits(target)
    assert compiled.planned is not None
    assert compiled.graph is not None
    samples, expected = _steps(compiled.planned, compiled.graph)
    assert same(run_with_cuts(tmp_path, compiled.planned, samples, None), expected)


def _exit_code(folder: Path, text: str) -> int:
    (folder / "main.c").write_text(text)
    sources = sorted([*folder.glob("*.c"), *folder.glob("loader/*.c"), *folder.glob("kernels/src/*.c")])
    flags = [*WARNINGS, *BUNDLE_FLAGS, *SANITIZERS]
    return subprocess.run(
        [toolchain.build_executable(sources, bundle_includes(folder), flags, "main")], check=False
    ).returncode


def test_bundle_refuses_every_part_and_every_change_of_a_saved_state(tmp_path: Path) -> None:
    graph = _habits("cortex-m4").graph
    assert graph is not None
    write_files(tmp_path, emit_c(_portable(graph, "habits")).files)
    assert _exit_code(tmp_path, REFUSALS.format(head=OF_BUNDLE)) == 0


def test_image_refuses_every_part_and_every_change_of_a_saved_state(tmp_path: Path) -> None:
    graph = _habits("cortex-m4").graph
    assert graph is not None
    net = Imaged(_portable(graph, "habits"))
    write_files(tmp_path, net.files)
    head = OF_IMAGE.format(
        saved_bytes=saved_bytes(net.planned),
        arena_bytes=net.head.arena_bytes,
        ram_bytes=net.image.ram_bytes,
        image=",".join(map(str, net.image.data)),
    )
    assert _exit_code(tmp_path, REFUSALS.format(head=head)) == 0


def test_layout_follows_names_types_shapes_and_scales_and_nothing_else() -> None:
    class Kept(nn.Module):
        """Counts beside a layer whose weights are another's."""

        def __init__(self, seed: int, *, name: str = "counts", size: int = 4) -> None:
            super().__init__()
            torch.manual_seed(seed)
            self.layer, self.kept = nn.Linear(6, size), name
            self.register_buffer(name, torch.zeros(1, size, dtype=torch.int32))

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            counts: torch.Tensor = getattr(self, self.kept) + 1
            setattr(self, self.kept, counts)
            return self.layer(x), counts

    def layout(model: nn.Module, target: str = "cortex-m4") -> tuple[str, int]:
        torch.manual_seed(0)
        x = torch.randn(32, 6)
        planned = cortado.compile(model.eval(), (x[:1],), target, x, options=Options(artifacts=Artifacts.C)).planned
        assert planned is not None
        return planned.program.identity, state_layout(planned.program)

    identity, known = layout(Kept(1))
    retrained, same = layout(Kept(2))
    assert (identity != retrained, same) == (True, known)
    assert layout(Kept(1), "cortex-m55") == (identity, known)
    assert layout(Kept(1, name="others"))[1] != known
    assert layout(Kept(1, size=5))[1] != known
    first, second = (_habits("cortex-m4", seed=seed).planned for seed in (1, 2))
    assert first is not None
    assert second is not None
    assert state_layout(first.program) != state_layout(second.program)  # the filter has another scale


def test_a_model_without_state_has_nothing_to_save() -> None:
    x = torch.randn(32, 6)
    bundle = cortado.compile(
        nn.Linear(6, 4).eval(), (x[:1],), "cortex-m4", x, options=Options(artifacts=Artifacts.C)
    ).bundle
    assert bundle is not None
    assert not any("cortado_saved" in name or "_save(" in text for name, text in bundle.files.items())
