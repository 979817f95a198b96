"""Decisions on named operators: outside of `ops` there are few, and each has a reason here.

A decision about one operator belongs to its record: its patterns, its rules, its row of `ops/meaning.py`. What asks for
an operator by name elsewhere is found in the syntax of the sources: comparisons, calls of `is_call` and `is_a`, and
tables by operator. Views and transposes do not count: they are what the lowered graph is made of beside operators.
"""

import ast
import importlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch._decomp import decomposition_table
from torch._ops import OpOverload, OpOverloadPacket

from cortado.ir.op import Operator, registry
from cortado.ops.io.quantize import QUANTIZE
from cortado.ops.move.reshape import TRANSPOSE, VIEW, VIEW_CALLS
from cortado.ops.signal.pairs import EACH, FORMS, HALF_SPECTRA
from helpers.paths import ROOT

SRC = ROOT / "src" / "cortado"
MOST = 19
REGISTRIES = (decomposition_table, EACH, FORMS, HALF_SPECTRA)  # which say something of every call, like the records
STRUCTURE = (VIEW, TRANSPOSE, VIEW.name, TRANSPOSE.name, *VIEW_CALLS)
_CHANNELS = "the pass is about channels of convolutions, by the places of their constants"
_LAST = "the pass is about recurrent layers and the slice behind them"
_PT2E = "layers of models that come quantized, under all of torch's names"
_DESCENT = "the pass is about sums, squares and products of matrices in float32"
_SPECTROGRAM = "the pictures of report.html are of spectra"
_WINDOWS = "the pass is about linear layers and reductions over all rows"
DECISIONS: dict[tuple[str, str], str] = {
    ("artifact/build_report.py", "SPECTRUM.name"): _SPECTROGRAM,
    ("frontend/capture/eager.py", "torch.ops.aten.convolution.default"): "eager torch differs by rank there",
    ("frontend/capture/numbers.py", "aten.item.default"): "how torch.export writes a number that a tensor holds",
    ("frontend/capture/numbers.py", "aten.select.int"): "what reads such a number",
    ("frontend/quantize/prequantized.py", "_NORMS"): _PT2E,
    ("frontend/quantize/prequantized.py", "_WEIGHTED"): _PT2E,
    ("frontend/rewrite/canonical.py", "aten.to.dtype"): "the one spelling of conversions",
    ("ir/portable.py", "torch.ops.aten.scalar_tensor.default"): "ExecuTorch's portable kernels want another type",
    ("passes/dead_channels.py", "CONV2D"): _CHANNELS,
    ("passes/time_windows.py", "SLICE"): _LAST,
    ("passes/frames.py", "INDEX_SELECT"): "the pass is about frames that a selection of samples makes",
    ("passes/signals.py", "SPECTRUM"): "the pass turns the input of spectra",
    ("passes/signals.py", "FLOAT_REDUCE"): "it reads the shape that there was",
    ("passes/time_windows.py", "CONV2D"): _WINDOWS,
    ("passes/time_windows.py", "FLOAT_CONV2D"): _WINDOWS,
    ("passes/time_windows.py", "FLOAT_REDUCE"): _WINDOWS,
    ("passes/updates.py", "FLOAT_CALCULATE"): _DESCENT,
    ("passes/updates.py", "FLOAT_MATMUL"): _DESCENT,
    ("passes/updates.py", "FLOAT_REDUCE"): _DESCENT,
}


def operators_of(value: Any) -> list[Any]:
    """The operators, or names of such, in a value and in what it holds."""
    if isinstance(value, OpOverload | OpOverloadPacket | Operator):
        return [value]
    if isinstance(value, str):
        return [value] if value in registry().operators else []
    items = value if isinstance(value, dict | list | tuple | set | frozenset) else []
    return [found for item in items for found in operators_of(item)]


def is_decision(expression: ast.expr, names: dict[str, Any]) -> bool:
    """Whether an expression names operators, other than views and transposes; calls are not evaluated."""
    if any(isinstance(one, ast.Call) for one in ast.walk(expression)):
        return False
    try:
        value = eval(compile(ast.Expression(expression), "", "eval"), dict(names))
    except Exception:  # names of functions
        return False
    found = [] if any(value is one for one in REGISTRIES) else operators_of(value)
    return bool(found) and not all(one in STRUCTURE for one in found)


def compared(node: ast.AST) -> list[ast.expr]:
    """What a node of the syntax tree compares something with, or looks something up by."""
    if isinstance(node, ast.Compare):
        by_name = any("_opname" in ast.unparse(one) for one in (node.left, *node.comparators))
        return [*node.comparators] if by_name else [node.left, *node.comparators]
    if isinstance(node, ast.Dict):
        return [key for key in node.keys if key is not None]
    if not isinstance(node, ast.Call):
        return []
    name = ast.unparse(node.func)
    given = node.args[1:] if name in ("is_call", "is_a") else node.args[:1] if name == "dict.fromkeys" else []
    return [one.value if isinstance(one, ast.Starred) else one for one in given]


def decisions(source: str, names: dict[str, Any]) -> Iterator[str]:
    """The expressions by which a source text asks for named operators, one for each place."""
    for node in ast.walk(ast.parse(source)):
        by_name = isinstance(node, ast.Compare) and "_opname" in ast.unparse(node.left)
        yield from (ast.unparse(one) for one in compared(node) if by_name or is_decision(one, names))


def all_decisions() -> Counter[tuple[str, str]]:
    besides = ("ops", "onnx", "ir/schemas.py")  # which registers operators by name
    files = [path for path in SRC.rglob("*.py") if not str(path.relative_to(SRC)).startswith(besides)]
    found = Counter[tuple[str, str]]()
    for path in sorted(path for path in files if path.name != "__main__.py"):
        name = ".".join(path.relative_to(SRC.parent).with_suffix("").parts).removesuffix(".__init__")
        names = vars(importlib.import_module(name))
        found.update((str(path.relative_to(SRC)), text) for text in decisions(path.read_text(), names))
    return found


def asks_for_an_element(node: ast.AST) -> bool:
    """Whether a comparison asks which element it is, and not for a property: the usual one, int8, has a name."""
    sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
    items = [one for side in sides for one in (side.elts if isinstance(side, ast.Tuple | ast.Set) else [side])]
    return any(isinstance(one, ast.Name) and one.id in ("INT4", "INT8", "INT16", "WIDE", "FLOAT32") for one in items)


def test_elements_are_told_apart_by_their_properties() -> None:
    found = [
        f"{path.relative_to(SRC)}: {ast.unparse(node)}"
        for path in SRC.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if asks_for_an_element(node)
    ]
    assert found == [], "ask for affine, symmetric, floating, packed or bits (base/element.py)"
    assert asks_for_an_element(ast.parse("given.element in (INT8, INT16)", mode="eval").body)


def test_decisions_on_named_operators_are_few_and_have_reasons() -> None:
    found = all_decisions()
    assert set(found) - set(DECISIONS) == set(), (
        "decide it in the operator's record, or by its meaning (ops/meaning.py)"
    )
    assert set(DECISIONS) - set(found) == set(), "no longer in the sources"
    assert found.total() <= MOST


@pytest.mark.parametrize(
    "text",
    [
        "is_call(node, aten.relu.default)",
        "node.target in (aten.add.Tensor, aten.sub.Tensor)",
        "call.operator == QUANTIZE.name",
        "table = {aten.add.Tensor: 1}",
        "operator_of(node.target) is QUANTIZE",
    ],
)
def test_a_decision_is_found(text: str) -> None:
    assert len(list(decisions(text, {"aten": torch.ops.aten, "QUANTIZE": QUANTIZE}))) == 1
