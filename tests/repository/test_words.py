"""Words of the field: what docs/style.md says not to write is not written, in code, documents or messages."""

import ast
import re
from collections.abc import Iterator

import pytest

from helpers.paths import ROOT

STYLE = ROOT / "docs" / "style.md"
# C sources are part of every bundle, and a comment of theirs would make other artifacts of the same models. The
# changelog has the words of its time.
FILES = [
    *sorted((ROOT / "src").rglob("*.py")),
    *(path for path in sorted((ROOT / "docs").glob("*.md")) if path != STYLE),
    *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")),
]
# Where a word has another meaning than the one that the table is about: by word and file, with that meaning.
_WHERE = "the argument of torch.where that has this name"
_C = "the condition of an if in C"
_IF = "the condition of ONNX's If"
_CHIP = "clock, caches and memory of a measurement, under a key of the report"
_DEVIATION = "how far values lie apart"
_MEMORIES = "buffers over several memories"
ELSEWHERE: dict[str, dict[str, str]] = {
    "condition": {
        "src/cortado/ops/elementwise/where.py": _WHERE,
        "src/cortado/frontend/rewrite/mask_choices.py": _WHERE,
        "src/cortado/emit/c/arena.py": _C,
        "src/cortado/emit/c/text.py": _C,
        "docs/misra.md": _C,
        "src/cortado/onnx/reader.py": _IF,
        "docs/onnx.md": _IF,
        "src/cortado/emit/packages/cmsis_pack.py": "an element of CMSIS-Pack's files",
        "src/cortado/timing/instructions.py": "condition codes of Arm's instructions",
        "src/cortado/artifact/page.py": _CHIP,
        "src/cortado/artifact/report.py": _CHIP,
        "src/cortado/profile.py": _CHIP,
        "docs/report.md": _CHIP,
    },
    "spread": {
        "src/cortado/ops/pool/avg_pool2d.py": _DEVIATION,
        "src/cortado/ops/pool/normalize.py": _DEVIATION,
        "src/cortado/ops/pool/forms.py": _DEVIATION,
        "src/cortado/ops/pool/variance.py": _DEVIATION,
        "src/cortado/frontend/quantize/ranges.py": _DEVIATION,
        "src/cortado/artifact/budget.py": _MEMORIES,
        "src/cortado/memory/spread.py": _MEMORIES,
        "src/cortado/plan/over_regions.py": _MEMORIES,
        "docs/architecture.md": f"{_DEVIATION}; and {_MEMORIES}",
        "docs/testing.md": "a name among the masks of the campaign",
    },
}


def refused_words() -> list[str]:
    """The right column of the table under "Plain words"."""
    section = STYLE.read_text().split("## Plain words")[1].split("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", section, re.MULTILINE)
    return [word.strip() for left, right in rows if left != "write" for word in right.split(",")]


def pattern_of(phrase: str) -> re.Pattern[str]:
    """A phrase as it may stand in a text or a name: across lines and comment signs, its words in the plural."""
    words = [f"{re.escape(word)}s?" for word in phrase.split()]
    return re.compile(r"(?<![a-z])" + r"[\s_#*\"']+".join(words) + r"(?![a-z])", re.IGNORECASE)


def found_in(texts: dict[str, str], phrases: list[str]) -> Iterator[str]:
    for name, text in texts.items():
        for phrase in phrases:
            if name not in ELSEWHERE.get(phrase, {}):
                for match in pattern_of(phrase).finditer(text):
                    yield f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {phrase}"


def texts() -> dict[str, str]:
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in FILES}


def test_what_the_glossary_says_not_to_write_is_not_written() -> None:
    assert list(found_in(texts(), refused_words())) == []


def test_the_table_is_read() -> None:
    assert {"whole number", "condition", "yes or no", "rows that never end", "so many", "spread"} <= {*refused_words()}


@pytest.mark.parametrize(
    "text",
    ["of whole numbers", "whole_number(", 'of whole "\n    "numbers', "# of whole\n# number", "Whole number"],
)
def test_a_phrase_is_found_however_it_is_written(text: str) -> None:
    assert list(found_in({"a.py": text}, ["whole number"])) == ["a.py:1: whole number"]


def test_every_exception_is_needed() -> None:
    for phrase, files in ELSEWHERE.items():
        assert [name for name in files if not pattern_of(phrase).search((ROOT / name).read_text())] == [], phrase


NO_BEGINNING = re.compile(r"(Of|That of|Those of|What|Where|As|Whose)\b")


def test_docstrings_begin_with_a_verb_or_a_noun_phrase() -> None:
    """A fragment such as "Of the next row." has to be decoded by looking at what it stands under."""
    found = [
        f"{path.relative_to(ROOT)}: {text.splitlines()[0]}"
        for path in FILES
        if path.suffix == ".py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module)
        and (text := ast.get_docstring(node))
        and NO_BEGINNING.match(text)
    ]
    assert found == []
