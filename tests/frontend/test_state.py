"""Buffers that forward changes: what is kept of them, with which scale, and what is refused."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from cortado.api import prepare, prepare_qat
from cortado.base.errors import CortadoError, CortadoWarning
from cortado.base.findings import FindingKind
from cortado.base.target import from_target_string
from cortado.frontend.capture.export import capture
from cortado.options import DEFAULTS, Activations, Artifacts, Options
from cortado.passes import CortexMPassManager
from cortado.plan.lowered import LoweredGraph, after, from_bytes, lowered_graph, run_reference, to_bytes
from helpers.stateful import STATEFUL, decibels, eager_steps


class Buffered(nn.Module):
    """A function of a step, with float buffers that are given by name."""

    def __init__(self, function: Callable[..., Any], **buffers: Tensor) -> None:
        super().__init__()
        self.function = function
        for name, value in buffers.items():
            self.register_buffer(name, value)

    def forward(self, x: Tensor) -> Any:
        return self.function(self, x)


def lowered(model: nn.Module, steps: Tensor, options: Options = DEFAULTS) -> LoweredGraph:
    quantized = prepare(model, (steps[:1],), steps, name="net", options=options).quantized
    target = from_target_string("cortex-m4")
    return lowered_graph(CortexMPassManager(quantized.program(), target_config=target).transform())


def run_steps(graph: LoweredGraph, steps: Tensor) -> list[Tensor]:
    """The reference, step by step."""
    state, found = None, []
    for step in steps:
        values = run_reference(graph, [step[None]], state)
        state = after(graph, values)
        found.append([values[name] for name in graph.outputs])
    return [torch.cat(values) for values in zip(*found, strict=True)]


def keep(self: Any, x: Tensor) -> Tensor:
    self.h = 0.5 * self.h + 0.5 * x
    return self.h * 2.0


@pytest.mark.cases(2)
@pytest.mark.parametrize("name", STATEFUL)
def test_state_goes_in_and_comes_out_in_one_scale(name: str) -> None:
    one = STATEFUL[name]
    graph = lowered(one.model(), one.steps(64, seed=3), one.options)
    assert tuple(state.buffer for state in graph.state) == one.buffers
    assert len(graph.inputs) == 1
    for state in graph.state:
        value, source = graph.values[state.name], graph.values[state.source]
        assert (value.shape, value.dtype, value.qparams) == (source.shape, one.dtype, source.qparams)
        assert value.qparams is not None
        initial = (state.initial.float() - value.qparams.zero_point) * value.qparams.scale
        wanted = dict(one.model().named_buffers())[state.buffer]
        assert float((initial - wanted).abs().max()) <= value.qparams.scale / 2 + 1e-6
    again = from_bytes(to_bytes(graph))
    assert [(s.buffer, s.name, s.source) for s in again.state] == [(s.buffer, s.name, s.source) for s in graph.state]
    steps = one.steps(8)
    assert all(torch.equal(a, b) for a, b in zip(run_steps(again, steps), run_steps(graph, steps), strict=True))


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    "name", [lambda y: y.chunk(2, 1)[1], lambda y: y.type_as(y), lambda y: functional.dropout(y, 0.5, False)]
)
def test_writes_through_other_names_are_seen_and_the_module_is_left_as_it_was(name: Callable[..., Tensor]) -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        name(self.kept).mul_(0.5).add_(x[:, :1])
        return x + self.kept

    model = Buffered(forward, kept=torch.ones(1, 8))
    steps = torch.randn(48, 8, generator=torch.Generator().manual_seed(0))
    graph = lowered(model, steps)
    assert torch.equal(model.get_buffer("kept"), torch.ones(1, 8))
    assert decibels(eager_steps(model, steps)[0], run_steps(graph, steps)[0].numpy()) > 27


def test_initial_values_beyond_what_becomes_of_them_keep_a_scale_of_their_own() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        y = x + self.h
        self.h = torch.sigmoid(x)
        return y

    model = Buffered(forward, h=torch.full((1, 8), 5.0))
    steps = torch.randn(48, 8, generator=torch.Generator().manual_seed(0))
    graph = lowered(model, steps)
    value = graph.values[graph.state[0].name].qparams
    assert value is not None
    assert value.scale == pytest.approx(5 / 255, rel=0.05)
    found = run_steps(graph, steps)[0]
    assert decibels(eager_steps(model, steps)[0][1:], found[1:].numpy()) > 24


def test_calibration_is_one_sequence_or_several() -> None:
    """What builds up over a sequence is only seen in one that is long."""

    def forward(self: Any, x: Tensor) -> Tensor:
        self.sum = self.sum + x
        return self.sum * 1.0

    steps = torch.ones(64, 8)
    scales = []
    for sequence in (None, 8):
        graph = lowered(
            Buffered(forward, sum=torch.zeros(1, 8)), steps, Options(sequence=sequence, state=Activations.INT8)
        )
        value = graph.values[graph.state[0].name].qparams
        assert value is not None
        scales.append(value.scale)
    assert scales[0] == pytest.approx(64 / 255, rel=0.05)
    assert scales[1] == pytest.approx(8 / 255, rel=0.05)


def slowly(self: Any, x: Tensor) -> Tensor:
    self.a = self.a * 0.999 + x * 0.001
    return self.a * 1.0


def test_what_is_lost_step_by_step_is_told_over_the_whole_sequence() -> None:
    """A mean that moves by less than a code's step; the oracle is the module itself, run eagerly."""
    torch.manual_seed(0)
    steps = torch.randn(300, 4) + 1.0
    model = Buffered(slowly, a=torch.zeros(1, 4))
    prepared = prepare(model, (steps[:1],), steps, options=Options(state=Activations.INT8))
    with pytest.warns(CortadoWarning, match="dB of its signal"):
        compiled = prepared.compile("cortex-m4", Options(artifacts=Artifacts.C))
    eager = Buffered(slowly, a=torch.zeros(1, 4))
    wanted = torch.cat([eager(one) for one in steps.split(1)]).double()
    assert compiled.graph is not None
    found = torch.cat(run_steps(compiled.graph, steps)).double()
    kept = float(10 * torch.log10(wanted.square().sum() / (wanted - found).square().sum()))
    (told,) = [one.found for one in compiled.report.warnings if one.kind is FindingKind.LOW_SQNR]
    assert told == pytest.approx(kept, abs=1e-3)


def test_an_exported_program_keeps_its_state() -> None:
    steps = STATEFUL["average"].steps(48)
    model = STATEFUL["average"].model()
    graph = lowered(torch.export.export(model, (steps[:1],), strict=False), steps)  # type: ignore[arg-type]
    assert [state.buffer for state in graph.state] == ["h"]
    assert decibels(eager_steps(model, steps)[0], run_steps(graph, steps)[0].numpy()) > 23


def hold(self: Any, x: Tensor) -> Tensor:
    before = x * self.last.float()
    self.last.copy_(x > 0)
    return before


def grow(self: Any, x: Tensor) -> Tensor:
    self.h = torch.cat([self.h, x], 1)
    return self.h.sum(1, keepdim=True)


def train(self: Any, x: Tensor) -> Tensor:
    with torch.no_grad():
        self.weight.mul_(0.5)
    y: Tensor = x * self.weight
    return y


class Trained(Buffered):
    def __init__(self) -> None:
        super().__init__(train)
        self.weight = nn.Parameter(torch.ones(1, 8))


class Shared(Buffered):
    """Two names of one memory."""

    def __init__(self) -> None:
        super().__init__(lambda self, x: self.both(x), h=torch.zeros(2, 8))
        self.register_buffer("part", self.get_buffer("h")[:1])

    def both(self, x: Tensor) -> Tensor:
        self.get_buffer("h").mul_(0.5)
        return x + self.get_buffer("part")


def swap(self: Any, x: Tensor) -> Tensor:
    self.a, self.b = self.b, self.a
    return x + self.a


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (Buffered(hold, last=torch.zeros(1, 8, dtype=torch.uint16)), r"changes the buffer 'last', which holds uint16"),
        (Buffered(grow, h=torch.zeros(1, 8)), r"gives the buffer 'h' the shape \[1, 16\], expected it to keep"),
        (Trained(), "changes the parameter 'weight'"),
        (Shared(), "changes 'h', which shares its memory with 'part'"),
        (Buffered(swap, a=torch.zeros(1, 8), b=torch.ones(1, 8)), "'a', 'b' exchange their values"),
    ],
    ids=["integers", "grows", "parameter", "shared", "exchange"],
)
def test_what_can_not_be_kept_is_refused_by_name_and_line(model: nn.Module, reason: str) -> None:
    steps = torch.randn(33, 8)
    with pytest.raises(CortadoError, match=reason) as caught:
        prepare(model, (steps[:1],), steps, name="net").compile("cortex-m4")
    assert __file__ in str(caught.value) or "exchange" in str(caught.value)


def test_training_with_quantization_keeps_no_state() -> None:
    with pytest.raises(CortadoError, match=r"changes 'h', which would have to persist .* can't have state yet"):
        prepare_qat(Buffered(keep, h=torch.zeros(1, 8)), (torch.randn(1, 8),))


def test_an_attribute_that_is_no_buffer_is_told_of() -> None:
    class Attribute(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.h = torch.zeros(1, 8)

        def forward(self, x: Tensor) -> Tensor:
            self.h = 0.5 * self.h + x
            return self.h * 2.0

    steps = torch.randn(33, 8)
    with (
        pytest.warns(UserWarning, match="assigned during export"),
        pytest.raises(CortadoError, match="register_buffer"),
    ):
        prepare(Attribute(), (steps[:1],), steps, name="net")


def count(self: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    """Counters that wrap around, and a list of them that is written where a position of no dimensions says."""
    self.calls += (x > 0).to(self.calls.dtype) * 37
    self.seen[self.place] = self.calls[0] // 2
    self.last = torch.cat([self.last[:, 1:], self.calls[:, :1]], 1)
    self.place.copy_((self.place + 1) % 3)
    return self.seen + self.last[:, :1], self.calls.float().mean(1) > 3


@pytest.mark.parametrize("kind", [torch.uint8, torch.int8, torch.int16, torch.int64])
def test_integers_of_any_type_are_kept_as_they_are(kind: torch.dtype) -> None:
    zeros = {name: torch.zeros(sizes, dtype=kind) for name, sizes in (("calls", (1, 8)), ("seen", (3, 8)))}
    model = Buffered(count, **zeros, last=torch.arange(4)[None].to(kind), place=torch.zeros((), dtype=torch.int64))
    steps = torch.randint(-4, 5, (40, 8), generator=torch.Generator().manual_seed(2)) / 4
    found = run_steps(lowered(model, steps), steps)
    wanted = [model(step[None]) for step in steps]
    assert torch.equal(found[0], torch.cat([seen for seen, _ in wanted]).to(found[0].dtype))
    assert torch.equal(found[1], torch.cat([large for _, large in wanted]))


def around(self: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    self.n = (self.n + (x > 0).float()) % 5
    return self.n >= 3, self.n.sum(1) == 7


def towards(self: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    self.n = torch.sign(self.n + 2 * (x > 0).float() - 1)
    return self.n == 1, self.n.sum(1) < 0


def above(self: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    self.n = torch.where(x > 0, self.n + 1, torch.zeros_like(self.n))
    return self.n >= 2, (self.n.square().sum(1) / 4).floor() > 3


def copied(self: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    self.n.copy_((self.n + (x > 0).float() - (x < 0).int()).clamp(-3, 3))
    return self.n > 1, self.n.sum(1) == -2


def filled(self: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    """Integers of another type, the same for all."""
    self.n.copy_((x > 0).int().sum(1, keepdim=True) - torch.sign(self.n).int())
    return self.n > 4, self.n.sum(1) == 32


@pytest.mark.parametrize("function", [around, towards, above, copied, filled])
def test_float_state_that_holds_integers_alone_is_kept_as_integers(function: Callable[..., Any]) -> None:
    model = Buffered(function, n=torch.zeros(1, 8))
    steps = torch.randint(-4, 5, (60, 8), generator=torch.Generator().manual_seed(2)) / 4
    graph = lowered(model, steps)
    assert [graph.values[one.name].element.name for one in graph.state] == ["int32"]
    wanted = [torch.cat(values) for values in zip(*(model(step[None]) for step in steps), strict=True)]
    assert all(torch.equal(one, two) for one, two in zip(run_steps(graph, steps), wanted, strict=True))


def test_what_no_output_depends_on_is_not_kept() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        self.calls += 1
        self.seen = self.seen + x
        return x * 2.0

    model = Buffered(forward, calls=torch.zeros((), dtype=torch.int64), seen=torch.zeros(1, 8))
    captured = capture(model, (torch.randn(1, 8),))
    assert [state.name for state in captured.state] == ["calls", "seen"]
    assert lowered(model, torch.randn(33, 8)).state == ()


# ---- deep inside ---------------------------------------------------------------------------------------------------


class Inside(nn.Module):
    """A module whose buffers are assigned, inside of others and at times called twice; torch.export forgets these."""

    def __init__(self, calls: int = 1) -> None:
        super().__init__()
        self.parts = nn.ModuleList([Buffered(self._step, h=torch.zeros(1, 4)), Buffered(keep, h=torch.zeros(1, 4))])
        self.calls = calls

    @staticmethod
    def _step(module: Any, x: Tensor) -> Tensor:
        old = module.h
        module.h = 0.5 * old + 0.5 * torch.tanh(x)
        return module.h - old  # the old value is still what it was

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(self.calls):
            for part in self.parts:
                x = part(x)
        return x


@pytest.mark.cases(1)
@pytest.mark.parametrize("calls", [1, 2])
def test_state_that_is_assigned_deep_inside(calls: int) -> None:
    steps, model = torch.randn(80, 4, generator=torch.Generator().manual_seed(0)), Inside(calls)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    forward = model.forward
    graph = lowered(model, steps[:64])
    assert model.forward == forward
    assert "forward" not in vars(model)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert [state.buffer for state in graph.state] == ["parts.0.h", "parts.1.h"]
    found = run_steps(graph, steps[64:])[0]
    output = graph.values[graph.outputs[0]].qparams
    real = found if output is None else output.dequantize(found)
    assert decibels(eager_steps(model, steps[64:])[0], real.numpy()) > 25
