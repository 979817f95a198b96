"""docs/refusals.md, made from the sources: every sentence with which Cortado refuses a model."""

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from types import ModuleType

from cortado.ir.op import registry
from helpers.paths import ROOT

PACKAGE = ROOT / "src" / "cortado"
HOLE = "..."

HEAD = f"""# Refusals

The messages about models that Cortado can't compile, collected from the sources by topic; `{HOLE}` stands for what was
found. A message about a call includes its name and the line of the model that makes it. `make golden` generates this
page. For what can be compiled, see [operators.md](operators.md).
"""
IN_C_ALONE = "Calls that only the `.pte` can't hold"
# Topics, and the folders or files whose refusals belong to them, the first that fits. The rest stands under the last.
TOPICS = {
    "The model's file": ("models/*",),
    "Quantized models and quantization-aware training": ("*/incoming", "*/prequantized", "*/qat"),
    "Capturing a model": ("frontend/capture/*", "*/canonical", "*/unpadded"),
    "Calibration and scales": ("frontend/quantize/*", "ops/io/*", "*/requantize"),
    "Masks and attention": ("*/mask_*", "ops/softmax/forms"),
    "Writes in place and state": ("*/writes", "*/state"),
    "Integers, truth values and positions": ("*/domains", "ops/integer/*", "*/topk", "*/embedding*", "*/index_select"),
    "Convolutions and linear layers": ("ops/conv/*",),
    "Pooling, means and sums": ("ops/pool/*",),
    "Softmax": ("ops/softmax/*",),
    "Recurrent layers": ("ops/recurrent/*",),
    "Movement, padding and joins": ("ops/move/*",),
    "Arithmetic and functions": ("ops/elementwise/*",),
    "All other calls": ("*",),
}


@dataclass(frozen=True)
class Refusal:
    file: Path
    sentence: str
    pte: bool  # only a .pte can't hold it

    @property
    def topic(self) -> str:
        name = self.file.relative_to(PACKAGE).with_suffix("").as_posix()
        found = (topic for topic, patterns in TOPICS.items() if any(fnmatch(name, one) for one in patterns))
        return IN_C_ALONE if self.pte else next(found)


def page() -> str:
    found = refusals()
    return HEAD + "".join(
        _section(topic, [item for item in found if item.topic == topic]) for topic in (*TOPICS, IN_C_ALONE)
    )


def _section(topic: str, found: list[Refusal]) -> str:
    sentences = dict.fromkeys(_told(item) for item in found)
    return f"\n## {topic}\n\n" + "".join(f"- {sentence}\n" for sentence in sentences)


def _told(item: Refusal) -> str:
    """With the operators whose records stand in the file."""
    known = [op.name for op in registry().operators.values() if inspect.getmodule(op.reference) is _module(item.file)]
    return item.sentence + (f" ({', '.join(f'`{name}`' for name in known)})" if known else "")


TAKING_IN = ("frontend", "models")


@cache
def refusals() -> tuple[Refusal, ...]:
    """In the order of files and lines."""
    files = [
        file for folder in (*TAKING_IN, "ir", "ops", "passes") for file in sorted((PACKAGE / folder).rglob("*.py"))
    ]
    return tuple(found for file in files if file.name != "_TEMPLATE.py" for found in _refusals_of(file))


def _refusals_of(file: Path) -> Iterator[Refusal]:
    nodes = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call | ast.FunctionDef)]
    for node in sorted(nodes, key=lambda node: node.lineno):
        for pte, text in _texts(node, file.relative_to(PACKAGE).parts[0]):
            for sentence in _sentences(text, _module(file)):
                if len(sentence.replace(HOLE, "").split()) > 2:
                    yield Refusal(file, sentence, pte)


def _texts(node: ast.Call | ast.FunctionDef, folder: str) -> Iterator[tuple[bool, ast.expr]]:
    """Whether it is the .pte's, and the text: of an error, of a Reject, of a function that gives a reason or None."""
    if isinstance(node, ast.Call):
        name = node.func.id if isinstance(node.func, ast.Name) else None
        if name == "Reject" or (name in ("CortadoError", "Refused") and folder in (*TAKING_IN, "ops")):
            yield False, node.args[0]
    elif folder not in TAKING_IN and node.returns is not None and ast.unparse(node.returns) == "str | None":
        returns = [part.value for part in ast.walk(node) if isinstance(part, ast.Return)]
        yield from ((node.name in ("pte_limit", "c_only"), value) for value in returns if value is not None)


def _sentences(text: ast.expr, module: ModuleType) -> list[str]:
    """The sentences an expression may give: more than one if it chooses between texts."""
    if isinstance(text, ast.IfExp):
        return [*_sentences(text.body, module), *_sentences(text.orelse, module)]
    return [re.sub(rf"({re.escape(HOLE)})+", HOLE, " ".join(_text(text, module).split()))]


def _text(text: ast.expr, module: ModuleType) -> str:
    if isinstance(text, ast.Constant) and isinstance(text.value, str):
        return text.value
    if isinstance(text, ast.JoinedStr):
        return "".join(_text(part, module) for part in text.values)
    if isinstance(text, ast.BinOp) and isinstance(text.op, ast.Add):
        return _text(text.left, module) + _text(text.right, module)
    inside = text.value if isinstance(text, ast.FormattedValue) else text
    value = getattr(module, inside.id, None) if isinstance(inside, ast.Name) else None
    return str(value) if isinstance(value, int | str) else HOLE  # a number or a text of the module's own is known


def _module(file: Path) -> ModuleType:
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    return importlib.import_module(".".join(parts).removesuffix(".__init__"))
