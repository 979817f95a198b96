"""Values that a constant mask hides: nobody reads them, so they have no part in the range of the others."""

import torch
from torch.fx import GraphModule, Node

from cortado.frontend.observers import RangeObserver
from cortado.ir.graph import bind, is_call, shape, sole_user
from cortado.ops._float import constant_data, is_constant
from cortado.ops.lowest import MASKED
from cortado.ops.masked_softmax import SOFTMAX_KEPT
from cortado.ops.reshape import VIEW_CALLS


def hide_masked(prepared: GraphModule) -> None:
    """Tells the observers of masked scores which values are masked, back to the call that makes the scores."""
    for node in list(prepared.graph.nodes):
        if is_call(node, *MASKED) and is_constant(bind(node)["kept"]):
            bound = bind(node)
            hides = ~constant_data(bound["kept"]).expand(shape(node))
            if is_call(node, SOFTMAX_KEPT) and not bound["zeros"]:  # of a row that is hidden whole the scores are read
                hides = hides & ~hides.all(-1, keepdim=True)
            if bound.get("weaker") is None:
                _hide(prepared, bound["input"], hides)


def _hide(prepared: GraphModule, reader: Node, mask: torch.Tensor) -> None:
    """`reader` is what nobody but the softmax reads: an observer, or a view, and what is before it alike."""
    while sole_user(reader) is not None:
        observer = prepared.get_submodule(str(reader.target)) if reader.op == "call_module" else None
        if isinstance(observer, RangeObserver):
            source = reader.all_input_nodes[0]
            observer.hidden[source.name] = mask.reshape(shape(_observed(source)))
        elif not is_call(reader, *VIEW_CALLS):
            return
        reader = reader.all_input_nodes[0]


def _observed(node: Node) -> Node:
    """The tensor that one observer sees behind another, where its codes are read in another element."""
    return _observed(node.all_input_nodes[0]) if node.op == "call_module" else node
