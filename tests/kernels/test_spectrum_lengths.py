"""The kernels of spectra on every kind of core over the lengths that an FFT may have: windows that fill one leg of the
first stage to all of them, odd hops, powers and magnitudes, from silence to full scale."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cortado.base.target import from_target_string
from cortado.ops.signal.fft import LONGEST, SHORTEST, is_length
from cortado.ops.signal.spectrum import EMPHASIS_BITS, SPECTRUM, Curve, Power
from cortado.run.runner import HOST
from helpers import cases
from helpers.cores import each_core

pytestmark = pytest.mark.qemu
LENGTHS = [points for points in range(SHORTEST, LONGEST + 1) if is_length(points)]
FEW = (32, 36, 40, 50, 54, 90, 96, 200, 256, 400, 512, 600)  # every radix first, and in every later stage
CORES = ("cortex-m0plus", "cortex-m3", "cortex-m4", "cortex-m33", "cortex-m55")
TOGETHER = 16  # in one program
LEVELS = (0, 1, 40, 3000, 32768)


def spectrum(points: int, number: int) -> cases.Case:
    """Two frames, of the same numbers always."""
    rng = np.random.default_rng(points + 5000 * number)
    window = points - int(rng.integers(0, 3)) if number % 2 else int(rng.integers(points // 8, points))
    block = max(window // 3, 1) | 1
    skip, level = int(rng.integers(0, 5)), LEVELS[number % len(LEVELS)]
    blocks = -(-(skip + window) // block) + 1
    signal = rng.integers(-level, level + 1, (1, blocks, 1, block)).clip(-32768, 32767)
    bins = points // 2 + 1
    starts = np.append(np.sort(rng.integers(0, bins, 6)), bins - 1)
    counts = np.minimum(rng.integers(1, 40, 7), bins - starts)
    power, curve = (Power.POWER, Power.MAGNITUDE)[number // 2 % 2], list(Curve)[number % 7 % 3]
    shift = {Curve.LOGARITHM: -15, Curve.LINEAR: -47, Curve.ROOT: -36}[curve]
    constants = {
        "window": rng.integers(-(1 << 24), (1 << 24) + 1, window),
        "starts": starts,
        "counts": counts,
        "weights": rng.integers(0, 26000, int(counts.sum())),
    }
    arguments: dict[str, Any] = {
        "input": torch.from_numpy(signal.astype(np.int16)),
        **{name: torch.from_numpy(data.astype(np.int32)) for name, data in constants.items()},
        "points": points,
        "hop": block,
        "skip": skip,
        "frames": 2,
        "emphasis": (0, 31785, 1 << EMPHASIS_BITS)[number // 3 % 3],
        "power": int(power),
        "curve": int(curve),
        "floor": 1 << 20,
        "clamped": number % 5 == 3,
        "headroom": 15,
        "offset": 1 << 20 if curve is Curve.LOGARITHM else 0,
        "multiplier": 1518500250,
        "shift": shift,
        "output_zero_point": 0,
        "activation_min": -32768,
        "activation_max": 32767,
        "dtype": torch.int16,
    }
    return SPECTRUM, arguments


def hold(work: list[cases.Case], target: str, folder: Path) -> None:
    for first in range(0, len(work), TOGETHER):
        part = work[first : first + TOGETHER]
        config = from_target_string(CORES[0] if target == HOST else target)
        on = HOST if target == HOST else config.machine.value
        found = cases.run_cases(part, config, on, folder / str(first))
        for (_, arguments), got, want in zip(part, found, cases.references(part), strict=True):
            assert np.array_equal(got, want.numpy()), (arguments["points"], arguments["power"], arguments["curve"])


@pytest.mark.parametrize("target", each_core(HOST, *CORES, here="cortex-m55"))
def test_some_lengths(target: str, tmp_path: Path) -> None:
    hold([spectrum(points, number) for number, points in enumerate(FEW)], target, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("target", [HOST, *CORES])
def test_every_length(target: str, tmp_path: Path) -> None:
    hold([spectrum(points, number) for number, points in enumerate(LENGTHS)], target, tmp_path)
