"""Programs around the examples of generated READMEs, as a user writes them: inputs, and what the reference says."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cortado.artifact.opened import Artifact
from cortado.artifact.streamed import push_codes
from cortado.base.target import BUNDLE_FLAGS
from cortado.run.runner import bundle_includes, bundle_sources
from helpers.packages import compile_and_link, say

Array = np.ndarray[Any, np.dtype[Any]]
Given = Callable[[int], list[Array]]  # the inputs of a sample, by seed


def driver(artifact: Artifact, given: Given) -> tuple[str, list[int]]:
    """C below an example that prints numbers, and the numbers."""
    report = artifact.report
    if report.camera is not None:
        return _picture(artifact)
    if report.stream is not None:
        return _endless(artifact, given)
    return (_rows if report.input_rows is not None else _whole)(artifact, given)


@dataclass(frozen=True)
class _Results:
    """How a program gets what an example gives, and prints it."""

    verb: str
    places: str  # declarations
    arguments: tuple[str, ...]  # behind the inputs
    prints: str  # when there is a result
    value: bool = False  # whether the function returns it

    def call(self, *inputs: str) -> str:
        return f"{self.verb}({', '.join((*inputs, *self.arguments))})"

    def numbers(self, outputs: Sequence[Array]) -> list[int]:
        """The numbers that are printed for these codes."""
        if self.verb == "classify":
            return [int(outputs[0].argmax())]
        return [byte for one in outputs for byte in np.ascontiguousarray(one).tobytes()]


def _results(artifact: Artifact, *, endless: bool) -> _Results:
    report = artifact.report
    if report.decision is not None:
        return _Results("decide", "static int decided;\n", ("&decided",), 'printf("%d ", decided);')
    first = report.outputs[0]
    real = first.scale is not None or first.dtype.value == "float32"
    if real and len(report.outputs) == 1 and len(first.shape) == 2 and first.shape[0] == 1 < first.shape[1]:
        if endless:
            return _Results("classify", "static int best;\n", ("&best",), 'printf("%d ", best);')
        return _Results("classify", "", (), "", value=True)
    sizes = [math.prod(one.shape) for one in report.outputs]
    kinds = [_c_type(np.zeros(1, one.dtype.value)) for one in report.outputs]
    places = "".join(
        f"static {kind} made{i}[{size}];\n" for i, (kind, size) in enumerate(zip(kinds, sizes, strict=True))
    )
    names = tuple(f"made{i}" for i, _ in enumerate(sizes))
    each = 'for (unsigned i = 0; i < sizeof {0}; i++) {{ printf("%d ", ((const uint8_t *){0})[i]); }}'
    return _Results("infer", places, names, " ".join(each.format(name) for name in names))


def _whole(artifact: Artifact, given: Given) -> tuple[str, list[int]]:
    """Three inputs, one after the other; a model with state is asked before it was started, too."""
    found = artifact.reference([given(seed) for seed in (20, 21, 22)])
    results, count = _results(artifact, endless=False), len(found.feeds[0])
    feeds = [np.stack([feed[number].reshape(-1) for feed in found.feeds]) for number in range(count)]
    arrays = "".join(_array(f"inputs{number}", feed) for number, feed in enumerate(feeds))
    state = bool(artifact.report.state)
    first = f'printf("%d ", {results.call(*(f"inputs{i}" for i in range(count)))}); start();\n' if state else ""
    call = results.call(*(f"inputs{i} + k * {feed.shape[1]}" for i, feed in enumerate(feeds)))
    body = f'{first}for (int k = 0; k < 3; k++) {{ printf("%d ", {call}); {results.prints} }}'
    expected = [-1] if state else []
    decided = decisions(artifact, found.expected) if artifact.report.decision is not None else None
    for number, outputs in enumerate(found.expected):
        made = results.numbers(outputs) if decided is None else [decided[number]]
        expected += made if results.value else [0, *made]
    return arrays + results.places + _use(body), expected


def _rows(artifact: Artifact, given: Given) -> tuple[str, list[int]]:
    """Row by row, through a function of the user's."""
    found = artifact.reference([given(20)])
    lines, results = artifact.report.input_rows, _results(artifact, endless=False)
    assert lines is not None
    kind, values = _c_type(found.feeds[0][0]), lines.row_bytes // found.feeds[0][0].itemsize
    reader = f"""static unsigned next;
static void read_row({kind} *row) {{ memcpy(row, inputs + {values} * next++, {lines.row_bytes}); }}
"""
    body = f'printf("%d ", {results.call("read_row")}); {results.prints}'
    made = results.numbers(found.expected[0])
    return (
        _array("inputs", found.feeds[0][0]) + results.places + reader + _use(body),
        made if results.value else [0, *made],
    )


def _endless(artifact: Artifact, given: Given) -> tuple[str, list[int]]:
    """Rows or samples of three windows, asked before the start, too."""
    report = artifact.report
    assert report.stream is not None
    assert report.input_rows is not None
    long = np.concatenate([given(seed)[0] for seed in (20, 21, 22)], report.stream.dim)
    samples = long.ndim == 2
    time = long.reshape(-1) if samples else np.ascontiguousarray(long[0].transpose(1, 0, 2))
    found, results = push_codes(artifact, time, "host"), _results(artifact, endless=True)
    codes = time if samples else _coded(artifact, time)
    values = report.input_rows.row_bytes // codes.itemsize
    count = codes.size // values
    expected = [-2 if samples else -1]
    for row in range(count):
        if row not in found.ends:
            expected.append(0)
            continue
        number = found.ends.index(row)
        outputs = [one[number] for one in found.codes]
        made = results.numbers(outputs) if found.decisions is None else [int(found.decisions[number])]
        expected += [1, *made]
    body = f"""printf("%d ", {results.call("inputs")});
start();
for (int k = 0; k < {count}; k++) {{
    const int status = {results.call(f"inputs + k * {values}")};
    printf("%d ", status);
    if (status == 1) {{ {results.prints} }}
}}"""
    return _array("inputs", codes) + results.places + _use(body), expected


def _coded(artifact: Artifact, time: Array) -> Array:
    """Rows [rows, channels, width] as codes, channels last."""
    given = artifact.report.inputs[0]
    if given.scale is None:  # float32 as it is
        return np.ascontiguousarray(time.transpose(0, 2, 1))
    assert given.zero_point is not None
    steps = np.rint(time.transpose(0, 2, 1) * (np.float32(1) / np.float32(given.scale))) + given.zero_point
    limits = np.iinfo(given.dtype.value)
    return np.clip(steps, limits.min, limits.max).astype(given.dtype.value)


def picture(artifact: Artifact, seed: int = 5) -> Array:
    """A picture of the camera in front of a model."""
    assert artifact.report.camera is not None
    camera = artifact.report.camera.camera
    return np.random.default_rng(seed).integers(0, 256, (camera.size.height, camera.size.width, 3)).astype(np.uint8)


def _picture(artifact: Artifact) -> tuple[str, list[int]]:
    """A camera's lines, all of them."""
    seen, results = picture(artifact), _results(artifact, endless=False)
    checked = artifact.run([[seen]], "host")
    assert checked.bit_exact
    line = seen[0].nbytes
    reader = f"""static unsigned next;
static const uint8_t *next_line(void) {{ return inputs + {line} * next++; }}
"""
    body = f'printf("%d ", {results.call("next_line")}); {results.prints}'
    made = results.numbers(checked.expected[0])
    return _array("inputs", seen) + results.places + reader + _use(body), made if results.value else [0, *made]


def _use(body: str) -> str:
    return f"int tried(void);\nint tried(void)\n{{\n{body}\nreturn 0;\n}}\n"


def _array(name: str, data: Array) -> str:
    return f"static const {_c_type(data)} {name}[] = {{{', '.join(map(str, data.reshape(-1).tolist()))}}};\n"


def _c_type(data: Array) -> str:
    if data.dtype.kind == "f":
        return "float"
    return f"{data.dtype}_t" if data.dtype.kind in "iu" and data.itemsize < 8 else "uint8_t"


def decisions(artifact: Artifact, outputs: Sequence[Sequence[Array]]) -> list[int]:
    """A plain model of the rule: what each output since a reset decides for, by means of codes or of float32."""
    rule, scores = artifact.report.decision, artifact.report.outputs[0]
    assert rule is not None
    names = artifact.report.labels or [str(number) for number in range(scores.shape[-1])]
    smooth, threshold = (float(re.search(rf"{key}=([\d.]+)", rule.spec)[1]) for key in ("smooth", "threshold"))  # type: ignore[index]
    scale, zero = (1.0, 0) if scores.scale is None or scores.zero_point is None else (scores.scale, scores.zero_point)
    found: list[int] = []
    for number in range(len(outputs)):
        if number + 1 < smooth:
            found.append(-1)
            continue
        sums = np.zeros(scores.shape[-1], np.float32 if scores.scale is None else np.int64)
        for one in outputs[number + 1 - int(smooth) : number + 1]:  # from the oldest to the newest
            sums = np.add(sums, one[0].reshape(-1), dtype=sums.dtype)
        best = int(sums.argmax())
        mean = (float(sums[best]) / smooth - zero) * scale
        found.append(best if mean >= threshold - 1e-12 else -1)
    assert len(names) == scores.shape[-1]
    return found


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
