"""Numerical probing of the calls between a signal and an end: run in float64, as a linear map of one block of samples
and of the states."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch.fx import Node

from cortado.base.arrays import ArrayType
from cortado.ir.facts import VALUE
from cortado.ir.graph import computed_call, shape
from cortado.ops.float_graph import constant_data, is_constant
from cortado.ops.signal.filter import filtered
from cortado.ops.signal.sections import Section

Tensor = torch.Tensor

_MOST_NUMBERS = 2048  # samples and states of a call
_AT_ONCE = 1 << 24  # numbers that all calls together can hold
_LONG = 1024  # samples of an impulse response
_LINEAR = 1e-9
_ALIKE = 1e-5
_LOUD = 2.0**13  # the level of 16-bit sound samples: quieter ones might not reach a nonlinearity


class Probed(Protocol):
    """A piece of a graph that can be probed."""

    @property
    def signal(self) -> Node: ...
    @property
    def end(self) -> Node: ...
    @property
    def states(self) -> tuple[Node, ...]: ...
    @property
    def results(self) -> tuple[Node, ...]: ...


@dataclass(frozen=True)
class TimeLayout:
    """The position of the time axis in a signal and in its result; `last_only`: only the last sample of a block is
    given."""

    time: int
    out_time: int
    channels: int
    samples: int
    last_only: bool = False


def layouts(signal: Sequence[int], end: Sequence[int]) -> Iterator[TimeLayout]:
    """Yields the possible layouts: one sample per call for each of many channels, with any dimension of size 1 as time;
    then time in the last dimension, then in another. (Parallel channels are also a filter in time, with more poles.)"""
    count = math.prod(signal)
    dims = [dim for dim in reversed(range(len(signal))) if signal[dim] > 1]
    outs = [dim for dim in reversed(range(len(end))) if end[dim] > 1]
    if count == math.prod(end):
        yield from _single(signal, end, count)
    for dim in dims:
        for out in outs:
            if math.prod(end) == count and end[out] == signal[dim]:
                yield TimeLayout(dim, out, count // signal[dim], signal[dim])
    for dim in dims:
        if math.prod(end) == count // signal[dim]:
            yield TimeLayout(dim, 0, count // signal[dim], signal[dim], last_only=True)


def _single(signal: Sequence[int], end: Sequence[int], count: int) -> Iterator[TimeLayout]:
    """Yields the layout in which all numbers of a call are channels."""
    time = next((dim for dim in range(len(signal)) if signal[dim] == 1), None)
    out = next((dim for dim in range(len(end)) if end[dim] == 1), None)
    if time is not None and out is not None:
        yield TimeLayout(time, out, count, 1)


# ---- running -------------------------------------------------------------------------------------------------


class _Runner:
    """The calls that compute some ends from given nodes."""

    def __init__(self, given: Sequence[Node], wanted: Sequence[Node]) -> None:
        self.given, self.wanted = given, wanted
        needed, left = set[Node](), list(wanted)
        while left:
            node = left.pop()
            if node not in needed and node not in given and not is_constant(node):
                needed.add(node)
                left += node.all_input_nodes
        self.calls = [node for node in wanted[0].graph.nodes if node in needed]
        self.numbers = sum(made.numel() for node in self.calls if isinstance(made := VALUE.of(node), Tensor))
        self.constants: dict[Node, Any] = {}

    def __call__(self, *given: Tensor) -> list[Tensor]:
        values: dict[Node, Any] = dict(zip(self.given, given, strict=True))

        def value(node: Node) -> Any:
            return values[node] if node in values else self._constant(node)

        for call in self.calls:
            made = computed_call(call, value)  # Cortado's own calls can give float32
            values[call] = made.to(torch.float64) if isinstance(made, Tensor) and made.is_floating_point() else made
        return [values[one].to(torch.float64) for one in self.wanted]

    def _constant(self, node: Node) -> Tensor:
        if node not in self.constants:
            data = constant_data(node)
            self.constants[node] = data.to(torch.float64) if data.is_floating_point() else data
        found: Tensor = self.constants[node]
        return found


@dataclass(frozen=True)
class SampleBlock:
    """One call of a model as matrices from (signal, states) to (outputs, new states), for channel 0."""

    layout: TimeLayout
    by_signal: ArrayType  # [outputs of channel 0, samples of channel 0]
    by_state: ArrayType  # [outputs of channel 0, states]
    into_state: ArrayType  # [states, samples of channel 0]
    onward: ArrayType  # [states, states]

    def impulse(self) -> ArrayType:
        """Returns the impulse response, for as long as it is observed."""
        samples = self.layout.samples
        if self.layout.last_only:
            parts, states = [self.by_signal[0, ::-1]], self.into_state
            while len(parts) * samples < _LONG and states.size:
                parts.append((self.by_state @ states)[0, ::-1])
                states = self.onward @ states
            return np.concatenate(parts)
        parts, state = [self.by_signal[:, 0]], self.into_state[:, 0]
        while len(parts) * samples < _LONG and state.size:
            parts.append(self.by_state @ state)
            state = self.onward @ state
        return np.concatenate(parts)

    def responses(self) -> ArrayType:
        """Returns the response to each state; without observable states, the later response to earlier samples."""
        if self.layout.last_only or not self.onward.size:
            impulse = self.impulse()
            columns = min(len(impulse) // 3, 64)
            return np.stack([impulse[1 + at : 1 + at + len(impulse) - columns - 1] for at in range(columns)], 1)
        parts, rows = [self.by_state], self.by_state
        while len(parts) * self.layout.samples < _LONG:
            rows = rows @ self.onward
            parts.append(rows)
        return np.concatenate(parts)


def matrix_of(between: Probed) -> ArrayType | None:
    """Returns the matrix [outputs and new states, samples and states]; None if the calls are not linear or can't be
    run."""
    nodes = (between.signal, *between.states)
    run = _Runner(nodes, (between.end, *between.results))
    sizes = [math.prod(shape(node)) for node in nodes]
    if sum(sizes) > _MOST_NUMBERS:
        return None
    rng = torch.Generator().manual_seed(26)
    drawn = [torch.randn(shape(node), generator=rng, dtype=torch.float64) for node in nodes]
    try:
        silent = run(*(torch.zeros_like(one) for one in drawn))
        once, scaled = run(*drawn), run(*(-3.0 * one for one in drawn))
    except Exception:  # any error of torch: the calls are not a filter
        return None
    if any(bool(one.any()) for one in silent) or not all(_near(-3.0 * a, b) for a, b in zip(once, scaled, strict=True)):
        return None
    matrix = _matrix(run, [shape(node) for node in nodes])
    if matrix is None:
        return None
    together = torch.cat([one.reshape(-1) for one in drawn])
    if not _near(matrix @ together, torch.cat([one.reshape(-1) for one in once])):
        return None
    found: ArrayType = matrix.numpy()
    return found


def gives_signals(given: Sequence[Node], ends: Sequence[Node]) -> bool:
    """Whether the calls compute a weighted sum, with or without a constant (a filter, a mean), or something
    proportional to the input (a peak, a root mean square)."""
    run, rng = _Runner(given, ends), torch.Generator().manual_seed(26)

    def of(*parts: tuple[float, Sequence[Tensor]]) -> Tensor:
        sums = zip(*([factor * one for one in drawn] for factor, drawn in parts), strict=True)
        return torch.cat([one.reshape(-1) for one in run(*(torch.stack(terms).sum(0) for terms in sums))])

    a, b = ([_LOUD * torch.randn(shape(node), generator=rng, dtype=torch.float64) for node in given] for _ in range(2))
    try:
        silence, first, second, both = of((0, a)), of((1, a)), of((1, b)), of((2, a), (-3, b))
        louder, softer = of((8, a)), of((0.125, b))
    except Exception:  # any error of torch: the calls are not a filter
        return False
    sums = _near(2 * first - 3 * second + 2 * silence, both, _ALIKE)
    return sums or (not silence.any() and _near(8 * first, louder, _ALIKE) and _near(second / 8, softer, _ALIKE))


def _near(first: Tensor, second: Tensor, within: float = _LINEAR) -> bool:
    return bool(((first - second).abs() <= within * (1 + second.abs().max())).all())


def _matrix(run: _Runner, shapes: Sequence[Sequence[int]]) -> Tensor | None:
    """Returns [outputs and states, samples and states], by running all unit vectors at once."""
    count = sum(math.prod(one) for one in shapes)
    ends = np.cumsum([math.prod(one) for one in shapes])[:-1].tolist()

    def flat(one: Tensor) -> Tensor:
        parts = torch.tensor_split(one, ends)
        found = run(*(part.reshape(tuple(size)) for part, size in zip(parts, shapes, strict=True)))
        return torch.cat([value.reshape(-1) for value in found])

    units = torch.eye(count, dtype=torch.float64)
    at_once = max(1, _AT_ONCE // max(run.numbers, 1))
    try:
        found: Tensor = torch.vmap(flat, chunk_size=at_once)(units)
    except Exception:
        try:
            found = torch.stack([flat(one) for one in units])
        except Exception:
            return None
    return found.T


def block_of(matrix: ArrayType, between: Probed, layout: TimeLayout) -> SampleBlock:
    """Returns the block of the first channel of the signal and of the output."""
    sizes, end = shape(between.signal), shape(between.end)
    samples = math.prod(sizes)
    taken = np.moveaxis(np.arange(samples).reshape(sizes), layout.time, -1).reshape(layout.channels, -1)[0]
    outputs = math.prod(end)
    if layout.last_only:
        given = np.arange(1)
    else:
        given = np.moveaxis(np.arange(outputs).reshape(end), layout.out_time, -1).reshape(layout.channels, -1)[0]
    return SampleBlock(
        layout,
        matrix[given][:, taken],
        matrix[given][:, samples:],
        matrix[outputs:][:, taken],
        matrix[outputs:, samples:],
    )


# ---- verification --------------------------------------------------------------------------------------------


def runs_like(between: Probed, layout: TimeLayout, sections: Sequence[Section]) -> bool:
    """Whether the calls compute these sections, on all channels and several blocks of noise."""
    run = _Runner((between.signal, *between.states), (between.end, *between.results))
    blocks = max(3, 96 // layout.samples) if between.states else 1
    rng = torch.Generator().manual_seed(4)
    states = [torch.zeros(shape(node), dtype=torch.float64) for node in between.states]
    noise = torch.randn(blocks, layout.channels, layout.samples, generator=rng, dtype=torch.float64)
    found = []
    for one in noise:
        sizes = list(shape(between.signal))
        rest = [size for dim, size in enumerate(sizes) if dim != layout.time]
        output, *states = run(one.reshape(*rest, layout.samples).movedim(-1, layout.time), *states)
        found.append(output if layout.last_only else output.movedim(layout.out_time, -1))
    whole = noise.permute(1, 0, 2).reshape(layout.channels, -1)
    expected = filtered(whole, None, [number for section in sections for number in section])[0]
    expected = expected.reshape(layout.channels, blocks, -1).permute(1, 0, 2)
    expected = expected[..., -1:] if layout.last_only else expected
    made = torch.stack([one.reshape(layout.channels, -1) for one in found])
    return bool(((made - expected).abs() <= _ALIKE * (1e-30 + expected.abs().max())).all())
