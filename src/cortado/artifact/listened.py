"""A recording through a compiled model of which something lasts: its scores, one output after the other, as codes."""

import math
import wave
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cortado.artifact.opened import Artifact
from cortado.artifact.streamed import push_codes, with_decision
from cortado.base.arrays import ArrayType, read_arrays
from cortado.base.errors import CortadoError
from cortado.run.runner import HOST

FULL_SCALE = 32768.0


@dataclass(frozen=True)
class Recording:
    """A recording: an array, time along its first dimension, and its rows per second."""

    values: ArrayType
    rate: float


@dataclass(frozen=True)
class Listened:
    """Scores as codes, and what the C decided by itself where the model was compiled with a decision."""

    scores: ArrayType  # [outputs, classes]
    decisions: ArrayType | None
    times: list[float]  # seconds: when the last of an output's samples came
    seconds: float  # of the recording


def listen(artifact: Artifact, recording: Recording, on: str | None = HOST) -> Listened:
    """All of a recording: rows of a stream, or steps of a model with state."""
    report, classes = artifact.report, artifact.report.outputs[0].scores.classes
    if report.stream is None and not report.state:
        raise CortadoError(
            f"{artifact.folder} has neither a stream nor state; expected a model that was compiled with --stream DIM, "
            "or one with state"
        )
    if report.stream is None:
        return _steps(artifact, recording, classes, on)
    pushed = push_codes(artifact, recording.values, on)
    span = pushed.row_values if recording.values.ndim == 1 else 1  # of a push, in samples or rows
    times = [(end + 1) * span / recording.rate for end in pushed.ends]
    seconds = pushed.rows * span / recording.rate
    return Listened(pushed.codes[0].reshape(-1, classes), pushed.decisions, times, seconds)


def _steps(artifact: Artifact, recording: Recording, classes: int, on: str | None) -> Listened:
    samples = artifact.samples([recording.values], ["the recording"])
    feeds = [artifact.feed(sample) for sample in samples]
    made = artifact.execute(feeds, on, info=with_decision(artifact.report, artifact.info)).samples
    decided = artifact.report.decision is not None
    return Listened(
        scores=np.stack([outputs[0].reshape(classes) for outputs in made]),
        decisions=np.array([outputs[-1].item() for outputs in made], np.int32) if decided else None,
        times=[(number + 1) / recording.rate for number, _ in enumerate(made)],
        seconds=len(made) / recording.rate,
    )


# ---- from files ----------------------------------------------------------------------------------------------------


def read_recording(artifact: Artifact, path: Path, rate: float | None) -> Recording:
    """Sound from a .wav file, which says its rate; anything else from an array."""
    if path.suffix == ".wav":
        if rate is not None:
            raise CortadoError(f"--rate is for arrays, and {path} says its own; leave it out")
        return _as_read(artifact, path, *read_wav(path))
    if rate is None or not 0 < rate < math.inf:
        raise CortadoError(
            f"{path} does not say how fast its data come; expected --rate with the samples, rows or steps of a second"
        )
    arrays = read_arrays(path)
    if len(arrays) != 1:
        raise CortadoError(f"{path} holds the arrays {', '.join(arrays) or 'none'}, expected one: the recording")
    return Recording(next(iter(arrays.values())), rate)


def read_wav(path: Path) -> tuple[ArrayType, int]:
    """16-bit samples of one channel, and how many a second has."""
    if not path.is_file():
        raise CortadoError(f"there is no file {path}")
    try:
        with wave.open(str(path)) as file:
            found = (file.getnchannels(), 8 * file.getsampwidth(), file.getframerate())
            data = file.readframes(file.getnframes())
    except Exception as error:  # a damaged file raises whatever struct and wave do, some of it without a word
        raise CortadoError(f"{path} can't be read as a .wav file: {str(error) or 'it is damaged'}") from error
    if found[:2] != (1, 16) or found[2] < 1:
        raise CortadoError(
            f"{path} has {found[0]} channels of {found[1]} bits; expected 1 of 16 bits (as `sox IN -c 1 -b 16 OUT.wav` "
            "makes it)"
        )
    return np.frombuffer(data[: len(data) & ~1], "<i2"), found[2]


def _as_read(artifact: Artifact, path: Path, samples: ArrayType, rate: int) -> Recording:
    """Samples as the model takes them: integers as they are, real ones as parts of full scale."""
    report, given = artifact.report, artifact.report.inputs[0]
    is_signal = report.stream is not None and math.prod(given.model_shape) == max(given.model_shape)
    integers = given.scale is None and given.dtype.value == "int16"
    if not is_signal or not (integers or given.scale is not None):
        raise CortadoError(
            f"{path} holds samples of sound, and the model's input is {given.dtype.value} of shape "
            f"{list(given.model_shape)}; expected a stream of samples, or give it its data as a .npy file with --rate"
        )
    return Recording(samples if integers else (samples / np.float32(FULL_SCALE)).astype(np.float32), rate)
