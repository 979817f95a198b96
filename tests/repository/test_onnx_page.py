"""The page on ONNX files has every operator that is read."""

from helpers.golden import Golden, generated
from helpers.onnx_page import table
from helpers.paths import ROOT


def test_the_table_of_operators(golden: Golden) -> None:
    page = ROOT / "docs" / "onnx.md"
    golden(page, generated(page.read_text(), "operators", table()))
