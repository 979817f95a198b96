"""embedding whose table has 4 bits: two codes are a byte of the C bundle.

The table of a call has codes as embedding's, so what it gives is what embedding gives. Within a run of a row they are
zero_point + factor * q, |q| <= 7, factor 1 to 18; with `run` 0 a whole row has one factor.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from cortado.base.arrays import ArrayType
from cortado.base.element import INT8
from cortado.base.errors import CortadoError
from cortado.base.numerics import Tensor
from cortado.base.target import Core
from cortado.ir.c_call import CCall, Operand, Row
from cortado.ir.kernel import Array, Kernel
from cortado.ir.op import Call, Operator, Place
from cortado.ir.work import loops
from cortado.ops import embedding
from cortado.ops._narrow import LARGEST, ROW_FACTORS, chosen_factors, rounded
from cortado.ops._narrow_packing import RUN, pack_pairs


def reference(*, weight: Tensor, indices: Tensor, zero_point: int, run: int) -> Tensor:
    """The codes say it all."""
    return embedding.reference(weight=weight, indices=indices)


def narrowed(weight: Tensor, zero_point: int, run: int) -> Tensor:
    """The nearest table that has 4 bits, by the squared error of each run."""
    length = run or weight.shape[1]
    found = []
    for part in torch.split(weight.to(torch.int64) - zero_point, length, dim=1):
        factors = chosen_factors(part, torch.ones(part.shape[1]), ROW_FACTORS)[:, None]
        near = zero_point + factors * rounded(part, factors)
        beyond = (near < INT8.low).to(torch.int64) - (near > INT8.high).to(torch.int64)
        found.append(near + factors * beyond)  # a step back where a code would not be one of 8 bits
    return torch.cat(found, 1).to(torch.int8)


@dataclass(frozen=True)
class StoredTable:
    """q as [count, width], and factors as [count, runs]."""

    codes: ArrayType
    factors: ArrayType

    @staticmethod
    def of(table: ArrayType, zero_point: int, run: int) -> "StoredTable":
        centred, length = table.astype(np.int64) - zero_point, run or table.shape[1]
        parts = [centred[:, first : first + length] for first in range(0, table.shape[1], length)]
        fits = [
            np.stack([np.all((part % f == 0) & (np.abs(part) <= LARGEST * f), axis=1) for f in ROW_FACTORS])
            for part in parts
        ]
        if not all(one.any(axis=0).all() for one in fits):
            raise CortadoError(f"{length} codes of a table have no factor of 1 to {max(ROW_FACTORS)} in common")
        factors = np.stack([one.argmax(axis=0) + min(ROW_FACTORS) for one in fits], axis=1)
        repeated = np.repeat(factors, length, axis=1)[:, : table.shape[1]]
        return StoredTable((centred // repeated).astype(np.int8), factors.astype(np.uint8))


def kernel(call: Call, core: Core) -> Kernel:
    (count, width), run = call.shape("weight"), call["run"]
    stored = StoredTable.of(call.array("weight"), call["zero_point"], run)
    length = min(run or width, width)
    return Kernel(
        call=CCall("cortado_embedding_narrow_s8", (Operand.LAYER, Row(0), Operand.OUT)),
        sources=("embedding_narrow_s8.c",),
        struct="cortado_embedding_narrow_t",
        fields={
            "ids": math.prod(call.shape("indices")),
            "count": count,
            "width": width,
            "run": length,
            "zero": call["zero_point"],
            "table": Array(pack_pairs(stored.codes), packed=stored.codes.shape),
            "factors": Array(stored.factors),
        },
        work=loops(
            "calls calls*ids calls*ids*runs calls*ids*pairs",
            ids=math.prod(call.shape("indices")),
            runs=stored.factors.shape[1],
            pairs=math.ceil(width / 2),
        ),
    )


def samples() -> Any:
    from hypothesis import strategies as st

    from cortado.ir import sampling

    @st.composite
    def draw_case(draw: Any) -> dict[str, Any]:
        count, sizes = draw(st.integers(1, 40)), tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)))
        width = draw(st.one_of(sampling.CHANNELS, st.sampled_from([31, 32, 33, 64, 70])))
        run, zero = draw(st.sampled_from([0, RUN])), draw(sampling.ZERO_POINTS)
        table = narrowed(sampling.codes(draw(sampling.SEEDS), (count, width)), zero, run)
        ids = embedding.draw_ids(draw, sizes, count)
        return {"weight": table, "indices": ids, "zero_point": zero, "run": run}

    return draw_case()


NARROW_EMBEDDING = Operator(
    name="cortado::narrow_embedding",
    summary="rows of a constant table of 4-bit codes, one for each id (--weights int4)",
    arguments=f"{embedding.EMBEDDING.arguments}, int zero_point, int run",
    reference=reference,
    shape=embedding.output_shape,
    kernel=kernel,
    tensors=("indices",),
    places=frozenset({Place.C}),
    constraints=embedding.CONSTRAINTS,
    samples=samples,
)
