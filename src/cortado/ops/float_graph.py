"""Helpers for rewriting the float graph: constants, views and windows."""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import GraphModule, Node

from cortado.ir.facts import TRAINED, VALUE
from cortado.ir.graph import add_call, fake_mode_of, is_call, shape
from cortado.ir.op import Decomposition

aten = torch.ops.aten

Tensor = torch.Tensor


def is_constant(node: Any) -> bool:
    return isinstance(node, Node) and node.op == "get_attr"


def constant_data(node: Node) -> Tensor:
    """Returns the tensor that a constant of the float graph holds."""
    data: Tensor = _attribute(node).detach()
    return data


def is_parameter(node: Any) -> bool:
    """Whether a constant of the float graph is a parameter of the user's model, as training left it."""
    return is_constant(node) and isinstance(_attribute(node), torch.nn.Parameter)


def note_trained(module: GraphModule) -> None:
    """Notes which calls read parameters."""
    for node in module.graph.nodes:
        if node.op == "call_function" and any(map(is_parameter, node.all_input_nodes)):
            TRAINED.note(node, True)


def _attribute(node: Node) -> Any:
    value: Any = node.graph.owning_module
    for part in str(node.target).split("."):
        value = getattr(value, part)
    return value


def add_constant(like: Node, name: str, data: Tensor) -> Node:
    """Adds a constant to the float graph, at the current insertion point."""
    module = like.graph.owning_module
    assert isinstance(module, GraphModule)
    unique, number = f"{like.name}_{name}", 0
    while hasattr(module, unique):
        number += 1
        unique = f"{like.name}_{name}_{number}"
    data = data.detach().contiguous()
    module.register_buffer(unique, data)
    node = like.graph.get_attr(unique)
    mode = fake_mode_of(like.graph)
    VALUE.note(node, data if mode is None else mode.from_tensor(data, static_shapes=True))
    return node


def add_view(like: Node, node: Node, sizes: Sequence[int]) -> Node:
    """Adds a reshape, unless the node already has that shape."""
    if shape(node) == tuple(sizes):
        return node
    return add_call(like, aten.reshape.default, node, list(sizes))


def add_permute(like: Node, node: Node, order: Sequence[int]) -> Node:
    return node if list(order) == sorted(order) else add_call(like, aten.permute.default, node, list(order))


def replace_result(node: Node, position: int, new: Node) -> None:
    """Makes all readers of one of several results read `new` instead."""
    for part in parts_of(node, position):
        part.replace_all_uses_with(new)


def parts_of(node: Node, position: int) -> list[Node]:
    """Returns the getitem calls that select one of several results."""
    return [user for user in node.users if is_call(user, operator.getitem) and user.args[1] == position]


def values_only(node: Node) -> list[Node] | None:
    """Returns the users of a (values, indices) pair that read its values; None if anything reads the indices."""
    users = [user for user in node.users if user.users]
    if not all(is_call(user, operator.getitem) and user.args[1] == 0 for user in users):
        return None
    return users


def replace_values(users: Sequence[Node], values: Node) -> None:
    for user in users:
        user.replace_all_uses_with(values)


def pair(value: Any) -> list[int]:
    """Returns a number, or a list of one or two of them, as [height, width]."""
    values = [int(item) for item in value] if isinstance(value, list | tuple) else [int(value)]
    return values * 2 if len(values) == 1 else values


def triple(value: Any) -> list[int]:
    """Returns a number, or a list of one or three of them, as [depth, height, width]."""
    values = [int(item) for item in value] if isinstance(value, list | tuple) else [int(value)]
    return values * 3 if len(values) == 1 else values


def height_one(value: Any, fill: int) -> list[int]:
    """Returns a 1-D parameter as that of a 2-D call on images of height 1: `fill` for the height."""
    return [fill, *([int(item) for item in value] if isinstance(value, list | tuple) else [int(value)])]


def make_out_of_place(node: Node) -> None:
    """Replaces relu_ by relu, and so on; the pass writes.py has already dealt with other readers of the overwritten
    tensor."""
    plain = out_of_place(node.target) if isinstance(node.target, OpOverload) else None
    if plain is not None:
        node.target = plain


def writes_in_place(target: OpOverload) -> bool:
    """Whether a call writes its first argument, as relu_ and __ior__ do; __or__, which is Python's |, does not."""
    first = target._schema.arguments[:1]
    return any(one.alias_info is not None and one.alias_info.is_write for one in first)


def out_of_place(target: OpOverload) -> OpOverload | None:
    """Returns relu for relu_; None if there is no out-of-place form."""
    if not writes_in_place(target):
        return None
    name = target._schema.name.removeprefix("aten::")
    plain_name = f"__{name[3:]}" if name.startswith("__i") else name.removesuffix("_")  # __or__ for __ior__
    packet = getattr(aten, plain_name, None)
    overloads: list[OpOverload] = [] if packet is None else [getattr(packet, name) for name in packet.overloads()]
    wanted = _signature(target)
    return next((plain for plain in overloads if _signature(plain) == wanted), None)


def _signature(target: OpOverload) -> list[tuple[str, str]]:
    """Returns the types of the arguments, and all names but the first, by which overloads are matched:
    transpose_.default is transpose.int, so overload names don't help, and dropout_ has a `self` where dropout has an
    `input`."""
    first, *others = target._schema.arguments
    return [("", str(first.type)), *((one.name, str(one.type)) for one in others)]


def decomposed(functions: Mapping[OpOverload, Callable[..., Any]]) -> tuple[Decomposition, ...]:
    """Returns decompositions that apply to float32 only."""
    return tuple(Decomposition(aten=(target,), function=one, floating=True) for target, one in functions.items())
