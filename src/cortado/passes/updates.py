"""updates: makes a gradient descent step of a tensor one call, which reads only the factors of matrix products."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch.fx import GraphModule, Node

from cortado.ir.graph import add_constant, constant_names, constant_value, fake_mode_of, remove_unused_constants, shape
from cortado.ops.conv.float32 import FLOAT_MATMUL
from cortado.ops.elementwise.float32 import FLOAT_CALCULATE
from cortado.ops.elementwise.float32_update import FLOAT_UPDATE, MOVED, OUT
from cortado.ops.floats import NO_BOUNDS
from cortado.ops.integer.calculate import How
from cortado.ops.move.reshape import TRANSPOSE
from cortado.ops.pool.float32 import FLOAT_REDUCE
from cortado.passes.base import LoweredPass, PassContext
from cortado.passes.clean_up import merge_calls
from cortado.passes.lower import add_operator_call, add_part, add_view
from cortado.passes.orders import behind_views, is_a, operands

_SIGNS = {How.SUM: 1.0, How.DIFFERENCE: -1.0}


@dataclass(frozen=True)
class _Term:
    """A term of a sum: a tensor, behind views, times a number and perhaps a computed factor."""

    value: Node
    number: float = 1.0
    computed: Node | None = None


class Updates(LoweredPass):
    """Rewrites an output that is a sum of an input and other terms, such as p - rate * g, as one call, which can update
    the input in place; a gradient that is a matrix product is then never materialized. Rewrites the sum of squares of a
    column times a row as a product of two sums, a sum of products as a row times a column, and a row times a transposed
    matrix as the matrix times a column."""

    name: ClassVar[str] = "updates"

    @classmethod
    def applies(cls, context: PassContext) -> bool:
        return not context.stream

    def run(self, module: GraphModule) -> bool:
        mode = fake_mode_of(module.graph)
        assert mode is not None
        self.mode = mode
        constants = constant_names(self.program)
        self.given = {one for one in module.graph.nodes if one.op == "placeholder" and one.name not in constants}
        self.parts: dict[Node, Node] = {}
        rewrites = (self._row_times_matrix, self._squares, self._sum_of_products, self._update, self._moved)
        changed = [self._rewritten(node, rewrite) for rewrite in rewrites for node in list(module.graph.nodes)]
        merge_calls(module)
        module.graph.eliminate_dead_code()
        remove_unused_constants(self.program)
        return any(changed)

    def _rewritten(self, node: Node, rewrite: Any) -> bool:
        if node.op != "call_function" or not node.users:
            return False
        with node.graph.inserting_before(node):
            made = rewrite(node)
            if made is None:
                return False
            node.replace_all_uses_with(add_view(node, self.mode, made, shape(node)))
        node.graph.eliminate_dead_code()
        return True

    def _matmul(self, like: Node, left: Node, right: Node) -> Node:
        return add_operator_call(like, self.mode, FLOAT_MATMUL, {"self": left, "mat2": right})

    def _product(self, like: Node, factors: Sequence[Node], number: float = 0.0) -> Node:
        """Adds a product of two tensors, or of one and a number."""
        arguments = {
            "self": [factors[0]],
            "other": list(factors[1:]),
            "number": number,
            "how": int(How.PRODUCT),
            "activation_min": NO_BOUNDS[0],
            "activation_max": NO_BOUNDS[1],
        }
        return add_operator_call(like, self.mode, FLOAT_CALCULATE, arguments)

    # ---- products of matrices ----------------------------------------------------------------------------------------

    def _row_times_matrix(self, node: Node) -> Node | None:
        if not _is_matmul(node):
            return None
        row, matrix = operands(node)
        turned = behind_views(matrix)
        if shape(row)[:2] != (1, 1) or not is_a(turned, TRANSPOSE) or math.prod(shape(turned)) == 1:
            return None
        source, (_, depth, columns) = operands(turned)[0], shape(matrix)
        if [size for size in shape(source) if size != 1] != [columns, depth]:
            return None
        rows = add_view(node, self.mode, source, (1, columns, depth))
        return self._matmul(node, rows, add_view(node, self.mode, row, (1, depth, 1)))

    def _squares(self, node: Node) -> Node | None:
        """Rewrites the sum of squares of all elements of a column times a row."""
        square = _summed(node)
        factors = None if square is None else _factors(square, How.PRODUCT)
        gradient = None if factors is None or factors[0] is not factors[1] else behind_views(factors[0])
        if gradient is None or not _is_matmul(gradient) or shape(operands(gradient)[0])[::2] != (1, 1):
            return None
        found = []
        for one in operands(gradient):
            count = math.prod(shape(one))
            squares = self._product(node, [one, one])
            line = add_view(node, self.mode, squares, (1, count, 1))
            found.append(add_operator_call(node, self.mode, FLOAT_REDUCE, {**node.kwargs, "input": line}))
        return self._product(node, found)

    def _sum_of_products(self, node: Node) -> Node | None:
        """Rewrites the sum of all products of two tensors as a row times a column."""
        products = _summed(node)
        if products is None or not _is_only_read_here(products):
            return None
        factors, count = _factors(products, How.PRODUCT) or [], math.prod(shape(products))
        if [math.prod(shape(one)) for one in factors] != [count, count]:
            return None
        row, column = (behind_views(one) for one in factors)
        return self._matmul(
            node, add_view(node, self.mode, row, (1, 1, count)), add_view(node, self.mode, column, (1, count, 1))
        )

    # ---- updates -----------------------------------------------------------------------------------------------------

    def _update(self, node: Node) -> Node | None:
        if not any(_is_output(user) for user in _readers(node)) or _sum_of(node) is None:
            return None
        terms = self._terms(node, node)
        mine = [one for one in terms if self._is_mine(one, node)]
        rest = [one for one in terms if one not in mine[:2]]
        if not mine or len(rest) != 1 or _calls(terms) < 2:
            return None
        return self._made(node, mine[0], rest[0], mine[1:2])

    def _is_mine(self, term: _Term, node: Node) -> bool:
        return term.value in self.given and term.computed is None and shape(term.value) == shape(node)

    def _terms(self, node: Node, like: Node) -> list[_Term]:
        """Returns the terms of a sum; a term that nothing else reads is expanded if that leaves at most one term that
        is not an input."""
        parts = _sum_of(node)
        assert parts is not None
        found = [_scaled(part, sign) for part, sign in parts]
        for at in range(2):
            term = found[at]
            if term.computed is None and _sum_of(term.value) is not None and _is_only_read_here(term.value):
                inner = [replace(one, number=one.number * term.number) for one in self._terms(term.value, like)]
                apart = [*found[:at], *inner, *found[at + 1 :]]
                if sum(not self._is_mine(one, like) for one in apart) <= 1:
                    return apart
        return found

    def _made(self, node: Node, first: _Term, gradient: _Term, others: Sequence[_Term]) -> Node | None:
        source, sizes = gradient.value, (1, math.prod(shape(node)))
        factor: Node | None = None
        if math.prod(shape(source)) != sizes[1]:
            return None
        rows = add_view(node, self.mode, source, sizes)
        if _is_matmul(source) and shape(source)[0] == 1 and _is_only_read_here(source):
            left, right = operands(source)
            sizes = (shape(left)[1], shape(right)[2])
            factor = add_view(node, self.mode, left, shape(left)[1:])
            rows = add_view(node, self.mode, right, shape(right)[1:])
        viewed = [add_view(node, self.mode, one.value, sizes) for one in (first, *others)]
        arguments = {
            "self": viewed[0],
            "factor": self._factor(node, factor, gradient),
            "rows": rows,
            "other": viewed[1:],
            "weight": first.number,
            "decay": others[0].number if others else 0.0,
            "rate": 0.0,
        }
        return self._called(node, arguments, OUT)

    def _called(self, like: Node, arguments: dict[str, Any], result: str) -> Node:
        """Adds a call of the update, of which one result is read."""
        call = add_operator_call(like, self.mode, FLOAT_UPDATE, arguments)
        part = add_part(like, call, result)
        self.parts[part] = call
        return part

    def _moved(self, node: Node) -> Node | None:
        """Merges an update of a second tensor by a multiple of the first's result into the first call, which computes
        both."""
        call = self.parts.get(node)
        given: dict[str, Any] = {} if call is None else dict(call.kwargs)
        speed = behind_views(given["rows"]) if given else None
        first = None if speed is None else self.parts.get(speed)
        if speed is None or first is None or given["weight"] != 1.0 or given["other"]:
            return None
        rate = constant_value(self.program, given["factor"])
        others: Any = first.kwargs["other"]
        moved = [behind_views(one) for one in others]
        if rate is None or rate.numel() != 1 or moved != [behind_views(given["self"])]:
            return None
        with node.graph.inserting_before(speed):
            both = self._called(speed, {**first.kwargs, "rate": float(rate)}, OUT)
            part = add_part(node, self.parts[both], MOVED)
        speed.replace_all_uses_with(both)
        return part

    def _factor(self, like: Node, factor: Node | None, term: _Term) -> Node:
        """Returns the factors of the rows: the left side of a matrix product, times any other factors."""
        computed = None if term.computed is None else add_view(like, self.mode, term.computed, (1, 1))
        if factor is None and computed is None:
            return add_constant(self.program, f"{like.name}_factor", torch.tensor([[term.number]]))
        both = [one for one in (factor, computed) if one is not None]
        made = both[0] if len(both) == 1 else self._product(like, both)
        return made if term.number == 1.0 else self._product(like, [made], term.number)


def _calls(terms: Sequence[_Term]) -> int:
    """Returns the least number of calls for a sum of these terms."""
    products = [one for one in terms if abs(one.number) != 1.0 or one.computed is not None]
    return len(terms) - 1 + len(products) + sum(_is_matmul(one.value) for one in terms)


def _is_matmul(node: Node) -> bool:
    return is_a(node, FLOAT_MATMUL)


def _summed(node: Node) -> Node | None:
    """Returns the tensor that a call sums entirely; None for other calls."""
    is_sum = is_a(node, FLOAT_REDUCE) and node.kwargs["how"] == How.SUM and math.prod(shape(node)) == 1
    return behind_views(operands(node)[0]) if is_sum else None


def _factors(node: Node, *how: How) -> list[Node] | None:
    """Returns the operands, one or two, of a calculation without bounds; None for other calls."""
    if not is_a(node, FLOAT_CALCULATE) or node.kwargs["how"] not in how:
        return None
    bounds = (node.kwargs["activation_min"], node.kwargs["activation_max"])
    return operands(node) if bounds == NO_BOUNDS else None


def _sum_of(node: Node) -> list[tuple[Node, float]] | None:
    """Returns the two operands of a sum or difference without broadcasting, with their signs; None for other calls."""
    parts = _factors(node, *_SIGNS)
    if parts is None or len(parts) != 2 or any(math.prod(shape(one)) != math.prod(shape(node)) for one in parts):
        return None
    how: Any = node.kwargs["how"]
    return [(parts[0], 1.0), (parts[1], _SIGNS[How(how)])]


def _scaled(part: Node, sign: float) -> _Term:
    """Separates a term from its factors, if nothing else reads the product."""
    value = behind_views(part)
    factors = _factors(value, How.PRODUCT) if _is_only_read_here(value) else None
    if factors is None:
        return _Term(value, sign)
    number: Any = value.kwargs["number"]
    if len(factors) == 1:
        inner = _scaled(factors[0], sign)
        return replace(inner, number=inner.number * number)
    small, large = sorted(factors, key=lambda one: math.prod(shape(one)))
    inner = _scaled(large, sign)
    is_number = math.prod(shape(small)) == 1 and inner.computed is None
    return replace(inner, computed=small) if is_number else _Term(value, sign)


def _is_output(node: Node) -> bool:
    return node.op == "output"


def _readers(node: Node) -> list[Node]:
    """Returns the readers of a value, including those that read it through views."""
    found: list[Node] = []
    for user in node.users:
        found += _readers(user) if behind_views(user) is not user else [user]
    return found


def _is_only_read_here(node: Node) -> bool:
    return len(_readers(node)) == 1
