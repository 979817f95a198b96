"""Every C kernel against the golden layers recorded from CMSIS-NN, bit for bit.

Long, as the kernels are built for this machine: `make test` holds the references to these layers
(tests/ops/test_references.py) and the kernels to the references (test_every_core.py).
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from helpers.kernel_layers import FOLDED, PORTABLE, Requant, Window, conv1x1, conv2d, depthwise, pool2d
from helpers.kernels import SANITIZE, Calls, Ref, build_host, run_host
from helpers.recorded import Arrays, Params, recorded

pytestmark = [pytest.mark.host, pytest.mark.slow]
VARIANTS = {False: PORTABLE, True: FOLDED}
Layer = tuple[Params, Arrays]


def check(calls: Calls, outputs: list[tuple[Ref, np.ndarray]], small_core: bool) -> None:
    run_host(calls, small_core)
    for number, (ref, expected) in enumerate(outputs):
        np.testing.assert_array_equal(calls.read(ref, np.int8, expected.shape), expected, err_msg=f"layer {number}")


def requant(params: Params, arrays: Arrays, channels: int) -> Requant:
    multiplier, shift = (np.broadcast_to(arrays[name], (channels,)) for name in ("multiplier", "shift"))
    return Requant(multiplier, shift, params["output_zero_point"], params["activation_min"], params["activation_max"])


def window(params: Params, kernel: tuple[int, ...]) -> Window:
    pairs = [tuple(params.get(name, (1, 1))) for name in ("stride", "padding", "dilation")]
    return Window((kernel[0], kernel[1]), *pairs)


@pytest.fixture(params=[False, True], ids=["any-core", "small-core"])
def small_core(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(params=[False, True], ids=["offset", "folded"])
def fold(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def conv2d_layers(layers: list[Layer], calls: Calls, fold: bool) -> Iterator[tuple[Ref, np.ndarray]]:
    for params, arrays in layers:
        weights = arrays["weight_ohwi"]
        out, shape = conv2d(
            calls, arrays["input"], weights, arrays.get("bias"), params["input_zero_point"],
            window(params, weights.shape[1:3]), requant(params, arrays, len(weights)), VARIANTS[fold])  # fmt: skip
        assert shape == arrays["output"].shape
        yield out, arrays["output"]


def test_conv2d(small_core: bool, fold: bool) -> None:
    calls = Calls()
    check(calls, list(conv2d_layers(recorded("conv2d"), calls, fold)), small_core)


def test_conv1x1_takes_linear(small_core: bool, fold: bool) -> None:
    calls, outputs = Calls(), []
    for params, arrays in recorded("linear"):
        weights = arrays["weight"]
        out, _ = conv1x1(calls, arrays["input"], weights, arrays.get("bias"), params["input_zero_point"],
                         requant(params, arrays, len(weights)), VARIANTS[fold])  # fmt: skip
        outputs.append((out, arrays["output"]))
    check(calls, outputs, small_core)


def test_conv1x1_takes_1x1_convolutions(small_core: bool, fold: bool) -> None:
    calls, outputs = Calls(), []
    for params, arrays in recorded("conv2d"):
        weights = arrays["weight_ohwi"]
        if weights.shape[1:3] != (1, 1) or params["stride"] != [1, 1] or params["padding"] != [0, 0]:
            continue
        flat = arrays["input"].reshape(-1, weights.shape[3])
        out, _ = conv1x1(calls, flat, weights[:, 0, 0], arrays.get("bias"), params["input_zero_point"],
                         requant(params, arrays, len(weights)), VARIANTS[fold])  # fmt: skip
        outputs.append((out, arrays["output"]))
    assert outputs
    check(calls, outputs, small_core)


def test_depthwise(small_core: bool, fold: bool) -> None:
    calls, outputs = Calls(), []
    for params, arrays in recorded("depthwise_conv2d"):
        weights = arrays["weight_1hwo"][0]
        out, shape = depthwise(
            calls, arrays["input"], weights, arrays.get("bias"), params["input_zero_point"],
            window(params, weights.shape), requant(params, arrays, weights.shape[2]), VARIANTS[fold])  # fmt: skip
        assert shape == arrays["output"].shape
        outputs.append((out, arrays["output"]))
    check(calls, outputs, small_core)


@pytest.mark.parametrize("kind", ["avg", "max"])
def test_pool2d(kind: str, small_core: bool) -> None:
    calls, outputs = Calls(), []
    for params, arrays in recorded(f"{kind}_pool2d"):
        shape = window(params, params["kernel"])
        limits = params["activation_min"], params["activation_max"]
        out, _ = pool2d(calls, arrays["input"], shape, *limits, f"cortado_{kind}_pool2d_s8")
        outputs.append((out, arrays["output"]))
    check(calls, outputs, small_core)


def test_add(small_core: bool) -> None:
    calls, outputs = Calls(), []
    for p, arrays in recorded("add"):
        assert p["left_shift"] == 20
        layer = calls.struct(
            "cortado_add_t", a_zero=p["a_zero_point"], a_multiplier=p["a_multiplier"], a_shift=p["a_shift"],
            b_zero=p["b_zero_point"], b_multiplier=p["b_multiplier"], b_shift=p["b_shift"],
            out_zero=p["output_zero_point"], out_multiplier=p["output_multiplier"], out_shift=p["output_shift"],
            act_min=p["activation_min"], act_max=p["activation_max"])  # fmt: skip
        outputs.append((_binary(calls, "cortado_add_s8", layer, arrays), arrays["output"]))
    check(calls, outputs, small_core)


def test_mul(small_core: bool) -> None:
    calls, outputs = Calls(), []
    for p, arrays in recorded("mul"):
        layer = calls.struct(
            "cortado_mul_t", a_zero=p["a_zero_point"], b_zero=p["b_zero_point"], out_zero=p["output_zero_point"],
            out_multiplier=p["output_multiplier"], out_shift=p["output_shift"], act_min=p["activation_min"],
            act_max=p["activation_max"])  # fmt: skip
        outputs.append((_binary(calls, "cortado_mul_s8", layer, arrays), arrays["output"]))
    check(calls, outputs, small_core)


def _binary(calls: Calls, symbol: str, layer: Ref, arrays: Arrays) -> Ref:
    out = calls.space(arrays["a"].size)
    calls.call(symbol, layer, calls.array(arrays["a"]), calls.array(arrays["b"]), out, arrays["a"].size)
    return out


def test_batch_matmul(small_core: bool) -> None:
    calls, outputs = Calls(), []
    for p, arrays in recorded("batch_matmul"):
        (batches, rows, depth), cols = arrays["lhs"].shape, arrays["rhs_transposed"].shape[1]
        layer = calls.struct(
            "cortado_batch_matmul_t", batches=batches, rows=rows, cols=cols, depth=depth, lhs_zero=p["lhs_zero_point"],
            rhs_zero=p["rhs_zero_point"], out_zero=p["output_zero_point"], multiplier=p["multiplier"],
            shift=p["shift"], act_min=p["activation_min"], act_max=p["activation_max"])  # fmt: skip
        out = calls.space(batches * rows * cols)
        sides = calls.array(arrays["lhs"]), calls.array(arrays["rhs_transposed"])
        calls.call("cortado_batch_matmul_s8", layer, *sides, out, None)
        outputs.append((out, arrays["output"]))
    check(calls, outputs, small_core)


def test_softmax(small_core: bool) -> None:
    calls, outputs = Calls(), []
    for p, arrays in recorded("softmax"):
        assert (p["output_scale"], p["output_zero_point"]) == (1 / 256, -128)
        layer = calls.struct("cortado_softmax_t", in_multiplier=p["multiplier"], in_shift=p["shift"],
                             diff_min=p["diff_min"], exp_table=None)  # fmt: skip
        rows, n = arrays["input"].reshape(-1, arrays["input"].shape[-1]).shape
        out = calls.space(rows * n)
        calls.call("cortado_softmax_s8", layer, calls.array(arrays["input"]), out, rows, n)
        outputs.append((out, arrays["output"]))
    check(calls, outputs, small_core)


@pytest.mark.parametrize("files", ["test_kernels_conformance.py", "test_battery_*.py"])
def test_sanitizers(files: str) -> None:
    """The same tests again, the kernels built with the address and undefined-behaviour sanitizers.

    In a process of its own, because the sanitizers' library has to be loaded first.
    """
    here = Path(__file__).parent
    for small in (False, True):
        build_host(small, sanitize=True)  # here: the compiler need not run under a sanitizer
    library = [
        subprocess.run(["cc", f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    environment = {**os.environ, SANITIZE: "1", "LD_PRELOAD": ":".join(library), "PYTHONMALLOC": "malloc"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "host",
               "-k", "not sanitizers", *map(str, here.glob(files))]  # fmt: skip
    result = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=here.parents[1])
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
