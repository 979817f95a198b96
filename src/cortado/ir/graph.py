"""Access to FX graphs by name: bound arguments, constants, tensor facts, the user's source lines."""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
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
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from cortado.base.element import USUAL, Element
from cortado.base.errors import CortadoError
from cortado.ir.facts import (
    CONSTANT,
    DEBUG_HANDLE,
    FROM_NODE,
    MODULE_STACK,
    NOT_ATEN,
    ORIGIN,
    STACK_TRACE,
    TORCH_FN,
    TRAINED,
    TWIN,
    VALUE,
    WANTED,
    FactKey,
    wanted_element,
)

Tensor = torch.Tensor

TO_NHWC, TO_NCHW = (0, 2, 3, 1), (0, 3, 1, 2)  # kernels work in NHWC, models speak NCHW


@dataclass(frozen=True)
class Bound:
    """A call's arguments by name, defaults filled in."""

    node: Node
    values: Mapping[str, Any]
    wanted: Element | None  # the element asked for its real numbers, if any

    @property
    def element(self) -> Element:
        """The element of its real numbers, for patterns that support several."""
        return self.wanted or USUAL

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def get(self, name: str, default: Any = None) -> Any:
        return self.values.get(name, default)

    def nodes(self, name: str) -> list[Node]:
        """Returns the nodes in one argument: one, several for a list, none for a plain number."""
        value = self.values[name]
        items = value if isinstance(value, list | tuple) else [value]
        return [item for item in items if isinstance(item, Node)]


def bind(node: Node, wanted: Element | None = None) -> Bound:
    """Binds the arguments of an operator call to the names of its schema; `wanted` overrides the stored element."""
    asked = wanted or WANTED.of(node)
    values: dict[str, Any] = {}
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return Bound(node, dict(node.kwargs), asked)
    for position, argument in enumerate(schema.arguments):
        if position < len(node.args):
            values[argument.name] = node.args[position]
        elif argument.name in node.kwargs:
            values[argument.name] = node.kwargs[argument.name]
        elif argument.has_default_value():
            values[argument.name] = argument.default_value
    return Bound(node, values, asked)


def is_symbolic(number: Any) -> bool:
    """Whether a number is known only when the model runs."""
    return isinstance(number, torch.SymInt | torch.SymFloat | torch.SymBool)


def symbolic_sizes(value: Any) -> list[Any]:
    """Returns the sizes of a tensor that are known only when the model runs; none for any other value."""
    return list(filter(is_symbolic, value.shape)) if isinstance(value, Tensor) else []


def fake(node: Node) -> FakeTensor:
    """Returns the fake tensor of a node: shape and dtype without data."""
    value = VALUE.of(node)
    if not isinstance(value, torch.Tensor):
        raise CortadoError(f"{describe(node)} gives {type(value).__name__}, expected one tensor")
    return value  # type: ignore[return-value]


def shape(node: Node) -> tuple[int, ...]:
    return tuple(int(size) for size in fake(node).shape)


def is_call(node: Any, *targets: Any) -> bool:
    return isinstance(node, Node) and node.op == "call_function" and node.target in targets


def taken_from(node: Node) -> Node | None:
    """Returns the call with several results that a getitem node takes one from."""
    return node.args[0] if is_call(node, operator.getitem) and isinstance(node.args[0], Node) else None


def part_index(node: Node) -> int:
    """Returns the index of the result that a getitem node takes."""
    assert isinstance(node.args[1], int)
    return node.args[1]


def call_again(node: Node, operand: Callable[[Node], Any], like: Node | None = None) -> Node:
    """Adds the same call on other operands, with the origin of `like` if that is given."""
    args, kwargs = map_arg((node.args, node.kwargs), operand)
    target: Any = node.target
    return add_call(like or node, target, *args, **kwargs)


def computed_call(node: Node, operand: Callable[[Node], Any]) -> Any:
    """Computes a call on concrete tensors."""
    args, kwargs = map_arg((node.args, node.kwargs), operand)
    target: Any = node.target
    return target(*args, **kwargs)


def sole_user(node: Node) -> Node | None:
    return next(iter(node.users)) if len(node.users) == 1 else None


# ---- where a node comes from ---------------------------------------------------------------------------------


# Torch's installation folder; a stack trace can come from another machine, and a user's folder can be named torch too.
_LIBRARY = re.compile(r"(site|dist)-packages/(torch|torchao)/|^File \"" + re.escape(f"{Path(torch.__file__).parent}/"))


def source_line(node: Node) -> str | None:
    """Returns the user's own line: the innermost stack frame outside torch."""
    lines = [text.strip() for text in (STACK_TRACE.of(node) or "").splitlines() if text.strip()]
    frames = [(lines[i], lines[i + 1] if i + 1 < len(lines) else "") for i in range(len(lines)) if _is_frame(lines[i])]
    mine = [(where, code) for where, code in frames if _LIBRARY.search(where) is None]
    if not mine:
        return None
    where, code = mine[-1]
    path, line = where.split('"')[1], where.split("line ")[1].split(",")[0]
    return f"{path}:{line}" + (f" ({code})" if code and not _is_frame(code) else "")


def _is_frame(text: str) -> bool:
    return text.startswith('File "') and ", line " in text


def module_path(node: Node) -> str | None:
    """Returns the user's module, as in 'features.3.conv'."""
    stack = MODULE_STACK.of(node)
    if not stack:
        return None
    path = str(list(stack.values())[-1][0])
    return path.removeprefix("L['self'].") or None


def describe(node: Node) -> str:
    """Describes a node in the user's terms: operator, module, source line."""
    name = str(node.target) if node.op == "call_function" else f"{node.op} '{node.name}'"
    module, line = module_path(node), source_line(node)
    return name + (f" in module '{module}'" if module else "") + (f" at {line}" if line else "")


_CODE_ORIGIN = (MODULE_STACK, STACK_TRACE, TORCH_FN, FROM_NODE, DEBUG_HANDLE)
_ORIGIN: tuple[FactKey[Any], ...] = (*_CODE_ORIGIN, ORIGIN, TWIN, TRAINED, NOT_ATEN)


def copy_origin(source: Node, target: Node) -> None:
    for fact in _ORIGIN:
        if not fact.known(target):
            fact.take(target, source)


# ---- building ------------------------------------------------------------------------------------------------


def add_call(like: Node, target: Any, /, *args: Any, **kwargs: Any) -> Node:
    """Adds target(*args) to the graph of `like`, with its origin and a value computed on fake tensors."""
    values = pytree.tree_map_only(Node, VALUE.must, (args, kwargs))
    mode = fake_mode_of(like.graph)
    with mode if mode is not None else nullcontext():
        made = target(*values[0], **values[1])  # before the node is added: a call that raises leaves no node
    node = like.graph.call_function(target, args, kwargs)
    VALUE.note(node, made)
    copy_origin(like, node)
    if wanted_element(like).floating:
        WANTED.take(node, like)
    return node


def copied(module: GraphModule) -> GraphModule:
    """Copies a graph over the same weights: most rewrites are in place."""
    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(module.graph, val_map={}))
    return GraphModule(module, graph)


def fake_mode_of(graph: torch.fx.Graph) -> FakeTensorMode | None:
    values = (VALUE.of(node) for node in graph.nodes)
    return next((value.fake_mode for value in values if isinstance(value, FakeTensor)), None)


_FAKES: WeakKeyDictionary[FakeTensorMode, dict[tuple[tuple[int, ...], torch.dtype], Tensor]] = WeakKeyDictionary()


def shaped(mode: FakeTensorMode, sizes: Sequence[int], kind: torch.dtype) -> Tensor:
    """Returns a fake contiguous tensor, shared by all of one shape and dtype: making one is slow."""
    known = _FAKES.setdefault(mode, {})
    key = (tuple(sizes), kind)
    if key not in known:
        with mode:
            known[key] = torch.empty(key[0], dtype=kind)
    return known[key]


# ---- constants of an ExportedProgram -------------------------------------------------------------------------

_CONSTANT_KINDS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


def constant_names(program: ExportedProgram) -> dict[str, str]:
    """Maps placeholder names to names in the state dict, for every constant input."""
    return {
        spec.arg.name: spec.target
        for spec in program.graph_signature.input_specs
        if spec.kind in _CONSTANT_KINDS and spec.target is not None
    }


def constant_value(program: ExportedProgram, node: Any) -> Tensor | None:
    """Returns the data of a constant placeholder; None for anything else."""
    if not isinstance(node, Node) or node.op != "placeholder":
        return None
    known = CONSTANT.of(node)  # stored by lift and add_constant; any other program is searched
    if known is not None:
        return program.state_dict.get(known)
    for spec in program.graph_signature.input_specs:
        if spec.arg.name == node.name and spec.kind in _CONSTANT_KINDS:
            return program.state_dict.get(spec.target, program.constants.get(spec.target))
    return None


def add_constant(program: ExportedProgram, name: str, data: Tensor) -> Node:
    """Adds a constant placeholder that holds `data`, before the user's inputs."""
    graph = program.graph_module.graph
    first = next(iter(graph.nodes))
    mode = fake_mode_of(graph) or FakeTensorMode()
    with graph.inserting_before(first):
        node = graph.placeholder(name)
        while node.name in program.state_dict:
            graph.erase_node(node)
            node = graph.placeholder(name)
    node.target = node.name
    CONSTANT.note(node, node.name)
    data = data.detach().contiguous()
    VALUE.note(node, shaped(mode, data.shape, data.dtype))
    program.state_dict[node.name] = data
    spec = InputSpec(InputKind.BUFFER, TensorArgument(name=node.name), node.name, persistent=True)
    program.graph_signature.input_specs.insert(0, spec)
    return node


def user_inputs(program: ExportedProgram) -> list[Node]:
    names = set(program.graph_signature.user_inputs)
    return [node for node in program.graph_module.graph.nodes if node.op == "placeholder" and node.name in names]


def output_node(graph: torch.fx.Graph) -> Node:
    return next(node for node in reversed(graph.nodes) if node.op == "output")


def outputs(program: ExportedProgram) -> list[Node]:
    """Returns the graph's outputs, in order; a node can occur more than once."""
    returned: Any = output_node(program.graph_module.graph).args[0]
    return list(returned)


def sync_outputs(program: ExportedProgram) -> None:
    """Updates the signature to the graph's present output nodes."""
    returned = output_node(program.graph_module.graph).args[0]
    assert isinstance(returned, list | tuple)
    specs = program.graph_signature.output_specs
    for spec, node in zip(specs, returned, strict=True):
        spec.arg = TensorArgument(name=node.name)


def remove_unused_constants(program: ExportedProgram) -> bool:
    """Removes constants that nothing reads: they would be written into the artifact all the same."""
    names = constant_names(program)
    unused = [n for n in program.graph_module.graph.nodes if n.op == "placeholder" and n.name in names and not n.users]
    gone = {node.name for node in unused}
    for node in unused:
        program.graph_module.graph.erase_node(node)
    specs = program.graph_signature.input_specs
    program.graph_signature.input_specs[:] = [spec for spec in specs if spec.arg.name not in gone]
    kept = {spec.target for spec in program.graph_signature.input_specs}
    for store in (program.state_dict, program.constants):
        for name in [name for name in store if name not in kept]:
            del store[name]
    return bool(unused)


# ---- from a GraphModule to an ExportedProgram -----------------------------------------------------------------


def lift(module: GraphModule, example_inputs: Sequence[Tensor]) -> ExportedProgram:
    """Builds an ExportedProgram from a GraphModule whose constants are get_attr nodes, without tracing it again."""
    graph = module.graph
    state: dict[str, Tensor] = {}
    specs = [
        InputSpec(InputKind.USER_INPUT, TensorArgument(n.name), None) for n in graph.nodes if n.op == "placeholder"
    ]
    mode = fake_mode_of(graph) or FakeTensorMode()
    first = next(iter(graph.nodes))
    placeholders: dict[str, Node] = {}
    attributes = [node for node in graph.nodes if node.op == "get_attr"]
    for node in attributes:
        target = str(node.target)
        if target not in placeholders:
            data = _attribute(module, target)
            with graph.inserting_before(first):
                holder = graph.placeholder("c_" + target.replace(".", "_"))
            holder.target = holder.name  # two attributes can differ in a dot alone
            CONSTANT.note(holder, target)
            alike = data.is_contiguous()
            VALUE.note(holder, shaped(mode, data.shape, data.dtype) if alike else mode.from_tensor(data))
            placeholders[target] = holder
            state[target] = data
        node.replace_all_uses_with(placeholders[target])
    for node in attributes:
        graph.erase_node(node)
    _fill_values(graph, mode)
    constants = [
        InputSpec(InputKind.BUFFER, TensorArgument(n.name), t, persistent=True) for t, n in placeholders.items()
    ]
    return _exported_program(module, [*constants, *specs], state, example_inputs)


def _fill_values(graph: torch.fx.Graph, mode: FakeTensorMode) -> None:
    """Adds the missing values of PT2E's quantize and dequantize nodes; they have their input's shape."""
    alike: dict[tuple[Any, ...], Tensor] = {}
    for node in graph.nodes:
        if node.op == "call_function" and not VALUE.known(node):
            source = VALUE.must(node.all_input_nodes[0])
            kind = bind(node)["dtype"] if "dequantize" not in str(node.target) else torch.float32
            key = (*map(str, (*source.shape, *source.stride())), kind)  # a size may be a symbol
            if key not in alike:
                with mode:
                    alike[key] = torch.empty_like(source, dtype=kind)
            VALUE.note(node, alike[key])


def _attribute(module: torch.nn.Module, target: str) -> Tensor:
    owner: Any = module
    for part in target.split("."):
        owner = getattr(owner, part)
    data: Tensor = owner.detach()
    return data


def _exported_program(
    module: GraphModule, specs: list[InputSpec], state: dict[str, Tensor], example_inputs: Sequence[Tensor]
) -> ExportedProgram:
    graph = module.graph
    returned = output_node(graph).args[0]
    items: list[Any] = list(returned) if isinstance(returned, list | tuple) else [returned]
    output_node(graph).args = (tuple(items),)
    out_specs = [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(n.name), None) for n in items]
    graph.set_codegen(torch.fx.graph.CodeGen())
    root = torch.nn.Module()
    args = tuple(example_inputs)
    in_spec = pytree.tree_structure((args, {}))
    out_spec = pytree.tree_structure(tuple(0 for _ in items) if len(items) > 1 else 0)
    signature = ModuleCallSignature(inputs=[], outputs=[], in_spec=in_spec, out_spec=out_spec)
    return ExportedProgram(
        root=root,
        graph=graph,
        graph_signature=ExportGraphSignature(input_specs=specs, output_specs=out_specs),
        state_dict=state,
        range_constraints={},
        module_call_graph=[ModuleCallEntry(fqn="", signature=signature)],
        example_inputs=(args, {}),
        constants={},
    )
