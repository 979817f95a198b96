"""Calls of operators with arguments drawn from their own samples: many of them side by side as one network."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from hypothesis import HealthCheck, Phase, given, seed, settings

from cortado.base.target import CortexMTargetConfig
from cortado.ir.op import Operator, registry
from cortado.options import Border
from cortado.plan.lowered import lowered_graph
from cortado.plan.program import build_program
from cortado.plan.schedule import schedule
from cortado.sketch import Sketch

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from helpers.cases import Case, lowered_program

TOGETHER = 5  # calls of each operator in a network
DRAWN = 3  # of which one is taken, the larger
LARGEST = 20_000  # outputs of a call
# Operators with kernels that seldom run.
MORE = {"cortex_m::quantized_transpose_conv2d_nhwc": 16, "cortex_m::quantized_depthwise_conv2d_nhwc": 10}
# Calls that a network is likely to have, where an operator has others as well.
LIKELY: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    "cortado::calculate_int": lambda arguments: bool((arguments["other"] != 0).all()),
}


def operators() -> list[Operator]:
    """Those with a C kernel, by name."""
    known = registry().operators
    return [known[name] for name in sorted(known) if known[name].kernel is not None]


def draw_calls(number: int, names: Mapping[str, int] | None = None) -> list[Case]:
    """The same number gives the same calls; `names` are operators, each with how many calls of it are wanted."""
    found: list[Case] = []
    for operator in operators():
        wanted = MORE.get(operator.name, TOGETHER) if names is None else names.get(operator.name, 0)
        found += [(operator, arguments) for arguments in draw(operator, number, wanted)]
    return found


def draw(operator: Operator, number: int, wanted: int) -> list[dict[str, Any]]:
    """Arguments of calls, rather of large ones."""
    drawn: list[dict[str, Any]] = []
    if wanted == 0:
        return drawn
    assert operator.samples is not None

    @seed(number)
    @settings(
        max_examples=DRAWN * wanted + 1,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(arguments=operator.samples())
    def take(arguments: dict[str, Any]) -> None:
        drawn.append(arguments)

    take()
    likely = LIKELY.get(operator.name, lambda arguments: True)
    sizes = {at: operator.reference(**one).numel() for at, one in enumerate(drawn) if likely(one)}
    largest = sorted((at for at, size in sizes.items() if size <= LARGEST), key=lambda at: -sizes[at])
    return [drawn[at] for at in largest[:wanted]]


def sketch_of(cases: list[Case], target: CortexMTargetConfig) -> Sketch:
    """All of these calls as one network."""
    program, inputs = lowered_program(cases)
    graph = lowered_graph(program)
    planned = schedule(build_program("cases", graph, target, Border.FLOAT))
    return Sketch(graph, planned, tuple(torch.as_tensor(value) for value in inputs))
