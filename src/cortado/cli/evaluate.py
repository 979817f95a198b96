"""cortado evaluate."""

import argparse
import contextlib
import json
import sys
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from cortado.base.errors import CortadoError
from cortado.cli.events import check_together, evaluate_recording
from cortado.cli.parsing import further_place
from cortado.cli.run import opened, zoo_network
from cortado.cli.scores import (
    check_result,
    saturation_json,
    saturation_lines,
    saturation_of,
    score_json,
    score_lines,
    thresholds_of,
)
from cortado.cli.tables import ProgressBar, decibels, in_columns
from cortado.cli.validate import load_float_model

if TYPE_CHECKING:
    from cortado.artifact.opened import Artifact
    from cortado.scoring.dataset import Dataset
    from cortado.scoring.scores import CodeComparison, Evaluation, OutputError, Score, SurpriseScore, Thresholds

SHOWN_CLASSES = 40
SHOWN_MISTAKES = 3


def evaluate_command(arguments: argparse.Namespace) -> None:
    check_together(arguments)
    artifact = opened(arguments)
    artifact.check_trust()
    with artifact.guarded():
        _evaluate_artifact(arguments, artifact)


def _evaluate_artifact(arguments: argparse.Namespace, artifact: "Artifact") -> None:
    from cortado.run.doctor import require
    from cortado.run.toolchain import Tool

    artifact.check_bundle()
    if arguments.stream is not None:
        require((Tool.CC,))
        evaluate_recording(arguments, artifact)
        return
    require((Tool.CC, Tool.ARM_GCC, Tool.QEMU) if arguments.board_samples else (Tool.CC,))
    spec = arguments.model or artifact.report.zoo
    progress = ProgressBar()
    progress("load")
    try:
        # A user's own file may print: standard output is reserved for the result.
        with contextlib.redirect_stdout(sys.stderr):
            data = _dataset(arguments, artifact)
            found, thresholds = _evaluated(arguments, artifact, data, spec, progress)
            saturated = saturation_of(arguments, artifact, data.samples)
            surprise = _surprise(arguments, artifact, data, progress)
    finally:
        progress.stop()
    problems = [*found.problems(), *thresholds.problems(found)]
    if arguments.json:
        more = saturation_json(saturated) | ({} if surprise is None else {"surprise": asdict(surprise)})
        print(json.dumps({**_evaluation_json(artifact, found, spec), **more, "problems": problems}))
    else:
        told = [] if surprise is None else [str(surprise)]
        print("\n".join([*_evaluation_text(artifact, found, spec), *told, *saturation_lines(saturated)]))
    check_result(problems, found.cut_short())
    if arguments.save:
        from cortado.artifact.pages import save_figures
        from cortado.scoring.scores import evaluation_report

        save_figures(artifact, lambda report: replace(report, evaluation=evaluation_report(found, spec)))


def _evaluated(
    arguments: argparse.Namespace, artifact: "Artifact", data: "Dataset", spec: str | None, progress: ProgressBar
) -> tuple["Evaluation", "Thresholds"]:
    from cortado.run.sandbox import RunLimits
    from cortado.scoring.scores import evaluate

    thresholds = thresholds_of(arguments, data, spec)
    found = evaluate(
        artifact,
        data,
        floats=None if spec is None else load_float_model(artifact, spec),
        top_k=arguments.top_k,
        board_samples=arguments.board_samples,
        on=further_place(arguments),
        sequence=arguments.sequence,
        progress=progress,
        limits=RunLimits(seconds=arguments.timeout),
    )
    return found, thresholds


def _surprise(
    arguments: argparse.Namespace, artifact: "Artifact", data: "Dataset", progress: ProgressBar
) -> "SurpriseScore | None":
    from cortado.scoring.scores import score_surprise

    if arguments.strange is None:
        return None
    return score_surprise(artifact, data.samples, artifact.read_samples(arguments.strange), progress)


def _dataset(arguments: argparse.Namespace, artifact: "Artifact") -> "Dataset":
    """Returns the user's dataset, or the test set that comes with a trained network of the zoo."""
    from cortado.scoring.dataset import make_dataset, read_dataset

    network = zoo_network(artifact.report)
    reconstruction = arguments.reconstruction or (network is not None and network.rebuilds)
    if arguments.data is not None:
        return read_dataset(artifact, arguments.data, arguments.labels, arguments.limit, reconstruction=reconstruction)
    if network is None or not network.trained:
        raise CortadoError(
            "no dataset: give samples with --data and their labels with --labels; only the trained networks of the zoo "
            "come with their own (see `cortado zoo`)"
        )
    if arguments.labels is not None:
        raise CortadoError(
            f"labels were given without data: add --data, or leave out both for {network.name}'s own test set"
        )
    return make_dataset(artifact, *network.test_set(), arguments.limit, reconstruction=reconstruction)


# ---- for programs --------------------------------------------------------------------------------------------------


def _evaluation_json(artifact: "Artifact", found: "Evaluation", spec: str | None) -> dict[str, Any]:
    scores = {"": found.integers, "float_": found.floats}
    return {
        "model": artifact.report.model,
        "target": artifact.report.target,
        "float_model": spec,
        "samples": found.samples,
        **score_json(found),
        "classes": _class_names(artifact, found.integers),
        **{f"{whose}confusion": _matrix(one) for whose, one in scores.items()},
        "bit_exact": {one.place: _compared_json(one) for one in found.compared},
        "cpu_seconds": round(found.cpu_seconds, 3),
    }


def _compared_json(one: "CodeComparison") -> dict[str, Any]:
    return {"samples": one.samples, "exact": one.problem is None, "lost": one.lost}


def _compared_text(one: "CodeComparison") -> str:
    if one.lost is not None and one.problem is None:
        return f"{one.samples} of {one.samples} bit-exact with {one.place}, then lost"
    exact = "bit-exact" if one.problem is None else "NOT bit-exact"
    return f"{exact} with {one.place}: {one.samples} sample{'s' if one.samples > 1 else ''}"


def _matrix(score: "Score | None") -> list[list[int]] | None:
    return None if score is None or score.confusion is None else score.confusion.tolist()


def _class_names(artifact: "Artifact", score: "Score | None") -> list[str] | None:
    """Returns the names of the classes, or their numbers if the model does not name all of them."""
    if score is None or score.confusion is None:
        return None
    count, names = len(score.confusion), artifact.report.labels
    return list(names) if names is not None and len(names) == count else [str(number) for number in range(count)]


# ---- for people ----------------------------------------------------------------------------------------------------


def _likeness(output: "OutputError") -> str:
    """Formats an output's similarity: decibels, or for integers and truth values the fraction that agrees."""
    return decibels(output.sqnr_db, "no signal") if output.agreement is None else f"{output.agreement:.2%} agree"


def _evaluation_text(artifact: "Artifact", found: "Evaluation", spec: str | None) -> list[str]:
    report = artifact.report
    lines = [f"{report.model} for {report.target}, {found.samples:,} sample{'s' if found.samples > 1 else ''}"]
    lines += score_lines(found)
    if found.same_best is not None:
        lines.append(f"same best class as float: {found.same_best:.2%}")
    if found.outputs:
        rows = [(one.name, _likeness(one), f"{one.worst:.4g}") for one in found.outputs]
        lines += in_columns([("OUTPUT", "SQNR TO FLOAT", "WORST ERROR"), *rows])
    names = _class_names(artifact, found.integers)
    if names is not None and found.integers is not None:
        lines += _class_lines(names, found.integers, found.floats)
    if spec is None:
        lines.append("float model not given (name it with --model): only the integers are scored")
    lines += map(_compared_text, found.compared)
    rate = found.samples / max(found.cpu_seconds, 0.01)
    lines.append(f"C on this machine: {rate:,.0f} samples per CPU second, {found.cpu_seconds:.1f} s in all")
    return lines


def _class_lines(names: list[str], integers: "Score", floats: "Score | None") -> list[str]:
    """Tabulates each class's accuracy and its most frequent confusions; with many classes, the worst ones."""
    rows, matrix = [], _matrix(integers) or []
    before = _matrix(floats)
    counted = [number for number, row in enumerate(matrix) if sum(row)]
    worst = sorted(counted, key=lambda number: matrix[number][number] / sum(matrix[number]))
    for number in sorted(worst[:SHOWN_CLASSES]):
        row, total = matrix[number], sum(matrix[number])
        right = [f"{row[number] / total:.1%}", *([f"{before[number][number] / total:.1%}"] if before else [])]
        mistakes = sorted((n for n in range(len(row)) if n != number and row[n]), key=lambda n: -row[n])
        taken = ", ".join(f"{names[n]} ({row[n]:,})" for n in mistakes[:SHOWN_MISTAKES])
        rows.append((names[number], f"{total:,}", *right, taken))
    header = ("CLASS", "SAMPLES", "RIGHT", *(["RIGHT IN FLOAT"] if before else []), "MOST OFTEN MISTAKEN FOR")
    left_out = len(counted) - len(rows)
    return in_columns([header, *rows]) + ([f"and {left_out} classes with better scores"] if left_out else [])
