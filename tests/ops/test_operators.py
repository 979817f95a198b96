"""Every operator of the registry: its reference, shape and C kernel agree, bit for bit, over its samples."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode

from cortado.base.target import CortexM, CortexMTargetConfig, Isa
from cortado.ir.op import Call, Operator, overload, registry
from helpers import cases

OPERATORS = [op for op in registry().operators.values() if op.kernel is not None]
BATCH = 24


def test_every_operator_with_a_kernel_has_samples() -> None:
    assert [op.name for op in OPERATORS if op.samples is None] == []


def _parameters(operators: list[Operator]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("operator", operators, ids=lambda op: op.base)


@_parameters(OPERATORS)
def test_shape_and_dtype_are_the_references(operator: Operator) -> None:
    assert operator.samples is not None

    @settings(max_examples=40)
    @given(arguments=operator.samples())
    def check(arguments: dict[str, Any]) -> None:
        result = operator.reference(**arguments)
        shapes = {name: cases.shapes_of(value) for name, value in arguments.items()}
        assert tuple(result.shape) == tuple(operator.shape(Call(operator, shapes, ())))
        assert result.dtype == operator.dtype
        assert result.is_contiguous()

    check()


def _host_kernels(operator: Operator, examples: int, isa: Isa) -> None:
    """The kernels of one ISA's choice that are plain C, on this machine."""
    assert operator.samples is not None
    target = CortexMTargetConfig(CortexM.M0PLUS) if isa is Isa.SCALAR else CortexMTargetConfig(CortexM.M4)

    @settings(max_examples=examples)
    @given(batch=st.lists(operator.samples(), min_size=BATCH, max_size=BATCH))
    def check(batch: list[dict[str, Any]]) -> None:
        work = [(operator, arguments) for arguments in batch]
        with tempfile.TemporaryDirectory() as folder:
            found = cases.run_cases(work, target, "host", Path(folder))
        for got, want, arguments in zip(found, cases.references(work), batch, strict=True):
            assert np.array_equal(got, want.numpy()), arguments

    check()


@pytest.mark.host
@_parameters(OPERATORS)
def test_portable_kernel_equals_reference(operator: Operator) -> None:
    _host_kernels(operator, 2, Isa.SCALAR)


@pytest.mark.host
@pytest.mark.slow
@_parameters(OPERATORS)
def test_portable_kernel_equals_reference_long(operator: Operator) -> None:
    _host_kernels(operator, 40, Isa.SCALAR)


@_parameters(list(registry().operators.values()))
def test_schema_is_the_one_torch_knows(operator: Operator) -> None:
    schema = str(overload(operator)._schema)
    assert schema.startswith(f"{operator.namespace}::{operator.qualified}(")
    for name in operator.argument_names:
        assert name in schema


@_parameters([op for op in OPERATORS if op.namespace == "cortex_m"])
def test_fake_tensors_give_the_references_shape(operator: Operator) -> None:
    """What torch's own shape propagation sees is the record's shape function."""
    assert operator.samples is not None

    @settings(max_examples=5)
    @given(arguments=operator.samples())
    def check(arguments: dict[str, Any]) -> None:
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            scratch = {name: torch.empty(0, dtype=torch.uint8) for name in operator.scratch_names}
            fakes = {k: mode.from_tensor(v) if isinstance(v, torch.Tensor) else v for k, v in arguments.items()}
            value = overload(operator)(**fakes, **scratch)
        assert tuple(value.shape) == tuple(operator.reference(**arguments).shape)

    check()
