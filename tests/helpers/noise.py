"""A compiled model's signal to noise, output by output, beside that of PT2E's fake quantization of the same model."""

import copy
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from cortado.artifact.opened import Artifact
from cortado.frontend.quantize.convert import Quantized
from cortado.frontend.rewrite.state import holders
from cortado.ir.facts import STATE
from helpers.single import decibels, tensors

Samples = Sequence[tuple[Tensor, ...]]
LOST = 1.0  # decibels that integers may be behind


def eager_outputs(model: nn.Module, samples: Samples) -> list[tuple[Tensor, ...]]:
    """The module itself, on one sample after the other: where it has state, they are steps."""
    running = copy.deepcopy(model)
    with torch.no_grad():
        return [tuple(value.clone() for value in tensors(running(*sample))) for sample in samples]


def fake_outputs(quantized: Quantized, samples: Samples) -> list[tuple[Tensor, ...]]:
    """PT2E's graph, in float; its last inputs and outputs are state."""
    state = tuple(STATE.must(node).initial for node in holders(quantized.converted.graph))
    found = []
    with torch.no_grad():
        for sample in samples:
            made = tensors(quantized.converted(*sample, *state))
            kept = len(made) - len(state)
            state = made[kept:]
            found.append(made[:kept])
    return found


def integer_outputs(artifact: Artifact, samples: Samples) -> list[tuple[Tensor, ...]]:
    """The reference of a compiled model, as real numbers."""
    arrays = [[value.numpy() for value in sample] for sample in samples]
    found = [artifact.real(sample) for sample in artifact.reference(arrays).expected]
    return [tuple(torch.from_numpy(np.ascontiguousarray(value)) for value in sample) for sample in found]


def of_outputs(wanted: Samples, found: Samples) -> list[float | None]:
    """The signal to noise of each output that holds real numbers."""
    return [
        decibels(torch.cat([one.flatten() for one in first]), torch.cat([one.flatten() for one in second]))
        if first[0].is_floating_point()
        else None
        for first, second in zip(zip(*wanted, strict=True), zip(*found, strict=True), strict=True)
    ]


def beside_pt2e(model: nn.Module, quantized: Quantized, artifact: Artifact, samples: Samples) -> list[float]:
    """The decibels of each output that holds real numbers; no output may lose more than one beside PT2E."""
    wanted = eager_outputs(model, samples)
    ours = of_outputs(wanted, integer_outputs(artifact, samples))
    theirs = of_outputs(wanted, fake_outputs(quantized, samples))
    pairs = [(a, b) for a, b in zip(ours, theirs, strict=True) if a is not None and b is not None]
    assert all(a > b - LOST for a, b in pairs), pairs
    return [a for a, _ in pairs]
