"""The integer reference of a camera's front end, MODEL_take_line: from pictures to the network's input.

    pixels of 0 to 255    in the sensor's format; for a network of one channel, the luma of colours
    across                h = 256 * p[at] + (p[at + 1] - p[at]) * weight, for each of the two lines
    down                  v = 256 * h[at] + (h[at + 1] - h[at]) * weight
    8 bits                p = (v + 2^15) >> 16
    codes                 a table of 256 for each channel: ((p / 255) - mean) / std, quantized

Only NumPy is used: machines that build firmware need not have torch.
"""

import numpy as np

from cortado.base.arrays import ArrayType
from cortado.base.camera import WHOLE, Camera, PixelFormat, Tap
from cortado.base.element import INT8
from cortado.base.errors import CortadoError

LUMA = (77, 150, 29)  # weights of red, green and blue, in 256ths: ITU-R BT.601


def check_input(camera: Camera, shape: tuple[int, ...], name: str) -> None:
    """Refuses a network's image [N, C, H, W] that is not what the camera gives."""
    wanted = camera.resize
    if len(shape) != 4 or shape[0] != 1 or shape[1] not in (1, 3):
        raise CortadoError(
            f"input '{name}' is {list(shape)}, but a camera (--input-format) delivers one image [1, C, H, W] with 1 or "
            "3 channels; compile without --input-format"
        )
    if shape[2:] != (wanted.height, wanted.width):
        raise CortadoError(
            f"input '{name}' is an image of {shape[3]}x{shape[2]} pixels, but the camera delivers {wanted}; expected "
            f"--resize {shape[3]}x{shape[2]}, or a --crop of that size"
        )
    for option, values in (("--mean", camera.mean), ("--std", camera.std)):
        if len(values) not in (1, shape[1]):
            raise CortadoError(
                f"{option} has {len(values)} numbers, and input '{name}' has {shape[1]} "
                f"channel{'s' if shape[1] > 1 else ''}; expected one number, or one for each channel"
            )


def code_table(camera: Camera, channels: int, scale: float, zero_point: int) -> ArrayType:
    """Returns [channels, 256]: the code of each pixel value, computed in float32 as torch normalizes and quantizes."""
    mean, std = (
        np.array(camera.channel(values, channels), dtype=np.float32)[:, None] for values in (camera.mean, camera.std)
    )
    real = (np.arange(256, dtype=np.float32)[None, :] / np.float32(255) - mean) / std
    with np.errstate(over="ignore"):
        steps = real * (np.float32(1) / np.float32(scale))
    most = np.float32(2 * (INT8.steps + 1))  # beyond it any zero point saturates
    codes = np.rint(np.clip(steps, -most, most)) + np.float32(zero_point)
    return np.asarray(np.clip(codes, *INT8.codes).astype(np.int8))


def codes_of(camera: Camera, lines: ArrayType, channels: int, scale: float, zero_point: int) -> ArrayType:
    """Converts a picture [height, bytes of a line] to the network's input [1, C, H, W]: int8 codes."""
    found = resized(camera, pixels_of(camera.format, lines, channels))
    table = code_table(camera, channels, scale, zero_point)
    return np.stack([table[channel][found[:, :, channel]] for channel in range(channels)])[None]


def resized(camera: Camera, pixels: ArrayType) -> ArrayType:
    """Resizes pixels [height, width, channels] of the picture to those of the network, 0 to 255."""
    across = _between(pixels.astype(np.int64), camera.columns, axis=1)
    down = _between(across, camera.rows, axis=0)
    return (down + WHOLE * WHOLE // 2) >> 16


def _between(values: ArrayType, taps: tuple[Tap, ...], axis: int) -> ArrayType:
    first = np.array([tap.at for tap in taps])
    weight = np.array([tap.weight for tap in taps])
    second = first + (weight > 0)
    a, b = values.take(first, axis), values.take(second, axis)
    return np.asarray(WHOLE * a + (b - a) * weight.reshape([-1 if dim == axis else 1 for dim in range(values.ndim)]))


def pixels_of(how: PixelFormat, lines: ArrayType, channels: int) -> ArrayType:
    """Decodes a picture to [height, width, channels]: red, green and blue, or grey, each from 0 to 255."""
    height, values = len(lines), lines.astype(np.int64)
    if how is PixelFormat.GREY8:
        return np.repeat(values[:, :, None], channels, axis=2)
    if how is PixelFormat.YUYV:
        return _from_yuyv(values.reshape(height, -1, 4), channels)
    if how in (PixelFormat.RGB565, PixelFormat.BGR565):
        word = values[:, 0::2] | values[:, 1::2] << 8
        five, six, low = word >> 11, word >> 5 & 63, word & 31
        found = np.stack([five << 3 | five >> 2, six << 2 | six >> 4, low << 3 | low >> 2], axis=2)
    else:
        found = values.reshape(height, -1, 3)
    rgb = found[:, :, ::-1] if how.reversed else found
    return rgb if channels == 3 else ((rgb * np.array(LUMA)).sum(axis=2, keepdims=True) + 128) >> 8


def _from_yuyv(pairs: ArrayType, channels: int) -> ArrayType:
    """Decodes YUYV: R = (298 c + 409 e + 128) >> 8, G = (298 c - 100 d - 208 e + 128) >> 8, B = (298 c + 516 d + 128)
    >> 8, clamped to 0 to 255, with c = Y - 16, d = U - 128, e = V - 128; grey is computed without colour."""
    height = len(pairs)
    light = 298 * (pairs[:, :, 0::2].reshape(height, -1) - 16) + 128
    if channels == 1:
        return np.clip(light >> 8, 0, 255)[:, :, None]
    d, e = (np.repeat(pairs[:, :, place] - 128, 2, axis=1) for place in (1, 3))
    rgb = np.stack([light + 409 * e, light - 100 * d - 208 * e, light + 516 * d], axis=2)
    return np.clip(rgb >> 8, 0, 255)


# ---- pictures as users have them ---------------------------------------------------------------------------------


def lines_of(camera: Camera, picture: ArrayType, where: str) -> ArrayType:
    """Converts a user's picture to the sensor's lines, [height, bytes of a line], from bytes in that shape or by pixel,
    or from 16-bit words."""
    height, width, each = camera.size.height, camera.size.width, camera.format.bytes
    value = picture.astype("<u2").view(np.uint8) if picture.dtype == np.uint16 and each == 2 else picture
    shapes = {(height, width * each), (height, width, each)}
    if value.dtype != np.uint8 or value.shape not in shapes:
        kinds = f"uint8 of shape [{height}, {width * each}] or [{height}, {width}, {each}]"
        kinds += f", or uint16 of [{height}, {width}]" if each == 2 else ""
        raise CortadoError(
            f"{where} is {picture.dtype} of shape {list(picture.shape)}, expected a picture of the camera, {camera}: "
            f"{kinds}"
        )
    return np.ascontiguousarray(value).reshape(height, width * each)


def sensed(how: PixelFormat, rgb: ArrayType) -> ArrayType:
    """Encodes pixels [height, width, 3] of red, green and blue as a sensor of that format: [height, bytes of a line].
    For yuyv the colours of a pair are averaged."""
    height, values = len(rgb), rgb.astype(np.int64)
    if how is PixelFormat.GREY8:
        return (((values * np.array(LUMA)).sum(axis=2) + 128) >> 8).astype(np.uint8)
    if how is PixelFormat.YUYV:
        return _to_yuyv(values)
    first, green, last = (values[:, :, place] for place in ((2, 1, 0) if how.reversed else (0, 1, 2)))
    if how.bytes == 3:
        return np.stack([first, green, last], axis=2).astype(np.uint8).reshape(height, -1)
    word = first >> 3 << 11 | green >> 2 << 5 | last >> 3
    return np.stack([word & 255, word >> 8], axis=2).astype(np.uint8).reshape(height, -1)


def _to_yuyv(rgb: ArrayType) -> ArrayType:
    pairs = rgb.reshape(len(rgb), -1, 2, 3)
    light = ((pairs * np.array([66, 129, 25])).sum(axis=3) + 128 >> 8) + 16
    mean = (pairs.sum(axis=2) + 1) >> 1
    d, e = (((mean * np.array(by)).sum(axis=2) + 128 >> 8) + 128 for by in ((-38, -74, 112), (112, -94, -18)))
    found = np.stack([light[:, :, 0], d, light[:, :, 1], e], axis=2)
    return np.clip(found, 0, 255).astype(np.uint8).reshape(len(rgb), -1)


def sample_picture(camera: Camera) -> ArrayType:
    """Returns a deterministic picture with every value of a byte, for runs without one."""
    y, x = np.indices((camera.size.height, camera.line_bytes))
    return ((x * 7 + y * 3) ^ (x * y >> 5)).astype(np.uint8)
