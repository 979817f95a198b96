"""The lowered graph in ExecuTorch's edge dialect, with scratch buffers sized as for CMSIS-NN."""

import copy
import importlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import getitem
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.exported_program import ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.fx import Node
from torch.utils import _pytree as pytree

from cortado.base.errors import CortadoError
from cortado.base.target import CortexMTargetConfig
from cortado.ir.facts import (
    DEBUG_HANDLE,
    INITIALIZED,
    MODULE_STACK,
    SOURCE_FN,
    STACK_TRACE,
    STATE,
    TORCH_FN,
    VALUE,
    dtype,
)
from cortado.ir.graph import constant_names, describe, fake_mode_of, output_node, outputs, shape, user_inputs
from cortado.ir.op import Operator, operator_of, shaped_call
from cortado.ir.patched import yaml_in_c
from cortado.ir.portable import FLOAT, stays_in_float
from cortado.ir.portable import operands as float_operands
from cortado.ir.schemas import overload
from cortado.ops.move.reshape import VIEW
from cortado.ops.move.slice import SLICE
from cortado.passes.clean_up import fingerprint

METHOD = "forward"
WRITE_BACK = "aten::copy_"  # added by ExecuTorch for each mutable buffer


UNEVEN_SCRATCH = (
    "its scratch tensors have the largest size over SCALAR, DSP and MVE: an ExecuTorch runtime built with "
    "CORTEX_M_ENABLE_RUNTIME_CHECKS compares sizes for equality and refuses this file; compile for one core to use "
    "such a runtime"
)


def import_executorch(target: CortexMTargetConfig) -> None:
    """Imports the modules that make a .pte; this takes seconds, so it is deferred until needed."""
    if "executorch.exir" not in sys.modules:
        with yaml_in_c():
            importlib.import_module("executorch.exir")
    assert target.backends  # known to the binding of CMSIS-NN


def to_edge(program: ExportedProgram, target: CortexMTargetConfig) -> "EdgeProgram":
    """Copies the lowered program to the edge dialect, including scratch allocations."""
    builder = _EdgeBuilder(program, target)
    for node in program.graph_module.graph.nodes:
        builder.copy(node)
    limits = (*builder.limits, *([UNEVEN_SCRATCH] if builder.uneven_scratch else []))
    builder.calls += [WRITE_BACK] * len(state_inputs(program))
    edge = _edge_program(program, builder.module, builder.constants)
    return EdgeProgram(edge, tuple(builder.calls), builder.scratch, limits)


@dataclass(frozen=True)
class EdgeProgram:
    """The program in the edge dialect, the operators it calls in order, and the most scratch that a call needs."""

    program: ExportedProgram
    calls: tuple[str, ...]
    scratch_bytes: int
    limits: tuple[str, ...]


@dataclass(frozen=True)
class _Writer:
    """A writer of the calls that represent one node in the .pte; see op.PteWriter."""

    builder: "_EdgeBuilder"
    like: Node

    def __call__(self, operator: Operator, /, **arguments: Any) -> Node:
        return self.builder.add(self.like, operator, **arguments)

    def constant(self, name: str, data: torch.Tensor) -> Node:
        return self.builder.constant(f"{self.like.name}_{name}", data)


class _EdgeBuilder:
    """A builder that copies a lowered graph node by node into edge operators."""

    def __init__(self, program: ExportedProgram, target: CortexMTargetConfig) -> None:
        from executorch.exir.dialects._ops import ops as exir_ops

        self.edge = exir_ops.edge
        self.target = target
        self.taken = set(program.state_dict)  # names of constants
        self.constants: dict[str, torch.Tensor] = {}  # those that only the .pte has
        self._known: dict[Any, Node] = {}  # the same, keyed by their data
        self.mode = fake_mode_of(program.graph_module.graph)
        self.module = torch.fx.GraphModule(torch.nn.Module(), torch.fx.Graph())
        self.new: dict[Node, Node] = {}
        self.results: dict[Node, list[Node | None]] = {}  # the results of float calls that return several tensors
        self.calls: list[str] = []
        self.limits: list[str] = []
        self.scratch = 0
        self.uneven_scratch = False  # whether some call's scratch sizes differ between the target's cores

    def copy(self, node: Node) -> None:
        if stays_in_float(node):
            self._copy_float(node)
            return
        if node.op == "output":
            self._own_state(node)
        operator = operator_of(node.target) if node.op == "call_function" else None
        if operator is None:
            self.new[node] = self.module.graph.node_copy(node, lambda n: self.new[n])
            if node.op == "placeholder":
                self.new[node].target = node.name  # exir names placeholders after their target, the signature does not
            return
        arguments = dict(torch.fx.node.map_arg(node.kwargs, lambda n: self.new[n]))
        add = _Writer(self, node)
        write = operator.pte
        self.new[node] = add(operator, **arguments) if write is None else write(arguments, add, self.target)
        if shape(self.new[node]) != shape(node):
            raise CortadoError(f"{describe(node)} has shape {shape(node)}, and in the .pte {shape(self.new[node])}")

    def _own_state(self, output: Node) -> None:
        """Copies a state value that aliases another state buffer: that buffer may be overwritten first."""
        returned: Any = output.args[0]
        state = [node for node in output.graph.nodes if node.op == "placeholder" and STATE.known(node)]
        for result in returned[len(returned) - len(state) :]:
            source = result
            while source.op == "call_function" and operator_of(source.target) is VIEW:
                source = source.all_input_nodes[0]
            if source in state:
                sizes = shape(result) or (1,)
                flat = self.add(result, VIEW, self=self.new[result], size=list(sizes))
                whole = self.add(result, SLICE, self=flat, dim=0, start=0, end=sizes[0], step=1)
                self.new[result] = self.add(result, VIEW, self=whole, size=list(shape(result)))

    def _copy_float(self, node: Node) -> None:
        """Copies a float call as the portable kernel calls that ExecuTorch decomposes it into."""
        if node.target is getitem:
            source, index = node.args
            found = self.results[source][index]  # type: ignore[index]
            assert found is not None
            self.new[node] = found
            return
        edge = FLOAT.must(node).edge
        inputs = [inner for inner in edge.graph.nodes if inner.op == "placeholder"]
        new = {inner: self.new[given] for inner, given in zip(inputs, float_operands(node.kwargs), strict=True)}
        several = not isinstance(VALUE.must(node), torch.Tensor)
        read = {user.args[1] for user in node.users} if several else {0}
        results = [inner if number in read else None for number, inner in enumerate(outputs(edge))]
        for inner in _needed(edge.graph, [result for result in results if result is not None]):
            new[inner] = self.module.graph.node_copy(inner, lambda n: new[n])
            new[inner].meta = _origin(node)
            VALUE.note(new[inner], self._fakes(VALUE.must(inner)))
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

    def constant(self, name: str, data: torch.Tensor) -> Node:
        """Adds a constant that only the .pte has, deduplicated by its data."""
        key = fingerprint(data)
        if key not in self._known:
            graph = self.module.graph
            while name in self.taken:
                name = f"{name}_"
            with graph.inserting_before(next(iter(graph.nodes))):
                node = graph.placeholder(name)
            node.target = node.name
            VALUE.note(node, self._fake(tuple(data.shape), data.dtype))
            self.constants[node.name], self._known[key] = data, node
        return self._known[key]

    def add(self, like: Node, operator: Operator, /, **arguments: Any) -> Node:
        """Adds one call: the lowered graph's, or one of those that replace it in a .pte."""
        shapes = shaped_call(operator, arguments)
        call = shaped_call(operator, arguments, tuple(operator.shape(shapes)))
        limit = operator.pte_limit(call)
        if limit is not None:
            self.limits.append(f"{describe(like)}: {operator.name} {limit}")
        sizes = [operator.pte_scratch(call, backend) for backend in self.target.backends]
        worst = [max(column) for column in zip(*sizes, strict=True)]
        self.uneven_scratch |= len(set(sizes)) > 1
        self.scratch = max(self.scratch, sum(worst))
        scratch = {name: self._alloc(size, like) for name, size in zip(operator.scratch, worst, strict=True)}
        return self._call(operator, {**arguments, **scratch}, like, call.out_shape)

    def _call(self, operator: Operator, arguments: Mapping[str, Any], like: Node, sizes: tuple[int, ...]) -> Node:
        """Adds a call with positional arguments in schema order; omitted ones keep their defaults."""
        overload(operator)  # registers the operator, which may not have occurred in any graph so far
        packet = getattr(getattr(self.edge, operator.namespace), operator.base)
        args = tuple(arguments[name] for name in operator.argument_names)
        node = self.module.graph.call_function(getattr(packet, operator.overload_name), args)
        node.meta = dict(like.meta)
        VALUE.note(node, self._fake(sizes, dtype(like)))
        self.calls.append(operator.name)
        return node

    def _alloc(self, size: int, like: Node) -> Node:
        """Allocates a scratch buffer of its final size; a kernel without scratch still takes one of 0 elements."""
        from executorch.exir.passes import make_alloc_node

        node: Node = make_alloc_node(self.module, self._fake((size,), torch.uint8), None)
        node.meta = {**_origin(like), **node.meta}
        return node

    def _fake(self, sizes: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        assert self.mode is not None
        with self.mode:
            return torch.empty(sizes, dtype=dtype)


_ORIGIN = (STACK_TRACE, MODULE_STACK, SOURCE_FN, TORCH_FN)


def _origin(node: Node) -> dict[str, Any]:
    return {fact.key: fact.of(node) for fact in _ORIGIN if fact.known(node)}


def _needed(graph: torch.fx.Graph, results: Sequence[Node]) -> list[Node]:
    """Returns the calls that these results depend on, in order."""
    needed = set(results)
    for node in reversed(graph.nodes):
        if node in needed:
            needed.update(node.all_input_nodes)
    return [node for node in graph.nodes if node in needed and node.op == "call_function"]


class Signature(ExportGraphSignature):
    """An immutable signature: exir asks for this dictionary once per tensor, so it is cached."""

    @cached_property
    def inputs_to_buffers(self) -> Mapping[str, str]:
        return super().inputs_to_buffers


def state_inputs(program: ExportedProgram) -> list[Node]:
    """Returns the inputs that represent state; their new values are the last outputs, in the same order."""
    return [node for node in user_inputs(program) if STATE.known(node)]


def _edge_program(
    program: ExportedProgram, module: torch.fx.GraphModule, added: Mapping[str, torch.Tensor]
) -> ExportedProgram:
    from executorch.exir.verification.verifier import EXIREdgeDialectVerifier

    signature = Signature(
        input_specs=[*_buffers(reversed(list(added))), *program.graph_signature.input_specs],
        output_specs=copy.deepcopy(program.graph_signature.output_specs),
    )
    returned = output_node(module.graph).args[0]
    for spec, node in zip(signature.output_specs, returned, strict=True):  # type: ignore[arg-type]
        spec.arg = type(spec.arg)(name=node.name)  # type: ignore[call-arg]
    state = {STATE.must(node).buffer: node for node in state_inputs(program)}
    if state:
        _write_back(module, signature, state)
    for number, node in enumerate(module.graph.nodes, start=1):
        DEBUG_HANDLE.note(node, number)
    return ExportedProgram(
        root=module,
        graph=module.graph,
        graph_signature=signature,
        state_dict=_plain_constants(program, module)
        | dict(added)
        | {key: STATE.must(state[key]).initial for key in state},
        range_constraints={},
        module_call_graph=_without_state(program, len(state)),
        example_inputs=_user_example(program, len(state)),
        constants=dict(program.constants),
        verifiers=[EXIREdgeDialectVerifier(class_only=True)],
    )


def _buffers(names: Iterable[str]) -> list[InputSpec]:
    return [InputSpec(InputKind.BUFFER, TensorArgument(name=name), name, persistent=True) for name in names]


def _write_back(module: torch.fx.GraphModule, signature: Signature, state: Mapping[str, Node]) -> None:
    """Expresses state as torch.export does: buffers with initial values, their mutations first among the outputs."""
    names = {node.name: buffer for buffer, node in state.items()}
    signature.input_specs[:] = [
        InputSpec(InputKind.BUFFER, spec.arg, names[spec.arg.name], persistent=True) if spec.arg.name in names else spec
        for spec in signature.input_specs
    ]
    for node in module.graph.nodes:
        if node.op == "placeholder" and node.name in names:
            INITIALIZED.note(node, True)
    given = len(signature.output_specs) - len(state)
    specs = signature.output_specs
    mutations = [
        OutputSpec(OutputKind.BUFFER_MUTATION, spec.arg, buffer)
        for spec, buffer in zip(specs[given:], state, strict=True)
    ]
    signature.output_specs[:] = [*mutations, *specs[:given]]
    output = output_node(module.graph)
    returned: Any = output.args[0]
    output.args = ((*returned[given:], *returned[:given]),)


def _without_state(program: ExportedProgram, count: int) -> list[ModuleCallEntry]:
    """Returns the method's call signature with the user's inputs and outputs alone."""
    if not count:
        return program.module_call_graph
    given = len(outputs(program)) - count
    signature = ModuleCallSignature(
        inputs=[],
        outputs=[],
        in_spec=pytree.tree_structure(_user_example(program, count)),
        out_spec=pytree.tree_structure(tuple(0 for _ in range(given)) if given > 1 else 0),
    )
    return [ModuleCallEntry(fqn="", signature=signature)]


def _user_example(program: ExportedProgram, count: int) -> Any:
    """Returns the example inputs without those for state, which come last."""
    if not count or program.example_inputs is None:
        return program.example_inputs
    args, kwargs = program.example_inputs
    return tuple(args[:-count]), kwargs


def _plain_constants(program: ExportedProgram, module: torch.fx.GraphModule) -> dict[str, torch.Tensor]:
    """Makes the constants contiguous. A permuted tensor with a dimension of size 1 can keep unusual strides, from which
    the file would infer another dimension order."""
    names, state = constant_names(program), dict(program.state_dict)
    mode = fake_mode_of(module.graph)
    for node in module.graph.nodes:
        target = names.get(node.name) if node.op == "placeholder" else None
        data = state.get(target) if target is not None else None
        if target is None or data is None or data.stride() == torch.empty(data.shape, device="meta").stride():
            continue
        state[target] = data.clone(memory_format=torch.contiguous_format)
        assert mode is not None
        VALUE.note(node, mode.from_tensor(state[target], static_shapes=True))
    return state


def edge_manager(edges: Mapping[str, ExportedProgram], constant_methods: Mapping[str, str] | None = None) -> Any:
    """Returns a manager of the methods. Its edge programs passed ExecuTorch's verifier when they were built; see
    _edge_program."""
    from executorch.exir import EdgeCompileConfig, EdgeProgramManager
    from executorch.exir.passes.legalize_portable_dim_order_pass import LegalizePortableDimOrderPass

    # exir converts the dimension order of some portable kernels' operands, and traces every program for that; integer
    # graphs have no such kernels.
    targets = {node.target for edge in edges.values() for node in edge.graph.nodes}
    converts = not targets.isdisjoint(LegalizePortableDimOrderPass._target_ops)
    config = EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=not converts)
    return EdgeProgramManager(dict(edges), constant_methods=constant_methods, compile_config=config)
