"""docs/refusals.md, made from the sources: every sentence with which Cortado refuses a model."""

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from types import ModuleType

from cortado.ir.op import registry
from helpers.paths import ROOT

PACKAGE = ROOT / "src" / "cortado"
HOLE = "..."

HEAD = f"""# Refusals

What Cortado says of a model that it can't compile, gathered from the sources, file by file; `{HOLE}` stands for what
was found. What is said of a call comes with its name and with the line of the model that makes it. `make golden` writes
this page again. What can be compiled: [operators.md](operators.md).
"""


class Kind(Enum):
    """What becomes of a model; the value is the section of the page."""

    TAKEN_IN = "While a model is read, captured and quantized"
    INTEGER = "Calls that no integer operator takes"
    PTE = "Calls that only the `.pte` can't hold"


@dataclass(frozen=True)
class Refusal:
    kind: Kind
    file: Path
    sentence: str


def page() -> str:
    found = refusals()
    return HEAD + "".join(_section(kind, [item for item in found if item.kind is kind]) for kind in Kind)


def _section(kind: Kind, found: list[Refusal]) -> str:
    files = dict.fromkeys(item.file for item in found)
    parts = []
    for file in files:
        sentences = dict.fromkeys(item.sentence for item in found if item.file == file)
        parts.append(f"\n### {_title(file)}\n\n" + "".join(f"- {sentence}\n" for sentence in sentences))
    return f"\n## {kind.value}\n" + "".join(parts)


def _title(file: Path) -> str:
    """The file, and the operators whose records stand in it."""
    known = [op.name for op in registry().operators.values() if inspect.getmodule(op.reference) is _module(file)]
    return ": ".join([f"`{file.relative_to(PACKAGE)}`", *([", ".join(f"`{name}`" for name in known)] if known else [])])


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
        for kind, text in _texts(node, file.relative_to(PACKAGE).parts[0]):
            for sentence in _sentences(text, _module(file)):
                if len(sentence.replace(HOLE, "").split()) > 2:
                    yield Refusal(kind, file, sentence)


def _texts(node: ast.Call | ast.FunctionDef, folder: str) -> Iterator[tuple[Kind, ast.expr]]:
    """What an error or a Reject is given, and what functions return that give a reason or None."""
    if isinstance(node, ast.Call):
        name = node.func.id if isinstance(node.func, ast.Name) else None
        if name == "Reject" or (name == "CortadoError" and folder in (*TAKING_IN, "ops")):
            yield Kind.TAKEN_IN if folder in TAKING_IN else Kind.INTEGER, node.args[0]
    elif folder not in TAKING_IN and node.returns is not None and ast.unparse(node.returns) == "str | None":
        returns = [part.value for part in ast.walk(node) if isinstance(part, ast.Return)]
        yield from (
            (Kind.PTE if node.name in ("pte_limit", "c_only") else Kind.INTEGER, value)
            for value in returns
            if value is not None
        )


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
