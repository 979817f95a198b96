"""What is left out of the tests where executorch is not installed: the one thing that tests may do without."""

import inspect
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

IMPORTS = re.compile(r"^(from|import) (executorch|helpers\.(executorch|pte_files))\b", re.MULTILINE)
MENTIONS = re.compile(r"executorch|\bb?pte\b|\.pte|_pte\b|\bpte_|etrecord|bundleio|allow.float", re.IGNORECASE)


def has_executorch() -> bool:
    return find_spec("executorch") is not None


def file_needs_it(path: Path) -> bool:
    """A file that can't even be imported without it."""
    return path.name.startswith("test_") and path.suffix == ".py" and IMPORTS.search(path.read_text()) is not None


def test_needs_it(item: pytest.Item) -> bool:
    """A test that speaks of .pte files, in its name, its parameters or its body."""
    function = getattr(item, "function", None)
    text = item.name if function is None else item.name + inspect.getsource(function)
    return MENTIONS.search(text) is not None


test_needs_it.__test__ = False  # type: ignore[attr-defined]


def told(root: Path) -> str:
    files = [path for path in sorted(root.rglob("test_*.py")) if file_needs_it(path)]
    return (
        f"executorch is not installed: left out are {len(files)} files of tests that import it, and of the others "
        "every test that speaks of .pte files (pip install 'cortado[executorch]')"
    )
