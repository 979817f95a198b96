"""A release: what stands in its way is named."""

import os
import re
import subprocess
import tarfile
import tomllib
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import cortado
from cortado.base.versions import PYTHON
from helpers.paths import ROOT

KERNELS = "#define CORTADO_KERNELS_VERSION_NUMBER 200 /* of 0.2.0 */\n#define OF(x) x##_of_version_0_2_0_kernels\n"
ISSUES = 'version = "0.2.0"\n[[issue]]\nnumber = 7\nresolved = true\n[[issue]]\nnumber = 8\nresolved = true\n'


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
        issues=ISSUES,
        green=None,
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
        ({"issues": ISSUES.replace("true", "false")}, "0.2.0 waits for the issues 7, 8"),
        ({"green": "make test-all was green on a, and 2 files are others"}, "was green on a, and 2 files"),
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


def test_a_version_before_that_waits_for_no_issues(tools: Any) -> None:
    release, _ = tools
    later = ISSUES.replace("0.2.0", "0.3.0").replace("true", "false")
    assert list(release.faults("0.2.0", replace(ready(release), issues=later))) == []


def test_the_issues_of_the_next_version_stand_in_a_table() -> None:
    table = tomllib.loads((ROOT / "tools" / "issues.toml").read_text())
    assert table["issue"]
    for issue in table["issue"]:
        assert set(issue) == {"number", "title", "resolved"}
        assert isinstance(issue["resolved"], bool)


# ---- the commit that all tests passed on -----------------------------------------------------------------------------


@pytest.fixture
def checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """tools/green.py in a repository with one commit."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import green

    monkeypatch.setattr(green, "ROOT", tmp_path)
    monkeypatch.setattr(green, "KEPT", tmp_path / "tests" / "green.json")
    (tmp_path / "tests").mkdir()
    green.git("init", "--quiet")
    for name in ("user.name", "user.email"):
        green.git("config", name, "somebody@example.org")
    commit(green, "source.py")
    return green


def commit(green: Any, name: str) -> str:
    path: Path = green.ROOT / name
    path.write_text(path.read_text() + "more\n" if path.exists() else "")
    green.git("add", "--all")
    green.git("commit", "--quiet", "--no-verify", "--message", name)
    found: str = green.git("rev-parse", "HEAD")
    return found


def test_green_is_what_all_tests_passed_on(checkout: Any) -> None:
    assert "no commit is known" in checkout.fault_here()
    tested = checkout.git("rev-parse", "HEAD")
    assert "commit tests/green.json" in checkout.record(tested, tested, frozenset(("tests/long.json",)))
    assert checkout.fault_here() is None
    commit(checkout, "tests/long.json")
    assert checkout.fault_here() is None, "what the run wrote is committed"
    commit(checkout, "source.py")
    assert f"green on {tested[:12]}, and 1 files are others now (source.py)" in checkout.fault_here()
    checkout.KEPT.write_text('{"commit": "0123456789"}')
    assert "which git does not know" in checkout.fault_here()


def test_what_was_not_tested_as_it_stands_is_not_green(checkout: Any) -> None:
    before = checkout.git("rev-parse", "HEAD")
    after = commit(checkout, "source.py")
    assert f"HEAD was {before[:12]} when they began" in checkout.record(before, after, frozenset())
    assert "source.py and the like are not committed" in checkout.record(after, after, frozenset(("source.py",)))
    assert not checkout.KEPT.exists()


def test_test_all_ends_with_another_python_and_the_record() -> None:
    """The pinned torch, and not the pinned Python."""
    rule = (ROOT / "Makefile").read_text().partition("\ntest-all: test\n")[2].partition("\n\n")[0]
    other, *_, record = rule.splitlines()
    assert record.endswith("tools/green.py $(COMMIT)")
    name = re.findall(r"--only (\S+)", other)[0]
    pinned = re.findall(r"^torch==(\S+)", (ROOT / "requirements.txt").read_text())[0]
    combinations = tomllib.loads((ROOT / "tools" / "versions.toml").read_text())["combination"]
    chosen = [one for one in combinations if name == f"python{one['python']}-torch{one['torch']}"]
    assert [(one["torch"], one["python"] == PYTHON.pinned) for one in chosen] == [(pinned, False)]


# ---- packages and notes ---------------------------------------------------------------------------------------------


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


def test_notes_of_what_is_to_come_are_those_that_are_not_released(tools: Any) -> None:
    release, _ = tools
    text = release.notes("0.2.0.dev0", "## [Unreleased]\n\n- A thing.\n\n## [0.1.0] - 2025-01-31\n\n- Old.\n", [], [])
    assert text.startswith("# Cortado 0.2.0.dev0\n\n- A thing.\n\n## Files\n")


def test_a_python_that_is_not_here_is_told(tools: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Or whose name is there, as pyenv's are, and starts nothing."""
    release, _ = tools
    shim = tmp_path / "python2.98"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    for name in ("2.98", "2.99"):
        (fault,) = release.python_faults([name])
        assert f"python{name} is not on PATH, or does not start" in fault
        assert "PYTHONS=3.11" in fault


@pytest.fixture
def released(tools: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Everything that takes long is left out."""
    release, documentation = tools
    monkeypatch.setattr(release, "faults", lambda version, tree: iter(()))
    monkeypatch.setattr(release, "build", lambda: [ROOT / "pyproject.toml", tmp_path / "a.whl"])
    monkeypatch.setattr(release, "DIST", tmp_path)
    monkeypatch.setattr(release, "notes", lambda version, changelog, files, pythons: f"{version}: {pythons}")
    monkeypatch.setattr(release, "compiled_model", lambda folder: folder)
    monkeypatch.setattr(release, "check_package", lambda path, version, files: None)
    monkeypatch.setattr(release, "try_wheel", lambda path, version, python, model: None)
    monkeypatch.setattr(documentation, "build", lambda: subprocess.CompletedProcess([], 0))
    return release


def test_every_package_that_was_built_is_checked(released: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """And held to what git tracks."""
    checked: dict[Path, set[str]] = {}
    tried: list[tuple[str, str]] = []
    monkeypatch.setattr(released, "check_package", lambda path, version, files: checked.update({path: set(files)}))
    monkeypatch.setattr(released, "try_wheel", lambda path, version, python, model: tried.append((path.name, python)))
    files = released.build_and_try("0.2.0", ["3.11", "3.12"])
    assert list(checked) == files
    assert tried == [("a.whl", "3.11"), ("a.whl", "3.12")]
    assert all({"cortado/api.py", "cortado/kernels/include/cortado.h"} <= files for files in checked.values())


def test_a_release_is_tagged_and_a_rehearsal_is_not(
    released: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tags: list[tuple[str, ...]] = []
    git = released.green.git

    def watched(*words: str) -> str:
        if words[:2] != ("tag", "-a"):
            found: str = git(*words)
            return found
        tags.append(words)
        return ""

    monkeypatch.setattr(released.green, "git", watched)
    monkeypatch.setattr("sys.argv", ["release", "--pythons", "3.11"])
    released.main()
    assert tags == []
    assert (tmp_path / "NOTES.md").read_text() == f"{cortado.__version__}: ['3.11']"
    monkeypatch.setattr("sys.argv", ["release", "0.2.0", "--pythons", "3.11"])
    released.main()
    assert tags == [("tag", "-a", "v0.2.0", "--cleanup=verbatim", "-F", str(tmp_path / "NOTES.md"))]
    assert (tmp_path / "NOTES.md").read_text() == "0.2.0: ['3.11']"
