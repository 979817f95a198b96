"""What --precision auto chooses beside the best of all subsets, on small networks where all can be tried.

    python benchmarks/mixed.py [--networks dense,windows,residual] [--target cortex-m4] [--json]

Bars lie between what int8 and int16 reach; of each the RAM of the choice, that of the subset of calls that needs least
among those that reach it, and their ratio (expected: at most 1.15).
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import combinations, pairwise
from typing import Any

import torch
from torch import Tensor, nn

from _common import progress, table
from cortado.api import prepare
from cortado.frontend.precision.search import Chosen, Mixed, MixedSearch
from cortado.frontend.quantize.convert import MixedWork
from cortado.options import Artifacts, Options, Precision

BARS = (0.3, 0.6, 0.85)  # parts of the way from int8 to int16, in decibels
MOST = 1.15
CALIBRATED = 33


class Residual(nn.Module):
    """Two convolutions around a sum, a mean, a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 6, 3, padding=1), nn.Conv2d(6, 6, 3, padding=1)
        self.third, self.head = nn.Conv2d(6, 8, 3, stride=2), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        first = torch.relu(self.first(x))
        both = first + torch.tanh(self.second(first))
        scores: Tensor = self.head(torch.relu(self.third(both)).mean((2, 3)))
        return scores


def dense() -> nn.Module:
    sizes = (64, 48, 32, 16, 8)
    layers = [one for a, b in pairwise(sizes) for one in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


def windows() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.ReLU()),
        *(nn.Conv2d(8, 12, 1), nn.ReLU(), nn.AvgPool2d(4), nn.Flatten(), nn.Linear(108, 6)),
    )


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "dense": (dense, (1, 64)),
    "windows": (windows, (1, 3, 12, 12)),
    "residual": (Residual, (1, 2, 12, 12)),
}


def measure(name: str, target: str) -> list[dict[str, Any]]:
    """Of every bar, what was chosen and what is best."""
    build, shape = NETWORKS[name]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model, data = build().eval(), [(torch.randn(shape),) for _ in range(CALIBRATED)]
    rows: list[dict[str, Any]] = []

    class AllSubsets(MixedSearch):
        """Chooses for each bar, then tries everything."""

        def choose(self) -> Mixed:
            every = sorted(self._tensors.every)
            self._attempts = replace(self._attempts, price=cache(self._attempts.price))
            low, high = (self._measure(frozenset(one)) for one in ((), every))
            for part in BARS:
                self._bar = replace(self._bar, least=low + part * (high - low))
                self._prices = {}  # a choice plans no more than it does alone
                found = super().choose()
                best = self._best(every)
                rows.append(
                    {
                        "network": name,
                        "calls": len(every),
                        "bar": self._bar.least,
                        "int8_bytes": found.ram[0],
                        "bytes": found.ram[1],
                        "best_bytes": best,
                        "chosen": sorted(found.calls),
                        "ratio": found.ram[1] / best,
                    }
                )
            return found

        def _best(self, every: list[str]) -> int:
            subsets: list[Chosen] = [
                frozenset(one) for count in range(len(every) + 1) for one in combinations(every, count)
            ]
            priced = [(price.ram, number) for number, one in enumerate(subsets) if (price := self._price(one))]
            return next(ram for ram, number in sorted(priced) if self._holds(subsets[number]))

    options = Options(precision=Precision.AUTO, min_sqnr=30.0, artifacts=Artifacts.C)
    MixedWork.search = AllSubsets
    try:
        prepare(model, data[0], data, options=options, target=target)
    finally:
        MixedWork.search = MixedSearch
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--target", default="cortex-m4")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name in arguments.networks.split(","):
        progress(name)
        rows += measure(name, arguments.target)
    if arguments.json:
        print(json.dumps(rows, indent=2))
        return
    head = ("network", "calls", "bar", "int8_bytes", "bytes", "best_bytes", "ratio")
    print(
        table(
            ["network", "calls", "bar, dB", "int8", "auto", "best", "ratio"],
            [[row[key] for key in head] for row in rows],
        )
    )


if __name__ == "__main__":
    main()
