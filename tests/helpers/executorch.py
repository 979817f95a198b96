"""Operator calls and networks as .pte files, and calls as bytes for the program that makes wrong ones of them."""

import copy
import json
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cortado.base.element import INT8
from cortado.base.target import Isa, from_target_string
from cortado.emit.pte.program import Pte, emit_pte
from cortado.ir.op import Operator, registry
from cortado.plan.lowered import LoweredGraph, lowered_graph
from cortado.run import toolchain
from cortado.run.executorch_host import HOST_FLAGS, DelegateKernels, include_dirs, run_pte, wheel
from helpers import cases
from helpers.networks import lowered
from helpers.operator_cases import cases_of

ANY, SCALAR, DSP, MVE = "cortex-m", "cortex-m0plus", "cortex-m4", "cortex-m55"
IN_PTE = [op for op in registry().operators.values() if op.kernel is not None and op.in_pte]
# A stack too small for any layer that pads: everything has to come from scratch or from a temp allocator. Compiling
# takes longer than the runs do.
SANITIZED = (
    "-O0",
    "-g1",
    "-fsanitize=address,undefined",
    "-fno-sanitize=vptr,signed-integer-overflow,shift",
    "-fno-sanitize-recover=undefined",
    "-UCORTADO_ET_STACK_BYTES",
    "-DCORTADO_ET_STACK_BYTES=32",
)
Arrays = list[np.ndarray[Any, Any]]


def in_int8(operator: Operator, arguments: Mapping[str, Any]) -> bool:
    """Whether a .pte may hold a call: ExecuTorch's operators take int8 alone."""
    given = [arguments[name] for name in operator.tensors]
    tensors = [item for value in given for item in (value if isinstance(value, list | tuple) else [value])]
    kinds = {tensor.dtype for tensor in tensors if isinstance(tensor, torch.Tensor)}
    return kinds <= {torch.int8, torch.float32} and arguments.get("quant_max", INT8.high) <= INT8.high


def draw(operator: Operator, count: int) -> list[dict[str, Any]]:
    """So many of an operator's samples, always the same. (hypothesis begins with the simplest: that one is not it.)"""
    batches: list[list[dict[str, Any]]] = []
    samples = cases_of(operator).filter(lambda arguments: in_int8(operator, arguments))
    size = min(count, 12)  # of a longer list hypothesis may draw none but the simplest

    @settings(max_examples=2 + -(-count // size))
    @given(batch=st.lists(samples, min_size=size, max_size=size))
    def take(batch: list[dict[str, Any]]) -> None:
        batches.append(batch)

    take()
    drawn = [arguments for batch in batches[1:] for arguments in batch][-count:]
    # A pool whose last window is cut off by ceil_mode; without ceil_mode the compiler never makes this operator.
    clipped = operator.name == "cortado::max_pool2d_nhwc"
    return copy.deepcopy([arguments for arguments in drawn if not clipped or arguments["ceil_mode"]])


def draw_legal(operator: Operator, count: int, target: str) -> list[dict[str, Any]]:
    """Those that the compiler makes for a target: what Arm's kernels can't do is lowered in another way."""
    rare = operator.base == "quantized_transpose_conv2d_nhwc"  # zero taps make most of them legal, in lowering
    drawn = draw(operator, 60 * count if rare else count)
    found = [arguments for arguments in drawn if is_legal(operator, arguments, target)]
    assert len(found) >= count // 4
    return found


def is_legal(operator: Operator, arguments: Mapping[str, Any], target: str) -> bool:
    if operator.base == "quantized_linear" and Isa.MVE in from_target_string(target).isas:
        return arguments["kernel_sum"] is not None
    rewritten = operator.base in ("transpose", "pad", "quantized_add", "quantized_mul")
    return rewritten or operator.pte_limit(cases.shaped(operator, arguments)) is None


def by_name(name: str) -> Operator:
    return registry().operators[name]


def emit_cases(work: Sequence[cases.Case], target: str = ANY) -> tuple[Pte, Arrays]:
    """A .pte that makes every call once, and its inputs."""
    program, inputs = cases.lowered_program(work)
    return emit_pte(program, from_target_string(target), {}), [tensor.numpy() for tensor in inputs]


def check_cases(work: Sequence[cases.Case], target: str, flags: Sequence[str] = ()) -> None:
    pte, inputs = emit_cases(work, target)
    found = run_pte(pte.data, [inputs], flags=flags, imitate=False)[0]
    for got, want, (operator, arguments) in zip(found, cases.references(work), work, strict=True):
        assert got.dtype == want.numpy().dtype
        np.testing.assert_array_equal(got, want.numpy(), err_msg=f"{operator.name} {arguments}")


@cache
def emitted(name: str, target: str) -> tuple[Pte, LoweredGraph]:
    program = lowered(name, target)
    return emit_pte(program, from_target_string(target), {"model": name}), lowered_graph(program)


# ExecuTorch's codes.
TYPE_CODES = {torch.uint8: 0, torch.int8: 1, torch.int32: 3, torch.int64: 4, torch.float32: 6}
NONE, INTEGER, REAL, BOOLEAN, LIST, TENSOR = range(6)
Order = Sequence[int]


def packed(code: str, values: Sequence[Any]) -> bytes:
    return struct.pack(f"<I{len(values)}{code}", len(values), *values)


def _tensor(tensor: torch.Tensor, order: Order | None = None) -> bytes:
    """A tensor argument. With `order`, the sizes are named in another order than they are stored."""
    stored = tuple(range(tensor.dim())) if order is None else tuple(order)
    sizes = [0] * tensor.dim()
    for size, dim in zip(tensor.shape, stored, strict=True):
        sizes[dim] = size
    data = tensor.contiguous().numpy().tobytes()
    return (
        struct.pack("<BB", TENSOR, TYPE_CODES[tensor.dtype])
        + packed("i", sizes)
        + packed("B", stored)
        + (struct.pack("<I", len(data)) + data)
    )


def _argument(value: Any) -> bytes:
    match value:
        case None:
            return struct.pack("<B", NONE)
        case bool():
            return struct.pack("<Bq", BOOLEAN, value)
        case int():
            return struct.pack("<Bq", INTEGER, value)
        case float():
            return struct.pack("<Bd", REAL, value)
        case torch.dtype():
            return struct.pack("<Bq", INTEGER, TYPE_CODES[value])
        case torch.Tensor():
            return _tensor(value)
    return struct.pack("<B", LIST) + packed("q", value)


def call_bytes(
    operator: Operator, arguments: Mapping[str, Any], *, twin: bool = False, target: str = MVE, more: int = 0
) -> bytes:
    """A call with its exact result, and so much more scratch than the target needs.

    `twin`: of the operator whose images are named NCHW and stored NHWC.
    """
    order = (0, 2, 3, 1) if twin else None
    result = operator.reference(**arguments)
    scratch: dict[str, int] = {}
    if operator.scratch:
        call = replace(cases.shaped(operator, arguments), out_shape=tuple(result.shape))
        sizes = [operator.pte_scratch(call, backend) for backend in from_target_string(target).backends]
        worst = [max(column) + more for column in zip(*sizes, strict=True)]
        scratch = dict(zip(operator.scratch, worst, strict=True))
    parts = []
    for name in operator.argument_names:
        if name in scratch:
            parts.append(_tensor(torch.zeros(scratch[name], dtype=torch.uint8)))
        elif name in operator.tensors:
            parts.append(_tensor(arguments[name], order))
        else:
            parts.append(_argument(arguments[name]))
    written = f"cortex_m::{operator.base.removesuffix('_nhwc') if twin else operator.base}.out".encode()
    parts.append(_tensor(result, order))
    return packed("c", [bytes([byte]) for byte in written]) + struct.pack("<I", len(parts)) + b"".join(parts)


# ---- ExecuTorch's Inspector ----------------------------------------------------------------------------------------

_PROFILED = """
import ctypes, json, os, sys
import torch
from executorch.devtools import Inspector
from executorch.extension.pybindings import portable_lib
folder, library, *record = sys.argv[1:]
assert ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL).cortado_delegate_registered()
module = portable_lib._load_for_executorch(f"{folder}/model.pte", enable_etdump=True)
for _ in range(3):
    module.forward([torch.load(f"{folder}/input.pt")])
module.write_etdump_result_to_file(f"{folder}/model.etdump")
blocks = Inspector(etdump_path=f"{folder}/model.etdump", etrecord=record[0] if record else None).event_blocks
events = [event for block in blocks for event in block.events if event.is_delegated_op]
stacks = [[list(stack.values()) for stack in (event.module_hierarchy or {}).values()] for event in events]
modules = [sorted({stack[-1][0] for stack in found if stack}) for found in stacks]
print(json.dumps([[e.name, sum(e.perf_data.raw), m] for e, m in zip(events, modules, strict=True)]))
sys.stdout.flush()
os._exit(0)  # what the libraries do at the end of a process is not waited for
"""


@dataclass(frozen=True)
class DelegatedEvent:
    """A row of Inspector for a delegate's step; `modules` with an ETRecord alone."""

    name: str
    ticks: float
    modules: list[str]


def delegated_events(
    folder: Path, kernels: DelegateKernels, x: torch.Tensor, record: Path | None = None
) -> list[DelegatedEvent]:
    """Runs `model.pte` of a folder three times on the real runtime, with a delegate that measures its steps."""
    torch.save(x, folder / "input.pt")
    library = _profiling_delegate(folder, kernels)
    given = [str(one) for one in (folder, library, record) if one is not None]
    command = [sys.executable, "-W", "ignore", "-c", _PROFILED, *given]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)
    assert done.returncode == 0, done.stderr
    return [DelegatedEvent(*event) for event in json.loads(done.stdout.splitlines()[-1])]


def _profiling_delegate(folder: Path, kernels: DelegateKernels) -> Path:
    """Builds a shared library that registers CortadoBackend when it is loaded, with a time for each layer."""
    found = wheel()
    flags = [*HOST_FLAGS, *found.compile_flags, "-DCORTADO_PROFILE"]
    return toolchain.compile_shared(kernels.files(folder), include_dirs(), flags, "cortado_delegate", found.link_flags)
