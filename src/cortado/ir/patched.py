"""All patches that Cortado applies to torch and its libraries while it works, and how they are undone.

One thread at a time does such work (`alone`) while others wait, and patches take effect in that thread only: all other
threads see torch unchanged. A patch point that the installed torch lacks, or has with other parameters, is an error
that says so.
"""

import functools
import inspect
import logging
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
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
    """Admits one thread at a time: torch.export, PT2E and the patches here are global to the process."""
    with _lock:
        yield


@dataclass(frozen=True)
class PatchPoint:
    """A function of a library, or a method of one of its classes, that can be replaced."""

    package: str
    module: str
    name: str  # "Class.method", or "function"
    parameters: tuple[str, ...]  # of the function that the patches are written for

    @property
    def owner(self) -> Any:
        """The object that has the function as an attribute."""
        found: Any = import_module(self.module)
        for part in self.name.split(".")[:-1]:
            found = getattr(found, part, None)
        return found

    @property
    def attribute(self) -> str:
        return self.name.rpartition(".")[2]

    def function(self) -> Callable[..., Any]:
        """Returns the present function; an error if its parameters are not those that the patches are written for."""
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
YAML = PatchPoint("ruamel.yaml", "ruamel.yaml", "YAML.load", ("self", "stream"))
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
    YAML,
    COMPOSITES,
    SERIALIZE,
)
_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd


@contextmanager
def replaced(place: PatchPoint, by: Callable[..., Any]) -> Iterator[None]:
    """Replaces the function at a patch point by `by` inside the block, for calls from this thread."""
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
    """Silences torch.export.load. Some versions of torch build a program's tensors on the read-only bytes of the file
    and warn of it, though nothing here writes to them. For a file that is not a program, torch logs a traceback in
    addition to raising."""
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
    """Gives every node the user's whole call stack. torch keeps only frames of methods called `forward` and drops
    helpers; frames of files whose paths begin with one of `own` are not the user's."""
    others = (f"{Path(str(torch.__file__)).parent}/", *own, __file__, "<")

    def users(tracer: Any, stack: traceback.StackSummary) -> traceback.StackSummary:
        first = next((i for i, frame in enumerate(stack) if frame.name == "forward"), len(stack))
        kept = [frame for frame in stack[first:] if not frame.filename.startswith(others)]
        return traceback.StackSummary.from_list(kept)

    return replaced(FRAMES, users)


@contextmanager
def captured_as_it_is() -> Iterator[None]:
    """Makes torch.export capture models that it would otherwise refuse, or be slow at."""
    with ExitStack() as stack:
        # For `self.last = x` torch.export itself adds a copy of x into the buffer, and then refuses it because it comes
        # from no module.
        stack.enter_context(replaced(MODULE_STACK, lambda graph_module: None))
        # nn.TransformerEncoder compares its mask with a causal one, only to choose a faster kernel, and torch.export
        # can't follow a decision by values. Cortado goes by the mask itself.
        stack.enter_context(replaced(CAUSAL_MASK, lambda mask, is_causal=None, size=None: is_causal is True))
        for place in (ONE_LAYER_LSTM, ONE_LAYER_RNN):
            stack.enter_context(replaced(place, _one_step(place.function())))
        yield


@contextmanager
def shaped(operators: Sequence[torch._ops.OpOverload], as_told: Callable[..., torch.Tensor]) -> Iterator[None]:
    """Gives the results of these operators on fake tensors the shape that `as_told` computes, inside the block and in
    this thread. Otherwise torch traces composite operators through their parts, which can ask for values."""
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
    """Returns a recurrent layer that computes one step only. The layer stays one call of the graph, but to find its
    shapes torch.export would compute all steps in fake tensors, which takes seconds; one step has the shapes of all."""

    def first(steps: torch.Tensor, *arguments: Any, **named: Any) -> Any:
        row, state = layer(steps[:1], *arguments, **named)
        return row.new_empty((len(steps), *row.shape[1:])), state

    return first


# ---- while PT2E works -------------------------------------------------------------------------------------------


@contextmanager
def counted_on() -> Iterator[None]:
    """Speeds up the naming of what PT2E adds to a module. For every observer, scale and zero point PT2E searches for a
    free name by counting up from zero: with many layers that takes longer than everything else. Here counting resumes
    where it last ended; the names are the same."""
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
    """Makes PT2E forget the modules that it was given. It caches the device of each, and so keeps the module and its
    weights alive for as long as the process, and torch visits the classes of all of them whenever it captures
    another."""
    try:
        yield
    finally:
        for place in REMEMBERED:
            place.function().cache_clear()  # type: ignore[attr-defined]


# ---- while graphs are rewritten ---------------------------------------------------------------------------------

_write_now = GraphModule.recompile
_CODE = "_code"  # the attribute in which FX keeps the generated Python


def late_code() -> AbstractContextManager[None]:
    """Defers FX's code generation: a changed graph is written as Python only when its module is first called or its
    code is read.

    FX regenerates a module's Python after every pass. A compile has dozens of passes, including those of PT2E and
    ExecuTorch, and runs one or two of the results.
    """
    return replaced(RECOMPILE, _put_off)


def _put_off(module: GraphModule) -> None:
    """Replaces recompile. Every GraphModule has a class of its own, so changing the class affects this module only."""
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
    """Stores the text that FX writes and removes the property that deferred it."""
    delattr(type(module), _CODE)
    module.__dict__[_CODE] = text


# ---- while ExecuTorch is imported -------------------------------------------------------------------------------


def yaml_in_c() -> AbstractContextManager[None]:
    """Reads YAML with libyaml. ExecuTorch reads a table of operators when it is imported, with a parser in Python that
    takes longer than most compiles; libyaml comes with PyYAML, which ExecuTorch needs too."""
    yaml = import_module("yaml")
    if not yaml.__with_libyaml__:
        return nullcontext()
    return replaced(YAML, lambda parser, stream: yaml.load(stream, yaml.CSafeLoader))


# ---- while ExecuTorch works -------------------------------------------------------------------------------------

_composites: list[int] = []  # their number at the last search


def operators_found_once() -> AbstractContextManager[None]:
    """Limits torch's search for composite operators. On every conversion to ExecuTorch's dialect torch makes sure that
    each composite operator has a Python object, which takes longer than converting a small graph. The objects persist,
    so this repeats the search only when operators were added."""
    find = COMPOSITES.function()

    def if_new() -> None:
        count = len(torch._C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd"))
        if [count] != _composites:
            find()
            _composites[:] = [count]

    return replaced(COMPOSITES, if_new)


def not_serialized() -> AbstractContextManager[None]:
    """Skips exir's serialization of what it emitted; the file is written later, when its values are shared."""
    return replaced(SERIALIZE, lambda *arguments, **named: (b"", {}))
