"""Trained data in `trained/`: weights in 16 bits, samples in 8, recordings, and accuracies.

`training/` in the repository made it; its README says how, and with what data. Torch is imported where there are
tensors: `cortado run` asks for figures alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cortado.base.element import USUAL

if TYPE_CHECKING:
    from torch import Tensor, nn

FOLDER = Path(__file__).parent / "trained"


@dataclass(frozen=True)
class ZooSamples:
    """Inputs of one data set, along the first dimension; a label is a class, or 1 for an anomaly."""

    calibration: Tensor
    inputs: Tensor
    labels: Tensor

    def map(self, form: Callable[[Tensor], Tensor]) -> ZooSamples:
        return ZooSamples(form(self.calibration), form(self.inputs), self.labels)

    def shuffled_calibration(self, seed: int) -> Tensor:
        import torch

        generator = torch.Generator().manual_seed(seed)
        return self.calibration[torch.randperm(len(self.calibration), generator=generator)]


class Metric(StrEnum):
    """The share of right classes, or of pairs in which the anomalous input is rebuilt worse than the normal one."""

    ACCURACY = "accuracy"
    AUC = "AUC"


@dataclass(frozen=True)
class Accuracy:
    """Accuracy measured on the shipped test set."""

    metric: Metric
    float_accuracy: float
    accuracy: float | None
    samples: int

    def __str__(self) -> str:
        int8 = "" if self.accuracy is None else f"{self.accuracy:.3f} in int8, "
        return f"{self.metric} {int8}{self.float_accuracy:.3f} in float"

    def beside(self, arithmetic: str) -> str:
        """Formats the accuracies for a model whose arithmetic may differ from the one measured."""
        return str(self) if arithmetic == USUAL.name else f"{self}; not measured in {arithmetic}"


def load_weights(name: str, model: nn.Module) -> None:
    """Sets every weight and statistic of `model`; 16 bits are exact in 32."""
    import torch

    with np.load(FOLDER / f"{name}.npz", allow_pickle=False) as stored:
        state = {key: torch.from_numpy(stored[key].astype(np.float32)) for key in stored.files}
    counters = {key: value for key, value in model.state_dict().items() if not value.is_floating_point()}
    model.load_state_dict(state | counters)


def load_samples(name: str) -> ZooSamples:
    """The calibration and test samples of a data set: 8-bit codes times their scale, from their offset."""
    import torch

    with np.load(FOLDER / f"{name}.npz", allow_pickle=False) as stored:
        scale, offset = stored["scale"], stored["offset"]
        calibration, inputs = (
            torch.from_numpy(stored[key].astype(np.float32) * scale + offset) for key in ("calibration", "inputs")
        )
        return ZooSamples(calibration, inputs, torch.from_numpy(stored["labels"].astype(np.int64)))


def load_accuracy(name: str) -> Accuracy:
    """Returns the accuracies as recorded by training and, for int8, by `benchmarks/accuracy.py`."""
    figures = json.loads((FOLDER / "accuracy.json").read_text())[name]
    return Accuracy(Metric(figures["metric"]), figures["float_accuracy"], figures["accuracy"], figures["samples"])


def load_clips() -> dict[str, np.ndarray]:
    """The recordings by the word that is said: one second of 16-bit sound each."""
    with np.load(FOLDER / "clips.npz", allow_pickle=False) as stored:
        return dict(zip(stored["words"].tolist(), stored["audio"], strict=True))
