"""Random PT2E programs for ExecuTorch's standard road: drawn by a number, quantized in one of several ways, lowered
with Cortado's partitioner alone or beside another, and run on the real runtime."""

import random
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from operator import getitem
from typing import Any

import numpy as np
import torch
from executorch.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from torch import nn
from torch.export import ExportedProgram
from torch.fx import Interpreter, Node
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.quantization.pt2e.quantizer import Quantizer
from torchao.testing.pt2e._xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config

from cortado.base.errors import CortadoError
from cortado.emit.image.files import every_thunk, image_sources
from cortado.emit.image.reader import read_image
from cortado.emit.image.thunks import table_text
from cortado.executorch import HOST, CortadoPartitioner, CortexMQuantizer
from cortado.run.executorch_host import DelegateKernels, run_pte

Tensor = torch.Tensor
BAR = 0.1  # from here on it is asked what one step of rounding moves in torch
JITTERED = 24
TEMPORARY = 1 << 18  # bytes of the runtime's temp allocator
_Step = Callable[..., Tensor]


class How(Enum):
    """By whom a program is quantized."""

    CORTEX_M = "CortexMQuantizer"
    OTHER = "another quantizer"
    PARTLY = "another quantizer, linear layers alone"
    DYNAMIC = "another quantizer, scales chosen at run time"
    NOT = "nobody"


class Beside(Enum):
    """Which partitioners a program is lowered with."""

    ALONE = "Cortado's"
    BEHIND = "another behind Cortado's"
    BEFORE = "another before Cortado's"


class Drawn(nn.Module):
    """A chain of steps with a few tensors kept on the way; some of these are outputs too."""

    def __init__(self, steps: Sequence[tuple[nn.Module | None, _Step]], kept: Sequence[int]) -> None:
        super().__init__()
        self.layers = nn.ModuleList([layer for layer, _ in steps if layer is not None])
        self.steps, self.kept = list(steps), list(kept)

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> tuple[Tensor, ...]:
        outputs = []
        for number, (layer, step) in enumerate(self.steps):
            x = step(x, hidden) if layer is None else step(layer, x)
            if number in self.kept:
                outputs.append(x)
        return (*outputs, x)


@dataclass(frozen=True)
class Program:
    """A drawn program with what it is run on."""

    model: Drawn
    inputs: Callable[[], tuple[Tensor, ...]]
    dynamic: tuple[Any, ...] | None
    how: How
    beside: Beside
    seed: int


def draw(seed: int) -> Program:
    """The program of a number."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    kind = rng.choice(["image", "image", "sequence", "vector", "vector", "ids", "narrow ids"])
    batch = 1 if kind == "image" else rng.randint(1, 4)
    maker = _Maker(rng, batch)
    inputs = maker.begin(kind)
    for _ in range(rng.randint(2, 6)):
        maker.add()
    masked = rng.random() < 0.25
    if masked:
        maker.mask()
    maker.end()
    count = len(maker.steps)
    kept = sorted(rng.sample(range(count - 1), k=min(count - 1, rng.choice([0, 0, 1, 2]))))
    shape = maker.masked

    def given() -> tuple[Tensor, ...]:
        return (inputs(), torch.rand(shape) < 0.5) if masked else (inputs(),)

    dynamic = None
    if batch > 1 and rng.random() < 0.2:
        size = torch.export.Dim("batch", min=1, max=batch)
        dynamic = ({0: size}, {0: size}) if masked else ({0: size},)
    how = rng.choice([How.CORTEX_M, How.CORTEX_M, How.OTHER, *How])
    beside = rng.choice([Beside.ALONE, *Beside]) if dynamic is None else Beside.ALONE  # the stand-in knows no symbols
    return Program(Drawn(maker.steps, kept), given, dynamic, how, beside, seed)


class _Maker:
    """Adds steps that fit the shape so far."""

    def __init__(self, rng: random.Random, batch: int) -> None:
        self.rng, self.batch = rng, batch
        self.shape: tuple[int, ...] = ()
        self.masked: tuple[int, ...] = ()
        self.steps: list[tuple[nn.Module | None, _Step]] = []

    def begin(self, kind: str) -> Callable[[], Tensor]:
        if kind == "image":
            self.shape = (1, self.rng.randint(1, 4), self.rng.randint(5, 9), self.rng.randint(5, 9))
            form = self.rng.choice([torch.channels_last, torch.contiguous_format])
            return lambda shape=self.shape: torch.randn(shape).to(memory_format=form)  # type: ignore[misc]
        if "ids" in kind:
            length, width = self.rng.randint(2, 5), self.rng.randint(2, 6)
            dtype = torch.int32 if "narrow" in kind else torch.int64
            self._layer(nn.Embedding(9, width), (self.batch, length, width))
            return lambda: torch.randint(0, 9, (self.batch, length), dtype=dtype)
        sizes = (self.rng.randint(2, 5),) if kind == "sequence" else ()
        self.shape = (self.batch, *sizes, self.rng.randint(3, 9))
        return lambda shape=self.shape: torch.randn(shape)  # type: ignore[misc]

    def _layer(self, layer: nn.Module, shape: tuple[int, ...]) -> None:
        self.steps.append((layer, lambda layer, x: layer(x)))
        self.shape = shape

    def _call(self, step: _Step, shape: tuple[int, ...] | None = None) -> None:
        self.steps.append((None, lambda x, hidden: step(x)))
        self.shape = self.shape if shape is None else shape

    def add(self) -> None:
        rank = len(self.shape)
        pick = self.rng.random()
        if pick < 0.5:
            (self._image if rank == 4 else self._row)()
        elif pick < 0.8:
            self._any()
        else:
            self._rarely()

    def _image(self) -> None:
        n, c, h, w = self.shape
        if self.rng.random() < 0.6:
            groups = c if self.rng.random() < 0.3 else 1
            channels = c if groups == c else self.rng.randint(2, 6)
            self._layer(nn.Conv2d(c, channels, 3, padding=1, groups=groups), (n, channels, h, w))
        elif min(h, w) >= 4:
            self._layer(self.rng.choice([nn.MaxPool2d(2), nn.AvgPool2d(2)]), (n, c, h // 2, w // 2))
        elif self.rng.random() < 0.5:
            self._call(lambda x: x.flatten(1), (n, c * h * w))
        else:
            self._call(lambda x: x.mean((2, 3)), (n, c))

    def _row(self) -> None:
        *rest, width = self.shape
        if self.rng.random() < 0.7:
            wide = self.rng.randint(2, 8)
            self._layer(nn.Linear(width, wide), (*rest, wide))
        elif len(rest) == 2 and self.rng.random() < 0.5:
            self._call(lambda x: x.transpose(1, 2), (rest[0], width, rest[1]))
        elif len(rest) == 2:
            self._call(lambda x: x.mean(1), (rest[0], width))
        else:
            self._layer(nn.LayerNorm(width), self.shape)

    def _any(self) -> None:
        self._call(
            self.rng.choice(
                [
                    torch.relu,
                    torch.sigmoid,
                    torch.tanh,
                    lambda x: torch.softmax(x, -1),
                    lambda x: x + torch.relu(x),
                    lambda x: x * torch.sigmoid(x),
                    lambda x: x.clamp(-1.0, 1.0),
                    lambda x: nn.functional.gelu(x),
                ]
            )
        )

    def _rarely(self) -> None:
        """Calls that Cortado refuses in some forms, or does not have."""
        last = self.shape[-1]
        some = max(1, last // 2)
        steps: list[tuple[_Step, tuple[int, ...]]] = [
            (lambda x: x + x.prod(-1, keepdim=True), self.shape),
            (lambda x: torch.topk(x, some).values, (*self.shape[:-1], some)),
            (lambda x: torch.topk(x, some, sorted=False).values, (*self.shape[:-1], some)),
            (lambda x: torch.sort(x, -1).values, self.shape),
            (lambda x: x.cumsum(-1), self.shape),
            (lambda x: torch.cat([x, -x], -1), (*self.shape[:-1], 2 * last)),
            (lambda x: x.reciprocal() * 0.1 + x, self.shape),
            (lambda x: torch.where(x > 0, x, x.exp()), self.shape),
            (lambda x: x / (1.0 + x.abs()), self.shape),
            (lambda x: x.var(-1, keepdim=True) * x, self.shape),
        ]
        self._call(*self.rng.choice(steps))

    def mask(self) -> None:
        self.masked = self.shape
        self.steps.append((None, lambda x, hidden: x.masked_fill(hidden, 0.0)))

    def end(self) -> None:
        """Mostly real numbers; sometimes positions or truth values."""
        pick = self.rng.random()
        if pick < 0.15:
            self._call(lambda x: x.argmax(-1))
        elif pick < 0.3:
            self._call(lambda x: x > 0.1)


# ---- quantized and lowered ---------------------------------------------------------------------------------------


def _quantizer(how: How) -> Quantizer | None:
    if how is How.NOT:
        return None
    if how is How.CORTEX_M:
        return CortexMQuantizer()
    config = get_symmetric_quantization_config(is_per_channel=True, is_dynamic=how is How.DYNAMIC)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantizer = XNNPACKQuantizer()
    return quantizer.set_module_type(nn.Linear, config) if how is How.PARTLY else quantizer.set_global(config)


def exported(program: Program) -> ExportedProgram:
    """The program as users give it to ExecuTorch: exported, quantized, calibrated, exported again."""
    model, example = program.model.eval(), program.inputs()
    found = torch.export.export(model, example, dynamic_shapes=program.dynamic)
    quantizer = _quantizer(program.how)
    if quantizer is None:
        return found
    prepared = prepare_pt2e(found.module(), quantizer)
    for _ in range(4):
        prepared(*program.inputs())
    return torch.export.export(convert_pt2e(prepared), example, dynamic_shapes=program.dynamic)


class StandInBackend(BackendDetails):
    """Somebody else's."""

    @staticmethod
    def preprocess(program: ExportedProgram, specs: list[CompileSpec]) -> PreprocessResult:
        return PreprocessResult(processed_bytes=b"other")


class StandInPartitioner(Partitioner):
    """Takes each call of a few kinds that is free, for itself."""

    def __init__(self, kinds: Sequence[str]) -> None:
        super().__init__()
        self.kinds = tuple(kinds)

    def partition(self, program: ExportedProgram) -> PartitionResult:
        tags: dict[str, DelegationSpec] = {}
        for node in program.graph.nodes:
            several = any(user.target is getitem for user in node.users)
            if node.op == "call_function" and not several and any(kind in str(node.target) for kind in self.kinds):
                tag = f"other_{len(tags)}"
                node.meta["delegation_tag"] = tag
                tags[tag] = DelegationSpec(StandInBackend.__name__, [])
        return PartitionResult(program, tags)


@dataclass(frozen=True)
class Lowered:
    """A program as a file."""

    program: ExportedProgram
    data: bytes
    outside: dict[str, str]
    sample: tuple[Tensor, ...]
    wanted: tuple[Tensor, ...]
    runs: bool  # here: a stand-in's calls don't


def lower(program: Program) -> Lowered:
    """The file, and what the quantized program gives in torch."""
    found, partitioner = exported(program), CortadoPartitioner(HOST)
    other = StandInPartitioner(random.Random(program.seed).sample(["relu", "mul", "softmax", "prod", "add"], 2))
    several: dict[Beside, list[Partitioner]] = {
        Beside.ALONE: [partitioner],
        Beside.BEHIND: [partitioner, other],
        Beside.BEFORE: [other, partitioner],
    }
    data = emit(found, several[program.beside])
    sample = program.inputs()
    with torch.no_grad():
        wanted = tuple(found.module()(*sample))
    return Lowered(found, data, partitioner.outside, sample, wanted, b"StandInBackend" not in data)


def emit(found: ExportedProgram, partitioners: Sequence[Partitioner]) -> bytes:
    edge = to_edge_transform_and_lower(found, partitioner=list(partitioners))
    config = ExecutorchBackendConfig(extract_delegate_segments=False, segment_alignment=16)
    return bytes(edge.to_executorch(config).buffer)


# ---- run ---------------------------------------------------------------------------------------------------------


def kernels_of(files: Sequence[bytes]) -> DelegateKernels:
    """Those of every image in some files: one program runs them all."""
    ids: set[int] = set()
    for data in files:
        at = data.find(b"CTDO")
        while at >= 0:
            ids |= {kernel.id for kernel in read_image(data[at:], "blob").kernels}
            at = data.find(b"CTDO", at + 4)
    listed = [every_thunk()[number] for number in sorted(ids)]
    sources = {source for one in listed for source in one.sources}
    return DelegateKernels(table_text([one.thunk for one in listed]), tuple(image_sources(sources)))


def worst(lowered: Lowered, kernels: DelegateKernels) -> float:
    """How far the real runtime is from torch, beyond what one step of each code in the middle moves in torch itself: of
    real numbers the largest difference in parts of the largest value, of others the share that differs."""
    sample = [one.numpy() for one in lowered.sample]
    try:
        found = run_pte(lowered.data, [sample], delegate=kernels, temp_bytes=TEMPORARY)[0]
    except CortadoError:
        if _runs_without(lowered, sample):
            raise
        return 0.0  # kernels of ExecuTorch's refuse it, with Cortado or without
    far = max(_difference(got, want) for got, want in zip(found, lowered.wanted, strict=True))
    return far if far <= BAR else _beyond(lowered, found)


class _Jittered(Interpreter):
    """A quantized program in torch with each code but those of its inputs up to a step higher or lower."""

    def __init__(self, program: ExportedProgram, seed: int) -> None:
        super().__init__(program.module())
        self.generator = torch.Generator().manual_seed(seed)

    def run_node(self, n: Node) -> Any:
        value = super().run_node(n)
        from_input = n.all_input_nodes and n.all_input_nodes[0].op == "placeholder"
        if n.target is not torch.ops.quantized_decomposed.quantize_per_tensor.default or from_input:
            return value
        moved = value.to(torch.int32) + torch.randint(-1, 2, value.shape, generator=self.generator)
        return moved.clamp(int(n.args[3]), int(n.args[4])).to(value.dtype)  # type: ignore[arg-type]


def _beyond(lowered: Lowered, found: Sequence[Any]) -> float:
    """The same where a quotient near a pole, or an order of nearly equal values, makes much of a step: how far a value
    is from all that torch gives when codes are a step off."""
    with torch.no_grad():
        moved = [_Jittered(lowered.program, seed).run(*lowered.sample) for seed in range(JITTERED)]
    noise = 0.0
    for position, (got, want) in enumerate(zip(found, lowered.wanted, strict=True)):
        near = torch.stack([want, *(one[position] for one in moved)]).to(torch.float64).detach().numpy()
        outside = np.maximum(np.maximum(near.min(0) - got, got - near.max(0)), 0.0)
        largest = max(float(np.abs(near[0]).max()), 1e-6)
        noise = max(noise, float(outside.max() / largest if want.is_floating_point() else np.mean(outside > 0)))
    return noise


def _runs_without(lowered: Lowered, sample: list[Any]) -> bool:
    """Whether the program runs where nobody takes any of its calls."""
    try:
        run_pte(emit(lowered.program, []), [sample], temp_bytes=TEMPORARY)
    except Exception:  # ExecuTorch's
        return False
    return True


def _difference(got: Any, want: Tensor) -> float:
    expected = want.detach().numpy()
    assert got.shape == expected.shape
    assert got.dtype == expected.dtype
    if not want.is_floating_point():
        return float(np.mean(got != expected))
    return float(np.abs(got - expected).max() / max(float(np.abs(expected).max()), 1e-6))
