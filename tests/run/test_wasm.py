"""The portable kernels as WebAssembly: the same bits as the reference for every kind of input, weights and state."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import cortado
from cortado.artifact.opened import Artifact
from cortado.artifact.streamed import push_codes
from cortado.base.errors import MissingTool
from cortado.models import zoo
from cortado.run import toolchain
from cortado.run.runner import WASM
from cortado.run.toolchain import WASM_TOOLS
from helpers.cli import Run, refused
from helpers.deciding import LABELS, Naive, Newest, Remembering, real, walk
from helpers.networks import prepared, unseen

pytestmark = [pytest.mark.host, pytest.mark.xdist_group("wasm")]
PICTURE = (1, 3, 12, 12)


def seen() -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, stride=2), nn.ReLU(), nn.Conv2d(8, 6, 1), nn.Flatten(), nn.Linear(216, 5)
    )


def saved(folder: Path, model: nn.Module, shape: tuple[int, ...], **options: Any) -> Artifact:
    torch.manual_seed(0)
    batches = [(torch.randn(shape),) for _ in range(16)]
    chosen = cortado.Options(artifacts="c", **options)
    labels = LABELS if "decide" in options else None
    return cortado.compile(
        model.eval(), batches[0], "cortex-m4", batches, name="probe", options=chosen, labels=labels
    ).save(folder / "probe")


CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], dict[str, Any]]] = {
    "whole": (seen, PICTURE, {}),
    "float": (seen, PICTURE, {"io": "float"}),
    "rows": (lambda: seen()[:3], PICTURE, {"input_rows": True}),
    "int16": (seen, PICTURE, {"activations": "int16"}),
    "int4": (seen, PICTURE, {"weights": "int4"}),
    "state": (lambda: Remembering(softmax=False), (1, 5), {}),
}


@pytest.mark.parametrize("case", CASES)
def test_webassembly_gives_the_bits_of_the_reference(case: str, tmp_path: Path) -> None:
    build, shape, options = CASES[case]
    artifact = saved(tmp_path, build(), shape, **options)
    fresh = [[np.random.default_rng(number).normal(size=shape).astype(np.float32)] for number in range(6)]
    checked = artifact.run(fresh, WASM)
    assert (checked.bit_exact, checked.result.on, len(checked.outputs[0])) == (True, WASM, 6)
    if case == "whole":
        traced = artifact.trace(artifact.reference(fresh[:1]).feeds[0], WASM)
        values = artifact.values(fresh[0])
        assert {name: values[name].numpy().tobytes() for name in traced} == {
            name: one.data for name, one in traced.items()
        }


@pytest.mark.parametrize("rows", [False, True])
def test_a_cameras_lines_become_the_references_codes(rows: bool, tmp_path: Path) -> None:
    options = {"input_format": "yuyv", "input_size": "20x16", "crop": "2,1,14x14", "resize": "12x12"}
    model = seen()[:3] if rows else seen()
    artifact = saved(tmp_path, model, PICTURE, input_rows=rows, **options)
    picture = np.random.default_rng(0).integers(0, 256, (16, 40), dtype=np.uint8)
    assert artifact.run([[picture]], WASM).bit_exact


def test_a_stream_decides_as_the_rule_says(tmp_path: Path) -> None:
    artifact = saved(tmp_path, Newest(), (1, 1, 2, 5), stream=2, decide="smooth=3,threshold=0.4,holdoff=4")
    window = np.random.default_rng(1).normal(size=(1, 1, 2, 5)).astype(np.float32)
    assert artifact.run([[window]], WASM).bit_exact
    pushed = push_codes(artifact, walk(200), WASM)
    output = artifact.report.outputs[0]
    scores = real(pushed.codes[0].reshape(-1, len(LABELS)), output.scale, output.zero_point)
    expected = Naive(smooth=3, threshold=0.4, holdoff=4).decisions(scores)
    assert pushed.decisions is not None
    assert pushed.decisions.tolist() == expected
    assert len({one for one in expected if one >= 0}) > 2


def test_the_command_line_runs_and_validates(run: Run, tmp_path: Path) -> None:
    folder = saved(tmp_path, seen(), PICTURE).folder
    assert "on wasm\n" in run("run", folder, "--on", "wasm").out
    found = run("validate", folder, "--on", "wasm", "--json").json
    assert {one["place"]: one["exact_samples"] for one in found["places"]}["wasm"] == 1
    refused(run("validate", folder, "--on", "host"), "expected wasm or gdb:HOST:PORT")


@pytest.mark.slow
@pytest.mark.parametrize("name", zoo.names())
def test_networks_of_the_zoo_give_the_bits_of_the_reference(name: str, tmp_path: Path) -> None:
    artifact = prepared(name).compile("cortex-m4", cortado.Options(artifacts="c")).save(tmp_path / name)
    fresh = [[value.numpy() for value in sample] for sample in unseen(name, 2)]
    assert artifact.run(fresh, WASM).bit_exact


def test_a_missing_tool_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "find", lambda tool: None)
    for tool, package in zip(WASM_TOOLS, ("clang-19 lld-19", "clang-19 lld-19", "nodejs"), strict=True):
        with pytest.raises(MissingTool, match=f"apt-get install {package}"):
            toolchain.require(tool)
