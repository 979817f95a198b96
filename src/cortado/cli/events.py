"""cortado evaluate --stream: decisions on a recording, compared with its events; and --decide."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cortado.base.decision import decision_of
from cortado.base.errors import CortadoError, WrongResult
from cortado.cli.parsing import count, number, part
from cortado.cli.tables import in_columns

if TYPE_CHECKING:
    from cortado.artifact.opened import Artifact
    from cortado.scoring.events import ClassTally, EventScore, StreamEvaluation, VariedScore

TOLERANCE = 1.0  # seconds
ALL_PHASES = -1  # defined in scoring/events.py
MOST_LOUDNESS, LEAST_NOISE = 100.0, 200.0
_OF_A_DATASET = (
    *("data", "labels", "model", "reconstruction", "saturation", "sequence", "limit", "top_k", "board_samples", "save"),
    *("min_accuracy", "max_drop", "min_sqnr", "on", "chip"),
)
_VARIED = ("phases", "loudness", "noise")
_OF_A_STREAM = ("events", "decide", "rate", "tolerance", "min_hits", "max_false_alarms", *_VARIED)


def stream_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments for streams to evaluate."""
    parser.add_argument(
        "--stream",
        type=Path,
        metavar="SOUND.wav",
        help="score the decisions on a recording (with --events): a 16-bit .wav file, or .npy or .npz with rows, "
        "samples or steps along the first dimension, with --rate",
    )
    parser.add_argument(
        "--events",
        type=Path,
        metavar="EVENTS.csv",
        help="with --stream: lines of start and end (in seconds) and class, separated by commas or tabs",
    )
    parser.add_argument(
        "--decide", metavar="RULE", help="with --stream: try a decision rule other than the one given to `compile`"
    )
    parser.add_argument("--rate", type=number, metavar="HZ", help="for arrays: samples, rows or steps per second")
    parser.add_argument(
        "--tolerance",
        type=number,
        metavar="SECONDS",
        help=f"how long after the end of an event its decision still counts (default: {TOLERANCE:g})",
    )
    parser.add_argument(
        "--phases",
        type=_phases,
        metavar="N",
        help="score a stream of samples starting at N different samples of the first hop, or at `all`: the result "
        "must not depend on where hops begin",
    )
    parser.add_argument(
        "--loudness",
        type=_loudness,
        metavar="FACTORS",
        help="score it at each of these volumes, as in 1,0.3,0.1",
    )
    parser.add_argument(
        "--noise",
        type=_noise,
        metavar="DB",
        help="also score it with white noise, in decibels of full scale, as in -60",
    )
    parser.add_argument(
        "--min-hits",
        type=part,
        metavar="PART",
        help="exit with code 1 if a smaller share of events is hit, as in 0.9 or 90%%",
    )
    parser.add_argument(
        "--max-false-alarms", type=number, metavar="N", help="exit with code 1 if there are more per hour"
    )


def _phases(text: str) -> int:
    return ALL_PHASES if text == "all" else count(text)


def _loudness(text: str) -> tuple[float, ...]:
    found = tuple(number(one) for one in text.split(","))
    if not all(0 < one <= MOST_LOUDNESS for one in found):
        raise argparse.ArgumentTypeError(f"{text!r} are not factors above 0 and up to {MOST_LOUDNESS:g}")
    return found


def _noise(text: str) -> float:
    value = number(text)
    if not -LEAST_NOISE <= value <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not between -{LEAST_NOISE:g} and 0 dB")
    return value


def check_together(arguments: argparse.Namespace) -> None:
    """Checks that the arguments suit a dataset or a recording, whichever is scored."""
    chosen, other = (_OF_A_DATASET, "--data") if arguments.stream is not None else (_OF_A_STREAM, "--stream")
    for name in chosen:
        if getattr(arguments, name) not in (None, False, 0):
            flag = f"--{name.replace('_', '-')}"
            needs = "and --stream scores a recording; leave one of the two out" if other == "--data" else "add that"
            raise CortadoError(f"{flag} is for {'datasets' if other == '--data' else 'recordings (--stream)'}, {needs}")
    if arguments.stream is not None and arguments.events is None:
        raise CortadoError(f"--stream {arguments.stream} needs events to score against; give --events EVENTS.csv")
    if arguments.tolerance is not None and arguments.tolerance < 0:
        raise CortadoError(f"--tolerance {arguments.tolerance:g} is negative; expected seconds, as in 0.5")


def evaluate_recording(arguments: argparse.Namespace, artifact: "Artifact") -> None:
    from cortado.artifact.streamed import read_recording
    from cortado.scoring.events import (
        VariedScore,
        decision_rule,
        evaluate_stream,
        evaluate_variations,
        hop_samples,
        read_events,
        variations_of,
    )

    decision = decision_of(arguments.decide)
    rule = decision_rule(artifact, decision)
    events = read_events(arguments.events, rule.classes, artifact.report.labels)
    recording = read_recording(artifact, arguments.stream, arguments.rate)
    tolerance = TOLERANCE if arguments.tolerance is None else arguments.tolerance
    found = evaluate_stream(artifact, recording, events, rule, tolerance)
    varied: list[VariedScore] = []
    if any(getattr(arguments, name) is not None for name in _VARIED):
        phases = 1 if arguments.phases is None else arguments.phases
        asked = variations_of(hop_samples(artifact), phases, arguments.loudness or (), arguments.noise)
        varied = evaluate_variations(artifact, recording, events, rule, tolerance, asked)
    problems = _problems(arguments, found, varied)
    names = rule.names or tuple(str(number) for number in range(rule.classes))
    known = artifact.report.decision
    said = str(decision) if decision is not None or known is None else known.spec
    if arguments.json:
        record = _record(artifact, found, names)
        told = {"variations": _varied_record(varied, names)} if varied else {}
        print(json.dumps({**record, **told, "decision": said, "tolerance": tolerance, "problems": problems}))
    else:
        print("\n".join([*_text(artifact, found, names, said), *_varied_lines(varied, names)]))
    if problems:
        raise WrongResult("\ncortado: ".join(problems))


def _problems(arguments: argparse.Namespace, found: "StreamEvaluation", varied: Sequence["VariedScore"]) -> list[str]:
    """Checks thresholds against the recording itself and against its worst variation."""
    lines = []
    if False in (found.same_in_c, *(one.same_in_c for one in varied)):
        lines.append("the compiled C decides differently from the reference; please report this model")
    scored = [("", found.score), *((f" ({one.variation})", one.score) for one in varied)]
    where, score = min(scored, key=lambda one: one[1].hits)
    if arguments.min_hits is not None and score.hits < arguments.min_hits * score.events:
        lines.append(
            f"{score.hits} of {score.events} events were hit{where}, expected {arguments.min_hits:.2%} or more"
        )
    where, score = max(scored, key=lambda one: one[1].false_alarms_per_hour)
    if arguments.max_false_alarms is not None and score.false_alarms_per_hour > arguments.max_false_alarms:
        lines.append(
            f"there are {score.false_alarms_per_hour:.2f} false alarms in an hour{where}, expected "
            f"{arguments.max_false_alarms:g} or fewer"
        )
    return lines


# ---- variations ----------------------------------------------------------------------------------------------------


def _varied_record(varied: Sequence["VariedScore"], names: tuple[str, ...]) -> dict[str, Any]:
    hits, alarms = [one.score.hits for one in varied], [one.score.false_alarms for one in varied]
    return {
        "count": len(varied),
        "all_hit": sum(one.score.misses == 0 for one in varied),
        "hits": [min(hits), max(hits)],
        "false_alarms": [min(alarms), max(alarms)],
        "missed": _missed(varied, names),
        "each": [
            {
                "phase": one.variation.phase,
                "loudness": one.variation.loudness,
                "noise_db": one.variation.noise_db,
                "hits": one.score.hits,
                "false_alarms": one.score.false_alarms,
            }
            for one in varied
        ],
    }


def _missed(varied: Sequence["VariedScore"], names: tuple[str, ...]) -> dict[str, int]:
    """Counts, for each class that has any, the variations in which one of its events is missed."""
    counts = {name: sum(one.score.classes[at].misses > 0 for one in varied) for at, name in enumerate(names)}
    return {name: number for name, number in counts.items() if number}


def _varied_lines(varied: Sequence["VariedScore"], names: tuple[str, ...]) -> list[str]:
    if not varied:
        return []
    found = _varied_record(varied, names)
    (least, most), (few, many) = found["hits"], found["false_alarms"]
    worst = max(varied, key=lambda one: (one.score.misses, one.score.false_alarms))
    missed = [f"{name} in {count:,}" for name, count in found["missed"].items()]
    lines = [
        f"variations {found['count']:,}: every event hit in {found['all_hit']:,}; hits {least} to {most} of "
        f"{worst.score.events}, false alarms {few} to {many}"
    ]
    if worst.score.misses or worst.score.false_alarms:
        told = f"; missed: {', '.join(missed)}" if missed else ""
        lines.append(f"the worst: {worst.variation}{told}")
    return lines


# ---- for programs and people ---------------------------------------------------------------------------------------


def _record(artifact: "Artifact", found: "StreamEvaluation", names: tuple[str, ...]) -> dict[str, Any]:
    score = found.score
    return {
        "model": artifact.report.model,
        "target": artifact.report.target,
        "seconds": score.seconds,
        "outputs": found.outputs,
        "events": score.events,
        "hits": score.hits,
        "misses": score.misses,
        "repeats": score.repeats,
        "false_alarms": score.false_alarms,
        "false_alarms_per_hour": score.false_alarms_per_hour,
        "latency_median": score.latency(50),
        "latency_p95": score.latency(95),
        "classes": [_class_record(name, one) for name, one in zip(names, score.classes, strict=True)],
        "decisions": [{"seconds": one.at, "class": names[one.label]} for one in found.decisions],
        "same_in_c": found.same_in_c,
    }


def _class_record(name: str, one: "ClassTally") -> dict[str, Any]:
    counts = {"events": one.events, "hits": one.hits, "misses": one.misses}
    return {"class": name, **counts, "repeats": one.repeats, "false_alarms": one.false_alarms}


def _text(artifact: "Artifact", found: "StreamEvaluation", names: tuple[str, ...], said: str) -> list[str]:
    score, report = found.score, artifact.report
    rows = [
        (name, *(str(count) for count in (one.events, one.hits, one.misses, one.repeats, one.false_alarms)))
        for name, one in zip(names, score.classes, strict=True)
        if one.events or one.false_alarms
    ]
    header = ("CLASS", "EVENTS", "HITS", "MISSES", "REPEATS", "FALSE ALARMS")
    exact = {True: ["the compiled C decides the same"], False: ["the compiled C decides DIFFERENTLY"], None: []}
    return [
        f"{report.model} for {report.target}, {score.seconds:,.1f} s, {found.outputs:,} outputs",
        f"decision: {said}",
        *in_columns([header, *rows]),
        f"hits {score.hits} of {score.events}, misses {score.misses}",
        f"false alarms {score.false_alarms}: {score.false_alarms_per_hour:.2f} in an hour",
        _latency(score),
        *exact[found.same_in_c],
    ]


def _latency(score: "EventScore") -> str:
    median, late = score.latency(50), score.latency(95)
    if median is None or late is None:
        return "latency: nothing was hit"
    return f"latency from the start of an event: median {median:.2f} s, 95% within {late:.2f} s"
