"""examples/update: a model is replaced by another on an emulated board; whatever goes wrong, the old one runs."""

import importlib.util
import re
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import cortado
from cortado import Options
from cortado.base.system import KERNEL_FILES, KERNEL_FOLDERS
from cortado.emit.image.layout import TENSOR_SHAPE, ImageHead
from cortado.emit.image.reader import read_image
from cortado.run import toolchain
from helpers.images import ARENA_AT, changed
from helpers.paths import ROOT

EXAMPLE = ROOT / "examples" / "update"
HELPERS = Path(__file__).parent.parent / "helpers"
pytestmark = pytest.mark.qemu


def _module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"update_{name}", EXAMPLE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True)
class Network:
    """An image, the codes of a picture, and those that the reference has of it."""

    image: bytes
    codes: bytes
    expected: bytes


def _network(folder: Path) -> Network:
    with np.load(folder / "expected.npz") as arrays:
        return Network(
            (folder / "digits.cortado").read_bytes(), arrays["input0"].tobytes(), arrays["output0"].tobytes()
        )


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Network, Network]:
    folder = tmp_path_factory.mktemp("update")
    example = _module("networks")
    model = example.network().eval()
    example.save(model, str(folder / "first"))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.05 * torch.randn_like(parameter)
    example.save(model, str(folder / "next"))
    first, following = _network(folder / "first"), _network(folder / "next")
    assert first.codes == following.codes
    assert first.expected != following.expected
    command = ["make", "-s", "-C", str(EXAMPLE), f"FIRST={folder}/first", f"BUILD={folder}/build"]
    subprocess.run(command, check=True, capture_output=True)
    return folder / "build" / "firmware.elf", first, following


@pytest.mark.slow
def test_a_transfer_cut_at_every_block_leaves_the_old_model_running(networks: tuple[Path, Network, Network]) -> None:
    firmware, old, new = networks
    example = _module("device")
    blocks = list(example.blocks(new.image))
    with example.Device(firmware) as device:
        device.update(old.image, 1)
        for count in range(len(blocks) + 1):
            device.begin(new.image, 2)
            for block in blocks[:count]:
                device.ask("D", block)
            assert device.run(old.codes) == old.expected  # while the other comes
            if count < len(blocks):
                device.send(example.packet("D", blocks[count])[: 3 + len(blocks[count]) // 2])
            device.reset()
            assert (device.version(), device.run(old.codes)) == (1, old.expected)
        device.begin(new.image, 2)  # the line is cut, and power stays
        device.ask("D", blocks[0])
        device.send(example.packet("D", blocks[1])[:100])
        assert device.answer() is None
        assert device.run(old.codes) == old.expected
        with pytest.raises(example.Refused, match="not complete"):
            device.ask("E")
        device.update(new.image, 2)
        assert (device.version(), device.run(old.codes)) == (2, new.expected)
        device.reset()
        assert (device.version(), device.run(old.codes)) == (2, new.expected)
        device.begin(old.image, 3)  # the slot of the first is the spare one now
        device.reset()
        assert (device.version(), device.run(old.codes)) == (2, new.expected)


def _of_other_state() -> bytes:
    """An image of the same interface whose state has another name."""

    class Other(nn.Module):
        seen: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.model = _module("networks").network()
            self.register_buffer("seen", torch.zeros(1, dtype=torch.int32))

        def forward(self, picture: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            self.seen = self.seen + 1
            return self.model(picture), self.seen

    pictures, _ = _module("networks").draw(64, seed=2)
    options = Options(artifacts="c", image=True)
    compiled = cortado.compile(Other().eval(), (pictures[:1],), "cortex-m55", pictures, name="digits", options=options)
    assert compiled.image is not None
    return compiled.image.data


def _foreign() -> bytes:
    """An image of the same interface with kernels that the firmware does not have."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10), nn.Softmax(1)).eval()
    x = torch.randn(8, 1, 8, 8)
    options = Options(artifacts="c", image=True)
    compiled = cortado.compile(model, (x[:1],), "cortex-m55", x, name="digits", options=options)
    assert compiled.image is not None
    return compiled.image.data


def _bad(image: bytes) -> dict[str, bytes]:
    head = ImageHead.unpack(image)
    shape = struct.unpack_from("<I", image, head.tensor + TENSOR_SHAPE)[0]
    return {
        "no image": bytes(256),
        "another format": changed(image, 4, b"\7\0"),
        "cut off": image[:-64],
        "damaged": changed(image, len(image) - 100, b"\x55\xaa\x55", repaired=False),
        "another core": changed(image, 7, b"\2"),
        "kernels of another version": changed(image, 16, b"\x63\x00"),
        "more RAM": changed(image, 0, head._replace(longest=60_000).pack()),
        "a kernel that this firmware does not have": _foreign(),
        "tables are wrong": changed(image, head.step + 8, struct.pack("<I", 1 << 30)),
        "another shape": changed(image, shape, struct.pack("<4I", 1, 1, 4, 16)),
        "another scale": changed(image, head.tensor + 8, struct.pack("<f", 0.25)),
        "arena is too large": changed(image, ARENA_AT, struct.pack("<I", 1 << 20)),
    }


@pytest.mark.slow
def test_what_it_cannot_run_is_refused_and_the_old_model_runs(
    networks: tuple[Path, Network, Network],
) -> None:
    firmware, old, new = networks
    assert read_image(new.image, "next").head.arena_bytes == struct.unpack_from("<I", new.image, ARENA_AT)[0]
    example: Any = _module("device")
    with example.Device(firmware) as device:
        device.update(old.image, 3)
        for reason, image in _bad(new.image).items():
            with pytest.raises(example.Refused, match=reason):
                device.update(image, 4)
            assert (device.version(), device.run(old.codes)) == (3, old.expected)
        for version in (2, 3):
            with pytest.raises(example.Refused, match="not above"):
                device.update(new.image, version)
        with pytest.raises(example.Refused, match="larger than a slot"):
            device.update(bytes(1 << 16), 4)
        device.reset()
        assert (device.version(), device.run(old.codes)) == (3, old.expected)
        device.update(new.image, 4)
        assert device.run(old.codes) == new.expected


def test_power_may_fail_in_every_erase_and_every_write() -> None:
    sources = [HELPERS / "power_cuts.c", EXAMPLE / "slots.c", KERNEL_FILES["cortado_saved.c"]]
    folders = [EXAMPLE, *KERNEL_FOLDERS]
    program = toolchain.build_executable(sources, folders, ["-O2", "-fsanitize=undefined"], "power_cuts")
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    cuts, news, state_cuts, state_news = map(int, re.findall(r"\d+", done.stdout))
    assert cuts > 2 * 250
    assert 2 <= news < 6
    assert state_cuts >= 2 * (2 + 26 + 1)  # the pages of a slot, the units of a saved state, the record
    assert 2 <= state_news < 6


def test_state_lasts_through_a_reset_and_an_update_unless_its_layout_is_another(
    networks: tuple[Path, Network, Network],
) -> None:
    firmware, old, new = networks
    other = _of_other_state()
    example: Any = _module("device")
    with example.Device(firmware) as device:
        assert device.update(old.image, 1) == "state begins anew"
        for _ in range(3):
            device.run(old.codes)
        device.save()
        device.run(old.codes)
        device.reset()  # the fourth was not saved
        assert device.run(old.codes) == old.expected
        assert device.pictures == 4
        assert device.update(new.image, 2) == "state was kept"
        assert device.run(old.codes) == new.expected
        assert device.pictures == 5
        device.reset()  # the state that the old model wrote is there, and the fifth was not saved
        device.run(old.codes)
        assert device.pictures == 5
        assert device.update(other, 3) == "state begins anew: it has another layout"
        device.run(old.codes)
        assert device.pictures == 1
