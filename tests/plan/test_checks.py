"""Wrong stores and wrong scratch sizes are caught, by the emulated board and by the checks build."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from cortado import api
from cortado.artifact.opened import CHECKS as CHECKS_FILE
from cortado.artifact.opened import Artifact
from cortado.base.errors import CortadoError
from cortado.base.target import from_target_string
from cortado.emit.c.bundle import emit_c
from cortado.options import Optimize
from cortado.plan.checks import as_json
from cortado.run import runner
from cortado.run.bundle_info import StoreRules
from cortado.run.elf import load_image
from cortado.run.measure import PLAIN_NAMES
from cortado.run.watch import StrayStoreError
from helpers.values import present

M4 = from_target_string("cortex-m4")
CHECKS = (runner.RUNTIME_CHECKS,)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.second = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.third = nn.Conv2d(8, 12, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.first(x))
        return self.third(torch.relu(self.second(x))).mean((2, 3))


@pytest.fixture(scope="module")
def compiled() -> api.Compiled:
    torch.manual_seed(0)
    inputs = [(torch.randn(1, 3, 12, 12),) for _ in range(4)]
    model = api.prepare(Net().eval(), inputs[0], inputs, name="net")
    return model.compile(M4, api.Options(optimize=Optimize.RAM))


@pytest.fixture
def artifact(compiled: api.Compiled, tmp_path: Path) -> Artifact:
    return compiled.save(tmp_path / "net")


def _broken(artifact: Artifact, call: str, extra: str) -> Artifact:
    """The bundle with a mistake added behind one kernel call."""
    source = artifact.folder / "net.c"
    text = source.read_text()
    at = text.index(f"    {call}(")
    end = text.index(";\n", at) + 2
    source.write_text(text[:end] + f"    {extra}\n" + text[end:])
    return artifact


def test_the_networks_stages_are_one_cascade(compiled: api.Compiled) -> None:
    program = present(compiled.planned).program
    steps = program.stages[0].steps
    assert len(steps) == 4
    assert program.buffers[steps[0].output].rows == 3  # a ring for the 3x3 behind it


@pytest.mark.qemu
@pytest.mark.parametrize("flags", [(), CHECKS], ids=["release", "checks"])
def test_the_right_network_passes(artifact: Artifact, flags: tuple[str, ...]) -> None:
    checked = artifact.run([artifact.example()] * 2, check_stores=not flags, flags=flags)
    assert checked.bit_exact


@pytest.mark.qemu
def test_a_byte_past_a_middle_row_of_a_ring_is_caught(artifact: Artifact) -> None:
    """It lands in the ring's next row, where guard bytes can't be."""
    broken = _broken(artifact, "cortado_conv2d_lanes_s8__dsp", "out[12 * 8] = 1;")
    with pytest.raises(StrayStoreError, match=r"stray store by call_conv2d_lanes_s8__dsp.*quantized_conv2d_nhwc"):
        broken.run([artifact.example()], check_stores=True)


@pytest.mark.qemu
def test_a_byte_past_a_buffers_end_is_caught_by_the_guards(artifact: Artifact, compiled: api.Compiled) -> None:
    program = present(compiled.planned).program
    step = program.stages[0].steps[0]
    ring = program.buffers[step.output].rows * step.row_bytes
    broken = _broken(artifact, "cortado_conv2d_lanes_s8__dsp", f"out[{ring}] = 1;")
    with pytest.raises(CortadoError, match=rf"check failed: first: conv2d wrote past the end of buffer {step.output}"):
        broken.run([artifact.example()], flags=CHECKS)


@pytest.mark.qemu
def test_a_scratch_one_byte_short_is_caught(compiled: api.Compiled, artifact: Artifact) -> None:
    """By the checks build, which works out every need again, and by the store check of the release build."""
    planned = present(compiled.planned)
    pool = planned.program.stages[0].steps[-1]
    assert pool.scratch == 4 * 12
    kernels = {isa: replace(kernel, scratch=kernel.scratch - 1) for isa, kernel in pool.kernels.items()}
    steps = (*planned.program.stages[0].steps[:-1], replace(pool, kernels=kernels))
    stages = (replace(planned.program.stages[0], steps=steps), *planned.program.stages[1:])
    short = replace(planned, program=replace(planned.program, stages=stages))
    folder = artifact.folder.with_name("short")
    shutil.copytree(artifact.folder, folder)
    bundle = emit_c(short)
    runner.write_files(folder, bundle.files)
    samples = artifact.reference([artifact.example()])[0]
    with pytest.raises(CortadoError, match="check failed: global_mean needs another size than planned"):
        runner.run_bundle(folder, artifact.info, samples, flags=CHECKS)
    rules = StoreRules.from_json(as_json(short, bundle.calls))
    with pytest.raises(StrayStoreError, match=rf"{pool.name}"):
        runner.run_bundle(folder, artifact.info, samples, stores=rules)


# ---- what a bundle says it holds -----------------------------------------------------------------------------------


@pytest.mark.host
def test_functions_and_constants_are_those_of_the_program(compiled: api.Compiled, artifact: Artifact) -> None:
    """The ones that checks.json and the size of the code go by."""
    assert compiled.bundle is not None
    image = load_image(runner.build(artifact.folder, artifact.info, M4.machine, [PLAIN_NAMES]))
    assert artifact.store_rules().functions == compiled.bundle.calls
    assert len(compiled.bundle.calls) == 4
    assert all(image.require(name).is_function for name in compiled.bundle.calls)
    sizes = {constant.name: constant.bytes for constant in compiled.bundle.constants}
    assert sizes == {name: image.require(name).size for name in sizes}
    assert sum(sizes.values()) == compiled.bundle.weights_bytes > 0


@pytest.mark.cases(1)
@pytest.mark.parametrize("text", ["", "[]", "{}", '{"steps": ["conv (op)"], "calls": []}'])
def test_a_table_of_another_version_is_refused(artifact: Artifact, text: str) -> None:
    (artifact.folder / CHECKS_FILE).write_text(text)
    with pytest.raises(CortadoError, match=r"checks.json is not a table of this version .*; compile the model again"):
        artifact.store_rules()
