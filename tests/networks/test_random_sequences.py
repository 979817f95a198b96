"""Random networks with state, and over an endless stream of rows: the same bits as the reference, step by step."""

from pathlib import Path

import pytest

from cortado.run.runner import HOST
from fuzz.sequences import Stateful, Windowed, check_state, check_stream

STEPS = 24
pytestmark = [pytest.mark.host, pytest.mark.filterwarnings("ignore::cortado.base.errors.CortadoWarning")]


@pytest.mark.cases(2)
@pytest.mark.parametrize("seed", [0, 1, 3, 6, 8, 10])  # every kind of memory
def test_networks_with_state(seed: int, tmp_path: Path) -> None:
    check_state(seed, tmp_path, HOST, STEPS)


@pytest.mark.cases(2)
@pytest.mark.parametrize("seed", range(6))
def test_networks_over_rows_without_end(seed: int, tmp_path: Path) -> None:
    check_stream(seed, tmp_path, board=False)


def test_they_draw_every_kind() -> None:
    drawn = [Stateful(seed) for seed in range(40)]
    kinds = {kind for model in drawn for kind in model.kinds}
    assert kinds == {"ring", "average", "gru", "rnn", "counter", "cache"}
    assert {model.long for model in drawn} == {False, True}
    windows = [Windowed(seed) for seed in range(40)]
    assert {model.end for model in windows} == {"mean", "newest", "flat"}
    assert {bool(pad) for model in windows for pad in model.pads} == {False, True}


@pytest.mark.slow
@pytest.mark.qemu
@pytest.mark.parametrize("seed", range(6, 60))
def test_many_networks_here_and_on_boards(seed: int, tmp_path: Path) -> None:
    check_state(seed, tmp_path / "host", HOST, STEPS)
    check_state(seed, tmp_path / "board", None, STEPS)
    check_stream(seed, tmp_path / "rows", board=False)
    check_stream(seed, tmp_path / "board rows", board=True)
