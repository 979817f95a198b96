"""Cost of a schedule, in cycles of the target's kind of core: row calls, tiles that are not full, the kernels.

`balanced` weighs RAM against this. It is a model of a model: a few numbers that stand for what `cortado profile` says
of whole networks. `benchmarks/schedules.py` prints both.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from cortado.base.target import Core
from cortado.plan.program import Program, Step, Walk


@dataclass(frozen=True)
class Costs:
    """Costs on one kind of core."""

    row_call: (
        int  # cycles: the row loop for one call, and what a kernel spends before its first and after its last pixel
    )
    product: float  # cycles of a multiply-accumulate, with all that comes with it
    output: float  # cycles of an output beside its products
    half_tile: float  # the share of a whole tile's time that up to half of its pixels take


# Fitted to networks of the zoo on one core of each kind (M0+, M3, M4, M55). product and output: least squares over
# ds_cnn, resnet8 and mobilenet_v1_025 under `time` (M3, M4: the first two), within 2% of each. row_call: what `ram`
# costs more for each row call that it makes more, where kernels are the same and tiles full (mobilenet_v1_025; with
# joins, as in resnet8, it is up to twice that). half_tile: what rows of five pixels cost ds_cnn under `ram`.
COSTS: Mapping[Core, Costs] = {
    Core.SMALL: Costs(row_call=450, product=3.2, output=85.0, half_tile=0.51),
    Core.LONG: Costs(row_call=300, product=2.5, output=59.0, half_tile=0.85),
    Core.DSP: Costs(row_call=300, product=1.12, output=21.6, half_tile=0.85),
    Core.MVE: Costs(row_call=220, product=0.16, output=10.0, half_tile=0.55),
}


def costs_of(program: Program) -> Costs:
    """Returns the costs of a core; for target `cortex-m` those of the fastest."""
    return COSTS[max(program.target.cores)]


def kernel_cycles(program: Program) -> int:
    """A rough cost of the kernels themselves, for weighing row calls against them."""
    return int(sum(step_cycles(step, costs_of(program)) for step in program.steps))


def step_cycles(step: Step, costs: Costs) -> float:
    """Returns the cycles of one kernel, over its whole output."""
    return step.macs * costs.product + step.images * step.image_bytes * costs.output


def wasted_cycles(program: Program, step: Step) -> float:
    """Returns what a pixelwise kernel does in vain because its calls' pixels are no whole tiles."""
    costs = costs_of(program)
    return waste(step, costs) * step_cycles(step, costs) if step.macs else 0.0


def waste(step: Step, costs: Costs) -> float:
    """The share of its work that a pixelwise kernel does in vain."""
    if step.kind is not Walk.PIXELS:
        return 0.0
    pixels = step.n * step.group
    return max(_paid_pixels(pixels, kernel.tile, costs) / pixels - 1 for kernel in step.kernels.values())


def _paid_pixels(pixels: int, tile: int, costs: Costs) -> float:
    whole, rest = divmod(pixels, tile)
    part = 0 if rest == 0 else costs.half_tile if rest <= tile // 2 else 1
    return tile * (whole + part)
