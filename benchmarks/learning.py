"""Measures a step of learning by gradients: cycles, by the model, and RAM beside parameters and momentum.

    python benchmarks/learning.py [--targets cortex-m4,...] [--features 64] [--classes 12]

The head is one linear layer; a step is forward, cross entropy, backward, clip, momentum and decay of one example.
Expected on a Cortex-M4: at most 20,000 cycles and 2 KB.
"""

import argparse
import logging
import tempfile
import warnings
from pathlib import Path

import torch
from torch import nn

from _common import table
from cortado.artifact.folder import METHODS
from cortado.artifact.opened import Artifact
from cortado.learning import SGD, trainable
from cortado.methods import CompiledMethods, compile_methods
from cortado.profile import profile

logging.disable(logging.ERROR)
EXAMPLES = 32


def compiled_head(features: int, classes: int, target: str) -> CompiledMethods:
    """A linear head alone, which learns from its features."""
    torch.manual_seed(0)
    inputs, hot = torch.randn(EXAMPLES, features), torch.eye(classes)
    optimizer = SGD(lr=0.05, momentum=0.9, weight_decay=1e-3, clip=1.0)
    head = nn.Sequential(nn.Linear(features, classes))
    taught = trainable(head, "0.*", optimizer=optimizer, examples=(inputs[:1],), target=hot[:1])
    targets = [hot[at % classes][None] for at in range(EXAMPLES)]
    calls = taught.calls([(one[None],) for one in inputs], targets)
    return compile_methods(taught, taught.methods(), target, calls, name="head")


def row(features: int, classes: int, target: str) -> tuple[str, float, int, bool]:
    """The target, cycles of a step, bytes beside its state, and whether it is exact."""
    compiled = compiled_head(features, classes, target)
    planned = compiled.planned["learn"]
    kept = sum(state.tensor.bytes for state in planned.program.state)
    with tempfile.TemporaryDirectory() as folder:
        compiled.save(Path(folder) / "head")
        artifact = Artifact.open(Path(folder) / "head" / METHODS / "learn")
        found = profile(artifact, [artifact.example()])
    return target, found.timing.total.cycles.typical, planned.plan.peak - kept, found.bit_exact


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", default="cortex-m4,cortex-m7,cortex-m33,cortex-m55")
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--classes", type=int, default=12)
    arguments = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = [row(arguments.features, arguments.classes, target) for target in arguments.targets.split(",")]
    print(table(("target", "cycles", "bytes beside state", "exact"), rows))


if __name__ == "__main__":
    main()
