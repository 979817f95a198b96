"""Functions of int16 codes that jump or are steep: lines between entries would smear them."""

import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cortado.api import Model, prepare
from cortado.base.element import INT16
from cortado.base.errors import CortadoError
from cortado.ops.elementwise import function_tables
from cortado.options import Activations, Artifacts, Options
from cortado.plan.lowered import after, run_reference
from helpers.cores import THREE, each_core
from helpers.stateful import eager_steps

pytestmark = pytest.mark.filterwarnings("ignore::cortado.base.errors.CortadoWarning")  # few samples
LENGTH = 997
Function = Callable[[Tensor], Tensor]
FUNCTIONS: dict[str, Function] = {
    "sign": lambda x: torch.sign(x) + x,
    "gate": lambda x: x * (x > 0.25),
    "shrink": lambda x: F.hardshrink(x, 0.3),
    "saw": lambda x: torch.remainder(x, 0.5),
    "root": lambda x: torch.sqrt(torch.relu(x)),
    "logarithm": lambda x: torch.log(x.abs() + 1e-3),
}


class Applied(nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def prepared(function: Function, *, allow_float: bool = False) -> Model:
    line = torch.linspace(-1, 1, LENGTH)[None]
    options = Options(activations=Activations.INT16, artifacts=Artifacts.C, allow_float=allow_float)
    return prepare(Applied(function), (line,), [(line,)], name="jumps", options=options)


@pytest.mark.cases(2)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_jump_stays_a_jump(name: str) -> None:
    """Numbers around every jump, as the codes have them: a line there is thousands of codes off."""
    compiled = prepared(FUNCTIONS[name]).compile("cortex-m4")
    assert compiled.graph is not None
    assert "cortado::patched_function" in {call.operator for call in compiled.graph.calls}
    (given,) = compiled.report.inputs
    assert given.scale is not None
    near = torch.cat([torch.linspace(at - 0.01, at + 0.01, 142) for at in (-0.5, -0.3, 0.0, 0.25, 0.3, 0.5, 0.9)])
    codes = (near[:LENGTH] / given.scale).round()
    codes = F.pad(codes, (0, LENGTH - len(codes)))[None]
    found = run_reference(compiled.graph, (codes * given.scale,))[compiled.graph.outputs[0]]
    off = (FUNCTIONS[name](codes * given.scale) - found.to(torch.float32)).abs().max()
    assert compiled.report.outputs[0].scale is not None
    assert float(off) <= (function_tables.CLOSE + 1) * compiled.report.outputs[0].scale


@pytest.mark.qemu
@pytest.mark.parametrize("target", each_core(*THREE, here="cortex-m4"))
def test_the_bits_are_the_same_everywhere(target: str) -> None:
    codes = np.random.default_rng(1).integers(-32768, 32768, (1, LENGTH)).astype(np.int16)
    assert prepared(FUNCTIONS["saw"]).compile(target).run(codes).bit_exact


def test_smooth_functions_need_no_values_of_their_own() -> None:
    for function in (torch.tanh, torch.sigmoid, torch.sin):
        graph = prepared(function).compile("cortex-m4").graph
        assert graph is not None
        assert "cortado::patched_function" not in {call.operator for call in graph.calls}


def test_what_swings_too_often_is_refused() -> None:
    with pytest.raises(CortadoError, match=r"jumps or oscillates too often: .* expected at most 512; keep it in int8"):
        prepared(lambda x: torch.sin(900 * x)).compile("cortex-m4")


def test_what_swings_too_often_is_float32_where_that_is_allowed() -> None:
    compiled = prepared(lambda x: torch.sin(900 * x) + x, allow_float=True).compile("cortex-m4")
    assert "aten.sin.default" in {one.operator for one in compiled.report.islands}
    assert all("oscillates too often" in one.reason for one in compiled.report.islands)
    x = torch.linspace(-1, 1, LENGTH)[None]
    assert compiled.run(x, on="host").bit_exact


def test_the_values_are_kept_where_a_line_is_furthest_off() -> None:
    codes = function_tables.all_codes().to(torch.float64)
    wanted = torch.where(codes >= 300, codes / 2 + 9000, codes / 2)
    found = function_tables.patched(wanted)
    assert found.parts.nonzero().reshape(-1).tolist() == [(300 - INT16.low) // 128]
    assert found.left <= 1
    given = function_tables.patched_reference(
        input=codes.to(torch.int16), table=found.table, parts=found.parts, exact=found.exact
    )
    assert float((given.to(torch.float64) - wanted).abs().max()) <= 1


class Spiking(nn.Module):
    """Leaky neurons: what passes 1 is a spike, and is taken away."""

    charge: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 8)
        self.register_buffer("charge", torch.zeros(1, 8))

    def forward(self, x: Tensor) -> Tensor:
        charged = 0.9 * self.charge + torch.sigmoid(self.layer(x))
        self.charge = charged - (charged > 1).float()
        return self.charge


def test_neurons_that_spike_keep_their_charge() -> None:
    """Where a spike is a line over 128 codes, a third of the charges are right."""
    torch.manual_seed(2)
    model, steps = Spiking().eval(), torch.randn(264, 6)
    calibration = [(step[None],) for step in steps[:64]]
    options = Options(artifacts=Artifacts.C)
    graph = prepare(copy.deepcopy(model), calibration[0], calibration, options=options).compile("cortex-m4").graph
    assert graph is not None
    found, state = [], None
    for step in steps[64:]:
        values = run_reference(graph, (step[None],), state)
        state = after(graph, values)
        found.append(values[graph.outputs[0]].to(torch.float32).numpy())
    (wanted,) = eager_steps(model, steps[64:])
    close = np.abs(np.concatenate(found) - wanted) < 0.05
    assert close.mean() > 0.98
