"""What the benchmarks share: the peers' figures, targets, tables, a history file, processes of their own."""

import argparse
import json
import logging
import math
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cortado import api
    from cortado.artifact.report import FlashReport, MemoryReport
    from cortado.emit.c.bundle import Bundle
    from cortado.profile import Profile
    from cortado.scoring.scores import Evaluation

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
AND_PRUNED = (*NETWORKS, "mobilenet_v1_pruned")  # mobilenet_v1_025 trained, with channels of zeros
NOTE = "instructions are counted exactly by the emulator; they are not cycles"


def table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Aligned text; the first column to the left, numbers to the right."""
    cells = [[cell_text(cell) for cell in row] for row in [header, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    return "\n".join(
        "  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        for row in cells
    )


def cell_text(cell: Any) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:.2f}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


def measured(
    about: str | None,
    targets: str,
    measure: Callable[[str, list[str]], list[dict[str, Any]]],
    networks: str = ",".join(NETWORKS),
) -> Any:
    """What `measure` finds for the networks and targets of the command line; with --json it is printed instead."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default=networks)
    parser.add_argument("--targets", default=targets)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    results = [r for n in arguments.networks.split(",") for r in measure(n, arguments.targets.split(","))]
    if arguments.json:
        print(json.dumps(results, indent=2))
        raise SystemExit(0)
    return results


def measured_apart(
    about: str | None, networks: str, target: str, measure: Callable[[str, str], dict[str, Any]]
) -> list[dict[str, Any]]:
    """What `measure` finds for each network, in a process of its own; with --json it is printed instead."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default=networks)
    parser.add_argument("--target", default=target)
    parser.add_argument("--limit", type=float, default=600.0, help="seconds after which a network is given up")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(measure(arguments.child, arguments.target)))
        raise SystemExit(0)
    results = []
    for network in arguments.networks.split(","):
        progress(network)
        results.append(_in_a_child(network, arguments.target, arguments.limit))
    if arguments.json:
        print(json.dumps(results, indent=2))
        raise SystemExit(0)
    return results


def _in_a_child(network: str, target: str, limit: float) -> dict[str, Any]:
    """What this program prints for one network; no seconds if it took more than the limit."""
    command = [sys.executable, sys.argv[0], "--child", network, "--target", target]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"network": network, "seconds": None, "phases": {}}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def compile_timed(
    name: str, target: str, build: Callable[[], tuple[Any, Any, Any]]
) -> tuple["api.Compiled", dict[str, Any]]:
    """Compiles and writes a network (module, example, calibration): the CPU seconds it took, those of the C compiler
    included and imports not."""
    import torch

    from cortado import api

    # A small network first, which brings in all of torch and executorch.
    api.compile(torch.nn.Linear(2, 2), (torch.zeros(1, 2),), target, [(torch.ones(1, 2),)], name="warm")
    module, example, batches = build()
    start = time.process_time()
    compiled = api.prepare(module, example, batches, name=name).compile(target)
    compiled_at = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        compiled.save(Path(folder) / name)
    end = time.process_time()
    phases = {**compiled.report.compile_seconds, "save": round(end - compiled_at, 3)}
    return compiled, {"seconds": end - start, "phases": phases}


def bundle_of(compiled: "api.Compiled") -> "Bundle":
    if compiled.bundle is None:
        raise SystemExit(f"{compiled.name} for {compiled.target.target_string} has no C bundle")
    return compiled.bundle


def sizes_of(compiled: "api.Compiled") -> "tuple[MemoryReport, FlashReport]":
    """RAM and flash of the C bundle, as the report has them."""
    bundle_of(compiled)
    assert compiled.report.memory is not None
    assert compiled.report.flash is not None
    return compiled.report.memory, compiled.report.flash


def peer_ram(network: str, key: str) -> int | None:
    """All RAM of the peer: arena, method allocator, stack and static data; None where it was not measured."""
    peer = PEERS.get(network, {}).get(key, {})
    if "method_allocator_bytes" not in peer:
        return None
    return int(peer["arena_bytes"]) + int(peer["method_allocator_bytes"]) + PEER_STACK + PEER_STATIC


def peer_flash(network: str, key: str) -> int | None:
    """All flash of the peer: the `.pte` and code at -Os; None where it was not measured."""
    peer = PEERS.get(network, {}).get(key, {})
    return int(peer["pte_bytes"]) + int(peer["code_bytes_Os"]) if "code_bytes_Os" in peer else None


def ratio(ours: float | None, theirs: float | None) -> float | None:
    return None if ours is None or not theirs else ours / theirs


def geometric_mean(values: Iterable[float]) -> float:
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs))


def progress(text: str) -> None:
    print(text, file=sys.stderr)


def collected(rows: Iterable[Any]) -> list[Any]:
    """All of them, each told as it comes; what the reports warn of is in the figures."""
    from cortado.base.errors import CortadoWarning

    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CortadoWarning)
        for row in rows:
            progress(str(row))
            found.append(row)
    return found


def print_records(found: Sequence[Any], as_json: bool) -> None:
    """Records of one class, as JSON or as a table of their fields."""
    records = [asdict(one) for one in found]
    print(
        json.dumps(records, indent=2) if as_json else table(list(records[0]), [list(one.values()) for one in records])
    )


def score_of(found: "Evaluation") -> float | None:
    """Accuracy, or of a model that rebuilds its input AUC."""
    return found.accuracy if found.accuracy is not None or found.integers is None else found.integers.auc


def remember(name: str, record: Any, path: Path | None) -> None:
    """Appends one line of JSON to a history file."""
    if path is not None:
        line = {"benchmark": name, "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "result": record}
        with path.open("a") as file:
            file.write(json.dumps(line) + "\n")


def profiled(compiled: "api.Compiled") -> "Profile":
    """What the example takes on the emulated board; bits other than the reference's end the benchmark."""
    from cortado.profile import profile

    with tempfile.TemporaryDirectory() as folder:
        artifact = compiled.save(Path(folder) / compiled.name)
        done = profile(artifact, [artifact.example()])
    if not done.bit_exact:
        raise SystemExit(f"{compiled.name} on {compiled.target.target_string} is not bit-exact")
    return done
