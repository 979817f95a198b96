"""A camera as the input of a network: the format of its sensor, and which of its pixels the network sees.

The exact rule, in integers: the pixels inside the crop are resized to the network's size with two taps in each
direction, whose weights are in 256ths. The reference in Python is frontend/capture/camera.py, the C code
kernels/src/cortado_camera_*.c.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

from cortado.base.errors import CortadoError

MOST = 8192  # pixels of a side
WHOLE = 256  # the sum of the weights of two taps
_SIZE = re.compile(r"([0-9]{1,5})x([0-9]{1,5})")
_CROP = re.compile(r"([0-9]{1,5}),([0-9]{1,5}),([0-9]{1,5}x[0-9]{1,5})")


class PixelFormat(Enum):
    """The pixel format of a sensor's lines."""

    RGB565 = "rgb565"  # 16 bits, the lower byte first: red the upper 5, then 6 of green, 5 of blue
    BGR565 = "bgr565"  # blue the upper 5
    RGB888 = "rgb888"  # a byte each, red first
    BGR888 = "bgr888"
    YUYV = "yuyv"  # two pixels in four bytes: Y0 U Y1 V, as ITU-R BT.601 has them (16 is black, 235 white)
    GREY8 = "grey8"

    @property
    def bytes(self) -> int:
        """Returns the bytes of a pixel."""
        return {PixelFormat.GREY8: 1, PixelFormat.RGB888: 3, PixelFormat.BGR888: 3}.get(self, 2)

    @property
    def reversed(self) -> bool:
        """Whether blue is the first of the three channels."""
        return self in (PixelFormat.BGR565, PixelFormat.BGR888)


class ResizeFilter(Enum):
    """The resampling filter for pictures."""

    NEAREST = "nearest"
    BILINEAR = "bilinear"


@dataclass(frozen=True)
class PictureSize:
    """The size of a picture, in pixels."""

    width: int
    height: int

    def __str__(self) -> str:
        return f"{self.width}x{self.height}"


@dataclass(frozen=True)
class Crop:
    """A part of a picture, from its upper left corner."""

    x: int
    y: int
    size: PictureSize

    def __str__(self) -> str:
        return f"{self.x},{self.y},{self.size}"


@dataclass(frozen=True)
class Tap:
    """The interpolation tap of an output pixel: the first of two neighbours, and the weight of the second, in
    256ths."""

    at: int
    weight: int


@dataclass(frozen=True)
class Camera:
    """A sensor and the preprocessing of its pictures: crop, resize, normalize."""

    format: PixelFormat
    size: PictureSize
    crop: Crop
    resize: PictureSize
    filter: ResizeFilter
    mean: tuple[float, ...]  # of each channel, or one for all; for pixels from 0 to 1
    std: tuple[float, ...]

    def __str__(self) -> str:
        whole = Crop(0, 0, self.size) == self.crop
        cut = "" if whole else f", {self.crop.size} of them at {self.crop.x},{self.crop.y}"
        scaled = "" if self.resize == self.crop.size else f", to {self.resize} ({self.filter.value})"
        return f"{self.size} pixels of {self.format.value}{cut}{scaled}"

    @property
    def line_bytes(self) -> int:
        """Returns the bytes of the sensor's lines."""
        return self.size.width * self.format.bytes

    @cached_property
    def columns(self) -> tuple[Tap, ...]:
        """Returns the taps of each pixel of a row, in pixels of the sensor's line."""
        return _taps(self.crop.x, self.crop.size.width, self.resize.width, self.filter)

    @cached_property
    def rows(self) -> tuple[Tap, ...]:
        """Returns the taps of each row, in lines of the sensor."""
        return _taps(self.crop.y, self.crop.size.height, self.resize.height, self.filter)

    @property
    def interpolates(self) -> bool:
        """Whether some pixel is interpolated from several."""
        return any(tap.weight for tap in (*self.columns, *self.rows))

    def held_bytes(self, channels: int) -> int:
        """Returns the bytes of the line that is kept for the next: 16 bits for every value of a row; 0 if rows need one
        line each."""
        return 2 * self.resize.width * channels if any(tap.weight for tap in self.rows) else 0

    @property
    def passes(self) -> int:
        """Counts the passes over lines that a picture takes: one for every row, and one for each line that is only kept
        for the next row."""
        made = {tap.at + (tap.weight > 0) for tap in self.rows}
        kept = {tap.at for tap in self.rows if tap.weight}
        return len(self.rows) + len(kept - made)

    def channel(self, values: tuple[float, ...], channels: int) -> tuple[float, ...]:
        """Returns `mean` or `std` for every channel."""
        return values * channels if len(values) == 1 else values


def _taps(first: int, inside: int, outside: int, how: ResizeFilter) -> tuple[Tap, ...]:
    """Returns the taps. Nearest: pixel floor(x * inside / outside). Bilinear: position (x + 1/2) * inside / outside -
    1/2, as without aligned corners, with its fraction in 256ths, rounded half up."""
    if how is ResizeFilter.NEAREST:
        return tuple(Tap(first + x * inside // outside, 0) for x in range(outside))
    found = []
    for x in range(outside):
        at, rest = divmod(max((2 * x + 1) * inside - outside, 0), 2 * outside)
        carry, weight = divmod((rest * WHOLE + outside) // (2 * outside), WHOLE)
        at += carry
        found.append(Tap(first + at, weight) if at < inside - 1 else Tap(first + inside - 1, 0))
    return tuple(found)


# ---- as users write them -----------------------------------------------------------------------------------------


def size_of(value: object, option: str) -> PictureSize:
    """Reads a size from WIDTHxHEIGHT, or two numbers."""
    if isinstance(value, PictureSize):
        found = value
    elif isinstance(value, str) and (match := _SIZE.fullmatch(value.strip())):
        found = PictureSize(int(match[1]), int(match[2]))
    elif isinstance(value, tuple | list) and [type(one) for one in value] == [int, int]:
        found = PictureSize(*value)
    else:
        raise CortadoError(f"{option} {value}: expected WIDTHxHEIGHT in pixels, as in 160x120")
    if not (1 <= found.width <= MOST and 1 <= found.height <= MOST):
        raise CortadoError(f"{option} {found}: expected sides of 1 to {MOST} pixels")
    return found


def crop_of(value: object) -> Crop:
    """Reads a part of a picture from X,Y,WIDTHxHEIGHT, or four numbers."""
    if isinstance(value, Crop):
        return value
    if isinstance(value, str) and (match := _CROP.fullmatch(value.replace(" ", ""))):
        return Crop(int(match[1]), int(match[2]), size_of(match[3], "--crop"))
    if isinstance(value, tuple | list) and [type(one) for one in value] == [int] * 4:
        return Crop(value[0], value[1], size_of(tuple(value[2:]), "--crop"))
    raise CortadoError(f"--crop {value}: expected X,Y,WIDTHxHEIGHT in pixels of the picture, as in 20,0,120x120")


def numbers_of(value: object, option: str) -> tuple[float, ...]:
    """Reads one number or several, from a text with commas, a number, or a sequence."""
    parts = value.split(",") if isinstance(value, str) else value
    several: list[Any] = list(parts) if isinstance(parts, Iterable) else [parts]
    try:
        found = tuple(float(one) for one in several)
    except (TypeError, ValueError):
        found = ()
    if len(found) not in (1, 3) or not all(map(math.isfinite, found)):
        raise CortadoError(
            f"{option} {value}: expected a number, or one for each of three channels, as in 0.485,0.456,0.406"
        )
    return found


def camera_of(
    pixels: PixelFormat,
    size: PictureSize,
    crop: Crop | None = None,
    resize: PictureSize | None = None,
    how: ResizeFilter | None = None,
    mean: tuple[float, ...] = (),
    std: tuple[float, ...] = (),
) -> Camera:
    """Returns the camera of these options; omitted ones default to the whole picture, in its size, with pixels from 0
    to 1."""
    part = crop or Crop(0, 0, size)
    right, low = part.x + part.size.width, part.y + part.size.height
    if part.x < 0 or part.y < 0 or right > size.width or low > size.height:
        raise CortadoError(
            f"--crop {part} reaches to {right},{low}, outside of a picture of {size} (--input-size); expected it to "
            "lie within"
        )
    if pixels is PixelFormat.YUYV and size.width % 2:
        raise CortadoError(f"--input-size {size}: two pixels of yuyv share their colour; expected an even width")
    if any(one <= 0 for one in std):
        raise CortadoError(f"--std {','.join(f'{one:g}' for one in std)}: expected numbers above 0")
    return Camera(pixels, size, part, resize or part.size, how or ResizeFilter.BILINEAR, mean or (0.0,), std or (1.0,))
