"""`--artifacts`: the C bundle, the .pte or both; what is imported for which, and where the seconds of a compile go."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cortado.api import Compiled, Model, prepare
from cortado.base.errors import CortadoError
from cortado.base.versions import TORCH
from cortado.options import Artifacts, Options
from helpers.cli import TINY, Run, compile_tiny, in_new_process, one_sentence
from models import tiny

IN_ITS_OWN_PROCESS = """
import json, os, sys, time
from cortado.cli import main

code = main(sys.argv[1:])
times = os.times()
spent = time.process_time() + times.children_user + times.children_system
print(json.dumps({"code": code, "modules": sorted(sys.modules), "spent": spent}))
"""


@pytest.fixture(scope="module")
def model() -> Model:
    module, example = tiny.make()
    return prepare(module, example, tiny.calibration(), name="tiny")


def made(model: Model, artifacts: str) -> Compiled:
    return model.compile("cortex-m4", Options(artifacts=artifacts))  # type: ignore[arg-type]


def test_a_compile_to_c_imports_nothing_of_executorch_and_every_second_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    arguments = ("compile", TINY, "--calibration", f"{TINY}:calibration", "--artifacts", "c", "-o", folder)
    done = in_new_process("-c", IN_ITS_OWN_PROCESS, *map(str, arguments))
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["code"] == 0, done.stderr
    packages = {name.split(".")[0] for name in found["modules"]}
    assert "torch" in packages
    assert "executorch" not in packages
    seconds = json.loads((folder / "report.json").read_text())["compile_seconds"]
    assert list(seconds)[:2] == ["import", "load"]
    assert "import executorch" not in seconds
    assert 0.9 * found["spent"] < sum(seconds.values()) <= found["spent"]


def test_each_artifact_is_the_same_alone_and_with_the_other(model: Model, tmp_path: Path) -> None:
    both, c, pte = (made(model, kind) for kind in ("both", "c", "pte"))
    assert both.bundle is not None
    assert c.bundle is not None
    assert c.bundle.files == both.bundle.files
    assert c.pte is None
    assert both.pte is not None
    assert pte.pte is not None
    assert pte.pte.data == both.pte.data
    assert pte.bundle is None
    assert "import executorch" in both.report.compile_seconds
    assert "import executorch" not in c.report.compile_seconds
    assert "emit C" not in pte.report.compile_seconds
    alone, other = pte.save(tmp_path / "pte"), c.save(tmp_path / "c")
    assert sorted(path.name for path in (tmp_path / "c").iterdir() if path.suffix == ".pte") == []
    assert sorted(path.name for path in (tmp_path / "pte").iterdir() if path.suffix in (".c", ".pte")) == ["tiny.pte"]
    assert alone.pte_graph.outputs == other.graph.outputs
    with pytest.raises(CortadoError, match=r"holds no C bundle, only a \.pte .*\n  it was not requested"):
        alone.run([alone.example()])
    with pytest.raises(CortadoError, match=r"holds no \.pte to run: it was not requested"):
        other.run_on_executorch([other.example()])


def test_the_summary_says_what_was_left_out(run: Run, tmp_path: Path) -> None:
    done = compile_tiny(run, "--artifacts", "c", "-o", tmp_path / "c")
    assert done.code == 0
    assert "no .pte  it was not requested (--artifacts)" in done.out
    assert "--allow-float" not in done.out


def test_without_executorch_there_is_c_and_the_summary_says_what_is_missing(
    run: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cortado.lowering.find_spec", lambda name: None)
    done = compile_tiny(run, "-o", here / "out")
    assert done.code == 0, done.err
    assert "no .pte  executorch is not installed: pip install 'cortado[executorch]'" in done.out
    assert "--allow-float" not in done.out
    assert (here / "out" / "tiny.c").is_file()
    for options in (("--artifacts", "pte"), ("--strict",), ("--etrecord",)):
        one_sentence(
            compile_tiny(run, *options, "-o", here / "other"), "a .pte can't be written: executorch is not installed"
        )
    assert not (here / "other").exists()


def test_executorch_that_does_not_start_beside_another_torch_is_no_matter_of_float(
    run: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(name: str) -> None:
        raise ImportError(f"{name}: undefined symbol")

    monkeypatch.setattr("cortado.lowering.TORCH", replace(TORCH, pinned="2.0.0"))
    monkeypatch.setattr("cortado.lowering.import_module", refuse)
    done = compile_tiny(run, "-o", here / "out")
    assert done.code == 0, done.err
    assert "can't be used beside torch" in done.out
    assert "executorch.exir: undefined symbol" in done.out
    assert "--allow-float" not in done.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--artifacts", "c", "--bundleio"),
            "--bundleio is for the .pte, and --artifacts c (artifacts='c'",
        ),
        (("--artifacts", "c", "--etrecord", "--bundleio"), "--bundleio and --etrecord are for the .pte"),
        (("--artifacts", "pte", "--ram-budget", "4K"), "--ram-budget is for the C bundle, and --artifacts pte"),
        (("--artifacts", "pte", "--input-rows"), "--input-rows is for the C bundle"),
    ],
)
def test_what_is_said_of_the_other_artifact_is_refused(
    run: Run, here: Path, arguments: tuple[str, ...], message: str
) -> None:
    one_sentence(compile_tiny(run, *arguments), message)
    assert list(here.iterdir()) == []


def test_a_model_that_has_no_pte_is_refused_where_that_alone_was_asked_for() -> None:
    import torch

    layer = torch.nn.LogSoftmax(-1)  # of which there is no kernel in ExecuTorch's library
    example = (torch.linspace(-1, 1, 8)[None],)
    prepared = prepare(layer, example, [example] * 4, name="norm")
    with pytest.raises(CortadoError, match=r"can't be a \.pte, and nothing else was requested:\n  .*\n--allow-float"):
        made(prepared, "pte")
    assert prepared.compile("cortex-m4", Options(artifacts=Artifacts.C)).bundle is not None
