"""Accuracy targets of --precision auto: decibels on calibration data, or accuracy on labelled samples."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch.fx import GraphModule
from torch.utils import _pytree as pytree

from cortado.base.errors import CortadoError
from cortado.base.numerics import Tensor
from cortado.frontend.capture.eager import Eager
from cortado.frontend.capture.inputs import Inputs
from cortado.frontend.precision.judgement import FloatRun, decibels, drawn
from cortado.frontend.precision.parts import OutputPart, OutputParts
from cortado.frontend.precision.search import Bar
from cortado.frontend.rewrite.state import holders
from cortado.ir.facts import STATE
from cortado.options import Options

MOST = 1000  # labelled samples that are used, at most
NEARLY = 1.0  # dB that a cheaper choice may be worse on new data, if none reaches the bar there


@dataclass(frozen=True)
class Labelled:
    """Samples, and the right class of each."""

    samples: Sequence[Inputs]
    labels: Sequence[int]

    def some(self) -> "Labelled":
        """Returns as many samples as are run for one choice."""
        numbers = drawn(len(self.labels), MOST)
        return Labelled([self.samples[number] for number in numbers], [self.labels[number] for number in numbers])


class Goal:
    """A bar, and the measurement of a quantized graph or its integers against it."""

    def __init__(
        self, how: Options, parts: OutputParts, wanted: Sequence[Tensor], eager: Eager, labelled: Labelled | None
    ) -> None:
        """Initializes the goal; `wanted` are the float model's outputs for a calibration input."""
        ((option, value),) = how.bars.items()
        asked = f"{option} {value:g}"
        self._real = [part for part in parts.parts if wanted[part.output].is_floating_point()]
        self.labelled = None if labelled is None else labelled.some()
        if self.labelled is None:
            _check_real(asked, wanted)
            self.bar = Bar(asked, value, lambda db: f"{db:.1f} dB", decibels=True, nearly=NEARLY)
            return
        count = len(self.labelled.labels)
        before = _right([_alone(eager, sample) for sample in self.labelled.samples], self.labelled.labels)
        least = value if how.min_accuracy is not None else before - value
        shown = f" of {count:,} samples right ({before:.2%} in float)"
        self.bar = Bar(asked, least - 1e-9, lambda part: f"{part:.2%}{shown}", decibels=False)

    def accuracy(self, converted: GraphModule) -> float:
        assert self.labelled is not None
        initial = [STATE.must(node).initial for node in holders(converted.graph)]
        found = [pytree.tree_leaves(converted(*sample, *initial))[0] for sample in self.labelled.samples]
        return _right(found, self.labelled.labels)

    def kept(self, runs: Sequence[FloatRun], found: Sequence[Sequence[Tensor]]) -> float:
        """Returns the decibels of the worst part of a real output, over these runs."""
        pairs = [(run.outputs, outputs) for run, outputs in zip(runs, found, strict=True)]
        return min(decibels([(part.of(wanted), part.of(one)) for wanted, one in pairs]) for part in self._real)

    def worst_first(self, runs: Sequence[FloatRun], found: Sequence[Sequence[Tensor]]) -> list[FloatRun]:
        """Sorts runs by their errors in the part that keeps the fewest decibels, the largest first."""
        pairs = list(zip(runs, found, strict=True))

        def kept(part: OutputPart) -> float:
            return decibels([(part.of(run.outputs), part.of(outputs)) for run, outputs in pairs])

        worst = min(self._real, key=kept)
        lost = {
            run.number: float((worst.of(run.outputs) - worst.of(outputs)).double().nan_to_num(0.0).square().sum())
            for run, outputs in pairs
        }
        return sorted(runs, key=lambda run: -lost[run.number])


def _check_real(asked: str, outputs: Sequence[Tensor]) -> None:
    if not any(output.is_floating_point() for output in outputs):
        raise CortadoError(
            f"{asked}: the model's outputs are integers and truth values, which have no signal-to-noise ratio in dB; "
            "expected an output of real numbers. Give --min-accuracy or --max-drop with --labelled, or leave "
            "--precision auto out"
        )


def _alone(eager: Eager, sample: Inputs) -> Tensor:
    """Returns the model's first output, starting from initial state."""
    eager.reset()
    return eager(sample)[0]


def _right(scores: Sequence[Tensor], labels: Sequence[int]) -> float:
    """Returns the share of samples whose best class is right; a single score above zero means class 1."""
    found = [int(one.argmax()) if one.numel() > 1 else int(float(one) > 0) for one in scores]
    return sum(one == label for one, label in zip(found, labels, strict=True)) / len(labels)
