"""Mistakes a user can make with what was compiled: inputs, boards, missing tools, damaged folders."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cortado.artifact.manifest import REPORT
from cortado.artifact.opened import EXAMPLE, REFERENCE, Artifact
from cortado.models import sources as models
from helpers.cli import Run, compile_tiny, forge_checksums, one_sentence, refused

pytestmark = pytest.mark.usefixtures("here")

# ---- run ----------------------------------------------------------------------------------------------------------


def save_inputs(folder: Path) -> None:
    good = np.zeros((1, 1, 6, 6), dtype=np.float32)
    np.save(folder / "good.npy", good)
    np.save(folder / "shape.npy", np.zeros((6, 6), dtype=np.float32))
    np.save(folder / "rows.npy", np.zeros((2, 1, 6, 5), dtype=np.float32))
    np.save(folder / "double.npy", good.astype(np.float64))
    np.save(folder / "byte.npy", good.astype(np.uint8))
    np.save(folder / "infinite.npy", good + np.inf)
    np.save(folder / "pickle.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.savez(folder / "two.npz", good, good)
    (folder / "damaged.npy").write_bytes((folder / "good.npy").read_bytes()[:-1])
    (folder / "damaged.npz").write_bytes(b"PK\x03\x04")
    (folder / "text.npy").write_text("1 2 3")
    (folder / "x.csv").write_text("1,2,3")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.npy", "there is no file missing.npy"),
        (".", ".: expected a .npy file"),
        ("x.csv", "x.csv: expected a .npy file, or .npz for several arrays"),
        ("shape.npy", "shape.npy has shape [6, 6], expected [1, 1, 6, 6] for input 'x'"),
        (
            "rows.npy",
            "rows.npy has shape [2, 1, 6, 5], expected [1, 1, 6, 6] for input 'x', or several of those concat",
        ),
        ("double.npy", "has dtype float64, expected float32 (real values) or int8 (quantized codes) for input 'x'"),
        ("byte.npy", "has dtype uint8, expected float32"),
        ("infinite.npy", "holds NaN or infinity; inputs must be finite"),
        ("pickle.npy", "pickle.npy is not a readable .npy file"),
        ("two.npz", "two.npz holds 2 arrays, expected 1 (one for each input of the model): x"),
        ("damaged.npy", "damaged.npy is not a readable .npy file"),
        ("damaged.npz", "damaged.npz is not a readable .npz file"),
        ("text.npy", "text.npy is not a readable .npy file"),
    ],
)
def test_an_input_that_does_not_fit(run: Run, here: Path, tiny_artifact: Artifact, name: str, message: str) -> None:
    save_inputs(here)
    done = run("run", tiny_artifact.folder, "--on", "host", "--input", name, "--output", "y.npy")
    if name == ".":
        refused(done)
    else:
        one_sentence(done, message)
    assert not (here / "y.npy").exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("y.txt", "can't write y.txt: expected a .npy file"),
        ("y", "can't write y: expected a .npy file"),
        ("nowhere/y.npy", "can't write nowhere/y.npy: expected a file name in a folder that exists"),
        ("folder.npy", "can't write folder.npy: expected a file name in a folder that exists"),
        ("/proc/cortado.npy", "can't write /proc/cortado.npy: "),
    ],
)
def test_an_output_that_can_not_be_written(
    run: Run, here: Path, tiny_artifact: Artifact, name: str, message: str
) -> None:
    (here / "folder.npy").mkdir()
    one_sentence(run("run", tiny_artifact.folder, "--on", "host", "--output", name), message)
    assert [path.name for path in here.iterdir()] == ["folder.npy"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--on", "moon"], "can't run on 'moon'; known places: host, wasm, executorch, gdb:HOST:PORT, mps2-an385"),
        (["--on", "mps3-an547"], "this bundle is for cortex-m4, which runs on mps2-an386, not on mps3-an547"),
    ],
)
def test_a_place_it_can_not_run(run: Run, tiny_artifact: Artifact, arguments: list[str], message: str) -> None:
    one_sentence(run("run", tiny_artifact.folder, *arguments), message)


# ---- missing tools ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("present", "on", "missing", "packages"),
    [
        (("cc", "arm-none-eabi-gcc"), None, ["qemu-system-arm"], "qemu-system-arm"),
        (("cc", "qemu-system-arm"), None, ["arm-none-eabi-gcc"], "gcc-arm-none-eabi libnewlib-arm-none-eabi"),
        (("cc",), None, ["arm-none-eabi-gcc", "qemu-system-arm"], "libnewlib-arm-none-eabi qemu-system-arm"),
        (("arm-none-eabi-gcc", "qemu-system-arm"), "host", ["cc"], "build-essential"),
    ],
)
def test_run_without_a_tool(
    run: Run,
    tmp_path: Path,
    tiny_artifact: Artifact,
    monkeypatch: pytest.MonkeyPatch,
    present: tuple[str, ...],
    on: str | None,
    missing: list[str],
    packages: str,
) -> None:
    """Even when the firmware was built before: a path with only some of the programs on it."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in present:
        (tools / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", str(tools))
    done = run("run", tiny_artifact.folder, *([] if on is None else ["--on", on]))
    one_sentence(done, *(f"{name} is not on PATH (needed for " for name in missing))
    assert re.search(rf"Install with: apt-get install .*{packages}$", done.err.strip())


def test_compile_without_a_compiler(run: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing has to be built to compile a model: only the size of the code stays unknown."""
    monkeypatch.setenv("PATH", str(here))
    done = compile_tiny(run, "-t", "cortex-m4", "-o", "out")
    assert done.code == 0, done.err
    assert "bytes of constants + code (unknown without arm-none-eabi-gcc)" in done.out
    flash = Artifact.open(here / "out").report.flash
    assert flash is not None
    assert flash.code_bytes is None


# ---- damaged and changed artifacts --------------------------------------------------------------------------------


@pytest.fixture
def model(here: Path, tiny_artifact: Artifact) -> Path:
    """A copy to damage."""
    shutil.copytree(tiny_artifact.folder, here / "model")
    return here / "model"


def test_every_file_is_checked(run: Run, model: Path, tiny_artifact: Artifact) -> None:
    for name in tiny_artifact.report.artifacts:
        original = (model / name).read_bytes()
        (model / name).write_bytes(original[:-1] + bytes([original[-1] ^ 1]))
        one_sentence(run("run", "model", "--on", "host"), f"model/{name} is not the file that was compiled")
        (model / name).unlink()
        one_sentence(run("run", "model", "--on", "host"), f"model/{name} is missing; compile the model again")
        (model / name).write_bytes(original)
    Artifact.open(model)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "can't be read"),
        ("{", "can't be read"),
        (
            "[]",
            "is not a report written by Cortado (it is a list, expected an object (Report)); compile the model again",
        ),
        (
            "{}",
            "is not a report written by Cortado (cortado_version is missing, expected a text); compile the model again",
        ),
    ],
)
def test_a_report_that_is_none(run: Run, model: Path, text: str, message: str) -> None:
    (model / REPORT).write_text(text)
    one_sentence(run("run", "model", "--on", "host"), f"model/{REPORT}", message)


def changes() -> list[Callable[[dict[str, Any]], None]]:
    def drop(*keys: str) -> Callable[[dict[str, Any]], None]:
        def change(report: dict[str, Any]) -> None:
            for key in keys[:-1]:
                report = report[key][0] if isinstance(report[key], list) else report[key]
            del report[keys[-1]]

        return change

    tensor = ("name", "node", "shape", "model_shape", "layout", "dtype", "scale", "zero_point")
    return [
        *(drop(key) for key in ("target", "prefix", "inputs", "outputs", "artifacts", "memory", "flash", "macs")),
        *(drop("inputs", key) for key in tensor),
        *(drop("outputs", key) for key in tensor),
        lambda report: report.update(prefix="tiny; int x"),
        lambda report: report.update(prefix="../tiny"),
        lambda report: report.update(target="cortex-m99"),
        lambda report: report.update(inputs=[1]),
        lambda report: report["artifacts"].update({"../../etc/passwd": "0"}),
        lambda report: report["artifacts"].update({"/etc/passwd": "0"}),
    ]


def test_a_report_with_something_wrong_in_it(run: Run, model: Path) -> None:
    original = (model / REPORT).read_text()
    for change in changes():
        report = json.loads(original)
        change(report)
        (model / REPORT).write_text(json.dumps(report))
        one_sentence(run("run", "model", "--on", "host", "--trust"))


def test_damaged_contents_behind_right_checksums(run: Run, model: Path) -> None:
    """Checksums can be forged; the readers must still answer with a sentence."""
    for name in (REFERENCE, EXAMPLE):
        original = (model / name).read_bytes()
        for damaged in (b"", original[:100], b"PK\x03\x04" + original[:50]):
            (model / name).write_bytes(damaged)
            forge_checksums(model)
            refused(run("run", "model", "--on", "host", "--trust"))
        (model / name).write_bytes(original)


@pytest.mark.parametrize("place", ["nowhere", "file", "empty"])
def test_a_folder_that_holds_no_model(run: Run, here: Path, place: str) -> None:
    (here / "file").touch()
    (here / "empty").mkdir()
    one_sentence(run("run", place), f"{place} ", "expected", "that `cortado compile` wrote")


# ---- the other commands -------------------------------------------------------------------------------------------


def test_inspect_and_plan_answer_too(run: Run, here: Path) -> None:
    (here / "bad.pte").write_bytes(b"not a program")
    (here / "bad.csv").write_text("what,is,this\n1,2,3\n")
    (here / "binary.csv").write_bytes(b"\xff\xfe\x00")
    for arguments in (
        ["inspect", "missing.pte"],
        ["inspect", "bad.pte"],
        ["inspect", "bad.pte", "--target", "cortex-m99"],
        ["plan", "missing.csv"],
        ["plan", "bad.csv"],
        ["plan", "binary.csv"],
    ):
        refused(run(*arguments))
    one_sentence(run("plan", "missing.csv"), "can't read missing.csv: No such file or directory; expected a CSV file")
    one_sentence(run("plan", "binary.csv"), "binary.csv is not text")
    one_sentence(run("plan", "bad.csv"), "bad.csv: line 1")


def test_a_mistake_of_cortados_own_is_neither_exit_one_nor_two(
    run: Run, monkeypatch: pytest.MonkeyPatch, here: Path
) -> None:
    monkeypatch.setattr(models, "load_model", lambda spec, shapes: 1 / 0)
    done = run("compile", "ds_cnn")
    assert done.code == 70
    assert "ZeroDivisionError" in done.err
    assert done.err.splitlines()[-1].startswith("cortado: this is a bug in Cortado, not a mistake of yours")


def test_interrupted(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(spec: str, shapes: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(models, "load_model", interrupt)
    done = run("compile", "ds_cnn")
    assert done.code == 130
    assert done.err.splitlines()[-1] == "cortado: interrupted"
