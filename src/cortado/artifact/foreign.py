"""Files of a folder that somebody else wrote, before anything is made of them: what they are, how large, what they
include."""

import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from cortado.base.errors import CortadoError
from cortado.base.names import printable
from cortado.run.runner import bundle_includes, bundle_sources
from cortado.run.toolchain import HEADER_SUFFIXES

MOST_BYTES = 1 << 30  # of a file in a folder: the address space of a microcontroller has no room for more
# What brings in another file, wherever it stands: a # in any of its spellings, or a directive of the assembler. A
# comment behind the # could hide it; Cortado writes none there.
_DIRECTIVE = re.compile(
    rb"(?:#|%:|\?\?=)[ \t\v\f]*(?:/\*|(?:include_next|include|import|embed)\b[ \t\v\f]*)|\.(?:include|incbin)\b"
)
_NAMED = re.compile(rb'"([^"\n]*)"|<([^>\n]*)>')
_SPLICE = re.compile(rb"(?:\\|\?\?/)[ \t\v\f\r]*\n")  # a line that goes on in the next


def check_files(folder: Path, artifacts: Mapping[str, str], *, ours: bool) -> None:
    """Every file is the one whose SHA-256 the report has, and no other would be compiled with them."""
    for name, expected in artifacts.items():
        path = folder / name
        if not path.is_file():
            raise CortadoError(f"{path} is missing; compile the model again")
        check_inside(folder, path)
        if file_digest(path) != expected:
            raise CortadoError(f"{path} is not the file that was compiled (its SHA-256 differs); compile again")
    for path in built_files(folder):
        if path.relative_to(folder).as_posix() not in artifacts:
            raise CortadoError(f"{path} is not a file of this model; move it out of the folder")
    if not ours:
        check_includes(folder)


def file_digest(path: Path) -> str:
    """Returns the digest of a plain file, read piece by piece; one of a size that no model has is an error."""
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise CortadoError(f"{path} has {size:,} bytes, expected {MOST_BYTES:,} at most; compile the model again")
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def built_files(folder: Path) -> Iterator[Path]:
    """Returns what a build of the folder's bundle reads: its sources, and headers wherever an include could find
    them."""
    yield from bundle_sources(folder)
    yield from sorted(path for path in folder.rglob("*") if path.suffix in HEADER_SUFFIXES)


def check_inside(folder: Path, path: Path) -> None:
    """A link leads out of the folder."""
    if not path.resolve().is_relative_to(folder.resolve()):
        raise CortadoError(f"{path} is a link to {path.resolve()}, outside of the folder; expected a file in it")


def check_includes(folder: Path) -> None:
    """A source may include headers of the folder and of the compiler, by names that lead nowhere else."""
    places = [place.resolve() for place in bundle_includes(folder)]
    for path in built_files(folder):
        text = _SPLICE.sub(b"", path.read_bytes())
        for directive in _DIRECTIVE.finditer(text):
            named = _NAMED.match(text, directive.end())
            name = None if named is None else b"".join(named.groups(b"")).decode(errors="replace")
            if name is None or not _stays(name, path.resolve().parent, places):
                what = text[directive.start() : directive.end() + 80].decode(errors="replace").splitlines()[0]
                raise CortadoError(
                    f"{path} has {printable(what)!r}, expected the name of a file in the folder; this folder is not "
                    "what Cortado writes, and nothing of it is compiled"
                )


def _stays(name: str, beside: Path, places: list[Path]) -> bool:
    """Whether a name can't lead out of the folders where headers are looked for."""
    if not name or name.startswith(("/", "~")) or "\\" in name or "\0" in name or ".." in name.split("/"):
        return False
    root = places[0]
    return all((place / name).resolve().is_relative_to(root) for place in (beside, *places))
