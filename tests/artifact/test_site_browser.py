"""Six pages of the documentation's site in headless Chromium: code in colours, names in one piece, nothing too wide."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.browser import Browser, chromium
from helpers.site import built_site

pytestmark = pytest.mark.xdist_group("browser")

PAGES = ["index", "docs/tutorial", "docs/firmware", "docs/cli", "docs/python", "docs/operators"]
BROKEN_NAMES = "return [...document.querySelectorAll('td code.name')].filter(c => c.getClientRects().length > 1).length"
COLOURS = """
const blocks = [...document.querySelectorAll('.language-python code, .language-c code')];
return blocks.map(block => new Set([...block.querySelectorAll('span')].map(span => getComputedStyle(span).color)).size)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_site(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.mark.parametrize("page", PAGES)
def test_a_page_looks_as_it_should(browser: Browser, site: Path, page: str) -> None:
    browser.open(site / f"{page}.html")
    assert browser.said() == []
    assert browser.run(BROKEN_NAMES) == 0
    assert browser.run("return document.documentElement.scrollWidth <= window.innerWidth")
    assert all(colours > 1 for colours in browser.run(COLOURS))


def test_the_tutorials_files_are_code_with_their_names(browser: Browser, site: Path) -> None:
    browser.open(site / "docs" / "tutorial.html")
    assert [title.text for title in browser.all(".highlight .filename")] == ["gestures.py", "main.c", "taught.py"]
    assert len(browser.run(COLOURS)) == 3
    assert "def __init__(self):" in browser.text(".language-python")
    assert "__init__" not in [bold.text for bold in browser.all("strong, b")]


def test_a_name_that_was_broken_would_be_found(browser: Browser, site: Path) -> None:
    browser.open(site / "docs" / "cli.html")
    browser.run(
        "const style = document.createElement('style');"
        "style.textContent = '.md-typeset table code.name { white-space: normal; word-break: break-all; }"
        " .md-typeset table td:first-child { max-width: 4rem; }';"
        "document.head.append(style)"
    )
    assert browser.run(BROKEN_NAMES) > 0
