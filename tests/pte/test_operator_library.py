"""The operator library: what it registers, how it builds, and calls that are wrong."""

import re
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cortado.base.errors import CortadoError
from cortado.ir import sampling
from cortado.ir.op import Operator, registry
from cortado.models import zoo
from cortado.ops.conv.convolution import is_wrong_on_mve
from cortado.ops.move.pad import looks_channels_last
from cortado.plan.lowered import reference_outputs
from cortado.pte.method import OPERATOR_ARGUMENTS
from cortado.pte.reader import read_pte
from cortado.run import executorch_host
from cortado.run.executorch_host import ADAPTER, HEADER, operator_header, registered_operators, run_pte
from helpers import cases
from helpers.executorch import (
    MVE,
    SANITIZED,
    SCALAR,
    by_name,
    call_bytes,
    check_cases,
    draw,
    draw_legal,
    emit_cases,
    emitted,
    is_legal,
)

# Networks and programs are made once per worker: these tests stay together on one.
pytestmark = pytest.mark.xdist_group("executorch")


# ---- the operator library ------------------------------------------------------------------------------------------


def test_header_is_the_registrys() -> None:
    assert HEADER.read_text() == operator_header(), "out of date; run: python -m cortado.run.executorch_host"


def test_every_cortex_m_operator_of_the_contract_is_registered() -> None:
    assert registered_operators() == set(OPERATOR_ARGUMENTS)


def test_cmake_lists_the_same_sources() -> None:
    text = (ADAPTER / "CMakeLists.txt").read_text()
    for name, wanted in (
        ("CORTADO_ADAPTER_SOURCES", executorch_host.ADAPTER_SOURCES),
        ("CORTADO_KERNEL_SOURCES", executorch_host.LINKED_KERNELS),
    ):
        found = re.search(rf"set\({name}\n(.*?)\n\)", text, re.DOTALL)
        assert found is not None
        assert tuple(Path(one).name for one in found.group(1).split()) == wanted


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
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)
        assert done.returncode == 0, done.stdout + done.stderr
    pte, graph = emitted("ds_cnn", SCALAR)
    sample = zoo.get("ds_cnn").example_inputs()
    model, given, got = (tmp_path / name for name in ("model.pte", "in.bin", "out.bin"))
    model.write_bytes(pte.data)
    given.write_bytes(sample[0].numpy().tobytes())
    subprocess.run([build / "firmware", model, given, got, "1"], check=True, timeout=1800)
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
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)
    assert done.returncode == 0, done.stderr


# ---- calls that are wrong ------------------------------------------------------------------------------------------


def _as_written(operator: Operator, arguments: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The arguments as they stand in a .pte for MVE; None where the call is written in another way."""
    call = cases.shaped(operator, arguments)
    if not is_legal(operator, arguments, MVE) or operator.pte_limit(call) is not None:
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
        if operator.namespace == "cortex_m" and operator.kernel is not None:
            written = (_as_written(operator, arguments) for arguments in draw(operator, count))
            drawn = [arguments for arguments in written if arguments is not None]
            calls += [call_bytes(operator, arguments) for arguments in drawn]
            if operator.base.endswith("_nhwc"):
                calls += [call_bytes(operator, arguments, twin=True) for arguments in drawn]
    path.write_bytes(struct.pack("<I", len(calls)) + b"".join(calls))
    return len(calls)


def _fuzz(tmp_path: Path, count: int, changes: int, seed: int) -> None:
    source = Path(__file__).parent / "fuzz_executorch.cpp"
    program = executorch_host.build_program([source], "fuzz_executorch", SANITIZED)
    calls = _write_calls(tmp_path / "calls.bin", count)
    command = [str(program), str(tmp_path / "calls.bin"), str(seed), str(changes), MVE]
    environment = {"ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1", "UBSAN_OPTIONS": "print_stacktrace=1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800, env=environment)
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
    monkeypatch.setattr(sampling, "CHANNELS", (33,))  # a padding pixel of more than 32 bytes
    plain = {"depth_multiplier": 1, "dilation": [1, 1]}  # CMSIS-NN has a vector kernel for these, with scratch
    layers = [a for a in draw_legal(depthwise, 60, SCALAR) if all(a[name] == value for name, value in plain.items())]
    work = [(depthwise, next(a for a in layers if any(a["padding"])))]
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
