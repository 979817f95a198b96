"""Signal front ends: however a model writes its spectrum it is one operator, close to float64 and bit-exact in C."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from cortado import api
from cortado.base.errors import CortadoError
from cortado.base.target import from_target_string
from cortado.frontend.capture.export import capture
from cortado.frontend.rewrite.pipeline import canonicalize
from cortado.models.zoo.sounds import mfcc
from cortado.ops.signal.codes import SPECTRUM_OF
from cortado.ops.signal.spectrum import LOG_BITS, SPECTRUM, band_sums, logarithms
from cortado.options import Activations, Artifacts, Options
from cortado.plan.lowered import reference_outputs
from helpers.cores import FOUR, each_core
from helpers.single import Expression, decibels, lower_on

pytestmark = pytest.mark.filterwarnings("ignore::cortado.base.errors.CortadoWarning")

Tensor = torch.Tensor
M4 = from_target_string("cortex-m4")
BUNDLE = Options(artifacts=Artifacts.C)
RATE, SAMPLES = 16_000, 4_000


def mel(points: int, bands: int, high: float = 7600.0) -> Tensor:
    """(bins, bands): triangles on the mel scale."""
    edges = torch.linspace(1127 * np.log1p(20 / 700), 1127 * np.log1p(high / 700), bands + 2)
    at = 1127 * torch.log1p(torch.arange(points // 2 + 1) * (RATE / points) / 700)[:, None]
    rising, falling = (at - edges[:-2]) / (edges[1:-1] - edges[:-2]), (edges[2:] - at) / (edges[2:] - edges[1:-1])
    return torch.minimum(rising, falling).clamp(min=0).float()


def sounds(level: float, count: int = 4, length: int = SAMPLES) -> Tensor:
    """[count, length] within +-level: a voice, a sweep, noise and clicks, each fading in, and a microphone's own noise
    65 dB below."""
    rng = np.random.default_rng(26)
    at = np.arange(length) / RATE
    pitch = 2 * np.pi * np.cumsum(120 + 30 * np.sin(9 * at)) / RATE
    voice = sum(np.sin(n * pitch) / n**1.2 for n in range(1, 40)) * (0.3 + np.sin(12 * at) ** 2)
    sweep = np.sin(2 * np.pi * (50 * at + 15_000 * at**2))
    clicks = np.where(rng.random(length) < 0.003, rng.choice([-1.0, 1.0], length), 0.0)
    found = [voice, sweep, rng.normal(size=length), clicks]
    made = [0.99 * one / np.abs(one).max() * np.linspace(0.02, 1, length) for one in found]
    made = [level * (one + 10 ** (-65 / 20) * rng.normal(size=length)).clip(-1, 1) for one in made]
    return torch.tensor(np.stack([made[number % 4] for number in range(count)]), dtype=torch.float32)


# ---- spellings -----------------------------------------------------------------------------------------------


class Spectrogram(nn.Module):
    """As torchaudio.transforms.Spectrogram computes it."""

    window: Tensor

    def __init__(self, n_fft: int = 256, power: float = 2.0, normalized: bool = False) -> None:
        super().__init__()
        self.n_fft, self.power, self.normalized = n_fft, power, normalized
        self.register_buffer("window", torch.hann_window(n_fft))

    def forward(self, x: Tensor) -> Tensor:
        sizes = x.size()
        flat = x.reshape(-1, sizes[-1])
        found = torch.stft(flat, self.n_fft, self.n_fft // 2, window=self.window, return_complex=True)
        found = found.reshape(sizes[:-1] + found.shape[-2:])
        if self.normalized:
            found = found / self.window.pow(2.0).sum().sqrt()
        return found.abs() if self.power == 1.0 else found.abs().pow(self.power)


class MelSpectrogram(nn.Module):
    fb: Tensor

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.spectrogram = Spectrogram(**options)
        self.register_buffer("fb", mel(self.spectrogram.n_fft, 20))

    def forward(self, x: Tensor) -> Tensor:
        return torch.matmul(self.spectrogram(x).transpose(-1, -2), self.fb).transpose(-1, -2)


class AmplitudeToDB(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        found = 10.0 * torch.log10(torch.clamp(x, min=1e-10)) - 10.0 * 0.0
        sizes = found.size()
        packed = found.reshape(-1, *sizes[-3:]) if len(sizes) > 3 else found.reshape(1, *sizes[-3:])
        lowest = (packed.amax(dim=(-3, -2, -1)) - 60.0).view(-1, 1, 1, 1)
        return torch.max(packed.reshape(-1, *sizes[-3:]), lowest).reshape(sizes)


class MFCC(nn.Module):
    cosines: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.mel, self.decibels = MelSpectrogram(), AmplitudeToDB()
        angle = torch.pi / 20 * (torch.arange(20)[:, None] + 0.5) * torch.arange(10)
        self.register_buffer("cosines", torch.cos(angle) * 0.3)

    def forward(self, x: Tensor) -> Tensor:
        return torch.matmul(self.decibels(self.mel(x)).transpose(-1, -2), self.cosines).transpose(-1, -2)


BANDS, SHORT = mel(256, 20), torch.hann_window(200)


def by_frames(x: Tensor, window: Tensor, bands: Tensor) -> Tensor:
    pairs = torch.view_as_real(torch.fft.rfft(x.unfold(-1, 200, 80) * window, 256))
    return torch.log10(pairs.square().sum(-1) @ bands + 1e-6)


def real_and_imaginary(x: Tensor, window: Tensor, bands: Tensor) -> Tensor:
    found = torch.fft.rfft(functional.pad(x.unfold(-1, 200, 80) * window, (0, 56)), norm="ortho")
    return torch.einsum("...fk,kb->...bf", found.real**2 + found.imag**2, bands).clamp(min=1e-5).log()


def of_integers(x: Tensor, window: Tensor, bands: Tensor) -> Tensor:
    found = torch.stft(x.float() / 32768, 256, 80, 200, window, return_complex=True, pad_mode="constant")
    return torch.log1p(1000 * (found.abs()[:, 1:].transpose(1, 2) @ bands[1:]))


def of_bytes(x: Tensor, window: Tensor, bands: Tensor) -> Tensor:
    found = torch.stft((x.float() - 128) / 128, 256, 80, 200, window, center=False, return_complex=True)
    return torch.sqrt(functional.linear((found * found.conj()).real.mT, bands.T))


def powers(x: Tensor, window: Tensor) -> Tensor:
    return torch.fft.rfft(x.unfold(-1, 200, 80) * window, 256).abs() ** 2


def cube_root(x: Tensor, window: Tensor) -> Tensor:
    return (powers(x, window) ** 2 + 1e-6) ** (1 / 3)


def third_power(x: Tensor, window: Tensor) -> Tensor:
    return powers(x, window) ** 3


def below_the_largest(x: Tensor, window: Tensor, bands: Tensor) -> Tensor:
    sums = powers(x, window) @ bands
    found = 10 * torch.log10(sums.clamp(min=1e-10)) - 10 * torch.log10(torch.maximum(torch.tensor(1e-10), sums.max()))
    return found.clamp(min=-80)


def below_the_largest_band(x: Tensor, window: Tensor, bands: Tensor) -> Tensor:
    sums = powers(x, window) @ bands + 1e-6
    return sums.log() - sums.max(-1, keepdim=True).values.log()


def relative_to_the_largest(x: Tensor, window: Tensor, bands: Tensor) -> Tensor:
    sums = powers(x, window) @ bands + 1e-6
    return 10 * torch.log10((sums / sums.max()).clamp(min=1e-8))


def of_roots(x: Tensor, window: Tensor, bands: Tensor) -> Tensor:
    return torch.log1p(100 * torch.sqrt(powers(x, window) @ bands))


def by_strides(x: Tensor, window: Tensor, bands: Tensor) -> Tensor:
    frames = torch.as_strided(x[0], (48, 200), (80, 1))
    return torch.log((torch.fft.rfft(frames * window, 256).abs() ** 2 @ bands).clamp(min=1e-6))


CASES: dict[str, tuple[nn.Module, torch.dtype, float]] = {
    "cube root of squared powers": (Expression(cube_root, window=SHORT), torch.float32, 27),
    "third power of powers": (Expression(third_power, window=SHORT), torch.float32, 25),
    "decibels below the largest": (Expression(below_the_largest, window=SHORT, bands=BANDS), torch.float32, 36),
    "below the largest band": (Expression(below_the_largest_band, window=SHORT, bands=BANDS), torch.float32, 29),
    "decibels of a quotient": (Expression(relative_to_the_largest, window=SHORT, bands=BANDS), torch.float32, 29),
    "logarithm of roots": (Expression(of_roots, window=SHORT, bands=BANDS), torch.float32, 36),
    "frames by strides": (Expression(by_strides, window=SHORT, bands=BANDS), torch.float32, 36),
    "frames and pairs": (Expression(by_frames, window=SHORT, bands=BANDS), torch.float32, 38),
    "real and imaginary parts": (Expression(real_and_imaginary, window=SHORT, bands=BANDS), torch.float32, 38),
    "int16, log1p of magnitudes": (Expression(of_integers, window=SHORT, bands=BANDS), torch.int16, 36),
    "uint8, root of bands": (Expression(of_bytes, window=SHORT, bands=BANDS), torch.uint8, 33),
    "spectrogram": (Spectrogram(power=1.0, normalized=True), torch.float32, 30),
    "mel spectrogram": (nn.Sequential(MelSpectrogram(n_fft=240), AmplitudeToDB()), torch.float32, 36),
    "mfcc": (MFCC(), torch.float32, 28),
}


def inputs_of(kind: torch.dtype, level: float = 1.0) -> list[tuple[Tensor]]:
    signal = sounds(level, 8)
    if kind == torch.int16:
        signal = (signal * 32767).round().to(torch.int16)
    if kind == torch.uint8:
        signal = (signal * 127 + 128).round().to(torch.uint8)
    return [(one[None],) for one in signal]


@pytest.mark.host
@pytest.mark.parametrize("name", CASES)
def test_every_spelling_is_one_operator(name: str, tmp_path: Path) -> None:
    model, kind, least = CASES[name]
    batches = inputs_of(kind)
    compiled = api.prepare(model.eval(), batches[0], batches, name="model").compile(M4, BUNDLE)
    assert compiled.graph is not None
    assert [call.operator for call in compiled.graph.calls].count("cortado::spectrum") == 1
    fresh = inputs_of(kind, 0.7)[:4]
    found = torch.cat([reference_outputs(compiled.graph, batch)[0].flatten() for batch in fresh])
    wanted = torch.cat([model(*batch).detach().flatten() for batch in fresh])
    spread = (wanted - wanted.mean()).square().sum()
    assert 10 * np.log10(float(spread / (found - wanted).square().sum())) > least
    artifact = compiled.save(tmp_path / "model")
    assert artifact.run([[batch[0].numpy()] for batch in fresh[:2]], "host").bit_exact


# ---- in front of the last rounding ---------------------------------------------------------------------------


def log_bands(x: Tensor, window: Tensor, bands: Tensor, power: int, floor: float) -> Tensor:
    frames = x.to(window.dtype).div(32768).unfold(-1, 400, 160) * window
    return torch.log(torch.fft.rfft(frames, 2 * len(bands) - 2).abs() ** power @ bands + floor)


@pytest.mark.cases(1)
@pytest.mark.parametrize(("points", "power", "least"), [(512, 2, 75), (512, 1, 62), (400, 2, 75), (750, 2, 75)])
def test_in_front_of_the_last_rounding(points: int, power: int, least: float) -> None:
    """From full scale down to -60 dB of it, and silence, beside the same in float64. Beside a loud tone alone, bands
    that hold nothing show what 16-bit twiddles leave of it."""
    window, bands, floor = torch.hann_window(400), mel(points, 40), 1e-10 if power == 2 else 1e-6
    model = Expression(lambda x, window, bands: log_bands(x, window, bands, power, floor), window=window, bands=bands)
    loud = (sounds(32767.0)[:, None]).round().to(torch.int16)
    graph = api.prepare(model, (loud[0],), list(zip(loud))).compile(M4, BUNDLE).graph
    assert graph is not None
    found = next(graph.bound(call) for call in graph.calls if call.operator == SPECTRUM.name)
    factor = np.log(2.0) / 2**LOG_BITS
    for level in (1.0, 0.1, 0.01, 0.001):
        signal = (sounds(32767.0 * level)).round().to(torch.int16)
        exact = log_bands(signal.double(), window.double(), bands.double(), power, floor)
        acc, shifts = band_sums(signal[:, None, None], found.arguments)
        made = torch.from_numpy(logarithms(acc, shifts, found.arguments)).reshape(exact.shape) * factor
        for number, (one, other) in enumerate(zip(exact, made, strict=True)):
            noise = 10 * torch.log10((one - one.mean()).square().sum() / (one - other).square().sum())
            assert noise >= (50 if number == 1 else least), (level, number)
    silent = band_sums(torch.zeros(1, 1, 1, SAMPLES, dtype=torch.int16), found.arguments)
    assert np.abs(logarithms(*silent, found.arguments) * factor - np.log(floor)).max() < 1e-4


# ---- on boards -----------------------------------------------------------------------------------------------


class KeywordFrontEnd(nn.Module):
    """Two channels of samples to the zoo's coefficients."""

    def forward(self, x: Tensor) -> Tensor:
        return mfcc(x.reshape(-1, x.shape[-1]))


@pytest.mark.qemu
@pytest.mark.parametrize("target", each_core(*FOUR, here="cortex-m4"))
def test_the_zoos_front_end_on_boards(target: str, tmp_path: Path) -> None:
    batches = [(sounds(level, 2, 1600),) for level in (1.0, 0.3, 0.01)]
    compiled = api.compile(KeywordFrontEnd(), batches[0], target, batches, options=BUNDLE)
    assert compiled.graph is not None
    assert [call.operator for call in compiled.graph.calls].count(SPECTRUM.name) == 1
    checked = compiled.save(tmp_path / "model").run([[batch[0].numpy()] for batch in batches])
    assert checked.bit_exact


# ---- what can't be compiled ----------------------------------------------------------------------------------

WRONG: dict[str, tuple[Any, torch.dtype, str]] = {
    "phase": (
        lambda x: torch.fft.rfft(x[:, :256]).angle(),
        torch.float32,
        "an unsupported way; supported",
    ),
    "length": (lambda x: torch.fft.rfft(x[:, :262]).abs(), torch.float32, "262 points, expected an even number"),
    "axis": (lambda x: torch.fft.rfft(x[:, :256], dim=0).abs(), torch.float32, "along dimension 0, expected the last"),
    "both halves": (
        lambda x: torch.stft(x, 64, 32, onesided=False, return_complex=True).abs(),
        torch.float32,
        "leave out onesided=False",
    ),
    "samples of 32 bits": (lambda x: torch.fft.rfft(x[:, :256].float()).abs(), torch.int32, "expected float32, int8"),
    "half an offset": (
        lambda x: torch.fft.rfft((x - 127.5)[:, :256]).abs(),
        torch.uint8,
        "subtracts 127.5 from .*, expected an integer",
    ),
    "a changing window": (
        lambda x: torch.stft(x, 64, 32, window=x[0, :64], return_complex=True).abs(),
        torch.float32,
        "window that depends on the input",
    ),
    "a window longer than the FFT": (
        lambda x: torch.stft(x, 64, 32, win_length=80, return_complex=True).abs(),
        torch.float32,
        "win_length",
    ),
    "no hop": (lambda x: torch.stft(x, 64, 0, return_complex=True).abs(), torch.float32, "hop_length"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_no_spectrum_can_be(name: str) -> None:
    function, kind, said = WRONG[name]
    example = sounds(1.0, 1, 512).to(kind)
    with pytest.raises(CortadoError, match=said):
        api.prepare(Expression(function), (example,), [(example,)]).compile(M4)


class Followed(nn.Module):
    """Log bands, and behind them what gives several tensors."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.bands, self.kind = Spectrogram(64), kind
        self.cells = nn.LSTM(33, 6, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        rows = torch.log(self.bands(x) + 1e-3).transpose(1, 2)
        if self.kind == "recurrent":
            states: Tensor = self.cells(rows)[0]
            return states
        if self.kind == "parts":
            low, high = rows.split([16, 17], 2)
            return low + high[:, :, 1:]
        return (
            rows.topk(3, 2).values if self.kind == "largest" else functional.max_pool2d(rows, 2, return_indices=True)[0]
        )


EMPHASES: dict[str, tuple[Callable[[Tensor], Tensor], float]] = {
    "the first sample kept": (lambda x: torch.cat([x[:, :1], x[:, 1:] - 0.97 * x[:, :-1]], 1), 75),
    "without the first sample": (lambda x: x[:, 1:] - 0.97 * x[:, :-1], 75),
    "as a filter": (lambda x: functional.conv1d(x[:, None], torch.tensor([[[-0.475, 0.5]]]))[:, 0], 75),
    "as a filter that pads": (
        lambda x: functional.conv1d(x[:, None], torch.tensor([[[-0.95, 1.0]]]), padding=1)[:, 0, :-1],
        75,
    ),
    "a difference": (lambda x: x.diff(dim=1), 70),
    "a sum": (lambda x: x[:, 1:] + x[:, :-1], 50),
}


@pytest.mark.host
@pytest.mark.filterwarnings("ignore::cortado.base.errors.CortadoWarning")  # few samples
@pytest.mark.parametrize("name", EMPHASES)
def test_pre_emphasis_is_part_of_the_frame(name: str) -> None:
    """Not a tensor, and not rounded to codes of one step for all frames; the C kernels give the same."""
    emphasized, least = EMPHASES[name]
    rng, window = torch.Generator().manual_seed(3), torch.hann_window(64)

    def features(x: Tensor, window: Tensor) -> Tensor:
        bins = torch.stft(emphasized(x.float() / 32768), 64, 32, 64, window, center=False, return_complex=True)
        return torch.log(bins.abs().square() + 1e-8)

    model = Expression(features, window=window)

    def voices(count: int) -> list[tuple[Tensor]]:
        found = []
        for _ in range(count):
            walk = torch.randn(1, 640, generator=rng).cumsum(1)
            loud = 10 ** (-2 * float(torch.rand(1, generator=rng)))
            found.append(((loud * 32767 * walk / walk.abs().max()).round().to(torch.int16),))
        return found

    data, options = voices(12), Options(activations=Activations.INT16, artifacts=Artifacts.C)
    compiled = api.compile(model, data[0], "cortex-m4", data, name="emphasis", options=options)
    assert compiled.graph is not None
    calls = [call.operator for call in compiled.graph.calls]
    assert sum(one.startswith(("cortado::", "cortex_m::")) for one in calls) <= 4, calls
    fresh = voices(8)
    wanted = torch.cat([model(*batch).flatten() for batch in fresh])
    got = torch.cat([reference_outputs(compiled.graph, batch)[0].flatten() for batch in fresh])
    assert decibels(wanted, got) > least
    assert compiled.run(torch.cat([one for (one,) in fresh]), on="host").bit_exact


SCALED: dict[str, Callable[[Tensor], Tensor]] = {
    "behind a view": lambda x: functional.conv1d(x.float()[:, None] * (1 / 32768), torch.tensor([[[-0.97, 1.0]]]))[
        :, 0
    ],
    "behind padding": lambda x: functional.pad(x.float(), (1, 0)).div(32768).diff(dim=1),
    "in two steps around a view": lambda x: (0.5 * (x.float() / 4096).view(1, 2, 320) / 4).flatten(1),
    "behind an offset": lambda x: ((x.float() - 7)[:, None] / 32768)[:, 0],
}


@pytest.mark.parametrize("name", SCALED)
def test_samples_are_read_as_they_are_wherever_they_are_scaled(name: str) -> None:
    """Nothing is stored in 16-bit codes of its own: the spectrum reads the input, at most moved."""
    scaled, rng, window = SCALED[name], torch.Generator().manual_seed(3), torch.hann_window(64)
    model = Expression(
        lambda x, window: torch.log(
            torch.stft(scaled(x), 64, 32, 64, window, center=False, return_complex=True).abs().square() + 1e-8
        ),
        window=window,
    )
    walks = [torch.randn(1, 640, generator=rng).cumsum(1) for _ in range(12)]
    data = [((30_000 * one / one.abs().max()).round().to(torch.int16),) for one in walks]
    found = lower_on(model, data[:8])
    made = [one for one in found.operators if one.startswith(("widen", "quantize", "function"))]
    assert not made, found.operators
    wanted = torch.cat([model(*batch).flatten() for batch in data[8:]])
    got = torch.cat([found.outputs(*batch)[0].float().flatten() for batch in data[8:]])
    assert decibels(wanted, got) > 38


EARLIER: dict[str, Callable[[Tensor], Tensor]] = {
    "pre-emphasis": lambda x: x[:, 1:] - 0.97 * x[:, :-1],
    "a short filter": lambda x: functional.conv1d(x[:, None], torch.tensor([[[0.1, -0.4, 0.7, 0.3]]]))[:, 0],
    "one after the other": lambda x: functional.conv1d(
        (0.5 * x[:, 2:] - 0.5 * x[:, :-2])[:, None], torch.ones(1, 1, 3)
    ),
}


@pytest.mark.parametrize("name", EARLIER)
def test_what_is_computed_before_a_spectrum_has_16_bits(name: str) -> None:
    """A filter makes a ramp of a ramp, as frames do; quiet bands would not outlive 8 bits."""
    bands, earlier = Spectrogram(64), EARLIER[name]
    model = Expression(lambda x: torch.log(bands(earlier(x.float() / 32768).flatten(1)) + 1e-6))
    tones = torch.sin(0.2 * torch.arange(640)) + 0.01 * torch.randn(12, 640, generator=torch.Generator().manual_seed(3))
    data = [((9000 * one).round().to(torch.int16)[None],) for one in tones]
    found = lower_on(model, data)
    assert "spectrum" in found.operators
    wanted = torch.cat([model(*batch).flatten() for batch in data])
    assert decibels(wanted, torch.cat([found.outputs(*batch)[0].float().flatten() for batch in data])) > 38


@pytest.mark.host
@pytest.mark.filterwarnings("ignore::cortado.base.errors.CortadoWarning")  # few samples
def test_a_product_with_a_matrix_goes_row_by_row_in_a_stream() -> None:
    """A cosine transform as torchaudio writes it: frames of a push give what they give in the whole window."""
    torch.manual_seed(2)
    window, bands, turn = torch.hann_window(64), torch.rand(33, 8), torch.randn(8, 6)

    def features(x: Tensor) -> Tensor:
        spectrum = torch.fft.rfft((x.float() / 32768).unfold(1, 64, 32) * window).abs()
        return (torch.log(spectrum.square() @ bands + 1e-3) @ turn).mean(1)

    data = [((3000 * torch.randn(1, 352)).to(torch.int16),) for _ in range(8)]
    options = Options(stream=1, artifacts=Artifacts.C)
    compiled = api.compile(Expression(features), data[0], "cortex-m4", data, name="rows", options=options)
    assert compiled.graph is not None
    samples = (3000 * torch.randn(14 * 32)).to(torch.int16)
    streamed = compiled.stream(samples, on="host")
    assert len(streamed.outputs) == 4
    for output, end in zip(streamed.outputs, streamed.ends, strict=True):
        whole = samples[32 * (end + 1) - 352 : 32 * (end + 1)][None]
        assert np.array_equal(output, reference_outputs(compiled.graph, [whole])[0][0].numpy())


@pytest.mark.parametrize("power", [1.5, 2, 3])
def test_a_function_that_brings_bands_further_apart_has_16_bits(power: float) -> None:
    """Of 8 bits the quiet half of the bands would be none; sounds that calibration has not heard."""
    window = torch.hann_window(64)

    def powers(x: Tensor, window: Tensor) -> Tensor:
        bins = torch.stft(x.float() / 32768, 64, 32, 64, window, center=False, return_complex=True)
        return (bins.abs() ** 2) ** power

    rng, model = torch.Generator().manual_seed(7), Expression(powers, window=window)

    def tones(count: int) -> list[tuple[Tensor]]:
        at, found = torch.arange(640), []
        for _ in range(count):
            pitch, loud = 1 + torch.rand(1, generator=rng), 3000 * (0.5 + torch.rand(1, generator=rng))
            tone = sum(torch.sin(0.05 * number * at * pitch) for number in range(1, 6))
            found.append(((loud * tone).clamp(-32768, 32767).round().to(torch.int16)[None],))
        return found

    data, fresh = tones(32), tones(8)
    compiled = api.compile(model, data[0], "cortex-m4", data, name="powers", options=BUNDLE)
    assert compiled.graph is not None
    wanted = torch.cat([model(*batch).flatten() for batch in fresh])
    got = torch.cat([reference_outputs(compiled.graph, batch)[0].flatten() for batch in fresh])
    assert decibels(wanted, got) > 42


def test_what_follows_may_be_zero_for_a_louder_signal() -> None:
    """Of which nothing can be told by how it grows."""
    bands = Spectrogram(64)
    model = Expression(lambda x: torch.relu(15 - bands(x).mean((1, 2), keepdim=True)))
    data = [(0.5 * torch.randn(1, 640),) for _ in range(12)]
    found = lower_on(model, data)
    assert "spectrum" in found.operators
    wanted = torch.cat([model(*batch).flatten() for batch in data])
    assert decibels(wanted, torch.cat([found.outputs(*batch)[0].float().flatten() for batch in data])) > 25


@pytest.mark.cases(1)
@pytest.mark.filterwarnings("ignore::cortado.base.errors.CortadoWarning")  # few samples
@pytest.mark.parametrize("kind", ["recurrent", "parts", "largest", "pooled"])
def test_what_follows_may_give_several_tensors(kind: str) -> None:
    torch.manual_seed(1)
    model = Followed(kind).eval()
    data = [(torch.randn(1, 640),) for _ in range(12)]
    found = lower_on(model, data)
    assert "spectrum" in found.operators
    with torch.no_grad():
        wanted = torch.cat([model(*batch).flatten() for batch in data])
    got = torch.cat([found.outputs(*batch)[0].float().flatten() for batch in data])
    assert decibels(wanted, got) > 25


@pytest.mark.parametrize("loud", [1.0, 1000.0])
def test_silence_is_what_the_model_makes_of_it(loud: float) -> None:
    """log(1 + 0) is 0, not nearly 0: what follows may ask for its sign."""
    window = torch.hann_window(32)
    model = Expression(
        lambda x, window: torch.log1p(loud * torch.fft.rfft(x.unfold(-1, 32, 16) * window).abs()), window=window
    )
    x = torch.randn(1, 320, generator=torch.Generator().manual_seed(1))
    graph = canonicalize(capture(model, [x]).module, [x])
    assert any(node.target is SPECTRUM_OF for node in graph.graph.nodes)
    silent = torch.zeros_like(x)
    assert torch.equal(graph(silent), model(silent))


@pytest.mark.parametrize("floor", [1e-5, 1e-10])
@pytest.mark.parametrize("power", [1, 2])
def test_silence_is_the_least_that_a_logarithm_is_taken_of(floor: float, power: int) -> None:
    """However small a bound beside the sums of a signal is."""
    window = torch.hann_window(32)
    model = Expression(
        lambda x, window: torch.log10((torch.fft.rfft(x.unfold(-1, 32, 16) * window).abs() ** power).clamp(min=floor)),
        window=window,
    )
    x = torch.randn(1, 320, generator=torch.Generator().manual_seed(1))
    graph = canonicalize(capture(model, [x]).module, [x])
    silent = torch.zeros_like(x)
    assert torch.allclose(graph(silent), model(silent))
    assert torch.allclose(graph(x), model(x), atol=1e-3)
