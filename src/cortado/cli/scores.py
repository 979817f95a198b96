"""Texts on accuracy for validate and evaluate, and the thresholds that both accept.

Also --saturation: the tensors that reach the ends of their ranges, for people and for programs.
"""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cortado.base.errors import Unfinished, WrongResult
from cortado.cli.tables import in_columns, json_decibels

if TYPE_CHECKING:
    from cortado.artifact.opened import Artifact
    from cortado.base.arrays import ArrayType
    from cortado.scoring.dataset import Dataset
    from cortado.scoring.saturation import Saturation
    from cortado.scoring.scores import Score, Scored, Thresholds


# ---- scores ----------------------------------------------------------------------------------------------


def thresholds_of(arguments: argparse.Namespace, data: "Dataset", spec: str | None) -> "Thresholds":
    """Returns the thresholds of the command line; `spec` names the float model."""
    from cortado.scoring.scores import Thresholds

    thresholds = Thresholds(arguments.min_accuracy, arguments.max_drop, arguments.min_sqnr)
    thresholds.check(data.scores, labels=data.labels is not None, floats=spec is not None)
    return thresholds


def score_json(found: "Scored") -> dict[str, Any]:
    scores = {"": found.integers, "float_": found.floats}
    return {
        "accuracy": found.accuracy,
        "float_accuracy": found.float_accuracy,
        "accuracy_drop": found.drop,
        "top_k": found.top_k,
        **{f"{whose}top_k_accuracy": None if one is None else one.top_k for whose, one in scores.items()},
        **{f"{whose}auc": None if one is None else one.auc for whose, one in scores.items()},
        "same_best": found.same_best,
        "sqnr_db": json_decibels(found.sqnr_db),
        "agreement": found.agreement,
        "outputs": [
            {
                "name": output.name,
                "sqnr_db": json_decibels(output.sqnr_db),
                "agreement": output.agreement,
                "worst_error": output.worst,
            }
            for output in found.outputs
        ],
    }


def score_lines(found: "Scored") -> list[str]:
    """Tabulates accuracies; empty without labels."""
    return [] if found.integers is None else in_columns(_rows(found, found.integers))


def _rows(found: "Scored", integers: "Score") -> list[tuple[str, ...]]:
    floats = found.floats
    values = [
        ("accuracy", integers.accuracy, None if floats is None else floats.accuracy, ".2%"),
        (f"top-{found.top_k}", integers.top_k, None if floats is None else floats.top_k, ".2%"),
        ("AUC", integers.auc, None if floats is None else floats.auc, ".4f"),
    ]
    header = ("", "INTEGERS", *(["FLOAT"] if floats is not None else []))
    return [header] + [
        (name, format(found, style), *([format(before, style)] if before is not None else []))
        for name, found, before, style in values
        if found is not None
    ]


def check_result(problems: Sequence[str], cut_short: Sequence[str]) -> None:
    """Raises WrongResult for problems, and Unfinished for a run that was right but was cut short."""
    if problems:
        raise WrongResult("\ncortado: ".join(problems))
    if cut_short:
        raise Unfinished("\ncortado: ".join(cut_short))


# ---- saturated -------------------------------------------------------------------------------------------

SHOWN = 12  # tensors


def saturation_of(
    arguments: argparse.Namespace, artifact: "Artifact", samples: "Sequence[Sequence[ArrayType]]"
) -> "tuple[Saturation, ...] | None":
    """Returns the tensors that saturate; None if that was not asked for."""
    if not arguments.saturation:
        return None
    from cortado.scoring.saturation import saturation

    return saturation(artifact, samples, arguments.sequence)


def saturation_json(found: "Sequence[Saturation] | None") -> dict[str, Any]:
    if found is None:
        return {}
    return {
        "saturation": [
            {
                "tensor": one.tensor,
                "module": one.module or None,
                "values": one.values,
                "saturated": one.saturated,
                "samples": one.samples,
            }
            for one in found
        ]
    }


def saturation_lines(found: "Sequence[Saturation] | None") -> list[str]:
    if found is None:
        return []
    if not found:
        return ["no value is at either end of its range"]
    rows = [
        (one.tensor, one.module or "-", f"{one.part:.4%}", f"{one.saturated:,}", f"{one.samples:,}")
        for one in found[:SHOWN]
    ]
    more = [f"{len(found) - SHOWN} more tensors saturate less often"] if len(found) > SHOWN else []
    return [*in_columns([("TENSOR", "MODULE", "AT AN END", "VALUES", "SAMPLES"), *rows]), *more]
