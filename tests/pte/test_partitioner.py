"""Cortado as a backend of ExecuTorch: a partitioner, several delegates in one program, what stays outside and why."""

import warnings

import numpy as np
import torch
from executorch.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
from torch import nn
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from cortado.emit.image.every import every_thunk
from cortado.emit.image.files import image_sources
from cortado.emit.image.reader import read_image
from cortado.emit.image.thunks import table_text
from cortado.executorch import HOST, CortadoPartitioner, CortexMQuantizer
from cortado.pte.reader import read_pte
from cortado.run.executorch_host import DelegateKernels, run_pte


class Middle(nn.Module):
    """A call in the middle that Cortado has no operator for: the distances of all pairs of rows."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(12, 8)
        self.second = nn.Linear(15, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        distances = nn.functional.pdist(torch.relu(self.first(x)))
        result: torch.Tensor = torch.relu(self.second(distances.unsqueeze(0)))
        return result


def _kernels(data: bytes) -> DelegateKernels:
    """Those of every image in a file."""
    ids, at = set(), data.find(b"CTDO")
    while at >= 0:
        ids |= {kernel.id for kernel in read_image(data[at:], "blob").kernels}
        at = data.find(b"CTDO", at + 4)
    listed = [every_thunk()[number] for number in ids]
    sources = {source for one in listed for source in one.sources}
    return DelegateKernels(table_text([one.thunk for one in listed]), tuple(image_sources(sources)))


def test_two_delegates_and_a_portable_kernel_between_them_run_on_the_real_runtime() -> None:
    torch.manual_seed(0)
    x = torch.randn(6, 12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prepared = prepare_pt2e(torch.export.export(Middle().eval(), (x,)).module(), CortexMQuantizer())
        for _ in range(6):
            prepared(torch.randn_like(x))
        program = torch.export.export(convert_pt2e(prepared), (x,))
        wanted = program.module()(x).detach().numpy()
        partitioner = CortadoPartitioner(HOST)
        manager = to_edge_transform_and_lower(program, partitioner=[partitioner])
        finished = manager.to_executorch(ExecutorchBackendConfig(extract_delegate_segments=False, segment_alignment=16))
    method = read_pte(bytes(finished.buffer), "two.pte").method("forward")
    assert method is not None
    assert [one.name for one in method.delegates] == ["CortadoBackend", "CortadoBackend"]
    assert [use.name for use in method.operators] == ["aten::_pdist_forward.out"]
    assert list(partitioner.outside.values()) == ["no operator of Cortado's computes aten._pdist_forward.default"]
    data = bytes(finished.buffer)
    found = run_pte(data, [[x.numpy()]], delegate=_kernels(data), temp_bytes=1 << 16)[0][0]
    noise = np.abs(found - wanted).max() / np.abs(wanted).max()
    assert noise < 0.03
