"""Single layers beside the newest CMSIS-NN, and MCUNet-vww1 beside TinyEngine: cycles of one model for all of them.

python benchmarks/peers.py [--targets m4,m55] [--layers NAME,...] [--json]
python benchmarks/peers.py --cmsis-nn DIR [--targets m4,m55] [--layers NAME,...]

The second form measures CMSIS-NN itself, from a checkout of it, and stores its figures in baselines.json. Its functions
are called through their wrappers, built by the same gcc at CMSIS-NN's default (-Ofast), on the same boards, and their
cycles are those of the same model of each core at zero wait states (docs/time.md). Weights and inputs are random
codes, every channel has a factor of its own, and scratch is given. Of ours the whole run of a bundle counts, with its
loop over rows; of CMSIS-NN the one call. TinyEngine's figures are those of its own generated C for its own weights.
MLPerf Tiny's visual wake words network has no peer here; it stands for networks with dead channels. Attention has none
either: its instructions for each product stand beside a bar.
"""

import argparse
import json
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import torch
from torch import nn

from _common import BASELINES, FOLDER, TARGETS, geometric_mean, profiled, progress, ratio, table
from _measuring import calls_work
from cortado import api
from cortado.base.target import from_target_string
from cortado.options import Artifacts, Optimize
from mcunet import Mcunet
from visual_wake_words import VisualWakeWords

STORED: dict[str, Any] = BASELINES["cmsis_nn_newest"]
TINYENGINE: dict[str, Any] = BASELINES["tinyengine"]
ATTENTION = "scaled_dot_product_attention, 4 heads of 64 x 64, 16 wide"
HEADS, PLACES, WIDTH = 4, 64, 16
ATTENTION_BARS = {"m4": 2.5, "m55": 0.8}  # instructions for each product of both matrix products
DEAD_CHANNELS = "vww_96 with as many dead channels as MLPerf's weights"
Pair = tuple[int, int]


class Kind(Enum):
    CONV = "arm_convolve_wrapper_s8"
    DEPTHWISE = "arm_depthwise_conv_wrapper_s8"
    LINEAR = "arm_fully_connected_s8"
    MAX_POOL = "arm_max_pool_s8"
    MATMUL = "arm_batch_matmul_s8"


@dataclass(frozen=True)
class Layer:
    """One layer; the products of a matrix product are of `size` rows, as many columns, and `in_c` long."""

    kind: Kind
    in_c: int
    out_c: int
    size: Pair = (1, 1)
    kernel: Pair = (1, 1)
    stride: int = 1
    padding: Pair = (0, 0)

    @property
    def made(self) -> Pair:
        """Rows and columns of the output."""
        axes = zip(self.size, self.kernel, self.padding, strict=True)
        height, width = ((size + 2 * padding - kernel) // self.stride + 1 for size, kernel, padding in axes)
        return height, width

    @property
    def products(self) -> int:
        """Multiplications, of a pool comparisons."""
        if self.kind is Kind.MATMUL:
            return self.out_c * self.size[0] * self.size[1] * self.in_c
        depth = self.in_c if self.kind in (Kind.CONV, Kind.LINEAR) else 1
        return self.made[0] * self.made[1] * self.out_c * self.kernel[0] * self.kernel[1] * depth


def _depthwise(channels: int, size: Pair, kernel: Pair, stride: int = 1, times: int = 1) -> Layer:
    padding = (kernel[0] // 2, kernel[1] // 2)
    return Layer(Kind.DEPTHWISE, channels, channels * times, size, kernel, stride, padding)


LAYERS = {
    "conv1x1_64_64_25x5": Layer(Kind.CONV, 64, 64, (25, 5)),
    "conv1x1_8_48_40x40": Layer(Kind.CONV, 8, 48, (40, 40)),
    "conv1x1_96_480_3x3": Layer(Kind.CONV, 96, 480, (3, 3)),
    "conv3x3_16_16_32x32": Layer(Kind.CONV, 16, 16, (32, 32), (3, 3), 1, (1, 1)),
    "conv3x3_3_16_s2_96x96": Layer(Kind.CONV, 3, 16, (96, 96), (3, 3), 2, (1, 1)),
    "dw3x3_96_28x28": _depthwise(96, (28, 28), (3, 3)),
    "dw3x3_8_48x48": _depthwise(8, (48, 48), (3, 3)),
    "dw3x3_8_times_4_24x24": _depthwise(8, (24, 24), (3, 3), times=4),
    "dw5x5_64_14x14": _depthwise(64, (14, 14), (5, 5)),
    "dw7x7_48_s2_20x20": _depthwise(48, (20, 20), (7, 7), 2),
    "dw1x9_64_1x98": _depthwise(64, (1, 98), (1, 9)),
    "fc_640_128": Layer(Kind.LINEAR, 640, 128),
    "maxpool2x2_16_32x32": Layer(Kind.MAX_POOL, 16, 16, (32, 32), (2, 2), 2),
    "maxpool3x3_s2_64_24x24": Layer(Kind.MAX_POOL, 64, 64, (24, 24), (3, 3), 2),
    "matmul_4x64x64_16": Layer(Kind.MATMUL, 16, 4, (64, 64)),
}

# ---- ours ------------------------------------------------------------------------------------------------------------


class Matmul(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b.transpose(1, 2)


class Attention(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return nn.functional.scaled_dot_product_attention(q, k, v)


def module_of(layer: Layer) -> tuple[nn.Module, list[tuple[int, ...]]]:
    """The layer in torch, and the shapes of its inputs."""
    image: list[tuple[int, ...]] = [(1, layer.in_c, *layer.size)]
    match layer.kind:
        case Kind.LINEAR:
            return nn.Linear(layer.in_c, layer.out_c), [(1, layer.in_c)]
        case Kind.MAX_POOL:
            return nn.MaxPool2d(layer.kernel, layer.stride, layer.padding), image
        case Kind.MATMUL:
            return Matmul(), [(layer.out_c, size, layer.in_c) for size in layer.size]
    groups = layer.in_c if layer.kind is Kind.DEPTHWISE else 1
    return nn.Conv2d(layer.in_c, layer.out_c, layer.kernel, layer.stride, layer.padding, groups=groups), image


@dataclass(frozen=True)
class Run:
    """A run that is checked against the reference, and the planned bytes of RAM."""

    cycles: int
    instructions: int
    arena: int


def ours(
    name: str, module: nn.Module, shapes: Sequence[tuple[int, ...]], target: str, optimize: Optimize = Optimize.TIME
) -> Run:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        batches = [tuple(torch.randn(shape) for shape in shapes) for _ in range(2)]
    model = api.prepare(module.eval(), batches[0], batches, name=name)
    compiled = model.compile(from_target_string(TARGETS[target]), api.Options(optimize=optimize, artifacts=Artifacts.C))
    assert compiled.report.memory is not None
    total = profiled(compiled).timing.total
    return Run(round(total.cycles.typical), total.instructions, compiled.report.memory.arena_bytes)


def layer_cycles(name: str, target: str) -> int:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        module, shapes = module_of(LAYERS[name])
    return ours(name, module, shapes, target).cycles


def attention(target: str) -> dict[str, Any]:
    found = ours("attention", Attention(), 3 * [(1, HEADS, PLACES, WIDTH)], target)
    products = 2 * HEADS * PLACES * PLACES * WIDTH
    return {"cycles": found.cycles, "ram_bytes": found.arena, "instructions_a_product": found.instructions / products}


# ---- CMSIS-NN --------------------------------------------------------------------------------------------------------


def call_of(layer: Layer) -> str:
    """The call of CMSIS-NN's function in C."""
    (height, width), (rows, columns), (made_h, made_w) = layer.size, layer.kernel, layer.made
    window = f"{{{layer.stride}, {layer.stride}}}, {{{layer.padding[1]}, {layer.padding[0]}}}"
    given = f"cmsis_nn_dims in_dims = {{1, {height}, {width}, {layer.in_c}}}, bias_dims = {{1, 1, 1, {layer.out_c}}};"
    made = f"cmsis_nn_dims out_dims = {{1, {made_h}, {made_w}, {layer.out_c}}};"
    context = "cmsis_nn_context context = {scratch, sizeof scratch};"
    factors = "cmsis_nn_per_channel_quant_params factors = {multipliers, shifts};"
    one = "cmsis_nn_per_tensor_quant_params factors = {multipliers[0], shifts[0]};"
    limits = "{-128, 127}"
    sums = "&in_dims, input, &filter_dims, weights, &bias_dims, bias, &out_dims, output"
    match layer.kind:
        case Kind.CONV | Kind.DEPTHWISE:
            times = f"{layer.out_c // layer.in_c}, " if layer.kind is Kind.DEPTHWISE else ""
            sizes = (1, rows, columns, layer.out_c) if times else (layer.out_c, rows, columns, layer.in_c)
            kind = "dw_conv" if times else "conv"
            declared = f"cmsis_nn_{kind}_params params = {{3, 5, {times}{window}, {{1, 1}}, {limits}}}; {factors}"
            arguments = f"&context, &params, &factors, {sums}"
        case Kind.LINEAR:
            sizes = (layer.in_c, 1, 1, layer.out_c)
            declared = f"cmsis_nn_fc_params params = {{3, 0, 5, {limits}}}; {one}"
            arguments = f"&context, &params, &factors, {sums}"
        case Kind.MAX_POOL:
            sizes = (1, rows, columns, 1)
            declared = f"cmsis_nn_pool_params params = {{{window}, {limits}}};"
            arguments = "&context, &params, &in_dims, input, &filter_dims, &out_dims, output"
        case Kind.MATMUL:
            given = f"cmsis_nn_dims in_dims = {{1, {layer.out_c}, {height}, {layer.in_c}}};"
            made = f"cmsis_nn_dims out_dims = {{1, {layer.out_c}, {height}, {width}}};"
            sizes = (1, layer.out_c, width, layer.in_c)
            declared = f"cmsis_nn_bmm_params params = {{false, false, {{3, 2, 5, {limits}}}}}; {one}"
            arguments = "&context, &params, &factors, &in_dims, input, &filter_dims, weights, &out_dims, output"
    filters = f"cmsis_nn_dims filter_dims = {{{', '.join(map(str, sizes))}}};"
    check = f"if ({layer.kind.value}({arguments}) != ARM_CMSIS_NN_SUCCESS) {{ return 1; }}"
    return f"    {{ {given} {filters} {made} {context} {declared} {prepare(layer)} cortado_marker_step(); {check} }}\n"


def prepare(layer: Layer) -> str:
    """What a program does once, before the first inference: a linear layer's sums of weights."""
    if layer.kind is not Kind.LINEAR:
        return ""
    return "arm_vector_sum_s8((int32_t *)scratch, in_dims.c, out_dims.c, weights, 3, 0, bias);"


def source(layers: Sequence[Layer]) -> str:
    """A model of the board's harness that is nothing but these calls."""
    most = 1 << 17
    return f"""#include "arm_nnfunctions.h"
#include "arm_nnsupportfunctions.h"
#include "harness.h"
#include "markers.h"

static int8_t input[{most}], weights[{most}], output[{most}], scratch[1 << 16] __attribute__((aligned(16)));
static int32_t bias[1024], multipliers[1024], shifts[1024];

static void fill(void)
{{
    uint32_t state = 1;
    for (int i = 0; i < {most}; ++i) {{
        state = state * 1664525u + 1013904223u;
        input[i] = (int8_t)(state >> 24);
        weights[i] = (int8_t)(state >> 16);
    }}
    for (int i = 0; i < 1024; ++i) {{
        bias[i] = 37 * i - 9000;
        multipliers[i] = 0x50000000 + 12345 * i;
        shifts[i] = -9;
    }}
}}

static int run(void *arena)
{{
    (void)arena;
    cortado_marker_pause();
    fill();
    cortado_marker_resume();
{"".join(call_of(one) for one in layers)}    return 0;
}}

const cortado_harness_model_t cortado_harness_model = {{
    .name = "peer", .run = run,
}};
"""


def cmsis_nn(checkout: Path, names: Sequence[str], key: str) -> dict[str, int]:
    """Cycles of CMSIS-NN's functions on one target."""
    target = from_target_string(TARGETS[key])
    with tempfile.TemporaryDirectory(prefix="cortado-") as temporary:
        own = Path(temporary) / "model.c"
        own.write_text(source([LAYERS[name] for name in names]))
        sources = [
            path
            for path in sorted((checkout / "Source").rglob("*.c"))
            if "Bindings" not in path.parts and not path.stem.endswith(("f16", "f32"))
        ]
        flags = ["-Ofast", "-std=gnu11", "-ffunction-sections", "-w"]
        work = calls_work(target, [*sources, own], [checkout / "Include"], flags, len(names))
    return {name: round(work.step(number).cycles.typical) for number, name in enumerate(names)}


def store(checkout: Path, names: Sequence[str], targets: Sequence[str]) -> None:
    """Into baselines.json, with the commit of the checkout."""
    commit = subprocess.run(
        ["git", "-C", str(checkout), "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True, check=True
    )
    for key in targets:
        for name, cycles in cmsis_nn(checkout, names, key).items():
            STORED["cycles"].setdefault(name, {})[key] = cycles
            print(f"{key:4} {name:24} {cycles:>12,}  {cycles / LAYERS[name].products:.2f} a product", flush=True)
    STORED["commit"] = commit.stdout.strip()
    (FOLDER / "baselines.json").write_text(json.dumps(BASELINES, indent=1) + "\n")


# ---- both ------------------------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", default="m4,m55")
    parser.add_argument("--layers", default=",".join(LAYERS))
    parser.add_argument("--cmsis-nn", type=Path, metavar="DIR")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    targets, names = arguments.targets.split(","), arguments.layers.split(",")
    if arguments.cmsis_nn is not None:
        store(arguments.cmsis_nn, names, targets)
        return
    results: dict[str, Any] = {}
    for name in names:
        progress(name)
        results[name] = {key: layer_cycles(name, key) for key in targets}
    progress("mcunet_vww1")
    for optimize in (Optimize.TIME, Optimize.RAM):
        found = ours("mcunet_vww1", Mcunet(), [(1, 3, 80, 80)], "m4", optimize)
        results[f"mcunet_vww1, for {optimize.value}"] = {"m4_cycles": found.cycles, "ram_bytes": found.arena}
    progress(DEAD_CHANNELS)
    found = ours("vww_96", VisualWakeWords(), [(1, 3, 96, 96)], "m4", Optimize.BALANCED)
    results[DEAD_CHANNELS] = {"m4_cycles": found.cycles, "ram_bytes": found.arena}
    progress(ATTENTION)
    results[ATTENTION] = {key: attention(key) for key in targets}
    if arguments.json:
        print(json.dumps(results, indent=2))
    else:
        show(results, names, targets)


def show(results: dict[str, Any], names: Sequence[str], targets: Sequence[str]) -> None:
    rows: list[list[Any]] = []
    ratios: dict[str, list[float | None]] = {key: [] for key in targets}
    for name in names:
        row: list[Any] = [name]
        for key in targets:
            peer, found = STORED["cycles"][name][key], results[name][key]
            ratios[key].append(ratio(found, peer))
            row += [found, peer, ratios[key][-1], found / LAYERS[name].products]
        rows.append(row)
    means: list[Any] = ["geometric mean"]
    for key in targets:
        means += ["", "", geometric_mean(one for one in ratios[key] if one is not None), ""]
    head = [text for key in targets for text in (f"{key} cycles", "CMSIS-NN", "ratio", "a product")]
    print(table(["layer", *head], [*rows, means]))
    print(f"\nMCUNet-vww1 on an M4 beside TinyEngine's C ({TINYENGINE['about']}):")
    peer, rows = TINYENGINE["mcunet_vww1"], []
    for name in results.keys() - {*names, DEAD_CHANNELS, ATTENTION}:
        found = results[name]
        row = [[found[what], peer[what], ratio(found[what], peer[what])] for what in ("m4_cycles", "ram_bytes")]
        rows.append([name, *row[0], *row[1]])
    print(table(["", "M4 cycles", "TinyEngine", "ratio", "bytes of RAM", "TinyEngine", "ratio"], sorted(rows)))
    found = results[DEAD_CHANNELS]
    print(f"\n{DEAD_CHANNELS} on an M4: {found['m4_cycles']:,} cycles, {found['ram_bytes']:,} bytes of RAM")
    print(f"\n{ATTENTION}:")
    head = ["", "cycles", "bytes of RAM", "instructions a product", "bar"]
    print(table(head, [[key, *results[ATTENTION][key].values(), ATTENTION_BARS.get(key)] for key in targets]))


if __name__ == "__main__":
    main()
