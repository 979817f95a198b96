"""What the zoo's keyword networks keep behind the integer front end: samples of sound in, words out, all in integers.

python training/front_end.py [NETWORK ...]

The test sets of speech.py and keywords.py, whole: voices that nobody heard in training, in noise. Beside each other are
the share of seconds that the float network gets right on float features, the same in int8 on float features, in
integers from the 16-bit samples on (examples/keyword), and the same with 16 bits in the front end and the first layer.
Of the last at most 0.3 points may be lost.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import warnings
from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor, nn

import common
import cortado
import keywords
from cortado.base.errors import CortadoWarning
from cortado.models import zoo
from cortado.models.zoo.sounds import mfcc
from cortado.options import Options

MOST_LOST = 0.3  # points
CALIBRATED = 240
TARGET = "cortex-m4"


sys.path.insert(0, str(common.ROOT / "examples" / "keyword"))
spot = importlib.import_module("spot")


class Scores(spot.Spotter):  # type: ignore[name-defined]
    """The example's network up to its scores, which have no ties."""

    def forward(self, samples: Tensor) -> Tensor:
        scores: Tensor = self.network(self.features(samples))
        return scores


def as_samples(waves: Tensor) -> Tensor:
    return torch.from_numpy(spot.as_samples(waves.numpy()))


def features(samples: Tensor) -> Tensor:
    return torch.cat([mfcc(part.float() / 32768) for part in samples.split(240)])


def right(module: nn.Module, inputs: Tensor, labels: Tensor) -> float:
    with torch.no_grad():
        return float((common.outputs(module, inputs).argmax(1) == labels).float().mean())


def in_integers(
    module: nn.Module, calibration: Tensor, inputs: Tensor, labels: Tensor, int16: tuple[str, ...] = ()
) -> float:
    batches = [(one[None],) for one in calibration]
    options = Options(artifacts="c", int16=int16)  # type: ignore[arg-type]
    compiled = cortado.compile(module, batches[0], TARGET, batches, name="heard", options=options)
    accuracy = compiled.evaluate(inputs.numpy(), np.asarray(labels)).accuracy
    assert accuracy is not None
    return accuracy


def measured(name: str, data: keywords.Data) -> bool:
    """Prints a line for each group of voices, and one for all; whether that is within the bar."""
    some, babble = keywords.babble_of(data)
    network = zoo.get(name).build().eval()
    spotter = Scores(network).eval()
    heard = as_samples(keywords.test_waves(data.train.take(some[:CALIBRATED]), babble, seed=8)[0])
    total, count = np.zeros(len(KINDS)), 0
    for group, speech in data.tests.items():
        waves, labels = keywords.test_waves(speech, babble, seed=keywords.TEST_SEED)
        samples = as_samples(waves)
        shares = (
            right(network, features(samples), labels),
            in_integers(network, features(heard), features(samples), labels),
            in_integers(spotter, heard, samples, labels),
            in_integers(spotter, heard, samples, labels, FIRST[name]),
        )
        total, count = total + len(labels) * np.array(shares), count + len(labels)
        _show(f"{name}, {group}", len(labels), shares)
    _show(f"{name}, all", count, total / count)
    return bool(100 * (total[0] - total[-1]) / count <= MOST_LOST)


def _show(what: str, count: int, shares: Iterable[float]) -> None:
    figures = ", ".join(f"{kind} {100 * share:.2f} %" for kind, share in zip(KINDS, shares, strict=True))
    print(f"{what}, {count} seconds: {figures}", flush=True)


KINDS = ("float", "int8 network", "integers from the samples on", "with 16 bits first")
FIRST = {"ds_cnn": ("cosines", r"network\.stem.*"), "kws_stream": ("cosines",), "kws_gru": ("cosines",)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=list(keywords.RECIPES))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CortadoWarning)
        data = keywords.load()
        held = [measured(name, data) for name in parser.parse_args().networks]
    sys.exit(0 if all(held) else 1)


if __name__ == "__main__":
    main()
