"""`cortado.estimate`: RAM and flash as compiled, cycles within 5% of the boards', mistakes, the command."""

import json
import warnings
from collections.abc import Callable

import pytest
import torch
from torch import nn

import cortado
from cortado.base.errors import CortadoError
from cortado.base.target import Core, CortexM, from_target_string
from cortado.cli import main
from cortado.exploring import board_flow, board_work, estimate_of, prepared, sketch
from cortado.ir.kernel import Kernel
from cortado.ir.work import Calls, loops
from cortado.models import zoo
from cortado.ops.pool import cumsum
from cortado.options import Activations, Artifacts, Options
from cortado.plan import kernel_costs
from cortado.plan.kernel_costs import CoreCosts, evaluate, job_cycles, known_costs
from cortado.plan.kernel_workload import FunctionWork, Job
from cortado.plan.planned import jobs_of

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


class Cells(nn.Module):
    """Plain recurrent layers of a few units, with both functions."""

    def __init__(self) -> None:
        super().__init__()
        self.curved, self.straight = (nn.RNN(3, 5, nonlinearity=one, batch_first=True) for one in ("tanh", "relu"))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.curved(x)[0], self.straight(x)[0]


FLOAT = Options(activations=Activations.FLOAT32, artifacts=Artifacts.C)
WIDE = Options(activations=Activations.INT16, artifacts=Artifacts.C)
# What the time of depends on numbers, or on sizes that few layers have: with how they are compiled.
SPECIAL: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], Options]] = {
    "a policy in float32": (
        lambda: nn.Sequential(nn.Linear(12, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 3)),
        (1, 12),
        FLOAT,
    ),
    "layers in float32 behind a relu": (
        lambda: nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.Conv2d(6, 5, 3), nn.ReLU()),
        (1, 1, 9, 8),
        FLOAT,
    ),
    "small cells in int16": (Cells, (1, 9, 3), WIDE),
    "few channels in int16": (lambda: nn.Conv2d(5, 5, 5, padding=2, groups=5), (1, 5, 9, 11), WIDE),
}


def _model(name: str) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    torch.manual_seed(5)
    if name == "small":
        return Small().eval(), (torch.rand(1, 3, 30, 22) * 2 - 1,)
    if name == "recurrent":
        return Recurrent().eval(), (torch.rand(1, 7, 13) * 2 - 1,)
    network = zoo.get(name)
    return network.build(), network.example_inputs()


@pytest.mark.qemu
@pytest.mark.parametrize("name", ["ds_cnn", pytest.param("deep_autoencoder", marks=pytest.mark.slow)])
def test_cycles_are_near_those_of_the_board(name: str) -> None:
    model = prepared(*_model(name))
    for core in CORES:
        found = sketch(model, from_target_string(core))
        measured = board_work(found).total.cycles.typical
        estimated = estimate_of(found, None).cycles
        assert abs(estimated / measured - 1) < FAR, (core, estimated, measured)


@pytest.mark.qemu
@pytest.mark.parametrize("name", SPECIAL)
def test_cycles_of_special_layers_are_near_those_of_the_board(name: str) -> None:
    build, size, options = SPECIAL[name]
    torch.manual_seed(7)
    model = prepared(build().eval(), (torch.randn(size),), options)
    for core in CORES:
        found = sketch(model, from_target_string(core), options)
        measured = board_work(found).total.cycles.typical
        estimated = estimate_of(found, None).cycles
        assert abs(estimated / measured - 1) < FAR, (core, estimated, measured)


@pytest.mark.cases(1)
@pytest.mark.qemu
@pytest.mark.parametrize("name", ["small", pytest.param("recurrent", marks=pytest.mark.slow)])
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
    with pytest.raises(CortadoError, match=r"no cost table for cortex-m55\+nomve, only for cortex-m55"):
        cortado.estimate(layer, inputs, target="cortex-m55+nomve")
    with pytest.raises(CortadoError, match="has a cortex-m0plus"):
        cortado.estimate(layer, inputs, chip="pico", target="cortex-m4")


def test_an_unknown_term_is_an_error() -> None:
    """Of the table, and of what a kernel declares; a row loop's too."""
    with pytest.raises(CortadoError, match="has 'calls\\*height' for cortado_thing, which its kernel doesn't declare"):
        evaluate("cortado_thing", {"calls": 2.0, "calls*height": 3.0}, {"calls": 1.0})
    calls = Calls(calls=2, span=5, spans=10, outputs=10, macs=0, read_bytes=10, outside=0, edges=0, cut=0)
    with pytest.raises(CortadoError, match="nothing is known of 'height'"):
        loops("calls calls*height", width=3).counts(calls)
    assert loops("calls spans*width/4 width%4 width~4", width=6).counts(calls) == {
        "calls": 2,
        "spans*width/4": 20,
        "width%4": 2,
        "width~4": 6,
    }


def test_a_kernel_without_a_row_is_not_estimated_and_nothing_else_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """By estimate and report alike."""

    class Sums(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cumsum(torch.tanh(x), dim=-1)

    model, inputs = Sums().eval(), (torch.rand(1, 4, 9),)
    whole = cortado.estimate(model, inputs, target="cortex-m4")
    table = {
        core: CoreCosts(costs.loop, {name: row for name, row in costs.kernels.items() if name != "cortado_cumsum_s8"})
        for core, costs in known_costs().items()
    }
    monkeypatch.setattr(kernel_costs, "known_costs", lambda: table)
    found = cortado.estimate(model, inputs, target="cortex-m4")
    assert whole.estimated
    assert not found.estimated
    missing = [layer.operator == cumsum.CUMSUM.name for layer in found.layers]
    assert sum(missing) == 1
    for gone, layer, before in zip(missing, found.layers, whole.layers, strict=True):
        assert (layer.estimated, layer.cycles) == ((False, 0) if gone else (True, before.cycles))
    assert found.cycles == whole.cycles - sum(
        layer.cycles for layer in whole.layers if layer.operator == cumsum.CUMSUM.name
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = cortado.compile(model, inputs, "cortex-m4", [inputs], name="sums").report
    for gone, layer in zip(missing, report.layers, strict=True):
        assert layer.estimated is (layer.estimated_cycles is not None) is not gone


def test_a_kernel_that_declares_nothing_is_not_estimated() -> None:
    costs = CoreCosts({}, {"cortado_thing": {"calls": 2.0}})
    assert job_cycles(costs, Job((FunctionWork("cortado_thing", {"calls": 3.0}),))) == 6.0
    assert job_cycles(costs, Job((FunctionWork("cortado_thing", {"calls": 3.0}),), declared=False)) is None


def _counts(module: nn.Module, inputs: tuple[torch.Tensor, ...], function: str) -> tuple[Kernel, list[FunctionWork]]:
    """Of the kernel of this name on the M4."""
    found = sketch(prepared(module, inputs), from_target_string("cortex-m4"))
    jobs = jobs_of(found.planned, Core.DSP, found.values)
    pairs = [(step.kernels[Core.DSP], job) for step, job in zip(found.planned.program.steps, jobs, strict=True) if job]
    kernel, job = next((kernel, job) for kernel, job in pairs if function in kernel.call.function)
    return kernel, list(job.parts)


def test_counts_of_a_convolution() -> None:
    """By hand: 10 output pixels a row of which the first and the last see the border, 3x3, 6 to 8 channels."""
    _, [part] = _counts(nn.Conv2d(6, 8, 3, padding=1), (torch.rand(1, 6, 4, 10),), "conv2d_lanes")
    counts = part.counts
    assert (counts["calls"], counts["outside"], counts["spans*groups"], counts["outputs"]) == (4, 2, 40, 320)
    assert counts["spans*group_c/4*window/4*groups"] == 40 * 2 * 14  # 54 products are 13 fours and a part of one
    assert counts["spans*group_c/4*odd4*groups"] == 40 * 2
    assert (counts["inside*groups"], counts["border*groups"]) == (32, 8)
    assert (counts["tiles/4*groups"], counts["rest/4*groups"]) == (12, 4)
    # In calls inside of the image the windows at the border, two pieces a row; in the others all windows.
    assert counts["part_pieces"] == 2 * 3 * (2 + 2) + 4 * (8 + 2 * 2) + 2 * 30
    assert counts["swift"] == 2 * 8


def test_counts_of_a_recurrent_layer() -> None:
    """By hand: 19 units are 5 groups of four in each of 7 steps; 13 inputs are three fours and one, 19 units four and
    three."""
    _, [part] = _counts(*_model("recurrent"), "_gru_")
    counts = part.counts
    assert (counts["all_steps"], counts["unit_groups"]) == (7, 35)
    assert counts["unit_groups*path_fours"] == 35 * 7
    assert counts["unit_groups*path_eights"] == 35 * 4
    assert (counts["unit_groups*path_odd"], counts["unit_groups*path_lasts"]) == (35 * 2, 35 * 4)


def test_rows_of_several_layers_are_parts_of_their_own() -> None:
    """A transposed convolution with stride 2 has a layer for even rows and one for odd ones."""
    layer = nn.ConvTranspose2d(5, 6, 4, stride=2, padding=1)
    kernel, parts = _counts(layer, (torch.rand(1, 5, 6, 7),), "conv2d")
    assert kernel.work is None
    assert len(parts) == len(kernel.called) == 2
    assert [part.counts["calls"] for part in parts] == [6, 6]
    assert sum(part.counts["outputs"] for part in parts) == 12 * 14 * 6


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", "deep_autoencoder", "--chip", "pico", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["target"] == "cortex-m0plus"
    assert found["flash_bytes"] == found["weights_bytes"] + found["code_bytes"]
    assert main(["estimate", "deep_autoencoder"]) == 2
    assert "no chip and no target" in capsys.readouterr().err
