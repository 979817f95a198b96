"""Everything that Cortado changes in torch and its libraries while it works: where, into what, and back again.

One thread at a time does such work (`alone`), another one waits; and what is changed is changed for that thread only:
to all others torch is what it was. A place that this torch does not have, or has in another form, is an error that says
so.
"""

import functools
import inspect
import logging
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from torch.fx import GraphModule
from torch.fx.graph import _PyTreeCodeGen

from cortado.base.errors import CortadoError

_lock = threading.RLock()


@contextmanager
def alone() -> Iterator[None]:
    """One thread at a time: torch.export, PT2E and what is changed here are of the whole process."""
    with _lock:
        yield


@dataclass(frozen=True)
class PatchPoint:
    """A function of a library, or a method of one of its classes, that something else may stand in for."""

    package: str
    module: str
    name: str  # "Class.method", or "function"
    parameters: tuple[str, ...]  # by which it is called there

    @property
    def owner(self) -> Any:
        """The object that has the name as an attribute."""
        found: Any = import_module(self.module)
        for part in self.name.split(".")[:-1]:
            found = getattr(found, part, None)
        return found

    @property
    def attribute(self) -> str:
        return self.name.rpartition(".")[2]

    def function(self) -> Callable[..., Any]:
        """The function that stands there now; an error if it is not what stand-ins are written for."""
        found: Callable[..., Any] | None = getattr(self.owner, self.attribute, None)
        parameters = None if found is None else tuple(inspect.signature(found).parameters)
        if found is None or parameters != self.parameters:
            told = "is not there" if parameters is None else f"takes ({', '.join(parameters)})"
            raise CortadoError(
                f"{self.module}.{self.name} {told} in {self.package} {_version(self.package)}, expected "
                f"({', '.join(self.parameters)}): this version of {self.package} is none that Cortado knows; install "
                "one that it asks for (pip install --force-reinstall cortado)"
            )
        return found


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "of unknown version"


RECOMPILE = PatchPoint("torch", "torch.fx.graph_module", "GraphModule.recompile", ("self",))
FRAMES = PatchPoint(
    "torch",
    "torch.fx.experimental.proxy_tensor",
    "_ModuleStackTracer._filter_traceback_frames",
    ("self", "user_stack_summary"),
)
MODULE_STACK = PatchPoint("torch", "torch.export._trace", "_verify_nn_module_stack", ("graph_module",))
CAUSAL_MASK = PatchPoint(
    "torch", "torch.nn.modules.transformer", "_detect_is_causal_mask", ("mask", "is_causal", "size")
)
ONE_LAYER_LSTM = PatchPoint(
    "torch", "torch._decomp.decompositions", "one_layer_lstm", ("inp", "hidden", "params", "has_biases", "reverse")
)
ONE_LAYER_RNN = PatchPoint(
    "torch",
    "torch._decomp.decompositions",
    "one_layer_rnn",
    ("inp", "hidden", "params", "has_biases", "hidden_fn", "reverse"),
)
NEW_NAMES = (
    PatchPoint("torch", "torch.ao.quantization.fx.prepare", "get_new_attr_name_with_prefix", ("prefix",)),
    PatchPoint("torchao", "torchao.quantization.pt2e.utils", "get_new_attr_name_with_prefix", ("prefix",)),
)
SERIALIZE = PatchPoint(
    "executorch",
    "executorch.exir.program._program",
    "serialize_for_executorch",
    ("emitter_output", "config", "data_serializer", "named_data_store"),
)
COMPOSITES = PatchPoint("torch", "torch._export.utils", "_materialize_cpp_cia_ops", ())
REMEMBERED = (
    PatchPoint("torch", "torch.ao.quantization.fx.utils", "assert_and_get_unique_device", ("module",)),
    PatchPoint("torchao", "torchao.utils", "_assert_and_get_unique_device", ("module",)),
)
PLACES = (
    RECOMPILE,
    FRAMES,
    MODULE_STACK,
    CAUSAL_MASK,
    ONE_LAYER_LSTM,
    ONE_LAYER_RNN,
    *NEW_NAMES,
    *REMEMBERED,
    COMPOSITES,
    SERIALIZE,
)
_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd


@contextmanager
def replaced(place: PatchPoint, by: Callable[..., Any]) -> Iterator[None]:
    """Inside, in this thread, calls of what is at the place are calls of `by`."""
    with alone():
        before, mine = place.function(), threading.get_ident()

        @functools.wraps(before)
        def either(*arguments: Any, **named: Any) -> Any:
            return (by if threading.get_ident() == mine else before)(*arguments, **named)

        try:
            setattr(place.owner, place.attribute, either)
            yield
        finally:
            setattr(place.owner, place.attribute, before)


# ---- while torch.export.load works ------------------------------------------------------------------------------


@contextmanager
def loaded_quietly() -> Iterator[None]:
    """Some versions of torch make a program's tensors of the file's bytes, which can't be written, and warn of it.
    Nothing here writes into them. Of a file that is none torch prints where it stood, and raises as well."""
    told = logging.getLogger("torch.export")
    level = told.level
    told.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The given buffer is not writable", UserWarning)
            yield
    finally:
        told.setLevel(level)


# ---- while torch.export works ----------------------------------------------------------------------------------


def user_lines(*own: str) -> AbstractContextManager[None]:
    """Every node remembers the user's whole way to it. torch keeps the methods called `forward` and drops helpers;
    frames of files whose paths begin as `own` are none of the user's."""
    others = (f"{Path(str(torch.__file__)).parent}/", *own, __file__, "<")

    def users(tracer: Any, stack: traceback.StackSummary) -> traceback.StackSummary:
        first = next((i for i, frame in enumerate(stack) if frame.name == "forward"), len(stack))
        kept = [frame for frame in stack[first:] if not frame.filename.startswith(others)]
        return traceback.StackSummary.from_list(kept)

    return replaced(FRAMES, users)


@contextmanager
def captured_as_it_is() -> Iterator[None]:
    """Meanwhile torch.export captures what it would otherwise refuse, or be slow at."""
    with ExitStack() as stack:
        # `self.last = x` is a copy of x into a buffer, which torch.export adds itself, and then refuses: it comes from
        # no module.
        stack.enter_context(replaced(MODULE_STACK, lambda graph_module: None))
        # nn.TransformerEncoder compares its mask with a causal one, only to choose a faster kernel, and torch.export
        # can't follow a decision by values. Here the mask itself is what counts.
        stack.enter_context(replaced(CAUSAL_MASK, lambda mask, is_causal=None, size=None: is_causal is True))
        for place in (ONE_LAYER_LSTM, ONE_LAYER_RNN):
            stack.enter_context(replaced(place, _one_step(place.function())))
        yield


@contextmanager
def shaped(operators: Sequence[torch._ops.OpOverload], as_told: Callable[..., torch.Tensor]) -> Iterator[None]:
    """Inside, in this thread, what these operators make of a tensor without values has the shape that a function tells.
    Operators that are made of others are otherwise followed through these, which may ask for values."""
    with alone(), ExitStack() as stack:
        for operator in operators:
            stack.enter_context(_shaped(operator, as_told))
        yield


@contextmanager
def _shaped(operator: torch._ops.OpOverload, as_told: Callable[..., torch.Tensor]) -> Iterator[None]:
    mine, before = threading.get_ident(), operator.py_kernels.get(_COMPOSITE)

    def either(*arguments: Any, **named: Any) -> Any:
        here = threading.get_ident() == mine
        return as_told(*arguments, **named) if here else operator._op_dk(_COMPOSITE, *arguments, **named)

    operator.py_kernels[_COMPOSITE] = either
    operator._dispatch_cache.clear()
    try:
        yield
    finally:
        del operator.py_kernels[_COMPOSITE]
        if before is not None:
            operator.py_kernels[_COMPOSITE] = before
        operator._dispatch_cache.clear()


def _one_step(layer: Callable[..., Any]) -> Callable[..., Any]:
    """A recurrent layer stays one call of the graph; to know its shapes torch.export computes all its steps one by one,
    in fake tensors, for seconds. One step has the shapes of all."""

    def first(steps: torch.Tensor, *arguments: Any, **named: Any) -> Any:
        row, state = layer(steps[:1], *arguments, **named)
        return row.new_empty((len(steps), *row.shape[1:])), state

    return first


# ---- while PT2E works -------------------------------------------------------------------------------------------


@contextmanager
def counted_on() -> Iterator[None]:
    """Names for what PT2E adds to a module. It looks for a free one by counting up from zero, for every observer, scale
    and zero point again: with many layers that takes longer than all else. Here counting goes on where it ended the
    last time; the names are the same."""
    ended: dict[tuple[torch.nn.Module, str], int] = {}

    def named(prefix: str) -> Callable[[torch.nn.Module], str]:
        text = prefix.replace(".", "_")

        def name(module: torch.nn.Module) -> str:
            number = ended.get((module, text), 0)
            while hasattr(module, f"{text}{number}"):
                number += 1
            ended[module, text] = number
            return f"{text}{number}"

        return name

    with ExitStack() as stack:
        for place in NEW_NAMES:
            stack.enter_context(replaced(place, named))
        yield


@contextmanager
def forgotten() -> Iterator[None]:
    """Makes PT2E forget the modules that it was given. It remembers the device of every one, and with it the module and
    its weights, for as long as the process lives; and torch looks at the classes of all whenever it captures
    another."""
    try:
        yield
    finally:
        for place in REMEMBERED:
            place.function().cache_clear()  # type: ignore[attr-defined]


# ---- while graphs are rewritten ---------------------------------------------------------------------------------

_write_now = GraphModule.recompile
_CODE = "_code"  # where FX keeps the text


def late_code() -> AbstractContextManager[None]:
    """Inside, a graph that changed is written down as Python when its module is first called, or its code read.

    FX turns a module's graph into Python anew whenever a pass is done with it. A compile has dozens of passes, PT2E's
    and ExecuTorch's included, and of all those texts runs one or two."""
    return replaced(RECOMPILE, _put_off)


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


# ---- while ExecuTorch works -------------------------------------------------------------------------------------

_composites: list[int] = []  # how many there were the last time


def operators_found_once() -> AbstractContextManager[None]:
    """Whenever a graph goes to ExecuTorch's dialect, torch makes sure that each of its operators that others can stand
    in for has an object in Python, which takes longer than a small graph. Those that are there stay; here it looks
    again when there are more."""
    find = COMPOSITES.function()

    def if_new() -> None:
        count = len(torch._C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd"))
        if [count] != _composites:
            find()
            _composites[:] = [count]

    return replaced(COMPOSITES, if_new)


def not_serialized() -> AbstractContextManager[None]:
    """exir makes a file of all that it emitted; here a file is made of it later, when its values are shared."""
    return replaced(SERIALIZE, lambda *arguments, **named: (b"", {}))
