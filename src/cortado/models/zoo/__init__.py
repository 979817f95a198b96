"""The networks that ship with Cortado, as examples and benchmarks: plain torch.nn.

A trained one's weights and a few hundred samples lie in `trained/`; the others have seeded random weights.
To add one: a `Definition` named as the network in capitals, and its line in `_NETWORKS`.
Torch is imported only when a network is used.
"""

from __future__ import annotations

import difflib
import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cortado.base.errors import CortadoError

if TYPE_CHECKING:
    from torch import Tensor, nn

    from cortado.models.zoo._definition import Definition
    from cortado.models.zoo._trained import Accuracy, Metric, ZooSamples

RANDOM_CALIBRATION = 32  # inputs drawn for a network with random weights

__all__ = ["Description", "Network", "get", "names"]


@dataclass(frozen=True)
class Description:
    """Description of one network, as `cortado zoo` prints it. A MAC is one multiply-accumulate of a convolution or
    linear layer."""

    name: str
    summary: str
    parameters: int
    macs: int
    input_shapes: tuple[tuple[int, ...], ...]
    trained: bool
    metric: Metric | None
    """What the two accuracies are; None where the weights are random."""
    float_accuracy: float | None
    """On the shipped test set, of the float network."""
    accuracy: float | None
    """On the shipped test set, in int8; None where it wasn't measured."""


@dataclass(frozen=True)
class Network:
    """One network of the zoo; its definition is imported when first asked for."""

    name: str
    summary: str
    module: str
    data: str | None
    """What it was trained for: samples in `trained/`, or made; None where the weights are random."""

    @property
    def trained(self) -> bool:
        return self.data is not None

    def build(self) -> nn.Module:
        """The network in eval mode: the same weights every time, the caller's random state untouched."""
        definition = self._definition()
        return definition.build_trained(self.name) if self.trained else definition.build()

    def example_inputs(self) -> tuple[Tensor, ...]:
        """One input of batch size 1, the same every time, that is no calibration input."""
        return (self._samples().inputs[:1],) if self.trained else self._definition().example_inputs()

    def calibration(self, count: int, seed: int = 0) -> list[tuple[Tensor, ...]]:
        """`count` inputs of batch size 1; a longer list with the same seed begins with the shorter one.

        Those of a trained network are samples of its training data, in an order that depends on the seed.
        """
        if count < 1:
            raise CortadoError(f"{self.name}: asked for {count} calibration inputs; ask for at least 1")
        if not self.trained:
            return self._definition().draw_inputs(count, seed)
        shuffled = self._samples().shuffled_calibration(seed)
        if count > len(shuffled):
            raise CortadoError(f"{self.name}: asked for {count} calibration inputs; it comes with {len(shuffled)}")
        return [(sample,) for sample in shuffled[:count].split(1)]

    def own_calibration(self) -> list[tuple[Tensor, ...]]:
        """The calibration data of `cortado compile`: all that comes with a trained network, else a few drawn inputs."""
        return self.calibration(len(self._samples().calibration) if self.trained else RANDOM_CALIBRATION)

    def test_set(self) -> tuple[Tensor, Tensor]:
        """Inputs and labels along the first dimension: classes, or 0 and 1 for normal and anomalous (`rebuilds`)."""
        samples = self._samples()
        return samples.inputs, samples.labels

    @property
    def rebuilds(self) -> bool:
        """Whether its output is to be like its input, so that what it rebuilds badly is unusual."""
        from cortado.models.zoo import _trained

        figures = self.accuracy()
        return figures is not None and figures.metric is _trained.Metric.AUC

    def hear(self, recording: str) -> tuple[Tensor, ...]:
        """The inputs for a recording that comes with Cortado, named by its word, or for a .wav file."""
        import torch

        from cortado.models.zoo import sounds

        hear = self._definition().hear
        if hear is None:
            raise CortadoError(f"{self.name} does not take sound; `ds_cnn` does")
        return (hear(torch.from_numpy(sounds.load(recording))[None]),)

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The class each output score stands for, or None where the outputs aren't scores of a few named classes."""
        return self._definition().labels

    def describe(self) -> Description:
        """Parameters, MACs and input shapes, counted without computing a single activation; accuracies as measured."""
        definition = self._definition()
        parameters, macs = definition.count()
        figures = self.accuracy()
        return Description(
            name=self.name,
            summary=self.summary,
            parameters=parameters,
            macs=macs,
            input_shapes=(definition.input_shape,),
            trained=self.trained,
            metric=None if figures is None else figures.metric,
            float_accuracy=None if figures is None else figures.float_accuracy,
            accuracy=None if figures is None else figures.accuracy,
        )

    def accuracy(self) -> Accuracy | None:
        """Accuracy on the shipped test set; None where the weights are random."""
        from cortado.models.zoo import _trained

        return _trained.load_accuracy(self.name) if self.trained else None

    def _samples(self) -> ZooSamples:
        """The samples that come with it, in this network's own form."""
        from cortado.models.zoo import _trained

        if self.data is None:
            raise CortadoError(f"{self.name} has random weights, so there are no samples to test it with")
        definition = self._definition()
        return definition.samples() if definition.samples else _trained.load_samples(self.data).map(definition.form)

    def _definition(self) -> Definition:
        definition: Definition = getattr(importlib.import_module(self.module), self.name.upper())
        return definition


def _network(name: str, summary: str, module: str, data: str | None = None) -> Network:
    return Network(name, summary, module=f"{__name__}.{module}", data=data)


_NETWORKS = (
    _network("ds_cnn", "keyword spotting, depthwise separable (MLPerf Tiny)", "sounds", data="keywords"),
    _network("kws_stream", "streaming keyword spotting, causal and separable", "sounds", data="keywords"),
    _network("kws_gru", "keyword spotting, a recurrent layer", "sounds", data="keywords"),
    _network("mobilenet_v1_025", "person detection, width 0.25 (MLPerf Tiny)", "mobilenets"),
    _network("resnet8", "image classification, residual (MLPerf Tiny)", "images", data="fashion"),
    _network("deep_autoencoder", "machine sound anomaly detection, dense (MLPerf Tiny)", "sounds", data="machines"),
    _network("mobilenet_v2", "ImageNet classification, inverted residuals, width 1.0", "mobilenets"),
    _network("mobilenet_v3_small", "ImageNet classification, squeeze-excite and hardswish", "mobilenets"),
    _network("ecg_conv1d", "heartbeat classification, residual 1-D convolutions", "sensors", data="ecg"),
    _network("imu_lstm", "wrist gesture recognition, a recurrent layer", "sensors", data="motions"),
    _network("mobilenet_tiny", "image classification, a MobileNet of 6 to 32 channels", "mobilenets", data="fashion"),
    _network("mobilenet_v1_pruned", "mobilenet_v1_025 for clothing, channels pruned", "mobilenets", data="fashion"),
    _network("unet_small", "image segmentation, encoder and decoder with skips", "images"),
)
_BY_NAME = {network.name: network for network in _NETWORKS}


def names() -> tuple[str, ...]:
    """Every network's name, in the order `cortado zoo` lists them."""
    return tuple(_BY_NAME)


def get(name: str) -> Network:
    """The network called `name`."""
    if name in _BY_NAME:
        return _BY_NAME[name]
    # People write MobileNet-V2; the names here are lower case with underscores.
    spelled = name.lower().replace("-", "_").replace(" ", "_")
    begun = [known for known in names() if spelled and known.startswith(spelled)]
    close = begun or difflib.get_close_matches(spelled, names(), n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise CortadoError(f"the zoo has no network called {name!r}.{hint} It has: {', '.join(names())}")
