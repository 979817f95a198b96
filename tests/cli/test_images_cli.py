"""Images on the command line: compile --image, inspect, kernels, and what is refused."""

import subprocess
from pathlib import Path

from cortado.base.target import BUNDLE_FLAGS, Compiler, from_target_string
from cortado.run.toolchain import Tool, require
from helpers.cli import Run, compile_tiny, refused


def test_an_image_is_written_shown_and_has_its_kernels_found(run: Run, tmp_path: Path) -> None:
    folder, firmware = tmp_path / "out", tmp_path / "firmware"
    done = compile_tiny(run, "-t", "cortex-m4", "--artifacts", "c", "--image", "-o", folder, "--json")
    assert done.code == 0, done.err
    image, path = done.json["image"], folder / "tiny.cortado"
    assert image["bytes"] == path.stat().st_size
    shown = run("inspect", path, "--json").json
    assert (shown["ram_bytes"], shown["arena_bytes"]) == (image["ram_bytes"], done.json["memory"]["arena_bytes"])
    assert "tiny for cortex-m4" in run("inspect", path).out
    listed = run("kernels", path, "-o", firmware, "--json")
    assert listed.code == 0, listed.err
    found = listed.json
    assert {row["kernel"] for row in found} == set(image["kernels"])
    table = (firmware / "loader" / "cortado_kernels.c").read_text()
    assert table == (folder / "loader" / "cortado_kernels.c").read_text()
    flags = [*from_target_string("cortex-m4").compiler_flags(Compiler.GCC), "-std=c99", *BUNDLE_FLAGS]
    includes = [f"-I{firmware}/kernels/include", f"-I{firmware}/kernels/src"]
    for source in firmware.rglob("*.c"):
        command = [str(require(Tool.ARM_GCC)), *flags, *includes, "-fsyntax-only", str(source)]
        subprocess.run(command, check=True)


def test_what_cannot_be_an_image_is_refused(run: Run, tmp_path: Path) -> None:
    refused(compile_tiny(run, "--image", "-o", tmp_path / "out"), "one kind of core", "--target cortex-m55")
    both = compile_tiny(run, "-t", "cortex-m4", "--image", "--memory", "a=64K,b=64K", "-o", tmp_path / "out")
    refused(both, "--image and --memory")
    (tmp_path / "no.cortado").write_bytes(b"nothing")
    refused(run("inspect", tmp_path / "no.cortado"), "is not an image")
    refused(run("kernels", tmp_path / "no.cortado"), "is not an image")
    refused(run("kernels"), "--all --target TARGET")
    refused(run("kernels", "--all"), "needs the core")
    refused(run("kernels", "--all", "-t", "cortex-m"), "one kind of core")
    refused(run("kernels", "--all", "-t", "cortex-m4", "-o", tmp_path), "exists already")
    assert not (tmp_path / "out").exists()
