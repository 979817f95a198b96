"""Cortado's own text in a .pte: target, and quantization of inputs and outputs."""

import json
import re
from dataclasses import asdict
from typing import Any

from cortado.base.errors import CortadoError
from cortado.pte.flatbuffer import FlatTable
from cortado.pte.info import IoQParams, Metadata, MethodValue, PteInfo

METADATA_METHOD = "cortado"
"""The constant method that returns Cortado's JSON text."""


_ANY_TARGET = "cortex-m"


def metadata_text(
    target: str,
    version: str,
    layout: str,
    inputs: tuple[IoQParams | None, ...],
    outputs: tuple[IoQParams | None, ...],
) -> str:
    """Returns the JSON text for the constant method METADATA_METHOD; `read_pte` parses it back."""
    facts = {
        "target": target,
        "version": version,
        "layout": layout,
        "inputs": [None if qparams is None else asdict(qparams) for qparams in inputs],
        "outputs": [None if qparams is None else asdict(qparams) for qparams in outputs],
    }
    return json.dumps(facts, separators=(",", ":"))


def read_metadata(plan: FlatTable, outputs: list[MethodValue]) -> Metadata:
    if len(outputs) != 1 or outputs[0].text is None:
        plan.file.fail(f"the method {METADATA_METHOD!r} does not return one text", plan.at)
    text = outputs[0].text
    try:
        return _parse_metadata(json.loads(text, object_pairs_hook=_unique_keys), text)
    except (ValueError, RecursionError) as error:
        plan.file.fail(f"the text of the method {METADATA_METHOD!r} is not what Cortado writes: {error}", plan.at)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # Firmware reads the first of two equal keys and json the last: they must not disagree about the target.
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key appears twice")
    return dict(pairs)


def _parse_metadata(facts: Any, text: str) -> Metadata:
    if not isinstance(facts, dict):
        raise ValueError("it is not a JSON object")
    target = facts.get("target")
    if not isinstance(target, str) or not re.fullmatch(r"[!#-\[\]-~]+", target):
        raise ValueError(f"its target is {target!r}")
    if '"target"' not in text or f'"{target}"' not in text:
        raise ValueError("its target is written with escapes, which the firmware's reader does not know")
    strings = {key: facts.get(key, "") for key in ("version", "layout")}
    if not all(isinstance(value, str) for value in strings.values()):
        raise ValueError("its version and layout have to be strings")
    inputs, outputs = _parse_qparams(facts.get("inputs", [])), _parse_qparams(facts.get("outputs", []))
    return Metadata(target, strings["version"], strings["layout"], inputs, outputs, text)


def _parse_qparams(items: Any) -> tuple[IoQParams | None, ...]:
    if not isinstance(items, list):
        raise ValueError("its inputs and outputs have to be lists")
    return tuple(None if item is None else _parse_one_qparams(item) for item in items)


def _parse_one_qparams(item: Any) -> IoQParams:
    if not isinstance(item, dict):
        raise ValueError("an input's or output's quantization is not an object")
    scale, zero_point = item.get("scale"), item.get("zero_point")
    if not isinstance(scale, int | float) or isinstance(scale, bool) or not 0 < scale < 2.0**128:
        raise ValueError("a scale is not a positive number")
    if not isinstance(zero_point, int) or isinstance(zero_point, bool) or not -(2**31) <= zero_point < 2**31:
        raise ValueError("a zero point is not an int32")
    return IoQParams(float(scale), zero_point)


def require_target(info: PteInfo, target: str, name: str) -> None:
    """Refuses a file that was planned for a target other than `target` (a target string)."""
    if info.metadata is None:
        raise CortadoError(
            f"{name} does not say which target it was compiled for, expected {target}: Cortado did not write it. "
            f"Compile the model with `cortado compile MODEL --target {target}`."
        )
    found = info.metadata.target
    if found not in (target, _ANY_TARGET):
        raise CortadoError(
            f"{name} was compiled for {found}, expected {target}. Compile it again with `--target {target}`, "
            f"or with `--target {_ANY_TARGET}` for a file that runs on every Cortex-M."
        )
