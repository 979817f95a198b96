"""What a process holds of models that nobody holds any more: nothing."""

import gc

import pytest
import torch
from torch.fx import GraphModule

import cortado


@pytest.mark.parametrize("artifacts", ["c", "pte"])
def test_a_model_that_nobody_holds_is_gone(artifacts: str) -> None:
    """Neither graphs nor weights stay behind, of a process that compiles many."""
    options = cortado.Options(artifacts=artifacts)

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.layer(x))

    def graphs() -> int:
        gc.collect()
        return sum(isinstance(one, GraphModule) for one in gc.get_objects())

    def once() -> None:
        batches = [(torch.randn(1, 4),) for _ in range(32)]
        cortado.compile(Net().eval(), batches[0], "cortex-m4", batches, name="net", options=options)

    once()
    before = graphs()
    for _ in range(3):
        once()
    assert graphs() <= before
