"""A network that reads digits as the firmware ships it, and the same after more training: two images of one interface.

python examples/update/networks.py build/update
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "digits"))
from digits import draw, network, train
from torch import nn

import cortado


def save(model: nn.Module, folder: str) -> None:
    pictures, _ = draw(64, seed=2)  # the same for all, so that the input keeps its scale
    options = cortado.Options(artifacts="c", image=True)
    cortado.compile(model, (pictures[:1],), "cortex-m55", pictures, name="digits", options=options).save(folder)


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
