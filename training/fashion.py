"""Trains a network of the zoo for pictures on Fashion-MNIST, from Debian's package dataset-fashion-mnist."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import common
import pruning
from cortado.models.zoo.images import ResNet8, as_colour
from cortado.models.zoo.mobilenets import FASHION_LABELS as LABELS
from cortado.models.zoo.mobilenets import MobileNetTiny, as_large_colour, mobilenet_v1_of_clothes

FOLDER = Path("/usr/share/datasets/fashion-mnist")
BATCH = 64
RATE = 8e-3
SCALE, OFFSET = 2 / 255, -1.0


@dataclass(frozen=True)
class Recipe:
    create: Callable[[], nn.Module]
    form: common.Form
    epochs: int
    pruned: float | None = None
    """Share of the channels that are set to zero; the others are trained on for half as long."""


RECIPES = {
    "mobilenet_tiny": Recipe(MobileNetTiny, lambda pictures: pictures, epochs=3),
    "resnet8": Recipe(ResNet8, as_colour, epochs=2),
    "mobilenet_v1_pruned": Recipe(mobilenet_v1_of_clothes, as_large_colour, epochs=1, pruned=0.4),
}


def load(part: str) -> tuple[Tensor, Tensor]:
    """(n, 1, 28, 28) in [-1, 1], and the classes."""

    def read(kind: str, header: int) -> Tensor:
        data = gzip.decompress((FOLDER / f"{part}-{kind}-ubyte.gz").read_bytes())
        return torch.from_numpy(np.frombuffer(data, np.uint8, offset=header).copy())

    pictures = read("images-idx3", header=16).reshape(-1, 1, 28, 28)
    return pictures.float() * SCALE + OFFSET, read("labels-idx1", header=8).long()


def task(network: str) -> common.Task:
    pictures, labels = load("train")

    def batch(_: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        chosen = torch.randint(len(pictures), (BATCH,), generator=generator)
        mirrored = torch.rand(1, generator=generator) < 0.5
        inputs = pictures[chosen].flip(3) if mirrored else pictures[chosen]
        return RECIPES[network].form(inputs), labels[chosen]

    return common.Task(batch, F.cross_entropy, len(pictures), BATCH)


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("network", choices=RECIPES)
    options = parser.parse_args()
    recipe = RECIPES[options.network]
    torch.manual_seed(0)
    model, learned = recipe.create(), task(options.network)
    common.channels_last(model)
    steps = learned.steps(options.epochs or recipe.epochs)
    if recipe.pruned is None:
        common.train(options.network, model, learned, steps=steps, rate=RATE, fresh=options.fresh)
    else:
        whole = pruning.penalized(learned, model)
        common.train(f"{options.network}_whole", model, whole, steps=steps, rate=RATE, fresh=options.fresh)
        pruning.prune(model, recipe.pruned)
        common.train(options.network, model, learned, steps=steps // 2, rate=RATE / 4, fresh=options.fresh)
    common.round_to_half(model)
    test_pictures, test_labels = load("t10k")
    right = common.tested(model, recipe.form(test_pictures), test_labels, LABELS)
    common.ship_samples("fashion", load("train")[0], test_pictures, test_labels, scale=SCALE, offset=OFFSET)
    common.finish_classifier(options.network, model, right)


if __name__ == "__main__":
    main()
