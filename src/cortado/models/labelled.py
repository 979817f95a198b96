"""Samples with labels, as --labelled names them."""

from pathlib import Path

import numpy as np
import torch

from cortado.base.arrays import read_arrays
from cortado.base.errors import CortadoError
from cortado.frontend.capture.incoming import single_inputs
from cortado.frontend.capture.inputs import Inputs, check_batches
from cortado.frontend.quantize.accuracy_targets import Labelled

LABELS = "labels"


def read_labelled(path: Path, example_inputs: Inputs) -> Labelled:
    """From an .npz file: the model's inputs in their order, samples along the first dimension, and `labels`."""
    arrays = read_arrays(path) if path.suffix == ".npz" or not path.is_file() else {}
    if LABELS not in arrays:
        found = ", ".join(arrays) or "none"
        raise CortadoError(
            f"--labelled {path}: found {found}, expected an .npz file with the model's inputs and an array '{LABELS}' "
            "with the number of the right class of each sample"
        )
    labels = arrays.pop(LABELS)
    if labels.dtype.kind not in "iu" or labels.ndim != 1 or not len(labels):
        raise CortadoError(
            f"--labelled {path}: '{LABELS}' holds {labels.dtype} values of shape {list(labels.shape)}; expected one "
            "integer for each sample"
        )
    if any(array.dtype.kind not in "fiub" for array in arrays.values()):
        raise CortadoError(f"--labelled {path}: expected numbers in the arrays {', '.join(arrays)}")
    if len(arrays) != len(example_inputs):
        raise CortadoError(
            f"--labelled {path} holds {len(arrays)} arrays beside '{LABELS}', expected {len(example_inputs)}: one for "
            "each input of the model"
        )
    tensors = [torch.from_numpy(np.ascontiguousarray(array)) for array in arrays.values()]
    try:
        samples = check_batches(single_inputs(tensors, example_inputs), example_inputs)
    except CortadoError as error:
        raise CortadoError(f"--labelled {path}: {error}") from error
    if len(samples) != len(labels):
        raise CortadoError(
            f"--labelled {path}: {len(samples)} samples and {len(labels)} labels, expected one label for each sample"
        )
    return Labelled(samples, [int(label) for label in labels])
