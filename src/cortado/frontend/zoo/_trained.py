"""What training left behind in `trained/`: weights in 16 bits, samples in 8, and the accuracies of both.

`training/` in the repository made it; its README says how, and with what data.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

FOLDER = Path(__file__).parent / "trained"


@dataclass(frozen=True)
class Samples:
    """Inputs of one data set, along the first dimension; a label is a class, or 1 for an anomaly."""

    calibration: Tensor
    inputs: Tensor
    labels: Tensor

    def map(self, form: Callable[[Tensor], Tensor]) -> Samples:
        return Samples(form(self.calibration), form(self.inputs), self.labels)

    def shuffled_calibration(self, seed: int) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        return self.calibration[torch.randperm(len(self.calibration), generator=generator)]


@dataclass(frozen=True)
class Accuracy:
    """What was measured on the shipped test set: `accuracy` is the share of right classes, `AUC` of right pairs."""

    metric: str
    float_accuracy: float
    accuracy: float | None


def load_weights(name: str, model: nn.Module) -> None:
    """Sets every weight and statistic of `model`; 16 bits are exact in 32."""
    with np.load(FOLDER / f"{name}.npz", allow_pickle=False) as stored:
        state = {key: torch.from_numpy(stored[key].astype(np.float32)) for key in stored.files}
    counters = {key: value for key, value in model.state_dict().items() if not value.is_floating_point()}
    model.load_state_dict(state | counters)


def load_samples(name: str) -> Samples:
    """The calibration and test samples of a data set: 8-bit codes times their scale, from their offset."""
    with np.load(FOLDER / f"{name}.npz", allow_pickle=False) as stored:
        scale, offset = stored["scale"], stored["offset"]
        calibration, inputs = (
            torch.from_numpy(stored[key].astype(np.float32) * scale + offset) for key in ("calibration", "inputs")
        )
        return Samples(calibration, inputs, torch.from_numpy(stored["labels"].astype(np.int64)))


def load_accuracy(name: str) -> Accuracy:
    """What training and, for int8, evaluation wrote down."""
    figures = json.loads((FOLDER / "accuracy.json").read_text())[name]
    return Accuracy(figures["metric"], figures["float_accuracy"], figures["accuracy"])
