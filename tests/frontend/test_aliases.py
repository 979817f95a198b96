"""Memory under several names, as eager torch has it: written through one, read through another.

The oracle is the model itself, run eagerly: the graph must give the same, or be refused with a reason.
"""

from typing import Any

import pytest
import torch

from cortado.base.errors import CortadoError
from cortado.frontend.capture.export import capture
from cortado.frontend.rewrite.pipeline import canonicalize
from cortado.frontend.rewrite.writes import written
from cortado.plan.lowered import reference_outputs
from helpers.aliases import RIGHT, SHAPE, Program, Tensor
from helpers.single import Function, lower, tensors


@pytest.mark.parametrize("name", RIGHT)
def test_a_written_tensor_is_what_eager_torch_makes_of_it(name: str) -> None:
    model, rng = Function(RIGHT[name]).eval(), torch.Generator().manual_seed(0)
    example, other = torch.randn(SHAPE, generator=rng), torch.randn(SHAPE, generator=rng)
    graph = canonicalize(capture(model, [example]).module, [example])
    assert not any(written(node) for node in graph.graph.nodes)
    with torch.no_grad():
        for found, wanted in zip(tensors(graph(other.clone())), tensors(model(other.clone())), strict=True):
            assert torch.equal(found, wanted)


QUANTIZED = ["dropout", "chunk", "unbind", "type_as", "input", "chain of views", "assignments", "filled"]


@pytest.mark.cases(2)
@pytest.mark.parametrize("name", QUANTIZED)
def test_in_integers_too(name: str) -> None:
    """Through the whole compiler, beside the model itself."""
    single = lower(Function(RIGHT[name]), [SHAPE])
    for batch in single.batches:
        wanted = tensors(RIGHT[name](None, *(value.clone() for value in batch)))
        for found, want in zip(reference_outputs(single.graph, batch), wanted, strict=True):
            assert 10 * torch.log10((want**2).sum() / ((want - found) ** 2).sum()) > 30


def _windows(model: Any, x: Tensor) -> Tensor:
    y = x * 1.25
    windows = y.unfold(3, 3, 1)
    y.relu_()
    return windows * 2.0


def _uneven_steps(model: Any, x: Tensor) -> Tensor:
    y = x[:, :3] * 1.25
    y[:, ::2].relu_()
    return y


def _out(model: Any, x: Tensor) -> Tensor:
    y = torch.zeros(SHAPE)
    torch.add(x, x, out=y)
    return y


def _empty(model: Any, x: Tensor) -> Tensor:
    return x + torch.empty(8)


def _empty_like(model: Any, x: Tensor) -> Tensor:
    y = torch.empty_like(x)
    y[:, 1:] = 2.0
    return x + y


def _new_empty(model: Any, x: Tensor) -> Tensor:
    return x + x.new_empty(8)


SHARED = r"aten\.relu_\.default at .*\.py:\d+ .* writes into memory that aten\..* shares and that is read again later"
EMPTY = "gives uninitialized memory, expected values that are the same every time; use torch.zeros"
REFUSED: dict[str, tuple[Program, str]] = {
    "windows": (_windows, SHARED),
    "uneven steps": (_uneven_steps, SHARED),
    "out": (_out, r"aten\.add\.out at .* writes its result into a given tensor \(out="),
    "empty": (_empty, rf"aten\.empty\.memory_format at .*\.py:\d+ .* {EMPTY}"),
    "empty_like": (_empty_like, rf"aten\.empty_like\.default at .* {EMPTY}"),
    "new_empty": (_new_empty, rf"aten\.new_empty\.default at .* {EMPTY}"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_can_not_be_served_is_refused(name: str) -> None:
    program, reason = REFUSED[name]
    with pytest.raises(CortadoError, match=reason):
        lower(Function(program), [SHAPE])
