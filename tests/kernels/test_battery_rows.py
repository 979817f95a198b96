"""The battery for kernels over rows: running sums, logarithms of softmax, the largest codes."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from cortado.base.target import Core
from cortado.ir.kernel import Array as Constant
from cortado.ops.softmax.log_softmax import LOG_SOFTMAX
from helpers import kernel_reference as ref
from helpers.cases import call_of
from helpers.kernels import Calls, Ref
from helpers.machines import MACHINES, ZEROS, Array, Draw, Machine, check, in_turn, mve, with_vectors
from helpers.operator_cases import cases_of

LENGTHS = (1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 33, 64)
PLACES = (0, 1, 3)  # apart, in place, a little before


@pytest.mark.parametrize("machine", MACHINES)
def test_running_sums(machine: Machine) -> None:
    draw, calls, outputs = Draw(47), Calls(), []
    for number in range(36):
        x, zeros = draw.bytes(draw.one(1, 3), LENGTHS[number % len(LENGTHS)]), [draw.one(*ZEROS) for _ in range(2)]
        left = 30 - int(255 * x.shape[1]).bit_length()
        factor = int(draw.multipliers(1)[0]), draw.one(-left - 9, -left, -left + 5, -2, 0)
        layer = calls.struct(
            "cortado_cumsum_t", length=x.shape[1], in_zero=zeros[0], left_shift=left, out_zero=zeros[1],
            out_multiplier=factor[0], out_shift=factor[1])  # fmt: skip
        sums = np.cumsum(x.astype(np.int64) - zeros[0], axis=1) << left
        expected = ref.finish(sums, *factor, zeros[1], -128, 127)
        for suffix in with_vectors(machine):
            source, _, out = in_turn(calls, x.ravel(), x.ravel(), PLACES[number % 3])
            calls.call(f"cortado_cumsum_s8{suffix}", layer, source, out, len(x))
            outputs.append((out, expected, f"case {number}{suffix}"))
    check(machine, calls, outputs, "cortado_cumsum_s8", *mve(machine, "cumsum_s8"))


@pytest.mark.parametrize("machine", MACHINES)
def test_the_largest_codes(machine: Machine) -> None:
    """Few codes, so that many are equal; either result alone, or both."""
    draw, calls, outputs = Draw(48), Calls(), []
    for number in range(36):
        x = draw.bytes(draw.one(1, 3), LENGTHS[number % len(LENGTHS)])
        x = x if number % 3 else np.where(x > 0, 127, -128).astype(np.int8)
        count, largest = draw.one(1, x.shape[1], (x.shape[1] + 1) // 2), draw.one(0, 1)
        order = np.argsort(x.astype(np.int64) * (1 - 2 * largest), axis=1, kind="stable")[:, :count].astype(np.int32)
        values = np.take_along_axis(x, order, axis=1)
        for suffix in with_vectors(machine):
            given: list[Ref | None] = [calls.space(4 * order.size, words=True), calls.space(order.size)]
            if number % 4 > 1:
                given[number % 2] = None
            calls.call(
                f"cortado_topk_s8{suffix}", calls.array(x), given[0], len(x), x.shape[1], count, largest, given[1]
            )
            pairs = zip(given, (order, values), strict=True)
            outputs += [(out, wanted, f"case {number}{suffix}") for out, wanted in pairs if out is not None]
    check(machine, calls, outputs, "cortado_topk_s8", *mve(machine, "topk_s8"))


def drawn(count: int) -> list[dict[str, Any]]:
    """Calls over all values of int8 rows."""
    found: list[dict[str, Any]] = []

    @settings(max_examples=count)
    @given(arguments=cases_of(LOG_SOFTMAX))
    def draw(arguments: dict[str, Any]) -> None:
        found.append(arguments)

    draw()
    return [one for one in found if one["input"].dtype == torch.int8 and not one["kept"]]


def long_row(arguments: dict[str, Any]) -> dict[str, Any]:
    """More values than a sum of 32 bits holds at a time, all of them the largest but for a few."""
    return {**arguments, "input": torch.where(torch.arange(2100) % 700 > 0, 127, -128).to(torch.int8).reshape(1, -1)}


@pytest.mark.parametrize("machine", MACHINES)
def test_logarithms_of_softmax(machine: Machine) -> None:
    calls, outputs = Calls(), []
    cases = drawn(60)
    for number, arguments in enumerate([*cases, long_row(cases[-1])]):
        assert LOG_SOFTMAX.kernel is not None
        fields = {
            name: calls.array(value.data) if isinstance(value, Constant) else value
            for name, value in LOG_SOFTMAX.kernel(call_of(LOG_SOFTMAX, arguments), Core.PORTABLE).fields.items()
        }
        layer, x = calls.struct("cortado_log_softmax_t", **fields), arguments["input"].numpy()
        expected: Array = LOG_SOFTMAX.reference(**arguments).numpy()
        for suffix in with_vectors(machine):
            source, _, out = in_turn(calls, x.ravel(), x.ravel(), PLACES[number % 3])
            calls.call(f"cortado_log_softmax_s8{suffix}", layer, source, out, x.size // x.shape[-1], x.shape[-1])
            outputs.append((out, expected, f"case {number}{suffix}"))
    check(machine, calls, outputs, "cortado_log_softmax_s8", *mve(machine, "log_softmax_s8"))
