"""Dimensions of tensors that have none: torch takes them for one value in a row."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from helpers.single import lower_on, randn, tensors


class Scalars(nn.Module):
    """The mean of its input and what is one value of it, each along a dimension that it does not have."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        mean = x.mean()
        return (
            F.cosine_similarity(mean, mean * 2 + 1, dim=-1),
            mean.sum(0) + mean,
            mean.amax(-1),
            mean.topk(1)[0],
            mean.sort()[0],
            mean.kthvalue(1)[0],
            mean.median(0)[0],
            mean.logsumexp(0),
            mean.softmax(0) * mean,
            mean.cumsum(-1),
            mean.prod(0),
            mean.index_select(0, torch.tensor([0])),
            torch.where((mean > 0.1).any(0), mean, -mean),
            torch.where(mean > 0.1, mean, 0.25),
        )


def test_a_scalar_has_the_dimensions_that_a_call_names() -> None:
    model = Scalars()
    batches = [(randn(1, 6, seed=seed),) for seed in range(12)]
    found = lower_on(model, batches)
    for batch in batches:
        if abs(float(batch[0].mean()) - 0.1) < 0.05:  # a comparison at its threshold
            continue
        for wanted, got in zip(tensors(model(*batch)), found.outputs(*batch), strict=True):
            assert got.shape == wanted.shape
            assert float((wanted.double() - got.double()).abs().max()) < 0.05
