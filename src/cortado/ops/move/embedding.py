"""out[i] = table[id[i]]: a row of constant codes for each id. The output has the scale and zero point of the table.

An id below 0 counts as 0, one past the end of the table as the last: nothing is read outside the table, whatever the
input. (Eager torch refuses such ids; a build with CORTADO_ENABLE_RUNTIME_CHECKS stops at them.)

With a `run`, the table has 4 bits (--weights int4): a byte of the C bundle holds two codes. Codes are zero_point +
factor * q, |q| <= 7, with a factor of 1 to 18 for each run of a row; if `run` is 0, a whole row has one factor.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from cortado.base.arrays import ArrayType
from cortado.base.element import FLOAT32, INT4, INT8, INT16, INT32
from cortado.base.errors import CortadoError, Reject
from cortado.base.numerics import Tensor
from cortado.ir import sampling
from cortado.ir.c_call import Bytes, Operand, Row
from cortado.ir.facts import USER_INPUT, dtype, holds_integers
from cortado.ir.graph import Bound, add_call, bind, is_call, shape
from cortado.ir.kernel import Array, Field
from cortado.ir.kernel_table import KernelRow, KernelTable
from cortado.ir.op import Call, ElementOf, Int4Form, Lowering, Operator, Pattern, Rewrite
from cortado.ir.roles import Activation, Plain, Quantization, SharedWith
from cortado.ir.sampling import CaseDraw
from cortado.ir.work import Work, loops
from cortado.ops.conv.int4 import LARGEST, ROW_FACTORS, RUN, chosen_factors, pack_pairs, rounded
from cortado.ops.float_graph import add_constant, add_view, constant_data, is_constant
from cortado.ops.io.widen import as_words
from cortado.ops.loops import runs_of
from cortado.ops.pool.reductions import Reduction, reduce

# ---- embedding -------------------------------------------------------------------------------------------

aten = torch.ops.aten

CONSTRAINTS = "a constant table; ids outside of it select its first or last row"
NO_PTE = "ExecuTorch has no int8 kernel"


def within(ids: Tensor, count: int) -> Tensor:
    """Clamps ids to a table of `count` rows."""
    return ids.to(torch.int64).clamp(0, count - 1)


def reference(*, weight: Tensor, indices: Tensor, zero_point: int = 0, run: int | None = None) -> Tensor:
    """Looks rows up; the table holds the full codes, however many bits are stored for them."""
    return weight[within(indices, len(weight))].contiguous()


def output_shape(call: Call) -> tuple[int, ...]:
    return (*call.shape("indices"), call.shape("weight")[1])


# ---- from aten -----------------------------------------------------------------------------------------------


def looked_up(like: Node, table: Node, ids: Node) -> Node | None:
    """Adds table[ids] as an embedding: rows of a constant of any rank, by computed ids; None for anything else."""
    counted = dtype(ids) in (torch.int32, torch.int64) and not is_constant(ids)
    if not counted or not is_constant(table) or not shape(table) or not dtype(table).is_floating_point:
        return None
    count, *inner = shape(table)
    rows = add_constant(like, "table", constant_data(table).reshape(count, -1))
    return add_view(like, add_call(like, aten.embedding.default, rows, ids), (*shape(ids), *inner))


def selected(bound: Bound) -> Node | None:
    """Rewrites index_select along the first dimension of a constant."""
    return looked_up(bound.node, bound["self"], bound["index"]) if bound["dim"] == 0 else None


def one_hot(bound: Bound) -> None:
    """Rewrites one_hot as rows of a unit matrix, if its result is converted to real numbers."""
    like, count = bound.node, int(bound["num_classes"])
    wanted = [user for user in like.users if is_call(user, aten.to.dtype) and dtype(user) == torch.float32]
    if count <= 0 or is_constant(bound["self"]) or not wanted:
        return
    table = add_constant(like, "unit", torch.eye(count))
    rows = add_call(like, aten.embedding.default, table, bound["self"])
    for user in wanted:
        user.replace_all_uses_with(rows)


def layer_of_rows(like: Node, source: Node, weight: Tensor, bias: Tensor | None = None) -> Node | None:
    """Folds a linear layer into the table whose rows it reads: one-hot vectors times a matrix are an embedding. None if
    the source is something else, or if the new table is larger than what it replaces."""
    rows = _origin(source)
    if not is_call(rows, aten.embedding.default) or not is_constant(bind(rows)["weight"]):
        return None
    table, ids = constant_data(bind(rows)["weight"]), bind(rows)["indices"]
    (count, width), (out, depth) = table.shape, weight.shape
    places = depth // width
    saved = table.numel() if len(rows.users) == 1 else 0
    if depth % width or places * count * out > saved + weight.numel():
        return None
    parts = weight.detach().reshape(out, places, width).permute(1, 2, 0)  # the weights of each place
    made = (table.detach() @ parts).reshape(places * count, out)
    if places == 1:
        made = made if bias is None else made + bias.detach().reshape(-1)
        found = add_call(like, aten.embedding.default, add_constant(like, "rows", made), ids)
        return add_view(like, found, (*shape(source)[:-1], out))
    return _summed(like, made, ids, (*shape(source)[:-1], places, count), bias)


def _summed(like: Node, table: Tensor, ids: Node, sizes: tuple[int, ...], bias: Tensor | None) -> Node:
    """Adds the sum of rows of one table, one row for each place."""
    *outer, places, count = sizes
    firsts = add_constant(like, "firsts", count * torch.arange(places))
    own = add_call(like, aten.add.Tensor, add_view(like, ids, (*outer, places)), firsts)
    found = add_call(like, aten.embedding.default, add_constant(like, "rows", table), own)
    total = reduce(like, found, frozenset({len(outer)}), Reduction.SUM, (*outer, table.shape[1]))
    assert total is not None  # of real numbers
    return total if bias is None else add_call(like, aten.add.Tensor, total, add_constant(like, "bias", bias.detach()))


def _origin(source: Node) -> Node:
    """Returns the tensor that a chain of views reads."""
    while is_call(source, aten.view.default, aten.reshape.default) and len(source.users) == 1:
        source = source.all_input_nodes[0]
    return source


def check(bound: Bound) -> Reject | None:
    """Returns the reason why no kernel looks these ids up in this table."""
    table, ids = bound["weight"], bound["indices"]
    if table.op not in ("get_attr", "placeholder") or USER_INPUT.known(table):
        return Reject(f"needs a constant table, got {table.name}, which is computed")
    if not holds_integers(ids) or dtype(ids) == torch.bool:
        return Reject(f"needs integer ids, got {dtype(ids)}")
    return None


def match(bound: Bound) -> Quantization | Reject:
    if bound.element.floating:
        return check(bound) or Quantization({}, Plain())
    return check(bound) or Quantization({"weight": Activation(bound.element)}, SharedWith("weight"))


def lower(lowering: Lowering) -> Node:
    ids = as_words(lowering, lowering.node("indices"))
    return lowering.call(EMBEDDING, weight=lowering.node("weight"), indices=ids, zero_point=0, run=None)


# ---- tables of 4 bits ----------------------------------------------------------------------------------------


def narrowed(weight: Tensor, zero_point: int, run: int) -> Tensor:
    """Returns the nearest 4-bit table, by the squared error of each run."""
    length = run or weight.shape[1]
    found = []
    for part in torch.split(weight.to(torch.int64) - zero_point, length, dim=1):
        factors = chosen_factors(part, torch.ones(part.shape[1]), ROW_FACTORS)[:, None]
        near = zero_point + factors * rounded(part, factors)
        beyond = (near < INT8.low).to(torch.int64) - (near > INT8.high).to(torch.int64)
        found.append(near + factors * beyond)  # a step back if the code would not fit 8 bits
    return torch.cat(found, 1).to(torch.int8)


@dataclass(frozen=True)
class StoredTable:
    """A 4-bit table: q as [count, width], and factors as [count, runs]."""

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
            raise CortadoError(f"{length} codes of a table have no common factor from 1 to {max(ROW_FACTORS)}")
        factors = np.stack([one.argmax(axis=0) + min(ROW_FACTORS) for one in fits], axis=1)
        repeated = np.repeat(factors, length, axis=1)[:, : table.shape[1]]
        return StoredTable((centred // repeated).astype(np.int8), factors.astype(np.uint8))


def _stored(call: Call) -> StoredTable:
    return StoredTable.of(call.array("weight"), call["zero_point"], call["run"])


def _narrow_fields(call: Call) -> dict[str, Field]:
    (count, width), stored = call.shape("weight"), _stored(call)
    return {
        "ids": math.prod(call.shape("indices")),
        "count": count,
        "width": width,
        "run": min(call["run"] or width, width),
        "zero": call["zero_point"],
        "table": Array(pack_pairs(stored.codes), packed=stored.codes.shape),
        "factors": Array(stored.factors),
    }


def _narrow_work(call: Call) -> Work:
    return loops(
        "calls calls*ids calls*ids*runs calls*ids*pairs",
        ids=math.prod(call.shape("indices")),
        runs=_stored(call).factors.shape[1],
        pairs=math.ceil(call.shape("weight")[1] / 2),
    )


# ---- the C kernel --------------------------------------------------------------------------------------------


def _fields(call: Call) -> dict[str, Field]:
    (count, width), table = call.shape("weight"), call.array("weight")
    if call.element.floating:  # rows of bytes
        table, width = table.view(np.int8), width * call.element.bytes
    return {"ids": math.prod(call.shape("indices")), "count": count, "width": width, "table": Array(table)}


def _row_work(call: Call) -> Work:
    width = call.shape("weight")[1] * call.element.bytes
    return runs_of("calls", width, width)


_BYTES = KernelRow(
    "embedding_s8",
    INT32,
    INT8,
    arguments=(Operand.LAYER, Row(0), Bytes(Operand.OUT)),
    struct="cortado_embedding_t",
    fields=_fields,
    work=_row_work,
)
KERNELS = KernelTable(
    (
        KernelRow(
            "embedding_narrow_s8",
            INT32,
            INT8,
            weights=INT4,
            fits=lambda call: call["run"] is not None,
            arguments=(Operand.LAYER, Row(0), Operand.OUT),
            struct="cortado_embedding_narrow_t",
            fields=_narrow_fields,
            work=_narrow_work,
        ),
        _BYTES,
        replace(
            _BYTES,
            symbol="embedding_s16",
            makes=INT16,
            arguments=(Operand.LAYER, Row(0), Operand.OUT),
            struct="cortado_embedding_s16_t",
        ),
        replace(_BYTES, makes=FLOAT32),
    )
)


def draw_ids(draw: CaseDraw, sizes: tuple[int, ...], count: int) -> Tensor:
    """Draws ids for a table of `count` rows; some of them out of range."""
    ids = sampling.codes(draw.seed(), sizes, -2, count + 1, torch.int32)
    if draw.seed() % 3 == 0:
        ids.reshape(-1)[0] = torch.iinfo(torch.int32).min
        ids.reshape(-1)[-1] = torch.iinfo(torch.int32).max
    return ids


def samples(draw: CaseDraw) -> dict[str, Any]:
    count, sizes = draw.whole(1, 40), draw.sizes(6, 1, 3)
    kind = draw.element(FLOAT32)
    width = draw.pick([draw.channels(), draw.pick([64, 70])])
    floating = kind.floating
    table = draw.numbers((count, width)) if floating else draw.codes((count, width), kind)
    run, zero = draw.pick([None, None, 0, RUN]) if kind.affine else None, 0
    if run is not None:
        zero = draw.zero_point()
        table = narrowed(table, zero, run)
    return {"weight": table, "indices": draw_ids(draw, sizes, count), "zero_point": zero, "run": run}


EMBEDDING = Operator(
    name="cortado::embedding",
    summary="rows of a constant table, one for each id",
    reference=reference,
    shape=output_shape,
    kernel=KERNELS,
    element=ElementOf(("weight",)),
    tensors=("indices",),
    int4=Int4Form.TABLE,
    constraints=CONSTRAINTS,
    no_pte=NO_PTE,
    samples=samples,
)

EMBEDDING_PATTERN = Pattern(aten=(aten.embedding.default,), match=match, lower=lower)
SELECTED_REWRITE = Rewrite(aten=(aten.index_select.default,), rewrite=selected, any_element=True)
ONE_HOT_REWRITE = Rewrite(aten=(aten.one_hot.default,), rewrite=one_hot, any_element=True)
