"""ExecuTorch's standard road cannot fail: random PT2E programs lower with Cortado's partitioner, emit, and run."""

import logging

import pytest

from helpers.pt2e_programs import BAR, Lowered, draw, kernels_of, lower, worst

# Every quantizer, alone and beside another; of the last, ExecuTorch plans a mean in another order than it says before.
SAMPLE = (1, 5, 9, 21, 23, 1005, 396)  # most of the time is ExecuTorch's lowering
CAMPAIGN = range(500)
TOGETHER = 25  # programs that one build of the runner has the kernels of
pytestmark = [
    pytest.mark.host,
    pytest.mark.filterwarnings("ignore:XNNPACKQuantizer is deprecated"),
    pytest.mark.filterwarnings("ignore::UserWarning:torchao.*"),
]


@pytest.fixture(autouse=True)
def quiet() -> None:
    logging.getLogger().setLevel(logging.ERROR)  # ExecuTorch tells of every operator that it decomposes all the same


def _check(seeds: range | tuple[int, ...]) -> None:
    files: dict[int, Lowered] = {}
    for seed in seeds:
        files[seed] = lower(draw(seed))
        for reason in files[seed].outside.values():
            assert "can't compile it" not in reason, (seed, reason)
            assert "--" not in reason, (seed, reason)  # an option of the command line is no advice here
    kernels = kernels_of([one.data for one in files.values()])
    found = {seed: worst(one, kernels) for seed, one in files.items() if one.runs}
    assert {seed: noise for seed, noise in found.items() if noise > BAR} == {}


def test_programs_of_every_kind_lower_emit_and_give_what_torch_does() -> None:
    _check(SAMPLE)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, len(CAMPAIGN), TOGETHER))
def test_hundreds_of_programs_lower_emit_and_give_what_torch_does(first: int) -> None:
    _check(CAMPAIGN[first : first + TOGETHER])
