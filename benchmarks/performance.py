"""docs/performance.md from the stored results of the benchmarks: this measures nothing.

python benchmarks/performance.py            prints the page (`make golden` writes it)
python benchmarks/performance.py store NAME FILE COMMAND    stores what a benchmark printed with --json

A benchmark's results lie in benchmarks/results/NAME.json with the command and the date; the peers' are baselines.json.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import compile_time
from _common import BASELINES, FOLDER, cell_text, geometric_mean, peer_flash, peer_ram

RESULTS = FOLDER / "results"
CORES = {
    "m0": "Cortex-M0+",
    "m3": "Cortex-M3",
    "m4": "Cortex-M4",
    "m7": "Cortex-M7",
    "m33": "Cortex-M33",
    "m55": "Cortex-M55",
}
HEAD = """# Performance

`benchmarks/performance.py` generates this page from the results in `benchmarks/results`; a test checks that they agree.
Nothing here was measured on hardware: instructions are counted exactly by an emulator, and cycles come from a model of
the core at zero wait states ([time.md](time.md)). The figures of other systems are in `benchmarks/baselines.json`,
measured once ([how](../benchmarks/README.md#where-baselinesjson-comes-from)).
"""


def stored(name: str) -> dict[str, Any] | None:
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.is_file() else None


def store(name: str, file: Path, command: str) -> None:
    RESULTS.mkdir(exist_ok=True)
    record = {"command": command, "date": time.strftime("%Y-%m-%d"), "results": json.loads(file.read_text())}
    (RESULTS / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")


# ---- text ----------------------------------------------------------------------------------------------------------


def markdown(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|---" + "|---:" * (len(header) - 1) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(map(cell_text, row)) + " |" for row in rows)])


def section(title: str, name: str, text: str, table: Callable[[Any], str]) -> str:
    """A table of one benchmark, with the command that measured it; nothing where there are no results."""
    found = stored(name)
    if found is None:
        return ""
    return f"## {title}\n\n{text} `{found['command']}`, {found['date']}.\n\n{table(found['results'])}\n"


def _ratio(ours: float, theirs: float | None) -> float | None:
    return None if theirs is None else ours / theirs


# ---- tables --------------------------------------------------------------------------------------------------------


def layers(results: dict[str, dict[str, int]]) -> str:
    peers, rows = BASELINES["cmsis_nn_layers"], []
    ratios: list[tuple[float, float]] = []
    for name, found in results.items():
        theirs = peers[name]
        pair = found["m4"] / theirs["instructions"]["m4"], found["m4 cycles"] / theirs["m4_model_cycles"]
        ratios.append(pair)
        rows.append([name, found["m4"], theirs["instructions"]["m4"], pair[0]])
        rows[-1] += [found["m4 cycles"], theirs["m4_model_cycles"], pair[1]]
    means = [geometric_mean(pair[at] for pair in ratios) for at in (0, 1)]
    rows.append(["geometric mean", None, None, means[0], None, None, means[1]])
    header = ["layer", "instructions", "CMSIS-NN", "ratio", "cycles", "CMSIS-NN", "ratio"]
    return markdown(header, rows)


def cycles(results: list[dict[str, Any]]) -> str:
    rows = []
    for one in results:
        peer = BASELINES["executorch_models"].get(one["network"], {}).get(one["target"], {})
        typical, theirs = one["cycles"]["typical"], peer.get("execute_instructions")
        bar = None if one["bar"] is None else round(one["bar"] * 1e6)
        rows.append([one["network"], CORES[one["target"]], typical, bar, _ratio(typical, bar)])
        rows[-1] += [one["instructions"], theirs, _ratio(one["instructions"], theirs)]
    header = ["network", "core", "cycles", "version 0.1", "ratio", "instructions", "ExecuTorch", "ratio"]
    return markdown(header, rows)


def networks(results: dict[str, dict[str, dict[str, Any]]]) -> str:
    rows = []
    for name, found in results.items():
        for key, ours in found.items():
            ram, theirs = ours["arena_bytes"] + ours["stack_bytes"], peer_ram(name, key)
            flash = ours["weights_bytes"] + ours["code_bytes"]
            their_flash = peer_flash(name, key)
            rows.append([name, CORES[key], ram, theirs, _ratio(ram, theirs)])
            rows[-1] += [flash, their_flash, _ratio(flash, their_flash)]
    return markdown(["network", "core", "RAM", "ExecuTorch", "ratio", "flash", "ExecuTorch", "ratio"], rows)


def estimates(results: list[dict[str, Any]]) -> str:
    rows = [
        [one["kind"], one["target"], one["networks"], f"{one['median']:.2%}", f"{one['worst']:.2%}"]
        + [one["worst_network"], f"{one['within_5_percent']:.0%}"]
        for one in results
    ]
    return markdown(["networks", "core", "number", "median", "worst", "which", "within 5%"], rows)


def code_sizes(results: list[dict[str, Any]]) -> str:
    rows = []
    for one in results:
        theirs = BASELINES["executorch_models"].get(one["network"], {}).get(one["target"], {}).get("code_bytes_Os")
        rows.append([one["network"], CORES[one["target"]], one["gcc"], one["clang"], theirs])
        rows[-1] += [_ratio(one["gcc"], theirs), one["constants"]]
    return markdown(["network", "core", "gcc 12", "clang 19", "ExecuTorch", "ratio", "constants"], rows)


def compile_times(results: list[dict[str, Any]]) -> str:
    return markdown(compile_time.HEADER, compile_time.rows_of(results))


LARGE = {
    "residual:400": "400 convolutions with residual connections",
    "dense:32": "32 layers, each reading all before it (concatenation)",
    "pyramid:8": "8 blocks of ESPNet",
}


def scaling(results: list[dict[str, Any]]) -> str:
    rows = [[LARGE.get(one["network"], one["network"]), one["seconds"], one["megabytes"]] for one in results]
    return markdown(["network", "CPU s", "peak MB of the process"], rows)


def sweeps(found: dict[str, Any]) -> str:
    fine = found["statuses"].get("fine", 0)
    row = [found["chip"], found["candidates"], fine, found["workers"], f"{found['seconds'] / 60:.1f}"]
    return markdown(["chip", "candidates", "with figures", "processes", "minutes"], [row])


def recurrent(results: dict[str, dict[str, float]]) -> str:
    kinds = ("GRU", "LSTM", "RNN")
    rows = [
        [CORES[core], *(one[kind] for kind in ("linear", *kinds)), *(one[kind] / one["linear"] for kind in kinds)]
        for core, one in results.items()
    ]
    return markdown(["core", "linear", *kinds, *(f"{kind}, ratio" for kind in kinds)], rows)


def precision(results: dict[str, dict[str, dict[str, dict[str, int]]]]) -> str:
    rows = []
    for name, by_core in results.items():
        for core, found in by_core.items():
            narrow, wide = (found[kind]["instructions"] for kind in ("int8", "int16"))
            rows.append([name, CORES[core], narrow, wide, wide / narrow])
    return markdown(["layer", "core", "int8", "int16", "ratio"], rows)


def floats(results: list[dict[str, Any]]) -> str:
    """Layers by core beside their bars and CMSIS-DSP; what has no peer with a column for each core."""
    layered, others = [], dict[str, dict[str, Any]]()
    peers = {one["what"]: one["peer"] for one in results}
    of_codes = {one["what"].replace(", int8", "") for one in results if ", int8" in one["what"]}
    for one in results:
        name, core = one["what"].rsplit(" ", 1)
        exact = f"{name.removesuffix(', int8')} {core}"
        if exact in of_codes:
            theirs = peers[exact]
            layered.append([name, CORES[core], one["ours"], one["bar"], theirs, _ratio(one["ours"], theirs)])
        else:
            others.setdefault(name, {})[core] = one["ours"]
    cores = list(dict.fromkeys(core for found in others.values() for core in found))
    rows = [[name.replace("**", "^"), *(found.get(core) for core in cores)] for name, found in others.items()]
    return "\n\n".join(
        (
            markdown(["layer", "core", "cycles", "bar", "CMSIS-DSP", "ratio"], layered),
            "Cycles per number of each function, and of the whole policy:",
            markdown(["", *(CORES[core] for core in cores)], rows),
        )
    )


def page() -> str:
    parts = [
        HEAD,
        section(
            "Layers on the Cortex-M4",
            "layers",
            "Single layers compared with CMSIS-NN, whose cycles come from a simpler model of the same core.",
            layers,
        ),
        section(
            "Networks",
            "cycles",
            "Whole networks: typical cycles compared with the kernels of version 0.1, and instructions compared with "
            "ExecuTorch's runtime with CMSIS-NN. mobilenet_v1_pruned is mobilenet_v1_025 with ten classes, trained and "
            "pruned: the filters of two fifths of its channels are zero.",
            cycles,
        ),
        section(
            "Memory",
            "networks",
            "Bytes of RAM (arena and stack; for ExecuTorch also the method allocator and the runtime's own data) and "
            "of flash (constants and code).",
            networks,
        ),
        section(
            "Code",
            "code_size",
            "Bytes of code with the default flags, constants counted separately; ExecuTorch's code is built with "
            "`-Os` and includes about 5 KB of test harness.",
            code_sizes,
        ),
        section(
            "Recurrent layers",
            "recurrent",
            "Instructions per product in recurrent layers of 64 units, compared with Cortado's linear layer of that "
            "size.",
            recurrent,
        ),
        section(
            "16-bit activations",
            "precision",
            "Instructions of single layers with int16 activations, compared with Cortado's int8 kernels on the same "
            "layer.",
            precision,
        ),
        section(
            "float32",
            "floats",
            "Cycles per product in layers with exact weights and with int8 weights (a linear layer of 640 to 128 "
            "values, a 1x1 convolution of 64 to 64 channels, a 3x3 convolution of 16 to 16), compared with "
            "CMSIS-DSP's f32; cycles per number of each function; and cycles of a policy network of 32, 64, 64 and 4 "
            "values with tanh.",
            floats,
        ),
        section(
            "Compile time",
            "compile_time",
            "CPU seconds from `nn.Module` to written artifacts. ExecuTorch was measured on another machine; its times "
            "are scaled by the time that strict `torch.export` took on each.",
            compile_times,
        ),
        section("Compile time of large networks", "scaling", "For the Cortex-M4, with one calibration input.", scaling),
        section(
            "Estimates",
            "estimate",
            "The error of `cortado.estimate`, relative to the typical cycles of a run ([sweep.md](sweep.md)). The "
            "cost table was not fitted to any of these networks.",
            estimates,
        ),
        section(
            "A sweep",
            "sweep",
            "Small networks compiled by `cortado sweep` on two cores, with an empty cache.",
            sweeps,
        ),
    ]
    return "\n".join(part for part in parts if part)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", nargs="*", metavar="store NAME FILE COMMAND")
    given = parser.parse_args().store
    if not given:
        print(page(), end="")
    elif len(given) == 4 and given[0] == "store":
        store(given[1], Path(given[2]), given[3])
    else:
        parser.error("expected nothing, or: store NAME FILE COMMAND")


if __name__ == "__main__":
    main()
