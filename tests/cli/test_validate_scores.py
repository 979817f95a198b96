"""`cortado validate` with labels and thresholds: the same scores as evaluate's, and the reference computed once."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cortado.artifact.opened import Artifact
from helpers.cli import Run, refused
from helpers.paths import MODELS

BLOBS = f"{MODELS / 'blobs.py'}:make"
SAMPLES = 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A compiled classifier, and samples and labels beside it."""
    from cortado.api import compile
    from models.blobs import calibration, make, points

    place = tmp_path_factory.mktemp("blobs")
    model, inputs = make()
    compile(model, inputs, "cortex-m4", calibration(), name="blobs").save(place / "out")
    x, labels = points(SAMPLES, seed=9)
    np.savez(place / "x.npz", input=x.numpy())
    np.save(place / "y.npy", labels.numpy())
    np.save(place / "wrong.npy", (labels.numpy() + 1) % 3)
    return place


@pytest.mark.qemu
def test_labels_and_thresholds(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of labels that are all wrong: every place is bit-exact, and the accuracy is what fails."""
    computed = []
    runs = Artifact.runs

    def counted(self: Artifact, *arguments: Any) -> Any:
        for values in runs(self, *arguments):
            computed.append(values)
            yield values

    monkeypatch.setattr(Artifact, "runs", counted)
    data = ("--inputs", folder / "x.npz", "--labels", folder / "wrong.npy", "--model", BLOBS)
    done = run(
        "validate", folder / "out", *data, "--min-accuracy", "90%", "--max-drop", "1%", "--min-sqnr", 20, "--json"
    )
    assert done.code == 1
    assert len(computed) == SAMPLES  # for C here, the board and ExecuTorch together
    found = done.json
    assert found["bit_exact"]
    assert [place["place"] for place in found["places"]] == ["reference", "host", "mps2-an386", "executorch"]
    assert [place["exact_samples"] for place in found["places"][1:]] == [SAMPLES] * 3
    assert found["accuracy"] < 0.5
    assert found["accuracy_drop"] == found["float_accuracy"] - found["accuracy"] == 0
    assert found["sqnr_db"] == pytest.approx(found["places"][0]["sqnr"])
    (problem,) = found["problems"]
    assert problem == f"the accuracy is {found['accuracy']:.2%}, expected 90.00% or more"
    assert problem in done.err
    phases = [line.split("] ")[1].split(",")[0] for line in done.err.splitlines() if line.startswith("[")]
    assert list(dict.fromkeys(phases)) == ["load", "reference", "float model", "host", "mps2-an386", "executorch"]


@pytest.mark.qemu
def test_accuracies_for_people(run: Run, folder: Path) -> None:
    data = ("--inputs", folder / "x.npz", "--labels", folder / "y.npy")
    done = run("validate", folder / "out", *data, "--min-accuracy", "0.5")
    assert done.code == 0, done.err
    header, accuracy = (line.split() for line in done.out.splitlines()[-2:])
    assert header == ["INTEGERS"]
    assert accuracy[0] == "accuracy"
    assert float(accuracy[1].rstrip("%")) >= 50


def test_labels_without_samples_and_thresholds_without_labels(run: Run, folder: Path) -> None:
    refused(run("validate", folder / "out", "--labels", folder / "y.npy"), "give the samples with --inputs")
    refused(run("validate", folder / "out", "--min-accuracy", "0.5"), "a threshold for the accuracy was given")
    refused(run("validate", folder / "out", "--min-sqnr", "20"), "name it with --model")
