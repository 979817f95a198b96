"""A release: what stands in its way is named."""

import subprocess
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from helpers.paths import ROOT

KERNELS = "#define CORTADO_KERNELS_VERSION_NUMBER 200 /* of 0.2.0 */\n#define OF(x) x##_of_version_0_2_0_kernels\n"


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import documentation
    import release

    return (release, documentation)


def ready(release: Any) -> Any:
    return release.Tree(
        project='[project]\nversion = "0.2.0"\n',
        package='__version__ = "0.2.0"\n',
        kernels=KERNELS,
        changelog="# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-01-31\n\n### Added\n\n- A thing.\n",
        tags=("v0.1.0",),
        changes="",
    )


def test_a_tree_that_is_ready_has_no_faults(tools: Any) -> None:
    release, _ = tools
    assert list(release.faults("0.2.0", ready(release))) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"changes": " M README.md"}, "not committed"),
        ({"tags": ("v0.2.0",)}, "v0.2.0 exists"),
        ({"tags": ("v0.10.0",)}, "v0.10.0 exists"),
        ({"project": 'version = "0.2.0.dev0"\n'}, "pyproject.toml says 0.2.0.dev0"),
        ({"package": '__version__ = "0.1.0"\n'}, "__init__.py says 0.1.0"),
        ({"kernels": KERNELS.replace("200", "100")}, "cortado_version.h has the number 100, expected 200"),
        ({"kernels": KERNELS.replace("0_2_0", "0_1_0")}, "cortado_version.h has 0_1_0 in the names"),
        ({"changelog": "## [Unreleased]\n"}, "no section [0.2.0]"),
        ({"changelog": "## [Unreleased]\n\n## [0.2.0]\n\n- A thing.\n"}, "needs a date"),
        ({"changelog": "## [Unreleased]\n\n- B.\n\n## [0.2.0] - 2026-01-31\n\n- A.\n"}, "under [Unreleased]"),
    ],
)
def test_what_stands_in_its_way_is_named(tools: Any, change: dict[str, Any], words: str) -> None:
    release, _ = tools
    (fault,) = release.faults("0.2.0", replace(ready(release), **change))
    assert words in fault


def test_a_version_is_three_numbers(tools: Any) -> None:
    release, _ = tools
    assert "three numbers" in next(release.faults("0.2", ready(release)))


def test_a_file_that_a_package_lacks_is_named(tools: Any, tmp_path: Path) -> None:
    release, _ = tools
    file = tmp_path / "a.py"
    file.touch()
    wheel, sdist = tmp_path / "a-1-py3-none-any.whl", tmp_path / "a-1.tar.gz"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(file, "cortado/a.py")
    with tarfile.open(sdist, "w:gz") as archive:
        archive.add(file, "a-1/src/cortado/a.py")
    for package in (wheel, sdist):
        assert release.missing_files(package, ["cortado/a.py"]) == []
        with pytest.raises(SystemExit, match=r"lacks 1 tracked files: cortado/b\.json"):
            release.check_package(package, "0.2.0", ["cortado/a.py", "cortado/b.json"])


def test_notes_have_the_changes_and_the_files(tools: Any, tmp_path: Path) -> None:
    release, _ = tools
    wheel = tmp_path / "cortado.whl"
    wheel.write_bytes(b"")
    changelog = (
        "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-01-31\n\n- A thing.\n\n## [0.1.0] - 2025-01-31\n\n- Old.\n"
    )
    text = release.notes("0.2.0", changelog, [wheel], ["3.11", "3.13"])
    assert text.startswith("# Cortado 0.2.0 - 2026-01-31\n\n- A thing.\n\n## Files\n")
    assert "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  cortado.whl" in text
    assert "Python 3.11, 3.13" in text
    assert "Old" not in text


def test_a_python_that_is_not_here_is_told(tools: Any) -> None:
    release, _ = tools
    (fault,) = release.python_faults(["2.99"])
    assert "python2.99 is not on PATH" in fault


def test_every_package_that_was_built_is_checked(tools: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And held to what git tracks."""
    release, documentation = tools
    built = [ROOT / "pyproject.toml", tmp_path / "a.whl"]
    checked: dict[Path, set[str]] = {}
    monkeypatch.setattr(release, "faults", lambda version, tree: iter(()))
    monkeypatch.setattr(release, "build", lambda: built)
    monkeypatch.setattr(release, "check_package", lambda path, version, files: checked.update({path: set(files)}))
    tried: list[tuple[str, str]] = []
    monkeypatch.setattr(release, "try_wheel", lambda path, version, python: tried.append((path.name, python)))
    monkeypatch.setattr(release, "DIST", tmp_path)
    monkeypatch.setattr(release, "notes", lambda version, changelog, files, pythons: f"{version}: {pythons}")
    monkeypatch.setattr(documentation, "build", lambda: subprocess.CompletedProcess([], 0))
    monkeypatch.setattr("sys.argv", ["release", "0.2.0", "--pythons", "3.11"])
    release.main()
    assert list(checked) == built
    assert tried == [("a.whl", "3.11")]
    assert (tmp_path / "NOTES.md").read_text() == "0.2.0: ['3.11']"
    assert all({"cortado/api.py", "cortado/kernels/include/cortado.h"} <= files for files in checked.values())
