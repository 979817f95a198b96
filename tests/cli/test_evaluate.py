"""`cortado evaluate`: scores for people and programs, thresholds as exit codes, data that are damaged or don't fit."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cortado.artifact.opened import PAGE, Artifact
from cortado.cli.evaluate import SHOWN_CLASSES, _class_lines
from cortado.scoring.scores import Score
from helpers.cli import Run, forge_checksums, refused
from helpers.paths import MODELS

BLOBS = MODELS / "blobs.py"
KEYS = {
    *("model", "target", "float_model", "samples", "accuracy", "float_accuracy", "accuracy_drop", "top_k", "problems"),
    *("top_k_accuracy", "float_top_k_accuracy", "auc", "float_auc", "same_best", "sqnr_db", "outputs", "classes"),
    *("confusion", "float_confusion", "bit_exact", "cpu_seconds", "agreement"),
}


@dataclass(frozen=True)
class Files:
    """A compiled classifier, 60 samples, their labels."""

    folder: Path
    x: Path
    y: Path

    def arguments(self, *rest: object) -> tuple[object, ...]:
        return ("evaluate", self.folder, "--data", self.x, "--labels", self.y, *rest)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    from cortado.api import compile
    from models.blobs import calibration, make, points

    place = tmp_path_factory.mktemp("blobs")
    model, inputs = make()
    compile(model, inputs, "cortex-m4", calibration(), name="blobs").save(place / "out")
    x, labels = points(60, seed=9)
    np.savez(place / "x.npz", input=x.numpy())
    np.save(place / "y.npy", labels.numpy())
    return Files(place / "out", place / "x.npz", place / "y.npy")


@pytest.mark.qemu
def test_scores_for_programs(run: Run, files: Files) -> None:
    done = run(*files.arguments("--model", f"{BLOBS}:make", "--top-k", 2, "--board-samples", 4, "--json"))
    assert done.code == 0, done.err
    found = done.json
    assert set(found) == KEYS
    assert (found["model"], found["target"], found["samples"]) == ("blobs", "cortex-m4", 60)
    assert found["float_accuracy"] > 0.8
    assert found["accuracy_drop"] == found["float_accuracy"] - found["accuracy"]
    assert found["top_k_accuracy"] >= found["accuracy"] > 0.8
    assert found["sqnr_db"] == found["outputs"][0]["sqnr_db"] > 25
    assert found["classes"] == ["0", "1", "2"]
    assert sum(map(sum, found["confusion"])) == sum(map(sum, found["float_confusion"])) == 60
    compared = {"reference": 2, "mps2-an386": 4}
    wanted = {place: {"samples": count, "exact": True, "lost": None} for place, count in compared.items()}
    assert found["bit_exact"] == wanted
    assert found["problems"] == []
    phases = [line.split("] ")[1] for line in done.err.splitlines() if line.startswith("[")]
    assert phases == ["load", "quantize inputs", "host", "reference", "mps2-an386", "float model"]


@pytest.mark.host
def test_scores_for_people(run: Run, files: Files) -> None:
    done = run(*files.arguments("--model", f"{BLOBS}:make", "--limit", 40, "--save"))
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0] == "blobs for cortex-m4, 40 samples"
    assert lines[1].split() == ["INTEGERS", "FLOAT"]
    assert lines[2].startswith("accuracy  ")
    assert "CLASS SAMPLES RIGHT RIGHT IN FLOAT MOST OFTEN MISTAKEN FOR" in [" ".join(line.split()) for line in lines]
    assert "bit-exact with reference: 2 samples" in lines
    assert "float model" not in done.out
    kept = Artifact.open(files.folder).report.evaluation
    assert kept is not None
    assert kept.accuracy is not None
    assert (kept.samples, f"{kept.accuracy:.2%}") == (40, lines[2].split()[1])
    assert f"{kept.accuracy:.2%}" in (files.folder / PAGE).read_text()


@pytest.mark.host
def test_without_a_float_model_only_the_integers_are_scored(run: Run, files: Files) -> None:
    done = run(*files.arguments())
    assert done.code == 0, done.err
    assert done.out.splitlines()[1].split() == ["INTEGERS"]
    assert "float model not given (name it with --model): only the integers are scored" in done.out
    found = run(*files.arguments("--json")).json
    assert found["accuracy"] > 0.8
    assert (found["float_model"], found["float_accuracy"], found["sqnr_db"], found["outputs"]) == (None, None, None, [])


@pytest.mark.host
def test_a_missed_threshold_is_exit_code_1(run: Run, files: Files) -> None:
    float_model = ("--model", f"{BLOBS}:make")
    done = run(*files.arguments(*float_model, "--min-accuracy", "100%", "--min-sqnr", 90, "--max-drop", 1, "--json"))
    assert done.code == 1
    accuracy, sqnr = done.json["problems"]
    assert accuracy.endswith("expected 100.00% or more")
    assert sqnr.endswith("dB, expected 90 dB or more")
    assert f"cortado: {accuracy}\ncortado: {sqnr}\n" in done.err
    assert run(*files.arguments(*float_model, "--min-accuracy", "0.8", "--min-sqnr", 20, "--max-drop", "10%")).code == 0


def test_a_threshold_that_nothing_tells_is_refused(run: Run, files: Files) -> None:
    refused(run(*files.arguments("--min-sqnr", 20)), "the SQNR was given, but it can't be computed", "--model")
    refused(run(*files.arguments("--max-drop", 0)), "the drop in accuracy was given")
    data = ("evaluate", files.folder, "--data", files.x, "--model", f"{BLOBS}:make")
    refused(run(*data, "--min-accuracy", 0.5), "the accuracy was given", "that needs labels")


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--min-accuracy", "90", "'90' is not between 0 and 1; with a % sign it may be up to 100%"),
        ("--max-drop", "-1%", "argument --max-drop: "),
        ("--min-sqnr", "nan", "'nan' is not a number"),
        ("--limit", "0", "'0' is not a number of at least 1"),
        ("--top-k", "1e3", "'1e3' is not a number of at least 1"),
        ("--board-samples", "x", "'x' is not a number of at least 1"),
    ],
)
def test_options_that_are_no_numbers(run: Run, files: Files, option: str, value: str, message: str) -> None:
    done = run(*files.arguments(f"{option}={value}"))
    assert (done.code, done.out) == (2, "")
    assert message in done.err


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.zeros(59, np.int64), "y.npy holds 59 labels, expected 60: one for each sample of"),
        (np.full(60, 3), "the label of sample 0 is 3, expected 0 to 2, because the model gives 3 scores"),
        (np.zeros((60, 3)), "y.npy has shape [60, 3], expected [60]"),
        (np.array(["a"] * 60), "y.npy holds <U1 values that are not classes"),
    ],
)
def test_labels_that_do_not_fit(
    run: Run, files: Files, tmp_path: Path, labels: np.ndarray[Any, Any], message: str
) -> None:
    np.save(tmp_path / "y.npy", labels)
    refused(run("evaluate", files.folder, "--data", files.x, "--labels", tmp_path / "y.npy"), message)


def test_files_that_are_damaged_or_missing(run: Run, files: Files, tmp_path: Path) -> None:
    def labels(name: str) -> tuple[object, ...]:
        return ("evaluate", files.folder, "--data", files.x, "--labels", tmp_path / name)

    refused(run(*labels("none.npy")), "there is no file")
    refused(run(*labels("none.txt")), "there is no file")
    refused(run(*labels("y.csv")), "expected labels in a .npy, .npz, .txt file")
    (tmp_path / "cut.npy").write_bytes(files.y.read_bytes()[:100])
    refused(run(*labels("cut.npy")), "cut.npy is not a readable .npy file")
    np.savez(tmp_path / "two.npz", a=np.zeros(60), b=np.zeros(60))
    refused(run(*labels("two.npz")), "two.npz holds the arrays a, b, expected one: the labels")
    (tmp_path / "y.txt").write_text("1\ntwo\n")
    refused(run(*labels("y.txt")), "y.txt:2: found 'two', expected a class number")
    (tmp_path / "y.txt").write_bytes(b"\xff\xfe")
    refused(run(*labels("y.txt")), "y.txt is not readable text")
    (tmp_path / "cut.npz").write_bytes(files.x.read_bytes()[:200])
    refused(run("evaluate", files.folder, "--data", tmp_path / "cut.npz"), "cut.npz is not a readable .npz file")
    np.save(tmp_path / "x.npy", np.zeros((3, 5), np.float32))
    refused(run("evaluate", files.folder, "--data", tmp_path / "x.npy"), "has shape [3, 5], expected [1, 4]")
    refused(run("evaluate", files.folder, "--data", files.x), "there is nothing to compare with: give labels")


def test_a_folder_from_elsewhere_needs_trust(run: Run, files: Files, tmp_path: Path) -> None:
    folder = shutil.copytree(files.folder, tmp_path / "foreign")
    page = folder / "report.html"
    page.write_text(page.read_text() + " ")
    forge_checksums(folder)
    elsewhere = Files(folder, files.x, files.y)
    refused(run(*elsewhere.arguments()), "was not compiled by this installation", "--trust")


@pytest.mark.host
def test_a_trusted_folder_is_scored(run: Run, files: Files, tmp_path: Path) -> None:
    folder = shutil.copytree(files.folder, tmp_path / "foreign")
    page = folder / "report.html"
    page.write_text(page.read_text() + " ")
    forge_checksums(folder)
    assert run(*Files(folder, files.x, files.y).arguments("--trust", "--limit", 4)).code == 0


def test_another_target_or_model_is_refused(run: Run, files: Files) -> None:
    refused(run(*files.arguments("--target", "cortex-m55")), "was compiled for cortex-m4, expected cortex-m55")
    refused(run(*files.arguments("--model", "ds_cnn")), "takes inputs of shapes [[1, 1, 49, 10]], the one in")


def test_of_many_classes_the_worst_are_shown() -> None:
    matrix = np.diag([9] * 60)
    matrix[50, 3], matrix[50, 4] = 2, 1
    lines = _class_lines([f"c{i}" for i in range(60)], Score(confusion=matrix), None)
    assert len(lines) == SHOWN_CLASSES + 2
    assert next(line.split() for line in lines if line.startswith("c50")) == [
        "c50",
        "12",
        "75.0%",
        "c3",
        "(2),",
        "c4",
        "(1)",
    ]
    assert lines[-1] == "and 20 classes with better scores"


def test_saturated_values_are_counted_tensor_by_tensor(run: Run, files: Files, tmp_path: Path) -> None:
    """Of samples that are four times as large as those of calibration the input saturates, and is named."""
    x = np.load(files.x)["input"]
    np.savez(tmp_path / "large.npz", input=4 * x)
    shares = {}
    for name, path in {"usual": files.x, "large": tmp_path / "large.npz"}.items():
        done = run("evaluate", files.folder, "--data", path, "--labels", files.y, "--saturation", "--json")
        assert done.code == 0, done.err
        shares[name] = sum(one["saturated"] / one["values"] for one in done.json["saturation"])
        assert all(
            0 < one["saturated"] <= one["values"] and 0 < one["samples"] <= 60 for one in done.json["saturation"]
        )
    assert shares["large"] > shares["usual"] + 0.1
    done = run("evaluate", files.folder, "--data", tmp_path / "large.npz", "--labels", files.y, "--saturation")
    assert "AT AN END" in done.out
