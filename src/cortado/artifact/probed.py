"""A compiled model on a chip behind a debug probe."""

from typing import TYPE_CHECKING

from cortado.run.probe import ProbeRun
from cortado.run.probe_place import probe_text
from cortado.run.runner import BundleInfo, RunLimits

if TYPE_CHECKING:
    from cortado.artifact.opened import Artifact


def probe_run(artifact: "Artifact", on: str, info: BundleInfo, limits: RunLimits, *, timed: bool) -> ProbeRun:
    """The chip is the one that the model was compiled for, unless another or its memories are named."""
    artifact.check_trust()
    chip = artifact.report.chip
    named = "chip=" in on or "ram=" in on
    text = on if named or chip is None else probe_text(on, {"chip": chip.name})
    names = [step.name for step in artifact.store_rules().steps]
    return ProbeRun(artifact.folder, info, names, text, seconds=limits.seconds, timed=timed)
