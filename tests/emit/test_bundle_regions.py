"""A bundle over several memories as firmware sees it: its structure, its macros, its sections, wrong pointers."""

import re
import subprocess
from pathlib import Path

import pytest
import torch

from cortado.api import Model
from cortado.base.errors import CortadoError
from cortado.base.regions import places_of, regions_of
from cortado.base.target import BUNDLE_FLAGS, Core, from_target_string
from cortado.emit.c.bundle import Bundle, emit_c
from cortado.emit.c.selftest import selftest_files
from cortado.memory.spread import Room
from cortado.options import Options
from cortado.plan.lowered import LoweredGraph, run_reference
from cortado.plan.over_regions import TooSmall, heat, over_regions
from cortado.plan.planned import Planned
from cortado.plan.program import build_program
from cortado.plan.schedule import schedule
from cortado.plan.segments import scratch_name
from cortado.run import toolchain
from cortado.run.runner import WARNINGS, bundle_includes, bundle_sources, write_files
from helpers.sanitizers import SANITIZERS
from models.tiny import sample

MEMORY = "fast=64,slow=1K,none=1K"

# Every question a bundle is asked; the exit code is the number of the first one with a wrong answer.
MISUSE = """#include <stddef.h>
#include <string.h>

#include "tiny.h"

static uint8_t fast[TINY_ARENA_FAST_BYTES + TINY_ARENA_ALIGN] __attribute__((aligned(TINY_ARENA_ALIGN)));
static uint8_t slow[TINY_ARENA_SLOW_BYTES] __attribute__((aligned(TINY_ARENA_ALIGN)));
static float values[TINY_INPUT0_BYTES + TINY_OUTPUT0_BYTES];

static int refused(const tiny_arena_t *arena)
{
    tiny_quantize_input(arena, 0, values);
    tiny_dequantize_output(arena, 0, values);
    return tiny_input(arena, 0) == NULL && tiny_output(arena, 0) == NULL && tiny_run(arena) == 1;
}

int main(void)
{
    void *const f = fast, *const s = slow, *const f1 = fast + 1;
    const tiny_arena_t without_fast = {.slow = s}, without_slow = {.fast = f}, odd = {f1, s, NULL};
    const tiny_arena_t own = {.fast = f, .slow = s}, *const arena = tiny_default_arena();
    int8_t outputs[TINY_OUTPUT0_BYTES];
    if (!refused(NULL) || !refused(&without_fast) || !refused(&without_slow) || !refused(&odd)) { return 1; }
    if (TINY_ARENA_NONE_BYTES != 0 || arena->none != NULL) { return 2; }
    if (TINY_ARENA_BYTES != TINY_ARENA_FAST_BYTES + TINY_ARENA_SLOW_BYTES) { return 3; }
    if (TINY_ARENA_FAST_BYTES > 64 || TINY_ARENA_SLOW_BYTES > 1024) { return 4; }
    if (tiny_input(arena, -1) != NULL || tiny_output(arena, TINY_OUTPUTS) != NULL) { return 5; }
    for (int i = 0; i < TINY_INPUT0_BYTES; i++) { tiny_input(&own, 0)[i] = (int8_t)(31 * i); }
    memcpy(tiny_input(arena, 0), tiny_input(&own, 0), TINY_INPUT0_BYTES);
    if (tiny_run(&own) != 0 || tiny_run(arena) != 0) { return 6; }
    memcpy(outputs, tiny_output(&own, 0), sizeof outputs);
    return memcmp(outputs, tiny_output(arena, 0), sizeof outputs) == 0 ? 0 : 7;
}
"""


@pytest.fixture(scope="module")
def graph(tiny: Model) -> LoweredGraph:
    found = tiny.compile("cortex-m4").graph
    assert found is not None
    return found


def planned(graph: LoweredGraph, cores: tuple[Core, ...] | None = None) -> Planned:
    return schedule(build_program("tiny", graph, from_target_string("cortex-m4"), cores=cores))


def in_regions(graph: LoweredGraph) -> Planned:
    """For this machine."""
    rooms = [Room(region.name, region.bytes) for region in regions_of(MEMORY, None)]
    found = over_regions(planned(graph, (Core.PORTABLE,)), rooms)
    assert isinstance(found, Planned)
    return found


@pytest.fixture(scope="module")
def portable(graph: LoweredGraph) -> Bundle:
    return emit_c(in_regions(graph), places_of(["classifier=external"]))


@pytest.mark.host
def test_wrong_pointers_are_answered_and_pieces_of_ones_own_give_the_same(portable: Bundle, tmp_path: Path) -> None:
    write_files(tmp_path, portable.files)
    (tmp_path / "main.c").write_text(MISUSE)
    flags = [*WARNINGS, *BUNDLE_FLAGS, *SANITIZERS]
    sources = bundle_sources(tmp_path, "c")
    program = toolchain.build_executable(sources, bundle_includes(tmp_path), flags, "misuse")
    done = subprocess.run([program], capture_output=True, timeout=1800)
    assert done.returncode == 0, done.stderr


@pytest.mark.host
def test_the_example_of_the_readme_compiles_and_lines_fit(portable: Bundle, tmp_path: Path) -> None:
    write_files(tmp_path, portable.files)
    example = re.search(r"```c\n(.*?)```", portable.files["README.md"], re.DOTALL)
    assert example is not None
    (tmp_path / "example.c").write_text(example.group(1))
    toolchain.compile_object(tmp_path / "example.c", [tmp_path], [*WARNINGS], toolchain.arm_gcc())
    for name in ("tiny.h", "tiny.c", "tiny_data.h", "README.md"):
        lines = [line for line in portable.files[name].splitlines() if not line.startswith("#error")]
        assert [line for line in lines if len(line) > 120] == [], name


def test_sections_have_macros_and_sizes(graph: LoweredGraph, portable: Bundle) -> None:
    header, data = portable.files["tiny_data.h"], portable.files["tiny_data.c"]
    assert '#define CORTADO_ARENA_FAST __attribute__((section(".bss.cortado_fast")))' in header
    assert '#define CORTADO_WEIGHTS_EXTERNAL __attribute__((section(".cortado.external")))' in header
    assert "CORTADO_ARENA_NONE" not in header
    assert set(portable.section_bytes) == {"external"}
    assert 0 < portable.section_bytes["external"] < portable.weights_bytes
    assert f"#define TINY_WEIGHTS_EXTERNAL_BYTES {portable.section_bytes['external']}\n" in portable.files["tiny.h"]
    plain = emit_c(planned(graph, (Core.PORTABLE,)))
    assert data.replace("CORTADO_WEIGHTS_EXTERNAL", "CORTADO_WEIGHTS") == plain.files["tiny_data.c"]


def test_a_place_that_matches_nothing_lists_the_layers(graph: LoweredGraph) -> None:
    with pytest.raises(CortadoError, match=r"'conv9\.\*' matches no layer(.|\n)*:\n  features.0\n(.|\n)*  classifier"):
        emit_c(planned(graph), places_of(["classifier=a", "conv9.*=external"]))


def test_the_first_place_that_matches_counts(graph: LoweredGraph) -> None:
    bundle = emit_c(planned(graph), places_of(["classifier=a", ".*=b"]))
    assert sum(bundle.section_bytes.values()) == bundle.weights_bytes
    assert bundle.section_bytes["a"] == emit_c(planned(graph), places_of("classifier=a")).section_bytes["a"]


def test_heat_counts_what_calls_read_and_write(graph: LoweredGraph) -> None:
    """By hand: 6 rows of the input are written once and read by 6 windows of 3 rows; the scores, written and read once.
    Scratch is written and read by every call."""
    found = planned(graph)
    used = heat(found)
    for stage, run in zip(found.program.stages, found.runs, strict=True):
        for position, step in enumerate(stage.steps):
            if step.scratch:
                calls = sum(1 for at, _ in run.calls if at == position)
                assert used[scratch_name(step)] == 2 * calls * step.images
    assert used[found.program.inputs[0].buffer] == 1 + 3
    assert used[found.program.outputs[0].buffer] == 1 + 1


def test_memories_that_are_too_small_say_which_and_by_how_much(tiny: Model, graph: LoweredGraph) -> None:
    found = over_regions(planned(graph), [Room("fast", 32), Room("slow", 50)])
    assert isinstance(found, TooSmall)
    grown = [
        Room(name, size + found.missing * (name == found.room.name)) for name, size in (("fast", 32), ("slow", 50))
    ]
    assert isinstance(over_regions(planned(graph), grown), Planned)
    options = Options(memory=regions_of("fast=32,slow=50", None))
    message = rf"tiny does not fit the memories fast=32, slow=50 on cortex-m4: {found.room.name} is {found.missing:,} b"
    with pytest.raises(CortadoError, match=message):
        tiny.compile("cortex-m4", options)


@pytest.mark.host
def test_the_self_test_runs_in_both_memories(graph: LoweredGraph, tmp_path: Path) -> None:
    found, values = in_regions(graph), run_reference(graph, [sample(0)])
    arrays = {name: value.numpy() for name, value in values.items() if isinstance(value, torch.Tensor)}
    bundle = emit_c(found, selftest=True)
    own = selftest_files(found, arrays, bundle.build)
    write_files(tmp_path, {**bundle.files, **own})
    right = own["tiny_selftest.c"]
    (tmp_path / "main.c").write_text(
        '#include "tiny.h"\nint main(void) { return tiny_selftest(tiny_default_arena()) + tiny_selftest(0) + 1; }\n'
    )
    assert exit_code(tmp_path) == 0
    digest = re.findall(r"\{(0x\w{8})u, ", right)[1]
    (tmp_path / "tiny_selftest.c").write_text(right.replace(digest, "0x00000001"))
    assert exit_code(tmp_path) == 2


def exit_code(folder: Path) -> int:
    sources = bundle_sources(folder, "c")
    program = toolchain.build_executable(sources, bundle_includes(folder), [*WARNINGS, *BUNDLE_FLAGS], "selftest")
    return subprocess.run([program], timeout=1800).returncode
