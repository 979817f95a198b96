"""Models that integers can't hold, in float32: the same bits on every core, 90 dB beside eager torch on fresh data."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cortado.api import prepare
from cortado.options import Options
from helpers.cores import THREE, each_core
from helpers.single import decibels

pytestmark = pytest.mark.filterwarnings("ignore:.*no float unit:cortado.base.errors.CortadoWarning")
FLOAT = Options(activations="float32", weights="float32", artifacts="c")  # type: ignore[arg-type]
LEAST = 90.0  # decibels
STEPS = 6


class Enhancer(nn.Module):
    """Sound in hops, sound out in hops: a spectrum, a mask by a recurrent cell, and the signal of what is left."""

    window: Tensor
    past: Tensor
    tail: Tensor
    hidden: Tensor

    def __init__(self, points: int = 64) -> None:
        super().__init__()
        self.points, self.hop, bins = points, points // 2, points // 2 + 1
        self.cell, self.mask = nn.GRUCell(bins, 16), nn.Linear(16, bins)
        self.register_buffer("window", torch.hann_window(points).sqrt())
        for name, size in (("past", self.hop), ("tail", self.hop), ("hidden", 16)):
            self.register_buffer(name, torch.zeros(1, size))

    def forward(self, x: Tensor) -> Tensor:
        frame = torch.cat([self.past, x], 1)
        spectrum = torch.stft(frame, self.points, self.hop, window=self.window, center=False, return_complex=True)
        self.hidden = self.cell(torch.log1p(spectrum.abs()[:, :, 0]), self.hidden)
        kept = spectrum[:, :, 0] * torch.sigmoid(self.mask(self.hidden))
        made = torch.fft.irfft(kept, self.points) * self.window
        out = made[:, : self.hop] + self.tail
        self.past, self.tail = x.clone(), made[:, self.hop :].clone()
        return out


class Denoiser(nn.Module):
    """A whole sound: a spectrum, a mask by a recurrent layer, and the signal that istft makes of it."""

    window: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.mask = nn.GRU(17, 8, batch_first=True), nn.Linear(8, 17)
        self.register_buffer("window", torch.hann_window(32))

    def forward(self, x: Tensor) -> Tensor:
        spectrum = torch.stft(x, 32, 16, window=self.window, return_complex=True)
        seen, _ = self.layer(spectrum.abs().transpose(1, 2))
        kept = torch.polar(spectrum.abs() * torch.sigmoid(self.mask(seen)).transpose(1, 2), spectrum.angle())
        return torch.istft(kept, 32, 16, window=self.window, length=x.shape[-1])


class Splines(nn.Module):
    """A layer of a Kolmogorov-Arnold network: cubic splines over a grid, by de Boor's recursion."""

    grid: Tensor

    def __init__(self, inputs: int = 4, outputs: int = 3, cells: int = 5, degree: int = 3) -> None:
        super().__init__()
        self.degree = degree
        knots = (torch.arange(-degree, cells + degree + 1) * (2 / cells) - 1).expand(inputs, -1).contiguous()
        self.register_buffer("grid", knots)
        self.base = nn.Parameter(torch.randn(outputs, inputs) * 0.3)
        self.spline = nn.Parameter(torch.randn(outputs, inputs * (cells + degree)) * 0.3)

    def forward(self, x: Tensor) -> Tensor:
        grid, wide = self.grid, x.unsqueeze(-1)
        bases = ((wide >= grid[:, :-1]) & (wide < grid[:, 1:])).to(x.dtype)
        for k in range(1, self.degree + 1):
            left = (wide - grid[:, : -(k + 1)]) / (grid[:, k:-1] - grid[:, : -(k + 1)]) * bases[:, :, :-1]
            right = (grid[:, k + 1 :] - wide) / (grid[:, k + 1 :] - grid[:, 1:-k]) * bases[:, :, 1:]
            bases = left + right
        return F.linear(F.silu(x), self.base) + F.linear(bases.flatten(1), self.spline)


class ProcessMean(nn.Module):
    """The mean of a Gaussian process, and the decision of a support vector machine with a radial kernel."""

    seen: Tensor
    weights: Tensor
    votes: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.randn(20, 3))
        self.register_buffer("weights", torch.randn(20, 1))
        self.register_buffer("votes", torch.randn(20, 4))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean = torch.exp(-0.5 * torch.cdist(x, self.seen) ** 2 / 0.49) @ self.weights
        decision = torch.exp(-0.3 * ((x.unsqueeze(1) - self.seen) ** 2).sum(2)) @ self.votes + 0.1
        return mean, decision, decision.argmax(1)


class Boxes(nn.Module):
    """A decoder of boxes: sizes by exp around anchors, the best scores and their boxes."""

    anchors: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.seen, self.scores = nn.Linear(12, 20 * 4), nn.Linear(12, 20 * 3)
        self.register_buffer("anchors", torch.rand(20, 4) + 0.1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        where, scores = self.seen(x).view(-1, 20, 4), self.scores(x).view(-1, 20, 3).softmax(-1)
        middle = self.anchors[:, :2] + where[..., :2] * 0.1 * self.anchors[:, 2:]
        size = self.anchors[:, 2:] * torch.exp(where[..., 2:] * 0.2)
        best, kind = scores[..., 1:].max(-1)
        top, index = best.topk(3)
        corners = torch.cat([middle - size / 2, middle + size / 2], -1)
        return corners.gather(1, index.unsqueeze(-1).expand(-1, -1, 4)), top, kind


class Norms(nn.Module):
    """torch.linalg.norm of vectors and matrices, of every order."""

    def forward(self, x: Tensor) -> list[Tensor]:
        norm = torch.linalg.norm
        vectors = [norm(x, order, dim=1) for order in (None, 0, 0.5, 1, 3, float("inf"), -float("inf"))]
        matrices = [norm(x, order, dim=(1, 2)) for order in (None, "fro", 1, -1, float("inf"))]
        return [norm(x), *vectors, *matrices]


class Polar(nn.Module):
    """Complex numbers, made and taken apart."""

    def forward(self, size: Tensor, turn: Tensor) -> list[Tensor]:
        z = torch.polar(size, turn)
        w = z * z.conj() + z * (0.5 - 2j)
        matrix = torch.complex(size, turn)
        made = [z.reciprocal(), torch.exp(z), z / w, z**3, torch.sqrt(w), torch.log(z), matrix @ matrix.transpose(0, 1)]
        made += [torch.fft.fft(matrix), torch.fft.ifft2(matrix), torch.stack([z, w]).sum(0), torch.sgn(w)]
        return [z.abs(), z.angle(), w.real, w.imag, *(torch.view_as_real(one) for one in made)]


class Kalman(nn.Module):
    """An extended Kalman filter: a place and a speed, from distance, direction and both speeds; the inverse of its 4x4
    matrix is written out by minors of two rows."""

    state: Tensor
    spread: Tensor
    step: Tensor
    unit: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.tensor([[1.5, 1.0, 0.1, 0.0]]))
        self.register_buffer("spread", torch.eye(4))
        self.register_buffer("step", torch.eye(4) + 0.1 * torch.eye(4).roll(2, 1).triu())
        self.register_buffer("unit", torch.eye(4))

    def forward(self, seen: Tensor) -> Tensor:
        state = self.state @ self.step.T
        spread = self.step @ self.spread @ self.step.T + 0.01 * self.unit
        x, y, speeds = state[:, :1], state[:, 1:2], state[:, 2:]
        square = x * x + y * y + 1e-3
        far, none = torch.sqrt(square), torch.zeros(1, 2)
        rows = [torch.cat([x / far, y / far, none], 1), torch.cat([-y / square, x / square, none], 1), self.unit[2:]]
        slope = torch.cat(rows, 0)
        error = seen - torch.cat([far, torch.atan2(y, x), speeds], 1)
        gain = spread @ slope.T @ inverse(slope @ spread @ slope.T + 0.5 * self.unit)
        self.state = state + error @ gain.T
        self.spread = (self.unit - gain @ slope) @ spread
        return self.state


def inverse(matrix: Tensor) -> Tensor:
    """Of a 4x4 matrix: minors of the first two rows, and of the last two, by the columns that they leave out."""
    a = [[matrix[i : i + 1, j : j + 1] for j in range(4)] for i in range(4)]
    columns = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))
    s, c = ([a[i][j] * a[i + 1][k] - a[i + 1][j] * a[i][k] for j, k in columns] for i in (0, 2))
    size = s[0] * c[5] - s[1] * c[4] + s[2] * c[3] + s[3] * c[2] - s[4] * c[1] + s[5] * c[0]
    rows: list[Tensor] = []
    for others in ((1, 2, 3), (0, 2, 3), (0, 1, 3), (0, 1, 2)):
        j, k, n = others
        for row, minors in ((1, c), (0, c), (3, s), (2, s)):
            parts = [minors[columns.index(pair)] for pair in ((k, n), (j, n), (j, k))]
            made = a[row][j] * parts[0] - a[row][k] * parts[1] + a[row][n] * parts[2]
            rows.append(made if (row + len(rows) // 4) % 2 else -made)
    return torch.cat(rows, 1).view(4, 4) / size


@dataclass(frozen=True)
class Example:
    """A model, the shapes of its inputs, and whether calls follow one another."""

    model: Callable[[], nn.Module]
    shapes: tuple[tuple[int, ...], ...]

    def inputs(self, seed: int) -> tuple[Tensor, ...]:
        rng = torch.Generator().manual_seed(seed)
        return tuple(torch.randn(STEPS, *shape, generator=rng) * 0.7 for shape in self.shapes)


EXAMPLES = {
    "kalman": Example(Kalman, ((1, 4),)),
    "enhancer": Example(Enhancer, ((1, 32),)),
    "denoiser": Example(Denoiser, ((1, 80),)),
    "splines": Example(lambda: nn.Sequential(Splines(4, 3), Splines(3, 2)), ((1, 4),)),
    "process": Example(ProcessMean, ((1, 3),)),
    "boxes": Example(Boxes, ((1, 12),)),
    "norms": Example(Norms, ((2, 3, 4),)),
    "polar": Example(Polar, ((2, 3), (2, 3))),
}


@pytest.mark.qemu
@pytest.mark.parametrize("target", each_core(*THREE, here="cortex-m4"))
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs_and_follows_eager_torch(name: str, target: str) -> None:
    torch.manual_seed(8)
    example = EXAMPLES[name]
    network, given = example.model().eval(), example.inputs(1)
    model = prepare(network, tuple(one[0] for one in given), options=FLOAT)
    found = model.compile(target, FLOAT).run(*given)
    eager, wanted = network, list[list[Tensor]]()
    with torch.no_grad():
        for step in zip(*given, strict=True):
            result = eager(*step)
            wanted.append([result] if isinstance(result, Tensor) else list(result))
    assert found.bit_exact
    for want, got in zip(zip(*wanted, strict=True), found.outputs, strict=True):
        both = torch.stack(list(want)).flatten(), torch.as_tensor(got).flatten()
        if both[0].is_floating_point():
            assert decibels(*both) > LEAST
        else:
            assert torch.equal(both[0].to(torch.int64), both[1].to(torch.int64))
