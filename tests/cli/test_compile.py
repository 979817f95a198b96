"""`cortado compile` when all goes well; inside this process where possible, for torch takes seconds to import."""

import io
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cortado.artifact.manifest import REPORT
from cortado.artifact.opened import EXPECTED, Artifact
from cortado.artifact.report import ChipReport
from cortado.base.errors import CortadoError
from cortado.cli.tables import ProgressBar
from cortado.plan.lowered import npz_bytes
from helpers.cli import TINY, Run, compile_tiny
from helpers.paths import MODELS

# ---- compile ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder whose name is as awkward as a folder's name gets; it is also the current one."""
    path = tmp_path_factory.mktemp('it\'s a "größe" $HOME; rm -rf *')
    before = Path.cwd()
    os.chdir(path)
    yield path
    os.chdir(before)


@pytest.mark.host
def test_compile_and_run_are_json_on_standard_output(run: Run, folder: Path) -> None:
    done = compile_tiny(run, "-t", "cortex-m4", "-o", folder / "tiny out", "--json")
    assert done.code == 0, done.err
    assert done.json == json.loads((folder / "tiny out" / REPORT).read_text())
    assert done.json["calibration"] == {"data": f"{TINY}:calibration", "batches": 8}
    ran = run("run", folder / "tiny out", "--on", "host", "--json")
    assert ran.code == 0, ran.err
    assert len(ran.out.splitlines()) == 1
    assert set(ran.json) >= {"board", "target", "bit_exact", "instructions", "outputs"}
    assert (ran.json["board"], ran.json["target"], ran.json["bit_exact"]) == ("host", "cortex-m4", True)
    assert ran.json["instructions"] is None
    assert np.array(ran.json["outputs"]["output0"]).shape == (1, 3)


@pytest.mark.qemu
def test_run_on_the_targets_board(run: Run, tiny_artifact: Artifact) -> None:
    done = run("run", tiny_artifact.folder)
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0] == "tiny for cortex-m4 on mps2-an386"
    assert lines[1].startswith("top-1: class ")
    assert "bit-exact with the reference" in lines
    assert any(line.startswith("RAM ") and "of stack, flash " in line for line in lines)
    again = run("run", tiny_artifact.folder, "--on", "mps2-an386", "--chip", "stm32l4r5", "--json").json
    assert lines[-2].startswith(f"{again['instructions']:,} instructions")
    assert lines[-2].endswith("(exact)")
    cycles, time = again["cycles"], again["milliseconds"]
    assert again["instructions"] < cycles["low"] < cycles["typical"] < cycles["high"] < 3 * again["instructions"]
    between = f"{cycles['typical']:,} cycles at zero wait states, {cycles['low']:,} to {cycles['high']:,}"
    assert lines[-1] == f"{between} (a model; cortex-m4, grade: table)"
    assert time == {name: round(value / 120e3, 6) for name, value in cycles.items()}


def test_compile_writes_a_summary_and_plain_progress(run: Run, folder: Path) -> None:
    done = compile_tiny(run, "-t", "cortex-m0plus", "-o", folder / "plain", "--intermediates", folder / "graphs")
    assert done.code == 0, done.err
    labels = [line.split("  ")[0].strip() or line.split()[0] for line in done.out.splitlines()]
    assert labels == ["model", "RAM", "flash", ".pte", "operators", "written to"] or "written to" in done.out
    assert "tiny for cortex-m0plus" in done.out
    phases = [line.split("] ")[1] for line in done.err.splitlines() if line.startswith("[")]
    assert phases[:3] == ["import", "load", "export"]
    assert phases[-1] == "write"
    assert sorted(path.name for path in (folder / "graphs").iterdir())[0] == "01-fold-qparams.txt"


@pytest.mark.qemu
def test_a_chip_sets_the_target_and_the_summary_says_how_much_of_it_is_taken(run: Run, folder: Path) -> None:
    done = compile_tiny(run, "--chip", "microbit", "-o", folder / "small")
    assert done.code == 0, done.err
    report = Artifact.open(folder / "small").report
    microbit = ChipReport(name="microbit", clock_hz=16_000_000, ram_bytes=16_384, flash_bytes=262_144)
    assert (report.target, report.chip) == ("cortex-m0", microbit)
    assert report.memory is not None
    line = next(line for line in done.out.splitlines() if line.startswith("       chip"))
    share = f"{100 * report.memory.arena_bytes / 16_384:.1f}%"
    assert f"microbit: fits; {share} of 16,384 bytes of RAM in one piece, " in line
    assert line.endswith("% of 262,144 bytes of flash")
    (line,) = (line for line in done.out.splitlines() if line.startswith("       time"))
    assert re.search(
        r"  [\d.]+ ms on microbit at 16 MHz; [\d,]+ cycles at zero wait states \(a model; cortex-m0, ", line
    )


def test_progress_on_a_terminal_is_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    progress = ProgressBar(["quantize", "lower", "host"])
    progress.start -= 3700  # an hour ago, and a little
    progress("quantize")
    progress("host", 1200, 5000)
    progress.stop()
    (task,) = progress.bar.tasks
    assert (task.description, task.completed, task.total, task.fields["count"]) == (
        "host",
        1200,
        5000,
        "1,200 of 5,000",
    )
    plain = re.sub(r"\x1b\[[\d;?]*\w", "", terminal.getvalue())
    assert re.search(r" 3/3 host .*1,200 of 5,000 1:01:4\d", plain)
    assert " s] " not in terminal.getvalue()


def test_progress_elsewhere_is_a_line_for_each_phase_and_now_and_then_one_more(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seconds = iter([0.0, 1.0, 2.0, 13.0, 14.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(seconds))
    progress = ProgressBar()
    for done in (0, 64, 128, 192):
        progress("host", done, 5000)
    assert capsys.readouterr().err.splitlines() == ["[   1.0 s] host", "[  13.0 s] host, 128 of 5,000"]


def test_several_targets_from_one_calibration(run: Run, folder: Path) -> None:
    done = compile_tiny(run, "-t", "cortex-m4,cortex-m55+nomve,cortex-m4", "-o", folder / "several", "--json")
    assert done.code == 0, done.err
    assert [report["target"] for report in done.json] == ["cortex-m4", "cortex-m55+nomve"]
    for report in done.json:
        assert Artifact.open(folder / "several" / report["target"]).report.to_json() == report
    assert done.err.count("quantize") == 1


@pytest.mark.host
def test_the_target_chooses_among_several(run: Run, tiny_artifact: Artifact, tmp_path: Path) -> None:
    shutil.copytree(tiny_artifact.folder, tmp_path / "cortex-m4")
    (tmp_path / "cortex-m55").mkdir()
    (tmp_path / "cortex-m55" / REPORT).touch()
    done = run("run", tmp_path, "--target", "cortex-m4", "--on", "host")
    assert (done.code, done.out.splitlines()[0]) == (0, "tiny for cortex-m4 on host"), done.err
    done = run("validate", tmp_path, "--target", "cortex-m4,cortex-m3")
    assert done.code == 2
    assert str(tmp_path / "cortex-m4") in done.err


@pytest.mark.qemu
def test_the_example_runs_without_torch(tiny_artifact: Artifact) -> None:
    """Loading torch takes longer than all the rest."""
    code = "import sys; from cortado.cli import main; assert main(sys.argv[1:]) == 0; assert 'torch' not in sys.modules"
    arguments = [sys.executable, "-c", code, "run", str(tiny_artifact.folder)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "bit-exact" in done.stdout


def test_a_recorded_result_that_does_not_fit_is_refused(tiny_artifact: Artifact, tmp_path: Path) -> None:
    folder = tmp_path / "other"
    shutil.copytree(tiny_artifact.folder, folder)
    (folder / EXPECTED).write_bytes(npz_bytes({"input0": np.zeros(3, np.int8), "output0": np.zeros(3, np.int8)}))
    with pytest.raises(CortadoError, match=r"expected\.npz doesn't fit the model \('input0' is .*\); compile it again"):
        replace(tiny_artifact, folder=folder).run([tiny_artifact.example()], "host")


@pytest.mark.qemu
def test_a_model_for_any_core_runs_as_on_the_one_named(run: Run, tmp_path: Path) -> None:
    assert compile_tiny(run, "-t", "cortex-m", "-o", tmp_path / "any").code == 0
    for core, board in (("cortex-m0plus", "mps2-an385"), ("cortex-m55", "mps3-an547")):
        done = run("run", tmp_path / "any", "--target", core)
        assert done.code == 0, done.err
        assert f"for {core} on {board}" in done.out


def test_default_output_and_old_spellings(run: Run, folder: Path) -> None:
    arguments = ["-q", "--model_name", TINY, "--calibration_data", TINY, "--name", "My Model v1.2-b"]
    done = run("compile", *arguments, "--target", "cortex-m3")
    assert done.code == 0, done.err
    artifact = Artifact.open(folder / "build" / "My Model v1.2-b")
    assert artifact.report.model == "My Model v1.2-b"
    assert artifact.report.prefix.isidentifier()


@pytest.mark.cases(1)
@pytest.mark.host
@pytest.mark.parametrize("options", [["--optimize", "ram"], ["--optimize", "time"], ["--io", "float"]], ids=" ".join)
def test_options_change_the_bundle_and_not_the_result(
    run: Run, tmp_path: Path, tiny_artifact: Artifact, options: list[str]
) -> None:
    np.save(tmp_path / "x.npy", tiny_artifact.example()[0])
    same = ("--calibration-method", "minmax", "--no-bias-correction")  # as the fixture has it
    assert compile_tiny(run, "-t", "cortex-m4", *same, *options, "-o", tmp_path / "out").code == 0
    results = []
    for folder in (tiny_artifact.folder, tmp_path / "out"):
        done = run("run", folder, "--on", "host", "--input", tmp_path / "x.npy", "--json")
        assert done.code == 0, done.err
        results.append(done.json["outputs"])
    assert results[0] == results[1]
    assert Artifact.open(tmp_path / "out").report.to_json()["options"][options[0].removeprefix("--")] == options[1]


def test_random_calibration_is_marked(run: Run, folder: Path) -> None:
    done = run("compile", TINY, "--calibration", "random", "-t", "cortex-m3", "-o", folder / "random")
    assert done.code == 0, done.err
    assert "results are meaningless" in done.out
    calibration = Artifact.open(folder / "random").report.calibration
    assert calibration is not None
    assert calibration.data == "random"


def test_what_a_users_file_prints_stays_out_of_the_json(run: Run, folder: Path) -> None:
    file = folder / "prints.py"
    file.write_text(f"import sys\nsys.path.insert(0, {str(MODELS)!r})\nprint('hello')\nfrom tiny import *\n")
    done = run("compile", file, "--calibration", file, "-t", "cortex-m3", "-o", folder / "prints", "--json")
    assert done.code == 0, done.err
    assert done.json["model"] == "prints"
    assert "hello" in done.err


# ---- writing over -------------------------------------------------------------------------------------------------


def test_compiling_again_replaces_the_model_and_keeps_the_link(run: Run, folder: Path) -> None:
    """An older model's files must not stay."""
    place, link = folder / "again", folder / "link"
    assert compile_tiny(run, "-t", "cortex-m4", "-o", place, "--name", "older").code == 0
    link.symlink_to(place, target_is_directory=True)
    assert compile_tiny(run, "-t", "cortex-m3", "-o", link, "--name", "newer").code == 0
    assert link.is_symlink()
    found = {str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()}
    assert found == {REPORT, *Artifact.open(place).report.artifacts}
    assert not any(name.startswith("older") for name in found)
    hidden = [path.name for path in (*place.iterdir(), *folder.iterdir()) if path.name.startswith(".")]
    assert hidden == []


def test_an_empty_folder_may_be_written_to(run: Run, folder: Path) -> None:
    (folder / "empty").mkdir()
    assert compile_tiny(run, "-t", "cortex-m3", "-o", folder / "empty").code == 0
    Artifact.open(folder / "empty")
