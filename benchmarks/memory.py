"""RAM of the six networks for each --optimize: the arena with the gap to its proven lower bound, and all RAM and the
instructions as measured on the emulated board, beside the peer's.

python benchmarks/memory.py [--networks ...] [--targets m0,m4,m55] [--plan-only] [--json]
"""

import argparse
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from _common import NETWORKS, NOTE, PEERS, TARGETS, bundle_of, peer_ram, progress, ratio, sizes_of, table
from cortado import api
from cortado.base.target import from_target_string
from cortado.models import zoo
from cortado.options import Optimize
from cortado.run.measure import static_bytes


def on_board(compiled: api.Compiled) -> dict[str, int | None]:
    """Stack, static data and instructions of one inference that gave the right bits."""
    with tempfile.TemporaryDirectory() as folder:
        artifact = compiled.save(Path(folder) / compiled.name)
        checked = artifact.run([artifact.example()])
        if not checked.bit_exact:
            raise SystemExit(f"{compiled.name} for {compiled.target.target_string} is not bit-exact")
        return {
            "stack_bytes": checked.result.stack_bytes,
            "static_bytes": static_bytes(bundle_of(compiled), artifact.info),
            "instructions": checked.result.instructions,
        }


def measure(name: str, keys: list[str], plan_only: bool) -> list[dict[str, Any]]:
    network = zoo.get(name)
    model = api.prepare(network.build(), network.example_inputs(), network.calibration(2), name=name)
    found = []
    for key in keys:
        for optimize in Optimize:
            progress(f"{name} {key} {optimize.value}")
            compiled = model.compile(from_target_string(TARGETS[key]), api.Options(optimize=optimize))
            memory, _ = sizes_of(compiled)
            found.append(
                {
                    "network": name,
                    "target": key,
                    "optimize": optimize.value,
                    "arena_bytes": memory.arena_bytes,
                    "lower_bound_bytes": memory.lower_bound_bytes,
                    "optimal": memory.optimal,
                    "plan_seconds": compiled.report.compile_seconds["plan"],
                    **({} if plan_only else on_board(compiled)),
                }
            )
    return found


def row(r: Mapping[str, Any]) -> list[Any]:
    network, key = r["network"], r["target"]
    cells = [
        f"{network} {key} {r['optimize']}",
        r["arena_bytes"],
        ratio(r["arena_bytes"], PEERS[network].get(key, {}).get("arena_bytes")),
        "proven" if r["optimal"] else f"<= {r['arena_bytes'] - r['lower_bound_bytes']}",
        r["plan_seconds"],
    ]
    if "instructions" in r:
        ram = r["arena_bytes"] + r["stack_bytes"] + r["static_bytes"]
        cells += [r["stack_bytes"], r["static_bytes"], ram, ratio(ram, peer_ram(network, key)), r["instructions"]]
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--targets", default="m0,m4,m55")
    parser.add_argument("--plan-only", action="store_true", help="do not run on the boards")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    keys, only = arguments.targets.split(","), arguments.plan_only
    results = [r for name in arguments.networks.split(",") for r in measure(name, keys, only)]
    if arguments.json:
        print(json.dumps(results, indent=2))
        return
    header = ["network", "arena", "ratio", "optimal", "plan CPU s"]
    header += [] if only else ["stack", "static", "all RAM", "ratio", "instructions"]
    print(table(header, map(row, results)))
    print("\nbytes, int8 inputs and outputs; optimal: no plan of these stages needs less, or by how much one could.")
    print(
        "ratios: to ExecuTorch (baselines.json) with float inputs and outputs, below 1 is better; its RAM is arena + "
        f"method allocator + stack + static. {NOTE}."
    )


if __name__ == "__main__":
    main()
