"""Scores of a compiled model on a dataset: labels, the float model, thresholds, and data that don't fit."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import cortado
from cortado.api import Compiled, compile
from cortado.artifact.opened import Artifact, Reference
from cortado.base.errors import CortadoError
from cortado.frontend.capture.torch_settings import one_thread
from cortado.scoring.dataset import Dataset, make_dataset, read_dataset, scores_of
from cortado.scoring.floats import BATCH, float_inputs, float_model, float_outputs
from cortado.scoring.metrics import confusion
from cortado.scoring.scores import Evaluation, OutputError, Score, Thresholds, evaluate
from helpers.single import Function
from models.blobs import points, train

MODEL = train()
X, LABELS = points(200, seed=5)


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    return compile(MODEL, (X[:1],), "cortex-m4", calibration=points(64, seed=0)[0], name="blobs")


@pytest.fixture(scope="module")
def artifact(compiled: Compiled, tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    return compiled.save(tmp_path_factory.mktemp("blobs") / "out")


# ---- scores --------------------------------------------------------------------------------------------------------


@pytest.mark.host
def test_a_classifier_is_scored_beside_its_float_model(compiled: Compiled) -> None:
    found = compiled.evaluate(X, LABELS, model=MODEL, top_k=2)
    with torch.no_grad():
        scores = MODEL(X)
    best = scores.argmax(1)
    assert found.samples == 200
    assert found.float_accuracy == float((best == LABELS).double().mean())
    assert found.accuracy is not None
    assert found.float_accuracy > 0.8
    assert abs(found.accuracy - found.float_accuracy) < 0.03
    assert found.drop == found.float_accuracy - found.accuracy
    assert found.floats is not None
    assert found.floats.confusion is not None
    assert found.floats.confusion.tolist() == confusion(best.numpy(), LABELS.numpy(), 3).tolist()
    in_two = (scores.argsort(1, descending=True)[:, :2] == LABELS[:, None]).any(1)
    assert found.floats.top_k == float(in_two.double().mean())
    assert found.integers is not None
    assert found.integers.confusion is not None
    assert np.trace(found.integers.confusion) == round(found.accuracy * 200)
    assert found.sqnr_db is not None
    assert found.sqnr_db > 25
    assert found.same_best is not None
    assert found.same_best > 0.95
    assert [(one.place, one.samples, one.problem) for one in found.compared] == [("reference", 2, None)]


@pytest.mark.host
def test_a_folder_an_open_one_and_what_is_in_memory_are_scored_alike(compiled: Compiled, artifact: Artifact) -> None:
    found = [
        cortado.evaluate(one, X, LABELS, model=MODEL, limit=20)
        for one in (compiled, artifact, artifact.folder, str(artifact.folder))
    ]
    assert {one.samples for one in found} == {20}
    assert len({(one.accuracy, one.float_accuracy, one.outputs) for one in found}) == 1


@pytest.mark.host
def test_runs_give_codes_and_the_numbers_they_stand_for(compiled: Compiled) -> None:
    x = points(64, seed=0)[0]  # calibration data: nothing saturates
    checked = compiled.run(x, on="host")
    (codes,), (outputs,) = checked.codes, checked.outputs
    tensor = compiled.report.outputs[0]
    assert codes.dtype == np.int8
    assert codes.shape == outputs.shape == (64, 3)
    assert tensor.scale is not None
    assert tensor.zero_point is not None
    np.testing.assert_allclose(outputs, (codes.astype(np.float64) - tensor.zero_point) * tensor.scale, rtol=1e-6)
    with torch.no_grad():
        np.testing.assert_allclose(outputs, MODEL(x).numpy(), atol=3 * tensor.scale)
    assert checked.bit_exact


@pytest.mark.host
def test_one_score_and_labels_of_0_and_1(tmp_path: Path) -> None:
    model = train(outputs=1)
    scored = compile(model, (X[:1],), "cortex-m4", calibration=points(64, seed=0)[0], name="score")
    found = scored.evaluate(X, (LABELS == 2).float(), model=model)
    assert (found.accuracy, found.same_best) == (None, None)
    assert found.integers is not None
    assert found.floats is not None
    assert found.integers.auc is not None
    assert found.floats.auc is not None
    assert found.floats.auc > 0.95
    assert found.integers.auc == pytest.approx(found.floats.auc, abs=0.01)
    with pytest.raises(CortadoError, match="every label of the 200 samples is 0, expected 0 for some and 1 for others"):
        scored.evaluate(X, torch.zeros(200))
    with pytest.raises(CortadoError, match=r"sample \d+ is 2, expected 0 to 1, because the model gives one score"):
        scored.evaluate(X, LABELS)


class Projector(nn.Module):
    """Rebuilds what lies on the first axis, and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2, bias=False)
        self.linear.weight.data = torch.tensor([[1.0, 0.0], [0.0, 0.0]])

    def forward(self, x: Tensor) -> Tensor:
        rebuilt: Tensor = self.linear(x)
        return rebuilt


@pytest.mark.host
def test_how_far_an_output_is_from_its_input_tells_anomalies() -> None:
    """Normal samples lie near the axis; by the values of the output nothing would be told."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(80) % 2
    x = torch.randn(80, 2, generator=generator)
    x[:, 1] = 0.4 * x[:, 1] * torch.where(labels == 1, 3.0, 1.0)
    compiled = compile(Projector(), (x[:1],), "cortex-m4", calibration=x)
    found = compiled.evaluate(x, labels, model=Projector(), reconstruction=True)
    errors = x[:, 1].square()
    above = (errors[labels == 1][:, None] > errors[labels == 0]).double().mean()
    assert found.floats is not None
    assert found.integers is not None
    assert found.floats.auc == pytest.approx(float(above))
    assert found.integers.auc == pytest.approx(float(above), abs=0.01)
    assert (found.accuracy, found.same_best) == (None, None)
    with pytest.raises(
        CortadoError, match="the label of sample 7 is 2, expected 0 to 1, because the model gives one score"
    ):
        compiled.evaluate(x, torch.arange(80) % 2 + (torch.arange(80) == 7), reconstruction=True)


def test_a_classifier_rebuilds_nothing(artifact: Artifact) -> None:
    with pytest.raises(CortadoError, match=r"the model turns \[1, 4\] into \[1, 3\]; expected equal shapes"):
        make_dataset(artifact, X, LABELS, reconstruction=True)


@pytest.mark.host
def test_without_labels_every_output_is_compared_with_float(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Function(lambda m, x: (m.c(x), torch.relu(x)), c=nn.Conv2d(2, 3, 3))
    images = torch.randn(6, 2, 5, 5)
    two = compile(model, (images[:1],), "cortex-m4", calibration=images, name="two")
    found = two.evaluate(images, model=model)
    assert (found.integers, found.floats, found.same_best) == (None, None, None)
    assert [output.name for output in found.outputs] == [tensor.name for tensor in two.report.outputs]
    for output, tensor in zip(found.outputs, two.report.outputs, strict=True):
        assert output.sqnr_db is not None
        assert output.sqnr_db > 30
        assert tensor.scale is not None
        assert 0 < output.worst < 8 * tensor.scale
    assert found.sqnr_db == min(output.sqnr_db for output in found.outputs if output.sqnr_db is not None)
    with pytest.raises(CortadoError, match=r"first output has shape \[1, 3, 3, 3\]; expected \[1, classes\]"):
        two.evaluate(images, torch.zeros(6), model=model)
    with pytest.raises(CortadoError, match="nothing to compare with"):
        two.evaluate(images)


@pytest.mark.qemu
def test_a_board_gives_the_same_codes_or_it_is_told(artifact: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    data = make_dataset(artifact, X, LABELS, limit=5)
    assert evaluate(artifact, data, board_samples=3).compared[1].samples == 3
    execute = Artifact.execute

    def other(self: Artifact, feeds: Any, on: str | None = None, **rest: Any) -> Any:
        result = execute(self, feeds, on, **rest)
        if on is None:
            result.samples[1][0] = result.samples[1][0] ^ 1
        return result

    monkeypatch.setattr(Artifact, "execute", other)
    found = evaluate(artifact, data, board_samples=3)
    wanted = "mps2-an386 gives codes that differ from this machine's for 1 of 3 samples, the first is 2"
    assert found.problems() == [wanted]


@pytest.mark.host
def test_other_codes_than_the_references_are_told(artifact: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    data = make_dataset(artifact, X, LABELS, limit=7)
    shifted = [[value ^ 1 for value in sample] for sample in artifact.reference(data.samples).expected]
    monkeypatch.setattr(
        Artifact, "reference", lambda self, samples, *_, **__: Reference([], shifted[: len(samples)], [])
    )
    (problem,) = evaluate(artifact, data).problems()
    assert problem == "this machine gives codes that differ from the reference's for 2 of 2 samples, the first is 0"


# ---- thresholds ----------------------------------------------------------------------------------------------------


def result(accuracy: float, before: float, sqnr: float | None) -> Evaluation:
    errors = (OutputError("y", sqnr, 0.1), OutputError("z", math.inf, 0.0))
    return Evaluation(None, Score(accuracy), Score(before), errors, None, 9, (), 0.0)


@pytest.mark.parametrize(
    ("thresholds", "found", "problems"),
    [
        (Thresholds(0.9, 0.02, 30.0), result(0.9, 0.92, 30.0), []),
        (Thresholds(min_accuracy=0.9), result(0.89, 0.9, 30.0), ["the accuracy is 89.00%, expected 90.00% or more"]),
        (
            Thresholds(max_drop=0.01),
            result(0.875, 0.9, 30.0),
            ["the accuracy drops by 2.50% (from 90.00% in float to 87.50%), expected 1.00% or less"],
        ),
        (Thresholds(max_drop=0.0), result(0.9, 0.8, 30.0), []),
        (Thresholds(min_sqnr=30.0), result(0.9, 0.9, 29.9), ["the SQNR is 29.9 dB, expected 30 dB or more"]),
        (Thresholds(min_sqnr=30.0), result(0.9, 0.9, None), []),
    ],
)
def test_what_misses_a_threshold_is_told(thresholds: Thresholds, found: Evaluation, problems: list[str]) -> None:
    assert thresholds.problems(found) == problems


def test_no_signal_at_all_reaches_no_threshold() -> None:
    silent = replace(result(0.9, 0.9, None), outputs=(OutputError("y", None, 0.0),))
    (problem,) = Thresholds(min_sqnr=1.0).problems(silent)
    assert problem == "the SQNR is unknown, because the float model gives only zeros, expected 1 dB or more"


@pytest.mark.parametrize(
    ("thresholds", "labels", "floats"),
    [
        (Thresholds(min_accuracy=0.1), False, True),
        (Thresholds(max_drop=0.1), True, False),
        (Thresholds(max_drop=0.1), False, True),
        (Thresholds(min_sqnr=0.1), True, False),
    ],
)
def test_a_threshold_that_nothing_tells_is_refused(
    artifact: Artifact, thresholds: Thresholds, labels: bool, floats: bool
) -> None:
    with pytest.raises(CortadoError, match="it can't be computed: that needs"):
        thresholds.check(scores_of(artifact), labels=labels, floats=floats)
    thresholds.check(scores_of(artifact), labels=True, floats=True)


# ---- datasets ------------------------------------------------------------------------------------------------------


def same(data: Dataset, count: int) -> None:
    assert data.labels is not None
    assert data.labels.tolist() == LABELS[:count].tolist()
    np.testing.assert_array_equal(np.concatenate([sample[0] for sample in data.samples]), X[:count].numpy())


def test_datasets_come_in_many_forms(artifact: Artifact) -> None:
    same(make_dataset(artifact, X, LABELS), 200)
    same(make_dataset(artifact, (X.numpy(),), LABELS.numpy()[:, None]), 200)
    same(make_dataset(artifact, X, LABELS.double(), limit=9), 9)
    same(make_dataset(artifact, TensorDataset(X, LABELS)), 200)
    same(make_dataset(artifact, DataLoader(TensorDataset(X, LABELS), batch_size=64)), 200)
    same(make_dataset(artifact, [((x,), int(label)) for x, label in zip(X, LABELS, strict=True)], limit=300), 200)


@pytest.mark.parametrize(
    ("data", "labels", "message"),
    [
        (X, LABELS[:90], "labels holds 90 labels, expected 200: one for each sample of the dataset"),
        (X, nn.functional.one_hot(LABELS, 3), r"labels has shape \[200, 3\], expected \[200\].*labels.argmax\(1\)"),
        (X, LABELS + 1, r"the label of sample \d+ is 3, expected 0 to 2, because the model gives 3 scores"),
        (X, LABELS - 1, r"the label of sample \d+ is -1, expected 0 to 2"),
        (X, LABELS + 0.5, "labels holds float32 values that are not classes, expected integers"),
        (X, torch.full((200,), math.nan), "values that are not classes"),
        ((X, X), LABELS, "2 inputs were given, expected 1"),
        (X[:, :3], LABELS, r"has shape \[200, 3\], expected \[1, 4\]"),
        (3, None, "the dataset is a int; expected a tensor or array of samples"),
        ([X[0], X[1]], None, r"item 0 of the dataset is a Tensor, expected a pair \(input, label\)"),
        ([((X[0], X[0]), 1)], None, "item 0 of the dataset has 2 inputs, expected 1"),
        ([(X[0], 1), (X[0, :3], 1)], None, "the samples of the dataset have different shapes"),
        ([], None, "the dataset holds no samples"),
        ([(X[0], 1)], LABELS, "labels were given twice"),
    ],
)
def test_datasets_that_do_not_fit_are_refused(artifact: Artifact, data: Any, labels: Any, message: str) -> None:
    with pytest.raises(CortadoError, match=message):
        make_dataset(artifact, data, labels)


def test_no_limit_leaves_nothing(artifact: Artifact) -> None:
    with pytest.raises(CortadoError, match="a limit of 0 samples leaves none"):
        make_dataset(artifact, X, LABELS, limit=0)


def test_more_classes_than_there_are_can_not_be_the_best(artifact: Artifact) -> None:
    with pytest.raises(CortadoError, match="the best 4 classes were requested, expected 1 to 3"):
        evaluate(artifact, make_dataset(artifact, X, LABELS), top_k=4)
    floats = float_model(artifact, MODEL, [X[:1]])
    with pytest.raises(CortadoError, match="the best 2 classes can't be scored: that needs labels"):
        evaluate(artifact, make_dataset(artifact, X), floats=floats, top_k=2)


@pytest.mark.parametrize(
    ("inputs", "shape", "rows", "classes"),
    [
        ((1, 4), (1, 3), 1, 3),
        ((1, 4), (1, 3, 1, 1), 1, 3),
        ((1, 4), (1, 1), 1, 1),
        ((1, 4), (1,), 1, 1),
        ((8, 4), (8, 3), 8, 3),
        ((8, 4), (8,), 8, 1),
        ((4,), (3,), 1, 3),
        ((4,), (), 1, 1),
    ],
)
def test_what_is_a_row_of_scores(
    artifact: Artifact, inputs: tuple[int, ...], shape: tuple[int, ...], rows: int, classes: int
) -> None:
    report = artifact.report
    changed = replace(
        report,
        inputs=(replace(report.inputs[0], model_shape=inputs),),
        outputs=(replace(report.outputs[0], model_shape=shape),),
    )
    found = scores_of(replace(artifact, report=changed))
    assert found is not None
    assert (found.rows, found.classes) == (rows, classes)


def test_labels_in_a_text_may_be_names(artifact: Artifact, tmp_path: Path) -> None:
    named = replace(artifact, report=replace(artifact.report, labels=("east", "north", "west")))
    np.save(tmp_path / "x.npy", X[:3].numpy())
    (tmp_path / "y.txt").write_text("north\n2\n east \n")
    found = read_dataset(named, tmp_path / "x.npy", tmp_path / "y.txt")
    assert found.labels is not None
    assert found.labels.tolist() == [1, 2, 0]
    with pytest.raises(CortadoError, match=r"y.txt:1: found 'north', expected a class number$"):
        read_dataset(artifact, tmp_path / "x.npy", tmp_path / "y.txt")


# ---- the float model in batches ------------------------------------------------------------------------------------


class Counted(nn.Module):
    """What a batch may do to samples, and how often forward was called."""

    calls = 0

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        Counted.calls += 1
        return self.function(x)


@pytest.mark.parametrize(
    ("function", "batched"),
    [
        (lambda x: x[:, :3] * 2, True),
        (lambda x: x[:, :3] / x.abs().max(), False),  # samples are mixed
        (lambda x: x.reshape(1, 4)[:, :3], False),  # raises for more than one
        (lambda x: x[:1, :3], False),  # gives the first alone
    ],
)
def test_batches_are_used_where_they_give_the_same(
    artifact: Artifact, function: Callable[[Tensor], Tensor], batched: bool
) -> None:
    floats = float_model(artifact, Counted(function), [X[:1]])
    inputs = [float_inputs(artifact, [x[None].numpy()]) for x in X]
    Counted.calls = 0
    found = float_outputs(artifact, floats, inputs)
    assert (Counted.calls < 20) == batched
    assert len(X) > 2 * BATCH
    for (output,), x in zip(found, X, strict=True):
        np.testing.assert_allclose(output, function(x[None]).numpy(), rtol=1e-6)


def test_threads_are_as_before_afterwards() -> None:
    before = torch.get_num_threads()
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before


# ---- what the bundle is fed ----------------------------------------------------------------------------------------


def test_what_the_bundle_is_fed_needs_no_network(artifact: Artifact) -> None:
    sample = [X[:1].numpy()]
    feeds = artifact.reference([sample]).feeds
    assert artifact.feed(sample)[0].tobytes() == feeds[0][0].tobytes()
    entry = artifact.graph.up_to([tensor.node for tensor in artifact.report.inputs])
    assert len(entry.calls) == 1 < len(artifact.graph.calls)
