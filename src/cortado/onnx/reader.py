"""The nodes of an ONNX graph in topological order: those that depend on no input are folded, every other one becomes a
step.

The model's values are meta tensors here (`Bounded`): reading a file computes only shapes and constants.

Nodes are validated before a builder sees them. The schema of ONNX defines the number of inputs and outputs, which are
required, and the types of attributes; a builder's declaration defines which values it supports.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch import nn
from torch.func import functional_call

from cortado.base.errors import CortadoError
from cortado.onnx import elementwise, layers, ml, movement, pools, quantized
from cortado.onnx.files import Bounded, Graph, OnnxFile, Raw, without_data
from cortado.onnx.node import REGISTRY, Node, OnnxValue, Quantizing, Registered
from cortado.onnx.spellings import CodeNames, respelled

Tensor = torch.Tensor


class OnnxStep(nn.Module):
    """A node as a module, including its constant operands."""

    def __init__(self, module: nn.Module, operands: Sequence[str | Tensor], outputs: Sequence[str]) -> None:
        super().__init__()
        self.module, self.outputs = module, tuple(outputs)
        self.sources = [one if isinstance(one, str) else None for one in operands]
        for number, one in enumerate(operands):
            if not isinstance(one, str):
                self.register_buffer(f"constant{number}", one)

    def forward(self, *given: Tensor) -> Any:
        left = iter(given)
        operands = [
            getattr(self, f"constant{number}") if source is None else next(left)
            for number, source in enumerate(self.sources)
        ]
        return self.module.forward(*operands)  # not a call: the step has the node's name, its module none

    def run(self, values: dict[str, Tensor]) -> None:
        """Runs the step, and adds its outputs to the values by name."""
        self._add(self(*self._given(values)), values)

    def run_shapes(self, values: dict[str, Tensor]) -> None:
        """Runs the step on meta tensors: torch's recurrent layers require weights and states to be meta if the input
        is."""
        held = [*self.named_parameters(), *self.named_buffers()] if any(True for _ in self.parameters()) else []
        weights = {name: without_data(one.detach()) for name, one in held}
        given = self._given(values)
        self._add(functional_call(self, weights, given) if weights else self(*given), values)

    def _given(self, values: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        return tuple(values[source] for source in self.sources if source is not None)

    def _add(self, found: Any, values: dict[str, Tensor]) -> None:
        results = found if isinstance(found, tuple) else (found,)
        values.update((name, result) for name, result in zip(self.outputs, results, strict=False) if name)


class GraphReader:
    """A reader of a graph: `known` are the values of constants, `steps` the remaining nodes by name."""

    def __init__(self, file: OnnxFile, examples: Mapping[str, Tensor]) -> None:
        self.file = file
        self.known: dict[str, Tensor] = dict(file.graph.constants)
        self.steps: list[tuple[str, OnnxStep]] = []
        self.values = {name: without_data(example) for name, example in examples.items()}
        self.codes: CodeNames = {}
        self.reads = set(file.graph.outputs)
        for node in _all_nodes(file.graph):
            self._read(node.inputs)
        with torch.no_grad(), Bounded(file.budget):
            for raw in file.graph.nodes:
                self._add(raw, {})

    def _read(self, names: Iterable[str]) -> None:
        self.reads.update(filter(None, names))

    def _add(self, raw: Raw, names: Mapping[str, str]) -> None:
        """Adds a node; `names` maps the names in a nested graph to unique ones in the outermost graph."""
        own = replace(
            raw,
            inputs=tuple(names.get(name, name) for name in raw.inputs),
            outputs=tuple(names.get(name, name) for name in raw.outputs),
        )
        if not any(name in self.reads for name in own.outputs):
            return
        if own.kind == "If" and not own.domain:
            self._add_branch(own, names)
            return
        nodes = list(respelled(own, self.codes, self.file.path.name))
        for one in nodes:
            self._read(one.inputs)
        for one in nodes:
            self._add_one(one)

    def _add_branch(self, raw: Raw, names: Mapping[str, str]) -> None:
        """Adds the nodes of the branch taken by an If whose condition follows from shapes."""
        condition = self.known.get(raw.inputs[0]) if raw.inputs else None
        where = f"node '{raw.name[:80]}' (If) of {self.file.path.name}"
        if condition is None or condition.numel() != 1:
            raise CortadoError(
                f"{where}: its condition is computed from the model's inputs, expected one that is constant for fixed "
                "shapes; choose the branch before exporting"
            )
        chosen = "then_branch" if bool(condition) else "else_branch"
        branch = raw.graphs.get(chosen)
        if branch is None or len(branch.outputs) != len(raw.outputs) or branch.inputs:
            raise CortadoError(
                f"{where}: it has no {chosen} with {len(raw.outputs)} outputs and no inputs, expected one"
            )
        own = {name: f"{raw.outputs[0]}/{name}" for name in _defined(branch)}
        inner = {**names, **own}
        self.known.update((inner[name], value) for name, value in branch.constants.items())
        ends = [
            Raw("Identity", f"{raw.name}/{name}", (name,), (output,), {})
            for name, output in zip(branch.outputs, raw.outputs, strict=True)
        ]
        ends = [replace(end, inputs=(inner.get(end.inputs[0], end.inputs[0]),)) for end in ends]
        self._read(end.inputs[0] for end in ends if end.outputs[0] in self.reads)
        for one in _all_nodes(branch):
            self._read(inner.get(name, name) for name in one.inputs)
        for one in branch.nodes:
            self._add(one, inner)
        for end in ends:
            self._add(end, {})

    def _add_one(self, raw: Raw) -> None:
        budget = self.file.budget
        node = self._node(raw)
        budget.where = node.where
        declared = registered().get(raw.kind)
        if declared is None:
            raise CortadoError(
                f"{node.where}: {raw.kind} is not among the {len(registered())} supported ONNX operators "
                "(docs/onnx.md); express it with these, or write the model in PyTorch"
            )
        check(node, declared)
        try:
            self._run(node, raw, declared)
        except CortadoError:
            raise
        except Exception as error:  # torch's errors for mismatched sizes and values have no common class
            shown = [list(value.shape) if value else None for value in node.inputs]
            text = " ".join(str(error).split())[:200]
            raise CortadoError(f"{node.where}: inputs of shapes {shown} do not fit ({text})") from error

    def _run(self, node: Node, raw: Raw, declared: Registered) -> None:
        built = declared.build(node)
        operands = [raw.inputs[position] for position in built.operands]
        given: list[str | Tensor] = [self.known.get(name, name) for name in operands]
        outputs = [name if name in self.reads else "" for name in raw.outputs]
        step = OnnxStep(built.module, given, outputs).eval()
        if all(isinstance(one, Tensor) for one in given) and not isinstance(built.module, Quantizing):
            step.run(self.known)
            return
        step.run_shapes(self.values)
        for name in filter(None, outputs):
            self.file.budget.check(self.values[name].shape)
        self.steps.append((raw.name, step))

    def _node(self, raw: Raw) -> Node:
        def value(name: str) -> OnnxValue | None:
            if not name:
                return None
            found = self.known[name] if name in self.known else self.values[name]
            return OnnxValue(tuple(found.shape), found.dtype, self.known.get(name))

        return Node(
            kind=raw.kind,
            name=raw.name,
            file=self.file.path.name,
            opset=self.file.opsets.get(raw.domain, 1),
            attributes=raw.attributes,
            inputs=tuple(value(name) for name in raw.inputs),
            outputs=max((number + 1 for number, name in enumerate(raw.outputs) if name in self.reads), default=0),
            declared_outputs=len(raw.outputs),
            domain=raw.domain,
        )


def _all_nodes(graph: Graph) -> Iterable[Raw]:
    """Yields all nodes, including those of nested graphs, whose outputs are read by nodes that pass them outwards."""
    for node in graph.nodes:
        yield node
        for inner in node.graphs.values():
            yield from _all_nodes(inner)
            yield Raw("", "", inner.outputs, (), {})


def _defined(graph: Graph) -> Iterable[str]:
    """Yields the names of values that a graph defines."""
    yield from graph.constants
    for node in graph.nodes:
        yield from filter(None, node.outputs)


# ---- the checks of nodes ----------------------------------------------------------------------------

FAMILIES = (elementwise, layers, ml, movement, pools, quantized)  # importing them fills the registry

_MICROSOFT = "com.microsoft"
_TYPES: Mapping[str, Any] = {
    "FLOAT": float,
    "INT": int,
    "STRING": bytes,
    "FLOATS": (list, float),
    "INTS": (list, int),
    "STRINGS": (list, bytes),
}


def registered() -> Mapping[str, Registered]:
    """Returns the ONNX operators that can be read, by name."""
    return REGISTRY


def check(node: Node, declared: Registered) -> None:
    """Refuses a node that its operator's schema or its builder's declaration does not allow."""
    if node.domain not in declared.domains:
        node.refuse(
            f"it is {node.domain}.{node.kind}",
            "standard ONNX operators; export the model without a runtime's own operators (no graph optimizations "
            "before saving)",
        )
    if node.domain != _MICROSOFT:
        _check_schema(node)
    for name, value in node.attributes.items():
        _check_value(node, name, value, declared)


@cache
def _schema(kind: str, opset: int, domain: str) -> Any:
    import onnx

    try:
        return onnx.defs.get_schema(kind, opset, domain)
    except onnx.defs.SchemaError:
        return None


@cache
def _attributes(kind: str, opset: int, domain: str) -> Mapping[str, Any]:
    return dict(_schema(kind, opset, domain).attributes)


def _check_schema(node: Node) -> None:
    place = (node.kind, node.opset, node.domain)
    schema = _schema(*place)
    if schema is None:
        node.refuse(
            f"{node.kind} in a file of opset {node.opset}",
            "an operator of that opset; export the model for a newer one",
        )
    if not schema.min_input <= len(node.inputs) <= schema.max_input:
        node.refuse(f"{len(node.inputs)} inputs", _between(schema.min_input, schema.max_input))
    if not schema.min_output <= node.declared_outputs <= schema.max_output:
        node.refuse(f"{node.declared_outputs} outputs", _between(schema.min_output, schema.max_output))
    for position, value in enumerate(node.inputs):
        formal = schema.inputs[min(position, len(schema.inputs) - 1)]
        if value is None and formal.option != type(formal.option).Optional:
            node.refuse(f"input {position} is missing", "a tensor")
    known = _attributes(*place)
    for name, value in node.attributes.items():
        if name not in known:
            node.refuse(f"attribute '{name}'", f"one of {sorted(known)} (opset {node.opset})")
        _check_type(node, name, value, known[name].type.name)
    missing = next((name for name, one in known.items() if one.required and name not in node.attributes), None)
    if missing is not None:
        node.refuse(f"it has no attribute '{missing}'", "one")


def _between(least: int, most: int) -> str:
    return f"{least}" if least == most else f"{least} to {most}" if most < 1 << 30 else f"at least {least}"


def _check_type(node: Node, name: str, value: Any, kind: str) -> None:
    wanted = _TYPES.get(kind)
    if wanted is None:  # tensors and graphs: the builder checks them
        return
    if isinstance(wanted, tuple):
        fits = isinstance(value, list) and all(isinstance(one, wanted[1]) for one in value)
    else:
        fits = isinstance(value, wanted)
    if not fits:
        node.refuse(f"attribute '{name}' is {type(value).__name__}", f"{kind.lower()} as ONNX has it")


def _check_value(node: Node, name: str, value: Any, declared: Registered) -> None:
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, float) and not (math.isfinite(one) or (name in declared.infinite and not math.isnan(one))):
            node.refuse(f"attribute '{name}' is {one}", "a finite number")
        if isinstance(one, int) and name in declared.least and one < declared.least[name]:
            node.refuse(f"attribute '{name}' holds {one}", f"at least {declared.least[name]}")
        if isinstance(one, bytes) and name in declared.among:
            text = one.decode("utf-8", "replace")
            if text not in declared.among[name]:
                node.refuse(f"{name} '{text[:40]}'", f"one of {', '.join(declared.among[name])}")
