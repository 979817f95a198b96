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
from helpers.cores import THREE, each_core
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
    "products and a difference": lambda scores, mask: (
        scores * (mask == 0).float() - 1e4 * (mask != 0).float()
    ).softmax(-1),
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
    assert "the mask hides all of row 3 (1 of 12 rows are hidden)" in message
    assert "test_masks.py:" in message


def test_a_number_that_is_too_small_for_the_scores_is_refused() -> None:
    mask = torch.zeros(LENGTH, LENGTH).masked_fill(CAUSAL, -30.0)
    model = Expression(lambda x, mask: (x + mask).softmax(-1), mask=mask)
    assert lower_with(model, randn(1, LENGTH, LENGTH)).kernels == ["masked_softmax"]
    with pytest.raises(CortadoError, match="the mask adds -30 to scores from"):
        lower_with(model, randn(1, LENGTH, LENGTH, scale=20.0))


def test_distances_beside_a_mask_are_added_to_what_it_leaves() -> None:
    far = -0.5 * (torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)).abs().float()
    both = far.masked_fill(CAUSAL, -math.inf)
    model = Attention(lambda scores, mask: (scores / 3 + both).softmax(-1))
    found = lower_on(model, BATCHES)
    assert found.kernels.count("masked_softmax") == 1
    assert sqnr(found, model) > 33
    attention = Function(lambda self, q: functional.scaled_dot_product_attention(q, q, q, attn_mask=both))
    assert lower_with(attention, randn(1, 2, LENGTH, 8)).kernels.count("masked_softmax") == 1


# ---- masks that are computed -----------------------------------------------------------------------------------------

COMPUTED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "filled": lambda scores, hidden: scores.masked_fill(hidden[:, None, None], -math.inf).softmax(-1),
    "chosen": lambda scores, hidden: (torch.where(~hidden[:, None, None], scores, -1e9) * 0.5).softmax(-1),
    "added": lambda scores, hidden: (
        scores * 0.354 + torch.zeros(1, 1, 1, LENGTH).masked_fill(hidden.view(1, 1, 1, LENGTH), -math.inf)
    ).softmax(-1),
    "beside a constant one": lambda scores, hidden: (
        scores + (torch.zeros(LENGTH, LENGTH).masked_fill(CAUSAL, -1e9) + torch.where(hidden, -1e9, 0.0)[:, None, None])
    ).softmax(-1),
    "along another dimension": lambda scores, hidden: (
        scores.mT.masked_fill(hidden[:, None, :, None], -math.inf).softmax(-2).mT
    ),
}


class Padded(nn.Module):
    """Attention that an input keeps from looking at what is padding."""

    def __init__(self, weights: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.weights = weights

    def forward(self, q: Tensor, hidden: Tensor) -> Tensor:
        return self.weights(q @ q.transpose(-2, -1), hidden) @ q


def padded(seed: int) -> tuple[Tensor, Tensor]:
    length = 1 + (5 * seed) % LENGTH
    return randn(1, 2, LENGTH, 8, seed=seed), torch.arange(LENGTH)[None] >= length


@pytest.mark.cases(2)
@pytest.mark.parametrize("spelling", COMPUTED)
def test_a_computed_mask_is_part_of_the_softmax_too(spelling: str) -> None:
    model, inputs = Padded(COMPUTED[spelling]), [padded(seed) for seed in range(6)]
    found = lower_on(model, inputs)
    assert found.kernels.count("masked_softmax") == 1
    assert not {"where", "softmax", "quantized_add"} & set(found.kernels)
    wanted, got = (
        torch.cat(list(values)) for values in zip(*((model(*x), found.outputs(*x)[0]) for x in inputs), strict=True)
    )
    assert decibels(wanted, got) > 30


@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize("fill", [-math.inf, -1e9])
def test_a_row_of_which_nothing_is_kept(fill: float, added: bool) -> None:
    """0 where the model has 0 / 0, equal parts where it has a finite number."""
    masked = (lambda x, m: x + torch.where(m, 0.0, fill)) if added else (lambda x, m: torch.where(m, x, fill))
    model = Function(lambda self, x, m: masked(x, m).softmax(-1))
    x, m = randn(2, 8), torch.tensor([[True] * 8, [True, False] * 4])
    found = lower_on(model, [(x, m)])
    (result,) = found.outputs(x, torch.zeros(2, 8, dtype=torch.bool))
    assert torch.equal(result, torch.full((2, 8), 0.0 if math.isinf(fill) else 0.125))


@pytest.mark.parametrize("added", [False, True])
def test_a_computed_mask_that_would_still_count_is_refused(added: bool) -> None:
    masked = (lambda x, m: x + torch.where(m, -30.0, 0.0)) if added else (lambda x, m: x.masked_fill(m, -30.0))
    model = Function(lambda self, x, m: masked(x, m).softmax(-1))
    small, large = (randn(4, 8, scale=scale) for scale in (1.0, 20.0))
    mask = randn(4, 8, seed=1) > 0.5
    assert "masked_softmax" in lower_on(model, [(small, mask)]).kernels
    with pytest.raises(CortadoError, match=f"the mask {'adds -30 to' if added else 'puts -30 among'} scores from"):
        lower_on(model, [(large, mask)])


@pytest.mark.qemu
@pytest.mark.parametrize("target", each_core("cortex-m0plus", "cortex-m55", here="cortex-m55"))
def test_computed_masks_on_boards(target: str, tmp_path: Path) -> None:
    """Of heads that share a mask, and of sequences that don't."""
    model = Function(
        lambda self, x, m: (x.masked_fill(m[:, None], -math.inf).softmax(-1), x[:1].masked_fill(m[0], -1e9).softmax(-1))
    )
    batches = [(randn(2, 3, 5, 37, seed=seed, scale=2.0), randn(2, 5, 37, seed=seed + 9) > 0.5) for seed in range(3)]
    compiled = api.prepare(model, batches[0], batches, name="kept").compile(from_target_string(target))
    samples = [[value.numpy() for value in batch] for batch in batches]
    assert compiled.save(tmp_path / "model").run(samples, check_stores=True).bit_exact
    assert any("no mask" in reason for reason in compiled.report.pte_missing)


@pytest.mark.qemu
@pytest.mark.parametrize("target", each_core(*THREE, here="cortex-m4"))
def test_on_boards(target: str, tmp_path: Path) -> None:
    """A mask of rows that differ, over a length that is no multiple of 8 or 16."""
    mask = torch.rand(2, 1, 5, 37, generator=torch.Generator().manual_seed(0)) < 0.4
    model = Expression(lambda x: x.masked_fill(mask, -math.inf).softmax(-1))
    batches = [(randn(2, 3, 5, 37, seed=seed, scale=2.0),) for seed in range(3)]
    compiled = api.prepare(model, batches[0], batches, name="masked").compile(from_target_string(target))
    assert compiled.save(tmp_path / "model").run([[x.numpy()] for (x,) in batches], check_stores=True).bit_exact
    assert "no mask" in compiled.report.pte_missing[0]
