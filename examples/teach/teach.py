"""Three new words, taught to a keyword spotter on an emulated board with five utterances each.

python examples/teach/teach.py build/teach [several|one] [host|board]
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

import cortado
from cortado.learning import prototypes
from cortado.models import zoo
from cortado.models.zoo.sounds import DsCnn

NETWORK = zoo.get("ds_cnn")
REST = (10, 11)  # silence, unknown
KNOWN, WORDS, UTTERANCES = 12, 3, 5
THRESHOLD = 0.006  # of the cosine beyond that with the nearest unknown words
EPISODES = 2  # of other words and voices


class Spotter(nn.Module):
    """The network's scores, and features for new words: mean and maximum over its third block."""

    def __init__(self, network: DsCnn) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        early = self.network.blocks[:18](self.network.stem(x))
        part = early[:, :, :24]
        features = torch.cat([part.mean((2, 3)), part.amax((2, 3))], 1)
        return self.network.classifier(self.network.pool(self.network.blocks[18:](early)).flatten(1)), features


class Words:
    """Words by espeak-ng (training/new_words.py): new ones, unseen ones, and others of no class."""

    def __init__(self) -> None:
        with np.load(Path(__file__).parent / "words.npz", allow_pickle=False) as stored:
            self.x = torch.from_numpy(stored["codes"].astype(np.float32) * stored["scale"])
            self.group, self.voice, self.word = stored["group"], stored["voice"], stored["word"]

    def rows(self, group: str) -> np.ndarray:
        return np.flatnonzero(self.group == group)

    def episode(self, number: int, voices: str) -> tuple[list[int], list[int], list[int], list[int]]:
        """Rows that teach with their classes, and rows that test: the same voices' other utterances, for one voice
        alone; with several also those of a voice that taught nothing."""
        rng, new = np.random.default_rng(number), self.rows("new")
        words = rng.choice(np.unique(self.word[new]), WORDS, replace=False)
        order = rng.permutation(np.unique(self.voice[new]))
        teachers = order[:UTTERANCES] if voices == "several" else order[:1]
        taught: list[int] = []
        labels: list[int] = []
        asked: list[int] = []
        wanted: list[int] = []
        for label, word in enumerate(words):
            mine = [new[(self.word[new] == word) & (self.voice[new] == voice)] for voice in teachers]
            chosen = [int(one[0]) for one in mine] if voices == "several" else mine[0][:UTTERANCES].tolist()
            rest = [int(row) for one in mine for row in one if row not in chosen]
            if voices == "several":
                rest += new[(self.word[new] == word) & (self.voice[new] == order[-1])].tolist()
            taught, labels = taught + chosen, labels + [label] * len(chosen)
            asked, wanted = asked + rest, wanted + [label] * len(rest)
        return taught, labels, asked, wanted


def offline(features: Tensor, labels: Tensor, weights: Tensor | None, classes: int) -> nn.Linear:
    """A linear layer trained on a computer, with the same utterances."""
    torch.manual_seed(0)
    layer = nn.Linear(features.shape[1], classes)
    optimizer = torch.optim.SGD(layer.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
    for _ in range(300):
        optimizer.zero_grad()
        functional.cross_entropy(layer(features), labels, weight=weights).backward()
        optimizer.step()
    return layer.requires_grad_(False)


def calls_of(x: Tensor, taught: list[int], labels: list[int], asked: list[Tensor]) -> list[tuple[Any, ...]]:
    """What a user does: empties the words, teaches them, and speaks."""
    found: list[tuple[Any, ...]] = [("forget", torch.tensor([one], dtype=torch.int32)) for one in range(WORDS)]
    for row, label in zip(taught, labels, strict=True):
        found.append(("learn", x[row : row + 1], torch.tensor([label], dtype=torch.int32)))
    return found + [("forward", one[None]) for one in asked]


def main(folder: str, voices: str = "several", on: str = "board") -> None:
    data, network = Words(), NETWORK.build()
    assert isinstance(network, DsCnn)
    old, old_labels = NETWORK.test_set()
    words = (old_labels < 10).nonzero().flatten()[::2]
    others = data.x[data.rows("other")]
    calibration = torch.cat([one for (one,) in NETWORK.calibration(100)])
    typical = torch.cat([calibration[:50], others[::4]])
    taught = prototypes(Spotter(network), WORDS, samples=typical, others=others, rest=REST, threshold=THRESHOLD)
    compiled = cortado.compile_methods(
        taught, taught.methods(typical[:1]), "cortex-m4", taught.calls(typical[::2]), "teach", taught.options()
    )
    compiled.save(folder)
    print(compiled)
    unseen = data.x[data.rows("unseen")]
    episodes = [data.episode(number, voices) for number in range(EPISODES)]
    calls, asked_rows = [], []
    for taught_rows, labels, asked, _ in episodes:
        inputs = [*data.x[asked], *unseen, *old[words]]
        calls += calls_of(data.x, taught_rows, labels, inputs)
        asked_rows.append(inputs)
    done = compiled.run(calls, on=None if on == "board" else "host")
    answers = [(int(one[0][0]), float(one[1][0])) for one in done.outputs if one]
    print(done)
    at = 0
    with torch.no_grad():
        scored = [taught.seen(torch.stack(one)) for one in asked_rows]
        background = taught.seen(torch.cat([calibration, others]))[1]
        teachers = [taught.seen(data.x[taught_rows])[1] for taught_rows, *_ in episodes]
    table: dict[str, list[float]] = {}
    for (_, labels, asked, wanted), (scores, features), own in zip(episodes, scored, teachers, strict=True):
        assert scores is not None
        right = np.array([one for one, _ in answers[at : at + len(features)]])
        at += len(features)
        new, strange, known = np.split(np.arange(len(features)), [len(asked), len(asked) + len(unseen)])
        truth, calm = np.array(wanted), scores.argmax(1).numpy() >= 10
        closed = offline(own, torch.tensor(labels), None, WORDS)
        every = torch.cat([own, background])
        classes = torch.tensor([*labels, *[WORDS] * len(background)])
        each = torch.bincount(classes).float().reciprocal() * len(every) / (WORDS + 1)
        each[WORDS] *= WORDS
        margin = (lambda z: z[:, :WORDS] - z[:, WORDS:])(offline(every, classes, each, WORDS + 1)(features)).numpy()
        passed = float((right[strange] >= KNOWN).mean())
        limit = np.quantile(np.where(calm[strange], margin[strange].max(1), -99.0), 1.0 - passed)
        chosen = (margin[new].argmax(1) == truth) & (margin[new].max(1) > limit) & calm[new]
        nearest = closest_of(taught, own, labels, features[new])
        figures = {
            "closed set: nearest of the three": (nearest == truth).mean(),
            "closed set: offline": (closed(features[new]).argmax(1).numpy() == truth).mean(),
            "new words found": (right[new] == truth + KNOWN).mean(),
            "new words found, offline at the same false alarms": chosen.mean(),
            "unknown words rejected": 1.0 - passed,
            "old words right": (right[known] == old_labels[words].numpy()).mean(),
            "old words right, before": (scores[known].argmax(1) == old_labels[words]).float().mean(),
        }
        for name, value in figures.items():
            table.setdefault(name, []).append(float(value))
    for name, values in table.items():
        print(f"{name:52} {np.mean(values):.3f}")


def closest_of(taught: Any, own: Tensor, labels: list[int], features: Tensor) -> np.ndarray:
    """The class whose mean is nearest, with no word unknown."""
    means = torch.stack([own[[at for at, one in enumerate(labels) if one == label]].mean(0) for label in range(WORDS)])
    return functional.cosine_similarity(features[:, None], means[None], dim=2).argmax(1).numpy()


if __name__ == "__main__":
    main(*sys.argv[1:])
