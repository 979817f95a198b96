"""frames-as-rows: makes a stream of samples whose frames are picked from the signal come in hops."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from cortado.ir.facts import FRAMES, STATE, dtype
from cortado.ir.frames import frame_shape, is_one_call, of_one_frame
from cortado.ir.graph import constant_value, fake_mode_of, shape, user_inputs
from cortado.ir.op import Call, Operator, operator_of, result_elements
from cortado.ops.move.cat import CAT, MAX_INPUTS
from cortado.ops.move.index_select import INDEX_SELECT
from cortado.ops.move.slice import SLICE
from cortado.ops.signal.codes import block_of
from cortado.passes.base import LoweredPass, PassContext
from cortado.passes.lower import add_operator_call, add_view
from cortado.passes.orders import is_a


@dataclass(frozen=True)
class PickedFrames:
    """Frame y holds `length` samples from y * hop + skip on."""

    count: int
    length: int
    hop: int
    skip: int

    @property
    def end(self) -> int:
        """The position after the last sample of the first frame."""
        return self.skip + self.length


class FramesAsRows(LoweredPass):
    """Joins the frames of a signal from blocks of it, which are rows, and notes which calls take frames one by one.

    A frame is the columns of several blocks side by side, so no kernel has to see the whole signal. Whether a call
    takes each frame by itself is tried with its reference: on one frame it gives that frame's part of the result.
    """

    name: ClassVar[str] = "frames-as-rows"

    @classmethod
    def applies(cls, context: PassContext) -> bool:
        return context.stream

    def run(self, module: GraphModule) -> bool:
        signal = self._signal()
        if signal is None:
            return False
        length = math.prod(shape(signal))
        picks = {node: found for node in module.graph.nodes if (found := self._picked(node, length)) is not None}
        if len(set(picks.values())) != 1:
            return False
        frames = next(iter(picks.values()))
        block = block_of(frames.hop, length, frames.end)
        if block is None or frames.count < 2 or length // block < 2:
            return False
        self._note(signal, length // block, set(picks))
        if any(not self._reads_blocks(node, signal) for node in picks):
            _forget(module)
            return False
        for node in picks:
            self._note(self._joined(node, frames, block), frames.count, set())
        module.graph.eliminate_dead_code()
        return True

    def _signal(self) -> Node | None:
        """Returns the only input, if it is the samples of one channel."""
        inputs = user_inputs(self.program)
        if len(inputs) != 1 or STATE.known(inputs[0]):
            return None
        sizes = shape(inputs[0])
        return inputs[0] if max(sizes, default=0) == math.prod(sizes) > 1 else None

    def _picked(self, node: Node, length: int) -> PickedFrames | None:
        """Returns the frames that a selection of samples makes; None if it is anything else."""
        if not is_a(node, INDEX_SELECT):
            return None
        source: Any = node.kwargs["self"]
        dim: Any = node.kwargs["dim"]
        index = constant_value(self.program, node.kwargs["index"])
        if index is None or math.prod(shape(source)) != length or shape(source)[dim] != length:
            return None
        places = index.flatten().numpy()
        breaks = np.flatnonzero(np.diff(places) != 1) + 1
        size = int(breaks[0]) if len(breaks) else 0
        if size == 0 or len(places) % size:
            return None
        grid = places.reshape(-1, size)
        skip, hop = int(grid[0, 0]), int(grid[1, 0] - grid[0, 0])
        wanted = skip + hop * np.arange(len(grid))[:, None] + np.arange(size)
        return PickedFrames(len(grid), size, hop, skip) if hop > 0 and np.array_equal(grid, wanted) else None

    def _reads_blocks(self, node: Node, signal: Node) -> bool:
        source: Any = node.kwargs["self"]
        return source is signal or FRAMES.known(source)

    def _joined(self, node: Node, frames: PickedFrames, block: int) -> Node:
        """Replaces a selection by blocks side by side; returns the frames in the shape of the selection."""
        mode, source = fake_mode_of(node.graph), node.kwargs["self"]
        assert mode is not None
        assert isinstance(source, Node)

        def call(operator: Operator, **arguments: Any) -> Node:
            return add_operator_call(node, mode, operator, arguments)

        def part(of: Node, dim: int, start: int, end: int, step: int = 1) -> Node:
            whole = (start, step) == (0, 1) and end == shape(of)[dim]
            return of if whole else call(SLICE, self=of, dim=dim, start=start, end=end, step=step)

        step, first = frames.hop // block, frames.skip // block
        with node.graph.inserting_before(node):
            blocks = add_view(node, mode, source, [1, math.prod(shape(source)) // block, 1, block])
            reach = (frames.count - 1) * step + 1
            parts = [part(blocks, 1, at, at + reach, step) for at in range(first, -(-frames.end // block))]
            while len(parts) > 1:
                groups = [parts[at : at + MAX_INPUTS] for at in range(0, len(parts), MAX_INPUTS)]
                parts = [one[0] if len(one) == 1 else call(CAT, tensors=one, dim=3) for one in groups]
            start = frames.skip - first * block
            made = add_view(node, mode, part(parts[0], 3, start, start + frames.length), shape(node))
        node.replace_all_uses_with(made)
        node.graph.erase_node(node)
        return made

    # ---- which calls take frames one by one ------------------------------------------------------------------

    def _note(self, start: Node, frames: int, without: set[Node]) -> None:
        """Notes all calls that read frames of `start`, directly or not, and take them one by one."""
        if start.op != "placeholder":
            FRAMES.note(start, frames)
        reached = {start}
        for node in start.graph.nodes:
            if node.op != "call_function" or node in without or FRAMES.known(node):
                continue
            read = [one for one in node.all_input_nodes if constant_value(self.program, one) is None]
            if read and reached.issuperset(read) and self._takes_frames(node, read, frames):
                FRAMES.note(node, frames)
                reached.add(node)

    def _takes_frames(self, node: Node, read: list[Node], frames: int) -> bool:
        operator = operator_of(node.target)
        if operator is None or operator.extra_results or frame_shape(shape(node), frames) is None:
            return False
        if operator.view:
            return True
        one = of_one_frame(self._call(node, operator), frames)
        if operator.kernel is None or one is None or not is_one_call(one):
            return False
        rng = np.random.default_rng(0)
        given = {item: _drawn(item, rng) for item in read}
        whole = self._result(node, operator, given).reshape(frames, -1)
        return all(self._same(node, operator, given, frames, one.out_shape, whole, at) for at in (0, frames - 1))

    def _same(
        self,
        node: Node,
        operator: Operator,
        given: Mapping[Node, Tensor],
        frames: int,
        sizes: tuple[int, ...],
        whole: Tensor,
        at: int,
    ) -> bool:
        """Whether a call on one frame gives its part of the result."""
        parts = {}
        for item, data in given.items():
            part = frame_shape(tuple(data.shape), frames)
            assert part is not None
            parts[item] = data.reshape(frames, *part)[at]
        try:
            found = self._result(node, operator, parts)
        except (RuntimeError, ValueError, IndexError):  # it needs all frames
            return False
        same = np.array_equal(found.flatten().numpy(), whole[at].numpy(), equal_nan=found.is_floating_point())
        return tuple(found.shape) == sizes and same

    def _result(self, node: Node, operator: Operator, given: Mapping[Node, Tensor]) -> Tensor:
        found: Tensor = operator.reference(**map_arg(dict(node.kwargs), lambda one: self._data(one, given)))
        return found

    def _data(self, node: Node, given: Mapping[Node, Tensor]) -> Any:
        return given[node] if node in given else constant_value(self.program, node)

    def _call(self, node: Node, operator: Operator) -> Call:
        """Returns a call with shapes for tensors and data for constants, as kernels are chosen by."""

        def known(one: Node) -> Any:
            data = constant_value(self.program, one)
            return tuple(shape(one)) if data is None else data

        arguments = {name: _mapped(value, known) for name, value in node.kwargs.items()}
        return Call(operator, arguments, tuple(shape(node)), result_elements(operator, node.kwargs)[0], {})


def _mapped(value: Any, known: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_mapped(one, known) for one in value]
    return known(value) if isinstance(value, Node) else value


def _drawn(node: Node, rng: np.random.Generator) -> Tensor:
    """Returns any values of a node's shape and type."""
    sizes, kind = tuple(shape(node)), dtype(node)
    if kind.is_floating_point:
        return torch.from_numpy(rng.standard_normal(sizes).astype(np.float32)).to(kind)
    return torch.from_numpy(rng.integers(0, 2 if kind == torch.bool else 100, sizes)).to(kind)


def _forget(module: GraphModule) -> None:
    for node in module.graph.nodes:
        FRAMES.forget(node)
