"""Calls of the float graph that are Cortado's own, `cortado::gru_layer` and the like: each is a few of aten's."""

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload

NAMESPACE = "cortado"
_COMPUTED = "CompositeExplicitAutograd"
_functions: dict[str, Callable[..., Any]] = {}  # by name, what computes them
_portable: set[str] = set()  # those that ExecuTorch's portable kernels can compute


class Functions(torch.library.Library):
    """Definitions of such calls in a file of `ops`. What computes one is kept: its calls are aten's, so that ExecuTorch
    can be told of it in these, unless its portable kernels can't compute them (`portable`)."""

    def __init__(self, *, portable: bool = True) -> None:
        super().__init__(NAMESPACE, "FRAGMENT")
        self.portable = portable

    def impl(self, op_name: Any, fn: Any, dispatch_key: str = "", **others: Any) -> None:
        super().impl(op_name, fn, dispatch_key, **others)
        if dispatch_key == _COMPUTED:  # gradients are those of the calls it is made of
            super().impl(op_name, torch.library.fallthrough_kernel, "Autograd")
            _functions[str(op_name)] = fn
            _portable.update({str(op_name)} if self.portable else ())


def in_aten(target: Any) -> Callable[..., Any] | None:
    """A function that computes one of Cortado's calls by aten's, arguments by name; None for one that portable kernels
    can't compute, and for any other call."""
    if not isinstance(target, OpOverload) or target.namespace != NAMESPACE or _name(target) not in _portable:
        return None
    compute = computed_by(target)
    names = [argument.name for argument in target._schema.arguments]
    return lambda **given: compute(*(given[name] for name in names))


def computed_by(target: OpOverload) -> Callable[..., Any]:
    """A function that computes one of Cortado's calls by aten's, arguments by position."""
    return _functions[_name(target)]


def _name(target: OpOverload) -> str:
    return target._schema.name.removeprefix(f"{NAMESPACE}::")
