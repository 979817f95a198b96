"""The .pte on the real ExecuTorch runtime: the reference's bits, nothing superfluous in the file, no crash."""

import copy
import json
import math
import random
import re
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from executorch.exir._serialize._program import deserialize_pte_binary
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cases
from cortado.api import Model, prepare
from cortado.base.errors import CortadoError
from cortado.base.target import Isa, from_target_string
from cortado.emit.pte.edge import Edge, to_edge
from cortado.emit.pte.planning import ALIGNMENT
from cortado.emit.pte.program import Pte, emit_pte
from cortado.emit.pte.tools import bundle_pte
from cortado.emit.pte.values import share_values
from cortado.frontend import zoo
from cortado.ir.op import Call, Operator, Place, registry
from cortado.ops._height_one import is_wrong_on_mve
from cortado.ops.pad import looks_channels_last
from cortado.options import LinearWeights
from cortado.passes import CortexMPassManager
from cortado.plan.lowered import LoweredGraph, lowered_graph, reference_outputs
from cortado.pte.arguments import OPERATOR_ARGUMENTS
from cortado.pte.info import IoQParams
from cortado.pte.reader import read_pte
from cortado.run import executorch_host
from cortado.run.executorch_host import ADAPTER, HEADER, KERNELS, operator_header, registered_operators, run_pte
from test_networks import MOST_PTE_BYTES

# Networks and programs are made once per worker: these tests stay together on one.
pytestmark = pytest.mark.xdist_group("executorch")

BASELINES = json.loads((Path(__file__).parents[1] / "benchmarks" / "baselines.json").read_text())
ANY, SCALAR, DSP, MVE = "cortex-m", "cortex-m0plus", "cortex-m4", "cortex-m55"
IN_PTE = [op for op in registry().operators.values() if op.samples is not None and Place.PTE in op.places]
QUIET = settings(deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None)
# A stack too small for any layer that pads: everything has to come from scratch or from a temp allocator.
SANITIZED = (
    "-O1",
    "-g",
    "-fno-omit-frame-pointer",
    "-fsanitize=address,undefined",
    "-fno-sanitize=vptr,signed-integer-overflow,shift",
    "-fno-sanitize-recover=undefined",
    "-UCORTADO_ET_STACK_BYTES",
    "-DCORTADO_ET_STACK_BYTES=32",
)
Arrays = list[np.ndarray[Any, Any]]


def draw(operator: Operator, count: int) -> list[dict[str, Any]]:
    """So many of an operator's samples, always the same. (hypothesis begins with the simplest: that one is not it.)"""
    assert operator.samples is not None
    drawn: list[dict[str, Any]] = []

    @settings(QUIET, max_examples=3)
    @given(batch=st.lists(operator.samples(), min_size=count, max_size=count))
    def take(batch: list[dict[str, Any]]) -> None:
        drawn[:] = batch

    take()
    # A pool whose last window is cut off by ceil_mode; without ceil_mode the compiler never makes this operator.
    clipped = operator.name == "cortado::max_pool2d_nhwc"
    return copy.deepcopy([arguments for arguments in drawn if not clipped or arguments["ceil_mode"]])


def draw_legal(operator: Operator, count: int, target: str) -> list[dict[str, Any]]:
    """Those that the compiler makes for a target: what Arm's kernels can't do is lowered in another way."""
    rare = operator.base == "quantized_transpose_conv2d_nhwc"  # zero taps make most of them legal, in lowering
    drawn = draw(operator, 6 * count if rare else count)
    found = [arguments for arguments in drawn if _is_legal(operator, arguments, target)]
    assert len(found) >= count // 4
    return found


def _is_legal(operator: Operator, arguments: Mapping[str, Any], target: str) -> bool:
    if operator.base == "quantized_linear" and Isa.MVE in from_target_string(target).isas:
        return arguments["kernel_sum"] is not None
    rewritten = operator.base in ("transpose", "pad", "quantized_add", "quantized_mul")
    return rewritten or operator.pte_limit(_shaped(operator, arguments)) is None


def _shaped(operator: Operator, arguments: Mapping[str, Any]) -> Call:
    return Call(operator, {name: cases._shapes(value) for name, value in arguments.items()}, ())


def by_name(name: str) -> Operator:
    return registry().operators[name]


def emit_cases(work: Sequence[cases.Case], target: str = ANY) -> tuple[Pte, Arrays]:
    """A .pte that makes every call once, and its inputs."""
    program, inputs = cases.lowered_program(work)
    return emit_pte(program, from_target_string(target), {}), [tensor.numpy() for tensor in inputs]


def check_cases(work: Sequence[cases.Case], target: str, flags: Sequence[str] = ()) -> None:
    pte, inputs = emit_cases(work, target)
    found = run_pte(pte.data, [inputs], flags=flags)[0]
    for got, want, (operator, arguments) in zip(found, cases.references(work), work, strict=True):
        assert got.dtype == want.numpy().dtype
        np.testing.assert_array_equal(got, want.numpy(), err_msg=f"{operator.name} {arguments}")


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


@cache
def network(name: str) -> Model:
    found = zoo.get(name)
    return prepare(found.build(), found.example_inputs(), found.calibration(4), name=name)


def lower(model: Model, target: str) -> torch.export.ExportedProgram:
    program = model.quantized.program()
    CortexMPassManager(program, target_config=from_target_string(target)).transform()
    return program


@cache
def emitted(name: str, target: str) -> tuple[Pte, LoweredGraph]:
    program = lower(network(name), target)
    return emit_pte(program, from_target_string(target), {"model": name}), lowered_graph(program)


def check_network(name: str, target: str) -> None:
    pte, graph = emitted(name, target)
    samples = zoo.get(name).calibration(3, seed=99)
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
    program = network("deep_autoencoder").quantized.program()
    config = from_target_string(target)
    CortexMPassManager(program, target_config=config, linear=LinearWeights.PER_TENSOR).transform()
    for node in program.graph.nodes:
        if without is not None and without in node.kwargs:
            node.kwargs = {**node.kwargs, without: None}
    return program


@pytest.mark.host
def test_one_file_for_all_cores_means_the_same_on_each() -> None:
    samples = [[tensor.numpy() for tensor in sample] for sample in zoo.get("deep_autoencoder").calibration(3, seed=5)]
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


def test_calls_are_those_of_the_graph_in_order() -> None:
    pte, graph = emitted("ds_cnn", MVE)
    method = read_pte(pte.data).method("forward")
    assert method is not None
    assert list(method.calls) == [f"{call.operator}.out" for call in graph.calls if "view" not in call.operator]
    assert pte.portable_operators == ()


def test_emission_is_repeatable() -> None:
    program, config = lower(network("ds_cnn"), MVE), from_target_string(MVE)
    one = emit_pte(program, config, {"model": "ds_cnn"}, etrecord=True)
    other = emit_pte(program, config, {"model": "ds_cnn"}, etrecord=True)
    assert one.data == other.data == emitted("ds_cnn", MVE)[0].data
    assert one.etrecord is not None
    assert one.etrecord == other.etrecord


def test_every_node_has_a_debug_handle() -> None:
    edge: Edge = to_edge(lower(network("ds_cnn"), MVE), from_target_string(MVE))
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
    only = [op for op in registry().operators.values() if Place.PTE not in op.places and op.samples is not None]
    assert only
    operator = replace(only[0])
    program, _ = cases.lowered_program([(operator, draw(operator, 1)[0])])
    with pytest.raises(CortadoError, match=re.escape(operator.name)) as caught:
        emit_pte(program, from_target_string(ANY), {})
    assert operator.constraints in str(caught.value)


def test_limits_of_the_runtime_are_named() -> None:
    """What ExecuTorch's own kernels can't do is in Pte.limits; Cortado's library refuses it as they do."""
    depthwise = by_name("cortex_m::quantized_depthwise_conv2d_nhwc")
    arguments = draw(depthwise, 1)[0]
    arguments["input"] = torch.cat([arguments["input"], arguments["input"]])
    work = [(depthwise, arguments)]
    pte, inputs = emit_cases(work)
    assert "found a batch of" in pte.limits[0]
    with pytest.raises(CortadoError, match="found a batch of 2"):
        run_pte(pte.data, [inputs])


# ---- for ExecuTorch's tools ----------------------------------------------------------------------------------------

TOOLS = """
import ctypes, json, sys
import torch
from executorch.devtools import Inspector
from executorch.extension.pybindings import portable_lib
from cortado.emit.pte.tools import register_operators
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
"""


@pytest.mark.host
def test_executorchs_tools_read_etrecord_and_bundle(tmp_path: Path) -> None:
    """Inspector maps every operator to the module of the model it came from; the bundle's outputs are checked."""
    program, config = lower(network("ds_cnn"), MVE), from_target_string(MVE)
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
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["names"] == [f"{call.operator}.out" for call in graph.calls if "view" not in call.operator]
    layers = ["stem.0", "blocks.0", "blocks.3", "blocks.6", "blocks.9", "blocks.12", "blocks.15", "blocks.18"]
    assert said["modules"] == [[], *([layer] for layer in [*layers, "blocks.21", "pool", "classifier"]), []]
    assert said["refused"] == [1]


# ---- the operator library ------------------------------------------------------------------------------------------


def test_header_is_the_registrys() -> None:
    assert HEADER.read_text() == operator_header(), "out of date; run: python -m cortado.run.executorch_host"


def test_every_cortex_m_operator_of_the_contract_is_registered() -> None:
    assert registered_operators() == set(OPERATOR_ARGUMENTS)


def test_cmake_lists_the_same_sources() -> None:
    text = (ADAPTER / "CMakeLists.txt").read_text()
    for name, wanted in (
        ("CORTADO_ADAPTER_SOURCES", executorch_host.ADAPTER_SOURCES),
        ("CORTADO_KERNEL_SOURCES", executorch_host.KERNEL_SOURCES),
    ):
        found = re.search(rf"set\({name}\n(.*?)\n\)", text, re.DOTALL)
        assert found is not None
        assert tuple(found.group(1).split()) == wanted


@pytest.mark.host
@pytest.mark.slow
def test_cmake_target_builds_and_runs(tmp_path: Path) -> None:
    """As a project would: add_subdirectory and one link line."""
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.19)\nproject(firmware C CXX)\nfind_package(executorch REQUIRED)\n"
        f"add_subdirectory({ADAPTER} cortado)\nadd_executable(firmware {ADAPTER}/pte_runner.cpp)\n"
        "target_link_libraries(firmware PRIVATE cortado_cortex_m_ops ${EXECUTORCH_LIBRARIES})\n"
    )
    build = tmp_path / "build"
    root = f"-DCMAKE_PREFIX_PATH={executorch_host.wheel().root}"
    for command in (["cmake", "-S", str(tmp_path), "-B", str(build), root], ["cmake", "--build", str(build), "-j2"]):
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
        assert done.returncode == 0, done.stdout + done.stderr
    pte, graph = emitted("ds_cnn", SCALAR)
    sample = zoo.get("ds_cnn").example_inputs()
    model, given, got = (tmp_path / name for name in ("model.pte", "in.bin", "out.bin"))
    model.write_bytes(pte.data)
    given.write_bytes(sample[0].numpy().tobytes())
    subprocess.run([build / "firmware", model, given, got, "1"], check=True, timeout=60)
    assert got.read_bytes() == reference_outputs(graph, list(sample))[0].numpy().tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["c++", "clang++-19", "arm-none-eabi-g++"])
def test_adapter_compiles_without_warnings(compiler: str) -> None:
    found = executorch_host.wheel()
    cross = ["-mcpu=cortex-m0plus", "-mthumb", "-Wno-psabi"] if compiler.startswith("arm") else []
    strict = ["-std=c++17", "-fno-exceptions", "-fno-rtti", "-Wall", "-Wextra", "-Wconversion", "-Werror"]
    includes = [f"-I{folder}" for folder in executorch_host.include_dirs()]
    sources = [str(ADAPTER / name) for name in executorch_host.ADAPTER_SOURCES]
    command = [compiler, "-fsyntax-only", *cross, *strict, *found.compile_flags, *includes, *sources]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr


# ---- calls that are wrong ------------------------------------------------------------------------------------------

# ExecuTorch's codes.
TYPE_CODES = {torch.uint8: 0, torch.int8: 1, torch.int32: 3, torch.int64: 4, torch.float32: 6}
NONE, INTEGER, REAL, BOOLEAN, LIST, TENSOR = range(6)
Order = Sequence[int]


def _packed(code: str, values: Sequence[Any]) -> bytes:
    return struct.pack(f"<I{len(values)}{code}", len(values), *values)


def _tensor(tensor: torch.Tensor, order: Order | None = None) -> bytes:
    """A tensor argument. With `order`, the sizes are named in another order than they are stored."""
    stored = tuple(range(tensor.dim())) if order is None else tuple(order)
    sizes = [0] * tensor.dim()
    for size, dim in zip(tensor.shape, stored, strict=True):
        sizes[dim] = size
    data = tensor.contiguous().numpy().tobytes()
    return (
        struct.pack("<BB", TENSOR, TYPE_CODES[tensor.dtype])
        + _packed("i", sizes)
        + _packed("B", stored)
        + (struct.pack("<I", len(data)) + data)
    )


def _argument(value: Any) -> bytes:
    match value:
        case None:
            return struct.pack("<B", NONE)
        case bool():
            return struct.pack("<Bq", BOOLEAN, value)
        case int():
            return struct.pack("<Bq", INTEGER, value)
        case float():
            return struct.pack("<Bd", REAL, value)
        case torch.dtype():
            return struct.pack("<Bq", INTEGER, TYPE_CODES[value])
        case torch.Tensor():
            return _tensor(value)
    return struct.pack("<B", LIST) + _packed("q", value)


def _call(
    operator: Operator, arguments: Mapping[str, Any], *, twin: bool = False, target: str = MVE, more: int = 0
) -> bytes:
    """A call with its exact result, and so much more scratch than the target needs.

    `twin`: of the operator whose images are named NCHW and stored NHWC.
    """
    order = (0, 2, 3, 1) if twin else None
    shapes = {name: cases._shapes(value) for name, value in arguments.items()}
    result = operator.reference(**arguments)
    scratch: dict[str, int] = {}
    if operator.scratch_names:
        call = Call(operator, shapes, tuple(result.shape))
        sizes = [operator.pte_scratch(call, backend) for backend in from_target_string(target).backends]
        worst = [max(column) + more for column in zip(*sizes, strict=True)]
        scratch = dict(zip(operator.scratch_names, worst, strict=True))
    parts = []
    for name in operator.argument_names:
        if name in scratch:
            parts.append(_tensor(torch.zeros(scratch[name], dtype=torch.uint8)))
        elif name in operator.tensors:
            parts.append(_tensor(arguments[name], order))
        else:
            parts.append(_argument(arguments[name]))
    name = f"cortex_m::{operator.base.removesuffix('_nhwc') if twin else operator.base}.out".encode()
    parts.append(_tensor(result, order))
    return _packed("c", [bytes([byte]) for byte in name]) + struct.pack("<I", len(parts)) + b"".join(parts)


def _as_written(operator: Operator, arguments: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The arguments as they stand in a .pte for MVE; None where the call is written in another way."""
    call = _shaped(operator, arguments)
    if not _is_legal(operator, arguments, MVE) or operator.pte_limit(call) is not None:
        return None
    if operator.base == "pad":
        zeros = [0] * (4 - arguments["input"].dim())
        lists = {name: zeros + arguments[name] for name in ("pre_pad", "post_pad")}
        return None if looks_channels_last(call.shape("input")) else {**arguments, **lists}
    if operator.base in ("quantized_conv2d_nhwc", "quantized_depthwise_conv2d_nhwc"):
        depth = call.shape("weight")[3] if operator.base == "quantized_conv2d_nhwc" else 1
        return None if is_wrong_on_mve(call, depth) else arguments
    return arguments


def _write_calls(path: Path, count: int) -> int:
    """Calls of every operator, and of every NHWC operator's twin. The number of calls."""
    calls = []
    for operator in registry().operators.values():
        if operator.namespace == "cortex_m" and operator.samples is not None:
            written = (_as_written(operator, arguments) for arguments in draw(operator, count))
            drawn = [arguments for arguments in written if arguments is not None]
            calls += [_call(operator, arguments) for arguments in drawn]
            if operator.base.endswith("_nhwc"):
                calls += [_call(operator, arguments, twin=True) for arguments in drawn]
    path.write_bytes(struct.pack("<I", len(calls)) + b"".join(calls))
    return len(calls)


def _fuzz(tmp_path: Path, count: int, changes: int, seed: int) -> None:
    source = Path(__file__).parent / "fuzz_executorch.cpp"
    program = executorch_host.build_program([source], "fuzz_executorch", SANITIZED)
    calls = _write_calls(tmp_path / "calls.bin", count)
    command = [str(program), str(tmp_path / "calls.bin"), str(seed), str(changes), MVE]
    environment = {"ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1", "UBSAN_OPTIONS": "print_stacktrace=1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, env=environment)
    assert done.returncode == 0, done.stderr[-4000:]
    made, refused = (int(word) for word in re.findall(r"\d+", done.stdout))
    assert 0.9 * calls * changes < made <= calls * changes
    assert 0.3 * made < refused < made, "both kinds of ending have to happen"


@pytest.mark.host
def test_wrong_arguments_are_refused_without_harm(tmp_path: Path) -> None:
    """Right calls give the reference's bits, changed ones an error or any result; sanitizers watch."""
    _fuzz(tmp_path, count=6, changes=150, seed=1)


@pytest.mark.host
@pytest.mark.slow
def test_wrong_arguments_are_refused_without_harm_long(tmp_path: Path) -> None:
    _fuzz(tmp_path, count=40, changes=600, seed=2)


@pytest.mark.host
def test_little_stack_means_scratch_or_temp_allocator(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 32 bytes of stack: a padding pixel from the scratch tensor, from a temp allocator, or a clear refusal."""
    monkeypatch.setenv("ASAN_OPTIONS", "detect_leaks=0")  # what the wheel's libraries keep until the end
    depthwise = by_name("cortex_m::quantized_depthwise_conv2d_nhwc")
    plain = {"depth_multiplier": 1, "dilation": [1, 1]}  # CMSIS-NN has a vector kernel for these, with scratch
    layers = [a for a in draw_legal(depthwise, 200, SCALAR) if all(a[name] == value for name, value in plain.items())]
    wide = [a for a in layers if a["input"].shape[3] > 32 and any(a["padding"])]
    assert wide
    work = [(depthwise, wide[0])]
    pte, inputs = emit_cases(work, SCALAR)
    method = read_pte(pte.data).method("forward")
    assert method is not None
    assert method.scratch_bytes == 0
    with pytest.raises(CortadoError, match="MemoryAllocationFailed") as caught:
        run_pte(pte.data, [inputs], flags=SANITIZED)
    assert "CORTADO_ET_STACK_BYTES" in str(caught.value)
    found = run_pte(pte.data, [inputs], flags=SANITIZED, temp_bytes=4096)[0]
    np.testing.assert_array_equal(found[0], cases.references(work)[0].numpy())
    check_cases(work, MVE, flags=SANITIZED)  # there the layer has scratch


# ---- runs that are wrong -------------------------------------------------------------------------------------------


@cache
def small() -> tuple[bytes, Arrays]:
    add = by_name("cortex_m::quantized_add")
    pte, inputs = emit_cases([(add, draw(add, 1)[0])])
    return pte.data, inputs


@pytest.mark.host
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda arrays: arrays[:1], "sample 0 has 1 inputs, and the .pte takes 2"),
        (lambda arrays: [arrays[0].astype(np.float32), arrays[1]], "is float32 .* takes int8"),
        (lambda arrays: [arrays[0][None], arrays[1]], "and the .pte takes int8"),
    ],
    ids=["too few", "another type", "another shape"],
)
def test_wrong_inputs_are_named(change: Callable[[Arrays], Arrays], message: str) -> None:
    data, inputs = small()
    with pytest.raises(CortadoError, match=message):
        run_pte(data, [change(inputs)])


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CortadoError, match=r"can't read .*nothing\.pte"):
        run_pte(tmp_path / "nothing.pte", [])


def test_bundles_are_not_programs() -> None:
    data, inputs = small()
    bundle = bundle_pte(data, [inputs], [inputs[:1]])
    with pytest.raises(CortadoError, match="bundled program"):
        run_pte(bundle, [inputs])


def test_operators_of_another_library_are_named() -> None:
    data, inputs = small()
    other = data.replace(b"cortex_m::quantized_add", b"cortex_m::quantized_xor")
    assert other != data
    with pytest.raises(CortadoError, match=r"cortex_m::quantized_xor\.out, which Cortado's operator library"):
        run_pte(other, [inputs])


@pytest.mark.host
def test_runtimes_reason_is_passed_on() -> None:
    """The file says one thing about its input and does another: the kernel refuses, and the user reads why."""
    softmax = by_name("cortex_m::softmax")
    work = [(softmax, draw(softmax, 1)[0])]
    program, inputs = cases.lowered_program(work)
    for node in program.graph.nodes:
        if node.op == "call_function":
            node.kwargs = {**node.kwargs, "output_zero_point": 0}
    pte = emit_pte(program, from_target_string(ANY), {})
    with pytest.raises(CortadoError) as caught:
        run_pte(pte.data, [[tensor.numpy() for tensor in inputs]])
    assert "expected the output zero point -128" in str(caught.value)
    assert "cortex_m::softmax.out" in str(caught.value)
    assert "type id" not in str(caught.value)


def _program(folder: Path, body: str) -> Path:
    """A program in place of the runner."""
    path = folder / "runner"
    path.write_text(f"#!{sys.executable}\n{body}\n")
    path.chmod(0o755)
    return path


def test_signal_becomes_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = _program(tmp_path, "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)")
    monkeypatch.setattr(executorch_host, "runner_program", lambda flags: runner)
    data, inputs = small()
    with pytest.raises(CortadoError, match=r"was ended by SIGSEGV while it ran the \.pte"):
        run_pte(data, [inputs])


def test_endless_run_becomes_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = _program(tmp_path, "import time\ntime.sleep(60)")
    monkeypatch.setattr(executorch_host, "runner_program", lambda flags: runner)
    data, inputs = small()
    with pytest.raises(CortadoError, match="did not finish"):
        run_pte(data, [inputs], timeout=0.2)


@pytest.mark.host
def test_damaged_files_never_crash_this_process() -> None:
    """Every change of bytes ends in outputs of the right shapes or in a CortadoError."""
    pte, _ = emitted("ds_cnn", MVE)
    sample = [tensor.numpy() for tensor in zoo.get("ds_cnn").example_inputs()]
    program_size = read_pte(pte.data).program_size
    rng, refused = random.Random(7), 0
    for _ in range(60):
        damaged = bytearray(pte.data)
        for _ in range(rng.choice([1, 1, 2, 8])):
            damaged[rng.randrange(program_size)] = rng.randrange(256)
        try:
            outputs = run_pte(bytes(damaged), [sample], timeout=20)
        except CortadoError:
            refused += 1
        else:
            assert all(isinstance(array, np.ndarray) for array in outputs[0])
    assert 5 < refused < 60


def test_shapes_survive_another_order_of_dimensions() -> None:
    """Outputs that a file stores channels-last come back under the sizes it names."""
    info = read_pte(small()[0]).method("forward")
    assert info is not None
    tensor = info.outputs[0].tensor
    assert tensor is not None
    stored = np.arange(2 * 3 * 4 * 5, dtype=np.int8).reshape(2, 4, 5, 3)
    named = replace(tensor, shape=(2, 3, 4, 5), dim_order=(0, 2, 3, 1), nbytes=math.prod(stored.shape))
    (found,) = executorch_host._split(stored.tobytes(), [named], 1, "x")[0]
    np.testing.assert_array_equal(found, stored.transpose(0, 3, 1, 2))


def test_kernels_of_the_library_exist() -> None:
    assert [path for path in executorch_host.adapter_sources() if not path.is_file()] == []
    assert (KERNELS / "include" / "cortado.h").is_file()
    assert all(one < other for one, other in pairwise(executorch_host.KERNEL_SOURCES))
