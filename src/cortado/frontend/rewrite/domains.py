"""Value domains of a graph, and the operators that compute in them: real numbers, integers, truth values.

A domain is inferred for each node in the order of the graph. Then calls that give real numbers, and the outputs, ask
for their operands in the form in which they read them: integers as int32, truth values as 0 and 1, either as real
numbers. So a count stays an integer until a real number is needed, and conversions are inserted only where domains
meet.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

from cortado.base.errors import CortadoError, Refused
from cortado.base.findings import Finding, FindingKind
from cortado.frontend.quantize.prequantized import is_dequantize
from cortado.ir.analysis import Analysis
from cortado.ir.domain import (
    DOMAIN,
    EXACT_IN_FLOAT,
    REALS,
    TRUTHS,
    WORDS,
    Domain,
    DomainKind,
    DomainRule,
    Interval,
    OperandForm,
    interval_of,
)
from cortado.ir.facts import STATE, VALUE, WANTED, dtype, is_float32, wanted_element
from cortado.ir.graph import Bound, add_call, bind, describe, output_node
from cortado.ir.matching import patterns_of
from cortado.ir.op import registry
from cortado.ops.elementwise.compare import COMPARED_IDS
from cortado.ops.elementwise.pointwise import sources
from cortado.ops.float_graph import add_constant, constant_data, is_constant
from cortado.ops.integer.calculate import How
from cortado.ops.integer.counted import counted
from cortado.ops.integer.forms import MOVED, operands
from cortado.ops.integer.truth import AS_INTEGER, AS_TRUTH, compared_number
from cortado.ops.integer.words import WORD_BITS, WRAPPED_IDS, calculated_by, integer_in
from cortado.ops.io.widen import WIDENED, WIDTHS
from cortado.ops.meaning import ABOVE, BELOW, CallKind, means

aten = torch.ops.aten
Tensor = torch.Tensor

_IN_FLOAT = Interval(-EXACT_IN_FLOAT, EXACT_IN_FLOAT)
_NO_RULE = DomainRule(aten=())


def settle_domains(module: GraphModule) -> list[Finding]:
    """Infers every node's domain and inserts conversions, in place; a graph of real numbers only is unchanged. Returns
    a finding about int64 arithmetic that can't be proven to fit."""
    if not any(has_integer_dtype(node) for node in module.graph.nodes if node.op != "output"):
        return []
    DOMAINS.infer(module.graph)
    meeting = Meeting(module.graph)
    meeting.rewrite()
    return [_unproven(meeting.unproven)] if meeting.unproven else []


USUAL = Interval(-(2**16), 2**16)  # the interval assumed for integers whose interval is unknown


def _unproven(nodes: Sequence[Node]) -> Finding:
    others = f" ({len(nodes) - 1} more)" if len(nodes) > 1 else ""
    return Finding(
        kind=FindingKind.UNPROVEN_INTEGERS,
        text=(
            f"{describe(nodes[0])}{others} calculates in int64 with integers whose interval is not known, but a "
            "compiled model has 32 bits: a result that exceeds them differs from torch's, whatever the calibration "
            "data shows; give the interval of each integer input (--range NAME=LOW..HIGH), or clamp what is multiplied"
        ),
        found=float(len(nodes)),
        limit=0.0,
        tensor=nodes[0].name,
    )


def has_integer_dtype(node: Any) -> bool:
    """Whether a tensor's dtype is integer or bool, whatever its numbers represent."""
    value = VALUE.of(node) if isinstance(node, Node) else None
    return isinstance(value, Tensor) and not (value.dtype.is_floating_point or value.dtype.is_complex)


# ---- inference -----------------------------------------------------------------------------------------------


class _Domains(Analysis[Domain]):
    """The domain of each node's values, by the `DomainRule` of its call."""

    key = DOMAIN

    def transfer(self, node: Node) -> Domain:
        return _inferred(node)

    def contradicts(self, kept: Domain, found: Domain) -> bool:
        return kept.interval is not None and found.interval is not None and not kept.interval.meets(found.interval)


DOMAINS = _Domains()
domain_of = DOMAINS.of


def rule_of(node: Node) -> DomainRule:
    """Returns the domain rule of a call: its operator's, or the common one of calls that only move values."""
    known = registry().domains.get(node.target)  # type: ignore[call-overload]
    if known is not None:
        return known
    spelled = registry().rewrites.get(node.target)  # type: ignore[call-overload]
    moves = any(pattern.moves for pattern in patterns_of(node.target)) or (spelled is not None and spelled.moves)
    return MOVED if moves else _NO_RULE


def interval(value: Any) -> Interval | None:
    """Returns the bounds of a tensor's integers, or of a number; None if unknown."""
    number = integer_in(value)
    if number is not None:
        return Interval(number, number)
    return domain_of(value).interval if isinstance(value, Node) else None


def _inferred(node: Node) -> Domain:
    value = VALUE.of(node)
    if not isinstance(value, Tensor) or value.dtype.is_complex:
        return REALS
    if value.dtype == torch.bool:
        return TRUTHS
    if is_constant(node):
        return _of_constant(constant_data(node))
    if node.op != "call_function":
        return REALS if value.dtype.is_floating_point else Domain(DomainKind.INTEGER, interval_of(value.dtype))
    bound, rule = bind(node), rule_of(node)
    if rule.keeps_truth and all(domain_of(one).kind is DomainKind.TRUTH for one in operands(bound)):
        return TRUTHS
    found = rule.bounds(_BOUNDS, bound)
    if not value.dtype.is_floating_point:
        held = interval_of(value.dtype)
        return Domain(DomainKind.INTEGER, found if found is not None and fits(found, value.dtype) else held)
    closed = rule.closed(bound) if callable(rule.closed) else rule.closed
    exact = closed and _of_integers(bound) and (found is None or found.within(_IN_FLOAT))
    return Domain(DomainKind.INTEGER, found) if exact else REALS


def _of_constant(data: Tensor) -> Domain:
    """Returns the domain of a constant; one in float can hold integers, too."""
    if not data.numel() or (data.is_floating_point() and not bool((data.isfinite() & (data == data.round())).all())):
        return REALS
    found = Interval(int(data.min()), int(data.max()))
    return Domain(DomainKind.INTEGER, found) if not data.is_floating_point() or found.within(_IN_FLOAT) else REALS


def _of_integers(bound: Bound) -> bool:
    numbers = [value for value in bound.values.values() if isinstance(value, float)]
    tensors = all(domain_of(one).kind is not DomainKind.REAL for one in bound.node.all_input_nodes)
    return tensors and all(number.is_integer() for number in numbers)


def fits(found: Interval, kind: torch.dtype) -> bool:
    """Whether a dtype holds this interval; for int64, whether 32 bits do."""
    return found.within(interval_of(kind) or WORDS)


# ---- where domains meet --------------------------------------------------------------------------------------


def truncates(node: Node) -> bool:
    """Whether a call converts float32 to integers and float32 has an operator for it."""
    return (
        means(node, CallKind.CONVERT)
        and wanted_element(node).floating
        and dtype(node) in (torch.int32, torch.int64)
        and is_float32(node.all_input_nodes[0])
    )


class _Bounds:
    """The queries that rules can make while domains are inferred."""

    interval = staticmethod(interval)


_BOUNDS: Any = _Bounds()


class _Usually:
    """The same queries, with unknown integers assumed to have the usual interval."""

    @staticmethod
    def interval(value: Any) -> Interval | None:
        return interval(value) or (USUAL if isinstance(value, Node) else None)


_USUALLY: Any = _Usually()


class Meeting:
    """The rewriting of integers and truth values to operators; implements `ir.domain.Making` for the operators'
    rules."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.pieces = sources(graph)
        self.made: dict[tuple[DomainKind, Node], Node | None] = {}
        self.behind: dict[Node, Node] = {}  # the node that followed a node before anything was inserted
        self.replaced: dict[Node, Node] = {}
        self.unproven: list[Node] = []  # int64 calls

    def rewrite(self) -> None:
        for node in list(self.graph.nodes):
            if node.op == "call_function" and node not in self.pieces and not has_integer_dtype(node):
                with self.graph.inserting_before(node):
                    self._read(node)
        self._return()
        self.graph.eliminate_dead_code()

    def _read(self, node: Node) -> None:
        """Makes a call that gives real numbers read its operands in the form that it needs."""
        if is_dequantize(node):  # its codes are real numbers already
            return
        rule = rule_of(node)
        read = [one for one in node.all_input_nodes if has_integer_dtype(one) and (rule.real or not is_constant(one))]
        if not read or not isinstance(VALUE.of(node), Tensor):
            return
        new = rule.real(self, bind(node)) if rule.real is not None else self.again(bind(node), self.real)
        if new is not None and new is not node:
            if wanted_element(node).floating:
                WANTED.take(new, node)
            self.replaced[node] = new
            node.replace_all_uses_with(new)

    def again(self, bound: Bound, form: OperandForm) -> Node | None:
        """Adds the same call on operands in another form, except those that it takes as integers."""
        node, named = bound.node, [name for name in rule_of(bound.node).integers if name in bound.values]
        integers = [one for name in named for one in bound.nodes(name)]
        read = [one for one in node.all_input_nodes if has_integer_dtype(one)]
        given = {one: self.word(one) if one in integers else form(one) for one in read}
        if None in given.values():
            return None
        if all(one is new for one, new in given.items()):
            return node
        kept = {key: value for key, value in node.kwargs.items() if key != "dtype"}
        args, kwargs = map_arg((node.args, kept), lambda one: given.get(one) or one)
        target: Any = node.target
        try:
            return add_call(node, target, *args, **kwargs)
        except (RuntimeError, IndexError):  # torch itself takes only integers there, such as positions
            return None

    def interval(self, value: Any) -> Interval | None:
        return interval(value)

    def holds_truth(self, value: Any) -> bool:
        """Whether a value holds truth values, by inference: a comparison's result does, whatever its dtype."""
        return isinstance(value, Node) and domain_of(value).kind is DomainKind.TRUTH

    # ---- the three forms

    def real(self, value: Any) -> Node | None:
        node: Node = value
        if not has_integer_dtype(node):
            return node
        return self._once(DomainKind.REAL, node)

    def truth(self, value: Any) -> Node | None:
        return self._once(DomainKind.TRUTH, value)

    def word(self, value: Any) -> Node | None:
        return self._once(DomainKind.INTEGER, value)

    def _once(self, kind: DomainKind, node: Node) -> Node | None:
        """Returns a form of a node, made once, right after the node, so that it precedes all readers."""
        makers = {DomainKind.REAL: self._real, DomainKind.TRUTH: self._truth, DomainKind.INTEGER: self._word}
        if (kind, node) not in self.made:
            with self.graph.inserting_before(self.behind.setdefault(node, node.next)):
                self.made[kind, node] = makers[kind](node)
        return self.made[kind, node]

    def _is_table(self, node: Node) -> bool:
        """Whether a node is a function of real numbers or bytes, an input or a constant: conversions of it become
        tables."""
        return node in self.pieces or node.op == "placeholder" or is_constant(node)

    def _real(self, node: Node) -> Node | None:
        if self._is_table(node):
            return add_call(node, aten.to.dtype, node, torch.float32)
        if self.holds_truth(node):
            return self.truth(node)
        word = self.word(node)
        return None if word is None else add_call(node, aten.to.dtype, word, torch.float32)

    def _truth(self, node: Node) -> Node | None:
        if is_constant(node):
            return add_constant(node, "truth", (constant_data(node) != 0).to(torch.float32))
        rule = rule_of(node)
        if not self.holds_truth(node):
            return self._not_zero(node)
        if self._is_table(node):
            return add_call(node, aten.to.dtype, node, torch.float32)
        if rule.truth is not None:
            return rule.truth(self, bind(node))
        return self.again(bind(node), self.truth) if rule.keeps_truth else None

    def _not_zero(self, node: Node) -> Node | None:
        """Compares a number with 0."""
        if not has_integer_dtype(node) or node in self.pieces:
            return compared_number(node, node, aten.ne.Scalar, 0)
        word = self.word(node)
        return None if word is None else add_call(node, COMPARED_IDS, word, [], 0, BELOW | ABOVE)

    def _word(self, node: Node) -> Node | None:
        if is_constant(node):
            narrow = has_integer_dtype(node) and dtype(node) not in (torch.int32, torch.int64)
            return add_constant(node, "words", constant_data(node).to(torch.int64)) if narrow else node
        if not has_integer_dtype(node):
            return None
        if self.holds_truth(node):
            truth = self.truth(node)
            return None if truth is None else add_call(node, AS_INTEGER, truth)
        if truncates(node):
            return node
        root = self.pieces.get(node)
        if root is not None and dtype(root).is_floating_point:
            return self._counted(node, root)
        rule = rule_of(node) if node.op == "call_function" else _NO_RULE
        if rule.words is None:
            return add_call(node, WIDENED, node) if dtype(node) in WIDTHS else node
        made = rule.words(self, bind(node))
        return self._within_type(node, made) if made is not None and rule.wraps else made

    def _counted(self, node: Node, root: Node) -> Node | None:
        """Computes integers that are a function of a tensor of real numbers; for a root of integers, codes would round
        them."""
        if domain_of(root).kind is DomainKind.INTEGER:
            raise Refused(
                f"{describe(node)} converts to integers float32 numbers that are computed from integers whose interval "
                "is unknown or too large; give the interval of an integer input (--range NAME=LOW..HIGH), clamp the "
                "integers, or stay in integers (// for a quotient that is rounded down)",
                [node],
            )
        return counted(node, self.replaced.get(root, root))

    def _within_type(self, node: Node, made: Node) -> Node:
        """Wraps around as torch's dtypes do; int64 arithmetic that exceeds 32 bits is refused."""
        found, kind = rule_of(node).bounds(self, bind(node)), dtype(node)
        if kind == torch.int64:
            if found is not None and not fits(found, kind):
                raise CortadoError(
                    f"{describe(node)} can give integers from {found}, expected integers of 32 bits ({WORDS}), in "
                    "which a compiled model calculates; clamp its operands, or divide before multiplying"
                )
            if found is None and not self._usually_fits(node):
                self.unproven.append(node)
            return made
        if found is not None and fits(found, kind):
            return made
        bits = torch.iinfo(kind).bits
        if bits == WORD_BITS and rule_of(node) is MOVED:
            return made
        return add_call(node, WRAPPED_IDS, made, bits, kind != torch.uint8)

    def _usually_fits(self, node: Node) -> bool:
        """Whether 32 bits hold the result for integers of usual size. Sums over loop iterations are exempt: a counter
        of calls would be reported in every model."""
        found = rule_of(node).bounds(_USUALLY, bind(node))
        return found is None or fits(found, torch.int64)

    # ---- the outputs

    def _return(self) -> None:
        output = output_node(self.graph)
        with self.graph.inserting_before(output):
            returned = map_arg(output.args, self._returned)[0]
            output.args = (self._own(returned),)

    def _returned(self, node: Node) -> Node:
        if node.op != "call_function" or not has_integer_dtype(node):
            return node
        if dtype(node) != torch.bool:
            return self.word(node) or node
        truth = self.truth(node)
        return node if truth is None else add_call(node, AS_TRUTH, truth)

    def _own(self, returned: Any) -> Any:
        """Returns the user's outputs, copied if they would be in a state's memory, followed by the new state."""
        count = sum(1 for node in self.graph.nodes if node.op == "placeholder" and STATE.known(node))
        if not count or not isinstance(returned, list | tuple):
            return returned
        users = len(returned) - count
        return (*(self._copy(node) for node in returned[:users]), *returned[users:])

    def _copy(self, node: Node) -> Node:
        """Copies an output that is the state before the call, as state is overwritten."""
        root = node
        while means(root, CallKind.VIEW):
            root = root.all_input_nodes[0]
        if not STATE.known(root) or dtype(root).is_floating_point:
            return node
        if dtype(root) != torch.bool:
            return calculated_by(node, node, 0, How.SUM)
        real = self.real(node)
        return node if real is None else add_call(node, AS_TRUTH, add_call(node, aten.minimum.default, real, real))
