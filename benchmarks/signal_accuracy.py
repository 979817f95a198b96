"""Front ends beside the same model in float32, in decibels: log bands of sound that calibration has not heard, in 16
bits, so that nothing but the front end rounds. 'arena' is what one second takes on a Cortex-M4.

Voices are tones with harmonics that swell, with a microphone's noise 66 dB below them, from full scale to 20 dB below
it. 'loud tones': calibration has heard sweeps of full scale too, which pre-emphasis nearly doubles.

python benchmarks/signal_accuracy.py [--only NAME] [--json]
"""

import argparse
import json
import math
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from _common import progress, table
from cortado import api
from cortado.base.errors import CortadoWarning
from cortado.base.names import ranges_of
from cortado.base.numerics import Tensor
from cortado.base.target import from_target_string
from cortado.compiled import Compiled
from cortado.options import Activations, Artifacts, Options
from cortado.plan.lowered import reference_outputs
from signal_frames import RATE, mel

TARGET = "cortex-m4"
EMPHASIS = 0.97
LOUD, QUIET = 1.0712, 0.3214  # gains of real samples: calibration's reach 0.99 and 0.30
TONE = 32_000  # the largest sample of a loud tone


def joined(x: Tensor) -> Tensor:
    """Keeps the first sample, as librosa and torchaudio do."""
    return torch.cat([x[:, :1], x[:, 1:] - EMPHASIS * x[:, :-1]], 1)


def shortened(x: Tensor) -> Tensor:
    return x[:, 1:] - EMPHASIS * x[:, :-1]


class Front(torch.nn.Module):
    """The logarithm of 40 mel bands, or of all bins."""

    window: Tensor
    bands: Tensor

    def __init__(self, *, points: int, mel_bands: bool, before: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.points, self.before = points, before
        self.register_buffer("window", torch.hann_window(400))
        self.register_buffer("bands", mel(points) if mel_bands else torch.eye(points // 2 + 1))

    def forward(self, x: Tensor) -> Tensor:
        samples = self.before(x if x.is_floating_point() else x.float() / 32768)
        bins = torch.stft(samples, self.points, 160, 400, self.window, center=False, return_complex=True)
        return torch.log(bins.abs().square().transpose(1, 2) @ self.bands + 1e-8)


def voices(count: int, seed: int) -> list[Tensor]:
    rng, at = torch.Generator().manual_seed(seed), torch.arange(RATE) / RATE

    def drawn() -> float:
        return float(torch.rand(1, generator=rng))

    found = []
    for _ in range(count):
        pitch = 80 + 200 * drawn()
        tones = [
            drawn() / number**1.2 * torch.sin(math.tau * (pitch * number * at + drawn())) for number in range(1, 28)
        ]
        voice = torch.stack(tones).sum(0) * (0.5 + 0.5 * torch.sin(math.tau * 3 * at))
        heard = voice / voice.abs().max() + 0.0005 * torch.randn(RATE, generator=rng)
        found.append((heard / heard.abs().max() * 10 ** -drawn() * 32767).round().to(torch.int16)[None])
    return found


def loud_tones() -> list[Tensor]:
    at = torch.arange(RATE) / RATE
    return [
        (TONE * torch.sin(math.tau * (first + 1500 * at) * at)).round().to(torch.int16)[None]
        for first in (500, 2000, 4000, 6000)
    ]


def real(samples: list[Tensor], gain: float) -> list[Tensor]:
    """Of which nothing is known but what calibration saw: they are no multiples of a step."""
    return [one.float() / 32768 * gain for one in samples]


@dataclass(frozen=True)
class Case:
    model: Front
    loud: bool = False
    gain: float | None = None  # of real samples
    range: str = ""


def _front(before: Callable[[Tensor], Tensor], *, mel_bands: bool = True) -> Front:
    return Front(points=512, mel_bands=mel_bands, before=before).eval()


def cases() -> dict[str, Case]:
    return {
        "samples of 16 bits": Case(_front(torch.clone)),
        "real samples": Case(_front(torch.clone), gain=LOUD),
        "quiet real samples": Case(_front(torch.clone), gain=QUIET),
        "quiet real samples, --range x=-0.3..0.3": Case(_front(torch.clone), gain=QUIET, range="x=-0.3..0.3"),
        "pre-emphasis": Case(_front(joined)),
        "pre-emphasis, loud tones": Case(_front(joined), loud=True),
        "pre-emphasis without the first sample": Case(_front(shortened)),
        "pre-emphasis of real samples": Case(_front(joined), gain=LOUD),
        "257 bins": Case(_front(torch.clone, mel_bands=False)),
        "257 bins, pre-emphasis": Case(_front(joined, mel_bands=False)),
    }


def decibels(compiled: Compiled, model: Front, sounds: list[Tensor]) -> float:
    assert compiled.graph is not None
    with torch.no_grad():
        wanted = torch.cat([model(one).flatten().double() for one in sounds])
    wrong = wanted - torch.cat([reference_outputs(compiled.graph, [one])[0][0].flatten() for one in sounds])
    return float(10 * torch.log10(wanted.square().sum() / wrong.square().sum()))


def measure(case: Case) -> dict[str, float]:
    heard, fresh = [*voices(24, 0), *(loud_tones() if case.loud else [])], voices(16, 1)
    if case.gain is not None:
        heard, fresh = real(heard, case.gain), real(fresh, case.gain)
    data = [(one,) for one in heard]
    options = Options(activations=Activations.INT16, range=ranges_of(case.range or ()))
    prepared = api.prepare(case.model, data[0], data, name="front", options=options)
    compiled = prepared.compile(from_target_string(TARGET), Options(artifacts=Artifacts.C))
    with tempfile.TemporaryDirectory() as folder:
        artifact = compiled.save(Path(folder) / "front")
    assert artifact.report.memory is not None
    return {"decibels": decibels(compiled, case.model, fresh), "arena": artifact.report.memory.arena_bytes}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="cases whose names contain this")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", CortadoWarning)
    found = {}
    for name, case in cases().items():
        if arguments.only in name:
            progress(name)
            found[name] = measure(case)
    if arguments.json:
        print(json.dumps(found, indent=2))
        return
    print(table(["front end", "dB", "arena"], [[name, *made.values()] for name, made in found.items()]))


if __name__ == "__main__":
    main()
