"""Which cores a test runs on: one of them in `make test`, all in `make test-all`.

Every operator's kernels run on every kind of core in tests/kernels/test_every_core.py. What is compared on boards
beside it is what lies around the kernels, which is the same C for all of them; so each of those tests has one core in
`make test`, another from test to test.
"""

from typing import Any

import pytest

THREE = ("cortex-m0plus", "cortex-m4", "cortex-m55")  # scalar, DSP, MVE
FOUR = ("cortex-m0plus", "cortex-m4", "cortex-m33", "cortex-m55")


def each_core(*cores: Any, here: Any) -> list[Any]:
    """Parameters of a test: every core, those but `here` among the long tests."""
    assert here in cores
    return [core if core == here else pytest.param(core, marks=pytest.mark.slow) for core in cores]
