"""Integers and truth values of a compiled model beside those of the module itself, on fresh data."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

import cortado
from cortado.options import Artifacts, Options
from cortado.plan.lowered import reference_outputs

C_ALONE = Options(artifacts=Artifacts.C)
STEPS = 24


def compiled(model: nn.Module, batches: Sequence[tuple[Tensor, ...]]) -> Any:
    return cortado.compile(model.eval(), batches[0], calibration=batches, target="cortex-m4", options=C_ALONE)


def drawn(draw: Callable[[torch.Generator], tuple[Tensor, ...]], seed: int) -> list[tuple[Tensor, ...]]:
    rng = torch.Generator().manual_seed(seed)
    return [draw(rng) for _ in range(STEPS)]


def assert_equal_to_eager(model: nn.Module, draw: Callable[[torch.Generator], tuple[Tensor, ...]]) -> None:
    """Integers and truth values of the reference are those of the model, on data that calibration did not see."""
    made = compiled(model, drawn(draw, 0))
    for inputs in drawn(draw, 1):
        (found,) = reference_outputs(made.graph, inputs)
        assert torch.equal(found, model(*inputs).to(found.dtype))
