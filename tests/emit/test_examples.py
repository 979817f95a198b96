"""Examples of generated READMEs: each is compiled as it stands, and run on a board, for every kind of model.

What a user writes around an example is written here: the inputs, and what comes out, beside the reference.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cortado.api import Compiled, prepare
from cortado.base.target import BUNDLE_FLAGS
from cortado.options import Artifacts, Options, PackageKind
from cortado.run.runner import bundle_includes, bundle_sources
from cortado.together import save_together
from helpers.examples import Array, Given, driver, printed, unit
from helpers.packages import compile_and_link, say

pytestmark = [pytest.mark.filterwarnings("ignore::cortado.base.errors.CortadoWarning"), pytest.mark.qemu]


class Linear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(x)


class Several(Linear):
    """Codes, places and truth values."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:  # type: ignore[override]
        found = self.out(x)
        return found, found.argmax(1), found > 0.1


class Running(Linear):
    """State: what was seen before counts half."""

    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(1, 6))

    def forward(self, x: Tensor) -> Tensor:
        self.seen.copy_(self.seen * 0.5 + x)
        return torch.softmax(3 * self.out(self.seen), 1)


class Images(nn.Module):
    """Rows of an image, or of time."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.out = nn.Conv2d(3, 4, 3, stride=2), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(4 * self.out(torch.relu(self.conv(x)).mean((2, 3))), 1)


class Sound(nn.Module):
    """Frames of 40 of 64 samples: a window gives its output early."""

    window: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(40))
        self.out = nn.Linear(33, 3)

    def forward(self, x: Tensor) -> Tensor:
        found = torch.stft(x.float() / 32768, 64, 20, 40, self.window, center=False, return_complex=True)
        return self.out(torch.log(found.abs().square() + 1e-3).mean(2))


def reals(*shape: int) -> Given:
    return lambda seed: [np.random.default_rng(seed).normal(size=shape).astype(np.float32)]


def sound(seed: int) -> list[Array]:
    return [np.random.default_rng(seed).integers(-20000, 20000, (1, 280)).astype(np.int16)]


@dataclass(frozen=True)
class Kind:
    """A kind of model, its inputs and options."""

    make: Callable[[], nn.Module]
    given: Given
    options: dict[str, Any] = field(default_factory=dict)


CAMERA = {"input_format": "rgb888", "input_size": "32x24", "resize": "10x12"}
KINDS = {
    "plain": Kind(Linear, reals(1, 6)),
    "reals": Kind(Linear, reals(1, 6), {"io": "float"}),
    "wide": Kind(Linear, reals(1, 6), {"activations": "int16"}),
    "several": Kind(Several, reals(1, 6)),
    "state": Kind(Running, reals(1, 6)),
    "rows": Kind(Images, reals(1, 3, 12, 10), {"input_rows": True}),
    "stream": Kind(Images, reals(1, 3, 12, 10), {"stream": 2}),
    "samples": Kind(Sound, sound, {"stream": 1}),
    "decision": Kind(Images, reals(1, 3, 12, 10), {"stream": 2, "decide": "smooth=2,threshold=0.4"}),
    "camera": Kind(Images, reals(1, 3, 12, 10), CAMERA),
    "lines": Kind(Images, reals(1, 3, 12, 10), {**CAMERA, "input_rows": True}),
}


def compiled(name: str, **more: Any) -> Compiled:
    kind = KINDS[name]
    torch.manual_seed(0)
    batches = [(torch.from_numpy(kind.given(seed)[0]),) for seed in range(1, 9)]
    options = Options(artifacts=Artifacts.C, **{**kind.options, **more})
    return prepare(kind.make().eval(), batches[0], batches, name, options=options).compile("cortex-m4", options)


@pytest.fixture(scope="module")
def every() -> dict[str, Compiled]:
    kinds = tuple(kind for kind in PackageKind if kind is not PackageKind.WEB)  # a page is one model's
    return {name: compiled(name, package=kinds) for name in KINDS}


@pytest.fixture(scope="module")
def together(every: dict[str, Compiled], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every kind of model in one program."""
    folder = tmp_path_factory.mktemp("examples") / "together"
    save_together(list(every.values()), folder)
    return folder


def test_examples_do_what_they_say_on_a_board(every: dict[str, Compiled], together: Path, tmp_path: Path) -> None:
    """Each from the page that the model has there; and its own page has the same."""
    expected, sources = {}, {}
    for name, one in every.items():
        artifact = one.save(tmp_path / name)
        text, expected[name] = driver(artifact, KINDS[name].given)
        readme = (together / f"{name}.md").read_text()
        sources[name] = unit(name, readme, text)
        assert readme.split("```")[1] == (artifact.folder / "README.md").read_text().split("```")[1]
    assert printed(together, sources, list(KINDS), tmp_path / "build") == expected


def test_packages_run_every_kind_of_model(together: Path, tmp_path: Path) -> None:
    """The example of a package, compiled by its compiler alone; no page of any package names what there is not."""
    package = together / PackageKind.CMAKE.value
    flags = [*BUNDLE_FLAGS, "-std=c99", "-Wall", "-Wextra", "-Werror"]
    sources = [package / "example" / "main.c", *bundle_sources(package)]
    said = say(compile_and_link(sources, bundle_includes(package), flags, tmp_path))
    assert said.splitlines() == [f"{name}: every bit as expected" for name in KINDS]
    headers = "".join(path.read_text() for path in package.glob("*.h"))
    for page in together.rglob("*.md"):
        names = rf"`({'|'.join(KINDS)})_(\w+)(?![\w.])"  # with a point behind it, it is a file
        named = {f"{name}_{verb}" for name, verb in re.findall(names, page.read_text())}
        assert [one for one in named if not re.search(rf"\b{one}\b", headers)] == [], page


def test_an_example_of_an_arena_in_several_memories_runs(tmp_path: Path) -> None:
    artifact = compiled("state", memory="fast=32,slow=4K").save(tmp_path / "state")
    text, expected = driver(artifact, KINDS["state"].given)
    readme = (artifact.folder / "README.md").read_text()
    assert "const state_arena_t *arena = state_default_arena();" in readme
    found = printed(artifact.folder, {"state": unit("state", readme, text)}, ["state"], tmp_path / "build")
    assert found == {"state": expected}
