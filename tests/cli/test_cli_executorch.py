"""`cortado run` with ExecuTorch's runtime: a compiled folder, the .pte in it, a .pte by itself."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from cortado.artifact.opened import Artifact
from cortado.cli.entry import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("executorch") / "ds_cnn"
    extras = ["--bundleio", "--etrecord"]
    assert main(["compile", "-m", "ds_cnn", "-t", "cortex-m4", "-q", "-o", str(path), *extras]) == 0
    return path


@pytest.mark.cases(1)
@pytest.mark.host
@pytest.mark.parametrize("file", ["", "ds_cnn.pte"])
def test_the_real_runtime_gives_the_references_bits(
    folder: Path, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(folder / file), "--on", "executorch", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["board"], found["target"], found["bit_exact"]) == ("executorch", "cortex-m4", True)
    values = Artifact.open(folder).values(Artifact.open(folder).example())
    expected = values[Artifact.open(folder).graph.outputs[0]].numpy()
    assert np.array_equal(np.array(found["outputs"]["output0"], dtype=np.float32), expected)


@pytest.mark.host
def test_the_figures_of_a_run_are_those_of_the_pte(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(folder / "ds_cnn.pte")]) == 0
    out, pte = capsys.readouterr().out, Artifact.open(folder).report.pte
    assert pte is not None
    assert f".pte {pte.bytes:,} bytes, arena {pte.arena_bytes:,} bytes" in out
    assert "RAM" not in out
    assert "flash" not in out


def test_the_extras_users_know_are_written(folder: Path) -> None:
    assert (folder / "ds_cnn.bpte").stat().st_size > (folder / "ds_cnn.pte").stat().st_size
    assert (folder / "ds_cnn.etrecord").is_file()


@pytest.mark.host
def test_a_pte_by_itself_runs_unchecked(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lone, given = tmp_path / "model.pte", tmp_path / "x.npy"
    shutil.copy(folder / "ds_cnn.pte", lone)
    np.save(given, Artifact.open(folder).example()[0])
    assert main(["run", str(lone), "--input", str(given)]) == 0
    assert "not checked" in capsys.readouterr().out
    assert main(["run", str(lone)]) == 2
    assert "--input" in capsys.readouterr().err


@pytest.mark.parametrize("lone", [False, True])
def test_another_target_than_asked_is_refused(
    folder: Path, tmp_path: Path, lone: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(folder / "ds_cnn.pte", tmp_path / "model.pte")
    place = tmp_path / "model.pte" if lone else folder
    assert main(["run", str(place), "--target", "cortex-m55"]) == 2
    assert "was compiled for cortex-m4, expected cortex-m55" in capsys.readouterr().err
    assert main(["inspect", str(folder / "ds_cnn.pte"), "--target", "cortex-m55"]) == 2
