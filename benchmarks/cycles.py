"""Modelled cycles of whole networks, beside what the kernels took when they were first modelled.

python benchmarks/cycles.py [--networks ds_cnn,...] [--targets m0,m3,m4,m55] [--json]
"""

from typing import Any

from _common import AND_PRUNED, TARGETS, measured, profiled, progress, ratio, table
from cortado import api
from cortado.base.target import from_target_string
from cortado.models import zoo

# Millions of cycles of version 0.1's kernels, by core and network: the bars for changes.
BARS: dict[str, dict[str, float]] = {
    "m0": {"ds_cnn": 15.7, "deep_autoencoder": 1.80},
    "m3": {"resnet8": 50.7},
    "m4": {"ds_cnn": 7.02, "resnet8": 23.6, "deep_autoencoder": 0.533, "mobilenet_v2": 625.0},
    "m55": {"ds_cnn": 1.52, "resnet8": 3.91, "mobilenet_v1_025": 4.37, "mobilenet_v2": 121.0},
}


def measure(name: str, keys: list[str]) -> list[dict[str, Any]]:
    network = zoo.get(name)
    model = api.prepare(network.build(), network.example_inputs(), network.calibration(8), name=name)
    found = []
    for key in keys:
        progress(f"{name} {key}")
        compiled = model.compile(from_target_string(TARGETS[key]))
        done = profiled(compiled)
        total, cycles = done.timing.total, done.timing.total.cycles.whole()
        found.append(
            {
                "network": name,
                "target": key,
                "instructions": total.instructions,
                "cycles": {"low": cycles.low, "typical": cycles.typical, "high": cycles.high},
                "grade": done.timing.model.grade.value,
                "macs": compiled.report.macs,
                "bar": BARS.get(key, {}).get(name),
            }
        )
    return found


def row(one: dict[str, Any]) -> list[Any]:
    cycles, bar = one["cycles"], one["bar"]
    millions = [cycles[end] / 1e6 for end in ("low", "typical", "high")]
    name = f"{one['network']} {one['target']}"
    texts = [f"{value:.3f}" for value in millions]
    past = None if bar is None else f"{bar:.3f}"
    return [name, one["instructions"], *texts, cycles["typical"] / one["macs"], past, ratio(millions[1], bar)]


def main() -> None:
    results = measured(__doc__, "m0,m3,m4,m55", measure, ",".join(AND_PRUNED))
    print(
        table(["network", "instructions", "M low", "M cycles", "M high", "per MAC", "bar", "ratio"], map(row, results))
    )
    print("\nmillions of cycles at zero wait states: a model (docs/time.md), over instructions that are exact.")
    print("bar: version 0.1's kernels, by the same model in its first form.")


if __name__ == "__main__":
    main()
