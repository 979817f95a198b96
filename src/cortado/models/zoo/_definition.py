"""Definitions of zoo networks, the loading of trained weights, and trained-looking weights where there are none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

from cortado.frontend.capture.torch_settings import one_thread
from cortado.models.zoo._trained import ZooSamples, load_weights

Draw = Callable[[tuple[int, ...], torch.Generator], Tensor]

# Far from the small numbers a caller passes as a seed: statistics and example must not be calibration data again.
_WEIGHT_SEED = 0x5EED_0000
_STATISTICS_SEED = 0x5EED_0001
_EXAMPLE_SEED = 0x5EED_0002


def uniform(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Uniform in [-1, 1): inputs scaled to the unit range."""
    return torch.rand(shape, generator=generator, dtype=torch.float32) * 2 - 1


def normal(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Standard normal: inputs with mean and deviation normalised away."""
    return torch.randn(shape, generator=generator, dtype=torch.float32)


@dataclass(frozen=True)
class Definition:
    """A network: its layers, its input, and what its inputs are drawn or made from."""

    create: Callable[[], nn.Module]
    input_shape: tuple[int, ...]
    draw: Draw | None = None
    """Inputs of a network with random weights; a trained one has samples instead."""
    labels: tuple[str, ...] | None = None
    form: Callable[[Tensor], Tensor] = lambda samples: samples
    """From the samples in `trained/`, along the first dimension, to inputs of this network."""
    samples: Callable[[], ZooSamples] | None = None
    """Where they are made and not stored."""
    hear: Callable[[Tensor], Tensor] | None = None
    """From seconds of sound at 16 kHz, along the first dimension, to inputs of this network."""
    statistics_batch: int = 32
    """Inputs per batch when batch-norm statistics are estimated: fewer for big images."""

    def build(self) -> nn.Module:
        """Seeded weights, batch-norm statistics of the network's own inputs, eval mode."""
        model = self._created()
        _initialise(model, torch.Generator().manual_seed(_WEIGHT_SEED))
        batch = (self.statistics_batch, *self.input_shape[1:])
        generator = torch.Generator().manual_seed(_STATISTICS_SEED)
        _estimate_statistics(model, [self._drawn(batch, generator) for _ in range(2)])
        return model

    def build_trained(self, name: str) -> nn.Module:
        """The weights that training gave, eval mode."""
        model = self._created()
        load_weights(name, model)
        return model.eval()

    def _created(self) -> nn.Module:
        # Layers initialise themselves from the global generator: fork it, and seed the fork.
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(_WEIGHT_SEED)
            return self.create()

    def example_inputs(self) -> tuple[Tensor, ...]:
        """One fixed input."""
        return self.draw_inputs(1, _EXAMPLE_SEED)[0]

    def draw_inputs(self, count: int, seed: int) -> list[tuple[Tensor, ...]]:
        """`count` inputs from one generator, drawn one after the other."""
        generator = torch.Generator().manual_seed(seed)
        return [(self._drawn(self.input_shape, generator),) for _ in range(count)]

    def _drawn(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        assert self.draw is not None  # of networks that Network.trained says are not
        return self.draw(shape, generator)

    def count(self) -> tuple[int, int]:
        """Parameters and MACs, from shapes alone: the meta device holds no data and computes nothing."""
        with torch.device("meta"):
            model = self.create().eval()
            example = torch.empty(self.input_shape)
        parameters = sum(parameter.numel() for parameter in model.parameters())
        return parameters, _count_macs(model, example)


def _initialise(model: nn.Module, generator: torch.Generator) -> None:
    """Weights that keep the signal's size through ReLU, and a different gain and offset for every channel.

    The offsets are positive. With offsets around zero a batch norm and a ReLU together enlarge every disturbance, by
    half of its energy per layer: after thirty layers the rounding of the first ones would be all that is left.
    """
    for module in model.modules():
        if isinstance(module, _ConvNd | nn.Linear):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu", generator=generator)
            if module.bias is not None:
                nn.init.uniform_(module.bias, -0.1, 0.1, generator=generator)
        elif isinstance(module, _BatchNorm):
            # As after training: folding into the convolution then gives unlike channels and real biases.
            nn.init.uniform_(module.weight, 0.5, 1.5, generator=generator)
            nn.init.uniform_(module.bias, 0.5, 1.5, generator=generator)


@one_thread()
@torch.no_grad()
def _estimate_statistics(model: nn.Module, batches: list[Tensor]) -> None:
    """Sets every batch norm's mean and variance to their averages over `batches`; leaves `model` in eval mode."""
    model.eval()
    # In double precision the order of a sum, which differs with the number of threads, is lost when rounding back.
    model.double()
    norms = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        # Without a momentum every batch counts the same. Only the norms train: dropout must stay off.
        norm.momentum = None
        norm.train()
    for batch in batches:
        model(batch.double())
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
        norm.eval()
    model.float()


def _count_macs(model: nn.Module, example: Tensor) -> int:
    """One multiply-accumulate per weight and position: of the output, or of the input for a transposed convolution.

    The positions of a recurrent layer are its steps.
    """
    total = 0

    def add(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        nonlocal total
        if isinstance(module, nn.RNNBase):
            weights = sum(value.numel() for name, value in module.named_parameters() if name.startswith("weight"))
            total += inputs[0].numel() // module.input_size * weights
        elif isinstance(module, nn.Linear):
            total += output.numel() * module.in_features
        elif isinstance(module, _ConvTransposeNd):
            total += inputs[0].numel() // module.in_channels * module.weight.numel()
        elif isinstance(module, _ConvNd):
            total += output.numel() // module.out_channels * module.weight.numel()

    handles = [module.register_forward_hook(add) for module in model.modules()]
    with torch.no_grad():
        model(example)
    for handle in handles:
        handle.remove()
    return total
