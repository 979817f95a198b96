"""The tensors and their elements in report.html, where measurement chose them."""

from cortado.artifact.html import Markup, Table, note
from cortado.artifact.report import Report


def precision_table(report: Report) -> Markup:
    """Nothing where the user chose."""
    found = report.precision
    if found is None:
        return Markup("")
    rows = [(one.tensor, one.module, one.element, one.why) for one in found.tensors]
    text = (
        f"`{found.bar}`: {found.reached}, {found.int8} with int8 alone. RAM {found.arena_bytes:,} bytes, "
        f"{found.int8_arena_bytes:,} with int8 alone."
    )
    table = Table(("tensor", "module", "element", "why"), rows, name="precision").markup()
    return Markup(f"{table}\n{note(text)}")
