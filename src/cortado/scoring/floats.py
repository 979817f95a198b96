"""The user's float model for comparison with a compiled one: run on the same samples, in batches if it supports
them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.export import ExportedProgram

from cortado.artifact.checked import Samples
from cortado.artifact.opened import Artifact
from cortado.base.arrays import ArrayType
from cortado.base.errors import CortadoError
from cortado.base.names import ranges_of
from cortado.base.progress import Progress, silent
from cortado.frontend.capture.eager import same_values
from cortado.frontend.quantize.convert import FloatModel
from cortado.frontend.rewrite.unpadded import longer_windows, without_padding
from cortado.ir.graph import TO_NCHW
from cortado.options import InputLayout, Options, StreamPadding

Tensor = torch.Tensor
BATCH = 64  # samples per run of the float model


def float_model(
    artifact: Artifact, model: torch.nn.Module | ExportedProgram, example_inputs: Sequence[Tensor]
) -> FloatModel:
    """Wraps the float model that an artifact was compiled from; refuses one with other inputs."""
    report = artifact.report
    if report.stream is not None and report.options.stream_padding is StreamPadding.DROP:
        unpadded = without_padding(model, example_inputs, report.stream.dim)
        model = unpadded.model
        example_inputs = next(longer_windows([example_inputs], report.stream.dim, unpadded.rows))
    found = [list(value.shape) for value in example_inputs]
    wanted = [list(_model_order(artifact, np.empty(t.model_shape)).shape) for t in artifact.report.inputs]
    if found != wanted:
        raise CortadoError(f"the float model takes inputs of shapes {found}, the one in {artifact.folder} {wanted}")
    options = Options(state=report.options.state, range=ranges_of(report.options.range))
    return FloatModel(model, example_inputs, options)


def _model_order(artifact: Artifact, value: ArrayType) -> ArrayType:
    """Permutes an input to the float model's order: the compiled one may take images channels last."""
    nhwc = artifact.report.options.input_layout is InputLayout.NHWC
    return value.transpose(TO_NCHW) if nhwc and value.ndim == 4 else value


def float_inputs(artifact: Artifact, sample: Sequence[ArrayType]) -> list[Tensor]:
    """Converts a sample to the float model's inputs."""
    real = [_model_order(artifact, artifact.as_float(position, value)) for position, value in enumerate(sample)]
    return [torch.from_numpy(np.asarray(value, order="C")) for value in real]


def float_outputs(
    artifact: Artifact,
    floats: FloatModel,
    samples: Sequence[Sequence[Tensor]],
    progress: Progress = silent,
    sequence: int | None = None,
) -> Samples:
    """Returns the float model's outputs for each sample; refuses a model whose outputs are not the artifact's.

    With state, samples are steps of one sequence, or of several that are `sequence` long.
    """
    outputs: Samples = []
    if artifact.report.state:
        length = sequence or max(len(samples), 1)
        for number, sample in enumerate(samples):
            if number % length == 0:
                progress("float model", number, len(samples))
                floats.reset()
            outputs.append([value.numpy() for value in floats.outputs(sample)])
            _check_shapes(artifact, outputs[0])
        return outputs
    runs = _Batches(floats, batched=_takes_single_samples(artifact))
    for start in range(0, len(samples), BATCH):
        progress("float model", start, len(samples))
        made = runs.outputs(samples[start : start + BATCH])
        outputs += [[value.numpy() for value in sample] for sample in made]
        _check_shapes(artifact, outputs[0])
    return outputs


def _check_shapes(artifact: Artifact, outputs: Sequence[ArrayType]) -> None:
    found = [list(output.shape) for output in outputs]
    wanted = [list(tensor.model_shape) for tensor in artifact.report.outputs]
    if found != wanted[: artifact.report.own_outputs]:
        raise CortadoError(f"the float model gives outputs of shapes {found}, the one in {artifact.folder} {wanted}")


def _takes_single_samples(artifact: Artifact) -> bool:
    tensors = (*artifact.report.inputs, *artifact.report.outputs)
    return all(tensor.model_shape[:1] == (1,) for tensor in tensors)


@dataclass
class _Batches:
    """Batched execution, as long as its results equal those of single samples. Nothing guarantees that a model supports
    batches: the first and the last sample of each are also run alone, and a model that mixes samples gets them one by
    one."""

    floats: FloatModel
    batched: bool

    def outputs(self, samples: Sequence[Sequence[Tensor]]) -> list[list[Tensor]]:
        if self.batched and len(samples) > 2:
            together = self._together(samples)
            if together is not None:
                return together
            self.batched = False
        return [self.floats.outputs(sample) for sample in samples]

    def _together(self, samples: Sequence[Sequence[Tensor]]) -> list[list[Tensor]] | None:
        try:
            made = self.floats.outputs([torch.cat(values) for values in zip(*samples, strict=True)])
        except Exception:  # a user's forward can raise anything if it was not written for batches
            return None
        if any(value.shape[:1] != (len(samples),) for value in made):
            return None
        split = [[value[number : number + 1] for value in made] for number in range(len(samples))]
        alone = all(same_values(self.floats.outputs(samples[i]), split[i]) for i in (0, -1))
        return split if alone else None
