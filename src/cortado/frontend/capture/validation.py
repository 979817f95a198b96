"""Validation of the model and the exported program; later stages could not report these errors as well."""

import contextlib
import functools
import inspect
import keyword
import operator
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.overrides import TorchFunctionMode

from cortado.base.errors import CortadoError
from cortado.base.system import PACKAGE
from cortado.frontend.rewrite.canonical import context_body
from cortado.ir.facts import VALUE
from cortado.ir.graph import describe, is_symbolic, source_line, symbolic_sizes
from cortado.ir.patched import captured_as_it_is, shaped, user_lines
from cortado.ops.float_graph import out_of_place, writes_in_place
from cortado.ops.move.topk import QUANTILE, quantile_shape

Tensor = torch.Tensor

MOST_VALUES = 2**31 - 1  # in a tensor: the kernels count in int32
_SAME = "a compiled model does the same for every input"
_LOOP = (
    "is one of torch's loop operators; write it in Python with a fixed number of iterations, which torch.export unrolls"
)
_HIGHER = {  # the user's function, and why it can't be compiled
    "cond": (
        "torch.cond",
        f"branches on the values of a tensor, but {_SAME}; use torch.where, or move the decision out of the model",
    ),
    "wrap_with_autocast": (
        "torch.autocast",
        "makes part of the model compute in another type, but Cortado quantizes from float32; remove it from forward, "
        "and put it around the call of the model in the training code",
    ),
    "while_loop": ("torch.while_loop", _LOOP),
    "map_impl": ("torch.map", _LOOP),
    "scan": ("torch.scan", _LOOP),
}


# ---- before the export ---------------------------------------------------------------------------------------


def check_values(what: str, value: Tensor) -> None:
    """Refuses a tensor without strided values in this machine's memory."""
    if value.is_meta or isinstance(value, FakeTensor):
        raise CortadoError(
            f"{what} has a shape but no values (it was made on the meta device, or under a FakeTensorMode); load its "
            "values first, as with model.to_empty(device='cpu') and model.load_state_dict(...)"
        )
    if value.is_quantized:
        raise CortadoError(f"{what} is quantized ({value.dtype}), expected float32: Cortado quantizes the model itself")
    if value.layout is not torch.strided or value.is_nested:
        kind = "nested" if value.is_nested else str(value.layout).removeprefix("torch.").replace("_", " ")
        raise CortadoError(f"{what} is a {kind} tensor, expected a dense one; x.to_dense() makes it one")
    if value.device.type != "cpu":
        raise CortadoError(
            f"{what} is on the device '{value.device}', expected the CPU; x.cpu() and model.cpu() move it"
        )


def check_model(model: Any) -> None:
    """Refuses anything but a Python module whose parameters have a shape."""
    if not isinstance(model, torch.nn.Module):
        raise CortadoError(f"expected a torch.nn.Module, found {type(model).__name__}")
    for name, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            where = f"its module '{name}'" if name else "the model"
            raise CortadoError(f"{where} was made by torch.jit; give the torch.nn.Module it was made from")
    for name, parameter in model.named_parameters():
        if torch.nn.parameter.is_lazy(parameter):
            raise CortadoError(
                f"parameter '{name}' has no shape yet: it belongs to a lazy module; call the model once, "
                "model(*example_inputs), before it is compiled"
            )


@contextlib.contextmanager
def as_it_is(model: torch.nn.Module) -> Iterator[None]:
    """Makes torch.export capture models inside the block that it would otherwise refuse or get wrong."""
    own = user_lines(__file__, f"{PACKAGE / 'onnx'}/")
    quantiles = shaped(QUANTILE.aten, quantile_shape)
    with own, _assigned_deep_inside(model), captured_as_it_is(), quantiles, _WritesRows():
        yield


class _WritesRows(TorchFunctionMode):
    """Rewrites `x[i] = value` at a position given by a tensor of rank 0: torch.export tracks writes into a selected
    row, but not this."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        row = _row(*args[:2]) if func is Tensor.__setitem__ else None
        if row is None:
            return func(*args, **(kwargs or {}))
        return row.copy_(args[2]) if isinstance(args[2], Tensor) else row.fill_(args[2])


def _row(source: Tensor, index: Any) -> Tensor | None:
    """Returns a view of the element that an index of numbers, slices and tensors of rank 0 selects; None for other
    indices, or without such a tensor."""
    given = list(index) if isinstance(index, tuple) else [index]
    if not any(isinstance(one, Tensor) for one in given) or not all(map(_is_plain, given)):
        return None
    dim = 0
    for one in given:
        if isinstance(one, slice):
            source, dim = source[(slice(None),) * dim + (one,)], dim + 1
        else:
            source = source.select(dim, one.item() if isinstance(one, Tensor) else one)  # type: ignore[arg-type]
    return source


def _is_plain(index: Any) -> bool:
    if isinstance(index, Tensor):
        return not index.dim() and not index.is_floating_point() and index.dtype != torch.bool
    return isinstance(index, int | slice) and not isinstance(index, bool)


@contextlib.contextmanager
def _assigned_deep_inside(model: torch.nn.Module) -> Iterator[None]:
    """Supports `self.last = value` in inner modules, for which torch.export forgets the value: it tracks only the
    outermost module. Here the buffer stays, and the value is copied into it when forward is done, as torch.export does
    for the outermost."""
    inner = list(model.modules())[1:]
    forward, own = model.forward, model.__dict__.get("forward")

    @functools.wraps(forward)
    def copied(*arguments: Any, **named: Any) -> Any:
        before = [dict(module._buffers) for module in inner]
        result = forward(*arguments, **named)
        for module, buffers in zip(inner, before, strict=True):
            for name, buffer in buffers.items():
                value = module._buffers.get(name)
                if buffer is not None and value is not None and value is not buffer:
                    module._buffers[name] = buffer
                    torch.ops.aten.copy_.default(buffer, value)
        return result

    copied.__signature__ = inspect.signature(forward)  # type: ignore[attr-defined]  # bound: without self
    model.__dict__["forward"] = copied
    try:
        yield
    finally:
        del model.__dict__["forward"]
        if own is not None:
            model.__dict__["forward"] = own


# ---- after it ------------------------------------------------------------------------------------------------


def rename_state(program: ExportedProgram) -> None:
    """Renames parameters whose names torch can't write into a module's code: keywords, quotes, line breaks."""
    specs = [spec for spec in program.graph_signature.input_specs if spec.target is not None]
    taken = {str(spec.target) for spec in specs}
    for old in sorted(taken):
        new = ".".join(map(_writable, old.split(".")))
        if new == old:
            continue
        while new in taken:
            new += "_"
        taken.add(new)
        for spec in specs:
            spec.target = new if spec.target == old else spec.target
        for store in (program.state_dict, program.constants):
            if old in store:
                store[new] = store.pop(old)


def _writable(part: str) -> str:
    plain = "".join("_" if letter in '"\\' or not letter.isprintable() else letter for letter in part)
    return f"{plain}_" if keyword.iskeyword(plain) else plain


def check_graph(module: GraphModule) -> None:
    """Refuses everything but calls of operators on tensors of fixed shapes, including inside blocks under no_grad."""
    for node in module.graph.nodes:
        if node.op == "get_attr":
            _check_attribute(module, node)
        if node.op == "call_function":
            _check_call(module, node)


def _check_attribute(module: GraphModule, node: Node) -> None:
    value = _attribute(module, node)
    if not isinstance(value, Tensor | torch.nn.Module):
        user = next(iter(node.users), node)
        raise CortadoError(
            f"{describe(user)} uses a {type(value).__name__}, which a compiled model can't hold; compute it outside of "
            "the model and pass the result as an input"
        )


def _check_call(module: GraphModule, node: Node) -> None:
    target = node.target
    if isinstance(target, HigherOrderOperator):
        inner = [graph for graph in (_graph(module, argument) for argument in node.args) if graph is not None]
        if context_body(node) is None:
            name, reason = _HIGHER.get(target.name(), (target.name(), "is not an operator that computes something"))
            raise CortadoError(f"{name}{_place(node, inner)} {reason}")
        for body in inner:
            check_graph(body)
    elif target is not operator.getitem and not isinstance(target, OpOverload):
        # Leftovers of vmap and grad: tensors that are meaningless outside of them.
        raise CortadoError(
            f"a transformation of torch.func (vmap, grad){_place(node)} can't be captured; write the computation "
            "itself, on whole batches"
        )
    elif isinstance(target, OpOverload) and writes_in_place(target) and out_of_place(target) is None:
        raise CortadoError(
            f"{describe(node)} writes in place and has no form that returns a new tensor; use an operator that has one"
        )
    for value in _values(node):
        _check_value(node, value)


def _graph(module: GraphModule, argument: Any) -> GraphModule | None:
    """Returns the graph that an argument refers to, if it does."""
    value = _attribute(module, argument) if isinstance(argument, Node) and argument.op == "get_attr" else None
    return value if isinstance(value, GraphModule) else None


def _attribute(module: GraphModule, node: Node) -> Any:
    return operator.attrgetter(str(node.target))(module)


def _place(node: Node, inner: Sequence[GraphModule] = ()) -> str:
    """Returns the source line of a call, or else of the first inner call that has one."""
    nodes = [node, *(call for body in inner for call in body.graph.nodes)]
    line = next((line for line in map(source_line, nodes) if line is not None), None)
    return "" if line is None else f" at {line}"


def _values(node: Node) -> list[Any]:
    value = VALUE.of(node)
    return list(value) if isinstance(value, tuple | list) else [value]


def _check_value(node: Node, value: Any) -> None:
    if is_symbolic(value):
        raise CortadoError(
            f"{describe(node)} turns a tensor's values into a Python number, but {_SAME}; keep it a tensor, or move "
            "this out of the model"
        )
    if not isinstance(value, Tensor) or value.is_nested or value.layout is not torch.strided:
        return
    if symbolic_sizes(value):
        raise CortadoError(
            f"{describe(node)} gives a tensor whose shape depends on values, expected a fixed shape; use torch.where "
            "or multiply by a mask, or move this out of the model"
        )
    if value.numel() > MOST_VALUES:
        raise CortadoError(
            f"{describe(node)} gives a tensor of shape {list(value.shape)}, which holds {value.numel():,} values; "
            f"expected at most {MOST_VALUES:,}"
        )
