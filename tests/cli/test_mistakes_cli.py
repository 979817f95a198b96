"""Mistakes and accidents at the command line and in Python: several samples, no torch, Ctrl-C, files that differ."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cortado.api import Model
from cortado.artifact.opened import Artifact
from cortado.options import Artifacts, Options, PackageKind
from helpers.cli import TINY, WITHOUT_TORCH, Run, in_new_process, refused, without_torch
from helpers.gdb_servers import emulated
from helpers.paths import MODELS, ROOT

# ---- several samples -----------------------------------------------------------------------------------------------


def batch(count: int) -> Any:
    return np.random.default_rng(5).standard_normal((count, 1, 6, 6)).astype(np.float32)


@pytest.mark.host
def test_every_sample_of_a_batch_is_run(run: Run, tiny_artifact: Artifact, tmp_path: Path) -> None:
    samples, place = batch(3), ("run", tiny_artifact.folder, "--on", "host")
    np.save(tmp_path / "batch.npy", samples)
    done = run(*place, "--input", tmp_path / "batch.npy", "--output", tmp_path / "y.npy")
    assert done.code == 0, done.err
    assert [line.split(":")[0] for line in done.out.splitlines()[1:4]] == ["sample 0", "sample 1", "sample 2"]
    assert "bit-exact with the reference, all 3 samples" in done.out
    together = np.load(tmp_path / "y.npy")
    for number, sample in enumerate(samples):
        np.save(tmp_path / "one.npy", sample[None])
        assert run(*place, "--input", tmp_path / "one.npy", "--output", tmp_path / "one_y.npy").code == 0
        alone = np.load(tmp_path / "one_y.npy")
        assert np.array_equal(alone, together[number * len(alone) : (number + 1) * len(alone)])
    assert len(together) == 3 * len(alone)


@pytest.mark.host
def test_a_batch_as_json_and_with_a_dimension_of_its_own(run: Run, tiny_artifact: Artifact, tmp_path: Path) -> None:
    outputs = []
    for name, samples in (("flat", batch(2)), ("deep", batch(2)[:, None])):
        np.save(tmp_path / f"{name}.npy", samples)
        done = run("run", tiny_artifact.folder, "--on", "host", "--json", "--input", tmp_path / f"{name}.npy")
        assert done.json["samples"] == 2
        assert done.json["bit_exact"] is True
        outputs.append(done.json["outputs"])
    assert outputs[0] == outputs[1]


def test_a_number_is_no_batch(run: Run, tiny_artifact: Artifact, tmp_path: Path) -> None:
    for value in (np.float32(1.0), np.zeros((0, 1, 6, 6), np.float32), np.zeros((3, 6, 6), np.float32)):
        np.save(tmp_path / "x.npy", value)
        done = run("run", tiny_artifact.folder, "--on", "host", "--input", tmp_path / "x.npy")
        assert done.code == 2
        assert re.fullmatch(r"cortado: .*x.npy (has shape|holds no samples).*\n", done.err)


@pytest.mark.host
def test_a_compiled_model_runs_a_batch(tiny: Model) -> None:
    compiled = tiny.compile("cortex-m4")
    checked = compiled.run(torch.from_numpy(batch(3)), on="host")
    assert checked.bit_exact
    assert len(checked.result.samples) == len(checked.expected) == 3
    singles = [compiled.run(sample[None], on="host").result.samples[0] for sample in batch(3)]
    assert all(np.array_equal(a[0], b[0]) for a, b in zip(checked.result.samples, singles, strict=True))


# ---- the README's Python -------------------------------------------------------------------------------------------

AS_IN_THE_README = """
import sys
import cortado

assert "torch" not in sys.modules
import torch

model, example_inputs = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU()), (torch.randn(1, 4),)
batches = [(torch.randn(1, 4),) for _ in range(3)]
test_set = torch.utils.data.TensorDataset(torch.randn(12, 4), torch.arange(12) % 3)
module = model
{example}
compiled.run(*batches[0], on="host")
"""


@pytest.mark.qemu
def test_the_readmes_python_runs_as_it_stands(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    page = (ROOT / "docs" / "using.md").read_text()
    lines = re.findall(r"`(model = cortado\.[^`]*)`", page)
    compiles = re.findall(r"`(model\.compile\([^`]*)`", page)
    assert len(blocks) == len(lines) == 1
    assert lines[0].startswith("model = cortado.prepare(")
    assert len(compiles) == 2
    example = "\n".join([*blocks, *lines, *(f"compiled = {line}" for line in compiles)])
    script = tmp_path / "example.py"
    script.write_text(AS_IN_THE_README.format(example=example))
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "build" / "model" / "report.json").is_file()


@pytest.mark.cases(2)
@pytest.mark.parametrize("name", ["api.prepare", "prepare", "compile", "options.Options", "options.Optimize.RAM"])
def test_a_fresh_interpreter_finds_it(name: str) -> None:
    code = f"import sys, cortado; assert 'torch' not in sys.modules; assert cortado.{name}"
    assert in_new_process("-c", code).returncode == 0


# ---- without torch -------------------------------------------------------------------------------------------------


@pytest.mark.qemu
def test_commands_that_need_no_torch_run_without_it(tiny_artifact: Artifact, tmp_path: Path) -> None:
    problem = tmp_path / "problem.csv"
    problem.write_text("id,lower,upper,size\na,0,2,16\nb,1,3,16\n")
    for arguments in (
        ["--help"],
        ["targets"],
        ["chips"],
        ["doctor"],
        ["completion", "bash"],
        ["plan", problem],
        ["inspect", tiny_artifact.folder / "tiny.pte"],
        ["run", tiny_artifact.folder],
        ["run", tiny_artifact.folder, "--json"],
        ["profile", tiny_artifact.folder],
        ["compare", tiny_artifact.folder, tiny_artifact.folder],
        ["kernels", "--all", "-t", "cortex-m4", "-o", tmp_path / "kernels"],
    ):
        done = without_torch(*arguments)
        assert done.returncode == 0, done.stderr
        assert done.stdout


@pytest.mark.host
def test_a_folder_is_packed_and_its_image_looked_at_without_torch(tiny: Model, tmp_path: Path) -> None:
    """The same packages that compile writes."""
    kinds = ("zephyr", "arduino", "cmsis-pack", "platformio", "pico", "cmake")
    options = Options(artifacts=Artifacts.C, package=tuple(PackageKind(kind) for kind in kinds))
    folder = tiny.compile("cortex-m4", options).save(tmp_path / "model").folder
    image = tiny.compile("cortex-m4", Options(artifacts=Artifacts.C, image=True)).save(tmp_path / "image").folder
    done = without_torch("pack", folder, "--package", ",".join(kinds), "-o", tmp_path / "new" / "packs")
    assert done.returncode == 0, done.stderr
    top = tmp_path / "new" / "packs"
    packed = {path.relative_to(top): path for path in top.rglob("*") if path.is_file()}
    assert {name.parts[0] for name in packed} == set(kinds)
    for name, path in packed.items():
        assert path.read_bytes() == (folder / name).read_bytes(), name
    wanted = {path for kind in kinds for path in (folder / kind).rglob("*") if path.is_file()}
    assert len(wanted) == len(packed)
    for arguments in (["inspect", image / "tiny.cortado"], ["kernels", image / "tiny.cortado"]):
        assert without_torch(*arguments).returncode == 0


def test_what_cannot_be_packed_is_told(run: Run, tiny_artifact: Artifact, tmp_path: Path) -> None:
    folder = tiny_artifact.folder
    refused(run("pack", folder, "--package", "cmake", "-o", tmp_path / "x"), "has no self-test", "--selftest")
    refused(run("pack", folder, "--package", "cmake", "-o", tmp_path), "exists already")
    refused(run("pack", folder, "--package", "web", "-o", tmp_path / "x"), "use `cortado compile --package web`")
    refused(run("pack", folder, "--package", "iar", "-o", tmp_path / "x"), "iar")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.qemu
def test_a_chip_runs_a_folder_without_torch(tiny_artifact: Artifact) -> None:
    with emulated("netduinoplus2") as port:
        place = ("--on", f"gdb:localhost:{port}", "--flash", "0x08000000:1M", "--ram", "0x20000000:128K")
        done = without_torch("run", tiny_artifact.folder, *place)
    assert done.returncode == 0, done.stderr
    assert "bit-exact with the reference" in done.stdout


@pytest.mark.qemu
def test_an_input_runs_on_the_board_without_torch_and_is_not_said_to_be_compared(
    run: Run, tiny_artifact: Artifact, tmp_path: Path
) -> None:
    np.save(tmp_path / "x.npy", batch(2))
    given = ("run", tiny_artifact.folder, "--input", tmp_path / "x.npy", "--output")
    assert "bit-exact" in run(*given, tmp_path / "with.npy").out
    done = without_torch(*given, tmp_path / "without.npy")
    assert done.returncode == 0, done.stderr
    assert "not compared with the reference, which needs torch (pip install 'cortado[compile]')" in done.stdout
    assert "bit-exact" not in done.stdout
    assert (tmp_path / "with.npy").read_bytes() == (tmp_path / "without.npy").read_bytes()
    assert json.loads(without_torch(*given[:-1], "--json").stdout)["bit_exact"] is None


@pytest.mark.qemu
def test_python_opens_and_runs_a_folder_without_torch(tiny_artifact: Artifact) -> None:
    lines = [
        "import cortado",
        f"model = cortado.load({str(tiny_artifact.folder)!r})",
        "print(model.run([model.example()]))",
    ]
    blocked = WITHOUT_TORCH.split("from cortado.cli")[0]
    done = in_new_process("-c", blocked + "\n".join(lines))
    assert done.stdout.startswith("<Checked: 1 sample on mps2-an386, bit-exact, "), done.stderr


def test_commands_that_need_torch_say_how_to_install_it(tiny_artifact: Artifact, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", batch(1))
    for arguments in (
        ["compile", TINY, "--calibration", "random", "-o", tmp_path / "out"],
        ["run", tiny_artifact.folder, "--on", "host", "--input", tmp_path / "x.npy"],
        ["validate", tiny_artifact.folder],
        ["zoo"],
        ["ops"],
    ):
        done = without_torch(*arguments)
        assert done.returncode == 2, done.stderr
        assert done.stderr.splitlines()[-1] == (
            "cortado: torch is not installed (needed for compiling models): pip install 'cortado[compile]'"
        )
        assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["x.npy"]


# ---- Ctrl-C --------------------------------------------------------------------------------------------------------


@pytest.mark.cases(1)
@pytest.mark.parametrize("phase", ["import", "export", "plan"])
def test_ctrl_c_leaves_nothing_behind(tmp_path: Path, phase: str) -> None:
    command = ["compile", TINY, "--calibration", TINY, "-t", "cortex-m4", "-o", tmp_path / "out"]
    process = subprocess.Popen(
        [sys.executable, "-m", "cortado", *map(str, command)],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    )
    assert process.stderr is not None
    while f"] {phase}" not in (line := process.stderr.readline().decode()):
        assert line, "it ended before"
    time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=1800)
    assert process.returncode == 130, err.decode()
    assert out == b""
    assert err.decode().splitlines()[-1] == "cortado: interrupted"
    assert b"Traceback" not in err
    assert list(tmp_path.iterdir()) == []


# ---- the same files ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_two_processes_write_the_same_etrecord(tmp_path: Path) -> None:
    """Addresses and hashes differ from one process to the next."""
    script = (
        "import sys, cortado\n"
        f"sys.path.insert(0, {str(MODELS)!r})\n"
        "import tiny\n"
        "model = cortado.prepare(tiny.ModelUnderTest, tiny.ModelInputs, tiny.calibration(), name='tiny')\n"
        "model.compile('cortex-m4', cortado.Options(etrecord=True)).save(sys.argv[1])\n"
    )
    for number in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", f"pad = bytearray({number} << 20)\n{script}", tmp_path / number],
            env={**os.environ, "PYTHONHASHSEED": number},
            capture_output=True,
            text=True,
            timeout=1800,
        )
        assert done.returncode == 0, done.stderr
    one, two = (json.loads((tmp_path / number / "report.json").read_text())["artifacts"] for number in ("1", "2"))
    assert "tiny.etrecord" in one
    assert one == two


# ---- multiply-accumulates ------------------------------------------------------------------------------------------


class Products(torch.nn.Module):
    """One of each operator that multiplies and accumulates; by hand: see the test."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1, groups=1)
        self.depthwise = torch.nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.up = torch.nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.linear = torch.nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.up(self.depthwise(self.conv(x))).flatten(2)  # [1, 4, 256] of an 8 x 8 image
        y = y @ y.mT  # [1, 4, 4]
        return self.linear(y.flatten(1))


def test_every_product_is_counted(tiny: Model) -> None:
    from cortado.api import prepare
    from cortado.options import LinearWeights

    x = torch.randn(1, 3, 8, 8)
    model = prepare(Products(), (x,), [(x,)], name="products")
    for linear in LinearWeights:
        report = model.compile("cortex-m4", Options(linear=linear)).report
        counts = [layer.macs for layer in report.layers if layer.macs]
        assert counts == [8 * 8 * 8 * 27, 8 * 8 * 8 * 9, 8 * 8 * 8 * 4 * 4, 4 * 4 * 256, 16 * 5]
        assert report.macs == sum(counts)
