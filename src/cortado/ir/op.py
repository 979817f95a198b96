"""The Operator record and its registry: everything Cortado knows about one operator is in one file of ops/.

An `Operator` is a call in the lowered graph: exact semantics, shape, scratch, row rule and C kernel. A `Pattern` leads
from aten to such calls: which nodes it matches, how they are quantized, how they are lowered.
"""

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from functools import cache, cached_property
from inspect import signature
from string import ascii_lowercase
from types import ModuleType, NoneType, UnionType
from typing import Annotated, Any, Protocol, get_args, get_origin

import numpy as np
import torch
from torch._ops import OpOverload
from torch.fx import Node

from cortado.base.element import USUAL, Element, element_of
from cortado.base.errors import CortadoError, Reject
from cortado.base.names import is_of_floats
from cortado.base.numerics import QParams
from cortado.base.target import Core, CortexMTargetConfig
from cortado.ir.domain import DomainRule
from cortado.ir.facts import dtype, qparams
from cortado.ir.graph import Bound, shape
from cortado.ir.kernel import Kernel, Rows, Running
from cortado.ir.roles import Quantization
from cortado.ir.sampling import CaseDraw
from cortado.options import LinearWeights

Tensor = torch.Tensor


# ---- patterns ------------------------------------------------------------------------------------------------


class Lowering(Protocol):
    """The context of `Pattern.lower`: the node's arguments by name, their quantization, and ways to add calls."""

    bound: Bound
    target: CortexMTargetConfig
    clamp: tuple[float, float]
    linear: LinearWeights
    codes: bool  # float32 operators have int8 weights

    @property
    def out(self) -> QParams: ...

    def q(self, name: str) -> QParams: ...
    def data(self, name: str) -> Tensor | None: ...
    def weight_scales(self, name: str) -> Tensor: ...
    def node(self, name: str) -> Node: ...
    def constant_of(self, node: Node) -> Tensor | None: ...
    def call(self, operator: "Operator", /, **arguments: Any) -> Node: ...
    def part(self, call: Node, result: str) -> Node: ...
    def constant(self, name: str, data: Tensor) -> Node: ...
    def view(self, node: Node, shape: tuple[int, ...]) -> Node: ...
    def transpose(self, node: Node, perm: tuple[int, ...]) -> Node: ...
    def bounds(self) -> tuple[int, int]: ...


class Priority(IntEnum):
    """The order in which patterns are tried; two of one target can't have the same."""

    SPECIAL = 0  # before the general one of its target: it takes only some nodes
    GENERAL = 1
    NOBODY_ELSE = 2  # only for targets that have no other pattern


@dataclass(frozen=True)
class SignalReader:
    """A call that reads a signal in 16-bit samples: 8 bits would lose its quiet parts."""

    signal: str  # the argument
    state: str | None = None  # the argument with state that the call keeps in more bits than its codes have
    filters: bool = False  # its result is a signal again


@dataclass(frozen=True)
class Pattern:
    """A mapping from aten nodes to calls of operators."""

    aten: tuple[OpOverload, ...]
    match: Callable[[Bound], Quantization | Reject]
    lower: Callable[[Lowering], Node]
    priority: Priority = Priority.GENERAL
    fuses_clamp: bool = False  # a relu, relu6, hardtanh or clamp after it becomes the kernel's activation bounds
    # Every output element is one of the input's, and a larger input never gives a smaller output: clamping its input
    # equals clamping its output.
    monotone: bool = False
    images: bool = False  # a result of rank 4 is stored as NHWC
    # Rewrites the node in calls that take int16, where this pattern takes int8 only.
    int16_decomposition: Callable[[Bound], Node | None] | None = None
    moves: bool = False  # every output element is an input element, at a place that follows from shapes and constants
    reads_itself: bool = False  # its output is its state: all of it counts, even what nothing reads
    # Its result is rounded once, at full precision: it can take its reader's scale without loss.
    rounds_once: bool = False
    # Which values of its input a constant mask hides, so that calibration leaves them out.
    hidden: Callable[[Bound], Tensor | None] | None = None
    reader: SignalReader | None = None  # what it reads of a signal, if it reads one
    keeps_bits: bool = False  # its state keeps 16 bits between steps, whatever the width of its codes
    # Computes the same in float, where ExecuTorch can't take the aten call itself; same arguments.
    in_float: Callable[..., Tensor] | None = None
    floating: bool = False  # tried before all others where real numbers are float32, and nowhere else
    # Computes the same with ExecuTorch's int8 operators, for a .pte; same arguments.
    in_pieces: Callable[..., Tensor] | None = None


@dataclass(frozen=True)
class Rewrite:
    """Another spelling of something Cortado knows, in the float graph before quantization.

    `rewrite` adds the nodes of the canonical spelling (see graph.add_call) and returns the replacement of the node, or
    None to leave it alone.
    """

    aten: tuple[OpOverload, ...]
    rewrite: Callable[[Bound], Node | None]
    any_element: bool = False  # the result is supported in every element, including float32
    moves: bool = False  # the calls only move values of their operand


@dataclass(frozen=True)
class Decomposition:
    """Decomposition of a call into smaller ones, written in torch: `function` takes the call's arguments by name and
    returns its result. The calls that it makes can be decomposed and rewritten in turn; `takes` selects the calls that
    it applies to."""

    aten: tuple[OpOverload, ...]
    function: Callable[..., Any]
    takes: Callable[[Bound], bool] | None = None
    floating: bool = False  # for float32 only, tried before all others


# ---- calls ---------------------------------------------------------------------------------------------------


def _sizes(value: Any) -> tuple[int, ...]:
    return tuple(value.shape) if isinstance(value, Tensor) else tuple(value)


@dataclass(frozen=True)
class Call:
    """A call of an operator in the lowered graph, its tensors replaced by their shapes, constants by their data."""

    operator: "Operator"
    arguments: Mapping[str, Any]  # numbers, lists; for a tensor its shape; for a constant tensor its data
    out_shape: tuple[int, ...]  # of the first result
    element: Element  # of the first result that is read
    elements: Mapping[str, Element]  # of tensors, by argument; for a list, that of its first tensor
    unread: frozenset[str] = frozenset()  # the names of the results that nothing reads: see Operator.results

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]

    def gives(self, result: str) -> bool:
        """Whether this one of several results is read."""
        return result not in self.unread

    def shape(self, name: str) -> tuple[int, ...]:
        return _sizes(self.arguments[name])

    def shapes(self, name: str) -> list[tuple[int, ...]]:
        """Returns the shapes of the tensors in a list."""
        return [_sizes(value) for value in self.arguments[name]]

    def element_of(self, name: str) -> Element:
        return self.elements[name]

    @property
    def operand_elements(self) -> tuple[Element, ...]:
        """The elements of the activation operands that the call has."""
        return tuple(self.elements[name] for name in self.operator.tensors if name in self.elements)

    def array(self, name: str) -> np.ndarray[Any, np.dtype[Any]]:
        value = self.arguments[name]
        if not isinstance(value, Tensor):
            raise CortadoError(f"{self.operator.name}: '{name}' must be a constant")
        return value.numpy()


def shaped_call(operator: "Operator", arguments: Mapping[str, Any], out_shape: tuple[int, ...] = ()) -> Call:
    """Builds a Call from graph nodes, of which only the shapes are known."""
    shapes = {name: _shapes(value) for name, value in arguments.items()}
    return Call(operator, shapes, out_shape, result_elements(operator, arguments)[0], {})


def _shapes(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_shapes(item) for item in value]
    return shape(value) if isinstance(value, Node) else value


# ---- the record ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ElementOf:
    """The element of the first tensor among these arguments, or the type that one of them names."""

    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Result:
    """A secondary output of an operator. A call doesn't compute one that nothing reads."""

    name: str
    shape: Callable[[Call], tuple[int, ...]]
    element: Element | ElementOf


class Kernels(Protocol):
    """The kernels of an operator."""

    def __call__(self, call: Call, core: Core) -> Kernel:
        """Returns the kernel of a call on one kind of core."""
        ...

    def every(self) -> Iterator[tuple[Core, Kernel]]:
        """Yields all functions that calls can use, with the cores that have them; nothing specific to a call."""
        ...

    def meeting(self, weights: Element) -> frozenset[str]:
        """Returns the names of the activation elements that can be combined with these weights."""
        return frozenset()


class PteWriter(Protocol):
    """Adds the calls and constants that represent a call in a .pte."""

    def __call__(self, operator: "Operator", /, **arguments: Any) -> Node: ...
    def constant(self, name: str, data: Tensor) -> Node: ...


class Int4Form(Enum):
    """The forms of int4 weights that kernels take."""

    CHANNELS = "those of a convolution or linear layer, with a factor, a bias and a shift for each output channel"
    GATES = "those of a recurrent layer's two paths, the same for each gate and unit"
    TABLE = "rows of numbers that are not multiplied"


@dataclass(frozen=True)
class Operator:
    """One operator: its schema, exact semantics and kernels. Its parameters and their types are `reference`'s."""

    name: str
    summary: str
    reference: Callable[..., Any]  # a tensor, or a tuple of all results
    shape: Callable[[Call], tuple[int, ...]]
    kernel: Kernels | None
    element: Element | ElementOf  # of the first result
    rows: Callable[[Call], Rows | None] = lambda call: None
    # Rows and kernel on a stream of rows, if different. A kernel that accumulates rows then gives a result after each.
    running: Callable[[Call, Core], "Running | None"] = lambda call, core: None
    macs: Callable[[Call], int] = lambda call: 0  # multiply-accumulates, for the report and the scheduler's weights
    pte_scratch: Callable[[Call, Any], tuple[int, ...]] = lambda call, backend: ()
    extra_results: tuple[Result, ...] = ()  # secondary outputs: a call then gives a tuple, and getitem takes it apart
    view: bool = False  # no data moves: the output is the input's buffer under another shape
    quantizes: bool = False  # it converts real numbers to codes, with a scale and a zero point
    dequantizes: bool = False  # it converts codes to real numbers
    permutes: bool = False  # the output holds the input's values, each once, in another order
    identity: Callable[[Call], bool] | None = None  # whether a call returns its input's codes unchanged
    # Constants with a value for each output channel, weights first: permuting them permutes the output's channels.
    channel_constants: tuple[str, ...] = ()
    weight_axis: int | None = None  # that of output channels, of layers that requantize each channel by itself
    int4: Int4Form | None = None  # the form of its int4 weights, if it has kernels for them
    last_steps: tuple[str, ...] = ()  # by result: the argument that asks for the step computed last, instead of all
    # Each channel (last dimension) depends on that channel of the only input only, where there are as many.
    by_channel: bool = False
    tensors: tuple[str, ...] = ("input",)  # activation operands, in the order of the C kernel's rows
    # The arguments of the same call on operands before a transpose, to move that behind the call; None: it can't be
    # moved.
    relayout: Callable[[Mapping[str, Any], tuple[int, ...]], Mapping[str, Any] | None] | None = None
    overload_name: str = "default"
    scratch: tuple[str, ...] = ()  # buffers passed to ExecuTorch's kernel after the parameters, sized by pte_scratch
    parameters: str = ""  # as in an ATen schema, where `reference` does not name them all
    c_parameters: tuple[str, ...] = ()  # parameters of `reference` that only the C bundle's overload has (`in_c`)
    # Writes the call in operators that a .pte can hold: pte(arguments, add, target).
    pte: Callable[[Mapping[str, Any], "PteWriter", CortexMTargetConfig], Node] | None = None
    # Why ExecuTorch's own kernel can't make a call (`lower` and `pte` make others), as the end of a sentence.
    pte_limit: Callable[[Call], str | None] = lambda call: None
    in_pieces: bool = False  # its patterns can write it in smaller operators for a .pte (Pattern.in_pieces)
    constraints: str = ""  # which arguments it takes, for the documentation
    no_pte: str = ""  # why no .pte can hold it, unless because it computes in float32
    # Draws legal arguments; the ones it leaves out (all, if it is None) are drawn by their types.
    samples: Callable[["CaseDraw"], dict[str, Any]] | None = None

    @property
    def in_pte(self) -> bool:
        """Whether a .pte can hold it, under its own name or in calls of others."""
        return self.namespace != "cortado" or self.pte is not None

    @property
    def c_only(self) -> str | None:
        """Why a .pte can't hold it; None if it can."""
        if self.in_pte:
            return None
        why = self.no_pte or ("it computes in float32" if is_of_floats(self.name) else "")
        return f"{self.name} exists in the C bundle only" + (f" ({why})" if why else "")

    @property
    def results(self) -> tuple[str, ...]:
        """The names of a call's results."""
        return ("out", *(result.name for result in self.extra_results))

    @property
    def same_values(self) -> bool:
        """Whether the output holds the input's values, each once."""
        return self.view or self.permutes

    @property
    def namespace(self) -> str:
        return self.name.split("::")[0]

    @property
    def base(self) -> str:
        return self.name.split("::")[1]

    @cached_property
    def arguments(self) -> str:
        """The arguments as in an ATen schema: those of torch's own operator, or the parameters and scratch."""
        if self.namespace == "aten":
            known = getattr(getattr(torch.ops.aten, self.base), self.overload_name)
            return str(known._schema).partition("(")[2].rpartition(") ->")[0]
        own = self.parameters or schema_of(self.reference, self.c_parameters)
        return ", ".join([own, *(f"Tensor {name}" for name in self.scratch)])

    @property
    def in_c(self) -> "Operator":
        """The overload with all parameters of the reference, some of which ExecuTorch's kernel doesn't have."""
        return replace(self, overload_name="c", scratch=(), c_parameters=())

    @property
    def argument_names(self) -> tuple[str, ...]:
        return tuple(part.strip().split(" ")[1].split("=")[0] for part in self.arguments.split(","))

    @property
    def qualified(self) -> str:
        """The name within its namespace, as in `slice_copy.Tensor`."""
        return self.base if self.overload_name == "default" else f"{self.base}.{self.overload_name}"

    @property
    def qualified_out(self) -> str:
        return f"{self.base}.out" if self.overload_name == "default" else f"{self.base}.{self.overload_name}_out"

    @property
    def schema(self) -> str:
        return f"{self.qualified}({self.arguments}) -> {_tuple(['Tensor' for _ in self.results])}"

    @property
    def out_schema(self) -> str:
        given = [f"Tensor({letter}!)" for letter in ascii_lowercase[: len(self.results)]]
        named = ", ".join(f"{kind} {name}" for kind, name in zip(given, self.results, strict=True))
        return f"{self.qualified_out}({self.arguments}, *, {named}) -> {_tuple(given)}"

    def sizes(self, call: Call) -> list[tuple[int, ...]]:
        """Returns the shapes of all results."""
        return [self.shape(call), *(result.shape(call) for result in self.extra_results)]


_SCHEMA_TYPES: Mapping[Any, str] = {
    Tensor: "Tensor",
    list[Tensor]: "Tensor[]",
    list[int]: "int[]",
    torch.dtype: "ScalarType",
    **{kind: kind.__name__ for kind in (int, float, bool, str)},
}


def schema_of(function: Callable[..., Any], without: tuple[str, ...] = ()) -> str:
    """Returns the parameters of a function as an ATen schema, without defaults: calls name all arguments."""
    known = [one for one in signature(function).parameters.values() if one.name not in without]
    return ", ".join(f"{_schema_type(one.annotation)} {one.name}" for one in known)


def _schema_type(annotation: Any) -> str:
    plain = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    kinds = get_args(plain) if isinstance(plain, UnionType) else (plain,)
    found = [_SCHEMA_TYPES.get(one) for one in kinds if one is not NoneType]
    if len(found) != 1 or found[0] is None:
        raise CortadoError(f"{annotation} is no type of an operator's argument")
    return f"{found[0]}?" if NoneType in kinds else found[0]


def _tuple(kinds: Sequence[str]) -> str:
    return kinds[0] if len(kinds) == 1 else f"({', '.join(kinds)})"


@dataclass(frozen=True)
class Registry:
    """All operators by name, all patterns, rewrites and decompositions by aten target, found by listing ops/."""

    operators: Mapping[str, Operator]
    patterns: Mapping[OpOverload, tuple[Pattern, ...]]
    floats: Mapping[OpOverload, Pattern]  # of float32
    rewrites: Mapping[OpOverload, Rewrite]
    decompositions: Mapping[OpOverload, Decomposition]
    float_decompositions: Mapping[OpOverload, Decomposition]
    domains: Mapping[OpOverload, DomainRule]


@cache
def registry() -> Registry:
    package = importlib.import_module("cortado.ops")  # by listing, not by import: ops/ is a layer above this module
    modules = [importlib.import_module(name) for name in module_names(package)]
    return collect([value for module in modules for value in vars(module).values()])


def module_names(package: ModuleType) -> list[str]:
    """Returns all modules of a package and its subpackages, except those that start with an underscore."""
    found = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    return sorted(info.name for info in found if not info.ispkg and not info.name.rpartition(".")[2].startswith("_"))


def collect(values: Iterable[Any]) -> Registry:
    """Collects the records among these values and in tuples of them, in any order; duplicates of one record are
    fine."""
    given = [one for value in values for one in (value if isinstance(value, tuple) else (value,))]
    operators: dict[str, Operator] = {}
    patterns: dict[OpOverload, dict[Priority, Pattern]] = {}
    for value in given:
        if isinstance(value, Operator) and operators.setdefault(value.name, value) is not value:
            raise CortadoError(f"two operators are called {value.name}")
        for target in value.aten if isinstance(value, Pattern) and not value.floating else ():
            if patterns.setdefault(target, {}).setdefault(value.priority, value) is not value:
                raise CortadoError(
                    f"two patterns take {target} with priority {value.priority.name}; say with Pattern.priority which "
                    "of them is asked first"
                )
    return Registry(
        operators=operators,
        patterns={target: _asked(found) for target, found in patterns.items()},
        floats=_by_target([one for one in given if isinstance(one, Pattern) and one.floating], Pattern, "patterns"),
        rewrites=_by_target(given, Rewrite, "rewrites"),
        decompositions=_by_target(_not_of_floats(given), Decomposition, "decompositions"),
        float_decompositions=_by_target(
            [one for one in given if isinstance(one, Decomposition) and one.floating], Decomposition, "decompositions"
        ),
        domains=_by_target(given, DomainRule, "rules of domains"),
    )


def _not_of_floats(values: Iterable[Any]) -> list[Any]:
    return [one for one in values if not (isinstance(one, Decomposition) and one.floating)]


def _by_target(values: Iterable[Any], kind: type[Any], what: str) -> dict[OpOverload, Any]:
    """Maps each target to its record of one kind; an error if it has two."""
    found: dict[OpOverload, Any] = {}
    for value in values:
        for target in value.aten if isinstance(value, kind) else ():
            if found.setdefault(target, value) is not value:
                raise CortadoError(f"two {what} take {target}; there can be one per target")
    return found


def _asked(found: Mapping[Priority, Pattern]) -> tuple[Pattern, ...]:
    """Returns the patterns of one target in the order in which they are tried."""
    others = [priority for priority in sorted(found) if priority is not Priority.NOBODY_ELSE]
    return tuple(found[priority] for priority in others or found)


def _element(known: Element | ElementOf, arguments: Mapping[str, Any]) -> Element:
    if isinstance(known, Element):
        return known
    given = [arguments[name] for name in known.arguments]
    tensors = [item for value in given for item in (value if isinstance(value, list | tuple) else [value])]
    if isinstance(tensors[0], torch.dtype):
        return element_of(tensors[0])
    return element_of(dtype(tensors[0]) if isinstance(tensors[0], Node) else tensors[0].dtype)


def result_elements(operator: Operator, arguments: Mapping[str, Any]) -> list[Element]:
    """Returns the elements of all results of a call, given its arguments: tensors or graph nodes."""
    return [
        _element(known, arguments)
        for known in (operator.element, *(result.element for result in operator.extra_results))
    ]


def c_only(node: Node) -> str | None:
    """Returns why a .pte can't hold a call of the lowered graph; None if it can."""
    operator = operator_of(node.target)
    if operator is None:
        return None
    wide = wider_elements(node)
    if operator.c_only is None and wide:
        return f"{operator.name} of {wide[0].name} codes exists in the C bundle only (ExecuTorch's takes int8)"
    return operator.c_only


def wider_elements(node: Node) -> list[Element]:
    """Returns the elements other than int8 among the operands and the result of a call of the lowered graph."""
    known = [qparams(one) for one in (node, *node.all_input_nodes)]
    return [one.element for one in known if one is not None and one.element != USUAL]


def quantizes(node: Node) -> bool:
    """Whether a node of the lowered graph quantizes real numbers to codes."""
    operator = operator_of(node.target)
    return operator is not None and operator.quantizes


def dequantizes(node: Node) -> bool:
    """Whether a node of the lowered graph dequantizes codes to real numbers."""
    operator = operator_of(node.target)
    return operator is not None and operator.dequantizes


def operator_of(target: Any) -> Operator | None:
    """Returns the operator of a call target of the lowered graph; None if it has none."""
    if not isinstance(target, OpOverload):
        return None
    return registry().operators.get(target.name().split(".")[0])
