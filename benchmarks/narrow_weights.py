"""int4 weights of the zoo's trained networks beside int8: score, signal to noise, constants in flash.

python benchmarks/narrow_weights.py [--networks ds_cnn,resnet8,deep_autoencoder] [--samples 200] [--json]

The samples are those that ship. `auto` has to fit three quarters of what the int8 network takes. QAT is short and needs
no labels: --steps of Adam on the calibration samples, with the float network's outputs as what is wanted.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from _common import collected, print_records, progress, score_of
from cortado import api
from cortado.api import prepare_qat
from cortado.base.errors import CortadoError
from cortado.models import zoo
from cortado.options import Artifacts, Options

TARGET = "cortex-m4"
SHARE = 0.75
KINDS = ("int8", "int4", "int4, groups of 32", "auto, groups of 32")
QAT = "int4, short QAT"
RATE, BATCH = 1e-4, 10


@dataclass(frozen=True)
class Row:
    """A network with one kind of weights."""

    network: str
    weights: str
    score: float | None
    sqnr_db: float | None
    constants: int
    int4_layers: int
    layers: int  # with weights


def options(kind: str, flash: int) -> Options:
    """`flash`: what the int8 network takes, for `auto`."""
    choices: dict[str, dict[str, Any]] = {
        "int8": {},
        "int4": {"weights": "int4"},
        "int4, groups of 32": {"weights": "int4", "weight_group": 32},
        "auto, groups of 32": {"weights": "auto", "weight_group": 32, "flash_budget": round(SHARE * flash)},
    }
    return Options(artifacts=Artifacts.C, **choices[kind])


def rows(name: str, samples: int) -> Iterator[Row]:
    network = zoo.get(name)
    module, (inputs, labels) = network.build(), network.test_set()
    model = api.prepare(module, network.example_inputs(), network.own_calibration(), name=name)
    flash = 1
    for kind in KINDS:
        try:
            compiled = model.compile(TARGET, options(kind, flash))
        except CortadoError as error:  # of a small network the code alone takes more than `auto` may
            progress(f"{name}, {kind}: {error}")
            continue
        found = compiled.evaluate(inputs[:samples], labels[:samples], model=module, reconstruction=network.rebuilds)
        report = compiled.report
        assert report.flash is not None
        if kind == "int8":
            flash = report.flash.weights_bytes + (report.flash.code_bytes or 0)
        narrow = sum(one.element == "int4" for one in report.weights)
        yield Row(name, kind, score_of(found), found.sqnr_db, report.flash.weights_bytes, narrow, len(report.weights))


def trained(network: zoo.Network, module: nn.Module, steps: int) -> nn.Module:
    """The network with int4's rounding in it, brought back to the float network's outputs."""
    data = [torch.cat(column) for column in zip(*network.own_calibration(), strict=True)]
    with torch.no_grad():
        wanted = module(*data)
    model = prepare_qat(module, network.example_inputs(), weights="int4")
    optimizer = torch.optim.Adam(model.parameters(), RATE)
    order = torch.Generator().manual_seed(0)
    for _ in range(steps):
        chosen = torch.randperm(len(data[0]), generator=order)[:BATCH]
        loss = (model(*(column[chosen] for column in data)) - wanted[chosen]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


def of_training(name: str, samples: int, steps: int) -> Row:
    network = zoo.get(name)
    module, (inputs, labels) = network.build(), network.test_set()
    model = trained(network, module, steps)
    compiled = api.compile(model, network.example_inputs(), TARGET, name=name, options=options("int4", 1))
    found = compiled.evaluate(inputs[:samples], labels[:samples], model=module, reconstruction=network.rebuilds)
    report = compiled.report
    assert report.flash is not None
    narrow = sum(one.element == "int4" for one in report.weights)
    return Row(name, QAT, score_of(found), found.sqnr_db, report.flash.weights_bytes, narrow, len(report.weights))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default="ds_cnn,resnet8,deep_autoencoder")
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--steps", type=int, default=100, help="of QAT; 0: none")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    names, steps = arguments.networks.split(","), arguments.steps
    found = collected(row for name in names for row in rows(name, arguments.samples))
    found += collected(of_training(name, arguments.samples, steps) for name in names if steps)
    print_records(found, arguments.json)


if __name__ == "__main__":
    main()
