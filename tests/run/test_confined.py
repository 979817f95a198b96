"""Compilers of C from elsewhere: they open what they are given, and nothing else of this machine, by each means there
is."""

import subprocess
from pathlib import Path

import pytest

from cortado.base.errors import CortadoError, MissingTool
from cortado.run import confined as module
from cortado.run import landlock, toolchain
from cortado.run.confined import Confinement, confined
from cortado.run.toolchain import BuildError

SECRET = b"the-users-own-secret"
FLAGS = ("-mcpu=cortex-m4", "-mthumb", "-O1")
SCRIPT = "SECTIONS { .text 0 : { *(.text* .rodata* .data* .bss*) } }"


@pytest.fixture(params=list(Confinement), ids=lambda means: means.value)
def means(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Confinement:
    """Each means in turn, with a cache where nothing was built before."""
    monkeypatch.setattr(module, "confinement", lambda: request.param)
    monkeypatch.setenv("CORTADO_CACHE", str(tmp_path / "cache"))
    return request.param


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "home" / "secret.h"
    path.parent.mkdir()
    path.write_bytes(b"// " + SECRET + b"\n")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "own.h").write_text("#define OWN 1\n")
    return tmp_path / "model"


def shell(script: str, *, reads: tuple[Path, ...], writes: Path) -> "subprocess.CompletedProcess[bytes]":
    command = confined(["/bin/sh", "-c", script], reads=reads, writes=writes, tools=())
    return subprocess.run(list(map(str, command)), capture_output=True, check=False)


def test_a_program_opens_what_it_is_given_and_nothing_else(
    means: Confinement, secret: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OWN_TOKEN", SECRET.decode())
    given, work = tmp_path / "given.txt", tmp_path / "work"
    given.write_text("given")
    work.mkdir()
    (tmp_path / "link.txt").symlink_to(secret)
    good = f"cat {given}; echo made >{work}/made; echo >/dev/null"
    assert shell(good, reads=(given,), writes=work).stdout == b"given"
    assert (work / "made").read_text() == "made\n"
    for reading in (f"cat {secret}", f"cat {tmp_path}/link.txt", "cat /etc/passwd", "cat /proc/self/environ", "env"):
        done = shell(reading, reads=(given,), writes=work)
        assert SECRET not in done.stdout + done.stderr, reading
        assert reading == "env" or done.returncode != 0, reading
    moved = f"mv {work}/made {given}"
    for writing in (f"echo >{secret}", f"rm {given}", f"echo >>{given}", f"echo >{tmp_path}/new", moved):
        shell(writing, reads=(given,), writes=work)
        assert given.read_text() == "given"
        assert SECRET in secret.read_bytes()
        assert not (tmp_path / "new").exists(), writing


# How a source gets at a file: each is refused by the compiler, as if the file were not there.
READING = {
    "incbin in pieces": '__asm__(".inc" "bin \\"{0}\\"");',
    "incbin by a macro": '#define B(x) ".in" #x "bin \\"{0}\\""\n__asm__(B(c));',
    "include of the assembler": '__asm__(".inc" "lude \\"{0}\\"");',
    "include": '#include "{0}"',
    "include by a macro": '#define F "{0}"\n#include F',
    "a way up": '#include "../home/secret.h"',
    "a link": '#include "link.h"',
    "a precompiled header": '#pragma GCC pch_preprocess "{0}"\nint x = OWN;',
}


@pytest.mark.parametrize("way", READING)
def test_a_source_reads_no_other_file(means: Confinement, way: str, secret: Path, folder: Path) -> None:
    (folder / "link.h").symlink_to(secret)
    source = folder / "model.c"
    source.write_text(f'#include "own.h"\n{READING[way].format(secret)}\nint answer = OWN;\n')
    with pytest.raises(BuildError, match=r"compiling .*model\.c failed"):
        toolchain.compile_object(source, [folder], FLAGS, toolchain.arm_gcc(), foreign=True)
    assert not [path for path in (folder.parent / "cache").rglob("*") if path.is_file() and SECRET in path.read_bytes()]


@pytest.mark.parametrize("text", ['.incbin "{0}"', '#include "{0}"', '.include "{0}"'])
def test_an_assembly_file_reads_no_other_file(means: Confinement, text: str, secret: Path, folder: Path) -> None:
    source = folder / "kernel.S"
    source.write_text(f"{text.format(secret)}\n")
    with pytest.raises(BuildError, match=r"kernel\.S failed"):
        toolchain.compile_object(source, [folder], FLAGS, toolchain.arm_gcc(), foreign=True)


def test_clang_embeds_no_other_file(means: Confinement, secret: Path, folder: Path) -> None:
    source = folder / "model.c"
    flags = ("-mcpu=cortex-m4", "-std=c2x")
    source.write_text(f'const char stolen[] = {{\n#embed "{secret}"\n}};\n')
    with pytest.raises(BuildError, match=r"model\.c failed"):
        toolchain.compile_object(source, [folder], flags, toolchain.arm_clang(), foreign=True)
    source.write_text('#include <string.h>\n#include "own.h"\nint answer = OWN;\n')
    assert toolchain.compile_object(source, [folder], flags, toolchain.arm_clang(), foreign=True).is_file()


@pytest.mark.parametrize("command", ["INCLUDE {0}", "INPUT({0})"])
def test_a_linker_script_reads_no_other_file(means: Confinement, command: str, secret: Path, folder: Path) -> None:
    source = folder / "model.c"
    source.write_text("int answer;\n")
    with pytest.raises(BuildError, match="linking model failed"):
        toolchain.build_elf([source], [folder], FLAGS, f"{command.format(secret)}\n{SCRIPT}", "model", foreign=True)


def test_a_plain_program_is_the_same_bytes(means: Confinement, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By relative names too, from the folder above."""
    monkeypatch.chdir(folder.parent)
    source = Path("model") / "model.c"
    source.write_text('#include <stdint.h>\n#include "own.h"\nint32_t answer(void) { return OWN; }\n')
    built = toolchain.build_elf([source], [Path("model")], FLAGS, SCRIPT, "model", foreign=True).read_bytes()
    monkeypatch.setenv("CORTADO_CACHE", str(folder.parent / "other"))
    assert toolchain.build_elf([source], [Path("model")], FLAGS, SCRIPT, "model").read_bytes() == built


def test_without_any_means_nothing_is_compiled(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "confinement", lambda: None)
    monkeypatch.setenv("CORTADO_CACHE", str(tmp_path / "cache"))
    source = folder / "model.c"
    source.write_text("int answer;\n")
    with pytest.raises(MissingTool, match=r"Landlock \(5\.13 or newer\), or bubblewrap \(apt-get install bubblewrap\)"):
        toolchain.build_elf([source], [folder], FLAGS, SCRIPT, "model", foreign=True)


def test_the_means_is_found_by_trying(monkeypatch: pytest.MonkeyPatch) -> None:
    found = module.confinement.__wrapped__
    assert found() is Confinement.LANDLOCK or landlock.version() == 0
    monkeypatch.setattr(landlock, "version", lambda: 0)
    assert found() is Confinement.BUBBLEWRAP
    monkeypatch.setattr(module, "BWRAP", "no-such-program")
    assert found() is None


def test_a_compiler_elsewhere_shows_its_own_folders_alone(tmp_path: Path) -> None:
    """In ~/.local lie programs, and keys beside them."""
    tool = tmp_path / ".local" / "bin" / "arm-none-eabi-gcc"
    (tmp_path / ".local" / "share").mkdir(parents=True)
    (tmp_path / ".local" / "lib").mkdir()
    tool.parent.mkdir()
    tool.touch()
    words = confined(["x"], reads=(), writes=tmp_path, tools=[tool])
    assert any(str(word).endswith(".local/lib") for word in words)
    assert not any(str(word).endswith((".local", ".local/share")) for word in words)


def test_an_error_of_foreign_c_is_told_as_any(means: Confinement, folder: Path) -> None:
    source = folder / "model.c"
    source.write_text("int answer = ;\n")
    with pytest.raises(CortadoError, match=r"arm-none-eabi-gcc, exit code 1\):\n.*model\.c:1:14: error"):
        toolchain.compile_object(source, [folder], FLAGS, toolchain.arm_gcc(), foreign=True)
