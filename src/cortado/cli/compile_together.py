"""cortado compile MODEL MODEL --together DIR, and of a file with ModelMethods: several entry points in one program."""

import argparse
import contextlib
import json
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cortado.base.errors import CortadoError, CortadoWarning
from cortado.cli.parsing import class_names, has_methods, options_of
from cortado.cli.tables import ProgressBar

if TYPE_CHECKING:
    from cortado.api import Compiled
    from cortado.artifact.folder import TogetherFacts
    from cortado.base.target import CortexMTargetConfig
    from cortado.options import Options

_OF_ONE = {
    "output": "-o (the folder is that of --together)",
    "name": "--name (write NAME=MODEL)",
    "intermediates": "--intermediates",
    "bundleio": "--bundleio",
    "etrecord": "--etrecord",
    "image": "--image",
    "allow_float": "--allow-float",
    "keep_float": "--keep-float",
    "labels": "--labels",
}


def together_command(arguments: argparse.Namespace, specs: list[str], targets: list["CortexMTargetConfig"]) -> None:
    given = [text for name, text in _OF_ONE.items() if getattr(arguments, name)]
    if given:
        raise CortadoError(f"{given[0]} is for one model and its folder, and --together writes the C of several")
    twice = next((spec for number, spec in enumerate(specs) if spec in specs[:number]), None)
    if twice is not None:
        path = twice.rpartition("=")[2]
        raise CortadoError(f"{twice} was given twice, expected another name for each model: first={path} second={path}")
    if arguments.artifacts == "pte":
        raise CortadoError("--artifacts pte is for one model: --together writes the C of several, and no .pte")
    if len(targets) > 1:
        names = ", ".join(target.target_string for target in targets)
        raise CortadoError(f"--together makes one program, for one target; {len(targets)} were given: {names}")
    progress = ProgressBar()
    try:
        with contextlib.redirect_stdout(sys.stderr):  # a user's own file may print
            facts, findings = _write(arguments, specs, targets[0], progress)
    finally:
        progress.stop()
    for text in dict.fromkeys(findings):
        print(f"warning: {text}", file=sys.stderr)
    print(json.dumps(facts.to_json(), indent=2) if arguments.json else _summary(arguments, facts))


def _write(
    arguments: argparse.Namespace, specs: list[str], target: "CortexMTargetConfig", progress: ProgressBar
) -> tuple["TogetherFacts", list[str]]:
    progress("load")
    from cortado.artifact.folder import check_together
    from cortado.together import save_together

    check_together(arguments.together)
    options, data = _only_c(options_of(arguments)), _calibrations(arguments.calibration, specs)
    compiled = [_compiled(spec, given, target, options, progress) for spec, given in zip(specs, data, strict=True)]
    progress("write")
    facts = save_together(compiled, arguments.together, shared_arena=arguments.shared_arena)
    return facts, [f"{one.name}: {finding.text}" for one in compiled for finding in one.report.warnings]


def _only_c(options: "Options") -> "Options":
    """Restricts a compile to C, since no .pte is written."""
    from cortado.options import Artifacts

    return replace(options, artifacts=Artifacts.C) if options.artifacts is Artifacts.BOTH else options


def _calibrations(given: str | None, specs: list[str]) -> list[str | None]:
    """Returns the calibration data of each model: the same for all, or one for each."""
    if given is None or "," not in given:
        return [given] * len(specs)
    each = given.split(",")
    if len(each) != len(specs):
        raise CortadoError(
            f"--calibration names {len(each)} data sets for {len(specs)} models, expected one for all, or one for each "
            "with commas between them; an empty entry stands for the model's own"
        )
    return [text or None for text in each]


def _compiled(
    spec: str, calibration: str | None, target: "CortexMTargetConfig", options: "Options", progress: ProgressBar
) -> "Compiled":
    from cortado.api import prepare
    from cortado.base.names import check_name
    from cortado.models.sources import load_calibration, load_model

    name, _, model_spec = spec.rpartition("=")
    source = load_model(model_spec)
    name = check_name(name) if name else source.name

    def told(phase: str, done: int = 0, total: int = 0) -> None:
        progress(f"{name}: {phase}", done, total)

    model = prepare(
        source.model,
        source.example_inputs,
        load_calibration(calibration, source, needed=options.has_codes),
        name=name,
        labels=source.labels,
        progress=told,
        options=options,
        target=target,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CortadoWarning)  # they are printed at the end
        return model.compile(target, options)


def methods_command(arguments: argparse.Namespace, spec: str, targets: list["CortexMTargetConfig"]) -> bool:
    """Compiles a model with several methods; returns False if the file defines none."""
    if not has_methods(spec):
        return False
    progress = ProgressBar()
    try:
        with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
            progress("load")
            from cortado.models.sources import load_methods

            source = load_methods(spec)
            if source is None:
                return False
            from cortado.methods import compile_methods

            if len(targets) > 1 or arguments.calibration is not None:
                given = "--calibration" if len(targets) == 1 else f"{len(targets)} targets"
                raise CortadoError(
                    f"{given}: a model with several methods is compiled for one target, with its ModelCalls as "
                    "calibration data"
                )
            warnings.simplefilter("ignore", CortadoWarning)  # they are printed at the end
            name = arguments.name or source.name
            made = compile_methods(
                *(source.model, source.methods, targets[0], source.calls, name, options_of(arguments)),
                labels=() if arguments.labels is None else class_names(arguments.labels),
                progress=progress,
            )
            folder = arguments.output or Path("build") / name
            made.save(folder)
    finally:
        progress.stop()
    for text in [
        f"{method}: {one.text}" for method, made_of in made.methods.items() for one in made_of.report.warnings
    ]:
        print(f"warning: {text}", file=sys.stderr)
    print(json.dumps(made.to_json(), indent=2) if arguments.json else f"{made!r} written to {folder}")
    return True


def _summary(arguments: argparse.Namespace, facts: "TogetherFacts") -> str:
    rows = [
        ("model", f"{one.model}, {one.arena_bytes:,} bytes of arena, {one.weights_bytes:,} bytes of constants")
        for one in facts.models
    ]
    shared = [one.model for one in facts.models if one.shares_arena]
    text = f"{facts.arena_bytes:,} bytes of arena in all"
    if len(shared) > 1:
        text += f"; {', '.join(shared)} share one of {facts.shared_arena_bytes:,}"
    code = "code (unknown without arm-none-eabi-gcc)"
    if facts.code_bytes is not None:
        code = f"{'at most ' if facts.target == 'cortex-m' else ''}{facts.code_bytes:,} bytes of code, kernels once"
    rows += [
        ("target", facts.target),
        ("RAM", text),
        ("flash", f"{facts.weights_bytes:,} bytes of constants + {code}"),
        ("written to", str(arguments.together)),
    ]
    return "\n".join(f"{label:>11}  {text}" for label, text in rows)
