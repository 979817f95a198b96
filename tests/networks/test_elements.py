"""A second element: a network of int16 codes through every stage, the same bits on every core.

No option asks for it yet: the scheme of the quantizer says which element a call's real numbers have.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.fx import Node
from torch.nn import functional as F

from cortado.api import Model, prepare
from cortado.base.element import INT8, INT16, Element
from cortado.base.errors import CortadoError
from cortado.frontend import convert
from cortado.frontend.observers import SETTLED
from cortado.plan.lowered import LoweredGraph, reference_outputs
from helpers.single import decibels

pytestmark = pytest.mark.filterwarnings("ignore::cortado.base.errors.CortadoWarning")  # few samples


class Sums(nn.Module):
    """Sums, a difference with a factor, an operand per channel, a relu, and movement around them."""

    bias: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("bias", torch.linspace(-1, 1, 6))

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        first = (x + y).transpose(1, 2).reshape(1, 4, 6)
        second = torch.sub(first + self.bias, first.flip(1), alpha=0.25)
        return torch.relu(second + first)[:, 1:], F.pad(second, (1, 2)).repeat(1, 2, 1)


def batches(count: int, seed: int) -> list[tuple[Tensor, Tensor]]:
    rng = torch.Generator().manual_seed(seed)
    return [(torch.randn(1, 6, 4, generator=rng), torch.randn(1, 6, 4, generator=rng)) for _ in range(count)]


def prepared(monkeypatch: pytest.MonkeyPatch, model: nn.Module, wanted: Callable[[Node], Element]) -> Model:
    monkeypatch.setattr(convert, "SETTLED", replace(SETTLED, element=wanted))
    data = batches(33, 1)
    return prepare(model.eval(), data[0], data, name="sums")


def noise(graph: LoweredGraph) -> list[float]:
    """Of each output, in decibels, on data that calibration has not seen."""
    fresh = batches(8, 2)
    found = [reference_outputs(graph, batch) for batch in fresh]
    with torch.no_grad():
        wanted = [Sums()(*batch) for batch in fresh]
    return [
        decibels(torch.cat([one[i] for one in wanted]), torch.cat([one[i].to(torch.float32) for one in found]))
        for i in range(2)
    ]


@pytest.mark.host
def test_a_network_of_int16_codes_is_far_closer_to_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = prepared(monkeypatch, Sums(), lambda node: INT16).compile("cortex-m4")
    graph = compiled.graph
    assert graph is not None
    assert {value.element for value in graph.values.values() if value.qparams is not None} == {INT16}
    assert min(noise(graph)) > 75
    assert [tensor.dtype for tensor in (*compiled.report.inputs, *compiled.report.outputs)] == ["int16"] * 4
    assert "#define SUMS_INPUT0_TYPE int16_t" in compiled.bundle.files["sums.h"]  # type: ignore[union-attr]
    assert any("of int16 codes exists in the C bundle only" in reason for reason in compiled.report.pte_missing)
    narrow = prepared(monkeypatch, Sums(), lambda node: INT8).compile("cortex-m4").graph
    assert narrow is not None
    assert max(noise(narrow)) < 50


@pytest.mark.qemu
@pytest.mark.parametrize("target", ["cortex-m0plus", "cortex-m4", "cortex-m55"])
def test_the_bits_are_the_same_everywhere(monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    compiled = prepared(monkeypatch, Sums(), lambda node: INT16).compile(target)
    x, y = batches(1, 3)[0]
    for where in ("host", "board"):
        checked = compiled.run(x, y * 3, on=where) if where == "host" else compiled.run(x, y * 3)
        assert checked.bit_exact, where
    codes = np.arange(-12, 12, dtype=np.int16).reshape(1, 6, 4) * 2730
    assert compiled.run(codes, codes[:, ::-1].copy(), on="host").bit_exact


def test_what_has_no_way_between_two_elements_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function of one tensor is a table of 256 codes: it reads int8, and nothing makes that of int16 yet."""

    class Curved(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return torch.tanh(x + y)

    model = prepared(monkeypatch, Curved(), lambda node: INT16)
    with pytest.raises(CortadoError, match="int16 codes are read as int8 codes of another scale"):
        model.compile("cortex-m4")
