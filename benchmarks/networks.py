"""Whole networks as bundles on the emulated boards: instructions, RAM and flash, and their ratios to ExecuTorch's.

python benchmarks/networks.py [--networks ds_cnn,...] [--targets m0,m4,m55] [--optimize balanced] [--json]
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from _common import AND_PRUNED, NOTE, PEERS, TARGETS, peer_flash, peer_ram, progress, ratio, remember, sizes_of, table
from cortado import api
from cortado.base.target import from_target_string
from cortado.models import zoo
from cortado.options import Optimize


def measure(name: str, keys: list[str], optimize: Optimize) -> dict[str, dict[str, Any]]:
    network = zoo.get(name)
    model = api.prepare(network.build(), network.example_inputs(), network.calibration(8), name=name)
    found = {}
    for key in keys:
        progress(f"{name} {key}")
        compiled = model.compile(from_target_string(TARGETS[key]), api.Options(optimize=optimize))
        with tempfile.TemporaryDirectory() as folder:
            artifact = compiled.save(Path(folder) / name)
            checked = artifact.run([artifact.example()])
        if not checked.bit_exact:
            raise SystemExit(f"{name} on {key} is not bit-exact")
        memory, flash = sizes_of(compiled)
        found[key] = {
            "instructions": checked.result.instructions,
            "arena_bytes": memory.arena_bytes,
            "stack_bytes": checked.result.stack_bytes,
            "weights_bytes": flash.weights_bytes,
            "code_bytes": flash.code_bytes,
            "macs": compiled.report.macs,
            "compile_seconds": sum(compiled.report.compile_seconds.values()),
        }
    return found


def row(name: str, key: str, ours: dict[str, Any]) -> list[Any]:
    peer = PEERS.get(name, {}).get(key, {})
    ram = ours["arena_bytes"] + ours["stack_bytes"]
    flash = ours["weights_bytes"] + ours["code_bytes"]
    return [
        f"{name} {key}",
        ours["instructions"],
        ours["instructions"] / ours["macs"],
        ratio(ours["instructions"], peer.get("execute_instructions")),
        ram,
        ratio(ram, peer_ram(name, key) or peer.get("arena_bytes")),
        flash,
        ratio(flash, peer_flash(name, key)),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default=",".join(AND_PRUNED))
    parser.add_argument("--targets", default="m0,m4,m55")
    parser.add_argument("--optimize", default=Optimize.BALANCED.value, choices=[o.value for o in Optimize])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--history", type=Path)
    arguments = parser.parse_args()
    keys = arguments.targets.split(",")
    results = {n: measure(n, keys, Optimize(arguments.optimize)) for n in arguments.networks.split(",")}
    remember("networks", results, arguments.history)
    if arguments.json:
        print(json.dumps(results, indent=2))
        return
    rows = [row(name, key, ours) for name, found in results.items() for key, ours in found.items()]
    header = ["network", "instructions", "per MAC", "ratio", "RAM bytes", "ratio", "flash bytes", "ratio"]
    print(table(header, rows))
    print(f"\nratios: to ExecuTorch (baselines.json), below 1 is better; {NOTE}.")
    print("RAM: arena + stack; the peer's: arena + method allocator + stack + static. Flash: constants + code.")


if __name__ == "__main__":
    main()
