"""The index of the documents has every page; the page of how-tos names files and names that exist."""

import re

from helpers.paths import ROOT


def test_every_page_is_in_the_index() -> None:
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert pages <= set(re.findall(r"\(([\w-]+\.md)\)", (ROOT / "docs" / "README.md").read_text()))


def test_every_example_is_in_the_index() -> None:
    folders = {path.parent.name for path in (ROOT / "examples").glob("*/README.md")}
    assert folders == set(re.findall(r"\((\w+)/README\.md\)", (ROOT / "examples" / "README.md").read_text()))


NAMED = re.compile(r"`(\w+)` of\s+`((?:src|tests)/[\w/]+\.py)`")
WANTED = ["operator", "element type", "core", "chip or board", "emulated board", "option", "package", "pass"]


def test_every_name_of_the_how_tos_is_in_its_file() -> None:
    found = NAMED.findall((ROOT / "docs" / "adding.md").read_text())
    assert len(found) >= 20
    assert [(name, file) for name, file in found if not re.search(rf"\b{name}\b", (ROOT / file).read_text())] == []


def test_there_is_a_how_to_for_everything_that_is_added() -> None:
    text = (ROOT / "docs" / "adding.md").read_text()
    headings = [re.sub(r"^An? ", "", title) for title in re.findall(r"^## (.*)$", text, re.MULTILINE)]
    assert headings == [*WANTED, "Where is it decided?"]
    for section in text.split("\n## ")[1:-1]:
        assert re.search(r"`tests/[\w/.]+`", section), section.splitlines()[0]  # the test that asks for what is missing
