"""report.json as anybody's file: read, checked key by key, compared with the reference, and known as our own or not."""

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn

import numpy as np

from cortado.base.errors import CortadoError
from cortado.base.names import c_identifier, check_name, is_node_name, printable_data
from cortado.base.target import from_target_string
from cortado.run import toolchain

REPORT = "report.json"
_MOST_REMEMBERED = 10_000


# ---- what is ours -------------------------------------------------------------------------------------------------


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def remember(found: str) -> None:
    """Notes that this installation wrote something; without a cache to write to, it will be asked about it again."""
    folder = toolchain.cache_dir() / "written"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / found).touch()
        notes = list(folder.iterdir())
        if len(notes) > _MOST_REMEMBERED:
            for old in sorted(notes, key=lambda note: note.stat().st_mtime)[: -_MOST_REMEMBERED * 9 // 10]:
                old.unlink(missing_ok=True)
    except OSError:
        return


def is_remembered(found: str) -> bool:
    return (toolchain.cache_dir() / "written" / found).is_file()


# ---- key by key ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Kind:
    """What a value must be, in words and as a test."""

    words: str
    holds: Callable[[Any], bool]


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62


def _is_scale(value: Any) -> bool:
    return isinstance(value, float) and math.isfinite(value) and value > 0


def _is_zero_point(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(1 << 31) <= value < 1 << 31


def _list_of(kind: _Kind) -> _Kind:
    return _Kind(f"a list of {kind.words}", lambda value: isinstance(value, list) and all(map(kind.holds, value)))


def _or_none(kind: _Kind) -> _Kind:
    return _Kind(f"{kind.words} or null", lambda value: value is None or kind.holds(value))


def _record(words: str, keys: Mapping[str, _Kind]) -> _Kind:
    def holds(value: Any) -> bool:
        return isinstance(value, dict) and all(key in value and kind.holds(value[key]) for key, kind in keys.items())

    return _Kind(words, holds)


def _one_of(*words: str) -> _Kind:
    return _Kind(f"one of {', '.join(words)}", lambda value: isinstance(value, str) and value in words)


_TEXT = _Kind("str", lambda value: isinstance(value, str))
_COUNT = _Kind("number", _is_count)
_FLAG = _Kind("bool", lambda value: isinstance(value, bool))
_NODE = _Kind("a node's name", is_node_name)
_DTYPE = _one_of("int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64", "bool")
_SIZES = _list_of(_Kind("positive number", lambda value: _is_count(value) and value > 0))
_OPERATOR = _Kind("an operator's name", lambda value: isinstance(value, str) and "::" in value)
_TENSOR = {
    "name": _TEXT,
    "node": _NODE,
    "dtype": _DTYPE,
    "shape": _SIZES,
    "model_shape": _SIZES,
    "layout": _list_of(_COUNT),
    "scale": _or_none(_Kind("a positive number", _is_scale)),
    "zero_point": _or_none(_Kind("a number", _is_zero_point)),
}
_LAYER = {"name": _NODE, "operator": _OPERATOR, "module": _TEXT, "macs": _COUNT}
_FLOAT_OPERATOR = {"operator": _TEXT, "reason": _TEXT}
_SHA256 = _Kind("a SHA-256", lambda value: isinstance(value, str) and re.fullmatch(r"[0-9a-f]{64}", value) is not None)
_KEYS = {
    **dict.fromkeys(("model", "target", "prefix"), _TEXT),
    **dict.fromkeys(("inputs", "outputs"), _list_of(_Kind("tensors", lambda value: isinstance(value, dict)))),
    "memory": _or_none(_record("sizes", {"arena_bytes": _COUNT})),
    "flash": _or_none(_record("sizes", {"weights_bytes": _COUNT, "code_bytes": _or_none(_COUNT)})),
    "pte": _or_none(_record("sizes", {"bytes": _COUNT, "arena_bytes": _COUNT})),
    **dict.fromkeys(("bundle_missing", "pte_missing"), _list_of(_TEXT)),
    "float_operators": _list_of(_record("float operators", _FLOAT_OPERATOR)),
    "layers": _list_of(_record("layers", _LAYER)),
    "options": _record(
        "options",
        {
            "optimize": _one_of("ram", "balanced", "time"),
            "io": _one_of("int8", "float"),
            "input_layout": _one_of("model", "nhwc"),
        },
    ),
    "artifacts": _Kind("files", lambda value: isinstance(value, dict) and all(map(_SHA256.holds, value.values()))),
    "macs": _or_none(_COUNT),
    "labels": _or_none(_list_of(_TEXT)),
}


def read_report(path: Path) -> tuple[dict[str, Any], str]:
    """A report with everything that running its model needs, and its digest."""
    try:
        data = path.read_bytes()
        report = printable_data(json.loads(data))
    except (ValueError, OSError, RecursionError) as error:
        raise CortadoError(f"{path} can't be read ({error}); compile the model again") from error
    return check_report(report, path), digest(data)


def check_report(report: Any, path: Path) -> dict[str, Any]:
    """The report, if every value in it is of the kind it must be and they fit each other."""

    def refuse(what: str) -> NoReturn:
        raise CortadoError(f"{path} is not a report of Cortado's ({what}); compile the model again")

    if not isinstance(report, dict):
        refuse(f"a {type(report).__name__}")
    _check_keys(report, _KEYS, refuse)
    for tensor in (*report["inputs"], *report["outputs"]):
        _check_keys(tensor, _TENSOR, refuse)
        _check_tensor(tensor, refuse)
    if any((report[key] is None) != bool(report["bundle_missing"]) for key in ("memory", "flash", "macs")):
        refuse("a C bundle that is there and missing")
    if not report["inputs"] or not report["outputs"]:
        refuse("no inputs, or no outputs")
    zoo = report.get("zoo")
    if zoo is not None and not is_node_name(zoo):  # it names a network, not a file with code
        refuse("'zoo' is not the name of a network")
    _check_names(report, refuse)
    return report


def _check_names(report: Mapping[str, Any], refuse: Callable[[str], NoReturn]) -> None:
    """The prefix becomes part of C source, the model's name too, and the files' names parts of paths."""
    try:
        check_name(report["model"])
        from_target_string(report["target"])
    except CortadoError as error:
        refuse(str(error))
    inside = all(".." not in PurePosixPath(name).parts and not name.startswith("/") for name in report["artifacts"])
    if not inside or "" in report["artifacts"] or report["prefix"] != c_identifier(report["model"]):
        refuse("impossible names")


def _check_keys(record: Mapping[str, Any], keys: Mapping[str, _Kind], refuse: Callable[[str], NoReturn]) -> None:
    for key, kind in keys.items():
        if key not in record or not kind.holds(record[key]):
            refuse(f"no '{key}', or not a {kind.words}")


def _check_tensor(tensor: Mapping[str, Any], refuse: Callable[[str], NoReturn]) -> None:
    name, shape, layout = tensor["name"], tensor["shape"], tensor["layout"]
    if math.prod(shape) >= 1 << 31 or len(shape) > 16:
        refuse(f"'{name}' is too large")
    if sorted(layout) != list(range(len(shape))) or len(tensor["model_shape"]) != len(shape):
        refuse(f"the layout of '{name}' is none of {len(shape)} dimensions")
    if [tensor["model_shape"][dim] for dim in layout] != shape:
        refuse(f"the layout and the two shapes of '{name}' contradict each other")
    if (tensor["scale"] is None) != (tensor["zero_point"] is None):
        refuse(f"'{name}' has a scale or a zero point, and not both")


# ---- beside the reference -----------------------------------------------------------------------------------------


def compare(report: Mapping[str, Any], reference: Path) -> None:
    """Raises unless inputs and outputs are what the reference says: a run and its reference would agree on nonsense."""
    try:
        with reference.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            record = json.loads(file["graph"].tobytes())
        calls = {call["name"]: call for call in record["calls"]}
        if len(record["inputs"]) != len(report["inputs"]) or len(record["outputs"]) != len(report["outputs"]):
            raise _Different("the number of inputs or outputs")
        pairs = [*zip(report["inputs"], record["inputs"], strict=True)]
        for tensor, name in pairs:
            _compare_tensor(tensor, name, record["values"], bool(report["bundle_missing"]))
            if tensor["name"] != name or tensor["layout"] != _permutation(calls, name, tensor["node"], tensor):
                raise _Different(f"the name or layout of input '{name}'")
        for tensor, name in zip(report["outputs"], record["outputs"], strict=True):
            _compare_tensor(tensor, name, record["values"], bool(report["bundle_missing"]))
            perm = _permutation(calls, tensor["node"], name, tensor)
            if tensor["layout"] != [perm.index(dim) for dim in range(len(perm))]:
                raise _Different(f"the layout of output '{tensor['name']}'")
    except _Different as different:
        raise CortadoError(
            f"{reference.parent / REPORT} and {reference.name} contradict each other in {different}: "
            "one of them was changed; compile the model again"
        ) from None
    except Exception as error:  # a damaged file raises whatever zipfile, json and numpy do
        raise CortadoError(f"{reference} can't be read ({error}); compile the model again") from error


class _Different(Exception):
    """In what the report and the reference differ."""


def _compare_tensor(tensor: Mapping[str, Any], model: str, values: Mapping[str, Any], only_pte: bool) -> None:
    value = values[tensor["node"]]
    found = [tensor["shape"], tensor["dtype"], tensor["model_shape"]]
    if found != [value["shape"], value["dtype"], values[model]["shape"]]:
        raise _Different(f"the shape or dtype of '{tensor['name']}'")
    codes = None if tensor["scale"] is None else [tensor["scale"], tensor["zero_point"]]
    if not only_pte and codes != (value["qparams"] or None):
        raise _Different(f"the scale or zero point of '{tensor['name']}'")


def _permutation(calls: Mapping[str, Any], first: str, last: str, tensor: Mapping[str, Any]) -> list[int]:
    """How the dimensions of one value lie in another that is made of it by changes of layout and of numbers alone."""
    order = list(range(len(tensor["shape"])))
    seen = 0
    while last != first:
        call = calls[last]
        last = next(value["ref"] for value in call["arguments"].values() if isinstance(value, dict) and "ref" in value)
        if "perm" in call["arguments"]:
            order = [call["arguments"]["perm"][dim] for dim in order]
        seen += 1
        if seen > len(calls):
            raise _Different(f"the node of '{tensor['name']}'")
    return order
