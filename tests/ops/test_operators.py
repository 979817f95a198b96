"""Every operator of the registry: its reference, shape and C kernel agree, bit for bit, over its samples."""

import itertools
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode

from cortado.base.arrays import same_bits
from cortado.base.errors import CortadoError, Reject
from cortado.base.target import CortexM, CortexMTargetConfig, Isa
from cortado.ir import sampling
from cortado.ir.op import Operator, Pattern, Priority, Rewrite, collect, registry, result_elements
from cortado.ir.schemas import overload
from cortado.ops.elementwise.activation import ACTIVATION
from helpers import cases
from helpers.operator_cases import cases_of

OPERATORS = [op for op in registry().operators.values() if op.kernel is not None]
BATCH = 24
aten = torch.ops.aten


def _parameters(operators: list[Operator]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("operator", operators, ids=lambda op: op.base)


@pytest.mark.cases(18)
@_parameters(OPERATORS)
def test_shape_and_dtype_are_the_references(operator: Operator) -> None:

    @settings(max_examples=40)
    @given(arguments=cases_of(operator))
    def check(arguments: dict[str, Any]) -> None:
        results = cases.results_of(operator, arguments)
        sizes, kinds = operator.sizes(cases.shaped(operator, arguments)), result_elements(operator, arguments)
        assert len(results) == len(operator.results)
        for result, size, kind in zip(results, sizes, kinds, strict=True):
            assert tuple(result.shape) == tuple(size)
            assert result.dtype == kind.torch_dtype
            assert result.is_contiguous()

    check()


@_parameters([op for op in registry().operators.values() if op.namespace == "cortado"])
def test_an_operator_of_ours_says_how_a_pte_holds_it_or_why_it_cant(operator: Operator) -> None:
    told = operator.constraints if operator.in_pte else operator.c_only
    assert told
    assert not told.endswith("only")


# ---- what the records say of themselves ----------------------------------------------------------------------


@_parameters([op for op in OPERATORS if op.same_values])
def test_what_keeps_values_keeps_each_once(operator: Operator) -> None:

    @settings(max_examples=40)
    @given(arguments=cases_of(operator))
    def check(arguments: dict[str, Any]) -> None:
        result = operator.reference(**arguments)
        assert torch.equal(result.flatten().sort().values, arguments[operator.tensors[0]].flatten().sort().values)

    check()


@_parameters([op for op in OPERATORS if op.channel_constants])
def test_output_channels_follow_their_constants(operator: Operator) -> None:
    """Where every output channel reads all input channels, which is where the passes make use of it."""
    weights, *others = operator.channel_constants

    @settings(max_examples=40)
    @given(arguments=cases_of(operator), seed=st.integers(0, 2**16))
    def check(arguments: dict[str, Any], seed: int) -> None:
        assume(arguments[weights].shape[-1] == arguments[operator.tensors[0]].shape[-1])
        order = torch.randperm(len(arguments[weights]), generator=torch.Generator().manual_seed(seed))
        moved = {name: arguments[name][order] for name in (weights, *others) if arguments[name] is not None}
        found, wanted = operator.reference(**{**arguments, **moved}), operator.reference(**arguments)[..., order]
        assert same_bits(found.numpy(), wanted.numpy())

    check()


def test_a_table_of_all_codes_is_an_identity() -> None:
    arguments: dict[str, Any] = {"input": sampling.codes(1, (2, 3)), "lut": torch.arange(-128, 128, dtype=torch.int8)}
    assert ACTIVATION.identity is not None
    assert ACTIVATION.identity(cases.call_of(ACTIVATION, arguments))
    assert torch.equal(ACTIVATION.reference(**arguments), arguments["input"])
    arguments["lut"] = arguments["lut"].clone().index_fill(0, torch.tensor([7]), 0)
    assert not ACTIVATION.identity(cases.call_of(ACTIVATION, arguments))


MONOTONE = sorted({pattern for found in registry().patterns.values() for pattern in found if pattern.monotone}, key=str)


@pytest.mark.parametrize("pattern", MONOTONE, ids=lambda pattern: str(pattern.aten[0]))
def test_monotone_patterns_commute_with_a_clamp(pattern: Pattern) -> None:
    arguments: dict[Any, tuple[Any, ...]] = {
        aten.reshape.default: ((1, -1),),
        aten.permute.default: ((0, 2, 3, 1),),
        aten.max_pool2d.default: (2,),
        aten.upsample_nearest2d.vec: (None, [2.0, 2.0]),
        aten._upsample_nearest_exact2d.vec: (None, [2.0, 2.0]),
    }
    called = [target for target in pattern.aten if target in arguments]
    assert called
    x = torch.randn(1, 3, 4, 6, generator=torch.Generator().manual_seed(0))
    for target in called:
        behind = target(x, *arguments[target]).clamp(-0.5, 0.5)
        assert torch.equal(target(x.clamp(-0.5, 0.5), *arguments[target]), behind)


def _pattern(priority: Priority) -> Pattern:
    return Pattern(
        aten=(aten.conv2d.default,),
        match=lambda bound: Reject(""),
        lower=lambda lowering: lowering.node("input"),
        priority=priority,
    )


def test_patterns_are_asked_by_their_priority() -> None:
    special, general, nobody = (_pattern(priority) for priority in Priority)
    for order in itertools.permutations([special, general, nobody]):
        assert collect(order).patterns[aten.conv2d.default] == (special, general)
    assert collect([nobody]).patterns[aten.conv2d.default] == (nobody,)
    assert [found.priority for found in registry().patterns[aten.conv2d.default]] == [
        Priority.SPECIAL,
        Priority.GENERAL,
    ]


def test_records_that_are_in_each_others_way_are_refused() -> None:
    twice = [_pattern(Priority.GENERAL), _pattern(Priority.GENERAL)]
    with pytest.raises(CortadoError, match=r"two patterns take aten.conv2d.default with priority GENERAL"):
        collect(twice)
    rewrites = [Rewrite(aten=(aten.conv2d.default,), rewrite=lambda bound: None) for _ in range(2)]
    with pytest.raises(CortadoError, match=r"two rewrites take aten.conv2d.default"):
        collect(rewrites)
    with pytest.raises(CortadoError, match=f"two operators are called {ACTIVATION.name}"):
        collect([ACTIVATION, replace(ACTIVATION, summary="another")])


def _host_kernels(operator: Operator, examples: int, isa: Isa) -> None:
    """The kernels of one ISA's choice that are plain C, on this machine."""
    target = CortexMTargetConfig(CortexM.M0PLUS) if isa is Isa.SCALAR else CortexMTargetConfig(CortexM.M4)

    @settings(max_examples=examples)
    @given(batch=st.lists(cases_of(operator), min_size=BATCH, max_size=BATCH))
    def check(batch: list[dict[str, Any]]) -> None:
        work = [(operator, arguments) for arguments in batch]
        with tempfile.TemporaryDirectory() as folder:
            found = cases.run_cases(work, target, "host", Path(folder))
        for got, want, arguments in zip(found, cases.references(work), batch, strict=True):
            assert same_bits(got, want.numpy()), arguments

    check()


@pytest.mark.host
@pytest.mark.slow
@_parameters(OPERATORS)
def test_portable_kernel_equals_reference(operator: Operator) -> None:
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

    @settings(max_examples=5)
    @given(arguments=cases_of(operator))
    def check(arguments: dict[str, Any]) -> None:
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            target = overload(operator, arguments)
            named = {one.name for one in target._schema.arguments}
            scratch = {name: torch.empty(0, dtype=torch.uint8) for name in operator.scratch if name in named}
            fakes = {k: mode.from_tensor(v) if isinstance(v, torch.Tensor) else v for k, v in arguments.items()}
            value = target(**fakes, **scratch)
        assert tuple(value.shape) == tuple(operator.reference(**arguments).shape)

    check()
