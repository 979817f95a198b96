"""Runs of a .pte that go wrong: one clear error each, no crash."""

import math
import random
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from cortado.base.errors import CortadoError
from cortado.base.system import KERNELS
from cortado.base.target import from_target_string
from cortado.emit.pte.program import bundle_pte, emit_pte
from cortado.models import zoo
from cortado.pte.reader import read_pte
from cortado.run import executorch_host
from cortado.run.executorch_host import run_pte
from helpers import cases
from helpers.executorch import ANY, MVE, Arrays, by_name, draw, emit_cases, emitted

# Networks and programs are made once per worker: these tests stay together on one.
pytestmark = pytest.mark.xdist_group("executorch")


@cache
def small() -> tuple[bytes, Arrays]:
    add = by_name("cortex_m::quantized_add")
    pte, inputs = emit_cases([(add, draw(add, 1)[0])])
    return pte.data, inputs


@pytest.mark.host
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda arrays: arrays[:1], "sample 0 has 1 inputs, but the .pte takes 2"),
        (lambda arrays: [arrays[0].astype(np.float32), arrays[1]], "is float32 .* takes int8"),
        (lambda arrays: [arrays[0][None], arrays[1]], "but the .pte takes int8"),
    ],
    ids=["too few", "another type", "another shape"],
)
def test_wrong_inputs_are_named(change: Callable[[Arrays], Arrays], message: str) -> None:
    data, inputs = small()
    with pytest.raises(CortadoError, match=message):
        run_pte(data, [change(inputs)])


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CortadoError, match=r"can't read .*nothing\.pte"):
        run_pte(tmp_path / "nothing.pte", [])


def test_bundles_are_not_programs() -> None:
    data, inputs = small()
    bundle = bundle_pte(data, [inputs], [inputs[:1]])
    with pytest.raises(CortadoError, match="bundled program"):
        run_pte(bundle, [inputs])


def test_operators_of_another_library_are_named() -> None:
    data, inputs = small()
    other = data.replace(b"cortex_m::quantized_add", b"cortex_m::quantized_xor")
    assert other != data
    with pytest.raises(CortadoError, match=r"cortex_m::quantized_xor\.out, which Cortado's operator library"):
        run_pte(other, [inputs])


@pytest.mark.host
def test_runtimes_reason_is_passed_on() -> None:
    """The file says one thing about its input and does another: the kernel refuses, and the user reads why."""
    softmax = by_name("cortex_m::softmax")
    work = [(softmax, draw(softmax, 1)[0])]
    program, inputs = cases.lowered_program(work)
    for node in program.graph.nodes:
        if node.op == "call_function":
            node.kwargs = {**node.kwargs, "output_zero_point": 0}
    pte = emit_pte(program, from_target_string(ANY), {})
    with pytest.raises(CortadoError) as caught:
        run_pte(pte.data, [[tensor.numpy() for tensor in inputs]])
    assert "expected the output zero point -128" in str(caught.value)
    assert "cortex_m::softmax.out" in str(caught.value)
    assert "type id" not in str(caught.value)


def _program(folder: Path, body: str) -> Path:
    """A program in place of the runner."""
    path = folder / "runner"
    path.write_text(f"#!{sys.executable}\n{body}\n")
    path.chmod(0o755)
    return path


def test_signal_becomes_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = _program(tmp_path, "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)")
    monkeypatch.setattr(executorch_host, "runner_program", lambda flags: runner)
    data, inputs = small()
    with pytest.raises(CortadoError, match=r"was killed by SIGSEGV while it ran the \.pte"):
        run_pte(data, [inputs])


def test_endless_run_becomes_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = _program(tmp_path, "import time\ntime.sleep(60)")
    monkeypatch.setattr(executorch_host, "runner_program", lambda flags: runner)
    data, inputs = small()
    with pytest.raises(CortadoError, match="did not finish"):
        run_pte(data, [inputs], timeout=0.2)


@pytest.mark.host
def test_damaged_files_never_crash_this_process() -> None:
    """Every change of bytes ends in outputs of the right shapes or in a CortadoError."""
    pte, _ = emitted("ds_cnn", MVE)
    sample = [tensor.numpy() for tensor in zoo.get("ds_cnn").example_inputs()]
    program_size = read_pte(pte.data).program_size
    rng, refused = random.Random(7), 0
    for _ in range(60):
        damaged = bytearray(pte.data)
        for _ in range(rng.choice([1, 1, 2, 8])):
            damaged[rng.randrange(program_size)] = rng.randrange(256)
        try:
            outputs = run_pte(bytes(damaged), [sample], timeout=120)
        except CortadoError:
            refused += 1
        else:
            assert all(isinstance(array, np.ndarray) for array in outputs[0])
    assert 5 < refused < 60


def test_shapes_survive_another_order_of_dimensions() -> None:
    """Outputs that a file stores channels-last come back under the sizes it names."""
    info = read_pte(small()[0]).method("forward")
    assert info is not None
    tensor = info.outputs[0].tensor
    assert tensor is not None
    stored = np.arange(2 * 3 * 4 * 5, dtype=np.int8).reshape(2, 4, 5, 3)
    named = replace(tensor, shape=(2, 3, 4, 5), dim_order=(0, 2, 3, 1), nbytes=math.prod(stored.shape))
    (found,) = executorch_host._split(stored.tobytes(), [named], 1, "x")[0]
    np.testing.assert_array_equal(found, stored.transpose(0, 3, 1, 2))


def test_kernels_of_the_library_exist() -> None:
    assert [path for path in executorch_host.adapter_sources() if not path.is_file()] == []
    assert (KERNELS / "include" / "cortado.h").is_file()
    assert all(one < other for one, other in pairwise(executorch_host.LINKED_KERNELS))
