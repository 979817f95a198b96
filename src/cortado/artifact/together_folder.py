"""The folder of several models in one program: their C, written whole or not at all, and together.json about it."""

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cortado import __version__
from cortado.artifact.folder import STAGING, check_writable, locked, write_each
from cortado.base.errors import CortadoError
from cortado.base.system import exchange

TOGETHER = "together.json"


@dataclass(frozen=True)
class ModelFacts:
    """One of the models."""

    model: str
    prefix: str  # of its symbols and files
    id: str  # of what it computes
    arena_bytes: int
    shares_arena: bool
    weights_bytes: int


@dataclass(frozen=True)
class TogetherFacts:
    """Facts about a program of several models."""

    target: str
    models: tuple[ModelFacts, ...]
    shared_arena_bytes: int  # 0: there is none
    code_bytes: int | None  # None without a compiler
    version: str = __version__

    @property
    def arena_bytes(self) -> int:
        """The shared arena, and those of the others."""
        return self.shared_arena_bytes + sum(one.arena_bytes for one in self.models if not one.shares_arena)

    @property
    def weights_bytes(self) -> int:
        return sum(one.weights_bytes for one in self.models)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "arena_bytes": self.arena_bytes, "weights_bytes": self.weights_bytes}


def write_together(folder: Path, files: Mapping[str, str | bytes], facts: TogetherFacts) -> None:
    """Into a new folder, an empty one, or in place of an older one of this kind."""
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
    """Raises unless such a program may be written here."""
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


def _write(folder: Path, files: Mapping[str, str | bytes], facts: TogetherFacts) -> None:
    digests = write_each(folder, files)
    (folder / TOGETHER).write_text(json.dumps({**facts.to_json(), "files": digests}, indent=2) + "\n")
