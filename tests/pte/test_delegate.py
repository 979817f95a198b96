"""The delegate: a whole network as one call of CortadoBackend, on ExecuTorch's real runtime, bit for bit."""

import re
import struct
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import cortado
from cortado import CortadoError, Options
from cortado.base.arrays import ArrayType
from cortado.base.target import Compiler, from_target_string
from cortado.emit.image.files import image_sources, portable_files
from cortado.emit.image.reader import read_image
from cortado.emit.image.thunks import table_text
from cortado.emit.pte.delegate import NHWC, emit_delegate
from cortado.options import NOT_DELEGATED, Activations, PteKind
from cortado.plan.lowered import run_reference
from cortado.plan.program import Tensor
from cortado.plan.request import Feeding
from cortado.pte.reader import read_pte
from cortado.run import executorch_host
from cortado.run.executorch_host import DelegateKernels, run_pte
from helpers.cli import Run
from helpers.cores import THREE, each_core
from helpers.executorch import delegated_events
from helpers.images import ARENA_AT, Imaged, changed, on_host
from helpers.networks import graph_of, unseen
from helpers.paths import ROOT
from helpers.stateful import Ring

DELEGATE = Options(pte=PteKind.DELEGATE)


class Mixed(nn.Module):
    """A convolution in NHWC, a norm, a recurrent layer, ids: operators that no .pte of cortex_m calls has."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.LayerNorm(8)
        self.gru = nn.GRU(8, 6, batch_first=True)
        self.ids = nn.Embedding(10, 6)
        self.out = nn.Linear(6, 4)

    def forward(self, x: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.conv(x)).flatten(2).transpose(1, 2)
        states, _ = self.gru(self.norm(y))
        result: torch.Tensor = self.out(states[:, -1] + self.ids(ids).sum(1))
        return result


def mixed() -> cortado.Compiled:
    torch.manual_seed(3)
    data = [(torch.randn(1, 3, 5, 5), torch.randint(0, 10, (1, 3))) for _ in range(6)]
    return cortado.compile(Mixed().eval(), data[0], "cortex-m55", data, name="mixed", options=DELEGATE)


def test_what_no_operator_of_executorch_computes_runs_on_its_runtime(tmp_path: Path, run: Run) -> None:
    compiled = mixed()
    report = compiled.report
    assert report.pte is not None
    assert report.memory is not None
    assert (report.pte.kind, report.pte_missing) == (PteKind.DELEGATE, ())
    assert report.pte.arena_bytes == report.memory.arena_bytes  # inputs and outputs inside of it
    artifact = compiled.save(tmp_path / "out")
    checked = artifact.run_on_executorch([artifact.example()])
    assert checked.bit_exact
    info = read_pte((tmp_path / "out" / "mixed.pte").read_bytes(), "mixed.pte")
    method = info.method("forward")
    assert method is not None
    assert [one.name for one in method.delegates] == ["CortadoBackend"]
    assert method.operators == ()
    shown = run("inspect", tmp_path / "out" / "mixed.pte").out
    assert "mixed for cortex-m55" in shown
    assert "gru_s8" in shown
    (image,) = run("inspect", tmp_path / "out" / "mixed.pte", "--json").json["images"]
    assert image["arena_bytes"] == report.pte.arena_bytes
    assert [one["name"] for one in image["inputs"]] == ["x", "ids"]


def test_state_lasts_from_call_to_call_and_begins_anew_with_the_method(tmp_path: Path) -> None:
    torch.manual_seed(1)
    data = [(torch.randn(1, 6, 1),) for _ in range(12)]
    compiled = cortado.compile(Ring().eval(), data[0], "cortex-m4", data, name="ring", options=DELEGATE)
    artifact = compiled.save(tmp_path / "out")
    steps = [[x.numpy() for x in sample] for sample in data]
    assert artifact.run_on_executorch(steps, sequence=4).bit_exact


class Masked(nn.Module):
    """Attention that leaves out what a mask hides."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(8, 8) for _ in range(3))

    def forward(self, x: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        scores = self.query(x) @ self.key(x).transpose(1, 2)
        weights = torch.softmax(scores.masked_fill(hidden, float("-inf")), 2)
        result: torch.Tensor = weights @ self.value(x)
        return result


def test_masks_and_tensors_of_16_bits_run_on_the_real_runtime(tmp_path: Path) -> None:
    torch.manual_seed(2)
    attended = [(torch.randn(1, 5, 8), torch.rand(1, 1, 5) < 0.3) for _ in range(6)]
    pictures = [(torch.randn(1, 2, 6, 6),) for _ in range(6)]
    wide = nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))
    for name, model, data, options in (
        ("masked", Masked(), attended, DELEGATE),
        ("wide", wide, pictures, Options(pte=PteKind.DELEGATE, activations=Activations.INT16)),
    ):
        compiled = cortado.compile(model.eval(), data[0], "cortex-m4", data, name=name, options=options)
        artifact = compiled.save(tmp_path / name)
        assert artifact.run_on_executorch([[x.numpy() for x in sample] for sample in data]).bit_exact


class Running(nn.Module):
    """A running product, which no integer operator computes, between two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.last(torch.cumprod(torch.sigmoid(self.first(x)), 1))
        return result


def test_what_stays_in_float32_is_in_the_one_call_too(tmp_path: Path) -> None:
    torch.manual_seed(4)
    data = [(torch.randn(1, 8),) for _ in range(6)]
    chain = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
    kinds: list[tuple[nn.Module, dict[str, Any]]] = [
        (Running(), {"allow_float": True}),
        (Running(), {"activations": Activations.FLOAT32}),
        (chain, {"float32": ("2",)}),
    ]
    for number, (model, kind) in enumerate(kinds):
        options = Options(pte=PteKind.DELEGATE, **kind)
        compiled = cortado.compile(model.eval(), data[0], "cortex-m55", data, name="running", options=options)
        assert compiled.report.pte is not None
        assert compiled.report.pte.kind is PteKind.DELEGATE
        artifact = compiled.save(tmp_path / str(number))
        assert artifact.run_on_executorch([[x.numpy() for x in sample] for sample in data]).bit_exact


def test_what_nobody_computes_is_refused_in_terms_of_the_model() -> None:
    class Inverse(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.inv(torch.relu(x))

    data = [(torch.randn(3, 3),) for _ in range(4)]
    with pytest.raises(CortadoError, match=r"linalg_inv.*no integer operator") as refused:
        cortado.compile(Inverse(), data[0], "cortex-m55", data, options=replace(DELEGATE, allow_float=True))
    assert "--artifacts" not in str(refused.value)


def _kernels(net: Imaged) -> DelegateKernels:
    return DelegateKernels(*portable_files(net.image))


SEQUENCES = ("kws_gru", "imu_lstm", "kws_stream")


def test_trained_sequence_networks_on_the_real_runtime() -> None:
    """With the kernels of all in one program, on data that calibration has not seen, beside the reference."""
    nets = {name: on_host(graph_of(name), name=name) for name in SEQUENCES}
    stream = on_host(graph_of("kws_stream"), Feeding(stream=2), "kws_stream")
    images = [net.image for net in (*nets.values(), stream)]
    sources = image_sources({source for image in images for source in image.sources})
    kernels = DelegateKernels(table_text([thunk for image in images for thunk in image.thunks]), tuple(sources))
    for name, net in nets.items():
        known = [run_reference(graph_of(name), sample) for sample in unseen(name, 4)]
        (given,), (made,) = net.planned.program.inputs, net.planned.program.outputs
        codes = [[_named(values[given.node].numpy(), given)] for values in known]
        found = run_pte(emit_delegate(net.planned, net.image, {}).data, codes, delegate=kernels)
        for got, values in zip(found, known, strict=True):
            np.testing.assert_array_equal(got[0], values[made.node])
    (values,) = [run_reference(graph_of("kws_stream"), sample) for sample in unseen("kws_stream", 1)]
    (given,), (made,) = stream.planned.program.inputs, stream.planned.program.outputs
    rows = values[given.node].numpy().reshape(stream.head.window, -1)
    pte = emit_delegate(stream.planned, stream.image, {})
    beside = pte.arena_bytes - stream.planned.plan.peak  # docs/executorch.md: the row and a flag, on 16 bytes each
    assert rows[0].nbytes + 4 <= beside < rows[0].nbytes + 4 + 3 * 16
    *_, last = run_pte(pte.data, [[row] for row in rows], delegate=kernels)
    assert int(last[-1][0]) == 1
    np.testing.assert_array_equal(last[0].reshape(-1), values[made.node].numpy().reshape(-1))


def _named(codes: ArrayType, tensor: Tensor) -> ArrayType:
    """Images as the file names their dimensions; it stores channels last."""
    return codes.transpose(0, 3, 1, 2) if tensor.layout == NHWC else codes


@pytest.mark.parametrize("core", each_core(*THREE, here="cortex-m55"))
def test_it_compiles_for_cores_and_allocates_nothing(core: str, tmp_path: Path) -> None:
    """With the flags of the operator library; what is not there to be linked is the runtime's, and the loader's."""
    found = executorch_host.wheel()
    strict = ("-std=c++17", "-fno-exceptions", "-fno-rtti", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-Wno-psabi")
    target = from_target_string(core).compiler_flags(Compiler.GCC)
    includes = [f"-I{folder}" for folder in executorch_host.include_dirs()]
    source, output = executorch_host.ADAPTER / "delegate.cpp", tmp_path / "delegate.o"
    command = ["arm-none-eabi-g++", "-Os", *target, *strict, *found.compile_flags, *includes]
    done = subprocess.run([*command, "-c", source, "-o", output], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    listed = subprocess.run(["arm-none-eabi-nm", "-uC", output], capture_output=True, text=True, check=True).stdout
    wanted = {line.split(maxsplit=1)[1] for line in listed.splitlines()}
    assert {"cortado_image_open_checked", "cortado_image_run", "cortado_image_ram"} <= wanted
    assert not [
        name for name in wanted if re.search(r"malloc|calloc|operator new|__cxa_(throw|allocate)|_Unwind", name)
    ]


def test_what_a_runtime_cannot_run_is_refused_with_one_line() -> None:
    net = on_host(graph_of("ds_cnn"), name="ds_cnn")
    feed = [[np.zeros((1, 1, 49, 10), np.int8)]]
    data, kernels = net.image.data, _kernels(net)
    absent, *others = net.image.thunks
    missing = DelegateKernels(table_text(others), kernels.sources)
    incompatible = "DelegateInvalidCompatibility|0x30"
    cases = [
        (changed(data, 4, b"\7\0"), kernels, "the blob is an image of another format", incompatible),
        (changed(data, 7, b"\3"), kernels, "the blob is an image for another kind of core", incompatible),
        (
            changed(data, 16, b"\x63\0"),
            kernels,
            "the blob is an image for the kernels of another version",
            incompatible,
        ),
        (changed(data, 200, b"\x77", repaired=False), kernels, "its CRC is wrong", incompatible),
        (data[:-1024], kernels, "the blob is an image that is cut off", incompatible),
        (b"nothing at all" * 20, kernels, "the blob is no image", incompatible),
        (data, missing, f"calls a kernel which is not linked: {absent.name}", incompatible),
        (
            changed(data, ARENA_AT, struct.pack("<I", 9000)),
            kernels,
            "the arena must have 9000 bytes",
            "MemoryAllocationFailed|0x21",
        ),
    ]
    for blob, linked, line, code in cases:
        pte = emit_delegate(net.planned, replace(net.image, data=blob), {})
        with pytest.raises(CortadoError, match=line) as refused:
            run_pte(pte.data, feed, delegate=linked)
        assert str(refused.value).count("Cortado: ") == 1
        assert re.search(code, str(refused.value)), str(refused.value)
    pte = emit_delegate(net.planned, net.image, {})
    method = read_pte(pte.data).method("forward")
    assert method is not None
    needed = method.host_loading.method_bytes + read_image(data, "ds_cnn").delegate_bytes
    with pytest.raises(CortadoError, match=r"method allocator needs [\d,]+ bytes more|MemoryAllocationFailed"):
        run_pte(pte.data, feed, delegate=kernels, method_bytes=needed - 8)
    expected = net.run(feed, "host").samples
    found = run_pte(pte.data, feed, delegate=kernels, method_bytes=needed)
    np.testing.assert_array_equal(found[0][0], expected[0][0])


def test_executorchs_inspector_shows_the_time_of_each_layer(tmp_path: Path) -> None:
    net = on_host(graph_of("ds_cnn"), name="ds_cnn")
    (tmp_path / "model.pte").write_bytes(emit_delegate(net.planned, net.image, {}).data)
    events = delegated_events(tmp_path, _kernels(net), torch.zeros(1, 1, 49, 10, dtype=torch.int8))
    assert [event.name for event in events] == [step.module for step in net.planned.program.steps]
    assert all(event.ticks > 0 for event in events)


def test_a_row_with_each_call_gives_the_outputs_after_the_last() -> None:
    net = on_host(graph_of("ds_cnn"), Feeding(rows=True), "ds_cnn")
    pte = emit_delegate(net.planned, net.image, {})
    codes = np.random.default_rng(2).integers(-128, 128, (49, 10)).astype(np.int8)
    done = run_pte(pte.data, [[row] for row in codes], delegate=_kernels(net))
    assert [int(outputs[-1][0]) for outputs in done] == [0] * 48 + [1]
    expected = net.run([[codes.reshape(net.info.inputs[0].shape)]], "host").samples
    np.testing.assert_array_equal(done[-1][0], expected[0][0])


REFUSED: dict[str, dict[str, Any]] = {
    "--artifacts": {"artifacts": "c"},
    "--bundleio": {"bundleio": True},
    "--etrecord": {"etrecord": True},
    "--keep-float": {"keep_float": ("head",)},
    "--memory": {"memory": {"fast": 65536, "slow": 262144}},
    "--place": {"place": ("conv=external",)},
    "--decide": {"decide": "threshold=0.5"},
    "--watch": {"watch": "head"},
    "--input-format": {"input_format": "rgb565", "input_size": "32x32"},
}


@pytest.mark.parametrize("name", NOT_DELEGATED)
def test_what_it_cannot_be_beside_is_refused_by_the_reason_on_the_page(name: str) -> None:
    page = (ROOT / "docs" / "executorch.md").read_text()
    row = next(line for line in page.splitlines() if line.startswith("| ") and f"`{name}`" in line.split("|")[1])
    assert NOT_DELEGATED[name] in row.replace("`", "")
    with pytest.raises(CortadoError, match=f"--pte delegate and {name}: {re.escape(NOT_DELEGATED[name])}"):
        Options(pte=PteKind.DELEGATE, **REFUSED[name])


def test_an_image_for_every_kind_of_core_is_refused() -> None:
    model, x = nn.Linear(4, 2).eval(), torch.randn(1, 4)
    with pytest.raises(CortadoError, match="one kind of core"):
        cortado.compile(model, (x,), "cortex-m", [(x,)], options=DELEGATE)
