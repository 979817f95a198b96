"""Mistakes a user can make with `cortado compile`: one clear sentence, exit code 2."""

import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cortado.artifact.manifest import REPORT
from cortado.base.chips import Bank, find_chip
from cortado.base.errors import CortadoError
from cortado.models import sources as models
from cortado.run import toolchain
from helpers.cli import TINY, TWO, Run, compile_tiny, one_sentence, refused
from helpers.paths import MODELS

pytestmark = pytest.mark.usefixtures("here")

UNSUPPORTED = MODELS / "unsupported.py"


# ---- what to compile ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("ds_cn", "the zoo has no network called 'ds_cn'. Did you mean 'ds_cnn'?"),
        ("DS-CNN", "Did you mean 'ds_cnn'?"),
        ("resnet", "Did you mean 'resnet8'?"),
        ("", "'' is not a model that Cortado can compile; expected a name"),
        ("no such; rm -rf *", "the zoo has no network called 'no such; rm -rf *'. It has: ds_cnn"),
        ("größe", "the zoo has no network called 'größe'"),
        ("missing.py", "there is no file missing.py"),
        ("missing.py:make", "there is no file missing.py"),
        ("missing.pt2", "there is no file missing.pt2"),
        ("folder/model.tflite", "'folder/model.tflite' is not a model that Cortado can compile; expected a name"),
        ("no.such.module:make", "importing 'no.such.module' failed: ModuleNotFoundError"),
        ("not a module:make", "'not a module:make' does not name a model; expected a name of the zoo"),
        ("json:dumps", "json:dumps must take no arguments"),
        ("json:nothing", "json defines no 'nothing'"),
        (f"{TINY}:nothing", "tiny.py defines no 'nothing'"),
        (f"{TINY}:", "tiny.py defines no ''"),
        (f"{TINY}:sample", "sample must take no arguments"),
        (f"{TINY}:Tiny", "must return (model, example_inputs), found Tiny"),
        (f"{TINY}:calibration", "must return (model, example_inputs), found list"),
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
    one_sentence(run("compile", "net.pth"), "holds weights but no model; write a file.py whose function loads it")


def test_a_damaged_exported_program(run: Run, here: Path) -> None:
    (here / "net.pt2").write_bytes(b"PK\x03\x04 and then nothing of use")
    refused_text = run("compile", "net.pt2", "--calibration", "random").err.splitlines()
    assert refused_text[-1].startswith("cortado: net.pt2 is not a readable exported program: ")
    assert not any("Traceback" in line for line in refused_text)


def test_keyword_arguments_of_an_exported_program(run: Run, here: Path) -> None:
    program = torch.export.export(torch.nn.ReLU(), (), {"input": torch.zeros(1, 3)})
    torch.export.save(program, here / "net.pt2")
    done = run("compile", "net.pt2", "--calibration", "random")
    assert done.code == 2
    assert "takes keyword arguments ['input']; export it with positional ones only" in done.err


def test_an_unsupported_operator_is_named_with_its_line_and_reason(run: Run, here: Path) -> None:
    """The node, the line in the user's own file, and why."""
    number = next(i for i, line in enumerate(UNSUPPORTED.read_text().splitlines(), 1) if "cumprod" in line)
    done = run("compile", UNSUPPORTED, "--calibration", "random", "-t", "cortex-m4", "-o", "out")
    refused(done, "aten.cumprod.default", f"{UNSUPPORTED}:{number}", "(return torch.cumprod(self.linear(x), 1))")
    assert re.search(r"cumprod.*\): \S.*", done.err), "no reason behind the node"
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
        (["--chip", "stm32l4r"], "unknown chip 'stm32l4r'; nearest: stm32l4r5, "),
        (["--chip", "pico", "-t", "cortex-m4"], "pico has a cortex-m0plus, the target is cortex-m4; leave one of"),
        (
            ["-m", "resnet8"],
            "two models, ds_cnn and resnet8: name one, or combine them into one program with --together DIR",
        ),
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


def test_a_chip_that_is_too_small(run: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(find_chip("pico"), name="grain", banks=(Bank("SRAM", 0),), flash_kilobytes=1)
    monkeypatch.setattr("cortado.base.chips.CHIPS", {"grain": small})
    refused(compile_tiny(run, "--chip", "grain", "-o", "out"), "grain has 0 bytes of RAM in one piece")
    refused(compile_tiny(run, "--chip", "grain", "--ram-budget", "9K", "-o", "out"), "grain has 1,024 bytes of flash")
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
    np.save(folder / "last.npy", np.zeros((4, 6, 6, 1), np.float32))
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
        ("shape.npy", "has shape [1, 6, 6], expected [1, 1, 6, 6]; a file of N samples has [N, 1, 6, 6]"),
        ("last.npy", "expected [1, 1, 6, 6]; if its channels come last, move them: numpy.moveaxis(samples, -1, 1)"),
        ("integer.npy", "calibration batch 0 has dtype torch.int64, expected torch.float32: prepare calibration data"),
        ("rnadom", "there is no file rnadom. Did you mean 'random'?"),
        (
            "data.txt",
            "data.txt is not calibration data; expected a .npy, .npz, .pt file, a folder of them, file.py:fun",
        ),
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
            "functions.py:nothing() must return a list of inputs, each a tuple of tensors; found NoneType",
        ),
        ("functions.py:tensor", "each a tuple of tensors; found Tensor"),
        ("functions.py:numbers", "each a tensor or a tuple of tensors; item 0 is or holds a "),
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
