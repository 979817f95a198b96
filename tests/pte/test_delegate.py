"""The delegate: a whole network as one call of CortadoBackend, on ExecuTorch's real runtime, bit for bit."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import cortado
from cortado import CortadoError, Options
from cortado.emit.image.files import portable_files
from cortado.emit.pte.delegate import emit_delegate
from cortado.options import PteKind
from cortado.plan.pushed import Feeding
from cortado.pte.reader import read_pte
from cortado.run.executorch_host import DelegateKernels, run_pte
from helpers.images import Imaged, on_host
from helpers.networks import graph_of
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


def test_what_no_operator_of_executorch_computes_runs_on_its_runtime(tmp_path: Path) -> None:
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


def test_state_lasts_from_call_to_call_and_begins_anew_with_the_method(tmp_path: Path) -> None:
    torch.manual_seed(1)
    data = [(torch.randn(1, 6, 1),) for _ in range(12)]
    compiled = cortado.compile(Ring().eval(), data[0], "cortex-m4", data, name="ring", options=DELEGATE)
    artifact = compiled.save(tmp_path / "out")
    steps = [[x.numpy() for x in sample] for sample in data]
    assert artifact.run_on_executorch(steps, sequence=4).bit_exact


def _kernels(net: Imaged) -> DelegateKernels:
    return DelegateKernels(*portable_files(net.image))


def test_what_a_runtime_cannot_run_is_refused_with_one_line() -> None:
    net = on_host(graph_of("ds_cnn"), name="ds_cnn")
    pte = emit_delegate(net.planned, net.image, {})
    feed = [[np.zeros((1, 1, 49, 10), np.int8)]]
    at = pte.data.index(b"CTDO")
    for place, what in ((at + 4, "another format"), (at + 7, "CRC is wrong|another kind"), (at + 200, "CRC is wrong")):
        changed = bytearray(pte.data)
        changed[place] ^= 1
        with pytest.raises(CortadoError, match=what):
            run_pte(bytes(changed), feed, delegate=_kernels(net))
    with pytest.raises(CortadoError, match=r"method allocator needs [\d,]+ bytes more|MemoryAllocationFailed"):
        run_pte(pte.data, feed, delegate=_kernels(net), method_bytes=800)
    expected = net.run(feed, "host").samples
    found = run_pte(pte.data, feed, delegate=_kernels(net), method_bytes=2600)
    np.testing.assert_array_equal(found[0][0], expected[0][0])


def test_a_row_with_each_call_gives_the_outputs_after_the_last() -> None:
    net = on_host(graph_of("ds_cnn"), Feeding(rows=True), "ds_cnn")
    pte = emit_delegate(net.planned, net.image, {})
    codes = np.random.default_rng(2).integers(-128, 128, (49, 10)).astype(np.int8)
    done = run_pte(pte.data, [[row] for row in codes], delegate=_kernels(net))
    assert [int(outputs[-1][0]) for outputs in done] == [0] * 48 + [1]
    expected = net.run([[codes.reshape(net.info.inputs[0].shape)]], "host").samples
    np.testing.assert_array_equal(done[-1][0], expected[0][0])


def test_what_it_cannot_be_beside_is_refused() -> None:
    with pytest.raises(CortadoError, match="--pte delegate and --bundleio"):
        Options(pte=PteKind.DELEGATE, bundleio=True)
    model, x = nn.Linear(4, 2).eval(), torch.randn(1, 4)
    with pytest.raises(CortadoError, match="one kind of core"):
        cortado.compile(model, (x,), "cortex-m", [(x,)], options=DELEGATE)
