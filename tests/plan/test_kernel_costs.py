"""The table of costs beside what kernels declare: a row for every C function, no term that its kernel doesn't have."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest
import torch

from cortado.base.errors import CortadoError
from cortado.base.system import KERNELS
from cortado.base.target import Core, CortexM, CortexMTargetConfig
from cortado.ir.kernel import Kernel
from cortado.ir.op import Call, registry
from cortado.ir.work import Calls, Marks, Work, loops
from cortado.ops.conv.float32_work import FloatLayer, float_work
from cortado.ops.elementwise.float32_function import FLOAT_FUNCTION
from cortado.ops.loops import Window
from cortado.ops.move.pad import PAD
from cortado.ops.move.reshape import TRANSPOSE
from cortado.plan.kernel_costs import Terms, evaluate, known_costs
from cortado.plan.kernel_workload import function_of, kernels_of
from helpers.cases import call_of, drawn
from helpers.kernels import header_text

pytestmark = pytest.mark.xdist_group("every core")  # samples are drawn once
DRAWN = 28
CORES = (Core.SMALL, Core.LONG, Core.DSP, Core.MVE)
OPERATORS = [op for op in registry().operators.values() if op.kernel is not None]
CALLS = Calls(calls=6, span=10, spans=60, outputs=480, macs=960, read_bytes=960, outside=2, edges=2, cut=3)

Declared = Mapping[str, Terms]  # by C function: its terms, and how often they are counted in the calls above


def _kind(cpu: CortexM) -> Core:
    return max(CortexMTargetConfig(cpu).cores)


def _kernels(call: Call, core: Core) -> Iterator[Kernel]:
    """All that a call may run: its own kernel, and the lean one."""
    assert call.operator.kernel is not None
    kernel = call.operator.kernel(call, core)
    for one in (kernel, kernel.lean):
        yield from () if one is None else kernels_of(one)


@pytest.fixture(scope="session")
def declared() -> dict[Core, dict[str, Terms]]:
    """What the samples of all operators can choose, by kind of core."""
    found: dict[Core, dict[str, Terms]] = {core: {} for core in CORES}
    for operator in OPERATORS:
        for arguments in drawn(operator, DRAWN):
            call = call_of(operator, arguments)
            for core in CORES:
                running = operator.running(call, core)
                if running is not None and running.kernel.work is not None:
                    found[core][function_of(running.kernel)] = running.kernel.work.counts(CALLS)  # of a stream
                for kernel in _kernels(call, core):
                    if kernel.work is None:
                        assert kernel.called, f"{operator.name}: {kernel.call.function} declares no work"
                    else:
                        found[core][function_of(kernel)] = kernel.work.counts(CALLS)
    return found


def test_every_kernel_that_samples_choose_has_a_row(declared: dict[Core, dict[str, Terms]]) -> None:
    missing = {
        cpu.value: sorted(declared[_kind(cpu)].keys() - costs.kernels.keys()) for cpu, costs in known_costs().items()
    }
    assert {cpu: names for cpu, names in missing.items() if names} == {}


def test_samples_choose_the_kernels_of_every_element(declared: dict[Core, dict[str, Terms]]) -> None:
    """Codes of 16 bits, integers, values that are only moved: a row that is missing is then noticed."""
    header = (KERNELS / "include" / "cortado.h").read_text()
    found = set(re.findall(r"\b(cortado_\w*(?:_s16|_s32|_wide)\w*)\(", header))
    wide = {name for name in found if "__" not in name and not name.endswith("_scratch")}
    assert len(wide) > 9
    for core in CORES:
        assert wide <= {name.partition("__")[0] for name in declared[core]}  # or those for its instructions


@pytest.mark.parametrize(("dtype", "singles"), [("int8", "singles"), ("int16", "halves"), ("int32", "whole_words")])
def test_values_are_counted_not_their_bytes(dtype: str, singles: str) -> None:
    """By hand: 5 x 7 values the other way round are 7 runs of 5; bytes are 5 lines of 7 that lie together, four of
    which are loaded as one; with 2 columns before them, 5 runs of 9."""
    values = torch.zeros((1, 1, 5, 7), dtype=getattr(torch, dtype))
    item = values.element_size()
    calls = replace(CALLS, calls=1, outputs=35 * item)
    moved = _work(call_of(TRANSPOSE, {"input": values, "perm": [0, 1, 3, 2]})).counts(calls)
    if item == 1:
        assert (moved[singles], moved["taken_apart"], moved["put_together"]) == (15, 5, 0)
        assert (moved["lines"], moved["planes"]) == (5, 1)
    else:
        assert (moved[singles], moved["single_runs"], moved["turns"]) == (35, 7, 1)
    widths = {"pre_pad": [0, 0, 0, 2], "post_pad": [0, 0, 0, 0], "pad_value": 3}
    calls = replace(CALLS, calls=1, outputs=45 * item, read_bytes=35 * item, outside=0)
    padded = _work(call_of(PAD, {"input": values, **widths})).counts(calls)
    assert padded["runs"] == 5
    assert padded.get("filled") == (None if item == 1 else 10)


def _work(call: Call) -> Work:
    assert call.operator.kernel is not None
    work = call.operator.kernel(call, Core.SMALL).work
    assert work is not None
    return work


def undeclared(rows: Mapping[str, Terms], declared: Declared) -> dict[str, list[str]]:
    """Terms of the table that a kernel doesn't have."""
    found = {name: sorted(rows[name].keys() - terms.keys()) for name, terms in declared.items() if name in rows}
    return {name: terms for name, terms in found.items() if terms}


def test_every_term_is_declared_by_its_kernel(declared: dict[Core, dict[str, Terms]]) -> None:
    for cpu, costs in known_costs().items():
        assert undeclared(costs.kernels, declared[_kind(cpu)]) == {}, cpu
        for name, counts in declared[_kind(cpu)].items():
            assert evaluate(name, costs.kernels[name], counts) >= 0


def test_a_term_that_was_renamed_is_found() -> None:
    rows = {"cortado_div_s8": {"calls": 3.0, "outputs": 60.0}}
    assert undeclared(rows, {"cortado_div_s8": loops("calls outputs").counts(CALLS)}) == {}
    renamed = loops("calls elements", elements=4).counts(CALLS)
    assert undeclared(rows, {"cortado_div_s8": renamed}) == {"cortado_div_s8": ["outputs"]}
    with pytest.raises(CortadoError, match="has 'outputs' for cortado_div_s8, which its kernel doesn't declare"):
        evaluate("cortado_div_s8", rows["cortado_div_s8"], renamed)


# Layers whose own cycles are less than the error of the linear layers that they call, without a float unit.
CALLERS = {"cortado_gru_f32", "cortado_lstm_f32", "cortado_rnn_f32"}


def test_rows_are_of_functions_that_there_are() -> None:
    """And no cycles are negative."""
    cameras = re.findall(
        r"CORTADO_VERSIONED\((cortado_camera_\w+)\)", (KERNELS / "include/cortado_camera.h").read_text()
    )
    known = {*re.findall(r"\b(cortado_\w+)\(", header_text()), *cameras}
    assert set(known_costs()) == set(CortexM) - {CortexM.ANY}
    for costs in known_costs().values():
        assert {part for name in costs.kernels for part in name.split("+")} <= known
        assert all(cycles > 0 for terms in costs.kernels.values() for cycles in terms.values())
        assert {name for name, terms in costs.kernels.items() if not terms} <= CALLERS
        assert set(cameras) <= costs.kernels.keys()
        assert all(cycles > 0 for cycles in costs.loop.values())


@pytest.mark.parametrize("function", ["tanh", "erf", "expm1", "log1p", "sin", "cos", "tan", "asin", "acos"])
def test_small_numbers_take_less_of_a_function_in_float32(function: str) -> None:
    """On every core; and without numbers half of them are taken for small ones."""
    arguments = {"input": torch.zeros(1, 8), "function": function, "low": -math.inf, "high": math.inf}
    work = _work(call_of(FLOAT_FUNCTION, arguments))
    assert work.marks is not None
    assert work.marks.share(torch.tensor([-0.1, 0.0, 0.2, 0.9])) == 0.25
    assert work.marks.usual == 0.5
    for costs in known_costs().values():
        name = f"cortado_{function}_f32"
        small, large = (
            evaluate(name, costs.kernels[name], work.counts(replace(CALLS, marked=marked))) for marked in (0.0, 1.0)
        )
        assert 1.2 * small < large


def test_marked_are_numbers_outside_of_an_interval() -> None:
    """That are no numbers, too; without an interval those that are not 0."""
    values = torch.tensor([math.nan, -1.0, 0.0, 2.0])
    assert Marks(0).share(values) == 0.75
    assert Marks(0, low=-1.0, high=1.5).share(values) == 0.5


def _counts(symbol: str, layer: FloatLayer, calls: Calls, *, rows: bool) -> dict[str, float]:
    return {term: count for term, count in float_work(symbol, layer, rows=rows).counts(calls).items() if count}


def test_layers_in_float32_are_counted_by_the_blocks_of_their_kernels() -> None:
    """21 channels are five fours and one, three eights, one sixteen and a narrow block; 5 pixels two pairs and one."""
    pixels = replace(CALLS, calls=2, span=5, spans=10)
    one = Window(in_w=5, in_c=7, out_w=5, out_c=21, kernel_h=1, kernel_w=1, stride_w=1, pad_left=0, dilation_w=1)
    portable = _counts("conv1x1_codes_f32", FloatLayer(one, codes=True, bounded=False), pixels, rows=False)
    assert portable["spans*fours*inner"] == 10 * 5 * 7
    assert portable["spans*alone*inner"] == 10 * 1 * 7
    packed = _counts("conv1x1_f32__dsp", FloatLayer(one, codes=False, bounded=True), pixels, rows=False)
    assert packed["pairs*eights*window"] == 4 * 3 * 7
    assert (packed["singles*sixteens*window"], packed["singles*narrow*window"]) == (2 * 7, 2 * 7)
    assert packed["spans*outer*bounded"] == 10 * 21


def test_windows_in_float32_are_counted_as_they_are_laid_out() -> None:
    """Rows of four windows of 3x3 with a border; of one of two calls the image has two rows."""
    window = Window(in_w=4, in_c=3, out_w=4, out_c=8, kernel_h=3, kernel_w=3, stride_w=1, pad_left=1, dilation_w=1)
    calls = replace(CALLS, calls=2, span=4, spans=8, outside=1, edges=1)
    found = _counts("conv2d_codes_f32__mve", FloatLayer(window, codes=True, bounded=False), calls, rows=True)
    assert found["pieces"] == 5 * 4
    assert found["copied_fours"] == 5 * (2 * (6 // 4) + 2 * (9 // 4))
    assert found["copied_rest"] == 5 * (2 * (6 % 4) + 2 * (9 % 4))
    assert found["zeros"] == 3 * 4 + 5 * 2
    depthwise = replace(window, in_c=8, groups=8)
    found = _counts("conv2d_f32", FloatLayer(depthwise, codes=False, bounded=False), calls, rows=True)
    assert found["taps_inside*deep_fours"] == 5 * 10 * 2
    assert "taps_inside*alone" not in found
