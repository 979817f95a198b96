"""Set-up where something is in the way: a busy package manager, no network, no rights, a second set-up at work."""

import os
import subprocess
from pathlib import Path

import pytest

from helpers.paths import ROOT

PACKAGES, ENVIRONMENT = ROOT / "tools" / "packages.sh", ROOT / "tools" / "environment.sh"
BUSY = "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 1 (apt-get)"
USED = ("sh", "env", "tr", "sort", "sed", "touch", "flock", "cat", "mkdir", "dirname", "date")


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """The only folder of PATH: an apt-get that says what a file tells it to, once for each line, then does its work."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in USED:
        found = next(path for top in ("/usr/bin", "/bin") if (path := Path(top, name)).exists())
        (folder / name).symlink_to(found)
    program(folder, "id", "echo ${FAKE_ID:-0}")
    program(folder, "sleep", "exit 0")
    program(
        folder,
        "apt-get",
        'echo "$@" >>calls\n[ -s says ] || { case $* in *install*) touch bin/wanted-tool;; esac; exit 0; }\n'
        "sed -n 1p says; sed -i 1d says; exit 100",
    )
    return folder


def program(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def packages(programs: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    given = words or ("wanted-tool:wanted,more", "other-tool:more", "sh:dash")
    return subprocess.run(
        ["/bin/sh", str(PACKAGES), *given],
        cwd=programs.parent,
        env={"PATH": str(programs), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_everything_that_is_missing_is_installed_at_once(programs: Path) -> None:
    done = packages(programs)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "not found: wanted-tool other-tool; installing more wanted\n"
    update, install = (programs.parent / "calls").read_text().splitlines()
    assert update.split()[-1] == "update"
    assert install.endswith("install -y --no-install-recommends more wanted")
    assert packages(programs, "sh:dash").stdout == "", "nothing is missing"


def test_a_busy_package_manager_is_waited_for(programs: Path) -> None:
    (programs.parent / "says").write_text(f"{BUSY}\n{BUSY}\n{BUSY}\n")
    done = packages(programs)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("in use by another program; waiting for it, up to 10 minutes") == 1
    calls = (programs.parent / "calls").read_text().splitlines()
    patience = [call.partition("DPkg::Lock::Timeout=")[2].split()[0] for call in calls]
    assert patience == ["0", "600", "600", "600", "600"], "it waits, and says nothing before"
    (programs.parent / "says").write_text(f"{BUSY}\n" * 400)
    done = packages(programs)
    assert done.returncode == 1, "it waits for ever"
    assert "Could not get lock" in done.stderr


def test_no_network_says_which_command_needs_it(programs: Path) -> None:
    (programs.parent / "says").write_text(
        "W: Failed to fetch x\nE: Failed to fetch x  Could not resolve 'deb.debian.org'\n"
    )
    done = packages(programs)
    assert done.returncode == 1
    assert "there is no network" in done.stderr
    assert "'apt-get install --no-install-recommends more wanted' needs both" in done.stderr


def test_without_rights_or_a_package_manager_the_packages_are_listed(programs: Path) -> None:
    done = packages(programs, FAKE_ID="1000")
    assert done.returncode == 1
    assert "not root, and there is no sudo" in done.stderr
    assert "then run make again: more wanted" in done.stderr
    assert "as root: apt-get install --no-install-recommends more wanted" in done.stderr
    program(programs, "sudo", 'echo sudo >>sudo-calls; exec "$@"')
    assert packages(programs, FAKE_ID="1000").returncode == 0
    assert (programs.parent / "sudo-calls").read_text()
    (programs / "apt-get").unlink()
    (programs / "wanted-tool").unlink()
    done = packages(programs)
    assert done.returncode == 1
    assert "there is no apt-get here" in done.stderr
    assert done.stderr.strip().endswith(": more wanted")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the files that set-up looks at, and a Python whose environments log what pip is asked for."""
    for name in ("requirements.txt", "requirements-dev.txt", "pyproject.toml"):
        (tmp_path / name).write_text("")
    program(
        tmp_path,
        "python",
        'case $* in *venv*) mkdir -p .venv/bin; cat "$0" >.venv/bin/python; chmod +x .venv/bin/python;;\n'
        '*pip*) sleep 0.5; echo "$@" >>pip; [ ! -e offline ];;\nesac',
    )
    return tmp_path


def environment(checkout: Path) -> "subprocess.Popen[str]":
    command = ["/bin/sh", str(ENVIRONMENT), "./python", ".venv", ".venv/.stamp"]
    return subprocess.Popen(command, cwd=checkout, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_of_two_set_ups_at_once_one_waits_and_has_nothing_to_do(checkout: Path) -> None:
    both = [environment(checkout) for _ in range(2)]
    said = sorted(one.communicate(timeout=60)[0] for one in both)
    assert [one.returncode for one in both] == [0, 0]
    assert said[0] == "another set-up is at work in this folder; waiting for it\n"
    assert len((checkout / "pip").read_text().splitlines()) == 2, "requirements and the package, each once"
    (checkout / "pyproject.toml").touch()
    os.utime(checkout / "pyproject.toml", (2e9, 2e9))
    again = environment(checkout)
    again.communicate(timeout=60)
    assert again.returncode == 0
    assert len((checkout / "pip").read_text().splitlines()) == 4, "what is out of date is made again"


def test_python_packages_that_cannot_be_had_are_told_with_the_command(checkout: Path) -> None:
    (checkout / "offline").touch()
    failed = environment(checkout)
    assert "This command needs the network" in failed.communicate(timeout=60)[1]
    assert failed.returncode == 1
    assert not (checkout / ".venv" / ".stamp").exists()
