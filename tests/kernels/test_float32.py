"""Functions of real numbers: the same bits in NumPy, C and on every core, and close to the true values."""

import platform
import re
import subprocess

import numpy as np
import pytest

from cortado.base import float32
from cortado.base.target import Compiler, from_target_string
from cortado.run import toolchain
from helpers.float32 import (
    BINARY,
    INCLUDES,
    SOURCE,
    UNARY,
    checksum,
    farthest,
    host_library,
    on_board,
    on_host,
    patterns,
    reference,
)

EVERY = (*UNARY, *BINARY)
ULPS = 2.0
# One of each kind of float unit: none (by libgcc), Armv7-M's, double precision, Armv8-M's, with vectors; left out.
CORES = ("cortex-m0plus", "cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55", "cortex-m4+nofp", "cortex-m55+nofp")
LAST = 2**32
SLICES = 16


@pytest.mark.host
@pytest.mark.parametrize("compiler", list(Compiler))
def test_c_on_this_machine_has_the_bits_of_numpy(compiler: Compiler) -> None:
    """Built so that a compiler would fuse products and sums if it could."""
    fused = ("-march=x86-64-v3",) if platform.machine() == "x86_64" else ()
    library = host_library(compiler, ("-O3", "-ffp-contract=fast", *fused))
    x, y = patterns(60_000)
    for name in EVERY:
        found, expected = on_host(library, name, x, y), reference(name, x, y)
        wrong = np.flatnonzero(found != expected)
        assert wrong.size == 0, f"{name} of {x[wrong[0]]:#x}, {y[wrong[0]]:#x}: {found[wrong[0]]:#x} in C"


@pytest.mark.qemu
@pytest.mark.parametrize("target", CORES)
def test_every_core_has_the_bits_of_numpy(target: str) -> None:
    count = 2000
    x, y = patterns(count)
    expected = {name: checksum(reference(name, x, y)) for name in EVERY}
    assert on_board(target, count, flags=("-ffp-contract=fast",)) == expected
    if target == "cortex-m4":
        assert on_board(target, count, clang=True, flags=("-ffp-contract=fast",)) == expected


@pytest.mark.host
@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m7", "cortex-m55"])
@pytest.mark.parametrize("compiler", list(Compiler))
def test_no_flag_makes_a_fused_product(target: str, compiler: Compiler) -> None:
    """Optimized as far as it goes, and told to fuse."""
    command = toolchain.arm_gcc() if compiler is Compiler.GCC else toolchain.arm_clang()
    flags = [*from_target_string(target).compiler_flags(), "-O3", "-ffp-contract=fast", "-fno-math-errno"]
    paths = [f"-I{one}" for one in INCLUDES]
    source = '#include "float32_functions.h"\nfloat f(int32_t n, float x, float y) { return value_of(n, x, y); }'
    text = subprocess.run(
        [command.path, *command.flags, *flags, *paths, "-S", "-x", "c", "-", "-o", "-"],
        input=source, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert "vmul.f32" in text
    assert re.findall(r"\bv(?:f|n)*m(?:la|ls|a|s)\.f32", text) == []


@pytest.mark.host
@pytest.mark.parametrize("flag", ["-ffast-math", "-Ofast", "-ffinite-math-only"])
def test_arithmetic_that_is_not_ieee_is_refused(flag: str) -> None:
    paths = [f"-I{one}" for one in INCLUDES]
    command = [str(toolchain.host_compiler().path), flag, *paths, "-c", str(SOURCE), "-o", "/dev/null"]
    refused = subprocess.run(command, capture_output=True, text=True)
    assert refused.returncode != 0
    assert "need IEEE arithmetic" in refused.stderr


@pytest.mark.host
def test_functions_are_within_two_units_of_the_true_value() -> None:
    """On one of every 30,011 floats; the long test takes them all."""
    for name in UNARY:
        worst, where = farthest(name, 0, LAST, 30_011)
        assert worst <= ULPS, f"{name} of {where:#x}: {worst}"


@pytest.mark.slow
@pytest.mark.host
@pytest.mark.parametrize("part", range(SLICES))
@pytest.mark.parametrize("name", UNARY)
def test_every_float_is_within_two_units_of_the_true_value(name: str, part: int) -> None:
    first, end = LAST * part // SLICES, LAST * (part + 1) // SLICES
    worst, where = farthest(name, first, end)
    assert worst <= ULPS, f"{name} of {where:#x}: {worst}"


def test_powers_and_angles_are_within_two_units_of_the_true_value() -> None:
    """In long double. Powers near 1 with large exponents too, where logarithms need the most digits."""
    rng = np.random.default_rng(45)
    x = np.concatenate([np.exp(rng.uniform(-40, 40, 20_000)), 1 + rng.uniform(-3e-3, 3e-3, 20_000)]).astype(np.float32)
    y = (rng.uniform(-140, 126, x.size) / np.log2(np.where(x == 1, 2, x).astype(np.float64))).astype(np.float32)
    wide_x, wide_y = x.astype(np.longdouble), y.astype(np.longdouble)
    for found, exact in (
        (float32.pow(x, y), np.power(wide_x, wide_y)),
        (float32.atan2(y, x), np.arctan2(wide_y, wide_x)),
        (float32.atan2(y, -x), np.arctan2(wide_y, -wide_x)),
    ):
        unit = np.ldexp(np.longdouble(1), np.maximum(np.frexp(exact)[1] - 24, -149))
        assert float(np.max(np.abs(found - exact) / unit)) <= ULPS


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [(-2.0, 3.0, -8.0), (-2.0, 2.0, 4.0), (-2.0, 0.5, np.nan), (0.0, -1.0, np.inf), (-0.0, -1.0, -np.inf),
     (-0.0, 2.0, 0.0), (np.nan, 0.0, 1.0), (1.0, np.nan, 1.0), (-1.0, np.inf, 1.0), (0.5, -np.inf, np.inf),
     (-np.inf, 3.0, -np.inf), (-np.inf, -3.0, -0.0), (2.0, 128.0, np.inf), (2.0, -149.0, 2.0**-149)],
)  # fmt: skip
def test_powers_have_the_special_values_of_c(x: float, y: float, expected: float) -> None:
    found = float32.pow(np.float32(x), np.float32(y))
    assert float32.canonical(np.float32(expected)).tobytes() == found.tobytes()


def test_conversions_to_integers_saturate() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 3e9, -3e9, 127.9, -128.9, 16777217.0, -0.9], np.float32)
    assert float32.to_int(x, -128, 127).tolist() == [0, 127, -128, 127, -128, 127, -128, 127, 0]
    assert float32.to_int(x, -(2**31), 2**31 - 1).tolist()[1:5] == [2**31 - 1, -(2**31), 2**31 - 1, -(2**31)]


def test_sums_run_upwards_from_their_start() -> None:
    """One large number first swallows the small ones behind it; last, it does not."""
    small = np.full((2, 64), 2.0**-24, np.float32)
    assert float32.total(small, 1, start=1.0).tolist() == [1.0, 1.0]
    assert float32.dot(small, np.ones(64, np.float32)).tolist() == [64 * 2.0**-24] * 2
    x, w = np.random.default_rng(0).standard_normal((2, 5, 33)).astype(np.float32)
    expected = np.float32(0.5)
    for k in range(33):
        expected = np.float32(expected + np.float32(x[3, k] * w[2, k]))
    assert float32.dot(x[:, None], w[None], start=np.float32(0.5))[3, 2] == expected
