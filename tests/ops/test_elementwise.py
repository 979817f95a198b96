"""Operators element by element, tables, softmax: against recorded layers, PT2E's graph, and known surprises."""

import importlib
import json
import math
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import cortado
import cortado.ops
from cortado.base.errors import CortadoError
from cortado.base.numerics import QParams
from cortado.base.target import ANY, CortexM, CortexMTargetConfig
from cortado.emit.pte.program import emit_pte
from cortado.frontend.export import Quantized, capture, quantize
from cortado.frontend.quantizer import RangeObserver
from cortado.ir.graph import shape
from cortado.ir.op import Operator, registry
from cortado.ops.activation import ACTIVATION, PLUS_MINUS_ONE, UNIT_INTERVAL
from cortado.ops.add import ADD
from cortado.ops.log_softmax import LOG_SOFTMAX
from cortado.ops.mul import MUL
from cortado.ops.pointwise import sources
from cortado.ops.softmax import SOFTMAX, input_factor
from cortado.passes import CortexMPassManager
from cortado.passes.fold_qparams import FoldQParams
from cortado.plan.lowered import LoweredGraph, lowered_graph, reference_outputs
from cortado.run.executorch_host import run_pte
from helpers import cases

GOLDEN = Path(__file__).parents[1] / "conformance"
QUIET = settings(deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None)
BORDERS = ("cortex_m::quantize_per_tensor", "cortex_m::dequantize_per_tensor", "aten::view_copy")


# ---- models of one expression --------------------------------------------------------------------------------


class Expression(nn.Module):
    """forward is any function; tensors given by name are constants of the model."""

    def __init__(self, function: Callable[..., Any], **constants: Tensor) -> None:
        super().__init__()
        self.function = function
        for name, data in constants.items():
            self.register_buffer(name, data)

    def forward(self, *inputs: Tensor) -> Any:
        constants = {name: buffer for name, buffer in self.named_buffers()}
        return self.function(*inputs, **constants)


class Lowered:
    """A model calibrated on given inputs: its PT2E graph and its lowered graph."""

    def __init__(self, model: nn.Module, *inputs: Tensor, calibration: Sequence[tuple[Tensor, ...]] = ()) -> None:
        self.inputs = inputs
        self.quantized: Quantized = quantize(capture(model, inputs), inputs, list(calibration) or [inputs])
        self.program = self.quantized.program()
        CortexMPassManager(self.program, target_config=ANY).transform()
        self.graph: LoweredGraph = lowered_graph(self.program)

    @property
    def operators(self) -> list[str]:
        """What is called, without borders, views and layout changes."""
        names = [call.operator for call in self.graph.calls if call.operator not in BORDERS]
        return [name.split("::")[1] for name in names if name != "cortex_m::transpose"]

    @property
    def scales(self) -> list[float]:
        calls = {call.name: call for call in self.graph.calls}
        return [float(calls[name].arguments["scale"]) for name in self.graph.outputs]

    def outputs(self, *inputs: Tensor) -> list[Tensor]:
        return reference_outputs(self.graph, list(inputs or self.inputs))

    def expected(self, *inputs: Tensor) -> list[Tensor]:
        with torch.no_grad():
            result = self.quantized.converted(*(inputs or self.inputs))
        return [result] if isinstance(result, Tensor) else list(result)

    def steps_apart(self, *inputs: Tensor) -> float:
        """The largest difference to the PT2E graph, in steps of the output's scale."""
        pairs = zip(self.outputs(*inputs), self.expected(*inputs), self.scales, strict=True)
        return max(float(((got - want) / scale).abs().max()) for got, want, scale in pairs)


def randn(*sizes: int, scale: float = 1.0, seed: int = 0) -> Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(seed)) * scale


# ---- recorded layers -----------------------------------------------------------------------------------------


def golden(name: str) -> Iterator[tuple[dict[str, Any], dict[str, Tensor]]]:
    with np.load(GOLDEN / f"{name}.npz") as archive:
        for number, params in enumerate(json.loads(archive["params"].tobytes())):
            keys = [key for key in archive.files if key.startswith(f"{number:03d}.")]
            yield params, {key.split(".")[1]: torch.from_numpy(archive[key]) for key in keys}


def test_add_equals_recorded_layers() -> None:
    for p, arrays in golden("add"):
        sides = {
            f"{name}_{what}": p[f"{short}_{what}"]
            for short, name in (("a", "self"), ("b", "other"), ("output", "output"))
            for what in ("zero_point", "multiplier", "shift")
        }
        bounds = {name: p[name] for name in ("activation_min", "activation_max")}
        got = ADD.reference(self=arrays["a"], other=arrays["b"], **sides, **bounds)
        assert torch.equal(got, arrays["output"])


def test_mul_equals_recorded_layers() -> None:
    for p, arrays in golden("mul"):
        got = MUL.reference(
            self=arrays["a"],
            self_zero_point=p["a_zero_point"],
            other=arrays["b"],
            other_zero_point=p["b_zero_point"],
            output_zero_point=p["output_zero_point"],
            output_multiplier=p["output_multiplier"],
            output_shift=p["output_shift"],
        )
        assert torch.equal(got.clamp(p["activation_min"], p["activation_max"]), arrays["output"])


def test_softmax_equals_recorded_layers() -> None:
    for p, arrays in golden("softmax"):
        factor = input_factor(p["input_scale"])
        assert factor == {"input_multiplier": p["multiplier"], "input_shift": p["shift"], "diff_min": p["diff_min"]}
        got = SOFTMAX.reference(input=arrays["input"], dim=-1, input_zero_point=0, output_zero_point=-128, **factor)
        assert torch.equal(got, arrays["output"])


# ---- two tensors ---------------------------------------------------------------------------------------------

TWO_TENSORS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "alpha": lambda a, b: torch.add(a, b, alpha=-2.5),
    "subtract": lambda a, b: torch.subtract(a, b, alpha=3),
    "rsub": lambda a, b: torch.rsub(a, b),
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / (b.abs() + 0.5),
    "minimum": torch.minimum,
    "maximum": lambda a, b: torch.max(a, b),
    "relu of sum": lambda a, b: F.relu(a + b),
    "clamp of product": lambda a, b: torch.clamp(a * b, -0.25, 0.5),
    "addcmul": lambda a, b: torch.addcmul(a, b, a, value=0.5),
}


@st.composite
def two_shapes(draw: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes that broadcast: dimensions of either may be 1 or, in front, missing."""
    sizes = draw(st.lists(st.sampled_from([1, 2, 3, 4, 5]), min_size=1, max_size=5))
    shapes = []
    for _ in range(2):
        kept = [size if draw(st.sampled_from([True, True, False])) else 1 for size in sizes]
        first = draw(st.integers(0, len(sizes) - 1)) if draw(st.booleans()) else 0
        shapes.append(tuple(kept[first:]))
    return shapes[0], shapes[1]


@settings(QUIET, max_examples=60)
@given(
    name=st.sampled_from(sorted(TWO_TENSORS)),
    shapes=two_shapes(),
    exponents=st.tuples(st.floats(-4, 4), st.floats(-4, 4)),
    seed=st.integers(0, 2**31),
)
def test_two_tensors_are_within_a_step_of_pt2e(
    name: str, shapes: tuple[tuple[int, ...], tuple[int, ...]], exponents: tuple[float, float], seed: int
) -> None:
    a, b = (
        randn(*sizes, scale=2.0**e, seed=seed + i) for i, (sizes, e) in enumerate(zip(shapes, exponents, strict=True))
    )
    lowered = Lowered(Expression(TWO_TENSORS[name]), a, b)
    again = [randn(*value.shape, scale=float(value.abs().max()), seed=seed + 2) for value in (a, b)]
    assert lowered.steps_apart() <= 1.01
    assert lowered.steps_apart(*again) <= 1.01


CHANNELS: dict[str, tuple[Callable[..., Tensor], dict[str, Tensor], list[Tensor]]] = {
    "squeeze-excite": (lambda x, s: x * s, {}, [randn(1, 6, 5, 4), randn(1, 6, 1, 1, seed=1)]),
    "scale first": (lambda s, x: s - x, {}, [randn(1, 6, 1, 1, seed=1), randn(1, 6, 5, 4)]),
    "bias vector": (lambda x, b: x + b, {}, [randn(7, 3, 9), randn(9, seed=1)]),
    "1-D signal": (lambda x, s: x * s, {}, [randn(1, 6, 20), randn(6, 1, seed=1)]),
    "positions": (lambda x, p: x + p, {}, [randn(3, 4, 5), randn(1, 4, 5, seed=1)]),
    "normalized": (
        lambda x, mean, std: (x - mean) / std,
        {"mean": randn(3, 1, 1), "std": randn(3, 1, 1, seed=1).abs() + 0.5},
        [randn(1, 3, 6, 6)],
    ),
}


@pytest.mark.parametrize("name", sorted(CHANNELS))
def test_a_channel_operand_is_not_copied_out(name: str) -> None:
    function, constants, inputs = CHANNELS[name]
    lowered = Lowered(Expression(function, **constants), *inputs)
    assert set(lowered.operators) <= {"quantized_add", "quantized_mul"}
    assert lowered.steps_apart() <= 1.01


def test_other_broadcasts_are_copied_out() -> None:
    """One value per pixel, a batch of scales, an outer product: data movement, then equal shapes."""
    x, mask = randn(1, 6, 5, 4), randn(1, 1, 5, 4, seed=1)
    pixel = Lowered(Expression(lambda x, m: x * m), x, mask)
    assert pixel.operators == ["repeat", "quantized_mul"]
    batch = Lowered(Expression(lambda x, s: x * s), randn(2, 6, 5, 4), randn(2, 6, 1, 1, seed=1))
    assert batch.operators == ["repeat", "quantized_mul"]
    outer = Lowered(Expression(lambda a, b: a * b), randn(4, 1), randn(1, 3, seed=1))
    assert outer.operators == ["repeat", "quantized_mul"]
    assert max(case.steps_apart() for case in (pixel, batch, outer)) <= 1.01


def test_a_rank_5_minimum_is_flat_for_the_runtime() -> None:
    """CMSIS-NN looks at the last four dimensions only."""
    lowered = Lowered(Expression(torch.minimum), randn(2, 3, 2, 2, 2), randn(2, 3, 2, 2, 2, seed=1))
    calls = [node for node in lowered.program.graph_module.graph.nodes if node.name.startswith("minimum")]
    assert [len(shape(node)) for node in calls] == [1]
    assert lowered.steps_apart() == 0.0


def test_nearly_cancelling_operands_are_refused() -> None:
    """The sum's scale is so small that one step of an operand would leave 32 bits."""
    a = randn(1, 8, scale=1000.0)
    with pytest.raises(CortadoError, match="nearly cancel"):
        Lowered(Expression(lambda a, b: a + b), a, torch.nextafter(-a, a))


def test_a_product_that_is_always_zero_is_refused() -> None:
    with pytest.raises(CortadoError, match="almost zero for every calibration input"):
        Lowered(Expression(lambda a, b: a * b), torch.tensor([[1e4, 0.0]]), torch.tensor([[0.0, 1e4]]))


# ---- tables --------------------------------------------------------------------------------------------------

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
def every_function() -> Lowered:
    """One model with every function on an input of its own, so that no two tables are the same."""
    inputs = [randn(2, 3, 17, scale=2.0, seed=seed) for seed in range(len(FUNCTIONS))]
    model = Expression(lambda *xs: tuple(f(x) for f, x in zip(FUNCTIONS.values(), xs, strict=True)))
    return Lowered(model, *inputs)


def test_every_function_of_one_tensor_is_one_table(every_function: Lowered) -> None:
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


def test_tables_are_what_pt2e_computes(every_function: Lowered) -> None:
    for name, got, want in zip(FUNCTIONS, every_function.outputs(), every_function.expected(), strict=True):
        assert torch.equal(got, want), name


def test_tables_are_right_for_all_256_codes(every_function: Lowered) -> None:
    codes = torch.arange(-128, 128).reshape(2, 1, 128).expand(2, 3, 128)[..., 1:18]
    feeds = []
    for number, call in enumerate(
        call for call in every_function.graph.calls if call.operator.endswith("::quantize_per_tensor")
    ):
        q = QParams(call.arguments["scale"], call.arguments["zero_point"])
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
def test_fixed_output_parameters(function: Callable[[Tensor], Tensor], qparams: QParams) -> None:
    """They survive data movement: nothing is rescaled behind them."""
    lowered = Lowered(Expression(function), randn(3, 8, scale=0.1))
    last = next(call for call in lowered.graph.calls if call.name == lowered.graph.outputs[0])
    assert QParams(last.arguments["scale"], last.arguments["zero_point"]) == qparams
    assert len(lowered.operators) == 1


def test_values_that_are_not_finite_saturate() -> None:
    """+inf is the largest code, -inf the smallest, NaN the zero point; calibration looks at finite values only."""
    x = torch.tensor([[-1.0, -0.5, 0.0, 0.25, 0.5, 1.0]])
    log = Lowered(Expression(torch.log), x)
    want = torch.tensor([[0.0, 0.0, math.log(0.25), math.log(0.25), math.log(0.5), 0.0]])
    assert torch.allclose(log.outputs()[0], want, atol=log.scales[0])
    inverse = Lowered(Expression(torch.reciprocal), x)
    assert inverse.scales[0] == pytest.approx(6 / 255, rel=1e-3)
    assert inverse.outputs()[0][0, 2] == pytest.approx(4.0, abs=inverse.scales[0])


def test_an_observer_that_never_saw_a_finite_value_keeps_its_start() -> None:
    observer = RangeObserver(dtype=torch.int8, quant_min=-128, quant_max=127, eps=2.0**-20)
    observer(torch.tensor([math.nan, math.inf]))
    assert observer.min_val == math.inf
    observer(torch.tensor([math.nan, -math.inf, -3.0, 2.0]))
    assert (float(observer.min_val), float(observer.max_val)) == (-3.0, 2.0)


class Block(nn.Module):
    """A convolution and something behind it."""

    def __init__(self, behind: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.conv = nn.Conv2d(3, 4, 3)
        self.behind = behind

    def forward(self, x: Tensor) -> Tensor:
        return self.behind(self.conv(x))


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
    lowered = Lowered(Block(behind), randn(1, 3, 8, 8))
    assert lowered.operators == ["quantized_conv2d_nhwc", *operators]
    assert lowered.steps_apart() <= 1.01


def test_prelu_with_one_slope_is_a_table() -> None:
    for weight in (torch.tensor([0.25]), torch.full((4,), 0.25)):
        lowered = Lowered(Expression(lambda x, w: F.prelu(x, w), w=weight), randn(1, 4, 5, 5))
        assert lowered.operators == ["quantized_activation"]
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
    lowered = Lowered(Expression(lambda x, w: F.prelu(x, w), w=weight), x)
    assert [name for name in lowered.operators if name != "repeat"] == operators
    assert lowered.steps_apart() <= 1.01
    assert (lowered.outputs()[0] - F.prelu(x, weight)).abs().max() <= 4 * lowered.scales[0]


def test_glu_is_a_slice_a_table_and_a_product() -> None:
    lowered = Lowered(Expression(lambda x: F.glu(x, 1)), randn(1, 8, 3, 3))
    assert lowered.operators == ["slice_copy", "slice_copy", "quantized_activation", "quantized_mul"]
    assert lowered.steps_apart() <= 1.01


REFUSED: dict[str, tuple[Callable[..., Tensor], str]] = {
    "a choice between two tensors": (lambda a, b: torch.where(a > b, a, b), "mixes several tensors"),
    "a comparison as a result": (lambda a, b: a > 0, "only supported inside a function of one tensor"),
    "a power of two tensors": (lambda a, b: a**b, "mixes several tensors"),
    "a logical result": (
        lambda a, b: torch.logical_and(a > 0, b > 0),
        "only supported inside a function of one tensor",
    ),
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_no_table_can_hold_is_refused_with_a_reason(name: str) -> None:
    function, reason = REFUSED[name]
    with pytest.raises(CortadoError, match=reason):
        Lowered(Expression(function), randn(2, 3).abs(), randn(2, 3, seed=1))


def test_a_broadcast_is_no_function_of_one_element() -> None:
    module = capture(Expression(lambda x: x.sum(1, keepdim=True).exp() + x.reshape(1, 4)), (randn(1, 4),)).module
    assert [node.name for node in sources(module.graph)] == ["exp"]


@pytest.mark.parametrize("function", [torch.add, torch.mul, torch.minimum])
def test_operands_that_turn_out_to_be_one(function: Callable[[Tensor, Tensor], Tensor]) -> None:
    """A roll along a dimension of one is nothing: known only when it is lowered, too late for a table."""
    lowered = Lowered(Expression(lambda x: function(x, x.roll(1, 0))), randn(1, 3, 4))
    assert len(lowered.operators) == 1
    assert lowered.steps_apart() <= 1.01


# ---- softmax -------------------------------------------------------------------------------------------------


@settings(QUIET, max_examples=25)
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
    lowered = Lowered(Expression(lambda x: function(x, axis)), x)
    assert lowered.operators == ["log_softmax" if logarithm else "softmax"]
    assert lowered.steps_apart() <= 2.01


def test_log_softmax_over_one_value_is_zero() -> None:
    """Calibration then sees zeros only, and its scale is as small as a scale can be."""
    lowered = Lowered(Expression(lambda x: torch.log_softmax(x, 0)), randn(1, 5))
    assert lowered.operators == ["log_softmax"]
    assert torch.equal(lowered.outputs()[0], torch.zeros(1, 5))


def test_softmax_over_channels_leaves_no_transpose_behind_a_convolution() -> None:
    lowered = Lowered(Block(lambda x: torch.softmax(x, 1)), randn(1, 3, 8, 8))
    transposes = [call for call in lowered.graph.calls if call.operator == "cortex_m::transpose"]
    assert len(transposes) == 2  # the input's and the output's


@settings(QUIET, max_examples=200)
@given(arguments=LOG_SOFTMAX.samples() if LOG_SOFTMAX.samples else st.nothing())
def test_log_softmax_is_the_logarithm_of_softmax(arguments: dict[str, Any]) -> None:
    """Against float64, from the same codes: half a step and what 32-bit fixed point loses."""
    in_scale = arguments["input_multiplier"] * 2.0 ** (arguments["input_shift"] - 57)
    out_scale = in_scale / (arguments["slope"] / 2.0 ** arguments["fraction_bits"])
    exact = torch.log_softmax(arguments["input"].to(torch.float64) * in_scale, -1) / out_scale
    want = (exact + arguments["output_zero_point"]).clamp(-128, 127)
    got = LOG_SOFTMAX.reference(**arguments).to(torch.float64)
    assert (got - want).abs().max() <= 0.51


def test_log_softmax_keeps_small_probabilities_apart() -> None:
    """What softmax and a table of logarithms could not do: they are all zero there."""
    lowered = Lowered(Expression(lambda x: torch.log_softmax(x, -1)), torch.tensor([[0.0, -10.0, -20.0, -30.0]]))
    got = lowered.outputs()[0][0]
    assert torch.allclose(got, torch.tensor([0.0, -10.0, -20.0, -30.0]), atol=lowered.scales[0])


def test_a_softmax_too_long_for_its_sum_is_refused() -> None:
    with pytest.raises(CortadoError, match="room for 1023"):
        Lowered(Expression(lambda x: torch.softmax(x, -1)), randn(1, 1024))


# ---- quantization parameters ---------------------------------------------------------------------------------


def test_cat_rescales_only_what_has_other_parameters() -> None:
    """A sigmoid has fixed parameters and is rescaled, inside its own table; the other operands share one scale."""
    model = Expression(lambda a, b: torch.cat([torch.sigmoid(a), b, a * b], 1))
    lowered = Lowered(model, randn(1, 4, 3, 3), randn(1, 4, 3, 3, scale=3.0, seed=1))
    assert sorted(lowered.operators) == ["cat", "quantized_activation", "quantized_mul"]
    assert lowered.steps_apart() <= 1.01


def test_operands_of_minimum_share_one_scale() -> None:
    lowered = Lowered(
        Expression(lambda a, b: torch.minimum(torch.tanh(a), 3 * F.gelu(b))), randn(2, 5), randn(2, 5, seed=1)
    )
    assert lowered.operators == ["quantized_activation", "quantized_activation", "minimum"]
    assert lowered.steps_apart() == 0.0


EXACT: tuple[Callable[[Tensor, Tensor], Tensor], ...] = (
    lambda a, b: torch.sigmoid(a),
    lambda a, b: torch.tanh(a),
    lambda a, b: F.gelu(a),
    lambda a, b: torch.maximum(a, b),
    lambda a, b: torch.minimum(a, b),
    lambda a, b: torch.cat([a, b], 1)[:, 2:6],
    lambda a, b: torch.cat([a, b, a], 1)[:, :4],
    lambda a, b: a.permute(0, 2, 1).reshape(1, 4, 6),
    lambda a, b: torch.maximum(a, torch.full_like(b, 0.1)),
)


@settings(QUIET, max_examples=40)
@given(
    program=st.lists(
        st.tuples(st.integers(0, len(EXACT) - 1), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=9
    )
)
def test_shared_parameters_hold_in_any_graph(program: list[tuple[int, int, int]]) -> None:
    """Tables, minimum, maximum and data movement lose nothing: however they are wired, the lowered graph is PT2E's."""

    def run(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        values = [a, b]
        for which, left, right in program:
            values.append(EXACT[which](values[left % len(values)], values[right % len(values)]))
        return tuple(values[2:])

    lowered = Lowered(Expression(run), randn(1, 4, 6, scale=2.0), randn(1, 4, 6, seed=1))
    for got, want in zip(lowered.outputs(), lowered.expected(), strict=True):
        assert torch.equal(got, want)


def test_constants_are_quantized_once_and_stored_as_codes() -> None:
    lowered = Lowered(Expression(lambda x, c: (x + c) * c, c=randn(4, 5, seed=1)), randn(4, 5))
    constants = [data for data in lowered.graph.constants.values() if data.numel() > 1]
    assert [tuple(data.shape) for data in constants] == [(4, 5)]
    assert constants[0].dtype == torch.int8


def test_a_float_call_keeps_its_borders() -> None:
    """What no operator takes reads dequantized values and its result is quantized again."""
    inputs = (randn(2, 6),)
    model = Expression(lambda x: F.relu(torch.cumsum(torch.tanh(x), 1)))
    program = quantize(capture(model, inputs), inputs, [inputs]).program()
    CortexMPassManager(program, passes=[FoldQParams], target_config=ANY).transform()
    names = [str(node.target) for node in program.graph_module.graph.nodes if node.op == "call_function"]
    kinds = [name.split(".")[1] for name in names]
    assert kinds == [
        "quantize_per_tensor",
        "tanh",
        "dequantize_per_tensor",
        "cumsum",
        "quantize_per_tensor",
        "relu",
        "dequantize_per_tensor",
    ]


# ---- both artifacts ------------------------------------------------------------------------------------------

SMALL_CORE = ("-DCORTADO_SMALL_CORE=1",)


@pytest.mark.host
@pytest.mark.parametrize("operator", [ADD, MUL, SOFTMAX, LOG_SOFTMAX], ids=lambda op: op.base)
def test_kernels_of_cores_without_long_multiplication(operator: Operator, tmp_path: Path) -> None:
    assert operator.samples is not None
    drawn: list[dict[str, Any]] = []

    @settings(QUIET, max_examples=40)
    @given(arguments=operator.samples())
    def draw(arguments: dict[str, Any]) -> None:
        drawn.append(arguments)

    draw()
    work = [(operator, arguments) for arguments in drawn]
    found = cases.run_cases(work, CortexMTargetConfig(CortexM.M0PLUS), "host", tmp_path, flags=SMALL_CORE)
    for got, want, arguments in zip(found, cases.references(work), drawn, strict=True):
        assert np.array_equal(got, want.numpy()), arguments


@pytest.mark.host
@pytest.mark.parametrize("name", sorted(CHANNELS))
def test_the_runtime_takes_a_channel_operand(name: str) -> None:
    """An NHWC broadcast would end the program there: it is seen as [pixels, channels, 1, 1]."""
    function, constants, inputs = CHANNELS[name]
    lowered = Lowered(Expression(function, **constants), *inputs)
    pte = emit_pte(lowered.program, ANY, {})
    assert pte.limits == ()
    got = run_pte(pte.data, [[value.numpy() for value in inputs]])
    assert np.array_equal(got[0][0], lowered.outputs()[0].numpy())


class Gated(nn.Module):
    """Constants as operands, a squeeze-excite scale, PReLU, a gate per pixel, a difference, softmax over channels."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.first, self.gate, self.last = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 1), nn.Conv2d(8, 5, 1)
        self.slopes = nn.Parameter(torch.rand(8))
        self.register_buffer("mean", torch.randn(3, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        x = F.hardswish(self.first(x - self.mean))
        x = x * F.hardsigmoid(self.gate(F.adaptive_avg_pool2d(x, 1)))
        x = F.prelu(x, self.slopes) - x * torch.sigmoid(x.mean(1, keepdim=True))
        return torch.softmax(self.last(x), 1)


@pytest.mark.host
def test_a_network_of_them_runs_in_the_bundle() -> None:
    batches = [(randn(1, 3, 12, 10, seed=seed),) for seed in range(4)]
    compiled = cortado.compile(Gated().eval(), batches[0], "cortex-m55", calibration=batches, name="gated")
    assert compiled.run(*batches[1], on="host").bit_exact


# ---- the template --------------------------------------------------------------------------------------------


@pytest.fixture
def template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Operator]:
    """The template as a file of the operators' folder."""
    shutil.copy(Path(cortado.ops.__path__[0]) / "_TEMPLATE.py", tmp_path / "lerp.py")
    monkeypatch.setattr(cortado.ops, "__path__", [*cortado.ops.__path__, str(tmp_path)])
    registry.cache_clear()
    yield registry().operators["cortado::lerp"]
    registry.cache_clear()
    sys.modules.pop("cortado.ops.lerp")
    vars(cortado.ops).pop("lerp")
    importlib.invalidate_caches()


def test_the_template_is_not_an_operator_itself() -> None:
    assert "cortado::lerp" not in registry().operators


def test_a_copy_of_the_template_lowers_a_model(template: Operator) -> None:
    lowered = Lowered(
        Expression(lambda a, b: F.relu(torch.lerp(a, b, 0.3))), randn(2, 9), randn(2, 9, scale=2.0, seed=1)
    )
    assert lowered.operators == ["lerp"]
    assert lowered.steps_apart() <= 1.01
    tensor_weight = Lowered(
        Expression(lambda a, b, w: torch.lerp(a, b, w), w=torch.tensor(0.4)), randn(2, 9), randn(2, 9)
    )
    assert tensor_weight.operators == ["lerp"]
    with pytest.raises(CortadoError, match="supported are weights between 0 and 1"):
        Lowered(Expression(lambda a, b: torch.lerp(a, b, 2.0)), randn(2, 9), randn(2, 9, seed=1))


@pytest.mark.host
def test_a_copy_of_the_template_has_a_working_kernel(template: Operator, tmp_path: Path) -> None:
    assert template.samples is not None
    drawn: list[dict[str, Any]] = []

    @settings(QUIET, max_examples=20)
    @given(arguments=template.samples())
    def draw(arguments: dict[str, Any]) -> None:
        drawn.append(arguments)

    draw()
    work = [(template, arguments) for arguments in drawn]
    found = cases.run_cases(work, CortexMTargetConfig(CortexM.M4), "host", tmp_path / "bundle")
    for got, want in zip(found, cases.references(work), strict=True):
        assert np.array_equal(got, want.numpy())


def test_a_table_has_one_entry_for_each_code() -> None:
    codes = torch.arange(-128, 128).to(torch.int8)
    lut = torch.flip(codes, (0,))
    assert torch.equal(ACTIVATION.reference(input=codes, lut=lut), lut)
