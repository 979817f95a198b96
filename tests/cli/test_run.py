"""`cortado run` with inputs and outputs as files; inspect and plan."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from cortado.artifact.opened import EXPECTED, REFERENCE, Artifact
from cortado.cli.entry import main
from cortado.models import sources as models
from helpers.cli import TWO, Run, forge_checksums

# ---- two inputs, two outputs, files -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("two") / "artifact"
    arguments = ["compile", TWO, "--calibration", f"{TWO}:batches", "-t", "cortex-m4", "-o", path]
    assert main([str(argument) for argument in arguments]) == 0
    return path


@pytest.mark.host
def test_inputs_and_outputs_as_files(run: Run, two: Path, tmp_path: Path) -> None:
    module = models._import_file(TWO)
    vector, image = (tensor.numpy() for tensor in module.batches(6)[5])
    np.savez(tmp_path / "named.npz", image=image, vector=vector)
    np.savez(tmp_path / "ordered.npz", vector, image)
    results = []
    for name in ("named", "ordered"):
        output = tmp_path / f"{name}-out.npz"
        done = run("run", two, "--on", "host", "--input", tmp_path / f"{name}.npz", "--output", output)
        assert done.code == 0, done.err
        with np.load(output) as file:
            results.append({key: file[key] for key in file.files})
    assert list(results[0]) == ["output0", "output1"]
    assert "output output0: top-1: class " in done.out
    assert "output output1: [1, 3, 3, 5], " in done.out
    model = module.Two().eval()
    with torch.no_grad():
        expected = model(torch.from_numpy(vector), torch.from_numpy(image))
    for number, real in enumerate(expected):
        first, second = (result[f"output{number}"] for result in results)
        np.testing.assert_array_equal(first, second)
        assert first.dtype == np.float32
        assert first.shape == tuple(real.shape)
        scale = Artifact.open(two).report.outputs[number].scale
        assert scale is not None
        # The model's own layout and its own numbers, up to quantization.
        np.testing.assert_allclose(first, real.numpy().clip(first.min(), first.max()), atol=4 * scale)


@pytest.mark.host
def test_codes_in_real_numbers_out(run: Run, tiny_artifact: Artifact, tmp_path: Path) -> None:
    codes = np.arange(36, dtype=np.int8).reshape(1, 1, 6, 6)
    np.save(tmp_path / "x.npy", np.asfortranarray(codes))
    done = run("run", tiny_artifact.folder, "--on=host", "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy")
    assert done.code == 0, done.err
    expected = tiny_artifact.reference([[codes]])[1][0][0]
    tensor = tiny_artifact.report.outputs[0]
    scale = np.float32(tensor.scale)
    real = (expected.astype(np.float32) - np.float32(tensor.zero_point)) * scale
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), real)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.npy", "y.npy"]


@pytest.mark.host
def test_a_folder_can_be_moved_and_run_from_anywhere(
    run: Run, tiny_artifact: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(tiny_artifact.folder, tmp_path / "über all" / "moved model")
    monkeypatch.chdir(tmp_path / "über all")
    assert run("run", "moved model", "--on", "host").code == 0
    monkeypatch.chdir("moved model")
    assert run("run", ".", "--on", "host").code == 0


@pytest.mark.qemu
def test_a_wrong_result_is_exit_code_one(run: Run, tiny_artifact: Artifact, tmp_path: Path) -> None:
    """A bundle and a reference that disagree, with checksums to match: the comparison itself has to see it."""
    folder = tmp_path / "wrong"
    shutil.copytree(tiny_artifact.folder, folder)
    with np.load(folder / REFERENCE) as file:
        arrays = {name: file[name] for name in file.files}
    biases = [name for name in arrays if "bias" in name]
    assert biases
    np.savez(folder / REFERENCE, **{**arrays, **{name: arrays[name] + 1000 for name in biases}})
    np.save(tmp_path / "x.npy", tiny_artifact.example()[0] * 0.5)
    with np.load(folder / EXPECTED) as file:
        recorded = {name: file[name] for name in file.files}
    np.savez(folder / EXPECTED, **{**recorded, "output0": recorded["output0"] ^ 1})
    forge_checksums(folder)
    for arguments in ((), ("--input", tmp_path / "x.npy")):
        done = run("run", folder, "--json", *arguments)
        assert done.code == 1
        assert done.json["bit_exact"] is False
        assert done.err == "cortado: the output on mps2-an386 differs from the reference\n"
    assert "NOT bit-exact with the reference" in run("run", folder).out


# ---- inspect and plan ---------------------------------------------------------------------------------------------


def test_inspect(run: Run, tiny_artifact: Artifact) -> None:
    file = tiny_artifact.folder / "tiny.pte"
    done = run("inspect", file, "--target", "cortex-m4")
    assert done.code == 0, done.err
    assert "cortex_m::quantized_conv2d_nhwc.out" in done.out
    assert run("inspect", file, "--json").json["metadata"]["target"] == "cortex-m4"
    wrong = run("inspect", file, "-t", "cortex-m55")
    assert wrong.code == 2
    assert "was compiled for cortex-m4, expected cortex-m55" in wrong.err


def test_plan(run: Run, tmp_path: Path) -> None:
    from cortado.memory.problem import Buffer, Problem, write_csv

    problem = Problem((Buffer("a", 100, (0, 0), (2, 0), 16), Buffer("b", 50, (1, 0), (3, 0), 16)))
    (tmp_path / "p.csv").write_text(write_csv(problem))
    assert all(column in run("plan", "--help").out for column in ("lower_stage", "upper_pos", "size", "overlay_of"))
    done = run("plan", tmp_path / "p.csv")
    assert done.code == 0, done.err
    assert "peak 162 bytes (proven minimal), 2 buffers" in done.err
    assert run("plan", tmp_path / "p.csv", "-o", tmp_path / "plan.csv").out == ""
    assert (tmp_path / "plan.csv").read_text() == done.out


@pytest.mark.host
def test_of_many_samples_the_first_are_shown(run: Run, two: Path, tmp_path: Path) -> None:
    batches = models._import_file(TWO).batches(23)
    np.savez(tmp_path / "x.npz", *(torch.cat(values).numpy() for values in zip(*batches, strict=True)))
    done = run("run", two, "--on", "host", "--input", tmp_path / "x.npz", "--output", tmp_path / "y.npz")
    assert done.code == 0, done.err
    assert "sample 19: " in done.out
    assert "sample 20: " not in done.out
    assert "and 3 more; --output writes them all" in done.out
    with np.load(tmp_path / "y.npz") as file:
        assert len(file["output0"]) == 23
