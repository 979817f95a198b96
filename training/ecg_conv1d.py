"""Trains the zoo's ecg_conv1d on synthesized heartbeats: five classes, every test beat of a patient never trained on.

A beat is a sum of Gaussians (P, Q, R, S, T), with the waves that its class has; a patient has heights, widths and
distances of his own. Around it lie the beats before and after, baseline wander, mains hum and noise.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

import common
from cortado.models.zoo.sensors import LABELS, SAMPLES, EcgConv1d

RATE = 360
NORMAL, SUPRAVENTRICULAR, VENTRICULAR, FUSION, UNKNOWN = range(len(LABELS))
# Of the P, Q, R, S and T waves: seconds from the R peak, width in seconds, height in millivolts.
SINUS = ((-0.17, 0.025, 0.15), (-0.03, 0.008, -0.12), (0.0, 0.011, 1.0), (0.03, 0.009, -0.25), (0.25, 0.045, 0.3))
# From the ventricle: no P, a wide and tall QRS, T against it.
ECTOPIC = ((-0.17, 0.025, 0.0), (-0.06, 0.025, -0.25), (0.0, 0.035, 1.3), (0.07, 0.03, -0.5), (0.28, 0.06, -0.4))
# Behind a pacemaker's spike: a wide QRS, no P.
PACED = ((-0.09, 0.003, 0.9), (-0.04, 0.02, 0.1), (0.0, 0.03, 0.9), (0.08, 0.03, -0.2), (0.3, 0.06, -0.25))
PATIENTS, TEST_PATIENTS, BEATS = 400, 100, 40
EPOCHS, BATCH = 10, 128
SCALE = 1 / 50  # millivolts per code


def patients(count: int, generator: torch.Generator) -> Tensor:
    """(count, 3 kinds, 5 waves, 3): each patient's own sinus, ectopic and paced beats."""
    kinds = torch.tensor([SINUS, ECTOPIC, PACED]).expand(count, 3, 5, 3)
    share = torch.rand(count, 3, 5, 3, generator=generator)
    low, high = torch.tensor([0.85, 0.75, 0.5]), torch.tensor([1.15, 1.4, 1.5])
    own = kinds * (low + share * (high - low))
    own[..., 2] *= 0.6 + torch.rand(count, 1, 1, generator=generator)  # how the electrodes lie
    upside_down = torch.rand(count, 1, generator=generator) < 0.3  # the ectopic beats of some go down
    own[:, 1, :, 2] *= torch.where(upside_down, -1.0, 1.0)
    return own


def waves(own: Tensor, labels: Tensor, generator: torch.Generator) -> Tensor:
    """(n, 5, 3): one beat of each patient, of the class that is asked for."""
    n = len(own)
    beat = own[torch.arange(n), torch.tensor([0, 0, 1, 0, 2])[labels]].clone()
    # A supraventricular beat's P wave comes from elsewhere: flat, upside down or close to the QRS.
    early = labels == SUPRAVENTRICULAR
    odd = torch.rand(n, generator=generator)
    beat[:, 0, 2] *= torch.where(early, torch.where(odd < 0.4, 0.1, -0.8), 1.0)
    beat[:, 0, 0] += torch.where(early, 0.05 * odd, 0.0)
    # A fusion beat is in part the sinus', in part the ventricle's.
    share = torch.where(labels == FUSION, 0.35 + 0.3 * torch.rand(n, generator=generator), 0.0)[:, None, None]
    beat = beat * (1 - share) + own[:, 1] * share
    return beat * (1 + 0.06 * torch.randn(n, 5, 3, generator=generator))


def drawn(time: Tensor, beat: Tensor, at: Tensor) -> Tensor:
    """(n, samples): the waves of one beat each, its R peak `at` seconds."""
    distance = (time - at[:, None, None] - beat[:, :, :1]) / beat[:, :, 1:2]
    return (beat[:, :, 2:] * torch.exp(-0.5 * distance**2)).sum(1)


def beats(own: Tensor, labels: Tensor, generator: torch.Generator) -> Tensor:
    """(n, 1, SAMPLES): one second around a beat of each patient."""
    n, time = len(own), (torch.arange(SAMPLES) - SAMPLES / 2) / RATE

    def vary(low: float, high: float) -> Tensor:
        return low + (high - low) * torch.rand(n, generator=generator)

    centre, period = vary(-0.05, 0.05), vary(0.6, 1.0)
    # Ectopic beats come early and are followed by a pause.
    early = (labels == SUPRAVENTRICULAR) | (labels == VENTRICULAR)
    before = period * torch.where(early, vary(0.6, 0.8), vary(0.93, 1.07))
    after = period * torch.where(early, vary(1.1, 1.35), vary(0.93, 1.07))
    sinus = torch.zeros_like(labels)
    signal = drawn(time, waves(own, labels, generator), centre)
    for shift in (centre - before, centre + after):
        signal = signal + drawn(time, waves(own, sinus, generator), shift)
    wander, hum = vary(0.0, 0.3)[:, None], vary(0.0, 0.04)[:, None]
    signal = signal + wander * torch.sin(2 * math.pi * (vary(0.1, 0.6)[:, None] * time + vary(0, 1)[:, None]))
    mains = torch.where(vary(0, 1) < 0.5, 50.0, 60.0)[:, None]
    signal = signal + hum * torch.sin(2 * math.pi * (mains * time + vary(0, 1)[:, None]))
    signal = signal + vary(0.02, 0.09)[:, None] * torch.randn(n, SAMPLES, generator=generator)
    return signal[:, None]


def data(count: int, each: int, seed: int) -> tuple[Tensor, Tensor]:
    """`each` beats of each of `count` patients, in random order; all classes alike often."""
    generator = torch.Generator().manual_seed(seed)
    own = patients(count, generator).repeat(each, 1, 1, 1)
    own = own[torch.randperm(len(own), generator=generator)]
    labels = torch.arange(len(own)) % len(LABELS)
    return beats(own, labels, generator), labels


def test_set() -> tuple[Tensor, Tensor]:
    return data(TEST_PATIENTS, BEATS, seed=2)


def training_set() -> tuple[Tensor, Tensor]:
    return data(PATIENTS, BEATS, seed=1)


def task() -> common.Task:
    return common.classes_task(*training_set(), size=BATCH)


def main() -> None:
    options = common.parser(__doc__).parse_args()
    torch.manual_seed(0)
    model, learned = EcgConv1d(), task()
    steps = learned.steps(options.epochs or EPOCHS)
    common.train("ecg_conv1d", model, learned, steps=steps, rate=4e-3, fresh=options.fresh)
    common.round_to_half(model)
    test_inputs, test_labels = test_set()
    right = common.tested(model, test_inputs, test_labels, LABELS)
    common.ship_samples("ecg", training_set()[0], test_inputs, test_labels, scale=SCALE, offset=0.0)
    common.finish_classifier("ecg_conv1d", model, right)


if __name__ == "__main__":
    main()
