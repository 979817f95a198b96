"""Trained networks of the zoo: weights in 16 bits, samples in 8, accuracies; and the features of speech."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from cortado.base.errors import CortadoError
from cortado.models import zoo
from cortado.models.zoo import Network, _trained
from cortado.models.zoo.sounds import RATE, filters, mfcc


@pytest.fixture
def trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Network:
    """ecg_conv1d as if it had been trained: other weights, ten calibration and four test samples."""
    rng = np.random.default_rng(0)
    network = zoo.get("ecg_conv1d")
    state = {key: value.half().numpy() for key, value in network.build().state_dict().items() if value.ndim}
    state["classifier.bias"] = np.array([1, 2, 3, 4, 1 / 3], np.float16)
    np.savez(tmp_path / "ecg_conv1d.npz", **state)
    np.savez(
        tmp_path / "beats.npz",
        calibration=rng.integers(-128, 128, (10, 1, 360), np.int8),
        inputs=rng.integers(-128, 128, (4, 1, 360), np.int8),
        labels=np.array([0, 4, 2, 2], np.uint8),
        scale=np.float32(0.02),
        offset=np.float32(0.5),
    )
    figures = {"metric": "accuracy", "float_accuracy": 0.75, "accuracy": None, "samples": 4}
    (tmp_path / "accuracy.json").write_text(json.dumps({"ecg_conv1d": figures}))
    monkeypatch.setattr(_trained, "FOLDER", tmp_path)
    return replace(network, data="beats")


def stored(network: Network, key: str) -> np.ndarray:
    array: np.ndarray = np.load(_trained.FOLDER / f"{network.data}.npz", allow_pickle=False)[key]
    return array


def test_weights_are_the_shipped_ones(trained: Network) -> None:
    model = trained.build()
    assert not any(module.training for module in model.modules())
    state = model.state_dict()
    with np.load(_trained.FOLDER / "ecg_conv1d.npz", allow_pickle=False) as weights:
        assert set(weights.files) == {key for key, value in state.items() if value.is_floating_point()}
        assert [key for key in weights.files if not np.array_equal(weights[key], state[key].numpy())] == []
    assert {value.dtype for value in state.values() if value.is_floating_point()} == {torch.float32}


def test_samples_are_codes_with_a_scale_and_an_offset(trained: Network) -> None:
    inputs, labels = trained.test_set()
    expected = stored(trained, "inputs").astype(np.float32) * np.float32(0.02) + np.float32(0.5)
    assert np.array_equal(inputs.numpy(), expected)
    assert labels.tolist() == [0, 4, 2, 2]
    assert torch.equal(trained.example_inputs()[0], inputs[:1])


def test_calibration_is_shuffled_by_its_seed(trained: Network) -> None:
    first, again, other = trained.calibration(10), trained.calibration(4), trained.calibration(10, seed=1)
    assert {x.shape for (x,) in first} == {(1, 1, 360)}
    assert all(torch.equal(x, y) for (x,), (y,) in zip(first, again, strict=False))
    assert not all(torch.equal(x, y) for (x,), (y,) in zip(first, other, strict=True))
    sums = [sorted(x.sum().item() for (x,) in samples) for samples in (first, other)]
    assert sums[0] == sums[1] == sorted((_trained.load_samples("beats").calibration.sum((1, 2))).tolist())
    with pytest.raises(CortadoError, match="ecg_conv1d: asked for 11 calibration inputs; it comes with 10"):
        trained.calibration(11)


def test_descriptions_say_what_was_measured(trained: Network) -> None:
    described = trained.describe()
    assert (described.trained, described.metric) == (True, "accuracy")
    assert (described.float_accuracy, described.accuracy) == (0.75, None)
    assert str(trained.accuracy()) == "accuracy 0.750 in float"


def test_random_weights_have_no_test_set() -> None:
    with pytest.raises(CortadoError, match="mobilenet_v2 has random weights, so there are no samples"):
        zoo.get("mobilenet_v2").test_set()


def test_gain_is_seen_by_the_first_coefficient_alone() -> None:
    sound = torch.randn(1, RATE, generator=torch.Generator().manual_seed(0)) * 0.1
    quiet, loud = mfcc(sound), mfcc(4 * sound)
    assert quiet.shape == (1, 1, 49, 10)
    # A factor adds log(4) to each of 40 bands; the first cosine is constant, 1 / sqrt(40), in tenths.
    assert torch.allclose((loud - quiet)[..., 0], torch.tensor(np.sqrt(40) * np.log(4) / 10).float(), atol=2e-3)
    assert (loud - quiet)[..., 1:].abs().max() < 2e-3


def test_a_tone_is_heard_in_its_own_band() -> None:
    hertz = torch.arange(513) * RATE / 1024
    centres = (filters() * hertz[:, None]).sum(0) / filters().sum(0)
    assert (centres.diff() > 0).all()
    spectrum = torch.zeros(513)
    spectrum[64] = 1.0  # 1 kHz
    heard = spectrum @ filters()
    assert abs(centres[heard.argmax()] - 1000) < 60
    assert (heard > 0).sum() <= 2
