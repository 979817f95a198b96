"""Synthesized sounds of motors, fans and valves of a few makes, as they should sound and as they should not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

import numpy as np

RATE = 16_000
SECONDS = 1.6
BANDS = 128
FRAMES = 5  # of one window, which is one input of the network
_WINDOW, _STRIDE, _FFT = 1024, 512, 2048
_TIME = np.arange(int(SECONDS * RATE)) / RATE

Sound = np.ndarray


class Kind(Enum):
    MOTOR = "motor"
    FAN = "fan"
    VALVE = "valve"


@dataclass(frozen=True)
class Machine:
    """One make: what stays the same in all its sounds."""

    kind: Kind
    rotation: float
    """Turns, or strokes, per second."""
    resonance: float
    """The housing's, in hertz."""
    harmonics: np.ndarray


def machines() -> list[Machine]:
    rng = np.random.default_rng(11)
    ranges = {Kind.MOTOR: (22, 48), Kind.FAN: (12, 24), Kind.VALVE: (4, 8)}

    def make(kind: Kind) -> Machine:
        harmonics = rng.uniform(0.2, 1.0, 24) / np.arange(1, 25) ** rng.uniform(0.5, 0.9)
        return Machine(kind, rng.uniform(*ranges[kind]), rng.uniform(1200, 3600), harmonics)

    return [make(kind) for kind in Kind for _ in range(2)]


# ---- what sounds are made of ------------------------------------------------------------------------------------


def _noise(rng: np.random.Generator, low: float, high: float, slope: float = 0.0) -> Sound:
    """Noise of unit power between two frequencies; its amplitude falls with frequency to the power of `slope`."""
    spectrum = np.fft.rfft(rng.standard_normal(len(_TIME)))
    hertz = np.fft.rfftfreq(len(_TIME), 1 / RATE)
    spectrum *= ((hertz >= low) & (hertz <= high)) / np.maximum(hertz, 20.0) ** slope
    signal = np.fft.irfft(spectrum, len(_TIME))
    return signal / np.sqrt(np.mean(signal**2))


def _turns(rng: np.random.Generator, rotation: float) -> np.ndarray:
    """How often the shaft has turned at each sample: the load changes its speed a little."""
    drift = 0.01 * np.sin(2 * np.pi * (rng.uniform(0.2, 1.0) * _TIME + rng.uniform()))
    return np.cumsum(rotation * rng.uniform(0.97, 1.03) * (1 + drift)) / RATE + rng.uniform()


def _tones(turns: np.ndarray, amplitudes: np.ndarray, rng: np.random.Generator) -> Sound:
    phases = rng.uniform(size=len(amplitudes))
    return sum(a * np.sin(2 * np.pi * ((k + 1) * turns + phases[k])) for k, a in enumerate(amplitudes))


def _strokes(turns: np.ndarray, hertz: float, decay: float) -> Sound:
    """At the begin of every turn a stroke that rings at `hertz` and dies away in `decay` seconds."""
    hits = np.flatnonzero(np.diff(np.floor(turns), prepend=np.floor(turns[0])))
    impulses = np.zeros(len(_TIME))
    impulses[hits] = 1.0
    ring = np.exp(-_TIME / decay) * np.sin(2 * np.pi * hertz * _TIME)
    size = 2 * len(_TIME)
    return np.fft.irfft(np.fft.rfft(impulses, size) * np.fft.rfft(ring, size), size)[: len(_TIME)]


# ---- the machines -------------------------------------------------------------------------------------------------


def _motor(machine: Machine, rng: np.random.Generator, fault: float) -> Sound:
    turns = _turns(rng, machine.rotation)
    sound = _tones(turns, machine.harmonics, rng) + 0.2 * np.sin(2 * np.pi * 100 * _TIME + rng.uniform(0, 6))
    sound = sound + 0.3 * _noise(rng, 200, 7000, slope=0.5)
    if fault and rng.uniform() < 0.5:  # a ball of the bearing is chipped
        return sound + fault * 1.2 * _strokes(3.58 * turns, 1.4 * machine.resonance, decay=0.004)
    if fault:  # something on the shaft is loose: it rattles once a turn
        return sound + fault * (1 + np.sin(2 * np.pi * turns)) * 0.35 * _noise(rng, 1500, 5000)
    return sound


def _fan(machine: Machine, rng: np.random.Generator, fault: float) -> Sound:
    turns = _turns(rng, machine.rotation)
    air = (1 + 0.3 * np.sin(2 * np.pi * 7 * turns)) * _noise(rng, 100, 7000, slope=0.7)
    sound = air + 0.4 * _tones(7 * turns, machine.harmonics[:6], rng)
    if fault and rng.uniform() < 0.5:  # a blade touches the housing
        return sound + fault * 0.5 * (np.sin(2 * np.pi * turns) > 0.6) * _noise(rng, 2500, 6000)
    if fault:  # the belt squeals
        squeal = np.sin(2 * np.pi * (1.1 * machine.resonance * _TIME + 2 * np.sin(2 * np.pi * 3 * _TIME)))
        return sound + fault * 0.25 * squeal
    return sound


def _valve(machine: Machine, rng: np.random.Generator, fault: float) -> Sound:
    turns = _turns(rng, machine.rotation)
    flow = (np.mod(turns, 1) < 0.35) * _noise(rng, 500, 4000, slope=0.3)
    hum = _noise(rng, 50, 2000, slope=0.8)
    sound = 2 * _strokes(turns, machine.resonance, decay=0.01) + 0.4 * flow + 0.2 * hum
    if fault and rng.uniform() < 0.5:  # it leaks while closed
        return sound + fault * 0.3 * _noise(rng, 3000, 7500)
    if fault:  # it rebounds: a second, duller stroke
        return sound + fault * 2.5 * _strokes(turns - 0.12, 0.6 * machine.resonance, decay=0.03)
    return sound


_MAKERS: dict[Kind, Callable[[Machine, np.random.Generator, float], Sound]] = {
    Kind.MOTOR: _motor,
    Kind.FAN: _fan,
    Kind.VALVE: _valve,
}


def record(machine: Machine, rng: np.random.Generator, *, faulty: bool) -> Sound:
    """1.6 seconds of a machine at some distance, in a hall with other noise."""
    sound = _MAKERS[machine.kind](machine, rng, rng.uniform(0.25, 1.0) if faulty else 0.0)
    sound = sound / np.sqrt(np.mean(sound**2))
    hall = _noise(rng, 50, 7500, slope=0.6) * 10 ** (-rng.uniform(6, 20) / 20)
    return (sound + hall) * 10 ** (rng.uniform(-2, 2) / 20)


# ---- what the network hears ----------------------------------------------------------------------------------------


def _filters() -> np.ndarray:
    """(1025, 128): triangles on the mel scale."""
    hertz = np.arange(_FFT // 2 + 1) * RATE / _FFT
    mel = 1127 * np.log1p(hertz / 700)[:, None]
    edges = np.linspace(1127 * np.log1p(40 / 700), mel[-1, 0], BANDS + 2)
    rising = (mel - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - mel) / (edges[2:] - edges[1:-1])
    return np.maximum(0, np.minimum(rising, falling))


_FILTERS = _filters()


def windows(sound: Sound) -> np.ndarray:
    """(windows, 640): log mel bands of five frames each, about unit size."""
    frames = np.lib.stride_tricks.sliding_window_view(sound, _WINDOW)[::_STRIDE] * np.hanning(_WINDOW)
    power = np.abs(np.fft.rfft(frames, _FFT)) ** 2 @ _FILTERS
    bands = (np.log10(power + 1e-3) - 2.0) / 1.5
    count = len(bands) - FRAMES + 1
    return np.stack([bands[start : start + FRAMES].ravel() for start in range(count)]).astype(np.float32)


@dataclass(frozen=True)
class Clip:
    machine: Machine
    faulty: bool
    windows: np.ndarray


def clips(each: int, seed: int, *, faulty: bool) -> Iterator[Clip]:
    """`each` clips of every machine."""
    rng = np.random.default_rng(seed)
    for _ in range(each):
        for machine in machines():
            yield Clip(machine, faulty, windows(record(machine, rng, faulty=faulty)))
