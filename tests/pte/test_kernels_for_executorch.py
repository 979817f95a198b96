"""`cortado kernels --executorch`: the folder that an ExecuTorch firmware adds to its build."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import nn

import cortado
from cortado import Options
from cortado.base.target import Compiler, from_target_string
from cortado.options import PteKind
from cortado.run.executorch_host import wheel
from helpers.cli import Run
from helpers.paths import ROOT

CORE = "cortex-m55"
HEADER = """
cmake_minimum_required(VERSION 3.19)
project(firmware LANGUAGES C CXX ASM)
add_library(firmware STATIC empty.c)
"""
RUNTIME = """
add_library(executorch_core INTERFACE)
target_compile_options(executorch_core INTERFACE {flags})
"""


@pytest.fixture(scope="module")
def pte(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    data = [(torch.randn(1, 8),) for _ in range(4)]
    options = Options(pte=PteKind.DELEGATE)
    compiled = cortado.compile(nn.Linear(8, 4).eval(), data[0], CORE, data, name="line", options=options)
    folder = tmp_path_factory.mktemp("line")
    compiled.save(folder / "out")
    return folder / "out" / "line.pte"


@pytest.mark.qemu
def test_the_page_followed_to_the_letter_builds_a_firmware_with_the_delegate(tmp_path: Path) -> None:
    commands, cmake = _section()
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    for command in map(shlex.split, commands):
        done = subprocess.run(
            [str(shutil.which(command[0], path=path)), *command[1:]],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (command, done.stderr)
    firmware, build = tmp_path / "firmware", tmp_path / "built"
    (firmware / "CMakeLists.txt").write_text(HEADER + cmake)
    (firmware / "empty.c").write_text("typedef int nothing;\n")
    _stand_in(firmware / "path" / "to" / "executorch")
    _build(firmware, build)
    listed = subprocess.run(
        ["arm-none-eabi-nm", "-A", build / "libfirmware.a"], capture_output=True, text=True, check=True
    )
    assert " T cortado_delegate_registered" in listed.stdout
    stated = sum(map(_number, re.findall(r"^\| .*\| (?:about )?([\d,]+) bytes \|$", _readme(firmware), re.M)))
    linked = _linked_bytes(build, from_target_string(CORE).compiler_flags(Compiler.GCC), tmp_path / "firmware.elf")
    assert abs(stated - linked) < 0.1 * linked, (stated, linked)


def _stand_in(folder: Path) -> None:
    """A project with the target that ExecuTorch's own has: the headers of the wheel, which has no runtime for cores."""
    flags = iter(wheel().compile_flags)
    words = [f"SHELL:-isystem {next(flags)}" if word == "-isystem" else word for word in flags]
    quoted = " ".join('"' + word.replace('"', '\\"') + '"' for word in words)
    folder.mkdir(parents=True)
    (folder / "CMakeLists.txt").write_text(RUNTIME.format(flags=quoted))


def _section() -> tuple[list[str], str]:
    """The commands of the page's section about the delegate up to those that write its folder, and the lines of
    CMake."""
    page = (ROOT / "docs" / "executorch.md").read_text()
    section = page[page.index("\n## The delegate\n") :]
    cmake = re.search(r"```cmake\n(.*?)```", section, re.DOTALL)
    assert cmake is not None
    commands = re.findall(r"^    (\S.*)$", section[: cmake.start()], re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["cortado", "mkdir", "cp"]
    return commands, cmake[1]


def _build(firmware: Path, build: Path) -> None:
    target = " ".join(from_target_string(CORE).compiler_flags(Compiler.GCC))
    settings = {
        "CMAKE_SYSTEM_NAME": "Generic",
        "CMAKE_C_COMPILER": "arm-none-eabi-gcc",
        "CMAKE_CXX_COMPILER": "arm-none-eabi-g++",
        "CMAKE_ASM_COMPILER": "arm-none-eabi-gcc",
        "CMAKE_TRY_COMPILE_TARGET_TYPE": "STATIC_LIBRARY",
        "CMAKE_BUILD_TYPE": "MinSizeRel",
        "CMAKE_C_FLAGS": target,
        "CMAKE_CXX_FLAGS": f"{target} -Wno-psabi",
        "CMAKE_ASM_FLAGS": target,
    }
    made = [f"-D{name}={value}" for name, value in settings.items()]
    for command in (["-G", "Ninja", "-S", str(firmware), "-B", str(build), *made], ["--build", str(build)]):
        done = subprocess.run(["cmake", *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def _readme(folder: Path) -> str:
    return (folder / "cortado" / "README.md").read_text()


def _number(text: str) -> int:
    return int(text.replace(",", ""))


def _linked_bytes(build: Path, target: Sequence[str], output: Path) -> int:
    """Code of a program with the delegate and what it calls of the loader; without ExecuTorch and the C library."""
    libraries = [build / "libfirmware.a", build / "cortado" / "loader" / "libcortado_image.a"]
    gone = "-Wl,--gc-sections,--unresolved-symbols=ignore-all,--defsym=__dso_handle=0,-e,cortado_delegate_registered"
    command = ["arm-none-eabi-g++", *target, "-nostdlib", gone, *libraries, "-o", output]
    done = subprocess.run([*map(str, command)], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    shown = subprocess.run(["arm-none-eabi-size", output], capture_output=True, text=True, check=True).stdout
    return int(shown.splitlines()[1].split()[0])


def test_a_compile_writes_the_same_folder(pte: Path, tmp_path: Path, run: Run) -> None:
    run("kernels", pte, "--executorch", tmp_path / "cortado")
    for path in sorted((tmp_path / "cortado").rglob("*.*")):
        assert path.read_bytes() == (pte.parent / "executorch" / path.relative_to(tmp_path / "cortado")).read_bytes()


def test_a_file_without_a_delegate_needs_none_of_it(tmp_path: Path, run: Run) -> None:
    data = [(torch.randn(1, 8),) for _ in range(4)]
    cortado.compile(nn.Linear(8, 4).eval(), data[0], CORE, data, name="line").save(tmp_path / "out")
    failed = run("kernels", tmp_path / "out" / "line.pte", "--executorch", tmp_path / "here")
    assert failed.code == 2
    assert "line.pte has no Cortado delegate, so it needs none of its kernels" in failed.err
    assert not (tmp_path / "here").exists()
