"""conv2d whose weights have 4 bits: two of them are a byte of the C bundle.

The weights of a call are codes as conv2d's, so what it computes is what conv2d computes. Within a run they are
factor * q, |q| <= 7: `run` products in the order kernel_h, kernel_w, in_c have one factor, 3 to 18. With `run` 0 all
factors are 1. One group of channels. What cores have kernels for is in _narrow_kernels.
"""

from collections.abc import Mapping
from random import Random
from typing import Any

from torch.fx import Node

from cortado.base.element import INT8
from cortado.base.numerics import Tensor
from cortado.base.target import CortexMTargetConfig
from cortado.ir.op import Operator, PteWriter
from cortado.ops import conv2d
from cortado.ops._convolution import macs, weighted_case
from cortado.ops._narrow import drawn
from cortado.ops._narrow_kernels import kernel
from cortado.ops._narrow_packing import RUN


def reference(*, run: int, **arguments: Any) -> Tensor:
    """The weights say it all."""
    return conv2d.reference(**arguments)


def in_pte(arguments: Mapping[str, Any], add: PteWriter, target: CortexMTargetConfig) -> Node:
    """The same weights in a byte each."""
    return conv2d.in_pte({name: value for name, value in arguments.items() if name != "run"}, add, target)


# Kernel, whether it is a linear layer, run: cores have other kernels for each.
_FORMS = [
    (kernel, pixel, run)
    for kernel, pixel in [*2 * [((1, 1), True), ((1, 1), False)], ((3, 3), False), ((2, 5), False), ((1, 3), False)]
    for run in (0, RUN)
]


def samples() -> Any:
    """As conv2d's, with one group, runs or none, and layers deep enough for several runs."""
    from hypothesis import strategies as st

    from cortado.ir import sampling

    @st.composite
    def draw_case(draw: Any) -> dict[str, Any]:
        seed = draw(sampling.SEEDS)
        kernel, pixel, run = Random(seed).choice(_FORMS)
        deep = st.sampled_from([32, 63, 64, 65, 96, 640, 1200]) if kernel == (1, 1) else sampling.CHANNELS
        in_c, out_c = draw(st.one_of(sampling.CHANNELS, deep)), draw(sampling.CHANNELS)
        sizes = (out_c, *kernel, in_c)
        usual = draw(st.sampled_from([True, True, True, False]))
        case = weighted_case(draw, kernel, (in_c, out_c), sizes, usual, kinds=(INT8,))
        if pixel:
            case["input"] = case["input"][:1, :1, :1].contiguous()
        if draw(st.sampled_from([True, True, True, False])):  # for which cores have kernels of their own
            case["requantize_shifts"] = case["requantize_shifts"].clamp(max=-1)
        return {**case, "weight": drawn(seed, sizes, run), "run": run}

    return draw_case()


NARROW_CONV2D = Operator(
    name="cortado::narrow_conv2d",
    summary="2-D convolution or linear layer with 4-bit weights (--weights int4)",
    arguments=conv2d.CONV2D.arguments.removesuffix(", Tensor scratch") + ", int run",
    reference=reference,
    shape=conv2d.output_shape,
    kernel=kernel,
    rows=conv2d.rows,
    macs=macs,
    pte=in_pte,
    constraints="constant weights of 4 bits, with a factor for each 32 of them or none; the .pte has them as int8",
    samples=samples,
)
