"""report.json as a value. Its keys are a contract: later versions add keys and never rename any (docs/report.md).

First come parts for optional features of a compile (a camera, a decision, --precision auto, int4 weights), then those
that later commands add with --save: `profile`, `validate` and `evaluate`.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any

from cortado.base import codec
from cortado.base.camera import Camera, PixelFormat, ResizeFilter, camera_of, crop_of, size_of
from cortado.base.codec import Matching, Within, json_class, key
from cortado.base.decision import MOST_HELD, MOST_SMOOTHED
from cortado.base.element import arithmetic, element_of
from cortado.base.errors import CortadoError
from cortado.base.findings import Finding
from cortado.base.names import NODE_NAME, is_of_floats
from cortado.base.regions import REGION_NAME
from cortado.options import (
    Activations,
    Artifacts,
    Border,
    CalibrationMethod,
    InputLayout,
    LinearWeights,
    Optimize,
    PteKind,
    StreamPadding,
    Weights,
)
from cortado.plan.decision import ClassScores, DecisionRule
from cortado.plan.windows import StreamWindows

# ---- report types ----------------------------------------------------------------------------------------

_MOST = 2**53 - 1  # every JSON reader represents integers up to here exactly
Count = Annotated[int, Within("an integer from 0 to 2^53-1", 0, _MOST)]
Size = Annotated[int, Within("an integer from 1 to 2^53-1", 1, _MOST)]
ZeroPoint = Annotated[int, Within("an integer of 32 bits", -(2**31), 2**31 - 1)]
Scale = Annotated[float, Within("a number above 0", 0, above=True)]
NodeName = Annotated[str, Matching("the name of a node", NODE_NAME)]
OperatorName = Annotated[str, Matching("an operator, as in cortex_m::quantized_add", "[A-Za-z0-9_]+::[A-Za-z0-9_.]+")]
NetworkName = Annotated[str, Matching("the name of a network", NODE_NAME)]  # never a file, which would be run
ChipName = Annotated[str, Matching("the name of a chip", "[a-z0-9]+(-[a-z0-9]+)*")]
RegionName = Annotated[str, Matching("the name of a memory or a section", REGION_NAME)]
Shades = Annotated[str, Matching("hexadecimal digits", "[0-9a-f]*")]
Sha256 = Annotated[str, Matching("a SHA-256: 64 hexadecimal digits", "[0-9a-f]{64}")]


# ---- camera report ---------------------------------------------------------------------------------------

_Size = Annotated[str, Matching("a size in pixels, as in 160x120", "[0-9]{1,5}x[0-9]{1,5}")]
_Crop = Annotated[
    str, Matching("a part of a picture, as in 20,0,120x120", "[0-9]{1,5},[0-9]{1,5},[0-9]{1,5}x[0-9]{1,5}")
]


@json_class
class CameraReport:
    """A camera in front of the C bundle's input."""

    format: PixelFormat = key("the pixel format of the sensor's lines")
    size: _Size = key("the size of the sensor's pictures, in pixels")
    crop: _Crop = key("the part of a picture that the network sees: x, y and size")
    resize: _Size = key("the size that this part is scaled to: that of the network's image")
    filter: ResizeFilter = key("the filter used for scaling")
    mean: tuple[float, ...] = key("the mean subtracted from pixels in 0 to 1, one per channel or one for all")
    std: tuple[float, ...] = key("the standard deviation that pixels are then divided by")
    line_bytes: Count = key("bytes of one line of the sensor")
    held_bytes: Count = key("bytes of the arena for a line that is kept until the next one")
    table_bytes: Count = key("bytes of flash for tables: the pixels that make up a row, and their codes")
    cycles: Count | None = key("estimated cycles of the front end for one picture; null for cores without an estimate")

    @property
    def camera(self) -> Camera:
        crop, resize = crop_of(self.crop), size_of(self.resize, "resize")
        return camera_of(self.format, size_of(self.size, "size"), crop, resize, self.filter, self.mean, self.std)


# ---- decision report -------------------------------------------------------------------------------------

Outputs = Annotated[int, Within(f"a number of outputs from 1 to {MOST_SMOOTHED}", 1, MOST_SMOOTHED)]
Held = Annotated[int, Within(f"a number of outputs from 0 to {MOST_HELD}", 0, MOST_HELD)]


@json_class
class DecisionReport:
    """The rule that turns scores over time into a decision; lists are in the order of the classes."""

    spec: str = key("the rule, as given with --decide")
    smooth: Outputs = key("how many outputs' scores are averaged")
    thresholds: tuple[float | None, ...] = key(
        "per class, the smallest sum of its scores for a decision (an integer if scores are codes); null: never "
        "decided for"
    )
    holdoffs: tuple[Held, ...] = key("per class, how many outputs it is held off after a decision for it")
    bytes: int = key("bytes of the arena that the decision keeps from output to output")

    def rule(self, names: tuple[str, ...] | None) -> DecisionRule:
        known = names if names is not None and len(names) == len(self.thresholds) else ()
        return DecisionRule(self.smooth, self.thresholds, self.holdoffs, known)

    def contradictions(self, scores: ClassScores, lasts: bool) -> Iterator[str]:
        """Yields why such an output can't be decided by. `lasts` says whether anything persists from output to
        output."""
        try:
            classes = scores.classes
        except CortadoError:
            classes = 0
        if not lasts or len(self.thresholds) != classes or len(self.holdoffs) != classes:
            yield f"a decision by '{scores.name}', which has no scores to decide by"
        if not self.rule(None).fits(scores.element):
            yield f"a decision at sums that {scores.element.name} scores can't reach"


# ---- precision -------------------------------------------------------------------------------------------


@json_class
class TensorPrecisionReport:
    """A tensor and its element."""

    tensor: str = key("its name in the graph, as used with --int16")
    module: str = key("the module that makes it; empty for an input")
    element: str = key("its element type: int8 or int16")
    why: str = key("what int16 gains for its bytes, or why there was no choice")


@json_class
class PrecisionReport:
    """The choice of --precision auto."""

    bar: str = key("the target, as the option was given")
    reached: str = key("what was reached, on all of the data")
    new_data: str | None = key(
        "the least that new data is expected to reach, estimated by applying ranges from each quarter of the "
        "calibration samples to the others, or to the labelled samples; null if there are few samples",
        default=None,
    )
    int8: str = key("what int8 alone reaches")
    int8_arena_bytes: int = key("RAM of the C bundle with int8 alone")
    arena_bytes: int = key("RAM with the chosen elements, for the target that the model was prepared for")
    tensors: tuple[TensorPrecisionReport, ...] = key("every tensor of real numbers")


# ---- weights report --------------------------------------------------------------------------------------


@json_class
class WeightsReport:
    """The weights of a layer, in a compile that asked for int4."""

    layer: str = key("its name")
    module: str = key("the module of the model that it comes from")
    element: str = key("int4 or int8")
    group: Count = key("int4 weights that share a factor; 0: one factor for each output channel")
    saved_bytes: Count = key("bytes of flash saved compared with int8 weights")
    noise: float | None = key(
        "with --weights auto: the noise power it adds to the outputs, relative to their own power"
    )
    why: str = key("why its weights are int8 or int4")


# ---- report found ----------------------------------------------------------------------------------------


@json_class
class CyclesReport:
    """Cycles predicted by a model of the core, at zero wait states."""

    low: Count = key("the least")
    typical: Count = key("the typical value")
    high: Count = key("the most")


@json_class
class LayerProfileReport:
    """Cost of a layer, including the row loop's work for it."""

    name: NodeName = key("the layer")
    instructions: Count = key("instructions, exact")
    cycles: CyclesReport = key("cycles, predicted by the core's model")


@json_class
class MeasuredReport:
    """The same inference on a chip behind a debug probe, bit-exact: `cortado profile --on gdb --save`."""

    place: str = key("the GDB server")
    core: str = key("the core, by its CPUID")
    counter: str = key("the counter used: DWT or SysTick")
    conditions: str = key("clock, caches and memory as found, in words")
    clock_hz: Size | None = key("the clock frequency, measured to within a few percent")
    first_cycles: Count = key("cycles of the first run after loading")
    later_cycles: tuple[Count, ...] = key("cycles of the runs after it, with warm caches")
    layer_cycles: tuple[Count, ...] = key("cycles of each layer, in a build that measures layers")


@json_class
class ProfileReport:
    """One inference on an emulated board, bit-exact, as `cortado profile --save` measured it."""

    board: str = key("the emulated board")
    core: str = key("the core whose cycles these are")
    grade: str = key("how far the model of the core is to be trusted")
    instructions: Count = key("instructions, exact, including what runs before the first layer")
    cycles: CyclesReport = key("cycles, predicted by the core's model")
    chip: ChipName | None = key("the chip that was named, if any")
    clock_hz: Size | None = key("its clock")
    layers: tuple[LayerProfileReport, ...] = key("the layers, in the order in which they run")
    measured: MeasuredReport | None = key("what a real chip measured, if one was used", default=None)


@json_class
class LayerFidelityReport:
    """How far a layer's output is from the float model's."""

    name: NodeName = key("the layer")
    sqnr_db: float | None = key("signal-to-noise ratio; null if both are equal or the float model has no such value")
    exact: bool = key("whether the layer equals the float model's")


@json_class
class FidelityReport:
    """The layers compared with the float model, as `cortado validate --per-layer --save` found them."""

    samples: Size = key("how many inputs were run")
    float_model: str | None = key("the float model")
    layers: tuple[LayerFidelityReport, ...] = key("the layers, in the order in which they run")


@json_class
class EvaluationReport:
    """The score on a dataset, as `cortado evaluate --save` found it; null for figures that do not apply."""

    samples: Size = key("how many samples were scored")
    float_model: str | None = key("the float model")
    accuracy: float | None = key("the share of samples classified correctly")
    float_accuracy: float | None = key("the float model's share of samples classified correctly")
    auc: float | None = key("area under the ROC curve")
    float_auc: float | None = key("the float model's area under the ROC curve")
    sqnr_db: float | None = key("signal-to-noise ratio of the outputs; null also if they are equal")
    exact: bool = key("whether the outputs are equal to the float model's")


# ---- report ----------------------------------------------------------------------------------------------

SCHEMA_VERSION = 1
"""Rises with a release that adds keys. A report without it is older than the first version."""


class DType(StrEnum):
    """The type of an input's or output's values, by NumPy's name."""

    INT8 = "int8"
    UINT8 = "uint8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT16 = "float16"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    BOOL = "bool"


class BufferKind(StrEnum):
    """Kinds of content of an arena's buffer."""

    INPUT = "input"
    OUTPUT = "output"
    STATE = "state"  # a value that a buffer of the model keeps from call to call
    TENSOR = "tensor"  # a layer's whole output
    RING = "ring"  # the few rows of a layer's output that are live at once
    SCRATCH = "scratch"
    COUNTERS = "counters"  # the progress of the steps between two pushed rows


@json_class
class FloatOperatorReport:
    """A node that stays in float in the .pte."""

    node: str = key("its name in the graph")
    operator: str = key("the operator it calls, as in aten.cumsum.default")
    module: str | None = key("the module of the model that it comes from")
    source: str | None = key("the line in the user's file")
    reason: str = key("why it can't run in integers")
    kernels: tuple[str, ...] = key("the ExecuTorch kernels that replace it")


@json_class
class IslandReport:
    """A call computed in float32 in the C bundle, because no integer operator supports it."""

    operator: str = key("the operator it calls, as in aten.cumprod.default")
    module: str | None = key("the module of the model that it comes from")
    source: str | None = key("the line in the user's file")
    reason: str = key("why no integer operator supports it")
    layers: tuple[NodeName, ...] = key("the layers that compute it")
    estimated_cycles: Count | None = key("estimated cycles of these layers; null if the cost table lacks one of them")


@json_class
class OptionsReport:
    """How the model was compiled."""

    optimize: Optimize = key("what the schedule was optimized for")
    io: Border = key("the type of the C bundle's inputs and outputs")
    linear: LinearWeights = key("how linear layers' weights are scaled")
    input_layout: InputLayout = key("the dimension order of inputs")
    allow_float: bool = key("whether the .pte may hold float operators")
    calibration_method: CalibrationMethod = key("how ranges were chosen", default=CalibrationMethod.MINMAX)
    bias_correction: bool = key("whether biases are corrected for rounding", default=False)
    sequence: Size | None = key("after how many calibration inputs state was reset; null: never", default=None)
    stream_padding: StreamPadding = key(
        "whether padding in time was kept or dropped, in a stream", default=StreamPadding.KEEP
    )
    artifacts: Artifacts = key("the artifacts requested", default=Artifacts.BOTH)
    activations: Activations = key("the element type of real tensors", default=Activations.INT8)
    int16: tuple[str, ...] = key("--int16: modules whose real tensors are int16", default=())
    float32: tuple[str, ...] = key("--float32: modules that stay in float32 in C", default=(), seldom=True)
    watch: str | None = key(
        "--watch: the layer whose features the last output, the surprise, measures", default=None, seldom=True
    )
    keep_float: tuple[str, ...] = key("--keep-float: modules kept in float in the .pte", default=())
    state: Activations = key(
        "the element type of buffers that are computed from their own previous value", default=Activations.INT8
    )
    weights: Weights = key("the storage type of layers' weights", default=Weights.INT8, seldom=True)
    weight_group: Size | None = key(
        "int4 weights that share a factor; null: those of a channel", default=None, seldom=True
    )
    range: tuple[str, ...] = key("--range: the intervals of inputs", default=())
    place: tuple[str, ...] = key("--place: the sections that hold layers' constants", default=())


@json_class
class SearchReport:
    """The work that one search did, and its bound."""

    work: Count = key("how much work it did")
    bound: Count = key("the limit of its work")
    exhausted: bool = key("whether it stopped at its limit: a better result may exist")


@json_class
class PeakBufferReport:
    """A buffer that is live at the arena's peak."""

    name: str = key("a layer for its output, a layer followed by .scratch, or the node of an input")
    bytes: Count = key("its size")


@json_class
class AlternativeReport:
    """The result of another optimization goal."""

    arena_bytes: Count = key("the arena")
    row_calls: Count = key("kernel calls for one inference")


@json_class
class MomentReport:
    """A moment of an inference, during which the set of live buffers does not change."""

    stage: Count = key("the running stage, counted from 0")
    position: Count = key("the step of that stage, counted from 0")
    bytes: Count = key("bytes of live buffers")


@json_class
class ArenaBufferReport:
    """A buffer in the arena: its place, and the moments of the timeline in which it is live."""

    name: str = key("a layer for its output, a layer followed by .scratch, or the node of an input")
    kind: BufferKind = key("what it holds")
    offset: Count = key("the offset of its first byte in the arena")
    bytes: Count = key("its size")
    start: Count = key("the first moment of the timeline in which it is live, counted from 0")
    end: Count = key("one past the last moment in which it is live")
    persists: bool = key("whether it persists from call to call, or in a stream from row to row")
    ring_rows: Count | None = key("how many rows a ring holds; null: the tensor is stored whole")
    rows: Count | None = key("for a ring, how many rows the whole tensor has")
    over: tuple[str, ...] = key("live buffers whose dead bytes it reuses: it is laid over them")


@json_class
class RegionReport:
    """A piece of the arena in a memory of its own."""

    name: RegionName = key("the memory's name, as the user gave it")
    bytes: Count = key("bytes of it that the arena takes")
    size_bytes: Size = key("bytes of it that the arena may take")
    buffers: tuple[PeakBufferReport, ...] = key("the buffers placed there, those with the most used bytes first")
    device: bool = key(
        "whether it is device memory, for which the C is compiled with CORTADO_ALIGNED_ONLY", default=False
    )


@json_class
class MemoryReport:
    """RAM of the C bundle."""

    arena_bytes: Count = key("size of the arena, which holds inputs, outputs and scratch too")
    scratch_bytes: Count = key("scratch of all kernels together; they share bytes of the arena")
    lower_bound_bytes: Count = key("a proven bound: no plan of these stages needs less")
    optimal: bool = key("whether the arena is as small as the lower bound")
    search: Mapping[str, SearchReport] = key(
        "the work spent on choosing the order of branches, the stages and the offsets"
    )
    peak_buffers: tuple[PeakBufferReport, ...] = key("the buffers live at the peak, lowest address first")
    alternatives: Mapping[Optimize, AlternativeReport] = key("the result of each optimization goal")
    single_targets: Mapping[str, Count] | None = key(
        "the arena that each kind of core alone would need; null for a single core"
    )
    timeline: tuple[MomentReport, ...] = key("RAM over time")
    buffers: tuple[ArenaBufferReport, ...] = key(
        "every buffer of the arena, in the order in which they become live", default=()
    )
    stack_bytes: Count | None = key(
        "stack used by a call, as compiled with arm-none-eabi-gcc; null without that compiler", default=None
    )
    selftest_stack_bytes: Count | None = key("stack used by a call of the self-test; null without one", default=None)
    regions: tuple[RegionReport, ...] = key(
        "the memories that hold the arena, with --memory, the fastest first; arena_bytes is their sum", default=()
    )


@json_class
class ScheduleReport:
    """The order of work in the C bundle."""

    stages: tuple[tuple[str, ...], ...] = key("names of its layers, which run row by row together")
    row_calls: Count = key("kernel calls for one inference")


@json_class
class InputRowsReport:
    """An input that comes row by row."""

    rows: Size = key("how many rows an input has")
    row_bytes: Size = key("bytes of one row")
    ring_rows: Size = key("how many rows the arena holds")
    ring_bytes: Size = key("bytes of the rows that the arena holds")


@json_class
class StreamReport:
    """An endless stream of rows."""

    dim: Count = key("the dimension of the model's input that is time")
    window_rows: Size = key("rows of an output's window, as the model was written")
    hop_rows: Size = key("how many rows lie between outputs")
    first_rows: Size = key("how many rows come before the first output: those of a window that its output reads")
    delay_rows: Count = key("by how many rows outputs are late, because zeros at the end of the window were dropped")
    state_bytes: Count = key("bytes of the arena that are live between two rows")
    push_macs: Count = key("multiply-accumulates of the largest push")
    output_macs: Count = key("multiply-accumulates of all pushes from one output to the next")

    @property
    def windows(self) -> StreamWindows:
        return StreamWindows(window=self.window_rows, hop=self.hop_rows, first=self.first_rows)


@json_class
class SectionReport:
    """Constants of some layers in a section of their own."""

    name: RegionName = key("the section's name, as the user gave it: .cortado.NAME in the ELF file")
    bytes: Count = key("bytes of constants in it")


@json_class
class FlashReport:
    """Flash of the C bundle."""

    weights_bytes: Count = key("constants")
    code_bytes: Count | None = key("code size, as compiled with arm-none-eabi-gcc; null without that compiler")
    sections: tuple[SectionReport, ...] = key("the constants in sections of their own: --place", default=())


@json_class
class WeightScalesReport:
    """The scales of a layer's weights, recovered from its multipliers."""

    channels: Size = key("how many there are: one for each output channel, or one for all")
    least: Scale = key("the smallest")
    largest: Scale = key("the largest")


@json_class
class SeenReport:
    """The range of a float32 tensor with the example input; NaN and infinities are left out."""

    least: float = key("the smallest")
    largest: float = key("the largest")


@json_class
class LongestCallReport:
    """The longest time between two calls of cortado_yield: one kernel call."""

    layer: NodeName = key("the layer that the kernel runs for")
    cycles: Count = key("average cycles of one of its kernel calls, estimated from the cost table")


@json_class
class LayerReport:
    """One kernel of the C bundle and its work."""

    name: NodeName = key("its name in the lowered graph")
    operator: OperatorName = key("the operator it computes")
    module: str = key("the module of the model that it comes from; empty if none")
    macs: Count = key("multiply-accumulates")
    shape: tuple[Size, ...] = key("the shape of its output, in memory order", default=())
    element: DType | None = key("the type of its output's values; null in reports of earlier versions", default=None)
    weights_bytes: Count = key("bytes of constants that it reads; layers may share some", default=0)
    estimated: bool = key("whether the cost table has a row for its kernel", default=False)
    estimated_cycles: Count | None = key(
        "estimated cycles of the kernel; null if the cost table has no row for it; measure with profile", default=None
    )
    calls: Count = key("kernel calls in one run: one, or one per few rows", default=0)
    scale: Scale | None = key("the scale of its output's codes; null if the output is not codes", default=None)
    zero_point: ZeroPoint | None = key("the code that stands for 0; null if values are not codes", default=None)
    weight_scales: WeightScalesReport | None = key("the scales of its weights; null if it has no weights", default=None)
    seen: SeenReport | None = key("its output for the example input; null if it is not float32", default=None)


@json_class
class TensorReport:
    """An input or output as the C bundle holds it; without one, as the .pte does."""

    name: str = key("its name in the model; outputs are numbered")
    node: NodeName = key("the value of the lowered graph that it holds")
    shape: tuple[Size, ...] = key("its shape in memory order")
    model_shape: tuple[Size, ...] = key("its shape in the model")
    layout: tuple[Count, ...] = key("the model's dimensions in memory order: [0, 2, 3, 1] is NHWC")
    dtype: DType = key("the type of its values")
    scale: Scale | None = key("real value = scale * (code - zero_point); null if values are not codes")
    zero_point: ZeroPoint | None = key("the code that stands for 0; null if values are not codes")
    seen: SeenReport | None = key("its values for the example input; null if they are not float32", default=None)

    @property
    def scores(self) -> ClassScores:
        """Returns the outputs as a decision sees them."""
        return ClassScores(self.name, self.shape, element_of(self.dtype.value), self.scale, self.zero_point)


@json_class
class StateReport:
    """A buffer of the model that persists from call to call."""

    name: str = key("the buffer's name in the model")
    node: NodeName = key("the value of the lowered graph that holds the state left by the last call")
    shape: tuple[Size, ...] = key("its sizes")
    dtype: DType = key("the type of its values")
    scale: Scale | None = key("real value = scale * (code - zero_point)")
    zero_point: ZeroPoint | None = key("the code that stands for 0")
    offset: Count | None = key("its offset in the C bundle's arena; null without a C bundle")
    bytes: Count = key("its size")
    region: RegionName | None = key("the memory that holds it, with --memory; the offset is within it", default=None)
    why: str = key("why it has 8 or 16 bits", default="")


@json_class
class ChipReport:
    """The chip that the model was compiled for, as its maker describes it."""

    name: ChipName = key("its name in `cortado chips`")
    clock_hz: Size = key("its highest clock frequency")
    ram_bytes: Size = key("its largest contiguous RAM; the arena is one piece")
    flash_bytes: Size | None = key("its flash; null if code is in memory outside of the chip")


@json_class
class PteReport:
    """The .pte."""

    bytes: Count = key("size of the file")
    arena_bytes: Count = key("the planned memory that it needs from the runtime")
    kind: PteKind = key("the operators it calls", default=PteKind.OPERATORS)


@json_class
class PteFormReport:
    """A .pte whose network differs from the C bundle's, for ExecuTorch's int8 operators: state in 8 bits, norms
    decomposed."""

    pte_sqnr_db: tuple[float | None, ...] = key(
        "each output's signal-to-noise ratio in the .pte, on calibration data; null if nothing is lost, or if it "
        "holds no real numbers"
    )
    c_sqnr_db: tuple[float | None, ...] = key("each output's signal-to-noise ratio in the C bundle")


@json_class
class ImageReport:
    """The model as data."""

    bytes: Count = key("size of MODEL.cortado")
    ram_bytes: Count = key("RAM that it needs while open, in addition to its arena")
    kernels: tuple[str, ...] = key("the kernels that firmware must have to run it")


@json_class
class CalibrationReport:
    """The data that the model was calibrated with."""

    data: str = key('what --calibration named, or "the model\'s own"')
    batches: Count = key("how many inputs there were")


@json_class
class CandidateReport:
    """A way to choose ranges and biases, and the accuracy of the outputs with it."""

    method: CalibrationMethod = key("the method that chooses ranges")
    corrected_layers: Count = key("how many layers have corrected biases")
    outputs_db: tuple[float | None, ...] = key(
        "signal-to-noise ratio of each output on held-back samples; for integers, -10 log10 of the share that "
        "differs; null: nothing was lost, or nothing is left"
    )


@json_class
class ChoiceReport:
    """The choice of --calibration-method auto."""

    method: CalibrationMethod = key("how ranges were chosen")
    corrected_layers: Count = key("how many layers have corrected biases")
    samples: Count = key("how many calibration samples the candidates were judged by")
    gain_db: float = key("gain over min-max without correction, averaged over the outputs")
    candidates: tuple[CandidateReport, ...] = key("all candidates that were tried, min-max without correction first")


@json_class
class SpectrogramReport:
    """A spectrogram of the example input as the device computes it: its layer's codes, in 16 shades."""

    layer: NodeName = key("the layer that computes it")
    frames: Size = key("how many frames there are; if more than 256, some are left out in `shades`")
    bands: Size = key("how many bands there are; if more than 128, some are left out in `shades`")
    low: float = key("the real number that shade 0 stands for")
    high: float = key("the real number that shade f stands for")
    shades: tuple[Shades, ...] = key("for each band, from the lowest, one digit per frame")


@json_class
class Report:
    """The report of a compile: the model, its artifacts, and their cost. `memory`, `schedule`, `flash` and `macs` are
    null without a C bundle."""

    schema_version: Count = key("the version of this list of keys", default=0)
    cortado_version: str = key("the version of Cortado that wrote the report")
    model: str = key("the model's name")
    target: str = key("the target it was compiled for")
    operators: Mapping[OperatorName, Count] = key("how often each operator is called; views are not counted")
    float_operators: tuple[FloatOperatorReport, ...] = key("calls that stay in float; empty without --allow-float")
    islands: tuple[IslandReport, ...] = key(
        "calls that run in float32 in the C bundle, between a dequantize and a quantize; empty without --allow-float",
        default=(),
    )
    portable_operators: tuple[str, ...] = key("ExecuTorch's portable kernels that the .pte calls")
    options: OptionsReport = key("how it was compiled")
    memory: MemoryReport | None = key("RAM of the C bundle")
    schedule: ScheduleReport | None = key("the order in which the C bundle's layers run")
    flash: FlashReport | None = key("flash of the C bundle")
    macs: Count | None = key("multiply-accumulates of one inference")
    layers: tuple[LayerReport, ...] = key("the kernels in the order in which they run")
    removed_channels: Count = key(
        "how many channels of layers were left out because they can't change an output", default=0
    )
    inputs: tuple[TensorReport, ...] = key("the model's inputs")
    outputs: tuple[TensorReport, ...] = key("the model's outputs")
    weights: tuple[WeightsReport, ...] = key("layers with weights, if int4 was requested", default=(), seldom=True)
    state: tuple[StateReport, ...] = key(
        "buffers that persist from call to call: the first bytes of the arena", default=()
    )
    longest_call: LongestCallReport | None = key(
        "the longest kernel call; null if the cycles of a kernel are not known", default=None
    )
    bundle_missing: tuple[str, ...] = key("why there is no C bundle; empty if there is one")
    pte: PteReport | None = key("the .pte, if there is one")
    pte_form: PteFormReport | None = key(
        "the .pte's own form of the network; null if it is the same as the C bundle's", default=None, seldom=True
    )
    pte_missing: tuple[str, ...] = key("why there is no .pte; empty if there is one")
    pte_limits: tuple[str, ...] = key("what an ExecuTorch runtime needs to run the .pte")
    notes: tuple[str, ...] = key("anything else worth knowing", default=())
    warnings: tuple[Finding, ...] = key("warnings: about the calibration data, and about what int8 loses")
    labels: tuple[str, ...] | None = key("names of a classifier's classes, if the model has them")
    compile_seconds: Mapping[str, float] = key(
        "CPU seconds of each phase, imports and compilers included; everything else is the same in every compile"
    )
    prefix: str = key("the model's name in files and C symbols")
    id: str = key("a hash of what the model computes: MODEL_ID", default="")
    model_version: str = key("the model's version: --model-version, or one that changes with the model", default="")
    build: str = key("by which the C files of one compile recognize each other; empty without a C bundle", default="")
    calibration: CalibrationReport | None = key(
        "the calibration data; null if compiled in Python, or if the model was quantized already", default=None
    )
    calibrated: ChoiceReport | None = key(
        "which ranges and corrected biases were best on held-back calibration samples; null if the user chose, or if "
        "the model was quantized already",
        default=None,
    )
    precision: PrecisionReport | None = key("which tensors are int16, with --precision auto", default=None)
    chip: ChipReport | None = key("the chip named with --chip", default=None)
    input_rows: InputRowsReport | None = key(
        "how the C bundle takes its input row by row, with --input-rows; null if it takes it whole", default=None
    )
    camera: CameraReport | None = key("a camera in front of the input, with --input-format", default=None)
    stream: StreamReport | None = key("the endless stream of rows, with --stream", default=None)
    spectrograms: tuple[SpectrogramReport, ...] = key("spectra of the example input", default=())
    decision: DecisionReport | None = key(
        "the rule that turns scores into a decision; only with --decide", default=None
    )
    image: ImageReport | None = key("the model as data, with --image", default=None)
    zoo: NetworkName | None = key("the network of Cortado's zoo that this is, if it is one", default=None)
    profile: ProfileReport | None = key("time on an emulated board, after `profile --save`", default=None)
    fidelity: FidelityReport | None = key("layers compared with the float model, after `validate --save`", default=None)
    evaluation: EvaluationReport | None = key("the score on a dataset, after `evaluate --save`", default=None)
    artifacts: Mapping[str, Sha256] = key("SHA-256 of every other file in the folder, by path")

    def __repr__(self) -> str:
        return f"<Report of {self.model} for {self.target}: {len(self.layers)} layers; to_json() gives all of it>"

    def to_json(self) -> dict[str, Any]:
        """Returns the contents of report.json."""
        data: dict[str, Any] = codec.to_json(self)
        if self.decision is None:
            del data["decision"]
        return data

    @property
    def own_outputs(self) -> int:
        """Returns the number of outputs of the user's module: all but the surprise that follows them."""
        return len(self.outputs) - (self.options.watch is not None)

    @property
    def arithmetic(self) -> str:
        """Names the elements in which it computes real numbers."""
        floats = [DType.FLOAT32 for layer in self.layers if is_of_floats(layer.operator)]
        coded = [layer.element for layer in self.layers if layer.scale is not None and layer.element is not None]
        real = [*floats, *coded] if self.layers else [DType.INT8]  # ExecuTorch's operators
        return arithmetic(map(str, real), int4_weights=any(one.element == "int4" for one in self.weights))

    @property
    def rule(self) -> DecisionRule | None:
        """Returns the decision rule."""
        return None if self.decision is None else self.decision.rule(self.labels)

    @staticmethod
    def from_json(data: Any, where: str) -> "Report":
        """Parses a report from an untrusted file. One of an older version is valid if only keys with a default are
        missing; a newer one is refused, since it may contain what this version does not understand."""
        version = data.get("schema_version") if isinstance(data, dict) else None
        if isinstance(version, int) and version > SCHEMA_VERSION:
            raise CortadoError(
                f"{where} was written by a newer Cortado (its schema_version is {version}, this one reads up to "
                f"{SCHEMA_VERSION}): update Cortado, or compile the model again with this one"
            )
        try:
            return codec.from_json(Report, data)
        except CortadoError as error:
            raise no_report(where, str(error)) from error


def no_report(where: str, what: str) -> CortadoError:
    return CortadoError(f"{where} is not a report written by Cortado ({what}); compile the model again")
