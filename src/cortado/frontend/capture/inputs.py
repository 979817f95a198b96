"""Example inputs and calibration data, as tuples of tensors that fit the model.

Also the labels of a classifier: they must fit an output, or they would never be used.
"""

from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import TypeVar

import torch
import torch.utils._pytree as pytree
from torch.fx import GraphModule, Node

from cortado.base.errors import CortadoError
from cortado.base.names import InputRange
from cortado.base.numerics import Tensor
from cortado.frontend.capture.incoming import single_inputs
from cortado.frontend.capture.validation import check_values
from cortado.ir.domain import DOMAIN, WORDS, Domain, DomainKind, Interval, interval_of
from cortado.ir.facts import PROMISED, STATE, VALUE

# ---- inputs ----------------------------------------------------------------------------------------------

Inputs = tuple[Tensor, ...]
Batch = TypeVar("Batch")
MOST_BATCHES, MOST_VALUES = 1 << 16, 1 << 29  # limits of calibration data without a length: 2 GB of float32


def check_example(example_inputs: Sequence[Tensor]) -> Inputs:
    """Checks example inputs and returns them as a tuple of nonempty tensors."""
    inputs = (example_inputs,) if isinstance(example_inputs, Tensor) else tuple(example_inputs)
    for position, value in enumerate(inputs):
        if not isinstance(value, Tensor):
            raise CortadoError(f"example input {position} must be a tensor, found {type(value).__name__}")
        check_values(f"example input {position}", value)
        if value.numel() == 0:
            raise CortadoError(f"example input {position} has shape {list(value.shape)}, which holds no values")
        if is_other_float(value):
            raise CortadoError(
                f"example input {position} is {dtype_name(value.dtype)}, expected float32; give x.float(), and a model "
                "in float32 (model.float())"
            )
    return _plain(inputs)


def note_ranges(module: GraphModule, ranges: Sequence[InputRange], batches: Sequence[Inputs]) -> None:
    """Notes the ranges of inputs that the user promises (--range) and checks that the data keep to them. The first
    batch is the example inputs."""
    inputs = [node for node in module.graph.nodes if node.op == "placeholder" and not STATE.known(node)]
    places = {node.name: place for place, node in enumerate(inputs) if VALUE.must(node).dtype in _NUMBERS}
    for one in ranges:
        if one.name not in places:
            raise CortadoError(
                f"--range {one}: '{one.name}' is not a numeric input, expected one of the model's: "
                f"{', '.join(places) or 'it has none'}"
            )
        _check_kept(one, [batch[places[one.name]] for batch in batches])
        _note_range(inputs[places[one.name]], one)


def _check_kept(promised: InputRange, values: Sequence[Tensor]) -> None:
    for number, value in enumerate(values):
        low, high = value.min().item(), value.max().item()
        if low < promised.low or high > promised.high:
            what = "the example inputs hold" if number == 0 else f"calibration batch {number - 1} holds"
            raise CortadoError(
                f"--range {promised}: {what} {low:.7g} to {high:.7g} in '{promised.name}', expected "
                f"{promised.low} to {promised.high}"
            )


def _note_range(node: Node, promised: InputRange) -> None:
    if VALUE.must(node).dtype.is_floating_point:
        PROMISED.note(node, (float(promised.low), float(promised.high)))
        return
    held = interval_of(VALUE.must(node).dtype) or WORDS
    if not (isinstance(promised.low, int) and isinstance(promised.high, int)):
        raise CortadoError(f"--range {promised}: '{promised.name}' holds integers, expected integer bounds")
    given = Interval(promised.low, promised.high)
    if not given.within(held):
        raise CortadoError(f"--range {promised}: expected an interval within {held}, which a compiled model can hold")
    DOMAIN.note(node, Domain(DomainKind.INTEGER, given))


_NUMBERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float32)


def is_other_float(value: Tensor) -> bool:
    return (value.is_floating_point() or value.is_complex()) and value.dtype != torch.float32


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _plain(inputs: Sequence[Tensor]) -> Inputs:
    """Returns the values in contiguous memory order: channels_last is a layout in memory, not a part of the model."""
    return tuple(value.detach().clone(memory_format=torch.contiguous_format) for value in inputs)


def check_batches(batches: Tensor | Iterable[Tensor | Sequence[Tensor]], example_inputs: Inputs) -> list[Inputs]:
    """Returns calibration inputs as tuples, one for each run of the model; a tensor can hold several."""
    if isinstance(batches, Tensor):
        batches = [batches]
    if isinstance(batches, str) or not isinstance(batches, Iterable):
        found = repr(batches) if isinstance(batches, str) else f"a {type(batches).__name__}"
        raise CortadoError(
            "calibration must be a sequence of inputs, each a tuple of tensors, as in [(x,), (y,)], or one tensor with "
            f"the inputs along its first dimension; found {found}"
        )
    checked = [
        _plain(inputs)
        for number, batch in enumerate(ending(batches))
        for inputs in _checked_batch(f"calibration batch {number}", batch, example_inputs)
    ]
    if not checked:
        raise CortadoError(
            "no calibration data: quantization needs a few typical inputs to choose its scales; "
            "give `calibration=` (or --calibration) some batches"
        )
    return checked


def ending(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Yields the batches. A generator, or a loader, that gives more than anyone calibrates with is refused: it may be
    endless."""
    if isinstance(batches, list | tuple):
        yield from batches
        return
    if isinstance(batches, Sized) and len(batches) > MOST_BATCHES:
        raise CortadoError(
            f"the calibration data has {len(batches):,} batches, expected at most {MOST_BATCHES:,}. A few hundred are "
            "enough: take some with itertools.islice(batches, 200)"
        )
    values = 0
    for number, batch in enumerate(batches):
        values += sum(leaf.numel() for leaf in pytree.tree_leaves(batch) if isinstance(leaf, Tensor))
        if number >= MOST_BATCHES or values > MOST_VALUES:
            raise CortadoError(
                f"the calibration data has not ended after {number:,} batches with {values:,} values: is it an endless "
                "generator? A few hundred batches are enough: end it, or take some with itertools.islice(batches, 200)"
            )
        yield batch


def _checked_batch(where: str, batch: Tensor | Sequence[Tensor], example_inputs: Inputs) -> list[Inputs]:
    values = tuple(batch) if isinstance(batch, tuple | list) else (batch,)
    if len(values) != len(example_inputs):
        raise CortadoError(
            f"{where} has {len(values)} tensors, expected {len(example_inputs)} (one for each input of the model)"
        )
    for value in values:
        if not isinstance(value, Tensor):
            raise CortadoError(
                f"{where} must be a tuple of tensors, found {type(value).__name__} (torch.from_numpy makes a tensor of "
                "a NumPy array)"
            )
    values = tuple(_in_float32(value, like) for value, like in zip(values, example_inputs, strict=True))
    try:
        inputs = single_inputs(values, example_inputs)
    except CortadoError as error:
        raise CortadoError(f"{where}: {error}") from error
    for value, example in zip(inputs[0], example_inputs, strict=True):
        _check_tensor(where, value, example)
    if not all(bool(torch.isfinite(value).all()) for value in values if value.is_floating_point()):
        raise CortadoError(f"{where} holds NaN or infinity; calibration data must be finite")
    return inputs


def _in_float32(value: Tensor, example: Tensor) -> Tensor:
    """Converts float64, NumPy's default, to float32 where the example is float32."""
    wide = (value.dtype, example.dtype) == (torch.float64, torch.float32)
    return value.to(torch.float32) if wide else value


def _check_tensor(where: str, value: Tensor, example: Tensor) -> None:
    if tuple(value.shape) != tuple(example.shape):
        raise CortadoError(
            f"{where} has shape {list(value.shape)}, expected {list(example.shape)}{_remedy(value, example)}"
        )
    if value.dtype != example.dtype:
        raise CortadoError(
            f"{where} has dtype {value.dtype}, expected {example.dtype}: prepare calibration data as the model gets it"
            " (scaled as in training, if these are bytes of pictures or sound)"
        )


def _remedy(value: Tensor, example: Tensor) -> str:
    """Formats what to do about another shape, if it is clear; empty otherwise."""
    sizes, wanted = list(value.shape), list(example.shape)
    if len(sizes) == len(wanted) > 2 and [sizes[-1], *sizes[1:-1]] == wanted[1:]:
        return "; if its channels come last, move them: numpy.moveaxis(samples, -1, 1)"
    if sizes[1:] == wanted:
        return ""
    return f"; a file of N samples has [N, {', '.join(map(str, wanted[1:]))}]" if len(wanted) > 1 else ""


# ---- labels ----------------------------------------------------------------------------------------------


def checked_labels(labels: Sequence[str] | None, module: GraphModule) -> tuple[str, ...] | None:
    """Checks that an output of the captured model has as many classes, along some dimension, as there are labels."""
    if labels is None:
        return None
    if isinstance(labels, str) or not all(isinstance(name, str) for name in labels):
        raise CortadoError(f"labels={labels!r}: expected a sequence of names, as in labels=('cat', 'dog')")
    shapes = _output_shapes(module)
    if not any(len(labels) in shape for shape in shapes):
        found = ", ".join(str(shape) for shape in shapes)
        raise CortadoError(
            f"found {len(labels)} labels ({', '.join(labels[:3])}{', ...' if len(labels) > 3 else ''}), and outputs of "
            f"shape {found}; expected as many names as there are classes"
        )
    return tuple(labels)


def _output_shapes(module: GraphModule) -> list[list[int]]:
    values = [VALUE.of(node) for node in module.graph.output_node().all_input_nodes]
    return [list(value.shape) for value in values if isinstance(value, Tensor)]
