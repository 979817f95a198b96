"""Calls of operators with arguments drawn from their own samples: many of them side by side as one network."""

import math
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

import torch
from hypothesis import HealthCheck, Phase, given, seed, settings

from cortado.base.element import INT8
from cortado.base.target import Core, CortexMTargetConfig
from cortado.exploring import Sketch
from cortado.ir.op import Operator, registry
from cortado.options import Border
from cortado.plan.kernel_workload import function_of, kernels_of
from cortado.plan.lowered import lowered_graph
from cortado.plan.program import build_program
from cortado.plan.schedule import schedule

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from helpers.cases import Case, call_of, lowered_program, results_of
from helpers.operator_cases import cases_of

TOGETHER = 5  # calls of each operator in a network
DRAWN = 8  # of which one is taken
LARGEST = 20_000  # outputs of a call
CORES = (Core.SMALL, Core.LONG, Core.DSP, Core.MVE)


def _keeps(mask: torch.Tensor) -> bool:
    """Something of every row."""
    return bool((mask != 0).any(-1).all())


def _likely_mask(kept: Sequence[torch.Tensor]) -> bool:
    return not kept or _keeps(kept[0])


def _is_finite(arguments: Mapping[str, Any]) -> bool:
    given = [one for value in arguments.values() for one in (value if isinstance(value, list) else [value])]
    return all(bool(one.isfinite().all()) for one in given if isinstance(one, torch.Tensor))


# Calls that a network is likely to have, where an operator has others as well.
LIKELY: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    "cortado::calculate_int": lambda arguments: bool((arguments["other"] != 0).all()),
    "cortado::log_softmax": lambda arguments: _likely_mask(arguments["kept"]),
    "cortado::masked_softmax": lambda arguments: _likely_mask(arguments["kept"]),
    "cortex_m::quantized_div": lambda arguments: arguments["output_scale"] <= INT8.high,  # 1 does not saturate
}
# Operators that have many kernels, each for some calls only, and how many calls show them.
VARIANTS: Mapping[str, int] = {
    "cortado::upsample_bilinear_nhwc": 6,
    "cortado::upsample_nearest_nhwc": 6,
    "cortex_m::quantized_add": 8,
    "cortex_m::quantized_avg_pool2d_nhwc": 12,
    "cortex_m::quantized_conv2d_nhwc": 16,
    "cortex_m::quantized_depthwise_conv2d_nhwc": 14,
    "cortex_m::quantized_linear": 10,
    "cortex_m::quantized_mul": 10,
    "cortex_m::quantized_transpose_conv2d_nhwc": 20,
}
# Operators that take elements of several sizes, computed masks, or give several results.
ELEMENTS: Mapping[str, int] = {
    "cortado::argmax": 12,
    "cortado::compare": 24,
    "cortado::log_softmax": 20,
    "cortado::magnitude": 32,
    "cortado::masked_softmax": 24,
    "cortado::pick": 24,
    "cortado::reduce_int": 24,
    "cortado::topk": 12,
    "cortado::where": 40,
    "cortex_m::dequantize_per_tensor": 16,
    "cortex_m::pad": 48,
    "cortex_m::quantize_per_tensor": 16,
    "cortex_m::quantized_add": 48,
    "cortex_m::transpose": 64,
}

# Runs of bytes chosen by an index, norms, and sums and products with one value for each channel.
CHOSEN: Mapping[str, int] = {
    "aten::index_select": 40,
    "cortado::normalize": 40,
    "cortex_m::quantized_add": 40,
    "cortex_m::quantized_mul": 40,
}

# Those whose kernels with vector instructions run over the elements, the channels or the lines of each row.
BY_ROW: Mapping[str, int] = {
    "aten::repeat": 20,
    "aten::slice_copy": 20,
    "cortado::cumsum": 24,
    "cortado::log_softmax": 40,
    "cortado::topk": 24,
    "cortado::upsample_bilinear_nhwc": 40,
    "cortex_m::quantized_div": 24,
    "cortex_m::transpose": 60,
}

# Operators on signals: their samples are of every length and curve.
SIGNALS: Mapping[str, int] = {"cortado::filter": 16, "cortado::samples": 12, "cortado::spectrum": 40}

# Layers with 4-bit weights: kernels for spans of pixels, for one, and for windows, with factors and without; recurrent.
NARROW: Mapping[str, int] = {"cortex_m::quantized_conv2d_nhwc": 96}

# Operators of 16-bit codes, beside those above.
WIDE: Mapping[str, int] = {
    "cortado::compare": 16,
    "cortado::dilated_max_pool2d_nhwc": 16,
    "cortado::function": 8,
    "cortado::patched_function": 8,
    "cortado::global_mean_nhwc": 16,
    "cortado::requantize": 12,
    "cortado::steps": 12,
    "cortex_m::maximum": 16,
    "cortex_m::minimum": 16,
    "cortex_m::softmax": 20,
    "cortex_m::quantized_avg_pool2d_nhwc": 16,
    "cortex_m::quantized_batch_matmul": 20,
    "cortex_m::quantized_conv2d_nhwc": 40,
    "cortex_m::quantized_depthwise_conv2d_nhwc": 24,
    "cortex_m::quantized_div": 16,
    "cortex_m::quantized_mul": 24,
}


# The rest of them, and layers with weights once more, which have kernels of their own on every kind of core.
MORE_WIDE: Mapping[str, int] = {
    "cortado::argmax": 8,
    "cortado::cosine_similarity": 10,
    "cortado::cumsum": 10,
    "cortado::embedding": 20,
    "cortado::embedding_bag": 10,
    "cortado::gru": 24,
    "cortado::lstm": 24,
    "cortado::normalize": 16,
    "cortado::rnn": 24,
    "cortado::topk": 8,
    "cortado::log_softmax": 24,
    "cortado::masked_softmax": 32,
    "cortado::upsample_bilinear_nhwc": 14,
    "cortado::variance": 14,
    "cortado::quantize_int": 12,
    "cortex_m::quantized_conv2d_nhwc": 30,
    "cortex_m::quantized_depthwise_conv2d_nhwc": 20,
    "cortex_m::quantized_transpose_conv2d_nhwc": 16,
}


# Operators whose loops have many quantities each, which a few calls do not tell apart.
MANY_TERMS: Mapping[str, int] = {
    "aten::repeat": 20,
    "aten::slice_copy": 20,
    "cortado::calculate_int": 20,
    "cortado::cosine_similarity": 12,
    "cortado::embedding": 30,
    "cortado::magnitude": 24,
    "cortado::spectrum": 40,
    "cortado::transpose_conv2d_nhwc": 30,
    "cortado::variance": 16,
    "cortado::log_softmax": 48,
    "cortado::masked_softmax": 60,
    "cortex_m::softmax": 40,
    "cortex_m::quantized_add": 24,
    "cortex_m::quantized_depthwise_conv2d_nhwc": 24,
    "cortex_m::quantized_div": 20,
    "cortex_m::quantized_linear": 30,
    "cortex_m::quantized_transpose_conv2d_nhwc": 30,
}


# Operators of float32.
FLOATS: Mapping[str, int] = {
    "cortado::float_calculate": 48,
    "cortado::float_conv2d": 24,
    "cortado::float_from_int": 4,
    "cortado::float_function": 60,
    "cortado::float_gru": 12,
    "cortado::float_lstm": 24,
    "cortado::float_matmul": 16,
    "cortado::float_pool2d": 16,
    "cortado::float_position": 8,
    "cortado::float_reduce": 16,
    "cortado::float_rnn": 16,
    "cortado::float_softmax": 12,
    "cortado::float_to_int": 4,
    "cortado::float_to_truth": 4,
    "cortado::float_update": 12,
    "cortado::float_where": 6,
    "cortado::topk": 16,
}


# ---- calls that a core has no kernel of its own for ------------------------------------------------------------------

Arguments = dict[str, Any]


def _odd_layers(weights: str, given: Arguments) -> list[Arguments]:
    """A layer with a weight of -128, which no quantizer gives; and two that have, beside it, outputs that are shifted
    left, and biases whose double does not fit 32 bits, with outputs that are not shifted."""
    if given["input"].dtype != torch.int8 or given.get("run") is not None:
        return []
    codes, shifts = given[weights].clone(), given["requantize_shifts"]
    codes.view(-1)[0] = INT8.low
    odd = {**given, weights: codes}
    biased = {**odd, "bias": torch.full((len(shifts),), 3 << 29, dtype=torch.int32)}

    def shifted(layer: Arguments, by: int) -> Arguments:
        several = [by for _ in shifts]
        given = torch.tensor(several, dtype=torch.int32) if isinstance(shifts, torch.Tensor) else several
        return {**layer, "requantize_shifts": given}

    return [odd, shifted(odd, 1), shifted(biased, 0)]


def _large_windows(given: Arguments) -> list[Arguments]:
    """Averages over more than 256 numbers, and over more than 5,770 that are the whole image."""
    _, height, width, channels = given["input"].shape
    window, whole = [18 + height % 5, 15 + width % 7], [73 + height % 7, 80 + 3 * (width % 9)]

    def over(sizes: list[int], kernel: list[int]) -> Arguments:
        codes = torch.arange(math.prod(sizes) * channels).remainder(251).sub(125).to(torch.int8)
        image = codes.reshape(1, *sizes, channels)
        return {**given, "input": image, "kernel_size": kernel, "padding": [0, 0], "stride": [1, 2]}

    return [over([24, 26], window), over(whole, whole)]


# How calls become such; and how many of them.
ODD: Mapping[str, tuple[int, Callable[[Arguments], list[Arguments]]]] = {
    "cortex_m::quantized_avg_pool2d_nhwc": (8, _large_windows),
    "cortex_m::quantized_conv2d_nhwc": (60, partial(_odd_layers, "weight")),
    "cortex_m::quantized_depthwise_conv2d_nhwc": (40, partial(_odd_layers, "weight")),
    "cortex_m::quantized_linear": (18, partial(_odd_layers, "weights")),
}


@dataclass(frozen=True)
class Family:
    """Networks of operators' calls."""

    names: Mapping[str, int] | None  # how many calls of each; None for a few of all
    spread: bool = False  # calls of every size, not the larger ones alone
    odd: bool = False


FAMILIES: Mapping[str, Family] = {
    "o": Family(None),
    "v": Family(VARIANTS),
    "e": Family(ELEMENTS, spread=True),
    "B": Family(CHOSEN, spread=True),
    "R": Family(BY_ROW, spread=True),
    "g": Family(MORE_WIDE, spread=True),
    "h": Family(WIDE, spread=True),
    "n": Family(NARROW, spread=True),
    "p": Family(FLOATS, spread=True),
    "s": Family(SIGNALS, spread=True),
    "t": Family(MANY_TERMS, spread=True),
    "O": Family({name: wanted for name, (wanted, _) in ODD.items()}, spread=True, odd=True),
}


def operators() -> list[Operator]:
    """Those with a C kernel, by name."""
    known = registry().operators
    return [known[name] for name in sorted(known) if known[name].kernel is not None]


def draw_calls(number: int, family: Family) -> list[Case]:
    """The same number gives the same calls."""
    found: list[Case] = []
    for operator in operators():
        wanted = TOGETHER if family.names is None else family.names.get(operator.name, 0)
        change = ODD[operator.name][1] if family.odd and wanted else None
        found += [(operator, arguments) for arguments in draw(operator, number, wanted, family.spread, change)]
    return found


def draw(
    operator: Operator,
    number: int,
    wanted: int,
    spread: bool,
    change: Callable[[Arguments], list[Arguments]] | None = None,
) -> list[Arguments]:
    """Arguments of calls, of each kernel in turn, the larger ones first; or large and smaller ones in turn. `change`
    makes others of them."""
    drawn: list[Arguments] = []
    if wanted == 0:
        return drawn

    @seed(number)
    @settings(
        max_examples=DRAWN * wanted + 1,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(arguments=cases_of(operator))
    def take(arguments: Arguments) -> None:
        drawn.extend([arguments] if change is None else change(arguments))

    take()
    likely = LIKELY.get(operator.name, _is_finite)
    results = {at: results_of(operator, one)[0] for at, one in enumerate(drawn) if likely(one)}
    fit = [at for at, result in results.items() if result.numel() <= LARGEST]
    by_kernel: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for at in sorted(fit, key=lambda at: -results[at].numel()):
        by_kernel[functions(operator, drawn[at])].append(at)
    ordered = map(_large_and_small, by_kernel.values()) if spread else by_kernel.values()
    turns = (at for several in zip_longest(*ordered) for at in several if at is not None)
    return [drawn[at] for at in islice(turns, wanted)]


def _large_and_small(calls: list[int]) -> list[int]:
    """The largest, the one in the middle, the one behind the largest, and so on."""
    middle = (len(calls) + 1) // 2
    pairs = zip_longest(calls[:middle], calls[middle:])
    return [at for pair in pairs for at in pair if at is not None]


def functions(operator: Operator, arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """The C functions that make a call on each kind of core."""
    assert operator.kernel is not None
    call = call_of(operator, arguments)
    kernels = [operator.kernel(call, core) for core in CORES]
    return tuple(function_of(one) for kernel in kernels for one in kernels_of(kernel))


def sketch_of(cases: list[Case], target: CortexMTargetConfig) -> Sketch:
    """All of these calls as one network."""
    program, inputs = lowered_program(cases)
    graph = lowered_graph(program)
    planned = schedule(build_program("cases", graph, target, Border.FLOAT))
    return Sketch(graph, planned, tuple(torch.as_tensor(value) for value in inputs))
