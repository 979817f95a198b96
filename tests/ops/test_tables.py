"""Functions of one element: one table of 256 entries each, or a reason."""

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from cortado.base.element import INT8
from cortado.base.errors import CortadoError
from cortado.base.numerics import QParams
from cortado.frontend.capture.export import capture
from cortado.frontend.quantize.observers import RangeObserver
from cortado.ops.elementwise.activation import ACTIVATION, PLUS_MINUS_ONE, UNIT_INTERVAL
from cortado.ops.elementwise.pointwise import sources
from helpers.single import Block, Expression, Single, lower_with, randn

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "relu6": F.relu6,
    "hardtanh": lambda x: F.hardtanh(x, -0.5, 0.7),
    "clamp": lambda x: torch.clamp(x, -1.0, 0.3),
    "clip": lambda x: torch.clip(x, 0.2, 1.0),
    "sigmoid": torch.sigmoid,
    "expit": torch.special.expit,
    "tanh": torch.tanh,
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu tanh": lambda x: F.gelu(x, approximate="tanh"),
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "elu": lambda x: F.elu(x, 0.7),
    "selu": F.selu,
    "celu": lambda x: F.celu(x, 1.3),
    "mish": F.mish,
    "softplus": lambda x: F.softplus(x, 2.0),
    "softsign": F.softsign,
    "tanhshrink": F.tanhshrink,
    "hardshrink": F.hardshrink,
    "softshrink": F.softshrink,
    "threshold": lambda x: F.threshold(x, 0.1, -1.0),
    "rrelu": F.rrelu,
    "logsigmoid": F.logsigmoid,
    "exp": torch.exp,
    "expm1": torch.expm1,
    "log": lambda x: torch.log(x.abs() + 0.1),
    "log2": lambda x: torch.log2(x * x + 1),
    "log10": lambda x: torch.log10(2 + torch.sin(x)),
    "log1p": lambda x: torch.log1p(F.relu(x)),
    "sqrt": lambda x: torch.sqrt(F.relu(x)),
    "rsqrt": lambda x: torch.rsqrt(x.square() + 0.5),
    "abs": torch.abs,
    "neg": torch.neg,
    "pow": lambda x: x**3,
    "pow of a number": lambda x: 2.0**x,
    "sin": torch.sin,
    "cos": torch.cos,
    "reciprocal": lambda x: 1 / (x.abs() + 0.2),
    "erf": torch.erf,
    "round": torch.round,
    "sign": torch.sign,
    "scalar arithmetic": lambda x: 3 - (x * 2 + 1) / 7,
    "doubled": lambda x: x + x,
    "squared": lambda x: x * x,
    "hardswish by hand": lambda x: x * F.relu6(x + 3) / 6,
    "swish by hand": lambda x: x * torch.sigmoid(1.702 * x),
    "leaky by hand": lambda x: torch.where(x > 0, x, 0.1 * x),
    "mask": lambda x: (x > 0.1).float() * x,
    "masked_fill": lambda x: x.masked_fill(x < 0, 0.25),
    "bounded by a tensor": lambda x: torch.maximum(x, torch.full_like(x, -0.4)),
    "constant tensor": lambda x: x * torch.tensor(0.3) + torch.tensor([0.1]),
    "branches": lambda x: torch.tanh(x) * torch.cos(x) + F.gelu(x) - torch.minimum(x, x.sin()),
}


@pytest.fixture(scope="module")
def every_function() -> Single:
    """One model with every function on an input of its own, so that no two tables are the same."""
    inputs = [randn(2, 3, 17, scale=2.0, seed=seed) for seed in range(len(FUNCTIONS))]
    model = Expression(lambda *xs: tuple(f(x) for f, x in zip(FUNCTIONS.values(), xs, strict=True)))
    return lower_with(model, *inputs)


def test_every_function_of_one_tensor_is_one_table(every_function: Single) -> None:
    """Or none, where all that changes is the scale: x + x."""
    inputs = set(every_function.graph.inputs)
    calls = {call.name: call for call in every_function.graph.calls}
    for name, output in zip(FUNCTIONS, every_function.graph.outputs, strict=True):
        path = [output]
        while path[-1] not in inputs:
            path.append(calls[path[-1]].arguments["input"].name)
        kinds = [calls[step].operator.split("::")[1] for step in path[:-1]]
        inner = [kind for kind in kinds if kind not in ("quantize_per_tensor", "dequantize_per_tensor")]
        assert inner == ["quantized_activation"] or (inner == [] and name in ("doubled", "constant tensor")), name


def test_tables_are_what_pt2e_computes(every_function: Single) -> None:
    for name, got, want in zip(FUNCTIONS, every_function.outputs(), every_function.expected(), strict=True):
        assert torch.equal(got, want), name


def test_tables_are_right_for_all_256_codes(every_function: Single) -> None:
    codes = torch.arange(-128, 128).reshape(2, 1, 128).expand(2, 3, 128)[..., 1:18]
    feeds = []
    for number, call in enumerate(
        call for call in every_function.graph.calls if call.operator.endswith("::quantize_per_tensor")
    ):
        q = QParams(call.arguments["scale"], call.arguments["zero_point"], INT8)
        feeds.append(q.dequantize(torch.roll(codes, number * 17, -1)))
    for name, got, want in zip(FUNCTIONS, every_function.outputs(*feeds), every_function.expected(*feeds), strict=True):
        assert torch.equal(got, want), name


@pytest.mark.parametrize(
    ("function", "qparams"),
    [
        (torch.sigmoid, UNIT_INTERVAL),
        (F.hardsigmoid, UNIT_INTERVAL),
        (lambda x: torch.sigmoid(2 * x - 1), UNIT_INTERVAL),
        (torch.tanh, PLUS_MINUS_ONE),
        (lambda x: torch.softmax(x, -1), UNIT_INTERVAL),
        (lambda x: torch.sigmoid(x).reshape(-1).unsqueeze(0), UNIT_INTERVAL),
    ],
)
def test_usual_output_parameters(function: Callable[[Tensor], Tensor], qparams: QParams) -> None:
    """They survive data movement: nothing is rescaled behind them."""
    lowered = lower_with(Expression(function), randn(3, 8, scale=4.0))
    last = next(call for call in lowered.graph.calls if call.name == lowered.graph.outputs[0])
    assert QParams(last.arguments["scale"], last.arguments["zero_point"], INT8) == qparams
    assert len(lowered.kernels) == 1


def test_values_that_are_not_finite_saturate() -> None:
    """+inf is the largest code, -inf the smallest, NaN the zero point; calibration looks at finite values only."""
    x = torch.tensor([[-1.0, -0.5, 0.0, 0.25, 0.5, 1.0]])
    log = lower_with(Expression(torch.log), x)
    want = torch.tensor([[0.0, 0.0, math.log(0.25), math.log(0.25), math.log(0.5), 0.0]])
    assert torch.allclose(log.outputs()[0], want, atol=log.scales[0])
    inverse = lower_with(Expression(torch.reciprocal), x)
    assert inverse.scales[0] == pytest.approx(6 / 255, rel=1e-3)
    assert inverse.outputs()[0][0, 2] == pytest.approx(4.0, abs=inverse.scales[0])


def test_an_observer_that_never_saw_a_finite_value_keeps_its_start() -> None:
    observer = RangeObserver(dtype=torch.int8, quant_min=-128, quant_max=127, eps=2.0**-20)
    observer(torch.tensor([math.nan, math.inf]))
    assert observer.min_val == math.inf
    observer(torch.tensor([math.nan, -math.inf, -3.0, 2.0]))
    assert (float(observer.min_val), float(observer.max_val)) == (-3.0, 2.0)


@pytest.mark.cases(3)
@pytest.mark.parametrize(
    ("behind", "operators"),
    [
        (F.relu, []),
        (F.relu6, []),
        (lambda x: F.relu_(x), []),
        (lambda x: torch.clamp(x, -0.1, 0.2), []),
        (lambda x: F.relu(F.max_pool2d(x, 2)), ["quantized_max_pool2d_nhwc"]),
        (lambda x: F.relu(x.flatten(1)), []),
        (F.hardswish, ["quantized_activation"]),
        (lambda x: x * F.relu6(x + 3) / 6, ["quantized_activation"]),
        (lambda x: torch.where(x > 0, x, 0.1 * x), ["quantized_activation"]),
        (lambda x: torch.tanh(F.relu(x)) * 2, ["quantized_activation"]),
        (lambda x: F.relu(x) + x, ["quantized_activation"]),
    ],
)
def test_what_stands_behind_a_convolution(behind: Callable[[Tensor], Tensor], operators: list[str]) -> None:
    lowered = lower_with(Block(behind), randn(1, 3, 8, 8))
    assert lowered.kernels == ["quantized_conv2d_nhwc", *operators]
    assert lowered.steps_apart() <= 1.01


def test_prelu_with_one_slope_is_a_table() -> None:
    for weight in (torch.tensor([0.25]), torch.full((4,), 0.25)):
        lowered = lower_with(Expression(lambda x, w: F.prelu(x, w), w=weight), randn(1, 4, 5, 5))
        assert lowered.kernels == ["quantized_activation"]
        assert lowered.steps_apart() == 0.0


@pytest.mark.parametrize(
    ("slopes", "operators"),
    [
        ([0.1, 0.5, -0.3, 1.0], ["quantized_mul", "maximum"]),
        ([1.5, 1.0, 2.0, 3.0], ["quantized_mul", "minimum"]),
        ([0.1, 2.0, -0.3, 1.0], ["quantized_activation", "quantized_mul", "quantized_add"]),
    ],
)
@pytest.mark.parametrize("sizes", [(1, 4, 5, 5), (2, 4, 3, 3), (3, 4)])
def test_prelu_with_a_slope_per_channel(slopes: list[float], operators: list[str], sizes: tuple[int, ...]) -> None:
    x, weight = randn(*sizes), torch.tensor(slopes)
    lowered = lower_with(Expression(lambda x, w: F.prelu(x, w), w=weight), x)
    # The product reads x in its own scale, so a table may bring it to the output's.
    found = [name for name in lowered.kernels if name != "repeat"]
    assert found in (operators, [operators[0], "quantized_activation", *operators[1:]])
    assert lowered.steps_apart() <= 1.01
    assert (lowered.outputs()[0] - F.prelu(x, weight)).abs().max() <= 4 * lowered.scales[0]


def test_glu_is_a_slice_a_table_and_a_product() -> None:
    lowered = lower_with(Expression(lambda x: F.glu(x, 1)), randn(1, 8, 3, 3))
    assert lowered.kernels == ["slice_copy", "slice_copy", "quantized_activation", "quantized_mul"]
    assert lowered.steps_apart() <= 1.01


REFUSED: dict[str, tuple[Callable[..., Tensor], str]] = {
    "a choice by a computed power": (lambda a, b: torch.where(a > b, a**b, b), "mixes several tensors"),
    "a power of two tensors": (lambda a, b: a**b, "mixes several tensors"),
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_no_table_can_hold_is_refused_with_a_reason(name: str) -> None:
    function, reason = REFUSED[name]
    with pytest.raises(CortadoError, match=reason):
        lower_with(Expression(function), randn(2, 3).abs(), randn(2, 3, seed=1))


def test_a_broadcast_is_no_function_of_one_element() -> None:
    module = capture(Expression(lambda x: x.sum(1, keepdim=True).exp() + x.reshape(1, 4)), (randn(1, 4),)).module
    assert [node.name for node in sources(module.graph)] == ["exp"]


@pytest.mark.parametrize("function", [torch.add, torch.mul, torch.minimum])
def test_operands_that_turn_out_to_be_one(function: Callable[[Tensor, Tensor], Tensor]) -> None:
    """A roll along a dimension of one is nothing: known only when it is lowered, too late for a table."""
    lowered = lower_with(Expression(lambda x: function(x, x.roll(1, 0))), randn(1, 3, 4))
    assert len(lowered.kernels) == 1
    assert lowered.steps_apart() <= 1.01


def test_a_table_has_one_entry_for_each_code() -> None:
    codes = torch.arange(-128, 128).to(torch.int8)
    lut = torch.flip(codes, (0,))
    assert torch.equal(ACTIVATION.reference(input=codes, lut=lut), lut)
