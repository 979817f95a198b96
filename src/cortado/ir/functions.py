"""Calls of the float graph that are Cortado's own, `cortado::gru_layer` and the like: each is a few of aten's."""

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload

NAMESPACE = "cortado"
_COMPUTED = "CompositeExplicitAutograd"
_functions: dict[str, Callable[..., Any]] = {}  # by name, what computes those that portable kernels can


class Functions(torch.library.Library):
    """Where a file of `ops` defines such calls. What computes one is kept: its calls are aten's, so that ExecuTorch can
    be told of it in these, unless its portable kernels can't compute them (`portable`)."""

    def __init__(self, *, portable: bool = True) -> None:
        super().__init__(NAMESPACE, "FRAGMENT")
        self.portable = portable

    def impl(self, op_name: Any, fn: Any, dispatch_key: str = "", **others: Any) -> None:
        super().impl(op_name, fn, dispatch_key, **others)
        if dispatch_key == _COMPUTED:  # gradients are those of the calls it is made of
            super().impl(op_name, torch.library.fallthrough_kernel, "Autograd")
        if dispatch_key == _COMPUTED and self.portable:
            _functions[str(op_name)] = fn


def in_aten(target: Any) -> Callable[..., Any] | None:
    """What computes a call of Cortado's own by aten's, arguments by name; None for one that portable kernels can't
    compute, and for any other call."""
    own = isinstance(target, OpOverload) and target.namespace == NAMESPACE
    compute = _functions.get(target._schema.name.removeprefix(f"{NAMESPACE}::")) if own else None
    if compute is None:
        return None
    names = [argument.name for argument in target._schema.arguments]
    return lambda **given: compute(*(given[name] for name in names))
