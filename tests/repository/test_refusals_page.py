"""The page of refusals is the sources', and what users are told is on it."""

import re
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from cortado.base.errors import CortadoError, NotInteger
from helpers.golden import Golden
from helpers.paths import ROOT
from helpers.refusals_page import HOLE, page, refusals
from helpers.single import Expression, lower_with, rejected


def test_the_page_of_refusals_is_the_sources(golden: Golden) -> None:
    golden(ROOT / "docs" / "refusals.md", page())


def is_on_the_page(text: str) -> bool:
    sentences = [item.sentence for item in refusals() if not item.pte]
    return any(re.fullmatch(re.escape(sentence).replace(re.escape(HOLE), ".+"), text) for sentence in sentences)


@pytest.mark.parametrize(
    "function",
    [lambda x: torch.cumprod(x, 1), lambda x: x[:, [0, 2]][..., None].cummax(1)[0]],
    ids=["no operator", "several results"],
)
def test_what_is_said_of_a_call_is_on_the_page(function: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(NotInteger) as caught:
        lower_with(Expression(function), torch.randn(1, 2000))
    for reason in caught.value.reasons:
        assert is_on_the_page(reason.split("): ", 1)[1]), reason


def test_what_is_said_of_a_model_is_on_the_page() -> None:
    message = rejected(torch.nn.Linear(4, 4).double(), torch.randn(1, 4))
    assert is_on_the_page(message), message
    with pytest.raises(CortadoError) as caught:
        lower_with(torch.nn.LazyLinear(4), torch.randn(1, 4))
    assert is_on_the_page(str(caught.value)), str(caught.value)
    assert not is_on_the_page("no reason at all")
