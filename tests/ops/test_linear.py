"""Linear layers of any rank, matrix products, one scale for all weights."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from cortado.options import LinearWeights
from cortado.plan.lowered import reference_outputs
from helpers import single
from helpers.single import Function, assert_close, lower

# ---- linear layers and matrix products -----------------------------------------------------------------------


@pytest.mark.cases(3)
@pytest.mark.parametrize("leading", [(), (3,), (2, 3), (1, 2, 3), (1, 2, 1, 3)])
@pytest.mark.parametrize("bias", [True, False])
def test_linear_of_any_rank(leading: tuple[int, ...], bias: bool) -> None:
    found = lower(nn.Linear(7, 5, bias=bias), [(*leading, 7)])
    assert_close(found)
    assert found.kernels == ["quantized_conv2d_nhwc"]


PRODUCTS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]], str]] = {
    "matrix and constant": (lambda self, x: x @ self.w[0], [(3, 7)], "quantized_conv2d_nhwc"),
    "batch and constant": (lambda self, x: x @ self.w[0], [(2, 3, 7)], "quantized_conv2d_nhwc"),
    "constant vector": (lambda self, x: x @ self.w[0, :, 0], [(2, 3, 7)], "quantized_conv2d_nhwc"),
    "constant for each entry": (lambda self, x: x @ self.w, [(2, 3, 7)], "quantized_batch_matmul"),
    "constant on the left": (lambda self, x: self.w[0].t() @ x, [(7, 3)], "quantized_batch_matmul"),
    "bmm": (lambda self, x, y: torch.bmm(x, y), [(2, 3, 7), (2, 7, 4)], "quantized_batch_matmul"),
    "bmm of one": (lambda self, x, y: torch.bmm(x, y), [(1, 3, 7), (1, 7, 4)], "quantized_batch_matmul"),
    "mm": (lambda self, x, y: torch.mm(x, y), [(3, 7), (7, 4)], "quantized_batch_matmul"),
    "attention": (lambda self, x, y: x @ y.transpose(-1, -2), [(1, 2, 3, 7), (1, 2, 4, 7)], "quantized_batch_matmul"),
    "rank 4": (lambda self, x, y: x @ y, [(2, 2, 3, 7), (2, 2, 7, 4)], "quantized_batch_matmul"),
    "one right side": (lambda self, x, y: x @ y, [(2, 2, 3, 7), (7, 4)], "quantized_batch_matmul"),
    "one left side": (lambda self, x, y: x @ y, [(3, 7), (2, 7, 4)], "quantized_batch_matmul"),
    "both broadcast": (lambda self, x, y: x @ y, [(2, 1, 3, 7), (1, 3, 7, 4)], "quantized_batch_matmul"),
    "vector on the right": (lambda self, x, y: x @ y, [(3, 7), (7,)], "quantized_batch_matmul"),
    "vector on the left": (lambda self, x, y: x @ y, [(7,), (7, 4)], "quantized_batch_matmul"),
    "two vectors": (lambda self, x, y: x @ y, [(7,), (7,)], "quantized_batch_matmul"),
    "computed weights": (lambda self, x, y: functional.linear(x, y), [(3, 7), (4, 7)], "quantized_batch_matmul"),
    "addmm": (lambda self, x: torch.addmm(self.b, x, self.w[0]), [(3, 7)], "quantized_conv2d_nhwc"),
}


@pytest.mark.parametrize("kind", PRODUCTS)
def test_matrix_products(kind: str) -> None:
    function, shapes, operator = PRODUCTS[kind]
    rng = torch.Generator().manual_seed(1)
    parts = {"w": torch.randn(2, 7, 4, generator=rng), "b": torch.randn(4, generator=rng)}
    found = lower(Function(function, **parts), shapes)
    assert_close(found)
    assert operator in found.kernels
    assert len([name for name in found.kernels if name not in ("repeat", "expand")]) == 1


def test_attention_needs_no_transpose() -> None:
    """The kernel wants its right side transposed, which is what it already is."""
    found = lower(Function(lambda self, x, y: x @ y.transpose(-1, -2)), [(1, 2, 3, 7), (1, 2, 4, 7)])
    assert found.operators == ["quantized_batch_matmul"]


# ---- one scale for all weights of a linear layer -------------------------------------------------------------


def test_per_tensor_linear_carries_what_the_target_reads() -> None:
    """MVE reads kernel_sum, the others bias; a target that stands for all carries both, and all mean the same."""
    model = nn.Linear(9, 5)
    with torch.no_grad():
        model.weight[:, 0] = 1.0  # the largest of each row: all rows get one scale, so nothing is rounded again
        model.weight[:, 1:].clamp_(-0.9, 0.9)
    carried, results = {}, []
    batches = [(torch.randn(2, 3, 9),) for _ in range(4)]
    for target in ("cortex-m55", "cortex-m4", "cortex-m0", "cortex-m"):
        found = single.lower_on(model, batches, target, LinearWeights.PER_TENSOR)
        assert_close(found)
        (call,) = found.calls("cortex_m::quantized_linear")
        carried[target] = (call.arguments["bias"] is not None, call.arguments["kernel_sum"] is not None)
        results.append(reference_outputs(found.graph, found.batches[0])[0])
    bias, sums = (True, False), (False, True)
    assert carried == {"cortex-m55": sums, "cortex-m4": bias, "cortex-m0": bias, "cortex-m": (True, True)}
    assert all(torch.equal(result, results[0]) for result in results)


def test_per_tensor_linear_rescales_channels() -> None:
    """Rows of different sizes share the largest scale: less exact than per channel, but the same layer."""
    model = nn.Linear(9, 5)
    with torch.no_grad():
        model.weight *= torch.tensor([1.0, 0.9, 0.8, 0.7, 0.6])[:, None]
    batches = [(torch.randn(3, 9),) for _ in range(4)]
    assert 0.0 < single.lower_on(model, batches, linear=LinearWeights.PER_TENSOR).worst() < 4.0
