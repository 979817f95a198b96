"""Operators element by element: against recorded layers, PT2E's graph, and known surprises; both artifacts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import cortado
import cortado.ops
from cortado.base.element import INT8
from cortado.base.errors import CortadoError
from cortado.base.target import ANY, CortexM, CortexMTargetConfig
from cortado.emit.pte.program import emit_pte
from cortado.frontend.capture.export import capture
from cortado.frontend.quantize.convert import quantize
from cortado.ir.graph import shape
from cortado.ir.op import Operator
from cortado.ops.elementwise.add import ADD
from cortado.ops.elementwise.mul import MUL
from cortado.ops.softmax.log_softmax import LOG_SOFTMAX
from cortado.ops.softmax.softmax import SOFTMAX, input_factor
from cortado.passes import CortexMPassManager
from cortado.passes.fold_qparams import FoldQParams
from cortado.run.executorch_host import run_pte
from helpers import cases
from helpers.operator_cases import cases_of
from helpers.recorded import recorded_tensors
from helpers.single import Expression, lower_with, randn

# ---- recorded layers -----------------------------------------------------------------------------------------


def test_add_equals_recorded_layers() -> None:
    for p, arrays in recorded_tensors("add"):
        sides = {
            f"{name}_{what}": p[f"{short}_{what}"]
            for short, name in (("a", "self"), ("b", "other"), ("output", "output"))
            for what in ("zero_point", "multiplier", "shift")
        }
        bounds = {name: p[name] for name in ("activation_min", "activation_max")}
        got = ADD.reference(self=arrays["a"], other=arrays["b"], **sides, **bounds)
        assert torch.equal(got, arrays["output"])


def test_mul_equals_recorded_layers() -> None:
    for p, arrays in recorded_tensors("mul"):
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
    for p, arrays in recorded_tensors("softmax"):
        factor = input_factor(p["input_scale"], INT8)
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


@settings(max_examples=60)
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
    lowered = lower_with(Expression(TWO_TENSORS[name]), a, b)
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


@pytest.mark.cases(2)
@pytest.mark.parametrize("name", sorted(CHANNELS))
def test_a_channel_operand_is_not_copied_out(name: str) -> None:
    function, constants, inputs = CHANNELS[name]
    lowered = lower_with(Expression(function, **constants), *inputs)
    assert set(lowered.kernels) <= {"quantized_add", "quantized_mul"}
    assert lowered.steps_apart() <= 1.01


def test_other_broadcasts_are_copied_out() -> None:
    """One value per pixel, a batch of scales, an outer product: data movement, then equal shapes."""
    x, mask = randn(1, 6, 5, 4), randn(1, 1, 5, 4, seed=1)
    pixel = lower_with(Expression(lambda x, m: x * m), x, mask)
    assert pixel.kernels == ["repeat", "quantized_mul"]
    batch = lower_with(Expression(lambda x, s: x * s), randn(2, 6, 5, 4), randn(2, 6, 1, 1, seed=1))
    assert batch.kernels == ["repeat", "quantized_mul"]
    outer = lower_with(Expression(lambda a, b: a * b), randn(4, 1), randn(1, 3, seed=1))
    assert outer.kernels == ["repeat", "quantized_mul"]
    assert max(case.steps_apart() for case in (pixel, batch, outer)) <= 1.01


def test_a_rank_5_minimum_is_flat_for_the_runtime() -> None:
    """CMSIS-NN looks at the last four dimensions only."""
    lowered = lower_with(Expression(torch.minimum), randn(2, 3, 2, 2, 2), randn(2, 3, 2, 2, 2, seed=1))
    calls = [node for node in lowered.program.graph_module.graph.nodes if node.name.startswith("minimum")]
    assert [len(shape(node)) for node in calls] == [1]
    assert lowered.steps_apart() == 0.0


def test_nearly_cancelling_operands_are_refused() -> None:
    """The sum's scale is so small that one step of an operand would leave 32 bits."""
    a = randn(1, 8, scale=1000.0)
    with pytest.raises(CortadoError, match="nearly cancel"):
        lower_with(Expression(lambda a, b: a + b), a, torch.nextafter(-a, a))


def test_a_product_that_is_always_zero_is_refused() -> None:
    with pytest.raises(CortadoError, match="almost zero for every calibration input"):
        lower_with(Expression(lambda a, b: a * b), torch.tensor([[1e4, 0.0]]), torch.tensor([[0.0, 1e4]]))


# ---- quantization parameters ---------------------------------------------------------------------------------


def test_cat_rescales_only_what_has_other_parameters() -> None:
    """What the product reads too keeps its own scale; what nothing else reads is made in the scale of the output."""
    model = Expression(lambda a, b: torch.cat([torch.sigmoid(a), b, a * b], 1))
    lowered = lower_with(model, randn(1, 4, 3, 3), randn(1, 4, 3, 3, scale=3.0, seed=1))
    assert sorted(lowered.kernels) == ["cat_rescaled", "quantized_mul"]  # the sigmoid is a table of the join
    assert lowered.steps_apart() <= 1.01


def test_operands_of_minimum_share_one_scale() -> None:
    lowered = lower_with(
        Expression(lambda a, b: torch.minimum(torch.tanh(a), 3 * F.gelu(b))), randn(2, 5), randn(2, 5, seed=1)
    )
    assert lowered.kernels == ["quantized_activation", "quantized_activation", "minimum"]
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


@settings(max_examples=5)
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

    lowered = lower_with(Expression(run), randn(1, 4, 6, scale=2.0), randn(1, 4, 6, seed=1))
    for got, want in zip(lowered.outputs(), lowered.expected(), strict=True):
        assert torch.equal(got, want)


def test_constants_are_quantized_once_and_stored_as_codes() -> None:
    lowered = lower_with(Expression(lambda x, c: (x + c) * c, c=randn(4, 5, seed=1)), randn(4, 5))
    constants = [data for data in lowered.graph.constants.values() if data.numel() > 1]
    assert [tuple(data.shape) for data in constants] == [(4, 5)]
    assert constants[0].dtype == torch.int8


def test_a_float_call_keeps_its_borders() -> None:
    """What no operator takes reads dequantized values and its result is quantized again."""
    inputs = (randn(2, 6),)
    model = Expression(lambda x: F.relu(torch.cumprod(torch.tanh(x), 1)))
    program = quantize(capture(model, inputs), inputs, [inputs]).program()
    CortexMPassManager(program, passes=[FoldQParams], target_config=ANY).transform()
    names = [str(node.target) for node in program.graph_module.graph.nodes if node.op == "call_function"]
    kinds = [name.split(".")[1] for name in names]
    assert kinds == [
        "quantize_per_tensor",
        "tanh",
        "dequantize_per_tensor",
        "cumprod",
        "quantize_per_tensor",
        "relu",
        "dequantize_per_tensor",
    ]


# ---- both artifacts ------------------------------------------------------------------------------------------

SMALL_CORE = ("-DCORTADO_SMALL_CORE=1",)


@pytest.mark.cases(1)
@pytest.mark.host
@pytest.mark.parametrize("operator", [ADD, MUL, SOFTMAX, LOG_SOFTMAX], ids=lambda op: op.base)
def test_kernels_of_cores_without_long_multiplication(operator: Operator, tmp_path: Path) -> None:
    drawn: list[dict[str, Any]] = []

    @settings(max_examples=40)
    @given(arguments=cases_of(operator))
    def draw(arguments: dict[str, Any]) -> None:
        drawn.append(arguments)

    draw()
    work = [(operator, arguments) for arguments in drawn]
    found = cases.run_cases(work, CortexMTargetConfig(CortexM.M0PLUS), "host", tmp_path, flags=SMALL_CORE)
    for got, want, arguments in zip(found, cases.references(work), drawn, strict=True):
        assert np.array_equal(got, want.numpy()), arguments


@pytest.mark.cases(2)
@pytest.mark.host
@pytest.mark.parametrize("name", sorted(CHANNELS))
def test_the_runtime_takes_a_channel_operand(name: str) -> None:
    """An NHWC broadcast would end the program there: it is seen as [pixels, channels, 1, 1]."""
    function, constants, inputs = CHANNELS[name]
    lowered = lower_with(Expression(function, **constants), *inputs)
    pte = emit_pte(lowered.program, ANY, {})
    assert pte.limits == ()
    got = run_pte(pte.data, [[value.numpy() for value in inputs]])
    assert np.array_equal(got[0][0], lowered.outputs()[0].numpy())


class Gated(nn.Module):
    """Constants as operands, a squeeze-excite scale, PReLU, a gate per pixel, a difference, softmax over channels."""

    mean: Tensor

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
