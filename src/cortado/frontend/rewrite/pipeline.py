"""FLOAT_PIPELINE: from the graph that torch.export gives to the one that is quantized.

It runs before quantization, so that the quantizer, later passes and operators need to know only one spelling of each
thing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import torch
from torch._ops import OpOverload
from torch.fx import Graph, GraphModule, Node

from cortado.base.element import USUAL, Element
from cortado.base.findings import Finding
from cortado.frontend.rewrite.canonical import (
    check_filled,
    check_real,
    context_body,
    fold,
    give_scalars_a_dimension,
    inline_contexts,
    respell,
    separate,
    simplify,
)
from cortado.frontend.rewrite.complex_pairs import computes_complex, write_as_pairs
from cortado.frontend.rewrite.decompose import spell_out
from cortado.frontend.rewrite.domains import DOMAINS, settle_domains
from cortado.frontend.rewrite.filters import take_filters
from cortado.frontend.rewrite.integer_compare import (
    compare_integers,
    compares_reals,
    equality,
    is_equality,
)
from cortado.frontend.rewrite.mask_forms import may_have_masks, puts_masks, write_out_masks
from cortado.frontend.rewrite.mask_rules import take_masks
from cortado.frontend.rewrite.signs import compare_before
from cortado.frontend.rewrite.state import StateBuffer, count_in_integers, keep_needed
from cortado.frontend.rewrite.writes import make_writes_plain
from cortado.ir.facts import VALUE, note_elements
from cortado.ir.graph import describe
from cortado.ir.passes import COMMON, GraphPass, GraphRule, Level, calls_of, run_pass
from cortado.ir.patched import late_code
from cortado.ops.float_graph import out_of_place


@dataclass
class FloatContext:
    """The context of a float pass: the graph, the options, and what passes find out about it."""

    module: GraphModule
    element: Element  # of real numbers; with float32, calls that have a float32 operator are kept
    inputs: Sequence[torch.Tensor] | None = None  # for one run that observes writes to shared memory; None: zeros
    state: tuple[StateBuffer, ...] | None = None  # None: the graph has no state
    filters: bool = False  # whether filters with feedback become single calls
    findings: list[Finding] = field(default_factory=list)  # what a user should look at
    equalities: Sequence[Node] = ()  # comparisons for equality in the user's code
    drift: float = 0.0  # the tolerance between such a filter and the calls that it replaces

    @cached_property
    def masked(self) -> bool:
        """Whether any number is large enough to stand for infinity; evaluated once, before anything is simplified."""
        return not self.element.floating and may_have_masks(self.module.graph)


def _blocks(module: GraphModule) -> Iterator[str]:
    return (describe(node) for node in calls_of(module) if context_body(node) is not None)


def _writes(module: GraphModule) -> Iterator[str]:
    for node in calls_of(module):
        if isinstance(node.target, OpOverload) and out_of_place(node.target) is not None:
            yield describe(node)


def _without_value(module: GraphModule) -> Iterator[str]:
    return (describe(node) for node in calls_of(module) if VALUE.of(node) is None)


def _contradicted(module: GraphModule) -> Iterator[str]:
    return DOMAINS.broken(module.graph)


_CANONICAL = (Level.FLOAT_CANONICAL,)
RULES = (
    *COMMON,
    GraphRule((Level.FLOAT_PLAIN, *_CANONICAL), "no call contains a graph of its own", _blocks),
    GraphRule((Level.FLOAT_PLAIN, *_CANONICAL), "no domain contradicts those of the call's operands", _contradicted),
    GraphRule(_CANONICAL, "no call writes in place that could return a new tensor", _writes),
    GraphRule(_CANONICAL, "every call has a value of known shape", _without_value),
)


class FloatPass(GraphPass):
    """One rewrite of a float graph."""

    level_before = level_after = Level.FLOAT_PLAIN
    rules = RULES

    def __init__(self, context: FloatContext) -> None:
        self.context = context


class InlineContexts(FloatPass):
    """Inlines blocks under no_grad or a switched-off autocast into the graph."""

    name = "inline-contexts"
    level_before = level_after = Level.FLOAT_RAW

    def run(self, module: GraphModule) -> bool:
        return inline_contexts(module)


class PlainWrites(FloatPass):
    """Makes every read of written memory, through any alias, read the written value."""

    name = "plain-writes"
    level_before = Level.FLOAT_RAW

    def run(self, module: GraphModule) -> bool:
        changed = make_writes_plain(module, self.context.inputs)
        note_elements(module.graph, self.context.element)
        if not self.context.element.floating:
            self.context.equalities = [node for node in module.graph.nodes if is_equality(node)]
        return changed


class ScalarDimensions(FloatPass):
    """Gives a tensor of rank 0 a dimension in calls that name one."""

    name = "scalar-dimensions"

    def run(self, module: GraphModule) -> bool:
        give_scalars_a_dimension(module.graph)
        return True


class MaskPass(FloatPass):
    """A pass for graphs that can have masks."""

    @classmethod
    def applies(cls, context: FloatContext) -> bool:
        return context.masked


class Simplify(MaskPass):
    """Removes no-ops and folds constants; no call is respelled."""

    name = "simplify"

    def run(self, module: GraphModule) -> bool:
        simplify(module.graph)
        return True


class WriteOutMasks(MaskPass):
    """Expands calls that contain a mask, or the softmax after one, into one call for each part."""

    name = "write-out-masks"

    def run(self, module: GraphModule) -> bool:
        spell_out(module, only=puts_masks)
        write_out_masks(module)
        module.graph.eliminate_dead_code()
        return True


class Masks(MaskPass):
    """Makes the readers of masks exclude masked places, so that no number stands for infinity."""

    name = "masks"

    def run(self, module: GraphModule) -> bool:
        take_masks(module)
        module.graph.eliminate_dead_code()
        return True


class Fold(FloatPass):
    """Removes no-ops and folds constant calls."""

    name = "fold"

    def run(self, module: GraphModule) -> bool:
        fold(module.graph)
        return True


class ComplexPairs(FloatPass):
    """Replaces complex tensors of float32 calls by pairs of real ones."""

    name = "complex-pairs"

    @classmethod
    def applies(cls, context: FloatContext) -> bool:
        return any(computes_complex(node) for node in context.module.graph.nodes)

    def run(self, module: GraphModule) -> bool:
        return write_as_pairs(module)


class Signs(FloatPass):
    """Moves comparisons with 0 before products and moves of values."""

    name = "signs"

    @classmethod
    def applies(cls, context: FloatContext) -> bool:
        return not context.element.floating

    def run(self, module: GraphModule) -> bool:
        compare_before(module)
        return True


class Decompose(FloatPass):
    """Decomposes calls without an operator into calls that have one, if possible."""

    name = "decompose"

    def run(self, module: GraphModule) -> bool:
        spell_out(module)
        return True


def _has_integers(graph: Graph) -> bool:
    """Whether a graph has tensors other than real numbers."""
    values = (VALUE.of(node) for node in graph.nodes if node.op in ("call_function", "placeholder"))
    return any(isinstance(value, torch.Tensor) and not value.dtype.is_floating_point for value in values)


class ExactCompare(FloatPass):
    """Counts and compares integers held in float32 as integers; reports comparisons of real numbers for equality."""

    name = "exact-compare"

    def run(self, module: GraphModule) -> bool:
        separate(module.graph)
        if not self.context.element.floating:
            count_in_integers(module)
        if _has_integers(module.graph):
            compare_integers(module)
        left = [node for node in self.context.equalities if not node._erased and compares_reals(node)]
        self.context.findings += map(equality, left)
        return True


class Respell(FloatPass):
    """Rewrites every call in the one spelling that its operator's patterns match; refuses complex numbers."""

    name = "respell"

    def run(self, module: GraphModule) -> bool:
        respell(module.graph)
        check_real(module.graph)
        return True


class Domains(FloatPass):
    """Converts operands to the real numbers, integers or truth values that each reader needs; refuses uninitialized
    memory."""

    name = "domains"
    level_after = Level.FLOAT_CANONICAL

    def run(self, module: GraphModule) -> bool:
        self.context.findings[:0] = settle_domains(module)
        fold(module.graph)  # also folds numbers that were expanded to the shape of integers
        module.graph.eliminate_dead_code()
        check_filled(module.graph)
        return True


class NeededState(FloatPass):
    """Removes state that no output depends on."""

    name = "needed-state"
    level_before = level_after = Level.FLOAT_CANONICAL

    @classmethod
    def applies(cls, context: FloatContext) -> bool:
        return context.state is not None

    def run(self, module: GraphModule) -> bool:
        self.context.state = keep_needed(module, self.context.state or ())
        return True


class Filters(FloatPass):
    """Replaces a filter with feedback, however its loop was written, by one call."""

    name = "filters"
    level_before = level_after = Level.FLOAT_CANONICAL

    @classmethod
    def applies(cls, context: FloatContext) -> bool:
        return context.filters

    def run(self, module: GraphModule) -> bool:
        found = take_filters(module, self.context.state or ())
        self.context.state, self.context.drift = found.state, found.drift
        return True


FLOAT_PIPELINE: tuple[type[FloatPass], ...] = (
    InlineContexts,  # one graph, before any analysis
    PlainWrites,  # before any call is moved or removed: their order decides which reads see a write
    ScalarDimensions,  # so that later passes find a dimension where a call names one
    Simplify,  # masks are found in constants, not in calls that compute them
    WriteOutMasks,  # so that rules are needed for parts only, not for fused calls
    Masks,  # while softmax and maxima are still the calls that the user wrote
    Fold,  # constants left by masks
    ComplexPairs,  # before decompositions, which apply to its calls too
    Signs,  # before comparisons are decomposed
    Decompose,  # before spellings: its calls can have others
    ExactCompare,  # once the calls that make integers are known, before functions become tables
    Respell,  # one spelling of each remaining call
    Domains,  # conversions, once every call has its final spelling
    NeededState,  # in a model with state, once no pass removes readers any more
    Filters,  # loops of plain products and sums over the remaining state
)


def run_float(context: FloatContext, intermediates: Path | None = None) -> GraphModule:
    """Runs every pass that applies, in place, and returns the module."""
    verified: Level | None = None
    with late_code():
        for number, one in enumerate(FLOAT_PIPELINE, start=1):
            if one.applies(context):
                verified = run_pass(context.module, one(context), number, intermediates, verified)
    return context.module


def canonicalize(
    module: GraphModule,
    inputs: Sequence[torch.Tensor] | None = None,
    element: Element = USUAL,
    found: list[Finding] | None = None,
) -> GraphModule:
    """Canonicalizes a graph without state, in place. Findings for the user are added to `found`."""
    return run_float(FloatContext(module, element, inputs, findings=[] if found is None else found))
