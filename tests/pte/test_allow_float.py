"""--allow-float: what a .pte can't hold in integers stays in float there, is listed, and runs on the real runtime."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from cortado.api import Compiled, Model, Options, prepare
from cortado.artifact.checked import Checked
from cortado.artifact.manifest import REPORT
from cortado.artifact.opened import FLOAT_TOLERANCE, Artifact
from cortado.base.errors import NO_FLOAT_KERNEL, CortadoError, Reject
from cortado.base.target import from_target_string
from cortado.cli.compile import float_would_help
from cortado.cli.entry import main
from cortado.ir.portable import float_call, kernels, run_float
from cortado.options import Artifacts
from cortado.plan.lowered import reference_outputs
from cortado.run.runner import RunResult

Tensor = torch.Tensor
TARGET = from_target_string("cortex-m4")
ALLOWED = Options(allow_float=True)


class DilatedPool(nn.Module):
    """A dilated max-pool between two convolutions: in C only."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(2, 4, 3), nn.Conv2d(4, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.last(F.max_pool2d(self.first(x), 3, 1, 1, dilation=2))
        return y


class TwoImages(nn.Module):
    """A transposed convolution with groups and a fused ReLU over a batch: CMSIS-NN gets it wrong, so in C only."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.last = nn.ConvTranspose2d(20, 24, 3, stride=2, groups=2), nn.Conv2d(24, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.last(torch.relu(self.up(x)))
        return y


class LogSoftmax(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return torch.log_softmax(self.linear(x), 1)


class Angle(nn.Module):
    """No integer operator at all, between two layers that have one."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(2, 4, 3), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x).mean((2, 3))
        z: Tensor = self.last(y + torch.atan2(y, y.flip(1)))
        return z


class AngleOfInput(nn.Module):
    """Float from the input to the output."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.atan2(x, x.flip(1))


class Place(nn.Module):
    """Indices, which have no scale, through an operator that moves data in integers elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return torch.argmax(self.linear(x), 1).unsqueeze(1)


class Bags(nn.Module):
    """Means of embeddings, which no portable kernel computes."""

    def __init__(self) -> None:
        super().__init__()
        self.bag, self.last = nn.EmbeddingBag(9, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.last(self.bag(torch.topk(x, 3).indices))
        return y


class Nonzero(nn.Module):
    """A result whose shape nobody knows beforehand."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.nonzero(x)


class Determinant(nn.Module):
    """Neither an integer operator nor a portable kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return torch.linalg.det(self.linear(x))


class ManyKinds(nn.Module):
    """Eight calls of five operators that exist in C only."""

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(4):
            x = F.max_pool2d(x, 3, 1, 1, dilation=2)
        return torch.where(x > 0, x.cumsum(-1), x.var(-1, keepdim=True, unbiased=False))


IN_C = {DilatedPool: (1, 2, 12, 12), TwoImages: (2, 20, 5, 5), LogSoftmax: (2, 8)}
NOT_IN_C = {Angle: (1, 2, 8, 8), AngleOfInput: (2, 5)}
OTHERS = {ManyKinds: (1, 2, 12, 12), Bags: (2, 5), Place: (2, 8), Determinant: (3, 3), Nonzero: (2, 3)}
SHAPES: dict[type[nn.Module], tuple[int, ...]] = {**IN_C, **NOT_IN_C, **OTHERS}


def quantized(kind: type[nn.Module]) -> Model:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(7)
        model = kind().eval()
        batches = [(torch.randn(SHAPES[kind]),) for _ in range(4)]
    return prepare(model, batches[0], batches)


def fresh(kind: type[nn.Module]) -> Tensor:
    return torch.randn(SHAPES[kind], generator=torch.Generator().manual_seed(99))


def listed(compiled: Compiled) -> list[str]:
    return [item.operator for item in compiled.report.float_operators]


# ---- in C only -----------------------------------------------------------------------------------------------


@pytest.mark.cases(1)
@pytest.mark.parametrize("kind", IN_C)
def test_without_the_flag_there_is_no_pte_and_no_float(kind: type[nn.Module]) -> None:
    compiled = quantized(kind).compile(TARGET)
    assert compiled.pte is None
    assert compiled.report.float_operators == ()
    assert "C bundle only" in compiled.report.pte_missing[0]


@pytest.mark.cases(1)
def test_calls_of_one_kind_are_told_once_and_further_operators_by_their_names() -> None:
    pools, second, third, others, _ = quantized(ManyKinds).compile(TARGET).report.pte_missing
    assert f"{Path(__file__).name}:" in pools
    assert ", and 3 other calls: cortado::dilated_max_pool2d_nhwc exists in the C bundle only (" in pools
    assert all("exists in the C bundle only (" in one for one in (second, third))
    assert others.startswith("so do calls of cortado::")


@pytest.mark.cases(1)
@pytest.mark.host
@pytest.mark.parametrize(
    ("kind", "operators", "exact"),
    [
        (DilatedPool, ["aten.max_pool2d.default"], True),
        (TwoImages, ["aten.conv_transpose2d.input", "aten.clamp.default"], False),
        (LogSoftmax, ["aten.log_softmax.int"], False),
    ],
)
def test_what_only_c_can_stays_float_in_the_pte(kind: type[nn.Module], operators: list[str], exact: bool) -> None:
    model = quantized(kind)
    compiled, plain = model.compile(TARGET, ALLOWED), model.compile(TARGET)
    report = compiled.report
    assert listed(compiled) == operators
    assert report.pte_missing == report.bundle_missing == ()
    item = report.float_operators[0]
    assert item.source is not None
    assert f"{Path(__file__).name}:" in item.source
    assert "C bundle only" in item.reason
    assert set(item.kernels) <= set(report.portable_operators)
    assert compiled.bundle is not None
    assert plain.bundle is not None
    assert compiled.bundle.files == plain.bundle.files  # the C bundle is what it was: all integer
    assert compiled.run(fresh(kind), on="host").bit_exact
    checked = compiled.run(fresh(kind), on="executorch")
    assert checked.right
    assert checked.bit_exact or not exact
    # The integers of the C bundle and the float kernels compute the same network.
    assert compiled.graph is not None
    integers = reference_outputs(compiled.graph, [fresh(kind)])[0].numpy()
    found = checked.result.samples[0][0]
    assert np.array_equal(found, integers) if exact else np.abs(found - integers).max() < 0.05 * np.abs(integers).max()


# ---- on purpose ---


@pytest.mark.host
def test_a_module_stays_float_on_purpose() -> None:
    """Its weights are the model's own: what is left of the error is that of the layers before."""
    torch.manual_seed(5)
    module = nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3)).eval()
    options = Options(keep_float=("3",))
    batches = [(torch.randn(1, 2, 8, 8),) for _ in range(8)]
    model = prepare(module, batches[0], batches, options=options)
    compiled = model.compile(TARGET, options)
    assert [(item.module, item.reason) for item in compiled.report.float_operators] == [
        ("3", "it stays in float (--keep-float)")
    ]
    assert compiled.bundle is None
    x = torch.randn(1, 2, 8, 8)
    checked = compiled.run(x, on="executorch")
    assert checked.right
    with torch.no_grad():
        assert np.abs(checked.result.samples[0][0] - module(x).numpy()).max() < 0.03


def test_a_module_that_is_not_there_can_not_stay_float() -> None:
    options = Options(keep_float=("head.*",))
    with pytest.raises(CortadoError, match=r"--keep-float 'head.\*' matches neither a module"):
        prepare(nn.Linear(4, 4), (torch.ones(1, 4),), [(torch.ones(1, 4),)], options=options)
    with pytest.raises(CortadoError, match=r"--keep-float is for the .pte"):
        Options(keep_float=("head.*",), artifacts=Artifacts.C)


# ---- no integer operator -------------------------------------------------------------------------------------


@pytest.mark.cases(1)
@pytest.mark.host
@pytest.mark.parametrize(
    ("kind", "operators"),
    [
        (Angle, ["aten.atan2.default"]),
        (AngleOfInput, ["aten.atan2.default"]),
    ],
)
def test_what_has_no_integer_operator_stays_float(kind: type[nn.Module], operators: list[str], tmp_path: Path) -> None:
    model = quantized(kind)
    compiled = model.compile(TARGET, ALLOWED)
    report = compiled.report
    assert listed(compiled) == operators
    assert (compiled.bundle, compiled.planned, report.memory, report.flash) == (None, None, None, None)
    assert len(report.bundle_missing) == 1
    assert "mixes several tensors element by element" in report.bundle_missing[0]
    checked = compiled.run(fresh(kind), on="executorch")
    assert checked.right
    with torch.no_grad():
        wanted: Any = model.quantized.converted(fresh(kind))
    wanted = list(wanted) if isinstance(wanted, list | tuple) else [wanted]
    for found, want in zip(checked.result.samples[0], wanted, strict=True):
        assert found.dtype == want.numpy().dtype
        assert np.abs(found - want.numpy()).max() <= 0.03 * np.abs(want.numpy()).max()
    artifact = compiled.save(tmp_path / "model")
    assert Artifact.open(artifact.folder).report == artifact.report
    assert (artifact.folder / f"{report.prefix}.pte").is_file()
    assert list(artifact.folder.rglob("*.c")) == []
    with pytest.raises(CortadoError, match=r"holds no C bundle, only a .pte"):
        artifact.run([[fresh(kind).numpy()]], "host")


@pytest.mark.cases(1)
@pytest.mark.parametrize("kind", NOT_IN_C)
def test_without_the_flag_it_is_one_error_that_names_the_flag(kind: type[nn.Module]) -> None:
    with pytest.raises(CortadoError) as caught:
        quantized(kind).compile(TARGET)
    title, line, hint = str(caught.value).splitlines()  # one line for each operator, none for its results
    assert title == "can't run in integer arithmetic:"
    assert line.startswith("  aten.")
    assert f"{Path(__file__).name}:" in line
    assert "--allow-float" in hint


def test_what_executorch_cannot_do_is_an_error_with_and_without_the_flag() -> None:
    model = quantized(Determinant)
    with pytest.raises(CortadoError, match="no integer operator") as caught:
        model.compile(TARGET)
    assert "--allow-float" not in str(caught.value)
    with pytest.raises(CortadoError, match=r"ExecuTorch has no portable kernel for aten::_linalg_det\.result"):
        model.compile(TARGET, ALLOWED)


def test_what_no_portable_kernel_computes_is_in_c_alone() -> None:
    """And nobody is told that --allow-float would help."""
    model = quantized(Bags)
    report = model.compile(TARGET).report
    (reason,) = [reason for reason in report.pte_missing if "cortado::embedding_bag" in reason]
    assert reason.endswith(NO_FLOAT_KERNEL)
    assert not float_would_help(report)
    allowed = model.compile(TARGET, ALLOWED)
    assert allowed.pte is None
    assert allowed.bundle is not None
    assert any(NO_FLOAT_KERNEL in reason for reason in allowed.report.pte_missing)
    assert not float_would_help(allowed.report)


def test_who_lacks_a_pte_is_told_what_would_write_it() -> None:
    assert float_would_help(quantized(LogSoftmax).compile(TARGET).report)


def test_a_result_of_unknown_shape_is_an_error_before_anything_is_quantized() -> None:
    with pytest.raises(CortadoError, match="gives a tensor whose shape depends on values, expected a fixed shape"):
        quantized(Nonzero)


@pytest.mark.host
def test_indices_are_never_quantized() -> None:
    compiled = quantized(Place).compile(TARGET, ALLOWED)
    assert listed(compiled) == ["aten.argmax.default"]
    checked = compiled.run(fresh(Place), on="executorch")
    assert checked.bit_exact
    assert checked.result.samples[0][0].dtype == np.int64


def test_a_budget_needs_a_c_bundle() -> None:
    with pytest.raises(CortadoError, match="budgets, memories, sections, cameras and decisions are for the C bundle"):
        quantized(Angle).compile(TARGET, replace(ALLOWED, ram_budget=100_000))


def test_an_integer_network_has_nothing_in_float(tiny: Model) -> None:
    plain, allowed = tiny.compile(TARGET), tiny.compile(TARGET, ALLOWED)
    assert listed(plain) == listed(allowed) == []
    assert plain.pte is not None
    assert allowed.pte is not None
    assert plain.pte.data == allowed.pte.data


def test_a_report_that_contradicts_itself_is_refused(tiny_artifact: Artifact, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(tiny_artifact.folder, folder)
    report = json.loads((folder / REPORT).read_text())
    (folder / REPORT).write_text(json.dumps({**report, "memory": None}))
    with pytest.raises(CortadoError, match="a C bundle that is both present and missing"):
        Artifact.open(folder)


# ---- the parts -----------------------------------------------------------------------------------------------


def test_the_tolerance_is_for_float_operators_alone() -> None:
    want = np.array([1.0, -0.5], dtype=np.float32)

    def checked(change: float, tolerance: float) -> Checked:
        return Checked(RunResult("executorch", [[want + np.float32(change)]]), [[want]], [[want]], True, tolerance)

    assert checked(0, 0).right
    assert not checked(1e-6, 0).right
    assert checked(1e-6, FLOAT_TOLERANCE).right
    assert not checked(1e-6, FLOAT_TOLERANCE).bit_exact
    assert not checked(0.03, FLOAT_TOLERANCE).right


def test_the_runtime_of_this_machine_has_the_portable_kernels() -> None:
    from executorch.runtime import Runtime

    assert len(kernels()) > 150
    assert kernels() - set(Runtime.get().operator_registry.operator_names) <= {"et_copy::_h2d_copy.out"}


def test_calls_that_cannot_be_kept() -> None:
    assert isinstance(float_call(torch.ops.aten.prod.dim_int, {"self": object(), "dim": 0}, "why"), Reject)
    assert isinstance(float_call(torch.cond, {}, "why"), Reject)
    with pytest.raises(CortadoError, match="torch has no function"):
        run_float("aten::no_such_operator.default", {})


@pytest.mark.parametrize("name", ["aten::from_file.default", "aten::add_.Tensor", "aten::__init__.x", "os::system.x"])
def test_a_damaged_reference_calls_no_other_functions(name: str) -> None:
    with pytest.raises(CortadoError, match="torch has no function"):
        run_float(name, {})


# ---- the command line ----------------------------------------------------------------------------------------

MODEL = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return torch.{call}

ModelUnderTest = Model().eval()
ModelInputs = (torch.ones(1, 4),)
"""


@pytest.fixture
def written(tmp_path: Path) -> Path:
    (tmp_path / "sums.py").write_text(MODEL.format(call="atan2(self.linear(x), self.linear(x).flip(1))"))
    return tmp_path


def compile_words(folder: Path, *more: str) -> list[str]:
    file, out = folder / "sums.py", folder / "out"
    return ["compile", str(file), "-t", "cortex-m4", "--calibration", "random", "-o", str(out), *more]


@pytest.mark.host
def test_the_command_line_lists_what_stays_in_float(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(compile_words(written, "--allow-float")) == 0
    text = capsys.readouterr().out
    assert "in float32  aten.atan2.default at " in text
    assert "in float  aten.atan2.default at " in text
    assert "sums.py:10" in text
    assert main(["run", str(written / "out"), "--on", "executorch", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["board"] == "executorch"
    assert main(["run", str(written / "out" / "sums.pte")]) == 0
    assert "the reference" in capsys.readouterr().out
    assert main(["run", str(written / "out"), "--on", "host"]) == 0
    assert "bit-exact with the reference" in capsys.readouterr().out


def test_the_command_line_without_the_flag_writes_nothing(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(compile_words(written)) == 2
    assert "--allow-float" in capsys.readouterr().err
    assert not (written / "out").exists()


def test_a_boolean_output_runs_and_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net.py").write_text(
        "import torch\n"
        "class Positive(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        return x > 0\n"
        "ModelUnderTest, ModelInputs = Positive(), torch.ones(1, 8)\n"
    )
    folder = str(tmp_path / "out")
    given = ["-t", "cortex-m4", "--calibration", "random", "--allow-float", "-o", folder]
    assert main(["compile", str(tmp_path / "net.py"), *given]) == 0
    assert main(["run", folder, "--on", "host"]) == 0
    assert "bit-exact with the reference" in capsys.readouterr().out
