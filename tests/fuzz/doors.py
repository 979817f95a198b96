"""A combination checked: the model is made, and one door's figures and verdicts are held to a plain model of them.

The plain model is the module itself on fresh data, NumPy's limits of a type times a scale, files as they lie there, and
counts by hand. A refusal with a message counts as refused; any other exception, and any difference, is a bug.
"""

import copy
import itertools
import re
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

import cortado
from cortado.api import Compiled, prepare
from cortado.artifact.opened import PAGE, Artifact
from cortado.artifact.streamed import Recording, listen, push_rows
from cortado.base.errors import CortadoError
from cortado.exploring import estimate
from cortado.methods import CompiledMethods
from cortado.options import (
    Activations,
    Artifacts,
    Border,
    CalibrationMethod,
    LinearWeights,
    Optimize,
    Options,
    PackageKind,
    PteKind,
    Weights,
)
from cortado.plan.lowered import chosen_ends
from cortado.profile import profile
from cortado.run.toolchain import BuildError
from cortado.scoring.saturation import saturation
from cortado.scoring.validate import validate
from cortado.together import save_together
from fuzz.combinations import PACKAGES, Build, Combination, Door, Form, Product, Way
from fuzz.forms import Array, Model, model_of, with_call
from helpers import image_methods, images
from helpers.examples import decisions, driver, picture, printed, unit
from helpers.gdb_servers import emulated
from helpers.image_harness import run_image
from helpers.node import in_node
from helpers.onnx_models import exported
from helpers.saved import run_with_cuts
from helpers.selftests import run_there
from helpers.single import decibels

TARGET = "cortex-m4"
PROBE = "gdb:localhost:{}?flash=0x00000000:4M&ram=0x20000000:4M"
LEAST = {Way.INT16: 25.0, Way.MIXED: 12.0, Way.INT4: 3.0, Way.FLOAT32: 100.0}  # decibels beside the module
CALIBRATED, FRESH = range(36), range(100, 106)
CYCLES, FEW_CYCLES = 0.15, 1_500
"""By which an estimate may be off: a part (int4 layers of three channels are 12 percent high, all others within 10), or
so many cycles, of a network of a few small layers."""
CUTS = 4  # steps with a power cut before each


class Wrong(Exception):
    """A figure or a verdict that is not so."""


def expect(right: object, what: str) -> None:
    if not right:
        raise Wrong(what)


@dataclass(frozen=True)
class Made:
    """A compiled model, beside the module it was made of."""

    build: Build
    model: Model
    eager: nn.Module
    compiled: Compiled
    artifact: Artifact
    methods: CompiledMethods | None = None

    def given(self, seed: int) -> list[Array]:
        """The inputs of a seed; a method by itself takes the state that it reads behind them, as it is at first."""
        own = self.model.given(seed)
        return own if self.methods is None else [*own, *self.artifact.example()[len(own) :]]

    @property
    def samples(self) -> list[list[Array]]:
        """Fresh inputs: pictures of a camera, steps of one sequence, or windows."""
        if self.artifact.report.camera is not None:
            return [[picture(self.artifact, seed)] for seed in FRESH]
        return [self.given(seed) for seed in FRESH]

    @property
    def sequence(self) -> int | None:
        return len(FRESH) if self.artifact.report.state else None

    @cached_property
    def floats(self) -> list[list[Array]]:
        """What the module gives for these samples."""
        return self.run_eagerly(FRESH)

    def run_eagerly(self, seeds: Iterable[int]) -> list[list[Array]]:
        """Runs a copy of the module on the inputs of these seeds, one after the other; returns its outputs."""
        own = copy.deepcopy(self.eager)
        found = []
        with torch.no_grad():
            for sample in map(self.model.given, seeds):
                made = own(*map(torch.from_numpy, sample))
                found.append([one.numpy() for one in (made if isinstance(made, tuple) else (made,))])
        return found


# ---- making --------------------------------------------------------------------------------------------------------


def _options(build: Build, model: Model) -> Options:
    chosen: dict[str, Any] = {**model.options, "selftest": True, "artifacts": Artifacts.C}
    if model.sequence is not None:
        chosen["sequence"] = model.sequence
    ways: dict[Way, dict[str, Any]] = {
        Way.INT16: {"activations": Activations.INT16},
        Way.MIXED: {"int16": ("first", *chosen.get("int16", ()))},
        Way.INT4: {"weights": Weights.INT4},
        Way.FLOAT32: {"activations": Activations.FLOAT32, "weights": Weights.FLOAT32},
        Way.ISLANDS: {"float32": ("first",)},
        Way.ALLOWED: {"allow_float": True},
    }
    products: dict[Product, dict[str, Any]] = {
        Product.IMAGE: {"image": True},
        Product.CLASSIC: {"artifacts": Artifacts.BOTH},
        Product.DELEGATE: {"artifacts": Artifacts.BOTH, "pte": PteKind.DELEGATE},
        Product.MEMORY: {"memory": "fast=64,slow=16K"},
        **{one: {"package": (PackageKind(one.value),)} for one in PACKAGES},
    }
    return Options(**{**_beside_these(build), **chosen, **ways.get(build.way, {}), **products.get(build.product, {})})


def _beside_these(build: Build) -> dict[str, Any]:
    """Options that change no form, drawn by the seed."""
    rng = Random(build.seed + 1)
    found: dict[str, Any] = {
        "optimize": rng.choice(list(Optimize)),
        "calibration_method": rng.choice(list(CalibrationMethod)),
        "bias_correction": rng.random() < 0.5,
    }
    if build.way not in (Way.PREQUANTIZED, Way.FLOAT32) and rng.random() < 0.25:
        found["linear"] = LinearWeights.PER_TENSOR
    if build.way is Way.INT4 and rng.random() < 0.5:
        found["weight_group"] = 32
    if build.form is Form.STATE and build.way is not Way.FLOAT32 and rng.random() < 0.5:
        found["state"] = Activations.INT8
    if build.form in (Form.PLAIN, Form.STATE, Form.SEVERAL, Form.TRUTH) and rng.random() < 0.25:
        found["io"] = Border.FLOAT
    return found


def _as_it_comes(build: Build, model: Model, batches: Sequence[tuple[Tensor, ...]], folder: Path) -> Any:
    """The model in the form in which a user has it."""
    if build.way is Way.ONNX:
        return cortado.load_onnx(exported(model.module, batches[0], folder / "model.onnx"))
    if build.way is Way.PT2:
        path = folder / "model.pt2"
        torch.export.save(torch.export.export(model.module, batches[0]), path)
        return torch.export.load(path)
    if build.way is Way.PREQUANTIZED:
        return _prequantized(model.module, batches)
    return model.module


def _prequantized(module: nn.Module, batches: Sequence[tuple[Tensor, ...]]) -> ExportedProgram:
    """PT2E as a user writes it."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    from cortado.executorch import CortexMQuantizer

    ready = prepare_pt2e(torch.export.export(module, batches[0]).module(), CortexMQuantizer())
    for batch in batches:
        ready(*batch)
    return torch.export.export(convert_pt2e(ready), batches[0])


class LeftOut(Exception):
    """What no tool writes: torch can't export such a model in such a form."""


@contextmanager
def made(build: Build) -> Iterator[Made]:
    """A compiled model in a folder that is gone afterwards."""
    model = model_of(build.form, build.seed, own_layers=build.way is Way.ALLOWED)
    if build.way is Way.ALLOWED:
        model = with_call(model, build.seed)
    eager = copy.deepcopy(model.eager or model.module)
    batches = [tuple(map(torch.from_numpy, model.given(seed))) for seed in CALIBRATED]
    with tempfile.TemporaryDirectory(prefix="cortado-combined-") as temporary:
        folder = Path(temporary)
        options = _options(build, model)
        try:
            module = _as_it_comes(build, model, batches, folder)
        except CortadoError:
            raise
        except Exception as error:
            raise LeftOut(f"{type(error).__name__}: {error}".splitlines()[0]) from error
        if model.methods is not None:
            yield _made_of_methods(build, model, eager, module, options, folder)
            return
        data = () if build.way is Way.PREQUANTIZED else batches
        found = prepare(module, batches[0], data, "net", options=options).compile(TARGET, options)
        yield Made(build, model, eager, found, found.save(folder / "net"))


def _made_of_methods(
    build: Build,
    model: Model,
    eager: nn.Module,
    module: Any,
    options: Options,
    folder: Path,
) -> Made:
    """The methods as one bundle; doors are asked about `forward`, in the folder that it has by itself."""
    assert model.methods is not None
    calls, examples = model.methods.turns(CALIBRATED), model.methods.examples()
    found = cortado.compile_methods(module, examples, TARGET, calls, "net", options)
    found.save(folder / "net")
    artifact = Artifact.open(folder / "net" / "methods" / "forward")
    return Made(build, model, eager, found.methods["forward"], artifact, found)


# ---- what is made of it ----------------------------------------------------------------------------------------------


def check_product(one: Made) -> None:
    """The product itself gives the reference's bits, and the reference is the module's."""
    _check_values(one)
    artifact, report = one.artifact, one.artifact.report
    islands = one.build.way is Way.ALLOWED
    expect(bool(report.islands) == islands, f"{len(report.islands)} calls are listed as float32 by themselves")
    sizes = {path: (artifact.folder / path).stat().st_size for path in report.artifacts}
    if one.build.product is Product.IMAGE:
        found = artifact.reference(one.samples[:2]) if report.camera is None else None
        if one.methods is not None:
            assert one.model.methods is not None
            calls = one.model.methods.turns(FRESH)
            image_methods.check_calls(one.methods, one.methods.planned_for_host(), calls, "host")
        elif found is not None:
            image = images.of(one.compiled)
            ram = (image.head.arena_bytes, image.image.ram_bytes)
            ran = run_image(image.files, image.image.data, artifact.info, ram, found.feeds)
            expect(_same(ran.samples, found.expected), "the image gives other bits")
    if report.pte is not None:
        expect(
            report.pte.bytes == sizes[f"{report.prefix}.pte"], f"the .pte has {sizes}, the report {report.pte.bytes}"
        )
        if report.input_rows is None:
            ran_pte = artifact.run(one.samples[:3], "executorch", sequence=3 if report.state else None)
            expect(ran_pte.bit_exact or report.float_operators, "the .pte gives other bits")
    if one.build.product is Product.TOGETHER:
        _check_together(one)
    if one.build.product is Product.WEB:
        _check_page(one)
    if one.methods is not None:
        _check_methods(one)
    _check_bytes(one)


def _check_together(one: Made) -> None:
    """Beside another model it has the arena that it has alone, or shares the larger one, and both are right as their
    self-tests see them."""
    other, folder, shared = _beside(one), one.artifact.folder.parent / "all", one.build.seed % 2 == 0
    facts = save_together([one.methods or one.compiled, other], folder, shared_arena=shared)  # type: ignore[list-item]
    reports = [one.artifact.report, other.report]
    alone = [report.memory.arena_bytes if report.memory else 0 for report in reports]
    expect([model.arena_bytes for model in facts.models] == alone, "together they have other arenas")
    shares = [shared and not report.state and report.stream is None for report in reports]
    expect([model.shares_arena for model in facts.models] == shares, f"sharing an arena: {facts.models}, not {shares}")
    largest = max((size for size, one_of in zip(alone, shares, strict=True) if one_of), default=0)
    expect(facts.shared_arena_bytes == largest, f"{facts.shared_arena_bytes} bytes are shared, the largest {largest}")
    names = [*folder.glob("*.[chS]"), *(folder / "kernels").rglob("*.[chS]")]
    files = {str(path.relative_to(folder)): path.read_text() for path in names}
    with tempfile.TemporaryDirectory(prefix="cortado-combined-") as temporary:
        found = run_there(Path(temporary), files, TARGET, names=("net", "beside"))
    expect(found == 0, f"together a self-test of good code returns {found}")


def _beside(one: Made) -> Compiled:
    """A plain model for the same target."""
    model = model_of(Form.SEVERAL, one.build.seed)
    batches = [tuple(map(torch.from_numpy, model.given(seed))) for seed in range(8)]
    options = Options(artifacts=Artifacts.C, selftest=True)
    return cortado.compile(model.module, batches[0], TARGET, batches, "beside", options)


def _check_page(one: Made) -> None:
    """The module of the page gives the reference's codes."""
    if one.artifact.report.stream is not None or one.artifact.report.camera is not None:
        return  # which take one row, or a picture of bytes
    samples = one.samples[:3]
    found = in_node(
        one.artifact, [[value.ravel().tolist() for value in sample] for sample in samples], "model.run(one)"
    )
    expected = one.artifact.reference(samples, sequence=3 if one.sequence else None).expected
    wanted = [[np.asarray(value).ravel().tolist() for value in sample] for sample in expected]
    expect(found == wanted, "the page's module gives other codes")


def _check_methods(one: Made, on: str | None = "host") -> None:
    """Methods in turns, with one state: the reference's bits, and numbers like those of a plain model."""
    assert one.methods is not None
    assert one.model.methods is not None
    calls = one.model.methods.turns(FRESH)
    found = one.methods.run(calls, on)
    expect(found.bit_exact, f"methods give other bits on {on or 'the board'}")
    for (name, *_), outputs, plain in zip(calls, found.outputs, one.model.methods.plain(calls), strict=True):
        for made, wanted in zip(outputs, plain, strict=True):
            near = wanted.size == 0 or np.abs(made - wanted).max() <= one.model.methods.apart
            expect(near, f"{name} gives {made}, a plain model {wanted}")


def _same(found: Sequence[Sequence[Array]], wanted: Sequence[Sequence[Array]]) -> bool:
    return all(np.array_equal(a, b) for x, y in zip(found, wanted, strict=True) for a, b in zip(x, y, strict=True))


def _check_bytes(one: Made) -> None:
    """Sizes in the report are those of the header, and hold what they must."""
    report = one.artifact.report
    header, macro = (one.artifact.folder / f"{report.prefix}.h").read_text(), report.prefix.upper()
    assert report.memory is not None
    arena = int(re.findall(rf"#define {macro}_ARENA_BYTES (\d+)", header)[-1])
    expect(
        arena == max(report.memory.arena_bytes, 1), f"an arena of {arena}, the report says {report.memory.arena_bytes}"
    )
    for kind, tensors in (("INPUT", report.inputs), ("OUTPUT", report.outputs)):
        for number, tensor in enumerate(tensors):
            size = int(np.prod(tensor.shape)) * np.dtype(tensor.dtype.value).itemsize
            expect(f"#define {macro}_{kind}{number}_BYTES {size}\n" in header, f"{kind}{number} has not {size} bytes")


def _check_values(one: Made) -> None:
    """The reference beside the module, on fresh data."""
    if one.artifact.report.camera is not None:
        return
    expected = one.artifact.reference([one.given(seed) for seed in FRESH], sequence=one.sequence).expected
    count = len(one.floats[0])  # behind which a watched network says how unlike its input is
    expect(len(one.artifact.report.outputs) == count + (one.build.form is Form.WATCHED), "outputs more or fewer")
    for number in range(count):
        wanted = np.stack([sample[number] for sample in one.floats])
        found = np.stack([one.artifact.real(sample)[number] for sample in expected]).reshape(wanted.shape)
        if wanted.dtype == bool:
            expect((wanted == found.astype(bool)).mean() >= 0.7, f"output {number} agrees in too few values")
        else:
            kept = decibels(torch.from_numpy(wanted), torch.from_numpy(np.asarray(found)))
            expect(kept >= LEAST.get(one.build.way, 8.0), f"output {number} keeps {kept:.1f} dB of the module's")


# ---- doors -----------------------------------------------------------------------------------------------------------


def _host(one: Made) -> None:
    expect(one.artifact.run(one.samples, "host", sequence=one.sequence).bit_exact, "other bits on this machine")
    if one.artifact.report.stream is not None:
        _check_stream(one)
    elif one.artifact.report.decision is not None:
        _check_steps(one)


def _check_steps(one: Made) -> None:
    """Decisions over a longer sequence of steps, by hand."""
    steps = [one.given(seed) for seed in range(200, 224)]
    heard = listen(one.artifact, Recording(np.concatenate([step[0] for step in steps]), 10.0), "host")
    expected = one.artifact.reference(steps).expected
    scores = np.stack([outputs[0].reshape(-1) for outputs in expected])
    expect(np.array_equal(heard.scores, scores), "scores of a recording are not the reference's")
    plain, found = decisions(one.artifact, expected), [] if heard.decisions is None else heard.decisions.tolist()
    expect(found == plain, f"decided {found}, by hand {plain}")


def _check_stream(one: Made) -> None:
    """Outputs of a longer sequence: as many as there are windows, each that of its window; decisions by hand."""
    windows = one.artifact.report.stream
    assert windows is not None
    long = np.concatenate([one.given(seed)[0] for seed in (7, 8)], one.model.time)
    time = long.reshape(-1) if long.ndim == 2 else np.ascontiguousarray(long[0].transpose(1, 0, 2))
    count = len(time) // one.model.push
    found = push_rows(one.artifact, time, "host")
    expect(windows.hop_rows == one.model.hop_rows, f"a hop of {windows.hop_rows}, by hand {one.model.hop_rows}")
    ends = [row for row in range(count) if row >= windows.first_rows - 1]
    ends = [row for row in ends if (row + 1 - windows.first_rows) % one.model.hop_rows == 0]
    expect(list(found.ends) == ends, f"outputs with rows {list(found.ends)}, by hand {ends}")
    codes = []
    for number, end in enumerate(ends):
        begin = (end + 1 - windows.first_rows) * one.model.push
        length = one.given(7)[0].shape[one.model.time]
        window = np.take(long, range(begin, begin + length), one.model.time, mode="clip")
        expected = one.artifact.reference([[window]]).expected[0]
        codes.append(expected)
        same = np.array_equal(one.artifact.real(expected)[0].reshape(-1), found.every[0][number].reshape(-1))
        expect(same, f"output {number} is not that of the window from row {begin // one.model.push} on")
    if found.decisions is not None:
        plain = decisions(one.artifact, codes)
        expect(found.decisions.tolist() == plain, f"decided {found.decisions.tolist()}, by hand {plain}")


def _wasm(one: Made) -> None:
    expect(one.artifact.run(one.samples, "wasm", sequence=one.sequence).bit_exact, "other bits in WebAssembly")


def _saved(one: Made) -> None:
    """Steps with a power cut before each; what keeps nothing has nothing to save."""
    planned, graph = one.compiled.planned, one.compiled.graph
    assert planned is not None
    assert graph is not None
    if not one.artifact.report.state:
        texts = [path.read_text() for path in one.artifact.folder.glob("*.[ch]")]
        expect(not any("_save(" in text for text in texts), "without state there is something to save")
        return
    found = one.artifact.reference(one.samples[:CUTS], sequence=CUTS)
    with tempfile.TemporaryDirectory(prefix="cortado-combined-") as temporary:
        given = [[np.asarray(value) for value in feed] for feed in found.feeds]
        ran = run_with_cuts(Path(temporary), planned, given, None)
    expect(_same(ran, found.expected), "after a power cut it goes on differently")


def _board(one: Made) -> None:
    run = one.artifact.run(one.samples, check_stores=True, sequence=one.sequence)
    expect(run.bit_exact, "other bits on the board")
    expect((run.result.instructions or 0) > 0, "no instructions were counted")
    if one.methods is not None:
        _check_methods(one, None)


def _probe(one: Made) -> None:
    with emulated("mps2-an386") as port:
        samples = [one.given(seed) for seed in (100, 101)]  # a chip is given a network's own input
        run = one.artifact.run(samples, PROBE.format(port), sequence=2 if one.sequence else None)
    expect(run.bit_exact, "other bits on the chip")


def _profile(one: Made) -> None:
    sample = one.given(1) if one.artifact.report.camera is not None else one.samples[0]
    found = profile(one.artifact, [sample])
    expect(found.bit_exact, "a profile with other bits")
    spent = sum(layer.spent.instructions for layer in found.layers) + found.before.instructions
    expect(spent == found.timing.total.instructions, f"layers have {spent}, all {found.timing.total.instructions}")
    run = one.artifact.run([sample])
    expect(run.result.instructions == spent, f"a run takes {run.result.instructions}, a profile {spent}")


def _validate(one: Made) -> None:
    camera = one.artifact.report.camera is not None
    samples = [one.given(seed) for seed in FRESH] if camera else one.samples
    found = validate(one.artifact, samples, per_layer=True, sequence=one.sequence)
    wrong = {place.name: place.exact for place in found.places[1:] if place.exact != len(samples)}
    expect(not wrong, f"validate finds {wrong} of {len(samples)} exact")
    layers = [layer.name for layer in found.layers if any(layer.differing.values())]
    expect(not layers, f"validate calls {layers} different")


def _evaluate(one: Made) -> None:
    samples = [one.given(seed) for seed in FRESH]
    if len(samples[0]) > 1:
        return  # a dataset is of a model's own inputs, not of the state that a method reads
    arrays = np.concatenate([sample[0] for sample in samples])
    expected = one.artifact.reference(samples, sequence=one.sequence).expected
    if one.build.form in (Form.SEVERAL, Form.TRUTH):
        found = cortado.evaluate(one.artifact, arrays, model=one.eager)
        expect(not found.problems(), f"evaluate finds {found.problems()}")
        return
    real = np.concatenate([one.artifact.real(sample)[0].reshape(1, -1) for sample in expected])
    labels = np.concatenate([sample[0].reshape(1, -1) for sample in one.floats]).argmax(1)
    found = cortado.evaluate(one.artifact, arrays, labels, sequence=one.sequence)
    share = float((real.argmax(1) == labels).mean())
    expect(not found.problems(), f"evaluate finds {found.problems()}")
    expect(abs((found.accuracy or 0.0) - share) < 1e-9, f"evaluate says {found.accuracy}, by hand {share}")


def _selftest(one: Made) -> None:
    """The self-test of good code, of several methods that of all of them, on a board."""
    folder = one.artifact.folder
    names = [*folder.glob("*.[chS]"), *(folder / "kernels").rglob("*.[chS]")]
    files = {str(path.relative_to(folder)): path.read_text() for path in names}
    if one.methods is not None:
        files = dict(one.methods.bundle.files)
    with tempfile.TemporaryDirectory(prefix="cortado-combined-") as temporary:
        found = run_there(Path(temporary), files, TARGET)
    expect(found == 0, f"the self-test of good code returns {found}")


def _saturation(one: Made) -> None:
    samples = [one.given(seed) for seed in FRESH]
    found = {item.tensor: item for item in saturation(one.artifact, samples, one.sequence)}
    output = one.artifact.report.outputs[0]
    if output.scale is None:
        return
    codes = np.stack([sample[0] for sample in one.artifact.reference(samples, sequence=one.sequence).expected])
    limits = np.iinfo(codes.dtype)
    unit = one.build.form is Form.DECISION  # probabilities can't pass their range
    low = (codes == limits.min).sum() if output.zero_point != limits.min else 0
    by_hand = 0 if unit else int((codes == limits.max).sum() + low)
    said = found[output.node].saturated if output.node in found else 0
    if unit or output.node in chosen_ends(one.artifact.graph):  # what only moves values was counted before
        expect(said == by_hand, f"{said} of the output are saturated, by hand {by_hand}")
    expect(all(0 < item.saturated <= item.values for item in found.values()), "more are saturated than there are")


def _estimate(one: Made) -> None:
    """An estimate without data beside what was compiled and what the emulated core takes."""
    if one.methods is not None:
        _estimate_methods(one.methods, one.artifact.folder.parent)
        return
    report, sample = one.artifact.report, one.given(1)
    assert report.memory is not None
    other = one.build.way in (Way.PREQUANTIZED, Way.ONNX, Way.PT2)
    if other or one.build.product in (Product.CLASSIC, Product.DELEGATE):
        return  # an estimate is of a module's own C bundle
    options = replace(one.compiled.options, package=())
    found = estimate(one.eager, tuple(map(torch.from_numpy, sample)), target=TARGET, options=options)
    told = report.memory.arena_bytes
    if one.build.form is Form.WATCHED:  # how many classes are usual follows from data: an estimate takes the most
        expect(found.ram_bytes >= told, f"{found.ram_bytes} bytes of RAM are estimated, {told} planned")
        return
    if one.build.product is not Product.MEMORY:
        expect(found.ram_bytes == told, f"{found.ram_bytes} bytes of RAM are estimated, {told} planned")
    measured = profile(one.artifact, [sample]).timing.total.cycles.typical
    near = abs(found.cycles - measured) <= max(CYCLES * measured, FEW_CYCLES)
    expect(near or not found.estimated, f"{found.cycles} cycles are estimated, {measured:.0f} measured")


def _estimate_methods(methods: CompiledMethods, folder: Path) -> None:
    """Each method beside what the emulated core takes of the folder that it has by itself."""
    for name, found in methods.estimates().items():
        artifact = Artifact.open(folder / name)
        measured = profile(artifact, [artifact.example()]).timing.total.cycles.typical
        near = abs(found.cycles - measured) <= max(CYCLES * measured, FEW_CYCLES)
        expect(near, f"{name}: {found.cycles} cycles are estimated, {measured:.0f} measured")


def _page(one: Made) -> None:
    """Checks the ranges on the page: of codes what they can hold, of float32 what eager torch computes."""
    page = (one.artifact.folder / PAGE).read_text()
    layers = [layer for layer in one.artifact.report.layers if layer.scale is not None or layer.seen is not None]
    if not layers:
        expect('id="quantization"' not in page, "the page has a table of no scales")
        return
    body = page.split('id="quantization"')[1].split("<tbody>")[1].split("</tbody>")[0]
    rows = [
        [re.sub(r"<.*?>", "", cell) for cell in re.findall(r"<td.*?</td>", row, re.DOTALL)]
        for row in re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL)
    ]
    expect(len(rows) == len(layers), f"{len(rows)} rows for {len(layers)} layers")
    (example,) = one.run_eagerly([0])
    outputs = {told.node: value for told, value in zip(one.artifact.report.outputs, example, strict=False)}
    for layer, row in zip(layers, rows, strict=True):
        kind = str(one.artifact.graph.values[layer.name].dtype).removeprefix("torch.")
        expect(row[2] == kind, f"{layer.name}: the page says {row[2]}, expected {kind}")
        if layer.scale is not None:
            assert layer.zero_point is not None
            limits = np.iinfo(kind)
            ends = [f"{(code - layer.zero_point) * layer.scale:.4g}" for code in (limits.min, limits.max)]
            expect(row[5:7] == ends, f"{layer.name}: the page says {row[3:7]}, by hand {ends}")
        elif layer.name in outputs and one.build.way is Way.FLOAT32:
            eager = outputs[layer.name]
            near = np.allclose([float(end) for end in row[5:7]], [eager.min(), eager.max()], 2e-3, 1e-5)
            expect(near, f"{layer.name}: the page says {row[5:7]}, eager torch {eager.min():.4g}, {eager.max():.4g}")


def _example(one: Made) -> None:
    text, expected = driver(one.artifact, one.given)
    readme, name = (one.artifact.folder / "README.md").read_text(), one.artifact.report.prefix
    with tempfile.TemporaryDirectory(prefix="cortado-combined-") as temporary:
        found = printed(one.artifact.folder, {name: unit(name, readme, text)}, [name], Path(temporary) / "build")
    expect(found == {name: expected}, f"the example prints {found}, by hand {expected}")


DOORS: dict[Door, Callable[[Made], None]] = {
    Door.HOST: _host,
    Door.WASM: _wasm,
    Door.BOARD: _board,
    Door.PROBE: _probe,
    Door.PROFILE: _profile,
    Door.VALIDATE: _validate,
    Door.EVALUATE: _evaluate,
    Door.SELFTEST: _selftest,
    Door.SATURATION: _saturation,
    Door.ESTIMATE: _estimate,
    Door.PAGE: _page,
    Door.EXAMPLE: _example,
    Door.SAVED: _saved,
}


# ---- outcomes --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    """What came of a combination: nothing said is right."""

    combination: Combination
    refused: str = ""
    left_out: str = ""
    wrong: str = ""

    @property
    def right(self) -> bool:
        return self.outcome == "right"

    @property
    def outcome(self) -> str:
        said = {"wrong": self.wrong, "refused": self.refused, "left_out": self.left_out}
        return next((name for name, what in said.items() if what), "right")


def _outcome(combination: Combination, what: Callable[[], None]) -> Found:
    try:
        what()
    except BuildError as error:  # C that no compiler takes is no refusal
        return Found(combination, wrong=str(error))
    except CortadoError as error:
        return Found(combination, refused=str(error).splitlines()[0])
    except LeftOut as error:
        return Found(combination, left_out=str(error))
    except Wrong as error:
        return Found(combination, wrong=str(error))
    except Exception:
        return Found(combination, wrong=traceback.format_exc())
    return Found(combination)


def check(build: Build, doors: Sequence[Door]) -> list[Found]:
    """All doors of one build; where it can't be made, each of them has that outcome."""
    found: list[Found] = []
    combinations = [Combination(build, door) for door in doors]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")

        def every() -> None:
            with made(build) as one:
                check_product(one)
                for combination in combinations:
                    found.append(_outcome(combination, partial(DOORS[combination.door], one)))

        whole = _outcome(combinations[0], every)
    return found if whole.right else [replace(whole, combination=one) for one in combinations]


def check_all(combinations: Sequence[Combination]) -> Iterator[Found]:
    """Combinations of one build behind each other share it."""
    for build, group in itertools.groupby(combinations, key=lambda one: one.build):
        yield from check(build, [one.door for one in group])
