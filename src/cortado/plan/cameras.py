"""A camera as the input of a program: what its front end keeps in the arena, and where it writes values."""

from dataclasses import dataclass, replace

from cortado.base.camera import Camera
from cortado.base.errors import CortadoError
from cortado.base.numerics import QParams
from cortado.frontend.capture.camera import check_input
from cortado.plan.program import CAMERA_LINE, CAMERA_PLACE, ArenaBuffer, Program, Tensor

PLACE_BYTES = 8  # cortado_camera_place_t
_CHANNEL = 1  # the dimensions of an image [N, C, H, W]
_HEIGHT, _WIDTH = 2, 3


@dataclass(frozen=True)
class CameraInput:
    """An image input as a camera's front end writes it: codes, and the strides between them."""

    camera: Camera
    channels: int
    qparams: QParams
    pixel_step: int
    channel_step: int
    row_step: int

    @property
    def held_bytes(self) -> int:
        return self.camera.held_bytes(self.channels)


def camera_input_of(program: Program) -> CameraInput | None:
    """Returns the image input that the camera writes; None without a camera."""
    if program.camera is None:
        return None
    tensor = program.inputs[0]
    assert tensor.qparams is not None
    steps: dict[int, int] = {}
    step = 1
    for dim, size in zip(reversed(tensor.layout), reversed(tensor.shape), strict=True):
        steps[dim] = step
        step *= size
    channels = tensor.shape[tensor.layout.index(_CHANNEL)]
    return CameraInput(program.camera, channels, tensor.qparams, steps[_WIDTH], steps[_CHANNEL], steps[_HEIGHT])


def with_camera(program: Program, camera: Camera) -> Program:
    """Adds the buffers that a camera's front end keeps between two lines; refuses an input that is not an image of
    codes."""
    if program.state:
        names = ", ".join(f"'{kept.name}'" for kept in program.state)
        raise CortadoError(
            f"{program.name} has state ({names}), but a camera's lines are for networks without state; compile without "
            "--input-format"
        )
    tensor = _only(program)
    check_input(camera, _model_shape(tensor), tensor.name)
    buffers = {**program.buffers, CAMERA_PLACE: ArenaBuffer(CAMERA_PLACE, PLACE_BYTES)}
    found = replace(program, buffers=buffers, camera=camera)
    camera_input = camera_input_of(found)
    assert camera_input is not None
    step = program.pushed
    row = camera.resize.width * camera_input.channels
    if step is not None and (step.rows, step.row_bytes) != (camera.resize.height, row):
        raise CortadoError(
            f"the rows of input '{tensor.name}' are {step.rows} of {step.row_bytes} bytes, but the camera gives "
            f"{camera.resize.height} of {row}; compile without --input-rows"
        )
    if not camera_input.held_bytes:
        return found
    return replace(found, buffers={**buffers, CAMERA_LINE: ArenaBuffer(CAMERA_LINE, camera_input.held_bytes)})


def _only(program: Program) -> Tensor:
    if len(program.inputs) != 1:
        names = ", ".join(f"'{tensor.name}'" for tensor in program.inputs)
        raise CortadoError(
            f"{program.name} has {len(program.inputs)} inputs ({names}), but a camera (--input-format) feeds one; "
            "compile without --input-format"
        )
    tensor = program.inputs[0]
    if not tensor.element.affine or tensor.qparams is None:
        raise CortadoError(
            f"input '{tensor.name}' holds {tensor.dtype} values, but a camera's front end (--input-format) writes int8 "
            "codes of real numbers; make the model take real images, or compile without --input-format"
        )
    return tensor


def _model_shape(tensor: Tensor) -> tuple[int, ...]:
    """Returns the shape in the order of the model's dimensions."""
    return tuple(tensor.shape[tensor.layout.index(dim)] for dim in range(len(tensor.shape)))
