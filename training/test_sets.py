"""The full test set of each trained network: generated again, or read from where the training found it."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

import deep_autoencoder
import ecg_conv1d
import fashion
import imu_lstm
import keywords
from speech import CLIPS

TestSet = tuple[Tensor, Tensor]


def _fashion(name: str) -> TestSet | None:
    if not fashion.FOLDER.is_dir():
        return None
    pictures, labels = fashion.load("t10k")
    return fashion.RECIPES[name].form(pictures), labels


FULL: dict[str, Callable[[], TestSet | None]] = {
    **dict.fromkeys(keywords.RECIPES, lambda: keywords.test_set() if CLIPS.is_file() else None),
    "resnet8": lambda: _fashion("resnet8"),
    "deep_autoencoder": deep_autoencoder.test_set,
    "ecg_conv1d": ecg_conv1d.test_set,
    "imu_lstm": imu_lstm.test_set,
    "mobilenet_tiny": lambda: _fashion("mobilenet_tiny"),
    "mobilenet_v1_pruned": lambda: _fashion("mobilenet_v1_pruned"),
}
"""Inputs and labels; None where what they are made of is not installed (README.md says how)."""
