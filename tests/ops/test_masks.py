"""Masks in front of a softmax: every spelling becomes part of it, and what is masked takes no part in anything."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from cortado import api
from cortado.base.errors import CortadoError
from cortado.base.target import from_target_string
from helpers.single import Expression, Function, Single, decibels, lower_on, lower_with, randn, rejected

Tensor = torch.Tensor
LENGTH, WIDTH = 12, 16
CAUSAL = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
BATCHES = [(randn(1, LENGTH, WIDTH, seed=seed),) for seed in range(6)]


class Attention(nn.Module):
    """Causal attention of two heads, its mask in one of many spellings."""

    mask: Tensor

    def __init__(self, weights: Callable[[Tensor, Tensor], Tensor], fill: float = -math.inf) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.qkv, self.out, self.weights = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH), weights
        self.register_buffer("mask", torch.zeros(LENGTH, LENGTH).masked_fill(CAUSAL, fill), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.reshape(1, LENGTH, 2, 8).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        y = self.weights(q @ k.transpose(-2, -1), self.mask) @ v
        return self.out(y.transpose(1, 2).reshape(x.shape))


SPELLINGS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "added": lambda scores, mask: (scores / math.sqrt(8) + mask).softmax(-1),
    "added first, scaled then": lambda scores, mask: ((mask + scores) * 0.354).softmax(-1),
    "made in the model": lambda scores, mask: (scores + torch.full((LENGTH, LENGTH), -1e9).triu(1)).softmax(-1),
    "filled": lambda scores, mask: (scores / 3).masked_fill(mask != 0, -math.inf).softmax(-1),
    "chosen": lambda scores, mask: torch.where(mask == 0, scores, torch.tensor(-1e4)).softmax(-1),
    "chosen the other way round": lambda scores, mask: torch.where(mask != 0, -1e4, scores).softmax(-1),
}


def sqnr(found: Single, model: nn.Module) -> float:
    """Of the integers to the model itself."""
    with torch.no_grad():
        wanted = torch.cat([model(*batch) for batch in found.batches])
    return decibels(wanted, torch.cat([found.outputs(*batch)[0] for batch in found.batches]))


@pytest.mark.parametrize(
    ("spelling", "fill"), [*((spelling, -math.inf) for spelling in SPELLINGS), ("added", -1e9), ("added", -100.0)]
)
def test_every_spelling_is_one_softmax(spelling: str, fill: float) -> None:
    model = Attention(SPELLINGS[spelling], fill)
    found = lower_on(model, BATCHES)
    assert found.kernels.count("masked_softmax") == 1
    assert not {"softmax", "quantized_add", "quantized_activation"} & set(found.kernels)
    (call,) = found.calls("cortado::masked_softmax")
    assert torch.equal(found.graph.constants[call.refs("mask")[0]], CAUSAL)
    assert sqnr(found, model) > 33


def in_pt2e(found: Single) -> Tensor:
    """Fake quantization with the mask in float."""
    return torch.cat([found.expected(*batch)[0] for batch in found.batches])


def test_nothing_is_lost_beside_pt2e_with_the_mask_in_float() -> None:
    model = Attention(SPELLINGS["added"])
    found = lower_on(model, BATCHES)
    with torch.no_grad():
        wanted = torch.cat([model(*batch) for batch in BATCHES])
    assert abs(sqnr(found, model) - decibels(wanted, in_pt2e(found))) < 1.0


def test_what_is_masked_is_exactly_zero() -> None:
    model = Function(lambda self, a, b: (a @ b).masked_fill(CAUSAL, -math.inf).softmax(-1))
    (result,) = lower_with(model, randn(1, LENGTH, 8), randn(1, 8, LENGTH)).outputs()
    assert torch.equal(result == 0, (result < 1 / 256))
    assert not bool(result[0][CAUSAL].any())


def test_scores_that_are_masked_do_not_saturate_others() -> None:
    """One that is masked everywhere is a hundred times as large as the others: nobody sees a difference."""
    found = {}
    for times in (1.0, 100.0):
        layer = nn.Linear(8, LENGTH)
        with torch.no_grad():
            layer.weight.copy_(randn(LENGTH, 8)).mul_(torch.tensor([1.0] * (LENGTH - 1) + [times])[:, None])
        last = torch.arange(LENGTH) == LENGTH - 1
        model = Function(lambda self, x, last=last: self.layer(x).masked_fill(last, -math.inf).softmax(-1), layer=layer)
        found[times] = sqnr(lower_on(model, [(randn(1, LENGTH, 8),)]), model)
    assert found[100.0] > found[1.0] - 0.5 > 35


@pytest.mark.parametrize("how", ["causal", "boolean", "added", "grouped"])
def test_scaled_dot_product_attention(how: str) -> None:
    masks: dict[str, dict[str, Any]] = {"causal": {"is_causal": True}, "boolean": {"attn_mask": ~CAUSAL},
             "added": {"attn_mask": torch.zeros(LENGTH, LENGTH).masked_fill(CAUSAL, -1e9)},
             "grouped": {"is_causal": True, "enable_gqa": True}}  # fmt: skip
    heads = 2 if how == "grouped" else 4
    model = Function(lambda self, q, k, v: functional.scaled_dot_product_attention(q, k, v, **masks[how]))
    sizes = [(1, 4, LENGTH, 8), (1, heads, LENGTH, 8), (1, heads, LENGTH, 8)]
    inputs = [tuple(randn(*size, seed=seed + 7 * place) for place, size in enumerate(sizes)) for seed in range(4)]
    found = lower_on(model, inputs)
    assert found.kernels.count("masked_softmax") == 1
    wanted, got = (
        torch.cat(list(values)) for values in zip(*((model(*x), found.outputs(*x)[0]) for x in inputs), strict=True)
    )
    assert decibels(wanted, got) > 32


def test_cross_attention_over_another_length() -> None:
    mask = torch.rand(LENGTH, 5, generator=torch.Generator().manual_seed(0)) < 0.5
    mask[:, 0] = False
    model = Function(lambda self, q, k: functional.scaled_dot_product_attention(q, k, k, attn_mask=~mask))
    found = lower_with(model, randn(2, LENGTH, 8), randn(2, 5, 8))
    assert found.kernels.count("masked_softmax") == 1
    assert found.steps_apart() < 4


def test_numbers_that_are_no_mask_stay_an_addition() -> None:
    """Distances, as in ALiBi."""
    far = -0.5 * (torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)).abs().float()
    found = lower_on(Attention(lambda scores, mask: (scores + far).softmax(-1)), BATCHES)
    assert "masked_softmax" not in found.kernels
    assert {"quantized_add", "softmax"} <= set(found.kernels)


def test_over_another_dimension_than_the_last() -> None:
    found = lower_with(Expression(lambda x: x.masked_fill(CAUSAL.T, -math.inf).softmax(1)), randn(3, LENGTH, LENGTH))
    assert found.kernels == ["masked_softmax"]
    assert found.steps_apart() <= 2.01


def test_a_row_that_is_masked_whole_is_refused_with_its_line() -> None:
    mask = CAUSAL.clone()
    mask[3] = True
    message = rejected(Expression(lambda x: x.masked_fill(mask, -math.inf).softmax(-1)), randn(1, LENGTH, LENGTH))
    assert "the mask leaves nothing of row 3 (1 of 12 rows have nothing left)" in message
    assert "test_masks.py:" in message


def test_a_number_that_is_too_small_for_the_scores_is_refused() -> None:
    mask = torch.zeros(LENGTH, LENGTH).masked_fill(CAUSAL, -30.0)
    model = Expression(lambda x, mask: (x + mask).softmax(-1), mask=mask)
    assert lower_with(model, randn(1, LENGTH, LENGTH)).kernels == ["masked_softmax"]
    with pytest.raises(CortadoError, match="the mask adds -30 to scores that reach over"):
        lower_with(model, randn(1, LENGTH, LENGTH, scale=20.0))


def test_a_mask_that_changes_with_the_input_is_refused_with_its_reason() -> None:
    model = Function(lambda self, x: functional.scaled_dot_product_attention(x, x, x, attn_mask=(x[:, :, 0:1] > 0)))
    with pytest.raises(CortadoError, match=r"its attn_mask '\w+' changes with the input; expected a constant one"):
        lower_with(model, randn(1, LENGTH, LENGTH))


@pytest.mark.qemu
@pytest.mark.parametrize("target", ["cortex-m0plus", "cortex-m4", "cortex-m55"])
def test_on_boards(target: str, tmp_path: Path) -> None:
    """A mask of rows that differ, over a length that is no multiple of 8 or 16."""
    mask = torch.rand(2, 1, 5, 37, generator=torch.Generator().manual_seed(0)) < 0.4
    model = Expression(lambda x: x.masked_fill(mask, -math.inf).softmax(-1))
    batches = [(randn(2, 3, 5, 37, seed=seed, scale=2.0),) for seed in range(3)]
    compiled = api.prepare(model, batches[0], batches, name="masked").compile(from_target_string(target))
    assert compiled.save(tmp_path / "model").run([[x.numpy()] for (x,) in batches], check_stores=True).bit_exact
    assert "no mask" in compiled.report.pte_missing[0]
