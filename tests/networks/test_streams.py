"""A stream of rows: after each of them the same bits as for the window alone; how little work and memory that takes."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cortado.api import Model, prepare
from cortado.base.errors import CortadoError
from cortado.models.zoo.sounds import KwsGru
from cortado.options import Activations, Artifacts, Options, StreamPadding
from cortado.plan.lowered import reference_outputs
from cortado.run.runner import RUNTIME_CHECKS
from cortado.scoring.floats import float_model
from helpers.paths import ROOT
from helpers.sanitizers import SANITIZERS
from helpers.stateful import decibels
from helpers.streams import Rows

BOARDS = ["cortex-m0plus", "cortex-m4", "cortex-m33", "cortex-m55"]


class Mean(nn.Module):
    """A small keyword spotter: stride 2, depthwise and pointwise layers, the mean over time and frequency."""

    def __init__(self, channels: int = 8, blocks: int = 1, classes: int = 5) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, channels, (10, 4), stride=2, padding=(0, 1))
        layers: list[nn.Module] = []
        for _ in range(blocks):
            depthwise = nn.Conv2d(channels, channels, 3, padding=(0, 1), groups=channels)
            layers += [depthwise, nn.ReLU(), nn.Conv2d(channels, channels, 1), nn.ReLU()]
        self.blocks, self.out = nn.Sequential(*layers), nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.blocks(torch.relu(self.stem(x))).mean((2, 3)))


class Flat(nn.Module):
    """All rows, flattened, into a linear layer; a softmax behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.out = nn.Conv2d(2, 4, (3, 3), dilation=(2, 1)), nn.Linear(4 * 10 * 3, 6)

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(self.out(torch.relu(self.conv(x)).flatten(1)), 1)


class Causal(nn.Module):
    """Zeros before the first row, dilations, branches that are late by different rows; the newest row counts."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.out = nn.Conv2d(3, 6, (3, 1)), nn.Conv2d(6, 4, 1)
        self.convs = nn.ModuleList(nn.Conv2d(6, 6, (3, 1), dilation=(d, 1)) for d in (1, 2, 4))

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.first(F.pad(x, (0, 0, 2, 0))))
        for dilation, conv in zip((1, 2, 4), self.convs, strict=True):
            x = x + torch.relu(conv(F.pad(x, (0, 0, 2 * dilation, 0))))
        return self.out(x[:, :, -1:])


class Pooled(nn.Module):
    """Pools of both kinds with strides, two branches side by side; the last is a row of several pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(2, 2, 1), nn.Conv2d(7, 4, (4, 1))
        self.left, self.right = nn.Conv2d(2, 4, (3, 3), padding=(0, 1)), nn.Conv2d(2, 3, (1, 3), padding=(0, 1))

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.first(x))
        sides = torch.cat([torch.relu(self.left(x)), self.right(x[:, :, 2:])], 1)
        pooled = F.avg_pool2d(F.max_pool2d(sides, (2, 1)), (3, 1), stride=(2, 1))
        return self.last(pooled)


class Several(nn.Module):
    """Scores, the newest row of another head, and the strongest channel of the newest row with its value."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.head, self.out = (
            nn.Conv2d(1, 6, (4, 3), stride=(2, 1)),
            nn.Conv2d(6, 3, (5, 1)),
            nn.Linear(6, 4),
        )

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        x = torch.relu(self.stem(x))
        best = x[:, :, -1:].max(1)
        return self.out(x.mean((2, 3))), torch.sigmoid(self.head(x)[:, :, -1:]), best.indices, best.values


CASES: dict[str, tuple[type[nn.Module], tuple[int, ...]]] = {
    "mean": (Mean, (1, 1, 30, 10)),
    "flat": (Flat, (1, 2, 14, 5)),
    "causal": (Causal, (1, 3, 40, 1)),
    "pooled": (Pooled, (1, 2, 22, 5)),
}


def made(model: nn.Module, shape: tuple[int, ...]) -> Model:
    torch.manual_seed(0)
    batches = [(torch.randn(shape),) for _ in range(4)]
    return prepare(model.eval(), batches[0], batches, name="net")


@pytest.mark.cases(1)
@pytest.mark.host
@pytest.mark.qemu
@pytest.mark.parametrize("name", list(CASES))
def test_every_window_here_and_on_boards(name: str, tmp_path: Path) -> None:
    """Each output equals the reference on its window, and is close to the model itself on that window."""
    kind, shape = CASES[name]
    torch.manual_seed(3)
    net = kind()
    model = made(net, shape)
    rows = Rows(model.compile("cortex-m4", Options(stream=2)), 230)
    found = rows.check(tmp_path / "host", SANITIZERS)
    output = rows.report.outputs[0]
    assert output.scale is not None
    assert output.zero_point is not None
    with torch.no_grad():
        real = np.stack([net(torch.from_numpy(rows.window(n))).numpy() for n in range(rows.outputs)])
    order = [output.layout.index(dim) for dim in range(len(output.shape))]
    mine = ((found.astype(np.float32) - output.zero_point) * output.scale).transpose(0, *(1 + dim for dim in order))
    inside = np.clip(real, (-128 - output.zero_point) * output.scale, (127 - output.zero_point) * output.scale)
    assert np.abs(mine - inside).mean() < 6 * output.scale  # rows are noise at full range, not what calibration saw
    for target in BOARDS:
        np.testing.assert_array_equal(rows.push(tmp_path / target, target), found, err_msg=target)


ISLANDS = {"mean": "stem", "flat": "conv", "causal": "convs.*"}
ELEMENTS: dict[str, Callable[[str], Options]] = {
    "int16": lambda name: Options(activations=Activations.INT16, artifacts=Artifacts.C, stream=2),
    "float32 modules": lambda name: Options(float32=(ISLANDS[name],), artifacts=Artifacts.C, stream=2),
}


@pytest.mark.cases(2)
@pytest.mark.host
@pytest.mark.qemu
@pytest.mark.filterwarnings("ignore::cortado.base.errors.CortadoWarning")
@pytest.mark.parametrize("element", list(ELEMENTS))
@pytest.mark.parametrize("name", list(ISLANDS))
def test_windows_of_other_elements(name: str, element: str) -> None:
    """Each output equals the reference on its window, here and on boards, and is close to the model itself."""
    kind, shape = CASES[name]
    torch.manual_seed(3)
    net, options = kind().eval(), ELEMENTS[element](name)
    batches = [(torch.randn(shape),) for _ in range(16)]
    model = prepare(net, batches[0], batches, name="net", options=options)
    rows = torch.randn(shape[2] + 17, shape[1], shape[3], generator=torch.Generator().manual_seed(4))
    for target in ("cortex-m0plus", "cortex-m4", "cortex-m55"):
        compiled = model.compile(target, options)
        assert compiled.graph is not None
        found, here = compiled.stream(rows.numpy()), compiled.stream(rows.numpy(), on="host")
        assert [one.tobytes() for one in found.every] == [one.tobytes() for one in here.every]
        for number, end in enumerate(found.ends):
            window = rows[end - shape[2] + 1 : end + 1].movedim(0, 1)[None]
            (exact,) = reference_outputs(compiled.graph, (window,))
            mine = torch.from_numpy(found.every[0][number]).reshape(exact.shape)
            assert torch.equal(mine, exact)
            with torch.no_grad():
                assert decibels(net(window).numpy(), mine.numpy()) > 20


class Largest(nn.Module):
    """The mean and the largest values of a window, and a pool that leaves its last row unread."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.out = nn.Conv1d(3, 4, 3, stride=2), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        x = torch.relu(self.conv(x))
        return self.out(x.mean(2)), self.out(x.amax(2)), self.out(F.max_pool1d(x, 9).flatten(1))


@pytest.mark.host
@pytest.mark.filterwarnings("ignore::cortado.base.errors.CortadoWarning")
@pytest.mark.parametrize("element", [Activations.INT8, Activations.INT16, Activations.FLOAT32])
def test_a_maximum_over_time_comes_as_often_as_a_mean(element: Activations) -> None:
    """A pool over all rows has no stride in time. One that leaves rows over has, and does not come as often."""
    torch.manual_seed(3)
    net, options = Largest().eval(), Options(activations=element, artifacts=Artifacts.C, stream=2)
    batches = [(torch.randn(1, 3, 19),) for _ in range(16)]
    streamed = prepare(net, batches[0], batches, name="net", options=options).compile("cortex-m4", options)
    rows = torch.randn(40, 3, generator=torch.Generator().manual_seed(4))
    found = streamed.stream(rows.numpy(), on="host")
    assert list(found.ends) == list(range(18, 40, 2))
    for number, end in enumerate(found.ends):
        with torch.no_grad():
            wanted = net(rows[end - 18 : end + 1].T[None])
        for one, mine in zip(wanted, found.every, strict=True):
            assert decibels(one.numpy(), mine[number].reshape(1, 3)) > 20
    with pytest.raises(
        CortadoError, match=r"'output0' after 21, then after every 2, .*'output2' after 19, then after every 18"
    ):
        prepare(net, (torch.randn(1, 3, 21),), [(torch.randn(1, 3, 21),)], name="net", options=options).compile(
            "cortex-m4", options
        )


class Signal(nn.Module):
    """Samples of a signal: Conv1d of all kinds, zeros before the first, a branch, pools; all of it or the newest."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.late = nn.Conv1d(3, 8, 5, stride=2), nn.Conv1d(8, 8, 3, dilation=2)
        self.each, self.mixed = nn.Conv1d(8, 8, 3, groups=8), nn.Conv1d(8, 8, 1)
        self.scores, self.newest = nn.Linear(8, 4), nn.Linear(8 * 5, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        x = torch.relu(self.mixed(torch.relu(self.each(torch.relu(self.first(x))))))
        x = x + torch.relu(self.late(F.pad(x, (4, 0))))
        pooled = F.max_pool1d(x[:, :, 4:], 2)
        return self.scores(pooled.mean(2)), self.newest(pooled[:, :, -5:].flatten(1))


@pytest.mark.host
@pytest.mark.qemu
def test_time_may_be_the_last_dimension(tmp_path: Path) -> None:
    torch.manual_seed(3)
    net = Signal()
    rows = Rows(made(net, (1, 3, 39)).compile("cortex-m4", Options(stream=2)), 110)
    assert (rows.row_bytes, rows.stream.hop_rows, rows.stream.first_rows) == (3, 4, 39)
    rows.check(tmp_path / "host", SANITIZERS)
    for target in ("cortex-m0plus", "cortex-m55"):
        found = rows.push_all(tmp_path / target, target)
        for number in range(rows.outputs):
            for values, wanted in zip(found, rows.expected(number), strict=True):
                np.testing.assert_array_equal(values[number], wanted)


def says(document: str, number: int) -> bool:
    """Whether a number stands in a text, but for what another compiler makes of it."""
    numbers = [int(text.replace(",", "")) for text in re.findall(r"\d{1,3}(?:,\d{3})+", document)]
    return any(abs(found - number) <= number / 50 for found in numbers)


class PerFrame(nn.Module):
    """The zoo's kws_gru, one frame a call."""

    state: Tensor

    def __init__(self, whole: KwsGru) -> None:
        super().__init__()
        self.gru, self.classifier = whole.gru, whole.classifier
        self.register_buffer("state", torch.zeros(1, 1, whole.gru.hidden_size))

    def forward(self, frame: Tensor) -> Tensor:
        states, self.state = self.gru(frame, self.state)
        scores: Tensor = self.classifier(states[:, -1])
        return scores


@pytest.mark.slow
@pytest.mark.qemu
def test_a_recurrent_keyword_spotter_runs_frame_by_frame_with_state(tmp_path: Path) -> None:
    """A frame takes a twentieth of a window's instructions, as many as the document says; the outputs are those of the
    module since its reset."""
    document = (ROOT / "docs" / "streaming.md").read_text()
    torch.manual_seed(3)
    whole = KwsGru().eval()
    frames = torch.randn(4 * 49, 1, 10, generator=torch.Generator().manual_seed(1))
    windows = frames.reshape(4, 1, 49, 10)
    window = prepare(whole, (windows[:1],), windows, name="window")
    steps = prepare(PerFrame(whole).eval(), (frames[:1],), frames, name="steps", options=Options(sequence=49))
    for target in ("cortex-m4", "cortex-m55"):
        compiled = steps.compile(target)
        found = compiled.run(frames[:49])
        assert found.bit_exact
        with torch.no_grad():
            wanted = whole(windows[:1]).numpy()
        assert decibels(wanted, np.asarray(found.outputs[0])[-1:]) > 20
        memory = compiled.report.memory
        assert memory is not None
        assert memory.arena_bytes <= 7_680
        everything = window.compile(target).run(windows[:1]).result.instructions
        assert everything is not None
        assert found.result.instructions is not None
        assert found.result.instructions * 20 <= everything
        assert says(document, found.result.instructions), (target, found.result.instructions)
        assert says(document, everything), (target, everything)


@pytest.mark.host
@pytest.mark.qemu
def test_several_outputs_come_together(tmp_path: Path) -> None:
    torch.manual_seed(3)
    compiled = made(Several(), (1, 1, 20, 6)).compile("cortex-m4", Options(stream=2))
    rows = Rows(compiled, 90)
    rows.check(tmp_path / "host", SANITIZERS)
    found = rows.push_all(tmp_path / "board", "cortex-m0plus")
    for number in range(rows.outputs):
        for values, wanted in zip(found, rows.expected(number), strict=True):
            np.testing.assert_array_equal(values[number], wanted)
    streamed = compiled.stream(np.random.default_rng(5).standard_normal((40, 6)).astype(np.float32))
    assert [one.shape for one in streamed.every] == [(11, 4), (11, 3, 1, 4), (11, 1, 4), (11, 1, 4)]


@pytest.mark.host
@pytest.mark.qemu
def test_rows_stream_on_this_machine_as_on_the_board() -> None:
    torch.manual_seed(3)
    compiled = made(Mean(channels=2), (1, 1, 30, 10)).compile("cortex-m4", Options(stream=2, artifacts=Artifacts.C))
    rows = np.random.default_rng(5).standard_normal((60, 10)).astype(np.float32)
    board, host = compiled.stream(rows), compiled.stream(rows, on="host")
    np.testing.assert_array_equal(host.outputs, board.outputs)
    assert (host.ends, host.instructions) == (board.ends, None)
    mistakes = (
        (rows, "executorch", "streams run the C bundle"),
        (rows[:2], None, "found 2 rows"),
        (rows * np.nan, None, "finite"),
    )
    for given, on, message in (*mistakes, (rows, "mars", "can't run on 'mars'"), (rows[0, 0], None, "found 0 rows")):
        with pytest.raises(CortadoError, match=message):
            compiled.stream(np.asarray(given), on=on)


def test_outputs_that_come_with_different_rows_are_refused() -> None:
    class Apart(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Conv2d(1, 4, (3, 3))

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            x = torch.relu(self.stem(x))
            return x[:, :, -1:] * 2, F.max_pool2d(x, (4, 1))[:, :, -1:]

    with pytest.raises(CortadoError, match="don't come with the same rows"):
        made(Apart(), (1, 1, 22, 5)).compile("cortex-m4", Options(stream=2))


@pytest.mark.slow
@pytest.mark.host
def test_counters_go_round(tmp_path: Path) -> None:
    """They start again after 0x8000 rows, first after 0xC000 of them."""
    torch.manual_seed(3)
    rows = Rows(made(Mean(channels=2), (1, 1, 30, 10)).compile("cortex-m4", Options(stream=2)), 200_000)
    hop, first = rows.stream.hop_rows, rows.stream.first_rows
    turns = [0xC000 + 0x8000 * again for again in range(5)]
    of_input = [(row - first) // hop + near for row in turns for near in range(-3, 4)]
    of_output = [row + near for row in turns[:2] for near in range(-3, 4)]
    some = [number for number in (*of_input, *of_output, rows.outputs - 1) if number < rows.outputs]
    rows.check(tmp_path, some=some)


@pytest.mark.host
@pytest.mark.qemu
def test_windows_one_by_one(tmp_path: Path) -> None:
    """`run` and its like give a stream one window after the other, each after a reset; checks find nothing."""
    model = made(Mean(), (1, 1, 31, 10))  # the last row is never read
    artifact = model.compile("cortex-m4", Options(stream=2)).save(tmp_path / "net")
    stream = artifact.report.stream
    assert stream is not None
    assert (stream.window_rows, stream.hop_rows, stream.first_rows) == (31, 2, 30)
    samples = [[one] for one in np.random.default_rng(0).standard_normal((3, 1, 1, 31, 10), np.float32)]
    assert artifact.run(samples, "host").bit_exact
    board = artifact.run(samples, check_stores=True)
    assert board.bit_exact
    assert len(board.result.pushes) == 30
    assert artifact.run(samples, flags=(RUNTIME_CHECKS,)).bit_exact
    traced = artifact.trace(artifact.feed(samples[0]))
    assert {name for name, rows in traced.items() if rows.data} == {layer.name for layer in artifact.report.layers}


@pytest.mark.cases(1)
@pytest.mark.qemu
@pytest.mark.parametrize(("target", "bytes_"), [("cortex-m4", 7_600), ("cortex-m55", 7_300)])
def test_a_keyword_spotter_of_the_size_of_ds_cnn(target: str, bytes_: int, tmp_path: Path) -> None:
    """A new output takes a twentieth of a window's instructions, and all that is kept fits."""
    model = made(Mean(channels=64, blocks=4, classes=12), (1, 1, 63, 10))
    artifact = model.compile(target, Options(stream=2)).save(tmp_path / "stream")
    stream, memory = artifact.report.stream, artifact.report.memory
    assert stream is not None
    assert memory is not None
    assert memory.arena_bytes <= bytes_
    assert stream.state_bytes <= 7_000
    pushes = artifact.run([artifact.example()], check_stores=True).result.pushes
    output = sum(pushes[stream.first_rows - stream.hop_rows : stream.first_rows])
    whole = model.compile(target).save(tmp_path / "whole")
    window = whole.run([whole.example()]).result.instructions
    assert window is not None
    assert output * 20 <= window


# ---- padding that is dropped -------------------------------------------------------------------------------------


class Same(nn.Module):
    """As many rows behind each layer as before it, but for its stride."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, 6, 3, stride=(2, 1), padding=(rows, 1))
        self.pool, self.second = nn.MaxPool2d(3, 1, padding=(rows, 1)), nn.Conv2d(6, 6, 3, padding=(rows, 1), groups=6)
        self.out = nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.relu(self.second(self.pool(torch.relu(self.first(x))))).mean((2, 3)))


@pytest.mark.host
def test_padding_is_dropped(tmp_path: Path) -> None:
    """The network without padding, made by hand, is what is compiled; ten rows still become one."""
    torch.manual_seed(0)
    padded, plain = Same(1), Same(0).eval()
    plain.load_state_dict(padded.state_dict())
    options = Options(stream=2, stream_padding=StreamPadding.DROP)
    batches = [(torch.randn(1, 2, 20, 5),) for _ in range(4)]
    compiled = prepare(padded, batches[0], batches, name="net", options=options).compile("cortex-m4", options)
    stream = compiled.report.stream
    assert stream is not None
    assert (stream.window_rows, stream.first_rows, stream.hop_rows, stream.delay_rows) == (29, 29, 2, 5)
    assert compiled.report.options.stream_padding is StreamPadding.DROP
    assert padded.first.padding == (1, 1)  # the user's own model is as it was
    Rows(compiled, 100).check(tmp_path / "rows")
    artifact = compiled.save(tmp_path / "net")
    window = torch.randn(1, 2, 29, 5)
    floats = float_model(artifact, padded, batches[0])
    with torch.no_grad():
        torch.testing.assert_close(floats.outputs([window])[0], plain(window))
    found = artifact.run([[window.numpy()]], "host").values[0][0]
    output = compiled.report.outputs[0]
    assert output.scale is not None
    assert np.abs(found - floats.outputs([window])[0].numpy()).max() < 8 * output.scale


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 2, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return (x + self.conv(x)).mean((2, 3))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Residual(), r"without padding in time, no window gives the 12 rows .*must match.*crop the longer one"),
        (nn.Conv2d(2, 2, 3, padding=(0, 1)), "pads in time; compile it without --stream-padding drop"),
    ],
)
def test_padding_that_can_not_be_dropped(model: nn.Module, message: str) -> None:
    options = Options(stream=2, stream_padding=StreamPadding.DROP)
    inputs = (torch.randn(1, 2, 12, 6),)
    with pytest.raises(CortadoError, match=message):
        prepare(model.eval(), inputs, [inputs] * 2, name="net", options=options)


# ---- what can't be streamed --------------------------------------------------------------------------------------


class Padded(nn.Module):
    def __init__(self, above: int, below: int) -> None:
        super().__init__()
        self.conv, self.sides = nn.Conv2d(3, 4, 3), (1, 1, above, below)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(F.pad(x, self.sides)).mean((2, 3))


class Excited(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x)
        return (y * torch.sigmoid(y.mean((2, 3), keepdim=True))).mean((2, 3))


class Positions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bias = nn.Conv2d(3, 4, 3), nn.Parameter(torch.randn(1, 4, 10, 1))

    def forward(self, x: Tensor) -> Tensor:
        return (self.conv(x) + self.bias).mean((2, 3))


@pytest.mark.parametrize(
    ("model", "dim", "message"),
    [
        (Padded(1, 1), 2, r"test_streams.py:\d+ .*pads in time, and the output depends on it.*a window of 14 rows"),
        (Padded(1, 0), 2, r"test_streams.py:\d+ .*pads in time"),
        (Padded(0, 1), 2, r"pads in time"),
        (nn.Conv2d(3, 4, 3), 2, r"net gives 10 rows in time, expected one.*x\[:, :, -1:\]"),
        (Excited(), 2, r"needs all 10 rows of what it reads at once"),
        (Positions(), 2, r"has constants for each of 10 rows"),
        (nn.Sequential(nn.Conv2d(3, 4, 3), nn.Upsample(scale_factor=2), nn.Conv2d(4, 2, (20, 1))), 2, "several rows"),
        (
            Padded(0, 0),
            3,
            r"comes in rows of dimension 2, but --stream says that dimension 3 is time; expected --stream 2",
        ),
    ],
)
def test_what_can_not_be_streamed(model: nn.Module, dim: int, message: str) -> None:
    torch.manual_seed(0)
    with pytest.raises(CortadoError, match=message):
        made(model, (1, 3, 12, 8)).compile("cortex-m4", Options(stream=dim))
