"""--allow-float in the C bundle: what no integer operator takes is float32 between integers, and is listed."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from cortado.api import prepare
from cortado.artifact.page import build_page
from cortado.base.errors import CortadoError
from cortado.compiled import Compiled
from cortado.options import Artifacts, Options
from helpers.cores import THREE, each_core
from helpers.single import decibels

pytestmark = pytest.mark.filterwarnings("ignore::cortado.base.errors.CortadoWarning")  # few samples, no float unit
ALLOWED = Options(allow_float=True, artifacts=Artifacts.C)


class Islands(nn.Module):
    """Integer layers around products along a dimension, a norm of a state, a spectrum of eight points."""

    level: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(2, 8, 3), nn.Conv2d(8, 2, 1)
        self.register_buffer("level", torch.zeros(1, 8))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        seen = torch.relu(self.first(x))
        means = torch.cumprod(seen.mean((2, 3)) + 0.5, 1)
        self.level = self.level * 0.5 + means
        length = torch.linalg.norm(self.level, 3, dim=1, keepdim=True)
        bins = torch.fft.rfft(self.level)
        out: Tensor = self.last(seen * (self.level / (length + 1))[:, :, None, None])
        return out, torch.cat([bins.real, bins.imag], 1)


def batches(seed: int) -> Tensor:
    return torch.randn(12, 1, 2, 6, 6, generator=torch.Generator().manual_seed(seed))


def model() -> Islands:
    torch.manual_seed(2)
    return Islands().eval()


def compiled(target: str, given: Tensor, options: Options = ALLOWED) -> Compiled:
    return prepare(model(), (given[0],), [(one,) for one in given], options=options).compile(target, options)


@pytest.mark.qemu
@pytest.mark.parametrize("target", each_core(*THREE, here="cortex-m4"))
def test_an_island_runs_among_integers(target: str) -> None:
    found = compiled(target, batches(0))
    listed = {one.operator: one for one in found.report.islands}
    assert set(listed) == {"aten.cumprod.default", "aten.linalg_norm.default", "aten.fft_rfft.default"}
    assert all(one.layers and one.estimated_cycles for one in listed.values())
    assert all("test_float32_islands.py:" in (one.source or "") for one in listed.values())
    assert "no integer operator" in listed["aten.cumprod.default"].reason
    elements = {layer.element.value for layer in found.report.layers if layer.macs and layer.element is not None}
    assert elements == {"int8", "float32"}  # the convolutions, and the spectrum as a product
    given = batches(5)
    checked, eager = found.run(given), model()
    with torch.no_grad():
        wanted: Sequence[tuple[Tensor, ...]] = [eager(one) for one in given]
    assert checked.bit_exact
    for want, got in zip(zip(*wanted, strict=True), checked.outputs, strict=True):
        assert decibels(torch.stack(want).flatten(), torch.as_tensor(got).flatten()) > 25


def test_what_is_computed_in_float32_is_told_with_its_cycles() -> None:
    text = build_page(compiled("cortex-m4", batches(0)).report)
    assert "In float32" in text
    assert "aten.cumprod.default at " in text


class AngleOrProduct(nn.Module):
    """An angle, for which ExecuTorch has a float kernel, or running products, for which it has none."""

    def __init__(self, *, running: bool) -> None:
        super().__init__()
        self.running, self.last = running, nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(torch.cumprod(x, 1) if self.running else torch.atan2(x, x.flip(1)))
        return out


@pytest.mark.parametrize("running", [False, True], ids=["atan2", "cumprod"])
@pytest.mark.parametrize("more", [{}, {"chip": "nrf52840"}, {"image": True}, {"activations": "int16"}], ids=str)
def test_an_island_goes_with_options_of_the_c_bundle_and_a_pte(more: dict[str, Any], running: bool) -> None:
    """The .pte has float kernels of ExecuTorch's in the island's place, or says why there is none."""
    torch.manual_seed(1)
    given = torch.rand(16, 1, 6) + 0.5
    options = Options(allow_float=True, **more)
    prepared = prepare(AngleOrProduct(running=running).eval(), (given[0],), [(one,) for one in given], options=options)
    found = prepared.compile("cortex-m4", options)
    assert len(found.report.islands) == 1
    assert found.run(given[0], on="host").bit_exact
    written = not running and "activations" not in more
    assert (found.pte is not None) == written
    assert written or any(("cumprod" if running else "int16") in why for why in found.report.pte_missing)


def test_without_the_option_a_refusal_names_it() -> None:
    with pytest.raises(CortadoError, match=r"--allow-float .* computes this in float32 in the C bundle"):
        compiled("cortex-m4", batches(0), Options(artifacts=Artifacts.C))


class Best(nn.Module):
    """A layer in float32, and integers that read its numbers as they lie."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        scores = self.layer(x)
        return scores.argmax(1), scores.flip(1)


@pytest.mark.host
def test_a_number_in_float32_is_read_by_what_only_moves_and_compares() -> None:
    given = torch.randn(6, 1, 6, generator=torch.Generator().manual_seed(3))
    options = Options(float32=("layer",), artifacts=Artifacts.C)
    made = prepare(Best(), (given[0],), [(one,) for one in given], options=options).compile("cortex-m4", options)
    assert made.run(given, on="host").bit_exact


class Loudness(nn.Module):
    """A module to be kept in float32, behind samples that the model scales outside of it."""

    def __init__(self) -> None:
        super().__init__()
        self.front, self.last = nn.Sequential(nn.Linear(32, 16), nn.Tanh()), nn.Linear(16, 4)

    def forward(self, sound: Tensor) -> Tensor:
        scores: Tensor = self.last(self.front(sound.float() / 32768 * 8))
        return scores


@pytest.mark.host
def test_samples_on_the_way_to_float32_are_not_rounded_to_codes() -> None:
    """Quiet samples beside loud ones would be lost in 8 bits before the float32 module reads them."""
    torch.manual_seed(4)
    loud = 10 ** (torch.rand(48, 1, 1) * 4)
    given = (torch.randn(48, 1, 32) * loud).clamp(-32768, 32767).to(torch.int16)
    whole, kept = Loudness().eval(), Options(float32=("front.*", "last"), artifacts=Artifacts.C)
    made = prepare(whole, (given[0],), [(one,) for one in given[:40]], options=kept).compile("cortex-m4", kept)
    assert "quantize_int" not in str(made.report.operators)
    with torch.no_grad():
        for one in given[40:]:
            wanted = whole(one)
            checked = made.run(one, on="host")
            assert checked.bit_exact
            assert decibels(wanted, torch.as_tensor(checked.outputs[0]).reshape(wanted.shape)) > 30


class Determinant(nn.Module):
    """Neither an integer operator nor one of float32."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return torch.linalg.det(self.linear(x))


def test_what_float32_has_not_either_stays_refused() -> None:
    x = torch.randn(3, 3, generator=torch.Generator().manual_seed(1))
    with pytest.raises(CortadoError, match="no integer operator for it"):
        prepare(Determinant(), (x,), [(x,)], options=ALLOWED).compile("cortex-m4", ALLOWED)


class Louder(nn.Module):
    """A sound whose spectrum is weighted, by istft, whose decomposition in torch asks for values of its window."""

    window: Tensor
    weights: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(16))
        self.register_buffer("weights", torch.linspace(1.0, 0.2, 9)[:, None])

    def forward(self, x: Tensor) -> Tensor:
        spectrum = torch.stft(x, 16, 8, window=self.window, return_complex=True)
        return torch.istft(spectrum * self.weights, 16, 8, window=self.window, length=x.shape[-1])


def test_an_inverse_transform_of_frames_is_an_island() -> None:
    given = torch.randn(8, 1, 48, generator=torch.Generator().manual_seed(4))
    samples = [(one,) for one in given]
    with pytest.raises(CortadoError, match="--allow-float"):
        prepare(Louder(), samples[0], samples, options=Options(artifacts=Artifacts.C))
    found = prepare(Louder(), samples[0], samples, options=ALLOWED).compile("cortex-m4", ALLOWED)
    checked = found.run(*(torch.stack([one for (one,) in samples[:2]]),), on="host")
    assert checked.bit_exact
    wanted = torch.cat([Louder()(one) for one in given[:2]])
    assert decibels(wanted.flatten(), torch.as_tensor(checked.outputs[0]).flatten()) > 25
