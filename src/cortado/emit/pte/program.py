"""The ExecuTorch program: from a lowered program to the bytes of a .pte.

Also ETRecord and bundled programs, for ExecuTorch's developer tools.
"""

import copy
import io
import json
import re
import tempfile
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram
from torch.fx import Node

from cortado.base.arrays import ArrayType
from cortado.base.errors import NO_FLOAT_KERNEL, CortadoError
from cortado.base.target import CortexMTargetConfig
from cortado.emit.pte.edge import METHOD, edge_manager, state_inputs, to_edge
from cortado.emit.pte.values import calls_of, check_calls, planning_pass, serialize, share_values
from cortado.ir import op
from cortado.ir.facts import NOT_ATEN, qparams
from cortado.ir.graph import describe, outputs, user_inputs
from cortado.ir.op import dequantizes, quantizes, registry
from cortado.ir.patched import not_serialized
from cortado.ir.schemas import overload
from cortado.pte.info import METADATA_METHOD, IoQParams, metadata_text

# ---- tools -----------------------------------------------------------------------------------------------


def register_operators() -> None:
    """Registers every operator with torch. A process must call it before it reads an ETRecord, as Inspector does."""
    for operator in registry().operators.values():
        overload(operator)


def make_etrecord(edge: ExportedProgram, finished: Any) -> bytes:
    """Returns the edge graph, and the node that each instruction came from."""
    from executorch.devtools import generate_etrecord

    stream = io.BytesIO()
    generate_etrecord(stream, edge_manager({METHOD: edge}), finished)
    return _normalized(stream.getvalue())


# The address of a graph object; within one file, two graphs may have had the same one.
_GRAPH_ID = re.compile(rb'(\\*"graph_id\\*": )\d+')


def _normalized(archive: bytes) -> bytes:
    """Removes addresses and timestamps from the archive: the same model gives the same bytes."""
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as new:
        for name in sorted(old.namelist()):
            new.writestr(zipfile.ZipInfo(name), _GRAPH_ID.sub(rb"\g<1>0", old.read(name)))
    return stream.getvalue()


def bundle_pte(data: bytes, samples: Sequence[Sequence[ArrayType]], expected: Sequence[Sequence[ArrayType]]) -> bytes:
    """Returns a .bpte: the program with inputs and expected outputs, for ExecuTorch's runners to check on a device."""
    from executorch.devtools import BundledProgram
    from executorch.devtools.bundled_program.config import MethodTestCase, MethodTestSuite
    from executorch.devtools.bundled_program.serialize import serialize_from_bundled_program_to_flatbuffer

    def tensors(arrays: Sequence[ArrayType]) -> list[torch.Tensor]:
        return [torch.from_numpy(np.array(array, order="C")) for array in arrays]

    cases = [
        MethodTestCase(inputs=tensors(given), expected_outputs=tensors(wanted))
        for given, wanted in zip(samples, expected, strict=True)
    ]
    with tempfile.TemporaryDirectory(prefix="cortado-") as folder:
        path = Path(folder) / "model.pte"
        path.write_bytes(data)
        bundled = BundledProgram(None, [MethodTestSuite(METHOD, cases)], str(path))
        return bytes(serialize_from_bundled_program_to_flatbuffer(bundled))


# ---- program ---------------------------------------------------------------------------------------------

MOST_TOLD = 3  # kinds of calls that are reported with their source lines
LAYOUT = "as in the model"


@dataclass(frozen=True)
class Pte:
    """A serialized ExecuTorch program and facts about it."""

    data: bytes
    arena_bytes: int
    scratch_bytes: int  # the most that one call needs; calls share this memory
    portable_operators: tuple[str, ...]
    metadata: Mapping[str, Any]
    limits: tuple[str, ...] = ()  # which runtimes can't run the file, and why
    etrecord: bytes | None = field(default=None, repr=False)
    is_delegate: bool = False


def emit_pte(
    program: ExportedProgram, target: CortexMTargetConfig, metadata: Mapping[str, Any], *, etrecord: bool = False
) -> Pte:
    """Serializes a lowered program. The file holds one JSON text: `metadata`, target, version, layout, I/O qparams.

    With `etrecord`, the result also holds the ETRecord that ExecuTorch's Inspector reads.
    """
    refused = c_only(program)
    if refused:
        raise CortadoError("can't be a .pte:\n  " + "\n  ".join(refused))
    edge = to_edge(program, target)
    before = copy.deepcopy(edge.program) if etrecord else None
    facts = _facts(program, target, metadata)
    finished = _to_executorch(edge.program, json.dumps(facts, separators=(",", ":")))
    method = finished.executorch_program.execution_plan[0]
    share_values(method)
    check_calls(edge.calls, method)
    return Pte(
        data=serialize(finished.executorch_program, finished._emitter_output.mutable_data),
        arena_bytes=sum(method.non_const_buffer_sizes),
        scratch_bytes=edge.scratch_bytes,
        portable_operators=tuple(sorted({name for name in calls_of(method) if not name.startswith("cortex_m::")})),
        metadata=facts,
        limits=edge.limits,
        etrecord=None if before is None else make_etrecord(before, finished),
    )


def _to_executorch(edge: ExportedProgram, text: str) -> Any:
    """Runs ExecuTorch's own last steps: out variants, views without copies, memory planning, emission."""
    from executorch.exir import ExecutorchBackendConfig

    manager = edge_manager({METHOD: edge}, {METADATA_METHOD: text})
    with warnings.catch_warnings(), not_serialized():
        # It warns about every mutable buffer, whether or not its initial values go into the file.
        warnings.filterwarnings("ignore", message="Mutation on a buffer in the model is detected")
        return manager.to_executorch(
            ExecutorchBackendConfig(
                memory_planning_pass=planning_pass(),
                extract_delegate_segments=False,
            )
        )


def _facts(program: ExportedProgram, target: CortexMTargetConfig, metadata: Mapping[str, Any]) -> dict[str, Any]:
    from cortado import __version__

    state = state_inputs(program)
    given = len(outputs(program)) - len(state)
    text = metadata_text(
        target=target.target_string,
        version=__version__,
        layout=LAYOUT,
        inputs=tuple(_input_qparams(node) for node in user_inputs(program) if node not in state),
        outputs=tuple(_output_qparams(node) for node in outputs(program)[:given]),
    )
    return {**metadata, **json.loads(text)}


def _input_qparams(node: Node) -> IoQParams | None:
    """Returns an input's quantization: its own parameters, or those of the quantize operator that reads it."""
    found = {_io(user) for user in node.users if quantizes(user)}
    return found.pop() if len(found) == 1 else _own_qparams(node)


def _output_qparams(node: Node) -> IoQParams | None:
    return _io(node) if dequantizes(node) else _own_qparams(node)


def _io(node: Node) -> IoQParams:
    return IoQParams(float(node.kwargs["scale"]), int(node.kwargs["zero_point"]))  # type: ignore[arg-type]


def _own_qparams(node: Node) -> IoQParams | None:
    own = qparams(node)
    return None if own is None else IoQParams(own.scale, own.zero_point)


def c_only_reason(node: Node) -> str | None:
    """Explains why a .pte can't hold a node; None if it can."""
    return op.c_only(node) if node.op == "call_function" else None


def c_only(program: ExportedProgram) -> list[str]:
    """Reports the calls that exist in the C bundle only, and why: one line per kind with the source line of the first
    call, and at the end the names of further operators."""
    alike: dict[str, list[Node]] = {}
    for node in program.graph_module.graph.nodes:
        reason = c_only_reason(node)
        if reason is not None:
            ending = f", and {NO_FLOAT_KERNEL}" if NOT_ATEN.known(node) else ""
            alike.setdefault(reason + ending, []).append(node)
    kinds = list(alike.items())
    told = [f"{describe(nodes[0])}{_others(len(nodes) - 1)}: {reason}" for reason, nodes in kinds[:MOST_TOLD]]
    further = kinds[MOST_TOLD:]
    names = sorted({_operator_name(nodes[0]) for _, nodes in further})
    some = f"; of some, {NO_FLOAT_KERNEL}" if any(NO_FLOAT_KERNEL in reason for reason, _ in further) else ""
    return [*told, f"so do calls of {', '.join(names)}{some}"] if names else told


def _others(count: int) -> str:
    return f", and {count} other call{'s' if count > 1 else ''}" if count else ""


def _operator_name(node: Node) -> str:
    operator = op.operator_of(node.target)
    return str(node.target) if operator is None else operator.name
