"""Softmax and its logarithm over any dimension."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from cortado.api import prepare
from cortado.base.target import from_target_string
from cortado.ops.softmax.log_softmax import LOG_SOFTMAX
from helpers.operator_cases import cases_of
from helpers.single import Block, Expression, lower_with, randn

M4 = from_target_string("cortex-m4")
pytestmark = pytest.mark.filterwarnings("ignore::cortado.base.errors.CortadoWarning")  # few samples


@settings(max_examples=25)
@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=5),
    dim=st.integers(0, 4),
    scale=st.sampled_from([0.01, 0.5, 3.0, 20.0]),
    logarithm=st.booleans(),
    seed=st.integers(0, 2**31),
)
def test_softmax_over_any_dimension(sizes: list[int], dim: int, scale: float, logarithm: bool, seed: int) -> None:
    axis = dim % len(sizes)
    sizes[axis] = sizes[axis] * 7
    function = torch.log_softmax if logarithm else torch.softmax
    x = randn(*sizes, scale=scale, seed=seed)
    lowered = lower_with(Expression(lambda x: function(x, axis)), x)
    assert lowered.kernels == ["log_softmax" if logarithm else "softmax"]
    assert lowered.steps_apart() <= 2.01


def test_log_softmax_over_one_value_is_zero() -> None:
    """Calibration then sees zeros only, and its scale is as small as a scale can be."""
    lowered = lower_with(Expression(lambda x: torch.log_softmax(x, 0)), randn(1, 5))
    assert lowered.kernels == ["log_softmax"]
    assert torch.equal(lowered.outputs()[0], torch.zeros(1, 5))


def test_softmax_over_channels_leaves_no_transpose_behind_a_convolution() -> None:
    lowered = lower_with(Block(lambda x: torch.softmax(x, 1)), randn(1, 3, 8, 8))
    transposes = [call for call in lowered.graph.calls if call.operator == "cortex_m::transpose"]
    assert len(transposes) == 2  # the input's and the output's


def _is_int8(arguments: dict[str, Any]) -> bool:
    return bool(arguments["input"].dtype == torch.int8)


@settings(max_examples=200)
@given(arguments=cases_of(LOG_SOFTMAX).filter(_is_int8))
def test_log_softmax_is_the_logarithm_of_softmax(arguments: dict[str, Any]) -> None:
    """Against float64, from the same codes: half a step and what 32-bit fixed point loses."""
    in_scale = arguments["input_multiplier"] * 2.0 ** (arguments["input_shift"] - 57)
    out_scale = in_scale / (arguments["slope"] / 2.0 ** arguments["fraction_bits"])
    scores = arguments["input"].to(torch.float64) * in_scale
    for kept in arguments["kept"]:
        scores[kept.repeat(len(scores) // len(kept), 1) == 0] = -torch.inf
    exact = torch.log_softmax(scores, -1).nan_to_num(nan=-torch.inf) / out_scale
    want = (exact + arguments["output_zero_point"]).clamp(-128, 127)
    got = LOG_SOFTMAX.reference(**arguments).to(torch.float64)
    assert (got - want).abs().max() <= 0.51


def test_log_softmax_keeps_small_probabilities_apart() -> None:
    """What softmax and a table of logarithms could not do: they are all zero there."""
    lowered = lower_with(Expression(lambda x: torch.log_softmax(x, -1)), torch.tensor([[0.0, -10.0, -20.0, -30.0]]))
    got = lowered.outputs()[0][0]
    assert torch.allclose(got, torch.tensor([0.0, -10.0, -20.0, -30.0]), atol=lowered.scales[0])


@pytest.mark.parametrize("function", [torch.softmax, torch.log_softmax])
def test_rows_of_any_length(function: Callable[[Tensor, int], Tensor]) -> None:
    """As far from the model as short rows are: one value stands out of 5,000, or two do."""
    x = randn(2, 5000, scale=1.0)
    x[:, 7], x[1, 4999] = 12.0, 11.5
    lowered = lower_with(Expression(lambda x: function(x, -1)), x)
    assert lowered.steps_apart() <= 2.01


def test_a_row_whose_values_all_vanish() -> None:
    """Beyond 512 equal values each is less than half a step; beyond 8,192 their sum takes more than 32 bits."""
    lowered = lower_with(Expression(lambda x: torch.softmax(x, -1)), torch.ones(1, 10000))
    assert torch.equal(lowered.outputs()[0], torch.zeros(1, 10000))


def test_a_pte_has_no_long_rows() -> None:
    x = randn(1, 1024)
    compiled = prepare(Expression(lambda x: x.softmax(-1)), (x,), [(x,)], name="row").compile(M4)
    assert "the runtime's sum of exponentials has room for 1023 values" in compiled.report.pte_missing[0]


@pytest.mark.qemu
def test_long_rows_on_boards(tmp_path: Path) -> None:
    """Bit-exact, with sums on both sides of what 28 and 32 bits hold."""
    x = torch.cat([randn(1, 10000, scale=2.0), torch.zeros(1, 10000), randn(1, 10000, scale=0.01)])
    mask = torch.rand(1, 10000, generator=torch.Generator().manual_seed(0)) < 0.3
    expression = Expression(lambda x: (x.softmax(-1), x.log_softmax(-1), x.masked_fill(mask, -torch.inf).softmax(-1)))
    model = prepare(expression, (x,), [(x,)], name="rows")
    for target in ("cortex-m0plus", "cortex-m4", "cortex-m33", "cortex-m55"):
        artifact = model.compile(from_target_string(target)).save(tmp_path / target)
        assert artifact.run([[x.numpy()]]).bit_exact, target
    assert artifact.run([[x.numpy()]], "host").bit_exact
