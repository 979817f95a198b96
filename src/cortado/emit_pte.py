"""The lowered graph as an ExecuTorch program: edge operators, scratch of its final size, planned, serialized.

The ExportedProgram is built directly in the edge dialect, with ExecuTorch's verifier on. Scratch buffers become
`memory.alloc` nodes here, after the last retracing, with the size CMSIS-NN asks for on the target's instruction set.
"""

import copy
import io
import json
import re
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from operator import getitem
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature
from torch.fx import Node
from torch.utils import _pytree as pytree

from cortado.errors import CortadoError
from cortado.graph import constant_names, describe, fake_mode_of, output_node, outputs, shape, user_inputs
from cortado.memory import Buffer, Problem, plan, validate
from cortado.numerics import QParams
from cortado.op import Operator, operator_of, overload, registry, shaped_call
from cortado.ops.dequantize_per_tensor import DEQUANTIZE
from cortado.ops.quantize_per_tensor import QUANTIZE
from cortado.ops.reshape import VIEW
from cortado.portable import FLOAT, is_float
from cortado.portable import operands as float_operands
from cortado.pte_reader import METADATA_METHOD, IoQParams, metadata_text
from cortado.runtime_limits import RUNTIME_LIMITS
from cortado.target import CortexMTargetConfig

METHOD = "forward"
LAYOUT = "as in the model"
ALIGNMENT = 16  # of constants, segments and planned tensors: what ExecuTorch's runtime promises its kernels
ArrayType = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Pte:
    """A serialized ExecuTorch program and what is known of it."""

    data: bytes
    arena_bytes: int
    scratch_bytes: int  # the most that one call needs; they share their memory
    portable_operators: tuple[str, ...]
    metadata: Mapping[str, Any]
    limits: tuple[str, ...] = ()  # which runtimes can't run the file, and why
    etrecord: bytes | None = field(default=None, repr=False)


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
    _check_calls(edge.calls, method)
    return Pte(
        data=_serialize(finished.executorch_program),
        arena_bytes=sum(method.non_const_buffer_sizes),
        scratch_bytes=edge.scratch_bytes,
        portable_operators=tuple(sorted({name for name in _calls(method) if not name.startswith("cortex_m::")})),
        metadata=facts,
        limits=edge.limits,
        etrecord=None if before is None else _etrecord(before, finished),
    )


def _to_executorch(edge: ExportedProgram, text: str) -> Any:
    """ExecuTorch's own last steps: out variants, views without copies, memory planning, emission."""
    from executorch.exir import ExecutorchBackendConfig

    manager = _edge_manager(edge, {METADATA_METHOD: text})
    return manager.to_executorch(
        ExecutorchBackendConfig(
            memory_planning_pass=_planning_pass(),
            extract_delegate_segments=False,
        )
    )


def _edge_manager(edge: ExportedProgram, constant_methods: Mapping[str, str] | None = None) -> Any:
    """The edge program was checked by ExecuTorch's verifier when it was built: see _edge_program."""
    from executorch.exir import EdgeCompileConfig, EdgeProgramManager

    config = EdgeCompileConfig(_check_ir_validity=False)
    return EdgeProgramManager({METHOD: edge}, constant_methods=constant_methods, compile_config=config)


def _facts(program: ExportedProgram, target: CortexMTargetConfig, metadata: Mapping[str, Any]) -> dict[str, Any]:
    from cortado import __version__

    text = metadata_text(
        target=target.target_string,
        version=__version__,
        layout=LAYOUT,
        inputs=tuple(_input_qparams(node) for node in user_inputs(program)),
        outputs=tuple(_output_qparams(node) for node in outputs(program)),
    )
    return {**metadata, **json.loads(text)}


def _input_qparams(node: Node) -> IoQParams | None:
    """How an input is quantized: its own parameters, or those of the quantize behind it."""
    found = {_io(user) for user in node.users if operator_of(user.target) is QUANTIZE}
    return found.pop() if len(found) == 1 else _own_qparams(node)


def _output_qparams(node: Node) -> IoQParams | None:
    return _io(node) if operator_of(node.target) is DEQUANTIZE else _own_qparams(node)


def _io(node: Node) -> IoQParams:
    return IoQParams(float(node.kwargs["scale"]), int(node.kwargs["zero_point"]))  # type: ignore[arg-type]


def _own_qparams(node: Node) -> IoQParams | None:
    qparams = node.meta.get("qparams")
    return IoQParams(qparams.scale, qparams.zero_point) if isinstance(qparams, QParams) else None


# ---- what a .pte can't hold ----------------------------------------------------------------------------------


def c_only(program: ExportedProgram) -> list[str]:
    """The nodes that exist in the C bundle only, each with its source line and the reason."""
    refused = []
    for node in program.graph_module.graph.nodes:
        operator = operator_of(node.target) if node.op == "call_function" else None
        if operator is not None and operator.c_only is not None:
            refused.append(f"{describe(node)}: {operator.c_only}")
    return refused


UNEVEN_SCRATCH = (
    "its scratch tensors have the largest size over SCALAR, DSP and MVE: an ExecuTorch runtime built with "
    "CORTEX_M_ENABLE_RUNTIME_CHECKS compares sizes for equality and refuses this file; compile for one core to use "
    "such a runtime"
)


# ---- edge dialect --------------------------------------------------------------------------------------------


def to_edge(program: ExportedProgram, target: CortexMTargetConfig) -> "Edge":
    """A copy of the lowered program in the edge dialect, scratch allocations included."""
    builder = _EdgeBuilder(program, target)
    for node in program.graph_module.graph.nodes:
        builder.copy(node)
    limits = (*builder.limits, *([UNEVEN_SCRATCH] if builder.uneven_scratch else []))
    return Edge(_edge_program(program, builder.module), tuple(builder.calls), builder.scratch, limits)


@dataclass(frozen=True)
class Edge:
    """The program in the edge dialect, the operators it calls in order, and the most scratch one call needs."""

    program: ExportedProgram
    calls: tuple[str, ...]
    scratch_bytes: int
    limits: tuple[str, ...]


class _EdgeBuilder:
    """Copies a lowered graph node by node into edge operators."""

    def __init__(self, program: ExportedProgram, target: CortexMTargetConfig) -> None:
        from executorch.exir.dialects._ops import ops as exir_ops

        self.edge = exir_ops.edge
        self.target = target
        self.mode = fake_mode_of(program.graph_module.graph)
        self.module = torch.fx.GraphModule(torch.nn.Module(), torch.fx.Graph())
        self.new: dict[Node, Node] = {}
        self.results: dict[Node, list[Node | None]] = {}  # of float calls that give several tensors
        self.calls: list[str] = []
        self.limits: list[str] = []
        self.scratch = 0
        self.uneven_scratch = False  # some call needs other sizes on one of the target's cores than on another

    def copy(self, node: Node) -> None:
        if is_float(node):
            self._copy_float(node)
            return
        operator = operator_of(node.target) if node.op == "call_function" else None
        if operator is None:
            self.new[node] = self.module.graph.node_copy(node, lambda n: self.new[n])
            if node.op == "placeholder":
                self.new[node].target = node.name  # exir names placeholders after their target, the signature not
            return
        arguments = dict(torch.fx.node.map_arg(node.kwargs, lambda n: self.new[n]))
        add = partial(self._add, node)
        write = operator.pte
        self.new[node] = add(operator, **arguments) if write is None else write(arguments, add, self.target)
        if shape(self.new[node]) != shape(node):
            raise CortadoError(f"{describe(node)} has shape {shape(node)}, and in the .pte {shape(self.new[node])}")

    def _copy_float(self, node: Node) -> None:
        """A float call as the calls of portable kernels that ExecuTorch makes of it."""
        if node.target is getitem:
            source, index = node.args
            found = self.results[source][index]  # type: ignore[index]
            assert found is not None
            self.new[node] = found
            return
        edge = node.meta[FLOAT].edge
        inputs = [inner for inner in edge.graph.nodes if inner.op == "placeholder"]
        new = {inner: self.new[given] for inner, given in zip(inputs, float_operands(node.kwargs), strict=True)}
        several = not isinstance(node.meta["val"], torch.Tensor)
        read = {user.args[1] for user in node.users} if several else {0}
        results = [inner if number in read else None for number, inner in enumerate(outputs(edge))]
        for inner in _needed(edge.graph, [result for result in results if result is not None]):
            new[inner] = self.module.graph.node_copy(inner, lambda n: new[n])
            new[inner].meta = {**_origin(node), "val": self._fakes(inner.meta["val"])}
            if inner.target is not getitem:
                target: Any = inner.target
                self.calls.append(target._op.name().split(".")[0])
        placed = [None if result is None else new[result] for result in results]
        if several:
            self.results[node] = placed
        else:
            assert placed[0] is not None
            self.new[node] = placed[0]

    def _fakes(self, value: Any) -> Any:
        return pytree.tree_map_only(torch.Tensor, lambda one: self._fake(tuple(one.shape), one.dtype), value)

    def _add(self, like: Node, operator: Operator, /, **arguments: Any) -> Node:
        """One call: that of the lowered graph, or one of those that stand for it in a .pte."""
        shapes = shaped_call(operator, arguments)
        call = shaped_call(operator, arguments, tuple(operator.shape(shapes)))
        limit = RUNTIME_LIMITS.get(operator.name, lambda call: None)(call)
        if limit is not None:
            self.limits.append(f"{describe(like)}: {operator.name} {limit}")
        sizes = [operator.pte_scratch(call, backend) for backend in self.target.backends]
        worst = [max(column) for column in zip(*sizes, strict=True)]
        self.uneven_scratch |= len(set(sizes)) > 1
        self.scratch = max(self.scratch, sum(worst))
        scratch = {name: self._alloc(size, like) for name, size in zip(operator.scratch_names, worst, strict=True)}
        return self._call(operator, {**arguments, **scratch}, like, call.out_shape)

    def _call(self, operator: Operator, arguments: Mapping[str, Any], like: Node, sizes: tuple[int, ...]) -> Node:
        """Arguments by position, in the order of the schema; those that are not given keep their defaults."""
        overload(operator)  # registers it: an operator that only the .pte holds was in no graph so far
        packet = getattr(getattr(self.edge, operator.namespace), operator.base)
        args = tuple(arguments[name] for name in operator.argument_names)
        node = self.module.graph.call_function(getattr(packet, operator.overload_name), args)
        node.meta = {**like.meta, "val": self._fake(sizes, like.meta["val"].dtype)}
        self.calls.append(operator.name)
        return node

    def _alloc(self, size: int, like: Node) -> Node:
        """A scratch buffer of its final size; a kernel that needs none still takes the argument: 0 elements."""
        from executorch.exir.passes import make_alloc_node

        node: Node = make_alloc_node(self.module, self._fake((size,), torch.uint8), None)
        node.meta = {**_origin(like), **node.meta}
        return node

    def _fake(self, sizes: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        assert self.mode is not None
        with self.mode:
            return torch.empty(sizes, dtype=dtype)


_ORIGIN = ("stack_trace", "nn_module_stack", "source_fn_stack", "torch_fn")


def _origin(node: Node) -> dict[str, Any]:
    return {key: node.meta[key] for key in _ORIGIN if key in node.meta}


def _needed(graph: torch.fx.Graph, results: Sequence[Node]) -> list[Node]:
    """The calls that these results depend on, in order."""
    needed = set(results)
    for node in reversed(graph.nodes):
        if node in needed:
            needed.update(node.all_input_nodes)
    return [node for node in graph.nodes if node in needed and node.op == "call_function"]


class _Signature(ExportGraphSignature):
    """A signature that nobody changes any more. exir asks for this dictionary once per tensor: it is made once."""

    @cached_property
    def inputs_to_buffers(self) -> Mapping[str, str]:
        return super().inputs_to_buffers


def _edge_program(program: ExportedProgram, module: torch.fx.GraphModule) -> ExportedProgram:
    from executorch.exir.verification.verifier import EXIREdgeDialectVerifier

    signature = _Signature(
        input_specs=list(program.graph_signature.input_specs),
        output_specs=copy.deepcopy(program.graph_signature.output_specs),
    )
    returned = output_node(module.graph).args[0]
    for spec, node in zip(signature.output_specs, returned, strict=True):  # type: ignore[arg-type]
        spec.arg = type(spec.arg)(name=node.name)  # type: ignore[call-arg]
    for number, node in enumerate(module.graph.nodes, start=1):
        node.meta["debug_handle"] = number
    return ExportedProgram(
        root=module,
        graph=module.graph,
        graph_signature=signature,
        state_dict=_plain_constants(program, module),
        range_constraints={},
        module_call_graph=program.module_call_graph,
        example_inputs=program.example_inputs,
        constants=dict(program.constants),
        verifiers=[EXIREdgeDialectVerifier(class_only=True)],
    )


def _plain_constants(program: ExportedProgram, module: torch.fx.GraphModule) -> dict[str, torch.Tensor]:
    """The constants with the strides of their shapes. Around a dimension of size 1 a permuted tensor may keep odd
    strides, and the file would then say that its dimensions are in another order."""
    names, state = constant_names(program), dict(program.state_dict)
    mode = fake_mode_of(module.graph)
    for node in module.graph.nodes:
        target = names.get(node.name) if node.op == "placeholder" else None
        data = state.get(target) if target is not None else None
        if target is None or data is None or data.stride() == torch.empty(data.shape, device="meta").stride():
            continue
        state[target] = data.clone(memory_format=torch.contiguous_format)
        assert mode is not None
        node.meta["val"] = mode.from_tensor(state[target], static_shapes=True)
    return state


# ---- memory planning -----------------------------------------------------------------------------------------


def _planning_pass() -> Any:
    from executorch.exir.passes import MemoryPlanningPass

    class Planning(MemoryPlanningPass):
        def run(self, module: Any, signature: Any = None) -> Any:
            return super().run(module, _Signature(signature.input_specs, signature.output_specs))

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


# ---- the emitted program -------------------------------------------------------------------------------------


def share_values(method: Any) -> None:
    """Equal numbers, equal lists of numbers, and scratch of one size at one place become one value of the method.

    exir writes a new value for every argument. A number costs the file about 36 bytes and the runtime 16 bytes of RAM,
    a tensor about three times as much.
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
        if isinstance(value.val, IntList | TensorList | OptionalTensorList):  # of values that come before it
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
    """The values each instruction works on; the last is its result."""
    return [instruction.instr_args.args for chain in method.chains for instruction in chain.instructions]


def _value_key(value: Any) -> Any:
    """What makes two values the same; None for those that stay apart."""
    from executorch.exir.schema import Bool, Double, Int, IntList, Null, Tensor

    match value:
        case Int():
            return Int, value.int_val
        case Bool():
            return Bool, value.bool_val
        case Double():
            return Double, str(value.double_val)  # 0.0 and -0.0 are not the same
        case IntList():
            return IntList, tuple(value.items)
        case Null():
            return Null
        case Tensor() if value.allocation_info is not None:
            return Tensor, repr(value)
    return None


def _calls(method: Any) -> list[str]:
    """The names of the kernels that the method calls, in order."""
    names = [f"{op.name}.{op.overload}" if op.overload else op.name for op in method.operators]
    return [names[instruction.instr_args.op_index] for chain in method.chains for instruction in chain.instructions]


def _check_calls(calls: Sequence[str], method: Any) -> None:
    """Every call is there under its own name, and nothing else is; a view may have become nothing."""
    views = (VIEW.name, "executorch_prim::et_view")
    wanted = [name for name in calls if name not in views]
    found = [name.split(".")[0] for name in _calls(method)]
    found = [name for name in found if name not in views]
    if wanted != found:
        raise CortadoError(
            f"ExecuTorch changed the calls of the program: found {', '.join(found)}, expected {', '.join(wanted)}. "
            "Cortado needs executorch 1.5.1; if that is what is installed, this is a bug of Cortado."
        )


def _serialize(program: Any) -> bytes:
    from executorch.exir._serialize._program import PTEFile, serialize_pte_binary

    return bytes(
        serialize_pte_binary(PTEFile(program=program), segment_alignment=ALIGNMENT, constant_tensor_alignment=ALIGNMENT)
    )


# ---- for ExecuTorch's developer tools ------------------------------------------------------------------------


def register_operators() -> None:
    """Makes torch know every operator. A process has to call it before it reads an ETRecord, as Inspector does."""
    for operator in registry().operators.values():
        overload(operator)


def _etrecord(edge: ExportedProgram, finished: Any) -> bytes:
    """The edge graph and which of its nodes each instruction came from."""
    from executorch.devtools import generate_etrecord

    stream = io.BytesIO()
    generate_etrecord(stream, _edge_manager(edge), finished)
    return _normalized(stream.getvalue())


# Where a graph lay in memory; within one file, too, the same place may have held two graphs.
_GRAPH_ID = re.compile(rb'(\\*"graph_id\\*": )\d+')


def _normalized(archive: bytes) -> bytes:
    """The same archive with all files from 1980 and no addresses in them: the same model gives the same bytes."""
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as new:
        for name in sorted(old.namelist()):
            new.writestr(zipfile.ZipInfo(name), _GRAPH_ID.sub(rb"\g<1>0", old.read(name)))
    return stream.getvalue()


def bundle_pte(data: bytes, samples: Sequence[Sequence[ArrayType]], expected: Sequence[Sequence[ArrayType]]) -> bytes:
    """A .bpte: the program with inputs and the outputs it must give, for ExecuTorch's runners to check on a device."""
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
