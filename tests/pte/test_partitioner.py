"""Cortado as a backend of ExecuTorch: a partitioner, several delegates in one program, what stays outside and why."""

import re

import numpy as np
import pytest
import torch
from executorch.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch.exir.lowered_backend_module import LoweredBackendModule, get_lowered_backend_modules
from torch import nn
from torch.export import ExportedProgram
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.quantization.pt2e.quantizer import Quantizer
from torchao.testing.pt2e._xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config

from cortado import CortadoError
from cortado.executorch import HOST, CortadoPartitioner, CortexMQuantizer
from cortado.pte.info import Method
from cortado.pte.reader import read_pte
from cortado.run.executorch_host import run_pte
from helpers.pt2e_programs import TEMPORARY, emit, kernels_of


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


def _quantized(model: nn.Module, quantizer: Quantizer, x: torch.Tensor) -> ExportedProgram:
    prepared = prepare_pt2e(torch.export.export(model.eval(), (x,)).module(), quantizer)
    for _ in range(6):
        prepared(torch.randn_like(x))
    return torch.export.export(convert_pt2e(prepared), (x,))


def _lowered(program: ExportedProgram, *partitioners: Partitioner) -> tuple[bytes, Method]:
    manager = to_edge_transform_and_lower(program, partitioner=list(partitioners))
    for one in get_lowered_backend_modules(manager.exported_program().graph_module):
        if one.backend_id == "CortadoBackend":
            _check_handles(one)
    config = ExecutorchBackendConfig(extract_delegate_segments=False, segment_alignment=16)
    data = bytes(manager.to_executorch(config).buffer)
    method = read_pte(data, "parts.pte").method("forward")
    assert method is not None
    return data, method


def _check_handles(lowered: LoweredBackendModule) -> None:
    """Each step's name is mapped to calls of the partition, and the steps of layers to the layer alone."""
    calls = [node for node in lowered.original_module.graph.nodes if node.op == "call_function"]
    layers = {node.meta["debug_handle"] for node in calls if "linear" in node.name or "conv" in node.name}
    steps = lowered.meta["debug_handle_map"]
    assert all(isinstance(name, str) and name for name in steps)
    assert set().union(*steps.values()) <= {node.meta["debug_handle"] for node in calls}
    found = [layers & set(handles) for handles in steps.values()]
    assert all({layer} in found for layer in layers)


def _noise(data: bytes, program: ExportedProgram, x: torch.Tensor) -> float:
    """Of the file on the real runtime, beside the quantized program in torch: parts of the largest value."""
    wanted = program.module()(x).detach().numpy()
    found = run_pte(data, [[x.numpy()]], delegate=kernels_of([data]), temp_bytes=1 << 16)[0][0]
    noise: float = np.abs(found - wanted).max() / np.abs(wanted).max()
    return noise


def test_two_delegates_and_a_portable_kernel_between_them_run_on_the_real_runtime() -> None:
    torch.manual_seed(0)
    x = torch.randn(6, 12)
    program, partitioner = _quantized(Middle(), CortexMQuantizer(), x), CortadoPartitioner(HOST)
    data, method = _lowered(program, partitioner)
    assert [one.name for one in method.delegates] == ["CortadoBackend", "CortadoBackend"]
    assert [use.name for use in method.operators] == ["aten::_pdist_forward.out"]
    assert list(partitioner.outside.values()) == ["no Cortado operator computes aten._pdist_forward.default"]
    assert _noise(data, program, x) < 0.03
    with pytest.raises(CortadoError, match=r"the arena must have \d+ bytes .* give the temp allocator as many"):
        run_pte(data, [[x.numpy()]], delegate=kernels_of([data]), temp_bytes=128)


class Correlated(nn.Module):
    """Layers around a call that Cortado has an operator for and refuses as it is made."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(12, 8), nn.Linear(15, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        values = torch.relu(self.first(x))
        wide = nn.functional.conv_transpose1d(values, values.reshape(7, 1, 8))
        result: torch.Tensor = self.last(wide)
        return result


class OtherBackend(BackendDetails):
    """Somebody else's."""

    @staticmethod
    def preprocess(program: ExportedProgram, specs: list[CompileSpec]) -> PreprocessResult:
        return PreprocessResult(processed_bytes=b"other")


class OtherPartitioner(Partitioner):
    """Takes each convolution that is transposed."""

    def partition(self, program: ExportedProgram) -> PartitionResult:
        for node in program.graph.nodes:
            if "convolution" in node.name:
                node.meta["delegation_tag"] = "other"
        return PartitionResult(program, {"other": DelegationSpec("OtherBackend", [])})


def test_a_call_that_is_refused_for_its_arguments_stays_outside_for_others() -> None:
    torch.manual_seed(0)
    x = torch.randn(1, 7, 12)
    program, partitioner = _quantized(Correlated(), CortexMQuantizer(), x), CortadoPartitioner("cortex-m4")
    _, method = _lowered(program, partitioner, OtherPartitioner())
    assert sorted(one.name for one in method.delegates) == ["CortadoBackend", "CortadoBackend", "OtherBackend"]
    assert method.operators == ()
    assert "aten_convolution_default" in partitioner.outside
    for reason in partitioner.outside.values():
        assert "conv_transpose1d" in reason  # the line of the model
        assert "supported in some forms only, and this is not one of them" in reason


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:XNNPACKQuantizer is deprecated")
def test_what_another_quantizer_has_quantized_is_one_delegate() -> None:
    torch.manual_seed(0)
    x = torch.randn(1, 2, 8, 8)
    layers = nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 5))
    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))
    program, partitioner = _quantized(layers, quantizer, x), CortadoPartitioner(HOST)
    data, method = _lowered(program, partitioner)
    assert [one.name for one in method.delegates] == ["CortadoBackend"]
    assert (method.operators, partitioner.outside) == ((), {})
    assert _noise(data, program, x) < 0.02


class Ids(nn.Module):
    """Ids as PyTorch has them by default, and positions and truth values that leave."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.layer = nn.Embedding(10, 6), nn.Linear(6, 4)

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values, positions = torch.topk(self.layer(self.table(ids)), 3)
        return values, positions, values.argmax(-1), values > 0.2


class Skip(nn.Module):
    """A tensor that is quantized before a call which nobody takes, and dequantized behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        kept = torch.relu(self.first(x))
        return self.last(kept.prod(1, keepdim=True) + kept) + kept, kept


def _images() -> nn.Module:
    layers = nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 3, 2))
    return layers.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def _other(*, is_dynamic: bool = False) -> Quantizer:
    config = get_symmetric_quantization_config(is_per_channel=True, is_dynamic=is_dynamic)
    return XNNPACKQuantizer().set_global(config)


@pytest.mark.filterwarnings("ignore:XNNPACKQuantizer is deprecated")
def test_borders_of_integers_codes_and_channels_last_are_converted() -> None:
    torch.manual_seed(0)
    picture = torch.randn(1, 2, 8, 8).to(memory_format=torch.channels_last)
    cases: list[tuple[nn.Module, Quantizer, torch.Tensor, int]] = [
        (Ids(), CortexMQuantizer(), torch.randint(0, 10, (2, 5)), 1),
        (Skip(), _other(), torch.randn(4, 8), 2),
        (_images(), _other(), picture, 1),
    ]
    programs = [_calibrated(model, quantizer, x) for model, quantizer, x, _ in cases]
    files = [emit(program, [CortadoPartitioner(HOST)]) for program in programs]
    kernels = kernels_of(files)
    for data, program, (_, _, x, count) in zip(files, programs, cases, strict=True):
        assert data.count(b"CTDO") == count
        wanted = program.module()(x)
        found = run_pte(data, [[x.numpy()]], delegate=kernels, temp_bytes=TEMPORARY)[0]
        for got, want in zip(found, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
            assert got.dtype == want.detach().numpy().dtype
            np.testing.assert_allclose(got, want.detach().numpy(), atol=0.02)
    large = np.full((2, 5), 1 << 40)
    with pytest.raises(CortadoError, match="input 0 holds a number that has no place in 32 bits"):
        run_pte(files[0], [[large]], delegate=kernels, temp_bytes=TEMPORARY)


def _calibrated(model: nn.Module, quantizer: Quantizer, x: torch.Tensor) -> ExportedProgram:
    """On the example alone."""
    prepared = prepare_pt2e(torch.export.export(model.eval(), (x,)).module(), quantizer)
    prepared(x)
    return torch.export.export(convert_pt2e(prepared), (x,))


def _dynamic(model: nn.Module, x: torch.Tensor) -> ExportedProgram:
    return torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim("batch", max=4)},))


class Scaled(nn.Module):
    """A call that Cortado writes out in the sizes of the example."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * x.var(-1, keepdim=True)


@pytest.mark.filterwarnings("ignore:the model has a dynamic shape")
def test_the_quantizer_leaves_dynamic_shapes_open() -> None:
    x, other = torch.randn(4, 12), torch.randn(2, 12)
    module = _dynamic(Scaled().eval(), x).module()
    with pytest.warns(
        UserWarning, match=r"has a dynamic shape \(s\d+\), which .* stays in float; .* without dynamic_shapes"
    ):
        prepared = prepare_pt2e(module, CortexMQuantizer())
    prepared(x)
    program = _dynamic(convert_pt2e(prepared), x)
    assert torch.equal(program.module()(other), Scaled()(other))
    assert b"CTDO" not in emit(program, [CortadoPartitioner(HOST)])


@pytest.mark.filterwarnings("ignore:XNNPACKQuantizer is deprecated")
def test_what_is_not_quantized_or_not_constant_stays_outside_with_the_reason() -> None:
    x = torch.randn(4, 12)
    layers = nn.Sequential(nn.Linear(12, 8), nn.ReLU()).eval()
    anew = r"it has a new scale for every input \(dynamic quantization\).*is_dynamic=False"
    for program, reason in (
        (torch.export.export(layers, (x,)), "it is not quantized, .*; quantize it with prepare_pt2e first"),
        (_dynamic(layers, x), r"its shape is dynamic \(s\d+\), expected one that is known; export the model without"),
        (_calibrated(layers, _other(is_dynamic=True), x), anew),
    ):
        partitioner = CortadoPartitioner("cortex-m4")
        data = emit(program, [partitioner, OtherPartitioner()])
        assert b"CTDO" not in data
        assert any(re.search(reason, one) for one in partitioner.outside.values()), partitioner.outside
