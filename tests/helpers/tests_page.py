"""tests/README.md, made from what every test file and helper says of itself."""

import ast
from collections.abc import Iterator
from pathlib import Path

from helpers.paths import TESTS

HEAD = """# The tests

A folder for each stage of the compiler, and one for each of what holds for all of them. What several files need is in
`helpers`; a test file imports from no other. This page is made from the files' own first lines; `make golden` writes it
again. [CONTRIBUTING.md](../CONTRIBUTING.md) says which of them to run when.

| folder beside these | what it holds |
|---|---|
| `models` | models as a user's files |
| `golden` | graphs before and after each pass, and C, as they must come out |
| `reports` | report.json as each version of it was written, which stays readable |
| `conformance` | layers recorded from CMSIS-NN, [how](conformance/README.md) |
| `fuzz` | the campaign of random networks, [docs/testing.md](../docs/testing.md) |
"""


def page() -> str:
    return HEAD + "".join(_folder(folder) for folder in folders())


def folders() -> list[Path]:
    """The folders of tests, and the helpers."""
    return sorted({path.parent for path in TESTS.rglob("test_*.py")} | {TESTS / "helpers"})


def _folder(folder: Path) -> str:
    rows = "".join(f"| `{path.name}` | {_first_sentence(path)} |\n" for path in _files(folder))
    return f"\n## {folder.relative_to(TESTS)}\n\n| file | what it holds |\n|---|---|\n{rows}"


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.glob("*.py")) if path.name not in ("__init__.py", "conftest.py"))


def _first_sentence(path: Path) -> str:
    """The first paragraph of the docstring, on one line."""
    text = ast.get_docstring(ast.parse(path.read_text()))
    assert text, f"{path} does not say what it holds"
    return " ".join(text.split("\n\n")[0].split()).removesuffix(".").replace("|", "\\|")
