"""Intervals of integer inputs, what they prove, and comparisons that int8 can't answer: warnings and refusals."""

import re
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import cortado
from cortado.artifact.build_report import _options
from cortado.base.errors import CortadoError, CortadoWarning
from cortado.base.findings import FindingKind
from cortado.options import Artifacts, Options
from cortado.plan.lowered import reference_outputs


class Squared(nn.Module):
    def forward(self, ids: Tensor) -> Tensor:
        return (ids * ids) % 1000


class Shared(nn.Module):
    """Integers that float32 makes of integers."""

    def forward(self, ids: Tensor) -> Tensor:
        return (ids.float() * 0.3).long()


class Equal(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Any:
        counted = (x > 0).float().sum(1) == 2
        return x == y, counted, x < y


def drawn(high: int, seed: int = 0) -> list[tuple[Tensor, ...]]:
    rng = torch.Generator().manual_seed(seed)
    return [(torch.randint(0, high, (1, 8), generator=rng),) for _ in range(40)]


def compiled(model: nn.Module, batches: list[tuple[Tensor, ...]], *ranges: str) -> Any:
    options = Options(artifacts=Artifacts.C, range=ranges)  # type: ignore[arg-type]
    return cortado.compile(model, batches[0], calibration=batches, target="cortex-m4", options=options)


def test_products_of_integers_that_may_be_anything_are_told_of_first() -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = compiled(Squared(), drawn(60_000)[:8])  # few samples, and squares beyond 32 bits: other warnings follow
    kinds = [finding.kind for finding in found.report.warnings]
    assert kinds[0] is FindingKind.UNPROVEN_INTEGERS
    assert len(kinds) > 1
    texts = [str(one.message) for one in told if issubclass(one.category, CortadoWarning)]
    assert re.search(r"test_ranges\.py:\d+ \(return \(ids \* ids\) % 1000\).*--range NAME=LOW\.\.HIGH", texts[0])


def test_an_interval_proves_that_products_fit() -> None:
    found = compiled(Squared(), drawn(46_341), "ids=0..46340")
    assert found.report.warnings == ()
    assert found.report.options.range == ("ids=0..46340",)
    for batch in drawn(46_341, seed=1):
        assert torch.equal(reference_outputs(found.graph, batch)[0].long(), Squared()(*batch))


def test_a_function_of_an_integer_that_float32_computes_is_a_table() -> None:
    found = compiled(Shared(), drawn(400), "ids=0..400")
    for batch in drawn(401, seed=1):
        assert torch.equal(reference_outputs(found.graph, batch)[0].long(), Shared()(*batch))


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("ids=0..100000", r"can give integers from 0 to 10000000000, expected integers of 32 bits"),
        ("ids=0..100", r"--range ids=0\.\.100: the example inputs hold \d+ to \d+ in 'ids', expected 0 to 100"),
        ("words=0..100", r"'words' is not a numeric input, expected one of the model's: ids"),
        ("ids=-1..99999.5", r"--range ids=-1\.\.99999\.5: 'ids' holds integers, expected integer bounds"),
        ("ids=0..9999999999", r"expected an interval within -2147483648 to 2147483647"),
        ("ids=5..1", r"--range ids=5\.\.1: expected an input and its interval NAME=LOW\.\.HIGH"),
        ("ids", r"--range ids: expected an input and its interval"),
    ],
)
def test_intervals_that_can_not_be_are_refused(given: str, reason: str) -> None:
    with pytest.raises(CortadoError, match=reason):
        compiled(Squared(), drawn(40_000), given)


def test_an_interval_is_given_once() -> None:
    with pytest.raises(CortadoError, match="--range gives the interval of 'ids' twice"):
        Options(range=("ids=0..1", "ids=0..2"))  # type: ignore[arg-type]
    assert _options(Options(range="ids=-3..4")).range == ("ids=-3..4",)  # type: ignore[arg-type]


def test_real_numbers_that_are_asked_to_be_equal_are_told_of() -> None:
    rng = torch.Generator().manual_seed(0)
    batches = [tuple(torch.randint(-15, 16, (2, 8), generator=rng) / 8 for _ in range(2)) for _ in range(40)]
    with pytest.warns(CortadoWarning, match=r"aten\.eq\.Tensor at .*test_ranges.py:\d+ \(return x == y.*real numbers"):
        found = compiled(Equal(), batches)
    assert [one.kind for one in found.report.warnings] == [FindingKind.EQUAL_REALS]
