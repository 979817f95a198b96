"""A .pte in a form of its own, for ExecuTorch's int8 operators: state in 8 bits, norms in pieces, both figures told."""

import json
from pathlib import Path

import pytest
import torch
from executorch.exir._serialize._program import deserialize_pte_binary
from torch import Tensor, nn

import cortado
from cortado.artifact.opened import Artifact
from cortado.base.element import INT8, INT16
from cortado.compiled import Compiled
from cortado.ir.op import Pattern, registry
from cortado.options import DEFAULTS, Activations, Artifacts, Options
from cortado.plan.lowered import reference_outputs
from helpers.single import decibels, seeded

TARGET = "cortex-m4"


class Smoothed(nn.Module):
    """A moving average: its buffer is int16 in the C bundle."""

    def __init__(self, rate: float = 0.25, start: float = 0.0) -> None:
        super().__init__()
        self.rate, self.start, self.linear = rate, start, nn.Linear(6, 4, bias=False)
        self.register_buffer("mean", torch.full((1, 6), start))
        self.mean: Tensor

    def forward(self, x: Tensor) -> Tensor:
        self.mean.mul_(1 - self.rate).add_((x + self.start) * self.rate)
        found: Tensor = self.linear(self.mean - self.start)
        return found


NORMS = {
    "layer": (nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 3)), (1, 6)),
    "root mean square": (nn.Sequential(nn.Linear(6, 8), nn.RMSNorm(8), nn.Linear(8, 3)), (1, 6)),
    "group": (nn.Sequential(nn.Conv2d(2, 8, 3), nn.GroupNorm(2, 8), nn.Conv2d(8, 2, 1)), (1, 2, 6, 6)),
    "instance": (nn.Sequential(nn.Conv1d(2, 4, 3), nn.InstanceNorm1d(4, affine=True), nn.ReLU()), (1, 2, 9)),
}


def data(*sizes: int, count: int = 32, seed: int = 0) -> list[tuple[Tensor]]:
    rng = torch.Generator().manual_seed(seed)
    return [(torch.randn(sizes, generator=rng),) for _ in range(count)]


def compiled(model: nn.Module, sizes: tuple[int, ...], options: Options = DEFAULTS) -> Compiled:
    batches = data(*sizes)
    return cortado.compile(model.eval(), batches[0], TARGET, calibration=batches, name="form", options=options)


@pytest.mark.parametrize("kind", NORMS)
def test_norms_are_in_the_pte_in_pieces(kind: str) -> None:
    model, sizes = NORMS[kind]
    made = compiled(seeded(model), sizes)
    assert made.report.pte is not None
    assert made.report.pte_form is not None
    assert made.graph is not None
    assert made.pte_graph is not None
    assert "cortado::normalize" in made.report.operators
    assert "cortado::normalize" not in {call.operator for call in made.pte_graph.calls}
    fresh = data(*sizes, seed=1)
    wanted = torch.stack([model(*one) for one in fresh]).detach()
    in_c, in_pte = (
        decibels(wanted, torch.stack([reference_outputs(graph, one)[0] for one in fresh]))
        for graph in (made.graph, made.pte_graph)
    )
    assert in_pte > max(20, in_c - 8)


@pytest.mark.host
def test_state_has_16_bits_in_the_bundle_and_8_in_the_pte(tmp_path: Path) -> None:
    made = compiled(seeded(Smoothed()), (1, 6))
    assert made.graph is not None
    assert made.pte_graph is not None
    assert made.report.pte_form is not None
    elements = [graph.values[graph.state[0].name].element for graph in (made.graph, made.pte_graph)]
    assert elements == [INT16, INT8]
    (in_pte,), (in_c,) = made.report.pte_form.pte_sqnr_db, made.report.pte_form.c_sqnr_db
    assert in_pte is not None
    assert in_c is not None
    assert 20 < in_pte < in_c
    made.save(tmp_path / "form")
    steps = [[value.numpy() for value in one] for one in data(1, 6, count=5, seed=1)]
    checked = Artifact.open(tmp_path / "form").run_on_executorch(steps)
    assert checked.bit_exact


def test_a_form_that_loses_what_the_bundle_keeps_is_left_out_by_its_figure() -> None:
    model = Smoothed(0.01, 1.0)  # in 8 bits a buffer that moves by less than a step stays where it is
    model.linear.weight.data = torch.linspace(-1, 1, 24).reshape(4, 6)
    made = compiled(model, (1, 6))
    assert made.report.pte is None
    assert made.report.pte_form is None
    assert made.pte_graph is made.graph
    assert "in ExecuTorch's int8 operators output 0" in made.report.pte_missing[0]
    assert "--state int8 writes it all the same" in made.report.pte_missing[-1]


def test_a_pte_alone_has_that_form_from_the_start() -> None:
    options = Options(artifacts=Artifacts.PTE)
    made = compiled(seeded(Smoothed()), (1, 6), options)
    assert made.report.pte is not None
    assert made.report.options.state is Activations.INT8


class Both(Smoothed):
    """Two outputs beside the state."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        found = super().forward(x)
        return found, torch.relu(found)


def test_a_pte_with_state_describes_the_outputs_of_the_model_alone() -> None:
    made = compiled(seeded(Both()), (1, 6), Options(artifacts=Artifacts.PTE, state=Activations.INT8))
    assert made.pte is not None
    plan = deserialize_pte_binary(made.pte.data).program.execution_plan[0]
    _, returned = json.loads(plan.container_meta_type.encoded_out_str)
    assert (len(returned["children_spec"]), len(plan.outputs)) == (2, 2)


def test_what_is_asked_for_by_name_is_not_narrowed_and_the_way_back_is_told() -> None:
    made = compiled(seeded(Smoothed()), (1, 6), Options(activations=Activations.INT16))
    assert made.report.pte is None
    assert [reason.split(" ")[0] for reason in made.report.pte_missing[-2:]] == ["--pte", "without"]


def test_operators_that_are_known_in_pieces_are_those_whose_patterns_are() -> None:
    known = registry()
    patterns: set[Pattern] = {one for found in known.patterns.values() for one in found if one.in_pieces is not None}
    assert patterns
    assert [name for name, one in known.operators.items() if one.in_pieces] == ["cortado::normalize"]
