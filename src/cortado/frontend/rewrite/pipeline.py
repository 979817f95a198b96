"""FLOAT_PIPELINE: from the graph that torch.export gives to the one that is quantized.

Runs before quantization, so the quantizer, the passes behind it and the operators each know one spelling of one thing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import torch
from torch._ops import OpOverload
from torch.fx import GraphModule, Node

from cortado.base.element import Element
from cortado.base.findings import Finding
from cortado.frontend.rewrite.canonical import (
    check_filled,
    check_real,
    context_body,
    fold,
    inline_contexts,
    respell,
    separate,
    simplify,
)
from cortado.frontend.rewrite.complex_pairs import holds_complex, write_as_pairs
from cortado.frontend.rewrite.decompose import spell_out
from cortado.frontend.rewrite.domains import DOMAINS, settle_domains
from cortado.frontend.rewrite.filters import take_filters
from cortado.frontend.rewrite.integer_compare import (
    compare_integers,
    compares_reals,
    count_in_integers,
    equality,
    has_integers,
    is_equality,
)
from cortado.frontend.rewrite.mask_forms import may_have_masks, puts_masks, write_out_masks
from cortado.frontend.rewrite.mask_rules import take_masks
from cortado.frontend.rewrite.scalars import give_scalars_a_dimension
from cortado.frontend.rewrite.signs import compare_before
from cortado.frontend.rewrite.state import StateBuffer, keep_needed
from cortado.frontend.rewrite.writes import make_writes_plain
from cortado.ir.facts import USUAL, VALUE, note_elements
from cortado.ir.graph import describe
from cortado.ir.passes import COMMON, GraphPass, GraphRule, Level, calls_of, run_pass
from cortado.ops.float_graph import out_of_place


@dataclass
class FloatContext:
    """Context of a float pass beside the graph, and what passes find out about it."""

    module: GraphModule
    element: Element  # of real numbers; with float32, calls that have a float32 operator stay as they are
    inputs: Sequence[torch.Tensor] | None = None  # what writes into shared memory is run once on these; None: zeros
    state: tuple[StateBuffer, ...] | None = None  # None: the last inputs and outputs of the graph are no state
    filters: bool = False  # whether filters with feedback become calls of their own
    findings: list[Finding] = field(default_factory=list)  # what a user should look at
    equalities: Sequence[Node] = ()  # as the user wrote them
    drift: float = 0.0  # how far such a call may be from the calls that it replaces

    @cached_property
    def masked(self) -> bool:
        """Whether a number is so large that it may stand for infinity; asked once, before anything is simplified."""
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
    GraphRule((Level.FLOAT_PLAIN, *_CANONICAL), "no block is a graph of its own", _blocks),
    GraphRule((Level.FLOAT_PLAIN, *_CANONICAL), "no domain contradicts those of what a call reads", _contradicted),
    GraphRule(_CANONICAL, "no call writes where it could give a new tensor", _writes),
    GraphRule(_CANONICAL, "every call has a value of known shape", _without_value),
)


class FloatPass(GraphPass):
    """One rewrite of a float graph."""

    level_before = level_after = Level.FLOAT_PLAIN
    rules = RULES

    def __init__(self, context: FloatContext) -> None:
        self.context = context


class InlineContexts(FloatPass):
    """Blocks under no_grad or a switched-off autocast are part of the graph."""

    name = "inline-contexts"
    level_before = level_after = Level.FLOAT_RAW

    def run(self, module: GraphModule) -> bool:
        return inline_contexts(module)


class PlainWrites(FloatPass):
    """Every read of written memory, under whichever name, reads the written value."""

    name = "plain-writes"
    level_before = Level.FLOAT_RAW

    def run(self, module: GraphModule) -> bool:
        changed = make_writes_plain(module, self.context.inputs)
        note_elements(module.graph, self.context.element)
        if not self.context.element.floating:
            self.context.equalities = [node for node in module.graph.nodes if is_equality(node)]
        return changed


class ScalarDimensions(FloatPass):
    """A tensor of rank 0 has a dimension in calls that name one."""

    name = "scalar-dimensions"

    def run(self, module: GraphModule) -> bool:
        give_scalars_a_dimension(module.graph)
        return True


class MaskPass(FloatPass):
    """A pass for graphs that may have masks."""

    @classmethod
    def applies(cls, context: FloatContext) -> bool:
        return context.masked


class Simplify(MaskPass):
    """Calls that do nothing are gone and constants are computed; no call is spelled in another way."""

    name = "simplify"

    def run(self, module: GraphModule) -> bool:
        simplify(module.graph)
        return True


class WriteOutMasks(MaskPass):
    """Calls that hold a mask, or the softmax behind one, have a call for each part."""

    name = "write-out-masks"

    def run(self, module: GraphModule) -> bool:
        spell_out(module, only=puts_masks)
        write_out_masks(module)
        module.graph.eliminate_dead_code()
        return True


class Masks(MaskPass):
    """Masked places are left out by what reads them; no number stands for infinity."""

    name = "masks"

    def run(self, module: GraphModule) -> bool:
        take_masks(module)
        module.graph.eliminate_dead_code()
        return True


class Fold(FloatPass):
    """Calls that do nothing or give the same every time are gone."""

    name = "fold"

    def run(self, module: GraphModule) -> bool:
        fold(module.graph)
        return True


class ComplexPairs(FloatPass):
    """Complex tensors of float32 calls are pairs of real ones."""

    name = "complex-pairs"

    @classmethod
    def applies(cls, context: FloatContext) -> bool:
        return any(holds_complex(node) for node in context.module.graph.nodes)

    def run(self, module: GraphModule) -> bool:
        return write_as_pairs(module)


class Signs(FloatPass):
    """Comparisons with 0 stand in front of products and moves of values."""

    name = "signs"

    @classmethod
    def applies(cls, context: FloatContext) -> bool:
        return not context.element.floating

    def run(self, module: GraphModule) -> bool:
        compare_before(module)
        return True


class Decompose(FloatPass):
    """Calls that no operator knows are spelled out in calls that operators know, where there are such."""

    name = "decompose"

    def run(self, module: GraphModule) -> bool:
        spell_out(module)
        return True


class ExactCompare(FloatPass):
    """Integers that float32 holds are counted and compared as integers; equality of real numbers is told of."""

    name = "exact-compare"

    def run(self, module: GraphModule) -> bool:
        separate(module.graph)
        if not self.context.element.floating:
            count_in_integers(module)
        if has_integers(module.graph):
            compare_integers(module)
        left = [node for node in self.context.equalities if not node._erased and compares_reals(node)]
        self.context.findings += map(equality, left)
        return True


class Respell(FloatPass):
    """Every thing has one spelling, that of its operator's patterns; complex numbers are refused."""

    name = "respell"

    def run(self, module: GraphModule) -> bool:
        respell(module.graph)
        check_real(module.graph)
        return True


class Domains(FloatPass):
    """Each reader gets real numbers, integers or truth values as it needs them; uninitialized memory is refused."""

    name = "domains"
    level_after = Level.FLOAT_CANONICAL

    def run(self, module: GraphModule) -> bool:
        self.context.findings[:0] = settle_domains(module)
        fold(module.graph)  # numbers beside integers under their shape, too
        module.graph.eliminate_dead_code()
        check_filled(module.graph)
        return True


class NeededState(FloatPass):
    """State that no output depends on is gone."""

    name = "needed-state"
    level_before = level_after = Level.FLOAT_CANONICAL

    @classmethod
    def applies(cls, context: FloatContext) -> bool:
        return context.state is not None

    def run(self, module: GraphModule) -> bool:
        self.context.state = keep_needed(module, self.context.state or ())
        return True


class Filters(FloatPass):
    """A filter with feedback is one call, whichever loop it was written as."""

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
    InlineContexts,  # one graph, before anything is looked for in it
    PlainWrites,  # before any call is moved or removed: order decides what a write is seen by
    ScalarDimensions,  # so that later passes find a dimension where a call names one
    Simplify,  # masks are found among numbers, not among calls that make them
    WriteOutMasks,  # a rule for each part, not for each fused call
    Masks,  # while softmax and maxima are still the calls that the user wrote
    Fold,  # constants that masks left
    ComplexPairs,  # before calls are spelled out, so that those that it makes are
    Signs,  # before a comparison is spelled out
    Decompose,  # before spellings: it makes calls that have others
    ExactCompare,  # when the calls are known of which integers are made, before functions become tables
    Respell,  # one spelling of each call that is left
    Domains,  # conversions, when every call is spelled as it stays
    NeededState,  # of a model with state, when nothing else will remove a reader
    Filters,  # loops of plain products and sums over state that is needed
)


def run_float(context: FloatContext, intermediates: Path | None = None) -> GraphModule:
    """Runs every pass that applies, in place, and returns the module."""
    for number, one in enumerate(FLOAT_PIPELINE, start=1):
        if one.applies(context):
            run_pass(context.module, one(context), number, intermediates)
    return context.module


def canonicalize(
    module: GraphModule,
    inputs: Sequence[torch.Tensor] | None = None,
    element: Element = USUAL,
    found: list[Finding] | None = None,
) -> GraphModule:
    """Brings a graph without state of its own into the form that is known, in place. What a user should look at is
    added to `found`."""
    return run_float(FloatContext(module, element, inputs, findings=[] if found is None else found))
