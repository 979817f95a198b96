"""Models with state over 200 steps: beside the module itself, and the same bits here, on boards and on ExecuTorch."""

from pathlib import Path

import numpy as np
import pytest
import torch

from cortado.api import compile as compile_model
from cortado.artifact.opened import Artifact
from cortado.base.errors import CortadoError
from cortado.base.target import from_target_string
from cortado.options import Options
from cortado.pte.reader import read_pte_file
from cortado.run.runner import EXECUTORCH, HOST, RUNTIME_CHECKS
from cortado.scoring.dataset import Dataset
from cortado.scoring.floats import float_model
from cortado.scoring.scores import evaluate
from cortado.scoring.validate import validate
from helpers.cli import Run
from helpers.stateful import STATEFUL, STEPS, decibels, eager_steps

BOARDS = ("cortex-m0plus", "cortex-m4", "cortex-m33", "cortex-m55")
ON_BOARDS = dict(zip(STATEFUL, (*BOARDS, *BOARDS), strict=False))  # a board for each model, a model for each board
pytestmark = [pytest.mark.host, pytest.mark.xdist_group("state")]


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Artifact]:
    folder = tmp_path_factory.mktemp("state")
    found = {}
    for name, one in STATEFUL.items():
        model, steps = one.model(), one.steps(64, seed=3)
        before = {key: value.clone() for key, value in model.state_dict().items()}
        compiled = compile_model(model, (steps[:1],), ON_BOARDS[name], steps, name=name, options=one.options)
        assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
        found[name] = compiled.save(folder / name)
        source = found[name].folder / f"{name}.c"
        assert ("keep_state(" in source.read_text()) == one.copied
    return found


def samples(name: str) -> list[list[np.ndarray]]:
    return [[step[None].numpy()] for step in STATEFUL[name].steps()]


@pytest.mark.cases(2)
@pytest.mark.parametrize("name", STATEFUL)
def test_this_machine_gives_the_references_bits_and_keeps_the_modules_signal(
    name: str, artifacts: dict[str, Artifact]
) -> None:
    one, artifact = STATEFUL[name], artifacts[name]
    assert tuple(state.name for state in artifact.report.state) == one.buffers
    found = artifact.run(samples(name), HOST, flags=(RUNTIME_CHECKS,))
    assert found.bit_exact
    assert len(found.expected) == STEPS
    for wanted, values in zip(eager_steps(one.model(), one.steps()), found.outputs, strict=True):
        assert decibels(wanted, values) > one.decibels
        assert decibels(wanted[-50:], values.reshape(wanted.shape)[-50:]) > one.decibels - 3  # it does not run away


@pytest.mark.cases(2)
@pytest.mark.qemu
@pytest.mark.parametrize("name", STATEFUL)
def test_a_board_gives_the_references_bits(name: str, artifacts: dict[str, Artifact]) -> None:
    assert artifacts[name].run(samples(name)).bit_exact


@pytest.mark.slow
@pytest.mark.qemu
@pytest.mark.parametrize("name", STATEFUL)
def test_every_board_gives_the_references_bits(name: str, tmp_path: Path) -> None:
    one = STATEFUL[name]
    steps = one.steps(64, seed=3)
    made = compile_model(one.model(), (steps[:1],), "cortex-m", steps, name=name, options=one.options)
    artifact = made.save(tmp_path / name)
    for target in BOARDS:
        assert artifact.for_target(from_target_string(target)).run(samples(name)).bit_exact


@pytest.mark.cases(2)
@pytest.mark.parametrize("name", [name for name, one in STATEFUL.items() if one.pte])
def test_executorch_gives_the_references_bits(name: str, artifacts: dict[str, Artifact]) -> None:
    method = read_pte_file(artifacts[name].folder / f"{name}.pte").method("forward")
    assert method is not None
    assert sorted(one.shape for one in method.state) == sorted(one.shape for one in artifacts[name].report.state)
    found = artifacts[name].run(samples(name), EXECUTORCH)
    assert found.bit_exact
    again = artifacts[name].run(samples(name)[:60], EXECUTORCH, sequence=20)
    assert again.bit_exact
    assert not np.array_equal(again.outputs[0][20:], found.outputs[0][20:60])  # state did start anew


@pytest.mark.qemu
def test_a_sequence_starts_with_the_initial_state_everywhere(artifacts: dict[str, Artifact]) -> None:
    one, artifact = STATEFUL["ring"], artifacts["ring"]
    steps = one.steps(64)
    wanted = eager_steps(one.model(), steps, sequence=16)[0]
    data = [[step[None].numpy()] for step in steps]
    for on in (HOST, None):
        found = artifact.run(data, on, sequence=16)
        assert found.bit_exact
        assert decibels(wanted, found.outputs[0]) > one.decibels
    floats = float_model(artifact, one.model(), (steps[:1],))
    result = validate(artifact, data, floats=floats, per_layer=True, sequence=16)
    assert not result.problems()
    exact = {place.name: place.exact for place in result.places}
    assert exact == {"reference": None, HOST: 64, artifact.info.target.machine.value: 64, EXECUTORCH: 64}
    assert all(place.fidelity is not None and (place.fidelity.sqnr or 0) > one.decibels for place in result.places)


@pytest.mark.qemu
def test_every_store_of_a_step_is_one_that_it_may_make(artifacts: dict[str, Artifact]) -> None:
    assert artifacts["cache"].run(samples("cache")[:3], check_stores=True).bit_exact


def test_the_command_line_feeds_steps(artifacts: dict[str, Artifact], run: Run, tmp_path: Path) -> None:
    one, folder = STATEFUL["average"], artifacts["average"].folder
    steps = one.steps(48)
    data, made = tmp_path / "x.npy", tmp_path / "y.npy"
    np.save(data, steps.numpy())
    floats = float_model(artifacts["average"], one.model(), (steps[:1],))
    for sequence in (None, 12):
        words = () if sequence is None else ("--sequence", sequence)
        assert run("run", folder, "--on", HOST, "--input", data, "--output", made, *words).code == 0
        wanted = eager_steps(one.model(), steps, sequence)[0]
        assert decibels(wanted, np.load(made)) > one.decibels
        given = Dataset([[step[None].numpy()] for step in steps])
        found = evaluate(artifacts["average"], given, sequence=sequence, floats=floats)
        assert not found.problems()
        assert (found.sqnr_db or 0.0) > one.decibels


def test_a_length_of_sequences_needs_state() -> None:
    x = torch.randn(40, 8)
    plain = compile_model(torch.nn.Linear(8, 4), (x[:1],), "cortex-m4", x, name="plain")
    with pytest.raises(CortadoError, match="has no state: its samples are independent"):
        plain.run(x, on=HOST, sequence=4)
    with pytest.raises(CortadoError, match="the model has no state"):
        compile_model(torch.nn.Linear(8, 4), (x[:1],), "cortex-m4", x, options=Options(sequence=4))
