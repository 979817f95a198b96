"""Calls of the float graph that are Cortado's own, under --allow-float: each in ExecuTorch's portable kernels, run on
its runtime beside the user's own module."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.fx import Graph, Node
from torch.utils import _pytree as pytree

from cortado.api import Options, prepare
from cortado.artifact.opened import Artifact
from cortado.base.errors import Reject
from cortado.cli.compile import float_would_help
from cortado.ir import schemas
from cortado.ir.facts import VALUE
from cortado.ir.matching import patterns_of
from cortado.ir.op import registry
from cortado.ir.portable import FloatCall, float_call, kernels, run_float
from cortado.ops.move import topk as _topk  # noqa: F401 - defines cortado::best_positions

pytestmark = pytest.mark.filterwarnings("ignore::cortado.base.errors.CortadoWarning")

Tensor = torch.Tensor
TARGET = "cortex-m4"
ALLOWED = Options(allow_float=True)

# ---- every call by itself ------------------------------------------------------------------------------------


def _real(*sizes: int, seed: int = 0) -> Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(seed))


def _ids(*sizes: int, seed: int = 0, high: int = 6) -> Tensor:
    return torch.randint(0, high, sizes, generator=torch.Generator().manual_seed(seed))


def _layer(gates: int) -> dict[str, Any]:
    weights = {"weight_ih": _real(gates * 3, 4, seed=1), "weight_hh": _real(gates * 3, 3, seed=2)}
    biases = {"bias_ih": _real(gates * 3, seed=3), "bias_hh": None}
    return {"input": _real(2, 5, 4), **weights, **biases, "start": [], "reverse": True}


_TRUTH = (_real(2, 6) > 0).float()
_SCORES = {"factor": 0.5, "fill": -torch.inf, "added": False, "zeros": True}
SAMPLES: Mapping[str, Mapping[str, Any]] = {
    "as_truth": {"self": _TRUTH},
    "as_integer": {"self": _TRUTH},
    "best_positions": {"self": _ids(3, 7).float(), "k": 4, "largest": True},
    "calculated_ids": {"self": _ids(2, 6), "other": _ids(2, 6, seed=1), "how": 2},
    "chosen": {"mask": _TRUTH, "self": _real(2, 6), "other": _real(2, 6, seed=1)},
    "compared": {"self": _ids(2, 6).float(), "other": _ids(2, 6, seed=1).float(), "accepts": 3},
    "compared_ids": {"self": _ids(2, 6), "other": [_ids(2, 6, seed=1)], "number": 0, "accepts": 6},
    "counted": {"input": _real(2, 6), "function": '[["floor.default", [{"value": 0}], {}]]'},
    "gru_layer": _layer(3),
    "log_softmax_kept": {"input": _real(2, 6), "kept": _TRUTH},
    "lowest_elsewhere": {"input": _real(2, 6), "kept": _TRUTH, "infinite": False},
    "lstm_cells": _layer(4),
    "lstm_layer": {**_layer(4), "cells": _real(2, 5, 3)},
    "magnitude_of": {
        **{"input": _real(3, 6), "other": _real(3, 6, seed=1)},
        **{"rows": True, "apart": True, "offset": 1e-6, "eps": 0.25},
    },
    "picked": {"self": _real(2, 6), "positions": _ids(2, 4)},
    "pointwise": {"input": _real(2, 6), "function": '[["sin.default", [{"value": 0}], {}]]'},
    "reduced_ids": {"self": _ids(2, 5, 3), "how": 0, "running": False},
    "rnn_layer": {**_layer(1), "relu": True},
    "row_cosine": {"input": _real(3, 6), "other": _real(3, 6, seed=1), "eps": 1e-6},
    "row_variance": {"input": _real(3, 6), "correction": 1.0, "root": True},
    "samples_of": {"self": _ids(2, 6).to(torch.int16), "offset": 3},
    "softmax_kept": {"input": _real(2, 6), "kept": _TRUTH, "weaker": None, **_SCORES},
    "widened": {"self": _ids(2, 6).to(torch.int8)},
    "wrapped_ids": {"self": _ids(2, 6, high=600), "bits": 8, "sign": True},
}
BEYOND: dict[str, dict[str, Any]] = {
    "bags": {"weight": _real(6, 3), "indices": _ids(2, 4), "mean": True, "padding_idx": -1},
    "filter_of": {"signal": _real(2, 6), "before": None, "after": None, "sections": [0.5, 0.0, 0.0, -0.5, 0.0]},
    "filter_state": {
        **{"signal": _real(2, 6), "before": torch.zeros(2, 1, 5, dtype=torch.int32)},
        **{"sections": [0.5, 0.0, 0.0, -0.5, 0.0]},
    },
    "spectrum_of": {
        **{"signal": _real(2, 96), "window": torch.ones(32), "bands": torch.ones(4, 17), "points": 32, "hop": 16},
        **{"skip": 0, "lead": 0, "frames": 5, "power": 2, "curve": 0},
        **{"factor": 1.0, "offset": 0.0, "floor": 1e-6, "clamped": False},
    },
}


def _overload(name: str) -> Any:
    return getattr(torch.ops.cortado, name).default


def _as_nodes(arguments: Mapping[str, Any]) -> Any:
    graph = Graph()

    def node(value: Tensor) -> Node:
        new = graph.placeholder("x")
        VALUE.note(new, value)
        return new

    return pytree.tree_map_only(Tensor, node, dict(arguments))


def test_every_call_of_its_own_is_here() -> None:
    """One that an operator's file defines by torch's own Library can't be told to ExecuTorch."""
    own = {target for target in registry().patterns if target.namespace == schemas.NAMESPACE}
    assert {target._schema.name.split("::")[1] for target in own} == {*SAMPLES, *BEYOND}
    assert {target for target in own if schemas.in_aten(target)} == {_overload(name) for name in SAMPLES}


@pytest.mark.cases(6)
@pytest.mark.parametrize("name", SAMPLES)
def test_a_call_is_written_in_portable_kernels(name: str) -> None:
    arguments = SAMPLES[name]
    kept = float_call(_overload(name), _as_nodes(arguments), "why")
    assert isinstance(kept, FloatCall), kept
    assert kept.kernels
    assert set(kept.kernels) <= kernels()
    tensors = [leaf for leaf in pytree.tree_leaves(dict(arguments)) if isinstance(leaf, Tensor)]
    found = kept.edge.module()(*tensors)  # what the kernels are told to compute
    wanted = run_float(f"cortado::{name}.default", arguments)
    assert found.dtype == wanted.dtype
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(wanted, _overload(name)(**arguments))


@pytest.mark.parametrize("name", BEYOND)
def test_what_has_no_portable_kernel_is_told_so(name: str) -> None:
    refused = float_call(_overload(name), _as_nodes(BEYOND[name]), "why")
    assert isinstance(refused, Reject)
    assert refused.reason == "why, and ExecuTorch has no kernel for it in float either"


@pytest.mark.parametrize("largest", [True, False])
def test_of_equal_numbers_the_first_is_the_better(largest: bool) -> None:
    values = _ids(5, 9, high=3).float()
    given = {"self": values, "k": 9, "largest": largest}
    wanted = torch.sort(values, dim=-1, descending=largest, stable=True).indices
    assert torch.equal(run_float("cortado::best_positions.default", given), wanted)
    (pattern,) = patterns_of(_overload("best_positions"))
    assert pattern.in_float is not None
    assert torch.equal(pattern.in_float(**given), wanted)


# ---- in models -----------------------------------------------------------------------------------------------


class Layers(nn.Module):
    """A linear layer before, so that what follows reads a quantized tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)


class Best(Layers):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        values, positions = torch.topk(self.first(x), 3, dim=-1)
        return values, positions


class Sorted(Layers):
    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.sort(self.first(x), dim=-1, descending=True).values)


class Chosen(Layers):
    def forward(self, x: Tensor) -> Tensor:
        a, b = self.first(x), self.second(x)
        return torch.where(a > b, a - b, (b - a) * 0.5)  # no step where they meet


class Causal(Layers):
    mask: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", torch.triu(torch.ones(5, 5), 1).bool())

    def forward(self, x: Tensor) -> Tensor:
        scores = self.first(x) @ self.second(x).transpose(1, 2)
        return torch.softmax(scores.masked_fill(self.mask, -torch.inf), -1) @ x


class Gru(Layers):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.GRU(8, 4, batch_first=True, bidirectional=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.layer(torch.relu(self.first(x)))[0])


class Lstm(Layers):
    """Its cells are an output too."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(8, 8, num_layers=2, batch_first=True)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y, (_, cells) = self.layer(self.first(x))
        return self.second(y[:, -1]), cells


class LastOfLstm(Layers):
    """Nobody reads its cells."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(8, 8, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.layer(self.first(x))[0][:, -1])


MODELS: dict[type[nn.Module], list[str]] = {
    Best: ["best_positions", "picked"],
    Sorted: ["best_positions", "picked"],
    Chosen: ["compared", "chosen"],
    Causal: ["softmax_kept"],
    Gru: ["gru_layer", "gru_layer"],
    Lstm: ["lstm_cells", "lstm_layer"] * 2,
    LastOfLstm: ["lstm_layer"],
}
LONG = (Gru, Lstm)


@pytest.mark.cases(2)
@pytest.mark.host
@pytest.mark.parametrize("kind", [pytest.param(one, marks=pytest.mark.slow) if one in LONG else one for one in MODELS])
def test_a_model_runs_on_the_runtime_as_the_users_own(kind: type[nn.Module], tmp_path: Path) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(7)
        model = kind().eval()
    data = [(_real(1, 5, 8, seed=seed),) for seed in range(32)]
    prepared = prepare(model, data[0], data)
    without = prepared.compile(TARGET).report
    assert without.pte_missing
    assert float_would_help(without)
    compiled = prepared.compile(TARGET, ALLOWED)
    listed = [item.operator for item in compiled.report.float_operators]
    assert sorted(listed) == sorted(f"cortado.{name}.default" for name in MODELS[kind])
    assert compiled.report.pte_missing == compiled.report.bundle_missing == ()
    fresh = [_real(1, 5, 8, seed=seed) for seed in range(100, 104)]
    artifact = compiled.save(tmp_path / "model")
    checked = Artifact.open(artifact.folder).run([[value.numpy()] for value in fresh], "executorch")
    assert checked.right
    for value, found in zip(fresh, checked.values, strict=True):
        with torch.no_grad():
            wanted = pytree.tree_leaves(model(value))
        for one, want in zip(found, wanted, strict=True):
            if want.is_floating_point():
                assert np.abs(one - want.numpy()).max() <= 0.06 * np.abs(want.numpy()).max()
            else:  # positions of values that are nearer than a step can change places
                scores = model.get_submodule("first")(value).detach().numpy()
                picked, best = (np.take_along_axis(scores, at, -1) for at in (one.astype(int), want.numpy()))
                assert np.abs(picked - best).max() <= 0.06 * np.abs(scores).max()
