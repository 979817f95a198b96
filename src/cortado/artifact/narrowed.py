"""int4 weights in a compile: the layers that get them, in the lowered program, and the report on them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch.export import ExportedProgram

from cortado.artifact.report import WeightsReport
from cortado.base.names import c_identifier
from cortado.emit.c.bundle import emit_c
from cortado.frontend.precision.judgement import FloatRun
from cortado.options import Optimize, Weights
from cortado.plan.lowered import LoweredGraph, lowered_graph
from cortado.plan.narrowing import NarrowLayer, apply_layers, chosen_layers, observe
from cortado.plan.planned import Planned
from cortado.plan.request import Asked
from cortado.plan.schedule import schedule
from cortado.run import measure, toolchain
from cortado.run.bundle_info import BundleInfo


@dataclass(frozen=True)
class WeightsRequest:
    """A request for int4 weights: the compile's settings, calibration inputs, and whether biases are corrected."""

    asked: Asked
    runs: Sequence[FloatRun]
    correct: bool


def narrow_weights(
    program: ExportedProgram, request: WeightsRequest, intermediates: Path | None = None
) -> tuple[WeightsReport, ...]:
    """Gives layers of a lowered program int4 weights, in place; with `intermediates`, writes the graph there."""
    options = request.asked.options
    graph, automatic = lowered_graph(program), options.weights is Weights.AUTO
    observed = observe(graph, request.runs, run=options.weight_group or 0, correct=request.correct)
    layers = chosen = observed.layers(() if automatic else None)
    if automatic and options.flash_limit is not None:
        layers = observed.with_noise(layers)
        chosen = chosen_layers(graph, layers, _flash(request.asked), options.flash_limit)
        fitted = {layer.call: layer for layer in observed.layers({layer.call for layer in chosen})}
        chosen = [fitted.get(layer.call, layer) for layer in chosen]  # fitted jointly, each to the others' errors
    apply_layers(program, chosen, intermediates)
    taken = {layer.call for layer in chosen}
    found = [_narrow(layer, layer.call in taken, automatic) for layer in layers]
    kept = [
        WeightsReport(
            layer=one.call, module=one.module, element="int8", group=0, saved_bytes=0, noise=None, why=one.why
        )
        for one in observed.wide.values()
    ]
    order = {call.name: position for position, call in enumerate(graph.calls)}
    return tuple(sorted([*found, *kept], key=lambda one: order[one.layer]))


def _narrow(layer: NarrowLayer, taken: bool, automatic: bool) -> WeightsReport:
    why = "asked for" if not automatic else "it costs the outputs least per byte" if taken else "the flash fits"
    return WeightsReport(
        layer=layer.call,
        module=layer.module,
        element="int4" if taken else "int8",
        group=layer.run if taken else 0,
        saved_bytes=layer.saved if taken else 0,
        noise=layer.noise if automatic else None,
        why=why,
    )


def _flash(asked: Asked) -> Callable[[LoweredGraph], int]:
    """Returns a function that computes constants plus code of a graph's C bundle."""
    toolchain.require(toolchain.Tool.ARM_GCC)

    def total(graph: LoweredGraph) -> int:
        planned = schedule(asked.stand_in(graph), Optimize.TIME)
        bundle = emit_c(planned, asked.options.place)
        code = measure.measured(bundle.files, [bundle], [bundle_info(planned)]).code_bytes
        return bundle.weights_bytes - sum(bundle.section_bytes.values()) + (code or 0)

    return total


def bundle_info(planned: Planned) -> BundleInfo:
    """Returns the facts about a bundle that compiling it needs."""
    program = planned.program
    return BundleInfo(
        c_identifier(program.name),
        program.target,
        (),
        (),
        0 if program.pushed is None else program.pushed.row_bytes,
        bool(program.state),
        aligned_only=bool(planned.aligned_only),
        decides=program.decision is not None,
        line_bytes=0 if program.camera is None else program.camera.line_bytes,
    )
