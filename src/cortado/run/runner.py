"""Runs a compiled model on this machine or on an emulated board: the same bundle, the same inputs, the same bits."""

import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from cortado.base.arrays import ArrayType
from cortado.base.errors import CortadoError
from cortado.base.system import DEVICE, processors
from cortado.base.target import BUNDLE_FLAGS, WASM_FLAGS, Compiler, CortexM, CortexMTargetConfig, Machine
from cortado.run.board import Board, build_firmware, build_harness_wasm, build_host, find_board
from cortado.run.bundle_info import BundleInfo, StoreRules
from cortado.run.elf import load_image
from cortado.run.harness import HOST_TIMEOUT, harness_source, run_harness, run_host, samples_per_boot
from cortado.run.qemu import MOST_INSTRUCTIONS, BoardResult, Said
from cortado.run.sandbox import NO_LIMITS as NO_LIMITS
from cortado.run.sandbox import RunLimits as RunLimits
from cortado.run.silicon.place import Silicon, is_probe
from cortado.run.stack import disassemble
from cortado.run.toolchain import Tool, require
from cortado.run.watch import Watch, skipped_ranges
from cortado.timing.cycles import Flow
from cortado.timing.instructions import Instruction
from cortado.timing.models import MODELS
from cortado.timing.work import MeasuredWork, account, parts_of

HOST = "host"
WASM = "wasm"  # also this machine, in WebAssembly
HERE = (HOST, WASM)  # where the portable kernels run
GROUP = 64  # samples per process on this machine: enough to amortize its start, few enough to show progress
EXECUTORCH = "executorch"  # the .pte on the ExecuTorch runtime of this machine


# For each board, the core whose flags a bundle for ANY core is compiled with.
_ANY_CORES = {
    Machine.MPS2_AN385: CortexM.M3,
    Machine.MPS2_AN386: CortexM.M4,
    Machine.MPS2_AN500: CortexM.M7,
    Machine.MPS2_AN505: CortexM.M33,
    Machine.MPS3_AN547: CortexM.M55,
    Machine.MICROBIT: CortexM.M0,
}
# Further boards that run a target's code.
_ALSO = {CortexM.M0: (Machine.MICROBIT,), CortexM.M0PLUS: (Machine.MICROBIT,)}


@dataclass(frozen=True)
class Flown:
    """The control flow of a program, from which its cost on any core that runs its code follows."""

    flow: Flow
    code: Mapping[int, Instruction]
    skipped: Sequence[tuple[int, int]]

    def work(self, cpu: CortexM) -> MeasuredWork:
        return account(self.flow, self.code, parts_of(self.code), MODELS[cpu], self.skipped)


@dataclass(frozen=True)
class RunResult:
    """The outputs of each sample, and what the emulated board counted."""

    on: str
    samples: list[list[ArrayType]]
    instructions: int | None = None
    stack_bytes: int | None = None
    functions: Mapping[str, int] | None = None
    cpu: CortexM | None = None  # the core whose cycles `work` has
    flown: Flown | None = None  # the first sample's, if it is timed
    trace: bytes = b""  # with TRACE: the output row of every kernel call, in call order
    silicon: Silicon | None = None  # the readings of a chip's own counter
    pushes: tuple[int, ...] = ()  # if input comes row by row: the instructions of each row of the first sample

    def __repr__(self) -> str:
        counted = "" if self.instructions is None else f", {self.instructions:,} instructions"
        return f"<RunResult of {len(self.samples)} samples on {self.on}{counted}>"

    @cached_property
    def work(self) -> MeasuredWork | None:
        """Returns the work of the first sample: cycles, and the distribution of instructions and cycles."""
        return None if self.flown is None or self.cpu is None else self.flown.work(self.cpu)


# ---- where -----------------------------------------------------------------------------------------------------


def choose_board(target: CortexMTargetConfig, on: str | None) -> Machine | None:
    """Returns the emulated board of a run; None for this machine, and for a chip behind a probe."""
    if on in (*HERE, EXECUTORCH) or is_probe(on):
        return None
    if on is None:
        return target.machine
    try:
        wanted = Machine(on)
    except ValueError:
        known = ", ".join([*HERE, EXECUTORCH, "gdb:HOST:PORT", *(board.value for board in Machine)])
        raise CortadoError(f"can't run on '{on}'; known places: {known}") from None
    allowed = tuple(Machine) if target.cpu is CortexM.ANY else (target.machine, *_ALSO.get(target.cpu, ()))
    if wanted not in allowed:
        names = ", ".join(board.value for board in allowed)
        raise CortadoError(
            f"this bundle is for {target.target_string}, which runs on {names}, not on {wanted.value}; "
            "compile for a core of that board, or for cortex-m to run on all of them"
        )
    return wanted


def board_flags(target: CortexMTargetConfig, board: Machine) -> tuple[str, ...]:
    if target.cpu is CortexM.ANY:
        return CortexMTargetConfig(_ANY_CORES[board]).compiler_flags(Compiler.GCC)
    return target.compiler_flags(Compiler.GCC)


# ---- building ----------------------------------------------------------------------------------------------------

WARNINGS = ("-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Werror")
RUNTIME_CHECKS = "-DCORTADO_ENABLE_RUNTIME_CHECKS"
TRACE = "-DCORTADO_TRACE"  # every kernel call also writes out its output row
_PLACEMENT = (
    '-DCORTADO_WEIGHTS=__attribute__((section(".cortado.weights")))',
    '-DCORTADO_ARENA=__attribute__((section(".bss.arena")))',
)


def bundle_sources(folder: Path, suffixes: str = "cS") -> list[Path]:
    """Returns the sources of a bundle; builds for this machine omit the assembly files."""
    return [*sorted(folder.glob("*.c")), *sorted((folder / "kernels" / "src").glob(f"*.[{suffixes}]"))]


def bundle_includes(folder: Path) -> list[Path]:
    return [folder, folder / "kernels" / "include", folder / "kernels" / "src"]


def build(
    folder: Path, info: BundleInfo, board: Machine | None, extra_flags: Sequence[str] = (), *, wasm: bool = False
) -> Path:
    """Builds the bundle with the harness: a firmware image, or a program for this machine (`wasm`: WebAssembly)."""
    with tempfile.TemporaryDirectory(prefix="cortado-") as temporary:
        glue = Path(temporary) / "harness_model.c"
        glue.write_text(harness_source(info))
        sources = [*bundle_sources(folder, "c" if board is None else "cS"), glue]
        includes = bundle_includes(folder)
        if wasm:
            return build_harness_wasm(sources, includes, [*WARNINGS, *WASM_FLAGS, *extra_flags], info.name)
        if board is None:
            flags = [*WARNINGS, *BUNDLE_FLAGS, *extra_flags]
            return build_host(sources, includes, flags, info.name)
        machine = board_flags(info.target, board)
        flags = [*machine, *WARNINGS, *BUNDLE_FLAGS, *info.flags, *_PLACEMENT, *extra_flags]
        return build_firmware(find_board(board), sources, includes, flags, info.name, foreign=info.foreign)


def wasm_runner() -> tuple[Path, Path]:
    """Returns the interpreter of a WebAssembly harness, and its script."""
    return require(Tool.NODE), DEVICE / "wasm" / "run.mjs"


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    for inner in {(folder / name).parent for name in files}:
        inner.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)


# ---- running -----------------------------------------------------------------------------------------------------


def run_bundle(
    folder: Path,
    info: BundleInfo,
    samples: Sequence[Sequence[ArrayType]],
    on: str | None = None,
    *,
    count: bool = True,
    flags: Sequence[str] = (),
    stores: StoreRules | None = None,
    timed: StoreRules | None = None,
    limits: RunLimits = NO_LIMITS,
    sequence: int | None = None,
    progress: Callable[[int], None] = lambda done: None,
    built: Callable[[Machine | None], Path] | None = None,
) -> RunResult:
    """Runs every sample: on a board, as many per boot as it has room for; on this machine, on all its cores.

    `samples` have the bundle's own dtypes; `flags` are passed on to the compiler. With state, samples are steps of
    sequences, each `sequence` long or all of them one; a sequence is never split. With `stores`, every store on the
    emulated board is compared with the rules, and the first stray one is an error. With `timed`, the cycles of the
    first sample are modelled for each step of the rules. `progress` gets the number of samples done. `built` builds the
    program, by default from the folder's bundle.
    """
    board = choose_board(info.target, on)
    program = build(folder, info, board, flags, wasm=on == WASM) if built is None else built(board)
    if board is None:
        by = wasm_runner() if on == WASM else ()
        done = _run_on_cores(program, info, samples, limits.seconds, sequence, progress, by)
        return replace(done, on=on or HOST)
    machine, watch = find_board(board), Watch(count=True) if count else None
    rules = stores or timed
    if rules is not None:
        image = load_image(program)
        watch = rules.watch(image, count=count, stores=stores is not None, timed=timed is not None)
    given, wanted = (sum(tensor.bytes for tensor in group) for group in (info.inputs, info.outputs))
    most = max(samples_per_boot(program, machine, given, wanted * info.results), 1)
    if info.state:
        most = _whole_sequences(most, sequence or len(samples), board)
    boots = []
    for start in range(0, len(samples), most):
        group = samples[start : start + most]
        boots.append(_boot(program, machine, group, sequence, limits, watch))
        if stores is not None and boots[-1].stores is not None:
            stores.check(boots[-1].stores)
        progress(start + len(group))
    result = _result(board, boots, info, len(samples))
    if rules is not None and info.row_bytes and boots:
        result = replace(result, pushes=_pushes(rules, boots[0]))
    flow = boots[0].flow if boots else None
    if flow is None:
        return result
    cpu = core_of(info.target, board)
    return replace(result, cpu=cpu, flown=Flown(flow, disassemble(program, cpu), skipped_ranges(load_image(program))))


def _boot(
    program: Path,
    machine: Board,
    samples: Sequence[Sequence[ArrayType]],
    sequence: int | None,
    limits: RunLimits,
    watch: Watch | None,
) -> BoardResult:
    """Runs some samples in one boot of the board."""
    return run_harness(
        program,
        machine,
        _feed(samples),
        len(samples),
        sequence=sequence or 0,
        timeout=limits.seconds,
        instructions=(limits.instructions or MOST_INSTRUCTIONS) * len(samples),
        plugin=watch,
    )


def _whole_sequences(most: int, length: int, board: Machine) -> int:
    """Rounds the samples per boot down to whole sequences: state is lost with the board's memory."""
    if most < length:
        raise CortadoError(
            f"a sequence of {length} steps does not fit {board.value}, which has room for the inputs and outputs of "
            f"{most}; give it shorter ones (--sequence {most}), or fewer samples"
        )
    return most - most % length


def _pushes(rules: StoreRules, done: BoardResult) -> tuple[int, ...]:
    """Sums the instructions of each push, which begins with a call of the first step, the input's."""
    pushes: list[int] = []
    if done.counts is not None and done.counts.samples:
        for call, instructions in zip(rules.calls, done.counts.samples[0].calls, strict=False):
            if call.step == 0:
                pushes.append(0)
            pushes[-1] += instructions
    return tuple(pushes)


def core_of(target: CortexMTargetConfig, board: Machine) -> CortexM:
    """Returns the core whose cycles are modelled: the bundle's own or, for a bundle for any core, the board's."""
    return _ANY_CORES[board] if target.cpu is CortexM.ANY else target.cpu


def _run_on_cores(
    program: Path,
    info: BundleInfo,
    samples: Sequence[Sequence[ArrayType]],
    timeout: float | None,
    sequence: int | None,
    progress: Callable[[int], None],
    by: Sequence[Path],
) -> RunResult:
    """Runs groups of samples in separate processes, one at a time on each core of this machine."""
    cores = processors()
    size = max(min(GROUP, -(-len(samples) // cores)), 1)
    if info.state:  # keeps sequences whole
        length = sequence or max(len(samples), 1)
        size = -(-size // length) * length
    groups = [samples[start : start + size] for start in range(0, len(samples), size)]

    def run(group: Sequence[Sequence[ArrayType]]) -> Said:
        limit = HOST_TIMEOUT * len(group) if timeout is None else timeout
        return run_host(program, _feed(group), len(group), sequence=sequence or 0, timeout=limit, by=by).said

    outputs: list[list[ArrayType]] = []
    traces = []
    with ThreadPoolExecutor(cores) as pool:  # the threads only wait for their processes
        for group, said in zip(groups, pool.map(run, groups), strict=True):
            outputs += split_outputs(said.outputs, info, len(group))
            traces.append(said.trace)
            progress(len(outputs))
    return RunResult(HOST, outputs, trace=b"".join(traces))


def _feed(samples: Sequence[Sequence[ArrayType]]) -> bytes:
    return b"".join(np.ascontiguousarray(tensor).tobytes() for sample in samples for tensor in sample)


def _result(board: Machine, boots: Sequence[BoardResult], info: BundleInfo, samples: int) -> RunResult:
    counts = [done.counts for done in boots if done.counts is not None]
    functions: Counter[str] = Counter()
    for one in counts:
        functions.update(one.functions)
    return RunResult(
        on=board.value,
        samples=split_outputs(b"".join(done.said.outputs for done in boots), info, samples),
        instructions=counts[0].samples[0].total if counts and counts[0].samples else None,
        stack_bytes=max((done.said.stack_bytes for done in boots if done.said.stack_bytes is not None), default=None),
        functions=dict(functions.most_common()) if counts else None,
        trace=b"".join(done.said.trace for done in boots),
    )


def split_outputs(data: bytes, info: BundleInfo, count: int) -> list[list[ArrayType]]:
    one = sum(tensor.bytes for tensor in info.outputs)
    if len(data) != one * info.results * count:
        raise CortadoError(f"the run returned {len(data)} bytes, expected {one * info.results * count}")
    samples = []
    for all_results in np.frombuffer(data, dtype=np.uint8).reshape(count, info.results, one):
        sample, position = [], 0
        for tensor in info.outputs:  # each result of a stream has all outputs
            taken = all_results[:, position : position + tensor.bytes].tobytes()
            piece = np.frombuffer(bytearray(taken), tensor.dtype)  # aligned, and owned by the caller
            sample.append(piece.reshape((info.results, *tensor.shape) if info.results > 1 else tensor.shape))
            position += tensor.bytes
        samples.append(sample)
    return samples
