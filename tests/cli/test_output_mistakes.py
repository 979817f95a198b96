"""Output folders that won't do: one clear sentence, nothing half-written."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from cortado.artifact.manifest import REPORT
from cortado.artifact.opened import Artifact
from cortado.base.errors import CortadoError
from helpers.cli import Run, compile_tiny, one_sentence

pytestmark = pytest.mark.usefixtures("here")


def test_an_output_folder_with_other_files(run: Run, here: Path) -> None:
    (here / "mine" / "deep").mkdir(parents=True)
    (here / "mine" / "deep" / "thesis.txt").write_text("precious")
    done = compile_tiny(run, "-t", "cortex-m4", "-o", "mine")
    one_sentence(done, "can't write to mine: it holds 'deep/thesis.txt', which is not part of a compiled model")
    assert (here / "mine" / "deep" / "thesis.txt").read_text() == "precious"
    assert "export" not in done.err, "it should be seen before the work"


def test_a_model_folder_with_a_file_of_the_users(run: Run, here: Path, tiny_artifact: Artifact) -> None:
    shutil.copytree(tiny_artifact.folder, here / "model")
    (here / "model" / "main.c").write_text("int main(void) { return 0; }\n")
    one_sentence(compile_tiny(run, "-t", "cortex-m4", "-o", "model"), "it holds 'main.c'")
    one_sentence(run("run", "model", "--on", "host"), "main.c is not a file of this model; move it out of the folder")
    assert (here / "model" / "main.c").is_file()


def test_a_report_of_somebody_elses(run: Run, here: Path) -> None:
    """Another program's report.json doesn't make a folder ours to replace."""
    (here / "other").mkdir()
    (here / "other" / REPORT).write_text('{"artifacts": {"data.txt": "0"}}')
    (here / "other" / "data.txt").write_text("precious")
    one_sentence(compile_tiny(run, "-t", "cortex-m4", "-o", "other"), "not part of a compiled model")
    assert (here / "other" / "data.txt").read_text() == "precious"


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("file", "can't write to file: it is a file, expected a folder"),
        ("file/below", "can't write to file/below: "),
        ("/proc/cortado/x", "can't write to /proc/cortado/x: "),
        ("n" * 300, ": File name too long; choose another folder"),
    ],
)
def test_an_output_folder_that_can_not_be_written(run: Run, here: Path, output: str, message: str) -> None:
    (here / "file").write_text("mine")
    one_sentence(compile_tiny(run, "-t", "cortex-m4", "-o", output), message)
    assert [path.name for path in here.iterdir()] == ["file"]


def test_no_permission(run: Run, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked of the system, not tried: root may write anywhere."""
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != here)
    one_sentence(compile_tiny(run, "-o", "out"), f"can't write to out: no permission in {here}; choose a folder")
    done = compile_tiny(run, "-o", tmp_path / "elsewhere", "-i", "graphs")
    one_sentence(done, f"can't write to graphs: no permission in {here}")


def test_a_disk_that_is_full_leaves_the_old_model(
    run: Run, here: Path, tiny_artifact: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(tiny_artifact.folder, here / "model")
    write = Path.write_bytes

    def full(path: Path, data: bytes) -> int:
        if path.suffix == ".pte":
            raise OSError(28, "No space left on device")
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    one_sentence(compile_tiny(run, "-t", "cortex-m3", "-o", "model"), "can't write to model: No space left on device")
    one_sentence(
        compile_tiny(run, "-t", "cortex-m3", "-o", "new"),
        "can't write to new: No space left on device; make room there",
    )
    monkeypatch.undo()
    assert [path.name for path in here.iterdir()] == ["model"]
    assert Artifact.open(here / "model").report == tiny_artifact.report


def test_several_targets_do_not_go_into_one_model(run: Run, here: Path, tiny_artifact: Artifact) -> None:
    shutil.copytree(tiny_artifact.folder, here / "model")
    done = compile_tiny(run, "-t", "cortex-m4,cortex-m3", "-o", "model")
    one_sentence(done, "can't write several targets into model: it holds one compiled model")


def test_one_target_does_not_go_beside_several(run: Run, here: Path, tiny_artifact: Artifact) -> None:
    for target in ("cortex-m4", "cortex-m55"):
        shutil.copytree(tiny_artifact.folder, here / "several" / target)
    done = compile_tiny(run, "-t", "cortex-m3", "-o", "several")
    one_sentence(
        done,
        "several: it holds one folder for each of several compiled models",
        "several targets (cortex-m4, cortex-m55)",
        "another folder",
    )
    for command in ("run", "validate"):
        one_sentence(run(command, "several"), "several/cortex-m4, several/cortex-m55")


def test_one_target_that_fails_leaves_none(run: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cortado.api import Model

    real = Model.compile

    def fails_on_m3(model: Model, target: Any, *rest: Any) -> Any:
        if target.target_string == "cortex-m3":
            raise CortadoError("not on this one")
        return real(model, target, *rest)

    monkeypatch.setattr(Model, "compile", fails_on_m3)
    one_sentence(compile_tiny(run, "-t", "cortex-m4,cortex-m3", "-o", "out"), "not on this one")
    assert list(here.iterdir()) == []


def test_intermediates_inside_the_output(run: Run, here: Path) -> None:
    done = compile_tiny(run, "-t", "cortex-m4", "-o", "out", "-i", "out/graphs")
    one_sentence(done, "can't write the graphs to out/graphs: that is inside the output folder out")
    assert list(here.iterdir()) == []
