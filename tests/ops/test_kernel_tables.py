"""The tables of kernels: which rows there are, and that lists which are made from them are whole."""

import re
from collections.abc import Iterator

import pytest

from cortado.base.system import KERNELS
from cortado.base.target import Core, CortexMTargetConfig
from cortado.emit.image.files import every_thunk
from cortado.ir.c_sources import sources_of
from cortado.ir.kernel_table import EVERY_CORE, KernelTable, Several
from cortado.ir.op import Kernels, Operator, registry
from cortado.ops.conv.kernels import TABLES, ConvForm, ConvKernel
from cortado.plan.kernel_costs import known_costs
from cortado.plan.kernel_workload import function_of
from helpers.cases import call_of, drawn
from helpers.kernels import header_text

ROWS = [row for table in TABLES.values() for row in table]
OPERATORS = [one for one in registry().operators.values() if one.kernel is not None]


def tables_of(kernels: Kernels | None) -> Iterator[KernelTable]:
    if isinstance(kernels, Several):
        for one in kernels.tables:
            yield from tables_of(one)
    elif isinstance(kernels, KernelTable):
        yield kernels


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.name)
def test_behind_rows_of_some_cores_is_one_of_every_core(operator: Operator) -> None:
    for table in tables_of(operator.kernel):
        last = {(row.elements, row.makes): row for row in table.rows}
        assert all(row.cores == EVERY_CORE for row in last.values())


@pytest.mark.parametrize("form", ConvForm, ids=lambda form: form.value)
def test_the_last_row_of_each_pair_of_elements_takes_any_layer_on_every_core(form: ConvForm) -> None:
    last = {row.elements: row for row in TABLES[form]}
    assert all(row.pack is None and set(row.cores) == set(Core) for row in last.values())
    portable = [row for row in TABLES[form] if row.pack is None]
    assert portable == list(last.values())  # no other row hides those behind it


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.symbol}-{row.cores[0].name}")
def test_every_row_is_a_function_of_the_library_and_in_the_list_of_images(row: ConvKernel) -> None:
    function = f"cortado_{row.symbol}"
    assert sources_of([function])
    listed = {core for one in every_thunk().values() if f"{function}(" in one.thunk.call for core in one.cores}
    assert row.cores[0] in listed


# What no call of an operator makes: of ExecuTorch's softmax, of cameras, of another kernel for all of a tensor.
BESIDE = {"cortado_softmax_s8", "cortado_quantize_u8_s8", "cortado_transpose_conv2d_s8"}


def test_every_kernel_of_the_header_is_a_row() -> None:
    """Or is given to one, to call it."""
    known = {kernel.call for operator in OPERATORS if operator.kernel for _, kernel in operator.kernel.every()}
    called = {name for call in known for name in call.functions}
    declared = set(re.findall(r"^(?:void|int32_t) (cortado_\w+)\(", header_text(), flags=re.MULTILINE))
    shared = {name for name in declared if not any(f"{name}(" in text for text in _kernel_files())}
    wanted = {name for name in declared - shared if not name.endswith("_scratch")}
    assert len(wanted) > 100
    assert wanted - called == BESIDE


def _kernel_files() -> list[str]:
    paths = [path for path in (KERNELS / "src").rglob("*") if path.suffix in (".c", ".S")]
    return [path.read_text() for path in paths if not path.name.startswith("cortado_")]


def test_every_kernel_of_a_core_has_a_row_of_costs() -> None:
    missing = set[str]()
    for cpu, costs in known_costs().items():
        kind = max(CortexMTargetConfig(cpu).cores)
        made = [made for one in OPERATORS if one.kernel for core, made in one.kernel.every() if core is kind]
        missing |= {
            function_of(one) for one in made if not {function_of(one), one.call.function} & costs.kernels.keys()
        }
    assert missing == set()


@pytest.mark.xdist_group("every core")  # samples are drawn once
@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.name)
def test_what_a_sample_calls_is_a_row(operator: Operator) -> None:
    """A function that a core has, and its descriptor."""
    assert operator.kernel is not None
    known = {(core, kernel.call.function, kernel.struct) for core, kernel in operator.kernel.every()}
    for arguments in drawn(operator, 4):
        call = call_of(operator, arguments)
        made = [(core, operator.kernel(call, core)) for core in Core]
        assert {(core, one.call.function, one.struct) for core, one in made} <= known
