"""MODEL_selftest.c: 0 where every bit is right, and the number of the layer whose weight or kernel is wrong."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from cortado.api import Compiled, Model, prepare
from cortado.base.target import ALIGNED_ONLY, Core
from cortado.emit.c.bundle import Bundle, emit_c
from cortado.emit.c.selftest import selftest_files
from cortado.options import Border, Optimize, Options
from cortado.plan.lowered import run_reference
from cortado.plan.planned import Planned
from cortado.plan.program import Walk
from cortado.plan.request import Feeding, program_of
from cortado.plan.schedule import schedule
from cortado.run.runner import RUNTIME_CHECKS
from helpers.cli import Run
from helpers.cores import FOUR, THREE, each_core
from helpers.paths import MODELS
from helpers.sanitizers import SANITIZERS
from helpers.selftests import run_here, run_there


class Net(nn.Module):
    """Rings of rows, a branch that is added again, a layer that sums up rows, one that reads all."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.depthwise = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.point, self.pool, self.out = nn.Conv2d(8, 8, 1), nn.AvgPool2d(3, stride=2), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.first(x))
        x = x + self.point(self.depthwise(x))
        return self.out(self.pool(x).mean((2, 3)))


class Spotter(nn.Module):
    """For a stream of rows: a stride, zeros before the first row that the output does not reach, a mean over time."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.next, self.out = nn.Conv2d(1, 4, (4, 3), stride=2), nn.Conv2d(4, 4, (3, 1)), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.relu(self.next(torch.relu(self.stem(x)))).mean((2, 3)))


class Running(nn.Module):
    """State: what was seen before counts half."""

    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.full((1, 6), 0.25))
        self.out = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        self.seen.copy_(self.seen * 0.5 + x)
        return self.out(self.seen)


def prepared(module: nn.Module, *shape: int) -> Model:
    torch.manual_seed(1)
    batches = [(torch.randn(shape),) for _ in range(4)]
    return prepare(module.eval(), batches[0], batches, name="net")


@pytest.fixture(scope="module")
def net() -> Model:
    torch.manual_seed(5)
    return prepared(Net(), 1, 3, 12, 10)


def compiled(
    model: Model, target: str = "cortex-m4", *, input_rows: bool = False, stream: int | None = None
) -> Compiled:
    options = Options(selftest=True, optimize=Optimize.RAM, input_rows=input_rows, stream=stream)
    return model.compile(target, options)


def portable(found: Compiled) -> tuple[Planned, Bundle]:
    """The same with kernels that run on this machine."""
    assert found.graph is not None
    feeding = Feeding(rows=found.options.input_rows, stream=found.options.stream)
    program = program_of("net", found.graph, found.target, Border.INT8, feeding, cores=(Core.PORTABLE,))
    planned = schedule(program, Optimize.RAM)
    bundle = emit_c(planned, selftest=True)
    values = {name: value.numpy() for name, value in run_reference(found.graph, found.example).items()}
    return planned, replace(bundle, files={**bundle.files, **selftest_files(planned, values, bundle.build)})


def with_wrong_weights(bundle: Bundle, name: str) -> Bundle:
    """Every number of one array is another."""

    def other(found: re.Match[str]) -> str:
        return found[1] + re.sub(r"-?\d+", lambda number: str(~int(number[0])), found[2])

    source = bundle.files["net_data.c"]
    text = re.sub(rf"(const int8_t {name}\[\d+\]\n[^{{]*)({{[^}}]*}})", other, source)
    assert text != source
    return replace(bundle, files={**bundle.files, "net_data.c": text})


def with_wrong_kernel(bundle: Bundle, call: str) -> Bundle:
    """One bit of every row is another."""
    text, changed = re.subn(rf"(static void {call}\([^{{]*{{[^}}]*)}}", r"\1    out[0] ^= 1;\n}", bundle.files["net.c"])
    assert changed == 1
    return replace(bundle, files={**bundle.files, "net.c": text})


# ---- all is right ------------------------------------------------------------------------------------------------


@pytest.mark.host
@pytest.mark.parametrize("flags", [SANITIZERS, (RUNTIME_CHECKS, "-DCORTADO_PROFILE")])
@pytest.mark.parametrize("rows", [False, True])
def test_every_layer_is_right_here(net: Model, tmp_path: Path, rows: bool, flags: Sequence[str]) -> None:
    planned, bundle = portable(compiled(net, input_rows=rows))
    together = {step.kind for stage in planned.program.stages if len(stage.steps) > 1 for step in stage.steps}
    assert {Walk.ROWS, Walk.ACCUMULATE if rows else Walk.PIXELS} <= together
    assert run_here(tmp_path, bundle.files, flags) == 0


@pytest.mark.host
def test_several_images_are_right_here(tmp_path: Path) -> None:
    assert run_here(tmp_path, portable(compiled(prepared(Net(), 2, 3, 7, 5)))[1].files, SANITIZERS) == 0


@pytest.mark.host
@pytest.mark.parametrize("module", [Spotter(), Running()])
def test_streams_and_state_are_right_here(module: nn.Module, tmp_path: Path) -> None:
    stream = isinstance(module, Spotter)
    model = prepared(module, *((1, 1, 25, 6) if stream else (1, 6)))
    _, bundle = portable(compiled(model, stream=2 if stream else None))
    assert run_here(tmp_path, bundle.files, SANITIZERS) == 0
    name = next(constant.name for constant in bundle.constants if "out_" in constant.name)
    assert run_here(tmp_path, with_wrong_weights(bundle, name).files, SANITIZERS) != 0


@pytest.mark.qemu
@pytest.mark.parametrize("target", each_core(*FOUR, here="cortex-m33"))
def test_every_layer_is_right_on_boards(net: Model, tmp_path: Path, target: str) -> None:
    bundle = compiled(net, target).bundle
    assert bundle is not None
    assert run_there(tmp_path, bundle.files, target) == 0


@pytest.mark.cases(1)
@pytest.mark.qemu
@pytest.mark.parametrize("kind", [Net, Running])
def test_the_self_test_and_state_access_nothing_unaligned(kind: type[nn.Module], net: Model, tmp_path: Path) -> None:
    """Inputs and initial values are bytes at any address of the flash; at -Os no compiler aligns them."""
    bundle = compiled(net if kind is Net else prepared(Running(), 1, 6)).bundle
    assert bundle is not None
    assert run_there(tmp_path, bundle.files, "cortex-m4", ("-DCORTADO_TRAP_UNALIGNED", *ALIGNED_ONLY, "-Os")) == 0


# ---- something is wrong ------------------------------------------------------------------------------------------


@pytest.mark.host
def test_every_wrong_weight_and_kernel_is_found_in_its_layer_here(net: Model, tmp_path: Path) -> None:
    planned, bundle = portable(compiled(net))
    names = [step.name for step in planned.program.steps]
    wrong = [one for one in bundle.constants if one.name.endswith("_weights")]
    assert len({one.step for one in wrong}) == 5
    for constant in wrong:
        assert run_here(tmp_path, with_wrong_weights(bundle, constant.name).files) == names.index(constant.step) + 1
    for call, layer in {"call_add_s8": "add", "call_global_mean_s8": "global_mean"}.items():
        position = next(i for i, name in enumerate(names) if layer in name)
        assert run_here(tmp_path, with_wrong_kernel(bundle, call).files) == position + 1


@pytest.mark.qemu
@pytest.mark.parametrize("target", each_core(*THREE, here="cortex-m0plus"))
def test_a_wrong_weight_is_found_in_its_layer_on_boards(net: Model, tmp_path: Path, target: str) -> None:
    found = compiled(net, target)
    assert found.bundle is not None
    assert found.planned is not None
    names = [step.name for step in found.planned.program.steps]
    constant = next(one for one in found.bundle.constants if "point" in one.name)
    wrong = with_wrong_weights(found.bundle, constant.name)
    assert run_there(tmp_path, wrong.files, target) == names.index(constant.step) + 1
    assert f'"{constant.step} (point: ' in found.bundle.files["net_selftest.c"]


@pytest.mark.host
def test_outputs_that_a_run_alone_gets_wrong_are_no_layer(net: Model, tmp_path: Path) -> None:
    """MODEL_run itself, without anybody watching."""
    planned, bundle = portable(compiled(net))
    out = planned.plan.offsets[planned.program.outputs[0].buffer]
    broken = bundle.files["net.c"].replace(
        "    return 0;\n}", f"    ((uint8_t *)arena)[{out}] ^= 1;\n    return 0;\n}}"
    )
    wrong = replace(bundle, files={**bundle.files, "net.c": broken})
    assert run_here(tmp_path, wrong.files) == len(planned.program.steps) + 1


@pytest.mark.host
def test_the_command_line_writes_it_only_when_asked(run: Run, tmp_path: Path) -> None:
    spec = MODELS / "tiny.py"
    for flags in ((), ("--selftest",)):
        folder = tmp_path / f"tiny{len(flags)}"
        done = run("compile", spec, "--calibration", spec, "--target", "cortex-m4", "-o", folder, *flags)
        assert done.code == 0, done.err
        assert (folder / "tiny_selftest.c").exists() == bool(flags)
        assert ("tiny_selftest" in (folder / "tiny.h").read_text()) == bool(flags)
        assert ("tiny_selftest.c" in (folder / "CMakeLists.txt").read_text()) == bool(flags)
