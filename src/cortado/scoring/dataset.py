"""Samples and their labels: from files, arrays, and torch's datasets."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cortado.artifact.checked import Samples
from cortado.artifact.opened import Artifact
from cortado.artifact.report import DType, TensorReport
from cortado.base.arrays import ArrayType, read_arrays
from cortado.base.errors import CortadoError

LABEL_SUFFIXES = (".npy", ".npz", ".txt")


@dataclass(frozen=True)
class Scores:
    """The interpretation of the first output as scores: one row of scores for each label."""

    rows: int  # per run of the model: above 1 for a model of several samples at once
    classes: int  # 1: a single score
    picks: bool = False  # the output is the class itself, as with an argmax in the model
    rebuilds: bool = False  # the output should resemble the input, and the score is its distance from it


@dataclass(frozen=True)
class Dataset:
    """Samples as the artifact runs them, and the correct class of each row of scores if known."""

    samples: Samples
    labels: ArrayType | None = None
    scores: Scores | None = None  # None if the first output is no scores, as for an image


# ---- from anything -------------------------------------------------------------------------------------------------


def read_dataset(
    artifact: Artifact, data: Path, labels: Path | None, limit: int | None = None, *, reconstruction: bool = False
) -> Dataset:
    """Reads a dataset from files: arrays of inputs, and their labels."""
    scores = scores_of(artifact, reconstruction)
    samples = artifact.read_samples(data)
    known = None if labels is None else _read_labels(labels, artifact.report.labels)
    return _limited(_labelled(artifact, samples, known, scores, str(labels), str(data)), limit)


def make_dataset(
    artifact: Artifact, data: Any, labels: Any = None, limit: int | None = None, *, reconstruction: bool = False
) -> Dataset:
    """Builds a dataset from Python data: a tensor or array (a tuple of them for several inputs), or an iterable of
    (input, label)."""
    scores = scores_of(artifact, reconstruction)
    if not isinstance(data, torch.Tensor | np.ndarray | tuple):
        if labels is not None:
            raise CortadoError(
                "labels were given twice: a dataset of (input, label) pairs has its own; leave the others out"
            )
        data, labels = _from_pairs(artifact, data)
    arrays = [_as_array(value) for value in (data if isinstance(data, tuple) else (data,))]
    samples = artifact.samples(arrays, [f"input {position} of the dataset" for position, _ in enumerate(arrays)])
    known = None if labels is None else _as_array(labels)
    return _limited(_labelled(artifact, samples, known, scores, "labels", "the dataset"), limit)


def _from_pairs(artifact: Artifact, data: Any) -> tuple[tuple[ArrayType, ...], ArrayType]:
    """Returns the samples of a torch Dataset or DataLoader, whose items may omit the model's first dimension."""
    if not isinstance(data, Iterable) and not hasattr(data, "__getitem__"):
        raise CortadoError(
            f"the dataset is a {type(data).__name__}; expected a tensor or array of samples, a tuple of them for "
            "several inputs, or an iterable of (input, label) pairs"
        )
    indexed = hasattr(data, "__getitem__") and hasattr(data, "__len__")
    items = (data[number] for number in range(len(data))) if indexed else iter(data)
    columns: list[list[ArrayType]] = [[] for _ in artifact.report.inputs]
    labels: list[ArrayType] = []
    for number, item in enumerate(items):
        if not isinstance(item, tuple | list) or len(item) != 2:
            raise CortadoError(
                f"item {number} of the dataset is a {type(item).__name__}, expected a pair (input, label)"
            )
        inputs = item[0] if isinstance(item[0], tuple | list) else (item[0],)
        if len(inputs) != len(columns):
            raise CortadoError(f"item {number} of the dataset has {len(inputs)} inputs, expected {len(columns)}")
        for column, value, tensor in zip(columns, inputs, artifact.report.inputs, strict=True):
            array = _as_array(value)
            column.append(array[None] if array.ndim < len(tensor.model_shape) else array)
        labels.append(_as_array(item[1]).reshape(-1))
    if not labels:
        raise CortadoError("the dataset holds no samples")
    try:
        return tuple(np.concatenate(column) for column in columns), np.concatenate(labels)
    except ValueError as error:
        raise CortadoError(f"the samples of the dataset have different shapes: {error}") from error


def _as_array(value: Any) -> ArrayType:
    return value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)


def _limited(data: Dataset, limit: int | None) -> Dataset:
    if limit is None:
        return data
    if limit < 1:
        raise CortadoError(f"a limit of {limit} samples leaves none; expected 1 or more")
    labels = None if data.labels is None or data.scores is None else data.labels[: limit * data.scores.rows]
    return replace(data, samples=data.samples[:limit], labels=labels)


# ---- labels --------------------------------------------------------------------------------------------------------


def scores_of(artifact: Artifact, reconstruction: bool = False) -> Scores | None:
    """Interprets the first output as scores; None if it has another meaning, as for an image that is no
    reconstruction."""
    shape = artifact.report.outputs[0].model_shape
    if reconstruction:
        return _of_reconstruction(artifact.report.inputs[0].model_shape, shape)
    batch = artifact.report.inputs[0].model_shape[:1]
    rows = shape[0] if len(shape) > 1 or shape == batch else 1
    long = [size for size in (shape[1:] if len(shape) > 1 or shape == batch else shape) if size > 1]
    picks = not long and artifact.report.outputs[0].dtype is DType.INT32
    return Scores(rows, long[0] if long else 1, picks=picks) if len(long) < 2 else None


def _of_reconstruction(inputs: Sequence[int], outputs: Sequence[int]) -> Scores:
    # The compiled model may take its images channels last.
    if sorted(inputs) != sorted(outputs):
        raise CortadoError(
            f"the model turns {list(inputs)} into {list(outputs)}; expected equal shapes from a model that "
            "reconstructs its input"
        )
    return Scores(rows=inputs[0] if len(inputs) > 1 else 1, classes=1, rebuilds=True)


def _labelled(
    artifact: Artifact, samples: Samples, labels: ArrayType | None, scores: Scores | None, where: str, data: str
) -> Dataset:
    if labels is None:
        return Dataset(samples, scores=scores)
    if scores is None:
        raise _no_scores(artifact.report.outputs[0])
    return Dataset(samples, _checked_labels(labels, where, scores, len(samples) * scores.rows, data), scores)


def _no_scores(output: TensorReport) -> CortadoError:
    return CortadoError(
        f"labels were given, but the model's first output has shape {list(output.model_shape)}; expected [1, classes], "
        "or one score for each sample. Without labels it is compared with the float model"
    )


def _checked_labels(labels: ArrayType, where: str, scores: Scores, count: int, data: str) -> ArrayType:
    """Returns labels as integers: one class for each row of scores."""
    found = list(labels.shape)
    if sum(size > 1 for size in found) > 1:
        raise CortadoError(
            f"{where} has shape {found}, expected [{count}]: the class number of each sample (for one-hot rows, "
            "labels.argmax(1))"
        )
    flat = labels.reshape(-1)
    if len(flat) != count:
        raise CortadoError(f"{where} holds {len(flat)} labels, expected {count}: one for each sample of {data}")
    whole = flat.astype(np.int64) if flat.dtype.kind in "iub" or (flat.dtype.kind == "f" and _is_whole(flat)) else None
    if whole is None:
        raise CortadoError(f"{where} holds {flat.dtype} values that are not classes, expected integers")
    classes = max(scores.classes, 2)
    wrong = np.flatnonzero((whole < 0) | (whole >= classes))
    if len(wrong) and not scores.picks:
        what = f"{scores.classes} scores" if scores.classes > 1 else "one score"
        raise CortadoError(
            f"{where}: the label of sample {wrong[0]} is {whole[wrong[0]]}, expected 0 to {classes - 1}, because the "
            f"model gives {what} for each sample"
        )
    return whole


def _is_whole(values: ArrayType) -> bool:
    return bool(np.isfinite(values).all() and (values == np.round(values)).all())


def _read_labels(path: Path, names: Sequence[str] | None) -> ArrayType:
    """Reads labels from an array, or from a text with one per line: a number, or the name of a class."""
    if path.suffix not in LABEL_SUFFIXES:
        raise CortadoError(f"{path}: expected labels in a {', '.join(LABEL_SUFFIXES)} file")
    if path.suffix == ".txt":
        return _read_text(path, names or ())
    arrays = read_arrays(path)
    if len(arrays) != 1:
        raise CortadoError(f"{path} holds the arrays {', '.join(arrays) or 'none'}, expected one: the labels")
    return next(iter(arrays.values()))


def _read_text(path: Path, names: Sequence[str]) -> ArrayType:
    if not path.is_file():
        raise CortadoError(f"there is no file {path}")
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CortadoError(f"{path} is not readable text: {error}") from error
    classes = {name: number for number, name in enumerate(names)}
    found = []
    for number, line in enumerate(lines, start=1):
        word = line.strip()
        if word in classes:
            found.append(classes[word])
        elif word.isdecimal() and len(word) < 10:
            found.append(int(word))
        else:
            known = f", or one of {', '.join(names)}" if names else ""
            raise CortadoError(f"{path}:{number}: found {word[:40]!r}, expected a class number{known}")
    return np.array(found, dtype=np.int64)
