"""The calls of kernels that an operator's samples make, on every kind of core."""

from collections.abc import Iterable, Iterator

from cortado.base.errors import CortadoError
from cortado.base.target import Core, from_target_string
from cortado.emit.image.files import ListedThunk
from cortado.emit.image.thunks import Thunk, thunk_of
from cortado.ir.kernel import Kernel
from cortado.ir.op import Operator
from cortado.options import Border
from cortado.plan.lowered import lowered_graph
from cortado.plan.program import build_program
from helpers.cases import Case, drawn, lowered_program

CORES = (Core.SMALL, Core.LONG, Core.DSP, Core.MVE, Core.PORTABLE)


def of_samples(cases: list[Case]) -> Iterator[tuple[Core, Kernel]]:
    """The kernels of these calls, those for streams and those with less scratch too."""
    graph = lowered_graph(lowered_program(cases)[0])
    target = from_target_string("cortex-m55")
    for core in CORES:
        for running in (False, True):
            program = build_program("cases", graph, target, Border.FLOAT, (core,), running=running)
            for step in program.steps:
                kernel: Kernel | None = step.kernels[core]
                while kernel is not None:
                    yield core, kernel
                    kernel = kernel.lean


def listed(kernels: Iterable[tuple[Core, Kernel]]) -> dict[int, ListedThunk]:
    cores: dict[Thunk, set[Core]] = {}
    for core, kernel in kernels:
        thunk = thunk_of(kernel)[0]
        cores.setdefault(thunk, set()).add(core)
    return {thunk.id: ListedThunk(thunk, tuple(sorted(cores[thunk]))) for thunk in cores}


def of_operator(operator: Operator, count: int) -> dict[int, ListedThunk]:
    try:
        return listed(of_samples([(operator, arguments) for arguments in drawn(operator, count)]))
    except CortadoError as error:
        raise AssertionError(f"{operator.name}: {error}") from error
