"""Trains the zoo's deep_autoencoder on machines that sound as they should; a sound it can't rebuild is an anomaly."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

import common
from cortado.models.zoo._trained import load_samples
from cortado.models.zoo.sounds import DeepAutoencoder
from machines import Clip, Kind, clips

TRAIN_CLIPS, TEST_CLIPS = 100, 40  # of each machine
EPOCHS, BATCH = 15, 256
SCALE = 1 / 32
SHIPPED = 100  # windows of each kind: normal, anomalous


def errors(model: torch.nn.Module, inputs: Tensor) -> np.ndarray:
    """How badly each input is rebuilt."""
    return (common.outputs(model, inputs) - inputs).square().mean(1).numpy()


def auc(scores: np.ndarray, labels: np.ndarray) -> float:
    """How often an anomaly's score is above a normal one's, over all pairs."""
    above = scores[labels == 1][:, None] - scores[labels == 0]
    return float(np.mean((above > 0) + 0.5 * (above == 0)))


def one_window_each(chosen: list[Clip]) -> Tensor:
    """The window in the middle of each clip."""
    return torch.from_numpy(np.stack([clip.windows[len(clip.windows) // 2] for clip in chosen]))


def report(model: torch.nn.Module, tested: list[Clip]) -> None:
    """Whole clips, by the mean of their windows' errors: of each kind of machine, and of all."""
    scores = np.array([errors(model, torch.from_numpy(clip.windows)).mean() for clip in tested])
    labels = np.array([int(clip.faulty) for clip in tested])
    for kind in Kind:
        mine = np.array([clip.machine.kind is kind for clip in tested])
        print(f"{kind.value}: AUC {auc(scores[mine], labels[mine]):.3f} on {mine.sum()} clips")
    print(f"all: AUC {auc(scores, labels):.3f} on {len(tested)} clips")


def test_clips() -> list[Clip]:
    """As many normal ones as faulty ones, the normal ones first."""
    return [*clips(TEST_CLIPS, seed=2, faulty=False), *clips(TEST_CLIPS, seed=3, faulty=True)]


def labelled(tested: list[Clip]) -> tuple[Tensor, Tensor]:
    """A window of each clip, and 1 for those that are faulty."""
    return one_window_each(tested), torch.tensor([int(clip.faulty) for clip in tested])


def test_set() -> tuple[Tensor, Tensor]:
    return labelled(test_clips())


def training_clips() -> list[Clip]:
    return list(clips(TRAIN_CLIPS, seed=1, faulty=False))


def task(trained: list[Clip] | None = None) -> common.Task:
    inputs = torch.from_numpy(np.concatenate([clip.windows for clip in trained or training_clips()]))

    def batch(_: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        chosen = inputs[torch.randint(len(inputs), (BATCH,), generator=generator)]
        return chosen, chosen

    return common.Task(batch, F.mse_loss, len(inputs), BATCH)


def main() -> None:
    options = common.parser(__doc__).parse_args()
    trained = training_clips()
    torch.manual_seed(0)
    model, learned = DeepAutoencoder(), task(trained)
    steps = learned.steps(options.epochs or EPOCHS)
    common.train("deep_autoencoder", model, learned, steps=steps, rate=2e-3, fresh=options.fresh)
    common.round_to_half(model)

    tested = test_clips()
    report(model, tested)
    windows, labels = labelled(tested)
    full = auc(errors(model, windows), labels.numpy())
    normal = len(tested) // 2
    shipped = torch.cat([torch.arange(SHIPPED), normal + torch.arange(SHIPPED)])
    calibration = one_window_each(trained[: common.CALIBRATION_SAMPLES])
    common.ship_weights("deep_autoencoder", model)
    common.ship_samples("machines", calibration, windows[shipped], labels[shipped], scale=SCALE, offset=0.0)
    samples = load_samples("machines")
    found = auc(errors(model, samples.inputs), samples.labels.numpy())
    common.record("deep_autoencoder", "AUC", found, len(shipped), full, len(windows))


if __name__ == "__main__":
    main()
