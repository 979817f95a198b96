"""Nodes that expand to several: operators on codes (QLinearConv, QGemm and similar), and data movement between a
quantize and its dequantize. Both become the plain operator between a dequantize and a quantize."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cortado.base.errors import CortadoError
from cortado.onnx.files import Raw

CodeNames = dict[str, tuple[str, str]]
"""Names of quantized tensors, with the names of their scales and zero points."""

MICROSOFT = "com.microsoft"
_MOVES = (
    "Concat",
    "DepthToSpace",
    "Expand",
    "Flatten",
    "Gather",
    "Identity",
    "MaxPool",
    "Reshape",
    "Slice",
    "SpaceToDepth",
    "Split",
    "Squeeze",
    "Tile",
    "Transpose",
    "Unsqueeze",
)


@dataclass(frozen=True)
class CodeTensor:
    """A quantized tensor: its name, and those of its scale and its zero point; `axis` for per-channel ones."""

    name: str
    scale: str
    zero: str
    axis: int | None = None


def respelled(raw: Raw, codes: CodeNames, file: str) -> Iterator[Raw]:
    """Expands a node; `codes` collects the tensors that these nodes quantize."""
    make = _SPELLINGS.get((raw.domain, raw.kind))
    if make is not None:
        try:
            found = list(make(raw))
        except (IndexError, ValueError) as error:
            raise CortadoError(
                f"node '{raw.name[:80]}' ({raw.kind}) of {file}: {len(raw.inputs)} inputs, expected tensors with a "
                "scale and a zero point each"
            ) from error
    elif raw.kind == "DequantizeLinear" or not any(name in codes for name in raw.inputs):
        found = [raw]
    elif raw.kind in _MOVES and not raw.domain:
        found = list(_moved(raw, codes))
    else:
        raise CortadoError(
            f"node '{raw.name[:80]}' ({raw.kind}) of {file} reads the codes of a quantized tensor, expected a "
            "DequantizeLinear after every QuantizeLinear, with only data movement between them"
        )
    for one in found:
        if one.kind == "QuantizeLinear" and len(one.inputs) > 2 and one.outputs:
            codes[one.outputs[0]] = (one.inputs[1], one.inputs[2])
        yield one


def _moved(raw: Raw, codes: CodeNames) -> Iterator[Raw]:
    """Turns movement of codes into movement of the real numbers."""
    scale, zero = next(codes[name] for name in raw.inputs if name in codes)
    inputs = [f"{raw.outputs[0]}/{name}" if name in codes else name for name in raw.inputs]
    for name, real in dict(zip(raw.inputs, inputs, strict=True)).items():
        if name != real:
            yield _dequantize(raw, CodeTensor(name, *codes[name]), real)
    yield replace(raw, inputs=tuple(inputs), outputs=tuple(name and f"{name}/moved" for name in raw.outputs))
    for name in filter(None, raw.outputs):
        yield _quantize(raw, f"{name}/moved", CodeTensor(name, scale, zero))


def _dequantize(raw: Raw, given: CodeTensor, output: str) -> Raw:
    attributes = {} if given.axis is None else {"axis": given.axis}
    inputs = (given.name, given.scale, *([given.zero] if given.zero else []))
    return Raw("DequantizeLinear", f"{raw.name}/{given.name}", inputs, (output,), attributes)


def _quantize(raw: Raw, name: str, result: CodeTensor) -> Raw:
    return Raw("QuantizeLinear", f"{raw.name}/{result.name}", (name, result.scale, result.zero), (result.name,), {})


# ---- operators on codes ----------------------------------------------------------------------------------------------


def _chain(
    raw: Raw, kind: str, given: Sequence[CodeTensor], result: CodeTensor, attributes: Mapping[str, Any]
) -> Iterator[Raw]:
    """Yields dequantizes, the plain operator, and a quantize if the result has a scale."""
    own = result.name
    reals = [f"{own}/{position}" for position in range(len(given))]
    for one, real in zip(given, reals, strict=True):
        yield _dequantize(raw, one, real)
    plain = f"{own}/real" if result.scale else own
    yield Raw(kind, raw.name, tuple(reals), (plain,), attributes)
    if result.scale:
        yield _quantize(raw, plain, result)


def _bias(raw: Raw, name: str, scales: Sequence[str]) -> Iterator[tuple[Raw, CodeTensor]]:
    """Dequantizes an int32 bias, whose scale is the product of two others."""
    product = f"{raw.outputs[0]}/scale"
    yield Raw("Mul", f"{raw.name}/scale", tuple(scales), (product,), {}), CodeTensor(name, product, "", 0)


def _conv(raw: Raw) -> Iterator[Raw]:
    x, xs, xz, w, ws, wz, ys, yz, *bias = raw.inputs
    given = [CodeTensor(x, xs, xz), CodeTensor(w, ws, wz, 0)]
    for name in filter(None, bias):
        for node, one in _bias(raw, name, (xs, ws)):
            yield node
            given.append(one)
    yield from _chain(raw, "Conv", given, CodeTensor(raw.outputs[0], ys, yz), raw.attributes)


def _gemm(raw: Raw) -> Iterator[Raw]:
    a, a_scale, a_zero, b, b_scale, b_zero, *rest = raw.inputs
    c, y_scale, y_zero = (*rest, "", "", "")[:3]
    transposed = bool(raw.attributes.get("transB", 0))
    given = [CodeTensor(a, a_scale, a_zero), CodeTensor(b, b_scale, b_zero, 0 if transposed else 1)]
    if c:
        for node, one in _bias(raw, c, (a_scale, b_scale)):
            yield node
            given.append(one)
    alpha = raw.attributes.get("alpha", 1.0)
    attributes = {**raw.attributes, "beta": alpha}  # the bias has the scale of the product including alpha
    yield from _chain(raw, "Gemm", given, CodeTensor(raw.outputs[0], y_scale, y_zero), attributes)


def _triples(names: Sequence[str]) -> list[tuple[str, str, str]]:
    """Groups names into tensors with their scale and zero point."""
    return list(zip(names[::3], names[1::3], names[2::3], strict=True))


def _of_tensors(kind: str, count: int, axes: Sequence[int | None] = (), drop: Sequence[str] = ()) -> Any:
    """Expands an operator whose inputs are `count` quantized tensors, each followed by scale and zero point, then those
    of the result."""

    def make(raw: Raw) -> Iterator[Raw]:
        names = [*raw.inputs, ""] if len(raw.inputs) == 3 * count + 1 else list(raw.inputs)
        *_, scale, zero = names
        if len(names) != 3 * count + 2 or any(raw.attributes.get(name) for name in drop):
            raise ValueError
        along = (*axes, *[None] * count)[:count]
        given = [CodeTensor(*names, axis) for names, axis in zip(_triples(names[:-2]), along, strict=True)]
        attributes = {name: value for name, value in raw.attributes.items() if name not in drop}
        yield from _chain(raw, kind, given, CodeTensor(raw.outputs[0], scale, zero), attributes)

    return make


def _concat(raw: Raw) -> Iterator[Raw]:
    scale, zero, *rest = raw.inputs
    given = [CodeTensor(*names) for names in _triples(rest)]
    yield from _chain(raw, "Concat", given, CodeTensor(raw.outputs[0], scale, zero), raw.attributes)


def _softmax(raw: Raw) -> Iterator[Raw]:
    attributes = {name: value for name, value in raw.attributes.items() if name != "opset"}
    yield from _of_tensors("Softmax", 1)(replace(raw, attributes=attributes))


_SPELLINGS: Mapping[tuple[str, str], Callable[[Raw], Iterator[Raw]]] = {
    ("", "QLinearConv"): _conv,
    ("", "QLinearMatMul"): _of_tensors("MatMul", 2, axes=(None, 1)),
    (MICROSOFT, "QGemm"): _gemm,
    (MICROSOFT, "QLinearAdd"): _of_tensors("Add", 2),
    (MICROSOFT, "QLinearMul"): _of_tensors("Mul", 2),
    (MICROSOFT, "QLinearSigmoid"): _of_tensors("Sigmoid", 1),
    (MICROSOFT, "QLinearLeakyRelu"): _of_tensors("LeakyRelu", 1),
    (MICROSOFT, "QLinearAveragePool"): _of_tensors("AveragePool", 1, drop=("channels_last",)),
    (MICROSOFT, "QLinearGlobalAveragePool"): _of_tensors("GlobalAveragePool", 1, drop=("channels_last",)),
    (MICROSOFT, "QLinearReduceMean"): _of_tensors("ReduceMean", 1),
    (MICROSOFT, "QLinearSoftmax"): _softmax,
    (MICROSOFT, "QLinearConcat"): _concat,
}

SPELLED = tuple(kind for _, kind in _SPELLINGS)
