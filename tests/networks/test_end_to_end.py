"""One network from nn.Module to the same bits everywhere: reference, host C, emulated M0+, M4 and M55; and the .pte."""

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cortado
from cortado.api import Model, prepare
from cortado.artifact.manifest import REPORT
from cortado.artifact.opened import Artifact
from cortado.artifact.report import PteReport
from cortado.base.errors import CortadoError
from cortado.base.target import from_target_string
from cortado.emit.c.library import library_hash
from cortado.models import zoo
from cortado.pte.reader import read_pte_file
from cortado.run.runner import bundle_includes
from helpers.cores import each_core
from helpers.golden import Golden
from helpers.networks import unseen
from helpers.paths import GOLDEN

# The network is prepared once per worker: these tests stay together on one.
pytestmark = pytest.mark.xdist_group("ds_cnn")

INPUTS = 20
BOARDS = {"cortex-m0plus": "mps2-an385", "cortex-m4": "mps2-an386", "cortex-m55": "mps3-an547"}
OPERATORS = {
    "cortex_m::quantize_per_tensor": 1,
    "cortex_m::quantized_conv2d_nhwc": 6,  # the stem, four pointwise layers, the classifier
    "cortex_m::quantized_depthwise_conv2d_nhwc": 4,
    "cortado::global_mean_nhwc": 1,
    "cortex_m::dequantize_per_tensor": 1,
}
IN_PTE = {  # where the mean is a convolution too
    "cortex_m::quantize_per_tensor": 1,
    "cortex_m::quantized_conv2d_nhwc": 7,
    "cortex_m::quantized_depthwise_conv2d_nhwc": 4,
    "cortex_m::dequantize_per_tensor": 1,
}
Compile = Callable[[str], Artifact]
Samples = list[list[np.ndarray[Any, Any]]]


@pytest.fixture(scope="module")
def ds_cnn() -> Model:
    network = zoo.get("ds_cnn")
    example = network.example_inputs()
    return prepare(network.build(), example, network.calibration(8), name=network.name, labels=network.labels)


@pytest.fixture(scope="module")
def compiled(ds_cnn: Model, tmp_path_factory: pytest.TempPathFactory) -> Compile:
    """Quantized once, lowered per target, each target compiled once."""
    done: dict[str, Artifact] = {}

    def compile_for(target: str) -> Artifact:
        if target not in done:
            folder = tmp_path_factory.mktemp("ds_cnn") / target
            done[target] = ds_cnn.compile(from_target_string(target)).save(folder)
        return done[target]

    return compile_for


@pytest.fixture(scope="module")
def samples() -> Samples:
    """Inputs that the calibration has not seen."""
    return [[tensor.numpy() for tensor in sample] for sample in unseen("ds_cnn", INPUTS)]


# ---- bits ---------------------------------------------------------------------------------------------------------


@pytest.mark.qemu
@pytest.mark.parametrize("target", BOARDS)
def test_board_equals_reference(compiled: Compile, samples: Samples, target: str) -> None:
    checked = compiled(target).run(samples, check_stores=True)
    assert checked.result.on == BOARDS[target]
    assert len(checked.result.samples) == len(checked.expected) == INPUTS
    for number, (found, expected) in enumerate(zip(checked.result.samples, checked.expected, strict=True)):
        np.testing.assert_array_equal(found[0], expected[0], err_msg=f"input {number}")
    assert checked.bit_exact
    assert checked.result.instructions is not None
    assert checked.result.stack_bytes is not None
    assert 0 < checked.result.stack_bytes < 1024


@pytest.mark.host
@pytest.mark.parametrize("target", each_core(*BOARDS, here="cortex-m4"))
def test_host_equals_reference(compiled: Compile, samples: Samples, target: str) -> None:
    checked = compiled(target).run(samples, "host")
    assert checked.result.on == "host"
    assert checked.bit_exact


def test_the_reference_does_not_depend_on_the_target(compiled: Compile, samples: Samples) -> None:
    first, *others = (compiled(target).reference(samples[:5])[1] for target in BOARDS)
    for other in others:
        np.testing.assert_array_equal(np.array(first), np.array(other))


def test_inputs_give_different_outputs(compiled: Compile, samples: Samples) -> None:
    """A network that answers every input alike would make all of the above easy."""
    outputs = {sample[0].tobytes() for sample in compiled("cortex-m4").reference(samples)[1]}
    assert len(outputs) == INPUTS


def test_the_reference_is_close_to_the_float_model(compiled: Compile, samples: Samples) -> None:
    model, artifact = zoo.get("ds_cnn").build(), compiled("cortex-m4")
    with torch.no_grad():
        expected = np.array([model(torch.from_numpy(sample[0])).numpy() for sample in samples])
    tensor = artifact.report.outputs[0]
    assert tensor.scale is not None
    assert tensor.zero_point is not None
    codes = np.array([sample[0] for sample in artifact.reference(samples)[1]])
    found = (codes.astype(np.float64) - tensor.zero_point) * tensor.scale
    assert 10 * np.log10((expected**2).sum() / ((found - expected) ** 2).sum()) > 20


@pytest.mark.host
def test_int8_inputs_are_the_codes_themselves(compiled: Compile, samples: Samples) -> None:
    artifact = compiled("cortex-m4")
    tensor = artifact.report.inputs[0]
    codes = np.clip(np.rint(samples[0][0] / np.float32(tensor.scale)) + tensor.zero_point, -128, 127)
    real = (codes.astype(np.float32) - tensor.zero_point) * np.float32(tensor.scale)
    from_codes, from_real = artifact.run([[codes.astype(np.int8)], [real]], "host").result.samples
    np.testing.assert_array_equal(from_codes[0], from_real[0])


# ---- artifacts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", BOARDS)
def test_only_integer_operators(compiled: Compile, target: str) -> None:
    report = compiled(target).report
    assert report.operators == OPERATORS
    assert (report.float_operators, report.portable_operators) == ((), ())


def test_report_keys_are_a_contract(compiled: Compile) -> None:
    """Later versions add keys; they never rename these."""
    report = compiled("cortex-m55").report.to_json()
    assert (report["target"], report["model"]) == ("cortex-m55", "ds_cnn")
    assert set(report["memory"]) >= {"arena_bytes", "scratch_bytes", "lower_bound_bytes", "optimal"}
    assert set(report["flash"]) >= {"weights_bytes", "code_bytes"}
    assert set(report["pte"]) >= {"bytes", "arena_bytes"}
    assert report["compile_seconds"]
    assert all(isinstance(value, float) for value in report["compile_seconds"].values())
    assert report["memory"]["lower_bound_bytes"] <= report["memory"]["arena_bytes"]
    assert report["flash"]["code_bytes"] > 1000


@pytest.mark.parametrize("target", [*BOARDS, "cortex-m"])
def test_pte_can_be_read(compiled: Compile, target: str) -> None:
    artifact = compiled(target)
    info = read_pte_file(artifact.folder / "ds_cnn.pte")
    forward = info.method("forward")
    assert forward is not None
    assert {use.name.removesuffix(".out"): use.count for use in forward.operators} == IN_PTE
    assert artifact.report.pte == PteReport(bytes=info.size, arena_bytes=forward.arena_bytes)
    assert all(constant.uses for constant in info.constants), "a constant that nothing reads"
    shapes = [[port.tensor.shape for port in ports if port.tensor] for ports in (forward.inputs, forward.outputs)]
    assert shapes == [[(1, 1, 49, 10)], [(1, 12)]]
    assert info.metadata is not None
    assert info.metadata.target == target
    assert info.metadata.version == cortado.__version__
    ports = (*artifact.report.inputs, *artifact.report.outputs)
    for qparams, port in zip((*info.metadata.inputs, *info.metadata.outputs), ports, strict=True):
        assert qparams is not None
        assert (qparams.scale, qparams.zero_point) == (port.scale, port.zero_point)


def test_a_bundle_says_no_to_a_smaller_core(compiled: Compile, tmp_path: Path) -> None:
    folder = compiled("cortex-m55").folder
    flags = from_target_string("cortex-m3").compiler_flags()
    include = [f"-I{path}" for path in bundle_includes(folder)]
    command = ["arm-none-eabi-gcc", *flags, *include, "-fsyntax-only", str(folder / "ds_cnn.c")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0
    assert "this bundle was planned for cortex-m55" in done.stderr


# ---- determinism --------------------------------------------------------------------------------------------------


def contents(folder: Path) -> dict[str, bytes]:
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    lines = files[REPORT].splitlines()
    start = next(i for i, line in enumerate(lines) if b'"compile_seconds"' in line)
    end = next(i for i in range(start, len(lines)) if b"}" in lines[i])
    return {**files, REPORT: b"\n".join(lines[:start] + lines[end + 1 :])}


@pytest.mark.parametrize("target", ["cortex-m55", "cortex-m"])
def test_two_compiles_are_byte_identical(compiled: Compile, tmp_path: Path, target: str) -> None:
    """From the nn.Module on, nothing shared; only the seconds may differ."""
    network = zoo.get("ds_cnn")
    example = network.example_inputs()
    again = prepare(network.build(), example, network.calibration(8), name=network.name, labels=network.labels)
    again.compile(from_target_string(target)).save(tmp_path / "again")
    first, second = contents(compiled(target).folder), contents(tmp_path / "again")
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []


# ---- the tiny network ---------------------------------------------------------------------------------------------


@pytest.mark.host
def test_emitted_c_is_golden_and_runs(tiny: Model, tmp_path: Path, golden: Golden) -> None:
    """All but the stack, which is what this machine's gcc makes of it, and the hashes of kernels and build."""
    artifact = tiny.compile(from_target_string("cortex-m0plus")).save(tmp_path / "tiny")
    header = (artifact.folder / "tiny.h").read_text()
    hashes = [library_hash(), *re.findall(r"TINY_BUILD 0x([0-9a-f]{8})u", header)[:1]]
    assert artifact.report.memory is not None
    figure = re.compile(rf"(STACK_BYTES |stack of a call \| ){artifact.report.memory.stack_bytes}\b")
    for name in ("tiny.h", "tiny.c", "tiny_data.h", "tiny_data.c", "CMakeLists.txt", "README.md"):
        text, times = figure.subn(r"\1N", (artifact.folder / name).read_text())
        assert times == (name in ("tiny.h", "README.md"))
        for one in hashes:
            text = text.replace(one, "00000000")
        golden(GOLDEN / "tiny" / name, text)
    assert artifact.run([artifact.example()], "host").bit_exact


@pytest.mark.qemu
def test_one_artifact_for_any_core(tiny: Model, tmp_path: Path) -> None:
    artifact = tiny.compile(from_target_string("cortex-m")).save(tmp_path / "tiny")
    outputs = []
    for on in ("host", *BOARDS.values()):
        checked = artifact.run([artifact.example()], on, check_stores=True)
        assert checked.bit_exact
        outputs.append(checked.result.samples[0][0].tobytes())
    assert len(set(outputs)) == 1


# ---- the Python API -----------------------------------------------------------------------------------------------


class Scorer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.linear(x)
        return result


@pytest.mark.host
def test_the_api_of_the_readme(tmp_path: Path) -> None:
    torch.manual_seed(0)
    batches = [(torch.randn(1, 5),) for _ in range(8)]
    result = cortado.compile(Scorer(), batches[0], target="cortex-m55", calibration=batches)
    assert result.report.model == "scorer"
    assert result.run(*batches[1], on="host").bit_exact
    artifact = result.save(tmp_path / "a folder")
    moved = shutil.move(artifact.folder, tmp_path / "elsewhere")
    assert Artifact.open(Path(moved)).run([[batches[2][0].numpy()]], "host").bit_exact


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"target": 55}, "target must be a string such as 'cortex-m55', found int"),
        ({"target": "cortex-m99"}, "unknown target 'cortex-m99'"),
        ({"calibration": []}, "no calibration data"),
        ({"calibration": [(torch.zeros(1, 4),)]}, r"calibration batch 0 has shape \[1, 4\], expected \[1, 5\]"),
        ({"calibration": [(torch.full((1, 5), torch.nan),)]}, "holds NaN or infinity"),
        ({"calibration": [(torch.zeros(1, 5), torch.zeros(1))]}, "has 2 tensors, expected 1"),
        ({"model": "ds_cnn"}, "expected a torch.nn.Module, found str"),
        ({"example_inputs": (1.0,)}, "example input 0 must be a tensor, found float"),
    ],
)
def test_the_api_answers_mistakes(arguments: dict[str, Any], message: str) -> None:
    right = {"model": Scorer(), "example_inputs": (torch.zeros(1, 5),), "calibration": [(torch.zeros(1, 5),)]}
    with pytest.raises(CortadoError, match=message):
        cortado.compile(**{**right, **arguments})
