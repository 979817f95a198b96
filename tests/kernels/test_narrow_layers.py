"""Layers with 4-bit weights on the cores that have kernels of their own for them, whatever window they have."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cortado.base.target import from_target_string
from cortado.ops.conv.conv2d import CONV2D
from helpers import cases

DRAWN = 56  # half of them or so with weights of 4 bits


def to_the_right(arguments: dict[str, Any]) -> dict[str, Any]:
    """As networks have them: sums are larger than codes."""
    return {**arguments, "requantize_shifts": arguments["requantize_shifts"].clamp(max=-1)}


@pytest.mark.qemu
@pytest.mark.parametrize("target", ["cortex-m0plus", "cortex-m4", "cortex-m55"])
def test_any_window_gives_the_references_bits(target: str, tmp_path: Path) -> None:
    """Strides, dilations, clamps, channels that fill no vector, one factor for a channel or one for 32 weights; none of
    them on a portable kernel."""
    work = [(CONV2D, to_the_right(arguments)) for arguments in cases.drawn(CONV2D, DRAWN) if "run" in arguments]
    assert len(work) > DRAWN // 4
    core = from_target_string(target)
    assert CONV2D.kernel is not None
    kernels = [CONV2D.kernel(cases.call_of(op, arguments), max(core.cores)) for op, arguments in work]
    functions = [kernel.call.function for kernel in kernels]
    assert all("__" in function for function in functions)
    assert {"narrow", "runs"} == {"runs" if "runs" in function else "narrow" for function in functions}
    found = cases.run_cases(work, core, core.machine.value, tmp_path)
    for function, got, want in zip(functions, found, cases.references(work), strict=True):
        assert np.array_equal(got, want.numpy()), function
