"""A model's folder: written whole or not at all, whenever the process is killed; one writer at a time."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from cortado.artifact.folder import locked, write_file, write_folder
from cortado.artifact.opened import REFERENCE, Artifact
from cortado.artifact.report import Report
from cortado.base.errors import CortadoError

Parts = tuple[dict[str, str | bytes], Report]
Make = Callable[[str], Parts]


@pytest.fixture
def parts(tiny_artifact: Artifact) -> Make:
    """The files and the report of a model; `mark` tells two of them apart, and each has a file that the other lacks."""

    def make(mark: str) -> Parts:
        names = (REFERENCE, "README.md")
        files: dict[str, str | bytes] = {name: (tiny_artifact.folder / name).read_bytes() for name in names}
        report = replace(tiny_artifact.report, notes=(mark,))
        return {**files, f"kernels/{mark}.txt": mark}, report

    return make


def mark_of(folder: Path) -> str:
    """Which model a folder holds, whole."""
    artifact = Artifact.open(folder)
    (mark,) = artifact.report.notes
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert found == {*artifact.report.artifacts, "report.json"}
    return mark


def kill_at(event: int, work: Callable[[], None]) -> bool:
    """Does the work in another process that is killed at its n-th call that touches files; whether it was."""
    child = os.fork()
    if child == 0:
        left = event

        def watch(name: str, arguments: object) -> None:
            nonlocal left
            if name == "open" or (name.startswith(("os.", "shutil.", "fcntl.")) and name != "os.kill"):
                left -= 1
                if left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(watch)
        try:
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


@pytest.mark.parametrize(
    "exchange",
    [pytest.param(True, id="exchanged"), pytest.param(False, id="one after the other", marks=pytest.mark.slow)],
)
def test_a_killed_write_leaves_the_old_model_or_the_new_one(
    tmp_path: Path, parts: Make, monkeypatch: pytest.MonkeyPatch, exchange: bool
) -> None:
    if not exchange:  # a system without renameat2
        monkeypatch.setattr("ctypes.CDLL", lambda *given, **more: object())
    place = tmp_path / "model"
    found, event = [], 0
    while True:
        shutil.rmtree(place, ignore_errors=True)
        write_folder(place, *parts("old"))
        killed = kill_at(event, lambda: write_folder(place, *parts("new")))
        with locked(place):  # the next compile
            found.append(mark_of(place))
        write_folder(place, *parts("next"))
        assert mark_of(place) == "next"
        assert [path.name for path in tmp_path.iterdir()] == ["model"], "litter"
        if not killed:
            break
        event += 1
    assert event > 30
    assert found == sorted(found, reverse=True), "the old model until one moment, the new one from then on"
    assert {"old", "new"} == set(found)


def test_a_killed_write_into_the_current_directory_does_not_block_the_next(
    tmp_path: Path, parts: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "model"
    place.mkdir()
    monkeypatch.chdir(place)
    event = 0
    while True:
        write_folder(Path(), *parts("old"))
        killed = kill_at(event, lambda: write_folder(Path(), *parts("new")))
        write_folder(Path(), *parts("next"))
        assert mark_of(place) == "next"
        assert Path.cwd().samefile(place)
        if not killed:
            break
        event += 5
    assert event > 30


def test_a_folder_keeps_its_mode_and_a_link_to_it_stays(tmp_path: Path, parts: Make) -> None:
    place, link = tmp_path / "model", tmp_path / "link"
    write_folder(place, *parts("old"))
    place.chmod(0o750)
    link.symlink_to(place)
    write_folder(link, *parts("new"))
    assert (mark_of(place), link.is_symlink(), place.stat().st_mode & 0o777) == ("new", True, 0o750)


def test_a_failed_write_leaves_nothing(tmp_path: Path, parts: Make) -> None:
    files, report = parts("new")
    with pytest.raises(TypeError):
        write_folder(tmp_path / "deep" / "model", {**files, "late": 5}, report)  # type: ignore[dict-item]
    assert list(tmp_path.iterdir()) == []


WRITER = """
import sys, time
from pathlib import Path
from cortado.artifact.folder import locked
with locked(Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(60)
"""


def test_two_writers_of_one_folder_one_wins_and_the_other_says_so(tmp_path: Path, parts: Make) -> None:
    place = tmp_path / "model"
    write_folder(place, *parts("old"))
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(place)], stdout=subprocess.PIPE, text=True)
    with writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "locked\n"
        with pytest.raises(CortadoError, match=r"another process is writing a model to .*model; wait for it"):
            write_folder(place, *parts("new"))
        assert mark_of(place) == "old"
        write_folder(tmp_path / "other", *parts("new"))  # a neighbour is free
        writer.kill()
    write_folder(place, *parts("new"))  # the lock died with its holder
    assert mark_of(place) == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "other"]


def test_many_writers_at_once_leave_one_whole_model(tmp_path: Path, parts: Make) -> None:
    place = tmp_path / "model"
    children = []
    for number in range(8):
        child = os.fork()
        if child == 0:
            code = 0
            for turn in range(5):
                try:
                    write_folder(place, *parts(f"model{number}{turn}"))
                except CortadoError as error:
                    code = code if "another process is writing" in str(error) else 1
                time.sleep(0.001)
            os._exit(code)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 8
    assert mark_of(place).startswith("model")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_file_that_is_written_leaves_links_and_pipes_what_they_are(tmp_path: Path) -> None:
    """`--html /dev/stdout`, typed by root, must not put a file in the device's place."""
    link, pipe = tmp_path / "latest.html", tmp_path / "pipe"
    link.symlink_to("page.html")
    write_file(link, b"a page")
    assert link.is_symlink()
    assert (tmp_path / "page.html").read_bytes() == b"a page"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as reader:
        found = reader.submit(pipe.read_bytes)
        write_file(pipe, b"another")
        assert found.result(timeout=1800) == b"another"
    assert pipe.is_fifo()


def test_a_full_disk_asks_for_room() -> None:
    with pytest.raises(CortadoError, match="can't write /dev/full: No space left on device; make room there"):
        write_file(Path("/dev/full"), b"a page")
    assert Path("/dev/full").is_char_device()
