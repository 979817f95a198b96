"""CPU seconds from the built nn.Module to written artifacts, beside the peer's, scaled to this machine.

    python benchmarks/compile_time.py [--networks ...] [--json]

Each network is compiled in a process of its own; imports are not counted. The yardstick is strict torch.export of the
same network in the same process, against the time the peer's machine took for it: timings here are noisy, so only the
ratio means something.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from _common import BASELINES, NETWORKS, progress, table

PEER: dict[str, float] = BASELINES["executorch_compile_cpu_seconds"]
YARDSTICK: dict[str, float] = BASELINES["compile_yardstick_strict_export_cpu_seconds"]


def child(name: str, target: str) -> dict[str, Any]:
    """Compiles one network; the children's CPU time (the C compiler's) counts too."""
    import torch

    from cortado import api
    from cortado.base.target import from_target_string
    from cortado.frontend import zoo

    # Imports are not counted: compile something small first, which brings in all of torch and executorch.
    api.compile(torch.nn.Linear(2, 2), (torch.zeros(1, 2),), target, [(torch.ones(1, 2),)], name="warm")
    network = zoo.get(name)
    module, example, batches = network.build(), network.example_inputs(), network.calibration(8)
    start = time.process_time()
    model = api.prepare(module, example, batches, name=name)
    compiled = model.compile(from_target_string(target))
    with tempfile.TemporaryDirectory() as folder:
        compiled.save(Path(folder) / name)
    seconds = time.process_time() - start
    start = time.process_time()
    torch.export.export(module, example, strict=True)
    return {
        "network": name,
        "seconds": seconds,
        "yardstick": time.process_time() - start,
        "phases": compiled.report()["compile_seconds"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--target", default="cortex-m55")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(child(arguments.child, arguments.target)))
        return
    results = []
    for name in arguments.networks.split(","):
        progress(name)
        command = [sys.executable, __file__, "--child", name, "--target", arguments.target]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        results.append(json.loads(done.stdout.splitlines()[-1]))
    if arguments.json:
        print(json.dumps(results, indent=2))
        return
    scales = [r["yardstick"] / YARDSTICK[r["network"]] for r in results if r["network"] in YARDSTICK]
    scale = sum(scales) / len(scales) if scales else 1.0
    rows = [
        [
            r["network"],
            r["seconds"],
            PEER[r["network"]],
            PEER[r["network"]] * scale,
            r["seconds"] / (PEER[r["network"]] * scale),
        ]
        for r in results
    ]
    print(table(["network", "CPU s", "peer", "peer, scaled", "ratio"], rows))
    print(f"\nthis machine takes {scale:.2f} times the peer's machine for strict torch.export")


if __name__ == "__main__":
    main()
