"""Typed facts about nodes: all keys of `node.meta` that Cortado uses."""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from torch.fx import Graph, Node

from cortado.base.element import USUAL, Element, element_of
from cortado.base.numerics import ChannelQParams, QParams

T = TypeVar("T")


@dataclass(frozen=True)
class Lasting:
    """A buffer that the model's calls change, and its initial value: real numbers; once quantized, codes."""

    buffer: str
    initial: torch.Tensor


@dataclass(frozen=True)
class FactKey(Generic[T]):
    """The key of a fact in `node.meta`."""

    key: str

    def known(self, node: Node) -> bool:
        return node.meta.get(self.key) is not None

    def noted(self, node: Node) -> bool:
        """Whether anything was stored for the node, even None."""
        return self.key in node.meta

    def of(self, node: Node) -> T | None:
        value: T | None = node.meta.get(self.key)
        return value

    def must(self, node: Node) -> T:
        """Returns a fact that an earlier stage has stored; KeyError if it has not."""
        value: T = node.meta[self.key]
        return value

    def note(self, node: Node, value: T) -> None:
        node.meta[self.key] = value

    def forget(self, node: Node) -> None:
        node.meta.pop(self.key, None)

    def take(self, node: Node, source: Node) -> None:
        """Copies the fact from `source`; removes it if `source` has none."""
        if self.known(source):
            node.meta[self.key] = source.meta[self.key]
        else:
            self.forget(node)


# ---- Cortado's own -------------------------------------------------------------------------------------------

QPARAMS: FactKey[QParams | ChannelQParams] = FactKey("qparams")  # of its codes; ChannelQParams are for weights only
CLAMP: FactKey[tuple[float, float]] = FactKey("clamp")  # low and high of the clamp that its kernel carries
TABLE: FactKey[torch.Tensor] = FactKey("table")  # the 256 entries of its lookup table
TWIN: FactKey[str] = FactKey("cortado_twin")  # the node of the float graph with the same values, in any layout
NOT_ATEN: FactKey[bool] = FactKey("cortado_not_aten")  # of a call and its lowering: no float kernel can compute it
IN_FLOAT: FactKey[bool] = FactKey("cortado_in_float")  # of a call on integers that torch computes in float: no wrap
CONSTANT: FactKey[str] = FactKey("cortado_constant")  # of a placeholder: its name in the state dict
ORIGIN: FactKey[str] = FactKey("cortado_origin")  # of a call: the call of the captured graph that it is part of
TRAINED: FactKey[bool] = FactKey("cortado_trained")  # of a call: it has parameters of the user's model
PROMISED: FactKey[tuple[float, float]] = FactKey("cortado_promised")  # of an input: the range promised by --range
USER_INPUT: FactKey[bool] = FactKey("cortado_input")  # of a placeholder: an input of the model, not a constant
WANTED: FactKey[Element] = FactKey("cortado_element")  # of a call: the element of its real numbers, if not USUAL
STATE: FactKey[Lasting] = FactKey("cortado_state")  # of a placeholder: a value left by the previous run of the graph
FRAMES: FactKey[int] = FactKey("cortado_frames")  # of a call or view: it takes this many frames one by one
DROPPED: FactKey[int] = FactKey("cortado_dropped")  # of a call: how many unneeded channels were removed

# ---- torch's -------------------------------------------------------------------------------------------------

VALUE: FactKey[Any] = FactKey("val")  # its fake tensor, or several
STACK_TRACE: FactKey[str] = FactKey("stack_trace")
MODULE_STACK: FactKey[dict[str, Any]] = FactKey("nn_module_stack")
TORCH_FN: FactKey[Any] = FactKey("torch_fn")
DEBUG_HANDLE: FactKey[int] = FactKey("debug_handle")
SOURCE_FN: FactKey[Any] = FactKey("source_fn_stack")
FROM_NODE: FactKey[Any] = FactKey("from_node")
DELEGATED: FactKey[str] = FactKey("delegation_tag")  # ExecuTorch's: the partition that takes it
SPEC: FactKey[Any] = FactKey("spec")  # ExecuTorch's: the placement of its tensor, or of several
INITIALIZED: FactKey[bool] = FactKey("et_init_buffer")  # ExecuTorch's: a buffer's values are written into the file


def qparams(node: Node) -> QParams | None:
    """Returns the qparams of a tensor with one scale; None for weights and for anything not quantized."""
    found = QPARAMS.of(node)
    return found if isinstance(found, QParams) else None


def holds_integers(node: Node) -> bool:
    """Whether a tensor holds integers or truth values, rather than codes of real numbers."""
    value = VALUE.of(node)
    return isinstance(value, torch.Tensor) and not value.dtype.is_floating_point and not QPARAMS.known(node)


def is_float32(node: Node) -> bool:
    """Whether the result of a node is one float32 tensor."""
    value = VALUE.of(node)
    return isinstance(value, torch.Tensor) and value.dtype == torch.float32


def note_element(node: Node, wanted: Element) -> None:
    """Stores the element asked for a call's real numbers."""
    if wanted != USUAL:
        WANTED.note(node, wanted)


def note_elements(graph: Graph, wanted: Element) -> None:
    """Stores the element asked for every node of a graph."""
    for node in graph.nodes:
        note_element(node, wanted)


def wanted_element(node: Node) -> Element:
    """Returns the element of a call's real numbers: the one asked for, or the usual one."""
    return WANTED.of(node) or USUAL


def element(node: Node) -> Element:
    """Returns the element of a node's one tensor; integers without a scale count as unscaled."""
    found = element_of(dtype(node))
    return found if QPARAMS.known(node) else found.unscaled


def dtype(node: Node) -> torch.dtype:
    """Returns the dtype of a node's one tensor."""
    found: torch.dtype = VALUE.must(node).dtype
    return found
