"""`cortado validate`: every place beside the reference, every layer beside the float model; faults are found."""

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cortado.api import compile
from cortado.artifact.checked import layers_in
from cortado.artifact.opened import PAGE, Artifact
from cortado.base.errors import CortadoError
from cortado.frontend.quantize.convert import FloatModel
from cortado.options import Border, InputLayout, Optimize, Options
from cortado.plan.lowered import run_reference
from cortado.scoring.floats import float_model
from cortado.scoring.validate import LayerResult, PlaceResult, Validation, _Compared, validate
from helpers.cli import TINY, Run, forge_checksums
from helpers.single import Function, lower

CONV, POOL, LINEAR = (
    "quantized_conv2d_nhwc_default",
    "quantized_depthwise_conv2d_nhwc_default",
    "quantized_conv2d_nhwc_default_1",
)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three samples for the tiny network."""
    path = tmp_path_factory.mktemp("inputs") / "data.npz"
    rng = np.random.default_rng(0)
    np.savez(path, x=rng.integers(-16, 17, (3, 1, 6, 6)).astype(np.float32) / 16)
    return path


@pytest.fixture
def folder(tiny_artifact: Artifact, tmp_path: Path) -> Path:
    """A copy of the tiny network's folder, to be damaged."""
    return Path(shutil.copytree(tiny_artifact.folder, tmp_path / "damaged"))


def damage(path: Path, pattern: str, replacement: str | Callable[[Any], str]) -> None:
    text, count = re.subn(pattern, replacement, path.read_text(), count=1, flags=re.DOTALL)
    assert count == 1, f"{pattern} is not in {path}"
    path.write_text(text)


# ---- when all is well ---------------------------------------------------------------------------------------------


@pytest.mark.qemu
def test_every_place_gives_the_references_bits(run: Run, folder: Path, inputs: Path) -> None:
    done = run("validate", folder, "--inputs", inputs, "--model", TINY, "--per-layer", "--json", "--save")
    assert done.code == 0, done.err
    found = done.json
    assert (found["model"], found["target"], found["samples"], found["bit_exact"]) == ("tiny", "cortex-m4", 3, True)
    reference, *places = found["places"]
    assert [place["place"] for place in places] == ["host", "mps2-an386", "executorch"]
    assert [place["exact_samples"] for place in places] == [3, 3, 3]
    assert (reference["place"], reference["exact_samples"]) == ("reference", None)
    assert {(place["sqnr"], place["same_top1"]) for place in found["places"]} == {(reference["sqnr"], 3)}
    assert reference["sqnr"] > 28  # of inputs that are no calibration data
    assert [place["instructions"] is not None for place in places] == [False, True, False]
    assert [layer["name"] for layer in found["layers"]] == [CONV, POOL, LINEAR]
    for layer in found["layers"]:
        assert layer["sqnr"] > 28
        assert layer["differing"] == {"host": 0, "mps2-an386": 0}
    assert found["layers"][-1]["sqnr"] == pytest.approx(reference["sqnr"])
    kept = Artifact.open(folder).report.fidelity
    assert kept is not None
    assert (kept.samples, kept.float_model) == (3, str(TINY))
    decibels = [(layer["name"], layer["sqnr"]) for layer in found["layers"]]
    assert [(layer.name, layer.sqnr_db) for layer in kept.layers] == decibels
    assert all(f"{value:.1f} dB" in (folder / PAGE).read_text() for _, value in decibels)


@pytest.mark.qemu
def test_the_table_for_people(run: Run, tiny_artifact: Artifact, inputs: Path) -> None:
    """Nothing says which float model it is (the tiny network is no zoo's), so that column stays empty."""
    done = run("validate", tiny_artifact.folder, "--inputs", inputs, "--per-layer")
    assert done.code == 0, done.err
    layers, places = done.out.split("\n\n")
    assert [line.split() for line in layers.splitlines()[2:]] == [
        [CONV, "quantized_conv2d_nhwc", "features.0", "equal", "equal"],
        [POOL, "quantized_depthwise_conv2d_nhwc", "features.2", "equal", "equal"],
        [LINEAR, "quantized_conv2d_nhwc", "classifier", "equal", "equal"],
    ]
    lines = places.splitlines()
    assert lines[0].strip() == "tiny for cortex-m4, 3 samples"
    assert lines[1].split()[:3] == ["PLACE", "WHAT", "BIT-EXACT"]
    assert "not given: name it with --model" in lines[2]
    assert re.fullmatch(r"mps2-an386 +C for cortex-m4 +3 of 3 +[\d,]+ *", lines[5])


@pytest.mark.qemu
def test_a_zoo_network_is_its_own_float_model(run: Run, tmp_path: Path) -> None:
    assert run("compile", "deep_autoencoder", "-t", "cortex-m55", "-o", tmp_path / "out").code == 0
    done = run("validate", tmp_path / "out", "--target", "cortex-m55", "--json")
    assert done.code == 0, done.err
    assert done.json["float_model"] == "deep_autoencoder"
    assert done.json["samples"] == 1
    assert done.json["places"][0]["sqnr"] > 15
    assert done.json["layers"] == []


@pytest.mark.slow
@pytest.mark.qemu
def test_one_artifact_for_any_core_runs_on_a_board_of_each_kind(tmp_path: Path) -> None:
    """M0+ and M3 share a board, and differ in the kernels that are built for it."""
    artifact = compile(nn.Conv2d(2, 3, 3), [torch.ones(1, 2, 5, 5)], "cortex-m", [(torch.rand(1, 2, 5, 5),)]).save(
        tmp_path / "any"
    )
    found = validate(artifact, [artifact.example()], per_layer=True)
    assert found.problems() == []
    names = [place.name for place in found.places]
    assert names == [
        "reference",
        "host",
        "mps2-an385 (C for cortex-m0plus)",
        "mps2-an385 (C for cortex-m3)",
        "mps2-an386",
        "mps3-an547",
        "executorch",
    ]
    counts = [place.instructions for place in found.places[2:6]]
    assert len(set(counts)) == 4
    assert list(found.layers[0].differing) == names[1:6]


# ---- every layer's output ------------------------------------------------------------------------------------------


class Images(nn.Module):
    """Strided and padded layers, a residual sum, a row that nobody reads, a global pool; several images at once."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.second = nn.Conv2d(8, 8, 3, padding=1)
        self.pool = nn.MaxPool2d(2)  # of 9 rows, the last is not read
        self.third = nn.Conv2d(8, 6, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.first(x))
        x = self.pool(x + torch.relu(self.second(x)))
        return self.third(x).mean((2, 3), keepdim=True)


@pytest.mark.cases(1)
@pytest.mark.host
@pytest.mark.parametrize(
    ("images", "optimize", "border"),
    [
        (1, Optimize.RAM, Border.INT8),
        (1, Optimize.BALANCED, Border.FLOAT),
        (1, Optimize.TIME, Border.INT8),
        (2, Optimize.RAM, Border.INT8),
    ],
)
def test_a_trace_is_every_layer_in_every_schedule(
    tmp_path: Path, images: int, optimize: Optimize, border: Border
) -> None:
    torch.manual_seed(0)
    batches = [(torch.randn(images, 3, 9, 9),) for _ in range(3)]
    options = Options(optimize=optimize, io=border)
    artifact = compile(Images(), batches[0], "cortex-m4", batches, "images", options).save(tmp_path / "out")
    sample = [batches[1][0].numpy()]
    feeds = artifact.reference([sample]).feeds
    values = artifact.values(sample)
    layers = artifact.trace(feeds[0], "host")
    assert list(layers) == [layer.name for layer in artifact.report.layers]
    partial = False
    for name, made in layers.items():
        wanted = values[name].numpy().reshape(images, -1)
        found = np.frombuffer(made.data, dtype=wanted.dtype).reshape(images, -1)
        np.testing.assert_array_equal(found, wanted[:, : found.shape[1]])
        partial = partial or found.size < wanted.size
    assert artifact.report.schedule is not None
    cascade = max(map(len, artifact.report.schedule.stages)) > 1
    assert partial == cascade == (images == 1 and optimize is not Optimize.TIME)


def test_a_trace_of_another_length_is_refused(tiny_artifact: Artifact) -> None:
    with pytest.raises(CortadoError, match="compile the model again"):
        layers_in(b"", tiny_artifact.store_rules(), tiny_artifact.graph, str(tiny_artifact.folder))


# ---- what is wrong is found ---------------------------------------------------------------------------------------


CALL = r"(cortado_depthwise\w*_s8\w*\([^;]*;)"  # where tiny.c calls the pool


@pytest.mark.cases(1)
@pytest.mark.qemu
@pytest.mark.parametrize(
    ("file", "pattern", "replacement", "wrong"),
    [
        ("tiny_data.c", r"(features_0_weights\[.*?)-127", r"\g<1>127", [CONV, POOL, LINEAR]),
        ("tiny.c", CALL, r"\1 out[0] = (int8_t)(out[0] ^ 64);", [POOL, LINEAR]),
        ("tiny_data.c", r"(classifier_weights\[.*?)-127", r"\g<1>127", [LINEAR]),
    ],
    ids=["weight", "code", "last weight"],
)
def test_the_first_layer_that_differs_is_named(
    run: Run, folder: Path, inputs: Path, file: str, pattern: str, replacement: str, wrong: list[str]
) -> None:
    """On the board, whose files were changed; the other places are as they were."""
    damage(folder / file, pattern, replacement)
    assert run("validate", folder, "--inputs", inputs).code == 2  # the checksum tells
    forge_checksums(folder)
    done = run("validate", folder, "--trust", "--inputs", inputs, "--per-layer", "--json")
    assert done.code == 1
    module = {CONV: "features.0", POOL: "features.2", LINEAR: "classifier"}[wrong[0]]
    message = rf"cortado: mps2-an386 differs .* of \d of 3 samples; the first layer that differs is {wrong[0]} \(.*\) "
    assert re.search(rf"^{message}in module '{module}'$", done.err, re.MULTILINE)
    assert done.json["bit_exact"] is False
    assert [layer["name"] for layer in done.json["layers"] if layer["differing"]["mps2-an386"]] == wrong
    assert all(layer["differing"]["host"] == 0 for layer in done.json["layers"])
    exact = {place["place"]: place["exact_samples"] for place in done.json["places"]}
    assert (exact["host"], exact["executorch"]) == (3, 3)
    assert exact["mps2-an386"] < 3
    table = run("validate", folder, "--trust", "--inputs", inputs, "--per-layer")
    assert table.code == 1
    assert len(re.findall(r"\d differ\b", table.out)) == len(wrong)


@pytest.mark.qemu
def test_right_layers_and_a_wrong_output_are_told_apart(run: Run, folder: Path, inputs: Path) -> None:
    damage(
        folder / "tiny.c", r"(tiny_output\(const tiny_arena_t \*arena, int i\)\n.*?AT\()(\d+)u", lambda m: m[1] + "4u"
    )
    forge_checksums(folder)
    done = run("validate", folder, "--trust", "--inputs", inputs, "--per-layer")
    assert done.code == 1
    assert "every layer gave the reference's bits, so something overwrote them later" in done.err
    assert "every layer" not in run("validate", folder, "--trust", "--inputs", inputs).err


@pytest.mark.qemu
def test_a_fault_is_a_finding(run: Run, folder: Path, inputs: Path) -> None:
    damage(folder / "tiny.c", CALL, r"\1 __builtin_trap();")
    forge_checksums(folder)
    done = run("validate", folder, "--trust", "--inputs", inputs, "--per-layer", "--json")
    assert done.code == 1
    assert re.search(
        r"^cortado: mps2-an386: \S*tiny.elf faulted on mps2-an386 in call_depthwise", done.err, re.MULTILINE
    )
    faults = {place["place"]: place["fault"] for place in done.json["places"]}
    assert faults.pop("mps2-an386")
    assert set(faults.values()) == {None}
    assert [layer["differing"] for layer in done.json["layers"]] == [{"host": 0}] * 3
    assert "fault" in run("validate", folder, "--trust", "--inputs", inputs).out


def test_a_layer_may_differ_where_the_output_does_not() -> None:
    layer = LayerResult("conv", "cortex_m::quantized_conv2d_nhwc", "", None, {"host": 2})
    found = Validation(1, (PlaceResult("reference", "exact integers"), PlaceResult("host", "C", exact=1)), (layer,))
    assert len(found.problems()) == 1
    assert "0 of 1 samples; the first layer that differs is conv" in found.problems()[0]


# ---- the float model's layers --------------------------------------------------------------------------------------


def _attention(m: Any, x: Tensor) -> Tensor:
    scores = torch.softmax(m.a(x) @ m.b(x).transpose(1, 2), dim=-1)
    return scores @ x


PARTS: list[tuple[str, Function, list[list[int]]]] = [
    ("clamp fused", Function(lambda m, x: m.c(x).clamp(-0.3, 0.6), c=nn.Conv2d(3, 3, 3)), [[1, 3, 5, 5]]),
    ("equal sizes", Function(lambda m, x: m.d(m.c(x)), c=nn.Conv2d(4, 4, 1), d=nn.Conv2d(4, 4, 1)), [[1, 4, 4, 4]]),
    ("one dimension", Function(lambda m, x: torch.relu(m.c(x)), c=nn.Conv1d(3, 5, 3, padding=1)), [[1, 3, 9]]),
    ("merged", Function(lambda m, x: m.d(m.c(x)), c=nn.Linear(5, 4), d=nn.Linear(4, 6)), [[2, 3, 5]]),
    (
        "permuted outputs",
        Function(lambda m, x: m.c(m.l(x).unflatten(1, (3, 4, 5))), l=nn.Linear(7, 60), c=nn.Conv2d(3, 2, 3)),
        [[1, 7]],
    ),
    ("folded norm", Function(lambda m, x: m.n(m.c(x)), c=nn.Conv2d(3, 4, 3), n=nn.BatchNorm2d(4)), [[1, 3, 5, 5]]),
    ("rescaled codes", Function(lambda m, x: m.c(x) * 0.125 + x, c=nn.Conv2d(3, 3, 1)), [[1, 3, 5, 5]]),
    ("attention", Function(_attention, a=nn.Linear(8, 8), b=nn.Linear(8, 8)), [[1, 6, 8]]),
    ("branches", Function(lambda m, x, y: torch.cat([x + y, torch.sigmoid(x)], 1)), [[1, 2, 3, 4], [1, 2, 3, 4]]),
]


@pytest.mark.cases(3)
@pytest.mark.parametrize(("model", "shapes"), [part[1:] for part in PARTS], ids=[part[0] for part in PARTS])
def test_every_layer_has_a_twin_in_the_float_graph(model: Function, shapes: list[list[int]]) -> None:
    """The twin holds the numbers that the layer's codes stand for, in the order in which they lie."""
    torch.manual_seed(0)
    single = lower(model, shapes)
    batch = single.batches[0]
    only_graph = cast(Artifact, SimpleNamespace(graph=single.graph))
    compared = _Compared(only_graph, FloatModel(model.eval(), batch), inputs=[list(batch)])
    values = run_reference(single.graph, batch)
    compared.add_layers(0, {name: value.numpy() for name, value in values.items()})
    found = compared.layers()
    kernels = [call for call in single.graph.calls if call.operator != "aten::view_copy"]
    assert kernels
    for call in kernels:
        decibels = found[call.name]
        assert decibels is not None, call
        assert decibels > 15, (call.name, call.twin, decibels)


@pytest.mark.host
def test_images_may_come_channels_last(tmp_path: Path) -> None:
    """The float model takes them channels first all the same."""
    torch.manual_seed(0)
    model, batch = nn.Conv2d(3, 4, 3), (torch.randn(1, 3, 5, 6),)
    options = Options(input_layout=InputLayout.NHWC)
    artifact = compile(model, batch, "cortex-m4", [batch], "camera", options).save(tmp_path / "out")
    compared = validate(artifact, [artifact.example()], floats=float_model(artifact, model, batch), per_layer=True)
    assert artifact.example()[0].shape == (1, 5, 6, 3)
    assert compared.problems() == []
    fidelity = compared.places[0].fidelity
    assert fidelity is not None
    assert fidelity.same_top1 is None
    for sqnr in (fidelity.sqnr, *(layer.sqnr for layer in compared.layers)):
        assert sqnr is not None
        assert sqnr > 30


# ---- the user's mistakes ------------------------------------------------------------------------------------------


def test_samples_lie_along_the_first_dimension_or_one_more(tiny_artifact: Artifact, tmp_path: Path) -> None:
    values = np.arange(72, dtype=np.int8).reshape(2, 1, 6, 6)
    for name, array in {"flat": values, "deep": values[:, None], "one": values[:1]}.items():
        np.save(tmp_path / f"{name}.npy", array)
        samples = tiny_artifact.read_samples(tmp_path / f"{name}.npy")
        assert [len(sample) for sample in samples] == [1] * (1 if name == "one" else 2)
        for sample, wanted in zip(samples, values, strict=False):
            np.testing.assert_array_equal(sample[0], wanted[None])


def test_every_input_has_as_many_samples(tiny_artifact: Artifact, tmp_path: Path) -> None:
    (tensor,) = tiny_artifact.report.inputs
    inputs = (tensor, replace(tensor, name="y"))
    two = replace(tiny_artifact, report=replace(tiny_artifact.report, inputs=inputs))
    x, y = np.zeros((2, 1, 6, 6), np.float32), np.ones((3, 1, 6, 6), np.float32)
    np.savez(tmp_path / "same.npz", y=y[:2], x=x)
    samples = two.read_samples(tmp_path / "same.npz")
    assert [[float(value.max()) for value in sample] for sample in samples] == [[0.0, 1.0]] * 2
    np.savez(tmp_path / "other.npz", y=y, x=x)
    with pytest.raises(CortadoError, match=r"different numbers of samples for the model's inputs: \[2, 3\]"):
        two.read_samples(tmp_path / "other.npz")


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((3, 1, 6, 7), np.float32), "has shape [3, 1, 6, 7], expected [1, 1, 6, 6] for input 'x', or several"),
        (np.zeros((0, 1, 6, 6), np.float32), "holds no samples"),
        (np.zeros((2, 1, 6, 6), np.float64), "sample 0, has dtype float64"),
        (np.full((2, 1, 6, 6), np.nan, np.float32), "holds NaN"),
    ],
)
def test_samples_that_do_not_fit_are_refused(
    run: Run, tiny_artifact: Artifact, tmp_path: Path, array: np.ndarray[Any, Any], message: str
) -> None:
    np.save(tmp_path / "x.npy", array)
    done = run("validate", tiny_artifact.folder, "--inputs", tmp_path / "x.npy")
    assert (done.code, done.out) == (2, "")
    assert message in done.err


def test_what_is_not_found_can_not_be_saved(run: Run, tiny_artifact: Artifact) -> None:
    done = run("validate", tiny_artifact.folder, "--model", TINY, "--save")
    assert (done.code, done.out) == (2, "")
    assert "which --per-layer measures: add --per-layer" in done.err
    done = run("validate", tiny_artifact.folder, "--per-layer", "--save")
    assert (done.code, done.out) == (2, "")
    assert "name it with --model" in done.err


def test_another_target_or_model_is_refused(run: Run, tiny_artifact: Artifact) -> None:
    done = run("validate", tiny_artifact.folder, "--target", "cortex-m4,cortex-m55")
    assert done.code == 2
    assert "was compiled for cortex-m4, expected cortex-m55" in done.err
    done = run("validate", tiny_artifact.folder, "--model", "ds_cnn")
    assert done.code == 2
    assert "takes inputs of shapes [[1, 1, 49, 10]], the one in" in done.err
    assert "[[1, 1, 6, 6]]" in done.err


def test_a_float_model_with_other_outputs_is_refused(tiny_artifact: Artifact) -> None:
    model = nn.Conv2d(1, 1, 3)
    floats = float_model(tiny_artifact, model, [torch.zeros(1, 1, 6, 6)])
    with pytest.raises(CortadoError, match=r"outputs of shapes \[\[1, 1, 4, 4\]\], the one in .* \[\[1, 3\]\]"):
        validate(tiny_artifact, [tiny_artifact.example()], floats=floats)


def test_a_pte_in_float_may_be_close() -> None:
    place = PlaceResult("executorch", "tiny.pte", exact=0, close=True)
    assert Validation(2, (place,), ()).problems() == []
    assert Validation(2, (replace(place, close=False),), ()).problems()


def test_a_model_without_a_bundle_is_refused(tiny_artifact: Artifact) -> None:
    report = replace(tiny_artifact.report, bundle_missing=("cumsum at model.py:7",))
    alone = replace(tiny_artifact, report=report)
    with pytest.raises(CortadoError, match=r"holds no C bundle.*`cortado run .* --on executorch`(.|\n)*cumsum at"):
        validate(alone, [alone.example()])
