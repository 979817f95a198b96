"""What a bundle tells its user: the README's example compiles as it stands, and the order of the data is said."""

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cortado.api import prepare
from cortado.artifact.opened import Artifact
from cortado.base.errors import CortadoError
from cortado.base.system import KERNEL_FOLDERS, KERNEL_SOURCES
from cortado.base.target import CortexMTargetConfig, from_target_string
from cortado.emit.c.data import float_text
from cortado.models.sources import load_model
from cortado.options import Border, Options
from cortado.run import toolchain
from cortado.run.runner import WARNINGS, bundle_includes, bundle_sources
from helpers.paths import MODELS

M4 = from_target_string("cortex-m4")
M55 = from_target_string("cortex-m55")


class Image(nn.Module):
    """The input is not stored as in the model: channels last."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, image: Tensor) -> Tensor:
        return torch.relu(self.conv(image))


class Gain(nn.Module):
    """An input and an output of no dimensions."""

    def forward(self, gain: Tensor) -> Tensor:
        return torch.relu(gain * 0.5)


class Passing(nn.Module):
    """The second tensor is of a type that no kernel computes with."""

    def forward(self, x: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
        return torch.relu(x), count


def compiled(name: str, folder: Path, target: CortexMTargetConfig = M4, border: Border = Border.INT8) -> Artifact:
    torch.manual_seed(0)
    own: dict[str, tuple[nn.Module, tuple[Tensor, ...]]] = {
        "image": (Image(), (torch.randn(1, 3, 16, 16),)),
        "passing": (Passing(), (torch.randn(1, 4), torch.ones(1, 5, dtype=torch.int64))),
        "gain": (Gain(), (torch.tensor(2.0),)),
    }
    if name in own:
        model, example = own[name]
    else:
        source = load_model(str(MODELS / f"{name}.py"))
        model, example = source.model, tuple(torch.randn_like(x) for x in source.example_inputs)
    found = prepare(model, example, [example], name=name).compile(target, Options(io=border))
    return found.save(folder / name)


def example_of(artifact: Artifact) -> str:
    found = re.search(r"```c\n(.*?)```", (artifact.folder / "README.md").read_text(), re.DOTALL)
    assert found is not None
    return found.group(1)


@pytest.mark.cases(2)
@pytest.mark.host
@pytest.mark.parametrize(
    ("name", "border", "head"),
    [
        ("tiny", Border.INT8, "int classify(const int8_t *input0)"),
        ("tiny", Border.FLOAT, "int classify(const float *input0)"),
        ("image", Border.FLOAT, "int infer(const float *input0, float *output0)"),
        ("gain", Border.INT8, "int infer(const int8_t *input0, int8_t *output0)"),
        (
            "passing",
            Border.INT8,
            "int infer(const int8_t *input0, const int32_t *input1, int8_t *output0, int32_t *output1)",
        ),
        (
            "two",
            Border.INT8,
            "int infer(const int8_t *input0, const int8_t *input1, int8_t *output0, int8_t *output1)",
        ),
    ],
)
def test_the_example_compiles_without_a_warning(name: str, border: Border, head: str, tmp_path: Path) -> None:
    artifact = compiled(name, tmp_path, border=border)
    text = example_of(artifact)
    assert head in text
    source = tmp_path / "example.c"
    source.write_text(text)
    toolchain.compile_object(source, [artifact.folder], [*M4.compiler_flags(), *WARNINGS], toolchain.arm_gcc())
    scaled = re.findall(r"\w+_SCALE", (artifact.folder / "README.md").read_text())
    assert bool(scaled) == (border is Border.INT8)
    header = (artifact.folder / f"{name}.h").read_text()
    assert all(f"#define {macro} " in header for macro in scaled)


def test_the_order_of_the_data_is_said(tmp_path: Path) -> None:
    folder = compiled("image", tmp_path).folder
    for file in ("README.md", "image.h"):
        text = " ".join((folder / file).read_text().replace("\n * ", " ").split())
        assert "[1, 3, 16, 16] in the model, here NHWC: [1, 16, 16, 3]" in text
        assert "[1, 4, 14, 14] in the model, here NHWC: [1, 14, 14, 4]" in text
        assert "values keep the order of dimensions" in text
    assert "[1, 6] as in the model" in (compiled("two", tmp_path).folder / "two.h").read_text()


@pytest.mark.host
def test_the_header_is_c99_and_cpp11(tmp_path: Path) -> None:
    """Shapes of no dimensions, too, initialise an array."""
    use = '#include "gain.h"\nint shape[] = GAIN_INPUT0_SHAPE;\nint layout[] = GAIN_OUTPUT0_LAYOUT;\n'
    use += "float scale = GAIN_INPUT0_SCALE;\n"
    folder = compiled("gain", tmp_path).folder
    for tool, standard in ((toolchain.Tool.CC, "c99"), (toolchain.Tool.CXX, "c++11")):
        source = tmp_path / f"use.{'c' if standard == 'c99' else 'cpp'}"
        source.write_text(use)
        command = [str(toolchain.require(tool)), f"-std={standard}", "-Wall", "-Wextra", "-pedantic", "-Werror"]
        subprocess.run([*command, f"-I{folder}", "-c", source, "-o", tmp_path / "use.o"], check=True)


@pytest.mark.parametrize("value", [0.0, 1.0, -3.0, 1 / 255, 1e-45, 3.4028235e38, 16777216.0, 1e10])
def test_constants_are_decimal_and_exact(value: float) -> None:
    text = float_text(value)
    assert re.fullmatch(r"-?\d+(\.\d+)?(e[+-]\d+)?f", text)
    assert "." in text or "e" in text
    assert np.float32(text[:-1]) == np.float32(value)


# ---- a bundle that is compiled wrongly -------------------------------------------------------------------------------


@pytest.mark.host
@pytest.mark.parametrize(
    "source", [path for path in KERNEL_SOURCES.values() if path.suffix == ".S"], ids=lambda path: path.name
)
def test_assembly_without_the_cores_flags_says_so(source: Path) -> None:
    with pytest.raises(CortadoError, match="assemble this file with the core's flags, such as -mcpu=cortex-m4 -mthumb"):
        toolchain.compile_object(source, KERNEL_FOLDERS, [], toolchain.arm_gcc())
    toolchain.compile_object(source, KERNEL_FOLDERS, [], toolchain.host_compiler())


@pytest.mark.host
def test_a_bundle_for_any_core_says_how_it_runs_here(tmp_path: Path) -> None:
    artifact = compiled("tiny", tmp_path, from_target_string("cortex-m"))
    source = next(path for path in bundle_sources(artifact.folder) if path.name == "tiny.c")
    with pytest.raises(CortadoError, match="compile it for a Cortex-M core; `cortado run --on host` runs it on this"):
        toolchain.compile_object(source, bundle_includes(artifact.folder), ["-std=c99"], toolchain.host_compiler())
    assert "-mcpu=cortex-m4 -mthumb" in (artifact.folder / "README.md").read_text()


def test_the_readme_names_the_cores_flags(tmp_path: Path) -> None:
    text = (compiled("tiny", tmp_path, M55).folder / "README.md").read_text()
    assert " ".join(M55.compiler_flags()) in text


# ---- no dimensions ---------------------------------------------------------------------------------------------------


@pytest.mark.cases(1)
@pytest.mark.host
@pytest.mark.parametrize("border", list(Border))
def test_a_number_runs_bit_exact(border: Border, tmp_path: Path) -> None:
    artifact = compiled("gain", tmp_path, border=border)
    example = artifact.example()
    assert [value.shape for value in example] == [()]
    for sample in (example, [np.array(0.25, dtype=np.float32)], [np.array(7, dtype=np.int8)]):
        if border is Border.FLOAT and sample[0].dtype == np.int8:
            continue
        checked = artifact.run([sample], "host")
        assert checked.bit_exact
        assert checked.result.samples[0][0].shape == ()
        assert artifact.real(checked.result.samples[0])[0].shape == ()
