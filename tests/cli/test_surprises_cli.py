"""Mistakes a user can make on the command line: one clear sentence, the right exit code, nothing half-written."""

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cli.test_cli import TINY, TWO, Done, Run, compile_tiny, forge_checksums, run
from cortado.artifact.manifest import REPORT
from cortado.artifact.opened import EXAMPLE, REFERENCE, Artifact
from cortado.base.errors import CortadoError
from cortado.frontend import models
from cortado.run import toolchain
from helpers.paths import MODELS

__all__ = ["run"]  # the fixture

UNSUPPORTED = MODELS / "unsupported.py"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test has a current folder of its own: what is written there was not to be written."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def refused(done: Done, *parts: str) -> str:
    """Exit code 2, nothing on standard output, and a message (without the progress lines) that says all of `parts`."""
    lines = [line for line in done.err.splitlines() if not re.match(r"\[ *[\d.]+ s\] ", line)]
    message = "\n".join(lines)
    assert done.code == 2, done.err
    assert done.out == ""
    assert message.startswith("cortado: ")
    assert "Traceback" not in message
    for part in parts:
        assert part in message
    return message


def one_sentence(done: Done, *parts: str) -> None:
    assert len(refused(done, *parts).splitlines()) == 1


# ---- what to compile ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("ds_cn", "no network is called 'ds_cn' in the zoo. Did you mean 'ds_cnn'?"),
        ("DS-CNN", "Did you mean 'ds_cnn'?"),
        ("resnet", "Did you mean 'resnet8'?"),
        ("", "'' is nothing that Cortado compiles; expected a name of the zoo"),
        ("no such; rm -rf *", "no network is called 'no such; rm -rf *' in the zoo. It has: ds_cnn"),
        ("größe", "no network is called 'größe'"),
        ("missing.py", "there is no file missing.py"),
        ("missing.py:make", "there is no file missing.py"),
        ("missing.pt2", "there is no file missing.pt2"),
        ("folder/model.onnx", "'folder/model.onnx' is nothing that Cortado compiles; expected a name of the zoo"),
        ("no.such.module:make", "importing 'no.such.module' failed: ModuleNotFoundError"),
        ("not a module:make", "'not a module:make' names no model; expected a name of the zoo"),
        ("json:dumps", "json:dumps must take no arguments"),
        ("json:nothing", "json defines no 'nothing'"),
        (f"{TINY}:nothing", "tiny.py defines no 'nothing'"),
        (f"{TINY}:", "tiny.py defines no ''"),
        (f"{TINY}:sample", "sample must take no arguments"),
        (f"{TINY}:Tiny", "must give (model, example_inputs), found Tiny"),
        (f"{TINY}:calibration", "must give (model, example_inputs), found list"),
    ],
)
def test_a_model_that_is_none(run: Run, here: Path, spec: str, message: str) -> None:
    one_sentence(run("compile", spec, "--calibration", "random"), message)
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "defines no ModelUnderTest and no ModelInputs; define ModelUnderTest and ModelInputs, or name"),
        ("ModelUnderTest = 1", "defines no ModelInputs"),
        ("def f(:", "SyntaxError"),
        ("import sys\nsys.exit(0)", "failed: SystemExit: 0 at "),
        ("x = 1\n\nraise ValueError('bad\\n  luck')", "failed: ValueError: bad luck at {file}:3"),
        ("ModelUnderTest, ModelInputs = 1, 2", "the model must be a torch.nn.Module, found int"),
        ("import torch\nModelUnderTest, ModelInputs = torch.nn.ReLU(), 2", "must be a tuple of tensors, found int"),
        (
            "import torch\nModelUnderTest, ModelInputs = torch.nn.ReLU(), ()",
            "must be a tuple of tensors, found nothing",
        ),
        ("import torch\nModelUnderTest, ModelInputs = torch.nn.Linear, torch.ones(1)", "Linear() failed: TypeError"),
    ],
)
def test_a_file_that_holds_no_model(run: Run, here: Path, text: str, message: str) -> None:
    file = here / "model.py"
    file.write_text(text)
    one_sentence(run("compile", file, "--calibration", "random"), message.format(file=file))
    assert [path.name for path in here.iterdir() if path.name != "__pycache__"] == ["model.py"]


def test_a_checkpoint_is_not_a_model(run: Run, here: Path) -> None:
    torch.save({"weight": torch.zeros(1)}, here / "net.pth")
    one_sentence(run("compile", "net.pth"), "holds weights and no model; write a file.py whose function loads it")


def test_a_damaged_exported_program(run: Run, here: Path) -> None:
    (here / "net.pt2").write_bytes(b"PK\x03\x04 and then nothing of use")
    refused_text = run("compile", "net.pt2", "--calibration", "random").err.splitlines()
    assert refused_text[-1].startswith("cortado: net.pt2 is not a readable exported program: ")


def test_keyword_arguments_of_an_exported_program(run: Run, here: Path) -> None:
    program = torch.export.export(torch.nn.ReLU(), (), {"input": torch.zeros(1, 3)})
    torch.export.save(program, here / "net.pt2")
    done = run("compile", "net.pt2", "--calibration", "random")
    assert done.code == 2
    assert "takes keyword arguments ['input']; export it with positional ones only" in done.err


def test_an_unsupported_operator_is_named_with_its_line_and_reason(run: Run, here: Path) -> None:
    """The node, the line in the user's own file, and why."""
    number = next(i for i, line in enumerate(UNSUPPORTED.read_text().splitlines(), 1) if "cumsum" in line)
    done = run("compile", UNSUPPORTED, "--calibration", "random", "-t", "cortex-m4", "-o", "out")
    refused(done, "aten.cumsum.default", f"{UNSUPPORTED}:{number}", "(return torch.cumsum(self.linear(x), 1))")
    assert re.search(r"cumsum.*\): \S.*", done.err), "no reason behind the node"
    assert list(here.iterdir()) == []


def test_a_model_torch_can_not_capture(run: Run, here: Path) -> None:
    (here / "dynamic.py").write_text(
        "import torch\n"
        "class Dynamic(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        return x + 1 if x.sum() > 0 else x - 1\n"
        "ModelUnderTest, ModelInputs = Dynamic(), torch.ones(1, 3)\n"
    )
    done = run("compile", "dynamic.py", "--calibration", "random")
    assert done.code == 2
    assert done.err.splitlines()[-1].startswith("cortado: torch.export can't capture this model: ")


# ---- targets and options ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-t", "cortex-m99"], "unknown target 'cortex-m99'; known targets: cortex-m0, "),
        (["-t", "cortex-m4,cortex-m99"], "unknown target 'cortex-m99'"),
        (["-t", "cortex-m55,"], "unknown target ''"),
        (["-t", "cortex-m55+int8"], "+int8 is not an attribute"),
        (["-t", "cortex-m0+nomve"], "cortex-m0 has no MVE to leave out; supported: SCALAR"),
        (["-m", "resnet8"], "two models, ds_cnn and resnet8: name one"),
        (["--name", "../up"], "'../up' can't be a model's name"),
        (["--name", "*/ int main(void)"], "can't be a model's name"),
        (["--name", ""], "'' can't be a model's name"),
        (["--name", "größe"], "can't be a model's name; expected at most 100 of a-z"),
        (["--name", "x" * 101], "can't be a model's name"),
        (["--ram-budget", "lots"], "'lots' is not a size; expected bytes, as in 262144, 256K or 1M"),
    ],
)
def test_options_that_make_no_sense(run: Run, here: Path, arguments: list[str], message: str) -> None:
    one_sentence(run("compile", "ds_cnn", *arguments), message)
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["compile", "ds_cnn", "--tarjet", "x"],
        ["compile", "ds_cnn", "--tar", "cortex-m4"],  # no abbreviations: they'd change meaning with the next option
        ["compile", "ds_cnn", "--optimize", "everything"],
        ["compile", "ds_cnn", "extra"],
        ["run"],
        ["fly"],
        ["--json"],
    ],
)
def test_unknown_flags_show_the_usage(run: Run, here: Path, arguments: list[str]) -> None:
    done = run(*arguments)
    assert done.code == 2
    assert done.err.startswith("usage: cortado")
    assert list(here.iterdir()) == []


def test_no_model_at_all(run: Run) -> None:
    one_sentence(run("compile", "-t", "cortex-m4"), "no model: name one, as in `cortado compile ds_cnn`")


def test_a_budget_that_is_too_small(run: Run, here: Path) -> None:
    refused(compile_tiny(run, "-t", "cortex-m4", "--ram-budget", "16", "-o", "out"), "bytes of RAM", "the budget is 16")
    refused(compile_tiny(run, "-t", "cortex-m4", "--flash-budget", "1K", "-o", "out"), "bytes of flash", "1,024")
    assert list(here.iterdir()) == []


def test_a_flash_budget_holds_for_code_too(run: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For any core the largest counts; without a compiler the size of the code is not known."""
    assert compile_tiny(run, "-t", "cortex-m", "-o", "any", "-q").code == 0
    flash = json.loads((here / "any" / REPORT).read_text())["flash"]
    assert flash["code_bytes"] > 1000
    short = flash["weights_bytes"] + flash["code_bytes"] - 1
    refused(compile_tiny(run, "-t", "cortex-m", "--flash-budget", short, "-o", "out"), "bytes of flash", f"{short:,}")
    monkeypatch.setattr(toolchain, "find", lambda tool: None)
    refused(compile_tiny(run, "-t", "cortex-m4", "--flash-budget", "1M", "-o", "out"), "not on PATH", "apt-get install")


# ---- calibration data ---------------------------------------------------------------------------------------------


def test_no_calibration_data(run: Run, here: Path) -> None:
    one_sentence(run("compile", TINY), "no calibration data", "--calibration random")
    assert list(here.iterdir()) == []


def save_calibration(folder: Path) -> None:
    good = np.zeros((2, 1, 6, 6), dtype=np.float32)
    np.save(folder / "shape.npy", np.zeros((1, 6, 6), dtype=np.float32))
    np.save(folder / "double.npy", good.astype(np.float64))
    np.save(folder / "integer.npy", good.astype(np.int64))
    np.savez(folder / "mixed.npz", x=good, label=good)
    (folder / "data.txt").write_text("1 2 3")
    (folder / "garbage.npy").write_text("1 2 3")
    np.save(folder / "nan.npy", good * np.nan)
    np.save(folder / "text.npy", np.array(["one", "two"]))
    np.save(folder / "pickle.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    np.savez(folder / "two.npz", good, good)
    (folder / "damaged.npy").write_bytes((folder / "double.npy").read_bytes()[:-5])
    (folder / "damaged.npz").write_bytes((folder / "two.npz").read_bytes()[:200])
    (folder / "empty.npy").touch()
    torch.save({"a": torch.zeros(1)}, folder / "dict.pt")
    (folder / "damaged.pt").write_bytes(b"not a zip file")
    (folder / "empty folder").mkdir()
    (folder / "functions.py").write_text(
        "import torch\n"
        "def nothing(): return None\n"
        "def tensor(): return torch.zeros(1, 1, 6, 6)\n"
        "def numbers(): return [(1, 2)]\n"
        "def fails():\n    yield (torch.zeros(1, 1, 6, 6),)\n    raise OSError('disk gone')\n"
        "def empty(): return []\n"
        "def argument(count): return []\n"
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("nowhere.npy", "there is no file nowhere.npy"),
        ("nowhere", "there is no file nowhere"),
        ("empty folder", "empty folder holds no .npy, .npz, .pt files"),
        ("shape.npy", "calibration batch 0 has shape [1, 6, 6], expected [1, 1, 6, 6]"),
        ("integer.npy", "calibration batch 0 has dtype torch.int64, expected torch.float32"),
        ("rnadom", "there is no file rnadom. Did you mean 'random'?"),
        ("data.txt", "data.txt is no calibration data; expected a .npy, .npz, .pt file, a folder of them, file.py:fun"),
        ("garbage.npy", "garbage.npy is not a readable .npy file: it doesn't begin as one; np.save and np.savez write"),
        ("mixed.npz", "mixed.npz holds the arrays x, label, expected x: the names of the model's inputs"),
        ("functions.py:argument", "functions.py:argument must take no arguments, found (count) (missing a required"),
        ("nan.npy", "calibration batch 0 holds NaN or infinity"),
        ("text.npy", "text.npy holds an array of <U3; expected numbers"),
        ("pickle.npy", "pickle.npy is not a readable .npy file"),
        ("two.npz", "two.npz holds 2 arrays, expected 1 (one for each input of the model)"),
        ("damaged.npy", "damaged.npy is not a readable .npy file"),
        ("damaged.npz", "damaged.npz is not a readable .npz file"),
        ("empty.npy", "empty.npy is not a readable .npy file"),
        ("dict.pt", "dict.pt must hold a tensor or a list of tensors, found dict"),
        ("damaged.pt", "damaged.pt is not a readable .pt file of tensors, as torch.save([x, y], path) writes it"),
        ("functions.py", "functions.py defines no 'calibration'"),
        (
            "functions.py:nothing",
            "functions.py:nothing() must give a list of inputs, each a tuple of tensors; found NoneType",
        ),
        ("functions.py:tensor", "each a tuple of tensors; found Tensor"),
        ("functions.py:numbers", "item 0 holds something that is not a tensor"),
        ("functions.py:fails", "functions.py:fails() failed: OSError: disk gone at "),
        ("functions.py:empty", "no calibration data"),
    ],
)
def test_calibration_data_that_will_not_do(run: Run, here: Path, data: str, message: str) -> None:
    save_calibration(here)
    before = sorted(here.iterdir())
    one_sentence(run("compile", TINY, "--calibration", data, "-o", "out"), message)
    assert [path for path in sorted(here.iterdir()) if path.name != "__pycache__"] == before


def test_calibration_arrays_are_matched_by_name(here: Path) -> None:
    """As `run --input` does; by position only where no name is an input's."""
    source = models.load_model(str(TWO))
    vector, image = np.full((3, 6), 1.0, np.float32), np.full((3, 2, 5, 7), 2.0, np.float32)
    np.savez(here / "named.npz", image=image, vector=vector)
    np.savez(here / "unnamed.npz", vector, image)
    for name in ("named.npz", "unnamed.npz"):
        batches = models.load_calibration(name, source)
        assert [[float(value.max()) for value in batch] for batch in batches] == [[1.0, 2.0]] * 3
    np.savez(here / "mixed.npz", image=image, vektor=vector)
    with pytest.raises(CortadoError, match=r"mixed.npz holds the arrays image, vektor, expected vector, image"):
        models.load_calibration("mixed.npz", source)


def test_calibration_data_in_float64_is_taken(run: Run, here: Path) -> None:
    """NumPy makes float64 unless it is told otherwise."""
    data = np.random.default_rng(0).standard_normal((4, 1, 6, 6))
    reports = {}
    for dtype in (np.float32, np.float64):
        np.save(here / "data.npy", data.astype(np.float32).astype(dtype))
        assert run("compile", TINY, "--calibration", "data.npy", "-t", "cortex-m4", "-o", "out").code == 0
        reports[dtype] = json.loads((here / "out" / REPORT).read_text())["artifacts"]
    assert reports[np.float32] == reports[np.float64]


def test_a_function_that_needs_an_argument(run: Run, here: Path) -> None:
    (here / "net.py").write_text("def net(size): pass\n")
    one_sentence(
        run("compile", "net.py:net", "--calibration", "random"),
        "net.py:net must take no arguments, found (size) (missing a required argument: 'size')",
    )


def test_pickles_are_not_opened(run: Run, here: Path) -> None:
    """A .pt or .npy file from somewhere must not run code."""

    class Trap:
        def __reduce__(self) -> tuple[Callable[[str], Any], tuple[str]]:
            return os.mkdir, (str(here / "trapped"),)

    torch.save([Trap()], here / "trap.pt")
    np.save(here / "trap.npy", np.array([Trap()], dtype=object), allow_pickle=True)
    for name in ("trap.pt", "trap.npy"):
        refused(run("compile", TINY, "--calibration", name), "is not a readable")
    assert not (here / "trapped").exists()


def test_different_numbers_of_samples(run: Run, here: Path) -> None:
    np.savez("x.npz", np.zeros((3, 6), np.float32), np.zeros((2, 2, 5, 7), np.float32))
    one_sentence(run("compile", TWO, "--calibration", "x.npz"), "different numbers of samples", "[2, 3]")


# ---- where to write -----------------------------------------------------------------------------------------------


def test_an_output_folder_with_other_files(run: Run, here: Path) -> None:
    (here / "mine" / "deep").mkdir(parents=True)
    (here / "mine" / "deep" / "thesis.txt").write_text("precious")
    done = compile_tiny(run, "-t", "cortex-m4", "-o", "mine")
    one_sentence(done, "can't write to mine: it holds 'deep/thesis.txt', which is not part of a compiled model")
    assert (here / "mine" / "deep" / "thesis.txt").read_text() == "precious"
    assert "export" not in done.err, "it should be seen before the work"


def test_a_model_folder_with_a_file_of_the_users(run: Run, here: Path, tiny_artifact: Artifact) -> None:
    shutil.copytree(tiny_artifact.folder, here / "model")
    (here / "model" / "main.c").write_text("int main(void) { return 0; }\n")
    one_sentence(compile_tiny(run, "-t", "cortex-m4", "-o", "model"), "it holds 'main.c'")
    one_sentence(run("run", "model", "--on", "host"), "main.c is not a file of this model; move it out of the folder")
    assert (here / "model" / "main.c").is_file()


def test_a_report_of_somebody_elses(run: Run, here: Path) -> None:
    """Another program's report.json doesn't make a folder ours to replace."""
    (here / "other").mkdir()
    (here / "other" / REPORT).write_text('{"artifacts": {"data.txt": "0"}}')
    (here / "other" / "data.txt").write_text("precious")
    one_sentence(compile_tiny(run, "-t", "cortex-m4", "-o", "other"), "not part of a compiled model")
    assert (here / "other" / "data.txt").read_text() == "precious"


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("file", "can't write to file: it is a file, expected a folder"),
        ("file/below", "can't write to file/below: "),
        ("/proc/cortado/x", "can't write to /proc/cortado/x: "),
        ("n" * 300, ": File name too long; choose another folder"),
    ],
)
def test_an_output_folder_that_can_not_be_written(run: Run, here: Path, output: str, message: str) -> None:
    (here / "file").write_text("mine")
    one_sentence(compile_tiny(run, "-t", "cortex-m4", "-o", output), message)
    assert [path.name for path in here.iterdir()] == ["file"]


def test_no_permission(run: Run, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked of the system, not tried: root may write anywhere."""
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != here)
    one_sentence(compile_tiny(run, "-o", "out"), f"can't write to out: no permission in {here}; choose a folder")
    done = compile_tiny(run, "-o", tmp_path / "elsewhere", "-i", "graphs")
    one_sentence(done, f"can't write to graphs: no permission in {here}")


def test_a_disk_that_is_full_leaves_the_old_model(
    run: Run, here: Path, tiny_artifact: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(tiny_artifact.folder, here / "model")
    write = Path.write_bytes

    def full(path: Path, data: bytes) -> int:
        if path.suffix == ".pte":
            raise OSError(28, "No space left on device")
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    one_sentence(compile_tiny(run, "-t", "cortex-m3", "-o", "model"), "can't write to model: No space left on device")
    one_sentence(compile_tiny(run, "-t", "cortex-m3", "-o", "new"), "can't write to new: No space left on device")
    monkeypatch.undo()
    assert [path.name for path in here.iterdir()] == ["model"]
    assert Artifact.open(here / "model").report == tiny_artifact.report


def test_several_targets_do_not_go_into_one_model(run: Run, here: Path, tiny_artifact: Artifact) -> None:
    shutil.copytree(tiny_artifact.folder, here / "model")
    done = compile_tiny(run, "-t", "cortex-m4,cortex-m3", "-o", "model")
    one_sentence(done, "can't write several targets into model: it holds one compiled model")


def test_one_target_does_not_go_beside_several(run: Run, here: Path, tiny_artifact: Artifact) -> None:
    for target in ("cortex-m4", "cortex-m55"):
        shutil.copytree(tiny_artifact.folder, here / "several" / target)
    done = compile_tiny(run, "-t", "cortex-m3", "-o", "several")
    one_sentence(
        done, "several: it holds compiled models", "several targets are (cortex-m4, cortex-m55)", "another folder"
    )
    for command in ("run", "validate"):
        one_sentence(run(command, "several"), "several/cortex-m4, several/cortex-m55")


def test_one_target_that_fails_leaves_none(run: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cortado.api import Model

    real = Model.compile

    def fails_on_m3(model: Model, target: Any, *rest: Any) -> Any:
        if target.target_string == "cortex-m3":
            raise CortadoError("not on this one")
        return real(model, target, *rest)

    monkeypatch.setattr(Model, "compile", fails_on_m3)
    one_sentence(compile_tiny(run, "-t", "cortex-m4,cortex-m3", "-o", "out"), "not on this one")
    assert list(here.iterdir()) == []


def test_intermediates_inside_the_output(run: Run, here: Path) -> None:
    done = compile_tiny(run, "-t", "cortex-m4", "-o", "out", "-i", "out/graphs")
    one_sentence(done, "can't write the graphs to out/graphs: that is inside the output folder out")
    assert list(here.iterdir()) == []


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
        ("rows.npy", "rows.npy has shape [2, 1, 6, 5], expected [1, 1, 6, 6] for input 'x', or several of that behind"),
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
        (["--on", "moon"], "can't run on 'moon'; known places: host, executorch, mps2-an385"),
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
    assert Artifact.open(here / "out").report["flash"]["code_bytes"] is None


# ---- damaged and changed artifacts --------------------------------------------------------------------------------


@pytest.fixture
def model(here: Path, tiny_artifact: Artifact) -> Path:
    """A copy to damage."""
    shutil.copytree(tiny_artifact.folder, here / "model")
    return here / "model"


def test_every_file_is_checked(run: Run, model: Path, tiny_artifact: Artifact) -> None:
    for name in tiny_artifact.report["artifacts"]:
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
        ("[]", "is not a report of Cortado's (a list); compile the model again"),
        ("{}", "is not a report of Cortado's (no 'model', or not a str)"),
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
    monkeypatch.setattr(models, "load_model", lambda spec: 1 / 0)
    done = run("compile", "ds_cnn")
    assert done.code == 70
    assert "ZeroDivisionError" in done.err
    assert done.err.splitlines()[-1].startswith("cortado: this is a mistake in Cortado, not yours")


def test_interrupted(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(spec: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(models, "load_model", interrupt)
    done = run("compile", "ds_cnn")
    assert done.code == 130
    assert done.err.splitlines()[-1] == "cortado: interrupted"
