"""Hypothesis strategies for calls of operators: their samples, completed by parameters drawn by type."""

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any

import torch

from cortado.base.element import element_of
from cortado.ir.kernel_table import KernelTable
from cortado.ir.op import Operator, result_elements
from cortado.ir.roles import High, InOffset, InZeroPoint, Low, Multiplier, OutZeroPoint
from cortado.ir.sampling import CaseDraw

Tensor = torch.Tensor


def cases_of(operator: Operator) -> Any:
    """Returns a hypothesis strategy of legal arguments: the operator's samples, completed by parameters drawn by
    type."""
    from hypothesis import strategies

    def case(draw: Callable[[Any], Any]) -> dict[str, Any]:
        own = CaseDraw(draw)
        given = operator.samples(own) if operator.samples is not None else _operands(operator, own)
        return {**given, **_others(operator, own, given)}

    return strategies.composite(case)()


def _operands(operator: Operator, draw: CaseDraw) -> dict[str, Any]:
    """Draws the activation operands, all of one shape and of one element that the operator has kernels for."""
    assert isinstance(operator.kernel, KernelTable), operator.name
    element = draw.pick(sorted(operator.kernel.elements, key=str))
    shape = draw.rows()
    if element is not None and element.floating:
        return {name: draw.numbers(shape) for name in operator.tensors}
    return {name: draw.codes(shape, element) for name in operator.tensors}


def _others(operator: Operator, draw: CaseDraw, given: Mapping[str, Any]) -> dict[str, Any]:
    """Draws the parameters that the samples leave out, by their types."""
    tensors = [one for name in operator.tensors for one in _listed(given[name])]
    operand = element_of(tensors[0].dtype)
    named = [one for one in signature(operator.reference).parameters.values() if one.kind is one.KEYWORD_ONLY]
    left = {one.name: one.annotation for one in named if one.name not in given}
    bounds = draw.bounds(result_elements(operator, given)[0]) if Low in left.values() else (0, 0)
    makes: dict[Any, Callable[[], Any]] = {
        bool: draw.flag,
        InZeroPoint: lambda: draw.zero_point(operand),
        InOffset: lambda: -draw.zero_point(operand),
        OutZeroPoint: lambda: draw.zero_point(result_elements(operator, given)[0]),
        Low: lambda: bounds[0],
        High: lambda: bounds[1],
        Multiplier: lambda: draw.whole(2**30, 2**31 - 1),
    }
    return {name: makes[kind]() for name, kind in left.items() if kind in makes}


def _listed(value: Any) -> list[Tensor]:
    return list(value) if isinstance(value, list | tuple) else [value]
