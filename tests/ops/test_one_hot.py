"""One-hot vectors times a matrix are an embedding: no unit matrix, no vector of zeros in the arena."""

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional

import cortado
from cortado.options import Artifacts, Options

Tensor = torch.Tensor
COUNT, PLACES, WIDTH = 40, 6, 8


class OneHot(nn.Module):
    """Ids as one-hot vectors, in a layer of the last dimension or of all of them."""

    def __init__(self, apply: Callable[["OneHot", Tensor], Tensor], depth: int) -> None:
        super().__init__()
        self.layer, self.apply_layer = nn.Linear(depth, WIDTH), apply

    def forward(self, ids: Tensor) -> Tensor:
        return torch.relu(self.apply_layer(self, functional.one_hot(ids, COUNT).float()))


LAYERS: dict[str, tuple[Callable[[OneHot, Tensor], Tensor], int]] = {
    "linear": (lambda self, x: self.layer(x), COUNT),
    "matmul": (lambda self, x: x @ self.layer.weight.T, COUNT),
    "behind a view": (lambda self, x: self.layer(x.reshape(PLACES, COUNT)), COUNT),
    "flattened": (lambda self, x: self.layer(x.reshape(1, PLACES * COUNT)), PLACES * COUNT),
}


@pytest.mark.host
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_of_one_hot_vectors_is_a_lookup(name: str) -> None:
    torch.manual_seed(0)
    apply, depth = LAYERS[name]
    ids = [(torch.randint(0, COUNT, (1, PLACES)),) for _ in range(32)]
    model = OneHot(apply, depth).eval()
    compiled = cortado.compile(model, ids[0], "cortex-m4", ids, name="hot", options=Options(artifacts=Artifacts.C))
    assert "cortado::embedding" in compiled.report.operators
    assert not any("linear" in one or "conv2d" in one for one in compiled.report.operators) or name == "flattened"
    assert compiled.report.flash is not None
    assert compiled.report.memory is not None
    assert compiled.report.flash.weights_bytes < depth * WIDTH + 300  # no unit matrix of 1,600 bytes
    assert compiled.report.memory.arena_bytes < 8 * PLACES * WIDTH
    checked = compiled.run(*ids[1], on="host")
    assert checked.bit_exact
    with torch.no_grad():
        wanted = model(*ids[1])
    assert float((torch.from_numpy(checked.outputs[0]) - wanted).abs().max()) < 0.05 * float(wanted.abs().max())


def test_a_layer_that_makes_rows_longer_stays_a_layer() -> None:
    """A table of 200 rows of 64 values is larger than one of 200 rows of 2 and a matrix of 2 by 64."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(200, 2), nn.Linear(2, 64)).eval()
    ids = [(torch.randint(0, 200, (1, 4)),) for _ in range(32)]
    compiled = cortado.compile(model, ids[0], "cortex-m4", ids, name="long", options=Options(artifacts=Artifacts.C))
    assert compiled.report.flash is not None
    assert compiled.report.flash.weights_bytes < 2000
