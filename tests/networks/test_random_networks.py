"""Random networks from nn.Module to the same bits everywhere: torch, reference, host C, boards, ExecuTorch's runtime.

`make fuzz` runs thousands of them (see docs/testing.md); here are a few, and the proof that every oracle can fail.
"""

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from cortado.ir.op import registry
from fuzz import oracles
from fuzz.blocks import BLOCKS
from fuzz.choices import any_shape, no_options
from fuzz.draw import FEWEST, draw_all, draw_recipe
from fuzz.network import Network, eager
from fuzz.oracles import ANY_BOARDS, TARGETS, Case, Choices, Found, Kind
from fuzz.outcome import Outcome, Pending, Places, check_host, check_recipe, check_seeds
from fuzz.recipe import Block, Layer, Recipe


@pytest.fixture(autouse=True)
def _quiet() -> None:
    """torch warns of views and paddings that are drawn on purpose."""
    warnings.simplefilter("ignore")


def no_bugs(outcomes: list[Outcome]) -> None:
    assert [(outcome.seed, outcome.kind, outcome.what) for outcome in outcomes if outcome.kind] == []


# ---- networks ------------------------------------------------------------------------------------------------------


@pytest.mark.qemu
def test_random_networks() -> None:
    """One in three as a .pte; one in two on a board, so that each core has its turn; one of each kind disturbed."""
    outcomes = check_seeds(
        [*range(15), 1021],  # of 1021 an input is read with 8 and with 16 bits
        lambda seed: Places(board=seed % 2 == 0, pte=seed % 3 == 0, interrupts=seed % 5 == 0),
        checked=True,
    )
    no_bugs(outcomes)
    assert sum(outcome.host for outcome in outcomes) >= 8
    assert sum(outcome.pte for outcome in outcomes) >= 2
    assert len({outcome.board for outcome in outcomes if outcome.board}) >= 3


@pytest.mark.qemu
@pytest.mark.slow
@pytest.mark.parametrize("number", range(1, 9))
def test_many_random_networks(number: int) -> None:
    """Eight times 25 networks."""
    seeds = range(1000 * number, 1000 * number + 25)
    no_bugs(check_seeds(seeds, lambda seed: Places(board=seed % 3 == 0, pte=True, interrupts=seed % 9 == 0)))


def test_a_seed_is_a_network() -> None:
    """The same on every machine: drawn again, and written down and read again."""
    for seed in range(4):
        recipe = draw_recipe(seed)
        assert len(recipe.layers) >= FEWEST
        assert draw_recipe(seed) == eval(repr(recipe)) == recipe
        first, second = (eager(Network(recipe), recipe.batches(1)[0]) for _ in range(2))
        assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.slow
def test_every_operator_that_is_claimed_is_drawn() -> None:
    """Every aten overload that a pattern or a rewrite names stands in a graph that can be drawn."""
    recipe = draw_all(6)  # with which each block happens to draw all its spellings
    program = torch.export.export(Network(recipe), recipe.batches(1)[0], strict=False)
    met = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
    known = registry()
    claimed = {str(target) for target in (*known.patterns, *known.rewrites) if str(target).startswith("aten.")}
    assert claimed - met == set()


def test_boards_of_all_targets_are_drawn() -> None:
    drawn = {(choices.target, choices.board) for choices in map(Choices.draw, range(200))}
    assert drawn == {*TARGETS.items(), *(("cortex-m", board) for board in ANY_BOARDS)}


# ---- every oracle can fail -----------------------------------------------------------------------------------------

SMALL = Recipe(
    inputs=((1, 3, 6, 6),),
    layers=(
        Layer("conv2d", (0,), {"out_channels": 4, "kernel_size": 3}),
        Layer("activation", (1,), {"kind": "nn.ReLU"}),
        Layer("in_place", (2,), {"kind": "mul_scalar_"}),
    ),
    outputs=(3,),
    seed=1,
)


@pytest.fixture(scope="module")
def small() -> Case:
    return Case(SMALL, Choices(), "small")


def test_a_graph_that_computes_something_else_is_found(small: Case) -> None:
    truth = [eager(small.network, batch) for batch in small.batches]
    oracles.check_capture(small, truth)
    truth[0][0][0, 0, 0, 0] += 1  # one sample may be a matter of rounding, all of them are not
    oracles.check_capture(small, truth)
    with pytest.raises(Found, match="output 0: the captured graph in float has") as found:
        oracles.check_capture(small, [[value + 0.1 for value in sample] for sample in truth])
    assert found.value.kind is Kind.CAPTURE


def test_a_reference_that_is_off_is_found(small: Case) -> None:
    assert oracles.check_accuracy(small) > 25
    wrong = Case(SMALL, Choices(), "small")
    weight = max(wrong.graph.constants.values(), key=torch.Tensor.numel)
    weight[0] //= 2
    with pytest.raises(Found, match="dB, PT2E") as found:
        oracles.check_accuracy(wrong)
    assert found.value.kind is Kind.ACCURACY


def on_this_machine(case: Case, old: str, new: str) -> Outcome:
    host, expected = oracles.host_case(case)
    files = {name: text.replace(old, new, 1) for name, text in host.files.items()}
    pending = Pending(Outcome(1), replace(host, files=files), expected)
    check_host([pending], checked=False)
    return pending.outcome


def test_wrong_bits_and_stray_accesses_on_this_machine_are_found(small: Case) -> None:
    assert on_this_machine(small, "", "").host
    assert on_this_machine(small, "#include", "#error\n#include").kind == Kind.HOST.name
    lines = [
        line for line in oracles.host_case(small)[0].files["small.h"].splitlines() if "define SMALL_ARENA_BYTES" in line
    ]
    outcome = on_this_machine(small, lines[-1], "#define SMALL_ARENA_BYTES 64")
    assert outcome.kind == Kind.HOST.name
    assert "AddressSanitizer" in outcome.what


@pytest.mark.qemu
def test_other_bits_elsewhere_are_found(small: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = Case(SMALL, Choices(), "small")
    values = [{name: value.clone() for name, value in sample.items()} for sample in small.values]
    for sample in values:
        for tensor in [*wrong.graph.outputs, *(call.name for call in wrong.graph.calls)]:
            sample[tensor].view(-1)[0] += 1
    wrong.__dict__["values"] = values
    for check, kind in ((oracles.check_board, Kind.BOARD), (oracles.check_pte, Kind.PTE)):
        check(small)
        with pytest.raises(Found, match="differ") as found:
            check(wrong)
        assert found.value.kind is kind


def test_what_is_refused_is_no_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    block = Block(any_shape, no_options, lambda shape: lambda x: torch.cumprod(x, -1))
    monkeypatch.setitem(BLOCKS, "cumprod", block)
    recipe = Recipe(((1, 4, 4),), (Layer("cumprod", (0,), {}),), (1,), 0)
    outcome = check_recipe(recipe, Choices(), Places())
    assert (outcome.kind, outcome.host) == ("", False)
    assert outcome.refused
    assert not any(digit in outcome.refused for digit in "0123456789")


def test_a_crash_is_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*args: object) -> None:
        raise ZeroDivisionError("all wrong")

    monkeypatch.setattr(oracles, "lowered_graph", crash)
    outcome = check_recipe(SMALL, Choices(), Places())
    assert (outcome.kind, outcome.refused) == (Kind.CRASH.name, "")
    assert outcome.what.startswith("ZeroDivisionError at test_random_networks.py:")
    assert np.isfinite(outcome.decibels)
    assert Path(__file__).name in outcome.what
