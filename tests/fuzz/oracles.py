"""What has to hold for every network, and how it is found out.

Accuracy: torch running the user's own module is the truth. The captured graph in float is the same but for rounding;
the integer reference is as close to it as PT2E's quantized graph is, but for the rounding of a code. Bits: the integer
reference, the C bundle on this machine and on the boards, and the .pte on ExecuTorch's runtime give the same bytes.
"""

import copy
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.fx import GraphModule, Interpreter, Node

from cortado.api import Model, prepare
from cortado.artifact.narrowed import WeightsRequest, narrow_weights
from cortado.base.errors import CortadoError
from cortado.base.target import Core, CortexMTargetConfig, from_target_string
from cortado.emit.c.bundle import Bundle, emit_c
from cortado.emit.pte.program import c_only, emit_pte
from cortado.frontend.precision.judgement import FloatRun
from cortado.ir import op
from cortado.ir.graph import module_path
from cortado.ir.op import registry
from cortado.ops.elementwise.pointwise import FUNCTIONS, POINTWISE
from cortado.ops.move.topk import BEST
from cortado.options import Border, LinearWeights, Optimize, Options, Weights
from cortado.passes import PIPELINE, CortexMPassManager
from cortado.plan import checks
from cortado.plan.lowered import LoweredGraph, lowered_graph, run_reference
from cortado.plan.planned import Planned
from cortado.plan.program import build_program
from cortado.plan.request import Asked
from cortado.plan.schedule import schedule
from cortado.pte.reader import read_pte
from cortado.run import runner
from cortado.run.bundle_info import IO, BundleInfo, StoreRules
from cortado.run.executorch_host import run_pte
from fuzz.host import HostCase
from fuzz.interrupts import run_disturbed
from fuzz.network import Network, eager, plain_kernels, results_of
from fuzz.recipe import Recipe, Tensor
from helpers.cases import quick_plans
from helpers.single import EVERY_VALUE

TARGETS = {
    "cortex-m0plus": "mps2-an385",
    "cortex-m4": "mps2-an386",
    "cortex-m33": "mps2-an505",
    "cortex-m55": "mps3-an547",
    "cortex-m": "mps2-an500",
}
ANY_BOARDS = ("mps2-an500", "mps2-an385", "mps2-an386", "mps2-an505", "mps3-an547")
TIMEOUT = 1800.0  # by the clock, on a busy machine
FLOAT_DB = 60.0  # of a captured graph: another order of sums, no more
WORSE_DB = 3.0  # that the integer reference may be behind PT2E
STEPS = 1.5  # of the output's scale, beside that: codes are rounded one by one
GATED = ("cortado::lstm", "cortado::gru")  # their states have 16 bits for values up to 1: smaller ones are lost
GATED_STEP = 2.0**-15
TIE = 0.1  # of a step, from the middle between two codes: there the rounding of what went before decides
TIE_DRAWS = 16
TABLE = 2.0  # steps of an int16 function, which is read between the values of a table


QUANTIZE = torch.ops.quantized_decomposed.quantize_per_tensor.default


class Kind(Enum):
    """How a network can fail."""

    CRASH = "an exception that is no CortadoError"
    CAPTURE = "the captured graph computes something else than the module"
    ACCURACY = "the integer reference is further from the module than PT2E's graph"
    HOST = "the C bundle on this machine gives other bits, or a sanitizer found something"
    BOARD = "the C bundle on a board gives other bits, or writes where it must not"
    INTERRUPT = "the C bundle on a board gives other bits when interrupts come"
    PTE = "the .pte on ExecuTorch's runtime gives other bits"
    EXACT = "integers or truth values are not those that torch gives"
    MASK = "a place that a mask hides has a share, or the others are off"
    SLOW = "it did not finish in time"


class Found(Exception):
    """A bug."""

    def __init__(self, kind: Kind, what: str) -> None:
        super().__init__(what)
        self.kind = kind


@dataclass(frozen=True)
class Choices:
    """How a network is compiled: drawn from its seed."""

    target: str = "cortex-m4"
    board: str = "mps2-an386"
    options: Options = field(default_factory=Options)
    quick: bool = False  # whether memory is planned with little effort

    @staticmethod
    def draw(seed: int) -> "Choices":
        rng = Random(seed + 1_000_000_007)
        target = rng.choice(list(TARGETS))
        options = Options(
            optimize=rng.choice(list(Optimize)),
            io=rng.choice(list(Border)),
            linear=rng.choice(list(LinearWeights)),
        )
        board = rng.choice(ANY_BOARDS) if target == "cortex-m" else TARGETS[target]
        return Choices(target, board, options, quick=seed % 4 != 0)

    @property
    def config(self) -> CortexMTargetConfig:
        return from_target_string(self.target)


@dataclass(frozen=True)
class Data:
    """What a module is calibrated with, and what it runs on."""

    batches: Sequence[tuple[Tensor, ...]]
    fresh: Sequence[tuple[Tensor, ...]]


# ---- a network on its way ------------------------------------------------------------------------------------------


class Case:
    """A network that was captured, quantized and lowered; raises CortadoError where Cortado refuses it."""

    def __init__(self, recipe: Recipe, choices: Choices, name: str) -> None:
        self.recipe, self.choices, self.name = recipe, choices, name
        self.network = Network(recipe)
        self.batches = recipe.batches(3)
        self.model: Model = prepare(self.network, self.batches[0], self.batches, name=name, options=EVERY_VALUE)
        options = choices.options
        self.program = CortexMPassManager(
            self.model.quantized.program(), PIPELINE, target_config=choices.config, linear=options.linear
        ).transform()
        self.graph: LoweredGraph = lowered_graph(self.program)

    @cached_property
    def samples(self) -> list[tuple[Tensor, ...]]:
        """Inputs that calibration has not seen, some of them beyond its range."""
        return [*self.recipe.batches(1, seed=1), *self.recipe.batches(1, scale=4.0, seed=2)]

    @cached_property
    def values(self) -> list[dict[str, Tensor]]:
        """Every value of the integer reference, for each sample."""
        return [run_reference(self.graph, sample) for sample in self.samples]

    def planned(self, cores: tuple[Core, ...] | None) -> Planned:
        options = self.choices.options
        program = build_program(self.name, self.graph, self.choices.config, options.io, cores=cores)
        with quick_plans() if self.choices.quick else nullcontext():
            return schedule(program, options.optimize)

    @property
    def has_pte(self) -> bool:
        return not c_only(self.program)

    @property
    def layers_in_c_alone(self) -> set[int]:
        """The layers of the recipe with calls that no .pte has."""
        nodes = [node for node in self.program.graph_module.graph.nodes if node.op == "call_function"]
        paths = [(module_path(node) or "").split(".") for node in nodes if op.c_only(node) is not None]
        return {int(path[1]) for path in paths if path[0] == "layers" and len(path) > 1}


class ModuleCase(Case):
    """The same of a module that is no recipe, with its own data."""

    def __init__(
        self, module: nn.Module, data: Data, choices: Choices, name: str, options: Options = EVERY_VALUE
    ) -> None:
        self.choices, self.name = choices, name
        self.network = module  # type: ignore[assignment]
        self.batches, self.samples = list(data.batches), list(data.fresh)
        self.model = prepare(module, self.batches[0], self.batches, name=name, options=options)
        self.program = CortexMPassManager(
            self.model.quantized.program(), PIPELINE, target_config=choices.config, linear=choices.options.linear
        ).transform()
        if options.weights is Weights.INT4:
            runs = [FloatRun(tuple(batch), ()) for batch in self.batches]
            narrow_weights(self.program, WeightsRequest(Asked(name, choices.config, options), runs, correct=True))
        self.graph = lowered_graph(self.program)


# ---- accuracy ------------------------------------------------------------------------------------------------------


def check_accuracy(case: Case, worse: nn.Module | None = None) -> float:
    """The worst output's SQNR in decibels, of the integer reference against torch. The error of a worse model is added
    to what is allowed."""
    truth = [eager(case.network, batch) for batch in case.batches]
    check_capture(case, truth)
    converted = [eager(case.model.quantized.converted, batch) for batch in case.batches]
    integer = [run_reference(case.graph, batch) for batch in case.batches]
    known = truth if worse is None else [eager(worse, batch) for batch in case.batches]
    worst = math.inf
    for position, name in enumerate(case.graph.outputs):
        want = flat(sample[position] for sample in truth)
        pt2e = rms(flat(sample[position] for sample in converted) - want)
        pt2e += rms(flat(sample[position] for sample in known) - want)
        ours = rms(flat(sample[name] for sample in integer) - want)
        worst = min(worst, decibels(rms(want), ours))
        if not ours <= _allowed(pt2e, case, name):
            pt2e = max(pt2e, *(rms(flat(tied[position]) - want) for tied in _by_ties(case)))
        if not ours <= _allowed(pt2e, case, name):
            raise Found(
                Kind.ACCURACY,
                f"output {position}: {decibels(rms(want), ours):.1f} dB, PT2E {decibels(rms(want), pt2e):.1f} dB "
                f"(error {ours:.3g}, allowed {_allowed(pt2e, case, name):.3g})",
            )
    return worst


def _allowed(pt2e: float, case: Case, name: str) -> float:
    gated = any(call.operator in GATED for call in case.graph.calls)
    return pt2e * 10 ** (WORSE_DB / 20) + STEPS * step_of(case.graph, name) + gated * GATED_STEP


def _by_ties(case: Case) -> Iterator[list[list[Tensor]]]:
    """By output, what PT2E's graph gives if the values about half-way between two codes go to either of them, and int16
    functions are as far off as their tables are.

    Both are right: torch rounds ties to even codes, the kernels away from zero, and a sum of codes moves with each of
    them. What follows may make much of one code: a norm over few values does, a square root near zero, and a function
    that jumps. Nor does torch say which of equal values is the first of topk.
    """
    for seed in range(TIE_DRAWS):
        graph = EitherWay(case.model.quantized.converted, seed)
        with torch.no_grad(), plain_kernels():
            samples = [results_of(graph.run(*(value.clone() for value in batch))) for batch in case.batches]
        yield [list(values) for values in zip(*samples, strict=True)]


class EitherWay(Interpreter):
    """Runs a quantized graph; values about half-way between two codes go up or down by chance, int16 functions too."""

    def __init__(self, module: GraphModule, seed: int) -> None:
        super().__init__(module)
        self.generator = torch.Generator().manual_seed(seed)
        self.tabled = False

    def run_node(self, n: Node) -> Any:
        made = n.all_input_nodes[0].target if n.target is QUANTIZE else None
        self.tabled = (made in FUNCTIONS or made is POINTWISE) and n.args[5] == torch.int16
        return super().run_node(n)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if target is QUANTIZE:
            value, scale = args[0].double(), float(args[1])
            if self.tabled:
                value = value + (2 * torch.rand(value.shape, generator=self.generator) - 1) * TABLE * scale
            codes = value / scale
            half = (codes - codes.floor() - 0.5).abs() < TIE
            way = torch.randint(0, 2, codes.shape, generator=self.generator) * 2 - 1
            args = (torch.where(half, (codes + way * 0.25) * scale, value).to(args[0].dtype), *args[1:])
        elif target is BEST:
            value = args[0].double()
            chance = torch.rand(value.shape, generator=self.generator, dtype=torch.float64)
            args = (value + chance * 1e-9 * value.abs().max(), *args[1:])
        return super().call_function(target, args, kwargs)


def check_capture(case: Case, truth: Sequence[Sequence[Tensor]]) -> None:
    """In all samples: where a function jumps, rounding may decide a single one."""
    plain = without_quantization(case.model.quantized.converted)
    found = [eager(plain, batch) for batch in case.batches]
    for position in range(len(truth[0])):
        pairs = [(got[position], want[position]) for got, want in zip(found, truth, strict=True)]
        if any(got.shape != want.shape for got, want in pairs):
            raise Found(Kind.CAPTURE, f"output {position} has shape {list(pairs[0][0].shape)}")
        best = max(decibels(rms(want), rms(got.double() - want.double())) for got, want in pairs)
        if best < FLOAT_DB:
            raise Found(Kind.CAPTURE, f"output {position}: the captured graph in float has {best:.1f} dB")


def without_quantization(converted: GraphModule) -> GraphModule:
    """The float graph that was quantized: what PT2E's graph is without its quantize and dequantize calls."""
    module = copy.deepcopy(converted)
    for node in list(module.graph.nodes):
        if node.op == "call_function" and "quantized_decomposed" in str(node.target):
            node.replace_all_uses_with(node.args[0])
            module.graph.erase_node(node)
    module.recompile()
    return module


def flat(values: Any) -> Tensor:
    return torch.cat([value.detach().reshape(-1).double() for value in values])


def rms(value: Tensor) -> float:
    return float(value.double().square().mean().sqrt())


def decibels(signal: float, noise: float) -> float:
    if noise == 0:
        return 200.0
    return 20 * math.log10(signal / noise) if signal > 0 else -200.0


def step_of(graph: LoweredGraph, name: str) -> float:
    """The scale of the codes behind an output; an output that is no dequantized value has none."""
    call = graph.by_name.get(name)
    return float(call.arguments.get("scale", 0.0)) if call is not None else 0.0


# ---- bits ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bundled:
    """A C bundle with what it is fed and what it must give."""

    planned: Planned
    bundle: Bundle
    info: BundleInfo
    feeds: list[list[np.ndarray]]
    expected: list[list[np.ndarray]]


def bundled(case: Case, cores: tuple[Core, ...] | None = None) -> Bundled:
    planned = case.planned(cores)
    program = planned.program

    def tensors(group: Sequence[Any]) -> tuple[IO, ...]:
        return tuple(IO(tensor.name, tensor.shape, tensor.dtype) for tensor in group)

    def arrays(group: Sequence[Any]) -> list[list[np.ndarray]]:
        return [[values[tensor.node].numpy() for tensor in group] for values in case.values]

    info = BundleInfo(case.name, case.choices.config, tensors(program.inputs), tensors(program.outputs))
    return Bundled(planned, emit_c(planned), info, arrays(program.inputs), arrays(program.outputs))


def host_case(case: Case) -> tuple[HostCase, bytes]:
    """The network for host.py, and the bytes it must give."""
    made = bundled(case, cores=(Core.PORTABLE,))
    expected = b"".join(np.ascontiguousarray(value).tobytes() for sample in made.expected for value in sample)
    sizes = [tuple(tensor.bytes for tensor in group) for group in (made.info.inputs, made.info.outputs)]
    return HostCase(case.name, made.bundle.files, made.feeds, *sizes), expected


def check_board(case: Case) -> Bundled:
    """The release build on an emulated board, every store checked."""
    made = bundled(case)
    rules = StoreRules.from_json(checks.as_json(made.planned, made.bundle.calls))
    with TemporaryDirectory(prefix="cortado-fuzz-") as folder:
        runner.write_files(Path(folder), made.bundle.files)
        with failing(Kind.BOARD):
            limits = runner.RunLimits(seconds=TIMEOUT)
            result = runner.run_bundle(
                Path(folder), made.info, made.feeds, case.choices.board, count=False, stores=rules, limits=limits
            )
    require_equal(Kind.BOARD, result.samples, made.expected, case.choices.board)
    return made


def check_disturbed(case: Case) -> None:
    """The same with an interrupt every few hundred instructions, whose handler leaves every register dirty."""
    made = bundled(case)
    with failing(Kind.INTERRUPT):
        found = run_disturbed(made.bundle.files, made.info, made.feeds, case.choices.board)
    require_equal(Kind.INTERRUPT, found, made.expected, case.choices.board)


def check_pte(case: Case) -> set[str]:
    """The operators that the file calls, by the registry's names."""
    pte = emit_pte(case.program, case.choices.config, {"model": case.name}, etrecord=False)
    feeds = [[value.numpy() for value in sample] for sample in case.samples]
    expected = [[values[name].numpy() for name in case.graph.outputs] for values in case.values]
    with failing(Kind.PTE):
        found = run_pte(pte.data, feeds, imitate=False)  # values that MVE rounds to another code are drawn here too
    require_equal(Kind.PTE, found, expected, "executorch")
    method = read_pte(pte.data, case.name).method("forward")
    assert method is not None
    return {use.name.split(".")[0] for use in method.operators} & set(registry().operators)


@contextmanager
def failing(kind: Kind) -> Iterator[None]:
    """What was compiled has to run: an error here is no refusal."""
    try:
        yield
    except CortadoError as error:
        raise Found(kind, str(error)) from error


def require_equal(
    kind: Kind, got: Sequence[Sequence[np.ndarray]], expected: Sequence[Sequence[np.ndarray]], where: str
) -> None:
    for sample, (found, wanted) in enumerate(zip(got, expected, strict=True)):
        for position, (a, b) in enumerate(zip(found, wanted, strict=True)):
            if a.shape != b.shape or a.tobytes() != np.ascontiguousarray(b).tobytes():
                differ = int((a != b).sum()) if a.shape == b.shape else -1
                raise Found(kind, f"{where}: output {position} of sample {sample}, {differ} of {b.size} values differ")
