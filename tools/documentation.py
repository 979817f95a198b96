"""Builds the documentation site into build/docs/site: `make docs`. A dead link or a page outside the index is an error.

The pages link to one another as files of the repository, so they are staged in the same folders, with every file that
they link to; mkdocs then checks the links.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
LEFT_OUT = (
    "tests/golden/",
    "tests/packages/",
    "tests/conformance/",
    ".github/",
)  # Markdown that is data, not documents
STYLE = Path("docs/site.css")
_LINK = re.compile(r"\]\(([^)#\s:]+)")
_CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_FILE = re.compile(r"^```(\w+) file=(\S+)$", re.MULTILINE)


def documents() -> list[Path]:
    """The Markdown files of the repository that are documents, relative to its root."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [Path(name) for name in listed.stdout.splitlines() if not name.startswith(LEFT_OUT)]


def linked(document: Path) -> Iterator[Path]:
    """The files that a document links to, relative to the repository's root."""
    for link in _LINK.findall((ROOT / document).read_text()):
        path = (ROOT / document).parent.joinpath(link).resolve()
        if path.is_file() and path.is_relative_to(ROOT):
            yield path.relative_to(ROOT)


def stage(place: Path) -> None:
    """Copies the documents and what they link to into the folders that they have in the repository."""
    shutil.rmtree(place, ignore_errors=True)
    found = documents()
    for path in {STYLE, *found, *(target for document in found for target in linked(document))}:
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, place / path)
    for path in found:
        (place / path).write_text(for_the_site((ROOT / path).read_text()))


def for_the_site(page: str) -> str:
    """Shows the file name of a code block (`file=main.c`, which tests read) as its title; marks names in tables."""
    titled = _FILE.sub(r'```\1 title="\2"', page)
    return "".join(_row(line) if line.startswith("|") else line for line in titled.splitlines(keepends=True))


def _row(line: str) -> str:
    """Marks inline code that is one word as a name. GitHub wants a backslash before a | there; the site shows it."""

    def marked(match: re.Match[str]) -> str:
        code = match[1].replace("\\|", "|")
        return f"`{code}`" + ("{.name}" if re.fullmatch(r"[^\s|]{1,48}", code) else "")

    return _CODE.sub(marked, line)


# The pages of docs/try.md: what compiles each model, and what its page is shown with beside it.
LIVE: dict[str, tuple[list[str], list[str]]] = {
    "keyword": (["examples/keyword/spot.py", "{}", "yes", "no", "left"], ["--recording", "{}.wav"]),
    "digits": (["examples/digits/digits.py", "{}"], []),
    "heartbeats": (
        ["-m", "cortado", "compile", "ecg_conv1d", "--target", "cortex-m4", "--artifacts", "c", "-o", "{}"],
        [],
    ),
}


def make_live(place: Path = ROOT / "build" / "docs") -> None:
    """The networks that the site shows in the browser, into place/site/docs/try."""
    for name, (made, beside) in LIVE.items():
        folder = str(place / "live" / name)
        page = place / "site" / "docs" / "try" / f"{name}.html"
        for directory in (page.parent, place / "live"):
            directory.mkdir(parents=True, exist_ok=True)
        show = ["-m", "cortado", "show", folder, "--write", str(page), *beside]
        for command in (made, show):
            subprocess.run([sys.executable, *(part.format(folder) for part in command)], cwd=ROOT, check=True)


def build(place: Path = ROOT / "build" / "docs") -> subprocess.CompletedProcess[str]:
    """Stages into place/pages, builds into place/site."""
    stage(place / "pages")
    mkdocs = (sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(ROOT / "mkdocs.yml"))
    # Without an advertisement for its successor.
    environment = {**os.environ, "PAGES": str(place / "pages"), "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(
        [*mkdocs, "--site-dir", str(place / "site")],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


if __name__ == "__main__":
    done = build()
    if done.returncode == 0:
        make_live()
        print("written to build/docs/site; open build/docs/site/index.html")
    else:
        sys.stderr.write(done.stdout + done.stderr)
    raise SystemExit(done.returncode)
