"""Size of the six networks' .pte files beside the peer's: weights, biases, quantization tables, metadata, the rest.

python benchmarks/pte_size.py [--networks ...] [--targets m0,m4,m55] [--json]
"""

from collections import Counter
from typing import Any

from _common import PEERS, TARGETS, measured, progress, ratio, table
from cortado import api
from cortado.base.target import from_target_string
from cortado.emit.pte.program import emit_pte
from cortado.models import zoo
from cortado.passes import CortexMPassManager
from cortado.pte.info import PteConstant, PteInfo
from cortado.pte.reader import read_pte

# What an argument's constants are for.
KINDS = {
    "weight": "weights",
    "weights": "weights",
    "bias": "biases",
    "kernel_sum": "biases",
    "requantize_multipliers": "tables",
    "requantize_shifts": "tables",
    "lut": "tables",
}


def kind(constant: PteConstant) -> str:
    kinds = {KINDS.get(use.argument, "other") for use in constant.uses}
    return kinds.pop() if len(kinds) == 1 else "other"


def split(info: PteInfo) -> dict[str, int]:
    """The file's bytes by what they are for; they add up to its size."""
    sizes: Counter[str] = Counter({name: 0 for name in ("weights", "biases", "tables", "other")})
    for constant in info.constants:
        sizes[kind(constant)] += constant.nbytes
    constants = sum(sizes.values())
    metadata = len(info.metadata.text.encode()) if info.metadata is not None else 0
    padding = info.size - info.program_size - constants
    return {**sizes, "metadata": metadata, "program": info.program_size - metadata, "padding": padding}


def measure(name: str, keys: list[str]) -> list[dict[str, Any]]:
    network = zoo.get(name)
    model = api.prepare(network.build(), network.example_inputs(), network.calibration(2), name=name)
    found = []
    for key in keys:
        progress(f"{name} {key}")
        target = from_target_string(TARGETS[key])
        lowered = model.quantized.program()
        CortexMPassManager(lowered, target_config=target).transform()
        pte = emit_pte(lowered, target, {"model": name})
        info = read_pte(pte.data, name)
        method = info.method("forward")
        assert method is not None
        peer = PEERS[name].get(key, {})
        found.append(
            {
                "network": name,
                "target": key,
                "bytes": len(pte.data),
                **split(info),
                "peer_bytes": peer.get("pte_bytes"),
                "arena_bytes": pte.arena_bytes,
                "peer_arena_bytes": peer.get("arena_bytes"),
                "method_bytes": method.loading.method_bytes,
                "temp_bytes": method.loading.temp_bytes,
                "alone_bytes": method.loading.alone_bytes,
            }
        )
    return found


def main() -> None:
    results = measured(__doc__, "m55", measure)
    parts = ["weights", "biases", "tables", "other", "metadata", "program", "padding"]
    loaded = ["method_bytes", "temp_bytes", "alone_bytes"]
    rows = [
        [
            f"{r['network']} {r['target']}",
            r["bytes"],
            ratio(r["bytes"], r["peer_bytes"]),
            *(r[part] for part in parts),
            r["arena_bytes"],
            ratio(r["arena_bytes"], r["peer_arena_bytes"]),
            *(r[part] for part in loaded),
        ]
        for r in results
    ]
    print(table(["network", "bytes", "ratio to peer", *parts, "arena", "ratio to peer", *loaded], rows))
    print("\nmethod, temp: what loading takes of these allocators; alone: of the method allocator without the other.")
    print("tables: multipliers, shifts and lookup tables; program: instructions, shapes, names.")
    print("ratio: to ExecuTorch's .pte and arena with the same float inputs and outputs (baselines.json).")


if __name__ == "__main__":
    main()
