"""Input values half-way between two codes: on MVE, ExecuTorch's own quantize can choose the other one.

The reference and all other kernels compute x * (1 / scale) in float32 and round that; ExecuTorch's operator for MVE
rounds the product itself. Both agree unless the product is within a float's rounding error of a tie. Values from a
continuum hardly ever are; but with images whose pixels are k / 127.5 - 1, in a scale of 2 / 255, every pixel is.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.fx import GraphModule, Node

from cortado.base.arrays import ArrayType
from cortado.base.findings import Finding, FindingKind
from cortado.base.numerics import QParams
from cortado.frontend.capture.inputs import Inputs
from cortado.frontend.quantize.observers import RangeObserver
from cortado.frontend.quantize.prequantized import is_quantize, qparams_of
from cortado.frontend.quantize.ranges import MOST_VALUES

# In steps: a product of up to 256 steps is rounded by at most 2^-17 of one. Firmware that computes inputs differently
# from the calibration data, as k * (2 / 255) - 1, is equally close.
NEAR = 2.0**-15
MANY = 2.0**-10  # the share of an input's values that get another code; for values from a continuum it is 2^-18
WIDER = tuple(1.0 + thousandths / 1000 for thousandths in range(1, 17))  # factors of ranges that are tried
MOST_DISTINCT = 1 << 17  # values of an input that are examined


@dataclass(frozen=True)
class Tied:
    """An input of which many values can get another code."""

    position: int
    name: str
    ties: int  # distinct values that do
    values: int  # distinct values in all

    @property
    def percent(self) -> float:
        return 100.0 * self.ties / self.values


def avoid_ties(prepared: GraphModule, batches: Sequence[Inputs]) -> None:
    """Widens the range of an input slightly if many of its values have two codes, until none is near a tie."""
    for position, node in enumerate(_inputs(prepared, batches)):
        targets = [str(user.target) for user in node.users if user.op == "call_module"]
        observers = {_leading(prepared.get_submodule(target)) for target in targets}
        for observer in observers:
            if isinstance(observer, RangeObserver) and observer.element.affine:
                _avoid(observer, _distinct(batches, position))


def tied_inputs(converted: GraphModule, batches: Sequence[Inputs]) -> tuple[Tied, ...]:
    """Returns the inputs of a quantized graph of which many values have two codes."""
    found = []
    for position, node in enumerate(_inputs(converted, batches)):
        read = {qparams_of(user) for user in node.users if is_quantize(user)}
        scales = {one for one in read if one.element.affine}  # a .pte has no others
        if scales:
            values = _distinct(batches, position)
            ties = max(_with_two_codes(values, qparams) for qparams in scales)
            if _are_many(ties, values):
                found.append(Tied(position, node.name, ties, len(values)))
    return tuple(found)


def ties_finding(tied: Tied) -> Finding:
    """Returns the finding about ties, for a .pte whose core can have MVE."""
    return Finding(
        kind=FindingKind.TIED_INPUT,
        text=(
            f"{tied.ties} of {tied.values} different values of input {tied.position} ('{tied.name}') lie half-way "
            "between two codes, where ExecuTorch's own quantize_per_tensor rounds the other way on a core with MVE: "
            "the .pte's outputs then differ from the reference's. Give the float model, whose input scales Cortado "
            "chooses, or "
            "quantize this input in the firmware"
        ),
        found=tied.percent,
        limit=100.0 * MANY,
        tensor=tied.name,
    )


def _inputs(module: GraphModule, batches: Sequence[Inputs]) -> list[Node]:
    """Returns the placeholders of the user's own inputs, which precede state."""
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    return placeholders[: len(batches[0]) if batches else 0]


def _leading(observer: torch.nn.Module) -> torch.nn.Module:
    while isinstance(observer, RangeObserver) and observer.leader is not None:
        observer = observer.leader
    return observer


def _avoid(observer: RangeObserver, values: ArrayType) -> None:
    if not _are_many(_with_two_codes(values, _chosen(observer)), values):
        return
    low, high = float(observer.min_val), float(observer.max_val)
    near: dict[float, int] = {}
    for factor in WIDER:
        observer.set_range(low * factor, high * factor)
        near[factor] = _near_ties(values, _chosen(observer))
        if near[factor] == 0:
            return
    best = min(near, key=lambda factor: near[factor])
    observer.set_range(low * best, high * best)


def _chosen(observer: RangeObserver) -> QParams:
    scale, zero_point = observer.calculate_qparams()
    return QParams(float(scale), int(zero_point), observer.element)


def _are_many(ties: int, values: ArrayType) -> bool:
    return ties > MANY * len(values)


def _distinct(batches: Sequence[Inputs], position: int) -> ArrayType:
    """Returns the distinct values of an input, enough of them to judge; none for integer inputs."""
    found: ArrayType = np.empty(0, np.float32)
    for batch in batches:
        value = batch[position]
        if not value.is_floating_point() or len(found) > MOST_DISTINCT:
            break
        flat = value.reshape(-1)
        flat = flat[:: max(1, flat.numel() // MOST_VALUES) | 1]
        found = np.unique(np.concatenate([found, flat.to(torch.float32).numpy()]))
    return found


def _steps(values: ArrayType, qparams: QParams) -> ArrayType:
    """Returns the values in steps from zero: exactly, as the product of two floats fits a double."""
    return values.astype(np.float64) * np.float64(_inverse(qparams))


def _inverse(qparams: QParams) -> np.float32:
    return np.float32(1.0) / np.float32(qparams.scale)


def _with_two_codes(values: ArrayType, qparams: QParams) -> int:
    """Counts the values that get another code if the product is rounded once."""
    once = np.round(_steps(values, qparams)) + qparams.zero_point
    twice = np.round(values * _inverse(qparams)) + qparams.zero_point
    return int((np.clip(once, *qparams.element.codes) != np.clip(twice, *qparams.element.codes)).sum())


def _near_ties(values: ArrayType, qparams: QParams) -> int:
    """Counts the values near a tie between two codes; saturating values have one code on both sides."""
    steps = _steps(values, qparams)
    codes = steps + qparams.zero_point
    low, high = qparams.element.codes
    inside = (codes > low - 0.5 + NEAR) & (codes < high + 0.5 - NEAR)
    return int((inside & (np.abs(steps - np.floor(steps) - 0.5) <= NEAR)).sum())
