"""Cortado's own calls in the float graph, such as `cortado::gru_layer`, each composed of aten calls."""

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload

NAMESPACE = "cortado"
_COMPUTED = "CompositeExplicitAutograd"
_functions: dict[str, Callable[..., Any]] = {}  # by name, the functions that compute them
_portable: set[str] = set()  # those that ExecuTorch's portable kernels can compute


class Functions(torch.library.Library):
    """The definitions of such calls in one file of `ops`. The function that computes a call is kept: it is made of aten
    calls, in which ExecuTorch can be given the call, unless its portable kernels can't compute them (`portable`)."""

    def __init__(self, *, portable: bool = True) -> None:
        super().__init__(NAMESPACE, "FRAGMENT")
        self.portable = portable

    def impl(self, op_name: Any, fn: Any, dispatch_key: str = "", **others: Any) -> None:
        super().impl(op_name, fn, dispatch_key, **others)
        if dispatch_key == _COMPUTED:  # autograd differentiates the calls that it is made of
            super().impl(op_name, torch.library.fallthrough_kernel, "Autograd")
            _functions[str(op_name)] = fn
            _portable.update({str(op_name)} if self.portable else ())


def in_aten(target: Any) -> Callable[..., Any] | None:
    """Returns a function that computes one of Cortado's calls with aten, arguments by name; None for any other call and
    for one that portable kernels can't compute."""
    if not isinstance(target, OpOverload) or target.namespace != NAMESPACE or _name(target) not in _portable:
        return None
    compute = computed_by(target)
    names = [argument.name for argument in target._schema.arguments]
    return lambda **given: compute(*(given[name] for name in names))


def computed_by(target: OpOverload) -> Callable[..., Any]:
    """Returns a function that computes one of Cortado's calls with aten, arguments by position."""
    return _functions[_name(target)]


def _name(target: OpOverload) -> str:
    return target._schema.name.removeprefix(f"{NAMESPACE}::")
