"""The arenas of delegates on ExecuTorch's standard road: planned with the program's tensors, which may lie in them."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from executorch.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
from torch import nn
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from cortado.executorch import HOST, CortadoPartitioner, CortexMQuantizer, executorch_config
from cortado.executorch.planning import plan_with_arenas
from cortado.models import zoo
from cortado.pte.reader import read_pte
from cortado.run.executorch_host import run_pte
from helpers.cli import Run
from helpers.executorch import delegated_events
from helpers.networks import unseen
from helpers.pt2e_programs import emit, kernels_of

pytestmark = pytest.mark.host


def _quantized(model: nn.Module, batches: Sequence[tuple[torch.Tensor, ...]]) -> ExportedProgram:
    prepared = prepare_pt2e(torch.export.export(model.eval(), batches[0]).module(), CortexMQuantizer())
    for batch in batches:
        prepared(*batch)
    return torch.export.export(convert_pt2e(prepared), batches[0])


def _planned(data: bytes, name: str = "forward") -> int:
    method = read_pte(data, "parts.pte").method(name)
    assert method is not None
    return method.arena_bytes


def test_what_a_step_reads_and_what_it_writes_share_nothing() -> None:
    """A lifetime ends with the step that reads last; what begins with the next step may have the place."""
    specs = [SimpleNamespace(lifetime=steps, allocated_memory=64) for steps in ([0, 1], [1, 2], [2, 3])]
    assert plan_with_arenas(16, specs, GraphModule(nn.Module(), Graph()), None, 0) == [0, 128]
    first, second, third = (spec.mem_offset for spec in specs)
    assert first == third != second


def test_inputs_and_outputs_lie_in_the_arena_of_a_network(tmp_path: Path, run: Run) -> None:
    """Of ds_cnn 1,960 bytes come in; beside the arena they would take a third more."""
    network = zoo.get("ds_cnn")
    program = _quantized(network.build(), network.calibration(4))
    edge = to_edge_transform_and_lower(program, partitioner=[CortadoPartitioner(HOST)])
    data = bytes(edge.to_executorch(executorch_config()).buffer)
    assert _planned(data) <= 5600
    samples = unseen("ds_cnn", 3)
    found = run_pte(data, [[one.numpy() for one in sample] for sample in samples], delegate=kernels_of([data]))
    for (got,), sample in zip(found, samples, strict=True):
        np.testing.assert_allclose(got, program.module()(*sample).detach().numpy(), atol=0.14)  # 3 steps
    (tmp_path / "planned.pte").write_bytes(data)
    shown = run("inspect", tmp_path / "planned.pte", "--json").json
    assert shown["temp_bytes"] == 0
    assert shown["images"][0]["arena_in"] == "planned memory"


class Distances(nn.Module):
    """Two parts, and a call between them that reads what the first gives."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(12, 8), nn.Linear(15, 5)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        rows = torch.relu(self.first(x))
        return self.second(nn.functional.pdist(rows).unsqueeze(0)), rows


def test_parts_of_several_methods_share_a_file(tmp_path: Path, run: Run) -> None:
    torch.manual_seed(0)
    batches = [(torch.randn(6, 12),) for _ in range(4)]
    programs = {"forward": _quantized(Distances(), batches), "other": _quantized(nn.Linear(12, 3), batches)}
    partitioner = CortadoPartitioner(HOST)
    edge = to_edge_transform_and_lower(programs, partitioner=[partitioner])
    data = bytes(edge.to_executorch(executorch_config()).buffer)
    kernels, x = kernels_of([data]), batches[0][0]
    for name, program in programs.items():
        wanted = program.module()(x)
        found = run_pte(data, [[x.numpy()]], delegate=kernels, method_name=name)[0]
        for got, want in zip(found, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
            np.testing.assert_allclose(got, want.detach().numpy(), atol=0.03)
    unplanned = emit(programs["forward"], [CortadoPartitioner(HOST)])
    (tmp_path / "parts.pte").write_bytes(unplanned)
    shown = run("inspect", tmp_path / "parts.pte", "--json").json
    assert shown["temp_bytes"] == max(image["arena_bytes"] for image in shown["images"]) > 0
    assert _planned(data) < _planned(unplanned) + shown["temp_bytes"]
    assert "bytes of the temp allocator" in run("inspect", tmp_path / "parts.pte").out


@pytest.mark.parametrize("planned", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_inspector_shows_the_layers_of_each_part_by_name_and_time(tmp_path: Path, planned: bool) -> None:
    torch.manual_seed(0)
    batches = [(torch.randn(6, 12),) for _ in range(2)]
    program = _quantized(Distances(), batches)
    edge = to_edge_transform_and_lower(program, partitioner=[CortadoPartitioner(HOST)], generate_etrecord=True)
    config = executorch_config() if planned else ExecutorchBackendConfig(segment_alignment=16)
    manager = edge.to_executorch(config)
    (tmp_path / "model.pte").write_bytes(manager.buffer)
    manager.get_etrecord().save(str(tmp_path / "model.etrecord"))
    kernels = kernels_of([manager.buffer])
    events = delegated_events(tmp_path, kernels, batches[0][0], tmp_path / "model.etrecord")
    layers = {event.name: event for event in events if event.name in ("first", "second")}
    assert sorted(layers) == ["first", "second"], events
    assert all(event.name in event.modules for event in layers.values())
    assert all(event.ticks > 0 for event in events)
