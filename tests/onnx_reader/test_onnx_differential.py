"""One-node ONNX files drawn by chance, as onnxruntime runs them: equal, or refused in a sentence.

A file that onnxruntime does not take may be refused or read; one that it takes is never computed otherwise.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch

from cortado.base.errors import CortadoError
from cortado.onnx.model import load_onnx
from cortado.onnx.reader import registered
from helpers.onnx_draws import DRAWS, Array, Chance, Drawn
from helpers.onnx_models import saved
from helpers.onnx_move_draws import sliced

SHORT, LONG = 2, 45  # files for each operator: in `make test`, and in the long tests
MOST_REFUSED = 0.75
# Operators that make constants or codes, and those that other tests compare with their own cases.
NOT_DRAWN = {
    *("CastLike", "Constant", "ConstantOfShape", "DequantizeLinear", "Dropout", "Identity", "QuantizeLinear", "Range"),
    *("RMSNormalization", "Shape", "Size", "Swish", "Upsample"),
}
Session = onnxruntime.InferenceSession


def by_onnxruntime(drawn: Drawn) -> list[Array] | None:
    """What onnxruntime gives; None where it takes no such file."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    try:
        session = Session(drawn.model().SerializeToString(), options, providers=["CPUExecutionProvider"])
        return [np.asarray(one) for one in session.run(None, drawn.given)]
    except Exception:  # its errors have no common class
        return None


def fault(drawn: Drawn, folder: Path) -> str | None:
    """What is wrong with a file as it is read: None, 'refused', or the difference."""
    expected = by_onnxruntime(drawn)
    try:
        model = load_onnx(saved(drawn.model(), folder))
    except CortadoError as error:
        return "refused" if "\n" not in str(error) else f"more than a sentence: {error}"
    if expected is None:
        return "not taken"
    with torch.no_grad():
        found: Any = model(*(torch.from_numpy(np.array(one)) for one in drawn.given.values()))
    for output, right in zip(found if isinstance(found, tuple) else (found,), expected, strict=False):
        if tuple(output.shape) != right.shape:
            return f"shape {tuple(output.shape)}, expected {right.shape}"
        if not np.allclose(output.numpy().astype(np.float64), right.astype(np.float64), 1e-3, 1e-4, equal_nan=True):
            return f"values {output.flatten()[:6].tolist()}, expected {right.flatten()[:6].tolist()}"
    return None


def check(kind: str, seeds: range, folder: Path) -> Counter[str]:
    counts: Counter[str] = Counter()
    for seed in seeds:
        drawn = DRAWS[kind](Chance(f"{kind}{seed}"), kind)
        found = fault(drawn, folder)
        assert found in (None, "refused", "not taken"), f"{kind} with seed {seed}: {found}; {_shown(drawn)}"
        counts[found or "equal"] += 1
    return counts


def _shown(drawn: Drawn) -> str:
    inputs = [
        None if one is None else f"{one.shape} {one.dtype}" if n < drawn.computed or one.size > 8 else one.tolist()
        for n, one in enumerate(drawn.inputs)
    ]
    return f"opset {drawn.opset}, inputs {inputs}, attributes {dict(drawn.attributes)}"


@pytest.mark.parametrize("kind", DRAWS)
def test_a_few_files_of_each_operator(kind: str, tmp_path: Path) -> None:
    check(kind, range(SHORT), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", DRAWS)
def test_many_files_of_each_operator(kind: str, tmp_path: Path) -> None:
    counts = check(kind, range(1000, 1000 + LONG), tmp_path)
    assert counts["equal"] > 0
    assert counts["refused"] <= MOST_REFUSED * counts.total(), counts


def test_every_operator_is_drawn() -> None:
    assert DRAWS["Slice"] is sliced  # both files of draws are there
    plain = {kind for kind, one in registered().items() if "" in one.domains}
    assert plain - set(DRAWS) - NOT_DRAWN == set()


# ---- faults that drawn files have found --------------------------------------------------------------------------


def test_an_empty_range_with_a_negative_step_is_empty(tmp_path: Path) -> None:
    bounds = [np.array([one]) for one in (1, 4, 0, -1)]
    assert fault(Drawn("Slice", [np.arange(6, dtype=np.float32), *bounds]), tmp_path) is None


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
def test_no_window_lies_in_padding_alone(kind: str, tmp_path: Path) -> None:
    attributes = {"kernel_shape": [2], "strides": [3], "pads": [0, 1], "ceil_mode": 1}
    drawn = Drawn(kind, [Chance(0).reals(1, 1, 6)], attributes)
    assert fault(drawn, tmp_path) is None


@pytest.mark.parametrize("kind", ["Gather", "GatherElements"])
def test_computed_positions_may_count_from_the_end(kind: str, tmp_path: Path) -> None:
    drawn = Drawn(kind, [Chance(0).reals(4, 3), np.array([[-1, 0, -4]])], {"axis": 0}, computed=2)
    assert fault(drawn, tmp_path) is None


@pytest.mark.parametrize("kind", ["ReduceSum", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum"])
def test_a_reduction_over_no_dimension_still_does_its_function(kind: str, tmp_path: Path) -> None:
    drawn = Drawn(kind, [Chance(0).reals(2, 3, low=0.1)], {"noop_with_empty_axes": 1})
    assert fault(drawn, tmp_path) is None


def test_a_slice_backwards_begins_inside(tmp_path: Path) -> None:
    bounds = [np.array([one]) for one in (-6, -6, 0, -3)]
    assert fault(Drawn("Slice", [np.arange(2, dtype=np.float32), *bounds]), tmp_path) is None


@pytest.mark.parametrize("pads", [[2, 0], [0, 2], [1, 1]])
def test_a_transposed_convolution_is_cut_at_both_ends(pads: list[int], tmp_path: Path) -> None:
    chance = Chance(0)
    inputs = [chance.reals(1, 2, 5), chance.reals(2, 3, 3), chance.reals(3)]
    assert fault(Drawn("ConvTranspose", inputs, {"pads": pads}), tmp_path) is None


@pytest.mark.parametrize("given", [(True, False), (False, True), (True, True)])
def test_initial_states_may_be_constants_and_one_of_two(given: tuple[bool, bool], tmp_path: Path) -> None:
    chance = Chance(0)
    weights = [chance.reals(1, 8, 3), chance.reals(1, 8, 2), chance.reals(1, 16), None]
    states = [chance.reals(1, 1, 2) if one else None for one in given]
    assert fault(Drawn("LSTM", [chance.reals(4, 1, 3), *weights, *states], {"hidden_size": 2}), tmp_path) is None


def test_negative_pads_cut_before_others_are_filled(tmp_path: Path) -> None:
    x = np.arange(6, dtype=np.float32)
    for mode in ("edge", "reflect", "wrap"):
        assert fault(Drawn("Pad", [x, np.array([2, -2])], {"mode": mode}), tmp_path) is None


def test_the_greatest_end_means_all_in_either_direction(tmp_path: Path) -> None:
    bounds = [np.array([one]) for one in (4, 2**63 - 1, 0, -2)]
    assert fault(Drawn("Slice", [np.arange(6, dtype=np.float32), *bounds]), tmp_path) is None


@pytest.mark.parametrize("attributes", [{"auto_pad": "SAME_UPPER"}, {"output_padding": [3]}])
def test_transposed_convolutions_of_unclear_sizes_are_refused(attributes: dict[str, Any], tmp_path: Path) -> None:
    chance = Chance(0)
    inputs = [chance.reals(1, 2, 5), chance.reals(2, 3, 2)]
    assert fault(Drawn("ConvTranspose", inputs, {"strides": [3], **attributes}), tmp_path) == "refused"
