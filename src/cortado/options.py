"""Options: the user's choices apart from the target.

A field of `Options` declares an option once: its default, its group and text in `cortado compile --help`, how it is
read, the artifact that it is for, why a delegate can't have it. The command line, the pages and the checks follow.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from enum import Enum

from cortado.base.camera import Camera, Crop, PictureSize, PixelFormat, ResizeFilter, camera_of, crop_of
from cortado.base.chips import Chip
from cortado.base.decision import FORM, Decision, decision_of
from cortado.base.errors import CortadoError
from cortado.base.names import InputRange, count, expressions, flag, member, number, part, ranges_of, text_of
from cortado.base.option import (
    SEQUENCE_HELP,
    WEIGHT_GROUP,
    Group,
    bar,
    byte_count,
    chip_named,
    declared,
    dimension,
    file_name,
    option,
    picture_size,
    pixel_numbers,
    read_option,
    steps,
    version,
    weight_group,
)
from cortado.base.regions import Region, WeightPlacement, places_of, regions_of

# ---- choices ---------------------------------------------------------------------------------------------


class Optimize(Enum):
    """Goals of the schedule."""

    RAM = "ram"  # the lowest peak
    BALANCED = "balanced"  # the lowest peak that costs at most an eighth more cycles, as estimated
    TIME = "time"  # layer by layer


class Border(Enum):
    """Content of the bundle's inputs and outputs where the graph's border is a quantize or a dequantize."""

    INT8 = "int8"  # the codes themselves: the caller quantizes
    FLOAT = "float"  # real numbers: the bundle quantizes


class Activations(Enum):
    """Storage of the network's real numbers: codes of 8 bits, or of 16 with headroom above what calibration saw, or
    float32, without quantization."""

    INT8 = "int8"
    INT16 = "int16"
    FLOAT32 = "float32"


class Weights(Enum):
    """Storage of the weights of convolutions and linear layers in the C bundle."""

    INT8 = "int8"
    INT4 = "int4"  # two in a byte, wherever a layer can have them
    AUTO = "auto"  # int4 where the outputs lose least by it, as far as the flash budget asks for it
    FLOAT32 = "float32"  # exact, in layers whose tensors are float32


class Precision(Enum):
    """How the elements of real tensors are chosen: given by the user, or searched."""

    GIVEN = "given"  # the user: activations, state and int16
    AUTO = "auto"  # measurement: those that give most decibels for their bytes and cycles, until a bar holds


class LinearWeights(Enum):
    """How linear layers are quantized: a scale per output channel, or one for all, as CMSIS-NN's own layers have it."""

    PER_CHANNEL = "per-channel"
    PER_TENSOR = "per-tensor"


class CalibrationMethod(Enum):
    """How the range of an activation is chosen from the calibration data."""

    AUTO = "auto"  # the one that serves the outputs best, on calibration samples that are held back
    MSE = "mse"  # the least squared error of the values that were seen
    PERCENTILE = "percentile"  # all but one value in ten thousand
    MINMAX = "minmax"  # every value


class InputLayout(Enum):
    """The order of dimensions of the .pte's inputs. (The C bundle's int8 inputs have the kernels' order.)"""

    MODEL = "model"
    NHWC = "nhwc"  # images channels last, as a camera gives them


class StreamPadding(Enum):
    """Treatment of layers that pad in time, in a stream."""

    KEEP = "keep"  # they stay: an error where the output depends on their zeros
    DROP = "drop"  # the network without that padding, over a longer window


class PackageKind(Enum):
    """A build system that firmware projects use; the value is the folder that its package is written to."""

    ZEPHYR = "zephyr"
    ARDUINO = "arduino"
    CMSIS_PACK = "cmsis-pack"
    PLATFORMIO = "platformio"
    PICO = "pico"
    CMAKE = "cmake"
    WEB = "web"  # no build system: a page, and a module of JavaScript


class Artifacts(Enum):
    """Artifacts that are made of a model. ExecuTorch's packages are only needed, and only imported, for a .pte."""

    C = "c"  # the C bundle
    PTE = "pte"
    BOTH = "both"


class PteKind(Enum):
    """Kinds of .pte."""

    OPERATORS = "operators"  # ExecuTorch's cortex_m operators: it runs on any runtime that has them
    DELEGATE = "delegate"  # Cortado's backend, with the whole network as an image


# ---- packages --------------------------------------------------------------------------------------------


def _packages(name: str, value: object) -> tuple[PackageKind, ...]:
    """Reads the systems of `package`: texts such as "zephyr,arduino", or members, each once."""
    given = value.split(",") if isinstance(value, str) else [value] if isinstance(value, PackageKind) else value
    if not isinstance(given, Iterable):
        raise CortadoError(f"{name}={value!r} does not name a system; expected a text such as 'zephyr,arduino'")
    found = (member(name, one, PackageKind) for one in given)
    return tuple(dict.fromkeys(kind for kind in found if isinstance(kind, PackageKind)))


# ---- what excludes what ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Conflict:
    """Options that exclude each other: any of `these` and any of `others`; NAME=TEXT means that value alone."""

    these: tuple[str, ...]
    others: tuple[str, ...]
    why: str


_ONE_PIECE = "in an arena in one piece"
_CONFLICTS = (
    _Conflict(
        ("input_format",),
        ("io", "activations", "input_layout", "stream", "memory", "image"),
        f"a camera's lines become the int8 codes of one image, in the C bundle and {_ONE_PIECE}",
    ),
    _Conflict(("activations", "int16"), ("artifacts=pte",), "int16 and float32 tensors are for the C bundle"),
    _Conflict(
        ("float32",),
        ("artifacts=pte", "precision", "keep_float", "allow_float"),
        "modules in float32 are for the C bundle, and the user names them",
    ),
    _Conflict(
        ("activations=float32",),
        ("int16", "float32", "keep_float", "allow_float", "linear"),
        "no tensor of the network has codes",
    ),
    _Conflict(
        ("precision",),
        ("activations", "artifacts=pte", "keep_float"),
        "measurement chooses which tensors of the C bundle are int16",
    ),
    _Conflict(("memory",), ("package",), "the examples of a package have an arena in one piece"),
    _Conflict(("image",), ("memory", "place"), f"an image is one block of constants, and runs {_ONE_PIECE}"),
    _Conflict(
        ("watch",),
        ("activations=float32", "io", "image", "artifacts=pte"),
        "MODEL_surprise reads a code of a whole run's last output, in the C bundle",
    ),
    _Conflict(("image",), ("decide",), "an image holds only the network, without a decision"),
    _Conflict(
        ("memory",),
        ("input_rows", "stream"),
        f"rows that come one by one are counted and stored {_ONE_PIECE}; such a network holds only rings of rows, all "
        "of them used often: place its arena in the fastest memory (CORTADO_ARENA)",
    ),
    _Conflict(("weight_group",), ("weights=int8", "weights=float32"), "groups are for int4 weights"),
    _Conflict(
        ("weights=int4", "weights=auto"),
        ("activations", "linear", "artifacts=pte", "keep_float", "allow_float"),
        "int4 weights have a scale per channel, are multiplied with int8 tensors and are for the C bundle",
    ),
)


# ---- the options -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Options:
    """How to compile; texts are those of the command line: Options(optimize="ram", chip="stm32l4r5", ram_budget="64K").

    Budgets are in bytes; None means no limit, or with a chip what it has.
    """

    chip: Chip | None = option(
        None,
        Group.TARGET,
        "a chip or board listed by `cortado chips`: sets the target and the budgets; the summary then says what share "
        "of the chip's memory and time the model takes",
        metavar="CHIP",
        read=chip_named,
        artifact=Artifacts.C,
    )
    optimize: Optimize = option(
        Optimize.BALANCED,
        Group.TARGET,
        "ram: the lowest peak memory; time: run layer by layer; balanced (the default): the lowest peak that costs at "
        "most an eighth more estimated cycles",
    )
    ram_budget: int | None = option(
        None,
        Group.TARGET,
        "fail if the arena is larger, as in 256K or 1M (default with --chip: the chip's RAM)",
        metavar="BYTES",
        read=byte_count,
        artifact=Artifacts.C,
    )
    flash_budget: int | None = option(
        None,
        Group.TARGET,
        "fail if constants and code are larger",
        metavar="BYTES",
        read=byte_count,
        artifact=Artifacts.C,
    )
    calibration_method: CalibrationMethod = option(
        CalibrationMethod.AUTO,
        Group.CALIBRATION,
        "how to choose the range of each tensor: least squared error on the calibration data (mse), all but one value "
        "in ten thousand (percentile), all values (minmax), or whichever of these gives the best outputs on held-back "
        "calibration samples (auto, the default). mse and percentile ignore outlier samples and report them",
        calibrates=True,
    )
    bias_correction: bool = option(
        True,
        Group.CALIBRATION,
        "correct biases for the shift that int8 causes in the mean of each layer's outputs on the calibration data "
        "(on by default; with --calibration-method auto only where it improves the outputs)",
        calibrates=True,
    )
    range: tuple[InputRange, ...] = option(
        (),
        Group.CALIBRATION,
        "the range of an input. For integers, as in ids=0..100000, all arithmetic is proven to fit in 32 bits, or "
        "refused (calibration data are no proof); 16-bit real inputs, as in sound=-1..1, need no headroom for values "
        "that calibration did not see. May be repeated",
        metavar="NAME=LOW..HIGH",
        read=lambda _, value: ranges_of(value),
        repeated=True,
        calibrates=True,
    )
    sequence: int | None = option(
        None,
        Group.CALIBRATION,
        SEQUENCE_HELP.format("the calibration data"),
        metavar="N",
        text=count,
        read=steps,
        calibrates=True,
    )
    strict: bool = option(
        False,
        Group.CALIBRATION,
        "treat warnings (about the calibration data, or outputs that lose too much in int8) as errors and write "
        "nothing",
    )
    activations: Activations = option(
        Activations.INT8,
        Group.PRECISION,
        "the element type of real tensors (default: int8). int16 (symmetric, with headroom of four times the range "
        "seen in calibration) is for the C bundle only; weights stay int8. float32 is also for the C bundle only and "
        "needs no calibration data; --weights sets its weights",
        calibrates=True,
    )
    state: Activations = option(
        Activations.INT16,
        Group.PRECISION,
        "the element type of a buffer that is computed from its own previous value, and of the tensors in that loop "
        "(default: int16, in the C bundle only; int8 also works in the .pte). Buffers that only delay values are int8",
        shown=("int8", "int16"),
        calibrates=True,
    )
    weights: Weights = option(
        Weights.INT8,
        Group.PRECISION,
        "the storage of weights and tables in the C bundle (default: int8; float32 layers then use int8 codes with a "
        "scale per channel). float32: exact weights in float32 layers. int4: half the flash in every layer that "
        "supports it. auto: int4 where the outputs lose least, until --flash-budget is met",
    )
    weight_group: int | None = option(
        None,
        Group.PRECISION,
        "give int4 weights a scale per 32 weights: more accurate, slightly larger (default: a scale per channel)",
        metavar=str(WEIGHT_GROUP),
        text=int,
        read=weight_group,
    )
    int16: tuple[str, ...] = option(
        (),
        Group.PRECISION,
        "use int16 for real tensors whose own or module's name matches, as in 'encoder.*'; may be repeated",
        metavar="REGEX",
        read=expressions,
        repeated=True,
        calibrates=True,
    )
    float32: tuple[str, ...] = option(
        (),
        Group.PRECISION,
        "keep matching modules in float32 in the C bundle, between a dequantize and a quantize, as in 'head.*'; may "
        "be repeated",
        metavar="REGEX",
        spellings=("--float",),
        read=expressions,
        repeated=True,
        calibrates=True,
    )
    linear: LinearWeights = option(
        LinearWeights.PER_CHANNEL,
        Group.PRECISION,
        "the scales of linear layers' weights (default: per-channel). In the .pte, per-channel layers are 1x1 "
        "convolutions, which take 2.3 times the instructions of per-tensor layers on a Cortex-M4",
    )
    precision: Precision = option(
        Precision.GIVEN,
        Group.PRECISION,
        "auto: make tensors int16 in order of decibels gained per byte and cycle, measured on the calibration data, "
        "until one of the next three targets is met; if int16 everywhere is not enough, use float32 "
        "(docs/precision.md). given (the default): follow --activations, --state and --int16",
        calibrates=True,
    )
    min_sqnr: float | None = option(
        None,
        Group.PRECISION,
        "with --precision auto: the lowest signal-to-noise ratio allowed for any output, against the float model, in "
        "dB",
        metavar="DB",
        text=number,
        read=bar("a number of decibels", 200),
        calibrates=True,
    )
    min_accuracy: float | None = option(
        None,
        Group.PRECISION,
        "with --precision auto: the share of --labelled samples that must be classified correctly, as in 0.92 or 92%%",
        metavar="PART",
        text=part,
        read=bar("a part of the samples", 1),
        calibrates=True,
    )
    max_drop: float | None = option(
        None,
        Group.PRECISION,
        "with --precision auto: how far that share can fall below the float model's, as in 0.5%%",
        metavar="PART",
        text=part,
        read=bar("a part of the samples", 1),
        calibrates=True,
    )
    labelled: str | None = option(
        None,
        Group.PRECISION,
        "for --min-accuracy and --max-drop: an .npz file with the model's inputs (samples along the first dimension) "
        "and the class number of each sample as 'labels'",
        metavar="FILE",
        read=file_name,
        calibrates=True,
    )
    io: Border = option(
        Border.INT8,
        Group.FLOW,
        "the type of the C bundle's inputs and outputs (default: int8)",
    )
    input_layout: InputLayout = option(
        InputLayout.MODEL,
        Group.FLOW,
        "the dimension order of the .pte's inputs, and with --io float of the C bundle's: as in the model (the "
        "default), or nhwc, with channels last as cameras deliver images. With --io int8 the C bundle's README states "
        "the order",
        spellings=("--input_layout",),
    )
    input_rows: bool = option(
        False,
        Group.FLOW,
        "the C bundle takes its input row by row, as a camera delivers it, and holds only a few rows: use "
        "MODEL_reset, MODEL_row and MODEL_push instead of MODEL_input and MODEL_run (docs/streaming.md)",
        spellings=("--input_rows",),
        artifact=Artifacts.C,
    )
    stream: int | None = option(
        None,
        Group.FLOW,
        "process a stream of rows: dimension DIM of the model's input is time. After each new row (or hop) the C "
        "bundle gives the output for the window that ends there, and computes only what is new (docs/streaming.md)",
        metavar="DIM",
        text=int,
        read=dimension,
        artifact=Artifacts.C,
    )
    stream_padding: StreamPadding = option(
        StreamPadding.KEEP,
        Group.FLOW,
        "for --stream, layers that pad in time: keep the padding (the default), an error where the output depends on "
        "it; or drop it and compile the same network without padding, over a longer window",
    )
    decide: Decision | None = option(
        None,
        Group.FLOW,
        "add MODEL_decision, for a classifier with --stream or state: it turns scores over time into decisions. "
        f"{FORM}: decide for a class when its mean over 8 outputs is the highest and at least 0.7 (in the output's "
        "units: probabilities after a softmax), then hold it off for 30 outputs. Ignored classes are never decided "
        "for; threshold.CLASS and holdoff.CLASS set single classes, by name or number (docs/signals.md)",
        metavar="RULE",
        read=lambda _, value: decision_of(value),
        artifact=Artifacts.C,
        undelegated="the decision is extra C code outside the network; decide in the firmware from the scores, or use "
        "the C bundle",
    )
    watch: str | None = option(
        None,
        Group.FLOW,
        "add MODEL_surprise, which measures how unlike the calibration data the features of this layer were in the "
        "last run: their distance from the nearest class. One in a hundred held-back calibration samples is beyond "
        "the limit. LAYER is a module's name (docs/learning.md)",
        metavar="LAYER",
        artifact=Artifacts.C,
        undelegated="MODEL_surprise is a function of the C bundle, which a delegate does not have",
    )
    input_format: PixelFormat | None = option(
        None,
        Group.CAMERA,
        "put a camera in front of the C bundle's input: the pixel format of the sensor's lines, which MODEL_take_line "
        "takes. With --input-rows no whole picture is stored (docs/cameras.md)",
        spellings=("--input_format",),
        choices=PixelFormat,
        artifact=Artifacts.C,
        undelegated="a camera's lines are taken by functions of the C bundle, which an image does not have",
    )
    input_size: PictureSize | None = option(
        None,
        Group.CAMERA,
        "the size of the camera's pictures, in pixels",
        metavar="WxH",
        spellings=("--input_size",),
        read=picture_size,
    )
    crop: Crop | None = option(
        None,
        Group.CAMERA,
        "the part of the camera's pictures to use (default: all)",
        metavar="X,Y,WxH",
        read=lambda _, value: crop_of(value),
    )
    resize: PictureSize | None = option(
        None,
        Group.CAMERA,
        "the size to scale that part to: that of the network's image (the default)",
        metavar="WxH",
        read=picture_size,
    )
    resize_filter: ResizeFilter | None = option(
        None,
        Group.CAMERA,
        "the filter for scaling (default: bilinear, as torch's interpolate with align_corners=False)",
        spellings=("--resize_filter",),
        choices=ResizeFilter,
    )
    mean: tuple[float, ...] = option(
        (),
        Group.CAMERA,
        "the mean that the model's preprocessing subtracts from pixels in 0..1: one number, or one per channel "
        "separated by commas (default: 0)",
        metavar="NUMBERS",
        read=pixel_numbers,
    )
    std: tuple[float, ...] = option(
        (),
        Group.CAMERA,
        "the standard deviation that it then divides by (default: 1)",
        metavar="NUMBERS",
        read=pixel_numbers,
    )
    memory: tuple[Region, ...] = option(
        (),
        Group.MEMORY,
        "plan the C bundle's arena over several memories, fastest first, as in dtcm=64K,sram=256K; the most used "
        "buffers go to the first. BYTES:device is device memory, where unaligned accesses fault. auto: the memories "
        "of the --chip (docs/memory-planning.md)",
        metavar="NAME=BYTES,...",
        artifact=Artifacts.C,
        undelegated="the arena is one argument in one piece; the firmware decides where the method's planned memory is",
    )
    place: tuple[WeightPlacement, ...] = option(
        (),
        Group.MEMORY,
        "put the C bundle's constants of layers whose module name matches into a linker section, as in "
        "'features.1[0-9].*=external' for .cortado.external; may be repeated, the first match counts",
        metavar="REGEX=SECTION",
        spellings=("--weight-section",),
        read=lambda _, value: places_of(value),
        repeated=True,
        artifact=Artifacts.C,
        undelegated="sections are for the constants of C; the firmware decides where the file with the blob is",
    )
    artifacts: Artifacts = option(
        Artifacts.BOTH,
        Group.WRITTEN,
        "what to write: the C bundle, the .pte, or both (the default). The C bundle alone does not need or import "
        "ExecuTorch's packages",
        undelegated="the .pte of a delegate is made from the C bundle's plan, and both are written",
    )
    pte: PteKind = option(
        PteKind.OPERATORS,
        Group.WRITTEN,
        "what the .pte calls: ExecuTorch's cortex_m operators (the default), or Cortado's delegate, which holds the "
        "whole network with its arena and kernels (docs/executorch.md)",
    )
    bundleio: bool = option(
        False,
        Group.WRITTEN,
        "also write NAME.bpte: the .pte bundled with inputs and expected outputs",
        artifact=Artifacts.PTE,
        undelegated="ExecuTorch's runners, which check a bundled program, do not link the delegate",
    )
    etrecord: bool = option(
        False,
        Group.WRITTEN,
        "also write NAME.etrecord, for ExecuTorch's Inspector",
        artifact=Artifacts.PTE,
        undelegated="the graph is one call, and the names of its layers are in the file, for Inspector",
    )
    image: bool = option(
        False,
        Group.WRITTEN,
        "also write NAME.cortado, the model as data that firmware opens and runs without a rebuild, and loader/, the "
        "code that opens it (docs/images.md)",
        artifact=Artifacts.C,
    )
    selftest: bool = option(
        False,
        Group.WRITTEN,
        "also write NAME_selftest.c: an input, the expected result of every layer, and MODEL_selftest, which runs on "
        "the device and returns 0 or the first layer that differs (docs/firmware.md)",
    )
    package: tuple[PackageKind, ...] = option(
        (),
        Group.WRITTEN,
        "also write the bundle as packages, separated by commas: zephyr, arduino, cmsis-pack, platformio, pico or "
        "cmake, each with an example that runs the self-test; web: a page and a JavaScript module (docs/packages.md)",
        metavar="SYSTEM",
        read=_packages,
    )
    model_version: str | None = option(
        None,
        Group.WRITTEN,
        "the model's version, used in its packages and MODEL_info (default: derived from the model's content)",
        metavar="1.4.0",
        read=version,
    )
    allow_float: bool = option(
        False,
        Group.WRITTEN,
        "use float32 for calls that no integer operator supports: Cortado's own kernels in the C bundle, ExecuTorch's "
        "in the .pte. Both are listed",
        spellings=("--allow_float",),
    )
    keep_float: tuple[str, ...] = option(
        (),
        Group.WRITTEN,
        "keep matching modules in float in the .pte, as in 'head.*'; may be repeated. No C bundle is written then",
        metavar="REGEX",
        read=expressions,
        repeated=True,
        artifact=Artifacts.PTE,
        undelegated="nodes that stay in ExecuTorch's float kernels can't be in the one call; use CortadoPartitioner, "
        "which leaves them outside",
    )

    @property
    def camera(self) -> Camera | None:
        """The camera in front of the network; None without one."""
        if self.input_format is None or self.input_size is None:
            return None
        how = self.resize_filter
        return camera_of(self.input_format, self.input_size, self.crop, self.resize, how, self.mean, self.std)

    @property
    def makes_operators(self) -> bool:
        """Whether a .pte of ExecuTorch's operators is asked for."""
        return self.artifacts is not Artifacts.C and self.pte is PteKind.OPERATORS

    @property
    def has_islands(self) -> bool:
        """Whether calls that no integer operator takes are float32 in the C bundle; modules kept in float are for a
        .pte."""
        return self.allow_float and not self.keep_float and self.artifacts is not Artifacts.PTE

    @property
    def has_codes(self) -> bool:
        """Whether real numbers are codes, whose scales come from calibration data."""
        return self.activations is not Activations.FLOAT32

    @property
    def narrows_weights(self) -> bool:
        """Whether weights can be int4."""
        return self.weights in (Weights.INT4, Weights.AUTO)

    @property
    def ram_limit(self) -> int | None:
        if self.ram_budget is None and self.memory:
            return None  # each of them has its own
        return self.chip.ram_bytes if self.ram_budget is None and self.chip is not None else self.ram_budget

    @property
    def flash_limit(self) -> int | None:
        return self.chip.flash_bytes if self.flash_budget is None and self.chip is not None else self.flash_budget

    @property
    def bars(self) -> dict[str, float]:
        """The target of --precision auto, by the name of the option."""
        given = {"--min-sqnr": self.min_sqnr, "--min-accuracy": self.min_accuracy, "--max-drop": self.max_drop}
        return {name: value for name, value in given.items() if value is not None}

    def __post_init__(self) -> None:
        for one in fields(self):
            self._set(one.name, read_option(one, getattr(self, one.name)))
        self._set("memory", regions_of(self.memory, self.chip) if self.memory else ())
        tested = any(kind is not PackageKind.WEB for kind in self.package)
        self._set("selftest", self.selftest or tested)  # what the packages' examples run
        self._set("allow_float", self.allow_float or bool(self.keep_float))
        self._check_camera()
        if self.state is Activations.FLOAT32:
            raise CortadoError(
                "--state float32: expected int8 or int16; with --activations float32, state is float32 too"
            )
        for conflict in _CONFLICTS:
            self._check_conflict(conflict)
        self._check_weights()
        self._check_bars()
        self._check_artifacts()
        self._check_delegate()

    def __repr__(self) -> str:
        """Options that are not the default, as the command line spells them."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        given = {name: value for name, value in values.items() if value != getattr(type(self), name)}
        return f"Options({', '.join(f'{name}={text_of(value)!r}' for name, value in given.items())})"

    def check_budget(self) -> None:
        """Refuses options that require a budget without one."""
        if self.weights is Weights.AUTO and self.flash_limit is None:
            raise CortadoError(
                "--weights auto uses int4 weights as far as the flash budget requires: give --flash-budget, or --chip"
            )

    def _check_weights(self) -> None:
        floats = self.activations is Activations.FLOAT32 or self.float32 or self.allow_float
        if self.weights is Weights.FLOAT32 and not floats and self.precision is Precision.GIVEN:
            raise CortadoError(
                "--weights float32: no layer is in float32, and others have int8 weights; expected --activations "
                "float32, --float32 or --allow-float beside it, or --weights int8 or int4"
            )

    def _given(self, name: str) -> bool:
        """Whether an option differs from its default; --keep-float implies --allow-float."""
        if name == "allow_float" and self.keep_float:
            return False
        return bool(getattr(self, name) != getattr(type(self), name))

    def _spelled(self, entry: str) -> str | None:
        """Returns an entry of a conflict as the user gave it; None if it was not given."""
        name, _, text = entry.partition("=")
        value = getattr(self, name)
        if value.value != text if text else not self._given(name):
            return None
        return f"{flag(name)} {value.value}" if isinstance(value, Enum) and name != "input_format" else flag(name)

    def _check_conflict(self, conflict: _Conflict) -> None:
        these = [text for text in map(self._spelled, conflict.these) if text is not None]
        others = [text for text in map(self._spelled, conflict.others) if text is not None]
        if these and others:
            raise CortadoError(f"{these[0]} and {others[0]}: {conflict.why}. Leave one of the two out")

    def _check_camera(self) -> None:
        """Refuses camera options that are meaningless without another one."""
        parts = [one.name for one in fields(self) if declared(one).group is Group.CAMERA and one.name != "input_format"]
        for name in parts:
            if self.input_format is None and self._given(name):
                raise CortadoError(f"{flag(name)} is for a camera; give its pixel format with --input-format")
        if self.input_format is not None and self.input_size is None:
            raise CortadoError(
                f"--input-format {self.input_format.value}: the size of the camera's pictures is missing; give "
                "--input-size WIDTHxHEIGHT"
            )
        if self.resize_filter is not None and self.resize is None:
            raise CortadoError(
                f"--resize-filter {self.resize_filter.value}: it needs --resize; add that, or leave it out"
            )
        _ = self.camera  # refuses sizes and numbers that no camera has

    def _check_bars(self) -> None:
        """Refuses thresholds without --precision auto, and that without exactly one of them."""
        names = [*self.bars, *(["--labelled"] if self.labelled is not None else [])]
        if self.precision is Precision.GIVEN:
            if names:
                raise CortadoError(
                    f"{names[0]} is a target for --precision auto, but --precision is given; add --precision auto "
                    f"(precision='auto' in Options), or leave {names[0]} out"
                )
            return
        if len(self.bars) != 1:
            found = " and ".join(self.bars) or "none"
            raise CortadoError(
                f"--precision auto needs one target to reach, found {found}; expected --min-sqnr DB, or with "
                "--labelled FILE one of --min-accuracy PART and --max-drop PART"
            )
        if (self.labelled is None) != (self.min_sqnr is not None):
            without, wanted = "needs no labels; leave --labelled out", "needs samples with labels: --labelled FILE"
            raise CortadoError(f"{names[0]} {without if self.labelled else wanted}")

    def _check_delegate(self) -> None:
        """Refuses options that a delegate's .pte can't have."""
        for one in fields(self):
            reason = declared(one).undelegated
            if self.pte is PteKind.DELEGATE and reason is not None and self._given(one.name):
                raise CortadoError(f"--pte delegate and {flag(one.name)}: {reason}. Leave one of the two out")

    def _check_artifacts(self) -> None:
        """Refuses options for an artifact that was not asked for."""
        for missing, wanted, what in (
            (Artifacts.C, Artifacts.PTE, "the .pte"),
            (Artifacts.PTE, Artifacts.C, "the C bundle"),
        ):
            of_it = [one.name for one in fields(self) if declared(one).artifact is wanted]
            names = [flag(name) for name in of_it if self._given(name)]
            if self.artifacts is missing and names:
                raise CortadoError(
                    f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} for {what}, and --artifacts "
                    f"{missing.value} (artifacts={missing.value!r} in Options) writes none; leave one of them out"
                )

    def _set(self, name: str, value: object) -> None:
        """Converts texts, as on the command line, to their values when the options are constructed."""
        object.__setattr__(self, name, value)


DEFAULTS = Options()
OF_CALIBRATION = tuple(one.name for one in fields(Options) if declared(one).calibrates)
NOT_DELEGATED = {flag(one.name): why for one in fields(Options) if (why := declared(one).undelegated) is not None}
"""Options that a .pte with one call of the delegate can't have, each with the reason."""

NO_EXECUTORCH = "executorch is not installed: pip install 'cortado[executorch]'"
