"""docs/testing.md, from the summaries of the long campaigns."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from fuzz.combined import Coverage
from helpers import covered, durations, judged, long_run

PAGE, SUMMARY, COMBINED = "docs/testing.md", "tests/fuzz/summary.json", "tests/fuzz/combined.json"

HEAD = """# The campaign

`make test` checks a few dozen random networks; `make fuzz` checks thousands. A seed determines a network: its layers,
options, weights and data. Each network has 20 to 60 layers that contribute to some output, drawn from all operators
that Cortado claims to support, with in-place writes, views, aliases, modules used twice, several inputs and outputs,
odd sizes and one to five dimensions.

| what is compared | with | tolerance |
|---|---|---|
| the captured graph, in float | torch running the user's module | rounding (60 dB) |
| the integer reference | the same module, relative to PT2E's quantized graph | 3 dB, and the rounding of a code |
| the C bundle on this machine, under ASan and UBSan, every second one with runtime checks | the reference | none |
| the release build on emulated boards, every store watched | the reference | none |
| the same build under a timer interrupt that overwrites every register it may | the reference | none |
| the `.pte` on ExecuTorch's runtime | the reference | none |

A network that Cortado refuses with a message counts as refused, not as checked; any other exception is a bug.

    make fuzz                              # 3,000 networks from seed 0; can be stopped and resumed
    make fuzz SEED=50000 NETWORKS=500      # other networks
    make fuzz-page                         # adds the last campaign to this page

The journal is `build/fuzz/journal-SEED-VERSION.jsonl`, with one line per network; a new journal is started when Cortado
or the generator changes. A failing network is minimized and written to `build/fuzz/repro-KIND-SEED.py`, a program that
exits with 1 as long as the failure exists. `tests/networks/test_fuzz.py` also tries hostile names and damaged folders.

In addition to the general networks, a campaign draws five families with their own generators:

- **integers**: networks of integers and truth values only: arithmetic in types that wrap around, counts, comparisons,
  computed positions, data movement, writes. On new data, the reference must equal torch exactly, and the C bundle must
  give the reference's bits.
- **elements**: tensors of 16 bits, a mixture of 8 and 16 bits, all or some in float32, 4-bit weights, inputs of bytes,
  samples and ids, filters, rows of more than 1,023 values, rare calls. 16 bits must reach 30 dB against torch if no
  function has jumps, float32 must reach 100 dB; every fifth network also runs on a board.
- **masks**: masked scores, with variations in where the mask comes from, what is computed from it, how it is moved and
  what reads it. Hidden places must have no influence, the rest may be at most 5 dB further from torch than without a
  mask, and the C code must give the same bits.
- **state**: buffers that `forward` changes: rings, averages, cells, counters, caches. Over 50 new steps, the C bundle
  must give the reference's bits, and the reference must reach 15 dB against torch; every fifth network also runs on a
  board.
- **streams**: networks over a window of an endless stream of rows. Over 70 rows, every window must give the reference's
  bits; every fifth network also runs on a board.

Finally there are **combinations** of features. Each has a form (plain, state, stream of rows, stream of samples with
any window, hop and FFT, rows in, camera, decision, several outputs, ids in, truth out, several methods), an element
type or input format (int8, int16, mixed, int4, float32, some modules in float32, only what has no integer operator in
float32, prequantized, ONNX, `.pt2`), a product (C, image, `.pte` of ExecuTorch's operators, delegate, several models
together, `--memory`, seven packages including the one for browsers) and a "door", a way to use it (run on this machine,
in WebAssembly, on a board; probe, profile, validate, evaluate, self-test, saturation, estimate, report page, README
example, state saved and loaded). The seed draws the schedule, the calibration method, bias corrections, scales per
tensor, groups of int4 weights, int8 state and float inputs and outputs; whether a decision is over state or over a
stream, and whether a watched network is a stream; whether methods count, train a head (beside torch's optimizer) or
take examples of classes (beside cosines in float). All pairs are drawn equally often; `make test` runs 60 combinations.
Several models together are the drawn one and a plain one, each with an arena or both with one, which both run their
self-tests; an image of several methods runs calls of them in turns. The result of a door is checked against a simple
model in the test: outputs with the module run eagerly (8 dB, int16 25, int4 3, float32 100) and with the reference (no
tolerance), the number of outputs, decisions and saturated values with independent counts, ranges with the limits of
NumPy's types, bytes with the files, cycles with the emulated core (15 percent), and the example with what it prints on
a board. The journal is `build/fuzz/combinations-SEED-VERSION.jsonl`.

    PYTHONPATH=tests .venv/bin/python -m fuzz --networks 0 --combinations 200 --seed 3
"""


Summary = Mapping[str, Any]


def page(campaigns: Sequence[Summary], combined: Sequence[Summary]) -> str:
    measured = (long_run.table(), covered.table(), judged.table(), durations.table())
    parts = [*_counts(campaigns), "", *_combined(combined), *(line for lines in measured for line in lines)]
    return HEAD + "\n" + "\n".join(parts) + "\n"


def _counts(campaigns: Sequence[Summary]) -> list[str]:
    layers, calls = _spread([found["layers"] for found in campaigns]), _spread([found["calls"] for found in campaigns])
    boards = sum((Counter(found["boards"]) for found in campaigns), Counter[str]())
    refused = sum((Counter(found["refused"]) for found in campaigns), Counter[str]())
    return [
        "## The long campaigns",
        "",
        f"Networks had {layers} layers, and their lowered graphs {calls} calls. On boards: "
        + ", ".join(f"{name} {count:,}" for name, count in sorted(boards.items()))
        + ".",
        "",
        "| seeds | drawn | right on this machine, under sanitizers | right on boards, stores watched | right on "
        "boards, disturbed by interrupts | right as a `.pte` | refused | wrong |",
        "|---|---|---|---|---|---|---|---|",
        *(_row(f"{found['seeds'][0]:,} to {found['seeds'][1]:,}", [found]) for found in campaigns),
        _row("all", campaigns),
        "",
        *_families(campaigns),
        *_bugs(campaigns),
        "| claimed | covered by the campaigns | never covered |",
        "|---|---|---|",
        *(_covered(name, [found["coverage"][key] for found in campaigns]) for name, key in COVERED.items()),
        "",
        "| why networks were refused | number |",
        "|---|---|",
        *(f"| {why} | {count:,} |" for why, count in refused.most_common()),
    ]


def _combined(campaigns: Sequence[Summary]) -> list[str]:
    """Combinations by seed, by value, and the pairs that were never right."""
    if not campaigns:
        return []
    lines = ["## Combinations", "", "| seed | drawn | right | refused with a message | torch can't write | wrong |"]
    lines += ["|---|---|---|---|---|---|", *(_outcomes(f"{found['seed']:,}", found) for found in campaigns)]
    found = Coverage.of(campaigns)
    lines += [
        "",
        f"{found}. Never right, because they are refused, torch can't write them, or they were not drawn yet: "
        f"{', '.join(found.never)}.",
    ]
    lines += ["", "| value | right | refused | torch can't write | wrong |", "|---|---|---|---|---|"]
    values = dict.fromkeys(value for one in campaigns for value in one["values"])
    for value in values:
        counts = [one["values"].get(value, (0, 0, 0, 0)) for one in campaigns]
        lines.append(f"| {value} | " + " | ".join(f"{sum(count):,}" for count in zip(*counts, strict=True)) + " |")
    return [*lines, ""]


def _outcomes(name: str, found: Summary) -> str:
    return f"| {name} | {found['combinations']:,} | " + " | ".join(f"{n:,}" for n in found["outcomes"].values()) + " |"


def _others(found: Summary) -> Mapping[str, Summary]:
    return found["families"]


def _families(campaigns: Sequence[Summary]) -> list[str]:
    """Counts of the other families, and what was drawn in them how often."""
    names = dict.fromkeys(name for found in campaigns for name in _others(found))
    lines = [
        "| family | drawn | right on this machine | right on boards | refused | wrong |",
        "|---|---|---|---|---|---|",
    ]
    for name in names:
        own = [_others(found)[name] for found in campaigns if name in _others(found)]
        numbers = [
            sum(found["networks"] for found in own),
            sum(found["host"] for found in own),
            sum(sum(found["boards"].values()) for found in own),
            sum(sum(found["refused"].values()) for found in own),
            sum(len(found["bugs"]) for found in own),
        ]
        lines.append(f"| {name} | " + " | ".join(f"{number:,}" for number in numbers) + " |")
    lines += ["", "| family | number of networks by feature |", "|---|---|"]
    for name in names:
        drawn = sum((Counter(_others(found)[name]["drawn"]) for found in campaigns), Counter[str]())
        lines.append(f"| {name} | " + ", ".join(f"{what} {count:,}" for what, count in sorted(drawn.items())) + " |")
    return [*lines, ""]


def _row(name: str, campaigns: Sequence[Summary]) -> str:
    numbers = [
        sum(found["networks"] for found in campaigns),
        sum(found["host"] for found in campaigns),
        sum(sum(found["boards"].values()) for found in campaigns),
        sum(found["interrupts"] for found in campaigns),
        sum(found["pte"] for found in campaigns),
        sum(sum(found["refused"].values()) for found in campaigns),
        sum(len(found["bugs"]) for found in campaigns),
    ]
    return f"| {name} | " + " | ".join(f"{number:,}" for number in numbers) + " |"


def _spread(found: Sequence[Sequence[int]]) -> str:
    return f"{min(low for low, _, _ in found)} to {max(high for _, _, high in found)}"


COVERED = {"aten overloads": "aten", "operators of the lowered graph": "operators", "kernel sources": "kernels"}


def _covered(name: str, campaigns: Sequence[Summary]) -> str:
    """Claimed is what the last campaign knew."""
    last = campaigns[-1]
    missed = [item for item in last["never"] if not any(item in found["counts"] for found in campaigns)]
    never = ", ".join(f"`{item}`" for item in missed) or "-"
    return f"| {last['claimed']} {name} | {last['claimed'] - len(missed)} | {never} |"


def _bugs(campaigns: Sequence[Summary]) -> list[str]:
    """`since` is written by hand, when it is known."""
    bugs = [bug for found in campaigns for own in (found, *_others(found).values()) for bug in own["bugs"]]
    if not bugs:
        return []
    lines = [
        f"| {bug['family']} {bug['seed']} | {bug['what'].splitlines()[0]} | {bug.get('since', 'open')} |"
        for bug in bugs
    ]
    return ["| seed | what was wrong | since |", "|---|---|---|", *lines, ""]
