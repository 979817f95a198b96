"""`evaluate --stream --phases`: a recording from other samples on, louder or quieter, in noise; what is heard then."""

from pathlib import Path

import numpy as np
import pytest

import cortado
from cortado.artifact.streamed import Recording, push_codes, push_many, read_recording
from cortado.base.errors import CortadoError
from cortado.scoring.events import (
    ALL_PHASES,
    Event,
    Variation,
    decision_rule,
    evaluate_stream,
    evaluate_variations,
    hop_samples,
    read_events,
    variations_of,
)
from helpers.cli import Run, refused
from helpers.keyword import GROUP, Spotted

pytestmark = [pytest.mark.host, pytest.mark.xdist_group(GROUP)]


def files(spotted: Spotted) -> tuple[Path, Path]:
    return spotted.bundle.with_suffix(".wav"), spotted.bundle.with_suffix(".csv")


def test_phases_are_spread_over_a_hop() -> None:
    assert [one.phase for one in variations_of(320, 4)] == [0, 80, 160, 240]
    assert (
        [one.phase for one in variations_of(3, ALL_PHASES)] == [one.phase for one in variations_of(3, 9)] == [0, 1, 2]
    )
    both = variations_of(320, 1, (1.0, 0.5), -60.0)
    assert [(one.loudness, one.noise_db) for one in both] == [(1.0, None), (1.0, -60.0), (0.5, None), (0.5, -60.0)]
    with pytest.raises(CortadoError, match="expected at most 100,000"):
        variations_of(320_000, ALL_PHASES)


def test_samples_are_moved_scaled_and_held_to_16_bits() -> None:
    samples = np.array([1, -2, 30_000, -30_000, 5], np.int16)
    assert Variation(1, 2.0).of(samples, 3).tolist() == [-4, 32_767, -32_768]
    noisy = Variation(0, 1.0, -40.0).of(np.zeros(20_000, np.int16), 20_000)
    assert noisy.dtype == np.int16
    assert noisy.std() == pytest.approx(327.68, rel=0.05)
    assert np.array_equal(noisy, Variation(0, 1.0, -40.0).of(np.zeros(20_000, np.int16), 20_000))
    assert Variation(0, 0.5).of(np.ones(2, np.float32), 2).tolist() == [0.5, 0.5]


def test_a_variation_is_the_recording_itself_from_its_phase_on(spotted: Spotted) -> None:
    artifact = cortado.load(spotted.bundle, trust=True)
    sound, times = files(spotted)
    recording, rule = read_recording(artifact, sound, None), decision_rule(artifact, None)
    events = read_events(times, rule.classes, artifact.report.labels)
    found = evaluate_variations(artifact, recording, events, rule, 1.0, variations_of(hop_samples(artifact), 4))
    assert [one.same_in_c for one in found] == [True] * 4
    for one in found:
        moved = Recording(recording.values[one.variation.phase :], recording.rate)
        by = one.variation.phase / recording.rate
        late = [Event(event.start - by, event.end - by, event.label) for event in events]
        alone = evaluate_stream(artifact, moved, late, rule, 1.0).score
        assert (one.score.hits, one.score.false_alarms) == (alone.hits, alone.false_alarms)


def test_several_sequences_in_one_run_are_each_from_the_beginning(spotted: Spotted) -> None:
    artifact = cortado.load(spotted.bundle, trust=True)
    values = read_recording(artifact, files(spotted)[0], None).values
    parts = [values[start : start + 32_000] for start in (0, 7, 16_000)]
    for part, pushed in zip(parts, push_many(artifact, parts, "host"), strict=True):
        assert np.array_equal(pushed.codes[0], push_codes(artifact, part, "host").codes[0])


def test_the_example_hears_its_words_wherever_hops_begin(run: Run, spotted: Spotted) -> None:
    sound, times = files(spotted)
    asked = ("evaluate", spotted.bundle, "--trust", "--stream", sound, "--events", times, "--phases", 20)
    done = run(*asked, "--min-hits", 1, "--json")
    found = done.json["variations"]
    assert (done.code, found["count"], found["all_hit"], found["hits"], found["missed"]) == (0, 20, 20, [3, 3], {})
    assert [one["phase"] for one in found["each"]][:2] == [0, 16]


@pytest.mark.slow
def test_the_example_hears_its_words_in_all_phases(run: Run, spotted: Spotted) -> None:
    sound, times = files(spotted)
    asked = ("evaluate", spotted.bundle, "--trust", "--stream", sound, "--events", times, "--phases", "all")
    assert "variations 320: every event hit in 320; hits 3 to 3 of 3" in run(*asked, "--min-hits", 1).out


def test_the_worst_variation_counts(run: Run, spotted: Spotted) -> None:
    """At a thousandth nothing is heard."""
    sound, times = files(spotted)
    asked = ("evaluate", spotted.bundle, "--trust", "--stream", sound, "--events", times)
    done = run(*asked, "--loudness", "1,0.001", "--noise", "-70", "--min-hits", 0.9)
    assert done.code == 1
    assert "events were hit (phase 0, loudness 0.001" in done.err
    assert "variations 4: every event hit in " in done.out
    assert "the worst: phase 0, loudness 0.001" in done.out


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("--phases", "none"), "--phases"),
        (("--loudness", "1,0"), "not factors above 0"),
        (("--noise", "3"), "is not between -200 and 0 dB"),
    ],
)
def test_mistakes(run: Run, spotted: Spotted, given: tuple[str, ...], words: str) -> None:
    sound, times = files(spotted)
    done = run("evaluate", spotted.bundle, "--trust", "--stream", sound, "--events", times, *given)
    assert done.code == 2
    assert words in done.err


def test_phases_are_for_recordings(run: Run, spotted: Spotted) -> None:
    refused(run("evaluate", spotted.bundle, "--trust", "--phases", "all"), "--phases is for recordings (--stream)")
