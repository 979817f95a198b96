"""The choice of the pattern for each node: decided once, before a graph is quantized, and stored."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Graph, Node

from cortado.base.element import USUAL, Element
from cortado.base.errors import NotInteger, Reject
from cortado.ir.facts import FactKey, dtype, holds_integers, wanted_element
from cortado.ir.graph import Bound, bind, describe
from cortado.ir.op import Pattern, registry
from cortado.ir.roles import Activation, Mask, Plain, Quantization, SharedWith


@dataclass(frozen=True)
class Match:
    """The pattern that takes a node, and the quantization it asks for."""

    pattern: Pattern
    quantization: Quantization


def patterns_of(target: Any, element: Element = USUAL) -> tuple[Pattern, ...]:
    """Returns the patterns for a target, in the order in which they are tried."""
    if not isinstance(target, OpOverload):
        return ()
    first = registry().floats.get(target) if element.floating else None
    return (*([first] if first is not None else []), *registry().patterns.get(target, ()))


MATCH: FactKey[Match | Reject] = FactKey("cortado_match")  # of a call: the decision made when it was quantized


def not_taken(refused: Mapping[Node, str]) -> NotInteger:
    """Builds the error for calls that no operator takes, with their reasons."""
    floating = all(wanted_element(node).floating for node in refused)
    return NotInteger(list(refused), [f"{describe(node)}: {why}" for node, why in refused.items()], floating=floating)


def find(node: Node) -> Match | Reject:
    """Returns the stored match of a node, or else the one that holds now; a Reject says why there is none."""
    return MATCH.of(node) or decide(node)


def settle(graph: Graph, besides: Callable[[Node], bool] = lambda node: False) -> None:
    """Decides and stores the match of every call of a graph but those in `besides`: later stages go by it, however its
    operands change."""
    for node in graph.nodes:
        if node.op == "call_function" and not besides(node):
            MATCH.note(node, decide(node))


def takes(node: Node, wanted: Element) -> bool:
    """Whether a pattern takes the call with its real numbers in this element."""
    return isinstance(decide(node, wanted), Match)


def decide(node: Node, wanted: Element | None = None) -> Match | Reject:
    """Returns the first pattern that takes a node, or the reason of the most general one; `wanted` overrides the stored
    element."""
    some = node.target in registry().rewrites if isinstance(node.target, OpOverload) else False
    bound = bind(node, wanted)
    kind = bound.element.name if bound.element.floating else "integer"
    refused = Reject(
        "supported in some forms only, and this is not one of them (see `cortado ops`)"
        if some
        else f"no {kind} operator for it (see `cortado ops`)"
    )
    for pattern in patterns_of(node.target, bound.element):
        quantization = pattern.match(bound)
        if isinstance(quantization, Quantization):
            reason = _not_real(bound, quantization) or _too_narrow(bound, quantization)
            if reason is None:
                return Match(pattern, quantization)
            quantization = Reject(reason)
        refused = quantization
    return refused


def _not_real(bound: Bound, quantization: Quantization) -> str | None:
    """Returns why an activation operand can't be quantized: integers and truth values have no scale; None if all
    can."""
    activations = [name for name, role in quantization.inputs.items() if isinstance(role, Activation)]
    for argument, operand in [(name, node) for name in activations for node in bound.nodes(name)]:
        if holds_integers(operand):
            kind = str(dtype(operand)).removeprefix("torch.")
            return (
                f"its {argument} holds {kind} values, but only real numbers can be quantized; integers support "
                "arithmetic (+ - * // % minimum maximum where), lookup (embedding), comparison, movement (reshape, "
                "slice, cat, expand) and conversion to float32"
            )
        moves = isinstance(quantization.output, SharedWith)
        if dtype(operand) != torch.float32 and dtype(operand).is_floating_point and not moves:
            kind = str(dtype(operand)).removeprefix("torch.")
            return (
                f"is computed in {kind}, expected float32; remove what converts its {argument}, or convert it back "
                "(x.float())"
            )
    return None


def _too_narrow(bound: Bound, quantization: Quantization) -> str | None:
    """Returns why a pattern can't take codes as wide as asked for; None if it can."""
    wanted = bound.element
    if wanted.floating:
        return (
            None
            if quantization == Quantization({}, Plain())
            else f"takes quantized codes only, but {wanted.name} was requested"
        )
    roles = [one for one in quantization.inputs.values() if isinstance(one, Activation) and not isinstance(one, Mask)]
    taken = [one.element for one in roles]
    if not taken or any(one is None or one.bits >= wanted.bits for one in taken):
        return None
    names = " or ".join(sorted({one.name for one in taken if one is not None}))
    return f"takes {names} codes only, but {wanted.name} was requested (--activations, --int16)"
