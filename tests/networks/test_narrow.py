"""int4 weights: the same bits on every board, close to the eager module, half the flash; chosen by a flash budget."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cortado.api import Compiled, Model, prepare
from cortado.base.errors import CortadoError
from cortado.base.target import from_target_string
from cortado.frontend.precision.judgement import FloatRun
from cortado.ops.conv import int4
from cortado.ops.conv.int4 import LARGEST, StoredWeights
from cortado.options import Artifacts, Options, Weights
from cortado.passes import PIPELINE
from cortado.plan.lowered import LoweredCall, lowered_graph
from cortado.plan.narrowing import Columns, apply_layers, factors_of, observe, rounded, windows
from cortado.plan.pricing import lowered
from helpers.cores import FOUR, each_core
from helpers.stateful import decibels

pytestmark = pytest.mark.filterwarnings("ignore::cortado.base.errors.CortadoWarning")


class Small(nn.Module):
    """A first window, 1x1 layers, a depthwise one, a linear one behind a flatten."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.wide = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 48, 1)
        self.deep, self.last = nn.Conv2d(48, 48, 3, padding=1, groups=48), nn.Conv2d(48, 40, 1)
        self.head = nn.Linear(40 * 9, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.wide(self.first(x).relu()).relu()
        x = self.last(self.deep(x).relu()).relu()
        y: Tensor = self.head(nn.functional.max_pool2d(x, 2).flatten(1))
        return y


def data(count: int, seed: int) -> Tensor:
    return torch.randn((count, 3, 6, 6), generator=torch.Generator().manual_seed(seed))


@cache
def module() -> Small:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return Small().eval()


@cache
def prepared() -> Model:
    samples = data(40, 1)
    return prepare(module(), (samples[:1],), samples, name="small")


def compiled(target: str, **options: Any) -> Compiled:
    return prepared().compile(target, Options(**{"artifacts": "c", **options}))


def int4_calls(found: Compiled) -> list[LoweredCall]:
    assert found.graph is not None
    return [call for call in found.graph.calls if call.arguments.get("run") is not None]


def kept(found: Compiled) -> float:
    """On fresh data, in decibels, by the C kernels on this machine."""
    fresh = data(12, 2)
    checked = found.run(fresh, on="host")
    assert checked.bit_exact
    return decibels(module()(fresh).detach().numpy(), np.asarray(checked.outputs[0]).reshape(12, -1))


def flash(found: Compiled) -> int:
    assert found.report.flash is not None
    return found.report.flash.weights_bytes


@pytest.mark.host
def test_half_the_flash_and_close_to_the_module() -> None:
    wide, narrow = (compiled("cortex-m4", weights=kind) for kind in ("int8", "int4"))
    groups = compiled("cortex-m4", weights="int4", weight_group=32)
    assert flash(narrow) < 0.72 * flash(wide)  # with biases, and a depthwise layer that stays int8
    assert flash(narrow) < flash(groups) < 0.75 * flash(wide)
    assert kept(wide) > 30
    assert kept(narrow) > 22
    assert kept(groups) > 22


@pytest.mark.cases(1)
@pytest.mark.qemu
@pytest.mark.parametrize(
    ("target", "group"),
    [
        ("cortex-m0plus", 32),
        ("cortex-m4", None),
        ("cortex-m55", 32),
        *(
            pytest.param(target, group, marks=pytest.mark.slow)
            for target in ("cortex-m0plus", "cortex-m3", "cortex-m4", "cortex-m33", "cortex-m55")
            for group in (None, 32)
        ),
    ],
)
def test_boards_give_the_references_bits(target: str, group: int | None) -> None:
    found = compiled(target, weights="int4", weight_group=group)
    assert found.run(data(2, 5)).bit_exact
    assert int4_calls(found)


def test_the_graph_with_them_is_among_the_intermediates(tmp_path: Path) -> None:
    options = Options(artifacts=Artifacts.C, weights=Weights.INT4)
    prepared().compile("cortex-m4", options, intermediates=tmp_path)
    (wide, narrow) = sorted(tmp_path.iterdir())[-2:]
    assert narrow.name == f"{len(PIPELINE) + 1:02d}-int4-weights.txt"
    assert narrow.read_text().startswith("# after int4-weights: Gives the chosen layers int4 weights")
    assert "quantized_conv2d_nhwc.c(" in narrow.read_text()
    assert "quantized_conv2d_nhwc.c(" not in wide.read_text()


def test_a_layer_without_its_arguments_is_found_by_name() -> None:
    """The step is verified as a pass is."""
    program = lowered(prepared().quantized, from_target_string("cortex-m4"), Options())
    graph = lowered_graph(program)
    layers = observe(graph, [FloatRun((data(1, 1),), ())], run=0, correct=False).layers()
    with pytest.raises(CortadoError, match="after int4-weights: broken rule at level LOWERED: every call has exactly"):
        apply_layers(program, [replace(layers[0], arguments={"run": 0, "other": 0}), *layers[1:]])


def test_sums_are_nearer_than_where_each_weight_is_rounded_alone() -> None:
    rng = torch.Generator().manual_seed(3)
    hidden = torch.randn(600, 12, generator=rng)  # columns that depend on one another, as those of pictures do
    rows = hidden @ torch.randn(12, 40, generator=rng) * 20
    weight = torch.randint(-127, 128, (8, 40), generator=rng)
    columns = Columns.of([rows[:300]])
    for run in (0, 32):
        factors = factors_of(weight, columns, run)
        near = rounded(weight, factors, columns) * factors
        alone = int4.rounded(weight, factors) * factors
        kept, before = ((one - weight).double() @ rows[300:].double().T for one in (near, alone))
        assert kept.square().sum() < 0.5 * before.square().sum()
        assert (near // factors).abs().max() <= int4.LARGEST


def test_windows_are_the_products_of_a_kernel_in_its_order() -> None:
    rng = torch.Generator().manual_seed(4)
    image, weight = torch.randn(1, 7, 6, 3, generator=rng), torch.randn(5, 3, 2, 3, generator=rng)
    wanted = torch.conv2d(image.permute(0, 3, 1, 2), weight.permute(0, 3, 1, 2), None, (2, 1), (1, 0), (1, 2))
    found = windows(image, (3, 2), (2, 1), (1, 0), (1, 2)) @ weight.reshape(5, -1).T
    torch.testing.assert_close(found.reshape(wanted.permute(0, 2, 3, 1).shape), wanted.permute(0, 2, 3, 1))


def test_the_report_says_which_layers_have_them() -> None:
    found = compiled("cortex-m4", weights="int4", weight_group=32).report
    by_module = {one.module: one for one in found.weights}
    assert {name for name, one in by_module.items() if one.element == "int4"} == {"first", "wide", "last", "head"}
    assert "takes int8 weights" in by_module["deep"].why
    assert by_module["wide"].group == 32
    assert by_module["wide"].saved_bytes == 48 * (16 - 9)  # 17 halves of a byte for each channel


def test_an_int8_compile_says_nothing_of_it() -> None:
    facts = compiled("cortex-m4").report.to_json()
    assert "weights" not in facts
    assert {"weights", "weight_group"}.isdisjoint(facts["options"])


def test_weights_are_what_was_asked_for() -> None:
    """In the lowered graph: 4-bit numbers in each channel, or times a factor for each 32 products."""
    for run in (0, 32):
        found = compiled("cortex-m4", weights="int4", weight_group=run or None)
        graph, calls = found.graph, int4_calls(found)
        assert graph is not None
        assert len(calls) == 4
        for call in calls:
            stored = StoredWeights.of(graph.constants[call.arguments["weight"].name].numpy(), call.arguments["run"])
            assert np.abs(stored.codes).max() <= LARGEST
            assert (stored.factors is None) == (run == 0)


def test_groups_help_weights_of_different_size() -> None:
    """Half of the inputs have weights that are a tenth of the others', and values that are ten times as large."""
    layer, sizes = nn.Linear(64, 32, bias=False), torch.cat([torch.full((32,), 10.0), torch.ones(32)])
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(1)
        layer.weight.copy_(torch.randn(32, 64) / sizes)
        samples, fresh = torch.randn(64, 64) * sizes, torch.randn(32, 64) * sizes
    model = prepare(layer, (samples[:1],), samples, name="sizes")
    found = []
    for group in (None, 32):
        one = model.compile("cortex-m4", Options(weights="int4", weight_group=group, artifacts="c"))  # type: ignore[arg-type]
        outputs = np.asarray(one.run(fresh, on="host").outputs[0]).reshape(32, 32)
        found.append(decibels(layer(fresh).detach().numpy(), outputs))
    assert found[1] > found[0] + 3


# ---- recurrent layers and tables -------------------------------------------------------------------------------------


class Words(nn.Module):
    """Ids, their rows, and what follows from them."""

    def __init__(self, kind: Callable[..., nn.RNNBase]) -> None:
        super().__init__()
        self.table, self.cells = nn.Embedding(60, 40), kind(40, 24, batch_first=True)
        self.out = nn.Linear(24, 5)

    def forward(self, ids: Tensor) -> Tensor:
        scores: Tensor = self.out(self.cells(self.table(ids))[0])
        return scores


RECURRENT: dict[str, Callable[..., nn.RNNBase]] = {"gru": nn.GRU, "lstm": nn.LSTM, "rnn": nn.RNN}
KINDS = ["gru", "lstm", pytest.param("rnn", marks=pytest.mark.slow)]


@cache
def words(kind: str) -> tuple[Words, Model]:
    with torch.random.fork_rng():
        torch.manual_seed(4)
        module = Words(RECURRENT[kind]).eval()
        ids = torch.randint(0, 60, (24, 9))
    return module, prepare(module, (ids[:1],), ids, name="words")


@pytest.mark.cases(1)
@pytest.mark.host
@pytest.mark.parametrize("group", [None, 32])
@pytest.mark.parametrize("kind", KINDS)
def test_recurrent_layers_and_tables_have_them(kind: str, group: int | None) -> None:
    module, model = words(kind)
    wide = model.compile("cortex-m4", Options(artifacts=Artifacts.C))
    narrow = model.compile("cortex-m4", Options(artifacts=Artifacts.C, weights=Weights.INT4, weight_group=group))
    assert {one.module: one.element for one in narrow.report.weights} == {one: "int4" for one in module._modules}
    assert flash(narrow) < 0.7 * flash(wide)  # with biases and factors of 72 or 96 rows
    fresh = torch.randint(0, 60, (16, 9), generator=torch.Generator().manual_seed(8))
    checked = narrow.run(fresh, on="host")
    assert checked.bit_exact
    wanted = module(fresh).detach().numpy()
    assert decibels(wanted, np.asarray(checked.outputs[0]).reshape(wanted.shape)) > 17


@pytest.mark.host
def test_a_recurrent_layer_is_the_only_one() -> None:
    """Nothing else asks for the header of its gates."""
    torch.manual_seed(6)
    layer, steps = nn.GRU(8, 8, batch_first=True).eval(), torch.randn(12, 5, 8)
    found = prepare(layer, (steps[:1],), steps, name="only").compile(
        "cortex-m4", Options(artifacts=Artifacts.C, weights=Weights.INT4)
    )
    assert found.run(torch.randn(3, 5, 8), on="host").bit_exact


@pytest.mark.qemu
@pytest.mark.parametrize("target", each_core(*FOUR, here="cortex-m55"))
def test_boards_give_the_references_bits_of_recurrent_layers(target: str) -> None:
    found = words("gru")[1].compile(target, Options(artifacts=Artifacts.C, weights=Weights.INT4))
    assert {one.element for one in found.report.weights} == {"int4"}
    assert found.run(torch.randint(0, 60, (2, 9))).bit_exact


# ---- a flash budget --------------------------------------------------------------------------------------------------


def test_auto_takes_what_costs_least_until_it_fits() -> None:
    wide = compiled("cortex-m4").report.flash
    assert wide is not None
    assert wide.code_bytes is not None
    whole = wide.weights_bytes + wide.code_bytes
    found = compiled("cortex-m4", weights="auto", weight_group=32, flash_budget=whole - 300)
    now = found.report.flash
    assert now is not None
    assert now.code_bytes is not None
    assert now.weights_bytes + now.code_bytes <= whole - 300
    taken = [one for one in found.report.weights if one.element == "int4"]
    left = [one for one in found.report.weights if one.element == "int8" and one.noise is not None]
    assert taken
    assert left
    assert all(one.noise is not None and one.noise > 0 for one in taken)
    again = compiled("cortex-m4", weights="auto", weight_group=32, flash_budget=whole - 300)
    assert again.report.weights == found.report.weights
    assert kept(found) > kept(compiled("cortex-m4", weights="int4", weight_group=32)) - 1


class Listening(nn.Module):
    """Scores of the last rows."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv1d(8, 64, 3), nn.Conv1d(64, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(self.last(self.first(x).relu()).mean(2), 1)


@cache
def listening() -> Model:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        samples = [(torch.randn(1, 8, 10),) for _ in range(16)]
        return prepare(Listening().eval(), samples[0], samples, name="words", labels=["a", "b", "c", "silence"])


@pytest.mark.parametrize(
    ("model", "more"),
    [
        (prepared, {"input_format": "rgb888", "input_size": "12x12", "resize": "6x6"}),
        (listening, {"stream": 2, "decide": "smooth=4,threshold=0.5,ignore=silence"}),
    ],
    ids=["camera", "decision"],
)
def test_auto_counts_what_is_around_the_network(model: Callable[[], Model], more: dict[str, Any]) -> None:
    """Their code is in the flash too: without it nothing seemed to be in need of int4, and the compile failed."""
    wide = model().compile("cortex-m4", Options(artifacts=Artifacts.C, **more)).report.flash
    assert wide is not None
    assert wide.code_bytes is not None
    budget = wide.weights_bytes + wide.code_bytes - 16
    found = model().compile(
        "cortex-m4", Options(artifacts=Artifacts.C, weights=Weights.AUTO, flash_budget=budget, **more)
    )
    assert "int4" in {one.element for one in found.report.weights}


def test_auto_leaves_int8_where_it_fits() -> None:
    found = compiled("cortex-m4", weights="auto", flash_budget="1M")
    assert {one.element for one in found.report.weights} == {"int8"}
    assert not int4_calls(found)


def test_a_budget_that_cannot_be_reached_says_what_was() -> None:
    with pytest.raises(CortadoError, match=r"in all 4 layers .* needs [\d,]+ bytes of flash .* at most 4,096"):
        compiled("cortex-m4", weights="auto", flash_budget="4K")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"weights": "int4", "activations": "int16"}, "--weights int4 and --activations int16"),
        ({"weights": "int4", "linear": "per-tensor"}, "--weights int4 and --linear per-tensor"),
        ({"weights": "int4", "artifacts": "pte"}, "--weights int4 and --artifacts pte"),
        ({"weights": "auto", "allow_float": True, "flash_budget": "64K"}, "--weights auto and --allow-float"),
        ({"weight_group": 32}, "--weight-group and --weights int8"),
        ({"weights": "int4", "weight_group": 16}, "weight_group=16 .* expected 32"),
        ({"weights": "int3"}, "expected one of 'int8', 'int4', 'auto'"),
    ],
)
def test_options_that_contradict_each_other_are_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(CortadoError, match=words):
        Options(**options)


def test_auto_needs_a_budget() -> None:
    with pytest.raises(CortadoError, match="give --flash-budget, or --chip"):
        compiled("cortex-m4", weights="auto")
