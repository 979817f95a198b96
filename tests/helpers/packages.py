"""Building packages as their systems do, for an emulated Cortex-M4 that speaks by semihosting."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from helpers.paths import TESTS

STANDINS = TESTS / "packages" / "standins"
BOARD = STANDINS / "board"
CORE = ("-mcpu=cortex-m4", "-mthumb")
_MACHINE = "mps2-an386"


def say(program: Path) -> str:
    """What a program prints on the emulated board."""
    command = [
        "qemu-system-arm",
        "-M",
        _MACHINE,
        "-nographic",
        "-monitor",
        "none",
        "-semihosting",
        "-kernel",
        str(program),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False).stdout


def configure_and_build(source: Path, build: Path, product: str, **definitions: str) -> Path:
    """A CMake project, cross-compiled."""
    given = {
        "CMAKE_SYSTEM_NAME": "Generic",
        "CMAKE_TRY_COMPILE_TARGET_TYPE": "STATIC_LIBRARY",
        "CMAKE_C_COMPILER": "arm-none-eabi-gcc",
        "CMAKE_CXX_COMPILER": "arm-none-eabi-g++",
        "CMAKE_ASM_COMPILER": "arm-none-eabi-gcc",
        **definitions,
    }
    options = [f"-D{name}={value}" for name, value in given.items()]
    for command in (["cmake", "-S", str(source), "-B", str(build), *options], ["cmake", "--build", str(build), "-j2"]):
        subprocess.run(command, capture_output=True, text=True, check=True)
    return build / product


def compile_and_link(sources: Sequence[Path], includes: Sequence[Path], flags: Sequence[str], folder: Path) -> Path:
    """By the compiler alone, with the board's start code."""
    searched = [f"-I{path}" for path in includes]
    program = folder / "program.elf"
    objects = []
    for number, source in enumerate([*sources, BOARD / "start.c"]):
        objects.append(str(folder / f"{number}.o"))
        compiler = "arm-none-eabi-g++" if source.suffix == ".cpp" else "arm-none-eabi-gcc"
        command = [compiler, *CORE, *flags, *searched, "-c", str(source), "-o", objects[-1]]
        subprocess.run(command, capture_output=True, text=True, check=True)
    link = [
        "arm-none-eabi-g++",
        *CORE,
        *objects,
        "--specs=rdimon.specs",
        "-T",
        str(BOARD / "board.ld"),
        "-o",
        str(program),
    ]
    subprocess.run(link, capture_output=True, text=True, check=True)
    return program
