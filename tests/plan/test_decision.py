"""The rule of a decision in integers and in float32: exact thresholds, the same as in float, and what is refused."""

import ctypes
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cortado.base.decision import Decision, decision_of
from cortado.base.element import FLOAT32, INT8, INT16, Element
from cortado.base.errors import CortadoError
from cortado.base.system import KERNEL_FILES, KERNEL_FOLDERS
from cortado.plan.decision import ClassScores, DecisionRule, rule_of
from cortado.run import toolchain
from helpers.deciding import LABELS, Array, Naive, real

SOFTMAX = ClassScores("output0", (1, 5), INT8, 1 / 256, -128)


def of(text: str) -> Decision:
    found = decision_of(text)
    assert found is not None
    return found


@given(
    codes=st.lists(st.lists(st.integers(-128, 127), min_size=5, max_size=5), min_size=1, max_size=60),
    smooth=st.integers(1, 9),
    threshold=st.integers(1, 199),
    holdoff=st.integers(0, 6),
    held=st.integers(0, 6),
    zero_point=st.integers(-128, 127),
)
@settings(max_examples=150, deadline=None)
def test_it_is_what_floats_would_decide(
    codes: list[list[int]], smooth: int, threshold: int, holdoff: int, held: int, zero_point: int
) -> None:
    """Over random scores of any zero point; the threshold is between two sums, where floats can't be wrong."""
    scale = 0.0078125
    value = (-128 - zero_point) * scale + (threshold + 0.3) / 200 * 255 * scale
    half = value / 2 + 0.001
    decision = Decision(value, smooth, holdoff, ("unknown",), (("2", half),), (("no", held),))
    scores = np.array(codes, np.int8)
    try:
        rule = rule_of(decision, ClassScores("y", (1, 5), INT8, scale, zero_point), LABELS)
    except CortadoError:
        return  # half of it is outside of what scores can be
    naive = Naive(smooth, value, holdoff, (1,), {2: half}, {3: held})
    assert rule.decisions(scores).tolist() == naive.decisions(real(scores, scale, zero_point))


@pytest.mark.parametrize("smooth", [1, 3, 5, 8, 4096])
@pytest.mark.parametrize("text", ["0.1", "0.3", "0.5", "0.6", "70%", "0.99"])
def test_a_threshold_is_the_number_that_was_written(text: str, smooth: int) -> None:
    """The least sum whose mean is not below 0.1, not below what a float makes of it."""
    rule = rule_of(of(f"smooth={smooth},threshold={text}"), SOFTMAX, None)
    (least,) = set(rule.least(INT8))
    assert least is not None
    wanted = Fraction(text.rstrip("%")) / (100 if text.endswith("%") else 1)
    assert Fraction(least + 128 * smooth, 256 * smooth) >= wanted > Fraction(least - 1 + 128 * smooth, 256 * smooth)


FLOATS = ClassScores("y", (1, 5), FLOAT32, None, None)


@given(
    scores=st.lists(st.lists(st.integers(-(2**15), 2**15), min_size=5, max_size=5), min_size=1, max_size=60),
    smooth=st.integers(1, 9),
    threshold=st.integers(-(2**16), 2**16),
    holdoff=st.integers(0, 6),
)
@settings(max_examples=100, deadline=None)
def test_float32_is_decided_as_real_numbers(scores: list[list[int]], smooth: int, threshold: int, holdoff: int) -> None:
    """Sums of up to nine multiples of 2^-10 are exact; the threshold is between two of them."""
    value = threshold / 2**10 + 2.0**-15
    rows = np.array(scores, np.float32) / np.float32(2**10)
    rule = rule_of(Decision(value, smooth, holdoff, ("unknown",)), FLOATS, LABELS)
    assert rule.decisions(rows).tolist() == Naive(smooth, value, holdoff, (1,)).decisions(rows.astype(np.float64))


@pytest.mark.parametrize("smooth", [1, 3, 8, 4096])
@pytest.mark.parametrize("text", ["0.1", "0.3", "-0.7", "1e-45", "123456.789"])
def test_the_least_sum_in_float32_is_the_first_that_is_not_below(text: str, smooth: int) -> None:
    (least,) = set(rule_of(of(f"smooth={smooth},threshold={text}"), FLOATS, None).thresholds)
    assert least is not None
    before = float(np.nextafter(np.float32(least), np.float32(-np.inf)))
    assert Fraction(least) >= smooth * Fraction(text) > Fraction(before)


def test_float32_has_an_end() -> None:
    with pytest.raises(CortadoError, match=r"a sum of 4e\+38 exceeds float32, the type of 'y'"):
        rule_of(of("smooth=4,threshold=1e38"), FLOATS, None)


def test_what_is_no_number_is_never_decided_for() -> None:
    """A class comes back when NaN has left its sums; what others are decided for does not depend on it."""
    rule = rule_of(of("smooth=2,threshold=0.5"), FLOATS, None)
    rows = np.full((5, 5), 0.25, np.float32)
    rows[:, 0] = [np.nan, 9, 9, 9, np.nan]
    rows[1:3, 3] = 0.75
    assert rule.decisions(rows).tolist() == [-1, 3, 0, 0, -1]
    assert rule.decisions(np.full((4, 5), np.nan, np.float32)).tolist() == [-1] * 4


MISTAKES = {
    "smooth=8": "there is no threshold",
    "threshold=0.5,smooth=0": "smooth=0; expected a number of outputs from 1 to 4,096",
    "threshold=0.5,smooth=5000": "smooth=5000",
    "threshold=0.5,smooth=2.5": "smooth=2.5 is not a number of outputs",
    "threshold=0.5,holdoff=-1": "holdoff=-1; expected a number of outputs from 0 to 65,535",
    "threshold=0.5,holdoff.yes=-3": "holdoff.yes=-3",
    "threshold=much": "threshold=much is not a number",
    "threshold=nan": "threshold=nan is not a score",
    "threshold=0.5,threshold=0.6": "threshold is given twice",
    "threshold=0.5,hold=3": "found 'hold=3', expected parts as in smooth=8,",
    "threshold=0.5,smooth.yes=3": "found 'smooth.yes=3'",
    "": "found ''",
    "threshold=0.5,": "found ''",
    "threshold": "found 'threshold'",
    "threshold=0.5,ignore=quiet": "there is no class 'quiet'; expected one of silence, unknown, yes, no, stop, or a",
    "threshold=0.5,threshold.5=0.1": "there is no class '5'",
    "threshold=0.5,ignore=0:1:2:3:4": "every class is ignored",
    "threshold=1.2": "outside the range of the scores of 'output0', expected one above 0 and at most 0.996",
    "threshold=0": "expected one above 0",
    "threshold=0.5,threshold.yes=-0.5": "a threshold of -0.5 is outside",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_mistakes_are_one_sentence(text: str) -> None:
    with pytest.raises(CortadoError) as error:
        rule_of(of(text), SOFTMAX, LABELS)
    assert MISTAKES[text] in str(error.value)
    assert "\n" not in str(error.value)


def test_a_decision_reads_as_it_was_written() -> None:
    text = "smooth=8,threshold=0.7,holdoff=30,ignore=silence:unknown,threshold.yes=0.85,holdoff.no=3"
    assert str(of(text)) == text
    assert of(str(of(text))) == of(text)
    assert decision_of(None) is None
    with pytest.raises(CortadoError, match="decide=3 is not a decision"):
        decision_of(3)


@pytest.mark.parametrize(
    "scores",
    [
        ClassScores("y", (1, 4, 4), INT8, 0.1, 0),
        ClassScores("y", (1, 5), INT8, None, None),
        ClassScores("y", (3, 5), INT8, 0.1, 0),
        ClassScores("y", (1, 5000), INT8, 0.1, 0),
        ClassScores("y", (1, 4, 4), FLOAT32, None, None),
    ],
)
def test_only_scores_are_decided_by(scores: ClassScores) -> None:
    with pytest.raises(CortadoError, match="expected scores of classes"):
        rule_of(of("threshold=0.5"), scores, None)


class _Table(ctypes.Structure):
    """cortado_decision_t."""

    _fields_ = (
        ("thresholds", ctypes.POINTER(ctypes.c_int32)),
        ("holdoffs", ctypes.POINTER(ctypes.c_uint16)),
        ("classes", ctypes.c_uint16),
        ("smooth", ctypes.c_uint16),
        ("bytes", ctypes.c_uint16),
    )


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    include = KERNEL_FOLDERS
    flags = ["-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-O2"]
    sources = [KERNEL_FILES[name] for name in ("cortado_decide.c", "cortado_decide_f32.c")]
    return ctypes.CDLL(str(toolchain.compile_shared(sources, include, flags, "decide")))


def in_c(library: ctypes.CDLL, rule: DecisionRule, scores: Array, element: Element) -> list[int]:
    """The decisions of the C, which writes no byte more than was planned."""
    least = np.array([2**31 - 1 if one is None else one for one in rule.least(element)], np.int32)
    held = np.array(rule.holdoffs, np.uint16)
    table = _Table(
        least.ctypes.data_as(ctypes.POINTER(ctypes.c_int32)),
        held.ctypes.data_as(ctypes.POINTER(ctypes.c_uint16)),
        rule.classes,
        rule.smooth,
        element.bytes,
    )
    kept = np.full(rule.bytes(element) + 16, 0x5A, np.uint8)
    at = ctypes.c_void_p(kept.ctypes.data)
    library.cortado_reset_decision(ctypes.byref(table), at)
    take = library.cortado_decide_f32 if element.floating else library.cortado_decide
    found = []
    for one in scores:
        take(ctypes.byref(table), at, ctypes.c_void_p(one.ctypes.data))
        found.append(library.cortado_decided(ctypes.byref(table), at))
    assert (kept[-16:] == 0x5A).all()
    return found


@pytest.mark.host
@pytest.mark.parametrize("seed", range(20))
def test_c_decides_the_same(library: ctypes.CDLL, seed: int) -> None:
    """Random rules of up to 300 classes over long random scores, extremes among them."""
    rng = np.random.default_rng(seed)
    element = (INT8, INT16)[seed % 2]
    classes, smooth = int(rng.choice([1, 2, 5, 12, 300])), int(rng.choice([1, 2, 8, 100, 4096 if seed == 3 else 50]))
    low, high = element.codes
    scores = rng.integers(low, high + 1, (3000, classes)).astype(element.numpy_dtype)
    scores[500:600], scores[1500:1600] = high, low
    level = rng.integers(0, max(int(high * smooth**0.5), 2), classes)
    thresholds = tuple(None if rng.random() < 0.2 else int(one) for one in level)
    rule = DecisionRule(smooth, thresholds, tuple(int(one) for one in rng.choice([0, 1, 7, 65535], classes)))
    assert in_c(library, rule, scores, element) == rule.decisions(scores).tolist()


@pytest.mark.host
@pytest.mark.parametrize("seed", range(10))
def test_c_decides_the_same_in_float32(library: ctypes.CDLL, seed: int) -> None:
    """Scores of all sizes, whose sums depend on their order; infinities and NaN among them."""
    rng = np.random.default_rng(seed)
    classes, smooth = int(rng.choice([1, 2, 5, 12, 131])), int(rng.choice([1, 2, 8, 100]))
    scores = (rng.normal(size=(2000, classes)) * 10.0 ** rng.integers(-4, 5, (2000, classes))).astype(np.float32)
    strange = np.less(rng.random(scores.shape), 1 / (200 * smooth * classes))
    scores[strange] = rng.choice(np.array([np.nan, np.inf, -np.inf], np.float32), int(strange.sum()))
    level = rng.normal(size=classes).astype(np.float32) * np.float32(smooth)
    thresholds = tuple(None if rng.random() < 0.2 else float(one) for one in level)
    rule = DecisionRule(smooth, thresholds, tuple(int(one) for one in rng.choice([0, 1, 7], classes)))
    found = in_c(library, rule, scores, FLOAT32)
    assert found == rule.decisions(scores).tolist()
    assert len(set(found)) > 1 or not any(one is not None for one in thresholds)
