"""Random architectures of the kinds that are searched for microcontrollers: images, signals, dense, attention.

python benchmarks/architectures.py [--into architectures.json] [--names REGEX]   known ones, by `estimate`
python benchmarks/architectures.py --page                                              the table of docs/models.md

Known ones are those of known_architectures.py, and timm's small ones where timm is installed; RAM, flash and cycles
on a Cortex-M4, or what is refused. What is in the file already is not tried again.
"""

import argparse
import json
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import nn

from known_architectures import KNOWN, TIMM, Architecture

ACTIVATIONS: tuple[Callable[[], nn.Module], ...] = (nn.ReLU, nn.ReLU, nn.ReLU, nn.ReLU6, nn.Hardswish, nn.SiLU)
WIDTHS = (4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64)


@dataclass(frozen=True)
class Drawn:
    """A network with random weights, and its example inputs."""

    module: nn.Module
    example: tuple[torch.Tensor, ...]


class Residual(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = x + self.inner(x)
        return result


class Squeeze(nn.Module):
    """Squeeze and excite."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.scale = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(width, inner, 1), nn.ReLU(), nn.Conv2d(inner, width, 1), nn.Hardsigmoid()
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = x * self.scale(x)
        return result


class Parallel(nn.Module):
    """Branches of the same size, one beside the other."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([branch(x) for branch in self.branches], dim=1)


class Last(nn.Module):
    """A recurrent layer's output after the last step."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.layer(x.transpose(1, 2))[0]
        return outputs[:, -1]


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm, self.layer = nn.LayerNorm(width), nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed = self.norm(x)
        result: torch.Tensor = x + self.layer(normed, normed, normed, need_weights=False)[0]
        return result


class Mean(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean(dim=1)


def draw(seed: int) -> Drawn:
    """The same seed gives the same network, weights included."""
    rng = Random(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        kind = rng.choices((_image, _signal, _dense, _attention), (6, 3, 1, 1))[0]
        drawn = kind(rng)
    return Drawn(drawn.module.eval(), drawn.example)


def _activation(rng: Random) -> nn.Module:
    return rng.choice(ACTIVATIONS)()


# ---- images --------------------------------------------------------------------------------------------------------


def _image(rng: Random) -> Drawn:
    channels, height = rng.choice((1, 3)), rng.randrange(16, 73)
    width_of_image = rng.choice((height, height, rng.randrange(10, 73)))
    width = rng.choice(WIDTHS[:8])
    kernel = rng.choice((3, 3, 5))
    layers: list[nn.Module] = [
        *_convolution(channels, width, kernel, rng.choice((1, 2, 2)), rng),
    ]
    for _ in range(rng.randrange(2, 7)):
        block, width = _image_block(width, rng)
        layers.append(block)
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, rng.randrange(2, 40))]
    if rng.random() < 0.3:
        layers.append(nn.Softmax(dim=-1))
    return Drawn(nn.Sequential(*layers), (torch.rand(1, channels, height, width_of_image) * 2 - 1,))


def _convolution(inner: int, outer: int, kernel: int, stride: int, rng: Random, groups: int = 1) -> list[nn.Module]:
    layer = nn.Conv2d(inner, outer, kernel, stride=stride, padding=kernel // 2, groups=groups, bias=False)
    return [layer, nn.BatchNorm2d(outer), _activation(rng)]


def _image_block(width: int, rng: Random) -> tuple[nn.Module, int]:
    stride, outer = rng.choice((1, 1, 2)), min(rng.choice((width, width * 2, rng.choice(WIDTHS))), 96)
    kind = rng.randrange(8)
    if kind == 0:
        return nn.Sequential(*_convolution(width, outer, rng.choice((1, 3, 3, 5)), stride, rng)), outer
    if kind in (1, 2):
        deep = _convolution(width, width, rng.choice((3, 3, 5)), stride, rng, groups=width)
        return nn.Sequential(*deep, *_convolution(width, outer, 1, 1, rng)), outer
    if kind in (3, 4):
        return _inverted(width, outer, stride, rng), outer if stride == 2 else width
    if kind == 5:
        inner = [*_convolution(width, width, 3, 1, rng), nn.Conv2d(width, width, 3, padding=1)]
        return nn.Sequential(Residual(nn.Sequential(*inner)), nn.ReLU()), width
    if kind == 6:
        pools: tuple[nn.Module, ...] = (
            nn.MaxPool2d(2, ceil_mode=True),
            nn.AvgPool2d(3, 2, padding=1),
            nn.MaxPool2d(3, 1, 1),
        )
        return rng.choice(pools), width
    half = max(outer // 2, 2)
    branches = [nn.Sequential(*_convolution(width, half, kernel, 1, rng)) for kernel in (1, 3)]
    return Parallel(*branches), 2 * half


def _inverted(width: int, outer: int, stride: int, rng: Random) -> nn.Module:
    wide = width * rng.randrange(2, 5)
    squeeze = [Squeeze(wide, max(wide // 4, 2))] if rng.random() < 0.4 else []
    layers = [
        *_convolution(width, wide, 1, 1, rng),
        *_convolution(wide, wide, rng.choice((3, 3, 5)), stride, rng, groups=wide),
        *squeeze,
    ]
    end = outer if stride == 2 else width
    layers += [nn.Conv2d(wide, end, 1, bias=False), nn.BatchNorm2d(end)]
    return nn.Sequential(*layers) if stride == 2 else Residual(nn.Sequential(*layers))


# ---- signals -------------------------------------------------------------------------------------------------------


def _signal(rng: Random) -> Drawn:
    channels, length, width = rng.randrange(1, 13), rng.randrange(32, 200), rng.choice(WIDTHS[:9])
    layers: list[nn.Module] = [nn.Conv1d(channels, width, rng.choice((3, 5, 9)), stride=rng.choice((1, 2))), nn.ReLU()]
    for _ in range(rng.randrange(1, 5)):
        outer, kernel, dilation = rng.choice(WIDTHS), rng.choice((3, 5, 7)), rng.choice((1, 1, 2))
        pad = dilation * (kernel // 2)
        if rng.random() < 0.4:
            layers += [nn.Conv1d(width, width, kernel, padding=pad, dilation=dilation, groups=width), nn.ReLU()]
            kernel, pad, dilation = 1, 0, 1
        layers += [nn.Conv1d(width, outer, kernel, padding=pad, dilation=dilation), nn.BatchNorm1d(outer)]
        layers.append(_activation(rng))
        width = outer
        if rng.random() < 0.4:
            layers.append(rng.choice((nn.MaxPool1d(2), nn.AvgPool1d(2))))
    if rng.random() < 0.4:
        hidden = rng.choice(WIDTHS)
        layers.append(Last(rng.choice((nn.GRU, nn.LSTM))(width, hidden, batch_first=True)))
        width = hidden
    else:
        layers += [nn.AdaptiveAvgPool1d(1), nn.Flatten()]
    layers.append(nn.Linear(width, rng.randrange(2, 20)))
    return Drawn(nn.Sequential(*layers), (torch.rand(1, channels, length) * 2 - 1,))


# ---- dense and attention -------------------------------------------------------------------------------------------


def _dense(rng: Random) -> Drawn:
    width = first = rng.randrange(8, 641)
    layers: list[nn.Module] = []
    for _ in range(rng.randrange(2, 8)):
        outer = rng.randrange(4, 257)
        layers += [nn.Linear(width, outer), rng.choice((nn.ReLU(), nn.ReLU(), nn.Tanh(), nn.Sigmoid()))]
        if rng.random() < 0.2:
            layers.append(nn.LayerNorm(outer))
        width = outer
    layers.append(nn.Linear(width, rng.randrange(1, 30)))
    return Drawn(nn.Sequential(*layers), (torch.rand(1, first) * 2 - 1,))


def _attention(rng: Random) -> Drawn:
    steps, given, heads = rng.randrange(8, 49), rng.randrange(4, 33), rng.choice((1, 2, 4))
    width = heads * rng.choice((4, 8, 12, 16))
    layers: list[nn.Module] = [nn.Linear(given, width)]
    for _ in range(rng.randrange(1, 3)):
        wide = width * rng.randrange(1, 4)
        forward = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, wide), rng.choice((nn.ReLU, nn.GELU))(), nn.Linear(wide, width)
        )
        layers += [Attention(width, heads), Residual(forward)]
    layers += [Mean(), nn.Linear(width, rng.randrange(2, 20))]
    return Drawn(nn.Sequential(*layers), (torch.rand(1, steps, given) * 2 - 1,))


# ---- known ones ----------------------------------------------------------------------------------------------------

FOLDER = Path(__file__).parent
RESULTS, PAGE = FOLDER / "architectures.json", FOLDER.parent / "docs" / "models.md"
TARGET = "cortex-m4"
HEAD = "| network | input | parameters | RAM | flash | million cycles |\n|---|---|---|---|---|---|"


def known() -> Iterator[tuple[str, Architecture]]:
    yield from KNOWN.items()
    if find_spec("timm") is None:
        return
    import timm

    for name, shape in TIMM.items():
        yield f"timm {name}", Architecture(partial(timm.create_model, name, num_classes=10), shape)


def tried(one: Architecture) -> dict[str, Any]:
    """Figures, or what stands in the way."""
    from cortado import CortadoError, estimate

    torch.manual_seed(0)
    module = one.build().eval()
    found: dict[str, Any] = {"shape": one.shape, "parameters": sum(p.numel() for p in module.parameters())}
    try:
        cost = estimate(module, (torch.rand(one.shape) * 2 - 1,), target=TARGET)
        found |= {"ram": cost.ram_bytes, "flash": cost.flash_bytes, "cycles": cost.cycles}
    except CortadoError as error:
        found["refused"] = " ".join(str(error).split())
    return found


def line(name: str, found: dict[str, Any]) -> str:
    head = f"| {name} | {' x '.join(map(str, found['shape'][1:]))} | {found['parameters']:,} |"
    if "refused" in found:
        return f"{head} refused | | |"
    return f"{head} {found['ram']:,} | {found['flash']:,} | {found['cycles'] / 1e6:.2f} |"


def table(results: dict[str, Any]) -> str:
    """For docs/models.md."""
    lines = [HEAD, *(line(name, found) for name, found in results.items())]
    refused = [f"- {name}: {one['refused']}" for name, one in results.items() if "refused" in one]
    return "\n".join([*lines, *(["", "Refused:", "", *refused] if refused else [])]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", type=Path, default=RESULTS)
    parser.add_argument("--names", default="", metavar="REGEX", help="of the networks to try")
    parser.add_argument("--page", action="store_true")
    arguments = parser.parse_args()
    results: dict[str, Any] = json.loads(arguments.into.read_text()) if arguments.into.is_file() else {}
    for name, one in () if arguments.page else known():
        if name in results or re.search(arguments.names, name) is None:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results[name] = tried(one)
        arguments.into.write_text(json.dumps(results, indent=1) + "\n")
        print(line(name, results[name]), flush=True)
    text = PAGE.read_text()
    start, end = text.index("<!-- table -->"), text.index("<!-- end -->")
    PAGE.write_text(f"{text[:start]}<!-- table -->\n\n{table(results)}\n{text[end:]}")


if __name__ == "__main__":
    main()
