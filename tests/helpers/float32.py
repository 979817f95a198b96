"""The functions of real numbers: in C, here and on boards, and as the reference has them, by one numbering."""

import ctypes
import functools
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cortado.base import float32
from cortado.base.system import DEVICE, KERNEL_FOLDERS
from cortado.base.target import Compiler, from_target_string
from cortado.run import toolchain
from cortado.run.board import build_firmware, find_board
from cortado.run.qemu import run_elf

Words = NDArray[np.uint32]
HERE = Path(__file__).parent
SOURCE = HERE / "float32_host.c"
INCLUDES = [HERE, *KERNEL_FOLDERS]
STRICT = ("-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Werror")
UNARY = (
    *("exp", "exp2", "expm1", "sigmoid", "tanh", "erf", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "atan"),
    *("asin", "acos", "sqrt", "rsqrt", "reciprocal", "trunc", "floor", "ceil", "rint"),
)
BINARY = ("atan2", "pow", "add", "mul", "div", "step", "to_int")


def reference(name: str, x: Words, y: Words) -> Words:
    """Bits of the results, by NumPy."""
    a, b = x.view(np.float32), y.view(np.float32)
    with np.errstate(all="ignore"):
        results = {
            "add": lambda: float32.canonical(a + b),
            "mul": lambda: float32.canonical(a * b),
            "div": lambda: float32.canonical(a / b),
            "step": lambda: float32.canonical(a * b + a),
            "to_int": lambda: np.where(
                b < 0, float32.to_int(a, -128, 127), float32.to_int(a, -(2**31), 2**31 - 1)
            ).astype(np.float32),
        }
        if name in results:
            return results[name]().view(np.uint32)
        function = getattr(float32, name)
        return np.asarray(function(a) if name in UNARY else function(a, b)).view(np.uint32)


@functools.cache
def host_library(compiler: Compiler = Compiler.GCC, flags: tuple[str, ...] = ("-O2",)) -> ctypes.CDLL:
    """The functions for this machine."""
    if compiler is Compiler.GCC:
        path = toolchain.compile_shared([SOURCE], INCLUDES, [*STRICT, *flags], "float32", ["-lm"])
        library = ctypes.CDLL(str(path))
    else:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "float32.so"
            included = [f"-I{one}" for one in INCLUDES]
            clang = str(toolchain.require(toolchain.Tool.CLANG))
            command = [clang, *STRICT, *flags, *included, "-shared", "-fPIC", str(SOURCE), "-o", str(path), "-lm"]
            subprocess.run(command, check=True)
            library = ctypes.CDLL(str(path))
    library.farthest.restype = ctypes.c_double
    return library


def _pointer(array: Words) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def patterns(count: int) -> tuple[Words, Words]:
    """The arguments that boards make for themselves."""
    x, y = np.empty(count, np.uint32), np.empty(count, np.uint32)
    host_library().patterns(_pointer(x), _pointer(y), ctypes.c_int64(count))
    return x, y


def on_host(library: ctypes.CDLL, name: str, x: Words, y: Words) -> Words:
    out = np.empty_like(x)
    number = (*UNARY, *BINARY).index(name)
    library.apply(number, _pointer(x), _pointer(y), _pointer(out), ctypes.c_int64(x.size))
    return out


def farthest(name: str, first: int, end: int, step: int = 1) -> tuple[float, int]:
    """The largest distance from the true value among patterns of bits, in units in the last place, and where it is."""
    where = ctypes.c_uint32()
    bounds = (ctypes.c_uint64(one) for one in (first, end, step))
    worst = host_library().farthest(UNARY.index(name), *bounds, ctypes.byref(where))
    return worst, where.value


def checksum(results: Words) -> int:
    """As float32_board.c adds results up."""
    weights = 2 * np.arange(results.size, dtype=np.uint64) + 1
    return int((results.astype(np.uint64) * weights).sum() & np.uint64(0xFFFFFFFF))


def on_board(target: str, count: int, *, clang: bool = False, flags: Sequence[str] = ()) -> dict[str, int]:
    """A checksum of each function's results on `patterns(count)`."""
    config = from_target_string(target)
    machine = config.compiler_flags()
    board = find_board(config.machine)
    elf = build_firmware(
        board, [HERE / "float32_board.c"], [*INCLUDES, DEVICE],
        [*machine, "-O2", "-fno-tree-vectorize", f"-DPATTERNS={count}", *flags], "float32",
        harness=False, compiler=toolchain.arm_clang() if clang else None, machine_flags=machine,
    )  # fmt: skip
    lines = run_elf(elf, board, timeout=600.0).said.text.split()
    return dict(zip((*UNARY, *BINARY), (int(line, 16) for line in lines), strict=True))
