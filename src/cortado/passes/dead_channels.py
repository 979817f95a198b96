"""dead-channels: removes channels of convolutions that can't change an output."""

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from cortado.base.element import INT32
from cortado.ir.facts import DROPPED, TWIN, VALUE, dtype
from cortado.ir.graph import fake_mode_of, remove_unused_constants, shape, shaped
from cortado.ir.op import operator_of, shaped_call
from cortado.ops.conv.conv2d import CONV2D
from cortado.ops.move.reshape import VIEW
from cortado.passes.base import LoweredPass
from cortado.passes.constant_channels import (
    ChannelCodes,
    channel_axis,
    constant_codes,
    division,
    is_weighted,
    known_arguments,
    known_value,
    replace_constant,
)

Tensor = torch.Tensor
KEPT = "kept"  # a suffix in the names of constants with fewer channels
TOGETHER = 4  # channels that kernels process at once: their number stays a multiple


class DeadChannels(LoweredPass):
    """Removes channels that all readers multiply by zero, and those that hold the same code everywhere, whose
    contribution is added to the readers' biases."""

    name: ClassVar[str] = "dead-channels"

    def run(self, module: GraphModule) -> bool:
        """Runs from the outputs to the inputs, so that channels that a layer no longer reads are dead for the one
        before."""
        mode = fake_mode_of(module.graph)
        assert mode is not None
        makers = [node for node in module.graph.nodes if _is_layer(node)]
        changed = [_Region(self.program, maker, mode).shrink() for maker in reversed(makers)]
        if any(changed):
            remove_unused_constants(self.program)
        return any(changed)


def removed_channels(program: ExportedProgram) -> int:
    return sum(DROPPED.of(node) or 0 for node in program.graph_module.graph.nodes)


def _is_layer(node: Node) -> bool:
    """Whether a node is a convolution of which every output reads every channel of its input."""
    if node.op != "call_function" or operator_of(node.target) is not CONV2D:
        return False
    source: Any = node.kwargs["input"]
    weight: Any = node.kwargs["weight"]
    return shape(weight)[3] == shape(source)[3]


class _Region:
    """The channels of a layer, up to the layers that mix them."""

    def __init__(self, program: ExportedProgram, maker: Node, mode: FakeTensorMode) -> None:
        self.program, self.maker, self.mode = program, maker, mode
        self.channels = shape(maker)[-1]

    def shrink(self) -> bool:
        found = self._followed()
        if found is None:
            return False
        between, readers = found
        codes = self._codes(between)
        dead = torch.ones(self.channels, dtype=torch.bool)
        for reader in readers:
            dead &= self._unread(reader, codes[reader.kwargs["input"]])  # type: ignore[index]
        gone = _chosen(dead)
        if not gone.any() or not all(self._fits(reader, gone, codes) for reader in readers):
            return False
        if not all(self._divides_alike(node, ~gone) for node in (self.maker, *between)):
            return False
        for reader in readers:
            self._read_less(reader, gone, codes[reader.kwargs["input"]])  # type: ignore[index]
        for node in (self.maker, *between):
            self._make_less(node, ~gone)
        DROPPED.note(self.maker, int(gone.sum()) + (DROPPED.of(self.maker) or 0))
        return True

    def _followed(self) -> tuple[list[Node], list[Node]] | None:
        """Returns the calls that keep channels separate, and the layers that read them; None if anything else reads
        them."""
        between, readers, reached = list[Node](), list[Node](), {self.maker}
        node = self.maker.next
        while node.op != "root":
            sources = [source for source in node.all_input_nodes if source in reached]
            if sources:
                if _is_layer(node) and sources == [node.kwargs["input"]]:
                    readers.append(node)
                elif self._keeps_apart(node, sources):
                    between.append(node)
                    reached.add(node)
                else:
                    return None
            node = node.next
        return (between, readers) if readers else None

    def _keeps_apart(self, node: Node, sources: Sequence[Node]) -> bool:
        operator = operator_of(node.target) if node.op == "call_function" else None
        if operator is None or operator.extra_results or len(sources) != 1 or shape(node)[-1:] != (self.channels,):
            return False
        if is_weighted(node):
            return bool(node.kwargs.get("depth_multiplier") == 1)
        return operator.by_channel or operator is VIEW

    # ---- which channels hold one code ------------------------------------------------------------------------

    def _codes(self, between: Sequence[Node]) -> dict[Node, ChannelCodes]:
        """Returns the constant codes of channels: for layers from the bounds of their sums, for the calls after them by
        running these."""
        found = {self.maker: constant_codes(self.program, self.maker)}
        for node in between:
            (source,) = [source for source in node.all_input_nodes if source in found]
            found[node] = self._behind(node, source, found[source])
            if is_weighted(node):
                own = constant_codes(self.program, node)
                found[node] = ChannelCodes(
                    found[node].fixed | own.fixed, torch.where(own.fixed, own.code, found[node].code)
                )
        return found

    def _behind(self, node: Node, source: Node, before: ChannelCodes) -> ChannelCodes:
        """Runs one call on the codes before it; if no channel is constant, there is nothing to run."""
        operator = operator_of(node.target)
        if operator is None or not before.fixed.any():
            return before
        filled = before.code.to(dtype(source)).expand(shape(source)).contiguous()
        given = known_arguments(self.program, node)
        made = operator.reference(**{name: filled if value is source else value for name, value in given.items()})
        rows = made.reshape(-1, self.channels).to(torch.int64)
        return ChannelCodes(before.fixed & (rows == rows[0]).all(0), rows[0])

    # ---- the readers' side -----------------------------------------------------------------------------------

    def _unread(self, reader: Node, codes: ChannelCodes) -> Tensor:
        given = known_arguments(self.program, reader)
        inside = torch.tensor(given["padding"] == [0, 0])  # padding doesn't hold the channel's code
        nothing = codes.code + given["input_offset"] == 0
        return (given["weight"] == 0).all((0, 1, 2)) | (codes.fixed & (inside | nothing))

    def _bias(self, reader: Node, gone: Tensor, codes: ChannelCodes) -> Tensor:
        given = known_arguments(self.program, reader)
        sums = given["weight"].to(torch.int64).sum((1, 2)) @ ((codes.code + given["input_offset"]) * gone)
        return sums if given["bias"] is None else sums + given["bias"].to(torch.int64)

    def _fits(self, reader: Node, gone: Tensor, codes: dict[Node, ChannelCodes]) -> bool:
        """Whether a reader's sums have room for the removed channels' contribution, and are divided as before."""
        bias = self._bias(reader, gone, codes[reader.kwargs["input"]])  # type: ignore[index]
        given = known_arguments(self.program, reader)
        fewer = division(reader, given["weight"][..., ~gone], bias)
        alike = fewer == division(reader, given["weight"], given["bias"])
        return alike and bool((bias.clamp(*INT32.codes) == bias).all())

    def _divides_alike(self, node: Node, kept: Tensor) -> bool:
        """Whether the sums of the remaining channels are divided as before."""
        if not is_weighted(node):
            return True
        given = known_arguments(self.program, node)
        weight, bias = given["weight"], given["bias"]
        fewer = _some(weight, channel_axis(node), kept)
        return division(node, fewer, None if bias is None else bias[kept]) == division(node, weight, bias)

    # ---- removal ---------------------------------------------------------------------------------------------

    def _read_less(self, reader: Node, gone: Tensor, codes: ChannelCodes) -> None:
        bias = self._bias(reader, gone, codes)
        if reader.kwargs["bias"] is not None or bool(bias.any()):
            replace_constant(self.program, reader, "bias", bias.to(torch.int32), KEPT)
        weight = known_value(self.program, reader.kwargs["weight"])
        replace_constant(self.program, reader, "weight", weight[..., ~gone], KEPT)

    def _make_less(self, node: Node, kept: Tensor) -> None:
        operator = operator_of(node.target)
        assert operator is not None
        if operator is VIEW:
            sizes: Any = node.kwargs["size"]
            node.update_kwarg("size", [*sizes[:-1], int(kept.sum())])
        elif is_weighted(node):
            for name in CONV2D.channel_constants:  # a depthwise layer has the same
                data = known_value(self.program, node.kwargs[name])
                if data is not None:
                    axis = channel_axis(node) if name == "weight" else 0
                    replace_constant(self.program, node, name, _some(data, axis, kept), KEPT)
        arguments = {name: value for name, value in node.kwargs.items() if name in operator.argument_names}
        VALUE.note(node, shaped(self.mode, operator.shape(shaped_call(operator, arguments)), dtype(node)))
        TWIN.forget(node)  # the float model's tensor has more channels


def _chosen(dead: Tensor) -> Tensor:
    """Selects the dead channels to remove: at least one channel stays, and whole groups if there were whole groups."""
    count = len(dead)
    left = max(1, count - int(dead.sum()))
    if count % TOGETHER == 0:
        left = -(-left // TOGETHER) * TOGETHER
    gone = torch.zeros_like(dead)
    gone[dead.nonzero().reshape(-1)[: count - left]] = True
    return gone


def _some(data: Tensor, axis: int, kept: Tensor) -> Tensor:
    """Selects the slices of a dimension that a mask keeps."""
    return data.movedim(axis, 0)[kept].movedim(0, axis)
