"""Fixtures that several test files share, and golden files behind `pytest --update-golden`."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from helpers.golden import Golden
from helpers.paths import MODELS

if TYPE_CHECKING:
    from cortado.api import Model
    from cortado.artifact.opened import Artifact

# Two workers with a thread per core each would only wait for one another. Before torch is imported.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# The same examples on every run and machine; a busy machine is no failure.
settings.register_profile("cortado", deadline=None, derandomize=True, database=None)
settings.load_profile("cortado")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write golden files instead of comparing with them")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compares a text with a golden file; with --update-golden writes the file instead."""

    def check(path: Path, text: str) -> None:
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        else:
            found = path.read_text() if path.is_file() else ""
            assert text == found, f"{path} is out of date; if the change is meant, run: pytest --update-golden"

    return check


@pytest.fixture(scope="session")
def tiny() -> "Model":
    """The tiny network, captured and quantized."""
    from cortado.api import prepare
    from cortado.frontend.models import load_calibration, load_model

    source = load_model(str(MODELS / "tiny.py"))
    batches = load_calibration(str(MODELS / "tiny.py"), source)
    return prepare(source.model, source.example_inputs, batches, name=source.name)


@pytest.fixture(scope="session")
def tiny_artifact(tiny: "Model", tmp_path_factory: pytest.TempPathFactory) -> "Artifact":
    """The tiny network compiled for the M4. Shared: copy the folder before changing anything in it."""
    from cortado.base.target import from_target_string

    return tiny.compile(from_target_string("cortex-m4")).save(tmp_path_factory.mktemp("tiny") / "artifact")


@pytest.fixture(autouse=True)
def _own_import_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test imports by path or changes in sys.path stays its own."""
    monkeypatch.setattr(sys, "path", list(sys.path))
