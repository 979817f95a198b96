"""Models of the kinds that ExecuTorch's Cortex-M tests name as not lowered yet, made here and narrower: a voice
detector with a spectrum and an LSTM, speech recognition by 1-d convolutions, an object detector."""

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor, nn
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

import cortado
from cortado.executorch import HOST, CortadoPartitioner, CortexMQuantizer
from cortado.pte.reader import read_pte
from helpers.pt2e_programs import BAR, Lowered, emit, kernels_of, worst

F = nn.functional
pytestmark = pytest.mark.host


class VoiceDetector(nn.Module):
    """Magnitudes of a spectrum, convolutions over time, one step of an LSTM whose state comes and goes."""

    def __init__(self, bins: int = 17, hidden: int = 16) -> None:
        super().__init__()
        self.bins = bins
        self.spectrum = nn.Conv1d(1, 2 * bins, 32, 16, bias=False)
        self.layers = nn.ModuleList(
            [nn.Conv1d(bins, 16, 3, 1, 1), nn.Conv1d(16, 8, 3, 2, 1), nn.Conv1d(8, hidden, 3, 2, 1)]
        )
        self.cell, self.last = nn.LSTMCell(hidden, hidden), nn.Conv1d(hidden, 1, 1)

    def forward(self, sound: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        found = self.spectrum(F.pad(sound, (0, 16), "reflect").unsqueeze(1))
        real, imaginary = found[:, : self.bins], found[:, self.bins :]
        x = torch.sqrt(real * real + imaginary * imaginary)
        for layer in self.layers:
            x = torch.relu(layer(x))
        h, c = self.cell(x[:, :, -1], (h, c))
        return torch.sigmoid(self.last(torch.relu(h).unsqueeze(-1))).mean((1, 2)), h, c


def _wav2letter(width: int = 12, letters: int = 29) -> nn.Module:
    """Strides, lengths and padding of Wav2Letter's convolutions over sound."""
    narrow = [layer for _ in range(7) for layer in (nn.Conv1d(width, width, 7, 1, 3), nn.ReLU())]
    return nn.Sequential(
        *(nn.Conv1d(1, width, 250, 160, 45), nn.ReLU(), nn.Conv1d(width, width, 48, 2, 23), nn.ReLU(), *narrow),
        *(nn.Conv1d(width, 4 * width, 32, 1, 16), nn.ReLU(), nn.Conv1d(4 * width, 4 * width, 1), nn.ReLU()),
        *(nn.Conv1d(4 * width, letters, 1), nn.LogSoftmax(1)),
    )


class Cell(nn.Module):
    """A convolution with batch norm and SiLU."""

    def __init__(self, given: int, made: int, size: int = 1, stride: int = 1) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(given, made, size, stride, size // 2, bias=False), nn.BatchNorm2d(made)

    def forward(self, x: Tensor) -> Tensor:
        return F.silu(self.norm(self.conv(x)))


class Split(nn.Module):
    """Channels in two halves, one of which goes through a residual pair of convolutions."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.last = Cell(width, width), Cell(width * 3 // 2, width)
        self.pair = nn.Sequential(Cell(width // 2, width // 2, 3), Cell(width // 2, width // 2, 3))

    def forward(self, x: Tensor) -> Tensor:
        left, right = self.first(x).chunk(2, 1)
        result: Tensor = self.last(torch.cat([left, right, right + self.pair(right)], 1))
        return result


class Detector(nn.Module):
    """Two scales, a pyramid of pools, an upsampled path; distances of boxes as expectations of a softmax."""

    def __init__(self, width: int = 8, bins: int = 4, classes: int = 3) -> None:
        super().__init__()
        self.bins, self.classes = bins, classes
        self.fine = nn.Sequential(Cell(3, width, 3, 2), Cell(width, width, 3, 2), Split(width))
        self.coarse = Cell(width, 2 * width, 3, 2)
        self.pooled, self.joined = Cell(6 * width, 2 * width), Cell(3 * width, width)
        self.heads = nn.ModuleList(
            [nn.Conv2d(width, 4 * bins + classes, 1), nn.Conv2d(2 * width, 4 * bins + classes, 1)]
        )
        self.register_buffer("steps", torch.arange(bins, dtype=torch.float32))
        self.steps: Tensor

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        fine = self.fine(x)
        coarse = self.coarse(fine)
        once = F.max_pool2d(coarse, 5, 1, 2)
        coarse = self.pooled(torch.cat([coarse, once, F.max_pool2d(once, 5, 1, 2)], 1))
        fine = self.joined(torch.cat([fine, F.interpolate(coarse, scale_factor=2.0)], 1))
        found = torch.cat([head(y).flatten(2) for head, y in zip(self.heads, (fine, coarse), strict=True)], 2)
        boxes, scores = found.split([4 * self.bins, self.classes], 1)
        likely = boxes.reshape(1, 4, self.bins, -1).softmax(2)
        return (likely * self.steps.reshape(1, 1, -1, 1)).sum(2), torch.sigmoid(scores)


MODELS: dict[str, tuple[Callable[[], nn.Module], list[tuple[int, ...]]]] = {
    "voice": (VoiceDetector, [(1, 144), (1, 16), (1, 16)]),
    "wav2letter": (_wav2letter, [(1, 1, 3200)]),
    "detector": (Detector, [(1, 3, 16, 16)]),
}


def _made(name: str) -> tuple[nn.Module, list[tuple[Tensor, ...]]]:
    torch.manual_seed(5)
    make, shapes = MODELS[name]
    return make().eval(), [tuple(torch.randn(shape) for shape in shapes) for _ in range(6)]


@pytest.mark.parametrize("name", MODELS)
def test_it_has_a_bundle_with_the_references_bits(name: str) -> None:
    model, data = _made(name)
    compiled = cortado.compile(model, data[0], "cortex-m55", data, name=name)
    assert compiled.run(*(torch.cat(part) for part in zip(*data, strict=True)), on="host").bit_exact


def _lowered(model: nn.Module, data: Sequence[tuple[Tensor, ...]]) -> Lowered:
    prepared = prepare_pt2e(torch.export.export(model, data[0]).module(check_guards=False), CortexMQuantizer())
    for batch in data:
        prepared(*batch)
    program = torch.export.export(convert_pt2e(prepared), data[0])
    partitioner = CortadoPartitioner(HOST)
    file = emit(program, [partitioner])
    made = program.module()(*data[0])
    wanted = tuple(one.detach() for one in (made if isinstance(made, tuple) else (made,)))
    return Lowered(program, file, partitioner.outside, data[0], wanted, runs=True)


@pytest.mark.parametrize("name", MODELS)
def test_it_is_one_delegate_on_the_standard_road(name: str) -> None:
    lowered = _lowered(*_made(name))
    method = read_pte(lowered.data, f"{name}.pte").method("forward")
    assert method is not None
    assert lowered.outside == {}
    assert [one.name for one in method.delegates] == ["CortadoBackend"]
    assert worst(lowered, kernels_of([lowered.data])) <= BAR
