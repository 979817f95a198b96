"""Layers of int16 codes on the cores that have kernels of their own for them, whatever window they have."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cortado.base.target import from_target_string
from cortado.ops.conv.conv2d import CONV2D
from cortado.ops.conv.depthwise_conv2d import DEPTHWISE
from helpers import cases

pytestmark = pytest.mark.qemu
DRAWN = 40


def to_the_right(arguments: dict[str, Any]) -> dict[str, Any]:
    """As networks have them: sums are larger than codes."""
    return {**arguments, "requantize_shifts": arguments["requantize_shifts"].clamp(max=-1)}


@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m55"])
def test_any_window_gives_the_references_bits(target: str, tmp_path: Path) -> None:
    """Strides, dilations, groups, clamps, channels that fill no vector; hardly any of them on a portable kernel."""
    work = [
        (operator, to_the_right(arguments))
        for operator in (CONV2D, DEPTHWISE)
        for arguments in cases.drawn(operator, DRAWN)
        if arguments["input"].dtype == torch.int16
    ]
    core = from_target_string(target)
    functions = [
        op.kernel(cases.call_of(op, arguments), max(core.cores)).call.function for op, arguments in work if op.kernel
    ]
    assert sum("__" in function for function in functions) > len(work) // 2
    found = cases.run_cases(work, core, core.machine.value, tmp_path)
    for function, got, want in zip(functions, found, cases.references(work), strict=True):
        assert np.array_equal(got, want.numpy()), function
