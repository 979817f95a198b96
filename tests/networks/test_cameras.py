"""Cameras in front of networks: lines of the sensor, on host and boards, beside the reference and the eager module."""

import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cortado.api import Model, prepare
from cortado.artifact.report import Report
from cortado.base.arrays import ArrayType
from cortado.base.camera import Camera
from cortado.base.errors import CortadoError
from cortado.base.target import BUNDLE_FLAGS, Core, from_target_string
from cortado.emit.c.bundle import emit_c
from cortado.frontend.capture.camera import codes_of, pixels_of, sample_picture, sensed
from cortado.options import Artifacts, Border, CalibrationMethod, Optimize, Options
from cortado.plan.lowered import run_reference
from cortado.plan.request import Feeding, program_of
from cortado.plan.schedule import schedule
from cortado.run import toolchain
from cortado.run.bundle_info import IO, BundleInfo
from cortado.run.runner import RUNTIME_CHECKS, WARNINGS, bundle_includes, bundle_sources, run_bundle, write_files
from helpers.cli import Run, compile_tiny
from helpers.cores import each_core
from helpers.sanitizers import SANITIZERS

BOARDS = ("cortex-m0plus", "cortex-m3", "cortex-m4", "cortex-m33", "cortex-m55")
WIDTH, HEIGHT = 20, 14


class Net(nn.Module):
    """An image that is nearly its own first output, and a little classifier."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.same = nn.Conv2d(channels, channels, 1, groups=channels, bias=False)
        self.conv, self.last = nn.Conv2d(channels, 6, 3, stride=2, padding=1), nn.Linear(6, 4)
        nn.init.ones_(self.same.weight)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.same(x)
        return y, self.last(torch.relu(self.conv(y)).mean((2, 3)))


def network_of(channels: int) -> Net:
    torch.manual_seed(channels)
    return Net(channels).eval()


@cache
def model_of(channels: int) -> Model:
    network = network_of(channels)
    batches = [(torch.rand(1, channels, HEIGHT, WIDTH) * 4 - 2,) for _ in range(32)]
    quick = Options(calibration_method=CalibrationMethod.MINMAX, bias_correction=False)
    return prepare(network, batches[0], batches, name="net", options=quick)


def options(how: str, size: str, *, rows: bool = False, **more: str | None) -> Options:
    given = {"mean": "0.5", "std": "0.25", **more}
    return Options(input_format=how, input_size=size, input_rows=rows, artifacts=Artifacts.C, **given)  # type: ignore[arg-type]


def pictures(camera: Camera, count: int) -> ArrayType:
    shape = (count, camera.size.height, camera.line_bytes)
    return np.random.default_rng(3).integers(0, 256, shape, dtype=np.uint8)


# ---- every format, on this machine -------------------------------------------------------------------------------

CASES = [
    ("rgb565", "40x30", {"crop": "3,2,32x27", "resize": "20x14"}, 3),
    ("bgr565", "40x30", {"resize": "20x14", "resize_filter": "nearest"}, 3),
    ("rgb565", "30x21", {"resize": "20x14"}, 1),
    ("rgb888", "20x14", {}, 3),
    ("rgb888", "13x9", {"resize": "20x14"}, 3),
    ("bgr888", "25x14", {"resize": "20x14"}, 3),
    ("bgr888", "20x25", {"resize": "20x14"}, 1),
    ("yuyv", "32x24", {"crop": "1,1,29x23", "resize": "20x14"}, 3),
    ("yuyv", "32x24", {"crop": "5,9,20x14", "mean": None, "std": None}, 1),
    ("yuyv", "6x4", {"resize": "20x14", "resize_filter": "nearest"}, 3),
    ("grey8", "21x15", {"resize": "20x14", "mean": "0.5,0.4,0.3", "std": "0.2,0.3,0.4"}, 3),
    ("grey8", "64x60", {"crop": "0,10,64x50", "resize": "20x14"}, 1),
]


@pytest.mark.host
@pytest.mark.parametrize("rows", [False, True], ids=["whole", "rows"])
@pytest.mark.parametrize(("how", "size", "more", "channels"), CASES)
def test_same_bits_here_under_sanitizers(
    how: str, size: str, more: dict[str, str | None], channels: int, rows: bool, tmp_path: Path
) -> None:
    given = options(how, size, rows=rows, **more)
    camera, target = given.camera, from_target_string("cortex-m4")
    assert camera is not None
    graph = model_of(channels).compile(target, Options(artifacts=Artifacts.C)).graph
    assert graph is not None
    feeding = Feeding(rows=rows, camera=camera)
    planned = schedule(program_of("net", graph, target, Border.INT8, feeding, cores=(Core.PORTABLE,)), Optimize.RAM)
    write_files(tmp_path, emit_c(planned).files)
    taken = pictures(camera, 3)
    qparams = planned.program.inputs[0].qparams
    assert qparams is not None
    outputs = tuple(IO(one.name, one.shape, one.dtype) for one in planned.program.outputs)
    step = planned.program.pushed
    row_bytes = 0 if step is None else step.row_bytes
    inputs = (IO("picture", taken.shape[1:], "uint8"),)
    info = BundleInfo("net", target, inputs, outputs, row_bytes, line_bytes=camera.line_bytes)
    for flags in (SANITIZERS, (RUNTIME_CHECKS,)):
        found = run_bundle(tmp_path, info, [[one] for one in taken], "host", flags=flags)
        for picture, mine in zip(taken, found.samples, strict=True):
            codes = codes_of(camera, picture, channels, qparams.scale, qparams.zero_point)
            real = (torch.from_numpy(codes).float() - qparams.zero_point) * qparams.scale
            values = run_reference(graph, [real])
            for tensor, output in zip(planned.program.outputs, mine, strict=True):
                np.testing.assert_array_equal(output, values[tensor.node].numpy())


# ---- boards ------------------------------------------------------------------------------------------------------


@pytest.mark.host
@pytest.mark.qemu
@pytest.mark.parametrize("target", each_core(*BOARDS, here="cortex-m33"))
@pytest.mark.parametrize(("how", "rows"), [("rgb565", True), ("yuyv", False)])
def test_same_bits_on_boards_with_every_store_watched(how: str, rows: bool, target: str, tmp_path: Path) -> None:
    given = options(how, "40x30", rows=rows, crop="2,1,36x28", resize="20x14")
    assert given.camera is not None
    compiled = model_of(3).compile(target, given)
    report = compiled.report.camera
    assert report is not None
    assert report.camera == given.camera
    assert (report.line_bytes, report.held_bytes, report.table_bytes) == (80, 120, 4 * 34 + 3 * 256)
    assert report.cycles
    artifact = compiled.save(tmp_path / "net")
    taken = [[one] for one in pictures(given.camera, 2)]
    board = artifact.run(taken, check_stores=True, timed=True)
    assert board.bit_exact
    here = artifact.run(taken, "host")
    assert here.bit_exact
    for mine, other in zip(board.result.samples, here.result.samples, strict=True):
        assert all(map(np.array_equal, mine, other))
    plain = artifact.run([artifact.example()], timed=True)  # the network's own input, without the camera
    assert plain.bit_exact
    assert board.result.work is not None
    assert plain.result.work is not None
    took = board.result.work.total.cycles.typical - plain.result.work.total.cycles.typical
    assert report.cycles == pytest.approx(took, rel=0.15)


@pytest.mark.host
def test_no_picture_lies_in_memory() -> None:
    """With rows, neither the picture nor the network's image: one line of 16 bits, and a ring of rows."""
    given = options("rgb565", "160x120", resize="20x14")
    whole = model_of(3).compile("cortex-m4", given)
    plain = model_of(3).compile("cortex-m4", Options(artifacts=Artifacts.C))
    assert whole.planned is not None
    assert plain.planned is not None
    sizes = {buffer.name: buffer.size for buffer in whole.planned.problem.buffers}
    assert (sizes["camera.line"], sizes["camera.place"]) == (2 * 3 * WIDTH, 8)
    assert whole.planned.plan.peak <= plain.planned.plan.peak + 2 * 3 * WIDTH + 32
    rows = model_of(3).compile("cortex-m4", options("rgb565", "160x120", rows=True, resize="20x14"))
    assert rows.report.input_rows is not None
    assert rows.report.input_rows.ring_rows < HEIGHT / 2
    assert Report.from_json(rows.report.to_json(), "report.json").camera == rows.report.camera


# ---- accuracy ----------------------------------------------------------------------------------------------------


@pytest.mark.cases(1)
@pytest.mark.host
@pytest.mark.parametrize("how", ["rgb888", "rgb565"])
def test_near_the_eager_pipeline(how: str, tmp_path: Path) -> None:
    """Fresh pictures through torch's own pipeline and the user's module, in float."""
    given = options(how, "80x60", crop="4,2,72x56", resize="20x14")
    camera = given.camera
    assert camera is not None
    artifact = model_of(3).compile("cortex-m4", given).save(tmp_path / "net")
    network = network_of(3)
    y, x = np.mgrid[:60, :80]
    signal = noise = 0.0
    for seed in range(4):
        turns = np.random.default_rng(seed).uniform(2, 9, (3, 2))
        rgb = np.stack([127 + 120 * np.sin(x / a + y / b) for a, b in turns], axis=2).astype(np.uint8)
        picture = sensed(camera.format, rgb)
        pixels = torch.from_numpy(pixels_of(camera.format, picture, 3)).float().permute(2, 0, 1)[None]
        cut = F.interpolate(pixels[:, :, 2:58, 4:76], (HEIGHT, WIDTH), mode="bilinear", align_corners=False)
        with torch.no_grad():
            expected = network((cut / 255 - 0.5) / 0.25)
        found = artifact.run([[picture]], "host")
        assert found.bit_exact
        for mine, other in zip(found.outputs, expected, strict=True):
            signal += float((other.numpy() ** 2).sum())
            noise += float(((mine - other.numpy()) ** 2).sum())
    assert 10 * np.log10(signal / noise) > 35


# ---- firmware ----------------------------------------------------------------------------------------------------

# The exit code is the number of the first question with a wrong answer.
FIRMWARE = """#include <string.h>

#include "net_camera.h"

static uint8_t bytes[NET_ARENA_BYTES + NET_ARENA_ALIGN] __attribute__((aligned(NET_ARENA_ALIGN)));
static uint8_t before[sizeof bytes];
static int8_t first[NET_OUTPUT1_BYTES];
static uint8_t line[NET_CAMERA_LINE_BYTES];

/* Lines 2 to 28 of 30 count. */
static int picture(int seed)
{
    void *const arena = bytes;
    int found = 0;
    if (net_begin_picture(arena) != 0) { return 1; }
    for (int y = 0; y < NET_CAMERA_HEIGHT; y++) {
        memset(line, y * seed, sizeof line);
        const int said = net_take_line(arena, line);
        if (said < 0 || said != (y == 28)) { return 2; }
        found += said;
        if (said == 1) { RUN }
    }
    return found == 1 && net_take_line(arena, line) == -1 ? 0 : 3;
}

int main(void)
{
    memset(bytes, 0x5A, sizeof bytes);
    memset(before, 0x5A, sizeof before);
    if (net_begin_picture(NULL) != -1 || net_take_line(NULL, line) != -1) { return 4; }
    if (net_begin_picture((void *)(bytes + 1)) != -1 || net_take_line((void *)(bytes + 1), line) != -1) { return 5; }
    if (net_take_line((void *)bytes, line) != -2) { return 6; }
    if (memcmp(bytes, before, sizeof bytes) != 0) { return 7; }
    if (picture(3) != 0) { return 10 + picture(3); }
    memcpy(first, net_output((void *)bytes, 1), sizeof first);
    if (net_take_line((void *)bytes, line) != -1) { return 20; }
    if (memcmp(first, net_output((void *)bytes, 1), sizeof first) != 0) { return 21; }
    if (picture(7) != 0 || memcmp(first, net_output((void *)bytes, 1), sizeof first) == 0) { return 22; }
    if (net_begin_picture((void *)bytes) != 0) { return 23; }
    for (int y = 0; y < 11; y++) { /* a picture that is given up leaves nothing behind */
        if (net_take_line((void *)bytes, line) != 0 || net_take_line((void *)bytes, NULL) != -1) { return 24; }
    }
    if (picture(3) != 0) { return 25; }
    return memcmp(first, net_output((void *)bytes, 1), sizeof first) == 0 ? 0 : 26;
}
"""


@pytest.mark.host
@pytest.mark.parametrize("rows", [False, True], ids=["whole", "rows"])
def test_firmware_that_counts_wrongly_is_answered(rows: bool, tmp_path: Path) -> None:
    camera = options("rgb565", "40x30", crop="3,2,32x27", resize="20x14").camera
    config = from_target_string("cortex-m4")
    graph = model_of(3).compile(config, Options(artifacts=Artifacts.C)).graph
    assert graph is not None
    feeding = Feeding(rows=rows, camera=camera)
    planned = schedule(program_of("net", graph, config, Border.INT8, feeding, cores=(Core.PORTABLE,)))
    write_files(tmp_path, emit_c(planned).files)
    run = "" if rows else "if (net_run(arena) != 0) { return 4; }"
    (tmp_path / "main.c").write_text(FIRMWARE.replace("RUN", run))
    flags = [*WARNINGS, *BUNDLE_FLAGS, *SANITIZERS]
    built = toolchain.build_executable(bundle_sources(tmp_path, "c"), bundle_includes(tmp_path), flags, "camera")
    done = subprocess.run([built], capture_output=True, timeout=1800)
    assert done.returncode == 0, done.stderr


# ---- the command line, and networks without an image -------------------------------------------------------------


@pytest.mark.host
@pytest.mark.qemu
def test_on_the_command_line(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    start = ("-t", "cortex-m4", "--artifacts", "c", "-o", folder, "--input-format", "yuyv")
    refused = compile_tiny(run, *start, "--input-size", "32x24", "--resize", "5x6")
    assert refused.code != 0
    assert "is an image of 6x6 pixels, but the camera delivers 5x6; expected --resize 6x6" in refused.err
    refused = compile_tiny(run, *start, "--input-size", "32x24", "--crop", "30,0,6x6")
    assert "--crop 30,0,6x6 reaches to 36,6, outside of a picture of 32x24" in refused.err
    assert not folder.exists()
    done = compile_tiny(run, *start, "--input-size", "32x24", "--resize", "6x6", "--input-rows")
    assert done.code == 0
    assert "32x24 pixels of yuyv, to 6x6 (bilinear); 12 bytes of the arena for a line" in done.out
    done = run("run", folder)
    assert done.code == 0
    assert "bit-exact" in done.out
    np.save(tmp_path / "pictures.npy", np.zeros((2, 24, 32, 2), dtype=np.uint8))
    done = run("run", folder, "--on", "host", "--input", tmp_path / "pictures.npy")
    assert done.code == 0
    assert "all 2 samples" in done.out
    np.save(tmp_path / "pictures.npy", np.zeros((24, 32, 3), dtype=np.uint8))
    assert (
        "expected a picture of the camera, 32x24 pixels of yuyv"
        in run("run", folder, "--on", "host", "--input", tmp_path / "pictures.npy").err
    )


class Two(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x + y


class Kept(nn.Module):
    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(1, 3, 8, 8))

    def forward(self, x: Tensor) -> Tensor:
        self.seen = 0.5 * self.seen + 0.5 * x
        return self.seen.mean((2, 3))


@pytest.mark.parametrize(
    ("model", "count", "message"),
    [
        (Two(), 2, r"has 2 inputs \('x', 'y'\), but a camera \(--input-format\) feeds one"),
        (Kept(), 1, r"has state \('seen'\), but a camera's lines are for networks without"),
    ],
)
def test_networks_that_a_camera_can_not_be_in_front_of(model: nn.Module, count: int, message: str) -> None:
    torch.manual_seed(0)
    batches = [tuple(torch.randn(1, 3, 8, 8) for _ in range(count)) for _ in range(32)]
    quick = Options(calibration_method=CalibrationMethod.MINMAX, bias_correction=False)
    prepared = prepare(model.eval(), batches[0], batches, name="net", options=quick)
    with pytest.raises(CortadoError, match=message):
        prepared.compile("cortex-m4", options("rgb888", "8x8"))


def test_the_sample_picture_has_every_value() -> None:
    camera = options("rgb565", "64x48").camera
    assert camera is not None
    assert len(np.unique(sample_picture(camera))) == 256
