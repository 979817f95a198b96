"""MODEL.js of a web package in Node: real numbers in, the reference's codes out, for every way a model is fed."""

import base64
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import cortado
from cortado.artifact.opened import Artifact
from cortado.artifact.streamed import push_codes
from cortado.base.errors import CortadoError, MissingTool
from cortado.base.system import WEB_PAGE
from cortado.run import toolchain
from cortado.web.facts import Shown, module_facts
from cortado.web.package import web_files
from helpers.deciding import LABELS, Newest, Remembering, walk
from helpers.node import in_node

pytestmark = [pytest.mark.host, pytest.mark.xdist_group("wasm")]
PICTURE = (1, 3, 12, 12)


class Two(nn.Module):
    """Two inputs, two outputs, one of them an image."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.conv, self.line = nn.Conv2d(2, 3, 3, padding=1), nn.Linear(4, 5)

    def forward(self, image: Tensor, numbers: Tensor) -> tuple[Tensor, Tensor]:
        return torch.relu(self.conv(image)), self.line(numbers)


def seen() -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, stride=2), nn.ReLU(), nn.Conv2d(8, 6, 1))


def packed(folder: Path, model: nn.Module, *shapes: tuple[int, ...], **options: Any) -> Artifact:
    torch.manual_seed(0)
    batches = [tuple(torch.randn(shape) for shape in shapes) for _ in range(16)]
    chosen = cortado.Options(artifacts="c", package="web", **options)
    labels = LABELS if "decide" in options else None
    return cortado.compile(
        model.eval(), batches[0], "cortex-m4", batches, name="probe", options=chosen, labels=labels
    ).save(folder / "probe")


CASES: dict[str, tuple[Callable[[], nn.Module], list[tuple[int, ...]], dict[str, Any]]] = {
    "image": (seen, [PICTURE], {}),
    "two": (Two, [(1, 2, 5, 4), (1, 4)], {}),
    "float": (seen, [PICTURE], {"io": "float"}),
    "rows": (seen, [PICTURE], {"input_rows": True}),
    "int16": (seen, [PICTURE], {"activations": "int16"}),
    "float32": (Two, [(1, 2, 5, 4), (1, 4)], {"activations": "float32"}),
    "islands": (seen, [PICTURE], {"float32": (r"2.*",)}),
    "int4": (lambda: nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 5)), [(1, 32)], {"weights": "int4"}),
    "state": (lambda: Remembering(softmax=False), [(1, 5)], {}),
}


@pytest.mark.parametrize("case", CASES)
def test_real_numbers_give_the_codes_of_the_reference(case: str, tmp_path: Path) -> None:
    build, shapes, options = CASES[case]
    artifact = packed(tmp_path, build(), *shapes, **options)
    rng = np.random.default_rng(5)
    fresh = [[rng.normal(size=shape).astype(np.float32) for shape in shapes] for _ in range(5)]
    found = in_node(artifact, [[one.ravel().tolist() for one in sample] for sample in fresh], "model.run(one)")
    expected = artifact.reference(fresh).expected
    assert found == [[codes.ravel().tolist() for codes in sample] for sample in expected]


def test_a_range_is_that_of_the_codes(tiny_artifact: Artifact) -> None:
    """By what NumPy says of the type; pages scale their axes and sliders by it."""
    report, facts = tiny_artifact.report, module_facts(Shown.opened(tiny_artifact))
    tensors = (*report.inputs, *report.outputs)
    assert any(tensor.zero_point for tensor in tensors)
    for tensor, told in zip(tensors, (*facts["inputs"], *facts["outputs"]), strict=True):
        limits, scale, zero = np.iinfo(tensor.dtype.value), tensor.scale, tensor.zero_point
        assert scale is not None
        assert zero is not None
        assert told["range"] == pytest.approx([(code - zero) * scale for code in (limits.min, limits.max)])


def test_a_cameras_picture_gives_the_codes_of_the_reference(tmp_path: Path) -> None:
    artifact = packed(tmp_path, seen(), PICTURE, input_format="rgb565", input_size="20x16", crop="2,1,12x12")
    picture = np.random.default_rng(0).integers(0, 256, (16, 40), dtype=np.uint8)
    (found,) = in_node(artifact, [picture.ravel().tolist()], "model.run([Uint8Array.from(one)])")
    checked = artifact.run([[picture]], "host")
    assert checked.bit_exact
    assert found == [codes.ravel().tolist() for codes in checked.result.samples[0]]


def test_a_stream_gives_outputs_and_decisions_as_on_this_machine(tmp_path: Path) -> None:
    artifact = packed(tmp_path, Newest(), (1, 1, 2, 5), stream=2, decide="smooth=3,threshold=0.4,holdoff=4")
    rows = walk(120)
    pushed = push_codes(artifact, rows, "host")
    assert pushed.decisions is not None
    found = in_node(artifact, rows.tolist(), "model.push(one)")
    assert found[: pushed.ends.start] == [None] * pushed.ends.start
    assert [one[0] for one in found if one] == pushed.codes[0].reshape(len(pushed.ends), -1).tolist()
    decided = in_node(artifact, rows.tolist(), "model.push(one) && [{ codes: [model.decision()?.index ?? -1] }]")
    assert [one[0][0] for one in decided if one] == pushed.decisions.tolist()


def test_wrong_sizes_are_refused_in_words(tmp_path: Path) -> None:
    artifact = packed(tmp_path, nn.Linear(4, 3), (1, 4))
    told = "(() => { try { model.run(one) } catch (error) { return [{ codes: [error.message.includes(%r)] }] } })()"
    assert in_node(artifact, [[[1, 2]]], told % "2 values were given, expected 4") == [[[1]]]
    assert in_node(artifact, [[[1, 2, 3, 4], [1]]], told % "2 inputs were given, expected 1") == [[[1]]]


def test_the_package_is_one_that_npm_can_install(tmp_path: Path) -> None:
    folder = packed(tmp_path, nn.Linear(4, 3), (1, 4), model_version="1.4.0").folder / "web"
    manifest = json.loads((folder / "package.json").read_text())
    assert re.fullmatch(r"[a-z0-9][a-z0-9._-]*", manifest["name"])
    assert (manifest["name"], manifest["version"], manifest["type"]) == ("probe", "1.4.0", "module")
    assert {path.name for path in folder.iterdir()} == {*manifest["files"], "package.json", "README.md"}
    assert all((folder / name).is_file() for name in manifest["exports"]["."].values())
    use = tmp_path / "use" / "node_modules"
    use.mkdir(parents=True)
    folder.rename(use / "probe")
    script = 'import { load } from "probe"; console.log((await load()).run([[1, 2, 3, 4]])[0].values.length)'
    done = subprocess.run(["node", "--input-type=module", "-e", script], cwd=use.parent, capture_output=True, text=True)
    assert done.stdout == "3\n", done.stderr


def test_the_types_name_what_the_module_exports() -> None:
    types, script = ((WEB_PAGE / name).read_text() for name in ("module.d.ts", "model.js"))
    declared = re.findall(r"^  (?!readonly)(\w+)\(", types, re.MULTILINE)
    assert {"run", "push", "decision", "reset", "quantize"} <= set(declared)
    assert all(re.search(rf"^  {name}\(", script, re.MULTILINE) for name in declared)


def test_the_module_imports_nothing(tmp_path: Path) -> None:
    """So it can reach nothing; what it exports is what the glue in C names."""
    wasm = (packed(tmp_path, nn.Linear(4, 3), (1, 4)).folder / "web" / "probe.wasm").read_bytes()
    script = (
        f"const m = new WebAssembly.Module(Buffer.from({base64.b64encode(wasm).decode()!r}, 'base64'));"
        "console.log(JSON.stringify([WebAssembly.Module.imports(m), WebAssembly.Module.exports(m).map((e) => e.name)]))"
    )
    imports, exports = json.loads(subprocess.run(["node", "-e", script], capture_output=True, check=True).stdout)
    assert imports == []
    assert set(exports) == {"memory", "input", "output", "run", "row", "push", "reset"}


def test_a_folder_gives_the_bytes_of_the_compile(tmp_path: Path) -> None:
    folder = packed(tmp_path, nn.Linear(4, 3), (1, 4)).folder
    made = web_files(Shown.opened(cortado.load(folder)))
    assert {name: (folder / "web" / name).read_bytes() for name in made} == {
        name: data if isinstance(data, bytes) else data.encode() for name, data in made.items()
    }


def test_a_missing_compiler_is_told_before_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "find", lambda tool: None)
    example = (torch.randn(1, 4),)
    with pytest.raises(MissingTool, match="apt-get install clang-19 lld-19"):
        cortado.compile(nn.Linear(4, 3), example, "cortex-m4", [example], options=cortado.Options(package="web"))


def test_a_page_is_one_models(tmp_path: Path) -> None:
    example = (torch.randn(1, 4),)
    options = cortado.Options(artifacts="c", package="web")
    one = cortado.compile(nn.Linear(4, 3), example, "cortex-m4", [example], options=options)
    with pytest.raises(CortadoError, match="--package web, but a page shows one model"):
        cortado.save_together([one], tmp_path / "both")
