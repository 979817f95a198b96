"""Fixtures that several test files share, and golden files behind `pytest --update-golden`."""

import gc
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from cortado.api import Model
    from cortado.artifact.opened import Artifact
    from helpers.cli import Run
    from helpers.golden import Golden
    from helpers.keyword import Spotted

# Their asserts explain themselves as those of the tests do. Before anything imports them.
pytest.register_assert_rewrite("helpers")

from helpers import later, left_out  # noqa: E402

# Two workers with a thread per core each would only wait for one another. Before torch is imported.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# No bundle allocates anything, and looking for leaks takes a sanitized program seconds at its end.
os.environ.setdefault("ASAN_OPTIONS", "detect_leaks=0")

# A make that a test starts is nobody's part: it gets no jobs from the make that started the tests.
for flags in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL"):
    os.environ.pop(flags, None)

# The same examples on every run and machine; a busy machine is no failure, and samples of operators are large.
settings.register_profile(
    "cortado", deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None
)
settings.load_profile("cortado")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write golden files instead of comparing with them")
    parser.addoption("--durations-file", type=Path, help="write the CPU seconds of each test to this file")


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--durations-file")
    if path is not None:
        from helpers.durations import Durations

        config.pluginmanager.register(Durations(path), "durations")


@pytest.hookimpl(tryfirst=True)  # before what is slow is left out
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With --update-golden only what is golden runs; without executorch what needs it does not."""
    later.put_off(items)
    if config.getoption("--update-golden"):
        items[:] = [item for item in items if "golden" in getattr(item, "fixturenames", ())]
    if not left_out.has_executorch():
        without = [item for item in items if left_out.test_needs_it(item)]
        config.hook.pytest_deselected(items=without)
        items[:] = [item for item in items if item not in set(without)]


def pytest_collection_finish() -> None:
    """Torch and the tests are millions of objects that stay: without them a collection costs little."""
    gc.freeze()
    gc.set_threshold(20_000, *gc.get_threshold()[1:])


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    missing = collection_path.is_file() and not left_out.has_executorch() and left_out.file_needs_it(collection_path)
    return True if missing else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not left_out.has_executorch():
        terminalreporter.write_line(left_out.told(Path(__file__).parent), yellow=True)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> "Golden":
    from helpers.golden import Golden

    return Golden(update=request.config.getoption("--update-golden"))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> "Run":
    """`cortado ARGUMENTS` inside this process."""
    from cortado.cli.entry import main
    from helpers.cli import Done

    def call(*arguments: object) -> Done:
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as stopped:
            code = int(str(stopped.code))
        captured = capsys.readouterr()
        return Done(code, captured.out, captured.err)

    return call


@pytest.fixture(scope="session")
def tiny() -> "Model":
    """The tiny network, captured and quantized so that its golden files are the same on every machine."""
    from cortado.api import prepare
    from cortado.models.sources import load_calibration, load_model
    from helpers.paths import MODELS
    from helpers.single import EVERY_VALUE

    source = load_model(str(MODELS / "tiny.py"))
    batches = load_calibration(str(MODELS / "tiny.py"), source)
    return prepare(source.model, source.example_inputs, batches, name=source.name, options=EVERY_VALUE)


@pytest.fixture(scope="session")
def tiny_artifact(tiny: "Model", tmp_path_factory: pytest.TempPathFactory) -> "Artifact":
    """The tiny network compiled for the M4. Shared: copy the folder before changing anything in it."""
    from cortado.base.target import from_target_string

    return tiny.compile(from_target_string("cortex-m4")).save(tmp_path_factory.mktemp("tiny") / "artifact")


@pytest.fixture(scope="session")
def spotted(tmp_path_factory: pytest.TempPathFactory) -> "Spotted":
    """The example of a stream as it is run for its page: once for the tests that need it."""
    from helpers.keyword import spot

    return spot(tmp_path_factory.mktemp("spotted"))


@pytest.fixture(autouse=True)
def _own_import_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test imports by path or changes in sys.path stays its own."""
    monkeypatch.setattr(sys, "path", list(sys.path))
