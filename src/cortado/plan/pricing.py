"""Quantized models after the passes, and their RAM and cycles, before anything is emitted."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from torch import Tensor
from torch.export import ExportedProgram

from cortado.base.errors import CortadoError
from cortado.base.target import CortexMTargetConfig
from cortado.frontend.precision.judgement import FloatRun
from cortado.frontend.precision.search import Price
from cortado.frontend.quantize.convert import Quantized
from cortado.ir.graph import TO_NHWC
from cortado.ir.patched import late_code
from cortado.options import InputLayout, Options, Weights
from cortado.passes import PIPELINE, CortexMPassManager
from cortado.passes.base import CortexMPass
from cortado.plan.lowered import LoweredGraph, after, lowered_graph, run_reference
from cortado.plan.planned import estimated_cycles
from cortado.plan.request import Asked
from cortado.plan.schedule import schedule


def lowered(
    quantized: Quantized,
    target: CortexMTargetConfig,
    options: Options,
    intermediates: Path | None = None,
    *,
    allow_float: bool = False,
    stream: bool = False,
    passes: Sequence[type[CortexMPass]] = PIPELINE,
) -> ExportedProgram:
    """Runs the pipeline on a model; with `stream`, for an endless stream of rows."""
    return CortexMPassManager(
        quantized.program(),
        passes,
        target_config=target,
        intermediates=intermediates,
        linear=options.linear,
        allow_float=allow_float,
        input_layout=options.input_layout,
        stream=stream,
        codes_in_floats=Weights.FLOAT32 not in (options.weights, quantized.how.weights),
    ).transform()


def as_read(inputs: Sequence[Tensor], options: Options) -> tuple[Tensor, ...]:
    """Converts inputs of the model to the layout that the compiled one reads."""
    nhwc = options.input_layout is InputLayout.NHWC
    return tuple(value.permute(TO_NHWC).contiguous() if nhwc and value.dim() == 4 else value for value in inputs)


def references(graph: LoweredGraph, runs: Sequence[FloatRun]) -> Iterator[dict[str, Tensor]]:
    """Yields the exact values of each run; state is initial where a run begins, and otherwise continues from the last
    run."""
    values: dict[str, Tensor] = {}
    for run in runs:
        values = run_reference(graph, run.inputs, after(graph, values) if values and not run.begins else None)
        yield values


class Pricing:
    """The cost of quantized models on a target, and their integer outputs."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._last: tuple[Quantized, LoweredGraph | None] | None = None

    def price(self, quantized: Quantized) -> Price | None:
        """Returns the bytes of the arena and the cycles; None if the model can't be lowered."""
        graph = self._graph(quantized)
        if graph is None:
            return None
        planned = schedule(self._asked.stand_in(graph), self._asked.options.optimize)
        return Price(planned.plan.peak, sum(cycles or 0.0 for cycles in estimated_cycles(planned)))

    def outputs(self, quantized: Quantized, runs: Sequence[FloatRun]) -> list[list[Tensor]] | None:
        """Computes the reference's outputs; for a model with state, runs are steps."""
        graph = self._graph(quantized)
        if graph is None:
            return None
        read = [replace(run, inputs=as_read(run.inputs, self._asked.options)) for run in runs]
        return [[values[name] for name in graph.outputs] for values in references(graph, read)]

    def _graph(self, quantized: Quantized) -> LoweredGraph | None:
        if self._last is None or self._last[0] is not quantized:
            self._last = quantized, self._lowered(quantized)
        return self._last[1]

    def _lowered(self, quantized: Quantized) -> LoweredGraph | None:
        target, options = self._asked.target, self._asked.options
        try:
            with late_code():
                return lowered_graph(lowered(quantized, target, options, stream=options.stream is not None))
        except CortadoError:
            return None
