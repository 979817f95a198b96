"""Which model this is: a hash of what it computes, whatever its layers are called and wherever it was compiled."""

import hashlib
import json
from typing import Any

import torch

from cortado.base.names import ID_DIGITS
from cortado.plan.lowered import LoweredGraph, Ref, Value


def model_id(graph: LoweredGraph) -> str:
    """Sixteen hexadecimal digits that follow from calls, constants, scales and shapes; names don't count."""
    found = hashlib.sha256()
    names = _Numbers()
    text = {
        "inputs": [[names.of(name), _value(graph.values[name])] for name in graph.inputs],
        "state": [[names.of(one.name), _value(graph.values[one.name]), _data(one.initial)] for one in graph.state],
        "calls": [
            [
                call.operator,
                {name: _argument(value, graph, names) for name, value in sorted(call.arguments.items())},
                [names.of(name) if name else None for name in call.results or (call.name,)],
                [_value(graph.values[name]) for name in call.read if name in graph.values],
            ]
            for call in graph.calls
        ],
        "outputs": [names.of(name) for name in graph.outputs],
        "kept": [names.of(one.source) for one in graph.state],
    }
    found.update(json.dumps(text, sort_keys=True).encode())
    return found.hexdigest()[:ID_DIGITS]


class _Numbers:
    """Values by the order in which they are first spoken of."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def of(self, name: str) -> int:
        return self.known.setdefault(name, len(self.known))


def _value(value: Value) -> list[Any]:
    codes = None if value.qparams is None else [value.qparams.scale, value.qparams.zero_point]
    return [list(value.shape), value.element.name, codes]


def _data(tensor: torch.Tensor) -> list[Any]:
    data = tensor.detach().contiguous().numpy()
    return [str(data.dtype), list(data.shape), hashlib.sha256(data.tobytes()).hexdigest()]


def _argument(value: Any, graph: LoweredGraph, names: _Numbers) -> Any:
    if isinstance(value, list | tuple):
        return [_argument(item, graph, names) for item in value]
    if isinstance(value, Ref):
        return _data(graph.constants[value.name]) if value.name in graph.constants else {"value": names.of(value.name)}
    return value if isinstance(value, int | float | str | None) else str(value)
