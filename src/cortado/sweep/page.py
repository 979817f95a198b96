"""index.html of a sweep: the Pareto front of each chip as a picture, all rows as a table. One self-contained file."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
# A click on a column's head sorts by it; a second click reverses the order.
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
COLUMNS = ("model", "chip", "options", "score", "RAM", "flash", "cycles", "ms", "fits", "status")
NUMBERS = frozenset({3, 4, 5, 6, 7})


@dataclass(frozen=True)
class Axis:
    """Axis of a picture."""

    label: str
    value: Callable[[SweepRow], float | None]
    from_zero: bool = True  # else it starts at the minimum

    def known(self, rows: Sequence[SweepRow]) -> bool:
        return bool(rows) and all(self.value(row) is not None for row in rows)

    def ends(self, rows: Sequence[SweepRow]) -> tuple[float, float]:
        found = [self.value(row) or 0.0 for row in rows]
        least, most = 0.0 if self.from_zero else min(found), max(found)
        return least, most if most > least else least + 1.0


TIME = Axis("ms", lambda row: row.milliseconds)
CYCLES = Axis("cycles", lambda row: row.cycles)
RAM = Axis("bytes of RAM", lambda row: row.ram_bytes)
SCORE = Axis("score", lambda row: row.score, from_zero=False)


def build_page(rows: Sequence[SweepRow]) -> str:
    fine = [row for row in rows if row.status is Status.FINE]
    places = dict.fromkeys(row.place for row in fine)
    pictures = [_pictures(place, [row for row in fine if row.place == place]) for place in places]
    scored = any(row.score is not None for row in rows)
    beaten = "score, RAM, flash and cycles" if scored else "RAM, flash and cycles"
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
<p>Marked rows are those that no other row of the same chip beats in {beaten} at once.</p>
{body}
<script>{SCRIPT}</script>
</body>
</html>
"""


# ---- pictures ------------------------------------------------------------------------------------------------------


def _pictures(place: str, rows: Sequence[SweepRow]) -> str:
    """Plots RAM over time; if rows have scores, these over time and over RAM."""
    scored = [row for row in rows if row.score is not None]
    shown = scored or rows
    time = TIME if TIME.known(shown) else CYCLES
    pairs = [(time, SCORE), (RAM, SCORE)] if scored else [(time, RAM)]
    return "\n".join([f"<h2>{html_text(place)}</h2>", *(_picture(place, shown, *pair) for pair in pairs)])


def _picture(place: str, rows: Sequence[SweepRow], across: Axis, up: Axis) -> str:
    """Plots a dot for each row; the line connects the Pareto front in these two figures."""
    (left, right), (low, high) = across.ends(rows), up.ends(rows)
    points = [(across.value(row) or 0.0, up.value(row) or 0.0, row) for row in rows]

    def at(x: float, y: float) -> tuple[float, float]:
        over = MARGIN + (WIDTH - 2 * MARGIN) * (x - left) / (right - left)
        return round(over, 1), round(HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * (y - low) / (high - low), 1)

    dots = [_dot(*at(x, y), row) for x, y, row in sorted(points, key=lambda point: point[2].best)]
    front = _front([(x, y) for x, y, row in points if row.eligible], more=up is SCORE)
    line = " L".join(" ".join(map(str, at(x, y))) for x, y in front)
    bottom = HEIGHT - MARGIN
    begins = "" if up.from_zero else f'<text x="{MARGIN}" y="{HEIGHT - 20}">from {_figure(low)}</text>'
    return f"""<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img"
 aria-label="{up.label} and {across.label} of the rows for {html_text(place)}">
<line x1="{MARGIN}" y1="{bottom}" x2="{WIDTH - MARGIN}" y2="{bottom}"/>
<line x1="{MARGIN}" y1="{MARGIN}" x2="{MARGIN}" y2="{bottom}"/>
<text x="{WIDTH - MARGIN}" y="{HEIGHT - 20}" text-anchor="end">{_figure(right)} {across.label}</text>
<text x="{MARGIN}" y="{MARGIN - 12}">{_figure(high)} {up.label}</text>{begins}
{f'<path d="M{line}"/>' if len(front) > 1 else ""}
{chr(10).join(dots)}
</svg>"""


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _dot(x: float, y: float, row: SweepRow) -> str:
    figures = [f"{row.ram_bytes:,} bytes of RAM", f"{row.cycles:,} cycles"]
    if row.flash_bytes is not None:
        figures.insert(1, f"{row.flash_bytes:,} of flash")
    if row.score is not None:
        figures.insert(0, f"score {row.score:.4g}")
    told = html_text(f"{row.model} {row.options}: {', '.join(figures)}")
    kind = ' class="best"' if row.best else ""
    return f'<circle{kind} cx="{x}" cy="{y}" r="{5 if row.best else 4}"><title>{told}</title></circle>'


def _front(points: Sequence[tuple[float, float]], *, more: bool) -> list[tuple[float, float]]:
    """Returns the Pareto front in two figures, from the cheapest on: lower values of the second are better, or higher
    ones if `more`."""
    sign = -1.0 if more else 1.0
    found: list[tuple[float, float]] = []
    for x, y in sorted(points, key=lambda point: (point[0], sign * point[1])):
        if not found or sign * y < sign * found[-1][1]:
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
    cells += [row.score, row.ram_bytes, flash, row.cycles, row.milliseconds, fits]
    texts = [_cell(column, cell) for column, cell in enumerate(cells)]
    why = row.reason or (f"not {row.over}" if row.over else "")
    status = f"{row.status.value}: {why}" if why else row.status.value
    marked = ' class="best"' if row.best else ""
    return f'<tr{marked}>{"".join(texts)}<td class="reason">{html_text(status)}</td></tr>'


def _cell(column: int, value: str | int | float | None) -> str:
    if column not in NUMBERS:
        return f"<td>{html_text(str(value))}</td>"
    if value is None or isinstance(value, str):
        return '<td class="number" data-value=""></td>'
    text = f"{value:,}" if isinstance(value, int) else _figure(value)
    return f'<td class="number" data-value="{value}">{text}</td>'
