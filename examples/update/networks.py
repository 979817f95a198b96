"""A network that reads digits as the firmware ships it, and the same after more training: two images of one interface.

python examples/update/networks.py build/update
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "digits"))
import torch
from digits import draw, network, train
from torch import Tensor, nn

import cortado


class Counting(nn.Module):
    """A network that knows how many pictures it has read: state that lasts through resets and updates."""

    pictures: Tensor

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.register_buffer("pictures", torch.zeros(1, dtype=torch.int32))

    def forward(self, picture: Tensor) -> tuple[Tensor, Tensor]:
        self.pictures = self.pictures + 1
        return self.model(picture), self.pictures


def save(model: nn.Module, folder: str) -> None:
    pictures, _ = draw(64, seed=2)  # the same for all, so that the input keeps its scale
    options = cortado.Options(artifacts="c", image=True)
    counting = Counting(model).eval()
    cortado.compile(counting, (pictures[:1],), "cortex-m55", pictures, name="digits", options=options).save(folder)


def main(folder: str) -> None:
    model = network()
    pictures, labels = draw(1000, seed=3)
    for name, steps in (("first", 20), ("next", 100)):
        train(model, steps=steps, rate=5e-3)
        right = model(pictures).argmax(1) == labels
        print(f"{name}: reads {right.float().mean():.0%} of the digits")
        save(model, f"{folder}/{name}")


if __name__ == "__main__":
    main(sys.argv[1])
