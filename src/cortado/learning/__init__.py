"""Models that learn on the device: from examples (`prototypes`) and by gradients (`trainable`)."""

from cortado.learning.prototypes import Prototypes, prototypes, threshold_for
from cortado.learning.trainable import (
    SGD,
    Trainable,
    cross_entropy,
    squared_error,
    trainable,
    weighted_cross_entropy,
)

__all__ = [
    "SGD",
    "Prototypes",
    "Trainable",
    "cross_entropy",
    "prototypes",
    "squared_error",
    "threshold_for",
    "trainable",
    "weighted_cross_entropy",
]
