"""Networks as images beside their bundles: on this machine and on boards."""

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from cortado.api import Compiled
from cortado.base.arrays import ArrayType
from cortado.base.target import Core, from_target_string
from cortado.emit.c.bundle import emit_c
from cortado.emit.image.files import loader_files
from cortado.emit.image.layout import CRC_AT, ImageHead
from cortado.emit.image.writer import ModelImage, emit_image
from cortado.options import Border
from cortado.plan.lowered import LoweredGraph
from cortado.plan.planned import Planned
from cortado.plan.request import Feeding, program_of
from cortado.plan.schedule import schedule
from cortado.run import runner
from cortado.run.bundle_info import IO, BundleInfo
from helpers.image_harness import run_image

WHOLE = Feeding()
ARENA_AT = 56  # where an image says how large its arena is


@dataclass(frozen=True)
class Imaged:
    """A planned network, as an image."""

    planned: Planned

    @cached_property
    def image(self) -> ModelImage:
        return emit_image(self.planned)

    @property
    def head(self) -> ImageHead:
        return ImageHead.unpack(self.image.data)

    @property
    def files(self) -> dict[str, str]:
        return loader_files(self.image.thunks, self.image.sources)

    @property
    def info(self) -> BundleInfo:
        program = self.planned.program
        inputs, outputs = (
            tuple(IO(tensor.name, tensor.shape, tensor.dtype) for tensor in group)
            for group in (program.inputs, program.outputs)
        )
        row_bytes = 0 if program.pushed is None else program.pushed.row_bytes
        return BundleInfo(program.name, program.target, inputs, outputs, row_bytes, bool(program.state))

    def mutable(self) -> int:
        """The bytes before the first descriptor: header, facts and tables."""
        head = self.head
        steps = head.step + head.steps * (2 * head.pointer_bytes + 24)
        return max(steps, head.port + head.ports * (head.pointer_bytes + 16))

    def run(self, samples: Sequence[Sequence[ArrayType]], on: str | None = None) -> runner.RunResult:
        ram = (self.head.arena_bytes, self.image.ram_bytes)
        return run_image(self.files, self.image.data, self.info, ram, samples, on)

    def beside_bundle(self, folder: Path, on: str | None = None, count: int = 3) -> tuple[int | None, int | None]:
        """The same bits from both, on random inputs; what each took."""
        rng = np.random.default_rng(1)
        samples = [[_random(rng, tensor) for tensor in self.info.inputs] for _ in range(count)]
        runner.write_files(folder, emit_c(self.planned).files)
        bundle, image = runner.run_bundle(folder, self.info, samples, on), self.run(samples, on)
        for a, b in zip(bundle.samples, image.samples, strict=True):
            for x, y in zip(a, b, strict=True):
                np.testing.assert_array_equal(x, y)
        return image.instructions, bundle.instructions


def changed(data: bytes, at: int, value: bytes, *, repaired: bool = True) -> bytes:
    """An image with other bytes at a place; `repaired`: its CRC is right again."""
    found = bytearray(data)
    found[at : at + len(value)] = value
    if repaired:
        struct.pack_into("<I", found, CRC_AT, zlib.crc32(found[CRC_AT + 4 :]))
    return bytes(found)


def _random(rng: np.random.Generator, tensor: IO) -> ArrayType:
    low, high = {"int8": (-128, 128), "bool": (0, 2)}.get(tensor.dtype, (0, 100))
    values: ArrayType = rng.integers(low, high, tensor.shape).astype(tensor.dtype)
    return values


def on_host(graph: LoweredGraph, feeding: Feeding = WHOLE, name: str = "net") -> Imaged:
    """With the kernels of this machine."""
    target = from_target_string("cortex-m55")
    program = program_of(name, graph, target, Border.INT8, feeding, cores=(Core.PORTABLE,))
    return Imaged(schedule(program))


def of(compiled: Compiled) -> Imaged:
    assert compiled.planned is not None
    return Imaged(compiled.planned)
