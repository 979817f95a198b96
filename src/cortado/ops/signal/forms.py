"""Spectra as models write them: the calls before and after a real FFT become one call.

Before it are frames of a signal, times a window; after it squares or magnitudes, sums of bins with constant weights,
and a logarithm, root or multiple of them, possibly with something added or clamped first. Which calls these are is
found by running them (probing.py): out = curve(bands @ |rfft(window * frames)|^p). The longest sequence of calls after
the FFT that has this form is taken.

Sums of a spectrum can be read only by functions that compress their range: a cube root of bands, or
`10 * log10(bands / bands.max())`. int8 codes of such sums resolve only the largest, codes of their logarithms all
alike. The sums become exp(logarithms), and the exponential and what follows it become a table of the logarithms. The
largest of the sums is the exponential of the largest logarithm.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from torch.fx import Node
from torch.fx.node import map_arg

from cortado.base.errors import Refused
from cortado.ir.facts import VALUE, dtype
from cortado.ir.graph import Bound, add_call, bind, describe, is_call, shape
from cortado.ir.op import Rewrite
from cortado.ops.elementwise.pointwise import is_pointwise, operands
from cortado.ops.float_graph import add_constant, add_permute, add_view, constant_data, is_constant, parts_of
from cortado.ops.probing import (
    CLOSE,
    Followed,
    Function,
    along,
    arranged,
    attempt,
    chain_to,
    close,
    moved_axes,
    region_behind,
)
from cortado.ops.signal.codes import SPECTRUM_OF, block_of
from cortado.ops.signal.fft import LONGEST, SHORTEST, is_length
from cortado.ops.signal.input_codes import KINDS, SAMPLES_OF
from cortado.ops.signal.spectrum import Curve, Power

aten = torch.ops.aten
Tensor = torch.Tensor

_EXACT = 1e-11  # float64 rounds
WAYS = (
    "supported are the magnitude (abs) and the power (abs() ** 2) of bins, their sums with constant non-negative "
    "weights, and their logarithm, square root or multiple"
)

# ---- after the FFT --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bands:
    """Sums of |X|^power; `axes` says where the dimensions of X except the last went."""

    end: Node
    power: int
    weights: Tensor
    axes: tuple[int | None, ...]
    silence: float  # the smallest sum if X is 0: a number that keeps a root away from 0, or a lower bound


@dataclass(frozen=True)
class Curved:
    """A curve of the sums, computed by `end`; `axes` says where the dimensions of the sums went."""

    end: Node
    fit: "Fit"
    axes: tuple[int | None, ...]


def _bands(region: Followed, sizes: Sequence[int]) -> tuple[Bands, Curved] | None:
    """Returns the last cut that computes such sums, and a curve of them. If its sums are not 0 for silence, an earlier
    cut whose curve reaches as far is preferred, because the curve then describes silence."""
    last: tuple[Bands, Curved] | None = None
    for end in reversed(region.cuts):
        value = VALUE.of(end)
        found = None
        if isinstance(value, Tensor) and not value.is_complex():
            found = _bands_at(region.to(end), end, sizes)
        if found is None:
            continue
        curved = _curved(found)
        if last is None or _reaches(region, curved.end, last[1].end):
            last = found, curved
        if not found.silence:
            break
    return last


def _reaches(region: Followed, end: Node, other: Node) -> bool:
    return region.calls.index(end) >= region.calls.index(other)


def _random(sizes: Sequence[int]) -> Tensor:
    """Returns complex numbers of many magnitudes and any phase."""
    rng = torch.Generator().manual_seed(26)
    length = torch.randn(*sizes, generator=rng, dtype=torch.float64).exp()
    return torch.polar(length, 6.3 * torch.rand(*sizes, generator=rng, dtype=torch.float64))


def _bands_at(function: Function, end: Node, sizes: Sequence[int]) -> Bands | None:
    probe = _random(sizes)
    once, twice = attempt(function, probe), attempt(function, 2 * probe)
    other = torch.polar(torch.ones(tuple(sizes), dtype=torch.float64), probe.abs())  # any phases
    turned = attempt(function, probe * other)
    if once is None or twice is None or turned is None or not float(once.abs().max()):
        return None
    largest = float(once.abs().max())
    power = 1 if float(twice.abs().max()) < 3 * largest else 2
    held = close(twice, 2.0**power * once, largest * CLOSE) and close(turned, once, largest * CLOSE)
    if not held or _adds(function, probe, power):
        return None
    axes = moved_axes(function, probe, range(len(sizes) - 1))
    weights = None if axes is None else _weights(function, sizes, axes)
    if axes is None or weights is None or float(weights.min()) < -CLOSE * float(weights.max()):
        return None
    expected, found = probe.abs() ** power @ weights.T, arranged(once, axes)
    if found is None or not close(found, expected, largest * CLOSE):
        return None
    silent = attempt(function, 0 * probe)
    silence = 0.0 if silent is None else max(float(silent.min()), 0.0)
    return Bands(end, power, weights.clamp(min=0), tuple(axes), silence)


def _adds(function: Function, probe: Tensor, power: int) -> bool:
    """Whether something is added to the bands, however small. For magnitudes the test uses large values: there the
    number that keeps a root away from 0 is invisible."""
    size = 1e-6 if power == Power.POWER else 1e3
    once, twice = attempt(function, size * probe), attempt(function, 2 * size * probe)
    if once is None or twice is None:
        return True
    return float((twice - 2.0**power * once).abs().max()) > _EXACT * float(twice.abs().max())


def _weights(function: Function, sizes: Sequence[int], axes: Sequence[int | None]) -> Tensor | None:
    """Returns the matrix [bands, bins], probing one bin for each frame at a time."""
    bins, at_once = sizes[-1], math.prod(sizes[:-1])
    columns = []
    for first in range(0, bins, at_once):
        count = min(at_once, bins - first)
        probe = torch.zeros(at_once, bins, dtype=torch.complex128)
        probe[torch.arange(count), first + torch.arange(count)] = 1
        result = attempt(function, probe.reshape(*sizes))
        found = None if result is None else arranged(result, axes)
        if found is None:
            return None
        columns.append(found.reshape(at_once, -1)[:count])
    return torch.cat(columns).T


_HIGHEST = 40.0  # the logarithm of a floor
_GRID = [10.0**power for power in (-12, -9, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 5, 8, 12, 16)]


def _curved(bands: Bands) -> Curved:
    """Returns the last cut after the sums that computes a curve of them; the sums themselves are one."""
    region, sizes = region_behind(bands.end), shape(bands.end)
    for end in reversed(region.cuts):
        found = _curve_at(region.to(end), end, sizes)
        if found is not None:
            return replace(found, fit=found.fit.above(bands.silence))
    return Curved(bands.end, Fit(Curve.LINEAR, 1.0), _same(bands))


def _same(bands: Bands) -> tuple[int | None, ...]:
    return tuple(range(len(shape(bands.end))))


def _curve_at(function: Function, end: Node, sizes: Sequence[int]) -> Curved | None:
    if math.prod(shape(end)) != math.prod(sizes):
        return None
    probe = torch.rand(*sizes, generator=torch.Generator().manual_seed(1), dtype=torch.float64) + 0.5
    axes = moved_axes(function, probe, range(len(sizes)))
    if axes is None:
        return None
    values = [_uniform(function, sizes, number) for number in _GRID]
    found = torch.tensor([value for value in values if value is not None], dtype=torch.float64)
    fit = _fitted(found, _uniform(function, sizes, 0.0)) if len(found) == len(_GRID) else None
    wide = 10.0 ** (28 * probe - 26)  # magnitudes from 1e-12 to 1e16: values must be independent
    result = attempt(function, wide)
    together = None if result is None else arranged(result, axes)
    if fit is None or together is None or not fit.holds(wide, together.reshape(wide.shape)):
        return None
    return Curved(end, fit, tuple(axes))


def _uniform(function: Function, sizes: Sequence[int], number: float) -> float | None:
    """Returns the number that the result has everywhere, if the operand has one number everywhere."""
    result = attempt(function, torch.full(tuple(sizes), number, dtype=torch.float64))
    if result is None or float(result.max() - result.min()) > 1e-9 * float(result.abs().max()):
        return None
    return float(result.flatten()[0])


@dataclass(frozen=True)
class Fit:
    """factor * curve(sums + floor) + offset; if `clamped`, factor * curve(max(sums, floor)) + offset."""

    curve: Curve
    factor: float
    offset: float = 0.0
    floor: float = 0.0
    clamped: bool = False

    def of(self, sums: Tensor) -> Tensor:
        kept = sums.clamp(min=self.floor) if self.clamped else sums + self.floor
        curves = {Curve.LOGARITHM: torch.log, Curve.ROOT: torch.sqrt}
        curved = curves[self.curve](kept) if self.curve in curves else kept
        return curved * self.factor + self.offset

    def above(self, silence: float) -> "Fit":
        """Returns the same for sums that are never below a number: a logarithm of 0 has no value."""
        bare = self.curve is Curve.LOGARITHM and not self.floor
        return replace(self, floor=silence, clamped=True) if bare and silence else self

    def holds(self, sums: Tensor, found: Tensor) -> bool:
        made = self.of(sums)
        beside = 1e-3 * self.factor if self.curve is Curve.LOGARITHM else 0.0
        return self.factor > 0 and bool(((made - found).abs() <= beside + CLOSE * made.abs()).all())


_NOTHING = 1e-9  # relative to a number: what was added to a sum of 1e12 doesn't change its logarithm by more


def _plain(number: float) -> float:
    """Returns the float32 number that this one nearly equals, for example 1 in log(1 + x), so that silence gives 0."""
    single = float(torch.tensor(number, dtype=torch.float32))
    return single if abs(single - number) < _NOTHING * abs(number) else number


def _fitted(found: Tensor, zero: float | None) -> Fit | None:
    """Returns a curve fitted to the values at the grid, and at 0."""
    last, before, at = float(found[-1]), float(found[-2]), _GRID[-1]
    fits = [Fit(Curve.LINEAR, last / at)]
    if zero is not None and zero >= 0 and last > 0:
        factor = last / math.sqrt(at)
        fits += [Fit(Curve.ROOT, factor, 0.0, (zero / factor) ** 2, clamped) for clamped in (False, True)]
    factor = _plain((last - before) / math.log(at / _GRID[-2]))
    offset = last - factor * math.log(at)
    offset = 0.0 if abs(offset) < _NOTHING * abs(last) else offset
    if factor > 0 and (zero is None or (zero - offset) / factor < _HIGHEST):
        floor = 0.0 if zero is None else math.exp((zero - offset) / factor)
        fits += [Fit(Curve.LOGARITHM, factor, offset, floor, clamped) for clamped in (False, True)]
    return next((fit for fit in fits if fit.holds(torch.tensor(_GRID, dtype=torch.float64), found)), None)


# ---- before the FFT -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Frames:
    """Frame y of an image is window * signal[y * hop + skip ...], after `lead` zeros."""

    signal: Node
    window: Tensor
    hop: int
    skip: int
    lead: int
    count: int
    emphasis: float = 0.0  # each sample has this multiple of the one before it subtracted; before the first is 0

    @property
    def end(self) -> int:
        """The position after the last sample that is read."""
        return (self.count - 1) * self.hop + self.skip + len(self.window)


def _frames(operand: Node, points: int) -> Frames:
    """Finds the earliest tensor that the FFT's operand holds windowed frames of."""
    chain = chain_to(operand)
    found = None
    for source in chain:
        if not isinstance(VALUE.of(source), Tensor) or not shape(source) or VALUE.must(source).is_complex():
            break
        frames = _frames_of(chain, source, points)
        found = frames if frames is not None else found
    assert found is not None  # the operand itself is a frame
    return found


def _frames_of(chain: Sequence[Node], source: Node, points: int) -> Frames | None:
    sizes, function = shape(source), along(chain, source)
    images, length = math.prod(sizes[:-1]), sizes[-1]
    if math.prod(shape(chain[0])[:-1]) % images:
        return None
    ones, numbers = torch.ones(sizes).double(), 1 + torch.arange(images * length).double().reshape(sizes)
    made = [attempt(function, probe) for probe in (ones, numbers, 0 * ones, -numbers)]
    if any(one is None for one in made):
        return None
    window, placed, silent, below = (
        one.reshape(images, -1, one.shape[-1])[..., :points] for one in made if one is not None
    )
    linear = close(below, -placed) and not float(silent.abs().max())
    if not linear or not bool((window == window[:1, :1]).all()):
        return None
    inside = window[0, 0] != 0
    if not bool(inside.any()):
        return None
    places = (placed[:, :, inside] / window[:, :, inside] - 1).round().to(torch.int64)
    count, skip = places.shape[1], int(places[0, 0, 0])
    hop = int(places[0, 1, 0]) - skip if count > 1 else length
    first, used = int(inside.nonzero()[0]), inside.nonzero().flatten()
    image, frame = torch.arange(images)[:, None, None] * length, torch.arange(count)[None, :, None] * hop
    moved = torch.equal(places, image + frame + (skip + used - first)[None, None])
    if hop < 1 or not moved or int(places.min()) < 0 or int(places.max()) >= len(numbers.flatten()):
        return None
    probe = _random(sizes).real  # rules out filters, which pass all tests so far: they map ramps to ramps
    windowed, any_signal = torch.zeros_like(window), attempt(function, probe)
    windowed[:, :, inside] = probe.flatten()[places] * window[:, :, inside]
    if any_signal is None or not close(any_signal.reshape(images, count, -1)[..., :points], windowed):
        return None
    last = int(used[-1])
    return Frames(source, window[0, 0, first : last + 1], hop, skip, first, count)


_NEAR = 12  # calls before frames that can be pre-emphasis


def _before_emphasis(frames: Frames) -> Frames:
    """Reads the original signal if frames are of a pre-emphasized one: a signal minus a part of itself one sample
    earlier. The kernel subtracts with more than 16 bits, and the difference is never stored."""
    made, node = frames.signal, frames.signal.prev
    for _ in range(_NEAR):
        if node.op == "root":
            break
        found = _emphasis(node, made, frames.end) if isinstance(VALUE.of(node), Tensor) and shape(node) else None
        if found is not None:
            gain, emphasis, shift = found
            window = frames.window * gain
            return replace(frames, signal=node, window=window, skip=frames.skip + shift, emphasis=emphasis)
        node = node.prev
    return frames


def _emphasis(source: Node, made: Node, end: int) -> tuple[float, float, int] | None:
    """Returns (g, a, m) if made[n] = g * (source[n + m] - a * source[n + m - 1]), up to sample `end`; the sample before
    the source is 0."""
    region, sizes = region_behind(source), shape(source)
    images, length = math.prod(sizes[:-1]), sizes[-1]
    shift = int(shape(made)[-1] < length)
    if made not in region.cuts or math.prod(shape(made)[:-1]) != images or not 3 <= end + shift <= length:
        return None
    probe, function = _random(sizes).real, region.to(made)
    found, silent = attempt(function, probe), attempt(function, 0 * probe)
    if found is None or silent is None or float(silent.abs().max()):
        return None
    signal = torch.nn.functional.pad(probe.reshape(images, length), (1, 0))
    now, before = (signal[:, first : first + end] for first in (1 + shift, shift))
    rest = found.reshape(images, -1)[:, :end]
    taps = torch.stack([now.flatten(), before.flatten()], 1)
    gain, part = torch.linalg.lstsq(taps, rest.flatten()).solution.tolist()
    held = 0 < abs(part) <= abs(gain) * (1 + CLOSE)
    if not held or not close(rest, gain * now + part * before, abs(gain) * float(now.abs().max())):
        return None
    return gain, _decimal(max(-1.0, min(-part / gain, 1.0))), shift


def _decimal(number: float) -> float:
    """Returns the decimal number that a float32 was written as."""
    return float(f"{number:.6g}")


def _signal(like: Node, frames: Frames) -> Frames:
    """Reads from 16-bit samples: conversions of an input, of integers or real numbers, and calls that only move it, are
    rewritten."""
    chain = chain_to(frames.signal)
    root = chain[-1]
    if root.op != "placeholder":
        return frames
    if not dtype(root).is_floating_point and dtype(root) not in KINDS:
        kinds = ", ".join(str(kind).removeprefix("torch.") for kind in KINDS)
        raise Refused(
            f"{describe(like)} reads samples of {str(dtype(root)).removeprefix('torch.')} (input '{root.name}'), "
            f"expected float32, {kinds}; convert them first",
            [like],
        )
    head = root
    gain, offset = 1.0, 0.0
    for node in reversed(chain[:-1]):
        line = _line(chain, root, node)
        if line is None:
            break
        head, (gain, offset) = node, line
    behind = list(reversed(chain[: chain.index(head)]))
    if offset and (dtype(root).is_floating_point or offset != round(offset)):
        raise Refused(
            f"{describe(like)} subtracts {offset:g} from '{root.name}', expected an integer offset of integer samples; "
            "leave it out"
        )
    gains = [_gain(chain, node) for node in behind]
    if any(one is None for one in gains):
        return frames
    found, last = {head: add_call(like, SAMPLES_OF, root, round(offset))}, head
    for node, factor in zip(behind, gains, strict=True):
        args, kwargs = map_arg((node.args, node.kwargs), lambda one: found.get(one, one))
        target: Any = node.target
        found[node] = found[last] if factor else add_call(like, target, *args, **kwargs)
        last = node
    scale = math.prod(factor or 1.0 for factor in gains)
    return replace(frames, signal=found[chain[0]], window=frames.window * gain * scale)


def _gain(chain: Sequence[Node], node: Node) -> float | None:
    """Returns the factor by which a call of a chain multiplies what it reads; 0 if it only moves it, None if it does
    anything else."""
    part = chain[chain.index(node) :]
    line = _line(part, part[1], node)
    if line is not None and not line[1]:
        return line[0]
    return 0.0 if _moves(part, part[1]) else None


def _line(chain: Sequence[Node], root: Node, node: Node) -> tuple[float, float] | None:
    """Returns (gain, offset) if a node is gain * (root - offset), element by element."""
    if shape(node) != shape(root):
        return None
    function = along(chain[chain.index(node) :], root)
    probe = torch.arange(math.prod(shape(root))).double().reshape(shape(root)) - math.prod(shape(root)) // 2
    zero, one, values = (attempt(function, value) for value in (0 * probe, 0 * probe + 1, probe))
    if zero is None or one is None or values is None or float(zero.max() - zero.min()):
        return None
    base = float(zero.flatten()[0])
    gain = float(one.flatten()[0]) - base
    whole = probe.numel() > 1 and close(values, gain * probe + base, abs(gain) * probe.numel())
    return (gain, -base / gain) if gain > 0 and whole else None


def _moves(chain: Sequence[Node], head: Node) -> bool:
    """Whether the first of a chain holds only values of `head`, moved, and zeros."""
    count = math.prod(shape(head))
    numbers = 1 + torch.arange(count).double().reshape(shape(head))
    there, below = (attempt(along(chain, head), sign * numbers) for sign in (1, -1))
    if there is None or below is None or not torch.equal(there, -below):
        return False
    return torch.equal(there, there.round()) and float(there.min()) >= 0 and float(there.max()) <= count


def _whole_blocks(like: Node, frames: Frames) -> tuple[Node, int]:
    """Returns the signal as [images, samples], a multiple of the hop or of a part of it, and the number of samples."""
    length = shape(frames.signal)[-1]
    signal = add_view(like, frames.signal, (math.prod(shape(frames.signal)[:-1]), length))
    if block_of(frames.hop, length, frames.skip + len(frames.window)) is not None:
        return signal, length
    wanted = -(-frames.end // frames.hop) * frames.hop
    if wanted <= length:
        return add_call(like, aten.slice.Tensor, signal, 1, 0, wanted), wanted
    return add_call(like, aten.constant_pad_nd.default, signal, [0, wanted - length], 0.0), wanted


# ---- the rewrite ---------------------------------------------------------------------------------------------

_GAINS = {0: lambda points: 1.0, 1: lambda points: points**-0.5, 2: lambda points: 1.0 / points}
_NORMS = {None: 0, "backward": 0, "ortho": 1, "forward": 2}


def of_rfft(bound: Bound) -> None:
    size = shape(bound["self"])[-1]
    points = int(bound["n"] or size)
    _take(bound, bound["dim"], points, _NORMS[bound["norm"]])


def of_r2c(bound: Bound) -> None:
    dims = bound["dim"]
    if not bound["onesided"] or len(dims) != 1:
        raise Refused(
            f"{describe(bound.node)} gives both halves of a spectrum, or the spectrum of an image; use torch.fft.rfft",
            [bound.node],
        )
    _take(bound, dims[0], shape(bound["self"])[-1], int(bound["normalization"]))


def of_stft(bound: Bound) -> None:
    """Rewrites torch.stft as frames, a window and an FFT, which is then recognized as a spectrum."""
    node, signal, points = bound.node, bound["self"], int(bound["n_fft"])
    if bound.get("onesided") is False or bound.get("align_to_window"):
        raise Refused(
            f"{describe(node)} gives both halves of a spectrum, or aligns frames to the window; leave out "
            "onesided=False and align_to_window=True",
            [node],
        )
    length = int(bound.get("win_length") or points)
    window = torch.ones(length) if bound.get("window") is None else _constant(node, bound["window"])
    left = (points - length) // 2
    padded = torch.nn.functional.pad(window.float(), (left, points - length - left))
    hop = int(bound.get("hop_length") or points // 4)
    frames = add_call(node, aten.unfold.default, signal, -1, points, hop)
    windowed = add_call(node, aten.mul.Tensor, frames, add_constant(node, "window", padded))
    norm = "ortho" if bound["normalized"] else None
    spectrum = add_call(node, aten.fft_rfft.default, windowed, points, -1, norm)
    result = add_call(node, aten.transpose.int, spectrum, -1, -2)
    if not VALUE.must(node).is_complex():
        result = add_call(node, aten.view_as_real.default, result)
    node.replace_all_uses_with(result)
    of_rfft(bind(spectrum))


def _constant(node: Node, window: Node) -> Tensor:
    if not is_constant(window):
        raise Refused(f"{describe(node)} has a window that depends on the input, expected a constant one", [node])
    return constant_data(window)


def _take(bound: Bound, dim: int, points: int, norm: int) -> None:
    """Replaces all calls that compute bands of a spectrum and a curve of them by one call."""
    node = bound.node
    if dim not in (-1, len(shape(node)) - 1):
        raise Refused(f"{describe(node)} works along dimension {dim}, expected the last; transpose its input", [node])
    if not is_length(points):
        raise Refused(
            f"{describe(node)} has {points} points, expected an even number 2^a * 3^b * 5^c from {SHORTEST} to "
            f"{LONGEST}; choose the next larger one (frames are padded with zeros: n_fft=...)",
            [node],
        )
    found = _bands(region_behind(node), shape(node))
    if found is None:
        raise Refused(f"{describe(node)} gives a spectrum that is used in an unsupported way; {WAYS}", [node])
    bands, curved = found
    frames = _signal(node, _before_emphasis(_frames(bound["self"], points)))
    signal, _ = _whole_blocks(node, frames)
    window = frames.window * _GAINS[norm](points)
    in_logarithms = None
    root = curved.fit.curve is Curve.ROOT and curved.end is not bands.end
    if curved.end is bands.end or root:
        largest = float(window.abs().sum() * (1 + abs(frames.emphasis))) ** bands.power * float(
            bands.weights.sum(1).max()
        )
        in_logarithms = compressed(bands.end, largest, root=root)
    if in_logarithms is not None:
        curved = Curved(bands.end, Fit(Curve.LOGARITHM, 1.0, 0.0, in_logarithms, clamped=True), _same(bands))
    result = add_call(
        node,
        SPECTRUM_OF,
        signal,
        add_constant(node, "window", window.to(torch.float32)),
        add_constant(node, "bands", bands.weights.to(torch.float32)),
        points,
        frames.hop,
        frames.skip,
        frames.lead,
        frames.count,
        frames.emphasis,
        bands.power,
        int(curved.fit.curve),
        curved.fit.factor,
        curved.fit.offset,
        curved.fit.floor,
        curved.fit.clamped,
    )
    result = _laid_out(node, result, bands, curved)
    if in_logarithms is not None:
        result = written_in_logarithms(bands.end, result)
    curved.end.replace_all_uses_with(result)
    for call in reversed([node, *region_behind(node).calls]):
        if not call.users:
            node.graph.erase_node(call)


def _laid_out(node: Node, result: Node, bands: Bands, curved: Curved) -> Node:
    """Returns the result in the layout of the last call's result."""
    leading = shape(node)[:-1]
    places = [None if axis is None else curved.axes[axis] for axis in bands.axes]
    taken = {axis for axis in bands.axes if axis is not None}
    rest = [axis for axis, size in enumerate(shape(bands.end)) if axis not in taken and size > 1]
    places.append(curved.axes[rest[0]] if rest else None)
    sizes = [*leading, shape(result)[-1]]
    kept = [dim for dim, place in enumerate(places) if place is not None]
    order = sorted(range(len(kept)), key=lambda one: places[kept[one]] or 0)
    moved = add_permute(node, add_view(node, result, [sizes[dim] for dim in kept]), order)
    return add_view(node, moved, shape(curved.end))


RFFT_REWRITE = Rewrite(aten=(aten.fft_rfft.default,), rewrite=of_rfft)
R2C_REWRITE = Rewrite(aten=(aten._fft_r2c.default,), rewrite=of_r2c)
STFT_REWRITE = Rewrite(aten=(aten.stft.default,), rewrite=of_stft)


# ---- functions that compress a range ----------------------------------------------------------------

_DECADES = [10.0**power for power in range(-8, 9)]
MOST_OF_IT = 0.85  # of a function's range, within one decade; a square root has 0.68, a linear function 0.9
_MORE_THAN_A_ROOT = 0.6
_LOGARITHMS: dict[Any, Any] = {
    aten.log.default: torch.log,
    aten.log10.default: torch.log10,
    aten.log2.default: torch.log2,
}
_QUIET, _UNSEEN, _SMALLEST = 1e-5, 1e-4, 1e-14  # relative to the largest sum, or to the function
_LARGEST = (aten.amax.default, aten.max.default, aten.max.dim)


def compressed(sums: Node, largest: float, *, root: bool) -> float | None:
    """Returns the smallest sum whose logarithm is needed, if all functions of single sums, or of the largest of them,
    compress; None otherwise. `largest`: the largest sum for a signal of amplitude 1. `root`: whether the sums' square
    root would do without logarithms, so that functions have to compress more than it does."""
    followed = _followed(sums)
    _part_quotients(sums, followed)
    followed = _followed(sums)
    ends = [node for node in followed if any(not _follows(user, node) for user in node.users)]
    functions = [_Function(Followed(sums, tuple(sorted(followed[1:])), ()), end) for end in ends]
    if not all(one.end is not sums and one.compresses() for one in functions):
        return None
    if root and any(one.loudest_decade(largest) > _MORE_THAN_A_ROOT for one in functions):
        return None
    return min(one.floor(largest) for one in functions)


def _followed(sums: Node) -> list[Node]:
    """Returns sums and the calls that are functions of each, or of the largest of them."""
    found = [sums]
    for node in found:
        found += [user for user in node.users if _follows(user, node) and user not in found]
    return found


def _part_quotients(sums: Node, followed: Sequence[Node]) -> None:
    """Writes the logarithm of a quotient of two functions of sums as a difference of logarithms: the quotient's codes
    would resolve only the largest."""
    region = Followed(sums, tuple(sorted(followed[1:])), ())
    for quotient in [user for node in followed for user in node.users if is_call(user, aten.div.Tensor)]:
        operands_of = [one for one in quotient.args if isinstance(one, Node) and one in followed]
        clamps = [user for user in quotient.users if _least(user) > 0.0]
        logarithms = [user for one in (quotient, *clamps) for user in one.users if is_call(user, *_LOGARITHMS)]
        alone = len(quotient.users) == 1 and len(logarithms) == sum(len(one.users) for one in clamps or [quotient])
        if len(operands_of) != 2 or not alone or any(_Function(region, one).least() < 0.0 for one in operands_of):
            continue
        for call in logarithms:
            with call.graph.inserting_before(call):
                call.replace_all_uses_with(_difference(call, operands_of, clamps))
            call.graph.erase_node(call)
        for call in (*clamps, quotient):
            call.graph.erase_node(call)


def _difference(logarithm: Node, parts: Sequence[Node], clamps: Sequence[Node]) -> Node:
    target: Any = logarithm.target
    above, below = (add_call(logarithm, target, part) for part in parts)
    found = add_call(logarithm, aten.sub.Tensor, above, below)
    for clamp in clamps:
        bound = _LOGARITHMS[target](torch.tensor(_least(clamp), dtype=torch.float64))
        found = add_call(logarithm, aten.clamp.default, found, float(bound))
    return found


def _least(node: Node) -> float:
    """Returns the number that a call keeps values above; 0 if it does something else."""
    if not is_call(node, aten.clamp.default, aten.clamp_min.default):
        return 0.0
    bound = bind(node)
    least = bound.get("min")
    return float(least) if isinstance(least, int | float) and bound.get("max") is None else 0.0


@dataclass(frozen=True)
class _Function:
    """The result of a call as a function of sums that are all the same number."""

    region: Followed
    end: Node

    def at(self, number: float) -> float | None:
        found = attempt(self.region.to(self.end), torch.full(shape(self.region.start), number, dtype=torch.float64))
        return None if found is None or not found.numel() else float(found.flatten()[0])

    def least(self) -> float:
        """Returns the smallest value of all magnitudes; minus infinity if one has none."""
        found = [self.at(number) for number in (0.0, *_DECADES)]
        return min((-math.inf if one is None else one for one in found), default=-math.inf)

    def compresses(self) -> bool:
        if self.end.target == aten.max.dim:
            return False
        values = [self.at(number) for number in _DECADES]
        found = [value for value in values if value is not None]
        steps = [after - before for before, after in pairwise(found)]
        rises = len(found) == len(_DECADES) and all(step >= 0 for step in steps)
        return rises and 0 < max(steps) <= MOST_OF_IT * (found[-1] - found[0])

    def loudest_decade(self, largest: float) -> float:
        """Returns the part of the range below the largest sum that its highest decade takes."""
        found = [value for value in (self.at(part * largest) for part in (1e-6, 0.1, 1.0)) if value is not None]
        return (found[2] - found[1]) / (found[2] - found[0]) if len(found) == 3 and found[2] > found[0] else 1.0

    def floor(self, largest: float) -> float:
        """Returns a sum so small that its function value can't be told from that of 0, relative to that of a quiet
        signal."""
        silent, quiet = self.at(0.0), self.at(_QUIET * largest)
        if silent is None or quiet is None:
            return _SMALLEST * largest
        for part in (10.0**-power for power in range(6, 36)):
            found = self.at(part * largest)
            if found is None or found - silent <= _UNSEEN * (quiet - silent):
                return part * largest
        return _SMALLEST * largest


def _follows(user: Node, node: Node) -> bool:
    """Whether a call is a function of each number, or takes the largest and only its value is read."""
    if is_call(user, aten.max.dim):
        return not parts_of(user, 1)
    if node.target == aten.max.dim:
        return True
    return is_call(user, *_LARGEST) or (is_pointwise(user) and operands(user) == [node])


def written_in_logarithms(sums: Node, logarithms: Node) -> Node:
    """Returns the exponential of logarithms, which replaces the sums; a maximum of the sums is taken of the logarithms
    instead, before the calls that lead to it."""
    for node, chain in list(_largest_of(sums, [])):
        found = _largest(node, logarithms)
        for call in [None, *chain]:
            found = add_call(node, aten.exp.default, found) if call is None else _again(call, found)
        given = parts_of(node, 0) if is_call(node, aten.max.dim) else [node]
        for one in given:
            one.replace_all_uses_with(found)
    return add_call(logarithms, aten.exp.default, logarithms)


def _largest_of(node: Node, chain: Sequence[Node]) -> list[tuple[Node, Sequence[Node]]]:
    """Finds the calls that take the largest value of a chain of functions of a node."""
    found: list[tuple[Node, Sequence[Node]]] = []
    for user in node.users:
        if is_call(user, *_LARGEST):
            found.append((user, chain))
        elif _follows(user, node):
            found += _largest_of(user, [*chain, user])
    return found


def _largest(node: Node, source: Node) -> Node:
    bound = bind(node)
    dims = bound.get("dim", [])
    given = [dims] if isinstance(dims, int) else list(dims)
    return add_call(node, aten.amax.default, source, given, bool(bound.get("keepdim", False)))


def _again(call: Node, source: Node) -> Node:
    """Adds the same call on another tensor."""
    (operand,) = operands(call)
    args = [source if one is operand else one for one in call.args]
    return add_call(call, call.target, *args, **call.kwargs)
