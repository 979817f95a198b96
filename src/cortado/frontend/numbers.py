"""Arguments of forward that are Python's own: numbers among the example inputs are constants of the model, as for
torch.export, and None among its outputs is nothing that a compiled model computes."""

import copy
import inspect
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule
from torch.utils import _pytree as pytree

from cortado.base.errors import CortadoError
from cortado.ir.graph import output_node

Tensor = torch.Tensor
_NUMBERS = (bool, int, float)


def _given(kind: type[torch.nn.Module], inputs: Sequence[Any]) -> type[torch.nn.Module]:
    """A class of modules whose forward takes the tensors among these inputs, and is given the numbers."""
    numbers = [None if isinstance(value, Tensor) else value for value in inputs]

    def forward(self: Any, *tensors: Any) -> Any:
        given = iter(tensors)
        return kind.forward(self, *(next(given) if value is None else value for value in numbers))

    forward.__signature__ = _tensors_of(inspect.signature(kind.forward), inputs)  # type: ignore[attr-defined]
    return type(kind.__name__, (kind,), {"forward": forward})


def _tensors_of(signature: inspect.Signature, inputs: Sequence[Any]) -> inspect.Signature:
    """`self`, and the parameters that take tensors."""
    itself, *found = signature.parameters.values()
    named = [one for one in found if one.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    if len(named) < len(inputs):
        return signature  # *args takes any number of them
    kept = [one for one, value in zip(named, inputs, strict=False) if isinstance(value, Tensor)]
    return signature.replace(parameters=[itself, *(one.replace(default=inspect.Parameter.empty) for one in kept)])


def with_numbers(model: Any, inputs: Any) -> tuple[Any, Any]:
    """The model as a function of its tensors alone, and these; as they are where there is no number among them."""
    if not isinstance(model, torch.nn.Module) or not _has_numbers(inputs):
        return model, inputs
    bound = copy.copy(model)
    bound.__class__ = _given(type(model), inputs)
    return bound, tuple(value for value in inputs if isinstance(value, Tensor))


def _has_numbers(inputs: Any) -> bool:
    """A tuple of tensors with numbers beside them; anything else is dealt with elsewhere."""
    if not isinstance(inputs, tuple | list) or not any(isinstance(value, Tensor) for value in inputs):
        return False
    found = any(isinstance(value, _NUMBERS) for value in inputs)
    return found and all(isinstance(value, (Tensor, *_NUMBERS)) for value in inputs)


def without_numbers(batches: Any, inputs: Any) -> Any:
    """Calibration inputs without the numbers that the example has too: the model is compiled for these."""
    if not _has_numbers(inputs) or isinstance(batches, Tensor) or not isinstance(batches, Iterable):
        return batches
    return [_tensors(number, batch, inputs) for number, batch in enumerate(batches)]


def _tensors(number: int, batch: Any, inputs: Sequence[Any]) -> Any:
    if not isinstance(batch, tuple | list) or len(batch) != len(inputs):
        return batch
    for position, (value, example) in enumerate(zip(batch, inputs, strict=True)):
        if not isinstance(example, Tensor) and (isinstance(value, Tensor) or value != example):
            raise CortadoError(
                f"calibration batch {number} has {value!r} as input {position}, expected {example!r}: a number among "
                "the example inputs is a constant of the compiled model"
            )
    return tuple(value for value, example in zip(batch, inputs, strict=True) if isinstance(example, Tensor))


# ---- outputs -----------------------------------------------------------------------------------------------------


def drop_nones(module: GraphModule) -> tuple[int, ...]:
    """Takes None out of what a graph returns; the places where it was."""
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
