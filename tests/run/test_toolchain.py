"""The tools and the cache of what they build."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cortado.base.errors import CortadoError, MissingTool
from cortado.run import toolchain
from cortado.run.toolchain import Tool
from helpers.boards import STRICT, write


@pytest.mark.parametrize(
    ("tool", "packages"),
    [
        (Tool.ARM_GCC, "gcc-arm-none-eabi libnewlib-arm-none-eabi"),
        (Tool.QEMU, "qemu-system-arm"),
        (Tool.CC, "build-essential"),
        (Tool.CMAKE, "cmake"),
        (Tool.CLANG, "clang-19 lld-19"),
    ],
)
def test_a_missing_tool_is_named_with_its_package(
    tool: Tool, packages: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingTool) as caught:
        toolchain.require(tool)
    assert str(caught.value).startswith(f"{tool.value.command} is not on PATH; it is needed for ")
    assert str(caught.value).endswith(f"apt-get install {packages}")


def test_status_lists_every_tool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = tmp_path / "cmake"
    fake.write_text("#!/bin/sh\necho cmake version 9.8.7\necho more\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    table = {status.tool: status for status in toolchain.status()}
    assert set(table) == set(Tool)
    assert (table[Tool.CMAKE].path, table[Tool.CMAKE].version) == (fake, "cmake version 9.8.7")
    assert not table[Tool.QEMU].found
    assert table[Tool.QEMU].version is None


def objects(cache: Path) -> int:
    return len(list(cache.rglob("*.o")))


@pytest.mark.host
def test_the_cache_rebuilds_what_changed_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, include = tmp_path / "cache", tmp_path / "include"
    include.mkdir()
    monkeypatch.setenv("CORTADO_CACHE", str(cache))
    uses = write(tmp_path, '#include "v.h"\nint value(void); int value(void) { return VALUE; }\n', "uses.c")
    other = write(tmp_path, "int other(void); int other(void) { return 2; }\n", "other.c")

    def build(value: int, *flags: str) -> Path:
        write(include, f"#define VALUE {value}\n", "v.h")
        return toolchain.compile_shared([uses, other], [include], [*STRICT, *flags], "lib")

    first = build(1)
    assert objects(cache) == 2
    assert build(1) == first
    second = build(3)
    assert second != first
    assert objects(cache) == 3  # other.c doesn't include the header
    assert build(3, "-DCORTADO_UNUSED") not in (first, second)
    assert objects(cache) == 3  # no text asks for it
    build(3, "-DOTHER")
    assert objects(cache) == 5  # a header of the system may
    build(3, "-fno-common")
    assert objects(cache) == 7
    assert not list(cache.rglob("build-*"))


@pytest.mark.host
@pytest.mark.parametrize(
    ("header", "built", "codes"),
    [
        ("#define VALUE 3", 1, [3, 3, 3]),
        ("#ifdef CORTADO_SETTING\n#define VALUE CORTADO_SETTING\n#else\n#define VALUE 4\n#endif", 2, [4, 3, 4]),
        (
            "#define OF(name) CORTADO_ ## name\n#define QUOTED(x) #x\n#define TEXT(x) QUOTED(x)\n"
            "#define VALUE sizeof(TEXT(OF(SETTING)))",
            3,
            [16, 2, 16],
        ),
    ],
)
def test_a_setting_counts_where_a_text_may_ask_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, header: str, built: int, codes: list[int]
) -> None:
    """By its name, or by one that is put together."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("CORTADO_CACHE", str(cache))
    source = write(tmp_path, '#include "v.h"\nint main(void) { return VALUE; }\n', "program.c")
    write(tmp_path, f"{header}\n", "v.h")
    for flags, code in zip(((), ("-DCORTADO_SETTING=3",), ("-DCORTADO_OTHER",)), codes, strict=True):
        program = toolchain.build_executable([source], [tmp_path], flags, "program")
        assert subprocess.run([program], check=False).returncode == code
    assert objects(cache) == built


@pytest.mark.host
def test_a_setting_counts_that_another_one_asks_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORTADO_CACHE", str(tmp_path / "cache"))
    source = write(tmp_path, "int main(void) { return CORTADO_OUTER; }\n", "program.c")
    for value in (3, 5):
        flags = ["-DCORTADO_OUTER=CORTADO_INNER", f"-DCORTADO_INNER={value}"]
        program = toolchain.build_executable([source], [], flags, "program")
        assert subprocess.run([program], check=False).returncode == value


@pytest.mark.host
def test_a_source_that_another_includes_counts_as_its_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORTADO_CACHE", str(tmp_path / "cache"))
    outer = write(tmp_path, '#include "inner.c"\nint main(void) { return VALUE; }\n', "outer.c")
    for value in (3, 5):
        write(tmp_path, f"#define VALUE {value}\n", "inner.c")
        program = toolchain.build_executable([outer], [], STRICT, "program")
        assert subprocess.run([program], check=False).returncode == value


@pytest.mark.host
@pytest.mark.parametrize(
    ("directive", "built"),
    [('#include "inner.h"', 1), ('# define NAME "inner.h"\n #include NAME', 2), ('%:include "inner.h"', 1)],
)
def test_a_file_that_is_included_counts_and_its_neighbour_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, directive: str, built: int
) -> None:
    """A name that a macro hides may be any header's."""
    cache, include = tmp_path / "cache", tmp_path / "include"
    include.mkdir()
    monkeypatch.setenv("CORTADO_CACHE", str(cache))
    source = write(tmp_path, '#include "outer.h"\nint main(void) { return VALUE; }\n', "program.c")
    write(include, f"{directive}\n", "outer.h")
    write(include, "#define VALUE 3\n", "inner.h")
    for number in (1, 2):
        write(include, f"#define OTHER {number}\n", "neighbour.h")
        toolchain.build_executable([source], [include], STRICT, "program")
    assert objects(cache) == built
    write(include, "#define VALUE 5\n", "inner.h")
    program = toolchain.build_executable([source], [include], STRICT, "program")
    assert subprocess.run([program], check=False).returncode == 5


@pytest.mark.host
def test_a_compile_error_holds_the_compilers_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORTADO_CACHE", str(tmp_path / "cache"))
    bad = write(tmp_path, "int f(void);\nint f(void) { return missing; }\n", "bad.c")
    with pytest.raises(CortadoError, match=r"(?s)compiling .*bad\.c failed.*missing"):
        toolchain.compile_shared([bad], [], STRICT, "lib")
    good = write(tmp_path, "int g(void);\nint g(void) { return 1; }\n", "good.c")
    with pytest.raises(CortadoError, match=r"(?s)linking prog failed.*main"):
        toolchain.build_executable([good], [], STRICT, "prog")
    with pytest.raises(CortadoError, match=r"no such source file: .*absent\.c"):
        toolchain.compile_shared([tmp_path / "absent.c"], [], STRICT, "lib")
    with pytest.raises(CortadoError, match="can't name a file"):
        toolchain.compile_shared([bad], [], STRICT, "../lib")


def test_what_another_builds_is_waited_for_and_not_built_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many at once, of processes and of threads; one after the other where the first fails."""
    cache, built = tmp_path / "cache", tmp_path / "built"
    built.mkdir()
    monkeypatch.setenv("CORTADO_CACHE", str(cache))
    script = (
        "import os, sys, tempfile, time; from concurrent.futures import ThreadPoolExecutor\n"
        "from cortado.run import toolchain\n"
        "def build(path):\n"
        f"    number = len(os.listdir({str(built)!r}))\n"
        f"    tempfile.mkstemp(dir={str(built)!r})\n"
        "    time.sleep(0.05)\n"
        "    assert number\n"
        "    path.write_text('built')\n"
        "def ask(_):\n"
        "    try: return toolchain.cached('ab' * 32, '.txt', build).read_text()\n"
        "    except AssertionError: return 'failed'\n"
        "with ThreadPoolExecutor(4) as pool: print(*pool.map(ask, range(8)))\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    words = [word for one in running for word in one.communicate()[0].split()]
    assert sorted(words) == ["built"] * 23 + ["failed"]
    assert len(list(built.iterdir())) == 2
    assert not list(cache.rglob("*.lock"))


@pytest.mark.host
def test_a_cache_that_cannot_be_written_is_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORTADO_CACHE", str(write(tmp_path, "a file", "cache")))
    with pytest.raises(CortadoError, match="set CORTADO_CACHE to a directory you may write to"):
        toolchain.compile_shared([write(tmp_path, "int x;\n", "x.c")], [], STRICT, "lib")


@pytest.mark.host
@pytest.mark.parametrize("damage", [b"", b"no object file", None])
def test_a_damaged_cache_mends_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: bytes | None) -> None:
    """Cut off, overwritten, or with its notes gone: objects, and what is linked of them."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("CORTADO_CACHE", str(cache))
    source = write(tmp_path, "int main(void) { return 7; }\n", "seven.c")
    program = toolchain.build_executable([source], [], STRICT, "seven")
    for path in [path for path in cache.rglob("*") if path.is_file()]:
        if damage is None and path.suffix == ".sum":
            path.unlink()
        elif damage is not None:
            path.write_bytes(damage)
    again = toolchain.build_executable([source], [], STRICT, "seven")
    assert again == program
    assert subprocess.run([again], check=False).returncode == 7


@pytest.mark.host
def test_a_cache_that_cannot_be_mended_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORTADO_CACHE", str(tmp_path / "cache"))
    source = write(tmp_path, "int main(void) { return 7; }\n", "seven.c")
    program = toolchain.build_executable([source], [], STRICT, "seven")
    program.unlink()
    program.mkdir()
    with pytest.raises(
        CortadoError, match=r"the build cache .*cache is damaged: .*seven can't be replaced .*; delete it"
    ):
        toolchain.build_executable([source], [], STRICT, "seven")


@pytest.mark.host
def test_processes_may_build_the_same_thing_at_once(tmp_path: Path) -> None:
    source = write(tmp_path, "int f(void);\nint f(void) { return 5; }\n", "f.c")
    script = (
        "import ctypes, sys; from pathlib import Path; from cortado.run import toolchain\n"
        f"library = toolchain.compile_shared([Path({str(source)!r})], [], ['-O2'], 'f')\n"
        "assert ctypes.CDLL(str(library)).f() == 5; print(library)\n"
    )
    environment = {**os.environ, "CORTADO_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-c", script]
    running = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) for _ in range(3)]
    printed = {process.communicate(timeout=1800)[0] for process in running}
    assert [process.returncode for process in running] == [0, 0, 0]
    assert len(printed) == 1
