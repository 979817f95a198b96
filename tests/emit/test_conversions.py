"""Real numbers and the codes of int8 and int16 inputs and outputs: the functions of the header, and of the bundle."""

import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cortado.api import prepare
from cortado.artifact.opened import Artifact
from cortado.base.target import BUNDLE_FLAGS
from cortado.compiled import Compiled
from cortado.emit.c.bundle import emit_c
from cortado.options import Activations, Artifacts, Border, Options
from cortado.run import toolchain
from cortado.run.runner import WARNINGS, bundle_includes, bundle_sources, write_files
from helpers.sanitizers import SANITIZERS

Floats = NDArray[np.float32]
SIZE = 8


class Branches(nn.Module):
    """Two inputs and two outputs that have nothing to do with each other."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(SIZE, SIZE), nn.Linear(SIZE, SIZE)

    def forward(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        return self.left(a), self.right(b)


def branches(**chosen: object) -> Compiled:
    torch.manual_seed(4)
    batches = [(torch.rand(1, SIZE) * 2 - 1, torch.rand(1, SIZE) * 2 - 1) for _ in range(8)]
    options = Options(artifacts=Artifacts.C, **chosen)  # type: ignore[arg-type]
    return prepare(Branches().eval(), batches[0], batches, name="two", options=options).compile("cortex-m4", options)


def said(artifact: Artifact, folder: Path, main: str) -> bytes:
    """What a program with the bundle, built for this machine, writes."""
    write_files(folder, {**emit_c(artifact.portable).files, "main.c": main})
    flags = [*WARNINGS, *BUNDLE_FLAGS, *SANITIZERS]
    program = toolchain.build_executable(bundle_sources(folder, "c"), bundle_includes(folder), flags, "conversions")
    return subprocess.run([program], capture_output=True, check=True).stdout


def header(compiled: Compiled) -> str:
    assert compiled.bundle is not None
    return compiled.bundle.files["two.h"]


def numbers() -> Floats:
    """Ties, ends of the ranges, what is far beyond them, and no numbers at all."""
    near = np.linspace(-8, 8, 4000, dtype=np.float32)
    return np.concatenate([near, np.array([0, -0.0, 1e30, -1e30, np.inf, -np.inf, np.nan, 1e-30], np.float32)])


def codes(values: Floats, scale: float, zero_point: int, kind: type[np.integer]) -> NDArray[np.integer]:
    """As the reference quantizes; what is no number is 0."""
    ends = np.iinfo(kind)
    rounded = np.rint(np.nan_to_num(values * (np.float32(1) / np.float32(scale)), posinf=1e9, neginf=-1e9))
    return np.clip(rounded.astype(np.float64) + zero_point, ends.min, ends.max).astype(kind)


CONVERTED = """#include <stdio.h>

#include "two.h"

static const float values[] = {NUMBERS};

static void one(int i, float scale, int32_t zero_point)
{
    (void)scale;
    (void)zero_point;
    for (unsigned at = 0; at < sizeof values / sizeof values[0]; at += SIZE) {
        two_quantize_input(two_default_arena(), i, values + at);
        WRITE
    }
}

int main(void)
{
    one(0, TWO_INPUT0_SCALE, TWO_INPUT0_ZERO_POINT);
    one(1, TWO_INPUT1_SCALE, TWO_INPUT1_ZERO_POINT);
    return 0;
}
"""
BY_FUNCTION = """const size_t bytes = i == 0 ? TWO_INPUT0_BYTES : TWO_INPUT1_BYTES;
        (void)fwrite(two_input(two_default_arena(), i), 1, bytes, stdout);"""
BY_HEADER = """for (unsigned k = at; k < at + SIZE; k++) {
            if (i == 0) {
                const TWO_INPUT0_TYPE code = FIRST(values[k], scale, zero_point);
                (void)fwrite(&code, sizeof code, 1, stdout);
            } else {
                const TWO_INPUT1_TYPE code = SECOND(values[k], scale, zero_point);
                (void)fwrite(&code, sizeof code, 1, stdout);
            }
        }"""
NAMES = {"int8": "two_quantize", "int16": "two_quantize_s16"}


def text_of(value: float) -> str:
    if np.isfinite(value):
        return f"{value:.9e}f"
    return "(0.0f / 0.0f)" if np.isnan(value) else f"({'-' if value < 0 else ''}1.0f / 0.0f)"


@pytest.mark.host
@pytest.mark.parametrize(
    ("chosen", "kinds"),
    [
        pytest.param({}, ("int8", "int8"), id="int8"),
        pytest.param({"activations": Activations.INT16}, ("int16", "int16"), id="int16"),
        pytest.param({"int16": ("left",)}, ("int16", "int8"), id="int16 and int8"),
    ],
)
def test_the_headers_function_quantizes_as_the_bundles_and_as_numpy(
    chosen: dict[str, object], kinds: tuple[str, str], tmp_path: Path
) -> None:
    artifact = branches(**chosen).save(tmp_path / "two")
    inputs = artifact.report.inputs
    assert tuple(one.dtype for one in inputs) == kinds
    wanted = b""
    for one, kind in zip(inputs, kinds, strict=True):
        assert one.scale is not None
        assert one.zero_point is not None
        wanted += codes(numbers(), one.scale, one.zero_point, np.dtype(kind).type).tobytes()
    given = CONVERTED.replace("NUMBERS", ", ".join(map(text_of, numbers()))).replace("SIZE", str(SIZE))
    function = said(artifact, tmp_path / "function", given.replace("WRITE", BY_FUNCTION))
    assert function == wanted
    by_header = BY_HEADER.replace("FIRST", NAMES[kinds[0]]).replace("SECOND", NAMES[kinds[1]])
    assert said(artifact, tmp_path / "header", given.replace("WRITE", by_header).replace("SIZE", str(SIZE))) == wanted


BACK = """#include <stdio.h>

#include "two.h"

int main(void)
{
    float values[SIZE];
    for (int32_t code = INT16_MIN; code <= INT16_MAX; code++) {
        const float value = two_dequantize_s16((int16_t)code, TWO_OUTPUT0_SCALE, TWO_OUTPUT0_ZERO_POINT);
        (void)fwrite(&value, sizeof value, 1, stdout);
    }
    for (int i = 0; i < SIZE; i++) {
        two_input(two_default_arena(), 0)[i] = (int16_t)(1000 * i);
        two_input(two_default_arena(), 1)[i] = (int16_t)(-1000 * i);
    }
    (void)two_run(two_default_arena());
    two_dequantize_output(two_default_arena(), 0, values);
    (void)fwrite(two_output(two_default_arena(), 0), 1, TWO_OUTPUT0_BYTES, stdout);
    (void)fwrite(values, sizeof values, 1, stdout);
    return 0;
}
"""


@pytest.mark.host
def test_the_headers_function_gives_the_numbers_of_int16_codes(tmp_path: Path) -> None:
    artifact = branches(activations=Activations.INT16).save(tmp_path / "two")
    found = said(artifact, tmp_path / "portable", BACK.replace("SIZE", str(SIZE)))
    scale, zero_point = artifact.report.outputs[0].scale, artifact.report.outputs[0].zero_point
    assert scale is not None
    assert zero_point is not None

    def real(these: NDArray[np.integer]) -> Floats:
        return (these.astype(np.int32) - zero_point).astype(np.float32) * np.float32(scale)

    every = np.arange(-(2**15), 2**15)
    table, run = found[: 4 * every.size], found[4 * every.size :]
    np.testing.assert_array_equal(np.frombuffer(table, np.float32), real(every))
    made = np.frombuffer(run[: 2 * SIZE], np.int16)
    assert np.unique(made).size > 1
    np.testing.assert_array_equal(np.frombuffer(run[2 * SIZE :], np.float32), real(made))


RUN = """#include <stdio.h>

#include "two.h"

int main(void)
{
    const float values[] = {NUMBERS};
    float out[SIZE];
    void *const arena = two_default_arena();
    for (int i = 0; i < 2; i++) { GIVE }
    (void)two_run(arena);
    for (int i = 0; i < 2; i++) {
        TAKE
        (void)fwrite(out, sizeof out, 1, stdout);
    }
    return 0;
}
"""


@pytest.mark.host
def test_a_float_border_gives_what_the_conversions_of_an_int16_one_give(tmp_path: Path) -> None:
    values = ", ".join(f"{value:.9e}f" for value in np.linspace(-0.9, 0.9, SIZE))
    text = RUN.replace("NUMBERS", values).replace("SIZE", str(SIZE))
    wide = branches(activations=Activations.INT16).save(tmp_path / "wide")
    by_codes = text.replace("GIVE", "two_quantize_input(arena, i, values);")
    by_codes = by_codes.replace("TAKE", "two_dequantize_output(arena, i, out);")
    real = branches(activations=Activations.INT16, io=Border.FLOAT).save(tmp_path / "real")
    assert {one.dtype for one in (*real.report.inputs, *real.report.outputs)} == {"float32"}
    by_numbers = text.replace("GIVE", "(void)memcpy(two_input(arena, i), values, sizeof values);")
    by_numbers = by_numbers.replace("TAKE", "(void)memcpy(out, two_output(arena, i), sizeof out);")
    found = said(wide, tmp_path / "codes", by_codes)
    assert np.abs(np.frombuffer(found, np.float32)).max() > 0.1
    assert said(real, tmp_path / "numbers", by_numbers) == found


def test_the_header_says_which_tensors_its_functions_are_for() -> None:
    narrow, wide = header(branches()), header(branches(activations=Activations.INT16))
    both = header(branches(int16=("left",)))
    assert "An int8 value q" in narrow
    assert "for int8 tensors." in narrow
    assert "int16" not in narrow
    assert "An int16 value q" in wide
    assert "an i that is not an int16 tensor" in unwrapped(wide)
    assert "two_quantize(" not in wide  # a function that saturates at 127 would compile, and be wrong
    assert "for int8 and int16 tensors." in both
    assert "For int8 tensors only." in both
    assert "int8_t two_quantize(float" in both
    assert "int16_t two_quantize_s16(float" in both


def test_the_readme_names_the_functions_that_there_are() -> None:
    wide, both = branches(activations=Activations.INT16), branches(int16=("left",))
    assert wide.bundle is not None
    assert both.bundle is not None
    assert "`two_quantize_s16` and `two_dequantize_s16` convert one number" in unwrapped(wide.bundle.files["README.md"])
    found = unwrapped(both.bundle.files["README.md"])
    assert "`two_quantize` and `two_dequantize` and `two_quantize_s16` and `two_dequantize_s16` convert" in found
    assert "An int8 or int16 value q" in found


def unwrapped(text: str) -> str:
    return " ".join(text.replace(" * ", " ").split())


class Shifted(nn.Module):
    """A sum with a number, which is only another zero point of the same codes, before and behind a convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        shifted: Tensor = self.layer(x - 0.4) + 0.3
        return shifted


def test_scales_are_those_of_the_models_own_inputs_and_outputs() -> None:
    """And not those of the values that the first or last layer computes with."""
    torch.manual_seed(5)
    model = Shifted().eval()
    batches = [(torch.rand(1, 3, 6, 6),) for _ in range(32)]
    options = Options(artifacts=Artifacts.C)
    artifact = prepare(model, batches[0], batches, name="two", options=options).compile("cortex-m4", options)
    (given,), (made,) = artifact.report.inputs, artifact.report.outputs
    assert given.scale is not None
    assert given.zero_point is not None
    assert made.scale is not None
    assert made.zero_point is not None
    x = torch.rand(1, 3, 6, 6)
    coded = codes(x.numpy(), given.scale, given.zero_point, np.int8)
    (found,) = artifact.run(coded, on="host").result.samples[0]
    real = (found.astype(np.float64) - made.zero_point) * made.scale
    expected = model(x).detach().numpy().transpose(made.layout)
    assert np.abs(real - expected).max() < 4 * made.scale
