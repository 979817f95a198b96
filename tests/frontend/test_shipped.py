"""The trained networks of the zoo: their shipped weights, samples, recordings and accuracies belong together."""

import contextlib
import json
import wave
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from cortado.base.errors import CortadoError
from cortado.models import zoo
from cortado.models.zoo import sounds
from cortado.models.zoo._trained import FOLDER, load_accuracy, load_clips
from cortado.models.zoo.sounds import RATE

TRAINED = [name for name in zoo.names() if zoo.get(name).trained]
MOST_BYTES = 1_900_000
LEAST = {
    "ds_cnn": 0.93,
    "kws_stream": 0.91,
    "kws_gru": 0.91,
    "resnet8": 0.88,
    "deep_autoencoder": 0.85,
    "ecg_conv1d": 0.97,
    "imu_lstm": 0.79,
    "mobilenet_tiny": 0.84,
    "mobilenet_v1_pruned": 0.84,
}
trained_network = pytest.mark.parametrize("name", TRAINED)


@cache
def scores(name: str) -> Tensor:
    inputs, _ = zoo.get(name).test_set()
    with torch.no_grad():
        return zoo.get(name).build()(inputs)


def right(name: str) -> float:
    """The metric that accuracy.json names: of classes, or of pairs of a normal and an anomalous sample."""
    inputs, labels = zoo.get(name).test_set()
    if zoo.get(name).labels is not None:
        return (scores(name).argmax(1) == labels).double().mean().item()
    errors = (scores(name) - inputs).square().mean(1)
    return (errors[labels == 1][:, None] > errors[labels == 0]).double().mean().item()


@pytest.mark.cases(2)
@trained_network
def test_the_float_network_is_as_accurate_as_is_said(name: str) -> None:
    figures = load_accuracy(name)
    # Another machine may round a score that is nearly a tie to the other side.
    assert figures.float_accuracy == pytest.approx(right(name), abs=0.004)
    assert figures.float_accuracy >= LEAST[name]
    assert zoo.get(name).describe().float_accuracy == figures.float_accuracy


@trained_network
def test_int8_was_measured(name: str) -> None:
    figures = load_accuracy(name)
    assert figures.accuracy == pytest.approx(figures.float_accuracy, abs=0.015)
    assert figures.samples == len(zoo.get(name).test_set()[1])


@trained_network
def test_weights_are_16_bits(name: str) -> None:
    state = zoo.get(name).build().state_dict()
    with np.load(FOLDER / f"{name}.npz", allow_pickle=False) as stored:
        assert {stored[key].dtype for key in stored.files} == {np.dtype(np.float16)}
        assert set(stored.files) == {key for key, value in state.items() if value.is_floating_point()}
        assert [key for key in stored.files if not np.array_equal(stored[key], state[key].numpy())] == []


@pytest.mark.cases(2)
@trained_network
def test_the_test_set_has_all_classes_and_fits_the_network(name: str) -> None:
    network = zoo.get(name)
    inputs, labels = network.test_set()
    assert inputs.shape == (len(labels), *network.describe().input_shapes[0][1:])
    assert labels.unique().tolist() == list(range(len(network.labels or ("normal", "anomalous"))))
    assert len(labels) >= 200
    assert torch.equal(network.example_inputs()[0], inputs[:1])


@trained_network
def test_calibration_inputs_are_typical_and_apart_from_the_test_set(name: str) -> None:
    network = zoo.get(name)
    calibration = torch.cat([sample for (sample,) in network.calibration(64)])
    inputs, _ = network.test_set()
    assert not any(torch.equal(sample, other) for sample in calibration for other in inputs)
    assert calibration.mean().item() == pytest.approx(inputs.mean().item(), abs=0.3 * inputs.std().item())
    assert calibration.std().item() == pytest.approx(inputs.std().item(), rel=0.3)


def test_channels_of_the_pruned_network_are_zero() -> None:
    """Whole filters with their scales and offsets, as many as pruning happens to leave: no multiple of 4."""
    state = zoo.get("mobilenet_v1_pruned").build().state_dict()
    filters = {key: value for key, value in state.items() if value.ndim == 4 and value.shape[1:] != (1, 3, 3)}
    gone = {key: (value == 0).all(dim=(1, 2, 3)) for key, value in filters.items()}
    kept = [int((~one).sum()) for one in gone.values()]
    channels = sum(len(one) for one in gone.values())
    assert 0.55 * channels < sum(kept) < 0.65 * channels
    assert sum(count % 4 != 0 for count in kept) >= 5
    for key, one in gone.items():
        prefix, _, number = key.removesuffix(".weight").rpartition(".")
        norm = f"{prefix}.{int(number) + 1}"
        assert not state[f"{norm}.weight"][one].any()
        assert not state[f"{norm}.bias"][one].any()


def test_nothing_ships_that_no_network_uses() -> None:
    used = {*TRAINED, *(str(zoo.get(name).data) for name in TRAINED), "clips"} - {"motions"}  # which are made
    assert {path.stem for path in FOLDER.glob("*.npz")} == used
    assert {path.name for path in FOLDER.iterdir() if path.suffix != ".npz"} == {"accuracy.json", "NOTICE"}
    assert set(json.loads((FOLDER / "accuracy.json").read_text())) == set(TRAINED)
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < MOST_BYTES


# ---- recordings ----------------------------------------------------------------------------------------------------


def test_recordings_are_recognised() -> None:
    """One for each keyword, and one word that is none."""
    network = zoo.get("ds_cnn")
    labels = network.labels or ()
    assert sounds.words() == (*labels[:10], "house")
    model = network.build()
    with torch.no_grad():
        heard = {word: labels[int(model(*network.hear(word)).argmax())] for word in sounds.words()}
    expected = {word: word if word in labels else "unknown" for word in sounds.words()}
    assert sum(heard[word] == expected[word] for word in heard) >= 10
    assert heard["yes"] == "yes"


def write_wav(path: Path, samples: np.ndarray, rate: int = RATE, channels: int = 1) -> str:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.astype("<i2").tobytes())
    return str(path)


def test_a_wav_file_is_heard_as_the_recording_in_it(tmp_path: Path) -> None:
    """The loudest second of a longer one, and a shorter one with silence around."""
    clip = load_clips()["yes"]
    assert clip.dtype == np.int16
    assert clip.shape == (RATE,)
    spoken = np.flatnonzero(clip)
    word = clip[spoken[0] : spoken[-1] + 1]
    whole = sounds.load(write_wav(tmp_path / "same.wav", clip))
    assert np.array_equal(whole, clip.astype(np.float32) / 32768)
    long = sounds.load(write_wav(tmp_path / "long.wav", np.pad(word, (3 * RATE, 2 * RATE))))
    short = sounds.load(write_wav(tmp_path / "short.wav", word))
    for found in (long, short):
        assert found.shape == (RATE,)
        assert np.array_equal(found[np.flatnonzero(found)[0] :][: len(word)], word.astype(np.float32) / 32768)


def test_a_damaged_sound_is_no_crash(tmp_path: Path) -> None:
    """Cut off anywhere, and with any byte of its header changed."""
    whole = Path(write_wav(tmp_path / "whole.wav", np.ones(300, np.int16))).read_bytes()
    path = tmp_path / "damaged.wav"
    cut = [whole[:length] for length in range(0, 60, 3)]
    changed = [whole[:at] + bytes([byte]) + whole[at + 1 :] for at in range(44) for byte in (0, 1, 99, 255)]
    for data in (*cut, *changed):
        path.write_bytes(data)
        with contextlib.suppress(CortadoError):
            assert sounds.load(str(path)).shape == (RATE,)


def test_sounds_that_are_none(tmp_path: Path) -> None:
    silent = np.zeros(100)
    (tmp_path / "text.wav").write_text("hello")
    for name, message in (
        ("perhaps", "there is no recording called 'perhaps'; expected a .wav file, or one of down, go,"),
        (str(tmp_path / "none.wav"), r"none.wav can't be read as a .wav file"),
        (str(tmp_path / "text.wav"), r"text.wav can't be read as a .wav file"),
        (write_wav(tmp_path / "cd.wav", silent, 44_100, 2), "2 channels of 16 bits at 44100 Hz; expected 1 of 16 bits"),
        (write_wav(tmp_path / "empty.wav", silent[:0]), "empty.wav holds no sound"),
    ):
        with pytest.raises(CortadoError, match=message):
            sounds.load(name)
    with pytest.raises(CortadoError, match="resnet8 does not take sound"):
        zoo.get("resnet8").hear("yes")
