"""What a user may choose beside the target."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from enum import Enum

from cortado.base.chips import Chip, find_chip
from cortado.base.errors import CortadoError
from cortado.base.regions import Region, WeightPlacement, parse_bytes, places_of, regions_of


class Optimize(Enum):
    """What the schedule is good for."""

    RAM = "ram"  # the lowest peak
    BALANCED = "balanced"  # the lowest peak that costs at most 10% more instructions
    TIME = "time"  # layer by layer


class Border(Enum):
    """What the bundle's inputs and outputs hold where the graph's border is a quantize or a dequantize."""

    INT8 = "int8"  # the codes themselves: the caller quantizes
    FLOAT = "float"  # real numbers: the bundle quantizes


class Activations(Enum):
    """What the network's real numbers are kept as: codes of 8 bits, or of 16 with room above what calibration saw."""

    INT8 = "int8"
    INT16 = "int16"


class Weights(Enum):
    """What the weights of convolutions and linear layers are stored as in the C bundle."""

    INT8 = "int8"
    INT4 = "int4"  # two in a byte, wherever a layer can have them
    AUTO = "auto"  # int4 where the outputs lose least by it, as far as the flash budget asks for it


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
    """What becomes of layers that pad in time, in a stream."""

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


class Artifacts(Enum):
    """What is made of a model. ExecuTorch's packages are only needed, and only imported, for a .pte."""

    C = "c"  # the C bundle
    PTE = "pte"
    BOTH = "both"


class PteKind(Enum):
    """What a .pte calls."""

    OPERATORS = "operators"  # ExecuTorch's cortex_m operators: it runs on any runtime that has them
    DELEGATE = "delegate"  # Cortado's backend, with the whole network as an image


WEIGHT_GROUP = 32
_NUMBER = "(0|[1-9][0-9]{0,3}|[1-5][0-9]{4})"
_VERSION = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}")
FLAGS = ("bias_correction", "strict", "bundleio", "etrecord", "image", "selftest", "allow_float", "input_rows")


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
    int16: tuple[str, ...] = ()  # modules whose real tensors are int16: "encoder.*"
    weights: Weights = Weights.INT8  # of convolutions and linear layers; others are for the C bundle
    weight_group: int | None = None  # int4 weights that have a factor of their own: 32; None: those of a channel
    activations: Activations = Activations.INT8  # of all real tensors; int16 is for the C bundle alone
    calibration_method: CalibrationMethod = CalibrationMethod.AUTO
    bias_correction: bool = True  # biases make up for what rounding does to the mean of a layer
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
    stream: int | None = None  # an endless stream of rows: the dimension of the model's input that is time
    stream_padding: StreamPadding = StreamPadding.KEEP
    ram_budget: int | None = None
    flash_budget: int | None = None
    chip: Chip | None = None
    memory: tuple[Region, ...] = ()  # memories that the arena lies in, the fastest first: "dtcm=64K,sram=256K"
    model_version: str | None = None  # of the packages: "1.4.0"; None: one that changes with the model
    place: tuple[WeightPlacement, ...] = ()  # sections for the weights of layers: "features.1[0-9].*=external"

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
            "state": Activations,
            "calibration_method": CalibrationMethod,
            "stream_padding": StreamPadding,
            "artifacts": Artifacts,
            "pte": PteKind,
        }
        for name, kind in kinds.items():
            self._set(name, _member(name, getattr(self, name), kind))
        for name in FLAGS:
            if not isinstance(getattr(self, name), bool):
                raise CortadoError(f"{name}={getattr(self, name)!r}: expected True or False")
        self._set("package", _packages(self.package))
        self._set("selftest", self.selftest or bool(self.package))  # what the packages' examples run
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
        self._set("memory", regions_of(self.memory, self.chip) if self.memory else ())
        self._set("place", places_of(self.place))
        self._set("int16", _expressions("int16", self.int16))
        self._set("keep_float", _expressions("keep_float", self.keep_float))
        self._set("allow_float", self.allow_float or bool(self.keep_float))
        _check_version(self.model_version)
        self._check_memory()
        self._check_artifacts()
        self._check_weights()
        self._check_delegate()

    def __repr__(self) -> str:
        """What is not the default, in the texts of the command line."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        given = {name: value for name, value in values.items() if value != getattr(type(self), name)}
        return f"Options({', '.join(f'{name}={_text(value)!r}' for name, value in given.items())})"

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
            "--activations int16": self.activations is Activations.INT16,
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
        }
        names = [name for name, value in given.items() if value]
        if self.pte is PteKind.DELEGATE and names:
            raise CortadoError(
                f"--pte delegate and {names[0]}: a delegate's .pte is the C bundle's plan as an image, int8 and in one "
                "piece, beside that bundle. Leave one of the two out"
            )

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
            "--stream": self.stream is not None,
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


def _check_version(value: object) -> None:
    """Three numbers: what every package manager takes."""
    if value is not None and (not isinstance(value, str) or _VERSION.fullmatch(value) is None):
        raise CortadoError(
            f"model_version={value!r} (--model-version) is no version; expected three numbers below 60,000, each "
            "without a leading zero, such as 1.4.0"
        )


def _packages(value: object) -> tuple[PackageKind, ...]:
    """The systems of `package`: texts such as "zephyr,arduino", or members, each once."""
    given = value.split(",") if isinstance(value, str) else [value] if isinstance(value, PackageKind) else value
    if not isinstance(given, Iterable):
        raise CortadoError(f"package={value!r} names no system; expected a text such as 'zephyr,arduino'")
    found = (_member("package", one, PackageKind) for one in given)
    return tuple(dict.fromkeys(kind for kind in found if isinstance(kind, PackageKind)))


def _expressions(name: str, value: object) -> tuple[str, ...]:
    """Regular expressions of modules: one text, or several."""
    texts = (value,) if isinstance(value, str) else value
    if not isinstance(texts, Iterable):
        raise CortadoError(f"{name}={value!r} names no module; expected texts such as 'encoder.*'")
    found = tuple(str(text) for text in texts)
    for text in found:
        try:
            re.compile(text)
        except re.error as error:
            raise CortadoError(
                f"'{text}' is no regular expression ({error}); expected one that matches names of modules, as in "
                "'encoder.*'"
            ) from None
    return found


def _text(value: object) -> object:
    """As the command line has it."""
    if isinstance(value, tuple):
        return ",".join(str(_text(one)) for one in value)
    if isinstance(value, Region):
        return f"{value.name}={value.bytes}"
    if isinstance(value, WeightPlacement):
        return f"{value.pattern}={value.section}"
    if isinstance(value, Enum):
        return value.value
    return value.name if isinstance(value, Chip) else value


def _member(name: str, value: object, kind: type[Enum]) -> Enum:
    if isinstance(value, kind):
        return value
    known = {str(member.value): member for member in kind}
    if isinstance(value, str) and value in known:
        return known[value]
    texts = ", ".join(repr(text) for text in known)
    raise CortadoError(f"{name}={value!r}: expected one of {texts}, or {kind.__module__}.{kind.__name__}")


DEFAULTS = Options()

NO_EXECUTORCH = "executorch is not installed: pip install 'cortado[executorch]'"
