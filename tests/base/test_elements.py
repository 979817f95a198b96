"""What is known of an element agrees with the types of NumPy, torch and C that it stands for."""

import dataclasses
import importlib
import pkgutil

import numpy as np
import pytest
import torch

import cortado
from cortado.artifact.report import DType
from cortado.base.element import BOOL, FLOAT32, INT4, INT8, INT16, INT32, UINT8, Element, arithmetic, element_of

INTEGERS = [INT8, INT16, INT32, UINT8]


@pytest.mark.parametrize("element", [*INTEGERS, BOOL, FLOAT32], ids=lambda element: element.name)
def test_an_element_has_the_size_and_the_types_of_its_name(element: Element) -> None:
    assert element_of(element.torch_dtype) == element_of(element.numpy_dtype) == element_of(element.name) == element
    assert element.bytes == element.torch_dtype.itemsize == element.numpy_dtype.itemsize


@pytest.mark.parametrize("element", INTEGERS, ids=lambda element: element.name)
def test_the_numbers_of_an_integer_are_those_of_its_type(element: Element) -> None:
    limits = np.iinfo(element.numpy_dtype)
    assert element.codes == (limits.min, limits.max)
    assert element.steps == limits.max - limits.min
    assert [element.clamped(value) for value in (-(10**12), 3, 10**12)] == [limits.min, 3, limits.max]
    assert [element.holds(value) for value in (limits.min - 1, limits.min, limits.max, limits.max + 1)] == [
        False,
        True,
        True,
        False,
    ]


def test_only_codes_and_floating_point_are_real() -> None:
    assert [element.real for element in (INT8, INT16, FLOAT32, INT32, UINT8, BOOL)] == [True] * 3 + [False] * 3
    assert not INT8.unscaled.real
    assert INT8.unscaled != INT8
    assert FLOAT32.unscaled == FLOAT32
    assert [element.affine for element in (INT8, INT16)] == [True, False]


def test_every_type_of_the_report_is_an_element_and_what_no_kernel_knows_is_bytes() -> None:
    assert [element_of(kind.value).name for kind in DType] == list(DType)
    assert element_of(torch.complex64).c_type == "uint8_t"
    assert [element_of(kind).bytes for kind in (torch.complex64, "complex64", torch.bfloat16)] == [8, 8, 2]


def test_codes_of_four_bits_are_a_byte_each_until_they_are_packed() -> None:
    assert (INT4.codes, INT4.bytes, INT4.packed, INT8.packed) == ((-8, 7), 1, True, False)
    assert INT4.numpy_dtype == INT8.numpy_dtype
    assert INT4.torch_dtype == INT8.torch_dtype
    assert not INT4.computed


def test_no_record_has_an_element_unless_it_is_told_one() -> None:
    """A mask's is part of what a mask is: nobody can give it another."""
    names = [info.name for info in pkgutil.walk_packages(cortado.__path__, "cortado.") if "__main__" not in info.name]
    modules = [importlib.import_module(name) for name in names if "_TEMPLATE" not in name]
    records = {one for module in modules for one in vars(module).values() if isinstance(one, type)}
    fields = [(one, field) for one in records if dataclasses.is_dataclass(one) for field in dataclasses.fields(one)]
    assert len(fields) > 500
    assert [(one, field.name) for one, field in fields if field.init and isinstance(field.default, Element)] == []


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ((), "integers"),
        (("int16", "int16"), "int16"),
        (("float32", "int8"), "int8 and float32"),
        (("float32", "int16", "int8"), "int8, int16 and float32"),
    ],
)
def test_elements_in_words(names: tuple[str, ...], text: str) -> None:
    assert arithmetic(names) == text
    assert arithmetic(names, int4_weights=True) == f"{text}, with int4 weights"
