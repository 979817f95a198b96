"""docs/performance.md: made from the stored results of the benchmarks, and from nothing else."""

import json
import subprocess
import sys

from helpers.golden import Golden
from helpers.paths import ROOT

RESULTS = ROOT / "benchmarks" / "results"


def test_the_page_is_that_of_the_stored_results(golden: Golden) -> None:
    program = ROOT / "benchmarks" / "performance.py"
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=True)
    golden(ROOT / "docs" / "performance.md", done.stdout)
    assert all(json.loads(path.read_text())["command"] in done.stdout for path in RESULTS.glob("*.json"))


def test_layers_take_less_than_those_of_the_peer() -> None:
    """The page's first table, worked out once more from the two files."""
    peers = json.loads((ROOT / "benchmarks" / "baselines.json").read_text())["cmsis_nn_layers"]
    layers = json.loads((RESULTS / "layers.json").read_text())["results"]
    assert sorted(layers) == sorted(peers)
    assert all(layer["m4 cycles"] < peers[name]["m4_model_cycles"] for name, layer in layers.items())
