"""Examples of generated READMEs: each is compiled as it stands, and run on a board, for every kind of model.

What a user writes around an example is written here: the inputs, and what comes out, beside the reference.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cortado.api import Compiled, prepare
from cortado.artifact.opened import Artifact
from cortado.artifact.streamed import push_codes
from cortado.base.target import BUNDLE_FLAGS
from cortado.options import Artifacts, Options, PackageKind
from cortado.run.runner import bundle_includes, bundle_sources
from cortado.together import save_together
from helpers.packages import compile_and_link, say

pytestmark = [pytest.mark.filterwarnings("ignore::cortado.base.errors.CortadoWarning"), pytest.mark.qemu]
Array = np.ndarray[Any, np.dtype[Any]]


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


def reals(*shape: int) -> Callable[[int], Array]:
    return lambda seed: np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def sound(seed: int) -> Array:
    return np.random.default_rng(seed).integers(-20000, 20000, (1, 280)).astype(np.int16)


@dataclass(frozen=True)
class Kind:
    """A kind of model: how it is made, and what a user's program does with its example."""

    make: Callable[[], nn.Module]
    given: Callable[[int], Array]
    use: Callable[["Kind", Artifact], tuple[str, list[int]]]  # C that prints numbers, and the numbers
    options: dict[str, Any] = field(default_factory=dict)


def array(name: str, data: Array, kind: str) -> str:
    return f"static const {kind} {name}[] = {{{', '.join(map(str, data.reshape(-1).tolist()))}}};\n"


def c_type(data: Array) -> str:
    return "float" if data.dtype.kind == "f" else f"{data.dtype}_t" if data.dtype.kind in "iu" else "uint8_t"


def shown(outputs: Sequence[Array]) -> list[int]:
    """The bytes of all outputs."""
    return [byte for one in outputs for byte in np.ascontiguousarray(one).tobytes()]


def whole(kind: Kind, artifact: Artifact) -> tuple[str, list[int]]:
    """Three inputs, one after the other; a model with state is asked before it was started, too."""
    samples = [[kind.given(seed)] for seed in (20, 21, 22)]
    found = artifact.reference(samples)
    feeds = np.stack([feed[0].reshape(-1) for feed in found.feeds])
    expected = [int(one[0].argmax()) for one in found.expected]
    state = bool(artifact.report.state)
    call = f'for (int i = 0; i < 3; i++) {{ printf("%d ", classify(inputs + i * {feeds.shape[1]})); }}'
    first = 'printf("%d ", classify(inputs)); start(); ' if state else ""
    return array("inputs", feeds, c_type(feeds)) + use(first + call), [*([-1] if state else []), *expected]


def several(kind: Kind, artifact: Artifact) -> tuple[str, list[int]]:
    found = artifact.reference([[kind.given(20)]])
    outputs = found.expected[0]
    places = "".join(f"static {c_type(one)} made{i}[{one.size}];\n" for i, one in enumerate(outputs))
    given = ", ".join(f"made{i}" for i, _ in enumerate(outputs))
    prints = "".join(
        f'for (unsigned i = 0; i < sizeof made{i}; i++) {{ printf("%d ", ((const uint8_t *)made{i})[i]); }}\n'
        for i, _ in enumerate(outputs)
    )
    body = f'printf("%d ", infer(inputs, {given}));\n{prints}'
    return array("inputs", found.feeds[0][0], c_type(found.feeds[0][0])) + places + use(body), [0, *shown(outputs)]


def rows(kind: Kind, artifact: Artifact) -> tuple[str, list[int]]:
    """Row by row, through a function of the user's."""
    found = artifact.reference([[kind.given(20)]])
    lines = artifact.report.input_rows
    assert lines is not None
    reader = f"""static unsigned next;
static void read_row(int8_t *row) {{ memcpy(row, inputs + {lines.row_bytes} * next++, {lines.row_bytes}); }}
"""
    text = array("inputs", found.feeds[0][0], "int8_t") + reader + use('printf("%d ", classify(read_row));')
    return text, [int(found.expected[0][0].argmax())]


def endless(kind: Kind, artifact: Artifact) -> tuple[str, list[int]]:
    """Rows or samples of two windows and a half, asked before the start, too."""
    report = artifact.report
    assert report.stream is not None
    assert report.input_rows is not None
    long = np.concatenate([kind.given(seed) for seed in (20, 21, 22)], report.stream.dim)
    time = long.reshape(-1) if long.ndim == 2 else np.ascontiguousarray(long[0].transpose(1, 0, 2))
    found = push_codes(artifact, time, "host")
    values = report.input_rows.row_bytes // (2 if long.ndim == 2 else 1)
    count = len(time) // values if long.ndim == 2 else len(time)
    codes = time if long.ndim == 2 else coded(artifact, time)
    decided = report.decision is not None
    verb = "decide" if decided else "classify"
    made = found.decisions.tolist() if found.decisions is not None else [int(one.argmax()) for one in found.codes[0]]
    expected = [-1 if long.ndim > 2 else -2]
    for row in range(count):
        new = row in found.ends
        expected += [1, made[found.ends.index(row)]] if new else [0]
    body = f"""int best = -9;
printf("%d ", {verb}(inputs, &best));
start();
for (int i = 0; i < {count}; i++) {{
    const int status = {verb}(inputs + i * {values}, &best);
    printf("%d ", status);
    if (status == 1) {{ printf("%d ", best); }}
}}"""
    return array("inputs", codes, c_type(codes)) + use(body), expected


def coded(artifact: Artifact, time: Array) -> Array:
    """Rows [rows, channels, width] as codes, channels last."""
    given = artifact.report.inputs[0]
    assert given.scale is not None
    assert given.zero_point is not None
    steps = np.rint(time.transpose(0, 2, 1) * (np.float32(1) / np.float32(given.scale))) + given.zero_point
    return np.clip(steps, -128, 127).astype(np.int8)


def picture(kind: Kind, artifact: Artifact) -> tuple[str, list[int]]:
    """A camera's lines, all of them."""
    seen = np.random.default_rng(5).integers(0, 256, (24, 32, 3)).astype(np.uint8)
    checked = artifact.run([[seen]], "host")
    assert checked.bit_exact
    reader = """static unsigned next;
static const uint8_t *next_line(void) { return inputs + 96 * next++; }
"""
    expected = int(checked.expected[0][0].argmax())
    return array("inputs", seen, "uint8_t") + reader + use('printf("%d ", classify(next_line));'), [expected]


def use(body: str) -> str:
    return f"int tried(void);\nint tried(void)\n{{\n{body}\nreturn 0;\n}}\n"


CAMERA = {"input_format": "rgb888", "input_size": "32x24", "resize": "10x12"}
KINDS = {
    "plain": Kind(Linear, reals(1, 6), whole),
    "reals": Kind(Linear, reals(1, 6), whole, {"io": "float"}),
    "wide": Kind(Linear, reals(1, 6), whole, {"activations": "int16"}),
    "several": Kind(Several, reals(1, 6), several),
    "state": Kind(Running, reals(1, 6), whole),
    "rows": Kind(Images, reals(1, 3, 12, 10), rows, {"input_rows": True}),
    "stream": Kind(Images, reals(1, 3, 12, 10), endless, {"stream": 2}),
    "samples": Kind(Sound, sound, endless, {"stream": 1}),
    "decision": Kind(Images, reals(1, 3, 12, 10), endless, {"stream": 2, "decide": "smooth=2,threshold=0.4"}),
    "camera": Kind(Images, reals(1, 3, 12, 10), picture, CAMERA),
    "lines": Kind(Images, reals(1, 3, 12, 10), picture, {**CAMERA, "input_rows": True}),
}


def compiled(name: str, **more: Any) -> Compiled:
    kind = KINDS[name]
    torch.manual_seed(0)
    batches = [(torch.from_numpy(kind.given(seed)),) for seed in range(1, 9)]
    options = Options(artifacts=Artifacts.C, **{**kind.options, **more})
    return prepare(kind.make().eval(), batches[0], batches, name, options=options).compile("cortex-m4", options)


def unit(name: str, readme: str, driver: str) -> str:
    """The example as it stands and the user's code below it, with names of their own in one program."""
    (example,) = re.findall(r"```c\n(.*?)```", readme, re.DOTALL)
    names = "".join(f"#define {verb} {name}_{verb}\n" for verb in ("start", "classify", "infer", "decide", "tried"))
    return f"#include <stdio.h>\n{names}{example}\n{driver}"


def printed(folder: Path, sources: dict[str, str], names: Sequence[str], build: Path) -> dict[str, list[int]]:
    """What the drivers print, all in one program on the board."""
    build.mkdir()
    declared = "".join(f"int {name}_tried(void);\n" for name in names)
    calls = "".join(f'printf("\\n{name}: "); {name}_tried();\n' for name in names)
    text = f'#include <stdio.h>\n{declared}int main(void)\n{{\n{calls}printf("\\n");\nreturn 0;\n}}\n'
    paths = []
    for name, source in {**sources, "main": text}.items():
        paths.append(build / f"{name}_use.c")
        paths[-1].write_text(source)
    strict = ("-std=c99", "-Wall", "-Wextra", "-Wno-missing-prototypes", "-Werror")
    program = compile_and_link(
        [*paths, *bundle_sources(folder)], bundle_includes(folder), [*BUNDLE_FLAGS, *strict], build
    )
    lines = re.findall(r"^(\w+): (.*)$", say(program), re.M)
    return {name: [int(number) for number in numbers.split()] for name, numbers in lines}


@pytest.fixture(scope="module")
def every() -> dict[str, Compiled]:
    return {name: compiled(name, package=tuple(PackageKind)) for name in KINDS}


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
        driver, expected[name] = KINDS[name].use(KINDS[name], artifact)
        readme = (together / f"{name}.md").read_text()
        sources[name] = unit(name, readme, driver)
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
    driver, expected = whole(KINDS["state"], artifact)
    readme = (artifact.folder / "README.md").read_text()
    assert "const state_arena_t *arena = state_default_arena();" in readme
    found = printed(artifact.folder, {"state": unit("state", readme, driver)}, ["state"], tmp_path / "build")
    assert found == {"state": expected}
