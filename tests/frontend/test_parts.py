"""Outputs are judged by what they mean: parts of a concatenation, classes of scores, each truth value by itself."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import cortado
from cortado.api import prepare
from cortado.base.findings import Finding, FindingKind
from cortado.frontend.precision.judgement import Flips, TruthAgreement, class_dim, decibels, flips, truth_agreement
from cortado.frontend.precision.parts import OutputPart
from cortado.options import Artifacts, Options
from cortado.plan.lowered import reference_outputs
from helpers.single import Expression

pytestmark = pytest.mark.filterwarnings("ignore::cortado.base.errors.CortadoWarning")

C_ALONE = Options(artifacts=Artifacts.C)
Data = list[tuple[Tensor, ...]]


def found_in(compiled: cortado.Compiled, kind: FindingKind) -> list[Finding]:
    return [finding for finding in compiled.report.warnings if finding.kind is kind]


class Detector(nn.Module):
    """Boxes in pixels and scores of two levels in one tensor, as detectors return them."""

    def __init__(self) -> None:
        super().__init__()
        self.boxes, self.scores = nn.Conv2d(3, 4, 1), nn.Conv2d(3, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        levels = [
            torch.cat([self.boxes(one) * 200, self.scores(one).sigmoid()], 1).flatten(2)
            for one in (x, nn.functional.max_pool2d(x, 2))
        ]
        return torch.cat(levels, 2).permute(0, 2, 1)


def images(count: int = 33) -> Data:
    rng = torch.Generator().manual_seed(1)
    return [(torch.randn(1, 3, 4, 4, generator=rng),) for _ in range(count)]


@pytest.fixture(scope="module")
def detector() -> nn.Module:
    torch.manual_seed(0)
    return Detector().eval()


@pytest.fixture(scope="module")
def made(detector: nn.Module) -> cortado.api.Model:
    return prepare(detector, images()[0], images(), "detector", options=C_ALONE)


@pytest.fixture(scope="module")
def compiled(made: cortado.api.Model) -> cortado.Compiled:
    return made.compile("cortex-m4", C_ALONE)


def kept_by(compiled: cortado.Compiled, model: nn.Module, part: OutputPart) -> float:
    assert compiled.graph is not None
    with torch.no_grad():
        pairs = [([model(*one)], reference_outputs(compiled.graph, one)) for one in images()]
    return decibels([(part.of(wanted), part.of(found)) for wanted, found in pairs])


def test_parts_are_read_from_the_graph_wherever_values_are_moved_to(made: cortado.api.Model) -> None:
    parts = made.quantized.parts.parts
    assert [part.where for part in parts] == ["[:, 0:16, 0:4]", "[:, 0:16, 4:6]", "[:, 16:20, 0:4]", "[:, 16:20, 4:6]"]
    assert [part.is_chance for part in parts] == [False, True, False, True]


def test_scores_that_are_lost_beside_boxes_are_told_with_what_helps(
    made: cortado.api.Model, compiled: cortado.Compiled, detector: nn.Module
) -> None:
    assert compiled.graph is not None
    with torch.no_grad():
        whole = [(detector(*one), reference_outputs(compiled.graph, one)[0]) for one in images()]
    assert decibels(whole) > 24  # one number would say that all is well
    low = found_in(compiled, FindingKind.LOW_SQNR)
    assert {str(one.tensor).split(" of ")[0] for one in low} == {"part [:, 16:20, 4:6]", "part [:, 0:16, 4:6]"}
    assert all("are above 0.5 in float" in one.text for one in low)
    assert all("with --int16 'cat|cat_1|cat_2'" in one.text for one in low)


def test_what_a_warning_promises_of_int16_is_what_it_gives(
    made: cortado.api.Model, compiled: cortado.Compiled, detector: nn.Module
) -> None:
    (part,) = [part for part in made.quantized.parts.parts if part.where == "[:, 0:16, 4:6]"]
    (low,) = [one for one in found_in(compiled, FindingKind.LOW_SQNR) if "[:, 0:16, 4:6]" in one.text]
    told = float(low.text.split("--int16 'cat|cat_1|cat_2' it keeps ")[1].split(" dB")[0])
    wide = Options(artifacts=Artifacts.C, int16=("cat|cat_1|cat_2",))
    cured = prepare(detector, images()[0], images(), "detector", options=wide).compile("cortex-m4", C_ALONE)
    assert kept_by(cured, detector, part) == pytest.approx(told, abs=2)
    assert not found_in(cured, FindingKind.LOW_SQNR)


def test_no_concatenation_is_named_where_there_is_none() -> None:
    torch.manual_seed(3)
    data = [(torch.rand(1, 16) * 1e-3 + 7,) for _ in range(33)]
    model = Expression(lambda x: (x + 1.0) * 2.0)
    compiled = cortado.compile(model, data[0], "cortex-m4", data, "near", C_ALONE)
    found = found_in(compiled, FindingKind.FEW_CODES)
    assert found
    assert not any("cat" in one.text or "share" in one.text for one in found)
    assert all("--int16 '" in one.text for one in found)


# ---- classes ---------------------------------------------------------------------------------------------------------


def close_scores(classes: int) -> Data:
    rng = torch.Generator().manual_seed(5)
    return [(torch.randn(1, classes, generator=rng),) for _ in range(64)]


@pytest.mark.parametrize("labelled", [False, True])
def test_classes_that_change_are_told_with_their_number_whatever_the_decibels(labelled: bool) -> None:
    def scores(x: Tensor) -> Tensor:
        return torch.tanh(x) + 3.0 if labelled else torch.softmax(0.2 * x, 1)

    model, data = Expression(scores), close_scores(40)
    labels = [f"class {number}" for number in range(40)] if labelled else None
    compiled = cortado.compile(model, data[0], "cortex-m4", data, "scores", C_ALONE, labels=labels)
    assert compiled.graph is not None
    pairs = [(model(*one), reference_outputs(compiled.graph, one)[0]) for one in data]
    others = sum(int(wanted.argmax() != found.argmax()) for wanted, found in pairs)
    assert decibels(pairs) > 20
    (finding,) = found_in(compiled, FindingKind.CHANGED_CLASSES)
    assert finding.found == pytest.approx(others / 64)
    assert f"for {others} of 64 calibration samples" in finding.text


@pytest.mark.parametrize(("offset", "told"), [(2.0, True), (-4.0, False)])
def test_the_best_of_scores_by_themselves_is_judged_where_one_is_given(offset: float, told: bool) -> None:
    """Pitches are classes, each with a score of its own; labels that are mostly absent are none."""
    model, data = Expression(lambda x: torch.sigmoid(0.1 * x + offset)), close_scores(40)
    compiled = cortado.compile(model, data[0], "cortex-m4", data, "pitches", C_ALONE)
    assert bool(found_in(compiled, FindingKind.CHANGED_CLASSES)) is told


@pytest.mark.parametrize(("steep", "told"), [(1.0, True), (0.01, False)])
def test_decisions_that_change_are_told_with_their_number(steep: float, told: bool) -> None:
    """Scores that all lie near one half decide nothing."""
    rng = torch.Generator().manual_seed(2)
    sure = [(torch.randn(1, 1, generator=rng).sign() * 6,) for _ in range(45)]
    near = [(0.03 * torch.randn(1, 1, generator=rng),) for _ in range(19)]
    model, data = Expression(lambda x: torch.sigmoid(steep * x)), [*sure, *near]
    compiled = cortado.compile(model, data[0], "cortex-m4", data, "voice", C_ALONE)
    assert compiled.graph is not None
    pairs = [(model(*one), reference_outputs(compiled.graph, one)[0]) for one in data]
    others = sum(bool(wanted > 0.5) != bool(found > 0.5) for wanted, found in pairs)
    found = found_in(compiled, FindingKind.CHANGED_CLASSES)
    assert others > 1
    assert bool(found) is told
    if told:
        assert (
            f"the opposite side of 0.5 from the float model's for {others} of 64 calibration samples" in found[0].text
        )


def test_a_single_decision_that_changes_is_told_where_more_new_ones_may() -> None:
    """One of 64 may be 6% of new ones; where there are 448 samples, it says that they are few."""
    border = (torch.full((1, 1), 0.004),)
    model = Expression(lambda x: torch.sigmoid(x))
    for count, told in ((63, True), (447, False)):
        data = [
            *((torch.full((1, 1), sign * (4.0 + k / count)),) for k in range(count) for sign in (1 - k % 2 * 2,)),
            border,
        ]
        compiled = cortado.compile(model, data[0], "cortex-m4", data, "voice", C_ALONE)
        assert compiled.graph is not None
        pairs = [(model(*one), reference_outputs(compiled.graph, one)[0]) for one in data]
        assert [bool(a > 0.5) != bool(b > 0.5) for a, b in pairs] == [False] * count + [True]
        found = found_in(compiled, FindingKind.CHANGED_CLASSES)
        assert bool(found) is told
        assert all("1 of 64 calibration samples, 1.6%, expected 1% or less" in one.text for one in found)


@pytest.mark.parametrize(("classes", "function"), [(4, torch.softmax), (4, torch.log_softmax), (1, None)])
def test_choices_that_were_never_in_doubt_say_nothing_of_doubtful_ones(classes: int, function: Any) -> None:
    """With 40 samples one of 18 new ones may be doubtful and change; 240 samples, or a doubtful one among 40, tell."""
    rng = torch.Generator().manual_seed(3)
    model = Expression(torch.sigmoid if function is None else lambda x: function(x, 1))
    for count, doubtful, told in ((40, False, True), (240, False, False), (40, True, False)):
        sure = 8 * torch.nn.functional.one_hot(torch.arange(count) % classes, max(classes, 2)).float()
        places = sure[:, :classes] if classes > 1 else torch.tensor([8.0, -8.0]).repeat(count // 2)[:, None]
        data: Data = [(one[None] + 0.5 * torch.rand(1, classes, generator=rng) * one[None].sign(),) for one in places]
        data[-1] = (data[-1][0] / (4 if doubtful else 1),)
        compiled = cortado.compile(model, data[0], "cortex-m4", data, "sure", C_ALONE)
        found = found_in(compiled, FindingKind.CHANGED_CLASSES)
        assert bool(found) is told
        assert all("maybe for up to 5.6% of new ones" in one.text for one in found)
        assert [one.found for one in found] == [pytest.approx(1 - 0.1 ** (1 / 40))] * told


def test_a_rate_of_changes_has_a_bound() -> None:
    """With a tenth's chance no more change of so many samples, each with that chance."""
    assert Flips(0, 22).at_most == pytest.approx(1 - 0.1 ** (1 / 22))
    most = Flips(1, 240).at_most
    assert (1 - most) ** 240 + 240 * most * (1 - most) ** 239 == pytest.approx(0.1)
    assert Flips(6, 1000).at_most > 0.01 > Flips(5, 1000).at_most
    assert (Flips(5, 5).at_most, Flips(500, 100_000).at_most) == (1.0, 0.005)


def test_values_of_an_embedding_are_not_taken_for_scores() -> None:
    torch.manual_seed(0)
    data = [(torch.randn(1, 8),) for _ in range(64)]
    compiled = cortado.compile(nn.Linear(8, 200).eval(), data[0], "cortex-m4", data, "embedding", C_ALONE)
    assert not found_in(compiled, FindingKind.CHANGED_CLASSES)


def test_probabilities_are_known_by_their_sum_along_any_dimension() -> None:
    scores = torch.randn(1, 5, 3)
    assert class_dim([scores.softmax(1)]) == 1
    assert class_dim([scores.log_softmax(2)]) == 2
    assert class_dim([scores]) is None
    wanted, found = torch.tensor([[0.1, 0.9], [0.6, 0.4]]), torch.tensor([[0.2, 0.8], [0.4, 0.6]])
    assert (flips([(wanted, found)], 1).changed, flips([(wanted, found)], 1).choices) == (1, 2)


def test_a_rare_event_counts_as_much_as_silence() -> None:
    wanted, found = torch.zeros(100, dtype=torch.bool), torch.zeros(100, dtype=torch.bool)
    wanted[:4], found[:1] = True, True
    assert truth_agreement([(wanted, found)]) == TruthAgreement(value=True, wanted=4, found=1, both=1)


def test_an_event_that_rarely_fires_again_is_told_though_most_values_agree() -> None:
    """Samples come sorted: those that fire are the last. The threshold lies between two codes of a wide range."""
    torch.manual_seed(0)
    quiet = [(torch.cat([10 * torch.randn(1, 1), 0.01 * torch.randn(1, 7)], 1),) for _ in range(41)]
    loud = [(torch.cat([10 * torch.randn(1, 1), 0.02 + 0.02 * torch.rand(1, 7)], 1),) for _ in range(23)]
    model, data = Expression(lambda x: x[:, 1:].mean(1, keepdim=True) > 0.025), [*quiet, *loud]
    compiled = cortado.compile(model, data[0], "cortex-m4", data, "event", C_ALONE)
    assert compiled.graph is not None
    wanted = sum(bool(model(*one)) for one in data)
    found = sum(bool(reference_outputs(compiled.graph, one)[0]) for one in data)
    assert found < 0.5 * wanted
    (finding,) = found_in(compiled, FindingKind.LOW_AGREEMENT)
    assert f"true {wanted} times in float and {found} times here" in finding.text


def test_both_warnings_of_a_join_promise_the_same_of_int16() -> None:
    """Scores beside pixels have few codes, and keep nothing: what wider codes give is told alike."""
    rng = torch.Generator().manual_seed(4)
    data = [(torch.randn(1, 8, generator=rng),) for _ in range(33)]
    model = Expression(lambda x: torch.cat([300 * x, torch.sigmoid(x)], 1))
    compiled = cortado.compile(model, data[0], "cortex-m4", data, "joined", C_ALONE)
    (few,), (low,) = (found_in(compiled, kind) for kind in (FindingKind.FEW_CODES, FindingKind.LOW_SQNR))
    told = few.text.split("With --int16 '")[1].split(" keeps ")[1].split(" dB")[0]
    assert f"with --int16 'cat' it keeps {told} dB" in low.text


def test_changes_of_new_samples_are_expected_where_none_was_seen() -> None:
    """Of 64 samples none changes by chance in some of the drawn networks, though one of 50 new ones does."""
    rng, found = torch.Generator().manual_seed(0), list[tuple[Flips, Flips]]()

    def drawn(count: int, step: float) -> Flips:
        scores = torch.randn(count, 10, generator=rng)
        coarse = (scores / step).round() * step + 0.3 * step * torch.randn(count, 10, generator=rng)
        return flips([(scores.softmax(1), (coarse.softmax(1) * 256).round() / 256)], 1)

    for number in range(120):
        step = 0.08 if number % 2 else 0.004
        found.append((drawn(64, step), drawn(4000, step)))
    silent = [(one.likely, new.part) for one, new in found if not one.changed]
    missed = [likely for likely, new in silent if new > 0.015]
    assert len(missed) > 5
    assert sum(likely > 0.01 for likely in missed) > 0.4 * len(missed)
    assert not any(likely > 0.01 for likely, new in silent if new < 0.003)
