"""Threads that compile: what is changed in torch meanwhile is seen by one of them, and is gone when it is done."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from cortado.api import Compiled, compile, prepare_qat
from cortado.base.errors import CortadoError
from cortado.ir.patched import PLACES, RECOMPILE, late_code, replaced
from cortado.options import Artifacts, Options


def _functions() -> list[Callable[..., Any]]:
    return [place.function() for place in PLACES]


def _compiled(seed: int) -> Compiled:
    model = nn.Sequential(nn.Conv1d(2, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(18, 4)).eval()
    random = torch.Generator().manual_seed(seed)  # torch's own is one of all threads
    for parameter in model.parameters():
        nn.init.normal_(parameter, generator=random)
    data = torch.randn(32, 2, 8, generator=random)
    return compile(model, (data[:1],), "cortex-m4", data, name="net", options=Options(artifacts=Artifacts.C))


def test_two_threads_compile_and_both_give_what_one_gives() -> None:
    before = _functions()
    expected = [_compiled(seed).bundle for seed in (1, 2)]
    with ThreadPoolExecutor(2) as pool:
        found = [one.bundle for one in pool.map(_compiled, (1, 2))]
    assert [one and one.files for one in found] == [one and one.files for one in expected]
    assert _functions() == before


def test_training_and_compiling_at_once() -> None:
    with ThreadPoolExecutor(2) as pool:
        trained = pool.submit(prepare_qat, nn.Sequential(nn.Linear(4, 2)), (torch.ones(1, 4),))
        compiled = pool.submit(_compiled, 1)
        assert trained.result() is not None
        assert compiled.result().bundle is not None


def test_a_thread_that_does_not_compile_sees_torch_as_it_is() -> None:
    """It traces modules of its own while the other is inside of a pass."""
    codes: list[str] = []

    def trace() -> None:
        module = torch.fx.symbolic_trace(nn.ReLU())
        codes.append("written" if "_code" in module.__dict__ else "put off")

    with late_code():
        other = threading.Thread(target=trace)
        other.start()
        other.join()
        trace()
    assert codes == ["written", "put off"]


def test_whatever_ends_it_torch_is_as_it_was() -> None:
    before = _functions()
    with pytest.raises(KeyboardInterrupt), late_code(), late_code():
        raise KeyboardInterrupt
    assert _functions() == before


@pytest.mark.parametrize(
    ("name", "parameters", "told"),
    [("GraphModule.gone", ("self",), "is not there"), ("GraphModule.recompile", ("self", "how"), r"takes \(self\)")],
)
def test_another_version_of_torch_is_told_of(name: str, parameters: tuple[str, ...], told: str) -> None:
    place = replace(RECOMPILE, name=name, parameters=parameters)
    with pytest.raises(CortadoError, match=f"{told} in torch 2.*none that Cortado knows"), replaced(place, print):
        pass
