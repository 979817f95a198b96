"""Random networks with state, and over rows without end: the same bits as the reference, step by step."""

from pathlib import Path

import pytest
import torch

import cortado
from cortado.run.runner import HOST, RUNTIME_CHECKS
from helpers.random_sequences import Stateful, Windowed
from helpers.stateful import decibels, eager_steps
from helpers.streams import Rows

STEPS = 24
TARGETS = ("cortex-m0plus", "cortex-m4", "cortex-m33", "cortex-m55")
pytestmark = [pytest.mark.host, pytest.mark.filterwarnings("ignore::cortado.base.errors.CortadoWarning")]


def check_state(seed: int, folder: Path, on: str | None) -> None:
    model = Stateful(seed).eval()
    steps = torch.randn(64 + STEPS, model.features, generator=torch.Generator().manual_seed(seed))
    target = TARGETS[seed % len(TARGETS)]
    options = cortado.Options(artifacts="c")
    compiled = cortado.compile(model, (steps[:1],), target, steps[:64], name="net", options=options)
    artifact = compiled.save(folder / "net")
    samples = [[step[None].numpy()] for step in steps[64:]]
    found = artifact.run(samples, on, flags=(RUNTIME_CHECKS,) if on == HOST else ())
    assert found.bit_exact, seed
    (wanted,) = eager_steps(model, steps[64:])
    if not model.long:  # a thousand small parts of one are less than a step each
        assert decibels(wanted, found.outputs[0]) > 15, seed


def check_stream(seed: int, folder: Path, target: str | None) -> None:
    model = Windowed(seed).eval()
    batches = [(torch.randn(model.shape, generator=torch.Generator().manual_seed(n)),) for n in range(4)]
    options = cortado.Options(stream=2, artifacts="c")
    rows = Rows(cortado.compile(model, batches[0], TARGETS[seed % 4], batches, name="net", options=options), 70)
    if target is None:
        rows.check(folder, ("-fsanitize=address,undefined", "-fno-sanitize-recover=all"))
        return
    found = rows.push(folder, target)
    for number in range(rows.outputs):
        assert (found[number] == rows.expected(number)[0]).all(), (seed, number)


@pytest.mark.parametrize("seed", [0, 1, 3, 6, 8, 10])  # every kind of memory
def test_networks_with_state(seed: int, tmp_path: Path) -> None:
    check_state(seed, tmp_path, HOST)


@pytest.mark.parametrize("seed", range(6))
def test_networks_over_rows_without_end(seed: int, tmp_path: Path) -> None:
    check_stream(seed, tmp_path, None)


def test_they_draw_every_kind() -> None:
    drawn = [Stateful(seed) for seed in range(40)]
    kinds = {memory.kind for model in drawn for memory in model.memories}
    assert kinds == {"ring", "average", "gru", "rnn", "counter", "cache"}
    assert {model.long for model in drawn} == {False, True}
    windows = [Windowed(seed) for seed in range(40)]
    assert {model.end for model in windows} == {"mean", "newest", "flat"}
    assert {bool(pad) for model in windows for pad in model.pads} == {False, True}


@pytest.mark.slow
@pytest.mark.qemu
@pytest.mark.parametrize("seed", range(6, 60))
def test_many_networks_here_and_on_boards(seed: int, tmp_path: Path) -> None:
    check_state(seed, tmp_path / "host", HOST)
    check_state(seed, tmp_path / "board", None)
    check_stream(seed, tmp_path / "rows", None)
    check_stream(seed, tmp_path / "board rows", TARGETS[seed % 4])
