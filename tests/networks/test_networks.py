"""The zoo's networks against what was promised of them: nodes, accuracy, targets, sizes, RAM."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from cortado.base.target import from_target_string
from cortado.emit.c.bundle import emit_c
from cortado.emit.pte.program import c_only, emit_pte
from cortado.memory.validate import validate
from cortado.models import zoo
from cortado.options import Optimize
from cortado.plan.lowered import LoweredCall, LoweredGraph, reference_outputs
from cortado.run import measure
from cortado.run.bundle_info import BundleInfo
from helpers.networks import (
    BASELINES,
    LARGE,
    MOST_PTE_BYTES,
    TARGETS,
    graph_of,
    lowered,
    networks,
    planned,
    prepared,
    run_bundle,
    unseen,
)
from helpers.single import decibels

Tensor = torch.Tensor
NODES: dict[str, int] = BASELINES["executorch_cortex_m_nodes"]
MOST_ARENA_BYTES = {
    "ds_cnn": 5_900,
    "mobilenet_v1_025": 30_000,
    "resnet8": 17_500,
    "deep_autoencoder": 768,
    "mobilenet_v2": 208_000,
    "mobilenet_v3_small": 162_000,
}
MOST_CODE_BYTES = {"ds_cnn": 6 * 1024 + 288, "mobilenet_v2": 10 * 1024 + 512}
PLANNED = ("cortex-m55", "cortex-m4", "cortex-m0plus")


# ---- the graph -----------------------------------------------------------------------------------------------


def input_quantizes(graph: LoweredGraph) -> set[str]:
    border = "cortex_m::quantize_per_tensor"
    return {call.name for call in graph.calls if call.operator == border and call.refs("input")[0] in graph.inputs}


def input_transposes(graph: LoweredGraph) -> int:
    """Inputs that are brought into the kernels' layout: at most one transpose each."""
    quantized = input_quantizes(graph)
    readers = [call.refs("input")[0] for call in graph.calls if call.operator == "cortex_m::transpose"]
    return len(quantized.intersection(readers))


@pytest.mark.cases(1)
@pytest.mark.parametrize("name", networks(list(NODES)))
def test_no_more_kernels_than_the_peer(name: str) -> None:
    graph = graph_of(name)
    nodes = [call for call in graph.calls if call.operator.startswith("cortex_m::")]
    assert len(nodes) - input_transposes(graph) <= NODES[name]


def sees_float(graph: LoweredGraph, call: LoweredCall) -> bool:
    refs = call.refs(*call.arguments)
    tensors = [graph.constants[ref] if ref in graph.constants else graph.values[ref] for ref in refs]
    return any(tensor.dtype.is_floating_point for tensor in [*tensors, graph.values[call.name]])


@pytest.mark.cases(3)
@pytest.mark.parametrize("name", networks(zoo.names()))
def test_only_the_borders_see_floats(name: str) -> None:
    graph = graph_of(name)
    found = [call for call in graph.calls if sees_float(graph, call)]
    entries = [call for call in found if call.name in input_quantizes(graph)]
    exits = [call for call in found if call.name in graph.outputs]
    assert len(entries) == len(graph.inputs)
    assert {call.operator for call in exits} == {"cortex_m::dequantize_per_tensor"}
    assert [call for call in found if call not in entries and call not in exits] == []


# ---- accuracy ------------------------------------------------------------------------------------------------


def run_all(model: Callable[..., Any], samples: Sequence[Sequence[Tensor]]) -> Tensor:
    with torch.no_grad():
        return torch.cat([model(*sample) for sample in samples])


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    "name", networks(zoo.names(), slow=(*LARGE, "ecg_conv1d", "mobilenet_v1_025", "mobilenet_v1_pruned"))
)
def test_integers_are_as_accurate_as_the_quantized_float_graph(name: str) -> None:
    """Integer arithmetic costs at most half a decibel on top of what quantization costs."""
    samples = unseen(name, 64)
    exact = run_all(zoo.get(name).build(), samples)
    simulated = run_all(prepared(name).quantized.converted, samples)
    found = run_all(lambda *sample: reference_outputs(graph_of(name), sample)[0], samples)
    assert found.shape == simulated.shape == exact.shape
    assert decibels(exact, found) >= decibels(exact, simulated) - 0.5
    assert decibels(exact, found) > 12  # all zeros would be 0, a network of other weights less


# ---- every target --------------------------------------------------------------------------------------------


@pytest.mark.cases(3)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", networks(zoo.names(), slow=[name for name in zoo.names() if name != "ds_cnn"]))
def test_compiles_for(name: str, target: str) -> None:
    """The C bundle and, for the networks that were measured on ExecuTorch, the .pte: the same integer kernels."""
    compiled = prepared(name).compile(from_target_string(target))
    report = compiled.report
    assert (report.bundle_missing, report.float_operators) == ((), ())
    assert compiled.pte is not None or name not in NODES
    assert compiled.planned is not None
    assert compiled.graph is not None
    validate(compiled.planned.problem, compiled.planned.plan)
    assert compiled.planned.plan.peak >= compiled.planned.plan.lower_bound > 0
    assert [call.operator for call in compiled.graph.calls] == [call.operator for call in graph_of(name).calls]


# ---- on the boards -------------------------------------------------------------------------------------------

MOST_STACK_BYTES = 1024
BOARDS = ("cortex-m0plus", "cortex-m3", "cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55")  # one of each ISA
# (test_end_to_end.py has DS-CNN on the other three.)
QUICK = [*(("ds_cnn", f"cortex-m{core}", 10) for core in (3, 7, 33)), ("deep_autoencoder", "cortex-m4", 10)]
# One input of MobileNetV2 is half a billion emulated instructions, 10 to 20 seconds: all others are for test-all.
BIG = [("mobilenet_v2", "cortex-m55", 1)]
ALL = [(name, target, 10) for name in zoo.names() for target in BOARDS if (name, target, 10) not in QUICK]


def board_runs() -> list[Any]:
    return [
        pytest.param(name, target, inputs, marks=[pytest.mark.xdist_group(f"network {name}"), *marks])
        for runs, marks in ((QUICK + BIG, []), (ALL, [pytest.mark.slow]))
        for name, target, inputs in runs
    ]


@pytest.mark.cases(2)
@pytest.mark.qemu
@pytest.mark.parametrize(("name", "target", "inputs"), board_runs())
def test_boards_equal_the_reference(name: str, target: str, inputs: int, tmp_path: Path) -> None:
    """With every store checked; and the schedule and its kernels need little stack (painted before each run)."""
    result = run_bundle(tmp_path, planned(name, target, Optimize.BALANCED), inputs)
    assert result.stack_bytes is not None
    assert 0 < result.stack_bytes < MOST_STACK_BYTES


@pytest.mark.qemu
@pytest.mark.xdist_group("network ds_cnn")
def test_ds_cnn_on_a_microbit(tmp_path: Path) -> None:
    """A Cortex-M0 with 16 KB of RAM."""
    found = planned("ds_cnn", "cortex-m0", Optimize.RAM)
    result = run_bundle(tmp_path, found, inputs=10, on="microbit")
    assert result.on == "microbit"
    assert result.stack_bytes is not None
    assert found.plan.peak + result.stack_bytes < 16 * 1024


# ---- sizes ---------------------------------------------------------------------------------------------------


@pytest.mark.cases(2)
@pytest.mark.parametrize("target", ["cortex-m55", "cortex-m0plus"])
@pytest.mark.parametrize("name", networks(list(MOST_PTE_BYTES)))
def test_size_of_the_pte(name: str, target: str) -> None:
    program = lowered(name, target)
    assert not c_only(program)
    assert len(emit_pte(program, from_target_string(target), {"model": name}).data) <= MOST_PTE_BYTES[name]


@pytest.mark.cases(3)
@pytest.mark.parametrize("target", PLANNED)
@pytest.mark.parametrize("name", networks(list(MOST_ARENA_BYTES)))
def test_ram_of_the_bundle(name: str, target: str) -> None:
    """int8 inputs and outputs, their buffers included."""
    assert planned(name, target, Optimize.RAM).plan.peak <= MOST_ARENA_BYTES[name]


@pytest.mark.parametrize("target", ["cortex-m55", "cortex-m4"])
@pytest.mark.parametrize("name", networks(list(MOST_CODE_BYTES)))
def test_code_of_the_bundle(name: str, target: str) -> None:
    """.text and descriptors with the bundle's own flags, constants not counted; and nothing in RAM but the arena."""
    bundle = emit_c(planned(name, target, Optimize.BALANCED))
    info = BundleInfo(name, from_target_string(target), (), ())
    size = measure.code_bytes(bundle, info)
    assert size is not None
    assert size <= MOST_CODE_BYTES[name]
    assert measure.static_bytes(bundle, info) == 0
