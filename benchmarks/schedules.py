"""What each --optimize costs: cycles beyond `time`, as `balanced` estimates them
(src/cortado/plan/kernel_costs.py) and as modelled over what the emulated board ran (docs/time.md).

python benchmarks/schedules.py [--networks ds_cnn,...] [--targets m0,m3,m4,m55] [--json]
"""

from typing import Any

from _common import TARGETS, measured, profiled, progress, sizes_of, table
from cortado import api
from cortado.base.target import from_target_string
from cortado.models import zoo
from cortado.options import Optimize
from cortado.plan.kernel_costs import known_costs, loop_cycles
from cortado.plan.planned import Planned, estimated_cycles, loop_of


def estimate(planned: Planned) -> int:
    """Its cycles as `balanced` sees them."""
    loop = loop_cycles(known_costs()[planned.program.target.cpu], loop_of(planned))
    return round(sum(cycles or 0.0 for cycles in estimated_cycles(planned)) + loop)


def measure(name: str, keys: list[str]) -> list[dict[str, Any]]:
    network = zoo.get(name)
    model = api.prepare(network.build(), network.example_inputs(), network.calibration(4), name=name)
    found = []
    for key in keys:
        first: dict[str, Any] | None = None
        for optimize in (Optimize.TIME, Optimize.BALANCED, Optimize.RAM):
            progress(f"{name} {key} {optimize.value}")
            one = run(model, key, optimize)
            first = first or one
            one["extra"] = one["cycles"] - first["cycles"]
            one["estimated_extra"] = one["estimated_cycles"] - first["estimated_cycles"]
            found.append({"network": name, **one})
    return found


def run(model: api.Model, key: str, optimize: Optimize) -> dict[str, Any]:
    compiled = model.compile(from_target_string(TARGETS[key]), api.Options(optimize=optimize))
    memory, _ = sizes_of(compiled)
    assert compiled.planned is not None
    done = profiled(compiled)
    return {
        "target": key,
        "optimize": optimize.value,
        "arena_bytes": memory.arena_bytes,
        "row_calls": compiled.planned.row_calls,
        "cycles": round(done.timing.total.cycles.typical),
        "estimated_cycles": estimate(compiled.planned),
    }


def row(one: dict[str, Any]) -> list[Any]:
    name = f"{one['network']} {one['target']} {one['optimize']}"
    keys = ("arena_bytes", "row_calls", "cycles", "estimated_cycles", "extra", "estimated_extra")
    return [name, *(one[key] for key in keys)]


def main() -> None:
    results = measured(__doc__, "m0,m3,m4,m55", measure)
    header = ["network", "arena", "row calls", "cycles", "estimated", "beyond time", "estimated"]
    print(table(header, map(row, results)))
    print("\ncycles at zero wait states: a model (docs/time.md); estimated: what `balanced` weighs RAM against.")


if __name__ == "__main__":
    main()
