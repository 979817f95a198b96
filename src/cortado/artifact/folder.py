"""The folder of a compiled model on disk: written atomically, by one process at a time.

A new model is staged next to its folder and moved there with one rename, which exchanges the two if an older model
exists: whenever the process is killed, the folder holds either the old model or the new one. Three kinds of folders
can't be exchanged: a mount point, this process's current directory (a shell in it would be left in a deleted one), and
one whose parent isn't writable. Their files are replaced one by one, the report last: until then the digests in the old
report reveal the mismatch. Leftovers of a killed process are recognized by name and removed by the next one.

Also the folder of several models in one program: their C, written atomically, and together.json with facts about it.
"""

import contextlib
import errno
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from cortado import __version__
from cortado.artifact.manifest import REPORT, digest, read_report, remember
from cortado.artifact.report import Report
from cortado.base.errors import CortadoError
from cortado.base.system import LOCKS_FOLDERS, exchange, lock

# ---- folder ----------------------------------------------------------------------------------------------

STAGING = ".cortado-new-"  # the prefix of staging folders, after the name of the final folder

# ---- where --------------------------------------------------------------------------------------------------------


def check_folder(folder: Path) -> None:
    """Raises unless a compiled model may be written here: to a new folder, an empty one, or over an older model."""
    check_writable(folder)
    models = compiled_inside(folder)
    if models:
        raise CortadoError(
            f"can't write to {folder}: it holds one folder for each of several compiled models, as for several targets "
            f"({', '.join(model.name for model in models)}); choose another folder"
        )
    foreign = _foreign_file(Path(os.path.realpath(folder)))
    if foreign is not None:
        raise CortadoError(
            f"can't write to {folder}: it holds '{foreign}', which is not part of a compiled model; "
            "choose another folder, or empty this one"
        )


def check_writable(folder: Path) -> None:
    """Raises unless files can be written to this folder, which need not exist yet."""
    path = Path(os.path.realpath(folder))
    try:
        existing = next(parent for parent in (path, *path.parents) if parent.exists())
    except OSError as error:  # too long a name, or a symlink loop
        raise CortadoError(f"can't write to {folder}: {error.strerror}; choose another folder") from error
    if not existing.is_dir():
        place = "it" if existing == path else str(existing)
        raise CortadoError(f"can't write to {folder}: {place} is a file, expected a folder")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise CortadoError(f"can't write to {folder}: no permission in {existing}; choose a folder you may write to")


def _files(folder: Path) -> Iterator[str]:
    """Yields the path of every file below a folder, lazily: it can be any folder of any size."""
    litter = set(_litter(folder, folder))
    found = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    found = (path for path in found if litter.isdisjoint(path.parents))
    return (path.relative_to(folder).as_posix() for path in found)


def _manifest(folder: Path) -> tuple[str, ...]:
    """Returns the files of the compiled model in a folder; empty if there is none."""
    try:
        return (REPORT, *read_report(folder / REPORT)[0].artifacts)
    except CortadoError:
        return ()


def _foreign_file(folder: Path) -> str | None:
    if not folder.is_dir():
        return None
    known = set(_manifest(folder)).union(*(_manifest(staging / "new") for staging in _litter(folder, folder)))
    return next((name for name in _files(folder) if name not in known), None)


def _litter(beside: Path, final: Path) -> list[Path]:
    """Returns the folders left over from processes that were killed while writing `final`."""
    try:
        return [path for path in beside.iterdir() if path.name.startswith(f".{final.name}{STAGING}")]
    except OSError:
        return []


def compiled_inside(folder: Path) -> tuple[Path, ...]:
    """Returns the compiled models in subfolders of a folder that is none itself, as for several targets."""
    try:
        if (folder / REPORT).exists():
            return ()
        return tuple(sorted(path for path in folder.iterdir() if (path / REPORT).is_file()))
    except OSError:  # no such folder, or no permission to read it
        return ()


# ---- one at a time ------------------------------------------------------------------------------------------------

_HELD: set[Path] = set()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds a lock on writing to this folder; raises if another process has it."""
    final = Path(os.path.realpath(folder))
    if final in _HELD:
        yield
        return
    with _os_errors(folder):
        missing = [parent for parent in final.parents if not parent.exists()]
        final.parent.mkdir(parents=True, exist_ok=True)
        handle, path = _lock(final)
    if handle is None:
        raise CortadoError(f"another process is writing a model to {folder}; wait for it, or choose another folder")
    _HELD.add(final)
    try:
        _bring_back(final)
        yield
    finally:
        _HELD.discard(final)
        with contextlib.suppress(OSError):
            if path is not None:
                path.unlink()
            for parent in missing:  # created in vain if nothing was written
                parent.rmdir()
        os.close(handle)


def _bring_back(final: Path) -> None:
    """Restores the old model if a process was killed between two renames, on a system that can't exchange folders."""
    for staging in _litter(final.parent, final):
        if not final.exists() and (staging / "old").is_dir():
            (staging / "old").rename(final)


def _lock(final: Path) -> tuple[int | None, Path | None]:
    """Locks a file next to the folder, or the folder itself; returns no handle if another process has the lock."""
    beside = not _is_fixed(final)
    if not beside and not LOCKS_FOLDERS:
        return os.open(os.devnull, os.O_RDONLY), None
    path = final.parent / f".{final.name}.cortado-lock" if beside else final
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT if beside else os.O_RDONLY, 0o666)
        if not lock(handle, wait=False):
            os.close(handle)
            return None, None
        if not beside:
            return handle, None
        # The previous holder may just have removed the file: then this lock protects nothing.
        if path.exists() and os.stat(path).st_ino == os.fstat(handle).st_ino:
            return handle, path
        os.close(handle)


def _is_fixed(final: Path) -> bool:
    """Returns whether a folder must not be replaced by another."""
    if not final.is_dir():
        return False
    return final.is_mount() or final == Path.cwd() or not os.access(final.parent, os.W_OK | os.X_OK)


@contextmanager
def _os_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CortadoError(f"can't write to {folder}: {error.strerror or error}; {_advice(error, 'folder')}") from error


# ---- writing ------------------------------------------------------------------------------------------------------


def write_folder(folder: Path, files: Mapping[str, str | bytes], report: Report, *, ours: bool = True) -> None:
    """Writes a compiled model, replacing any older one. A foreign model (not `ours`) is not recorded as written
    here."""
    with locked(folder), _os_errors(folder):
        check_folder(folder)
        final = Path(os.path.realpath(folder))
        beside = final if _is_fixed(final) else final.parent
        litter = _litter(beside, final)
        staging = Path(tempfile.mkdtemp(prefix=f".{final.name}{STAGING}", dir=beside))
        try:
            new = staging / "new"
            _write_all(new, files, report, ours)
            if beside == final:
                _replace_files(new, final, known=[final, *(path / "new" for path in litter)])
            elif final.is_dir():
                shutil.copymode(final, new)
                exchange(new, final)
            else:
                os.rename(new, final)
        finally:
            for path in (staging, *litter):
                shutil.rmtree(path, ignore_errors=True)


def write_each(folder: Path, files: Mapping[str, str | bytes]) -> dict[str, str]:
    """Writes files to a new folder, and returns the SHA-256 of each."""
    digests = {}
    folder.mkdir()
    for inner in {(folder / name).parent for name in files}:
        inner.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        (folder / name).write_bytes(data)
        digests[name] = digest(data)
    return digests


def _write_all(folder: Path, files: Mapping[str, str | bytes], report: Report, ours: bool) -> None:
    digests = write_each(folder, files)
    for name in digests if ours else ():
        if name.endswith(".pte"):
            remember(digests[name])  # so that it is known even outside of the folder
    whole = replace(report, artifacts=dict(sorted(digests.items())))
    text = json.dumps(whole.to_json(), indent=2) + "\n"
    (folder / REPORT).write_bytes(text.encode())  # as bytes: the hash must not depend on the system's line endings
    if ours:
        remember(digest(text.encode()))


def _replace_files(new: Path, folder: Path, known: list[Path]) -> None:
    """Moves the new files over the old ones, the report last. `known` are models that may own files in the folder."""
    names = sorted(set(_files(new)) - {REPORT})
    stale = {name for model in known for name in _manifest(model)} - {*names, REPORT}
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        os.replace(new / name, path)
    for name in stale:
        (folder / name).unlink(missing_ok=True)
    for inner in sorted({parent for name in stale for parent in PurePosixPath(name).parents}, reverse=True):
        if (folder / inner).is_dir() and not any((folder / inner).iterdir()):
            (folder / inner).rmdir()
    os.replace(new / REPORT, folder / REPORT)


def write_file(path: Path, data: bytes) -> None:
    """Writes one file atomically; a device or a pipe of that name is written to instead of replaced."""
    try:
        final = path.resolve()  # keeps a symlink
        if final.exists() and not final.is_file():
            final.write_bytes(data)
            return
        with tempfile.TemporaryDirectory(prefix=f".{final.name}.", dir=final.parent) as staging:
            temporary = Path(staging) / "new"
            temporary.write_bytes(data)
            os.replace(temporary, final)
    except OSError as error:
        raise CortadoError(f"can't write {path}: {error.strerror or error}; {_advice(error, 'place')}") from error


def _advice(error: OSError, where: str) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"make room there, or choose another {where}"
    return f"choose a {where} you may write to"


# ---- together folder -------------------------------------------------------------------------------------

TOGETHER = "together.json"


@dataclass(frozen=True)
class ModelFacts:
    """Facts about one of the models."""

    model: str
    prefix: str  # of its symbols and files
    id: str  # a hash of what it computes
    arena_bytes: int
    shares_arena: bool
    weights_bytes: int


METHODS = "methods"  # a folder with each method of a model compiled by itself


class WrittenFacts(Protocol):
    """Facts about a program, for together.json."""

    def to_json(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class TogetherFacts:
    """Facts about a program of several models."""

    target: str
    models: tuple[ModelFacts, ...]
    shared_arena_bytes: int  # 0 if there is none
    code_bytes: int | None  # None without a compiler
    version: str = __version__

    @property
    def arena_bytes(self) -> int:
        """Returns the bytes of the shared arena and of all arenas that aren't shared."""
        return self.shared_arena_bytes + sum(one.arena_bytes for one in self.models if not one.shares_arena)

    @property
    def weights_bytes(self) -> int:
        return sum(one.weights_bytes for one in self.models)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "arena_bytes": self.arena_bytes, "weights_bytes": self.weights_bytes}


def write_together(folder: Path, files: Mapping[str, str | bytes], facts: WrittenFacts) -> None:
    """Writes a joint program to a new folder, an empty one, or in place of an older one of its kind."""
    with locked(folder):
        check_together(folder)
        final = Path(os.path.realpath(folder))
        try:
            staging = Path(tempfile.mkdtemp(prefix=f".{final.name}{STAGING}", dir=final.parent))
            try:
                _write(staging / "new", files, facts)
                if final.is_dir():
                    exchange(staging / "new", final)
                else:
                    os.rename(staging / "new", final)
            finally:
                shutil.rmtree(staging, ignore_errors=True)
        except OSError as error:
            raise CortadoError(f"can't write to {folder}: {error.strerror or error}; choose another folder") from error


def check_together(folder: Path) -> None:
    """Raises unless a joint program may be written here."""
    check_writable(folder)
    if not folder.is_dir():
        return
    known = {TOGETHER, *_files_of(folder)}
    found = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())
    foreign = next((name for name in found if name not in known), None)
    if foreign is not None:
        raise CortadoError(
            f"can't write to {folder}: it holds '{foreign}', which --together did not write; choose another folder, or "
            "empty this one"
        )


def _files_of(folder: Path) -> tuple[str, ...]:
    try:
        found = json.loads((folder / TOGETHER).read_text())
        return tuple(map(str, found["files"]))
    except (OSError, ValueError, KeyError, TypeError):
        return ()


def _write(folder: Path, files: Mapping[str, str | bytes], facts: WrittenFacts) -> None:
    digests = write_each(folder, files)
    (folder / TOGETHER).write_text(json.dumps({**facts.to_json(), "files": digests}, indent=2) + "\n")
