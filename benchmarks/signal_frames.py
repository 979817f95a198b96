"""A frame of sound as the logarithms of its bands, on the emulated boards: instructions, RAM and flash, beside the
figures of baselines.json.

ram: scratch beside the window's samples; code: the kernel's functions; tables: twiddles, window, weights of bands,
roots and logarithms, of which the last column are twiddles and bands.

python benchmarks/signal_frames.py [--targets m0,m3,m4,m55] [--lengths 512:400,400:400] [--json]
"""

import argparse
import json
import re
import tempfile
from pathlib import Path
from typing import Any

import torch

from _common import BASELINES, NOTE, TARGETS, progress, ratio, table
from cortado import api
from cortado.base.target import Compiler, from_target_string
from cortado.emit.c.bundle import emit_c
from cortado.emit.c.library import kernel_files
from cortado.ir.kernel import Array, Kernel
from cortado.options import Artifacts, Options
from cortado.plan.planned import Planned
from cortado.profile import profile
from cortado.run.bundle_info import BundleInfo
from cortado.run.elf import load_image
from cortado.run.measure import linked_code

RATE, BANDS = 16_000, 40
PEER: dict[str, Any] = BASELINES["signal_frames"]
TWIDDLES_AND_BANDS = ("twiddles", "turns", "weights", "starts", "counts")


def mel(points: int) -> torch.Tensor:
    """(bins, bands): triangles on the mel scale, from 20 Hz to 7.6 kHz."""
    low, high = (1127 * torch.log1p(torch.tensor(hertz / 700)) for hertz in (20.0, 7600.0))
    edges = low + (high - low) * torch.arange(BANDS + 2) / (BANDS + 1)
    at = 1127 * torch.log1p(torch.arange(points // 2 + 1) * (RATE / points) / 700)[:, None]
    rising, falling = (at - edges[:-2]) / (edges[1:-1] - edges[:-2]), (edges[2:] - at) / (edges[2:] - edges[1:-1])
    return torch.minimum(rising, falling).clamp(min=0)


class Frame(torch.nn.Module):
    """One frame of int16 samples."""

    window: torch.Tensor
    bands: torch.Tensor

    def __init__(self, points: int, window: int, power: int) -> None:
        super().__init__()
        self.points, self.power = points, power
        self.register_buffer("window", 0.001 + 0.999 * torch.hann_window(window))
        self.register_buffer("bands", mel(points))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        sizes = torch.fft.rfft(x.float() / 32768 * self.window, self.points).abs() ** self.power
        return torch.log(sizes @ self.bands + (1e-10 if self.power == 2 else 1e-6))


def code_bytes(planned: Planned, info: BundleInfo, kernel: Kernel) -> int:
    """The functions of the kernel's own files in a program that holds nothing else of them than it calls."""
    bundle = emit_c(planned)
    elf = linked_code(dict(bundle.files), [bundle], [info], Compiler.GCC)
    assert elf is not None
    texts = [text for name, text in kernel_files(kernel.sources).items() if re.search("spectrum|fft|root", name)]
    called = {name for text in texts for name in re.findall(r"\w+", text)}
    symbols = {symbol.address: symbol for symbol in load_image(elf).symbols if symbol.is_function}
    endings = re.compile(r"(__scalar|__dsp)?(\.\w+)*$")
    return sum(symbol.size for symbol in symbols.values() if endings.sub("", symbol.name, count=1) in called)


def measure(key: str, points: int, window: int, power: int) -> dict[str, int]:
    """Instructions of the frame's kernel, its scratch, and what the bundle has in flash; the run is checked."""
    rng = torch.Generator().manual_seed(0)
    frames = [(3000 * torch.randn(1, window, generator=rng)).to(torch.int16) for _ in range(4)]
    model = api.prepare(Frame(points, window, power).eval(), (frames[0],), [(frame,) for frame in frames], name="frame")
    with tempfile.TemporaryDirectory() as folder:
        compiled = model.compile(from_target_string(TARGETS[key]), Options(artifacts=Artifacts.C))
        artifact = compiled.save(Path(folder) / "frame")
        done = profile(artifact, [artifact.example()])
    if not done.bit_exact:
        raise SystemExit(f"{key} is not bit-exact")
    layer = next(layer for layer in done.layers if layer.report.operator.endswith("spectrum"))
    assert compiled.planned is not None
    step = next(step for step in compiled.planned.program.steps if step.operator == "cortado::spectrum")
    kernel = next(iter(step.kernels.values()))
    tables = {name: field.data.nbytes for name, field in kernel.fields.items() if isinstance(field, Array)}
    return {
        "instructions": layer.spent.instructions,
        "ram": step.scratch - 4 * -(-window // 2),
        "code": code_bytes(compiled.planned, artifact.info, kernel),
        "tables": sum(tables.values()),
        "twiddles_and_bands": sum(tables[name] for name in TWIDDLES_AND_BANDS),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", default="m0,m3,m4,m55")
    parser.add_argument("--lengths", default="512:400,400:400", help="points:window, ...")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    results, rows = {}, []
    for length in arguments.lengths.split(","):
        points, window = map(int, length.split(":"))
        for power, name in ((2, "power"), (1, "magnitude")):
            for key in arguments.targets.split(","):
                progress(f"{length} {name} {key}")
                found = measure(key, points, window, power)
                results[f"{length} {name} {key}"] = found
                bar = round(PEER["goals"][name][key] * (1 if points == 512 else 1.15)) if points in (400, 512) else None
                peer = PEER["cmsis_dsp_mfcc_q31"].get(key) if points == 512 else None
                made = found["instructions"]
                row = [f"{length} {name} {key}", made, bar, None if bar is None else ratio(made, bar)]
                sizes = [found[name] for name in ("ram", "code", "tables", "twiddles_and_bands")]
                rows.append([*row, None if peer is None else ratio(made, peer), *sizes])
    if arguments.json:
        print(json.dumps(results, indent=2))
        return
    heads = ["frame", "instructions", "goal", "of it", "of CMSIS-DSP", "ram", "code", "tables", "twiddles, bands"]
    print(table(heads, rows))
    print(f"\n{PEER['about']}; {NOTE}")


if __name__ == "__main__":
    main()
