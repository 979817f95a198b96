"""report.json as an untrusted file: parsed and validated, compared with the reference, and recognized as our own or
not.

Also the files of a foreign folder, checked before anything is built from them: hashes, sizes, and includes.
"""

import hashlib
import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from cortado.artifact.report import Report, TensorReport, no_report
from cortado.base.arrays import stored_headers
from cortado.base.errors import CortadoError
from cortado.base.names import c_identifier, check_name, printable, printable_data
from cortado.base.target import from_target_string
from cortado.run import toolchain
from cortado.run.runner import bundle_includes, bundle_sources
from cortado.run.toolchain import HEADER_SUFFIXES

# ---- manifest --------------------------------------------------------------------------------------------

REPORT = "report.json"
_MOST_REMEMBERED = 10_000
_MOST_BYTES = 64 << 20  # of a report: those of the largest networks have a few megabytes


# ---- what is ours -------------------------------------------------------------------------------------------------


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def remember(found: str) -> None:
    """Records that this installation wrote something; without a writable cache, it will not be recognized later."""
    folder = toolchain.cache_dir() / "written"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / found).touch()
        names = os.listdir(folder)
        if len(names) > _MOST_REMEMBERED:
            notes = sorted((folder / name for name in names), key=lambda note: note.stat().st_mtime)
            for old in notes[: -_MOST_REMEMBERED * 9 // 10]:
                old.unlink(missing_ok=True)
    except OSError:
        return


def is_remembered(found: str) -> bool:
    return (toolchain.cache_dir() / "written" / found).is_file()


# ---- read and checked ---------------------------------------------------------------------------------------------


def read_report(path: Path) -> tuple[Report, str]:
    """Reads a report whose values are valid and consistent, and returns it with its digest."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ValueError(f"it has more than {_MOST_BYTES:,} bytes")
        data = path.read_bytes()
        found = printable_data(json.loads(data))
    except (ValueError, OSError, RecursionError) as error:
        raise CortadoError(f"{path} can't be read ({error}); compile the model again") from error
    report = Report.from_json(found, str(path))
    contradiction = next(_contradictions(report), None)
    if contradiction is not None:
        raise no_report(str(path), contradiction)
    return report, digest(data)


def _contradictions(report: Report) -> Iterator[str]:
    """Yields the contradictions between values that are valid by themselves."""
    c_only = (report.memory, report.schedule, report.flash, report.macs)
    if any((value is None) != bool(report.bundle_missing) for value in c_only):
        yield "a C bundle that is both present and missing"
    if not report.inputs or not report.outputs:
        yield "no inputs, or no outputs"
    for tensor in (*report.inputs, *report.outputs):
        yield from _contradictions_of_tensor(tensor)
    if report.decision is not None and report.outputs:
        lasts = report.stream is not None or bool(report.state)
        yield from report.decision.contradictions(report.outputs[0].scores, lasts)
    yield from _impossible_names(report)


def _impossible_names(report: Report) -> Iterator[str]:
    """Yields names that would be unsafe: prefix and model name become part of C source, file names of paths."""
    try:
        check_name(report.model)
        from_target_string(report.target)
    except CortadoError as error:
        yield str(error)
    inside = all(".." not in PurePosixPath(name).parts and not name.startswith("/") for name in report.artifacts)
    if not inside or "" in report.artifacts or report.prefix != c_identifier(report.model):
        yield "impossible names"


def _contradictions_of_tensor(tensor: TensorReport) -> Iterator[str]:
    dims = len(tensor.shape)
    if dims > 16 or math.prod(tensor.shape) >= 1 << 31:
        yield f"'{tensor.name}' is too large"
    if sorted(tensor.layout) != list(range(dims)) or len(tensor.model_shape) != dims:
        yield f"the layout of '{tensor.name}' is none of {dims} dimensions"
    elif tuple(tensor.model_shape[dim] for dim in tensor.layout) != tensor.shape:
        yield f"the layout and the two shapes of '{tensor.name}' contradict each other"
    if (tensor.scale is None) != (tensor.zero_point is None):
        yield f"'{tensor.name}' has a scale or a zero point, but not both"


# ---- beside the reference -----------------------------------------------------------------------------------------


def compare(report: Report, reference: Path) -> None:
    """Raises unless inputs and outputs agree with the reference: a run could otherwise match nonsense."""
    try:
        with reference.open("rb") as stream:
            stored_headers(stream)
            with np.load(stream, allow_pickle=False) as file:
                record = json.loads(file["graph"].tobytes())
        calls = {call["name"]: call for call in record["calls"]}
        if len(record["inputs"]) != len(report.inputs) or len(record["outputs"]) != len(report.outputs):
            raise _Different("the number of inputs or outputs")
        if [one.node for one in report.state] != [one["name"] for one in record.get("state", ())]:
            raise _Different("the state from call to call")
        for tensor, name in zip(report.inputs, record["inputs"], strict=True):
            _compare_tensor(tensor, name, record["values"])
            _compare_codes(report, tensor, record["values"], _between(calls, name, tensor.node, tensor))
            if tensor.name != name or list(tensor.layout) != _permutation(calls, name, tensor.node, tensor):
                raise _Different(f"the name or layout of input '{name}'")
        for tensor, name in zip(report.outputs, record["outputs"], strict=True):
            _compare_tensor(tensor, name, record["values"])
            _compare_codes(report, tensor, record["values"], _between(calls, tensor.node, name, tensor))
            perm = _permutation(calls, tensor.node, name, tensor)
            if list(tensor.layout) != [perm.index(dim) for dim in range(len(perm))]:
                raise _Different(f"the layout of output '{tensor.name}'")
    except _Different as different:
        raise CortadoError(
            f"{reference.parent / REPORT} and {reference.name} contradict each other in {different}, so one of them "
            "was changed; compile the model again"
        ) from None
    except Exception as error:  # a damaged file raises whatever zipfile, json and numpy do
        raise CortadoError(f"{reference} can't be read ({error}); compile the model again") from error


class _Different(Exception):
    """The difference found between report and reference."""


def _compare_tensor(tensor: TensorReport, model: str, values: Mapping[str, Any]) -> None:
    value = values[tensor.node]
    found = [list(tensor.shape), tensor.dtype.value, list(tensor.model_shape)]
    if found != [value["shape"], value["dtype"], values[model]["shape"]]:
        raise _Different(f"the shape or dtype of '{tensor.name}'")


def _compare_codes(
    report: Report, tensor: TensorReport, values: Mapping[str, Any], between: Sequence[Mapping[str, Any]]
) -> None:
    """Compares the quantization of an input or output with that of the quantize or dequantize next to it, or else of
    the value itself. A .pte alone is not quantized there."""
    if report.bundle_missing:
        return
    said = [[one["scale"], one["zero_point"]] for one in between if "scale" in one]
    codes = None if tensor.scale is None else [tensor.scale, tensor.zero_point]
    if codes != (said[0] if said else values[tensor.node]["qparams"] or None):
        raise _Different(f"the scale or zero point of '{tensor.name}'")


def _between(calls: Mapping[str, Any], first: str, last: str, tensor: TensorReport) -> list[Mapping[str, Any]]:
    """Returns the arguments of the calls between two values, from the last back to the first."""
    found: list[Mapping[str, Any]] = []
    while last != first:
        arguments = calls[last]["arguments"]
        last = next(value["ref"] for value in arguments.values() if isinstance(value, dict) and "ref" in value)
        found.append(arguments)
        if len(found) > len(calls):
            raise _Different(f"the node of '{tensor.name}'")
    return found


def _permutation(calls: Mapping[str, Any], first: str, last: str, tensor: TensorReport) -> list[int]:
    """Returns the order of one value's dimensions in another that is computed from it by permutes and conversions
    alone."""
    order = list(range(len(tensor.shape)))
    for arguments in _between(calls, first, last, tensor):
        if "perm" in arguments:
            order = [arguments["perm"][dim] for dim in order]
    return order


# ---- foreign ---------------------------------------------------------------------------------------------

MOST_BYTES = 1 << 30  # of a file in a folder: larger than any microcontroller's memory
# Matches what can include another file, wherever it appears: a # in any of its spellings, or an assembler directive. A
# comment after the # could hide one, so it matches too; Cortado writes none there.
_DIRECTIVE = re.compile(
    rb"(?:#|%:|\?\?=)[ \t\v\f]*(?:/\*|(?:include_next|include|import|embed)\b[ \t\v\f]*)|\.(?:include|incbin)\b"
)
_NAMED = re.compile(rb'"([^"\n]*)"|<([^>\n]*)>')
_SPLICE = re.compile(rb"(?:\\|\?\?/)[ \t\v\f\r]*\n")  # a line that continues on the next


def check_files(folder: Path, artifacts: Mapping[str, str], *, ours: bool) -> None:
    """Checks that every file has the SHA-256 in the report, and that no other file would be compiled with them."""
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
    """Returns the digest of a plain file, read in chunks; raises for a size that no model has."""
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise CortadoError(f"{path} has {size:,} bytes, expected at most {MOST_BYTES:,}; compile the model again")
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def built_files(folder: Path) -> Iterator[Path]:
    """Yields the files that a build of the folder's bundle reads: its sources, and headers wherever an include could
    find them."""
    yield from bundle_sources(folder)
    yield from sorted(path for path in folder.rglob("*") if path.suffix in HEADER_SUFFIXES)


def check_inside(folder: Path, path: Path) -> None:
    """Raises for a symlink that leads out of the folder."""
    if not os.path.realpath(path).startswith(os.path.join(os.path.realpath(folder), "")):
        raise CortadoError(f"{path} is a link to {path.resolve()}, outside of the folder; expected a file in it")


def check_includes(folder: Path) -> None:
    """Raises unless sources include only headers of the folder and the compiler, by names that can't lead elsewhere."""
    places = [place.resolve() for place in bundle_includes(folder)]
    for path in built_files(folder):
        text = _SPLICE.sub(b"", path.read_bytes())
        for directive in _DIRECTIVE.finditer(text):
            named = _NAMED.match(text, directive.end())
            name = None if named is None else b"".join(named.groups(b"")).decode(errors="replace")
            if name is None or not _stays(name, path.resolve().parent, places):
                what = text[directive.start() : directive.end() + 80].decode(errors="replace").splitlines()[0]
                raise CortadoError(
                    f"{path} has {printable(what)!r}, expected the name of a file in the folder; Cortado did not write "
                    "this folder like that, and compiles nothing from it"
                )


def _stays(name: str, beside: Path, places: list[Path]) -> bool:
    """Returns whether a name resolves inside the folders that are searched for headers."""
    if not name or name.startswith(("/", "~")) or "\\" in name or "\0" in name or ".." in name.split("/"):
        return False
    root = places[0]
    return all((place / name).resolve().is_relative_to(root) for place in (beside, *places))
