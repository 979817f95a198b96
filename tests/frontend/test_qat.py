"""Quantization-aware training: a module that trains as any other, and compiles to what it gave in evaluation."""

import numpy as np
import pytest
import torch
from torch import nn
from torchao.quantization.pt2e import disable_observer
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_qat_pt2e

from cortado.api import compile, prepare, prepare_qat
from cortado.base.errors import CortadoError
from cortado.frontend.quantize.qat import QatModel
from cortado.frontend.quantize.quantizer import CortexMQuantizer
from cortado.frontend.quantize.training import PerChannelFakeQuantize
from cortado.options import Artifacts, Options, Weights
from helpers.digits import accuracy, digits, train, trained
from helpers.fake import keep
from helpers.single import images, rejected, seeded
from helpers.stateful import decibels

EXAMPLE = (torch.zeros(1, 1, 8, 8),)


@pytest.fixture(scope="module")
def qat() -> QatModel:
    """A trained network, trained on with int8's rounding."""
    model = prepare_qat(trained(), EXAMPLE)
    train(model, 1, rate=5e-4)
    return model.eval()


@pytest.mark.host
def test_what_is_compiled_gives_what_was_trained(qat: QatModel) -> None:
    data = digits()
    compiled = compile(qat, EXAMPLE, "cortex-m4", name="digits")
    found = compiled.evaluate(data.test, data.labels).accuracy
    assert found is not None
    assert abs(found - accuracy(qat)) <= 0.002
    assert found > accuracy(trained()) - 0.01
    samples = data.test[:200]
    kept = keep(qat, *EXAMPLE)
    with torch.no_grad():
        apart = torch.cat([kept.steps_apart(sample) for sample in samples.split(1)])
    assert float((apart < 1.001).double().mean()) > 0.99
    assert float((apart < 0.5).double().mean()) > 0.9


@pytest.mark.cases(1)
@pytest.mark.host
@pytest.mark.parametrize(
    ("kind", "expected", "least"), [({"weights": "int4"}, "int4", 0.002), ({"activations": "int16"}, "int16", 0.001)]
)
def test_other_elements_are_trained_and_kept(kind: dict[str, str], expected: str, least: float) -> None:
    """int4 weights have the codes of the training; int16 is all but float."""
    data = digits()
    model = prepare_qat(trained(), EXAMPLE, **kind)
    train(model, 1, rate=5e-4)
    model.eval()
    compiled = compile(model, EXAMPLE, "cortex-m4", name="digits", options=Options(artifacts=Artifacts.C, **kind))  # type: ignore[arg-type]
    found = compiled.evaluate(data.test, data.labels).accuracy
    assert found is not None
    assert abs(found - accuracy(model)) <= least
    assert found > accuracy(trained()) - 0.02
    assert compiled.graph is not None
    elements = {one.element for one in compiled.report.weights} | {
        str(one.element) for one in compiled.graph.values.values()
    }
    assert any(expected in one for one in elements)


@pytest.mark.host
def test_recurrent_layers_are_trained_with_int4_weights() -> None:
    """And have the codes of the training."""

    class Steps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cells, self.out = nn.GRU(12, 16, batch_first=True), nn.Linear(16, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            scores: torch.Tensor = self.out(self.cells(x)[0])
            return scores

    torch.manual_seed(0)
    samples, fresh = torch.randn(32, 6, 12), torch.randn(8, 6, 12)
    model = prepare_qat(Steps(), (samples[:1],), weights="int4")
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(4):
        optimizer.zero_grad()
        (model(samples) - samples[:, :, :4]).square().mean().backward()
        optimizer.step()
    model.eval()
    options = Options(artifacts=Artifacts.C, weights=Weights.INT4)
    compiled = compile(model, (samples[:1],), "cortex-m4", name="steps", options=options)
    assert {one.element for one in compiled.report.weights} == {"int4"}
    wanted = model(fresh).detach().numpy()
    assert decibels(wanted, np.asarray(compiled.run(fresh, on="host").outputs[0]).reshape(wanted.shape)) > 35


def test_elements_that_can_not_be_trained_are_named() -> None:
    with pytest.raises(CortadoError, match=r"weights='auto' is chosen when a model is compiled; expected 'int8' or"):
        prepare_qat(trained(), EXAMPLE, weights="auto")
    with pytest.raises(CortadoError, match=r"--weights int4 and --activations int16"):
        prepare_qat(trained(), EXAMPLE, weights="int4", activations="int16")


def test_the_graph_is_that_of_post_training_quantization(qat: QatModel) -> None:
    few = [(sample,) for sample in digits().train[:4].split(1)]
    own = prepare(trained(), few[0], few, "digits").compile("cortex-m4")
    taken = prepare(qat, few[0], name="digits").compile("cortex-m4")
    assert taken.report.operators == own.report.operators
    assert taken.report.memory == own.report.memory
    assert taken.bundle is not None
    assert own.bundle is not None
    assert taken.bundle.calls == own.bundle.calls


def test_training_changes_weights_and_scales_follow_them() -> None:
    model = prepare_qat(
        seeded(nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU())), images()[0]
    )
    parameters = dict(model.named_parameters())
    assert sorted(tuple(value.shape) for value in parameters.values()) == [(4,), (4, 3, 3, 3)]  # the norm is folded
    before = {name: value.detach().clone() for name, value in parameters.items()}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    batch = torch.cat([x for (x,) in images(3)])
    model(batch).square().mean().backward()
    assert all(value.grad is not None and bool(value.grad.abs().sum() > 0) for value in parameters.values())
    optimizer.step()
    assert all(not torch.equal(parameters[name], before[name]) for name in parameters)
    (weights,) = [one for one in model.modules() if isinstance(one, PerChannelFakeQuantize)]
    model.eval()
    model(batch)
    wanted = parameters[next(name for name in parameters if parameters[name].dim() == 4)].detach()
    assert weights.scale.shape == (4,)
    assert torch.allclose(weights.scale, wanted.abs().flatten(1).amax(1) / 127)


def test_evaluation_leaves_the_ranges_alone() -> None:
    model = prepare_qat(seeded(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())), images()[0])
    model(*images()[0])
    state = {name: value.clone() for name, value in model.eval().state_dict().items()}
    assert not model.training
    model(100 * images()[1][0])
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    model.train()(100 * images()[1][0])
    assert any(not torch.equal(value, state[name]) for name, value in model.state_dict().items())


def test_torchaos_own_prepare_takes_the_quantizer() -> None:
    """Exported for training, batch norm and all, for any batch; converted by Cortado, or by the user."""
    layers = [nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(), nn.Flatten(), nn.Linear(144, 3)]
    model, batch = seeded(nn.Sequential(*layers)).train(), torch.cat([x for (x,) in images(3)])
    program = torch.export.export(model, (batch,), dynamic_shapes=({0: torch.export.Dim("batch")},))
    prepared = prepare_qat_pt2e(program.module(), CortexMQuantizer(is_qat=True))
    optimizer = torch.optim.SGD(prepared.parameters(), lr=0.01)
    for samples in (batch, -batch, batch[:2]):
        optimizer.zero_grad()
        prepared(samples).square().mean().backward()
        optimizer.step()
    prepared.apply(disable_observer)
    found = keep(prepared, *images()[0])
    assert found.kernels.count("quantized_conv2d_nhwc") == 2
    assert found.off(images())[0] < 1.001
    again = keep(convert_pt2e(prepared), *images()[0])
    assert again.graph.calls == found.graph.calls
    assert again.off(images())[0] < 1.001


def test_what_was_not_trained_is_told() -> None:
    model = prepare_qat(seeded(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())), images()[0])
    message = rejected(model, *images()[0])
    assert "no values were observed for this tensor, expected a trained model" in message
    with pytest.raises(
        CortadoError, match=r"prepared for inputs of shapes \[\(1, 3, 8, 8\)\], found \[\(1, 5, 8, 8\)\]"
    ):
        model(torch.zeros(1, 5, 8, 8))
    model(*images()[0])
    converted = prepare(model, images()[0]).quantized.converted
    with pytest.raises(CortadoError, match="the model is quantized already, expected a float model to train"):
        prepare_qat(converted, images()[0])
