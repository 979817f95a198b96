"""The wheel and the source package: built, installed elsewhere, and a model compiled with what was installed."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import cortado
from cortado.base.versions import PACKAGES
from helpers.cli import TINY
from helpers.paths import ROOT


def call(*command: object, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel and the source package. The wheel is built from that, not from the checkout."""
    folder = tmp_path_factory.mktemp("package")
    source = folder / "checkout"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", source / "src", ignore=ignored)
    call(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder / "dist", source, cwd=folder)
    (wheel,), (sdist,) = (folder / "dist").glob("*.whl"), (folder / "dist").glob("*.tar.gz")
    return wheel, sdist


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import release

    return release


def test_both_packages_are_whole_and_say_their_version(packages: tuple[Path, Path], release: Any) -> None:
    """Every file of the package is in them; installed, `cortado --version` answers; another version is a fault."""
    files = [
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src" / "cortado").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    ]
    for package in packages:
        release.check_package(package, cortado.__version__, files)
    with pytest.raises(SystemExit, match=r"cortado --version says .* expected 9\.9\.9"):
        release.check_package(packages[0], "9.9.9", files)


def test_a_model_is_compiled_with_the_installed_package(packages: tuple[Path, Path], tmp_path: Path) -> None:
    site = tmp_path / "site"
    pip = ("-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile", "--target", site)
    call(sys.executable, *pip, packages[0], cwd=tmp_path)
    model = shutil.copy(TINY, tmp_path)
    script = (
        "import sys, cortado; from cortado.cli import main; code = main(sys.argv[1:]); print(cortado.__file__); "
        "sys.exit(code)"
    )
    common = ("compile", model, "--calibration", f"{model}:calibration", "-t", "cortex-m4")
    arguments = (*common, "--artifacts", "c", "-o", tmp_path / "out", "--json")
    out = call(sys.executable, "-c", script, *arguments, cwd=tmp_path, PYTHONPATH=str(site))
    report, _, place = out.rstrip().rpartition("\n")
    assert Path(place).is_relative_to(site)
    assert json.loads(report)["memory"]["arena_bytes"] > 0
    assert (tmp_path / "out" / "kernels").is_dir()


def test_the_versions_that_are_asked_for_are_those_that_doctor_takes() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    asked: dict[str | None, list[str]] = {
        None: project["dependencies"],
        **{name: extras[name] for name in ("compile", "executorch")},
    }
    brought = {one.split(">")[0].split("=")[0]: extra for extra, group in asked.items() for one in group}
    assert brought.pop("cortado[compile]") == "executorch"
    assert brought == {package.name: package.extra for package in PACKAGES}
    pinned = dict(line.split("==") for line in (ROOT / "requirements.txt").read_text().splitlines())
    assert pinned == {package.name: package.pinned for package in PACKAGES}
