"""`cortado.estimate`: RAM and flash as compiled, cycles within 5% of the boards', mistakes, the command."""

import json
import warnings

import pytest
import torch
from torch import nn

import cortado
from cortado.base.errors import CortadoError
from cortado.base.target import Core, CortexM, from_target_string
from cortado.cli import main
from cortado.exploring.estimation import estimate_of
from cortado.exploring.sketch import board_flow, board_work, prepared, sketch
from cortado.models import zoo
from cortado.plan.jobs import PHASES, jobs_of, single_layers
from cortado.plan.kernel_costs import evaluate, known_costs
from cortado.plan.quantities import quantities

FAR = 0.05
CORES = ("cortex-m0plus", "cortex-m4", "cortex-m55")
# Cores by those whose code they run.
ALIKE = {
    "cortex-m0plus": ("cortex-m0plus", "cortex-m0"),
    "cortex-m23": ("cortex-m23",),
    "cortex-m3": ("cortex-m3",),
    "cortex-m4": ("cortex-m4", "cortex-m7"),
    "cortex-m33": ("cortex-m33", "cortex-m35p"),
    "cortex-m55": ("cortex-m55", "cortex-m52", "cortex-m85"),
}


class Small(nn.Module):
    """A few layers of the kind that are searched: separable, residual, pooled."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.first = nn.Sequential(nn.Conv2d(3, 12, 3, stride=2, padding=1), nn.ReLU())
        self.deep = nn.Sequential(nn.Conv2d(12, 12, 3, padding=1, groups=12), nn.ReLU(), nn.Conv2d(12, 12, 1))
        self.last = nn.Sequential(nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(12, 20, 3, padding=1), nn.ReLU())
        self.classes = nn.Linear(20, 7)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        x = self.last(x + self.deep(x))
        return self.classes(x.mean(dim=(2, 3)))


class Recurrent(nn.Module):
    """A GRU whose sizes are multiples of nothing, normalized."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm, self.last = nn.GRU(13, 19, batch_first=True), nn.LayerNorm(19), nn.Linear(19, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.last(self.norm(self.layer(x)[0]))
        return outputs


def _model(name: str) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    torch.manual_seed(5)
    if name == "small":
        return Small().eval(), (torch.rand(1, 3, 30, 22) * 2 - 1,)
    if name == "recurrent":
        return Recurrent().eval(), (torch.rand(1, 7, 13) * 2 - 1,)
    network = zoo.get(name)
    return network.build(), network.example_inputs()


@pytest.mark.qemu
@pytest.mark.parametrize("name", ["ds_cnn", "deep_autoencoder"])
def test_cycles_are_near_those_of_the_board(name: str) -> None:
    model = prepared(*_model(name))
    for core in CORES:
        found = sketch(model, from_target_string(core))
        measured = board_work(found).total.cycles.typical
        estimated = estimate_of(found, None).cycles
        assert abs(estimated / measured - 1) < FAR, (core, estimated, measured)


@pytest.mark.qemu
@pytest.mark.parametrize("name", ["small", "recurrent"])
def test_cycles_of_every_core_are_near_those_of_the_board(name: str) -> None:
    """One run tells the time of all cores that run its code."""
    model = prepared(*_model(name))
    for core, alike in ALIKE.items():
        found = sketch(model, from_target_string(core))
        flown = board_flow(found)
        for other in alike:
            measured = flown.work(CortexM(other)).total.cycles.typical
            estimated = estimate_of(found if other == core else sketch(model, from_target_string(other)), None).cycles
            assert abs(estimated / measured - 1) < FAR, (other, estimated, measured)


def test_ram_and_flash_are_those_of_compile() -> None:
    network = zoo.get("ds_cnn")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = cortado.compile(
            network.build(), network.example_inputs(), "cortex-m4", network.calibration(2), name="estimated"
        )
    found = cortado.estimate(network.build(), network.example_inputs(), chip="stm32l4r5")
    memory, flash = compiled.report.memory, compiled.report.flash
    assert memory is not None
    assert flash is not None
    assert found.ram_bytes == memory.arena_bytes
    assert (found.weights_bytes, found.code_bytes) == (flash.weights_bytes, flash.code_bytes)
    assert found.macs == compiled.report.macs
    assert found.fits
    assert found.milliseconds == found.cycles / 120_000
    assert len(found.layers) == len(compiled.report.layers)
    assert 0.9 * found.cycles < sum(layer.cycles for layer in found.layers) <= found.cycles
    for layer, reported in zip(found.layers, compiled.report.layers, strict=True):  # which doesn't know the data
        assert reported.estimated_cycles == pytest.approx(layer.cycles, rel=0.1)


def test_a_core_is_needed() -> None:
    layer, inputs = nn.Linear(2, 2), (torch.ones(1, 2),)
    with pytest.raises(CortadoError, match="no chip and no target"):
        cortado.estimate(layer, inputs)
    with pytest.raises(CortadoError, match="those of one core"):
        cortado.estimate(layer, inputs, target="cortex-m")
    with pytest.raises(CortadoError, match=r"no table of costs for cortex-m55\+nomve, only for cortex-m55"):
        cortado.estimate(layer, inputs, target="cortex-m55+nomve")
    with pytest.raises(CortadoError, match="has a cortex-m0plus"):
        cortado.estimate(layer, inputs, chip="pico", target="cortex-m4")


def test_the_table_knows_the_cores_and_every_term() -> None:
    """No cycles are negative, and every term names quantities: a kernel of which a name changed would cost nothing."""
    known = known_costs()
    assert set(known) == set(CortexM) - {CortexM.ANY}
    for costs in known.values():
        assert all(cycles > 0 for terms in costs.kernels.values() for cycles in terms.values())
        assert min(map(len, costs.kernels.values())) > 0
        assert evaluate(costs.loop, {"runs": 1, "stages": 2, "resets": 2, "calls": 9, "windows": 9, "taps": 9}) > 0


def test_quantities_of_a_convolution() -> None:
    """By hand: 10 output pixels a row of which the first and the last see the border, 3x3, 6 to 8 channels."""
    model = prepared(nn.Conv2d(6, 8, 3, padding=1), (torch.rand(1, 6, 4, 10),))
    found = sketch(model, from_target_string("cortex-m4"))
    job = jobs_of(found.planned, Core.DSP, found.values)[-1]
    assert job is not None
    names = quantities(job)
    assert (job.calls, job.outside, names["spans"], names["outputs"]) == (4, 2, 40, 320)
    assert (names["window"], names["window/4"], names["odd4"], names["group_c/4"]) == (54, 14, 1, 2)
    assert (names["inside"], names["border"], names["tiles/4"], names["rest/4"]) == (32, 8, 12, 4)
    assert names["part_pieces"] == 10 * (10 + 2) + 2 * 30


def test_quantities_of_a_recurrent_layer() -> None:
    """By hand: 19 units are 5 groups of four in each of 7 steps; 13 inputs are three fours and one, 19 units four and
    three."""
    found = sketch(prepared(*_model("recurrent")), from_target_string("cortex-m4"))
    job = next(job for job in jobs_of(found.planned, Core.DSP, found.values) if job and "_gru_" in job.function)
    names = quantities(job)
    assert (names["all_steps"], names["unit_groups"]) == (7, 35)
    assert (names["path_fours"], names["path_eights"], names["path_odd"], names["path_lasts"]) == (7, 4, 2, 4)


def test_rows_of_several_layers_are_jobs_of_their_own() -> None:
    """A transposed convolution with stride 2 has a layer for even rows and one for odd ones."""
    model = prepared(nn.ConvTranspose2d(5, 6, 4, stride=2, padding=1), (torch.rand(1, 5, 6, 7),))
    found = sketch(model, from_target_string("cortex-m4"))
    job = next(job for job in jobs_of(found.planned, Core.DSP, found.values) if job and PHASES in job.function)
    parts = single_layers(job)
    assert len(parts) == 2
    assert sum(part.calls for part in parts) == job.calls == 12
    assert sum(part.spans * part.fields["out_c"] for part in parts) == job.rows * job.row_bytes
    assert all(PHASES not in part.function and single_layers(part) == [part] for part in parts)


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", "deep_autoencoder", "--chip", "pico", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["target"] == "cortex-m0plus"
    assert found["flash_bytes"] == found["weights_bytes"] + found["code_bytes"]
    assert main(["estimate", "deep_autoencoder"]) == 2
    assert "no chip and no target" in capsys.readouterr().err
