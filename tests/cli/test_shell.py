"""What shells and programs see: completion, errors as JSON, a disk that is full, names of classes."""

import json
import resource
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from cortado.artifact.opened import Artifact
from cortado.cli.commands import SHELLS, actions_of
from cortado.cli.entry import make_parser
from cortado.models import zoo
from helpers.cli import Run, compile_tiny, one_sentence

PROBLEM = "id,lower,upper,size\na,0,2,16\nb,1,3,16\n"


# ---- completion ----------------------------------------------------------------------------------------------------


def offered(script: str, line: str, folder: Path) -> list[str]:
    """What bash offers at the end of a line; a space there begins a new word."""
    words = [*shlex.split(line), *([""] if line.endswith(" ") else [])]
    program = "\n".join(
        [
            script,
            f"COMP_WORDS=({' '.join(map(shlex.quote, words))})",
            f"COMP_CWORD={len(words) - 1}",
            "$(complete -p cortado | sed 's/.*-F \\([^ ]*\\).*/\\1/')",
            'printf "%s\\n" "${COMPREPLY[@]}"',
        ]
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", program], cwd=folder, capture_output=True, text=True, check=False, timeout=1800
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_offers_commands_options_and_values(run: Run, tmp_path: Path) -> None:
    (tmp_path / "model.py").touch()
    (tmp_path / "problem.csv").touch()
    script = run("completion", "bash").out
    assert offered(script, "cortado comp", tmp_path) == ["compile", "compare", "completion"]
    assert set(offered(script, "cortado ", tmp_path)) >= {"compile", "run", "doctor"}
    assert offered(script, "cortado compile ds", tmp_path) == ["ds_cnn"]
    assert offered(script, "cortado compile mod", tmp_path) == ["model.py"]
    assert set(offered(script, "cortado compile ", tmp_path)) == {*zoo.names(), "model.py", "problem.csv"}
    assert offered(script, "cortado compile ds_cnn --calibration-m", tmp_path) == ["--calibration-method"]
    assert offered(script, "cortado compile ds_cnn --artifacts ", tmp_path) == ["c", "pte", "both"]
    assert offered(script, "cortado compile ds_cnn -t cortex-m5", tmp_path) == ["cortex-m52", "cortex-m55"]
    assert offered(script, "cortado compile ds_cnn --chip stm32l4r", tmp_path) == ["stm32l4r5"]
    assert "executorch" in offered(script, "cortado run build --on ", tmp_path)
    assert offered(script, "cortado plan pro", tmp_path) == ["problem.csv"]
    assert offered(script, "cortado compile ds_cnn --package p", tmp_path) == ["platformio", "pico"]
    assert offered(script, "cortado completion ", tmp_path) == ["bash", "zsh", "fish"]
    assert offered(script, "cortado targets ", tmp_path) == []


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_knows_every_command_and_option(run: Run, shell: str) -> None:
    text = run("completion", shell).out
    for name in (name for action in actions_of(make_parser()) for name in action.option_strings):
        assert (name if shell != "fish" else name.lstrip("-")) in text
    assert all(name in text for name in ("compile", "estimate", *zoo.names()))


# ---- errors for programs -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("compile", "nothing.py", "--json"), "nothing.py"),
        (("compile", "--json"), "no model: name one"),
        (("run", "nowhere", "--json"), "nowhere is not a folder"),
        (("compile", "ds_cnn", "--optimize", "size", "--json"), "argument --optimize: invalid choice: 'size'"),
    ],
)
def test_an_error_is_json_where_json_was_asked_for(
    run: Run, here: Path, arguments: tuple[str, ...], message: str
) -> None:
    done = run(*arguments)
    error = done.json["error"]
    assert done.code == error["exit_code"] == 2
    assert error["kind"] == "CortadoError"
    assert message in error["message"]
    assert f"cortado: {error['message']}" in done.err


@pytest.mark.host
def test_a_result_that_is_wrong_is_printed_once(
    run: Run, tiny_artifact: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cortado.artifact.checked import Checked

    monkeypatch.setattr(Checked, "right", False)
    done = run("run", tiny_artifact.folder, "--on", "host", "--json")
    assert done.code == 1
    assert "outputs" in json.loads(done.out)  # one value, and not an error behind it


# ---- a machine that can't ------------------------------------------------------------------------------------------


def test_a_full_disk_is_no_mistake_of_cortado(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "cortado", "targets"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    assert done.stderr == "cortado: No space left on device; make room there and run this again\n"


def test_a_file_that_may_not_be_so_large_is_named(tmp_path: Path) -> None:
    problem = tmp_path / "problem.csv"
    problem.write_text(PROBLEM)
    done = subprocess.run(
        [sys.executable, "-m", "cortado", "plan", str(problem), "-o", str(tmp_path / "plan.csv")],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8, 8)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert "File too large" in done.stderr.splitlines()[-1]
    assert [path.name for path in tmp_path.iterdir()] == ["problem.csv"]


# ---- names of classes ----------------------------------------------------------------------------------------------


def test_classes_may_be_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("left\nright\nup\n\n")
    for given in ("left, right,up", str(tmp_path / "names.txt")):
        folder = tmp_path / "out"
        done = compile_tiny(run, "--labels", given, "--artifacts", "c", "-t", "cortex-m4", "-o", folder)
        assert done.code == 0, done.err
        assert Artifact.open(folder).report.labels == ("left", "right", "up")


@pytest.mark.parametrize(
    ("given", "message"), [("a,,b", "found an empty name"), ("none.txt", "can't read the labels in none.txt")]
)
def test_names_that_are_none_are_refused(run: Run, here: Path, given: str, message: str) -> None:
    one_sentence(compile_tiny(run, "--labels", given), message)
