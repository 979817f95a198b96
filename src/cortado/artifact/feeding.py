"""Inputs as users give them: their validation, and their conversion to what the bundle is fed.

The conversion here works without torch, which a machine for firmware need not have. Where torch is installed, the exact
reference converts instead; tests check that both agree. A camera's pictures are fed as lines of its sensor.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cortado.artifact.checked import Samples
from cortado.artifact.report import BufferKind, Report, TensorReport
from cortado.base.arrays import ArrayType
from cortado.base.element import INT8, element_of
from cortado.base.errors import CortadoError
from cortado.base.target import from_target_string
from cortado.frontend.capture.camera import codes_of, lines_of, sample_picture
from cortado.run.bundle_info import IO, BundleInfo, StoreRules, rows_port
from cortado.run.silicon.place import is_probe

# ---- feeding ---------------------------------------------------------------------------------------------


def bundle_info(report: Report, *, foreign: bool) -> BundleInfo:
    """Returns a report's bundle as its runner sees it: for a stream, one window, up to the last row that its output
    reads."""

    def ports(tensors: Sequence[TensorReport]) -> tuple[IO, ...]:
        return tuple(IO(tensor.name, tensor.shape, tensor.dtype.value) for tensor in tensors)

    regions = () if report.memory is None else report.memory.regions
    inputs = ports(report.inputs)
    if report.stream is not None and report.input_rows is not None:
        inputs = (rows_port(inputs[0], report.input_rows.row_bytes, report.stream.windows),)
    return BundleInfo(
        name=report.prefix,
        target=from_target_string(report.target),
        inputs=inputs,
        outputs=ports(report.outputs),
        row_bytes=0 if report.input_rows is None else report.input_rows.row_bytes,
        state=bool(report.state),
        regions=tuple(region.name for region in regions),
        aligned_only=any(one.device and one.bytes for one in regions),
        foreign=foreign,
    )


def fed(tensor: TensorReport, value: ArrayType) -> ArrayType:
    """Converts a validated input to the bundle's representation: quantized, in its order of dimensions."""
    found = _coded(tensor, value) if tensor.scale is not None else value.astype(tensor.dtype.value)
    if len(tensor.layout) == found.ndim:
        found = found.transpose(tensor.layout)
    if found.shape != tensor.shape:
        raise CortadoError(
            f"input '{tensor.name}' has the layout {list(tensor.shape)}, made of {list(value.shape)} by a conversion "
            "that only the reference has, which needs torch: pip install 'cortado[compile]'"
        )
    return np.ascontiguousarray(found)


def split(tensor: TensorReport, array: ArrayType, name: str) -> list[ArrayType]:
    """Splits an array into samples: [100, 3, 32, 32] and [100, 1, 3, 32, 32] are 100 inputs of a model for [1, 3, 32,
    32]."""
    wanted, found = list(tensor.model_shape), list(array.shape)
    if found == wanted:
        return [array]
    if found[1:] == wanted:
        return list(array)
    if wanted and found and found[1:] == wanted[1:] and found[0] % wanted[0] == 0:
        return list(array.reshape(-1, *wanted))
    raise CortadoError(
        f"{name} has shape {found}, expected {wanted} for input '{tensor.name}', or several of those concatenated"
    )


def check_value(tensor: TensorReport, value: ArrayType, where: str) -> None:
    """Checks shape and dtype of one sample's input."""
    if value.shape != tensor.model_shape:
        raise CortadoError(
            f"{where} has shape {list(value.shape)}, expected {list(tensor.model_shape)} for input '{tensor.name}'"
        )
    own = np.dtype(tensor.dtype.value)
    if own.kind in "iu" and value.dtype.kind in "iu" and tensor.scale is None:
        _check_whole(tensor, value, where)
        return
    allowed = {own: "the network's own type"}
    if tensor.scale is not None:
        codes = own if own.kind == "i" else INT8.numpy_dtype
        allowed = {np.dtype(np.float32): "real values", codes: "quantized codes"}
    if value.dtype not in allowed:
        kinds = " or ".join(f"{dtype} ({meaning})" for dtype, meaning in allowed.items())
        raise CortadoError(f"{where} has dtype {value.dtype}, expected {kinds} for input '{tensor.name}'")
    if value.dtype.kind == "f" and not np.isfinite(value).all():
        raise CortadoError(f"{where} holds NaN or infinity; inputs must be finite")


def _check_whole(tensor: TensorReport, value: ArrayType, where: str) -> None:
    """Checks an integer input, whose dtype can be any that fits the values, as torch's int64."""
    limits = np.iinfo(tensor.dtype.value)
    if int(value.min()) < limits.min or int(value.max()) > limits.max:
        raise CortadoError(
            f"{where} holds numbers from {value.min()} to {value.max()}, expected {tensor.dtype.value} values "
            f"({limits.min} to {limits.max}) for input '{tensor.name}'"
        )


def _coded(tensor: TensorReport, value: ArrayType) -> ArrayType:
    """Quantizes, rounding to nearest, ties to even, as MODEL_quantize does."""
    element = element_of(tensor.dtype.value)
    if value.dtype == element.numpy_dtype:
        return value
    with np.errstate(over="ignore"):  # infinity saturates to the last code, like any large number
        steps = value.astype(np.float32) * (np.float32(1) / np.float32(tensor.scale))
    most = np.float32(2 * (element.steps + 1))  # any larger value saturates, whatever the zero point
    steps = np.rint(np.clip(steps, -most, most)) + np.float32(tensor.zero_point or 0)
    return np.asarray(np.clip(steps, *element.codes).astype(element.numpy_dtype))


def real_values(tensor: TensorReport, codes: ArrayType) -> ArrayType:
    """Dequantizes codes; integers and truth values stay as they are."""
    if tensor.scale is None or tensor.zero_point is None:
        return codes
    steps = codes.astype(np.float32) - np.float32(tensor.zero_point)
    return np.asarray(steps * np.float32(tensor.scale))  # numpy turns a 0-dimensional array into a scalar here


# ---- pictures --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FedSamples:
    """Samples as the network's inputs and, if they were pictures, also as lines of the sensor."""

    samples: Sequence[Sequence[ArrayType]]
    lines: Samples | None = None

    def info(self, report: Report, info: BundleInfo) -> BundleInfo:
        """Returns the bundle's description with the inputs it is fed."""
        if self.lines is None or report.camera is None:
            return info
        shape = self.lines[0][0].shape
        return replace(info, inputs=(IO("picture", shape, "uint8"),), line_bytes=report.camera.line_bytes)

    def allowed(self, report: Report, rules: StoreRules | None) -> StoreRules | None:
        """Returns the allowed stores; a camera also writes a whole input before the first step."""
        if rules is None or self.lines is None or report.memory is None or report.input_rows is not None:
            return rules
        inputs = [one for one in report.memory.buffers or () if one.kind is BufferKind.INPUT]
        return replace(rules, always=(*rules.always, *((one.offset, one.offset + one.bytes) for one in inputs)))


def seen(report: Report, samples: Sequence[Sequence[ArrayType]], on: str | None) -> FedSamples:
    """Converts pictures to codes with the front end's reference; other samples are returned unchanged."""
    if report.camera is None or not all(len(sample) == 1 and is_picture(report, sample[0]) for sample in samples):
        return FedSamples(samples)
    if is_probe(on):
        raise CortadoError(
            "a camera's pictures can run on emulated boards and on host only; give a chip behind a probe the "
            "network's own input"
        )
    tensor, camera = report.inputs[0], report.camera.camera
    assert tensor.scale is not None
    lines = [[lines_of(camera, sample[0], f"sample {number}")] for number, sample in enumerate(samples)]
    channels, zero_point = tensor.model_shape[1], tensor.zero_point or 0
    codes = [[codes_of(camera, one[0], channels, tensor.scale, zero_point)] for one in lines]
    return FedSamples(codes, lines)


def is_picture(report: Report, value: ArrayType) -> bool:
    """Returns whether a value is a picture: the network's own input would be real numbers or int8 codes."""
    return report.camera is not None and value.dtype in (np.uint8, np.uint16)


def pictures_in(report: Report, array: ArrayType, name: str) -> list[ArrayType]:
    """Splits an array into pictures: it is one, or several along an additional first dimension."""
    assert report.camera is not None
    camera = report.camera.camera
    height, width = camera.size.height, camera.size.width
    one = array.shape[:1] == (height,) and array.shape[1:2] in ((width,), (camera.line_bytes,))
    return [lines_of(camera, picture, name) for picture in ([array] if one else array)]


def example_picture(report: Report) -> list[ArrayType] | None:
    """Returns the sample picture that is run if no input is given; None without a camera."""
    return None if report.camera is None else [sample_picture(report.camera.camera)]
