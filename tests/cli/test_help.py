"""Help, tables and doctor: no torch for what doesn't need it."""

import importlib.metadata
import os
import platform
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import cortado
from cortado.base import versions
from cortado.base.errors import CortadoError
from cortado.base.versions import PACKAGES, Verdict, newer_than_tested
from cortado.cli.entry import make_parser
from cortado.models import zoo
from cortado.run import confined, doctor
from helpers.cli import Run, in_new_process
from helpers.cli_page import commands, page
from helpers.golden import Golden
from helpers.paths import ROOT

COMMANDS = [name for name, _ in commands(make_parser())]


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
    lines = [
        *([name, "--help"] for name in COMMANDS),
        ["targets"],
        ["chips"],
        ["doctor", "--json"],
        ["compile", "x", "-t", "y"],
    ]
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
    golden(ROOT / "docs" / "cli.md", page())


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


def test_chips(run: Run) -> None:
    lines = run("chips").out.splitlines()
    assert lines[0].split()[:6] == ["CHIP", "CORE", "ISA", "CLOCK", "RAM", "FLASH"]
    rows = run("chips", "--json").json
    assert [row["chip"] for row in rows] == [line.split()[0] for line in lines[1:]]
    pico = next(row for row in rows if row["chip"] == "rp2040")
    assert (pico["target"], pico["clock_hz"], pico["ram_bytes"]) == ("cortex-m0plus", 133_000_000, 270_336)
    assert pico["flash_bytes"] is None


def test_zoo(run: Run) -> None:
    rows = run("zoo", "--json").json
    assert [row["name"] for row in rows] == list(zoo.names())
    assert rows[0]["input_shapes"] == [[1, 1, 49, 10]]
    by_name = {row["name"]: row for row in rows}
    assert by_name["ecg_conv1d"]["trained"]
    assert 0.97 < by_name["ecg_conv1d"]["accuracy"] <= 1
    assert 0.97 < by_name["ecg_conv1d"]["float_accuracy"] <= 1
    assert {(row["float_accuracy"], row["accuracy"]) for row in rows if not row["trained"]} == {(None, None)}
    lines = {line.split()[0]: line for line in run("zoo").out.splitlines()}
    assert "2,656,768" in lines["ds_cnn"]
    assert "trained, AUC 0." in lines["deep_autoencoder"]
    assert all((" random " in lines[name]) != (" trained, " in lines[name]) for name in zoo.names())
    assert " random " in lines["mobilenet_v2"]


def test_ops(run: Run, golden: Golden) -> None:
    rows = {row["operator"]: row for row in run("ops", "--json").json}
    convolution = rows["cortex_m::quantized_conv2d_nhwc"]
    assert (convolution["pte"], convolution["c"]) == (True, True)
    lines = run("ops").out.splitlines()
    assert [line.split()[0] for line in lines] == ["OPERATOR", *rows]
    golden(ROOT / "docs" / "operators.md", run("ops", "--markdown").out)


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
    real = versions.installed
    monkeypatch.setattr(versions, "installed", lambda name: "2.1.0" if name == "torch" else real(name))
    done = run("doctor")
    assert done.code == 2
    assert "not supported, expected 2.11 to 2.15: pip install 'cortado[compile]'" in done.out
    assert "pip install 'cortado[compile]'" in done.err


def test_doctor_shows_versions_found_and_tested_and_what_follows(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the pinned version, of another that will do, of one that won't, and of one that is not there."""
    others = {"numpy": "2.3.1", "torchao": "0.3.0", "executorch": None}
    real = versions.installed
    monkeypatch.setattr(versions, "installed", lambda name: others.get(name, real(name)))
    items = {item["name"]: item for item in run("doctor", "--json").json[: len(doctor.check())]}
    assert (items["torch"]["tested"], items["torch"]["follows"]) == ("2.13.0", "as tested")
    assert items["numpy"]["follows"] == "tested too (2)"
    assert items["numpy"]["found"]
    assert items["torchao"]["follows"] == "not supported, expected 0.17 to 0.18: pip install 'cortado[compile]'"
    assert not items["torchao"]["found"]
    missing = "missing for writing and running .pte files: pip install 'cortado[executorch]'"
    assert items["executorch"]["follows"] == missing
    header = run("doctor").out.splitlines()[0]
    assert header.split("  ")[-1].strip() == "WHAT FOLLOWS"


@pytest.mark.parametrize(
    ("package", "version", "follows"),
    [
        ("python", "3.11.7", "as tested"),
        ("python", "3.13.0", "tested too (3.11 to 3.13)"),
        ("python", "3.14.2", "should work, and is newer than any tested version (3.11 to 3.13)"),
        ("python", "3.10.4", "not supported, expected 3.11 to 3.13: install Python 3.11 to 3.13"),
        ("torch", "2.15.0+cu130", "tested too (2.11 to 2.15)"),
        ("torch", "2.16.0", "should work, and is newer than any tested version (2.11 to 2.15)"),
    ],
)
def test_doctor_says_what_follows_from_a_version(
    run: Run, monkeypatch: pytest.MonkeyPatch, package: str, version: str, follows: str
) -> None:
    real = versions.installed
    monkeypatch.setattr(versions, "installed", lambda name: version if name == package else real(name))
    if package == "python":
        monkeypatch.setattr(platform, "python_version", lambda: version)
    items = {item["name"]: item for item in run("doctor", "--json").json}
    assert items[package]["follows"] == follows
    assert items[package]["found"] == (not follows.startswith("not supported"))


@pytest.mark.parametrize(
    ("said", "tested", "same"),
    [
        ("arm-none-eabi-gcc (15:12.2.rel1-1) 12.2.1 20221205", "12.2", True),
        ("arm-none-eabi-gcc (Arm GNU Toolchain 13.3.Rel1) 13.3.1", "12.2", False),
        ("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)", "7.2", True),
        ("QEMU emulator version 10.0.2", "7.2", False),
        ("Debian clang version 19.1.7 (3)", "19.1", True),
        ("2.13.0+cpu", "2.13.0", True),
        ("2.130.0", "2.13", False),
        ("no number", "1.0", False),
    ],
)
def test_versions_are_found_in_a_programs_own_words(said: str, tested: str, same: bool) -> None:
    assert doctor._same(said, tested) is same


def test_the_means_of_confinement_is_shown(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def shown() -> dict[str, object]:
        return next(item for item in run("doctor", "--json").json if item["name"] == "confinement")

    assert shown()["version"] in [means.value for means in confined.Confinement]
    monkeypatch.setattr(confined, "confinement", lambda: None)
    assert (
        shown()["follows"]
        == "missing for compiling the C of folders from other installations: apt-get install bubblewrap"
    )


def test_doctor_knows_the_versions_of_the_requirements() -> None:
    lines = (ROOT / "requirements.txt").read_text().split()
    assert {f"{package.name}=={package.pinned}" for package in PACKAGES} == set(lines)
    assert all(package.verdict(package.pinned) is Verdict.TESTED for package in PACKAGES)


def test_a_reader_that_goes_away_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as gone:
        command = [sys.executable, "-m", "cortado", "targets"]
        done = subprocess.run(command, stdout=gone, stderr=subprocess.PIPE, text=True, timeout=1800)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_options_of_compile_stand_in_groups() -> None:
    """The everyday ones first; none is left over but --help and --json."""
    text = dict(commands(make_parser()))["compile"].format_help()
    titles = re.findall(r"^(\w[\w ]+):$", text, re.MULTILINE)
    first, *groups = titles
    assert first == "options"
    assert groups[:2] == ["what to compile", "target"]
    assert {"calibration", "precision", "inputs and outputs", "memory", "what to write"} <= set(groups)
    ungrouped = text.split("\noptions:\n")[1].split("\n\n")[0]
    assert set(re.findall(r"--[\w-]+", ungrouped)) == {"--help", "--json"}


def test_a_torch_that_is_too_old_is_told_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "installed", lambda name: "2.10.1" if name == "torch" else "0.18.0")
    with pytest.raises(CortadoError, match=r"torch 2\.10\.1 is too old: Cortado is tested with 2\.11 to 2\.15"):
        newer_than_tested()


def test_a_torch_that_is_newer_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "installed", lambda name: "2.16.0" if name == "torch" else "0.18.0")
    assert newer_than_tested() == "torch 2.16.0 is newer than any that Cortado is tested with (2.11 to 2.15)"
    monkeypatch.undo()
    assert newer_than_tested() is None


def test_a_warning_is_a_line_without_a_place() -> None:
    lines = [
        "import atexit, sys, warnings",
        "from cortado.base.errors import CortadoWarning",
        "from cortado.cli.entry import main",
        "atexit.register(warnings.warn, 'anything else', UserWarning)",
        "atexit.register(warnings.warn, 'torch 9 is newer', CortadoWarning)",
        "sys.argv = ['cortado', 'targets']",
        "main()",
    ]
    told = in_new_process("-c", "\n".join(lines)).stderr.splitlines()
    assert told[0] == "warning: torch 9 is newer"
    assert "UserWarning: anything else" in told[1]
