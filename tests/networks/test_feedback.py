"""State that is computed from itself is int16 by default: seven kinds of it, calibrated on one sequence of 64 steps and
held to the module on fresh ones of 200; the same bits on the boards."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cortado.api import Compiled
from cortado.api import compile as compile_model
from cortado.artifact.report import DType
from cortado.base.element import INT8, INT16
from cortado.frontend.capture.export import capture
from cortado.frontend.precision.elements import loops_of
from cortado.options import Options
from cortado.plan.lowered import LoweredGraph, after, run_reference
from cortado.run.runner import HOST, RUNTIME_CHECKS
from helpers.feedback import FEEDBACK
from helpers.stateful import STATEFUL, decibels, eager_steps

pytestmark = pytest.mark.filterwarnings("ignore::cortado.base.errors.CortadoWarning")
BOARDS = ("cortex-m0plus", "cortex-m4", "cortex-m55")
ON_BOARDS = {name: BOARDS[number % len(BOARDS)] for number, name in enumerate(FEEDBACK)}
QUICK = ("kalman", "biquads")
FRESH = 10


def compiled(name: str, target: str, state: str = "int16") -> Compiled:
    one = FEEDBACK[name]
    steps = one.sequence(64, seed=1)
    options = Options(state=state, artifacts="c" if state == "int16" else "both")  # type: ignore[arg-type]
    return compile_model(
        one.model(), (steps[:1],), target, [(step[None],) for step in steps], name=name, options=options
    )


def reference_steps(graph: LoweredGraph, sequence: Tensor) -> np.ndarray:
    found, state = [], None
    for step in sequence:
        values = run_reference(graph, (step[None],), state)
        state = after(graph, values)
        found.append(values[graph.outputs[0]].to(torch.float32).numpy())
    return np.concatenate(found)


def noise(name: str, graph: LoweredGraph | None, sequences: int) -> float:
    """Over all fresh sequences, in decibels."""
    one = FEEDBACK[name]
    assert graph is not None
    fresh = [one.sequence(200, seed=100 + number) for number in range(sequences)]
    wanted = np.concatenate([eager_steps(one.model(), sequence)[0] for sequence in fresh])
    return decibels(wanted, np.concatenate([reference_steps(graph, sequence) for sequence in fresh]))


@pytest.mark.cases(1)
@pytest.mark.host
@pytest.mark.qemu
@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in FEEDBACK]
)
def test_feedback_keeps_the_modules_signal_on_fresh_sequences(name: str, tmp_path: Path) -> None:
    made = compiled(name, ON_BOARDS[name])
    assert made.graph is not None
    assert {(state.dtype, state.why) for state in made.report.state} == {(DType.INT16, "computed from itself")}
    assert noise(name, made.graph, 2) > 40
    steps = [[step[None].numpy()] for step in FEEDBACK[name].sequence(20, seed=9) * 3]
    artifact = made.save(tmp_path / name)
    assert artifact.run(steps, HOST, flags=(RUNTIME_CHECKS,)).bit_exact
    assert artifact.run(steps).bit_exact


@pytest.mark.slow
@pytest.mark.parametrize("name", FEEDBACK)
def test_feedback_keeps_the_modules_signal_on_ten_fresh_sequences(name: str) -> None:
    assert noise(name, compiled(name, "cortex-m4").graph, FRESH) > 28


def test_int8_state_is_there_for_who_asks() -> None:
    made = compiled("biquads", "cortex-m4", "int8")
    assert made.graph is not None
    assert {value.element for value in made.graph.values.values() if value.qparams is not None} == {INT8}
    assert made.pte is not None
    assert noise("biquads", made.graph, 1) < 35  # what 16 bits are for


@pytest.mark.cases(2)
@pytest.mark.parametrize("name", ["ring", "cache", "delay", "rolling", "streaming"])
def test_what_only_delays_or_has_no_int16_kernel_stays_int8(name: str) -> None:
    one = STATEFUL[name]
    steps = one.steps(33, seed=3)
    made = compile_model(one.model(), (steps[:1],), "cortex-m4", steps, name=name)
    assert made.graph is not None
    assert INT16 not in {value.element for value in made.graph.values.values()}
    whys = {state.why for state in made.report.state}
    if name == "streaming":
        assert len(whys) == 1
        assert "has 16 bits from step to step: cortado.gru_layer" in whys.pop()
    else:
        assert whys == {"only moved and chosen from"}


class _Two(nn.Module):
    """A loop through two buffers, one that is computed from them alone, and a peak that is only chosen."""

    a: Tensor
    b: Tensor
    c: Tensor
    peak: Tensor

    def __init__(self) -> None:
        super().__init__()
        for name in ("a", "b", "c", "peak"):
            self.register_buffer(name, torch.zeros(1, 4))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        a, b = self.a, self.b
        old = self.c
        self.c = a + b
        self.a, self.b = 0.5 * b + x, a - x
        self.peak = torch.maximum(self.peak, x)
        return old, self.peak, self.a


def test_loops_are_found_through_several_buffers() -> None:
    graph = capture(_Two().eval(), (torch.zeros(1, 4),)).module.graph
    found = [{node.name for node in loop.states} for loop in loops_of(graph)]
    assert sorted(map(sorted, found)) == [["state_a", "state_b"], ["state_peak"]]
