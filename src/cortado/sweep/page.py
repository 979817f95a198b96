"""index.html of a sweep: the Pareto front of each chip as a picture, all rows as a table. One file, nothing loaded."""

from collections.abc import Sequence

from cortado.base.names import html_text
from cortado.sweep.rows import Status, SweepRow

WIDTH, HEIGHT, MARGIN = 920, 360, 56  # of a picture

STYLE = """
:root { color-scheme: light dark; --ink: #1d2733; --paper: #fff; --soft: #5b6875; --line: #c8d0d8; --dot: #7d93a8;
  --best: #c2571a; --shade: #f4f6f8 }
@media (prefers-color-scheme: dark) { :root { --ink: #dde5ec; --paper: #14191f; --soft: #93a1af; --line: #3a4550;
  --dot: #6d8297; --best: #f0894a; --shade: #1c232b } }
body { font: 15px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 1000px;
  margin: 2em auto; padding: 0 1em }
h1 { font-size: 1.5em } h2 { font-size: 1.1em; margin-top: 2em } p { color: var(--soft) }
svg { width: 100%; height: auto; background: var(--shade) } text { fill: var(--soft); font-size: 12px }
circle { fill: var(--dot) } circle.best { fill: var(--best) } circle:hover { stroke: var(--ink); stroke-width: 2 }
path { fill: none; stroke: var(--best); stroke-width: 1.5 } line { stroke: var(--line) }
.rows { overflow-x: auto } table { border-collapse: collapse; width: 100%; white-space: nowrap }
td, th { padding: 3px 10px 3px 0; text-align: left } th { border-bottom: 1px solid var(--line); cursor: pointer }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums }
tr.best td { color: var(--best) } tr:nth-child(even) td { background: var(--shade) } td.reason { white-space: normal }
"""
# A click on a column's head sorts by it; once more, the other way.
SCRIPT = """
for (const head of document.querySelectorAll("th")) head.onclick = () => {
  const body = head.closest("table").tBodies[0], at = head.cellIndex, up = head.dataset.up !== "1";
  head.dataset.up = up ? "1" : "0";
  const value = row => { const cell = row.cells[at].dataset.value ?? row.cells[at].textContent;
    return cell === "" ? Infinity : isNaN(cell) ? cell : Number(cell) };
  const order = (a, b) => a < b ? -1 : a > b ? 1 : 0;
  [...body.rows].sort((a, b) => (up ? 1 : -1) * order(value(a), value(b))).forEach(row => body.append(row));
};
"""
COLUMNS = ("model", "chip", "options", "RAM", "flash", "cycles", "ms", "fits", "status")
NUMBERS = frozenset({3, 4, 5, 6})


def build_page(rows: Sequence[SweepRow]) -> str:
    fine = [row for row in rows if row.status is Status.FINE]
    places = dict.fromkeys(row.place for row in fine)
    pictures = [_picture(place, [row for row in fine if row.place == place]) for place in places]
    body = "\n".join([*pictures, "<h2>All rows</h2>", _table(rows)])
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Sweep</title>
<style>{STYLE}</style>
</head>
<body>
<h1>Sweep: {len(fine)} of {len(rows)} rows with figures</h1>
<p>Marked rows are those that no other row of the same chip beats in RAM, flash and cycles together.</p>
{body}
<script>{SCRIPT}</script>
</body>
</html>
"""


# ---- pictures ------------------------------------------------------------------------------------------------------


def _picture(place: str, rows: Sequence[SweepRow]) -> str:
    """RAM over time, a dot for each row; the line joins those of the front that are best in these two."""
    timed = all(row.milliseconds is not None for row in rows)
    points = [(row.milliseconds if timed else row.cycles, row.ram_bytes, row) for row in rows]
    known = [(float(x), float(y), row) for x, y, row in points if x is not None and y is not None]
    widest, highest = max(x for x, _, _ in known) or 1.0, max(y for _, y, _ in known) or 1.0
    unit = "ms" if timed else "cycles"

    def at(x: float, y: float) -> tuple[float, float]:
        across = MARGIN + (WIDTH - 2 * MARGIN) * x / widest
        return round(across, 1), round(HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * y / highest, 1)

    dots = [_dot(*at(x, y), row) for x, y, row in sorted(known, key=lambda point: point[2].best)]
    front = _front([(x, y) for x, y, row in known if row.fits is not False])
    line = " L".join(" ".join(map(str, at(x, y))) for x, y in front)
    bottom = HEIGHT - MARGIN
    return f"""<h2>{html_text(place)}</h2>
<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="RAM and time of the rows for {html_text(place)}">
<line x1="{MARGIN}" y1="{bottom}" x2="{WIDTH - MARGIN}" y2="{bottom}"/>
<line x1="{MARGIN}" y1="{MARGIN}" x2="{MARGIN}" y2="{bottom}"/>
<text x="{WIDTH - MARGIN}" y="{HEIGHT - 20}" text-anchor="end">{_figure(widest)} {unit}</text>
<text x="{MARGIN}" y="{MARGIN - 12}">{_figure(highest)} bytes of RAM</text>
{f'<path d="M{line}"/>' if len(front) > 1 else ""}
{chr(10).join(dots)}
</svg>"""


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _dot(x: float, y: float, row: SweepRow) -> str:
    figures = [f"{row.ram_bytes:,} bytes of RAM", f"{row.cycles:,} cycles"]
    if row.flash_bytes is not None:
        figures.insert(1, f"{row.flash_bytes:,} of flash")
    told = html_text(f"{row.model} {row.options}: {', '.join(figures)}")
    kind = ' class="best"' if row.best else ""
    return f'<circle{kind} cx="{x}" cy="{y}" r="{5 if row.best else 4}"><title>{told}</title></circle>'


def _front(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """From the fastest on, each that needs less than all before it."""
    found: list[tuple[float, float]] = []
    for x, y in sorted(points):
        if not found or y < found[-1][1]:
            found.append((x, y))
    return found


# ---- the table -----------------------------------------------------------------------------------------------------


def _table(rows: Sequence[SweepRow]) -> str:
    head = "".join(f'<th{_kind(column)} scope="col">{html_text(name)}</th>' for column, name in enumerate(COLUMNS))
    lines = "\n".join(_line(row) for row in rows)
    return f'<div class="rows"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{lines}\n</tbody>\n</table></div>'


def _kind(column: int) -> str:
    return ' class="number"' if column in NUMBERS else ""


def _line(row: SweepRow) -> str:
    flash = row.weights_bytes if row.flash_bytes is None else row.flash_bytes
    fits = "" if row.fits is None else "yes" if row.fits else "no"
    cells: list[str | int | float | None] = [row.model, row.place, row.options]
    cells += [row.ram_bytes, flash, row.cycles, row.milliseconds, fits]
    texts = [_cell(column, cell) for column, cell in enumerate(cells)]
    status = row.status.value if not row.reason else f"{row.status.value}: {row.reason}"
    marked = ' class="best"' if row.best else ""
    return f'<tr{marked}>{"".join(texts)}<td class="reason">{html_text(status)}</td></tr>'


def _cell(column: int, value: str | int | float | None) -> str:
    if column not in NUMBERS:
        return f"<td>{html_text(str(value))}</td>"
    if value is None or isinstance(value, str):
        return '<td class="number" data-value=""></td>'
    text = f"{value:,}" if isinstance(value, int) else _figure(value)
    return f'<td class="number" data-value="{value}">{text}</td>'
