"""The firmware's own reader of a .pte's target: it agrees with the Python reader on damaged files too."""

import struct
import subprocess
from pathlib import Path

import pytest
from executorch.exir import schema

from cortado.base.system import KERNELS as KERNELS_FOLDER
from cortado.pte.reader import read_pte
from helpers.pte_files import (
    METADATA,
    damaged,
    everything_pte,
    float_pte,
    foreign_pte,
    plan,
    read_or_none,
    scratch_pte,
    systematic,
    text_plan,
    tiny_pte,
    write,
)

KERNELS = KERNELS_FOLDER / "executorch"
# The codes of pte_target.h.
OK, NOT_A_PTE, DAMAGED, NO_TARGET, TOO_LONG = 0, -2, -3, -4, -5
STRICT = ["-std=c99", "-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror"]
SANITIZE = ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fuzz driver, built with the address and undefined-behaviour sanitizers."""
    program = tmp_path_factory.mktemp("fuzz") / "fuzz_pte_target"
    sources = [str(Path(__file__).parent / "fuzz_pte_target.c"), str(KERNELS / "pte_target.c")]
    subprocess.run(["cc", *STRICT, *SANITIZE, "-I", str(KERNELS), *sources, "-o", str(program)], check=True)
    return program


def firmware_says(driver: Path, files: list[bytes]) -> list[tuple[int, str]]:
    """The code and target that cortado_pte_target gives for each file, all in one process."""
    pack = driver.with_suffix(".pack")
    pack.write_bytes(b"".join(struct.pack("<I", len(data)) + data for data in files))
    command = [str(driver), str(pack)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stderr
    lines = [line.split(" ", 1) for line in done.stdout.splitlines()]
    assert len(lines) == len(files)
    return [(int(code), target) for code, target in lines]


@pytest.mark.host
def test_firmware_reads_the_target(driver: Path) -> None:
    good = [float_pte(), scratch_pte(), everything_pte()]
    assert firmware_says(driver, good) == [(OK, "cortex-m55")] * 3
    longest = '{"target": "%s"}' % ("x" * 31)
    too_long = '{"target": "%s"}' % ("x" * 32)
    files = [foreign_pte(), b"", b"short", b"x" * 100, write(text_plan(longest)), write(text_plan(too_long))]
    codes = [(NO_TARGET, ""), (NOT_A_PTE, ""), (NOT_A_PTE, ""), (NOT_A_PTE, ""), (OK, "x" * 31), (TOO_LONG, "")]
    assert firmware_says(driver, files) == codes


TEXTS = {
    '{"target":"a"}': (OK, "a"),
    ' \t\r\n{ "target" \n:\t"cortex-m4" }': (OK, "cortex-m4"),
    '{"x":{"target":"b"},"y":["target","c",{"target":"d"}],"target":"e"}': (OK, "e"),
    '{"x":"target","target":"f"}': (OK, "f"),
    '{"x":"\\",\\"target\\":\\"g\\"","target":"h"}': (OK, "h"),
    '{"x":"\\\\","target":"i"}': (OK, "i"),
    '{"inputs":[{"scale":0.5,"zero_point":-1}],"target":"j"}': (OK, "j"),
    '{"targets":"k","targe":"l"}': (NO_TARGET, ""),
    "{}": (NO_TARGET, ""),
    '["target","m"]': (DAMAGED, ""),
    '{"target"': (DAMAGED, ""),
    '{"target":': (DAMAGED, ""),
    '{"target":"': (DAMAGED, ""),
    '{"target":"n': (DAMAGED, ""),
    '{"target":""}': (DAMAGED, ""),
    '{"target":5}': (DAMAGED, ""),
    '{"target":"a b"}': (DAMAGED, ""),
    '{"target":"a\\n"}': (DAMAGED, ""),
    '{"target":"\u00e9"}': (DAMAGED, ""),
    '{"x\\': (DAMAGED, ""),
    "": (DAMAGED, ""),
    " ": (DAMAGED, ""),
    "[" * 3000: (DAMAGED, ""),
    "{" * 3000: (DAMAGED, ""),
}


@pytest.mark.host
def test_firmware_reads_json(driver: Path) -> None:
    files = [write(plan("forward"), text_plan(text)) for text in TEXTS]
    assert dict(zip(TEXTS, firmware_says(driver, files), strict=True)) == TEXTS
    at_the_end = [tiny_pte(text.encode()) for text in TEXTS]
    assert dict(zip(TEXTS, firmware_says(driver, at_the_end), strict=True)) == TEXTS


@pytest.mark.host
def test_firmware_wants_exactly_one_text(driver: Path) -> None:
    text = schema.EValue(schema.String(METADATA))
    number = schema.EValue(schema.Int(1))
    plans = [
        plan("cortado", values=[number, text], outputs=[1]),
        plan("cortado", values=[number, text], outputs=[0]),
        plan("cortado", values=[number, text], outputs=[]),
        plan("cortado", values=[text, text], outputs=[0, 1]),
        plan("cortado", values=[text], outputs=[1]),
        plan("cortado", values=[text], outputs=[-1]),
        plan("cortad0", values=[text], outputs=[0]),
    ]
    codes = [code for code, _ in firmware_says(driver, [write(method) for method in plans])]
    assert codes == [OK, DAMAGED, DAMAGED, DAMAGED, DAMAGED, DAMAGED, NO_TARGET]


@pytest.mark.slow
@pytest.mark.host
def test_firmware_agrees_with_the_reader_on_5000_damaged_files(driver: Path) -> None:
    files = [*damaged(), *systematic()]
    counts = {OK: 0, NOT_A_PTE: 0, DAMAGED: 0, NO_TARGET: 0, TOO_LONG: 0}
    for data, (code, target) in zip(files, firmware_says(driver, files), strict=True):
        counts[code] += 1
        info = read_or_none(data)
        if info is None:
            continue  # the reader looks at the whole file, the firmware only at the way to the target
        if info.metadata is None:
            assert (code, target) == (NO_TARGET, "")
        else:
            assert (code, target) == (OK, info.metadata.target)
    assert min(counts[OK], counts[DAMAGED], counts[NO_TARGET], counts[NOT_A_PTE]) > 20, counts


@pytest.mark.host
def test_firmware_survives_every_truncation(driver: Path) -> None:
    data = scratch_pte()
    program_size = read_pte(data).program_size
    codes = [code for code, _ in firmware_says(driver, [data[:size] for size in range(len(data))])]
    assert set(codes[:8]) == {NOT_A_PTE}
    assert set(codes[8:program_size]) == {DAMAGED}
    assert set(codes[program_size:]) == {OK}


@pytest.mark.host
def test_firmware_needs_almost_nothing(tmp_path: Path) -> None:
    """On the smallest core: no library but memcmp and memcpy (no division helper), and little flash."""
    built = tmp_path / "pte_target.o"
    source = str(KERNELS / "pte_target.c")
    flags = ["-mcpu=cortex-m0", "-mthumb", "-Os"]
    subprocess.run(["arm-none-eabi-gcc", *STRICT, *flags, "-c", source, "-o", str(built)], check=True)
    symbols = subprocess.run(["arm-none-eabi-nm", "-u", str(built)], capture_output=True, text=True, check=True).stdout
    assert set(symbols.split()) <= {"U", "memcmp", "memcpy"}
    sizes = subprocess.run(["arm-none-eabi-size", str(built)], capture_output=True, text=True, check=True).stdout
    text, data, bss = (int(number) for number in sizes.splitlines()[1].split()[:3])
    assert text < 1300
    assert (data, bss) == (0, 0)


@pytest.mark.host
@pytest.mark.parametrize(
    ("compiler", "suffix"), [(["cc", *STRICT], "c"), (["c++", "-Wall", "-Wextra", "-Werror"], "cpp")]
)
def test_the_headers_example_compiles(compiler: list[str], suffix: str, tmp_path: Path) -> None:
    header = (KERNELS / "pte_target.h").read_text()
    comment = header[: header.index("*/")]
    example = [line[7:] for line in comment.splitlines() if line.startswith(" *     ")]
    assert any("cortado_pte_target(" in line for line in example)
    source = tmp_path / f"example.{suffix}"
    main = "int main(void) { return model_fits(); }"
    source.write_text("\n".join(['#include "pte_target.h"', "#include <string.h>", *example, main, ""]))
    subprocess.run([*compiler, "-fsyntax-only", "-I", str(KERNELS), str(source)], check=True)
