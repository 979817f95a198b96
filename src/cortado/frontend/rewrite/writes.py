"""In-place writes as plain calls: every alias of the written memory gets the value that a later read of it would see.

Aliasing is observed, not derived: dropout in evaluation mode, type_as or an einsum that only permutes return their
input although their schemas don't say so, and contiguous can copy or not. So the graph is run once, and tensors in one
storage are aliases.
"""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Graph, GraphModule, Interpreter, Node
from torch.multiprocessing.reductions import StorageWeakRef

from cortado.base.errors import CortadoError
from cortado.ir.facts import VALUE
from cortado.ir.graph import add_call, bind, describe
from cortado.ops.meaning import CallKind, means

aten = torch.ops.aten
Tensor = torch.Tensor
Apply = Callable[..., Any]  # applies an operator to its arguments, tensors or nodes

REMEDY = "write it without the in-place operation (y = f(x), torch.cat, torch.where)"


def written(node: Node) -> list[Node]:
    """Returns the arguments that a call writes into."""
    if not isinstance(node.target, OpOverload):
        return []
    arguments = node.target._schema.arguments
    names = [one.name for one in arguments if one.alias_info is not None and one.alias_info.is_write]
    bound = bind(node) if names else None
    return [] if bound is None else [value for name in names for value in bound.nodes(name)]


def make_writes_plain(module: GraphModule, inputs: Sequence[Tensor] | None) -> bool:
    """Gives later uses of written memory the written value; returns whether there were any writes. `inputs` (None:
    zeros) are used for one run that observes aliases."""
    graph = module.graph
    writes = [node for node in graph.nodes if written(node)]
    if not writes:
        return False
    _move_items(graph)
    observer = _Observer(module)
    with torch.no_grad():
        observer.run(*(_zeros(graph) if inputs is None else [value.clone() for value in inputs]))
    names = _Names(observer.places, observer.first, {node: number for number, node in enumerate(graph.nodes)})
    for node in writes:
        names.write(node)
    return True


def _zeros(graph: Graph) -> list[Tensor]:
    values = [VALUE.must(node) for node in graph.nodes if node.op == "placeholder"]
    return [torch.zeros(value.shape, dtype=value.dtype) for value in values]


def _move_items(graph: Graph) -> None:
    """Moves each getitem to right after the call of its tuple, so that no write is between the two."""
    for node in reversed(list(graph.nodes)):
        if node.target is operator.getitem and isinstance(node.args[0], Node):
            node.args[0].append(node)


# ---- aliases -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MemoryView:
    """The position of a tensor in memory. The weak reference keeps the storage's address from being reused."""

    storage: StorageWeakRef
    dtype: torch.dtype
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]

    def elements(self) -> Tensor:
        """Returns the position of each element in the storage."""
        last = sum((size - 1) * stride for size, stride in zip(self.size, self.stride, strict=True))
        return torch.arange(self.offset + last + 1).as_strided(self.size, self.stride, self.offset).contiguous()

    def overlaps(self, other: "MemoryView") -> bool:
        if self.storage != other.storage or 0 in (*self.size, *other.size):
            return False
        return self.dtype != other.dtype or bool(torch.isin(self.elements(), other.elements()).any())

    def axes(self) -> dict[int, int]:
        """Maps each stride to its dimension, for dimensions with several elements."""
        dims = enumerate(zip(self.size, self.stride, strict=True))
        return {stride: dim for dim, (size, stride) in dims if size > 1 and stride > 0}


def _place(value: Tensor) -> MemoryView:
    storage = StorageWeakRef(value.untyped_storage())
    return MemoryView(storage, value.dtype, int(value.storage_offset()), tuple(value.shape), value.stride())


class _Observer(Interpreter):
    """Runs a graph and records the position of every tensor."""

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.places: dict[Node, MemoryView] = {}
        self.first: dict[Node, Node] = {}  # the first node that returned the same tensor object

    def run_node(self, n: Node) -> Any:
        self._check_state(n)
        result = super().run_node(n)
        if isinstance(result, Tensor):
            self.places[n] = _place(result)
            same = [source for source in n.all_input_nodes if self.env[source] is result]
            self.first[n] = self.first[same[0]] if same else n
        return result

    def _check_state(self, node: Node) -> None:
        """Refuses a write into a constant before it happens: the memory is the user's own parameter or buffer."""
        storages = {self.places[source].storage for source in written(node) if source in self.places}
        for other, place in self.places.items() if storages else ():
            if other.op == "get_attr" and place.storage in storages:
                raise CortadoError(
                    f"{describe(node)} changes '{other.target}', which would have to persist until the next call; "
                    "cortado.compile supports such state, a quantizer on its own does not: pass it in as an input and "
                    "return it as an output"
                )


# ---- what a write changes ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Names:
    """The aliases of memory, and the order of calls."""

    places: dict[Node, MemoryView]
    first: dict[Node, Node]
    order: dict[Node, int]

    def write(self, node: Node) -> None:
        source = node.args[0] if node.args else None
        if written(node) != [source]:
            raise CortadoError(
                f"{describe(node)} writes its result into a given tensor (out=, or several tensors at once); write y = "
                "f(x)"
            )
        if self._writes_itself(node):
            return
        for other in [other for other in self.places if self._is_read_after(other, node)]:
            value = self._afterwards(other, node)
            if value is not None:
                other.replace_all_uses_with(value, delete_user_cb=lambda user: self.order[user] > self.order[node])

    def _writes_itself(self, node: Node) -> bool:
        """Whether a write copies a tensor onto itself: `y[0] += 1` adds in place, and then copies y[0] to itself."""
        if not means(node, CallKind.OVERWRITE):
            return False
        value = bind(node)["src"]
        return isinstance(value, Node) and self.places.get(value) == self.places[node]

    def _is_read_after(self, other: Node, node: Node) -> bool:
        now = self.order[node]
        return self.order[other] <= now and other is not node and any(self.order[user] > now for user in other.users)

    def _afterwards(self, other: Node, node: Node) -> Node | None:
        """Returns the value of `other` after the write `node`; None if unchanged."""
        assert isinstance(node.target, OpOverload)
        if torch.Tag.inplace_view in node.target.tags:  # transpose_ changes the tensor, not its memory
            return node if self.first[other] is self.first[node] else None
        before, place = self.places[other], self.places[node]
        if before == place:
            return node
        if not before.overlaps(place):
            return None
        return self._merged(other, node)

    def _merged(self, other: Node, node: Node) -> Node:
        before, place = self.places[other], self.places[node]
        if not _can_merge(before, place):
            raise CortadoError(
                f"{describe(node)} writes into memory that {describe(other)} shares and that is read again later; "
                + REMEDY
            )

        def add(target: OpOverload, *args: Any) -> Node:
            call = add_call(node, target, *args)
            self.order[call] = self.order[node]
            return call

        with node.graph.inserting_before(node.next):
            value: Node = _merge(add, other, node, before, place)
        self.places[value], self.first[value] = before, self.first[other]
        return value


def _can_merge(before: MemoryView, place: MemoryView) -> bool:
    """Whether a merge is possible, by trying it on tensors whose elements are their own positions."""
    if before.dtype != place.dtype or any(_has_twins(one) for one in (before, place)):
        return False
    old, new = before.elements(), place.elements()
    found = _merge(lambda target, *args: target(*args), -1 - old, new, before, place)
    return found is not None and torch.equal(found, torch.where(torch.isin(old, new), old, -1 - old))


def _has_twins(place: MemoryView) -> bool:
    """Whether two dimensions have the same stride, as in sliding windows."""
    strides = [stride for size, stride in zip(place.size, place.stride, strict=True) if size > 1 and stride > 0]
    return len(set(strides)) < len(strides)


def _merge(apply: Apply, old: Any, new: Any, before: MemoryView, place: MemoryView) -> Any:
    """Computes the tensor at `before`, which held `old`, after `new` was written at `place`; None if the overlap is not
    a box.

    Both are boxes in the axes of the memory, one axis for each stride: the part of `new` inside `before` is cut out,
    permuted to the order of `old`, and inserted.
    """
    whole, part = _split(before, place.axes()), _split(place, before.axes())
    strides = sorted({*whole.axes(), *part.axes()}, reverse=True)
    spans = _overlap(whole, part, strides)
    if spans is None:
        return None
    old, new = _reshape(apply, old, whole.size), _reshape(apply, new, part.size)
    for stride, dim in part.axes().items():
        start, _, stop = spans[stride]
        new = _slice(apply, new, dim, start, stop, part.size[dim])
    kept = [part.axes()[stride] for stride in whole.axes() if stride in part.axes()]
    if kept != sorted(kept):
        new = apply(aten.permute.default, new, [*kept, *(dim for dim in range(len(part.size)) if dim not in kept)])
    inner = {dim: spans[stride] for stride, dim in whole.axes().items()}
    box = [_length(inner[dim]) if dim in inner else 1 for dim in range(len(whole.size))]
    new = _reshape(apply, new, box)
    for dim in range(len(whole.size)):
        if dim not in inner and whole.size[dim] > 1:  # an expanded dimension: one element, many times
            old = _slice(apply, old, dim, 0, 1, whole.size[dim])
    merged = _put(apply, old, new, [(dim, span[1], whole.size[dim], _length(span)) for dim, span in inner.items()])
    if any(stride == 0 for stride in whole.stride):
        merged = apply(aten.expand.default, merged, list(whole.size))
    return _reshape(apply, merged, before.size)


_Span = tuple[int, int, int]  # where the overlap starts in the part, where in the whole, where it stops in the part


def _length(span: _Span) -> int:
    return span[2] - span[0]


def _split(place: MemoryView, strides: Sequence[int] | dict[int, int]) -> MemoryView:
    """Splits dimensions where the other tensor's axes begin; the elements are the same."""
    sizes: list[int] = []
    steps: list[int] = []
    for size, stride in zip(place.size, place.stride, strict=True):
        outer, step = size, stride
        inner: list[tuple[int, int]] = []
        for cut in sorted(strides):
            count, rest = divmod(cut, step) if step else (0, 1)
            if not rest and 1 < count < outer and not outer % count:
                inner.insert(0, (count, step))
                outer, step = outer // count, cut
        for count, by in [(outer, step), *inner]:
            sizes.append(count)
            steps.append(by)
    return replace(place, size=tuple(sizes), stride=tuple(steps))


def _overlap(whole: MemoryView, part: MemoryView, strides: Sequence[int]) -> dict[int, _Span] | None:
    spans: dict[int, _Span] = {}
    rest = [whole.offset, part.offset]
    for stride in strides:
        first, second = (offset // stride for offset in rest)
        rest = [offset % stride for offset in rest]
        counts = [one.size[one.axes()[stride]] if stride in one.axes() else 1 for one in (whole, part)]
        start, stop = max(first, second), min(first + counts[0], second + counts[1])
        if start >= stop:
            return None
        spans[stride] = (start - second, start - first, stop - second)
    return spans


def _put(apply: Apply, old: Any, new: Any, dims: Sequence[tuple[int, int, int, int]]) -> Any:
    """Inserts `new` into `old`, given dimension, start, size and length of the part in each dimension."""
    if not dims:
        return new
    (dim, start, size, length), *others = dims
    stop = start + length
    middle = _put(apply, _slice(apply, old, dim, start, stop, size), new, others)
    before = [_slice(apply, old, dim, 0, start, size)] if start else []
    after = [_slice(apply, old, dim, stop, size, size)] if stop < size else []
    pieces = [*before, middle, *after]
    return middle if len(pieces) == 1 else apply(aten.cat.default, pieces, dim)


def _slice(apply: Apply, value: Any, dim: int, start: int, stop: int, size: int) -> Any:
    return value if (start, stop) == (0, size) else apply(aten.slice.Tensor, value, dim, start, stop)


def _reshape(apply: Apply, value: Any, size: Sequence[int]) -> Any:
    known = VALUE.must(value).shape if isinstance(value, Node) else value.shape
    return value if tuple(known) == tuple(size) else apply(aten.reshape.default, value, list(size))
