"""Models that write memory under one name and read it under another."""

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

Tensor = torch.Tensor
Program = Callable[[Any, Tensor], Any]
SHAPE = (2, 4, 6, 8)


def owned(change: Callable[[Tensor], Any]) -> Program:
    """Changes a tensor of the model's own and returns it."""

    def program(model: Any, x: Tensor) -> Tensor:
        y = x * 1.25
        change(y)
        return y

    return program


def other_name(name: Callable[[Tensor], Tensor], change: Callable[[Tensor], Any] = lambda y: y.relu_()) -> Program:
    """Writes into a tensor and reads it through another name; and the other way round."""

    def program(model: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        y, z = x * 1.25, x * 0.75
        seen = name(y)
        change(y)
        change(name(z))
        return seen * 2.0, z

    return program


def _residual_over_dropout(model: Any, x: Tensor) -> Tensor:
    h = x * 0.5
    out = functional.dropout(h, 0.5, training=False)
    out += x
    return torch.cat([h, out])


def _type_as(model: Any, x: Tensor) -> Tensor:
    y = x * 1.25
    part = y[:, :2]
    z = y.type_as(x)
    part.add_(1)
    return z


def _input(model: Any, x: Tensor) -> Tensor:
    a, b = x.chunk(2, 1)
    a.relu_()
    return torch.cat([x, b], 1)


def _two_parts(model: Any, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    y = x * 1.25
    a, b = y.chunk(2, 1)
    a.relu_()
    b.mul_(a)
    y.add_(1.0)
    return a, b, y


def _neighbour(model: Any, x: Tensor) -> Tensor:
    a, b = (x * 1.25).chunk(2, 1)
    a.relu_()
    return b * 2.0


def _chain_of_views(model: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    y = x * 1.25
    inner = y.transpose(1, 3)[:, 2:5].flatten(0, 1)[3:5]
    inner.mul_(3.0)
    return y, inner + 1.0


def _assignments(model: Any, x: Tensor) -> Tensor:
    y = x * 1.25
    y[:, 0] = 3.0
    y[:, 1] = x[:, 0]
    y[:, 2:, ::2] += 1
    y[0, 0, 1, 1] = 7
    y[:, :, 0] = x[:, :1, 1]
    y[..., -1].zero_()
    return y


def _shape_changed_in_place(model: Any, x: Tensor) -> Tensor:
    y = x * 1.25
    z = functional.dropout(y, 0.5, False)
    y.transpose_(1, 2)
    z.relu_()
    return y + 1.0


def _expanded(model: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    y = x[:, :1] * 1.25
    wide, _ = torch.broadcast_tensors(y, x)
    y.relu_()
    return wide + x, y


def _twice_the_same(model: Any, x: Tensor) -> Tensor:
    y = x * 1.25
    views = [y.view(2, 24, 8), y.reshape(2, -1), y.permute(1, 0, 2, 3)]
    for view in views:
        view.add_(0.5)
    return views[0].flatten(1) * views[1]


def _no_grad(model: Any, x: Tensor) -> Tensor:
    y = x * 1.25
    with torch.no_grad():
        y[:, :2].relu_()
    return y


def _detached(model: Any, x: Tensor) -> Tensor:
    y = x * 1.25
    y.detach()[:, 1:].relu_()
    return y


def _filled(model: Any, x: Tensor) -> Tensor:
    y = torch.zeros_like(x)
    y[:, 1:3] = x[:, 1:3]
    z = x.new_zeros(2, 4, 6, 8)
    z += x
    return y + z + torch.ones_like(x) + torch.full_like(x, 2.0) + x.new_full((8,), 0.5) + x.new_ones(6, 1)


def _overwritten(model: Any, x: Tensor) -> Tensor:
    y = torch.empty_like(x)
    y.copy_(x)
    return y + torch.empty(8).fill_(2.0)


def _broadcast_into_all(model: Any, x: Tensor) -> Tensor:
    x[...] = x[:, :1] * 0.25
    return x.abs() + x


RIGHT: dict[str, Program] = {
    "broadcast into all of an input": _broadcast_into_all,
    "dropout": _residual_over_dropout,
    **{
        name: other_name(lambda y, f=function: f(y, 0.5, False))  # type: ignore[misc]
        for name, function in {
            "another dropout": functional.dropout,
            "alpha_dropout": functional.alpha_dropout,
            "dropout2d": functional.dropout2d,
            "feature_alpha_dropout": functional.feature_alpha_dropout,
        }.items()
    },
    "chunk": owned(lambda y: y.chunk(2, 1)[0].relu_()),
    "chunk into one": owned(lambda y: y.chunk(1)[0].relu_()),
    "split": owned(lambda y: y.split([1, 2, 1], 1)[1].mul_(2.0)),
    "unbind": owned(lambda y: y.unbind(2)[3].sigmoid_()),
    "tensor_split": owned(lambda y: y.tensor_split(3, 3)[1].relu_()),
    "hsplit": owned(lambda y: y.hsplit(2)[1].relu_()),
    "vsplit": owned(lambda y: y.vsplit(2)[0].relu_()),
    "dsplit": owned(lambda y: y.dsplit(3)[2].relu_()),
    "first of an iterator": owned(lambda y: next(iter(y)).relu_()),
    "select": owned(lambda y: y[:, 1, :, 2].add_(1.0)),
    "slice": owned(lambda y: y[:, 1:3, ::2, 1:].add_(1.0)),
    "diagonal step": owned(lambda y: y[:, ::2].relu_()),
    "narrow": owned(lambda y: y.narrow(3, 2, 3).clamp_(0.0, 1.0)),
    "unflatten": owned(lambda y: y.unflatten(1, (2, 2))[:, 1].relu_()),
    "movedim": owned(lambda y: y.movedim(1, 3)[..., 1:].relu_()),
    "pixels": owned(lambda y: y.view(2, 4, 3, 2, 4, 2)[:, :, :, 0, :, 1].relu_()),
    "squeeze": owned(lambda y: y[:, :1].squeeze(1).relu_()),
    "type_as": _type_as,
    "type_as whole": other_name(lambda y: y.type_as(y)),
    "to": other_name(lambda y: y.to(torch.float32)),
    "contiguous": other_name(lambda y: y.contiguous()),
    "atleast": other_name(lambda y: torch.atleast_3d(torch.atleast_1d(y))),
    "sum_to_size": other_name(lambda y: y.sum_to_size(*SHAPE)),
    "einsum": other_name(lambda y: torch.einsum("abcd->dcab", y)),
    "expand_as": other_name(lambda y: y.expand_as(y)),
    "broadcast": _expanded,
    "reshape": other_name(lambda y: y.reshape(2, 2, -1)),
    "flatten": other_name(lambda y: y.flatten(1)),
    "copy": other_name(lambda y: y.to(torch.float32, copy=True)),
    "copy by contiguous": other_name(lambda y: y.permute(0, 2, 3, 1).contiguous()),
    "copy by reshape": other_name(lambda y: y.transpose(1, 2).reshape(2, -1)),
    "clone": other_name(lambda y: y.clone()),
    "input": _input,
    "two parts": _two_parts,
    "neighbour": _neighbour,
    "chain of views": _chain_of_views,
    "assignments": _assignments,
    "shape changed in place": _shape_changed_in_place,
    "views written one after the other": _twice_the_same,
    "no_grad": _no_grad,
    "detach": _detached,
    "filled": _filled,
    "overwritten": _overwritten,
}
