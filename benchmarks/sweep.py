"""How long a sweep of 300 small networks takes on this machine: the command itself, with its start and its page.

    python benchmarks/sweep.py [--workers 2] [--chip stm32l4r5] [--json]

The networks are depthwise-separable classifiers of spectrograms, small images and photographs: every width, depth,
kernel and pooling. The cache is empty at the start. Seconds on the clock depend on the machine and what else it does.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path

import torch
from torch import nn

Built = tuple[nn.Module, tuple[torch.Tensor, ...]]
SHAPES = {"speech": (1, 49, 10), "digits": (1, 28, 28), "photo": (3, 32, 32)}


def build(shape: tuple[int, int, int], width: int, depth: int, kernel: int, pooled: bool) -> Built:
    """One candidate and an example of its input."""
    layers: list[nn.Module] = [nn.Conv2d(shape[0], width, kernel, stride=2, padding=kernel // 2), nn.ReLU()]
    for _ in range(depth):
        layers += [
            nn.Conv2d(width, width, 3, padding=1, groups=width),
            nn.ReLU(),
            nn.Conv2d(width, width, 1),
            nn.ReLU(),
        ]
    layers += [nn.MaxPool2d(2)] if pooled else []
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10)]
    torch.manual_seed(0)
    return nn.Sequential(*layers), (torch.rand(1, *shape) * 2 - 1,)


def candidates() -> Iterator[tuple[str, Callable[[], Built]]]:
    for kind, width, depth, kernel, pooled in product(
        SHAPES, (8, 12, 16, 24, 32), (1, 2, 3, 4, 5), (3, 5), (False, True)
    ):
        name = f"{kind}-w{width}-d{depth}-k{kernel}{'-pooled' if pooled else ''}"
        yield name, partial(build, SHAPES[kind], width, depth, kernel, pooled)


def measure(workers: int, chip: str) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as name:
        spec, out = Path(name) / "sweep.toml", Path(name) / "out"
        spec.write_text(f'candidates = "{Path(__file__).resolve()}:candidates"\nchips = ["{chip}"]\n')
        start = time.monotonic()
        command = [sys.executable, "-m", "cortado", "sweep", str(spec), "-o", str(out), "--workers", str(workers)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        seconds = time.monotonic() - start
        rows = json.loads((out / "rows.json").read_text())
    statuses = Counter(row["status"] for row in rows)
    return {"candidates": len(rows), "workers": workers, "chip": chip, "seconds": seconds, "statuses": dict(statuses)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--chip", default="stm32l4r5")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = measure(given.workers, given.chip)
    if given.json:
        print(json.dumps(found))
        return
    rates = ", ".join(f"{count} {status}" for status, count in found["statuses"].items())  # type: ignore[attr-defined]
    print(f"{found['candidates']} candidates on {given.workers} workers: {found['seconds']:.0f} s ({rates})")


if __name__ == "__main__":
    main()
