"""permute_copy, t_copy and their like: what the calls without `_copy` give, in memory of its own."""

import torch
from torch._ops import OpOverload
from torch.fx import Node

from cortado.ir.domain import DomainRule
from cortado.ir.graph import Bound, add_call
from cortado.ir.op import Rewrite

aten = torch.ops.aten

# What is copied by one call and has no pattern of its own yet.
_NAMES = "permute t transpose unsqueeze squeeze slice select detach alias"


def _plain() -> dict[OpOverload, OpOverload]:
    """Every overload of a `_copy`, and the one without."""
    found = {}
    for name in _NAMES.split():
        copied, plain = getattr(aten, f"{name}_copy"), getattr(aten, name)
        for overload in copied.overloads():
            if overload in plain.overloads() and not overload.endswith("out"):
                found[getattr(copied, overload)] = getattr(plain, overload)
    return found


PLAIN = _plain()


def without_copy(bound: Bound) -> Node:
    target = PLAIN[bound.node.target]  # type: ignore[index]
    return add_call(bound.node, target, *bound.node.args, **bound.node.kwargs)


COPIED_RULE = DomainRule(
    aten=(
        aten.clone.default,
        aten.contiguous.default,
        aten.alias.default,
        aten.detach.default,
        aten.lift_fresh_copy.default,
        aten.positive.default,
    ),
    bounds=lambda making, bound: making.interval(bound["self"]),
    words=lambda making, bound: making.word(bound["self"]),
    closed=True,
    keeps_truth=True,
)
COPY_REWRITE = Rewrite(aten=tuple(PLAIN), rewrite=without_copy)
