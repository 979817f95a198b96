"""Figures that are added to report.json and report.html after a model was written."""

from collections.abc import Callable, Mapping

from cortado.artifact.folder import locked, write_folder
from cortado.artifact.opened import PAGE, Artifact
from cortado.artifact.page import build_page
from cortado.artifact.report import Report
from cortado.base.errors import CortadoError


def save_figures(artifact: Artifact, add: Callable[[Report], Report]) -> None:
    """Writes the report with what `add` adds, and its page: both or none, every other file as it is."""
    folder = artifact.folder
    with locked(folder):
        now = Artifact.open(folder)
        if _without_page(now.report.artifacts) != _without_page(artifact.report.artifacts):
            raise CortadoError(f"{folder} was compiled again meanwhile, and the figures are of what it held before")
        report = add(now.report)
        files: dict[str, str | bytes] = {name: (folder / name).read_bytes() for name in report.artifacts}
        files[PAGE] = build_page(report)
        write_folder(folder, files, report, ours=now.ours)


def _without_page(files: Mapping[str, str]) -> dict[str, str]:
    return {name: digest for name, digest in files.items() if name != PAGE}
