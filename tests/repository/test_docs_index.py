"""The index of the documents: every page is in it."""

import re

from helpers.paths import ROOT


def test_every_page_is_in_the_index() -> None:
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert pages <= set(re.findall(r"\(([\w-]+\.md)\)", (ROOT / "docs" / "README.md").read_text()))


def test_every_example_is_in_the_index() -> None:
    folders = {path.parent.name for path in (ROOT / "examples").glob("*/README.md")}
    assert folders == set(re.findall(r"\((\w+)/README\.md\)", (ROOT / "examples" / "README.md").read_text()))
