"""The models of combinations, small and plain: one or a few for each form, with sizes from a seed, and their data."""

import copy
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cortado.learning import SGD, prototypes, trainable
from fuzz.combinations import Form

Array = np.ndarray[Any, np.dtype[Any]]
Turn = tuple[Any, ...]  # the name of a method, and its inputs
CLASSES = 4
RULE = "smooth=2,threshold=0.3"


class Images(nn.Module):
    """[1, 3, H, W] as scores: a strided window, a pixelwise layer, a mean, a classifier."""

    def __init__(self, stride: int, width: int, softmax: bool = False) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 6, 3, stride=(stride, 1)), nn.Conv2d(6, width, 1)
        self.out, self.softmax = nn.Linear(width, 4), softmax

    def seen(self, x: Tensor) -> Tensor:
        return torch.relu(self.second(torch.relu(self.first(x)))).mean((2, 3))

    def forward(self, x: Tensor) -> Any:
        found = self.out(self.seen(x))
        return torch.softmax(6 * found, 1) if self.softmax else found


class Several(Images):
    """Scores, and what they are made of."""

    def forward(self, x: Tensor) -> Any:
        seen = self.seen(x)
        return self.out(seen), seen


class Truths(Images):
    """Which scores are above a threshold."""

    def forward(self, x: Tensor) -> Any:
        return self.out(self.seen(x)) > 0.05


class Remembering(nn.Module):
    """An average over steps, and scores of it."""

    kept: Tensor

    def __init__(self, width: int, softmax: bool = False) -> None:
        super().__init__()
        self.first, self.out, self.softmax = nn.Linear(6, width), nn.Linear(width, 4), softmax
        self.register_buffer("kept", torch.zeros(1, width))

    def forward(self, x: Tensor) -> Tensor:
        self.kept = 0.75 * self.kept + 0.25 * torch.relu(self.first(x))
        found: Tensor = self.out(self.kept)
        return torch.softmax(6 * found, 1) if self.softmax else found


class Sound(nn.Module):
    """Samples as scores: `stft(points, hop, length)`, a layer over frames, a mean."""

    window: Tensor
    bands: Tensor

    def __init__(self, points: int, hop: int, length: int) -> None:
        super().__init__()
        self.frames = points, hop, length
        self.register_buffer("window", torch.hann_window(length))
        self.register_buffer("bands", torch.rand(points // 2 + 1, 6) / points)
        self.first, self.out = nn.Conv2d(1, 4, (2, 6)), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        found = torch.stft(x.float() / 32768, *self.frames, self.window, center=False, return_complex=True)
        bands = torch.log(found.abs().square().transpose(1, 2) @ self.bands + 1e-4)
        return self.out(torch.relu(self.first(bands[:, None])).mean((2, 3)))


class Taught(nn.Module):
    """Scores of rows, and how often each feature was there in the rows that it was taught."""

    seen: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.out = nn.Linear(6, width), nn.Linear(width, 4)
        self.register_buffer("seen", torch.zeros(1, width, dtype=torch.int32))

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.relu(self.first(x)))

    def learn(self, x: Tensor) -> Tensor:
        self.seen = self.seen + (x.sum(1, keepdim=True) > 0).int() + (x[:, :1] > 0.5).int()
        return self.seen


class Scores(nn.Module):
    """Scores of rows, by a layer and a head that a device trains."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.out = nn.Linear(6, width), nn.Linear(width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.out(torch.relu(self.first(x)))
        return found


class Words(nn.Module):
    """Ids as scores."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.table, self.first, self.out = nn.Embedding(11, width), nn.Linear(width, 8), nn.Linear(8, 4)

    def forward(self, ids: Tensor) -> Tensor:
        return self.out(torch.relu(self.first(self.table(ids))).mean(1))


class Call(nn.Module):
    """A layer, and a call over its channels that has no integer operator."""

    def __init__(self, layer: nn.Module, call: Callable[[Tensor, int], Tensor]) -> None:
        super().__init__()
        self.layer, self.call = layer, call

    def forward(self, x: Tensor) -> Tensor:
        found = self.layer(x)
        return self.call(found, 1 if isinstance(self.layer, nn.Conv2d) else -1)


def _products(x: Tensor, dim: int) -> Tensor:
    return torch.cumprod(0.25 * torch.tanh(x) + 1, dim)


def _normed(x: Tensor, dim: int) -> Tensor:
    return x / (1 + torch.linalg.norm(x, 3, dim=dim, keepdim=True))


def _angles(x: Tensor, dim: int) -> Tensor:
    """Its numbers have a float kernel in ExecuTorch too."""
    return torch.atan2(x, 1 + x.flip(dim).square())


def _spectrum(x: Tensor, dim: int) -> Tensor:
    return torch.fft.fft(x, dim=dim).abs()


CALLS = _products, _normed, _angles, _spectrum


def with_call(model: "Model", seed: int) -> "Model":
    """Returns the model with a call that no integer operator takes, behind its first layer or its last."""
    rng = Random(seed)
    place, call = rng.choice(("first", "out")), rng.choice(CALLS)
    setattr(model.module, place, Call(getattr(model.module, place), call))
    return model


@dataclass(frozen=True)
class Model:
    """A module, its inputs by seed, and the options that make it of its form."""

    module: nn.Module
    given: Callable[[int], list[Array]]
    options: dict[str, Any] = field(default_factory=dict)
    sequence: int | None = None  # steps of a model with state
    hop_rows: int = 0  # of a stream, by hand
    push: int = 1  # samples of a row
    methods: "Methods | None" = None
    eager: nn.Module | None = None  # whose forward is the user's own; by default the module

    @property
    def time(self) -> int:
        """The dimension of a stream that is time."""
        return int(self.options["stream"])


@dataclass(frozen=True)
class Methods:
    """Methods that are compiled beside each other: how a user calls them in turns on the inputs of these seeds, and a
    plain model of what they give, from the beginning, with how far a number may be from it."""

    turns: Callable[[Iterable[int]], list[Turn]]
    plain: Callable[[list[Turn]], list[list[Array]]]
    apart: float

    def examples(self) -> dict[str, tuple[Tensor, ...]]:
        found: dict[str, tuple[Tensor, ...]] = {}
        for name, *values in self.turns(range(1)):
            found.setdefault(name, tuple(values))
        return found


def reals(*shape: int) -> Callable[[int], list[Array]]:
    return lambda seed: [np.random.default_rng(seed).normal(size=shape).astype(np.float32)]


def _sound(samples: int) -> Callable[[int], list[Array]]:
    def given(seed: int) -> list[Array]:
        rng = np.random.default_rng(seed)
        loud = np.repeat(2.0 ** -rng.integers(0, 6, -(-samples // 40)), 40)[:samples]
        return [(loud * rng.uniform(-32000, 32000, samples)).astype(np.int16)[None]]

    return given


def model_of(form: Form, seed: int, *, own_layers: bool = False) -> Model:
    """The model of a form with sizes of a seed; with `own_layers`, its module has the layers that forward calls."""
    rng = Random(seed)
    torch.manual_seed(seed)
    stride, width, rows = rng.choice((1, 2)), rng.choice((4, 8, 11)), rng.randrange(9, 15)
    picture = reals(1, 3, rows, 8)
    if form is Form.STATE:
        return Model(Remembering(width).eval(), reals(1, 6), sequence=6)
    if form is Form.METHODS:
        made = rng.choice((_counting, _by_gradients, _by_examples))
        return _counting(rng, width) if own_layers else made(rng, width)
    if form is Form.SAMPLE_STREAM:
        return _of_sound(rng)
    if form is Form.IDS:
        length = rng.randrange(3, 9)
        ids = lambda seed: [np.random.default_rng(seed).integers(0, 11, (1, length))]  # noqa: E731
        return Model(Words(width).eval(), ids)
    if form is Form.DECISION and rng.random() < 0.5:
        return Model(Remembering(width, softmax=True).eval(), reals(1, 6), {"decide": RULE}, sequence=6)
    if form in (Form.ROW_STREAM, Form.DECISION):
        decided = form is Form.DECISION
        options: dict[str, Any] = {"stream": 2, **({"decide": RULE} if decided else {})}
        return Model(Images(stride, width, softmax=decided).eval(), picture, options, hop_rows=stride)
    if form is Form.WATCHED:
        endless = {"stream": 2} if rng.random() < 0.5 else {}
        return Model(Images(stride, width).eval(), picture, {"watch": "second", **endless}, hop_rows=stride)
    if form is Form.CAMERA:
        camera = {
            "input_format": "rgb888",
            "input_size": "20x18",
            "resize": f"8x{rows}",
            "input_rows": rng.random() < 0.5,
        }
        return Model(Images(stride, width).eval(), picture, camera)
    kinds = {Form.SEVERAL: Several, Form.TRUTH: Truths}
    return Model(
        kinds.get(form, Images)(stride, width).eval(), picture, {"input_rows": True} if form is Form.ROWS else {}
    )


def _counting(rng: Random, width: int) -> Model:
    """Counts features of what it is taught."""
    module, given = Taught(width).eval(), reals(1, 6)

    def turns(seeds: Iterable[int]) -> list[Turn]:
        return [(name, torch.from_numpy(given(seed)[0])) for seed in seeds for name in ("learn", "forward")]

    def plain(calls: list[Turn]) -> list[list[Array]]:
        own = copy.deepcopy(module)
        with torch.no_grad():
            return [[getattr(own, name)(*values).numpy()] for name, *values in calls]

    return Model(module, given, methods=Methods(turns, plain, 1.0))


def _by_gradients(rng: Random, width: int) -> Model:
    """Trains its head; the plain model is trained by torch's own optimizer."""
    how: dict[str, Any] = {"momentum": rng.choice((0.0, 0.9)), "weight_decay": rng.choice((0.0, 0.01))}
    net, given, clip, rate = Scores(width).eval(), reals(1, 6), rng.choice((None, 0.5)), rng.choice((0.05, 0.2))
    hot = torch.eye(CLASSES)
    optimizer = SGD(lr=rate, clip=clip, **how)
    module = trainable(net, "out.*", optimizer=optimizer, examples=(torch.zeros(1, 6),), target=hot[:1])

    def turns(seeds: Iterable[int]) -> list[Turn]:
        inputs = [torch.from_numpy(given(seed)[0]) for seed in seeds]
        lessons = [("learn", x, hot[x[:, :CLASSES].argmax(1)]) for x in inputs]
        return [call for x, lesson in zip(inputs, lessons, strict=True) for call in (lesson, ("forward", x))]

    def plain(calls: list[Turn]) -> list[list[Array]]:
        own = copy.deepcopy(net)
        head = list(own.out.parameters())
        torchs, found = torch.optim.SGD(head, rate, foreach=False, **how), []
        for _, x, *targets in calls:
            made = own(x)
            if targets:
                torchs.zero_grad()
                made = nn.functional.cross_entropy(made, targets[0])
                made.backward()
                if clip is not None:
                    nn.utils.clip_grad_norm_(head, clip, foreach=False)
                torchs.step()
            found.append([made.detach().numpy()])
        return found

    return Model(module, given, methods=Methods(turns, plain, 0.25), eager=net)


def _by_examples(rng: Random, width: int) -> Model:
    """Keeps the sums of features of what it is taught; the plain model is cosines with means of real numbers."""
    body = nn.Sequential(OrderedDict(first=nn.Linear(6, 2 * width), out=nn.ReLU())).eval()
    given = reals(1, 6)
    samples = torch.cat([torch.from_numpy(given(seed)[0]) for seed in range(24)])
    module = prototypes(body, CLASSES, samples=samples)
    with torch.no_grad():
        size = body(samples).square().mean(0).sqrt()
    factors = 1 / (size + 0.1 * size.mean())

    def label(x: Tensor) -> Tensor:
        return x[:, :CLASSES].argmax(1).to(torch.int32)

    def turns(seeds: Iterable[int]) -> list[Turn]:
        inputs = [torch.from_numpy(given(seed)[0]) for seed in seeds]
        lessons: list[list[Turn]] = [[("learn", x, label(x)), ("forward", x)] for x in inputs]
        return [call for lesson in lessons for call in lesson] + [("forget", label(inputs[0])), ("forward", inputs[-1])]

    def plain(calls: list[Turn]) -> list[list[Array]]:
        taught: dict[int, list[Tensor]] = {}
        found = []
        for name, *values in calls:
            if name == "forget":
                taught.pop(int(values[0]), None)
            if name == "learn":
                taught.setdefault(int(values[1]), []).append(body(values[0]).detach()[0] * factors)
            near = {}
            if name == "forward":
                own = body(values[0]).detach()[0] * factors
                near = {
                    one: nn.functional.cosine_similarity(own, torch.stack(rows).mean(0), 0)
                    for one, rows in taught.items()
                }
            # Which class is the nearest is left open: two of them may be equally near.
            found.append(
                [np.empty(0), np.array([float(max(near.values(), default=-1.0))])] if name == "forward" else []
            )
        return found

    options = {"int16": ("near.*",)}
    return Model(module, given, options, methods=Methods(turns, plain, 0.15))


def _of_sound(rng: Random) -> Model:
    """Any window, hop and remainder."""
    points = rng.choice((32, 64, 128))
    length = rng.choice((points, points * 5 // 8, points // 4))
    hop = rng.choice((points // 4, points // 2 - 2, length, 20))
    frames = rng.randrange(4, 8)
    samples = -(-(points + hop * (frames - 1)) // hop) * hop
    return Model(Sound(points, hop, length).eval(), _sound(samples), {"stream": 1}, hop_rows=1, push=hop)
