"""Folders of others: what they may make this machine spend on them, in memory, time and files."""

import io
import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cortado.artifact.manifest import REPORT, check_includes, digest
from cortado.artifact.opened import EXAMPLE, EXPECTED, REFERENCE, Artifact
from cortado.base.errors import CortadoError
from cortado.cli import main
from cortado.run import confined, sandbox
from cortado.run.sandbox import Limits
from helpers.cli import Run


@pytest.fixture
def copy(tiny_artifact: Artifact, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_artifact.folder, tmp_path / "copy"))


def sign(folder: Path, name: str, data: bytes) -> None:
    """Replaces a file and its hash, as its maker could."""
    (folder / name).write_bytes(data)
    report = json.loads((folder / REPORT).read_text())
    report["artifacts"][name] = digest(data)
    (folder / REPORT).write_text(json.dumps(report))


# ---- sources -------------------------------------------------------------------------------------------------------

OUTSIDE = [
    '#include "/dev/zero"',
    "#include </dev/zero>",
    '#include "../../secret.h"',
    '#inc\\\nlude "/dev/zero"',
    '??=include "/dev/zero"',
    '#inc??/\nlude "/dev/zero"',
    '%:include "/dev/zero"',
    '#define FILE "/dev/zero"\n#include FILE',
    '#/* */include "/dev/zero"',
    '// /*\n#include "/dev/zero"\n/* */',
    '#include_next "/dev/zero"',
    '#embed "/dev/zero"',
    '__asm__(".incbin \\"/dev/zero\\"");',
]


@pytest.mark.parametrize("text", OUTSIDE)
def test_a_source_may_not_include_what_is_outside(copy: Path, text: str) -> None:
    sign(copy, "tiny.c", (copy / "tiny.c").read_bytes() + f"\n{text}\n".encode())
    with pytest.raises(CortadoError, match=r"tiny\.c has .*expected the name of a file in the folder"):
        Artifact.open(copy, trust=True)


@pytest.mark.qemu
def test_a_source_that_reads_a_file_in_disguise_is_not_compiled(
    copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    """The assembler puts a file into the firmware where the text names no directive. With trust that is the user's
    own affair."""
    monkeypatch.setenv("CORTADO_CACHE", str(tmp_path / "cache"))
    secret = tmp_path / "secret"
    secret.write_bytes(b"the-users-own-secret")
    stolen = f'__asm__(".section .rodata.stolen,\\"aR\\"\\n.inc" "bin \\"{secret}\\"\\n.text");'
    sign(copy, "tiny.c", (copy / "tiny.c").read_bytes() + f"\n{stolen}\n".encode())
    done = run("run", copy)
    assert done.code == 2
    assert "compiling" in done.err
    assert "tiny.c failed" in done.err
    assert not in_cache(tmp_path / "cache", secret.read_bytes())
    assert run("run", copy, "--trust").code == 0
    assert in_cache(tmp_path / "cache", secret.read_bytes())


def in_cache(folder: Path, data: bytes) -> bool:
    return any(path.is_file() and data in path.read_bytes() for path in folder.rglob("*"))


@pytest.mark.qemu
def test_a_folder_from_elsewhere_is_compiled_only_where_it_sees_nothing(
    copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.setenv("CORTADO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(confined, "confinement", lambda: None)
    done = run("run", copy)
    assert done.code == 2
    assert "apt-get install bubblewrap" in done.err
    assert "--trust" in done.err
    assert run("run", copy, "--trust").code == 0


@pytest.mark.parametrize("text", ["#include <string.h>", '# include "tiny.h"', "/* #include */", '#error "include"'])
def test_other_lines_are_as_good_as_ever(tmp_path: Path, text: str) -> None:
    (tmp_path / "model.c").write_text(f"{text}\n")
    if "/*" in text:
        with pytest.raises(CortadoError):
            check_includes(tmp_path)  # no file is named
    else:
        check_includes(tmp_path)


@pytest.mark.parametrize("name", ["string.h", "kernels/include/stdint.h", "sys/types.h"])
def test_a_header_that_is_not_the_models_is_refused(copy: Path, name: str) -> None:
    """It would be found before the compiler's own."""
    (copy / name).parent.mkdir(exist_ok=True)
    (copy / name).write_text("#define int char\n")
    with pytest.raises(CortadoError, match=rf"{name} is not a file of this model; move it out of the folder"):
        Artifact.open(copy)


def test_a_link_out_of_the_folder_is_refused(copy: Path, tmp_path: Path) -> None:
    shutil.move(copy / "tiny.c", tmp_path / "elsewhere.c")
    (copy / "tiny.c").symlink_to(tmp_path / "elsewhere.c")
    with pytest.raises(CortadoError, match=r"tiny\.c is a link to .*elsewhere\.c, outside of the folder"):
        Artifact.open(copy)


def test_a_file_without_end_is_refused(copy: Path) -> None:
    with (copy / "tiny.pte").open("r+b") as file:
        file.truncate(1 << 40)  # it takes no room on the disk
    with pytest.raises(CortadoError, match=r"tiny\.pte has 1,099,511,627,776 bytes"):
        Artifact.open(copy)
    with (copy / REPORT).open("r+b") as file:
        file.truncate(1 << 40)
    with pytest.raises(CortadoError, match=r"report\.json can't be read \(it has more than"):
        Artifact.open(copy)


@pytest.mark.qemu
def test_a_compiler_that_a_source_makes_grow_is_ended(
    copy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nine macros of eight of the one before are 128 million names; the limits here are lower than the real ones."""
    monkeypatch.setattr(sandbox, "COMPILER", Limits(seconds=300, memory_bytes=1 << 29, file_bytes=4 << 20))
    lines = ["#define A0 x x x x x x x x"]
    lines += [f"#define A{level} {' '.join([f'A{level - 1}'] * 8)}" for level in range(1, 9)]
    sign(copy, "tiny.c", (copy / "tiny.c").read_bytes() + "\n".join([*lines, "A8", ""]).encode())
    assert main(["run", str(copy)]) == 2
    assert "tiny.c needs more than 512 MB of memory, and was stopped" in capsys.readouterr().err


# ---- arrays --------------------------------------------------------------------------------------------------------


def zipped(arrays: dict[str, bytes], compression: int) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, data in arrays.items():
            archive.writestr(f"{name}.npy", data)
    return stream.getvalue()


def header(shape: tuple[int, ...]) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"shape": shape, "fortran_order": False, "descr": "<f4"})
    return stream.getvalue()


@pytest.mark.parametrize("name", [EXAMPLE, EXPECTED, REFERENCE])
@pytest.mark.parametrize("bomb", ["compressed", "header"])
def test_arrays_that_say_they_are_large_are_not_read(
    copy: Path, name: str, bomb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither what is small in a file and large in memory, nor what claims to be."""
    with np.load(copy / name) as file:
        names = file.files
    large = header((1 << 28,)) + (bytes(1 << 22) if bomb == "compressed" else b"")
    method = zipfile.ZIP_DEFLATED if bomb == "compressed" else zipfile.ZIP_STORED
    sign(copy, name, zipped(dict.fromkeys(names, large), method))
    load = np.load

    def watched(stream: io.BufferedReader, **named: Any) -> Any:
        assert not stream.name.endswith(name), "it was read"
        return load(stream, **named)

    monkeypatch.setattr(np, "load", watched)
    with pytest.raises(CortadoError, match=r"compressed, or larger than the file|there are fewer|doesn't fit"):
        read_all(copy)


def read_all(folder: Path) -> None:
    artifact = Artifact.open(folder, trust=True)
    artifact._recorded([artifact.example()])


def test_an_example_of_another_shape_is_refused(copy: Path) -> None:
    with np.load(copy / EXAMPLE) as file:
        names = file.files
    sign(copy, EXAMPLE, zipped({name: header((2, 2)) + bytes(16) for name in names}, zipfile.ZIP_STORED))
    with pytest.raises(CortadoError, match=r"example\.npz doesn't fit the model .*compile it again"):
        Artifact.open(copy).example()
