"""What Arm's kernels refuse, read past or get wrong: Cortado's operator library refuses it too, no .pte holds it."""

import itertools
import random
import struct
import subprocess
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cortado.api import Model, prepare
from cortado.base.element import INT8
from cortado.base.target import CortexM, CortexMTargetConfig, from_target_string
from cortado.emit.pte.program import emit_pte
from cortado.ir.op import Call, Operator
from cortado.models import zoo
from cortado.ops.conv.convolution import is_wrong_on_mve
from cortado.plan.lowered import lowered_graph, reference_outputs
from cortado.run import executorch_host
from cortado.run.executorch_host import run_pte
from helpers import cases
from helpers.executorch import ANY, DSP, MVE, SANITIZED, SCALAR, by_name, call_bytes, draw_legal
from helpers.networks import lower
from helpers.single import Expression

pytestmark = pytest.mark.xdist_group("executorch")

TARGETS = (SCALAR, DSP, MVE, ANY)
CONV, DEPTHWISE, TRANSPOSED = (
    by_name(f"cortex_m::quantized_{name}_nhwc") for name in ("conv2d", "depthwise_conv2d", "transpose_conv2d")
)
PAD, MAX_POOL, AVG_POOL = (
    by_name(f"cortex_m::{name}") for name in ("pad", "quantized_max_pool2d_nhwc", "quantized_avg_pool2d_nhwc")
)
Arguments = Mapping[str, Any]


def codes(*sizes: int) -> Tensor:
    return torch.arange(int(np.prod(sizes))).mul(37).remainder(255).sub(127).to(torch.int8).reshape(sizes)


# ---- one call, as it stands ----------------------------------------------------------------------------------------


def refusal(folder: Path, call: bytes, target: str | None) -> str | None:
    """Why the operator library refuses a call; None if it makes it, with the reference's bits."""
    source = Path(__file__).parent / "fuzz_executorch.cpp"
    program = executorch_host.build_program([source], "fuzz_executorch", SANITIZED)
    (folder / "call.bin").write_bytes(struct.pack("<I", 1) + call)
    command = [str(program), str(folder / "call.bin"), "1", "0", *([] if target is None else [target])]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)
    if done.returncode == 0:
        return None
    assert "a right call was refused: " in done.stderr, done.stderr
    return done.stderr.strip()


def convolution(width: int, kernel: int, stride: int, beside: int, **changes: Any) -> dict[str, Any]:
    """A layer over an image of height 1 with 4 channels."""
    return {
        "input": codes(1, 1, width, 4),
        "weight": codes(3, 1, kernel, 4),
        "bias": torch.tensor([1, -200, 3000], dtype=torch.int32),
        "stride": [stride, stride],
        "padding": [0, beside],
        "dilation": [1, 1],
        "input_offset": 5,
        "output_offset": -3,
        "requantize_multipliers": torch.full((3,), 1 << 30, dtype=torch.int32),
        "requantize_shifts": torch.full((3,), -6, dtype=torch.int32),
        "activation_min": -128,
        "activation_max": 127,
        **changes,
    }


def padding(sizes: tuple[int, ...], before: list[int], after: list[int]) -> dict[str, Any]:
    return {"input": codes(*sizes), "pre_pad": before, "post_pad": after, "pad_value": 7}


def pooling(**changes: Any) -> dict[str, Any]:
    pair = {"kernel_size": [2, 2], "stride": [2, 2], "padding": [0, 0], "dilation": [1, 1]}
    numbers = {"input_zero_point": 0, "output_zero_point": 0, "activation_min": -128, "activation_max": 127}
    return {"input": codes(1, 5, 5, 3), **pair, "ceil_mode": False, **numbers, **changes}


def equal_operands(*sizes: tuple[int, ...]) -> dict[str, Any]:
    numbers = {"self_zero_point": 1, "other_zero_point": 2, "output_zero_point": 3}
    operands = dict(zip(("self", "other"), (codes(*size) for size in sizes), strict=True))
    return {**operands, **numbers, "output_multiplier": 1 << 30, "output_shift": -6}


WRONG: dict[str, tuple[Operator, Arguments, str]] = {
    "pad lists of the rank's length": (PAD, padding((1, 5, 30), [0, 0, 3], [0, 0, 1]), "found 3 numbers, expected 4"),
    "pad lists of five": (PAD, padding((2, 3), [0] * 5, [0] * 5), "found 5 numbers, expected 4"),
    "pad before the first dimension": (PAD, padding((5, 30), [1, 0, 0, 0], [0] * 4), "found 1"),
    "pad of one channel": (PAD, padding((1, 1, 9, 7), [0, 0, 1, 1], [0, 0, 0, 2]), "takes the sizes 1, 1, 9, 7 for"),
    "pad of one pixel": (PAD, padding((1, 5, 1, 1), [0, 1, 0, 0], [0] * 4), "for channels-last"),
    "pad of rank 5": (PAD, padding((1, 2, 2, 2, 2), [0] * 5, [0] * 5), "found rank 5, expected 1 to 4"),
    "transpose of rank 5": (
        by_name("cortex_m::transpose"),
        {"input": codes(1, 2, 2, 2, 2), "perm": [4, 3, 2, 1, 0]},
        "found rank 5, expected 1 to 4",
    ),
    "pool with ceil_mode": (MAX_POOL, pooling(ceil_mode=True), "ceil_mode"),
    "pool with dilation": (MAX_POOL, pooling(dilation=[2, 1]), "dilation"),
    "stride of one number": (MAX_POOL, pooling(stride=[2]), "stride: found 1 numbers, expected 2"),
    "depthwise of two images": (
        DEPTHWISE,
        convolution(8, 3, 1, 1, input=codes(2, 1, 8, 3), weight=codes(1, 1, 3, 3), depth_multiplier=1),
        "found a batch of 2",
    ),
    "groups without a bias": (
        CONV,
        convolution(8, 3, 1, 1, input=codes(1, 1, 8, 3), weight=codes(3, 1, 3, 1), bias=None),
        "a convolution in groups needs one",
    ),
    "a broadcast along the last dimension": (
        by_name("cortex_m::quantized_mul"),
        equal_operands((1, 3, 5, 4), (1, 1, 1, 4)),
        "expected equal shapes",
    ),
    "a channel operand of rank 2": (by_name("cortex_m::quantized_mul"), equal_operands((5, 4), (1, 4)), "at rank 4"),
    "maximum of rank 5": (
        by_name("cortex_m::maximum"),
        {"self": codes(2, 1, 2, 1, 2), "other": codes(2, 1, 2, 1, 2)},
        "found rank 5",
    ),
    "transposed convolution with a small kernel": (
        TRANSPOSED,
        convolution(4, 2, 3, 0, output_padding=[0, 0]),
        "CMSIS-NN's transposed convolution is wrong",
    ),
}


@pytest.mark.host
@pytest.mark.parametrize("name", WRONG)
def test_calls_that_the_runtime_does_not_make_are_refused(name: str, tmp_path: Path) -> None:
    operator, arguments, message = WRONG[name]
    for target in (DSP, None):
        said = refusal(tmp_path, call_bytes(operator, arguments, target=DSP), target)
        assert said is not None
        assert message in said


SIGNALS = {
    "a last window inside the signal": convolution(20, 5, 2, 2),
    "two inputs beyond the first output's": convolution(19, 5, 2, 2),
    "a window that ends before the signal": convolution(20, 3, 2, 0),
    "rows of padding": convolution(9, 3, 1, 1, padding=[1, 1]),
    "one channel that makes several": convolution(
        20, 5, 4, 2, input=codes(1, 1, 20, 1), weight=codes(1, 1, 5, 3), depth_multiplier=3
    ),
}


@pytest.mark.cases(2)
@pytest.mark.host
@pytest.mark.parametrize("name", SIGNALS)
def test_layers_that_arms_mve_kernel_gets_wrong_are_refused_where_it_may_run(name: str, tmp_path: Path) -> None:
    arguments = SIGNALS[name]
    operator = DEPTHWISE if "depth_multiplier" in arguments else CONV
    for target in (SCALAR, DSP, f"{MVE}+nomve"):
        assert refusal(tmp_path, call_bytes(operator, arguments, target=target), target) is None
    for target in (MVE, ANY, "cortex-m85"):
        said = refusal(tmp_path, call_bytes(operator, arguments, target=target), target)
        assert said is not None
        assert "put the length on the height" in said
    assert refusal(tmp_path, call_bytes(operator, arguments, target=MVE), None) is not None


def takes_wrong_kernel(operator: Operator, arguments: Arguments) -> bool:
    if operator not in (CONV, DEPTHWISE):
        return False
    call = cases.shaped(operator, arguments)
    return is_wrong_on_mve(call, call.shape("weight")[3] if operator is CONV else 1)


WITH_SCRATCH = (CONV, DEPTHWISE, TRANSPOSED, AVG_POOL, by_name("cortex_m::quantized_batch_matmul"))


@pytest.mark.cases(2)
@pytest.mark.host
@pytest.mark.parametrize("operator", WITH_SCRATCH, ids=lambda operator: operator.base)
def test_scratch_has_exactly_the_targets_size(operator: Operator, tmp_path: Path) -> None:
    """Sizes of ExecuTorch's own binding are taken, 16 bytes more are not; without a target any core's are."""
    drawn = [a for a in draw_legal(operator, 12, ANY) if not takes_wrong_kernel(operator, a)]
    for arguments in drawn[:2]:
        for target in TARGETS:
            right = call_bytes(operator, arguments, target=target)
            assert refusal(tmp_path, right, target) is None
            assert refusal(tmp_path, right, None) is None
            said = refusal(tmp_path, call_bytes(operator, arguments, target=target, more=16), target)
            assert said is not None
            assert "scratch: found" in said


@pytest.mark.host
def test_scratch_of_another_core_is_refused(tmp_path: Path) -> None:
    call = call_bytes(CONV, convolution(9, 3, 1, 1), target=DSP)
    said = refusal(tmp_path, call, MVE)
    assert said is not None
    assert "as CMSIS-NN on the file's target" in said
    assert refusal(tmp_path, call, DSP) is None


@pytest.mark.host
def test_every_target_is_known_to_the_library(tmp_path: Path) -> None:
    """Each asks for the scratch that ExecuTorch's binding gives for it."""
    arguments = convolution(9, 3, 1, 1)
    every = [CortexMTargetConfig(cpu) for cpu in CortexM]
    every += [CortexMTargetConfig(config.cpu, isa) for config in every for isa in config.supported]
    for name in sorted({config.target_string for config in every}):
        assert refusal(tmp_path, call_bytes(CONV, arguments, target=name), name) is None, name


# ---- Arm's kernel for images of height 1 ---------------------------------------------------------------------------

Window = list[int | None]  # the inputs under the taps; None: padding


def row_kernel(length: int, taps: int, stride: int, beside: int) -> list[Window] | None:
    """The windows that CMSIS-NN's MVE kernel multiplies with the taps; None where it ends with an error.

    It keeps the windows of an end in scratch: padding and the first inputs, or the last inputs and padding.
    """
    outputs = (length + 2 * beside - taps) // stride + 1
    lacking = (outputs - 1) * stride + taps - length
    uneven = int(np.fmod(lacking, 2))
    if lacking != 2 * beside + uneven:
        return None
    left = -(-beside // stride)
    right = 0 if beside + uneven == 0 else max(1, int((beside + uneven + stride - 1) / stride))
    if left + right > outputs:
        return wanted_windows(length, taps, stride, beside)  # it asks the kernel for any image
    middle = outputs - left - right
    first: Window = [None] * beside + list(range(taps))
    start = stride * (left + middle) - beside
    last: Window = [*range(start, start + taps - 1), *([None] * (right if uneven else beside))]
    inside: list[Window] = [
        list(range(stride * i - beside, stride * i - beside + taps)) for i in range(left, left + middle)
    ]
    past = [i for i in (*first, *last) if i is not None and i >= length]
    at_left, at_right = (
        [scratch[stride * i : stride * i + taps] for i in range(count)]
        for scratch, count in ((first, left), (last, right))
    )
    return None if past else at_left + inside + at_right


def wanted_windows(length: int, taps: int, stride: int, beside: int) -> list[Window]:
    outputs = (length + 2 * beside - taps) // stride + 1
    places = (range(i * stride - beside, i * stride - beside + taps) for i in range(outputs))
    return [[place if 0 <= place < length else None for place in window] for window in places]


def test_what_is_left_to_arms_row_kernel_is_right() -> None:
    left_alone = 0
    for length, taps, stride, beside in itertools.product(range(1, 14), range(1, 7), range(1, 5), range(6)):
        if length + 2 * beside < taps:
            continue
        shapes = {"input": (1, 1, length, 4), "weight": (3, 1, taps, 4)}
        numbers = {"stride": [stride, stride], "padding": [0, beside], "dilation": [1, 1]}
        right = row_kernel(length, taps, stride, beside) == wanted_windows(length, taps, stride, beside)
        if not is_wrong_on_mve(Call(CONV, {**shapes, **numbers}, (), INT8, {}), 4):
            assert right or (taps == 1 and beside == 0), (length, taps, stride, beside)
            left_alone += stride > 1
        ends = beside == 0 or (beside - 1) % stride == 0
        if (length + 2 * beside - taps) % stride or not ends:
            assert is_wrong_on_mve(Call(CONV, {**shapes, **numbers}, (), INT8, {}), 4) or (taps == 1 and beside == 0)
    assert left_alone > 100


# ---- models --------------------------------------------------------------------------------------------------------


def padded(*widths: int) -> nn.Module:
    return Expression(lambda x: F.pad(x, widths))


class Side(nn.Module):
    """Layers side by side, each with an input of its own."""

    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        return tuple(layer(x) for layer, x in zip(self.layers, inputs, strict=True))


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "pad of a signal": (lambda: padded(3, 1), (1, 5, 30)),
    "causal convolution": (lambda: nn.Sequential(padded(2, 0), nn.Conv1d(4, 8, 3)), (1, 4, 20)),
    "pad of one channel": (lambda: padded(1, 2, 1, 0), (1, 1, 9, 7)),
    "even kernel, same": (lambda: nn.Conv1d(4, 8, 4, padding="same"), (1, 4, 20)),
    "max_pool1d, ceil_mode": (lambda: nn.MaxPool1d(3, 2, ceil_mode=True), (1, 4, 20)),
    "column pad": (lambda: padded(0, 0, 1, 2), (1, 1, 9, 1)),
    "pad of one pixel": (lambda: padded(1, 2, 0, 1), (1, 6, 1, 1)),
    "pad of images and channels": (lambda: padded(1, 2, 1, 0, 1, 1, 0, 1), (2, 1, 4, 3)),
    "strided convolution": (lambda: nn.Conv1d(4, 8, 5, stride=2, padding=2), (1, 4, 20)),
    "strided convolution without padding": (lambda: nn.Conv1d(4, 8, 3, stride=2), (2, 4, 21)),
    "short signal": (lambda: nn.Conv1d(4, 8, 3, padding=1), (1, 4, 2)),
    "rows of padding": (lambda: nn.Conv2d(4, 8, (1, 3), padding=(2, 1)), (1, 4, 1, 20)),
    "strided depthwise": (lambda: nn.Conv1d(4, 4, 5, stride=2, padding=2, groups=4), (1, 4, 20)),
    "strided groups": (lambda: nn.Conv1d(8, 8, 5, stride=2, padding=2, groups=2), (1, 8, 20)),
}


@cache
def prepared(name: str) -> Model:
    torch.manual_seed(1)
    build, sizes = MODELS[name]
    data = [(torch.randn(sizes),) for _ in range(3)]
    return prepare(build().eval(), data[0], data, name="model")


def check_model(model: Model, samples: Sequence[tuple[Tensor, ...]], target: str) -> None:
    """The reference's bits on the strict library."""
    program = lower(model, target)
    pte, graph = emit_pte(program, from_target_string(target), {}), lowered_graph(program)
    found = run_pte(pte.data, [[tensor.numpy() for tensor in sample] for sample in samples])
    for sample, got in zip(samples, found, strict=True):
        for one, other in zip(got, reference_outputs(graph, list(sample)), strict=True):
            np.testing.assert_array_equal(one, other.numpy())


@pytest.mark.host
@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
@pytest.mark.parametrize("name", MODELS)
def test_models_that_arms_kernels_got_wrong(name: str) -> None:
    torch.manual_seed(2)
    samples = [(torch.randn(MODELS[name][1]),) for _ in range(2)]
    for target in TARGETS:
        check_model(prepared(name), samples, target)


@pytest.mark.cases(1)
@pytest.mark.host
@pytest.mark.parametrize("target", [MVE, ANY])
def test_the_heartbeat_network_runs_on_mve(target: str) -> None:
    found = zoo.get("ecg_conv1d")
    model = prepare(found.build(), found.example_inputs(), found.calibration(4), name="ecg_conv1d")
    check_model(model, found.calibration(2, seed=9), target)


def random_layer(rng: random.Random) -> tuple[nn.Module, tuple[int, ...]]:
    """A pad of any dimensions, or a convolution over a signal or an image of few rows; many sizes are 1."""
    if rng.random() < 0.5:
        sizes = tuple(rng.choice([1, 1, 2, 3, 5]) for _ in range(rng.randint(2, 4)))
        return padded(1, *(rng.choice([0, 0, 1, 2]) for _ in range(2 * len(sizes) - 1))), sizes
    kernel, stride, beside, channels = rng.randint(1, 5), rng.randint(1, 3), rng.randint(0, 3), rng.choice([1, 2, 4])
    length = max(1, kernel - 2 * beside) + rng.randint(0, 9)
    if rng.random() < 0.5:
        return nn.Conv1d(channels, 3, kernel, stride, beside), (rng.randint(1, 2), channels, length)
    layer = nn.Conv2d(channels, 3, (1, kernel), stride, (rng.randint(0, 1), beside))
    return layer, (1, channels, rng.choice([1, 1, 2]), length)


@pytest.mark.cases(1)
@pytest.mark.host
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)])
def test_random_pads_and_convolutions(seed: int) -> None:
    rng = random.Random(seed)
    torch.manual_seed(seed)
    layers, sizes = zip(*(random_layer(rng) for _ in range(30)), strict=True)
    data = [tuple(torch.randn(size) for size in sizes) for _ in range(3)]
    model = prepare(Side(list(layers)).eval(), data[0], data, name="side")
    for target in (DSP, MVE, ANY):
        check_model(model, data, target)


# ---- what the report says ------------------------------------------------------------------------------------------


def test_a_file_for_every_core_says_which_runtimes_refuse_it() -> None:
    """Only where the sizes differ: a pad needs no scratch on any core."""
    compiled = prepared("strided convolution").compile(ANY)
    (said,) = compiled.report.pte_limits
    assert "CORTEX_M_ENABLE_RUNTIME_CHECKS" in said
    assert emit_pte(lower(prepared("strided convolution"), MVE), from_target_string(MVE), {}).limits == ()
    assert emit_pte(lower(prepared("pad of a signal"), ANY), from_target_string(ANY), {}).limits == ()
