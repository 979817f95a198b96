"""The command line when all goes well; inside this process where possible, for torch takes seconds to import."""

import importlib.metadata
import io
import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cortado
from cortado.artifact.manifest import REPORT
from cortado.artifact.opened import EXPECTED, REFERENCE, Artifact
from cortado.base.errors import CortadoError
from cortado.cli.arguments import IO, LINEAR, OPTIMIZE
from cortado.cli.entry import main, make_parser
from cortado.cli.tables import Progress
from cortado.frontend import models, zoo
from cortado.options import Border, LinearWeights, Optimize
from cortado.plan.lowered import npz_bytes
from cortado.run import doctor
from helpers.cli_page import commands, page
from helpers.golden import Golden
from helpers.paths import MODELS, TESTS

TINY = MODELS / "tiny.py"
TWO = MODELS / "two.py"
COMMANDS = [name for name, _ in commands(make_parser())]


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Done]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """`cortado ARGUMENTS` inside this process."""

    def call(*arguments: object) -> Done:
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as stopped:
            code = int(str(stopped.code))
        captured = capsys.readouterr()
        return Done(code, captured.out, captured.err)

    return call


def in_new_process(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=120)


# ---- help ---------------------------------------------------------------------------------------------------------


def test_help_takes_less_than_a_third_of_a_second() -> None:
    def cpu_seconds() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = in_new_process("-m", "cortado", "--help")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert done.returncode == 0
        assert all(name in done.stdout for name in COMMANDS)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(cpu_seconds() for _ in range(3)) < 0.3


def test_help_and_small_commands_do_not_import_torch() -> None:
    """Every --help, the tables, and mistakes that are seen before any work."""
    lines = [*([name, "--help"] for name in COMMANDS), ["targets"], ["doctor", "--json"], ["compile", "x", "-t", "y"]]
    text = f"""
import sys
from cortado.cli.entry import main
for line in {lines!r}:
    try:
        main(line)
    except SystemExit:
        pass
slow = {{"torch", "numpy", "executorch", "rich"}} & set(sys.modules)
sys.exit(f"imported {{slow}}" if slow else 0)
"""
    done = in_new_process("-c", text)
    assert done.returncode == 0, done.stderr


def test_every_command_says_what_it_does(run: Run) -> None:
    for name in COMMANDS:
        done = run(name, "--help")
        assert done.code == 0
        assert done.out.startswith(f"usage: cortado {name}")


def test_the_page_about_the_command_line_is_up_to_date(golden: Golden) -> None:
    golden(TESTS.parent / "docs" / "cli.md", page())


def test_choices_are_those_of_the_options() -> None:
    assert [item.value for item in Optimize] == list(OPTIMIZE)
    assert [item.value for item in Border] == list(IO)
    assert [item.value for item in LinearWeights] == list(LINEAR)


def test_version_and_console_script(run: Run) -> None:
    assert run("--version").out == f"cortado {cortado.__version__}\n"
    assert importlib.metadata.version("cortado") == cortado.__version__
    scripts = importlib.metadata.entry_points(group="console_scripts", name="cortado")
    assert [script.value for script in scripts] == ["cortado.cli:main"]


def test_no_command_is_a_mistake_that_shows_the_help(run: Run) -> None:
    done = run()
    assert (done.code, done.out) == (2, "")
    assert "compile a model for a target" in done.err


# ---- tables -------------------------------------------------------------------------------------------------------


def test_targets(run: Run) -> None:
    lines = run("targets").out.splitlines()
    assert lines[0].split() == ["TARGET", "ISA", "CAN", "HAVE", "EMULATED", "BOARD", "COMPILER", "FLAGS"]
    assert len(lines) == 1 + 12
    rows = run("targets", "--json").json
    assert [row["target"] for row in rows] == [line.split()[0] for line in lines[1:]]
    m33 = next(row for row in rows if row["target"] == "cortex-m33")
    assert (m33["isa"], m33["supported"], m33["board"]) == ("DSP", ["SCALAR", "DSP"], "mps2-an505")


def test_zoo(run: Run) -> None:
    rows = run("zoo", "--json").json
    assert [row["name"] for row in rows] == list(zoo.names())
    assert rows[0]["input_shapes"] == [[1, 1, 49, 10]]
    assert "2,656,768" in run("zoo").out


def test_ops(run: Run, golden: Golden) -> None:
    rows = {row["operator"]: row for row in run("ops", "--json").json}
    convolution = rows["cortex_m::quantized_conv2d_nhwc"]
    assert (convolution["pte"], convolution["c"]) == (True, True)
    lines = run("ops").out.splitlines()
    assert [line.split()[0] for line in lines] == ["OPERATOR", *rows]
    golden(TESTS.parent / "docs" / "operators.md", run("ops", "--markdown").out)


def test_doctor_finds_what_is_here(run: Run) -> None:
    done = run("doctor")
    assert done.code == 0, done.err
    assert "MISSING" not in done.out
    items = run("doctor", "--json").json
    assert {"name", "found", "version", "needed_for", "fix", "optional"} <= set(items[0])
    assert {"torch", "executorch", "cc", "arm-none-eabi-gcc", "qemu-system-arm", "newlib"} <= {i["name"] for i in items}


def test_doctor_says_how_to_install_what_is_not(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = run("doctor")
    assert done.code == 2
    for line in ("apt-get install qemu-system-arm", "apt-get install build-essential"):
        assert f"\n  {line}\n" in done.err + "\n"
    assert "clang-19" not in done.err  # optional
    assert "not installed, optional" in done.out


def test_doctor_sees_a_wrong_version(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "2.1.0" if name == "torch" else real(name))
    done = run("doctor")
    assert done.code == 2
    assert "2.1.0: WRONG VERSION" in done.out
    assert "pip install torch==2.13.0" in done.err


def test_doctor_knows_the_versions_of_the_requirements() -> None:
    lines = (TESTS.parent / "requirements.txt").read_text().split()
    assert {f"{package.name}=={package.pinned}" for package in doctor.PACKAGES} == set(lines)
    assert all(package.pinned.startswith(package.accepted) for package in doctor.PACKAGES)


def test_a_reader_that_goes_away_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as gone:
        command = [sys.executable, "-m", "cortado", "targets"]
        done = subprocess.run(command, stdout=gone, stderr=subprocess.PIPE, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


# ---- compile ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder whose name is as awkward as a folder's name gets; it is also the current one."""
    path = tmp_path_factory.mktemp('it\'s a "größe" $HOME; rm -rf *')
    before = Path.cwd()
    os.chdir(path)
    yield path
    os.chdir(before)


def compile_tiny(run: Run, *arguments: object) -> Done:
    return run("compile", TINY, "--calibration", f"{TINY}:calibration", *arguments)


@pytest.mark.host
def test_compile_and_run_are_json_on_standard_output(run: Run, folder: Path) -> None:
    done = compile_tiny(run, "-t", "cortex-m4", "-o", folder / "tiny out", "--json")
    assert done.code == 0, done.err
    assert done.json == json.loads((folder / "tiny out" / REPORT).read_text())
    assert done.json["calibration"] == {"data": f"{TINY}:calibration", "batches": 8}
    ran = run("run", folder / "tiny out", "--on", "host", "--json")
    assert ran.code == 0, ran.err
    assert len(ran.out.splitlines()) == 1
    assert set(ran.json) >= {"board", "target", "bit_exact", "instructions", "outputs"}
    assert (ran.json["board"], ran.json["target"], ran.json["bit_exact"]) == ("host", "cortex-m4", True)
    assert ran.json["instructions"] is None
    assert np.array(ran.json["outputs"]["output0"]).shape == (1, 3)


@pytest.mark.qemu
def test_run_on_the_targets_board(run: Run, tiny_artifact: Artifact) -> None:
    done = run("run", tiny_artifact.folder)
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0] == "tiny for cortex-m4 on mps2-an386"
    assert lines[1].startswith("top-1: class ")
    assert "bit-exact with the reference" in lines
    assert any(line.startswith("RAM ") and "of stack, flash " in line for line in lines)
    assert lines[-1].endswith("(exact; instructions are not cycles)")
    again = run("run", tiny_artifact.folder, "--on", "mps2-an386", "--json").json
    assert f"{again['instructions']:,} instructions" in lines[-1]


def test_compile_writes_a_summary_and_plain_progress(run: Run, folder: Path) -> None:
    done = compile_tiny(run, "-t", "cortex-m0plus", "-o", folder / "plain", "--intermediates", folder / "graphs")
    assert done.code == 0, done.err
    labels = [line.split("  ")[0].strip() or line.split()[0] for line in done.out.splitlines()]
    assert labels == ["model", "RAM", "flash", ".pte", "operators", "written to"] or "written to" in done.out
    assert "tiny for cortex-m0plus" in done.out
    phases = [line.split("] ")[1] for line in done.err.splitlines() if line.startswith("[")]
    assert phases[:3] == ["load", "export", "quantize"]
    assert phases[-1] == "write"
    assert sorted(path.name for path in (folder / "graphs").iterdir())[0] == "01-fold-qparams.txt"


def test_progress_on_a_terminal_is_a_status_line(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    progress = Progress()
    progress("quantize")
    progress.stop()
    assert progress.status.status == "quantize ..."
    assert " s] " not in terminal.getvalue()


def test_several_targets_from_one_calibration(run: Run, folder: Path) -> None:
    done = compile_tiny(run, "-t", "cortex-m4,cortex-m55+nomve,cortex-m4", "-o", folder / "several", "--json")
    assert done.code == 0, done.err
    assert [report["target"] for report in done.json] == ["cortex-m4", "cortex-m55+nomve"]
    for report in done.json:
        assert Artifact.open(folder / "several" / report["target"]).report == report
    assert done.err.count("quantize") == 1


@pytest.mark.host
def test_the_target_chooses_among_several(run: Run, tiny_artifact: Artifact, tmp_path: Path) -> None:
    shutil.copytree(tiny_artifact.folder, tmp_path / "cortex-m4")
    (tmp_path / "cortex-m55").mkdir()
    (tmp_path / "cortex-m55" / REPORT).touch()
    done = run("run", tmp_path, "--target", "cortex-m4", "--on", "host")
    assert (done.code, done.out.splitlines()[0]) == (0, "tiny for cortex-m4 on host"), done.err
    done = run("validate", tmp_path, "--target", "cortex-m4,cortex-m3")
    assert done.code == 2
    assert str(tmp_path / "cortex-m4") in done.err


@pytest.mark.qemu
def test_the_example_runs_without_torch(tiny_artifact: Artifact) -> None:
    """Loading torch takes longer than all the rest."""
    code = "import sys; from cortado.cli import main; assert main(sys.argv[1:]) == 0; assert 'torch' not in sys.modules"
    arguments = [sys.executable, "-c", code, "run", str(tiny_artifact.folder)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "bit-exact" in done.stdout


def test_a_recorded_result_that_does_not_fit_is_refused(tiny_artifact: Artifact, tmp_path: Path) -> None:
    folder = tmp_path / "other"
    shutil.copytree(tiny_artifact.folder, folder)
    (folder / EXPECTED).write_bytes(npz_bytes({"input0": np.zeros(3, np.int8), "output0": np.zeros(3, np.int8)}))
    with pytest.raises(CortadoError, match=r"expected\.npz doesn't fit the model; compile it again"):
        replace(tiny_artifact, folder=folder).run([tiny_artifact.example()], "host")


@pytest.mark.qemu
def test_a_model_for_any_core_runs_as_on_the_one_named(run: Run, tmp_path: Path) -> None:
    assert compile_tiny(run, "-t", "cortex-m", "-o", tmp_path / "any").code == 0
    for core, board in (("cortex-m0plus", "mps2-an385"), ("cortex-m55", "mps3-an547")):
        done = run("run", tmp_path / "any", "--target", core)
        assert done.code == 0, done.err
        assert f"for {core} on {board}" in done.out


def test_default_output_and_old_spellings(run: Run, folder: Path) -> None:
    arguments = ["-q", "--model_name", TINY, "--calibration_data", TINY, "--name", "My Model v1.2-b"]
    done = run("compile", *arguments, "--target", "cortex-m3")
    assert done.code == 0, done.err
    artifact = Artifact.open(folder / "build" / "My Model v1.2-b")
    assert artifact.report["model"] == "My Model v1.2-b"
    assert artifact.report["prefix"].isidentifier()


@pytest.mark.host
@pytest.mark.parametrize("options", [["--optimize", "ram"], ["--optimize", "time"], ["--io", "float"]], ids=" ".join)
def test_options_change_the_bundle_and_not_the_result(
    run: Run, tmp_path: Path, tiny_artifact: Artifact, options: list[str]
) -> None:
    np.save(tmp_path / "x.npy", tiny_artifact.example()[0])
    assert compile_tiny(run, "-t", "cortex-m4", *options, "-o", tmp_path / "out").code == 0
    results = []
    for folder in (tiny_artifact.folder, tmp_path / "out"):
        done = run("run", folder, "--on", "host", "--input", tmp_path / "x.npy", "--json")
        assert done.code == 0, done.err
        results.append(done.json["outputs"])
    assert results[0] == results[1]
    assert Artifact.open(tmp_path / "out").report["options"][options[0].removeprefix("--")] == options[1]


def test_random_calibration_is_marked(run: Run, folder: Path) -> None:
    done = run("compile", TINY, "--calibration", "random", "-t", "cortex-m3", "-o", folder / "random")
    assert done.code == 0, done.err
    assert "results are meaningless" in done.out
    assert Artifact.open(folder / "random").report["calibration"]["data"] == "random"


def test_what_a_users_file_prints_stays_out_of_the_json(run: Run, folder: Path) -> None:
    file = folder / "prints.py"
    file.write_text(f"import sys\nsys.path.insert(0, {str(MODELS)!r})\nprint('hello')\nfrom tiny import *\n")
    done = run("compile", file, "--calibration", file, "-t", "cortex-m3", "-o", folder / "prints", "--json")
    assert done.code == 0, done.err
    assert done.json["model"] == "prints"
    assert "hello" in done.err


# ---- two inputs, two outputs, files -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("two") / "artifact"
    arguments = ["compile", TWO, "--calibration", f"{TWO}:batches", "-t", "cortex-m4", "-o", path]
    assert main([str(argument) for argument in arguments]) == 0
    return path


@pytest.mark.host
def test_inputs_and_outputs_as_files(run: Run, two: Path, tmp_path: Path) -> None:
    module = models._import_file(TWO)
    vector, image = (tensor.numpy() for tensor in module.batches(6)[5])
    np.savez(tmp_path / "named.npz", image=image, vector=vector)
    np.savez(tmp_path / "ordered.npz", vector, image)
    results = []
    for name in ("named", "ordered"):
        output = tmp_path / f"{name}-out.npz"
        done = run("run", two, "--on", "host", "--input", tmp_path / f"{name}.npz", "--output", output)
        assert done.code == 0, done.err
        with np.load(output) as file:
            results.append({key: file[key] for key in file.files})
    assert list(results[0]) == ["output0", "output1"]
    assert "output output0: top-1: class " in done.out
    assert "output output1: [1, 3, 3, 5], " in done.out
    model = module.Two().eval()
    with torch.no_grad():
        expected = model(torch.from_numpy(vector), torch.from_numpy(image))
    for number, real in enumerate(expected):
        first, second = (result[f"output{number}"] for result in results)
        np.testing.assert_array_equal(first, second)
        assert first.dtype == np.float32
        assert first.shape == tuple(real.shape)
        scale = Artifact.open(two).report["outputs"][number]["scale"]
        # The model's own layout and its own numbers, up to quantization.
        np.testing.assert_allclose(first, real.numpy().clip(first.min(), first.max()), atol=4 * scale)


@pytest.mark.host
def test_codes_in_real_numbers_out(run: Run, tiny_artifact: Artifact, tmp_path: Path) -> None:
    codes = np.arange(36, dtype=np.int8).reshape(1, 1, 6, 6)
    np.save(tmp_path / "x.npy", np.asfortranarray(codes))
    done = run("run", tiny_artifact.folder, "--on=host", "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy")
    assert done.code == 0, done.err
    expected = tiny_artifact.reference([[codes]])[1][0][0]
    tensor = tiny_artifact.report["outputs"][0]
    scale = np.float32(tensor["scale"])
    real = (expected.astype(np.float32) - np.float32(tensor["zero_point"])) * scale
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), real)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.npy", "y.npy"]


@pytest.mark.host
def test_a_folder_can_be_moved_and_run_from_anywhere(
    run: Run, tiny_artifact: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(tiny_artifact.folder, tmp_path / "über all" / "moved model")
    monkeypatch.chdir(tmp_path / "über all")
    assert run("run", "moved model", "--on", "host").code == 0
    monkeypatch.chdir("moved model")
    assert run("run", ".", "--on", "host").code == 0


@pytest.mark.qemu
def test_a_wrong_result_is_exit_code_one(run: Run, tiny_artifact: Artifact, tmp_path: Path) -> None:
    """A bundle and a reference that disagree, with checksums to match: the comparison itself has to see it."""
    folder = tmp_path / "wrong"
    shutil.copytree(tiny_artifact.folder, folder)
    with np.load(folder / REFERENCE) as file:
        arrays = {name: file[name] for name in file.files}
    biases = [name for name in arrays if "bias" in name]
    assert biases
    np.savez(folder / REFERENCE, **{**arrays, **{name: arrays[name] + 1000 for name in biases}})
    np.save(tmp_path / "x.npy", tiny_artifact.example()[0] * 0.5)
    with np.load(folder / EXPECTED) as file:
        recorded = {name: file[name] for name in file.files}
    np.savez(folder / EXPECTED, **{**recorded, "output0": recorded["output0"] ^ 1})
    forge_checksums(folder)
    for arguments in ((), ("--input", tmp_path / "x.npy")):
        done = run("run", folder, "--json", *arguments)
        assert done.code == 1
        assert done.json["bit_exact"] is False
        assert done.err == "cortado: the output on mps2-an386 differs from the reference\n"
    assert "NOT bit-exact with the reference" in run("run", folder).out


def forge_checksums(folder: Path) -> None:
    import hashlib

    report = json.loads((folder / REPORT).read_text())
    for name in report["artifacts"]:
        report["artifacts"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    (folder / REPORT).write_text(json.dumps(report))


# ---- writing over -------------------------------------------------------------------------------------------------


def test_compiling_again_replaces_the_model_and_keeps_the_link(run: Run, folder: Path) -> None:
    """An older model's files must not stay."""
    place, link = folder / "again", folder / "link"
    assert compile_tiny(run, "-t", "cortex-m4", "-o", place, "--name", "older").code == 0
    link.symlink_to(place, target_is_directory=True)
    assert compile_tiny(run, "-t", "cortex-m3", "-o", link, "--name", "newer").code == 0
    assert link.is_symlink()
    found = {str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()}
    assert found == {REPORT, *Artifact.open(place).report["artifacts"]}
    assert not any(name.startswith("older") for name in found)
    hidden = [path.name for path in (*place.iterdir(), *folder.iterdir()) if path.name.startswith(".")]
    assert hidden == []


def test_an_empty_folder_may_be_written_to(run: Run, folder: Path) -> None:
    (folder / "empty").mkdir()
    assert compile_tiny(run, "-t", "cortex-m3", "-o", folder / "empty").code == 0
    Artifact.open(folder / "empty")


# ---- the user's models --------------------------------------------------------------------------------------------


def same(source: models.Source, name: str) -> None:
    """It is the tiny network, with its example."""
    module = models._import_file(TINY)
    x = module.sample(3)
    assert source.name == name
    assert len(source.example_inputs) == 1
    torch.testing.assert_close(source.example_inputs[0], module.sample(0), rtol=0, atol=0)
    assert not source.model.training
    with torch.no_grad():
        torch.testing.assert_close(source.model(x), module.Tiny()(x))


def test_a_python_file() -> None:
    same(models.load_model(str(TINY)), "tiny")


def test_a_function_of_a_python_file() -> None:
    same(models.load_model(f"{TINY}:make"), "tiny_make")


def test_a_file_in_a_folder_with_a_colon(tmp_path: Path) -> None:
    (tmp_path / "a:b").mkdir()
    place = shutil.copy(TINY, tmp_path / "a:b" / "my file.py")
    same(models.load_model(str(place)), "my file")
    same(models.load_model(f"{place}:make"), "my file_make")


def test_a_class_is_instantiated() -> None:
    source = models.load_model(str(TWO))
    assert type(source.model).__name__ == "Two"
    assert [tuple(x.shape) for x in source.example_inputs] == [(1, 6), (1, 2, 5, 7)]


def test_a_package_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "netz_paket"
    package.mkdir()
    (package / "__init__.py").touch()
    shutil.copy(TINY, package / "nets.py")
    monkeypatch.chdir(tmp_path)
    same(models.load_model("netz_paket.nets:make"), "nets_make")


def test_an_exported_program(tmp_path: Path, run: Run) -> None:
    """Trained models are often saved in training mode: dropout and batch norm have to become those of inference."""
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.Dropout(0.5), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers)
    with torch.no_grad():
        for _ in range(20):
            model(torch.randn(4, 1, 6, 6))
    example = (torch.randn(1, 1, 6, 6),)
    torch.export.save(torch.export.export(model.train(), example), tmp_path / "my-net.v2.pt2")
    source = models.load_model(str(tmp_path / "my-net.v2.pt2"))
    assert source.name == "my-net.v2"
    model.eval()
    with torch.no_grad():
        torch.testing.assert_close(source.model(*example), model(*example))
    done = run("compile", tmp_path / "my-net.v2.pt2", "--calibration", "random", "-o", tmp_path / "out")
    assert done.code == 0, done.err
    assert "only open files you trust" in done.err


def test_every_zoo_name_is_a_model() -> None:
    source = models.load_model("ds_cnn")
    assert source.labels == zoo.get("ds_cnn").labels
    assert source.calibration is not None
    assert len(models.load_calibration(None, source)) == models.CALIBRATION_COUNT


# ---- calibration data ---------------------------------------------------------------------------------------------


def equal(found: list[models.Inputs], expected: list[models.Inputs]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        for a, b in zip(one, other, strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=0)


def test_calibration_files(tmp_path: Path) -> None:
    """One input per file, or many along the first dimension; one array for each input of the model."""
    source = models.load_model(str(TWO))
    batches = models._import_file(TWO).batches()
    vectors, images = (torch.cat(column) for column in zip(*batches, strict=True))
    np.savez(tmp_path / "all.npz", vectors.numpy(), images.numpy())
    torch.save([vectors, images], tmp_path / "all.pt")
    for name in ("all.npz", "all.pt"):
        equal(models.load_calibration(str(tmp_path / name), source), batches)
    equal(models.load_calibration(f"{TWO}:batches", source), batches)
    (tmp_path / "folder").mkdir()
    for number, (vector, image) in enumerate(batches):
        np.savez(tmp_path / "folder" / f"{number}.npz", vector.numpy(), image.numpy())
    (tmp_path / "folder" / "README.txt").write_text("not data")
    equal(models.load_calibration(str(tmp_path / "folder"), source), batches)


def test_calibration_from_npy(tmp_path: Path) -> None:
    source = models.load_model(str(TINY))
    batches = models._import_file(TINY).calibration()
    stacked = torch.cat([batch[0] for batch in batches]).numpy()
    np.save(tmp_path / "many.npy", np.asfortranarray(stacked))
    equal(models.load_calibration(str(tmp_path / "many.npy"), source), batches)
    np.save(tmp_path / "one.npy", stacked[:1].astype(">f4"))
    equal(models.load_calibration(str(tmp_path / "one.npy"), source), batches[:1])


def test_random_calibration_is_the_same_every_time() -> None:
    source = models.load_model(str(TWO))
    first, second = (models.load_calibration("random", source) for _ in range(2))
    equal(first, second)
    assert len({batch[0].numpy().tobytes() for batch in first}) == len(first) == models.CALIBRATION_COUNT
    assert all(bool((x.abs() <= 1).all()) for batch in first for x in batch)


# ---- inspect and plan ---------------------------------------------------------------------------------------------


def test_inspect(run: Run, tiny_artifact: Artifact) -> None:
    file = tiny_artifact.folder / "tiny.pte"
    done = run("inspect", file, "--target", "cortex-m4")
    assert done.code == 0, done.err
    assert "cortex_m::quantized_conv2d_nhwc.out" in done.out
    assert run("inspect", file, "--json").json["metadata"]["target"] == "cortex-m4"
    wrong = run("inspect", file, "-t", "cortex-m55")
    assert wrong.code == 2
    assert "was compiled for cortex-m4, expected cortex-m55" in wrong.err


def test_plan(run: Run, tmp_path: Path) -> None:
    from cortado.memory.csv import write_csv
    from cortado.memory.problem import Buffer, Problem

    problem = Problem((Buffer("a", 100, (0, 0), (2, 0), 16), Buffer("b", 50, (1, 0), (3, 0), 16)))
    (tmp_path / "p.csv").write_text(write_csv(problem))
    assert all(column in run("plan", "--help").out for column in ("lower_stage", "upper_pos", "size", "overlay_of"))
    done = run("plan", tmp_path / "p.csv")
    assert done.code == 0, done.err
    assert "peak 162 bytes (proven minimal), 2 buffers" in done.err
    assert run("plan", tmp_path / "p.csv", "-o", tmp_path / "plan.csv").out == ""
    assert (tmp_path / "plan.csv").read_text() == done.out
