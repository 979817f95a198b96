"""Functions of one tensor, element by element: every such piece of a graph becomes one 256-entry table.

`sources(graph)` tells for each node of a piece the one tensor it depends on. `where(x > 0, x, 0.1 * x)`,
`x * sigmoid(x)` and `relu6(x + 3) / 6` are such pieces just as `tanh(x)` is.
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import Graph, Node

from cortado.graph import Bound, bind

aten = torch.ops.aten

_UNARY_NAMES = (
    "relu relu6 hardtanh clamp clamp_min clamp_max sigmoid tanh silu gelu hardswish hardsigmoid leaky_relu elu selu "
    "celu mish softplus softsign exp exp2 expm1 log log2 log10 log1p sqrt rsqrt abs neg sin cos tan asin acos atan "
    "sinh cosh reciprocal erf square sign floor ceil round trunc threshold log_sigmoid logit hardshrink softshrink "
    "tanhshrink"
).split()
_MIXED_NAMES = (
    "add sub mul div rsub pow gt ge lt le eq ne where maximum minimum logical_and logical_or logical_not".split()
)
_NOT_POINTWISE = {"div": ("Tensor_mode",)}


def _overloads(names: list[str]) -> frozenset[Any]:
    found = set()
    for name in names:
        packet = getattr(aten, name, None)
        if packet is None:
            continue
        for overload in packet.overloads():
            if "out" not in overload:
                found.add(getattr(packet, overload))
    return frozenset(found)


POINTWISE = _overloads(_UNARY_NAMES) | _overloads(_MIXED_NAMES)


def _parents(node: Node) -> list[Node]:
    """The tensor operands that are not single constant numbers."""
    return [parent for parent in node.all_input_nodes if not _is_scalar_constant(parent)]


def _is_scalar_constant(node: Node) -> bool:
    value = node.meta.get("val")
    return node.op == "get_attr" and isinstance(value, torch.Tensor) and value.numel() == 1


def source(node: Node, cut: Mapping[Node, Any] | None = None) -> Node | None:
    """The one tensor a pointwise piece ending in `node` is a function of; None when there is no such piece.

    Nodes in `cut` are taken as tensors of their own: the walk upwards stops there.
    """
    if node.op != "call_function" or node.target not in POINTWISE:
        return None
    roots: set[Node] = set()
    for parent in _parents(node):
        above = None if cut is not None and parent in cut else source(parent, cut)
        roots.add(parent if above is None else above)
    return roots.pop() if len(roots) == 1 else None


def sources(graph: Graph) -> dict[Node, Node]:
    """Every node of a pointwise piece -> the tensor it is a function of.

    A shape that differs from its source's would mean broadcasting, which is no function of one element.
    """
    found: dict[Node, Node] = {}
    for node in graph.nodes:
        if node.op != "call_function" or node.target not in POINTWISE:
            continue
        roots = {found.get(parent, parent) for parent in _parents(node)}
        if len(roots) == 1:
            root = roots.pop()
            if node.meta["val"].shape == root.meta["val"].shape and root.meta["val"].is_floating_point():
                found[node] = root
    return found


def evaluate(node: Node, root: Node, values: torch.Tensor, constants: Mapping[Node, torch.Tensor]) -> torch.Tensor:
    """The piece from `root` to `node`, in float32, on these values of root."""
    known: dict[Node, torch.Tensor] = {root: values}

    def value(item: Any) -> Any:
        if not isinstance(item, Node):
            return item
        if item in constants:
            return constants[item].reshape(())
        if item not in known:
            args = [value(argument) for argument in item.args]
            known[item] = item.target(*args, **{k: value(v) for k, v in item.kwargs.items()})  # type: ignore[operator]
        return known[item]

    result: torch.Tensor = value(node)
    return result.to(torch.float32)


_UNBOUNDED = (-math.inf, math.inf)


def _number(value: Any, default: float) -> float:
    return default if value is None else float(value)


def clamp_bounds(bound: Bound) -> tuple[float, float] | None:
    """(low, high) if the call only clamps its input: relu, relu6, hardtanh, clamp."""
    target = bound.node.target
    if target == aten.relu.default:
        return 0.0, math.inf
    if target == aten.relu6.default:
        return 0.0, 6.0
    if target == aten.hardtanh.default:
        return float(bound["min_val"]), float(bound["max_val"])
    if target in (aten.clamp.default, aten.clamp_min.default, aten.clamp_max.default):
        return _number(bound.get("min"), -math.inf), _number(bound.get("max"), math.inf)
    return None


def is_clamp(node: Node) -> tuple[float, float] | None:
    return clamp_bounds(bind(node)) if node.op == "call_function" and node.target in POINTWISE else None
