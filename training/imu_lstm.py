"""Trains the zoo's imu_lstm on motions that are made up as they are needed."""

from __future__ import annotations

import torch
from torch import Tensor

import common
from cortado.models.zoo.sensors import MOTION_LABELS as LABELS
from cortado.models.zoo.sensors import TEST_SEED, ImuLstm, motions

EPOCHS = 60
TRAINED, TESTED, BATCH = 8_000, 4_000, 64
FIRST_SEED = 1_000  # of the training's motions: none of those that ship


def test_set() -> tuple[Tensor, Tensor]:
    return motions(TESTED, TEST_SEED)


def task() -> common.Task:
    return common.classes_task(*motions(TRAINED, FIRST_SEED), size=BATCH)


def main() -> None:
    options = common.parser(__doc__).parse_args()
    torch.manual_seed(0)
    model, learned = ImuLstm(), task()
    steps = learned.steps(options.epochs or EPOCHS)
    common.train("imu_lstm", model, learned, steps=steps, rate=1e-2, fresh=options.fresh)
    common.round_to_half(model)
    right = common.tested(model, *test_set(), LABELS)
    common.finish_classifier("imu_lstm", model, right)


if __name__ == "__main__":
    main()
