"""A search with Optuna: accuracy up, cycles and RAM down. What costs too much is left out before it is trained.

pip install -r examples/search/requirements.txt
python examples/search/search_optuna.py [--trials 60] [--dask tcp://HOST:8786]
"""

import argparse
import logging
import time
from dataclasses import dataclass
from typing import Any

import optuna
import torch
from distributed import Client, as_completed
from gestures import NAMES, accuracy, recordings, train, tutorial
from torch import nn

import cortado

CHIP, MOST_RAM, MOST_MS = "nrf52840", 1344, 0.65  # the RAM of the tutorial's network, and half of its time
EXAMPLE = (torch.zeros(1, 3, 64),)


@dataclass(frozen=True)
class Shape:
    """What a network is made of."""

    widths: tuple[int, int]
    kernels: tuple[int, int]
    strides: tuple[int, int]

    @staticmethod
    def suggested(trial: Any) -> "Shape":
        return Shape(
            (trial.suggest_int("first", 2, 24), trial.suggest_int("second", 2, 32)),
            (trial.suggest_int("kernel1", 3, 9, step=2), trial.suggest_int("kernel2", 1, 9, step=2)),
            (trial.suggest_int("stride1", 1, 6), trial.suggest_int("stride2", 1, 4)),
        )

    def build(self) -> nn.Module:
        torch.manual_seed(0)
        layers: list[nn.Module] = []
        for before, width, kernel, stride in zip(
            (3, self.widths[0]), self.widths, self.kernels, self.strides, strict=True
        ):
            layers += [nn.Conv1d(before, width, kernel, stride, kernel // 2), nn.BatchNorm1d(width), nn.ReLU()]
        return nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(self.widths[1], len(NAMES)))


def judged(shape: Shape) -> tuple[float, int, int] | None:
    """Accuracy, cycles and RAM of a network, on a worker; None for one that is over budget, which is not trained."""
    torch.set_num_threads(1)
    model = shape.build()
    found = cortado.estimate(model, EXAMPLE, chip=CHIP)
    assert found.milliseconds is not None
    if found.ram_bytes > MOST_RAM or found.milliseconds > MOST_MS:
        return None
    train(model)
    return accuracy(model), found.cycles, found.ram_bytes


def search(client: Any, trials: int) -> Any:
    """Asks for networks and tells what became of them, as many at a time as there are workers."""
    sampler = optuna.samplers.TPESampler(seed=0, multivariate=True, n_startup_trials=trials // 4)
    study = optuna.create_study(directions=["maximize", "minimize", "minimize"], sampler=sampler)
    asked: dict[Any, Any] = {}
    results = as_completed()
    left = trials

    def ask() -> None:
        trial = study.ask()
        future = client.submit(judged, Shape.suggested(trial), pure=False)
        asked[future.key] = trial
        results.add(future)

    for _ in range(min(left, len(client.ncores()))):
        ask()
        left -= 1
    for future in results:
        result = future.result()
        state = optuna.trial.TrialState.PRUNED if result is None else optuna.trial.TrialState.COMPLETE
        study.tell(asked.pop(future.key), result, state=state)
        if left > 0:
            ask()
            left -= 1
    return study


def row(name: str, model: nn.Module) -> str:
    """Of a trained network: what int8 makes of recordings that nothing has seen, and what it costs."""
    data, labels = recordings(4000, 5)
    compiled = cortado.compile(
        model, EXAMPLE, target="cortex-m4", calibration=[(x[None],) for x in recordings(64, 2)[0]], name="gestures"
    )
    found, cost = compiled.evaluate(data, labels), cortado.estimate(model, EXAMPLE, chip=CHIP)
    return (
        f"{name:12s} {accuracy(model, 5):8.2%} {found.accuracy:8.2%} {cost.ram_bytes:8,} {cost.flash_bytes or 0:8,} "
        f"{cost.cycles:8,} {cost.milliseconds:8.3f}"
    )


def trained(model: nn.Module) -> nn.Module:
    train(model)
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--dask", metavar="ADDRESS", help="a scheduler (default: a process for each core here)")
    arguments = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    logging.getLogger("distributed").setLevel(logging.ERROR)
    local: dict[str, Any] = {} if arguments.dask else {"threads_per_worker": 1, "dashboard_address": None}
    start = time.monotonic()
    with Client(arguments.dask, **local) as client:
        study = search(client, arguments.trials)
    done = [trial for trial in study.trials if trial.state is optuna.trial.TrialState.COMPLETE]
    print(
        f"{len(done)} of {len(study.trials)} networks trained, the others were over {MOST_RAM} bytes of RAM or "
        f"{MOST_MS} ms; {time.monotonic() - start:.0f} seconds\n"
    )
    for trial in sorted(study.best_trials, key=lambda trial: trial.values[1]):
        right, cycles, ram = trial.values
        print(f"accuracy {right:7.2%}, {cycles:8,.0f} cycles, {ram:6,.0f} bytes of RAM: {Shape.suggested(trial)}")
    model = trained(tutorial())
    least = accuracy(model)
    best = min((trial for trial in done if trial.values[0] >= least), key=lambda trial: trial.values[1], default=None)
    print(f"\n{'':12s} {'float':>8s} {'int8':>8s} {'RAM':>8s} {'flash':>8s} {'cycles':>8s} {'ms':>8s}")
    print(row("tutorial", model))
    if best is None:
        print("no network is as accurate: try more")
    else:
        print(row("found", trained(Shape.suggested(best).build())))


if __name__ == "__main__":
    main()
