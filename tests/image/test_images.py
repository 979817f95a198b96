"""Networks as images: the bits of their bundles, refusals, and images that somebody has changed."""

import struct
import subprocess
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import cortado
from cortado import Options
from cortado.base.target import BUNDLE_FLAGS
from cortado.emit.image.reader import read_image
from cortado.plan.request import Feeding
from cortado.run import toolchain
from cortado.run.runner import WARNINGS, write_files
from helpers.cores import each_core
from helpers.images import Imaged, changed, of, on_host
from helpers.sanitizers import SANITIZERS
from helpers.stateful import Ring

HELPERS = Path(__file__).parent.parent / "helpers"
FINE, NOT_ONE, FORMAT, CUT_OFF, DAMAGED, CORE, VERSION, RAM, KERNEL, WRONG = range(10)


class Cascade(nn.Module):
    """Rings, a residual branch, a constant operand, a call whose numbers stand behind its descriptor."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, padding=1)
        self.depthwise = nn.Conv2d(4, 4, 3, stride=2, padding=1, groups=4)
        self.point = nn.Conv2d(4, 6, 1)
        self.offset: Tensor
        self.register_buffer("offset", torch.linspace(-1, 1, 6 * 25).reshape(1, 6, 5, 5))
        self.linear = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.first(x))
        y = torch.relu(self.point(torch.relu(self.depthwise(y + torch.tanh(y)))))
        y = y + self.offset
        result: Tensor = self.linear(y.mean((2, 3)))
        return torch.cat([result, result.flip(1)], 1)


class Windows(nn.Module):
    """Time in the last dimension, for a stream."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv1d(4, 6, 3), nn.ReLU(), nn.Conv1d(6, 6, 3, stride=2), nn.ReLU())
        self.linear = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.linear(self.layers(x).mean(2))
        return y


IMAGE, SIGNAL = (1, 3, 10, 10), (1, 4, 16)


@cache
def compiled(kind: str, target: str = "cortex-m55") -> cortado.Compiled:
    torch.manual_seed(7)
    model, shape = {
        "cascade": (Cascade(), IMAGE),
        "rows": (Cascade(), IMAGE),
        "state": (Ring(), (1, 6, 1)),
        "stream": (Windows(), SIGNAL),
    }[kind]
    options = Options(artifacts="c", input_rows=kind == "rows", stream=2 if kind == "stream" else None)
    data = [(torch.randn(shape),) for _ in range(4)]
    return cortado.compile(model.eval(), data[0], target, data, name=kind, options=options)


FEEDING = {"rows": Feeding(rows=True), "stream": Feeding(stream=2)}


def imaged(kind: str) -> Imaged:
    graph = compiled(kind).graph
    assert graph is not None
    return on_host(graph, FEEDING.get(kind, Feeding()), kind)


@pytest.mark.cases(1)
@pytest.mark.parametrize("kind", ["cascade", "rows", "state", "stream"])
def test_image_and_bundle_give_the_same_bits_on_this_machine(kind: str, tmp_path: Path) -> None:
    imaged(kind).beside_bundle(tmp_path, "host")


@pytest.mark.qemu
@pytest.mark.parametrize("target", each_core("cortex-m0plus", "cortex-m3", "cortex-m4", "cortex-m55", here="cortex-m3"))
def test_image_and_bundle_give_the_same_bits_on_each_kind_of_core(target: str, tmp_path: Path) -> None:
    instructions, bundle = of(compiled("cascade", target)).beside_bundle(tmp_path)
    assert instructions is not None
    assert bundle is not None
    assert instructions <= 1.02 * bundle


# ---- refusals ----------------------------------------------------------------------------------------------------

OPEN = """#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cortado_image.h"

int main(int count, char **arguments)
{
    static uint8_t bytes[1 << 16] __attribute__((aligned(16)));
    static uint64_t ram[1024];
    (void)count;
    FILE *file = fopen(arguments[1], "rb");
    const size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    cortado_model_t model = {.ram = ram, .ram_bytes = (uint32_t)strtoul(arguments[2], NULL, 10)};
    const int error = (int)cortado_image_open(bytes, size, &model);
    printf("%d %s\\n", error, model.missing == NULL ? "" : model.missing);
    return 0;
}
"""


@pytest.fixture(scope="module")
def firmware(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Opens images, with the kernels of one network."""
    return _program(tmp_path_factory.mktemp("open"), imaged("cascade"), OPEN)


def _program(folder: Path, net: Imaged, main: str) -> Path:
    write_files(folder, {**net.files, "main.c": main})
    sources = [folder / "main.c", *folder.glob("loader/*.c"), *folder.glob("kernels/src/*.c")]
    # Rows that a changed image puts over one another are copied as such.
    flags = [*WARNINGS, *BUNDLE_FLAGS, *SANITIZERS, "-Dmemcpy=memmove"]
    includes = [folder / "kernels" / "include", folder / "kernels" / "src"]
    return toolchain.build_executable(sorted(sources), includes, flags, "images")


def _opened(firmware: Path, data: bytes, folder: Path, ram: int = 8192) -> tuple[int, str]:
    (folder / "image").write_bytes(data)
    done = subprocess.run([firmware, folder / "image", str(ram)], capture_output=True, text=True, check=True)
    error, _, missing = done.stdout.strip().partition(" ")
    return int(error), missing


def test_what_a_firmware_cannot_run_is_refused_with_a_reason(firmware: Path, tmp_path: Path) -> None:
    net = imaged("cascade")
    data, head = net.image.data, net.head
    assert _opened(firmware, data, tmp_path, net.image.ram_bytes)[0] == FINE
    cases = {
        NOT_ONE: b"CTDX" + data[4:],
        FORMAT: changed(data, 4, b"\2\0"),
        CUT_OFF: data[:-1],
        DAMAGED: changed(data, len(data) - 40, bytes([data[-40] ^ 1]), repaired=False),
        CORE: changed(data, 7, b"\3"),
        VERSION: changed(data, 16, b"\x63\x00"),
        WRONG: changed(data, head.step + 2 * head.pointer_bytes, struct.pack("<I", 1 << 30)),
    }
    for error, other in cases.items():
        assert _opened(firmware, other, tmp_path)[0] == error
    assert _opened(firmware, data, tmp_path, net.image.ram_bytes - 1)[0] == RAM
    assert _opened(firmware, b"", tmp_path)[0] == NOT_ONE
    foreign = imaged("state").image
    missing = {thunk.name for thunk in foreign.thunks} - {thunk.name for thunk in net.image.thunks}
    error, name = _opened(firmware, foreign.data, tmp_path)
    assert error == KERNEL
    assert name in missing


def test_every_single_damaged_byte_is_found(firmware: Path, tmp_path: Path) -> None:
    data = imaged("cascade").image.data
    for at in range(0, len(data), 97):
        damaged = changed(data, at, bytes([data[at] ^ 0x10]), repaired=False)
        assert _opened(firmware, damaged, tmp_path)[0] != FINE


def test_reader_says_what_the_image_holds() -> None:
    net = imaged("state")
    info = read_image(net.image.data, "state.cortado")
    assert (info.name, info.target) == ("state", "cortex-m55")
    assert [tensor.shape for tensor in info.inputs] == [tensor.shape for tensor in net.planned.program.inputs]
    assert [kernel.id for kernel in info.kernels] == [thunk.id for thunk in net.image.thunks]
    assert info.head.state_bytes > 0
    for end in range(len(net.image.data) - 1):
        if end % 53 == 0:
            with pytest.raises(cortado.CortadoError, match=r"not an image|cut off"):
                read_image(net.image.data[:end], "part")


# ---- mutations ---------------------------------------------------------------------------------------------------


def _mutate(folder: Path, kind: str, seed: int, count: int) -> int:
    net = imaged(kind)
    program = _program(folder, net, (HELPERS / "image_mutations.c").read_text())
    (folder / "image").write_bytes(net.image.data)
    command = [str(program), str(folder / "image"), str(net.mutable()), str(seed), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3000, check=False)
    assert done.returncode == 0, done.stderr[:4000]
    return int(done.stdout)


@pytest.mark.cases(1)
@pytest.mark.parametrize("kind", ["cascade", "rows", "state", "stream"])
def test_changed_tables_are_refused_or_run_inside_of_image_and_arena(kind: str, tmp_path: Path) -> None:
    ran = _mutate(tmp_path, kind, 1, 2000)
    assert 1 < ran < 1000  # some change nothing that matters; the image itself ran too


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cascade", "rows", "state", "stream"])
def test_fifty_thousand_changes_of_each_image(kind: str, tmp_path: Path) -> None:
    assert _mutate(tmp_path, kind, 20260, 50_000) > 1
