"""Options: the user's choices beside the target."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from enum import Enum

from cortado.base.camera import (
    Camera,
    Crop,
    PictureSize,
    PixelFormat,
    ResizeFilter,
    camera_of,
    crop_of,
    numbers_of,
    size_of,
)
from cortado.base.chips import Chip, find_chip
from cortado.base.decision import Decision, decision_of
from cortado.base.errors import CortadoError
from cortado.base.names import InputRange, check_version, expressions, flag, member, ranges_of, text_of
from cortado.base.regions import Region, WeightPlacement, parse_bytes, places_of, regions_of


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
    float32, which nothing is quantized for."""

    INT8 = "int8"
    INT16 = "int16"
    FLOAT32 = "float32"


class Weights(Enum):
    """Storage of the weights of convolutions and linear layers in the C bundle."""

    INT8 = "int8"
    INT4 = "int4"  # two in a byte, wherever a layer can have them
    AUTO = "auto"  # int4 where the outputs lose least by it, as far as the flash budget asks for it


class Precision(Enum):
    """Who says which real tensors have 16 bits."""

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
    """The order of dimensions of the .pte's inputs. (The C bundle's int8 inputs lie as the kernels read them.)"""

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


WEIGHT_GROUP = 32
# Options that count when a model is quantized, whatever a target is compiled with.
_BARS = ("min_sqnr", "min_accuracy", "max_drop", "labelled")
OF_CALIBRATION = (
    *(
        "calibration_method",
        "bias_correction",
        "range",
        "sequence",
        "activations",
        "state",
        "int16",
        "float32",
        "precision",
    ),
    *_BARS,
)
FLAGS = ("bias_correction", "strict", "bundleio", "etrecord", "image", "selftest", "allow_float", "input_rows")


_ALL_INTEGERS = (
    "a delegate's network is all integers; CortadoPartitioner leaves what stays in float to ExecuTorch's kernels"
)
NOT_DELEGATED = {
    "--artifacts": "the .pte of a delegate is made of the C bundle's plan, and both are written",
    "--bundleio": "ExecuTorch's runners, which check a bundled program, do not link the delegate",
    "--etrecord": "the graph is one call, and the names of its layers are in the file, for Inspector",
    "--keep-float": _ALL_INTEGERS,
    "--allow-float": _ALL_INTEGERS,
    "--memory": "the arena is one argument in one piece; firmware puts the method's planned memory where it is to lie",
    "--place": "sections are for the constants of C; a blob lies where firmware puts the file",
    "--decide": "a decision is C beside the network's; firmware decides by the scores, or takes the C bundle",
    "--input-format": "a camera's lines are taken by functions of the C bundle, which an image does not have",
}
"""Options that a .pte with one call of the delegate can't have, each with the reason."""


@dataclass(frozen=True)
class Options:
    """How to compile; texts are those of the command line: Options(optimize="ram", chip="stm32l4r5", ram_budget="64K").

    Budgets are in bytes; None means no limit, or with a chip what it has.
    """

    optimize: Optimize = Optimize.BALANCED
    io: Border = Border.INT8  # what inputs and outputs of the C bundle hold
    input_layout: InputLayout = InputLayout.MODEL
    linear: LinearWeights = LinearWeights.PER_CHANNEL
    state: Activations = Activations.INT16  # of buffers that are computed from themselves, and the tensors around
    int16: tuple[str, ...] = ()  # tensors that are int16, by their names or their modules': "encoder.*"
    float32: tuple[str, ...] = ()  # modules whose real numbers stay float32 in the C bundle: "head.*"
    weights: Weights = Weights.INT8  # of convolutions and linear layers; others are for the C bundle
    weight_group: int | None = None  # int4 weights that have a factor of their own: 32; None: those of a channel
    activations: Activations = Activations.INT8  # of all real tensors; int16 is for the C bundle alone
    precision: Precision = Precision.GIVEN  # auto: tensors are int16 until one of the three bars below holds
    min_sqnr: float | None = None  # dB of the output that keeps least, beside the model, on calibration data
    min_accuracy: float | None = None  # the part of the labelled samples that is classified right
    max_drop: float | None = None  # of that part, below the float model's
    labelled: str | None = None  # an .npz file: the model's inputs, and the right class of each sample as "labels"
    calibration_method: CalibrationMethod = CalibrationMethod.AUTO
    bias_correction: bool = True  # biases make up for what rounding does to the mean of a layer
    range: tuple[InputRange, ...] = ()  # the integers of inputs, which proofs about 32 bits start from: "ids=0..9999"
    sequence: int | None = None  # calibration inputs after which the state of a model starts anew; None: never
    strict: bool = False  # warnings are errors
    artifacts: Artifacts = Artifacts.BOTH
    pte: PteKind = PteKind.OPERATORS
    bundleio: bool = False  # also a .bpte
    etrecord: bool = False  # also an ETRecord
    image: bool = False  # also the model as data, and what firmware opens it with
    selftest: bool = False  # also a function of the C bundle that checks every layer on the device
    package: tuple[PackageKind, ...] = ()  # also the bundle as packages of these systems, self-test included
    allow_float: bool = False  # what a .pte can't hold in integers stays in float there
    keep_float: tuple[str, ...] = ()  # modules that stay in float in the .pte on purpose: "head.*"; there is no C then
    input_rows: bool = False  # the C bundle's input comes row by row
    input_format: PixelFormat | None = None  # of a camera in front of the C bundle's input, whose lines it takes
    input_size: PictureSize | None = None  # of the camera's pictures: "160x120"
    crop: Crop | None = None  # the part of them that the network sees: "20,0,120x120"; None: all
    resize: PictureSize | None = None  # what that becomes: "96x96"; None: it stays as it is
    resize_filter: ResizeFilter | None = None  # None: bilinear
    mean: tuple[float, ...] = ()  # of pixels from 0 to 1, for each channel or for all: what is subtracted
    std: tuple[float, ...] = ()  # what they are then divided by
    stream: int | None = None  # an endless stream of rows: the dimension of the model's input that is time
    stream_padding: StreamPadding = StreamPadding.KEEP
    decide: Decision | None = None  # of scores over time: "smooth=8,threshold=0.7,holdoff=30"
    ram_budget: int | None = None
    flash_budget: int | None = None
    chip: Chip | None = None
    memory: tuple[Region, ...] = ()  # memories that the arena lies in, the fastest first: "dtcm=64K,sram=256K"
    model_version: str | None = None  # of the packages: "1.4.0"; None: one that changes with the model
    place: tuple[WeightPlacement, ...] = ()  # sections for the weights of layers: "features.1[0-9].*=external"

    @property
    def camera(self) -> Camera | None:
        """In front of the network; None without one."""
        if self.input_format is None or self.input_size is None:
            return None
        how = self.resize_filter
        return camera_of(self.input_format, self.input_size, self.crop, self.resize, how, self.mean, self.std)

    @property
    def has_codes(self) -> bool:
        """Whether real numbers are codes, whose scales calibration data tells."""
        return self.activations is not Activations.FLOAT32

    @property
    def ram_limit(self) -> int | None:
        if self.ram_budget is None and self.memory:
            return None  # each of them has its own
        return self.chip.ram_bytes if self.ram_budget is None and self.chip is not None else self.ram_budget

    @property
    def flash_limit(self) -> int | None:
        return self.chip.flash_bytes if self.flash_budget is None and self.chip is not None else self.flash_budget

    def __post_init__(self) -> None:
        kinds: dict[str, type[Enum]] = {
            "optimize": Optimize,
            "io": Border,
            "input_layout": InputLayout,
            "linear": LinearWeights,
            "activations": Activations,
            "weights": Weights,
            "precision": Precision,
            "state": Activations,
            "calibration_method": CalibrationMethod,
            "stream_padding": StreamPadding,
            "artifacts": Artifacts,
            "pte": PteKind,
        }
        for name, kind in kinds.items():
            self._set(name, member(name, getattr(self, name), kind))
        for name in FLAGS:
            if not isinstance(getattr(self, name), bool):
                raise CortadoError(f"{name}={getattr(self, name)!r}: expected True or False")
        self._set("package", _packages(self.package))
        tested = any(kind is not PackageKind.WEB for kind in self.package)
        self._set("selftest", self.selftest or tested)  # what the packages' examples run
        if self.stream is not None and not isinstance(self.stream, int):
            raise CortadoError(f"stream={self.stream!r} is no dimension; expected an int, or None for no stream")
        for name in ("ram_budget", "flash_budget"):
            value = getattr(self, name)
            self._set(name, parse_bytes(value) if isinstance(value, str) else value)
            if value is not None and not isinstance(value, int | str):
                raise CortadoError(
                    f"{name}={value!r} is no number of bytes; expected an int, a text such as '256K', or None"
                )
        if self.sequence is not None and (not isinstance(self.sequence, int) or self.sequence < 1):
            raise CortadoError(f"sequence={self.sequence!r} is no number of steps; expected 1 or more, or None")
        if isinstance(self.chip, str):
            self._set("chip", find_chip(self.chip))
        if self.chip is not None and not isinstance(self.chip, Chip):
            raise CortadoError(f"chip={self.chip!r} is no chip; expected a name such as 'stm32l4r5' (`cortado chips`)")
        self._set("decide", decision_of(self.decide))
        self._set("memory", regions_of(self.memory, self.chip) if self.memory else ())
        self._set("place", places_of(self.place))
        self._set("range", ranges_of(self.range))
        self._set("int16", expressions("int16", self.int16))
        self._set("float32", expressions("float32", self.float32))
        self._set("keep_float", expressions("keep_float", self.keep_float))
        self._set("allow_float", self.allow_float or bool(self.keep_float))
        self._set_camera()
        self._check_precision()
        check_version(self.model_version)
        self._check_memory()
        self._check_artifacts()
        self._check_weights()
        self._check_delegate()

    def __repr__(self) -> str:
        """Options that are not the default, as the command line spells them."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        given = {name: value for name, value in values.items() if value != getattr(type(self), name)}
        return f"Options({', '.join(f'{name}={text_of(value)!r}' for name, value in given.items())})"

    def _set_camera(self) -> None:
        """Texts become what they stand for; refused is what has no partner, and what a camera can't be in front of."""
        for name, kind in (("input_format", PixelFormat), ("resize_filter", ResizeFilter)):
            if getattr(self, name) is not None:
                self._set(name, member(name, getattr(self, name), kind))
        for name in ("input_size", "resize"):
            if getattr(self, name) is not None:
                self._set(name, size_of(getattr(self, name), flag(name)))
        self._set("crop", None if self.crop is None else crop_of(self.crop))
        for name in ("mean", "std"):
            value = getattr(self, name)
            self._set(name, () if value in (None, (), []) else numbers_of(value, flag(name)))
        self._check_partners()
        given = {
            "--io float": self.io is Border.FLOAT,
            f"--activations {self.activations.value}": self.activations is not Activations.INT8,
            "--input-layout nhwc": self.input_layout is InputLayout.NHWC,
            "--stream": self.stream is not None,
            "--memory": bool(self.memory),
            "--image": self.image,
        }
        names = [name for name, value in given.items() if value]
        if self.camera is not None and names:
            raise CortadoError(
                f"--input-format and {names[0]}: a camera's lines become the int8 codes of one image, in the C bundle "
                "and in an arena in one piece. Leave one of the two out"
            )

    def _check_partners(self) -> None:
        """Options of a camera that mean nothing without another one."""
        parts = ("input_size", "crop", "resize", "resize_filter", "mean", "std")
        for name in parts:
            if self.input_format is None and getattr(self, name) not in (None, ()):
                raise CortadoError(f"{flag(name)} is for a camera; name what its pixels are with --input-format")
        if self.input_format is not None and self.input_size is None:
            raise CortadoError(
                f"--input-format {self.input_format.value}: the size of the camera's pictures is missing; give "
                "--input-size WIDTHxHEIGHT"
            )
        if self.resize_filter is not None and self.resize is None:
            raise CortadoError(f"--resize-filter {self.resize_filter.value}: there is no --resize that it is for")

    def _check_memory(self) -> None:
        """Refuses what has an arena in one piece."""
        if self.memory and self.package:
            raise CortadoError(
                "--memory and --package: the examples of a package have an arena in one piece. Leave one of the two out"
            )
        if self.image and (self.memory or self.place):
            raise CortadoError(
                f"--image and {'--memory' if self.memory else '--place'}: an image is one block of constants, and runs "
                "in an arena in one piece. Leave one of the two out"
            )
        if self.image and self.decide is not None:
            raise CortadoError(
                "--image and --decide: an image is the network alone, and its firmware has no decision. Leave one of "
                "the two out"
            )
        if self.memory and (self.input_rows or self.stream is not None):
            raise CortadoError(
                f"--memory and {'--input-rows' if self.input_rows else '--stream'}: rows that come one by one are "
                "counted and kept in an arena in one piece. Leave --memory out: what such a network holds is its rings "
                "of rows, all of them hot; place its arena in the fastest memory (CORTADO_ARENA)"
            )

    def _check_weights(self) -> None:
        """Refuses what int4 weights can't be together with."""
        if self.weight_group not in (None, WEIGHT_GROUP) or isinstance(self.weight_group, bool):
            raise CortadoError(
                f"weight_group={self.weight_group!r} (--weight-group): expected {WEIGHT_GROUP}, or None for one factor "
                "in each output channel"
            )
        if self.weights is Weights.INT8:
            if self.weight_group is not None:
                raise CortadoError("--weight-group and --weights int8: groups are for int4 weights. Leave one out")
            return
        option = f"--weights {self.weights.value}"
        others = {
            f"--activations {self.activations.value}": self.activations is not Activations.INT8,
            "--linear per-tensor": self.linear is LinearWeights.PER_TENSOR,
            "--artifacts pte": self.artifacts is Artifacts.PTE,
            "--keep-float" if self.keep_float else "--allow-float": self.allow_float,
        }
        for other in [name for name, given in others.items() if given]:
            raise CortadoError(
                f"{option} and {other}: int4 weights have a scale per channel, meet int8 tensors and are for the C "
                "bundle. Leave one of the two out"
            )

    def check_budget(self) -> None:
        """Refuses what can't be compiled without a budget."""
        if self.weights is Weights.AUTO and self.flash_limit is None:
            raise CortadoError(
                "--weights auto takes int4 weights as far as the flash asks for it: give --flash-budget, or --chip"
            )

    @property
    def bars(self) -> dict[str, float]:
        """The target of --precision auto, by the name of the option."""
        given = {"--min-sqnr": self.min_sqnr, "--min-accuracy": self.min_accuracy, "--max-drop": self.max_drop}
        return {name: value for name, value in given.items() if value is not None}

    def _check_precision(self) -> None:
        """Refuses bars that are none, and what says the contrary of --precision auto or of int16 tensors."""
        wider = self.activations is not Activations.INT8
        wide = f"--activations {self.activations.value}" if wider else "--int16" if self.int16 else ""
        if wide and self.artifacts is Artifacts.PTE:
            element = self.activations.value if wider else "int16"
            raise CortadoError(f"{wide} and --artifacts pte: {element} tensors are for the C bundle. Leave one out")
        self._check_float()
        for name, most, unit in (
            ("min_sqnr", 200, "decibels"),
            ("min_accuracy", 1, "samples"),
            ("max_drop", 1, "samples"),
        ):
            value = getattr(self, name)
            kind = "a number of decibels" if most > 1 else f"a part of the {unit}"
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
                raise CortadoError(f"{name}={value!r} is no number; expected {kind} from 0 to {most}, or None")
            if value is not None and not 0 <= value <= most:
                option = f"--{name.replace('_', '-')}"
                raise CortadoError(f"{option} {value:g}: expected {kind} from 0 to {most}")
        if self.labelled is not None and not isinstance(self.labelled, str):
            raise CortadoError(f"labelled={self.labelled!r} names no file; expected the path of an .npz file as a text")
        names = [*self.bars, *(["--labelled"] if self.labelled is not None else [])]
        if self.precision is Precision.GIVEN:
            if names:
                raise CortadoError(
                    f"{names[0]} is what --precision auto is to reach, and --precision is given; add --precision auto "
                    f"(precision='auto' in Options), or leave {names[0]} out"
                )
            return
        self._check_bars()
        against = {
            f"--activations {self.activations.value}": self.activations is not Activations.INT8,
            "--artifacts pte": self.artifacts is Artifacts.PTE,
            "--keep-float": bool(self.keep_float),
        }
        for name in [name for name, given in against.items() if given]:
            raise CortadoError(
                f"--precision auto and {name}: measurement chooses which tensors of the C bundle are int16. Leave one "
                "of the two out"
            )

    def _check_float(self) -> None:
        """Refuses what speaks of codes where there are none."""
        if self.state is Activations.FLOAT32:
            raise CortadoError(
                "--state float32: expected int8 or int16; with --activations float32, state is float32 too"
            )
        if self.float32 and (self.artifacts is Artifacts.PTE or self.precision is Precision.AUTO or self.allow_float):
            raise CortadoError(
                f"--float32 '{self.float32[0]}': modules in float32 are for the C bundle, and named by the user; leave "
                "out --artifacts pte, --precision auto, --allow-float and --keep-float"
            )
        given = {
            "--int16": bool(self.int16),
            "--float32": bool(self.float32),
            "--keep-float" if self.keep_float else "--allow-float": self.allow_float,
            "--linear per-tensor": self.linear is LinearWeights.PER_TENSOR,
            "--decide": self.decide is not None,
        }
        names = [name for name, value in given.items() if value]
        if self.activations is Activations.FLOAT32 and names:
            raise CortadoError(
                f"--activations float32 and {names[0]}: no tensor of the network has codes. Leave one of the two out"
            )

    def _check_bars(self) -> None:
        if len(self.bars) != 1:
            found = " and ".join(self.bars) or "none"
            raise CortadoError(
                f"--precision auto needs one bar to reach, found {found}; expected --min-sqnr DB, or with --labelled "
                "FILE one of --min-accuracy PART and --max-drop PART"
            )
        if (self.labelled is None) != (self.min_sqnr is not None):
            name = next(iter(self.bars))
            what = (
                "needs no labels; leave --labelled out"
                if self.labelled
                else "needs samples with labels: --labelled FILE"
            )
            raise CortadoError(f"{name} {what}")

    def _check_delegate(self) -> None:
        """Refuses what a delegate's .pte can't be."""
        given = {
            "--artifacts": self.artifacts is not Artifacts.BOTH,
            "--bundleio": self.bundleio,
            "--etrecord": self.etrecord,
            "--keep-float": bool(self.keep_float),
            "--allow-float": self.allow_float,
            "--memory": bool(self.memory),
            "--place": bool(self.place),
            "--decide": self.decide is not None,
            "--input-format": self.input_format is not None,
        }
        names = [name for name, value in given.items() if value]
        if self.pte is PteKind.DELEGATE and names:
            raise CortadoError(f"--pte delegate and {names[0]}: {NOT_DELEGATED[names[0]]}. Leave one of the two out")

    def _check_artifacts(self) -> None:
        """Refuses what is said of an artifact that was not asked for."""
        of_pte = {
            "--bundleio": self.bundleio,
            "--etrecord": self.etrecord,
            "--keep-float" if self.keep_float else "--allow-float": self.allow_float,
        }
        of_c = {
            "--image": self.image,
            "--input-rows": self.input_rows,
            "--input-format": self.input_format is not None,
            "--stream": self.stream is not None,
            "--decide": self.decide is not None,
            "--ram-budget": self.ram_budget is not None,
            "--flash-budget": self.flash_budget is not None,
            "--chip": self.chip is not None,
            "--memory": bool(self.memory),
            "--place": bool(self.place),
        }
        for missing, given, what in (
            (Artifacts.C, of_pte, "the .pte"),
            (Artifacts.PTE, of_c, "the C bundle"),
        ):
            names = [name for name, value in given.items() if value]
            if self.artifacts is missing and names:
                raise CortadoError(
                    f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} for {what}, and --artifacts "
                    f"{missing.value} (artifacts={missing.value!r} in Options) makes none; leave one of them out"
                )

    def _set(self, name: str, value: object) -> None:
        """Texts, as on the command line, become what they stand for while the options are made."""
        object.__setattr__(self, name, value)


def _packages(value: object) -> tuple[PackageKind, ...]:
    """The systems of `package`: texts such as "zephyr,arduino", or members, each once."""
    given = value.split(",") if isinstance(value, str) else [value] if isinstance(value, PackageKind) else value
    if not isinstance(given, Iterable):
        raise CortadoError(f"package={value!r} names no system; expected a text such as 'zephyr,arduino'")
    found = (member("package", one, PackageKind) for one in given)
    return tuple(dict.fromkeys(kind for kind in found if isinstance(kind, PackageKind)))


DEFAULTS = Options()

NO_EXECUTORCH = "executorch is not installed: pip install 'cortado[executorch]'"
