"""Several methods as one image: the bits of calls in order, state that all share, constants once, hostile headers."""

import struct
import subprocess
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import cortado
from cortado import Options
from cortado.base.target import BUNDLE_FLAGS
from cortado.emit.image.layout import HEADER_STRIDE
from cortado.emit.image.reader import read_image
from cortado.emit.image.writer import emit_image, emit_image_of
from cortado.methods import CompiledMethods, ScriptCall
from cortado.run import toolchain
from cortado.run.runner import WARNINGS, write_files
from helpers.cli import Run
from helpers.image_methods import check_calls, files_of
from helpers.images import ARENA_AT, changed
from helpers.sanitizers import SANITIZERS

pytestmark = [
    pytest.mark.host,
    pytest.mark.xdist_group("methods"),
    pytest.mark.filterwarnings("ignore::cortado.CortadoWarning"),
]


class Taught(nn.Module):
    """Sums of features by class in int32, and a float32 mean of inputs."""

    sums: Tensor
    level: Tensor

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.features = nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 8), nn.ReLU())
        self.register_buffer("sums", torch.ones(4, 8, dtype=torch.int32))
        self.register_buffer("level", torch.linspace(-1.0, 1.0, 8))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.features(x) @ self.sums.float().t(), self.level + 0.0

    def learn(self, x: Tensor, label: Tensor) -> None:
        found = self.features(x)
        hot = (torch.arange(4) == label).to(torch.int32)
        self.sums = self.sums + hot.reshape(4, 1) * torch.round(found * 16.0).clamp(0, 127).to(torch.int32)
        self.level = self.level * 0.9 + found.reshape(8) * 0.1

    def clear(self) -> None:
        self.sums.zero_()


METHODS = {"forward": (torch.zeros(1, 16),), "learn": (torch.zeros(1, 16), torch.tensor([1])), "clear": ()}


def _calls(count: int, seed: int) -> list[ScriptCall]:
    random = torch.Generator().manual_seed(seed)
    calls: list[ScriptCall] = []
    for number in range(count):
        x, y = (torch.randn(1, 16, generator=random) for _ in range(2))
        calls += [("learn", x, torch.randint(0, 4, (1,), generator=random)), ("forward", y)]
        calls += [("clear",)] if number % 4 == 3 else []
    return calls


@pytest.fixture(scope="module")
def taught() -> CompiledMethods:
    options = Options(image=True)
    return cortado.compile_methods(Taught().eval(), METHODS, "cortex-m4", _calls(30, 1), name="taught", options=options)


# ---- calls in order ----------------------------------------------------------------------------------------------


def test_calls_of_an_image_of_methods_give_the_references_bits_here(taught: CompiledMethods) -> None:
    check_calls(taught, taught.planned_for_host(), _calls(12, 7), "host")


@pytest.mark.qemu
def test_calls_of_an_image_of_methods_give_the_references_bits_on_a_board(taught: CompiledMethods) -> None:
    check_calls(taught, dict(taught.planned), _calls(6, 8), None)


# ---- the file ----------------------------------------------------------------------------------------------------


def test_the_methods_of_an_image_have_their_constants_once(taught: CompiledMethods) -> None:
    assert taught.image is not None
    single = sum(len(emit_image(one).data) for one in taught.planned.values())
    weights = sum(one.weight.numel() for one in Taught().features if isinstance(one, nn.Linear))
    assert len(taught.image.data) <= single - weights
    assert taught.image.data == emit_image_of(taught.planned).data


def test_the_folder_and_inspect_and_kernels_know_the_methods(taught: CompiledMethods, tmp_path: Path, run: Run) -> None:
    taught.save(tmp_path / "out")
    file = tmp_path / "out" / "taught.cortado"
    assert taught.image is not None
    assert file.read_bytes() == taught.image.data
    info = read_image(taught.image.data, "taught.cortado")
    assert [info.name, *(one.name for one in info.methods)] == ["taught", "learn", "clear"]
    assert {one.head.arena_bytes for one in (info, *info.methods)} == {taught.planned["forward"].plan.peak}
    said = run("inspect", str(file), "--json").json
    assert [one["name"] for one in said["methods"]] == ["learn", "clear"]
    run("kernels", str(file), "-o", str(tmp_path / "firmware"))
    table = "cortado_kernels.c"
    assert (tmp_path / "firmware" / "loader" / table).read_text() == (tmp_path / "out" / "loader" / table).read_text()


SIZE, FEEDING, FURTHER, NAME = 8, 36, 37, 68  # where a header says them
OPEN = """#include <stdio.h>
#include <stdlib.h>

#include "cortado_image.h"

int main(int count, char **arguments)
{
    static uint8_t bytes[1 << 16] __attribute__((aligned(16)));
    static uint64_t ram[1024], more[1024];
    (void)count;
    FILE *file = fopen(arguments[1], "rb");
    const size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    cortado_model_t model = {.ram = ram, .ram_bytes = sizeof ram}, learning = {.ram = more, .ram_bytes = sizeof more};
    const int error = (int)cortado_image_open(bytes, size, &model);
    const cortado_image_t *learn = error != 0 ? NULL : cortado_image_method(&model, "learn");
    const cortado_image_t *none = error != 0 ? NULL : cortado_image_method(&model, "unlearn");
    const int second = learn == NULL ? -1 : (int)cortado_image_open(learn, learn->bytes, &learning);
    printf("%d %d %d\\n", error, second, none != NULL);
    return 0;
}
"""


def test_headers_that_lie_about_methods_are_refused(taught: CompiledMethods, tmp_path: Path) -> None:
    image = emit_image_of(taught.planned_for_host())
    write_files(tmp_path, {**files_of(image), "main.c": OPEN})
    sources = [tmp_path / "main.c", *tmp_path.glob("loader/*.c"), *tmp_path.glob("kernels/src/*.c")]
    includes = [tmp_path / "kernels" / "include", tmp_path / "kernels" / "src"]
    program = toolchain.build_executable(sorted(sources), includes, [*WARNINGS, *BUNDLE_FLAGS, *SANITIZERS], "methods")

    def opened(data: bytes) -> list[int]:
        (tmp_path / "image").write_bytes(data)
        done = subprocess.run([program, tmp_path / "image"], capture_output=True, text=True, check=True)
        return [int(word) for word in done.stdout.split()]

    fine, wrong, damaged, none = 0, 9, 4, -1
    learn, data = HEADER_STRIDE, image.data
    assert opened(data) == [fine, fine, 0]
    for at, value in ((SIZE, len(data)), (SIZE, 0), (NAME, len(data)), (ARENA_AT, 1 << 30)):
        assert opened(changed(data, learn + at, struct.pack("<I", value))) == [fine, none, 0]
    assert opened(changed(data, learn + 20, struct.pack("<H", 9)))[:2] == [fine, damaged]
    assert opened(changed(data, FURTHER, b"\xff")) == [fine, fine, 0]
    assert opened(changed(data, FEEDING, b"\x07"))[0] == wrong
