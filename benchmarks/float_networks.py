"""Random networks in float32 beside eager torch: how many are taken, and how many decibels each keeps on fresh data.

python benchmarks/float_networks.py [--networks 200] [--seed 0]

Networks are those of the campaign of random networks (tests/fuzz), 20 to 60 layers each, with exact weights. Values are
the reference's, which every core gives bit for bit. Outputs of integers and truth values are left out, and infinities
and NaN have to be where torch has them.
"""

import argparse
import logging
import math
import sys
import warnings
from pathlib import Path

import torch
from torch.utils import _pytree as pytree

from _common import progress
from cortado.api import prepare
from cortado.base.errors import CortadoError
from cortado.base.target import from_target_string
from cortado.options import Activations, Artifacts, Options, Weights
from cortado.plan.lowered import lowered_graph, reference_outputs
from cortado.plan.pricing import lowered

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from fuzz.draw import draw_recipe
from fuzz.network import Network, eager
from helpers.single import decibels

OPTIONS = Options(activations=Activations.FLOAT32, weights=Weights.FLOAT32, artifacts=Artifacts.C)
LEAST = 100.0
TARGET = from_target_string("cortex-m4")


def kept(seed: int) -> float:
    """The decibels of a network's worst output; raises what refuses it."""
    recipe = draw_recipe(seed)
    network = Network(recipe).eval()
    example, fresh = recipe.batches(2)
    model = prepare(network, example, options=OPTIONS)
    graph = lowered_graph(lowered(model.quantized, TARGET, OPTIONS))
    with torch.no_grad():
        wanted = [one for one in pytree.tree_leaves(eager(network, fresh)) if isinstance(one, torch.Tensor)]
    found = reference_outputs(graph, fresh)
    pairs = zip(wanted, found, strict=True)
    return min((_apart(want, got) for want, got in pairs if want.is_floating_point()), default=math.inf)


def _apart(want: torch.Tensor, got: torch.Tensor) -> float:
    both = want.isfinite() & got.reshape(want.shape).isfinite()
    others = (want[~both].nan_to_num(2.0), got.reshape(want.shape)[~both].nan_to_num(2.0))
    return decibels(want[both], got.reshape(want.shape)[both]) if torch.equal(*others) else -math.inf


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    logging.disable(logging.ERROR)
    warnings.simplefilter("ignore")
    found, refused = dict[int, float](), dict[int, str]()
    for seed in range(arguments.seed, arguments.seed + arguments.networks):
        try:
            found[seed] = kept(seed)
        except CortadoError as error:
            refused[seed] = " ".join(str(error).split())[:200]
        if found.get(seed, -math.inf) < LEAST:
            progress(f"{seed}: {refused.get(seed) or f'{found[seed]:.1f} dB'}")
    good = [one for one in found.values() if one >= LEAST]
    print(f"{len(found)} of {arguments.networks} networks taken, {len(good)} of them at {LEAST:.0f} dB or more")
    print(f"least {min(found.values()):.1f} dB, median {sorted(found.values())[len(found) // 2]:.1f} dB")


if __name__ == "__main__":
    main()
