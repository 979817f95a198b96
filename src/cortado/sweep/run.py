"""A sweep: sends tasks to an executor and collects rows as they arrive; cached rows cost almost nothing."""

import json
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from cortado.base.errors import CortadoError
from cortado.base.progress import Progress, silent
from cortado.base.system import processors
from cortado.sweep.isolated import close_all, run_names, run_score, run_task
from cortado.sweep.page import build_page
from cortado.sweep.rows import CandidateScore, ScoreTask, Status, SweepRow, Task, as_csv, ended, held_to, pareto
from cortado.sweep.spec import Spec

CACHE = "cache"


def sweep(spec: Spec, folder: Path, executor: Executor | None = None, progress: Progress = silent) -> list[SweepRow]:
    """Computes every row, or takes it from the folder's cache, and writes rows.csv, rows.json and index.html there.

    An executor's workers need Cortado and the spec's files at the same path; without an executor, tasks run in as many
    processes on this machine as it has cores.
    """
    cache = folder / CACHE
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CortadoError(f"can't write to {folder}: {error.strerror}") from error
    try:
        progress("start workers")
        with _workers(executor) as pool:
            tasks = list(tasks_of(spec, _names(spec, pool), cache))
            progress("sweep", 0, len(tasks))
            rows = [held_to(row, spec.constraints) for row in _collected(tasks, pool, cache, progress)]
            if spec.score is not None:
                rows = _scored(spec, tasks, rows, pool, progress)
    finally:
        close_all()
    best = pareto(rows, scored=spec.score is not None)
    rows = [replace(row, best=position in best) for position, row in enumerate(rows)]
    _write(folder / "rows.csv", as_csv(rows))
    _write(folder / "rows.json", json.dumps([row.to_json() for row in rows], indent=2) + "\n")
    _write(folder / "index.html", build_page(rows))
    return rows


def tasks_of(spec: Spec, names: Sequence[str], cache: Path) -> Iterator[Task]:
    """Yields the tasks of the models that the spec names, and of its function's candidates."""
    models = [*((model, None) for model in spec.models), *((name, spec.candidates) for name in names)]
    for model, candidates in models:
        for place in spec.places:
            for options in spec.choices:
                yield Task(
                    model=model,
                    candidates=candidates,
                    folder=str(spec.folder),
                    place=place,
                    options=options,
                    seconds=spec.seconds,
                    figures=spec.figures.value,
                    cache=str(cache.resolve()),
                )


def _names(spec: Spec, pool: Executor) -> list[str]:
    """Returns the candidates' names, requested where they will be built."""
    if spec.candidates is None:
        return []
    answer = pool.submit(run_names, spec.candidates, str(spec.folder), spec.seconds).result()
    if "error" in answer:
        raise CortadoError(str(answer["error"]))
    names: list[str] = answer["names"]
    return names


@contextmanager
def _workers(given: Executor | None) -> Iterator[Executor]:
    """Yields the executor; the threads of the default one only wait for processes."""
    if given is not None:
        yield given
        return
    pool = ThreadPoolExecutor(processors())
    try:
        yield pool
    finally:
        close_all()
        pool.shutdown(cancel_futures=True)


def _collected(tasks: Sequence[Task], pool: Executor, cache: Path, progress: Progress) -> list[SweepRow]:
    pending: dict[Future[dict[str, Any]], int] = {
        pool.submit(run_task, task.to_json()): position for position, task in enumerate(tasks)
    }
    rows: dict[int, SweepRow] = {}
    for future in as_completed(pending):
        position = pending[future]
        rows[position] = _row(tasks[position], future)
        _remember(rows[position], cache)
        progress("sweep", len(rows), len(tasks))
    return [rows[position] for position in range(len(tasks))]


def _scored(
    spec: Spec, tasks: Sequence[Task], rows: Sequence[SweepRow], pool: Executor, progress: Progress
) -> list[SweepRow]:
    """Trains and judges, once, each candidate with a row that could be on the front."""
    assert spec.score is not None
    wanted: dict[str, ScoreTask] = {}
    for task, row in zip(tasks, rows, strict=True):
        if task.candidates is not None and row.eligible:
            wanted[task.model] = ScoreTask(
                task.model, task.candidates, task.folder, spec.score, spec.score_seconds, task.cache
            )
    progress("score", 0, len(wanted))
    pending = {pool.submit(run_score, one.to_json()): name for name, one in wanted.items()}
    found: dict[str, CandidateScore] = {}
    for future in as_completed(pending):
        name = pending[future]
        found[name] = _score(future)
        if found[name].key and not found[name].cached:
            _write(Path(wanted[name].cache or "") / f"{found[name].key}.json", json.dumps(found[name].to_json()))
        progress("score", len(found), len(wanted))
    return [
        _with_score(row, found[task.model]) if task.candidates is not None and task.model in found else row
        for task, row in zip(tasks, rows, strict=True)
    ]


def _score(future: Future[dict[str, Any]]) -> CandidateScore:
    try:
        return CandidateScore.from_json(future.result())
    except Exception as error:
        return CandidateScore(None, Status.CRASHED, f"its worker failed: {type(error).__name__}: {error}")


def _with_score(row: SweepRow, score: CandidateScore) -> SweepRow:
    """Adds a score to a row; a row with figures but without a score keeps them, with the reason."""
    if score.value is None and row.status is Status.FINE:
        return replace(row, status=score.status, reason=f"its score: {score.reason}")
    return replace(row, score=score.value)


def _row(task: Task, future: Future[dict[str, Any]]) -> SweepRow:
    """Returns a task's row; if its worker was lost, a row that says so."""
    try:
        return SweepRow.from_json(future.result())
    except Exception as error:
        return ended(task, Status.CRASHED, f"its worker failed: {type(error).__name__}: {error}")


def _remember(row: SweepRow, cache: Path) -> None:
    """Caches a row: figures and refusals follow from the content, while crashes and timeouts may not, and are
    retried."""
    if row.key and not row.cached:
        _write(cache / f"{row.key}.json", json.dumps(row.to_json()))


def _write(path: Path, text: str) -> None:
    """Writes a file atomically."""
    with NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
        file.write(text)
    os.replace(file.name, path)
    os.chmod(path, 0o644)
