"""The arguments of compile."""

import argparse
from pathlib import Path
from typing import Any, TypeAlias

from cortado.base.camera import PixelFormat, ResizeFilter
from cortado.cli.compile import compile_command
from cortado.cli.events import decide_argument
from cortado.cli.parsing import add, names, number, part, sequence_argument, shape_argument
from cortado.options import (
    Activations,
    Artifacts,
    Border,
    CalibrationMethod,
    InputLayout,
    LinearWeights,
    Optimize,
    Precision,
    PteKind,
    StreamPadding,
    Weights,
)

Group: TypeAlias = argparse._ArgumentGroup


def compile_arguments(commands: Any) -> None:
    """Adds the command, its arguments in groups: the everyday ones first."""
    parser = add(commands, "compile", "compile a model for a target", compile_command)
    groups = {
        "what to compile": _model_arguments,
        "target": _target_arguments,
        "calibration": _calibration_arguments,
        "precision": _precision_arguments,
        "inputs and outputs": _flow_arguments,
        "camera": _camera_arguments,
        "memory": _memory_arguments,
        "what to write": _artifact_arguments,
    }
    for title, arguments in groups.items():
        arguments(parser.add_argument_group(title))


def _model_arguments(parser: Group) -> None:
    parser.add_argument(
        "model",
        nargs="*",
        metavar="MODEL",
        help="a name of the zoo, file.py, file.py:function, package.module:function, exported.pt2 or model.onnx; "
        "several with --together",
    )
    parser.add_argument("-m", "--model-name", "--model_name", metavar="MODEL", help="the same, as an option")
    parser.add_argument("--name", metavar="NAME", help="the model's name in files and C symbols")
    parser.add_argument(
        "--labels",
        metavar="NAMES",
        help="names of a classifier's classes, in their order: a .txt file with one in each line, or the names with "
        "commas between them (default: those of the zoo's networks)",
    )
    shape_argument(parser)
    parser.add_argument(
        "--together",
        type=Path,
        metavar="DIR",
        help="write the C of all models as one program: the kernels once, and one arena, the largest, for those of "
        "which nothing lasts between two calls (docs/firmware.md). NAME=MODEL names a model; --calibration may name "
        "data for each, with commas between them",
    )
    parser.add_argument(
        "--shared-arena",
        action="store_true",
        help="with --together: one arena for all models, the largest; a run of one destroys inputs and outputs of the "
        "others (default: an arena for each)",
    )


def _target_arguments(parser: Group) -> None:
    parser.add_argument(
        "-t",
        "--target",
        metavar="TARGET",
        help="a core, several with commas between them, or cortex-m (the default): one artifact that is right on all",
    )
    parser.add_argument(
        "--chip",
        metavar="CHIP",
        help="a chip or board of `cortado chips`: sets the target and the budgets, and the summary says how much of it "
        "the model takes, in memory and in time",
    )
    parser.add_argument(
        "--optimize",
        choices=names(Optimize),
        default="balanced",
        help="ram: the lowest peak; time: layer by layer; balanced (the default): the lowest peak that costs at most "
        "an eighth more cycles, as estimated",
    )
    parser.add_argument(
        "--ram-budget",
        metavar="BYTES",
        help="fail if the arena is larger; 256K and 1M are understood (default: with --chip what the chip has)",
    )
    parser.add_argument("--flash-budget", metavar="BYTES", help="fail if constants and code are larger")


def _calibration_arguments(parser: Group) -> None:
    """How ranges are chosen, and what is an error."""
    parser.add_argument(
        "--calibration",
        "--calibration-data",
        "--calibration_data",
        metavar="DATA",
        help="typical inputs: a .npy, .npz or .pt file, a folder of them, file.py:function, or 'random'",
    )
    parser.add_argument(
        "--calibration-method",
        choices=names(CalibrationMethod),
        default="auto",
        help="the range of a tensor's codes: the least squared error on the calibration data (mse), all but one value "
        "in ten thousand (percentile), all values (minmax), or whichever of these serves the outputs best on "
        "calibration samples that are held back (auto, the default). mse and percentile leave out samples that are "
        "unlike all others, and tell of them",
    )
    parser.add_argument(
        "--bias-correction",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="let biases make up for what int8 does to the mean of a layer's outputs on the calibration data (the "
        "default; with --calibration-method auto where that helps the outputs)",
    )
    parser.add_argument(
        "--range",
        action="append",
        default=[],
        metavar="NAME=LOW..HIGH",
        help="the integers that an input holds, as in ids=0..100000: what is computed of them is proven to stay within "
        "32 bits, or refused (calibration data prove nothing); may be repeated",
    )
    sequence_argument(parser, "the calibration data")
    parser.add_argument(
        "--strict",
        action="store_true",
        help="take warnings (of the calibration data, and of outputs that lose too much in int8) for errors: nothing "
        "is written",
    )
    parser.add_argument("-q", "--quantize", action="store_true", help="accepted for compatibility: it is always on")


def _precision_arguments(parser: Group) -> None:
    """How many bits numbers have."""
    parser.add_argument(
        "--activations",
        choices=names(Activations),
        default="int8",
        help="what real tensors are kept as (default: int8). int16, symmetric and with room for four times what "
        "calibration saw, is for the C bundle alone; weights stay int8. float32, weights included, is for the C bundle "
        "too: nothing is quantized, and no calibration data is needed",
    )
    parser.add_argument(
        "--state",
        choices=[Activations.INT8.value, Activations.INT16.value],
        default="int16",
        help="what a buffer that is computed from itself is kept as, with the tensors of its loop (default: int16, for "
        "the C bundle alone; int8 is for the .pte too). Buffers that only delay are int8",
    )
    parser.add_argument(
        "--weights",
        choices=names(Weights),
        default="int8",
        help="what weights of layers and tables take in the C bundle (default: int8). int4: half the "
        "flash wherever a layer can have it; auto: where the outputs lose least, until --flash-budget holds",
    )
    parser.add_argument(
        "--weight-group",
        type=int,
        metavar="32",
        help="int4 weights with a factor for each 32 of them: more exact, a little larger (default: one for a channel)",
    )
    parser.add_argument(
        "--int16",
        action="append",
        default=[],
        metavar="REGEX",
        help="real tensors whose names, or those of their modules, match are int16, as in 'encoder.*'; may be repeated",
    )
    parser.add_argument(
        "--float32",
        "--float",
        action="append",
        default=[],
        metavar="REGEX",
        help="modules whose names match stay in float32 in the C bundle, between a dequantize and a quantize, as in "
        "'head.*'; may be repeated",
    )
    parser.add_argument(
        "--linear",
        choices=names(LinearWeights),
        default="per-channel",
        help="scales of linear layers' weights (default: per-channel). In the .pte per-channel layers are 1x1 "
        "convolutions: 2.3 times the instructions of per-tensor on a Cortex-M4",
    )
    _auto_arguments(parser)


def _auto_arguments(parser: Group) -> None:
    """Measurement chooses."""
    parser.add_argument(
        "--precision",
        choices=names(Precision),
        default="given",
        help="auto: tensors are int16 in the order of decibels gained for bytes and cycles, measured on the "
        "calibration data, until one of the next three holds (docs/precision.md); given (the default): as "
        "--activations, --state and --int16 say",
    )
    parser.add_argument(
        "--min-sqnr",
        type=number,
        metavar="DB",
        help="with --precision auto: the smallest signal-to-noise ratio of any output against the float model, in dB",
    )
    parser.add_argument(
        "--min-accuracy",
        type=part,
        metavar="PART",
        help="with --precision auto: the part of the --labelled samples that is to be classified right, as in "
        "0.92 or 92%%",
    )
    parser.add_argument(
        "--max-drop",
        type=part,
        metavar="PART",
        help="with --precision auto: by how much that part may be below the float model's, as in 0.5%%",
    )
    parser.add_argument(
        "--labelled",
        metavar="FILE",
        help="for --min-accuracy and --max-drop: an .npz file with the model's inputs, samples along the first "
        "dimension, and the number of the right class of each as 'labels'",
    )


def _flow_arguments(parser: Group) -> None:
    """In which form the C bundle takes its input, and gives what it decides."""
    parser.add_argument(
        "--io",
        choices=names(Border),
        default="int8",
        help="what the C bundle's inputs and outputs hold (default: int8)",
    )
    parser.add_argument(
        "--input-layout",
        "--input_layout",
        choices=names(InputLayout),
        default="model",
        help="order of the .pte's inputs, and with --io float of the C bundle's: as in the model (default), or nhwc: "
        "images channels last, as a camera gives them. With --io int8 the C bundle's README says its order",
    )
    parser.add_argument(
        "--input-rows",
        "--input_rows",
        action="store_true",
        help="the C bundle takes its input row by row, as a camera gives it, and holds only a few rows: MODEL_reset, "
        "MODEL_row and MODEL_push instead of MODEL_input and MODEL_run (docs/streaming.md)",
    )
    parser.add_argument(
        "--stream",
        type=int,
        metavar="DIM",
        help="a stream of rows: dimension DIM of the model's input is time, and the C bundle gives after each new row "
        "(or hop) the output for the window that ends there, computing only what is new (docs/streaming.md)",
    )
    parser.add_argument(
        "--stream-padding",
        choices=names(StreamPadding),
        default="keep",
        help="of layers that pad in time, for --stream: keep them (the default), which is an error where the output "
        "depends on the padding; or drop it: compile the same network without, over a longer window",
    )
    decide_argument(parser)


def _camera_arguments(parser: Group) -> None:
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


def _memory_arguments(parser: Group) -> None:
    parser.add_argument(
        "--memory",
        metavar="NAME=BYTES,...",
        default=(),
        help="plan the C bundle's arena over several memories, the fastest first, as in dtcm=64K,sram=256K: what is "
        "used most goes to the first; BYTES:device is device memory, where unaligned accesses fault; or auto: those of "
        "the --chip (docs/memory-planning.md)",
    )
    parser.add_argument(
        "--weight-section",
        "--place",
        dest="place",
        action="append",
        default=[],
        metavar="REGEX=SECTION",
        help="put the C bundle's constants of layers whose module's name matches into a section, as in "
        "'features.1[0-9].*=external': .cortado.external for the linker; may be repeated, and the first that matches "
        "counts",
    )


def _artifact_arguments(parser: Group) -> None:
    """Adds the arguments on what is written."""
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="the folder to write (default: build/NAME)")
    parser.add_argument(
        "--artifacts",
        choices=names(Artifacts),
        default="both",
        help="what to write: the C bundle, the .pte, or both (the default). For C alone ExecuTorch's packages are not "
        "needed, and nothing waits for their import",
    )
    parser.add_argument(
        "--pte",
        choices=names(PteKind),
        default="operators",
        help="what the .pte calls: ExecuTorch's cortex_m operators (the default), or Cortado's delegate, with the "
        "whole network, its arena and its kernels in it (docs/executorch.md)",
    )
    parser.add_argument(
        "--bundleio", action="store_true", help="also write NAME.bpte: the .pte with inputs and outputs"
    )
    parser.add_argument("--etrecord", action="store_true", help="also write NAME.etrecord, for ExecuTorch's Inspector")
    parser.add_argument(
        "--image",
        action="store_true",
        help="also write NAME.cortado: the model as data, which firmware opens and runs without being built again, and "
        "loader/, what it opens it with (docs/images.md)",
    )
    parser.add_argument(
        "--selftest",
        action="store_true",
        help="also write NAME_selftest.c: an input, what every layer must make of it, and MODEL_selftest, which "
        "returns 0 or the first layer that differs, on the device itself (docs/firmware.md)",
    )
    parser.add_argument(
        "--package",
        metavar="SYSTEM",
        default=(),
        help="also write the bundle as packages, with commas between them: zephyr, arduino, cmsis-pack, platformio, "
        "pico or cmake with an example that runs the self-test; web: a page and a module (docs/packages.md)",
    )
    parser.add_argument(
        "--model-version",
        metavar="1.4.0",
        help="the model's version: that of its packages and of MODEL_info (default: one that changes with the model)",
    )
    parser.add_argument("-i", "--intermediates", type=Path, metavar="DIR", help="write the graph after each pass here")
    _float_arguments(parser)


def _float_arguments(parser: Group) -> None:
    """Adds the arguments on what may stay in float."""
    parser.add_argument(
        "--allow-float",
        "--allow_float",
        action="store_true",
        help="keep what a .pte can't hold in integers as ExecuTorch's float kernels there, and list it",
    )
    parser.add_argument(
        "--keep-float",
        action="append",
        default=[],
        metavar="REGEX",
        help="modules whose names match stay in float in the .pte on purpose, as in 'head.*'; may be repeated. There "
        "is no C bundle then",
    )
