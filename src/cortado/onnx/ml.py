"""Operators of ai.onnx.ml, as scikit-learn exports them: linear models, trees, scalers, and related ones.

Classifiers return a label and scores. Text labels are replaced by the indices of their classes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from cortado.onnx.layers import linear
from cortado.onnx.node import ML, Built, Node, of, onnx_operator

Tensor = torch.Tensor
_LABELS = ("classlabels_ints", "classlabels_int64s")
_TRANSFORMS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "NONE": lambda x: x,
    "SOFTMAX": lambda x: F.softmax(x, -1),
    "LOGISTIC": torch.sigmoid,
}
_TRANSFORM: Any = {"post_transform": tuple(_TRANSFORMS)}
MOST_PLACES = 1 << 22
"""Entries in the table of a tree ensemble's comparisons: leaves times depth."""


# ---- scalers ---------------------------------------------------------------------------------------------------------


def _numbers(node: Node, name: str, count: int) -> Tensor:
    """Returns an attribute as a tensor; zeros if the node lacks it."""
    return torch.tensor(node.numbers(name)) if node.attributes.get(name) else torch.zeros(count)


def _features(node: Node) -> int:
    if node.rank() not in (1, 2):
        node.refuse(f"an input of shape {list(node.shape())}", "a row of features for each sample")
    return node.shape()[-1]


@onnx_operator("Scaler", domains=(ML,))
def scaler(node: Node) -> Built:
    count = _features(node)
    offset, scale = torch.tensor(node.numbers("offset", [0.0])), torch.tensor(node.numbers("scale", [1.0]))
    if not {offset.numel(), scale.numel()} <= {1, count}:
        node.refuse(f"{offset.numel()} offsets and {scale.numel()} scales", f"1 or {count} of each")
    return of(lambda x, offset=offset, scale=scale: (x.to(torch.float32) - offset) * scale)


@onnx_operator("Normalizer", domains=(ML,), among={"norm": ("MAX", "L1", "L2")})
def normalizer(node: Node) -> Built:
    norm = node.text("norm", "MAX")
    if norm == "MAX":
        return of(lambda x: x / x.amax(-1, keepdim=True))
    return of(lambda x: F.normalize(x, float(norm[1]), -1))


@onnx_operator("Binarizer", domains=(ML,))
def binarizer(node: Node) -> Built:
    threshold = node.number("threshold", 0.0)
    return of(lambda x: (x > threshold).to(torch.float32))


@onnx_operator("ZipMap", domains=(ML,), limits="scores must be a tensor, not a map")
def zip_map(node: Node) -> Built:
    return of(lambda x: x)


@onnx_operator("ArrayFeatureExtractor", domains=(ML,))
def extractor(node: Node) -> Built:
    sizes = (*(node.shape()[:-1] or (1,)), node.value(1).shape[-1] if node.rank(1) else 1)
    return of(lambda x, at: torch.index_select(x, -1, at.reshape(-1)).reshape(sizes), 0, 1)


# ---- linear models ---------------------------------------------------------------------------------------------------


def _linear(node: Node, rows: int) -> nn.Module:
    """Builds the layer of a linear model, with `rows` scores per sample."""
    count, weights = _features(node), torch.tensor(node.numbers("coefficients"))
    bias = _numbers(node, "intercepts", rows)
    if weights.numel() != rows * count or bias.numel() != rows:
        node.refuse(
            f"{weights.numel()} coefficients and {bias.numel()} intercepts",
            f"{rows * count} and {rows}, for {rows} scores",
        )
    return linear(weights.reshape(rows, count), bias)


@onnx_operator("LinearRegressor", domains=(ML,), least={"targets": 1}, among=_TRANSFORM)
def linear_regressor(node: Node) -> Built:
    layer, transform = _linear(node, node.integer("targets", 1)), _TRANSFORMS[node.text("post_transform", "NONE")]
    return of(_Scores(layer, transform))


@onnx_operator("LinearClassifier", domains=(ML,), limits="a row of coefficients for each class", among=_TRANSFORM)
def linear_classifier(node: Node) -> Built:
    labels = _labels(node)
    return of(_Labelled(_linear(node, len(labels)), labels, _TRANSFORMS[node.text("post_transform", "NONE")]))


class _Scores(nn.Module):
    def __init__(self, layer: nn.Module, transform: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.layer, self.transform = layer, transform

    def forward(self, x: Tensor) -> Tensor:
        return self.transform(self.layer.forward(_row(x)))


class _Labelled(nn.Module):
    """A module that returns the label of the largest score, and the scores."""

    def __init__(self, layer: nn.Module, labels: Sequence[int], transform: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.layer, self.transform = layer, transform
        self.labels = None if list(labels) == list(range(len(labels))) else torch.tensor(labels)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        scores = self.layer.forward(_row(x))
        best = scores.argmax(-1)
        label = best if self.labels is None else torch.index_select(self.labels, 0, best)
        return label, self.transform(scores)


def _row(x: Tensor) -> Tensor:
    x = x.to(torch.float32)
    return x.unsqueeze(0) if x.dim() == 1 else x


def _labels(node: Node) -> list[int]:
    """Returns integer labels; for texts, their indices."""
    for name in _LABELS:
        if node.attributes.get(name):
            return node.integers(name)
    texts = node.texts("classlabels_strings")
    if not texts:
        node.refuse("no labels of classes", "classlabels")
    return list(range(len(texts)))


# ---- trees -----------------------------------------------------------------------------------------------------------

_BELOW, _ABOVE = ("BRANCH_LEQ", "BRANCH_LT"), ("BRANCH_GT", "BRANCH_GTE")


@dataclass(frozen=True)
class _Trees:
    """The nodes of all trees by position: the feature compared, its upper bound, and both children."""

    leaf: list[bool]
    feature: list[int]
    value: list[float]
    yes: list[int]
    no: list[int]
    roots: list[int]
    place: Mapping[tuple[int, int], int]  # by tree and node number


def _trees(node: Node) -> _Trees:
    modes, trees, numbers = node.texts("nodes_modes"), node.integers("nodes_treeids"), node.integers("nodes_nodeids")
    features, values = node.integers("nodes_featureids"), node.numbers("nodes_values")
    yes, no = node.integers("nodes_truenodeids"), node.integers("nodes_falsenodeids")
    if len({len(one) for one in (modes, trees, numbers, features, values, yes, no)}) != 1 or not modes:
        node.refuse("attributes of nodes of different lengths", "equally many of each, and at least one")
    place = {pair: position for position, pair in enumerate(zip(trees, numbers, strict=True))}
    if len(place) != len(modes):
        node.refuse("two nodes with the same number", "one node for each node number of a tree")
    leaf = [mode == "LEAF" for mode in modes]
    if not {*modes} <= {"LEAF", *_BELOW, *_ABOVE}:
        node.refuse(f"modes {sorted({*modes})}", f"LEAF, {', '.join((*_BELOW, *_ABOVE))}")
    count = _features(node)
    if any(not 0 <= feature < count for feature, end in zip(features, leaf, strict=True) if not end):
        node.refuse(f"features up to {max(features)}", f"features from 0 to {count - 1}")
    inner = [position for position, end in enumerate(leaf) if not end]
    ahead = {
        position: (place.get((trees[position], yes[position])), place.get((trees[position], no[position])))
        for position in inner
    }
    if any(child is None for pair in ahead.values() for child in pair):
        node.refuse("a branch that leads to no node", "nodes of the same tree")
    children = [child for pair in ahead.values() for child in pair if child is not None]
    if len({*children}) != len(children):
        node.refuse("two branches that lead to one node", "trees")
    yes, no = (
        [int(ahead[position][side] or 0) if position in ahead else 0 for position in range(len(modes))]
        for side in (0, 1)
    )
    for position, mode in enumerate(modes):
        if mode in ("BRANCH_LT", "BRANCH_GTE"):  # below a value is at most the one before it
            values[position] = float(np.nextafter(np.float32(values[position]), np.float32(-np.inf)))
        if mode in _ABOVE:
            yes[position], no[position] = no[position], yes[position]
    roots = sorted({*range(len(modes))} - {*children})
    return _Trees(leaf, features, values, yes, no, roots, place)


class _Leaves(nn.Module):
    """A tree ensemble: the leaf that a row of features reaches in each tree, one-hot, followed by the leaves' values.

    A leaf is reached if all comparisons on the path to it hold. Each comparison is computed once, with its negation.
    """

    def __init__(self, comparisons: Sequence[tuple[int, float]], ways: Tensor, said: Tensor, base: Tensor) -> None:
        super().__init__()
        self.features = torch.tensor([feature for feature, _ in comparisons])
        self.thresholds = torch.tensor([value for _, value in comparisons], dtype=torch.float32)
        self.ways, self.said = ways, linear(said, base)

    def forward(self, x: Tensor) -> Tensor:
        holds = x.index_select(1, self.features) <= self.thresholds
        both = torch.cat([holds, ~holds], 1)
        reached = both.index_select(1, self.ways.reshape(-1)).reshape(x.shape[0], *self.ways.shape).all(-1)
        return self.said.forward(reached.to(torch.float32))


def _depths(trees: _Trees) -> dict[int, int]:
    """Returns the depth of every node that is reachable from a root."""
    depths, waiting = dict.fromkeys(trees.roots, 0), list(trees.roots)
    while waiting:
        position = waiting.pop()
        for child in () if trees.leaf[position] else (trees.yes[position], trees.no[position]):
            depths[child] = depths[position] + 1
            waiting.append(child)
    return depths


def _leaves(node: Node, what: str, outputs: int) -> _Leaves:
    trees = _trees(node)
    above = {
        child: (position, side)
        for position, end in enumerate(trees.leaf)
        if not end
        for side, child in enumerate((trees.yes[position], trees.no[position]))
    }
    depths = _depths(trees)
    leaves = [position for position, end in enumerate(trees.leaf) if end and depths.get(position)]
    if len(depths) != len(trees.leaf) or not leaves:
        node.refuse("nodes that no root leads to, or no branches", "trees with branches")
    deepest = max(depths[leaf] for leaf in leaves)
    if len(leaves) * deepest > MOST_PLACES:
        node.refuse(
            f"{len(leaves)} leaves, {deepest} deep", f"at most {MOST_PLACES:,} comparisons on the paths to leaves"
        )
    comparisons = sorted(
        {(trees.feature[position], trees.value[position]) for position, end in enumerate(trees.leaf) if not end}
    )
    number = {comparison: position for position, comparison in enumerate(comparisons)}
    ways = [_way(trees, above, number, leaf, deepest) for leaf in leaves]
    said, base = _said(node, what, outputs, trees, {leaf: row for row, leaf in enumerate(leaves)})
    return _Leaves(comparisons, torch.tensor(ways), said, base)


def _way(
    trees: _Trees,
    above: Mapping[int, tuple[int, int]],
    number: Mapping[tuple[int, float], int],
    leaf: int,
    deepest: int,
) -> list[int]:
    """Returns the comparisons on the path to a leaf, padded with the last one to the length of the longest path."""
    found: list[int] = []
    while leaf in above:
        leaf, side = above[leaf]
        found.append(number[trees.feature[leaf], trees.value[leaf]] + side * len(number))
    return found + found[-1:] * (deepest - len(found))


def _said(node: Node, what: str, outputs: int, trees: _Trees, rows: Mapping[int, int]) -> tuple[Tensor, Tensor]:
    """Returns the contribution of each leaf to each output, as [outputs, leaves], and the constant part."""
    ids, weights = node.integers(f"{what}_ids"), node.numbers(f"{what}_weights")
    owners = list(zip(node.integers(f"{what}_treeids"), node.integers(f"{what}_nodeids"), strict=True))
    base = _numbers(node, "base_values", outputs)
    if base.numel() != outputs or not all(0 <= one < outputs for one in ids):
        node.refuse(f"{base.numel()} base values, {what} numbers up to {max(ids, default=0)}", f"{outputs} {what}s")
    found = torch.zeros(outputs, len(rows))
    table, common = found.numpy(), base.numpy()
    for one, weight, owner in zip(ids, weights, owners, strict=True):
        position = trees.place.get(owner)
        if position is None or not trees.leaf[position]:
            node.refuse(f"weights of node {owner}", "weights of leaves")
        if position in rows:
            table[one, rows[position]] += weight
        else:
            common[one] += weight  # a tree without branches
    return found, base


@onnx_operator(
    "TreeEnsembleRegressor",
    domains=(ML,),
    limits="sums or averages; thresholds are compared with the input's resolution",
    least={"n_targets": 1},
    among={**_TRANSFORM, "aggregate_function": ("SUM", "AVERAGE")},
)
def tree_regressor(node: Node) -> Built:
    leaves = _leaves(node, "target", node.integer("n_targets", 1))
    if node.text("aggregate_function", "SUM") == "AVERAGE":
        share = 1 / len({*node.integers("nodes_treeids")})
        base = _numbers(node, "base_values", leaves.said.out_features)
        leaves.said = linear(leaves.said.weight * share, (leaves.said.bias - base) * share + base)
    return of(_Scores(leaves, _TRANSFORMS[node.text("post_transform", "NONE")]))


@onnx_operator(
    "TreeEnsembleClassifier",
    domains=(ML,),
    limits="thresholds are compared with the input's resolution",
    among=_TRANSFORM,
)
def tree_classifier(node: Node) -> Built:
    labels, transform = _labels(node), node.text("post_transform", "NONE")
    if len(labels) == 2 and len({*node.integers("class_ids")}) == 1:
        return of(_binary(node, labels, transform))
    return of(_Labelled(_leaves(node, "class", len(labels)), labels, _TRANSFORMS[transform]))


def _binary(node: Node, labels: Sequence[int], transform: str) -> nn.Module:
    """Builds a classifier with one score for two classes: the second class's probability if all weights are positive,
    else a margin."""
    share = min(node.numbers("class_weights"), default=0.0) >= 0
    if len(node.numbers("base_values", [0.0])) != 1:
        node.refuse("two base values for one score", "one")
    ids = [0] * len(node.integers("class_ids"))
    leaves = _leaves(replace(node, attributes={**node.attributes, "class_ids": ids}), "class", 1)
    weight, bias = leaves.said.weight, leaves.said.bias
    first = 1 - bias if share else -bias
    leaves.said = linear(torch.cat([-weight, weight]), torch.cat([first, bias]))
    return _Labelled(leaves, labels, _TRANSFORMS["NONE" if share or transform != "LOGISTIC" else transform])
