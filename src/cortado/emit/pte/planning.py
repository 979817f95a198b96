"""ExecuTorch's memory planning, done by Cortado's planner."""

from typing import Any

from cortado.emit.pte.edge import Signature
from cortado.memory.planner import plan
from cortado.memory.problem import Buffer, Problem
from cortado.memory.validate import validate

ALIGNMENT = 16  # of constants, segments and planned tensors: what ExecuTorch's runtime promises its kernels


def planning_pass() -> Any:
    from executorch.exir.passes import MemoryPlanningPass

    class Planning(MemoryPlanningPass):
        def run(self, module: Any, signature: Any = None) -> Any:
            return super().run(module, Signature(signature.input_specs, signature.output_specs))

    return Planning(memory_planning_algo=plan_specs, alignment=ALIGNMENT)


def plan_specs(alignment: int, specs: Any, module: Any, signature: Any, extra_padding: int) -> list[int]:
    """Our planner behind exir's interface: sets each spec's place and returns the sizes of [constants, arena]."""
    ordered = list(specs)
    buffers = [
        Buffer(
            name=str(number),
            size=spec.allocated_memory + extra_padding,
            start=(spec.lifetime[0], 0),
            end=(spec.lifetime[1] + 1, 0),
            align=alignment,
        )
        for number, spec in enumerate(ordered)
    ]
    problem = Problem(tuple(buffers))
    result = plan(problem)
    validate(problem, result)
    for number, spec in enumerate(ordered):
        spec.mem_id, spec.mem_obj_id, spec.mem_offset = 1, number, result.offsets[str(number)]
    return [0, result.peak]
