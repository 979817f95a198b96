"""Dynamic shapes: whether a float graph can be rewritten for quantization without fixing the sizes of its example.

A graph exported with dynamic shapes is run with other sizes before and after the rewriting. If the shapes of its
outputs change, some call has taken a size of the example for a constant, and the graph stays as it was, in float.
"""

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch._subclasses.fake_tensor import FakeTensorMode, log
from torch.fx import GraphModule
from torch.utils import _pytree as pytree

from cortado.ir.facts import VALUE, FactKey
from cortado.ir.graph import symbolic_sizes

DYNAMIC = (
    "the model has a dynamic shape ({}), which quantizing would fix, so it stays in float; to quantize it, export it "
    "without dynamic_shapes"
)
LEFT: FactKey[bool] = FactKey("left_in_float")  # of the output node of a graph that is not quantized

_Sizes: TypeAlias = Sequence[Sequence[int]]  # of each input
_Shapes: TypeAlias = tuple[torch.Size, ...]  # of each output


def rewrite_if_sizes_stay_open(model: GraphModule, rewrite: Callable[[GraphModule], None]) -> None:
    """Rewrites a graph in place; restores a dynamic one, with a warning, if that would fix its sizes."""
    dynamic = next((str(size) for node in model.graph.nodes for size in symbolic_sizes(VALUE.of(node))), None)
    if dynamic is None:
        rewrite(model)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # torch's copy of a graph uses what torch deprecates
        as_given, example = copy.deepcopy(model.graph), _other_example(model)
    rewrite(model)
    if example is None or _output_shapes(model, example.sizes) != example.shapes:
        warnings.warn(DYNAMIC.format(dynamic), stacklevel=3)
        LEFT.note(as_given.output_node(), True)
        model.graph = as_given


def is_left_in_float(model: GraphModule) -> bool:
    """Returns whether a graph was restored because its sizes would have been fixed."""
    return LEFT.known(model.graph.output_node())


@dataclass(frozen=True)
class _Example:
    """Sizes of a dynamic graph's inputs that differ from the exported ones, and the shapes of the outputs for them."""

    sizes: _Sizes
    shapes: _Shapes


def _other_example(model: GraphModule) -> _Example | None:
    """Returns an example whose dynamic sizes are one larger, twice as large or one smaller, the first that the model
    takes; None if it takes none of them."""
    given = [VALUE.must(node).shape for node in model.graph.nodes if node.op == "placeholder"]
    hints = [[(size, getattr(getattr(size, "node", None), "hint", None)) for size in sizes] for sizes in given]
    for other in (lambda hint: hint + 1, lambda hint: 2 * hint, lambda hint: hint - 1):
        sizes = [[int(size) if hint is None else other(hint) for size, hint in one] for one in hints]
        shapes = _output_shapes(model, sizes)
        if shapes is not None:
            return _Example(sizes, shapes)
    return None


def _output_shapes(model: GraphModule, sizes: _Sizes) -> _Shapes | None:
    """Returns the shapes of the outputs for inputs of these sizes; None if the model can't be run with them."""
    types = [VALUE.must(node).dtype for node in model.graph.nodes if node.op == "placeholder"]
    log.disabled = True  # it prints every failure
    try:
        with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
            found = model(*(torch.empty(one, dtype=dtype) for one, dtype in zip(sizes, types, strict=True)))
    except Exception:  # torch raises many kinds for a size that does not fit
        return None
    finally:
        log.disabled = False
    return tuple(one.shape for one in pytree.tree_leaves(found))
