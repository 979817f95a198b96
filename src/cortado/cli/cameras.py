"""A camera in front of a network, on the command line."""

import argparse
from typing import TYPE_CHECKING

from cortado.base.camera import PixelFormat, ResizeFilter
from cortado.cli.parsing import names

if TYPE_CHECKING:
    from cortado.artifact.camera_report import CameraReport


def camera_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments that become the Camera of the Options."""
    parser.add_argument(
        "--input-format",
        "--input_format",
        choices=names(PixelFormat),
        help="a camera in front of the C bundle's input: how pixels lie in the lines of its sensor, which "
        "MODEL_take_line takes; with --input-rows no picture lies in memory (docs/cameras.md)",
    )
    parser.add_argument(
        "--input-size",
        "--input_size",
        metavar="WxH",
        help="of the camera's pictures, in pixels",
    )
    parser.add_argument(
        "--crop", metavar="X,Y,WxH", help="the part of the camera's pictures that the network sees (default: all)"
    )
    parser.add_argument(
        "--resize", metavar="WxH", help="what that part becomes: the size of the network's image (default: its own)"
    )
    parser.add_argument(
        "--resize-filter",
        "--resize_filter",
        choices=names(ResizeFilter),
        help="how (default: bilinear, as torch's interpolate with align_corners=False)",
    )
    parser.add_argument(
        "--mean",
        default=[],
        metavar="NUMBERS",
        help="what the model's own preparation subtracts from pixels of 0 to 1: a number, or one for each channel with "
        "commas between them (default: 0)",
    )
    parser.add_argument("--std", default=[], metavar="NUMBERS", help="what they are then divided by (default: 1)")


def camera_text(camera: "CameraReport") -> str:
    """For the summary of a compile."""
    held = f"{camera.held_bytes:,} bytes of the arena for a line" if camera.held_bytes else "no line is kept"
    cycles = "" if camera.cycles is None else f", about {camera.cycles:,} cycles for a picture"
    return f"{camera.camera}; {held}, {camera.table_bytes:,} bytes of tables{cycles}"
