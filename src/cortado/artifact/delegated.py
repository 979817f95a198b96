"""A delegate's .pte on ExecuTorch's own runtime: the same plan, as an image with the kernels of this machine."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from cortado.artifact.checked import Checked, Samples
from cortado.artifact.report import Report, TensorReport
from cortado.base.arrays import ArrayType
from cortado.base.errors import CortadoError
from cortado.run.limited import RunLimits
from cortado.run.runner import EXECUTORCH, RunResult

if TYPE_CHECKING:
    from cortado.plan.planned import Planned

NHWC = (0, 2, 3, 1)


def run_delegate(
    planned: "Planned",
    report: Report,
    given: Samples,
    expected: Samples,
    real: Callable[[Sequence[ArrayType]], list[ArrayType]],
    *,
    sequence: int | None,
    limits: RunLimits,
) -> Checked:
    """A plan with the kernels of this machine: codes that are given, those that must come out, and what `real` numbers
    they stand for."""
    from cortado.emit.image.files import portable_files
    from cortado.emit.image.writer import emit_image
    from cortado.emit.pte.delegate import emit_delegate
    from cortado.run.executorch_host import TIMEOUT_SECONDS, DelegateKernels, run_pte

    if report.input_rows is not None:
        raise CortadoError(
            f"{report.model} takes its input row by row, one with each call of the .pte; run it on a board, or "
            "with --on host"
        )
    image = emit_image(planned)
    pte = emit_delegate(planned, image, {"model": report.model})
    kernels = DelegateKernels(*portable_files(image))
    feeds = [[_named(one, x) for one, x in zip(report.inputs, sample, strict=True)] for sample in given]
    length = sequence or max(len(feeds), 1)
    found: list[list[ArrayType]] = []
    for start in range(0, len(feeds), length):  # its state is reset by loading it again
        seconds = limits.seconds or TIMEOUT_SECONDS
        done = run_pte(pte.data, feeds[start : start + length], timeout=seconds, delegate=kernels)
        found += [[_stored(one, x) for one, x in zip(report.outputs, sample, strict=True)] for sample in done]
    result = RunResult(EXECUTORCH, found)
    return Checked(result, expected, values=[real(sample) for sample in found])


def _named(tensor: TensorReport, value: ArrayType) -> ArrayType:
    """Images as the file names their dimensions; it stores channels last."""
    return value.transpose(0, 3, 1, 2) if tuple(tensor.layout) == NHWC else value


def _stored(tensor: TensorReport, value: ArrayType) -> ArrayType:
    return np.ascontiguousarray(value.transpose(NHWC)) if tuple(tensor.layout) == NHWC else value
