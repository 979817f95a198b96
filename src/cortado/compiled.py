"""One model for one target, compiled: its artifacts in memory, to be saved, run and scored."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram

from cortado.artifact.checked import Checked
from cortado.artifact.folder import write_folder
from cortado.artifact.opened import CHECKS, EXAMPLE, EXPECTED, PAGE, PTE_REFERENCE, REFERENCE, Artifact, recorded_name
from cortado.artifact.page import build_page
from cortado.artifact.report import Report, TensorReport
from cortado.artifact.streamed import Streamed, push_rows
from cortado.artifact.summary import html_summary, in_words
from cortado.base.arrays import ArrayType
from cortado.base.errors import CortadoError
from cortado.base.progress import PhaseProgress
from cortado.base.target import CortexMTargetConfig
from cortado.emit.c.bundle import Bundle
from cortado.emit.image.files import loader_files
from cortado.emit.image.writer import ModelImage
from cortado.emit.packages import package_files
from cortado.emit.packages.content import Content
from cortado.emit.pte.program import Pte, bundle_pte
from cortado.frontend.capture.inputs import Inputs
from cortado.frontend.capture.torch_settings import one_thread
from cortado.options import Options, PackageKind, PteKind
from cortado.plan import checks
from cortado.plan.lowered import LoweredGraph, npz_bytes, reference_outputs, to_bytes
from cortado.plan.planned import Planned
from cortado.run.measure import executorch_folder
from cortado.run.runner import RunLimits
from cortado.scoring import scores
from cortado.scoring.dataset import make_dataset
from cortado.scoring.floats import float_inputs, float_model
from cortado.scoring.scores import Evaluation
from cortado.web.facts import Example, Shown
from cortado.web.package import web_files

Tensor = torch.Tensor


@dataclass(frozen=True, repr=False)
class Compiled:
    """One model for one target: artifacts in memory. Without a C bundle (see Options.allow_float) there is a .pte."""

    name: str
    target: CortexMTargetConfig
    graph: LoweredGraph | None  # of the C bundle, and of the .pte unless that has float calls
    planned: Planned | None
    bundle: Bundle | None
    image: ModelImage | None
    pte: Pte | None
    pte_graph: LoweredGraph | None
    example: Inputs
    options: Options
    report: Report
    nones: tuple[int, ...]  # positions of the outputs for which the model returns None
    first: Mapping[str, Tensor]  # the reference's values for the example: the report's inputs and outputs

    def __repr__(self) -> str:
        return f"<Compiled {in_words(self.report)}>"

    def _repr_html_(self) -> str:
        """Returns the HTML that a notebook shows."""
        return html_summary(self.report)

    def _bundled(self, pte: Pte, graph: LoweredGraph) -> bytes:
        """Bundles the .pte with the example input and its expected outputs."""
        expected = [value.numpy() for value in reference_outputs(graph, self.example)]
        return bundle_pte(pte.data, [[value.detach().numpy() for value in self.example]], [expected])

    def _recorded(self) -> bytes:
        """Returns the example's inputs as the bundle is fed them, and the expected outputs."""
        return npz_bytes(
            {
                recorded_name(kind, position): self.first[tensor.node].numpy()
                for kind, tensors in (("input", self.report.inputs), ("output", self.report.outputs))
                for position, tensor in enumerate(tensors)
            }
        )

    def _for_web(self, graph: LoweredGraph) -> dict[str, str | bytes]:
        def values(tensors: Sequence[TensorReport]) -> tuple[ArrayType, ...]:
            return tuple(self.first[tensor.node].numpy() for tensor in tensors)

        shown = Shown.of(self.report, graph, Example(values(self.report.inputs), values(self.report.outputs)))
        return {f"{PackageKind.WEB.value}/{name}": data for name, data in web_files(shown).items()}

    def _loaded(self, image: ModelImage) -> dict[str, str | bytes]:
        """Returns the image with its loader; for ExecuTorch, where the .pte holds the image, the folder that its build
        adds."""
        loader = loader_files(image.thunks, image.sources)
        files: dict[str, str | bytes] = {}
        if self.options.image:
            files |= {f"{self.report.prefix}.cortado": image.data, **loader}
        if self.options.pte is PteKind.DELEGATE:
            files |= executorch_folder(loader, self.target)
        return files

    @one_thread()
    def save(self, folder: str | Path) -> Artifact:
        """Writes .pte, C bundle, report and reference; all or nothing."""
        path = Path(folder)
        files: dict[str, str | bytes] = {} if self.bundle is None else dict(self.bundle.files)
        prefix = self.report.prefix
        if self.image is not None:
            files |= self._loaded(self.image)
        if self.pte is not None and self.pte_graph is not None:
            files[f"{prefix}.pte"] = self.pte.data
            if self.options.bundleio:
                files[f"{prefix}.bpte"] = self._bundled(self.pte, self.pte_graph)
            if self.pte.etrecord is not None:
                files[f"{prefix}.etrecord"] = self.pte.etrecord
            if self.pte_graph is not self.graph:
                files[PTE_REFERENCE] = to_bytes(self.pte_graph)
        if self.graph is not None and self.planned is not None and self.bundle is not None:
            files[REFERENCE] = to_bytes(self.graph)
            files[EXPECTED] = self._recorded()
            files[CHECKS] = json.dumps(checks.as_json(self.planned, self.bundle.calls))
            ids, version = (self.report.id,), self.options.model_version
            arithmetic = self.report.arithmetic
            content = Content.of((prefix,), self.target, self.bundle.files, ids, version, arithmetic=arithmetic)
            for kind in self.options.package:
                files |= self._for_web(self.graph) if kind is PackageKind.WEB else package_files(kind, content)
        files[EXAMPLE] = _example_file(self.report.inputs, self.example)
        files[PAGE] = build_page(self.report)
        write_folder(path, files, self.report)
        return Artifact.open(path, trust=True)

    def run(
        self,
        *inputs: Tensor | ArrayType,
        on: str | None = None,
        sequence: int | None = None,
        timeout: float | None = None,
    ) -> Checked:
        """Runs a tensor (or NumPy array) for each input on the target's emulated board, or on='host'.

        Each holds one sample, or several along its first dimension, and so do the `outputs` of the result. With state,
        samples are steps in order. Every run begins with the initial state, as a device does after a reset; with
        `sequence`, state is reset after every `sequence` steps. The run is aborted after `timeout` seconds; without it,
        a board is limited to a number of instructions that no inference takes, however busy this machine is.
        """
        arrays = [_as_array(position, value) for position, value in enumerate(inputs)]
        names = [f"input {position}" for position, _ in enumerate(inputs)]
        with _opened(self) as artifact:
            limits = RunLimits(seconds=timeout)
            checked = artifact.run(artifact.samples(arrays, names), on, sequence=sequence, limits=limits)
            return replace(checked, nones=self.nones)

    def stream(self, rows: Tensor | ArrayType, on: str | None = None) -> Streamed:
        """Pushes rows of real numbers, with time along the first dimension, through a stream: on its emulated board or,
        with on="host", on this machine."""
        with _opened(self) as artifact:
            return push_rows(artifact, _as_array(0, rows), on)

    def evaluate(
        self,
        dataset: Any,
        labels: Tensor | ArrayType | None = None,
        *,
        model: torch.nn.Module | ExportedProgram | None = None,
        top_k: int | None = None,
        board_samples: int = 0,
        limit: int | None = None,
        reconstruction: bool = False,
        sequence: int | None = None,
        progress: PhaseProgress = lambda phase: None,
    ) -> Evaluation:
        """`cortado.evaluate` of this model."""
        return evaluate(
            self,
            dataset,
            labels,
            model=model,
            top_k=top_k,
            board_samples=board_samples,
            limit=limit,
            reconstruction=reconstruction,
            sequence=sequence,
            progress=progress,
        )


def _as_array(position: int, value: Any) -> ArrayType:
    if isinstance(value, Tensor):
        return value.detach().numpy()
    if isinstance(value, np.ndarray):
        return value
    star = "; pass the tensors of a tuple one by one: run(*sample)" if isinstance(value, tuple | list) else ""
    raise CortadoError(f"input {position} must be a tensor or a NumPy array, found {type(value).__name__}{star}")


def _example_file(tensors: Sequence[TensorReport], example: Inputs) -> bytes:
    return npz_bytes({tensor.name: value.detach().numpy() for tensor, value in zip(tensors, example, strict=True)})


def evaluate(
    compiled: Compiled | Artifact | str | Path,
    dataset: Any,
    labels: Tensor | ArrayType | None = None,
    *,
    model: torch.nn.Module | ExportedProgram | None = None,
    top_k: int | None = None,
    board_samples: int = 0,
    limit: int | None = None,
    reconstruction: bool = False,
    sequence: int | None = None,
    progress: PhaseProgress = lambda phase: None,
) -> Evaluation:
    """Scores the C kernels on this machine against labels, the float `model`, or both.

    The dataset is a tensor or array of samples along the first dimension, a tuple of them for several inputs, or
    anything that yields (input, label) pairs, such as torch's datasets and loaders. With `reconstruction`, a sample's
    score is the distance of the output from the input, and labels are 0 (normal) and 1 (an anomaly). `board_samples` of
    the samples also run on the target's emulated board. `sequence` is that of `run`.
    """
    with _opened(compiled) as artifact:
        data = make_dataset(artifact, dataset, labels, limit, reconstruction=reconstruction)
        example = float_inputs(artifact, artifact.example())
        return scores.evaluate(
            artifact,
            data,
            floats=None if model is None else float_model(artifact, model, example),
            top_k=top_k,
            board_samples=board_samples,
            sequence=sequence,
            progress=lambda phase, done=0, total=0: progress(phase),
        )


@contextmanager
def _opened(compiled: Compiled | Artifact | str | Path) -> Iterator[Artifact]:
    """Opens a compiled model as a folder, for as long as it is needed."""
    if isinstance(compiled, Artifact):
        yield compiled
    elif isinstance(compiled, Compiled):
        with TemporaryDirectory(prefix="cortado-") as folder:
            yield compiled.save(Path(folder) / compiled.report.prefix)
    else:
        yield Artifact.open(Path(compiled))
