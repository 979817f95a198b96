"""`cortado sweep`: rows with figures or reasons, candidates that crash or hang, known rows, and a real Dask cluster."""

import csv
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from cortado.base.errors import CortadoError
from cortado.models.sources import Source
from cortado.sweep import work
from cortado.sweep.isolated import Child, Ended, close_all
from cortado.sweep.page import build_page
from cortado.sweep.rows import Status, SweepRow, Task, pareto
from cortado.sweep.run import sweep
from cortado.sweep.spec import SweepTarget, read_spec

CANDIDATES = """
import ctypes, time
import torch
from torch import nn

def linear():
    return nn.Linear(4, 2), (torch.ones(1, 4),)

def raises():
    raise ValueError("no such width")

def refused():
    class Complex(nn.Module):
        def forward(self, x):
            return torch.fft.fft(x).real
    return Complex(), (torch.ones(1, 8),)

def crashes():
    print("this is no answer")
    ctypes.string_at(0)

def hangs():
    while True:
        time.sleep(1)

def candidates():
    return {"linear": linear, "raises": raises, "refused": refused, "crashes": crashes, "hangs": hangs}

def fine():
    return [("one", linear), ("two", lambda: (nn.Linear(8, 3), (torch.ones(1, 8),)))]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "nets.py").write_text(CANDIDATES)
    return tmp_path


@pytest.fixture(autouse=True)
def no_children() -> Iterator[None]:
    yield
    close_all()


def spec_file(folder: Path, text: str) -> Path:
    path = folder / "spec.toml"
    path.write_text(text)
    return path


# ---- candidates that behave, and others ----------------------------------------------------------------------------


def test_a_candidate_that_fails_costs_its_row_not_the_sweep(folder: Path) -> None:
    path = spec_file(folder, 'candidates = "nets.py:candidates"\nchips = ["stm32l4r5"]\nseconds = 20\n')
    told: list[tuple[int, int]] = []
    with ThreadPoolExecutor(1) as pool:
        rows = sweep(read_spec(path), folder / "out", pool, lambda phase, done=0, total=0: told.append((done, total)))
    found = {row.model: row for row in rows}
    assert {name: row.status for name, row in found.items()} == {
        "linear": Status.FINE,
        "raises": Status.FAILED,
        "refused": Status.REFUSED,
        "crashes": Status.CRASHED,
        "hangs": Status.LATE,
    }
    fine = found["linear"]
    assert (fine.macs, fine.target, fine.fits, fine.best) == (8, "cortex-m4", True, True)
    assert fine.ram_bytes == 18
    assert fine.cycles is not None
    assert 100 < fine.cycles < 2000
    assert "no such width" in found["raises"].reason
    assert "nets.py:10" in found["raises"].reason
    assert "SIGSEGV" in found["crashes"].reason
    assert "20 seconds" in found["hangs"].reason
    assert told[-1] == (5, 5)
    _check_files(folder / "out", rows)


def _check_files(out: Path, rows: list[SweepRow]) -> None:
    with (out / "rows.csv").open() as file:
        assert [line["status"] for line in csv.DictReader(file)] == [row.status.value for row in rows]
    assert [SweepRow.from_json(row) for row in json.loads((out / "rows.json").read_text())] == rows
    page = (out / "index.html").read_text()
    assert all(row.model in page for row in rows)
    # What may give another result when it is tried again is not remembered.
    remembered = {json.loads(path.read_text())["model"] for path in (out / "cache").iterdir()}
    assert remembered == {"linear", "refused"}


def test_a_process_that_is_killed_is_told_of() -> None:
    child = Child(["sh", "-c", "echo '{}'; read request"])
    child.process.kill()
    with pytest.raises(Ended, match="SIGKILL"):
        child.ask({"names": "nothing.py:names", "folder": "/"}, 10)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # what Dask warns of is its own
def test_a_dask_cluster_gives_the_same_rows(folder: Path) -> None:
    """A scheduler and two workers, each a process of its own."""
    from distributed import Client, LocalCluster

    path = spec_file(folder, 'candidates = "nets.py:fine"\ntargets = ["cortex-m0plus"]\n')
    environment = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, env=environment
        ) as cluster,
        Client(cluster) as client,
    ):
        rows = sweep(read_spec(path), folder / "out", client.get_executor(pure=False))
    tasks = [_task(folder, name) for name in ("one", "two")]
    assert rows == [replace(work.row_of(task), best=row.best) for task, row in zip(tasks, rows, strict=True)]
    assert all(row.status is Status.FINE for row in rows)


def _task(folder: Path, name: str) -> Task:
    return Task(name, "nets.py:fine", str(folder), SweepTarget(target="cortex-m0plus"), {}, 60.0, "estimate")


# ---- what is known is not worked out again --------------------------------------------------------------------------


def test_rows_are_known_by_their_content(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = folder / "cache"
    cache.mkdir()
    task = replace(_task(folder, "two"), cache=str(cache))
    first = work.row_of(task)
    (cache / f"{first.key}.json").write_text(json.dumps(first.to_json()))
    asked: list[str] = []
    work_out = work._worked_out

    def seen(task: Task, source: Source, key: str) -> SweepRow:
        asked.append(key)
        return work_out(task, source, key)

    monkeypatch.setattr(work, "_worked_out", seen)
    again = work.row_of(task)
    assert again == replace(first, cached=True)
    assert not asked
    other = work.row_of(replace(task, options={"optimize": "time"}))
    assert other.key != first.key
    assert asked == [other.key]


# ---- specs ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("models = [", "is not TOML"),
        ('chips = ["pico"]', "names no models"),
        ('models = ["ds_cnn"]', "names no chips"),
        ('models = "ds_cnn"\nchips = ["pico"]', "expected a list of texts"),
        ('models = ["ds_cnn"]\nchips = ["pikoo"]', "unknown chip"),
        ('models = ["ds_cnn"]\ntargets = ["cortex-m"]', "cycles are those of one core"),
        ('models = ["ds_cnn"]\nchips = ["pico"]\nfast = true', "'fast' is not a key"),
        ('models = ["ds_cnn"]\nchips = ["pico"]\nseconds = 0', "time limit"),
        ('models = ["ds_cnn"]\nchips = ["pico"]\nfigures = "guess"', "estimate, board"),
        ('models = ["ds_cnn"]\nchips = ["pico"]\n[options]\noptimize = ["fast"]', "expected one of"),
        ('models = ["ds_cnn"]\nchips = ["pico"]\n[options]\nchip = "pico"', "not an option of a sweep"),
        ('candidates = "nets.py"\nchips = ["pico"]', "expected a function"),
    ],
)
def test_a_wrong_spec_is_told_of(folder: Path, text: str, message: str) -> None:
    with pytest.raises(CortadoError, match=message):
        read_spec(spec_file(folder, text))


def test_every_choice_of_options_is_a_row(folder: Path) -> None:
    text = 'models = ["ds_cnn"]\nchips = ["pico", "microbit"]\n[options]\noptimize = ["ram", "time"]\nio = "float"\n'
    spec = read_spec(spec_file(folder, text))
    assert [place.label for place in spec.places] == ["pico", "microbit"]
    assert spec.choices == ({"optimize": "ram", "io": "float"}, {"optimize": "time", "io": "float"})


# ---- the front and the page -----------------------------------------------------------------------------------------


def _row(name: str, ram: int, flash: int, cycles: int, place: str = "pico", fits: bool = True) -> SweepRow:
    return SweepRow(name, place, "", Status.FINE, ram_bytes=ram, flash_bytes=flash, cycles=cycles, fits=fits)


def test_the_front_is_what_no_other_row_of_its_chip_beats() -> None:
    rows = [
        _row("small", 10, 10, 90),
        _row("fast", 30, 10, 30),
        _row("beaten", 30, 11, 30),
        _row("elsewhere", 99, 99, 99, place="microbit"),
        _row("large", 1, 1, 1, fits=False),
    ]
    assert pareto(rows) == {0, 1, 3}


def test_names_of_candidates_are_text_on_the_page() -> None:
    page = build_page([_row("<script>alert(1)</script>", 1, 1, 1)])
    assert "<script>alert" not in page
    assert "&lt;script&gt;" in page
    assert "http" not in page  # nothing is loaded from anywhere


def test_the_command_line(folder: Path) -> None:
    """A mistake in the spec is one line and exit code 2, before anything is started."""
    path = spec_file(folder, 'models = ["ds_cnn"]\n')
    done = subprocess.run(
        [sys.executable, "-m", "cortado", "sweep", str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"cortado: {path} names no chips")
