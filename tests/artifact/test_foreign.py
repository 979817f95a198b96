"""Folders and names from elsewhere: nothing in them becomes code, nothing runs here without trust, and whatever is
wrong in them is an error with exit code 2."""

import io
import itertools
import json
import random
import re
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import cortado
from cortado.artifact import manifest
from cortado.artifact.manifest import REPORT, digest
from cortado.artifact.opened import EXAMPLE, EXPECTED, REFERENCE, Artifact
from cortado.artifact.page import build_page
from cortado.base import names
from cortado.base.errors import CortadoError
from cortado.base.target import Core, Machine, from_target_string
from cortado.cli.entry import main
from cortado.emit.c.bundle import emit_c
from cortado.options import Border, Optimize
from cortado.plan.program import Tensor, build_program
from cortado.plan.schedule import schedule
from cortado.run import runner
from cortado.run.bundle_info import BundleInfo
from cortado.run.elf import load_image
from cortado.run.harness import harness_source
from cortado.run.runner import RunResult
from helpers.hostile import HOSTILE
from helpers.mutations import mutate

EVIL = "evil"
# ---- names ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", HOSTILE)
def test_texts_are_harmless_wherever_they_stand(text: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9 _.,:+()<>=\[\]-]*", names.plain(text))
    assert names.c_string(text)[1:-1] == names.plain(text)
    assert not re.search(r"[<>\"'\x00\x1b]|&(?!\w+;|#)", names.html_text(text))
    assert "\x1b" not in names.printable(text)
    with pytest.raises(CortadoError, match="can't be a model's name"):
        names.check_name(text)
    assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", names.c_identifier(text))
    assert not names.is_node_name(text)


@pytest.fixture(scope="module")
def hostile_files(tiny_artifact: Artifact) -> dict[Core, dict[str, str]]:
    """The tiny network's bundle for this machine and for the M4, with hostile names in every place that has one."""
    graph, bundles = tiny_artifact.graph, {}
    texts = itertools.cycle(HOSTILE)
    calls = tuple(replace(call, module=next(texts)) for call in graph.calls)
    for core in (Core.PORTABLE, Core.DSP):
        target = from_target_string("cortex-m4")
        program = build_program("tiny", replace(graph, calls=calls), target, Border.INT8, cores=(core,))
        planned = schedule(program, Optimize.BALANCED)
        stages = tuple(
            replace(
                stage, steps=tuple(replace(s, operator=HOSTILE[i % len(HOSTILE)]) for i, s in enumerate(stage.steps))
            )
            for stage in planned.program.stages
        )

        def renamed(group: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            return tuple(replace(tensor, name=HOSTILE[i]) for i, tensor in enumerate(group))

        given = planned.program
        inputs, outputs = renamed(given.inputs), renamed(given.outputs)
        named = replace(planned, program=replace(given, stages=stages, inputs=inputs, outputs=outputs))
        bundles[core] = dict(emit_c(named).files)
    return bundles


@pytest.mark.qemu
@pytest.mark.parametrize("core", [Core.PORTABLE, Core.DSP], ids=["host", "cortex-m4"])
@pytest.mark.parametrize("flags", [(), (runner.RUNTIME_CHECKS,)], ids=["release", "checks"])
def test_hostile_names_bring_nothing_into_the_program(
    tiny_artifact: Artifact,
    hostile_files: dict[Core, dict[str, str]],
    tmp_path: Path,
    core: Core,
    flags: tuple[str, ...],
) -> None:
    files = hostile_files[core]
    runner.write_files(tmp_path, files)
    board = None if core is Core.PORTABLE else Machine.MPS2_AN386
    program = runner.build(tmp_path, tiny_artifact.info, board, flags)  # -Werror, with comments and trigraphs
    named = [symbol.name for symbol in load_image(program).symbols if EVIL in symbol.name]
    assert all(re.match(r"layer_\w|tiny__\w", name) for name in named), "a symbol that is not part of a longer name"
    for name, text in files.items():
        code = re.sub(r'/\*.*?\*/|"[^"\n]*"', "", text, flags=re.S)
        assert not re.search(rf"\b{EVIL}\b", code) or name == "README.md", name
    assert EVIL in files["tiny.c"], "the names are not in the program at all"
    assert EVIL not in files["CMakeLists.txt"]
    rows = [line for line in files["README.md"].splitlines() if EVIL in line]
    assert rows
    assert all(row.count("|") == 5 for row in rows)


class Keys(nn.Module):
    """Modules under names that Python takes and C would not."""

    def __init__(self) -> None:
        super().__init__()
        keys = ("*/ int evil; /*", "??/", "%s", "${X}", "<b>", "\u00fc")
        self.layers = nn.ModuleDict({key: nn.Conv2d(2, 2, 1) for key in keys})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers.values():
            x = torch.relu(layer(x))
        return x


@pytest.mark.qemu
def test_a_model_may_call_its_modules_what_it_likes(tmp_path: Path) -> None:
    torch.manual_seed(0)
    batch = (torch.randn(1, 2, 4, 4),)
    compiled = cortado.compile(Keys().eval(), batch, "cortex-m4", [batch])
    saved = compiled.save(tmp_path / "keys")
    assert any(layer.module == "layers.*/ int evil; /*" for layer in saved.report.layers)
    for on in (None, "host"):
        assert saved.run([[batch[0].numpy()]], on).bit_exact


def test_the_page_escapes_every_text(tiny_artifact: Artifact) -> None:
    def poison(value: Any) -> Any:
        if isinstance(value, str) and not isinstance(value, Enum):
            return f"{value}</td><script>evil()</script>"
        if is_dataclass(value) and not isinstance(value, type):
            return replace(value, **{item.name: poison(getattr(value, item.name)) for item in fields(value)})
        if isinstance(value, dict):
            return {key: poison(item) for key, item in value.items()}
        return tuple(map(poison, value)) if isinstance(value, tuple) else value

    page = build_page(replace(poison(tiny_artifact.report), schedule=tiny_artifact.report.schedule))
    assert page.lower().count("<script") == build_page(tiny_artifact.report).lower().count(
        "<script"
    )  # none of a name's
    assert "<script>evil()" not in page
    assert "&lt;script&gt;evil()" in page


# ---- changed folders ------------------------------------------------------------------------------------------------


@pytest.fixture
def copy(tiny_artifact: Artifact, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_artifact.folder, tmp_path / "copy"))


def change_report(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    report = json.loads((folder / REPORT).read_text())
    change(report)
    (folder / REPORT).write_text(json.dumps(report))


def sign(folder: Path, name: str, data: bytes) -> None:
    """Replaces a file and its hash, as its maker could."""
    (folder / name).write_bytes(data)
    change_report(folder, lambda report: report["artifacts"].update({name: digest(data)}))


def change_graph(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    with np.load(folder / REFERENCE) as file:
        arrays = dict(file)
    record = json.loads(arrays["graph"].tobytes())
    change(record)
    arrays["graph"] = np.frombuffer(json.dumps(record).encode(), dtype=np.uint8)
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    sign(folder, REFERENCE, stream.getvalue())


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_in_a_report_are_refused(copy: Path, text: str) -> None:
    change_report(copy, lambda report: report.update(model=text))
    with pytest.raises(CortadoError, match="can't be a model's name"):
        Artifact.open(copy, trust=True)
    change_report(copy, lambda report: report.update(model="tiny", prefix=text))
    with pytest.raises(CortadoError, match="impossible names"):
        Artifact.open(copy, trust=True)


@pytest.mark.host
def test_hostile_modules_in_a_reference_are_comments_at_most(copy: Path) -> None:
    def poison(record: dict[str, Any]) -> None:
        for call, text in zip(record["calls"], HOSTILE, strict=False):
            call["module"] = text

    change_graph(copy, poison)
    opened = Artifact.open(copy, trust=True)
    assert opened.run([opened.example()], "host").bit_exact
    change_graph(copy, lambda record: record["calls"][0].update(name="*/ int evil; /*"))
    assert main(["run", str(copy), "--on", "host", "--trust"]) == 2


CHANGES: dict[str, Callable[[dict[str, Any]], None]] = {
    "scale": lambda report: report["inputs"][0].update(scale=report["inputs"][0]["scale"] * 2),
    "zero point": lambda report: report["outputs"][0].update(zero_point=report["outputs"][0]["zero_point"] + 1),
    "no scale": lambda report: report["outputs"][0].update(scale=None, zero_point=None),
    "dtype": lambda report: report["inputs"][0].update(dtype="uint8"),
    "node": lambda report: report["outputs"][0].update(node=report["inputs"][0]["node"]),
    "name": lambda report: report["inputs"][0].update(name="y"),
    "one more": lambda report: report["inputs"].append(report["inputs"][0]),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_report_that_contradicts_the_reference_is_refused(copy: Path, change: Callable[..., None]) -> None:
    change_report(copy, change)
    with pytest.raises(CortadoError, match=r"report\.json and reference\.npz contradict each other in the "):
        Artifact.open(copy, trust=True)


@pytest.mark.parametrize("shape", [(1,) * 17, (1 << 16, 1 << 15)], ids=["dimensions", "values"])
def test_a_tensor_that_no_model_has_is_refused(copy: Path, shape: tuple[int, ...]) -> None:
    sizes = {"shape": shape, "model_shape": shape, "layout": tuple(range(len(shape)))}
    change_report(copy, lambda report: report["inputs"][0].update(sizes))
    with pytest.raises(CortadoError, match="is too large"):
        Artifact.open(copy, trust=True)


@pytest.mark.host
def test_a_layout_that_contradicts_the_reference_is_refused(tmp_path: Path) -> None:
    class Square(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(4, 4, 3, padding=1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.conv(x)

    batch = (torch.randn(1, 4, 4, 4),)  # every order of its dimensions has the same shape
    folder = tmp_path / "square"
    cortado.compile(Square().eval(), batch, "cortex-m4", [batch]).save(folder)
    for kind in ("inputs", "outputs"):
        shutil.copytree(folder, tmp_path / kind)
        change_report(tmp_path / kind, lambda report, kind=kind: report[kind][0].update(layout=[0, 3, 1, 2]))  # type: ignore[misc]
        with pytest.raises(CortadoError, match=r"contradict each other in the (name or )?layout of"):
            Artifact.open(tmp_path / kind)


# ---- trust ----------------------------------------------------------------------------------------------------------


@pytest.mark.host
def test_what_this_installation_wrote_is_trusted_wherever_it_lies(copy: Path, tmp_path: Path) -> None:
    moved = copy.rename(tmp_path / "moved")
    assert Artifact.open(moved).ours
    assert main(["run", str(moved), "--on", "host"]) == 0


@pytest.mark.host
def test_a_folder_from_elsewhere_runs_here_only_with_trust(
    copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CORTADO_CACHE", str(tmp_path / "other installation"))
    pte = tmp_path / "lone.pte"
    shutil.copy(copy / "tiny.pte", pte)
    np.save(tmp_path / "x.npy", Artifact.open(copy).example()[0])
    for command in (
        ["run", copy, "--on", "host"],
        ["run", copy, "--on", "executorch"],
        ["run", copy / "tiny.pte"],
        ["run", pte, "--input", tmp_path / "x.npy"],
        ["validate", copy],
        ["show", copy, "--write", tmp_path / "page.html"],
    ):
        assert main([str(word) for word in command]) == 2
        said = capsys.readouterr().err
        assert "was not compiled by this installation" in said
        assert "--trust" in said
    for use in (lambda a: a.run([a.example()], "host"), lambda a: a.trace(a._recorded([a.example()])[0][0], "host")):
        with pytest.raises(CortadoError, match="--trust"):
            use(Artifact.open(copy))
    assert not (tmp_path / "other installation").exists(), "something was built"


@pytest.mark.host
def test_trust_is_given_in_words(copy: Path) -> None:
    change_report(copy, lambda report: report.update(notes=["from elsewhere"]))
    assert not Artifact.open(copy).trusted
    assert main(["run", str(copy), "--on", "host"]) == 2
    assert main(["run", str(copy), "--on", "host", "--trust"]) == 0


@pytest.mark.qemu
def test_a_board_needs_no_trust(copy: Path) -> None:
    change_report(copy, lambda report: report.update(notes=["from elsewhere"]))
    assert main(["run", str(copy)]) == 0


@pytest.mark.qemu
def test_c_from_elsewhere_reaches_nothing_of_this_machine(
    copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bundle that asks the emulator to run a command (SYS_SYSTEM) faults, and that is all."""
    victim = tmp_path / "victim"
    attack = f"""
static void attack(void)
{{
    static const char command[] = "touch {victim}";
    const uintptr_t block[2] = {{(uintptr_t)command, sizeof command - 1}};
    register uint32_t r0 __asm__("r0") = 0x12;
    register const void *r1 __asm__("r1") = block;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
}}

int tiny_run(tiny_arena_t *arena)
{{
    attack();"""
    text = (copy / "tiny.c").read_text()
    changed = text.replace("\nint tiny_run(tiny_arena_t *arena)\n{", attack)
    assert changed != text
    sign(copy, "tiny.c", changed.encode())
    assert main(["run", str(copy)]) == 2
    assert "faulted on mps2-an386" in capsys.readouterr().err
    assert not victim.exists()


def test_a_report_names_no_code_to_load(copy: Path) -> None:
    change_report(copy, lambda report: report.update(zoo="evil.py:model"))
    with pytest.raises(CortadoError, match=r'zoo is "evil\.py:model", expected the name of a network, or null'):
        Artifact.open(copy)


def test_the_oldest_notes_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORTADO_CACHE", str(tmp_path))
    monkeypatch.setattr(manifest, "_MOST_REMEMBERED", 10)
    for number in range(30):
        manifest.remember(digest(bytes([number])))
        assert len(list((tmp_path / "written").iterdir())) <= 10
    assert manifest.is_remembered(digest(bytes([29])))
    assert not manifest.is_remembered(digest(bytes([0])))


# ---- damage ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def without_emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs give zeros at once: what is tried is all that happens before and after them."""

    def run_bundle(folder: Path, info: BundleInfo, samples: list[Any], on: str | None = None, **more: Any) -> RunResult:
        runner.choose_board(info.target, on)
        harness_source(info)
        outputs = [[np.zeros(tensor.shape, tensor.dtype) for tensor in info.outputs] for _ in samples]
        return RunResult(on or "board", outputs, instructions=1, stack_bytes=1)

    def run_pte(path: Path, samples: list[Any], **more: Any) -> list[Any]:
        return [[np.zeros((1, 4), np.float32)] for _ in samples]

    monkeypatch.setattr("cortado.artifact.opened.run_bundle", run_bundle)
    monkeypatch.setattr("cortado.run.executorch_host.run_pte", run_pte)


COMMANDS = (["run"], ["run", "--json"], ["run", "--on", "host", "--trust"], ["validate", "--trust"])


def check_commands(folder: Path, what: str, capsys: pytest.CaptureFixture[str], choice: random.Random) -> int:
    command, *options = choice.choice(COMMANDS)
    code = main([command, str(folder), *options])
    said = capsys.readouterr()
    assert code in (0, 1, 2), f"{command} {options}, {what}: {said.err}"
    assert "Traceback" not in said.err, f"{command} {options}, {what}: {said.err}"
    return code


@pytest.mark.usefixtures("without_emulator")
def test_whatever_stands_in_a_report_is_no_crash(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    choice = random.Random(10)
    original = (copy / REPORT).read_text()
    codes = []
    for _ in range(200):
        report = json.loads(original)
        what = mutate(report, choice)
        (copy / REPORT).write_text(json.dumps(report))
        codes.append(check_commands(copy, what, capsys, choice))
    assert codes.count(2) > 50


@pytest.mark.usefixtures("without_emulator")
def test_whatever_stands_in_a_reference_is_no_crash(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    choice = random.Random(11)
    original = {name: (copy / name).read_bytes() for name in (REPORT, REFERENCE)}
    codes = []
    for _ in range(100):
        for name, data in original.items():
            (copy / name).write_bytes(data)
        found: list[str] = []
        change_graph(copy, lambda record, found=found: found.append(mutate(record, choice)))  # type: ignore[misc]
        codes.append(check_commands(copy, found[0], capsys, choice))
    assert codes.count(2) > 30


def damaged(data: bytes, choice: random.Random) -> bytes:
    """An .npz file with a member gone, of another shape or type, or with bytes flipped."""
    with np.load(io.BytesIO(data)) as file:
        arrays: dict[str, Any] = dict(file)
    name = choice.choice(list(arrays))
    kind = choice.randrange(5)
    if kind == 0:
        del arrays[name]
    elif kind == 1:
        arrays[name] = arrays[name].reshape(-1)[:-1]
    elif kind == 2:
        arrays[name] = arrays[name].astype(choice.choice(["float64", "complex64", "U3", "bool", "int64"]))
    elif kind == 3:
        arrays[name] = np.array([{"a": "pickle"}], dtype=object)
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    changed = bytearray(stream.getvalue())
    if kind == 4:
        for _ in range(8):
            changed[choice.randrange(len(changed))] ^= 1 << choice.randrange(8)
    return bytes(changed)


@pytest.mark.usefixtures("without_emulator")
def test_damaged_arrays_are_no_crash(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    choice = random.Random(12)
    files = (REPORT, REFERENCE, EXAMPLE, EXPECTED)
    original = {name: (copy / name).read_bytes() for name in files}
    for _ in range(60):
        for name, data in original.items():
            (copy / name).write_bytes(data)
        name = choice.choice(files[1:])
        sign(copy, name, damaged(original[name], choice))
        check_commands(copy, f"{name} damaged", capsys, choice)


def test_a_damaged_pte_is_no_crash(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    choice = random.Random(13)
    original = (copy / "tiny.pte").read_bytes()
    for _ in range(100):
        data = bytearray(original)
        for _ in range(choice.randrange(1, 20)):
            data[choice.randrange(len(data))] = choice.randrange(256)
        (copy / "tiny.pte").write_bytes(data[: choice.choice([len(data), choice.randrange(len(data))])])
        assert main(["inspect", str(copy / "tiny.pte")]) in (0, 2)
        assert "Traceback" not in capsys.readouterr().err


def test_a_zip_bomb_of_names_is_no_crash(copy: Path) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("../../evil.npy", b"\x93NUMPY")
    sign(copy, EXAMPLE, stream.getvalue())
    assert main(["run", str(copy)]) == 2
