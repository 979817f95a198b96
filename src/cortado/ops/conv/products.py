"""Sums of products in other spellings: einsum, baddbmm, mv, dot, inner, outer and so on become matrix products."""

import math
import string
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.fx import Node

from cortado.base.errors import Reject
from cortado.ir.graph import Bound, add_call, shape
from cortado.ir.op import Decomposition, Lowering, Pattern, Rewrite
from cortado.ops.conv.batch_matmul import product
from cortado.ops.float_graph import add_constant, add_permute, add_view, constant_data, is_constant
from cortado.ops.pool.reductions import Reduction, reduce

aten = torch.ops.aten
Tensor = torch.Tensor


# ---- einsum --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lettered:
    """A tensor, with a letter for each of its dimensions."""

    node: Node
    letters: str

    def sizes(self) -> dict[str, int]:
        return dict(zip(self.letters, shape(self.node), strict=True))


DOTS = "..."


def parsed(equation: str, shapes: Sequence[Sequence[int]]) -> tuple[list[str], str] | str:
    """Returns the letters of every operand and of the result, or the reason why an einsum is refused."""
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if not arrow:
        letters = sorted(letter for letter in set(inputs) - set(",.") if inputs.count(letter) == 1)
        output = (DOTS if DOTS in inputs else "") + "".join(letters)
    spelled = _letters_for_dots(equation, terms, shapes)
    if spelled is None:
        return "has an ellipsis over differing dimensions; write a letter for each dimension, and expand the operands"
    terms, output = [term.replace(DOTS, spelled) for term in terms], output.replace(DOTS, spelled)
    if any(len(set(term)) < len(term) for term in terms):
        return "names a dimension of an operand twice, which takes a diagonal; use torch.diagonal"
    assert [len(term) for term in terms] == [len(sizes) for sizes in shapes]  # torch has checked that
    known: dict[str, int] = {}
    for term, sizes in zip(terms, shapes, strict=True):
        if any(known.setdefault(letter, size) != size for letter, size in zip(term, sizes, strict=True)):
            return "repeats a dimension of size 1; expand that operand first"
    return terms, output


def _is_unusual(bound: Bound) -> bool:
    """Whether the einsum has a diagonal or broadcasts a dimension: torch then decomposes it into smaller calls."""
    return isinstance(parsed(bound["equation"], [shape(operand) for operand in bound["tensors"]]), str)


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Computes nn.Bilinear as two products: a linear layer of the first input yields the weights for the second."""
    made, first, second = weight.shape
    weights = weight.permute(1, 0, 2).reshape(first, made * second)
    rows = torch.mm(input1.reshape(-1, first), weights).reshape(-1, made, second)
    sums = torch.bmm(rows, input2.reshape(-1, second, 1)).reshape(*input1.shape[:-1], made)
    return sums if bias is None else sums + bias


def _letters_for_dots(equation: str, terms: Sequence[str], shapes: Sequence[Sequence[int]]) -> str | None:
    """Returns unused letters for the dimensions that an ellipsis stands for; None if operands differ in them."""
    found = set()
    for term, sizes in zip(terms, shapes, strict=True):
        before, dots, behind = term.partition(DOTS)
        if dots:
            found.add(tuple(sizes[len(before) : len(sizes) - len(behind)]))
    if len(found) > 1:
        return None
    free = [letter for letter in string.ascii_letters if letter not in equation]
    return "".join(free[: len(found.pop())]) if found else ""


def einsum(bound: Bound) -> Node | None:
    """Contracts the operands two at a time. A dimension that only one of them has and nothing else needs is summed
    first; one that both have and nothing later needs is summed by the product."""
    operands = list(bound["tensors"])
    found = parsed(bound["equation"], [shape(operand) for operand in operands])
    if isinstance(found, str):
        return None
    terms, output = found
    like = bound.node
    first, *others = (Lettered(node, term) for node, term in zip(operands, terms, strict=True))
    for position, other in enumerate(others):
        later = set(output).union(*(one.letters for one in others[position + 1 :]))
        left, right = _summed(like, first, later | set(other.letters)), _summed(like, other, later | set(first.letters))
        if left is None or right is None:
            return None
        first = _contracted(like, left, right, later)
    last = _summed(like, first, set(output))
    return None if last is None else _arranged(like, last, output, [last.sizes()[letter] for letter in output])


def _summed(like: Node, operand: Lettered, needed: set[str]) -> Lettered | None:
    """Sums an operand over the dimensions that nothing else needs."""
    dims = frozenset(place for place, letter in enumerate(operand.letters) if letter not in needed)
    if not dims:
        return operand
    left = "".join(letter for letter in operand.letters if letter in needed)
    sizes = operand.sizes()
    total = reduce(like, operand.node, dims, Reduction.SUM, [sizes[letter] for letter in left])
    return None if total is None else Lettered(total, left)


def _arranged(like: Node, operand: Lettered, letters: str, sizes: Sequence[int]) -> Node:
    """Permutes an operand's dimensions into this order and reshapes it to these sizes; a constant is computed here."""
    order = [operand.letters.index(letter) for letter in letters]
    if is_constant(operand.node):
        return add_constant(like, "operand", constant_data(operand.node).permute(order).reshape(list(sizes)))
    return add_view(like, add_permute(like, operand.node, order), sizes)


def _contracted(like: Node, left: Lettered, right: Lettered, later: set[str]) -> Lettered:
    """Multiplies two tensors, summing over the dimensions that both have and nothing later needs."""
    if is_constant(left.node):
        left, right = right, left
    sizes = {**left.sizes(), **right.sizes()}
    both = [letter for letter in left.letters if letter in right.letters]
    batch = "".join(letter for letter in both if letter in later)
    inner = "".join(letter for letter in both if letter not in later)
    mine, other = ("".join(x for x in one.letters if x not in both) for one in (left, right))
    count = {part: math.prod(sizes[letter] for letter in part) for part in (batch, inner, mine, other)}
    if inner:
        many = [count[batch]] if batch else []
        a = _arranged(like, left, batch + mine + inner, [*many, count[mine], count[inner]])
        b = _arranged(like, right, batch + inner + other, [*many, count[inner], count[other]])
        result = product(like, a, b)
    else:
        a = _arranged(like, left, batch + mine, [count[batch], count[mine], 1])
        b = _arranged(like, right, batch + other, [count[batch], 1, count[other]])
        result = add_call(like, aten.mul.Tensor, a, b)
    letters = batch + mine + other
    return Lettered(add_view(like, result, [sizes[letter] for letter in letters]), letters)


def match_einsum(bound: Bound) -> Reject:
    """Refuses the einsum calls that the rewrite left alone."""
    found = parsed(bound["equation"], [shape(operand) for operand in bound["tensors"]])
    why = found if isinstance(found, str) else "is not a product of float32 tensors"
    return Reject(f"'{bound['equation']}' {why}")


def lower_einsum(lowering: Lowering) -> Node:
    raise AssertionError("match takes nothing")


# ---- the others ----------------------------------------------------------------------------------------------


def scaled(like: Node, node: Node, factor: float) -> Node:
    return node if factor == 1 else add_call(like, aten.mul.Tensor, node, factor)


def plus_product(bound: Bound) -> Node | None:
    """Rewrites beta * self + alpha * (a @ b): baddbmm and addmv."""
    like, names = bound.node, _OPERANDS[bound.node.target]  # type: ignore[index]
    result = scaled(like, product(like, *(bound[name] for name in names)), bound["alpha"])
    return _plus(bound, result)


def plus_products(bound: Bound) -> Node | None:
    """Rewrites addbmm: the products of all batch entries in one sum."""
    like, (batches, rows, depth) = bound.node, shape(bound["batch1"])
    columns = shape(bound["batch2"])[2]
    left = _arranged(like, Lettered(bound["batch1"], "brd"), "rbd", (rows, batches * depth))
    right = _arranged(like, Lettered(bound["batch2"], "bdc"), "bdc", (batches * depth, columns))
    return _plus(bound, scaled(like, product(like, left, right), bound["alpha"]))


def _plus(bound: Bound, result: Node) -> Node:
    if bound["beta"] == 0:
        return result
    return add_call(bound.node, aten.add.Tensor, result, scaled(bound.node, bound["self"], bound["beta"]))


_OPERANDS = {aten.baddbmm.default: ("batch1", "batch2"), aten.addmv.default: ("mat", "vec")}


def to_product(bound: Bound) -> Node | None:
    """Rewrites mv, dot and vdot."""
    second = "vec" if "vec" in bound.values else "tensor" if "tensor" in bound.values else "other"
    return product(bound.node, bound["self"], bound[second])


def inner(bound: Bound) -> Node | None:
    """Rewrites torch.inner: sums of products over the last dimension of both operands."""
    left, right = bound["self"], bound["other"]
    if not shape(left) or not shape(right):
        return add_call(bound.node, aten.mul.Tensor, left, right)
    turned = Lettered(right, "".join(chr(97 + place) for place in range(len(shape(right)))))
    depth, rows = shape(right)[-1], math.prod(shape(right)[:-1])
    matrix = _arranged(bound.node, turned, turned.letters[-1] + turned.letters[:-1], (depth, rows))
    return add_view(bound.node, product(bound.node, left, matrix), shape(bound.node))


def outer(bound: Bound) -> Node | None:
    left = add_view(bound.node, bound["self"], (shape(bound["self"])[0], 1))
    return add_call(bound.node, aten.mul.Tensor, left, bound["vec2"])


EINSUM = Decomposition(aten=(aten.einsum.default,), function=aten.einsum.default, takes=_is_unusual)
BILINEAR = Decomposition(aten=(aten.bilinear.default,), function=bilinear)
EINSUM_REWRITE = Rewrite(aten=(aten.einsum.default,), rewrite=einsum, any_element=True)
EINSUM_PATTERN = Pattern(aten=(aten.einsum.default,), match=match_einsum, lower=lower_einsum)
PLUS_PRODUCT_REWRITE = Rewrite(aten=tuple(_OPERANDS), rewrite=plus_product, any_element=True)
PLUS_PRODUCTS_REWRITE = Rewrite(aten=(aten.addbmm.default,), rewrite=plus_products, any_element=True)
PRODUCT_REWRITE = Rewrite(
    aten=(aten.mv.default, aten.dot.default, aten.vdot.default), rewrite=to_product, any_element=True
)
INNER_REWRITE = Rewrite(aten=(aten.inner.default,), rewrite=inner, any_element=True)
OUTER_REWRITE = Rewrite(aten=(aten.outer.default, aten.ger.default), rewrite=outer, any_element=True)
