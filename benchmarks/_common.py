"""What the benchmarks share: the peers' figures, targets, tables, a history file."""

import argparse
import json
import logging
import math
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

logging.getLogger("torch.utils._pytree").setLevel(logging.ERROR)

FOLDER = Path(__file__).parent
BASELINES: dict[str, Any] = json.loads((FOLDER / "baselines.json").read_text())
# The peers' names of the cores they were measured on, as targets.
TARGETS = {
    "m0": "cortex-m0plus",
    "m3": "cortex-m3",
    "m4": "cortex-m4",
    "m7": "cortex-m7",
    "m33": "cortex-m33",
    "m55": "cortex-m55",
}
PEERS: dict[str, Any] = BASELINES["executorch_models"]
# What the peer's runtime takes beside its arena and method allocator, as baselines.json says.
PEER_STACK, PEER_STATIC = 2048, 1331
NETWORKS = tuple(BASELINES["executorch_compile_cpu_seconds"])
NOTE = "instructions are counted exactly by the emulator; they are not cycles"


def table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Aligned text; the first column to the left, numbers to the right."""
    cells = [[_text(cell) for cell in row] for row in [header, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    return "\n".join(
        "  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        for row in cells
    )


def _text(cell: Any) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:.2f}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


def measured(about: str | None, targets: str, measure: Callable[[str, list[str]], list[dict[str, Any]]]) -> Any:
    """What `measure` finds for the networks and targets of the command line; with --json it is printed instead."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--targets", default=targets)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    results = [r for n in arguments.networks.split(",") for r in measure(n, arguments.targets.split(","))]
    if arguments.json:
        print(json.dumps(results, indent=2))
        raise SystemExit(0)
    return results


def peer_ram(network: str, key: str) -> int | None:
    """All RAM of the peer: arena, method allocator, stack and static data; None where it was not measured."""
    peer = PEERS[network].get(key, {})
    if "method_allocator_bytes" not in peer:
        return None
    return int(peer["arena_bytes"]) + int(peer["method_allocator_bytes"]) + PEER_STACK + PEER_STATIC


def ratio(ours: float | None, theirs: float | None) -> float | None:
    return None if ours is None or not theirs else ours / theirs


def geometric_mean(values: Iterable[float]) -> float:
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs))


def progress(text: str) -> None:
    print(text, file=sys.stderr)


def remember(name: str, record: Any, path: Path | None) -> None:
    """Appends one line of JSON to a history file."""
    if path is not None:
        line = {"benchmark": name, "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "result": record}
        with path.open("a") as file:
            file.write(json.dumps(line) + "\n")
