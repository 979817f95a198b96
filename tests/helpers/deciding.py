"""A decision as anybody would write it in float, without looking at how Cortado does; and classifiers to decide by."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

Array = np.ndarray[Any, np.dtype[Any]]
LABELS = ("silence", "unknown", "yes", "no", "stop")


@dataclass(frozen=True)
class Naive:
    """The rule in real numbers; classes by number."""

    smooth: int
    threshold: float
    holdoff: int = 0
    ignore: Sequence[int] = ()
    thresholds: Mapping[int, float] = field(default_factory=dict)
    holdoffs: Mapping[int, int] = field(default_factory=dict)

    def decisions(self, scores: Array) -> list[int]:
        """Of real scores [outputs, classes]."""
        last: deque[Array] = deque(maxlen=self.smooth)
        rests: dict[int, int] = {}
        found = []
        for one in scores:
            last.append(one)
            mean = np.sum(list(last), axis=0) / self.smooth
            best = max(range(len(one)), key=lambda number: mean[number])
            fires = (
                len(last) == self.smooth
                and best not in self.ignore
                and mean[best] >= self.thresholds.get(best, self.threshold)
                and not rests.get(best)
            )
            rests = {number: left - 1 for number, left in rests.items() if left > 0}
            if fires:
                rests[best] = self.holdoffs.get(best, self.holdoff)
            found.append(best if fires else -1)
        return found


def real(codes: Array, scale: float | None, zero_point: int | None) -> Array:
    """What codes stand for, and float32 as it is. Sums of such numbers are exact in float64."""
    if scale is None:
        assert codes.dtype == np.float32
        return codes.astype(np.float64)
    assert zero_point is not None
    return (codes.astype(np.float64) - zero_point) * np.float64(np.float32(scale))


class Newest(nn.Module):
    """Scores of two rows [1, 1, 2, 5]: a stream with an output for each row."""

    def __init__(self, softmax: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.softmax = nn.Conv2d(1, len(LABELS), (2, 5)), softmax
        nn.init.orthogonal_(self.conv.weight, gain=2.0)

    def forward(self, x: Tensor) -> Tensor:
        scores = self.conv(x).flatten(1)
        return scores.softmax(1) if self.softmax else scores


class Remembering(nn.Module):
    """Scores of one step [1, 5] and of those before it."""

    h: Tensor

    def __init__(self, softmax: bool = True) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.layer, self.softmax = nn.Linear(5, len(LABELS)), softmax
        nn.init.orthogonal_(self.layer.weight, gain=3.0)
        self.register_buffer("h", torch.zeros(1, len(LABELS)))

    def forward(self, x: Tensor) -> Tensor:
        self.h = 0.5 * self.h + 0.5 * self.layer(x)
        return self.h.softmax(1) if self.softmax else 1.0 * self.h


def walk(count: int, seed: int = 0) -> Array:
    """Rows of 5 numbers that stay where they are for a while, so that classes come and go."""
    rng = np.random.default_rng(seed)
    held = np.repeat(rng.normal(scale=1.5, size=(count // 6 + 1, 5)), 6, axis=0)[:count]
    return (held + rng.normal(scale=0.6, size=(count, 5))).astype(np.float32)
