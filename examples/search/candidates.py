"""Networks for the gestures, from small to the tutorial's, and what each is worth: its accuracy after training."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import torch
from gestures import NAMES, accuracy, train, tutorial
from torch import nn

Built = tuple[nn.Module, tuple[torch.Tensor, ...]]
EXAMPLE = (torch.zeros(1, 3, 64),)


def network(first: int, second: int, kernel: int, stride: int) -> nn.Module:
    """Two convolutions over time, a mean, a classifier."""
    return nn.Sequential(
        *(nn.Conv1d(3, first, kernel, stride=stride, padding=kernel // 2), nn.BatchNorm1d(first), nn.ReLU()),
        *(nn.Conv1d(first, second, kernel, stride=2, padding=kernel // 2), nn.BatchNorm1d(second), nn.ReLU()),
        *(nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(second, len(NAMES))),
    )


def built(build: Callable[..., nn.Module], *shape: int) -> Built:
    """A candidate and an example of its input."""
    return build(*shape), EXAMPLE


def candidates() -> Iterator[tuple[str, Callable[[], Built]]]:
    """A name for each, and what builds it: only when it is its turn."""
    yield "tutorial", partial(built, tutorial)
    for first, second, kernel, stride in product((4, 8, 12), (4, 8, 16), (3, 5), (2, 4)):
        name = f"{first}-{second}-k{kernel}-s{stride}"
        yield name, partial(built, network, first, second, kernel, stride)


def score(model: nn.Module) -> float:
    """Trains a candidate as the tutorial trains its network, and gives its accuracy: more is better."""
    train(model)
    return accuracy(model)
