"""The emitted program: equal values are stored once, and no unexpected kernel is called.

Also ExecuTorch's memory planning, done by Cortado's planner.
"""

from collections.abc import Sequence
from typing import Any

from cortado.base.errors import CortadoError
from cortado.emit.pte.edge import Signature
from cortado.memory.planner import plan
from cortado.memory.problem import Buffer, Problem
from cortado.memory.validate import validate
from cortado.ops.move.reshape import VIEW

# ---- planning --------------------------------------------------------------------------------------------

ALIGNMENT = 16  # of constants, segments and planned tensors, as ExecuTorch's runtime guarantees its kernels


def planning_pass() -> Any:
    from executorch.exir.passes import MemoryPlanningPass

    class Planning(MemoryPlanningPass):
        def run(self, module: Any, signature: Any = None) -> Any:
            return super().run(module, Signature(signature.input_specs, signature.output_specs))

    return Planning(memory_planning_algo=plan_specs, alignment=ALIGNMENT)


def plan_specs(alignment: int, specs: Any, module: Any, signature: Any, extra_padding: int) -> list[int]:
    """Plans memory behind exir's interface: sets each spec's place and returns the sizes of [constants, arena]."""
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


# ---- values ----------------------------------------------------------------------------------------------


def share_values(method: Any) -> None:
    """Deduplicates a method's values: equal numbers, equal lists, and scratch buffers of one size at one place.

    exir emits a new value for every argument. A number costs the file about 36 bytes and the runtime 16 bytes of RAM, a
    tensor about three times as much.
    """
    from executorch.exir.schema import IntList, OptionalTensorList, TensorList

    listed = [value.val.items for value in method.values if isinstance(value.val, TensorList | OptionalTensorList)]
    results = {
        *method.inputs,
        *(args[-1] for args in _arguments(method)),
        *(item for items in listed for item in items),
    }
    new: list[int] = []
    kept: list[Any] = []
    seen: dict[Any, int] = {}
    for number, value in enumerate(method.values):
        if isinstance(value.val, IntList | TensorList | OptionalTensorList):  # its items are values that precede it
            value.val.items = [new[item] if item >= 0 else item for item in value.val.items]
        key = None if number in results else _value_key(value.val)
        place = seen.setdefault(key, len(kept)) if key is not None else len(kept)
        if place == len(kept):
            kept.append(value)
        new.append(place)
    method.values = kept
    method.inputs = [new[index] for index in method.inputs]
    method.outputs = [new[index] for index in method.outputs]
    for args in _arguments(method):
        args[:] = [new[index] for index in args]


def _arguments(method: Any) -> list[list[int]]:
    """Returns the values of each instruction, its result last."""
    return [instruction.instr_args.args for chain in method.chains for instruction in chain.instructions]


def _value_key(value: Any) -> Any:
    """Returns the key under which equal values are merged; None for those that stay apart."""
    from executorch.exir.schema import Bool, Double, Int, IntList, Null, Tensor

    match value:
        case Int():
            return Int, value.int_val
        case Bool():
            return Bool, value.bool_val
        case Double():
            return Double, str(value.double_val)  # 0.0 and -0.0 are different
        case IntList():
            return IntList, tuple(value.items)
        case Null():
            return Null
        case Tensor() if value.allocation_info is not None:
            return Tensor, repr(value)
    return None


def calls_of(method: Any) -> list[str]:
    """Returns the names of the kernels that the method calls, in order."""
    names = [f"{op.name}.{op.overload}" if op.overload else op.name for op in method.operators]
    return [names[instruction.instr_args.op_index] for chain in method.chains for instruction in chain.instructions]


def check_calls(calls: Sequence[str], method: Any) -> None:
    """Checks that every call has kept its name and that no others exist; a view may have been removed."""
    views = (VIEW.name, "executorch_prim::et_view")
    wanted = [name for name in calls if name not in views]
    found = [name.split(".")[0] for name in calls_of(method)]
    found = [name for name in found if name not in views]
    if wanted != found:
        raise CortadoError(
            f"ExecuTorch changed the calls of the program: found {', '.join(found)}, expected {', '.join(wanted)}. "
            "Cortado needs executorch 1.5.1; if that is what is installed, this is a bug of Cortado."
        )


def serialize(program: Any, initial: Any = None) -> bytes:
    """Serializes a program; `initial` are the buffers' values, which the runtime copies when it loads a method."""
    from executorch.exir._serialize._program import PTEFile, serialize_pte_binary

    file = PTEFile(program=program, mutable_data=initial)
    return bytes(serialize_pte_binary(file, segment_alignment=ALIGNMENT, constant_tensor_alignment=ALIGNMENT))
