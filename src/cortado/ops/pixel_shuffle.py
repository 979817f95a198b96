"""pixel_shuffle, pixel_unshuffle and channel_shuffle: a reshape, a transpose and a reshape."""

import torch
from torch.fx import Node

from cortado.ir.graph import shape
from cortado.ir.op import Lowering, Pattern
from cortado.ops._movement import shared

aten = torch.ops.aten


def lower_shuffle(lowering: Lowering) -> Node:
    """[N, C*r*r, H, W] -> [N, C, H*r, W*r]."""
    source, factor = lowering.node("self"), int(lowering.bound["upscale_factor"])
    *batch, channels, height, width = shape(source)
    count = len(batch)
    split = lowering.view(source, (*batch, channels // factor**2, factor, factor, height, width))
    order = (*range(count), *(count + dim for dim in (0, 3, 1, 4, 2)))
    return lowering.view(lowering.transpose(split, order), shape(lowering.bound.node))


def lower_unshuffle(lowering: Lowering) -> Node:
    """[N, C, H*r, W*r] -> [N, C*r*r, H, W]."""
    source, factor = lowering.node("self"), int(lowering.bound["downscale_factor"])
    *batch, channels, height, width = shape(source)
    count = len(batch)
    split = lowering.view(source, (*batch, channels, height // factor, factor, width // factor, factor))
    order = (*range(count), *(count + dim for dim in (0, 2, 4, 1, 3)))
    return lowering.view(lowering.transpose(split, order), shape(lowering.bound.node))


def lower_channel_shuffle(lowering: Lowering) -> Node:
    """Channels dealt out of `groups` heaps in turn."""
    source, groups = lowering.node("self"), int(lowering.bound["groups"])
    batch, channels, *rest = shape(source)
    split = lowering.view(source, (batch, groups, channels // groups, *rest))
    order = (0, 2, 1, *range(3, 3 + len(rest)))
    return lowering.view(lowering.transpose(split, order), shape(source))


PIXEL_SHUFFLE_PATTERN = Pattern(aten=(aten.pixel_shuffle.default,), match=shared, lower=lower_shuffle, images=True)
PIXEL_UNSHUFFLE_PATTERN = Pattern(aten=(aten.pixel_unshuffle.default,), match=shared, lower=lower_unshuffle)
CHANNEL_SHUFFLE_PATTERN = Pattern(
    aten=(aten.channel_shuffle.default, aten.native_channel_shuffle.default), match=shared, lower=lower_channel_shuffle
)
