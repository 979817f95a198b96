"""The .pte on the real ExecuTorch runtime: the reference's bits, and nothing superfluous in the file."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from executorch.exir._serialize._program import deserialize_pte_binary
from executorch.exir.dialects.edge import _ops
from ruamel.yaml import YAML

from cortado.base.errors import CortadoError
from cortado.base.target import from_target_string
from cortado.emit.pte.edge import EdgeProgram, to_edge
from cortado.emit.pte.program import bundle_pte, emit_pte
from cortado.emit.pte.values import ALIGNMENT, share_values
from cortado.ir.op import Operator, registry
from cortado.ir.patched import yaml_in_c
from cortado.models import zoo
from cortado.options import LinearWeights
from cortado.passes import CortexMPassManager
from cortado.plan.lowered import LoweredGraph, lowered_graph, reference_outputs
from cortado.pte.info import IoQParams
from cortado.pte.reader import read_pte
from cortado.run.executorch_host import run_pte
from helpers import cases
from helpers.executorch import (
    ANY,
    DSP,
    IN_PTE,
    MVE,
    SCALAR,
    by_name,
    check_cases,
    draw,
    draw_legal,
    emit_cases,
    emitted,
)
from helpers.networks import BASELINES, MOST_PTE_BYTES, lowered, prepared, unseen

# Networks and programs are made once per worker: these tests stay together on one.
pytestmark = pytest.mark.xdist_group("executorch")


def test_the_table_of_operators_reads_the_same_with_libyaml() -> None:
    text = Path(_ops.__file__).with_name("edge.yaml").read_text()
    with yaml_in_c():
        quick = YAML(typ="safe").load(text)
    assert {entry["inherits"]: entry for entry in quick} == _ops._edge_dialect_info
    assert len(quick) > 100


# ---- the same bits -------------------------------------------------------------------------------------------------


@pytest.mark.host
@pytest.mark.parametrize("operator", IN_PTE, ids=lambda op: op.base)
def test_operator_equals_reference(operator: Operator) -> None:
    check_cases([(operator, arguments) for arguments in draw_legal(operator, 12, ANY)], ANY)


@pytest.mark.host
@pytest.mark.slow
@pytest.mark.parametrize("target", [SCALAR, DSP, MVE])
@pytest.mark.parametrize("operator", IN_PTE, ids=lambda op: op.base)
def test_operator_equals_reference_long(operator: Operator, target: str) -> None:
    drawn = draw_legal(operator, 80, target)
    for start in range(0, len(drawn), 40):
        check_cases([(operator, arguments) for arguments in drawn[start : start + 40]], target)


def check_network(name: str, target: str) -> None:
    pte, graph = emitted(name, target)
    samples = unseen(name, 3)
    found = run_pte(pte.data, [[tensor.numpy() for tensor in sample] for sample in samples])
    for sample, got in zip(samples, found, strict=True):
        wanted = [tensor.numpy() for tensor in reference_outputs(graph, list(sample))]
        assert len(got) == len(wanted) > 0
        for one, other in zip(got, wanted, strict=True):
            np.testing.assert_array_equal(one, other)
    assert len({sample[0].tobytes() for sample in found}) > 1, "all samples gave the same: nothing was tested"


def check_sizes(name: str) -> None:
    """No larger than promised, and no more RAM than the peer's program needs."""
    pte, _ = emitted(name, MVE)
    assert len(pte.data) <= MOST_PTE_BYTES[name]
    assert pte.arena_bytes <= BASELINES["executorch_models"][name]["m55"]["arena_bytes"]
    assert pte.limits == ()


@pytest.mark.host
@pytest.mark.parametrize("name", ["ds_cnn", "resnet8", "deep_autoencoder"])
def test_network_equals_reference(name: str) -> None:
    check_network(name, MVE)
    check_sizes(name)


@pytest.mark.host
@pytest.mark.slow
@pytest.mark.parametrize("name", ["mobilenet_v1_025", "mobilenet_v2", "mobilenet_v3_small"])
def test_large_network_equals_reference(name: str) -> None:
    check_network(name, MVE)
    check_sizes(name)


@pytest.mark.host
@pytest.mark.slow
@pytest.mark.parametrize("name", ["unet_small", "ecg_conv1d"])
@pytest.mark.parametrize("target", [SCALAR, ANY])
def test_other_network_equals_reference(name: str, target: str) -> None:
    check_network(name, target)


@pytest.mark.host
def test_linear_means_the_same_to_readers_of_either_bias() -> None:
    """MVE kernels read kernel_sum, the others bias: a call that carries both gives the same bits with one of them."""
    linear = by_name("cortex_m::quantized_linear")
    both = [a for a in draw(linear, 24) if a["bias"] is not None and a["kernel_sum"] is not None]
    assert both
    check_cases([(linear, arguments) for arguments in both], ANY)
    for target, read, unread in ((MVE, "kernel_sum", "bias"), (DSP, "bias", "kernel_sum")):
        check_cases([(linear, {**arguments, unread: None}) for arguments in both], target)
        pte, inputs = emit_cases([(linear, {**both[0], read: both[0][read] + 1})], ANY)
        with pytest.raises(CortadoError, match="cores with MVE read it, others read the bias"):
            run_pte(pte.data, [inputs])


def per_tensor(target: str, without: str | None = None) -> torch.export.ExportedProgram:
    """The dense network with one scale per layer; `without`: as a reader sees it that ignores that argument."""
    program = prepared("deep_autoencoder").quantized.program()
    config = from_target_string(target)
    CortexMPassManager(program, target_config=config, linear=LinearWeights.PER_TENSOR).transform()
    for node in program.graph.nodes:
        if without is not None and without in node.kwargs:
            node.kwargs = {**node.kwargs, without: None}
    return program


@pytest.mark.host
def test_one_file_for_all_cores_means_the_same_on_each() -> None:
    samples = [[tensor.numpy() for tensor in sample] for sample in unseen("deep_autoencoder", 3)]
    both, scalar, mve = (per_tensor(ANY, without) for without in (None, "kernel_sum", "bias"))
    assert len(emit_pte(both, from_target_string(ANY), {}).data) <= 286_000
    assert len(emit_pte(per_tensor(MVE), from_target_string(MVE), {}).data) <= 279_000
    wanted = [reference_outputs(lowered_graph(both), [torch.from_numpy(x) for x in sample]) for sample in samples]
    for program, target in ((both, ANY), (scalar, SCALAR), (mve, MVE)):
        calls = [node for node in program.graph.nodes if "kernel_sum" in node.kwargs]
        assert len(calls) == 10
        found = run_pte(emit_pte(program, from_target_string(target), {}).data, samples)
        for got, want in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(got[0], want[0].numpy())


# ---- the file ------------------------------------------------------------------------------------------------------


def test_no_constant_is_dead_or_there_twice() -> None:
    data = emitted("ds_cnn", MVE)[0].data
    info = read_pte(data)
    assert len(info.constants) > 30
    assert [constant for constant in info.constants if not constant.uses] == []
    contents = [(c.dtype, data[c.offset : c.offset + c.nbytes]) for c in info.constants]
    assert len(set(contents)) == len(contents)
    assert all(constant.offset % ALIGNMENT == 0 for constant in info.constants)


def test_constants_are_in_plain_order() -> None:
    """A weight with one input channel has strides that fit several orders; the file must name the plain one."""
    method = read_pte(emitted("ds_cnn", MVE)[0].data).method("forward")
    assert method is not None
    plan = deserialize_pte_binary(emitted("ds_cnn", MVE)[0].data).program.execution_plan[0]
    tensors = [value.val for value in plan.values if hasattr(value.val, "dim_order")]
    assert len(tensors) > 40
    assert all(tensor.dim_order == sorted(tensor.dim_order) for tensor in tensors)


def test_metadata_says_target_and_quantization() -> None:
    pte, graph = emitted("ds_cnn", MVE)
    metadata = read_pte(pte.data).metadata
    assert metadata is not None
    assert (metadata.target, metadata.layout) == (MVE, "as in the model")
    first, last = graph.calls[0], graph.calls[-1]
    assert (first.operator, last.operator) == ("cortex_m::quantize_per_tensor", "cortex_m::dequantize_per_tensor")
    assert metadata.inputs == (IoQParams(first.arguments["scale"], first.arguments["zero_point"]),)
    assert metadata.outputs == (IoQParams(last.arguments["scale"], last.arguments["zero_point"]),)
    assert json.loads(metadata.text)["model"] == "ds_cnn"


def names_in_a_pte(graph: LoweredGraph) -> list[str]:
    """The graph's calls without views; a mean over an image is a convolution there."""
    names = [call.operator for call in graph.calls if "view" not in call.operator]
    mean, convolution = "cortado::global_mean_nhwc", "cortex_m::quantized_conv2d_nhwc"
    return [f"{convolution if name == mean else name}.out" for name in names]


def test_calls_are_those_of_the_graph_in_order() -> None:
    pte, graph = emitted("ds_cnn", MVE)
    method = read_pte(pte.data).method("forward")
    assert method is not None
    assert [name for name in method.calls if "view" not in name] == names_in_a_pte(graph)
    assert pte.portable_operators == ()


def test_emission_is_repeatable() -> None:
    program, config = lowered("ds_cnn", MVE), from_target_string(MVE)
    one = emit_pte(program, config, {"model": "ds_cnn"}, etrecord=True)
    other = emit_pte(program, config, {"model": "ds_cnn"}, etrecord=True)
    assert one.data == other.data == emitted("ds_cnn", MVE)[0].data
    assert one.etrecord is not None
    assert one.etrecord == other.etrecord


def test_every_node_has_a_debug_handle() -> None:
    edge: EdgeProgram = to_edge(lowered("ds_cnn", MVE), from_target_string(MVE))
    handles = [node.meta["debug_handle"] for node in edge.program.graph.nodes]
    assert len(set(handles)) == len(handles)
    calls = [node for node in edge.program.graph.nodes if node.op == "call_function"]
    placed = [node for node in calls if node.meta.get("nn_module_stack")]
    assert len(placed) >= 2 * 11  # eleven layers, each with its scratch; the border from and to float has no module


def test_equal_numbers_are_one_value() -> None:
    plan = deserialize_pte_binary(emitted("ds_cnn", MVE)[0].data).program.execution_plan[0]
    shared = [
        repr(value.val) for value in plan.values if type(value.val).__name__ in ("Int", "IntList", "Bool", "Null")
    ]
    assert len(set(shared)) == len(shared) > 5
    before = repr(plan)
    share_values(plan)
    assert repr(plan) == before, "sharing again changes nothing"


def test_outputs_of_calls_are_never_shared() -> None:
    """Two results may lie at one place at different times; they stay two values, as a reader of the file expects."""
    plan = deserialize_pte_binary(emitted("ds_cnn", MVE)[0].data).program.execution_plan[0]
    results = [instruction.instr_args.args[-1] for instruction in plan.chains[0].instructions]
    assert len(set(results)) == len(results) == 13
    assert len({repr(plan.values[index]) for index in results}) < len(results)


@pytest.mark.host
def test_empty_scratch_runs() -> None:
    """A pointwise layer on a core without DSP needs no scratch: the argument is a tensor of 0 elements."""
    conv = by_name("cortex_m::quantized_conv2d_nhwc")
    drawn = draw_legal(conv, 60, SCALAR)
    pointwise = [a for a in drawn if tuple(a["weight"].shape[1:3]) == (1, 1) and a["padding"] == [0, 0]]
    work = [(conv, arguments) for arguments in pointwise[:4]]
    pte, _ = emit_cases(work, SCALAR)
    method = read_pte(pte.data).method("forward")
    assert method is not None
    assert 0 in {scratch.nbytes for scratch in method.scratch}
    check_cases(work, SCALAR)


def test_c_only_operators_are_refused_with_their_reason() -> None:
    only = [op for op in registry().operators.values() if not op.in_pte and op.kernel is not None]
    assert only
    operator = replace(only[0])
    program, _ = cases.lowered_program([(operator, draw(operator, 1)[0])])
    with pytest.raises(CortadoError, match=re.escape(operator.name)) as caught:
        emit_pte(program, from_target_string(ANY), {})
    assert operator.no_pte in str(caught.value)


def test_limits_of_the_runtime_are_named() -> None:
    """What ExecuTorch's own kernels can't do is in Pte.limits; Cortado's library refuses it as they do."""
    depthwise = by_name("cortex_m::quantized_depthwise_conv2d_nhwc")
    arguments = draw(depthwise, 1)[0]
    arguments["input"] = torch.cat([arguments["input"][:1], arguments["input"][:1]])
    work = [(depthwise, arguments)]
    pte, inputs = emit_cases(work)
    assert "found a batch of" in pte.limits[0]
    with pytest.raises(CortadoError, match="found a batch of 2"):
        run_pte(pte.data, [inputs])


# ---- for ExecuTorch's tools ----------------------------------------------------------------------------------------

TOOLS = """
import ctypes, json, os, sys
import torch
from executorch.devtools import Inspector
from executorch.extension.pybindings import portable_lib
from cortado.emit.pte.program import register_operators
from cortado.run.executorch_host import operator_library
register_operators()
folder = sys.argv[1]
library = ctypes.CDLL(str(operator_library()), mode=ctypes.RTLD_GLOBAL)
assert library.cortado_cortex_m_target(b"cortex-m55") == 0
module = portable_lib._load_for_executorch(f"{folder}/model.pte", enable_etdump=True)
module.forward([torch.load(f"{folder}/input.pt")])
module.write_etdump_result_to_file(f"{folder}/model.etdump")
inspector = Inspector(etdump_path=f"{folder}/model.etdump", etrecord=f"{folder}/model.etrecord")
events = [event for block in inspector.event_blocks for event in block.events if event.name.startswith("cortex_m::")]
modules = [[list(stack.values())[-1][0] for stack in event.module_hierarchy.values() if stack] for event in events]
bundle = portable_lib._load_bundled_program_from_buffer(open(f"{folder}/model.bpte", "rb").read())
refused = []
for case in (0, 1):
    try:
        bundle.verify_result_with_bundled_expected_output("forward", case, 0.0, 0.0)
    except RuntimeError:
        refused.append(case)
print(json.dumps({"names": [event.name for event in events], "modules": modules, "refused": refused}))
sys.stdout.flush()
os._exit(0)  # what the libraries do at the end of a process is not waited for
"""


@pytest.mark.slow
@pytest.mark.host
def test_executorchs_tools_read_etrecord_and_bundle(tmp_path: Path) -> None:
    """Inspector maps every operator to the module of the model it came from; the bundle's outputs are checked."""
    program, config = lowered("ds_cnn", MVE), from_target_string(MVE)
    pte = emit_pte(program, config, {}, etrecord=True)
    graph, sample = lowered_graph(program), zoo.get("ds_cnn").example_inputs()
    right = reference_outputs(graph, list(sample))[0].numpy()
    wrong = right + np.float32(1.0)
    assert pte.etrecord is not None
    (tmp_path / "model.pte").write_bytes(pte.data)
    (tmp_path / "model.etrecord").write_bytes(pte.etrecord)
    (tmp_path / "model.bpte").write_bytes(bundle_pte(pte.data, [[sample[0].numpy()]] * 2, [[right], [wrong]]))
    torch.save(sample[0], tmp_path / "input.pt")
    command = [sys.executable, "-W", "ignore", "-c", TOOLS, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert [name for name in said["names"] if "view" not in name] == names_in_a_pte(graph)
    layers = ["stem.0", "blocks.0", "blocks.3", "blocks.6", "blocks.9", "blocks.12", "blocks.15", "blocks.18"]
    assert said["modules"] == [[], *([layer] for layer in [*layers, "blocks.21", "pool", "classifier"]), []]
    assert said["refused"] == [1]
