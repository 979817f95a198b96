"""Trained networks of the zoo on the command line: their own test sets, and recordings of words."""

from pathlib import Path
from typing import Any

import pytest

from cortado.artifact.opened import Artifact
from cortado.models import zoo
from cortado.models.zoo._trained import load_accuracy
from helpers.cli import Run, refused

QUICK = ("mobilenet_tiny", "deep_autoencoder")
TRAINED = [name for name in zoo.names() if zoo.get(name).trained]


def compiled(run: Run, name: str, folder: Path) -> Path:
    done = run("compile", name, "--target", "cortex-m4", "-q", "-o", folder / name)
    assert done.code == 0, done.err
    return folder / name


@pytest.mark.cases(1)
@pytest.mark.host
@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in TRAINED]
)
def test_the_shipped_test_set_gives_the_figures_that_are_told(run: Run, tmp_path: Path, name: str) -> None:
    folder = compiled(run, name, tmp_path)
    done = run("evaluate", folder, "--json")
    assert done.code == 0, done.err
    found: dict[str, Any] = done.json
    figures = load_accuracy(name)
    key = "auc" if zoo.get(name).rebuilds else "accuracy"
    assert found["samples"] == figures.samples
    # Another machine may calibrate to a scale that differs in its last bit.
    assert found[key] == pytest.approx(figures.accuracy, abs=0.004)
    assert found[f"float_{key}"] == pytest.approx(figures.float_accuracy, abs=0.004)
    assert found["bit_exact"]["reference"]["exact"]
    assert str(figures) in run("run", folder, "--on", "host").out


@pytest.mark.host
def test_data_of_ones_own_are_scored_as_the_zoos_are(run: Run, tmp_path: Path) -> None:
    import numpy as np

    folder = compiled(run, "deep_autoencoder", tmp_path)
    inputs, labels = zoo.get("deep_autoencoder").test_set()
    np.save(tmp_path / "x.npy", inputs[80:120].numpy())
    np.save(tmp_path / "y.npy", labels[80:120].numpy())
    done = run("evaluate", folder, "--data", tmp_path / "x.npy", "--labels", tmp_path / "y.npy")
    assert done.code == 0, done.err
    assert "AUC" in done.out
    refused(run("evaluate", folder, "--labels", tmp_path / "y.npy"), "labels were given without data")
    refused(run("evaluate", folder, "--min-accuracy", 0.5), "the accuracy was given, but it can't be computed")
    refused(run("run", folder, "--recording", "yes"), "deep_autoencoder does not take sound")


def test_other_models_have_no_test_set_and_no_recordings(run: Run, tiny_artifact: Artifact) -> None:
    refused(run("evaluate", tiny_artifact.folder), "no dataset: give samples with --data")
    folder = tiny_artifact.folder
    refused(run("run", folder, "--recording", "yes"), "tiny is not a zoo network that takes sound; give --input")
    refused(run("run", folder, "--recording", "yes", "--input", "x.npy"), "give only one of --input and --recording")
