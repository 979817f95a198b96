"""Code of the bundles: .text and descriptors with the bundle's own default flags; constants counted apart.

python benchmarks/code_size.py [--networks ...] [--targets m4,m55] [--json]
"""

from typing import Any

from _common import PEERS, TARGETS, bundle_of, measured, progress, ratio, table
from cortado import api
from cortado.base.target import Compiler, from_target_string
from cortado.models import zoo
from cortado.run.bundle_info import BundleInfo
from cortado.run.measure import code_bytes


def measure(name: str, keys: list[str]) -> list[dict[str, Any]]:
    network = zoo.get(name)
    model = api.prepare(network.build(), network.example_inputs(), network.calibration(2), name=name)
    found = []
    for key in keys:
        progress(f"{name} {key}")
        target = from_target_string(TARGETS[key])
        compiled = model.compile(target)
        info = BundleInfo(compiled.report.prefix, target, (), ())
        bundle = bundle_of(compiled)
        sizes = {c.value: code_bytes(bundle, info, c) for c in Compiler}
        found.append({"network": name, "target": key, **sizes, "constants": bundle.weights_bytes})
    return found


def main() -> None:
    results = measured(__doc__, "m4,m55", measure)
    rows = []
    for r in results:
        peer = PEERS[r["network"]].get(r["target"], {}).get("code_bytes_Os")
        rows.append(
            [f"{r['network']} {r['target']}", r["gcc"], r["clang"], peer, ratio(r["gcc"], peer), r["constants"]]
        )
    print(table(["network", "gcc 12", "clang 19", "peer -Os", "ratio", "constants"], rows))
    print(
        "\nratio: gcc 12 to ExecuTorch's runtime and kernels at -Os (baselines.json), about 5 KB of harness included."
    )


if __name__ == "__main__":
    main()
