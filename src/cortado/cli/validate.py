"""cortado validate."""

import argparse
import contextlib
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cortado.base.errors import CortadoError
from cortado.base.names import operator_base
from cortado.cli.parsing import further_place
from cortado.cli.run import folder_of
from cortado.cli.scores import check_result, score_json, score_lines, thresholds_of
from cortado.cli.tables import ProgressBar, decibels, json_decibels

if TYPE_CHECKING:
    from cortado.artifact.opened import Artifact
    from cortado.base.target import CortexMTargetConfig
    from cortado.frontend.quantize.convert import FloatModel
    from cortado.scoring.scores import Thresholds
    from cortado.scoring.validate import Fidelity, LayerResult, PlaceResult, Validation


def validate_command(arguments: argparse.Namespace) -> None:
    from cortado.artifact.opened import Artifact
    from cortado.base.target import from_target_string

    targets = [] if arguments.target is None else [from_target_string(text) for text in arguments.target.split(",")]
    artifact = Artifact.open(folder_of(arguments.folder, targets, arguments.method), trust=arguments.trust)
    for target in targets:
        artifact.for_target(target)
    artifact.check_trust()
    with artifact.guarded():
        _validate_artifact(arguments, artifact, targets)


def _validate_artifact(
    arguments: argparse.Namespace, artifact: "Artifact", targets: list["CortexMTargetConfig"]
) -> None:
    from cortado.run.doctor import require
    from cortado.run.runner import WASM
    from cortado.run.toolchain import WASM_TOOLS, Tool

    if arguments.inputs is None and arguments.labels is not None:
        raise CortadoError(f"{arguments.labels} holds the labels of samples: give the samples with --inputs")
    if arguments.save and not arguments.per_layer:
        raise CortadoError(
            "--save stores how far each layer is from the float model, which --per-layer measures: add --per-layer"
        )
    tools = (Tool.ARM_GCC, Tool.QEMU, Tool.CC, *(WASM_TOOLS if arguments.on == WASM else ()))
    require(tools if artifact.report.pte is None else (*tools, Tool.CXX))
    spec = arguments.model or artifact.report.zoo
    if arguments.save and spec is None:
        raise CortadoError("--save stores how far each layer is from the float model: name it with --model")
    progress = ProgressBar()
    try:
        # A user's own file may print: standard output is reserved for the result.
        with contextlib.redirect_stdout(sys.stderr):
            found, thresholds = _validated(arguments, artifact, targets, spec, progress)
    finally:
        progress.stop()
    problems = [*found.problems(), *thresholds.problems(found.scored)]
    if arguments.json:
        print(json.dumps({**_validation_json(artifact, found, spec), "problems": problems}, indent=2))
    else:
        _print_validation(artifact, found, spec)
    check_result(problems, found.cut_short())
    if arguments.save:
        from cortado.artifact.pages import save_figures
        from cortado.scoring.validate import fidelity_report

        save_figures(artifact, lambda report: replace(report, fidelity=fidelity_report(found, spec)))


def _validated(
    arguments: argparse.Namespace,
    artifact: "Artifact",
    targets: list["CortexMTargetConfig"],
    spec: str | None,
    progress: ProgressBar,
) -> tuple["Validation", "Thresholds"]:
    progress("load")
    from cortado.run.sandbox import RunLimits
    from cortado.scoring.dataset import Dataset, read_dataset, scores_of
    from cortado.scoring.validate import validate

    inputs = arguments.inputs
    example = Dataset([artifact.example()], scores=scores_of(artifact))
    data = example if inputs is None else read_dataset(artifact, inputs, arguments.labels)
    thresholds = thresholds_of(arguments, data, spec)
    found = validate(
        artifact,
        data.samples,
        targets=targets,
        floats=None if spec is None else load_float_model(artifact, spec),
        labels=data.labels,
        per_layer=arguments.per_layer,
        sequence=arguments.sequence,
        on=further_place(arguments),
        progress=progress,
        limits=RunLimits(seconds=arguments.timeout),
    )
    return found, thresholds


def load_float_model(artifact: "Artifact", spec: str) -> "FloatModel":
    from cortado.models.sources import load_model
    from cortado.scoring.floats import float_model

    source = load_model(spec, _shapes_of_file(artifact, Path(spec)) if spec.endswith(".onnx") else None)
    return float_model(artifact, source.model, source.example_inputs)


def _shapes_of_file(artifact: "Artifact", path: Path) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of an ONNX file's inputs, by their names there: the compiled model may have renamed them for C
    and Python."""
    from cortado.onnx.model import input_names

    return {name: tensor.model_shape for name, tensor in zip(input_names(path), artifact.report.inputs, strict=False)}


def _validation_json(artifact: "Artifact", found: "Validation", spec: str | None) -> dict[str, Any]:
    places = []
    for place in found.places:
        fidelity = place.fidelity
        places.append(
            {
                "place": place.name,
                "what": place.what,
                "exact_samples": place.exact,
                "close": place.close,
                "sqnr": None if fidelity is None else json_decibels(fidelity.sqnr),
                "same_top1": None if fidelity is None else fidelity.same_top1,
                "agreement": None if fidelity is None else fidelity.agreement,
                "instructions": place.instructions,
                "fault": place.fault,
                "lost": place.lost,
            }
        )
    return {
        "model": artifact.report.model,
        "target": artifact.report.target,
        "float_model": spec,
        "samples": found.samples,
        "bit_exact": not found.problems() and not found.cut_short(),
        "places": places,
        **score_json(found.scored),
        "layers": [{**asdict(layer), "sqnr": json_decibels(layer.sqnr)} for layer in found.layers],
    }


def _print_validation(artifact: "Artifact", found: "Validation", spec: str | None) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # Nothing is wrapped or truncated in a file or a pipe.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 250)

    def show(title: str, header: Sequence[str], rows: Sequence[Sequence[Text]]) -> None:
        table = Table(*header, title=title, title_justify="left", box=None, pad_edge=False)
        for row in rows:
            table.add_row(*row)
        console.print(table)

    report = artifact.report
    if found.layers:
        names = list(found.layers[0].differing)
        header = ("LAYER", "OPERATOR", "MODULE", "SQNR", *(name.upper() for name in names))
        rows = [_layer_cells(layer, names, "" if spec is None else "no twin") for layer in found.layers]
        show("values of each layer that differ from the reference", header, rows)
        print()
    title = f"{report.model} for {report.target}, {found.samples} sample{'s' if found.samples > 1 else ''}"
    given = "not given: name it with --model" if spec is None else spec
    rows = [[Text("float model"), Text(given)], *(_place_cells(place, found.samples) for place in found.places)]
    show(title, ("PLACE", "WHAT", "BIT-EXACT", "SQNR TO FLOAT", "SAME TOP-1", "INSTRUCTIONS"), rows)
    for line in score_lines(found.scored):
        print(line)


def _likeness(fidelity: "Fidelity") -> str:
    """Formats a place's similarity: decibels, and for integers and truth values the fraction that agrees."""
    found = [decibels(fidelity.sqnr, ""), "" if fidelity.agreement is None else f"{fidelity.agreement:.2%} agree"]
    return ", ".join(text for text in found if text)


def _layer_cells(layer: "LayerResult", places: Sequence[str], no_sqnr: str) -> list[Any]:
    from rich.text import Text

    def verdict(count: int) -> Text:
        return Text(f"{count:,} differ", style="red") if count else Text("equal", style="green")

    operator = operator_base(layer.operator)
    texts = (layer.name, operator, layer.module, decibels(layer.sqnr, no_sqnr))
    return [*map(Text, texts), *(verdict(layer.differing[place]) for place in places)]


def _place_cells(place: "PlaceResult", samples: int) -> list[Any]:
    from rich.text import Text

    if place.fault is not None:
        exact = Text("fault", style="red")
    elif place.exact is None:
        exact = Text("the measure")
    else:
        ran = samples if place.ran is None else place.ran
        good = place.close or place.exact == samples
        counted = f"{place.exact} of {ran}{'' if place.lost is None else ', then lost'}"
        exact = Text("close, in float" if place.close else counted, style="green" if good else "red")
    fidelity = place.fidelity
    top1 = None if fidelity is None else fidelity.same_top1
    return [
        Text(place.name),
        Text(place.what),
        exact,
        Text("" if fidelity is None else _likeness(fidelity)),
        Text("" if top1 is None else f"{top1} of {samples}"),
        Text("" if place.instructions is None else f"{place.instructions:,}"),
    ]
