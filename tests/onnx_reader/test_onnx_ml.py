"""Files of scikit-learn's models, as skl2onnx writes them: linear models, trees and scalers, beside onnxruntime."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper

import cortado
from cortado.onnx.node import ML
from cortado.onnx.reader import registered
from helpers.onnx_models import by_onnxruntime, constant, saved

FEATURES = 4
Node = onnx.NodeProto


def ml(kind: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> Node:
    return helper.make_node(kind, inputs, outputs, name=kind.lower(), domain=ML, **attributes)


def file(nodes: Sequence[Node], outputs: Sequence[str], constants: Sequence[onnx.TensorProto] = ()) -> onnx.ModelProto:
    graph = helper.make_graph(
        list(nodes),
        "graph",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, [None, FEATURES])],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        list(constants),
    )
    opsets = [helper.make_opsetid(ML, 1), helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def linear_classifier(chance: random.Random, transform: str, labels: Sequence[int] = (0, 1, 2)) -> Node:
    return ml(
        "LinearClassifier",
        ["X"],
        ["label", "scores"],
        classlabels_ints=labels,
        coefficients=[chance.uniform(-1, 1) for _ in range(FEATURES * len(labels))],
        intercepts=[chance.uniform(-1, 1) for _ in labels],
        multi_class=1,
        post_transform=transform,
    )


def nodes_of_trees(chance: random.Random, trees: int, depth: int) -> tuple[dict[str, Any], list[tuple[int, int]]]:
    """Attributes of drawn trees, and their leaves."""
    modes = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT"]
    rows: list[tuple[int, int, str, int, float, int, int]] = []
    leaves = []

    def grow(tree: int, number: int, left: int) -> int:
        """The first number behind those of a branch."""
        if left == 0 or (left < depth and chance.random() < 0.2):
            rows.append((tree, number, "LEAF", 0, 0.0, 0, 0))
            leaves.append((tree, number))
            return number + 1
        place = len(rows)
        rows.append((tree, number, "", 0, 0.0, 0, 0))
        middle = grow(tree, number + 1, left - 1)
        end = grow(tree, middle, left - 1)
        threshold = round(chance.uniform(-1, 1), 1)
        rows[place] = (tree, number, chance.choice(modes), chance.randrange(FEATURES), threshold, number + 1, middle)
        return end

    for tree in range(trees):
        grow(tree, 0, depth)
    names = ("treeids", "nodeids", "modes", "featureids", "values", "truenodeids", "falsenodeids")
    return {f"nodes_{name}": list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}, leaves


def tree_classifier(chance: random.Random, classes: Sequence[int], **attributes: Any) -> Node:
    """With a weight for each class at every leaf; of two classes with `single` for the second alone."""
    single, low = attributes.pop("single", False), attributes.pop("low", 0.0)
    nodes, leaves = nodes_of_trees(chance, 3, 3)
    ids = [(leaf, one) for leaf in leaves for one in ([0] if single else range(len(classes)))]
    return ml(
        "TreeEnsembleClassifier",
        ["X"],
        ["label", "scores"],
        classlabels_int64s=classes,
        class_treeids=[tree for (tree, _), _ in ids],
        class_nodeids=[number for (_, number), _ in ids],
        class_ids=[one for _, one in ids],
        class_weights=[chance.uniform(low, 0.3) for _ in ids],
        **nodes,
        **attributes,
    )


def tree_regressor(chance: random.Random, **attributes: Any) -> Node:
    nodes, leaves = nodes_of_trees(chance, 4, 3)
    return ml(
        "TreeEnsembleRegressor",
        ["X"],
        ["y"],
        n_targets=1,
        target_treeids=[tree for tree, _ in leaves],
        target_nodeids=[number for _, number in leaves],
        target_ids=[0] * len(leaves),
        target_weights=[chance.uniform(-1, 1) for _ in leaves],
        **nodes,
        **attributes,
    )


def pipeline(chance: random.Random) -> onnx.ModelProto:
    """StandardScaler and LogisticRegression."""
    classifier = linear_classifier(chance, "SOFTMAX")
    classifier.input[0] = "scaled"
    nodes = [
        ml("Scaler", ["X"], ["scaled"], offset=[0.1, -0.2, 0.3, 0.0], scale=[1.0, 2.0, 0.5, 1.5]),
        classifier,
        ml("Normalizer", ["scores"], ["probabilities"], norm="L1"),
    ]
    return file(nodes, ["label", "probabilities"])


def by_names(chance: random.Random) -> onnx.ModelProto:
    """An MLP or SGDClassifier: the label is looked up among the classes."""
    nodes = [
        helper.make_node("MatMul", ["X", "w"], ["scores"]),
        helper.make_node("ArgMax", ["scores"], ["best"], axis=1),
        ml("ArrayFeatureExtractor", ["classes", "best"], ["found"]),
        helper.make_node("Reshape", ["found", "flat"], ["flattened"]),
        helper.make_node("Cast", ["flattened"], ["label"], to=TensorProto.INT64),
    ]
    weights = np.array([chance.uniform(-1, 1) for _ in range(3 * FEATURES)]).reshape(FEATURES, 3)
    constants = [constant("w", weights), constant("classes", [3, 7, 9], np.int64), constant("flat", [-1], np.int64)]
    return file(nodes, ["label", "scores"], constants)


Make = Callable[[random.Random], onnx.ModelProto]
BOTH = ["label", "scores"]
KINDS: dict[str, Make] = {
    "softmax": lambda chance: file([linear_classifier(chance, "SOFTMAX")], BOTH),
    "other labels": lambda chance: file([linear_classifier(chance, "NONE", (5, 2, 8))], BOTH),
    "two classes": lambda chance: file([linear_classifier(chance, "LOGISTIC", (0, 1))], BOTH),
    "pipeline": pipeline,
    "by names": by_names,
    "regressor": lambda chance: file(
        [ml("LinearRegressor", ["X"], ["y"], coefficients=[1.0, -2.0, 0.5, 0.1], intercepts=[0.3])], ["y"]
    ),
    "trees": lambda chance: file([tree_classifier(chance, [0, 1, 2])], BOTH),
    "boosted trees": lambda chance: file(
        [tree_classifier(chance, [0, 1, 2], low=-0.3, base_values=[0.1, 0.2, -0.1], post_transform="SOFTMAX")], BOTH
    ),
    "trees of two classes": lambda chance: file([tree_classifier(chance, [4, 9], single=True)], BOTH),
    "boosted trees of two classes": lambda chance: file(
        [tree_classifier(chance, [0, 1], single=True, low=-0.3, base_values=[0.2], post_transform="LOGISTIC")], BOTH
    ),
    "margins of two classes": lambda chance: file([tree_classifier(chance, [0, 1], single=True, low=-0.3)], BOTH),
    "regression trees": lambda chance: file([tree_regressor(chance, base_values=[0.5])], ["y"]),
    "mean of trees": lambda chance: file([tree_regressor(chance, aggregate_function="AVERAGE")], ["y"]),
    "unit length": lambda chance: file([ml("Normalizer", ["X"], ["y"], norm="L2")], ["y"]),
    "largest": lambda chance: file([ml("Normalizer", ["X"], ["y"], norm="MAX")], ["y"]),
    "thresholds": lambda chance: file([ml("Binarizer", ["X"], ["y"], threshold=0.25)], ["y"]),
}
COMPILED = ("pipeline", "by names", "trees")


def rows(count: int) -> list[torch.Tensor]:
    """Features on the thresholds of trees too."""
    draw = torch.Generator().manual_seed(1)
    return list((torch.randint(-10, 11, (count, 1, FEATURES), generator=draw) / 10).float())


@pytest.mark.parametrize("name", KINDS)
def test_as_onnxruntime(name: str, tmp_path: Path) -> None:
    for seed in range(3):
        path = saved(KINDS[name](random.Random(seed)), tmp_path)
        found = cortado.load_onnx(path)
        for x in rows(25):
            results: Any = found(x)
            for output, right in zip(
                results if isinstance(results, tuple) else (results,), by_onnxruntime(path, [x]), strict=True
            ):
                assert tuple(output.shape) == right.shape
                np.testing.assert_allclose(output.detach().numpy(), right, rtol=1e-4, atol=1e-5)


@pytest.mark.host
@pytest.mark.parametrize("name", COMPILED)
def test_compiled(name: str, tmp_path: Path) -> None:
    path = saved(KINDS[name](random.Random(0)), tmp_path)
    found, samples = cortado.load_onnx(path), [x + 0.05 for x in rows(40)]  # between the thresholds
    options = cortado.Options(artifacts="c")
    compiled = cortado.compile(
        found, (samples[0],), target="cortex-m4", calibration=[(x,) for x in samples[8:]], options=options
    )
    for x in samples[:3]:
        checked = compiled.run(x, on="host")
        assert checked.bit_exact
        for output, right in zip(checked.outputs, by_onnxruntime(path, [x]), strict=True):
            np.testing.assert_allclose(output, right, atol=0.03)


def test_labels_that_are_texts_are_numbers_of_classes(tmp_path: Path) -> None:
    chance = random.Random(0)
    proto = file([linear_classifier(chance, "SOFTMAX"), ml("ZipMap", ["scores"], ["map"])], ["label", "map"])
    node = proto.graph.node[0]
    del node.attribute[0]
    node.attribute.append(helper.make_attribute("classlabels_strings", ["cat", "dog", "cow"]))
    proto.graph.node[1].attribute.append(helper.make_attribute("classlabels_strings", ["cat", "dog", "cow"]))
    found = cortado.load_onnx(saved(proto, tmp_path))
    label, scores = found(rows(1)[0])
    assert scores.shape == (1, 3)
    assert label.tolist() == scores.argmax(1).tolist()


def changed(name: str, values: Sequence[Any]) -> onnx.ModelProto:
    """Trees with another attribute."""
    proto = KINDS["trees"](random.Random(0))
    node = proto.graph.node[0]
    kept = [one for one in node.attribute if one.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute(name, values)])
    return proto


def sizes() -> int:
    node = KINDS["trees"](random.Random(0)).graph.node[0]
    return next(len(one.ints) for one in node.attribute if one.name == "nodes_treeids")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("nodes_truenodeids", 0, "two branches that lead to one node"),
        ("nodes_truenodeids", 99, "a branch that leads to no node"),
        ("nodes_nodeids", 0, "two nodes with the same number"),
        ("nodes_featureids", 4, "features up to 4, expected features from 0 to 3"),
        ("nodes_modes", "BRANCH_EQ", "modes ['BRANCH_EQ'], expected LEAF"),
    ],
)
def test_trees_that_are_none(name: str, value: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(cortado.CortadoError) as found:
        cortado.load_onnx(saved(changed(name, [value] * sizes()), tmp_path))
    assert words in str(found.value)


def test_a_deep_tree_is_refused_before_its_ways_are_written_down(tmp_path: Path) -> None:
    depth = 20_000
    inner, leaves = list(range(depth)), list(range(depth, 2 * depth + 1))
    node = ml(
        "TreeEnsembleRegressor",
        ["X"],
        ["y"],
        nodes_treeids=[0] * (2 * depth + 1),
        nodes_nodeids=[*inner, *leaves],
        nodes_modes=["BRANCH_LEQ"] * depth + ["LEAF"] * (depth + 1),
        nodes_featureids=[0] * (2 * depth + 1),
        nodes_values=[float(number) for number in (*inner, *leaves)],
        nodes_truenodeids=[*leaves[1:], *[0] * (depth + 1)],
        nodes_falsenodeids=[*inner[1:], leaves[0], *[0] * (depth + 1)],
        target_treeids=[0],
        target_nodeids=[depth],
        target_ids=[0],
        target_weights=[1.0],
        n_targets=1,
    )
    with pytest.raises(cortado.CortadoError, match=r"20001 leaves, 20000 deep"):
        cortado.load_onnx(saved(file([node], ["y"]), tmp_path))


def test_every_operator_of_the_domain_is_compared() -> None:
    compared = {node.op_type for make in KINDS.values() for node in make(random.Random(0)).graph.node}
    assert {kind for kind, one in registered().items() if ML in one.domains} <= {*compared, "ZipMap"}
