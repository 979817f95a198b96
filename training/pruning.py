"""Pruning of whole channels: a penalty draws the scales of batch norms to zero, and the smallest are set to zero."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import torch
from torch import Tensor, nn

import common

PENALTY = 3e-4  # of the sum of all scales, beside the loss
LEAST_KEPT = 0.25  # of each layer's channels


def layers(model: nn.Module) -> Iterator[tuple[nn.Conv2d, nn.BatchNorm2d]]:
    """Each convolution that mixes channels, with the batch norm behind it."""
    for convolution, norm in pairwise(model.modules()):
        if isinstance(convolution, nn.Conv2d) and convolution.groups == 1 and isinstance(norm, nn.BatchNorm2d):
            yield convolution, norm


def penalized(task: common.Task, model: nn.Module) -> common.Task:
    """The task with a penalty on the scales of batch norms."""
    scales = [norm.weight for _, norm in layers(model)]

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        found: Tensor = task.loss(outputs, targets) + PENALTY * torch.stack([one.abs().sum() for one in scales]).sum()
        return found

    return replace(task, loss=loss)


@torch.no_grad()
def prune(model: nn.Module, share: float) -> None:
    """Sets the smallest channels of the whole network to zero.

    They stay there when it is trained on: behind a filter and an offset of zeros no gradient passes the ReLU.
    """
    every = torch.cat([norm.weight.abs() for _, norm in layers(model)])
    limit = every.sort().values[int(share * len(every))]
    for convolution, norm in layers(model):
        scales = norm.weight.abs()
        most = scales.sort(descending=True).values[int(LEAST_KEPT * len(scales))]
        gone = scales < torch.minimum(limit, most)
        for parameter in (convolution.weight, norm.weight, norm.bias):
            parameter[gone] = 0.0
        print(f"{int(gone.sum())} of {len(gone)} channels are pruned")
