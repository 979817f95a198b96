"""CPU seconds from the built nn.Module to written artifacts, beside the peer's, scaled to this machine.

    python benchmarks/compile_time.py [--networks ...] [--target cortex-m55] [--limit 600] [--json]

Each network is compiled in a process of its own; imports are not counted. The yardstick is strict torch.export of the
same network in the same process, against the time the peer's machine took for it: timings here are noisy, so only the
ratio means something. It is taken with one thread, as Cortado compiles: seconds in which threads wait count as work.
"""

import time
from typing import Any

from _common import BASELINES, NETWORKS, compile_timed, measured_apart, ratio, table

PEER: dict[str, float] = BASELINES["executorch_compile_cpu_seconds"]
YARDSTICK: dict[str, float] = BASELINES["compile_yardstick_strict_export_cpu_seconds"]


def measure(name: str, target: str) -> dict[str, Any]:
    import torch

    from cortado.models import zoo

    network = zoo.get(name)
    module, example = network.build(), network.example_inputs()
    _, took = compile_timed(name, target, lambda: (module, example, network.calibration(8)))
    torch.set_num_threads(1)
    start = time.process_time()
    torch.export.export(module, example, strict=True)
    return {"network": name, **took, "yardstick": time.process_time() - start}


def scale_of(results: list[dict[str, Any]]) -> float:
    """How many times as long as the peer's machine this one took for the same exports."""
    known = [r for r in results if "yardstick" in r and r["network"] in YARDSTICK]
    scales = [r["yardstick"] / YARDSTICK[r["network"]] for r in known]
    return sum(scales) / len(scales) if scales else 1.0


def rows_of(results: list[dict[str, Any]]) -> list[list[Any]]:
    scale, rows = scale_of(results), []
    for r in results:
        peer = PEER[r["network"]]
        rows.append([r["network"], r["seconds"], peer, peer * scale, ratio(r["seconds"], peer * scale)])
    return rows


HEADER = ["network", "CPU s", "ExecuTorch", "scaled", "ratio"]


def main() -> None:
    results = measured_apart(__doc__, ",".join(NETWORKS), "cortex-m55", measure)
    print(table(HEADER, rows_of(results)))
    print(f"\nthis machine takes {scale_of(results):.2f} times the peer's machine for strict torch.export")


if __name__ == "__main__":
    main()
