"""A compiled model on a chip behind a debug probe."""

from pathlib import Path

from cortado.artifact.report import ChipReport
from cortado.run.bundle_info import BundleInfo, StoreRules
from cortado.run.probe import ProbeRun
from cortado.run.probe_place import probe_text
from cortado.run.runner import RunLimits


def probe_run(
    folder: Path, chip: ChipReport | None, rules: StoreRules, on: str, info: BundleInfo, limits: RunLimits
) -> ProbeRun:
    """The chip is the one that the model was compiled for, unless another or its memories are named."""
    named = "chip=" in on or "ram=" in on
    text = on if named or chip is None else probe_text(on, {"chip": chip.name})
    return ProbeRun(folder, info, [step.name for step in rules.steps], text, seconds=limits.seconds)
