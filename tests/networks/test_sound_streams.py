"""Sound that comes in hops: a front end and its network give, after each push, the bits of the whole run."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cortado import api
from cortado.api import Compiled, Model
from cortado.base.errors import CortadoError
from cortado.ops.signal.spectrum import SPECTRUM
from cortado.options import Artifacts, Options
from cortado.plan.lowered import reference_outputs
from helpers.stateful import decibels

pytestmark = pytest.mark.filterwarnings("ignore::cortado.base.errors.CortadoWarning")

POINTS, WINDOW, HOP, BANDS = 128, 100, 40, 12
Array = np.ndarray[Any, np.dtype[Any]]


class FrontEnd(nn.Module):
    """[1, samples] of 16 bits as [1, frames, bands] of log power."""

    window: Tensor
    bands: Tensor

    def __init__(self, center: bool = False) -> None:
        super().__init__()
        edges = torch.linspace(0, POINTS // 2, BANDS + 2)
        at = torch.arange(POINTS // 2 + 1)[:, None]
        bands = 1 - ((at - edges[1:-1]) / (edges[1] - edges[0])).abs()
        self.center = center
        self.register_buffer("window", torch.hann_window(WINDOW))
        self.register_buffer("bands", bands.clamp(min=0))

    def forward(self, x: Tensor) -> Tensor:
        found = torch.stft(x, POINTS, HOP, WINDOW, self.window, center=self.center, return_complex=True)
        return torch.log(found.abs().square().transpose(1, 2) @ self.bands + 1e-6)


class Images(nn.Module):
    """Frames as the rows of an image."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.front, self.conv, self.out = FrontEnd(**options), nn.Conv2d(1, 4, 3, stride=(2, 1)), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.relu(self.conv(self.front(x.float() / 32768)[:, None])).mean((2, 3)))


class Channels(nn.Module):
    """Bands as the channels of a signal; samples of 8 bits."""

    def __init__(self) -> None:
        super().__init__()
        self.front, self.first, self.last = FrontEnd(), nn.Conv1d(BANDS, 6, 3), nn.Conv1d(6, 6, 5, dilation=2)

    def forward(self, x: Tensor) -> Tensor:
        frames = self.front((x.float() - 128) / 128).mT
        return self.last(torch.relu(self.first(frames)))[:, :, -1]


class Newest(nn.Module):
    """The newest frame of real numbers [1, 1, samples]."""

    def __init__(self) -> None:
        super().__init__()
        self.front = FrontEnd()

    def forward(self, x: Tensor) -> Tensor:
        return self.front(x[:, 0])[:, -1:]


def sound(kind: torch.dtype, length: int, seed: int = 0) -> Array:
    """Bursts of noise and tones, from silence to full scale."""
    rng, at = np.random.default_rng(seed), np.arange(length)
    loud = np.repeat(2.0 ** -rng.integers(0, 14, -(-length // 300)), 300)[:length]
    signal = loud * np.where(at // 900 % 2, rng.uniform(-1, 1, length), np.sin(at * (0.05 + at / length)))
    scaled = {torch.int16: 32767 * signal, torch.uint8: 128 + 127 * signal}.get(kind, signal)
    return scaled.astype(np.float32) if kind == torch.float32 else scaled.round().astype(str(kind).split(".")[1])


def prepared(net: type[nn.Module], kind: torch.dtype, shape: tuple[int, ...]) -> Model:
    torch.manual_seed(0)
    batches = [(torch.from_numpy(sound(kind, shape[-1], seed)).reshape(shape),) for seed in range(1, 6)]
    return api.prepare(net().eval(), batches[0], batches, name="net")


def streaming(shape: tuple[int, ...]) -> Options:
    return Options(stream=len(shape) - 1, artifacts=Artifacts.C)


CASES: dict[str, tuple[type[nn.Module], torch.dtype, tuple[int, ...]]] = {
    "int16": (Images, torch.int16, (1, 25 * HOP)),
    "uint8": (Channels, torch.uint8, (1, 16 * HOP)),
    "float32": (Newest, torch.float32, (1, 1, 5 * HOP)),
}
BOARDS = {"int16": ("cortex-m0plus", "cortex-m55"), "uint8": ("cortex-m4",), "float32": ("cortex-m33",)}


def in_float32(shape: tuple[int, ...]) -> Options:
    return Options(stream=len(shape) - 1, artifacts=Artifacts.C, activations="float32", weights="float32")  # type: ignore[arg-type]


def check_windows(found: Compiled, kind: torch.dtype, length: int, step: int, on: str | None) -> Array:
    """Every output, or each `step`-th, equals the reference on its window alone."""
    report, signal = found.report, sound(kind, length)
    assert found.graph is not None
    assert report.stream is not None
    assert report.input_rows is not None
    streamed, shape = found.stream(signal, on), report.inputs[0].model_shape
    for number in range(0, len(streamed.ends), step):
        start = number * report.stream.hop_rows * HOP
        window = np.zeros(shape[-1], signal.dtype)  # what has not come is not read
        come = signal[start : start + shape[-1]]
        window[: len(come)] = come
        wanted = reference_outputs(found.graph, [torch.from_numpy(window).reshape(shape)])[0]
        np.testing.assert_array_equal(streamed.outputs[number], wanted[0].numpy(), err_msg=f"output {number}")
    return streamed.outputs


@pytest.mark.host
@pytest.mark.qemu
@pytest.mark.parametrize("name", CASES)
def test_a_push_is_a_hop(name: str, tmp_path: Path) -> None:
    """Here and on boards the window's bits after each; the header says how many samples it takes, of which type."""
    net, kind, shape = CASES[name]
    model = prepared(net, kind, shape)
    here = model.compile("cortex-m4", streaming(shape))
    found = check_windows(here, kind, 6000, 7, "host")
    header = (here.save(tmp_path / "net").folder / "net.h").read_text()
    element = str(kind).split(".")[1].replace("float32", "int16")
    assert f"#define NET_PUSH_SAMPLES {HOP} " in header
    assert f"int net_push(net_arena_t *arena, const {element}_t *samples);" in header
    for target in BOARDS[name]:
        board = model.compile(target, streaming(shape)).stream(sound(kind, 6000))
        np.testing.assert_array_equal(board.outputs, found, err_msg=target)


@pytest.mark.host
@pytest.mark.slow
def test_200_000_samples() -> None:
    """Every frame of a long recording, and windows all over it."""
    kind, shape = torch.int16, (1, 25 * HOP)
    check_windows(prepared(Images, kind, shape).compile("cortex-m4", streaming(shape)), kind, 200_000, 40, "host")
    found = prepared(Newest, torch.float32, (1, 1, 5 * HOP)).compile("cortex-m4", streaming((1, 1, 5 * HOP)))
    assert found.graph is not None
    call = next(found.graph.bound(one) for one in found.graph.calls if one.operator == SPECTRUM.name)
    signal = sound(torch.float32, 200_000)
    streamed = found.stream(signal, "host").outputs
    given = found.report.inputs[0]
    assert given.scale is not None
    codes = np.rint(signal * (np.float32(1) / np.float32(given.scale))).clip(-32768, 32767).astype(np.int16)
    whole = {**call.arguments, "frames": 1 + len(streamed), "input": torch.from_numpy(codes)[None, None, None]}
    output = found.report.outputs[0]
    assert output.scale is not None
    assert output.zero_point is not None
    frames = SPECTRUM.reference(**whole).numpy()[0, 1:].astype(np.float32) - output.zero_point  # the window's second
    np.testing.assert_array_equal(streamed, frames * np.float32(output.scale))


@pytest.mark.host
@pytest.mark.qemu
@pytest.mark.slow
def test_five_seconds_on_boards() -> None:
    kind, shape = torch.int16, (1, 25 * HOP)
    model, signal = prepared(Images, kind, shape), sound(kind, 80_000)
    here = model.compile("cortex-m4", streaming(shape)).stream(signal, "host").outputs
    assert len(here) > 900
    for target in ("cortex-m0plus", "cortex-m4", "cortex-m33", "cortex-m55"):
        board = model.compile(target, streaming(shape)).stream(signal)
        np.testing.assert_array_equal(board.outputs, here, err_msg=target)


class Recurrent(nn.Module):
    """One frame a call: the newest samples as they lie in the caller's buffer; a hidden state."""

    hidden: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.front, self.gru, self.out = FrontEnd(), nn.GRU(BANDS, 8, batch_first=True), nn.Linear(8, 3)
        self.register_buffer("hidden", torch.zeros(1, 1, 8))

    def forward(self, x: Tensor) -> Tensor:
        states, self.hidden = self.gru(self.front(x.float() / 32768), self.hidden)
        scores: Tensor = self.out(states[:, -1])
        return scores


@pytest.mark.slow
@pytest.mark.host
@pytest.mark.qemu
def test_a_front_end_before_a_gru_with_state(tmp_path: Path) -> None:
    """Frame by frame the reference's bits, and close to the module since its reset."""
    windows = [torch.from_numpy(sound(torch.int16, 6000, seed)).unfold(0, POINTS, HOP)[:, None] for seed in (1, 2)]
    torch.manual_seed(0)
    net, options = Recurrent().eval(), Options(sequence=len(windows[0]), artifacts=Artifacts.C)
    module, calls = copy.deepcopy(net), list(zip(windows[0]))
    artifact = api.prepare(net, calls[0], calls, "net", options=options).compile("cortex-m4", options).save(tmp_path)
    fresh = [[one.numpy()] for one in windows[1]]
    here = artifact.run(fresh, "host", sequence=len(fresh))
    assert here.bit_exact
    assert artifact.run(fresh[:40], sequence=40).bit_exact
    with torch.no_grad():
        wanted = torch.cat([module(one) for one in windows[1]]).numpy()
    found = np.concatenate([values[0] for values in here.values])
    assert decibels(wanted, found) > 25, decibels(wanted, found)


class Centred(Images):
    def __init__(self) -> None:
        super().__init__(center=True)


@pytest.mark.parametrize(
    ("net", "length", "message"),
    [
        (Centred, 25 * HOP, r"'x' can't come row by row: .* reads all 1000 values.*center=False.*without --stream"),
        (Images, 25 * HOP + 1, r"'x' can't come row by row: .*1001 values.* a multiple of the hop"),
    ],
)
def test_what_does_not_come_in_hops(net: type[nn.Module], length: int, message: str) -> None:
    with pytest.raises(CortadoError, match=message):
        prepared(net, torch.int16, (1, length)).compile("cortex-m4", streaming((1, length)))


# ---- float32 -----------------------------------------------------------------------------------------------------


@pytest.mark.host
@pytest.mark.qemu
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name != "int16" else ()) for name in CASES]
)
def test_a_push_is_a_hop_in_float32(name: str) -> None:
    """The same networks without codes: each output is that of the window alone, and near eager torch."""
    net, kind, shape = CASES[name]
    torch.manual_seed(0)
    model, options, signal = net().eval(), in_float32(shape), sound(kind, 2400)
    prepared_model = api.prepare(model, (torch.from_numpy(signal[: shape[-1]]).reshape(shape),), options=options)
    here = prepared_model.compile("cortex-m4", options)
    found, stream = check_windows(here, kind, 2400, 1, "host"), here.report.stream
    assert stream is not None
    assert stream.first_rows <= shape[-1] // HOP
    assert stream.push_macs < stream.output_macs or stream.hop_rows == 1
    for target in BOARDS[name]:
        board = prepared_model.compile(target, options).stream(signal)
        np.testing.assert_array_equal(board.outputs, found, err_msg=target)
    starts = range(0, len(signal) - shape[-1] + 1, stream.hop_rows * HOP)
    windows = [torch.from_numpy(signal[start : start + shape[-1]]).reshape(shape) for start in starts]
    with torch.no_grad():
        wanted = torch.stack([model(one) for one in windows]).numpy()
    assert decibels(wanted.reshape(-1), found[: len(windows)].reshape(-1)) > 90


class Turns(nn.Module):
    """How far the phase turns from one bin to the next, for which there is no integer operator."""

    window: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(32))
        self.first, self.last = nn.Conv1d(16, 4, 3), nn.Conv1d(4, 3, 2)

    def forward(self, x: Tensor) -> Tensor:
        spectrum = torch.stft(x, 32, 16, window=self.window, center=False, return_complex=True)
        turns = (spectrum[:, 1:] * spectrum[:, :-1].conj()).angle()
        out: Tensor = self.last(torch.relu(self.first(turns)))[:, :, -1]
        return out


@pytest.mark.host
def test_an_island_of_float32_comes_in_hops() -> None:
    """Codes, frames in float32, codes again."""
    torch.manual_seed(0)
    options = Options(stream=1, artifacts=Artifacts.C, allow_float=True)
    batches = [(torch.from_numpy(sound(torch.float32, 96, seed))[None],) for seed in range(8)]
    found = api.prepare(Turns().eval(), batches[0], batches, options=options).compile("cortex-m4", options)
    assert found.graph is not None
    assert {"int8", "float32"} <= {value.element.name for value in found.graph.values.values()}
    signal = sound(torch.float32, 96 + 5 * 16, 20)
    streamed = found.stream(signal, "host")
    assert len(streamed.ends) == 6
    for number, got in enumerate(streamed.outputs):
        window = torch.from_numpy(signal[16 * number : 16 * number + 96])[None]
        wanted = found.run(window, on="host")
        assert wanted.bit_exact
        np.testing.assert_array_equal(got.flatten(), wanted.outputs[0].flatten())
