"""The choice of ranges and bias corrections: candidates are judged by the outputs on held-out samples.

Ranges of least error and corrected biases are better for most networks and far worse for some: where one rare value is
the answer, or where most positions are silent and dominate the mean. So each candidate gets its ranges and biases from
a part of the samples and is judged on the others, output by output, against the full range without correction
(`MINMAX`), and the choice can't be worse than that. The winner then gets its ranges from all samples. The number of
held-out samples depends on the size of the network: the work is bounded.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch.fx import GraphModule

from cortado.frontend.capture.inputs import Inputs
from cortado.frontend.precision.judgement import FloatRun, agreement, decibels, drawn_runs
from cortado.frontend.precision.parts import OutputParts
from cortado.frontend.quantize.bias import Means
from cortado.frontend.quantize.fake_quant_run import Correction, Rounded, Scales
from cortado.frontend.quantize.observers import Observed, RangeObserver
from cortado.frontend.quantize.ranges import odd_samples
from cortado.frontend.rewrite.state import StateBuffer, StateSequence
from cortado.ir.facts import VALUE
from cortado.options import CalibrationMethod, Options

Tensor = torch.Tensor
WORK = 3_000_000  # values computed for one candidate, beyond the least number of samples
FEWEST, MOST = 4, 32  # samples that are held out
ENOUGH = 8  # samples from which some can be held out; with fewer, all are used for fitting and judging
STEPS = 128  # the most steps judged, for a model with state
CORRECTED = 16  # samples from which a candidate's biases are corrected
NOTICED = 0.3  # dB: differences below this don't count
EXACT = 60.0  # dB: more than this doesn't count
BORNE = 0.3  # dB that an output can lose if the others gain
REMEMBERED = 64_000_000  # values of the float model's outputs that are kept, at most
METHODS = (CalibrationMethod.MSE, CalibrationMethod.PERCENTILE, CalibrationMethod.MINMAX)
PARTS = 4  # groups of layers, to find those whose correction helps


@dataclass(frozen=True)
class Candidate:
    """A candidate: how ranges are chosen, and which layers' biases are corrected."""

    method: CalibrationMethod
    corrected: tuple[str, ...]
    widened: bool = True  # whether ranges of regressing tensors are widened for new data


@dataclass(frozen=True)
class Judged:
    """The quality of each output with a candidate: dB, or for integers the agreement converted to dB."""

    candidate: Candidate
    kept: tuple[float, ...]


@dataclass(frozen=True)
class Choice:
    """The winner, and the results of all candidates, min-max without correction first."""

    winner: Candidate
    judged: tuple[Judged, ...] = ()
    samples: int = 0

    @property
    def gain(self) -> float:
        """Returns the average gain of the outputs, in dB above min-max."""
        kept = next((one.kept for one in self.judged if one.candidate == self.winner), ())
        return _mean(_gains(kept, self.judged[0].kept)) if kept else 0.0


def most_judged(graph_size: int, samples: int, state: bool, sequences: int = 1) -> int:
    """Returns how many samples candidates are judged by; for a model with state, steps of whole sequences, as errors
    accumulate from step to step."""
    most = max(FEWEST, WORK // max(graph_size, 1))
    if state:
        return min(samples if sequences < ENOUGH else samples // 2, STEPS, most)
    return min(samples if samples < ENOUGH else samples // 2, MOST, most)


def held_back(samples: int, count: int, rare: Collection[int] = (), wrong: Collection[int] = ()) -> list[int]:
    """Returns `count` of the samples, evenly spaced: `rare` ones in proportion, `wrong` ones never."""
    usual = [number for number in range(samples) if number not in rare and number not in wrong]
    few = sorted(set(rare) - set(wrong))
    some = math.ceil(len(few) * count / samples)
    return sorted([*_evenly(usual, count - some), *_evenly(few, some)])


def _evenly(numbers: Sequence[int], count: int) -> list[int]:
    count = min(count, len(numbers))
    return [numbers[(2 * index + 1) * len(numbers) // (2 * count)] for index in range(count)]


def size_of(module: GraphModule) -> int:
    """Returns the number of values that one sample has in a graph."""
    values = [VALUE.of(node) for node in module.graph.nodes if node.op == "call_function"]
    return sum(value.numel() for value in values if isinstance(value, Tensor))


def observers_of(prepared: GraphModule) -> list[RangeObserver]:
    return [module for module in prepared.modules() if isinstance(module, RangeObserver)]


@dataclass(frozen=True)
class Calibrated:
    """The inputs and results of calibration."""

    batches: Sequence[Inputs]
    fed: Sequence[Inputs]  # the inputs with the state that each step read
    runs: Sequence[FloatRun]  # all of them, or as many as can be kept
    begins: Sequence[bool]  # for each batch: whether state has its initial values
    state: Sequence[StateBuffer]
    parts: OutputParts

    @cached_property
    def wanted(self) -> dict[int, Sequence[Tensor]]:
        """The float model's outputs, by the number of the sample."""
        return {run.number: run.outputs for run in self.runs}

    @property
    def sequences(self) -> int:
        """The number of independent samples or sequences."""
        return sum(self.begins)


def _odd(prepared: GraphModule, inputs: bool) -> frozenset[int]:
    """Returns outliers among the samples: in an input, where they count as mistakes and are not judged by; or in later
    tensors, where they can be what the network is for."""
    found: set[int] = set()
    for node in prepared.graph.nodes:
        observer = prepared.get_submodule(str(node.target)) if node.op == "call_module" else None
        if isinstance(observer, RangeObserver) and (node.all_input_nodes[0].op == "placeholder") is inputs:
            found.update(odd_samples(observer.seen) if observer.seen else ())
    return frozenset(found)


class Judge:
    """Evaluates candidates on a prepared graph that has seen all samples."""

    def __init__(
        self,
        prepared: GraphModule,
        means: Means,
        data: Calibrated,
        sequence: int | None,
        settle: Callable[[Candidate], object],
    ) -> None:
        self._known: dict[RangeObserver, Observed] = {one: one.observed() for one in observers_of(prepared)}
        self._rounded, self._means, self._data, self._settle = Rounded(prepared, means.layers), means, data, settle
        self._sequence, samples = sequence, len(data.batches)
        wrong = _odd(prepared, inputs=True)
        rare = _odd(prepared, inputs=False) - wrong
        hold, size = data.sequences >= ENOUGH, size_of(prepared)
        count = most_judged(size, samples, bool(data.state), data.sequences)
        judged = held_back(samples, count, rare, wrong) if hold and not data.state else drawn_runs(data.begins, count)
        self._wanted = {number: data.parts.split(data.wanted[number]) for number in judged if number in data.wanted}
        self._without = frozenset(self._wanted) - rare if hold else frozenset()
        fit = [number for number in range(samples) if number not in wrong and number not in self._without]
        self._fit = fit[:: max(1, len(fit) // CORRECTED)][:CORRECTED]
        self._seen: dict[Candidate, Judged] = {}
        self._scales: dict[tuple[CalibrationMethod, bool], Scales] = {}  # corrected biases need no other ranges

    def recall(self) -> None:
        """Resets all observers to their statistics over all data."""
        for observer, observed in self._known.items():
            observer.recall(observed)

    def choose(self, options: Options) -> Choice:
        """Chooses the best candidate; the default one if it is as good."""
        default = Candidate(CalibrationMethod.MSE, self._rounded.layers if options.bias_correction else ())
        if not self._wanted:
            return Choice(default)
        base = self._try(Candidate(CalibrationMethod.MINMAX, (), widened=False))
        self._try(default)
        plain = [self._try(Candidate(method, ())) for method in METHODS]
        if options.bias_correction and self._rounded.layers:
            method = max(plain, key=lambda one: self._worth(one, base)).candidate.method
            self._try(Candidate(method, self._rounded.layers))
            self._by_layer(method, base)
        best = max(self._seen.values(), key=lambda one: self._worth(one, base))
        usual = self._seen[default]
        winner = usual if self._worth(usual, base) >= self._worth(best, base) - self._noticed else best
        return Choice(winner.candidate, tuple(self._seen.values()), len(self._wanted))

    def _by_layer(self, method: CalibrationMethod, base: Judged) -> None:
        """Tries correcting only some layers, if correcting all is no gain."""
        layers = self._rounded.layers
        without, whole = (self._try(Candidate(method, names)) for names in ((), layers))
        best = without
        if self._worth(whole, base) >= self._worth(without, base) - self._noticed or len(layers) < 2:
            return
        size = math.ceil(len(layers) / PARTS)
        for start in range(0, len(layers), size):
            names = set(best.candidate.corrected) | set(layers[start : start + size])
            tried = self._try(Candidate(method, tuple(name for name in layers if name in names)))
            best = max((best, tried), key=lambda one: self._worth(one, base))

    def _worth(self, one: Judged, base: Judged) -> float:
        """Returns the average gain over min-max in dB; negative if an output might lose. The certainty depends on how
        many values were judged."""
        gains = _gains(one.kept, base.kept)
        sure = all(gain >= 2 * doubt - BORNE for gain, doubt in zip(gains, self._doubts, strict=True) if gain != 0.0)
        if one is base or sure:
            return _mean(gains)
        return min(gains) - 1.0

    @cached_property
    def _doubts(self) -> list[float]:
        """Returns for each output by how many dB two equally good candidates can differ: the deviation of a ratio of
        two sums of that many squares."""
        samples = list(self._wanted.values())
        values = [sum(sample[place].numel() for sample in samples) for place in range(len(samples[0]))]
        return [20 / math.log(10) / math.sqrt(max(count, 1)) for count in values]

    @property
    def _noticed(self) -> float:
        return max(NOTICED, _mean(self._doubts))

    def _try(self, candidate: Candidate) -> Judged:
        if candidate not in self._seen:
            self._seen[candidate] = Judged(candidate, self._kept(self._outputs(candidate)))
        return self._seen[candidate]

    def _scales_of(self, candidate: Candidate) -> Scales:
        ranges = candidate.method, candidate.widened
        if ranges not in self._scales:
            for observer, observed in self._known.items():
                observer.recall(observed, self._without)
            self._settle(candidate)
            self._scales[ranges] = self._rounded.scales()
        return self._scales[ranges]

    def _outputs(self, candidate: Candidate) -> dict[int, list[Tensor]]:
        found = self._means.found
        wanted = {
            name: torch.stack([found[name][sample] for sample in self._fit]).mean(0) for name in candidate.corrected
        }
        correction, scales = Correction(wanted, len(self._fit)), self._scales_of(candidate)
        fitted = [self._data.fed[number] for number in self._fit] if wanted else []
        if not self._data.state:
            given = [*fitted, *(self._data.fed[number] for number in self._wanted)]
            return dict(zip(self._wanted, self._rounded.run(given, scales, correction)[len(fitted) :], strict=True))
        if fitted:
            self._rounded.run(fitted, scales, correction)
        return self._steps(scales, correction)

    def _steps(self, scales: Scales, correction: Correction) -> dict[int, list[Tensor]]:
        """Runs a model with state step by step, feeding its own state back."""
        steps, outputs = StateSequence(self._data.state, self._sequence), {}
        for number in self._wanted:
            (found,) = self._rounded.run([steps.inputs(number, self._data.batches[number])], scales, correction)
            outputs[number] = steps.outputs(found)
        return outputs

    def _kept(self, outputs: Mapping[int, Sequence[Tensor]]) -> tuple[float, ...]:
        first = next(iter(self._wanted.values()))
        found = {number: self._data.parts.split(outputs[number]) for number in self._wanted}
        kept = []
        for place, output in enumerate(first):
            pairs = [(wanted[place], found[number][place]) for number, wanted in self._wanted.items()]
            kept.append(decibels(pairs) if output.is_floating_point() else _as_decibels(agreement(pairs)))
        return tuple(kept)


def _as_decibels(part: float) -> float:
    return EXACT if part == 1.0 else -10 * math.log10(1.0 - part)


def _gains(kept: Sequence[float], base: Sequence[float]) -> list[float]:
    def within(value: float) -> float:
        return min(max(value, -EXACT), EXACT)

    return [within(one) - within(other) for one, other in zip(kept, base, strict=True)]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / max(len(values), 1)
