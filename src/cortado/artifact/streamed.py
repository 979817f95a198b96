"""Rows pushed through a compiled stream, on an emulated board or on this machine: its outputs over time.

Also a recording fed to a compiled model with state or a stream: its scores as codes, one output after the other.
"""

import math
import wave
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from cortado.artifact.opened import Artifact
from cortado.artifact.report import Report
from cortado.base.arrays import ArrayType, read_arrays
from cortado.base.element import element_of
from cortado.base.errors import CortadoError
from cortado.run.bundle_info import IO, BundleInfo
from cortado.run.harness import DECISION_OUTPUT
from cortado.run.runner import EXECUTORCH, HOST

# ---- streamed --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Streamed:
    """The outputs of a stream in order, as real numbers; `ends[i]` is the index of the row that completed output i.

    `every` has an array for each of the model's outputs; `outputs` is the first.
    """

    every: tuple[ArrayType, ...]
    ends: range
    instructions: int | None  # of all rows together, exactly; None on this machine
    decisions: ArrayType | None = None  # with each output the class decided for, or -1; None without --decide

    @property
    def outputs(self) -> ArrayType:
        return self.every[0]

    def __repr__(self) -> str:
        counted = "" if self.instructions is None else f", {self.instructions:,} instructions"
        return f"<Streamed: {len(self.ends)} outputs of {self.ends.stop} rows{counted}>"


@dataclass(frozen=True)
class PushedCodes:
    """The same results as the bundle returns them: codes of each output, [outputs, *shape]."""

    codes: tuple[ArrayType, ...]
    decisions: ArrayType | None
    ends: range
    rows: int  # the rows pushed
    row_values: int  # values per row
    instructions: int | None


def with_decision(report: Report, info: BundleInfo) -> BundleInfo:
    """Describes decisions as an additional output after the model's."""
    if report.decision is None:
        return info
    return replace(info, outputs=(*info.outputs, IO(DECISION_OUTPUT, (1,), "int32")))


def push_rows(artifact: Artifact, rows: ArrayType, on: str | None = None) -> Streamed:
    """Pushes rows of real numbers, time along the first dimension, each in the layout of the model's input."""
    found = push_codes(artifact, rows, on)
    real = [artifact.real([one[number] for one in found.codes]) for number in range(len(found.ends))]
    every = tuple(np.concatenate(values) for values in zip(*real, strict=True))
    return Streamed(every, found.ends, found.instructions, found.decisions)


def push_codes(artifact: Artifact, rows: ArrayType, on: str | None = None) -> PushedCodes:
    """Pushes such rows, and returns the results as codes."""
    return push_many(artifact, [rows], on)[0]


def push_many(artifact: Artifact, every: Sequence[ArrayType], on: str | None = None) -> list[PushedCodes]:
    """Pushes several sequences of equal length, each from a reset, in one run."""
    given = [_checked_rows(artifact, rows, on) for rows in every]
    report, count = artifact.report, len(given[0])
    assert report.stream is not None
    row, ends = row_values(report), report.stream.windows.ends(count)
    info = replace(artifact.info, inputs=(IO("rows", (count, row), report.inputs[0].dtype.value),), results=len(ends))
    info = with_decision(report, info)
    result = artifact.execute([[_codes(artifact, rows, report.stream.dim)] for rows in given], on, info=info)
    found = []
    for sample in result.samples:
        codes = [made.reshape(len(ends), *one.shape) for made, one in zip(sample, info.outputs, strict=True)]
        found.append(
            PushedCodes(
                codes=tuple(codes[: len(report.outputs)]),
                decisions=None if report.decision is None else codes[-1].reshape(-1),
                ends=ends,
                rows=count,
                row_values=row,
                instructions=result.instructions,
            )
        )
    return found


def _checked_rows(artifact: Artifact, rows: ArrayType, on: str | None) -> ArrayType:
    """Arranges a signal's samples as rows, and refuses rows that the stream can't take."""
    report = artifact.report
    if report.stream is None or report.input_rows is None:
        raise CortadoError(f"{artifact.folder} is not a stream; expected a model compiled with --stream DIM")
    if on == EXECUTORCH:
        raise CortadoError("streams run the C bundle, on emulated boards and on host: on=None")
    windows, row = report.stream.windows, row_values(report)
    if rows.ndim == 1 and row > 1:
        rows = rows[: len(rows) // row * row].reshape(-1, row)  # a signal; an incomplete last row is dropped
    count, size = (len(rows), rows[:1].size) if rows.ndim else (0, rows.size)
    if size != row or not windows.ends(count):
        raise CortadoError(
            f"found {count} rows of {size} values, expected at least {windows.first} rows (when the first output "
            f"comes) of {row} values, time along the first dimension"
        )
    if rows.dtype.kind not in "fiu" or not np.isfinite(rows).all():
        raise CortadoError(f"found rows of {rows.dtype} that are not finite numbers, expected real ones")
    return rows


def row_values(report: Report) -> int:
    """Returns the number of values in a push."""
    assert report.input_rows is not None
    return report.input_rows.row_bytes // element_of(report.inputs[0].dtype.value).bytes


def _codes(artifact: Artifact, rows: ArrayType, time: int) -> ArrayType:
    """Quantizes rows to the bundle's representation: channels last for images, integers unchanged."""
    given = artifact.report.inputs[0]
    element, count = element_of(given.dtype.value), len(rows)
    if given.scale is None and not element.floating:
        return np.clip(rows, *element.codes).astype(element.numpy_dtype).reshape(count, -1)
    held = [dim for dim in given.layout if dim not in (0, time)]  # the dimensions of a row, in memory order
    sizes = [given.model_shape[dim] for dim in sorted(held)]
    row = rows.astype(np.float32).reshape(count, *sizes, -1)  # the last dimension: samples of a signal, else 1
    lying = row.transpose(0, *(1 + sorted(held).index(dim) for dim in held), len(held) + 1)
    if given.scale is None:
        return np.ascontiguousarray(lying).reshape(count, -1)
    inverse = np.float32(1) / np.float32(given.scale)  # multiplies, as the reference does
    codes = np.clip(np.rint(lying * inverse) + (given.zero_point or 0), *element.codes)
    return codes.astype(element.numpy_dtype).reshape(count, -1)


# ---- listened --------------------------------------------------------------------------------------------

FULL_SCALE = 32768.0


@dataclass(frozen=True)
class Recording:
    """A recording: an array with time along its first dimension, and its rows per second."""

    values: ArrayType
    rate: float


@dataclass(frozen=True)
class Listened:
    """Scores as codes, and the C code's decisions if the model was compiled with one."""

    scores: ArrayType  # [outputs, classes]
    decisions: ArrayType | None
    times: list[float]  # seconds: when the last sample of an output arrived
    seconds: float  # of the recording


def listen(artifact: Artifact, recording: Recording, on: str | None = HOST) -> Listened:
    """Feeds a whole recording to a model: rows of a stream, or steps of a model with state."""
    report, classes = artifact.report, artifact.report.outputs[0].scores.classes
    if report.stream is None and not report.state:
        raise CortadoError(
            f"{artifact.folder} has neither a stream nor state; expected a model that was compiled with --stream DIM, "
            "or one with state"
        )
    if report.stream is None:
        return _steps(artifact, recording, classes, on)
    pushed = push_codes(artifact, recording.values, on)
    span = pushed.row_values if recording.values.ndim == 1 else 1  # samples or rows per push
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
    """Reads sound from a .wav file, which includes its rate; anything else from an array file."""
    if path.suffix == ".wav":
        if rate is not None:
            raise CortadoError(f"--rate is for arrays, but {path} states its own; leave it out")
        return _as_read(artifact, path, *read_wav(path))
    if rate is None or not 0 < rate < math.inf:
        raise CortadoError(
            f"{path} does not state its sample rate; give --rate with the samples, rows or steps per second"
        )
    arrays = read_arrays(path)
    if len(arrays) != 1:
        raise CortadoError(f"{path} holds the arrays {', '.join(arrays) or 'none'}, expected one: the recording")
    return Recording(next(iter(arrays.values())), rate)


def read_wav(path: Path) -> tuple[ArrayType, int]:
    """Reads 16-bit samples of one channel, and their rate."""
    if not path.is_file():
        raise CortadoError(f"there is no file {path}")
    try:
        with wave.open(str(path)) as file:
            found = (file.getnchannels(), 8 * file.getsampwidth(), file.getframerate())
            data = file.readframes(file.getnframes())
    except Exception as error:  # a damaged file raises whatever struct and wave do, sometimes without a message
        raise CortadoError(f"{path} can't be read as a .wav file: {str(error) or 'it is damaged'}") from error
    if found[:2] != (1, 16) or found[2] < 1:
        raise CortadoError(
            f"{path} has {found[0]} channels of {found[1]} bits; expected 1 of 16 bits (as `sox IN -c 1 -b 16 OUT.wav` "
            "makes it)"
        )
    return np.frombuffer(data[: len(data) & ~1], "<i2"), found[2]


def _as_read(artifact: Artifact, path: Path, samples: ArrayType, rate: int) -> Recording:
    """Converts samples to what the model takes: integers as they are, real numbers as fractions of full scale."""
    report, given = artifact.report, artifact.report.inputs[0]
    is_signal = report.stream is not None and math.prod(given.model_shape) == max(given.model_shape)
    integers = given.scale is None and given.dtype.value == "int16"
    if not is_signal or not (integers or given.scale is not None):
        raise CortadoError(
            f"{path} holds samples of sound, and the model's input is {given.dtype.value} of shape "
            f"{list(given.model_shape)}; expected a stream of samples, or give it its data as a .npy file with --rate"
        )
    return Recording(samples if integers else (samples / np.float32(FULL_SCALE)).astype(np.float32), rate)
