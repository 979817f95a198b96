"""What a camera's pictures become: the integer rule beside torch's float pipeline, and options that can't be."""

import re

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from cortado.base.arrays import ArrayType
from cortado.base.camera import Camera, PictureSize, PixelFormat, ResizeFilter, camera_of, crop_of, size_of
from cortado.base.errors import CortadoError
from cortado.frontend.capture.camera import (
    check_input,
    code_table,
    codes_of,
    lines_of,
    pixels_of,
    resized,
    sample_picture,
    sensed,
)
from cortado.options import Options

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SCALE, ZERO_POINT = 0.0187, -3


def photo(seed: int, width: int, height: int) -> ArrayType:
    """Light, edges and a little noise, as pictures have them."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    waves = [np.sin(x / random.uniform(2, 20) + y / random.uniform(2, 20) + c) for c in range(3)]
    edges = (x > random.integers(width)) ^ (y > random.integers(height))
    found = 120 + 80 * np.stack(waves, axis=2) + 60 * edges[:, :, None] + random.normal(0, 4, (height, width, 3))
    return np.clip(np.rint(found), 0, 255).astype(np.uint8)


def camera(how: str, size: str, crop: str | None = None, resize: str | None = None, by: str = "bilinear") -> Camera:
    part = None if crop is None else crop_of(crop)
    to = None if resize is None else size_of(resize, "--resize")
    return camera_of(PixelFormat(how), size_of(size, "--input-size"), part, to, ResizeFilter(by), MEAN, STD)


def eager(rgb: ArrayType, found: Camera) -> Tensor:
    """The pixels that torch makes of a picture, 0 to 255."""
    part, size = found.crop, found.crop.size
    cut = torch.from_numpy(rgb.astype(np.float32))[part.y : part.y + size.height, part.x : part.x + size.width]
    corners = False if found.filter is ResizeFilter.BILINEAR else None
    to = (found.resize.height, found.resize.width)
    return F.interpolate(cut.permute(2, 0, 1)[None], to, mode=found.filter.value, align_corners=corners)


def decoded(how: PixelFormat, lines: ArrayType) -> ArrayType:
    """The same colours in real numbers, by the definitions of the formats."""
    height = len(lines)
    if how is PixelFormat.GREY8:
        return np.repeat(lines[:, :, None], 3, axis=2).astype(np.float64)
    if how is PixelFormat.YUYV:
        pairs = lines.reshape(height, -1, 4).astype(np.float64)
        y = (pairs[:, :, 0::2].reshape(height, -1) - 16) / 219
        u, v = (np.repeat((pairs[:, :, place] - 128) / 224, 2, axis=1) for place in (1, 3))
        rgb = np.stack([y + 1.402 * v, y - 0.344136 * u - 0.714136 * v, y + 1.772 * u], axis=2)
        return 255 * np.clip(rgb, 0, 1)
    if how.bytes == 3:
        rgb = lines.reshape(height, -1, 3).astype(np.float64)
    else:
        word = lines.view("<u2").astype(np.float64)
        parts = [np.floor(word / 2048) / 31, np.floor(word % 2048 / 32) / 63, word % 32 / 31]
        rgb = 255 * np.stack(parts, axis=2)
    return rgb[:, :, ::-1] if how.reversed else rgb


@pytest.mark.parametrize("how", list(PixelFormat))
def test_colours_are_those_of_the_format(how: PixelFormat) -> None:
    """Within half a step of rounding, and of the matrix of yuyv in 256ths."""
    lines = sample_picture(camera(how.value, "64x48"))
    found = pixels_of(how, lines, 3)
    assert np.abs(found - decoded(how, lines)).max() <= {2: 1.0}.get(how.bytes, 0.0)
    assert found.min() >= 0
    assert found.max() <= 255
    grey = pixels_of(how, lines, 1)[:, :, 0]
    if how is not PixelFormat.YUYV:
        assert np.abs(grey - decoded(how, lines) @ [0.299, 0.587, 0.114]).max() <= 1.6


@pytest.mark.parametrize("how", list(PixelFormat))
def test_a_sensor_gives_back_what_it_saw(how: PixelFormat) -> None:
    picture = photo(1, 40, 30)
    found = pixels_of(how, sensed(how, picture), 3)
    if how is PixelFormat.GREY8:
        assert np.abs(found[:, :, 0] - picture @ [0.299, 0.587, 0.114]).max() <= 1
        return
    most = {PixelFormat.YUYV: 60, PixelFormat.RGB888: 0, PixelFormat.BGR888: 0}.get(how, 8)  # pairs share a colour
    assert np.abs(found - picture).max() <= most
    assert np.abs((found - picture.astype(int)).mean(axis=(0, 1))).max() < 4.5


GEOMETRIES = [
    ("160x120", None, "96x96"),
    ("160x120", "20,0,120x120", "96x96"),
    ("64x48", "1,3,61x43", "20x13"),
    ("24x20", "2,2,20x16", "33x40"),
    ("24x20", None, "24x50"),
    ("24x20", None, "7x20"),
    ("30x30", "5,5,1x1", "4x3"),
    ("30x30", None, "1x1"),
]


@pytest.mark.parametrize(("size", "crop", "resize"), GEOMETRIES)
def test_bilinear_is_torch_within_a_step(size: str, crop: str | None, resize: str) -> None:
    found = camera("rgb888", size, crop, resize)
    errors = []
    for seed in range(4):
        picture = photo(seed, found.size.width, found.size.height)
        mine = resized(found, pixels_of(found.format, sensed(found.format, picture), 3))
        errors.append(mine - eager(picture, found)[0].permute(1, 2, 0).numpy())
    error = np.concatenate(errors)
    assert np.abs(error).max() < 1.5  # half a step of rounding; weights in 256ths, across and down
    assert np.sqrt((error**2).mean()) < 0.4
    assert abs(error.mean()) < 0.3


def test_the_smallest_weight_counts() -> None:
    """The first of 128 columns made of 129 is one part in 256 of the second one: 255 / 256, not 0."""
    found = camera("grey8", "129x8", None, "128x8")
    pixels = np.zeros((8, 129, 1), np.uint8)
    pixels[:, 1] = 255
    assert found.columns[0].weight == 1
    assert (resized(found, pixels)[:, 0] == 1).all()


@pytest.mark.parametrize(("size", "crop", "resize"), GEOMETRIES)
def test_nearest_is_torch_exactly(size: str, crop: str | None, resize: str) -> None:
    found = camera("rgb888", size, crop, resize, "nearest")
    picture = photo(7, found.size.width, found.size.height)
    mine = resized(found, pixels_of(found.format, sensed(found.format, picture), 3))
    np.testing.assert_array_equal(mine, eager(picture, found)[0].permute(1, 2, 0).numpy())
    assert found.held_bytes(3) == 0


def test_codes_without_resizing_are_those_of_torch() -> None:
    found = camera("rgb888", "40x30", "4,3,32x24")
    picture = photo(3, 40, 30)
    mine = codes_of(found, sensed(found.format, picture), 3, SCALE, ZERO_POINT)
    mean, std = (torch.tensor(values)[:, None, None] for values in (MEAN, STD))
    normal = (eager(picture, found) / 255 - mean) / std
    expected = (torch.round(normal * (1 / torch.tensor(SCALE))) + ZERO_POINT).clamp(-128, 127)
    np.testing.assert_array_equal(mine, expected.numpy())
    assert found.held_bytes(3) == 0
    assert not found.interpolates


def test_tables_saturate() -> None:
    found = camera("grey8", "8x8")
    assert code_table(found, 3, 1e-6, 5).tolist()[0][0] == -128
    assert code_table(found, 3, 1e-6, 5).tolist()[0][-1] == 127
    assert set(code_table(found, 3, 1e6, 5).ravel().tolist()) == {5}


def test_taps_lie_inside_of_the_crop() -> None:
    random = np.random.default_rng(0)
    for _ in range(300):
        x, width, to = (int(n) for n in random.integers(1, 60, 3))
        found = camera("grey8", f"{x + width}x9", f"{x},0,{width}x9", f"{to}x9")
        assert all(x <= tap.at and tap.at + (tap.weight > 0) < x + width for tap in found.columns)
        assert all(0 <= tap.weight < 256 for tap in found.columns)
        places = [tap.at + tap.weight / 256 for tap in found.columns]
        assert places == sorted(places)
        wanted = np.clip((np.arange(to) + 0.5) * width / to - 0.5, 0, width - 1) + x
        assert np.abs(np.array(places) - wanted).max() <= 1 / 512 + 1e-9


def test_pictures_in_other_shapes() -> None:
    found = camera("rgb565", "8x6")
    lines = sample_picture(found)
    for same in (lines, lines.reshape(6, 8, 2), lines.view("<u2")):
        np.testing.assert_array_equal(lines_of(found, same, "x"), lines)
    with pytest.raises(
        CortadoError, match=r"x is uint8 of shape \[6, 8\], expected a picture of the camera, 8x6 pixels"
    ):
        lines_of(found, lines[:, :8], "x")


GIVEN = {"input_format": "rgb565", "input_size": "160x120"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input_format": "rgb555", "input_size": "8x8"}, "input_format='rgb555': expected one of 'rgb565', 'bgr565'"),
        ({"input_format": "rgb565"}, "--input-format rgb565: the size of the camera's pictures is missing"),
        ({"input_size": "8x8"}, "--input-size is for a camera; give its pixel format with --input-format"),
        ({"crop": "0,0,8x8"}, "--crop is for a camera"),
        ({"resize": "8x8"}, "--resize is for a camera"),
        ({"resize_filter": "nearest"}, "--resize-filter is for a camera"),
        ({"mean": "0.5"}, "--mean is for a camera"),
        ({"std": (0.5,)}, "--std is for a camera"),
        (
            {**GIVEN, "resize_filter": "nearest"},
            "--resize-filter nearest: it needs --resize; add that, or leave it out",
        ),
        ({**GIVEN, "resize": "8x8", "resize_filter": "cubic"}, "resize_filter='cubic': expected one of 'nearest'"),
        ({**GIVEN, "input_size": "160*120"}, "--input-size 160*120: expected WIDTHxHEIGHT in pixels"),
        ({**GIVEN, "input_size": "0x120"}, "--input-size 0x120: expected sides of 1 to 8192 pixels"),
        ({**GIVEN, "crop": "100,0,61x8"}, "--crop 100,0,61x8 reaches to 161,8, outside of a picture of 160x120"),
        ({**GIVEN, "crop": "0,113,8x8"}, "reaches to 8,121, outside of a picture"),
        ({**GIVEN, "crop": (-1, 0, 8, 8)}, "outside of a picture of 160x120"),
        ({**GIVEN, "crop": "8x8"}, "--crop 8x8: expected X,Y,WIDTHxHEIGHT in pixels of the picture"),
        ({**GIVEN, "resize": "big"}, "--resize big: expected WIDTHxHEIGHT"),
        ({**GIVEN, "mean": "0.1,0.2"}, "--mean 0.1,0.2: expected a number, or one for each of three channels"),
        ({**GIVEN, "mean": "nan"}, "--mean nan: expected a number"),
        ({**GIVEN, "std": "0"}, "--std 0: expected numbers above 0"),
        (
            {"input_format": "yuyv", "input_size": "15x8"},
            "two pixels of yuyv share their colour; expected an even width",
        ),
        ({**GIVEN, "io": "float"}, "--input-format and --io float: a camera's lines become the int8 codes"),
        ({**GIVEN, "activations": "int16"}, "--input-format and --activations int16"),
        ({**GIVEN, "input_layout": "nhwc"}, "--input-format and --input-layout nhwc"),
        ({**GIVEN, "stream": 2}, "--input-format and --stream"),
        ({**GIVEN, "memory": "a=1K,b=1K"}, "--input-format and --memory"),
        ({**GIVEN, "image": True}, "--input-format and --image"),
        ({**GIVEN, "artifacts": "pte"}, "--input-format is for the C bundle"),
    ],
)
def test_options_that_do_not_go_together(options: dict[str, object], message: str) -> None:
    with pytest.raises(CortadoError, match=re.escape(message)):
        Options(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (
            (1, 3, 24, 31),
            "input 'x' is an image of 31x24 pixels, but the camera delivers 32x24; expected --resize 31x24",
        ),
        ((2, 3, 24, 32), "input 'x' is [2, 3, 24, 32], but a camera (--input-format) delivers one image"),
        ((1, 4, 24, 32), "with 1 or 3 channels"),
        ((1, 32), "input 'x' is [1, 32]"),
        ((1, 1, 24, 32), "--mean has 3 numbers, and input 'x' has 1 channel; expected one number"),
    ],
)
def test_inputs_that_are_no_such_image(shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(CortadoError, match=re.escape(message)):
        check_input(camera("rgb565", "32x24"), shape, "x")


def test_options_say_what_they_are() -> None:
    given = Options(**GIVEN, crop=(20, 0, 120, 120), resize=(96, 96), mean=0.5)  # type: ignore[arg-type]
    assert repr(given) == (
        "Options(input_format='rgb565', input_size='160x120', crop='20,0,120x120', resize='96x96', mean='0.5')"
    )
    assert given.camera == camera_of(
        PixelFormat.RGB565, PictureSize(160, 120), crop_of("20,0,120x120"), PictureSize(96, 96), mean=(0.5,)
    )
    assert str(given.camera) == "160x120 pixels of rgb565, 120x120 of them at 20,0, to 96x96 (bilinear)"
    assert given.camera is not None
    assert (given.camera.line_bytes, given.camera.held_bytes(3)) == (320, 576)
    assert Options().camera is None
