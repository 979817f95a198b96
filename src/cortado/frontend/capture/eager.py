"""The user's own module, run eagerly and unchanged: what a captured graph must compute, and within which tolerance."""

import contextlib
import copy
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from cortado.base.element import INT8
from cortado.base.errors import CortadoError
from cortado.frontend.capture.incoming import evaluation
from cortado.ops.meaning import leaves_order_open

Tensor = torch.Tensor

# A rewrite can change the order of additions (folding a batch norm does), which changes values by parts in a million. A
# thousandth of the largest value is a quarter of a step of an int8 output: smaller differences are invisible, and those
# of a write that was lost, or read too early, are much larger. 2^-20 is the smallest scale there is.
RELATIVE = 1e-3
ABSOLUTE = 2.0**-20
# Where a value depends on a comparison, or on the difference of almost equal numbers, rounding changes it by more. The
# tolerance is then measured: the change when inputs and all results change in their last bits, times a margin.
ROUNDING = 1e-6
PROBES = 4
SLACK = 10.0
# For outputs that are codes: the steps by which a value can be off, and the share of values that can be off by more.
STEPS = 3.0
FEW = 0.02


_Buffers: TypeAlias = list[dict[str, Tensor | None]]  # for each module


def _detached(module: torch.nn.Module) -> dict[str, Tensor | None]:
    return {name: None if value is None else value.detach() for name, value in module._buffers.items()}


class Eager:
    """A copy of the user's module in evaluation mode. It gets copies of its inputs, as forward can write into them.

    Buffers that forward changes keep their values from call to call, as in the module, until `reset`.
    """

    def __init__(self, model: torch.nn.Module, *, lasting: bool = True, leaves_open: bool = True) -> None:
        with evaluation(model):
            self._model = _copied(model)
        self._leaves_open = leaves_open  # if not, calls need not be intercepted, which takes time
        self._lasting = lasting  # whether forward changes any buffers
        self._initial = self._buffers()
        self.drift = 0.0  # the error, as a part of the largest output, to which float32 rounding can add up by feedback
        self._largest = 0.0

    def reset(self) -> None:
        """Resets all buffers to their initial values."""
        self._restore(self._initial)

    def _buffers(self) -> _Buffers:
        """Copies the buffers; those that share memory still do."""
        modules = self._model.modules() if self._lasting else ()
        return copy.deepcopy([_detached(module) for module in modules])

    def _restore(self, saved: _Buffers) -> None:
        for module, buffers in zip(self._model.modules(), copy.deepcopy(saved), strict=False):
            module._buffers.update(buffers)

    def __call__(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        with torch.no_grad(), RightKernels() if self._leaves_open else nullcontext():
            result = self._model(*(value.clone() for value in inputs))
        return [value.detach() for value in pytree.tree_leaves(result) if isinstance(value, Tensor)]

    def check(self, where: str, inputs: Sequence[Tensor], found: Any, suspects: Sequence[str]) -> None:
        """Refuses a graph whose outputs differ from the module's; `suspects` are calls of it that can be the cause."""
        outputs = [value for value in pytree.tree_leaves(found) if isinstance(value, Tensor)]
        before = self._buffers()
        wanted = self._run(where, inputs)
        if _first_difference(wanted, outputs, self._drifted(wanted)) is None:
            return
        after = self._buffers()
        self._restore(before)
        again = _first_difference(wanted, self._run(where, inputs), None)
        if again is not None:
            raise CortadoError(
                f"the model gives different outputs each time it is run: on {where} {again.text('a second run')}; a "
                "compiled model gives the same output for the same input: remove what is random (dropout with "
                "training=True, torch.rand), and keep what persists from call to call in a buffer (register_buffer)"
            )
        difference = _first_difference(wanted, outputs, self._moves(inputs, wanted, before))
        self._restore(after)
        if difference is None:
            return
        raise CortadoError(
            f"the captured graph does not compute what the model does: on {where} {difference.text('the graph')}; "
            + (_nested(self._model) or _advice(suspects))
        )

    def _drifted(self, wanted: Sequence[Tensor]) -> list[Tensor] | None:
        """Returns how far rounding of earlier calls can have moved these outputs; None without feedback."""
        if not self.drift:
            return None
        finite = [value.double().nan_to_num(posinf=0.0, neginf=0.0).abs() for value in wanted if value.numel()]
        self._largest = max([self._largest, *(float(value.max()) for value in finite)])
        moved = self.drift * self._largest / SLACK
        return [torch.full(value.shape, moved, dtype=torch.float64) for value in wanted]

    def check_codes(
        self, where: str, inputs: Sequence[Tensor], found: Any, steps: Sequence[float | None]
    ) -> list[Tensor]:
        """Checks the codes of the graph and returns the module's. If sums in another order round to an adjacent code,
        single values move by a few steps; a wrong graph moves them all."""
        outputs = [value for value in pytree.tree_leaves(found) if isinstance(value, Tensor)]
        wanted = self._run(where, inputs)
        moves = [_moved(value, step) for value, step in zip(wanted, steps, strict=True)]
        difference = _first_difference(wanted, outputs, moves, FEW)
        if difference is not None:
            raise CortadoError(
                f"the captured graph does not compute what the model does: on {where} {difference.text('the graph')}; "
                + _advice(())
            )
        return wanted

    @contextmanager
    def blamed(self, where: str, inputs: Sequence[Tensor]) -> Iterator[None]:
        """Reports an error of the model itself, if a graph fails on inputs on which the model fails too, such as an id
        outside a table."""
        try:
            yield
        except CortadoError:
            raise
        except Exception:
            self._run(where, inputs)
            raise

    def _run(self, where: str, inputs: Sequence[Tensor]) -> list[Tensor]:
        try:
            return self(inputs)
        except Exception as error:
            text = " ".join(str(error).split())
            raise CortadoError(f"the model itself fails on {where}: {type(error).__name__}: {text}") from error

    def _moves(self, inputs: Sequence[Tensor], wanted: Sequence[Tensor], buffers: _Buffers) -> list[Tensor]:
        """Measures how far each output value moves when inputs and results change by a rounding error of float32."""
        moves = [torch.zeros(value.shape, dtype=torch.float64) for value in wanted]
        for probe in range(PROBES):
            rng = torch.Generator().manual_seed(probe)
            self._restore(buffers)
            with RoundingNoiseMode(rng):
                found = self([_shaken(x, rng) for x in inputs])
            for move, before, after in zip(moves, wanted, found, strict=True):
                step = (after.double() - before.double()).abs().nan_to_num(nan=math.inf)
                torch.maximum(move, torch.where(_equal(before, after), 0.0, step), out=move)
        return moves


def _copied(model: torch.nn.Module) -> torch.nn.Module:
    """Copies a model, so that attributes and buffers that forward sets stay out of the user's module (graphs that write
    into parameters are refused). A model that can't be copied, such as one with a tensor that has a gradient, is used
    directly."""
    with contextlib.suppress(Exception):
        return copy.deepcopy(model)
    return model


class RightKernels(TorchDispatchMode):
    """Replaces wrong or ambiguous results of torch. oneDNN's transposed convolution can be wrong where no tap reaches
    an output: torch's own kernel computes those. Sorts are stable, and the results of topk sorted, if the model leaves
    their order open."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if leaves_order_open(func):
            return _in_stable_order(func, args, kwargs or {})
        skips = func is torch.ops.aten.convolution.default and _skips_outputs(*args)
        with _without_onednn() if skips else nullcontext():
            return func(*args, **(kwargs or {}))


def _in_stable_order(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Computes topk or sort, of equal numbers the first one first."""
    given = {**dict(zip((one.name for one in func._schema.arguments), args, strict=False)), **kwargs}
    x, dim = given["self"], given.get("dim", -1)
    if not x.dim():
        return func(*args, **kwargs)
    descending = given.get("largest", True) if "k" in given else given.get("descending", False)
    found = torch.sort(x, dim=dim, descending=descending, stable=True)
    return tuple(one.narrow(dim, 0, given.get("k", x.shape[dim])).contiguous() for one in found)


def _skips_outputs(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> bool:
    """Whether a convolution is transposed and some of its outputs are just the bias."""
    reached = [
        {tap * step % by for tap in range(size)} == set(range(by))
        for size, by, step in zip(weight.shape[2:], stride, dilation, strict=True)
    ]
    return transposed and (not all(reached) or any(output_padding))


@contextmanager
def _without_onednn() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="TF32 acceleration on top of oneDNN")  # set along with the switch
        with torch.backends.mkldnn.flags(enabled=False):
            yield


class RoundingNoiseMode(TorchDispatchMode):
    """Perturbs the last bits of every result, as another order of sums can; integers in float are unchanged."""

    def __init__(self, rng: torch.Generator) -> None:
        super().__init__()
        self._rng = rng

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        fresh = all(one.alias_info is None for one in func._schema.returns)
        return pytree.tree_map_only(Tensor, self._other_bits, found) if fresh else found

    def _other_bits(self, value: Tensor) -> Tensor:
        plain = value.is_floating_point() and value.layout is torch.strided and not value.is_nested
        if not plain or not value.numel() or bool((value == value.round()).all()):
            return value
        return _shaken(value, self._rng)


def _shaken(value: Tensor, rng: torch.Generator) -> Tensor:
    if not value.is_floating_point():
        return value
    finite = value.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
    largest = float(finite.abs().max()) or 1.0
    return value + (torch.rand(value.shape, generator=rng) * 2 - 1) * (ROUNDING * largest)


def _moved(value: Tensor, step: float | None) -> Tensor:
    """Returns the tolerance of an output: a few steps; without codes, a few 127ths of its largest value."""
    size = float(value.double().abs().max()) / INT8.high if step is None else step
    return torch.full(value.shape, STEPS * size / SLACK, dtype=torch.float64)


# ---- differences -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    output: int
    what: str

    def text(self, whose: str) -> str:
        return f"output {self.output} of {whose} {self.what}"


def same_values(wanted: Sequence[Tensor], found: Sequence[Tensor]) -> bool:
    """Whether outputs are equal up to rounding."""
    return _first_difference(wanted, found, None) is None


def _first_difference(
    wanted: Sequence[Tensor], found: Sequence[Tensor], moves: Sequence[Tensor] | None, few: float = 0.0
) -> Difference | None:
    if len(wanted) != len(found):
        return Difference(min(len(wanted), len(found)), f"is one of {len(found)}, but the model gives {len(wanted)}")
    for position, (a, b) in enumerate(zip(wanted, found, strict=True)):
        what = _difference(a, b, None if moves is None else moves[position], few)
        if what is not None:
            return Difference(position, what)
    return None


def _difference(wanted: Tensor, found: Tensor, moves: Tensor | None, few: float) -> str | None:
    if wanted.shape != found.shape:
        return f"has shape {list(found.shape)}, the model's {list(wanted.shape)}"
    a, b = wanted.double(), found.double()
    finite = a.isfinite()
    peak = float(a[finite].abs().max()) if bool(finite.any()) else 0.0
    allowed = torch.full_like(a, ABSOLUTE + RELATIVE * peak if wanted.is_floating_point() else 0.0)
    if moves is not None:
        allowed += SLACK * moves
    same = _equal(a, b) | ((a - b).abs() <= allowed)
    if int((~same).sum()) <= few * same.numel():
        return None
    worst = float((a - b)[~same].abs().nan_to_num(nan=math.inf).max())
    count = int((~same).sum())
    return f"differs in {count} of {same.numel()} values, by up to {worst:.3g} where the model's largest is {peak:.3g}"


def _equal(a: Tensor, b: Tensor) -> Tensor:
    return (a == b) | (a.isnan() & b.isnan())


def _nested(model: torch.nn.Module) -> str | None:
    """Returns advice for encoders that skip padding when run in evaluation mode, but neither in training nor when
    captured; None for other models."""
    kinds = (module for module in model.modules() if isinstance(module, torch.nn.TransformerEncoder))
    if not any(getattr(module, "use_nested_tensor", False) for module in kinds):
        return None
    return (
        "nn.TransformerEncoder gives zeros for padding in evaluation mode only, because it was made with "
        "enable_nested_tensor=True; make it with enable_nested_tensor=False"
    )


def _advice(suspects: Sequence[str]) -> str:
    if not suspects:
        return "this is a fault of Cortado, please report it with the model; until then, write that part in another way"
    return (
        "an in-place write that is seen through another name may be why; write these without the in-place operation "
        "(y = f(x), torch.cat, torch.where):\n  " + "\n  ".join(suspects)
    )
