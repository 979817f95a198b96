"""The forms in which a user's model and calibration data come."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from cortado.frontend.capture.inputs import Inputs
from cortado.models import sources as models
from cortado.models import zoo
from helpers.cli import TINY, TWO, Run

# ---- the user's models --------------------------------------------------------------------------------------------


def same(source: models.Source, name: str) -> None:
    """It is the tiny network, with its example."""
    module = models._import_file(TINY)
    x = module.sample(3)
    assert source.name == name
    assert len(source.example_inputs) == 1
    torch.testing.assert_close(source.example_inputs[0], module.sample(0), rtol=0, atol=0)
    assert not source.model.training
    with torch.no_grad():
        torch.testing.assert_close(source.model(x), module.Tiny()(x))


def test_a_python_file() -> None:
    same(models.load_model(str(TINY)), "tiny")


def test_a_function_of_a_python_file() -> None:
    same(models.load_model(f"{TINY}:make"), "tiny_make")


def test_a_file_in_a_folder_with_a_colon(tmp_path: Path) -> None:
    (tmp_path / "a:b").mkdir()
    place = shutil.copy(TINY, tmp_path / "a:b" / "my file.py")
    same(models.load_model(str(place)), "my file")
    same(models.load_model(f"{place}:make"), "my file_make")


def test_a_class_is_instantiated() -> None:
    source = models.load_model(str(TWO))
    assert type(source.model).__name__ == "Two"
    assert [tuple(x.shape) for x in source.example_inputs] == [(1, 6), (1, 2, 5, 7)]


def test_a_package_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "netz_paket"
    package.mkdir()
    (package / "__init__.py").touch()
    shutil.copy(TINY, package / "nets.py")
    monkeypatch.chdir(tmp_path)
    same(models.load_model("netz_paket.nets:make"), "nets_make")


def test_an_exported_program(tmp_path: Path, run: Run) -> None:
    """Trained models are often saved in training mode: dropout and batch norm have to become those of inference."""
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.Dropout(0.5), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers)
    with torch.no_grad():
        for _ in range(20):
            model(torch.randn(4, 1, 6, 6))
    example = (torch.randn(1, 1, 6, 6),)
    torch.export.save(torch.export.export(model.train(), example), tmp_path / "my-net.v2.pt2")
    source = models.load_model(str(tmp_path / "my-net.v2.pt2"))
    assert source.name == "my-net.v2"
    model.eval()
    with torch.no_grad():
        torch.testing.assert_close(source.model(*example), model(*example))
    done = run("compile", tmp_path / "my-net.v2.pt2", "--calibration", "random", "-o", tmp_path / "out")
    assert done.code == 0, done.err
    assert "only open files you trust" in done.err


def test_every_zoo_name_is_a_model() -> None:
    source = models.load_model("ds_cnn")
    assert source.labels == zoo.get("ds_cnn").labels
    assert source.calibration is not None
    assert len(models.load_calibration(None, source)) == 100
    assert len(models.load_calibration(None, models.load_model("mobilenet_v1_025"))) == models.CALIBRATION_COUNT


# ---- calibration data ---------------------------------------------------------------------------------------------


def equal(found: list[Inputs], expected: list[Inputs]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        for a, b in zip(one, other, strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=0)


def test_calibration_files(tmp_path: Path) -> None:
    """One input per file, or many along the first dimension; one array for each input of the model."""
    source = models.load_model(str(TWO))
    batches = models._import_file(TWO).batches()
    vectors, images = (torch.cat(column) for column in zip(*batches, strict=True))
    np.savez(tmp_path / "all.npz", vectors.numpy(), images.numpy())
    torch.save([vectors, images], tmp_path / "all.pt")
    for name in ("all.npz", "all.pt"):
        equal(models.load_calibration(str(tmp_path / name), source), batches)
    equal(models.load_calibration(f"{TWO}:batches", source), batches)
    (tmp_path / "folder").mkdir()
    for number, (vector, image) in enumerate(batches):
        np.savez(tmp_path / "folder" / f"{number}.npz", vector.numpy(), image.numpy())
    (tmp_path / "folder" / "README.txt").write_text("not data")
    equal(models.load_calibration(str(tmp_path / "folder"), source), batches)


def test_calibration_from_npy(tmp_path: Path) -> None:
    source = models.load_model(str(TINY))
    batches = models._import_file(TINY).calibration()
    stacked = torch.cat([batch[0] for batch in batches]).numpy()
    np.save(tmp_path / "many.npy", np.asfortranarray(stacked))
    equal(models.load_calibration(str(tmp_path / "many.npy"), source), batches)
    np.save(tmp_path / "one.npy", stacked[:1].astype(">f4"))
    equal(models.load_calibration(str(tmp_path / "one.npy"), source), batches[:1])


def test_random_calibration_is_the_same_every_time() -> None:
    source = models.load_model(str(TWO))
    first, second = (models.load_calibration("random", source) for _ in range(2))
    equal(first, second)
    assert len({batch[0].numpy().tobytes() for batch in first}) == len(first) == models.CALIBRATION_COUNT
    assert all(bool((x.abs() <= 1).all()) for batch in first for x in batch)
