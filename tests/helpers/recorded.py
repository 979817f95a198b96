"""The layers recorded from CMSIS-NN: parameters, inputs and what came out."""

import json
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from helpers.paths import CONFORMANCE

if TYPE_CHECKING:
    import torch

Params = dict[str, Any]
Arrays = dict[str, np.ndarray]
Tensors = dict[str, "torch.Tensor"]


@cache
def recorded(name: str) -> list[tuple[Params, Arrays]]:
    """Every layer of one file."""
    archive = np.load(CONFORMANCE / f"{name}.npz")
    layers: list[tuple[Params, Arrays]] = [(params, {}) for params in json.loads(archive["params"].tobytes())]
    for key in archive.files:
        if key != "params":
            number, array = key.split(".", 1)
            layers[int(number)][1][array] = archive[key]
    return layers


def recorded_tensors(name: str) -> list[tuple[Params, Tensors]]:
    import torch  # not for the kernels: sanitizers run them without it

    return [
        (params, {key: torch.from_numpy(array) for key, array in arrays.items()}) for params, arrays in recorded(name)
    ]
