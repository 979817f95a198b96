"""Accuracy, confusion, area under the ROC curve and signal to noise against values computed by hand."""

import math

import numpy as np
import pytest

from cortado.scoring import metrics

SCORES = np.array([[0.1, 0.7, 0.2], [0.5, 0.4, 0.1], [0.3, 0.3, 0.4], [0.2, 0.2, 0.2]])


def test_the_right_class_by_its_rank() -> None:
    """In the last row all scores are equal: the lower class comes first, as for argmax."""
    assert metrics.ranks(SCORES, np.array([1, 1, 1, 0])).tolist() == [0, 1, 2, 0]
    assert metrics.ranks(SCORES, np.array([0, 2, 0, 2])).tolist() == [2, 2, 1, 2]


def test_accuracy_and_the_best_k() -> None:
    labels = np.array([1, 1, 1, 0])
    assert [metrics.top_k(SCORES, labels, k) for k in (1, 2, 3)] == [0.5, 0.75, 1.0]
    assert metrics.best(SCORES).tolist() == [1, 0, 2, 0]


def test_a_score_that_is_no_number_is_the_worst() -> None:
    scores = np.array([[np.nan, 0.5], [np.nan, -np.inf]])
    assert metrics.best(scores).tolist() == [1, 0]
    assert metrics.top_k(scores, np.array([0, 1])) == 0.0


def test_rows_of_a_confusion_are_the_right_classes() -> None:
    found = metrics.confusion(np.array([1, 0, 2, 0, 1]), np.array([1, 1, 2, 0, 0]), classes=4)
    assert found.tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]


@pytest.mark.parametrize(
    ("zeros", "ones", "area"),
    [
        ([1, 2], [3, 4], 1.0),
        ([3, 4], [1, 2], 0.0),
        ([1, 3], [2, 4], 0.75),
        ([1, 1, 1], [1, 1], 0.5),
        ([1, 2, 2], [2, 3], 5 / 6),  # of six pairs, four are right and two are equal
    ],
)
def test_the_area_is_the_part_of_pairs_in_order(zeros: list[int], ones: list[int], area: float) -> None:
    scores = np.array([*zeros, *ones], dtype=np.float64)
    labels = np.array([0] * len(zeros) + [1] * len(ones))
    order = np.random.default_rng(0).permutation(len(scores))
    assert metrics.auc(scores[order], labels[order]) == pytest.approx(area)


def test_decibels_and_the_worst_value() -> None:
    error = metrics.Error()
    error.add(np.array([3.0, 4.0]), np.array([3.0, 3.5]))
    error.add(np.array([0.0, np.inf]), np.array([0.0, 1.0]))  # infinity has no signal
    assert (error.signal, error.noise, error.worst) == (25.0, 0.25, 0.5)
    assert error.decibels == pytest.approx(20.0)


def test_decibels_without_noise_and_without_signal() -> None:
    error = metrics.Error()
    error.add(np.zeros(2), np.ones(2))
    assert error.decibels is None
    same = metrics.Error()
    same.add(np.ones(2), np.ones(2))
    assert same.decibels == math.inf


@pytest.mark.parametrize("found", [math.inf, math.nan])
def test_an_output_that_is_not_finite_keeps_nothing(found: float) -> None:
    error = metrics.Error()
    error.add(np.ones(2), np.array([1.0, found]))
    assert error.decibels is not None
    assert -4000 < error.decibels < -3000  # a number, which a report can hold
