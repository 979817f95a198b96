"""Layout: every tensor lies in the order that costs least, and moving transposes never changes a value."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, GraphModule, Node
from torch.nn import functional

from cortado.api import prepare
from cortado.base.element import INT8
from cortado.base.numerics import QParams
from cortado.ir.graph import lift, shape
from cortado.ir.op import Operator, result_elements, shaped_call
from cortado.ir.schemas import overload
from cortado.models import zoo
from cortado.ops.conv.conv2d import CONV2D
from cortado.ops.elementwise.activation import ACTIVATION
from cortado.ops.elementwise.min_max import MINIMUM
from cortado.ops.move.cat import CAT
from cortado.ops.move.index_select import INDEX_SELECT
from cortado.ops.move.pad import PAD
from cortado.ops.move.repeat import REPEAT
from cortado.ops.move.reshape import TRANSPOSE, VIEW
from cortado.ops.move.slice import SLICE
from cortado.ops.move.upsample_nearest import UPSAMPLE
from cortado.options import InputLayout, LinearWeights
from cortado.passes import PIPELINE, CortexMPassManager
from cortado.passes.clean_up import CleanUp
from cortado.passes.move_transposes import MoveTransposes
from cortado.passes.orders import TRANSPOSE_OVERHEAD, carry, view_groups
from cortado.plan.lowered import LoweredGraph, lowered_graph, reference_outputs
from helpers import single
from helpers.single import Function, assert_close, lower

Tensor = torch.Tensor


# ---- networks ----------------------------------------------------------------------------------------------------


def conv(inputs: int, outputs: int, kernel: int = 3, **options: Any) -> nn.Conv2d:
    layer = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, **options)
    single.randomize(layer, inputs * 100 + outputs)
    return layer


def linear(inputs: int, outputs: int) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    single.randomize(layer, inputs * 100 + outputs)
    return layer


def u_net(self: Any, x: Tensor) -> Tensor:
    fine = self.a(x)
    coarse = functional.interpolate(self.b(fine), scale_factor=2)
    return self.c(torch.cat([fine, coarse], 1))


def squeeze_excite(self: Any, x: Tensor) -> Tensor:
    y = self.a(x)
    factors = functional.hardsigmoid(self.c(functional.relu(self.b(y.mean((2, 3), keepdim=True)))))
    return self.d(y * factors)


def residual(self: Any, x: Tensor) -> Tensor:
    y = functional.relu(self.a(x))
    z = functional.silu(self.b(y) + y)
    return self.c(functional.dropout(z, 0.5, False).flatten(1))


def signals(self: Any, x: Tensor) -> Tensor:
    y = self.a(x)
    z = torch.cat([y[:, :4], y[:, 4:].roll(1, 2)], 1)
    return self.c((self.b(z) + z).flatten(1))


def channels_last_inside(self: Any, x: Tensor) -> Tensor:
    """A model that takes and gives NHWC itself."""
    y = self.a(x.permute(0, 3, 1, 2))
    y = functional.pad(y[:, ::2], (1, 1, 2, 0), mode="reflect")
    return self.b(torch.cat([y, y.flip(3)], 1)).permute(0, 2, 3, 1)


IMAGE = (1, 3, 6, 8)

NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], int]] = {
    # how many transposes may be left: one for an NCHW input, one for an NCHW output of rank 4
    "u_net": (lambda: Function(u_net, a=conv(3, 8), b=conv(8, 8, stride=2), c=conv(16, 4, 1)), IMAGE, 2),
    "squeeze_excite": (
        lambda: Function(squeeze_excite, a=conv(3, 8), b=conv(8, 4, 1), c=conv(4, 8, 1), d=conv(8, 4)),
        IMAGE,
        2,
    ),
    "residual": (lambda: Function(residual, a=conv(3, 8), b=conv(8, 8), c=linear(8 * 48, 3)), IMAGE, 1),
    "batch": (lambda: Function(residual, a=conv(3, 8), b=conv(8, 8), c=linear(8 * 48, 3)), (2, 3, 6, 8), 1),
    "signals": (
        lambda: Function(signals, a=nn.Conv1d(1, 8, 3, padding=1), b=nn.Conv1d(8, 8, 5, padding=2), c=linear(128, 4)),
        (1, 1, 16),
        0,
    ),
    "channels_last_inside": (lambda: Function(channels_last_inside, a=conv(3, 8), b=conv(8, 4)), (1, 6, 8, 3), 0),
    "linear_in_front": (
        lambda: Function(lambda self, x: self.b(self.a(x).view(-1, 8, 3, 5)), a=linear(16, 120), b=conv(8, 4)),
        (2, 16),
        1,
    ),
    "patches": (
        lambda: Function(
            lambda self, x: self.b(self.a(x).flatten(2).transpose(1, 2)), a=nn.Conv2d(3, 16, 4, 4), b=linear(16, 8)
        ),
        (1, 3, 8, 12),
        1,
    ),
    "added_constant": (
        lambda: Function(lambda self, x: self.b(self.a(x) + self.p), a=conv(3, 8), b=conv(8, 4), p=torch.ones(8, 6, 8)),
        IMAGE,
        2,
    ),
    "input_used_twice": (
        lambda: Function(lambda self, x: self.b(functional.silu(x + self.a(x))), a=conv(3, 3), b=conv(3, 8)),
        IMAGE,
        2,
    ),
    "two_outputs": (
        lambda: Function(
            lambda self, x: (self.b(y := functional.pad(self.a(x), (0, 3))), y), a=conv(3, 8), b=conv(8, 4)
        ),
        IMAGE,
        3,
    ),
    "softmax_of_channels": (lambda: Function(lambda self, x: self.a(x).softmax(1), a=conv(3, 8)), IMAGE, 2),
    # One transpose is what a shuffle is.
    "pixel_shuffle": (
        lambda: Function(lambda self, x: self.b(functional.pixel_shuffle(self.a(x), 2)), a=conv(3, 16), b=conv(4, 8)),
        IMAGE,
        3,
    ),
    "channel_shuffle": (
        lambda: Function(lambda self, x: self.b(self.s(self.a(x))), a=conv(3, 8), s=nn.ChannelShuffle(2), b=conv(8, 8)),
        IMAGE,
        3,
    ),
}


@pytest.mark.cases(4)
@pytest.mark.parametrize("name", NETWORKS)
def test_transposes_left(name: str) -> None:
    make, sizes, allowed = NETWORKS[name]
    found = lower(make(), [sizes])
    assert found.operators.count("transpose") == allowed, found.operators
    assert found.worst() < (2.001 if "softmax" in name else 1.001)


@pytest.mark.cases(2)
@pytest.mark.parametrize("linear_weights", LinearWeights)
@pytest.mark.parametrize("name", ["residual", "batch", "linear_in_front", "signals"])
def test_linear_layers_take_the_order_that_is_there(name: str, linear_weights: LinearWeights) -> None:
    """Their constants are put in that order, and every value stays the same."""
    make, sizes, allowed = NETWORKS[name]
    found = lower(make(), [sizes])
    graphs = []
    for passes in (PIPELINE, [item for item in PIPELINE if item is not MoveTransposes]):
        program = found.quantized.program()
        CortexMPassManager(program, passes, linear=linear_weights).transform()
        graphs.append(lowered_graph(program))
    moved, still = graphs
    assert count(moved, TRANSPOSE) == allowed < count(still, TRANSPOSE)
    for batch in found.batches:
        assert torch.equal(reference_outputs(moved, batch)[0], reference_outputs(still, batch)[0])


def test_channels_last_models_and_inputs() -> None:
    """The memory format of a model and of its inputs changes nothing but the last bits of calibration."""
    make, sizes, _ = NETWORKS["residual"]
    plain = lower(make(), [sizes])
    batches = [tuple(x.to(memory_format=torch.channels_last) for x in batch) for batch in plain.batches]
    other = single.lower_on(make().to(memory_format=torch.channels_last), batches)  # type: ignore[call-overload]
    assert other.operators == plain.operators
    for batch, last in zip(plain.batches, batches, strict=True):
        difference = reference_outputs(plain.graph, batch)[0] - reference_outputs(other.graph, last)[0]
        assert float(difference.abs().max()) < 1.001 * plain.scales[0]


ZOO = {
    "ds_cnn": 0,
    **dict.fromkeys(("kws_stream", "kws_gru", "imu_lstm"), 0),
    "deep_autoencoder": 0,
    "resnet8": 1,
    "mobilenet_v1_025": 1,
    "mobilenet_v1_pruned": 1,
    "ecg_conv1d": 0,
    "mobilenet_tiny": 0,
    "unet_small": 2,
    "mobilenet_v2": 1,
    "mobilenet_v3_small": 1,
}


@pytest.mark.cases(3)
@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) if "_v" in name else name for name in ZOO])
def test_the_zoo_has_transposes_at_its_borders_only(name: str) -> None:
    network = zoo.get(name)
    batches = network.calibration(1)
    found = single.lower_on(network.build(), batches)
    assert found.operators.count("transpose") == ZOO[name]
    last = len(found.operators) - 1
    assert all(i in (0, last) for i, operator in enumerate(found.operators) if operator == "transpose")


def test_nhwc_inputs() -> None:
    """The same values from an image whose channels come last, and one transpose less."""
    make, sizes, _ = NETWORKS["u_net"]
    (x,) = lower(make(), [sizes]).batches[0]
    quantized = prepare(make().eval(), (x,), [(x,)]).quantized
    graphs = []
    for layout in InputLayout:
        program = quantized.program()
        CortexMPassManager(program, input_layout=layout).transform()
        graphs.append(lowered_graph(program))
    assert program.example_inputs is not None
    assert program.example_inputs[0][0].shape == (1, 6, 8, 3)
    plain, nhwc = graphs
    assert count(nhwc, TRANSPOSE) == count(plain, TRANSPOSE) - 1
    given = x.permute(0, 2, 3, 1).contiguous()
    assert torch.equal(reference_outputs(plain, [x])[0], reference_outputs(nhwc, [given])[0])


def count(graph: LoweredGraph, operator: Operator) -> int:
    return [call.operator for call in graph.calls].count(operator.name)


# ---- any graph of movements --------------------------------------------------------------------------------------


class Builder:
    """A lowered graph, call by call."""

    def __init__(self) -> None:
        self.graph, self.root, self.mode = Graph(), nn.Module(), FakeTensorMode()
        self.inputs: list[Tensor] = []
        self.results: list[Node] = []

    def input(self, value: Tensor) -> Node:
        node = self.graph.placeholder(f"x{len(self.inputs)}")
        node.meta["val"] = self.mode.from_tensor(value, static_shapes=True)
        self.inputs.append(value)
        return node

    def constant(self, value: Tensor) -> Node:
        name = f"c{len(list(self.root.buffers()))}"
        self.root.register_buffer(name, value)
        node = self.graph.get_attr(name)
        node.meta["val"] = self.mode.from_tensor(value, static_shapes=True)
        return node

    def call(self, operator: Operator, /, **arguments: Any) -> Node:
        node = self.graph.call_function(overload(operator), (), arguments)
        sizes = operator.shape(shaped_call(operator, arguments))
        with self.mode:
            node.meta["val"] = torch.empty(sizes, dtype=result_elements(operator, arguments)[0].torch_dtype)
        return node

    def program(self, *results: Node) -> torch.export.ExportedProgram:
        self.graph.output(results)
        return lift(GraphModule(self.root, self.graph), self.inputs)


def codes(seed: int, sizes: tuple[int, ...]) -> Tensor:
    return torch.randint(-128, 128, sizes, generator=torch.Generator().manual_seed(seed), dtype=torch.int8)


def factors(draw: Any, size: int) -> list[int]:
    divisor = draw(st.sampled_from([d for d in range(1, size + 1) if size % d == 0]))
    return [divisor, size // divisor]


def a_view(draw: Any, build: Builder, x: Node) -> Node:
    """Split one dimension, merge two, or add one of size 1."""
    sizes = list(shape(x))
    dim = draw(st.integers(0, len(sizes) - 1))
    kind = draw(st.sampled_from(["split", "merge", "unit"])) if len(sizes) < 5 else "merge"
    if kind == "split":
        sizes[dim : dim + 1] = factors(draw, sizes[dim])
    elif kind == "unit":
        sizes.insert(dim, 1)
    elif len(sizes) > 1:
        dim = min(dim, len(sizes) - 2)
        sizes[dim : dim + 2] = [sizes[dim] * sizes[dim + 1]]
    return build.call(VIEW, self=x, size=sizes)


def a_transpose(draw: Any, build: Builder, x: Node) -> Node:
    return build.call(TRANSPOSE, input=x, perm=draw(st.permutations(list(range(len(shape(x)))))))


def a_slice(draw: Any, build: Builder, x: Node) -> Node:
    dim = draw(st.integers(0, len(shape(x)) - 1))
    size = shape(x)[dim]
    return build.call(SLICE, self=x, dim=dim, start=(size - 1) // 2, end=size, step=draw(st.integers(1, 2)))


def a_pad(draw: Any, build: Builder, x: Node) -> Node:
    widths = [[draw(st.integers(0, 1)) for _ in shape(x)] for _ in range(2)]
    return build.call(PAD, input=x, pre_pad=widths[0], post_pad=widths[1], pad_value=7)


def a_repeat(draw: Any, build: Builder, x: Node) -> Node:
    dim = draw(st.integers(0, len(shape(x)) - 1))
    return build.call(REPEAT, self=x, repeats=[2 if i == dim else 1 for i in range(len(shape(x)))])


def a_pick(draw: Any, build: Builder, x: Node) -> Node:
    dim = draw(st.integers(0, len(shape(x)) - 1))
    index = build.constant(torch.arange(shape(x)[dim] - 1, -1, -1))
    return build.call(INDEX_SELECT, self=x, dim=dim, index=index)


def a_table(draw: Any, build: Builder, x: Node) -> Node:
    return build.call(ACTIVATION, input=x, lut=build.constant(codes(draw(st.integers(0, 99)), (256,))))


def a_minimum(draw: Any, build: Builder, x: Node) -> Node:
    """With a constant, with itself in another order that has the same shape, or with a table of itself."""
    kind = draw(st.sampled_from(["constant", "transposed", "table"]))
    if kind == "constant":
        return build.call(MINIMUM, self=x, other=build.constant(codes(3, shape(x))))
    other = a_table(draw, build, x)
    if kind == "transposed":
        other = build.call(TRANSPOSE, input=other, perm=draw(st.permutations(list(range(len(shape(x)))))))
    return build.call(MINIMUM, self=x, other=other) if shape(other) == shape(x) else other


def a_cat(draw: Any, build: Builder, x: Node) -> Node:
    parts = [x, a_table(draw, build, x), build.constant(codes(4, shape(x)))]
    return build.call(CAT, tensors=draw(st.permutations(parts)), dim=draw(st.integers(0, len(shape(x)) - 1)))


def an_upsample(draw: Any, build: Builder, x: Node) -> Node:
    """Something that works in one order only."""
    return build.call(UPSAMPLE, input=x, factors=[1, 2]) if len(shape(x)) == 4 else x


def a_linear(draw: Any, build: Builder, x: Node) -> Node:
    """All but the first dimension flattened into a linear layer, whose outputs get two dimensions again."""
    first, *rest = shape(x)
    outputs = draw(st.sampled_from([4, 6]))
    result = build.call(
        CONV2D,
        input=build.call(VIEW, self=x, size=[1, 1, first, math.prod(rest)]),
        weight=build.constant(codes(outputs, (outputs, 1, 1, math.prod(rest)))),
        bias=build.constant(torch.arange(outputs, dtype=torch.int32) * 100),
        stride=[1, 1],
        padding=[0, 0],
        dilation=[1, 1],
        input_offset=3,
        output_offset=-5,
        requantize_multipliers=build.constant(torch.arange(outputs, dtype=torch.int32) * 2**24 + 2**30),
        requantize_shifts=build.constant(torch.full((outputs,), -9, dtype=torch.int32)),
        activation_min=-128,
        activation_max=127,
    )
    return build.call(VIEW, self=result, size=[first, 2, outputs // 2])


MOVES = (
    a_view,
    a_transpose,
    a_transpose,
    a_slice,
    a_pad,
    a_repeat,
    a_pick,
    a_table,
    a_minimum,
    a_cat,
    an_upsample,
    a_linear,
)


@st.composite
def graphs(draw: Any) -> Builder:
    build = Builder()
    sizes = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 4]), min_size=2, max_size=4)))
    tensors = [build.input(codes(draw(st.integers(0, 99)), sizes))]
    for _ in range(draw(st.integers(3, 14))):
        source = draw(st.sampled_from(tensors[-3:]))
        if math.prod(shape(source)) <= 2000:
            tensors.append(draw(st.sampled_from(MOVES))(draw, build, source))
    build.results = tensors[-2:]
    return build


def transposed_bytes(graph: LoweredGraph, values: dict[str, Tensor]) -> int:
    names = [call.name for call in graph.calls if call.operator == TRANSPOSE.name]
    return sum(values[name].numel() + TRANSPOSE_OVERHEAD for name in names)


@settings(max_examples=150)
@given(build=graphs())
def test_moving_transposes_changes_no_value_and_costs_nothing(build: Builder) -> None:
    check_moves(build)


@pytest.mark.slow
@settings(max_examples=1500)
@given(build=graphs())
def test_moving_transposes_changes_no_value_and_costs_nothing_long(build: Builder) -> None:
    check_moves(build)


def check_moves(build: Builder) -> None:
    from cortado.plan.lowered import run_reference

    program = build.program(*build.results)
    before = lowered_graph(program)
    values = run_reference(before, build.inputs)
    CortexMPassManager(program, passes=(MoveTransposes, CleanUp)).transform()
    after = lowered_graph(program)
    moved = run_reference(after, build.inputs)
    for old, new in zip(before.outputs, after.outputs, strict=True):
        assert torch.equal(values[old], moved[new])
    assert transposed_bytes(after, moved) <= transposed_bytes(before, values)


@settings(max_examples=200)
@given(data=st.data())
def test_a_reshape_carries_orders_there_and_back(data: Any) -> None:
    """Whatever order a reshape carries over, the bytes are those of the reshaped tensor in that order."""
    before = tuple(data.draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=4)))
    after = tuple(data.draw(st.permutations(list(before)))) if data.draw(st.booleans()) else (math.prod(before),)
    if data.draw(st.booleans()):
        after = (*factors(data.draw, after[0]), *after[1:])
    groups = view_groups(before, after)
    order = tuple(data.draw(st.permutations(list(range(len(before))))))
    carried = carry(order, groups, after)
    x = torch.arange(math.prod(before)).reshape(before)
    if carried is not None:
        assert sorted(carried) == list(range(len(after)))
        assert torch.equal(x.permute(order).flatten(), x.reshape(after).permute(carried).flatten())
    if order == tuple(range(len(before))):
        assert carried == tuple(range(len(after)))


# ---- clean-up ----------------------------------------------------------------------------------------------------


def test_clean_up_merges_folds_and_drops() -> None:
    """Equal constants and calls once, calls on constants computed, identity tables and dead constants gone."""
    build = Builder()
    x = build.input(codes(0, (2, 6)))
    table, same = codes(1, (256,)), torch.arange(-128, 128, dtype=torch.int16).to(torch.int8)
    first, second = (build.call(ACTIVATION, input=x, lut=build.constant(table.clone())) for _ in range(2))
    first.meta["qparams"] = second.meta["qparams"] = QParams(0.5, 0, INT8)
    unchanged = build.call(ACTIVATION, input=first, lut=build.constant(same))
    unchanged.meta["qparams"] = QParams(0.5, 0, INT8)
    constant = build.call(SLICE, self=build.constant(codes(2, (4, 6))), dim=0, start=0, end=2, step=1)
    build.call(ACTIVATION, input=x, lut=build.constant(codes(3, (256,))))
    result = build.call(MINIMUM, self=build.call(MINIMUM, self=unchanged, other=second), other=constant)
    program = build.program(result)
    wanted = reference_outputs(lowered_graph(program), build.inputs)[0]
    CortexMPassManager(program, passes=(CleanUp,)).transform()
    graph = lowered_graph(program)
    assert [call.operator for call in graph.calls] == [ACTIVATION.name, MINIMUM.name, MINIMUM.name]
    assert sorted(value.numel() for value in graph.constants.values()) == [12, 256]
    assert torch.equal(reference_outputs(graph, build.inputs)[0], wanted)


def test_codes_that_stay_the_same_get_the_new_scale() -> None:
    """Twice a tensor is the same codes with twice the scale, unless somebody else reads them with the old one."""
    found = lower(Function(lambda self, x: 2.0 * x.flip(1)), [IMAGE])
    assert found.operators == ["index_select"]
    qparams = found.graph.values[found.calls("aten::index_select")[0].name].qparams
    assert qparams is not None
    assert qparams.scale == found.scales[0]
    kept = lower(Function(lambda self, x: (y := x.flip(1), 2.0 * y)), [IMAGE])
    assert kept.operators == ["index_select", "quantized_activation"]
    at_input = lower(Function(lambda self, x: 2.0 * x), [IMAGE])
    assert at_input.operators == ["quantized_activation"]
    assert max(found.worst(), kept.worst(), at_input.worst()) == 0.0


def test_dropout_and_copies_leave_nothing_behind() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        return functional.dropout(self.a(x).clone().contiguous().to(torch.float32), 0.5, False)

    found = lower(Function(forward, a=conv(3, 8)), [IMAGE])
    assert found.operators == ["transpose", "quantized_conv2d_nhwc", "transpose"]
    assert_close(found)
