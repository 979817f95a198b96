"""Rows through a compiled stream, on an emulated board or on this machine: its outputs as time goes by."""

from dataclasses import dataclass, replace

import numpy as np

from cortado.artifact.opened import Artifact
from cortado.base.arrays import ArrayType
from cortado.base.element import INT8
from cortado.base.errors import CortadoError
from cortado.run.runner import EXECUTORCH, IO


@dataclass(frozen=True)
class Streamed:
    """The outputs of a stream, one after the other, as real numbers; `ends[i]` is the row that output i came with.

    `every` has those of each output of the model, `outputs` are those of the first."""

    every: tuple[ArrayType, ...]
    ends: range
    instructions: int | None  # of all rows together, exactly; this machine counts none

    @property
    def outputs(self) -> ArrayType:
        return self.every[0]

    def __repr__(self) -> str:
        counted = "" if self.instructions is None else f", {self.instructions:,} instructions"
        return f"<Streamed: {len(self.ends)} outputs of {self.ends.stop} rows{counted}>"


def push_rows(artifact: Artifact, rows: ArrayType, on: str | None = None) -> Streamed:
    """Pushes rows of real numbers, time along the first dimension, each in the order of the model's input."""
    report = artifact.report
    if report.stream is None or report.input_rows is None:
        raise CortadoError(f"{artifact.folder} is no stream; expected a model compiled with --stream DIM")
    if on == EXECUTORCH:
        raise CortadoError("streams are the C bundle's, which runs on emulated boards and on host: on=None")
    first, hop, row_bytes = report.stream.first_rows, report.stream.hop_rows, report.input_rows.row_bytes
    count, size = (len(rows), rows[:1].size) if rows.ndim else (0, rows.size)
    if size != row_bytes or count < first:
        raise CortadoError(
            f"found {count} rows of {size} values, expected at least {first} rows (the first output comes then) of "
            f"{row_bytes} values, time along the first dimension"
        )
    if rows.dtype.kind not in "fiu" or not np.isfinite(rows).all():
        raise CortadoError(f"found rows of {rows.dtype} that are no finite numbers, expected real ones")
    ends = range(first - 1, count, hop)
    info = replace(artifact.info, inputs=(IO("rows", (count, row_bytes), "int8"),), results=len(ends))
    result = artifact.execute([[_codes(artifact, rows, report.stream.dim)]], on, info=info)
    codes = [
        found.reshape(len(ends), *output.shape) for found, output in zip(result.samples[0], report.outputs, strict=True)
    ]
    real = [artifact.real([one[number] for one in codes]) for number in range(len(ends))]
    every = tuple(np.concatenate(values) for values in zip(*real, strict=True))
    return Streamed(every, ends, result.instructions)


def _codes(artifact: Artifact, rows: ArrayType, time: int) -> ArrayType:
    """Rows as the bundle reads them: channels last where the model has images."""
    given = artifact.report.inputs[0]
    assert given.scale is not None
    assert given.zero_point is not None
    inverse = np.float32(1) / np.float32(given.scale)  # as the reference quantizes
    held = [dim for dim in given.layout if dim not in (0, time)]  # the dimensions of a row, as they lie in memory
    row = rows.astype(np.float32).reshape(len(rows), *(given.model_shape[dim] for dim in sorted(held)))
    lying = row.transpose(0, *(1 + sorted(held).index(dim) for dim in held))
    codes = np.clip(np.rint(lying * inverse) + given.zero_point, *INT8.codes)
    return codes.astype(INT8.numpy_dtype).reshape(len(rows), -1)
