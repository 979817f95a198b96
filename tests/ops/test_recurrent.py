"""LSTM, GRU and RNN: in integers, close to torch's own layers, bit-exact in C on every core."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from cortado import api
from cortado.base.system import KERNEL_FILES
from cortado.base.target import Core, from_target_string
from cortado.ir.kernel import Array
from cortado.ops.recurrent.kinds import GRU, LSTM, RNN
from cortado.ops.recurrent.layer import sigmoid, sigmoid_table, tanh
from cortado.plan.lowered import reference_outputs
from cortado.profile import profile
from cortado.scoring.validate import validate
from helpers import cases
from helpers.operator_cases import cases_of
from helpers.single import decibels, tensors

Tensor = torch.Tensor
M4 = from_target_string("cortex-m4")
STEPS, INPUTS, UNITS = 20, 10, 24


class Net(nn.Module):
    """A recurrent layer and what of its results somebody wants."""

    def __init__(self, layer: nn.Module, wants: str) -> None:
        super().__init__()
        self.layer, self.wants = layer, wants

    def forward(self, x: Tensor, *states: Tensor) -> Any:
        given = states[0] if len(states) == 1 else (states or None)
        y, last = self.layer(x, given)
        hidden = last[0] if isinstance(last, tuple) else last
        results = {"output": y, "last": y[:, -1], "hidden": hidden, "top": hidden[-1], "all": (y, last)}
        if isinstance(last, tuple):
            results |= {"cells": last[1], "states": (hidden, last[1:])}
        chosen = results[self.wants]
        return (chosen[0], *chosen[1]) if self.wants in ("all", "states") and isinstance(last, tuple) else chosen


class Cells(nn.Module):
    """One step of an LSTM, and of a GRU behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.gru, self.rnn = nn.LSTMCell(INPUTS, UNITS), nn.GRUCell(UNITS, 8), nn.RNNCell(8, 5)

    def forward(self, x: Tensor, h: Tensor, c: Tensor, g: Tensor, r: Tensor) -> tuple[Tensor, ...]:
        h, c = self.lstm(x, (h, c))
        g = self.gru(h, g)
        return h, c, g, self.rnn(g, r)


class Classifier(nn.Sequential):
    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self[2](self[1](torch.relu(self[0](x)).transpose(1, 2))[0][:, -1])
        return y


FIRST = {"batch_first": True}
MODELS: dict[str, tuple[nn.Module, Sequence[tuple[int, ...]]]] = {
    "gru": (Net(nn.GRU(INPUTS, UNITS, **FIRST), "output"), [(1, STEPS, INPUTS)]),
    "lstm": (Net(nn.LSTM(INPUTS, UNITS, **FIRST), "all"), [(1, STEPS, INPUTS)]),
    "lstm, its cells alone": (Net(nn.LSTM(INPUTS, UNITS, **FIRST), "cells"), [(1, STEPS, INPUTS)]),
    "lstm, states and cells": (
        Net(nn.LSTM(INPUTS, UNITS, **FIRST), "states"),
        [(1, STEPS, INPUTS), (1, 1, UNITS), (1, 1, UNITS)],
    ),
    "rnn": (Net(nn.RNN(INPUTS, UNITS, **FIRST), "last"), [(1, STEPS, INPUTS)]),
    "rnn with relu": (Net(nn.RNN(INPUTS, UNITS, nonlinearity="relu", **FIRST), "output"), [(1, STEPS, INPUTS)]),
    "two layers, both directions": (
        Net(nn.GRU(INPUTS, UNITS, 2, bidirectional=True, **FIRST), "output"),
        [(1, STEPS, INPUTS)],
    ),
    "both directions, time first": (Net(nn.LSTM(INPUTS, 7, bidirectional=True), "all"), [(STEPS, 1, INPUTS)]),
    "no batch, no bias": (Net(nn.GRU(INPUTS, UNITS, 2, bias=False), "top"), [(STEPS, INPUTS)]),
    "several sequences": (Net(nn.LSTM(INPUTS, 5, **FIRST), "hidden"), [(3, STEPS, INPUTS)]),
    "a hundred steps": (Net(nn.LSTM(INPUTS, UNITS, **FIRST), "output"), [(1, 100, INPUTS)]),
    "states that are given and large": (
        Net(nn.GRU(INPUTS, UNITS, 2, **FIRST), "all"),
        [(1, STEPS, INPUTS), (2, 1, UNITS)],
    ),
    "convolution, gru, linear": (
        Classifier(nn.Conv1d(8, 12, 3), nn.GRU(12, 16, **FIRST), nn.Linear(16, 4)),
        [(1, 8, 30)],
    ),
}


def batches_of(shapes: Sequence[tuple[int, ...]], count: int = 8) -> list[tuple[Tensor, ...]]:
    rng = torch.Generator().manual_seed(1)
    return [tuple(torch.randn(shape, generator=rng) for shape in shapes) for _ in range(count)]


def compiled_model(name: str, target: str = "cortex-m4") -> tuple[nn.Module, list[tuple[Tensor, ...]], api.Compiled]:
    torch.manual_seed(0)
    model, shapes = MODELS[name]
    for parameter in model.parameters():
        nn.init.uniform_(parameter, -0.4, 0.4)
    batches = batches_of(shapes)
    compiled = api.prepare(model.eval(), batches[0], batches, name="model").compile(from_target_string(target))
    return model, batches, compiled


def worst_decibels(model: nn.Module, compiled: api.Compiled, batches: Sequence[tuple[Tensor, ...]]) -> float:
    """Of the outputs, each over all batches, against the module itself."""
    assert compiled.graph is not None
    with torch.no_grad():
        wanted = [tensors(model(*batch)) for batch in batches]
    found = [reference_outputs(compiled.graph, batch) for batch in batches]
    return min(
        decibels(torch.stack([want[i] for want in wanted]), torch.stack([got[i] for got in found]))
        for i in range(len(wanted[0]))
    )


@pytest.mark.cases(4)
@pytest.mark.host
@pytest.mark.filterwarnings("ignore::cortado.base.errors.CortadoWarning")  # few samples
@pytest.mark.parametrize("name", MODELS)
def test_in_integers_and_close(name: str, tmp_path: Path) -> None:
    model, batches, compiled = compiled_model(name)
    assert compiled.report.float_operators == ()
    assert "exists in the C bundle only" in compiled.report.pte_missing[0]
    assert worst_decibels(model, compiled, batches) > 30
    samples = [[value.numpy() for value in batch] for batch in batches]
    assert compiled.save(tmp_path / "model").run(samples, "host").bit_exact


@pytest.mark.cases(2)
@pytest.mark.qemu
@pytest.mark.filterwarnings("ignore::cortado.base.errors.CortadoWarning")
@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("lstm", "cortex-m0plus"),
        ("two layers, both directions", "cortex-m33"),
        ("lstm, its cells alone", "cortex-m4"),
        ("lstm, states and cells", "cortex-m55"),
        ("gru", "cortex-m"),
    ],
)
def test_on_boards(name: str, target: str, tmp_path: Path) -> None:
    _, batches, compiled = compiled_model(name, target)
    samples = [[value.numpy() for value in batch] for batch in batches[:2]]
    assert compiled.save(tmp_path / "model").run(samples, check_stores=True).bit_exact


@pytest.mark.cases(1)
@pytest.mark.host
@pytest.mark.filterwarnings("ignore::cortado.base.errors.CortadoWarning")
@pytest.mark.parametrize(
    ("name", "results", "last"),
    [
        ("lstm", ("lstm", "lstm_cells"), (False, True)),
        ("lstm, its cells alone", ("", "lstm"), (False, True)),
        ("lstm, states and cells", ("lstm_1", "lstm_cells_1"), (True, True)),
        ("a hundred steps", ("lstm", ""), (False, False)),
    ],
)
def test_an_lstm_runs_once_whatever_is_read_of_it(
    name: str, results: tuple[str, str], last: tuple[bool, bool], tmp_path: Path
) -> None:
    """And every layer's results, also those behind the first, are caught and compared."""
    _, batches, compiled = compiled_model(name)
    assert compiled.graph is not None
    (call,) = (call for call in compiled.graph.calls if call.operator == LSTM.name)
    assert tuple(bool(one) for one in call.results) == tuple(bool(one) for one in results)
    assert (call.arguments["last"], call.arguments["last_cells"]) == last
    artifact = compiled.save(tmp_path / "model")
    sample = [value.numpy() for value in batches[0]]
    traced = artifact.trace(artifact.reference([sample]).feeds[0], "host")
    values = artifact.values(sample)
    assert set(call.read) <= traced.keys()
    assert [name for name, made in traced.items() if made.data != values[name].numpy().tobytes()] == []
    found = validate(artifact, [sample], per_layer=True).layers
    assert [layer.differing["host"] for layer in found] == [0] * len(found)


@pytest.mark.qemu
def test_vector_instructions_equal_the_reference() -> None:
    """Layers such as no calibration gives: shifts to the left, saturated gates, every kind of start and cell."""
    each = (cases_of(operator) for operator in (RNN, GRU, LSTM))
    target = from_target_string("cortex-m55")

    @settings(max_examples=2)
    @given(batch=st.tuples(*(st.lists(samples, min_size=6, max_size=6) for samples in each)))
    def check(batch: tuple[list[dict[str, Any]], ...]) -> None:
        work = [(operator, case) for operator, given in zip((RNN, GRU, LSTM), batch, strict=True) for case in given]
        with tempfile.TemporaryDirectory() as folder:
            found = cases.run_cases(work, target, target.machine.value, Path(folder))
        for got, want, case in zip(found, cases.references(work), work, strict=True):
            assert np.array_equal(got, want.numpy()), case

    check()


class Kinds(nn.Module):
    """Each kind over a sequence, and a linear layer of their size."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.linear = nn.Linear(size, size)
        self.kinds = nn.ModuleList(kind(size, size, **FIRST) for kind in (nn.GRU, nn.LSTM, nn.RNN))

    def forward(self, sequence: Tensor, step: Tensor) -> tuple[Tensor, ...]:
        return self.linear(step), *(kind(sequence)[0] for kind in self.kinds)


@pytest.mark.qemu
@pytest.mark.filterwarnings("ignore::cortado.base.errors.CortadoWarning")
def test_products_cost_little_more_than_a_linear_layers(tmp_path: Path) -> None:
    """Instructions are counted exactly: at most 1.35 times as many for each product, on every kind of core."""
    batches = batches_of([(1, 2, 64), (1, 64)], 2)
    model = api.prepare(Kinds(64).eval(), batches[0], batches, name="kinds")
    for target in ("cortex-m0plus", "cortex-m4", "cortex-m55"):
        artifact = model.compile(from_target_string(target)).save(tmp_path / target)
        done = profile(artifact, [artifact.example()])
        assert done.bit_exact
        linear, *kinds = (layer.spent.instructions / layer.report.macs for layer in done.layers)
        assert [cost for cost in kinds if cost > 1.35 * linear] == [], (target, linear, kinds)


@pytest.mark.host
@pytest.mark.filterwarnings("ignore::cortado.base.errors.CortadoWarning")
def test_cells_are_layers_of_one_step(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Cells().eval()
    rng = torch.Generator().manual_seed(1)
    batches = [
        (torch.randn(1, INPUTS, generator=rng), *(torch.randn(1, n, generator=rng) / 4 for n in (UNITS, UNITS, 8, 5)))
        for _ in range(32)
    ]
    compiled = api.prepare(model, batches[0], batches, name="cells").compile(M4)
    samples = [[value.numpy() for value in batch] for batch in batches[:4]]
    assert compiled.save(tmp_path / "cells").run(samples, "host").bit_exact
    assert worst_decibels(model, compiled, batches) > 20


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
@pytest.mark.parametrize("bias", [True, False])
def test_projections_are_part_of_the_states_weights(bias: bool) -> None:
    torch.manual_seed(0)
    layer = nn.LSTM(INPUTS, UNITS, proj_size=4, num_layers=2, bidirectional=True, bias=bias, **FIRST)
    model = Net(layer, "all").eval()
    rng = torch.Generator().manual_seed(1)
    batches = [(torch.randn(1, STEPS, INPUTS, generator=rng),) for _ in range(40)]
    compiled = api.prepare(model, batches[0], batches[:32], name="projected").compile(M4)
    assert worst_decibels(model, compiled, batches[32:]) > 20


# ---- the operators -------------------------------------------------------------------------------------------


def test_the_table_in_c_is_the_references() -> None:
    text = KERNEL_FILES["cortado_sigmoid.c"].read_text()
    numbers = text.split("{")[1].split("}")[0].replace(",", " ").split()
    assert [int(number) for number in numbers] == sigmoid_table().tolist()


def test_both_functions_are_close_everywhere() -> None:
    values = torch.arange(-32768, 32768)
    assert float((sigmoid(values) / 2**15 - torch.sigmoid(values.double() / 2048)).abs().max()) < 2.2 * 2**-15
    assert float((tanh(values) / 2**15 - torch.tanh(values.double() / 4096)).abs().max()) < 3.9 * 2**-15


def layer_arguments(gates: int, states: int) -> dict[str, Any]:
    """Numbers such as calibration gives for weights around 0.3 and inputs around 1."""
    rng = torch.Generator().manual_seed(5)

    def codes(*sizes: int) -> Tensor:
        return torch.randint(-127, 128, sizes, generator=rng).to(torch.int8)

    rows = gates * 3
    arguments: dict[str, Any] = {"input": codes(1, 6, 4), "start": [codes(1, 3) for _ in range(states)]}
    for name, width in (("x", 4), ("h", 3)):
        arguments |= {
            f"weight_{name}": codes(rows, width),
            f"bias_{name}": torch.randint(-3000, 3000, (rows,), generator=rng, dtype=torch.int32),
            f"multiplier_{name}": torch.randint(2**30, 2**31 - 1, (rows,), generator=rng, dtype=torch.int64).int(),
            f"shift_{name}": torch.randint(-4, -1, (rows,), generator=rng, dtype=torch.int32),
        }
    numbers = {"reverse": True, "last": False, "start_zero_point": 3, "start_multiplier": 1500000000, "start_shift": 7}
    return arguments | numbers | {"out_multiplier": 1234567890, "out_shift": -7, "out_zero_point": -5}


def requant(value: int, multiplier: int, shift: int) -> int:
    """The house's rounding, in Python's integers."""
    high = ((value << max(shift, 0)) * multiplier + (1 << 30)) >> 31
    right = max(-shift, 0)
    if right == 0:
        return high
    magnitude = (abs(high) + (1 << (right - 1))) >> right
    return magnitude if high >= 0 else -magnitude


def sat(value: int) -> int:
    return max(-32768, min(32767, value))


def codes8(value: int) -> int:
    return max(-128, min(127, value))


def sums(arguments: dict[str, Any], name: str, vector: Sequence[int]) -> list[int]:
    """A path of every row, product by product."""
    parts = (arguments[f"{part}_{name}"].tolist() for part in ("weight", "bias", "multiplier", "shift"))
    return [
        requant(bias + sum(w * v for w, v in zip(row, vector, strict=True)), multiplier, shift)
        for row, bias, multiplier, shift in zip(*parts, strict=True)
    ]


def sig(value: int) -> int:
    return int(sigmoid(torch.tensor(value)))


def tan(value: int) -> int:
    return int(tanh(torch.tensor(value)))


@pytest.mark.parametrize("bits", [0, 1, 4])
def test_gru_is_its_formula(bits: int) -> None:
    """Unit by unit in Python's integers, as the operator's page writes it."""
    given: dict[str, Any] = {**layer_arguments(3, 1), "cell_bits": bits}
    factor = given["out_multiplier"], given["out_shift"]
    start = [
        requant(code - 3, given["start_multiplier"], given["start_shift"]) for code in given["start"][0][0].tolist()
    ]
    state = [sat(value) for value in start]
    hidden = [codes8(requant(value, *factor) - 5) for value in state]
    found = GRU.reference(**given)
    for step in reversed(range(6)):
        x, h = sums(given, "x", given["input"][0, step].tolist()), sums(given, "h", hidden)
        for unit in range(3):
            reset, update = (sig(sat(x[gate * 3 + unit] + h[gate * 3 + unit])) for gate in (0, 1))
            new = tan(sat(x[6 + unit] + ((reset * sat(h[6 + unit]) + 2**13) >> 14)))
            new = (new + 2 ** (bits - 1)) >> bits if bits else new
            state[unit] = (new * 32768 + update * (state[unit] - new) + 2**14) >> 15
        hidden = [codes8(requant(value, *factor) - 5) for value in state]
        assert found[0, step].tolist() == hidden
    assert GRU.reference(**{**given, "last": True})[0].tolist() == [hidden]


@pytest.mark.parametrize("bits", [0, 2, 3, 5])
def test_lstm_is_its_formula(bits: int) -> None:
    cells_of = {"cell_zero_point": -7, "cell_multiplier": 2000000000, "cell_shift": 8, "cell_bits": bits}
    shown = {"given_multiplier": 1300000000, "given_shift": -6, "given_zero_point": 9}
    layer = layer_arguments(4, 2)
    given: dict[str, Any] = {**layer, **cells_of, **shown, "out_shift": -22, "last_cells": False}
    hidden, cells = ([*state[0].tolist()] for state in given["start"])
    hidden = [codes8(requant(code - 3, given["start_multiplier"], given["start_shift"]) - 5) for code in hidden]
    cells = [sat(requant(code + 7, given["cell_multiplier"], given["cell_shift"])) for code in cells]
    found, found_cells = LSTM.reference(**given)
    for step in reversed(range(6)):
        x, h = sums(given, "x", given["input"][0, step].tolist()), sums(given, "h", hidden)
        for unit in range(3):
            i, f, g, o = (sat(x[gate * 3 + unit] + h[gate * 3 + unit]) for gate in range(4))
            product = sig(i) * tan(g)
            product = (product + 2 ** (bits - 1)) >> bits if bits else product
            cells[unit] = sat((sig(f) * cells[unit] + product + 2**14) >> 15)
            wide = sat(cells[unit] << (bits - 3)) if bits >= 3 else (cells[unit] + 2 ** (2 - bits)) >> (3 - bits)
            hidden[unit] = codes8(requant(sig(o) * tan(wide), given["out_multiplier"], -22) - 5)
        assert found[0, step].tolist() == hidden
        assert found_cells[0, step].tolist() == [codes8(requant(cell, 1300000000, -6) + 9) for cell in cells]
    for last, last_cells in ((True, False), (False, True)):
        states, kept = LSTM.reference(**{**given, "last": last, "last_cells": last_cells})
        assert torch.equal(states, found[:, :1] if last else found)
        assert torch.equal(kept, found_cells[:, :1] if last_cells else found_cells)


def test_weights_are_stored_once() -> None:
    """And nothing beside them but three words a row and path."""
    given = {**layer_arguments(3, 0), "start": [], "cell_bits": 0, "run": None}
    assert GRU.kernel is not None
    kernel = GRU.kernel(cases.call_of(GRU, given), Core.LONG)
    sizes = {name: field.data.nbytes for name, field in kernel.fields.items() if isinstance(field, Array)}
    assert sizes == {"zero": 3, "weights_x": 3 * 4 * (4 + 12), "weights_h": 3 * 4 * (3 + 12)}
