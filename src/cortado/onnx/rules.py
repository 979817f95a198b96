"""All builders, and the validation of nodes before a builder sees them: by ONNX's schemas, and by builders'
declarations.

The schema defines the number of inputs and outputs, which are required, and the types of attributes; a builder's
declaration defines which values it supports.
"""

import math
from collections.abc import Mapping
from functools import cache
from typing import Any

from cortado.onnx import elementwise, layers, ml, movement, pools, quantized
from cortado.onnx.node import REGISTRY, Node, Registered

FAMILIES = (elementwise, layers, ml, movement, pools, quantized)  # importing them fills the registry

_MICROSOFT = "com.microsoft"
_TYPES: Mapping[str, Any] = {
    "FLOAT": float,
    "INT": int,
    "STRING": bytes,
    "FLOATS": (list, float),
    "INTS": (list, int),
    "STRINGS": (list, bytes),
}


def registered() -> Mapping[str, Registered]:
    """Returns the ONNX operators that can be read, by name."""
    return REGISTRY


def check(node: Node, declared: Registered) -> None:
    """Refuses a node that its operator's schema or its builder's declaration does not allow."""
    if node.domain not in declared.domains:
        node.refuse(
            f"it is {node.domain}.{node.kind}",
            "standard ONNX operators; export the model without a runtime's own operators (no graph optimizations "
            "before saving)",
        )
    if node.domain != _MICROSOFT:
        _check_schema(node)
    for name, value in node.attributes.items():
        _check_value(node, name, value, declared)


@cache
def _schema(kind: str, opset: int, domain: str) -> Any:
    import onnx

    try:
        return onnx.defs.get_schema(kind, opset, domain)
    except onnx.defs.SchemaError:
        return None


@cache
def _attributes(kind: str, opset: int, domain: str) -> Mapping[str, Any]:
    return dict(_schema(kind, opset, domain).attributes)


def _check_schema(node: Node) -> None:
    place = (node.kind, node.opset, node.domain)
    schema = _schema(*place)
    if schema is None:
        node.refuse(
            f"{node.kind} in a file of opset {node.opset}",
            "an operator of that opset; export the model for a newer one",
        )
    if not schema.min_input <= len(node.inputs) <= schema.max_input:
        node.refuse(f"{len(node.inputs)} inputs", _between(schema.min_input, schema.max_input))
    if not schema.min_output <= node.declared_outputs <= schema.max_output:
        node.refuse(f"{node.declared_outputs} outputs", _between(schema.min_output, schema.max_output))
    for position, value in enumerate(node.inputs):
        formal = schema.inputs[min(position, len(schema.inputs) - 1)]
        if value is None and formal.option != type(formal.option).Optional:
            node.refuse(f"input {position} is missing", "a tensor")
    known = _attributes(*place)
    for name, value in node.attributes.items():
        if name not in known:
            node.refuse(f"attribute '{name}'", f"one of {sorted(known)} (opset {node.opset})")
        _check_type(node, name, value, known[name].type.name)
    missing = next((name for name, one in known.items() if one.required and name not in node.attributes), None)
    if missing is not None:
        node.refuse(f"it has no attribute '{missing}'", "one")


def _between(least: int, most: int) -> str:
    return f"{least}" if least == most else f"{least} to {most}" if most < 1 << 30 else f"at least {least}"


def _check_type(node: Node, name: str, value: Any, kind: str) -> None:
    wanted = _TYPES.get(kind)
    if wanted is None:  # tensors and graphs: the builder checks them
        return
    if isinstance(wanted, tuple):
        fits = isinstance(value, list) and all(isinstance(one, wanted[1]) for one in value)
    else:
        fits = isinstance(value, wanted)
    if not fits:
        node.refuse(f"attribute '{name}' is {type(value).__name__}", f"{kind.lower()} as ONNX has it")


def _check_value(node: Node, name: str, value: Any, declared: Registered) -> None:
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, float) and not (math.isfinite(one) or (name in declared.infinite and not math.isnan(one))):
            node.refuse(f"attribute '{name}' is {one}", "a finite number")
        if isinstance(one, int) and name in declared.least and one < declared.least[name]:
            node.refuse(f"attribute '{name}' holds {one}", f"at least {declared.least[name]}")
        if isinstance(one, bytes) and name in declared.among:
            text = one.decode("utf-8", "replace")
            if text not in declared.among[name]:
                node.refuse(f"{name} '{text[:40]}'", f"one of {', '.join(declared.among[name])}")
