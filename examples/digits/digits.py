"""From a training loop to firmware: a network that reads digits, for a Cortex-M4.

python examples/digits/digits.py build/digits
"""

import sys

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import cortado

# The digits in 3x5 dots: a figure for each row, whose three bits are the dots.
FONT = ["75557", "26227", "71747", "71717", "55711", "74717", "74757", "71222", "75757", "75717"]
SIZE = 8


def draw(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Pictures (count, 1, 8, 8) and their digits: somewhere in the middle, bright or pale, smeared, in noise."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(len(FONT), (count,), generator=generator)
    dots = torch.tensor([[[int(row) >> bit & 1 for bit in (2, 1, 0)] for row in digit] for digit in FONT])
    pictures = torch.zeros(count, 1, SIZE, SIZE)
    for picture, label in zip(pictures, labels, strict=True):
        top, left = (1 + torch.randint(2, (2,), generator=generator)).tolist()
        picture[0, top : top + 5, left : left + 3] = dots[label]
    smeared = 0.7 * pictures + 0.3 * F.avg_pool2d(pictures, 3, stride=1, padding=1)
    brightness = 0.6 + 0.4 * torch.rand(count, 1, 1, 1, generator=generator)
    return smeared * brightness + 0.12 * torch.randn(pictures.shape, generator=generator), labels


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16 * 4 * 4, len(FONT)),
    )


def train(model: nn.Module, steps: int, rate: float) -> None:
    pictures, labels = draw(4000, seed=1)
    optimizer = torch.optim.Adam(model.parameters(), rate)
    generator = torch.Generator().manual_seed(0)
    model.train()
    for _ in range(steps):
        chosen = torch.randint(len(pictures), (128,), generator=generator)
        loss = F.cross_entropy(model(pictures[chosen]), labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()


def main(folder: str) -> None:
    model = network()
    train(model, steps=300, rate=5e-3)

    # Calibration: typical inputs, from which the int8 ranges are chosen. Not those of the test.
    calibration, _ = draw(64, seed=2)
    pictures, labels = draw(1000, seed=3)
    compiled = cortado.compile(model, (pictures[:1],), target="cortex-m4", calibration=calibration, name="digits")

    # The C kernels on this machine, which give the same integers as those on the core, beside the float model.
    found = compiled.evaluate(pictures, labels, model=model)
    print(f"accuracy {found.accuracy:.1%} in int8, {found.float_accuracy:.1%} in float, SQNR {found.sqnr_db:.1f} dB")

    # Where int8 costs too much: train a little longer with its rounding in the graph; the scales are learned too.
    rounded = cortado.prepare_qat(model, (pictures[:1],))
    train(rounded, steps=60, rate=5e-4)
    compiled = cortado.compile(rounded, (pictures[:1],), target="cortex-m4", name="digits")
    found = compiled.evaluate(pictures, labels, model=model)
    print(f"accuracy {found.accuracy:.1%} in int8 after quantization-aware training")

    # On the emulated board: the same bits as the reference, and how many instructions they take.
    checked = compiled.run(pictures[:1])
    assert checked.bit_exact
    print(f"one picture: {checked.result.instructions:,} instructions")
    compiled.save(folder)


if __name__ == "__main__":
    main(sys.argv[1])
