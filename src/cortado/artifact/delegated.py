"""A delegate's .pte on ExecuTorch's own runtime: the same plan, as an image with the kernels of this machine."""

from typing import TYPE_CHECKING

import numpy as np

from cortado.artifact.checked import Checked
from cortado.artifact.report import TensorReport
from cortado.base.arrays import ArrayType
from cortado.base.errors import CortadoError
from cortado.run.limited import RunLimits
from cortado.run.runner import EXECUTORCH, RunResult

if TYPE_CHECKING:
    from cortado.artifact.opened import Artifact, Reference

NHWC = (0, 2, 3, 1)


def run_delegate(artifact: "Artifact", reference: "Reference", sequence: int | None, limits: RunLimits) -> Checked:
    """What the reference says of samples is fed, and must come out, code by code."""
    from cortado.emit.image.files import portable_files
    from cortado.emit.image.writer import emit_image
    from cortado.emit.pte.delegate import emit_delegate
    from cortado.run.executorch_host import TIMEOUT_SECONDS, DelegateKernels, run_pte

    report = artifact.report
    if report.input_rows is not None:
        raise CortadoError(
            f"{artifact.folder} takes its input row by row, one with each call of the .pte; run it on a board, or "
            "with --on host"
        )
    image = emit_image(artifact.portable)
    pte = emit_delegate(artifact.portable, image, {"model": report.model})
    kernels = DelegateKernels(*portable_files(image))
    feeds = [[_named(one, x) for one, x in zip(report.inputs, sample, strict=True)] for sample in reference.feeds]
    length = sequence or max(len(feeds), 1)
    found: list[list[ArrayType]] = []
    for start in range(0, len(feeds), length):  # its state is reset by loading it again
        seconds = limits.seconds or TIMEOUT_SECONDS
        done = run_pte(pte.data, feeds[start : start + length], timeout=seconds, delegate=kernels)
        found += [[_stored(one, x) for one, x in zip(report.outputs, sample, strict=True)] for sample in done]
    result = RunResult(EXECUTORCH, found)
    return Checked(result, reference.expected, values=[artifact.real(sample) for sample in found])


def _named(tensor: TensorReport, value: ArrayType) -> ArrayType:
    """Images as the file names their dimensions; it stores channels last."""
    return value.transpose(0, 3, 1, 2) if tuple(tensor.layout) == NHWC else value


def _stored(tensor: TensorReport, value: ArrayType) -> ArrayType:
    return np.ascontiguousarray(value.transpose(NHWC)) if tuple(tensor.layout) == NHWC else value
