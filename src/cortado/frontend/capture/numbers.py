"""Arguments and results of forward that are not tensors. Numbers and None among the example inputs are constants of the
model, as for torch.export; tuples, lists and dictionaries of tensors, such as the (h, c) of an LSTM, are flattened into
inputs. None among the outputs is dropped. A number computed from a tensor's values doesn't exist in a compiled model;
where it only selects a row, the tensor itself is used as the index."""

import copy
import inspect
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

from cortado.base.errors import CortadoError
from cortado.frontend.capture.inputs import ending
from cortado.frontend.rewrite.writes import written
from cortado.ir.facts import dtype
from cortado.ir.graph import add_call, bind, is_call, output_node, shape
from cortado.ops.float_graph import add_view, out_of_place

Tensor = torch.Tensor
aten = torch.ops.aten
_NUMBERS = (bool, int, float)


def _given(kind: type[torch.nn.Module], inputs: Sequence[Any]) -> type[torch.nn.Module]:
    """Returns a class of modules whose forward takes only the tensors among these inputs, the rest being fixed."""
    leaves, spec = pytree.tree_flatten(tuple(inputs))
    rest = [(isinstance(value, Tensor), None if isinstance(value, Tensor) else value) for value in leaves]

    def forward(self: Any, *tensors: Any) -> Any:
        given = iter(tensors)
        values = [next(given) if is_tensor else value for is_tensor, value in rest]
        return kind.forward(self, *pytree.tree_unflatten(values, spec))

    forward.__signature__ = _tensors_of(inspect.signature(kind.forward), inputs)  # type: ignore[attr-defined]
    return type(kind.__name__, (kind,), {"forward": forward})


def _tensors_of(signature: inspect.Signature, inputs: Sequence[Any]) -> inspect.Signature:
    """Returns the signature with `self` and the parameters that take tensors."""
    itself, *found = signature.parameters.values()
    named = [one for one in found if one.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    if len(named) < len(inputs):
        return signature  # *args takes any number of tensors
    kept = [name for one, value in zip(named, inputs, strict=False) for name in _names(one.name, value)]
    if len(set(kept)) < len(kept):
        return signature
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return signature.replace(parameters=[itself, *(inspect.Parameter(name, kind) for name in kept)])


def _names(name: str, value: Any) -> list[str]:
    """Returns a name for each tensor in an argument."""
    if isinstance(value, Tensor):
        return [name]
    count = sum(isinstance(leaf, Tensor) for leaf in pytree.tree_leaves(value))
    return [f"{name}_{position}" for position in range(count)]


def with_numbers(model: Any, inputs: Any) -> tuple[Any, Any]:
    """Returns the model as a function of its tensors alone, and these tensors; unchanged if all inputs are tensors."""
    if not isinstance(model, torch.nn.Module) or not _has_others(inputs):
        return model, inputs
    bound = copy.copy(model)
    bound.__class__ = _given(type(model), inputs)
    return bound, tuple(value for value in pytree.tree_leaves(tuple(inputs)) if isinstance(value, Tensor))


def _has_others(inputs: Any) -> bool:
    """Whether inputs are tensors mixed with numbers and None, or nested; other inputs are handled elsewhere."""
    if not isinstance(inputs, tuple | list) or all(isinstance(value, Tensor) for value in inputs):
        return False
    leaves = pytree.tree_leaves(tuple(inputs))
    known = all(value is None or isinstance(value, (Tensor, *_NUMBERS)) for value in leaves)
    return known and any(isinstance(value, Tensor) for value in leaves)


def without_numbers(batches: Any, inputs: Any) -> Any:
    """Returns the tensors of calibration inputs; other values must equal the example's, for which the model is
    compiled."""
    if not _has_others(inputs) or isinstance(batches, Tensor) or not isinstance(batches, Iterable):
        return batches
    return [_tensors(number, batch, inputs) for number, batch in enumerate(ending(batches))]


def _tensors(number: int, batch: Any, inputs: Sequence[Any]) -> Any:
    given, spec = pytree.tree_flatten(tuple(batch) if isinstance(batch, list) else batch)
    wanted, expected = pytree.tree_flatten(tuple(inputs))
    if spec != expected:
        return batch
    for position, (value, example) in enumerate(zip(given, wanted, strict=True)):
        if not isinstance(example, Tensor) and (isinstance(value, Tensor) or value != example):
            raise CortadoError(
                f"calibration batch {number} has {value!r} as input {position}, expected {example!r}: a number among "
                "the example inputs is a constant of the compiled model"
            )
    return tuple(value for value, example in zip(given, wanted, strict=True) if isinstance(example, Tensor))


# ---- outputs -----------------------------------------------------------------------------------------------------


def drop_nones(module: GraphModule) -> tuple[int, ...]:
    """Removes None from the outputs of a graph; returns the positions where it was."""
    output = output_node(module.graph)
    returned: Any = output.args[0]
    leaves = list(returned) if isinstance(returned, list | tuple) else [returned]
    places = tuple(position for position, value in enumerate(leaves) if value is None)
    if places:
        kept = tuple(value for value in leaves if value is not None)
        output.args = (kept,)
        codegen: Any = module.graph._codegen
        codegen.pytree_info = codegen.pytree_info._replace(out_spec=pytree.tree_structure(tuple(0 for _ in kept)))
        module.recompile()
    return places


# ---- positions ---------------------------------------------------------------------------------------------------


def keep_positions(module: GraphModule) -> None:
    """Rewrites `x[i]` by a tensor i of rank 0, for which torch takes i as a number, back to an index by the tensor."""
    for item in [node for node in module.graph.nodes if is_call(node, aten.item.default)]:
        source, chosen = item.all_input_nodes[0], [user for user in item.users if _chooses(user, item)]
        if dtype(source).is_floating_point or dtype(source) == torch.bool or len(chosen) < len(item.users):
            continue
        for select in chosen:
            _choose(select, source)
        module.graph.erase_node(item)
    module.recompile()


def _chooses(user: Node, item: Node) -> bool:
    if not is_call(user, aten.select.int):
        return False
    bound = bind(user)
    return bound["index"] is item and bound["self"] is not item


def _choose(select: Node, position: Node) -> None:
    """Selects one row by a tensor index; writes into the row become writes into the tensor at that index."""
    bound = bind(select)
    source: Node = bound["self"]
    dim = int(bound["dim"]) % len(shape(source))
    rest = [size for axis, size in enumerate(shape(source)) if axis != dim]
    with select.graph.inserting_before(select):
        place = [*[None] * dim, add_view(select, position, (1,))]
        found = add_view(select, add_call(select, aten.index.Tensor, source, place), rest)
    for user in list(select.users):
        if select in written(user):
            target: Any = out_of_place(user.target)  # type: ignore[arg-type]
            with select.graph.inserting_before(user):
                new = add_call(user, target, found, *user.args[1:], **user.kwargs)
                row = add_view(user, new, (*rest[:dim], 1, *rest[dim:]))
                add_call(user, aten.index_put_.default, source, place, row)
            user.replace_all_uses_with(new)
            select.graph.erase_node(user)
            found = new
        else:
            user.replace_input_with(select, found)
    select.graph.erase_node(select)
