"""out = input with its dimensions in another order: a layout change that no pass could remove."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

from cortado.errors import Reject
from cortado.graph import Bound, shape
from cortado.numerics import Tensor, int_list
from cortado.op import Call, Kernel, Lowering, Operator, Pattern, Quantization, Role, SharedWith
from cortado.target import Isa

aten = torch.ops.aten
MAX_RANK = 6


def reference(*, input: Tensor, perm: list[int]) -> Tensor:
    return input.permute(perm).contiguous()


def permutation(bound: Bound) -> tuple[int, ...]:
    """The order of dimensions that permute, transpose or t asks for."""
    rank = len(shape(bound["self"]))
    if bound.node.target == aten.permute.default:
        return tuple(dim % rank for dim in int_list(bound["dims"]))
    order = list(range(rank))
    first, second = (bound["dim0"] % rank, bound["dim1"] % rank) if bound.get("dim0") is not None else (0, rank - 1)
    order[first], order[second] = order[second], order[first]
    return tuple(order)


def match(bound: Bound) -> Quantization | Reject:
    rank = len(shape(bound["self"]))
    if rank > MAX_RANK:
        return Reject(f"transposes at most rank {MAX_RANK}, got rank {rank}")
    return Quantization({"self": Role.ACTIVATION}, SharedWith("self"))


def lower(lowering: Lowering) -> Node:
    return lowering.transpose(lowering.node("self"), permutation(lowering.bound))


def strides_of(sizes: Sequence[int]) -> list[int]:
    """Elements between neighbours along each dimension of a contiguous tensor."""
    return [math.prod(sizes[dim + 1 :]) for dim in range(len(sizes))]


def six(values: Sequence[int], fill: int) -> tuple[int, ...]:
    """A descriptor's fixed-length array."""
    return tuple([*values, *[fill] * (MAX_RANK - len(values))])


def kernel(call: Call, isa: Isa) -> Kernel:
    """The output's dimensions, each with the stride it walks the input with."""
    sizes, perm = call.shape("input"), call["perm"]
    strides = strides_of(sizes)
    return Kernel(
        call="cortado_transpose_s8(L, rows[0], out);",
        sources=("transpose_s8.c",),
        struct="cortado_transpose_t",
        fields={
            "rank": len(perm),
            "shape": six([sizes[dim] for dim in perm], 1),
            "stride": six([strides[dim] for dim in perm], 0),
        },
    )


def samples() -> Any:
    from hypothesis import strategies as st

    from cortado import sampling

    @st.composite
    def draw_case(draw: Any) -> dict[str, Any]:
        rank = draw(st.integers(1, 4))
        shape = tuple(draw(st.integers(1, 9)) for _ in range(rank))
        return {
            "input": sampling.codes(draw(sampling.SEEDS), shape),
            "perm": draw(st.permutations(list(range(rank)))),
        }

    return draw_case()


TRANSPOSE = Operator(
    name="cortex_m::transpose",
    summary="permute, transpose: dimensions in another order",
    arguments="Tensor input, int[] perm",
    reference=reference,
    shape=lambda call: tuple(call.shape("input")[p] for p in call["perm"]),
    kernel=kernel,
    constraints="rank up to 6 in C, up to 4 in the .pte",
    samples=samples,
)

PERMUTE_PATTERN = Pattern(aten=(aten.permute.default, aten.transpose.int, aten.t.default), match=match, lower=lower)
