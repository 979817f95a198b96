"""Learning by examples: the mean of the features of each taught class, and the class whose mean is nearest by cosine.

A few utterances teach a word. Features come from a frozen network, are scaled by the size that they have for typical
inputs, and are rounded to integers from -127 to 127; the sum of a class's features is int32, and therefore exact in any
order. Nothing is ever trained: a class is forgotten by setting its sum to zero.

A cosine alone can't reject words that were never taught, because features of all speech are similar. `others` are
inputs of no class; the mean cosine with the nearest of them is subtracted. If the network has a head of its own
(`known` classes), it answers first, and taught classes are considered only if it answers one of `rest` (unknown,
silence), so its own classes are unaffected.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from cortado.base.element import INT8
from cortado.base.errors import CortadoError
from cortado.options import DEFAULTS, Options

MOST = INT8.high  # the largest magnitude of a feature as an integer
FAR = -1.0  # the nearness of a class that was never taught
LEAST = 0.1  # a fraction of the mean feature size, added to each: a feature that is always 0 carries no information


class Nearness(nn.Module):
    """The cosine of features with the mean of each class, minus the cosine with the nearest inputs of no class.
    Differences of a hundredth matter, so all of it needs 16 bits (`Prototypes.options`)."""

    def __init__(self, others: Tensor | None, nearest: int, threshold: float | None) -> None:
        super().__init__()
        self.nearest, self.threshold = nearest, threshold
        self.others: nn.Linear | None = None
        if others is not None:
            self.others = nn.Linear(others.shape[1], len(others), bias=False).requires_grad_(False)
            self.others.weight.copy_(functional.normalize(others, dim=1))

    def forward(self, features: Tensor, means: Tensor, taught: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the nearest class, how near it is, and whether that is above the threshold."""
        near = functional.cosine_similarity(features, means, dim=1)
        if self.others is not None:
            unlike = self.others(functional.normalize(features, dim=1)).topk(self.nearest, dim=1).values
            near = near - unlike.mean(1)
        near = torch.where(taught, near, FAR)
        closest = near.amax(0, keepdim=True)
        limit = FAR if self.threshold is None else self.threshold
        return near.argmax(0, keepdim=True).to(torch.int32), closest, closest > limit


class Prototypes(nn.Module):
    """A network that is taught classes by examples; made by `prototypes`."""

    sums: Tensor
    counts: Tensor
    factors: Tensor

    def __init__(
        self,
        backbone: nn.Module,
        classes: int,
        samples: Tensor,
        *,
        others: Tensor | None,
        nearest: int,
        rest: Sequence[int],
        threshold: float | None,
    ) -> None:
        super().__init__()
        self.backbone, self.classes, self.rest = backbone, classes, tuple(rest)
        known, features = _features(backbone, samples)
        self.known = 0 if known is None else known.shape[1]
        size = features.square().mean(0).sqrt()
        self.register_buffer("factors", 1.0 / (size + LEAST * size.mean())[None])
        self.steps = MOST / float((features * self.factors).abs().max())  # per unit of a feature
        unlike = None if others is None else _features(backbone, others)[1] * self.factors
        self.near = Nearness(unlike, nearest, threshold)
        self.register_buffer("sums", torch.zeros(classes, features.shape[1], dtype=torch.int32))
        self.register_buffer("counts", torch.zeros(classes, dtype=torch.int32))

    # ---- methods of the device ---------------------------------------------------------------------------------

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the class and how near it is: a known one, `known` + a taught one, or -1 where nothing is near."""
        scores, features = self.seen(x)
        best, closest, speaks = self.nearest(features)
        taught = best + self.known
        if scores is None:
            return torch.where(speaks, taught, -1), closest
        found = scores.argmax(1).to(torch.int32)
        calm = found == self.rest[0]
        for one in self.rest[1:]:
            calm = calm | (found == one)
        return torch.where(speaks & calm, taught, found), closest

    def learn(self, x: Tensor, label: Tensor) -> None:
        """Adds an example to taught class `label`, 0 to classes - 1."""
        _, features = self.seen(x)
        codes = torch.round(features * self.steps).clamp(-MOST, MOST).to(torch.int32)
        mine = (torch.arange(self.classes, dtype=torch.int32) == label).to(torch.int32)
        self.sums = self.sums + mine[:, None] * codes
        self.counts = self.counts + mine

    def forget(self, label: Tensor) -> None:
        """Empties a taught class."""
        others = (torch.arange(self.classes, dtype=torch.int32) != label).to(torch.int32)
        self.sums = self.sums * others[:, None]
        self.counts = self.counts * others

    # ---- parts -------------------------------------------------------------------------------------------------

    def nearest(self, features: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the nearest taught class, its nearness, and whether that exceeds the threshold."""
        counts = self.counts[:, None].clamp(min=1)
        means = torch.div(self.sums + torch.div(counts, 2, rounding_mode="floor"), counts, rounding_mode="floor")
        best, closest, speaks = self.near(features, means.clamp(-MOST, MOST).float(), self.counts > 0)
        return best, closest, speaks

    def seen(self, x: Tensor) -> tuple[Tensor | None, Tensor]:
        """Returns the network's own scores, if any, and an input's features, normalized to similar size."""
        scores, features = _both(self.backbone(x))
        return scores, features * self.factors

    # ---- to compile it -----------------------------------------------------------------------------------------

    def methods(self, x: Tensor) -> dict[str, tuple[Tensor, ...]]:
        """Methods with example inputs, as `compile_methods` takes them."""
        label = torch.zeros(1, dtype=torch.int32)
        return {"forward": (x,), "learn": (x, label), "forget": (label,)}

    def calls(self, samples: Tensor) -> list[tuple[Any, ...]]:
        """Returns calls for calibration: each sample teaches a class that was emptied before, then it and the next one
        are classified."""
        found: list[tuple[Any, ...]] = []
        for number in range(len(samples)):
            label = torch.tensor([number % self.classes], dtype=torch.int32)
            x, after = samples[number : number + 1], (number + 1) % len(samples)
            found += [("forget", label), ("learn", x, label), ("forward", x), ("forward", samples[after : after + 1])]
        return found

    @staticmethod
    def options(options: Options = DEFAULTS) -> Options:
        """Returns options to compile with: nearness in 16 bits, unless everything is float32. On the command line,
        --int16 'near.*'."""
        return replace(options, int16=(*options.int16, "near.*")) if options.has_codes else options


def prototypes(
    backbone: nn.Module,
    classes: int = 8,
    *,
    samples: Tensor,
    others: Tensor | None = None,
    nearest: int = 5,
    rest: Sequence[int] = (),
    threshold: float | None = None,
) -> Prototypes:
    """Returns a network that can be taught up to `classes` classes on the device: learn(x, label), forget(label), and
    forward(x), which returns the nearest class and how near it is.

    `backbone` returns the features of one input, [1, N], or (scores, features): then its own classes are kept, and
    taught ones are considered if its answer is one of `rest`. `samples` are typical inputs along the first dimension,
    from which the size of features is measured. `others` are inputs of no class, the background: a class must be nearer
    than the mean cosine with the `nearest` of them by more than `threshold`."""
    if not isinstance(classes, int) or classes < 1:
        raise CortadoError(f"classes is {classes!r}, expected the number of classes that can be taught, at least 1")
    for name, given, least in (("samples", samples, 2), ("others", others, nearest)):
        if given is not None and (not isinstance(given, Tensor) or given.dim() < 2 or len(given) < least):
            found = f"a tensor of shape {list(given.shape)}" if isinstance(given, Tensor) else repr(given)
            raise CortadoError(f"{name} is {found:.80}, expected at least {least} inputs along the first dimension")
    backbone = backbone.eval()
    known, _ = _features(backbone, samples[:1])
    if (known is None) != (not rest):
        what = "scores, features" if rest else "features alone"
        raise CortadoError(
            f"rest is {list(rest)}: expected the network's own classes that let taught ones answer, for a backbone "
            f"that returns (scores, features), or none for one that returns features only (found {what})"
        )
    if known is not None and not all(0 <= one < known.shape[1] for one in rest):
        raise CortadoError(f"rest is {list(rest)}, expected classes from 0 to {known.shape[1] - 1}")
    return Prototypes(backbone, classes, samples, others=others, nearest=nearest, rest=rest, threshold=threshold).eval()


@torch.no_grad()
def threshold_for(taught: Prototypes, inputs: Tensor, passing: float = 0.05) -> float:
    """The nearness that no more than a share `passing` of inputs of no class reach: `taught` has been taught what a
    user might teach, and inputs that its own head takes for a known class are not counted as reaching it."""
    near = []
    for number in range(len(inputs)):
        scores, features = taught.seen(inputs[number : number + 1])
        calm = scores is None or int(scores.argmax(1)) in taught.rest
        near.append(float(taught.nearest(features)[1]) if calm else FAR)
    return float(torch.tensor(near).quantile(1.0 - passing))


def _both(found: Any) -> tuple[Tensor | None, Tensor]:
    return (None, found) if isinstance(found, Tensor) else tuple(found)


@torch.no_grad()
def _features(backbone: nn.Module, inputs: Tensor) -> tuple[Tensor | None, Tensor]:
    """Returns scores and features of inputs, one by one as the device computes them."""
    pairs = [_both(backbone(inputs[number : number + 1])) for number in range(len(inputs))]
    scores, features = [one for one, _ in pairs], torch.cat([one for _, one in pairs])
    if features.dim() != 2 or len(features) != len(inputs):
        raise CortadoError(
            f"the backbone returns {list(pairs[0][1].shape)}, expected the features of one input: [1, N], as "
            "flatten(1) returns them"
        )
    return None if scores[0] is None else torch.cat(scores), features  # type: ignore[arg-type]
