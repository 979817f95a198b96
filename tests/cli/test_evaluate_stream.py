"""`compile --decide` and `evaluate --stream`: decisions on a recording beside its events; what is no such thing."""

import wave
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from cortado import api
from cortado.artifact.opened import load
from cortado.artifact.streamed import push_codes
from cortado.base.decision import decision_of
from cortado.options import Artifacts, Options
from cortado.scoring.events import ClassTally, Event, Heard, heard, read_events, score_events
from helpers.cli import Run, compile_tiny, one_sentence
from helpers.deciding import LABELS, Naive, Newest, real, walk

pytestmark = pytest.mark.filterwarnings("ignore::cortado.base.errors.CortadoWarning")

RATE = 20  # rows of a second
RULE = "smooth=4,threshold=0.5,holdoff=10,ignore=silence"


# ---- events without a model ----------------------------------------------------------------------------------------


def test_every_decision_is_counted_once() -> None:
    """A hit, one that is late, a repeat, one of another class, one too late, and events that nobody heard."""
    events = [Event(1, 2, 1), Event(5, 6, 1), Event(5.5, 6.5, 1), Event(10, 11, 2), Event(20, 21, 0), Event(30, 31, 2)]
    found = [Heard(at, 1) for at in (1.25, 2.75, 3.25, 6.25, 6.5, 10.5)] + [Heard(20, 2)]
    score = score_events(events, found, [False, True, True], seconds=1800, tolerance=1.0)
    assert score.classes == (
        ClassTally(),  # it is never decided for: its events are background
        ClassTally(events=3, hits=3, repeats=1, false_alarms=2, latencies=[0.25, 1.25, 1.0]),
        ClassTally(events=2, hits=0, false_alarms=1),
    )
    assert (score.events, score.hits, score.misses, score.repeats, score.false_alarms) == (5, 3, 2, 1, 3)
    assert score.false_alarms_per_hour == 6
    assert score.latency(50) == 1.0
    assert score.latency(95) == pytest.approx(1.225)
    assert score_events(events, [], [True] * 3, 60, 1).latency(50) is None
    assert heard([-1, 2, -1, 0], [0.5, 1.0, 1.5, 2.0]) == [Heard(1.0, 2), Heard(2.0, 0)]


@pytest.mark.parametrize("text", ["start,end,class\n1,2.5,yes\n\n 3 , 4 , 0\n", "1\t2.5\tyes\n3\t4\tsilence\n"])
def test_events_are_lines(text: str, tmp_path: Path) -> None:
    (tmp_path / "events.csv").write_text(text)
    assert read_events(tmp_path / "events.csv", 5, LABELS) == [Event(1, 2.5, 2), Event(3, 4, 0)]


# ---- with a model --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Files:
    """A compiled stream with a decision, rows, and the events that are in them."""

    folder: Path
    rows: Path
    events: Path

    def arguments(self, *more: object) -> tuple[object, ...]:
        return ("evaluate", self.folder, "--stream", self.rows, "--events", self.events, "--rate", RATE, *more)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    place = tmp_path_factory.mktemp("decide")
    rows = [(torch.from_numpy(walk(2, seed)).reshape(1, 1, 2, 5),) for seed in range(200)]
    options = Options(stream=2, decide=decision_of(RULE), artifacts=Artifacts.C)
    api.compile(Newest().eval(), rows[0], "cortex-m4", rows, "net", options, labels=LABELS).save(place / "net")
    np.save(place / "rows.npy", walk(1200).reshape(1200, 1, 5))
    (place / "events.csv").write_text("2.0,3.0,yes\n8.0,9.0,no\n59,59.5,stop\n4,5,silence\n")
    return Files(place / "net", place / "rows.npy", place / "events.csv")


@pytest.mark.host
def test_figures_for_programs(run: Run, files: Files) -> None:
    """They follow from the scores by a rule that is written anew, and by counting."""
    done = run(*files.arguments("--json"))
    assert done.code == 0, done.err
    found = done.json
    artifact = load(files.folder)
    codes, output = push_codes(artifact, np.load(files.rows), "host").codes[0], artifact.report.outputs[0]
    decisions = Naive(4, 0.5, 10, (0,)).decisions(real(codes.reshape(-1, 5), output.scale, output.zero_point))
    wanted = [((number + 2) / RATE, LABELS[one]) for number, one in enumerate(decisions) if one >= 0]
    assert [(one["seconds"], one["class"]) for one in found["decisions"]] == wanted
    assert (found["seconds"], found["outputs"], found["events"]) == (60.0, 1199, 3)
    assert found["hits"] + found["misses"] == 3
    assert found["hits"] + found["repeats"] + found["false_alarms"] == len(wanted) > 10
    assert found["false_alarms_per_hour"] == 60 * found["false_alarms"]
    assert sum(one["false_alarms"] for one in found["classes"]) == found["false_alarms"]
    assert [one["class"] for one in found["classes"]] == list(LABELS)
    assert (found["decision"], found["tolerance"], found["same_in_c"], found["problems"]) == (RULE, 1.0, True, [])


@pytest.mark.host
def test_figures_for_people_and_other_rules(run: Run, files: Files) -> None:
    lines = run(*files.arguments()).out.splitlines()
    assert lines[0] == "net for cortex-m4, 60.0 s, 1,199 outputs"
    assert lines[1] == f"decision: {RULE}"
    assert lines[2].split() == ["CLASS", "EVENTS", "HITS", "MISSES", "REPEATS", "FALSE", "ALARMS"]
    assert lines[-1] == "the compiled C decides the same"
    stricter = run(*files.arguments("--decide", "smooth=9,threshold=0.95", "--min-hits", "90%", "--json"))
    assert stricter.code == 1
    found = stricter.json
    assert (found["decision"], found["same_in_c"]) == ("smooth=9,threshold=0.95,holdoff=0", None)
    assert "events were hit, expected 90.00% or more" in stricter.err
    assert run(*files.arguments("--max-false-alarms", 1)).code == 1


def _wav(path: Path, channels: int = 1) -> Path:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes(bytes(6400))
    return path


def test_recordings_that_can_not_be_scored(run: Run, files: Files, here: Path) -> None:
    """One sentence each."""
    (here / "none.csv").write_text("start,end,class\n")
    (here / "quiet.csv").write_text("1,2,quiet\n")
    (here / "back.csv").write_text("2,1,yes\n")
    (here / "late.csv").write_text("99,100,yes\n")
    base = ("evaluate", files.folder, "--stream", files.rows)
    rate = ("--rate", RATE)
    one_sentence(run(*base), "needs events to score against; give --events")
    one_sentence(run(*base, "--events", files.events), "does not state its sample rate; give --rate")
    one_sentence(run("evaluate", files.folder, "--events", files.events), "--events is for recordings (--stream), add")
    one_sentence(run(*files.arguments("--data", files.rows)), "--data is for datasets, and --stream scores a recording")
    one_sentence(
        run(*files.arguments("--decide", "threshold=3")), "a threshold of 3.0 is outside the range of the scores of"
    )
    one_sentence(run(*files.arguments("--tolerance", -1)), "--tolerance -1 is negative")
    one_sentence(run(*base, *rate, "--events", "no.csv"), "there is no file no.csv")
    one_sentence(run(*base, *rate, "--events", "none.csv"), "none.csv holds no events")
    one_sentence(run(*base, *rate, "--events", "quiet.csv"), "quiet.csv:1: there is no class 'quiet'; expected one of")
    one_sentence(run(*base, *rate, "--events", "back.csv"), "back.csv:1: found '2,1,yes', expected start, end")
    one_sentence(run(*base, *rate, "--events", "late.csv"), "an event begins at 99 s, but the recording has 60 s")
    sound = ("evaluate", files.folder, "--events", files.events, "--stream")
    one_sentence(run(*sound, _wav(here / "one.wav")), "holds samples of sound, and the model's input is int8 of shape")
    one_sentence(run(*sound, _wav(here / "two.wav", 2)), "has 2 channels of 16 bits; expected 1 of 16 bits")
    one_sentence(run(*sound, here / "one.wav", *rate), "--rate is for arrays, but")
    one_sentence(run(*sound, here / "no.wav"), "there is no file")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--decide", "threshold=0.5"), "has neither a stream nor state; expected --stream DIM, or a model with state"),
        (("--decide", "smooth=3"), "there is no threshold"),
        (("--decide", "threshold=0.5,holdoff=-2"), "holdoff=-2; expected a number of outputs from 0 to 65,535"),
        (("--decide", "threshold=0.5", "--image"), "--image and --decide: an image holds only the network"),
        (("--decide", "threshold=0.5", "--artifacts", "pte"), "--decide is for the C bundle, and --artifacts pte"),
        (("--decide", "threshold=0.5", "--pte", "delegate"), "--pte delegate and --decide"),
    ],
)
def test_what_can_not_be_decided(run: Run, here: Path, options: tuple[str, ...], message: str) -> None:
    one_sentence(compile_tiny(run, "-t", "cortex-m4", "-o", "out", *options), message)
    assert list(here.iterdir()) == []


MODEL = """import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(1, {channels}, (2, 5), padding=(0, {pad}))

    def forward(self, x):
        return self.conv(x){then}

def make():
    return Net().eval(), (torch.randn(1, 1, 2, 5),)

def data():
    return [(torch.randn(1, 1, 2, 5),) for _ in range(16)]
"""


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("net", "rule", "message"),
    [
        ((5, 0, ".flatten(1)"), "threshold=0.5,ignore=silence", "'silence'; expected a number from 0 to 4 (names need"),
        (
            (5, 0, ".flatten(1)"),
            "threshold=0.5,ignore=7",
            "there is no class '7'; expected",
        ),
        (
            (5, 0, ".flatten(1)"),
            "threshold=1e9",
            "a threshold of 1000000000.0 is outside the range of the scores of 'output0'",
        ),
        ((5, 1, ""), "threshold=0.5", "'output0' is int8 of shape [1, 1, 3, 5], expected scores of classes"),
    ],
)
def test_what_a_stream_can_not_decide(run: Run, here: Path, net: tuple[int, int, str], rule: str, message: str) -> None:
    channels, pad, then = net
    (here / "net.py").write_text(MODEL.format(channels=channels, pad=pad, then=then))
    given = ("compile", "net.py:make", "--calibration", "net.py:data", "-t", "cortex-m4", "-o", "out", "--stream", 2)
    one_sentence(run(*given, "--decide", rule, "--artifacts", "c"), message)
    assert sorted(path.name for path in here.iterdir() if path.name != "__pycache__") == ["net.py"]
