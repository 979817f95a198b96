"""A mask is a fact about a tensor: kept through arithmetic and movement until something reads it, or refused."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from cortado import api
from cortado.base.target import from_target_string
from fuzz.masks import check
from helpers.cores import THREE, each_core
from helpers.single import Function, Single, decibels, lower_on, randn, rejected

Tensor = torch.Tensor
Spelled = Callable[[Any, Tensor, Tensor], Tensor]
LENGTH = 12
AHEAD = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
LOWEST = torch.finfo(torch.float32).min
BIAS = randn(LENGTH, LENGTH, seed=5)
T = torch.tensor(1.7)


def formula(x: Tensor) -> Tensor:
    parts = torch.exp(x - x.amax(-1, keepdim=True))
    return parts / parts.sum(-1, keepdim=True)


def without_largest(x: Tensor) -> Tensor:
    return x - x.max(-1, keepdim=True).values


def written(x: Tensor, hidden: Tensor) -> Tensor:
    result = x.clone()
    result[hidden.expand(x.shape)] = -1e9
    return result


SOFTMAX: dict[str, Spelled] = {
    "truth times number": lambda self, s, m: (s + m.float() * LOWEST).softmax(-1),
    "taken away": lambda self, s, m: (s - m.float() * 1e9).softmax(-1),
    "learned factor behind": lambda self, s, m: (self.t * s.masked_fill(m, -math.inf)).softmax(-1),
    "bias behind": lambda self, s, m: (s.masked_fill(m, -math.inf) + BIAS).softmax(-1),
    "by its formula": lambda self, s, m: formula(s.masked_fill(m, -math.inf)),
    "reshaped": lambda self, s, m: s.masked_fill(m, -1e9).reshape(-1, LENGTH).softmax(-1).reshape(s.shape),
    "logarithm of truth": lambda self, s, m: (s + (~m).float().log()).softmax(-1),
    "two in a row": lambda self, s, m: s.masked_fill(m, -math.inf).masked_fill(m & AHEAD, -math.inf).softmax(-1),
    "two added": lambda self, s, m: (s + m * -1e9 + torch.zeros(LENGTH, LENGTH).masked_fill(AHEAD, -1e9)).softmax(-1),
    "a tensor of one number": lambda self, s, m: (torch.full((LENGTH,), 0.3) * s + m.float() * LOWEST).softmax(-1),
    "integers": lambda self, s, m: (s + (1 - (~m).long()) * -10000.0).softmax(-1),
    "bounded": lambda self, s, m: torch.max(s + m.float() * LOWEST, torch.tensor(LOWEST)).softmax(-1),
    "permuted": lambda self, s, m: s.masked_fill(m, -math.inf).permute(0, 2, 1).softmax(1).permute(0, 2, 1),
    "joined": lambda self, s, m: torch.cat([s.masked_fill(m, -math.inf), s + m * -1e9], 1).softmax(-1)[:, :LENGTH],
    "without the largest": lambda self, s, m: without_largest(s.masked_fill(m, -1e9)).softmax(-1),
    "written": lambda self, s, m: written(s, m).softmax(-1),
    "its logarithm": lambda self, s, m: s.masked_fill(m, -math.inf).log_softmax(-1).exp(),
}
OTHERS: dict[str, Spelled] = {
    "sigmoid": lambda self, s, m: s.masked_fill(m, -math.inf).sigmoid(),
    "exp": lambda self, s, m: (s.masked_fill(m, -math.inf) * 0.3).exp(),
    "relu": lambda self, s, m: s.masked_fill(m, -1e9).relu(),
    "clamp": lambda self, s, m: s.masked_fill(m, -math.inf).clamp(min=-3.0),
    "largest": lambda self, s, m: s.masked_fill(m, -math.inf).amax(-1),
    "largest along": lambda self, s, m: s.masked_fill(m, -1e9).max(-1).values,
    "best": lambda self, s, m: s.masked_fill(m, -math.inf).topk(1, -1).values,
    "sum of exponentials": lambda self, s, m: s.masked_fill(m, -math.inf).logsumexp(-1),
    "maximum": lambda self, s, m: torch.maximum(s.masked_fill(m, -math.inf), s * 0.1),
    "shown again": lambda self, s, m: s.masked_fill(m, -math.inf).masked_fill(m, 0.5),
    "maximum with -inf": lambda self, s, m: torch.maximum(s.amax(-1), torch.tensor(-math.inf)),
}


def batch(seed: int, computed: bool, size: float) -> tuple[Tensor, ...]:
    scores = randn(2, LENGTH, LENGTH, seed=seed, scale=size)
    hidden = torch.rand(1, 1, LENGTH, generator=torch.Generator().manual_seed(seed)) < 0.5
    hidden[..., 0] = False
    return (scores, hidden) if computed else (scores,)


def spelled(spelling: Spelled, computed: bool) -> nn.Module:
    """The mask is an input, or what is ahead of each row."""
    return Function(lambda self, s, *m: spelling(self, s, m[0] if computed else AHEAD), t=T.clone())


def both(found: Single, model: nn.Module, computed: bool) -> tuple[Tensor, Tensor]:
    """What the model gives on fresh data, and the integers."""
    fresh = [batch(seed, computed, 1.2) for seed in range(20, 26)]
    with torch.no_grad():
        wanted = torch.cat([model(*one) for one in fresh])
    return wanted, torch.cat([found.outputs(*one)[0] for one in fresh])


@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize("name", SOFTMAX)
def test_what_is_hidden_has_no_probability(name: str, computed: bool) -> None:
    model = spelled(SOFTMAX[name], computed)
    found = lower_on(model, [batch(seed, computed, 1.8) for seed in range(6)])
    wanted, got = both(found, model, computed)
    assert bool((wanted == 0).any())
    assert not bool(got[wanted == 0].any())
    assert decibels(wanted, got) > 33
    assert "softmax" not in found.kernels


@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize("name", OTHERS)
def test_other_readers_of_what_is_hidden(name: str, computed: bool) -> None:
    model = spelled(OTHERS[name], computed)
    wanted, got = both(lower_on(model, [batch(seed, computed, 1.8) for seed in range(6)]), model, computed)
    assert decibels(wanted, got) > 30


@pytest.mark.cases(1)
@pytest.mark.parametrize("computed", [False, True])
def test_the_position_of_the_largest_is_never_hidden(computed: bool, tmp_path: Path) -> None:
    """Not even where all that is kept has the lowest code."""
    model = spelled(lambda self, s, m: s.masked_fill(m, -math.inf).argmax(-1), computed)
    batches = [batch(seed, computed, 1.8) for seed in range(6)]
    compiled = api.prepare(model, batches[0], batches, name="best").compile(from_target_string("cortex-m4"))
    scores, *mask = batch(3, computed, 1.0)
    low = (scores - 100.0, *mask)
    found = compiled.save(tmp_path / "model").run([[one.numpy() for one in low]], on="host").outputs[0]
    hidden = (mask[0] if computed else AHEAD).expand(scores.shape)
    positions = torch.tensor(found).long().reshape(2, LENGTH, 1)
    assert not bool(hidden.gather(-1, positions).any())


# ---- rows that are hidden whole ------------------------------------------------------------------------------------


def whole(seed: int) -> Tensor:
    hidden = torch.rand(1, LENGTH, LENGTH, generator=torch.Generator().manual_seed(seed)) < 0.5
    hidden[:, seed % LENGTH] = True
    return hidden


@pytest.mark.cases(3)
@pytest.mark.parametrize("fill", [-1e4, -1e9, LOWEST])
@pytest.mark.parametrize("kind", ["added", "constant", "filled", "two"])
def test_a_row_that_is_hidden_whole_is_what_float32_makes_of_it(kind: str, fill: float) -> None:
    """The softmax of the scores beside -1e4, equal parts beside -1e9, of those that two masks hide least."""
    constant, ahead = whole(3), torch.zeros(LENGTH, LENGTH).masked_fill(AHEAD, fill)
    masked: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
        "added": lambda s, m: s + m.float() * fill,
        "constant": lambda s, m: s + torch.zeros(LENGTH, LENGTH).masked_fill(constant, fill),
        "filled": lambda s, m: s.masked_fill(m, fill),
        "two": lambda s, m: s + m.float() * fill + ahead,
    }
    model = Function(lambda self, s, m: masked[kind](s, m).softmax(-1))
    batches = [(randn(2, LENGTH, LENGTH, seed=seed, scale=1.8), whole(seed)) for seed in range(6)]
    found = lower_on(model, batches)
    fresh = [(randn(2, LENGTH, LENGTH, seed=seed), whole(seed)) for seed in range(20, 24)]
    wanted, got = (torch.cat(list(x)) for x in zip(*((model(*b), found.outputs(*b)[0]) for b in fresh), strict=True))
    assert float((wanted - got).abs().max()) < 0.03


@pytest.mark.parametrize("fill", [-1e9, LOWEST])
@pytest.mark.parametrize("kind", ["bounded", "clamped", "smaller"])
def test_a_bound_of_two_masks_is_a_bound_of_their_sum(kind: str, fill: float) -> None:
    """What both hide is no further away than what one of them hides: a row that is hidden whole has equal parts."""
    ahead = torch.zeros(LENGTH, LENGTH).masked_fill(AHEAD, fill)
    masked: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
        "bounded": lambda s, m: torch.maximum(s + m.float() * fill + ahead, torch.tensor(fill)),
        "clamped": lambda s, m: (s + m.float() * fill + ahead).clamp(min=fill),
        "smaller": lambda s, m: torch.minimum(s.masked_fill(m, fill), s + ahead),
    }
    model = Function(lambda self, s, m: masked[kind](s, m).softmax(-1))
    batches = [(randn(2, LENGTH, LENGTH, seed=seed, scale=1.8), whole(seed)) for seed in range(6)]
    found = lower_on(model, batches)
    fresh = [(randn(2, LENGTH, LENGTH, seed=seed), whole(seed)) for seed in range(20, 24)]
    wanted, got = (torch.cat(list(x)) for x in zip(*((model(*b), found.outputs(*b)[0]) for b in fresh), strict=True))
    assert float((wanted - got).abs().max()) < 0.03


@pytest.mark.qemu
@pytest.mark.parametrize("target", each_core(*THREE, here="cortex-m55"))
def test_masks_and_rows_of_nothing_on_boards(target: str, tmp_path: Path) -> None:
    constant, ahead = whole(3), torch.zeros(LENGTH, LENGTH).masked_fill(AHEAD, -1e4)

    def forward(self: nn.Module, s: Tensor, m: Tensor) -> tuple[Tensor, ...]:
        return (
            (s + m.float() * -1e4 + ahead).softmax(-1),
            (s + torch.zeros(LENGTH, LENGTH).masked_fill(constant, -1e6)).softmax(-1),
            (s + m.float() * -1e6).softmax(-1),
            s.masked_fill(m, -1e9).log_softmax(-1).exp(),
        )

    batches = [(randn(2, LENGTH, LENGTH, seed=seed, scale=1.8), whole(seed)) for seed in range(3)]
    compiled = api.prepare(Function(forward), batches[0], batches, name="rows").compile(from_target_string(target))
    samples = [[value.numpy() for value in one] for one in batches]
    assert compiled.save(tmp_path / "model").run(samples, check_stores=True).bit_exact


# ---- layers of torch's own -----------------------------------------------------------------------------------------


class Layer(nn.Module):
    def __init__(self, kind: str, causal: bool) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.kind, self.mask = kind, AHEAD if causal else None
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.encoder = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0)

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:
        if self.kind == "encoder":
            found: Tensor = self.encoder(x, src_mask=self.mask, src_key_padding_mask=padding)
            return found
        if self.kind == "weights":
            result: Tensor = self.attention(x, x, x, key_padding_mask=padding, attn_mask=self.mask)[1]
            return result
        keeps = ~padding[:, None] if self.mask is None else ~(padding[:, None] | self.mask)
        return functional.scaled_dot_product_attention(x, x, x, attn_mask=keeps)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", ["encoder", "weights", "attention"])
def test_torchs_own_layers_with_padding(kind: str, causal: bool) -> None:
    model = Layer(kind, causal).eval()

    def padded(seed: int, size: float) -> tuple[Tensor, Tensor]:
        return randn(1, LENGTH, 16, seed=seed, scale=size), torch.arange(LENGTH)[None] >= 3 + seed % 9

    found = lower_on(model, [padded(seed, 1.3) for seed in range(8)])
    assert found.kernels.count("masked_softmax") == 1
    fresh = [padded(seed, 1.0) for seed in range(20, 24)]
    with torch.no_grad():
        wanted = torch.cat([model(*one) for one in fresh])
    got = torch.cat([found.outputs(*one)[0] for one in fresh])
    assert decibels(wanted, got) > 25
    assert kind != "weights" or not bool(got[wanted == 0].any())


# ---- what can't be kept --------------------------------------------------------------------------------------------

LOST: dict[str, Callable[[Tensor], Tensor]] = {
    "the model's output": lambda x: x.masked_fill(AHEAD, -1e9),
    "aten.matmul.default": lambda x: x.masked_fill(AHEAD, -math.inf) @ x,
    "aten.mean.dim": lambda x: (x + torch.zeros(LENGTH, LENGTH).masked_fill(AHEAD, -1e9)).mean(-1),
    "aten.linear.default": lambda x: functional.linear(x.masked_fill(AHEAD, -1e9), BIAS),
}


@pytest.mark.parametrize("what", LOST)
def test_numbers_that_stand_for_infinity_are_refused_where_they_would_be_values(what: str) -> None:
    message = rejected(Function(lambda self, x: LOST[what](x)), randn(1, LENGTH, LENGTH))
    assert message.startswith(f"{what} ")
    assert "reads values some of which stand for infinity" in message
    assert "test_hidden.py:" in message


def test_numbers_of_the_size_of_values_are_values() -> None:
    """-80 dB is a level, and -1e5 pascal a pressure, where no softmax reads them."""
    model = Function(lambda self, x: torch.where(x > 0, x * 10, -80.0) * 2)
    x = randn(4, 16)
    assert decibels(model(x), lower_on(model, [(x,)]).outputs(x)[0]) > 35


def test_a_mask_that_was_joined_is_still_a_mask() -> None:
    """Truth values that a concatenation brought to another scale choose as before."""
    model = Function(lambda self, x, m: torch.where(torch.cat([m, m | (x > 9.0)], 1), torch.cat([x, -x], 1), 0.5))
    batches = [(randn(4, 8, seed=seed), randn(4, 8, seed=seed + 9) > 0) for seed in range(3)]
    found = lower_on(model, batches)
    assert decibels(model(*batches[0]), found.outputs(*batches[0])[0]) > 30


@pytest.mark.parametrize("seed", range(12))
def test_masks_by_random_composition(seed: int) -> None:
    assert check(seed) is None
