"""Recurrent layers beside a linear layer of the same size, on the emulated boards: instructions per product, and how
many times the linear layer's they are.

python benchmarks/recurrent.py [--targets m0,m4,m55] [--units 64] [--steps 4] [--json]
"""

import argparse
import json
from typing import Any

import torch
from torch import nn

from _common import NOTE, TARGETS, profiled, progress, ratio, table
from cortado import api
from cortado.base.target import from_target_string

LAYERS = {"GRU": nn.GRU, "LSTM": nn.LSTM, "RNN": nn.RNN}


class Layers(nn.Module):
    """Each kind over the same sequence, and a linear layer over one step of it: as many inputs as units."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.linear = nn.Linear(units, units)
        self.recurrent = nn.ModuleDict({name: kind(units, units, batch_first=True) for name, kind in LAYERS.items()})

    def forward(self, sequence: torch.Tensor, step: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.linear(step), *(layer(sequence)[0] for layer in self.recurrent.values())


def measure(targets: list[str], units: int, steps: int) -> dict[str, dict[str, float]]:
    """Instructions per product of every layer, by target; the runs are checked against the reference."""
    torch.manual_seed(0)
    batches = [(torch.randn(1, steps, units), torch.randn(1, units)) for _ in range(4)]
    model = api.prepare(Layers(units).eval(), batches[0], batches, name="recurrent")
    found = {}
    for key in targets:
        progress(key)
        done = profiled(model.compile(from_target_string(TARGETS[key])))
        found[key] = {
            layer.report.module.removeprefix("recurrent."): layer.spent.instructions / layer.report.macs
            for layer in done.layers
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", default="m0,m4,m55")
    parser.add_argument("--units", type=int, default=64)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    targets = arguments.targets.split(",")
    results = measure(targets, arguments.units, arguments.steps)
    if arguments.json:
        print(json.dumps(results, indent=2))
        return
    rows: list[list[Any]] = []
    for name in ("linear", *LAYERS):
        row: list[Any] = [name]
        for key in targets:
            row += [results[key][name], ratio(results[key][name], results[key]["linear"])]
        rows.append(row)
    print(table(["instructions per product", *(text for key in targets for text in (key, "ratio"))], rows))
    print(f"\nratio: to the linear layer on the same core; {NOTE}")


if __name__ == "__main__":
    main()
