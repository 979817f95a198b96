"""CortexMQuantizer: annotates a float graph for int8 PT2E quantization, driven by the operator registry."""

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch
from torch._subclasses.fake_tensor import FakeTensorMode, log
from torch.fx import Graph, GraphModule, Node
from torch.utils import _pytree as pytree
from torchao.quantization.pt2e.quantizer import (
    FixedQParamsQuantizationSpec,
    QuantizationAnnotation,
    Quantizer,
    SharedQuantizationSpec,
)

from cortado.base.element import USUAL, Element
from cortado.base.errors import Reject
from cortado.base.numerics import QParams
from cortado.frontend.quantize.observers import ALONE, Scheme, TensorSpec, bias_spec, fixed_spec
from cortado.frontend.quantize.training import TRAINING
from cortado.frontend.rewrite.pipeline import canonicalize
from cortado.frontend.rewrite.state import holders, results
from cortado.ir.facts import VALUE, FactKey, holds_integers, note_element, wanted_element
from cortado.ir.graph import Bound, bind, sole_user, symbolic_sizes
from cortado.ir.matching import MATCH, Match, find, settle
from cortado.ir.op import Pattern
from cortado.ir.roles import (
    Activation,
    Bias,
    Joined,
    ObservedWith,
    Plain,
    Quantization,
    Role,
    SharedWith,
    Usually,
    Weight,
)
from cortado.ops.elementwise.pointwise import hoist_clamps, is_clamp, merge_pieces, sources

ANNOTATION: FactKey[QuantizationAnnotation] = FactKey("quantization_annotation")


class CortexMQuantizer(Quantizer):
    """int8 activations (per tensor, affine), int8 weights (per channel, symmetric), int32 biases.

    For prepare_pt2e, and with `is_qat=True` for prepare_qat_pt2e. A graph with dynamic shapes stays in float, with a
    warning, if its rewriting would fix the sizes of the example.
    """

    def __init__(self, is_qat: bool = False, scheme: Scheme = ALONE) -> None:
        super().__init__()
        self.scheme = TRAINING if is_qat and scheme is ALONE else scheme

    def transform_for_annotation(self, model: GraphModule) -> GraphModule:
        rewrite_if_sizes_stay_open(model, self._rewrite)
        return model

    def _rewrite(self, model: GraphModule) -> None:
        self.scheme.before(model)
        canonicalize(model)
        _merge(model)
        if self.scheme.respell(model):
            _merge(model)
        self.scheme.after(model)

    def annotate(self, model: GraphModule) -> GraphModule:
        if is_left_in_float(model):
            return model
        for node, element in self.scheme.elements(model.graph).items():
            if not wanted_element(node).floating:
                note_element(node, element)
        settle(model.graph)
        for node in self.scheme.floats(model.graph):
            MATCH.note(node, Reject("it stays in float (--keep-float)"))
        annotator = _Annotator(self.scheme)
        for node in (*holders(model.graph), *results(model.graph)):
            if not holds_integers(node) and not wanted_element(node).floating:
                annotator.observe_input(node)
        for node in model.graph.nodes:
            match = _match(node) if node not in annotator.inputs else None
            if match is not None:
                annotator.add(node, match)
        annotator.write(model.graph)
        return model

    def validate(self, model: GraphModule) -> None:
        """Checks nothing: the lowering reports what it can't lower, with its reason."""


def _match(node: Node) -> Match | None:
    match = find(node) if node.op == "call_function" else None
    return match if isinstance(match, Match) else None


def fused_clamp(node: Node, pattern: Pattern) -> Node | None:
    """Returns the relu or clamp after a node, if the kernel can carry it as its activation bounds."""
    user = sole_user(node)
    if user is None or wanted_element(user).floating != wanted_element(node).floating:
        return None
    return user if pattern.fuses_clamp and is_clamp(user) is not None else None


def _fused_clamps(model: GraphModule) -> set[Node]:
    """Returns the clamps that kernels carry, which belong to no pointwise piece. (A kernel inside a piece carries
    none.)"""
    pieces = sources(model.graph)
    kernels = [clamp.all_input_nodes[0] for clamp in model.graph.nodes if is_clamp(clamp) is not None]
    matches = [(kernel, _match(kernel)) for kernel in kernels if kernel not in pieces]
    clamps = [fused_clamp(kernel, match.pattern) for kernel, match in matches if match is not None]
    return {clamp for clamp in clamps if clamp is not None}


_Place: TypeAlias = Node | tuple[Node, Node]  # a node's output, or the edge from an operand to its user


@dataclass(frozen=True, eq=False)
class _Group:
    """Places with the same quantization parameters: observed together, or fixed."""

    element: Element
    spec: TensorSpec | None = None  # None: the default for activations
    qparams: QParams | None = None  # the fixed or default parameters

    @property
    def fixed(self) -> bool:
        return isinstance(self.spec, FixedQParamsQuantizationSpec)


def move_clamps_to_kernels(model: GraphModule) -> None:
    """Moves clamps over views and maxima to the kernels that carry them as their bounds."""
    hoist_clamps(model, lambda node: (match := _match(node)) is not None and match.pattern.fuses_clamp)


def _merge(model: GraphModule) -> None:
    """Moves clamps to kernels, and merges functions of one tensor to one call each."""
    move_clamps_to_kernels(model)
    merge_pieces(model, cut=_fused_clamps(model))


class _Annotator:
    """Collects which places have the same quantization parameters, and annotates them for PT2E.

    The first place of a group has the specification and the others refer to it. PT2E's own search for shared places is
    off: it does not terminate on some graphs with shared parameters.
    """

    def __init__(self, scheme: Scheme) -> None:
        self.scheme = scheme
        self.groups: dict[_Place, _Group] = {}
        self.sources: dict[Node, _Group] = {}  # for tensors that no annotated node computes: inputs, constants
        self.others: dict[tuple[Node, Element], _Group] = {}  # for tensors that are read in another element
        self.inputs: dict[Node, dict[Node, TensorSpec | None]] = {}  # None: the place's group decides
        self.outputs: set[Node] = set()

    def add(self, node: Node, match: Match) -> None:
        """Adds a node whose operands are already known."""
        last = fused_clamp(node, match.pattern) or node
        bound, quantization = bind(node), match.quantization
        self.inputs[node] = {}
        self.inputs.setdefault(last, {})
        for name, role in quantization.inputs.items():
            for operand in bound.nodes(name):
                self.inputs[node][operand] = self._constant_spec(role, bound, quantization)
        output = self._output(bound, quantization)
        if output is not None:
            self.groups[last] = output
            self.outputs.add(last)

    def _constant_spec(self, role: Role, bound: Bound, quantization: Quantization) -> TensorSpec | None:
        if isinstance(role, Weight):
            element = max(role.narrowest, self.scheme.weights, key=lambda one: one.bits)
            return self.scheme.weight(quantization.weight_axis, element)
        if isinstance(role, Bias):
            activation, weight = (_first(bound, quantization, kind) for kind in (Activation, Weight))
            return bias_spec(bound.node, activation, weight)
        return None

    def _output(self, bound: Bound, quantization: Quantization) -> _Group | None:
        """Returns the group of a node's output, once its operands have theirs; None if it is not quantized."""
        node, output = bound.node, quantization.output
        operands = [operand for operand, spec in self.inputs[node].items() if spec is None]
        beside = set(operands)
        if isinstance(output, Joined):
            beside = {operand for name in output.besides for operand in bound.nodes(name)}
        for operand, element in _activations(bound, quantization):
            if operand in beside:
                self.groups[operand, node] = self._entering(operand, element)
        if isinstance(output, Joined):
            return self._joined(node, [operand for operand in operands if operand not in beside], output.element)
        if isinstance(output, Plain):
            return None
        if isinstance(output, SharedWith):
            operand = bound[output.argument]
            return self.groups.get((operand, node)) or self._group_of(operand)
        if isinstance(output, ObservedWith):
            known = [self._group_of(operand) for operand in bound.nodes(output.argument)[:1]]
            alike = known and known[0].qparams is None and known[0].element == output.element
            return known[0] if alike else _Group(output.element)
        if isinstance(output, Usually):
            return _Group(output.qparams.element, self.scheme.usual(output.qparams), output.qparams)
        if isinstance(output, QParams):
            return _Group(output.element, fixed_spec(output), output)
        assert output.element is not None  # it has an output of its own
        return _Group(output.element)

    def _entering(self, operand: Node, element: Element | None) -> _Group:
        """Returns the group of an operand where a call reads it: its own, or an additional one for another element."""
        group = self._group_of(operand, element)
        if element is None or group.element == element:
            return group
        return self.others.setdefault((operand, element), _Group(element))

    def _joined(self, node: Node, operands: list[Node], element: Element) -> _Group:
        """Returns the group of a join's output. Operands keep their groups and are converted on entry, unless all have
        the same fixed parameters."""
        groups = [self._entering(operand, element) for operand in operands]
        alike = all(group.qparams == groups[0].qparams for group in groups)
        output = next((group for group in groups if group.fixed), groups[0]) if alike else _Group(element)
        if len(groups) == 1 or (alike and all(group.fixed for group in groups)):
            for operand, group in zip(operands, groups, strict=True):
                self.groups[operand, node] = group
            return output
        output = replace(output)
        entrance = output if self.scheme.entrance is None else _Group(element, self.scheme.entrance(element))
        for operand in operands:
            self.observe_input(operand)
            self.groups[operand, node] = entrance
        return output

    def observe_input(self, operand: Node) -> None:
        """Makes an input of the model, or state, a place of its own, so that it is quantized once, whatever parameters
        joins need."""
        if operand.op == "placeholder" and operand not in self.outputs:
            self.groups[operand] = self._group_of(operand)
            self.inputs[operand] = {}
            self.outputs.add(operand)

    def _group_of(self, operand: Node, element: Element | None = None) -> _Group:
        """Returns the group of an operand; a new one if no call computes it in codes, with the element that its first
        reader wants, or the usual one for a float32 tensor."""
        if operand in self.groups:
            return self.groups[operand]
        wanted = wanted_element(operand)
        return self.sources.setdefault(operand, _Group(element or (USUAL if wanted.floating else wanted)))

    def write(self, graph: Graph) -> None:
        """Writes the annotations; the first place of a group in PT2E's order (node by node, inputs, output) is its
        root."""
        roots: dict[int, _Place] = {}
        for node in [node for node in graph.nodes if node in self.inputs]:
            inputs = {
                operand: self._spec((operand, node), roots) if spec is None else spec
                for operand, spec in self.inputs[node].items()
            }
            output = self._spec(node, roots) if node in self.outputs else None
            annotation = QuantizationAnnotation(inputs, output, allow_implicit_sharing=False, _annotated=True)
            ANNOTATION.note(node, annotation)

    def _spec(self, place: _Place, roots: dict[int, _Place]) -> TensorSpec:
        group = self.groups[place]
        root = roots.setdefault(id(group), place)
        if root is not place:
            return SharedQuantizationSpec(root)
        return self.scheme.activation(group.element) if group.spec is None else group.spec


def _first(bound: Bound, quantization: Quantization, kind: type[Role]) -> Any:
    return next(bound[name] for name, role in quantization.inputs.items() if isinstance(role, kind))


def _activations(bound: Bound, quantization: Quantization) -> list[tuple[Node, Element | None]]:
    """Returns the activation operands, each with the element in which it is read."""
    roles = [(name, role) for name, role in quantization.inputs.items() if isinstance(role, Activation)]
    return [(operand, role.element) for name, role in roles for operand in bound.nodes(name)]


# ---- dynamic shapes --------------------------------------------------------------------------------------------------


DYNAMIC = (
    "the model has a dynamic shape ({}), which quantizing would fix, so it stays in float; to quantize it, export it "
    "without dynamic_shapes"
)
LEFT: FactKey[bool] = FactKey("left_in_float")  # of the output node of a graph that is not quantized

_Sizes: TypeAlias = Sequence[Sequence[int]]  # of each input
_Shapes: TypeAlias = tuple[torch.Size, ...]  # of each output


def rewrite_if_sizes_stay_open(model: GraphModule, rewrite: Callable[[GraphModule], None]) -> None:
    """Rewrites a graph in place; restores a dynamic one, with a warning, if that would fix its sizes."""
    dynamic = next((str(size) for node in model.graph.nodes for size in symbolic_sizes(VALUE.of(node))), None)
    if dynamic is None:
        rewrite(model)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # torch's copy of a graph uses what torch deprecates
        as_given, example = copy.deepcopy(model.graph), _other_example(model)
    rewrite(model)
    if example is None or _output_shapes(model, example.sizes) != example.shapes:
        warnings.warn(DYNAMIC.format(dynamic), stacklevel=3)
        LEFT.note(as_given.output_node(), True)
        model.graph = as_given


def is_left_in_float(model: GraphModule) -> bool:
    """Returns whether a graph was restored because its sizes would have been fixed."""
    return LEFT.known(model.graph.output_node())


@dataclass(frozen=True)
class _Example:
    """Sizes of a dynamic graph's inputs that differ from the exported ones, and the shapes of the outputs for them."""

    sizes: _Sizes
    shapes: _Shapes


def _other_example(model: GraphModule) -> _Example | None:
    """Returns an example whose dynamic sizes are one larger, twice as large or one smaller, the first that the model
    takes; None if it takes none of them."""
    given = [VALUE.must(node).shape for node in model.graph.nodes if node.op == "placeholder"]
    hints = [[(size, getattr(getattr(size, "node", None), "hint", None)) for size in sizes] for sizes in given]
    for other in (lambda hint: hint + 1, lambda hint: 2 * hint, lambda hint: hint - 1):
        sizes = [[int(size) if hint is None else other(hint) for size, hint in one] for one in hints]
        shapes = _output_shapes(model, sizes)
        if shapes is not None:
            return _Example(sizes, shapes)
    return None


def _output_shapes(model: GraphModule, sizes: _Sizes) -> _Shapes | None:
    """Returns the shapes of the outputs for inputs of these sizes; None if the model can't be run with them."""
    types = [VALUE.must(node).dtype for node in model.graph.nodes if node.op == "placeholder"]
    log.disabled = True  # it prints every failure
    try:
        with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
            found = model(*(torch.empty(one, dtype=dtype) for one, dtype in zip(sizes, types, strict=True)))
    except Exception:  # torch raises many kinds for a size that does not fit
        return None
    finally:
        log.disabled = False
    return tuple(one.shape for one in pytree.tree_leaves(found))
