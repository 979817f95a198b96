"""The four bytes of whole numbers as codes, and back: views of the same memory.

What moves data moves bytes: whole numbers are cut, joined and repeated by the kernels there are, as tensors of four
bytes more at the end. The bytes count as real numbers of scale 1, which no join rescales.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

from cortado.base.errors import Reject
from cortado.base.numerics import QParams, Tensor
from cortado.ir.domain import DomainRule
from cortado.ir.graph import Bound, add_call
from cortado.ir.op import Lowering, Operator, Pattern, Place, Plain, Quantization, Role
from cortado.ops.calculate_int import words

WORD = 4  # bytes
BYTES = QParams(1.0, 0)


def bytes_of(*, input: Tensor) -> Tensor:
    return input.to(torch.int32).contiguous().view(torch.int8).reshape(*input.shape, WORD)


def words_of(*, input: Tensor) -> Tensor:
    return input.contiguous().view(torch.int32).reshape(input.shape[:-1])


# ---- from the float graph ------------------------------------------------------------------------------------

_LIBRARY = torch.library.Library("cortado", "FRAGMENT")
_LIBRARY.define("as_bytes(Tensor self) -> Tensor")
_LIBRARY.define("from_bytes(Tensor self) -> Tensor")


def _sizes(value: Tensor, kind: torch.dtype, *sizes: int) -> Tensor:
    return torch.empty(sizes, dtype=kind, device=value.device)


_KIND: Any = "CompositeExplicitAutograd"
_LIBRARY.impl("as_bytes", lambda self: bytes_of(input=self).to(torch.float32), _KIND)
_LIBRARY.impl("as_bytes", lambda self: _sizes(self, torch.float32, *self.shape, WORD), "Meta")
_LIBRARY.impl("from_bytes", lambda self: words_of(input=self.to(torch.int8)).to(torch.int64), _KIND)
_LIBRARY.impl("from_bytes", lambda self: _sizes(self, torch.int64, *self.shape[:-1]), "Meta")
AS_BYTES = torch.ops.cortado.as_bytes.default
FROM_BYTES = torch.ops.cortado.from_bytes.default


def permuted_words(like: Node, word: Node, order: Sequence[int]) -> Node:
    """Integers with their dimensions in another order."""
    moved = add_call(like, torch.ops.aten.permute.default, add_call(like, AS_BYTES, word), [*order, len(order)])
    return add_call(like, FROM_BYTES, moved)


def match_bytes(bound: Bound) -> Quantization | Reject:
    return Quantization({}, BYTES)


def lower_bytes(lowering: Lowering) -> Node:
    return lowering.call(WORDS_TO_BYTES, input=words(lowering, "self"))


def match_words(bound: Bound) -> Quantization | Reject:
    return Quantization({"self": Role.ACTIVATION}, Plain())


def lower_words(lowering: Lowering) -> Node:
    if lowering.q("self") != BYTES:
        raise AssertionError(f"bytes of whole numbers were rescaled to {lowering.q('self')}")
    return lowering.call(BYTES_TO_WORDS, input=lowering.node("self"))


_VIEW = "a view: C bundle only, as whole numbers are"
WORDS_TO_BYTES = Operator(
    name="cortado::words_to_bytes",
    summary="whole numbers as their bytes, to be moved: no kernel, no copy",
    arguments="Tensor input",
    reference=bytes_of,
    shape=lambda call: (*call.shape("input"), WORD),
    kernel=None,
    view=True,
    places=frozenset({Place.C}),
    constraints=_VIEW,
)
BYTES_TO_WORDS = Operator(
    name="cortado::bytes_to_words",
    summary="bytes that were moved as whole numbers again: no kernel, no copy",
    arguments="Tensor input",
    reference=words_of,
    shape=lambda call: call.shape("input")[:-1],
    kernel=None,
    view=True,
    dtype=torch.int32,
    places=frozenset({Place.C}),
    constraints=_VIEW,
)

AS_BYTES_PATTERN = Pattern(aten=(AS_BYTES,), match=match_bytes, lower=lower_bytes)
FROM_BYTES_PATTERN = Pattern(aten=(FROM_BYTES,), match=match_words, lower=lower_words)
AS_BYTES_RULE = DomainRule(aten=(AS_BYTES,), integers=("self",))
