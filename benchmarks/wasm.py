"""How fast compiled models are as WebAssembly in Node, beside the same portable C as a program of this machine.

    cortado compile mobilenet_v1_025 --target cortex-m4 --artifacts c -o build/mobilenet
    python benchmarks/wasm.py build/mobilenet [DIR ...] [--repeat 3] [--json]

CPU seconds of many inferences less those of few, so that starting and compiling don't count: the least of the repeats.
Of a stream an inference is a window, and what is printed is a push.
"""

import argparse
import json
import resource
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from _common import table
from cortado.artifact.opened import Artifact
from cortado.emit.c.bundle import emit_c
from cortado.run.harness import run_host
from cortado.run.runner import WASM, build, wasm_runner, write_files

FEW = 3
SECONDS = 1.0  # that many inferences are to take at least
MOST_RATIO = 2.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    results = [measure(Artifact.open(folder), arguments.repeat) for folder in arguments.folders]
    if arguments.json:
        print(json.dumps(results, indent=2))
        return
    head = ["model", "ms in C", "ms in WebAssembly", "ratio", f"at most {MOST_RATIO}"]
    rows = [
        [r["model"], f"{r['host_ms']:.3f}", f"{r['wasm_ms']:.3f}", f"{r['ratio']:.2f}", r["reached"]] for r in results
    ]
    print(table(head, rows))


def measure(artifact: Artifact, repeat: int) -> dict[str, Any]:
    (feed,), _ = artifact.reference([artifact.example()])[:2]
    inputs = b"".join(one.tobytes() for one in feed)
    pushes = len(inputs) // artifact.info.row_bytes if artifact.report.stream is not None else 1
    times = {}
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder), emit_c(artifact.portable).files)
        for place in ("host", WASM):
            program = build(Path(folder), artifact.info, None, wasm=place == WASM)
            times[place] = milliseconds(program, inputs, repeat, wasm_runner() if place == WASM else ()) / pushes
    ratio = times[WASM] / times["host"]
    return {
        "model": artifact.report.model + (", a push" if artifact.report.stream is not None else ""),
        "host_ms": times["host"],
        "wasm_ms": times[WASM],
        "ratio": ratio,
        "reached": "yes" if ratio <= MOST_RATIO else "NO",
    }


def milliseconds(program: Path, inputs: bytes, repeat: int, by: Sequence[Path]) -> float:
    """Of one inference."""
    many = 8 * FEW
    while cpu_seconds(program, inputs, many, by) < SECONDS:
        many *= 2
    found = [cpu_seconds(program, inputs, many, by) - cpu_seconds(program, inputs, FEW, by) for _ in range(repeat)]
    return 1000 * min(found) / (many - FEW)


def cpu_seconds(program: Path, inputs: bytes, count: int, by: Sequence[Path]) -> float:
    def spent() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    before = spent()
    run_host(program, inputs * count, count, by=by)
    return spent() - before


if __name__ == "__main__":
    main()
