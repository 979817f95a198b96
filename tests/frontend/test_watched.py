"""How unlike calibration an input is (--watch): beside a plain computation in NumPy, and in C."""

import inspect
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import cortado
from cortado import Options
from cortado.artifact.streamed import push_rows
from cortado.base.errors import CortadoError
from cortado.frontend.capture.watched import watched
from helpers.cli import Run

pytestmark = [pytest.mark.host, pytest.mark.filterwarnings("ignore::cortado.CortadoWarning")]


class Net(nn.Module):
    """Classes are kinds of the input; features are those behind the pool."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Sequential(nn.Conv2d(1, 12, 3), nn.ReLU())
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(12, 3)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.head(self.pool(self.body(x)).flatten(1))
        return found


def _data(count: int, seed: int) -> Tensor:
    """Gratings of three directions, in noise."""
    random = torch.Generator().manual_seed(seed)
    rows, columns = torch.meshgrid(torch.arange(8.0), torch.arange(8.0), indexing="ij")
    waves = torch.stack([torch.sin(rows * 1.5), torch.sin(columns * 1.5), torch.sin((rows + columns) * 1.1)])
    kinds = torch.arange(count) % 3
    return waves[kinds][:, None] + 0.2 * torch.randn(count, 1, 8, 8, generator=random)


def _strange(count: int) -> Tensor:
    return torch.randn(count, 1, 8, 8, generator=torch.Generator().manual_seed(9)) * 1.2


def test_surprise_is_the_distance_from_the_nearest_class_beside_held_back_data() -> None:
    model, data = Net().eval(), _data(120, 1)
    found = watched(model, [(one[None],) for one in data], "pool")
    with torch.no_grad():
        features = model.pool(model.body(data)).flatten(1).double().numpy()
        classes = model(data).argmax(1).numpy()
        fresh = _data(30, 2)
        scores, surprise = zip(*(found(one[None]) for one in fresh), strict=True)
        new = model.pool(model.body(fresh)).flatten(1).double().numpy()
        assert torch.equal(torch.cat(scores), torch.cat([model(one[None]) for one in fresh]))

    def distances(rows: np.ndarray, known: np.ndarray, kinds: np.ndarray) -> np.ndarray:
        every = {kind: int((kinds == kind).sum()) for kind in set(kinds)}
        means = {
            kind: known[kinds == kind].mean(0) for kind, size in every.items() if size >= np.mean([*every.values()]) / 2
        }
        pairs = [(row, kind) for row, kind in zip(known, kinds, strict=True) if kind in means]
        variance = np.mean([(row - means[kind]) ** 2 for row, kind in pairs], axis=0)
        spread = np.sqrt(variance + 0.01 * variance.mean())
        return np.array([min(np.linalg.norm((row - one) / spread) for one in means.values()) for row in rows])

    fold = np.empty(120, dtype=int)
    fold[np.argsort(classes, kind="stable")] = np.arange(120) % 5
    held = [distances(features[fold == one], features[fold != one], classes[fold != one]) for one in range(5)]
    limit = np.quantile(np.concatenate(held), 0.99)
    expected = distances(new, features, classes) / limit
    assert np.allclose(torch.cat(surprise).numpy(), expected, rtol=1e-3)


def test_the_limit_does_not_depend_on_an_order_in_which_classes_take_turns() -> None:
    """With as many classes as folds, or a divisor, a fold of every fifth sample would hold back a class whole."""
    random = torch.Generator().manual_seed(3)
    kinds = torch.arange(200) % 5
    data = 9.0 * torch.eye(12)[kinds] + torch.randn(200, 12, generator=random)

    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.features, self.head = nn.Identity(), nn.Linear(12, 5)
            self.head.requires_grad_(False).weight.copy_(torch.eye(12)[:5])

        def forward(self, x: Tensor) -> Tensor:
            found: Tensor = self.head(self.features(x))
            return found

    fresh = 9.0 * torch.eye(12)[kinds] + torch.randn(200, 12, generator=random)
    for order in (torch.arange(200), kinds.argsort(stable=True)):
        found = watched(Plain().eval(), [(one[None],) for one in data[order]], "features")
        with torch.no_grad():
            near = torch.cat([found(one[None])[1] for one in fresh])
        assert 0.9 < float(near.quantile(0.99)) < 1.1
        assert float(found(torch.full((1, 12), 9.0))[1]) > 3.0


def test_c_tells_strange_inputs_and_evaluate_scores_it(tmp_path: Path, run: Run) -> None:
    data, model = _data(120, 1), Net().eval()
    options = Options(watch="pool", artifacts="c")
    compiled = cortado.compile(model, (data[:1],), "cortex-m4", data, "net", options)
    layers = {layer.module: layer for layer in compiled.report.layers}
    assert "body.0" in layers  # the user's names stay
    assert compiled.report.outputs[-1].dtype.value == "int16"
    fresh, strange = _data(40, 2), _strange(40)
    ran = compiled.run(np.concatenate([fresh.numpy(), strange.numpy()]), on="host")
    assert ran.bit_exact
    folder = tmp_path / "net"
    compiled.save(folder)
    np.save(tmp_path / "data.npy", fresh.numpy())
    np.save(tmp_path / "strange.npy", strange.numpy())
    np.save(tmp_path / "labels.npy", np.arange(40) % 3)
    given = ("--data", tmp_path / "data.npy", "--labels", tmp_path / "labels.npy")
    source = f"import torch\nfrom torch import Tensor, nn\n\n{inspect.getsource(Net)}\n"
    (tmp_path / "net.py").write_text(
        f"{source}ModelUnderTest = Net().eval()\nModelInputs = (torch.zeros(1, 1, 8, 8),)\n"
    )
    model_file = tmp_path / "net.py"
    done = run("evaluate", folder, *given, "--strange", tmp_path / "strange.npy", "--model", model_file)
    assert done.code == 0, done.err
    found = re.search(r"surprise: AUC ([\d.]+); above its limit ([\d.]+)% of the data, ([\d.]+)% of others", done.out)
    assert found is not None
    auc, beyond, caught = map(float, found.groups())
    assert auc > 0.95
    assert beyond <= 15.0
    assert caught > 50.0
    header = (folder / "net.h").read_text()
    limit = int(re.search(r"#define NET_SURPRISE_LIMIT (\d+)", header)[1])  # type: ignore[index]
    assert abs(limit * compiled.report.outputs[-1].scale - 1.0) < 0.01


@pytest.mark.parametrize("activations", ["int8", "int16"])
def test_the_surprise_of_a_stream_is_that_of_its_window(activations: str, tmp_path: Path) -> None:
    """Beside the module on each window, in some of which strange rows are: the same number, up to the range of codes,
    and the same verdict."""
    data, model = _data(60, 1), Net().eval()
    options = Options(watch="pool", stream=2, artifacts="c", activations=activations)
    artifact = cortado.compile(model, (data[:1],), "cortex-m4", data, "net", options).save(tmp_path / "net")
    rows = torch.cat([data[0], _strange(1)[0], data[3]], 1)  # [1, 24, 8]
    found = push_rows(artifact, rows.transpose(0, 1).numpy(), "host")
    surprise = watched(model, [(one[None],) for one in data], "pool")
    with torch.no_grad():
        expected = torch.cat([surprise(rows[None, :, end - 7 : end + 1])[1] for end in found.ends]).numpy()
    told, calm = found.every[-1].reshape(-1), expected < 1.0
    assert np.abs(told - expected)[calm].max() < 0.05
    assert np.array_equal(told < 1.0, calm)
    assert 1 < calm.sum() < len(calm) - 4
    assert "the window of the last output differs" in " ".join((tmp_path / "net" / "net.h").read_text().split())


def test_an_estimate_counts_what_watching_takes() -> None:
    """Without calibration data: as many classes as there are scores."""
    data, model = _data(60, 1), Net().eval()
    options = Options(watch="pool", artifacts="c")
    plain = cortado.estimate(model, (data[:1],), target="cortex-m4", options=Options(artifacts="c"))
    found = cortado.estimate(model, (data[:1],), target="cortex-m4", options=options)
    compiled = cortado.compile(model, (data[:1],), "cortex-m4", data, "net", options)
    assert compiled.planned is not None
    assert found.ram_bytes == compiled.planned.plan.peak
    assert found.cycles > plain.cycles
    assert len(found.layers) == len(compiled.planned.program.steps)
    with pytest.raises(CortadoError, match="has no such layer"):
        cortado.estimate(model, (data[:1],), target="cortex-m4", options=Options(watch="nowhere"))


WRONG = [
    ("head.0", 40, "has no such layer, expected one of body, body.0"),
    ("pool", 10, "needs at least 20 calibration samples, found 10"),
    ("unused", 40, "the layer does not run"),
]


@pytest.mark.parametrize(("layer", "count", "message"), WRONG)
def test_what_can_not_be_watched_is_refused(layer: str, count: int, message: str) -> None:
    model = Net().eval()
    model.unused = nn.Linear(2, 2)
    with pytest.raises(CortadoError, match=message):
        cortado.compile(model, (_data(1, 1),), "cortex-m4", _data(count, 1), options=Options(watch=layer))
