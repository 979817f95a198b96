"""The tables of kernels: each pair of elements has a portable row, and every row is a kernel of the library."""

import re

import pytest

from cortado.base.system import KERNELS
from cortado.base.target import Core
from cortado.emit.image.files import every_thunk
from cortado.ir.c_sources import sources_of
from cortado.ops.conv.kernels import TABLES, ConvForm, ConvKernel

ROWS = [row for table in TABLES.values() for row in table]


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


def test_every_kernel_of_the_header_is_a_row() -> None:
    texts = [(KERNELS / "include" / name).read_text() for name in ("cortado.h", "cortado_narrow.h")]
    declared = re.compile(r"\bvoid cortado_((?:conv1x1|conv2d|depthwise|linear)\w*)\(")
    names = {name for text in texts for name in declared.findall(text)}
    called = {name for name in names if "columns" in name}  # by the kernels of transposed convolutions
    assert names - called == {row.symbol for row in ROWS}
