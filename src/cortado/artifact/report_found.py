"""Parts of report.json that later commands add: `profile`, `validate` and `evaluate` with --save."""

from cortado.artifact.report_types import ChipName, Count, NodeName, Size
from cortado.base.codec import json_class, key


@json_class
class CyclesReport:
    """Cycles as a model of the core has them, at zero wait states."""

    low: Count = key("at least")
    typical: Count = key("what to reckon with")
    high: Count = key("at most")


@json_class
class LayerProfileReport:
    """Cost of a layer, with the row loop's work for it."""

    name: NodeName = key("the layer")
    instructions: Count = key("exactly")
    cycles: CyclesReport = key("by the model of the core")


@json_class
class MeasuredReport:
    """The same inference on a chip behind a debug probe, bit-exact: `cortado profile --on gdb --save`."""

    place: str = key("the GDB server")
    core: str = key("the core, by its CPUID")
    counter: str = key("what counted: DWT or SysTick")
    conditions: str = key("clock, caches and memory as found, in words")
    clock_hz: Size | None = key("the clock, measured within a few percent")
    first_cycles: Count = key("of the run after loading")
    later_cycles: tuple[Count, ...] = key("of the runs behind it: with warm caches")
    layer_cycles: tuple[Count, ...] = key("of each layer, in a build that watches them")


@json_class
class ProfileReport:
    """One inference on an emulated board, bit-exact, as `cortado profile --save` measured it."""

    board: str = key("the emulated board")
    core: str = key("the core whose cycles these are")
    grade: str = key("how far the model of the core is to be trusted")
    instructions: Count = key("exactly, with what runs before the first layer")
    cycles: CyclesReport = key("by the model of the core")
    chip: ChipName | None = key("the chip that was named")
    clock_hz: Size | None = key("its clock")
    layers: tuple[LayerProfileReport, ...] = key("in the order in which they run")
    measured: MeasuredReport | None = key("what a chip counted, if one was asked", default=None)


@json_class
class LayerFidelityReport:
    """How far a layer's output is from the float model's."""

    name: NodeName = key("the layer")
    sqnr_db: float | None = key("signal to noise; null where both are equal or the float model has no such value")
    exact: bool = key("whether both are equal")


@json_class
class FidelityReport:
    """The layers beside the float model, as `cortado validate --per-layer --save` found them."""

    samples: Size = key("inputs that were run")
    float_model: str | None = key("the float model")
    layers: tuple[LayerFidelityReport, ...] = key("in the order in which they run")


@json_class
class EvaluationReport:
    """The score on a dataset, as `cortado evaluate --save` found it; null where there is no such figure."""

    samples: Size = key("samples of the dataset")
    float_model: str | None = key("the float model")
    accuracy: float | None = key("the part of the samples that got their class")
    float_accuracy: float | None = key("that of the float model")
    auc: float | None = key("area under the ROC curve")
    float_auc: float | None = key("that of the float model")
    sqnr_db: float | None = key("signal to noise of the outputs; null also where they are equal")
    exact: bool = key("whether the outputs are equal to the float model's")
