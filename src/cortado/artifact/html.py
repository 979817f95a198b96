"""HTML from untrusted text: everything is escaped except what is marked as markup."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from cortado.base.names import html_text
from cortado.base.system import WEB

GENERATOR = '<meta name="generator" content="Cortado">'
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"  # loads nothing from elsewhere


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


@dataclass(frozen=True)
class TableCell:
    """A table's cell; `share`, from 0 to 1, is drawn as a bar behind its text."""

    text: str
    value: float | None = None  # its sort key, if that is not the text
    share: float | None = None
    kind: str = ""  # a class of the style sheet


@dataclass(frozen=True)
class Table:
    """A table; the columns in `numbers` are aligned right, and `foot` is a row of sums."""

    head: Sequence[str]
    rows: Iterable[Sequence[Any]]
    numbers: frozenset[int] = field(default_factory=frozenset)
    foot: Sequence[Any] = ()
    sortable: bool = False
    name: str = ""

    def markup(self) -> Markup:
        kinds = " ".join(["stick", *(["sortable"] if self.sortable else [])])
        foot = f"<tfoot>{self._line(self.foot)}</tfoot>" if self.foot else ""
        body = "\n".join(self._line(row) for row in self.rows)
        named = f' id="{self.name}"' if self.name else ""
        head = "".join(f"<th{self._kind(at)}>{html_text(text)}</th>" for at, text in enumerate(self.head))
        return Markup(
            f'<div class="scroll"><table class="{kinds}"{named}>\n<thead><tr>{head}</tr></thead>\n'
            f"<tbody>\n{body}\n</tbody>{foot}</table></div>"
        )

    def _line(self, cells: Sequence[Any]) -> str:
        return f"<tr>{''.join(self._cell(at, cell) for at, cell in enumerate(cells))}</tr>"

    def _cell(self, column: int, cell: Any) -> str:
        shown = cell if isinstance(cell, TableCell) else _plain(cell)
        kinds = [shown.kind, "number" if column in self.numbers else "", "bar" if shown.share is not None else ""]
        text = " ".join(kind for kind in kinds if kind)
        value = "" if shown.value is None else f' data-value="{shown.value:.12g}"'
        share = "" if shown.share is None else f' style="--share:{100 * shown.share:.1f}%"'
        found = f' class="{text}"' if text else ""
        inner = shown.text if isinstance(shown.text, Markup) else html_text(shown.text)
        return f"<td{found}{value}{share}>{inner}</td>"

    def _kind(self, column: int) -> str:
        return ' class="number"' if column in self.numbers else ""


def _plain(value: Any) -> TableCell:
    if isinstance(value, bool):
        return TableCell("yes" if value else "no")
    if isinstance(value, int):
        return TableCell(f"{value:,}", value)
    return TableCell(value if isinstance(value, str) else "" if value is None else str(value))


def bullets(items: Sequence[str]) -> Markup:
    return Markup("<ul>" + "".join(f"<li>{html_text(item)}</li>" for item in items) + "</ul>" if items else "")


def note(text: str) -> Markup:
    """Returns a paragraph of notes, with text in backquotes as code."""
    pieces = html_text(text).split("`")
    return Markup(f'<p class="note">{"".join(f"<code>{x}</code>" if at % 2 else x for at, x in enumerate(pieces))}</p>')


def section(title: str, *content: str) -> Markup:
    """Returns a section of the page; empty without content."""
    inner = "\n".join(piece for piece in content if piece)
    return Markup(f"<section>\n<h2>{html_text(title)}</h2>\n{inner}\n</section>" if inner else "")


def embedded(name: str, data: Any) -> Markup:
    """Embeds data for the page's script, escaped so that no text can close the element."""
    text = json.dumps(data, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(f'<script type="application/json" id="{name}">{text}</script>')


def document(title: str, body: Iterable[str]) -> str:
    """Returns a self-contained page: style and script are inlined, and nothing is loaded."""
    style, script = ((WEB / f"report.{kind}").read_text() for kind in ("css", "js"))
    inner = "\n".join(part for part in body if part)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
{GENERATOR}
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{html_text(title)}</title>
<style>
{style}</style>
</head>
<body>
{inner}
<script>
{script}</script>
</body>
</html>
"""
