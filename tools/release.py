"""Checks, builds and tags a release: `make release VERSION=0.2.0`. docs/releasing.md has the steps; a fault ends it.

Without a version it is a rehearsal: the tree as it is, built and tried, and nothing tagged.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import documentation
import green
import versions

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
PYTHONS = tuple(dict.fromkeys(one.python for one in versions.COMBINATIONS))
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")


@dataclass(frozen=True)
class Tree:
    """What a release is made from, as texts."""

    project: str  # pyproject.toml
    package: str  # src/cortado/__init__.py
    kernels: str  # cortado_version.h
    changelog: str
    tags: tuple[str, ...]
    changes: str  # git status --porcelain
    issues: str  # tools/issues.toml
    green: str | None  # what keeps the tree from being one that all tests passed on

    @staticmethod
    def here() -> "Tree":
        return Tree(
            project=(ROOT / "pyproject.toml").read_text(),
            package=(ROOT / "src" / "cortado" / "__init__.py").read_text(),
            kernels=(ROOT / "src" / "cortado" / "kernels" / "include" / "cortado_version.h").read_text(),
            changelog=(ROOT / "CHANGELOG.md").read_text(),
            tags=tuple(green.git("tag", "--list", "v*").split()),
            changes=green.git("status", "--porcelain"),
            issues=(ROOT / "tools" / "issues.toml").read_text(),
            green=green.fault_here(),
        )


def faults(version: str, tree: Tree) -> Iterator[str]:
    """Everything that stands between a tree and a release of this version."""
    if not _VERSION.fullmatch(version):
        yield f"the version is '{version}', expected three numbers, as in VERSION=0.2.0"
        return
    if tree.changes:
        yield f"there are changes that are not committed:\n{tree.changes}"
    older = [tag for tag in tree.tags if _numbers(tag[1:]) >= _numbers(version)]
    if older:
        yield f"{', '.join(older)} exists; expected a version above it"
    for name, said in (("pyproject.toml", _version_of(tree.project)), ("__init__.py", _version_of(tree.package))):
        if said != version:
            yield f"{name} says {said}, expected {version}"
    yield from _kernel_faults(version, tree.kernels)
    yield from _changelog_faults(version, tree.changelog)
    yield from _issue_faults(version, tree.issues)
    if tree.green is not None:
        yield tree.green


def _kernel_faults(version: str, header: str) -> Iterator[str]:
    """The number of the kernels' version, and the version in the names of their functions."""
    major, minor, patch = _numbers(version)
    numbers = re.findall(r"^#define CORTADO_KERNELS_VERSION_NUMBER (\d+)", header, re.MULTILINE)
    expected = str(10000 * major + 100 * minor + patch)
    if numbers != [expected]:
        yield f"cortado_version.h has the number {', '.join(numbers) or 'none'}, expected {expected}"
    names = set(re.findall(r"_of_version_(\d+_\d+_\d+)_", header))
    if names != {f"{major}_{minor}_{patch}"}:
        found = ", ".join(sorted(names)) or "no version"
        yield f"cortado_version.h has {found} in the names of functions, expected {major}_{minor}_{patch}"


def _issue_faults(version: str, text: str) -> Iterator[str]:
    """Issues that this version waits for and that are open."""
    table = tomllib.loads(text)
    waiting = [str(issue["number"]) for issue in table["issue"] if not issue["resolved"]]
    if waiting and _numbers(version) >= _numbers(table["version"]):
        yield f"{table['version']} waits for the issues {', '.join(waiting)}, which tools/issues.toml has as open"


def python_faults(pythons: Iterable[str]) -> Iterator[str]:
    """Versions of Python that the wheel is to be tried with, and are not here."""
    for one in pythons:
        if not versions.is_here(one):
            yield f"{versions.missing(one)}; or name those that are here: make release PYTHONS=3.11"


def _sections(changelog: str) -> dict[str, str]:
    return dict(re.findall(r"^## \[([^\]]+)\]([^\n]*\n.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL))


def _changelog_faults(version: str, changelog: str) -> Iterator[str]:
    sections = _sections(changelog)
    own = sections.get(version)
    if own is None:
        yield f"CHANGELOG.md has no section [{version}]"
    elif not re.match(r" - \d{4}-\d\d-\d\d\n", own) or "\n- " not in own:
        yield f"CHANGELOG.md: section [{version}] needs a date (## [{version}] - 2026-01-31) and at least one entry"
    if "\n- " in sections.get("Unreleased", ""):
        yield f"CHANGELOG.md has entries under [Unreleased]; move them to [{version}]"


def _version_of(text: str) -> str:
    found = re.search(r'^(?:version|__version__) = "([^"]*)"', text, re.MULTILINE)
    return found[1] if found else "no version"


def _numbers(version: str) -> tuple[int, ...]:
    found = _VERSION.match(version)
    return tuple(map(int, found.groups())) if found else (0, 0, 0)


def _run(*command: object, cwd: Path = ROOT, **environment: str) -> str:
    settings = {**os.environ, **environment}
    done = subprocess.run(list(map(str, command)), cwd=cwd, env=settings, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def build() -> list[Path]:
    """Wheel and source package of what git tracks."""
    shutil.rmtree(DIST, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="cortado-release-") as place:
        source = Path(place) / "source"
        _run("git", "worktree", "add", "--detach", source, "HEAD")
        try:
            _run(sys.executable, "-m", "build", "--no-isolation", "--outdir", DIST, source)
        finally:
            _run("git", "worktree", "remove", "--force", source)
    return sorted(DIST.iterdir())


def missing_files(package: Path, tracked: Iterable[str]) -> list[str]:
    """Those of the tracked files, from `cortado/` on, that a wheel or a source package does not hold."""
    if package.suffix == ".whl":
        with zipfile.ZipFile(package) as wheel:
            held = set(wheel.namelist())
    else:
        with tarfile.open(package) as archive:
            held = {name.partition("/src/")[2] for name in archive.getnames()}
    return sorted(set(tracked) - held)


def check_package(package: Path, version: str, tracked: Iterable[str]) -> None:
    """A wheel or a source package holds every tracked file and, installed into an empty folder, says its version."""
    missing = missing_files(package, tracked)
    if missing:
        raise SystemExit(f"{package.name} lacks {len(missing)} tracked files: {', '.join(missing[:10])}")
    with tempfile.TemporaryDirectory(prefix="cortado-installed-") as place:
        pip = ("-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation")
        _run(sys.executable, *pip, "--target", place, package)
        answer = _run(Path(place) / "bin" / "cortado", "--version", cwd=Path(place), PYTHONPATH=place).strip()
        if answer != f"cortado {version}":
            raise SystemExit(f"{package.name}, installed: cortado --version says '{answer}', expected {version}")
        file = _run(sys.executable, "-c", "import cortado; print(cortado.__file__)", cwd=Path(place), PYTHONPATH=place)
        if not Path(file.strip()).is_relative_to(place):
            raise SystemExit(f"{package.name}, installed: cortado is found at {file.strip()}, expected {place}")


def compiled_model(folder: Path) -> Path:
    """A compiled network with everything that is done without torch: a .pte, a self-test, a page."""
    tiny = ROOT / "tests" / "models" / "tiny.py"
    given = ("--calibration", f"{tiny}:calibration", "-t", "cortex-m4", "--package", "cmake,web")
    _run(sys.executable, "-m", "cortado", "compile", tiny, *given, "-o", folder)
    return folder


def try_wheel(wheel: Path, version: str, python: str, model: Path) -> None:
    """An empty environment of this Python with the wheel and what it asks for: what needs no torch works with a model
    that was compiled elsewhere, and `cortado compile` says what brings torch."""
    with tempfile.TemporaryDirectory(prefix="cortado-environment-") as place:
        _run(f"python{python}", "-m", "venv", place)
        programs = Path(place) / "bin"
        _run(programs / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel)
        answer = _run(programs / "cortado", "--version", cwd=Path(place)).strip()
        if answer != f"cortado {version}":
            raise SystemExit(f"{wheel.name}, Python {python}: cortado --version says '{answer}', expected {version}")
        for command in (
            ("chips",),
            ("doctor",),
            ("compile", "--help"),
            ("inspect", next(model.glob("*.pte"))),
            ("pack", model, "--package", "zephyr,arduino", "-o", "packed"),
            ("run", model),
            ("show", model, "--trust", "--write", "page.html"),
        ):
            _run(programs / "cortado", *command, cwd=Path(place))
        refused = subprocess.run(
            [programs / "cortado", "compile", "ds_cnn"], cwd=place, capture_output=True, text=True, check=False
        )
        if refused.returncode != 2 or "cortado[compile]" not in refused.stderr:
            raise SystemExit(
                f"{wheel.name}, Python {python}: without torch `cortado compile` ends with {refused.returncode}, "
                f"expected 2 and how to install it:\n{refused.stderr}"
            )


def notes(version: str, changelog: str, files: Iterable[Path], pythons: Iterable[str]) -> str:
    """The notes of a release, or of one to come: what changed, the files, and the versions of Python that the wheel
    was tried with."""
    sections = _sections(changelog)
    date, _, changes = sections.get(version, sections["Unreleased"]).partition("\n")
    listed = "\n".join(f"    {hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in files)
    return (
        f"# Cortado {version}{date}\n{changes.rstrip()}\n\n## Files\n\n{listed}\n\n"
        f"The wheel was installed and used in an empty environment of Python {', '.join(pythons)}; docs/versions.md "
        "has the versions of torch.\n"
    )


def build_and_try(version: str, pythons: Iterable[str]) -> list[Path]:
    """Wheel and source package in dist/, whole, and the wheel in an empty environment of each Python."""
    files = build()
    tracked = [name.removeprefix("src/") for name in green.git("ls-files", "src/cortado").splitlines()]
    for path in files:
        check_package(path, version, tracked)
    with tempfile.TemporaryDirectory(prefix="cortado-model-") as place:
        model = compiled_model(Path(place) / "model")
        for python in pythons:
            for wheel in (path for path in files if path.suffix == ".whl"):
                try_wheel(wheel, version, python, model)
    return files


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version", nargs="?", default="", help="as in 0.2.0 (default: a rehearsal)")
    parser.add_argument("--pythons", nargs="*", default=PYTHONS, help="to try the wheel with (default: %(default)s)")
    arguments = parser.parse_args()
    pythons, tree = arguments.pythons or PYTHONS, Tree.here()
    found = [*(faults(arguments.version, tree) if arguments.version else ()), *python_faults(pythons)]
    if found:
        raise SystemExit("no release: " + "\n".join(found))
    version = arguments.version or _version_of(tree.project)
    files = build_and_try(version, pythons)
    site = documentation.build()
    if site.returncode != 0:
        raise SystemExit(f"the site has faults:\n{site.stderr}")
    written = notes(version, tree.changelog, files, pythons)
    (DIST / "NOTES.md").write_text(written)
    print(written)
    if not arguments.version:
        print("a rehearsal: nothing is tagged; make release VERSION=... does")
        return
    green.git("tag", "-a", f"v{version}", "--cleanup=verbatim", "-F", str(DIST / "NOTES.md"))
    print(f"tagged v{version}; left to do:\n  git push --tags\n  upload dist/ to the index")


if __name__ == "__main__":
    main()
