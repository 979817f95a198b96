"""Inputs that come row by row: the same bits as the whole, how little memory, and what can't be pushed."""

import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cortado.api import Model, prepare
from cortado.base.errors import CortadoError
from cortado.base.target import BUNDLE_FLAGS, Core, from_target_string
from cortado.emit.c.bundle import emit_c
from cortado.options import Border, Optimize, Options
from cortado.plan.program import PUSHED_ROWS
from cortado.plan.request import OPERATOR, Feeding, program_of
from cortado.plan.schedule import schedule
from cortado.run import toolchain
from cortado.run.runner import RUNTIME_CHECKS, WARNINGS, bundle_includes, bundle_sources, write_files
from helpers.cli import Run, compile_tiny
from helpers.cores import FOUR, each_core
from helpers.networks import graph_of, networks, planned, run_bundle
from helpers.paths import MODELS, ROOT
from helpers.sanitizers import SANITIZERS

# The arena on an M55 with --optimize ram, at most.
MOST_BYTES = {
    "ds_cnn": 4_950,
    "resnet8": 13_600,
    "mobilenet_v1_025": 14_500,
    "mobilenet_v3_small": 65_500,
    "mobilenet_v2": 126_000,
}


@pytest.mark.cases(1)
@pytest.mark.parametrize("name", networks(list(MOST_BYTES)))
def test_a_ring_of_rows_takes_the_place_of_the_input(name: str) -> None:
    peak = planned(name, "cortex-m55", Optimize.RAM, input_rows=True).plan.peak
    assert peak <= MOST_BYTES[name]
    whole = planned(name, "cortex-m55", Optimize.RAM).plan.peak
    assert f"| {name} | {whole:,} | {peak:,} |" in (ROOT / "docs" / "streaming.md").read_text()
    for optimize in (Optimize.BALANCED, Optimize.TIME):
        other = planned(name, "cortex-m55", optimize, input_rows=True)
        step = other.program.pushed
        assert step is not None
        assert 0 < other.program.buffers[step.output].rows < step.rows / 4


@pytest.mark.cases(1)
@pytest.mark.host
@pytest.mark.parametrize("optimize", [Optimize.RAM, Optimize.TIME])
@pytest.mark.parametrize("name", networks(["ds_cnn", "resnet8", "mobilenet_v1_025"], slow=["mobilenet_v1_025"]))
def test_same_bits_here_under_sanitizers(name: str, optimize: Optimize, tmp_path: Path) -> None:
    target, cores = from_target_string("cortex-m4"), (Core.PORTABLE,)
    program = program_of(name, graph_of(name), target, Border.INT8, Feeding(rows=True), cores=cores)
    run_bundle(tmp_path, schedule(program, optimize), inputs=2, on="host", flags=SANITIZERS)


@pytest.mark.qemu
@pytest.mark.parametrize("target", each_core(*FOUR, here="cortex-m33"))
@pytest.mark.parametrize("name", networks(["ds_cnn"]))
def test_same_bits_on_boards_with_every_store_watched(name: str, target: str, tmp_path: Path) -> None:
    run_bundle(tmp_path, planned(name, target, Optimize.RAM, input_rows=True), inputs=2)


@pytest.mark.qemu
@pytest.mark.slow
@pytest.mark.parametrize("target", FOUR)
@pytest.mark.parametrize("name", networks([name for name in MOST_BYTES if name != "ds_cnn"]))
def test_same_bits_of_larger_networks_on_boards(name: str, target: str, tmp_path: Path) -> None:
    run_bundle(tmp_path, planned(name, target, Optimize.RAM, input_rows=True), inputs=1)


@pytest.mark.host
@pytest.mark.qemu
def test_the_checks_build_has_guards_around_rows_and_counters(tiny: Model, tmp_path: Path) -> None:
    compiled = tiny.compile("cortex-m4", Options(input_rows=True))
    assert compiled.planned is not None
    node, found = compiled.planned.program.inputs[0].node, {one.name for one in compiled.planned.problem.buffers}
    assert {PUSHED_ROWS, f"{node}.counters", node} <= found
    artifact = compiled.save(tmp_path / "tiny")
    for place in ("host", None):
        assert artifact.run([artifact.example()], place, flags=(RUNTIME_CHECKS,)).bit_exact


# ---- networks of other forms -------------------------------------------------------------------------------------


class Unread(nn.Module):
    """No window reaches the last rows, and none the first."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 6, (3, 3), stride=(4, 1))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.conv(x))


class Around(nn.Module):
    """The input is read twice, the second time behind several layers; two outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 4, 5, padding=2), nn.Conv2d(4, 3, 3, padding=1)
        self.around = nn.Conv2d(2, 3, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.relu(self.first(x))
        return self.around(x) + self.second(y), y.mean((2, 3))


class Wider(nn.Module):
    """Rows are repeated; what needs all of them comes behind."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.up = nn.Conv2d(2, 4, 3, padding=1, dilation=1), nn.Upsample(scale_factor=2)
        self.last = nn.Linear(4 * 22 * 12, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.up(torch.relu(self.conv(x))).flatten(1))


def made(model: nn.Module, *inputs: Tensor) -> Model:
    batches = [tuple(torch.randn_like(one) for one in inputs) for _ in range(4)]
    return prepare(model.eval(), inputs, batches, name="net")


@pytest.mark.host
@pytest.mark.qemu
@pytest.mark.parametrize("kind", [Unread, Around, Wider])
def test_networks_of_other_forms(kind: type[nn.Module], tmp_path: Path) -> None:
    torch.manual_seed(1)
    model = made(kind(), torch.randn(1, 2, 11, 6))
    compiled = model.compile("cortex-m4", Options(input_rows=True, optimize=Optimize.RAM))
    report = compiled.report.input_rows
    assert report is not None
    assert (report.rows, report.row_bytes, report.ring_bytes) == (11, 12, 12 * report.ring_rows)
    artifact = compiled.save(tmp_path / "rows")
    samples = [[array] for array in np.random.default_rng(0).standard_normal((3, 1, 2, 11, 6), np.float32)]
    whole = model.compile("cortex-m4").save(tmp_path / "whole").run(samples, "host")
    assert whole.bit_exact
    for found in (artifact.run(samples, "host"), artifact.run(samples, check_stores=True)):
        assert found.bit_exact
        for mine, other in zip(found.result.samples, whole.result.samples, strict=True):
            assert all(map(np.array_equal, mine, other))


# ---- firmware ----------------------------------------------------------------------------------------------------

# The exit code is the number of the first question with a wrong answer.
FIRMWARE = """#include <stddef.h>
#include <string.h>

#include "tiny.h"

static uint8_t bytes[TINY_ARENA_BYTES + TINY_ARENA_ALIGN] __attribute__((aligned(TINY_ARENA_ALIGN)));
static uint8_t before[sizeof bytes];
static int8_t first[TINY_OUTPUT0_BYTES];

static int image(int8_t value)
{
    tiny_reset((void *)bytes);
    for (int row = 1; row <= TINY_ROWS; row++) {
        float reals[TINY_ROW_BYTES];
        for (int i = 0; i < TINY_ROW_BYTES; i++) {
            reals[i] = TINY_INPUT0_SCALE * (float)(value + i + row - TINY_INPUT0_ZERO_POINT);
        }
        memset(tiny_row((void *)bytes), 77, TINY_ROW_BYTES);
        tiny_quantize_row((void *)bytes, reals);
        if (tiny_row((void *)bytes)[1] != value + 1 + row) { return 1; }
        if (tiny_push((void *)bytes) != (row == TINY_ROWS)) { return 2; }
    }
    return 0;
}

int main(void)
{
    float reals[TINY_ROW_BYTES] = {0};
    memset(bytes, 0x5A, sizeof bytes);
    memset(before, 0x5A, sizeof before);
    if (tiny_row(NULL) != NULL || tiny_push(NULL) != -1) { return 3; }
    tiny_reset(NULL);
    tiny_quantize_row(NULL, reals);
    for (int offset = 1; offset < TINY_ARENA_ALIGN; offset++) {
        tiny_reset((void *)(bytes + offset));
        if (tiny_row((void *)(bytes + offset)) != NULL || tiny_push((void *)(bytes + offset)) != -1) { return 4; }
    }
    if (memcmp(bytes, before, sizeof bytes) != 0) { return 5; }
    if (image(-100) != 0) { return 6; }
    memcpy(first, tiny_output((void *)bytes, 0), sizeof first);
    for (int more = 0; more < 3; more++) { /* one row too many changes nothing */
        tiny_quantize_row((void *)bytes, reals);
        if (tiny_row((void *)bytes) != NULL || tiny_push((void *)bytes) != -1) { return 7; }
        if (memcmp(first, tiny_output((void *)bytes, 0), sizeof first) != 0) { return 8; }
    }
    if (image(90) != 0 || memcmp(first, tiny_output((void *)bytes, 0), sizeof first) == 0) { return 9; }
    tiny_reset((void *)bytes); /* an image that is given up leaves nothing behind */
    memset(tiny_row((void *)bytes), 55, TINY_ROW_BYTES);
    if (tiny_push((void *)bytes) != 0 || image(-100) != 0) { return 10; }
    return memcmp(first, tiny_output((void *)bytes, 0), sizeof first) == 0 ? 0 : 11;
}
"""


@pytest.mark.host
def test_firmware_that_counts_wrongly_is_answered(tiny: Model, tmp_path: Path) -> None:
    config = from_target_string("cortex-m4")
    graph = tiny.compile(config).graph
    assert graph is not None
    program = program_of("tiny", graph, config, Border.INT8, Feeding(rows=True), cores=(Core.PORTABLE,))
    write_files(tmp_path, emit_c(schedule(program)).files)
    (tmp_path / "main.c").write_text(FIRMWARE)
    flags = [*WARNINGS, *BUNDLE_FLAGS, *SANITIZERS]
    built = toolchain.build_executable(bundle_sources(tmp_path, "c"), bundle_includes(tmp_path), flags, "rows")
    done = subprocess.run([built], capture_output=True, timeout=1800)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.host
@pytest.mark.qemu
def test_on_the_command_line(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    assert compile_tiny(run, "--input-rows", "-t", "cortex-m4", "-o", folder, "--json").json["input_rows"]
    assert "rows of" in compile_tiny(run, "--input-rows", "-t", "cortex-m4", "-o", folder).out
    done = run("run", folder)
    assert done.code == 0
    assert "instructions in one push" in done.out
    assert "bit-exact" in done.out
    done = run("validate", folder, "--per-layer", "--model", MODELS / "tiny.py")
    assert done.code == 0
    assert OPERATOR.rpartition("::")[2] in done.out
    assert run("profile", folder).code == 0


# ---- what can't be pushed ----------------------------------------------------------------------------------------


class Two(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x + y


class Flat(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(96, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.hidden(x.flatten(1))


class Late(nn.Module):
    """The input is needed again once all rows are there."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 2, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(self.conv(x).mean((2, 3), keepdim=True))


@pytest.mark.parametrize(
    ("model", "shapes", "border", "message"),
    [
        (Two(), [(1, 2, 8, 6)] * 2, Border.INT8, r"has 2 inputs \('x', 'y'\), but rows can be pushed into only one"),
        (
            Flat(),
            [(1, 2, 8, 6)],
            Border.INT8,
            r"'x' can't come row by row: hidden \(quantized_.*\) reads all 96 values at once",
        ),
        (
            Late(),
            [(1, 2, 8, 6)],
            Border.INT8,
            r"can't come row by row: .*\(quantized_.*mul.*\) .*Compile without --input-rows",
        ),
        (nn.Conv2d(2, 2, 3), [(3, 2, 8, 6)], Border.INT8, "holds 3 images, but rows can be pushed for only one"),
        (nn.Conv1d(2, 2, 3), [(1, 2, 8)], Border.INT8, r"reads all 16 values at once. Rows can come from images"),
        (nn.Conv2d(2, 2, 3), [(1, 2, 8, 6)], Border.FLOAT, "holds float32 values.*expected --io int8"),
    ],
)
def test_inputs_without_rows_are_refused(
    model: nn.Module, shapes: list[tuple[int, ...]], border: Border, message: str
) -> None:
    torch.manual_seed(0)
    inputs = [torch.randn(shape) for shape in shapes]
    with pytest.raises(CortadoError, match=message):
        made(model, *inputs).compile("cortex-m4", Options(input_rows=True, io=border))
