"""Compiled models side by side: their figures, and the options and layers that differ."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cortado.artifact.folder import compiled_inside
from cortado.artifact.manifest import REPORT, read_report
from cortado.artifact.report import LayerReport, Report
from cortado.base.codec import to_json
from cortado.base.errors import CortadoError
from cortado.base.names import operator_base

Figure = int | float | None


@dataclass(frozen=True)
class ComparedModel:
    """One of the compared models; `name` is unique among them."""

    name: str
    path: Path  # of its folder, or of a lone report.json
    report: Report


@dataclass(frozen=True)
class ComparisonRow:
    """A figure of every model; None where a model lacks it. `smaller_is_better` is None if neither direction is
    better."""

    key: str
    title: str
    values: tuple[Figure, ...]
    smaller_is_better: bool | None = True


@dataclass(frozen=True)
class LayerRow:
    """A layer, matched by name across the models; None where a model has no such layer."""

    name: str
    title: str
    operator: str
    layers: tuple[LayerReport | None, ...]
    cycles: tuple[int | None, ...]  # measured if all models were, else estimated

    @property
    def differs(self) -> bool:
        facts = {None if one is None else (one.operator, one.shape, one.macs, one.weights_bytes) for one in self.layers}
        return len(facts) > 1 or len(set(self.cycles)) > 1


@dataclass(frozen=True)
class Comparison:
    """Comparison of several compiled models."""

    models: tuple[ComparedModel, ...]
    figures: tuple[ComparisonRow, ...]
    options: tuple[tuple[str, tuple[Any, ...]], ...]  # those that differ
    layers: tuple[LayerRow, ...]  # those that differ
    measured: bool  # whether cycles are measured; otherwise they are estimates

    def to_json(self) -> dict[str, Any]:
        names = [one.name for one in self.models]
        return {
            "models": [
                {"name": one.name, "path": str(one.path), "model": one.report.model, "target": one.report.target}
                for one in self.models
            ],
            "figures": {row.key: dict(zip(names, row.values, strict=True)) for row in self.figures},
            "options": {name: dict(zip(names, values, strict=True)) for name, values in self.options},
            "cycles": "measured" if self.measured else "estimated",
            "layers": [
                {
                    "name": row.name,
                    "operator": row.operator,
                    "models": {
                        name: None if one is None else _layer_json(one, cycles)
                        for name, one, cycles in zip(names, row.layers, row.cycles, strict=True)
                    },
                }
                for row in self.layers
            ],
        }


def _layer_json(layer: LayerReport, cycles: int | None) -> dict[str, Any]:
    known = {"shape": list(layer.shape), "weights_bytes": layer.weights_bytes, "macs": layer.macs}
    return {**known, "cycles": cycles}


# ---- which ----------------------------------------------------------------------------------------------------------


def read_models(paths: Sequence[Path]) -> list[ComparedModel]:
    """Reads folders of compiled models, folders that contain several, and report.json files."""
    found = [path for given in paths for path in _models_at(given)]
    if len(found) < 2:
        raise CortadoError(
            f"found one compiled model, in {found[0]}; expected two or more: folders that `cortado compile` wrote, "
            "report.json files, or a folder of several targets"
        )
    return named([(path, read_report(path / REPORT if path.is_dir() else path)[0]) for path in found])


def _models_at(path: Path) -> tuple[Path, ...]:
    if path.is_file() or (path / REPORT).is_file():
        return (path,)
    inside = compiled_inside(path)
    if not inside:
        what = "is not there" if not path.exists() else f"holds no {REPORT}"
        raise CortadoError(f"{path} {what}; expected a folder that `cortado compile` wrote, or its report.json")
    return inside


def named(models: Sequence[tuple[Path, Report]]) -> list[ComparedModel]:
    """Names each model by the shortest of target, model and path that is unique."""
    choices: tuple[Callable[[Path, Report], str], ...] = (
        lambda path, report: report.target,
        lambda path, report: report.model,
        lambda path, report: f"{report.model} {report.target}",
        lambda path, report: str(path),
    )
    for choice in choices:
        names = [choice(path, report) for path, report in models]
        if len(set(names)) == len(names):
            break
    else:  # the same path twice
        names = [f"{name} ({number})" for number, name in enumerate(names, start=1)]
    return [ComparedModel(name, path, report) for name, (path, report) in zip(names, models, strict=True)]


# ---- what -----------------------------------------------------------------------------------------------------------


def compare(models: Sequence[ComparedModel]) -> Comparison:
    reports = [one.report for one in models]
    measured = all(report.profile is not None for report in reports)
    layers = _layers(reports, measured)
    return Comparison(
        models=tuple(models),
        figures=tuple(row for row in _figures(reports) if any(value is not None for value in row.values)),
        options=tuple(_options(reports)),
        layers=tuple(row for row in layers if row.differs),
        measured=measured,
    )


_FIGURES: tuple[tuple[str, str, Callable[[Report], Figure], bool | None], ...] = (
    ("arena_bytes", "RAM: arena, bytes", lambda r: None if r.memory is None else r.memory.arena_bytes, True),
    (
        "lower_bound_bytes",
        "RAM: proven lower bound",
        lambda r: None if r.memory is None else r.memory.lower_bound_bytes,
        True,
    ),
    ("stack_bytes", "RAM: stack, bytes", lambda r: None if r.memory is None else r.memory.stack_bytes, True),
    ("state_bytes", "RAM used by state", lambda r: sum(one.bytes for one in r.state) or None, True),
    ("flash_bytes", "flash: all, bytes", lambda r: _flash(r), True),
    ("weights_bytes", "flash: constants", lambda r: None if r.flash is None else r.flash.weights_bytes, True),
    ("code_bytes", "flash: code", lambda r: None if r.flash is None else r.flash.code_bytes, True),
    ("pte_bytes", ".pte, bytes", lambda r: None if r.pte is None else r.pte.bytes, True),
    ("pte_arena_bytes", ".pte: its arena", lambda r: None if r.pte is None else r.pte.arena_bytes, True),
    ("macs", "products", lambda r: r.macs, True),
    ("row_calls", "row calls", lambda r: None if r.schedule is None else r.schedule.row_calls, True),
    ("estimated_cycles", "cycles, estimated", lambda r: _estimated(r), True),
    ("instructions", "instructions", lambda r: None if r.profile is None else r.profile.instructions, True),
    ("chip_cycles", "cycles, on a chip", lambda r: _on_chip(r), True),
    ("cycles", "cycles, measured", lambda r: None if r.profile is None else r.profile.cycles.typical, True),
    ("accuracy", "accuracy", lambda r: None if r.evaluation is None else r.evaluation.accuracy, False),
    ("auc", "AUC", lambda r: None if r.evaluation is None else r.evaluation.auc, False),
    ("sqnr_db", "SQNR, dB", lambda r: None if r.evaluation is None else r.evaluation.sqnr_db, False),
    ("layers", "layers", lambda r: len(r.layers) or None, None),
    ("stages", "stages", lambda r: None if r.schedule is None else len(r.schedule.stages), None),
    ("warnings", "warnings", lambda r: len(r.warnings), True),
)


def _on_chip(report: Report) -> int | None:
    """Returns the lowest cycle count of a chip behind a debug probe."""
    chip = None if report.profile is None else report.profile.measured
    return None if chip is None else min((chip.first_cycles, *chip.later_cycles))


def _flash(report: Report) -> int | None:
    """Returns constants plus code, if both are known."""
    flash = report.flash
    return None if flash is None or flash.code_bytes is None else flash.weights_bytes + flash.code_bytes


def _estimated(report: Report) -> int | None:
    known = [layer.estimated_cycles for layer in report.layers if layer.estimated_cycles is not None]
    return sum(known) if known else None


def _figures(reports: Sequence[Report]) -> Iterator[ComparisonRow]:
    for key, title, figure, smaller in _FIGURES:
        yield ComparisonRow(key, title, tuple(figure(report) for report in reports), smaller)


def _options(reports: Sequence[Report]) -> Iterator[tuple[str, tuple[Any, ...]]]:
    known = [_chosen(report) for report in reports]
    for name in known[0]:
        values = tuple(one[name] for one in known)
        if any(value != values[0] for value in values):
            yield name, values


def _chosen(report: Report) -> dict[str, Any]:
    """Returns the user's choices: the options, and those reported under other keys."""
    return {
        "model": report.model,
        "target": report.target,
        "cortado_version": report.cortado_version,
        **to_json(report.options),
        "chip": None if report.chip is None else report.chip.name,
        "input_rows": report.input_rows is not None,
        "stream": None if report.stream is None else report.stream.dim,
        "calibration": None if report.calibration is None else report.calibration.data,
        "calibration_inputs": None if report.calibration is None else report.calibration.batches,
    }


def _layers(reports: Sequence[Report], measured: bool) -> Iterator[LayerRow]:
    """Yields the layers by name, in the order of the first model, followed by those that only later models have."""
    known = [{layer.name: layer for layer in report.layers} for report in reports]
    cycles = [_cycles(report, measured) for report in reports]
    for name in dict.fromkeys(name for layers in known for name in layers):
        layers = tuple(one.get(name) for one in known)
        first = next(layer for layer in layers if layer is not None)
        times = tuple(one.get(name) for one in cycles)
        yield LayerRow(name, first.module or name, operator_base(first.operator), layers, times)


def _cycles(report: Report, measured: bool) -> dict[str, int | None]:
    if measured and report.profile is not None:
        return {layer.name: layer.cycles.typical for layer in report.profile.layers}
    return {layer.name: layer.estimated_cycles for layer in report.layers}


def difference(first: Figure, other: Figure) -> str:
    """Formats the change from the first figure to the other, in percent of the first."""
    if first is None or other is None:
        return ""
    if first == other:
        return "same"
    if not first:
        return "new"
    percent = 100 * (other - first) / first
    return f"{percent:+.1f}%" if math.isfinite(percent) else ""
