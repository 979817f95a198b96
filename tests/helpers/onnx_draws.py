"""One-node ONNX files drawn by chance: operators x attributes x opsets, with inputs constant or computed."""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

Array = np.ndarray[Any, np.dtype[Any]]
NEWEST = 21


@dataclass(frozen=True)
class Drawn:
    """A node: its inputs by position (None: left out), of which the first `computed` are inputs of the model."""

    kind: str
    inputs: Sequence[Array | None]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outputs: int = 1
    computed: int = 1
    opset: int = NEWEST
    domain: str = ""

    @property
    def given(self) -> dict[str, Array]:
        """The inputs of the model."""
        return {f"x{n}": one for n, one in enumerate(self.inputs[: self.computed]) if one is not None}

    def model(self) -> onnx.ModelProto:
        names = ["" if one is None else f"x{n}" for n, one in enumerate(self.inputs)]
        outputs = [f"y{n}" for n in range(self.outputs)]
        node = helper.make_node(self.kind, names, outputs, name="n", domain=self.domain, **self.attributes)
        graph = helper.make_graph(
            [node],
            "graph",
            [
                helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(one.dtype), one.shape)
                for name, one in self.given.items()
            ],
            [helper.make_empty_tensor_value_info(name) for name in outputs],
            [
                numpy_helper.from_array(one, f"x{n}")
                for n, one in enumerate(self.inputs)
                if one is not None and n >= self.computed
            ],
        )
        domains = [helper.make_opsetid("", self.opset), helper.make_opsetid("ai.onnx.ml", 3)]
        return helper.make_model(graph, opset_imports=domains, ir_version=10)


class Chance(random.Random):
    """Numbers, shapes and arrays by chance."""

    def sizes(self, least: int = 1, most: int = 4, largest: int = 5) -> list[int]:
        return [self.randint(1, largest) for _ in range(self.randint(least, most))]

    def reals(self, *sizes: int, low: float = -3.0, high: float = 3.0) -> Array:
        count = math.prod(sizes)
        return np.array([self.uniform(low, high) for _ in range(count)], dtype=np.float32).reshape(sizes)

    def integers(self, low: int, high: int, *sizes: int, dtype: Any = np.int64) -> Array:
        count = math.prod(sizes)
        return np.array([self.randint(low, high) for _ in range(count)], dtype=dtype).reshape(sizes)

    def axis(self, rank: int) -> int:
        return self.randint(-rank, rank - 1)

    def coin(self, share: float = 0.5) -> bool:
        return self.random() < share

    def some(self, **attributes: Any) -> dict[str, Any]:
        """Some of these attributes; the others are left to their defaults."""
        return {name: value for name, value in attributes.items() if self.coin(0.7)}


Draw = Callable[[Chance, str], Drawn]
DRAWS: dict[str, Draw] = {}


def draws(*kinds: str) -> Callable[[Draw], Draw]:
    def register(draw: Draw) -> Draw:
        DRAWS.update(dict.fromkeys(kinds, draw))
        return draw

    return register


def longs(values: Sequence[Any]) -> Array:
    return np.array(values, dtype=np.int64)


def opset(chance: Chance, least: int = 9, most: int = NEWEST) -> int:
    return chance.randint(least, most)


# ---- element by element ----------------------------------------------------------------------------------------------

_POSITIVE = ("Log", "Sqrt")
_UNIT = ("Acos", "Asin")
_SINCE = {"HardSwish": 14, "Mish": 18, "Round": 11, "Celu": 12, "Gelu": 20, "GreaterOrEqual": 12, "LessOrEqual": 12}


@draws(
    *("Abs", "Acos", "Asin", "Atan", "Ceil", "Cos", "Cosh", "Erf", "Exp", "Floor", "HardSwish", "Log", "Mish", "Neg"),
    *("Reciprocal", "Relu", "Round", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh"),
)
def function(chance: Chance, kind: str) -> Drawn:
    low, high = (0.1, 3.0) if kind in _POSITIVE else (-1.0, 1.0) if kind in _UNIT else (-3.0, 3.0)
    x = chance.reals(*chance.sizes(0), low=low, high=high)
    if kind in ("Abs", "Neg", "Sign") and chance.coin(0.3):
        x = x.astype(np.int32)
    return Drawn(kind, [x], opset=opset(chance, _SINCE.get(kind, 9)))


@draws("LeakyRelu", "Elu", "Celu", "ThresholdedRelu", "Selu", "HardSigmoid", "Gelu", "Shrink")
def parametrized(chance: Chance, kind: str) -> Drawn:
    names = {
        "LeakyRelu": ("alpha",),
        "Elu": ("alpha",),
        "Celu": ("alpha",),
        "ThresholdedRelu": ("alpha",),
        "Selu": ("alpha", "gamma"),
        "HardSigmoid": ("alpha", "beta"),
        "Shrink": ("bias", "lambd"),
    }.get(kind, ())
    attributes: dict[str, Any] = chance.some(**{name: chance.uniform(0.1, 2.0) for name in names})
    if kind == "Gelu":
        attributes = chance.some(approximate=chance.choice(["none", "tanh"]))
    return Drawn(kind, [chance.reals(*chance.sizes())], attributes, opset=opset(chance, _SINCE.get(kind, 10)))


def _broadcast(chance: Chance, sizes: Sequence[int]) -> list[int]:
    """A shape that broadcasts to another one."""
    return [1 if chance.coin(0.3) else size for size in sizes][chance.randint(0, len(sizes)) :]


@draws("Add", "Sub", "Mul", "Div", "Pow", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Mod")
def binary(chance: Chance, kind: str) -> Drawn:
    sizes = chance.sizes()
    shapes = [sizes, _broadcast(chance, sizes)]
    chance.shuffle(shapes)
    attributes, least = {}, _SINCE.get(kind, 11)
    if kind == "Pow":
        a, b = chance.reals(*shapes[0], low=0.1), chance.reals(*shapes[1])
    elif kind == "Mod" and chance.coin():
        a, b, attributes = chance.reals(*shapes[0]), chance.reals(*shapes[1], low=0.3), {"fmod": 1}
    elif kind == "Mod" or chance.coin(0.4):
        b = chance.integers(1, 5, *shapes[1]) * (-1 if chance.coin() else 1)
        a = chance.integers(-9, 9, *shapes[0])
        attributes = {"fmod": 1} if kind == "Mod" and chance.coin() else {}
    else:
        a, b = chance.reals(*shapes[0]), chance.reals(*shapes[1], low=0.3)
    return Drawn(kind, [a, b], attributes, computed=chance.randint(1, 2), opset=opset(chance, least))


@draws("And", "Or", "Xor", "Not")
def logical(chance: Chance, kind: str) -> Drawn:
    sizes = chance.sizes()
    inputs: list[Array | None] = [chance.integers(0, 1, *sizes).astype(bool)]
    if kind != "Not":
        inputs.append(chance.integers(0, 1, *_broadcast(chance, sizes)).astype(bool))
    return Drawn(kind, inputs, computed=chance.randint(1, len(inputs)), opset=opset(chance))


@draws("Max", "Min", "Sum", "Mean")
def several(chance: Chance, kind: str) -> Drawn:
    sizes = chance.sizes()
    inputs = [chance.reals(*sizes), *(chance.reals(*_broadcast(chance, sizes)) for _ in range(chance.randint(0, 2)))]
    return Drawn(kind, inputs, computed=chance.randint(1, len(inputs)), opset=opset(chance))


@draws("Where")
def where(chance: Chance, kind: str) -> Drawn:
    sizes = chance.sizes()
    inputs = [chance.integers(0, 1, *sizes).astype(bool), *(chance.reals(*_broadcast(chance, sizes)) for _ in range(2))]
    return Drawn(kind, inputs, computed=chance.randint(1, 3), opset=opset(chance))


@draws("Clip")
def clip(chance: Chance, kind: str) -> Drawn:
    version, x = opset(chance), chance.reals(*chance.sizes())
    bounds = [chance.uniform(-2, 0), chance.uniform(0, 2)]
    if version < 11:
        return Drawn(kind, [x], chance.some(min=bounds[0], max=bounds[1]), opset=version)
    inputs = [x, *(np.array(one, np.float32) if chance.coin(0.7) else None for one in bounds)]
    return Drawn(kind, inputs, opset=version)


@draws("Cast")
def cast(chance: Chance, kind: str) -> Drawn:
    return Drawn(kind, [chance.reals(*chance.sizes(), low=0)], {"to": chance.choice([1, 6, 7, 9])}, opset=opset(chance))


@draws("IsNaN", "IsInf")
def odd(chance: Chance, kind: str) -> Drawn:
    x = chance.reals(*chance.sizes())
    x.reshape(-1)[0] = chance.choice([np.nan, np.inf, -np.inf])
    attributes = chance.some(detect_negative=chance.randint(0, 1), detect_positive=1) if kind == "IsInf" else {}
    return Drawn(kind, [x], attributes, opset=opset(chance, 10))


@draws("PRelu")
def prelu(chance: Chance, kind: str) -> Drawn:
    sizes = chance.sizes(2)
    return Drawn(kind, [chance.reals(*sizes), chance.reals(*_broadcast(chance, sizes))], opset=opset(chance))


# ---- windows -------------------------------------------------------------------------------------------------------


def _window(chance: Chance, count: int, kernel: Sequence[int], *, dilated: bool) -> dict[str, Any]:
    attributes = chance.some(
        strides=[chance.randint(1, 3) for _ in range(count)],
        dilations=[chance.randint(1, 2) if dilated else 1 for _ in range(count)],
    )
    if not dilated:
        attributes.pop("dilations", None)
    padding = chance.random()
    if padding < 0.6:
        attributes["pads"] = [chance.randint(0, size - 1) for size in (*kernel, *kernel)]
    elif padding < 0.8 and "dilations" not in attributes:
        attributes["auto_pad"] = chance.choice(["SAME_UPPER", "SAME_LOWER", "VALID"])
    return attributes


@draws("Conv", "ConvTranspose")
def convolution(chance: Chance, kind: str) -> Drawn:
    count, groups = chance.randint(1, 2), chance.choice([1, 1, 2])
    inputs, outputs = groups * chance.randint(1, 3), groups * chance.randint(1, 3)
    kernel = [chance.randint(1, 3) for _ in range(count)]
    x = chance.reals(chance.randint(1, 2), inputs, *(chance.randint(5, 8) for _ in range(count)))
    sizes = (outputs, inputs // groups) if kind == "Conv" else (inputs, outputs // groups)
    given = [x, chance.reals(*sizes, *kernel), *([chance.reals(outputs)] if chance.coin() else [])]
    attributes = {**_window(chance, count, kernel, dilated=True), "group": groups, "kernel_shape": kernel}
    if kind == "ConvTranspose" and chance.coin(0.3) and "strides" in attributes:
        attributes["output_padding"] = [stride - 1 for stride in attributes["strides"]]
    computed = chance.randint(1, len(given)) if kind == "Conv" else 1
    return Drawn(kind, given, attributes, computed=computed, opset=opset(chance, 11))


@draws("MaxPool", "AveragePool")
def pool(chance: Chance, kind: str) -> Drawn:
    count = chance.randint(1, 2)
    kernel = [chance.randint(1, 4) for _ in range(count)]
    x = chance.reals(1, chance.randint(1, 2), *(chance.randint(4, 9) for _ in range(count)))
    attributes = {**_window(chance, count, kernel, dilated=kind == "MaxPool"), "kernel_shape": kernel}
    attributes |= {"ceil_mode": 1} if chance.coin(0.7) else {}
    if kind == "AveragePool":
        attributes |= chance.some(count_include_pad=chance.randint(0, 1))
    return Drawn(kind, [x], attributes, opset=opset(chance, 11 if kind == "MaxPool" else 19))


@draws("GlobalAveragePool", "GlobalMaxPool")
def global_pool(chance: Chance, kind: str) -> Drawn:
    return Drawn(kind, [chance.reals(*chance.sizes(3, 4))], opset=opset(chance))


@draws("Resize")
def resize(chance: Chance, kind: str) -> Drawn:
    x, mode = chance.reals(1, 2, *chance.sizes(2, 2, largest=6)), chance.choice(["nearest", "linear"])
    coordinates = ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"]
    attributes = {
        "mode": mode,
        **chance.some(
            coordinate_transformation_mode=chance.choice(coordinates),
            nearest_mode=chance.choice(["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"]),
        ),
    }
    if chance.coin():
        return Drawn(
            kind,
            [x, np.zeros(0, np.float32), np.array([1, 1, 2, chance.choice([1, 2, 3])], np.float32)],
            attributes,
            opset=opset(chance, 11),
        )
    sizes = longs([*x.shape[:2], *(chance.randint(1, 8) for _ in range(2))])
    return Drawn(kind, [x, np.zeros(0, np.float32), None, sizes], attributes, opset=opset(chance, 13))


# ---- products, normalizations ----------------------------------------------------------------------------------------


@draws("Gemm")
def gemm(chance: Chance, kind: str) -> Drawn:
    m, k, n = (chance.randint(1, 4) for _ in range(3))
    left, right = chance.randint(0, 1), chance.randint(0, 1)
    a, b = chance.reals(*((k, m) if left else (m, k))), chance.reals(*((n, k) if right else (k, n)))
    bias = chance.choice([[n], [1, n], [m, n], [m, 1], [1], []])
    inputs = [a, b, *([chance.reals(*bias)] if chance.coin(0.7) else [])]
    attributes = chance.some(alpha=chance.uniform(0.5, 2), beta=chance.uniform(0.5, 2))
    attributes |= {"transA": left, "transB": right}
    return Drawn(kind, inputs, attributes, computed=chance.randint(1, len(inputs)), opset=opset(chance, 11))


@draws("MatMul")
def matmul(chance: Chance, kind: str) -> Drawn:
    batch, m, k, n = chance.sizes(0, 2), *(chance.randint(1, 4) for _ in range(3))
    a = chance.reals(*batch, m, k) if chance.coin(0.8) else chance.reals(k)
    b = chance.reals(*_broadcast(chance, batch), k, n) if chance.coin(0.8) else chance.reals(k)
    return Drawn(kind, [a, b], computed=chance.randint(1, 2), opset=opset(chance))


@draws("Einsum")
def einsum(chance: Chance, kind: str) -> Drawn:
    equation, *shapes = chance.choice([("ij,jk->ik", (2, 3), (3, 4)), ("bij->bji", (2, 3, 4)), ("ij->i", (3, 4))])
    return Drawn(kind, [chance.reals(*sizes) for sizes in shapes], {"equation": equation}, opset=opset(chance, 12))


@draws("Softmax", "LogSoftmax")
def softmax(chance: Chance, kind: str) -> Drawn:
    sizes, version = chance.sizes(2), opset(chance)
    least = 0 if version < 11 else -len(sizes)
    return Drawn(kind, [chance.reals(*sizes)], chance.some(axis=chance.randint(least, len(sizes) - 1)), opset=version)


@draws("BatchNormalization", "InstanceNormalization")
def normalized(chance: Chance, kind: str) -> Drawn:
    sizes = chance.sizes(3, 4)
    count = 4 if kind == "BatchNormalization" else 2
    rest = [chance.reals(sizes[1], low=0.2) for _ in range(count)]
    return Drawn(kind, [chance.reals(*sizes), *rest], chance.some(epsilon=chance.uniform(0.01, 1)), opset=opset(chance))


@draws("LayerNormalization")
def layer_norm(chance: Chance, kind: str) -> Drawn:
    sizes = chance.sizes(2)
    axis = chance.axis(len(sizes))
    own = sizes[axis % len(sizes) :]
    inputs = [chance.reals(*sizes), chance.reals(*own), *([chance.reals(*own)] if chance.coin() else [])]
    return Drawn(kind, inputs, {"axis": axis, **chance.some(epsilon=chance.uniform(0.01, 1))}, opset=opset(chance, 17))


@draws("GroupNormalization")
def group_norm(chance: Chance, kind: str) -> Drawn:
    groups, each = chance.randint(1, 3), chance.randint(1, 3)
    x = chance.reals(2, groups * each, *chance.sizes(1, 2))
    rest = [chance.reals(groups * each) for _ in range(2)]
    return Drawn(kind, [x, *rest], {"num_groups": groups, **chance.some(epsilon=chance.uniform(0.01, 1))}, opset=21)


@draws("LpNormalization", "LRN")
def other_norm(chance: Chance, kind: str) -> Drawn:
    if kind == "LRN":
        attributes = {"size": chance.choice([1, 3, 5]), **chance.some(alpha=0.3, beta=0.6, bias=chance.uniform(1, 2))}
        return Drawn(kind, [chance.reals(*chance.sizes(4, 4))], attributes, opset=opset(chance))
    sizes = chance.sizes(1)
    attributes = chance.some(axis=chance.axis(len(sizes)), p=chance.randint(1, 2))
    return Drawn(kind, [chance.reals(*sizes)], attributes, opset=opset(chance))


# ---- reductions ------------------------------------------------------------------------------------------------------


@draws(
    *("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSumSquare", "ReduceL1", "ReduceL2"),
    *("ReduceLogSum", "ReduceLogSumExp"),
)
def reduction(chance: Chance, kind: str) -> Drawn:
    sizes, version = chance.sizes(), opset(chance, 11)
    axes = chance.sample(range(len(sizes)), chance.randint(1, len(sizes)))
    axes = [axis - len(sizes) if chance.coin(0.3) else axis for axis in axes]
    attributes = chance.some(keepdims=chance.randint(0, 1))
    x, given = chance.reals(*sizes, low=0.2 if kind == "ReduceLogSum" else -3), chance.coin(0.8)
    if version < (13 if kind == "ReduceSum" else 18):
        return Drawn(kind, [x], {**attributes, **({"axes": axes} if given else {})}, opset=version)
    attributes |= chance.some(noop_with_empty_axes=chance.randint(0, 1))
    return Drawn(kind, [x, *([longs(axes)] if given else [])], attributes, opset=version)


@draws("ArgMax", "ArgMin")
def argmax(chance: Chance, kind: str) -> Drawn:
    sizes = chance.sizes()
    attributes = chance.some(axis=chance.axis(len(sizes)), keepdims=chance.randint(0, 1))
    return Drawn(kind, [chance.reals(*sizes)], attributes, opset=opset(chance, 12))


@draws("TopK")
def topk(chance: Chance, kind: str) -> Drawn:
    sizes = chance.sizes()
    axis = chance.axis(len(sizes))
    inputs = [chance.reals(*sizes), longs([chance.randint(1, sizes[axis])])]
    return Drawn(kind, inputs, {"axis": axis, **chance.some(largest=chance.randint(0, 1))}, 2, opset=opset(chance, 11))


@draws("CumSum")
def cumsum(chance: Chance, kind: str) -> Drawn:
    sizes = chance.sizes()
    attributes = chance.some(exclusive=chance.randint(0, 1), reverse=chance.randint(0, 1))
    inputs = [chance.reals(*sizes), np.array(chance.axis(len(sizes)), np.int64)]
    return Drawn(kind, inputs, attributes, opset=opset(chance, 11))
