"""docs/testing.md, from the summary of the last long campaign."""

from collections.abc import Mapping
from typing import Any

PAGE, SUMMARY = "docs/testing.md", "tests/fuzz/summary.json"

HEAD = """# The campaign

`make test` checks a few dozen random networks; `make fuzz` checks thousands. A network is a seed: layers, options,
weights and data follow from it. It has 20 to 60 layers that some output needs, of every operator that Cortado claims,
with writes in place, views, values under several names, modules that are used twice, several inputs and outputs, odd
sizes and one to five dimensions.

| what is compared | with | tolerance |
|---|---|---|
| the captured graph, in float | torch running the user's module | rounding (60 dB) |
| the integer reference | the same module, beside PT2E's quantized graph | 3 dB, and the rounding of a code |
| the C bundle on this machine, under ASan and UBSan, every second one with its own checks | the reference | none |
| the release build on emulated boards, every store watched | the reference | none |
| the same under a timer interrupt that leaves every register dirty | the reference | none |
| the `.pte` on ExecuTorch's runtime | the reference | none |

A network that Cortado refuses with a message counts as refused, not as checked; any other exception is a bug.

    make fuzz                              # 3,000 networks from seed 0; stops and goes on where it was
    make fuzz SEED=50000 NETWORKS=500      # others
    make fuzz-page                         # writes this page from the last campaign

The journal is `build/fuzz/journal-SEED-VERSION.jsonl`, a line for each network; it starts anew when Cortado or the
generator changes. What fails is made small and written to `build/fuzz/repro-KIND-SEED.py`, a program that exits 1 as
long as it fails. Hostile names and damaged folders are drawn by `tests/networks/test_fuzz.py`.
"""


def page(summary: Mapping[str, Any]) -> str:
    return HEAD + "\n" + "\n".join(_counts(summary)) + "\n"


def _counts(found: Mapping[str, Any]) -> list[str]:
    first, last = found["seeds"]
    boards = ", ".join(f"{name} {count:,}" for name, count in found["boards"].items())
    low, middle, high = found["layers"]
    fewest, half, most = found["calls"]
    return [
        "## The last long campaign",
        "",
        f"Seeds {first:,} to {last:,}. Layers: {low} to {high}, {middle} in the middle; calls of the lowered graph: "
        f"{fewest} to {most}, {half} in the middle.",
        "",
        "| networks | number |",
        "|---|---|",
        f"| drawn | {found['networks']:,} |",
        f"| right on this machine, under sanitizers | {found['host']:,} |",
        f"| right on boards, stores watched | {sum(found['boards'].values()):,} ({boards}) |",
        f"| right on boards, disturbed by interrupts | {found['interrupts']:,} |",
        f"| right as a `.pte` | {found['pte']:,} |",
        f"| refused | {sum(found['refused'].values()):,} |",
        f"| wrong | {len(found['bugs']):,} |",
        "",
        *_bugs(found),
        "| claimed | met by the campaign | never |",
        "|---|---|---|",
        *(_covered(name, found["coverage"][key]) for name, key in COVERED.items()),
        "",
        "| why networks were refused | number |",
        "|---|---|",
        *(f"| {why} | {count:,} |" for why, count in found["refused"].items()),
    ]


COVERED = {"aten overloads": "aten", "operators of the lowered graph": "operators", "kernel sources": "kernels"}


def _covered(name: str, covered: Mapping[str, Any]) -> str:
    never = ", ".join(f"`{item}`" for item in covered["never"]) or "-"
    return f"| {covered['claimed']} {name} | {covered['met']} | {never} |"


def _bugs(found: Mapping[str, Any]) -> list[str]:
    if not found["bugs"]:
        return []
    lines = [f"- seed {bug['seed']}: {bug['kind']}: {bug['what'].splitlines()[0]}" for bug in found["bugs"]]
    return ["What was wrong:", "", *lines, ""]
