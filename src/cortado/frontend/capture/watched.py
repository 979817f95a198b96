"""How unlike the calibration data an input is: the distance of a layer's features from the nearest class mean
(--watch).

surprise = min over classes c of |(f - mean_c) / deviation| / limit

Classes are those that the network itself predicts; all share one deviation for each feature. The limit is the distance
that one held-out calibration sample in a hundred exceeds, so 1 is where surprise begins. It is an additional last
output of the model, of ordinary calls: no later stage knows about it.
"""

import copy
import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

from cortado.base.errors import CortadoError
from cortado.frontend.capture.inputs import Inputs

SURPRISE = "cortado_surprise"  # the module that computes it
WIDE = rf"{SURPRISE}.*"  # the modules that are int16
_OWN = "cortado_watched"
FOLDS = 5  # of the calibration data, for cross-validation
BEYOND = 0.01  # the share of held-out data above the limit
LEAST = 0.01  # the share of the mean variance that is added to that of each feature
COMMON = 0.5  # the least size of a class, as a share of the mean size
FEWEST = 20  # calibration samples: with fewer, one in a hundred is meaningless


class Surprise(nn.Module):
    """The distance of features from the nearest class mean, relative to the limit."""

    means: Tensor
    factors: Tensor

    def __init__(self, means: Tensor, factors: Tensor) -> None:
        super().__init__()
        self.register_buffer("means", means * factors)
        self.register_buffer("factors", factors)

    def forward(self, found: Tensor) -> Tensor:
        return torch.cdist(features_of(found) * self.factors, self.means).amin(1)


class Watched(nn.Module):
    """A module with the surprise as an additional last output; its layers keep their names."""

    def __init__(self, module: nn.Module, layer: str, surprise: Surprise) -> None:
        super().__init__()
        self._parameters, self._buffers = module._parameters, module._buffers
        self._modules = {**module._modules, SURPRISE: surprise}
        self.__dict__[_OWN] = (module, layer)

    def cortado_call(self, *values: Any) -> tuple[Any, ...]:
        module, layer = self.__dict__[_OWN]
        outputs, found = run_watched(module, layer, values)
        more = tuple(outputs) if isinstance(outputs, tuple | list) else (outputs,)
        return (*more, self._modules[SURPRISE](found))  # type: ignore[misc]


def features_of(found: Tensor) -> Tensor:
    """Returns features [1, N]: the channels of an image or a sequence, averaged."""
    return found.mean(tuple(range(2, found.dim()))) if found.dim() > 2 else found


def run_watched(module: nn.Module, layer: str, values: Sequence[Any]) -> tuple[Any, Tensor]:
    """Returns the outputs of a module, and that of one of its layers."""
    found: list[Any] = []
    handle = module.get_submodule(layer).register_forward_hook(lambda _, given, output: found.append(output))
    try:
        outputs = module(*values)
    finally:
        handle.remove()
    if not found or not isinstance(found[-1], Tensor) or found[-1].dim() < 2 or found[-1].shape[0] != 1:
        what = "does not run" if not found else "does not give the features of one input, [1, N] or [1, C, ...]"
        raise CortadoError(f"--watch {layer}: the layer {what}; name one whose output tells the classes apart")
    return outputs, found[-1]


@torch.no_grad()
def watched(module: nn.Module | ExportedProgram, batches: Sequence[Inputs], layer: str) -> nn.Module:
    """Returns the module with the surprise of a layer's features as its last output; means, deviations and limit come
    from calibration data."""
    module = _with_layer(module, layer)
    if len(batches) < FEWEST:
        raise CortadoError(f"--watch {layer} needs at least {FEWEST} calibration samples, found {len(batches)}")
    running, features, classes = copy.deepcopy(module).eval(), [], []
    for one in batches:
        outputs, found = run_watched(running, layer, one)
        features.append(features_of(found))
        classes.append(_class_of(outputs))
    rows, labels = torch.cat(features).double(), torch.tensor(classes)
    fold = _folds(labels)
    held = [_distances(rows[fold == one], *_statistics(rows[fold != one], labels[fold != one])) for one in range(FOLDS)]
    limit = torch.cat(held).quantile(1.0 - BEYOND)
    if float(limit) == 0.0:
        raise CortadoError(
            f"--watch {layer}: its output is the same for all calibration data, so no distance can be measured; name "
            "another layer"
        )
    means, factors = _statistics(rows, labels)
    surprise = Surprise(means.float(), (factors / limit).float())
    return _like(module)(module, layer, surprise).train(module.training)


def watched_without_data(module: nn.Module | ExportedProgram, example: Sequence[Any], layer: str) -> nn.Module:
    """Returns the module with arbitrary means, for a plan without data: as many classes as the network predicts, the
    most possible."""
    module = _with_layer(module, layer)
    with torch.no_grad():
        outputs, found = run_watched(copy.deepcopy(module).eval(), layer, example)
    features, scores = features_of(found).float(), _scores(outputs)
    apart = torch.arange(1 if scores is None else scores.shape[1])[:, None] * (1.0 + features.abs().mean())
    surprise = Surprise(features + apart, torch.linspace(1.0, 2.0, features.shape[1]))
    return _like(module)(module, layer, surprise).train(module.training)


def _with_layer(module: nn.Module | ExportedProgram, layer: str) -> nn.Module:
    """Returns the module if it has the layer; else an error."""
    if isinstance(module, ExportedProgram):
        raise CortadoError(
            f"--watch {layer}: the model is an exported program, expected a module whose layers have names"
        )
    if layer not in dict(module.named_modules()) or not layer:
        known = ", ".join(name for name, _ in module.named_modules() if name)
        raise CortadoError(f"--watch {layer}: the model has no such layer, expected one of {known}")
    return module


def _scores(outputs: Any) -> Tensor | None:
    """Returns the first output if it is scores of classes."""
    first = outputs[0] if isinstance(outputs, tuple | list) else outputs
    return first if isinstance(first, Tensor) and first.dim() == 2 and first.shape[0] == 1 else None


def _folds(labels: Tensor) -> Tensor:
    """Returns the fold of each sample: every class is in all folds, whatever the order of the samples."""
    fold = torch.empty_like(labels)
    fold[labels.argsort(stable=True)] = torch.arange(len(labels)) % FOLDS
    return fold


def _class_of(outputs: Any) -> int:
    """Returns the best class; 0 without scores."""
    scores = _scores(outputs)
    return 0 if scores is None else int(scores.argmax())


def _statistics(rows: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the means of the classes, and for each feature the reciprocal of the deviation that they share. Classes
    with few samples are dropped: they come from errors of the network, and their means would lie among unusual
    inputs."""
    _, places, counts = labels.unique(return_inverse=True, return_counts=True)
    common = counts >= COMMON * counts.double().mean()
    rows, places = rows[common[places]], (common.cumsum(0) - 1)[places[common[places]]]
    means = torch.stack([rows[places == kind].mean(0) for kind in range(int(common.sum()))])
    variance = (rows - means[places]).square().mean(0)
    every = variance if bool(variance.any()) else rows.var(0)  # as many classes as samples
    return means, (every + LEAST * every.mean()).clamp(min=1e-12).rsqrt()


def _distances(rows: Tensor, means: Tensor, factors: Tensor) -> Tensor:
    return torch.cdist(rows * factors, means * factors).amin(1)


def _like(module: nn.Module) -> type[Watched]:
    """Returns a subclass of Watched with the module's signature of forward."""

    def forward(self: Watched, *values: Any) -> tuple[Any, ...]:
        return self.cortado_call(*values)

    taken = inspect.signature(module.forward).parameters.values()
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    forward.__signature__ = inspect.Signature([own, *taken])  # type: ignore[attr-defined]
    return type(type(module).__name__, (Watched,), {"forward": forward})
