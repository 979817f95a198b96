"""The documentation as a site: every page is there, no link is dead, and no Markdown is shown as it was typed."""

from html.parser import HTMLParser
from pathlib import Path

import pytest

from helpers.site import built_site, documentation

CODE = ("pre", "code", "script", "style")


class _Prose(HTMLParser):
    """The text of a page that is not code."""

    def __init__(self) -> None:
        super().__init__()
        self.inside: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in CODE:
            self.inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self.inside and tag == self.inside[-1]:
            self.inside.pop()

    def handle_data(self, data: str) -> None:
        if not self.inside:
            self.text += data


def prose(page: str) -> str:
    parser = _Prose()
    parser.feed(page)
    return parser.text


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_site(tmp_path_factory.mktemp("site"))


def test_the_site_has_every_page(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = documentation(monkeypatch).documents()
    pages = [path.with_suffix(".html") for path in documents if path.name != "README.md"]
    assert [page for page in pages if not (site / page).is_file()] == []


def test_no_page_shows_its_markdown(site: Path) -> None:
    """A fence that is not closed or not understood, an attribute that nothing takes, a | with GitHub's backslash."""
    pages = {path.relative_to(site).as_posix(): path.read_text() for path in site.rglob("*.html")}
    assert len(pages) > 40
    for name, page in pages.items():
        assert [mark for mark in ("```", "~~~", "file=", "{.name}", "title=") if mark in prose(page)] == [], name
        assert "\\|" not in page, name


def test_a_raw_fence_would_be_found() -> None:
    assert "```" in prose("<p>```python file=a.py</p><pre><code>x</code></pre>")
    assert "```" not in prose("<pre><code>```</code></pre>")


def test_a_dead_link_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = documentation(monkeypatch)
    staged = tool.stage

    def with_a_dead_link(place: Path) -> None:
        staged(place)
        page = place / "docs" / "state.md"
        page.write_text(page.read_text() + "\n[nothing](no-such-page.md)\n")

    monkeypatch.setattr(tool, "stage", with_a_dead_link)
    done = tool.build(tmp_path)
    assert done.returncode != 0
    assert "no-such-page.md" in done.stderr
