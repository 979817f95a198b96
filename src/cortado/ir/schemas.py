"""Operators as torch operators: schemas registered from the records on first use.

ExecuTorch's own package registers operators of the same names when it is imported. If it was imported first, its
operators are reused, provided they mean the same; if it is imported later, ours are removed first.

Also Cortado's own calls in the float graph, such as `cortado::gru_layer`, each composed of aten calls.
"""

import sys
from collections.abc import Callable, Collection, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import torch
from torch._ops import OpOverload

from cortado.base.errors import CortadoError
from cortado.ir.op import Call, Operator, result_elements

Tensor = torch.Tensor

THEIRS = ".cortex_m.ops.operators"  # ExecuTorch's module that registers its operators
_DIALECTS = "executorch.exir.dialects._ops"  # where ExecuTorch keeps the edge versions of torch's operators
_REGISTERED: dict[str, Any] = {}
_FRAGMENTS: list[torch.library.Library] = []


def overload(operator: Operator, arguments: Collection[str] = ()) -> Any:
    """Returns the torch operator of a record that has these arguments, registered as a fragment on first use; an equal
    existing schema is reused."""
    if not set(operator.c_parameters).isdisjoint(arguments):
        operator = operator.in_c
    key = f"{operator.namespace}::{operator.qualified}"
    if key in _REGISTERED:
        return _REGISTERED[key]
    library = torch.library.Library(operator.namespace, "FRAGMENT")
    _FRAGMENTS.append(library)
    for name, schema in ((operator.qualified, operator.schema), (operator.qualified_out, operator.out_schema)):
        wanted = torch._C.parse_schema(f"{operator.namespace}::{schema}")
        existing = _existing_schema(operator.namespace, name)
        if existing is None:
            library.define(schema)
            library.impl(name, _meta(operator), "Meta")
        elif _meaning(existing) != _meaning(wanted):
            raise CortadoError(
                f"{operator.namespace}::{name} is registered with another schema: found {existing}, expected {wanted}; "
                "import Cortado in a process of its own, or use executorch 1.5.1"
            )
    packet = getattr(getattr(torch.ops, operator.namespace), operator.base)
    _REGISTERED[key] = getattr(packet, operator.overload_name)
    return _REGISTERED[key]


def _meaning(schema: Any) -> tuple[Any, ...]:
    """Returns the part of a schema that must agree: everything but the names of its results."""
    arguments = [(one.name, str(one.type), one.default_value, one.kwarg_only) for one in schema.arguments]
    written = [one.alias_info is not None and one.alias_info.is_write for one in schema.arguments]
    return (schema.name, schema.overload_name, arguments, written, [str(one.type) for one in schema.returns])


class _MakeRoom(MetaPathFinder):
    """Removes our operators from torch when ExecuTorch's are about to be imported; from then on those are used."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.startswith("executorch.") and fullname.endswith(THEIRS):
            _REGISTERED.clear()
            dialects: Any = sys.modules.get(_DIALECTS)
            while _FRAGMENTS:
                library = _FRAGMENTS.pop()
                library._destroy()
                if dialects is not None:
                    vars(dialects.ops.edge).pop(library.ns, None)
        return None


sys.meta_path.insert(0, _MakeRoom())


def _meta(operator: Operator) -> Callable[..., Any]:
    """Returns the fake implementation of an operator: the shapes and dtypes of its outputs, from the record."""

    def value(item: Any) -> Any:
        return tuple(item.shape) if isinstance(item, Tensor) else item

    def meta(*args: Any, **kwargs: Any) -> Any:
        named = {**dict(zip(operator.argument_names, args, strict=False)), **kwargs}
        given = [named.pop(name) for name in operator.results if name in named]
        kinds = result_elements(operator, named)
        call = Call(operator, {name: value(item) for name, item in named.items()}, (), kinds[0], {})
        pairs = zip(operator.sizes(call), kinds, strict=True)
        made = given or [torch.empty(size, dtype=kind.torch_dtype, device="meta") for size, kind in pairs]
        return tuple(made) if operator.extra_results else made[0]

    return meta


def _existing_schema(namespace: str, name: str) -> Any:
    schemas = torch._C._jit_get_schemas_for_operator(f"{namespace}::{name.split('.')[0]}")
    wanted = name.split(".")[1] if "." in name else ""
    return next((schema for schema in schemas if schema.overload_name == wanted), None)


# ---- calls of the float graph -----------------------------------------------------------------------

NAMESPACE = "cortado"
_COMPUTED = "CompositeExplicitAutograd"
_functions: dict[str, Callable[..., Any]] = {}  # by name, the functions that compute them
_portable: set[str] = set()  # those that ExecuTorch's portable kernels can compute


class Functions(torch.library.Library):
    """The definitions of such calls in one file of `ops`. The function that computes a call is kept: it is made of aten
    calls, in which ExecuTorch can be given the call, unless its portable kernels can't compute them (`portable`)."""

    def __init__(self, *, portable: bool = True) -> None:
        super().__init__(NAMESPACE, "FRAGMENT")
        self.portable = portable

    def impl(self, op_name: Any, fn: Any, dispatch_key: str = "", **others: Any) -> None:
        super().impl(op_name, fn, dispatch_key, **others)
        if dispatch_key == _COMPUTED:  # autograd differentiates the calls that it is made of
            super().impl(op_name, torch.library.fallthrough_kernel, "Autograd")
            _functions[str(op_name)] = fn
            _portable.update({str(op_name)} if self.portable else ())


def in_aten(target: Any) -> Callable[..., Any] | None:
    """Returns a function that computes one of Cortado's calls with aten, arguments by name; None for any other call and
    for one that portable kernels can't compute."""
    if not isinstance(target, OpOverload) or target.namespace != NAMESPACE or _name(target) not in _portable:
        return None
    compute = computed_by(target)
    names = [argument.name for argument in target._schema.arguments]
    return lambda **given: compute(*(given[name] for name in names))


def computed_by(target: OpOverload) -> Callable[..., Any]:
    """Returns a function that computes one of Cortado's calls with aten, arguments by position."""
    return _functions[_name(target)]


def _name(target: OpOverload) -> str:
    return target._schema.name.removeprefix(f"{NAMESPACE}::")
