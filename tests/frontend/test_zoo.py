"""The zoo: the networks are the ones the baselines were measured on, alive, and the same on every build."""

import json
import random
import subprocess
import sys
from collections.abc import Callable

import numpy
import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.flop_counter import FlopCounterMode

from cortado.base.errors import CortadoError
from cortado.models import zoo
from cortado.models.zoo.mobilenets import BottleneckBlock
from helpers.paths import ROOT
from helpers.values import present

BASELINES = {
    name: facts
    for name, facts in json.loads((ROOT / "benchmarks" / "baselines.json").read_text())["networks"].items()
    if name != "note"
}
NAMES = (
    "ds_cnn",
    "kws_stream",
    "kws_gru",
    "mobilenet_v1_025",
    "resnet8",
    "deep_autoencoder",
    "mobilenet_v2",
    "mobilenet_v3_small",
    "ecg_conv1d",
    "imu_lstm",
    "mobilenet_tiny",
    "mobilenet_v1_pruned",
    "unet_small",
)
RANDOM = ("mobilenet_v1_025", "mobilenet_v2", "mobilenet_v3_small", "unet_small")
RECURRENT = ("kws_gru", "imu_lstm")
NORMAL = ("mobilenet_v2", "mobilenet_v3_small")
every_network = pytest.mark.parametrize("name", NAMES)
every_random_network = pytest.mark.parametrize("name", RANDOM)


@pytest.fixture(scope="module")
def built() -> dict[str, nn.Module]:
    """Every network built once, shared by the tests that only look."""
    return {name: zoo.get(name).build() for name in NAMES}


def layer_outputs(model: nn.Module, kinds: tuple[type[nn.Module], ...], inputs: Tensor) -> dict[str, Tensor]:
    """What each layer of the given kinds gives for `inputs`."""
    outputs: dict[str, Tensor] = {}

    def recorder(path: str) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
        def record(module: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> None:
            outputs[path] = output

        return record

    handles = [
        module.register_forward_hook(recorder(path))
        for path, module in model.named_modules()
        if isinstance(module, kinds)
    ]
    with torch.no_grad():
        model(inputs)
    for handle in handles:
        handle.remove()
    return outputs


def test_names() -> None:
    assert zoo.names() == NAMES
    assert tuple(name for name in NAMES if not zoo.get(name).trained) == RANDOM


@pytest.mark.cases(2)
@pytest.mark.parametrize("name", BASELINES)
def test_counts_equal_the_baselines(name: str) -> None:
    facts, described = BASELINES[name], zoo.get(name).describe()
    assert described.parameters == facts["params"]
    assert described.macs == facts.get("macs", described.macs)
    assert described.input_shapes == (tuple(facts["input"]),)


@pytest.mark.cases(3)
@every_network
def test_description_fits_the_built_network(name: str, built: dict[str, nn.Module]) -> None:
    network, model = zoo.get(name), built[name]
    described = network.describe()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(*network.example_inputs())
    # oneDNN counts nothing in its LSTM: 64 frames, 4 gates of 32 units over 6 values and 32 states.
    uncounted = 64 * 4 * 32 * (6 + 32) if name == "imu_lstm" else 0
    assert described.macs == counter.get_total_flops() // 2 + uncounted
    assert described.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert described.input_shapes == tuple(tuple(x.shape) for x in network.example_inputs())
    assert (described.name, described.summary) == (name, network.summary)


@pytest.mark.cases(3)
@every_network
def test_builds_are_identical_whatever_the_seed_and_threads(name: str, built: dict[str, nn.Module]) -> None:
    expected, threads = built[name].state_dict(), torch.get_num_threads()
    torch.manual_seed(4321)
    torch.set_num_threads(1 if threads > 1 else 2)
    try:
        again = zoo.get(name).build().state_dict()
    finally:
        torch.set_num_threads(threads)
    assert list(again) == list(expected)
    assert [key for key in again if not torch.equal(again[key], expected[key])] == []


@pytest.mark.cases(1)
@pytest.mark.parametrize("name", ["ds_cnn", "deep_autoencoder", "ecg_conv1d", "unet_small"])
def test_random_state_is_untouched(name: str) -> None:
    network = zoo.get(name)
    before = torch.get_rng_state(), random.getstate(), numpy.random.get_state()
    network.build()
    network.example_inputs()
    network.calibration(2)
    network.describe()
    after = torch.get_rng_state(), random.getstate(), numpy.random.get_state()
    assert torch.equal(before[0], after[0])
    assert before[1] == after[1]
    numpy.testing.assert_equal(before[2], after[2])


@every_network
def test_built_network_is_float32_in_eval_mode(name: str, built: dict[str, nn.Module]) -> None:
    model = built[name]
    assert [path for path, module in model.named_modules() if module.training] == []
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    norms = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    assert bool(norms) == (name not in RECURRENT)
    assert {present(norm.running_var).dtype for norm in norms} == {torch.float32} or not norms
    assert {norm.momentum for norm in norms} <= {0.1}


@pytest.mark.cases(3)
@every_network
def test_activations_neither_vanish_nor_explode(name: str, built: dict[str, nn.Module]) -> None:
    inputs = torch.cat([x for (x,) in zoo.get(name).calibration(4)])
    kinds = (nn.Conv1d, nn.Conv2d, nn.ConvTranspose2d, nn.Linear)
    outputs = layer_outputs(built[name], kinds, inputs)
    for path, output in outputs.items():
        assert torch.isfinite(output).all(), path
        assert 1e-2 < output.std() < 20, path
    with torch.no_grad():
        scores = built[name](inputs)
    assert scores.std() > 0.1
    assert scores.std(dim=0).mean() > 1e-2, "the output doesn't depend on the input"


@pytest.mark.cases(1)
@every_random_network
def test_batch_norms_normalise_fresh_inputs(name: str, built: dict[str, nn.Module]) -> None:
    inputs = torch.cat([x for (x,) in zoo.get(name).calibration(8, seed=5)])
    modules = dict(built[name].named_modules())
    for path, output in layer_outputs(built[name], (_BatchNorm,), inputs).items():
        channels = output.transpose(0, 1).flatten(1)
        standard = (channels - modules[path].bias[:, None]) / modules[path].weight[:, None]
        assert standard.mean(dim=1).abs().mean() < 0.4, path
        assert 0.7 < standard.std(dim=1).mean() < 1.4, path


@pytest.mark.cases(1)
@every_random_network
def test_calibration_is_deterministic_and_extends(name: str) -> None:
    network = zoo.get(name)
    three, five, other = network.calibration(3), network.calibration(5), network.calibration(3, seed=1)
    assert (len(three), len(five)) == (3, 5)
    for (x,), (y,) in zip(three, five, strict=False):
        assert torch.equal(x, y)
    distinct, shape = [*five, *other, network.example_inputs()], network.describe().input_shapes[0]
    for i, (x,) in enumerate(distinct):
        assert x.dtype == torch.float32
        assert x.shape == shape
        assert not any(torch.equal(x, y) for (y,) in distinct[:i])
    assert torch.equal(network.example_inputs()[0], network.example_inputs()[0])


def test_unit_range_inputs() -> None:
    x = torch.cat([x.flatten() for (x,) in zoo.get("mobilenet_v1_025").calibration(16)])
    assert -1 <= x.min() < -0.99
    assert 0.99 < x.max() < 1
    assert x.var().item() == pytest.approx(1 / 3, abs=0.02)


@pytest.mark.parametrize("name", NORMAL)
def test_normal_inputs(name: str) -> None:
    x = torch.cat([x.flatten() for (x,) in zoo.get(name).calibration(2)])
    assert x.mean().item() == pytest.approx(0, abs=0.01)
    assert x.std().item() == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("count", [0, -3])
def test_calibration_needs_a_positive_count(count: int) -> None:
    with pytest.raises(CortadoError, match=f"ds_cnn: asked for {count} calibration inputs"):
        zoo.get("ds_cnn").calibration(count)


@every_network
def test_labels_name_every_score(name: str, built: dict[str, nn.Module]) -> None:
    network = zoo.get(name)
    with torch.no_grad():
        scores = built[name](*network.example_inputs())
    named = name not in ("deep_autoencoder", "mobilenet_v2", "mobilenet_v3_small", "unet_small")
    assert (network.labels is not None) == named
    if network.labels is not None:
        assert scores.shape == (1, len(set(network.labels)))


def test_mobilenet_v3_small_has_the_resolutions_of_its_paper(built: dict[str, nn.Module]) -> None:
    """The baselines give no MACs for it; a wrong stride would leave the parameters as they are."""
    model = built["mobilenet_v3_small"]
    inputs = zoo.get("mobilenet_v3_small").example_inputs()[0]
    outputs = layer_outputs(model, (BottleneckBlock,), inputs)
    assert [output.shape[-1] for output in outputs.values()] == [56, 28, 28, 14, 14, 14, 14, 14, 7, 7, 7]
    assert zoo.get("mobilenet_v3_small").describe().macs == 56_510_400


def test_the_layers_that_only_two_networks_bring(built: dict[str, nn.Module]) -> None:
    ecg = {type(module) for module in built["ecg_conv1d"].modules()}
    assert {nn.Conv1d, nn.BatchNorm1d, nn.MaxPool1d, nn.AdaptiveAvgPool1d, nn.Linear} <= ecg
    unet = {type(module) for module in built["unet_small"].modules()}
    assert {nn.ConvTranspose2d, nn.Upsample, nn.MaxPool2d} <= unet
    with torch.no_grad():
        assert built["unet_small"](*zoo.get("unet_small").example_inputs()).shape == (1, 2, 64, 64)


@pytest.mark.parametrize(
    ("wrong", "meant"), [("mobilenet_v3", "mobilenet_v3_small"), ("MobileNet-V2", "mobilenet_v2"), ("dscnn", "ds_cnn")]
)
def test_unknown_name_suggests_the_closest(wrong: str, meant: str) -> None:
    with pytest.raises(CortadoError) as caught:
        zoo.get(wrong)
    message = str(caught.value)
    assert f"the zoo has no network called {wrong!r}" in message
    assert f"Did you mean {meant!r}?" in message
    assert ", ".join(NAMES) in message


def test_unknown_name_without_a_close_one_lists_all() -> None:
    with pytest.raises(CortadoError) as caught:
        zoo.get("gpt")
    assert "Did you mean" not in str(caught.value)
    assert ", ".join(NAMES) in str(caught.value)


def test_import_does_not_bring_torch() -> None:
    code = "import sys, cortado.models.zoo; cortado.models.zoo.get('ds_cnn'); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=1800, check=False).returncode == 0
