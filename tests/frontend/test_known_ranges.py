"""Ranges that are known are not guessed: what is computed from samples has the range that is proven."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from cortado.api import prepare
from cortado.base.errors import CortadoError
from cortado.frontend.quantize.observers import KnownRange
from cortado.frontend.quantize.prequantized import is_quantize, qparams_of
from cortado.options import Artifacts, Options
from helpers.single import Expression

pytestmark = pytest.mark.filterwarnings("ignore::cortado.base.errors.CortadoWarning")


def emphasized(x: Tensor) -> Tensor:
    """A filter that is no part of the frame."""
    samples = x.float() / 32768 if not x.is_floating_point() else x
    front = torch.cat([samples[:, :2], samples[:, 2:] - 0.97 * samples[:, :-2]], 1)
    spectrum = torch.stft(front, 64, 64, 64, torch.hann_window(64), center=False, return_complex=True)
    return torch.log(spectrum.abs().square() + 1e-6)


def sounds(loud: float) -> list[tuple[Tensor]]:
    rng = torch.Generator().manual_seed(0)
    return [((loud * 32767 * (2 * torch.rand(1, 128, generator=rng) - 1)).to(torch.int16),) for _ in range(32)]


def ends(function: Callable[[Tensor], Tensor], data: list[tuple[Tensor]], **given: Any) -> dict[str, float]:
    """The largest magnitude that each tensor of 16 bits has codes for."""
    made = prepare(Expression(function), data[0], data, options=Options(artifacts=Artifacts.C, **given)).quantized
    places = [node for node in made.converted.graph.nodes if is_quantize(node) and torch.int16 in node.args]
    return {node.all_input_nodes[0].name: 32768 * qparams_of(node).scale for node in places}


@pytest.mark.parametrize("loud", [1.0, 0.2])
def test_samples_of_16_bits_keep_all_bits_and_a_filter_has_its_proven_range(loud: float) -> None:
    found = ends(emphasized, sounds(loud))
    assert found["to_dtype_1"] == 32768  # a step of 1: each sample is a code
    assert found["pointwise_default"] == pytest.approx(1)
    assert found["sub"] == found["cat"] == pytest.approx(1.97, rel=1e-3)


def test_real_samples_that_were_integers_are_known_by_their_steps() -> None:
    data = [(one.float() / 32768,) for (one,) in sounds(0.5)]
    assert ends(emphasized, data)["sub"] == pytest.approx(1.97, rel=1e-3)
    found = ends(emphasized, finer(data))
    assert found["sub"] > 2.5  # nothing is known: four times what was seen
    assert found["inputs_0"] == pytest.approx(0.75, rel=0.02)  # all samples are as loud as one another


@pytest.mark.parametrize(("loud", "reach"), [(0.9, 1.0), (0.5, 0.75), (1.2, 1.8)])
def test_real_samples_that_nearly_fill_one_are_sound_of_that_full_scale(loud: float, reach: float) -> None:
    data = [
        (loud * (2 * torch.rand(1, 128, generator=torch.Generator().manual_seed(number)) - 1),) for number in range(32)
    ]
    found = ends(emphasized, data)
    assert found["inputs_0"] == pytest.approx(reach, rel=0.02)
    assert (found["sub"] == pytest.approx(1.97, rel=1e-3)) is (loud == 0.9)


def finer(data: list[tuple[Tensor]]) -> list[tuple[Tensor]]:
    return [(one + 1e-6,) for (one,) in data]


def test_real_samples_have_the_range_that_is_promised() -> None:
    data = finer([(one.float() / 32768,) for (one,) in sounds(0.2)])
    found = ends(emphasized, data, range=("inputs_0=-1..0.5",))
    assert found["inputs_0"] == pytest.approx(1)  # samples of 16 bits, divided, are codes
    assert found["sub"] == found["cat"] == pytest.approx(1.97, rel=1e-3)
    with pytest.raises(CortadoError, match=r"=-0.1..0.1: the example inputs hold -0.1\d+ to 0.1\d+ in 'inputs_0'"):
        ends(emphasized, data, range=("inputs_0=-0.1..0.1",))


@pytest.mark.parametrize(("loudest", "second", "room"), [(3.0, 3.0, 1.5), (4.0, 2.0, 2.0), (4.0, 0.5, 4.0)])
def test_room_above_an_input_is_what_its_furthest_sample_shows(loudest: float, second: float, room: float) -> None:
    rng = torch.Generator().manual_seed(0)
    data = [(torch.rand(1, 16, generator=rng).clamp(max=0.4),) for _ in range(32)]
    data[3][0][0, 0], data[7][0][0, 5] = loudest, -second
    found = ends(lambda x: x * 0.3 + 0.1, data, activations="int16")
    assert found["inputs_0"] == pytest.approx(room * loudest, rel=1e-4)


def test_of_few_samples_an_input_has_the_room_of_other_tensors() -> None:
    data = [(torch.rand(1, 16),) for _ in range(7)]
    largest = max(float(one.max()) for (one,) in data)
    assert ends(lambda x: x * 0.3 + 0.1, data, activations="int16")["inputs_0"] == pytest.approx(4 * largest, rel=1e-4)


def test_a_range_has_room_above_what_was_seen_and_never_more_than_is_proven() -> None:
    assert KnownRange(-10.0, 10.0, louder=1.0).within(-4.0, 4.0) == (-4.0, 4.0)
    assert KnownRange(-1.97, 1.97, louder=1.0).within(-4.0, 4.0) == (-1.97, 1.97)
    assert KnownRange(-1.97, 1.97, louder=10.0).within(-0.1, 0.1) == (-1.0, 1.0)  # calibration was that quiet
