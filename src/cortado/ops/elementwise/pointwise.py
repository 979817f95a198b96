"""Functions of one tensor, element by element: every such piece of a graph becomes one 256-entry table.

`where(x > 0, x, 0.1 * x)`, `x * sigmoid(x)` and `x * relu6(x + 3) / 6` are such pieces just as `tanh(x)` is. Pieces are
found in the float graph, before quantization, so that no edge inside a piece gets quantization parameters. A piece of
more than one call becomes one `cortado::pointwise` node that holds its calls as text.
"""

import json
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Graph, GraphModule, Node

from cortado.ir.facts import VALUE, dtype, holds_integers, is_float32, wanted_element
from cortado.ir.graph import Bound, add_call, bind, is_call, sole_user
from cortado.ir.matching import Match, find, patterns_of
from cortado.ir.schemas import Functions
from cortado.ops.meaning import CallKind, calls

Tensor = torch.Tensor
aten = torch.ops.aten

# ---- which calls are pointwise -------------------------------------------------------------------------------

_SEVERAL = (  # kinds of calls that can read several tensors
    CallKind.SUM,
    CallKind.PRODUCT,
    CallKind.QUOTIENT,
    CallKind.MAXIMUM,
    CallKind.MINIMUM,
    CallKind.SELECT,
    CallKind.COMPARE,
    CallKind.NOT,
    CallKind.COMBINATION,
)
_ONE = (CallKind.FUNCTION, CallKind.EXPONENTIAL, CallKind.WITHOUT_NAN)
_CONVERSIONS = (aten.to.dtype, aten._to_copy.default)


def _tensor_arguments(target: OpOverload) -> int:
    return sum("Tensor" in str(argument.type) for argument in target._schema.arguments)


FUNCTIONS: frozenset[OpOverload] = frozenset(
    [target for target in calls(*_ONE) if _tensor_arguments(target) == 1] + [aten.positive.default]  # a copy
)
COMBINATIONS: frozenset[OpOverload] = frozenset([*calls(*_ONE, *_SEVERAL), *_CONVERSIONS]) - FUNCTIONS

_FILLED = {  # tensors of one value -> the argument that holds it, or the value
    aten.full.default: "fill_value",
    aten.full_like.default: "fill_value",
    aten.scalar_tensor.default: "s",
    aten.zeros.default: 0,
    aten.zeros_like.default: 0,
    aten.ones.default: 1,
    aten.ones_like.default: 1,
}
_LARGEST_UNIFORM = 2**16  # larger constants are not checked for holding only one value


# ---- a piece as text -----------------------------------------------------------------------------------------

_LIBRARY = Functions()
_LIBRARY.define("pointwise(Tensor input, str function) -> Tensor")


@dataclass(frozen=True)
class _Value:
    """The result of an earlier call of a piece: 0 is the piece's input, i the result of call i - 1."""

    position: int


@cache
def _parsed(function: str) -> tuple[tuple[OpOverload, tuple[Any, ...], dict[str, Any]], ...]:
    def decoded(item: Any) -> Any:
        if isinstance(item, list):
            return [decoded(inner) for inner in item]
        if not isinstance(item, dict):
            return item
        if "value" in item:
            return _Value(item["value"])
        dtype = getattr(torch, item["dtype"])
        return torch.tensor(item["tensor"], dtype=dtype) if "tensor" in item else dtype

    calls = []
    for name, args, kwargs in json.loads(function):
        packet, overload = name.split(".")
        target = getattr(getattr(aten, packet), overload)
        calls.append((target, tuple(decoded(args)), {key: decoded(value) for key, value in kwargs.items()}))
    return tuple(calls)


def computed(input: Tensor, function: str) -> Tensor:
    """Evaluates a piece, given as text, on these values."""
    return _values(input, function)[-1]


def _run(input: Tensor, function: str) -> Tensor:
    return computed(input, function).to(torch.float32)


def _values(input: Tensor, function: str) -> list[Tensor]:
    """Returns these values, followed by the results of a piece's calls on them."""
    values: list[Tensor] = [input]

    def value(item: Any) -> Any:
        if isinstance(item, list):
            return [value(inner) for inner in item]
        return values[item.position] if isinstance(item, _Value) else item

    for target, args, kwargs in _parsed(function):
        values.append(target(*(value(a) for a in args), **{k: value(v) for k, v in kwargs.items()}))
    return values


_LIBRARY.impl("pointwise", _run, "CompositeExplicitAutograd")
_LIBRARY.impl("pointwise", lambda input, function: torch.empty_like(input, dtype=torch.float32), "Meta")

POINTWISE: OpOverload = torch.ops.cortado.pointwise.default


def last_call(node: Node) -> Any:
    """Returns the target of the call whose result a pointwise node returns."""
    return _parsed(bind(node)["function"])[-1][0] if is_call(node, POINTWISE) else node.target


def calls_of(node: Node) -> tuple[OpOverload, ...]:
    """Returns the targets of the calls that a pointwise node is made of."""
    return tuple(target for target, _, _ in _parsed(bind(node)["function"])) if is_call(node, POINTWISE) else ()


def is_table(node: Node) -> bool:
    """Whether a call is a function of one tensor, computed by table lookup."""
    return node.target in FUNCTIONS or node.target == POINTWISE


def function_of(node: Node) -> Callable[[Tensor], Tensor]:
    """Returns the function that a call of FUNCTIONS or a pointwise node computes, on any float tensor."""
    target: Any = node.target
    others = {name: value for name, value in bind(node).values.items() if not isinstance(value, Node)}
    name = operand_name(node)
    return lambda values: target(**{name: values, **others})


def operand_name(node: Node) -> str:
    """Returns the name of the only tensor argument."""
    return next(name for name, value in bind(node).values.items() if isinstance(value, Node))


# ---- constants of a float graph ------------------------------------------------------------------------------


def attribute(node: Node) -> Tensor | None:
    """Returns the tensor of a get_attr node; None for anything else."""
    value: Any = node.graph.owning_module if node.op == "get_attr" else None
    for part in str(node.target).split(".") if value is not None else ():
        value = getattr(value, part, None)
    return value.detach() if isinstance(value, Tensor) else None


# ---- finding pieces ------------------------------------------------------------------------------------------


def is_elementwise(target: Any) -> bool:
    """Whether calls of a target work element by element."""
    return target in FUNCTIONS or target in COMBINATIONS


def is_pointwise(node: Node) -> bool:
    """Whether a call can be part of a table; in float32 there are no tables."""
    return node.op == "call_function" and is_elementwise(node.target) and not wanted_element(node).floating


def uniform_value(node: Node) -> float | int | bool | None:
    """Returns the value of a constant tensor with only one value; None for anything else."""
    if node.op == "get_attr":
        data = attribute(node)
        if data is None or not 1 <= data.numel() <= _LARGEST_UNIFORM or bool((data != data.reshape(-1)[0]).any()):
            return None
        first: float | int | bool = data.reshape(-1)[0].item()
        return first
    if node.op == "call_function" and node.target in _FILLED:
        where = _FILLED[node.target]
        value = bind(node)[where] if isinstance(where, str) else where
        return value if isinstance(value, bool | int | float) else None
    return None


def operands(node: Node) -> list[Node]:
    """Returns the tensors that a call depends on, except constants with a single value."""
    return [parent for parent in node.all_input_nodes if uniform_value(parent) is None]


def sources(graph: Graph, cut: Collection[Node] = ()) -> dict[Node, Node]:
    """Maps every node of a piece to the tensor it is a function of. Nodes in `cut` belong to no piece.

    A shape that differs from its source's would mean broadcasting, which is not a function of one element.
    """
    found: dict[Node, Node] = {}
    for node in graph.nodes:
        if node in cut or not is_pointwise(node):
            continue
        roots = {found.get(parent, parent) for parent in operands(node)}
        if len(roots) == 1:
            root = roots.pop()
            if (
                root.op != "get_attr"
                and (is_float32(root) or is_bytes(root))
                and VALUE.must(root).shape == VALUE.must(node).shape
            ):
                found[node] = root
    return found


def is_bytes(node: Node) -> bool:
    """Whether a node is an 8-bit input, so that any function of it is a table, or only moves the bytes of one."""
    if not holds_integers(node) or dtype(node).itemsize != 1 or node.op == "placeholder":
        return node.op == "placeholder" and holds_integers(node) and dtype(node).itemsize == 1
    moves = dtype(node) != torch.bool and any(pattern.moves for pattern in patterns_of(node.target))
    moved = bind(node).nodes(next(iter(bind(node).values))) if moves else []
    return bool(moved) and all(map(is_bytes, moved)) and isinstance(find(node), Match)


def gives_truth(node: Node) -> bool:
    """Whether a pointwise node returns truth values, as the real numbers 0 and 1."""
    if not is_call(node, POINTWISE):
        return False
    *calls, last = _parsed(bind(node)["function"])
    if last[0] not in _CONVERSIONS or not calls:
        return False
    before = json.dumps(json.loads(bind(node)["function"])[:-1])
    source = node.all_input_nodes[0]
    kind = dtype(source) if holds_integers(source) else torch.float32  # codes represent real numbers
    return _values(torch.zeros(1, dtype=kind), before)[-1].dtype == torch.bool


def merge_pieces(module: GraphModule, cut: Collection[Node] = ()) -> None:
    """Replaces every piece of several calls, or of arithmetic with constants, by one pointwise node."""
    found = sources(module.graph, cut)
    ends = [node for node in found if is_float32(node) and any(found.get(u) is not found[node] for u in node.users)]
    # All texts first: replacing one end would change the nodes that another text is made from.
    texts = [text_of(node, found[node]) for node in ends]
    for node, text in zip(ends, texts, strict=True):
        if text is not None:
            with module.graph.inserting_before(node):
                node.replace_all_uses_with(add_call(node, POINTWISE, found[node], text))
    module.graph.eliminate_dead_code()


def text_of(end: Node, root: Node) -> str | None:
    """Returns the piece from root to end as text; None if it is a single call that needs no other form."""
    if end.target in FUNCTIONS and end.all_input_nodes == [root]:
        return None
    positions: dict[Node, int] = {root: 0}
    calls: list[Any] = []

    def encoded(item: Any) -> Any:
        if isinstance(item, list | tuple):
            return [encoded(inner) for inner in item]
        if isinstance(item, torch.dtype):
            return {"dtype": str(item).removeprefix("torch.")}
        if not isinstance(item, Node):
            return item if isinstance(item, bool | int | float | str) else None
        constant = uniform_value(item)
        if constant is not None:
            return {"tensor": constant, "dtype": str(dtype(item)).removeprefix("torch.")}
        return {"value": positions[item]}

    for node in _between(root, end):
        target: Any = node.target
        calls.append(
            [target.__name__, encoded(list(node.args)), {key: encoded(value) for key, value in node.kwargs.items()}]
        )
        positions[node] = len(calls)
    return json.dumps(calls, separators=(",", ":"))


def _between(root: Node, end: Node) -> list[Node]:
    """Returns the nodes of a piece in topological order."""
    order: list[Node] = []
    seen = {root}
    stack = [(end, False)]
    while stack:
        node, ready = stack.pop()
        if ready:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack.extend((parent, False) for parent in reversed(operands(node)))
    return order


# ---- clamps --------------------------------------------------------------------------------------------------

CLAMPS = (
    aten.relu.default,
    aten.relu6.default,
    aten.hardtanh.default,
    aten.clamp.default,
    aten.clamp_min.default,
    aten.clamp_max.default,
)


def _number(value: Any, default: float) -> float:
    return default if value is None else float(value)


def clamp_bounds(bound: Bound) -> tuple[float, float]:
    """Returns (low, high) of a call of relu, relu6, hardtanh or clamp."""
    target = bound.node.target
    if target == aten.relu.default:
        return 0.0, math.inf
    if target == aten.relu6.default:
        return 0.0, 6.0
    if target == aten.hardtanh.default:
        return float(bound["min_val"]), float(bound["max_val"])
    return _number(bound.get("min"), -math.inf), _number(bound.get("max"), math.inf)


def is_clamp(node: Node) -> tuple[float, float] | None:
    """Returns (low, high) if the node only clamps its input; a clamp with low > high is left to the table."""
    if node.op != "call_function" or node.target not in CLAMPS:
        return None
    low, high = clamp_bounds(bind(node))
    return (low, high) if low <= high else None


def hoist_clamps(module: GraphModule, fuses: Callable[[Node], bool]) -> None:
    """Moves clamps up: conv -> max_pool -> relu becomes conv -> relu -> max_pool, if `fuses(conv)` says that conv fuses
    it."""
    for node in list(module.graph.nodes):
        if is_clamp(node) is not None:
            chain = _movers_above(node)
            if chain and fuses(chain[-1].all_input_nodes[0]):
                _hoist(node, chain)


def _movers_above(node: Node) -> list[Node]:
    """Returns the data movement and max-pooling directly above a node, nearest first, if nothing else reads them."""
    chain: list[Node] = []
    parent = node.all_input_nodes[0]
    while any(pattern.monotone for pattern in patterns_of(parent.target)) and sole_user(parent) is not None:
        chain.append(parent)
        parent = parent.all_input_nodes[0]
    return chain if sole_user(parent) is not None else []


def _hoist(clamp: Node, chain: list[Node]) -> None:
    first, kernel = chain[-1], chain[-1].all_input_nodes[0]
    rest: Mapping[str, Any] = {k: v for k, v in bind(clamp).values.items() if not isinstance(v, Node)}
    with clamp.graph.inserting_before(first):
        moved = add_call(clamp, clamp.target, kernel, **rest)
    first.replace_input_with(kernel, moved)
    clamp.replace_all_uses_with(chain[0])
    clamp.graph.erase_node(clamp)
