"""Typed facts about nodes: each has a key in `node.meta` that stands here alone."""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from torch.fx import Graph, Node

from cortado.base.element import INT8, Element, element_of
from cortado.base.numerics import ChannelQParams, QParams

T = TypeVar("T")
USUAL = INT8  # the element of real numbers where no other is asked for


@dataclass(frozen=True)
class Lasting:
    """A buffer of the model that calls change, and what it starts with: real numbers; once quantized, codes."""

    buffer: str
    initial: torch.Tensor


@dataclass(frozen=True)
class FactKey(Generic[T]):
    """The key under which something may be known of a node."""

    key: str

    def known(self, node: Node) -> bool:
        return node.meta.get(self.key) is not None

    def noted(self, node: Node) -> bool:
        """Whether anything was noted of the node, be it None."""
        return self.key in node.meta

    def of(self, node: Node) -> T | None:
        value: T | None = node.meta.get(self.key)
        return value

    def must(self, node: Node) -> T:
        """The fact that an earlier stage has noted."""
        value: T = node.meta[self.key]
        return value

    def note(self, node: Node, value: T) -> None:
        node.meta[self.key] = value

    def forget(self, node: Node) -> None:
        node.meta.pop(self.key, None)

    def take(self, node: Node, source: Node) -> None:
        """The same as is known of `source`; nothing where nothing is."""
        if self.known(source):
            node.meta[self.key] = source.meta[self.key]
        else:
            self.forget(node)


# ---- Cortado's own -------------------------------------------------------------------------------------------

QPARAMS: FactKey[QParams | ChannelQParams] = FactKey("qparams")  # of its codes; ChannelQParams are for weights only
CLAMP: FactKey[tuple[float, float]] = FactKey("clamp")  # low and high of the clamp that its kernel carries
TABLE: FactKey[torch.Tensor] = FactKey("table")  # the 256 entries it looks its input up in
TWIN: FactKey[str] = FactKey("cortado_twin")  # the node of the float graph whose values it holds, in whatever layout
NOT_ATEN: FactKey[bool] = FactKey("cortado_not_aten")  # of a call, and what it is lowered to: no float kernel has it
IN_FLOAT: FactKey[bool] = FactKey("cortado_in_float")  # of a call on integers: torch computes it in float: no wrap
CONSTANT: FactKey[str] = FactKey("cortado_constant")  # of a placeholder: its name in the state dict
ORIGIN: FactKey[str] = FactKey("cortado_origin")  # of a call: the call of the captured graph that it is part of
TRAINED: FactKey[bool] = FactKey("cortado_trained")  # of a call: it has parameters of the user's model
PROMISED: FactKey[tuple[float, float]] = FactKey(
    "cortado_promised"
)  # of an input of real numbers: their ends (--range)
USER_INPUT: FactKey[bool] = FactKey("cortado_input")  # of a placeholder: an input of the model, not a constant
WANTED: FactKey[Element] = FactKey("cortado_element")  # of a call: the element of its real numbers, if not USUAL
STATE: FactKey[Lasting] = FactKey("cortado_state")  # of a placeholder: what the last run of the graph left behind
DROPPED: FactKey[int] = FactKey("cortado_dropped")  # of a call: its channels that nothing needs, left out

# ---- torch's -------------------------------------------------------------------------------------------------

VALUE: FactKey[Any] = FactKey("val")  # the fake tensor it stands for, or several of them
STACK_TRACE: FactKey[str] = FactKey("stack_trace")
MODULE_STACK: FactKey[dict[str, Any]] = FactKey("nn_module_stack")
TORCH_FN: FactKey[Any] = FactKey("torch_fn")
DEBUG_HANDLE: FactKey[int] = FactKey("debug_handle")
SOURCE_FN: FactKey[Any] = FactKey("source_fn_stack")
FROM_NODE: FactKey[Any] = FactKey("from_node")
DELEGATED: FactKey[str] = FactKey("delegation_tag")  # ExecuTorch's: the partition that takes it
SPEC: FactKey[Any] = FactKey("spec")  # ExecuTorch's: the place of what it stands for, or several of them
INITIALIZED: FactKey[bool] = FactKey("et_init_buffer")  # ExecuTorch's: a buffer's values are written into the file


def qparams(node: Node) -> QParams | None:
    """Returns the qparams of a tensor whose codes all have one scale; None for weights and for what is not
    quantized."""
    found = QPARAMS.of(node)
    return found if isinstance(found, QParams) else None


def holds_integers(node: Node) -> bool:
    """Whether a tensor holds integers or truth values, not codes that stand for real numbers."""
    value = VALUE.of(node)
    return isinstance(value, torch.Tensor) and not value.dtype.is_floating_point and not QPARAMS.known(node)


def is_float32(node: Node) -> bool:
    """Whether a node gives one tensor of float32."""
    value = VALUE.of(node)
    return isinstance(value, torch.Tensor) and value.dtype == torch.float32


def note_element(node: Node, wanted: Element) -> None:
    """Which element a call's real numbers are to have."""
    if wanted != USUAL:
        WANTED.note(node, wanted)


def note_elements(graph: Graph, wanted: Element) -> None:
    """The same for every node of a graph."""
    for node in graph.nodes:
        note_element(node, wanted)


def wanted_element(node: Node) -> Element:
    """The element of a call's real numbers: what is asked for, or the usual one."""
    return WANTED.of(node) or USUAL


def element(node: Node) -> Element:
    """Returns the element of the one tensor that a node gives; integers without a scale are no codes."""
    found = element_of(dtype(node))
    return found if QPARAMS.known(node) else found.unscaled


def dtype(node: Node) -> torch.dtype:
    """Returns the dtype of the one tensor that a node gives."""
    found: torch.dtype = VALUE.must(node).dtype
    return found
