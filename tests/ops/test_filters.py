"""Filters with feedback: found in models however they are written, exact in integers, stable for ever."""

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cortado.api import prepare
from cortado.base.errors import CortadoError
from cortado.base.target import from_target_string
from cortado.ops.signal.sections import Section, in_integers, response, sections_of
from cortado.options import DEFAULTS, Activations, Artifacts, Options
from cortado.passes import CortexMPassManager
from cortado.plan.lowered import LoweredGraph, after, lowered_graph, run_reference
from cortado.run.runner import HOST
from helpers import filters
from helpers.filters import OfSamples, Signal, as_samples, highpass, lowpass, sound

FRESH = 10_000  # samples


def lowered(model: nn.Module, steps: Tensor, options: Options = DEFAULTS) -> LoweredGraph:
    quantized = prepare(model, (steps[:1],), steps, name="net", options=options).quantized
    target = from_target_string("cortex-m4")
    return lowered_graph(CortexMPassManager(quantized.program(), target_config=target).transform())


def run_steps(graph: LoweredGraph, steps: Tensor) -> Tensor:
    """The reference, step by step."""
    state, found = None, []
    for step in steps:
        values = run_reference(graph, [step[None]], state)
        state = after(graph, values)
        found.append(values[graph.outputs[0]])
    return torch.cat(found)


def eager(model: nn.Module, steps: Tensor) -> Tensor:
    running = copy.deepcopy(model)
    with torch.no_grad():
        return torch.cat([running(step[None]) for step in steps])


def decibels(wanted: Tensor, found: Tensor) -> float:
    error = (wanted.double() - found.double().reshape(wanted.shape)).square().sum()
    return float(10 * torch.log10(wanted.double().square().sum() / error))


def computes(graph: LoweredGraph) -> list[str]:
    """The calls that do more than move."""
    moves = ("aten::", "cortex_m::quantize_per", "cortex_m::dequantize_per", "cortado::raw_samples")
    return [call.operator for call in graph.calls if not call.operator.startswith(moves)]


# ---- however they are written --------------------------------------------------------------------------------

WRITTEN = {
    "direct": (filters.direct(lowpass(0.05)), (16,)),
    "direct, low": (filters.direct(lowpass(0.002)), (16,)),
    "three axes": (filters.axes(lowpass(0.02)), (3, 8)),
    "cascade": (filters.cascade([lowpass(0.05), lowpass(0.08), highpass(0.01)]), (8,)),
    "a sample a call": (filters.one_sample(lowpass(0.03)), (1,)),
    "slow average": (filters.average(0.005), (1,)),
    "end of a block": (filters.last_of_block(0.02), (8,)),
}


@pytest.mark.cases(2)
@pytest.mark.parametrize("name", WRITTEN)
def test_a_filter_keeps_its_signal_over_fresh_samples(name: str) -> None:
    model, shape = WRITTEN[name]
    graph = lowered(model, sound(600 // shape[-1], shape, seed=1))
    assert computes(graph) == ["cortado::filter"]
    assert [graph.values[one.name].dtype for one in graph.state] == [torch.int32]
    steps = sound(FRESH // shape[-1], shape, seed=2)
    wanted, found = eager(model, steps), run_steps(graph, steps)
    assert decibels(wanted, found) > 60
    assert decibels(wanted[-len(wanted) // 10 :], found[-len(wanted) // 10 :]) > 57  # it does not run away


def test_a_window_without_state_is_filtered_with_its_numerator_and_its_clamp() -> None:
    model = filters.in_window(lowpass(0.08, 2.0))
    graph = lowered(model, sound(24, (24,), seed=1))
    assert [one for one in computes(graph) if one != "cortado::function"] == ["cortado::filter"]
    assert not graph.state
    steps = 3 * sound(FRESH // 24, (24,), seed=2)  # beyond the clamp
    assert decibels(eager(model, steps / 3), run_steps(graph, steps / 3)) > 60
    assert float(run_steps(graph, steps).abs().max()) <= 1.0


def test_samples_of_a_converter_go_in_as_they_are() -> None:
    model = OfSamples(filters.direct(highpass(0.01)))
    graph = lowered(model, as_samples(sound(40, (16,), seed=1)))
    assert "cortado::raw_samples" in [call.operator for call in graph.calls]
    steps = as_samples(sound(FRESH // 16, (16,), seed=2))
    assert decibels(eager(model, steps), run_steps(graph, steps)) > 60


# ---- stable for ever -----------------------------------------------------------------------------------------


@pytest.mark.cases(1)
@pytest.mark.parametrize("section", [lowpass(0.001), lowpass(0.2, 30.0), highpass(0.002)])
def test_nothing_is_left_of_a_loud_sound_when_it_is_silent(section: Section) -> None:
    """A limit cycle would go on for ever: no output is a step away from 0."""
    model = filters.direct(section)
    graph = lowered(model, sound(60, (16,), seed=1))
    qparams = graph.values[graph.outputs[0]].qparams or graph.values[graph.calls[-1].refs("input")[0]].qparams
    assert qparams is not None
    loud, silent = torch.sign(sound(100, (16,), seed=2)), torch.zeros(1200, 16)
    found = run_steps(graph, torch.cat([loud, silent]))
    assert float(found[-200:].abs().max()) <= 1.001 * qparams.scale


@pytest.mark.parametrize("section", [lowpass(0.001), lowpass(0.3, 20.0), highpass(0.0005)])
def test_rounding_stays_within_its_bound(section: Section) -> None:
    """Against the same coefficients in float64, over noise at full scale, a step, silence."""
    found = in_integers([section])
    assert found is not None
    exact = found.coefficients[0] / 2.0**30
    rng = np.random.default_rng(0)
    samples = np.concatenate([rng.choice([-32768, 32767], 3000), np.full(3000, 32767), np.zeros(3000)]).astype(int)
    b0, b1, b2, a1, a2 = (int(one) for one in found.coefficients[0])
    u1 = u2 = y1 = y2 = rest = 0
    p1 = p2 = q1 = q2 = 0.0
    worst = 0.0
    for sample in samples.tolist():
        u = sample << 13
        v = b0 * u + b1 * u1 + b2 * u2 - a1 * y1 - a2 * y2 + rest
        y, rest = v >> 30, v & (2**30 - 1)
        assert abs(y) < 2**29
        q = exact[0] * u + exact[1] * p1 + exact[2] * p2 - exact[3] * q1 - exact[4] * q2
        u2, u1, y2, y1, p2, p1, q2, q1 = u1, u, y1, y, p1, u, q1, q
        worst = max(worst, abs(y - q))
    assert worst <= found.error + 1


def test_poles_and_zeros_follow_from_responses() -> None:
    sections = [lowpass(0.05), lowpass(0.11), highpass(0.02), (1.0, 0.5, 0.0, -0.3, 0.0)]
    impulse = response(sections, 900)
    columns = np.stack([impulse[1 + at : 801 + at] for at in range(40)], 1)
    found = sections_of(impulse, columns)
    assert found is not None
    assert len(found) == len(sections)
    assert float(np.abs(response(found, 900) - impulse).max()) < 1e-7 * float(np.abs(impulse).max())


# ---- the same bits -------------------------------------------------------------------------------------------


@pytest.mark.cases(1)
@pytest.mark.host
@pytest.mark.qemu
@pytest.mark.parametrize("target", ["cortex-m0plus", "cortex-m4", "cortex-m55"])
def test_boards_and_this_machine_give_the_references_bits(target: str, tmp_path: Path) -> None:
    model, calibration = filters.axes(lowpass(0.02)), sound(40, (3, 8), seed=1)
    made = prepare(model, (calibration[:1],), calibration, name="net").compile(target, Options(artifacts=Artifacts.C))
    artifact = made.save(tmp_path / "net")
    steps = [[step[None].numpy()] for step in sound(120, (3, 8), seed=2)]
    assert artifact.run(steps, HOST).bit_exact
    assert artifact.run(steps).bit_exact


# ---- refused, and left alone ---------------------------------------------------------------------------------


def test_a_filter_that_grows_without_bound_is_refused_in_a_sentence() -> None:
    b0, b1, b2, a1, _ = lowpass(0.1)
    with pytest.raises(CortadoError, match=r"pole of magnitude 1\.02, expected less than 1.*half of the sample rate"):
        lowered(filters.direct((b0, b1, b2, a1, 1.02**2)), sound(8, (8,), seed=1))


def test_a_cutoff_too_low_for_its_sample_rate_is_refused() -> None:
    with pytest.raises(CortadoError, match="cutoff is too low for this sample rate"):
        lowered(filters.average(1e-7), sound(64, (1,), seed=1))


def _kept(self: Any, x: Tensor) -> Tensor:
    self.h = 0.5 * self.h + x
    return self.h * 2.0


def _bent(self: Any, x: Tensor) -> Tensor:
    self.h = 0.99 * self.h + 0.01 * torch.tanh(self.h + x)
    return self.h * 2.0


def _sum(self: Any, x: Tensor) -> Tensor:
    self.h = self.h + x
    return self.h * 2.0


@pytest.mark.cases(1)
@pytest.mark.parametrize("function", [_kept, _bent, _sum])
def test_what_is_no_filter_or_forgets_quickly_stays_as_it_was(function: Callable[..., Tensor]) -> None:
    graph = lowered(Signal(function, h=torch.zeros(1, 4)), sound(40, (4,), seed=1))
    assert "cortado::filter" not in computes(graph)
    assert [graph.values[one.name].dtype for one in graph.state] == [torch.int16]


def _tracked(self: Any, x: Tensor) -> Tensor:
    """A Kalman filter of constant gain: what it predicts is read by the filter of its errors and by what follows."""
    predicted = self.h @ self.step
    predicted = predicted + (x - predicted[:, :2]) @ self.gain
    self.h.copy_(predicted)
    return predicted


def test_state_that_is_also_read_behind_a_filter_stays() -> None:
    step = torch.eye(4) + 0.1 * torch.eye(4).roll(2, 0).tril()
    gain = torch.tensor([[0.4, 0.0, 0.3, 0.0], [0.0, 0.4, 0.0, 0.3]])
    model = Signal(_tracked, h=torch.zeros(1, 4), step=step, gain=gain)
    graph = lowered(model, sound(40, (2,), seed=1))
    assert [tuple(graph.values[one.name].shape) for one in graph.state] == [(1, 4)]


# ---- other signals -------------------------------------------------------------------------------------------


def _emphasis(self: Any, x: Tensor) -> Tensor:
    y = x - 0.97 * torch.cat([self.last, x[:, :-1]], 1)
    self.last = x[:, -1:]
    return y


def _fir(self: Any, x: Tensor) -> Tensor:
    both = torch.cat([self.last, x], 1)
    self.last = both[:, -14:]
    return nn.functional.conv1d(both[:, None], self.taps)[:, 0]


def _variance(self: Any, x: Tensor) -> Tensor:
    self.mean = 0.95 * self.mean + 0.05 * x.mean(1, keepdim=True)
    self.spread = 0.95 * self.spread + 0.05 * (x - self.mean).square().mean(1, keepdim=True)
    return self.spread * 1.0


TAPS = torch.hann_window(15, periodic=False)[None, None] / 7
OTHERS = {
    "pre-emphasis": Signal(_emphasis, last=torch.zeros(1, 1)),
    "FIR": Signal(_fir, taps=TAPS, last=torch.zeros(1, 14)),
    "FIR of a window": Signal(lambda self, x: nn.functional.conv1d(x[:, None], self.taps)[:, 0], taps=TAPS),
    "decimation": Signal(lambda self, x: x[:, ::4] * 1.0),
    "running variance": Signal(_variance, mean=torch.zeros(1, 1), spread=torch.zeros(1, 1)),
    "peak": Signal(lambda self, x: x.abs().amax(1, keepdim=True)),
    "root mean square": Signal(lambda self, x: x.square().mean(1, keepdim=True).sqrt()),
}


def _mean(self: Any, x: Tensor) -> Tensor:
    self.mean = 0.95 * self.mean + 0.05 * x.mean(1, keepdim=True)
    return self.mean * 1.0


def test_a_running_mean_of_blocks_is_a_filter_of_one_pole() -> None:
    model = Signal(_mean, mean=torch.zeros(1, 1))
    graph = lowered(model, sound(40, (16,), seed=1))
    (words,) = graph.state
    assert graph.values[words.name].shape == (1, 1, 5)
    steps = sound(FRESH // 16, (16,), seed=2)
    assert decibels(eager(model, steps), run_steps(graph, steps)) > 45


@pytest.mark.parametrize("name", OTHERS)
def test_other_signals_keep_forty_decibels_in_16_bits(name: str) -> None:
    options = Options(activations=Activations.INT16)
    graph = lowered(OTHERS[name], sound(40, (32,), seed=1), options)
    steps = sound(FRESH // 32, (32,), seed=2)
    assert decibels(eager(OTHERS[name], steps), run_steps(graph, steps)) > 45


@pytest.mark.cases(2)
@pytest.mark.parametrize("name", OTHERS)
def test_other_signals_of_samples_keep_forty_decibels_without_being_asked(name: str) -> None:
    model = OfSamples(OTHERS[name])
    graph = lowered(model, as_samples(sound(40, (32,), seed=1)))
    steps = as_samples(sound(FRESH // 32, (32,), seed=2))
    assert decibels(eager(model, steps), run_steps(graph, steps)) > 45


def test_what_is_neither_a_sum_nor_in_proportion_stays_int8() -> None:
    """A network of samples: its biases don't grow with them."""
    torch.manual_seed(0)
    model = OfSamples(nn.Sequential(nn.Linear(32, 8), nn.ReLU(), nn.Linear(8, 3)))
    graph = lowered(model, as_samples(sound(40, (32,), seed=1)))
    made = [graph.element(call.name).name for call in graph.calls if call.operator == "cortado::quantize_int"]
    assert set(made) == {"int8"}


CROSSINGS: dict[str, Callable[..., Tensor]] = {
    "product": lambda self, x: ((x[:, 1:] * x[:, :-1]) < 0).sum(1),
    "signs": lambda self, x: ((x[:, 1:] < 0) != (x[:, :-1] < 0)).sum(1),
}


@pytest.mark.parametrize("name", CROSSINGS)
def test_zero_crossings_of_samples_are_counted_exactly(name: str) -> None:
    model = OfSamples(Signal(CROSSINGS[name]))
    graph = lowered(model, as_samples(sound(20, (32,), seed=1)))
    steps = as_samples(sound(200, (32,), seed=2))
    assert torch.equal(eager(model, steps), run_steps(graph, steps).reshape(-1))
    assert math.prod(steps.shape) > 6000
