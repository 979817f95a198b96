"""Every operator's kernels on every kind of core, over the operator's own samples; and that a fault in one is found."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from cortado.base.arrays import same_bits
from cortado.base.system import KERNEL_SOURCES
from cortado.base.target import ALIGNED_ONLY, Compiler, Core, from_target_string
from cortado.emit.c.header import STACK_MARGIN
from cortado.ir.op import Operator, registry
from cortado.run import stack
from cortado.run.measure import linked_code
from cortado.run.qemu import BoardFaultError
from cortado.run.runner import HOST
from helpers import cases
from helpers.sanitizers import SANITIZERS

pytestmark = [pytest.mark.qemu, pytest.mark.xdist_group("every core")]  # programs are made once
TARGETS = ("cortex-m0plus", "cortex-m3", "cortex-m4", "cortex-m55")
SAMPLES = 8  # of each operator on each core, as they come
TRAP = "-DCORTADO_TRAP_UNALIGNED"  # CCR.UNALIGN_TRP is on, as some firmware has it and as device memory is
FEW = 25  # of them one
PARTS = 4  # programs that they are built into: so many fit the memory of a board
HERE = 2  # on this machine: building the kernels with sanitizers takes longer still


@cache
def calls() -> list[cases.Case]:
    """Of all operators."""
    operators = [op for op in registry().operators.values() if op.kernel is not None]
    return [(operator, arguments) for operator in operators for arguments in cases.drawn(operator, SAMPLES)]


@cache
def parts(count: int) -> list[cases.Together]:
    """The same for all targets."""
    return [cases.Together(calls()[first::count]) for first in range(count)]


@cache
def programs(target: str) -> list[tuple[Sequence[cases.Case], cases.Bundled]]:
    """The calls of all operators, in a few programs for a target."""
    here = target == HOST
    config, cores = from_target_string(TARGETS[0] if here else target), (Core.PORTABLE,) if here else None
    return [(part.cases, cases.bundled(part, config, cores)) for part in parts(HERE if here else PARTS)]


def wrong(
    work: Sequence[cases.Case], bundled: cases.Bundled, folder: Path, flags: Sequence[str] = (), on: str | None = None
) -> list[str]:
    """The operators whose calls give other bits than the reference; on the target's board, or in another place."""
    found = bundled.run(on or bundled.info.target.machine.value, folder, flags)
    pairs = zip(work, found, cases.references(work), strict=True)
    return [operator.name for (operator, _), got, want in pairs if not same_bits(got, want.numpy())]


@pytest.mark.parametrize("target", TARGETS)
def test_every_operator_gives_the_references_bits(target: str, tmp_path: Path) -> None:
    for number, (work, bundled) in enumerate(programs(target)):
        assert wrong(work, bundled, tmp_path / str(number)) == []


@pytest.mark.host
def test_every_portable_kernel_gives_the_references_bits(tmp_path: Path) -> None:
    """On this machine, under sanitizers: whatever core they are meant for."""
    for number, (work, bundled) in enumerate(programs(HOST)):
        assert wrong(work, bundled, tmp_path / str(number), SANITIZERS, HOST) == []


def test_unaligned_accesses_fault_and_aligned_only_makes_none(tmp_path: Path) -> None:
    work = calls()[::FEW]
    bundled = cases.bundled(cases.Together(work), from_target_string("cortex-m4"))
    with pytest.raises(BoardFaultError, match=": unaligned access"):
        wrong(work, bundled, tmp_path / "any", (TRAP,))
    assert wrong(work, bundled, tmp_path / "aligned", (TRAP, *ALIGNED_ONLY)) == []


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS[1:])
def test_no_kernel_of_any_core_accesses_unaligned(target: str, tmp_path: Path) -> None:
    """Cores without a long multiply have no unaligned access: every test of theirs is this one."""
    for number, (work, bundled) in enumerate(programs(target)):
        assert wrong(work, bundled, tmp_path / str(number), (TRAP, *ALIGNED_ONLY)) == []


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_other_levels_of_optimization_take_no_more_stack_than_the_margin(target: str) -> None:
    """Of each kernel call, and of the loop over rows with all of them."""
    for _, bundled in programs(target):
        usual = stacks(bundled, "-O2")
        for level in ("-Os", "-O3"):
            found = stacks(bundled, level)
            more = {name: size - usual[name] for name, size in found.items() if name in usual}
            assert max(more.values()) <= STACK_MARGIN, (level, max(more, key=lambda name: more[name]))


def stacks(bundled: cases.Bundled, level: str) -> dict[str, int]:
    """What each function of MODEL.c takes that is in the code of this level."""
    info, bundle = bundled.info, bundled.bundle
    elf = linked_code(bundled.files, [bundle], [info], Compiler.GCC, more=(level,))
    assert elf is not None
    found = stack.stacks(elf, info.target.cpu, (*bundle.calls, *info.entries), bundle.calls)
    return {name: size for name, size in found.items() if size is not None}


def test_the_samples_reach_every_kernel_of_a_core() -> None:
    used = {Path(name).name for target in TARGETS for _, bundled in programs(target) for name in bundled.files}
    special = {name for name in KERNEL_SOURCES if "__" in name}
    assert sorted(special - used) == []


FAULTS = (
    ("cortex-m0plus", "mul_s8.c", "cortado_clamp(v, low, high)", "cortado_clamp(v, low, high - 1)"),
    ("cortex-m0plus", "cumsum_s8.c", "-128, 127", "-127, 127"),
    ("cortex-m3", "topk_s8.c", "c > last", "c >= last + 2"),
    ("cortex-m3", "normalize_s8.c", "sums.sum += q;", "sums.sum += q | 1;"),
    ("cortex-m3", "batch_matmul_s8.c", "L->depth * L->lhs_zero", "(L->depth + 1) * L->lhs_zero"),
    ("cortex-m4", "masked_softmax_s8.c", "(n + 7) >> 3", "(n + 8) >> 3"),
    ("cortex-m4", "depthwise3x3_row_s8__dsp.S", "add     lr, lr, lr, asr #31", "nop"),
    ("cortex-m4", "conv_tile_s8__scalar_dsp.S", "ssat    r4, #8, r4", "ssat    r4, #9, r4"),
    ("cortex-m55", "conv_tile_s8__mve.S", "vrshl.s32 q6, q6, q5", "vshl.s32 q6, q6, q5"),
    ("cortex-m55", "add_s8__mve.S", "vmin.s32 q0, q0, q7", "nop"),
)


def test_the_faults_are_about_the_present_kernels() -> None:
    """Their texts, without the long run that tries them."""
    assert [file for _, file, right, _ in FAULTS if right not in KERNEL_SOURCES[file].read_text()] == []


@pytest.mark.slow
@pytest.mark.parametrize(("target", "file", "right", "fault"), FAULTS, ids=[file for _, file, _, _ in FAULTS])
def test_a_fault_in_a_kernel_is_found(target: str, file: str, right: str, fault: str, tmp_path: Path) -> None:
    """Rounding, ties, bounds, the last channel: small faults, of which a network would lose a bit now and then."""
    name, found = f"kernels/src/{file}", []
    for number, (work, bundled) in enumerate(programs(target)):
        text = bundled.files.get(name, "")
        if right in text:
            changed = replace(bundled, files={**bundled.files, name: text.replace(right, fault)})
            found += wrong(work, changed, tmp_path / str(number))
    assert found
    assert set(found) <= {operator.name for operator, arguments in calls() if runs_on(operator, arguments, file)}


def runs_on(operator: Operator, arguments: Mapping[str, Any], file: str) -> bool:
    """Whether a call's kernel is in this file, or calls what is in it, on some core."""
    assert operator.kernel is not None
    call = cases.call_of(operator, arguments)
    return any(file in operator.kernel(call, core).sources for core in Core)
