"""The documentation as `make docs` builds it."""

import importlib
import subprocess
from pathlib import Path
from typing import Any

import pytest

from helpers.paths import ROOT


def documentation(monkeypatch: pytest.MonkeyPatch) -> Any:
    """tools/documentation.py as a module."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("documentation")


def built_site(place: Path) -> Path:
    """The folder of a site that was built without a complaint."""
    with pytest.MonkeyPatch.context() as patch:
        done: subprocess.CompletedProcess[str] = documentation(patch).build(place)
    assert done.returncode == 0, done.stdout + done.stderr
    return place / "site"
