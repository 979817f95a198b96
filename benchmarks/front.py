"""The README's table and picture from the stored results of the benchmarks: this measures nothing.

python benchmarks/front.py            prints the table
python benchmarks/front.py picture    prints the picture, docs/images/networks.svg
"""

import sys
from dataclasses import dataclass

import compile_time
from _common import PEERS, peer_flash, peer_ram
from performance import markdown, stored

KEY = "m55"


@dataclass(frozen=True)
class Row:
    """One network on the Cortex-M55, here and there."""

    network: str
    ram: tuple[int, int]
    flash: tuple[int, int]
    instructions: tuple[int, int]
    cycles: int | None
    compile_ratio: float | None

    @property
    def ratios(self) -> dict[str, float]:
        pairs = {"RAM": self.ram, "flash": self.flash, "instructions": self.instructions}
        return {what: ours / theirs for what, (ours, theirs) in pairs.items()}


def rows() -> list[Row]:
    names = ("networks", "cycles", "compile_time")
    networks, cycles, compiles = ((stored(name) or {}).get("results", {}) for name in names)
    typical = {one["network"]: one["cycles"]["typical"] for one in cycles if one["target"] == KEY}
    ratios = {name: ratio for name, *_, ratio in compile_time.rows_of(compiles)} if compiles else {}
    found = []
    for name, ours in networks.items():
        peer, mine = PEERS.get(name, {}).get(KEY, {}), ours[KEY]
        ram, flash = peer_ram(name, KEY), peer_flash(name, KEY)
        if ram is None or flash is None:
            continue
        found.append(
            Row(
                network=name,
                ram=(mine["arena_bytes"] + mine["stack_bytes"], ram),
                flash=(mine["weights_bytes"] + mine["code_bytes"], flash),
                instructions=(mine["instructions"], peer["execute_instructions"]),
                cycles=typical.get(name),
                compile_ratio=ratios.get(name),
            )
        )
    return found


def table() -> str:
    def kb(value: int) -> str:
        return f"{value / 1000:,.1f}"

    def millions(value: int | None) -> str:
        return "-" if value is None else f"{value / 1e6:,.2f}"

    body = [
        [
            one.network,
            f"**{kb(one.ram[0])}** / {kb(one.ram[1])}",
            f"**{kb(one.flash[0])}** / {kb(one.flash[1])}",
            f"**{millions(one.instructions[0])}** / {millions(one.instructions[1])}",
            millions(one.cycles),
            "-" if one.compile_ratio is None else f"{one.compile_ratio:.2f}",
        ]
        for one in rows()
    ]
    return markdown(["Cortex-M55", "RAM, KB", "flash, KB", "M instructions", "M cycles", "compile time, ratio"], body)


# ---- the picture --------------------------------------------------------------------------------------------------

WIDTH, LEFT, BAR, GAP, TOP = 760, 150, 11, 14, 46
_FULL = WIDTH - LEFT - 70
_COLORS = {"RAM": "#2f6fed", "flash": "#12a37f", "instructions": "#e08a1e"}
_STYLE = """text { font: 12px system-ui, sans-serif; fill: #333 } .small { font-size: 10px }
.full { stroke: #999; stroke-dasharray: 3 3 }
@media (prefers-color-scheme: dark) { text { fill: #ddd } .full { stroke: #888 } }"""


def picture() -> str:
    """What is left of the peer's RAM, flash and instructions: a bar each, 100% at the dashed line."""
    found, parts, y = rows(), [], TOP
    for one in found:
        parts.append(f'<text x="{LEFT - 10}" y="{y + 22}" text-anchor="end">{one.network}</text>')
        for what, part in one.ratios.items():
            size = max(round(part * _FULL, 1), 1)
            parts.append(f'<rect x="{LEFT}" y="{y}" width="{size}" height="{BAR - 2}" fill="{_COLORS[what]}"/>')
            parts.append(f'<text class="small" x="{LEFT + size + 5}" y="{y + BAR - 2}">{part:.0%}</text>')
            y += BAR
        y += GAP
    legend = "".join(
        f'<rect x="{LEFT + 110 * i}" y="8" width="10" height="10" fill="{color}"/>'
        f'<text x="{LEFT + 110 * i + 15}" y="17">{what}</text>'
        for i, (what, color) in enumerate(_COLORS.items())
    )
    line = f'<line class="full" x1="{LEFT + _FULL}" x2="{LEFT + _FULL}" y1="{TOP - 6}" y2="{y - GAP}"/>'
    label = f'<text class="small" x="{LEFT + _FULL}" y="{TOP - 12}" text-anchor="middle">ExecuTorch + CMSIS-NN</text>'
    body = "\n".join([legend, line, label, *parts])
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" role="img">
<title>RAM, flash and instructions of networks on a Cortex-M55, relative to ExecuTorch with CMSIS-NN</title>
<style>{_STYLE}</style>
{body}
</svg>
"""


if __name__ == "__main__":
    print(picture() if sys.argv[1:] == ["picture"] else table(), end="")
