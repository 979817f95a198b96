"""Trains a network of the zoo a little longer with int8's rounding in it (nothing of it ships)."""

from __future__ import annotations

from collections.abc import Callable

import torch

import common
import cortado
import deep_autoencoder
import ecg_conv1d
import fashion
import imu_lstm
import keywords
from cortado.models import zoo
from test_sets import FULL

EPOCHS = 1
RATE = 5e-5  # the weights are good already: they only move to where rounding does least harm


def _speech() -> common.Task:
    data = keywords.load()
    return keywords.task(data, keywords.babble_of(data)[1])


TASKS: dict[str, Callable[[], common.Task]] = {
    **dict.fromkeys(keywords.RECIPES, _speech),
    "resnet8": lambda: fashion.task("resnet8"),
    "deep_autoencoder": deep_autoencoder.task,
    "ecg_conv1d": ecg_conv1d.task,
    "imu_lstm": imu_lstm.task,
    "mobilenet_tiny": lambda: fashion.task("mobilenet_tiny"),
    "mobilenet_v1_pruned": lambda: fashion.task("mobilenet_v1_pruned"),
}


def fine_tuned(name: str, epochs: int = EPOCHS, *, fresh: bool = False) -> torch.nn.Module:
    """The zoo's network, trained on with fake quantization; `cortado.compile` takes it without calibration."""
    network = zoo.get(name)
    model = cortado.prepare_qat(network.build(), network.example_inputs())
    with torch.no_grad():
        for sample in network.own_calibration():  # ranges to begin with
            model(*sample)
    task = TASKS[name]()
    common.train(f"{name}_qat", model, task, steps=task.steps(epochs), rate=RATE, fresh=fresh)
    return model


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("network", choices=TASKS)
    options = parser.parse_args()
    network = zoo.get(options.network)
    model = fine_tuned(options.network, options.epochs or EPOCHS, fresh=options.fresh)
    compiled = cortado.compile(model, network.example_inputs(), target="cortex-m4", name=network.name)
    data = FULL[options.network]() or network.test_set()
    found = compiled.evaluate(*data, model=network.build(), reconstruction=network.rebuilds)
    for what, score in (("int8", found.integers), ("float", found.floats)):
        assert score is not None
        print(f"{network.name} in {what}: accuracy {score.accuracy}, AUC {score.auc}")


if __name__ == "__main__":
    main()
