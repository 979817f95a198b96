"""Networks of tokens, uint8 images, choices and masks: the same bits everywhere, as close to float as PT2E."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cortado.api import prepare
from cortado.base.target import from_target_string
from cortado.scoring.validate import validate
from helpers.noise import beside_pt2e, eager_outputs, integer_outputs

TARGETS = ("cortex-m0plus", "cortex-m4", "cortex-m33", "cortex-m55")
SAMPLES = 40


class TextCnn(nn.Module):
    """Kim's: windows of two widths over the words, the largest of each filter."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(60, 12, padding_idx=0)
        self.pairs, self.triples = nn.Conv1d(12, 10, 2), nn.Conv1d(12, 10, 3, padding=1)
        self.head = nn.Linear(20, 4)

    def forward(self, ids: Tensor) -> Tensor:
        words = self.words(ids).transpose(1, 2)
        found = [F.relu(layer(words)).amax(2) for layer in (self.pairs, self.triples)]
        return self.head(torch.cat(found, 1))


class Bags(nn.Module):
    """Bags of words with padding, and bigrams that are added up."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.EmbeddingBag(60, 16, mode="mean", padding_idx=0)
        self.pairs = nn.EmbeddingBag(50, 16, mode="sum")
        self.head = nn.Sequential(nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 3))

    def forward(self, ids: Tensor, pairs: Tensor) -> Tensor:
        return self.head(self.words(ids) + self.pairs(pairs))


class Dqn(nn.Module):
    """The values of actions, and the best of those that are allowed."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 6))

    def forward(self, state: Tensor, allowed: Tensor) -> tuple[Tensor, Tensor]:
        values = self.body(state)
        return values, torch.where(allowed, values, -4.0).argmax(1)


class CenterNet(nn.Module):
    """Heat maps of two classes; what is not the largest of its neighbourhood is suppressed."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 2, 1))

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        heat = torch.sigmoid(self.body(image))
        peaks = heat * (F.max_pool2d(heat, 3, stride=1, padding=1) == heat).float()
        return peaks, torch.where(heat > heat.mean((2, 3), keepdim=True), heat, 0.25)


class Camera(nn.Module):
    """An image as a camera gives it."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU())
        self.head = nn.Linear(8, 5)

    def forward(self, image: Tensor) -> Tensor:
        return self.head(self.body((image.float() - 128) / 64).mean((2, 3)))


@dataclass(frozen=True)
class Case:
    model: Callable[[], nn.Module]
    draw: Callable[[torch.Generator], tuple[Tensor, ...]]
    types: tuple[str, ...]  # of the inputs, then of the outputs, as the header gives them


def _ids(rng: torch.Generator, most: int, count: int) -> Tensor:
    """Sentences of any length, then padding."""
    ids = torch.randint(1, most, (1, count), generator=rng)
    length = int(torch.randint(1, count + 1, (), generator=rng))
    return torch.where(torch.arange(count)[None] < length, ids, 0)


CASES = {
    "text cnn": Case(TextCnn, lambda rng: (_ids(rng, 60, 17),), ("int32_t", "int8_t")),
    "bags": Case(Bags, lambda rng: (_ids(rng, 60, 9), _ids(rng, 50, 8)), ("int32_t", "int32_t", "int8_t")),
    "dqn": Case(
        Dqn,
        lambda rng: (torch.randn(1, 8, generator=rng), torch.rand(1, 6, generator=rng) > 0.3),
        ("int8_t", "uint8_t", "int8_t", "int32_t"),
    ),
    "centernet": Case(CenterNet, lambda rng: (torch.randn(1, 3, 10, 10, generator=rng),), ("int8_t",) * 3),
    "camera": Case(
        Camera,
        lambda rng: (torch.randint(0, 256, (1, 3, 15, 15), generator=rng, dtype=torch.uint8),),
        ("uint8_t", "int8_t"),
    ),
}


def _header_types(text: str) -> tuple[str, ...]:
    return tuple(line.split()[-1] for line in text.splitlines() if line.startswith("#define") and "_TYPE" in line)


@pytest.mark.cases(2)
@pytest.mark.qemu
@pytest.mark.parametrize("name", CASES)
def test_networks_of_whole_numbers(name: str, tmp_path: Path) -> None:
    case, rng = CASES[name], torch.Generator().manual_seed(3)
    torch.manual_seed(5)
    model = case.model().eval()
    batches = [case.draw(rng) for _ in range(SAMPLES)]
    prepared = prepare(model, batches[0], batches, name="net")
    compiled = prepared.compile("cortex-m")
    assert compiled.bundle is not None
    assert _header_types(str(compiled.bundle.files["net.h"])) == case.types
    artifact = compiled.save(tmp_path / "net")
    unseen = [case.draw(rng) for _ in range(SAMPLES)]
    arrays = [[value.numpy() for value in sample] for sample in unseen]
    checked = validate(artifact, arrays[:3], targets=[from_target_string(target) for target in TARGETS])
    assert checked.problems() == []
    assert [place.name for place in checked.places[:2]] == ["reference", "host"]
    assert len(checked.places) == 2 + len(TARGETS)
    beside_pt2e(model, prepared.quantized, artifact, unseen)
    wanted, made = eager_outputs(model, unseen), integer_outputs(artifact, unseen)
    for position, value in enumerate(wanted[0]):
        if not value.is_floating_point():
            same = [bool((one[position] == other[position]).all()) for one, other in zip(wanted, made, strict=True)]
            assert np.mean(same) >= 0.9, position
