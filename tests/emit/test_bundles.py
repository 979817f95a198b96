"""C bundles in a firmware engineer's hands: analyzer, sanitizers, stack, CMake, two models in one program."""

import subprocess
from pathlib import Path

import pytest

from cortado import __version__
from cortado.base.system import KERNEL_FOLDERS, KERNEL_SOURCES
from cortado.base.target import from_target_string
from cortado.emit.c.library import library_hash
from cortado.emit.c.together_source import ProgramMember, emit_together
from cortado.models import zoo
from cortado.options import Optimize
from cortado.plan.lowered import run_reference
from cortado.run import runner, toolchain
from cortado.run.elf import load_image
from cortado.run.measure import PLAIN_NAMES
from cortado.run.runner import WARNINGS, write_files
from helpers.bundles import SLOW, compile_all, portable
from helpers.networks import graph_of, networks, planned, run_bundle
from helpers.sanitizers import SANITIZERS

ANALYZER = ("-fanalyzer", "-O1")


# ---- analyzer and sanitizers -------------------------------------------------------------------------------------


@pytest.mark.host
@pytest.mark.slow
@pytest.mark.parametrize("small_core", [False, True])
def test_the_analyzer_finds_nothing_in_the_kernels(small_core: bool) -> None:
    """gcc's -fanalyzer, which follows every path through a function."""
    flags = [*WARNINGS, *ANALYZER, *(["-DCORTADO_SMALL_CORE=1"] if small_core else [])]
    for source in (path for path in KERNEL_SOURCES.values() if path.suffix == ".c"):
        toolchain.compile_object(source, KERNEL_FOLDERS, flags, toolchain.host_compiler())


@pytest.mark.host
@pytest.mark.parametrize("name", networks(zoo.names(), slow=SLOW))
def test_sanitizers_and_analyzer_find_nothing_in_a_bundle(name: str, tmp_path: Path) -> None:
    """And what it computes under them is right."""
    found = portable(name)
    run_bundle(tmp_path, found, inputs=2, on=runner.HOST, flags=SANITIZERS)
    compile_all(tmp_path, [*WARNINGS, *ANALYZER], toolchain.host_compiler(), "c")


# ---- in a project of its own ---------------------------------------------------------------------------------------

TWO = ("ds_cnn", "deep_autoencoder")
PROJECT = """cmake_minimum_required(VERSION 3.16)
project(firmware C ASM)
add_subdirectory(both)
foreach(program IN ITEMS {programs})
  add_executable(${{program}} ${{program}}.c)
  target_link_libraries(${{program}} PRIVATE ds_cnn::ds_cnn deep_autoencoder::deep_autoencoder)
endforeach()
"""
# Both inputs are there before either model runs: neither may touch the other's memory.
FILES = """#include <stdio.h>
#include "ds_cnn.h"
#include "deep_autoencoder.h"

static _Alignas(DS_CNN_ARENA_ALIGN) uint8_t first[DS_CNN_ARENA_BYTES];
static _Alignas(DEEP_AUTOENCODER_ARENA_ALIGN) uint8_t second[DEEP_AUTOENCODER_ARENA_BYTES];

int main(int count, char **files)
{
    FILE *in = fopen(files[1], "rb"), *out = fopen(files[2], "wb");
    if (count != 3 || in == NULL || out == NULL
        || fread(ds_cnn_input(first, 0), DS_CNN_INPUT0_BYTES, 1, in) != 1
        || fread(deep_autoencoder_input(second, 0), DEEP_AUTOENCODER_INPUT0_BYTES, 1, in) != 1) {
        return 1;
    }
    ds_cnn_run(first);
    deep_autoencoder_run(second);
    fwrite(ds_cnn_output(first, 0), DS_CNN_OUTPUT0_BYTES, 1, out);
    fwrite(deep_autoencoder_output(second, 0), DEEP_AUTOENCODER_OUTPUT0_BYTES, 1, out);
    return fclose(out);
}
"""
PLAIN = """#include "ds_cnn.h"
#include "deep_autoencoder.h"

int main(void)
{
    return ds_cnn_run(ds_cnn_default_arena()) + deep_autoencoder_run(deep_autoencoder_default_arena());
}
"""
WITH_FLOATS = """#include "ds_cnn.h"

int main(void)
{
    float values[DS_CNN_INPUT0_BYTES] = {0};
    ds_cnn_quantize_input(ds_cnn_default_arena(), 0, values);
    return ds_cnn_run(ds_cnn_default_arena());
}
"""


def cmake(folder: Path, programs: dict[str, str], *options: str) -> Path:
    """A project that adds the folder of both models and links it."""
    (folder / "CMakeLists.txt").write_text(PROJECT.format(programs=" ".join(programs)))
    for name, text in programs.items():
        (folder / f"{name}.c").write_text(text)
    build = folder / "build"
    for command in (["cmake", "-S", str(folder), "-B", str(build), *options], ["cmake", "--build", str(build)]):
        done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
        assert done.returncode == 0, done.stdout + done.stderr
    return build


@pytest.mark.host
@pytest.mark.xdist_group("network ds_cnn")
def test_two_models_in_one_program(tmp_path: Path) -> None:
    fed, wanted, members = b"", b"", []
    for name in TWO:
        found = portable(name)
        members.append(ProgramMember(found))
        values = run_reference(graph_of(name), list(zoo.get(name).example_inputs()))
        fed += b"".join(values[tensor.node].numpy().tobytes() for tensor in found.program.inputs)
        wanted += b"".join(values[tensor.node].numpy().tobytes() for tensor in found.program.outputs)
    write_files(tmp_path / "both", emit_together(members, one_arena=True).files)
    build = cmake(tmp_path, {"program": FILES})
    (tmp_path / "in").write_bytes(fed)
    subprocess.run([build / "program", tmp_path / "in", tmp_path / "out"], check=True, timeout=1800)
    assert (tmp_path / "out").read_bytes() == wanted


@pytest.mark.xdist_group("network ds_cnn")
def test_two_models_in_one_firmware_and_only_what_is_used(tmp_path: Path) -> None:
    """The kernels they share are there once; float helpers and default arenas only if something calls them."""
    members = [ProgramMember(planned(name, "cortex-m4", Optimize.BALANCED)) for name in TWO]
    write_files(tmp_path / "both", emit_together(members, one_arena=False).files)
    flags = " ".join(from_target_string("cortex-m4").compiler_flags())
    build = cmake(
        tmp_path,
        {"plain": PLAIN, "with_floats": WITH_FLOATS},
        "-DCMAKE_SYSTEM_NAME=Generic",
        "-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY",
        f"-DCMAKE_C_COMPILER={toolchain.require(toolchain.Tool.ARM_GCC)}",
        f"-DCMAKE_C_FLAGS={flags} {PLAIN_NAMES}",
        f"-DCMAKE_ASM_FLAGS={flags}",
        "-DCMAKE_EXE_LINKER_FLAGS=--specs=nosys.specs -Wl,--gc-sections",
    )
    plain, floats = ([symbol.name for symbol in load_image(build / name).symbols] for name in ("plain", "with_floats"))
    loop = f"cortado_run_stage_of_version_{'_'.join(__version__.split('.')[:3])}_kernels_{library_hash()}"
    assert plain.count(loop) == plain.count("ds_cnn_run") == plain.count("deep_autoencoder_run") == 1
    assert [name for name in plain if "quantize" in name] == []
    assert {"ds_cnn_quantize_input", "cortado_quantize_f32_s8"}.issubset(floats)
    assert not {"ds_cnn_dequantize_output", "cortado_dequantize_s8_f32", "deep_autoencoder_run"}.intersection(floats)
