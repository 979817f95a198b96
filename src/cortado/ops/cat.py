"""out = the inputs one after the other along one dimension. Inputs of another scale are requantized first."""

import math
from typing import Any

import torch
from torch.fx import Node

from cortado.base.errors import Reject
from cortado.base.numerics import Tensor
from cortado.base.target import Core
from cortado.ir.c_call import CCall, Operand
from cortado.ir.facts import QPARAMS
from cortado.ir.graph import Bound, add_call, shape
from cortado.ir.op import (
    ONE_ROW,
    Call,
    Kernel,
    Lowering,
    Operator,
    Pattern,
    Quantization,
    Rewrite,
    Role,
    Rows,
    SharedWith,
)
from cortado.ops._movement import relayout_dim
from cortado.ops.activation import all_codes, entries, table

aten = torch.ops.aten
MAX_INPUTS = 4  # operands of one step of the C bundle


def reference(*, tensors: list[Tensor], dim: int) -> Tensor:
    return torch.cat(tensors, dim)


def shapes(call: Call) -> list[tuple[int, ...]]:
    return [tuple(value.shape) if isinstance(value, Tensor) else tuple(value) for value in call["tensors"]]


def output_shape(call: Call) -> tuple[int, ...]:
    sizes = list(shapes(call)[0])
    sizes[call["dim"]] = sum(part[call["dim"]] for part in shapes(call))
    return tuple(sizes)


# ---- from aten -----------------------------------------------------------------------------------------------


def without_empty(bound: Bound) -> Node | None:
    """Empty tensors may stand in a list; they add nothing, whatever their shape."""
    parts = bound.nodes("tensors")
    filled = [part for part in parts if 0 not in shape(part)]
    if len(filled) in (0, len(parts)):
        return None
    return add_call(bound.node, aten.cat.default, filled, bound["dim"])


def match(bound: Bound) -> Quantization | Reject:
    if 0 in shape(bound.node):
        return Reject(f"gives an empty tensor of shape {list(shape(bound.node))}")
    return Quantization({"tensors": Role.ACTIVATION}, SharedWith("tensors"))


def join(lowering: Lowering, parts: list[Node], dim: int) -> Node:
    """One call, or a tree of calls where there are more inputs than a step can have."""
    while len(parts) > MAX_INPUTS:
        groups = [parts[i : i + MAX_INPUTS] for i in range(0, len(parts), MAX_INPUTS)]
        parts = [join(lowering, group, dim) for group in groups]
    return parts[0] if len(parts) == 1 else lowering.call(CAT, tensors=parts, dim=dim)


def requantize(lowering: Lowering, node: Node) -> Node:
    """An input in the output's scale."""
    have = QPARAMS.must(node)
    if have == lowering.out:
        return node
    return table(lowering, node, entries(have.dequantize(all_codes()), lowering.out))


def operands(lowering: Lowering) -> list[Node]:
    """The inputs, all in the output's scale."""
    return [requantize(lowering, part) for part in lowering.bound.nodes("tensors")]


def lower(lowering: Lowering) -> Node:
    dim = lowering.bound["dim"] % len(shape(lowering.bound.node))
    return join(lowering, operands(lowering), dim)


def lower_stack(lowering: Lowering) -> Node:
    sizes = list(shape(lowering.bound.node))
    dim = lowering.bound["dim"] % len(sizes)
    sizes[dim] = 1
    return join(lowering, [lowering.view(part, tuple(sizes)) for part in operands(lowering)], dim)


def lower_hstack(lowering: Lowering) -> Node:
    parts = [lowering.view(part, shape(part) or (1,)) for part in operands(lowering)]
    return join(lowering, parts, min(1, len(shape(lowering.bound.node)) - 1))


def _as_column(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(-1, 1) if x.dim() < 2 else x


def _lower_at_least(lowering: Lowering, rank: int, dim: int) -> Node:
    """vstack, dstack, column_stack: every input first gets `rank` dimensions, as numpy would give it them."""
    target = {(2, 0): torch.atleast_2d, (3, 2): torch.atleast_3d, (2, 1): _as_column}
    parts = [
        lowering.view(part, tuple(target[rank, dim](torch.empty(shape(part), device="meta")).shape))
        for part in operands(lowering)
    ]
    return join(lowering, parts, dim)


# ---- the C kernel --------------------------------------------------------------------------------------------


def rows(call: Call) -> Rows | None:
    """Channels are joined pixel by pixel, columns row by row."""
    rules = tuple(ONE_ROW for _ in shapes(call))
    rank = len(shapes(call)[0])
    if call["dim"] == rank - 1:
        return Rows(rules, pixelwise=True)
    return Rows(rules) if (rank, call["dim"]) == (4, 2) else None


def kernel(call: Call, core: Core) -> Kernel:
    dim = call["dim"]
    widths = [math.prod(part[dim:]) for part in shapes(call)]
    rule = rows(call)
    outer = math.prod(call.out_shape[:dim]) if rule is None else Operand.N if rule.pixelwise else 1
    return Kernel(
        call=CCall("cortado_cat_s8", (Operand.LAYER, Operand.ROWS, Operand.OUT, outer)),
        sources=("cat_s8.c",),
        struct="cortado_cat_t",
        fields={"count": len(widths), "width": tuple([*widths, *[0] * (MAX_INPUTS - len(widths))])},
    )


def samples() -> Any:
    from hypothesis import strategies as st

    from cortado.ir import sampling

    @st.composite
    def draw_case(draw: Any) -> dict[str, Any]:
        rank = draw(st.sampled_from([1, 2, 3, 4, 4, 4, 5]))
        sizes = [draw(st.integers(1, 6)) for _ in range(rank)]
        dim = draw(st.integers(0, rank - 1))
        parts = []
        for _ in range(draw(st.integers(2, MAX_INPUTS))):
            sizes[dim] = draw(st.integers(1, 9))
            parts.append(sampling.codes(draw(sampling.SEEDS), tuple(sizes)))
        return {"tensors": parts, "dim": dim}

    return draw_case()


CAT = Operator(
    name="aten::cat",
    summary="cat, stack: tensors one after the other",
    arguments="Tensor[] tensors, int dim=0",
    reference=reference,
    shape=output_shape,
    kernel=kernel,
    rows=rows,
    tensors=("tensors",),
    relayout=relayout_dim,
    samples=samples,
)

CAT_REWRITE = Rewrite(aten=(aten.cat.default, aten.concat.default, aten.concatenate.default), rewrite=without_empty)

CAT_PATTERN = Pattern(aten=(aten.cat.default, aten.concat.default, aten.concatenate.default), match=match, lower=lower)
STACK_PATTERN = Pattern(aten=(aten.stack.default,), match=match, lower=lower_stack)
HSTACK_PATTERN = Pattern(aten=(aten.hstack.default,), match=match, lower=lower_hstack)
VSTACK_PATTERN = Pattern(
    aten=(aten.vstack.default,), match=match, lower=lambda lowering: _lower_at_least(lowering, 2, 0)
)
DSTACK_PATTERN = Pattern(
    aten=(aten.dstack.default,), match=match, lower=lambda lowering: _lower_at_least(lowering, 3, 2)
)
COLUMN_STACK_PATTERN = Pattern(
    aten=(aten.column_stack.default,), match=match, lower=lambda lowering: _lower_at_least(lowering, 2, 1)
)
