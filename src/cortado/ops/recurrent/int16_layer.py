"""LSTM, GRU and RNN layers of int16 codes: the differences from int8 ones (layer.py).

Codes have no zero point. A path's sum is first divided by 2^sum_shift if it could exceed 32 bits (reach.py); it, the
states in codes and a given initial state are each requantized with one rounding, and a path is clamped to 31 bits.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from cortado.base.element import INT8, INT16, element_of
from cortado.base.numerics import QParams, Tensor
from cortado.ir import sampling
from cortado.ir.kernel import Array
from cortado.ir.op import Call, Lowering
from cortado.ir.work import Calls, Quantities, Work
from cortado.ops import reach

PATH_BITS = 30  # of a path, besides the sign
ENDS = ("x", "h")  # of the input's path and of the state's
FACTORS = tuple(f"{part}_{end}" for part in ("bias", "multiplier", "shift") for end in ENDS)
VECTOR = 8  # codes
HEADROOM = 4  # of int16 tensors: their range is this many times what calibration saw


def is_wide(arguments: Mapping[str, Any]) -> bool:
    return element_of(arguments["input"].dtype).symmetric


def path(sums: Tensor, weight: Tensor, bias: Tensor, factors: tuple[Tensor, Tensor]) -> Tensor:
    """Returns sums with their bias, in steps of a gate."""
    found = reach.rounded(reach.divided(sums, reach.sum_shift(weight, bias)), *factors)
    return found.clamp(-(2**PATH_BITS), 2**PATH_BITS - 1)


def codes(value: Tensor, multiplier: int, shift: int) -> Tensor:
    """Requantizes states to int16 codes."""
    return reach.to_codes(reach.rounded(value, multiplier, shift))


# ---- from the float graph ------------------------------------------------------------------------------------


def path_factors(weight: Tensor, sums: Tensor, factors: Tensor) -> tuple[Tensor, Tensor]:
    """Returns multipliers and shifts of a path, whose sums are divided first if they could exceed 32 bits."""
    divided = 2.0 ** reach.sum_shift(weight, sums)
    found = torch.tensor([reach.once(divided * float(factor)) for factor in factors], dtype=torch.int32)
    return found[:, 0].contiguous(), found[:, 1].contiguous()


def factor(ratio: float) -> dict[str, int]:
    multiplier, shift = reach.once(ratio)
    return {"multiplier": multiplier, "shift": shift}


def seen(q: QParams) -> float:
    """Returns the largest magnitude that calibration saw: for int8 codes the largest representable one."""
    largest = q.scale * max(q.zero_point - q.element.low, q.element.high - q.zero_point)
    return largest / HEADROOM if q.element.symmetric else largest


def unread(lowering: Lowering) -> QParams:
    """Returns the parameters of states that nothing reads: the whole range, from -1 to 1."""
    return QParams(2.0**-15, 0, INT16) if lowering.q("input").element.symmetric else QParams(2.0**-7, 0, INT8)


# ---- the C kernel --------------------------------------------------------------------------------------------


def fields(more_of: Callable[[Call], Mapping[str, int]], wide_state: bool, call: Call) -> dict[str, Any]:
    """Returns the descriptor of a layer over all its steps, in portable C; `more_of` returns the members for its
    kind."""
    batch, steps, inputs = call.shape("input")
    more = more_of(call)
    found: dict[str, Any] = {
        "in_c": inputs,
        "units": call.out_shape[2],
        "steps": steps,
        "sequences": batch,
        "reverse": int(call["reverse"]),
        "last_only": int(call["last"]),
        **{key: call[key] for key in ("out_multiplier", "out_shift", "start_multiplier", "start_shift")},
        "h16": int(wide_state),
        **{key: more.get(key, 0) for key in _MORE},
    }
    for end in ENDS:
        found[f"sum_shift_{end}"] = reach.sum_shift(call[f"weight_{end}"], call[f"bias_{end}"])
        found[f"weights_{end}"] = Array(np.ascontiguousarray(call.array(f"weight_{end}")))
        found |= {f"{part}_{end}": Array(call.array(f"{part}_{end}")) for part in ("bias", "multiplier", "shift")}
    return found


def fits_vectors(call: Call) -> bool:
    """Whether the kernels with vector instructions take a layer: paths have shifts to the right, as those of any
    network do, and the other factors are normalised if their shifts aren't."""
    to_the_right = all(bool((call[f"shift_{end}"] < 0).all()) for end in ENDS)
    given = [name for name in _STATES if f"{name}_shift" in call.arguments]
    others = [(call[f"{name}_multiplier"], call[f"{name}_shift"]) for name in given]
    return to_the_right and all(shift < 0 or multiplier >= 1 << 30 for multiplier, shift in others)


def work(gates: int, call: Call) -> Work:
    """Counts rows of weights, and for each the products of both paths, in every step. Kernels take rows in pairs: of an
    odd number of gates those of two units, and of an odd unit twice its own."""
    batch, steps, inputs = call.shape("input")
    units = call.out_shape[2]

    def quantities(calls: Calls) -> Quantities:
        every = calls.calls * batch * steps
        made = every * (gates // 2 * 2 * units + gates % 2 * 2 * math.ceil(units / 2))
        sizes = {"all_steps": every, "gate_rows": made, "gate_products": made * (inputs + units)}
        return {**sizes, "curved": 1 - call.arguments.get("relu", 0)}

    return Work(("calls", "all_steps", "gate_rows", "gate_rows*curved", "gate_products"), quantities)


_STATES = ("out", "given")  # what a step gives
_MORE = (
    "cell_multiplier",
    "cell_shift",
    "cell_bits",
    "gives_cells",
    "given_multiplier",
    "given_shift",
    "relu",
)


def as_wide(drawn: dict[str, Any], seed: int) -> dict[str, Any]:
    """Converts a sample of an int8 layer to int16 codes: any codes, sometimes extreme ones; sums that saturate gates
    and sums that don't."""

    def wide(old: Tensor, index: int) -> Tensor:
        return sampling.codes(seed + index, tuple(old.shape), *INT16.codes, INT16.torch_dtype)

    shifts = {name: drawn[name] - 8 for name in ("shift_x", "shift_h")}
    zeros = {name: 0 for name in drawn if name.endswith("zero_point")}
    start = [wide(one, index + 1) for index, one in enumerate(drawn["start"])]
    if seed % 4 == 1:  # sums that exceed 32 bits
        large = drawn["bias_x"].to(torch.int64) << 16
        drawn = {**drawn, "bias_x": large.clamp(-(2**31) + 1, 2**31 - 1).to(torch.int32)}
    given = {**drawn, **shifts, **zeros, "input": wide(drawn["input"], 0), "start": start}
    return {**given, **{name: max(given[name], reach.LEAST_SHIFT) for name in given if name in _SHIFTS}}


_SHIFTS = ("start_shift", "out_shift", "cell_shift", "given_shift")
