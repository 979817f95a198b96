"""Rows through a compiled stream, on an emulated board or on this machine: its outputs as time goes by."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cortado.artifact.opened import Artifact
from cortado.artifact.report import Report
from cortado.base.arrays import ArrayType
from cortado.base.element import element_of
from cortado.base.errors import CortadoError
from cortado.run.bundle_info import IO, BundleInfo
from cortado.run.decided import DECISION_OUTPUT
from cortado.run.runner import EXECUTORCH


@dataclass(frozen=True)
class Streamed:
    """The outputs of a stream, one after the other, as real numbers; `ends[i]` is the row that output i came with.

    `every` has those of each output of the model, `outputs` are those of the first."""

    every: tuple[ArrayType, ...]
    ends: range
    instructions: int | None  # of all rows together, exactly; this machine counts none
    decisions: ArrayType | None = None  # with each output the class decided for, or -1; None without --decide

    @property
    def outputs(self) -> ArrayType:
        return self.every[0]

    def __repr__(self) -> str:
        counted = "" if self.instructions is None else f", {self.instructions:,} instructions"
        return f"<Streamed: {len(self.ends)} outputs of {self.ends.stop} rows{counted}>"


@dataclass(frozen=True)
class PushedCodes:
    """The same as the bundle gives it: codes of each output of the model, [outputs, *shape]."""

    codes: tuple[ArrayType, ...]
    decisions: ArrayType | None
    ends: range
    rows: int  # that were pushed
    row_values: int  # numbers in each
    instructions: int | None


def with_decision(report: Report, info: BundleInfo) -> BundleInfo:
    """Decisions come as one more output, behind those of the model."""
    if report.decision is None:
        return info
    return replace(info, outputs=(*info.outputs, IO(DECISION_OUTPUT, (1,), "int32")))


def push_rows(artifact: Artifact, rows: ArrayType, on: str | None = None) -> Streamed:
    """Pushes rows of real numbers, time along the first dimension, each in the order of the model's input."""
    found = push_codes(artifact, rows, on)
    real = [artifact.real([one[number] for one in found.codes]) for number in range(len(found.ends))]
    every = tuple(np.concatenate(values) for values in zip(*real, strict=True))
    return Streamed(every, found.ends, found.instructions, found.decisions)


def push_codes(artifact: Artifact, rows: ArrayType, on: str | None = None) -> PushedCodes:
    """Pushes such rows; what comes of it as codes."""
    return push_many(artifact, [rows], on)[0]


def push_many(artifact: Artifact, every: Sequence[ArrayType], on: str | None = None) -> list[PushedCodes]:
    """Pushes several sequences of as many rows, each from the beginning, in one run."""
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
    """Samples of a signal as rows; refused is what no stream takes."""
    report = artifact.report
    if report.stream is None or report.input_rows is None:
        raise CortadoError(f"{artifact.folder} is no stream; expected a model compiled with --stream DIM")
    if on == EXECUTORCH:
        raise CortadoError("streams are the C bundle's, which runs on emulated boards and on host: on=None")
    windows, row = report.stream.windows, row_values(report)
    if rows.ndim == 1 and row > 1:
        rows = rows[: len(rows) // row * row].reshape(-1, row)  # a signal; what is left of it is no push
    count, size = (len(rows), rows[:1].size) if rows.ndim else (0, rows.size)
    if size != row or not windows.ends(count):
        raise CortadoError(
            f"found {count} rows of {size} values, expected at least {windows.first} rows (the first output comes "
            f"then) of {row} values, time along the first dimension"
        )
    if rows.dtype.kind not in "fiu" or not np.isfinite(rows).all():
        raise CortadoError(f"found rows of {rows.dtype} that are no finite numbers, expected real ones")
    return rows


def row_values(report: Report) -> int:
    """Numbers of a push."""
    assert report.input_rows is not None
    return report.input_rows.row_bytes // element_of(report.inputs[0].dtype.value).bytes


def _codes(artifact: Artifact, rows: ArrayType, time: int) -> ArrayType:
    """Rows as the bundle reads them: channels last where the model has images, integers as they are."""
    given = artifact.report.inputs[0]
    element, count = element_of(given.dtype.value), len(rows)
    if given.scale is None or given.zero_point is None:
        return np.clip(rows, *element.codes).astype(element.numpy_dtype).reshape(count, -1)
    inverse = np.float32(1) / np.float32(given.scale)  # as the reference quantizes
    held = [dim for dim in given.layout if dim not in (0, time)]  # the dimensions of a row, as they lie in memory
    sizes = [given.model_shape[dim] for dim in sorted(held)]
    row = rows.astype(np.float32).reshape(count, *sizes, -1)  # the last of a signal's samples, else 1
    lying = row.transpose(0, *(1 + sorted(held).index(dim) for dim in held), len(held) + 1)
    codes = np.clip(np.rint(lying * inverse) + given.zero_point, *element.codes)
    return codes.astype(element.numpy_dtype).reshape(count, -1)
