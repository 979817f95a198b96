"""FX modules whose Python is written when somebody runs or reads it.

FX turns a module's graph into Python anew whenever a pass is done with it. A compile has dozens of passes, PT2E's and
ExecuTorch's included, and of all those texts runs one or two.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.fx import GraphModule
from torch.fx.graph import _PyTreeCodeGen

_write_now = GraphModule.recompile
_CODE = "_code"  # where FX keeps the text


@contextmanager
def late_code() -> Iterator[None]:
    """Inside, a graph that changed is written down as Python when its module is first called, or its code read."""
    before = GraphModule.recompile
    GraphModule.recompile = _put_off  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        GraphModule.recompile = before  # type: ignore[method-assign]


def _put_off(module: GraphModule) -> None:
    """Every GraphModule has a class of its own, so what is changed there is its own too."""
    own: Any = type(module)
    codegen = module.graph._codegen
    if isinstance(codegen, _PyTreeCodeGen):
        module._in_spec, module._out_spec = codegen.pytree_info.in_spec, codegen.pytree_info.out_spec
    module.__dict__.pop(_CODE, None)
    own.forward = _forward
    setattr(own, _CODE, property(_text, _set_text))


def _forward(module: GraphModule, *args: Any, **kwargs: Any) -> Any:
    _write_now(module)
    return module.forward(*args, **kwargs)


def _text(module: GraphModule) -> str:
    return _write_now(module).src


def _set_text(module: GraphModule, text: str) -> None:
    """FX writes: what stood in for the text goes."""
    delattr(type(module), _CODE)
    module.__dict__[_CODE] = text
