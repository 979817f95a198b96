"""The list of all calls of kernels that images make: what operators choose is in it, and it compiles."""

import re
import subprocess
from pathlib import Path

import pytest

from cortado.base.system import KERNEL_SOURCES
from cortado.base.target import BUNDLE_FLAGS, Compiler, Core, from_target_string
from cortado.emit.image.files import LIST, ListedThunk, every_thunk, loader_files
from cortado.emit.image.writer import emit_image
from cortado.ir.op import registry
from cortado.options import Optimize
from cortado.run.runner import WARNINGS, write_files
from cortado.run.toolchain import arm_gcc
from helpers.cores import each_core
from helpers.golden import Golden
from helpers.networks import planned
from helpers.thunks import listed, of_operator

DRAWS = 2
LOADER_BYTES = 2700  # of code, at most, where inputs come whole and as codes
OPERATORS = [one for one in registry().operators.values() if one.kernel is not None]


def test_the_list_holds_every_row_of_the_tables(golden: Golden) -> None:
    every = (found for one in OPERATORS if one.kernel is not None for found in one.kernel.every())
    golden(LIST, "".join(f"{line}\n" for line in sorted(one.line for one in listed(every).values())))


@pytest.mark.xdist_group("every core")  # samples are drawn once
def test_what_samples_call_is_in_the_list() -> None:
    """With rows in the C types that their graph gives them."""
    known = every_thunk()
    for operator in OPERATORS:
        for number, one in of_operator(operator, DRAWS).items():
            assert number in known, one.line
            assert set(one.cores) <= set(known[number].cores), one.line


# What no step of a network calls: loops, decisions, saved state, checks, loader, what is for cameras, a kernel of
# ExecuTorch's operators, the sizes of scratch.
BESIDE = {
    "cortado_decide.c",
    "cortado_decide_f32.c",
    "cortado_image.c",
    "cortado_narrow_scratch.c",
    "cortado_regions.c",
    "cortado_run.c",
    "cortado_saved.c",
    "cortado_scratch.c",
    "cortado_selftest.c",
    "cortado_stream.c",
    "quantize_u8_s8.c",
    "softmax_s8.c",
}


def test_every_kernel_source_is_in_the_list() -> None:
    """A kernel that no sample had drawn would be missing from firmware that was made with --all."""
    listed = {source for one in every_thunk().values() for source in one.sources}
    files = set(KERNEL_SOURCES)
    assert {name for name in files - listed if not name.startswith("cortado_camera_")} == BESIDE


def test_no_two_calls_have_one_number() -> None:
    lines = LIST.read_text().splitlines()
    assert len({ListedThunk.parse(line).thunk.id for line in lines}) == len(lines)


@pytest.mark.cases(1)
@pytest.mark.parametrize("core", [Core.SMALL, Core.LONG, Core.DSP, Core.MVE])
def test_all_of_them_compile_for_their_core(core: Core, tmp_path: Path) -> None:
    names = {Core.SMALL: "cortex-m0plus", Core.LONG: "cortex-m3", Core.DSP: "cortex-m4", Core.MVE: "cortex-m55"}
    target = from_target_string(names[core])
    chosen = [one for one in every_thunk().values() if core in one.cores]
    files = loader_files([one.thunk for one in chosen], {source for one in chosen for source in one.sources})
    write_files(tmp_path, files)
    includes = [f"-I{tmp_path}/kernels/{folder}" for folder in ("include", "src")]
    flags = [*target.compiler_flags(Compiler.GCC), *WARNINGS, *BUNDLE_FLAGS, *includes]
    for name in ("cortado_kernels", "cortado_image"):
        source, output = tmp_path / "loader" / f"{name}.c", tmp_path / f"{name}.o"
        subprocess.run([arm_gcc().path, *flags, "-Os", "-c", source, "-o", output], check=True)
    listed = subprocess.run(["arm-none-eabi-size", "-A", output], capture_output=True, text=True, check=True).stdout
    sections = re.findall(r"^\.(?:text|rodata)\.(\S+) +(\d+)", listed, re.MULTILINE)
    optional = (
        "takes_row",
        "image_row",
        "image_push",
        "image_method",
        "quantize",
        "save",
        "load",
        "adopt",
        "state_bytes",
    )  # linked where they are used
    sizes = {name: int(size) for name, size in sections if not any(part in name for part in optional)}
    assert "cortado_image_open" in sizes
    assert sum(sizes.values()) <= LOADER_BYTES


@pytest.mark.parametrize("target", each_core("cortex-m3", "cortex-m55", here="cortex-m55"))
def test_an_image_is_little_more_than_the_tables_and_constants_of_a_bundle(target: str) -> None:
    """Of the smallest network there is: others have more constants for the same header."""
    image = emit_image(planned("imu_lstm", target, Optimize.BALANCED))
    assert len(image.data) <= 1.03 * image.content_bytes
