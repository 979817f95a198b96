"""Random networks from nn.Module to the same bits everywhere: reference, host C, boards, ExecuTorch's runtime.

The reference itself is held to the network, run eagerly.

All of them run on this machine, built with sanitizers; every so manieth also runs on the boards, as the release build
with every store checked and as the build that checks itself, and as a .pte on ExecuTorch's runtime.
What fails is printed as Python: see random_networks.py for how to build it again.
"""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, assume, given, note, seed, settings
from hypothesis import strategies as st
from torch.utils._pytree import tree_leaves

from cortado import runner
from cortado.api import Model, Options, prepare
from cortado.artifact import Artifact
from cortado.lowered import lowered_graph, reference_outputs
from cortado.op import LinearWeights
from cortado.passes import PIPELINE, CortexMPassManager
from cortado.passes.move_transposes import MoveTransposes
from cortado.program import Border
from cortado.schedule import Optimize
from cortado.target import from_target_string
from random_networks import Network, Recipe, recipes

Samples = list[list[np.ndarray]]

BOARDS = {
    "cortex-m0plus": "mps2-an385",
    "cortex-m4": "mps2-an386",
    "cortex-m33": "mps2-an505",
    "cortex-m55": "mps3-an547",
    "cortex-m": "mps2-an500",
}
# What such a network computes need not survive int8; its bits have to be the same everywhere.
pytestmark = pytest.mark.filterwarnings("ignore::cortado.errors.CortadoWarning")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
OPTIONS = st.builds(
    Options,
    optimize=st.sampled_from(Optimize),
    border=st.sampled_from(Border),
    linear=st.sampled_from(LinearWeights),
)


@dataclass
class Campaign:
    """Checks networks as they are drawn."""

    folder: Path
    boards_every: int
    seen: set[str] = field(default_factory=set)

    def run(self, number: int, networks: int) -> None:
        """Draws and checks so many networks, others for every number."""

        @seed(number)
        @settings(max_examples=networks, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
        @given(recipe=recipes(), options=OPTIONS)
        def check(recipe: Recipe, options: Options) -> None:
            assume(repr(recipe) not in self.seen)
            note(repr(recipe))
            self.check(recipe, options, len(self.seen) + 1)
            self.seen.add(repr(recipe))  # after the check: hypothesis runs what fails a second time

        check()
        assert len(self.seen) == networks

    def check(self, recipe: Recipe, options: Options, number: int) -> None:
        model = prepare(Network(recipe), recipe.batches(1)[0], recipe.batches(3), name="random")
        samples = unseen(recipe)
        check_layout(model, samples)
        check_float(model, recipe)
        on_boards = number % self.boards_every == 0
        for target in BOARDS if on_boards else ["cortex-m4"]:
            folder = self.folder / f"{number}-{target}"
            artifact = model.compile(from_target_string(target), options).save(folder)
            if target == "cortex-m4":
                check_here(artifact, samples)
            if on_boards:
                check_board(artifact, samples, BOARDS[target])


def unseen(recipe: Recipe) -> Samples:
    """Inputs that calibration has not seen, some of them beyond its range."""
    batches = [*recipe.batches(2, seed=1), *recipe.batches(1, scale=4.0, seed=2)]
    return [[value.numpy() for value in batch] for batch in batches]


def check_layout(model: Model, samples: Samples) -> None:
    """Where transposes stand changes no value."""
    graphs = []
    for passes in (PIPELINE, [item for item in PIPELINE if item is not MoveTransposes]):
        program = model.quantized.program()
        CortexMPassManager(program, passes).transform()
        graphs.append(lowered_graph(program))
    for sample in samples:
        inputs = [torch.from_numpy(value) for value in sample]
        for moved, still in zip(*(reference_outputs(graph, inputs) for graph in graphs), strict=True):
            assert torch.equal(moved, still)


def check_float(model: Model, recipe: Recipe) -> None:
    """The integers are as close to the network itself, run eagerly, as PT2E's quantized graph is.

    `prepare` has held the graph behind both to the network on the calibration data; here it is data it has not seen.
    """
    network = Network(recipe).eval()
    program = model.quantized.program()
    CortexMPassManager(program, PIPELINE).transform()
    graph = lowered_graph(program)
    for batch in recipe.batches(2, seed=1):
        with torch.no_grad():
            wanted = network(*(value.clone() for value in batch))
            quantized = tree_leaves(model.quantized.converted(*batch))
        for want, other, found in zip(wanted, quantized, reference_outputs(graph, batch), strict=True):
            steps = (want.abs().max() / 64) ** 2  # a few steps of int8
            assert ((want - found) ** 2).mean() <= 4 * ((want - other) ** 2).mean() + steps


def check_here(artifact: Artifact, samples: Samples) -> None:
    assert artifact.run(samples, runner.HOST, flags=SANITIZERS).bit_exact
    if artifact.report["pte"] is not None:
        assert artifact.run(samples, runner.EXECUTORCH).bit_exact


def check_board(artifact: Artifact, samples: Samples, board: str) -> None:
    assert artifact.run(samples, board, check_stores=True).bit_exact
    assert artifact.run(samples, board, flags=(runner.RUNTIME_CHECKS,)).bit_exact


@pytest.fixture(autouse=True)
def _no_leak_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bundle allocates nothing; looking for leaks takes seconds at the end of every run."""
    monkeypatch.setenv("ASAN_OPTIONS", "detect_leaks=0")


@pytest.mark.qemu
def test_random_networks(tmp_path: Path) -> None:
    Campaign(tmp_path, boards_every=4).run(number=0, networks=12)


@pytest.mark.qemu
@pytest.mark.slow
@pytest.mark.parametrize("number", range(1, 9))
def test_many_random_networks(number: int, tmp_path: Path) -> None:
    """Eight times 25 networks, 40 of them on the boards."""
    Campaign(tmp_path, boards_every=5).run(number, networks=25)
