"""Windows of a stream whose last rows nothing reads: one window gives one output everywhere, and it is the window's.

A frame of a spectrum may be shorter than its FFT, strides leave rows over, a model may read old rows alone: the output
is there before the window is. The oracle is the module itself, on the window that an output says it is for.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cortado import api
from cortado.artifact.opened import Artifact
from cortado.artifact.streamed import push_rows
from cortado.options import Artifacts, Options
from cortado.plan.windows import StreamWindows
from cortado.profile import profile
from cortado.scoring.validate import validate
from helpers.selftests import run_there
from helpers.stateful import decibels

pytestmark = [pytest.mark.filterwarnings("ignore::cortado.base.errors.CortadoWarning"), pytest.mark.host]
Built = tuple["Case", nn.Module, Artifact]
Array = np.ndarray[Any, np.dtype[Any]]


class Sound(nn.Module):
    """`stft(points, hop, length)` of int16 samples, two layers over the frames, a mean over time."""

    window: Tensor
    mel: Tensor

    def __init__(self, points: int, hop: int, length: int, stride: int = 1) -> None:
        super().__init__()
        self.frames = points, hop, length
        self.register_buffer("window", torch.hann_window(length))
        self.register_buffer("mel", torch.rand(points // 2 + 1, 6) / points)
        self.conv, self.out = nn.Conv2d(1, 4, (3, 6), stride=(stride, 1)), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        found = torch.stft(x.float() / 32768, *self.frames, self.window, center=False, return_complex=True)
        bands = torch.log(found.abs().square().transpose(1, 2) @ self.mel + 1e-4)
        return self.out(torch.relu(self.conv(bands[:, None])).mean((2, 3)))


class TwoSpectra(nn.Module):
    """A long and a short FFT side by side: one has a frame more than the window when the other's last comes."""

    def __init__(self) -> None:
        super().__init__()
        self.long, self.short = Sound(256, 32, 64), Sound(64, 32, 64)

    def forward(self, x: Tensor) -> Tensor:
        return self.long(x) + self.short(x)


class Early(nn.Module):
    """The first of ten rows: nothing behind it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x)[:, :, :1]


class Causal(nn.Module):
    """Zeros before the first row, which the newest does not reach; a stride that leaves a row over."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 4, (3, 1)), nn.Conv2d(4, 2, (3, 8), stride=(2, 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.relu(self.first(nn.functional.pad(x, (0, 0, 2, 0)))))[:, :, -1:]


@dataclass(frozen=True)
class Case:
    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    windows: StreamWindows  # by hand
    target: str = "cortex-m4"

    @property
    def is_sound(self) -> bool:
        return len(self.shape) == 2

    @property
    def time(self) -> int:
        return 1 if self.is_sound else 2

    def rows(self, count: int, seed: int) -> Array:
        """Time along the first dimension: samples of 16 bits, or rows [channels, width]."""
        rng = np.random.default_rng(seed)
        if not self.is_sound:
            return rng.standard_normal((count, self.shape[1], self.shape[3])).astype(np.float32)
        samples = count * (self.shape[1] // self.windows.window)
        loud = np.repeat(2.0 ** -rng.integers(0, 8, -(-samples // 50)), 50)[:samples]
        return (loud * rng.uniform(-32000, 32000, samples)).astype(np.int16)

    def sample(self, rows: Array) -> Array:
        """Rows as the model's input."""
        return rows.reshape(self.shape) if self.is_sound else np.ascontiguousarray(rows.transpose(1, 0, 2))[None]


# 56 of 512 samples at each end of a frame are no part of it: 96 * 160 + 456 samples end in row 99 of 100
CASES = {
    "docs/signals.md": Case(lambda: Sound(512, 160, 400), (1, 16_000), StreamWindows(window=100, hop=1, first=99)),
    # 224 of 512: 7 hops of 32 are over at the end
    "a tenth of the FFT": Case(
        lambda: Sound(512, 32, 64), (1, 32 * 24), StreamWindows(window=24, hop=1, first=17), "cortex-m55"
    ),
    # frames 0 to 8 of 64 points by 20: rows of 20 samples; the third layer of a stride leaves frames over
    "strides": Case(
        lambda: Sound(64, 20, 40, 3), (1, 20 * 14), StreamWindows(window=14, hop=3, first=11), "cortex-m0plus"
    ),
    "two spectra": Case(TwoSpectra, (1, 32 * 20), StreamWindows(window=20, hop=1, first=20)),
    "old rows": Case(Early, (1, 3, 12, 8), StreamWindows(window=12, hop=1, first=3)),
    "zeros before": Case(Causal, (1, 3, 13, 8), StreamWindows(window=13, hop=2, first=13)),
}


@pytest.fixture(scope="module", params=CASES)
def compiled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Built:
    case = CASES[request.param]
    torch.manual_seed(0)
    module = case.make().eval()
    batches = [(torch.from_numpy(case.sample(case.rows(case.windows.window, seed))),) for seed in range(1, 9)]
    options = Options(stream=case.time, artifacts=Artifacts.C, selftest=True)
    found = api.prepare(module, batches[0], batches, name="net").compile(case.target, options)
    return case, module, found.save(tmp_path_factory.mktemp("stream") / "net")


@pytest.mark.qemu
def test_one_window_gives_one_output_everywhere(compiled: Built, tmp_path: Path) -> None:
    """Here, on the board, layer by layer, in a profile and in the self-test."""
    case, module, artifact = compiled
    assert artifact.report.stream is not None
    assert artifact.report.stream.windows == case.windows
    fresh = [[case.sample(case.rows(case.windows.window, seed))] for seed in (20, 21, 22)]
    for on in ("host", None):
        run = artifact.run(fresh, on, check_stores=on is None)
        assert run.bit_exact
        with torch.no_grad():
            wanted = np.concatenate([module(torch.from_numpy(one)).numpy() for (one,) in fresh])
        assert decibels(wanted, np.concatenate([values[0].reshape(1, *wanted.shape[1:]) for values in run.values])) > 20
    found = validate(artifact, fresh, per_layer=True)
    assert [place.exact for place in found.places[1:]] == [3, 3]
    assert [set(layer.differing.values()) for layer in found.layers] == [{0}] * len(found.layers)
    assert profile(artifact, [artifact.example()]).bit_exact
    files = {str(path.relative_to(artifact.folder)): path.read_text() for path in artifact.folder.rglob("*.[chS]")}
    assert run_there(tmp_path, files, case.target) == 0


def test_every_output_is_that_of_the_window_it_is_for(compiled: Built) -> None:
    """The module itself, on each window of a longer sequence; rows that nothing reads may be any."""
    case, module, artifact = compiled
    count = 2 * case.windows.window
    rows = case.rows(count, 30)
    found = push_rows(artifact, rows, "host")
    late = [row + 1 - case.windows.first for row in range(count)]
    assert list(found.ends) == [row for row in range(count) if late[row] >= 0 and late[row] % case.windows.hop == 0]
    step = len(rows) // count
    wanted, got = [], []
    for number, end in enumerate(found.ends):
        begin = end + 1 - case.windows.first
        assert case.windows.of(number).start == begin
        window = case.rows(case.windows.window, 40)
        read = rows[begin * step : (end + 1) * step]
        window[: len(read)] = read
        wanted.append(artifact.reference([[case.sample(window)]]).expected[0][0])
        got.append(found.outputs[number])
        with torch.no_grad():
            eager = module(torch.from_numpy(case.sample(window))).numpy()
        assert decibels(eager, got[-1].reshape(eager.shape)) > 8
    real = [artifact.real([one])[0] for one in wanted]
    np.testing.assert_array_equal(np.concatenate(real).reshape(-1), np.concatenate(got).reshape(-1))
