"""out = self * weight + (factor x rows + other * decay); moved = other + out * rate; in float32: state that a matrix
product updates, and other state that this update moves.

These are the updates of gradient descent to parameters and momenta. Each product and each sum is rounded; the matrix
product is the sum over the common dimension, starting with its first product.
"""

from typing import Any

import numpy as np

from cortado.base.element import FLOAT32
from cortado.base.numerics import Tensor
from cortado.ir.c_call import Absent, Operand, Row, Written
from cortado.ir.kernel import ONE_ROW, Field, RowRule, Rows
from cortado.ir.kernel_table import KernelRow, KernelTable
from cortado.ir.op import Call, Operator, Result
from cortado.ir.sampling import CaseDraw
from cortado.ir.work import Work, loops
from cortado.ops.floats import quiet, stored

OUT, MOVED = "out", "moved"  # the results


@quiet
def reference(
    *, self: Tensor, factor: Tensor, rows: Tensor, other: list[Tensor], weight: float, decay: float, rate: float
) -> tuple[Tensor, Tensor]:
    left, right = factor.numpy(), rows.numpy()
    found = left[:, :1] * right[:1]
    for k in range(1, len(right)):
        found = found + left[:, k : k + 1] * right[k : k + 1]
    for one in other:
        found = found + one.numpy() * np.float32(decay)
    made = stored(self.numpy() * np.float32(weight) + found)
    step = made.numpy() * np.float32(rate)
    return made, stored(other[0].numpy() + step if other else step)


def output_shape(call: Call) -> tuple[int, ...]:
    return call.shape("self")


def walked(call: Call) -> Rows:
    """Runs element by element; the factors are read whole."""
    whole = RowRule(stride=0)
    return Rows((ONE_ROW, whole, whole, *(ONE_ROW for _ in call["other"])), pixelwise=True, elementwise=True)


def _fields(call: Call) -> dict[str, Field]:
    rows, columns = call.shape("self")
    return {"rows": rows, "columns": columns, "depth": call.shape("rows")[0]}


def _work(call: Call) -> Work:
    rows, depth = call.shape("factor")
    sizes = {"rows": rows, "decayed": len(call["other"]), "deep": depth if depth > 1 else 0}
    return loops("calls calls*rows outputs outputs*decayed outputs*deep", **sizes)


def _row(others: int, read: tuple[bool, bool]) -> KernelRow:
    """Returns a row for calls with another tensor, or without, for which these results are read."""
    out, moved = (Operand.OUT if read[0] else Absent()), (Absent() if read[0] else Operand.OUT)
    behind = Written(Row(3 + others)) if all(read) else moved
    return KernelRow(
        "update_f32",
        FLOAT32,
        fits=lambda call: (len(call["other"]), call.gives(OUT), call.gives(MOVED)) == (others, *read),
        arguments=(Operand.LAYER, Row(0), Row(1), Row(2), Row(3) if others else Absent(), out, behind),
        struct="cortado_update_f32_t",
        fields=_fields,
        work=_work,
    )


_READ = ((True, True), (True, False), (False, True))
KERNELS = KernelTable(tuple(_row(others, read) for others in (1, 0) for read in _READ))


def samples(draw: CaseDraw) -> dict[str, Any]:
    rows, depth, columns = draw.whole(1, 5), draw.pick([1, 1, 2, 3]), draw.channels()
    numbers = [float(np.float32(one)) for one in (0.0, 0.5, 1.0, -0.1, 3e9)]
    return {
        "self": draw.numbers((rows, columns)),
        "factor": draw.numbers((rows, depth)),
        "rows": draw.numbers((depth, columns)),
        "other": [draw.numbers((rows, columns))] if draw.flag() else [],
        "weight": draw.pick(numbers),
        "decay": draw.pick(numbers),
        "rate": draw.pick(numbers),
    }


FLOAT_UPDATE = Operator(
    name="cortado::float_update",
    summary=(
        "a tensor times a number plus a matrix product, in float32, and another tensor moved by the result: a step of "
        "gradient descent"
    ),
    reference=reference,
    shape=output_shape,
    kernel=KERNELS,
    rows=walked,
    element=FLOAT32,
    extra_results=(Result(MOVED, output_shape, FLOAT32),),
    tensors=("self", "factor", "rows", "other"),
    constraints="new values of state",
    samples=samples,
)
