"""Every element in every report: a type, a range or a share that is printed is that of the network's own codes.

The oracle is plain: what a code of a type can be (NumPy), times the scale; and the values that the module has.
"""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cortado.api import prepare
from cortado.artifact.opened import PAGE, Artifact
from cortado.models.zoo._trained import load_accuracy
from cortado.options import Activations, Artifacts, Options, PackageKind, Weights
from cortado.scoring.saturation import saturation
from cortado.scoring.validate import validate

pytestmark = [pytest.mark.filterwarnings("ignore::cortado.base.errors.CortadoWarning"), pytest.mark.host]


class Net(nn.Module):
    """A layer, a mean, a classifier that is sure of itself: its softmax is 1 nearly everywhere."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.out = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 1), nn.Linear(8, 4)
        with torch.no_grad():
            self.out.weight.mul_(2000)

    def forward(self, x: Tensor) -> Tensor:
        seen = torch.relu(self.second(torch.relu(self.first(x)))).mean((2, 3))
        return torch.softmax(self.out(seen), 1)


CASES = {
    "int8": (Options(), {"int8"}, "int8"),
    "int16": (Options(activations=Activations.INT16), {"int16"}, "int16"),
    "mixed": (Options(int16=("first",)), {"int8", "int16"}, "int8 and int16"),
    "int4": (Options(weights=Weights.INT4), {"int8"}, "int8, with int4 weights"),
}


def batches(count: int, seed: int) -> list[tuple[Tensor, ...]]:
    generator = torch.Generator().manual_seed(seed)
    return [(torch.randn(1, 3, 8, 8, generator=generator),) for _ in range(count)]


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Artifact]:
    torch.manual_seed(3)
    options = replace(CASES[request.param][0], artifacts=Artifacts.C, package=(PackageKind.PLATFORMIO,))
    data = batches(12, 1)
    found = prepare(Net().eval(), data[0], data, "net", options=options).compile("cortex-m4", options)
    return request.param, found.save(tmp_path_factory.mktemp("elements") / "net")


def table(artifact: Artifact, name: str) -> list[list[str]]:
    """The cells of a table of report.html, without markup."""
    page = (artifact.folder / PAGE).read_text()
    body = page.split(f'id="{name}"')[1].split("<tbody>")[1].split("</tbody>")[0]
    rows = re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL)
    return [[re.sub(r"<.*?>", "", cell) for cell in re.findall(r"<td.*?</td>", row, re.DOTALL)] for row in rows]


def printed(low: float, high: float) -> tuple[str, str]:
    return f"{low:.4g}", f"{high:.4g}"


def test_each_printed_range_is_that_of_the_codes(case: tuple[str, Artifact]) -> None:
    """By what NumPy says of the type; and no value of the network lies outside."""
    name, artifact = case
    report, graph = artifact.report, artifact.graph
    layers = [layer for layer in report.layers if layer.scale is not None]
    kinds = {layer.name: str(graph.values[layer.name].dtype).removeprefix("torch.") for layer in layers}
    assert {layer.name: layer.element for layer in layers} == kinds
    assert set(kinds.values()) == CASES[name][1]
    values = [artifact.values([one.numpy() for one in batch]) for batch in batches(12, 1)]
    rows = table(artifact, "quantization")
    assert len(rows) == len(layers)
    for layer, row in zip(layers, rows, strict=True):
        limits, zero, scale = np.iinfo(kinds[layer.name]), layer.zero_point, layer.scale
        assert scale is not None
        assert zero is not None
        low, high = ((code - zero) * scale for code in (limits.min, limits.max))
        assert tuple(row[2:7]) == (kinds[layer.name], f"{scale:.9g}", str(zero), *printed(low, high)), layer.name
        made = np.stack([one[layer.name].numpy() for one in values]).astype(np.float64)
        real = (made - zero) * scale
        assert low <= real.min() <= real.max() <= high
    for tensor, row in zip((*report.inputs, *report.outputs), table(artifact, "tensors"), strict=True):
        limits = np.iinfo(tensor.dtype.value)
        assert tensor.scale is not None
        assert tensor.zero_point is not None
        ends = [(code - tensor.zero_point) * tensor.scale for code in (limits.min, limits.max)]
        assert row[3] == tensor.dtype.value
        assert tuple(row[6:8]) == printed(*ends)


def test_the_range_of_the_input_is_that_of_the_data(case: tuple[str, Artifact]) -> None:
    """Independent of any scale: what calibration saw, and little more; int16 has room for four times as much."""
    name, artifact = case
    most = max(float(batch[0].abs().max()) for batch in batches(12, 1))
    row = table(artifact, "tensors")[0]
    room = 1.3 if row[3] == "int8" else 4.2
    assert 0.8 * most < max(-float(row[6]), float(row[7])) < room * most, name


def test_probabilities_at_their_full_scale_are_not_saturated(case: tuple[str, Artifact]) -> None:
    _, artifact = case
    samples = [[one.numpy() for one in batch] for batch in batches(30, 2)]
    codes = np.stack([out[0] for out in artifact.reference(samples).expected])
    assert (codes == np.iinfo(codes.dtype).max).mean() > 0.1  # there are some at the end
    output = artifact.report.outputs[0].node
    assert output not in {one.tensor for one in saturation(artifact, samples)}


def test_zeros_of_a_relu_are_not_saturated(case: tuple[str, Artifact]) -> None:
    """They are no values that a range cut off: with louder data only the largest codes count."""
    name, artifact = case
    samples = [[2 * one.numpy() for one in batch] for batch in batches(6, 4)]
    values = [artifact.values(sample) for sample in samples]
    limits = {layer.name: np.iinfo(values[0][layer.name].numpy().dtype) for layer in artifact.report.layers}
    lowest = [layer for layer in artifact.report.layers if layer.zero_point == limits[layer.name].min]
    relus = [layer.name for layer in lowest if "softmax" not in layer.operator]  # its range is all that there is
    found = {one.tensor: one.saturated for one in saturation(artifact, samples)}
    zeros = 0
    for relu in relus:
        codes = np.stack([one[relu].numpy() for one in values])
        zeros += (codes == limits[relu].min).sum()
        assert found.get(relu, 0) == (codes == limits[relu].max).sum()
    assert zeros > 0 or CASES[name][1] == {"int16"}  # whose zero points are all 0


@pytest.mark.qemu
def test_words_name_what_the_network_computes_in(case: tuple[str, Artifact]) -> None:
    """In the summary, in the packages; and everywhere it computes the same."""
    name, artifact = case
    words = CASES[name][2]
    assert f"net for cortex-m4 in {words}: " in repr(artifact)
    assert f"net in {words} for cortex-m4" in (artifact.folder / "platformio" / "library.json").read_text()
    found = validate(artifact, [[one.numpy() for one in batch] for batch in batches(3, 5)], per_layer=True)
    assert [place.exact for place in found.places[1:]] == [3, 3]
    assert all(set(layer.differing.values()) == {0} for layer in found.layers)


def test_a_score_that_was_measured_in_int8_is_not_said_of_another() -> None:
    score = load_accuracy("ds_cnn")
    assert score.beside("int8") == str(score)
    assert score.beside("int16") == f"{score}; not measured in int16"


def test_layers_of_float32_show_what_the_example_gave_and_the_scales_of_their_weights() -> None:
    torch.manual_seed(3)
    options, model = Options(activations=Activations.FLOAT32, artifacts=Artifacts.C), Net().eval()
    (x,) = batches(1, 1)[0]
    compiled = prepare(model, (x,), name="net", options=options).compile("cortex-m4", options)
    report, scores = compiled.report, compiled.run(x, on="host").outputs[0]
    given, made = report.inputs[0].seen, report.outputs[0].seen
    assert given is not None
    assert (given.least, given.largest) == (float(x.min()), float(x.max()))
    assert made is not None
    assert (made.least, made.largest) == (float(scores.min()), float(scores.max()))
    assert all(layer.seen is not None and layer.seen.least <= layer.seen.largest for layer in report.layers)
    scales = [layer.weight_scales for layer in report.layers if layer.weights_bytes]
    weights = [layer.weight.detach().abs() for layer in (model.first, model.second, model.out)]
    assert [one.channels for one in scales if one] == [len(one) for one in weights]
    for one, weight in zip(scales, weights, strict=True):
        assert one is not None
        assert one.largest == pytest.approx(float(weight.max()) / 127, rel=1e-5)
