"""Compiled streams: an endless stream of rows through a bundle, beside the reference on every window."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cortado.api import Compiled
from cortado.base.target import Core, from_target_string
from cortado.emit.c.bundle import emit_c
from cortado.options import Border
from cortado.plan import checks
from cortado.plan.lowered import run_reference
from cortado.plan.planned import Planned
from cortado.plan.request import Feeding, program_of
from cortado.plan.schedule import schedule
from cortado.plan.stream import run_rows
from cortado.run import runner
from cortado.run.bundle_info import IO, BundleInfo, StoreRules

Array = np.ndarray[Any, np.dtype[Any]]


class Rows:
    """A compiled stream and a sequence of rows for it."""

    def __init__(self, compiled: Compiled, count: int, seed: int = 0) -> None:
        report = compiled.report
        assert compiled.graph is not None
        assert report.stream is not None
        assert report.input_rows is not None
        self.graph, self.report, self.stream = compiled.graph, report, report.stream
        self.count, self.row_bytes = count, report.input_rows.row_bytes
        self.codes = np.random.default_rng(seed).integers(-128, 128, (count, self.row_bytes)).astype(np.int8)
        self.outputs = (count - self.stream.first_rows) // self.stream.hop_rows + 1

    def window(self, number: int) -> Array:
        """What the model itself is given for the window of an output, as real numbers. Rows that have not come are 0:
        the network does not read them."""
        start, given = number * self.stream.hop_rows, self.report.inputs[0]
        codes = np.zeros((self.stream.window_rows, self.row_bytes), np.int8)
        come = self.codes[start : start + self.stream.window_rows]
        codes[: len(come)] = come
        assert given.zero_point is not None
        assert given.scale is not None
        real = (codes.astype(np.float32) - np.float32(given.zero_point)) * np.float32(given.scale)
        order = [given.layout.index(dim) for dim in range(len(given.shape))]
        return np.ascontiguousarray(real.reshape(given.shape).transpose(order))

    def expected(self, number: int) -> list[Array]:
        """The reference on that window alone: each output."""
        values = run_reference(self.graph, [torch.from_numpy(self.window(number))])
        return [np.asarray(values[output.node].numpy()) for output in self.report.outputs]

    def push(self, folder: Path, target: str | None = None, flags: Sequence[str] = ()) -> Array:
        """What the first output is, after all rows."""
        return self.push_all(folder, target, flags)[0]

    def push_all(self, folder: Path, target: str | None = None, flags: Sequence[str] = ()) -> list[Array]:
        """All rows, one after the other, and all outputs: here, or on a target's board with every store watched."""
        on = runner.HOST if target is None else None
        planned = self._planned(target)
        bundle, outputs = emit_c(planned), self.report.outputs
        runner.write_files(folder, bundle.files)
        info = BundleInfo(
            name=self.report.prefix,
            target=planned.program.target,
            inputs=(IO("rows", (self.count, self.row_bytes), "int8"),),
            outputs=tuple(IO(output.name, output.shape, output.dtype) for output in outputs),
            row_bytes=self.row_bytes,
            results=self.outputs,
        )
        long = replace(planned, runs=(run_rows(planned.program, self.count),))
        stores = None if on == runner.HOST else StoreRules.from_json(checks.as_json(long, bundle.calls))
        result = runner.run_bundle(folder, info, [[self.codes]], on, count=False, flags=flags, stores=stores)
        found = zip(result.samples[0], outputs, strict=True)
        return [np.asarray(values).reshape(self.outputs, *output.shape) for values, output in found]

    def check(self, folder: Path, flags: Sequence[str] = (), some: Sequence[int] = ()) -> Array:
        """Here the outputs `some`, or all of them, equal the reference on their windows."""
        found = self.push_all(folder, flags=flags)
        for number in some or range(self.outputs):
            for values, wanted in zip(found, self.expected(number), strict=True):
                np.testing.assert_array_equal(values[number], wanted, err_msg=f"output {number}")
        return found[0]

    def _planned(self, target: str | None) -> Planned:
        feeding, cores = Feeding(stream=self.stream.dim), (Core.PORTABLE,) if target is None else None
        config = from_target_string(target or self.report.target)
        return schedule(program_of(self.report.model, self.graph, config, Border.INT8, feeding, cores=cores))
