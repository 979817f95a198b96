"""The quality of a compiled model on a dataset: its C kernels on this machine, compared with float model and labels."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from cortado.artifact.checked import Samples
from cortado.artifact.opened import Artifact
from cortado.artifact.report import EvaluationReport
from cortado.artifact.summary import html_table
from cortado.base.arrays import ArrayType
from cortado.base.errors import CortadoError
from cortado.base.progress import Progress, cpu_seconds, silent
from cortado.frontend.capture.torch_settings import one_thread
from cortado.frontend.quantize.convert import FloatModel
from cortado.run.qemu import BoardFaultError
from cortado.run.runner import HOST, NO_LIMITS, RunLimits
from cortado.run.silicon.probe import Interrupted
from cortado.scoring import metrics
from cortado.scoring.dataset import Dataset, Scores
from cortado.scoring.floats import float_inputs, float_outputs

ROUNDING = 1e-9  # 0.92 - 0.9 is slightly more than 0.02
REFERENCE_SAMPLES = 2  # samples also computed by the exact reference, which is slow
REFERENCE_STEPS = 16  # the same for a model with state: its first steps


# ---- the result ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Score:
    """Outputs scored by labels. What doesn't apply is None: `auc` is for one score per sample (the model's own, or its
    reconstruction error), the rest for classes."""

    accuracy: float | None = None
    top_k: float | None = None  # None unless requested
    confusion: ArrayType | None = None  # how often each class (row) was classified as each (column)
    auc: float | None = None


@dataclass(frozen=True)
class OutputError:
    """The deviation of an output from the float model's: decibels (inf if equal, None without signal), the worst value,
    and the fraction of integers or truth values that agree."""

    name: str
    sqnr_db: float | None
    worst: float
    agreement: float | None = None  # None for real numbers


def then_lost(place: str, samples: int, why: str) -> str:
    """Reports a place whose connection was lost after correct results."""
    return f"{place}: {samples} of {samples} bit-exact, then lost: {why}"


@dataclass(frozen=True)
class CodeComparison:
    """The samples whose codes were also computed at another place, and the first problem with them. `lost` explains why
    the rest is missing, if the place was lost."""

    place: str
    samples: int
    problem: str | None = None
    lost: str | None = None

    @property
    def cut_short(self) -> str | None:
        """Reports a place that was lost after correct results; None for any other."""
        if self.lost is None or self.problem is not None:
            return None
        return then_lost(self.place, self.samples, self.lost)


@dataclass(frozen=True)
class Scored:
    """Outputs compared with labels and with the float model's. `integers` is the compiled model, `floats` the float
    model."""

    top_k: int | None
    integers: Score | None  # None without labels
    floats: Score | None  # None without labels, or without a float model
    outputs: tuple[OutputError, ...]  # empty without a float model
    same_best: float | None  # the fraction of rows whose best class is the float model's

    @property
    def accuracy(self) -> float | None:
        return None if self.integers is None else self.integers.accuracy

    @property
    def float_accuracy(self) -> float | None:
        return None if self.floats is None else self.floats.accuracy

    @property
    def drop(self) -> float | None:
        """Returns the accuracy lost to quantization; negative if it is better than in float."""
        found, before = self.accuracy, self.float_accuracy
        return None if found is None or before is None else before - found

    @property
    def sqnr_db(self) -> float | None:
        """Returns the SQNR of the worst output in dB; None without a float model, or if no output has a signal."""
        return min((output.sqnr_db for output in self.outputs if output.sqnr_db is not None), default=None)

    @property
    def agreement(self) -> float | None:
        """Returns the agreement of the worst output of integers or truth values; None without any, or without a float
        model."""
        return min((output.agreement for output in self.outputs if output.agreement is not None), default=None)


UNSCORED = Scored(top_k=None, integers=None, floats=None, outputs=(), same_best=None)
"""The score without labels and without a float model."""


@dataclass(frozen=True)
class Evaluation(Scored):
    """The result of `evaluate`."""

    samples: int
    compared: tuple[CodeComparison, ...]  # the reference, and the board if one was asked for
    cpu_seconds: float  # of the C kernels on this machine

    def __repr__(self) -> str:
        facts = ", ".join(f"{what} {value}" for what, value in self._facts())
        return f"<Evaluation of {self.samples:,} samples{': ' if facts else ''}{facts}>"

    def _repr_html_(self) -> str:
        """Returns the HTML that a notebook shows."""
        return html_table(f"{self.samples:,} samples", self._facts())

    def _facts(self) -> list[tuple[str, str]]:
        wrong = self.problems()
        known = (
            ("accuracy", self.accuracy, "{:.2%}"),
            ("in float", self.float_accuracy, "{:.2%}"),
            ("AUC", None if self.integers is None else self.integers.auc, "{:.4f}"),
            ("SQNR", self.sqnr_db, "{:.1f} dB"),
            ("agreement", self.agreement, "{:.2%}"),
        )
        found = [(what, form.format(value)) for what, value, form in known if value is not None]
        return [*found, ("problems", str(len(wrong)))] if wrong else found

    def problems(self) -> list[str]:
        """Returns a sentence for each place with other codes."""
        return [one.problem for one in self.compared if one.problem is not None]

    def cut_short(self) -> list[str]:
        """Returns a sentence for each place that was lost before all samples had run, after correct results."""
        return [text for one in self.compared if (text := one.cut_short) is not None]


def evaluation_report(found: Evaluation, float_model: str | None) -> EvaluationReport:
    """Returns the entry of an evaluation in report.json."""
    exact = found.sqnr_db == math.inf
    return EvaluationReport(
        samples=found.samples,
        float_model=float_model,
        accuracy=found.accuracy,
        float_accuracy=found.float_accuracy,
        auc=None if found.integers is None else found.integers.auc,
        float_auc=None if found.floats is None else found.floats.auc,
        sqnr_db=None if exact else found.sqnr_db,
        exact=exact,
    )


@dataclass(frozen=True)
class Thresholds:
    """Thresholds that a result must reach. Accuracies are fractions."""

    min_accuracy: float | None = None
    max_drop: float | None = None
    min_sqnr: float | None = None

    def check(self, scores: Scores | None, labels: bool, floats: bool) -> None:
        """Refuses, before anything runs, a threshold that can't be evaluated on these data."""
        classes = labels and scores is not None and (scores.classes > 1 or scores.picks)
        no_classes = "labels, and a model whose first output has classes"
        no_float = "the float model (name it with --model)"
        for name, value, known, needs in (
            ("accuracy", self.min_accuracy, classes, no_classes),
            ("drop in accuracy", self.max_drop, classes and floats, f"{no_classes}, and {no_float}"),
            ("SQNR", self.min_sqnr, floats, no_float),
        ):
            if value is not None and not known:
                raise CortadoError(
                    f"a threshold for the {name} was given, but it can't be computed: that needs {needs}"
                )

    def problems(self, found: Scored) -> list[str]:
        """Returns a sentence for each threshold that was missed."""
        lines = []
        if self.min_accuracy is not None and _value(found.accuracy) < self.min_accuracy:
            lines.append(f"the accuracy is {_value(found.accuracy):.2%}, expected {self.min_accuracy:.2%} or more")
        if self.max_drop is not None and _value(found.drop) > self.max_drop + ROUNDING:
            lines.append(
                f"the accuracy drops by {_value(found.drop):.2%} (from {_value(found.float_accuracy):.2%} in float to "
                f"{_value(found.accuracy):.2%}), expected {self.max_drop:.2%} or less"
            )
        if self.min_sqnr is not None and (found.sqnr_db is None or found.sqnr_db < self.min_sqnr):
            value = (
                "unknown, because the float model gives only zeros"
                if found.sqnr_db is None
                else f"{found.sqnr_db:.1f} dB"
            )
            lines.append(f"the SQNR is {value}, expected {self.min_sqnr:g} dB or more")
        return lines


def _value(number: float | None) -> float:
    assert number is not None  # Thresholds.check
    return number


# ---- evaluating ----------------------------------------------------------------------------------------------------


@one_thread()
def evaluate(
    artifact: Artifact,
    data: Dataset,
    *,
    floats: FloatModel | None = None,
    top_k: int | None = None,
    board_samples: int = 0,
    on: str | None = None,
    sequence: int | None = None,
    progress: Progress = silent,
    limits: RunLimits = NO_LIMITS,
) -> Evaluation:
    """Runs all samples on this machine, some also on the target's board (or all on a chip behind a debug probe, `on`),
    and scores the outputs.

    Samples of a model with state are steps, of one sequence or of several that are `sequence` long.
    """
    artifact.check_bundle()
    artifact.check_trust()
    artifact.check_sequence(sequence)
    scores = data.scores
    _check_possible(data, floats, scores, top_k)
    feeds = _feeds(artifact, data.samples, progress)
    before = cpu_seconds()
    running = partial(progress, HOST, total=len(feeds))
    codes = artifact.execute(feeds, HOST, sequence=sequence, progress=running, limits=limits).samples
    seconds = cpu_seconds() - before
    compared = [_compare_reference(artifact, data.samples, codes, sequence, progress)]
    if board_samples > 0:
        chosen = _chosen(artifact, board_samples, len(feeds))
        compared.append(_compare_board(artifact, feeds, codes, chosen, None, sequence, progress, limits))
    if on is not None:
        compared.append(_compare_board(artifact, feeds, codes, range(len(feeds)), on, sequence, progress, limits))
    made = [artifact.real(sample) for sample in codes]
    inputs = [float_inputs(artifact, sample) for sample in data.samples]
    wanted = None if floats is None else float_outputs(artifact, floats, inputs, progress, sequence)
    scored = score(artifact, data, made, wanted, top_k)
    return Evaluation(**vars(scored), samples=len(data.samples), compared=tuple(compared), cpu_seconds=seconds)


def score(artifact: Artifact, data: Dataset, made: Samples, wanted: Samples | None, top_k: int | None = None) -> Scored:
    """Scores the compiled model's outputs, as real numbers, against the float model's and the labels, if known."""
    scores = data.scores
    return Scored(
        top_k=top_k,
        integers=_score(artifact, made, data, top_k),
        floats=None if wanted is None else _score(artifact, wanted, data, top_k),
        outputs=() if wanted is None else _errors(artifact, wanted, made),
        same_best=None if wanted is None else _same_best(wanted, made, scores),
    )


def _check_possible(data: Dataset, floats: FloatModel | None, scores: Scores | None, top_k: int | None) -> None:
    if data.labels is None and floats is None:
        raise CortadoError(
            "there is nothing to compare with: give labels (--labels), or the float model (--model, as for `cortado "
            "compile`), or both"
        )
    check_labels(data.labels, scores)
    if top_k is None:
        return
    if data.labels is None or scores is None or scores.classes < 2:
        raise CortadoError(f"the best {top_k} classes can't be scored: that needs labels, and a model with classes")
    if not 1 <= top_k <= scores.classes:
        raise CortadoError(
            f"the best {top_k} classes were requested, expected 1 to {scores.classes}, the number of the model's "
            "classes"
        )


def check_labels(labels: ArrayType | None, scores: Scores | None) -> None:
    """Raises if all labels are equal where a single score should separate them."""
    single = scores is not None and scores.classes == 1 and not scores.picks
    if labels is not None and single and len(np.unique(labels)) < 2:
        raise CortadoError(
            f"every label of the {len(labels)} samples is {labels[0]}, expected 0 for some and 1 for others: the model "
            "gives one score for each, and the figure is how well it tells them apart"
        )


def _feeds(artifact: Artifact, samples: Samples, progress: Progress) -> Samples:
    progress("quantize inputs", 0, len(samples))
    return [artifact.feed(sample) for sample in samples]


# ---- surprise ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SurpriseScore:
    """The quality of a model's surprise (--watch) as a detector of samples unlike the dataset's."""

    auc: float
    beyond: float  # the fraction of the dataset above the limit
    found: float  # the fraction of the unlike samples above it

    def __str__(self) -> str:
        return (
            f"surprise: AUC {self.auc:.4f}; above its limit {self.beyond:.2%} of the data, {self.found:.2%} of others"
        )


def score_surprise(artifact: Artifact, samples: Samples, others: Samples, progress: Progress = silent) -> SurpriseScore:
    """Runs both sets on this machine; the limit of the last output is 1."""
    if artifact.report.options.watch is None:
        raise CortadoError(
            "scoring samples of another kind needs a model with a surprise: compile it with --watch LAYER"
        )
    feeds = _feeds(artifact, [*samples, *others], progress)
    codes = artifact.execute(feeds, HOST, progress=partial(progress, HOST, total=len(feeds))).samples
    found = np.array([float(artifact.real(one)[-1].reshape(())) for one in codes])
    own, strange = found[: len(samples)], found[len(samples) :]
    labels = np.arange(len(found)) >= len(samples)
    return SurpriseScore(metrics.auc(found, labels.astype(int)), float((own > 1).mean()), float((strange > 1).mean()))


# ---- bits ----------------------------------------------------------------------------------------------------------


def _evenly(count: int, total: int) -> list[int]:
    """Returns evenly spaced positions in the dataset, which may be sorted by class."""
    return sorted({int(position) for position in np.linspace(0, total - 1, min(count, total))})


def _chosen(artifact: Artifact, count: int, total: int) -> list[int]:
    """Returns the samples to run at another place too; with state the first ones, since each depends on all before
    it."""
    return list(range(min(count, total))) if artifact.report.state else _evenly(count, total)


def _compare_reference(
    artifact: Artifact, samples: Samples, codes: Samples, sequence: int | None, progress: Progress
) -> CodeComparison:
    chosen = _chosen(artifact, REFERENCE_STEPS if artifact.report.state else REFERENCE_SAMPLES, len(samples))
    picked = [samples[i] for i in chosen]
    running = partial(progress, "reference", total=len(chosen))
    expected = artifact.reference(picked, running, sequence=sequence).expected
    problem = _difference("this machine", "the reference's", [codes[i] for i in chosen], expected, chosen)
    return CodeComparison("reference", len(chosen), problem)


def _compare_board(
    artifact: Artifact,
    feeds: Samples,
    codes: Samples,
    chosen: Sequence[int],
    on: str | None,
    sequence: int | None,
    progress: Progress,
    limits: RunLimits,
) -> CodeComparison:
    name = artifact.info.target.machine.value if on is None else on.partition("?")[0]
    progress(name, 0, len(chosen))
    running = partial(progress, name, total=len(chosen))
    try:
        given = [feeds[i] for i in chosen]
        made = artifact.execute(given, on, sequence=sequence, progress=running, limits=limits).samples
    except BoardFaultError as fault:
        return CodeComparison(name, len(chosen), f"{name}: {fault}")
    except Interrupted as lost:
        done = chosen[: len(lost.made)]
        wrong = _difference(name, "this machine's", lost.made, [codes[i] for i in done], done)
        return CodeComparison(name, len(done), wrong if wrong is None else f"{wrong}; then {lost}", str(lost))
    return CodeComparison(
        name, len(chosen), _difference(name, "this machine's", made, [codes[i] for i in chosen], chosen)
    )


def _difference(
    place: str, whose: str, found: Sequence[Sequence[ArrayType]], wanted: Samples, numbers: Sequence[int]
) -> str | None:
    """Reports the samples with different codes; None without any."""
    pairs = zip(numbers, found, wanted, strict=True)
    wrong = [n for n, a, b in pairs if not all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))]
    if not wrong:
        return None
    return (
        f"{place} gives codes that differ from {whose} for {len(wrong)} of {len(numbers)} samples, the first is "
        f"{wrong[0]}"
    )


# ---- scores --------------------------------------------------------------------------------------------------------


def _rows(outputs: Samples, scores: Scores) -> ArrayType:
    """Concatenates the first output of all samples into rows of scores."""
    return np.concatenate([sample[0].reshape(scores.rows, scores.classes) for sample in outputs]).astype(np.float64)


def _rebuilt(artifact: Artifact, outputs: Samples, data: Dataset, scores: Scores) -> ArrayType:
    """Returns each output's mean squared distance from its input: large for samples unlike the training data."""
    inputs = (float_inputs(artifact, sample)[0].numpy() for sample in data.samples)
    pairs = zip(inputs, outputs, strict=True)
    apart = [(wanted.astype(np.float64) - found[0]).reshape(scores.rows, -1) for wanted, found in pairs]
    return np.concatenate([np.square(one).mean(axis=1) for one in apart])


def _score(artifact: Artifact, outputs: Samples, data: Dataset, top_k: int | None) -> Score | None:
    labels, scores = data.labels, data.scores
    if labels is None or scores is None:
        return None
    if scores.rebuilds:
        return Score(auc=metrics.auc(_rebuilt(artifact, outputs, data, scores), labels))
    rows = _rows(outputs, scores)
    if scores.picks:
        return Score(accuracy=float((rows[:, 0] == labels).mean()))
    if scores.classes == 1:
        return Score(auc=metrics.auc(rows[:, 0], labels))
    return Score(
        accuracy=metrics.top_k(rows, labels),
        top_k=None if top_k is None else metrics.top_k(rows, labels, top_k),
        confusion=metrics.confusion(metrics.best(rows), labels, scores.classes),
    )


def _errors(artifact: Artifact, wanted: Samples, made: Samples) -> tuple[OutputError, ...]:
    found = []
    for position, tensor in enumerate(artifact.report.outputs[: artifact.report.own_outputs]):
        error, agreement = metrics.Error(), metrics.Agreement()
        signal = wanted[0][position].dtype.kind == "f"  # an index or a truth value has none
        for float_sample, sample in zip(wanted, made, strict=True):
            error.add(float_sample[position], sample[position])
            if not signal:
                agreement.add(float_sample[position], sample[position])
        found.append(OutputError(tensor.name, error.decibels if signal else None, error.worst, agreement.part))
    return tuple(found)


def _same_best(wanted: Samples, made: Samples, scores: Scores | None) -> float | None:
    if scores is not None and scores.picks:
        return float((_rows(wanted, scores) == _rows(made, scores)).mean())
    if scores is None or scores.classes < 2:
        return None
    same = metrics.best(_rows(wanted, scores)) == metrics.best(_rows(made, scores))
    return float(same.mean())
