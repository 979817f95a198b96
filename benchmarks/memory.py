"""Arena of the six networks for each --optimize, beside the peer's, with the gap to the proven lower bound.

python benchmarks/memory.py [--networks ...] [--targets m0,m4,m55] [--json]
"""

import time
from typing import Any

from _common import BASELINES, TARGETS, measured, progress, ratio, table
from cortado import api, zoo
from cortado.lowered import lowered_graph
from cortado.passes import CortexMPassManager
from cortado.program import build_program
from cortado.schedule import ROW_CALL_INSTRUCTIONS, Optimize, kernel_instructions, schedule
from cortado.target import from_target_string

PEERS: dict[str, Any] = BASELINES["executorch_models"]


def measure(name: str, keys: list[str]) -> list[dict[str, Any]]:
    network = zoo.get(name)
    model = api.prepare(network.build(), network.example_inputs(), network.calibration(2), name=name)
    found = []
    for key in keys:
        progress(f"{name} {key}")
        target = from_target_string(TARGETS[key])
        lowered = model.quantized.program()
        CortexMPassManager(lowered, target_config=target).transform()
        program = build_program(name, lowered_graph(lowered), target)
        for optimize in Optimize:
            start = time.process_time()
            planned = schedule(program, optimize)
            found.append(
                {
                    "network": name,
                    "target": key,
                    "optimize": optimize.value,
                    "arena_bytes": planned.plan.peak,
                    "lower_bound_bytes": planned.plan.lower_bound,
                    "optimal": planned.plan.optimal,
                    "row_calls": planned.row_calls,
                    "row_call_share": ROW_CALL_INSTRUCTIONS * planned.row_calls / kernel_instructions(program),
                    "plan_seconds": time.process_time() - start,
                }
            )
    return found


def main() -> None:
    results = measured(__doc__, "m0,m4,m55", measure)
    rows = []
    for r in results:
        peer = PEERS[r["network"]].get(r["target"], {}).get("arena_bytes")
        rows.append(
            [
                f"{r['network']} {r['target']} {r['optimize']}",
                r["arena_bytes"],
                r["arena_bytes"] - r["lower_bound_bytes"],
                "yes" if r["optimal"] else "no",
                ratio(r["arena_bytes"], peer),
                f"{100 * r['row_call_share']:.1f}%",
                r["plan_seconds"],
            ]
        )
    header = ["network", "arena bytes", "over bound", "proven", "ratio to peer", "row calls cost", "plan CPU s"]
    print(table(header, rows))
    print("\nratio: to ExecuTorch's arena with float inputs (baselines.json); int8 inputs and outputs here.")


if __name__ == "__main__":
    main()
