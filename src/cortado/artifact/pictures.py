"""Pictures of a camera's sensor through a compiled model: its lines are what the board is fed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cortado.artifact.checked import Samples
from cortado.artifact.report import BufferKind, Report
from cortado.base.arrays import ArrayType
from cortado.base.errors import CortadoError
from cortado.frontend.capture.camera import codes_of, lines_of, sample_picture
from cortado.run.bundle_info import IO, BundleInfo, StoreRules
from cortado.run.probe_place import is_probe


@dataclass(frozen=True)
class FedSamples:
    """Samples as the network gets them, and where they were pictures, the lines of the sensor."""

    samples: Sequence[Sequence[ArrayType]]
    lines: Samples | None = None

    def info(self, report: Report, info: BundleInfo) -> BundleInfo:
        """The bundle as it is fed."""
        if self.lines is None or report.camera is None:
            return info
        shape = self.lines[0][0].shape
        return replace(info, inputs=(IO("picture", shape, "uint8"),), line_bytes=report.camera.line_bytes)

    def allowed(self, report: Report, rules: StoreRules | None) -> StoreRules | None:
        """Returns the allowed stores: an input that is taken whole is written before the first step."""
        if rules is None or self.lines is None or report.memory is None or report.input_rows is not None:
            return rules
        inputs = [one for one in report.memory.buffers or () if one.kind is BufferKind.INPUT]
        return replace(rules, always=(*rules.always, *((one.offset, one.offset + one.bytes) for one in inputs)))


def seen(report: Report, samples: Sequence[Sequence[ArrayType]], on: str | None) -> FedSamples:
    """Pictures become codes by the reference of the front end; other samples stay as they are."""
    if report.camera is None or not all(len(sample) == 1 and is_picture(report, sample[0]) for sample in samples):
        return FedSamples(samples)
    if is_probe(on):
        raise CortadoError(
            "pictures of a camera run on emulated boards and on host; expected the network's own input for a chip "
            "behind a probe"
        )
    tensor, camera = report.inputs[0], report.camera.camera
    assert tensor.scale is not None
    lines = [[lines_of(camera, sample[0], f"sample {number}")] for number, sample in enumerate(samples)]
    channels, zero_point = tensor.model_shape[1], tensor.zero_point or 0
    codes = [[codes_of(camera, one[0], channels, tensor.scale, zero_point)] for one in lines]
    return FedSamples(codes, lines)


def is_picture(report: Report, value: ArrayType) -> bool:
    """The network's own input is real numbers or int8 codes."""
    return report.camera is not None and value.dtype in (np.uint8, np.uint16)


def pictures_in(report: Report, array: ArrayType, name: str) -> list[ArrayType]:
    """One picture, or several along one more dimension in front."""
    assert report.camera is not None
    camera = report.camera.camera
    height, width = camera.size.height, camera.size.width
    one = array.shape[:1] == (height,) and array.shape[1:2] in ((width,), (camera.line_bytes,))
    return [lines_of(camera, picture, name) for picture in ([array] if one else array)]


def example_picture(report: Report) -> list[ArrayType] | None:
    """Returns what is run where nothing is given; None without a camera."""
    return None if report.camera is None else [sample_picture(report.camera.camera)]
